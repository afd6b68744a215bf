/* SPDX-License-Identifier: MIT
 *
 * Values times weights by matrix instructions with both straight from registers: O[16,Q] += V[16 tokens, 16]^T P[Q,
 * 16]^T. V is the instruction's A, transposed; P comes as rfg_frag_mma_wx() left it: tokens are its rows, queries its
 * columns.
 *
 * Row r of block j of O stands for an element of V's rows that a lane has: all that a lane holds of a token lies in
 * pieces of PIECE neighbouring elements, the pieces of all lanes of a row one behind the other. Macros: DV, KV_DTYPE,
 * DTYPE. A matrix instruction takes any tokens in any order, if V and P agree: pv_token(i) is the i-th that a lane has
 * of V. */
#if RFG_NVIDIA
#define Q_TILE       8
#define V_ROWS       2 /* of O's 16 in each lane */
#define PV_TOKENS    4
#define O_FLOATS     4
#define LANE_QUERIES 2
#else
#define Q_TILE       16
#define V_ROWS       1
#define PV_TOKENS    (RFG_MFMA ? 4 : RFG_WMMA12 ? 8 : 16)
#define O_FLOATS     RFG_FRAG_C
#define LANE_QUERIES 1
#endif
#define STEP       16 /* tokens */
#define BLOCKS     (DV / 16)
#define V_ELEMENTS (V_ROWS * BLOCKS) /* of a token in a lane */
#define KV_BYTES   RFG_DTYPE_BYTES(KV_DTYPE)
#define KV_SMALL   (KV_BYTES == 1)
/* What is multiplied: 8-bit keys and values as fp16, which takes an instruction where bf16 takes four; queries with
 * them. */
#define MMA_DTYPE   (KV_SMALL ? RFG_F16 : DTYPE)
#define FITS(n)     (V_ELEMENTS % (n) == 0 && (n)*KV_BYTES <= 16)
#define PIECE       (FITS(16) ? 16 : FITS(8) ? 8 : FITS(4) ? 4 : 2)
#define PIECES      (V_ELEMENTS / PIECE)
#define LANES_A_ROW (16 / V_ROWS)
#define P_WORDS     (PV_TOKENS / 2)

/* Which of the LANES_A_ROW lanes of a token this one is. */
RFG_DEVICE int pv_lane(void)
{
#if RFG_NVIDIA
    return rfg_lane() / 4;
#else
    return rfg_lane() % 16;
#endif
}
RFG_DEVICE int pv_token(int i)
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
/* The element of V that is a lane's e-th. */
RFG_DEVICE int pv_element(int lane, int e)
{
    return e / PIECE * (LANES_A_ROW * PIECE) + lane * PIECE + e % PIECE;
}

/* ---- 8-bit codes as 16-bit numbers ------------------------------------------------------------------------------ */

RFG_DEVICE rfg_u32 bytes_of(rfg_u32 a, rfg_u32 b, rfg_u32 which)
{
#if RFG_NVIDIA
    return __byte_perm(a, b, which);
#else
    /* v_perm counts from its second operand. */
    rfg_u32 s = (which & 0x7) | (which & 0x70) << 4 | (which & 0x700) << 8 | (which & 0x7000) << 12;
    return __builtin_amdgcn_perm(b, a, s);
#endif
}

/* Two codes, in the upper bytes of u's halves, as fp16. e5m2 is fp16 cut short. e4m3 has its exponent a bit lower, and
 * another bias, which a product settles, exactly, for subnormals too. */
RFG_DEVICE rfg_u32 small_to_f16x2(rfg_u32 u)
{
#if KV_DTYPE == RFG_E5M2
    return u;
#else
    rfg_u32 h = (u & 0x80008000u) | (u >> 1 & 0x3f803f80u);
#if RFG_NVIDIA
    rfg_u32 scale = KV_DTYPE == RFG_E4M3 ? 0x5c005c00u : 0x58005800u, r; /* 2^8, 2^7 */
    asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(h), "r"(scale));
    return r;
#else
    typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
    f16x2 scale = { KV_DTYPE == RFG_E4M3 ? 256 : 128, KV_DTYPE == RFG_E4M3 ? 256 : 128 };
    return __builtin_bit_cast(rfg_u32, __builtin_bit_cast(f16x2, h) * scale);
#endif
#endif
}
/* Four codes. */
RFG_DEVICE rfg_u32x2 small_to_f16x4(rfg_u32 u)
{
    rfg_u32x2 r;
#if RFG_NVIDIA && KV_DTYPE == RFG_E4M3 && __CUDA_ARCH__ >= 890
    asm("{\n.reg .b16 lo, hi;\nmov.b32 {lo, hi}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, lo;\ncvt.rn.f16x2.e4m3x2 %1, hi;\n}"
        : "=r"(r.x), "=r"(r.y)
        : "r"(u));
#else
    r.x = small_to_f16x2(bytes_of(u, 0, 0x1404));
    r.y = small_to_f16x2(bytes_of(u, 0, 0x3424));
#endif
    return r;
}

