/* SPDX-License-Identifier: MIT
 *
 * What the kernels of moe_align share: what a pair, a segment and the rest of the rows are in each FORMAT. A pair whose
 * expert is not here has the expert args->experts.
 *
 * Macros: FORMAT, IDENTITY (may be missing: 0; ids behind the experts' have a place of their own). */
#ifndef IDENTITY
#define IDENTITY 0
#endif

#define PADS ALIGN_PADS(FORMAT)

RFG_DEVICE rfg_u32 quotient(rfg_u32 i, rfg_u32 mul, rfg_u32 shift)
{
    return (rfg_u32)((rfg_u64)(i * 2u) * mul >> 32) >> shift;
}

/* Rows of a segment of n. */
RFG_DEVICE rfg_u32 padded(const struct moe_align_args *a, rfg_u32 n)
{
    rfg_u32 block = (rfg_u32)a->block;
    return PADS ? quotient(n + block - 1u, a->block_mul, a->block_shift) * block : n;
}

/* Tokens that count. */
RFG_DEVICE int tokens_of(const struct moe_align_args *a)
{
    int n = a->t;
    if (a->tokens) {
        int most = (int)rfg_load4(a->tokens);
        n = most < 0 ? 0 : most < n ? most : n;
    }
    return n;
}

/* The experts of pairs i, i + step, ..., n (a constant) of them: of those from `pairs` on, none. */
RFG_DEVICE void load_experts(const struct moe_align_args *a, rfg_u32 *e, int n, rfg_u32 i, rfg_u32 step, rfg_u32 pairs)
{
    if (a->ldi == a->top) {
#pragma unroll
        for (int u = 0; u < n; u++) {
            rfg_u32 at = i + (rfg_u32)u * step;
            e[u] = at < pairs ? rfg_load4(a->ids + at) : ~0u;
        }
    } else {
#pragma unroll
        for (int u = 0; u < n; u++) {
            rfg_u32 at = i + (rfg_u32)u * step, t = quotient(at, a->top_mul, a->top_shift);
            e[u] = at < pairs ? rfg_load4(a->ids + (long long)t * a->ldi + (at - t * (rfg_u32)a->top)) : ~0u;
        }
    }
#pragma unroll
    for (int u = 0; u < n; u++) {
        if (a->map && e[u] < (rfg_u32)a->ids_end)
            e[u] = rfg_load4(a->map + e[u]);
        else if (a->map)
            e[u] = ~0u;
        e[u] = e[u] < (rfg_u32)a->experts ? e[u] : (rfg_u32)a->experts;
    }
}

/* The place of pair i, below `pairs`, that has no row. */
RFG_DEVICE rfg_u32 place_of_none(const struct moe_align_args *a, rfg_u32 t, rfg_u32 slot)
{
    rfg_u32 id = rfg_load4(a->ids + (long long)t * a->ldi + slot) - (rfg_u32)a->ids_end;
    return id < (rfg_u32)a->identity ? (rfg_u32)ALIGN_IDENTITY : ~0u;
}

/* Pair i, of `pairs` that count, is the rank-th of expert e, whose segment begins at `begin`. */
RFG_DEVICE void place_pair(const struct moe_align_args *a, rfg_u32 i, rfg_u32 pairs, rfg_u32 e, rfg_u32 begin,
                           rfg_u32 rank)
{
    rfg_u32 t = quotient(i, a->top_mul, a->top_shift), slot = i - t * (rfg_u32)a->top, at = begin + rank;
    bool there = e < (rfg_u32)a->experts && (FORMAT != ALIGN_MASKED || rank < (rfg_u32)a->n_rows);
    if (a->places)
        rfg_store4(a->places + (long long)t * a->ldp + slot, there                   ? at
                                                             : IDENTITY && i < pairs ? place_of_none(a, t, slot)
                                                                                     : ~0u);
    if (!there)
        return;
    rfg_store4(a->rows + at, FORMAT == ALIGN_VLLM ? i : FORMAT == ALIGN_AITER ? slot << 24 | t : t);
    if (a->weights_out)
        rfg_store4(a->weights_out + at, rfg_load4(a->weights + (long long)t * a->ldw + slot));
}

/* Rows first, first + step, ... below end: padding. */
RFG_DEVICE void pad_rows(const struct moe_align_args *a, rfg_u32 first, rfg_u32 end, rfg_u32 step)
{
    rfg_u32 value = FORMAT == ALIGN_VLLM    ? (rfg_u32)(a->t * a->top)
                    : FORMAT == ALIGN_AITER ? (rfg_u32)a->top << 24 | (rfg_u32)a->t
                                            : ~0u;
    for (rfg_u32 i = first; i < end; i += step) {
        rfg_store4(a->rows + i, value);
        if (a->weights_out)
            rfg_store4(a->weights_out + i, 0u);
        if (FORMAT == ALIGN_CONTIGUOUS)
            rfg_store4(a->block_experts + i, ~0u);
    }
}

/* What is said of the segment of an expert that has n rows, by `lanes` threads, of which this is the lane-th. */
RFG_DEVICE void say_segment(const struct moe_align_args *a, rfg_u32 e, rfg_u32 begin, rfg_u32 n, rfg_u32 lane,
                            rfg_u32 lanes)
{
    if (FORMAT == ALIGN_PLAIN && lane == 0)
        rfg_store4(a->offsets + e, begin);
    if (FORMAT == ALIGN_MASKED && lane == 0)
        rfg_store4(a->count + e, n < (rfg_u32)a->n_rows ? n : (rfg_u32)a->n_rows);
    if (!PADS)
        return;
    rfg_u32 end = begin + padded(a, n);
    pad_rows(a, begin + n + lane, end, lanes);
    if (FORMAT == ALIGN_CONTIGUOUS)
        for (rfg_u32 i = begin + lane; i < begin + n; i += lanes)
            rfg_store4(a->block_experts + i, e);
    else
        for (rfg_u32 b = quotient(begin, a->block_mul, a->block_shift) + lane; b * (rfg_u32)a->block < end; b += lanes)
            rfg_store4(a->block_experts + b, e);
}

/* What is said of all, and the part-th of the parts of what lies behind the last segment. */
RFG_DEVICE void say_rest(const struct moe_align_args *a, rfg_u32 tokens, rfg_u32 end, int part, int parts)
{
    rfg_u32 thread = (rfg_u32)rfg_thread();
    if (part == parts - 1 && thread == 0) {
        if (FORMAT == ALIGN_PLAIN)
            rfg_store4(a->offsets + a->experts, end);
        if (FORMAT == ALIGN_VLLM || FORMAT == ALIGN_AITER)
            rfg_store4(a->count, end);
        if (FORMAT == ALIGN_AITER)
            rfg_store4(a->count + 1, tokens);
    }
    if (!PADS)
        return;
    int left = a->n_rows - (int)end;
    pad_rows(a, end + (rfg_u32)rfg_share_begin(left, part, parts) + thread,
             end + (rfg_u32)rfg_share_begin(left, part + 1, parts), THREADS);
    if (FORMAT == ALIGN_CONTIGUOUS)
        return;
    rfg_u32 blocks = quotient(end, a->block_mul, a->block_shift);
    left = a->n_blocks - (int)blocks;
    for (int i = rfg_share_begin(left, part, parts) + (int)thread; i < rfg_share_begin(left, part + 1, parts);
         i += THREADS)
        rfg_store4(a->block_experts + blocks + i, ~0u);
}
