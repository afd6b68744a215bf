/* SPDX-License-Identifier: MIT
 *
 * Mock cuBLASLt, hipBLASLt and rocBLAS: their entry points as their headers declare them, knowing nothing of rfg.
 * They do what they are told, in double precision, column-major; a wrong layout, stride, transpose or type gives a
 * wrong answer or a status. Numbers from cublasLt.h and library_types.h (CUDA 13), hipblaslt.h and hipblas-common.h
 * (github.com/ROCm/hipBLASLt, library/include/hipblaslt; ROCm 6), rocblas-types.h (github.com/ROCm/rocBLAS,
 * library/include/internal). With MOCK_LACKS_PRODUCT each library lacks its last function.
 *
 * Where they have a runtime (struct mock_hip) the AMD ones do in it what the real ones do, sources at each place; what
 * is fatal there says so and ends the process. The stubs of emu/rocm are built from this file: MOCK_ONLY_LT and
 * MOCK_ONLY_ROCBLAS leave out what is another library's. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_blas.h"

struct mock_blas mock_blas = { .offers = 5, .needs = 1024, .rocm = 60400 };

enum { INVALID = MOCK_INVALID, FAILED = MOCK_FAILED };

/* Is this the call that fails? */
static int failing(const char *name)
{
    if (++mock_blas.calls != mock_blas.fail_at)
        return 0;
    mock_blas.last = name;
    return 1;
}

/* The process ends here: exit(1) with a status, abort() without. */
static int ends(int status, const char *why)
{
    if (!mock_blas.gentle) {
        fprintf(stderr, "%s\n", why);
        fflush(stderr);
        if (!status)
            abort();
        exit(status);
    }
    mock_blas.end = why;
    return FAILED;
}

