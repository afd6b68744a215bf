/* SPDX-License-Identifier: MIT
 *
 * Heads of tokens, row by row: q's, then k's, then v's. A lane has a unit of a row: two chunks of E elements (WIDTH
 * bytes). In what is rotated they hold E whole pairs (NeoX: one chunk of each half), whose angles lie side by side in
 * the table; elsewhere one is from the first half of what there is, one from the second. So rows are read and written
 * where they lie, and no lane needs another's elements but for the sum of squares.
 *
 * rope_rows: LANES lanes a row, a unit each, and UNROLL heads of one kind (q, k or v) one after the other, a block:
 * addresses, angles and weights are a block's, so that a row costs its loads, arithmetic and stores. Workgroups x are
 * tokens, y the blocks of one. All that a block reads is asked for before the first of it is used, in the order of its
 * use: position and slot, heads, weights, and angles as soon as the position is there. rope_portable: a workgroup a
 * row, elements one by one, whatever D is.
 *
 * Scales of tokens: a row's values are all there before the first is a code. In rope_rows its lanes have them, in
 * rope_portable LDS.
 *
 * Macros: IN_DTYPE (q, k, v, q_out), KV_DTYPE or KV_CODES (the caches, with APPEND), TOKEN_SCALES (rfg_cache.h), POS_DTYPE, TABLE_DTYPE, W_DTYPE (of
 * norms' weights), ROPE, APPEND, NORM, BACKWARD, GPTJ, MROPE (0: one row of positions; 1: chunked; 2: interleaved),
 * VLLM, WIDTH, LANES, THREADS, UNROLL, WHOLE (heads are what LANES lanes have, all of it rotated if any is), AHEAD
 * (weights are read before the launch before has ended), STREAM (1: what is read is not worth caching; 2: nor is what
 * is written). */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_pages.h"
#include "rfg_cache.h"
#include "rope/rope_args.h"

#if ROPE && POS_DTYPE != RFG_I32 && POS_DTYPE != RFG_I64
#error "POS_DTYPE: must be i32 or i64"
#endif
#if !RFG_IS_HALF(IN_DTYPE) && (IN_DTYPE != RFG_F32 || APPEND)
#error "IN_DTYPE: must be bf16 or f16, or f32 without APPEND"
#endif
#if APPEND && KV_DTYPE != IN_DTYPE && !RFG_IS_CODE(KV_DTYPE) && !KV_INTS
#error "KV_DTYPE: must be IN_DTYPE, e4m3, e4m3fnuz or e5m2"
#endif

#define SIZE  (RFG_DTYPE_BYTES(IN_DTYPE))
#define E     (WIDTH / SIZE)  /* elements of a chunk */
#define HEAD  (2 * E * LANES) /* elements of a WHOLE head */
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
    char *to;        /* NULL: nowhere */
    rfg_u32 in, out; /* bytes from a head to the next */
#if TOKEN_SCALES
    char *scale; /* of k and v */
    long long scale_out;
#endif
};

RFG_DEVICE int rows_of(const struct rope_args *args)
{
    return args->hq + args->hkv * (APPEND ? 2 : 1);
}

/* Row `head` of a token; to_where() says where it goes. What all lanes have alike is in 64 bits, heads in 32. Of what
 * differs by kind all three are read and one is kept: else what is selected would be addresses of arguments. */
RFG_DEVICE struct row row_of(const struct rope_args *args, int token, int kind, int head)
{
    struct row r;
    bool q = kind == Q, k = kind == K;
    const char *from_q = (const char *)args->q.data + token * args->q.token * SIZE;
    const char *from_k = (const char *)args->k.data + token * args->k.token * SIZE;
    const char *from_v = (const char *)args->v.data + token * args->v.token * SIZE;
    rfg_u32 in_q = (rfg_u32)args->q.head, in_k = (rfg_u32)args->k.head, in_v = (rfg_u32)args->v.head;
    r.kind = kind;
    r.head = head;
    r.in = (q ? in_q : k ? in_k : in_v) * (rfg_u32)SIZE;
    r.from = (q ? from_q : k ? from_k : from_v) + (rfg_u32)head * r.in;
    r.to = (char *)0;
    r.out = 0;
    return r;
}

