/* SPDX-License-Identifier: MIT
 *
 * Of mla_decode_wgmma (wgmma.hip): a workgroup's sums become the output, alone, with those of its cluster, or with those
 * of several. */

/* Columns d, d + 1 and d + 8, d + 9 of a row. */
RFG_DEVICE void store_four(char *to, float factor, float v0, float v1, float v2, float v3)
{
    bool none = factor == 0.0f; /* though the sums may be no numbers */
    rfg_store4(to, none ? 0 : rfg_floats_to_16(v0 * factor, v1 * factor, DTYPE));
    rfg_store4(to + 16, none ? 0 : rfg_floats_to_16(v2 * factor, v3 * factor, DTYPE));
}

#if PARTS > 1
/* Four columns of 16, number u / 2 of the half, of row or row + 8. */
RFG_DEVICE void store_unit(const struct mla_args *a, const struct work_item *it, int row, int d0, int u, float factor,
                           rfg_f32x4 v)
{
    int r = row + u % 2 * 8;
    if (it->row0 + r < it->rows)
        store_four((char *)a->out.data + (row_at(a, it, &a->out, r) + d0 + u / 2 * 16) * 2, factor, v.x, v.y, v.z, v.w);
}
#endif

/* Both warpgroups' sums of weights, each over its own keys and four lanes. */
RFG_DEVICE void add_sums(struct barriers *b, struct state *w, bool first, int thread)
{
    float mine[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        mine[h] = rfg_s_reduce(w->l[h], false);
    if (!first) {
        b->l[thread][0] = mine[0];
        b->l[thread][1] = mine[1];
    } else {
        b->m[0][thread][0] = mine[0];
        b->m[0][thread][1] = mine[1];
    }
    meet();
#pragma unroll
    for (int h = 0; h < 2; h++)
        w->l[h] = first ? mine[h] + b->l[thread][h] : b->m[0][thread][h] + mine[h];
}

#if PARTS > 1
/* A workgroup's units of sums, four floats of a thread each, number n * PARTS + rank of 2 O_PARTS. Where there are at most
 * 16 rows, those are the first wave's of each warpgroup: then its four waves have a quarter of the units each. */
#define UNITS MLA_WG_UNITS(DV, PARTS)
struct share {
    int rank;
    int from;  /* the thread whose sums these are */
    int row;   /* of the item: and row + 8 */
    int d0;    /* the first column */
    bool any;  /* such rows are there */
    int n, by; /* the first unit, and how far from each other they are */
};
RFG_DEVICE struct share my_share(const struct work_item *it)
{
    bool few = it->rows - it->row0 <= 16;
    int wave = rfg_wave() % 4, group = rfg_wave() / 4;
    struct share s = { rfg_group_x() % PARTS, group * GROUP + (few ? rfg_lane() : rfg_thread() % GROUP) };
    s.row = (few ? 0 : wave * 16) + rfg_lane() / 4;
    s.d0 = group * HALF + 2 * (rfg_lane() % 4);
    s.any = few || it->row0 + wave * 16 < it->rows;
    s.n = few ? wave : 0;
    s.by = few ? 4 : 1;
    return s;
}

RFG_DEVICE void add_weighed(rfg_f32x4 *sum, rfg_f32x4 v, float by)
{
    sum->x = rfg_fma(v.x, by, sum->x);
    sum->y = rfg_fma(v.y, by, sum->y);
    sum->z = rfg_fma(v.z, by, sum->z);
    sum->w = rfg_fma(v.w, by, sum->w);
}
RFG_DEVICE void finish_rows(const struct mla_args *a, const struct work_item *it, const struct share *s, const float *m,
                            const float *l, float *factor)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
        factor[h] = finish_row(a, it, s->row + 8 * h, m[h], l[h], s->rank == 0 && s->d0 == 0);
}
#endif

#if CLUSTERS > 1
/* Of the workspace: cluster c's sums of this workgroup's columns, by threads, and behind them ends. */
RFG_DEVICE float *slot_of(const struct mla_args *a, int c, int thread)
{
    int group = rfg_group_x(), rank = group % PARTS, item = group / (PARTS * CLUSTERS);
    return (float *)a->workspace + ((long long)(item * CLUSTERS + c) * PARTS + rank) * MLA_WG_SLOT_FLOATS(DV, PARTS) +
           thread * 4;
}
#define UNIT_FLOATS (2 * GROUP * 4)
#endif

#if PARTS > 1
/* In place of keys: of each thread that multiplies m and l of two rows, then units. */
#define ENDS_AT KV_AT
#define SUMS_AT (ENDS_AT + 2 * GROUP * 16)
#define UNIT    (2 * GROUP * 16)
static_assert(SUMS_AT + 2 * O_PARTS * UNIT <= LDS_BYTES, "sums take the place of keys");

RFG_DEVICE rfg_f32x4 load_floats(const void *p, int rank)
{
    rfg_u32x4 v = rfg_cluster_load16(rfg_lds_address(p), rank);
    return make_float4(rfg_as_float(v.x), rfg_as_float(v.y), rfg_as_float(v.z), rfg_as_float(v.w));
}

