/* SPDX-License-Identifier: MIT
 *
 * Decode's reductions: the partials of a workgroup's waves are combined in LDS, those of several workgroups in the LDS
 * of a cluster (CLUSTER > 1) or in the workspace, and the result is stored. Included by decode_amd.hip and
 * decode_nvidia.hip after decode_item.h.
 *
 * A partial is, for a row, the maximum m that was subtracted from its scores, the sum l of their probabilities relative
 * to m, and the output o, not yet divided by l. A thread combines a quad at a time: four neighbouring elements of a
 * row. */

/* Neighbouring elements of a row that a lane stores together. */
#define RUN (PIECE < 4 ? 2 : 4)
#if RUN == 2
typedef rfg_f32x2 run;
#else
typedef rfg_f32x4 run;
#endif
#define RUN_OF(acc, t, i, e, k) (acc)->o[t][((e) + (k)) % BLOCKS][((e) + (k)) / BLOCKS * (RFG_PV_O / RFG_PV_ROWS) + (i)]

/* The partials of a wave to LDS, at the place of wave `at`; if not `first`, combined with what another wave wrote
 * there. */
RFG_DEVICE void write_wave(float *lds, struct sums *acc, int at, bool first)
{
    float *sums = lds + OUTPUTS_AT + at * WAVE_OUTPUTS;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float down[RFG_FRAG_WX_COLS], up[RFG_FRAG_WX_COLS];
#pragma unroll
        for (int j = 0; j < RFG_FRAG_WX_COLS; j++) {
            float l = rfg_frag_wx_reduce(acc->l[t][j], false), m = acc->m[t][j];
            float *ml = lds + ML_AT + (at * ROWS + t * RFG_FRAG_X_ROWS + rfg_frag_wx_col(j)) * 2;
            if (!first) {
                m = rfg_max(m, ml[0]);
                down[j] = rfg_exp2(acc->m[t][j] - m);
                up[j] = rfg_exp2(ml[0] - m);
                l = l * down[j] + ml[1] * up[j];
            }
            if (rfg_lane() < RFG_FRAG_WX_LANES) {
                ml[0] = m;
                ml[1] = l;
            }
        }
#pragma unroll
        for (int i = 0; i < RFG_PV_O / RFG_PV_ROWS; i++)
#pragma unroll
            for (int e = 0; e < V_ELEMENTS; e += RUN) {
                if (REAL_ROWS < ROWS && t * RFG_FRAG_X_ROWS + rfg_frag_wx_col(i) >= REAL_ROWS)
                    continue;
                run *to = (run *)(sums + ROW_AT(t * RFG_FRAG_X_ROWS + rfg_frag_wx_col(i)) + part_of() * DV_PART +
                                  output_element(e, i)),
                    r;
                r.x = RUN_OF(acc, t, i, e, 0);
                r.y = RUN_OF(acc, t, i, e, 1);
#if RUN > 2
                r.z = RUN_OF(acc, t, i, e, 2);
                r.w = RUN_OF(acc, t, i, e, 3);
#endif
                if (!first) {
                    run other = *to;
                    float d = down[i % RFG_FRAG_WX_COLS], o = up[i % RFG_FRAG_WX_COLS];
                    r.x = r.x * d + other.x * o;
                    r.y = r.y * d + other.y * o;
#if RUN > 2
                    r.z = r.z * d + other.z * o;
                    r.w = r.w * d + other.w * o;
#endif
                }
                *to = r;
            }
    }
}
struct partial {
    float m, l;
    rfg_f32x4 o;
};

RFG_DEVICE void empty_partial(struct partial *p)
{
    p->m = LOWEST;
    p->l = p->o.x = p->o.y = p->o.z = p->o.w = 0.0f;
}
/* p->m is at least m. */
RFG_DEVICE void combine(struct partial *p, float m, float l, rfg_f32x4 o)
{
    float its = rfg_exp2(m - p->m);
    p->l += l * its;
    p->o.x += o.x * its;
    p->o.y += o.y * its;
    p->o.z += o.z * its;
    p->o.w += o.w * its;
}

RFG_DEVICE struct partial combine_waves(const float *lds, int quad)
{
    int row = quad / (DV / 4), at = quad % (DV / 4) * 4;
    struct partial p;
    empty_partial(&p);
#pragma unroll
    for (int w = 0; w < LDS_WAVES; w++)
        p.m = rfg_max(p.m, lds[ML_AT + (w * ROWS + row) * 2]);
#pragma unroll
    for (int w = 0; w < LDS_WAVES; w++) {
        const float *ml = lds + ML_AT + (w * ROWS + row) * 2;
        combine(&p, ml[0], ml[1], *(const rfg_f32x4 *)(lds + OUTPUTS_AT + w * WAVE_OUTPUTS + ROW_AT(row) + at));
    }
    return p;
}

