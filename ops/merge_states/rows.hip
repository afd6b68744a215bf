/* SPDX-License-Identifier: MIT
 *
 * Rows of out, all chunks of all of them as one list, in which a thread takes one after the other: 16 bytes of each
 * state. It asks for the chunks of STATES states and for their lse, all in flight at once, finds the weights, and adds
 * the chunks up in the order of the states; then for the next STATES. What a call costs is reading o once: the lse of a
 * row are read by all of its threads, from the nearest cache.
 *
 * Macros: IN_DTYPE (o), OUT_DTYPE (out), WIDTH, WIDTH_Y (bytes of a load, and of a store), THREADS, STATES, STREAM (1: o
 * and out are kept out of the caches' way). */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "merge_states/merge_args.h"

#define VEC      RFG_DTYPE_VEC(IN_DTYPE)
#define OUT_VEC  (RFG_DTYPE_VEC(OUT_DTYPE) < VEC ? RFG_DTYPE_VEC(OUT_DTYPE) : VEC) /* of a store */
#define INFINITE rfg_as_float(0x7f800000u)
#define LEAST    (-126.0f) /* of a weight's logarithm to base 2; below it a state counts as one without keys */

/* A row of each tensor, and the thread's chunk of it. */
struct item {
    const char *o;
    const float *lse;
    rfg_u32 token, head, chunk;
    int left; /* elements of the row from the chunk on */
};

struct batch {
    rfg_u32x4 v[STATES];
    float lse[STATES];
};

/* +inf says what -inf says. */
RFG_DEVICE float lse_of(float f)
{
    return f == INFINITE ? -INFINITE : f;
}

RFG_DEVICE float load_lse(const float *lse)
{
    return lse_of(rfg_as_float(rfg_load4(lse)));
}

/* States first to first + STATES - 1; those that there aren't have no keys. Nothing is looked at before all is asked
 * for. (Addresses go from state to state: a multiple of the stride for each would take all scalar registers.) */
RFG_DEVICE void load_batch(const struct merge_args *a, const struct item *at, int first, struct batch *b)
{
    const char *o = at->o + first * a->by_o.state * RFG_DTYPE_BYTES(IN_DTYPE);
    const float *lse = at->lse + first * a->by_lse.state;
#pragma unroll
    for (int s = 0; s < STATES; s++) {
        b->lse[s] = -INFINITE;
        if (first + s < a->n)
            b->lse[s] = rfg_as_float(rfg_load4(lse));
        lse += a->by_lse.state;
    }
#pragma unroll
    for (int s = 0; s < STATES; s++) {
        b->v[s].x = b->v[s].y = b->v[s].z = b->v[s].w = 0;
        if (first + s < a->n)
            b->v[s] = rfg_load_chunk(o, at->chunk * 16u, at->left, IN_DTYPE, WIDTH, STREAM);
        o += a->by_o.state * RFG_DTYPE_BYTES(IN_DTYPE);
    }
#pragma unroll
    for (int s = 0; s < STATES; s++)
        b->lse[s] = lse_of(b->lse[s]);
}

/* exp(lse - top); 0 of a state without keys. */
RFG_DEVICE float weight_of(const struct merge_args *a, float lse, float top)
{
    float d = (lse - top) * a->to_log2;
    return d < LEAST ? 0.0f : rfg_exp2(d);
}

/* The largest lse of a row, 0 if no state has keys; and the sum of the weights. */
RFG_DEVICE float sum_weights(const struct merge_args *a, const struct item *at, const struct batch *b, float *top)
{
    float most = -INFINITE, sum = 0.0f;
#pragma unroll
    for (int s = 0; s < STATES; s++)
        most = rfg_max(most, b->lse[s]);
#pragma unroll 4
    for (int i = STATES; i < a->n; i++)
        most = rfg_max(most, load_lse(at->lse + i * a->by_lse.state));
    *top = most == -INFINITE ? 0.0f : most;
#pragma unroll
    for (int s = 0; s < STATES; s++)
        sum += weight_of(a, b->lse[s], *top);
#pragma unroll 4
    for (int i = STATES; i < a->n; i++)
        sum += weight_of(a, load_lse(at->lse + i * a->by_lse.state), *top);
    return sum;
}

