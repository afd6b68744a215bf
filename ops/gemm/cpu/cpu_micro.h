/* SPDX-License-Identifier: MIT
 *
 * The inner kernels of the cpu variants. The includer defines, for its instruction set:
 *   LANES                     floats in a vector; a group of k is two vectors, 2 * LANES elements
 *   MAX_REGS                  rows * cols of a register block is at most this
 *   vec, vec_zero(), vec_fma(a, b, c) = a * b + c, vec_sum(v), vec_load(float *), vec_store(float *, v)
 *   load_f32(p, half), load_f16(p, half), load_bf16(p, half)
 *                             one of the two vectors of a group, at any address; X is packed with the same functions,
 *                             so that which elements go to which half is theirs to choose
 * and, if it has vdpbf16ps, HAVE_DOT and the dot_* functions. Everything is inlined into one function for each kind and
 * shape of register block, where rows, cols and kind are constants. */
#include <string.h>

#include "cpu_kernels.h"
#include "cpu_decode.h"
#include "ops/cpu/rows.h"

#define GROUP       (2 * LANES)
#define GROUP_BYTES (GROUP * (kind == CPU_F32 ? 4 : 2))

INLINE vec load_half(const enum cpu_kind kind, const char *p, const int half)
{
    return kind == CPU_F32 ? load_f32(p, half) : kind == CPU_F16 ? load_f16(p, half) : load_bf16(p, half);
}

/* Bytes of one packed group of one row of X. */
INLINE int packed_bytes(const enum cpu_kind kind)
{
    return kind == CPU_BF16_DOT || kind == CPU_BF16_EXACT ? GROUP * 2 : GROUP * 4;
}

INLINE void step(const enum cpu_kind kind, const int rows, const int cols, const char *const *w, const char *x,
                 vec acc[CPU_MAX_ROWS][CPU_MAX_COLS])
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        vec a[CPU_MAX_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            a[r] = load_half(kind, w[r], half);
        UNROLL
        for (int c = 0; c < cols; c++) {
            const char *xc = x + c * packed_bytes(kind);
            vec b = kind == CPU_BF16_EXACT ? load_bf16(xc, half) : load_f32(xc, half);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][c] = vec_fma(a[r], b, acc[r][c]);
        }
    }
}

#ifdef HAVE_DOT
INLINE void step_dot(const int rows, const int cols, const char *const *w, const char *x,
                     vec acc[CPU_MAX_ROWS][CPU_MAX_COLS], dot_vec *smallest)
{
    dot_vec a[CPU_MAX_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        a[r] = dot_load(w[r]);
        *smallest = dot_smallest(*smallest, a[r]);
    }
    UNROLL
    for (int c = 0; c < cols; c++) {
        dot_vec b = dot_load(x + c * GROUP * 2);
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r][c] = dot_add(acc[r][c], a[r], b);
    }
}
#endif

#include "cpu_block.h"

static void sum_lanes(float *sums, const float *acc, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] = vec_sum(vec_load(acc + i * LANES));
}

/* ---- packing X -------------------------------------------------------------------------------------------------- */

INLINE uint16_t pack(const enum cpu_kind kind, char *to, const char *x, size_t x_stride, int cols, int64_t k)
{
#ifdef HAVE_DOT
    dot_vec smallest = dot_all_ones();
#endif
    for (int64_t at = 0; at < k; at += GROUP, x += GROUP_BYTES)
        for (int c = 0; c < cols; c++, to += packed_bytes(kind)) {
            const char *from = x + (size_t)c * x_stride;
            char tail[GROUP * 4];
            if (k - at < GROUP) {
                memset(tail, 0, sizeof(tail));
                memcpy(tail, from, (size_t)(k - at) * (size_t)(GROUP_BYTES / GROUP));
                from = tail;
            }
#ifdef HAVE_DOT
            if (kind == CPU_BF16_DOT) {
                dot_vec v = dot_load(from);
                smallest = dot_smallest(smallest, v);
                memcpy(to, &v, sizeof(v));
                continue;
            }
#endif
            vec_store((float *)(void *)to, load_half(kind, from, 0));
            vec_store((float *)(void *)to + LANES, load_half(kind, from, 1));
        }
#ifdef HAVE_DOT
    if (kind == CPU_BF16_DOT)
        return dot_reduce(smallest);
#endif
    return 0;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

DEFINE_KIND(CPU_F32)
DEFINE_PACK(CPU_F32)
DEFINE_KIND(CPU_F16)
DEFINE_PACK(CPU_F16)
DEFINE_KIND(CPU_BF16)
DEFINE_PACK(CPU_BF16)
#ifdef HAVE_DOT
DEFINE_KIND(CPU_BF16_DOT)
DEFINE_PACK(CPU_BF16_DOT)
DEFINE_ROWS(CPU_BF16_EXACT, 1)
#endif

const struct cpu_isa ISA_TABLE = {
    .group = GROUP,
    .lanes = LANES,
    .sum = sum_lanes,
    .widen = widen,
    .decode_8 = decode_8,
    .decode_4 = decode_4,
    .rows = &ROWS_TABLE,
    .max_regs = MAX_REGS,
    .kernel = {
        [CPU_F32] = LIST_KIND(CPU_F32),
        [CPU_F16] = LIST_KIND(CPU_F16),
        [CPU_BF16] = LIST_KIND(CPU_BF16),
#ifdef HAVE_DOT
        [CPU_BF16_DOT] = LIST_KIND(CPU_BF16_DOT),
        [CPU_BF16_EXACT] = { LIST_ROWS(CPU_BF16_EXACT, 1) },
#endif
    },
    .pack = {
        [CPU_F32] = CPU_F32_pack,
        [CPU_F16] = CPU_F16_pack,
        [CPU_BF16] = CPU_BF16_pack,
#ifdef HAVE_DOT
        [CPU_BF16_DOT] = CPU_BF16_DOT_pack,
#endif
    },
};
