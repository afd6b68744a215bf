/* SPDX-License-Identifier: MIT
 *
 * Attention of many queries a sequence on matrix cores (mha_prefill_mma, mha_decode_tile_mma), as FlashAttention-2
 * (Dao, 2023) has it: a workgroup keeps TILE_Q queries of a head and goes through the keys and values, TILE_KV at a
 * time out of LDS, with an online softmax. 16-bit dtypes; out has q's. Included last by prefill_amd.hip and
 * prefill_nvidia.hip.
 *
 * Each wave has 16 FRAGS_Q queries of its own, so that no wave waits for another's scores. Scores become probabilities
 * in the registers that matrix instructions left them in, and go into the next ones as they are:
 *
 *   NVIDIA  S = Q K^T has queries as rows; two neighbouring 16x8 pieces of it are an A of 16 keys. V's rows are keys in
 * LDS, and ldmatrix transposes them. AMD     S = K Q^T has queries as columns, one a lane, so that maxima and sums
 * hardly leave the lane. V is transposed on its way into LDS. The order of rows in LDS is rfg_s_place()'s: see
 * rfg_attention.h.
 *
 * The maximum that is subtracted lags: sums and outputs are rescaled only when a score is more than SLACK powers of two
 * above it, which after the first few tiles is rare. Probabilities are then at most 2^SLACK rather than 1, and as
 * precise.
 *
 * Macros: DTYPE; D, DV (multiples of 32; D_REAL, DV_REAL: mha_device.h); WAVES; FRAGS_Q (1, 2); TILE_KV (32 on NVIDIA, 64, 128); STAGES: tiles of K
 * and V in LDS (NVIDIA: 1 is one of each, V of this tile and K of the next copied by turns; AMD: 1 or 2, and another
 * tile in registers, one ahead); Q_LDS: Q is in LDS, not in registers; PACK: a tile has all query heads of a kv head,
 * side by side; MASK (1: causal, window_right; 3: window_left, too), CAP, ALIBI, PAGED: what there is of these;
 * DIVIDED: keys are divided into parts; D_SPLIT (NVIDIA; 1 or not there, 2: DV a multiple of 128): see prefill_item.h; LDS_BYTES. Grid: x: tiles x heads x batch (see find_item()); y: parts that the
 * keys are divided into (DIVIDED), evenly by the length that the device finds; each writes its partials to the
 * workspace, and the last to arrive combines them in order. Pointers, strides: whole multiples of 16 bytes. */

#if DIVIDED
/* ---- parts of the keys ------------------------------------------------------------------------------------------ */

/* Workspace, of a part: for each wave and number that a lane has of its rows, the lanes side by side. */
#define PART_FLOATS (FRAGS_Q * (D_BLOCKS * RFG_FRAG_C + 2 * RFG_S_ROWS))
#define PART        (PART_FLOATS * THREADS)
static_assert(PART <= MHA_PREFILL_PART_FLOATS(TILE_Q, DV, D_SPLIT),
              "a part fits into the workspace that the host asks for");

/* The cross-workgroup reduction of a tile's parts: writes this part's partials to the workspace; in the last workgroup
 * to arrive, for which it returns true, w becomes all parts' combined, in order. */
RFG_DEVICE bool combine_parts(const struct mha_args *a, struct state *w, float factor, int part, int parts)
{
    float *all = (float *)a->workspace + (long long)rfg_group_x() * parts * PART +
                 (rfg_wave() * (PART_FLOATS * RFG_WAVE) + rfg_lane());
    rfg_u32 *flag = (rfg_u32 *)rfg_lds;
    float *mine = all + (long long)part * PART;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            rfg_store4(mine + (f * RFG_S_ROWS + h) * 2 * RFG_WAVE, rfg_as_u32(w->top[f][h]));
            rfg_store4(mine + ((f * RFG_S_ROWS + h) * 2 + 1) * RFG_WAVE, rfg_as_u32(whole_sum(w, f, h)));
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
            for (int e = 0; e < RFG_FRAG_C; e++)
                rfg_store4(mine + (2 * FRAGS_Q * RFG_S_ROWS + (f * D_BLOCKS + d) * RFG_FRAG_C + e) * RFG_WAVE,
                           rfg_as_u32(w->o[f][d].v[e]));
    }
    if (!rfg_last_to_arrive(a->counters + rfg_group_x(), parts, flag))
        return false;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            w->top[f][h] = LOWEST;
#pragma unroll
            for (int i = 0; i < RFG_S_SUMS; i++)
                w->sum[f][h][i] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
            rfg_frag_zero(&w->o[f][d]);
    }
#pragma unroll 1
    for (int i = 0; i < parts; i++) {
        const float *its = all + (long long)i * PART;
#pragma unroll
        for (int f = 0; f < FRAGS_Q; f++) {
            float down[RFG_S_ROWS], up[RFG_S_ROWS];
#pragma unroll
            for (int h = 0; h < RFG_S_ROWS; h++) {
                float top = rfg_as_float(rfg_load4(its + (f * RFG_S_ROWS + h) * 2 * RFG_WAVE));
                float sum = rfg_as_float(rfg_load4(its + ((f * RFG_S_ROWS + h) * 2 + 1) * RFG_WAVE));
                float most = rfg_max(w->top[f][h], top);
                down[h] = rfg_exp2(factor * (w->top[f][h] - most));
                up[h] = rfg_exp2(factor * (top - most));
                w->sum[f][h][0] = w->sum[f][h][0] * down[h] + sum * up[h];
                w->top[f][h] = most;
            }
#pragma unroll
            for (int d = 0; d < D_BLOCKS; d++)
#pragma unroll
                for (int e = 0; e < RFG_FRAG_C; e++) {
                    float o = rfg_as_float(
                        rfg_load4(its + (2 * FRAGS_Q * RFG_S_ROWS + (f * D_BLOCKS + d) * RFG_FRAG_C + e) * RFG_WAVE));
                    w->o[f][d].v[e] = w->o[f][d].v[e] * down[rfg_s_half(e)] + o * up[rfg_s_half(e)];
                }
        }
    }
    return true;
}
#endif

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

