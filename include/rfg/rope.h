/* SPDX-License-Identifier: MIT
 *
 * Rotary position embeddings, writing keys and values to a paged cache, and both in one launch. */
#ifndef RFG_ROPE_H
#define RFG_ROPE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rotation ----------------------------------------------------------------------------------------------------

 * RoPE (Su et al. 2021, arXiv 2104.09864): in each head of D elements R are rotated, in R/2 pairs. Pair i of a token at
 * position p turns by the angle whose cosine and sine are in row p of cos_sin:
 *
 *   c = cos_sin[p, i], s = cos_sin[p, R/2 + i]
 *   a' = a c - b s,  b' = b c + a s
 *
 * with (a, b) elements (i, i + R/2) of the R (NeoX, Hugging Face's Llama), or (2i, 2i + 1) (GPT-J, DeepSeek's MLA).
 * The R are the first of a head, the last ("nope first"), or those from `offset` on; the other D - R stay as they are.
 *
 * Several position axes (mRoPE: time, height, width of a picture's tokens): positions are [A,T], A = 2 to 4, and each
 * pair goes by one axis. There are A sections, which sum to R/2. Chunked (Qwen2-VL): the first sections[0] pairs go by
 * axis 0, the next sections[1] by axis 1, and so on. Interleaved (Qwen3-VL, A = 3): pair i goes by axis i % 3 if
 * i < 3 sections[i % 3], else by axis 0.
 *
 * All arithmetic is in fp32, whatever the table's dtype; results are rounded once, to nearest even. (Engines' reference
 * code casts the table to the model's dtype, and rounds products, so results may differ by ulps of that dtype. A table
 * of the model's dtype removes the first difference.) A position that isn't a row of the table (negative, or too large)
 * counts as a row of NaN: what is rotated by it becomes NaN, and nothing outside of the table is read. */
typedef struct rfg_rope_params {
    size_t size;               /* sizeof(rfg_rope_params): see rfg/core.h. All other members may be zero */
    int32_t gptj;              /* 0: pairs (i, i + R/2); not 0: (2i, 2i + 1) */
    int32_t last;              /* 0: the first R elements of a head are rotated; not 0: the last R */
    int32_t backward;          /* not 0: by minus the angle, which is what gradients are turned by */
    int32_t mrope_interleaved; /* with positions [3,T]: not 0: pair i goes by axis i % 3 */
    int32_t sections[4];       /* with positions [A,T]: pairs of each axis; those not used are not looked at */
    int32_t offset;            /* element of a head that the R begin at: 0 to D - R; above 0 only with last 0 */
    int32_t reserved;          /* 0 */
} rfg_rope_params;
#define RFG_ROPE_PARAMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(rfg_rope_params), 0, 0, 0, 0, { 0, 0, 0, 0 }, 0, 0                                                      \
    }

/* q_out = q rotated, k_out = k rotated.
 *
 *   q_out      [T,Hq,D]     q's dtype; or NULL, with q NULL as well
 *   k_out      [T,Hkv,D]    the same; or NULL, with k NULL as well: then there is one of them
 *   q          [T,Hq,D]     bf16, fp16 or f32; any strides, unit in the last dimension: so views of a fused QKV buffer
 *   k          [T,Hkv,D]    q's dtype
 *   cos_sin    [maxpos,R]   f32 or q's dtype; R even, 2 to D; row stride >= R, unit column stride: rfg_rope_table()
 *   positions  [T] or [A,T] int32 or int64, unit stride in the last dimension; read by the device, not by the host
 *   params     or NULL: NeoX, the first R, forward
 *
 * T = 0 (or no heads) does nothing. D <= 8192. T (Hq + Hkv) <= 2^31 - 1, and from a token's first head to its last are
 * as many elements at most. Pointers must be aligned to their element's size; pointers and strides that are whole
 * multiples of 16 bytes are fast.
 * Aliasing: q_out may be q itself (same address, shape, strides) and k_out k: in place, what isn't rotated is then not
 * touched. No element of an output may lie anywhere else in another tensor of the call (refused): q and k may lie in
 * one buffer, interleaved as they are in a fused QKV, and be rotated there. NaN and infinity propagate as IEEE
 * arithmetic in fp32 does; elements that aren't rotated keep their bits. Asynchronous, legal in captured graphs whose
 * positions change between replays, bitwise reproducible; errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "rope bf16,i64->bf16 T=64 D=128 Hq=32 Hkv=8" (q, positions -> q_out). Its keys:
 *   R=                  rotated elements of a head, if not D
 *   pairs=gptj, last=1  as in params
 *   offset=             as in params, if it is neither 0 nor D - R (which is last=1)
 *   axes=               A of positions [A,T]
 *   mrope=interleaved   as in params
 *   table=f32           dtype of cos_sin, if it is not q's
 *   inplace=1           layout: q_out is q and k_out is k
 *   align=              layout: alignment of pointers and strides
 *   backward=1          layout: as in params
 *   qkv=                layout, for tests: how q, k and v are laid out
 *   overlap=1           see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_rope(rfg_context *ctx, const rfg_tensor *q_out, const rfg_tensor *k_out,
                                             const rfg_tensor *q, const rfg_tensor *k, const rfg_tensor *cos_sin,
                                             const rfg_tensor *positions, const rfg_rope_params *params,
                                             rfg_stream stream);

/* ---- the cache --------------------------------------------------------------------------------------------------- */

