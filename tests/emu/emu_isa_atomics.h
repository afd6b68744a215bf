/* SPDX-License-Identifier: MIT
 *
 * For emu_isa_memory.c: what atomics compute, in plain C, apart from the emulator's. */
#ifndef RFG_TESTS_EMU_ISA_ATOMICS_H
#define RFG_TESTS_EMU_ISA_ATOMICS_H

#include "emu_isa.h"

static uint32_t add_halves(uint32_t x, uint32_t y, bool bf)
{
    uint32_t r = 0;
    for (int h = 0; h < 32; h += 16) {
        if (bf) {
            float f = f32(x >> h << 16) + f32(y >> h << 16);
            uint32_t u = u32(f), low = u & 0xffff, up = low > 0x8000 || (low == 0x8000 && (u >> 16 & 1));
            r |= (isnan(f) ? 0x7fc0 : (u >> 16) + up) << h;
        } else {
            r |= u16(f16(x >> h) + f16(y >> h)) << h;
        }
    }
    return r;
}
/* The IEEE minimum and maximum of atomics: the number beats the NaN, -0 is less than +0; m: memory. */
static uint64_t extreme(uint64_t m, uint64_t v, int bytes, bool max)
{
    double p = bytes == 8 ? f64(m) : (double)f32((uint32_t)m), q = bytes == 8 ? f64(v) : (double)f32((uint32_t)v);
    if (isnan(p) || isnan(q))
        return isnan(p) ? v : m;
    bool less = p < q || (p == q && signbit(p) && !signbit(q));
    return less == max ? v : m;
}
static uint64_t combine(char op, int bytes, uint64_t m, uint64_t v, uint64_t v2)
{
    int64_t sm = bytes == 8 ? (int64_t)m : (int32_t)m, sv = bytes == 8 ? (int64_t)v : (int32_t)v;
    switch (op) {
    case '+':
        return m + v;
    case '-':
        return m - v;
    case 'r':
        return v - m;
    case 'x':
        return v;
    case 'c': /* new value first, then what is compared */
        return m == v2 ? v : m;
    case 'C':
        return m == v ? v2 : m;
    case 'e': /* compared as floats */
        return bytes == 8 ? (f64(m) == f64(v2) ? v : m) : f32((uint32_t)m) == f32((uint32_t)v2) ? v : m;
    case 'E':
        return bytes == 8 ? (f64(m) == f64(v) ? v2 : m) : f32((uint32_t)m) == f32((uint32_t)v) ? v2 : m;
    case 'k':
        return (m & ~v) | v2;
    case 'S':
        return m < v ? m : m - v;
    case 's':
        return m < v ? 0 : m - v;
    case 'm':
        return sm < sv ? m : v;
    case 'n':
        return sm < sv ? v : m;
    case 'u':
        return m < v ? m : v;
    case 'M':
        return m > v ? m : v;
    case '&':
        return m & v;
    case '|':
        return m | v;
    case '^':
        return m ^ v;
    case 'i':
        return m >= v ? 0 : m + 1;
    case 'd':
        return m == 0 || m > v ? v : m - 1;
    case 'f':
        return bytes == 8 ? u64(f64(m) + f64(v)) : u32(f32((uint32_t)m) + f32((uint32_t)v));
    case 'l':
    case 'g':
        return extreme(m, v, bytes, op == 'g');
    default:
        return add_halves((uint32_t)m, (uint32_t)v, op == 'b');
    }
}
static bool same_number(char op, int bytes, uint64_t x, uint64_t y)
{
    if (strchr("flgeE", op) && bytes == 4)
        return x == y || (isnan(f32((uint32_t)x)) && isnan(f32((uint32_t)y)));
    if (strchr("flgeE", op))
        return x == y || (isnan(f64(x)) && isnan(f64(y)));
    if (op == 'h' || op == 'b')
        for (int h = 0; h < 32; h += 16) {
            uint32_t p = x >> h & 0xffff, q = y >> h & 0xffff, inf = op == 'h' ? 0x7c00 : 0x7f80;
            if (p != q && !((p & 0x7fff) > inf && (q & 0x7fff) > inf))
                return false;
        }
    return op == 'h' || op == 'b' || x == y;
}

#endif
