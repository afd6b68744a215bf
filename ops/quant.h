/* SPDX-License-Identifier: MIT
 *
 * Quantised outputs (rfg/quant.h): what operators that have them share on the host. The device's side is
 * ops/device/rfg_quant.h. */
#ifndef RFG_OPS_QUANT_H
#define RFG_OPS_QUANT_H

#include "tensors.h"
#include "rfg/quant.h"

#define RFG_SCALE_COLUMNS 128 /* of a group */
#define RFG_MX_COLUMNS    32

/* The problem's key "scale": 0 is none, the others are enum rfg_scale_kind. */
#define RFG_SCALE_NAMES    ((const char *const[]){ "none", "static", "token", "group", "mx" })
#define RFG_ROUNDING_NAMES ((const char *const[]){ "exact", "up", "down", "even", "ceil" })
#define RFG_KEY_ROUNDING(help)                                                                                         \
    {                                                                                                                  \
        "rounding", RFG_KEY_ATTR, 0, 0, RFG_SCALE_CEIL, RFG_ROUNDING_NAMES, help                                       \
    }

/* Columns that share a scale; 0: all of a row. */
static inline int64_t rfg_scale_columns(int64_t kind)
{
    return kind == RFG_SCALE_GROUP ? RFG_SCALE_COLUMNS : kind == RFG_SCALE_MX ? RFG_MX_COLUMNS : 0;
}
static inline rfg_dtype rfg_scale_dtype(int64_t kind)
{
    return kind == RFG_SCALE_MX ? RFG_E8M0 : RFG_F32;
}

/* The first slots, axes and facts of a call that has such outputs. */
enum { RFG_X, RFG_Y, RFG_Q, RFG_SCALE, RFG_OUTPUTS };
enum { RFG_ROWS = 1, RFG_COLS, RFG_OUT_COLS, RFG_HEADS, RFG_OUTPUT_AXES };
#define RFG_NAMES_OF_OUTPUTS(cols)                                                                                     \
    [RFG_ROWS] = { "rows", 0, 0 }, [RFG_COLS] = { "columns", 0, cols }, [RFG_OUT_COLS] = { "x's N columns", 0, cols }, \
    [RFG_HEADS] = { "second dimension", 0, 0 }
#define RFG_X_RULE                                                                                                     \
    {                                                                                                                  \
        "x", RFG_X, RFG_FOLDED, 3, { RFG_ROWS, RFG_COLS, RFG_HEADS }, RFG_FLOAT_FORMATS                                \
    }
#define RFG_IN_PLACE 0x100 /* y may be x */

/* The outputs of a call: plain, quantised, or both. */
struct rfg_outputs {
    bool plain, quantised;
    rfg_quant quant;              /* as the caller gave it */
    int64_t scale_row, scale_col; /* strides of the scales, in elements */
    bool scale_columns;           /* column-major */
};

/* Checks y (a tensor of the call) and quant, either of which may be NULL but not both, against the rows and dtype of x,
 * and RFG_OUT_COLS. */
rfg_status rfg_check_outputs(struct rfg_outputs *o, struct rfg_tensors *t, const rfg_quant *quant);
/* The first scale of a row; NULL if there are none. */
static inline void *rfg_row_scale(void *scale, int64_t kind, int64_t row, int64_t scale_row)
{
    return scale ? (char *)scale + rfg_format_bytes(rfg_scale_dtype(kind), 1) * row * scale_row : NULL;
}

/* What the keys of a problem say of its outputs. */
struct rfg_outputs_keys {
    int64_t cols, ld; /* ld: of y, or of q where there is no y; 0: packed */
    int64_t scale, rounding, plain, scale_columns;
};
/* Is the combination of dtypes and these one that there is? */
bool rfg_outputs_valid(const struct rfg_problem *prob, const struct rfg_outputs_keys *k, struct rfg_reason *why);

/* Bytes of the outputs, scales included. */
double rfg_outputs_bytes(const struct rfg_problem *prob, int64_t rows, int64_t cols, int64_t scale, int64_t plain);

/* The largest width (16, 8, 4, 2 bytes of an input's row) that loads and stores may have, and whether `width` is no
 * larger. */
int rfg_chunk_width(const struct rfg_problem *prob, int64_t cols, int64_t align, int64_t align_out, bool plain,
                    bool quantised);

#endif
