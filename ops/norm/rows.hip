/* SPDX-License-Identifier: MIT
 *
 * rmsnorm, add_rmsnorm, layernorm, add_layernorm: THREADS threads a row, ROWS rows side by side in a workgroup, which
 * goes on to further rows in strides of the grid. A thread has chunks THREADS apart, CHUNKS of them in a step: all are
 * loaded before the first is used. Between the passes (sums, largest, results) a row is kept
 *   KEEP = 1  in registers: it has one step
 *   KEEP = 2  in LDS, of any length that fits
 *   KEEP = 0  not at all: read again, from the caches
 * as what is normalised, the rounded sum of x and the residual.
 *
 * Macros: IN_DTYPE, OUT_DTYPE (codes), ADD (a residual), LAYER (subtract the mean), WEIGHT (0: w, 1: 1 + w, 2: none),
 * BIAS, SCALE (RFG_SCALE_*), PLAIN (0: codes only), HEADS (rows of rows), WIDTH (bytes of a load), STREAM (1: results
 * are not worth caching; 2: nor are x and the residual), EXACT (a row is just CHUNKS * THREADS chunks), AHEAD (weights
 * are loaded before the first row and kept; KEEP = 1 only), THREADS (16, 32 or whole waves), ROWS, CHUNKS, KEEP, SPLIT (a
 * row is shared by that many workgroups, a cluster; KEEP = 1 and ROWS = 1 only, and one row a cluster). */
#include "rfg_device.h"
#include "norm/norm_args.h"

#define VEC       RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE      RFG_DTYPE_BYTES(IN_DTYPE)
#define BLOCK     (THREADS * ROWS)
#define ROW_WAVES (THREADS > RFG_WAVE ? THREADS / RFG_WAVE : 1)
#define STEP      (CHUNKS * THREADS)
#define PARTS     (ROWS * ROW_WAVES * SPLIT)
/* The largest |y| follows from the largest |h w|, which the first pass can find with the sum. */
#define FUSED     (SCALE == RFG_SCALE_TOKEN && !LAYER && !BIAS && KEEP == 1 && (AHEAD || WEIGHT == 2))

struct state {
    struct norm_args args;
    long long row;
    bool live; /* is there such a row? */
    int t;     /* thread of the row */
    int sub;   /* row of the workgroup */
    int lds_row;
    int slot; /* of the parts of reductions, by turns */
};

/* The row's first element, of `size` bytes. */
RFG_DEVICE char *row_of(const struct state *s, struct norm_rows r, int size)
{
    if (HEADS) {
        rfg_u32 row = (rfg_u32)s->row, outer = row / (rfg_u32)s->args.heads;
        return (char *)r.data +
               ((long long)outer * r.ld + (long long)(row - outer * (rfg_u32)s->args.heads) * r.ld_inner) * size;
    }
    return (char *)r.data + s->row * r.ld * size;
}

/* Elements of the row from a chunk on: above 0 if the chunk is there. */
RFG_DEVICE int left_of(const struct state *s, int chunk)
{
    if (EXACT)
        return ROWS == 1 || s->live ? VEC : 0;
    return s->live ? s->args.n - chunk * VEC : 0;
}

/* Is element i of a chunk there? Of whole chunks all are: one mask and not eight. */
#define THERE(i, left) (EXACT && ROWS == 1 ? true : WIDTH == 16 ? (left) > 0 : (i) < (left))

/* Chunk by chunk, where each has so many comparisons that their masks would run out of scalar registers. */
#define CHUNK_DONE()                                                                                                   \
    do {                                                                                                               \
        if (CHUNKS > 2 && (SCALE != RFG_SCALE_NONE || WIDTH < 16))                                                     \
            rfg_keep_order();                                                                                          \
    } while (0)

#define PIECES_DONE()                                                                                                  \
    do {                                                                                                               \
        if (CHUNKS > 2 && WIDTH < 16)                                                                                  \
            rfg_keep_order();                                                                                          \
    } while (0)

RFG_DEVICE rfg_u32x4 zeroes(void)
{
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0u;
    return v;
}

RFG_DEVICE void hold(const struct state *s, rfg_u32x4 *kept, int c, int chunk, rfg_u32x4 v)
{
    if (KEEP == 1)
        kept[c] = v;
    else if (KEEP == 2)
        rfg_lds[s->sub * s->lds_row + chunk] = v;
}

