/* SPDX-License-Identifier: MIT
 *
 * The device prelude: all that kernels may know of an architecture. Kernels include this file and nothing else; no
 * compiler is given a header of its own, so everything here rests on compiler builtins (clang for AMD, NVRTC for
 * NVIDIA) and inline assembly.
 *
 *   rfg_target.h   which machine: RFG_AMD / RFG_NVIDIA, RFG_WAVE, RFG_HAS_MMA, RFG_HAS_ASYNC, RFG_HAS_CLUSTER
 *   rfg_amd.h      ids, barriers, memory, shuffles, atomics on AMD
 *   rfg_nvidia.h   the same names on NVIDIA
 *   rfg_dtype.h    bf16, fp16, fp32 to and from float; vectors of them
 *   rfg_wave.h     reductions over a wave; the last workgroup to arrive
 *   rfg_quant.h    chunks of rows in pieces; 8-bit codes and their scales
 *   rfg_frag.h     matrix fragments 16x16x32
 *   rfg_wgmma.h    Hopper's asynchronous matrix instructions
 *   rfg_check.h    which formats these take
 *
 * Kernels launch one-dimensional workgroups whose size is a multiple of RFG_WAVE. */
#include "rfg_target.h"
#include "rfg_amd.h"
#include "rfg_nvidia.h"
#include "rfg_dtype.h"
#include "rfg_wave.h"
#include "rfg_quant.h"
#include "rfg_frag.h"
#include "rfg_wgmma.h"
#include "rfg_check.h"