/* acc += weight o of the batch's states. What a state without keys holds is taken for zeroes. */
RFG_DEVICE void add_batch(const struct merge_args *a, const struct batch *b, float top, float inverse, float *acc)
{
#pragma unroll
    for (int s = 0; s < STATES; s++) {
        float w = weight_of(a, b->lse[s], top), f[RFG_MAX_VEC];
        rfg_u32 kept = w == 0.0f ? 0u : ~0u;
        rfg_u32x4 v = b->v[s];
        rfg_f32x2 share = rfg_pair(w * inverse, w * inverse);
        v.x &= kept;
        v.y &= kept;
        v.z &= kept;
        v.w &= kept;
        rfg_unpack(f, v, IN_DTYPE);
#pragma unroll
        for (int i = 0; i < VEC; i += 2) {
            rfg_f32x2 two = rfg_fma2(share, rfg_pair(f[i], f[i + 1]), rfg_pair(acc[i], acc[i + 1]));
            acc[i] = two.x;
            acc[i + 1] = two.y;
        }
    }
}

RFG_DEVICE void store(const struct merge_args *a, const struct item *at, const float *acc)
{
    char *out = (char *)a->out + (at->token * a->by_out.token + at->head * a->by_out.head) * RFG_DTYPE_BYTES(OUT_DTYPE);
#pragma unroll
    for (int i = 0; i < VEC; i += OUT_VEC) {
        float f[RFG_MAX_VEC] = { 0 };
        int here = at->left - i < OUT_VEC ? at->left - i : OUT_VEC;
        if (here <= 0)
            continue;
            /* A NaN of lse may be any: see rfg_pack_bf16(). */
#pragma unroll
        for (int k = 0; k < OUT_VEC; k++)
            f[k] = OUT_DTYPE != RFG_BF16 || acc[i + k] == acc[i + k] ? acc[i + k] : rfg_as_float(0x7fc00000u);
        rfg_store_chunk(out, (at->chunk * VEC + i) * RFG_DTYPE_BYTES(OUT_DTYPE), here, rfg_pack(f, OUT_DTYPE),
                        OUT_DTYPE, WIDTH_Y, STREAM);
    }
}

RFG_DEVICE void merge(const struct merge_args *a, const struct item *at)
{
    struct batch b;
    float acc[VEC], top;
#pragma unroll
    for (int i = 0; i < VEC; i++)
        acc[i] = 0.0f;
    load_batch(a, at, 0, &b);
    float sum = sum_weights(a, at, &b, &top), inverse = sum == 0.0f ? 0.0f : rfg_reciprocal(sum);
    add_batch(a, &b, top, inverse, acc);
    for (int first = STATES; first < a->n; first += STATES) {
        load_batch(a, at, first, &b);
        add_batch(a, &b, top, inverse, acc);
    }
    store(a, at, acc);
    if (a->lse_out && at->chunk == 0)
        rfg_store4(a->lse_out + at->token * a->by_lse_out.token + at->head * a->by_lse_out.head,
                   rfg_as_u32(sum == 0.0f ? -INFINITE : rfg_fma(rfg_log2(sum), a->from_log2, top)));
}

RFG_DEVICE rfg_u32 divide(rfg_u32 i, rfg_u32 mul, rfg_u32 shift)
{
    return (rfg_u32)((rfg_u64)(i * 2u) * mul >> 32) >> shift;
}

RFG_KERNEL(THREADS) merge_states_rows(struct merge_args args)
{
    rfg_u32 total = args.rows * args.row_chunks, step = (rfg_u32)rfg_groups_x(THREADS) * THREADS;
    rfg_start_next();
    rfg_await_previous();
    for (rfg_u32 i = (rfg_u32)(rfg_group_x() * THREADS + rfg_thread()); i < total; i += step) {
        struct merge_args a;
        struct item at;
        RFG_REREAD_ARGS(a, &args); /* or what follows from them for each state is kept from turn to turn */
        rfg_u32 row = divide(i, a.mul, a.shift);
        at.token = divide(row, a.head_mul, a.head_shift);
        at.head = row - at.token * (rfg_u32)a.heads;
        at.chunk = i - row * a.row_chunks;
        at.left = a.d - (int)at.chunk * VEC;
        at.o = (const char *)a.o + (at.token * a.by_o.token + at.head * a.by_o.head) * RFG_DTYPE_BYTES(IN_DTYPE);
        at.lse = a.lse + at.token * a.by_lse.token + at.head * a.by_lse.head;
        merge(&a, &at);
    }
}