RFG_DEVICE void held(const struct state *s, const rfg_u32x4 *kept, int c, int chunk, float *h)
{
    rfg_u32x4 v = zeroes();
    if (KEEP == 1)
        v = kept[c];
    else if (KEEP == 2)
        v = rfg_lds[s->sub * s->lds_row + chunk];
    else {
        struct norm_rows r = ADD ? s->args.residual_out : s->args.x;
        int left = left_of(s, chunk);
        if (left > 0)
            v = rfg_load_chunk(row_of(s, r, SIZE), (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, false);
    }
    rfg_unpack(h, v, IN_DTYPE);
}

RFG_DEVICE float reduce(struct state *s, float v, float (*part)[PARTS], bool largest)
{
#if RFG_HAS_CLUSTER
    if (SPLIT > 1) {
        if (!s->slot) /* the others run: see rfg_cluster_arrive() */
            rfg_cluster_wait();
        return rfg_cluster_reduce(v, part[s->slot++], ROW_WAVES, SPLIT, largest);
    }
#endif
    if (THREADS <= RFG_WAVE)
        return rfg_reduce_lanes(v, THREADS, largest);
    s->slot ^= 1;
    return rfg_group_reduce(v, part[s->slot] + s->sub * ROW_WAVES, ROW_WAVES, rfg_wave() - s->sub * ROW_WAVES, largest);
}

/* Loads a step's chunks, adds the residual, keeps what is normalised, and returns the sum of it or of its squares. */
RFG_DEVICE float first_pass(const struct state *s, int first, rfg_u32x4 *kept, const rfg_u32x4 *weights, float *largest)
{
    rfg_u32x4 x[CHUNKS], r[CHUNKS];
    const char *xp = row_of(s, s->args.x, SIZE), *rp = xp;
    char *op = 0;
    if (ADD) {
        rp = row_of(s, s->args.residual, SIZE);
        op = row_of(s, s->args.residual_out, SIZE);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = left_of(s, chunk);
        x[c] = r[c] = zeroes();
        if (left > 0) {
            x[c] = rfg_load_chunk(xp, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, STREAM == 2);
            if (ADD)
                r[c] = rfg_load_chunk(rp, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, STREAM == 2);
        }
        PIECES_DONE();
    }
    rfg_f32x2 sum = rfg_pair(0.0f, 0.0f);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = first + c * THREADS, left = left_of(s, chunk);
        float h[VEC];
        rfg_unpack(h, x[c], IN_DTYPE);
        if (ADD) {
            float b[VEC];
            rfg_unpack(b, r[c], IN_DTYPE);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                h[i] += b[i];
            x[c] = rfg_pack(h, IN_DTYPE);
            rfg_unpack(h, x[c], IN_DTYPE);
            if (left > 0)
                rfg_store_chunk(op, (rfg_u32)chunk * 16u, left, x[c], IN_DTYPE, WIDTH, STREAM != 0 && KEEP);
        }
        hold(s, kept, c, chunk, x[c]);
#pragma unroll
        for (int i = 0; i < VEC; i += 2) {
            rfg_f32x2 two = rfg_pair(h[i], h[i + 1]);
            sum = LAYER ? rfg_add2(sum, two) : rfg_fma2(two, two, sum);
        }
        if (FUSED) {
            float w[VEC];
            if (WEIGHT != 2) {
                rfg_unpack(w, weights[c], IN_DTYPE);
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    h[i] *= WEIGHT == 1 ? 1.0f + w[i] : w[i];
            }
            *largest = rfg_max(*largest, rfg_chunk_max(h, IN_DTYPE));
        }
        PIECES_DONE();
    }
    return sum.x + sum.y;
}

/* The results of a chunk. */
RFG_DEVICE void results(const struct state *s, int c, int chunk, const rfg_u32x4 *kept, const rfg_u32x4 *weights,
                        float mean, float rstd, float *y)
{
    int left = left_of(s, chunk);
    float w[VEC], b[VEC];
    held(s, kept, c, chunk, y);
    if (WEIGHT != 2) {
        rfg_u32x4 v = zeroes();
        if (AHEAD)
            v = weights[c];
        else if (left > 0)
            v = rfg_load_chunk(s->args.weight, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, false);
        rfg_unpack(w, v, IN_DTYPE);
    }
    if (BIAS) {
        rfg_u32x4 v = zeroes();
        if (left > 0)
            v = rfg_load_chunk(s->args.bias, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, false);
        rfg_unpack(b, v, IN_DTYPE);
    }
#pragma unroll
    for (int i = 0; i < VEC; i += 2) {
        rfg_f32x2 f = rfg_pair(y[i], y[i + 1]);
        if (LAYER)
            f = rfg_add2(f, rfg_pair(-mean, -mean));
        f = rfg_mul2(f, rfg_pair(rstd, rstd));
        if (WEIGHT == 1)
            f = rfg_mul2(f, rfg_add2(rfg_pair(w[i], w[i + 1]), rfg_pair(1.0f, 1.0f)));
        else if (WEIGHT == 0)
            f = rfg_mul2(f, rfg_pair(w[i], w[i + 1]));
        if (BIAS)
            f = rfg_add2(f, rfg_pair(b[i], b[i + 1]));
        y[i] = THERE(i, left) ? f.x : 0.0f;
        y[i + 1] = THERE(i + 1, left) ? f.y : 0.0f;
    }
}

