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
/* The largest power of two that divides a block. */
#define W_ALIGN (W_BLOCK_BYTES & -W_BLOCK_BYTES)

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

#if defined(W_TABLE)
/* What the codes in the low and in the high four bits of q's bytes stand for, as bytes. */
RFG_DEVICE void look_up(rfg_u32 q, rfg_u32 *low, rfg_u32 *high)
{
    const rfg_u32 table[4] = { W_TABLE };
    rfg_byte_table(q, table, low, high);
}
#endif

#if W_BLOCK == 32

#define HAS_MINS (W_MIN_AT >= 0 || W_DTYPE == RFG_Q4_0 || W_DTYPE == RFG_Q5_0)
#define WORDS    (W_LOW_BITS == 8 ? 8 : 4)
#define CODES_AT (W_BLOCK_BYTES - WORDS * 4)
#define HAS_5    (W_DTYPE == RFG_Q5_0 || W_DTYPE == RFG_Q5_1)
struct w_unit {
    rfg_u32 q[WORDS], d, m, fifth;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    (void)sub;
    u->d = W_D_AT < 0 ? rfg_read_byte(block) : rfg_read_half(block);
    u->m = W_MIN_AT >= 0 ? rfg_read_half(block + 2) : 0;
    if (HAS_5)
        rfg_read_words(&u->fifth, block + CODES_AT - 4, 1, W_ALIGN);
    rfg_read_words(u->q, block + CODES_AT, WORDS, W_ALIGN);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
    (void)g;
#pragma unroll
    for (int i = 0; i < 8; i++) {
#ifdef W_TABLE
        if (i < 4)
            look_up(u->q[i], &codes[i], &codes[i + 4]);
#else
        codes[i] = W_LOW_BITS == 8 ? u->q[i % WORDS] : u->q[i % WORDS] >> i / 4 * 4 & LOW_BITS;
        if (HAS_5) /* four bits become bit 4 of four bytes */
            codes[i] |= (u->fifth >> 4 * i & 15u) * 0x02040810u & 0x10101010u;
#endif
    }
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    (void)g;
    *scale = W_D_AT < 0 ? w_e8m0_half(u->d) : rfg_f16_to_float((rfg_u16)u->d);
    *min = W_MIN_AT >= 0 ? -rfg_f16_to_float((rfg_u16)u->m) : *scale * (float)W_BIAS;
}

#elif W_DTYPE == RFG_NVFP4

#define HAS_MINS 0
struct w_unit {
    rfg_u32 q[8], scales;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    (void)sub;
    rfg_read_words(&u->scales, block, 1, W_ALIGN);
    rfg_read_words(u->q, block + 4, 8, W_ALIGN);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
    look_up(u->q[g * 2], &codes[0], &codes[2]);
    look_up(u->q[g * 2 + 1], &codes[1], &codes[3]);
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    *scale = w_ue4m3_half(u->scales >> g * 8 & 255u);
    *min = 0.0f;
}

#elif W_DTYPE == RFG_IQ4_XS

#define HAS_MINS 0
struct w_unit {
    rfg_u32 q[4], head[2];
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    rfg_read_words(u->head, block, 2, W_ALIGN);
    u->head[1] = (u->head[1] >> sub * 4 & 15) | (u->head[0] >> (16 + sub * 2) & 3) << 4;
    rfg_read_words(u->q, block + 8 + sub * 16, 4, W_ALIGN);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
    (void)g;
#pragma unroll
    for (int i = 0; i < 4; i++)
        look_up(u->q[i], &codes[i], &codes[i + 4]);
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    (void)g;
    *scale = rfg_low(u->head[0], RFG_F16) * (float)((int)u->head[1] - 32);
    *min = 0.0f;
}

#elif W_DTYPE == RFG_Q4_K || W_DTYPE == RFG_Q5_K

