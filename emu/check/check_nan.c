/* SPDX-License-Identifier: MIT
 *
 *   nan-born   floating-point arithmetic made a NaN out of operands that are none (inf - inf, 0 * inf, 0 / 0, sqrt(-1);
 * a number too large for fp8), and it reached a store to memory or LDS
 *
 * Only if asked for: RFG_EMU_CHECKS=+nan. Where the NaN was born is what is reported, with the operands of the first
 * lane. It counts only once it is stored, because library functions make NaNs on their way and select another value in
 * the end: division by its fix-up, exp(-inf), sqrt(0). Registers carry the mark through arithmetic, moves, packing and
 * lane operations for as long as their bits look like a NaN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/isa/isa.h"
#include "watch.h"

#define VECTORS  512
#define BIRTHS   64
#define OPERANDS 3

/* Formats of operands and results. */
enum format { NO_FLOAT, F32, F16, F16_HIGH, PK_F16, BF16, PK_BF16, F64, FP8X4, FP8_LOW, FP8_HIGH };

struct birth {
    const struct emu_inst *inst; /* NULL: free */
    uint64_t value[OPERANDS];    /* of the first lane */
    uint8_t format[OPERANDS], n;
    uint8_t lane;
    bool finite;
};

struct emu_nans {
    struct birth birth[BIRTHS];
    uint64_t born[VECTORS]; /* lanes with a NaN that was born, */
    uint8_t id[VECTORS];    /* ... the index of its birth, */
    uint8_t as[VECTORS];    /* ... and its format by now */
    /* the instruction that is being executed */
    const struct emu_inst *inst;
    uint8_t from, from_format; /* whose NaN it reads */
    uint64_t inherits;
    uint64_t tainted, c_tainted[32]; /* lanes with a NaN among the operands; an MFMA's C by word */
    uint64_t infinite;
    uint64_t value[OPERANDS][64];
    uint8_t format[OPERANDS], n;
};

struct emu_nans *emu_nans_create(void)
{
    return malloc(sizeof(struct emu_nans));
}

