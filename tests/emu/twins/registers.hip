/* SPDX-License-Identifier: MIT
 *
 * Twins: registers, waits, wait states. Mostly assembly, since compilers don't make these mistakes. */

/* A register that nothing wrote. */
#define UNWRITTEN(v) asm volatile("v_mov_b32 %0, v90" : "=v"(v)::"v90")

TWIN(stored_unwritten, uninitialised_register)
{
    unsigned v;
    EITHER(v = 5, UNWRITTEN(v));
    out[ME] = v + in[ME];
}
TWIN(written_in_a_branch, uninitialised_register)
{
    unsigned v;
    UNWRITTEN(v);
    if (EITHER(true, in[ME] & 1))
        asm volatile("v_mov_b32 %0, 7" : "+v"(v));
    out[ME] = v;
}
TWIN(compared_unwritten, uninitialised_register)
{
    unsigned v;
    EITHER(v = in[ME], UNWRITTEN(v));
    HIDDEN(v);
    if (v > 77)
        out[ME] = 3;
}
TWIN(address_unwritten, uninitialised_register)
{
    unsigned v;
    EITHER(v = 1, UNWRITTEN(v));
    out[ME] = in[v & 255];
}
TWIN(sum_not_begun, uninitialised_register)
{
    float sum;
    EITHER(sum = 0, UNWRITTEN(sum));
    for (int k = 0; k < 4; k++)
        sum += (float)(in[(ME + k) % ITEMS] & 15);
    out[ME] = (unsigned)sum;
}
TWIN(lane_unwritten, uninitialised_register)
{
    unsigned v;
    UNWRITTEN(v);
    if (EITHER(true, TID & 1))
        asm volatile("v_mov_b32 %0, %1" : "+v"(v) : "v"(in[ME]));
    out[ME] = (unsigned)__builtin_amdgcn_ds_bpermute(4 * ((TID ^ 1) & 63), (int)v);
}
TWIN(lane_unwritten_dpp, uninitialised_register)
{
    unsigned v;
    UNWRITTEN(v);
    if (EITHER(true, TID & 1))
        asm volatile("v_mov_b32 %0, %1" : "+v"(v) : "v"(in[ME]));
    out[ME] = (unsigned)__builtin_amdgcn_update_dpp(0, (int)v, 0xb1, 0xf, 0xf, true);
}
TWIN(one_half_written, uninitialised_register)
{
    unsigned v, w;
    UNWRITTEN(w);
    asm volatile("v_fma_mixlo_f16 %0, %1, %1, 0\n" GOOD("v_fma_mixhi_f16 %0, %1, %1, 0\n") "v_mov_b32 %0, %0"
                 : "=&v"(v)
                 : "v"(1.0f));
    out[ME] = v ^ 5;
}
TWIN(scalar_unwritten, uninitialised_register)
{
    unsigned s;
    asm volatile(GOOD("s_mov_b32 s90, 4\n") "s_mov_b32 %0, s90" : "=s"(s)::"s90");
    out[ME] = in[ME] + s;
}
TWIN(branch_unwritten, uninitialised_register)
{
    unsigned s;
    asm volatile(GOOD("s_mov_b32 s90, 4\n") "s_mov_b32 %0, s90" : "=s"(s)::"s90");
    if (s & 1)
        out[ME] = 3;
}
TWIN(bound_unwritten, uninitialised_register)
{
    unsigned v, sum = 0;
    EITHER(v = in[ME] & 7, UNWRITTEN(v));
    HIDDEN(v);
    for (unsigned k = 0; k < (v & 7); k++)
        sum += in[k];
    out[ME] = sum;
}
#if MFMA
typedef _Float16 half4_t __attribute__((ext_vector_type(4)));
typedef float float4_t __attribute__((ext_vector_type(4)));
TWIN(matrix_sum_not_begun, uninitialised_register)
{
    half4_t a = { 1, 2, 3, 4 };
    float4_t d;
    d = (float4_t){ 0, 0, 0, 0 };
    BAD(UNWRITTEN(d[0]);)
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(a, a, d, 0, 0, 0);
    out[ME] = (unsigned)(int)d[0];
}
#endif

