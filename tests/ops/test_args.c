/* SPDX-License-Identifier: MIT
 *
 * Every public function with every argument wrong in turn: refused, the argument named, nothing written. The headers
 * are read for the list of functions, so that none is forgotten. */
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "args.h"
#include "rfg/dlpack.h"
#include "tests/suite.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static rfg_context *open_cpu(void)
{
    rfg_context *ctx;
    rfg_context_params p = { .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 2 };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

/* Is the word in the text, as a word? */
static bool names(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
            !(isalnum((unsigned char)at[len]) || at[len] == '_'))
            return true;
    return false;
}

/* ---- operators: tensors in an arena ------------------------------------------------------------------------------ */

#define SLOT  (1 << 16) /* of a tensor, which lies in the middle */
#define BYTES (SLOT * (MAX_ARGS + 1))

struct trial {
    const struct form *f;
    struct call call;
    rfg_tensor t[MAX_ARGS];
    char *arena, *before;
};

static size_t extent(const rfg_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->ndim; i++)
        last += t->shape[i] > 1 ? (t->shape[i] - 1) * t->strides[i] : 0;
    return rfg_dtype_bytes(t->dtype, last + 1);
}

/* Everything as it should be. */
static void lay(struct trial *r)
{
    r->call = r->f->call;
    memset(r->arena, 0x3c, BYTES); /* a small number in every format */
    for (int i = 0; i < r->f->n; i++) {
        const struct arg *a = &r->f->args[i];
        r->t[i] = a->t;
        r->t[i].data = r->arena + (size_t)i * SLOT + SLOT / 2;
        r->call.t[i] = &r->t[i];
        if (a->t.dtype == RFG_I32)
            memcpy(r->t[i].data, a->values, extent(&a->t));
    }
}

static void start(struct trial *r, const struct form *f, rfg_context *ctx)
{
    *r = (struct trial){ .f = f, .arena = aligned_alloc(4096, BYTES), .before = malloc(BYTES) };
    ck_assert(r->arena && r->before);
    lay(r);
    r->call.ctx = ctx;
    ck_assert_msg(f->run(&r->call) == RFG_OK, "%s, %s: %s", f->fn, f->what, rfg_last_error());
}

static void finish(struct trial *r)
{
    free(r->arena);
    free(r->before);
}

/* The call as it stands must be refused by name of the argument; all is laid anew. */
static void expect_refusal(struct trial *r, rfg_context *ctx, const char *named, const char *how)
{
    rfg_stats a, b;
    if (ctx)
        rfg_context_stats(ctx, &a);
    r->call.ctx = ctx;
    memcpy(r->before, r->arena, BYTES);
    rfg_status st = r->f->run(&r->call);
    const char *error = rfg_last_error();
    ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT, "%s (%s): %s %s: %s", r->f->fn, r->f->what, named, how,
                  rfg_status_name(st));
    ck_assert_msg(!strncmp(error, r->f->fn, strlen(r->f->fn)) || !strncmp(error, r->f->op, strlen(r->f->op)),
                  "%s (%s): %s %s: '%s' names no function", r->f->fn, r->f->what, named, how, error);
    ck_assert_msg(names(error, named), "%s (%s): %s %s: '%s' doesn't name it", r->f->fn, r->f->what, named, how, error);
    ck_assert_msg(!memcmp(r->before, r->arena, BYTES), "%s (%s): %s %s: memory was written", r->f->fn, r->f->what,
                  named, how);
    if (ctx) {
        rfg_context_stats(ctx, &b);
        ck_assert_uint_eq(a.calls, b.calls);
        ck_assert_uint_eq(a.plans, b.plans);
    }
    lay(r);
}

static void wrong_dtypes(struct trial *r, rfg_context *ctx, int i)
{
    const struct arg *a = &r->f->args[i];
    for (int d = -1; d <= RFG_DTYPE_COUNT; d++) {
        if (d == (int)a->t.dtype || (d >= 0 && (a->dtypes >> d & 1)))
            continue;
        r->t[i].dtype = (rfg_dtype)d;
        expect_refusal(r, ctx, a->name, "of another dtype");
    }
}

