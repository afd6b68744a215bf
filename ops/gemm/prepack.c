/* SPDX-License-Identifier: MIT
 *
 * rfg_gemm_prepack(): its public function, its argument rules, and its two variants. */
#include <inttypes.h>
#include <string.h>

#include "ops/cpu/pool.h"
#include "gemm.h"
#include "ops/gpu.h"
#include "ops/model/model.h"
#include "prepack_args.h"
#include "rfg/gemm.h"

#define FN             "rfg_gemm_prepack"
#define MAX_BLOCKS     UINT32_MAX /* of 16 x 32: what the kernel counts with */
#define MAX_GROUPS     (1 << 20)
#define PREPACK_PAD_TO (PREPACK4_COLS / PREPACK4_CHUNK) /* groups of 32, whose K is padded, in a block */

static const struct rfg_key prepack_keys[PREPACK_NKEYS] = {
    [PREPACK_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of src" },
    [PREPACK_K] = { "K", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of src" },
    [PREPACK_GROUPS] = { "groups", RFG_KEY_ATTR, 0, 0, 1, NULL,
                         "1: src is scales or zero points of a W of 4 bits, one a group" },
    [PREPACK_PAD] = { "pad", RFG_KEY_ATTR, 0, 0, 3, NULL,
                      "of scales or zero points, groups of zeros behind each row's" },
    [PREPACK_LD] = { "ld", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                     "elements from a row of src to the next; 0: they follow one another" },
    [PREPACK_OVERLAP] = RFG_KEY_OVERLAP,
};

bool prepack_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why)
{
    /* Of 4 bits blocks are filled up, chunk by chunk. */
    int cols = rfg_dtype_is_4_bits(dtype) ? PREPACK4_CHUNK : prepack_cols(dtype);
    if (!cols)
        return rfg_refuse(why, "w is %s: must be bf16, f16, i4 or e2m1 to be prepacked",
                          rfg_dtype_name((rfg_dtype)dtype));
    if (n % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d to be prepacked", n, PREPACK_ROWS);
    if (k % cols)
        return rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %d to be prepacked", k, cols);
    if (n / PREPACK_ROWS * ceil_div(k, prepack_cols(dtype)) > MAX_BLOCKS)
        return rfg_refuse(why, "N=%" PRId64 ", K=%" PRId64 ": more than %" PRIu32 " blocks of %d x %d", n, k,
                          MAX_BLOCKS, PREPACK_ROWS, prepack_cols(dtype));
    return true;
}

rfg_status prepack_operand(struct rfg_operand *o, const char *fn, const char *name, const rfg_tensor *t)
{
    if (!t)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s is NULL: must be a tensor", fn, name);
    int chunk = prepack_chunk((int)t->dtype), cols = 4 * chunk;
    if (!chunk)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s is prepacked %s: must be bf16 or f16, or of 4 bits", fn,
                        name, rfg_dtype_name(t->dtype));
    const int64_t *s = t->shape;
    if (t->ndim != 5)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s has %d dimensions: must have 5, [N/16, K/%d, 4, 16, %d] (rfg_tensor_prepacked())", fn,
                        name, (int)t->ndim, cols, chunk);
    if (s[0] < 0 || s[0] > RFG_MAX_SIZE / PREPACK_ROWS || s[1] < 0 || s[1] > RFG_MAX_SIZE / cols || s[2] != 4 ||
        s[3] != PREPACK_ROWS || s[4] != chunk)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: %s is %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                        ": with 5 dimensions it must be [N/16, K/%d, 4, 16, %d], N and K at most %d",
                        fn, name, s[0], s[1], s[2], s[3], s[4], cols, chunk, RFG_MAX_SIZE);
    int64_t packed = 1;
    for (int i = 4; i >= 0; packed *= s[i--])
        if (s[i] > 1 && s[0] && s[1] && t->strides[i] != packed)
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                            "%s: %s has stride %" PRId64 " in dimension %d: prepacked, it must be %" PRId64, fn, name,
                            t->strides[i], i, packed);
    /* The same bytes as a plain [N,K]: the common checks of pointer and extent. */
    int64_t n = s[0] * PREPACK_ROWS, k = s[1] * cols;
    rfg_tensor plain = rfg_tensor_2d(t->data, t->dtype, n, k, k);
    struct rfg_reason why;
    if (!prepack_valid(n, k, (int)t->dtype, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %s: %s", fn, name, why.text);
    rfg_status st = rfg_check_operand(o, fn, name, &plain, 2, 2);
    o->t = t;
    return st;
}

/* The same of scales and zero points. */
static bool groups_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why)
{
    if (!rfg_dtype_is_float(dtype) && dtype != RFG_E8M0 && dtype != RFG_I8)
        return rfg_refuse(why, "scales or zero points of %s: must be bf16, f16, f32, e8m0 or i8",
                          rfg_dtype_name((rfg_dtype)dtype));
    if (n % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d to be prepacked", n, PREPACK_ROWS);
    if (n / PREPACK_ROWS * k > MAX_BLOCKS)
        return rfg_refuse(why, "N=%" PRId64 ", K=%" PRId64 ": more than %" PRIu32 " groups of %d rows", n, k,
                          MAX_BLOCKS, PREPACK_ROWS);
    return true;
}

/* A view as rfg_tensor_prepacked_groups() makes it, as rows and columns. */
static rfg_status groups_operand(struct rfg_operand *o, const rfg_tensor *t)
{
    const int64_t *s = t->shape;
    rfg_status st = rfg_check_operand(o, FN, "dst", t, 3, 3);
    if (st)
        return st;
    if (s[0] > RFG_MAX_SIZE / PREPACK_ROWS || s[2] != PREPACK_ROWS || (o->rows && (o->ld != o->cols || o->inner != 1)))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        FN ": dst is %" PRId64 " x %" PRId64 " x %" PRId64
                           ": with 3 dimensions it must be [N/16, K/group, 16], packed (rfg_tensor_prepacked_groups())",
                        s[0], s[1], s[2]);
    o->rows = s[0] * PREPACK_ROWS;
    o->cols = s[1];
    return RFG_OK;
}

