/* SPDX-License-Identifier: MIT
 *
 * gemm and gemm_prepack as the harness has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ops/format_blocks.h"
#include "ops/oracle.h"
#include "rfg/gemm.h"
#include "gemm.h"
#include "loads.h"
#include "prepack_args.h"

/* ---- gemm ------------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec spec_2d(const char *name, bool output, uint8_t dtype, int64_t rows, int64_t cols,
                                      int64_t ld)
{
    struct rfg_tensor_spec s = { .name = name,
                                 .output = output,
                                 .dtype = (rfg_dtype)dtype,
                                 .ndim = 2,
                                 .shape = { rows, cols },
                                 .row_stride = ld ? ld : cols,
                                 .align_key = output ? GEMM_ALIGN_Y : GEMM_ALIGN };
    return s;
}

/* x or y of a batch: [M,batch,cols], or, where a row has no room for all of the batch's, [batch,M,cols]. */
static bool by_rows(const struct rfg_problem *prob, int64_t cols, int64_t ld)
{
    return !ld || ld >= cols * prob->v[GEMM_BATCH];
}
static struct rfg_tensor_spec spec_batch(const struct rfg_problem *prob, const char *name, bool output, uint8_t dtype,
                                         int64_t cols, int64_t ld)
{
    int64_t m = prob->v[GEMM_M], batch = prob->v[GEMM_BATCH];
    if (!batch)
        return spec_2d(name, output, dtype, output ? gemm_y_rows(prob) : gemm_all_x_rows(prob), cols, ld);
    bool rows = by_rows(prob, cols, ld);
    struct rfg_tensor_spec s = spec_2d(name, output, dtype, rows ? m : batch * m, cols, ld);
    if (rows) {
        s.ndim = 3;
        s.shape[1] = batch;
        s.shape[2] = cols;
        s.row_stride = ld ? ld : batch * cols;
    }
    return s;
}
/* The view that the call is given: [M,batch,cols]. */
static rfg_tensor view_batch(const struct rfg_problem *prob, const rfg_tensor *t)
{
    rfg_tensor view = *t;
    if (t->ndim == 3 || !prob->v[GEMM_BATCH])
        return view;
    view.ndim = 3;
    view.shape[0] = prob->v[GEMM_M];
    view.shape[1] = prob->v[GEMM_BATCH];
    view.shape[2] = t->shape[1];
    view.strides[1] = prob->v[GEMM_M] * t->strides[0];
    view.strides[2] = 1;
    return view;
}
/* w's: [batch,N,K]. */
static rfg_tensor view_w(const struct rfg_problem *prob, const rfg_tensor *t)
{
    rfg_tensor view = *t;
    if (prob->v[GEMM_BATCH])
        view = (rfg_tensor){ t->data,
                             t->dtype,
                             3,
                             { prob->v[GEMM_BATCH], prob->v[GEMM_N], t->shape[1] },
                             { prob->v[GEMM_N] * t->strides[0], t->strides[0], 1 } };
    return view;
}

static struct rfg_tensor_spec scale_spec(const char *name, int64_t dtype, struct gemm_scale_shape s, int64_t per,
                                         bool columns)
{
    struct rfg_tensor_spec spec = rfg_rows_spec(name, (rfg_dtype)dtype, s.rows, s.cols, 1, 0, -1);
    if (per == RFG_GEMM_SCALE_TENSOR && s.rows == 1 && s.cols == 1)
        spec.ndim = 1;
    spec.column_major = columns && s.rows > 1 && s.cols > 1;
    spec.few_special = true;
    spec.absent = !dtype;
    return spec;
}

static struct rfg_tensor_spec list_spec(const char *name, rfg_dtype dtype, int64_t elements, bool there)
{
    return (struct rfg_tensor_spec){ .name = name,
                                     .dtype = dtype,
                                     .ndim = 1,
                                     .shape = { elements },
                                     .few_special = true,
                                     .absent = !there,
                                     .align_key = -1 };
}

/* Of a y of codes: some values saturate, most don't. Sums are of K products; codes and their scales are as large as
 * fill_codes() has them. */
static double y_scale(const struct rfg_problem *prob)
{
    double product = 1;
    for (int i = 0; i < 2; i++)
        product *= rfg_dtype_is_code(prob->dtype[i]) ? rfg_largest((rfg_dtype)prob->dtype[i]) / 8 : 1;
    return 0x1.23p0 * product * sqrt((double)prob->v[GEMM_K] + 1) / rfg_largest((rfg_dtype)prob->dtype[2]);
}

