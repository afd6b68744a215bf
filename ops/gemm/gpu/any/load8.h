/* SPDX-License-Identifier: MIT
 *
 * load.h's branch of a W of 8-bit codes beside an X of 16 bits. Its scales are as those of codes: of rows or of the
 * tensor in the epilogue, of blocks for each SCALE_COLUMNS columns. Prepacked or not, a lane's 16 bytes are columns
 * that follow one another, so that X's columns are those of the two chunks beside it. */
#if !RFG_IS_HALF(IN_DTYPE)
#error "gemm has 8-bit W with 16-bit X only"
#endif
static_assert(W_GROUP % 32 == 0, "a group of columns is not whole chunks of W");

#define W_BYTES        1
#define W_BYTES_OF(k)  (k)
#define W_VEC          16
#define W_IS_FRAGMENTS 0
#define W_IS_8_BITS    1
#define W_UNIT         1.0f

/* Kernels of matrix cores decode fragments by w_decode8() (rfg_decode8.h). A step is what 16 bytes of a row are to the
 * chunks of fragments: two of 32 columns, of each of which a lane has eight that follow one another. */
#define W_STEPS        2
#define W_ROW_AT(a, n) ((const char *)(a)->w + w_row_at(a, n) * GEMM_LDW(a))
#if PREPACKED
#define W_FRAG_STEP (PREPACK_ROWS * PREPACK8_COLS)
#define W_FRAG_AT(a, n, chunk)                                                                                         \
    ((const char *)(a)->w + (n) / PREPACK_ROWS * (long long)(a)->k * PREPACK_ROWS + (chunk) * (PREPACK_ROWS * 16) +    \
     (n) % PREPACK_ROWS * 16)
#else
#define W_FRAG_STEP            PREPACK8_COLS
#define W_FRAG_AT(a, n, chunk) (W_ROW_AT(a, n) + (chunk)*16)
#endif

RFG_DEVICE float w_element(const struct gemm_args *a, long long n, int k, bool prepacked)
{
    long long row = w_row_at(a, n), at = prepacked ? PREPACKED8_AT(row, k, (long long)a->k) : row * a->ldw + k;
    float f = rfg_code_value(rfg_load1((const char *)a->w + at), W_DTYPE);
#if SCALES == GEMM_SCALES_BLOCKS
    f *= w_scale_of(a, n, k / SCALE_COLUMNS);
#endif
    return f;
}

typedef struct w_row {
    const char *codes;
#if SCALES == GEMM_SCALES_BLOCKS
    const struct gemm_args *a;
    int n;
#endif
} w_row;
typedef struct w_chunk {
    rfg_u32x4 codes;
#if SCALES == GEMM_SCALES_BLOCKS
    float scale;
#endif
} w_chunk;

RFG_DEVICE w_row w_row_of(const struct gemm_args *a, int n)
{
    w_row r;
    r.codes = (const char *)a->w + w_row_at(a, n) * GEMM_LDW(a);
#if SCALES == GEMM_SCALES_BLOCKS
    r.a = a;
    r.n = n;
#endif
    return r;
}
RFG_DEVICE w_chunk w_load(w_row row, int chunk)
{
    w_chunk c;
    c.codes = rfg_load16_stream(row.codes + (long long)chunk * 16);
#if SCALES == GEMM_SCALES_BLOCKS
    c.scale = w_scale_of(row.a, row.n, chunk * W_VEC / SCALE_COLUMNS);
#endif
    return c;
}
/* The part-th eight elements of a chunk: two words. With SCALE_LATE who multiplies by them scales their sum. */
#if SCALES == GEMM_SCALES_BLOCKS
#define W_CHUNK_SCALE(chunk) (chunk).scale
#endif
RFG_DEVICE void w_unpack(float *f, w_chunk chunk, int part)
{
    rfg_u32 codes[2] = { part == 0 ? chunk.codes.x : chunk.codes.z, part == 0 ? chunk.codes.y : chunk.codes.w };
#pragma unroll
    for (int i = 0; i < 2; i++) {
#if W_DTYPE == RFG_I8
#pragma unroll
        for (int e = 0; e < 4; e++)
            f[4 * i + e] = (float)((int)(codes[i] << (24 - 8 * e)) >> 24);
#else
        rfg_u32x2 half = rfg_f8_to_f16x4(codes[i], W_DTYPE, true);
        f[4 * i] = rfg_low(half.x, RFG_F16);
        f[4 * i + 1] = rfg_high(half.x, RFG_F16);
        f[4 * i + 2] = rfg_low(half.y, RFG_F16);
        f[4 * i + 3] = rfg_high(half.y, RFG_F16);
#endif
    }
#if SCALES == GEMM_SCALES_BLOCKS && !SCALE_LATE
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] *= chunk.scale;
#endif
}