static bool problem_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (prob->dtype[0] != prob->dtype[1])
        return rfg_refuse(why, "dtypes %s->%s: must be alike", rfg_dtype_name((rfg_dtype)prob->dtype[0]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (v[PREPACK_GROUPS] ? !groups_valid(v[PREPACK_N], v[PREPACK_K], prob->dtype[0], why)
                          : !prepack_valid(v[PREPACK_N], v[PREPACK_K], prob->dtype[0], why))
        return false;
    if (v[PREPACK_PAD] && (!v[PREPACK_GROUPS] || (v[PREPACK_K] + v[PREPACK_PAD]) % PREPACK_PAD_TO))
        return rfg_refuse(why, "pad=%" PRId64 ": must be 0, or of scales or zero points up to a multiple of %d groups",
                          v[PREPACK_PAD], PREPACK_PAD_TO);
    int whole = v[PREPACK_GROUPS] ? 1 : prepack_chunk(prob->dtype[0]);
    if (v[PREPACK_LD] && (v[PREPACK_LD] < v[PREPACK_K] || v[PREPACK_LD] % whole))
        return rfg_refuse(why, "ld=%" PRId64 ": must be at least K=%" PRId64 " and a multiple of %d", v[PREPACK_LD],
                          v[PREPACK_K], whole);
    return true;
}

static void problem_cost(const struct rfg_problem *prob, double *bytes, double *flops)
{
    *bytes = (double)prob->v[PREPACK_N] * (double)(rfg_format_bytes(prob->dtype[0], prob->v[PREPACK_K]) +
                                                   rfg_format_bytes(prob->dtype[0], prepack_dst_cols(prob)));
    *flops = (double)prob->v[PREPACK_N] * (double)prob->v[PREPACK_K]; /* moves: 0 would mean nothing to do */
}

rfg_status rfg_gemm_prepack(rfg_context *ctx, const rfg_tensor *dst, const rfg_tensor *src, rfg_stream stream)
{
    struct rfg_operand od, os;
    struct rfg_reason why;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": ctx is NULL: must be a context");
    if ((st = rfg_check_operand(&os, FN, "src", src, 2, 2)))
        return st;
    bool groups = dst && dst->ndim == 3;
    if ((st = groups ? groups_operand(&od, dst) : prepack_operand(&od, FN, "dst", dst)))
        return st;
    if (groups ? !groups_valid(os.rows, os.cols, (int)src->dtype, &why)
               : !prepack_valid(os.rows, os.cols, (int)src->dtype, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": src: %s", why.text);
    if (dst->dtype != src->dtype)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": dst is %s, src %s: must be of one dtype",
                        rfg_dtype_name(dst->dtype), rfg_dtype_name(src->dtype));
    struct rfg_problem prob = { .op = &rfg_op_gemm_prepack_desc,
                                .dtype = { (uint8_t)src->dtype, (uint8_t)dst->dtype } };
    prob.v[PREPACK_N] = os.rows;
    prob.v[PREPACK_K] = os.cols;
    prob.v[PREPACK_GROUPS] = groups;
    int64_t pad = ceil_div(os.cols, PREPACK_PAD_TO) * PREPACK_PAD_TO - os.cols;
    prob.v[PREPACK_PAD] = groups && od.cols == os.cols + pad ? pad : 0;
    if (od.rows != os.rows || od.cols != prepack_dst_cols(&prob))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        FN ": dst is of %" PRId64 " x %" PRId64 ", src %" PRId64 " x %" PRId64
                           ": must be of one size, %s",
                        od.rows, od.cols, os.rows, os.cols,
                        groups ? "or dst padded to a multiple of 4 groups" : "K of 4 bits padded to a multiple of 128");
    if (os.rows == 0 || os.cols == 0)
        return RFG_OK;
    if (od.begin % 16 || (os.begin % 16 && !groups))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": %s is at %p: must be a multiple of 16",
                        od.begin % 16 ? "dst" : "src", od.begin % 16 ? dst->data : src->data);
    if (os.bits % 16 && !groups)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": src's rows are %zu bytes apart: must be a multiple of 16",
                        rfg_dtype_bytes(src->dtype, os.ld));
    if ((st = rfg_check_overlap(FN, &od, &os, false)))
        return st;

    prob.v[PREPACK_LD] = os.ld == os.cols ? 0 : os.ld;
    struct prepack_args a = { .dst = dst->data, .src = src->data, .n = (int)os.rows, .k = (int)os.cols, .ld = os.ld };
    return rfg_dispatch(ctx, &prob, &a, stream);
}

