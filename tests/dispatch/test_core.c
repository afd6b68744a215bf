/* SPDX-License-Identifier: MIT
 *
 * Problem strings, configurations, dtypes, errors, the DLPack bridge: tests without a device. */
#include <pthread.h>
#include <stddef.h>

#include "ops/gemm/gemm.h"
#include "dispatch/context.h"
#include "rfg/dlpack.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

/* canonical form -> itself; another spelling -> canonical form */
static const struct {
    const char *in, *out;
} good[] = {
    { "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL },
    { "gemm bf16,bf16->bf16 M=8 N=2112 K=7168 bias=1", NULL },
    { "gemm f16,f16->f32 M=0 N=1 K=0 ldx=3 ldw=5 ldy=7 align=2 align_y=4", NULL },
    { "gemm f32,f32->bf16 M=2147483647 N=1 K=1", NULL },
    { "gemm bf16,bf16->bf16 K=7168 bias=0 N=2112 align=16 M=8", "gemm bf16,bf16->bf16 M=8 N=2112 K=7168" },
    { "  gemm \t bf16,bf16->bf16  M=8 N=2112 K=7168  ", "gemm bf16,bf16->bf16 M=8 N=2112 K=7168" },
};

START_TEST(problem_strings)
{
    struct rfg_problem p;
    struct rfg_reason why;
    char buf[RFG_PROBLEM_STRLEN];
    ck_assert_msg(rfg_problem_parse(&p, good[_i].in, &why), "%s: %s", good[_i].in, why.text);
    ck_assert_str_eq(rfg_problem_format(&p, buf, sizeof(buf)), good[_i].out ? good[_i].out : good[_i].in);
    struct rfg_problem again;
    ck_assert(rfg_problem_parse(&again, buf, &why));
    ck_assert(rfg_problem_equal(&p, &again));
    ck_assert_uint_eq(rfg_problem_hash(&p), rfg_problem_hash(&again));
}
END_TEST

static const struct {
    const char *in, *why; /* what the message must contain */
} bad[] = {
    { "", "op ''" },
    { "gem bf16,bf16->bf16 M=8 N=1 K=1", "op 'gem'" },
    { "gemm", "dtypes are missing" },
    { "gemm bf16->bf16 M=8 N=1 K=1", "must be those of gemm's x,w->y" },
    { "gemm bf16,bf16->bf16,bf16 M=8 N=1 K=1", "must be those of gemm's x,w->y" },
    { "gemm bf16,int4->bf16 M=8 N=1 K=1", "dtype 'int4'" },
    { "gemm bf16,f16->bf16 M=8 N=1 K=1", "dtype of w is f16" },
    { "gemm bf16,bf16->bf16 M=8 N=1", "K= is missing" },
    { "gemm bf16,bf16->bf16 M=-1 N=1 K=1", "M=-1: must be from 0" },
    { "gemm bf16,bf16->bf16 M=2147483648 N=1 K=1", "M=2147483648" },
    { "gemm bf16,bf16->bf16 M=99999999999999999999 N=1 K=1", "must be a whole number" },
    { "gemm bf16,bf16->bf16 M=8x N=1 K=1", "M=8x" },
    { "gemm bf16,bf16->bf16 M= N=1 K=1", "M=: must be a whole number" },
    { "gemm bf16,bf16->bf16 M=8 M=8 N=1 K=1", "given twice" },
    { "gemm bf16,bf16->bf16 M=8 N=1 K=1 page=16", "key 'page'" },
    { "gemm bf16,bf16->bf16 M=8 N=1 K=1 bias", "must be key=value" },
    { "gemm bf16,bf16->bf16 M=8 N=1 K=1 bias=2", "bias=2: must be from 0 to 1" },
    { "gemm bf16,bf16->bf16 M=8 N=1 K=9 ldx=8", "ldx=8" },
    { "gemm bf16,bf16->bf16 M=8 N=9 K=9 ldy=8", "ldy=8" },
    { "gemm bf16,bf16->bf16 M=8 N=9 K=9 align=3", "power of two" },
};

START_TEST(problem_refusals)
{
    struct rfg_problem p;
    struct rfg_reason why = { "" };
    ck_assert_msg(!rfg_problem_parse(&p, bad[_i].in, &why), "'%s' was taken", bad[_i].in);
    ck_assert_msg(strstr(why.text, bad[_i].why), "'%s': '%s' lacks '%s'", bad[_i].in, why.text, bad[_i].why);
}
END_TEST

START_TEST(problem_too_long)
{
    char text[4 * RFG_PROBLEM_STRLEN];
    struct rfg_problem p;
    struct rfg_reason why;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = 0;
    ck_assert(!rfg_problem_parse(&p, text, &why));
    ck_assert(!rfg_problem_parse(&p, NULL, &why));
}
END_TEST

START_TEST(key_drops_layout)
{
    struct rfg_problem p;
    char buf[RFG_PROBLEM_STRLEN];
    ck_assert(rfg_problem_parse(&p, "gemm f16,f16->f32 M=3 N=1 K=2 bias=1 ldx=9 align=2", NULL));
    struct rfg_problem key = rfg_problem_key(&p);
    ck_assert_str_eq(rfg_problem_format(&key, buf, sizeof(buf)), "gemm f16,f16->f32 M=3 N=1 K=2 bias=1");
    ck_assert(!rfg_problem_equal(&p, &key));
    ck_assert_uint_ne(rfg_problem_hash(&p), rfg_problem_hash(&key));
    ck_assert_str_eq(rfg_problem_format_attrs(&p, buf, sizeof(buf)), "bias=1");
}
END_TEST

/* No buffer size, however small, is overrun, and what fits is always terminated. */
START_TEST(format_into_small_buffers)
{
    struct rfg_problem p;
    ck_assert(rfg_problem_parse(&p, "gemm f16,f16->f32 M=3 N=1 K=2 bias=1 ldx=9 align=2", NULL));
    for (size_t size = 1; size < 80; size++) {
        char *buf = malloc(size); /* the sanitizer guards its end */
        rfg_problem_format(&p, buf, size);
        ck_assert(memchr(buf, 0, size));
        free(buf);
    }
}
END_TEST

/* ---- a made-up variant: configurations ---------------------------------------------------------------------- */

static const struct rfg_param test_params[] = { { "waves", 3, { 1, 2, 4 } }, { "rows", 2, { 8, 16 } } };

static bool test_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)dev;
    return prob->v[GEMM_M] <= 4 || rfg_refuse(why, "M=%d: must be at most 4", (int)prob->v[GEMM_M]);
}

