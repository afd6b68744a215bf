/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt and hipBLASLt: one interface under two prefixes, with other numbers for types and attributes. The
 * heuristic's list for a problem is the variant's parameter range; the tuner sweeps it.
 *
 * cuBLASLt's numbers were checked against cublasLt.h of CUDA 13.0, hipBLASLt's against its documentation (ROCm 6); the
 * latter has run nowhere yet. */
#include <pthread.h>
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

struct lt {
    const char *title, *env;
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
    void *fn[N_ENTRIES];
    bool ok;
    struct rfg_reason why;
    char version[64];
    pthread_mutex_t lock;
    void *handle[64]; /* by device */
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

static const char *const hip_libraries[] = { "libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
                                             "/opt/rocm/lib/libhipblaslt.so", NULL };
static struct lt hip = {
    .title = "hipBLASLt",
    .env = "RFG_LIBHIPBLASLT",
    .libraries = hip_libraries,
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
    void *lib = gemm_vendor_open(lt->env, lt->libraries, &lt->why);
    lt->ok = lib && gemm_vendor_symbols(lib, lt->names, lt->fn, &lt->why);
    size_t (*cuda_version)(void) = NULL;
    void *symbol = NULL;
    const char *const name[] = { "cublasLtGetVersion", NULL };
    if (lt->ok && !lt->hip && gemm_vendor_symbols(lib, name, &symbol, NULL)) {
        memcpy(&cuda_version, &symbol, sizeof(symbol));
        size_t v = cuda_version();
        snprintf(lt->version, sizeof(lt->version), "cublasLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    } else if (lt->ok)
        snprintf(lt->version, sizeof(lt->version), "%s", lt->title);
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
    void *handle, *desc, *a, *b, *d;
    struct algo algo; /* hip's fits */
    struct hip_algo hip_algo;
    size_t workspace;
    bool bias;
    pthread_mutex_t lock; /* the bias pointer is state of the descriptor */
};

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

static int get_handle(struct lt *lt, int device, void **handle)
{
    int st = 0;
    if (device < 0 || device >= 64)
        return -1;
    pthread_mutex_lock(&lt->lock);
    if (!lt->handle[device])
        st = ((create_fn)lt->fn[CREATE])(&lt->handle[device]);
    *handle = lt->handle[device];
    pthread_mutex_unlock(&lt->lock);
    return st;
}

static int set(struct lt *lt, enum entry entry, void *object, int attr, const void *value, size_t size)
{
    return attr < 0 ? 0 : ((set_fn)lt->fn[entry])(object, attr, value, size);
}

/* Descriptors and layouts. */
static int describe(struct lt *lt, struct lt_plan *p, const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    int in = lt->type[prob->dtype[0]], out = lt->type[prob->dtype[2]];
    uint64_t m = (uint64_t)v[GEMM_M], n = (uint64_t)v[GEMM_N], k = (uint64_t)v[GEMM_K];
    int64_t ldx = v[GEMM_LDX] ? v[GEMM_LDX] : v[GEMM_K], ldw = v[GEMM_LDW] ? v[GEMM_LDW] : v[GEMM_K];
    int64_t ldy = v[GEMM_LDY] ? v[GEMM_LDY] : v[GEMM_N];
    layout_create_fn layout = (layout_create_fn)lt->fn[LAYOUT_CREATE];
    int st = ((desc_create_fn)lt->fn[DESC_CREATE])(&p->desc, lt->compute_f32, lt->type[RFG_F32]);
    if (!st)
        st = set(lt, DESC_SET, p->desc, lt->transa, &lt->op_t, sizeof(int));
    if (!st && p->bias) {
        st = set(lt, DESC_SET, p->desc, lt->epilogue, &lt->epilogue_bias, sizeof(int));
        if (!st)
            st = set(lt, DESC_SET, p->desc, lt->bias_type, &in, sizeof(int));
    }
    if (!st)
        st = layout(&p->a, in, k, n, ldw);
    if (!st)
        st = layout(&p->b, in, k, m, ldx);
    if (!st)
        st = layout(&p->d, out, n, m, ldy);
    return st;
}

/* The algorithm of that rank, or a status other than 0; *got: how many there are. */
static int find_algo(struct lt *lt, struct lt_plan *p, const struct rfg_problem *prob, int rank, int *got)
{
    void *pref = NULL;
    size_t workspace = GEMM_VENDOR_WORKSPACE;
    uint32_t align_in = (uint32_t)prob->v[GEMM_ALIGN], align_out = (uint32_t)prob->v[GEMM_ALIGN_Y];
    *got = 0;
    int st = ((create_fn)lt->fn[PREF_CREATE])(&pref);
    if (!st)
        st = set(lt, PREF_SET, pref, lt->pref_workspace, &workspace, sizeof(workspace));
    /* Split-K may add up in fp32 only (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE): sums kept in Y's dtype are wrong here.
     */
    uint32_t reduction = 2;
    if (!st)
        st = set(lt, PREF_SET, pref, lt->pref_reduction, &reduction, sizeof(reduction));
    if (!st && lt->pref_align_a >= 0) {
        set(lt, PREF_SET, pref, lt->pref_align_a, &align_in, sizeof(align_in));
        set(lt, PREF_SET, pref, lt->pref_align_b, &align_in, sizeof(align_in));
        set(lt, PREF_SET, pref, lt->pref_align_c, &align_out, sizeof(align_out));
        set(lt, PREF_SET, pref, lt->pref_align_d, &align_out, sizeof(align_out));
    }
    struct cuda_result cr[GEMM_LT_ALGOS];
    struct hip_result hr[GEMM_LT_ALGOS];
    memset(cr, 0, sizeof(cr));
    memset(hr, 0, sizeof(hr));
    if (!st)
        st = ((heuristic_fn)lt->fn[HEURISTIC])(p->handle, p->desc, p->a, p->b, p->d, p->d, pref, GEMM_LT_ALGOS,
                                               lt->hip ? (void *)hr : (void *)cr, got);
    if (pref)
        ((destroy_fn)lt->fn[PREF_DESTROY])(pref);
    if (st || rank >= *got)
        return st;
    p->algo = cr[rank].algo;
    p->hip_algo = hr[rank].algo;
    p->workspace = lt->hip ? hr[rank].workspace : cr[rank].workspace;
    st = lt->hip ? hr[rank].state : cr[rank].state;
    return p->workspace > GEMM_VENDOR_WORKSPACE ? -1 : st;
}

static rfg_status prepare(struct lt *lt, const struct rfg_problem *prob, const int *params,
                          const struct rfg_vendor_env *env, void **plan)
{
    struct rfg_reason why;
    int got = 0;
    if (!ready(lt, &why))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: %s", lt->title, why.text);
    struct lt_plan *p = calloc(1, sizeof(*p));
    if (!p)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a plan", lt->title);
    p->lt = lt;
    p->bias = prob->v[GEMM_BIAS];
    pthread_mutex_init(&p->lock, NULL);
    int st = get_handle(lt, env->device, &p->handle);
    if (!st)
        st = describe(lt, p, prob);
    /* Some libraries pick algorithms for a bias only once they see a pointer; any aligned one will do. */
    if (!st && p->bias) {
        const void *some = (const void *)256;
        st = set(lt, DESC_SET, p->desc, lt->bias_pointer, &some, sizeof(some));
    }
    if (!st)
        st = find_algo(lt, p, prob, params[0], &got);
    if (st || params[0] >= got) {
        release(p);
        return st ? rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: refuses the problem (status %d)", lt->title, st)
                  : rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: algo=%d: the heuristic offers %d", lt->title, params[0], got);
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
    int st = 0;
    if (p->bias) {
        pthread_mutex_lock(&p->lock);
        st = set(p->lt, DESC_SET, p->desc, p->lt->bias_pointer, &a->bias, sizeof(a->bias));
    }
    if (!st)
        st = ((matmul_fn)p->lt->fn[MATMUL])(p->handle, p->desc, &one, a->w, p->a, a->x, p->b, &zero, a->y, p->d, a->y,
                                            p->d, algo, env->workspace, GEMM_VENDOR_WORKSPACE, env->stream);
    if (p->bias)
        pthread_mutex_unlock(&p->lock);
    return st ? rfg_fail(RFG_ERROR_DEVICE, "%s: matmul failed with status %d", p->lt->title, st) : RFG_OK;
}

/* ---- the two variants -----------------------------------------------------------------------------------------------
 */

#define VARIANT(variable, text, lt)                                                                                    \
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
        (void)dev;                                                                                                     \
        return prepare(&(lt), prob, p, env, plan);                                                                     \
    }                                                                                                                  \
    static const char *variable##_version(const struct rfg_device *dev)                                                \
    {                                                                                                                  \
        (void)dev;                                                                                                     \
        return ready(&(lt), NULL) ? (lt).version : "";                                                                 \
    }                                                                                                                  \
    const struct rfg_variant variable = {                                                                              \
        .name = text,                                                                                                  \
        .kind = RFG_VARIANT_VENDOR,                                                                                    \
        .n_params = 1,                                                                                                 \
        .params = gemm_lt_params,                                                                                      \
        .supports = variable##_supports,                                                                               \
        .predict = variable##_predict,                                                                                 \
        .workspace = gemm_vendor_workspace,                                                                            \
        .vendor_prepare = variable##_prepare,                                                                          \
        .vendor_run = run,                                                                                             \
        .vendor_release = release,                                                                                     \
        .vendor_version = variable##_version,                                                                          \
    }

VARIANT(gemm_cublaslt, "gemm_cublaslt", cuda);
VARIANT(gemm_hipblaslt, "gemm_hipblaslt", hip);
