/* SPDX-License-Identifier: MIT
 *
 * What mock_hip.c hasn't of the HIP table: it is there, and refused. */
#include "dispatch/hip/hip.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define X(ret, name, params, args)                                                                                     \
    __attribute__((weak)) ret name params                                                                              \
    {                                                                                                                  \
        return hipErrorNotSupported;                                                                                   \
    }
RFG_HIP_ENTRIES(X)
