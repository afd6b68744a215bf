/* SPDX-License-Identifier: MIT
 *
 * Code objects that a device refuses: they are dropped and compiled once more; then the ladder goes a rung down, and
 * the call succeeds. On a mock gfx90a; the kernels are really compiled. */
#include "base/tempdir.h"
#include "base/util.h"
#include "dispatch/context_impl.h"
#include "dispatch/pack/pack.h"
#include "fakehip.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"
#include "tests/program.h"
#include "tests/entries.h"

#define PROBLEM "gemm bf16,bf16->f32 M=3 N=40 K=64"

static struct rfg_tempdir tmp;
static struct rfg_hip hip; /* fakehip's, but for: */
static int refusals;       /* so many loads fail from now on */
static bool of_function;   /* not by hipModuleLoadData(), but by hipModuleGetFunction() */
static hipError_t with;
static int loads;

static hipError_t load(hipModule_t *module, const void *image)
{
    loads++;
    return !of_function && refusals > 0 && refusals-- ? with : fakehip()->hipModuleLoadData(module, image);
}

static hipError_t get_function(hipFunction_t *fn, hipModule_t module, const char *name)
{
    return of_function && refusals > 0 && refusals-- ? with : fakehip()->hipModuleGetFunction(fn, module, name);
}

static void setup(void)
{
    program_setup();
    fakehip_gemm_dtypes(RFG_BF16, RFG_F32);
    hip = *fakehip();
    hip.hipModuleLoadData = load;
    hip.hipModuleGetFunction = get_function;
    rfg_hip_override(RFG_PLATFORM_AMD, &hip);
    setenv("RFG_VENDOR", "0", 1);
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    refusals = loads = 0;
    of_function = false;
    with = hipErrorInvalidImage;
}

static void teardown(void)
{
    rfg_tempdir_remove(&tmp);
    program_teardown();
}

static int stored(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/gfx90a", tmp.path);
    return entries_in(path);
}

static rfg_context *open_ctx(const char *pack)
{
    rfg_context *ctx;
    rfg_context_params p = {
        .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = tmp.path, .pack = pack
    };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

static const char *chosen(rfg_context *ctx)
{
    struct rfg_problem prob = op_problem(PROBLEM);
    const struct rfg_plan *plan = rfg_plan_find(ctx, &prob);
    return plan ? rfg_plan_choice(plan)->variant->name : "none";
}

static const struct {
    bool of_function;
    hipError_t with;
} ways[] = {
    { false, hipErrorInvalidImage },
    { false, hipErrorUnknown },
    { true, hipErrorNotFound },
    { true, hipErrorInvalidDeviceFunction },
};

/* The first choice, compiled again. */
START_TEST(once)
{
    with = ways[_i].with;
    of_function = ways[_i].of_function;
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_OK);
    char first[64];
    snprintf(first, sizeof(first), "%s", chosen(ctx));
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(stored(), 1);

    ctx = open_ctx(NULL);
    refusals = 1;
    loads = 0;
    ck_assert_msg(rfg_prepare(ctx, PROBLEM) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_eq(chosen(ctx), first);
    rfg_stats s = RFG_STATS_INIT;
    rfg_context_stats(ctx, &s);
    ck_assert_int_eq(s.compiles, 1);
    ck_assert_int_eq(s.cache_hits, 1);
    ck_assert_int_eq(loads, 2);
    rfg_context_destroy(&ctx);
    ck_assert_int_eq(stored(), 1);
}
END_TEST

/* The next best serves the call; the next problem with that code doesn't compile it again; nothing of it stays. */
START_TEST(twice)
{
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_OK);
    char first[64];
    snprintf(first, sizeof(first), "%s", chosen(ctx));
    rfg_context_destroy(&ctx);

    ctx = open_ctx(NULL);
    refusals = 2;
    of_function = _i;
    ck_assert_msg(rfg_prepare(ctx, PROBLEM) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_ne(chosen(ctx), first);
    rfg_stats s = RFG_STATS_INIT, t = RFG_STATS_INIT;
    rfg_context_stats(ctx, &s);
    ck_assert_int_eq(s.compiles, 2);
    ck_assert_int_eq(stored(), 1);
    ck_assert_int_eq(rfg_prepare(ctx, "gemm bf16,bf16->f32 M=3 N=48 K=64"), RFG_OK);
    rfg_context_stats(ctx, &t);
    ck_assert_int_eq(t.compiles, s.compiles);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Nothing is left: the error names kernel, file and what the device said. */
START_TEST(always)
{
    rfg_context *ctx = open_ctx(NULL);
    refusals = 1000;
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_ERROR_COMPILE);
    const char *said = rfg_last_error();
    ck_assert_msg(strstr(said, "the device refuses kernel gemm_") && strstr(said, tmp.path) &&
                      strstr(said, ".rfgco: ") && strstr(said, "gfx90a") && strstr(said, "hipErrorInvalidImage (200)"),
                  "%s", said);
    ck_assert_int_eq(stored(), 0);
    refusals = 0;
    rfg_context_destroy(&ctx);
    ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_OK);
    rfg_context_destroy(&ctx);
}
END_TEST