RFG_DEVICE void store(const struct state *s, int chunk, float *y, char *yp, char *qp, float inverse)
{
    int left = left_of(s, chunk);
    if (SCALE == RFG_SCALE_GROUP) {
        float largest = rfg_reduce_lanes(rfg_chunk_max(y, IN_DTYPE), RFG_GROUP_LANES(IN_DTYPE), true);
        float scale = rfg_scale_of(largest, OUT_DTYPE);
        inverse = rfg_rcp(scale);
        if (left > 0 && chunk % RFG_GROUP_LANES(IN_DTYPE) == 0)
            rfg_store_float(s->args.scale,
                            s->row * s->args.scale_row + chunk / RFG_GROUP_LANES(IN_DTYPE) * s->args.scale_col, scale,
                            RFG_F32);
    }
    if (left <= 0)
        return;
    if (PLAIN)
        rfg_store_chunk(yp, (rfg_u32)chunk * 16u, left, rfg_pack(y, IN_DTYPE), IN_DTYPE, WIDTH, STREAM != 0);
    if (SCALE != RFG_SCALE_NONE)
        rfg_store_codes(qp, (rfg_u32)(chunk * VEC), left, y, inverse, OUT_DTYPE, IN_DTYPE, WIDTH, STREAM != 0);
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(BLOCK, SPLIT)
#else /* a cluster of one would cost 0.1 us a launch */
RFG_KERNEL(BLOCK)
#endif
norm_rows(struct norm_args args)
{
    RFG_SHARED float part[SPLIT > 1 ? 3 : 2][PARTS];
    struct state s;
    s.args = args;
    s.sub = ROWS == 1             ? 0
            : THREADS >= RFG_WAVE ? rfg_wave() / (THREADS >= RFG_WAVE ? THREADS / RFG_WAVE : 1)
                                  : rfg_thread() / THREADS;
    s.t = rfg_thread() - s.sub * THREADS;
    s.slot = 0;
    rfg_start_next();
#if RFG_HAS_CLUSTER
    if (SPLIT > 1) {
        rfg_cluster_arrive();
        s.t += rfg_cluster_rank() * STEP;
    }
#endif
    int chunks = (int)(((rfg_u32)args.n + VEC - 1u) / VEC);
    int end = KEEP == 1 ? 1 : chunks; /* of steps' beginnings */
    s.lds_row = (chunks + STEP - 1) / STEP * STEP;

    rfg_u32x4 kept[CHUNKS], weights[CHUNKS];
    float inverse = 1.0f;
    if (AHEAD && WEIGHT != 2) {
        s.live = true;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int chunk = s.t + c * THREADS, left = left_of(&s, chunk);
            weights[c] = zeroes();
            if (left > 0)
                weights[c] = rfg_load_chunk(args.weight, (rfg_u32)chunk * 16u, left, IN_DTYPE, WIDTH, false);
        }
    }
    rfg_await_previous();
    if (SCALE == RFG_SCALE_STATIC)
        inverse = 1.0f / rfg_load_float(args.scale, 0, RFG_F32);

    for (long long base = (long long)(rfg_group_x() / SPLIT) * ROWS; base < args.m;
         base += (long long)(rfg_groups_x(BLOCK) / SPLIT) * ROWS) {
        float sum = 0.0f, mean = 0.0f, largest = 0.0f;
        s.row = base + s.sub;
        s.live = s.row < args.m;
        for (int at = 0; at < end; at += STEP)
            sum += first_pass(&s, at + s.t, kept, weights, &largest);
        sum = reduce(&s, sum, part, false);
        if (LAYER) {
            mean = sum * args.inverse_n;
            sum = 0.0f;
            for (int at = 0; at < end; at += STEP)
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    int chunk = at + s.t + c * THREADS, left = left_of(&s, chunk);
                    float h[VEC];
                    held(&s, kept, c, chunk, h);
#pragma unroll
                    for (int i = 0; i < VEC; i++) {
                        float d = THERE(i, left) ? h[i] - mean : 0.0f;
                        sum = rfg_fma(d, d, sum);
                    }
                    CHUNK_DONE();
                }
            sum = reduce(&s, sum, part, false);
        }
        float rstd = rfg_rsqrt(rfg_fma(sum, args.inverse_n, args.eps));
        if (SCALE == RFG_SCALE_TOKEN) {
            if (FUSED)
                largest *= rstd;
            for (int at = 0; at < end && !FUSED; at += STEP)
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    float y[VEC];
                    results(&s, c, at + s.t + c * THREADS, kept, weights, mean, rstd, y);
                    largest = rfg_max(largest, rfg_chunk_max(y, IN_DTYPE));
                    CHUNK_DONE();
                }
            largest = reduce(&s, largest, part, true);
            float scale = rfg_scale_of(largest, OUT_DTYPE);
            if (s.live && s.t == 0)
                rfg_store_float(args.scale, s.row * args.scale_row, scale, RFG_F32);
            inverse = 1.0f / scale;
        }
        char *yp = PLAIN ? row_of(&s, args.y, SIZE) : 0, *qp = SCALE != RFG_SCALE_NONE ? row_of(&s, args.q, 1) : 0;
        for (int at = 0; at < end; at += STEP)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                int chunk = at + s.t + c * THREADS;
                float y[VEC];
                results(&s, c, chunk, kept, weights, mean, rstd, y);
                store(&s, chunk, y, yp, qp, inverse);
                CHUNK_DONE();
            }
    }
}
