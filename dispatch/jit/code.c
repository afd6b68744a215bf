/* SPDX-License-Identifier: MIT
 *
 * Checks that a compiler's output is a code object for the request: a whole ELF file for the target, with the kernel
 * and the arguments that the host passes. A compiler may exit with 0 and leave something else (a full disk, a wrapper
 * around it), and the cache would keep it. Only the device can judge the kernel's code. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/unpack.h"
#include "jit.h"

#define MACHINE_AMDGPU 224
#define NOTE_METADATA  32   /* NT_AMDGPU_METADATA */
#define PARAM_BYTES    0x19 /* of .nv.info.KERNEL: the size of all parameters, */
#define FORM_SIZED     4    /* in items of four bytes, after which this form has more */

struct file {
    const char *data;
    size_t size;
    Elf64_Ehdr h;
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* [offset, offset + size) of the file, or NULL. */
static const char *at(const struct file *f, uint64_t offset, uint64_t size)
{
    return offset <= f->size && size <= f->size - offset ? f->data + offset : NULL;
}

static Elf64_Shdr section(const struct file *f, unsigned i)
{
    Elf64_Shdr s;
    memcpy(&s, f->data + f->h.e_shoff + i * sizeof(s), sizeof(s));
    return s;
}

static const char *name_of(const struct file *f, const Elf64_Shdr *s)
{
    Elf64_Shdr names = section(f, f->h.e_shstrndx);
    const char *table =
        names.sh_type == SHT_STRTAB && s->sh_name < names.sh_size ? f->data + names.sh_offset + s->sh_name : NULL;
    return table && memchr(table, 0, names.sh_size - s->sh_name) ? table : "";
}

static bool read_headers(struct file *f, unsigned machine, struct rfg_reason *why)
{
    if (f->size < sizeof(f->h))
        return rfg_refuse(why, "%zu bytes: must be an ELF file", f->size);
    memcpy(&f->h, f->data, sizeof(f->h));
    if (memcmp(f->h.e_ident, ELFMAG, SELFMAG))
        return rfg_refuse(why, "not an ELF file");
    if (f->h.e_ident[EI_CLASS] != ELFCLASS64 || f->h.e_ident[EI_DATA] != ELFDATA2LSB || f->h.e_machine != machine)
        return rfg_refuse(why, "an ELF file of machine %u: must be one of %u, 64 bits, little-endian", f->h.e_machine,
                          machine);
    if (f->h.e_shentsize != sizeof(Elf64_Shdr) || f->h.e_shstrndx >= f->h.e_shnum ||
        !at(f, f->h.e_shoff, (uint64_t)f->h.e_shnum * sizeof(Elf64_Shdr)))
        return rfg_refuse(why, "%u section headers at 0x%llx are not in the file of %zu bytes", f->h.e_shnum,
                          (unsigned long long)f->h.e_shoff, f->size);
    for (unsigned i = 0; i < f->h.e_shnum; i++) {
        Elf64_Shdr s = section(f, i);
        if (s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS && !at(f, s.sh_offset, s.sh_size))
            return rfg_refuse(why, "section %u is not in the file of %zu bytes", i, f->size);
    }
    return true;
}

static bool arguments_are(const struct rfg_jit_request *req, uint64_t bytes, struct rfg_reason *why)
{
    if (bytes >= req->least_args && (bytes <= req->args || !req->args || req->more_args))
        return true;
    return rfg_refuse(why, "kernel %.60s takes %llu bytes of arguments: must be %zu to %zu", req->entry,
                      (unsigned long long)bytes, req->least_args, req->args);
}

static bool no_kernel(const struct rfg_jit_request *req, struct rfg_reason *why)
{
    return rfg_refuse(why, "there is no kernel %.60s in it", req->entry);
}

/* ---- AMD --------------------------------------------------------------------------------------------------------- */

static bool is(const msgpack_object *o, const char *text)
{
    return o && o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(text) &&
           !memcmp(o->via.str.ptr, text, o->via.str.size);
}

static uint64_t number(const msgpack_object *map, const char *key)
{
    const msgpack_object *o = rfg_unpack_get(map, key);
    return o && o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? o->via.u64 : 0;
}

/* Bytes that the launch copies: up to the end of the last argument that isn't the runtime's own. */
static uint64_t arguments_of(const msgpack_object *kernel)
{
    const msgpack_object *args = rfg_unpack_get(kernel, ".args");
    uint64_t end = 0;
    for (uint32_t i = 0; args && args->type == MSGPACK_OBJECT_ARRAY && i < args->via.array.size; i++) {
        const msgpack_object *arg = &args->via.array.ptr[i], *kind = rfg_unpack_get(arg, ".value_kind");
        bool hidden = kind && kind->type == MSGPACK_OBJECT_STR && kind->via.str.size > 7 &&
                      !memcmp(kind->via.str.ptr, "hidden_", 7);
        uint64_t last = number(arg, ".offset") + number(arg, ".size");
        end = !hidden && last > end ? last : end;
    }
    return end;
}

/* The metadata's words on the kernel; *found: it has any. */
static bool check_metadata(const struct rfg_jit_request *req, const char *data, size_t size, bool *found,
                           struct rfg_reason *why)
{
    msgpack_unpacked u;
    size_t offset = 0;
    bool ok = true;
    if (!rfg_unpack_plausible((const uint8_t *)data, size))
        return rfg_refuse(why, "its metadata is not msgpack");
    msgpack_unpacked_init(&u);
    if (msgpack_unpack_next(&u, data, size, &offset) == MSGPACK_UNPACK_SUCCESS) {
        const msgpack_object *kernels = rfg_unpack_get(&u.data, "amdhsa.kernels");
        for (uint32_t i = 0; kernels && kernels->type == MSGPACK_OBJECT_ARRAY && i < kernels->via.array.size; i++) {
            const msgpack_object *kernel = &kernels->via.array.ptr[i];
            if (is(rfg_unpack_get(kernel, ".name"), req->entry)) {
                *found = true;
                ok = arguments_are(req, arguments_of(kernel), why);
            }
        }
    }
    msgpack_unpacked_destroy(&u);
    return ok;
}

static bool check_notes(const struct rfg_jit_request *req, const struct file *f, const Elf64_Shdr *s, bool *found,
                        struct rfg_reason *why)
{
    for (uint64_t offset = 0; s->sh_size - offset >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr n;
        memcpy(&n, f->data + s->sh_offset + offset, sizeof(n));
        uint64_t data = offset + sizeof(n) + (((uint64_t)n.n_namesz + 3) & ~3ull);
        if (data > s->sh_size || n.n_descsz > s->sh_size - data)
            return rfg_refuse(why, "a note is not in its section");
        if (n.n_type == NOTE_METADATA && !check_metadata(req, f->data + s->sh_offset + data, n.n_descsz, found, why))
            return false;
        offset = data + (((uint64_t)n.n_descsz + 3) & ~3ull);
        if (offset > s->sh_size)
            break;
    }
    return true;
}

static bool check_amd(const struct rfg_jit_request *req, struct file *f, struct rfg_reason *why)
{
    bool found = false;
    if (!read_headers(f, MACHINE_AMDGPU, why))
        return false;
    unsigned mach = f->h.e_flags & 0xff, wanted = rfg_arch_of(req->target)->mach;
    if (wanted && mach != wanted)
        return rfg_refuse(why, "code for machine 0x%02x: must be 0x%02x, %s", mach, wanted, req->target);
    if (f->h.e_type != ET_DYN)
        return rfg_refuse(why, "an ELF file of type %u: must be a linked one, %d", f->h.e_type, ET_DYN);
    for (unsigned i = 0; i < f->h.e_shnum; i++) {
        Elf64_Shdr s = section(f, i);
        if (s.sh_type == SHT_NOTE && !check_notes(req, f, &s, &found, why))
            return false;
    }
    return found || no_kernel(req, why);
}

/* ---- NVIDIA ------------------------------------------------------------------------------------------------------ */

/* The number in sm_N: in the flags' second byte as of the ABI's version 8, before it in the first. */
static unsigned sm_of(const struct file *f)
{
    return f->h.e_ident[EI_ABIVERSION] >= 8 ? f->h.e_flags >> 8 & 0xff : f->h.e_flags & 0xff;
}

/* What .nv.info.KERNEL says of its parameters' bytes; 0: nothing. */
static uint64_t parameters_in(const struct file *f, const Elf64_Shdr *s)
{
    const unsigned char *p = (const unsigned char *)f->data + s->sh_offset;
    for (uint64_t i = 0; s->sh_size >= 4 && i <= s->sh_size - 4;) {
        unsigned value = p[i + 2] | (unsigned)p[i + 3] << 8;
        if (p[i + 1] == PARAM_BYTES)
            return value;
        i += p[i] == FORM_SIZED ? 4 + value : 4;
    }
    return 0;
}

static bool check_nvidia(const struct rfg_jit_request *req, struct file *f, struct rfg_reason *why)
{
    bool found = false;
    uint64_t bytes = 0;
    if (!read_headers(f, EM_CUDA, why))
        return false;
    unsigned sm = (unsigned)atoi(req->target + 3);
    if (sm_of(f) != sm)
        return rfg_refuse(why, "code for sm_%u: must be %s", sm_of(f), req->target);
    for (unsigned i = 0; i < f->h.e_shnum; i++) {
        Elf64_Shdr s = section(f, i);
        const char *name = s.sh_type == SHT_NULL || s.sh_type == SHT_NOBITS ? "" : name_of(f, &s);
        found |= !strncmp(name, ".text.", 6) && !strcmp(name + 6, req->entry);
        if (!strncmp(name, ".nv.info.", 9) && !strcmp(name + 9, req->entry))
            bytes = parameters_in(f, &s);
    }
    return found ? arguments_are(req, bytes, why) : no_kernel(req, why);
}

bool rfg_code_check(const struct rfg_jit_request *req, const struct rfg_blob *code, struct rfg_reason *why)
{
    struct file f = { .data = code->data, .size = code->size };
    if (code->size > RFG_MAX_CODE)
        return rfg_refuse(why, "%zu bytes: must be at most %u", code->size, RFG_MAX_CODE);
    if (!strncmp(req->target, "gfx", 3))
        return check_amd(req, &f, why);
    return strncmp(req->target, "sm_", 3) != 0 || check_nvidia(req, &f, why);
}
