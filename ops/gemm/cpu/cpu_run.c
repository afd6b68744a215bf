/* SPDX-License-Identifier: MIT
 *
 * The blocking of the cpu's gemm around its inner kernels, as cpu.c describes it. */
#include <pthread.h>
#include <string.h>

#include "cpu_run.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/slots.h"

#define ROWS_AHEAD 1024 /* bytes */

struct job {
    const struct cpu_isa *isa;
    const struct gemm_args *a;
    const struct rfg_problem *prob;
    struct tiling t;
    int rows, cols;
    enum cpu_prefetch prefetch;
    struct packed *packed; /* by worker, at the start of the workspace; then their tiles */
    char *tiles;
    const float *values[2]; /* of X's and of W's codes, or NULL */
};

/* A tile's rows of X are packed in panels of at most `cols` rows, of nearly the same height. */
static int panel_height(const struct job *j, int64_t m)
{
    return (int)ceil_div(m, ceil_div(m, j->cols));
}

/* What the 256 codes of a format stand for; of 4 bits, the 16. */
static float code_values[RFG_E2M1 + 1][256];
static pthread_once_t code_once = PTHREAD_ONCE_INIT;

static void code_init(void)
{
    for (int dtype = RFG_E4M3; dtype <= RFG_E2M1; dtype++)
        for (int i = 0; i < 256 && (rfg_dtype_is_code(dtype) || rfg_dtype_is_4_bits(dtype)); i++) {
            const struct rfg_format *f = rfg_format(dtype);
            uint8_t code = (uint8_t)i;
            double v[2]; /* of a byte of 4 bits there are two */
            f->decode(f, &code, v);
            code_values[dtype][i] = (float)v[0];
        }
}

static const float *values_of(int dtype)
{
    pthread_once(&code_once, code_init);
    return code_values[dtype];
}

/* Where row m of X and row n of W are. */
static int64_t x_place(const struct job *j, int64_t m)
{
    if (!j->t.gathered)
        return m;
    int64_t row = (uint32_t)j->a->rows[m];
    return min64(row, j->a->x_rows - 1); /* whatever is there */
}
static int64_t w_place(const struct job *j, int64_t n)
{
    return j->t.halves ? n % 2 * (j->a->n / 2) + n / 2 : n;
}

/* A row of numbers of 4 bits. Its g-th group, of which the last may be shorter, has scale, and zero point, number first +
 * g step. */
struct row_4 {
    const char *codes; /* the row's, or, prepacked, all rows' */
    int64_t row, cols; /* prepacked: which one it is, and columns of all; else cols is 0 */
    int64_t group, first, step;
    const struct rfg_format *scale;
    const char *scales;
    const int8_t *zeros; /* or NULL */
};

/* Makes r that of a prepacked W. */
static void prepacked_row(const struct job *j, struct row_4 *r, int64_t row)
{
    int64_t cols = gemm_w_cols(j->prob);
    r->codes = j->a->w;
    r->row = row;
    r->cols = cols;
    r->first = PREPACKED4_GROUP_AT(row, 0, ceil_div(cols, r->group));
    r->step = PREPACK_ROWS;
}

/* The scales, and zero points, of n columns from k on, each `each` after the one before. */
static void take_scales(const struct row_4 *r, int64_t k, int64_t each, int64_t n, float *scales, float *zeros)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = r->first + (k + i * each) / r->group * r->step;
        double scale;
        r->scale->decode(r->scale, r->scales + at * r->scale->bytes, &scale);
        scales[i] = (float)scale;
        zeros[i] = r->zeros ? r->zeros[at] : 0;
    }
}

/* By rows: a group's words, and what is left of one. */
static void decode_4_rows(const struct job *j, float *to, const struct row_4 *r, struct cpu_codes_4 *c, float *scale,
                          float *zero)
{
    for (int64_t k = 0; k < j->a->k; k += r->group) {
        int64_t here = min64(r->group, j->a->k - k), words = here / 8, left = here % 8;
        const char *from = r->codes + k / 2;
        take_scales(r, k, 0, 1, scale, zero);
        c->words = words + 1;
        j->isa->decode_4(to + k, from, words, 8, c);
        if (left) {
            char word[4] = { 0 };
            float last[8];
            memcpy(word, from + words * 4, (size_t)left / 2);
            j->isa->decode_4(last, word, 1, 8, c);
            memcpy(to + k + words * 8, last, (size_t)left * sizeof(*last));
        }
    }
}

