/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of the emulated HIP table: emu_hip_case.c. */
#ifndef RFG_TESTS_EMU_HIP_CASE_H
#define RFG_TESTS_EMU_HIP_CASE_H

#include "dispatch/context.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"
#include "emu_compile.h"
#include "tests/suite.h"

#define OK(call) ck_assert_msg((call) == hipSuccess, "%s", #call)

#define IS(call, error)                                                                                                \
    do {                                                                                                               \
        hipError_t e_ = (call);                                                                                        \
        ck_assert_msg(e_ == (error), "%s is %s, not %s", #call, hip->error_name(e_), #error);                          \
    } while (0)

void open_device(const char *name);
extern const struct rfg_hip *hip;

#endif
