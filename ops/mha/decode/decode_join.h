/* SPDX-License-Identifier: MIT
 *
 * The end of decode.hip: its waves' sums are joined in LDS, its workgroups' in the LDS of a cluster (CLUSTER > 1) or in
 * memory, and what has been joined of a row becomes its output.
 *
 * A quad is four neighbouring elements of a row, and what a thread joins at once; a quad's sums are relative to the
 * row's largest score m, and come with the row's sum of weights l. Places in LDS and in the workspace, and the structs
 * of a unit and of its sums, are decode.hip's, which includes this behind them. */

/* Neighbouring elements of a row together. */
#define RUN (PIECE < 4 ? 2 : 4)
#if RUN == 2
typedef rfg_f32x2 run;
#else
typedef rfg_f32x4 run;
#endif
#define RUN_OF(acc, t, i, e, k) (acc)->o[t][((e) + (k)) % BLOCKS][((e) + (k)) / BLOCKS * (O_FLOATS / V_ROWS) + (i)]

/* The sums of a wave to LDS, the place of wave `at`; there, if not `first`, those of another wave are joined with. */
RFG_DEVICE void leave_wave(float *lds, struct sums *acc, int at, bool first)
{
    float *sums = lds + SUMS_AT + at * WAVE_SUMS;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float down[LANE_QUERIES], up[LANE_QUERIES];
#pragma unroll
        for (int j = 0; j < LANE_QUERIES; j++) {
            float l = over_tokens(acc->l[t][j], false), m = acc->m[t][j];
            float *ml = lds + ML_AT + (at * ROWS + t * Q_TILE + o_query(j)) * 2;
            if (!first) {
                m = rfg_max(m, ml[0]);
                down[j] = rfg_exp2(acc->m[t][j] - m);
                up[j] = rfg_exp2(ml[0] - m);
                l = l * down[j] + ml[1] * up[j];
            }
            if (rfg_lane() < (RFG_NVIDIA ? 4 : 16)) {
                ml[0] = m;
                ml[1] = l;
            }
        }
#pragma unroll
        for (int i = 0; i < O_FLOATS / V_ROWS; i++)
#pragma unroll
            for (int e = 0; e < V_ELEMENTS; e += RUN) {
                if (REAL_ROWS < ROWS && t * Q_TILE + o_query(i) >= REAL_ROWS)
                    continue;
                run *to = (run *)(sums + ROW_AT(t * Q_TILE + o_query(i)) + o_element(e, i)), r;
                r.x = RUN_OF(acc, t, i, e, 0);
                r.y = RUN_OF(acc, t, i, e, 1);
#if RUN > 2
                r.z = RUN_OF(acc, t, i, e, 2);
                r.w = RUN_OF(acc, t, i, e, 3);
#endif
                if (!first) {
                    run other = *to;
                    float d = down[i % LANE_QUERIES], o = up[i % LANE_QUERIES];
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
/* All waves' sums, as those of LEFT waves. */
RFG_DEVICE void leave(float *lds, struct sums *acc)
{
    int wave = rfg_wave();
#if RFG_NVIDIA
    leave_wave(lds, acc, wave, true);
#else
    if (wave >= LEFT)
        leave_wave(lds, acc, wave - LEFT, true);
    rfg_barrier_lds();
    if (wave < LEFT)
        leave_wave(lds, acc, wave, false);
#endif
    rfg_barrier_lds();
}

struct joined {
    float m, l;
    rfg_f32x4 o;
};

RFG_DEVICE void join_nothing(struct joined *j)
{
    j->m = NOTHING;
    j->l = j->o.x = j->o.y = j->o.z = j->o.w = 0.0f;
}
/* m is the largest already. */
RFG_DEVICE void join(struct joined *j, float m, float l, rfg_f32x4 o)
{
    float its = rfg_exp2(m - j->m);
    j->l += l * its;
    j->o.x += o.x * its;
    j->o.y += o.y * its;
    j->o.z += o.z * its;
    j->o.w += o.w * its;
}

RFG_DEVICE struct joined join_waves(const float *lds, int quad)
{
    int row = quad / (DV / 4), at = quad % (DV / 4) * 4;
    struct joined j;
    join_nothing(&j);
#pragma unroll
    for (int w = 0; w < LEFT; w++)
        j.m = rfg_max(j.m, lds[ML_AT + (w * ROWS + row) * 2]);
#pragma unroll
    for (int w = 0; w < LEFT; w++) {
        const float *ml = lds + ML_AT + (w * ROWS + row) * 2;
        join(&j, ml[0], ml[1], *(const rfg_f32x4 *)(lds + SUMS_AT + w * WAVE_SUMS + ROW_AT(row) + at));
    }
    return j;
}

/* Is the quad of a row that there is? */
RFG_DEVICE bool is_asked(const struct unit *u, int quad)
{
    return GROUP * SQ % ROWS == 0 || u->row0 + quad / (DV / 4) < GROUP * SQ;
}

/* Four elements of a row's output. */
RFG_DEVICE void store_quad(const struct mha_args *a, const struct unit *u, int quad, struct joined j)
{
    int row = u->row0 + quad / (DV / 4), at = quad % (DV / 4) * 4;
    if (!is_asked(u, quad))
        return;
    int query = row / GROUP, head = u->head * GROUP + row % GROUP;
    if (a->sinks) {
        float sink = rfg_as_float(rfg_load4(a->sinks + head)) * LOG2_E, top = rfg_max(j.m, sink);
        float mine = rfg_exp2(j.m - top);
        j.o.x *= mine;
        j.o.y *= mine;
        j.o.z *= mine;
        j.o.w *= mine;
        j.l = j.l * mine + rfg_exp2(sink - top);
        j.m = top;
    }
    float scale = a->v_scale ? rfg_as_float(rfg_load4(a->v_scale + u->head * a->v_scale_stride)) : 1.0f;
    scale = j.l > 0.0f || j.l != j.l ? scale / j.l : 0.0f;
    rfg_f32x4 o;
    o.x = j.o.x * scale;
    o.y = j.o.y * scale;
    o.z = j.o.z * scale;
    o.w = j.o.w * scale;
    rfg_store_float4(a->out.data, u->b * a->out.batch + query * a->out.token + head * a->out.head + at, o, DTYPE);
    if (a->lse && at == 0)
        rfg_store4(a->lse + u->b * a->lse_batch + head * a->lse_head + query * a->lse_token,
                   rfg_as_u32(j.l > 0.0f   ? (j.m + log2_of(j.l)) * LN_2
                              : j.l != j.l ? j.l
                                           : MINUS_INFINITY));
}

/* Partial sums in memory: for each row m and l, then the quads that a workgroup owns. */
RFG_DEVICE void leave_quad(float *part, int i, int row, bool first, struct joined j)
{
    rfg_store_f32x4(part + 2 * ROWS + i * 4, j.o);
    if (first) {
        rfg_u32x2 ml;
        ml.x = rfg_as_u32(j.m);
        ml.y = rfg_as_u32(j.l);
        rfg_store8(part + row * 2, ml);
    }
}
/* Of n partial sums, the others `stride` floats apart: some at a time, all of whose loads are under way at once. */
#define AT_ONCE 8
#define PART(n) ((n) ? others + (long long)((n)-1) * stride : first)
RFG_DEVICE struct joined join_parts(const float *first, const float *others, int stride, int n, int i, int row)
{
    struct joined j;
    join_nothing(&j);
#pragma unroll 1
    for (int from = 0; from < n; from += AT_ONCE) {
        rfg_u32x2 ml[AT_ONCE];
        rfg_f32x4 o[AT_ONCE];
#if RFG_AMD
        /* Eight lanes have the same row, and read eight parts' of it. */
        int mine = from + rfg_lane() % AT_ONCE;
        rfg_u32x2 its = rfg_load8(PART(mine < n ? mine : n - 1) + row * 2);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            o[k] = (rfg_f32x4){ 0, 0, 0, 0 };
            if (from + k < n)
                o[k] = rfg_load_f32x4(PART(from + k) + 2 * ROWS + i * 4);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int lane = rfg_lane() / AT_ONCE * AT_ONCE + k;
            ml[k].x = (rfg_u32)__builtin_amdgcn_ds_bpermute(lane * 4, (int)its.x);
            ml[k].y = (rfg_u32)__builtin_amdgcn_ds_bpermute(lane * 4, (int)its.y);
        }
#else
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int part = from + k < n ? from + k : n - 1;
            const float *p = PART(part);
            o[k] = rfg_load_f32x4(p + 2 * ROWS + i * 4);
            ml[k] = rfg_load8(p + row * 2);
        }
#endif
        float top = j.m;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            top = rfg_max(top, rfg_as_float(ml[k].x));
        float down = rfg_exp2(j.m - top);
        j.m = top;
        j.l *= down;
        j.o.x *= down;
        j.o.y *= down;
        j.o.z *= down;
        j.o.w *= down;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (from + k < n)
                join(&j, rfg_as_float(ml[k].x), rfg_as_float(ml[k].y), o[k]);
    }
    return j;
}

/* rfg_last_to_arrive(), but one thread answers for all that the workgroup wrote, which is quicker on NVIDIA. */
RFG_DEVICE bool last_to_arrive(rfg_u32 *counter, int n, rfg_u32 *flag)
{
#if RFG_NVIDIA
    rfg_barrier();
    if (rfg_thread() == 0) {
        rfg_u32 before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        if (before == (rfg_u32)n - 1u)
            rfg_atomic_store(counter, 0u);
        *flag = before;
    }
    rfg_barrier();
    return *flag == (rfg_u32)n - 1u;
#else
    return rfg_last_to_arrive(counter, n, flag);
#endif
}

#if CLUSTER > 1
/* This workgroup's sums to their owners, and what it owns of all of them. */
RFG_DEVICE void send_sums(float *lds, rfg_u64 *arrival, int rank)
{
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS) {
        struct joined j = join_waves(lds, quad);
        rfg_u32x4 v;
        v.x = rfg_as_u32(j.o.x);
        v.y = rfg_as_u32(j.o.y);
        v.z = rfg_as_u32(j.o.z);
        v.w = rfg_as_u32(j.o.w);
        rfg_cluster_send16(lds + SENT_SUM + (rank * MINE + quad % MINE) * 4, arrival, quad / MINE, v);
        if (quad % MINE == 0 || quad % (DV / 4) == 0) {
            v.x = rfg_as_u32(j.m);
            v.y = rfg_as_u32(j.l);
            rfg_cluster_send16(lds + SENT_ML + (rank * OWN_ROWS + quad % MINE / (DV / 4)) * 4, arrival, quad / MINE, v);
        }
    }
}
RFG_DEVICE struct joined join_sent(const float *lds, int i)
{
    struct joined j;
    join_nothing(&j);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++)
        j.m = rfg_max(j.m, lds[SENT_ML + (r * OWN_ROWS + i / (DV / 4)) * 4]);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
        const float *ml = lds + SENT_ML + (r * OWN_ROWS + i / (DV / 4)) * 4;
        join(&j, ml[0], ml[1], *(const rfg_f32x4 *)(lds + SENT_SUM + (r * MINE + i) * 4));
    }
    return j;
}
#endif

#if !CLUSTER
/* What this workgroup has of a unit, to the workspace; the last one to arrive of those that have parts of it, every
 * streams-th one, joins and stores them all. from, to: the first and the last of them, in their stream. */
RFG_DEVICE void meet(const struct mha_args *a, const struct unit *u, float *lds, int from, int to, int streams,
                     bool begins)
{
    float *all = (float *)a->workspace, *slot = all + (long long)(rfg_group_x() * 2 + begins) * PARTIAL;
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
        if (is_asked(u, quad))
            leave_quad(slot, quad, quad / (DV / 4), quad % (DV / 4) == 0, join_waves(lds, quad));
    int first_group = from * streams + rfg_group_x() % streams;
    if (!last_to_arrive(a->counters + first_group, to - from + 1, (rfg_u32 *)lds + SENT_AT))
        return;
    const float *first = all + (long long)(first_group * 2 + 1) * PARTIAL;
    const float *others = all + (long long)((first_group + streams) * 2) * PARTIAL;
#pragma unroll 1
    for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
        if (is_asked(u, quad))
            store_quad(a, u, quad,
                       join_parts(first, others, 2 * PARTIAL * streams, to - from + 1, quad, quad / (DV / 4)));
}
#endif
