/* SPDX-License-Identifier: MIT
 *
 * rocBLAS, older than hipBLASLt and on more AMD GPUs: rocblas_gemm_ex with its own choice of kernel. Numbers as
 * in ROCm 5's and 6's rocblas-types.h; it has run nowhere yet.
 *
 * A handle a stream, because of what rocBLAS does by itself (ROCm/rocBLAS, library/src/handle.cpp and tensile_host.cpp,
 * 2.x to 5.x): a new handle owns device memory, which the first rocblas_set_workspace() frees, and that breaks
 * captures; atomics add up in any order; and where there is no file of kernels for the GPU the first product aborts the
 * process. So a stream's handle gets its workspace when it is made, and the first product is done in prepare. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "vendor.h"

enum entry { CREATE_HANDLE, DESTROY_HANDLE, SET_STREAM, SET_WORKSPACE, SET_ATOMICS, GEMM_EX, N_ENTRIES };
static const char *const names[] = {
    "rocblas_create_handle",
    "rocblas_destroy_handle",
    "rocblas_set_stream",
    "rocblas_set_workspace",
    "rocblas_set_atomics_mode",
    "rocblas_gemm_ex",
    NULL,
};
static int (*create_handle)(void **);
static int (*destroy_handle)(void *);
static int (*set_stream)(void *, void *);
static int (*set_workspace)(void *, void *, size_t);
static int (*set_atomics)(void *, int);
static int (*gemm_ex)(void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a,
                      int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, const void *c,
                      int c_type, int ldc, void *d, int d_type, int ldd, int compute_type, int algo,
                      int32_t solution_index, uint32_t flags);
/* May be missing. The memory that this thread's next handle begins with; 0 means the library's own default. */
static void (*set_first_memory)(size_t);
#define LEAST_MEMORY 64

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ok;
static struct rfg_reason why_not;
static char version_text[64], kernels[PATH_MAX]; /* kernels: the directory of kernel files */

struct handle {
    void *rocblas;
    rfg_stream stream;    /* that it was told of last, ... */
    void *workspace;      /* and given */
    pthread_mutex_t lock; /* a handle takes one thread at a time */
};

struct plan {
    struct rfg_problem prob;
    size_t workspace;
};

/* Beside the library, or where the library is told to look. */
static void find_kernels(void *symbol)
{
    const char *env = rfg_env("ROCBLAS_TENSILE_LIBPATH");
    Dl_info info;
    char path[PATH_MAX];
    if (env) {
        snprintf(kernels, sizeof(kernels), "%s", env);
    } else if (dladdr(symbol, &info) && info.dli_fname && realpath(info.dli_fname, path)) {
        char *slash = strrchr(path, '/');
        snprintf(kernels, sizeof(kernels), "%.*s/rocblas/library", slash ? (int)(slash - path) : 0, path);
    }
}

static void load(void)
{
    void *slots[N_ENTRIES], *lib = gemm_vendor_load_rocm(RFG_ROCM_ROCBLAS, names, slots, &why_not);
    ok = lib;
    if (!ok)
        return;
    void **const fns[N_ENTRIES] = {
        [CREATE_HANDLE] = (void **)&create_handle, [DESTROY_HANDLE] = (void **)&destroy_handle,
        [SET_STREAM] = (void **)&set_stream,       [SET_WORKSPACE] = (void **)&set_workspace,
        [SET_ATOMICS] = (void **)&set_atomics,     [GEMM_EX] = (void **)&gemm_ex,
    };
    for (int i = 0; i < N_ENTRIES; i++)
        *fns[i] = slots[i];
    *(void **)&set_first_memory = dlsym(lib, "rocblas_device_malloc_set_default_memory_size");
    int (*get_version)(char *, size_t) = NULL;
    char number[sizeof(version_text) - sizeof("rocBLAS ")] = "";
    *(void **)&get_version = dlsym(lib, "rocblas_get_version_string");
    if (get_version && get_version(number, sizeof(number)))
        number[0] = 0;
    snprintf(version_text, sizeof(version_text), "rocBLAS%s%s", *number ? " " : "", number);
    find_kernels(slots[CREATE_HANDLE]);
}

