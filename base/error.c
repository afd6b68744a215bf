/* SPDX-License-Identifier: MIT
 *
 * Status codes, the thread's error message. */
#include <stdarg.h>
#include <stdio.h>

#include "error.h"
#include "text.h"

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

bool rfg_refuse(struct rfg_reason *why, const char *fmt, ...)
{
    if (why) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(why->text, sizeof(why->text), fmt, ap);
        va_end(ap);
        rfg_escape(why->text, sizeof(why->text));
    }
    return false;
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
