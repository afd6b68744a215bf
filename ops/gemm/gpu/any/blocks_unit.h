/* SPDX-License-Identifier: MIT
 *
 * A lane's unit of a W whose blocks hold their scales, for dot products of bytes: 32 or 64 columns whose bits a block
 * has beside one another, in groups that share a scale.
 *
 *   UNIT, UNITS, PART     columns of a unit; units of a block; columns of a group, 32 or 16
 *   HAS_MINS              a multiple of X's sum is subtracted: a min, or the bias of codes
 *   struct w_unit         the bits; unit_load() reads them, of unit `sub` of a block
 *   unit_codes(), unit_scale()   a group's codes, as bytes of words; its scale and what X's sum is multiplied by
 *   x_place()             16 columns of X: which unit's, and in which place among those
 *   x_block(), x_half()   a group's: which 32 columns of X, and of a PART of 16 which half (else 0) */
#define LOW_BITS 0x0f0f0f0fu

#if W_DTYPE == RFG_Q4_K || W_DTYPE == RFG_Q5_K || W_DTYPE == RFG_Q6_K || W_DTYPE == RFG_Q2_K || W_DTYPE == RFG_Q3_K || \
    W_DTYPE == RFG_NVFP4
#define UNIT 64
#else
#define UNIT 32
#endif
#define UNITS         (W_BLOCK / UNIT)
#define PART          W_PART
#define X_SCALE_BYTES (PART == 32 ? 8 : 16)

/* Of 256 columns 16 that are 32 apart are a unit: each byte has codes of two or four of them. */
#define ACROSS (UNIT == 64 && PART == 16 && W_DTYPE != RFG_NVFP4)

RFG_DEVICE void x_place(int piece, int *unit, int *chunk)
{
    *unit = ACROSS ? piece / 16 * 4 + piece / 8 % 2 * 2 + piece % 2 : piece / (UNIT / 16);
    *chunk = ACROSS ? piece % 8 / 2 : piece % (UNIT / 16);
}
RFG_DEVICE int x_block(int unit, int g)
{
    return ACROSS ? unit / 2 * 4 + g : unit * (UNIT / 32) + g * PART / 32;
}
RFG_DEVICE int x_half(int unit, int g)
{
    return PART == 32 ? 0 : ACROSS ? unit % 2 : g % 2;
}

/* n words from an address aligned to `align` bytes, in LDS where STAGES copies W there. */
RFG_DEVICE void read_words(rfg_u32 *to, const char *p, int n, int align)
{
#if RFG_NVIDIA
    if (align >= 16) {
#pragma unroll
        for (int i = 0; i < n / 4; i++) {
            rfg_u32x4 v = ((const rfg_u32x4 *)p)[i];
            to[i * 4] = v.x;
            to[i * 4 + 1] = v.y;
            to[i * 4 + 2] = v.z;
            to[i * 4 + 3] = v.w;
        }
    } else if (align >= 4) {
#pragma unroll
        for (int i = 0; i < n; i++)
            to[i] = ((const rfg_u32 *)p)[i];
    } else { /* the words around them */
        rfg_u32 off = (rfg_u32)((rfg_u64)p & 3);
        const rfg_u32 *from = (const rfg_u32 *)(p - off);
        rfg_u32 low = from[0];
#pragma unroll
        for (int i = 0; i < n; i++) {
            rfg_u32 high = from[i + 1];
            to[i] = rfg_from_byte(low, high, off);
            low = high;
        }
    }
#else
    (void)align;
#pragma unroll
    for (int i = 0; i < n / 4; i++) {
        rfg_u32x4 v = rfg_load16_anywhere(p + i * 16);
        to[i * 4] = v.x;
        to[i * 4 + 1] = v.y;
        to[i * 4 + 2] = v.z;
        to[i * 4 + 3] = v.w;
    }
#pragma unroll
    for (int i = n / 4 * 4; i < n; i++)
        to[i] = rfg_load4_anywhere(p + i * 4);
#endif
}
RFG_DEVICE rfg_u32 read_half(const char *p)
{
#if RFG_NVIDIA
    return *(const rfg_u16 *)p;
#else
    return rfg_load2(p);
#endif
}

#if W_DTYPE == RFG_Q4_0 || W_DTYPE == RFG_Q8_0

#define HAS_MINS (W_DTYPE == RFG_Q4_0)
#define WORDS    (W_DTYPE == RFG_Q8_0 ? 8 : 4)
struct w_unit {
    rfg_u32 q[WORDS], d;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    (void)sub;
    u->d = read_half(block);
    read_words(u->q, block + 2, WORDS, 2);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
    (void)g;
#pragma unroll
    for (int i = 0; i < 8; i++)
        codes[i] = W_DTYPE == RFG_Q8_0 ? u->q[i % WORDS] : u->q[i % WORDS] >> i / 4 * 4 & LOW_BITS;
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    (void)g;
    *scale = rfg_f16_to_float((rfg_u16)u->d);
    *min = *scale * (float)W_BIAS;
}

#elif W_DTYPE == RFG_Q4_K

#define HAS_MINS 1
struct w_unit {
    rfg_u32 head[4], q[8], scales, mins; /* scales and mins: two each, of 6 bits, in bytes */
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    read_words(u->head, block, 4, 16);
    read_words(u->q, block + 16 + sub * 32, 8, 16);
    u->scales = (rfg_u32)sub;
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        codes[i] = u->q[i] >> g * 4 & LOW_BITS;
}
/* Scale j = 2 sub + g of format_blocks.c's get_q4(). */
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    rfg_u32 sub = u->scales, shift = sub % 2 * 16 + (rfg_u32)g * 8;
    rfg_u32 low = u->head[1] >> shift, middle = u->head[2] >> shift, high = u->head[3] >> shift;
    rfg_u32 s = sub < 2 ? low & 63 : (high & 15) | (low >> 2 & 48);
    rfg_u32 m = sub < 2 ? middle & 63 : (high >> 4 & 15) | (middle >> 2 & 48);
    *scale = rfg_low(u->head[0], RFG_F16) * (float)s;
    *min = rfg_high(u->head[0], RFG_F16) * (float)m;
}

#elif W_DTYPE == RFG_Q6_K

#define HAS_MINS 1
struct w_unit {
    rfg_u32 q[8], h[4], scales[2], d;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    int half = sub / 2, c = sub % 2;
    read_words(u->q, block + half * 64 + c * 16, 4, 2);
    read_words(u->q + 4, block + half * 64 + 32 + c * 16, 4, 2);
    read_words(u->h, block + 128 + half * 32 + c * 16, 4, 2);
    read_words(u->scales, block + 192 + half * 8, 2, 2);
    u->scales[0] >>= c * 8;
    u->scales[1] >>= c * 8;
    u->d = read_half(block + 208);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        codes[i] = (u->q[g % 2 * 4 + i] >> g / 2 * 4 & LOW_BITS) | (u->h[i] >> g * 2 & 0x03030303u) << 4;
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    *scale = rfg_f16_to_float((rfg_u16)u->d) * (float)(signed char)(u->scales[g / 2] >> g % 2 * 16);
    *min = *scale * 32.0f;
}

#else
#error "gemm_blocks_dot has no unit of this format"
#endif
