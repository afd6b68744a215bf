/* SPDX-License-Identifier: MIT
 *
 * rfg_op_all_reduce_add_rmsnorm against the two calls that it stands for, on ranks of the cpu and of the devices of
 * $RFG_TEST_DEVICES: in one launch and in two. */
#include <math.h>
#include <stdint.h>

#include "base/util.h"
#include "comm_world.h"
#include "dispatch/comm.h"
#include "ops/norm/norm.h"
#include "tests/op_cases.h"
#include "tests/suite.h"
#include "tuner/harness/harness.h"

struct norm_case {
    int64_t m, n;
    rfg_dtype dtype, residual, weight; /* weight RFG_I32: none */
    rfg_scale_kind scale;              /* RFG_SCALE_NONE: y only */
    rfg_dtype q;
    bool one_plus, plain, in_place; /* plain: y beside codes */
};

static const struct norm_case cases[] = {
    { 1, 64, RFG_BF16, RFG_BF16, RFG_BF16, .in_place = true },
    { 3, 1000, RFG_F16, RFG_F16, RFG_F32, .one_plus = true },
    { 2, 4099, RFG_BF16, RFG_F32, RFG_I32 },
    { 5, 257, RFG_F32, RFG_F32, RFG_F32 },
    { 1, 8192, RFG_BF16, RFG_BF16, RFG_BF16, RFG_SCALE_TOKEN, RFG_E4M3, .plain = true },
    { 4, 640, RFG_BF16, RFG_F32, RFG_BF16, RFG_SCALE_GROUP, RFG_E4M3, .in_place = true },
    { 2, 1537, RFG_F16, RFG_F16, RFG_F16, RFG_SCALE_TOKEN, RFG_I8 },
};

enum { CALLS_TWO, ONE_CALL, ONE_CALL_OTHER, ONE_CALL_TWO_LAUNCHES, WAYS };
enum { X, RESIDUAL, WEIGHT, SUM, Y, OUT, Q, SCALE, TENSORS };

struct joint {
    pthread_t thread;
    struct world *w;
    const struct norm_case *c;
    int rank;
    char *memory[TENSORS], *host[TENSORS]; /* of the device; x, residual and weight before */
    char *got[WAYS][TENSORS];
    rfg_status status;
    char error[300];
};

static int64_t bytes_of(const struct norm_case *c, int t)
{
    const int64_t n = c->m * c->n;
    switch (t) {
    case RESIDUAL:
    case OUT:
        return n * (int64_t)rfg_dtype_bytes(c->residual, 1);
    case WEIGHT:
        return c->n * 4;
    case Q:
        return n;
    case SCALE:
        return n * 4;
    default:
        return n * (int64_t)rfg_dtype_bytes(c->dtype, 1);
    }
}

/* Few threads a row, and several workgroups where there are clusters. */
static struct comm_way other_way(const struct joint *j)
{
    const int64_t chunks = (j->c->n * (int64_t)rfg_dtype_bytes(j->c->dtype, 1) + 15) / 16;
    const int split = rfg_context_info(j->w->ctx[j->rank])->features & RFG_FEATURE_CLUSTER ? 4 : 1;
    struct comm_way way = { { [JOINT_RANKS] = j->w->ranks, [JOINT_SPLIT] = split }, 0 };
    int *threads = &way.p[JOINT_THREADS], *each = &way.p[JOINT_CHUNKS];
    for (*each = 2, *threads = 64; *threads * *each * split < chunks;)
        *threads *= 2;
    return way;
}

