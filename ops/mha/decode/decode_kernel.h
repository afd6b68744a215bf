/* SPDX-License-Identifier: MIT
 *
 * Attention of few queries (mha_decode_stream_mma): keys and values go straight from global memory to the registers of
 * matrix instructions. Included last by decode_amd.hip and decode_nvidia.hip.
 *
 * A work item is a sequence, a kv head and up to ROWS rows, a row being a query and a q head of that kv head's group.
 * Its keys are processed in steps of 16 tokens. Each wave takes every n-th step with an online softmax of its own, so
 * that waves wait for each other only at the end, when the workgroup combines their partials in LDS. Each wave has the
 * loads of UNROLL steps under way, and issues the next step's as soon as registers are free. RING (NVIDIA, UNROLL above
 * 2): so many steps are copied to LDS ahead, where each lane reads what it copied, and no other.
 *
 * CLUSTER > 0: groups_y clusters of CLUSTER workgroups share an item's steps. The workgroups of a cluster (NVIDIA) send
 * their partials to the LDS of the workgroup that owns that part of the output; clusters write partials to the
 * workspace, and the last one to arrive combines them in order. CLUSTER 0: the steps of all items, one after the other,
 * are divided evenly among the grid's workgroups, whatever the sequences' lengths; workgroups that share an item
 * combine their partials in the workspace. Which they are follows from the lengths alone, so results are bitwise
 * reproducible.
 *
 * SEGMENTED (defined; CLUSTER 1): a sequence's steps are divided into segments by its length alone, and the segments'
 * partials are added one after another: by the workgroup that goes through all of them, or if groups_y workgroups share
 * them, out of the workspace by the last one to arrive. The bits are the same, whatever groups_y.
 *
 * Macros: DTYPE (q, out: fp16 or bf16), KV_DTYPE or KV_CODES, TOKEN_SCALES (rfg_cache.h), D, DV (and D_REAL, DV_REAL: mha_device.h), SQ, GROUP (q heads of a kv head), D_SPLIT (decode_pieces.h; or not there), TILES (of RFG_FRAG_X_ROWS
 * rows, of a work item), WAVES, UNROLL, CLUSTER, GROUPS (workgroups a CU), PAGED (0: no table, 1: pages of whole steps,
 * 2: shorter ones), MASK (causal with SQ > 1, or a window), CAP, ALIBI, LDS_BYTES, KV_ALIGN (rows are aligned to 4 bytes, in place of 16; TOKEN_SCALES). LDS and
 * workspace: decode_layout.h. */
#if RING
/* This wave's i-th place for a step. */
RFG_DEVICE struct place *place_of(float *lds, int i)
{
    return (struct place *)lds + rfg_wave() * RING + i;
}
/* The keys, scales and values of a step, if it is one, to a place: copies of their own group. */
RFG_DEVICE void copy_step(const struct mha_args *a, const struct work_item *it, struct place *to, int block, int step,
                          int end)
{
    load_keys(a, it, to, block, step, step < end);
    load_scales(a, it, to, block, step, step < end);
    load_values(a, it, to, block, step, step < end);
    rfg_async_commit();
}
RFG_DEVICE void attend_ring(const struct mha_args *a, struct work_item *it, float *lds, const struct queries *q,
                            struct sums *acc, int first, int by, int end, int next_block)
{
    int at = 0;
#pragma unroll 1
    for (int step = first; step < end; step += by) {
        int ahead = step + (RING - 1) * by, before = at ? at - 1 : RING - 1;
        rfg_async_wait(RING - 2);
        copy_step(a, it, place_of(lds, before), next_block, ahead, end);
        if (ahead + by < end)
            next_block = block_of(a, it, ahead + by);
        one_step(a, it, q, place_of(lds, at), acc, step, end, end, 0, 0);
        at = at + 1 == RING ? 0 : at + 1;
    }
    rfg_async_wait_all();
}
#endif

