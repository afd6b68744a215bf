/* SPDX-License-Identifier: MIT
 *
 * Engines' threads may have small stacks: at most 64 KiB of the caller's is used on cpu, where the caller's thread
 * works on the tasks, too; and threads that never call rfg pay at most 4 KiB for its thread-local storage. */
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/tempdir.h"
#include "dispatch/context_impl.h"
#include "rfg/rfg.h"
#include "tests/op_cases.h"
#include "tuner/harness/harness.h"

#define STACK (1 << 20)
#define MOST  (64 << 10)
#define PAINT 0xa5

/* How much of a painted stack fn touched, without what a thread needs that does nothing. */
static size_t used_by(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;
    unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stack, MAP_FAILED);
    memset(stack, PAINT, STACK);
    pthread_attr_init(&attr);
    ck_assert_int_eq(pthread_attr_setstack(&attr, stack, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, fn, arg), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    size_t free_bytes = 0;
    while (free_bytes < STACK && stack[free_bytes] == PAINT)
        free_bytes++;
    munmap(stack, STACK);
    return STACK - free_bytes;
}

static void *nothing(void *arg)
{
    return arg;
}

static void expect_small(void *(*fn)(void *arg), void *arg, const char *what)
{
    size_t base = used_by(nothing, NULL), used = used_by(fn, arg);
    ck_assert_msg(used <= base + MOST, "%s: %zu bytes of stack: must be at most %d", what, used - base, MOST);
}

/* Of each operator whose case has none, and the forms that have buffers of their own. */
static const char *const problems[] = {
    "gemm bf16,bf16->bf16 M=33 N=96 K=256",
    "gemm f32,f32->f32 M=5 N=40 K=64",
    "gemm bf16,bf16->f32 M=5 N=40 K=64 batch=3",
    "gemm bf16,i4->bf16 M=9 N=64 K=256 w_scale=f16 w_group=64",
    "gemm i8,i8->f32 M=9 N=48 K=1024 w_scale=f32",
    "gemm e4m3,e4m3->bf16 M=8 N=96 K=1024 w_scale=f32 x_scale=f32",
    "rmsnorm bf16->bf16 M=5 N=4096",
    "layernorm f32->f32 M=5 N=1000",
    "act_and_mul bf16->bf16 M=3 N=1536",
    "mha bf16->bf16 B=2 Hq=8 Hkv=2 D=256 S=300 Sq=70",
    "mha f16->f16 B=1 Hq=4 Hkv=4 D=64 S=128 Sq=128 causal=1 lse=1",
    "mha_decode bf16->bf16 B=3 Hq=8 Hkv=1 D=256 S=2000 page=16",
    "mha_decode bf16->bf16 B=3 Hq=8 Hkv=2 D=128 S=500 page=16 form=vllm",
    "argmax bf16->i64 M=3 V=50000",
    "sample f32->i32 B=3 V=50000",
    "moe_route bf16->f32 T=9 E=128 top=8",
    "moe_align i32->i32 T=33 top=8 E=33 weights=1 places=1",
    "moe_sum bf16->bf16 T=8 N=1024 top=8 weights=1",
    "embedding i32,bf16->bf16 M=37 N=512 V=100",
    "advance i32->i64 B=300 Sq=4 blocks=40 page=4 slots=1 accepted=1 spare=200",
    "dequantize e4m3,f32->bf16 M=17 N=512",
    "quantize bf16->e4m3,f32 M=64 N=7168 group_rows=1 group_cols=128",
    "quantize f32->i8,e8m0 M=64 N=7168",
    "quantize_scale bf16->f32 M=17 N=512 codes=e4m3",
    "add_rmsnorm bf16->e2m1 M=4 N=7168 scale=mx rounding=up",
    "kv_append bf16->bf16 T=9 D=128 Hkv=3 page=4",
    "rope bf16,i64->bf16 T=7 D=128 Hq=8 Hkv=2",
    "rope_append bf16,i64->bf16 T=7 D=128 Hq=8 Hkv=2 page=16 norm=w table=f32",
};
#define N_PROBLEMS (int)(sizeof(problems) / sizeof(problems[0]))

