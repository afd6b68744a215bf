/* SPDX-License-Identifier: MIT
 *
 * The cpu variants of gemm against a double-precision reference: every variant and parameter value, odd shapes,
 * strides with guards between the rows, unaligned pointers, all dtypes, NaN, infinity and denormals, and the same bits
 * from any number of threads. Conversions and reference are this file's own. */
#include <inttypes.h>
#include <math.h>

#include "ops/cpu/pool.h"
#include "ops/gemm/gemm.h"
#include "base/util.h"
#include "tests/suite.h"

static const struct rfg_variant *const variants[] = { &gemm_cpu_portable, &gemm_cpu_avx2, &gemm_cpu_avx512 };
enum { N_VARIANTS = 3, MAX_THREADS = 3 };

static struct rfg_cpu_pool *pools[MAX_THREADS + 1];
static uint64_t seed = 20260101;

static void setup(void)
{
    for (int i = 1; i <= MAX_THREADS; i++)
        ck_assert_ptr_nonnull(pools[i] = rfg_cpu_pool_create(i));
}

static void teardown(void)
{
    for (int i = 1; i <= MAX_THREADS; i++)
        rfg_cpu_pool_destroy(&pools[i]);
}

static struct rfg_device host(int threads)
{
    struct rfg_device d = { .name = "cpu",
                            .platform = RFG_PLATFORM_CPU,
                            .cu_count = threads,
                            .wave_size = 1,
                            .mem_gbps = 50,
                            .fma_tflops = 0.25 * threads,
                            .latency_us = 1,
                            .cache_bytes = 32 << 20 };
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        d.features |= RFG_FEATURE_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        d.features |= RFG_FEATURE_AVX512;
    if (__builtin_cpu_supports("avx512bf16"))
        d.features |= RFG_FEATURE_AVX512BF16;
#endif
    return d;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static double uniform(uint64_t *s)
{
    return (double)(rfg_random(s) >> 11) * 0x1p-52 - 1;
}

/* Precision in bits and least exponent: all that is needed to round to nearest even. */
static void format(int dtype, int *bits, int *emin, double *max)
{
    *bits = dtype == RFG_F32 ? 24 : dtype == RFG_F16 ? 11 : 8;
    *emin = dtype == RFG_F16 ? -14 : -126;
    *max = dtype == RFG_F32 ? 0x1.fffffep127 : dtype == RFG_F16 ? 65504 : 0x1.fep127;
}

static double ulp_of(int dtype, double v)
{
    int bits, emin, e;
    double max;
    format(dtype, &bits, &emin, &max);
    frexp(v, &e);
    return ldexp(1, (v == 0 || e - 1 < emin ? emin : e - 1) - bits + 1);
}

static double round_to(int dtype, double v)
{
    int bits, emin;
    double max;
    if (!isfinite(v))
        return v;
    format(dtype, &bits, &emin, &max);
    double u = ulp_of(dtype, v), r = nearbyint(v / u) * u;
    return fabs(r) > max ? copysign(INFINITY, v) : r;
}

static double get(const void *base, int dtype, int64_t i)
{
    if (dtype == RFG_F32) {
        float f;
        memcpy(&f, (const char *)base + i * 4, 4);
        return f;
    }
    uint16_t h;
    memcpy(&h, (const char *)base + i * 2, 2);
    int ebits = dtype == RFG_F16 ? 5 : 8, mbits = 15 - ebits, bias = (1 << (ebits - 1)) - 1;
    int e = h >> mbits & ((1 << ebits) - 1), f = h & ((1 << mbits) - 1);
    double v = e == (1 << ebits) - 1 ? (f ? NAN : INFINITY)
               : e == 0              ? ldexp(f, 1 - bias - mbits)
                                     : ldexp(f + (1 << mbits), e - bias - mbits);
    return h & 0x8000 ? -v : v;
}

static void put(void *base, int dtype, int64_t i, double v)
{
    v = round_to(dtype, v);
    if (dtype == RFG_F32) {
        float f = (float)v;
        memcpy((char *)base + i * 4, &f, 4);
        return;
    }
    int ebits = dtype == RFG_F16 ? 5 : 8, mbits = 15 - ebits, bias = (1 << (ebits - 1)) - 1, e;
    unsigned h;
    double a = fabs(v);
    if (isnan(v))
        h = 0x7fff;
    else if (isinf(v))
        h = ((1u << ebits) - 1) << mbits;
    else if (a < ldexp(1, 1 - bias))
        h = (unsigned)ldexp(a, mbits + bias - 1);
    else {
        double f = frexp(a, &e);
        h = (unsigned)(ldexp(f, mbits + 1)) - (1u << mbits) + ((unsigned)(e - 1 + bias) << mbits);
    }
    uint16_t out = (uint16_t)(h | (signbit(v) ? 0x8000 : 0));
    memcpy((char *)base + i * 2, &out, 2);
}

static size_t size_of(int dtype)
{
    return dtype == RFG_F32 ? 4 : 2;
}

/* ---- one problem ------------------------------------------------------------------------------------------------ */

enum data { DATA_RANDOM, DATA_SPECIAL, DATA_TINY };

struct shape {
    int m, n, k, bias;
    int dtype, dtype_y;
    int pad;       /* elements between rows */
    int unaligned; /* elements by which each tensor is off */
    enum data data;
};

struct setting {
    struct shape s;
    struct rfg_problem prob;
    struct gemm_args a;
    char *block[4];
    size_t y_size;
    double *expected, *magnitude;
};

#define GUARD 64

static double value(uint64_t *s, enum data data)
{
    double v = uniform(s);
    uint64_t pick = rfg_random(s);
    if (data == DATA_TINY) /* products from 2^-150 to 2^-90, denormal factors too */
        return ldexp(v, -50 - (int)(pick % 85));
    if (data == DATA_SPECIAL)
        switch (pick % 97) {
        case 0:
            return (pick >> 32) % 40 == 0 ? NAN : v;
        case 1:
            return (pick >> 32) % 20 == 0 ? INFINITY : v;
        case 2:
            return (pick >> 32) % 20 == 0 ? -INFINITY : v;
        case 3:
            return 0x1p-130;
        case 4:
            return -0.0;
        case 5:
            return 0;
        }
    return v;
}

static void *tensor(struct setting *g, int which, int dtype, int64_t rows, int64_t cols, int64_t ld, uint64_t *s)
{
    size_t bytes = (size_t)(rows > 0 ? (rows - 1) * ld + cols : 0) * size_of(dtype);
    size_t skip = GUARD + (size_t)g->s.unaligned * size_of(dtype);
    char *base = g->block[which] = malloc(bytes + skip + GUARD);
    memset(base, 0xff, bytes + skip + GUARD); /* NaN between the rows: reading them shows */
    for (int64_t r = 0; r < rows && s; r++)
        for (int64_t c = 0; c < cols; c++)
            put(base + skip, dtype, r * ld + c, value(s, g->s.data));
    if (which == 0)
        g->y_size = bytes + skip + GUARD;
    return base + skip;
}

static void make(struct setting *g, struct shape s)
{
    uint64_t state = seed;
    *g = (struct setting){ .s = s };
    int64_t ldx = s.k + s.pad, ldw = s.k + s.pad, ldy = s.n + s.pad;
    rfg_problem_init(&g->prob, &rfg_op_gemm_desc);
    g->prob.dtype[0] = g->prob.dtype[1] = (uint8_t)s.dtype;
    g->prob.dtype[2] = (uint8_t)s.dtype_y;
    g->prob.v[GEMM_M] = s.m;
    g->prob.v[GEMM_N] = s.n;
    g->prob.v[GEMM_K] = s.k;
    g->prob.v[GEMM_BIAS] = s.bias;
    g->prob.v[GEMM_LDX] = s.pad ? ldx : 0;
    g->prob.v[GEMM_LDW] = s.pad ? ldw : 0;
    g->prob.v[GEMM_LDY] = s.pad ? ldy : 0;
    g->prob.v[GEMM_ALIGN] = (int64_t)size_of(s.dtype_y) < (int64_t)size_of(s.dtype) ? 2 : (int64_t)size_of(s.dtype);
    g->a.y = tensor(g, 0, s.dtype_y, s.m, s.n, ldy, NULL);
    g->a.x = tensor(g, 1, s.dtype, s.m, s.k, ldx, &state);
    g->a.w = tensor(g, 2, s.dtype, s.n, s.k, ldw, &state);
    g->a.bias = tensor(g, 3, s.dtype, 1, s.n, s.n, &state);
    if (!s.bias)
        g->a.bias = NULL;
    g->a.ldx = ldx;
    g->a.ldw = ldw;
    g->a.ldy = ldy;
    g->a.m = s.m;
    g->a.n = s.n;
    g->a.k = s.k;

    size_t outputs = (size_t)s.m * (size_t)s.n + 1, inputs = (size_t)(s.m + s.n) * (size_t)s.k + 1;
    g->expected = malloc(outputs * sizeof(double));
    g->magnitude = malloc(outputs * sizeof(double));
    double *x = malloc(inputs * sizeof(double)), *w = x + (size_t)s.m * (size_t)s.k;
    for (int64_t k = 0; k < s.k; k++) {
        for (int64_t i = 0; i < s.m; i++)
            x[i * s.k + k] = get(g->a.x, s.dtype, i * ldx + k);
        for (int64_t j = 0; j < s.n; j++)
            w[j * s.k + k] = get(g->a.w, s.dtype, j * ldw + k);
    }
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = s.bias ? get(g->a.bias, s.dtype, j) : 0, magnitude = fabs(sum);
            for (int64_t k = 0; k < s.k; k++) {
                double term = x[i * s.k + k] * w[j * s.k + k];
                sum += term;
                magnitude += fabs(term);
            }
            g->expected[i * s.n + j] = sum;
            g->magnitude[i * s.n + j] = magnitude;
        }
    free(x);
}

