/* SPDX-License-Identifier: MIT
 *
 * Attention for every GPU and every problem: any alignment, masks, caches, lengths; fp32 FMA. Simple and right.
 *
 * Macros: DTYPE (q, out), KV_DTYPE or KV_CODES, TOKEN_SCALES (rfg_cache.h), D, DV (multiples of 8), ROWS, WIDE (rows of k
 * can be read 16 bytes at a time), VLLM (its older form of the cache). A work item is a sequence, a kv head and ROWS rows, a row being a query and a q head of that kv head's
 * group; a workgroup takes one, items beyond the grid in strides of the grid. Its waves take chunks of a key a lane by
 * turns, each with an online softmax of its own: first a lane has a key and scores it, then it has elements of v and
 * goes through the keys. At the end the waves' partials are combined in LDS. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_cache.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"

#define WAVES    4
#define THREADS  (WAVES * RFG_WAVE)
#define KV_BYTES (KV_I4 ? 0 : RFG_DTYPE_BYTES(KV_DTYPE))
/* Elements of k that are read together, and lie together whatever the form. */
#define PIECE   (KV_I4 || D % (16 / (KV_BITS / 8)) ? 8 : 16 / (KV_BITS / 8))
#define MINE    ((DV + RFG_WAVE - 1) / RFG_WAVE) /* elements of v that a lane has */
#define NOTHING rfg_as_float(0xff800000u)        /* minus infinity */
#define MASKED  (-1.0f) /* a masked key's weight: what v holds there must not count, not even NaN */

struct work_item {
    int b, head, row0, rows; /* kv head; rows: of the sequence */
    int group;               /* q heads of a kv head */
    int before;              /* keys before the first query's own place; may be negative */
    int q_first, kv_first;   /* rows of the first query and key in packed tensors */
    int begin, end;          /* keys that some row sees */
    float scale;
};

RFG_DEVICE float load_f32(const float *p, long long i)
{
    return rfg_as_float(rfg_load4(p + i));
}
RFG_DEVICE int load_i32(const int *p, long long i)
{
    return (int)rfg_load4(p + i);
}

/* ---- rows, keys, elements --------------------------------------------------------------------------------------- */

RFG_DEVICE int query_of(const struct work_item *u, int r)
{
    int row = u->row0 + r < u->rows ? u->row0 + r : u->rows - 1;
    return row / u->group;
}
RFG_DEVICE int head_of(const struct work_item *u, int r)
{
    int row = u->row0 + r < u->rows ? u->row0 + r : u->rows - 1;
    return u->head * u->group + row % u->group;
}
RFG_DEVICE long long row_at(const struct work_item *u, const struct mha_args *a, const struct mha_rows *t, int r)
{
    int batch = a->q_begin ? 0 : u->b;
    return batch * t->batch + (u->q_first + query_of(u, r)) * t->token + head_of(u, r) * t->head;
}
/* Of both k and v, since their strides differ but not their places: where their rows begin, in elements. `scales`: the
 * words of their scales. */
struct key_scales {
    rfg_u32 k, v;
};
RFG_DEVICE void key_at(const struct work_item *u, const struct mha_args *a, int key, long long *k, long long *v,
                       struct key_scales *scales)
{
    long long block = u->b, row = key;
    if (a->block_table) {
        block = load_i32(a->block_table, u->b * a->table_stride + RFG_PAGE_OF(key, a->page_shift));
        row = RFG_PAGE_ROW(key, a->page_shift);
    } else if (a->kv_begin) {
        block = 0;
        row += u->kv_first;
    }
    *k = block * a->k.block + row * a->k.token + u->head * a->k.head;
    *v = block * a->v.block + row * a->v.token + u->head * a->v.head;
#if KV_I4
    *k *= 2;
    *v *= 2;
#endif
#if TOKEN_SCALES
    scales->k =
        rfg_load4(a->k_scale + block * a->k.scale_stride[0] + row * a->k.scale_stride[1] + u->head * a->k_scale_stride);
    scales->v =
        rfg_load4(a->v_scale + block * a->v.scale_stride[0] + row * a->v.scale_stride[1] + u->head * a->v_scale_stride);
#else
    (void)scales;
#endif
}