/* The device's own faults cost the call, and no code object. */
START_TEST(other_errors)
{
    rfg_context *ctx = open_ctx(NULL);
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_OK);
    rfg_context_destroy(&ctx);
    ctx = open_ctx(NULL);
    refusals = 1;
    with = _i ? hipErrorOutOfMemory : hipErrorLaunchFailure;
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), _i ? RFG_ERROR_OUT_OF_MEMORY : RFG_ERROR_DEVICE);
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_OK);
    ck_assert_int_eq(loads, 3);
    ck_assert_int_eq(stored(), 1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* A pack with the code of what is chosen and of gemm_portable. */
static void write_pack(const char *path)
{
    struct rfg_pack_code codes[2] = { 0 };
    const struct rfg_blob *blobs[2];
    rfg_context *ctx = open_ctx(NULL);
    for (int i = 0; i < 2; i++) {
        struct rfg_problem prob = op_problem(PROBLEM);
        struct rfg_choice choice;
        struct rfg_kernel kernel;
        struct rfg_jit_request req;
        struct rfg_reason why;
        char name[RFG_CONFIG_STRLEN];
        ck_assert_int_eq(rfg_choose(ctx, &prob, i ? RFG_RUNG_PORTABLE : RFG_RUNG_EXACT, 0, &choice, NULL, NULL),
                         RFG_OK);
        ck_assert_int_eq(rfg_variant_request(&ctx->dev, &prob, choice.variant, choice.params, &req, name, &kernel),
                         RFG_OK);
        ck_assert_int_eq(rfg_cache_get(ctx->cache, &req, NULL, NULL, &blobs[i]), RFG_OK);
        strcpy(codes[i].target, "gfx90a");
        strcpy(codes[i].compiler, "clang");
        ck_assert(rfg_pack_name(&codes[i], &kernel, &why));
        rfg_jit_source_hash(kernel.source, codes[i].source_hash);
        codes[i].size = blobs[i]->size;
        rfg_sha256_hex(codes[i].code_hash, (const char *const[]){ blobs[i]->data }, &blobs[i]->size, 1);
        free((char *)req.source);
    }
    bool in_order = rfg_pack_compare(&codes[0], &codes[1]) < 0;
    struct rfg_pack_code sorted[2] = { codes[!in_order], codes[in_order] };
    const struct rfg_blob *in[2] = { blobs[!in_order], blobs[in_order] };
    ck_assert_msg(rfg_pack_write(path, sorted, in, 2, NULL, 0) == RFG_OK, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}

/* Nothing is compiled with a pack: the next best in it serves the call. */
START_TEST(of_a_pack)
{
    char *path = rfg_asprintf("%s/k.rfgpack", tmp.path);
    write_pack(path);
    rfg_context *ctx = open_ctx(path);
    refusals = 1;
    ck_assert_msg(rfg_prepare(ctx, PROBLEM) == RFG_OK, "%s", rfg_last_error());
    ck_assert_str_eq(chosen(ctx), "gemm_portable");
    rfg_context_destroy(&ctx);
    ctx = open_ctx(path);
    refusals = 1000;
    ck_assert_int_eq(rfg_prepare(ctx, PROBLEM), RFG_ERROR_COMPILE);
    ck_assert_msg(strstr(rfg_last_error(), "the device refuses kernel gemm_") && strstr(rfg_last_error(), path), "%s",
                  rfg_last_error());
    rfg_context_destroy(&ctx);
    free(path);
}
END_TEST

int main(void)
{
    Suite *su = suite_create("refused");
    TCase *tc = test_case(su, "refused", setup, teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, always, of_a_pack);
    ADD_LOOPS(tc, (sizeof(ways) / sizeof(ways[0])), once);
    ADD_LOOPS(tc, 2, twice, other_errors);
    return run_suite(su);
}
