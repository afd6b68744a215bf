/* SPDX-License-Identifier: MIT
 *
 * Of mla_decode_wgmma_few and mla_decode_wgmma_codes: a workgroup's sums become the output, alone, with those of its cluster, or
 * with those of several. A unit is four sums of each thread: two rows (queries), in two columns.
 * Macro: NEIGHBOURS, mla_decode_wgmma_codes' columns. */

#ifdef NEIGHBOURS
/* Two rows, head and the next; two columns beside each other. */
RFG_DEVICE void store_unit(const struct mla_args *a, const struct work_item *it, int head, int block,
                           const float *factor, rfg_f32x4 v)
{
    int d = block / 2 * 128 + rfg_wave() % WAVES * 32 + rfg_lane() / 4 * 4 + block % 2 * 2;
    const float of[2][2] = { { v.x, v.z }, { v.y, v.w } };
#pragma unroll
    for (int h = 0; h < 2; h++) { /* a factor of 0: though the sums may be no numbers */
        float f = factor[h], first = f == 0.0f ? 0.0f : of[h][0] * f, second = f == 0.0f ? 0.0f : of[h][1] * f;
        if (it->row0 + head + h < it->rows)
            rfg_store4((char *)a->out.data + (row_at(a, it, &a->out, head + h) + d) * 2,
                       rfg_floats_to_16(first, second, DTYPE));
    }
}
#else
/* Two rows, head and the next; columns d and d + 8. Threads four lanes apart, which have neighbouring columns, give
 * each other a row, so that two elements are stored at once. */
RFG_DEVICE void store_unit(const struct mla_args *a, const struct work_item *it, int head, int block,
                           const float *factor, rfg_f32x4 v)
{
    bool odd = rfg_lane() & 4;
    float f0 = factor[0], f1 = factor[1];
    v.x = f0 == 0.0f ? 0.0f : v.x * f0; /* though the sums may be no numbers */
    v.z = f0 == 0.0f ? 0.0f : v.z * f0;
    v.y = f1 == 0.0f ? 0.0f : v.y * f1;
    v.w = f1 == 0.0f ? 0.0f : v.w * f1;
    float its[2] = { rfg_shuffle_xor(odd ? v.x : v.y, 4), rfg_shuffle_xor(odd ? v.z : v.w, 4) };
    int r = head + odd, d = block * 64 + rfg_wave() % WAVES * 16 + rfg_lane() / 8 * 2;
    if (it->row0 + r >= it->rows)
        return;
    char *to = (char *)a->out.data + (row_at(a, it, &a->out, r) + d) * 2;
    rfg_store4(to, odd ? rfg_floats_to_16(its[0], v.y, DTYPE) : rfg_floats_to_16(v.x, its[0], DTYPE));
    rfg_store4(to + 16, odd ? rfg_floats_to_16(its[1], v.w, DTYPE) : rfg_floats_to_16(v.z, its[1], DTYPE));
}
#endif

/* Whether this thread stores what others have, too. */
RFG_DEVICE bool says(void)
{
    return rfg_wave() == 0 && rfg_lane() < 4;
}
/* Of two rows, the pair-th of this thread. say: their lse is stored. */
RFG_DEVICE void finish_pair(const struct mla_args *a, const struct work_item *it, int pair, const float *m,
                            const float *l, bool say, float *factor)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
        factor[h] = finish_row(a, it, head_of(2 * pair + h), m[h], l[h], say && says());
}

/* Sums of weights of all lanes and waves, in the same order in each. */
RFG_DEVICE void add_sums(float (*of_wave)[ROWS], struct state *w)
{
#pragma unroll
    for (int n = 0; n < HEADS; n++) {
        float sum = rfg_frag_wx_reduce(w->l[n], false);
        if (rfg_lane() < 4)
            of_wave[rfg_wave() % WAVES][head_of(n)] = sum;
    }
    meet();
#pragma unroll
    for (int n = 0; n < HEADS; n++) {
        w->l[n] = of_wave[0][head_of(n)];
#pragma unroll
        for (int i = 1; i < WAVES; i++)
            w->l[n] += of_wave[i][head_of(n)];
    }
}

