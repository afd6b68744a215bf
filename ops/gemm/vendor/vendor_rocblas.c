/* SPDX-License-Identifier: MIT
 *
 * rocBLAS, older than hipBLASLt and on more AMD GPUs: rocblas_gemm_ex with its own choice of kernel. Numbers as
 * in ROCm 5's and 6's rocblas-types.h; it has run nowhere yet. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor.h"

static const char *const libraries[] = { "librocblas.so.5",
                                         "librocblas.so.4",
                                         "librocblas.so.3",
                                         "librocblas.so.0",
                                         "librocblas.so",
                                         "/opt/rocm/lib/librocblas.so",
                                         NULL };
enum { MAX_DEVICES = 64 };
enum entry { CREATE_HANDLE, SET_STREAM, SET_WORKSPACE, GEMM_EX };
static const char *const names[] = { "rocblas_create_handle", "rocblas_set_stream", "rocblas_set_workspace",
                                     "rocblas_gemm_ex", NULL };
static int (*create_handle)(void **);
static int (*set_stream)(void *, void *);
static int (*set_workspace)(void *, void *, size_t);
static int (*gemm_ex)(void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a,
                      int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, const void *c,
                      int c_type, int ldc, void *d, int d_type, int ldd, int compute_type, int algo,
                      int32_t solution_index, uint32_t flags);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ok;
static struct rfg_reason why_not;
static void *handles[MAX_DEVICES]; /* by device; stream and workspace are a handle's state: calls are serialised */

static void load(void)
{
    void *slots[4];
    ok = gemm_vendor_load("RFG_LIBROCBLAS", libraries, names, slots, &why_not);
    if (ok) {
        memcpy(&create_handle, &slots[0], sizeof(void *));
        memcpy(&set_stream, &slots[1], sizeof(void *));
        memcpy(&set_workspace, &slots[2], sizeof(void *));
        memcpy(&gemm_ex, &slots[3], sizeof(void *));
    }
}

static rfg_status failed(rfg_status status, enum entry at, int st)
{
    return rfg_fail(status, "rocBLAS: %s failed with status %d", names[at], st);
}

/* rocblas_datatype; gemm_vendor_supports() lets no other formats through. */
static const int types[] = { [RFG_F16] = 150, [RFG_F32] = 151, [RFG_BF16] = 168 };

static bool supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!gemm_vendor_supports(dev, RFG_PLATFORM_AMD, prob, why))
        return false;
    pthread_once(&once, load);
    if (!ok)
        return rfg_refuse(why, "%s", why_not.text);
    if (prob->v[GEMM_BIAS])
        return rfg_refuse(why, "bias=1: rocblas_gemm_ex adds none");
    if (prob->dtype[0] == RFG_F32 && prob->dtype[2] != RFG_F32)
        return rfg_refuse(why, "rocblas_gemm_ex has no f32,f32->%s", rfg_dtype_name((rfg_dtype)prob->dtype[2]));
    if (prob->dtype[2] != RFG_F32 && prob->dtype[2] != prob->dtype[0])
        return rfg_refuse(why, "rocblas_gemm_ex has no %s out of %s", rfg_dtype_name((rfg_dtype)prob->dtype[2]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    const int64_t *v = prob->v;
    return (v[GEMM_LDX] <= INT32_MAX && v[GEMM_LDW] <= INT32_MAX && v[GEMM_LDY] <= INT32_MAX) ||
           rfg_refuse(why, "a row stride is more than rocblas_gemm_ex can say");
}

static double predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    (void)p;
    return gemm_vendor_predict(dev, prob, 0) + 1;
}

static rfg_status prepare(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          const struct rfg_vendor_env *env, void **plan)
{
    (void)dev;
    (void)prob;
    (void)p;
    pthread_once(&once, load);
    if (!ok)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rocBLAS: %s", why_not.text);
    if (env->device < 0 || env->device >= MAX_DEVICES)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rocBLAS: device %d: must be below %d", env->device, MAX_DEVICES);
    int st = 0;
    pthread_mutex_lock(&lock);
    if (!handles[env->device]) {
        void *handle = NULL;
        if (!(st = create_handle(&handle)))
            handles[env->device] = handle;
    }
    pthread_mutex_unlock(&lock);
    if (st)
        return failed(RFG_ERROR_UNSUPPORTED, CREATE_HANDLE, st);
    /* The problem is all there is to a plan. */
    struct rfg_problem *copy = malloc(sizeof(*copy));
    if (!copy)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rocBLAS: no memory for a plan");
    *copy = *prob;
    *plan = copy;
    return RFG_OK;
}

static rfg_status run(void *plan, const void *kargs, const struct rfg_vendor_env *env)
{
    static const float one = 1, zero = 0;
    const struct rfg_problem *prob = plan;
    const struct gemm_args *a = kargs;
    int in = types[prob->dtype[0]], out = types[prob->dtype[2]];
    void *handle = handles[env->device];
    pthread_mutex_lock(&lock);
    enum entry at = SET_STREAM;
    int st = set_stream(handle, env->stream);
    if (!st) {
        at = SET_WORKSPACE;
        st = set_workspace(handle, env->workspace, GEMM_VENDOR_WORKSPACE);
    }
    if (!st) {
        at = GEMM_EX;
        st = gemm_ex(handle, 112, 111, a->n, a->m, a->k, &one, a->w, in, (int)a->ldw, a->x, in, (int)a->ldx, &zero,
                     a->y, out, (int)a->ldy, a->y, out, (int)a->ldy, types[RFG_F32], 0, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return st ? failed(RFG_ERROR_DEVICE, at, st) : RFG_OK;
}

static const char *version(const struct rfg_device *dev)
{
    (void)dev;
    pthread_once(&once, load);
    return ok ? "rocBLAS" : "";
}

const struct rfg_variant gemm_rocblas = {
    .name = "gemm_rocblas",
    .kind = RFG_VARIANT_VENDOR,
    .supports = supports,
    .predict = predict,
    .workspace = gemm_vendor_workspace,
    .vendor_prepare = prepare,
    .vendor_run = run,
    .vendor_release = free,
    .vendor_version = version,
};