static int gemm_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    spec[0] = spec_batch(prob, "y", true, prob->dtype[2], gemm_y_cols(prob), v[GEMM_LDY]);
    spec[0].same_as = v[GEMM_INPLACE] ? 1 + 5 : 0;
    int64_t w_rows = gemm_w_rows(prob) * gemm_products(prob), experts = v[GEMM_EXPERTS];
    spec[1] = spec_batch(prob, "x", false, prob->dtype[0], v[GEMM_K], v[GEMM_LDX]);
    spec[2] = spec_2d("w", false, prob->dtype[1], w_rows, v[GEMM_K], v[GEMM_LDW]);
    if (v[GEMM_PREPACKED]) /* as 16 rows of W each */
        spec[2] = spec_2d("w", false, prob->dtype[1], w_rows / PREPACK_ROWS, gemm_w_cols(prob) * PREPACK_ROWS, 0);
    spec[3] = (struct rfg_tensor_spec){ .name = "bias",
                                        .dtype = gemm_bias_dtype(prob),
                                        .ndim = 1,
                                        .shape = { w_rows },
                                        .absent = !v[GEMM_BIAS],
                                        .align_key = GEMM_ALIGN_Y };
    int64_t groups = gemm_w_groups(prob);
    struct gemm_scale_shape of_w = { w_rows, groups };
    if (gemm_w_has_per(prob)) {
        of_w = gemm_w_scales(prob);
        of_w.rows *= experts ? experts : 1;
    }
    int64_t per = gemm_w_has_per(prob) ? v[GEMM_W_PER] : RFG_GEMM_SCALE_ROW; /* one group is a matrix, too */
    spec[4] = scale_spec("w_scale", v[GEMM_W_SCALE], of_w, per, v[GEMM_W_COLUMNS]);
    spec[4].ndim = experts && gemm_w_has_per(prob) && v[GEMM_W_PER] == RFG_GEMM_SCALE_TENSOR ? 1 : spec[4].ndim;
    spec[5] = spec_2d("residual", false, prob->dtype[2], gemm_y_rows(prob), v[GEMM_N], v[GEMM_LDR]);
    spec[5].absent = !v[GEMM_RESIDUAL];
    spec[5].align_key = GEMM_ALIGN_Y;
    spec[6] = scale_spec("x_scale", v[GEMM_X_SCALE], gemm_x_scales(prob), v[GEMM_X_PER], v[GEMM_X_COLUMNS]);
    spec[7] = rfg_rows_spec("w_zero", (rfg_dtype)v[GEMM_W_ZERO], w_rows, groups, 1, 0, -1);
    spec[7].absent = !v[GEMM_W_ZERO];
    for (int i = 4; i <= 7 && v[GEMM_PREPACKED] && gemm_w_is_4_bits(prob); i += 3) { /* of 16 rows each */
        spec[i].shape[0] /= PREPACK_ROWS;
        spec[i].row_stride = spec[i].shape[1] *= PREPACK_ROWS;
        spec[i].align_key = GEMM_ALIGN;
    }
    spec[8] = v[GEMM_IDS] ? list_spec("ids", RFG_I32, v[GEMM_M], true)
                          : list_spec("offsets", RFG_I32, experts + 1, experts != 0);
    spec[9] = list_spec("rows", RFG_I32, v[GEMM_M], v[GEMM_TOP] && !v[GEMM_IDS]);
    spec[10] = list_spec("weights", RFG_F32, v[GEMM_M], v[GEMM_WEIGHTS] != 0);
    spec[11] = list_spec("y_scale", RFG_F32, 1, gemm_y_is_codes(prob));
    if (gemm_y_is_codes(prob)) {
        spec[0].scaled_by = 1 + 11;
        spec[0].scale_group = INT64_MAX;
        spec[11].constant = y_scale(prob);
    }
    spec[12] = rfg_rows_spec("places", RFG_I32, gemm_y_rows(prob), v[GEMM_SLOTS], 1, 0, -1);
    spec[12].absent = !v[GEMM_SLOTS] || v[GEMM_IDS];
    spec[13] = list_spec("tokens", RFG_I32, 1, v[GEMM_TOKENS] != 0);
    spec[14] = list_spec("w_global", RFG_F32, experts ? experts : 1, v[GEMM_W_GLOBAL] != 0);
    return 15;
}