typedef struct rfg_kv_append_params {
    size_t size; /* sizeof(rfg_kv_append_params): see rfg/core.h. All other members may be zero */
    /* With caches of codes: what a code times the scale stands for. [1] f32, or [Hkv] for a scale a head, above 0 and
     * finite; NULL: 1. Read by the device. Or outputs: [blocks,page,Hkv] f32, any strides, both: a scale for each token
     * and head, which is made of what is written (below). */
    const rfg_tensor *k_scale, *v_scale;
} rfg_kv_append_params;
#define RFG_KV_APPEND_PARAMS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(rfg_kv_append_params), NULL, NULL                                                                       \
    }

/* Writes tokens' keys and values to where rfg_op_mha_decode() reads them (vLLM's reshape_and_cache).
 *
 *   k_cache  [blocks,page,Hkv,D]   k's dtype, or e4m3, e4m3fnuz, e5m2; or, with a scale a token and head, i8, i4; any
 *                                  strides, unit in the last dimension: so [blocks,Hkv,page,D] too, and K beside V
 *                                  ([blocks,Hkv,page,2D]) by views of it.
 *                                  Or vLLM's older form, with x = 16 bytes' worth of elements: [blocks,Hkv,D/x,page,x]
 *   v_cache  [blocks,page,Hkv,Dv]  k_cache's dtype; in the older form [blocks,Hkv,Dv,page]
 *   k, v     [T,Hkv,D], [..,Dv]    bf16 or fp16; any strides, unit in the last dimension
 *   slots    [T] int64             token t's row: block slots[t] / page, row slots[t] % page of it; -1, and any other
 *                                  that is no row of the cache: the token is left out. Read by the device, not by the
 *                                  host
 *   params   or NULL: scales of 1
 *
 * page: up to 2^20. Without a change of dtype bits are copied, NaN's too. 8-bit codes are x / scale
 * (fp32, by the scale's reciprocal) to nearest even, saturating: infinities become the largest number, a NaN a NaN. Two
 * tokens with one slot: its row is then one's or the other's, or a mixture. Rows of no slot are not touched. T = 0 does
 * nothing. Aliasing: no element of a cache may lie anywhere else in another tensor of the call (refused); the two
 * caches may lie in one buffer, interleaved. D, Dv <= 8192; T 2 Hkv <= 2^31 - 1, and so many elements from a row's
 * first head to its last. All else as rfg_op_rope().
 *
 * A scale for each token and head is vLLM 0.28's form (int8_per_token_head, fp8_per_token_head, int4_per_token_head of
 * its Triton attention). Of a head's elements x, from lo = min(0, x) to hi = max(0, x):
 *
 *   e4m3, e4m3fnuz, e5m2, i8   s = max(max(hi, -lo) / M, 1e-6), M the dtype's largest (448, 240, 57344, 127); code x / s
 *   i4     s = max((hi - lo) / 15, 1e-6), its last 4 bits cleared; zero z = min(round(-lo / s), 15), which the last 4 bits
 *          of s then hold; code round(x / s) + z, from 0 to 15, not -8 to 7; it stands for (code - z) s. D and Dv are even
 *
 * vLLM's int8 codes are cut off towards 0, these rounded; and its i4's lo and hi need not include 0. It lays a head's
 * scale behind its codes ([blocks,Hkv,page, K D | s | V D | s] bytes): these tensors are then views of that buffer. With
 * int4 it also turns q, k and v by a Hadamard transform before, and the attention's output back: that is the caller's.
 * A NaN doesn't count for the scale: its code is a NaN, or what stands for 0. A head with an infinity has an infinite
 * scale.
 *
 * Problem string: "kv_append bf16->e4m3 T=64 D=128 Hkv=8 page=16 scales=tensor" (k -> k_cache). Its keys:
 *   Dv=      elements of a head of v, if not D
 *   scales=  of caches of codes: tensor, head, token (each token and head)
 *   form=    layout: vllm is vLLM's older form; hnd, packed and gaps are for tests */