#if !KV_INTS
/* An 8-bit code by way of fp16: e5m2 is fp16 cut short; e4m3's exponent has another bias, which a product settles. */
RFG_DEVICE float code(rfg_u32 byte)
{
    if (KV_DTYPE == RFG_E5M2)
        return rfg_f16_to_float((rfg_u16)(byte << 8));
    float f = rfg_f16_to_float((rfg_u16)((byte & 0x80u) << 8 | (byte & 0x7fu) << 7));
    /* 1 for the NaNs. No comparison: a piece's would want more scalar registers than there are. */
    rfg_u32 nan = KV_DTYPE == RFG_E4M3 ? ((byte & 0x7fu) + 1u) >> 7 : 1u - (((byte ^ 0x80u) + 0xffu) >> 8);
    return rfg_as_float(rfg_as_u32(f * (KV_DTYPE == RFG_E4M3 ? 256.0f : 128.0f)) | nan * 0x7fc00000u);
}
#else
RFG_DEVICE float code(rfg_u32 bits)
{
    return (float)(KV_I4 ? (int)bits : (int)(bits << 24) >> 24);
}
#endif
RFG_DEVICE float load_element(const void *base, long long at)
{
#if KV_I4
    return code(rfg_load1((const char *)base + (at >> 1)) >> ((int)at & 1) * 4 & 15u);
#elif KV_BYTES == 1
    return code(rfg_load1((const char *)base + at));
#else
    return rfg_load_float(base, at, KV_DTYPE);
#endif
}
RFG_DEVICE void load_piece(float *f, const void *base, long long at)
{
    if (!WIDE) {
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            f[i] = load_element(base, at + i);
        return;
    }
#if KV_I4
    rfg_u32 word = rfg_load4((const char *)base + (at >> 1));
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        f[i] = code(word >> (i * 4) & 15u);
#else
    rfg_u32x4 v = rfg_load16((const char *)base + at * KV_BYTES);
#if KV_BYTES == 1
    rfg_u32 w[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        f[i] = code(w[i / 4 % 4] >> (i % 4 * 8) & 255u);
#elif KV_DTYPE == RFG_F32
    f[0] = rfg_as_float(v.x);
    f[1] = rfg_as_float(v.y);
    f[2] = rfg_as_float(v.z);
    f[3] = rfg_as_float(v.w);
#else
    rfg_unpack(f, v, KV_DTYPE);
#endif
#endif
}

/* ---- a chunk of keys -------------------------------------------------------------------------------------------- */

/* As a power of two. */
RFG_DEVICE float score(const struct mha_args *a, const struct work_item *u, float dot, int key, int r)
{
    float s = dot * u->scale;
    if (a->soft_cap > 0.0f) /* by tanh x = 1 - 2 / (1 + exp 2x) */
        s = a->soft_cap * (1.0f - 2.0f * rfg_rcp(1.0f + rfg_exp2(s / a->soft_cap * (2 * LOG2_E))));
    if (a->alibi) {
        int far = query_of(u, r) + u->before - key;
        s -= load_f32(a->alibi, head_of(u, r)) * (float)(far < 0 ? -far : far);
    }
    return s * LOG2_E;
}
RFG_DEVICE bool sees(const struct mha_args *a, const struct work_item *u, int key, int r)
{
    long long far = (long long)key - query_of(u, r) - u->before;
    return far <= a->window_right && -far <= a->window_left;
}

/* This wave's sums. */
struct sums {
    float m[ROWS], l[ROWS]; /* l: of this lane's keys */
    float o[ROWS][MINE];
};

/* n keys from `first`: their weights to LDS, where their rows of v are, and of i4 which code of it stands for 0. */
RFG_DEVICE void softmax_step(const struct mha_args *args, const struct work_item *u, const float *q, struct sums *acc,
                             int first, int n, bool masks, float *weights, long long *places, float *zeros)
{
    struct mha_args all = reread_args(args), *a = &all;
    int lane = rfg_lane(), key = first + (lane < n ? lane : n - 1);
    long long at, at_v;
    struct key_scales scales;
    key_at(u, a, key, &at, &at_v, &scales);
    places[lane] = at_v;
#if KV_I4
    zeros[lane] = (float)kv_zero(scales.v);
    float zero = (float)kv_zero(scales.k);
#else
    (void)zeros;
#endif
    float s[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        s[r] = 0.0f;
#pragma unroll 2
    for (int p = 0; p < D / PIECE; p++) {
        float k[PIECE];
        load_piece(k, a->k.data, at + (VLLM ? p * a->k.chunk : p * PIECE));
#if KV_I4
#pragma unroll
        for (int i = 0; i < PIECE; i++)
            k[i] -= zero;
#endif
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < PIECE; i++)
                s[r] = rfg_fma(k[i], q[r * D + p * PIECE + i], s[r]);
    }
    all = reread_args(args);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        bool seen = lane < n && (!masks || sees(a, u, key, r));
#if TOKEN_SCALES
        s[r] *= kv_scale(scales.k);
#endif
        s[r] = seen ? score(a, u, s[r], key, r) : NOTHING;
        float m = rfg_max(acc->m[r], rfg_reduce_lanes(s[r], RFG_WAVE, true));
        float from = m == NOTHING ? 0.0f : m, down = rfg_exp2(acc->m[r] - from), w = rfg_exp2(s[r] - from);
        acc->m[r] = m;
        acc->l[r] = acc->l[r] * down + (seen ? w : 0.0f);
#pragma unroll
        for (int i = 0; i < MINE; i++)
            acc->o[r][i] *= down;
#if TOKEN_SCALES
        w *= kv_scale(scales.v);
#endif
        weights[lane * ROWS + r] = seen ? w : MASKED;
    }
}