/* The expert of slot `slot` of a row of x that has others at chosen[0] to chosen[slot - 1]. */
static int64_t draw_expert(const struct rfg_problem *prob, const int64_t *chosen, int64_t slot, uint64_t *seed)
{
    int64_t experts = prob->v[GEMM_EXPERTS], e = 0;
    for (int tries = 0; tries < 64;
         tries++) { /* a row's are different ones, as routers choose them, if there are any */
        double u = (double)(rfg_random(seed) >> 11) * 0x1p-53;
        e = (int64_t)(u * (double)experts);
        if (prob->v[GEMM_ROUTING] == GEMM_ZIPF) /* about 1, 1/2, 1/3, ...: uniform in log e */
            e = (int64_t)pow((double)experts + 1, u) - 1;
        if (prob->v[GEMM_ROUTING] == GEMM_ONE)
            return experts / 2;
        bool again = false;
        for (int64_t i = 0; i < slot; i++)
            again |= chosen[i] == e;
        if (!again)
            break;
    }
    return e < experts ? e : experts - 1;
}

/* The expert of each row of y, for recorded loads: a token's are different ones, as long as no expert has more rows
 * than there are tokens. Tokens come in a drawn order, so that an expert's are scattered. */
static void deal(const struct rfg_problem *prob, int64_t *of, uint64_t *seed)
{
    int64_t m = prob->v[GEMM_M], tokens = gemm_x_rows(prob), top = prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1, e = 0;
    int64_t *share = gemm_loads_share(m), *order = malloc((size_t)tokens * sizeof(*order));
    if (!share || !order)
        abort(); /* a test's */
    for (int64_t t = 0; t < tokens; t++) {
        int64_t other = (int64_t)(rfg_random(seed) % (uint64_t)(t + 1));
        order[t] = order[other];
        order[other] = t;
    }
    for (int64_t slot = 0; slot < top; slot++)
        for (int64_t t = 0; t < tokens; t++) {
            int64_t row = order[t] * top + slot;
            if (row >= m)
                continue;
            while (!share[e])
                e++;
            of[row] = e;
            share[e]--;
        }
    free(order);
    free(share);
}

/* Rows of y by expert, those of x that they are made of in x's order; the same for each tensor. Of some data the first
 * and the last row are nobody's; special are rows of x and offsets that don't exist. */
static void route(const struct rfg_problem *prob, enum rfg_data data, int32_t *offsets, int32_t *rows)
{
    int64_t m = prob->v[GEMM_M], experts = prob->v[GEMM_EXPERTS], top = prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1;
    int64_t *of = malloc((size_t)(m + experts + 2) * sizeof(*of)), *next = of + m;
    uint64_t seed = (uint64_t)(m * 1000003 + experts * 1009 + top);
    if (!of)
        abort(); /* a test's */
    memset(next, 0, (size_t)(experts + 2) * sizeof(*next));
    if (gemm_is_recorded(prob) && m)
        deal(prob, of, &seed);
    for (int64_t i = 0; i < m && !gemm_is_recorded(prob); i++)
        of[i] = draw_expert(prob, of + i / top * top, top <= experts ? i % top : 0, &seed);
    for (int64_t i = 0; i < m; i++)
        next[of[i] + 1]++;
    for (int64_t e = 0; e < experts; e++)
        next[e + 1] += next[e];
    for (int64_t e = 0; e <= experts && offsets; e++) {
        int64_t at = next[e], nobodys = data == RFG_DATA_INTS && m > 2;
        offsets[e] = (int32_t)(at < nobodys ? nobodys : at > m - nobodys ? m - nobodys : at);
    }
    for (int64_t i = 0; i < m && rows; i++)
        rows[next[of[i]]++] = (int32_t)(i / top);
    if (data == RFG_DATA_SPECIAL && rows && m > 1) {
        rows[0] = -1;
        rows[m - 1] = INT32_MAX;
    }
    if (data == RFG_DATA_SPECIAL && offsets) {
        offsets[0] = INT32_MIN;
        offsets[experts] = INT32_MAX;
    }
    free(of);
}