/* Is the quad of a row of the item? Others are padding. (So are columns beyond DV_REAL, but lanes that answer for a row
 * together stay together.) */
RFG_DEVICE bool is_output(const struct work_item *it, int quad)
{
    return GROUP * SQ % ROWS == 0 || it->row0 + quad / (DV / 4) < GROUP * SQ;
}

/* Divides a quad by its sum of probabilities, with the sink's and the scale of v, and stores it; and the log-sum-exp.
 */
RFG_DEVICE void store_quad(const struct mha_args *a, const struct work_item *it, int quad, struct partial p)
{
    int row = it->row0 + quad / (DV / 4), at = quad % (DV / 4) * 4;
    if (!is_output(it, quad) || (DV_REAL < DV && at >= DV_REAL))
        return;
    int query = row / GROUP, head = it->head * GROUP + row % GROUP;
    if (a->sinks) {
        float sink = load_sink(a, head) * LOG2_E, top = rfg_max(p.m, sink);
        float mine = rfg_exp2(p.m - top);
        p.o.x *= mine;
        p.o.y *= mine;
        p.o.z *= mine;
        p.o.w *= mine;
        p.l = p.l * mine + rfg_exp2(sink - top);
        p.m = top;
    }
    float scale =
        !TOKEN_SCALES && a->v_scale ? rfg_as_float(rfg_load4(a->v_scale + it->head * a->v_scale_stride)) : 1.0f;
    scale = p.l > 0.0f || p.l != p.l ? scale / p.l : 0.0f;
    rfg_f32x4 o;
    o.x = p.o.x * scale;
    o.y = p.o.y * scale;
    o.z = p.o.z * scale;
    o.w = p.o.w * scale;
#if KV_ALIGN < 16
    rfg_u16 *to = (rfg_u16 *)a->out.data + it->b * a->out.batch + query * a->out.token + head * a->out.head + at;
    rfg_store4(to, rfg_floats_to_16(o.x, o.y, DTYPE));
    rfg_store4(to + 2, rfg_floats_to_16(o.z, o.w, DTYPE));
#else
    rfg_store_float4(a->out.data, it->b * a->out.batch + query * a->out.token + head * a->out.head + at, o, DTYPE);
#endif
    if (a->lse && at == 0)
        rfg_store4(a->lse + it->b * a->lse_batch + head * a->lse_head + query * a->lse_token,
                   rfg_as_u32(p.l > 0.0f   ? (p.m + rfg_log2(p.l)) * LN_2
                              : p.l != p.l ? p.l
                                           : MINUS_INFINITY));
}

/* To the workspace: for each row m and l, then the quads that a workgroup owns. */
RFG_DEVICE void write_quad(float *part, int i, int row, bool first, struct partial p)
{
    rfg_store_f32x4(part + 2 * ROWS + i * 4, p.o);
    if (first) {
        rfg_u32x2 ml;
        ml.x = rfg_as_u32(p.m);
        ml.y = rfg_as_u32(p.l);
        rfg_store8(part + row * 2, ml);
    }
}
/* All of n partials, the others `stride` floats apart: AT_ONCE at a time, whose loads are under way together. */
#define AT_ONCE 8
#define PART(n) ((n) ? others + (long long)((n)-1) * stride : first)
struct partials {
    rfg_u32x2 ml[AT_ONCE];
    rfg_f32x4 o[AT_ONCE];
};
RFG_DEVICE void load_partials(struct partials *p, const float *first, const float *others, int stride, int from, int n,
                              int i, int row);
RFG_DEVICE struct partial combine_partials(const float *first, const float *others, int stride, int n, int i, int row)
{
    struct partial p;
    empty_partial(&p);
#pragma unroll 1
    for (int from = 0; from < n; from += AT_ONCE) {
        struct partials in;
        load_partials(&in, first, others, stride, from, n, i, row);
        float top = p.m;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            top = rfg_max(top, rfg_as_float(in.ml[k].x));
        float down = rfg_exp2(p.m - top);
        p.m = top;
        p.l *= down;
        p.o.x *= down;
        p.o.y *= down;
        p.o.z *= down;
        p.o.w *= down;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (from + k < n)
                combine(&p, rfg_as_float(in.ml[k].x), rfg_as_float(in.ml[k].y), in.o[k]);
    }
    return p;
}

