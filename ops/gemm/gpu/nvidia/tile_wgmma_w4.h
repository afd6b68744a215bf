/* SPDX-License-Identifier: MIT
 *
 * gemm_tile_wgmma's W of mxfp4, prepacked: the waves that copy X decode it to bf16 on its way to LDS, where it lies as
 * TMA would have put it. A scale is a power of two, by which decoding multiplies anyhow: bf16 has all products exactly,
 * but those beyond its largest, which fp32 hasn't either.
 *
 * A wave has 8 rows of every W4_WAVES * 8. Their codes, of 128 columns at a time, come to LDS as they are, TILE_RAW
 * times as many columns in a ring of the wave's own: a step's worth of registers would be less than what memory has
 * under way. Of a lane's chunk words 0 and 1 become 16 bytes each of one step, 2 and 3 of the next. */
#define W4_WAVES    (TILE_COPIERS(1) / RFG_WAVE)
#define W4_EIGHTS   (TILE_N / 8)                            /* of the tile's rows of W */
#define W4_CHUNKS   ((W4_EIGHTS + W4_WAVES - 1) / W4_WAVES) /* of a lane, of 128 columns */
#define W4_SCALES   (8 * 4)                                 /* of eight rows, in the order of words */
#define W4_RAW_WAVE (W4_CHUNKS * (RFG_WAVE * 16 + W4_SCALES))
static_assert(W_DTYPE == RFG_E2M1 && W_SCALE_DTYPE == RFG_E8M0 && IN_DTYPE == RFG_BF16, "a scaled W isn't exact");
static_assert(STEP_K * 2 == PREPACK4_COLS && W4_WAVES % 2 == 0, "a chunk isn't two steps, or chunks not in step");
static_assert(TILE_RAW_BYTES(TILE_N, 1) == TILE_RAW * W4_WAVES * W4_RAW_WAVE,
              "raw codes are not laid out as the host's");

/* A wave's part of a tile of W, as a lane sees it. */
struct w4_copier {
    const char *codes, *scales;    /* that it copies, first; its other chunks are *_apart bytes further on each */
    int codes_apart, scales_apart; /* rows beyond the last are copies of others */
    int there;                     /* chunks */
    int blocks;                    /* of 128 columns */
    rfg_u32 at;                    /* of its first 16 bytes in a step */
    char *raw;                     /* the wave's ring */
    bool large;                    /* some scale has two factors */
    rfg_u32x4 now[W4_CHUNKS];
};

/* Asks for a block, if there is such a one. */
RFG_DEVICE void w4_ask(const struct w4_copier *w, int block)
{
    char *to = w->raw + block % TILE_RAW * W4_RAW_WAVE;
    int word = rfg_lane() / 2 % 4, group = (block * PREPACK4_COLS + word * 32) / W_GROUP;
    if (block < w->blocks) {
#pragma unroll
        for (int i = 0; i < W4_CHUNKS; i++) {
            int at = i < w->there ? i : 0;
            rfg_async_copy16_at(rfg_lds_address(to) + (rfg_u32)(i * RFG_WAVE + rfg_lane()) * 16,
                                w->codes + (long long)at * w->codes_apart + block * (PREPACK_ROWS * PREPACK4_COLS / 2),
                                true, true);
            if (rfg_lane() < W4_SCALES / 4)
                rfg_async_copy4_at(rfg_lds_address(to) + W4_CHUNKS * RFG_WAVE * 16 + i * W4_SCALES + rfg_lane() * 4,
                                   w->scales + (long long)at * w->scales_apart + group * PREPACK_ROWS, true);
        }
    }
    rfg_async_commit();
}

