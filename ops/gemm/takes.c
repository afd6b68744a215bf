/* SPDX-License-Identifier: MIT
 *
 * What a problem asks of a variant: how x and w are read, and what becomes of their product. A variant says what it
 * takes (struct gemm_takes); why it refuses a problem is said here. */
#include <inttypes.h>

#include "gemm.h"

/* ---- x and w ----------------------------------------------------------------------------------------------------- */

unsigned gemm_read_asked(const struct rfg_problem *prob)
{
    if (gemm_is_mx(prob))
        return gemm_w_is_4_bits(prob) ? GEMM_READ_MX4 : GEMM_READ_MX8;
    if (gemm_is_codes(prob))
        return gemm_scales(prob) == GEMM_SCALES_BLOCKS ? GEMM_READ_BLOCKS : GEMM_READ_CODES;
    const struct gemm_w_format *f = gemm_w_format(prob);
    int64_t group = prob->v[GEMM_W_GROUP], cols = gemm_w_cols(prob);
    if (f && f->read == GEMM_READ_GROUPS && group)
        return cols % group == 0 && group % 32 == 0 ? GEMM_READ_GROUPS
               : cols % group == 0 && group == 16   ? GEMM_READ_FINE
                                                    : GEMM_READ_PARTS;
    if (f)
        return f->read;
    return prob->dtype[0] == RFG_F32 ? GEMM_READ_F32 : GEMM_READ_HALF;
}

/* A variant that reads `has` reads no x and w as this problem's, whether w is prepacked or not. */
static bool refuse_read(const struct rfg_problem *prob, unsigned has, struct rfg_reason *why)
{
    const char *x = rfg_dtype_name((rfg_dtype)prob->dtype[0]), *w = rfg_dtype_name((rfg_dtype)prob->dtype[1]);
    unsigned asked = gemm_read_asked(prob);
    if (asked & (GEMM_READ_PARTS | GEMM_READ_FINE) && has & GEMM_READ_GROUPS)
        return rfg_refuse(why, "w_group=%" PRId64 ": must be %sa multiple of 32 that divides K=%" PRId64,
                          prob->v[GEMM_W_GROUP], has & GEMM_READ_FINE ? "16 or " : "", prob->v[GEMM_K]);
    if (asked == GEMM_READ_NVFP4 && has & GEMM_READ_GROUPS)
        return rfg_refuse(why, "w_scale=e4m3: must be another, w is e2m1");
    if (asked &
        (GEMM_READ_GROUPS | GEMM_READ_W8 | GEMM_READ_PARTS | GEMM_READ_NVFP4 | GEMM_READ_FINE | GEMM_READ_SCALED))
        return rfg_refuse(why, "dtype of w is %s: must be x's, %s", w, x);
    if ((has & ~(GEMM_READ_NVFP4 | GEMM_READ_FINE)) == (GEMM_READ_GROUPS | GEMM_READ_W8) && !gemm_is_mx(prob))
        return rfg_refuse(why, "w is %s: must be i4, e2m1 or of 8 bits, x of 16", w);
    if (asked & ~GEMM_READ_CODES && has & GEMM_READ_CODES && gemm_is_codes(prob))
        return rfg_refuse(why, "x_per=%s: must be tensor%s", prob->op->keys[GEMM_X_PER].names[prob->v[GEMM_X_PER]],
                          has & GEMM_READ_BLOCKS ? ", row or block" : " or row");
    return rfg_refuse(why, "x is %s: must be bf16%s%s%s", x,
                      has & (GEMM_READ_F32 | GEMM_READ_CODES) ? ", f16" : " or f16",
                      has & GEMM_READ_F32     ? " or f32"
                      : has & GEMM_READ_CODES ? " or codes of 8 bits"
                                              : "",
                      has & GEMM_READ_MX4 && !(has & GEMM_READ_CODES) ? ", or w e2m1" : "");
}

static bool takes_chunks(const struct rfg_problem *prob, struct rfg_reason *why)
{
    int64_t of_w = gemm_w_vec(prob), k = of_w > 8 ? of_w : 8;
    if (prob->v[GEMM_K] < k || prob->v[GEMM_K] % k)
        return rfg_refuse(why, "K=%" PRId64 ": must be a positive multiple of %" PRId64, prob->v[GEMM_K], k);
    return prob->v[GEMM_ALIGN] >= 16 || rfg_refuse(why, "align=%" PRId64 ": must be 16", prob->v[GEMM_ALIGN]);
}

