/* SPDX-License-Identifier: MIT
 *
 * Operands that are not simply a row: scalars, constants, DPP, SDWA, op_sel, neg, abs; results with clamp, omod,
 * flushed denormals. */
#include "isa.h"

/* ---- scalars ----------------------------------------------------------------------------------------------------- */

uint32_t EMU_N(rs_slow)(const struct emu_wave *w, const struct emu_inst *i, int k, int word)
{
    unsigned r = i->reg[k];
    uint64_t vcc = read_vcc(w);
    switch (r) {
    case EMU_CONST:
        return (uint32_t)(i->k[k] >> (word & 1 ? 32 : 0));
    case EMU_EXEC:
        return (uint32_t)(w->exec >> (word & 1 ? 32 : 0));
    case EMU_EXEC + 1:
        return (uint32_t)(w->exec >> 32);
    case EMU_SCC:
        return word ? 0 : w->scc;
    case EMU_VCCZ:
        return word ? 0 : vcc == 0;
    case EMU_EXECZ:
        return word ? 0 : w->exec == 0;
    case EMU_APERTURE: /* 64-bit values; read as 32 bits, the upper half is what the hardware gives */
    case EMU_APERTURE + 1:
    case EMU_APERTURE + 2:
    case EMU_APERTURE + 3: {
        uint64_t v = (r - EMU_APERTURE) / 2 ? EMU_PRIVATE_BASE : EMU_SHARED_BASE;
        if ((r - EMU_APERTURE) & 1)
            v |= 0xffffffff;
        return (uint32_t)(i->words[k] == 1 || word ? v >> 32 : v);
    }
    default:
        return 0; /* null */
    }
}