/* By wave `wave` of W4_WAVES: begins with the tile whose rows of W begin at w0 + n0, w0 an expert's first. */
RFG_DEVICE void w4_begin(struct w4_copier *w, const struct gemm_args *a, int w0, int n0, int wave, char *raw)
{
    int eighth = n0 / 8 + wave, eighths = a->n / 8, groups = W_COLS(a) / W_GROUP, apart = W4_WAVES / 2;
    int row = wave % 2 * 8 + rfg_lane() % 8, chunk = rfg_lane() / 8;
    eighth = eighth < eighths ? eighth : eighths - 2 + wave % 2;
    long long block = (w0 / 8 + eighth) / 2;
    w->codes_apart = W_COLS(a) * (apart * PREPACK_ROWS / 2);
    w->scales_apart = groups * (apart * PREPACK_ROWS);
    w->codes = W_CODES_AT(a) + block * (W_COLS(a) * (PREPACK_ROWS / 2)) + chunk * (PREPACK_ROWS * 16) + row * 16;
    w->scales = (const char *)a->w_scale + block * groups * PREPACK_ROWS + wave % 2 * 8 + rfg_lane() % 2 * 4;
    w->there = (eighths - eighth + W4_WAVES - 1) / W4_WAVES;
    w->blocks = (a->k - 1) / PREPACK4_COLS + 1;
    w->at = rfg_wg_at(wave * 8 + rfg_lane() % 8, chunk);
    w->raw = raw + wave * (TILE_RAW * W4_RAW_WAVE);
    __syncwarp(); /* other lanes may still read scales of the tile before */
#pragma unroll
    for (int i = 0; i < TILE_RAW - 1; i++)
        w4_ask(w, i);
}

/* Words `first` and the one behind it of all chunks, scaled, to a step's W. scales: of the lane's row. */
RFG_DEVICE void w4_store(char *to, const struct w4_copier *w, const unsigned char *scales, int wave, int first,
                         bool large)
{
#pragma unroll
    for (int i = 0; i < W4_CHUNKS; i++) {
        if ((i + 1) * W4_WAVES > W4_EIGHTS && i * W4_WAVES + wave >= W4_EIGHTS)
            continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            rfg_u32 scale = scales[i * W4_SCALES + (first + j) * 8];
            rfg_u32x4 v = w_decode_scaled(w_word(w->now[i], first + j), scale, large);
            *(rfg_u32x4 *)(to + i * (W4_WAVES * 8 * TILE_WIDTH) + (w->at ^ (rfg_u32)j * 64u)) = v;
        }
    }
}

/* A step, which follows the one before, to a stage that is free. */
RFG_DEVICE void w4_step(struct w4_copier *w, char *to, int wave, int step, rfg_u64 *arrival)
{
    char *raw = w->raw + step / 2 % TILE_RAW * W4_RAW_WAVE;
    const unsigned char *scales = (const unsigned char *)raw + W4_CHUNKS * RFG_WAVE * 16 + rfg_lane() % 8;
    if (step % 2 == 0) {
        rfg_u32 largest = 0;
        rfg_async_wait(TILE_RAW - 2);
        __syncwarp();
        w4_ask(w, step / 2 + TILE_RAW - 1);
#pragma unroll
        for (int i = 0; i < W4_CHUNKS; i++) {
            rfg_u32 scale = scales[i * W4_SCALES + rfg_lane() / 8 * 8];
            largest = largest > scale ? largest : scale;
            w->now[i] = *(const rfg_u32x4 *)(raw + (i * RFG_WAVE + rfg_lane()) * 16);
        }
        w->large = __any_sync(0xffffffffu, largest > W_MOST_FACTOR);
    }
    if (step % 2 == 0 && !w->large)
        w4_store(to, w, scales, wave, 0, false);
    else if (step % 2 == 0)
        w4_store(to, w, scales, wave, 0, true);
    else if (!w->large)
        w4_store(to, w, scales, wave, 2, false);
    else
        w4_store(to, w, scales, wave, 2, true);
    __syncwarp();
    if (rfg_lane() == 0)
        rfg_arrive(arrival);
}

#if !EXPERTS
/* All steps of a tile, by all waves that copy; one thread asks for X. */
RFG_DEVICE void w4_copy_tile(const struct gemm_args *a, struct place p, int steps, char *ring, char *raw,
                             struct rfg_stage *s, int *round, rfg_u64 *full, rfg_u64 *empty, const rfg_tile_map *x)
{
    int wave = rfg_wave() - TILE_WAVES;
    struct w4_copier w;
    w4_begin(&w, a, 0, p.n0, wave, raw);
    rfg_await_previous();
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        char *to = ring + s->at * STEP_BYTES;
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
        if (rfg_thread() == TILE_WAVES * RFG_WAVE) {
            rfg_arrive_expect(full + s->at, X_STEP_BYTES);
            copy_x(p, step, rfg_lds_address(to), x, full + s->at);
        }
        w4_step(&w, to + X_STEP_BYTES, wave, step, full + s->at);
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}
#endif
