/* SPDX-License-Identifier: MIT
 *
 * gemm_tile_wgmma's W of mxfp4, prepacked: four waves decode it to bf16 on its way to LDS, where it lies as TMA would
 * have put it. A scale is a power of two, by which decoding multiplies anyhow: bf16 has all products exactly, but those
 * beyond its largest, which fp32 hasn't either.
 *
 * A wave has 8 rows of every second block of 16, and of these all chunks of 128 columns, which are two steps. Words 0
 * and 1 of a chunk become 16 bytes each of the first step, 2 and 3 of the second one; meanwhile the next 128 columns
 * are under way, in the registers that are free then. */
#define W4_BLOCKS (TILE_N / PREPACK_ROWS)
#define W4_CHUNKS ((W4_BLOCKS + 1) / 2) /* of a lane, of 128 columns */
static_assert(W_DTYPE == RFG_E2M1 && W_SCALE_DTYPE == RFG_E8M0 && IN_DTYPE == RFG_BF16, "a scaled W isn't exact");
static_assert(STEP_K * 2 == PREPACK4_COLS && DECODE_WAVES == 4, "a chunk isn't two steps");

/* What a lane loads: chunk i of 128 columns is from i * codes_apart on. Rows beyond the last block are copies of
 * others.
 */
struct w4_rows {
    const char *codes, *scales;
    int codes_apart, scales_apart; /* bytes between every second block of rows */
    int there;                     /* of the lane's chunks */
};
RFG_DEVICE struct w4_rows w4_rows_of(const struct gemm_args *a, int w0, int n0)
{
    int wave = rfg_wave() % DECODE_WAVES, row = wave % 2 * 8 + rfg_lane() % 8, chunk = rfg_lane() / 8;
    int blocks = a->n / PREPACK_ROWS, block = n0 / PREPACK_ROWS + wave / 2, groups = W_COLS(a) / W_GROUP;
    block = block < blocks ? block : blocks - 1;
    long long first = w0 / PREPACK_ROWS + block;
    struct w4_rows r;
    r.codes_apart = W_COLS(a) * PREPACK_ROWS; /* two blocks of half a byte a column */
    r.scales_apart = groups * (2 * PREPACK_ROWS);
    r.codes = W_CODES_AT(a) + first * (W_COLS(a) * (PREPACK_ROWS / 2)) + chunk * (PREPACK_ROWS * 16) + row * 16;
    r.scales = (const char *)a->w_scale + first * groups * PREPACK_ROWS + row;
    r.there = (blocks - block + 1) / 2;
    return r;
}

/* A lane's chunks of 128 columns; of each the scale of its word number lane / 8. */
struct w4_chunks {
    rfg_u32x4 codes[W4_CHUNKS];
    rfg_u32 scale[W4_CHUNKS];
};
RFG_DEVICE void w4_load(struct w4_chunks *c, const struct w4_rows *r, int i, int block)
{
    int at = i < r->there ? i : 0, group = (block * PREPACK4_COLS + rfg_lane() / 8 * 32) / W_GROUP;
    c->codes[i] =
        rfg_load16_stream(r->codes + (long long)at * r->codes_apart + block * (PREPACK_ROWS * PREPACK4_COLS / 2));
    c->scale[i] = rfg_load1(r->scales + (long long)at * r->scales_apart + group * PREPACK_ROWS);
}
/* Has any scale two factors? */
RFG_DEVICE bool w4_has_large(const struct w4_chunks *c)
{
    rfg_u32 largest = 0;
#pragma unroll
    for (int i = 0; i < W4_CHUNKS; i++)
        largest = largest > c->scale[i] ? largest : c->scale[i];
    return __any_sync(0xffffffffu, largest > W_MOST_FACTOR);
}

/* Words `first` and the one behind it of all chunks, to a stage's W, where `at` is the lane's first one. */
RFG_DEVICE void w4_store(char *to, rfg_u32 at, const struct w4_chunks *c, int first, bool large)
{
#pragma unroll
    for (int i = 0; i < W4_CHUNKS; i++) {
        if (i * 2 + 1 >= W4_BLOCKS && rfg_wave() % DECODE_WAVES >= 2)
            continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            rfg_u32 scale = __shfl_sync(0xffffffffu, c->scale[i], (first + j) * 8 + rfg_lane() % 8);
            rfg_u32x4 v = w_decode_scaled(w_word(c->codes[i], first + j), scale, large);
            *(rfg_u32x4 *)(to + i * (2 * PREPACK_ROWS * TILE_WIDTH) + (at ^ (rfg_u32)j * 64u)) = v;
        }
    }
}

/* All steps of a tile whose rows of W begin at w0 + n0. */
RFG_DEVICE void decode_tile(const struct gemm_args *a, int w0, int n0, int steps, char *ring, struct rfg_stage *s,
                            int *round, rfg_u64 *full, rfg_u64 *empty)
{
    struct w4_rows rows = w4_rows_of(a, w0, n0);
    struct w4_chunks c, next;
    rfg_u32 at = rfg_wg_at(rfg_wave() % DECODE_WAVES * 8 + rfg_lane() % 8, rfg_lane() / 8);
    bool large = false;
#pragma unroll
    for (int i = 0; i < W4_CHUNKS; i++)
        w4_load(&c, &rows, i, 0);
    next = c;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        char *to = ring + s->at * STEP_BYTES + X_STEP_BYTES;
        if (step % 2 == 0) {
            large = w4_has_large(&c);
#pragma unroll
            for (int i = 0; i < W4_CHUNKS; i++)
                if (step + 2 < steps)
                    w4_load(&next, &rows, i, step / 2 + 1);
        }
        if (*round)
            rfg_arrival_wait(empty + s->at, s->odd ^ 1);
        if (step % 2 == 0 && !large)
            w4_store(to, at, &c, 0, false);
        else if (step % 2 == 0)
            w4_store(to, at, &c, 0, true);
        else if (!large)
            w4_store(to, at, &c, 2, false);
        else
            w4_store(to, at, &c, 2, true);
        if (step % 2 == 1)
            c = next;
        __syncwarp();
        if (rfg_lane() == 0)
            rfg_arrive(full + s->at);
        rfg_next_stage(s, STAGES);
        *round |= s->at == 0;
    }
}
