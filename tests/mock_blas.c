/* SPDX-License-Identifier: MIT
 *
 * Pretended cuBLASLt, hipBLASLt and rocBLAS: their entry points as their headers declare them, knowing nothing of rfg.
 * They do what they are told, in double precision, column-major; a wrong layout, stride, transpose or type gives a
 * wrong answer or a status. Numbers from cublasLt.h (CUDA 13.0) and from the documentation of hipBLASLt and rocBLAS
 * (ROCm 6). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mock_blas.h"

struct mock_blas mock_blas = { .offers = 5 };

enum { INVALID = 7, FAILED = 13 };

/* Counts down to the call that fails. */
static int failing(void)
{
    mock_blas.calls++;
    return mock_blas.fail_at && mock_blas.calls == mock_blas.fail_at;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

enum type { F32, F16, BF16, UNKNOWN };

static enum type type_of(int code)
{
    switch (code) {
    case 0:   /* CUDA_R_32F, HIP_R_32F */
    case 151: /* rocblas_datatype_f32_r */
        return F32;
    case 2: /* CUDA_R_16F, HIP_R_16F */
    case 150:
        return F16;
    case 14: /* CUDA_R_16BF, HIP_R_16BF */
    case 168:
        return BF16;
    }
    return UNKNOWN;
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

/* For values that the type can hold exactly. */
static void put(void *p, enum type t, int64_t i, double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (t == F32)
        ((float *)p)[i] = f;
    else if (t == BF16)
        ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
    else
        ((uint16_t *)p)[i] =
            v == 0 ? 0 : (uint16_t)((u >> 31 << 15) | (((u >> 23 & 255) - 112) << 10) | (u >> 13 & 1023));
}

struct matrix {
    int magic;
    enum type type;
    int64_t rows, cols, ld;
};

/* D[m x n] = op(A) op(B) + bias, all column-major. */
static int multiply(const struct matrix *la, const void *a, int ta, const struct matrix *lb, const void *b, int tb,
                    const struct matrix *ld, void *d, const void *bias, enum type bias_type)
{
    int64_t m = ta ? la->cols : la->rows, ka = ta ? la->rows : la->cols;
    int64_t kb = tb ? lb->cols : lb->rows, n = tb ? lb->rows : lb->cols;
    if (m != ld->rows || n != ld->cols || ka != kb || la->ld < la->rows || lb->ld < lb->rows || ld->ld < ld->rows)
        return INVALID;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double sum = bias ? get(bias, bias_type, i) : 0;
            for (int64_t k = 0; k < ka; k++)
                sum += get(a, la->type, ta ? k + i * la->ld : i + k * la->ld) *
                       get(b, lb->type, tb ? j + k * lb->ld : k + j * lb->ld);
            put(d, ld->type, i + j * ld->ld, sum);
        }
    return 0;
}

/* ---- cuBLASLt and hipBLASLt ---------------------------------------------------------------------------------------
 */

struct desc {
    int magic, transa, transb, epilogue, bias_type;
    const void *bias;
};
enum { DESC = 0x11, LAYOUT = 0x22, PREF = 0x33 };

static int make(void **out, size_t size, int magic)
{
    if (failing())
        return FAILED;
    int *p = calloc(1, size);
    *p = magic;
    *out = p;
    mock_blas.live++;
    return 0;
}

static int drop(void *p, int magic)
{
    if (!p || *(int *)p != magic)
        return INVALID;
    free(p);
    mock_blas.live--;
    return 0;
}

static int set_int(int *slot, const void *value, size_t size)
{
    if (size != sizeof(int))
        return INVALID;
    memcpy(slot, value, size);
    return 0;
}

/* What differs between the two. */
struct numbers {
    int compute, transa, transb, epilogue, bias_pointer, bias_type, op_n, op_t, workspace, algo_bytes;
};
static const struct numbers cuda = { 68, 3, 4, 7, 8, 26, 0, 1, 1, 64 };
static const struct numbers hip = { 2, 0, 1, 2, 3, 4, 111, 112, 1, 24 };

static int desc_create(const struct numbers *k, void **out, int compute, int scale)
{
    if (compute != k->compute || scale != 0)
        return INVALID;
    int st = make(out, sizeof(struct desc), DESC);
    if (!st)
        ((struct desc *)*out)->transa = ((struct desc *)*out)->transb = k->op_n;
    return st;
}

static int desc_set(const struct numbers *k, struct desc *d, int attr, const void *value, size_t size)
{
    if (failing())
        return FAILED;
    if (d->magic != DESC)
        return INVALID;
    if (attr == k->bias_pointer && size == sizeof(void *)) {
        memcpy(&d->bias, value, size);
        return 0;
    }
    return attr == k->transa      ? set_int(&d->transa, value, size)
           : attr == k->transb    ? set_int(&d->transb, value, size)
           : attr == k->epilogue  ? set_int(&d->epilogue, value, size)
           : attr == k->bias_type ? set_int(&d->bias_type, value, size)
                                  : INVALID;
}

static int layout_create(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    if (type_of(type) == UNKNOWN)
        return INVALID;
    int st = make(out, sizeof(struct matrix), LAYOUT);
    if (!st)
        *(struct matrix *)*out = (struct matrix){ LAYOUT, type_of(type), (int64_t)rows, (int64_t)cols, ld };
    return st;
}

/* Result of the heuristic: algo (its bytes all hold its rank), then workspace, state, waves, reserved[4]. */
static int heuristic(const struct numbers *k, void *handle, struct desc *d, void *pref, int n, char *results, int *got)
{
    if (failing())
        return FAILED;
    if (!handle || d->magic != DESC || *(int *)pref != PREF)
        return INVALID;
    *got = n < mock_blas.offers ? n : mock_blas.offers;
    for (int i = 0; i < *got; i++) {
        char *r = results + i * (k->algo_bytes + 8 + 4 + 4 + 16);
        size_t workspace = 1024;
        memset(r, i + 1, (size_t)k->algo_bytes);
        memcpy(r + k->algo_bytes, &workspace, sizeof(workspace));
        memset(r + k->algo_bytes + 8, 0, 4);
    }
    return 0;
}

static int matmul(const struct numbers *k, void *handle, struct desc *d, const void *alpha, const void *a,
                  struct matrix *la, const void *b, struct matrix *lb, const void *beta, const void *c,
                  struct matrix *lc, void *out, struct matrix *ld, const char *algo, void *workspace, size_t size)
{
    if (failing())
        return FAILED;
    int rank_ok = algo[0] >= 1 && algo[0] <= mock_blas.offers;
    for (int i = 1; i < k->algo_bytes; i++)
        rank_ok = rank_ok && algo[i] == algo[0];
    if (!handle || d->magic != DESC || la->magic != LAYOUT || lb->magic != LAYOUT || ld->magic != LAYOUT || !rank_ok ||
        c != out || lc != ld || *(const float *)alpha != 1 || *(const float *)beta != 0 || !workspace || size < 1024 ||
        (d->epilogue != 0 && d->epilogue != 1 && d->epilogue != 4))
        return INVALID;
    mock_blas.algo = algo[0] - 1;
    memset(workspace, 0x5a, 1024);
    return multiply(la, a, d->transa == k->op_t, lb, b, d->transb == k->op_t, ld, out,
                    d->epilogue == 4 ? d->bias : NULL, type_of(d->bias_type));
}

#define LT(prefix, k)                                                                                                  \
    MOCK_API int prefix##Create(void **handle);                                                                        \
    MOCK_API int prefix##Create(void **handle)                                                                         \
    {                                                                                                                  \
        static int one;                                                                                                \
        *handle = &one;                                                                                                \
        return failing() ? (*handle = NULL, FAILED) : 0;                                                               \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulDescCreate(void **out, int compute, int scale);                                         \
    MOCK_API int prefix##MatmulDescCreate(void **out, int compute, int scale)                                          \
    {                                                                                                                  \
        return desc_create(&(k), out, compute, scale);                                                                 \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulDescDestroy(void *p);                                                                   \
    MOCK_API int prefix##MatmulDescDestroy(void *p)                                                                    \
    {                                                                                                                  \
        return drop(p, DESC);                                                                                          \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulDescSetAttribute(void *p, int attr, const void *value, size_t size);                    \
    MOCK_API int prefix##MatmulDescSetAttribute(void *p, int attr, const void *value, size_t size)                     \
    {                                                                                                                  \
        return desc_set(&(k), p, attr, value, size);                                                                   \
    }                                                                                                                  \
    MOCK_API int prefix##MatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld);           \
    MOCK_API int prefix##MatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)            \
    {                                                                                                                  \
        return layout_create(out, type, rows, cols, ld);                                                               \
    }                                                                                                                  \
    MOCK_API int prefix##MatrixLayoutDestroy(void *p);                                                                 \
    MOCK_API int prefix##MatrixLayoutDestroy(void *p)                                                                  \
    {                                                                                                                  \
        return drop(p, LAYOUT);                                                                                        \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulPreferenceCreate(void **out);                                                           \
    MOCK_API int prefix##MatmulPreferenceCreate(void **out)                                                            \
    {                                                                                                                  \
        return make(out, sizeof(int), PREF);                                                                           \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulPreferenceDestroy(void *p);                                                             \
    MOCK_API int prefix##MatmulPreferenceDestroy(void *p)                                                              \
    {                                                                                                                  \
        return drop(p, PREF);                                                                                          \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulPreferenceSetAttribute(void *p, int attr, const void *value, size_t size);              \
    MOCK_API int prefix##MatmulPreferenceSetAttribute(void *p, int attr, const void *value, size_t size)               \
    {                                                                                                                  \
        (void)p, (void)value;                                                                                          \
        return failing() ? FAILED : attr == (k).workspace && size != sizeof(size_t) ? INVALID : 0;                     \
    }                                                                                                                  \
    MOCK_API int prefix##MatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,          \
                                                void *pref, int n, void *results, int *got);                           \
    MOCK_API int prefix##MatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,          \
                                                void *pref, int n, void *results, int *got)                            \
    {                                                                                                                  \
        (void)a, (void)b, (void)c, (void)d;                                                                            \
        return heuristic(&(k), handle, desc, pref, n, results, got);                                                   \
    }                                                                                                                  \
    MOCK_API int prefix##Matmul(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b,   \
                                void *lb, const void *beta, const void *c, void *lc, void *d, void *ld,                \
                                const void *algo, void *workspace, size_t size, void *stream);                         \
    MOCK_API int prefix##Matmul(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b,   \
                                void *lb, const void *beta, const void *c, void *lc, void *d, void *ld,                \
                                const void *algo, void *workspace, size_t size, void *stream)                          \
    {                                                                                                                  \
        mock_blas.stream = stream;                                                                                     \
        return matmul(&(k), handle, desc, alpha, a, la, b, lb, beta, c, lc, d, ld, algo, workspace, size);             \
    }

LT(cublasLt, cuda)
LT(hipblasLt, hip)

MOCK_API size_t cublasLtGetVersion(void);
MOCK_API size_t cublasLtGetVersion(void)
{
    return 130102;
}

/* ---- rocBLAS ------------------------------------------------------------------------------------------------------
 */

MOCK_API int rocblas_create_handle(void **handle);
MOCK_API int rocblas_create_handle(void **handle)
{
    static int one;
    *handle = NULL;
    if (failing())
        return FAILED;
    *handle = &one;
    return 0;
}

MOCK_API int rocblas_set_stream(void *handle, void *stream);
MOCK_API int rocblas_set_stream(void *handle, void *stream)
{
    mock_blas.stream = stream;
    return failing() ? FAILED : handle ? 0 : INVALID;
}

MOCK_API int rocblas_set_workspace(void *handle, void *workspace, size_t size);
MOCK_API int rocblas_set_workspace(void *handle, void *workspace, size_t size)
{
    return failing() ? FAILED : handle && workspace && size ? 0 : INVALID;
}

MOCK_API int rocblas_gemm_ex(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                             const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                             const void *c, int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                             int algo, int32_t solution_index, uint32_t flags);
MOCK_API int rocblas_gemm_ex(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                             const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                             const void *c, int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                             int algo, int32_t solution_index, uint32_t flags)
{
    if (failing())
        return FAILED;
    int ta = transa == 112, tb = transb == 112;
    struct matrix la = { LAYOUT, type_of(a_type), ta ? k : m, ta ? m : k, lda };
    struct matrix lb = { LAYOUT, type_of(b_type), tb ? n : k, tb ? k : n, ldb };
    struct matrix ld = { LAYOUT, type_of(d_type), m, n, ldd };
    if (!handle || (transa != 111 && !ta) || (transb != 111 && !tb) || la.type == UNKNOWN || lb.type == UNKNOWN ||
        ld.type == UNKNOWN || c != d || c_type != d_type || ldc != ldd || compute_type != 151 || algo ||
        solution_index || flags || *(const float *)alpha != 1 || *(const float *)beta != 0)
        return INVALID;
    return multiply(&la, a, ta, &lb, b, tb, &ld, d, NULL, F32);
}
