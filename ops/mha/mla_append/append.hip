/* SPDX-License-Identifier: MIT
 *
 * A token's row of the cache by a workgroup of 64 threads: a thread has one chunk of 8 elements of the latent, some have
 * one of the rotated part besides. The heads of q are other workgroups' (y from 1 on), 8 or 16 each.
 *
 * Bytes are few, so what takes time is one load after the other: a slot, position and row are asked for at once, then
 * the position's angles; a barrier for the sum of squares; the stores.
 *
 * Macros: DTYPE (latent, k_rope, q), KV_DTYPE, FORMAT (mla_format.h), LATENT, ROTATED (elements), NORM (0; 1: of the
 * latent; 2: of all), W_DTYPE, ROPE (0; 1: NeoX; 2: GPT-J), TABLE_DTYPE, POS_DTYPE, WIDTH (bytes of an access). */
#include "rfg_device.h"
#include "rfg_pages.h"
#include "mha/mla/mla_format.h"
#include "mha/mla_append/append_args.h"

#define THREADS               64
#define CHUNKS                (LATENT / 8)  /* of the latent: one a thread */
#define UNITS                 (ROTATED / 8) /* of k_rope, or of a head of q: 4 pairs each */
#define CODES                 (KV_DTYPE != DTYPE)
#define KV_BYTES              (CODES ? 1 : 2)
#define KV_WIDTH              (FORMAT != MLA_PLAIN ? 16 : WIDTH)
#define NARROWER(width, most) ((width) < (most) ? (width) : (most))
#define NAN_                  rfg_as_float(0x7fc00000u)
static_assert(CHUNKS <= THREADS && UNITS <= THREADS, "a thread has one of each at most");

/* Where a unit's first and last four elements are. */
RFG_DEVICE int first_at(int u)
{
    return ROPE == 1 ? 4 * u : 8 * u;
}
RFG_DEVICE int second_at(int u)
{
    return ROPE == 1 ? ROTATED / 2 + 4 * u : 8 * u + 4;
}

RFG_DEVICE rfg_u32x4 load_unit(const char *row, int u)
{
    if (ROPE != 1)
        return rfg_load_chunk(row, (rfg_u32)u * 16u, 8, DTYPE, WIDTH, false);
    rfg_u32x4 a = rfg_load_chunk(row, (rfg_u32)first_at(u) * 2u, 4, DTYPE, NARROWER(WIDTH, 8), false);
    rfg_u32x4 b = rfg_load_chunk(row, (rfg_u32)second_at(u) * 2u, 4, DTYPE, NARROWER(WIDTH, 8), false);
    a.z = b.x;
    a.w = b.y;
    return a;
}
RFG_DEVICE void store_unit(char *row, int u, rfg_u32x4 v, int width)
{
    if (ROPE != 1) {
        rfg_store_chunk(row, (rfg_u32)u * 16u, 8, v, DTYPE, width, false);
        return;
    }
    rfg_store_chunk(row, (rfg_u32)first_at(u) * 2u, 4, v, DTYPE, NARROWER(width, 8), false);
    v.x = v.z;
    v.y = v.w;
    rfg_store_chunk(row, (rfg_u32)second_at(u) * 2u, 4, v, DTYPE, NARROWER(width, 8), false);
}

/* n (4 or 8) floats from element `at` on. A NaN may have any bits in memory; what rounds takes those of arithmetic. */
RFG_DEVICE void load_floats(float *f, const void *p, int at, int n, int dtype)
{
    const int wide = WIDTH < 4 ? 4 : WIDTH, half = n == 4 ? NARROWER(WIDTH, 8) : WIDTH;
    if (dtype == RFG_F32) {
        rfg_unpack(f, rfg_load_chunk(p, (rfg_u32)at * 4u, 4, RFG_F32, wide, false), RFG_F32);
        if (n == 8)
            rfg_unpack(f + 4, rfg_load_chunk(p, (rfg_u32)at * 4u + 16u, 4, RFG_F32, wide, false), RFG_F32);
    } else {
        float v[RFG_MAX_VEC];
        rfg_unpack(v, rfg_load_chunk(p, (rfg_u32)at * 2u, n, DTYPE, half, false), DTYPE);
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < n)
                f[i] = v[i];
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < n)
            f[i] = f[i] == f[i] ? f[i] : NAN_;
}

RFG_DEVICE long long load_i64(const void *p, int at)
{
    rfg_u32x2 two = rfg_load8((const char *)p + (long long)at * 8);
    return (long long)((rfg_u64)two.y << 32 | two.x);
}

