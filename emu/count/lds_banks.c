/* SPDX-License-Identifier: MIT
 *
 * Cycles of LDS accesses: 32 banks of 4 bytes, so at most 128 bytes a cycle. An instruction is done group of lanes by
 * group: as many lanes as have 128 bytes between them. Lanes of a group that want the same word share it; a bank that
 * is asked for n different words takes n cycles. Which lanes are a group: up to 4 bytes   lanes 0..31, 32..63. AMD's
 * OpenCL guide ("half wavefronts"), Omniperf's LDS examples (MI200) 8 bytes         16 at a time, in order: measured
 * for writes (HipKittens' phases); a guess for reads 12, 16 bytes    writes: 8 at a time, in order: CK's "Understanding
 * AMD GPU LDS and Bank Conflicts" reads on gfx9: 8 that are not neighbours, see read_groups: CK's page too, and
 * measured on MI300 and MI355 (HipKittens); those of gfx11 in order: a guess A group with no lane on costs nothing,
 * stores of two lanes to one word cost no more than one, and atomics on one word take a cycle each: guesses all three.
 * gfx950: loads of 8 and 16 bytes are done two groups at a time, of 64 banks (HipKittens' measurement on MI355X). */
#include "counters.h"

#define BANKS 32
#define MOST  64 /* gfx950's, of loads */

/* Lanes 0..31 of ds_read_b96 and b128; lanes 32..63 do the same. */
static const uint32_t read_groups[4] = { 0x00f0000f, 0x000f00f0, 0xf0000f00, 0x0f00f000 };

/* How many cycles the group takes; 0 if no lane is on. */
static unsigned group_cycles(const struct emu_access *a, uint64_t lanes, unsigned banks)
{
    uint32_t word[MOST][64], most = 0;
    uint8_t n[MOST] = { 0 };
    for (; lanes; lanes &= lanes - 1) {
        uint64_t addr = a->addr[__builtin_ctzll(lanes)];
        for (uint64_t w = addr / 4; w <= (addr + a->bytes - 1) / 4; w++) {
            unsigned bank = w % banks, k = 0;
            while (k < n[bank] && (word[bank][k] != (uint32_t)w || a->kind == EMU_ATOMIC))
                k++;
            if (k == n[bank] && k < 64)
                word[bank][n[bank]++] = (uint32_t)w;
            most = n[bank] > most ? n[bank] : most;
        }
    }
    return most;
}

void emu_lds_cycles(const struct emu_arch *arch, const struct emu_access *a, unsigned *ideal, unsigned *conflicts)
{
    int lanes = a->bytes <= 4 ? 32 : a->bytes <= 8 ? 16 : 8;
    bool scattered = a->bytes > 8 && a->kind == EMU_LOAD && arch->gfx < 0x1000;
    bool wide = arch->gfx == 0x950 && a->kind == EMU_LOAD && (a->bytes == 8 || a->bytes == 16);
    *ideal = *conflicts = 0;
    for (int g = 0; g < 64 / lanes; g++) {
        uint64_t group = scattered ? (uint64_t)read_groups[g % 4] << 32 * (g / 4) : ((1ull << lanes) - 1) << lanes * g;
        if (wide && !scattered) /* two groups at a time, which are neighbours */
            group |= group << lanes, g++;
        else if (wide && g % 4 < 2) /* 0..3, 12..15, 20..27 and the others */
            group |= (uint64_t)read_groups[3 - g % 4] << 32 * (g / 4);
        else if (wide)
            continue;
        unsigned cycles = group_cycles(a, a->lanes & group, wide ? MOST : BANKS);
        *ideal += cycles > 0;
        *conflicts += cycles > 0 ? cycles - 1 : 0;
    }
}