static bool test_valid(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                       struct rfg_reason *why)
{
    (void)dev;
    (void)prob;
    return p[0] * p[1] <= 32 || rfg_refuse(why, "waves*rows=%d: must be at most 32", p[0] * p[1]);
}

/* What the made-up variant asks for. */
static size_t test_bytes;
static struct rfg_launch test_grid;

static size_t test_workspace(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)dev, (void)prob, (void)p;
    return test_bytes;
}

static void test_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                        struct rfg_launch *l)
{
    (void)dev, (void)prob, (void)p;
    *l = test_grid;
}

static const struct rfg_variant test_variant = { .name = "test",
                                                 .kind = RFG_VARIANT_KERNEL,
                                                 .n_params = 2,
                                                 .params = test_params,
                                                 .supports = test_supports,
                                                 .valid = test_valid,
                                                 .workspace = test_workspace,
                                                 .launch = test_launch };

struct seen {
    int n, stop_after, p[16][2];
};

static bool see(void *ctx, const int *p)
{
    struct seen *s = ctx;
    memcpy(s->p[s->n++], p, sizeof(s->p[0]));
    return s->n != s->stop_after;
}

START_TEST(enumeration)
{
    static const int want[][2] = { { 1, 8 }, { 1, 16 }, { 2, 8 }, { 2, 16 }, { 4, 8 } }; /* not 4 x 16 */
    struct rfg_device dev = { 0 };
    struct rfg_problem p;
    struct seen s = { 0 };
    ck_assert(rfg_problem_parse(&p, "gemm f16,f16->f32 M=3 N=1 K=2", NULL));
    ck_assert_int_eq(rfg_variant_each(&test_variant, &dev, &p, see, &s), 5);
    ck_assert_int_eq(s.n, 5);
    ck_assert(!memcmp(s.p, want, sizeof(want)));
    s = (struct seen){ .stop_after = 2 };
    ck_assert_int_eq(rfg_variant_each(&test_variant, &dev, &p, see, &s), 2);
    p.v[GEMM_M] = 5;
    ck_assert_int_eq(rfg_variant_each(&test_variant, &dev, &p, see, &s), 0);
}
END_TEST

