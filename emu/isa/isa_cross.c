/* SPDX-License-Identifier: MIT
 *
 * VALU instructions that read other lanes by themselves: readlane, permlane, relative moves. */
#include "isa.h"

/* EXEC does not matter; the lane is taken modulo the wave's size. */
H(v_readlane_b32)
{
    row32 t;
    uint32_t lane = rs(w, i, 2) & (w->wave_size - 1u);
    ws(w, i, 0, src(w, i, 1, t)[lane]);
}
/* With no lane on it is lane 0. */
H(v_readfirstlane_b32)
{
    row32 t;
    int lane = w->exec ? __builtin_ctzll(w->exec) : 0;
    ws(w, i, 0, src(w, i, 1, t)[lane]);
}
H(v_writelane_b32)
{
    vrow(w, i->reg[0])[rs(w, i, 2) & (w->wave_size - 1u)] = rs(w, i, 1);
}

/* d, data, 16 selectors of 4 bits: lane l of each row takes lane sel[l] of its row (x: of the other row of the pair).
 * op_sel[0]: inactive lanes may be read, op_sel[1]: lanes that can't be get 0, else they keep the old value. */
static void permlane16(struct emu_wave *w, const struct emu_inst *i, bool other)
{
    row32 t, r;
    const uint32_t *a = src(w, i, 1, t);
    uint64_t sel = rs(w, i, 2) | (uint64_t)rs(w, i, 3) << 32, lanes = 0;
    bool fi = i->mods->op_sel & 1, bound = i->mods->op_sel & 2;
    for (unsigned l = 0; l < 64; l++) {
        unsigned s = (l & 48) ^ (other ? 16 : 0);
        s |= (unsigned)(sel >> 4 * (l & 15) & 15);
        bool ok = fi || (w->exec >> s & 1);
        r[l] = ok ? a[s] : 0;
        if (ok || bound)
            lanes |= 1ull << l;
    }
    blend(vrow(w, i->reg[0]), r, w->exec & lanes);
}
H(v_permlane16_b32)
{
    permlane16(w, i, false);
}
H(v_permlanex16_b32)
{
    permlane16(w, i, true);
}
/* gfx12: each lane's own selector. */
static void permlane16_var(struct emu_wave *w, const struct emu_inst *i, bool other)
{
    row32 ta, ts, r;
    const uint32_t *a = src(w, i, 1, ta), *sel = src(w, i, 2, ts);
    uint64_t lanes = 0;
    bool fi = i->mods->op_sel & 1, bound = i->mods->op_sel & 2;
    for (unsigned l = 0; l < 64; l++) {
        unsigned s = ((l & 48) ^ (other ? 16 : 0)) | (sel[l] & 15);
        bool ok = fi || (w->exec >> s & 1);
        r[l] = ok ? a[s] : 0;
        lanes |= (uint64_t)(ok || bound) << l;
    }
    blend(vrow(w, i->reg[0]), r, w->exec & lanes);
}
H(v_permlane16_var_b32)
{
    permlane16_var(w, i, false);
}
H(v_permlanex16_var_b32)
{
    permlane16_var(w, i, true);
}
/* Swaps the wave's halves. */
H(v_permlane64_b32)
{
    row32 r;
    const uint32_t *a = vrow(w, i->reg[1]);
    for (int l = 0; l < 64; l++)
        r[l] = w->wave_size == 64 ? a[l ^ 32] : a[l];
    blend(vrow(w, i->reg[0]), r, w->exec);
}
/* Registers M0 names. */
static uint32_t *relative_row(struct emu_wave *w, const struct emu_inst *i, int k)
{
    unsigned r = i->reg[k] - EMU_VGPR + w->s[EMU_M0];
    if (r < (unsigned)w->n_vgprs)
        return w->v[r];
    emu_report(w, i, "register-range", w->exec, "v%u by M0: the wave has %d VGPRs", r, w->n_vgprs);
    w->stop = EMU_FAULT;
    return NULL;
}
H(v_movrels_b32)
{
    row32 r;
    const uint32_t *a = relative_row(w, i, 1);
    if (!a)
        return;
    memcpy(r, a, 256);
    blend(vrow(w, i->reg[0]), r, w->exec);
}
H(v_movreld_b32)
{
    row32 r, t;
    uint32_t *d = relative_row(w, i, 0);
    if (!d)
        return;
    memcpy(r, src(w, i, 1, t), 256);
    blend(d, r, w->exec);
}

/* clang-format off */
static const struct emu_op rows[] = {
#define ROW(n, s) { #n, h_##n, s, EMU_CROSS, 0 },
    ROW(v_readlane_b32, "d1 s1 s1")
    ROW(v_readfirstlane_b32, "d1 s1")
    ROW(v_writelane_b32, "b1 s1 s1")
    ROW(v_permlane16_b32, "b1 s1 s1 s1")
    ROW(v_permlanex16_b32, "b1 s1 s1 s1")
    ROW(v_permlane16_var_b32, "b1 s1 s1")
    ROW(v_permlanex16_var_b32, "b1 s1 s1")
    ROW(v_permlane64_b32, "d1 s1")
    ROW(v_movrels_b32, "d1 s1|M")
    ROW(v_movreld_b32, "d1 s1|M")
};
/* clang-format on */
const struct emu_ops EMU_N(ops_cross) = { rows, COUNT(rows) };
