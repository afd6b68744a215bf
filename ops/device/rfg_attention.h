/* SPDX-License-Identifier: MIT
 *
 * What attention asks of an architecture: how the scores S = Q K^T lie in registers, how they become the operand of O
 * += P V without passing through LDS, and a few operations that only attention needs. Not part of rfg_device.h, whose
 * text all tuned rows' source hashes cover.
 *
 * There are two ways to hold S. Decode has few queries, and takes fragments straight from global memory
 * (rfg_frag_mma_wx): tokens are the rows of S, queries its columns, on every architecture. Prefill has tiles in LDS
 * (rfg_frag_mma), and queries are the rows of S on NVIDIA, its columns on AMD: see RFG_S_ROWS. */

#if RFG_AMD && !RFG_F16_WORDS /* gfx1250: rfg_amd.h has it where words of two are computed with */
typedef _Float16 rfg_f16x2 __attribute__((ext_vector_type(2)));
#endif

/* ---- operations of a lane and of a wave -------------------------------------------------------------------------- */

RFG_DEVICE bool rfg_any_lane(bool b)
{
#if RFG_NVIDIA
    return __any_sync(0xffffffffu, b);
#elif RFG_WAVE == 32 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w32)
    return __builtin_amdgcn_ballot_w32(b) != 0;
#elif RFG_WAVE == 64 && defined(__has_builtin) && __has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_ballot_w64(b) != 0;
#else /* LLVM 15 */
    return __builtin_amdgcn_uicmp((rfg_u32)b, 0u, 33) != 0; /* ICMP_NE */
#endif
}

RFG_DEVICE float rfg_log2(float f)
{
#if RFG_NVIDIA
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
    return r;
#elif defined(__has_builtin) && __has_builtin(__builtin_amdgcn_logf)
    return __builtin_amdgcn_logf(f);
#else
    return __builtin_log2f(f);
#endif
}

/* Sets `copy` to the kernel's arguments, of which `args` points to the parameter. AMD's scalar registers do not hold
 * all of attention's arguments from the kernel's start to its end: there they are read from memory again. */
#if RFG_AMD
RFG_DEVICE const void *rfg_kernel_args(void)
{
    rfg_u64 at = (rfg_u64)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(at));
    return (const void *)(const __attribute__((address_space(4))) char *)at;
}
#define RFG_REREAD_ARGS(copy, args) ((void)(args), __builtin_memcpy(&(copy), rfg_kernel_args(), sizeof(copy)))
/* The same by scalar loads, for kernels that have the registers. */
typedef rfg_u32 __attribute__((may_alias)) rfg_any_u32;
RFG_DEVICE void rfg_load_args(rfg_any_u32 *copy, int words)
{
    const __attribute__((address_space(4))) rfg_u32 *args =
        (const __attribute__((address_space(4))) rfg_u32 *)rfg_kernel_args();
#pragma unroll
    for (int i = 0; i < words; i++)
        copy[i] = args[i];
}
#define RFG_RELOAD_ARGS(copy, args) ((void)(args), rfg_load_args((rfg_any_u32 *)&(copy), (int)(sizeof(copy) / 4)))
#else
#define RFG_REREAD_ARGS(copy, args) ((copy) = *(args))
#define RFG_RELOAD_ARGS(copy, args) ((copy) = *(args))
#endif
#define RFG_REREADS_ARGS RFG_AMD /* and what follows from them cheaply is computed again, too */

/* What v is from here on does not matter: nothing copies it. */
#if RFG_AMD
#define rfg_forget(v) asm volatile("" : "=v"(v))
#else
#define rfg_forget(v) ((void)(v))
#endif

/* The same value, of which the compiler does not know that it is: what is computed from it is computed where it is
 * used, and not kept in registers through a loop. */