RFG_API RFG_NODISCARD rfg_status rfg_op_kv_append(rfg_context *ctx, const rfg_tensor *k_cache,
                                                  const rfg_tensor *v_cache, const rfg_tensor *k, const rfg_tensor *v,
                                                  const rfg_tensor *slots, const rfg_kv_append_params *params,
                                                  rfg_stream stream);

/* ---- both in one launch ------------------------------------------------------------------------------------------ */

typedef struct rfg_rope_append_params {
    size_t size;                 /* sizeof(rfg_rope_append_params): see rfg/core.h */
    const rfg_rope_params *rope; /* NULL: NeoX, the first R, forward */
    /* Weights of the RMSNorm of each head, [D], q's dtype or f32, both or neither; NULL: no norm. */
    const rfg_tensor *q_norm, *k_norm;
    float eps;                           /* of the norm: at least 2^-126, finite; 0: 1e-6 */
    int32_t one_plus_weight;             /* of it, not 0: weights are 1 + w (Gemma) */
    const rfg_tensor *k_scale, *v_scale; /* as rfg_kv_append_params has them, outputs too */
} rfg_rope_append_params;
#define RFG_ROPE_APPEND_PARAMS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(rfg_rope_append_params), NULL, NULL, NULL, 0, 0, NULL, NULL                                             \
    }

/* All steps between a layer's QKV projection and its attention, in one launch: q and k are normalised per head (with
 * q_norm and k_norm; Qwen3, Gemma 3) and rotated; q is written to q_out, k and v to their slots of the caches.
 *
 *   n = x / sqrt(mean(x^2) + eps) * weight         over the head's D elements
 *   q_out = rope(n(q)),  k_cache[slot] = rope(n(k)) / k_scale,  v_cache[slot] = v / v_scale
 *
 *   q_out               [T,Hq,D]  q's dtype; may be q itself
 *   k_cache, v_cache    as rfg_op_kv_append() has them
 *   q, k, v             [T,Hq,D], [T,Hkv,D], [T,Hkv,Dv], bf16 or fp16, all of one dtype: views of a fused QKV
 *                       buffer, or tensors of their own; k and v are not changed
 *   cos_sin, positions  as rfg_op_rope() has them
 *   slots               [T] int64, as rfg_op_kv_append() has them; the q of a token without one is rotated all the same
 *
 * From loading x to storing results all is fp32: one rounding, to nearest even, of what goes to q_out or a cache in the
 * dtype (8-bit caches: codes are of the fp32 value, by the scale's reciprocal; no 16-bit rounding before). Engines'
 * unfused chains round after the norm, too. The reciprocal square root is the device's, good to two ulps.
 * All else as the two above. Problem string, with the keys of both:
 * "rope_append bf16,i64->bf16 T=64 D=128 Hq=32 Hkv=8 page=16 norm=w" (q, positions -> k_cache).
 *   norm=      w, 1+w
 *   wtype=f32  dtype of the norms' weights, if it is not q's */
RFG_API RFG_NODISCARD rfg_status rfg_op_rope_append(rfg_context *ctx, const rfg_tensor *q_out,
                                                    const rfg_tensor *k_cache, const rfg_tensor *v_cache,
                                                    const rfg_tensor *q, const rfg_tensor *k, const rfg_tensor *v,
                                                    const rfg_tensor *cos_sin, const rfg_tensor *positions,
                                                    const rfg_tensor *slots, const rfg_rope_append_params *params,
                                                    rfg_stream stream);

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* How positions become angles: pair i of R/2 turns by p f(i), with t(i) = theta^(-2i / R) where there is no scaling.
 * The names are config.json's rope_type; formulas are those of transformers (modeling_rope_utils, 5.24), which
 * vLLM shares but where it is said below. */
typedef enum rfg_rope_scaling {
    RFG_ROPE_DEFAULT = 0, /* f = t (Su et al. 2021) */
    RFG_ROPE_LINEAR,      /* f = t / factor (position interpolation, Chen et al. 2023, arXiv 2306.15595) */
    /* Llama 3.1 (Meta's llama-models, apply_scaling()): with the wavelength w = 2 pi / t:
     * w < original / high_freq_factor: f = t; w > original / low_freq_factor: f = t / factor;
     * between: g = (original / w - low_freq_factor) / (high_freq_factor - low_freq_factor),
     * f = (1 - g) t / factor + g t */
    RFG_ROPE_LLAMA3,
    /* YaRN (Peng et al. 2023, arXiv 2309.00071): f = t ((1 - m) / factor + m), m = 1 - ramp(i) with ramp from 0 at pair
     * d(beta_fast) to 1 at pair d(beta_slow), d(b) = R ln(original / (2 pi b)) / (2 ln theta), rounded down and up
     * unless `untruncated` (gpt-oss), the first at least 0, the second at most R - 1 (of pairs, of which there are R/2:
     * as the paper's code has it); cos and sin are multiplied with the attention factor */
    RFG_ROPE_YARN,
    /* "dynamic", NTK-aware: f = t with theta (factor L / original - (factor - 1))^(R / (R - 2)) in place of theta, L =
     * max(length, original). So there is a table for each length: transformers makes one for the longest sequence so
     * far, vLLM one for factor * original positions */
    RFG_ROPE_DYNAMIC,
    /* LongRoPE (Ding et al. 2024, arXiv 2402.13753; Phi-3, Phi-4): f(i) = t(i) / long_factor[i] if length > original,
     * else t(i) / short_factor[i]: the length is a sequence's in transformers, max_model_len in vLLM; cos and sin are
     * multiplied with the attention factor */
    RFG_ROPE_LONGROPE,
    /* Gemma 4: R is the whole head. f = t / factor for the first floor(partial_rotary_factor R / 2) pairs, 0 for the
     * others, whose cosine is 1 */
    RFG_ROPE_PROPORTIONAL,
} rfg_rope_scaling;