/* Has the library kernels for the architecture? Names as in getLibraryPath() of tensile_host.cpp; from 7.x on there is
 * a directory an architecture. */
static bool has_kernels(const char *arch, struct rfg_reason *why)
{
    static char known[32];
    static bool known_has;
    pthread_mutex_lock(&lock);
    if (strcmp(known, arch) != 0) {
        static const char *const patterns[] = { "%s/TensileLibrary_lazy_%s.dat", "%s/TensileLibrary_%s.dat",
                                                "%s/TensileLibrary_*_%s.dat", "%s/%s/TensileLibrary*.dat" };
        char pattern[PATH_MAX + 64];
        known_has = false;
        for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !known_has; i++) {
            glob_t found = { 0 };
            snprintf(pattern, sizeof(pattern), patterns[i], kernels, arch);
            known_has = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
            globfree(&found);
        }
        snprintf(known, sizeof(known), "%s", arch);
    }
    bool has = known_has;
    pthread_mutex_unlock(&lock);
    return has || rfg_refuse(why, "no TensileLibrary file for %s in %.150s", arch, kernels);
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
    if (!has_kernels(dev->target, why))
        return false;
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

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static void close_handle(void *handle)
{
    struct handle *h = handle;
    (void)destroy_handle(h->rocblas);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* A workspace that the handle had before is nobody's but the user's: to take another frees nothing. */
static int give_workspace(struct handle *h, void *workspace, size_t size, enum entry *at)
{
    *at = SET_WORKSPACE;
    int st = workspace == h->workspace ? 0 : set_workspace(h->rocblas, workspace, size);
    if (!st)
        h->workspace = workspace;
    return st;
}

/* The product W^T X of column-major matrices: operands in a, what they are in prob. */
static int multiply(const struct handle *h, const struct rfg_problem *prob, const struct gemm_args *a)
{
    static const float one = 1, zero = 0;
    int in = types[prob->dtype[0]], out = types[prob->dtype[2]];
    return gemm_ex(h->rocblas, 112, 111, a->n, a->m, a->k, &one, a->w, in, (int)a->ldw, a->x, in, (int)a->ldx, &zero,
                   a->y, out, (int)a->ldy, a->y, out, (int)a->ldy, types[RFG_F32], 0, 0, 0);
}

static bool has_handles(const struct rfg_device *dev)
{
    if (dev->platform != RFG_PLATFORM_AMD || gemm_vendor_off())
        return false;
    pthread_once(&once, load);
    return ok && has_kernels(dev->target, NULL);
}

static rfg_status open_handle(const struct rfg_device *dev, const struct rfg_vendor_env *env, void **handle)
{
    (void)dev;
    (void)env; /* the handle is of the device that is current */
    struct handle *h = calloc(1, sizeof(*h));
    if (!h)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rocBLAS: no memory for a handle");
    if (set_first_memory)
        set_first_memory(LEAST_MEMORY);
    enum entry at = CREATE_HANDLE;
    int st = create_handle(&h->rocblas);
    if (st) {
        free(h);
        return failed(RFG_ERROR_UNSUPPORTED, at, st);
    }
    pthread_mutex_init(&h->lock, NULL);
    st = set_atomics(h->rocblas, 0);
    at = SET_ATOMICS;
    if (!st) {
        /* Now, while nothing is captured, the memory that the handle began with goes: NULL would make it rocBLAS's own
         * again, so it is given what is never used; run() gives it the stream's. */
        st = set_workspace(h->rocblas, h, 1);
        at = SET_WORKSPACE;
    }
    if (st) {
        close_handle(h);
        return failed(RFG_ERROR_UNSUPPORTED, at, st);
    }
    *handle = h;
    return RFG_OK;
}

/* Asks HIP of the stream: not in a capture of it. */
static rfg_status bind_handle(void *handle, const struct rfg_vendor_env *env)
{
    struct handle *h = handle;
    int st = set_stream(h->rocblas, env->stream);
    h->stream = st ? h->stream : env->stream;
    return st ? failed(RFG_ERROR_DEVICE, SET_STREAM, st) : RFG_OK;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* A small product of these types: the library loads its kernels, which can't be done in a capture. */
static rfg_status first_product(struct handle *h, const struct rfg_problem *prob, const struct rfg_vendor_env *env)
{
    enum { SIDE = 16, BYTES = SIDE * SIDE * 4 };
    char *memory = env->workspace;
    struct gemm_args a = { .w = memory, .x = memory + BYTES, .y = memory + 2 * BYTES };
    a.m = a.n = a.k = SIDE;
    a.ldw = a.ldx = a.ldy = SIDE;
    enum entry at;
    pthread_mutex_lock(&h->lock);
    rfg_status status = bind_handle(h, env);
    int st = status ? 0 : give_workspace(h, memory + 4 * BYTES, RFG_FIRST_RUN_BYTES - 4 * BYTES, &at);
    if (!status && !st) {
        at = GEMM_EX;
        st = multiply(h, prob, &a);
    }
    h->workspace = NULL; /* it is freed now */
    pthread_mutex_unlock(&h->lock);
    return st ? failed(RFG_ERROR_UNSUPPORTED, at, st) : status;
}

static rfg_status prepare(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                          const struct rfg_vendor_env *env, void **plan)
{
    (void)p;
    pthread_once(&once, load);
    if (!ok)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rocBLAS: %s", why_not.text);
    if (!env->handle)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rocBLAS: there is no handle");
    rfg_status status = first_product(env->handle, prob, env);
    if (status != RFG_OK)
        return status;
    struct plan *made = malloc(sizeof(*made));
    if (!made)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rocBLAS: no memory for a plan");
    *made = (struct plan){ *prob, rfg_workspace_bytes(dev) };
    *plan = made;
    return RFG_OK;
}

static rfg_status run(void *plan, const void *kargs, const struct rfg_vendor_env *env)
{
    const struct plan *p = plan;
    struct handle *h = env->handle;
    enum entry at;
    if (!h)
        return rfg_fail(RFG_ERROR_NOT_READY, "rocBLAS: stream %p has no handle", env->stream);
    pthread_mutex_lock(&h->lock);
    rfg_status status = env->stream == h->stream ? RFG_OK : bind_handle(h, env);
    int st = status ? 0 : give_workspace(h, env->workspace, p->workspace, &at);
    if (!status && !st) {
        at = GEMM_EX;
        st = multiply(h, &p->prob, kargs);
    }
    pthread_mutex_unlock(&h->lock);
    return st ? failed(RFG_ERROR_DEVICE, at, st) : status;
}

static const char *version(const struct rfg_device *dev)
{
    (void)dev;
    pthread_once(&once, load);
    return ok ? version_text : "";
}

static void setting(char *buf, size_t size)
{
    Dl_info info;
    pthread_once(&once, load);
    if (ok && dladdr(*(void **)&create_handle, &info) && info.dli_fname)
        snprintf(buf, size, "RFG_LIBROCBLAS=%s", info.dli_fname);
}

const struct rfg_variant gemm_rocblas = {
    .name = "gemm_rocblas",
    .kind = RFG_VARIANT_VENDOR,
    .supports = supports,
    .predict = predict,
    .workspace = gemm_vendor_workspace,
    .vendor_opens = has_handles,
    .vendor_open = open_handle,
    .vendor_bind = bind_handle,
    .vendor_close = close_handle,
    .vendor_prepare = prepare,
    .vendor_run = run,
    .vendor_release = free,
    .vendor_version = version,
    .first_run = true,
    .vendor_setting = setting,
};