/* ---- a work-item's memory ---- */

TWIN(own_array_unwritten, uninitialised_scratch)
{
    volatile unsigned a[16];
    for (int k = 0; k < EITHER(16, 12); k++)
        a[k] = in[(ME + k) % ITEMS];
    out[ME] = a[in[ME] & 15];
}
TWIN(own_array_last, uninitialised_scratch)
{
    volatile unsigned a[12];
    for (int k = EITHER(0, 1); k < 12; k++)
        a[k] = (unsigned)k;
    unsigned sum = 0;
    for (int k = 0; k < 12; k++)
        sum += a[k];
    out[ME] = sum;
}
TWIN(own_array_too_far, scratch_out_of_bounds)
{
    volatile unsigned a[16];
    for (int k = 0; k < 16; k++)
        a[k] = in[(ME + k) % ITEMS];
    out[ME] = a[(in[ME] & 15) + EITHER(0, 4096 * (n > 0))];
}

/* ---- waits ---- */

#if __GFX11__
#define LOAD1 "global_load_b32 "
#define DS1   "ds_load_b32 "
#define S1    "s_load_b32 "
#else
#define LOAD1 "global_load_dword "
#define DS1   "ds_read_b32 "
#define S1    "s_load_dword "
#endif
/* In SGPRs, at O0 too. */
#define UNIFORM_IN                                                                                                     \
    ((unsigned long long)(unsigned)UNIFORM((int)(unsigned long long)in) |                                              \
     (unsigned long long)(unsigned)UNIFORM((int)((unsigned long long)in >> 32)) << 32)
#define LANE_AT (4 * (unsigned)TID)