static void decode_4(const struct job *j, float *to, const struct row_4 *r, const float *values)
{
    float scales[PREPACK4_COLS / 32], zeros[PREPACK4_COLS / 32];
    struct cpu_codes_4 c = { .words = 1, .scale = scales, .zero = zeros };
    memcpy(c.values, values, sizeof(c.values));
    for (int e = 0; e < 8; e++)
        c.shift[e] = r->cols ? 4 * (e / 2 + 4 * (e % 2)) : 4 * e;
    if (!r->cols) {
        decode_4_rows(j, to, r, &c, scales, zeros);
        return;
    }
    for (int64_t k = 0; k < j->a->k; k += PREPACK4_COLS, to += PREPACK4_COLS) {
        int64_t parts = min64(PREPACK4_COLS, j->a->k - k) / 32;
        for (int e = 0; e < 32; e += 8) { /* a chunk has eight columns of every 32: prepack_layout.h */
            if (e == 0 || (e == 16 && r->group % 32))
                take_scales(r, k + e, 32, parts, scales, zeros);
            j->isa->decode_4(to + e, r->codes + PREPACKED4_AT(r->row, k + e, r->cols) / 2, parts, 32, &c);
        }
    }
}

/* The scale of a row of X or of W that has one, or of all. */
static float row_scale(const struct job *j, bool of_x, int64_t row)
{
    const struct gemm_args *a = j->a;
    const struct rfg_format *s = rfg_format((int)j->prob->v[of_x ? GEMM_X_SCALE : GEMM_W_SCALE]);
    double scale = 1;
    int64_t at = of_x ? x_place(j, row) * a->x_scale_row : w_place(j, row) * a->w_scale_row;
    if (s)
        s->decode(s, (const char *)(of_x ? a->x_scale : a->w_scale) + at * s->bytes, &scale);
    return (float)scale;
}

/* A row of codes of X or of W, times its scales. */
static void decode_codes(const struct job *j, bool of_x, int64_t row, float *to)
{
    const struct gemm_args *a = j->a;
    row = of_x ? x_place(j, row) : w_place(j, row);
    int dtype = j->prob->dtype[!of_x];
    bool blocks = gemm_scales(j->prob) == GEMM_SCALES_BLOCKS, groups = gemm_scales(j->prob) == GEMM_SCALES_GROUPS;
    const char *codes = of_x ? a->x : a->w, *scales = of_x ? a->x_scale : a->w_scale;
    const struct rfg_format *s = rfg_format((int)j->prob->v[of_x ? GEMM_X_SCALE : GEMM_W_SCALE]);
    int64_t group = j->prob->v[GEMM_W_GROUP]; /* blocks of one row */
    int64_t at = of_x ? row * a->x_scale_row : (blocks && !group ? row / GEMM_SCALE_BLOCK : row) * a->w_scale_row;
    int64_t step = of_x ? a->x_scale_col : a->w_scale_col, start = row * (of_x ? a->ldx : a->ldw);
    if (rfg_dtype_is_4_bits(dtype)) {
        struct row_4 r = { codes + start / 2, row, 0, GEMM_SCALE_GROUP, at, step, s, scales, NULL };
        if (!of_x && j->t.prepacked)
            prepacked_row(j, &r, row);
        decode_4(j, to, &r, j->values[!of_x]);
        return;
    }
    int64_t block = group ? group : blocks ? GEMM_SCALE_BLOCK : groups ? GEMM_SCALE_GROUP : a->k;
    for (int64_t k = 0; k < a->k; k += block, at += step) {
        double scale = 1;
        if (s)
            s->decode(s, scales + at * s->bytes, &scale);
        bool chunks = !of_x && j->t.prepacked;
        int64_t here = min64(block, a->k - k), each = chunks ? PREPACK8_CHUNK : here;
        for (int64_t e = k; e < k + here; e += each) {
            int64_t code = chunks ? prepacked8_at(row, e, a->k) : start + e;
            j->isa->decode_8(to + e, (const uint8_t *)codes + code, each, (float)scale, j->values[!of_x], dtype);
        }
    }
}

