/* SPDX-License-Identifier: MIT */
#include "llvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "words.h"

/* llvm-c/Disassembler.h, as it has been since LLVM 3.4. */
typedef void *context_ref;
typedef int (*op_info_fn)(void *, uint64_t, uint64_t, uint64_t, uint64_t, int, void *);
typedef const char *(*symbol_fn)(void *, uint64_t, uint64_t *, uint64_t, const char **);

static struct {
    context_ref (*create)(const char *triple, const char *cpu, const char *features, void *info, int tag_type,
                          op_info_fn op_info, symbol_fn symbol);
    void (*dispose)(context_ref);
    size_t (*disassemble)(context_ref, uint8_t *bytes, uint64_t size, uint64_t pc, char *out, size_t out_size);
    bool ok;
    char why[256];
} llvm;
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct emu_disasm {
    context_ref context;
    int gfx;
};

static void load(void)
{
    static const char *const names[] = { "libLLVM.so.19.1", "libLLVM-19.so", "libLLVM-19.so.1" };
    const char *forced = rfg_env("RFG_LIBLLVM");
    void *lib = NULL;
    if (forced)
        lib = dlopen(forced, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !forced && !lib && i < sizeof(names) / sizeof(names[0]); i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(llvm.why, sizeof(llvm.why), "%s can't be loaded: install libllvm19, or set RFG_LIBLLVM",
                 forced ? forced : "libLLVM.so.19.1");
        return;
    }
    static const char *const init[] = { "LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                                        "LLVMInitializeAMDGPUDisassembler" };
    for (size_t i = 0; i < sizeof(init) / sizeof(init[0]); i++) {
        void (*fn)(void);
        *(void **)&fn = dlsym(lib, init[i]);
        if (!fn) {
            snprintf(llvm.why, sizeof(llvm.why), "this LLVM has no AMDGPU target: %s is missing", init[i]);
            return;
        }
        fn();
    }
    *(void **)&llvm.create = dlsym(lib, "LLVMCreateDisasmCPUFeatures");
    *(void **)&llvm.dispose = dlsym(lib, "LLVMDisasmDispose");
    *(void **)&llvm.disassemble = dlsym(lib, "LLVMDisasmInstruction");
    llvm.ok = llvm.create && llvm.dispose && llvm.disassemble;
    if (!llvm.ok)
        snprintf(llvm.why, sizeof(llvm.why), "this LLVM has no C disassembler");
}

bool emu_disasm_ready(char *why, size_t size)
{
    pthread_once(&once, load);
    if (!llvm.ok)
        snprintf(why, size, "%s", llvm.why);
    return llvm.ok;
}

struct emu_disasm *emu_disasm_open(const char *cpu, int gfx, int wave_size, char *error, size_t error_size)
{
    if (!emu_disasm_ready(error, error_size))
        return NULL;
    const char *features = gfx < 0x1000      ? ""
                           : wave_size == 32 ? "+wavefrontsize32,-wavefrontsize64"
                                             : "-wavefrontsize32,+wavefrontsize64";
    struct emu_disasm *d = malloc(sizeof(*d));
    bool gfx950 = gfx == 0x950; /* words.c knows what gfx942 hasn't */
    context_ref c = d ? llvm.create("amdgcn-amd-amdhsa", gfx950 ? "gfx942" : cpu, features, NULL, 0, NULL, NULL) : NULL;
    if (!c) {
        snprintf(error, error_size, "LLVM has no disassembler for %s", cpu);
        free(d);
        return NULL;
    }
    d->context = c;
    d->gfx = gfx;
    return d;
}

void emu_disasm_close(struct emu_disasm *d)
{
    if (d)
        llvm.dispose(d->context);
    free(d);
}

/* LLVM 19 crashes on SDWA words whose selectors have values that mean nothing (7; 3 for dst_unused). Such words are no
 * instructions. SDWA: VOP1, VOP2 or VOPC with 0xf9 for source 0, gfx9 and gfx10. */
static bool crashes(const struct emu_disasm *d, const uint8_t *bytes, size_t n)
{
    uint32_t w[2];
    if (d->gfx >= 0x1100 || n < 8)
        return false;
    memcpy(w, bytes, 8);
    if (w[0] >> 31 || (w[0] & 0x1ff) != 0xf9)
        return false;
    bool vopc = w[0] >> 25 == 0x3e;
    return (w[1] >> 16 & 7) == 7 || (w[1] >> 24 & 7) == 7 || (!vopc && ((w[1] >> 8 & 7) == 7 || (w[1] >> 11 & 3) == 3));
}

static size_t llvm_one(struct emu_disasm *d, uint8_t *bytes, size_t n, uint64_t pc, char *text, size_t text_size)
{
    return crashes(d, bytes, n) ? 0 : llvm.disassemble(d->context, bytes, n, pc, text, text_size);
}

/* "v_mov_b32_sdwa v1, v2" with another name. */
static void rename_to(const char *name, const char *like, char *text, size_t text_size)
{
    static const char *const suffixes[] = { "_e64_dpp", "_e32", "_e64", "_sdwa", "_dpp" };
    size_t skip = strspn(like, " \t"), end = skip + strcspn(like + skip, " \t");
    const char *suffix = "";
    for (size_t k = 0; k < sizeof(suffixes) / sizeof(suffixes[0]) && !*suffix; k++) {
        size_t len = strlen(suffixes[k]);
        if (end > skip + len && !strncmp(like + end - len, suffixes[k], len))
            suffix = suffixes[k];
    }
    snprintf(text, text_size, "%s%s%s", name, suffix, like + end);
}

static size_t gfx950_one(struct emu_disasm *d, uint8_t *bytes, size_t n, uint64_t pc, char *text, size_t text_size)
{
    uint32_t word[8];
    struct emu_words_found f;
    memcpy(word, bytes, n / 4 * 4);
    switch (emu_words_gfx950(word, n / 4, &f)) {
    case EMU_WORDS_OTHER:
        return llvm_one(d, bytes, n, pc, text, text_size);
    case EMU_WORDS_NONE:
        return 0;
    case EMU_WORDS_TEXT:
        snprintf(text, text_size, "%s", f.text);
        return f.size;
    case EMU_WORDS_LIKE:
        break;
    }
    char like[256] = "";
    memcpy(bytes, &f.like, 4);
    size_t size = llvm_one(d, bytes, n, pc, like, sizeof(like));
    rename_to(f.name, like, text, text_size);
    return size;
}

/* gfx11 and gfx12. */
static size_t canonical_one(struct emu_disasm *d, uint8_t *bytes, size_t n, uint64_t pc, char *text, size_t text_size)
{
    uint32_t word[8];
    char raw[256] = "";
    struct emu_canonical c;
    memcpy(word, bytes, n / 4 * 4);
    emu_canonical(d->gfx, word, n / 4, &c);
    size_t size = llvm_one(d, (uint8_t *)c.word, 4 * c.n, pc, c.name ? raw : text, c.name ? sizeof(raw) : text_size);
    if (c.name && size)
        rename_to(c.name, raw, text, text_size);
    size_t len = strlen(text);
    if (size)
        snprintf(text + len, text_size - len, "%s", c.op_sel);
    return size ? size - 4 * (size_t)c.grown : 0;
}

size_t emu_disasm_one(struct emu_disasm *d, const void *code, size_t size, uint64_t pc, char *text, size_t text_size)
{
    /* LLVM takes the bytes as not const and does not write to them; it may look at more than one instruction's. */
    uint8_t bytes[32];
    size_t n = size < sizeof(bytes) ? size : sizeof(bytes);
    memcpy(bytes, code, n);
    text[0] = 0;
    if (d->gfx == 0x950)
        return gfx950_one(d, bytes, n, pc, text, text_size);
    if (d->gfx >= 0x1100)
        return canonical_one(d, bytes, n, pc, text, text_size);
    return llvm_one(d, bytes, n, pc, text, text_size);
}