static void drop(struct setting *g)
{
    for (int i = 0; i < 4; i++)
        free(g->block[i]);
    free(g->expected);
    free(g->magnitude);
}

/* The final rounding may go the other way (half an ulp); k_acc additions of fp32 in any order each err by 2^-24 of the
 * partial sum; below fp32's normal range each of the K products may be rounded to a multiple of 2^-149. */
static void check(const struct setting *g, const char *config)
{
    const struct shape *s = &g->s;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double want = g->expected[i * s->n + j], rounded = round_to(s->dtype_y, want);
            double got = get(g->a.y, s->dtype_y, i * g->a.ldy + j);
            double bound = ulp_of(s->dtype_y, rounded) / 2 + (sqrt(s->k) + 4) * 0x1p-24 * g->magnitude[i * s->n + j] +
                           (s->k + 1) * 0x1p-150;
            bool ok = isnan(want) ? isnan(got) : isinf(rounded) ? got == rounded : fabs(got - want) <= bound;
            if (!ok) {
                char text[RFG_PROBLEM_STRLEN];
                ck_abort_msg("%s\n%s pad=%d unaligned=%d data=%d seed=%" PRIu64
                             ": y[%d,%d] is %.9g, must be %.9g +- %.3g",
                             rfg_problem_format(&g->prob, text, sizeof(text)), config, s->pad, s->unaligned,
                             (int)s->data, seed, (int)i, (int)j, got, want, bound);
            }
        }
    /* everything that isn't an output is still 0xff */
    const unsigned char *b = (const unsigned char *)g->block[0];
    size_t begin = (size_t)((const char *)g->a.y - g->block[0]), size = size_of(s->dtype_y);
    for (size_t at = 0; at < g->y_size; at++) {
        size_t e = (at - begin) / size;
        bool output =
            at >= begin && s->m && s->n && e / (size_t)g->a.ldy < (size_t)s->m && e % (size_t)g->a.ldy < (size_t)s->n;
        if (!output && b[at] != 0xff)
            ck_abort_msg("%s: wrote outside y, at byte %zu of %zu (M=%d N=%d)", config, at, g->y_size, s->m, s->n);
    }
}