START_TEST(checking)
{
    struct rfg_device dev = { 0 };
    struct rfg_problem p;
    struct rfg_reason why;
    ck_assert(rfg_problem_parse(&p, "gemm f16,f16->f32 M=3 N=1 K=2", NULL));
    ck_assert(rfg_variant_check(&test_variant, &dev, &p, (int[]){ 4, 8 }, &why));
    ck_assert(!rfg_variant_check(&test_variant, &dev, &p, (int[]){ 3, 8 }, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "waves=3"));
    ck_assert(!rfg_variant_check(&test_variant, &dev, &p, (int[]){ 4, 16 }, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "waves*rows=64"));
    p.v[GEMM_M] = 5;
    ck_assert(!rfg_variant_check(&test_variant, &dev, &p, (int[]){ 4, 8 }, &why));
    ck_assert_ptr_nonnull(strstr(why.text, "M=5"));
}
END_TEST

/* What can't be launched isn't valid, whatever the variant's own rules say: neither checked nor enumerated. */
START_TEST(launch_limits)
{
    static const struct {
        size_t workspace;
        struct rfg_launch launch;
        const char *why; /* NULL: it fits */
    } cases[] = {
        { RFG_WORKSPACE_BYTES, { { INT32_MAX / 512, 65535, 65535 }, { 1024, 1, 1 }, 65536 }, NULL },
        { RFG_WORKSPACE_BYTES + 1,
          { { 1, 1, 1 }, { 64, 1, 1 }, 0 },
          "needs a workspace of 33554433 bytes: a stream has 33554432" },
        { 0, { { 1, 1, 1 }, { 512, 2, 2 }, 0 }, "2048 threads: must be at most 1024" },
        { 0, { { 1, 1, 1 }, { 64, 1, 1 }, 65537 }, "65537 bytes of LDS: must be at most 65536" },
        { 0, { { 1u << 31, 1, 1 }, { 1, 1, 1 }, 0 }, "more than a launch takes" },
        { 0, { { 1 << 23, 1, 1 }, { 512, 1, 1 }, 0 }, "more than a launch takes" },
        { 0, { { 1, 65536, 1 }, { 64, 1, 1 }, 0 }, "more than a launch takes" },
        { 0, { { 1, 1, 65536 }, { 64, 1, 1 }, 0 }, "more than a launch takes" },
    };
    struct rfg_device dev = { .lds_bytes = 65536, .max_threads = 1024 };
    struct rfg_problem p;
    ck_assert(rfg_problem_parse(&p, "gemm f16,f16->f32 M=3 N=1 K=2", NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rfg_reason why = { "" };
        struct seen s = { 0 };
        test_bytes = cases[i].workspace;
        test_grid = cases[i].launch;
        bool fits = rfg_variant_check(&test_variant, &dev, &p, (int[]){ 4, 8 }, &why);
        ck_assert_msg(fits == !cases[i].why && (fits || strstr(why.text, cases[i].why)), "case %zu: '%s'", i, why.text);
        ck_assert_int_eq(rfg_variant_each(&test_variant, &dev, &p, see, &s), fits ? 5 : 0);
    }
    test_bytes = 0;
    test_grid = (struct rfg_launch){ { 0 }, { 0 }, 0 };
}
END_TEST

START_TEST(configurations)
{
    char buf[RFG_CONFIG_STRLEN];
    const struct rfg_op *op = rfg_op_find("gemm", 4);
    ck_assert_str_eq(rfg_config_format(&test_variant, (int[]){ 4, 8 }, buf, sizeof(buf)), "test{waves=4,rows=8}");
    for (int i = 0; i < rfg_op_variants(op)->n; i++) { /* every variant's first configuration reads back */
        const struct rfg_variant *var;
        int p[RFG_MAX_PARAMS] = { 0 }, q[RFG_MAX_PARAMS] = { 0 };
        struct rfg_reason why;
        for (int j = 0; j < rfg_op_variants(op)->list[i]->n_params; j++)
            p[j] = rfg_op_variants(op)->list[i]->params[j].values[0];
        rfg_config_format(rfg_op_variants(op)->list[i], p, buf, sizeof(buf));
        ck_assert_msg(rfg_config_parse(op, buf, &var, q, &why), "%s: %s", buf, why.text);
        ck_assert_ptr_eq(var, rfg_op_variants(op)->list[i]);
        ck_assert(!memcmp(p, q, sizeof(p)));
    }
}
END_TEST

START_TEST(configuration_refusals)
{
    static const struct {
        const char *in, *why;
    } cases[] = {
        { "nothing{a=1}", "no such variant" },
        { "gemm_portable{", "must end with" },
        { "gemm_portable{nonsense=1}", "no such parameter" },
        { "gemm_portable{nonsense}", "no such parameter" },
    };
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_reason why;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert(!rfg_config_parse(rfg_op_find("gemm", 4), cases[i].in, &var, p, &why));
        ck_assert_msg(strstr(why.text, cases[i].why), "'%s': '%s'", cases[i].in, why.text);
    }
}
END_TEST

