// SPDX-License-Identifier: MIT
//
// Device printf and assert: tests/emu/test_rocm_headers.c knows what it prints. With an argument the assertion fails.
#include <hip/hip_runtime.h>
#include <assert.h>
#include <stdio.h>

__global__ void conversions(int n, const char *none)
{
    int printed = 0;
    if (threadIdx.x % 2 == 0)
        printed = printf("%2d|%-4d|%lld|%08x|%*d|%.2f|%g|%s|%c|%%|%lu|%hd|%s|\n", (int)threadIdx.x, n, 1ll << 40,
                         0xbeefu, 4, 7, 3.14159, 1e10, "text of more than eight bytes", 'z', 5ul, (short)-3, none);
    if (threadIdx.x < 2)
        printf("lane %d: %d\n", (int)threadIdx.x, printed);
}

__global__ void many()
{
    printf("%d %d\n", (int)blockIdx.x, (int)threadIdx.x);
}

__global__ void asserts(const int *p)
{
    assert(p != nullptr);
}

int main(int argc, char **)
{
    printf("before\n");
    conversions<<<1, 6>>>(42, nullptr);
    hipError_t e = hipDeviceSynchronize();
    if (argc == 1)
        many<<<20, 256>>>();
    if (e == hipSuccess)
        e = hipDeviceSynchronize();
    printf("after: %s\n", hipGetErrorName(e));
    if (argc > 1) {
        asserts<<<1, 1>>>(nullptr);
        e = hipDeviceSynchronize();
    }
    return e != hipSuccess;
}