static void wrong_shapes(struct trial *r, rfg_context *ctx, int i)
{
    static const int dims[] = { INT_MIN, -1, 0, 6, INT_MAX };
    static const int64_t sizes[] = { INT64_MIN, -1, (int64_t)INT32_MAX + 1, INT64_MAX };
    static const int64_t strides[] = { INT64_MIN, -1, 0, INT64_MAX };
    const struct arg *a = &r->f->args[i];
    for (int k = 0; k < COUNT(dims); k++) {
        r->t[i].ndim = dims[k];
        expect_refusal(r, ctx, a->name, "of as many dimensions");
    }
    for (int d = 0; d < a->t.ndim; d++) {
        for (int k = 0; k < COUNT(sizes); k++) {
            r->t[i].shape[d] = sizes[k];
            expect_refusal(r, ctx, a->name, "of that size");
        }
        if (!(a->sizes >> d & 1)) {
            r->t[i].shape[d]++;
            for (int e = 0; e < d; e++) /* so that it is well made still */
                r->t[i].strides[e] *= 2;
            expect_refusal(r, ctx, a->name, "one larger");
        }
        if (a->t.shape[d] < 2)
            continue;
        for (int k = 0; k < COUNT(strides); k++) {
            r->t[i].strides[d] = strides[k];
            expect_refusal(r, ctx, a->name, "of that stride");
        }
        if (d + 1 == a->t.ndim && !(a->flags & ARG_ANY_STRIDE)) {
            r->t[i].strides[d] = 2;
            expect_refusal(r, ctx, a->name, "of stride 2 in the last dimension");
        }
        if (a->flags & ARG_OUT && d + 1 < a->t.ndim && a->t.shape[d + 1] > 1 &&
            a->t.strides[d] == a->t.shape[d + 1] * a->t.strides[d + 1]) {
            r->t[i].strides[d]--;
            expect_refusal(r, ctx, a->name, "with elements that overlap");
        }
    }
}

#define ELEMENT_BYTES(t) ((rfg_dtype_bytes((t)->dtype, 2) + 1) / 2) /* of 4 bits: those of two */

static void wrong_data(struct trial *r, rfg_context *ctx, int i)
{
    const struct arg *a = &r->f->args[i];
    size_t size = ELEMENT_BYTES(&a->t);
    r->t[i].data = NULL;
    expect_refusal(r, ctx, a->name, "without data");
    for (size_t k = 1; k < size; k++) {
        r->t[i].data = (char *)r->t[i].data + k;
        expect_refusal(r, ctx, a->name, "not aligned");
    }
    r->t[i].data = (void *)((uintptr_t)0 - (extent(&a->t) - size));
    expect_refusal(r, ctx, a->name, "at the end of the address space");
}

/* An output at `at`, moved to where it is aligned. */
static void *aligned(const rfg_tensor *t, const char *at)
{
    size_t size = ELEMENT_BYTES(t);
    return (void *)((uintptr_t)at / size * size);
}

/* The output over each end of another tensor, and at its beginning; and right before and behind it, which is right. */
static void wrong_places(struct trial *r, rfg_context *ctx, int i)
{
    const struct arg *a = &r->f->args[i];
    size_t size = ELEMENT_BYTES(&a->t), mine = extent(&a->t);
    for (int k = 0; k < r->f->n; k++) {
        if (k == i)
            continue;
        const char *other = r->t[k].data, *end = other + extent(&r->t[k]);
        r->t[i].data = aligned(&a->t, other - mine + size);
        expect_refusal(r, ctx, a->name, "ends in another tensor");
        r->t[i].data = aligned(&a->t, end - 1);
        expect_refusal(r, ctx, a->name, "begins in another tensor");
        if (!(a->flags & ARG_SAME_AS_NEXT && k == i + 1)) {
            r->t[i].data = aligned(&a->t, other);
            expect_refusal(r, ctx, a->name, "is where another tensor is");
        }
        if (!strcmp(r->f->op, "gemm_prepack"))
            continue; /* wants 16 bytes */
        r->t[i].data = aligned(&a->t, other - mine);
        r->call.ctx = ctx;
        ck_assert_msg(r->f->run(&r->call) == RFG_OK, "before: %s", rfg_last_error());
        lay(r);
        r->t[i].data = aligned(&a->t, end + size - 1);
        r->call.ctx = ctx;
        ck_assert_msg(r->f->run(&r->call) == RFG_OK, "behind: %s", rfg_last_error());
        lay(r);
    }
}

START_TEST(operators)
{
    rfg_context *ctx = open_cpu();
    struct trial r;
    start(&r, &forms[_i], ctx);
    const struct form *f = r.f;
    lay(&r);
    expect_refusal(&r, NULL, "ctx", "is NULL");
    r.call.stream = &r;
    expect_refusal(&r, ctx, "stream", "on cpu");
    for (const struct wrong *w = f->wrongs; w->named; w++) {
        w->spoil(&r.call);
        expect_refusal(&r, ctx, w->named, "wrong");
    }
    for (int i = 0; i < f->n; i++) {
        if (!(f->args[i].flags & ARG_OPTIONAL)) {
            r.call.t[i] = NULL;
            expect_refusal(&r, ctx, f->args[i].name, "is NULL");
        }
        wrong_dtypes(&r, ctx, i);
        wrong_shapes(&r, ctx, i);
        wrong_data(&r, ctx, i);
        if (f->args[i].flags & ARG_OUT)
            wrong_places(&r, ctx, i);
    }
    finish(&r);
    rfg_context_destroy(&ctx);
}
END_TEST