/* Of each row its expert; of some data the first and the last row have none, or one that doesn't exist. */
static void fill_ids(const struct rfg_problem *prob, enum rfg_data data, int32_t *ids)
{
    int64_t m = prob->v[GEMM_M], experts = prob->v[GEMM_EXPERTS];
    int64_t top = prob->v[GEMM_SLOTS] ? prob->v[GEMM_SLOTS] : prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1;
    int64_t *of = malloc((size_t)(m + 1) * sizeof(*of));
    uint64_t seed = (uint64_t)(m * 1000003 + experts * 1009 + top);
    if (!of)
        abort(); /* a test's */
    for (int64_t i = 0; i < m; i++)
        ids[i] = (int32_t)(of[i] = draw_expert(prob, of + i / top * top, top <= experts ? i % top : 0, &seed));
    free(of);
    if ((data != RFG_DATA_INTS && data != RFG_DATA_SPECIAL) || !m)
        return;
    ids[0] = data == RFG_DATA_SPECIAL ? INT32_MIN : -1;
    ids[m - 1] = data == RFG_DATA_SPECIAL ? INT32_MAX : (int32_t)experts;
}

/* NaN scales of special data: of one row its first, of another its last, of a third any between; in 64 rows at least
 * one. Each spoils a row or a column of y, or, of blocks of W, the last columns: what would spoil all of y has none.
 * Scales behind K are none (fill_pad()). */
static void spoil_scales(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, uint64_t seed)
{
    bool packed = tensor == 4 && prob->v[GEMM_PREPACKED] && gemm_w_is_4_bits(prob), codes = gemm_w_has_per(prob);
    bool blocks = tensor == 4 && codes && prob->v[GEMM_W_PER] == RFG_GEMM_SCALE_BLOCK;
    int64_t rows = t->shape[0] * (packed ? PREPACK_ROWS : 1), cols = t->ndim == 2 ? t->shape[1] : 1;
    int64_t group = gemm_is_codes(prob) && !gemm_is_mx(prob) ? 0 : gemm_w_group(prob),
            groups = ceil_div(gemm_w_cols(prob), group ? group : 1);
    if (group)
        cols = ceil_div(prob->v[GEMM_K], group);
    if (rows < 2 || !cols)
        return;
    int64_t n = blocks ? 1 : rows < 9 ? 1 : rows / 64 < 3 ? 3 : rows / 64, first = rfg_random(&seed) % 3;
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = rfg_random(&seed);
        int64_t row = i * rows / n + (int64_t)(r % (uint64_t)((i + 1) * rows / n - i * rows / n));
        int64_t kind = (first + i) % 3, col = kind == 0   ? 0
                                              : kind == 1 ? cols - 1
                                                          : (int64_t)((r >> 32) % (uint64_t)cols);
        row = blocks ? rows - 1 : row;
        int64_t at = packed ? PREPACKED4_GROUP_AT(row, col, groups)
                            : row * t->strides[0] + (t->ndim == 2 ? col * t->strides[1] : 0);
        rfg_store(t->data, t->dtype, at, NAN);
    }
}

/* NaN and infinite codes, where there are such: in one row of 16, at least one of each. */
static void spoil_codes(const rfg_tensor *t, uint64_t seed)
{
    int64_t rows = t->shape[0], cols = t->shape[1], kinds = t->dtype == RFG_E5M2 ? 2 : 1;
    int64_t n = rows / 16 < kinds ? kinds : rows / 16;
    for (int64_t i = 0; i < n && rows >= n && cols; i++) {
        uint64_t r = rfg_random(&seed);
        int64_t row = i * rows / n + (int64_t)(r % (uint64_t)((i + 1) * rows / n - i * rows / n));
        int64_t at = row * t->strides[0] + (int64_t)((r >> 32) % (uint64_t)cols) * t->strides[1];
        uint8_t sign = (uint8_t)(r >> 24 & 128);
        ((uint8_t *)t->data)[at] = t->dtype == RFG_E4M3FNUZ ? 128 : sign | (i % kinds ? 0x7c : 0x7f);
    }
}

/* Every finite code there is, and scales as engines have them; special scales are zero or negative at times. (What an
 * infinite scale makes of a sum that has zeroes in it is not said.) */
static void fill_codes(const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t cols = t->ndim == 2 ? t->shape[1] : 1, elements = t->shape[0] * cols;
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = i / cols * t->strides[0] + (t->ndim == 2 ? i % cols * t->strides[1] : 0);
        uint64_t x = rfg_random(&seed);
        if (rfg_dtype_is_float(t->dtype)) {
            float odd = data == RFG_DATA_SPECIAL && x % 8 < 2 ? -(float)(x % 2) : 1;
            rfg_store(t->data, t->dtype, at, odd * ldexpf(1 + (float)(x >> 40) * 0x1p-24f, (int)(x >> 32) % 16 - 12));
        } else if (t->dtype == RFG_E8M0)
            ((uint8_t *)t->data)[at] = (uint8_t)(115 + (x >> 32) % 16);
        else if (t->dtype == RFG_E2M1) /* it is as it was drawn, of sixteen codes */
            return;
        else
            do
                ((uint8_t *)t->data)[at] = (uint8_t)((x = rfg_random(&seed)) >> 16);
            while (t->dtype != RFG_I8 && !isfinite(rfg_load(t->data, t->dtype, at)));
    }
}

