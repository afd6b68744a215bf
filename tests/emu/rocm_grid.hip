// SPDX-License-Identifier: MIT
//
// A cooperative launch, and what must be refused: tests/emu/test_rocm_headers.c runs it. It ends with 0 if all was
// right.
#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <stdio.h>
#include <stdlib.h>

namespace cg = cooperative_groups;
enum { GROUPS = 8, GROUP = 128, N = GROUPS * GROUP, STEPS = 3 };

// Each step reads what another workgroup wrote in the one before.
__global__ void steps(int *a, int *b)
{
    cg::grid_group grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = grid.is_valid() ? i : -1000000;
    for (int step = 0; step < STEPS; step++) {
        grid.sync();
        int *from = step % 2 ? b : a, *to = step % 2 ? a : b;
        to[i] = from[(i + GROUP) % N] + 1;
    }
}

static void is(bool right, int line)
{
    if (right)
        return;
    printf("line %d: %s\n", line, hipGetErrorName(hipGetLastError()));
    exit(1);
}
#define IS(condition) is(condition, __LINE__)

int main(int argc, char **)
{
    int *a, *b, host[N], there = 0;
    hipDeviceProp_t props;
    IS(hipMalloc(&a, sizeof(host)) == hipSuccess && hipMalloc(&b, sizeof(host)) == hipSuccess);
    void *args[] = { &a, &b };
    IS(hipDeviceGetAttribute(&there, hipDeviceAttributeCooperativeLaunch, 0) == hipSuccess && there == 1);
    IS(hipGetDeviceProperties(&props, 0) == hipSuccess && props.cooperativeLaunch == 1);
    IS(hipLaunchCooperativeKernel((const void *)steps, dim3(GROUPS), dim3(GROUP), args, 0, 0) == hipSuccess);
    IS(hipDeviceSynchronize() == hipSuccess);
    IS(hipMemcpy(host, STEPS % 2 ? b : a, sizeof(host), hipMemcpyDeviceToHost) == hipSuccess);
    for (int i = 0; i < N; i++)
        IS(host[i] == (i + STEPS * GROUP) % N + STEPS);
    IS(hipLaunchCooperativeKernel((const void *)steps, dim3(100000), dim3(GROUP), args, 0, 0) ==
       hipErrorCooperativeLaunchTooLarge);
    (void)hipGetLastError();
    if (argc > 1) { // the same without: a report, not a hang
        steps<<<GROUPS, GROUP>>>(a, b);
        IS(hipGetLastError() == hipErrorLaunchFailure);
    }
    puts("right");
    return 0;
}