/* What outputs may be given in place of: the input itself, and no output at all but one. */
START_TEST(in_place)
{
    rfg_context *ctx = open_cpu();
    struct trial r;
    start(&r, &forms[_i], ctx);
    for (int i = 0; i < r.f->n; i++) {
        const struct arg *a = &r.f->args[i], *next = a + 1;
        lay(&r);
        r.call.ctx = ctx;
        if (a->flags & ARG_SAME_AS_NEXT && !memcmp(a->t.strides, next->t.strides, sizeof(a->t.strides))) {
            r.t[i].data = r.t[i + 1].data;
            ck_assert_msg(r.f->run(&r.call) == RFG_OK, "%s: %s", a->name, rfg_last_error());
        }
        if (a->flags & ARG_OPTIONAL) {
            lay(&r);
            r.call.ctx = ctx;
            r.call.t[i] = NULL;
            ck_assert_msg(r.f->run(&r.call) == RFG_OK, "%s: %s", a->name, rfg_last_error());
        }
    }
    finish(&r);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- params structs of other versions -----------------------------------------------------------------------------
 */

static rfg_status foreign_call(struct trial *r, rfg_context *ctx, struct foreign f)
{
    lay(r);
    r->call.ctx = ctx;
    r->call.foreign = f;
    return r->f->run(&r->call);
}

START_TEST(sizes_of_params)
{
    rfg_context *ctx = open_cpu();
    struct trial r;
    start(&r, &forms[_i / 2], ctx);
    bool quant = _i % 2; /* what params point to */
    const char *says = quant ? "quant has size" : "params has size";
    params_size = 0;
    ck_assert_int_eq(foreign_call(&r, ctx, (struct foreign){ .quant = quant }), RFG_OK);
    const size_t own = params_size,
                 wrong[] = { 0, 1, 7, own - 1, own + 1, own + 4, 4104, 1 << 20, SIZE_MAX - 7, SIZE_MAX };
    const size_t larger[] = { own + 8, own + 64, 4096 };
    for (int i = 0; own && i < COUNT(wrong); i++) {
        r.call.foreign = (struct foreign){ .quant = quant, .sized = true, .size = wrong[i] };
        expect_refusal(&r, ctx, says, "of that size");
    }
    for (int i = 0; own && i < COUNT(larger); i++) {
        struct foreign f = { .quant = quant, .sized = true, .size = larger[i] };
        ck_assert_msg(foreign_call(&r, ctx, f) == RFG_OK, "%s: %zu: %s", r.f->fn, larger[i], rfg_last_error());
        f.dirt = larger[i]; /* right behind it */
        ck_assert_msg(foreign_call(&r, ctx, f) == RFG_OK, "%s: %zu: %s", r.f->fn, larger[i], rfg_last_error());
        for (int last = 0; last < 2; last++) {
            lay(&r);
            f.dirt = last ? larger[i] - 1 : own;
            r.call.foreign = f;
            expect_refusal(&r, ctx, says, "with something behind what is known");
        }
    }
    /* What a smaller one lacks is as if it were 0, whatever lies behind it. */
    for (size_t size = sizeof(size_t); size < own; size += sizeof(size_t)) {
        rfg_status st =
            foreign_call(&r, ctx, (struct foreign){ .quant = quant, .sized = true, .size = own, .kept = size });
        char *error = st == RFG_OK ? NULL : strdup(rfg_last_error());
        memcpy(r.before, r.arena, BYTES);
        rfg_status got = foreign_call(
            &r, ctx, (struct foreign){ .quant = quant, .sized = true, .size = size, .kept = size, .rest = 255 });
        ck_assert_msg(got == st, "%s: %zu: %s", r.f->fn, size, rfg_last_error());
        ck_assert_msg(!error || !strcmp(error, rfg_last_error()), "%s: %zu: '%s'", r.f->fn, size, rfg_last_error());
        ck_assert_msg(!memcmp(r.before, r.arena, BYTES), "%s: %zu: another result", r.f->fn, size);
        free(error);
    }
    finish(&r);
    rfg_context_destroy(&ctx);
}
END_TEST

/* The macros are what NULL stands for: all zero but for the size. */
START_TEST(default_params)
{
    rfg_gemm_params gemm = RFG_GEMM_PARAMS_INIT, no_gemm = { .size = sizeof(gemm) };
    rfg_act_params act = RFG_ACT_PARAMS_INIT, no_act = { .size = sizeof(act) };
    rfg_norm_params norm = RFG_NORM_PARAMS_INIT, no_norm = { .size = sizeof(norm) };
    rfg_mha_params mha = RFG_MHA_PARAMS_INIT, no_mha = { .size = sizeof(mha) };
    ck_assert(!memcmp(&gemm, &no_gemm, sizeof(gemm)) && !memcmp(&act, &no_act, sizeof(act)));
    ck_assert(!memcmp(&norm, &no_norm, sizeof(norm)) && !memcmp(&mha, &no_mha, sizeof(mha)));

    rfg_context *ctx = open_cpu();
    float x[4] = { 1e-3f, 2e-3f, 3e-3f, 4e-3f }, y[3][4];
    const rfg_norm_params exact = { .size = sizeof(exact), .eps = 1e-30f }, *const given[] = { NULL, &norm, &exact };
    for (int i = 0; i < 3; i++) {
        rfg_tensor tx = rfg_tensor_2d(x, RFG_F32, 1, 4, 4), ty = rfg_tensor_2d(y[i], RFG_F32, 1, 4, 4);
        ck_assert_int_eq(rfg_op_rmsnorm(ctx, &ty, &tx, NULL, given[i], NULL), RFG_OK);
    }
    ck_assert(!memcmp(y[0], y[1], sizeof(y[0])));
    ck_assert(y[2][0] > y[0][0] * 1.05f); /* next to none */
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- all other functions ----------------------------------------------------------------------------------------- */

/* The last call was refused, by name. */
static void refused(rfg_status st, rfg_status want, const char *fn, const char *named)
{
    const char *error = rfg_last_error();
    ck_assert_msg(st == want, "%s: %s: %s, '%s'", fn, named, rfg_status_name(st), error);
    ck_assert_msg(strstr(error, fn), "'%s' lacks '%s'", error, fn);
    ck_assert_msg(strstr(error, named), "'%s' lacks '%s'", error, named);
}

#define INVALID RFG_ERROR_INVALID_ARGUMENT

static void status_names(void)
{
    for (int i = -1; i < 20; i++)
        ck_assert_ptr_nonnull(rfg_status_name((rfg_status)i));
    ck_assert_str_eq(rfg_status_name((rfg_status)INT_MIN), "RFG_ERROR_?");
}

static void last_error(void)
{
    ck_assert_ptr_nonnull(rfg_last_error());
}

static void version(void)
{
    ck_assert_str_eq(rfg_version(), RFG_VERSION);
}

static void dtypes(void)
{
    static const int beyond[] = { INT_MIN, -1, RFG_DTYPE_COUNT, INT_MAX };
    for (int i = 0; i < COUNT(beyond); i++) {
        ck_assert_str_eq(rfg_dtype_name((rfg_dtype)beyond[i]), "?");
        ck_assert_uint_eq(rfg_dtype_bytes((rfg_dtype)beyond[i], 16), 0);
    }
}

/* Views of nonsense are nonsense, and made without a crash. */
static void views(void)
{
    static const int64_t n[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    for (int i = 0; i < COUNT(n); i++) {
        rfg_tensor a = rfg_tensor_1d(NULL, (rfg_dtype)-1, n[i]), b = rfg_tensor_2d(NULL, RFG_F32, n[i], n[i], n[i]);
        rfg_tensor c = rfg_tensor_prepacked(NULL, RFG_BF16, n[i], n[i]);
        rfg_tensor d = rfg_tensor_prepacked_groups(NULL, RFG_I8, n[i], n[i]);
        ck_assert(a.shape[0] == n[i] && b.shape[1] == n[i] && c.shape[0] == n[i] / 16 && d.shape[0] == n[i] / 16);
        rfg_tensor e = rfg_tensor_nd(NULL, RFG_F32, 6, (const int64_t[]){ n[i], n[i], n[i], n[i], n[i] });
        ck_assert(e.ndim == 6 && e.shape[4] == n[i] && e.strides[3] == n[i]);
    }
    ck_assert_int_eq(rfg_tensor_nd(NULL, RFG_F32, INT32_MIN, NULL).ndim, INT32_MIN);
}

static void context_create(void)
{
    static const char *const devices[] = { "",
                                           "gpu",
                                           "amd:",
                                           "amd:-1",
                                           "nvidia:x",
                                           "cpu ",
                                           "amd:1024",
                                           "emu:",
                                           "emu:gfx1:2",
                                           "emu:gfx942:0",
                                           "emu:gfx942:99999999999",
                                           "nvidia:99999999999999999999" };
    static const int threads[] = { INT_MIN, -1, 1025, 65536, INT_MAX };
    rfg_context *ctx = (rfg_context *)&ctx;
    refused(rfg_context_create(NULL, NULL), INVALID, "rfg_context_create", "ctx");
    for (int i = 0; i < COUNT(devices); i++) {
        ctx = (rfg_context *)&ctx;
        refused(rfg_context_create(&ctx, &(rfg_context_params){ .device = devices[i] }), INVALID, "device", devices[i]);
        ck_assert_ptr_null(ctx);
    }
    for (int i = 0; i < COUNT(threads); i++) {
        ctx = (rfg_context *)&ctx;
        refused(rfg_context_create(&ctx, &(rfg_context_params){ .device = "cpu", .threads = threads[i] }), INVALID,
                "rfg_context_create", "threads is ");
        ck_assert_ptr_null(ctx);
    }
}

static void context_destroy(void)
{
    rfg_context *ctx = NULL;
    rfg_context_destroy(NULL);
    rfg_context_destroy(&ctx);
}

static void context_device(void)
{
    ck_assert_str_eq(rfg_context_device(NULL), "");
    refused(INVALID, INVALID, "rfg_context_device", "ctx");
}

static void prepare_stream(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare_stream(NULL, NULL), INVALID, "rfg_prepare_stream", "ctx");
    refused(rfg_prepare_stream(ctx, ctx), INVALID, "rfg_prepare_stream", "stream");
    rfg_context_destroy(&ctx);
}

static const char *const bad_problems[] = {
    "",
    "gem bf16,bf16->bf16 M=1 N=1 K=1",
    "gemm",
    "gemm bf16,bf16->bf16 M=1 N=1",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldx=9223372036854775807",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldx=2147483648",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldw=4294967296",
    "gemm bf16,bf16->bf16 M=1 N=1 K=1 ldy=-1",
    "gemm_prepack bf16->bf16 N=16 K=32 ld=9223372036854775792",
    "gemm_prepack i4->i4 N=16 K=16",
    "act bf16->bf16 M=1 N=1 ldx=9223372036854775807",
    "rmsnorm bf16->bf16 M=4 N=1 heads=4 ldx=9223372036854775807",
    "mha bf16->bf16 B=1 Hq=1 Hkv=1 D=65 Sq=1 S=1",
};

static void prepare(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare(NULL, "gemm bf16,bf16->bf16 M=1 N=1 K=1"), INVALID, "rfg_prepare", "ctx");
    refused(rfg_prepare(ctx, NULL), INVALID, "rfg_prepare", "problem");
    for (int i = 0; i < COUNT(bad_problems); i++)
        refused(rfg_prepare(ctx, bad_problems[i]), INVALID, "rfg_prepare", "");
    rfg_stats stats;
    rfg_context_stats(ctx, &stats);
    ck_assert_uint_eq(stats.plans, 0);
    rfg_context_destroy(&ctx);
}

static void prepare_from_csv(void)
{
    rfg_context *ctx = open_cpu();
    refused(rfg_prepare_from_csv(NULL, "/dev/null"), INVALID, "rfg_prepare_from_csv", "ctx");
    refused(rfg_prepare_from_csv(ctx, NULL), INVALID, "rfg_prepare_from_csv", "path");
    refused(rfg_prepare_from_csv(ctx, "/nope/shapes.csv"), RFG_ERROR_IO, "/nope/shapes.csv", "");
    refused(rfg_prepare_from_csv(ctx, ""), RFG_ERROR_IO, "", "");
    rfg_context_destroy(&ctx);
}

static void explain(void)
{
    const char *problem = "gemm bf16,bf16->bf16 M=1 N=1 K=1";
    rfg_context *ctx = open_cpu();
    char buf[64] = "as it was";
    refused(rfg_explain(NULL, problem, buf, sizeof(buf)), INVALID, "rfg_explain", "ctx");
    refused(rfg_explain(ctx, problem, NULL, sizeof(buf)), INVALID, "rfg_explain", "buf");
    refused(rfg_explain(ctx, problem, buf, 0), INVALID, "rfg_explain", "size");
    ck_assert_str_eq(buf, "as it was");
    refused(rfg_explain(ctx, NULL, buf, sizeof(buf)), INVALID, "rfg_explain", "problem");
    ck_assert_str_eq(buf, "");
    for (int i = 0; i < COUNT(bad_problems); i++) {
        refused(rfg_explain(ctx, bad_problems[i], buf, sizeof(buf)), INVALID, "rfg_explain", "");
        ck_assert_str_eq(buf, "");
    }
    for (size_t size = 1; size < sizeof(buf); size++) { /* never past its end */
        memset(buf, 'x', sizeof(buf));
        refused(rfg_explain(ctx, problem, buf, size), INVALID, "rfg_explain", "size");
        ck_assert(memchr(buf, 0, size) && buf[size] == 'x');
    }
    rfg_context_destroy(&ctx);
}

static void describe(void)
{
    rfg_context *ctx = open_cpu();
    char buf[RFG_PROBLEM_MAX] = "as it was";
    refused(rfg_describe_begin(NULL, buf, sizeof(buf)), INVALID, "rfg_describe_begin", "ctx");
    refused(rfg_describe_begin(ctx, NULL, sizeof(buf)), INVALID, "rfg_describe_begin", "buf");
    refused(rfg_describe_begin(ctx, buf, sizeof(buf) - 1), INVALID, "rfg_describe_begin", "size");
    ck_assert_str_eq(buf, "as it was");
    rfg_describe_end(NULL);
    rfg_describe_end(ctx);
    rfg_context_destroy(&ctx);
}

#include "args_pack.h"

static void log_callback(void)
{
    rfg_set_log_callback(NULL, NULL, ~0u);
    ck_assert(!rfg_log_on(RFG_LOG_CALLS));
}

/* Of rfg/device.h: tests/dispatch/test_device.c has what depends on a stream's state. */
static void device(void)
{
    rfg_context *ctx = open_cpu();
    rfg_stream stream = ctx, none;
    rfg_graph *graph = (rfg_graph *)ctx;
    void *memory = ctx;
    char a[16] = "as it was", b[16] = "other";
    refused(rfg_device_alloc(NULL, &memory, 1), INVALID, "rfg_device_alloc", "ctx");
    ck_assert_ptr_null(memory);
    refused(rfg_device_alloc(ctx, NULL, 1), INVALID, "rfg_device_alloc", "memory");
    refused(rfg_device_free(NULL, NULL), INVALID, "rfg_device_free", "ctx");
    refused(rfg_device_copy(NULL, a, b, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "ctx");
    refused(rfg_device_copy(ctx, NULL, b, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "to");
    refused(rfg_device_copy(ctx, a, NULL, 1, RFG_DEVICE_TO_DEVICE, NULL), INVALID, "rfg_device_copy", "from");
    refused(rfg_device_copy(ctx, a, b, 1, (rfg_copy_kind)-1, NULL), INVALID, "rfg_device_copy", "kind");
    refused(rfg_device_copy(ctx, a, b, 1, RFG_DEVICE_TO_DEVICE, ctx), INVALID, "rfg_device_copy", "stream");
    refused(rfg_device_memset(NULL, a, 0, 1, NULL), INVALID, "rfg_device_memset", "ctx");
    refused(rfg_device_memset(ctx, NULL, 0, 1, NULL), INVALID, "rfg_device_memset", "memory");
    refused(rfg_device_memset(ctx, a, INT_MIN, 1, NULL), INVALID, "rfg_device_memset", "value");
    refused(rfg_device_memset(ctx, a, 0, 1, ctx), INVALID, "rfg_device_memset", "stream");
    ck_assert(!strcmp(a, "as it was") && !strcmp(b, "other"));
    refused(rfg_stream_create(NULL, &stream), INVALID, "rfg_stream_create", "ctx");
    ck_assert_ptr_null(stream);
    refused(rfg_stream_create(ctx, NULL), INVALID, "rfg_stream_create", "stream");
    refused(rfg_stream_sync(NULL, NULL), INVALID, "rfg_stream_sync", "ctx");
    refused(rfg_stream_sync(ctx, ctx), INVALID, "rfg_stream_sync", "stream");
    none = ctx;
    refused(rfg_stream_destroy(NULL, &none), INVALID, "rfg_stream_destroy", "ctx");
    refused(rfg_stream_destroy(ctx, &none), INVALID, "rfg_stream_destroy", "stream");
    ck_assert_ptr_eq(none, ctx);
    ck_assert_uint_eq(rfg_workspace_size(NULL), 0);
    refused(INVALID, INVALID, "rfg_workspace_size", "ctx");
    refused(rfg_stream_set_workspace(NULL, NULL, NULL, 0), INVALID, "rfg_stream_set_workspace", "ctx");
    refused(rfg_stream_set_workspace(ctx, ctx, NULL, 0), INVALID, "rfg_stream_set_workspace", "stream");
    refused(rfg_stream_set_workspace(ctx, NULL, NULL, 1), INVALID, "rfg_stream_set_workspace", "memory");
    refused(rfg_stream_begin_capture(NULL, NULL), INVALID, "rfg_stream_begin_capture", "ctx");
    refused(rfg_stream_begin_capture(ctx, NULL), INVALID, "rfg_stream_begin_capture", "stream");
    refused(rfg_stream_end_capture(NULL, NULL, &graph), INVALID, "rfg_stream_end_capture", "ctx");
    ck_assert_ptr_null(graph);
    refused(rfg_stream_end_capture(ctx, ctx, &graph), INVALID, "rfg_stream_end_capture", "stream");
    refused(rfg_stream_end_capture(ctx, ctx, NULL), INVALID, "rfg_stream_end_capture", "graph");
    refused(rfg_graph_replay(NULL, NULL, NULL), INVALID, "rfg_graph_replay", "ctx");
    refused(rfg_graph_replay(ctx, NULL, NULL), INVALID, "rfg_graph_replay", "graph");
    refused(rfg_graph_destroy(NULL, &graph), INVALID, "rfg_graph_destroy", "ctx");
    rfg_context_destroy(&ctx);
}

static void context_stats(void)
{
    rfg_context *ctx = open_cpu();
    rfg_stats stats;
    memset(&stats, 0xff, sizeof(stats));
    rfg_context_stats(NULL, &stats);
    refused(INVALID, INVALID, "rfg_context_stats", "ctx");
    ck_assert(!stats.calls && !stats.misses && !stats.plans && !stats.compiles && !stats.cache_hits);
    rfg_context_stats(ctx, NULL);
    refused(INVALID, INVALID, "rfg_context_stats", "stats");
    rfg_context_stats(NULL, NULL);
    rfg_context_destroy(&ctx);
}

static void dlpack(void)
{
    static char data[64];
    static int64_t shape[] = { 2, 3, 4 }, negative[] = { 2, -3, 4 }, large[] = { INT64_MAX, 3, 4 };
    const DLTensor right = {
        .data = data, .device = { kDLCPU, 0 }, .ndim = 3, .dtype = { kDLFloat, 16, 1 }, .shape = shape
    };
    DLTensor wrong[20];
    int n = 0;
#define WRONG wrong[n] = right, wrong[n++]
    WRONG.shape = NULL;
    WRONG.shape = negative;
    WRONG.shape = large;
    WRONG.ndim = -1;
    WRONG.ndim = RFG_MAX_DIMS + 1;
    WRONG.dtype.lanes = 0;
    WRONG.dtype.lanes = 2;
    WRONG.dtype.bits = 64;
    WRONG.dtype.bits = 8;
    WRONG.dtype.code = kDLComplex;
    WRONG.dtype.code = 255;
    WRONG.byte_offset = UINT64_MAX;
    WRONG.byte_offset = (uint64_t)PTRDIFF_MAX + 1;
    WRONG.byte_offset = UINT64_MAX - (uintptr_t)data + 1;
    wrong[n] = right, wrong[n].data = NULL, wrong[n++].byte_offset = 2;
    WRONG.device.device_type = kDLOpenCL;
    WRONG.device.device_type = kDLMetal;
    WRONG.device.device_type = (DLDeviceType)0;
    ck_assert_int_le(n, COUNT(wrong));

    rfg_context *ctx = open_cpu();
    rfg_tensor t, was;
    memset(&was, 0xee, sizeof(was));
    t = was;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(rfg_tensor_from_dlpack(&t, &wrong[i]) == -1, "%d", i);
        ck_assert_msg(rfg_tensor_from_dlpack_for(ctx, &t, &wrong[i]) == -1, "%d", i);
    }
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, NULL), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack(NULL, &right), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, NULL), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, NULL, &right), -1);
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(NULL, &t, &right), -1);
    DLTensor other = right;
    other.device = (DLDevice){ kDLCUDA, 0 };
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &other), -1);
    ck_assert(!memcmp(&t, &was, sizeof(t)));
    ck_assert_int_eq(rfg_tensor_from_dlpack(&t, &other), 0); /* some context may have it */
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &right), 0);
    ck_assert(t.data == data && t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1);
    other = (DLTensor){ .device = { kDLCUDAHost, 0 }, .ndim = 0, .dtype = { kDLFloat, 32, 1 } };
    ck_assert_int_eq(rfg_tensor_from_dlpack_for(ctx, &t, &other), 0); /* no dimension: no shape */
    rfg_context_destroy(&ctx);
}