/* slot: the token's (APPEND). */
RFG_DEVICE void to_where(struct row *r, const struct rope_args *args, int token, long long slot)
{
    const struct rope_cache *kc = &args->k_cache, *vc = &args->v_cache;
    bool q = r->kind == Q, k = r->kind == K;
    char *to_q = (char *)args->q_out.data + token * args->q_out.token * SIZE, *to_k, *to_v = (char *)0;
    rfg_u32 out_q = (rfg_u32)args->q_out.head * (rfg_u32)SIZE, out_k, out_v = 0;
    if (APPEND) {
        long long block = RFG_PAGE_OF(slot, args->page_shift), row = RFG_PAGE_ROW(slot, args->page_shift);
        bool there = (rfg_u64)slot < (rfg_u64)args->n_slots;
        to_k = there ? (char *)kc->data + (block * kc->block + row * kc->row) * KV_BYTES : (char *)0;
        to_v = there ? (char *)vc->data + (block * vc->block + row * vc->row) * KV_BYTES : (char *)0;
        out_k = (rfg_u32)kc->head * (rfg_u32)KV_BYTES;
        out_v = (rfg_u32)vc->head * (rfg_u32)KV_BYTES;
    } else {
        to_k = (char *)args->k_out.data + token * args->k_out.token * SIZE;
        out_k = (rfg_u32)args->k_out.head * (rfg_u32)SIZE;
    }
    r->out = q ? out_q : k ? out_k : out_v;
    r->to = q ? to_q : k ? to_k : to_v;
    r->to = r->to ? r->to + (rfg_u32)r->head * r->out : r->to;
#if TOKEN_SCALES
    long long block = RFG_PAGE_OF(slot, args->page_shift), row = RFG_PAGE_ROW(slot, args->page_shift);
    long long at_k = block * args->k_scale_step[0] + row * args->k_scale_step[1];
    long long at_v = block * args->v_scale_step[0] + row * args->v_scale_step[1];
    long long head_k = args->k_scale_stride, head_v = args->v_scale_stride;
    const float *scale_k = args->k_scale + at_k, *scale_v = args->v_scale + at_v;
    r->scale_out = (k ? head_k : head_v) * 4;
    r->scale = (char *)(k ? scale_k : scale_v) + r->head * r->scale_out;
#endif
}

/* ---- units ------------------------------------------------------------------------------------------------------ */

struct unit {
    int a, b;   /* elements of the row that its chunks begin at; -1: it has no such chunk */
    bool pairs; /* they are rotated */
};

/* Where element i of those lies that stay what they are: those that are rotated may be among them. */
RFG_DEVICE int kept(const struct rope_args *args, bool rotates, int i)
{
    return rotates && i >= args->rotated ? i + args->r : i;
}

/* Without branches: lanes differ in which part of a row they have. */
RFG_DEVICE struct unit unit_of(const struct rope_args *args, int kind, int u)
{
    bool rotates = ROPE && kind != V;
    int pairs = rotates ? args->r / (2 * E) : 0, w = u - pairs;
    int n = kind == V ? args->dv : rotates ? args->d - args->r : args->d;
    int chunks = n / E, half = (chunks + 1) / 2;
    int a = args->rotated + (GPTJ ? 2 * u : u) * E, b = a + (GPTJ ? E : args->r / 2);
    struct unit t;
    if (WHOLE) { /* v's too: which two chunks a lane has of what is copied is all one */
        t.pairs = rotates;
        t.a = (GPTJ ? 2 * u : u) * E;
        t.b = t.a + (GPTJ ? E : HEAD / 2);
        return t;
    }
    t.pairs = u < pairs;
    t.a = t.pairs ? a : w < half ? kept(args, rotates, w * E) : -1;
    t.b = t.pairs ? b : w + half < chunks ? kept(args, rotates, (w + half) * E) : -1;
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
    return at < 0 ? none : rfg_load_chunk(row, (rfg_u32)at * (rfg_u32)SIZE, E, IN_DTYPE, WIDTH, STREAM != 0);
}

/* E floats as they lie in memory. */
struct floats {
    rfg_u32x4 raw[2];
};

RFG_DEVICE void read_floats(struct floats *f, const char *p, int dtype)
{
    if (dtype != RFG_F32) {
        f->raw[0] = rfg_load_chunk(p, 0, E, IN_DTYPE, WIDTH, false);
        return;
    }
#pragma unroll
    for (int i = 0; i < E; i += 4)
        f->raw[i / 4] = rfg_load_chunk(p, (rfg_u32)i * 4u, E - i, RFG_F32, WIDTH < 4 ? 4 : WIDTH, false);
}