PREFILL_KERNEL mha_prefill_mma(struct mha_args a)
{
    struct work_item p;
    rfg_start_next();
    rfg_await_previous();
    if (!find_item(&a, &p, rfg_recompute_group_x()))
        return;

    struct state w;
    w.row0 = p.row0 + rfg_wave() / D_SPLIT * WAVE_Q;
#pragma unroll
    for (int f = 0; f < FRAGS_Q; f++) {
#pragma unroll
        for (int d = 0; d < D_BLOCKS; d++)
            rfg_frag_zero(&w.o[f][d]);
#pragma unroll
        for (int h = 0; h < RFG_S_ROWS; h++) {
            w.top[f][h] = LOWEST;
#pragma unroll
            for (int i = 0; i < RFG_S_SUMS; i++)
                w.sum[f][h][i] = 0.0f;
#if ALIBI
            int row = w.row0 + rfg_s_query(rfg_lane(), f, h);
            w.slope[f][h] = LOG2_E * rfg_as_float(rfg_load4(a.alibi + head_of(&p, row < p.rows ? row : p.rows - 1)));
#endif
        }
    }
    float factor = factor_of(&a), slack = rfg_min(SLACK * rfg_rcp(factor), 1e30f);

    /* Keys that any query of the tile sees, in tiles; those that any, and that every query of the wave sees. */
    int last_row = (p.row0 + TILE_Q < p.rows ? p.row0 + TILE_Q : p.rows) - 1;
    int wave_last = w.row0 + WAVE_Q - 1 < last_row ? w.row0 + WAVE_Q - 1 : last_row;
    struct seen first = seen_by(&a, &p, query_of(&p, p.row0)), last = seen_by(&a, &p, query_of(&p, last_row));
    int begin = first.first / TILE_KV * TILE_KV, end = last.first + last.count;
    if (first.first + first.count > end) /* queries that see nothing have no end */
        end = first.first + first.count;
    first = seen_by(&a, &p, query_of(&p, w.row0));
    last = seen_by(&a, &p, query_of(&p, wave_last));
    bool idle = w.row0 > last_row; /* no rows, or none of them sees a key */
    int wave_begin = first.first, wave_end = last.first + last.count;
    int all_begin = last.first, all_end = first.first + first.count;

#if DIVIDED
    if (begin < end) {
        int part = rfg_recompute_group_y(), parts = rfg_recompute_groups_y();
        int tiles = (end - begin - 1) / TILE_KV + 1, upto = begin + rfg_share_begin(tiles, part + 1, parts) * TILE_KV;
        begin += rfg_share_begin(tiles, part, parts) * TILE_KV;
        end = end < upto ? end : upto;
    }
#endif
    if (begin < end && p.skv > 0) {
        struct source k = source_of(&a, &a.k, &p, D_REAL / 8), v = source_of(&a, &a.v, &p, DV_REAL / 8);
        struct queries q;
        START_LANES(k, v, begin);
        load_queries(&a, &p, &q, w.row0);

        BEGIN_TILES(k, v, begin, end);
        int stage = 0;
#pragma unroll 1
        for (int key0 = begin; key0 < end; key0 += TILE_KV) {
            rfg_u32x4 *tile = rfg_lds + stage * STAGE;
            AWAIT_KEYS(k, v, tile, stage, key0, end);
            bool any = !idle && key0 < wave_end && key0 + TILE_KV > wave_begin;
            rfg_frag_c s[FRAGS_Q][BLOCKS];
            if (any) {
                find_scores(s, &q, tile);
#if CAP || ALIBI
                change_scores(&a, &p, &w, s, key0);
#endif
                if (key0 < all_begin || key0 + TILE_KV > all_end)
                    mask_scores(&a, &p, &w, s, key0);
                float top[FRAGS_Q][RFG_S_ROWS], scale[FRAGS_Q][RFG_S_ROWS];
                if (find_top(&w, s, top, slack)) {
                    raise_top(&w, top, scale, factor);
                    scale_output(&w, scale);
                }
                softmax_step(&w, s, factor);
            }
            AWAIT_VALUES(k, tile, key0, end);
            if (any)
                add_values(&w, s, tile + K_TILE);
            stage = stage + 1 >= STAGES ? 0 : stage + 1;
        }
    }
    /* Read again, rather than kept in registers through the loop. */
    struct mha_args end_args = reread_args(&a);
#if DIVIDED
    if (!combine_parts(&end_args, &w, factor_of(&end_args), rfg_recompute_group_y(), rfg_recompute_groups_y()))
        return;
#endif
    if (find_item(&end_args, &p, rfg_recompute_group_x()))
        store_rows(&end_args, &p, &w, factor);
}
