/* SPDX-License-Identifier: MIT
 *
 * quantize: THREADS threads a row, ROWS rows side by side in a workgroup, which goes on to further rows in strides of
 * the grid. A thread has chunks of 16 bytes, THREADS apart, CHUNKS of them in a step: all are loaded before the first
 * is used. Where a row shares a scale it is kept in registers until that is known (KEEP = 1: it has one step), or read
 * again from the caches. Rows of other scales may be shared by SPLIT workgroups, which take steps by turns.
 *
 * Macros: those of scale_device.h, IN_DTYPE, SMOOTH (dtype of the columns' factors; 0: none), KIND (RFG_SCALE_STATIC:
 * the tensor's scale, which is read; _TOKEN, _GROUP), GROUP (columns that share a scale), GLOBAL (1: scales, of e4m3, are
 * divided by one of the tensor; or missing), CLAMP (to the rule's max),
 * WIDTH (bytes of a load), THREADS (16, 32 or whole waves), ROWS, CHUNKS, KEEP, SPLIT. */
#include "rfg_device.h"
#include "quantize/quantize_args.h"
#include "quantize/scale_device.h"

#define VEC       RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE      RFG_DTYPE_BYTES(IN_DTYPE)
#define BLOCK     (THREADS * ROWS)
#define ROW_WAVES (THREADS > RFG_WAVE ? THREADS / RFG_WAVE : 1)
#define STEP      (CHUNKS * THREADS)
#define LANES     (GROUP ? GROUP / VEC : 1) /* that share a group, with a chunk each */
/* A product is as exact as the quotient, or what is asked for. */
#define MULTIPLY (SCALE_DTYPE == RFG_E8M0 || ROUNDING != EXACT || (RECIPROCAL & OF_SCALE) != 0)

struct row {
    const char *x;
    char *q;
    int n; /* elements; 0: there is no such row */
};

/* A step's chunks of x, */
RFG_DEVICE void load_x(rfg_u32x4 *raw, struct row r, int first)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int left = r.n - (first + c * THREADS) * VEC;
        raw[c].x = raw[c].y = raw[c].z = raw[c].w = 0u;
        if (left > 0)
            raw[c] = rfg_load_chunk(r.x + c * THREADS * 16, (rfg_u32)first * 16u, left, IN_DTYPE, WIDTH, false);
    }
}

/* and what is kept of one: x, or its products with the columns' factors. */
#if SMOOTH
#define PARTS        (VEC / RFG_DTYPE_VEC(SMOOTH)) /* chunks of factors: 2 if these are f32 and x isn't */
#define PIECE        (WIDTH < RFG_DTYPE_BYTES(SMOOTH) ? RFG_DTYPE_BYTES(SMOOTH) : WIDTH)
#define CHUNK        struct products
#define unpack(f, v) copy_products(f, v)

struct products {
    float f[VEC];
};

RFG_DEVICE void copy_products(float *f, struct products v)
{
#pragma unroll
    for (int i = 0; i < VEC; i++)
        f[i] = v.f[i];
}

RFG_DEVICE void load_step(struct products *v, const struct quantize_args *args, struct row r, int first)
{
    rfg_u32x4 raw[CHUNKS], smooth[CHUNKS][PARTS];
    load_x(raw, r, first);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int left = r.n - (first + c * THREADS) * VEC;
#pragma unroll
        for (int k = 0; k < PARTS; k++) {
            smooth[c][k].x = smooth[c][k].y = smooth[c][k].z = smooth[c][k].w = 0u;
            if (left > 0)
                smooth[c][k] = rfg_load_chunk((const char *)args->smooth + c * THREADS * PARTS * 16,
                                              (rfg_u32)(first * PARTS + k) * 16u, left - k * RFG_DTYPE_VEC(SMOOTH),
                                              SMOOTH, PIECE, false);
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float f[VEC];
        rfg_unpack(v[c].f, raw[c], IN_DTYPE);
#pragma unroll
        for (int k = 0; k < PARTS; k++)
            rfg_unpack(f + k * RFG_DTYPE_VEC(SMOOTH), smooth[c][k], SMOOTH);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            v[c].f[i] *= f[i];
    }
}

RFG_DEVICE float largest_of(struct products v)
{
    return rfg_chunk_max(v.f, IN_DTYPE);
}
#else
#define CHUNK                          rfg_u32x4
#define unpack(f, v)                   rfg_unpack(f, v, IN_DTYPE)
#define load_step(raw, args, r, first) load_x(raw, r, first)

RFG_DEVICE float largest_of(rfg_u32x4 raw)
{
    float f[VEC];
    if (RFG_MAX_WORDS && RFG_IS_HALF(IN_DTYPE)) {
        rfg_u32 size = 0x7fff7fffu, two = rfg_max_x2(rfg_max_x2(raw.x & size, raw.y & size, IN_DTYPE),
                                                     rfg_max_x2(raw.z & size, raw.w & size, IN_DTYPE), IN_DTYPE);
        return rfg_max(rfg_low(two, IN_DTYPE), rfg_high(two, IN_DTYPE));
    }
    rfg_unpack(f, raw, IN_DTYPE);
    return rfg_chunk_max(f, IN_DTYPE);
}
#endif

#define NVFP4 (SCALE_DTYPE == RFG_E4M3)
#ifndef GLOBAL
#define GLOBAL 0
#endif

