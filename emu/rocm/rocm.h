/* SPDX-License-Identifier: MIT
 *
 * The emulated libamdhip64: HIP's own names over the emulator's table, one library a ROCm release. For tests, never
 * installed: LD_LIBRARY_PATH=build/emulated-rocm/6.4 rfg-info. It holds an emulator of its own and shows hip* alone. */
#ifndef RFG_EMU_ROCM_ROCM_H
#define RFG_EMU_ROCM_ROCM_H

#include "emu/hip/hip_impl.h"

struct rocm_version {
    const char *release;
    int number, so, hip_version;
    bool r0600;           /* the struct of device properties of ROCm 6, under a name of its own */
    bool l2_of_all_xcds;  /* else one XCD's is reported */
    bool func_attributes; /* hipFuncSetAttribute() takes host functions alone; else anything, and does nothing */
    bool keeps_error;     /* hipGetLastError() tells the last error; else how the last call ended */
    struct emu_rules rules;
};
/* version.c, the only file that is compiled for each release. */
extern const struct rocm_version *const rocm_version;

struct rocm_product {
    const char *name, *arch, *features;
    int cus, xcds, l2_kib, mall_mib, bus_bits, mem_mhz;
    const char *memory;
    int clock_mhz;
    const char *board;
};

/* devices.c. What every call begins with: the devices that $EMULATED_ROCM_GPUS names ("MI300X", "MI210,RX7900XTX:4":
 * :CUS makes one smaller; "none"), of which $ROCR_VISIBLE_DEVICES and $HIP_VISIBLE_DEVICES leave some. */
void rocm_start(void);
/* The arch string of device d: "gfx942:sramecc+:xnack-". */
const char *rocm_arch_string(int d);

/* errors.c. What every call ends with: notes the thread's error. */
hipError_t rocm_end(hipError_t e);
/* Says once, on stderr, that a function is not offered. */
hipError_t rocm_refuse(const char *name);

/* program.c */
hipError_t rocm_hipFuncSetAttribute(const void *fn, hipFuncAttribute attr, int value);

#endif