/* ---- registry rules: what the files on users' disks rely on ------------------------------------------------- */

START_TEST(registry)
{
    for (int i = 0; rfg_ops[i]; i++) {
        const struct rfg_op *op = rfg_ops[i];
        ck_assert_int_le(op->n_keys, RFG_MAX_KEYS);
        ck_assert_int_le(op->n_in + op->n_out, RFG_MAX_DTYPES);
        for (int j = 0; rfg_ops[j]; j++)
            ck_assert(i == j || (rfg_ops[j]->id != op->id && strcmp(rfg_ops[j]->name, op->name)));
        for (int j = 0; j < rfg_op_variants(op)->n; j++) {
            const struct rfg_variant *v = rfg_op_variants(op)->list[j];
            ck_assert_int_le(v->n_params, RFG_MAX_PARAMS);
            ck_assert_ptr_eq(rfg_variant_find(op, v->name), v);
            ck_assert_msg(!strncmp(v->name, op->name, strlen(op->name)), "%s: begins with its op's name", v->name);
            ck_assert(v->kind != RFG_VARIANT_KERNEL || (v->kernel && v->launch));
            ck_assert(v->kind != RFG_VARIANT_HOST || v->run);
            ck_assert(v->kind != RFG_VARIANT_VENDOR ||
                      (v->vendor_prepare && v->vendor_run && v->vendor_release && v->vendor_version));
        }
    }
}
END_TEST

/* The first 48 bytes are all that a kernel reads of packed operands without a workspace. */
START_TEST(kernel_argument_layout)
{
    ck_assert_uint_eq(offsetof(struct gemm_args, w_scale), 88); /* kernels without scales have no more */
    ck_assert_uint_eq(offsetof(struct gemm_args, y), 0);
    ck_assert_uint_eq(offsetof(struct gemm_args, x), 8);
    ck_assert_uint_eq(offsetof(struct gemm_args, bias), 24);
    ck_assert_uint_eq(offsetof(struct gemm_args, m), 32);
    ck_assert_uint_eq(offsetof(struct gemm_args, k), 40);
    ck_assert_uint_eq(offsetof(struct gemm_args, ldx), 48); /* from here on only if they aren't packed */
    ck_assert_uint_eq(offsetof(struct gemm_args, ldy), 64);
    ck_assert_uint_eq(offsetof(struct gemm_args, workspace), 72);
}
END_TEST

/* ---- small public things -------------------------------------------------------------------------------------- */

START_TEST(names)
{
    ck_assert_str_eq(rfg_version(), RFG_VERSION);
    ck_assert_str_eq(rfg_status_name(RFG_ERROR_NOT_READY), "RFG_ERROR_NOT_READY");
    ck_assert_str_eq(rfg_status_name((rfg_status)99), "RFG_ERROR_?");
    ck_assert_str_eq(rfg_dtype_name(RFG_BF16), "bf16");
    ck_assert_str_eq(rfg_dtype_name((rfg_dtype)99), "?");
    ck_assert_str_eq(rfg_dtype_name((rfg_dtype)-1), "?");
    ck_assert_uint_eq(rfg_dtype_bytes(RFG_BF16, 3), 6);
    ck_assert_uint_eq(rfg_dtype_bytes((rfg_dtype)-1, 3), 0);
}
END_TEST

static void *other_thread(void *arg)
{
    (void)arg;
    return (void *)(rfg_last_error()[0] ? "" : "clean");
}

START_TEST(errors_are_per_thread)
{
    pthread_t thread;
    void *result;
    rfg_context *ctx;
    ck_assert_int_eq(
        rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "nonsense" }),
        RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_ptr_null(ctx);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "'nonsense'"));
    ck_assert_int_eq(rfg_fail(RFG_ERROR_IO, "again: %s", rfg_last_error()), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "again: device 'nonsense'"));
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, &result);
    ck_assert_str_eq(result, "clean");
}
END_TEST