void EMU_N(ws_slow)(struct emu_wave *w, unsigned reg, uint32_t v)
{
    if (reg == EMU_EXEC)
        w->exec = (w->exec & ~0xffffffffull) | v;
    else if (reg == EMU_EXEC + 1 && w->wave_size == 64)
        w->exec = (w->exec & 0xffffffffull) | (uint64_t)v << 32;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Which lane each lane reads, -1: none. */
void EMU_N(dpp_index)(const struct emu_wave *w, const struct emu_inst *i, int8_t *from)
{
    const struct emu_mods *m = i->mods;
    int n = w->wave_size, arg = m->dpp_arg;
#define FROM(e) LANES from[l] = (int8_t)(e)
    switch (m->dpp) {
    case EMU_DPP_QUAD_PERM:
        FROM((l & ~3) | (arg >> 2 * (l & 3) & 3));
        break;
    case EMU_DPP_ROW_SHL:
        FROM((l & 15) + arg < 16 ? l + arg : -1);
        break;
    case EMU_DPP_ROW_SHR:
        FROM((l & 15) >= arg ? l - arg : -1);
        break;
    case EMU_DPP_ROW_ROR:
        FROM((l & ~15) | ((l - arg) & 15));
        break;
    case EMU_DPP_WAVE_SHL:
        FROM(l + 1 < n ? l + 1 : -1);
        break;
    case EMU_DPP_WAVE_ROL:
        FROM((l + 1) & (n - 1));
        break;
    case EMU_DPP_WAVE_SHR:
        FROM(l - 1);
        break;
    case EMU_DPP_WAVE_ROR:
        FROM((l - 1) & (n - 1));
        break;
    case EMU_DPP_ROW_MIRROR:
        FROM(l ^ 15);
        break;
    case EMU_DPP_ROW_HALF_MIRROR:
        FROM(l ^ 7);
        break;
    case EMU_DPP_ROW_BCAST15: /* the last lane of the row before */
        FROM((l & ~15) - 1);
        break;
    case EMU_DPP_ROW_BCAST31:
        FROM(l >= 32 ? 31 : -1);
        break;
    case EMU_DPP_ROW_SHARE:
        FROM((l & ~15) | arg);
        break;
    case EMU_DPP_ROW_XMASK:
        FROM(l ^ arg);
        break;
    default:
        FROM((l & ~7) | (int)(m->dpp8 >> 3 * (l & 7) & 7));
        break;
    }
#undef FROM
    if (!m->fi && w->exec != ~0ull)
        LANES from[l] = from[l] >= 0 && (w->exec >> from[l] & 1) ? from[l] : -1;
}

uint64_t EMU_N(dpp_lanes)(const struct emu_wave *w, const struct emu_inst *i)
{
    const struct emu_mods *m = i->mods;
    int8_t from[64];
    uint64_t lanes = 0;
    if (m->bound_ctrl || m->dpp == EMU_DPP_8) {
        lanes = ~0ull;
    } else {
        uint8_t valid[64];
        EMU_N(dpp_index)(w, i, from);
        LANES valid[l] = from[l] >= 0;
        lanes = pack_mask(valid);
    }
    if (m->dpp != EMU_DPP_8)
        for (int q = 0; q < 16; q++) /* quads: row q / 4, bank q % 4 */
            if (!(m->row_mask >> q / 4 & 1) || !(m->bank_mask >> q % 4 & 1))
                lanes &= ~(15ull << 4 * q);
    return lanes & w->exec;
}

static void sdwa_select(uint32_t *tmp, const uint32_t *r, int sel, bool sext)
{
    int shift = sel < 4 ? 8 * sel : sel == 5 ? 16 : 0, bits = sel < 4 ? 8 : sel < 6 ? 16 : 32;
    if (bits == 32)
        memmove(tmp, r, 256);
    else if (sext)
        LANES tmp[l] = (uint32_t)((int32_t)(r[l] << (32 - bits - shift)) >> (32 - bits));
    else
        LANES tmp[l] = r[l] >> shift & ((1u << bits) - 1);
}

const uint32_t *EMU_N(src_slow)(const struct emu_wave *w, const struct emu_inst *i, int k, int word, uint32_t *tmp)
{
    const struct emu_mods *m = i->mods;
    const uint32_t *r = tmp;
    int number = k - i->src0, type = i->type[k];
    if (i->reg[k] < EMU_VGPR) {
        uint32_t v = rs_word(w, i, k, word);
        LANES tmp[l] = v;
    } else {
        r = vrow(w, i->reg[k] + (unsigned)word);
    }
    if (m->dpp && number == 0) {
        int8_t from[64];
        row32 out;
        EMU_N(dpp_index)(w, i, from);
        LANES out[l] = from[l] < 0 ? 0 : r[from[l]];
        memcpy(tmp, out, 256);
        r = tmp;
    }
    if (m->sdwa && (number == 0 || number == 1)) {
        sdwa_select(tmp, r, m->sdwa_src[number], m->src[k] & EMU_SEXT);
        r = tmp;
    }
    bool half = type == EMU_F16 || type == EMU_I16;
    if (half && m->op_sel >> (number >= 0 ? number : 3) & 1) { /* an accumulator: the destination's half */
        LANES tmp[l] = r[l] >> 16;
        r = tmp;
    }
    if ((m->src[k] & (EMU_NEG | EMU_ABS)) && type != EMU_PK && type != EMU_BF16 && !(type == EMU_F64 && word == 0)) {
        uint32_t sign = half ? 0x8000 : 0x80000000;
        uint32_t clear = m->src[k] & EMU_ABS ? ~sign : ~0u, flip = m->src[k] & EMU_NEG ? sign : 0;
        LANES tmp[l] = (r[l] & clear) ^ flip;
        r = tmp;
    }
    return r;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static uint64_t lanes_of(const struct emu_wave *w, const struct emu_inst *i)
{
    return i->mods->dpp ? EMU_N(dpp_lanes)(w, i) : w->exec;
}

static void sdwa_merge(uint32_t *r, const uint32_t *old, const struct emu_mods *m)
{
    int sel = m->sdwa_dst, shift = sel < 4 ? 8 * sel : sel == 5 ? 16 : 0, bits = sel < 4 ? 8 : sel < 6 ? 16 : 32;
    if (bits == 32)
        return;
    uint32_t field = ((1u << bits) - 1) << shift;
    if (m->sdwa_unused == 2) /* UNUSED_PRESERVE */
        LANES r[l] = (r[l] << shift & field) | (old[l] & ~field);
    else if (m->sdwa_unused == 1) /* UNUSED_SEXT */
        LANES r[l] = (uint32_t)((int32_t)(r[l] << (32 - bits)) >> (32 - bits)) << shift;
    else
        LANES r[l] = r[l] << shift & field;
}

void EMU_N(put_slow)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r)
{
    uint32_t *d = vrow(w, i->reg[0]);
    if (i->mods->sdwa)
        sdwa_merge(r, d, i->mods);
    blend(d, r, lanes_of(w, i));
}

static float clamp1(float x, bool nan_to_0)
{
    return x != x ? (nan_to_0 ? 0.0f : x) : x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

void EMU_N(putf_slow)(struct emu_wave *w, const struct emu_inst *i, float *r)
{
    static const float factor[4] = { 1, 2, 4, 0.5f };
    const struct emu_mods *m = i->mods;
    if (m->omod && ftz_out32(w))
        LANES r[l] *= factor[m->omod];
    if (m->clamp) {
        bool nan_to_0 = w->mode & EMU_MODE_DX10_CLAMP;
        LANES r[l] = clamp1(r[l], nan_to_0);
    }
    uint32_t *x = (uint32_t *)r;
    if (ftz_out32(w))
        LANES x[l] = flush32(x[l]);
    EMU_N(put_slow)(w, i, x);
}

void EMU_N(put16)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r)
{
    uint32_t *d = vrow(w, i->reg[0]);
    if (i->mods->sdwa) {
        LANES r[l] &= 0xffff;
        EMU_N(put_slow)(w, i, r);
        return;
    }
    if (i->mods->op_sel & 8)
        LANES r[l] = r[l] << 16 | (d[l] & 0xffff);
    else if (i->slow & EMU_SLOW_KEEP_HI)
        LANES r[l] = (r[l] & 0xffff) | (d[l] & 0xffff0000);
    else
        LANES r[l] &= 0xffff;
    blend(d, r, lanes_of(w, i));
}

void EMU_N(puth)(struct emu_wave *w, const struct emu_inst *i, uint32_t *r)
{
    static const float factor[4] = { 1, 2, 4, 0.5f };
    const struct emu_mods *m = i->mods;
    if (m->omod && ftz_out16(w))
        LANES r[l] = f2h(h2f(r[l]) * factor[m->omod]);
    if (m->clamp) {
        bool nan_to_0 = w->mode & EMU_MODE_DX10_CLAMP;
        LANES r[l] = f2h(clamp1(h2f(r[l]), nan_to_0));
    }
    if (ftz_out16(w))
        LANES r[l] = flush16(r[l]);
    EMU_N(put16)(w, i, r);
}

void EMU_N(put64)(struct emu_wave *w, const struct emu_inst *i, const uint64_t *r)
{
    row32 t;
    uint64_t lanes = lanes_of(w, i);
    LANES t[l] = (uint32_t)r[l];
    blend(vrow(w, i->reg[0]), t, lanes);
    LANES t[l] = (uint32_t)(r[l] >> 32);
    blend(vrow(w, i->reg[0] + 1u), t, lanes);
}

void EMU_N(putd)(struct emu_wave *w, const struct emu_inst *i, double *r)
{
    static const double factor[4] = { 1, 2, 4, 0.5 };
    const struct emu_mods *m = i->mods;
    row64 t;
    if (unlikely(m->omod && ftz_out16(w)))
        LANES r[l] *= factor[m->omod];
    if (unlikely(m->clamp)) {
        bool nan_to_0 = w->mode & EMU_MODE_DX10_CLAMP;
        LANES r[l] = r[l] != r[l] ? (nan_to_0 ? 0 : r[l]) : r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;
    }
    LANES t[l] = as_u64(r[l]);
    if (unlikely(ftz_out16(w)))
        LANES t[l] = (t[l] & 0x7ff0000000000000ull) ? t[l] : t[l] & 0x8000000000000000ull;
    EMU_N(put64)(w, i, t);
}
