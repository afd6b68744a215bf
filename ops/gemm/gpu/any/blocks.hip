/* SPDX-License-Identifier: MIT
 *
 * gemm of a W whose blocks hold their scales (GGUF's) and few rows of X, by dot products of bytes. X is rounded to q8_1
 * (fast=1): 32 columns of a row become int8 and an fp32 scale, with their sum, by which mins are multiplied.
 *
 * A workgroup first rounds its M_TILE rows of X into LDS, once for all its rows of W. A wave takes ROWS rows of W at a
 * time, K_WAVES waves take turns with a row's chunks, and a lane has a unit of a chunk: 32 or 64 columns, decoded to
 * bytes and multiplied with all rows of X. Sums stay in LDS until the end, when the workgroup adds and stores them.
 *
 * On Hopper a wave's chunks come to LDS by bulk copies, STAGES ahead, since most blocks aren't aligned to what a lane's
 * load takes. AMD's loads need no alignment and go to registers.
 *
 * Budget of a unit of 64 columns of q4_k: 36 bytes of W; 3 loads from LDS, about 40 instructions that decode, and for
 * each row of X 16 dot products of 4 bytes, 8 instructions that scale and 5 loads of X from LDS, which ROWS rows share.
 * Memory gives a CU 36 bytes x 32 lanes in 64 clocks, in which it issues 256 instructions: memory binds up to 4 rows of
 * X, beyond that the dot products.
 *
 * Macros: those of load.h and epilogue.h, M_TILE (1, 2, 4, 8), ROWS (1, 2, 4), WAVES, K_WAVES (divides WAVES), UNROLL
 * (units of a lane in a chunk), STAGES (0: no copies). Grid: tiles of M_TILE rows, beside one another, so that W comes
 * from L2 for all but one; y: as many workgroups as are resident. LDS: blocks_layout.h. Rows of X must be aligned to 16
 * bytes; with STAGES those of W, too, and be whole 16 bytes. */
#include "rfg_device.h"
#include "rfg_tma.h"
#include "gemm/gpu/any/load.h"
#include "gemm/gpu/any/epilogue.h"
#include "gemm/gpu/any/blocks_layout.h"
#include "gemm/gpu/any/blocks_unit.h"

#define THREADS     (WAVES * RFG_WAVE)
#define ROW_WAVES   (WAVES / K_WAVES)
#define CHUNK       (UNROLL * RFG_WAVE) /* units */
#define CHUNK_BYTES (CHUNK / UNITS * W_BLOCK_BYTES)
#define SUMS        (ROWS * M_TILE)
#define SLOTS_ALL   (STAGES ? WAVES * STAGES : 0)
#define CHUNKS_X    (UNIT / 16) /* 16 bytes of X in a unit */
static_assert(SUMS <= RFG_WAVE && SUMS <= 32, "more sums than lanes");

RFG_DEVICE rfg_u32 max_u32(rfg_u32 a, rfg_u32 b)
{
    return a > b ? a : b;
}

/* ---- X ----------------------------------------------------------------------------------------------------------- */

struct x_lds {
    char *codes;  /* [M_TILE][CHUNKS_X][units][16] */
    char *scales; /* [M_TILE][K / 32][X_SCALE_BYTES] */
    int units, blocks;
};

#define X_WORDS   (16 * X_BYTES / 4) /* of 16 columns */
#define X_AT_ONCE (M_TILE < 4 ? M_TILE : 4)

/* The greatest magnitude of 16 columns. A NaN is greater than all. */
RFG_DEVICE float largest_of(const rfg_u32 *x)
{
    rfg_u32 most = 0;
#pragma unroll
    for (int i = 0; i < X_WORDS; i++)
        most = X_BYTES == 2 ? rfg_max_u16x2(most, x[i] & 0x7fff7fffu) : max_u32(most, x[i] & 0x7fffffffu);
    if (X_BYTES == 4)
        return rfg_as_float(most);
    return rfg_low(max_u32(most & 0xffffu, most >> 16), IN_DTYPE);
}