START_TEST(context_refusals)
{
    static const char *const devices[] = { "",          "gpu", "amd",   "amd:", "amd:x", "nvidia:-1",
                                           "nvidia:1 ", "CPU", "amd.0", "emu",  "emu:",  "emu:gfx9" };
    rfg_context *ctx;
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        rfg_status st =
            rfg_context_create(&ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = devices[i] });
        ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT, "'%s': %s", devices[i], rfg_status_name(st));
    }
    ck_assert_int_eq(rfg_context_create(NULL, NULL), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(
        rfg_context_create(&ctx,
                           &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu", .threads = -1 }),
        RFG_ERROR_INVALID_ARGUMENT);
    rfg_context_destroy(NULL);
    ctx = NULL;
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(tensors)
{
    const int64_t shape[] = { 2, 3, 4, 5, 6, 7 }, strides[] = { 360, 120, 30, 6, 1 };
    char data;
    rfg_tensor t = rfg_tensor_nd(&data, RFG_I4, 5, shape), flat = rfg_tensor_2d(&data, RFG_BF16, 2, 3, 3);
    ck_assert_ptr_eq(t.data, &data);
    ck_assert_int_eq(t.dtype, RFG_I4);
    ck_assert_int_eq(t.ndim, 5);
    ck_assert_mem_eq(t.shape, shape, sizeof(t.shape));
    ck_assert_mem_eq(t.strides, strides, sizeof(t.strides));
    t = rfg_tensor_nd(&data, RFG_BF16, 2, shape);
    ck_assert_mem_eq(t.shape, flat.shape, sizeof(t.shape));
    ck_assert_mem_eq(t.strides, flat.strides, sizeof(t.strides));
    /* What no operator takes stays as it was said, and nothing is read or written beyond. */
    t = rfg_tensor_nd(&data, RFG_BF16, 6, shape);
    ck_assert_int_eq(t.ndim, 6);
    ck_assert_mem_eq(t.shape, shape, sizeof(t.shape));
    t = rfg_tensor_nd(&data, RFG_BF16, -1, NULL);
    ck_assert_int_eq(t.ndim, -1);
    t = rfg_tensor_nd(&data, RFG_BF16, 3, (const int64_t[]){ INT64_MAX, -3, INT64_MAX });
    ck_assert_int_eq(t.shape[1], -3);
}
END_TEST

START_TEST(dlpack)
{
    char data[64];
    int64_t shape[] = { 3, 4 }, strides[] = { 8, 1 };
    DLTensor dl = { .data = data,
                    .device = { kDLCPU, 0 },
                    .ndim = 2,
                    .dtype = { kDLBfloat, 16, 1 },
                    .shape = shape,
                    .byte_offset = 2 };
    rfg_tensor t;
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), 0);
    ck_assert_int_eq(t.dtype, RFG_BF16);
    ck_assert_ptr_eq(t.data, data + 2);
    ck_assert_int_eq(t.strides[0], 4);
    ck_assert_int_eq(t.strides[1], 1);
    dl.strides = strides;
    dl.dtype = (DLDataType){ kDLFloat, 32, 1 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), 0);
    ck_assert_int_eq(t.dtype, RFG_F32);
    ck_assert_int_eq(t.strides[0], 8);
    dl.dtype = (DLDataType){ kDLFloat, 16, 2 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), -1);
    dl.dtype = (DLDataType){ kDLInt, 32, 1 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), 0);
    ck_assert_int_eq(t.dtype, RFG_I32);
    dl.dtype = (DLDataType){ kDLInt, 64, 1 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), 0);
    ck_assert_int_eq(t.dtype, RFG_I64);
    dl.dtype = (DLDataType){ kDLInt, 4, 1 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), 0);
    ck_assert_int_eq(t.dtype, RFG_I4);
    dl.dtype = (DLDataType){ kDLInt, 16, 1 };
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), -1);
    dl.ndim = RFG_MAX_DIMS + 1;
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &dl), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("core");
    TCase *tc = test_case(s, "core", NULL, NULL);
    ADD_TESTS(tc, problem_too_long, key_drops_layout, format_into_small_buffers, enumeration, checking, launch_limits,
              configurations, configuration_refusals, registry, kernel_argument_layout, names, errors_are_per_thread,
              context_refusals, tensors, dlpack);
    ADD_LOOPS(tc, sizeof(good) / sizeof(good[0]), problem_strings);
    ADD_LOOPS(tc, sizeof(bad) / sizeof(bad[0]), problem_refusals);
    return run_suite(s);
}