/* What a tile's rows of int8 need besides: see cpu_i8.h. */
static void pack_sums(const struct job *j, struct packed *packed, int64_t m0, int64_t m)
{
    for (int64_t i = 0; i < m; i++) {
        const int8_t *x = (const int8_t *)j->a->x + x_place(j, m0 + i) * j->a->ldx;
        int32_t sum = 0;
        for (int64_t k = 0; k < j->a->k; k++)
            sum += x[k];
        packed->begin[i] = -128u * (uint32_t)sum;
        packed->scale[i] = row_scale(j, true, m0 + i);
    }
}

static char *pack_tile(const struct job *j, int64_t tile, int worker)
{
    char *to = j->tiles + (size_t)worker * worker_bytes(&j->t);
    struct packed *packed = &j->packed[worker];
    if (packed->tile == tile || j->a->k == 0)
        return to;
    packed->tile = tile;
    packed->min_x = 0xffff;
    int64_t m0 = tile * j->t.m_tile, m = min64(j->t.m_tile, j->a->m - m0);
    int height = panel_height(j, m);
    if (j->t.kind == CPU_I8_DOT)
        pack_sums(j, packed, m0, m);
    for (int64_t at = 0; at < m; at += height) {
        int cols = (int)min64(height, m - at);
        size_t stride = (size_t)j->a->ldx * (size_t)j->t.element;
        const char *from = (const char *)j->a->x + (size_t)(m0 + at) * stride;
        if (j->t.x_bytes) {
            char *rows = to + j->t.tile_bytes + j->t.acc_bytes + j->t.strip_bytes;
            size_t bytes = (size_t)j->a->k * (j->t.decoded ? sizeof(float) : (size_t)j->t.element);
            for (int64_t i = 0; i < cols; i++) {
                char *row = rows + (size_t)i * bytes;
                const char *x = (const char *)j->a->x + (size_t)x_place(j, m0 + at + i) * stride;
                if (j->t.decoded && gemm_is_codes(j->prob))
                    decode_codes(j, true, m0 + at + i, (float *)(void *)row);
                else if (j->t.decoded && j->t.element == 2)
                    j->isa->widen((float *)(void *)row, x, j->a->k, j->prob->dtype[0]);
                else
                    memcpy(row, x, bytes);
            }
            from = rows;
            stride = bytes;
        }
        uint16_t smallest = j->isa->pack[j->t.kind](to + (size_t)at * j->t.row_bytes, from, stride, cols, j->a->k);
        if (smallest < packed->min_x)
            packed->min_x = smallest;
    }
    return to;
}

/* `rows` rows of a prepacked W from n0 on, the first of its block. */
static void unpack_strip(const struct job *j, int64_t n0, int64_t rows, char *to)
{
    const char *from = (const char *)j->a->w + (size_t)prepacked_at(n0, 0, j->a->k) * 2;
    for (int64_t k = 0; k < j->a->k; k += PREPACK_CHUNK, from += 2 * PREPACK_CHUNK * PREPACK_ROWS)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + (size_t)(r * j->a->k + k) * 2, from + r * 2 * PREPACK_CHUNK, 2 * PREPACK_CHUNK);
}

/* `rows` rows of W from n0 on, as fp32. */
static void decode_strip(const struct job *j, int64_t n0, int64_t rows, float *to)
{
    const struct gemm_args *a = j->a;
    if (gemm_w_has_per(j->prob)) {
        for (int64_t i = 0; i < rows; i++)
            decode_codes(j, false, n0 + i, to + i * a->k);
        return;
    }
    if (gemm_w_is_4_bits(j->prob)) {
        int64_t group = j->prob->v[GEMM_W_GROUP];
        for (int64_t i = 0; i < rows; i++) {
            int64_t n = w_place(j, n0 + i);
            struct row_4 r = { .codes = (const char *)a->w + n * a->ldw / 2,
                               .row = n,
                               .group = group,
                               .first = n * ceil_div(a->k, group),
                               .step = 1,
                               .scale = rfg_format((int)j->prob->v[GEMM_W_SCALE]),
                               .scales = a->w_scale,
                               .zeros = j->prob->v[GEMM_W_ZERO] ? a->w_zero : NULL };
            if (j->t.prepacked)
                prepacked_row(j, &r, n);
            decode_4(j, to + i * a->k, &r, j->values[1]);
        }
        return;
    }
    int dtype = j->prob->dtype[1];
    const struct rfg_format *w = rfg_format(dtype), *s = rfg_format((int)j->prob->v[GEMM_W_SCALE]);
    int64_t group = s ? j->prob->v[GEMM_W_GROUP] : a->k, groups = s ? a->k / group : 0;
    double values[RFG_FORMAT_MAX_ELEMENTS], scale = 1;
    for (int64_t i = n0; i < n0 + rows; i++) {
        int64_t n = w_place(j, i);
        const char *from = (const char *)a->w + rfg_format_bytes(dtype, n * a->ldw);
        for (int64_t k = 0; k < a->k; k++) {
            if (s && k % group == 0)
                s->decode(s, (const char *)a->w_scale + (n * groups + k / group) * s->bytes, &scale);
            if (k % w->elements == 0)
                w->decode(w, from + k / w->elements * w->bytes, values);
            *to++ = (float)(values[k % w->elements] * scale);
        }
    }
}

