/* SPDX-License-Identifier: MIT
 *
 * For the emulator's tests: HIP source to a code object, by clang run as a program. */
#ifndef RFG_TESTS_EMU_COMPILE_H
#define RFG_TESTS_EMU_COMPILE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define EMU_CLANG "clang-19"

/* What HIP's headers would define. */
static const char *const emu_hip_words = "#define __global__ __attribute__((global))\n"
                                         "#define __device__ __attribute__((device))\n"
                                         "#define __shared__ __attribute__((shared))\n"
                                         "#define __constant__ __attribute__((constant))\n";

static inline bool emu_can_compile(void)
{
    if (system(EMU_CLANG " --version >/dev/null 2>&1") == 0)
        return true;
    printf("SKIPPED: " EMU_CLANG " is not there\n");
    return false;
}

/* malloc'ed. options: e.g. "-mcode-object-version=4 --no-gpu-bundle-output". */
static inline char *emu_compile(const char *source, const char *arch, const char *options, size_t *size)
{
    char dir[] = "/tmp/rfg-emu-XXXXXX", cmd[800], path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/in.hip", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s%s", emu_hip_words, source);
    ck_assert_int_eq(fclose(f), 0);
    snprintf(cmd, sizeof(cmd),
             EMU_CLANG " -w -x hip -nogpuinc -nogpulib --cuda-device-only --offload-arch=%s -O2 %s -o %s/out.co %s",
             arch, options, dir, path);
    ck_assert_msg(system(cmd) == 0, "failed: %s", cmd);
    snprintf(path, sizeof(path), "%s/out.co", dir);
    char *code = rfg_read_file(path, size);
    ck_assert_ptr_nonnull(code);
    unlink(path);
    snprintf(path, sizeof(path), "%s/in.hip", dir);
    unlink(path);
    rmdir(dir);
    return code;
}

#endif