/* The members as config.json's rope_scaling (rope_parameters) has them. All but size and theta may be zero, which
 * stands for: */
typedef struct rfg_rope_table_params {
    size_t size;              /* sizeof(rfg_rope_table_params): see rfg/core.h */
    rfg_rope_scaling scaling; /* "rope_type" */
    /* "original_max_position_embeddings" ("max_position_embeddings" of dynamic): above 0 for llama3, yarn and dynamic,
     * above 1 for longrope */
    int32_t original;
    double theta; /* "rope_theta": above 1 (0: 10000) */
    /* "factor": at least 1 (0: 1). Of longrope it is for the attention factor alone: max_position_embeddings /
     * original, where config.json has none. */
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 (0: 1 and 4); the latter is the larger */
    double beta_fast, beta_slow;              /* yarn (0: 32 and 1) */
    /* yarn, longrope: of cos and sin. 0: yarn: from the next two; longrope: sqrt(1 + ln(factor) / ln(original)).
     * (vLLM's attn_factor multiplies what is computed, and apply_yarn_scaling false is 1: give the product.) */
    double attention_factor;
    /* yarn, DeepSeek: get(mscale) / get(mscale_all_dim) with get(m) = 0.1 m ln(factor) + 1 (1 for factor 1); without
     * both the attention factor is get(1). (vLLM has mscale alone as get(mscale): give attention_factor.) The softmax
     * scale's own get(mscale_all_dim)^2 is the caller's. */
    double mscale, mscale_all_dim;
    int64_t first;       /* position of the table's first row: 0, but for a part of a table */
    int32_t untruncated; /* yarn: not 0: ramp's ends are not rounded ("truncate": false) */
    int32_t reserved;    /* 0 */
    /* dynamic, longrope: tokens of the longest sequence that uses the table, at least first + maxpos, which 0 stands
     * for. Keys are rotated once: tables of two lengths don't mix in a sequence. */
    int64_t length;
    double partial_rotary_factor;                 /* proportional: above 0, at most 1 (0: 1). Others: R says it */
    const rfg_tensor *short_factor, *long_factor; /* longrope: [R/2] f32 each, in host memory: finite, above 0 */
    double short_mscale, long_mscale; /* longrope: attention factor of either (Phi-3.5-MoE; 0: attention_factor) */
} rfg_rope_table_params;
#define RFG_ROPE_TABLE_PARAMS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(rfg_rope_table_params), RFG_ROPE_DEFAULT, 0, 10000, 1, 1, 4, 32, 1, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, \
            0, 0                                                                                                       \
    }

/* Fills a table in HOST memory (rfg_device_copy() brings it to a device), computed in double and rounded once:
 * table[r, i] = m cos((first + r) f(i)), table[r, R/2 + i] = m sin((first + r) f(i)), m the attention factor.
 *
 *   table   [maxpos,R]  f32, bf16 or f16; R even; row stride >= R, unit column stride; gaps between rows are
 *                       not written
 *   params  or NULL: no scaling, theta 10000
 *
 * (Frameworks take f(i) in fp32, and so angles that are off by up to 2^-24 of them: at position 100,000 by 0.006.)
 * NTK-aware scaling by a fixed alpha (Hunyuan) is the default with theta alpha^(R / (R - 2)) as theta.
 * Errors: INVALID_ARGUMENT (dtype, shape, strides; a number of params out of its range; length, partial_rotary_factor,
 * factors or mscales of another scaling; the table over its factors). On an error nothing was written. */
RFG_API RFG_NODISCARD rfg_status rfg_rope_table(const rfg_tensor *table, const rfg_rope_table_params *params);

#ifdef __cplusplus
}
#endif
#endif