/* Each workgroup combines all parts of some of the columns, in the parts' order, and stores them. */
RFG_DEVICE void combine_parts(const struct mla_args *a, const struct work_item *it, const struct state *w, char *lds)
{
    struct share s = my_share(it);
    rfg_f32x4 *ends = (rfg_f32x4 *)(lds + ENDS_AT), *sums = (rfg_f32x4 *)(lds + SUMS_AT), e[PARTS];
    meet(); /* both are done with keys */
    ends[rfg_thread()] = make_float4(w->m[0], w->m[1], w->l[0], w->l[1]);
#pragma unroll
    for (int u = 0; u < 2 * O_PARTS && it->row0 + rfg_wave() % 4 * 16 < it->rows; u++) {
        const float *v = w->o[u / 2].v + u % 2 * 2;
        sums[u * 2 * GROUP + rfg_thread()] = make_float4(v[0], v[1], v[4], v[5]);
    }
    rfg_cluster_arrive();
    rfg_cluster_wait();
    float by[PARTS][2], m[2], l[2], factor[2];
#pragma unroll
    for (int p = 0; p < PARTS; p++)
        e[p] = load_floats(ends + s.from, p);
    weigh_ends(e, PARTS, by, m, l);
#if CLUSTERS > 1
    float *slot = slot_of(a, rfg_group_x() / PARTS % CLUSTERS, s.from);
    rfg_store_f32x4(slot + UNITS * UNIT_FLOATS, make_float4(m[0], m[1], l[0], l[1]));
    (void)factor;
#else
    finish_rows(a, it, &s, m, l, factor);
#endif
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        int n = s.n + i * s.by, u = n * PARTS + s.rank, h = u % 2;
        rfg_f32x4 v[PARTS], sum = make_float4(0, 0, 0, 0);
        if (!s.any || n >= UNITS || (2 * O_PARTS % PARTS != 0 && u >= 2 * O_PARTS))
            break;
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            v[p] = load_floats(sums + u * 2 * GROUP + s.from, p);
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            add_weighed(&sum, v[p], h ? by[p][1] : by[p][0]);
#if CLUSTERS > 1
        rfg_store_f32x4(slot + n * UNIT_FLOATS, sum);
#else
        store_unit(a, it, s.row, s.d0, u, h ? factor[1] : factor[0], sum);
#endif
    }
}
#endif

#if CLUSTERS > 1
/* rfg_last_to_arrive() for the threads that multiply, while the others are done. */
RFG_DEVICE bool is_last(const struct mla_args *a, rfg_u32 *flag)
{
    int group = rfg_group_x();
    rfg_release_wave();
    meet();
    if (rfg_thread() == 0)
        rfg_count_arrival(a->counters + group / (PARTS * CLUSTERS) * PARTS + group % PARTS, CLUSTERS, flag);
    meet();
    return rfg_was_last(CLUSTERS, flag);
}

/* The last one of those that have the same columns: all clusters' sums, in the clusters' order. */
#define AT_ONCE (CLUSTERS >= 8 ? 2 : 16 / CLUSTERS) /* units, so that loads are under way together */
RFG_DEVICE void combine_clusters(const struct mla_args *a, const struct work_item *it)
{
    struct share s = my_share(it);
    float by[CLUSTERS][2], m[2], l[2], factor[2];
    rfg_f32x4 e[CLUSTERS];
    if (!s.any)
        return;
#pragma unroll
    for (int c = 0; c < CLUSTERS; c++)
        e[c] = rfg_load_f32x4(slot_of(a, c, s.from) + UNITS * UNIT_FLOATS);
    weigh_ends(e, CLUSTERS, by, m, l);
    finish_rows(a, it, &s, m, l, factor);
#pragma unroll 1
    for (int n0 = s.n; n0 < UNITS; n0 += AT_ONCE * s.by) {
        rfg_f32x4 v[AT_ONCE][CLUSTERS];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int n = n0 + i * s.by < UNITS ? n0 + i * s.by : n0;
#pragma unroll
            for (int c = 0; c < CLUSTERS; c++)
                v[i][c] = rfg_load_f32x4(slot_of(a, c, s.from) + n * UNIT_FLOATS);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int n = n0 + i * s.by, u = n * PARTS + s.rank, h = u % 2;
            rfg_f32x4 sum = make_float4(0, 0, 0, 0);
            if (n >= UNITS || u >= 2 * O_PARTS)
                break;
#pragma unroll
            for (int c = 0; c < CLUSTERS; c++)
                add_weighed(&sum, v[i][c], h ? by[c][1] : by[c][0]);
            store_unit(a, it, s.row, s.d0, u, h ? factor[1] : factor[0], sum);
        }
    }
}
#endif

#if PARTS == 1
RFG_DEVICE void store_rows(const struct mla_args *a, const struct work_item *it, const struct state *w, int row, int d0)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float factor = finish_row(a, it, row + 8 * h, w->m[h], w->l[h], d0 == 0);
        if (it->row0 + row + 8 * h >= it->rows)
            continue;
        char *to = (char *)a->out.data + (row_at(a, it, &a->out, row + 8 * h) + d0) * 2;
#pragma unroll
        for (int d = 0; d < O_PARTS; d++) {
            const float *v = w->o[d].v + 2 * h;
            store_four(to + d * 32, factor, v[0], v[1], v[4], v[5]);
        }
    }
}
#endif