/* A NaN may have any bits in memory; what rounds takes those of arithmetic. */
RFG_DEVICE void unpack_floats(float *f, const struct floats *from, int dtype)
{
    if (dtype == RFG_F32) {
#pragma unroll
        for (int i = 0; i < E; i += 4) {
            rfg_unpack(f + i, from->raw[i / 4], RFG_F32);
#pragma unroll
            for (int j = i; j < i + 4; j++)
                f[j] = f[j] == f[j] ? f[j] : NAN_;
        }
        return;
    }
    rfg_unpack(f, from->raw[0], IN_DTYPE);
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

/* Cosines and sines of E pairs. */
struct angles {
#if MROPE
    float c[RFG_MAX_VEC], s[RFG_MAX_VEC];
#else
    struct floats c, s;
#endif
};

/* Of the pairs from `pair` on; row: of the table, which all of them go by without MROPE. */
RFG_DEVICE void read_angles(struct angles *t, const struct rope_args *args, int token, const char *row, int pair)
{
#if MROPE
#pragma unroll
    for (int i = 0; i < E; i++) {
        row = table_row(args, token, axis_of(args, pair + i));
        t->c[i] = row ? rfg_load_float(row, pair + i, TABLE_DTYPE) : NAN_;
        t->s[i] = row ? rfg_load_float(row, args->r / 2 + pair + i, TABLE_DTYPE) : NAN_;
    }
#else
    const rfg_u32 nan = TABLE_DTYPE == RFG_F32 ? 0x7fc00000u : TABLE_DTYPE == RFG_F16 ? 0x7e007e00u : 0x7fc07fc0u;
    (void)token;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        t->c.raw[i].x = t->c.raw[i].y = t->c.raw[i].z = t->c.raw[i].w = nan;
        t->s.raw[i] = t->c.raw[i];
    }
    if (row) {
        read_floats(&t->c, row + pair * RFG_DTYPE_BYTES(TABLE_DTYPE), TABLE_DTYPE);
        read_floats(&t->s, row + (args->r / 2 + pair) * RFG_DTYPE_BYTES(TABLE_DTYPE), TABLE_DTYPE);
    }
#endif
}

RFG_DEVICE void unpack_angles(float *c, float *s, const struct angles *t)
{
#if !MROPE
    unpack_floats(c, &t->c, TABLE_DTYPE);
    unpack_floats(s, &t->s, TABLE_DTYPE);
#endif
#pragma unroll
    for (int i = 0; i < E; i++) {
#if MROPE
        c[i] = t->c[i] == t->c[i] ? t->c[i] : NAN_;
        s[i] = t->s[i] == t->s[i] ? t->s[i] : NAN_;
#endif
        s[i] = BACKWARD ? -s[i] : s[i];
    }
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

/* What a unit's chunks are multiplied by, besides 1 / rms. */
struct weights {
    struct floats a, b;
};

#if NORM
RFG_DEVICE void read_weights(struct weights *w, const struct rope_args *args, int kind, struct unit t)
{
    const char *p = (const char *)(kind == Q ? args->q_norm : args->k_norm);
    if (WHOLE || (kind != V && t.a >= 0)) /* of v's whole heads, too: no branch, after which to wait */
        read_floats(&w->a, p + t.a * RFG_DTYPE_BYTES(W_DTYPE), W_DTYPE);
    if (WHOLE || (kind != V && t.b >= 0))
        read_floats(&w->b, p + t.b * RFG_DTYPE_BYTES(W_DTYPE), W_DTYPE);
}

RFG_DEVICE void unpack_weights(float *f, const struct rope_args *args, const struct floats *w)
{
    unpack_floats(f, w, W_DTYPE);
#pragma unroll
    for (int i = 0; i < E; i++)
        f[i] = args->weight_offset + f[i];
}

RFG_DEVICE void normalise(float *f, const float *w, float rms)
{
#pragma unroll
    for (int i = 0; i < E; i++)
        f[i] = f[i] * rms * w[i];
}
#endif

/* The scale of a row's codes. */
RFG_DEVICE float scale_of(const struct rope_args *args, int kind, int head)
{
#if APPEND
    const float *scale = kind == K ? args->k_scale : args->v_scale;
    int stride = kind == K ? args->k_scale_stride : args->v_scale_stride;
    return CODES && !TOKEN_SCALES && kind != Q && scale ? rfg_load_float(scale, head * stride, RFG_F32) : 1.0f;
#else
    return 1.0f;
#endif
}

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
            char *p = r.to + (at + i) * args->v_chunk * KV_BYTES;
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
            r.to += (at / X * args->k_chunk + at % X - at) * KV_BYTES;
        if (CODES) {
            rfg_store_codes(r.to, (rfg_u32)at, E, f, inverse, KV_DTYPE, IN_DTYPE, WIDTH, STREAM == 2);
            return;
        }
    }