/* But for operators, whose calls are in args_ops.c. */
static const struct {
    const char *name;
    void (*trial)(void);
} functions[] = {
    { "rfg_status_name", status_names },
    { "rfg_last_error", last_error },
    { "rfg_version", version },
    { "rfg_dtype_name", dtypes },
    { "rfg_dtype_bytes", dtypes },
    { "rfg_tensor_1d", views },
    { "rfg_tensor_2d", views },
    { "rfg_tensor_nd", views },
    { "rfg_tensor_prepacked", views },
    { "rfg_tensor_prepacked_groups", views },
    { "rfg_context_create", context_create },
    { "rfg_context_destroy", context_destroy },
    { "rfg_context_device", context_device },
    { "rfg_prepare_stream", prepare_stream },
    { "rfg_prepare", prepare },
    { "rfg_prepare_from_csv", prepare_from_csv },
    { "rfg_explain", explain },
    { "rfg_context_stats", context_stats },
    { "rfg_describe_begin", describe },
    { "rfg_describe_end", describe },
    { "rfg_set_log_callback", log_callback },
    { "rfg_device_alloc", device },
    { "rfg_device_copy", device },
    { "rfg_device_free", device },
    { "rfg_device_memset", device },
    { "rfg_stream_begin_capture", device },
    { "rfg_stream_create", device },
    { "rfg_stream_destroy", device },
    { "rfg_stream_end_capture", device },
    { "rfg_stream_set_workspace", device },
    { "rfg_stream_sync", device },
    { "rfg_workspace_size", device },
    { "rfg_graph_destroy", device },
    { "rfg_graph_replay", device },
    LIKE_OPERATORS,
    { "rfg_pack_qkv", packs },
    { "rfg_pack_gate_up", packs },
    { "rfg_pack_fnuz", packs },
    { "rfg_dtype_from_dlpack", dlpack },
    { "rfg_tensor_from_dlpack", dlpack },
    { "rfg_tensor_from_dlpack_for", dlpack },
};

