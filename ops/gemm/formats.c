/* SPDX-License-Identifier: MIT
 *
 * The formats of x, w and y, and which of them go together. */
#include "gemm.h"

#include <stdio.h>
#include <string.h>

#define SCALES_8 (RFG_FLOAT_FORMATS | 1u << RFG_E8M0)
#define BLOCKS(dtype)                                                                                                  \
    {                                                                                                                  \
        RFG_##dtype, RFG_FLOAT_FORMATS, 1u << RFG_DTYPE_NONE, GEMM_READ_SCALED, false, 0, 32                           \
    }

/* Ends with one of no format. */
static const struct gemm_w_format w_formats[] = {
    { RFG_I4, RFG_HALF_FORMATS, RFG_FLOAT_FORMATS, GEMM_READ_GROUPS, true, 16, 32 },
    { RFG_E2M1, RFG_HALF_FORMATS, 1u << RFG_E8M0, GEMM_READ_GROUPS, false, 32, 32 },
    { RFG_E2M1, RFG_HALF_FORMATS, 1u << RFG_E4M3, GEMM_READ_NVFP4, false, 16, 32 },
    { RFG_E2M1, RFG_HALF_FORMATS, RFG_FLOAT_FORMATS, GEMM_READ_GROUPS, false, 16, 32 },
    { RFG_E4M3, RFG_HALF_FORMATS, SCALES_8, GEMM_READ_W8, false, 32, 16 },
    { RFG_E4M3FNUZ, RFG_HALF_FORMATS, SCALES_8, GEMM_READ_W8, false, 32, 16 },
    { RFG_E5M2, RFG_HALF_FORMATS, SCALES_8, GEMM_READ_W8, false, 32, 16 },
    { RFG_I8, RFG_HALF_FORMATS, SCALES_8, GEMM_READ_W8, false, 32, 16 },
    BLOCKS(Q4_0),
    BLOCKS(Q4_1),
    BLOCKS(Q5_0),
    BLOCKS(Q5_1),
    BLOCKS(Q8_0),
    BLOCKS(Q2_K),
    BLOCKS(Q3_K),
    BLOCKS(Q4_K),
    BLOCKS(Q5_K),
    BLOCKS(Q6_K),
    BLOCKS(IQ4_NL),
    BLOCKS(IQ4_XS),
    BLOCKS(MXFP4),
    BLOCKS(NVFP4),
    { RFG_DTYPE_NONE, 0, 0, 0, false, 0, 0 },
};

/* Whether a set has a dtype, which may be none: calls come here before it is judged. */
static bool has_dtype(uint32_t set, int64_t dtype)
{
    return dtype >= 0 && dtype < RFG_DTYPE_COUNT && set >> dtype & 1;
}

const struct gemm_w_format *gemm_w_format(const struct rfg_problem *prob)
{
    const struct gemm_w_format *first = NULL;
    for (const struct gemm_w_format *f = w_formats; f->w; f++) {
        if (f->w != prob->dtype[1] || !has_dtype(f->x, prob->dtype[0]))
            continue;
        if (has_dtype(f->w_scale, prob->v[GEMM_W_SCALE]))
            return f;
        first = first ? first : f;
    }
    return first;
}

bool gemm_w_scale_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    uint32_t scales = 0;
    for (const struct gemm_w_format *f = w_formats; f->w; f++)
        if (f->w == prob->dtype[1] && has_dtype(f->x, prob->dtype[0]))
            scales |= f->w_scale | (gemm_format_has_per(f) ? 1u << RFG_DTYPE_NONE : 0);
    scales = scales ? scales : 1u << RFG_DTYPE_NONE;
    if (has_dtype(scales, prob->v[GEMM_W_SCALE]))
        return true;
    char names[96] = "";
    for (uint32_t left = scales; left; left &= left - 1) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof(names) - n, "%s%s",
                 left == scales      ? ""
                 : left & (left - 1) ? ", "
                                     : " or ",
                 rfg_dtype_name((rfg_dtype)__builtin_ctz(left)));
    }
    return rfg_refuse(why, "w_scale=%s: must be %s, w is %s", rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_SCALE]), names,
                      rfg_dtype_name((rfg_dtype)prob->dtype[1]));
}

int64_t gemm_w_vec(const struct rfg_problem *prob)
{
    const struct gemm_w_format *f = gemm_w_format(prob);
    return f ? f->vec : rfg_format_elements(prob->dtype[1], 16);
}

int64_t gemm_w_row_bytes(const struct rfg_problem *prob)
{
    int64_t groups = gemm_w_groups(prob);
    return rfg_format_bytes(prob->dtype[1], gemm_w_cols(prob)) +
           (groups ? rfg_format_bytes((int)prob->v[GEMM_W_SCALE], groups) +
                         rfg_format_bytes((int)prob->v[GEMM_W_ZERO], groups)
                   : 0);
}

static bool is_float(const struct rfg_problem *prob, int i, struct rfg_reason *why)
{
    return rfg_dtype_is_float(prob->dtype[i]) ||
           rfg_refuse(why, "dtype of %s is %s: must be bf16, f16 or f32", prob->op->operands[i].name,
                      rfg_dtype_name((rfg_dtype)prob->dtype[i]));
}

bool gemm_y_is_float(const struct rfg_problem *prob, struct rfg_reason *why)
{
    return is_float(prob, 2, why);
}

bool gemm_has_loader(const struct rfg_problem *prob, struct rfg_reason *why)
{
    bool a8w4 = prob->dtype[0] == RFG_E4M3 && prob->dtype[1] == RFG_E2M1; /* codes_valid() has its rules */
    if (a8w4 || gemm_w_format(prob))
        return true;
    if (!gemm_is_codes(prob) && (!is_float(prob, 0, why) || !is_float(prob, 1, why)))
        return false;
    return prob->dtype[0] == prob->dtype[1] ||
           rfg_refuse(why, "dtype of w is %s: must be x's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                      rfg_dtype_name((rfg_dtype)prob->dtype[0]));
}