/* Of groups of 4 bits, powers of two up to 2, as weights have them; of special data some are greater. Drawn as numbers,
 * half of them would be the smallest there is. None is infinite: see rfg/gemm.h. */
static void fill_group_scales(const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    int64_t n = t->shape[0] * t->shape[1];
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == RFG_E8M0)
            ((uint8_t *)t->data)[i] = (uint8_t)(122 + rfg_random(&seed) % (data == RFG_DATA_SPECIAL ? 14 : 7));
        else if (t->dtype == RFG_E4M3) /* any finite code: subnormals, negative ones, too */
            do
                ((uint8_t *)t->data)[i] = (uint8_t)(rfg_random(&seed) >> 16);
            while (isnan(rfg_load(t->data, t->dtype, i)));
        else if (isinf(rfg_load(t->data, t->dtype, i)))
            rfg_store(t->data, t->dtype, i, NAN);
}

/* Blocks that hold their scales: any codes, and scales as weights have them, some negative. Of special data a few are
 * infinite, NaN or 0. */
static void fill_blocks(const rfg_tensor *t, enum rfg_data data, uint64_t seed)
{
    const struct rfg_format *f = rfg_format((int)t->dtype);
    int64_t blocks = t->shape[1] / f->elements;
    static const double odd[] = { NAN, INFINITY, -INFINITY, 0, 0x1p-24 };
    for (int64_t i = 0; i < t->shape[0] * blocks; i++) {
        int64_t n = i / blocks;
        uint8_t *b = (uint8_t *)t->data + (n * t->strides[0] / f->elements + i % blocks) * f->bytes;
        for (int k = 0; k < f->bytes; k++)
            b[k] = (uint8_t)(rfg_random(&seed) >> 16);
        bool special = data == RFG_DATA_SPECIAL && rfg_random(&seed) % (uint64_t)(blocks * 8) == 0;
        const int at[] = { f->blocks->d, f->blocks->min };
        for (int k = 0; k < 2; k++) {
            uint64_t r = rfg_random(&seed);
            double v = special ? odd[r % 5] : ldexp(1 + (double)(r >> 44) * 0x1p-20, (int)(r % 6) - 9);
            if (at[k] >= 0)
                rfg_store(b + at[k], RFG_F16, 0, r >> 20 & 1 ? -v : v);
        }
        if (t->dtype == RFG_MXFP4)
            b[0] = (uint8_t)(118 + b[0] % 12);
    }
}

/* A prepacked W's columns beyond K have codes of 0; their scales and zero points are any finite ones. X's scales there
 * are NaN. */
static void fill_pad(const struct rfg_problem *prob, int tensor, const rfg_tensor *t)
{
    int64_t k = prob->v[GEMM_K], cols = gemm_w_cols(prob), group = gemm_w_group(prob), groups = cols / group;
    for (int64_t n = 0; n < t->shape[0] * PREPACK_ROWS && tensor == 2; n++)
        for (int64_t i = k; i < cols; i++)
            rfg_store(t->data, t->dtype, PREPACKED4_AT(n, i, cols), 0);
    for (int64_t n = 0; n < t->shape[0] * PREPACK_ROWS && tensor == 4; n++)
        for (int64_t g = ceil_div(k, group); g < groups; g++)
            rfg_store(t->data, t->dtype, PREPACKED4_GROUP_AT(n, g, groups), 2);
    for (int64_t m = 0; m < t->shape[0] && tensor == 6; m++)
        memset((uint8_t *)t->data + m * t->strides[0] + k / group, 255, (size_t)(groups - k / group));
}

/* Rows of the product in any order, some twice, one place in six beside them all; none that nobody makes:
 * see route(). */