#ifdef SEGMENTED
/* The next segment's partial: the same operations wherever it comes from. */
RFG_DEVICE void add_segment(struct partial *p, float m, float l, rfg_f32x4 o)
{
    float top = rfg_max(p->m, m), down = rfg_exp2(p->m - top), up = rfg_exp2(m - top);
    p->m = top;
    p->l = rfg_fma(l, up, p->l * down);
    p->o.x = rfg_fma(o.x, up, p->o.x * down);
    p->o.y = rfg_fma(o.y, up, p->o.y * down);
    p->o.z = rfg_fma(o.z, up, p->o.z * down);
    p->o.w = rfg_fma(o.w, up, p->o.w * down);
}
/* A quad of all n segments, out of the workspace. */
RFG_DEVICE struct partial combine_segments(const float *all, int n, int i, int row)
{
    struct partial p;
    empty_partial(&p);
#pragma unroll 1
    for (int from = 0; from < n; from += AT_ONCE) {
        struct partials in;
        load_partials(&in, all, all + PARTIAL, PARTIAL, from, n, i, row);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (from + k < n)
                add_segment(&p, rfg_as_float(in.ml[k].x), rfg_as_float(in.ml[k].y), in.o[k]);
    }
    return p;
}
/* A quad of the segments so far, which its thread keeps in LDS. */
RFG_DEVICE struct partial running(const float *lds, int i)
{
    struct partial p;
    const float *ml = lds + RUNNING_AT + QUADS * 4 + i * 2;
    p.m = ml[0];
    p.l = ml[1];
    p.o = *(const rfg_f32x4 *)(lds + RUNNING_AT + i * 4);
    return p;
}
RFG_DEVICE void keep_running(float *lds, int i, const struct partial *p)
{
    float *ml = lds + RUNNING_AT + QUADS * 4 + i * 2;
    ml[0] = p->m;
    ml[1] = p->l;
    *(rfg_f32x4 *)(lds + RUNNING_AT + i * 4) = p->o;
}
#endif

#if CLUSTER > 1
/* Sends this workgroup's partials to the workgroups that own them. */
RFG_DEVICE void send_partials(float *lds, rfg_u64 *arrival, int rank)
{
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS) {
        struct partial p = combine_waves(lds, quad);
        rfg_u32x4 v;
        v.x = rfg_as_u32(p.o.x);
        v.y = rfg_as_u32(p.o.y);
        v.z = rfg_as_u32(p.o.z);
        v.w = rfg_as_u32(p.o.w);
        rfg_cluster_send16(lds + SENT_OUTPUTS + (rank * OWNED_QUADS + quad % OWNED_QUADS) * 4, arrival,
                           quad / OWNED_QUADS, v);
        if (quad % OWNED_QUADS == 0 || quad % (DV / 4) == 0) {
            v.x = rfg_as_u32(p.m);
            v.y = rfg_as_u32(p.l);
            rfg_cluster_send16(lds + SENT_ML + (rank * OWNED_ROWS + quad % OWNED_QUADS / (DV / 4)) * 4, arrival,
                               quad / OWNED_QUADS, v);
        }
    }
}
/* A quad that this workgroup owns, of all of the cluster's partials. */
RFG_DEVICE struct partial combine_sent(const float *lds, int i)
{
    struct partial p;
    empty_partial(&p);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++)
        p.m = rfg_max(p.m, lds[SENT_ML + (r * OWNED_ROWS + i / (DV / 4)) * 4]);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
        const float *ml = lds + SENT_ML + (r * OWNED_ROWS + i / (DV / 4)) * 4;
        combine(&p, ml[0], ml[1], *(const rfg_f32x4 *)(lds + SENT_OUTPUTS + (r * OWNED_QUADS + i) * 4));
    }
    return p;
}
#endif

#if !CLUSTER
/* The cross-workgroup reduction of an item whose steps several workgroups shared, `from` to `to` of every streams-th
 * one: each writes its partials to the workspace, and the last to arrive combines them in order and stores the result.
 * begins: this workgroup has the item's first step. */
RFG_DEVICE void reduce_across_groups(const struct mha_args *a, const struct work_item *it, float *lds, int from, int to,
                                     int streams, bool begins)
{
    float *all = (float *)a->workspace, *slot = all + (long long)(rfg_group_x() * 2 + begins) * PARTIAL;
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
        if (is_output(it, quad))
            write_quad(slot, quad, quad / (DV / 4), quad % (DV / 4) == 0, combine_waves(lds, quad));
    int first_group = from * streams + rfg_group_x() % streams;
    if (!last_to_arrive(a->counters + first_group, to - from + 1, (rfg_u32 *)lds + SENT_AT))
        return;
    const float *first = all + (long long)(first_group * 2 + 1) * PARTIAL;
    const float *others = all + (long long)((first_group + streams) * 2) * PARTIAL;
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
        if (is_output(it, quad))
            store_quad(a, it, quad,
                       combine_partials(first, others, 2 * PARTIAL * streams, to - from + 1, quad, quad / (DV / 4)));
}
#endif