static rfg_status call(struct joint *j, int way)
{
    const struct norm_case *c = j->c;
    rfg_comm *comm = j->w->comm[j->rank];
    rfg_stream s = j->w->stream[j->rank];
    const int64_t groups = c->scale == RFG_SCALE_GROUP ? c->n / 128 : 1;
    rfg_tensor t[TENSORS];
    for (int i = 0; i < TENSORS; i++)
        t[i] = rfg_tensor_2d(j->memory[i],
                             i == RESIDUAL || i == OUT ? c->residual
                             : i == Q                  ? c->q
                                                       : c->dtype,
                             c->m, c->n, c->n);
    t[WEIGHT] = rfg_tensor_1d(j->memory[WEIGHT], c->weight, c->n);
    t[SCALE] = rfg_tensor_2d(j->memory[SCALE], RFG_F32, c->m, groups, groups);
    if (c->scale == RFG_SCALE_TOKEN)
        t[SCALE] = rfg_tensor_1d(j->memory[SCALE], RFG_F32, c->m);
    rfg_quant quant = { .size = sizeof(quant), .kind = c->scale, .q = &t[Q], .scale = &t[SCALE] };
    rfg_norm_params p = { .size = sizeof(p), .one_plus_weight = c->one_plus, .quant = c->scale ? &quant : NULL };
    const rfg_tensor *y = c->scale && !c->plain ? NULL : &t[Y], *weight = c->weight == RFG_I32 ? NULL : &t[WEIGHT],
                     *out = c->in_place ? &t[RESIDUAL] : &t[OUT];
    rfg_comm_force(comm, NULL, NULL);
    if (way == CALLS_TWO) {
        rfg_status st = rfg_op_all_reduce(comm, &t[SUM], &t[X], s);
        return st == RFG_OK ? rfg_op_add_rmsnorm(j->w->ctx[j->rank], y, out, &t[SUM], &t[RESIDUAL], weight, &p, s) : st;
    }
    struct comm_way other = other_way(j);
    if (way == ONE_CALL_OTHER)
        rfg_comm_force(comm, &other, &add_rmsnorm_joint);
    if (way == ONE_CALL_TWO_LAUNCHES)
        rfg_comm_force(comm,
                       &(struct comm_way){ { 1, other.p[JOINT_SPLIT] > 1 ? COMM_BY_LINES : COMM_BY_TILES, 256, 2 }, 0 },
                       NULL);
    return rfg_op_all_reduce_add_rmsnorm(comm, y, out, &t[X], &t[RESIDUAL], weight, &p, s);
}

static rfg_status run_way(struct joint *j, int way)
{
    rfg_context *ctx = j->w->ctx[j->rank];
    rfg_stream s = j->w->stream[j->rank];
    rfg_status st = RFG_OK;
    for (int i = 0; i < TENSORS && st == RFG_OK; i++)
        st = i <= WEIGHT
                 ? rfg_device_copy(ctx, j->memory[i], j->host[i], (size_t)bytes_of(j->c, i), RFG_HOST_TO_DEVICE, s)
                 : rfg_device_memset(ctx, j->memory[i], 0x5a, (size_t)bytes_of(j->c, i), s);
    if (st == RFG_OK)
        st = rfg_stream_sync(ctx, s);
    pthread_barrier_wait(&j->w->loaded);
    if (st == RFG_OK)
        st = call(j, way);
    for (int i = 0; i < TENSORS && st == RFG_OK; i++)
        st = rfg_device_copy(ctx, j->got[way][i], j->memory[i], (size_t)bytes_of(j->c, i), RFG_DEVICE_TO_HOST, s);
    rfg_status sync = rfg_stream_sync(ctx, s);
    st = st == RFG_OK ? sync : st;
    return st == RFG_OK ? rfg_comm_check(j->w->comm[j->rank]) : st;
}

static void *rank_thread(void *arg)
{
    struct joint *j = arg;
    for (int i = 0; i < TENSORS && j->status == RFG_OK; i++)
        j->status = rfg_device_alloc(j->w->ctx[j->rank], (void **)&j->memory[i], (size_t)bytes_of(j->c, i));
    for (int way = 0; way < WAYS; way++) {
        rfg_status st = run_way(j, way);
        if (j->status == RFG_OK && st != RFG_OK)
            snprintf(j->error, sizeof(j->error), "%s", rfg_last_error());
        j->status = j->status == RFG_OK ? st : j->status;
    }
    pthread_barrier_wait(&j->w->done);
    for (int i = 0; i < TENSORS; i++)
        (void)rfg_device_free(j->w->ctx[j->rank], j->memory[i]);
    return NULL;
}

