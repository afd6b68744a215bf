/* SPDX-License-Identifier: MIT
 *
 * Reading a row of the cache: eight threads (`lane` 0 to 7) load pieces of 16 bytes, and have chunks of eight elements of
 * DTYPE to give, decoded and scaled. Macros: DTYPE, KV_DTYPE, FORMAT (mla_format.h), D, WIDE (rows are aligned to 16
 * bytes), SCALED (plain rows have a scale). */
#define KV_BYTES    RFG_DTYPE_BYTES(KV_DTYPE)
#define ROW_CODES   (FORMAT == MLA_PLAIN ? D : MLA_CODES(FORMAT)) /* elements of KV_DTYPE */
#define ROW_PIECES  (ROW_CODES * KV_BYTES / 16)
#define COPY_CHUNKS ((ROW_PIECES + 7) / 8)
#define GIVEN       (COPY_CHUNKS * (2 / KV_BYTES) + (FORMAT != MLA_PLAIN)) /* chunks of a thread */

struct row_pieces {
    rfg_u32x4 v[COPY_CHUNKS];
#if FORMAT != MLA_PLAIN
    rfg_u32x4 rotated, scales;
#endif
};

RFG_DEVICE rfg_u32x4 load_piece(const char *p)
{
    if (WIDE)
        return rfg_load16(p);
    rfg_u32 w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = 0;
#pragma unroll
        for (int k = 0; k < 4; k += KV_BYTES)
            w[i] |= (KV_BYTES == 1 ? rfg_load1(p + 4 * i + k) : (rfg_u32)rfg_load2((const rfg_u16 *)(p + 4 * i + k)))
                    << 8 * k;
    }
    rfg_u32x4 v;
    v.x = w[0];
    v.y = w[1];
    v.z = w[2];
    v.w = w[3];
    return v;
}

RFG_DEVICE bool has_piece(int k, int lane)
{
    return ROW_PIECES % 8 == 0 || k * 8 + lane < ROW_PIECES;
}

/* scales: of the row, with a format (whose rows are aligned). */
RFG_DEVICE void load_row(struct row_pieces *r, const char *row, const char *scales, int lane)
{
#pragma unroll
    for (int k = 0; k < COPY_CHUNKS; k++)
        if (has_piece(k, lane))
            r->v[k] =
                FORMAT == MLA_PLAIN ? load_piece(row + (k * 8 + lane) * 16) : rfg_load16(row + (k * 8 + lane) * 16);
#if FORMAT != MLA_PLAIN
    r->rotated = rfg_load16(row + MLA_ROTATED_AT(FORMAT) + lane * 16);
    if (FORMAT == MLA_V32) {
        r->scales = rfg_load16(scales);
    } else {
        rfg_u32x2 two = rfg_load8(scales);
        r->scales.x = two.x;
        r->scales.y = two.y;
    }
#else
    (void)scales;
#endif
}

#if KV_BYTES == 1
/* Eight codes as elements, exactly. */
RFG_DEVICE rfg_u32x4 decode8(rfg_u32 lo, rfg_u32 hi)
{
    rfg_u32x2 a = rfg_f8_to_f16x4(lo, KV_DTYPE, true), b = rfg_f8_to_f16x4(hi, KV_DTYPE, true);
    rfg_u32x4 v;
    if (DTYPE == RFG_F16) {
        v.x = a.x;
        v.y = a.y;
        v.z = b.x;
        v.w = b.y;
    } else {
        v.x = rfg_pack_bf16(rfg_low(a.x, RFG_F16), rfg_high(a.x, RFG_F16));
        v.y = rfg_pack_bf16(rfg_low(a.y, RFG_F16), rfg_high(a.y, RFG_F16));
        v.z = rfg_pack_bf16(rfg_low(b.x, RFG_F16), rfg_high(b.x, RFG_F16));
        v.w = rfg_pack_bf16(rfg_low(b.y, RFG_F16), rfg_high(b.y, RFG_F16));
    }
    return v;
}

/* The same times a scale, rounded. */
RFG_DEVICE rfg_u32x4 decode8_scaled(rfg_u32 lo, rfg_u32 hi, float scale)
{
    rfg_u32x2 a = rfg_f8_to_f16x4(lo, KV_DTYPE, true), b = rfg_f8_to_f16x4(hi, KV_DTYPE, true);
    float f[RFG_MAX_VEC] = { rfg_low(a.x, RFG_F16),  rfg_high(a.x, RFG_F16), rfg_low(a.y, RFG_F16),
                             rfg_high(a.y, RFG_F16), rfg_low(b.x, RFG_F16),  rfg_high(b.x, RFG_F16),
                             rfg_low(b.y, RFG_F16),  rfg_high(b.y, RFG_F16) };
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] *= scale;
    return rfg_pack(f, DTYPE);
}
#endif

#if FORMAT != MLA_PLAIN
/* Of piece k of a thread. */
RFG_DEVICE float scale_of_piece(rfg_u32x4 scales, int k, int lane)
{
    rfg_u32 w;
    if (FORMAT == MLA_V32) {
        w = k == 0 ? scales.x : k == 1 ? scales.y : k == 2 ? scales.z : scales.w;
        return rfg_as_float(w);
    }
    w = (k < 2 ? scales.x : scales.y) >> (k % 2 * 16 + lane / 4 * 8) & 255u;
    return w == 255u ? rfg_as_float(0x7fc00000u) : rfg_power_of(w);
}
#endif

/* Which of a row's chunks the i-th of GIVEN of a thread is; -1: none. */
RFG_DEVICE int given_chunk(int i, int lane)
{
    if (FORMAT != MLA_PLAIN && i == GIVEN - 1)
        return ROW_CODES / 8 + lane;
    int k = KV_BYTES == 1 ? i / 2 : i;
    if (!has_piece(k, lane))
        return -1;
    return KV_BYTES == 1 ? 2 * (k * 8 + lane) + i % 2 : k * 8 + lane;
}
/* factor: 1, or what else a code of a plain row is multiplied by. */
RFG_DEVICE rfg_u32x4 give_chunk(const struct row_pieces *r, int i, int lane, float factor)
{
    (void)lane, (void)factor;
#if FORMAT != MLA_PLAIN
    if (i == GIVEN - 1)
        return r->rotated;
#endif
#if KV_BYTES == 1
    rfg_u32x4 v = r->v[i / 2];
    rfg_u32 lo = i % 2 ? v.z : v.x, hi = i % 2 ? v.w : v.y;
#if FORMAT != MLA_PLAIN
    return decode8_scaled(lo, hi, scale_of_piece(r->scales, i / 2, lane));
#else
    return SCALED ? decode8_scaled(lo, hi, factor) : decode8(lo, hi);
#endif
#else
    return r->v[i];
#endif
}
