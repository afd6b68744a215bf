/* SPDX-License-Identifier: MIT
 *
 * What the C entry points over FlashInfer's attention share. */
#include <exception>
#include <string>

#define PEER extern "C" __attribute__((visibility("default")))

static thread_local std::string last_error;

/* 0, or 1 and a text for the last error. */
template <class F>
static int guarded(F f)
{
    try {
        cudaError_t e = f();
        last_error = e ? cudaGetErrorString(e) : "";
        if (e)
            cudaGetLastError(); /* forgets it */
        return e != cudaSuccess;
    } catch (const std::exception &e) {
        last_error = e.what();
        cudaGetLastError();
        return 1;
    }
}

/* Gives the caller a plan that was made, or drops it. */
template <class P>
static int given(void **plan, P *p, int failed)
{
    if (failed)
        delete p;
    else
        *plan = p;
    return failed;
}