/* Of no keys. */
RFG_DEVICE void clear_sums(struct sums *acc)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int j = 0; j < RFG_FRAG_WX_COLS; j++) {
            acc->m[t][j] = LOWEST;
            acc->l[t][j] = 0.0f;
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < RFG_PV_O; i++)
                acc->o[t][b][i] = 0.0f;
    }
#if TOKEN_SCALES
    acc->v_top = acc->v_down = 0.0f;
#endif
}

/* This wave's partials of the item's steps first, first + by, ... below end. */
RFG_DEVICE void attend(const struct mha_args *a, struct work_item *it, float *lds, struct sums *acc, int first, int by,
                       int end)
{
#define LOADED (RING ? RING - 1 : UNROLL) /* steps */
#if !RING
    struct stage ring[UNROLL];
#endif
    int block[LOADED], next_block[LOADED];
    struct query_pieces pieces;
#if PADDED && PADDED_LOADS && !RING
    const struct stage zeroes = {};
#pragma unroll
    for (int i = 0; i < UNROLL; i++)
        ring[i] = zeroes;
#endif
    begin_queries(a, it, &pieces);
#if ROW_OFFSETS
    find_offsets(a, &it->at, MHA_DECODE_STEP);
#endif
#pragma unroll
    for (int i = 0; i < LOADED; i++) {
        /* Without a look at the length, which is still on its way. */
        int step = first + i * by, last = (a->skv - 1) / MHA_DECODE_STEP;
        block[i] = PAGED == 1 && a->skv < 1 ? 0 : block_of(a, it, step < last ? step : last);
    }
    struct queries q[TILES];
    queries_before_keys(a, it, q);
#if RING
#pragma unroll
    for (int i = 0; i < LOADED; i++)
        copy_step(a, it, place_of(lds, i), block[i], first + i * by, end);
#else
#pragma unroll
    for (int i = 0; i < UNROLL && !LOADS_LATE; i++) {
        load_keys(a, it, &ring[i], block[i], first + i * by, first + i * by < end);
        load_scales(a, it, &ring[i], block[i], first + i * by, first + i * by < end);
        load_values(a, it, &ring[i], block[i], first + i * by, first + i * by < end);
    }
#endif
#pragma unroll
    for (int i = 0; i < (RING ? 1 : UNROLL); i++)
        if (first + (LOADED + i) * by < end)
            next_block[i] = block_of(a, it, first + (LOADED + i) * by);

    queries_after_keys(lds, &pieces);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        read_queries(it, lds, &q[t], it->row0 + t * RFG_FRAG_X_ROWS);
        convert_queries(it, &q[t]);
    }
    clear_sums(acc);
#if RING
    attend_ring(a, it, lds, q, acc, first, by, end, next_block[0]);
#else
#pragma unroll 1
    for (int step = first; step < end; step += UNROLL * by) {
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int now = step + i * by, next = now + UNROLL * by;
            if (now < end) {
                one_step(a, it, q, &ring[i], acc, now, next, end, block[i], next_block[i]);
                block[i] = next_block[i];
                if (next + UNROLL * by < end)
                    next_block[i] = block_of(a, it, next + UNROLL * by);
            }
        }
    }
#endif
#if TOKEN_SCALES
    restore_outputs(acc);
#endif
}

