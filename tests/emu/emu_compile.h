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
    if (system("command -v " EMU_CLANG " >/dev/null") == 0) /* to start it would take ten times as long */
        return true;
    printf("SKIPPED: " EMU_CLANG " is not there\n");
    return false;
}

/* A directory of its own for source, and what is made of it. */
static inline void emu_compile_begin(char dir[40], const char *source)
{
    char path[64];
    strcpy(dir, "/tmp/rfg-emu-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/in.hip", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s%s", emu_hip_words, source);
    ck_assert_int_eq(fclose(f), 0);
}

static inline char *emu_compile_end(const char *dir, const char *command, size_t *size)
{
    static const char *const files[] = { "out.co", "in.hip", "mid.s", "mid.o" };
    char path[64];
    ck_assert_msg(system(command) == 0, "failed: %s", command);
    snprintf(path, sizeof(path), "%s/out.co", dir);
    char *code = rfg_read_file(path, size);
    ck_assert_ptr_nonnull(code);
    for (int k = 0; k < 4; k++) {
        snprintf(path, sizeof(path), "%s/%s", dir, files[k]);
        unlink(path);
    }
    rmdir(dir);
    return code;
}

#define EMU_COMPILE_OPTIONS "-w -x hip -nogpuinc -nogpulib --cuda-device-only"

/* malloc'ed. options: e.g. "-mcode-object-version=4 --no-gpu-bundle-output". */
static inline char *emu_compile(const char *source, const char *arch, const char *options, size_t *size)
{
    char dir[40], cmd[800];
    emu_compile_begin(dir, source);
    snprintf(cmd, sizeof(cmd), EMU_CLANG " " EMU_COMPILE_OPTIONS " --offload-arch=%s -O2 %s -o %s/out.co %s/in.hip",
             arch, options, dir, dir);
    return emu_compile_end(dir, cmd, size);
}

/* The same by the clang of PyPI's ziglang ($RFG_ZIGLANG_PYTHON), which links nothing for GPUs. */
static inline char *emu_compile_ziglang(const char *source, const char *arch, const char *options, size_t *size)
{
    char dir[40], cmd[1200];
    emu_compile_begin(dir, source);
    snprintf(
        cmd, sizeof(cmd),
        "${RFG_ZIGLANG_PYTHON:-python3} -m ziglang clang --no-default-config " EMU_COMPILE_OPTIONS
        " --offload-arch=%s -O2 %s -fuse-cuid=none -S -o %s/mid.s %s/in.hip && "
        "${RFG_ZIGLANG_PYTHON:-python3} -m ziglang clang -target amdgcn-amd-amdhsa -mcpu=%s -c -o %s/mid.o %s/mid.s && "
        "ld.lld-19 -shared --no-undefined -o %s/out.co %s/mid.o",
        arch, options, dir, dir, arch, dir, dir, dir, dir);
    return emu_compile_end(dir, cmd, size);
}

#endif
