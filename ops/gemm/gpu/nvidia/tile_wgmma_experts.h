/* SPDX-License-Identifier: MIT
 *
 * gemm_tile_wgmma's grouped products: whose tile a workgroup has, and how it is copied.
 *
 * Tiles are numbered expert by expert; a list in LDS says where each expert's begin, so that a wave finds its tile
 * without asking memory. W comes by TMA from a matrix of all experts' rows: of a tile that reaches beyond an expert's N
 * the next one's rows are multiplied, too, and not stored. X's rows, which may be anywhere, are copied in chunks of 16
 * bytes by all waves that copy, as many as there are: the others are left as they were, for they only reach rows
 * of sums that nobody stores. A tile of at most 64 rows is multiplied by one warpgroup alone. */

#define COPIERS  TILE_COPIERS(W4)
#define X_PASS   (COPIERS / (TILE_WIDTH / 16)) /* rows that they copy at once */
#define X_COPIES (TILE_M / X_PASS)
#define FULL_ARRIVALS                                                                                                  \
    ((W4 ? COPIERS / RFG_WAVE : 1) + COPIERS + (BLOCKS ? COPIERS / RFG_WAVE : 0)) /* of a stage: W, X, scales */
#define BAND (TILE_BAND_ROWS / TILE_M)
static_assert(X_PASS % 8 == 0, "a thread's rows differ in their swizzle");
static_assert(CLUSTER <= 2, "there are clusters of one or of two");
static_assert(!BLOCKS || COPIERS == TILE_M, "not all scales of X are copied");

/* Of each expert, and behind the last one, what its first tile's number is, of rows of tiles, and its first row. */
struct tile_list {
    int first, begin;
};
static_assert(sizeof(struct tile_list) == TILE_LIST_BYTES, "the list is not laid out as the host's");

RFG_DEVICE int tiles_down(int rows)
{
    return rows > 0 ? (rows - 1) / TILE_M + 1 : 0;
}
/* Columns of tiles, in groups of CLUSTER. */
RFG_DEVICE int groups_along(const struct gemm_args *a)
{
    return (a->n - 1) / (TILE_N * CLUSTER) + 1;
}

/* By one wave: each lane has as many experts, neighbours. */
RFG_DEVICE void list_tiles(struct tile_list *list, const struct gemm_args *a)
{
    int each = (a->experts - 1) / RFG_WAVE + 1, from = rfg_lane() * each, tiles = 0;
    int to = from + each < a->experts ? from + each : a->experts;
#if MANY_EXPERTS /* sixteen are asked for at once */
#pragma unroll 1
    for (int e0 = from; e0 < to; e0 += 16) {
        int begin[17];
#pragma unroll
        for (int i = 0; i < 17; i++)
            begin[i] = expert_begin(a, e0 + i < to ? e0 + i : to);
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (e0 + i < to) {
                list[e0 + i].begin = begin[i];
                list[e0 + i].first = tiles;
                tiles += tiles_down(begin[i + 1] - begin[i]);
            }
    }
    int first = (int)rfg_wave_sum_upto((rfg_u64)tiles) - tiles;
    for (int e = from; e < to; e++)
        list[e].first += first;
    first += tiles;
#else
#pragma unroll 4
    for (int e = from; e < to; e++)
        tiles += tiles_down(expert_begin(a, e + 1) - expert_begin(a, e));
    int first = (int)rfg_wave_sum_upto((rfg_u64)tiles) - tiles;
#pragma unroll 4
    for (int e = from; e < to; e++) {
        list[e].begin = expert_begin(a, e);
        list[e].first = first;
        first += tiles_down(expert_begin(a, e + 1) - expert_begin(a, e));
    }
#endif
    if (rfg_lane() == RFG_WAVE - 1) { /* nobody comes after it */
        list[a->experts].begin = expert_begin(a, a->experts);
        list[a->experts].first = first;
    }
}

RFG_DEVICE int tiles_of(const struct gemm_args *a, const struct tile_list *list)
{
    return list[a->experts].first * groups_along(a);
}

/* Where a workgroup is: the tile from row m0 of the expert and column n0 on; alone: it shares no W with its neighbour.
 */
struct place {
    struct expert x;
    int m0, n0;
    bool alone;
};
/* A cluster of two has two tiles one below the other, or, if an odd one is left, two side by side: each group of two
 * columns of tiles has as many such pairs as a column has tiles.
 * The expert is the last one whose first tile is not behind this one: those without rows begin where the next one does.
 * All lanes of a wave call it. */
RFG_DEVICE struct place place_of(const struct gemm_args *a, const struct tile_list *list, int tile, int rank)
{
    int along = groups_along(a), down = tile / along, each = (a->experts - 1) / RFG_WAVE + 1;
    int e = rfg_lane() * each;
    int from = (__popc(__ballot_sync(0xffffffffu, e < a->experts && list[e].first <= down)) - 1) * each;
    e = from + rfg_lane();
    bool before = rfg_lane() < each && e < a->experts && list[e].first <= down;
    e = from - 1 + __popc(__ballot_sync(0xffffffffu, before));
    struct place p = { { e, list[e].begin, list[e + 1].begin - list[e].begin, list[e].first, 0 }, 0, 0, true };
    p.x.tiles = tiles_down(p.x.rows);
    int i = tile - p.x.first * along, band = i / (BAND * along), above = band * BAND;
    int rows = p.x.tiles - above < BAND ? p.x.tiles - above : BAND;
    i -= above * along;
    int m = i % rows, n = i / rows * CLUSTER;
    if (CLUSTER == 1 || m == rows / 2 * 2) {
        n += rank;
    } else {
        n += m % 2;
        m = m / 2 * 2 + rank;
        p.alone = false;
    }
    p.m0 = (above + m) * TILE_M;
    p.n0 = n * TILE_N;
    return p;
}