static void fill_places(const struct rfg_problem *prob, enum rfg_data data, int32_t *places, uint64_t seed)
{
    int64_t m = prob->v[GEMM_M], nobodys = data == RFG_DATA_INTS && m > 2;
    const int64_t beside[] = { -1, m, INT32_MIN, INT32_MAX };
    for (int64_t i = 0; i < m; i++) {
        uint64_t r = rfg_random(&seed), which = r >> 8;
        places[i] =
            (int32_t)(r % 6 == 0 ? beside[which % 4] : nobodys + (int64_t)(which % (uint64_t)(m - 2 * nobodys)));
    }
}

static void gemm_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                      uint64_t seed)
{
    bool scales = tensor == 4 || tensor == 6, codes = tensor == 1 ? gemm_is_codes(prob) : gemm_w_has_per(prob);
    if (tensor == 2 && gemm_w_is_blocks(prob) && data != RFG_DATA_INTS)
        fill_blocks(t, data, seed);
    else if ((codes && (scales || tensor == 1 || tensor == 2)) || tensor == 14)
        fill_codes(t, data, seed);
    else if (tensor == 4 && prob->v[GEMM_W_SCALE])
        fill_group_scales(t, data, seed);
    else if (tensor == 8 && prob->v[GEMM_IDS])
        fill_ids(prob, data, t->data);
    else if (tensor == 8 || tensor == 9)
        route(prob, data, tensor == 8 ? t->data : NULL, tensor == 9 ? t->data : NULL);
    else if (tensor == 12 && !prob->v[GEMM_IDS])
        fill_places(prob, data, t->data, seed);
    else if (tensor == 13)
        *(int32_t *)t->data = (int32_t)(rfg_random(&seed) % 2 ? gemm_y_rows(prob) / 2 : gemm_y_rows(prob) - 1);
    if (gemm_w_is_padded(prob) && (tensor == 2 || scales))
        fill_pad(prob, tensor, t);
    if (data == RFG_DATA_SPECIAL && scales && t->data)
        spoil_scales(prob, tensor, t, ~seed);
    else if (data == RFG_DATA_SPECIAL && codes &&
             (t->dtype == RFG_E4M3 || t->dtype == RFG_E4M3FNUZ || t->dtype == RFG_E5M2))
        spoil_codes(t, ~seed);
    for (int64_t i = 0; tensor == 10 && i < t->shape[0]; i++) /* infinite ones, of sums that may be 0: not said */
        if (isinf(rfg_load(t->data, t->dtype, i)))
            rfg_store(t->data, t->dtype, i, NAN);
}

static rfg_status gemm_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_tensor y = view_batch(prob, &t[0]), x = view_batch(prob, &t[1]), w = view_w(prob, &t[2]);
    rfg_tensor w_scale = t[4], w_zero = t[7];
    if (prob->v[GEMM_PREPACKED]) {
        int64_t n = gemm_w_rows(prob), k = gemm_w_cols(prob);
        int64_t groups = gemm_is_mx(prob) ? k / GEMM_SCALE_GROUP : gemm_w_groups(prob);
        w = rfg_tensor_prepacked(w.data, w.dtype, n, k);
        if (gemm_w_is_4_bits(prob))
            w_scale = rfg_tensor_prepacked_groups(w_scale.data, w_scale.dtype, n, groups);
        w_zero = rfg_tensor_prepacked_groups(w_zero.data, w_zero.dtype, n, groups);
    }
    bool ids = prob->v[GEMM_IDS], slots = prob->v[GEMM_SLOTS];
    bool shorter = prob->v[GEMM_W_GROUP] && gemm_w_cols(prob) % prob->v[GEMM_W_GROUP];
    rfg_gemm_params p = { .size = sizeof(p),
                          .bias = prob->v[GEMM_BIAS] ? &t[3] : NULL,
                          .w_scale = prob->v[GEMM_W_SCALE] ? &w_scale : NULL,
                          .w_zero = prob->v[GEMM_W_ZERO] ? &w_zero : NULL,
                          .residual = prob->v[GEMM_RESIDUAL] && !prob->v[GEMM_SLOTS] ? &t[5] : NULL,
                          .gated = prob->v[GEMM_GATED] != 0,
                          .act = prob->v[GEMM_GATED] ? (rfg_act)(prob->v[GEMM_GATED] - 1) : RFG_ACT_SILU,
                          .x_scale = prob->v[GEMM_X_SCALE] ? &t[6] : NULL,
                          .x_per = (rfg_gemm_scale)prob->v[GEMM_X_PER],
                          .w_per = (rfg_gemm_scale)prob->v[GEMM_W_PER],
                          .fast_accum = (int)prob->v[GEMM_FAST],
                          .gates = (rfg_gates)prob->v[GEMM_GATES],
                          .offsets = prob->v[GEMM_EXPERTS] && !ids ? &t[8] : NULL,
                          .rows = prob->v[GEMM_TOP] && !ids ? &t[9] : NULL,
                          .weights = prob->v[GEMM_WEIGHTS] ? &t[10] : NULL,
                          .limit = (float)prob->v[GEMM_LIMIT],
                          .y_scale = gemm_y_is_codes(prob) ? &t[11] : NULL,
                          .w_global = prob->v[GEMM_W_GLOBAL] ? &t[14] : NULL,
                          .w_group = shorter ? prob->v[GEMM_W_GROUP] : 0 };
    struct rfg_gemm_sum sum = { ids ? NULL : &t[12],
                                slots && prob->v[GEMM_RESIDUAL] ? &t[5] : NULL,
                                prob->v[GEMM_TOKENS] ? &t[13] : NULL,
                                ids ? &t[8] : NULL,
                                prob->v[GEMM_EXPERTS],
                                slots               ? prob->v[GEMM_SLOTS]
                                : prob->v[GEMM_TOP] ? prob->v[GEMM_TOP]
                                                    : 1,
                                slots };
    return slots || ids ? rfg_gemm_sum(ctx, &y, &x, &w, &p, &sum, NULL, stream)
                        : rfg_op_gemm(ctx, &y, &x, &w, &p, stream);
}

