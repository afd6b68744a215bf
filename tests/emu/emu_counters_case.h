/* SPDX-License-Identifier: MIT
 *
 * For test_emu_counters.c: the kernel launched, and what a case of it adds to the counters. */
#ifndef RFG_TESTS_EMU_COUNTERS_CASE_H
#define RFG_TESTS_EMU_COUNTERS_CASE_H

#include "emu/count/counters.h"
#include "emu_counters_kernel.h"
#include "emu_kernel.h"
#include "tests/suite.h"

static const struct {
    const char *name;
    int wave;
} archs[] = { { "gfx90a", 64 }, { "gfx942", 64 }, { "gfx1100", 32 } };
#define N_ARCHS 3
#define WAVE    (uint64_t) archs[arch].wave

static const struct rfg_blob *code;
static hipFunction_t fn;
static int *buffer;
static int arch;

#define DATA 1024 /* ints: what the addresses are relative to */
#define SIZE (DATA + 8192)

static void setup(int which)
{
    arch = which;
    setenv("RFG_EMU_CHECKS", "0", 1);
    emu_open_device(archs[arch].name);
    hipModule_t m = emu_build(archs[arch].name, "k", source, &code);
    ck_assert_int_eq(hip->hipModuleGetFunction(&fn, m, "k"), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc((void **)&buffer, SIZE * sizeof(int)), hipSuccess);
    memset(buffer, 0, SIZE * sizeof(int));
}

/* Lane l's address: first + stride l bytes. */
static void addresses(int first, int stride)
{
    for (int l = 0; l < DATA - 1; l++)
        buffer[l] = first + stride * l;
    buffer[DATA - 1] = 10; /* times that the loops run */
}

static void launch(int n, unsigned groups, unsigned threads)
{
    void *p = buffer, *params[] = { &p, &n };
    ck_assert_msg(hip->hipModuleLaunchKernel(fn, groups, 1, 1, threads, 1, 1, 32768, NULL, params, NULL) == hipSuccess,
                  "case %d", n);
}

static struct emu_counters count(int n, unsigned groups, unsigned threads)
{
    struct emu_counters c;
    rfg_emu_count(NULL);
    launch(n, groups, threads);
    rfg_emu_count(&c);
    return c;
}

/* What the case's own instructions add. */
static struct emu_counters own(int n, unsigned groups, unsigned threads)
{
    struct emu_counters c = count(n, groups, threads), none = count(NOTHING, groups, threads);
    uint64_t *to = (uint64_t *)&c;
    const uint64_t *from = (const uint64_t *)&none;
    for (size_t k = 0; k < sizeof(c) / sizeof(*to); k++)
        to[k] -= from[k];
    return c;
}

#define EQ(what, expected)                                                                                             \
    do {                                                                                                               \
        uint64_t is_ = (uint64_t)(what), should_ = (uint64_t)(expected);                                               \
        ck_assert_msg(is_ == should_, "%s: %s is %lld, not %lld", archs[arch].name, #what, (long long)is_,             \
                      (long long)should_);                                                                             \
    } while (0)

#endif