/* Of these and of the operators' cases. */
static const char *problem_at(int i)
{
    return i < N_PROBLEMS ? problems[i] : rfg_small_problem(i - N_PROBLEMS);
}

static const struct rfg_case_params defaults;

struct job {
    rfg_context *ctx;
    struct rfg_problem prob;
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    struct rfg_case *c;
    struct rfg_plan *plan;
    const char *text;
    char *db;
    rfg_status st;
};

static void *run_variant(void *arg)
{
    struct job *j = arg;
    j->st = rfg_plan_create(j->ctx, &j->prob, j->var, j->p, &j->plan);
    if (j->st == RFG_OK)
        j->st = rfg_case_run(j->c, 0, j->plan, NULL);
    return NULL;
}

/* The first that is offered. */
static bool keep(void *arg, const int *p)
{
    struct job *j = arg;
    memcpy(j->p, p, sizeof(*p) * (size_t)j->var->n_params);
    return false;
}

START_TEST(each_variant)
{
    rfg_context_params params = {
        .size = sizeof(params), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    const char *problem = problem_at(_i);
    struct job j = { .prob = op_problem(problem) };
    ck_assert_msg(rfg_context_create(&j.ctx, &params) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_create(j.ctx, &j.prob, &defaults, &j.c) == RFG_OK, "%s", rfg_last_error());
    int ran = 0;
    for (int v = 0; v < rfg_op_variants(j.prob.op)->n; v++) {
        char what[300];
        j.var = rfg_op_variants(j.prob.op)->list[v];
        if (!rfg_variant_each(j.var, rfg_context_info(j.ctx), &j.prob, keep, &j))
            continue;
        snprintf(what, sizeof(what), "%s: %s", problem, j.var->name);
        expect_small(run_variant, &j, what);
        ck_assert_msg(j.st == RFG_OK, "%s: %d", what, (int)j.st);
        rfg_plan_destroy(j.ctx, &j.plan);
        ran++;
    }
    ck_assert_int_gt(ran, 0);
    rfg_case_destroy(&j.c);
    rfg_context_destroy(&j.ctx);
}
END_TEST

/* A context's whole life, with a database that misses are written to. */
static void *live(void *arg)
{
    struct job *j = arg;
    rfg_context_params params = {
        .size = sizeof(params), .device = "cpu", .user_db = j->db, .cache_dir = "", .threads = 1, .misses = 1
    };
    j->st = rfg_context_create(&j->ctx, &params);
    for (int i = 0; j->st == RFG_OK && i < N_PROBLEMS + rfg_small_problems(); i++)
        j->st = rfg_prepare(j->ctx, problem_at(i));
    if (j->st == RFG_OK)
        j->st = rfg_case_create(j->ctx, &j->prob, &defaults, &j->c);
    if (j->st == RFG_OK)
        j->st = rfg_case_run(j->c, 0, NULL, NULL);
    rfg_case_destroy(&j->c);
    rfg_context_destroy(&j->ctx);
    return NULL;
}

START_TEST(a_contexts_life)
{
    struct rfg_tempdir tmp;
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    char path[300];
    snprintf(path, sizeof(path), "%s/user.db", tmp.path);
    struct job j = { .db = path, .prob = op_problem(problems[0]) };
    expect_small(live, &j, "a context's life");
    ck_assert_int_eq(j.st, RFG_OK);
    rfg_tempdir_remove(&tmp);
}
END_TEST

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *most = arg;
    (void)size;
    for (int i = 0; strstr(info->dlpi_name, "librfg") && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_phdr[i].p_memsz > *most)
            *most = info->dlpi_phdr[i].p_memsz;
    return 0;
}

START_TEST(thread_local_storage)
{
    size_t bytes = 0;
    dl_iterate_phdr(look, &bytes);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_msg(bytes <= 4096, "%zu bytes of thread-local storage: must be at most 4096", bytes);
}
END_TEST

int main(void)
{
    Suite *su = suite_create("stack");
    TCase *tc = test_case(su, "stack", NULL, NULL);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, a_contexts_life, thread_local_storage);
    ADD_LOOPS(tc, N_PROBLEMS + rfg_small_problems(), each_variant);
    return run_suite(su);
}