/* What a failed creation leaves behind: nothing to be used. */
static int not_made(void **out)
{
    *out = (void *)(uintptr_t)0xbad;
    return FAILED;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

enum type { F32, F16, BF16, UNKNOWN };

static enum type lt_type(int code) /* CUDA_R_*, HIP_R_* */
{
    return code == 0 ? F32 : code == 2 ? F16 : code == 14 ? BF16 : UNKNOWN;
}

static enum type roc_type(int code) /* rocblas_datatype_*_r */
{
    return code == 151 ? F32 : code == 150 ? F16 : code == 168 ? BF16 : UNKNOWN;
}

static double get(const void *p, enum type t, int64_t i)
{
    if (t == F32)
        return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    if (t == BF16) {
        uint32_t u = (uint32_t)h << 16;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -v : v;
}

/* To nearest, ties to even; for values that fp32 can hold, and that the type has in its normal range. */
static void put(void *p, enum type t, int64_t i, double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (t == F32) {
        ((float *)p)[i] = f;
        return;
    }
    int cut = t == BF16 ? 16 : 13; /* bits of the fraction that go */
    u += (1u << (cut - 1)) - 1 + (u >> cut & 1);
    ((uint16_t *)p)[i] = t == BF16 ? (uint16_t)(u >> 16)
                         : v == 0  ? 0
                                   : (uint16_t)((u >> 31 << 15) | (((u >> 23 & 255) - 112) << 10) | (u >> 13 & 1023));
}

struct matrix {
    int magic;
    enum type type;
    int64_t rows, cols, ld;
};

/* Do op(A) op(B) and D fit one another? */
static int fits(const struct matrix *la, int ta, const struct matrix *lb, int tb, const struct matrix *ld)
{
    int64_t m = ta ? la->cols : la->rows, ka = ta ? la->rows : la->cols;
    int64_t kb = tb ? lb->cols : lb->rows, n = tb ? lb->rows : lb->cols;
    return m == ld->rows && n == ld->cols && ka == kb && la->ld >= la->rows && lb->ld >= lb->rows &&
           ld->ld >= ld->rows && la->type == lb->type && (ld->type == la->type || ld->type == F32);
}

struct factors {
    const void *alpha, *beta, *bias; /* alpha, beta: float; bias: NULL or one value a row of D */
    enum type bias_type;
};

/* Is the matrix laid out as the library's fast kernels want it? */
static bool aligned(const struct matrix *m, const void *p)
{
    int64_t size = m->type == F32 ? 4 : 2;
    return ((uintptr_t)p | (uintptr_t)(m->ld * size) | (uintptr_t)(m->rows * size)) % 16 == 0;
}

/* D = alpha op(A) op(B) + beta C + bias, all column-major; C is not read if beta is 0. The slow kernels have no
 * epilogue: the bias is then added to what was rounded to D's type, as cuBLASLt does. */
static int multiply(const struct factors *f, const struct matrix *la, const void *a, int ta, const struct matrix *lb,
                    const void *b, int tb, const struct matrix *lc, const void *c, const struct matrix *ld, void *d)
{
    double alpha = get(f->alpha, F32, 0), beta = get(f->beta, F32, 0);
    if (!fits(la, ta, lb, tb, ld) || lc->rows != ld->rows || lc->cols != ld->cols || lc->type != ld->type ||
        lc->ld < lc->rows || (f->bias && f->bias_type == UNKNOWN))
        return INVALID;
    bool fused = aligned(la, a) && aligned(lb, b) && aligned(ld, d);
    int64_t depth = ta ? la->rows : la->cols;
    for (int64_t j = 0; j < ld->cols; j++)
        for (int64_t i = 0; i < ld->rows; i++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += get(a, la->type, ta ? k + i * la->ld : i + k * la->ld) *
                       get(b, lb->type, tb ? j + k * lb->ld : k + j * lb->ld);
            sum = alpha * sum + (beta != 0 ? beta * get(c, lc->type, i + j * lc->ld) : 0);
            double bias = f->bias ? get(f->bias, f->bias_type, i) : 0;
            put(d, ld->type, i + j * ld->ld, fused ? sum + bias : sum);
            if (!fused && f->bias)
                put(d, ld->type, i + j * ld->ld, get(d, ld->type, i + j * ld->ld) + bias);
        }
    return 0;
}

/* A product as it is launched. */
struct job {
    struct factors f;
    float alpha, beta;
    struct matrix la, lb, lc, ld;
    const void *a, *b, *c;
    int ta, tb;
    void *d, *workspace;
    size_t size;
};

static int run_job(struct job *j)
{
    if (j->size) /* the memory must be as large as was said */
        ((char *)j->workspace)[0] = ((char *)j->workspace)[j->size - 1] = 0x5a;
    j->f.alpha = &j->alpha;
    j->f.beta = &j->beta;
    return multiply(&j->f, &j->la, j->a, j->ta, &j->lb, j->b, j->tb, &j->lc, j->c, &j->ld, j->d);
}

static void run_launched(void *data)
{
    (void)run_job(data);
}

/* A captured one is run as often as its graph is, so none is ever freed. */
static int launch(void *stream, const struct job *job)
{
    struct job now = *job, *kept;
    mock_blas.told = job->size;
    mock_blas.workspace = job->workspace;
    if (!mock_blas.hip.launch)
        return run_job(&now);
    if (!(kept = malloc(sizeof(*kept))))
        return FAILED;
    *kept = now;
    return mock_blas.hip.launch(stream, run_launched, kept) ? FAILED : 0;
}

/* ---- cuBLASLt and hipBLASLt -------------------------------------------------------------------------------------- */

struct desc {
    int magic, transa, transb, epilogue, bias_type;
    const void *bias;
};
struct pref {
    int magic;
    size_t workspace;
    uint32_t reduction, align[4];
};
enum { DESC = 0x11, LAYOUT = 0x22, PREF = 0x33, HANDLE = 0x44 };

static void *make(size_t size, int magic)
{
    int *p = calloc(1, size);
    *p = magic;
    mock_blas.live++;
    return p;
}

static int drop(void *p, int magic)
{
    if (!p || *(int *)p != magic)
        return INVALID;
    free(p);
    mock_blas.live--;
    return 0;
}

static int is(const void *p, int magic)
{
    return p && *(const int *)p == magic;
}

struct handle {
    int magic;
    void *synchronizer; /* hipBLASLt */
    bool used;
    void *user; /* the stream of its products */
    /* rocBLAS */
    void *stream, *memory, *workspace;
    size_t size;
    int atomics;
};

static int make_handle(void **out, struct handle **made)
{
    struct handle *h = calloc(1, sizeof(*h));
    if (!h)
        return FAILED;
    h->magic = HANDLE;
    h->atomics = 1; /* allowed, unless it is told otherwise */
    mock_blas.handles++;
    *out = *made = h;
    return 0;
}

static int drop_handle(struct handle *h)
{
    if (!is(h, HANDLE))
        return INVALID;
    h->magic = 0;
    free(h);
    mock_blas.destroyed++;
    return 0;
}

/* What differs between the two. -1: the library has no such attribute. */
struct numbers {
    int compute, transa, transb, epilogue, bias_pointer, bias_type, op_n, op_t;
    int workspace, reduction, align; /* align: of A; B's, C's and D's follow */
    int algo_bytes;
};
static const struct numbers cuda = { 68, 3, 4, 7, 8, 26, 0, 1, 1, 3, 5, 64 };
static const struct numbers hip = { 2, 0, 1, 2, 3, 4, 111, 112, 1, -1, -1, 24 };

static int desc_create(const struct numbers *k, void **out, int compute, int scale)
{
    /* ROCm 5's hipBLASLt had numbers of its own: HIPBLASLT_COMPUTE_F32 was 300, HIPBLASLT_R_32F 151. */
    if (compute != k->compute || scale != 0 || (k->op_t == 112 && mock_blas.rocm < 60000))
        return INVALID;
    struct desc *d = *out = make(sizeof(*d), DESC);
    d->transa = d->transb = k->op_n;
    d->epilogue = 1;
    d->bias_type = -1; /* D's */
    return 0;
}

static int take(void *slot, size_t slot_size, const void *value, size_t size)
{
    if (size != slot_size)
        return INVALID;
    memcpy(slot, value, size);
    return 0;
}

static int desc_set(const struct numbers *k, struct desc *d, int attr, const void *value, size_t size)
{
    if (!is(d, DESC))
        return INVALID;
    return attr == k->transa         ? take(&d->transa, sizeof(int), value, size)
           : attr == k->transb       ? take(&d->transb, sizeof(int), value, size)
           : attr == k->epilogue     ? take(&d->epilogue, sizeof(int), value, size)
           : attr == k->bias_type    ? take(&d->bias_type, sizeof(int), value, size)
           : attr == k->bias_pointer ? take(&d->bias, sizeof(void *), value, size)
                                     : INVALID;
}

static int pref_set(const struct numbers *k, struct pref *p, int attr, const void *value, size_t size)
{
    if (!is(p, PREF))
        return INVALID;
    return attr == k->workspace                ? take(&p->workspace, sizeof(size_t), value, size)
           : attr == k->reduction && attr >= 0 ? take(&p->reduction, sizeof(uint32_t), value, size)
           : attr >= k->align && attr < k->align + 4 && k->align >= 0
               ? take(&p->align[attr - k->align], sizeof(uint32_t), value, size)
               : INVALID;
}

static int layout_create(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    if (lt_type(type) == UNKNOWN)
        return INVALID;
    struct matrix *m = *out = make(sizeof(*m), LAYOUT);
    *m = (struct matrix){ LAYOUT, lt_type(type), (int64_t)rows, (int64_t)cols, ld };
    return 0;
}

/* Descriptor and layouts of a product that there could be. */
static int sound(const struct numbers *k, const struct desc *d, const struct matrix *la, const struct matrix *lb,
                 const struct matrix *ld)
{
    return is(d, DESC) && is(la, LAYOUT) && is(lb, LAYOUT) && is(ld, LAYOUT) &&
           (d->transa == k->op_n || d->transa == k->op_t) && (d->transb == k->op_n || d->transb == k->op_t) &&
           (d->epilogue == 1 || (d->epilogue == 4 && d->bias)) &&
           fits(la, d->transa == k->op_t, lb, d->transb == k->op_t, ld);
}

/* Result of the heuristic: algo (its bytes all hold its rank), then workspace, state, waves, reserved[4]. */
static int heuristic(const struct numbers *k, void *handle, struct desc *d, struct matrix *la, struct matrix *lb,
                     struct matrix *ld, struct pref *pref, int n, char *results, int *got)
{
    if (!is(handle, HANDLE) || !is(pref, PREF) || n < 1 || !sound(k, d, la, lb, ld))
        return INVALID;
    mock_blas.reduction = pref->reduction;
    memcpy(mock_blas.align, pref->align, sizeof(pref->align));
    *got = n < mock_blas.offers ? n : mock_blas.offers;
    if (pref->workspace < 1024) /* all of them need some */
        *got = 0;
    for (int i = 0; i < *got; i++) {
        char *r = results + i * (k->algo_bytes + 8 + 4 + 4 + 16);
        memset(r, i + 1, (size_t)k->algo_bytes);
        memcpy(r + k->algo_bytes, &mock_blas.needs, 8);
        memcpy(r + k->algo_bytes + 8, &mock_blas.state, 4);
    }
    return 0;
}

/* From ROCm 6.2 on a handle has one buffer, and its kernels' workgroups wait for each other by what they find there
 * (hipBLASLt, library/src/amd_detail/hipblaslt.cpp and rocblaslt_auxiliary.cpp: Synchronizer). Nobody asks here whether
 * the first stream's product is still running: on a GPU it may be. */
static bool alone(const struct numbers *k, struct handle *h, void *stream)
{
    bool other = h->used && h->user != stream;
    h->used = true;
    h->user = stream;
    return k->op_t != 112 || mock_blas.rocm < 60200 || !other;
}

static int matmul(const struct numbers *k, void *stream, void *handle, struct desc *d, const struct factors *f,
                  const void *a, struct matrix *la, const void *b, struct matrix *lb, const void *c, struct matrix *lc,
                  void *out, struct matrix *ld, const char *algo, void *workspace, size_t size)
{
    if (!is(handle, HANDLE) || !sound(k, d, la, lb, ld) || !is(lc, LAYOUT) || !workspace || size < mock_blas.needs)
        return INVALID;
    for (int i = 0; i < k->algo_bytes; i++)
        if (algo[i] < 1 || algo[i] > mock_blas.offers || algo[i] != algo[0])
            return INVALID;
    mock_blas.algo = algo[0] - 1;
    if (!alone(k, handle, stream))
        return ends(1, "hipBLASLt: kernels of two streams wait for each other by one handle's buffer, for ever");
    struct job job = { .f = *f, .la = *la, .lb = *lb, .lc = *lc, .ld = *ld, .a = a, .b = b, .c = c, .d = out };
    job.f.bias = d->epilogue == 4 ? d->bias : NULL;
    job.f.bias_type = d->bias_type == -1 ? ld->type : lt_type(d->bias_type);
    job.alpha = *(const float *)f->alpha;
    job.beta = *(const float *)f->beta;
    job.ta = d->transa == k->op_t;
    job.tb = d->transb == k->op_t;
    job.workspace = workspace;
    job.size = size;
    return launch(stream, &job);
}

#define DEFINE(visibility, type, name, params)                                                                         \
    visibility type name params;                                                                                       \
    visibility type name params
#define ENTRY(type, name, params) DEFINE(MOCK_API, type, name, params)
#ifdef MOCK_LACKS_PRODUCT
#define PRODUCT(type, name, params) DEFINE(__attribute__((visibility("hidden"))), type, name, params)
#else
#define PRODUCT ENTRY
#endif

static int lt_create(const struct numbers *k, void **out)
{
    enum {
        BYTES = 16 * 1024 * 4
    }; /* hipblasLtCreate(), 6.2 on: hipMalloc() and hipMemset(), each in CHECK_HIP_ERROR() */
    static char zeroes[BYTES];
    struct handle *h;
    void *memory = NULL;
    const struct mock_hip *hip = &mock_blas.hip;
    if (k->op_t == 112 && mock_blas.rocm >= 60200 && hip->allocate &&
        (hip->allocate(&memory, BYTES) || hip->write(memory, zeroes, BYTES)))
        return ends(1, "Hip error: in hipblasLtCreate(): a stream of the process is being captured");
    int st = make_handle(out, &h);
    if (!st)
        h->synchronizer = memory;
    return st;
}

static int lt_destroy(struct handle *h)
{
    if (is(h, HANDLE) && h->synchronizer && mock_blas.hip.release(h->synchronizer))
        return FAILED;
    return drop_handle(h);
}

#define LT(prefix, k)                                                                                                  \
    ENTRY(int, prefix##Create, (void **out))                                                                           \
    {                                                                                                                  \
        return failing(#prefix "Create") ? not_made(out) : lt_create(&(k), out);                                       \
    }                                                                                                                  \
    ENTRY(int, prefix##Destroy, (void *handle))                                                                        \
    {                                                                                                                  \
        return lt_destroy(handle);                                                                                     \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulDescCreate, (void **out, int compute, int scale))                                         \
    {                                                                                                                  \
        return failing(#prefix "MatmulDescCreate") ? not_made(out) : desc_create(&(k), out, compute, scale);           \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulDescDestroy, (void *p))                                                                   \
    {                                                                                                                  \
        return drop(p, DESC);                                                                                          \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulDescSetAttribute, (void *p, int attr, const void *value, size_t size))                    \
    {                                                                                                                  \
        return failing(#prefix "MatmulDescSetAttribute") ? FAILED : desc_set(&(k), p, attr, value, size);              \
    }                                                                                                                  \
    ENTRY(int, prefix##MatrixLayoutCreate, (void **out, int type, uint64_t rows, uint64_t cols, int64_t ld))           \
    {                                                                                                                  \
        return failing(#prefix "MatrixLayoutCreate") ? not_made(out) : layout_create(out, type, rows, cols, ld);       \
    }                                                                                                                  \
    ENTRY(int, prefix##MatrixLayoutDestroy, (void *p))                                                                 \
    {                                                                                                                  \
        return drop(p, LAYOUT);                                                                                        \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulPreferenceCreate, (void **out))                                                           \
    {                                                                                                                  \
        if (failing(#prefix "MatmulPreferenceCreate"))                                                                 \
            return not_made(out);                                                                                      \
        *out = make(sizeof(struct pref), PREF);                                                                        \
        return 0;                                                                                                      \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulPreferenceDestroy, (void *p))                                                             \
    {                                                                                                                  \
        return drop(p, PREF);                                                                                          \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulPreferenceSetAttribute, (void *p, int attr, const void *value, size_t size))              \
    {                                                                                                                  \
        return failing(#prefix "MatmulPreferenceSetAttribute") ? FAILED : pref_set(&(k), p, attr, value, size);        \
    }                                                                                                                  \
    ENTRY(int, prefix##MatmulAlgoGetHeuristic,                                                                         \
          (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int n, void *results, int *got))  \
    {                                                                                                                  \
        if (failing(#prefix "MatmulAlgoGetHeuristic"))                                                                 \
            return FAILED;                                                                                             \
        return is(c, LAYOUT) ? heuristic(&(k), handle, desc, a, b, d, pref, n, results, got) : INVALID;                \
    }

#ifndef MOCK_ONLY_ROCBLAS
LT(hipblasLt, hip)

/* hipBLASLt's version header: major * 100000 + minor * 100 + patch. */
ENTRY(int, hipblasLtGetVersion, (void *handle, int *version))
{
    *version = mock_blas.rocm < 60000   ? 300
               : mock_blas.rocm < 60200 ? 700
               : mock_blas.rocm < 70000 ? 1200
               : mock_blas.rocm < 70100 ? 100000
                                        : 100100;
    return is(handle, HANDLE) ? 0 : INVALID;
}
#endif
#if !defined(MOCK_ONLY_LT) && !defined(MOCK_ONLY_ROCBLAS)
LT(cublasLt, cuda)

ENTRY(size_t, cublasLtGetVersion, (void))
{
    return 130102;
}
#endif

#define LT_PRODUCT(prefix, k)                                                                                          \
    PRODUCT(int, prefix##Matmul,                                                                                       \
            (void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,            \
             const void *beta, const void *c, void *lc, void *d, void *ld, const void *algo, void *workspace,          \
             size_t size, void *stream))                                                                               \
    {                                                                                                                  \
        struct factors f = { .alpha = alpha, .beta = beta };                                                           \
        mock_blas.stream = stream;                                                                                     \
        return failing(#prefix "Matmul")                                                                               \
                   ? FAILED                                                                                            \
                   : matmul(&(k), stream, handle, desc, &f, a, la, b, lb, c, lc, d, ld, algo, workspace, size);        \
    }

#ifndef MOCK_ONLY_ROCBLAS
LT_PRODUCT(hipblasLt, hip)
#endif
#if !defined(MOCK_ONLY_LT) && !defined(MOCK_ONLY_ROCBLAS)
LT_PRODUCT(cublasLt, cuda)
#endif

/* ---- rocBLAS ----------------------------------------------------------------------------------------------------- */

#ifndef MOCK_ONLY_LT

/* The memory that a handle begins with (handle.cpp: DEFAULT_DEVICE_MEMORY_SIZE, or what the thread set for its next
 * one). To 6.x it is allocated at once; 7.0 takes and returns it by hipMallocAsync(), and has none then. */
static _Thread_local size_t first_memory;

ENTRY(void, rocblas_device_malloc_set_default_memory_size, (size_t size))
{
    first_memory = size;
}

ENTRY(int, rocblas_create_handle, (void **out))
{
    struct handle *h;
    void *memory = NULL;
    if (failing("rocblas_create_handle"))
        return not_made(out);
    if (mock_blas.rocm < 70000 && mock_blas.hip.allocate &&
        mock_blas.hip.allocate(&memory, first_memory ? first_memory : (size_t)32 << 20))
        return FAILED;
    first_memory = 0;
    int st = make_handle(out, &h);
    if (!st)
        h->memory = memory;
    return st;
}

ENTRY(int, rocblas_destroy_handle, (void *handle))
{
    struct handle *h = handle;
    if (is(h, HANDLE) && h->memory && mock_blas.hip.release(h->memory))
        return ends(0, "rocBLAS error during freeing of allocated memory in handle destructor");
    return drop_handle(h);
}

ENTRY(int, rocblas_set_atomics_mode, (void *handle, int mode))
{
    if (failing("rocblas_set_atomics_mode"))
        return FAILED;
    if (!is(handle, HANDLE) || (mode != 0 && mode != 1))
        return INVALID;
    ((struct handle *)handle)->atomics = mode;
    return 0;
}

ENTRY(int, rocblas_get_version_string, (char *text, size_t size))
{
    int major = mock_blas.rocm < 60000 ? 3 : mock_blas.rocm < 70000 ? 4 : 5;
    snprintf(text, size, "%d.%d.0.mock", major, mock_blas.rocm / 100 % 100);
    return 0;
}

ENTRY(int, rocblas_set_stream, (void *handle, void *stream))
{
    struct handle *h = handle;
    if (failing("rocblas_set_stream"))
        return FAILED;
    if (!is(h, HANDLE))
        return INVALID;
    if (stream && stream != h->stream && mock_blas.hip.ask && mock_blas.hip.ask(stream))
        return FAILED; /* it asks HIP whether there is such a stream */
    h->stream = stream;
    return 0;
}

ENTRY(int, rocblas_set_workspace, (void *handle, void *workspace, size_t size))
{
    struct handle *h = handle;
    if (failing("rocblas_set_workspace"))
        return FAILED;
    if (!is(h, HANDLE) || !workspace)
        return INVALID;
    if (h->memory && mock_blas.hip.release(h->memory)) /* free_existing_device_memory() */
        return FAILED;
    h->memory = NULL;
    h->workspace = workspace;
    h->size = size;
    return 0;
}

PRODUCT(int, rocblas_gemm_ex,
        (void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int a_type,
         int lda, const void *b, int b_type, int ldb, const void *beta, const void *c, int c_type, int ldc, void *d,
         int d_type, int ldd, int compute_type, int algo, int32_t solution_index, uint32_t flags))
{
    struct handle *h = handle;
    if (failing("rocblas_gemm_ex"))
        return FAILED;
    if (mock_blas.no_kernels) /* tensile_host.cpp, initialize(): rocblas_abort() */
        return ends(0, "rocBLAS error: Cannot read TensileLibrary.dat: No such file or directory");
    int ta = transa == 112, tb = transb == 112;
    struct matrix la = { LAYOUT, roc_type(a_type), ta ? k : m, ta ? m : k, lda };
    struct matrix lb = { LAYOUT, roc_type(b_type), tb ? n : k, tb ? k : n, ldb };
    struct matrix lc = { LAYOUT, roc_type(c_type), m, n, ldc };
    struct matrix ld = { LAYOUT, roc_type(d_type), m, n, ldd };
    if (!is(handle, HANDLE) || (transa != 111 && !ta) || (transb != 111 && !tb) || la.type == UNKNOWN ||
        lb.type == UNKNOWN || ld.type == UNKNOWN || compute_type != 151 || algo || solution_index || flags)
        return INVALID;
    mock_blas.stream = h->stream;
    mock_blas.atomics = h->atomics;
    struct job job = { .la = la, .lb = lb, .lc = lc, .ld = ld, .a = a, .b = b, .c = c, .d = d, .ta = ta, .tb = tb };
    job.alpha = *(const float *)alpha;
    job.beta = *(const float *)beta;
    job.workspace = h->workspace;
    job.size = h->size;
    return launch(h->stream, &job);
}
#endif