RFG_DEVICE void open_item(const struct mha_args *a, struct work_item *it, int b, int inner)
{
#if D_SPLIT > 1
    it->turn = 0;
#endif
    it->b = b;
    it->head = inner / ROW_TILES;
    it->row0 = inner % ROW_TILES * ROWS;
    it->block = b;
    it->table = a->block_table + b * a->table_stride;
    it->k = (const char *)a->k.data + row_bytes(it->head * a->k.head) +
            (ROW_OFFSETS ? 0 : part_of() * BYTES_OF(D_PART) + rfg_frag_chunk(0) * BYTES_OF(8 * KEY_STEPS));
    it->v = (const char *)a->v.data + row_bytes(it->head * a->v.head) +
            (ROW_OFFSETS ? 0 : part_of() * BYTES_OF(DV_PART) + rfg_pv_lane() * BYTES_OF(PIECE));
#if WHOLE_STEPS
    it->k += (rfg_u64)(rfg_u32)rfg_frag_row(0) * ((rfg_u32)a->k.token * KV_BYTES);
    it->v += (rfg_u64)(rfg_u32)rfg_pv_token(0) * ((rfg_u32)a->v.token * KV_BYTES);
    it->k = rfg_opaque_pointer(it->k);
    it->v = rfg_opaque_pointer(it->v);
    it->table = (const int *)rfg_opaque_pointer((const char *)it->table);
#endif
#if TOKEN_SCALES
    find_scales(a, it);
    it->scale = a->scale * (SCALE_FMA ? LOG2_E : 1.0f);
#else
    it->scale = a->scale * (a->k_scale ? rfg_as_float(rfg_load4(a->k_scale + it->head * a->k_scale_stride)) : 1.0f) *
                (SCALE_FMA ? LOG2_E : 1.0f);
#endif
}

/* The first step that the window reaches. */
RFG_DEVICE int first_step(const struct mha_args *a, int len)
{
    int before = MASK && len - SQ > a->window_left ? len - SQ - a->window_left : 0;
    return before / MHA_DECODE_STEP;
}
RFG_DEVICE int length_of(const struct mha_args *a, int b) /* b is the same in all lanes, or each lane's own */
{
    return a->kv_lens ? within((int)rfg_load4_uniform(a->kv_lens + b), 0, a->skv) : a->skv;
}

#ifdef SEGMENTED

DECODE_KERNEL mha_decode(struct mha_args a)
{
    float *lds = (float *)rfg_lds;
    int part = rfg_group_y(), parts = rfg_groups_y(), inner = a.hkv * ROW_TILES, b = rfg_group_x() / inner;
    struct work_item it;
    rfg_await_previous();
    open_item(&a, &it, b, rfg_group_x() - b * inner);
    it.len = length_of(&a, b);
    int skip = first_step(&a, it.len), last = (it.len + MHA_DECODE_STEP - 1) / MHA_DECODE_STEP;
    int steps = last - skip, each = MHA_DECODE_SEGMENT_STEPS(steps), segments = steps > 0 ? (steps - 1) / each + 1 : 0;
    int end = rfg_share_begin(segments, part + 1, parts);
    struct partial p;
    if (parts == 1) {
        empty_partial(&p);
        for (int i = rfg_thread(); i < QUADS; i += THREADS)
            keep_running(lds, i, &p);
    }
#pragma unroll 1
    for (int s = rfg_share_begin(segments, part, parts); s < end; s++) {
        struct mha_args now = reread_args(&a);
        struct sums acc;
        int first = skip + s * each, upto = first + each < last ? first + each : last;
        attend(&now, &it, lds, &acc, first + rfg_wave() / D_SPLIT, WAVES / D_SPLIT, upto);
        write_waves(lds, &acc);
        now = reread_args(&a);
        float *to = (float *)now.workspace + ((long long)rfg_group_x() * MHA_DECODE_SEGMENTS + s) * PARTIAL;
#pragma unroll 1
        for (int i = rfg_thread(); i < QUADS; i += THREADS) {
            struct partial its = combine_waves(lds, i);
            if (parts == 1) {
                p = running(lds, i);
                add_segment(&p, its.m, its.l, its.o);
                keep_running(lds, i, &p);
            } else if (is_output(&it, i)) {
                write_quad(to, i, i / (DV / 4), i % (DV / 4) == 0, its);
            }
        }
        rfg_barrier_lds();
    }
    rfg_start_next();
    if (parts > 1 && !last_to_arrive(a.counters + rfg_group_x(), parts, (rfg_u32 *)lds))
        return;
    const float *all = (const float *)a.workspace + (long long)rfg_group_x() * (MHA_DECODE_SEGMENTS * PARTIAL);
#pragma unroll 1
    for (int i = rfg_thread(); i < QUADS; i += THREADS)
        if (is_output(&it, i)) {
            p = parts == 1 ? running(lds, i) : combine_segments(all, segments, i, i / (DV / 4));
            store_quad(&a, &it, i, p);
        }
}