#define HAS_MINS 1
#define HAS_5    (W_DTYPE == RFG_Q5_K)
struct w_unit {
    rfg_u32 head[4], q[8], fifth[8], sub;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    rfg_read_words(u->head, block, 4, W_ALIGN);
    if (HAS_5)
        rfg_read_words(u->fifth, block + 16, 8, W_ALIGN);
    rfg_read_words(u->q, block + (HAS_5 ? 48 : 16) + sub * 32, 8, W_ALIGN);
    u->sub = (rfg_u32)sub;
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        codes[i] = u->q[i] >> g * 4 & LOW_BITS;
        if (HAS_5)
            codes[i] |= (u->fifth[i] >> (u->sub * 2 + (rfg_u32)g) & 0x01010101u) << 4;
    }
}
/* Scale j = 2 sub + g of format_blocks.c's get_q4(). */
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    rfg_u32 shift = u->sub % 2 * 16 + (rfg_u32)g * 8;
    rfg_u32 low = u->head[1] >> shift, middle = u->head[2] >> shift, high = u->head[3] >> shift;
    rfg_u32 s = u->sub < 2 ? low & 63 : (high & 15) | (low >> 2 & 48);
    rfg_u32 m = u->sub < 2 ? middle & 63 : (high >> 4 & 15) | (middle >> 2 & 48);
    *scale = rfg_low(u->head[0], RFG_F16) * (float)s;
    *min = rfg_high(u->head[0], RFG_F16) * (float)m;
}

#elif W_DTYPE == RFG_Q2_K

#define HAS_MINS 1
struct w_unit {
    rfg_u32 q[4], scales[2], d;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    int half = sub / 2, c = sub % 2;
    rfg_read_words(u->scales, block + half * 8, 2, W_ALIGN);
    u->scales[0] >>= c * 8;
    u->scales[1] >>= c * 8;
    rfg_read_words(u->q, block + 16 + half * 32 + c * 16, 4, W_ALIGN);
    rfg_read_words(&u->d, block + 80, 1, W_ALIGN);
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        codes[i] = u->q[i] >> g * 2 & 0x03030303u;
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    rfg_u32 both = u->scales[g / 2] >> g % 2 * 16;
    *scale = rfg_low(u->d, RFG_F16) * (float)(both & 15u);
    *min = rfg_high(u->d, RFG_F16) * (float)(both >> 4 & 15u);
}

#elif W_DTYPE == RFG_Q3_K

#define HAS_MINS 1
struct w_unit {
    rfg_u32 q[4], h[4], low[2], high, d;
};

/* Scales of parts 8 half + 2 g + c: see format_blocks.c's get_q3(). */
RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    int half = sub / 2, c = sub % 2;
    rfg_read_words(u->h, block + c * 16, 4, W_ALIGN);
    rfg_read_words(u->q, block + 32 + half * 32 + c * 16, 4, W_ALIGN);
    rfg_read_words(u->low, block + 96, 2, W_ALIGN);
    rfg_read_words(&u->high, block + 104, 1, W_ALIGN);
    u->d = rfg_read_half(block + 108);
#pragma unroll
    for (int i = 0; i < 4; i++)
        u->h[i] >>= half * 4;
    u->low[0] >>= c * 8 + half * 4;
    u->low[1] >>= c * 8 + half * 4;
    u->high >>= c * 8 + half * 4;
}
RFG_DEVICE void unit_codes(rfg_u32 *codes, const struct w_unit *u, int g)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        codes[i] = (u->q[i] >> g * 2 & 0x03030303u) | (u->h[i] >> g & 0x01010101u) << 2;
}
RFG_DEVICE void unit_scale(const struct w_unit *u, int g, float *scale, float *min)
{
    rfg_u32 low = u->low[g / 2] >> g % 2 * 16 & 15u, high = u->high >> (g % 2 * 16 + g / 2 * 2) & 3u;
    *scale = rfg_f16_to_float((rfg_u16)u->d) * (float)((int)(low | high << 4) - 32);
    *min = *scale * (float)W_BIAS;
}

#elif W_DTYPE == RFG_Q6_K

#define HAS_MINS 1
struct w_unit {
    rfg_u32 q[8], h[4], scales[2], d;
};

RFG_DEVICE void unit_load(struct w_unit *u, const char *block, int sub)
{
    int half = sub / 2, c = sub % 2;
    rfg_read_words(u->q, block + half * 64 + c * 16, 4, W_ALIGN);
    rfg_read_words(u->q + 4, block + half * 64 + 32 + c * 16, 4, W_ALIGN);
    rfg_read_words(u->h, block + 128 + half * 32 + c * 16, 4, W_ALIGN);
    rfg_read_words(u->scales, block + 192 + half * 8, 2, W_ALIGN);
    u->scales[0] >>= c * 8;
    u->scales[1] >>= c * 8;
    u->d = rfg_read_half(block + 208);
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
    *min = *scale * (float)W_BIAS;
}

#else
#error "gemm_blocks_dot has no unit of this format"
#endif