RFG_DEVICE int rfg_recompute(int v)
{
#if RFG_NVIDIA
    asm volatile("" : "+r"(v));
#elif RFG_WAVE == 32
    asm volatile("" : "+v"(v));
#endif
    return v;
}
RFG_DEVICE int rfg_recompute_lane(void)
{
#if RFG_NVIDIA
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread % RFG_WAVE;
#else
    return rfg_recompute(rfg_lane());
#endif
}
RFG_DEVICE int rfg_recompute_group_x(void)
{
    return RFG_NVIDIA ? rfg_recompute(rfg_group_x()) : rfg_group_x();
}
RFG_DEVICE int rfg_recompute_group_y(void)
{
#if RFG_NVIDIA
    int group;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(group));
    return group;
#else
    return rfg_group_y();
#endif
}
RFG_DEVICE int rfg_recompute_groups_y(void)
{
#if RFG_NVIDIA
    int groups;
    asm volatile("mov.u32 %0, %%nctaid.y;" : "=r"(groups));
    return groups;
#else
    return rfg_groups_y();
#endif
}

/* n, which is the same in all lanes, though AMD's compiler does not know it: a scalar register. */
RFG_DEVICE int rfg_uniform_int(int n)
{
#if RFG_AMD
    n = __builtin_amdgcn_readfirstlane(n);
#endif
    return n;
}

/* A word that no kernel writes meanwhile, at an address that is the same in all lanes. On AMD a scalar load, which the
 * compiler would not make of it behind a barrier. */
RFG_DEVICE rfg_u32 rfg_load4_uniform(const int *p)
{
#if RFG_AMD
    return *(const __attribute__((address_space(4))) rfg_u32 *)(rfg_u64)p;
#else
    return rfg_load4(p);
#endif
}

/* The compiler shall not take apart how p was made: constants are added to it by the loads themselves. NVIDIA only. */
RFG_DEVICE const char *rfg_opaque_pointer(const char *p)
{
#if RFG_NVIDIA
    asm("" : "+l"(p));
#endif
    return p;
}
/* A word of global memory. What rfg_opaque_pointer() returns could be anywhere, as NVIDIA's compiler sees it. */
RFG_DEVICE int rfg_load4_global(const int *p)
{
#if RFG_NVIDIA
    int v;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
#else
    return (int)rfg_load4(p);
#endif
}

/* For a kernel that wants two waves on each of a CU's SIMDs. Without it AMD's compiler, from MI200 on, keeps
 * accumulators in AGPRs and copies them around each matrix instruction. RFG_TWO_WAVES_LIMIT: with more registers of
 * data than that in a lane the copies are better than the spills. */
#if RFG_MFMA && !defined(__gfx908__)
#define RFG_TWO_WAVES __attribute__((amdgpu_waves_per_eu(2)))
#else
#define RFG_TWO_WAVES
#endif
#if RFG_AMD
#define RFG_TWO_WAVES_LIMIT (__clang_major__ < 17 ? 128 : 160)
#endif

/* ---- conversions ---------------------------------------------------------------------------------------------------
 */

/* Two floats as an operand of a matrix instruction that follows. On AMD not by rfg_pack_f16() or rfg_pack_bf16(), which
 * are assembly: the compiler would not see in it what the matrix instruction must wait for. */