/* ---- on GPUs ---------------------------------------------------------------------------------------------------- */

enum { P_THREADS, P_UNROLL };

static const struct rfg_param gpu_params[] = {
    [P_THREADS] = { "threads", 1, { 256 } },
    [P_UNROLL] = { "unroll", 2, { 1, 4 } },
};

static bool gpu_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return is_gpu(dev, why);
}

static int64_t gpu_groups(const struct rfg_problem *prob, const int *p)
{
    int in_chunk = prob->v[PREPACK_GROUPS] ? 1 : prepack_chunk(prob->dtype[0]);
    int64_t chunks = prob->v[PREPACK_N] * (prepack_dst_cols(prob) / in_chunk);
    return MIN(ceil_div(chunks, (int64_t)p[P_THREADS] * p[P_UNROLL]), MAX_GROUPS);
}

static double gpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double chunk = prob->v[PREPACK_GROUPS] ? (double)rfg_format_bytes(prob->dtype[0], 1) : 16;
    double bytes, flops, in_flight = chunk * p[P_THREADS] * p[P_UNROLL];
    problem_cost(prob, &bytes, &flops);
    struct gemm_flow f = { .groups = (double)gpu_groups(prob, p),
                           .per_cu = gemm_resident(dev, p[P_THREADS], 40, 0),
                           .cluster = 1,
                           .memory = bytes };
    f.bytes = bytes / f.groups;
    f.in_flight = MIN(in_flight, f.bytes);
    return gemm_flow_us(dev, &f);
}

static void gpu_kernel(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k)
{
    (void)dev;
    k->source = "gemm/prepack.hip";
    k->entry = "gemm_prepack";
    rfg_kernel_macro(k, "THREADS", p[P_THREADS]);
    rfg_kernel_macro(k, "UNROLL", p[P_UNROLL]);
    rfg_kernel_macro(k, "BITS", 4 * (int)rfg_format_bytes(prob->dtype[0], 2));
    rfg_kernel_macro(k, "GROUPS", (int)prob->v[PREPACK_GROUPS]);
    if (prepack_dst_cols(prob) > prob->v[PREPACK_K]) /* others' kernels need not know that there is such a macro */
        rfg_kernel_macro(k, "PAD", prob->v[PREPACK_GROUPS] ? (int)prob->v[PREPACK_PAD] : 1);
}

static void gpu_launch(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l)
{
    (void)dev;
    *l = (struct rfg_launch){ { (uint32_t)gpu_groups(prob, p), 1, 1 }, { (uint32_t)p[P_THREADS], 1, 1 }, 0 };
}

static const struct rfg_variant gemm_prepack_portable = {
    .name = "gemm_prepack_portable",
    .kind = RFG_VARIANT_KERNEL,
    .n_params = COUNT(gpu_params),
    .params = gpu_params,
    .supports = gpu_supports,
    .predict = gpu_predict,
    .kernel = gpu_kernel,
    .launch = gpu_launch,
};