START_TEST(other_functions)
{
    functions[_i].trial();
}
END_TEST

/* ---- are these all? -----------------------------------------------------------------------------------------------
 */

static void strip_comments(char *s)
{
    for (char *at; (at = strstr(s, "/*"));) {
        char *end = strstr(at, "*/");
        ck_assert_ptr_nonnull(end);
        memset(at, ' ', (size_t)(end + 2 - at));
    }
}

/* The function that is declared at `at`: the name before the first parenthesis. */
static void declared(const char *file, const char *at, bool seen[])
{
    const char *end = at + strcspn(at, "(;{"), *begin;
    if (*end != '(')
        return;
    while (isspace((unsigned char)end[-1]))
        end--;
    for (begin = end; isalnum((unsigned char)begin[-1]) || begin[-1] == '_';)
        begin--;
    for (int i = 0; i < COUNT(functions); i++)
        if (strlen(functions[i].name) == (size_t)(end - begin) &&
            !strncmp(functions[i].name, begin, (size_t)(end - begin))) {
            seen[i] = true;
            return;
        }
    for (int i = 0; i < n_forms; i++)
        if (strlen(forms[i].fn) == (size_t)(end - begin) && !strncmp(forms[i].fn, begin, (size_t)(end - begin)))
            return;
    ck_abort_msg("%s: %.*s() is in no table of test_args.c or args_ops.c", file, (int)(end - begin), begin);
}