#endif
    rfg_store_chunk(r.to, (rfg_u32)at * (rfg_u32)SIZE, E, same ? raw : rfg_pack(f, IN_DTYPE), IN_DTYPE, WIDTH,
                    STREAM == 2);
}

/* What finish() goes by: angles, weights and offset, 1 / the row's rms, the reciprocal of the scale of its codes. */
struct factors {
    float c[RFG_MAX_VEC], s[RFG_MAX_VEC], wa[RFG_MAX_VEC], wb[RFG_MAX_VEC], rms, inverse;
};

/* What a unit holds becomes what is written. v: it is v's. */
RFG_DEVICE void compute(float *a, float *b, struct unit t, bool v, rfg_u32x4 va, rfg_u32x4 vb, const struct factors *f)
{
    rfg_unpack(a, va, IN_DTYPE);
    rfg_unpack(b, vb, IN_DTYPE);
#if NORM
    if (!v) {
        normalise(a, f->wa, f->rms);
        normalise(b, f->wb, f->rms);
    }
#endif
#if ROPE
    if (!v && (WHOLE || t.pairs))
        rotate(a, b, f->c, f->s);
#endif
    (void)t, (void)v, (void)f;
}

/* Computes it, and writes it. r.to is somewhere. */
RFG_DEVICE void finish(const struct rope_args *args, struct row r, struct unit t, bool v, rfg_u32x4 va, rfg_u32x4 vb,
                       const struct factors *f)
{
    bool same = !(NORM && !v) && (v || !t.pairs);
    float a[RFG_MAX_VEC], b[RFG_MAX_VEC];
    if (same && !v && r.to == r.from)
        return; /* in place */
    compute(a, b, t, v, va, vb, f);
    store_chunk(args, r, t.a, va, a, same, f->inverse);
    store_chunk(args, r, t.b, vb, b, same, f->inverse);
}

#if TOKEN_SCALES
#include "rope/token_scales.h"
#endif

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

/* What a kernel for WHOLE heads knows. */
RFG_DEVICE void say_what_is_known(struct rope_args *args)
{
    if (!WHOLE)
        return;
    args->d = args->dv = HEAD;
    args->r = ROPE ? HEAD : 0;
    args->rotated = 0;
    args->inverse_d = 1.0f / HEAD;
}

RFG_KERNEL(THREADS) rope_rows(struct rope_args given)
{
    struct rope_args args = given;
    say_what_is_known(&args);
    int u = rfg_thread() % LANES, token = rfg_group_x();
    int block = rfg_group_y() * GROUPS + rfg_thread() / LANES;
    int nq = (args.hq + UNROLL - 1) / UNROLL, nkv = (args.hkv + UNROLL - 1) / UNROLL; /* blocks of a kind */
    int kind = block < nq ? Q : !APPEND || block < nq + nkv ? K : V;
    int head = (block - (kind == Q ? 0 : kind == K ? nq : nq + nkv)) * UNROLL;
    int n = (kind == Q ? args.hq : args.hkv) - head; /* heads that are left: of the last block fewer, or none */
    struct unit t = unit_of(&args, kind, u);
    float scale[UNROLL];
    rfg_u32x4 a[UNROLL], b[UNROLL];
    struct weights w;
    struct factors f;
    rfg_start_next();
#if NORM && AHEAD
    read_weights(&w, &args, kind, t);
#endif
    rfg_await_previous(); /* who made q, k, v, positions and slots */
#if ROPE && !MROPE
    const char *angles_at = table_row(&args, token, 0);
#else
    const char *angles_at = (const char *)0;
#endif
    long long slot = slot_of(&args, token);
    struct row r = row_of(&args, token, kind, head);
#pragma unroll
    for (int j = 0; j < UNROLL; j++) {
        a[j] = b[j] = load_chunk((const char *)0, -1);
        if (j >= n)
            continue;
        a[j] = load_chunk(r.from + (rfg_u32)j * r.in, t.a);
        b[j] = load_chunk(r.from + (rfg_u32)j * r.in, t.b);
    }
#if NORM && !AHEAD
    read_weights(&w, &args, kind, t);
#endif
#pragma unroll
    for (int j = 0; j < UNROLL; j++)
        scale[j] = j < n ? scale_of(&args, kind, head + j) : 1.0f;
#if ROPE
    struct angles angles;
    if (t.pairs)
        read_angles(&angles, &args, token, rfg_uniform((char *)angles_at), u * E); /* all lanes have one token */
#endif
    RFG_REREAD_ARGS(args, &given); /* rather than keep them in registers over the loads */
    say_what_is_known(&args);
    to_where(&r, &args, token, slot);
    n = r.to ? n : 0;
#if ROPE
    if (t.pairs)
        unpack_angles(f.c, f.s, &angles);
#endif
#if NORM
    if (kind != V) {
        unpack_weights(f.wa, &args, &w.a);
        unpack_weights(f.wb, &args, &w.b);
    }
#endif
#pragma unroll
    for (int j = 0; j < UNROLL; j++) {
#if NORM
        f.rms = rfg_rsqrt(rfg_fma(sum_of_row(squares(a[j]) + squares(b[j])), args.inverse_d, args.eps));
#endif
        f.inverse = 1.0f / scale[j];
#if TOKEN_SCALES
        float fa[RFG_MAX_VEC], fb[RFG_MAX_VEC];
        compute(fa, fb, t, kind == V, a[j], b[j], &f);
        struct code_scale by = code_scale_of(extent_of_row(extent_of_unit(t, fa, fb)));
        if (j < n && kind == Q)
            finish(&args, r, t, false, a[j], b[j], &f);
        else if (j < n)
            store_scaled(r, t, fa, fb, by, u == 0);
        r.scale += r.scale_out;
#else
        if (j < n && kind != V)
            finish(&args, r, t, false, a[j], b[j], &f);
        else if (APPEND && j < n)
            finish(&args, r, t, true, a[j], b[j], &f);
#endif
        r.from += r.in;
        r.to += r.out;
        r.head++;
    }
    (void)angles_at, (void)w;
}
#else

