/* SPDX-License-Identifier: MIT
 *
 * Of every test program. The tests find programs beside themselves in the build tree; the library doesn't know that
 * path. An unlock that is missing shows at the latest when the mutex is destroyed. And assertions that hold cost nothing. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
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
    static const char *const mocks[][2] = { { "RFG_FAKE_ROCM", "fake-rocm.so" },
                                            { "RFG_MOCK_HIP", "mock-hip.so" },
                                            { "RFG_MOCK_TX", "mock-tx.so" },
                                            { "RFG_MOCK_NCCL", "mock-nccl.so" },
                                            { "RFG_MOCK_NCCL_OLD", "mock-nccl-old.so" },
                                            { "RFG_MOCK_BLAS", "mock-blas.so" },
                                            { "RFG_MOCK_BLAS_OLD", "mock-blas-old.so" } };
    for (size_t i = 0; i < sizeof(mocks) / sizeof(mocks[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, mocks[i][1]);
        setenv(mocks[i][0], path, 0);
    }
    snprintf(path, sizeof(path), "%s/../emulated-rocm", dir);
    setenv("RFG_EMULATED_ROCM", path, 0);
    snprintf(path, sizeof(path), "%s/cache", dir);
    setenv("RFG_TEST_CACHE", path, 0);
    setenv("RFG_SOURCE_ROOT", RFG_SOURCE_ROOT, 0);
    setenv("RFG_PYTHON", "python3", 0);
}

/* Check writes the place of each assertion that holds to a file, to say near which a test crashed: half the time of
 * tests that look at every element. meson.build renames that function to this one, which writes a place once. */
void rfg_test_mark(const char *file, int line);
#undef _mark_point
void _mark_point(const char *file, int line);
void rfg_test_mark(const char *file, int line)
{
    static atomic_bool written[4096]; /* two places that share one: the second isn't written */
    size_t place = ((uintptr_t)file / 8 + (size_t)line * 31) % 4096;
    if (!atomic_exchange_explicit(&written[place], true, memory_order_relaxed))
        _mark_point(file, line);
}

/* TSan has its own, which says the same. */
#ifdef __has_feature
#define TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define TSAN 1
#else
#define TSAN 0
#endif
#if !TSAN
__attribute__((visibility("default"))) int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    int (*destroy)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_destroy");
    int e = destroy(mutex);
    if (e == EBUSY) {
        fprintf(stderr, "a mutex is destroyed that somebody has locked\n");
        abort();
    }
    return e;
}
#endif
