/* SPDX-License-Identifier: MIT
 *
 * Number formats as bits. Rounding is to nearest even unless the name says otherwise. */
#ifndef RFG_EMU_FLOAT_H
#define RFG_EMU_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float u2f(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t f2u(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline double u2d(uint64_t u)
{
    double d;
    memcpy(&d, &u, 8);
    return d;
}

static inline uint64_t d2u(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

/* The compiler's half type: one instruction where the host has F16C, and right everywhere. */
static inline float half_to_float(uint16_t h)
{
    _Float16 v;
    memcpy(&v, &h, 2);
    return (float)v;
}

static inline uint16_t float_to_half(float f)
{
    _Float16 v = (_Float16)f;
    uint16_t h;
    memcpy(&h, &v, 2);
    return h;
}

static inline uint16_t double_to_half(double d)
{
    _Float16 v = (_Float16)d;
    uint16_t h;
    memcpy(&h, &v, 2);
    return h;
}

/* Towards zero; a value beyond the range becomes the largest. */
static inline uint16_t float_to_half_rtz(float f)
{
    uint16_t h = float_to_half(f);
    if (f != f || (f2u(f) & 0x7fffffff) == 0x7f800000)
        return h;
    if ((h & 0x7fff) == 0x7c00)
        return (uint16_t)(h - 1);
    float back = half_to_float(h);
    return (back < 0 ? -back : back) > (f < 0 ? -f : f) ? (uint16_t)(h - 1) : h;
}

#endif