#elif CLUSTER

DECODE_KERNEL mha_decode(struct mha_args a)
{
    float *lds = (float *)rfg_lds;
    int rank = CLUSTER == 1 ? 0 : rfg_group_x() % CLUSTER, item = rfg_group_x() / CLUSTER;
    int part = rfg_group_y(), parts = rfg_groups_y(), inner = a.hkv * ROW_TILES;
    struct work_item it;
    struct sums acc;
#if CLUSTER > 1
    rfg_u64 *arrival = (rfg_u64 *)(lds + SENT_AT);
    if (rfg_thread() == 0)
        rfg_arrival_init(arrival, 1);
    rfg_cluster_arrive_first();
#endif
    rfg_await_previous();
    int b = 0;
    if (a.batch > 1) /* divisions are slow */
        b = item / inner;
    open_item(&a, &it, b, item - b * inner);
    it.len = length_of(&a, it.b);
    attend(&a, &it, lds, &acc,
           first_step(&a, it.len) + (part * CLUSTER + rank) * (WAVES / D_SPLIT) + rfg_wave() / D_SPLIT,
           parts * CLUSTER * (WAVES / D_SPLIT), (it.len + MHA_DECODE_STEP - 1) / MHA_DECODE_STEP);
    rfg_start_next(); /* not before: the next kernel's workgroups could only wait, and would take the place of this
                         one's */
    write_waves(lds, &acc);
#if CLUSTER > 1
    if (rfg_thread() == 0) /* the arrival's phase cannot complete before this, whatever has arrived */
        rfg_arrive_expect(arrival, CLUSTER * (OWNED_ROWS + OWNED_QUADS) * 16);
    send_partials(lds, arrival, rank);
    rfg_arrival_wait(arrival, 0);
#define OWNED(i) combine_sent(lds, i)
#else
#define OWNED(i) combine_waves(lds, i)
#endif
    if (parts == 1) {
#pragma unroll 1
        for (int i = rfg_thread(); i < OWNED_QUADS; i += THREADS)
            store_quad(&a, &it, rank * OWNED_QUADS + i, OWNED(i));
        return;
    }
    float *all = (float *)a.workspace + (long long)rfg_group_x() * parts * PARTIAL;
#pragma unroll 1
    for (int i = rfg_thread(); i < OWNED_QUADS; i += THREADS) {
        int quad = rank * OWNED_QUADS + i;
        if (is_output(&it, quad))
            write_quad(all + (long long)part * PARTIAL, i, quad / (DV / 4), i == 0 || quad % (DV / 4) == 0, OWNED(i));
    }
    if (last_to_arrive(a.counters + rfg_group_x(), parts, (rfg_u32 *)lds)) {
#pragma unroll 1
        for (int i = rfg_thread(); i < OWNED_QUADS; i += THREADS) {
            int quad = rank * OWNED_QUADS + i;
            if (is_output(&it, quad))
                store_quad(&a, &it, quad, combine_partials(all, all + PARTIAL, PARTIAL, parts, i, quad / (DV / 4)));
        }
    }
}

#else /* the steps of all work items, one after the other, divided among the workgroups */

/* Steps of a sequence: at least one, so that a sequence of no keys has its zeros stored. */
RFG_DEVICE int steps_of(const struct mha_args *a, int b)
{
    int len = length_of(a, b), n = (len + MHA_DECODE_STEP - 1) / MHA_DECODE_STEP - first_step(a, len);
    return n > 0 ? n : 1;
}

/* The workgroup of `parts` that has step x of n: rfg_share_begin()'s inverse. */
RFG_DEVICE int share_of(int n, int x, int parts)
{
    rfg_u32 each = (rfg_u32)n / (rfg_u32)parts, more = (rfg_u32)n - each * (rfg_u32)parts, head = more * (each + 1);
    return (int)((rfg_u32)x < head ? (rfg_u32)x / (each + 1) : more + ((rfg_u32)x - head) / each);
}