START_TEST(all_public_functions_are_here)
{
    const char *root = getenv("RFG_SOURCE_ROOT");
    bool seen[COUNT(functions)] = { false };
    char path[PATH_MAX];
    struct dirent *e;
    snprintf(path, sizeof(path), "%s/include/rfg", root ? root : ".");
    DIR *dir = opendir(path);
    ck_assert_msg(dir, "%s can't be opened", path);
    while ((e = readdir(dir))) {
        size_t len = strlen(e->d_name);
        if (len < 3 || strcmp(e->d_name + len - 2, ".h") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/include/rfg/%s", root ? root : ".", e->d_name);
        char *text = rfg_read_file(path, NULL);
        ck_assert_msg(text, "%s can't be read", path);
        strip_comments(text);
        for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
            end = strchr(line, '\n');
            if (!strncmp(line, "RFG_API", 7) || !strncmp(line, "static inline", 13))
                declared(e->d_name, line, seen);
        }
        free(text);
    }
    closedir(dir);
    for (int i = 0; i < COUNT(functions); i++)
        ck_assert_msg(seen[i], "%s: no header has it", functions[i].name);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("args");
    TCase *tc = tcase_create("args");
    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, operators, 0, n_forms);
    tcase_add_loop_test(tc, in_place, 0, n_forms);
    tcase_add_loop_test(tc, sizes_of_params, 0, 2 * n_forms);
    tcase_add_test(tc, default_params);
    tcase_add_loop_test(tc, other_functions, 0, COUNT(functions));
    tcase_add_test(tc, all_public_functions_are_here);
    return run_suite(s);
}
