/* SPDX-License-Identifier: MIT
 *
 * The gemm operator: its keys, its rules and its table. The public function is in call.c. */
#include "gemm.h"

#include <inttypes.h>

#include "ops/gates.h"
#include "ops/operand.h"
#include "loads.h"
#include "rfg/gemm.h"

static const char *const btype_names[] = { "x" }, *const none[] = { "none" };
static const char *const per_names[] = { "tensor", "row", "block", "group" };        /* enum rfg_gemm_scale */
static const char *const act_names[] = { "none", RFG_ACT_NAMES };                    /* as rfg_act + 1 */
static const char *const routing_names[] = { "uniform", "zipf", "one", "recorded" }; /* enum gemm_routing */

static const struct rfg_key gemm_keys[GEMM_NKEYS] = {
    [GEMM_M] = { "M", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of x and y" },
    [GEMM_N] = { "N", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "rows of w; columns of y, twice those with an act" },
    [GEMM_K] = { "K", RFG_KEY_SIZE, 0, 0, RFG_MAX_SIZE, NULL, "columns of x and w" },
    [GEMM_BATCH] = { "batch", RFG_KEY_ATTR, 0, 0, GEMM_MAX_BATCH, NULL,
                     "products, each with its own x, w and y; 0: one, of matrices" },
    [GEMM_BIAS] = { "bias", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: there is a bias" },
    [GEMM_BTYPE] = { "btype", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, btype_names,
                     "dtype of the bias: x's, or f32 with a 16-bit x; with codes always said: f32 or y's",
                     RFG_FLOAT_FORMATS },
    [GEMM_RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: a residual, of y's dtype, is added" },
    [GEMM_GATED] = { "act", RFG_KEY_ATTR, 0, 0, RFG_LAST_GATE + 1, act_names,
                     "rows of w are gate's and up's, y is act(gate) up" },
    [GEMM_LIMIT] = RFG_KEY_LIMIT,
    [GEMM_GATES] = RFG_KEY_GATES("with an act, how gate's and up's rows of w lie"),
    [GEMM_EXPERTS] = { "experts", RFG_KEY_ATTR, 0, 0, GEMM_MAX_EXPERTS, NULL,
                       "of a grouped product: experts, each with N rows of w" },
    [GEMM_TOP] = { "top", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,
                   "of it: x has M / top rows, each read that often; 0: M, in y's order" },
    [GEMM_WEIGHTS] = { "weights", RFG_KEY_ATTR, 0, 0, 1, NULL, "of it, 1: rows of y have weights" },
    [GEMM_ROUTING] = { "routing", RFG_KEY_ATTR, 0, 0, GEMM_RECORDED, routing_names,
                       "of it, of which experts rows are (for timing); calls don't tell" },
    [GEMM_SLOTS] = { "slots", RFG_KEY_ATTR, 0, 0, GEMM_MAX_SLOTS, NULL,
                     "of it: rows that are summed to one of y (and of the residual): y has M / slots; 0: none" },
    [GEMM_IDS] = { "ids", RFG_KEY_ATTR, 0, 0, 1, NULL,
                   "of it, 1: the expert of each row of y is said, in any order; row i is of x's row i / top" },
    [GEMM_W_SCALE] = { "w_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                       "dtype of w's scales, of a w that has any",
                       RFG_FLOAT_FORMATS | 1u << RFG_E8M0 | 1u << RFG_E4M3 },
    [GEMM_W_ZERO] = { "w_zero", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none,
                      "dtype of w's zero points, of a w that may have any", 1u << RFG_I8 },
    [GEMM_W_GROUP] = { "w_group", RFG_KEY_ATTR, 0, 0, RFG_MAX_SIZE, NULL,
                       "columns of w that share a scale and a zero point; of an 8-bit w with w_per=group" },
    [GEMM_W_GLOBAL] = { "w_global", RFG_KEY_ATTR, 0, 0, 1, NULL,
                        "1: w's scales, of e4m3, are multiplied by one of the tensor" },
    [GEMM_X_SCALE] = { "x_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none, "dtype of the scales of x, of codes",
                       1u << RFG_F32 | 1u << RFG_E8M0 },
    [GEMM_X_PER] = { "x_per", RFG_KEY_ATTR, 0, 0, RFG_GEMM_SCALE_GROUP, per_names,
                     "what of x, of codes, shares a scale; a block is 1 x 128, a group 1 x 32" },
    [GEMM_W_PER] = { "w_per", RFG_KEY_ATTR, 0, 0, RFG_GEMM_SCALE_GROUP, per_names,
                     "what of w, of codes, shares a scale; a block is 128 x 128, a group 1 x 32 or w_group" },
    [GEMM_FAST] = { "fast", RFG_KEY_ATTR, 0, 0, 1, NULL,
                    "1: sums of 128 columns of fp8 may have about 14 bits; x may be rounded to q8_1 beside a w of "
                    "blocks with scales" },
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
    [GEMM_X_ROWS] = { "x_rows", RFG_KEY_LAYOUT, 0, 0, RFG_MAX_SIZE, NULL,
                      "with top, rows of an x of 2 GiB or more, up to a power of two; 0: M / top, or x is smaller" },
    [GEMM_ALIGN] = { "align", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                     "bytes, up to 16, of which pointers and row strides of x and w are multiples" },
    [GEMM_ALIGN_Y] = { "align_y", RFG_KEY_LAYOUT, 16, 1, 16, NULL,
                       "bytes, up to 16, of which pointers and row strides of y and bias are multiples" },
    [GEMM_INVARIANT] = RFG_KEY_INVARIANT,
    [GEMM_OVERLAP] = RFG_KEY_OVERLAP,
};

const char *gemm_per_name(int64_t per)
{
    return per_names[per];
}

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
    { "w_global", false, RFG_FORMAT_ALWAYS, RFG_F32, 0 },
};

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
    if (v[GEMM_PREPACKED] && rfg_dtype_is_code(prob->dtype[1]))
        return rfg_refuse(why, "packed=1: must be 0, x and w are %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]));
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

/* Those of a w of codes beside an x of 16 bits. */
static bool scales_8_valid(const struct rfg_problem *prob, const struct gemm_w_format *f, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t group = v[GEMM_W_GROUP], k = v[GEMM_K];
    const char *w = rfg_dtype_name(f->w), *per = per_names[v[GEMM_W_PER]];
    rfg_dtype scale = (rfg_dtype)v[GEMM_W_SCALE];
    if (v[GEMM_X_COLUMNS])
        return rfg_refuse(why, "x_columns=1: must be 0, x has no scales");
    if (!scale && v[GEMM_W_PER])
        return rfg_refuse(why, "w_per=%s: must be tensor, w_scale is none", per);
    if ((v[GEMM_W_PER] == RFG_GEMM_SCALE_GROUP) != (group != 0))
        return rfg_refuse(why, "w_per=%s, w_group=%" PRId64 ": w_group must be said with group alone, w is %s", per,
                          group, w);
    return !group || (group >= f->group && group % f->group == 0 && k % group == 0) ||
           rfg_refuse(why, "w_group=%" PRId64 ": must be a multiple of %d that divides K=%" PRId64 ", w is %s", group,
                      f->group, k, w);
}

/* The scales and columns that W's format asks for. */
static bool w_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    if (prob->v[GEMM_FAST] && !gemm_is_fp8(prob) && !gemm_w_is_blocks(prob))
        return rfg_refuse(why, "fast=1: must be 0, x is %s, no fp8", rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    const struct gemm_w_format *f = gemm_w_format(prob);
    rfg_dtype w = (rfg_dtype)prob->dtype[1];
    if (prob->v[GEMM_W_ZERO] && !(f && f->zeros))
        return rfg_refuse(why, "w_zero=%s: must be none, w is %s", rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_ZERO]),
                          rfg_dtype_name(w));
    if (prob->v[GEMM_W_GLOBAL] && (gemm_is_codes(prob) || !(f && f->read == GEMM_READ_NVFP4)))
        return rfg_refuse(why, "w_global=1: must be 0, x is %s, w %s, w_scale=%s: is of nvfp4",
                          rfg_dtype_name((rfg_dtype)prob->dtype[0]), rfg_dtype_name(w),
                          prob->v[GEMM_W_SCALE] ? rfg_dtype_name((rfg_dtype)prob->v[GEMM_W_SCALE]) : "none");
    if (gemm_is_codes(prob))
        return codes_valid(prob, why);
    if (prob->v[GEMM_X_SCALE] || prob->v[GEMM_X_PER] || (prob->v[GEMM_W_PER] && !gemm_format_has_per(f)))
        return rfg_refuse(why, "x_scale=%s, x_per=%s, w_per=%s: x is %s: has none",
                          rfg_dtype_name((rfg_dtype)prob->v[GEMM_X_SCALE]), per_names[prob->v[GEMM_X_PER]],
                          per_names[prob->v[GEMM_W_PER]], rfg_dtype_name((rfg_dtype)prob->dtype[0]));
    if (!gemm_w_scale_valid(prob, why))
        return false;
    if (gemm_format_has_per(f))
        return scales_8_valid(prob, f, why);
    int64_t k = prob->v[GEMM_K], group = prob->v[GEMM_W_GROUP], ldw = prob->v[GEMM_LDW];
    int least = f ? f->group : 0, block = rfg_format((int)w)->elements;
    if (least ? group < least ? group != k || !k : group % least && group != k : group != 0)
        return least ? rfg_refuse(why, "w_group=%" PRId64 ": must be a multiple of %d, or K=%" PRId64 ", w is %s",
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
        return rfg_refuse(why, "gates=halves: must be interleaved, w is prepacked: by rfg_pack_gate_up(..., "
                               "RFG_GATES_INTERLEAVED), before rfg_gemm_prepack()");
    if (v[GEMM_X_ROWS] && (!v[GEMM_TOP] || v[GEMM_X_ROWS] < gemm_x_rows(prob)))
        return rfg_refuse(why, "x_rows=%" PRId64 ", top=%" PRId64 ": must be 0 without top, else at least M / top",
                          v[GEMM_X_ROWS], v[GEMM_TOP]);
    if (!experts && (v[GEMM_TOP] || v[GEMM_WEIGHTS] || v[GEMM_ROUTING]))
        return rfg_refuse(why, "top=%" PRId64 ", weights=%" PRId64 ", routing=%s: experts is 0", v[GEMM_TOP],
                          v[GEMM_WEIGHTS], routing_names[v[GEMM_ROUTING]]);
    if (!experts && v[GEMM_IDS])
        return rfg_refuse(why, "ids=1: experts is 0");
    if (v[GEMM_IDS] && v[GEMM_TOP] && v[GEMM_M] % v[GEMM_TOP])
        return rfg_refuse(why, "M=%" PRId64 ": must be a multiple of top=%" PRId64 " with ids", v[GEMM_M], v[GEMM_TOP]);
    if (!experts)
        return true;
    if (v[GEMM_RESIDUAL] && !v[GEMM_SLOTS])
        return rfg_refuse(why, "residual=1: must be 0 with experts=%" PRId64, experts);
    if (v[GEMM_LDW] || v[GEMM_W_COLUMNS])
        return rfg_refuse(why, "ldw=%" PRId64 ", w_columns=%" PRId64 ": must be 0 with experts=%" PRId64, v[GEMM_LDW],
                          v[GEMM_W_COLUMNS], experts);
    if (v[GEMM_PREPACKED] && v[GEMM_N] % PREPACK_ROWS)
        return rfg_refuse(why, "N=%" PRId64 ": must be a multiple of %d, w is prepacked", v[GEMM_N], PREPACK_ROWS);
    return v[GEMM_N] * experts <= RFG_MAX_SIZE ||
           rfg_refuse(why, "experts=%" PRId64 ", N=%" PRId64 ": must be at most %d rows of w", experts, v[GEMM_N],
                      RFG_MAX_SIZE);
}

/* Several products: of x, w and y alone. */
static bool batch_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    static const int others[] = { GEMM_BIAS, GEMM_RESIDUAL, GEMM_GATED, GEMM_EXPERTS, GEMM_SLOTS, GEMM_PREPACKED };
    const int64_t *v = prob->v;
    if (!v[GEMM_BATCH])
        return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (v[others[i]])
            return rfg_refuse(why, "%s=%" PRId64 ": must be 0 with batch=%" PRId64, gemm_keys[others[i]].name,
                              v[others[i]], v[GEMM_BATCH]);
    bool plain = rfg_dtype_is_float(prob->dtype[0]) && prob->dtype[0] == prob->dtype[1];
    return (plain && rfg_dtype_is_float(prob->dtype[2])) ||
           rfg_refuse(why, "x is %s, w %s, y %s: must be bf16, f16 or f32, w as x, with batch=%" PRId64,
                      rfg_dtype_name((rfg_dtype)prob->dtype[0]), rfg_dtype_name((rfg_dtype)prob->dtype[1]),
                      rfg_dtype_name((rfg_dtype)prob->dtype[2]), v[GEMM_BATCH]);
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
    if (!gemm_has_loader(prob, why) || !w_valid(prob, why) || !experts_valid(prob, why) || !batch_valid(prob, why) ||
        !y_valid(prob, why) || !gemm_slots_valid(prob, why))
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
    if (gemm_w_is_padded(prob) && gemm_w_cols(prob) % gemm_w_group(prob))
        return rfg_refuse(why,
                          "K=%" PRId64 ", w_group=%" PRId64 ": K must be a multiple of %d, or the group divide the "
                          "next one, %" PRId64 ", packed",
                          v[GEMM_K], v[GEMM_W_GROUP], PREPACK4_COLS, gemm_w_cols(prob));
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

const struct rfg_op rfg_op_gemm_desc = {
    .name = "gemm",
    .id = 1,
    .n_in = 2,
    .n_out = 1,
    RFG_OPERANDS(gemm_operands),
    .n_keys = GEMM_NKEYS,
    .keys = gemm_keys,
    .column_key = { "M", "N", "K" },
    RFG_KARGS(struct gemm_args),
    .at_size = gemm_at_size,
    .row_key = gemm_row_key,
    .is_recorded = gemm_is_recorded,
    .valid = gemm_valid,
    .cost = gemm_cost,
};
