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
 * BIAS, RESIDUAL_F32, WEIGHT_F32 (defined: the residuals, or weight and bias, are f32 and x isn't), SCALE
 * (RFG_SCALE_*), ROUNDING (of mx: enum rfg_scale_rounding), PLAIN (0: codes only), HEADS (rows of rows), PACKED (rows
 * follow each other), ONCE (each row has its workgroup: ROWS = 1), WIDTH (bytes of a load), STREAM (1: results are not
 * worth caching; 2: nor are x and the residual), EXACT (a row is just CHUNKS * THREADS chunks), AHEAD (weights are
 * loaded before the first row and kept; KEEP = 1 only), THREADS (16, 32 or whole waves), ROWS, CHUNKS, KEEP, SPLIT (a
 * row is shared by that many workgroups, a cluster; KEEP = 1 and ROWS = 1 only, and one row a cluster), RANKS (defined:
 * x is the sum of all ranks' x, which they send each other as packets, see comm/comm.hip; KEEP = 1 and ONCE only). */
#include "rfg_device.h"
#include "norm/norm_args.h"
#ifdef RANKS
#define DTYPE IN_DTYPE
#include "rfg_peer.h"
#include "comm_args.h"
#include "rfg_packets.h"
#endif

#ifndef ROUNDING
#define ROUNDING RFG_SCALE_EXACT
#endif

#define VEC       RFG_DTYPE_VEC(IN_DTYPE)
#define SIZE      RFG_DTYPE_BYTES(IN_DTYPE)
#define BLOCK     (THREADS * ROWS)
#define ROW_WAVES (THREADS > RFG_WAVE ? THREADS / RFG_WAVE : 1)
#define STEP      (CHUNKS * THREADS)
#define PARTS     (ROWS * ROW_WAVES * SPLIT)
/* The largest |y| follows from the largest |h w|, which the first pass can find with the sum. */
#define FUSED (SCALE == RFG_SCALE_TOKEN && !LAYER && !BIAS && KEEP == 1 && (AHEAD || WEIGHT == 2))

#if defined(RESIDUAL_F32) || defined(WEIGHT_F32)
#define WIDE  1
#define PIECE (WIDTH < 4 ? 4 : WIDTH) /* bytes of a load of f32: WIDTH is one that its alignment allows */

/* The f32 elements that belong to a chunk of x; `at` are x's bytes. */
struct floats {
    rfg_u32x4 low, high;
};

RFG_DEVICE struct floats load_floats(const void *row, rfg_u32 at, int n, bool once)
{
    struct floats v;
    v.low = rfg_load_chunk(row, 2u * at, n, RFG_F32, PIECE, once);
    v.high = rfg_load_chunk(row, 2u * at + 16u, n - 4, RFG_F32, PIECE, once);
    return v;
}

RFG_DEVICE void unpack_floats(float *f, struct floats v)
{
    rfg_unpack(f, v.low, RFG_F32);
    rfg_unpack(f + 4, v.high, RFG_F32);
}

RFG_DEVICE struct floats no_floats(void)
{
    struct floats v;
    v.low.x = v.low.y = v.low.z = v.low.w = 0u;
    v.high = v.low;
    return v;
}
#else
#define WIDE 0
#endif

/* A chunk of what is normalised, as it is kept and as the residuals have it. */
#ifdef RESIDUAL_F32
#define H_SIZE         4
#define H              struct floats
#define no_h           no_floats
#define load_h         load_floats
#define unpack_h(f, v) unpack_floats(f, v)

RFG_DEVICE void store_h(void *row, rfg_u32 at, int n, H v, bool once)
{
    rfg_store_chunk(row, 2u * at, n, v.low, RFG_F32, PIECE, once);
    rfg_store_chunk(row, 2u * at + 16u, n - 4, v.high, RFG_F32, PIECE, once);
}

RFG_DEVICE H add_h(rfg_u32x4 x, H r)
{
    float f[VEC];
    rfg_unpack(f, x, IN_DTYPE);
    r.low = rfg_chunk_add(rfg_pack(f, RFG_F32), r.low, RFG_F32);
    r.high = rfg_chunk_add(rfg_pack(f + 4, RFG_F32), r.high, RFG_F32);
    return r;
}

RFG_DEVICE rfg_f32x2 sum_h(H v, rfg_f32x2 sum, bool squares)
{
    return rfg_chunk_sum(v.high, rfg_chunk_sum(v.low, sum, squares, RFG_F32), squares, RFG_F32);
}
#else
#define H_SIZE                       SIZE
#define H                            rfg_u32x4
#define no_h                         zeroes
#define load_h(row, at, n, once)     rfg_load_chunk(row, at, n, IN_DTYPE, WIDTH, once)
#define unpack_h(f, v)               rfg_unpack(f, v, IN_DTYPE)
#define store_h(row, at, n, v, once) rfg_store_chunk(row, at, n, v, IN_DTYPE, WIDTH, once)
#define add_h(x, r)                  rfg_chunk_add(x, r, IN_DTYPE)
#define sum_h(v, sum, squares)       rfg_chunk_sum(v, sum, squares, IN_DTYPE)
#endif
#define H_BYTES (16ll * H_SIZE / SIZE)

/* And of the weight or the bias. */
#ifdef WEIGHT_F32
#define W                  struct floats
#define W_BYTES            32ll
#define no_w               no_floats
#define load_w(row, at, n) load_floats(row, at, n, false)
#define unpack_w(f, v)     unpack_floats(f, v)
#else
#define W                  rfg_u32x4
#define W_BYTES            16ll
#define no_w               zeroes
#define load_w(row, at, n) rfg_load_chunk(row, at, n, IN_DTYPE, WIDTH, false)
#define unpack_w(f, v)     rfg_unpack(f, v, IN_DTYPE)
#endif

struct state {
    struct norm_args args;
    rfg_u32 row;
    bool live; /* is there such a row? */
    int t;     /* thread of the row */
    int sub;   /* row of the workgroup */
    int lds_row;
    int slot;           /* of the parts of reductions, by turns */
    rfg_u32 at[CHUNKS]; /* this thread's chunks: bytes from the step's beginning */
#ifdef RANKS
    struct comm_work ranks;
    bool joined; /* the communicator isn't broken */
#endif
};

/* At the beginning of each pass over a step: see rfg_anew(). */
RFG_DEVICE void renew(struct state *s)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        s->at[c] = rfg_anew(s->at[c]);
}

/* N, which is known if EXACT. */
RFG_DEVICE int row_length(const struct state *s)
{
    return EXACT ? SPLIT * STEP * VEC : s->args.n;
}

/* The row's first element, of `size` bytes. */
RFG_DEVICE char *row_of(const struct state *s, struct norm_rows r, int size)
{
    char *p = (char *)r.data;
    if (PACKED && (size == SIZE || size == H_SIZE)) /* not of codes */
        p += s->row * (long long)row_length(s) * size;
    else if (HEADS) {
        rfg_u32 outer = s->row / (rfg_u32)s->args.heads;
        p += ((long long)outer * r.ld + (long long)(s->row - outer * (rfg_u32)s->args.heads) * r.ld_inner) * size;
    } else
        p += s->row * r.ld * size;
    return THREADS >= RFG_WAVE ? rfg_uniform(p) : p;
}

/* Elements of the row from a chunk on: above 0 if the chunk is there. */
RFG_DEVICE int left_of(const struct state *s, int chunk)
{
    if (EXACT)
        return ROWS == 1 || s->live ? VEC : 0;
    return s->live ? row_length(s) - chunk * VEC : 0;
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

RFG_DEVICE void hold(const struct state *s, H *kept, int c, int chunk, H v)
{
    if (KEEP == 1)
        kept[c] = v;
    else if (KEEP == 2)
        ((H *)rfg_lds)[s->sub * s->lds_row + chunk] = v;
}

/* Chunk c of the step that begins with chunk `step`. */
RFG_DEVICE H held(const struct state *s, const H *kept, int c, int step)
{
    int chunk = step + s->t + c * THREADS;
    H v = no_h();
    if (KEEP == 1)
        v = kept[c];
    else if (KEEP == 2)
        v = ((const H *)rfg_lds)[s->sub * s->lds_row + chunk];
    else {
        struct norm_rows r = ADD ? s->args.residual_out : s->args.x;
        int left = left_of(s, chunk);
        if (left > 0)
            v = load_h(row_of(s, r, H_SIZE) + step * H_BYTES, s->at[c], left, false);
    }
    return v;
}

RFG_DEVICE float reduce(struct state *s, float v, float (*part)[PARTS], bool largest)
{
#if SPLIT > 1
    if (!s->slot) /* the others run: see rfg_cluster_arrive() */
        rfg_cluster_wait();
    return rfg_cluster_reduce(v, part[s->slot++], ROW_WAVES, SPLIT, largest);
#else
    if (THREADS <= RFG_WAVE)
        return rfg_reduce_lanes(v, THREADS, largest);
    s->slot ^= 1;
    return rfg_group_reduce(v, part[s->slot] + s->sub * ROW_WAVES, ROW_WAVES, rfg_wave() - s->sub * ROW_WAVES, largest);
#endif
}

#ifdef RANKS
RFG_DEVICE bool comm_sends(const struct comm_work *w, int r, int phase, long long c)
{
    (void)w, (void)r, (void)phase, (void)c;
    return true;
}

/* x becomes the sum of all ranks' x. */
RFG_DEVICE void sum_ranks(struct state *s, rfg_u32x4 *x)
{
    const struct comm_work *w = &s->ranks;
    const long long first = (long long)s->row * ((row_length(s) + VEC - 1) / VEC);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int chunk = s->t + c * THREADS;
        for (int i = 1; i < RANKS; i++)
            if (s->joined && left_of(s, chunk) > 0)
                comm_send(w, comm_peer(w, i), 0, first + chunk, x[c]);
    }
    comm_end_reading(w, rfg_groups_x(BLOCK));
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int chunk = s->t + c * THREADS;
        rfg_u32x4 v[RANKS];
        if (!s->joined || left_of(s, chunk) <= 0)
            continue;
#pragma unroll
        for (int r = 0; r < RANKS; r++)
            if (r == w->a->rank)
                v[r] = x[c];
        s->joined = comm_receive(w, 0, first + chunk, v);
        x[c] = comm_sum(v);
    }
}
#endif