struct sweep {
    struct setting *g;
    const struct rfg_variant *var;
    struct rfg_device dev;
    int every, at; /* try each `every`-th configuration */
    int tried;
    bool threads; /* compare thread counts too */
};

static void run_with(struct setting *g, const struct rfg_variant *var, int threads, const int *p)
{
    struct rfg_device dev = host(threads);
    size_t size = var->workspace(&dev, &g->prob, p);
    /* Exact size, so that ASan sees any overrun. */
    void *ws = g->a.workspace = size ? aligned_alloc(256, (size + 255) & ~(size_t)255) : NULL;
    if (ws)
        memset(ws, 0xff, size);
    memset(g->block[0], 0xff, g->y_size);
    var->run(&dev, &g->prob, p, &g->a, pools[threads]);
    free(ws);
}

static bool try_config(void *ctx, const int *p)
{
    struct sweep *sw = ctx;
    if (sw->at++ % sw->every)
        return true;
    char config[RFG_CONFIG_STRLEN];
    rfg_config_format(sw->var, p, config, sizeof(config));
    double us = sw->var->predict(&sw->dev, &sw->g->prob, p);
    if (!(us >= 0 && us < 1e9))
        ck_abort_msg("%s: predicts %g us", config, us);
    run_with(sw->g, sw->var, sw->dev.cu_count, p);
    check(sw->g, config);
    sw->tried++;
    if (sw->threads) {
        char *first = malloc(sw->g->y_size);
        memcpy(first, sw->g->block[0], sw->g->y_size);
        for (int threads = 1; threads <= MAX_THREADS; threads++) {
            run_with(sw->g, sw->var, threads, p);
            if (memcmp(first, sw->g->block[0], sw->g->y_size))
                ck_abort_msg("%s: %d and %d threads differ", config, sw->dev.cu_count, threads);
        }
        free(first);
    }
    return true;
}

