/* SPDX-License-Identifier: MIT
 *
 * Decode's scales of tokens (TOKEN_SCALES): scores are multiplied by those of keys, weights by those of values, so that
 * no element is. Lane l has the word of token l % 16 of a step, of keys in the first 16 lanes and of values in the next.
 *
 * Weights times scales are fp16, whose range is small: scales are divided by a power of two that is as large as all so
 * far, and outputs are multiplied by it at the end. When it rises outputs shrink, as with a new maximum. Included by
 * decode_item.h; decode_amd.hip and decode_nvidia.hip define find_zeros(): of the words of a lane's scores, and its own. */
#define SCORE_TOKENS (RFG_FRAG_WX / RFG_FRAG_WX_COLS) /* tokens of a lane's scores */

struct step_scales {
    float k[SCORE_TOKENS], v[SCORE_TOKENS];
#if SUBNORMALS
    float k_zero[SCORE_TOKENS];
    rfg_u32 v_zero[RFG_PV_TOKENS / 2]; /* two values', as int_values() takes them */
#elif KV_I4
    rfg_u32 k_zero[RFG_FRAG_AB], v_zero[RFG_PV_TOKENS / 2]; /* codes: a key's twice, two values' */
#endif
};

/* One of two arguments, by arithmetic: of a choice the compiler would make one of addresses, and put arguments to scratch.
 */
RFG_DEVICE int kv_choice(int k, int v, int mask)
{
    return k ^ ((k ^ v) & mask);
}
RFG_DEVICE void find_scales(const struct mha_args *a, struct work_item *it)
{
    int mask = -(rfg_lane() >> 4 & 1);
    rfg_u64 k = (rfg_u64)(a->k_scale + (long long)it->head * a->k_scale_stride);
    rfg_u64 v = (rfg_u64)(a->v_scale + (long long)it->head * a->v_scale_stride);
    it->scales = (const char *)(k ^ ((k ^ v) & (rfg_u64)(long long)mask));
    it->scale_stride[0] = kv_choice(a->k.scale_stride[0], a->v.scale_stride[0], mask);
    it->scale_stride[1] = kv_choice(a->k.scale_stride[1], a->v.scale_stride[1], mask);
}

/* Of a step, if `on`. What tokens past the end have may be anything: it is 0 here. */
RFG_DEVICE void load_scales(const struct mha_args *a, const struct work_item *it, struct place *s, int block, int step,
                            bool on)
{
    int token = step * MHA_DECODE_STEP + rfg_lane() % 16, row = PAGED ? RFG_PAGE_ROW(token, a->page_shift) : token;
    bool real = on && token < it->len;
#if !RING
    s->scales = 0;
#endif
    if (PAGED == 2)
        block = real ? rfg_load4_global(it->table + RFG_PAGE_OF(token, a->page_shift)) : 0;
    const char *p = it->scales + ((long long)block * it->scale_stride[0] + (long long)row * it->scale_stride[1]) * 4;
    if (ALWAYS_LOADS || real)
        load4_if(&s->scales MINE, p, real);
}

/* The word of a step's token. */
RFG_DEVICE rfg_u32 word_of(rfg_u32 mine, int token, bool v)
{
    return rfg_shuffle_u32(mine, token + (v ? 16 : 0));
}
#if KV_I4
RFG_DEVICE void find_zeros(struct step_scales *to, const rfg_u32 *k, const rfg_u32 *v, rfg_u32 word);
#endif

RFG_DEVICE void scales_of_step(struct step_scales *to, rfg_u32 word)
{
    rfg_u32 k[SCORE_TOKENS], v[SCORE_TOKENS];
#pragma unroll
    for (int i = 0; i < SCORE_TOKENS; i++) {
        int token = rfg_frag_c_row(i * RFG_FRAG_WX_COLS);
        k[i] = word_of(word, token, false);
        v[i] = word_of(word, token, true);
        to->k[i] = kv_scale(k[i]);
        to->v[i] = kv_scale(v[i]);
    }
#if KV_I4
    find_zeros(to, k, v, word);
#endif
}

RFG_DEVICE bool v_exceeds(const struct sums *acc, const struct step_scales *scales)
{
    bool any = false;
#pragma unroll
    for (int i = 0; i < SCORE_TOKENS; i++)
        any |= scales->v[i] > acc->v_top;
    return any;
}
/* Returns what outputs are to be multiplied by. */
RFG_DEVICE float raise_v_top(struct sums *acc, const struct step_scales *scales)
{
    float top = acc->v_top, before = top;
#pragma unroll
    for (int i = 0; i < SCORE_TOKENS; i++)
        top = rfg_max(top, scales->v[i]);
    top = rfg_frag_wx_reduce(top, true);
    if (!(top > before))
        return 1.0f;
    rfg_u32 exponent = (rfg_as_u32(top) >> 23) + 1;
    exponent = exponent > 253 ? 253 : exponent;
    acc->v_top = rfg_as_float(exponent << 23);
    acc->v_down = rfg_as_float((254 - exponent) << 23);
    return before * acc->v_down;
}
RFG_DEVICE void scale_weights(const struct sums *acc, rfg_frag_wx *s, const struct step_scales *scales)
{
#pragma unroll
    for (int i = 0; i < RFG_FRAG_WX; i++) {
        float by = scales->v[i / RFG_FRAG_WX_COLS] * acc->v_down;
#pragma unroll
        for (int t = 0; t < TILES; t++)
            s[t].v[i] *= by;
    }
}
RFG_DEVICE void restore_outputs(struct sums *acc)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < RFG_PV_O; i++) {
#if SUBNORMALS
                acc->o[t][b][i] *= VALUE_UNIT(i / (RFG_PV_O / RFG_PV_ROWS) * BLOCKS + b);
#endif
                acc->o[t][b][i] *= acc->v_top;
            }
}