/* Loads a step's chunks, adds the residual, keeps what is normalised, and returns the sum of it or of its squares. */
RFG_DEVICE float first_pass(struct state *s, int step, H *kept, const W *weights, float *largest)
{
    rfg_u32x4 x[CHUNKS];
    H r[CHUNKS];
    const char *xp = row_of(s, s->args.x, SIZE) + step * 16ll, *rp = xp;
    char *op = 0;
    if (ADD) {
        rp = row_of(s, s->args.residual, H_SIZE) + step * H_BYTES;
        op = row_of(s, s->args.residual_out, H_SIZE) + step * H_BYTES;
    }
    renew(s);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int left = left_of(s, step + s->t + c * THREADS);
        x[c] = zeroes();
        r[c] = no_h();
        if (left > 0) {
            x[c] = rfg_load_chunk(xp, s->at[c], left, IN_DTYPE, WIDTH, STREAM == 2);
            if (ADD)
                r[c] = load_h(rp, s->at[c], left, STREAM == 2);
        }
        PIECES_DONE();
    }
#ifdef RANKS
    sum_ranks(s, x);
#endif
    rfg_f32x2 sum = rfg_pair(0.0f, 0.0f);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int chunk = step + s->t + c * THREADS, left = left_of(s, chunk);
#if ADD
        H v = add_h(x[c], r[c]);
        if (left > 0)
            store_h(op, s->at[c], left, v, STREAM != 0 && KEEP);