RFG_DEVICE void add_values(const struct mha_args *args, struct sums *acc, const float *weights, const long long *places,
                           const float *zeros, int n, bool masks)
{
    struct mha_args a = reread_args(args);
#pragma unroll 2
    for (int k = 0; k < n; k++) {
        float w[ROWS];
        long long at = places[k];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            w[r] = weights[k * ROWS + r];
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int d = i * RFG_WAVE + rfg_lane();
            float v = DV % RFG_WAVE == 0 || d < DV ? load_element(a.v.data, at + (VLLM ? d * a.v.chunk : d)) : 0.0f;
#if KV_I4
            v -= zeros[k];
#else
            (void)zeros;
#endif
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float sum = rfg_fma(w[r], v, acc->o[r][i]);
                acc->o[r][i] = masks && w[r] == MASKED ? acc->o[r][i] : sum;
            }
        }
    }
}

/* ---- work items -------------------------------------------------------------------------------------------------- */

/* False: there is nothing in it. */
RFG_DEVICE bool open_item(const struct mha_args *args, struct work_item *u, long long n, int tiles)
{
    struct mha_args all = reread_args(args), *a = &all;
    u->row0 = (int)(n % tiles) * ROWS;
    u->head = (int)(n / tiles % a->hkv);
    u->b = (int)(n / tiles / a->hkv);
    u->group = a->hq / a->hkv;
    u->q_first = a->q_begin ? within(load_i32(a->q_begin, u->b), 0, a->tokens) : 0;
    u->kv_first = a->kv_begin ? within(load_i32(a->kv_begin, u->b), 0, a->skv) : 0;
    int sq = a->q_begin ? within(load_i32(a->q_begin, u->b + 1), u->q_first, a->tokens) - u->q_first : a->sq;
    int skv = a->kv_lens    ? within(load_i32(a->kv_lens, u->b), 0, a->skv)
              : a->kv_begin ? within(load_i32(a->kv_begin, u->b + 1), u->kv_first, a->skv) - u->kv_first
                            : a->skv;
    u->rows = (sq < a->sq ? sq : a->sq) * u->group;
    if (u->row0 >= u->rows)
        return false;
    u->before = skv - sq;
    long long begin = (long long)query_of(u, 0) + u->before - a->window_left;
    long long end = (long long)query_of(u, ROWS - 1) + u->before + a->window_right + 1;
    u->begin = begin > 0 ? (int)begin : 0;
    u->end = end < 0 ? 0 : end < skv ? (int)end : skv;
    u->scale = a->scale * (!TOKEN_SCALES && a->k_scale ? load_f32(a->k_scale, u->head * a->k_scale_stride) : 1.0f);
    return true;
}

/* Element d of row r, from the waves' sums: ml[wave][row][2], o[wave][row][DV]. */
RFG_DEVICE void store(const struct mha_args *a, const struct work_item *u, const float *ml, const float *o, int r,
                      int d)
{
    int head = head_of(u, r);
    float sink = a->sinks ? load_sink(a, head) * LOG2_E : NOTHING, top = sink, l = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WAVES; w++)
        top = rfg_max(top, ml[(w * ROWS + r) * 2]);
    float from = top == NOTHING ? 0.0f : top;
