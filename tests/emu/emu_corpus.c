/* SPDX-License-Identifier: MIT */
#include "emu_corpus.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "emu_compile.h"

/* ---- the kernels, as the host has them --------------------------------------------------------------------------- */

#define MAX_KERNELS 200
struct corpus_kernel corpus_kernels[MAX_KERNELS];
int corpus_n_kernels;

void corpus_add(const char *name, void (*host)(const unsigned *in, unsigned *out, int n))
{
    if (corpus_n_kernels == MAX_KERNELS)
        abort();
    corpus_kernels[corpus_n_kernels++] = (struct corpus_kernel){ name, host };
}

#ifdef __clang__
#pragma clang diagnostic ignored "-Wsometimes-uninitialized"
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "correct/lds.hip"
#include "correct/loops.hip"
#include "correct/matrix.hip"
#include "correct/memory.hip"
#include "correct/registers.hip"
#include "correct/sharing.hip"
#include "correct/values.hip"

static const char *const files[] = { "correct/words.h",     "correct/lds.hip",    "correct/loops.hip",
                                     "correct/matrix.hip",  "correct/memory.hip", "correct/registers.hip",
                                     "correct/sharing.hip", "correct/values.hip" };

unsigned corpus_in[ITEMS], corpus_out[OUTS], corpus_want[OUTS];

/* ---- compilers --------------------------------------------------------------------------------------------------- */

#define LEVELS(arch, by, a, b, c, d)                                                                                   \
    { arch, by, 0, a }, { arch, by, 1, b }, { arch, by, 2, c },                                                        \
    {                                                                                                                  \
        arch, by, 3, d                                                                                                 \
    }
const struct corpus_build corpus_builds[] = {
    { "gfx90a", BY_HIPRTC, 3, true },
    LEVELS("gfx90a", BY_CLANG, false, false, false, false),
    LEVELS("gfx942", BY_CLANG, true, false, false, false),
    LEVELS("gfx950", BY_ZIGLANG, false, true, false, false),
    LEVELS("gfx1100", BY_CLANG, false, false, false, true),
    LEVELS("gfx1201", BY_CLANG, false, false, true, false),
    { "gfx908", BY_HIPRTC, 3, false },
    LEVELS("gfx908", BY_CLANG, false, false, false, false),
    { "gfx1030", BY_HIPRTC, 3, false },
    LEVELS("gfx1030", BY_CLANG, false, false, false, false),
};
const int corpus_n_builds = (int)(sizeof(corpus_builds) / sizeof(corpus_builds[0]));

const char *corpus_compiler_name(const struct corpus_build *b)
{
    static const char *const names[] = { "hipRTC", EMU_CLANG, "ziglang" };
    return names[b->by];
}

bool corpus_all(void)
{
    const char *all = getenv("RFG_TEST_CORRECT");
    return all && !strcmp(all, "all");
}

bool corpus_wanted(const struct corpus_build *b)
{
    return b->few || corpus_all();
}

bool corpus_begin(const struct corpus_build *b)
{
    const char *missing = NULL;
    uint64_t random = 12345;
    if (b->by == BY_CLANG && system(EMU_CLANG " --version >/dev/null 2>&1"))
        missing = EMU_CLANG " is not there";
    else if (b->by == BY_HIPRTC && !rfg_jit_hiprtc.has_target(b->arch))
        missing = "no hipRTC that compiles for it";
    else if (b->by == BY_ZIGLANG && !rfg_jit_ziglang.has_target(b->arch))
        missing = "no ziglang (RFG_ZIGLANG_PYTHON)";
    if (missing) {
        printf("SKIPPED: %s: %s\n", b->arch, missing);
        fflush(stdout);
        return false;
    }
    for (int i = 0; i < ITEMS; i++)
        corpus_in[i] = (unsigned)(rfg_random(&random) >> 16);
    emu_open_device(b->arch);
    return true;
}

char *corpus_text(const char *const *names, size_t n)
{
    char path[400], *all = strdup("");
    const char *root = getenv("RFG_SOURCE_ROOT");
    size_t have = 0;
    for (size_t k = 0; k < n; k++) {
        size_t size;
        snprintf(path, sizeof(path), "%s/tests/emu/%s", root ? root : RFG_SOURCE_ROOT, names[k]);
        char *text = rfg_read_file(path, &size);
        ck_assert_msg(text != NULL, "%s can't be read", path);
        all = realloc(all, have + size + 1);
        ck_assert_ptr_nonnull(all);
        memcpy(all + have, text, size);
        all[have += size] = 0;
        free(text);
    }
    return all;
}

char *corpus_source(void)
{
    return corpus_text(files, sizeof(files) / sizeof(files[0]));
}

char *corpus_compile(const struct corpus_build *b, const char *entry, const char *source, size_t *size)
{
    char options[80], target[40], *code;
    if (b->by == BY_HIPRTC) {
        const struct rfg_blob *blob;
        hipModule_t m = emu_build(b->arch, entry, source, &blob);
        ck_assert_int_eq(hip->hipModuleUnload(m), hipSuccess);
        code = malloc(blob->size);
        ck_assert_ptr_nonnull(code);
        memcpy(code, blob->data, *size = blob->size);
        return code;
    }
    snprintf(options, sizeof(options), "-O%d -std=c++17 --no-gpu-bundle-output", b->level);
    snprintf(target, sizeof(target), "%s%s", b->arch, b->features ? b->features : "");
    return b->by == BY_ZIGLANG ? emu_compile_ziglang(source, b->arch, options, size)
                               : emu_compile(source, target, options, size);
}

char *corpus_load(const struct corpus_build *b, hipModule_t *m, size_t *size, void **in, void **out)
{
    ck_assert_int_eq(hip->hipMalloc(in, sizeof(corpus_in)), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(out, sizeof(corpus_out)), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyHtoD(*in, corpus_in, sizeof(corpus_in)), hipSuccess);
    char *source = corpus_source(), *object = corpus_compile(b, corpus_kernels[0].name, source, size);
    ck_assert_int_eq(hip->hipModuleLoadData(m, object), hipSuccess);
    free(source);
    return object;
}
