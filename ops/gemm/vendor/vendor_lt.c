/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt and hipBLASLt: one interface under two prefixes, with other numbers for types and attributes. The
 * heuristic's list for a problem is the variant's parameter range; the tuner sweeps it.
 *
 * cuBLASLt's numbers, sizes and prototypes were checked against cublasLt.h 13.1, hipBLASLt's against ROCm 6's
 * hipblaslt.h; the latter has run nowhere yet. (ROCm 5's hipBLASLt numbers types otherwise: not served.)
 *
 * A cuBLASLt handle serves all streams of its device. A hipBLASLt handle owns the one buffer by which the workgroups of
 * a kernel wait for each other (Synchronizer: hipblasLtCreate() in ROCm/hipBLASLt,
 * library/src/amd_detail/hipblaslt.cpp, from ROCm 6.2 on): kernels of two streams that share it wait for ever. So it
 * has a handle a stream. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendor.h"

const struct rfg_param gemm_lt_params[1] = {
    { "algo", GEMM_LT_ALGOS, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } },
};

enum entry {
    CREATE,
    DESC_CREATE,
    DESC_DESTROY,
    DESC_SET,
    LAYOUT_CREATE,
    LAYOUT_DESTROY,
    PREF_CREATE,
    PREF_DESTROY,
    PREF_SET,
    HEURISTIC,
    MATMUL,
    N_ENTRIES
};

