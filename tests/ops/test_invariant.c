/* SPDX-License-Identifier: MIT
 *
 * batch_invariant: a row's bits, whatever rows are beside it and however many, on the cpu and on the devices of
 * $RFG_TEST_DEVICES; without it some differ. What the ladder takes then, on imagined devices. */
#include <unistd.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define INV " invariant=1"

static rfg_context *open_ctx(const char *device, bool invariant)
{
    if (invariant)
        setenv("RFG_BATCH_INVARIANT", "1", 1);
    rfg_context *ctx = op_context(device);
    unsetenv("RFG_BATCH_INVARIANT");
    return ctx;
}

static bool is_cpu(rfg_context *ctx)
{
    return rfg_context_info(ctx)->platform == RFG_PLATFORM_CPU;
}

/* ---- rows of a product, or normalised --------------------------------------------------------------------------- */

enum kind { GEMM, GATED, PACKED, RMSNORM, TOKEN, GROUP, LAYERNORM };
struct call {
    enum kind kind;
    rfg_dtype x, y;
    int n, k; /* of a norm: k columns */
};

static const struct call calls[] = {
    { GEMM, RFG_BF16, RFG_F32, 48, 1024 },  { GEMM, RFG_F32, RFG_F32, 40, 200 },
    { GEMM, RFG_BF16, RFG_BF16, 16, 8192 }, { GEMM, RFG_F16, RFG_F32, 2, 2056 },
    { GEMM, RFG_BF16, RFG_F32, 33, 33 },    { GATED, RFG_BF16, RFG_F32, 64, 512 },
    { PACKED, RFG_BF16, RFG_F32, 32, 640 }, { RMSNORM, RFG_BF16, RFG_BF16, 0, 4096 },
    { RMSNORM, RFG_F32, RFG_F32, 0, 1000 }, { TOKEN, RFG_BF16, RFG_E4M3, 0, 2048 },
    { GROUP, RFG_F16, RFG_I8, 0, 640 },     { LAYERNORM, RFG_F32, RFG_F32, 0, 8200 },
};
#define N_CALLS (int)(sizeof(calls) / sizeof(calls[0]))

/* What is on the device: x, weights, room for two outputs. */
struct memory {
    const struct call *c;
    rfg_context *ctx;
    int64_t rows;
    size_t x_row, y_row; /* bytes of a row */
    void *x, *w, *packed, *y, *scale;
    char *host; /* x */
};

static bool is_gemm(const struct call *c)
{
    return c->kind <= PACKED;
}

static int64_t scales_of(const struct call *c)
{
    return c->kind == TOKEN ? 1 : c->kind == GROUP ? (c->k + 127) / 128 : 0;
}

#define MUST(what) ck_assert_msg((what) == RFG_OK, "%s", rfg_last_error())

