/* SPDX-License-Identifier: MIT
 *
 * Heads of tokens, row by row: q's, then k's, then v's. A lane has a unit of a row: two chunks of E elements (WIDTH
 * bytes). In what is rotated they hold E whole pairs (NeoX: one chunk of each half), whose angles lie side by side in
 * the table; elsewhere one is from the first half of what there is, one from the second. So rows are read and written
 * where they lie, and no lane needs another's elements but for the sum of squares.
 *
 * rope_rows: LANES lanes a row, a unit each. A workgroup has one token at a time and THREADS / LANES * UNROLL of its
 * rows: a lane's unit is the same in all of them, and so are its angles, which are read once. rope_portable: a
 * workgroup a row, elements one by one, whatever D is.
 *
 * Macros: IN_DTYPE (q, k, v, q_out), KV_DTYPE (the caches, with APPEND), POS_DTYPE, TABLE_DTYPE, W_DTYPE (of
 * norms' weights), ROPE, APPEND, NORM, GPTJ, MROPE (0: one row of positions; 1: chunked; 2: interleaved), VLLM, WIDTH,
 * LANES, THREADS, UNROLL. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rope/rope_args.h"

#if ROPE && POS_DTYPE != RFG_I32 && POS_DTYPE != RFG_I64
#error "POS_DTYPE: must be i32 or i64"
#endif
#if !RFG_IS_HALF(IN_DTYPE)
#error "IN_DTYPE: must be bf16 or f16"
#endif
#if APPEND && KV_DTYPE != IN_DTYPE && !RFG_IS_CODE(KV_DTYPE)
#error "KV_DTYPE: must be IN_DTYPE, e4m3, e4m3fnuz or e5m2"
#endif

#define E     (WIDTH / 2) /* elements of a chunk */
#define CODES (KV_DTYPE != IN_DTYPE)
#define NAN_  rfg_as_float(0x7fc00000u)
/* Bytes of an element of the cache, and elements in 16. */
#define KV_BYTES (CODES ? 1 : 2)
#define X        (CODES ? 16 : 8)
#if !APPEND
#undef KV_DTYPE
#define KV_DTYPE IN_DTYPE
#endif

/* Kinds of rows. */
#define Q 0
#define K 1
#define V 2