/* Every variant that this cpu has; `every`: a sample of its configurations. */
static int sweep(struct shape s, int every, bool threads)
{
    struct setting g;
    make(&g, s);
    int tried = 0;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct sweep sw = { &g, variants[v], host(2), every, (int)(rfg_random(&(uint64_t){ seed }) % (uint64_t)every),
                            0,  threads };
        if (!variants[v]->supports(&sw.dev, &g.prob, NULL))
            continue;
        int offered = rfg_variant_each(variants[v], &sw.dev, &g.prob, try_config, &sw);
        ck_assert_msg(offered > 0 && offered <= 60, "%s offers %d configurations, not 1..60, for M=%d N=%d K=%d",
                      variants[v]->name, offered, s.m, s.n, s.k);
        tried += sw.tried;
        seed++;
    }
    drop(&g);
    return tried;
}

static const int dtypes[] = { RFG_BF16, RFG_F16, RFG_F32 };

/* ---- tests ------------------------------------------------------------------------------------------------------ */

START_TEST(all_dtypes)
{
    static const struct shape shapes[] = { { 1, 33, 100, 0 }, { 3, 17, 129, 1 }, { 8, 40, 257, 0 }, { 17, 21, 65, 1 } };
    for (int in = 0; in < 3; in++)
        for (int out = 0; out < 3; out++) {
            struct shape s = shapes[_i];
            s.dtype = dtypes[in];
            s.dtype_y = dtypes[out];
            bool avx512 = host(2).features & RFG_FEATURE_AVX512;
            ck_assert_int_gt(sweep(s, 1, false), avx512 ? 10 : 8);
        }
}
END_TEST

