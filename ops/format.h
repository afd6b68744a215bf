/* SPDX-License-Identifier: MIT
 *
 * Number formats in memory: one table, with a row per format. A format's number is its rfg_dtype. A block is the
 * smallest addressable unit: one element of most formats, two of the 4-bit ones. Rows and strides of a tensor are whole
 * blocks. */
#ifndef RFG_OPS_FORMAT_H
#define RFG_OPS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rfg/core.h"

enum rfg_format_kind {
    RFG_FORMAT_FLOAT, /* signed floating point: `fp` says how */
    RFG_FORMAT_INT,   /* two's complement */
    RFG_FORMAT_SCALE, /* powers of two, for scales */
    RFG_FORMAT_BLOCK, /* a block holds its scale, too (GGUF's) */
};

enum rfg_format_specials {
    RFG_FORMAT_IEEE, /* the top exponent is infinity and NaNs */
    RFG_FORMAT_FN,   /* finite, all ones is NaN */
    RFG_FORMAT_FNUZ, /* finite, -0's code is NaN */
    RFG_FORMAT_NONE, /* every code is a number */
};

#define RFG_FORMAT_MAX_ELEMENTS 256 /* of a block */
#define RFG_FORMAT_MAX_BYTES    256

struct rfg_blocks;

struct rfg_format {
    const char *name;
    int elements; /* of a block: a power of two */
    int bytes;    /* of a block. Data must be aligned to the largest power of two that divides it. */
    enum rfg_format_kind kind;
    double largest; /* the largest finite value */
    struct {
        int mantissa, bias; /* explicit mantissa bits; the exponent's bias */
        enum rfg_format_specials specials;
    } fp;

    /* A block's values, exactly. */
    void (*decode)(const struct rfg_format *f, const void *block, double *values);
    /* Each value to the nearest that there is, ties to the even code. What is too large becomes infinity in formats of
     * 16 bits and more that have one, else the largest of its sign. A NaN becomes a NaN, where there is none 0 in
     * integers and the largest value in e2m1 (as CUDA's conversion). Blocks: see rfg_blocks_encode(). */
    void (*encode)(const struct rfg_format *f, void *block, const double *values);
    const struct rfg_blocks *blocks; /* of RFG_FORMAT_BLOCK: see format_blocks.h */
};

/* The row of a dtype; NULL if there is none of that number. */
const struct rfg_format *rfg_format(int dtype);

/* RFG_DTYPE_NONE if there is none of that name (len characters of it). */
rfg_dtype rfg_format_find(const char *name, size_t len);

/* "f32, f16, ..., or one of GGUF's, q4_0 to nvfp4": what a message lists. Returns buf. */
#define RFG_FORMAT_NAMES 256
char *rfg_format_names(char *buf, size_t size);

/* Bytes of so many contiguous elements; the only way from elements to bytes. 0 if they aren't whole blocks, if 64 bits
 * can't count them, or for no dtype. */
int64_t rfg_format_bytes(int dtype, int64_t elements);
/* Elements in so many bytes; 0 where rfg_format_bytes() is. */
int64_t rfg_format_elements(int dtype, int64_t bytes);

/* ---- one element in C's float ------------------------------------------------------------------------------------ */

/* Element i of f32, f16 or bf16; no others. */
static inline float rfg_float_get(const void *base, int dtype, int64_t i)
{
    if (dtype == RFG_F32)
        return ((const float *)base)[i];
    if (dtype == RFG_F16)
        return (float)((const _Float16 *)base)[i];
    uint32_t u = (uint32_t)((const uint16_t *)base)[i] << 16;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* To nearest even; a NaN stays one. */
static inline void rfg_float_put(void *base, int dtype, int64_t i, float f)
{
    if (dtype == RFG_F32) {
        ((float *)base)[i] = f;
    } else if (dtype == RFG_F16) {
        ((_Float16 *)base)[i] = (_Float16)f;
    } else {
        uint32_t u;
        memcpy(&u, &f, sizeof(u));
        ((uint16_t *)base)[i] = (uint16_t)(f != f ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
}

#endif