RFG_DEVICE rfg_u32 rfg_pack_operand(float lo, float hi, int dtype)
{
#if RFG_AMD
    if (dtype == RFG_F16) {
        rfg_f16x2 v = { (_Float16)lo, (_Float16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
#if defined(__gfx950__)
    typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
    bf16x2 v = { (__bf16)lo, (__bf16)hi };
    return __builtin_bit_cast(rfg_u32, v);
#endif
#endif
    return dtype == RFG_F16 ? rfg_pack_f16(lo, hi) : rfg_pack_bf16(lo, hi);
}

#if RFG_AMD
/* The lower or upper halves of two words. */
RFG_DEVICE rfg_u32 rfg_halves(rfg_u32 lo, rfg_u32 hi, bool upper)
{
    return __builtin_amdgcn_perm(hi, lo, upper ? 0x07060302u : 0x05040100u);
}
#endif
/* The same of probabilities, which are neither negative nor infinite: where there is no instruction for bf16, ties go
 * up, which saves an instruction each. prefill: how prefill has it, decode otherwise; results are the same. (Decode has
 * not been measured with gfx942's single addition of 64 bits, whose lower half does not overflow; and by another call
 * LLVM 15 allocates other registers.) */
RFG_DEVICE rfg_u32 rfg_pack_probabilities(float lo, float hi, int dtype, bool prefill)
{
    (void)prefill;
#if RFG_AMD && !defined(__gfx950__)
    if (dtype == RFG_F16) {
        rfg_f16x2 v = { (_Float16)lo, (_Float16)hi };
        return __builtin_bit_cast(rfg_u32, v);
    }
    if (prefill) {
#if defined(__gfx942__)
        rfg_u64 both = ((rfg_u64)rfg_as_u32(hi) << 32 | rfg_as_u32(lo)) + 0x0000800000008000ull;
        return rfg_halves((rfg_u32)both, (rfg_u32)(both >> 32), true);
#else
        return rfg_halves(rfg_as_u32(lo) + 0x8000u, rfg_as_u32(hi) + 0x8000u, true);
#endif
    }
    return __builtin_amdgcn_perm(rfg_as_u32(hi) + 0x8000u, rfg_as_u32(lo) + 0x8000u, 0x07060302u);
#else
    return rfg_pack_operand(lo, hi, dtype);
#endif
}

/* Of two fp16 in a word: a + b, and a b + c. */
RFG_DEVICE rfg_u32 rfg_add_half2(rfg_u32 a, rfg_u32 b)
{
#if RFG_NVIDIA
    asm("add.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
#else
    return __builtin_bit_cast(rfg_u32, __builtin_bit_cast(rfg_f16x2, a) + __builtin_bit_cast(rfg_f16x2, b));
#endif
}
RFG_DEVICE rfg_u32 rfg_fma_half2(rfg_u32 a, rfg_u32 b, rfg_u32 c)
{
#if RFG_NVIDIA
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));
    return a;
#else
    return __builtin_bit_cast(rfg_u32, __builtin_bit_cast(rfg_f16x2, a) * __builtin_bit_cast(rfg_f16x2, b) +
                                           __builtin_bit_cast(rfg_f16x2, c));
#endif
}

#if RFG_HAS_MMA
/* ---- decode: S = K Q^T by rfg_frag_mma_wx(), O = V^T P^T from registers --------------------------------------------
 */

/* S has 16 tokens as rows (rfg_frag_c_row()) and RFG_FRAG_X_ROWS queries as columns (rfg_frag_c_col()); a lane has
 * scores of RFG_FRAG_WX_COLS queries, element i of query i % RFG_FRAG_WX_COLS.
 *
 * Then O[16,Q] += V[16 tokens, 16]^T P[Q, 16]^T with V as A, transposed, and P as rfg_frag_mma_wx() left it. A matrix
 * instruction takes any tokens in any order if V and P agree: rfg_pv_token(i) is the i-th of RFG_PV_TOKENS that a lane
 * has of V. Of O's 16 rows RFG_PV_ROWS are a lane's; which elements of V they stand for is the caller's choice. */
#if RFG_NVIDIA
#define RFG_FRAG_WX_COLS  2
#define RFG_FRAG_WX_LANES 4 /* the first lanes, which have all queries between them */
#define RFG_PV_ROWS       2
#define RFG_PV_TOKENS     4
#define RFG_PV_O          4 /* floats of O in a lane */
#else
#define RFG_FRAG_WX_COLS  1
#define RFG_FRAG_WX_LANES 16
#define RFG_PV_ROWS       1
#define RFG_PV_TOKENS     (RFG_MFMA ? 4 : RFG_WMMA12 ? 8 : 16)
#define RFG_PV_O          RFG_FRAG_C
#endif

/* rfg_frag_c_col(), for the elements that rfg_frag_mma_wx() has; of O, too. */
RFG_DEVICE int rfg_frag_wx_col(int i)
{
#if RFG_NVIDIA
    return 2 * (rfg_lane() % 4) + i % 2;
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int rfg_pv_token(int i)
{
#if RFG_NVIDIA
    return 2 * (rfg_lane() % 4) + i % 2 + i / 2 * 8;
#elif RFG_MFMA
    return 4 * (rfg_lane() / 16) + i;
#elif RFG_WMMA12
    return 8 * (rfg_lane() / 16) + i;
#else
    return i % 8 * 2 + i / 8;
#endif
}
/* Of the 16 / RFG_PV_ROWS lanes that have a token of V: which one this is, and which one's elements are in float i of
 * O. */
RFG_DEVICE int rfg_pv_lane(void)
{
#if RFG_NVIDIA
    return rfg_lane() / 4;
#else
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int rfg_pv_o_lane(int i)
{
#if RFG_NVIDIA
    (void)i;
    return rfg_lane() / 4;
#else
    return rfg_frag_c_row(i);
#endif
}

#if RFG_NVIDIA
RFG_DEVICE rfg_u32 rfg_transpose_8x8(rfg_u32 u)
{
    rfg_u32 r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(u));
    return r;
}
#endif
/* The probabilities of 16 tokens, from where rfg_frag_mma_wx() has its scores, as B: RFG_PV_TOKENS / 2 words. */
RFG_DEVICE void rfg_pv_probabilities(rfg_u32 *p, const float *s, int dtype)
{
#if RFG_NVIDIA
    p[0] = rfg_transpose_8x8(rfg_pack_operand(s[0], s[1], dtype));
    p[1] = rfg_transpose_8x8(rfg_pack_operand(s[2], s[3], dtype));
#elif RFG_WMMA11
    bool odd = rfg_lane() >= 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        rfg_u32 mine = rfg_pack_probabilities(s[2 * i], s[2 * i + 1], dtype, false);
        rfg_u32 other = rfg_as_u32(rfg_other_row(rfg_as_float(mine)));
        p[i] = odd ? other : mine;
        p[4 + i] = odd ? mine : other;
    }
#else
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS / 2; i++)
        p[i] = rfg_pack_probabilities(s[2 * i], s[2 * i + 1], dtype, false);
#endif
}

/* v: of each two tokens (rfg_pv_token(2 i) and the next one in a word) RFG_PV_ROWS elements, p:
 * rfg_pv_probabilities()'s. */
RFG_DEVICE void rfg_pv_mma(float *o, const rfg_u32 *v, const rfg_u32 *p, int dtype)
{
#if RFG_NVIDIA
    if (dtype == RFG_F16)
        RFG_MMA_SYNC("f16", o, v[0], v[1], v[2], v[3], p[0], p[1]);
    else
        RFG_MMA_SYNC("bf16", o, v[0], v[1], v[2], v[3], p[0], p[1]);
#elif RFG_MFMA
    rfg_u32x2 a = { v[0], v[1] }, b = { p[0], p[1] };
    rfg_f32x4 c = { o[0], o[1], o[2], o[3] };
    if (dtype == RFG_F16)
        c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, a), __builtin_bit_cast(rfg_f16x4, b), c,
                                                  0, 0, 0);