#if PARTS == 1
RFG_DEVICE void store_rows(const struct mla_args *a, const struct work_item *it, const struct state *w)
{
#pragma unroll
    for (int pair = 0; pair < PAIRS; pair++) {
        float factor[2];
        finish_pair(a, it, pair, w->m + 2 * pair, w->l + 2 * pair, true, factor);
#pragma unroll
        for (int d = 0; d < V_BLOCKS; d++) {
            const float *v = w->o[d][pair / 2].v + pair % 2 * 4;
            store_unit(a, it, head_of(2 * pair), d, factor, make_float4(v[0], v[1], v[2], v[3]));
        }
    }
}
#else
#define ALL_UNITS (V_BLOCKS * PAIRS)                      /* number d * PAIRS + pair */
#define UNITS     MLA_FEW_UNITS(DV, ROWS, PARTS)          /* of a workgroup: rank, rank + PARTS, ... */
#define OWN_PAIRS (PAIRS > PARTS ? PAIRS / PARTS : 1)     /* that they have: the p-th, p + OWN_PAIRS, ... the same */
#define GROUPS    ((MULTIPLIERS + COPIERS) / MULTIPLIERS) /* all threads combine, a unit as those that multiplied */
#ifndef SENT_AT
#define SENT_AT (APART ? MLA_FEW_KV_END(D, ROWS) : KV_AT)
#endif
#define ENDS_AT (SENT_AT + PARTS * UNITS * 2048)
static_assert(ENDS_AT + PARTS * ROWS * 8 <= LDS_BYTES, "sums follow keys, or take their place");

RFG_DEVICE void add_pairs(rfg_f32x4 *sum, rfg_f32x4 v, const float *by)
{
    sum->x = rfg_fma(v.x, by[0], sum->x);
    sum->y = rfg_fma(v.y, by[1], sum->y);
    sum->z = rfg_fma(v.z, by[0], sum->z);
    sum->w = rfg_fma(v.w, by[1], sum->w);
}

/* All workgroups of the cluster run, and are done with what the sums take the place of. */
RFG_DEVICE void start_sending(void)
{
#if !APART
    rfg_cluster_arrive();
#endif
    rfg_cluster_wait();
}

/* Sums to the workgroups that combine them, with what they are relative to. */
RFG_DEVICE void send_sums(const struct state *w, char *lds, int rank)
{
    rfg_f32x4 *sums = (rfg_f32x4 *)(lds + SENT_AT), *ends = (rfg_f32x4 *)(lds + ENDS_AT) + rank * (ROWS / 2);
#pragma unroll
    for (int u = 0; u < ALL_UNITS; u++) {
        const float *v = w->o[u / PAIRS][u % PAIRS / 2].v + u % 2 * 4;
        rfg_cluster_store16(sums + (rank * UNITS + u / PARTS) * MULTIPLIERS + rfg_thread(), u % PARTS,
                            make_float4(v[0], v[1], v[2], v[3]));
    }
    if (rfg_lane() < 4)
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++)
            for (int to = rfg_wave(); to < PARTS; to += WAVES) {
                const float *m = w->m + 2 * pair, *l = w->l + 2 * pair;
                rfg_cluster_store16(ends + head_of(2 * pair) / 2, to, make_float4(m[0], m[1], l[0], l[1]));
            }
}

#if CLUSTERS > 1
/* Of the workspace: cluster c's sums of this workgroup's units, and behind them ends. */
RFG_DEVICE float *slot_of(const struct mla_args *a, int c)
{
    int group = rfg_group_x(), rank = group % PARTS, item = group / (PARTS * CLUSTERS);
    return (float *)a->workspace +
           ((long long)(item * CLUSTERS + c) * PARTS + rank) * MLA_FEW_SLOT_FLOATS(DV, ROWS, PARTS);
}
#endif