/* ---- loads ------------------------------------------------------------------------------------------------------ */

/* What no kernel writes meanwhile, at an address that is all lanes': a scalar load, which AMD's compiler would not make
 * of it behind a barrier. */
RFG_DEVICE rfg_u32 load_uniform(const int *p)
{
#if RFG_AMD
    return *(const __attribute__((address_space(4))) rfg_u32 *)(rfg_u64)p;
#else
    return rfg_load4(p);
#endif
}

/* The compiler shall not take apart how p was made: constants are added to it by the loads themselves. */
RFG_DEVICE const char *fixed(const char *p)
{
#if RFG_NVIDIA
    asm("" : "+l"(p));
#endif
    return p;
}

/* Of the table. What fixed() returns could be anywhere, as NVIDIA's compiler sees it. */
RFG_DEVICE int load_entry(const int *p)
{
#if RFG_NVIDIA
    int v;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
#else
    return (int)rfg_load4(p);
#endif
}

/* Streamed, into v; if !on v stays as it is. On NVIDIA without a branch: what is loaded to stays where it is. (On AMD
 * the callers branch, and `on` is true here.) */
#if RFG_NVIDIA
/* Not .nc in clusters: such loads would be moved behind the barrier that is waited for meanwhile. */
#if CLUSTER > 1
#define LOAD_STREAM "ld.global.L1::no_allocate.L2::128B"
#else
#define LOAD_STREAM "ld.global.nc.L1::no_allocate.L2::128B"
#endif
#define STREAM_IF(how) "{\n.reg .pred p;\nsetp.ne.s32 p, %" how ", 0;\n@p " LOAD_STREAM
RFG_DEVICE void load16_if(rfg_u32x4 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("5") ".v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "+r"(v->x), "+r"(v->y), "+r"(v->z), "+r"(v->w)
                 : "l"(p), "r"((int)on));
}
RFG_DEVICE void load8_if(rfg_u32x2 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("3") ".v2.u32 {%0, %1}, [%2];\n}" : "+r"(v->x), "+r"(v->y) : "l"(p), "r"((int)on));
}
RFG_DEVICE void load4_if(rfg_u32 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("2") ".u32 %0, [%1];\n}" : "+r"(*v) : "l"(p), "r"((int)on));
}
#else
RFG_DEVICE void load16_if(rfg_u32x4 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load16_stream(p);
}
RFG_DEVICE void load8_if(rfg_u32x2 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load8(p);
}
RFG_DEVICE void load4_if(rfg_u32 *v, const char *p, bool on)
{
    (void)on;
    *v = rfg_load4(p);
}
#endif

/* 8 elements of a key for each of KEY_STEPS neighbouring parts of D. */
#if KV_SMALL && RFG_NVIDIA && D % 64 == 0
#define KEY_STEPS 2
typedef rfg_u32x4 key_piece;
#define load_key load16_if
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    rfg_u32x2 lo = small_to_f16x4(step % 2 ? k.z : k.x), hi = small_to_f16x4(step % 2 ? k.w : k.y);
    rfg_u32x4 v;
    v.x = lo.x;
    v.y = lo.y;
    v.z = hi.x;
    v.w = hi.y;
    return v;
}
#elif KV_SMALL
#define KEY_STEPS 1
typedef rfg_u32x2 key_piece;
#define load_key  load8_if
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    (void)step;
    rfg_u32x2 lo = small_to_f16x4(k.x), hi = small_to_f16x4(k.y);
    rfg_u32x4 v;
    v.x = lo.x;
    v.y = lo.y;
    v.z = hi.x;
    v.w = hi.y;
    return v;
}
#else
#define KEY_STEPS 1
typedef rfg_u32x4 key_piece;
#define load_key  load16_if
RFG_DEVICE rfg_u32x4 key_of(key_piece k, int step)
{
    (void)step;
    return k;
}
#endif

#define V_LOADED (V_ELEMENTS * KV_BYTES / 4) /* words of a token in a lane, as they come, */
#define V_WORDS  (V_ELEMENTS / 2)            /* and as 16-bit numbers */
#if PIECE * KV_BYTES < 4
#error "DV: must be a multiple of 64 with 8-bit values"
#endif

typedef union value_piece {
    rfg_u32 w[PIECE * KV_BYTES / 4];
#if PIECE * KV_BYTES == 16
    rfg_u32x4 v;
#define load_piece load16_if
#elif PIECE * KV_BYTES == 8
    rfg_u32x2 v;
#define load_piece load8_if
#else
    rfg_u32 v;
#define load_piece load4_if
#endif
} value_piece;
RFG_DEVICE void load_value(value_piece *v, const char *row, bool on)
{
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        load_piece(&v[i].v, row + i * (LANES_A_ROW * PIECE * KV_BYTES), on);
}
#define VALUE_WORD(v, i) ((v)[(i) / (PIECE * KV_BYTES / 4)].w[(i) % (PIECE * KV_BYTES / 4)])