/* One scale in a row or a column has no order. */
static void gemm_as_called(struct rfg_problem *prob)
{
    struct gemm_scale_shape x = gemm_x_scales(prob), w = gemm_w_scales(prob);
    struct rfg_gate_options gate = { .act = gemm_act(prob), .limit = (float)prob->v[GEMM_LIMIT] };
    prob->v[GEMM_LIMIT] = rfg_gate_limit_key(&gate);
    prob->v[GEMM_ROUTING] = GEMM_UNIFORM;
    if (prob->v[GEMM_TOP] && prob->v[GEMM_M]) { /* as many as it takes */
        int64_t rows = gemm_all_x_rows(prob);
        prob->v[GEMM_TOP] = ceil_div(prob->v[GEMM_M], rows);
        prob->v[GEMM_X_ROWS] = gemm_far_rows(rows, prob->v[GEMM_LDX] ? prob->v[GEMM_LDX] : prob->v[GEMM_K]);
    }
    for (int i = GEMM_LDX; i <= GEMM_LDY && prob->v[GEMM_BATCH]; i++) /* a single row has no stride */
        if (prob->v[i == GEMM_LDW ? GEMM_N : GEMM_M] == 1)
            prob->v[i] = 0;
    if (x.rows < 2 || x.cols < 2)
        prob->v[GEMM_X_COLUMNS] = 0;
    if (w.rows < 2 || w.cols < 2)
        prob->v[GEMM_W_COLUMNS] = 0;
}

static void scale_strides(const rfg_tensor *t, int64_t per, int *row, int *col)
{
    *row = per == RFG_GEMM_SCALE_TENSOR ? 0 : (int)t->strides[0];
    *col = per >= RFG_GEMM_SCALE_BLOCK ? (int)t->strides[1] : 0;
}

