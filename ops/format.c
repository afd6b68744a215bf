/* SPDX-License-Identifier: MIT
 *
 * Sources: IEEE 754 (f32, f16); OCP 8-bit Floating Point Specification (e4m3, e5m2); Noune et al., "8-bit numerical
 * formats for deep neural networks", 2022, as gfx942 has it (e4m3fnuz); OCP Microscaling Formats Specification (e2m1,
 * e8m0). Of two elements in a byte the first is in the low four bits, as DLPack, ONNX and PyTorch's float4_e2m1fn_x2
 * have it. */
#include "format.h"
#include "format_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int bits_of(const struct rfg_format *f)
{
    return 8 * f->bytes / f->elements;
}

/* Element i of a block of plain codes: 4, 8, 16 or 32 bits each. */
static uint32_t get_code(const struct rfg_format *f, const void *block, int i)
{
    const uint8_t *b = block;
    int bits = bits_of(f);
    uint32_t code = 0;
    if (bits == 4)
        return b[i / 2] >> 4 * (i % 2) & 15;
    for (int k = 0; k < bits / 8; k++)
        code |= (uint32_t)b[i * bits / 8 + k] << 8 * k;
    return code;
}

static void put_code(const struct rfg_format *f, void *block, int i, uint32_t code)
{
    uint8_t *b = block;
    int bits = bits_of(f);
    if (bits == 4)
        b[i / 2] = (uint8_t)((b[i / 2] & 0xf0 >> 4 * (i % 2)) | code << 4 * (i % 2));
    for (int k = 0; k < bits / 8; k++)
        b[i * bits / 8 + k] = (uint8_t)(code >> 8 * k);
}

/* ---- floating point ---------------------------------------------------------------------------------------------- */

static double float_value(const struct rfg_format *f, uint32_t code)
{
    int bits = bits_of(f), m = f->fp.mantissa;
    uint32_t sign = code >> (bits - 1), top = (1u << (bits - 1 - m)) - 1, ones = (1u << m) - 1;
    uint32_t exponent = code >> m & top, fraction = code & ones;
    if (f->fp.specials == RFG_FORMAT_IEEE && exponent == top)
        return fraction ? NAN : sign ? -INFINITY : INFINITY;
    if ((f->fp.specials == RFG_FORMAT_FN && exponent == top && fraction == ones) ||
        (f->fp.specials == RFG_FORMAT_FNUZ && sign && !exponent && !fraction))
        return NAN;
    double a =
        exponent ? ldexp(fraction + ones + 1, (int)exponent - f->fp.bias - m) : ldexp(fraction, 1 - f->fp.bias - m);
    return sign ? -a : a;
}

static uint32_t float_code(const struct rfg_format *f, double v)
{
    int bits = bits_of(f), m = f->fp.mantissa, e;
    uint32_t sign = 1u << (bits - 1), infinity = sign - (1u << m);
    if (isnan(v))
        return f->fp.specials == RFG_FORMAT_FNUZ ? sign : sign - 1;
    uint32_t largest = f->fp.specials == RFG_FORMAT_IEEE ? infinity - 1
                       : f->fp.specials == RFG_FORMAT_FN ? sign - 2
                                                         : sign - 1;
    double a = fmin(fabs(v), 2 * f->largest);
    frexp(a, &e); /* a is below 2^e */
    e = a > 0 && e - 1 > 1 - f->fp.bias ? e - 1 : 1 - f->fp.bias;
    /* In units of its last place a is at least 2^m if it is normal, so the sum raises the exponent. */
    uint32_t code = (uint32_t)rint(ldexp(a, m - e)) + ((uint32_t)(e + f->fp.bias - 1) << m);
    if (code > largest)
        code = f->fp.specials == RFG_FORMAT_IEEE && bits >= 16 ? infinity : largest;
    return signbit(v) && !(f->fp.specials == RFG_FORMAT_FNUZ && !code) ? code | sign : code;
}

static void float_decode(const struct rfg_format *f, const void *block, double *values)
{
    for (int i = 0; i < f->elements; i++)
        values[i] = float_value(f, get_code(f, block, i));
}