START_TEST(odd_shapes)
{
    uint64_t r = 77;
    for (int i = 0; i < 120; i++) {
        struct shape s = { .m = 1 + (int)(rfg_random(&r) % 17), .n = 1 + (int)(rfg_random(&r) % 70) };
        s.k = (int)(rfg_random(&r) % 301);
        s.bias = rfg_random(&r) % 2;
        s.dtype = dtypes[rfg_random(&r) % 3];
        s.dtype_y = dtypes[rfg_random(&r) % 3];
        s.pad = rfg_random(&r) % 3 ? (int)(rfg_random(&r) % 9) : 0;
        s.unaligned = (int)(rfg_random(&r) % 4);
        sweep(s, 7, i % 5 == 0);
    }
}
END_TEST

START_TEST(blocked)
{
    /* More rows of X than a tile, K over several k_blocks with a ragged end. */
    static const struct shape shapes[] = { { 150, 19, 2500, 1, RFG_BF16, RFG_BF16, 3, 1 },
                                           { 33, 37, 2049, 0, RFG_F32, RFG_F32, 0, 0 },
                                           { 61, 13, 4200, 0, RFG_F16, RFG_F16, 1, 0 },
                                           { 300, 70, 31, 1, RFG_BF16, RFG_F32, 0, 0 } };
    sweep(shapes[_i], 3, false);
    sweep(shapes[_i], 19, true);
}
END_TEST

START_TEST(same_bits_from_any_threads)
{
    static const struct shape shapes[] = { { 1, 130, 500, 0, RFG_BF16, RFG_F32 },
                                           { 8, 67, 333, 1, RFG_BF16, RFG_F32 },
                                           { 8, 67, 333, 1, RFG_BF16, RFG_F32, .data = DATA_TINY },
                                           { 40, 50, 1500, 0, RFG_F16, RFG_F32 } };
    sweep(shapes[_i], 1, true);
}
END_TEST

/* A W of another format than X's has the bits of the fp32 one that it stands for, whether any kernel of a GPU takes
 * that format or not: each of the format's codes, with scales and without. */
static const struct {
    rfg_dtype w, w_scale;
    int group;
} w_formats[] = {
    { RFG_I4, RFG_F32, 32 }, { RFG_I4, RFG_F16, 64 },         { RFG_E2M1, RFG_E8M0, 32 },
    { RFG_I8, RFG_BF16, 2 }, { RFG_E4M3, RFG_DTYPE_NONE, 0 }, { RFG_F16, RFG_DTYPE_NONE, 0 },
};

