/* SPDX-License-Identifier: MIT
 *
 * Helpers of the test of rfg_op_moe: moe_case.c. */
#ifndef RFG_TESTS_MOE_CASE_H
#define RFG_TESTS_MOE_CASE_H

#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "ops/oracle.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

struct form {
    const char *what;
    rfg_dtype x, w, scale; /* scale: of w, 0: none */
    rfg_gemm_scale per;
    int64_t group; /* of a w of 4 bits */
    rfg_act act;
    bool halves, weights_first, bias, mapped, residual, bounded;
    float limit;
    int64_t experts, hidden, inner;
    double eps;      /* of an element of x and of what is between, beside the dtypes' */
    rfg_dtype codes; /* mx formats: those of x, if it is of floats, and of what is between; x: it is left as it is */
    int32_t rounding;
    int packed;       /* 1: w1, 2: w2, 3: both */
    int64_t identity; /* ids behind the experts' that are the token itself */
    bool own;         /* which is a tensor of its own, of y's dtype */
    bool global;      /* of nvfp4: scales of experts' tensors */
};

/* A tensor in host memory and on the device, with its values. */
struct matrix {
    rfg_tensor t;
    void *host;
    double *value; /* scaled, if there are scales */
    size_t bytes;
    int64_t rows, cols;
};

struct call {
    const struct form *f;
    struct matrix x, w1, w2, s1, s2, g1, g2, b1, b2, sx, sh, ids, weights, map, tokens, residual, y, own;
    void *plain[4]; /* memory of weights that were prepacked */
    rfg_moe_params p;
};

/* A value, and by how much it may be off: squares of errors of random sign. */
struct value {
    double v, square;
};

void *zeroed(size_t bytes);
void upload(rfg_context *ctx, const struct matrix *m);
void download(rfg_context *ctx, struct matrix *m);
struct matrix new_matrix(rfg_context *ctx, rfg_dtype dtype, int64_t rows, int64_t cols);
void new_call(struct call *c, const struct form *f, rfg_context *ctx, uint64_t seed);
void end_call(struct call *c, rfg_context *ctx);
void run(struct call *c, rfg_context *ctx, rfg_stream stream);
void expect(struct call *c, const float *before);
/* The most that an output was off, in what was allowed, and the sizes of the calls. */
extern int n_tokens, n_slots;
extern double most_off;
extern const struct form forms[];
extern const int n_forms;

#endif
