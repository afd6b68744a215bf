/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt for gemm_peers.py: all that its heuristics offer for Y[M,N] = X[M,K] W[N,K]^T, to be run one by one. No
 * reduction scheme is left out, so some of them add split-K's partial sums up in 16 bits. Built by build.sh. Each
 * function returns a cublasStatus_t. */
#include <cstdint>
#include <cstdio>
#include <new>

#include <cublasLt.h>

#define PEER extern "C" __attribute__((visibility("default"))) int

enum { MOST = 64 };

struct plan {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, x, y; /* column-major: W^T, X^T, Y^T */
    cublasLtMatmulHeuristicResult_t found[MOST];
};

static cublasLtHandle_t handle;

PEER peer_lt_close(plan *p)
{
    if (p) {
        cublasLtMatmulDescDestroy(p->desc);
        cublasLtMatrixLayoutDestroy(p->w);
        cublasLtMatrixLayoutDestroy(p->x);
        cublasLtMatrixLayoutDestroy(p->y);
        delete p;
    }
    return 0;
}

static cublasStatus_t fill(plan *p, cudaDataType_t type, int64_t m, int64_t n, int64_t k, uint64_t workspace,
                           int *found)
{
    cublasLtMatmulPreference_t want = NULL;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasStatus_t s = handle ? CUBLAS_STATUS_SUCCESS : cublasLtCreate(&handle);
    if (!s)
        s = cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!s)
        s = cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
    if (!s)
        s = cublasLtMatrixLayoutCreate(&p->w, type, k, n, k);
    if (!s)
        s = cublasLtMatrixLayoutCreate(&p->x, type, k, m, k);
    if (!s)
        s = cublasLtMatrixLayoutCreate(&p->y, type, n, m, n);
    if (!s)
        s = cublasLtMatmulPreferenceCreate(&want);
    if (!s)
        s = cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                 sizeof(workspace));
    if (!s)
        s = cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->w, p->x, p->y, p->y, want, MOST, p->found, found);
    if (want)
        cublasLtMatmulPreferenceDestroy(want);
    return s;
}

/* bf16, or fp16 if half. *found: the algorithms there are, in the heuristics' order, the best first. */
PEER peer_lt_open(plan **out, int half, int64_t m, int64_t n, int64_t k, uint64_t workspace, int *found)
{
    *found = 0;
    *out = new (std::nothrow) plan();
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    cublasStatus_t s = fill(*out, half ? CUDA_R_16F : CUDA_R_16BF, m, n, k, workspace, found);
    if (s) {
        peer_lt_close(*out);
        *out = NULL;
    }
    return s;
}

/* "algo 3: id 66 tile 18 stages 21 split-K 8 reduction 2", cuBLASLt's numbers */
PEER peer_lt_describe(plan *p, int i, char *text, size_t size)
{
    static const cublasLtMatmulAlgoConfigAttributes_t asked[] = { CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID,
                                                                  CUBLASLT_ALGO_CONFIG_STAGES_ID,
                                                                  CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                                  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME };
    int got[5] = { -1, -1, -1, -1, -1 };
    for (int a = 0; a < 5; a++)
        cublasLtMatmulAlgoConfigGetAttribute(&p->found[i].algo, asked[a], &got[a], sizeof(got[a]), NULL);
    snprintf(text, size, "algo %d: id %d tile %d stages %d split-K %d reduction %d", i, got[0], got[1], got[2], got[3],
             got[4]);
    return 0;
}

PEER peer_lt_run(plan *p, int i, const void *w, const void *x, void *y, void *workspace, size_t size, void *stream)
{
    float one = 1, zero = 0;
    cublasLtMatmulHeuristicResult_t *h = &p->found[i];
    if (h->state)
        return h->state;
    return cublasLtMatmul(handle, p->desc, &one, w, p->w, x, p->x, &zero, y, p->y, y, p->y, &h->algo, workspace, size,
                          (cudaStream_t)stream);
}