void emu_nans_begin(struct emu_wave *w)
{
    memset(w->checks->nans, 0, sizeof(struct emu_nans));
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static bool nan8(unsigned x, const struct emu_arch *arch)
{
    return arch->fnuz ? x == 0x80 : (x & 0x7f) == 0x7f;
}

static bool nan16(uint32_t x)
{
    return (x & 0x7fff) > 0x7c00;
}

static bool nan_bf(uint32_t x)
{
    return (x & 0x7fff) > 0x7f80;
}

static bool nan32(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000;
}

static bool is_nan(enum format f, uint64_t x, const struct emu_arch *arch)
{
    uint32_t w = (uint32_t)x;
    switch (f) {
    case F32:
        return nan32(w);
    case F16:
        return nan16(w);
    case F16_HIGH:
        return nan16(w >> 16);
    case PK_F16:
        return nan16(w) || nan16(w >> 16);
    case BF16:
        return nan_bf(w);
    case PK_BF16:
        return nan_bf(w) || nan_bf(w >> 16);
    case F64:
        return (x & INT64_MAX) > 0x7ff0000000000000ull;
    case FP8X4:
        return nan8(w & 255, arch) || nan8(w >> 8 & 255, arch) || nan8(w >> 16 & 255, arch) || nan8(w >> 24, arch);
    case FP8_LOW:
        return nan8(w & 255, arch) || nan8(w >> 8 & 255, arch);
    case FP8_HIGH:
        return nan8(w >> 16 & 255, arch) || nan8(w >> 24, arch);
    default:
        return false;
    }
}

static bool is_infinite(enum format f, uint64_t x)
{
    uint32_t w = (uint32_t)x;
    switch (f) {
    case F32:
        return (w & 0x7fffffff) == 0x7f800000;
    case F16:
        return (w & 0x7fff) == 0x7c00;
    case F16_HIGH:
        return (w >> 16 & 0x7fff) == 0x7c00;
    case PK_F16:
        return (w & 0x7fff) == 0x7c00 || (w >> 16 & 0x7fff) == 0x7c00;
    case BF16:
        return (w & 0x7fff) == 0x7f80;
    case PK_BF16:
        return (w & 0x7fff) == 0x7f80 || (w >> 16 & 0x7fff) == 0x7f80;
    case F64:
        return (x & INT64_MAX) == 0x7ff0000000000000ull;
    default:
        return false;
    }
}

static int print_value(char *buf, size_t size, enum format f, uint64_t x)
{
    uint32_t w = (uint32_t)x;
    switch (f) {
    case F32:
        return snprintf(buf, size, "%.9g", (double)as_f32(w));
    case F16:
    case F16_HIGH:
        return snprintf(buf, size, "%.5g", (double)h2f(f == F16 ? w & 0xffff : w >> 16));
    case PK_F16:
        return snprintf(buf, size, "(%.5g, %.5g)", (double)h2f(w & 0xffff), (double)h2f(w >> 16));
    case BF16:
        return snprintf(buf, size, "%.4g", (double)bf2f(w & 0xffff));
    case PK_BF16:
        return snprintf(buf, size, "(%.4g, %.4g)", (double)bf2f(w & 0xffff), (double)bf2f(w >> 16));
    case F64:
        return snprintf(buf, size, "%.17g", as_f64(x));
    default:
        return snprintf(buf, size, "0x%x", w);
    }
}

/* The result's by the first type in the mnemonic: v_cvt_f32_i32 gives f32, v_cvt_i32_f32 none. */
static enum format result_format(const struct emu_inst *i)
{
    const char *name = i->op->name;
    bool high = i->mods->op_sel & 8;
    if (i->n == 0 || i->reg[0] < EMU_VGPR || emu_begins(name, "v_cvt_f32_fp8") || emu_begins(name, "v_cvt_f32_bf8") ||
        emu_begins(name, "v_cvt_pk_f32_") || emu_begins(name, "v_cmp"))
        return NO_FLOAT;
    if (emu_begins(name, "v_cvt_pk_fp8") || emu_begins(name, "v_cvt_pk_bf8"))
        return high ? FP8_HIGH : FP8_LOW;
    if (emu_begins(name, "v_cvt_pk_bf16"))
        return PK_BF16;
    if (emu_begins(name, "v_cvt_pkrtz_f16") || emu_begins(name, "v_cvt_pk_rtz_f16"))
        return PK_F16;
    for (const char *c = name; (c = strchr(c, '_')); c++) {
        if (emu_begins(c, "_f32"))
            return F32;
        if (emu_begins(c, "_f64"))
            return F64;
        if (emu_begins(c, "_f16"))
            return emu_begins(name, "v_pk_")                  ? PK_F16
                   : emu_begins(name, "v_wmma")               ? (i->mods->op_sel & 4 ? F16_HIGH : F16)
                   : high || !strcmp(name, "v_fma_mixhi_f16") ? F16_HIGH
                                                              : F16;
        if (emu_begins(c, "_bf16"))
            return emu_begins(name, "v_pk_") ? PK_BF16 : BF16;
        if ((c[1] == 'i' || c[1] == 'u' || c[1] == 'b') && c[2] >= '0' && c[2] <= '9')
            return NO_FLOAT;
    }
    return NO_FLOAT;
}

/* A and B of "v_mfma_f32_16x16x16_bf16": what stands behind the shape. */
static enum format matrix_format(const char *name)
{
    const char *type = strrchr(name, 'x') ? strrchr(name, 'x') : name;
    return strstr(type, "fp8") || strstr(type, "bf8") ? FP8X4
           : strstr(type, "bf16")                     ? PK_BF16
           : strstr(type, "f16")                      ? PK_F16
           : strstr(type, "f64")                      ? F64
                                                      : F32;
}

static enum format operand_format(const struct emu_inst *i, int k, enum format result)
{
    const char *name = i->op->name;
    if (strstr(name, "f8f6f4") && k != 0 && k != 3) /* fp6 and fp4 have no NaN; scales aren't looked at */
        return k > 3 || (k == 1 ? i->mods->cbsz : i->mods->blgp) > 1 ? NO_FLOAT : FP8X4;
    if (i->op->cls == EMU_MFMA && k < 3)
        return matrix_format(name);
    if (i->op->cls == EMU_MFMA)
        return result;
    if (emu_begins(name, "v_fma_mix") || emu_begins(name, "v_mad_mix"))
        return !(i->mods->op_sel_hi >> (k - 1) & 1) ? F32 : i->mods->op_sel >> (k - 1) & 1 ? F16_HIGH : F16;
    if (emu_begins(name, "v_dot2"))
        return k == 0 || k == 3 ? result : strstr(name + 7, "bf16") ? PK_BF16 : PK_F16;
    switch (i->type[k]) {
    case EMU_F32:
        return F32;
    case EMU_F64:
        return F64;
    case EMU_F16:
        return i->mods->sdwa ? PK_F16 : k && i->mods->op_sel >> (k - 1) & 1 ? F16_HIGH : F16;
    case EMU_BF16:
        return PK_BF16;
    case EMU_PK:
        return i->words[k] == 2 ? F32 : PK_F16; /* f32: two words, each looked at */
    default:
        return NO_FLOAT;
    }
}

/* Whether these bits may hold a NaN of this format, perhaps moved, or packed as bf16 by integer instructions. */
static bool looks_like_nan(enum format f, uint32_t x)
{
    switch (f) {
    case F16:
    case F16_HIGH:
    case PK_F16:
        return nan16(x) || nan16(x >> 16);
    case FP8_LOW:
    case FP8_HIGH:
        return true;
    default:
        return nan32(x) || nan_bf(x) || nan_bf(x >> 16);
    }
}

/* ---- before: the operands ---------------------------------------------------------------------------------------- */

static uint32_t word_of(const struct emu_wave *w, const struct emu_inst *i, int k, unsigned word, int lane)
{
    unsigned r = i->reg[k];
    if (r == EMU_CONST)
        return (uint32_t)(i->k[k] >> 32 * word);
    if (r >= EMU_VGPR && r < EMU_NONE)
        return vrow(w, r + word)[lane];
    return r + word < EMU_NULL ? w->s[r + word] : 0;
}

static void operand(struct emu_wave *w, const struct emu_inst *i, int k, enum format f)
{
    struct emu_nans *s = w->checks->nans;
    unsigned words = i->words[k] ? i->words[k] : 1, step = f == F64 ? 2 : 1;
    uint64_t nan = 0;
    if (f == NO_FLOAT || i->role[k] == 'i' || (i->reg[k] == EMU_CONST && words > 2))
        return;
    bool is_c = i->op->cls == EMU_MFMA && k == 3, moved = i->mods->dpp && k == i->src0;
    for (unsigned n = 0; n + step <= words && n < 32; n += step) {
        uint64_t lanes = 0;
        for (int l = 0; l < w->wave_size; l++) {
            uint64_t x = word_of(w, i, k, n, l);
            if (step == 2)
                x |= (uint64_t)word_of(w, i, k, n + 1, l) << 32;
            lanes |= (uint64_t)is_nan(f, x, w->prog->arch) << l;
            s->infinite |= (uint64_t)is_infinite(f, x) << l;
            if (!n && s->n < OPERANDS)
                s->value[s->n][l] = x;
        }
        if (is_c)
            s->c_tainted[n] = lanes;
        else
            nan |= lanes;
    }
    if (s->n < OPERANDS)
        s->format[s->n++] = (uint8_t)f;
    s->tainted |= nan && (moved || i->op->cls == EMU_MFMA) ? UINT64_MAX : nan;
}

static void say(struct emu_wave *w, const struct emu_inst *store, const struct birth *b, uint64_t lanes)
{
    char values[200] = "", inst[160];
    int at = 0;
    bool matrix = b->inst->op->cls == EMU_MFMA;
    if (matrix)
        snprintf(values, sizeof(values), "a row of A and a column of B");
    for (int k = 0; k < b->n && !matrix && at < (int)sizeof(values) - 60; k++) {
        at += snprintf(values + at, sizeof(values) - (size_t)at, "%s", k ? ", " : "");
        at += print_value(values + at, sizeof(values) - (size_t)at, b->format[k], b->value[k]);
    }
    emu_inst_text(w->prog, store, inst, sizeof(inst));
    emu_report(w, b->inst, "nan-born", lanes, "of %s in lane %d, %s; reaches '%s' at 0x%x", values, b->lane,
               b->finite ? "all finite" : "an infinity among the operands", inst, store->address);
}

static void stored(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    const struct emu_nans *s = w->checks->nans;
    for (int k = 0; k < e->n_reads; k++)
        for (unsigned n = 0; n < e->read[k].words; n++) {
            unsigned reg = e->read[k].reg + n;
            uint64_t lanes = reg < EMU_VGPR || reg >= EMU_VGPR + VECTORS ? 0 : s->born[reg - EMU_VGPR] & w->exec;
            for (uint64_t m = lanes; m; m &= m - 1)
                if (!looks_like_nan(s->as[reg - EMU_VGPR], vrow(w, reg)[__builtin_ctzll(m)]))
                    lanes &= ~(m & -m);
            if (lanes)
                say(w, i, &s->birth[s->id[reg - EMU_VGPR]], lanes);
        }
}

static bool is_valu(const struct emu_inst *i)
{
    enum emu_class c = i->op->cls;
    return c == EMU_VALU || c == EMU_TRANS || c == EMU_MFMA || (c == EMU_CROSS && *i->op->name == 'v');
}

/* Lanes for which v_cndmask takes this operand. */
static uint64_t chosen(const struct emu_wave *w, const struct emu_inst *i, unsigned k)
{
    uint64_t second = i->n > 3 && i->reg[3] < EMU_NULL ? read_mask(w, i, 3) : read_vcc(w);
    return k == 2 ? second : ~second;
}

void emu_nans_before(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_nans *s = w->checks->nans;
    s->inst = i;
    s->inherits = s->tainted = s->infinite = 0;
    s->n = 0;
    if (!e->vector)
        return;
    if (!is_valu(i) && i->op->cls != EMU_CROSS) {
        stored(w, i, e);
        return;
    }
    for (int k = 0; k < e->n_reads; k++)
        for (unsigned n = 0; n < e->read[k].words; n++) {
            unsigned reg = e->read[k].reg + n;
            if (reg < EMU_VGPR || reg >= EMU_VGPR + VECTORS || !s->born[reg - EMU_VGPR])
                continue;
            uint64_t lanes = e->cross ? UINT64_MAX : s->born[reg - EMU_VGPR];
            if (e->select && e->read[k].operand <= 2)
                lanes &= chosen(w, i, e->read[k].operand);
            if (!lanes)
                continue;
            s->inherits |= lanes;
            s->from = s->id[reg - EMU_VGPR];
            s->from_format = s->as[reg - EMU_VGPR];
        }
    enum format f = is_valu(i) ? result_format(i) : NO_FLOAT;
    if (f == NO_FLOAT)
        return;
    if (i->op->cls == EMU_MFMA)
        memset(s->c_tainted, 0, sizeof(s->c_tainted));
    for (int k = 0; k < i->n; k++)
        if (i->role[k] == 's' || (i->role[k] == 'b' && i->op->cls != EMU_MFMA &&
                                  !emu_begins(i->op->name, "v_fma_mix") && !emu_begins(i->op->name, "v_cvt")))
            operand(w, i, k, operand_format(i, k, f));
}

/* ---- after: the result ------------------------------------------------------------------------------------------- */

static uint8_t give_birth(struct emu_nans *s, const struct emu_wave *w, const struct emu_inst *i, uint64_t lanes)
{
    unsigned id = (unsigned)(i - w->prog->inst) % BIRTHS;
    struct birth *b = &s->birth[id];
    if (b->inst == i)
        return (uint8_t)id; /* the first one's operands */
    *b = (struct birth){ .inst = i, .n = s->n, .lane = (uint8_t)__builtin_ctzll(lanes) };
    /* of a matrix any element may be the one */
    b->finite = i->op->cls == EMU_MFMA ? !s->infinite : !(s->infinite >> b->lane & 1);
    for (int k = 0; k < s->n; k++) {
        b->value[k] = s->value[k][b->lane];
        b->format[k] = s->format[k];
    }
    return (uint8_t)id;
}

static void written(struct emu_wave *w, const struct emu_inst *i, unsigned reg, unsigned n, enum format f)
{
    struct emu_nans *s = w->checks->nans;
    unsigned v = reg - EMU_VGPR;
    bool matrix = i->op->cls == EMU_MFMA;
    uint64_t lanes = matrix ? all_lanes(w) : w->exec, nan = 0, looks = 0;
    for (uint64_t m = f || s->inherits ? lanes : 0; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint64_t x = vrow(w, reg)[l];
        looks |= (uint64_t)looks_like_nan(s->from_format, (uint32_t)x) << l;
        if (f == F64) /* both words are marked */
            x = n & 1 ? vrow(w, reg - 1)[l] | x << 32 : x | (uint64_t)vrow(w, reg + 1)[l] << 32;
        nan |= (uint64_t)is_nan(f, x, w->prog->arch) << l;
    }
    uint64_t inherited = s->inherits & (f ? nan : looks);
    uint64_t c = matrix && n < 32 ? s->c_tainted[f == F64 ? n & ~1u : n] : 0;
    uint64_t born = nan & ~s->tainted & ~c;
    s->born[v] &= ~lanes;
    if (born) {
        s->id[v] = give_birth(s, w, i, born);
        s->born[v] = born;
        s->as[v] = (uint8_t)f;
    } else if (inherited) {
        s->id[v] = s->from;
        s->born[v] |= inherited;
        s->as[v] = f ? (uint8_t)f : s->from_format;
    }
}

void emu_nans_after(struct emu_wave *w, const struct emu_inst *i, const struct emu_effect *e)
{
    struct emu_nans *s = w->checks->nans;
    if (s->inst != i)
        return; /* of a pair that was executed as one */
    bool valu = is_valu(i) || i->op->cls == EMU_CROSS;
    enum format f = is_valu(i) && s->n ? result_format(i) : NO_FLOAT;
    for (int k = 0; k < e->n_writes; k++)
        for (unsigned n = 0; n < e->write[k].words; n++) {
            unsigned reg = e->write[k].reg + n;
            if (reg < EMU_VGPR || reg >= EMU_VGPR + VECTORS)
                continue;
            if (valu)
                written(w, i, reg, n, e->write[k].operand == 0 ? f : NO_FLOAT);
            else
                s->born[reg - EMU_VGPR] &= ~w->exec;
        }
}