static bool takes_read(const struct rfg_problem *prob, const struct gemm_takes *t, struct rfg_reason *why)
{
    unsigned asked = gemm_read_asked(prob);
    bool packed = prob->v[GEMM_PREPACKED];
    if (!gemm_has_loader(prob, why))
        return false;
    if (!(asked & (t->rows | t->prepacked)))
        return refuse_read(prob, t->rows | t->prepacked, why);
    if (t->chunks && !takes_chunks(prob, why))
        return false;
    if (packed && !(asked & t->prepacked))
        return rfg_refuse(why, "packed=1: must be 0, it reads W by rows");
    if (!packed && !(asked & t->rows))
        return rfg_refuse(why, "packed=0: must be 1, w is %s", rfg_dtype_name((rfg_dtype)prob->dtype[1]));
    int64_t group = gemm_w_is_4_bits(prob) && packed ? gemm_w_group(prob) : PREPACK4_COLS;
    return !t->steps || PREPACK4_COLS % group == 0 || group % PREPACK4_COLS == 0 ||
           rfg_refuse(why, "w_group=%" PRId64 ": must be %s32, 64, or a multiple of %d", group,
                      t->prepacked & asked & (GEMM_READ_NVFP4 | GEMM_READ_FINE) ? "16, " : "", PREPACK4_COLS);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

const struct gemm_end_row gemm_ends[] = {
    { GEMM_END_SLOTS, GEMM_SLOTS, NULL, "must be 0, it sums no rows" },
    { GEMM_END_EXPERTS, GEMM_EXPERTS, NULL, "must be 0, it multiplies by one w" },
    { GEMM_END_IDS, GEMM_IDS, NULL, "must be 0, it finds experts by offsets" },
    { GEMM_END_BATCH, GEMM_BATCH, NULL, "must be 0, it makes one product" },
    { GEMM_END_RESIDUAL, GEMM_RESIDUAL, NULL, "must be 0, it adds none" },
    { GEMM_END_ACT, GEMM_GATED, "GATED", "must be none, it has no activation" },
    { GEMM_END_HALVES, GEMM_GATES, NULL, "must be interleaved, its rows of gate and up take turns" },
    { 0, 0, NULL, NULL },
};

unsigned gemm_ends_asked(const struct rfg_problem *prob)
{
    unsigned asked = gemm_y_is_codes(prob) ? GEMM_END_CODES : 0;
    for (const struct gemm_end_row *e = gemm_ends; e->end; e++)
        if (e->end == GEMM_END_HALVES ? gemm_halves(prob) : prob->v[e->key] != 0)
            asked |= e->end;
    return asked;
}

static bool takes_ends(const struct rfg_problem *prob, unsigned has, struct rfg_reason *why)
{
    unsigned lacks = gemm_ends_asked(prob) & ~has;
    for (const struct gemm_end_row *e = gemm_ends; e->end; e++) {
        const struct rfg_key *key = &prob->op->keys[e->key];
        int64_t v = prob->v[e->key];
        if (lacks & e->end)
            return key->names ? rfg_refuse(why, "%s=%s: %s", key->name, key->names[v - key->min], e->rule)
                              : rfg_refuse(why, "%s=%" PRId64 ": %s", key->name, v, e->rule);
    }
    return !lacks || gemm_y_is_float(prob, why);
}

bool gemm_takes(const struct rfg_problem *prob, const struct gemm_takes *takes, struct rfg_reason *why)
{
    return takes_read(prob, takes, why) && takes_ends(prob, takes->ends, why);
}

/* Rows that are summed by token in the same launch (ops/gemm_sum.h). */
bool gemm_slots_valid(const struct rfg_problem *prob, struct rfg_reason *why)
{
    const int64_t *v = prob->v;
    int64_t m = v[GEMM_M], slots = v[GEMM_SLOTS];
    if (!slots)
        return !v[GEMM_TOKENS] || rfg_refuse(why, "tokens=1: slots is 0");
    if (!v[GEMM_EXPERTS])
        return rfg_refuse(why, "slots=%" PRId64 ": experts is 0", slots);
    if (v[GEMM_GATED])
        return rfg_refuse(why, "slots=%" PRId64 ": must be 0 with an act", slots);
    if (!gemm_y_is_float(prob, why))
        return false;
    return (m % slots == 0 && m <= GEMM_MAX_SLOT_ROWS) ||
           rfg_refuse(why, "M=%" PRId64 ": must be a multiple of slots=%" PRId64 ", at most %d", m, slots,
                      GEMM_MAX_SLOT_ROWS);
}

size_t gemm_slot_bytes(const struct rfg_problem *prob)
{
    if (!prob->v[GEMM_SLOTS])
        return 0;
    return (size_t)GEMM_SLOT_BYTES(prob->v[GEMM_M], prob->v[GEMM_N], rfg_format_bytes(prob->dtype[2], 1));
}