RFG_DEVICE long long load_i64(const void *p)
{
    rfg_u32x2 two = rfg_load8(p);
    return (long long)((rfg_u64)two.y << 32 | two.x);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

struct row {
    int kind, head;
    const char *from;
    char *to; /* NULL: nowhere */
};

RFG_DEVICE int rows_of(const struct rope_args *args)
{
    return args->hq + args->hkv * (APPEND ? 2 : 1);
}

/* The i-th row of a token, which has slot `slot` (APPEND). What all lanes have alike is in 64 bits, heads in 32. */
RFG_DEVICE struct row row_of(const struct rope_args *args, int token, int i, long long slot)
{
    const struct rope_cache *kc = &args->k_cache, *vc = &args->v_cache;
    struct row r;
    r.kind = i < args->hq ? Q : i < args->hq + args->hkv ? K : V;
    bool q = r.kind == Q, k = r.kind == K;
    r.head = i - (q ? 0 : k ? args->hq : args->hq + args->hkv);
    const char *from_q = (const char *)args->q.data + token * args->q.token * 2;
    const char *from_k = (const char *)args->k.data + token * args->k.token * 2;
    const char *from_v = (const char *)args->v.data + token * args->v.token * 2;
    char *to_q = (char *)args->q_out.data + token * args->q_out.token * 2, *to_k, *to_v = (char *)0;
    if (APPEND) {
        long long block = slot >> args->page_shift, row = slot & ((1 << args->page_shift) - 1);
        bool there = (rfg_u64)slot < (rfg_u64)args->n_slots;
        to_k = there ? (char *)kc->data + (block * kc->block + row * kc->row) * KV_BYTES : (char *)0;
        to_v = there ? (char *)vc->data + (block * vc->block + row * vc->row) * KV_BYTES : (char *)0;
    } else {
        to_k = (char *)args->k_out.data + token * args->k_out.token * 2;
    }
    rfg_u32 in = (rfg_u32)(q ? args->q.head : k ? args->k.head : args->v.head) * 2u;
    rfg_u32 out = q        ? (rfg_u32)args->q_out.head * 2u
                  : APPEND ? (rfg_u32)(k ? kc->head : vc->head) * (rfg_u32)KV_BYTES
                           : (rfg_u32)args->k_out.head * 2u;
    r.from = (q ? from_q : k ? from_k : from_v) + (rfg_u32)r.head * in;
    r.to = q ? to_q : k ? to_k : to_v;
    r.to = r.to ? r.to + (rfg_u32)r.head * out : r.to;
    return r;
}

/* ---- units ------------------------------------------------------------------------------------------------------ */

struct unit {
    int a, b;   /* elements of the row that its chunks begin at; -1: it has no such chunk */
    bool pairs; /* they are rotated */
};

/* Without branches: lanes differ in which part of a row they have. */
RFG_DEVICE struct unit unit_of(const struct rope_args *args, int kind, int u)
{
    bool rotates = ROPE && kind != V;
    int pairs = rotates ? args->r / (2 * E) : 0, w = u - pairs;
    /* Of what stays what it is: n elements from `first` on. */
    int first = rotates && !args->rotated ? args->r : 0;
    int n = kind == V ? args->dv : rotates ? args->d - args->r : args->d;
    int chunks = n / E, half = (chunks + 1) / 2;
    int a = args->rotated + (GPTJ ? 2 * u : u) * E, b = a + (GPTJ ? E : args->r / 2);
    struct unit t;
    t.pairs = u < pairs;
    t.a = t.pairs ? a : w < half ? first + w * E : -1;
    t.b = t.pairs ? b : w + half < chunks ? first + (w + half) * E : -1;
    return t;
}

RFG_DEVICE int units_of(const struct rope_args *args)
{
    int plain = args->d - args->r, d = args->r / (2 * E) + (plain / E + 1) / 2, dv = (args->dv / E + 1) / 2;
    return d > dv ? d : dv;
}

RFG_DEVICE rfg_u32x4 load_chunk(const char *row, int at)
{
    rfg_u32x4 none;
    none.x = none.y = none.z = none.w = 0;
    return at < 0 ? none : rfg_load_chunk(row, (rfg_u32)at * 2u, E, IN_DTYPE, WIDTH, false);
}

/* E floats. A NaN may have any bits in memory; what rounds takes those of arithmetic. */
RFG_DEVICE void load_floats(float *f, const char *p, int dtype)
{
    if (dtype == RFG_F32) {
#pragma unroll
        for (int i = 0; i < E; i += 4) {
            rfg_unpack(f + i, rfg_load_chunk(p, (rfg_u32)i * 4u, E - i, RFG_F32, WIDTH < 4 ? 4 : WIDTH, false),
                       RFG_F32);
#pragma unroll
            for (int j = i; j < i + 4; j++)
                f[j] = f[j] == f[j] ? f[j] : NAN_;
        }
        return;
    }
    rfg_unpack(f, rfg_load_chunk(p, 0, E, IN_DTYPE, WIDTH, false), IN_DTYPE);
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

#if ROPE
/* The row of the table that a token goes by on an axis; NULL: there is none. */
RFG_DEVICE const char *table_row(const struct rope_args *args, int token, int axis)
{
    long long at = axis * args->axis_stride + token;
    long long p = POS_DTYPE == RFG_I64 ? load_i64((const char *)args->positions + at * 8)
                                       : (int)rfg_load4((const char *)args->positions + at * 4);
    if ((rfg_u64)p >= (rfg_u64)args->table_rows)
        return (const char *)0;
    return (const char *)args->cos_sin + p * args->table_stride * RFG_DTYPE_BYTES(TABLE_DTYPE);
}

/* Which axis a pair goes by. */
RFG_DEVICE int axis_of(const struct rope_args *args, int pair)
{
    if (MROPE == 2) {
        int axis = pair % 3;
        return axis == 1 && pair < 3 * args->sections[1] ? 1 : axis == 2 && pair < 3 * args->sections[2] ? 2 : 0;
    }
    /* No loop: the arguments would lie in scratch. */
    int first = args->sections[0], second = first + args->sections[1], third = second + args->sections[2];
    return (pair >= first) + (pair >= second && args->axes > 2) + (pair >= third && args->axes > 3);
}

/* Cosines and sines of the E pairs from `pair` on. */
RFG_DEVICE void load_angles(const struct rope_args *args, int token, int pair, float *c, float *s)
{
    if (!MROPE) {
        const char *row = rfg_uniform((char *)table_row(args, token, 0)); /* all lanes have one token */
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i++)
            c[i] = s[i] = NAN_;
        if (row) {
            load_floats(c, row + pair * RFG_DTYPE_BYTES(TABLE_DTYPE), TABLE_DTYPE);
            load_floats(s, row + (args->r / 2 + pair) * RFG_DTYPE_BYTES(TABLE_DTYPE), TABLE_DTYPE);
        }
    } else {
#pragma unroll
        for (int i = 0; i < E; i++) {
            const char *row = table_row(args, token, axis_of(args, pair + i));
            c[i] = row ? rfg_load_float(row, pair + i, TABLE_DTYPE) : NAN_;
            s[i] = row ? rfg_load_float(row, args->r / 2 + pair + i, TABLE_DTYPE) : NAN_;
            c[i] = c[i] == c[i] ? c[i] : NAN_;
            s[i] = s[i] == s[i] ? s[i] : NAN_;
        }
    }
#pragma unroll
    for (int i = 0; i < E; i++)
        s[i] *= args->sin_sign;
}

RFG_DEVICE void rotate(float *a, float *b, const float *c, const float *s)
{
#pragma unroll
    for (int i = 0; i < E; i++) {
        int j = GPTJ ? 2 * i : i, k = GPTJ ? 2 * i + 1 : i + E;
        float *first = j < E ? a + j : b + j - E, *second = k < E ? a + k : b + k - E;
        float x = *first, y = *second;
        *first = rfg_fma(x, c[i], -(y * s[i])); /* not left to the compiler: all variants give the same bits */
        *second = rfg_fma(y, c[i], x * s[i]);
    }
}
#endif

/* ---- a unit of a row -------------------------------------------------------------------------------------------- */

RFG_DEVICE float squares(rfg_u32x4 v)
{
    float f[RFG_MAX_VEC], sum = 0.0f;
    rfg_unpack(f, v, IN_DTYPE);
#pragma unroll
    for (int i = 0; i < E; i++)
        sum = rfg_fma(f[i], f[i], sum);
    return sum;
}

#if NORM
RFG_DEVICE void normalise(const struct rope_args *args, int kind, int at, float *f, float rms)
{
    const char *w = (const char *)(kind == Q ? args->q_norm : args->k_norm);
    float g[RFG_MAX_VEC];
    if (at < 0)
        return;
    load_floats(g, w + at * RFG_DTYPE_BYTES(W_DTYPE), W_DTYPE);
#pragma unroll
    for (int i = 0; i < E; i++)
        f[i] = f[i] * rms * (args->weight_offset + g[i]);
}
#endif

#if APPEND
/* The scale of a row's codes, as its reciprocal. */
RFG_DEVICE float inverse_scale(const struct rope_args *args, struct row r)
{
    const float *scale = r.kind == K ? args->k_scale : args->v_scale;
    int stride = r.kind == K ? args->k_scale_stride : args->v_scale_stride;
    return CODES && r.kind != Q && scale ? 1.0f / rfg_load_float(scale, r.head * stride, RFG_F32) : 1.0f;
}
#endif

/* A chunk as it was read, or as `f` if that is no longer what it was. */
RFG_DEVICE void store_chunk(const struct rope_args *args, struct row r, int at, rfg_u32x4 raw, const float *f,
                            bool same, float inverse)
{
    if (at < 0)
        return;
#if APPEND
    if (VLLM && r.kind == V) {
#pragma unroll
        for (int i = 0; i < E; i++) {
            char *p = r.to + (at + i) * args->v_cache.chunk * KV_BYTES;
            rfg_u32x4 packed = same ? raw : rfg_pack(f, IN_DTYPE);
            rfg_u32 word[4] = { packed.x, packed.y, packed.z, packed.w };
            if (CODES)
                rfg_store1(p, rfg_quantise4(f[i] * inverse, 0.0f, 0.0f, 0.0f, KV_DTYPE));
            else
                rfg_store2(p, (rfg_u16)(word[i / 2] >> (i % 2 * 16)));
        }
        return;
    }
    if (r.kind != Q) {
        if (VLLM)
            r.to += (at / X * args->k_cache.chunk + at % X - at) * KV_BYTES;
        if (CODES) {
            rfg_store_codes(r.to, (rfg_u32)at, E, f, inverse, KV_DTYPE, IN_DTYPE, WIDTH, false);
            return;
        }
    }
#endif
    rfg_store_chunk(r.to, (rfg_u32)at * 2u, E, same ? raw : rfg_pack(f, IN_DTYPE), IN_DTYPE, WIDTH, false);
}

/* Turns what a unit holds into what is written, and writes it. rms: 1 / the row's, for NORM. */
RFG_DEVICE void finish(const struct rope_args *args, struct row r, struct unit t, rfg_u32x4 va, rfg_u32x4 vb,
                       const float *c, const float *s, float rms)
{
    bool same = !(NORM && r.kind != V) && !t.pairs;
    float a[RFG_MAX_VEC], b[RFG_MAX_VEC], inverse = 1.0f;
    if (!r.to || (same && r.to == r.from))
        return;
    rfg_unpack(a, va, IN_DTYPE);
    rfg_unpack(b, vb, IN_DTYPE);
#if NORM
    if (r.kind != V) {
        normalise(args, r.kind, t.a, a, rms);
        normalise(args, r.kind, t.b, b, rms);
    }
#endif
#if ROPE
    if (t.pairs)
        rotate(a, b, c, s);
#endif
#if APPEND
    inverse = inverse_scale(args, r);
#endif
    store_chunk(args, r, t.a, va, a, same, inverse);
    store_chunk(args, r, t.b, vb, b, same, inverse);
}

RFG_DEVICE long long slot_of(const struct rope_args *args, int token)
{
    return APPEND ? (long long)rfg_uniform((char *)load_i64((const long long *)args->slots + token)) : 0;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

#if LANES
#define GROUPS (THREADS / LANES) /* rows at a time */

RFG_DEVICE float sum_of_row(float v)
{
#if LANES >= 16
    return rfg_reduce_lanes(v, LANES, false);
#else
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        v += rfg_shuffle_xor(v, mask);
    return v;
#endif
}

RFG_KERNEL(THREADS) rope_rows(struct rope_args given)
{
    struct rope_args args = given;
    int rows = rows_of(&args), splits = (rows + GROUPS * UNROLL - 1) / (GROUPS * UNROLL);
    int u = rfg_thread() % LANES, token = (int)((rfg_u32)rfg_group_x() / (rfg_u32)splits);
    int first = (rfg_group_x() - token * splits) * (GROUPS * UNROLL) + rfg_thread() / LANES;
    float c[RFG_MAX_VEC], s[RFG_MAX_VEC];
    rfg_u32x4 a[UNROLL], b[UNROLL];
    rfg_start_next();
    rfg_await_previous(); /* who made q, k, v, positions and slots */
    long long slot = slot_of(&args, token);
#pragma unroll
    for (int j = 0; j < UNROLL; j++) {
        int i = first + j * GROUPS;
        a[j] = b[j] = load_chunk((const char *)0, -1);
        if (i >= rows)
            continue;
        struct row r = row_of(&args, token, i, slot);
        struct unit t = unit_of(&args, r.kind, u);
        if (!NORM && !t.pairs && r.from == r.to)
            continue; /* in place, and stays as it is */
        a[j] = load_chunk(r.from, t.a);
        b[j] = load_chunk(r.from, t.b);
    }
    RFG_REREAD_ARGS(args, &given); /* rather than keep them in registers over the loads */
#if ROPE
    if (u < args.r / (2 * E) && first < args.hq + args.hkv)
        load_angles(&args, token, u * E, c, s);
#endif
#pragma unroll
    for (int j = 0; j < UNROLL; j++) {
        int i = first + j * GROUPS;
        float rms = 1.0f;
#if NORM
        rms = rfg_rsqrt(rfg_fma(sum_of_row(squares(a[j]) + squares(b[j])), args.inverse_d, args.eps));
#endif
        if (i >= rows)
            continue;
        struct row r = row_of(&args, token, i, slot);
        finish(&args, r, unit_of(&args, r.kind, u), a[j], b[j], c, s, rms);
    }
}
#else

RFG_KERNEL(THREADS) rope_portable(struct rope_args given)
{
    RFG_SHARED float part[2][THREADS / RFG_WAVE];
    rfg_u32 total = (rfg_u32)given.tokens * (rfg_u32)rows_of(&given);
    int turn = 0;
    rfg_start_next();
    rfg_await_previous();
    for (rfg_u32 at = (rfg_u32)rfg_group_x(); at < total; at += (rfg_u32)rfg_groups_x(THREADS)) {
        struct rope_args args;
        RFG_REREAD_ARGS(args, &given);
        int rows = rows_of(&args), token = (int)(at / (rfg_u32)rows), i = (int)(at % (rfg_u32)rows);
        float rms = 1.0f;
#if NORM
        struct row x = row_of(&args, token, i, 0);
        float sum = 0.0f;
        for (int u = rfg_thread(); u < units_of(&args) && x.kind != V; u += THREADS) {
            struct unit t = unit_of(&args, x.kind, u);
            sum += squares(load_chunk(x.from, t.a)) + squares(load_chunk(x.from, t.b));
        }
        sum = rfg_group_reduce(sum, part[turn], THREADS / RFG_WAVE, rfg_wave(), false);
        rms = rfg_rsqrt(rfg_fma(sum, args.inverse_d, args.eps));
        turn ^= 1;
        RFG_REREAD_ARGS(args, &given);
#endif
        struct row r = row_of(&args, token, i, slot_of(&args, token));
        for (int u = rfg_thread(); u < units_of(&args); u += THREADS) {
            struct unit t = unit_of(&args, r.kind, u);
            float c[RFG_MAX_VEC], s[RFG_MAX_VEC];
#if ROPE
            if (t.pairs)
                load_angles(&args, token, u * E, c, s);
#endif
            finish(&args, r, t, load_chunk(r.from, t.a), load_chunk(r.from, t.b), c, s, rms);
        }
    }
    (void)part, (void)turn;
}
#endif
