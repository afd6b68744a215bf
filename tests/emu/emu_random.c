/* SPDX-License-Identifier: MIT */
#include "emu_random.h"

#include <check.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "emu_compile.h"

const char *const emu_random_archs[EMU_RANDOM_ARCHS] = { "gfx908",  "gfx90a",  "gfx942", "gfx950",
                                                         "gfx1030", "gfx1100", "gfx1201" };

static const char *source_root(void)
{
    const char *root = getenv("RFG_SOURCE_ROOT");
    return root ? root : RFG_SOURCE_ROOT;
}

__attribute__((format(printf, 1, 2))) static int command(const char *fmt, ...)
{
    char cmd[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cmd, sizeof(cmd), fmt, ap);
    va_end(ap);
    int status = system(cmd);
    if (status)
        fprintf(stderr, "failed: %s\n", cmd);
    return status;
}

/* The same arithmetic for both compilers. */
#define EXACT "-w -ffp-contract=off -fno-strict-aliasing -fno-math-errno -I%s/tests/emu/random"

void emu_random_source(const char *dir, int first, int n)
{
    const char *python = getenv("RFG_PYTHON"), *file = getenv("RFG_TEST_FILE");
    if (file)
        ck_assert(!command("cp %s %s/kernels.c", file, dir));
    else
        ck_assert(!command("%s %s/tests/emu/random/random_kernels.py %d %d >%s/kernels.c", python ? python : "python3",
                           source_root(), first, n, dir));
}

const struct random_kernel *emu_random_host(const char *dir, int first, int n, void (**wave)(unsigned))
{
    char path[300];
    snprintf(path, sizeof(path), "%s/host-%d-%d.so", dir, first, n);
    emu_random_source(dir, first, n);
    if (access(path, R_OK)) /* the same for all levels */
        ck_assert(!command("gcc -std=gnu17 -O1 -fexcess-precision=16 " EXACT " -shared -fPIC %s/kernels.c -o %s -lm",
                           source_root(), dir, path));
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(so, "%s", dlerror());
    *(void **)wave = dlsym(so, "random_wave");
    const struct random_kernel *kernels = dlsym(so, "random_kernels");
    ck_assert(kernels && *wave);
    return kernels;
}

char *emu_random_code(const char *dir, const char *arch, int level, size_t *size)
{
    const char *zig = getenv("RFG_ZIGLANG_PYTHON");
    char clang[300], path[300], hip_c[200];
    int failed;
    snprintf(hip_c, sizeof(hip_c),
             "-x hip -std=c++17 -O%d -nogpuinc -nogpulib --cuda-device-only --no-gpu-bundle-output --offload-arch=%s",
             level, arch);
    snprintf(path, sizeof(path), "%s/%s-O%d.co", dir, arch, level);
    if (!strcmp(arch, "gfx950")) { /* LLVM 19 doesn't know it, and ziglang's can't link */
        snprintf(clang, sizeof(clang), "%s -m ziglang clang", zig ? zig : "python3");
        failed = command("%s %s " EXACT " -S -o %s/950.s %s/kernels.c", clang, hip_c, source_root(), dir, dir) ||
                 command("%s -target amdgcn-amd-amdhsa -mcpu=%s -c -o %s/950.o %s/950.s", clang, arch, dir, dir) ||
                 command("ld.lld-19 -shared --no-undefined -o %s %s/950.o", path, dir);
    } else {
        failed = command(EMU_CLANG " %s " EXACT " -fno-crash-diagnostics -o %s %s/kernels.c", hip_c, source_root(),
                         path, dir);
        ck_assert_msg(!WIFEXITED(failed) || WEXITSTATUS(failed) != 1, "an error in %s/kernels.c", dir);
    }
    if (failed)
        return NULL;
    char *code = rfg_read_file(path, size);
    ck_assert_ptr_nonnull(code);
    return code;
}
