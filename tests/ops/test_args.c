/* SPDX-License-Identifier: MIT
 *
 * Every public function with every argument wrong in turn: refused, the argument named, nothing written. The headers
 * are read for the list of functions, so that none is forgotten. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/util.h"
#include "args.h"
#include "rfg/dlpack.h"
#include "tests/suite.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

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
    rfg_stats a = RFG_STATS_INIT, b = RFG_STATS_INIT;
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
        if (!strcmp(r->f->op, "gemm_prepack") || !strcmp(a->name, "normed"))
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

/* ---- params structs of other versions ---------------------------------------------------------------------------- */

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

/* ---- all other functions: args_functions.c ----------------------------------------------------------------------- */

START_TEST(other_functions)
{
    functions[_i].trial();
}
END_TEST

/* ---- are these all? ---------------------------------------------------------------------------------------------- */

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
    for (int i = 0; i < n_functions; i++)
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
    bool *seen = calloc((size_t)n_functions, 1);
    ck_assert_ptr_nonnull(seen);
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
    for (int i = 0; i < n_functions; i++)
        ck_assert_msg(seen[i], "%s: no header has it", functions[i].name);
    free(seen);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("args");
    TCase *tc = test_case(s, "args", NULL, NULL);
    ADD_TESTS(tc, default_params, all_public_functions_are_here);
    ADD_LOOPS(tc, n_forms, operators, in_place);
    ADD_LOOPS(tc, 2 * n_forms, sizes_of_params);
    ADD_LOOPS(tc, n_functions, other_functions);
    return run_suite(s);
}
