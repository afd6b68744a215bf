/* SPDX-License-Identifier: MIT
 *
 * The thread's last error, names of errors, and functions that are refused. */
#include <stdio.h>
#include <string.h>

#include "rocm.h"

static _Thread_local hipError_t last, ended; /* the error that is told; how the last call ended */

hipError_t rocm_end(hipError_t e)
{
    if (emu_fault != hipSuccess)
        e = emu_fault;
    ended = e;
    if (!rocm_version->keeps_error || (e != hipSuccess && e != hipErrorNotReady))
        last = e;
    return e;
}

hipError_t hipPeekAtLastError(void)
{
    return emu_fault != hipSuccess ? emu_fault : last;
}

hipError_t hipGetLastError(void)
{
    hipError_t e = hipPeekAtLastError();
    last = hipSuccess;
    return e;
}

/* Since 6.0. */
hipError_t how_it_ended(void) __asm__("hipExtGetLastError");
hipError_t how_it_ended(void)
{
    hipError_t e = ended;
    ended = hipSuccess;
    return e;
}

static const struct {
    hipError_t error;
    const char *name, *text;
} errors[] = {
#define X(error, text) { error, #error, text },
#include "errors.def"
#undef X
};
#define N_ERRORS (sizeof(errors) / sizeof(errors[0]))

static size_t row(hipError_t e)
{
    size_t i = 0;
    while (i < N_ERRORS - 1 && errors[i].error != e)
        i++;
    return i;
}

const char *hipGetErrorName(hipError_t e)
{
    return errors[row(e)].name;
}

const char *hipGetErrorString(hipError_t e)
{
    return errors[row(e)].text;
}

static hipError_t driver_text(const char *from, const char **text)
{
    if (!text)
        return rocm_end(hipErrorInvalidValue);
    *text = from;
    return hipSuccess;
}

hipError_t driver_name(hipError_t e, const char **text) __asm__("hipDrvGetErrorName");
hipError_t driver_name(hipError_t e, const char **text)
{
    return driver_text(hipGetErrorName(e), text);
}

hipError_t driver_string(hipError_t e, const char **text) __asm__("hipDrvGetErrorString");
hipError_t driver_string(hipError_t e, const char **text)
{
    return driver_text(hipGetErrorString(e), text);
}

hipError_t rocm_refuse(const char *name)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const char *said[1024];
    static size_t n;
    size_t i = 0;
    pthread_mutex_lock(&mutex);
    while (i < n && said[i] != name)
        i++;
    if (i == n && n < sizeof(said) / sizeof(said[0])) {
        said[n++] = name;
        fprintf(stderr, "emulated HIP: %s is not offered\n", name);
    }
    pthread_mutex_unlock(&mutex);
    return rocm_end(hipErrorNotSupported);
}