static void float_encode(const struct rfg_format *f, void *block, const double *values)
{
    for (int i = 0; i < f->elements; i++)
        put_code(f, block, i, float_code(f, values[i]));
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static void int_decode(const struct rfg_format *f, const void *block, double *values)
{
    int left = 32 - bits_of(f);
    for (int i = 0; i < f->elements; i++)
        values[i] = (int32_t)(get_code(f, block, i) << left) >> left;
}

static void int_encode(const struct rfg_format *f, void *block, const double *values)
{
    for (int i = 0; i < f->elements; i++) {
        double v = isnan(values[i]) ? 0 : fmin(fmax(rint(values[i]), -f->largest - 1), f->largest);
        put_code(f, block, i, (uint32_t)(int32_t)v & (uint32_t)(((uint64_t)1 << bits_of(f)) - 1));
    }
}

/* i64: beyond 2^53 a double can't say which. */
static void long_decode(const struct rfg_format *f, const void *block, double *values)
{
    int64_t v;
    (void)f;
    memcpy(&v, block, sizeof(v));
    values[0] = (double)v;
}

static void long_encode(const struct rfg_format *f, void *block, const double *values)
{
    double v = isnan(values[0]) ? 0 : rint(values[0]);
    int64_t code = v >= f->largest ? INT64_MAX : v <= -f->largest ? INT64_MIN : (int64_t)v;
    memcpy(block, &code, sizeof(code));
}

/* ---- powers of two ----------------------------------------------------------------------------------------------- */

static void scale_decode(const struct rfg_format *f, const void *block, double *values)
{
    uint32_t code = get_code(f, block, 0);
    values[0] = code == 255 ? NAN : ldexp(1, (int)code - 127);
}

static void scale_encode(const struct rfg_format *f, void *block, const double *values)
{
    double v = fmin(fmax(values[0], 0x1p-127), f->largest);
    int e = ilogb(v) + 127;
    double over = ldexp(v, 127 - e); /* from 1, below 2 */
    put_code(f, block, 0, isnan(values[0]) ? 255 : (uint32_t)(e + (over > 1.5 || (over == 1.5 && e % 2))));
}

/* ---- blocks with scales ------------------------------------------------------------------------------------------ */

static void block_decode(const struct rfg_format *f, const void *block, double *values)
{
    rfg_blocks_decode(f->blocks, f->elements, block, values);
}

static void block_encode(const struct rfg_format *f, void *block, const double *values)
{
    rfg_blocks_encode(f->blocks, f->elements, block, values);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define FLOAT(name, bytes, elements, largest, mantissa, bias, specials)                                                \
    {                                                                                                                  \
        name, elements, bytes, RFG_FORMAT_FLOAT, largest, { mantissa, bias, specials }, float_decode, float_encode,    \
            NULL                                                                                                       \
    }
#define INT(name, bytes, elements, largest)                                                                            \
    {                                                                                                                  \
        name, elements, bytes, RFG_FORMAT_INT, largest, { 0, 0, RFG_FORMAT_NONE }, int_decode, int_encode, NULL        \
    }
#define BLOCKS(name, bytes, elements, largest)                                                                         \
    {                                                                                                                  \
#name, elements, bytes, RFG_FORMAT_BLOCK, largest,                                                             \
            { 0, 0, RFG_FORMAT_NONE }, block_decode, block_encode, &rfg_blocks_##name                                  \
    }
#define MOST 65504.0 /* of fp16 */

static const struct rfg_format formats[RFG_DTYPE_COUNT] = {
    [RFG_F32] = FLOAT("f32", 4, 1, 0x1.fffffep127, 23, 127, RFG_FORMAT_IEEE),
    [RFG_F16] = FLOAT("f16", 2, 1, 65504, 10, 15, RFG_FORMAT_IEEE),
    [RFG_BF16] = FLOAT("bf16", 2, 1, 0x1.fep127, 7, 127, RFG_FORMAT_IEEE),
    [RFG_E4M3] = FLOAT("e4m3", 1, 1, 448, 3, 7, RFG_FORMAT_FN),
    [RFG_E4M3FNUZ] = FLOAT("e4m3fnuz", 1, 1, 240, 3, 8, RFG_FORMAT_FNUZ),
    [RFG_E5M2] = FLOAT("e5m2", 1, 1, 57344, 2, 15, RFG_FORMAT_IEEE),
    [RFG_I8] = INT("i8", 1, 1, INT8_MAX),
    [RFG_I32] = INT("i32", 4, 1, INT32_MAX),
    [RFG_I4] = INT("i4", 1, 2, 7),
    [RFG_E2M1] = FLOAT("e2m1", 1, 2, 6, 1, 1, RFG_FORMAT_NONE),
    [RFG_E8M0] = { "e8m0",
                   1,
                   1,
                   RFG_FORMAT_SCALE,
                   0x1p127,
                   { 0, 127, RFG_FORMAT_NONE },
                   scale_decode,
                   scale_encode,
                   NULL },
    [RFG_I64] = { "i64", 1, 8, RFG_FORMAT_INT, 0x1p63, { 0, 0, RFG_FORMAT_NONE }, long_decode, long_encode, NULL },
    [RFG_Q4_0] = BLOCKS(q4_0, 18, 32, 8 * MOST),
    [RFG_Q4_1] = BLOCKS(q4_1, 20, 32, 16 * MOST),
    [RFG_Q5_0] = BLOCKS(q5_0, 22, 32, 16 * MOST),
    [RFG_Q5_1] = BLOCKS(q5_1, 24, 32, 32 * MOST),
    [RFG_Q8_0] = BLOCKS(q8_0, 34, 32, 128 * MOST),
    [RFG_Q2_K] = BLOCKS(q2_k, 84, 256, 60 * MOST),
    [RFG_Q3_K] = BLOCKS(q3_k, 110, 256, 128 * MOST),
    [RFG_Q4_K] = BLOCKS(q4_k, 144, 256, 1008 * MOST),
    [RFG_Q5_K] = BLOCKS(q5_k, 176, 256, 2016 * MOST),
    [RFG_Q6_K] = BLOCKS(q6_k, 210, 256, 4096 * MOST),
    [RFG_IQ4_NL] = BLOCKS(iq4_nl, 18, 32, 127 * MOST),
    [RFG_IQ4_XS] = BLOCKS(iq4_xs, 136, 256, 4064 * MOST),
    [RFG_MXFP4] = BLOCKS(mxfp4, 17, 32, 0x1.8p130),
    [RFG_NVFP4] = BLOCKS(nvfp4, 36, 64, 2880),
};

const struct rfg_format *rfg_format(int dtype)
{
    return dtype > RFG_DTYPE_NONE && dtype < RFG_DTYPE_COUNT ? &formats[dtype] : NULL;
}

rfg_dtype rfg_format_find(const char *name, size_t len)
{
    for (int d = RFG_DTYPE_NONE + 1; d < RFG_DTYPE_COUNT; d++)
        if (strlen(formats[d].name) == len && !strncmp(formats[d].name, name, len))
            return (rfg_dtype)d;
    return RFG_DTYPE_NONE;
}

char *rfg_format_names(char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int d = RFG_DTYPE_NONE + 1; d < RFG_Q4_0 && at < size; d++)
        at += (size_t)snprintf(buf + at, size - at, "%s, ", formats[d].name);
    if (at < size)
        snprintf(buf + at, size - at, "or one of GGUF's, %s to %s", formats[RFG_Q4_0].name, formats[RFG_NVFP4].name);
    return buf;
}

int64_t rfg_format_bytes(int dtype, int64_t elements)
{
    const struct rfg_format *f = rfg_format(dtype);
    int64_t bytes;
    return !f || elements & (f->elements - 1) ||
                   __builtin_mul_overflow(elements >> __builtin_ctz((unsigned)f->elements), f->bytes, &bytes)
               ? 0
               : bytes;
}

int64_t rfg_format_elements(int dtype, int64_t bytes)
{
    const struct rfg_format *f = rfg_format(dtype);
    int64_t elements;
    return !f || bytes % f->bytes || __builtin_mul_overflow(bytes / f->bytes, f->elements, &elements) ? 0 : elements;
}

/* ---- rfg/core.h -------------------------------------------------------------------------------------------------- */

const char *rfg_dtype_name(rfg_dtype dtype)
{
    const struct rfg_format *f = rfg_format((int)dtype);
    return f ? f->name : dtype == RFG_DTYPE_NONE ? "none" : "?";
}

size_t rfg_dtype_bytes(rfg_dtype dtype, int64_t elements)
{
    return elements > 0 ? (size_t)rfg_format_bytes((int)dtype, elements) : 0;
}
