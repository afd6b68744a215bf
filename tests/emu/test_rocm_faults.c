/* SPDX-License-Identifier: MIT
 *
 * The effect of a kernel's fault on the emulated libamdhip64 ($EMULATED_ROCM). By EMULATED_ROCM_ON_FAULT the process
 * ends, as on hardware, or every later call fails, or only the launch fails. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "emu_compile.h"
#include "rocm_library.h"
#include "tests/suite.h"

static const struct {
    const char *kernel, *check;
    hipError_t error;
} faults[] = {
    { "beyond", "global-out-of-bounds", hipErrorIllegalAddress },
    { "traps", "trap", hipErrorLaunchFailure },
    { "waits", "deadlock", hipErrorLaunchFailure },
};
#define N_FAULTS (int)(sizeof(faults) / sizeof(faults[0]))

static const char *const source =
    "extern \"C\" __global__ void fine(unsigned *y) { y[0] = 7; }\n"
    "extern \"C\" __global__ void beyond(unsigned *y) { y[1024 + __builtin_amdgcn_workitem_id_x()] = 1; }\n"
    "extern \"C\" __global__ void traps(unsigned *y) { if (y[1] == 0) __builtin_trap(); }\n"
    "extern \"C\" __global__ void waits(unsigned *y) { while (!__hip_atomic_load(y + 1, __ATOMIC_ACQUIRE,"
    " __HIP_MEMORY_SCOPE_AGENT)) ; }\n"
    "extern \"C\" __global__ void unknown(unsigned *y, unsigned *x) { y[2] = x[3] + 1; }\n";

static hipModule_t module;
static unsigned *y, *fresh;

static void start(const char *on_fault)
{
    size_t size;
    if (on_fault)
        setenv("EMULATED_ROCM_ON_FAULT", on_fault, 1);
    else
        unsetenv("EMULATED_ROCM_ON_FAULT");
    setenv("RFG_EMU_MAX_SPIN", "10000", 1);
    rocm_open("MI300X:4");
    char *code = emu_compile(source, "gfx942", "", &size);
    OK(CALL(hipModuleLoadData, hipModule_t *, const void *)(&module, code));
    free(code);
    OK(CALL(hipMalloc, void **, size_t)((void **)&y, 4096));
    OK(CALL(hipMalloc, void **, size_t)((void **)&fresh, 4096));
    OK(CALL(hipMemset, void *, int, size_t)(y, 0, 4096));
}

static hipError_t launch(const char *kernel)
{
    hipFunction_t f;
    void *args[] = { &y, &fresh };
    hipError_t e = CALL(hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)(&f, module, kernel);
    return e != hipSuccess
               ? e
               : CALL(hipModuleLaunchKernel, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, hipStream_t, void **, void **)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

static hipError_t copy_back(unsigned *x)
{
    return CALL(hipMemcpy, void *, const void *, size_t, int)(x, y, sizeof(*x), hipMemcpyDeviceToHost);
}

START_TEST(every_later_call_fails)
{
    hipError_t e = faults[_i].error;
    unsigned x = 5;
    void *p;
    int n;
    hipStream_t s;
    start("sticky");
    OK(CALL(hipStreamCreate, hipStream_t *)(&s));
    IS(launch(faults[_i].kernel), e);
    IS(CALL(hipDeviceSynchronize, void)(), e);
    IS(CALL(hipStreamSynchronize, hipStream_t)(s), e);
    IS(CALL(hipMalloc, void **, size_t)(&p, 16), e);
    IS(CALL(hipMemsetAsync, void *, int, size_t, hipStream_t)(y, 1, 4, s), e);
    IS(CALL(hipGetDeviceCount, int *)(&n), e);
    IS(CALL(hipFree, void *)(fresh), e);
    IS(copy_back(&x), e);
    ck_assert_uint_eq(x, 5); /* nothing is done any more */
    IS(CALL(hipGetLastError, void)(), e);
    IS(CALL(hipGetLastError, void)(), e); /* to ask doesn't forget it */
    IS(CALL(hipPeekAtLastError, void)(), e);
    ck_assert_uint_eq(y[0], 0);
    ck_assert_int_ne(launch("fine"), hipSuccess);
    ck_assert_uint_eq(y[0], 0);
}
END_TEST

/* Runs it in a child; its stderr. */
static int dies(const char *on_fault, const char *kernel, char *said, size_t size)
{
    int fd[2], status;
    ck_assert_int_eq(pipe(fd), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        dup2(fd[1], 2);
        start(on_fault);
        launch(kernel);
        CALL(hipDeviceSynchronize, void)();
        _exit(0);
    }
    close(fd[1]);
    size_t had = 0;
    for (ssize_t n; had + 1 < size && (n = read(fd[0], said + had, size - 1 - had)) > 0;)
        had += (size_t)n;
    said[had] = 0;
    close(fd[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

START_TEST(the_process_ends)
{
    static const char *const ways[] = { NULL, "", "abort", "nonsense" };
    char said[8192];
    for (int k = 0; k < 4; k++) {
        int status = dies(ways[k], faults[_i].kernel, said, sizeof(said));
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %x: %s", ways[k], status, said);
        ck_assert_msg(strstr(said, faults[_i].check) != NULL, "%s", said);
        ck_assert_msg(strstr(said, "EMULATED_ROCM_ON_FAULT=sticky") != NULL, "%s", said);
        ck_assert((strstr(said, "'nonsense': must be abort, sticky or continue") != NULL) == (k == 3));
    }
    ck_assert_int_eq(dies(NULL, "fine", said, sizeof(said)), 0);
    ck_assert_int_eq(dies("continue", faults[_i].kernel, said, sizeof(said)), 0);
}
END_TEST

START_TEST(nothing_stays)
{
    unsigned x = 0;
    start("continue");
    IS(launch(faults[_i].kernel), faults[_i].error);
    OK(CALL(hipDeviceSynchronize, void)());
    OK(launch("fine"));
    OK(copy_back(&x));
    ck_assert_uint_eq(x, 7);
}
END_TEST

/* What only the emulator sees lets the kernel end: it is the launch's error, whatever is said of faults. */
START_TEST(findings)
{
    static const char *const ways[] = { NULL, "abort", "sticky", "continue" };
    start(ways[_i]);
    IS(launch("unknown"), hipErrorLaunchFailure);
    OK(CALL(hipDeviceSynchronize, void)());
    OK(launch("fine"));
}
END_TEST

int main(void)
{
    if (!rocm_is_there() || !emu_can_compile())
        return 77;
    Suite *s = suite_create("rocm_faults");
    TCase *tc = test_case(s, "faults", NULL, NULL);
    ADD_LOOPS(tc, N_FAULTS, every_later_call_fails, the_process_ends, nothing_stays);
    ADD_LOOPS(tc, 4, findings);
    return run_suite(s);
}