/* Each workgroup combines all parts of some of the units, in the parts' order. */
RFG_DEVICE void combine_parts(const struct mla_args *a, const struct work_item *it, const char *lds)
{
    int rank = rfg_group_x() % PARTS, group = rfg_wave() / WAVES, thread = rfg_thread() % MULTIPLIERS;
    const rfg_f32x4 *sums = (const rfg_f32x4 *)(lds + SENT_AT), *ends = (const rfg_f32x4 *)(lds + ENDS_AT);
#if CLUSTERS > 1
    float *slot = slot_of(a, rfg_group_x() / PARTS % CLUSTERS);
#endif
#pragma unroll 1
    for (int p = 0; p < OWN_PAIRS; p++) {
        int first = p * PARTS + rank, pair = first % PAIRS, head = head_of(2 * pair);
        rfg_f32x4 e[PARTS];
        float by[PARTS][2], m[2], l[2], factor[2];
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            e[i] = ends[i * (ROWS / 2) + head / 2];
        weigh_ends(e, PARTS, by, m, l);
#if CLUSTERS > 1
        (void)factor;
        if (says())
            rfg_store_f32x4(slot + UNITS * 512 + head * 2, make_float4(m[0], m[1], l[0], l[1]));
#else
        finish_pair(a, it, pair, m, l, first < PAIRS, factor);
#endif
#pragma unroll 1
        for (int i = p + group * OWN_PAIRS; i < UNITS && i * PARTS + rank < ALL_UNITS; i += GROUPS * OWN_PAIRS) {
            rfg_f32x4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < PARTS; k++)
                add_pairs(&sum, sums[(k * UNITS + i) * MULTIPLIERS + thread], by[k]);
#if CLUSTERS > 1
            rfg_store_f32x4(slot + (i * MULTIPLIERS + thread) * 4, sum);
#else
            store_unit(a, it, head, (i * PARTS + rank) / PAIRS, factor, sum);
#endif
        }
    }
}

#if CLUSTERS > 1
/* The last one of those that have the same units: all clusters' sums, in the clusters' order. */
#define AT_ONCE (CLUSTERS > 8 ? 1 : CLUSTERS > 4 ? 2 : 3) /* units, so that loads are under way together */
RFG_DEVICE void combine_clusters(const struct mla_args *a, const struct work_item *it)
{
    const int apart = GROUPS * OWN_PAIRS;
    int rank = rfg_group_x() % PARTS, group = rfg_wave() / WAVES, thread = rfg_thread() % MULTIPLIERS;
#pragma unroll 1
    for (int p = 0; p < OWN_PAIRS; p++) {
        int first = p * PARTS + rank, pair = first % PAIRS, head = head_of(2 * pair);
        rfg_f32x4 e[CLUSTERS], v[AT_ONCE][CLUSTERS];
        float by[CLUSTERS][2], m[2], l[2], factor[2];
#pragma unroll
        for (int c = 0; c < CLUSTERS; c++)
            e[c] = rfg_load_f32x4(slot_of(a, c) + UNITS * 512 + head * 2);
#pragma unroll 1
        for (int i0 = p + group * OWN_PAIRS; i0 < UNITS; i0 += AT_ONCE * apart) {
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                int i = i0 + j * apart < UNITS ? i0 + j * apart : i0;
#pragma unroll
                for (int c = 0; c < CLUSTERS; c++)
                    v[j][c] = rfg_load_f32x4(slot_of(a, c) + (i * MULTIPLIERS + thread) * 4);
            }
            weigh_ends(e, CLUSTERS, by, m, l);
            finish_pair(a, it, pair, m, l, first < PAIRS, factor);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                int i = i0 + j * apart, u = i * PARTS + rank;
                rfg_f32x4 sum = make_float4(0, 0, 0, 0);
                if (i >= UNITS || u >= ALL_UNITS)
                    break;
#pragma unroll
                for (int c = 0; c < CLUSTERS; c++)
                    add_pairs(&sum, v[j][c], by[c]);
                store_unit(a, it, head, u / PAIRS, factor, sum);
            }
        }
    }
}
#endif

/* What all threads do after start_sending(), and those that multiply after send_sums(). */
RFG_DEVICE void combine(const struct mla_args *a, const struct work_item *it, char *lds)
{
    rfg_cluster_arrive();
    rfg_cluster_wait();
    combine_parts(a, it, lds);
#if CLUSTERS > 1
    int cluster = rfg_group_x() / PARTS;
    rfg_u32 *counter = a->counters + cluster / CLUSTERS * PARTS + rfg_group_x() % PARTS;
    if (rfg_last_to_arrive(counter, CLUSTERS, &((struct barriers *)lds)->flag))
        combine_clusters(a, it);
#endif
}
#endif