static char *random_elements(rfg_dtype dtype, int64_t n, uint64_t seed)
{
    char *to = malloc((size_t)n * 4);
    ck_assert_ptr_nonnull(to);
    for (int64_t i = 0; i < n; i++)
        rfg_store(to, dtype, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    return to;
}

static void *upload(rfg_context *ctx, const void *from, size_t bytes)
{
    void *to;
    MUST(rfg_device_alloc(ctx, &to, bytes));
    if (from)
        MUST(rfg_device_copy(ctx, to, from, bytes, RFG_HOST_TO_DEVICE, NULL));
    MUST(rfg_stream_sync(ctx, NULL));
    return to;
}

static struct memory make(rfg_context *ctx, const struct call *c, int64_t rows)
{
    int64_t w_rows = is_gemm(c) ? c->n : 1;
    struct memory m = { .c = c, .ctx = ctx, .rows = rows, .x_row = rfg_dtype_bytes(c->x, c->k) };
    m.y_row = rfg_dtype_bytes(c->y, is_gemm(c) ? c->n / (c->kind == GATED ? 2 : 1) : c->k);
    m.host = random_elements(c->x, rows * c->k, op_seed());
    char *w = random_elements(c->x, w_rows * c->k, op_seed() + 1);
    m.x = upload(ctx, m.host, (size_t)rows * m.x_row);
    m.w = upload(ctx, w, (size_t)w_rows * m.x_row);
    m.y = upload(ctx, NULL, (size_t)rows * m.y_row);
    m.scale = upload(ctx, NULL, (size_t)(rows * (scales_of(c) + 1)) * 4);
    free(w);
    if (c->kind == PACKED) {
        m.packed = upload(ctx, NULL, (size_t)w_rows * m.x_row);
        rfg_tensor src = rfg_tensor_2d(m.w, c->x, c->n, c->k, c->k),
                   dst = rfg_tensor_prepacked(m.packed, c->x, c->n, c->k);
        MUST(rfg_gemm_prepack(ctx, &dst, &src, NULL));
    }
    return m;
}

static void drop(struct memory *m)
{
    void *all[] = { m->x, m->w, m->packed, m->y, m->scale };
    for (int i = 0; i < 5; i++)
        MUST(rfg_device_free(m->ctx, all[i]));
    free(m->host);
}

/* Rows first to first + n - 1 alone: their y, then their scales, in memory that the caller frees. */
static char *run(const struct memory *m, int64_t first, int64_t n)
{
    const struct call *c = m->c;
    int64_t scales = scales_of(c), cols = c->kind == GATED ? c->n / 2 : is_gemm(c) ? c->n : c->k;
    rfg_tensor x = rfg_tensor_2d((char *)m->x + (size_t)first * m->x_row, c->x, n, c->k, c->k);
    rfg_tensor w = rfg_tensor_2d(m->w, c->x, c->n, c->k, c->k), y = rfg_tensor_2d(m->y, c->y, n, cols, cols);
    rfg_tensor scale = rfg_tensor_2d(m->scale, RFG_F32, n, scales, scales);
    if (c->kind == PACKED)
        w = rfg_tensor_prepacked(m->packed, c->x, c->n, c->k);
    if (is_gemm(c)) {
        rfg_gemm_params p = { .size = sizeof(p), .gated = c->kind == GATED };
        p.gates = p.gated ? RFG_GATES_INTERLEAVED : RFG_GATES_HALVES;
        MUST(rfg_op_gemm(m->ctx, &y, &x, &w, &p, NULL));
    } else {
        rfg_quant q = { sizeof(q), c->kind == GROUP ? RFG_SCALE_GROUP : RFG_SCALE_TOKEN, 0, &y, &scale };
        rfg_norm_params p = RFG_NORM_PARAMS_INIT;
        p.quant = scales ? &q : NULL;
        w = rfg_tensor_1d(m->w, c->x, c->k);
        MUST((c->kind == LAYERNORM ? rfg_op_layernorm : rfg_op_rmsnorm)(m->ctx, scales ? NULL : &y, &x, &w, &p, NULL));
    }
    size_t y_bytes = (size_t)n * m->y_row, scale_bytes = (size_t)(n * scales) * 4;
    char *got = malloc(y_bytes + scale_bytes);
    ck_assert_ptr_nonnull(got);
    MUST(rfg_device_copy(m->ctx, got, m->y, y_bytes, RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_device_copy(m->ctx, got + y_bytes, m->scale, scale_bytes, RFG_DEVICE_TO_HOST, NULL));
    MUST(rfg_stream_sync(m->ctx, NULL));
    return got;
}

/* How many of n rows from `first` on are not what they were among all: rows and scales. */
static int64_t others(const struct memory *m, const char *all, int64_t first, int64_t n)
{
    size_t scale_row = (size_t)scales_of(m->c) * 4;
    const char *scales = all + (size_t)m->rows * m->y_row;
    char *got = run(m, first, n);
    int64_t differ = 0;
    for (int64_t i = 0; i < n; i++)
        differ += memcmp(got + (size_t)i * m->y_row, all + (size_t)(first + i) * m->y_row, m->y_row) ||
                  memcmp(got + (size_t)n * m->y_row + (size_t)i * scale_row, scales + (size_t)(first + i) * scale_row,
                         scale_row);
    free(got);
    return differ;
}

/* Of a few rows at many places. */
static int64_t differing(rfg_context *ctx, const struct call *c, int64_t rows)
{
    static const int64_t few[] = { 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64 };
    struct memory m = make(ctx, c, rows);
    uint64_t seed = op_seed() + 2;
    int64_t differ = 0;
    char *all = run(&m, 0, rows);
    for (int64_t i = 1; i <= (is_cpu(ctx) ? 64 : (int64_t)(sizeof(few) / sizeof(few[0]))); i++) {
        int64_t n = is_cpu(ctx) ? i : few[i - 1];
        differ += others(&m, all, (int64_t)(rfg_random(&seed) % (uint64_t)(rows - n + 1)), n);
    }
    differ += others(&m, all, rows / 3, rows / 2);
    free(all);
    drop(&m);
    return differ;
}

static int64_t many(rfg_context *ctx)
{
    return is_cpu(ctx) ? 700 : 150;
}

START_TEST(rows_are_the_same_in_any_batch)
{
    rfg_context *ctx = open_ctx(op_device(_i), true);
    for (int i = 0; i < N_CALLS; i++) {
        int64_t differ = differing(ctx, &calls[i], many(ctx));
        ck_assert_msg(!differ, "%s: call %d: %d rows differ", op_device(_i), i, (int)differ);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* So that the test above says something. (The cpu's rows only differ with tiny neighbours: see below.) */
START_TEST(without_it_some_differ)
{
    rfg_context *ctx = open_ctx(op_device(_i), false);
    int64_t products = 0, norms = 0;
    for (int i = 0; i < N_CALLS && !is_cpu(ctx); i++)
        *(is_gemm(&calls[i]) ? &products : &norms) += differing(ctx, &calls[i], many(ctx));
    ck_assert_msg(is_cpu(ctx) || (products && norms), "%s: %d, %d", op_device(_i), (int)products, (int)norms);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Two variants that say the same words: gemm_stream_mma, of one wave of k, and gemm_tile. */
static void outputs_of(rfg_context *ctx, const struct rfg_problem *prob, const char *config, void **bytes, size_t *size)
{
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_reason why;
    struct rfg_plan *plan;
    struct rfg_case *c;
    struct rfg_case_params params = { .seed = op_seed() };
    ck_assert_msg(rfg_config_parse(prob->op, config, &var, p, &why), "%s", why.text);
    struct rfg_order order;
    ck_assert_msg(var->order(rfg_context_info(ctx), prob, p, &order, &why), "%s", why.text);
    ck_assert_str_eq(order.words, "gemm_stream_mma k_waves=1");
    MUST(rfg_case_create(ctx, prob, &params, &c));
    MUST(rfg_plan_create(ctx, rfg_case_as_called(c), var, p, &plan));
    MUST(rfg_case_run(c, 0, plan, NULL));
    MUST(rfg_case_outputs(c, 0, bytes, size));
    rfg_plan_destroy(ctx, &plan);
    rfg_case_destroy(&c);
}

START_TEST(same_words_same_bits)
{
    static const char *const problems[] = {
        "gemm bf16,bf16->f32 M=20 N=70 K=1000",
        "gemm f16,f16->f32 M=70 N=40 K=264",
        "gemm bf16,bf16->f32 M=33 N=48 K=544 packed=1",
        "gemm e4m3fnuz,e4m3fnuz->f32 M=20 N=70 K=656 x_scale=f32 w_scale=f32 x_per=row w_per=row",
        "gemm i8,i8->f32 M=20 N=70 K=656 x_scale=f32 w_scale=f32 x_per=row w_per=row",
        "gemm e4m3,e4m3->f32 M=20 N=70 K=656",
        "gemm bf16,e2m1->f32 M=33 N=48 K=544 w_scale=e8m0 w_group=32 packed=1",
        "gemm f16,i4->f32 M=20 N=80 K=640 w_scale=f16 w_group=32 packed=1",
    };
    static const char *const tiles[] = {
        "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=2,split_k=1}",
        "gemm_tile{tile_m=64,tile_n=64,tile_k=%d,waves_m=2,waves_n=2,buffers=1,split_k=1}",
    };
    rfg_context *ctx = op_context(op_device(_i));
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        struct rfg_problem prob = op_problem(problems[i]);
        const struct rfg_variant *tile = rfg_variant_find(prob.op, "gemm_tile");
        void *stream_y, *y;
        size_t size, bytes;
        if (!tile->supports(rfg_context_info(ctx), &prob, NULL))
            continue;
        outputs_of(ctx, &prob,
                   gemm_w_is_4_bits(&prob) ? "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=1,split_k=1}"
                                           : "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=1,unroll=2,split_k=1}",
                   &stream_y, &bytes);
        for (int t = 0; t < 2; t++) {
            char config[RFG_CONFIG_STRLEN];
            snprintf(config, sizeof(config), tiles[t], rfg_dtype_is_code(prob.dtype[0]) ? 128 : 32);
            outputs_of(ctx, &prob, config, &y, &size);
            ck_assert_msg(size == bytes && !memcmp(y, stream_y, size), "%s: %s", problems[i], config);
            free(y);
        }
        free(stream_y);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* Sums of a W of 4 bits are scaled by groups, or by what a kernel has of one at a time. */
START_TEST(words_of_4_bits)
{
    static const char *const cases[][3] = {
        { "gfx942", "w_group=32", "gemm_stream_mma k_waves=1" },
        { "gfx942", "w_group=64", "gemm_stream_mma k_waves=1" },
        { "gfx942", "w_group=128", "gemm_tile part=64" },
        { "gfx942", "w_group=256", "gemm_tile part=64" },
        { "gfx1100", "w_group=32", "gemm_stream_mma k_waves=1" },
        { "gfx1100", "w_group=64", "gemm_tile part=32" },
        { "gfx1201", "w_group=64", "gemm_stream_mma k_waves=1" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char problem[RFG_PROBLEM_STRLEN];
        snprintf(problem, sizeof(problem), "gemm bf16,i4->bf16 M=64 N=64 K=512 w_scale=f16 packed=1 %s", cases[i][1]);
        struct rfg_problem prob = op_problem(problem);
        const struct rfg_variant *var;
        int p[RFG_MAX_PARAMS];
        struct rfg_device dev;
        struct rfg_order order;
        struct rfg_reason why;
        ck_assert(rfg_device_imagine(&dev, cases[i][0]));
        ck_assert(rfg_config_parse(prob.op,
                                   "gemm_tile{tile_m=64,tile_n=64,tile_k=64,waves_m=2,waves_n=2,buffers=1,split_k=1}",
                                   &var, p, &why));
        ck_assert(var->order(&dev, &prob, p, &order, &why));
        ck_assert_msg(!strcmp(order.words, cases[i][2]), "%s %s: %s", cases[i][0], cases[i][1], order.words);
    }
}
END_TEST

/* Row 5 of 40, all others of which are made NaN, infinite, huge or tiny. */
static bool same_beside_specials(rfg_context *ctx, const struct call *c)
{
    static const double values[] = { 0.0 / 0.0, 1.0 / 0.0, 3e38, 1e-39, -1e-45, 65000, 0 };
    struct memory m = make(ctx, c, 40);
    char *before = run(&m, 5, 1), *all, *scales;
    bool same = true;
    for (size_t n = 0; n < sizeof(values) / sizeof(values[0]); n++) {
        for (int64_t i = 0; i < m.rows * c->k; i++)
            if (i / c->k != 5 && i % 3 == 0)
                rfg_store(m.host, c->x, i, values[n]);
        MUST(rfg_device_copy(ctx, m.x, m.host, (size_t)m.rows * m.x_row, RFG_HOST_TO_DEVICE, NULL));
        all = run(&m, 0, m.rows);
        scales = all + (size_t)m.rows * m.y_row;
        size_t scale_row = (size_t)scales_of(c) * 4;
        same &=
            !memcmp(all + 5 * m.y_row, before, m.y_row) && !memcmp(scales + 5 * scale_row, before + m.y_row, scale_row);
        free(all);
    }
    free(before);
    drop(&m);
    return same;
}

START_TEST(neighbours_do_not_matter)
{
    rfg_context *ctx = open_ctx(op_device(_i), true);
    for (int i = 0; i < N_CALLS; i++)
        ck_assert_msg(same_beside_specials(ctx, &calls[i]), "%s: call %d", op_device(_i), i);
    rfg_context_destroy(&ctx);
    /* vdpbf16ps is only used where nothing is tiny. */
    ctx = open_ctx(op_device(_i), false);
    if (!strcmp(rfg_context_info(ctx)->arch, "cpu-avx512bf16"))
        ck_assert(!same_beside_specials(ctx, &calls[0]));
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- what is chosen --------------------------------------------------------------------------------------------- */

static rfg_context *imagine(const char *device, const char *db, const char *variants)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p),
                             .device = device,
                             .user_db = db,
                             .system_db = "",
                             .cache_dir = "",
                             .variants = variants,
                             .batch_invariant = 1 };
    MUST(rfg_context_imagine(&ctx, &p, NULL));
    return ctx;
}

static void order_of(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_choice *c, struct rfg_order *o)
{
    struct rfg_reason why;
    ck_assert_msg(c->variant->order && c->variant->order(rfg_context_info(ctx), prob, c->params, o, &why), "%s: %s",
                  c->variant->name, why.text);
}

START_TEST(keys_and_callbacks_go_together)
{
    int with = 0;
    for (int i = 0; rfg_ops[i]; i++) {
        const struct rfg_op *op = rfg_ops[i];
        int at = rfg_op_key(op, "invariant");
        ck_assert_msg(at == (op->at_size ? op->n_keys - 2 : -1), "%s", op->name);
        with += at >= 0;
        for (int v = 0; op->at_size && v < rfg_op_variants(op)->n; v++)
            ck_assert_msg(rfg_op_variants(op)->list[v]->kind != RFG_VARIANT_VENDOR ||
                              !rfg_op_variants(op)->list[v]->order,
                          "%s", rfg_op_variants(op)->list[v]->name);
    }
    ck_assert_int_ge(with, 5);
}
END_TEST

/* Every size finds a kernel, of one order; on a device that was calibrated, too. */
START_TEST(one_order_serves_all_sizes)
{
    static const char *const devices[] = { "gfx942",  "gfx942:38", "gfx950", "gfx90a", "gfx908",  "gfx1030",
                                           "gfx1100", "gfx1201",   "sm_80",  "sm_90",  "sm_90:16" };
    static const char *const problems[] = {
        "gemm bf16,bf16->bf16 M=%d N=2112 K=7168" INV,
        "gemm bf16,bf16->bf16 M=%d N=152064 K=896" INV,
        "gemm f16,f16->f32 M=%d N=1 K=8" INV,
        "gemm bf16,bf16->bf16 M=%d N=3000 K=77 align=2" INV,
        "gemm f32,f32->f32 M=%d N=512 K=4096" INV,
        "gemm bf16,bf16->bf16 M=%d N=4096 K=4096 packed=1" INV,
        "gemm bf16,bf16->bf16 M=%d N=28672 K=4096 act=silu gates=interleaved" INV,
        "rmsnorm bf16->bf16 M=%d N=7168" INV,
        "rmsnorm f32->f32 M=%d N=77 align=4 align_y=4" INV,
        "add_rmsnorm bf16->e4m3 M=%d N=4096 scale=token" INV,
        "layernorm f16->f16 M=%d N=131072 bias=1" INV,
    };
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        rfg_context *ctx[2] = { imagine(devices[d], "", NULL), imagine(devices[d], "", NULL) };
        struct rfg_calibration c = {
            .mem_gbps = 123, .cache_gbps = 400, .latency_us = 9, .load_us = 5, .sync_us = 0.1
        };
        rfg_context_calibrate(ctx[1], &c);
        for (size_t n = 0; n < sizeof(problems) / sizeof(problems[0]); n++) {
            struct rfg_order first = { "" }, o;
            for (int m = 1; m <= 100000; m = m < 4 ? m + 1 : m * 3 - 1) {
                char text[200];
                snprintf(text, sizeof(text), problems[n], m);
                struct rfg_problem prob = op_problem(text);
                struct rfg_choice choice;
                ck_assert_msg(rfg_choose(ctx[m % 2], &prob, RFG_RUNG_EXACT, 0, &choice, NULL, NULL) == RFG_OK, "%s",
                              rfg_last_error());
                order_of(ctx[m % 2], &prob, &choice, &o);
                ck_assert_msg(!*first.words || !strcmp(first.words, o.words), "%s: %s: '%s', not '%s'", devices[d],
                              text, o.words, first.words);
                first = o;
            }
        }
        rfg_context_destroy(&ctx[0]);
        rfg_context_destroy(&ctx[1]);
    }
}
END_TEST

#define P "gemm bf16,bf16->f32 M=%d N=64 K=1024"

static void put_row(const char *db, int m, bool invariant, const char *config, double us)
{
    char text[200];
    snprintf(text, sizeof(text), P "%s", m, invariant ? INV : "");
    struct rfg_row row = { .problem = op_problem(text),
                           .arch = "gfx942",
                           .cu_count = 304,
                           .median_us = us,
                           .samples = 9,
                           .error = 0.5,
                           .error_bound = 1,
                           .how = RFG_SOURCE_MEASURED,
                           .date = "2026-11-23T00:00:00Z",
                           .version = RFG_VERSION,
                           .device = "gfx942:304",
                           .compiler = "test",
                           .source_hash = "test" };
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_reason why;
    struct rfg_db *h;
    ck_assert_msg(rfg_config_parse(row.problem.op, config, &var, p, &why), "%s", why.text);
    rfg_row_set_config(&row, var, p, false);
    MUST(rfg_db_open(&h, db, RFG_DB_WRITE));
    MUST(rfg_db_put(h, &row));
    rfg_db_close(&h);
}

/* Rows of other orders, and plain problems' rows, are passed over; those of the order are taken, the nearest too. */
START_TEST(rows_keep_to_the_order)
{
    char db[300], text[8000], problem[200], config[RFG_CONFIG_STRLEN];
    const char *tmp = getenv("TMPDIR");
    snprintf(db, sizeof(db), "%s/rfg-invariant-%d.db", tmp ? tmp : "/tmp", (int)getpid());
    unlink(db);
    rfg_context *ctx = imagine("gfx942", "", NULL);
    snprintf(problem, sizeof(problem), P, 8);
    struct rfg_problem prob = op_problem(problem);
    struct rfg_choice picked;
    ck_assert_int_eq(rfg_explain(ctx, problem, text, sizeof(text)), RFG_OK);
    ck_assert_msg(strstr(text, "rows are summed as 'gemm_stream_mma k_waves=") &&
                      strstr(text, "gemm_skinny: invariant=1: its order of summation"),
                  "%s", text);
    prob = rfg_problem_with_invariant(&prob, true);
    MUST(rfg_choose(ctx, &prob, RFG_RUNG_EXACT, 0, &picked, NULL, NULL));
    rfg_context_destroy(&ctx);

    ck_assert_str_eq(picked.variant->name, "gemm_stream_mma");
    int k_waves = picked.params[2];
    snprintf(config, sizeof(config), "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=%d,unroll=2,split_k=1}",
             k_waves == 2 ? 4 : 2);
    put_row(db, 8, false, config, 1);
    put_row(db, 8, true, config, 2);
    snprintf(config, sizeof(config), "gemm_stream_mma{tile_m=16,frags_n=1,k_waves=%d,unroll=2,split_k=2}", k_waves);
    put_row(db, 9, true, config, 3);
    snprintf(config, sizeof(config), "gemm_stream_mma{tile_m=16,frags_n=2,k_waves=%d,unroll=2,split_k=1}", k_waves);
    put_row(db, 7, true, config, 4);
    ctx = imagine("gfx942", db, NULL);
    MUST(rfg_choose(ctx, &prob, RFG_RUNG_EXACT, 0, &picked, NULL, NULL));
    ck_assert(picked.rung == RFG_RUNG_NEAREST && picked.row->median_us == 4);
    ck_assert_int_eq(rfg_explain(ctx, problem, text, sizeof(text)), RFG_OK);
    ck_assert_msg(strstr(text, "must be as 'gemm_stream_mma k_waves="), "%s", text);
    /* What the program is switched to counts. */
    rfg_context *few = imagine("gfx942", db, "gemm_portable");
    MUST(rfg_choose(few, &prob, RFG_RUNG_EXACT, 0, &picked, NULL, NULL));
    ck_assert_str_eq(picked.variant->name, "gemm_portable");
    rfg_context_destroy(&few);
    rfg_context_destroy(&ctx);
    unlink(db);
}
END_TEST

START_TEST(asked_for_or_refused)
{
    char text[RFG_PROBLEM_MAX];
    float a[16] = { 0 }, y[4];
    rfg_context *ctx = op_context("cpu");
    rfg_tensor x = rfg_tensor_2d(a, RFG_F32, 2, 4, 4), w = x, out = rfg_tensor_2d(y, RFG_F32, 2, 2, 2);
    op_refused(rfg_prepare(ctx, "gemm f32,f32->f32 M=2 N=2 K=4" INV), "batch_invariant of the context is off");
    rfg_context_destroy(&ctx);
    ctx = open_ctx("cpu", true);
    MUST(rfg_describe_begin(ctx, text, sizeof(text)));
    MUST(rfg_op_gemm(ctx, &out, &x, &w, NULL, NULL));
    rfg_describe_end(ctx);
    ck_assert_msg(strstr(text, INV), "%s", text);
    MUST(rfg_prepare(ctx, text));
    MUST(rfg_prepare(ctx, "gemm f32,f32->f32 M=2 N=2 K=4"));
    MUST(rfg_prepare(ctx, "act f32->f32 M=2 N=4 act=relu")); /* has no such key */
    rfg_context_destroy(&ctx);
    setenv("RFG_BATCH_INVARIANT", "yes", 1);
    op_refused(rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu" }),
               "RFG_BATCH_INVARIANT='yes': must be 0 or 1");
    unsetenv("RFG_BATCH_INVARIANT");
}
END_TEST

int main(void)
{
    return op_main("invariant",
                   OP_TESTS(rows_are_the_same_in_any_batch, without_it_some_differ, same_words_same_bits,
                            neighbours_do_not_matter),
                   OP_TESTS(words_of_4_bits, keys_and_callbacks_go_together, one_order_serves_all_sizes,
                            rows_keep_to_the_order, asked_for_or_refused));
}
