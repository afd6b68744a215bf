/* SPDX-License-Identifier: MIT
 *
 * The functions of the HIP table that mock_hip.c lacks: each returns an error. */
#include "dispatch/hip/hip.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define X(ret, name, params, args)                                                                                     \
    __attribute__((weak)) ret name params                                                                              \
    {                                                                                                                  \
        return hipErrorNotSupported;                                                                                   \
    }
RFG_HIP_ENTRIES(X)