/* Two neighbouring lanes have the 32 columns that share a scale. All lanes of a wave call it. */
RFG_DEVICE void round_piece(const struct x_lds *x, int m, int piece, const rfg_u32 *words, bool there)
{
    float v[16], mine = largest_of(words), other = rfg_shuffle_xor(mine, 1);
    float largest = rfg_as_float(max_u32(rfg_as_u32(mine), rfg_as_u32(other)));
    float scale = largest * (1.0f / 127.0f), inverse = largest < 0x1p-118f ? 0.0f : 127.0f / largest;
#pragma unroll
    for (int i = 0; i < 16 / X_VEC; i++) {
        rfg_u32x4 w;
        w.x = words[i * 4];
        w.y = words[i * 4 + 1];
        w.z = words[i * 4 + 2];
        w.w = words[i * 4 + 3];
        rfg_unpack(v + i * X_VEC, w, IN_DTYPE);
    }
    rfg_u32 codes[4], ones = 0x01010101u;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* 1.5 * 2^23 leaves whole numbers in the last places */
        rfg_u32 q[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            q[k] = rfg_as_u32(rfg_fma(v[i * 4 + k], inverse, 0x1.8p23f));
        codes[i] = rfg_low_bytes(q[0], q[1], q[2], q[3]);
        sum = rfg_dot4(codes[i], ones, sum);
    }
    float half = scale * (float)sum, next = rfg_shuffle_xor(half, 1);
    if (!there)
        return;
    int unit, chunk;
    x_place(piece, &unit, &chunk);
    rfg_u32x4 c;
    c.x = codes[0];
    c.y = codes[1];
    c.z = codes[2];
    c.w = codes[3];
    *(rfg_u32x4 *)(x->codes + ((m * CHUNKS_X + chunk) * x->units + unit) * 16) = c;
    if (piece % 2 == 0) {
        char *to = x->scales + (m * x->blocks + piece / 2) * X_SCALE_BYTES;
        if (PART == 32) {
            *(rfg_f32x2 *)to = rfg_pair(scale, half + next);
        } else {
            rfg_f32x4 f;
            f.x = scale;
            f.y = half;
            f.z = next;
            f.w = 0.0f;
            *(rfg_f32x4 *)to = f;
        }
    }
}

/* Of several rows loads are in flight at once. */
RFG_DEVICE void round_x(const struct gemm_args *a, const struct x_lds *x, int m0)
{
    int pieces = a->k / 16;
#pragma unroll 1
    for (int first = 0; first < pieces; first += THREADS) {
        int at = first + rfg_thread(), piece = at < pieces ? at : pieces - 1;
#pragma unroll
        for (int batch = 0; batch < M_TILE; batch += X_AT_ONCE) {
            rfg_u32 words[X_AT_ONCE][X_WORDS];
#pragma unroll
            for (int i = 0; i < X_AT_ONCE; i++) {
                int row = m0 + batch + i < a->m ? m0 + batch + i : a->m - 1;
                const char *from = x_row(a, row) + piece * (16 * X_BYTES);
#pragma unroll
                for (int k = 0; k < X_WORDS / 4; k++) {
                    rfg_u32x4 w = rfg_load16(from + k * 16);
                    words[i][k * 4] = w.x;
                    words[i][k * 4 + 1] = w.y;
                    words[i][k * 4 + 2] = w.z;
                    words[i][k * 4 + 3] = w.w;
                }
            }
#pragma unroll
            for (int i = 0; i < X_AT_ONCE; i++)
                round_piece(x, batch + i, piece, words[i], at < pieces);
        }
    }
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* Unit `unit` of each of ROWS rows times M_TILE rows of X. */
RFG_DEVICE void multiply(float *acc, const struct w_unit *w, const struct x_lds *x, int unit)
{
#pragma unroll
    for (int g = 0; g < UNIT / PART; g++) {
        rfg_u32 codes[ROWS][PART / 4];
        float scale[ROWS], min[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            unit_codes(codes[r], &w[r], g);
            unit_scale(&w[r], g, &scale[r], &min[r]);
        }
#pragma unroll
        for (int m = 0; m < M_TILE; m++) {
            rfg_u32 xs[PART / 4];
#pragma unroll
            for (int i = 0; i < PART / 16; i++) {
                rfg_u32x4 v =
                    *(const rfg_u32x4 *)(x->codes + ((m * CHUNKS_X + g * (PART / 16) + i) * x->units + unit) * 16);
                xs[i * 4] = v.x;
                xs[i * 4 + 1] = v.y;
                xs[i * 4 + 2] = v.z;
                xs[i * 4 + 3] = v.w;
            }
            const float *of = (const float *)(x->scales + (m * x->blocks + x_block(unit, g)) * X_SCALE_BYTES);
            float x_scale = of[0], x_sum = of[1 + x_half(unit, g)];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int dot = 0, more = 0; /* shorter chains */
#pragma unroll
                for (int i = 0; i < PART / 8; i++) {
                    dot = rfg_dot4(codes[r][i], xs[i], dot);
                    more = rfg_dot4(codes[r][PART / 8 + i], xs[PART / 8 + i], more);
                }
                float *sum = &acc[r * M_TILE + m];
                *sum = rfg_fma(scale[r] * x_scale, (float)(dot + more), *sum);
                if (HAS_MINS)
                    *sum = rfg_fma(-min[r], x_sum, *sum);
            }
        }
    }
}

