/* SPDX-License-Identifier: MIT
 *
 * What becomes of the sums of a tile of gemm_tile_wgmma, and how Y gets them. */

#define Y_COLS    (GATED ? 4 : 8)          /* of eight columns of sums */
#define PASS_COLS (TILE_Y_WIDTH / Y_BYTES) /* of Y, that LDS takes at once */
#define PASS      (PASS_COLS / Y_COLS)     /* eights of columns of sums */
#define PIECE     (16 / Y_BYTES)           /* columns of Y in 16 bytes */
#define ENDS      4                        /* eights of columns whose endings are in registers at once */

/* What a tile's sums become: multiplied by scales of rows, and a bias added. Three waves put these into LDS, of two
 * columns scales, then biases, unless they copy scales of blocks, or experts' X, or
 * decode W. */
#define ENDS_IN_LDS (!BLOCKS && !EXPERTS && !W4)
#define END_FLOATS  (SCALES == GEMM_SCALES_ROWS ? 4 : 2) /* of two columns */
RFG_DEVICE bool has_ending(const struct gemm_args *a)
{
    return ENDS_IN_LDS && (SCALES == GEMM_SCALES_ROWS || a->bias != 0);
}
RFG_DEVICE float bias_of(const struct gemm_args *a, int n)
{
    return a->bias && n < a->n ? rfg_load_float(a->bias, w_row_at(a, n), BIAS_DTYPE) : 0.0f;
}
#if ENDS_IN_LDS
/* Of a workgroup's tile number `turn`, when those of the one before were used. */
RFG_DEVICE void copy_ending(const struct gemm_args *a, struct place p, float *ending, float *x_scales, int turn,
                            rfg_u64 *full, rfg_u64 *empty)
{
    int t = rfg_thread() - (TILE_WAVES + 1) * RFG_WAVE;
    if (turn > 0)
        rfg_arrival_wait(empty, (turn - 1) & 1);
#pragma unroll 1
    for (int i = t; i < TILE_N; i += SCALE_THREADS) {
        float *to = ending + i / 2 * END_FLOATS + i % 2;
#if SCALES == GEMM_SCALES_ROWS
        *to = p.n0 + i < a->n ? w_scale_of(a, p.n0 + i, 0) : 0.0f;
        to += 2;
#endif
        *to = bias_of(a, p.n0 + i);
    }
#if SCALES == GEMM_SCALES_ROWS
#pragma unroll 1
    for (int i = t; i < TILE_M; i += SCALE_THREADS)
        x_scales[i] = p.m0 + i < a->m ? x_scale_of(a, p.m0 + i, 0) : 0.0f;
#endif
    (void)x_scales;
    __syncwarp();
    if (rfg_lane() == 0)
        rfg_arrive(full);
}
#endif

/* Those of two columns from column n of Y on, and of row m and the one eight below it; of: theirs in LDS. */
struct ending {
    rfg_f32x2 scale, more[2];
};
RFG_DEVICE struct ending ending_of(const struct gemm_args *a, const float *of, int m, int n)
{
    struct ending e;
    e.scale = e.more[0] = rfg_pair(0.0f, 0.0f);
#if ENDS_IN_LDS && SCALES == GEMM_SCALES_ROWS
    rfg_f32x4 both = *(const rfg_f32x4 *)of;
    e.scale = rfg_pair(both.x, both.y);
    e.more[0] = rfg_pair(both.z, both.w);
#elif ENDS_IN_LDS
    if (a->bias)
        e.more[0] = *(const rfg_f32x2 *)of;
#else
    if (a->bias)
        e.more[0] = rfg_pair(bias_of(a, n), bias_of(a, n + 1));
#if SCALES == GEMM_SCALES_ROWS
    e.scale = rfg_pair(n < a->n ? w_scale_of(a, n, 0) : 0.0f, n + 1 < a->n ? w_scale_of(a, n + 1, 0) : 0.0f);
#endif
#endif
    e.more[1] = e.more[0];
#if RESIDUAL
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (m + h * 8 < a->m && n < a->n)
            e.more[h].x += rfg_load_float(a->residual, (m + h * 8) * a->ldr + n, OUT_DTYPE);
        if (m + h * 8 < a->m && n + 1 < a->n)
            e.more[h].y += rfg_load_float(a->residual, (m + h * 8) * a->ldr + n + 1, OUT_DTYPE);
    }
#endif
    (void)a, (void)of, (void)m, (void)n;
    return e;
}

/* Of an expert's two rows: X's scales, and weights. */
struct row_factors {
    float x_scale[2], weight[2];
};
RFG_DEVICE struct row_factors row_factors_of(const struct gemm_args *a, int m)
{
    struct row_factors f = { { 0.0f, 0.0f }, { 0.0f, 0.0f } };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (m + h * 8 >= a->m)
            continue;
#if SCALES == GEMM_SCALES_ROWS
        f.x_scale[h] = x_scale_of(a, m + h * 8, 0);
#endif
#if WEIGHTED
        f.weight[h] = rfg_load_float(a->weights, m + h * 8, RFG_F32);
#endif
    }
    return f;
}