/* With enough workgroups, the work items of a sequence are processed side by side, each in a stream of workgroups of
 * its own: a token's heads, which are neighbours in memory, are then read at about the same time. */
RFG_DEVICE int streams_of(const struct mha_args *a)
{
    int inner = a->hkv * ROW_TILES;
    return rfg_groups_x(THREADS) >= 8 * inner ? inner : 1;
}

DECODE_KERNEL mha_decode(struct mha_args a)
{
    float *lds = (float *)rfg_lds;
    int inner = a.hkv * ROW_TILES, groups = rfg_groups_x(THREADS), streams = streams_of(&a);
    int stream = rfg_group_x() % streams, group = rfg_group_x() / streams;
    groups /= streams;
    inner /= streams;
    rfg_await_previous();
    if (group >= groups)
        return;
    /* Steps of every sequence, and sums of 16 of them. */
    int *steps = (int *)(lds + STEPS_AT), *sums = steps + MHA_DECODE_MAX_BATCH;
    for (int i = rfg_thread(); i < (a.batch + 15) / 16 * 16; i += THREADS)
        steps[i] = i < a.batch ? steps_of(&a, i) : 0;
    rfg_barrier_lds();
    for (int i = rfg_thread(); i < (a.batch + 15) / 16; i += THREADS) {
        int sum = 0;
#pragma unroll
        for (int k = 0; k < 16; k++)
            sum += steps[i * 16 + k];
        sums[i] = sum;
    }
    rfg_barrier_lds();
    int total = 0;
    for (int i = 0; i < (a.batch + 15) / 16; i++)
        total += sums[i];
    total = rfg_uniform_int(total) * inner;
    int x = rfg_share_begin(total, group, groups), end = rfg_share_begin(total, group + 1, groups);
    if (x == end)
        return;

    /* The sequence of step x. */
    int b = 0, before = 0;
    while (before + sums[b / 16] * inner <= x) {
        before += sums[b / 16] * inner;
        b += 16;
    }
    while (before + steps[b] * inner <= x)
        before += steps[b++] * inner;
    b = rfg_uniform_int(b);
    before = rfg_uniform_int(before);
    int n = rfg_uniform_int(steps[b]);
#pragma unroll 1
    while (x < end) {
        struct work_item it;
        struct sums acc;
        int which = (x - before) / n, from = x - before - which * n;
        int to = from + (end - x) < n ? from + (end - x) : n;
        struct mha_args now = reread_args(&a);
        if (RFG_REREADS_ARGS) { /* rather than keep them in registers all the time */
            streams = streams_of(&now);
            stream = rfg_group_x() % streams;
        }
        open_item(&now, &it, b, which + stream);
        it.len = length_of(&now, b);
        int skip = first_step(&now, it.len), last = (it.len + MHA_DECODE_STEP - 1) / MHA_DECODE_STEP;
        attend(&now, &it, lds, &acc, skip + from + rfg_wave() / D_SPLIT, WAVES / D_SPLIT,
               skip + to < last ? skip + to : last);
        if (x + to - from >= end)
            rfg_start_next();
        write_waves(lds, &acc);
        now = reread_args(&a);
        if (RFG_REREADS_ARGS)
            streams = streams_of(&now);
        if (from == 0 && to == n) {
#pragma unroll 1
            for (int quad = rfg_thread(); quad < QUADS; quad += THREADS)
                store_quad(&now, &it, quad, combine_waves(lds, quad));
        } else {
            int begin = before + which * n;
            reduce_across_groups(&now, &it, lds, share_of(total, begin, groups), share_of(total, begin + n - 1, groups),
                                 streams, from == 0);
        }
        rfg_barrier_lds();
        x += to - from;
        if (x >= before + n * inner) {
            before += n * inner;
            b++;
            n = rfg_uniform_int(b < a.batch ? steps[b] : 1);
        }
    }
}
#endif
