/* SPDX-License-Identifier: MIT
 *
 * The kernel of mla_tile.h's pieces: included last. */

#if SCALAR
#define REREAD_ARGS RFG_REREAD_ARGS
#else
#define REREAD_ARGS RFG_RELOAD_ARGS
#endif

/* This workgroup's steps of an item, through tiles in LDS. `all`: what it combined of its segments, unless slots. */
struct stream {
    struct cursor now, ahead; /* ahead: the next step to be copied */
    int block[COPY_ROWS];     /* of ahead */
    int part, parts;
#if STAGES
    int tile; /* of now */
#else
    struct staged next;
#endif
};

#if !STAGES
/* What was written to LDS is in registers no longer, whether or not more is loaded: no copies of it. */
RFG_DEVICE void forget(struct staged *s)
{
#pragma unroll
    for (int i = 0; i < COPY_ROWS; i++)
#pragma unroll
        for (int k = 0; k < COPY_CHUNKS; k++)
            rfg_forget(s->v[i].v[k]);
}
#endif

RFG_DEVICE void copy_ahead(const struct mla_args *a, const struct work_item *it, struct stream *s, int tile)
{
#if !STAGES
    forget(&s->next);
#endif
    if (s->ahead.step < it->steps) {
#if RAW
        copy_step(a, it, rfg_lds + RAW_AT / 4 + tile * KEYS * RAW_ROW, s->ahead.step, s->block);
#elif STAGES
        copy_step(a, it, rfg_lds + tile * KEYS * ROW_CHUNKS, s->ahead.step, s->block);
#else
        load_step(a, it, &s->next, s->ahead.step, s->block);
#endif
        advance(&s->ahead, it, s->parts);
        find_blocks(a, it, s->ahead.step, s->block);
    }
#if STAGES
    rfg_async_commit();
#else
    (void)tile;
#endif
}

RFG_DEVICE void begin_stream(const struct mla_args *a, const struct work_item *it, struct stream *s)
{
    s->now.step = s->part * it->each;
    s->now.left = it->each;
    s->ahead = s->now;
    find_blocks(a, it, s->ahead.step, s->block);
#if STAGES
    s->tile = 0;
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        copy_ahead(a, it, s, i);
#else
    copy_ahead(a, it, s, 0);
#endif
}

/* Waits until the tile of the step `now` is there, and starts copying a later one. */
RFG_DEVICE const rfg_u32x4 *next_tile(const struct mla_args *a, const struct work_item *it, struct stream *s)
{
#if STAGES
    const rfg_u32x4 *tile = rfg_lds + (RAW ? RAW_AT / 4 + s->tile * KEYS * RAW_ROW : s->tile * KEYS * ROW_CHUNKS);
    rfg_async_wait(STAGES - 2);
    rfg_barrier(); /* all copies are there, and the tile before this one isn't read any more */
    copy_ahead(a, it, s, s->tile == 0 ? STAGES - 1 : s->tile - 1);
    s->tile = s->tile == STAGES - 1 ? 0 : s->tile + 1;
#if RAW
    decode_step(tile, rfg_lds);
    rfg_barrier_lds();
    return rfg_lds;
#else
    return tile;
#endif
#else
    rfg_barrier_lds();
    write_step(&s->next, rfg_lds);
    copy_ahead(a, it, s, 0);
    rfg_barrier_lds();
    return rfg_lds;
#endif
}

RFG_DEVICE void attend_segment(const struct mla_args *a, const struct work_item *it, const struct queries *q,
                               struct stream *s, float *lds, struct softmax *st, struct sums *acc)
{
    bool more = true;
    begin_rows(st);
    begin_sums(acc);
#pragma unroll 1
    while (more && s->now.step < it->steps) {
        struct mla_args for_copies, for_softmax;
        REREAD_ARGS(for_copies, a);
        const rfg_u32x4 *tile = next_tile(&for_copies, it, s);
        multiply_keys(it, q, tile, lds);
        rfg_barrier_lds();
        REREAD_ARGS(for_softmax, a);
        softmax_step(&for_softmax, it, st, lds, s->now.step * KEYS);
        rfg_barrier_lds();
        add_values(it, acc, tile, lds);
        more = s->now.left > 1;
        advance(&s->now, it, s->parts);
    }
    rfg_barrier_lds();
}

/* Where an item's segments are in the workspace. */
RFG_DEVICE float *slots_of(const struct mla_args *args, int item)
{
    struct mla_args a;
    REREAD_ARGS(a, args);
    return (float *)a.workspace + (long long)item * MLA_SEGMENTS * MLA_SLOT_FLOATS(THREADS, ACC, ROWS);
}

/* A work item, or this workgroup's part of it. Arguments are read where they are used, rather than being in AMD's scalar
 * registers all the time. */
RFG_DEVICE void run_item(const struct mla_args *args, int item, int tiles, float *lds, bool last_item)
{
    struct mla_args a;
    REREAD_ARGS(a, args);
    struct work_item it;
    struct queries q;
    struct stream s;
    struct softmax st, all_rows;
    struct sums acc, all;
    s.part = rfg_group_y();
    s.parts = rfg_groups_y();
    open_item(&a, &it, item, tiles);
    divide_item(&it);
    if (s.part >= it.segments)
        return;
    begin_stream(&a, &it, &s);
    load_queries(&a, &it, lds, &q);
    begin_rows(&all_rows);
    begin_sums(&all);
    bool shared = s.parts > 1 && it.segments > 1;
#pragma unroll 1
    for (int n = s.part; n < it.segments; n += s.parts) {
        attend_segment(args, &it, &q, &s, lds, &st, &acc);
        if (shared)
            write_segment(slots_of(args, item) + (long long)n * MLA_SLOT_FLOATS(THREADS, ACC, ROWS), &st, &acc);
        else
            close_segment(lds, &all_rows, &all, &st, &acc);
    }
    if (last_item)
        rfg_start_next();
    if (shared) {
        int n = it.segments < s.parts ? it.segments : s.parts;
        REREAD_ARGS(a, args);
        if (!rfg_last_to_arrive(a.counters + item, n, (rfg_u32 *)lds + FACTORS_AT))
            return;
        combine_segments(lds, slots_of(args, item), it.segments, &all_rows, &all);
    }
    REREAD_ARGS(a, args);
    finish_rows(&a, &it, lds, &all_rows);
    store_out(&a, &it, &all, lds);
}

MLA_KERNEL MLA_NAME(struct mla_args args)
{
    float *lds = (float *)rfg_lds;
    int tiles = (args.sq * args.hq + ROWS - 1) / ROWS, items = args.batch * tiles, by = rfg_groups_x(THREADS);
    rfg_await_previous();
#pragma unroll 1
    for (int item = rfg_group_x(); item < items; item += by) {
        run_item(&args, item, tiles, lds, item + by >= items);
        rfg_barrier();
    }
}
