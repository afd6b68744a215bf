/* SPDX-License-Identifier: MIT
 *
 * The inner kernel of int8 by int8 with sums of int32. The includer defines, for its instruction set:
 *   ISA_TABLE, ROWS_TABLE, MAX_REGS, LANES     as for cpu_micro.h; a lane is an int32
 *   vec, vec_load(float *), vec_store(float *, v)
 *   dot_4(acc, u, s)   acc and in each lane the sum of four products, of uint8 in u by int8 in s, modulo 2^32
 *                      (vpdpbusd)
 *   flip(v)            v with the upper bit of each byte turned over: int8 + 128 as uint8
 * W is flipped, X packed as it is: sums are too large by 128 times the sum of X's row, which the accumulators begin
 * with (cpu_run.c). A true sum that fits an int32 is right, whatever wraps on the way. */
#include <string.h>

#include "cpu_kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vectors.h"

#define GROUP              (4 * LANES)
#define GROUP_BYTES        GROUP
#define packed_bytes(kind) GROUP

INLINE void step(const enum cpu_kind kind, const int rows, const int cols, const char *const *w, const char *x,
                 vec acc[CPU_MAX_ROWS][CPU_MAX_COLS])
{
    vec a[CPU_MAX_ROWS];
    (void)kind;
    UNROLL
    for (int r = 0; r < rows; r++)
        a[r] = flip(vec_load((const float *)(const void *)w[r]));
    UNROLL
    for (int c = 0; c < cols; c++) {
        vec b = vec_load((const float *)(const void *)(x + c * GROUP));
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r][c] = dot_4(acc[r][c], a[r], b);
    }
}

#include "cpu_block.h"

static void sum_lanes(float *sums, const float *acc, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t lane[LANES], sum = 0;
        memcpy(lane, acc + i * LANES, sizeof(lane));
        for (int l = 0; l < LANES; l++)
            sum += lane[l];
        sums[i] = (float)(int32_t)sum;
    }
}

static uint16_t CPU_I8_DOT_pack(char *to, const char *x, size_t x_stride, int cols, int64_t k)
{
    for (int64_t at = 0; at < k; at += GROUP)
        for (int c = 0; c < cols; c++, to += GROUP) {
            size_t n = (size_t)(k - at < GROUP ? k - at : GROUP);
            memset(to, 0, GROUP);
            memcpy(to, x + (size_t)c * x_stride + at, n);
        }
    return 0;
}

DEFINE_KIND(CPU_I8_DOT)

const struct cpu_isa ISA_TABLE = {
    .group = GROUP,
    .lanes = LANES,
    .sum = sum_lanes,
    .rows = &ROWS_TABLE,
    .max_regs = MAX_REGS,
    .kernel = { [CPU_I8_DOT] = LIST_KIND(CPU_I8_DOT) },
    .pack = { [CPU_I8_DOT] = CPU_I8_DOT_pack },
};
