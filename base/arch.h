/* SPDX-License-Identifier: MIT
 *
 * The table of architectures: facts that need no runtime. Operators, the dispatcher and the emulator read it. No other
 * code compares a target's name. */
#ifndef RFG_BASE_ARCH_H
#define RFG_BASE_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rfg/core.h"

enum rfg_platform {
    RFG_PLATFORM_CPU,
    RFG_PLATFORM_AMD,
    RFG_PLATFORM_NVIDIA,
    RFG_PLATFORM_EMU,
};

enum rfg_feature {
    RFG_FEATURE_MMA = 1 << 0,    /* matrix fragments through the prelude: MFMA, WMMA or mma.sync, bf16 and fp16 */
    RFG_FEATURE_ASYNC = 1 << 1,  /* asynchronous global->LDS copies */
    RFG_FEATURE_AVX2 = 1 << 2,   /* cpu: AVX2 + FMA + F16C */
    RFG_FEATURE_AVX512 = 1 << 3, /* cpu: AVX-512 F, BW, VL, DQ */
    RFG_FEATURE_AVX512BF16 = 1 << 4,
    RFG_FEATURE_CLUSTER = 1 << 5,    /* workgroups in clusters, which write each other's LDS (sm_90 on) */
    RFG_FEATURE_OVERLAP = 1 << 6,    /* a launch may begin before the one before it ended (sm_90 on) */
    RFG_FEATURE_TMA = 1 << 7,        /* copies of tiles, of matrices that parameters of a launch describe (sm_90 on) */
    RFG_FEATURE_AVX512VNNI = 1 << 8, /* cpu: sums of int8 by int8 */
};

/* Generations of matrix instructions that the kernel prelude distinguishes. */
enum rfg_mma {
    RFG_MMA_NONE,
    RFG_MMA_CDNA1, /* MFMA; accumulators are registers apart, bf16 by 8 columns */
    RFG_MMA_CDNA2, /* one file of registers, bf16 by 16 columns */
    RFG_MMA_CDNA3, /* codes */
    RFG_MMA_CDNA4, /* codes by 128 columns, with scales */
    RFG_MMA_RDNA3, /* WMMA; both halves of a wave hold what is multiplied */
    RFG_MMA_RDNA4, /* WMMA; each half has its own columns; gfx1250 too */
    RFG_MMA_SYNC,  /* mma.sync */
    RFG_MMA_WGMMA, /* and a warpgroup's, on operands in LDS */
};

/* Of the memory: transfers of a pin in one clock, as amdgpu counts clocks: HIP's memoryClockRate is the highest state
 * of pp_dpm_mclk in kHz (clr 6.2, rocdevice.cpp: HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY; Linux 6.8, amdgpu_amdkfd:
 * mem_clk_max). MI210 says 1600 MHz for 3.2 Gbit/s, MI300X 1300 for 5.2, RX 7900 XTX 1249 for 20, Strix Halo 1000
 * for 8. */
enum rfg_transfers {
    RFG_BY_PLATFORM = 0, /* which knows the bandwidth */
    RFG_HBM2 = 2,
    RFG_DDR5 = 2,
    RFG_HBM3 = 4,
    RFG_LPDDR5 = 8,
    RFG_GDDR6 = 16,
};

struct rfg_arch {
    const char *name; /* what targets begin with; the first row that fits is theirs */
    enum rfg_platform platform;
    enum rfg_mma mma;
    int wave_size, lds_bytes; /* as struct rfg_device has them; of imagined devices */
    unsigned features;        /* enum rfg_feature */
    int frag_registers;       /* of a lane, for a fragment of 16 by 32 elements of 16 bits (rfg_frag.h) */
    unsigned codes;           /* formats of at most 8 bits that fragments multiply as they are: RFG_ARCH_CODE() */
    unsigned wide;            /* of these by 128 columns, where groups have scales */
    bool flushes_f16;         /* matrix instructions take fp16's subnormals for 0 */
    /* HIP calls two CUs, a WGP, one processor where it is in that mode (clr 5.7 to 7.0, rocdevice.cpp and
     * rocsettings.cpp: enableWgpMode_, for gfx10 and later; since 7.0 not for gfx1250):
     * hipDeviceAttributePhysicalMultiProcessorCount too. */
    bool wgps;
    bool new_clang; /* newer than distributions' knows it: PyPI's ziglang compiles */
    unsigned mach;  /* EF_AMDGPU_MACH in an ELF's flags (LLVM's AMDGPUUsage); 0: not said */

    /* What ranks: estimates. */
    enum rfg_transfers transfers;
    int cus; /* that have these peaks, others have their share; 0: nobody has written them down */
    double mma_tflops, fma_tflops, latency_us, sync_us, load_us, cache_gbps; /* struct rfg_device says which */
};
#define RFG_ARCH_CODE(dtype) (1u << (dtype))

/* The row of a target ("gfx942", "sm_90a") or of a device's arch. Never NULL: the last row is anything's. */
const struct rfg_arch *rfg_arch_of(const char *target);

/* What is sold with an arch: its memory, and the last cache before it. */
struct rfg_product {
    const char *arch;
    const char *name; /* part of the one that the runtime tells */
    int cus, xcds;    /* as one device; a partition has some of the XCDs */
    double gbps;
    int64_t cache;
};
extern const struct rfg_product rfg_products[]; /* the last has no arch */

/* The usual product of an arch, given by its name (len characters); NULL: none. */
const struct rfg_product *rfg_product_usual(const char *arch, size_t len);

#endif