/* Sums of `eights` times eight columns, of row m and the one eight below it by turns, with their ending: those from
 * eight j of the warpgroup's, from column n0 of Y, on. */
RFG_DEVICE void end_sums(rfg_f32x2 *v, const struct gemm_args *a, const float *d, int eights, int m, int n0, int j,
                         const float *ending, const float *x_scales, const struct row_factors *rows)
{
    struct ending end[ENDS]; /* all are asked for before the first is used: what is stored might be theirs */
#pragma unroll
    for (int i = 0; i < eights; i++) {
        int column = (j + i) * 8 + rfg_lane() % 4 * 2;
        end[i] = ending_of(a, ending + column / 2 * END_FLOATS, m, n0 + column);
    }
#pragma unroll
    for (int i = 0; i < 2 * eights; i++) {
        v[i] = end[i / 2].more[i % 2];
#if SCALES == GEMM_SCALES_ROWS
        float x_scale = EXPERTS ? rows->x_scale[i % 2] : x_scales[WAVE_M + rfg_lane() / 4 + i % 2 * 8];
        v[i].x = rfg_fma(d[2 * i], x_scale * end[i / 2].scale.x, v[i].x);
        v[i].y = rfg_fma(d[2 * i + 1], x_scale * end[i / 2].scale.y, v[i].y);
#else
        v[i] = rfg_add2(rfg_pair(d[2 * i], d[2 * i + 1]), v[i]);
#endif
#if WEIGHTED
        v[i] = rfg_mul2(v[i], rfg_pair(rows->weight[i % 2], rows->weight[i % 2]));
#endif
    }
    (void)x_scales, (void)rows;
}

/* As Y has them. */
RFG_DEVICE rfg_u32 packed(rfg_f32x2 v)
{
    return OUT_DTYPE == RFG_F16 ? rfg_pack_f16(v.x, v.y) : rfg_pack_bf16(v.x, v.y);
}
RFG_DEVICE void put_2(const struct gemm_args *a, char *to, rfg_f32x2 v)
{
#if GATED
    float f = gated_of(a, v.x, v.y);
#if Y_CODES
    *(unsigned char *)to = (unsigned char)y_codes(a, f, 0.0f, 0.0f, 0.0f);
#else
    if (OUT_DTYPE == RFG_F32)
        *(float *)to = f;
    else
        *(rfg_u16 *)to = (rfg_u16)packed(rfg_pair(f, 0.0f));
#endif
#elif Y_CODES
    *(rfg_u16 *)to = (rfg_u16)y_codes(a, v.x, v.y, 0.0f, 0.0f);
#else
    (void)a;
    if (OUT_DTYPE == RFG_F32)
        *(rfg_f32x2 *)to = v;
    else
        *(rfg_u32 *)to = packed(v);
#endif
}

/* Byte `byte` of a row of a tile in LDS. */
RFG_DEVICE char *at_of(char *tile, int row, int byte)
{
    return tile + rfg_wg_at(row, byte / 16) + byte % 16;
}

/* Stores a tile in LDS in pieces of 16 bytes, where they are aligned so: `cols` columns from column `col` of Y on, as
 * far as there are any. */
RFG_DEVICE void store_pieces(const struct gemm_args *a, const char *tile, int m0, int col, int cols)
{
    bool whole = Y_TILES || (((rfg_u64)a->y | (rfg_u64)GEMM_LDY(a) * Y_BYTES) & 15) == 0;
    if (GATED && Y_BYTES == 1) /* a tile may begin with half a piece */
        whole = whole && col % PIECE == 0;
    int n = GATED ? a->n / 2 : a->n, c = rfg_lane() % 8 * PIECE;
    int left = (cols < n - col ? cols : n - col) - c;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = i * 4 + rfg_lane() / 8;
        const char *from = tile + rfg_wg_at(row, rfg_lane() % 8);
        char *to = (char *)a->y + ((m0 + row) * GEMM_LDY(a) + col + c) * Y_BYTES;
        if (m0 + row >= a->m || left <= 0)
            continue;
        if (whole && left >= PIECE) {
            rfg_store16(to, *(const rfg_u32x4 *)from);
        } else {
#pragma unroll
            for (int e = 0; e < PIECE; e++)
                if (e < left) {
                    if (Y_BYTES == 4)
                        rfg_store4(to + e * 4, *(const rfg_u32 *)(from + e * 4));
                    else if (Y_BYTES == 1)
                        rfg_store1(to + e, *(const unsigned char *)(from + e));
                    else
                        rfg_store2(to + e * 2, *(const rfg_u16 *)(from + e * 2));
                }
        }
    }
}

/* The wave's rows from row m0 on, columns from n0 on of the sums, or of what is held of them; lds: the wave's buffers;
 * begin: rows of the map before those of a. */