RFG_KERNEL(THREADS) rope_portable(struct rope_args given)
{
    RFG_SHARED float part[TOKEN_SCALES ? 4 : 2][THREADS / RFG_WAVE];
    rfg_u32 total = (rfg_u32)given.tokens * (rfg_u32)rows_of(&given);
    int turn = 0;
    rfg_start_next();
    rfg_await_previous();
    for (rfg_u32 at = (rfg_u32)rfg_group_x(); at < total; at += (rfg_u32)rfg_groups_x(THREADS)) {
        struct rope_args args;
        RFG_REREAD_ARGS(args, &given);
        int rows = rows_of(&args), token = (int)(at / (rfg_u32)rows), i = (int)(at % (rfg_u32)rows);
        int kind = i < args.hq ? Q : i < args.hq + args.hkv ? K : V;
        int head = i - (kind == Q ? 0 : kind == K ? args.hq : args.hq + args.hkv);
        float rms = 1.0f;
#if NORM
        struct row x = row_of(&args, token, kind, head);
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
        struct row r = row_of(&args, token, kind, head);
        to_where(&r, &args, token, slot_of(&args, token));
#if TOKEN_SCALES
        struct extent all = { 0.0f, 0.0f };
#endif
        for (int u = rfg_thread(); u < units_of(&args) && r.to; u += THREADS) {
            struct unit t = unit_of(&args, r.kind, u);
            struct factors f;
            f.rms = rms;
            f.inverse = 1.0f / scale_of(&args, kind, head);
#if ROPE
            if (t.pairs) {
                struct angles angles;
                const char *at = MROPE ? (const char *)0 : table_row(&args, token, 0);
                read_angles(&angles, &args, token, rfg_uniform((char *)at), u * E);
                unpack_angles(f.c, f.s, &angles);
            }
#endif
#if NORM
            struct weights w;
            read_weights(&w, &args, kind, t);
            unpack_weights(f.wa, &args, &w.a);
            unpack_weights(f.wb, &args, &w.b);
#endif
#if TOKEN_SCALES
            if (r.kind != Q) {
                float a[RFG_MAX_VEC], b[RFG_MAX_VEC];
                compute(a, b, t, r.kind == V, load_chunk(r.from, t.a), load_chunk(r.from, t.b), &f);
                all = larger(all, extent_of_unit(t, a, b));
                keep_row(t, a, b);
                continue;
            }
#endif
            finish(&args, r, t, r.kind == V, load_chunk(r.from, t.a), load_chunk(r.from, t.b), &f);
        }
#if TOKEN_SCALES
        if (r.kind != Q) { /* the same in all threads */
            all.above = rfg_group_reduce(all.above, part[2], THREADS / RFG_WAVE, rfg_wave(), true);
            all.below = rfg_group_reduce(all.below, part[3], THREADS / RFG_WAVE, rfg_wave(), true);
            rfg_barrier();
            store_row(r, r.kind == V ? args.dv : args.d, code_scale_of(all));
            rfg_barrier();
        }
#endif
    }
    (void)part, (void)turn;
}
#endif