/* What values are divided by, or of a product (r alone) multiplied with. near: of scale_of(). */
RFG_DEVICE struct quotient divisor_of(float scale, bool near)
{
    if (!MULTIPLY)
        return near ? quotient_near(scale) : quotient_by(scale);
    struct quotient d = { 1.0f, near ? rfg_reciprocal(scale) : 1.0f / scale, 0.0f };
    return d;
}
RFG_DEVICE struct quotient divisor_of_bits(rfg_u32 s, bool near)
{
    if (ROUNDING == EXACT)
        return divisor_of(rfg_as_float(s), near);
    struct quotient d = { 1.0f, SCALE_DTYPE == RFG_E8M0 || s < 255u ? rfg_inverse_power_of(s) : 0.0f, 0.0f };
    return d;
}

#if NVFP4
RFG_DEVICE float global_of(const struct quantize_args *args)
{
    return GLOBAL ? rfg_load_float(args->global, 0, RFG_F32) : 1.0f;
}
#endif

/* Chunks of a step, the first one `first`. largest: of each chunk's group; d: the divisor of all others. */
RFG_DEVICE void store_step(const struct quantize_args *args, rfg_u32 row, struct row r, int first, const CHUNK *chunk,
                           const float *largest, struct quotient d, bool near)
{
#if NVFP4
    float global = global_of(args);
#endif
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int left = r.n - (first + c * THREADS) * VEC;
        float f[VEC];
        bool none = false; /* codes are 0, with a scale of 0 */
        if (KIND == RFG_SCALE_GROUP) {
            rfg_u32 s = scale_of(largest[c], args->rule, near);
#if NVFP4
            s = rfg_fp8_code(rfg_min(rfg_as_float(s) / global, 448.0f), RFG_E4M3);
            d = divisor_of(rfg_code_value(s, RFG_E4M3) * global, false);
            none = s == 0u;
#else
            d = divisor_of_bits(s, near);
#endif
            if (left > 0 && first % LANES == 0)
                store_scale(args->scale,
                            row * args->scale_row + (rfg_u32)first / LANES * args->scale_col +
                                c * (THREADS / LANES) * args->scale_col,
                            s);
        }
        unpack(f, chunk[c]);
#pragma unroll
        for (int i = 0; i < VEC; i++) {
            f[i] = MULTIPLY ? f[i] * d.r : near ? quotient_of_near(f[i], d) : quotient_of(f[i], d);
            if (NVFP4 && none)
                f[i] = 0.0f;
            if (CLAMP)
                f[i] = rfg_clamp_keep_nan(f[i], args->rule.max);
        }
        char *q = r.q + c * THREADS * VEC / PER_BYTE;
        if (left > 0)
            rfg_store_codes(q, (rfg_u32)(first * VEC), left, f, 1.0f, Q_DTYPE, IN_DTYPE, WIDTH, false);
    }
}

RFG_KERNEL(BLOCK) quantize_rows(struct quantize_args args)
{
    RFG_SHARED float part[2][ROWS * ROW_WAVES];
    int sub = ROWS == 1 ? 0 : THREADS >= RFG_WAVE ? rfg_wave() / ROW_WAVES : rfg_thread() / THREADS;
    int t = rfg_thread() - sub * THREADS, slot = 0;
    int chunks = (args.n + VEC - 1) / VEC, end = KEEP ? 1 : chunks; /* of steps' beginnings */
    int begin = rfg_group_x() % SPLIT * STEP;
    struct quotient d = { 1.0f, 1.0f, 1.0f };
    bool near = KIND != RFG_SCALE_STATIC;
    rfg_start_next();
    rfg_await_previous();
    if (KIND == RFG_SCALE_STATIC)
        d = divisor_of(rfg_load_scale(args.scale, 0, SCALE_DTYPE), false);
    for (rfg_u32 base = (rfg_u32)(rfg_group_x() / SPLIT) * ROWS; base < (rfg_u32)args.m;
         base += (rfg_u32)(rfg_groups_x(BLOCK) / SPLIT) * ROWS) {
        rfg_u32 row = base + (rfg_u32)sub;
        struct row r;
        CHUNK chunk[CHUNKS];
        float largest[CHUNKS];
        r.x = (const char *)args.x + row * args.ldx * SIZE;
        r.q = (char *)args.q + row * args.ldq / PER_BYTE;
        r.n = row < (rfg_u32)args.m ? args.n : 0;
        if (KIND == RFG_SCALE_TOKEN) {
            float all = 0.0f;
            for (int step = 0; step < end; step += STEP) {
                load_step(chunk, &args, r, step + t);
#pragma unroll
                for (int c = 0; c < CHUNKS; c++)
                    all = rfg_max(all, largest_of(chunk[c]));
            }
            if (THREADS <= RFG_WAVE)
                all = rfg_reduce_lanes(all, THREADS, true);
            else
                all =
                    rfg_group_reduce(all, part[slot] + sub * ROW_WAVES, ROW_WAVES, rfg_wave() - sub * ROW_WAVES, true);
            slot ^= 1;
            near = is_near(all, args.rule);
            rfg_u32 s = near ? scale_of(all, args.rule, true) : scale_of(all, args.rule, false);
            d = near ? divisor_of_bits(s, true) : divisor_of_bits(s, false);
            if (r.n > 0 && t == 0)
                store_scale(args.scale, row * args.scale_row, s);
        }
        for (int step = begin; step < end; step += SPLIT * STEP) {
            if (!KEEP || KIND != RFG_SCALE_TOKEN)
                load_step(chunk, &args, r, step + t);
            if (KIND == RFG_SCALE_GROUP) {
                near = !NVFP4; /* what is divided by has its global in it */
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    largest[c] = rfg_reduce_group(largest_of(chunk[c]), LANES);
                    near = near & is_near(largest[c], args.rule);
                }
            }
            if (near) /* as nearly all are */
                store_step(&args, row, r, step + t, chunk, largest, d, true);
            else
                store_step(&args, row, r, step + t, chunk, largest, d, false);
        }
    }
}