START_TEST(decoded_w)
{
    static const struct shape shapes[] = { { 1, 33, 128, 1 }, { 5, 37, 64, 0 }, { 130, 9, 2112, 1 }, { 3, 4, 0, 1 } };
    const struct rfg_format *f = rfg_format((int)w_formats[_i].w), *fs = rfg_format((int)w_formats[_i].w_scale);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct setting g;
        struct shape s = shapes[i];
        s.dtype = s.dtype_y = RFG_F32;
        s.pad = 2;
        make(&g, s);
        int64_t ldw = g.a.ldw, groups = fs ? s.k / w_formats[_i].group : 0;
        char *codes = malloc((size_t)rfg_format_bytes((int)w_formats[_i].w, s.n * ldw) + 1);
        char *scales = malloc((size_t)(s.n * groups) * 4 + 1);
        float *as_fp32 = (float *)(uintptr_t)g.a.w; /* make()'s */
        double values[RFG_FORMAT_MAX_ELEMENTS], scale = 1;
        for (int64_t at = 0; at < s.n * groups; at++) {
            scale = ldexp(1 + (double)(at % 3) / 4, (int)(at % 5) - 2);
            fs->encode(fs, scales + at * fs->bytes, &scale);
        }
        for (int64_t at = 0; at < s.n * ldw; at += f->elements) {
            int64_t n = at / ldw, k = at % ldw;
            char *block = codes + at / f->elements * f->bytes;
            for (int b = 0; b < f->bytes; b++)
                block[b] = (char)(rfg_random(&seed) & (f->kind == RFG_FORMAT_FLOAT ? 0x77 : 0xff)); /* no NaN */
            f->decode(f, block, values);
            for (int e = 0; e < f->elements && k + e < s.k; e++) {
                if (fs && (k + e) % w_formats[_i].group == 0)
                    fs->decode(fs, scales + (n * groups + (k + e) / w_formats[_i].group) * fs->bytes, &scale);
                as_fp32[at + e] = (float)(values[e] * (fs ? scale : 1));
            }
        }
        struct setting d = g;
        d.prob.dtype[1] = (uint8_t)w_formats[_i].w;
        d.prob.v[GEMM_W_SCALE] = w_formats[_i].w_scale;
        d.prob.v[GEMM_W_GROUP] = w_formats[_i].group;
        d.a.w = codes;
        d.a.w_scale = fs ? scales : NULL;
        char *want = malloc(g.y_size);
        for (int v = 0; v < N_VARIANTS; v++) {
            int p[RFG_MAX_PARAMS] = { 0 }, tried = 0;
            struct rfg_device dev = host(2);
            if (!variants[v]->supports(&dev, &g.prob, NULL)) /* this cpu doesn't have it */
                continue;
            for (p[0] = 1; p[0] <= 4; p[0] *= 2)
                for (p[1] = 1; p[0] * p[1] <= 8; p[1] *= 2)
                    for (p[2] = 0; p[2] <= 1024; p[2] += 1024, tried++) {
                        run_with(&g, variants[v], 2, p);
                        memcpy(want, g.block[0], g.y_size);
                        run_with(&d, variants[v], 2, p);
                        ck_assert_msg(!memcmp(want, d.block[0], g.y_size),
                                      "%s %s M=%d rows=%d cols=%d k_block=%d: other bits", variants[v]->name, f->name,
                                      s.m, p[0], p[1], p[2]);
                    }
            ck_assert_int_eq(tried, 18);
        }
        free(want);
        free(codes);
        free(scales);
        drop(&g);
    }
}
END_TEST

START_TEST(special_values)
{
    for (int d = 0; d < 3; d++) {
        sweep((struct shape){ 5, 37, 100, 1, dtypes[d], dtypes[d], 2, 1, DATA_SPECIAL }, 2, false);
        sweep((struct shape){ 1, 64, 33, 0, dtypes[d], RFG_F32, 0, 0, DATA_SPECIAL }, 2, false);
        sweep((struct shape){ 9, 30, 1, 0, dtypes[d], dtypes[d], 0, 0, DATA_SPECIAL }, 2, false);
    }
}
END_TEST

/* Denormals count in every configuration, vdpbf16ps or not. */
START_TEST(tiny_values)
{
    sweep((struct shape){ 4, 30, 70, 0, RFG_BF16, RFG_BF16, 0, 0, DATA_TINY }, 1, false);
    sweep((struct shape){ 8, 30, 1, 0, RFG_BF16, RFG_F32, 0, 0, DATA_TINY }, 1, false);
    sweep((struct shape){ 20, 9, 1100, 1, RFG_BF16, RFG_F32, 1, 0, DATA_TINY }, 2, false);
    sweep((struct shape){ 3, 9, 40, 1, RFG_F32, RFG_F32, 0, 0, DATA_TINY }, 1, false);
}
END_TEST