TWIN(load_not_awaited, missing_wait)
{
    unsigned v, w;
    asm volatile(LOAD1 "%0, %2, off\n" GOOD("s_waitcnt vmcnt(0)\n") "v_mov_b32 %1, %0"
                 : "=&v"(v), "=&v"(w)
                 : "v"(in + ME));
    out[ME] = w;
}
TWIN(load_awaited_too_little, missing_wait)
{
    unsigned v, u, w;
    asm volatile(LOAD1 "%0, %3, off\n" LOAD1
                       "%1, %3, off offset:4\ns_waitcnt vmcnt(" EITHER("0", "1") ")\n"
                                                                                 "v_mov_b32 %2, %1\ns_waitcnt vmcnt(0)"
                 : "=&v"(v), "=&v"(u), "=&v"(w)
                 : "v"(in + (ME & 511)));
    out[ME] = w + v;
}
TWIN(load_overwritten, missing_wait)
{
    unsigned v;
    asm volatile(LOAD1 "%0, %1, off\n" GOOD("s_waitcnt vmcnt(0)\n") "v_mov_b32 %0, 3\ns_waitcnt vmcnt(0)"
                 : "=&v"(v)
                 : "v"(in + ME));
    out[ME] = v;
}
TWIN(wrong_counter, missing_wait)
{
    unsigned v, w;
    asm volatile(LOAD1 "%0, %2, off\ns_waitcnt " EITHER("vmcnt(0)", "lgkmcnt(0)") "\nv_mov_b32 %1, %0"
                 : "=&v"(v), "=&v"(w)
                 : "v"(in + ME));
    out[ME] = w;
}
TWIN(lds_not_awaited, missing_wait)
{
    __shared__ unsigned s[SIZE];
    unsigned v, w;
    s[TID] = in[ME];
    BARRIER;
    asm volatile(DS1 "%0, %2\n" GOOD("s_waitcnt lgkmcnt(0)\n") "v_mov_b32 %1, %0"
                 : "=&v"(v), "=&v"(w)
                 : "v"(LANE_AT), "v"(s));
    out[ME] = w;
}
TWIN(lds_awaited_too_little, missing_wait)
{
    __shared__ unsigned s[SIZE];
    unsigned v, u, w;
    s[TID] = in[ME];
    BARRIER;
    asm volatile(DS1 "%0, %3\n" DS1
                     "%1, %3\ns_waitcnt lgkmcnt(" EITHER("0", "1") ")\nv_mov_b32 %2, %1\ns_waitcnt lgkmcnt(0)"
                 : "=&v"(v), "=&v"(u), "=&v"(w)
                 : "v"(LANE_AT), "v"(s));
    out[ME] = w + v;
}
TWIN(scalar_load_not_awaited, missing_wait)
{
    unsigned v, w;
    asm volatile(S1 "%0, %2, 0x0\n" GOOD("s_waitcnt lgkmcnt(0)\n") "s_mov_b32 %1, %0"
                 : "=&s"(v), "=&s"(w)
                 : "s"(UNIFORM_IN));
    out[ME] = w;
}
TWIN(scalar_loads_in_order, missing_wait)
{
    unsigned v, u, w;
    asm volatile(S1 "%0, %3, 0x0\n" S1
                    "%1, %3, 0x4\ns_waitcnt lgkmcnt(" EITHER("0", "1") ")\ns_mov_b32 %2, %0\ns_waitcnt lgkmcnt(0)"
                 : "=&s"(v), "=&s"(u), "=&s"(w)
                 : "s"(UNIFORM_IN));
    out[ME] = w + u;
}
TWIN(flat_half_awaited, missing_wait)
{
    unsigned v, w;
#if __GFX11__
    asm volatile(
        "flat_load_b32 %0, %2\ns_waitcnt vmcnt(0)" EITHER(" lgkmcnt(0)", "") "\nv_mov_b32 %1, %0\ns_waitcnt lgkmcnt(0)"
#else
    asm volatile("flat_load_dword %0, %2\ns_waitcnt vmcnt(0)" EITHER(" lgkmcnt(0)",
                                                                     "") "\nv_mov_b32 %1, %0\ns_waitcnt lgkmcnt(0)"
#endif
        : "=&v"(v), "=&v"(w)
        : "v"(in + ME));
    out[ME] = w;
}
TWIN(atomic_not_awaited, missing_wait)
{
    unsigned v, w, one = 1;
#if __gfx942__ || __gfx950__
    asm volatile("global_atomic_add %0, %2, %3, off sc0\n"
#elif __GFX11__
    asm volatile("global_atomic_add_u32 %0, %2, %3, off glc\n"
#else
    asm volatile("global_atomic_add %0, %2, %3, off glc\n"
#endif
                 GOOD("s_waitcnt vmcnt(0)\n") "v_mov_b32 %1, %0\ns_waitcnt vmcnt(0)"
                 : "=&v"(v), "=&v"(w)
                 : "v"(out + ME), "v"(one)
                 : "memory");
    out[ME + ITEMS] = w;
}
TWIN(permute_not_awaited, missing_wait)
{
    unsigned v, w;
    asm volatile("ds_bpermute_b32 %0, %2, %3\n" GOOD("s_waitcnt lgkmcnt(0)\n") "v_mov_b32 %1, %0\ns_waitcnt lgkmcnt(0)"
                 : "=&v"(v), "=&v"(w)
                 : "v"(LANE_AT & 127), "v"(in[ME]));
    out[ME] = w;
}
TWIN(address_not_awaited, missing_wait)
{
    __shared__ unsigned s[SIZE];
    unsigned at, v;
    s[TID] = in[ME];
    BARRIER;
    asm volatile(LOAD1 "%0, %2, off\n" GOOD("s_waitcnt vmcnt(0)\n") "v_and_b32 %0, 0xfc, %0\n" DS1
                                                                    "%1, %0\ns_waitcnt lgkmcnt(0)"
                 : "=&v"(at), "=&v"(v)
                 : "v"(in + ME), "v"(s));
    out[ME] = v;
}
TWIN(stored_before_it_came, missing_wait)
{
    unsigned v;
#if __GFX11__
#define STORE1 "global_store_b32 "
#else
#define STORE1 "global_store_dword "
#endif
    asm volatile(LOAD1 "%0, %1, off\n" GOOD("s_waitcnt vmcnt(0)\n") STORE1 "%2, %0, off\ns_waitcnt vmcnt(0)"
                 : "=&v"(v)
                 : "v"(in + ME), "v"(out + ME)
                 : "memory");
}
#ifdef __OPTIMIZE__ /* else the compiler spills between the two, and waits */
TWIN(data_not_awaited_before_flag, global_race)
{
    unsigned one = 1;
    if (GROUP == 0) {
        if (TID < WAVE) {
            unsigned v = in[TID];
#if __gfx942__ || __gfx950__
#define FLAG_STORE STORE1 "%2, %3, off sc1"
#define DATA_STORE STORE1 "%0, %1, off sc1\n"
#elif __GFX11__
#define FLAG_STORE STORE1 "%2, %3, off"
#define DATA_STORE STORE1 "%0, %1, off\n"
#else
#define FLAG_STORE STORE1 "%2, %3, off"
#define DATA_STORE STORE1 "%0, %1, off\n"
#endif
            asm volatile(DATA_STORE ::"v"(out + TID), "v"(v), "v"(out + ITEMS), "v"(one) : "memory");
#if __GFX11__
            GOOD(asm volatile("s_waitcnt_vscnt null, 0x0" ::: "memory");)
#else
            GOOD(asm volatile("s_waitcnt vmcnt(0)" ::: "memory");)
#endif
            if (TID == 0)
                asm volatile(FLAG_STORE ::"v"(out + TID), "v"(v), "v"(out + ITEMS), "v"(one) : "memory");
        }
    } else if (TID < WAVE) {
        AWAIT(&out[ITEMS], 1);
        out[ME + ITEMS] = out[TID];
    }
}
#endif

/* ---- wait states ---- */

#if MFMA
TWIN(lane_select_too_early, hazard)
{
    unsigned s, v = in[ME] & 31;
    asm volatile("s_nop 0\nv_readfirstlane_b32 s20, %1\n" EITHER("s_nop 3", "s_nop 2") "\nv_readlane_b32 %0, %1, s20"
                 : "=s"(s)
                 : "v"(v)
                 : "s20");
    out[ME] = s;
}
TWIN(quotient_too_early, hazard)
{
    float f = (float)(in[ME] & 15), r;
    asm volatile("v_cmp_gt_f32 vcc, %1, 1.0\n" EITHER("s_nop 3", "s_nop 2") "\nv_div_fmas_f32 %0, %1, %1, %1"
                 : "=v"(r)
                 : "v"(f)
                 : "vcc");
    out[ME] = (unsigned)r;
}
TWIN(dpp_too_early, hazard)
{
    unsigned v, w;
    asm volatile("v_add_u32 %0, 1, %2\n" EITHER(
                     "s_nop 1", "s_nop 0") "\nv_mov_b32_dpp %1, %0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
                 : "=&v"(v), "=&v"(w)
                 : "v"(in[ME]));
    out[ME] = w;
}
TWIN(scalar_for_memory_too_early, hazard)
{
    unsigned v, zero = 0;
    unsigned long long at = (unsigned long long)in;
    asm volatile("s_nop 0\nv_readfirstlane_b32 s20, %2\nv_readfirstlane_b32 s21, %3\n" EITHER(
                     "s_nop 4", "s_nop 3") "\n"
                                           "global_load_dword %0, %1, s[20:21]\ns_waitcnt vmcnt(0)"
                 : "=&v"(v)
                 : "v"(zero), "v"((unsigned)at), "v"((unsigned)(at >> 32))
                 : "s20", "s21");
    out[ME] = v;
}
#if __gfx90a__
#define MATRIX "v_mfma_f32_16x16x16f16 "
#else
#define MATRIX "v_mfma_f32_16x16x16_f16 "
#endif
TWIN(matrix_result_too_early, hazard)
{
    half4_t a = { 1, 2, 3, 4 };
    unsigned w;
    asm volatile("s_nop 1\n" MATRIX "v[40:43], %1, %1, 0\n" EITHER("s_nop 10", "s_nop 2") "\nv_mov_b32 %0, v40"
                 : "=&v"(w)
                 : "v"(a)
                 : "v40", "v41", "v42", "v43");
    out[ME] = w;
}
TWIN(mode_too_early, hazard)
{
    unsigned s;
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_MODE)\ns_setreg_b32 hwreg(HW_REG_MODE), %0\n" EITHER(
                     "s_nop 1", "s_nop 0") "\ns_getreg_b32 %0, hwreg(HW_REG_MODE)"
                 : "=&s"(s));
    out[ME] = s & 1;
}
TWIN(stored_data_overwritten, hazard)
{
    asm volatile("v_mov_b32 v40, %1\nv_mov_b32 v41, 1\nv_mov_b32 v42, 2\nv_mov_b32 v43, 3\n"
                 "global_store_dwordx4 %0, v[40:43], off\n" GOOD(
                     "s_nop 1\n") "v_mov_b32 v41, 0\ns_waitcnt vmcnt(0)" ::"v"(out + 4 * ME),
                 "v"(in[ME])
                 : "memory", "v40", "v41", "v42", "v43");
}
TWIN(exec_before_dpp, hazard)
{
    unsigned v = in[ME], w;
    asm volatile("v_cmpx_ge_u32 exec, %1, %1\n" EITHER(
                     "s_nop 4", "s_nop 3") "\nv_mov_b32_dpp %0, %1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"
                 : "=&v"(w)
                 : "v"(v));
    out[ME] = w;
}
#endif
#if __gfx942__ || __gfx950__
TWIN(root_too_early, hazard)
{
    float f = (float)(in[ME] & 15), r, w;
    asm volatile("v_sqrt_f32 %0, %2\n" GOOD("s_nop 0\n") "v_mul_f32 %1, %0, %0" : "=&v"(r), "=&v"(w) : "v"(f));
    out[ME] = (unsigned)w;
}
TWIN(lane_read_too_early, hazard)
{
    unsigned v, s;
    asm volatile("v_add_u32 %0, 1, %2\n" GOOD("s_nop 0\n") "v_readfirstlane_b32 %1, %0"
                 : "=&v"(v), "=&s"(s)
                 : "v"(in[ME]));
    out[ME] = s;
}
TWIN(half_root_too_early, hazard)
{
    unsigned v = in[ME] & 0x3c00, r, w;
    asm volatile("v_rcp_f16 %0, %2\n" GOOD("s_nop 0\n") "v_add_u32 %1, %0, %0" : "=&v"(r), "=&v"(w) : "v"(v));
    out[ME] = w;
}
#endif
#if __GFX11__
TWIN(transcendental_used, hazard)
{
    float f = (float)(in[ME] & 15), r, w;
    asm volatile("v_sqrt_f32 %0, %2\n" GOOD("s_waitcnt_depctr 0xfff\n") "v_mul_f32 %1, %0, %0"
                 : "=&v"(r), "=&v"(w)
                 : "v"(f));
    out[ME] = (unsigned)w;
}
TWIN(permlane_after_cmpx, hazard)
{
    unsigned v = in[ME], w = v;
    asm volatile("v_cmpx_ge_u32 %1, %1\n" GOOD("v_mov_b32 %1, %1\n") "v_permlane16_b32 %0, %1, 0, 0"
                 : "+v"(w), "+v"(v));
    out[ME] = w;
}
TWIN(matrix_result_as_a, hazard)
{
    typedef _Float16 half16_t __attribute__((ext_vector_type(16)));
    typedef float float8_t __attribute__((ext_vector_type(8)));
    half16_t a = { 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8 };
    float8_t d, e;
    asm volatile("v_wmma_f32_16x16x16_f16 %0, %2, %2, 0\n" GOOD("v_nop\n") "v_wmma_f32_16x16x16_f16 %1, %0, %2, 0"
                 : "=&v"(d), "=&v"(e)
                 : "v"(a));
    out[ME] = (unsigned)(int)(e[0] * 0);
}
#endif