/* acc[rows][m] = `rows` rows of W from n0 on, which begin at w, times the packed tile of m rows; the task goes on to
 * row `end`. Returns the smallest magnitude of W's. begin: what CPU_I8_DOT's sums begin with. */
static uint16_t multiply(const struct job *j, enum cpu_kind kind, int most, const char *tile, int64_t m, const char *w,
                         int64_t n0, int64_t rows, int64_t end, const uint32_t *begin, float *acc)
{
    int height = panel_height(j, m), lanes = j->isa->lanes;
    size_t stride = (size_t)(j->t.strip_bytes ? j->a->k : j->a->ldw) * (size_t)j->t.w_element;
    struct cpu_block b = { .w_stride = stride, .acc_stride = (size_t)m * (size_t)lanes, .min_w = 0xffff };
    memset(acc, 0, (size_t)rows * b.acc_stride * sizeof(float));
    if (j->a->k == 0)
        return b.min_w;
    for (int64_t i = 0; kind == CPU_I8_DOT && i < rows * m; i++) /* in the first lane of each */
        memcpy(acc + i * lanes, &begin[i % m], sizeof(*begin));
    const char *next = w + (size_t)rows * stride, *next_end = next + (size_t)min64(rows, end - n0 - rows) * stride;
    int64_t panels = ceil_div(m, height), share = panels < 2 ? 1 : panels < 4 ? 2 : 4;
    enum cpu_pace pace = share == 1 ? CPU_PACE_FULL : share == 2 ? CPU_PACE_HALF : CPU_PACE_QUARTER;
    size_t group_bytes = (size_t)(j->isa->group * j->t.w_element);
    for (int64_t k0 = 0; k0 < j->a->k; k0 += j->t.k_block) {
        b.k = min64(j->t.k_block, j->a->k - k0);
        for (int64_t panel = 0, at = 0; at < m; at += height, panel++) {
            int cols = (int)min64(height, m - at), step;
            b.x = tile + (size_t)at * j->t.row_bytes +
                  (size_t)k0 * (j->t.row_bytes / (size_t)j->t.padded_k) * (size_t)cols;
            for (int64_t r = 0; r < rows; r += step) {
                for (step = most; step > rows - r; step /= 2)
                    ;
                b.w = w + (size_t)r * stride + (size_t)k0 * (size_t)j->t.w_element;
                b.acc = acc + (size_t)r * b.acc_stride + (size_t)(at * lanes);
                b.pace = CPU_PACE_NONE;
                if (j->prefetch == CPU_PREFETCH_NEXT && next < next_end) {
                    b.pace = pace;
                    b.ahead = next;
                    b.ahead_stride = group_bytes;
                    b.ahead_step = (size_t)step * group_bytes / (size_t)share;
                } else if (j->prefetch == CPU_PREFETCH_ROWS && panel < share) {
                    /* Each panel fetches some of the rows. Without k_block: a little ahead of where they are read;
                     * with k_block: what the next range of k will need, or the next strip's first. */
                    b.pace = pace;
                    b.ahead_stride = stride;
                    b.ahead_step = group_bytes;
                    b.ahead = b.w + (size_t)(panel * step / share) * stride;
                    if (j->t.k_block >= j->a->k)
                        b.ahead += ROWS_AHEAD;
                    else if (k0 + j->t.k_block < j->a->k)
                        b.ahead += j->t.k_block * j->t.w_element;
                    else
                        b.ahead += (size_t)rows * stride - (size_t)k0 * (size_t)j->t.w_element;
                }
                j->isa->kernel[kind][__builtin_ctz((unsigned)step)][cols - 1](&b);
                if (j->prefetch == CPU_PREFETCH_NEXT && b.pace != CPU_PACE_NONE)
                    next = b.ahead;
            }
        }
    }
    return b.min_w;
}

