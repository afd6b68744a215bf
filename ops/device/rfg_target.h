/* SPDX-License-Identifier: MIT
 *
 * Which machine is being compiled for. */
#if defined(__AMDGCN__)
#define RFG_AMD    1
#define RFG_NVIDIA 0
#elif defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
#define RFG_AMD    0
#define RFG_NVIDIA 1
#else
#error "neither an AMD nor an NVIDIA GPU"
#endif

#define RFG_MFMA   0 /* CDNA: gfx908, gfx90a, gfx942, gfx950 */
#define RFG_WMMA11 0 /* RDNA 3 */
#define RFG_WMMA12 0 /* RDNA 4, gfx1250 */
#define RFG_WMMA32 0 /* gfx1250's have 32 columns */

#if RFG_AMD
#if defined(__GFX9__)
#define RFG_WAVE 64
#else
#define RFG_WAVE 32 /* clang's default from gfx10 on */
#endif
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__)
#undef RFG_MFMA
#define RFG_MFMA 1
#elif defined(__GFX11__)
#undef RFG_WMMA11
#define RFG_WMMA11 1
#elif defined(__GFX12__)
#undef RFG_WMMA12
#define RFG_WMMA12 1
#if defined(__gfx1250__)
#undef RFG_WMMA32
#define RFG_WMMA32 1
#endif
#endif
#define RFG_HAS_MMA     (RFG_MFMA || RFG_WMMA11 || RFG_WMMA12)
#define RFG_HAS_ASYNC   0
#define RFG_HAS_CLUSTER 0
#else
#define RFG_WAVE        32
#define RFG_HAS_MMA     (__CUDA_ARCH__ >= 800)
#define RFG_HAS_ASYNC   (__CUDA_ARCH__ >= 800)
#define RFG_HAS_CLUSTER (__CUDA_ARCH__ >= 900)
#endif