/* ---- rotation ----------------------------------------------------------------------------------------------------- */

#if ROPE
struct angles {
    float c[4], s[4];
};
RFG_DEVICE void load_angles(struct angles *t, const struct append_args *a, int token, int u)
{
    long long p = POS_DTYPE == RFG_I64 ? load_i64(a->positions, token)
                                       : (int)rfg_load4((const char *)a->positions + (long long)token * 4);
    const char *row = (const char *)a->cos_sin + p * a->table_stride * RFG_DTYPE_BYTES(TABLE_DTYPE);
    if ((rfg_u64)p < (rfg_u64)a->table_rows) {
        load_floats(t->c, row, 4 * u, 4, TABLE_DTYPE);
        load_floats(t->s, row, ROTATED / 2 + 4 * u, 4, TABLE_DTYPE);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        t->c[i] = t->s[i] = NAN_;
}

RFG_DEVICE void rotate(float *f, const struct angles *t)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int j = ROPE == 1 ? i : 2 * i, k = ROPE == 1 ? i + 4 : 2 * i + 1;
        float x = f[j], y = f[k];
        f[j] = rfg_fma(x, t->c[i], -(y * t->s[i]));
        f[k] = rfg_fma(y, t->c[i], x * t->s[i]);
    }
}

/* Heads of q: those of this workgroup. */
RFG_DEVICE void rotate_heads(const struct append_args *a, int token, int group)
{
    int head = group * (THREADS / UNITS) + rfg_thread() / UNITS, u = rfg_thread() % UNITS;
    if (head >= a->hq)
        return;
    const char *from = (const char *)a->q + (token * a->q_token + head * a->q_head) * 2;
    char *to = (char *)a->q_out + (token * a->q_out_token + head * a->q_out_head) * 2;
    struct angles t;
    float f[RFG_MAX_VEC];
    rfg_u32x4 v = load_unit(from, u);
    load_angles(&t, a, token, u);
    rfg_unpack(f, v, DTYPE);
    rotate(f, &t);
    store_unit(to, u, rfg_pack(f, DTYPE), WIDTH);
}
#endif

/* ---- the row ------------------------------------------------------------------------------------------------------ */

#if NORM
RFG_DEVICE float squares(const float *f)
{
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum = rfg_fma(f[i], f[i], sum);
    return sum;
}
RFG_DEVICE void normalise(float *f, const float *w, float rms)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] = f[i] * rms * w[i];
}
#endif

/* The chunk of codes of this thread, and its group's scale. All threads come here: those without a chunk have zeroes. */
#if FORMAT != MLA_PLAIN
RFG_DEVICE void store_group(char *row, char *scales, int u, const float *f)
{
    const int lanes = MLA_GROUP(FORMAT) / 8;
    float largest = rfg_reduce_group(rfg_max(rfg_chunk_max(f, DTYPE), MLA_LEAST_LARGEST), lanes);
    rfg_u32 scale = MLA_SCALE_CODE(rfg_as_u32(largest));
    if (u < CHUNKS)
        rfg_store_codes(row, (rfg_u32)u * 8u, 8, f, rfg_inverse_power_of(scale), RFG_E4M3, DTYPE, KV_WIDTH, false);
    if (u % lanes != 0)
        return;
    if (FORMAT == MLA_V4)
        rfg_store1(scales + u / lanes, u < CHUNKS ? scale : 0u); /* the eighth is padding */
    else
        rfg_store4(scales + u / lanes * 4, rfg_as_u32(rfg_power_of(scale)));
}
#endif

RFG_DEVICE void store_latent(const struct append_args *a, char *row, char *scales, int u, rfg_u32x4 raw, const float *f,
                             float inverse)
{
    (void)a, (void)scales, (void)inverse;
#if FORMAT != MLA_PLAIN
    store_group(row, scales, u, f);
    (void)raw;
#else
    if (u >= CHUNKS)
        return;
    if (CODES)
        rfg_store_codes(row, (rfg_u32)u * 8u, 8, f, inverse, KV_DTYPE, DTYPE, WIDTH, false);
    else
        rfg_store_chunk(row, (rfg_u32)u * 16u, 8, NORM ? rfg_pack(f, DTYPE) : raw, DTYPE, WIDTH, false);
#endif
}