/* vdpbf16ps takes denormals as zero and flushes denormal results. No product of X and W is smaller than that of their
 * smallest nonzero magnitudes, and every sum is a multiple of that product's last bit, 15 below its first: none of
 * these can be denormal if the product is at least 2^-100. */
static bool dot_is_exact(uint16_t min_x, uint16_t min_w)
{
    int x = (min_x + 1) >> 8, w = (min_w + 1) >> 8; /* biased exponents; 0: denormal; 0xffff + 1: no nonzero element */
    return x > 0 && w > 0 && x - 127 + w - 127 >= -100;
}

/* Row n of the product, its bias and weights; acc: the accumulators of the strip, whose first row is n0; scale: of X's
 * rows, for CPU_I8_DOT. */
static void sum_row(const struct job *j, int64_t m0, int64_t m, int64_t n0, int64_t n, const float *acc,
                    const float *scale, float *sums)
{
    j->isa->sum(sums, acc + (n - n0) * m * j->isa->lanes, m);
    if (j->t.kind == CPU_I8_DOT && j->a->k) {
        float of_w = row_scale(j, false, n);
        for (int64_t i = 0; i < m; i++)
            sums[i] = sums[i] * scale[i] * of_w;
    }
    for (int64_t i = 0; i < m && j->prob->v[GEMM_W_GLOBAL]; i++)
        sums[i] *= *j->a->w_global;
    float bias = j->a->bias ? rfg_float_get(j->a->bias, gemm_bias_dtype(j->prob), w_place(j, n)) : 0;
    for (int64_t i = 0; i < m && j->a->bias; i++)
        sums[i] += bias;
    for (int64_t i = 0; i < m && j->a->weights; i++)
        sums[i] *= j->a->weights[m0 + i];
}

/* Column n of Y, of codes. */
static void store_codes(const struct job *j, int64_t m0, int64_t m, int64_t n, const float *sums)
{
    float row[MAX_TILE], scale = *j->a->y_scale;
    uint8_t codes[MAX_TILE];
    struct rfg_cpu_act r = { .out = { .n = m,
                                      .dtype = RFG_F32,
                                      .q = codes,
                                      .q_dtype = j->prob->dtype[2],
                                      .scale_kind = RFG_SCALE_STATIC,
                                      .scale = &scale,
                                      .row = row },
                             .a = (const char *)sums,
                             .act = RFG_ACT_NONE };
    j->isa->rows->act(&r);
    for (int64_t i = 0; i < m; i++)
        ((uint8_t *)j->a->y)[(m0 + i) * j->a->ldy + n] = codes[i];
}

static void store(const struct job *j, int64_t m0, int64_t m, int64_t n0, int64_t rows, const float *acc,
                  const float *scale)
{
    const struct gemm_args *a = j->a;
    int dtype_y = j->prob->dtype[2], gated = (int)j->prob->v[GEMM_GATED], step = gated ? 2 : 1;
    for (int64_t n = n0; n < n0 + rows; n += step) {
        float sums[MAX_TILE], ups[MAX_TILE];
        sum_row(j, m0, m, n0, n, acc, scale, sums);
        if (gated) {
            sum_row(j, m0, m, n0, n + 1, acc, scale, ups);
            struct rfg_cpu_act r = { .out = { .n = m, .dtype = RFG_F32, .y = (char *)sums },
                                     .a = (const char *)sums,
                                     .b = (const char *)ups,
                                     .act = gated - 1,
                                     .alpha = a->alpha,
                                     .limit = a->limit,
                                     .linear_beta = rfg_gate_linear_beta(a->linear_beta) };
            j->isa->rows->act(&r);
        }
        if (gemm_y_is_codes(j->prob)) {
            store_codes(j, m0, m, n / step, sums);
            continue;
        }
        for (int64_t i = 0; i < m; i++) {
            if (a->residual)
                sums[i] += rfg_float_get(a->residual, dtype_y, (m0 + i) * a->ldr + n);
            rfg_float_put(a->y, dtype_y, (m0 + i) * a->ldy + n / step, sums[i]);
        }
    }
}

