/* SPDX-License-Identifier: MIT
 *
 * Code objects: an AMDGPU ELF (code object v4, v5, v6) loaded into host memory, its kernels and its symbols. */
#ifndef RFG_EMU_CODE_H
#define RFG_EMU_CODE_H

#include "emu/emu.h"

/* What the metadata's .value_kind says. The hidden ones are filled by the launch. */
enum emu_arg_kind {
    EMU_ARG_BY_VALUE,
    EMU_ARG_GLOBAL_BUFFER,
    EMU_ARG_DYNAMIC_SHARED_POINTER,
    EMU_ARG_OTHER, /* images, samplers, pipes, queues: passed as their bytes */
    EMU_ARG_HIDDEN,
    EMU_ARG_HIDDEN_BLOCK_COUNT_X = EMU_ARG_HIDDEN,
    EMU_ARG_HIDDEN_BLOCK_COUNT_Y,
    EMU_ARG_HIDDEN_BLOCK_COUNT_Z,
    EMU_ARG_HIDDEN_GROUP_SIZE_X,
    EMU_ARG_HIDDEN_GROUP_SIZE_Y,
    EMU_ARG_HIDDEN_GROUP_SIZE_Z,
    EMU_ARG_HIDDEN_REMAINDER_X,
    EMU_ARG_HIDDEN_REMAINDER_Y,
    EMU_ARG_HIDDEN_REMAINDER_Z,
    EMU_ARG_HIDDEN_GRID_DIMS,
    EMU_ARG_HIDDEN_DYNAMIC_LDS_SIZE,
    EMU_ARG_HIDDEN_PRIVATE_BASE,
    EMU_ARG_HIDDEN_SHARED_BASE,
    EMU_ARG_HIDDEN_QUEUE_PTR,
    EMU_ARG_HIDDEN_HOSTCALL_BUFFER,    /* an address, if the launch has one: run/hostcall.h */
    EMU_ARG_HIDDEN_MULTIGRID_SYNC_ARG, /* 1: a cooperative launch */
    EMU_ARG_HIDDEN_PRINTF_BUFFER,      /* not offered: such a kernel isn't launched */
    EMU_ARG_HIDDEN_ZERO,               /* global offsets, heap...: zeroes */
};

struct emu_arg {
    char *name; /* NULL: the metadata has none */
    uint32_t offset, size;
    enum emu_arg_kind kind;
};

/* The kernel descriptor's fields, and the metadata of the kernel. */
struct emu_kernel {
    char *name;
    uint64_t descriptor; /* virtual addresses in the code object */
    uint64_t entry;      /* the first instruction that is executed: past the prologue where arguments are preloaded */
    uint32_t lds_bytes, scratch_bytes, kernarg_bytes, kernarg_align;
    uint32_t rsrc1, rsrc2, rsrc3;
    uint16_t properties;
    uint8_t preload_length, preload_offset; /* dwords */
    int wave_size;
    int n_vgprs, n_agprs, n_sgprs; /* as allocated by the descriptor */
    int max_threads;               /* of a workgroup: .max_flat_workgroup_size */
    int reqd[3];                   /* .reqd_workgroup_size, 0: any */
    int spilled_vgprs, spilled_sgprs;
    bool dynamic_stack;
    struct emu_arg *arg; /* explicit ones first, in order */
    int n_args, n_explicit;
};

/* kernel code properties */
enum {
    EMU_KERNEL_PRIVATE_SEGMENT_BUFFER = 1 << 0,
    EMU_KERNEL_DISPATCH_PTR = 1 << 1,
    EMU_KERNEL_QUEUE_PTR = 1 << 2,
    EMU_KERNEL_KERNARG_PTR = 1 << 3,
    EMU_KERNEL_DISPATCH_ID = 1 << 4,
    EMU_KERNEL_FLAT_SCRATCH_INIT = 1 << 5,
    EMU_KERNEL_PRIVATE_SEGMENT_SIZE = 1 << 6,
    EMU_KERNEL_WAVE32 = 1 << 10,
    EMU_KERNEL_DYNAMIC_STACK = 1 << 11,
};

struct emu_symbol {
    const char *name; /* in the code object's copy of its file */
    uint64_t value, size;
    uint8_t type; /* STT_OBJECT 1, STT_FUNC 2 */
};

struct emu_segment {
    uint64_t vaddr, filesz, memsz;
    bool writable, executable;
};

#define EMU_MAX_SEGMENTS 16

struct emu_code {
    const struct emu_arch *arch;
    int version;       /* 4, 5, 6 */
    uint8_t *image;    /* virtual address v lies at image + v */
    size_t image_size; /* whole pages */
    struct emu_segment segment[EMU_MAX_SEGMENTS];
    int n_segments;
    uint64_t text, text_size; /* virtual address */
    struct emu_symbol *symbol;
    size_t n_symbols;
    uint64_t n_entries; /* of symbol tables and relocations read so far */
    struct emu_kernel *kernel;
    int n_kernels;
    struct emu_program program[2]; /* decoded for wave64, wave32: size 0 until emu_code_decode() */
    uint8_t *file;                 /* the copy */
    size_t file_size;
    void *mapping; /* image with guard pages around it */
    size_t mapping_size;
};

/* image.c. Narrows [data, data + size) to the code object for arch, if it is an offload bundle. False: error names what
 * is wrong. */
bool emu_unbundle(const uint8_t **data, size_t *size, const struct emu_arch *arch, char *error, size_t error_size);
/* A copy of what begins there, to be freed; NULL: error names what is wrong. */
uint8_t *emu_image_copy(const void *image, size_t *size, char *error, size_t error_size);
/* Bytes of the code object or offload bundle that starts at data, from its headers alone; 0 if it is neither, or if
 * what they tell of is more than a file may have or isn't memory that can be read. */
size_t emu_code_size(const void *data);

/* Loads a code object, or the one for `arch` out of an offload bundle. arch NULL: whatever it is for. The file is
 * copied. False: error names what is wrong. */
bool emu_code_load(struct emu_code **out, const void *data, size_t size, const struct emu_arch *arch, char *error,
                   size_t error_size);
/* The same of one whose size only its headers say. */
bool emu_code_load_image(struct emu_code **out, const void *image, const struct emu_arch *arch, char *error,
                         size_t error_size);
void emu_code_free(struct emu_code **code);

/* Decodes the text for the wave size of each kernel. allow_unknown: see emu_decode(). */
bool emu_code_decode(struct emu_code *code, bool allow_unknown, char *error, size_t error_size);
const struct emu_program *emu_code_program(const struct emu_code *code, const struct emu_kernel *kernel);

/* The kernel's hidden argument of that kind; NULL: it has none. */
const struct emu_arg *emu_kernel_hidden(const struct emu_kernel *k, enum emu_arg_kind kind);
const struct emu_kernel *emu_code_kernel(const struct emu_code *code, const char *name);
/* A device global (an object in .data, .bss or .rodata): NULL if there is none. */
const struct emu_symbol *emu_code_global(const struct emu_code *code, const char *name);
/* The function that text offset lies in; NULL if unknown. */
const struct emu_symbol *emu_code_function(const struct emu_code *code, uint64_t text_offset);

/* lines.c: "kernel.hip:12" where the code object has debug information; else false. */
bool emu_code_line(const struct emu_code *code, uint64_t text_offset, char *buf, size_t size);

/* meta.c: kernels from the msgpack metadata; descriptors are read afterwards. */
bool emu_meta_parse(struct emu_code *code, const uint8_t *data, size_t size, char *error, size_t error_size);

#endif