#if !defined(__gfx908__) /* has none of 16 tokens */
    else
        c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, a),
                                                      __builtin_bit_cast(rfg_s16x4, b), c, 0, 0, 0);
#endif
    o[0] = c.x;
    o[1] = c.y;
    o[2] = c.z;
    o[3] = c.w;
#else
    rfg_f32x8 c = { o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7] };
#if RFG_WMMA11
    rfg_u32x8 a, b;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        a[i] = v[i];
        b[i] = p[i];
    }
    if (dtype == RFG_F16)
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(rfg_f16x16, a),
                                                       __builtin_bit_cast(rfg_f16x16, b), c);
    else
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(rfg_s16x16, a),
                                                        __builtin_bit_cast(rfg_s16x16, b), c);
#elif RFG_WMMA32 /* 16 columns more, of zeroes */
    rfg_u32x8 a = { v[0], v[1], v[2], v[3], 0, 0, 0, 0 }, b = { p[0], p[1], p[2], p[3], 0, 0, 0, 0 };
    c = rfg_wmma32(a, b, c, dtype);
#else
    rfg_u32x4 a = { v[0], v[1], v[2], v[3] }, b = { p[0], p[1], p[2], p[3] };
    if (dtype == RFG_F16)
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(rfg_f16x8, a),
                                                             __builtin_bit_cast(rfg_f16x8, b), c);
    else
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(rfg_s16x8, a),
                                                              __builtin_bit_cast(rfg_s16x8, b), c);
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
        o[i] = c[i];