RFG_DEVICE void store_rows(const struct gemm_args *a, const float *d, const rfg_u32 *held, int m0, int n0,
                           const float *ending, const float *x_scales, char *lds, const rfg_tile_map *y_map, int begin)
{
    int lane = rfg_lane(), row = lane / 4, y0 = GATED ? n0 / 2 : n0;
    struct row_factors rows = { { 0.0f, 0.0f }, { 0.0f, 0.0f } };
    if (EXPERTS)
        rows = row_factors_of(a, m0 + row);
#pragma unroll
    for (int j0 = 0; j0 < GROUP_N / 8; j0 += PASS) {
        int eights = GROUP_N / 8 - j0 < PASS ? GROUP_N / 8 - j0 : PASS;
        char *tile = lds + j0 / PASS % TILE_Y_BUFFERS * TILE_Y_BYTES;
        if (lane == 0) {
            if (j0 == 0) /* the tile before may have ended with the same buffer */
                rfg_tile_stores_read(0);
            else
                rfg_tile_stores_read(TILE_Y_BUFFERS - 1);
        }
        __syncwarp();
#pragma unroll
        for (int j = j0; j < j0 + eights; j += ENDS) {
            int some = j0 + eights - j < ENDS ? j0 + eights - j : ENDS;
            rfg_f32x2 v[2 * ENDS];
            if (!HELD)
                end_sums(v, a, d + 4 * j, some, m0 + row, n0, j, ending, x_scales, &rows);
#pragma unroll
            for (int i = 0; i < 2 * ENDS; i++) {
                if (i >= 2 * some)
                    continue;
                char *to =
                    at_of(tile, row + i % 2 * 8, ((j - j0 + i / 2) * Y_COLS + lane % 4 * (Y_COLS / 4)) * Y_BYTES);
                if (HELD)
                    *(rfg_u32 *)to = held[2 * j + i];
                else
                    put_2(a, to, v[i]);
            }
        }
        if (Y_TILES && eights == PASS && (!EXPERTS || m0 + TILE_Y_ROWS <= a->m)) {
            rfg_tile_written();
            __syncwarp();
            if (lane == 0)
                rfg_tile_store(y_map, (y0 + j0 * Y_COLS) * Y_BYTES, begin + m0, rfg_lds_address(tile));
        } else {
            __syncwarp();
            store_pieces(a, tile, m0, y0 + j0 * Y_COLS, eights * Y_COLS);
        }
    }
}

/* What a wave that stores goes by. */
struct storer {
    const float *ending, *x_scales;
    rfg_u64 *full, *empty; /* those in LDS */
    char *lds;
    const rfg_tile_map *y_map;
};

/* Of a workgroup's tile number `turn`: waits for its ending, or has used it. */
RFG_DEVICE void take_ending(const struct gemm_args *a, const struct storer *s, int turn)
{
    if (has_ending(a))
        rfg_arrival_wait(s->full, turn & 1);
}
RFG_DEVICE void leave_ending(const struct gemm_args *a, const struct storer *s)
{
    __syncwarp();
    if (has_ending(a) && rfg_lane() == 0)
        rfg_arrive(s->empty);
}

/* Its sums, as Y has them. */
RFG_DEVICE void hold_tile(const struct gemm_args *a, rfg_u32 *held, const float *d, struct place p, int turn,
                          const struct storer *s)
{
    take_ending(a, s, turn);
#pragma unroll
    for (int j = 0; j < GROUP_N / 8; j += ENDS) {
        int some = GROUP_N / 8 - j < ENDS ? GROUP_N / 8 - j : ENDS;
        rfg_f32x2 v[2 * ENDS];
        end_sums(v, a, d + 4 * j, some, p.m0 + WAVE_M + rfg_lane() / 4, p.n0 + WAVE_N, j,
                 s->ending + WAVE_N / 2 * END_FLOATS, s->x_scales, 0);
#pragma unroll
        for (int i = 0; i < 2 * ENDS; i++)
            if (i < 2 * some)
                held[2 * j + i] = packed(v[i]);
    }
    leave_ending(a, s);
}

RFG_DEVICE void store_tile(const struct gemm_args *a, const float *d, const rfg_u32 *held, struct place p, int turn,
                           const struct storer *s)
{
#if EXPERTS
    struct gemm_args of = args_of(a, &p.x, 0, p.x.rows);
    if (p.m0 + WAVE_M < p.x.rows)
        store_rows(&of, d, held, p.m0 + WAVE_M, p.n0, 0, 0, s->lds, s->y_map, p.x.begin);
    (void)turn;
#else
    if (!HELD)
        take_ending(a, s, turn);
    store_rows(a, d, held, p.m0 + WAVE_M, p.n0 + WAVE_N, s->ending + WAVE_N / 2 * END_FLOATS, s->x_scales, s->lds,
               s->y_map, 0);
    if (!HELD)
        leave_ending(a, s);
#endif
}