/* ---- O += V^T P^T ----------------------------------------------------------------------------------------------- */

/* The weights of a step (of 16 tokens) in this lane's order for B, from what rfg_frag_wx has. */
/* (Not the prelude's on AMD, which is assembly: the compiler would not look into it for what matrix instructions, which
 * read this next, must wait for.) */
RFG_DEVICE rfg_u32 pack_two(float a, float b)
{
#if RFG_AMD
    if (MMA_DTYPE == RFG_F16) {
        typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
        f16x2 h = { (_Float16)a, (_Float16)b };
        return __builtin_bit_cast(rfg_u32, h);
    }
#if defined(__gfx950__)
    typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
    bf16x2 h = { (__bf16)a, (__bf16)b };
    return __builtin_bit_cast(rfg_u32, h);
#endif
#endif
    return MMA_DTYPE == RFG_F16 ? rfg_pack_f16(a, b) : rfg_pack_bf16(a, b);
}
#if RFG_AMD
/* Weights, which are no negative numbers, and ties go up: which of a bf16's neighbours they go to is of no account. */
RFG_DEVICE rfg_u32 pack_weights(float a, float b)
{
#if !defined(__gfx950__)
    if (MMA_DTYPE != RFG_F16)
        return __builtin_amdgcn_perm(rfg_as_u32(b) + 0x8000u, rfg_as_u32(a) + 0x8000u, 0x07060302u);
#endif
    return pack_two(a, b);
}
#endif
#if RFG_NVIDIA
RFG_DEVICE rfg_u32 transpose_8x8(rfg_u32 u)
{
    rfg_u32 r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(u));
    return r;
}
#endif
RFG_DEVICE void pv_weights(rfg_u32 *p, const float *s)
{
#if RFG_NVIDIA
    p[0] = transpose_8x8(pack_two(s[0], s[1]));
    p[1] = transpose_8x8(pack_two(s[2], s[3]));
#elif RFG_WMMA11
    bool odd = rfg_lane() >= 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        rfg_u32 mine = pack_weights(s[2 * i], s[2 * i + 1]);
        rfg_u32 other = rfg_as_u32(rfg_other_row(rfg_as_float(mine)));
        p[i] = odd ? other : mine;
        p[4 + i] = odd ? mine : other;
    }
#else
#pragma unroll
    for (int i = 0; i < P_WORDS; i++)
        p[i] = pack_weights(s[2 * i], s[2 * i + 1]);
#endif
}

/* A step's values as matrix instructions take them, almost. */
#if KV_SMALL && RFG_NVIDIA
struct values {
    rfg_u32 pair[PV_TOKENS / 2][V_ELEMENTS];
};
/* The bytes of two tokens side by side before they are converted: half the work. */
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES])
{
#pragma unroll
    for (int i = 0; i < PV_TOKENS / 2; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++) {
            rfg_u32 a = VALUE_WORD(in[2 * i], w), b = VALUE_WORD(in[2 * i + 1], w);
            rfg_u32x2 lo = small_to_f16x4(bytes_of(a, b, 0x5140)), hi = small_to_f16x4(bytes_of(a, b, 0x7362));
            v->pair[i][4 * w] = lo.x;
            v->pair[i][4 * w + 1] = lo.y;
            v->pair[i][4 * w + 2] = hi.x;
            v->pair[i][4 * w + 3] = hi.y;
        }
}
/* Element e of tokens 2 i and 2 i + 1. */
RFG_DEVICE rfg_u32 two_tokens(const struct values *v, int i, int e)
{
    return v->pair[i][e];
}
#else
struct values {
    rfg_u32 w[PV_TOKENS][V_WORDS];
};
RFG_DEVICE void values_of(struct values *v, value_piece (*in)[PIECES])
{
#pragma unroll
    for (int i = 0; i < PV_TOKENS; i++)
#pragma unroll
        for (int w = 0; w < V_LOADED; w++) {
#if KV_SMALL
            rfg_u32x2 two = small_to_f16x4(VALUE_WORD(in[i], w));
            v->w[i][2 * w] = two.x;
            v->w[i][2 * w + 1] = two.y;
#else
            v->w[i][w] = VALUE_WORD(in[i], w);
#endif
        }
}
RFG_DEVICE rfg_u32 two_tokens(const struct values *v, int i, int e)
{
    return bytes_of(v->w[2 * i][e / 2], v->w[2 * i + 1][e / 2], e % 2 ? 0x7632 : 0x5410);
}
#endif

