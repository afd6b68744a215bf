/* SPDX-License-Identifier: MIT
 *
 * An emulated device, for tests of its HIP table. */
#include "emu_hip_case.h"

#include <stdlib.h>
#include <string.h>

const struct rfg_hip *hip;

void open_device(const char *name)
{
    char error[256];
    int d = rfg_emu_open(name, error, sizeof(error));
    ck_assert_msg(d >= 0, "%s", error);
    hip = rfg_hip_emu(NULL);
    OK(hip->hipSetDevice(d));
}
