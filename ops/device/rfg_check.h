/* SPDX-License-Identifier: MIT
 *
 * A format that nothing here computes with is a compile error. The functions of this prelude choose by `dtype`, a
 * constant, and their last branch stands for the last format that there is; kernels reach them through these macros,
 * which look at the constant first. */

/* What the macros of kernels may say, whatever is done with them. (A misspelt name is 0 here.) */
#if defined(IN_DTYPE) && !RFG_IS_FLOAT(IN_DTYPE) && !RFG_IS_CODE(IN_DTYPE) && IN_DTYPE != RFG_E2M1
#error "IN_DTYPE: must be f32, f16, bf16, e4m3, e4m3fnuz, e5m2, i8 or e2m1"
#endif
#if defined(BIAS_DTYPE) && !RFG_IS_FLOAT(BIAS_DTYPE)
#error "BIAS_DTYPE: must be f32, f16 or bf16"
#endif
#if defined(OUT_DTYPE) && !RFG_IS_FLOAT(OUT_DTYPE) && !RFG_IS_CODE(OUT_DTYPE) &&                                       \
    !(OUT_DTYPE == RFG_E2M1 && SCALE == RFG_SCALE_MX)
#error "OUT_DTYPE: must be f32, f16, bf16, e4m3, e4m3fnuz, e5m2 or i8, with scales of mx also e2m1"
#endif
#if defined(DTYPE) && !RFG_IS_FLOAT(DTYPE)
#error "DTYPE: must be f32, f16 or bf16"
#endif
#if defined(KV_DTYPE) && !RFG_IS_FLOAT(KV_DTYPE) && (!RFG_IS_CODE(KV_DTYPE) || KV_DTYPE == RFG_I8)
#error "KV_DTYPE: must be f32, f16, bf16, e4m3, e4m3fnuz or e5m2"
#endif

/* A negative size, and the compiler's message ends here, if the format is not one of those. */
#define RFG_ONLY(of_these) ((void)sizeof(char[(of_these) ? 1 : -1]))

#define rfg_load_float(base, i, dtype)      (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_load_float(base, i, dtype))
#define rfg_store_float(base, i, f, dtype)  (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_store_float(base, i, f, dtype))
#define rfg_store_float4(base, i, f, dtype) (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_store_float4(base, i, f, dtype))
#define rfg_unpack(f, v, dtype)             (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_unpack(f, v, dtype))
#define rfg_pack(f, dtype)                  (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_pack(f, dtype))
#define rfg_load_chunk(row, at, n, dtype, width, once)                                                                 \
    (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_load_chunk(row, at, n, dtype, width, once))
#define rfg_store_chunk(row, at, n, v, dtype, width, once)                                                             \
    (RFG_ONLY(RFG_IS_FLOAT(dtype)), rfg_store_chunk(row, at, n, v, dtype, width, once))

/* (RFG_DTYPE_BYTES() is for #if, too, and can't.) */
#undef RFG_DTYPE_VEC
#define RFG_DTYPE_VEC(dtype) (16 / (int)sizeof(char[RFG_DTYPE_BYTES(dtype) ? RFG_DTYPE_BYTES(dtype) : -1]))

#if RFG_HAS_MMA
#define rfg_frag_mma(c, a, b, dtype)    (RFG_ONLY(RFG_IS_HALF(dtype)), rfg_frag_mma(c, a, b, dtype))
#define rfg_frag_mma_wx(c, w, x, dtype) (RFG_ONLY(RFG_IS_HALF(dtype)), rfg_frag_mma_wx(c, w, x, dtype))
#define rfg_mma_16x8(d, a, b, dtype)    (RFG_ONLY(RFG_IS_HALF(dtype)), rfg_mma_16x8(d, a, b, dtype))
#endif
#if RFG_HAS_WGMMA
#undef rfg_wg_mma
#define rfg_wg_mma(width, d, rows_a, rows_b, add, dtype)                                                               \
    (RFG_ONLY(RFG_IS_HALF(dtype) || (dtype) == RFG_E4M3 || (dtype) == RFG_E5M2),                                       \
     RFG_WG_NAME(width)(d, rows_a, rows_b, add, dtype))
#endif
