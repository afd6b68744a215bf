/* SPDX-License-Identifier: MIT
 *
 * Where the tests find programs: beside themselves in the build tree, which the library itself knows nothing of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void say_where(void)
{
    char dir[4000], path[4096];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    dir[n > 0 ? n : 0] = 0;
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = 0;
    snprintf(path, sizeof(path), "%s/../bin", dir);
    setenv("RFG_BINDIR", path, 0);
    snprintf(path, sizeof(path), "%s/../tuner/rfg-compile", dir);
    setenv("RFG_COMPILE_WORKER", path, 0);
    setenv("RFG_FAKE_BINDIR", dir, 0);
    snprintf(path, sizeof(path), "%s/fake-rocm.so", dir);
    setenv("RFG_FAKE_ROCM", path, 0);
    snprintf(path, sizeof(path), "%s/../emulated-rocm", dir);
    setenv("RFG_EMULATED_ROCM", path, 0);
    snprintf(path, sizeof(path), "%s/mock-hip.so", dir);
    setenv("RFG_MOCK_HIP", path, 0);
    setenv("RFG_SOURCE_ROOT", RFG_SOURCE_ROOT, 0);
    setenv("RFG_PYTHON", "python3", 0);
}