#endif
}

/* The largest of the lanes that load one row of Q (rfg_frag_row(0)), in all of them. */
RFG_DEVICE float rfg_frag_x_max(float v)
{
#if RFG_NVIDIA
    v = rfg_max(v, rfg_shuffle_xor(v, 1));
    return rfg_max(v, rfg_shuffle_xor(v, 2));
#else
    v = rfg_max(v, rfg_shuffle_xor(v, 16));
    return RFG_WAVE == 64 ? rfg_max(v, rfg_shuffle_xor(v, 32 & (RFG_WAVE - 1))) : v;
#endif
}
#if RFG_NVIDIA
/* Their sum. */
RFG_DEVICE float rfg_frag_x_sum(float v)
{
    v += rfg_shuffle_xor(v, 1);
    return v + rfg_shuffle_xor(v, 2);
}
#endif
/* A number of the row of Q that a lane loads, for the RFG_FRAG_WX_COLS queries that it has scores of. */
RFG_DEVICE void rfg_frag_x_to_cols(float *to, float v)
{
#if RFG_NVIDIA
    to[0] = __shfl_sync(0xffffffffu, v, rfg_lane() % 4 * 8);
    to[1] = __shfl_sync(0xffffffffu, v, rfg_lane() % 4 * 8 + 4);
#else
    to[0] = v;
#endif
}
/* The largest, or the sum, over the lanes that have other tokens of the same queries. */
RFG_DEVICE float rfg_frag_wx_reduce(float v, bool largest)
{
#if RFG_NVIDIA
    v = rfg_combine(v, rfg_shuffle_xor(v, 4), largest);
    v = rfg_combine(v, rfg_shuffle_xor(v, 8), largest);
#endif
    v = rfg_combine(v, rfg_shuffle_xor(v, 16), largest);
#if RFG_WAVE == 64
    v = rfg_combine(v, rfg_shuffle_xor(v, 32), largest);
#endif
    return v;
}

/* ---- prefill: S by rfg_frag_mma() from tiles in LDS
 * ------------------------------------------------------------------ */

/* A lane has scores of RFG_S_ROWS queries in a fragment. NVIDIA: S = Q K^T, queries are rows. AMD: S = K Q^T, queries
 * are columns, one a lane; keys lie in LDS in the order of rfg_s_place(), so that a lane's elements belong to
 * consecutive keys, which is what a lane of the next B holds of consecutive k (RDNA 3: with the other half wave's
 * beside it). V's rows d, which are transposed on their way into LDS, lie in the same order, so that a lane ends with
 * consecutive d. */
#if RFG_NVIDIA
#define RFG_S_ROWS 2
#else
#define RFG_S_ROWS 1
#endif
#if RFG_MFMA
#define RFG_S_SUMS 2 /* a query's sum in a lane is kept as two, of every other probability: packed additions */
#else
#define RFG_S_SUMS 1
#endif

/* The query, of a wave's 16 a fragment, that the lane's query `half` of a fragment is. */
RFG_DEVICE int rfg_s_query(int lane, int frag, int half)
{
#if RFG_NVIDIA
    return 16 * frag + lane / 4 + 8 * half;
#else
    (void)half;
    return 16 * frag + lane % 16;
#endif
}
/* Which of its lane's queries element e is of. */
RFG_DEVICE int rfg_s_half(int e)
{
#if RFG_NVIDIA
    return e / 2 % 2;
#else
    (void)e;
    return 0;
#endif
}
/* The key, of a tile's, that element e of a lane's fragment `block` is of: the sum of a part that depends on the lane
 * and of one that does not. AMD, with d for key: what it is of the output. */
