/* SPDX-License-Identifier: MIT
 *
 * The gemm operator: its public function, its argument rules and its table. Variants are in cpu.c, gpu.c, vendor.c. */
#include "gemm.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ops/gates.h"
#include "ops/operand.h"
#include "ops/params.h"
#include "loads.h"
#include "rfg/gemm.h"

#define MAX_SIZE RFG_MAX_SIZE

static const char *const btype_names[] = { "x" }, *const none[] = { "none" };
static const char *const per_names[] = { "tensor", "row", "block", "group" }; /* enum rfg_gemm_scale */
static const char *const act_names[] = {
    "none", "silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai"
};                                                                                   /* as rfg_act + 1 */
static const char *const routing_names[] = { "uniform", "zipf", "one", "recorded" }; /* enum gemm_routing */
#define GATED_LAST (RFG_ACT_SWIGLUOAI + 1)
#define MAX_LIMIT  10000
#define ANY_HALF   (1u << RFG_F16 | 1u << RFG_BF16)
#define ANY_FLOAT  (1u << RFG_F32 | ANY_HALF)

static const struct rfg_key gemm_keys[GEMM_NKEYS] = {
    [GEMM_M] = { "M", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "rows of x and y" },
    [GEMM_N] = { "N", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "rows of w; columns of y, twice those with an act" },
    [GEMM_K] = { "K", RFG_KEY_SIZE, 0, 0, MAX_SIZE, NULL, "columns of x and w" },
    [GEMM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a bias" },
    [GEMM_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, btype_names,
                     "dtype of the bias: x's, or f32 with a 16-bit x; with codes always said: f32 or y's",
                     1u << RFG_F32 | 1u << RFG_F16 | 1u << RFG_BF16 },
    [GEMM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a residual, of y's dtype, is added" },
    [GEMM_GATED] = { "act", RFG_KEY_ATTR, 0, 0, GATED_LAST, act_names,
                     "rows of w are gate's and up's, y is act(gate) up" },
    [GEMM_LIMIT] = { "limit", RFG_KEY_ATTR, 0, 0, MAX_LIMIT, NULL, "the act's limit of gate and up; 0: swigluoai 7" },
    [GEMM_GATES] = RFG_KEY_GATES("with an act, how gate's and up's rows of w lie"),
    [GEMM_EXPERTS] = { "experts", RFG_KEY_ATTR, 0, 0, GEMM_MAX_EXPERTS, NULL,
                       "of a grouped product: experts, each with N rows of w" },
    [GEMM_TOP] = { "top", RFG_KEY_ATTR, 0, 0, MAX_SIZE, NULL,
                   "of it: x has M / top rows, each read that often; 0: M, in y's order" },
    [GEMM_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "of it, 1: rows of y have weights" },
    [GEMM_ROUTING] = { "routing", RFG_KEY_ATTR, 0, 0, GEMM_RECORDED, routing_names,
                       "of it, of which experts rows are (for timing); calls don't tell" },
    [GEMM_SLOTS] = { "slots", RFG_KEY_ATTR, 0, 0, GEMM_MAX_SLOTS, NULL,
                     "of it: rows that are summed to one of y (and of the residual): y has M / slots; 0: none" },
    [GEMM_W_SCALE] = { "w_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                       "dtype of w's scales, of a w that has any", ANY_FLOAT | 1u << RFG_E8M0 },
    [GEMM_W_ZERO] = { "w_zero", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                      "dtype of w's zero points, of a w that may have any", 1u << RFG_I8 },
    [GEMM_W_GROUP] = { "w_group", RFG_KEY_ATTR, 0, 0, MAX_SIZE, NULL,
                       "columns of w that share a scale and a zero point" },
    [GEMM_X_SCALE] = { "x_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none, "dtype of the scales of x, of codes",
                       1u << RFG_F32 | 1u << RFG_E8M0 },
    [GEMM_X_PER] = { "x_per", RFG_KEY_ATTR, 0, 0, RFG_GEMM_SCALE_GROUP, per_names,
                     "what of x, of codes, shares a scale; a block is 1 x 128, a group 1 x 32" },
    [GEMM_W_PER] = { "w_per", RFG_KEY_ATTR, 0, 0, RFG_GEMM_SCALE_GROUP, per_names,
                     "what of w, of codes, shares a scale; a block is 128 x 128, a group 1 x 32" },
    [GEMM_FAST] = { "fast", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: sums of 128 columns of fp8 may have about 14 bits" },
    [GEMM_PREPACKED] = { "packed", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: w is prepacked" },
    [GEMM_LDX] = { "ldx", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of x to the next; 0: they follow one another" },
    [GEMM_LDW] = { "ldw", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of w to the next; 0: they follow one another" },
    [GEMM_LDY] = { "ldy", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of y to the next; 0: they follow one another" },
    [GEMM_LDR] = { "ldr", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_STRIDE, NULL,
                   "elements from a row of the residual to the next; 0: they follow one another" },
    [GEMM_X_COLUMNS] = { "x_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL,
                         "1: x's scales of blocks or groups are column-major" },
    [GEMM_W_COLUMNS] = { "w_columns", RFG_KEY_LAYOUT, 0, 0, 1, NULL,
                         "1: w's scales of blocks or groups are column-major" },
    [GEMM_INPLACE] = { "inplace", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "1: y is the residual" },
    [GEMM_TOKENS] = { "tokens", RFG_KEY_LAYOUT, 0, 0, 1, NULL, "with slots, 1: device memory says how many count" },
    [GEMM_X_ROWS] = { "x_rows", RFG_KEY_LAYOUT, 0, 0, MAX_SIZE, NULL,
                      "with top, rows of an x of 2 GiB or more, up to a power of two; 0: M / top, or x is smaller" },
    [GEMM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of x and w are multiples" },
    [GEMM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of y and bias are multiples" },
    [GEMM_INVARIANT] = RFG_KEY_INVARIANT,
    [GEMM_OVERLAP] = RFG_KEY_OVERLAP,
};

static const struct rfg_op_operand gemm_operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "w", false, RFG_FORMAT_LISTED, 1, 0 },
    { "y", true, RFG_FORMAT_LISTED, 2, 0 },
    { "bias", false, RFG_FORMAT_KEYED, GEMM_BTYPE, 1 },
    { "w_scale", false, RFG_FORMAT_KEYED, GEMM_W_SCALE, 0 },
    { "w_zero", false, RFG_FORMAT_KEYED, GEMM_W_ZERO, 0 },
    { "residual", false, RFG_FORMAT_AS, 2, 0 },
    { "x_scale", false, RFG_FORMAT_KEYED, GEMM_X_SCALE, 0 },
    { "offsets", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "rows", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "weights", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "y_scale", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
    { "places", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
    { "tokens", false, RFG_FORMAT_ALWAYS, RFG_I32, 0 },
};

/* Ends with one of no format. */
static const struct gemm_w_format w_formats[] = {
    { RFG_I4, ANY_HALF, ANY_FLOAT, true, 32 },
    { RFG_E2M1, ANY_HALF, 1u << RFG_E8M0, false, 32 },
    { RFG_DTYPE_NONE, 0, 0, false, 0 },
};

const struct gemm_w_format *gemm_w_format(const struct rfg_problem *prob)
{
    const struct gemm_w_format *f = w_formats;
    while (f->w && (f->w != prob->dtype[1] || !(f->x >> prob->dtype[0] & 1)))
        f++;
    return f->w ? f : NULL;
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

bool gemm_reads_plain(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!is_float(prob, 0, why) || !is_float(prob, 1, why))
        return false;
    return prob->dtype[0] == prob->dtype[1] ||
           rfg_refuse(why, "dtype of w is %s: must be x's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                      rfg_dtype_name((rfg_dtype)prob->dtype[0]));
}

bool gemm_has_loader(const struct rfg_problem *prob, struct rfg_reason *why)
{
    bool a8w4 = prob->dtype[0] == RFG_E4M3 && prob->dtype[1] == RFG_E2M1; /* codes_valid() has its rules */
    if (gemm_is_codes(prob) && prob->dtype[0] != prob->dtype[1] && !a8w4)
        return rfg_refuse(why, "dtype of w is %s: must be x's, %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    return gemm_is_codes(prob) || gemm_w_format(prob) || gemm_reads_plain(prob, why);
}

/* What is said of mx formats: codes with scales of groups on both sides. */
static bool mx_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    const char *x_per = per_names[v[GEMM_X_PER]], *w_per = per_names[v[GEMM_W_PER]];
    rfg_dtype x = (rfg_dtype)prob->dtype[0], w = (rfg_dtype)prob->dtype[1];
    if (v[GEMM_X_PER] != RFG_GEMM_SCALE_GROUP || v[GEMM_W_PER] != RFG_GEMM_SCALE_GROUP)
        return rfg_refuse(why, "x_per=%s, w_per=%s: must both be group%s, x is %s, w %s", x_per, w_per,
                          w == RFG_E2M1 ? "" : ", or neither", rfg_dtype_name(x), rfg_dtype_name(w));
    if (x != RFG_E4M3 && x != RFG_E2M1)
        return rfg_refuse(why, "x_per=group: x is %s: must be e4m3 or e2m1", rfg_dtype_name(x));
    if (v[GEMM_X_SCALE] != RFG_E8M0 || v[GEMM_W_SCALE] != RFG_E8M0)
        return rfg_refuse(why, "x_scale=%s, w_scale=%s: must be e8m0 with x_per=group",
                          v[GEMM_X_SCALE] ? rfg_dtype_name((rfg_dtype)v[GEMM_X_SCALE]) : "none",
                          v[GEMM_W_SCALE] ? rfg_dtype_name((rfg_dtype)v[GEMM_W_SCALE]) : "none");
    if (v[GEMM_K] % GEMM_SCALE_GROUP)
        return rfg_refuse(why, "K=%" PRId64 ": must be a multiple of %d with x_per=group", v[GEMM_K], GEMM_SCALE_GROUP);
    if (v[GEMM_FAST])
        return rfg_refuse(why, "fast=1: must be 0 with x_per=group");
    if ((x == RFG_E2M1 && v[GEMM_LDX] % 2) || (w == RFG_E2M1 && v[GEMM_LDW] % 2))
        return rfg_refuse(why, "ldx=%" PRId64 ", ldw=%" PRId64 ": must be even, of e2m1", v[GEMM_LDX], v[GEMM_LDW]);
    if (v[GEMM_PREPACKED] && (v[GEMM_X_COLUMNS] || v[GEMM_W_COLUMNS]))
        return rfg_refuse(why, "x_columns=%" PRId64 ", w_columns=%" PRId64 ": must be 0, w is prepacked",
                          v[GEMM_X_COLUMNS], v[GEMM_W_COLUMNS]);
    return true;
}

/* The scales that codes may have. */
static bool codes_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t x = v[GEMM_X_SCALE], w = v[GEMM_W_SCALE];
    const char *x_name = rfg_dtype_name((rfg_dtype)x), *w_name = rfg_dtype_name((rfg_dtype)w);
    if (w && w != RFG_F32 && w != RFG_E8M0)
        return rfg_refuse(why, "w_scale=%s: must be f32 or e8m0, w is %s", w_name,
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    if (x && w && x != w)
        return rfg_refuse(why, "x_scale=%s, w_scale=%s: must be of one dtype", x_name, w_name);
    if ((!x && v[GEMM_X_PER]) || (!w && v[GEMM_W_PER]))
        return rfg_refuse(why, "x_per=%s, w_per=%s: x_scale=%s, w_scale=%s: without scales must be tensor",
                          per_names[v[GEMM_X_PER]], per_names[v[GEMM_W_PER]], x ? x_name : "none", w ? w_name : "none");
    if (v[GEMM_X_PER] == RFG_GEMM_SCALE_GROUP || v[GEMM_W_PER] == RFG_GEMM_SCALE_GROUP || prob->dtype[1] == RFG_E2M1) {
        if (!mx_valid(prob, why))
            return false;
    } else if ((v[GEMM_X_PER] == RFG_GEMM_SCALE_BLOCK) != (v[GEMM_W_PER] == RFG_GEMM_SCALE_BLOCK))
        return rfg_refuse(why, "x_per=%s, w_per=%s: must both be block, or neither", per_names[v[GEMM_X_PER]],
                          per_names[v[GEMM_W_PER]]);
    if (v[GEMM_W_GROUP])
        return rfg_refuse(why, "w_group=%" PRId64 ": must be 0, w is %s", v[GEMM_W_GROUP],
                          rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    return true;
}

bool gemm_ends_plain(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (!gemm_has_one_w(prob, why))
        return false;
    if (prob->v[GEMM_RESIDUAL])
        return rfg_refuse(why, "residual=1: it adds none");
    return !prob->v[GEMM_GATED] || rfg_refuse(why, "act=%s: it has none", act_names[prob->v[GEMM_GATED]]);
}

/* The scales and columns that W's format asks for. */
static bool w_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->v[GEMM_FAST] && !gemm_is_fp8(prob))
        return rfg_refuse(why, "fast=1: must be 0, x is %s, no fp8", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    const struct gemm_w_format *f = gemm_w_format(prob);
    rfg_dtype w = (rfg_dtype)prob->dtype[1];
    if (prob->v[GEMM_W_ZERO] && !(f && f->zeros))
        return rfg_refuse(why, "w_zero=%s: must be none, w is %s", rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_ZERO]),
                          rfg_dtype_name(w));
    if (gemm_is_codes(prob))
        return codes_valid(prob, why);
    if (prob->v[GEMM_X_SCALE] || prob->v[GEMM_X_PER] || prob->v[GEMM_W_PER])
        return rfg_refuse(why, "x_scale=%s, x_per=%s, w_per=%s: x is %s: has none",
                          rfg_dtype_name((rfg_dtype)prob->v[GEMM_X_SCALE]), per_names[prob->v[GEMM_X_PER]],
                          per_names[prob->v[GEMM_W_PER]], rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    rfg_dtype scale = (rfg_dtype)prob->v[GEMM_W_SCALE];
    uint32_t scales = f && f->w_scale ? f->w_scale : 1u << RFG_DTYPE_NONE;
    if (!(scales >> scale & 1))
        return rfg_refuse(why, "w_scale=%s: must be %s, w is %s", rfg_dtype_name(scale),
                          scales == ANY_FLOAT ? "f32, f16 or bf16" : rfg_dtype_name((rfg_dtype)__builtin_ctz(scales)),
                          rfg_dtype_name(w));
    int64_t k = prob->v[GEMM_K], group = prob->v[GEMM_W_GROUP], ldw = prob->v[GEMM_LDW];
    int least = f ? f->group : 0, block = rfg_format((int)w)->elements;
    if (least ? group < least || group % least || k % group : group != 0)
        return least ? rfg_refuse(why,
                                  "w_group=%" PRId64 ": must be a multiple of %d that divides K=%" PRId64 ", w is %s",
                                  group, least, k, rfg_dtype_name(w))
                     : rfg_refuse(why, "w_group=%" PRId64 ": must be 0, w has no scales", group);
    if (k % block || ldw % block)
        return rfg_refuse(why, "K=%" PRId64 ", ldw=%" PRId64 ": must be whole blocks of %s, %d elements", k, ldw,
                          rfg_dtype_name(w), block);
    return true;
}

/* Grouped products, and activations. */
static bool experts_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t experts = v[GEMM_EXPERTS];
    if (!v[GEMM_GATED] && (v[GEMM_LIMIT] || v[GEMM_GATES]))
        return rfg_refuse(why, "limit=%" PRId64 ", gates=%s: must be left out without an act", v[GEMM_LIMIT],
                          RFG_GATES_NAMES[v[GEMM_GATES]]);
    if (gemm_halves(prob) && v[GEMM_PREPACKED])
        return rfg_refuse(why, "gates=halves: must be interleaved, w is prepacked");
    if (v[GEMM_X_ROWS] && (!v[GEMM_TOP] || v[GEMM_X_ROWS] < gemm_x_rows(prob)))
        return rfg_refuse(why, "x_rows=%" PRId64 ", top=%" PRId64 ": must be 0 without top, else at least M / top",
                          v[GEMM_X_ROWS], v[GEMM_TOP]);
    if (!experts && (v[GEMM_TOP] || v[GEMM_WEIGHTS] || v[GEMM_ROUTING]))
        return rfg_refuse(why, "top=%" PRId64 ", weights=%" PRId64 ", routing=%s: experts is 0", v[GEMM_TOP],
                          v[GEMM_WEIGHTS], routing_names[v[GEMM_ROUTING]]);
    if (!experts)
        return true;
    if (v[GEMM_RESIDUAL] && !v[GEMM_SLOTS])
        return rfg_refuse(why, "residual=1: must be 0 with experts=%" PRId64, experts);
    if (v[GEMM_LDW] || v[GEMM_W_COLUMNS])
        return rfg_refuse(why, "ldw=%" PRId64 ", w_columns=%" PRId64 ": must be 0 with experts=%" PRId64, v[GEMM_LDW],
                          v[GEMM_W_COLUMNS], experts);
    if (v[GEMM_PREPACKED] && v[GEMM_N] % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d, w is prepacked", v[GEMM_N], PREPACK_ROWS);
    return v[GEMM_N] * experts <= MAX_SIZE ||
           rfg_refuse(why, "experts=%" PRId64 ", N=%" PRId64 ": must be at most %d rows of w", experts, v[GEMM_N],
                      MAX_SIZE);
}

static bool y_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const char *y = rfg_dtype_name((rfg_dtype)prob->dtype[2]);
    if (!gemm_y_is_codes(prob) && !rfg_dtype_is_float(prob->dtype[2]))
        return rfg_refuse(why, "dtype of y is %s: must be bf16, f16 or f32, or e4m3, e4m3fnuz, e5m2 or i8", y);
    return !gemm_y_is_codes(prob) || !prob->v[GEMM_RESIDUAL] || rfg_refuse(why, "residual=1: must be 0, y is %s", y);
}

static bool gemm_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    if (!gemm_has_loader(prob, why) || !w_valid(prob, why) || !experts_valid(prob, why) || !y_valid(prob, why) ||
        !gemm_slots_valid(prob, why))
        return false;
    if (gemm_is_codes(prob) && v[GEMM_BIAS] && v[GEMM_BTYPE] != RFG_F32 && v[GEMM_BTYPE] != prob->dtype[2])
        return rfg_refuse(why, "btype=%s: must be f32 or y's dtype, x is %s",
                          v[GEMM_BTYPE] ? rfg_dtype_name((rfg_dtype)v[GEMM_BTYPE]) : "x",
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (!gemm_is_codes(prob) && v[GEMM_BTYPE] && v[GEMM_BTYPE] != RFG_F32)
        return rfg_refuse(why, "btype=%s: must be f32, or not said", rfg_dtype_name((rfg_dtype)v[GEMM_BTYPE]));
    if ((v[GEMM_X_COLUMNS] || v[GEMM_W_COLUMNS]) && gemm_scales(prob) < GEMM_SCALES_BLOCKS)
        return rfg_refuse(why, "x_columns=%" PRId64 ", w_columns=%" PRId64 ": x_per and w_per must be block or group",
                          v[GEMM_X_COLUMNS], v[GEMM_W_COLUMNS]);
    if (v[GEMM_BTYPE] && (!v[GEMM_BIAS] || prob->dtype[0] == RFG_F32))
        return rfg_refuse(why,
                          v[GEMM_BIAS] ? "btype=f32: is what it is without, x is f32" : "btype=f32: there is no bias");
    if ((v[GEMM_LDX] && v[GEMM_LDX] < v[GEMM_K]) || (v[GEMM_LDW] && v[GEMM_LDW] < v[GEMM_K]))
        return rfg_refuse(why, "ldx=%" PRId64 ", ldw=%" PRId64 ": must be at least K=%" PRId64, v[GEMM_LDX],
                          v[GEMM_LDW], v[GEMM_K]);
    if (v[GEMM_PREPACKED] && v[GEMM_LDW])
        return rfg_refuse(why, "ldw=%" PRId64 ": must be 0 with packed=1", v[GEMM_LDW]);
    if (v[GEMM_PREPACKED] && !prepack_valid(v[GEMM_N], v[GEMM_K], prob->dtype[1], why))
        return false;
    if (gemm_w_is_padded(prob) && gemm_w_group(prob) != PREPACK4_CHUNK)
        return rfg_refuse(why,
                          "K=%" PRId64 ", w_group=%" PRId64 ": K must be a multiple of %d, or the group %d, packed",
                          v[GEMM_K], v[GEMM_W_GROUP], PREPACK4_COLS, PREPACK4_CHUNK);
    if (v[GEMM_GATED] && v[GEMM_N] % 2)
        return rfg_refuse(why, "N=%" PRId64 ": must be even with act=%s", v[GEMM_N], act_names[v[GEMM_GATED]]);
    if (v[GEMM_GATED] && v[GEMM_RESIDUAL])
        return rfg_refuse(why, "act=%s: has no residual", act_names[v[GEMM_GATED]]);
    int64_t cols = gemm_y_cols(prob);
    if ((v[GEMM_LDY] && v[GEMM_LDY] < cols) || (v[GEMM_LDR] && v[GEMM_LDR] < cols))
        return rfg_refuse(why, "ldy=%" PRId64 ", ldr=%" PRId64 ": must be at least y's columns, %" PRId64, v[GEMM_LDY],
                          v[GEMM_LDR], cols);
    if ((v[GEMM_LDR] || v[GEMM_INPLACE]) && !v[GEMM_RESIDUAL])
        return rfg_refuse(why, "ldr=%" PRId64 ", inplace=%" PRId64 ": there is no residual", v[GEMM_LDR],
                          v[GEMM_INPLACE]);
    if (v[GEMM_INPLACE] && v[GEMM_LDR] != v[GEMM_LDY])
        return rfg_refuse(why, "inplace=1: needs ldr=ldy");
    for (int i = GEMM_ALIGN; i <= GEMM_ALIGN_Y; i++)
        if (v[i] & (v[i] - 1))
            return rfg_refuse(why, "%s=%" PRId64 ": must be a power of two", gemm_keys[i].name, v[i]);
    return true;
}

/* A batch of decode, and a chunk of prefill, whose rows are summed by another launch. */
static void gemm_at_size(struct rfg_problem *prob, bool large)
{
    prob->v[GEMM_M] = large ? 4096 : 16;
    if (prob->v[GEMM_SLOTS])
        prob->v[GEMM_SLOTS] = prob->v[GEMM_TOKENS] = prob->v[GEMM_RESIDUAL] = prob->v[GEMM_INPLACE] =
            prob->v[GEMM_LDR] = 0;
}

/* ---- the public function ------------------------------------------------------------------------------------ */

#define FN "rfg_op_gemm"
RFG_PARAMS_END(rfg_gemm_params, y_scale);

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

/* Scales of codes of `name`, of which there are s: as a matrix in the order in which `turned` has them; *columns: that
 * is by columns. */
static rfg_status check_scales(struct rfg_operand *os, const char *name, const rfg_tensor *t, int64_t per,
                               struct gemm_scale_shape s, rfg_tensor *turned, bool *columns)
{
    rfg_status st;
    bool one = t->ndim == 1;
    *columns = rfg_turn_columns(turned, t);
    if (one && per == RFG_GEMM_SCALE_ROW) { /* as a column */
        turned->ndim = 2;
        turned->shape[1] = turned->strides[1] = 1;
    }
    if ((st = rfg_check_operand(os, FN, name, turned, 1, 2)))
        return st;
    int64_t rows = *columns ? os->cols : os->rows, cols = *columns ? os->rows : os->cols;
    if (rows != s.rows || cols != s.cols || (one && per >= RFG_GEMM_SCALE_BLOCK) ||
        (!one && per == RFG_GEMM_SCALE_TENSOR))
        return BAD("%s has %d dimensions, %" PRId64 " x %" PRId64 ": must be %s%" PRId64 " x %" PRId64 "%s (per %s)",
                   name, t->ndim, rows, cols, per == RFG_GEMM_SCALE_TENSOR ? "[1], " : "", s.rows, s.cols,
                   per >= RFG_GEMM_SCALE_BLOCK ? ", of two dimensions" : "", per_names[per]);
    return RFG_OK;
}

/* Scales, or zero points, of W: one for each group. A prepacked W's have three dimensions. */
static rfg_status check_groups(const struct rfg_operand *o, const struct rfg_operand *w, int64_t group)
{
    const int64_t *s = o->t->shape;
    if (w->t->ndim == 5)
        return s[0] == w->rows / PREPACK_ROWS && s[1] * group == w->cols && s[2] == PREPACK_ROWS &&
                       (o->rows == 0 || (o->ld == o->cols && o->inner == 1))
                   ? RFG_OK
                   : BAD("%s is %" PRId64 " x %" PRId64 " x %" PRId64
                         ": must be [N/16,K/group,16], packed, w is prepacked, %" PRId64 " x %" PRId64,
                         o->name, s[0], s[1], s[2], w->rows, w->cols);
    return o->rows == w->rows && o->cols * group == w->cols && o->ld == o->cols
               ? RFG_OK
               : BAD("%s is %" PRId64 " x %" PRId64 ", rows %" PRId64
                     " apart: must be [N,K/group], packed, w is %" PRId64 " x %" PRId64,
                     o->name, o->rows, o->cols, o->ld, w->rows, w->cols);
}

struct scales {
    struct rfg_operand ox, ow;
    rfg_tensor x, w;
    bool x_columns, w_columns;
};

/* With a prepacked w: its scales are, too, and kernels read four of x's at once. */
static rfg_status check_packed_mx(const rfg_gemm_params *p, const struct rfg_operand *w, struct scales *s)
{
    rfg_status st;
    if (s->x_columns || s->ox.bits % 4)
        return BAD("x_scale is at %p, rows of %" PRId64
                   " elements%s: both must be multiples of 4, row-major, w is prepacked",
                   p->x_scale->data, s->ox.ld, s->x_columns ? ", column-major" : "");
    if ((st = rfg_check_operand(&s->ow, FN, "w_scale", p->w_scale, 3, 3)))
        return st;
    return check_groups(&s->ow, w, GEMM_SCALE_GROUP);
}

/* Codes and their scales. */
static rfg_status check_codes(struct rfg_problem *prob, const rfg_gemm_params *p, int64_t x_rows,
                              const struct rfg_operand *w, struct scales *s)
{
    struct rfg_reason why;
    rfg_status st;
    if ((int)p->x_per < 0 || p->x_per > RFG_GEMM_SCALE_GROUP || (int)p->w_per < 0 || p->w_per > RFG_GEMM_SCALE_GROUP)
        return BAD("x_per is %d, w_per %d: must be RFG_GEMM_SCALE_TENSOR, ROW, BLOCK or GROUP", (int)p->x_per,
                   (int)p->w_per);
    prob->v[GEMM_X_SCALE] = p->x_scale ? p->x_scale->dtype : RFG_DTYPE_NONE;
    prob->v[GEMM_X_PER] = p->x_per;
    prob->v[GEMM_W_PER] = p->w_per;
    if (p->x_scale && p->x_scale->dtype != RFG_F32 && p->x_scale->dtype != RFG_E8M0)
        return BAD("x_scale is %s: must be f32 or e8m0", rfg_dtype_name(p->x_scale->dtype));
    if (!gemm_has_loader(prob, &why) || !w_valid(prob, &why))
        return BAD("%s", why.text);
    struct gemm_scale_shape of_x = gemm_x_scales(prob), of_w = gemm_w_scales(prob);
    if (p->x_per != RFG_GEMM_SCALE_TENSOR)
        of_x.rows = x_rows;
    int64_t experts = prob->v[GEMM_EXPERTS] ? prob->v[GEMM_EXPERTS] : 1;
    *(p->w_per == RFG_GEMM_SCALE_TENSOR ? &of_w.cols : &of_w.rows) *= experts;
    if (p->x_scale && (st = check_scales(&s->ox, "x_scale", p->x_scale, p->x_per, of_x, &s->x, &s->x_columns)))
        return st;
    if (w->t->ndim == 5)
        return check_packed_mx(p, w, s);
    if (p->w_scale && (st = check_scales(&s->ow, "w_scale", p->w_scale, p->w_per, of_w, &s->w, &s->w_columns)))
        return st;
    if (s->w_columns && p->offsets)
        return BAD("w_scale is column-major: must be row-major with offsets");
    prob->v[GEMM_X_COLUMNS] = s->x_columns;
    prob->v[GEMM_W_COLUMNS] = s->w_columns;
    return RFG_OK;
}

/* Elements from a scale to the next row's and the next column's. */
static void scale_strides(const struct rfg_operand *o, bool columns, int64_t per, int *row, int *col)
{
    *row = per == RFG_GEMM_SCALE_TENSOR ? 0 : columns ? 1 : (int)o->ld;
    *col = per >= RFG_GEMM_SCALE_BLOCK ? columns ? (int)o->ld : 1 : 0;
}

/* Kernels count in 32 bits: scales of groups from the first row to the last, and an expert's. */
static rfg_status check_spans(const struct rfg_problem *prob, const struct scales *s, const struct gemm_args *a)
{
    int64_t of_w = gemm_expert_scales(prob, a->w_scale_row), of_x = s->ox.rows * a->x_scale_row;
    bool mx = gemm_is_mx(prob);
    if (mx && of_x > INT32_MAX)
        return BAD("x_scale has %" PRId64 " rows, %d apart: must span at most %d scales", s->ox.rows, a->x_scale_row,
                   INT32_MAX);
    if ((mx || prob->v[GEMM_EXPERTS]) && of_w > INT32_MAX)
        return BAD("w_scale has %" PRId64 " rows%s, %d apart: must span at most %d scales", gemm_w_scales(prob).rows,
                   prob->v[GEMM_EXPERTS] ? " of an expert" : "", a->w_scale_row, INT32_MAX);
    return RFG_OK;
}

/* W, its scales and zero points, if its format has any, go with each other and with x. Fills in how they are grouped.
 */
static rfg_status check_w(struct rfg_problem *prob, const struct rfg_operand *w, const rfg_tensor *w_scale,
                          struct rfg_operand *os, const rfg_tensor *w_zero, struct rfg_operand *oz)
{
    const struct gemm_w_format *f = gemm_w_format(prob);
    struct rfg_reason why;
    rfg_status st;
    if (prob->dtype[1] != prob->dtype[0] && !f)
        return BAD("x is %s, w %s: must be of one dtype", rfg_dtype_name((rfg_dtype)prob->dtype[0]),
                   rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    int dims = w->t->ndim == 5 ? 3 : 2;
    if ((w_scale && (st = rfg_check_operand(os, FN, "w_scale", w_scale, dims, dims))) ||
        (w_zero && (st = rfg_check_operand(oz, FN, "w_zero", w_zero, dims, dims))))
        return st;
    if (w_scale)
        prob->v[GEMM_W_GROUP] = w_scale->shape[1] ? w->cols / w_scale->shape[1] : f ? f->group : 0;
    if (!w_valid(prob, &why))
        return BAD("%s", why.text);
    if (w_zero && w_zero->dtype != RFG_I8)
        return BAD("w_zero is %s: must be i8", rfg_dtype_name(w_zero->dtype));
    if ((w_scale && (st = check_groups(os, w, prob->v[GEMM_W_GROUP]))) ||
        (w_zero && (st = check_groups(oz, w, prob->v[GEMM_W_GROUP]))))
        return st;
    return RFG_OK;
}

/* [E,N,K] as [E N,K], [E,N] as [E N], where they follow one another. */
static const rfg_tensor *stacked(rfg_tensor *flat, const rfg_tensor *t, int dims)
{
    if (!t || t->ndim != dims + 1 || t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > MAX_SIZE / t->shape[1] ||
        t->strides[1] < 0 || t->strides[1] > RFG_MAX_STRIDE ||
        (t->shape[0] > 1 && t->strides[0] != t->shape[1] * t->strides[1]))
        return t;
    *flat = *t;
    flat->ndim = dims;
    flat->shape[0] = t->shape[0] * t->shape[1];
    flat->strides[0] = t->strides[1];
    flat->shape[1] = t->shape[2];
    flat->strides[1] = t->strides[2];
    return flat;
}

/* What a grouped product has beside others. */
struct groups {
    rfg_tensor w, w_scale, w_zero, bias;
    struct rfg_operand offsets, rows, weights;
};

static rfg_status check_list(struct rfg_operand *o, const char *name, const rfg_tensor *t, rfg_dtype dtype)
{
    rfg_status st = rfg_check_operand(o, FN, name, t, 1, 1);
    return st ? st : rfg_check_operand_dtype(o, FN, dtype, "");
}

/* Makes *p those of a product with one w, of all experts' rows. */
static rfg_status check_experts(rfg_gemm_params *p, const rfg_tensor **w, struct groups *g)
{
    rfg_status st;
    if (!p->offsets)
        return p->rows || p->weights ? BAD("%s is given: must be NULL, offsets is NULL", p->rows ? "rows" : "weights")
                                     : RFG_OK;
    if ((st = check_list(&g->offsets, "offsets", p->offsets, RFG_I32)) ||
        (p->rows && (st = check_list(&g->rows, "rows", p->rows, RFG_I32))) ||
        (p->weights && (st = check_list(&g->weights, "weights", p->weights, RFG_F32))))
        return st;
    if (g->offsets.cols < 2 || g->offsets.cols > GEMM_MAX_EXPERTS + 1)
        return BAD("offsets has %" PRId64 " elements: must have one more than there are experts, 1 to %d",
                   g->offsets.cols, GEMM_MAX_EXPERTS);
    if (p->residual)
        return BAD("residual is given: must be NULL with offsets");
    *w = stacked(&g->w, *w, 2);
    p->bias = stacked(&g->bias, p->bias, 1);
    if (*w && (*w)->ndim != 5)
        p->w_zero = stacked(&g->w_zero, p->w_zero, 2);
    if (p->w_scale && (*w)->ndim != 5)
        p->w_scale = stacked(&g->w_scale, p->w_scale, p->w_per == RFG_GEMM_SCALE_ROW && p->w_scale->ndim == 2 ? 1 : 2);
    return RFG_OK;
}

/* Places and tokens of rows that are summed. */
static rfg_status check_sum(const struct rfg_gemm_sum *sum, struct rfg_operand *places, struct rfg_operand *tokens)
{
    rfg_status st;
    if ((st = rfg_check_operand(places, FN, "places", sum->places, 2, 2)) ||
        (st = rfg_check_operand_dtype(places, FN, RFG_I32, "")) ||
        (sum->tokens && (st = check_list(tokens, "tokens", sum->tokens, RFG_I32))))
        return st;
    if (places->cols < 1 || places->cols > GEMM_MAX_SLOTS || places->ld != places->cols)
        return BAD("places is %" PRId64 " x %" PRId64 ", rows %" PRId64 " apart: must be [T,k], packed, k at most %d",
                   places->rows, places->cols, places->ld, GEMM_MAX_SLOTS);
    return !sum->tokens || tokens->cols == 1 ? RFG_OK
                                             : BAD("tokens has %" PRId64 " elements: must be [1]", tokens->cols);
}

static rfg_status check_x(const rfg_tensor *x)
{
    return rfg_dtype_is_float(x->dtype) || rfg_dtype_is_code(x->dtype) || x->dtype == RFG_E2M1
               ? RFG_OK
               : BAD("x is %s: must be bf16, f16 or f32, or e4m3, e4m3fnuz, e5m2, i8 or e2m1",
                     rfg_dtype_name(x->dtype));
}

rfg_status rfg_gemm_sum(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                        const rfg_gemm_params *params, const struct rfg_gemm_sum *sum, bool *taken, rfg_stream stream)
{
    struct rfg_operand oy, ox, ow, ob = { 0 }, os = { 0 }, oz = { 0 }, or = { 0 }, oq = { 0 };
    struct rfg_operand places = { 0 }, tokens = { 0 };
    struct scales codes = { .ox = { .name = NULL } };
    struct groups g = { .w = { .data = NULL } };
    rfg_gemm_params p = RFG_GEMM_PARAMS_INIT;
    rfg_status st;
    if (!ctx)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_op_gemm: ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_gemm_params, &p, params)))
        return st;
    if ((st = check_experts(&p, &w, &g)) || (sum && (st = check_sum(sum, &places, &tokens))))
        return st;
    p.residual = sum ? sum->residual : p.residual;
    int64_t slots = sum ? places.cols : 0;
    const rfg_tensor *bias = p.bias, *w_scale = p.w_scale, *w_zero = p.w_zero, *residual = p.residual;
    bool prepacked = w && w->ndim == 5;
    if ((st = rfg_check_operand(&ox, FN, "x", x, 2, 2)) || (st = check_x(x)) ||
        (st = rfg_check_operand(&oy, FN, "y", y, 2, 2)) ||
        (st = prepacked ? prepack_operand(&ow, FN, "w", w) : rfg_check_operand(&ow, FN, "w", w, 2, 2)) ||
        (bias && (st = rfg_check_float_operand(&ob, FN, "bias", bias, 1, 1))) ||
        (residual && (st = rfg_check_float_operand(& or, FN, "residual", residual, 2, 2))) ||
        (p.y_scale && (st = check_list(&oq, "y_scale", p.y_scale, RFG_F32))))
        return st;
    int halves = p.gated ? 2 : 1; /* W's rows a column of Y */
    int64_t experts = p.offsets ? g.offsets.cols - 1 : 0;
    int64_t m = sum ? oy.rows * slots : oy.rows; /* rows of the product */
    int64_t y_rows = p.rows ? g.rows.cols : ox.rows, w_rows = oy.cols * halves * (experts ? experts : 1);
    int64_t w_cols = prepacked && rfg_dtype_is_4_bits(w->dtype) ? PREPACKED4_COLS(ox.cols) : ox.cols;
    bool fit = y_rows == m && (!sum || places.rows == oy.rows) && ow.rows == w_rows && ow.cols == w_cols &&
               (!bias || ob.cols == ow.rows);
    if (!fit || (experts && p.weights && g.weights.cols != m)) {
        struct rfg_sizes_said said = { "", "" };
        rfg_say_size(&said, "bias", bias ? &ob : NULL, experts ? "[E N]" : "[N]");
        rfg_say_size(&said, "rows", p.rows ? &g.rows : NULL, "[M]");
        rfg_say_size(&said, "weights", p.weights ? &g.weights : NULL, "[M]");
        rfg_say_size(&said, "offsets", experts ? &g.offsets : NULL, "[E+1]");
        return BAD("y is %" PRId64 " x %" PRId64 ", x %" PRId64 " x %" PRId64 ", w %" PRId64 " x %" PRId64
                   "%s: must be %s, [M,K]%s, %s%s%s",
                   oy.rows, oy.cols, ox.rows, ox.cols, ow.rows, ow.cols, said.sizes,
                   sum       ? "[M/k,N] (places [M/k,k])"
                   : p.gated ? "[M,N/2] (gated)"
                             : "[M,N]",
                   experts ? " (with rows any)" : "", experts ? "[E N,K]" : "[N,K]",
                   w_cols > ox.cols ? " (K padded to a multiple of 128)" : "", said.rules);
    }
    if (residual && (or.rows != oy.rows || or.cols != oy.cols || residual->dtype != y->dtype))
        return BAD("residual is %s, %" PRId64 " x %" PRId64 ": must be as y, %s, %" PRId64 " x %" PRId64,
                   rfg_dtype_name(residual->dtype), or.rows, or.cols, rfg_dtype_name(y->dtype), oy.rows, oy.cols);
    if (p.gated && ((int)p.act < 0 || (int)p.act >= GATED_LAST))
        return BAD("act is %d: must be silu, gelu, gelu_tanh, relu, relu2 or swigluoai", (int)p.act);
    if ((unsigned)p.gates > RFG_GATES_INTERLEAVED)
        return BAD("gates is %d: " RFG_GATES_RULE, (int)p.gates);
    if (!p.gated && (p.act || p.gates || p.limit != 0 || p.alpha != 0))
        return BAD("act is %d, gates %d, limit %g, alpha %g: must be 0, it is not gated", (int)p.act, (int)p.gates,
                   (double)p.limit, (double)p.alpha);
    if (!(p.limit >= 0 && p.limit <= MAX_LIMIT))
        return BAD("limit is %g: must be from 0 to %d", (double)p.limit, MAX_LIMIT);
    if (p.alpha != 0 && p.act != RFG_ACT_SWIGLUOAI)
        return BAD("alpha is %g: must be 0, act is not swigluoai", (double)p.alpha);
    if (p.gated && p.gates == RFG_GATES_HALVES && prepacked)
        return BAD("gates is RFG_GATES_HALVES and w prepacked: must be interleaved before it is prepacked, by "
                   "rfg_pack_gate_up(..., RFG_GATES_INTERLEAVED), and gates say so");
    if (p.rows && ox.rows == 0 && m)
        return BAD("x has no rows: must have those that rows says, %" PRId64, m);
    if (p.gated && residual)
        return BAD("gated, with a residual: must be one of them");
    struct rfg_problem prob = { .op = &rfg_op_gemm_desc,
                                .dtype = { (uint8_t)x->dtype, (uint8_t)w->dtype, (uint8_t)y->dtype } };
    struct rfg_reason why;
    prob.v[GEMM_PREPACKED] = prepacked, prob.v[GEMM_RESIDUAL] = residual != NULL;
    if (!y_valid(&prob, &why))
        return BAD("%s", why.text);
    if (gemm_y_is_codes(&prob) ? !p.y_scale || oq.cols != 1 : p.y_scale != NULL)
        return BAD("y is %s, y_scale %s: must be %s", rfg_dtype_name(y->dtype),
                   !p.y_scale     ? "NULL"
                   : oq.cols == 1 ? "[1]"
                                  : "longer than [1]",
                   gemm_y_is_codes(&prob) ? "[1]" : "NULL");
    prob.v[GEMM_M] = m;
    prob.v[GEMM_N] = oy.cols * halves;
    prob.v[GEMM_K] = ox.cols;
    prob.v[GEMM_EXPERTS] = experts;
    prob.v[GEMM_TOP] = p.rows && m ? ceil_div(m, ox.rows) : 0;
    prob.v[GEMM_WEIGHTS] = p.weights != NULL;
    prob.v[GEMM_W_SCALE] = w_scale ? w_scale->dtype : RFG_DTYPE_NONE;
    prob.v[GEMM_W_ZERO] = w_zero ? w_zero->dtype : RFG_DTYPE_NONE;
    bool is_codes = gemm_is_codes(&prob);
    rfg_dtype like = gemm_bias_like(&prob);
    if (!is_codes && (p.x_scale || p.x_per || p.w_per))
        return BAD("x_scale is %s, x_per %d, w_per %d: must be NULL, 0 and 0, x is %s", p.x_scale ? "given" : "NULL",
                   (int)p.x_per, (int)p.w_per, rfg_dtype_name(x->dtype));
    if (p.fast_accum && !gemm_is_fp8(&prob))
        return BAD("fast_accum is %d: must be 0, x is %s, no fp8", p.fast_accum, rfg_dtype_name(x->dtype));
    prob.v[GEMM_FAST] = p.fast_accum != 0;
    if (is_codes) {
        if (prepacked && w->dtype != RFG_E2M1)
            return BAD("w is prepacked: must be plain, x is %s", rfg_dtype_name(x->dtype));
        if ((st = check_codes(&prob, &p, ox.rows, &ow, &codes)))
            return st;
        os = codes.ow;
    } else if ((w->dtype != x->dtype || w_scale || w_zero) && (st = check_w(&prob, &ow, w_scale, &os, w_zero, &oz))) {
        return st;
    }
    if (bias && bias->dtype != like && bias->dtype != RFG_F32)
        return like == RFG_F32 ? BAD("bias is %s: must be f32", rfg_dtype_name(bias->dtype))
                               : BAD("bias is %s: must be %s dtype, %s, or f32", rfg_dtype_name(bias->dtype),
                                     is_codes ? "y's" : "x's", rfg_dtype_name(like));
    if (oy.rows == 0 || oy.cols == 0)
        return RFG_OK;
    if ((st = rfg_check_overlap(FN, &oy, &ox, false)) || (st = rfg_check_overlap(FN, &oy, &ow, false)) ||
        (bias && (st = rfg_check_overlap(FN, &oy, &ob, false))) ||
        (w_scale && (st = rfg_check_overlap(FN, &oy, &os, false))) ||
        (p.x_scale && (st = rfg_check_overlap(FN, &oy, &codes.ox, false))) ||
        (w_zero && (st = rfg_check_overlap(FN, &oy, &oz, false))) ||
        (residual && (st = rfg_check_overlap(FN, &oy, & or, true))) ||
        (experts && (st = rfg_check_overlap(FN, &oy, &g.offsets, false))) ||
        (p.rows && (st = rfg_check_overlap(FN, &oy, &g.rows, false))) ||
        (p.weights && (st = rfg_check_overlap(FN, &oy, &g.weights, false))) ||
        (p.y_scale && (st = rfg_check_overlap(FN, &oy, &oq, false))) ||
        (sum && (st = rfg_check_overlap(FN, &oy, &places, false))) ||
        (tokens.t && (st = rfg_check_overlap(FN, &oy, &tokens, false))))
        return st;
    if (experts && ow.ld != ow.cols)
        return BAD("w has row stride %" PRId64 ": must be packed with offsets, %" PRId64, ow.ld, ow.cols);

    prob.v[GEMM_BIAS] = bias != NULL;
    prob.v[GEMM_BTYPE] = bias && (is_codes || bias->dtype != like) ? bias->dtype : RFG_DTYPE_NONE;
    prob.v[GEMM_GATED] = p.gated ? (int)p.act + 1 : 0;
    bool limited = p.limit != 0 && !(p.act == RFG_ACT_SWIGLUOAI && p.limit == GEMM_DEFAULT_LIMIT);
    prob.v[GEMM_LIMIT] = limited ? (int64_t)ceilf(p.limit) : 0;
    prob.v[GEMM_GATES] = p.gates;
    prob.v[GEMM_LDR] = or.ld == or.cols ? 0 : or.ld;
    prob.v[GEMM_INPLACE] = residual && or.begin == oy.begin;
    prob.v[GEMM_LDX] = ox.ld == ox.cols ? 0 : ox.ld;
    prob.v[GEMM_LDW] = ow.ld == ow.cols ? 0 : ow.ld;
    prob.v[GEMM_X_ROWS] = prob.v[GEMM_TOP] ? gemm_far_rows(ox.rows, ox.ld) : 0;
    prob.v[GEMM_LDY] = oy.ld == oy.cols ? 0 : oy.ld;
    prob.v[GEMM_ALIGN] = rfg_alignment(ox.bits | ow.bits | (prepacked ? os.bits | oz.bits : 0));
    prob.v[GEMM_ALIGN_Y] = rfg_alignment(oy.bits | ob.bits | (sum ? or.bits : 0));
    prob.v[GEMM_SLOTS] = slots;
    prob.v[GEMM_TOKENS] = tokens.t != NULL;
    if (!gemm_slots_valid(&prob, &why))
        return BAD("%s", why.text);
    if (taken && !(*taken = rfg_dispatch_offers(ctx, &prob, &gemm_stream_mma)))
        return RFG_OK;

    struct gemm_args a = { .y = y->data,
                           .x = x->data,
                           .w = w->data,
                           .bias = bias ? bias->data : NULL,
                           .ldx = ox.ld,
                           .ldw = ow.ld,
                           .ldy = oy.ld,
                           .m = (int32_t)m,
                           .n = (int32_t)prob.v[GEMM_N],
                           .k = (int32_t)ox.cols,
                           .w_scale = w_scale ? w_scale->data : NULL,
                           .residual = residual ? residual->data : NULL,
                           .ldr = or.ld,
                           .x_scale = p.x_scale ? p.x_scale->data : NULL,
                           .w_zero = w_zero ? w_zero->data : NULL,
                           .alpha = p.alpha != 0 ? p.alpha : GEMM_DEFAULT_ALPHA,
                           .limit = p.limit != 0 ? p.limit : GEMM_DEFAULT_LIMIT,
                           .offsets = experts ? p.offsets->data : NULL,
                           .rows = p.rows ? p.rows->data : NULL,
                           .weights = p.weights ? p.weights->data : NULL,
                           .experts = (int32_t)experts,
                           .x_rows = (int32_t)ox.rows,
                           .y_scale = p.y_scale ? p.y_scale->data : NULL,
                           .places = sum ? sum->places->data : NULL,
                           .tokens = tokens.t ? tokens.t->data : NULL,
                           .top = (int32_t)slots };
    scale_strides(&codes.ox, codes.x_columns, p.x_per, &a.x_scale_row, &a.x_scale_col);
    scale_strides(&codes.ow, codes.w_columns, p.w_per, &a.w_scale_row, &a.w_scale_col);
    if (is_codes && prepacked) /* as it was before */
        a.w_scale_row = (int)(gemm_w_cols(&prob) / GEMM_SCALE_GROUP);
    if (is_codes && (st = check_spans(&prob, &codes, &a)))
        return st;
    a.w_expert_scales = (int32_t)gemm_expert_scales(&prob, a.w_scale_row);
    return rfg_dispatch(ctx, &prob, &a, stream);
}

rfg_status rfg_op_gemm(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *x, const rfg_tensor *w,
                       const rfg_gemm_params *params, rfg_stream stream)
{
    return rfg_gemm_sum(ctx, y, x, w, params, NULL, NULL, stream);
}

/* Ties in the model go to the earlier one; the portable ones come last. */
static const struct rfg_variant *const gemm_variants[] = {
    &gemm_stream_mma,     &gemm_thin_mma, &gemm_w4_mma,     &gemm_wgmma,      &gemm_tile_wgmma,   &gemm_tile64_wgmma,
    &gemm_skinny_mma_asm, &gemm_skinny,   &gemm_tile,       &gemm_splitk_mma, &gemm_cublaslt,     &gemm_hipblaslt,
    &gemm_rocblas,        &gemm_portable, &gemm_cpu_avx512, &gemm_cpu_avx2,   &gemm_cpu_portable,
};

const struct rfg_op rfg_op_gemm_desc = {
    .name = "gemm",
    .id = 1,
    .n_in = 2,
    .n_out = 1,
    .n_operands = sizeof(gemm_operands) / sizeof(gemm_operands[0]),
    .operands = gemm_operands,
    .n_keys = GEMM_NKEYS,
    .keys = gemm_keys,
    .column_key = { "M", "N", "K" },
    .n_variants = sizeof(gemm_variants) / sizeof(gemm_variants[0]),
    .variants = gemm_variants,
    .kargs_size = sizeof(struct gemm_args),
    .head = offsetof(struct gemm_args, workspace),
    .at_size = gemm_at_size,
    .row_key = gemm_row_key,
    .is_recorded = gemm_is_recorded,
    .valid = gemm_valid,
    .cost = gemm_cost,
};