#if ROTATED
RFG_DEVICE void store_rotated(char *row, int u, rfg_u32x4 raw, const float *f, float inverse)
{
    if (FORMAT == MLA_PLAIN && CODES) {
        if (ROPE != 1) {
            rfg_store_codes(row, (rfg_u32)(LATENT + 8 * u), 8, f, inverse, KV_DTYPE, DTYPE, WIDTH, false);
            return;
        }
        const float second[RFG_MAX_VEC] = { f[4], f[5], f[6], f[7] };
        rfg_store_codes(row, (rfg_u32)(LATENT + first_at(u)), 4, f, inverse, KV_DTYPE, DTYPE, NARROWER(WIDTH, 8),
                        false);
        rfg_store_codes(row, (rfg_u32)(LATENT + second_at(u)), 4, second, inverse, KV_DTYPE, DTYPE, NARROWER(WIDTH, 8),
                        false);
        return;
    }
    store_unit(row + (FORMAT == MLA_PLAIN ? LATENT * 2 : MLA_ROTATED_AT(FORMAT)), u,
               ROPE || NORM == 2 ? rfg_pack(f, DTYPE) : raw, KV_WIDTH);
}
#endif

RFG_DEVICE void append_row(const struct append_args *a, int token, float *part)
{
    int u = rfg_thread();
    bool has_chunk = u < CHUNKS, has_unit = u < UNITS;
    rfg_u32x4 none = { 0, 0, 0, 0 }, raw = none, raw_rotated = none;
    float f[RFG_MAX_VEC], inverse = 1.0f;
    long long slot = load_i64(a->slots, token);
    if (has_chunk)
        raw = rfg_load_chunk((const char *)a->latent + token * a->latent_token * 2, (rfg_u32)u * 16u, 8, DTYPE, WIDTH,
                             false);
#if ROTATED
    float r[RFG_MAX_VEC];
    if (has_unit)
        raw_rotated = load_unit((const char *)a->k_rope + token * a->k_rope_token * 2, u);
    rfg_unpack(r, raw_rotated, DTYPE);
#endif
#if ROPE
    struct angles t;
    if (has_unit)
        load_angles(&t, a, token, u);
#endif
    if (CODES && FORMAT == MLA_PLAIN && a->kv_scale)
        inverse = 1.0f / rfg_load_float(a->kv_scale, 0, RFG_F32);
    rfg_unpack(f, raw, DTYPE);
#if NORM
    float w[RFG_MAX_VEC];
    if (has_chunk)
        load_floats(w, a->norm, 8 * u, 8, W_DTYPE);
#if NORM == 2
    float w_rotated[RFG_MAX_VEC];
    if (has_unit) {
        load_floats(w_rotated, a->norm, LATENT + first_at(u), 4, W_DTYPE);
        load_floats(w_rotated + 4, a->norm, LATENT + second_at(u), 4, W_DTYPE);
    }
    float sum = squares(f) + squares(r);
#else
    float sum = squares(f);
#endif
    sum = rfg_group_reduce(sum, part, THREADS / RFG_WAVE, rfg_wave(), false);
    float rms = rfg_rsqrt(rfg_fma(sum, 1.0f / (NORM == 2 ? LATENT + ROTATED : LATENT), a->eps));
    if (has_chunk)
        normalise(f, w, rms);
#if NORM == 2
    if (has_unit)
        normalise(r, w_rotated, rms);
#endif
#endif
    (void)part, (void)has_unit, (void)raw_rotated;
    if ((rfg_u64)slot >= (rfg_u64)a->n_slots)
        return;
    long long block = RFG_PAGE_OF(slot, a->page_shift), at = RFG_PAGE_ROW(slot, a->page_shift);
    char *page = (char *)a->kv + block * a->kv_block * KV_BYTES, *row = page + at * a->kv_row * KV_BYTES;
    char *scales = FORMAT == MLA_V4 ? page + MLA_V4_SCALES_AT(1LL << a->page_shift) + at * MLA_V4_SCALE_BYTES
                                    : row + MLA_V32_SCALES_AT;
    store_latent(a, row, scales, u, raw, f, inverse);
#if ROPE
    if (has_unit)
        rotate(r, &t);
#endif
#if ROTATED
    if (has_unit)
        store_rotated(row, u, raw_rotated, r, inverse);
#endif
}

RFG_KERNEL(THREADS) mla_append_rows(struct append_args args)
{
    RFG_SHARED float part[2][THREADS / RFG_WAVE];
    int turn = 0;
    rfg_start_next();
    rfg_await_previous();
    for (int token = rfg_group_x(); token < args.tokens; token += rfg_groups_x(THREADS)) {
#if ROPE
        if (rfg_group_y() > 0) {
            rotate_heads(&args, token, rfg_group_y() - 1);
            continue;
        }
#endif
        append_row(&args, token, part[turn]);
        turn ^= 1;
    }
}