static void run_task(void *ctx, int task, int worker)
{
    const struct job *j = ctx;
    int64_t tile_index = task % j->t.m_tiles, chunk = task / j->t.m_tiles;
    int64_t m0 = tile_index * j->t.m_tile, m = min64(j->t.m_tile, j->a->m - m0);
    int64_t n = chunk * j->t.n_chunk, end = min64(n + j->t.n_chunk, j->a->n), rows;
    const char *tile = pack_tile(j, tile_index, worker);
    const struct packed *packed = &j->packed[worker];
    char *mine = j->tiles + (size_t)worker * worker_bytes(&j->t);
    float *acc = (float *)(void *)(mine + j->t.tile_bytes);
    char *strip = mine + j->t.tile_bytes + j->t.acc_bytes;
    for (; n < end; n += rows) {
        const char *w = (const char *)j->a->w;
        rows = min64(j->t.strip, end - n);
        if (j->t.decoded) {
            decode_strip(j, n, rows, (float *)(void *)strip);
            w = strip;
        } else if (j->t.prepacked) {
            unpack_strip(j, n, rows, strip);
            w = strip;
        } else if (j->t.halves) {
            size_t bytes = (size_t)j->a->k * (size_t)j->t.w_element, ld = (size_t)j->a->ldw * (size_t)j->t.w_element;
            for (int64_t i = 0; i < rows; i++)
                memcpy(strip + (size_t)i * bytes, w + (size_t)w_place(j, n + i) * ld, bytes);
            w = strip;
        } else if (j->a->k) {
            w += (size_t)n * (size_t)j->a->ldw * (size_t)j->t.w_element;
        }
        uint16_t min_w = multiply(j, j->t.kind, j->rows, tile, m, w, n, rows, end, packed->begin, acc);
        if (j->t.kind == CPU_BF16_DOT && !dot_is_exact(packed->min_x, min_w))
            multiply(j, CPU_BF16_EXACT, 1, tile, m, w, n, rows, end, packed->begin, acc);
        store(j, m0, m, n, rows, acc, packed->scale);
    }
}

static void run_one(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, bool dot, const struct gemm_args *a, struct rfg_cpu_pool *pool)
{
    if (a->m == 0 || a->n == 0)
        return;
    struct job j = { isa,
                     a,
                     prob,
                     gemm_cpu_tiling(isa, dev->cu_count, prob, p, dot),
                     p[P_ROWS],
                     p[P_COLS],
                     prob->v[GEMM_PREPACKED] || gemm_halves(prob) || is_decoded(prob, dot)
                         ? CPU_PREFETCH_NONE
                         : (enum cpu_prefetch)p[P_PREFETCH],
                     a->workspace,
                     NULL,
                     { gemm_is_codes(prob) ? values_of(prob->dtype[0]) : NULL,
                       gemm_w_has_per(prob) || gemm_w_is_4_bits(prob) ? values_of(prob->dtype[1]) : NULL } };
    j.tiles = (char *)a->workspace + round_256((size_t)dev->cu_count * sizeof(struct packed));
    for (int i = 0; i < dev->cu_count; i++)
        j.packed[i].tile = -1;
    int tasks = (int)(j.t.m_tiles * j.t.n_chunks);
    if (rfg_cpu_pool_threads(pool) <= dev->cu_count)
        rfg_cpu_pool_run(pool, tasks, run_task, &j);
    else /* more workers than the workspace was made for */
        for (int i = 0; i < tasks; i++)
            run_task(&j, i, 0);
}

/* Where expert e's rows begin: see experts.h. */
static int64_t offset_of(const struct gemm_args *a, int64_t e)
{
    return a->offsets[e] < 0 ? 0 : min64(a->offsets[e], a->m);
}

/* The arguments of `rows` rows of Y, from `begin` on, which are expert e's. */
static struct gemm_args args_of(const struct rfg_problem *prob, const struct gemm_args *all, int64_t e, int64_t begin,
                                int64_t rows)
{
    struct gemm_args a = *all;
    int scale_dtype = (int)prob->v[GEMM_W_SCALE], x_dtype = prob->dtype[0];
    int64_t groups = gemm_w_groups(prob), n = e * all->n, of_x = prob->v[GEMM_IDS] ? begin / all->x_each : begin;
    a.m = (int)rows;
    a.y = (char *)all->y + rfg_format_bytes(prob->dtype[2], begin * all->ldy);
    a.w = (const char *)all->w + rfg_format_bytes(prob->dtype[1], n * all->ldw);
    a.bias = all->bias ? (const char *)all->bias + rfg_format_bytes(gemm_bias_dtype(prob), n) : NULL;
    a.weights = all->weights ? all->weights + begin : NULL;
    if (all->rows) {
        a.rows += begin;
    } else {
        a.x = (const char *)all->x + rfg_format_bytes(x_dtype, of_x * all->ldx);
        if (all->x_scale)
            a.x_scale =
                (const char *)all->x_scale + rfg_format_bytes((int)prob->v[GEMM_X_SCALE], of_x * all->x_scale_row);
    }
    if (all->w_scale)
        a.w_scale = (const char *)all->w_scale +
                    rfg_format_bytes(scale_dtype, gemm_w_has_per(prob) ? e * all->w_expert_scales : n * groups);
    if (prob->v[GEMM_W_GLOBAL])
        a.w_global += e;
    else
        a.w_zero = all->w_zero ? (const char *)all->w_zero + n * groups : NULL;
    return a;
}

