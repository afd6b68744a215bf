/* SPDX-License-Identifier: MIT
 *
 * For lora.hip, which includes it: the expand. y += h b^T of a tile's rows and a part's columns, in items: of a thread,
 * by fp32 arithmetic, or, on Hopper, of a wave. An item's y and first ranks of b are loaded ahead of it. */
#define Y_BYTES RFG_DTYPE_BYTES(OUT_DTYPE)

/* Two neighbours of y; only the first if !both. */
RFG_DEVICE rfg_u32x2 load_y(const char *p, bool both)
{
    rfg_u32x2 v;
    v.x = v.y = 0;
    if (OUT_DTYPE == RFG_F32) {
        if (WIDTH_Y == 8)
            return rfg_load8(p);
        v.x = rfg_load4(p);
        if (both)
            v.y = rfg_load4(p + 4);
    } else if (WIDTH_Y == 4) {
        v.x = rfg_load4(p);
    } else {
        v.x = rfg_load2(p);
        if (both)
            v.x |= (rfg_u32)rfg_load2(p + 2) << 16;
    }
    return v;
}

/* A NaN of a scale may be any: see rfg_pack_bf16(). */
RFG_DEVICE float quiet(float f)
{
    return OUT_DTYPE != RFG_BF16 || f == f ? f : rfg_as_float(0x7fc00000u);
}

RFG_DEVICE void store_y(char *p, rfg_u32x2 v, rfg_f32x2 add, bool both)
{
    if (OUT_DTYPE == RFG_F32) {
        v.x = rfg_as_u32(rfg_as_float(v.x) + add.x);
        v.y = rfg_as_u32(rfg_as_float(v.y) + add.y);
        if (WIDTH_Y == 8) {
            rfg_store8(p, v);
            return;
        }
        rfg_store4(p, v.x);
        if (both)
            rfg_store4(p + 4, v.y);
        return;
    }
    float lo = quiet(rfg_low(v.x, OUT_DTYPE) + add.x), hi = quiet(rfg_high(v.x, OUT_DTYPE) + add.y);
    rfg_u32 two = OUT_DTYPE == RFG_F16 ? rfg_pack_f16(lo, hi) : rfg_pack_bf16(lo, hi);
    if (WIDTH_Y == 4) {
        rfg_store4(p, two);
        return;
    }
    rfg_store2(p, (rfg_u16)two);
    if (both)
        rfg_store2(p + 2, (rfg_u16)(two >> 16));
}

struct part {
    int from, columns, pairs, items;
};

/* Two neighbouring columns and EACH of the tile's rows: where they are, y, and b's first 16 ranks. */
struct item {
    int first, col;
    rfg_u32x2 was[EACH];
    rfg_u32x4 f[2], g[2];
};
RFG_DEVICE rfg_u32x4 load_b(const struct lora_args *a, const struct tile *t, int col, int rank)
{
    const char *b = (const char *)a->b + (t->adapter * a->b_adapter + col * a->b_row) * 2;
    rfg_u32x4 v;
    v.x = v.y = v.z = v.w = 0;
    if (rank < t->rank)
        v = rfg_load_chunk(b, (rfg_u32)rank * 2u, a->rank - rank, IN_DTYPE, WIDTH_B, false);
    if (WIDTH_B < 16)
        rfg_keep_order();
    return v;
}

RFG_DEVICE int second_col(const struct lora_args *a, int col)
{
    return col + 1 < a->n ? col + 1 : col;
}

RFG_DEVICE void load_item(const struct lora_args *a, const struct tile *t, const struct part *p, const int *rows, int i,
                          struct item *e)
{
    int group = (int)((rfg_u32)i / (rfg_u32)p->pairs);
    e->first = group * EACH;
    e->col = i < p->items ? p->from + 2 * (i - group * p->pairs) : a->n;
    if (e->col >= a->n)
        return;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        e->f[c] = load_b(a, t, e->col, c * RFG_MAX_VEC);
        e->g[c] = load_b(a, t, second_col(a, e->col), c * RFG_MAX_VEC);
    }
#pragma unroll
    for (int m = 0; m < EACH; m++) {
        e->was[m].x = e->was[m].y = 0;
        if (e->first + m < t->rows)
            e->was[m] = load_y((char *)a->y + (rows[e->first + m] * a->ldy + e->col) * Y_BYTES, e->col + 1 < a->n);
        if (WIDTH_Y < 4 || OUT_DTYPE == RFG_F32)
            rfg_keep_order();
    }
}

/* b's ranks behind the adapter's are 0. */
RFG_DEVICE void unpack_b(float *f, rfg_u32x4 v, int left)
{
    rfg_unpack(f, v, IN_DTYPE);
    if (left < RFG_MAX_VEC)
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i++)
            f[i] = i < left ? f[i] : 0.0f;
}

/* sum += eight ranks of both columns by those of h. */
RFG_DEVICE void add_ranks(rfg_f32x2 *sum, rfg_u32x4 b0, rfg_u32x4 b1, const float *h, int stride, int left)
{
    float f[RFG_MAX_VEC], g[RFG_MAX_VEC];
    unpack_b(f, b0, left);
    unpack_b(g, b1, left);
#pragma unroll
    for (int m = 0; m < EACH; m++)
#pragma unroll
        for (int i = 0; i < RFG_MAX_VEC; i += 4) {
            rfg_f32x4 v = *(const rfg_f32x4 *)(h + m * stride + i);
            sum[m] = rfg_fma2(rfg_pair(f[i], g[i]), rfg_pair(v.x, v.x), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 1], g[i + 1]), rfg_pair(v.y, v.y), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 2], g[i + 2]), rfg_pair(v.z, v.z), sum[m]);
            sum[m] = rfg_fma2(rfg_pair(f[i + 3], g[i + 3]), rfg_pair(v.w, v.w), sum[m]);
        }
}

/* Loads of b's further ranks that are in flight together: a rank of 64 waits once. */
#define BEYOND (HOPPER && WIDTH_B == 16 ? 6 : 1)

RFG_DEVICE void expand(const struct lora_args *a, const struct tile *t, const int *rows, const float *h, int stride,
                       const struct item *e)
{
    rfg_f32x2 sum[EACH];
    h += e->first * stride;
#pragma unroll
    for (int m = 0; m < EACH; m++)
        sum[m] = rfg_pair(0.0f, 0.0f);
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (c * RFG_MAX_VEC < t->rank)
            add_ranks(sum, e->f[c], e->g[c], h + c * RFG_MAX_VEC, stride, t->rank - c * RFG_MAX_VEC);
#pragma unroll 1
    for (int r0 = 2 * RFG_MAX_VEC; r0 < t->rank; r0 += BEYOND * RFG_MAX_VEC) {
        rfg_u32x4 f[BEYOND], g[BEYOND];
#pragma unroll
        for (int c = 0; c < BEYOND; c++) {
            f[c] = load_b(a, t, e->col, r0 + c * RFG_MAX_VEC);
            g[c] = load_b(a, t, second_col(a, e->col), r0 + c * RFG_MAX_VEC);
        }
#pragma unroll
        for (int c = 0; c < BEYOND; c++) {
            int r = r0 + c * RFG_MAX_VEC;
            if (BEYOND == 1 || r < t->rank)
                add_ranks(sum, f[c], g[c], h + r, stride, t->rank - r);
        }
    }
#pragma unroll
    for (int m = 0; m < EACH; m++)
        if (e->first + m < t->rows)
            store_y((char *)a->y + (rows[e->first + m] * a->ldy + e->col) * Y_BYTES, e->was[m], sum[m],
                    e->col + 1 < a->n);
}
