/* SPDX-License-Identifier: MIT
 *
 * The functions of the HIP table, under HIP's names. */
#include "rocm.h"

/* Here it takes kernels by their functions on the host. */
#define emu_hipFuncSetAttribute rocm_hipFuncSetAttribute

#define X(ret, name, params, args)                                                                                     \
    ret name params                                                                                                    \
    {                                                                                                                  \
        rocm_start();                                                                                                  \
        return rocm_end(emu_fault != hipSuccess ? emu_fault : emu_##name args);                                        \
    }
RFG_HIP_ENTRIES(X)
#undef X

hipError_t hipRuntimeGetVersion(int *version)
{
    return hipDriverGetVersion(version);
}