/* A grouped product is its experts', one after the other; or its rows'. */
static void run_experts(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                        const int *p, bool dot, const struct gemm_args *all, struct rfg_cpu_pool *pool)
{
    bool ids = prob->v[GEMM_IDS];
    for (int64_t i = 0; i < (ids ? all->m : all->experts); i++) {
        struct rfg_problem one = *prob;
        int64_t e = ids ? all->offsets[i] : i, begin = ids ? i : offset_of(all, e);
        int64_t rows = ids ? e >= 0 && e < all->experts : offset_of(all, e + 1) - begin;
        if (rows <= 0)
            continue;
        struct gemm_args a = args_of(prob, all, e, begin, rows);
        one.v[GEMM_M] = rows;
        one.v[GEMM_TOP] = ids ? 0 : prob->v[GEMM_TOP]; /* its row of x is found */
        run_one(isa, dev, &one, p, dot, &a, pool);
    }
}

/* The products of a batch, one after the other. */
static void run_batch(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob,
                      const int *p, bool dot, const struct gemm_args *all, struct rfg_cpu_pool *pool)
{
    for (int64_t i = 0; i < prob->v[GEMM_BATCH]; i++) {
        struct gemm_args a = *all;
        a.y = (char *)all->y + rfg_format_bytes(prob->dtype[2], i * all->y_batch);
        a.x = (const char *)all->x + rfg_format_bytes(prob->dtype[0], i * all->x_batch);
        a.w = (const char *)all->w + rfg_format_bytes(prob->dtype[1], i * all->w_batch);
        run_one(isa, dev, prob, p, dot, &a, pool);
    }
}

/* Rows of y, from the product's. */
static void sum_slots(const struct rfg_problem *prob, const struct gemm_args *a, const void *x)
{
    struct rfg_cpu_slots s = { .x = x,
                               .residual = a->residual,
                               .y = a->y,
                               .places = prob->v[GEMM_IDS] ? a->offsets : a->places,
                               .experts = prob->v[GEMM_IDS] ? a->experts : 0,
                               .n = a->n,
                               .top = a->top,
                               .x_rows = a->m,
                               .in = prob->dtype[2],
                               .out = prob->dtype[2],
                               .ldx = GEMM_SLOT_LD(a->n),
                               .ldy = a->ldy,
                               .ldr = a->ldr,
                               .ldp = a->top };
    int64_t tokens = a->m / a->top;
    if (a->tokens)
        tokens = min64(tokens, *a->tokens);
    for (int64_t t = 0; t < tokens; t++)
        rfg_cpu_sum_slots(&s, t);
}

void gemm_cpu_run(const struct cpu_isa *isa, const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                  bool dot, const struct gemm_args *all, struct rfg_cpu_pool *pool)
{
    if (prob->v[GEMM_BATCH]) {
        run_batch(isa, dev, prob, p, dot, all, pool);
        return;
    }
    if (!prob->v[GEMM_EXPERTS]) {
        run_one(isa, dev, prob, p, dot, all, pool);
        return;
    }
    struct gemm_args rows = *all;
    if (prob->v[GEMM_SLOTS]) { /* rows of the product come first in the workspace */
        rows.y = all->workspace;
        rows.ldy = GEMM_SLOT_LD(all->n);
        rows.residual = NULL;
        rows.workspace = (char *)all->workspace + gemm_slot_bytes(prob);
    }
    run_experts(isa, dev, prob, p, dot, &rows, pool);
    if (prob->v[GEMM_SLOTS])
        sum_slots(prob, all, rows.y);
}