/* An opaque algorithm and what the heuristic says of it: large enough for both libraries. */
struct algo {
    uint64_t data[8];
};
struct cuda_result {
    struct algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
struct hip_algo {
    uint8_t data[16];
    size_t max_workspace;
};
struct hip_result {
    struct hip_algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

enum { MAX_DEVICES = 64 };

struct lt {
    const char *title, *env; /* env and libraries: not ROCm's, which base/rocm.h finds */
    const char *const *libraries;
    const char *names[N_ENTRIES + 1];
    int type[4];                                   /* by rfg_dtype */
    int compute_f32;                               /* computeType */
    int transa, epilogue, bias_pointer, bias_type; /* matmul descriptor attributes */
    int epilogue_bias;
    int pref_workspace;
    int pref_align_a, pref_align_b, pref_align_c, pref_align_d, pref_reduction; /* -1: the library has none */
    int op_t;
    bool hip;
    enum rfg_platform platform;
    pthread_once_t once;
    void (*load)(void);
    void *library;
    void *fn[N_ENTRIES];
    bool ok;
    struct rfg_reason why;
    char version[64];
    pthread_mutex_t lock;
    void *handle[MAX_DEVICES]; /* cuBLASLt's */
    atomic_bool versioned;     /* hipBLASLt tells its version to who has a handle: until then it is the title */
};

static void load_cuda(void);
static void load_hip(void);

static const char *const cuda_libraries[] = { "libcublasLt.so.13",
                                              "libcublasLt.so.12",
                                              "libcublasLt.so.11",
                                              "/usr/local/cuda/lib64/libcublasLt.so.13",
                                              "/usr/local/cuda/lib64/libcublasLt.so",
                                              NULL };
static struct lt cuda = {
    .title = "cublasLt",
    .env = "RFG_LIBCUBLASLT",
    .libraries = cuda_libraries,
    .names = { "cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy",
               "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy",
               "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy",
               "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul", NULL },
    .type = { -1, 0, 2, 14 }, /* CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF */
    .compute_f32 = 68,
    .transa = 3,
    .epilogue = 7,
    .bias_pointer = 8,
    .bias_type = 26,
    .epilogue_bias = 4,
    .pref_workspace = 1,
    .pref_align_a = 5,
    .pref_align_b = 6,
    .pref_align_c = 7,
    .pref_align_d = 8,
    .pref_reduction = 3,
    .op_t = 1,
    .platform = RFG_PLATFORM_NVIDIA,
    .once = PTHREAD_ONCE_INIT,
    .load = load_cuda,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static struct lt hip = {
    .title = "hipBLASLt",
    .names = { "hipblasLtCreate", "hipblasLtMatmulDescCreate", "hipblasLtMatmulDescDestroy",
               "hipblasLtMatmulDescSetAttribute", "hipblasLtMatrixLayoutCreate", "hipblasLtMatrixLayoutDestroy",
               "hipblasLtMatmulPreferenceCreate", "hipblasLtMatmulPreferenceDestroy",
               "hipblasLtMatmulPreferenceSetAttribute", "hipblasLtMatmulAlgoGetHeuristic", "hipblasLtMatmul", NULL },
    .type = { -1, 0, 2, 14 },
    .compute_f32 = 2, /* HIPBLAS_COMPUTE_32F */
    .transa = 0,
    .epilogue = 2,
    .bias_pointer = 3,
    .bias_type = 4,
    .epilogue_bias = 4,
    .pref_workspace = 1,
    .pref_align_a = -1,
    .pref_align_b = -1,
    .pref_align_c = -1,
    .pref_align_d = -1,
    .pref_reduction = -1,
    .op_t = 112, /* HIPBLAS_OP_T */
    .hip = true,
    .platform = RFG_PLATFORM_AMD,
    .once = PTHREAD_ONCE_INIT,
    .load = load_hip,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static void load(struct lt *lt)
{
    void *lib = lt->hip ? gemm_vendor_load_rocm(RFG_ROCM_HIPBLASLT, lt->names, lt->fn, &lt->why)
                        : gemm_vendor_load(lt->env, lt->libraries, lt->names, lt->fn, &lt->why);
    lt->ok = lib;
    size_t (*cuda_version)(void) = NULL;
    void *symbol = lib && !lt->hip ? dlsym(lib, "cublasLtGetVersion") : NULL;
    if (symbol) {
        memcpy(&cuda_version, &symbol, sizeof(symbol));
        size_t v = cuda_version();
        snprintf(lt->version, sizeof(lt->version), "cublasLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    }
    if (lt->ok && !lt->version[0])
        snprintf(lt->version, sizeof(lt->version), "%s", lt->title);
    atomic_store(&lt->versioned, !lt->hip);
    lt->library = lib;
}

static void load_cuda(void)
{
    load(&cuda);
}

static void load_hip(void)
{
    load(&hip);
}

static bool ready(struct lt *lt, struct rfg_reason *why)
{
    pthread_once(&lt->once, lt->load);
    return lt->ok || rfg_refuse(why, "%s", lt->why.text);
}

/* The entry points, with the argument types both libraries share. All return 0 on success. */
typedef int (*create_fn)(void **);
typedef int (*desc_create_fn)(void **, int compute, int scale);
typedef int (*destroy_fn)(void *);
typedef int (*set_fn)(void *, int attr, const void *value, size_t size);
typedef int (*layout_create_fn)(void **, int type, uint64_t rows, uint64_t cols, int64_t ld);
typedef int (*heuristic_fn)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int n,
                            void *results, int *got);
typedef int (*matmul_fn)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,
                         const void *beta, const void *c, void *lc, void *d, void *ld, const void *algo,
                         void *workspace, size_t size, void *stream);

struct lt_plan {
    struct lt *lt;
    void *handle; /* cuBLASLt's; hipBLASLt's to ask the heuristic with */
    void *desc, *a, *b, *d;
    size_t workspace;
    struct algo algo; /* cuda's */
    struct hip_algo hip_algo;
    bool bias;
    enum entry at;        /* of the calls that made the plan, the last */
    pthread_mutex_t lock; /* the bias pointer is state of the descriptor */
};

static rfg_status failed(rfg_status status, const struct lt *lt, enum entry at, int st)
{
    return rfg_fail(status, "%s: %s failed with status %d", lt->title, lt->names[at], st);
}

static void release(void *plan)
{
    struct lt_plan *p = plan;
    struct lt *lt = p->lt;
    if (p->desc)
        ((destroy_fn)lt->fn[DESC_DESTROY])(p->desc);
    void *layouts[] = { p->a, p->b, p->d };
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            ((destroy_fn)lt->fn[LAYOUT_DESTROY])(layouts[i]);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* A status other than 0: the library's, of the call p->at. */
static int get_handle(struct lt_plan *p, const struct rfg_vendor_env *env)
{
    struct lt *lt = p->lt;
    int device = env->device;
    int st = 0;
    p->at = CREATE;
    p->handle = env->handle;
    if (lt->hip)
        return 0;
    pthread_mutex_lock(&lt->lock);
    if (!lt->handle[device]) {
        void *handle = NULL;
        if (!(st = ((create_fn)lt->fn[CREATE])(&handle)))
            lt->handle[device] = handle;
    }
    p->handle = lt->handle[device];
    pthread_mutex_unlock(&lt->lock);
    return st;
}

static int set(struct lt_plan *p, enum entry entry, void *object, int attr, const void *value, size_t size)
{
    p->at = entry;
    return attr < 0 ? 0 : ((set_fn)p->lt->fn[entry])(object, attr, value, size);
}

static int layout(struct lt_plan *p, void **out, int type, int64_t rows, int64_t cols, int64_t ld)
{
    p->at = LAYOUT_CREATE;
    int st = ((layout_create_fn)p->lt->fn[LAYOUT_CREATE])(out, type, (uint64_t)rows, (uint64_t)cols, ld);
    if (st)
        *out = NULL;
    return st;
}

/* Descriptors and layouts. */
static int describe(struct lt_plan *p, const struct rfg_problem *prob)
{
    const struct lt *lt = p->lt;
    const int64_t *v = prob->v;
    int in = lt->type[prob->dtype[0]], out = lt->type[prob->dtype[2]];
    int64_t m = v[GEMM_M], n = v[GEMM_N], k = v[GEMM_K];
    p->at = DESC_CREATE;
    int st = ((desc_create_fn)lt->fn[DESC_CREATE])(&p->desc, lt->compute_f32, lt->type[RFG_F32]);
    if (st)
        p->desc = NULL;
    else
        st = set(p, DESC_SET, p->desc, lt->transa, &lt->op_t, sizeof(int));
    if (!st && p->bias) {
        /* Some libraries pick algorithms for a bias only once they see a pointer; any aligned one will do. */
        const void *some = (const void *)256;
        st = set(p, DESC_SET, p->desc, lt->epilogue, &lt->epilogue_bias, sizeof(int));
        if (!st)
            st = set(p, DESC_SET, p->desc, lt->bias_type, &in, sizeof(int));
        if (!st)
            st = set(p, DESC_SET, p->desc, lt->bias_pointer, &some, sizeof(some));
    }
    if (!st)
        st = layout(p, &p->a, in, k, n, v[GEMM_LDW] ? v[GEMM_LDW] : k);
    if (!st)
        st = layout(p, &p->b, in, k, m, v[GEMM_LDX] ? v[GEMM_LDX] : k);
    if (!st)
        st = layout(p, &p->d, out, n, m, v[GEMM_LDY] ? v[GEMM_LDY] : n);
    return st;
}

/* What an algorithm may use and must put up with. */
static int prefer(struct lt_plan *p, const struct rfg_problem *prob, void *pref)
{
    const struct lt *lt = p->lt;
    uint32_t in = (uint32_t)prob->v[GEMM_ALIGN], out = (uint32_t)prob->v[GEMM_ALIGN_Y];
    /* Split-K may add up in fp32 only (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE): sums kept in Y's dtype
     * are wrong here. */
    uint32_t reduction = 2;
    /* Alignments that could not be set would be taken to be 256 bytes: an error like any other. */
    const struct {
        int attr;
        const void *value;
        size_t size;
    } all[] = {
        { lt->pref_workspace, &p->workspace, sizeof(p->workspace) },
        { lt->pref_reduction, &reduction, sizeof(reduction) },
        { lt->pref_align_a, &in, sizeof(in) },
        { lt->pref_align_b, &in, sizeof(in) },
        { lt->pref_align_c, &out, sizeof(out) },
        { lt->pref_align_d, &out, sizeof(out) },
    };
    int st = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !st; i++)
        st = set(p, PREF_SET, pref, all[i].attr, all[i].value, all[i].size);
    return st;
}

/* The heuristic's algorithm of that rank. */
static rfg_status find_algo(struct lt_plan *p, const struct rfg_problem *prob, int rank)
{
    const struct lt *lt = p->lt;
    struct cuda_result cr[GEMM_LT_ALGOS];
    struct hip_result hr[GEMM_LT_ALGOS];
    void *pref = NULL;
    int got = 0;
    memset(cr, 0, sizeof(cr));
    memset(hr, 0, sizeof(hr));
    p->at = PREF_CREATE;
    int st = ((create_fn)lt->fn[PREF_CREATE])(&pref);
    if (!st) {
        st = prefer(p, prob, pref);
        if (!st) {
            p->at = HEURISTIC;
            st = ((heuristic_fn)lt->fn[HEURISTIC])(p->handle, p->desc, p->a, p->b, p->d, p->d, pref, GEMM_LT_ALGOS,
                                                   lt->hip ? (void *)hr : (void *)cr, &got);
        }
        ((destroy_fn)lt->fn[PREF_DESTROY])(pref);
    }
    if (st)
        return failed(RFG_ERROR_UNSUPPORTED, lt, p->at, st);
    if (rank >= got)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: algo=%d: the heuristic offers %d", lt->title, rank, got);
    p->algo = cr[rank].algo;
    p->hip_algo = hr[rank].algo;
    size_t workspace = lt->hip ? hr[rank].workspace : cr[rank].workspace;
    st = lt->hip ? hr[rank].state : cr[rank].state;
    if (st)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: algo=%d: the heuristic gives it status %d", lt->title, rank, st);
    if (workspace > p->workspace)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: algo=%d: wants a workspace of %zu bytes: must be at most %zu",
                        lt->title, rank, workspace, p->workspace);
    return RFG_OK;
}

static rfg_status prepare(struct lt *lt, const struct rfg_device *dev, const struct rfg_problem *prob,
                          const int *params, const struct rfg_vendor_env *env, void **plan)
{
    struct rfg_reason why;
    if (!ready(lt, &why))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: %s", lt->title, why.text);
    if (!lt->hip && (env->device < 0 || env->device >= MAX_DEVICES))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: device %d: must be below %d", lt->title, env->device, MAX_DEVICES);
    if (lt->hip && !env->handle)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: there is no handle", lt->title);
    struct lt_plan *p = calloc(1, sizeof(*p));
    if (!p)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", lt->title);
    p->lt = lt;
    p->bias = prob->v[GEMM_BIAS];
    p->workspace = rfg_workspace_bytes(dev);
    pthread_mutex_init(&p->lock, NULL);
    int st = get_handle(p, env);
    if (!st)
        st = describe(p, prob);
    rfg_status status = st ? failed(RFG_ERROR_UNSUPPORTED, lt, p->at, st) : find_algo(p, prob, params[0]);
    if (status != RFG_OK) {
        release(p);
        return status;
    }
    *plan = p;
    return RFG_OK;
}

static rfg_status run(void *plan, const void *kargs, const struct rfg_vendor_env *env)
{
    static const float one = 1, zero = 0;
    struct lt_plan *p = plan;
    const struct gemm_args *a = kargs;
    const void *algo = p->lt->hip ? (const void *)&p->hip_algo : (const void *)&p->algo;
    const struct lt *lt = p->lt;
    void *handle = lt->hip ? env->handle : p->handle;
    enum entry at = MATMUL;
    int st = 0;
    if (!handle)
        return rfg_fail(RFG_ERROR_NOT_READY, "%s: stream %p has no handle", lt->title, env->stream);
    if (p->bias) {
        pthread_mutex_lock(&p->lock);
        st = ((set_fn)lt->fn[DESC_SET])(p->desc, lt->bias_pointer, &a->bias, sizeof(a->bias));
        at = st ? DESC_SET : MATMUL;
    }
    if (!st)
        st = ((matmul_fn)lt->fn[MATMUL])(handle, p->desc, &one, a->w, p->a, a->x, p->b, &zero, a->y, p->d, a->y, p->d,
                                         algo, env->workspace, p->workspace, env->stream);
    if (p->bias)
        pthread_mutex_unlock(&p->lock);
    return st ? failed(RFG_ERROR_DEVICE, lt, at, st) : RFG_OK;
}

/* ---- hipBLASLt's handles ----------------------------------------------------------------------------------------- */

/* Of a row's rank only this version of the library knows what it means. Under lock. */
static void ask_version(struct lt *lt, void *handle)
{
    int (*get_version)(void *handle, int *version) = NULL;
    int v = 0;
    void *symbol = dlsym(lt->library, "hipblasLtGetVersion");
    memcpy(&get_version, &symbol, sizeof(symbol));
    if (get_version && !get_version(handle, &v))
        snprintf(lt->version, sizeof(lt->version), "%s %d.%d.%d", lt->title, v / 100000, v / 100 % 1000, v % 100);
    atomic_store(&lt->versioned, true);
}

static bool has_handles(const struct rfg_device *dev)
{
    return dev->platform == RFG_PLATFORM_AMD && !gemm_vendor_off() && ready(&hip, NULL);
}

static rfg_status open_handle(const struct rfg_device *dev, const struct rfg_vendor_env *env, void **handle)
{
    struct lt *lt = &hip;
    (void)dev;
    (void)env; /* the handle is of the device that is current */
    int st = ((create_fn)lt->fn[CREATE])(handle);
    if (st) {
        *handle = NULL;
        return failed(RFG_ERROR_UNSUPPORTED, lt, CREATE, st);
    }
    pthread_mutex_lock(&lt->lock);
    if (!atomic_load(&lt->versioned))
        ask_version(lt, *handle);
    pthread_mutex_unlock(&lt->lock);
    return RFG_OK;
}

static void close_handle(void *handle)
{
    int (*destroy)(void *) = NULL;
    void *symbol = dlsym(hip.library, "hipblasLtDestroy");
    memcpy(&destroy, &symbol, sizeof(symbol));
    if (destroy)
        destroy(handle);
}

/* ---- the two variants -------------------------------------------------------------------------------------------- */

#define VARIANT(variable, text, lt, ...)                                                                               \
    static bool variable##_supports(const struct rfg_device *dev, const struct rfg_problem *prob,                      \
                                    struct rfg_reason *why)                                                            \
    {                                                                                                                  \
        return gemm_vendor_supports(dev, (lt).platform, prob, why) && ready(&(lt), why);                               \
    }                                                                                                                  \
    static double variable##_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)       \
    {                                                                                                                  \
        return gemm_vendor_predict(dev, prob, p[0]);                                                                   \
    }                                                                                                                  \
    static rfg_status variable##_prepare(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,   \
                                         const struct rfg_vendor_env *env, void **plan)                                \
    {                                                                                                                  \
        return prepare(&(lt), dev, prob, p, env, plan);                                                                \
    }                                                                                                                  \
    static const char *variable##_version(const struct rfg_device *dev)                                                \
    {                                                                                                                  \
        (void)dev;                                                                                                     \
        return !ready(&(lt), NULL) ? "" : atomic_load(&(lt).versioned) ? (lt).version : (lt).title;                    \
    }                                                                                                                  \
    const struct rfg_variant variable = { .name = text,                                                                \
                                          .kind = RFG_VARIANT_VENDOR,                                                  \
                                          .n_params = 1,                                                               \
                                          .params = gemm_lt_params,                                                    \
                                          .supports = variable##_supports,                                             \
                                          .predict = variable##_predict,                                               \
                                          .workspace = gemm_vendor_workspace,                                          \
                                          .vendor_prepare = variable##_prepare,                                        \
                                          .vendor_run = run,                                                           \
                                          .vendor_release = release,                                                   \
                                          .vendor_version = variable##_version,                                        \
                                          __VA_ARGS__ }

VARIANT(gemm_cublaslt, "gemm_cublaslt", cuda, );
VARIANT(gemm_hipblaslt, "gemm_hipblaslt", hip, .vendor_opens = has_handles, .vendor_open = open_handle,
        .vendor_close = close_handle, .by_version = true, );