#pragma unroll
    for (int w = 0; w < WAVES; w++) {
        float down = rfg_exp2(ml[(w * ROWS + r) * 2] - from);
        l += ml[(w * ROWS + r) * 2 + 1] * down;
        sum += o[(w * ROWS + r) * DV + d] * down;
    }
    l += rfg_exp2(sink - from);
    float v_scale = !TOKEN_SCALES && a->v_scale ? load_f32(a->v_scale, u->head * a->v_scale_stride) : 1.0f;
    rfg_store_float(a->out.data, row_at(u, a, &a->out, r) + d, l == 0.0f ? 0.0f : sum * (v_scale / l), DTYPE);
    if (a->lse && d == 0) {
        long long at =
            (a->q_begin ? 0 : u->b) * a->lse_batch + head * a->lse_head + (u->q_first + query_of(u, r)) * a->lse_token;
        rfg_store4(a->lse + at, rfg_as_u32(l == 0.0f ? NOTHING : (top + rfg_log2(l)) * LN_2));
    }
}

/* Combines the waves' partials and stores the output. ml and o: room for them. */
RFG_DEVICE void close_item(const struct mha_args *args, const struct work_item *u, struct sums *acc, float *ml,
                           float *o)
{
    struct mha_args a = reread_args(args);
    int wave = rfg_wave(), lane = rfg_lane();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float l = rfg_reduce_lanes(acc->l[r], RFG_WAVE, false);
        if (lane == 0) {
            ml[(wave * ROWS + r) * 2] = acc->m[r];
            ml[(wave * ROWS + r) * 2 + 1] = l;
        }
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (DV % RFG_WAVE == 0 || i * RFG_WAVE + lane < DV)
                o[(wave * ROWS + r) * DV + i * RFG_WAVE + lane] = acc->o[r][i];
    }
    rfg_barrier();
#pragma unroll 1
    for (int r = 0; r < ROWS && u->row0 + r < u->rows; r++)
        for (int d = rfg_thread(); d < DV; d += THREADS)
            store(&a, u, ml, o, r, d);
    rfg_barrier();
}

RFG_DEVICE void load_queries(const struct mha_args *args, const struct work_item *u, float *q)
{
    struct mha_args a = reread_args(args);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        long long at = row_at(u, &a, &a.q, r);
        for (int d = rfg_thread(); d < D; d += THREADS)
            q[r * D + d] = rfg_load_float(a.q.data, at + d, DTYPE);
    }
    rfg_barrier();
}

RFG_KERNEL(THREADS) mha_portable(struct mha_args args)
{
    RFG_SHARED float q[ROWS * D];
    RFG_SHARED float all_weights[WAVES * RFG_WAVE * ROWS];
    RFG_SHARED long long all_places[WAVES * RFG_WAVE];
#if KV_I4
    RFG_SHARED float all_zeros[WAVES * RFG_WAVE];
    float *zeros = all_zeros + rfg_wave() * RFG_WAVE;
#else
    float *zeros = (float *)0;
#endif
    RFG_SHARED float ml[WAVES * ROWS * 2];
    RFG_SHARED float o[WAVES * ROWS * DV];
    int wave = rfg_wave();
    float *weights = all_weights + wave * RFG_WAVE * ROWS;
    long long *places = all_places + wave * RFG_WAVE;
    int tiles = (int)(((long long)args.sq * (args.hq / args.hkv) + ROWS - 1) / ROWS);
    long long items = (long long)args.batch * args.hkv * tiles;

    rfg_start_next();
    rfg_await_previous();
#pragma unroll 1
    for (long long n = rfg_group_x(); n < items; n += rfg_groups_x(THREADS)) {
        struct work_item u;
        struct sums acc;
        if (!open_item(&args, &u, n, tiles))
            continue;
        load_queries(&args, &u, q);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            acc.m[r] = NOTHING;
            acc.l[r] = 0.0f;
#pragma unroll
            for (int i = 0; i < MINE; i++)
                acc.o[r][i] = 0.0f;
        }
        /* All waves go round as often, for the barriers. (begin + THREADS may be beyond an int, left isn't.) */
#pragma unroll 1
        for (int left = u.end - u.begin; left > 0; left -= THREADS) {
            struct mha_args a = reread_args(&args);
            int mine = left - wave * RFG_WAVE, here = mine < RFG_WAVE ? mine : RFG_WAVE, first = u.end - mine;
            bool masks = here > 0 && (!sees(&a, &u, first, ROWS - 1) || !sees(&a, &u, first + here - 1, 0));
            if (here > 0)
                softmax_step(&args, &u, q, &acc, first, here, masks, weights, places, zeros);
            rfg_barrier();
            if (here > 0)
                add_values(&args, &acc, weights, places, zeros, here, masks);
            rfg_barrier();
        }
        close_item(&args, &u, &acc, ml, o);
    }
}