static void gemm_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct gemm_args *a = kargs;
    memset(a, 0, sizeof(*a));
    a->y = t[0].data;
    a->x = t[1].data;
    a->w = t[2].data;
    a->bias = prob->v[GEMM_BIAS] ? t[3].data : NULL;
    a->w_scale = prob->v[GEMM_W_SCALE] ? t[4].data : NULL;
    a->w_zero = prob->v[GEMM_W_ZERO] ? t[7].data : prob->v[GEMM_W_GLOBAL] ? t[14].data : NULL;
    a->residual = prob->v[GEMM_RESIDUAL] ? t[5].data : NULL;
    a->x_scale = prob->v[GEMM_X_SCALE] ? t[6].data : NULL;
    scale_strides(&t[6], prob->v[GEMM_X_SCALE] ? prob->v[GEMM_X_PER] : 0, &a->x_scale_row, &a->x_scale_col);
    scale_strides(&t[4], gemm_w_has_per(prob) ? prob->v[GEMM_W_PER] : 0, &a->w_scale_row, &a->w_scale_col);
    if (gemm_is_mx(prob) && prob->v[GEMM_PREPACKED])
        a->w_scale_row = (int)(gemm_w_cols(prob) / GEMM_SCALE_GROUP);
    a->ldr = prob->v[GEMM_RESIDUAL] ? t[5].strides[0] : 0;
    a->ldy = t[0].strides[0];
    a->ldx = t[1].strides[0];
    a->ldw = prob->v[GEMM_PREPACKED] ? gemm_w_cols(prob) : t[2].strides[0];
    struct rfg_gate gate = rfg_gate_in(gemm_act(prob), prob->v[GEMM_LIMIT]);
    a->alpha = gate.alpha;
    a->limit = gate.limit;
    a->linear_beta = gate.linear_beta;
    a->offsets = prob->v[GEMM_EXPERTS] ? t[8].data : NULL;
    a->rows = prob->v[GEMM_TOP] && !prob->v[GEMM_IDS] ? t[9].data : NULL;
    a->weights = prob->v[GEMM_WEIGHTS] ? t[10].data : NULL;
    a->y_scale = gemm_y_is_codes(prob) ? t[11].data : NULL;
    a->experts = (int32_t)prob->v[GEMM_EXPERTS];
    a->x_rows = (int32_t)gemm_all_x_rows(prob);
    a->x_each = (int32_t)(prob->v[GEMM_TOP] ? prob->v[GEMM_TOP] : 1);
    a->w_expert_scales = (int)gemm_expert_scales(prob, a->w_scale_row);
    a->m = (int32_t)prob->v[GEMM_M];
    a->n = (int32_t)prob->v[GEMM_N];
    a->k = (int32_t)prob->v[GEMM_K];
    a->places = prob->v[GEMM_SLOTS] && !prob->v[GEMM_IDS] ? t[12].data : NULL;
    a->tokens = prob->v[GEMM_TOKENS] ? t[13].data : NULL;
    a->top = (int32_t)prob->v[GEMM_SLOTS];
    if (prob->v[GEMM_BATCH]) {
        a->y_batch = view_batch(prob, &t[0]).strides[1];
        a->x_batch = view_batch(prob, &t[1]).strides[1];
        a->w_batch = view_w(prob, &t[2]).strides[0];
    }
}

const struct rfg_op_case rfg_op_case_gemm = {
    .can_make = gemm_loads_fit,
    .tensors = gemm_tensors,
    .call = gemm_call,
    .pack = gemm_pack,
    .oracle = rfg_oracle_gemm,
    .fill = gemm_fill,
    .as_called = gemm_as_called,
};

/* ---- gemm_prepack ----------------------------------------------------------------------------------------------- */

static int prepack_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    /* The destination as 16 rows of W each. */
    spec[0] = (struct rfg_tensor_spec){ .name = "dst",
                                        .output = true,
                                        .dtype = (rfg_dtype)prob->dtype[1],
                                        .ndim = 2,
                                        .shape = { v[PREPACK_N] / PREPACK_ROWS, prepack_dst_cols(prob) * PREPACK_ROWS },
                                        .row_stride = prepack_dst_cols(prob) * PREPACK_ROWS,
                                        .exact = true,
                                        .align_key = -1 };
    spec[1] = (struct rfg_tensor_spec){ .name = "src",
                                        .dtype = (rfg_dtype)prob->dtype[0],
                                        .ndim = 2,
                                        .shape = { v[PREPACK_N], v[PREPACK_K] },
                                        .row_stride = v[PREPACK_LD] ? v[PREPACK_LD] : v[PREPACK_K],
                                        .align_key = -1 };
    return 2;
}

static rfg_status prepack_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    int64_t n = prob->v[PREPACK_N], k = prepack_dst_cols(prob);
    rfg_tensor dst = prob->v[PREPACK_GROUPS] ? rfg_tensor_prepacked_groups(t[0].data, t[0].dtype, n, k)
                                             : rfg_tensor_prepacked(t[0].data, t[0].dtype, n, k);
    return rfg_gemm_prepack(ctx, &dst, &t[1], stream);
}

static void prepack_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct prepack_args *a = kargs;
    *a = (struct prepack_args){ .dst = t[0].data,
                                .src = t[1].data,
                                .n = (int)prob->v[PREPACK_N],
                                .k = (int)prob->v[PREPACK_K],
                                .ld = t[1].strides[0] };
}

const struct rfg_op_case rfg_op_case_gemm_prepack = {
    .tensors = prepack_tensors,
    .call = prepack_call,
    .pack = prepack_pack,
    .oracle = rfg_oracle_gemm_prepack,
};