/* Each rounding of the result: all fp16 and bf16 values and their midpoints, through K = 1. */
START_TEST(rounding)
{
    for (int out = 0; out < 2; out++)
        for (int i = 0; i < 64; i++) {
            struct setting g;
            make(&g, (struct shape){ 1, 1024, 1, 0, RFG_F32, dtypes[out] });
            put((void *)(uintptr_t)g.a.x, RFG_F32, 0, 1);
            for (int j = 0; j < 1024; j++) {
                uint16_t h = (uint16_t)(i * 1024 + j);
                double v = get(&h, dtypes[out], 0);
                if (isfinite(v)) /* the midpoint to the next larger magnitude: ties go to even */
                    v += copysign(ulp_of(dtypes[out], v) / 2, v);
                put((void *)(uintptr_t)g.a.w, RFG_F32, j, v);
            }
            int p[RFG_MAX_PARAMS] = { 1, 1, 0, 0 };
            run_with(&g, &gemm_cpu_portable, 1, p);
            for (int j = 0; j < 1024; j++) {
                double in = get(g.a.w, RFG_F32, j), want = round_to(dtypes[out], in);
                double got = get(g.a.y, dtypes[out], j);
                if (isnan(in) ? !isnan(got) : got != want || signbit(got) != signbit(want))
                    ck_abort_msg("%.9g to %s: is %.9g, must be %.9g", in, rfg_dtype_name((rfg_dtype)dtypes[out]), got,
                                 want);
            }
            drop(&g);
        }
}
END_TEST

START_TEST(zero_sizes)
{
    for (int d = 0; d < 3; d++)
        for (int bias = 0; bias < 2; bias++) {
            sweep((struct shape){ 3, 5, 0, bias, dtypes[d], dtypes[d], 2, 0 }, 1, false);
            sweep((struct shape){ 0, 5, 7, bias, dtypes[d], dtypes[d], 0, 0 }, 1, false);
            sweep((struct shape){ 3, 0, 7, bias, dtypes[d], dtypes[d], 0, 0 }, 1, false);
        }
    struct setting g; /* data of an empty tensor may be NULL */
    make(&g, (struct shape){ 2, 3, 0, 0, RFG_BF16, RFG_F32 });
    g.a.x = g.a.w = NULL;
    int p[RFG_MAX_PARAMS] = { 1, 4, 0, 0 };
    run_with(&g, &gemm_cpu_portable, 2, p);
    check(&g, "NULL x and w");
    drop(&g);
}
END_TEST

START_TEST(refusals)
{
    struct rfg_device dev = host(2), gpu = dev;
    struct rfg_problem prob;
    struct rfg_reason why;
    rfg_problem_init(&prob, &rfg_op_gemm_desc);
    prob.dtype[0] = prob.dtype[1] = prob.dtype[2] = RFG_BF16;
    prob.v[GEMM_M] = prob.v[GEMM_N] = prob.v[GEMM_K] = 64;
    gpu.platform = RFG_PLATFORM_NVIDIA;
    dev.features = RFG_FEATURE_AVX2;
    for (int v = 0; v < N_VARIANTS; v++)
        ck_assert(!variants[v]->supports(&gpu, &prob, NULL));
    ck_assert(gemm_cpu_portable.supports(&dev, &prob, NULL));
#if defined(__x86_64__)
    ck_assert(!gemm_cpu_avx512.supports(&dev, &prob, &why));
    ck_assert_str_eq(why.text, "needs AVX-512 F, BW, VL and DQ, this cpu has AVX2");
    dev.features |= RFG_FEATURE_AVX512;
    int p[RFG_MAX_PARAMS] = { 4, 4, 0, 2, 1 };
    ck_assert(!rfg_variant_check(&gemm_cpu_avx512, &dev, &prob, p, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "AVX512_BF16"));
    dev.features |= RFG_FEATURE_AVX512BF16;
    ck_assert(rfg_variant_check(&gemm_cpu_avx512, &dev, &prob, p, &why));
    p[0] = p[1] = 8;
    ck_assert(!rfg_variant_check(&gemm_cpu_avx512, &dev, &prob, p, &why));
#else
    (void)why;
#endif
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu_gemm");
    TCase *t = test_case(s, "cpu_gemm", setup, teardown);
    ADD_TESTS(t, odd_shapes, special_values, tiny_values, rounding, zero_sizes, refusals);
    ADD_LOOPS(t, 4, all_dtypes, blocked, same_bits_from_any_threads);
    ADD_LOOPS(t, (sizeof(w_formats) / sizeof(w_formats[0])), decoded_w);
    return run_suite(s);
}