RFG_DEVICE int rfg_s_lane_key(int lane)
{
#if RFG_NVIDIA
    return 2 * (lane % 4);
#else
    return 8 * (lane / 16);
#endif
}
RFG_DEVICE int rfg_s_key(int block, int e)
{
#if RFG_NVIDIA
    return 16 * block + e % 2 + 8 * (e / 4);
#elif RFG_MFMA
    return 32 * (block / 2) + 4 * (block % 2) + e;
#else
    return 16 * block + e;
#endif
}
/* The largest, or the sum, over the lanes that share a query. */
RFG_DEVICE float rfg_s_reduce(float v, bool largest)
{
#if RFG_NVIDIA
    v = rfg_combine(v, rfg_shuffle_xor(v, 1), largest);
    v = rfg_combine(v, rfg_shuffle_xor(v, 2), largest);
#else
    v = rfg_combine(v, rfg_other_row(v), largest);
#if RFG_WAVE == 64
    v = rfg_combine(v, rfg_shuffle_xor(v, 32), largest);
#endif
#endif
    return v;
}

#if RFG_AMD
/* The row of a tile in LDS where a key, or d, lies. */
RFG_DEVICE int rfg_s_place(int key)
{
#if RFG_MFMA
    return (key & ~31) | (key & 4) << 2 | (key & 24) >> 1 | (key & 3);
#elif RFG_WMMA11
    return (key & ~15) | (key & 7) << 1 | (key & 8) >> 3;
#else
    return key;
#endif
}
/* rfg_frag_chunk(i) of a lane. */
RFG_DEVICE int rfg_frag_lane_chunk(int lane, int i)
{
    return RFG_WMMA11 ? i : lane / 16 + 2 * i;
}
/* Is it worth reading fragments from LDS ahead of the product that takes them? (LLVM 15 would spill registers.) */
#define RFG_FRAG_AHEAD (RFG_MFMA && __clang_major__ >= 16)

/* The probabilities of 32 keys, two fragments of S, as B. */
RFG_DEVICE void rfg_s_probabilities(rfg_frag_ab *to, const rfg_frag_c *s, int dtype)
{
#if RFG_MFMA
    to->v[0].x = rfg_pack_probabilities(s[0].v[0], s[0].v[1], dtype, true);
    to->v[0].y = rfg_pack_probabilities(s[0].v[2], s[0].v[3], dtype, true);
    to->v[0].z = rfg_pack_probabilities(s[1].v[0], s[1].v[1], dtype, true);
    to->v[0].w = rfg_pack_probabilities(s[1].v[2], s[1].v[3], dtype, true);
#else
#pragma unroll
    for (int j = 0; j < 2; j++) {
        rfg_u32x4 mine;
        mine.x = rfg_pack_probabilities(s[j].v[0], s[j].v[1], dtype, true);
        mine.y = rfg_pack_probabilities(s[j].v[2], s[j].v[3], dtype, true);
        mine.z = rfg_pack_probabilities(s[j].v[4], s[j].v[5], dtype, true);
        mine.w = rfg_pack_probabilities(s[j].v[6], s[j].v[7], dtype, true);
#if RFG_WMMA12
        to->v[j] = mine;
#else
        bool upper = rfg_lane() >= 16;
        rfg_u32x4 other;
        other.x = rfg_as_u32(rfg_other_row(rfg_as_float(mine.x)));
        other.y = rfg_as_u32(rfg_other_row(rfg_as_float(mine.y)));
        other.z = rfg_as_u32(rfg_other_row(rfg_as_float(mine.z)));
        other.w = rfg_as_u32(rfg_other_row(rfg_as_float(mine.w)));
        to->v[2 * j] = upper ? other : mine;
        to->v[2 * j + 1] = upper ? mine : other;
#endif
    }
#endif
}
#endif
#endif /* RFG_HAS_MMA */