/* Rows of X that the tile has. */
RFG_DEVICE int rows_of(const struct place *p)
{
    int rows = p->x.rows - p->m0;
    return rows < 0 ? 0 : rows < TILE_M ? rows : TILE_M;
}

#if BLOCKS
/* A scale of each step, of which two are under way: memory answers later than a step is multiplied. */
struct step_scale {
    const char *from; /* of the one after those */
    int left;         /* from there on */
    long long next;   /* bytes */
    float v[2];
};
RFG_DEVICE void ask_scale(struct step_scale *s, int i)
{
    s->v[i] = s->left-- > 0 ? rfg_load_scale(s->from, 0, SCALE_DTYPE) : 0.0f;
    s->from += s->next;
}
RFG_DEVICE struct step_scale step_scale_of(const void *scale, long long at, int next, int steps)
{
    struct step_scale s = { (const char *)scale + at * SCALE_BYTES, steps, next * (long long)SCALE_BYTES, { 0, 0 } };
    ask_scale(&s, 0);
    ask_scale(&s, 1);
    return s;
}
RFG_DEVICE float next_scale(struct step_scale *s)
{
    float v = s->v[0];
    s->v[0] = s->v[1];
    ask_scale(s, 1);
    return v;
}
#endif

/* All steps of a tile, by thread t of the copiers: of X chunk t % 8 of every X_PASS-th row; with scales of blocks row
 * t's, and one of W if there are so many; the first thread asks for W. */
RFG_DEVICE void copy_tile(const struct gemm_args *a, const struct place *p, int t, int rank, int steps, char *ring,
                          float *x_scales, float *w_scales, struct rfg_stage *s, int *round, rfg_u64 *full,
                          rfg_u64 *empty, const rfg_tile_map *w)
{
#if W4
    struct w4_copier w4;
    w4_begin(&w4, a, p->x.e * a->n, p->n0, t / RFG_WAVE, (char *)x_scales);
#endif
    int chunk = t % 8, left = a->k / X_VEC - chunk, rows = rows_of(p), row[X_COPIES];
    int begin = p->x.begin + p->m0, w0 = p->x.e * a->n;
    rfg_u32 chunks = (rfg_u32)(GEMM_LDX(a) / X_VEC), at = rfg_wg_at(t / 8, chunk); /* chunks: from a row to the next */
    const char *from = (const char *)a->x + chunk * 16;
#pragma unroll
    for (int i = 0; i < X_COPIES; i++) {
        int r = t / 8 + i * X_PASS;
        row[i] = r < rows ? (int)x_row_at(a, (long long)begin + r) : -1;
    }
#if BLOCKS
    struct step_scale of_x = { 0 }, of_w = { 0 };
    int blocks = (a->k - 1) / STEP_K + 1;
    if (t < rows)
        of_x = step_scale_of(a->x_scale, x_row_at(a, (long long)begin + t) * a->x_scale_row, a->x_scale_col, blocks);
    int block = w_block_of(a, p->n0, t);
    if (t < W_SCALED && block * GEMM_SCALE_BLOCK < a->n)
        of_w = step_scale_of(a->w_scale, p->x.e * (long long)a->w_expert_scales + block * (long long)a->w_scale_row,
                             a->w_scale_col, blocks);
#else
    (void)x_scales, (void)w_scales;
#endif
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        rfg_u64 *arrival = full + s->at;
        rfg_u32 to = rfg_lds_address(ring) + (rfg_u32)(s->at * STEP_BYTES);
        asm volatile("" : "+r"(chunks)); /* or addresses of all rows would be kept, two registers each */
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
        if (!W4 && t == 0) {
            rfg_arrive_expect(arrival, STEP_BYTES - X_STEP_BYTES);
            if (CLUSTER == 1 || !p->alone)
                ask_w(to + X_STEP_BYTES, w, step, w0, p->n0, rank, arrival, false);
            else
                for (int share = 0; share < CLUSTER; share++)
                    ask_w(to + X_STEP_BYTES, w, step, w0, p->n0, share, arrival, true);
        }
#pragma unroll
        for (int i = 0; i < X_COPIES; i++)
            if (row[i] >= 0)
                rfg_async_copy16_at(to + at + (rfg_u32)(i * (X_PASS * TILE_WIDTH)),
                                    from + (rfg_u64)(rfg_u32)row[i] * chunks * 16, left > 0, false);
        rfg_arrive_copies(arrival);
#if W4
        w4_step(&w4, ring + s->at * STEP_BYTES + X_STEP_BYTES, t / RFG_WAVE, step, arrival);
#endif
#if BLOCKS
        x_scales[s->at * TILE_M + t] = next_scale(&of_x);
        if (t < W_SCALED)
            w_scales[s->at * TILE_W_SCALES + t] = next_scale(&of_w);
        __syncwarp();
        if (rfg_lane() == 0)
            rfg_arrive(arrival);
#endif
        from += TILE_WIDTH;
        left -= TILE_WIDTH / 16;
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}

/* By a warpgroup that has no rows of the tile. */
RFG_DEVICE void pass_tile(int steps, struct rfg_stage *s, rfg_u64 *full, rfg_u64 *empty)
{
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        rfg_arrival_wait(full + s->at, s->odd);
        leave_stage(empty, s->at);
        rfg_next_stage(s, STAGES);
    }
}