static void fill(const struct norm_case *c, struct joint *j)
{
    uint64_t seed = (uint64_t)(c->n * 7 + c->m);
    for (int i = 0; i < TENSORS; i++) {
        j->host[i] = malloc((size_t)bytes_of(c, i));
        for (int way = 0; way < WAYS; way++)
            j->got[way][i] = malloc((size_t)bytes_of(c, i));
    }
    for (int64_t i = 0; i < c->m * c->n; i++)
        rfg_store(j->host[RESIDUAL], c->residual, i, (double)(int64_t)(rfg_random(&seed) >> 11) * 0x1p-52 - 1);
    for (int64_t i = 0; i < c->n && c->weight != RFG_I32; i++)
        rfg_store(j->host[WEIGHT], c->weight, i, (double)(int64_t)(rfg_random(&seed) >> 11) * 0x1p-52 - 1);
    seed += (uint64_t)j->rank * 77;
    for (int64_t i = 0; i < c->m * c->n; i++)
        rfg_store(j->host[X], c->dtype, i, (double)(int64_t)(rfg_random(&seed) >> 11) * 0x1p-51 - 2);
}

/* At most a unit in the last place of y, or a code, and that of few elements. */
static void check_near(const struct norm_case *c, const struct joint *j, const char *what, int way, int t)
{
    const char *want = j->got[CALLS_TWO][t], *got = j->got[way][t];
    const int bits = c->dtype == RFG_F32 ? 20 : c->dtype == RFG_F16 ? 10 : 7;
    int64_t off = 0;
    for (int64_t i = 0; i < c->m * c->n; i++) {
        bool same = t == Q ? want[i] == got[i]
                           : !memcmp(want + i * (int64_t)rfg_dtype_bytes(c->dtype, 1),
                                     got + i * (int64_t)rfg_dtype_bytes(c->dtype, 1), rfg_dtype_bytes(c->dtype, 1));
        double a = t == Q ? want[i] : rfg_load(want, c->dtype, i), b = t == Q ? got[i] : rfg_load(got, c->dtype, i);
        ck_assert_msg(same || fabs(a - b) <= (t == Q ? 1 : ldexp(fabs(a), -bits)),
                      "%s: rank %d element %ld: %.9g, %.9g", what, j->rank, (long)i, b, a);
        off += !same;
    }
    ck_assert_msg(c->dtype == RFG_F32 || off <= 1 + c->m * c->n / 50, "%s: %ld elements differ", what, (long)off);
}

static void check_one_call(const struct norm_case *c, const struct joint *j, const struct joint *first, int way,
                           const char *what)
{
    const int out = c->in_place ? RESIDUAL : OUT;
    for (int t = Y; t < TENSORS; t++)
        ck_assert_msg(!memcmp(j->got[way][t], first->got[way][t], (size_t)bytes_of(c, t)),
                      "%s: rank %d has other bits than rank 0 in tensor %d", what, j->rank, t);
    ck_assert_msg(!memcmp(j->got[CALLS_TWO][out], j->got[way][out], (size_t)bytes_of(c, out)), "%s: residual_out",
                  what);
    ck_assert_msg(!memcmp(j->got[way][X], j->host[X], (size_t)bytes_of(c, X)), "%s: x is written", what);
    if (!c->scale || c->plain)
        check_near(c, j, what, way, Y);
    if (c->scale)
        check_near(c, j, what, way, Q);
    const float *want = (const float *)j->got[CALLS_TWO][SCALE], *got = (const float *)j->got[way][SCALE];
    for (int64_t i = 0; c->scale && i < c->m * (c->scale == RFG_SCALE_GROUP ? c->n / 128 : 1); i++)
        ck_assert_msg(fabsf(got[i] - want[i]) <= 0x1p-20f * want[i], "%s: scale %ld: %g, %g", what, (long)i,
                      (double)got[i], (double)want[i]);
}