/* What a wave does: row steps, and chunks of each. */
struct walk {
    const char *w[ROWS];
    int step, chunk; /* next */
};

struct task {
    int begin, end, steps, chunks, units, k_wave; /* rows; steps of ROWS; of a row */
};

RFG_DEVICE void walk_rows(const struct gemm_args *a, struct walk *w, const struct task *t)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int n = t->begin + w->step * ROWS + r;
        n = n < t->end ? n : t->end - 1; /* a copy; its sums aren't used */
        w->w[r] = (const char *)a->w + W_BYTES_OF(w_row_at(a, n) * GEMM_LDW(a));
    }
}
/* To the next chunk; is it another row's? */
RFG_DEVICE bool walk_on(const struct gemm_args *a, struct walk *w, const struct task *t)
{
    w->chunk += K_WAVES;
    if (w->chunk < t->chunks)
        return false;
    w->chunk = t->k_wave;
    w->step += ROW_WAVES;
    if (w->step < t->steps)
        walk_rows(a, w, t);
    return true;
}

#if STAGES
RFG_DEVICE void copy_chunk(const struct gemm_args *a, struct walk *w, const struct task *t, char *slot, rfg_u64 *full)
{
    if (w->step >= t->steps)
        return;
    if (rfg_lane() == 0) {
        int left = t->units - w->chunk * CHUNK, bytes = left < CHUNK ? left / UNITS * W_BLOCK_BYTES : CHUNK_BYTES;
        rfg_arrive_expect(full, (rfg_u32)(bytes * ROWS));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            rfg_bulk_load(rfg_lds_address(slot + r * CHUNK_BYTES), w->w[r] + (long long)w->chunk * CHUNK_BYTES,
                          (rfg_u32)bytes, full);
    }
    walk_on(a, w, t);
}
#endif

/* Adds the waves' sums of the workgroup's rows of W, and stores them. sums: [K_WAVES][M_TILE][per]. */
RFG_DEVICE void store_sums(const struct gemm_args *a, const float *sums, const struct task *t, int m0, int per)
{
    int rows = t->end - t->begin, columns = GATED ? rows / 2 : rows;
    for (int i = rfg_thread(); i < M_TILE * columns; i += THREADS) {
        int m = i / columns, dn = i % columns * (GATED ? 2 : 1);
        if (m0 + m >= a->m)
            break;
        float v[2] = { 0.0f, 0.0f };
#pragma unroll
        for (int h = 0; h <= (GATED != 0); h++)
            for (int k = 0; k < K_WAVES && k < t->chunks; k++)
                v[h] += sums[(k * M_TILE + m) * per + dn + h];
#if GATED
        store_gated(a, m0 + m, t->begin + dn, v[0], v[1]);
#else
        store_1(a, m0 + m, t->begin, dn, v[0]);
#endif
    }
}