/* ---- on the cpu ------------------------------------------------------------------------------------------------- */

static bool cpu_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob;
    return dev->platform == RFG_PLATFORM_CPU || rfg_refuse(why, "needs the cpu device, this is %s", dev->name);
}

static double cpu_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    double bytes, flops;
    (void)p;
    problem_cost(prob, &bytes, &flops);
    return 1 + bytes / (1e3 * MAX(dev->mem_gbps, 1));
}

struct cpu_job {
    const struct prepack_args *a;
    size_t ld;     /* bytes from a row of src to the next */
    size_t chunk;  /* bytes of src that stay together, */
    size_t chunks; /* and how many a row of src and */
    size_t padded; /* of dst has */
};

/* 16 rows. */
static void cpu_task(void *ctx, int task, int worker)
{
    const struct cpu_job *j = ctx;
    char *to = (char *)j->a->dst + (size_t)task * PREPACK_ROWS * j->padded * j->chunk;
    const char *from = (const char *)j->a->src + (size_t)task * PREPACK_ROWS * j->ld;
    (void)worker;
    for (size_t i = 0; i < j->chunks; i++)
        for (int r = 0; r < PREPACK_ROWS; r++, to += j->chunk)
            memcpy(to, from + (size_t)r * j->ld + i * j->chunk, j->chunk);
    memset(to, 0, (j->padded - j->chunks) * PREPACK_ROWS * j->chunk);
}

/* The same of 4 bits. */
static void cpu_task4(void *ctx, int task, int worker)
{
    const struct cpu_job *j = ctx;
    const char *from = (const char *)j->a->src + (size_t)task * PREPACK_ROWS * j->ld;
    char *to = (char *)j->a->dst + (size_t)task * PREPACK_ROWS * j->padded * j->chunk;
    (void)worker;
    for (size_t i = 0; i < j->padded; i++) /* the i-th in a row of dst: its words are 16 bytes apart in src */
        for (int r = 0; r < PREPACK_ROWS; r++)
            for (int part = 0; part < 4; part++, to += 4) {
                uint32_t w = 0;
                if (i / 4 * 4 + (size_t)part < j->chunks)
                    memcpy(&w, from + (size_t)r * j->ld + i / 4 * 64 + i % 4 * 4 + part * 16, 4);
                w = PREPACK4_WORD(w);
                memcpy(to, &w, 4);
            }
}

static void cpu_run(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                    struct rfg_cpu_pool *pool)
{
    const struct prepack_args *a = kargs;
    int dtype = prob->dtype[0], in_chunk = prob->v[PREPACK_GROUPS] ? 1 : prepack_chunk(dtype);
    struct cpu_job j = { .a = a,
                         .ld = (size_t)rfg_format_bytes(dtype, a->ld),
                         .chunk = (size_t)rfg_format_bytes(dtype, in_chunk),
                         .chunks = (size_t)(a->k / in_chunk),
                         .padded = (size_t)(prepack_dst_cols(prob) / in_chunk) };
    (void)dev, (void)p;
    rfg_cpu_pool_run(pool, a->n / PREPACK_ROWS, in_chunk == PREPACK4_CHUNK ? cpu_task4 : cpu_task, &j);
}

static const struct rfg_variant gemm_prepack_cpu = {
    .name = "gemm_prepack_cpu",
    .kind = RFG_VARIANT_HOST,
    .supports = cpu_supports,
    .predict = cpu_predict,
    .run = cpu_run,
};

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct rfg_variant *const prepack_variants[] = { &gemm_prepack_portable, &gemm_prepack_cpu };

static const struct rfg_op_operand prepack_operands[] = {
    { "src", false, RFG_FORMAT_LISTED, 0, 0 },
    { "dst", true, RFG_FORMAT_LISTED, 1, 0 },
};

const struct rfg_op rfg_op_gemm_prepack_desc = {
    .name = "gemm_prepack",
    .id = 8,
    .n_in = 1,
    .n_out = 1,
    .n_operands = COUNT(prepack_operands),
    .operands = prepack_operands,
    .n_keys = PREPACK_NKEYS,
    .keys = prepack_keys,
    .column_key = { NULL, "N", "K" },
    .n_variants = COUNT(prepack_variants),
    .variants = prepack_variants,
    .kargs_size = sizeof(struct prepack_args),
    .head = offsetof(struct prepack_args, workspace),
    .valid = problem_valid,
    .cost = problem_cost,
};