RFG_DEVICE void pv_multiply(float (*o)[O_FLOATS], const struct values *v, const rfg_u32 *p, int block)
{
    float *d = o[block];
#if RFG_NVIDIA
    rfg_u32 a0 = two_tokens(v, 0, block), a1 = two_tokens(v, 0, BLOCKS + block);
    rfg_u32 a2 = two_tokens(v, 1, block), a3 = two_tokens(v, 1, BLOCKS + block);
    if (MMA_DTYPE == RFG_F16)
        RFG_MMA_SYNC("f16", d, a0, a1, a2, a3, p[0], p[1]);
    else
        RFG_MMA_SYNC("bf16", d, a0, a1, a2, a3, p[0], p[1]);
#elif RFG_MFMA
    rfg_u32x2 a = { two_tokens(v, 0, block), two_tokens(v, 1, block) }, b = { p[0], p[1] };
    rfg_f32x4 c = { d[0], d[1], d[2], d[3] };
    if (MMA_DTYPE == RFG_F16)
        c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(rfg_f16x4, a), __builtin_bit_cast(rfg_f16x4, b), c,
                                                  0, 0, 0);
    else
        c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(rfg_s16x4, a),
                                                      __builtin_bit_cast(rfg_s16x4, b), c, 0, 0, 0);
    d[0] = c.x;
    d[1] = c.y;
    d[2] = c.z;
    d[3] = c.w;
#else
    rfg_f32x8 c = { d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7] };
#if RFG_WMMA11
    rfg_u32x8 a, b;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        a[i] = two_tokens(v, i, block);
        b[i] = p[i];
    }
    if (MMA_DTYPE == RFG_F16)
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(rfg_f16x16, a),
                                                       __builtin_bit_cast(rfg_f16x16, b), c);
    else
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(rfg_s16x16, a),
                                                        __builtin_bit_cast(rfg_s16x16, b), c);
#else
    rfg_u32x4 a = { two_tokens(v, 0, block), two_tokens(v, 1, block), two_tokens(v, 2, block),
                    two_tokens(v, 3, block) };
    rfg_u32x4 b = { p[0], p[1], p[2], p[3] };
    if (MMA_DTYPE == RFG_F16)
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(rfg_f16x8, a),
                                                             __builtin_bit_cast(rfg_f16x8, b), c);
    else
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(rfg_s16x8, a),
                                                              __builtin_bit_cast(rfg_s16x8, b), c);
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
        d[i] = c[i];
#endif
}

/* The floats of O in a lane: V_ELEMENTS elements, e, for each of O_FLOATS / V_ROWS i: float e / BLOCKS * (O_FLOATS /
 * V_ROWS) + i of block e % BLOCKS. Which element of V and which query that is. */
RFG_DEVICE int o_element(int e, int i)
{
#if RFG_NVIDIA
    (void)i;
    return pv_element(rfg_lane() / 4, e);
#else
    return pv_element(rfg_frag_c_row(i), e);
#endif
}
RFG_DEVICE int o_query(int i)
{
#if RFG_NVIDIA
    return 2 * (rfg_lane() % 4) + i % 2;
#else
    (void)i;
    return rfg_lane() % 16;
#endif
}
/* The row of Q's tile that this lane loads; the largest of its lanes; a number of that row for the lanes of its scores.
 */
RFG_DEVICE int o_row(void)
{
    return RFG_NVIDIA ? rfg_lane() / 4 : rfg_lane() % 16;
}
RFG_DEVICE float over_row(float v)
{
#if RFG_NVIDIA
    v = rfg_max(v, rfg_shuffle_xor(v, 1));
    return rfg_max(v, rfg_shuffle_xor(v, 2));
#else
    v = rfg_max(v, rfg_shuffle_xor(v, 16));
    return RFG_WAVE == 64 ? rfg_max(v, rfg_shuffle_xor(v, 32 & (RFG_WAVE - 1))) : v;
#endif
}
RFG_DEVICE void of_queries(float *to, float v)
{
#if RFG_NVIDIA
    to[0] = __shfl_sync(0xffffffffu, v, rfg_lane() % 4 * 8);
    to[1] = __shfl_sync(0xffffffffu, v, rfg_lane() % 4 * 8 + 4);
#else
    to[0] = v;
#endif
}
/* Over the lanes that have other tokens of the same queries. */
RFG_DEVICE float over_tokens(float v, bool largest)
{
#if RFG_NVIDIA
    v = rfg_join(v, rfg_shuffle_xor(v, 4), largest);
    v = rfg_join(v, rfg_shuffle_xor(v, 8), largest);
#endif
    v = rfg_join(v, rfg_shuffle_xor(v, 16), largest);
#if RFG_WAVE == 64
    v = rfg_join(v, rfg_shuffle_xor(v, 32), largest);
#endif
    return v;
}