RFG_KERNEL(THREADS) gemm_blocks_dot(struct gemm_args a)
{
    char *lds = (char *)rfg_lds;
    int m0 = rfg_group_x() * M_TILE, per = BLOCKS_ROWS(a.n, rfg_groups_y(), ROWS_STEP);
    struct x_lds x;
    x.units = a.k / UNIT;
    x.blocks = a.k / 32;
    x.codes = lds + BLOCKS_X_AT(SLOTS_ALL, ROWS * CHUNK_BYTES);
    x.scales = x.codes + M_TILE * a.k;
    float *sums = (float *)(x.scales + M_TILE * x.blocks * X_SCALE_BYTES); /* [K_WAVES][M_TILE][per] */
    struct task t;
    t.begin = rfg_group_y() * per;
    t.end = t.begin + per < a.n ? t.begin + per : a.n;
    t.steps = (t.end - t.begin + ROWS - 1) / ROWS;
    t.units = x.units;
    t.chunks = (x.units - 1) / CHUNK + 1;
    t.k_wave = rfg_wave() % K_WAVES;

    rfg_start_next();
    if (t.begin >= t.end)
        return;
    struct walk w;
    w.step = rfg_wave() / K_WAVES;
    w.chunk = t.k_wave;
    if (w.step < t.steps)
        walk_rows(&a, &w, &t);
    if (t.k_wave >= t.chunks)
        w.step = t.steps;
#if STAGES
    struct walk ahead = w;
    rfg_u64 *full = (rfg_u64 *)lds + rfg_wave() * STAGES;
    char *ring = lds + BLOCKS_ROUND(SLOTS_ALL * 8) + rfg_wave() * (STAGES * ROWS * CHUNK_BYTES);
    if (rfg_lane() < STAGES)
        rfg_arrival_init(full + rfg_lane(), 1);
    rfg_arrivals_ready();
#pragma unroll 1
    for (int i = 0; i < STAGES; i++)
        copy_chunk(&a, &ahead, &t, ring + i * (ROWS * CHUNK_BYTES), full + i);
    int slot = 0, odd = 0;
#endif
    rfg_await_previous();
    round_x(&a, &x, m0);
    rfg_barrier();

    float acc[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        acc[i] = 0.0f;
#pragma unroll 1
    while (w.step < t.steps) {
        int step = w.step, first = w.chunk * CHUNK;
#if STAGES
        const char *from[ROWS];
        rfg_arrival_wait(full + slot, odd);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            from[r] = ring + (slot * ROWS + r) * CHUNK_BYTES;
#else
        const char *from[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            from[r] = w.w[r] + (long long)w.chunk * CHUNK_BYTES;
#endif
        struct w_unit u[UNROLL][ROWS];
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int unit = i * RFG_WAVE + rfg_lane();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if (first + unit < t.units)
                    unit_load(&u[i][r], from[r] + unit / UNITS * W_BLOCK_BYTES, unit % UNITS);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int unit = first + i * RFG_WAVE + rfg_lane();
            if (unit < t.units)
                multiply(acc, u[i], &x, unit);
        }
#if STAGES
        rfg_wave_sync();
        copy_chunk(&a, &ahead, &t, ring + slot * (ROWS * CHUNK_BYTES), full + slot);
        slot = slot + 1 < STAGES ? slot + 1 : 0;
        odd ^= slot == 0;
#endif
        if (walk_on(&a, &w, &t)) {
            float sum = rfg_wave_sum_scatter(acc, SUMS);
            int i = rfg_lane() / (RFG_WAVE / SUMS);
            if (rfg_lane() % (RFG_WAVE / SUMS) == 0)
                sums[(t.k_wave * M_TILE + i % M_TILE) * per + step * ROWS + i / M_TILE] = sum;
#pragma unroll
            for (int k = 0; k < SUMS; k++)
                acc[k] = 0.0f;
        }
    }
    rfg_barrier();

    store_sums(&a, sums, &t, m0, per);
}