#else
        H v = x[c];
#endif
        hold(s, kept, c, chunk, v);
        sum = sum_h(v, sum, !LAYER);
        if (FUSED) {
            float h[VEC], w[VEC];
            unpack_h(h, v);
            if (WEIGHT != 2) {
                unpack_w(w, weights[c]);
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

/* Two results of fp16, of h and a weight as they are. */
RFG_DEVICE rfg_u32 results_f16x2(rfg_u32 h, rfg_u32 w, float rstd)
{
    rfg_f32x2 f = rfg_mul_f16x2(h, rstd);
    return WEIGHT == 2 ? rfg_pack_f16(f.x, f.y) : WEIGHT == 1 ? rfg_pack_fma_f16x2(f, w, f) : rfg_pack_mul_f16x2(f, w);
}

/* The results of a chunk: as they are stored, and with scales in y as well. */
RFG_DEVICE rfg_u32x4 results(const struct state *s, int c, int step, const H *kept, const W *weights, float mean,
                             float rstd, float *y)
{
    int left = left_of(s, step + s->t + c * THREADS);
    float w[VEC], b[VEC];
    H hv = held(s, kept, c, step);
    W wv = no_w(), bv = no_w();
    if (WEIGHT != 2) {
        if (AHEAD)
            wv = weights[c];
        else if (left > 0)
            wv = load_w((const char *)s->args.weight + step * W_BYTES, s->at[c], left);
    }
    if (BIAS && left > 0)
        bv = load_w((const char *)s->args.bias + step * W_BYTES, s->at[c], left);
#if !WIDE
    if (RFG_F16_WORDS && IN_DTYPE == RFG_F16 && SCALE == RFG_SCALE_NONE && !LAYER && !BIAS) {
        hv.x = results_f16x2(hv.x, wv.x, rstd);
        hv.y = results_f16x2(hv.y, wv.y, rstd);
        hv.z = results_f16x2(hv.z, wv.z, rstd);
        hv.w = results_f16x2(hv.w, wv.w, rstd);
        return hv;
    }
#endif
    unpack_h(y, hv);
    unpack_w(w, wv);
    unpack_w(b, bv);
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
#if WIDE /* a NaN of f32 may have any lower half: see rfg_pack_bf16() */
        f.x = f.x == f.x ? f.x : rfg_as_float(0x7fc00000u);
        f.y = f.y == f.y ? f.y : rfg_as_float(0x7fc00000u);
#endif
        y[i] = SCALE == RFG_SCALE_NONE || THERE(i, left) ? f.x : 0.0f;
        y[i + 1] = SCALE == RFG_SCALE_NONE || THERE(i + 1, left) ? f.y : 0.0f;
    }
    return rfg_pack(y, IN_DTYPE);
}

RFG_DEVICE void store(const struct state *s, int c, int step, rfg_u32x4 plain, float *y, char *yp, char *qp,
                      float inverse)
{
    int chunk = step + s->t + c * THREADS, left = left_of(s, chunk);
    if (RFG_IS_GROUPED(SCALE))
        inverse = rfg_group_inverse(s->args.scale, s->row * s->args.scale_row, s->args.scale_col, chunk, left > 0, y,
                                    SCALE, ROUNDING, OUT_DTYPE, IN_DTYPE);
    if (left <= 0)
        return;
    if (PLAIN)
        rfg_store_chunk(yp + step * 16ll, s->at[c], left, plain, IN_DTYPE, WIDTH, STREAM != 0);
    if (SCALE != RFG_SCALE_NONE)
        rfg_store_codes(qp + (long long)step * VEC / (RFG_IS_4_BITS(OUT_DTYPE) ? 2 : 1), s->at[c] / SIZE, left, y,
                        inverse, OUT_DTYPE, IN_DTYPE, WIDTH, STREAM != 0);
}

#if SPLIT > 1
RFG_KERNEL_CLUSTER(BLOCK, SPLIT)
#else /* a cluster of one would cost 0.1 us a launch */
RFG_KERNEL(BLOCK)
#endif
#ifdef RANKS
norm_rows(struct norm_args args, struct comm_args comm)
#else
norm_rows(struct norm_args args)
#endif
{
    RFG_SHARED float part[SPLIT > 1 ? 3 : 2][PARTS];
    struct state s;
    s.args = args;
#ifdef RANKS
    s.ranks.a = &comm;
    s.joined = comm_enter(&s.ranks);
#endif
    if (PACKED) {
        s.args.x.data = args.packed.x;
        s.args.residual.data = args.packed.residual;
        s.args.residual_out.data = args.packed.residual_out;
        s.args.y.data = args.packed.y;
        s.args.weight = args.packed.weight;
        s.args.n = args.packed.n;
        s.args.eps = args.packed.eps;
    }
    if (EXACT)
        s.args.inverse_n = 1.0f / (float)row_length(&s);
    s.sub = ROWS == 1             ? 0
            : THREADS >= RFG_WAVE ? rfg_wave() / (THREADS >= RFG_WAVE ? THREADS / RFG_WAVE : 1)
                                  : rfg_thread() / THREADS;
    s.t = rfg_thread() - s.sub * THREADS;
    s.slot = 0;
    rfg_start_next();
#if SPLIT > 1
    rfg_cluster_arrive();
    s.t += rfg_cluster_rank() * STEP;
#endif
    int chunks = (int)(((rfg_u32)row_length(&s) + VEC - 1u) / VEC);
    int end = KEEP == 1 ? 1 : chunks; /* of steps' beginnings */
    s.lds_row = (chunks + STEP - 1) / STEP * STEP;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        s.at[c] = (rfg_u32)(s.t + c * THREADS) * 16u;

    struct norm_rows q = args.q; /* strides in bytes */
    if (RFG_IS_4_BITS(OUT_DTYPE)) {
        q.ld /= 2;
        q.ld_inner /= 2;
    }
    H kept[CHUNKS];
    W weights[CHUNKS];
    float inverse = 1.0f;
    if (AHEAD && WEIGHT != 2) {
        s.live = true;
        renew(&s);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int left = left_of(&s, s.t + c * THREADS);
            weights[c] = no_w();
            if (left > 0)
                weights[c] = load_w(s.args.weight, s.at[c], left);
        }
    }
    rfg_await_previous();
    if (SCALE == RFG_SCALE_STATIC)
        inverse = 1.0f / rfg_load_float(args.scale, 0, RFG_F32);

    for (rfg_u32 base = (rfg_u32)(rfg_group_x() / SPLIT) * ROWS; ONCE || base < (rfg_u32)args.m;
         base += (rfg_u32)(rfg_groups_x(BLOCK) / SPLIT) * ROWS) {
        float sum = 0.0f, mean = 0.0f, largest = 0.0f;
        s.row = base + (rfg_u32)s.sub;
        s.live = ONCE || s.row < (rfg_u32)args.m;
        for (int step = 0; step < end; step += STEP) {
            float part_sum = first_pass(&s, step, kept, weights, &largest);
            sum = KEEP == 1 ? part_sum : sum + part_sum;
        }
        sum = reduce(&s, sum, part, false);
        if (LAYER) {
            mean = sum * s.args.inverse_n;
            sum = 0.0f;
            for (int step = 0; step < end; step += STEP) {
                renew(&s);
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    int left = left_of(&s, step + s.t + c * THREADS);
                    float h[VEC];
                    unpack_h(h, held(&s, kept, c, step));
#pragma unroll
                    for (int i = 0; i < VEC; i++) {
                        float d = THERE(i, left) ? h[i] - mean : 0.0f;
                        sum = rfg_fma(d, d, sum);
                    }
                    CHUNK_DONE();
                }
            }
            sum = reduce(&s, sum, part, false);
        }
        float rstd = rfg_rsqrt(rfg_fma(sum, s.args.inverse_n, s.args.eps));
        if (SCALE == RFG_SCALE_TOKEN) {
            if (FUSED)
                largest *= rstd;
            for (int step = 0; step < end && !FUSED; step += STEP) {
                renew(&s);
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) {
                    float y[VEC];
                    (void)results(&s, c, step, kept, weights, mean, rstd, y);
                    largest = rfg_max(largest, rfg_chunk_max(y, IN_DTYPE));
                    CHUNK_DONE();
                }
            }
            largest = reduce(&s, largest, part, true);
            float scale = rfg_scale_of(largest, OUT_DTYPE);
            if (s.live && s.t == 0)
                rfg_store_float(args.scale, s.row * args.scale_row, scale, RFG_F32);
            inverse = 1.0f / scale;
        }
        char *yp = PLAIN ? row_of(&s, s.args.y, SIZE) : 0, *qp = SCALE != RFG_SCALE_NONE ? row_of(&s, q, 1) : 0;
        for (int step = 0; step < end; step += STEP) {
            renew(&s);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float y[VEC];
                rfg_u32x4 plain = results(&s, c, step, kept, weights, mean, rstd, y);
                store(&s, c, step, plain, y, yp, qp, inverse);
                CHUNK_DONE();
            }
        }
        if (ONCE)
            break;
    }
}
