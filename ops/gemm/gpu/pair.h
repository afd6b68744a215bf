/* SPDX-License-Identifier: MIT
 *
 * The end of gemm kernels whose lanes hold two neighbours along n of a row of Y: bias, rounding, store. Rows and
 * columns that don't exist are left out. */

/* Columns n and n + 1 of row m. */
RFG_DEVICE void store_pair(const struct gemm_args *a, int m, int n, float x, float y)
{
    if (m >= a->m || n >= a->n)
        return;
    long long at = m * GEMM_LDY(a) + n;
    rfg_u64 address = (rfg_u64)a->y + (rfg_u64)at * RFG_DTYPE_BYTES(OUT_DTYPE);
    if (a->bias) {
        x += rfg_load_float(a->bias, n, IN_DTYPE);
        if (n + 1 < a->n)
            y += rfg_load_float(a->bias, n + 1, IN_DTYPE);
    }
    if (n + 1 < a->n && address % (2 * RFG_DTYPE_BYTES(OUT_DTYPE)) == 0) {
        if (OUT_DTYPE == RFG_F32) {
            rfg_u32x2 v;
            v.x = rfg_as_u32(x);
            v.y = rfg_as_u32(y);
            rfg_store8((void *)address, v);
        } else {
            rfg_store4((void *)address, OUT_DTYPE == RFG_F16 ? rfg_pack_f16(x, y) : rfg_pack_bf16(x, y));
        }
    } else {
        rfg_store_float(a->y, at, x, OUT_DTYPE);
        if (n + 1 < a->n)
            rfg_store_float(a->y, at + 1, y, OUT_DTYPE);
    }
}