static void check(const struct norm_case *c, const struct joint *j, const struct joint *first, const char *what)
{
    for (int t = 0; t < TENSORS; t++)
        ck_assert_msg(t == SUM ||
                          !memcmp(j->got[CALLS_TWO][t], j->got[ONE_CALL_TWO_LAUNCHES][t], (size_t)bytes_of(c, t)),
                      "%s: two launches differ from two calls in tensor %d", what, t);
    check_one_call(c, j, first, ONE_CALL, what);
    check_one_call(c, j, first, ONE_CALL_OTHER, what);
}

START_TEST(right_norms)
{
    const char *device = world_device[_i];
    const int n_cases = (int)(sizeof(cases) / sizeof(cases[0]));
    for (int ranks = 2; ranks <= (strncmp(device, "nvidia", 6) ? 3 : 2); ranks++) {
        struct world w;
        world_open(&w, device, ranks, 20000);
        for (int i = world_is_emulated(device) ? ranks % 2 : 0; i < n_cases; i += world_is_emulated(device) ? 2 : 1) {
            const struct norm_case *c = &cases[i];
            struct joint j[WORLD_MOST] = { 0 };
            char what[80];
            snprintf(what, sizeof(what), "case %d (M=%ld N=%ld) of %d ranks", i, (long)c->m, (long)c->n, ranks);
            pthread_barrier_init(&w.loaded, NULL, (unsigned)ranks);
            pthread_barrier_init(&w.done, NULL, (unsigned)ranks);
            for (int r = 0; r < ranks; r++) {
                j[r] = (struct joint){ .w = &w, .c = c, .rank = r };
                fill(c, &j[r]);
                ck_assert(!pthread_create(&j[r].thread, NULL, rank_thread, &j[r]));
            }
            for (int r = 0; r < ranks; r++)
                pthread_join(j[r].thread, NULL);
            for (int r = 0; r < ranks; r++)
                ck_assert_msg(j[r].status == RFG_OK, "%s, rank %d: %s", what, r, j[r].error);
            for (int r = 0; r < ranks; r++)
                check(c, &j[r], &j[0], what);
            for (int r = 0; r < ranks; r++)
                for (int t = 0; t < TENSORS; t++) {
                    free(j[r].host[t]);
                    for (int way = 0; way < WAYS; way++)
                        free(j[r].got[way][t]);
                }
        }
        world_close(&w);
    }
}
END_TEST

/* Rows of few threads and of many, and those that a cluster shares. */
static const char *const archs[] = { "gfx942", "gfx1100", "sm_90" };

START_TEST(compiles)
{
    static const int joints[][JOINT_NPARAMS] = {
        { 2, 1024, 1, 1 }, { 4, 256, 4, 1 }, { 8, 256, 4, 1 }, { 2, 256, 1, 4 }
    };
    struct rfg_device dev;
    struct rfg_problem prob;
    struct rfg_reason why;
    ck_assert(rfg_device_imagine(&dev, archs[_i]));
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(dev.target);
    if (!prov) {
        printf("SKIPPED: nothing compiles for %s\n", dev.target);
        return;
    }
    ck_assert_msg(rfg_problem_parse(&prob, "add_rmsnorm bf16->bf16 M=2 N=8192", &why), "%s", why.text);
    for (int i = 0; i < (int)(sizeof(joints) / sizeof(joints[0])); i++)
        if (rfg_variant_check(&add_rmsnorm_joint, &dev, &prob, joints[i], &why))
            world_compile(&dev, prov, &prob, &add_rmsnorm_joint, joints[i]);
        else
            ck_assert_msg(strstr(why.text, "has no clusters"), "%s", why.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm_norm");
    world_read_devices();
    TCase *tc = test_case(s, "right_norms", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, right_norms);
    tc = slow_case(s, "compiles", "compile", NULL, NULL);
    ADD_LOOPS(tc, sizeof(archs) / sizeof(archs[0]), compiles);
    return run_suite(s);
}
