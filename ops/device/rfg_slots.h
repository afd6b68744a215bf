/* SPDX-License-Identifier: MIT
 *
 * Sums over slots: rows of x that a token's places name are added up in the order of the slots, in fp32 from 0, then a
 * residual, and rounded once. A thread has a chunk of 16 bytes of x, of SLOT_BATCH slots at a time, all in flight.
 *
 * Macros: SLOT_ARGS (a struct with x, residual, y, places, weights, top, x_rows and row strides ldx, ldy, ldr, ldp, ldw
 * in elements), SLOT_IN, SLOT_OUT (dtypes of x, and of y and the residual), SLOT_WEIGHTS, SLOT_RESIDUAL(a) (is there
 * one?), SLOT_IDENTITY (may be missing: 0; places of RFG_MOE_IDENTITY stand for the token's row of SLOT_ARGS' identity,
 * whose weight is of identity_weights), SLOT_IDS (may be missing: 0; places are experts, of SLOT_ARGS' experts: slot s of
 * token t has row t top + s), SLOT_BATCH, WIDTH, WIDTH_Y (bytes of a load of x, and of an access to y and the residual). */
#ifndef SLOT_IDENTITY
#define SLOT_IDENTITY 0
#endif
#ifndef SLOT_IDS
#define SLOT_IDS 0
#endif
#define SLOT_WEIGHED (SLOT_WEIGHTS || SLOT_IDENTITY)
#define SLOT_VEC     RFG_DTYPE_VEC(SLOT_IN)
#define SLOT_OUT_VEC (RFG_DTYPE_VEC(SLOT_OUT) < SLOT_VEC ? RFG_DTYPE_VEC(SLOT_OUT) : SLOT_VEC) /* of an access to y */

/* Adds slots first to first + SLOT_BATCH - 1 of a token to the sums of a chunk that has `left` elements of the row. */
RFG_DEVICE void rfg_add_slots(const SLOT_ARGS *a, float *sum, rfg_u32 t, int first, rfg_u32 chunk, int left)
{
    rfg_u32 place[SLOT_BATCH];
    float weight[SLOT_BATCH];
    rfg_u32x4 v[SLOT_BATCH];
    bool is_row[SLOT_BATCH]; /* of x, or the token's own */
#pragma unroll
    for (int s = 0; s < SLOT_BATCH; s++) {
        bool there = first + s < a->top;
        place[s] = there ? rfg_load4(a->places + t * a->ldp + (first + s)) : ~0u;
#if SLOT_IDS
        place[s] = place[s] < (rfg_u32)a->experts ? t * a->top + (rfg_u32)(first + s) : ~0u;
#endif
        weight[s] = SLOT_WEIGHTS && there ? rfg_as_float(rfg_load4(a->weights + t * a->ldw + (first + s))) : 1.0f;
        is_row[s] = place[s] < (rfg_u32)a->x_rows;
    }
#pragma unroll
    for (int s = 0; s < SLOT_BATCH; s++) {
        const char *row = (const char *)a->x + place[s] * a->ldx * RFG_DTYPE_BYTES(SLOT_IN);
#if SLOT_IDENTITY
        if (place[s] == 0xfffffffeu) { /* RFG_MOE_IDENTITY */
            is_row[s] = true;
            row = (const char *)a->identity + t * a->ld_identity * RFG_DTYPE_BYTES(SLOT_IN);
            weight[s] = rfg_as_float(rfg_load4(a->identity_weights + t * a->ld_identity_weights + (first + s)));
        }
#endif
        if (is_row[s])
            v[s] = rfg_load_chunk(row, chunk * 16u, left, SLOT_IN, WIDTH, false);
    }
#pragma unroll
    for (int s = 0; s < SLOT_BATCH; s++)
        if (is_row[s]) {
            float f[RFG_MAX_VEC];
            rfg_unpack(f, v[s], SLOT_IN);
#pragma unroll
            for (int i = 0; i < SLOT_VEC; i++)
                sum[i] = SLOT_WEIGHED ? rfg_fma(weight[s], f[i], sum[i]) : sum[i] + f[i];
        }
}

/* Rounds the sums, with what is added last, to y. */
RFG_DEVICE void rfg_store_slots(const SLOT_ARGS *a, float *sum, rfg_u32 t, rfg_u32 chunk, int left)
{
    char *y = (char *)a->y + t * a->ldy * RFG_DTYPE_BYTES(SLOT_OUT);
    const char *r = (const char *)a->residual + t * a->ldr * RFG_DTYPE_BYTES(SLOT_OUT);
#pragma unroll
    for (int i = 0; i < SLOT_VEC; i += SLOT_OUT_VEC) {
        rfg_u32 at = (chunk * SLOT_VEC + i) * RFG_DTYPE_BYTES(SLOT_OUT);
        int here = left - i < SLOT_OUT_VEC ? left - i : SLOT_OUT_VEC;
        float out[RFG_MAX_VEC] = { 0 };
        if (here <= 0)
            continue;
        if (SLOT_RESIDUAL(a))
            rfg_unpack(out, rfg_load_chunk(r, at, here, SLOT_OUT, WIDTH_Y, false), SLOT_OUT);
#pragma unroll
        for (int k = 0; k < SLOT_OUT_VEC; k++)
            out[k] = SLOT_RESIDUAL(a) ? sum[i + k] + out[k] : sum[i + k];
            /* See rfg_pack_bf16(): of fp32 inputs a NaN may be any. */
#pragma unroll
        for (int k = 0; k < SLOT_OUT_VEC; k++)
            if (SLOT_OUT == RFG_BF16 && (SLOT_IN == RFG_F32 || SLOT_WEIGHED))
                out[k] = out[k] == out[k] ? out[k] : rfg_as_float(0x7fc00000u);
        rfg_store_chunk(y, at, here, rfg_pack(out, SLOT_OUT), SLOT_OUT, WIDTH_Y, false);
    }
}

/* Rows of y that are written, of t: device memory may say that it is fewer. */
RFG_DEVICE rfg_u32 rfg_slot_tokens(int t, const int *tokens)
{
    rfg_u32 all = (rfg_u32)t;
    if (tokens) {
        int most = (int)rfg_load4(tokens);
        all = most < 0 ? 0u : (rfg_u32)most < all ? (rfg_u32)most : all;
    }
    return all;
}
