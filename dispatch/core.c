/* SPDX-License-Identifier: MIT
 *
 * Status codes, the thread's error message, dtypes. */
#include <stdarg.h>
#include <stdio.h>

#include "../ops/op.h"
#include "../ops/text.h"

static _Thread_local char last_error[1024];

rfg_status rfg_fail(rfg_status status, const char *fmt, ...)
{
    char text[sizeof(last_error)]; /* fmt's arguments may point into last_error */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rfg_escape(text, sizeof(text));
    __builtin_memcpy(last_error, text, sizeof(text));
    return status;
}

const char *rfg_last_error(void)
{
    return last_error;
}

const char *rfg_version(void)
{
    return RFG_VERSION;
}

const char *rfg_status_name(rfg_status status)
{
    switch (status) {
    case RFG_OK:
        return "RFG_OK";
    case RFG_ERROR_INVALID_ARGUMENT:
        return "RFG_ERROR_INVALID_ARGUMENT";
    case RFG_ERROR_UNSUPPORTED:
        return "RFG_ERROR_UNSUPPORTED";
    case RFG_ERROR_OUT_OF_MEMORY:
        return "RFG_ERROR_OUT_OF_MEMORY";
    case RFG_ERROR_DEVICE:
        return "RFG_ERROR_DEVICE";
    case RFG_ERROR_COMPILE:
        return "RFG_ERROR_COMPILE";
    case RFG_ERROR_DATABASE:
        return "RFG_ERROR_DATABASE";
    case RFG_ERROR_IO:
        return "RFG_ERROR_IO";
    case RFG_ERROR_NOT_READY:
        return "RFG_ERROR_NOT_READY";
    case RFG_ERROR_INTERNAL:
        return "RFG_ERROR_INTERNAL";
    }
    return "RFG_ERROR_?";
}

static const struct {
    const char *name;
    size_t size;
} dtypes[RFG_DTYPE_COUNT] = {
    [RFG_DTYPE_NONE] = { "none", 0 }, [RFG_F32] = { "f32", 4 },   [RFG_F16] = { "f16", 2 },
    [RFG_BF16] = { "bf16", 2 },       [RFG_E4M3] = { "e4m3", 1 }, [RFG_E4M3FNUZ] = { "e4m3fnuz", 1 },
    [RFG_E5M2] = { "e5m2", 1 },       [RFG_I8] = { "i8", 1 },     [RFG_I32] = { "i32", 4 },
};

const char *rfg_dtype_name(rfg_dtype dtype)
{
    return (unsigned)dtype < RFG_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

size_t rfg_dtype_size(rfg_dtype dtype)
{
    return (unsigned)dtype < RFG_DTYPE_COUNT ? dtypes[dtype].size : 0;
}
