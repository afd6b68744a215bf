/* SPDX-License-Identifier: MIT */
#include "op_case.h"

#include <string.h>

#include "quant.h"

const struct rfg_op_case *rfg_op_case_of(const struct rfg_op *op)
{
    static const struct {
        const char *op;
        const struct rfg_op_case *of;
    } cases[] = {
#define RFG_OP(name, folder) { #name, &rfg_op_case_##name },
#include "registry.def"
#undef RFG_OP
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (!strcmp(op->name, cases[i].op))
            return cases[i].of;
    return NULL;
}

const char *rfg_small_problem(int i)
{
    for (int k = 0; rfg_ops[k]; k++)
        for (const char *const *p = rfg_op_case_of(rfg_ops[k])->small; p && *p; p++)
            if (i-- == 0)
                return *p;
    return NULL;
}

int rfg_small_problems(void)
{
    int n = 0;
    while (rfg_small_problem(n))
        n++;
    return n;
}

struct rfg_tensor_spec rfg_rows_spec(const char *name, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t heads,
                                     int64_t ld, int align_key)
{
    struct rfg_tensor_spec s = { .name = name,
                                 .dtype = dtype,
                                 .ndim = 2,
                                 .shape = { rows, cols },
                                 .row_stride = ld ? ld : cols,
                                 .align_key = align_key };
    if (heads > 1) {
        s.ndim = 3;
        s.shape[0] = rows / heads;
        s.shape[1] = heads;
        s.shape[2] = cols;
        s.row_stride = ld ? ld : heads * cols;
    }
    return s;
}

void rfg_outputs_specs(const struct rfg_problem *prob, const struct rfg_outputs_shape *s,
                       struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    int64_t group = rfg_scale_columns(s->scale), groups = group ? (s->cols + group - 1) / group : 1;
    rfg_dtype in = (rfg_dtype)prob->dtype[0], out = (rfg_dtype)prob->dtype[1];
    spec[0] = rfg_rows_spec("y", in, s->rows, s->cols, s->heads, s->ld, s->align_key);
    spec[0].output = true;
    spec[0].absent = s->scale && !s->plain;
    int64_t ldq = s->ld + (rfg_dtype_is_4_bits(out) ? s->ld % 2 : 0); /* whole bytes */
    spec[1] = rfg_rows_spec("q", out, s->rows, s->cols, s->heads, ldq, s->align_key);
    spec[1].output = true;
    spec[1].absent = !s->scale;
    spec[1].scaled_by = 3;
    spec[1].scale_group = group ? group : INT64_MAX;
    spec[2] =
        rfg_rows_spec("scale", rfg_scale_dtype(s->scale), s->scale == RFG_SCALE_STATIC ? 1 : s->rows, groups, 1, 0, -1);
    spec[2].output = s->scale != RFG_SCALE_STATIC;
    spec[2].absent = !s->scale;
    spec[2].column_major = group && s->scale_columns;
    if (s->scale == RFG_SCALE_STATIC) { /* some values saturate, most don't */
        spec[2].ndim = 1;
        spec[2].shape[0] = 1;
        spec[2].shape[1] = 0;
        spec[2].constant = out == RFG_E5M2 ? 0x1.23p-15 : 0x1.23p-8;
    }
}
