/* SPDX-License-Identifier: MIT
 *
 * Calls that a thread only describes: checks them, and lists their problems. */
#include <stdio.h>
#include <string.h>

#include "context_impl.h"

/* This thread's, between rfg_describe_begin() and rfg_describe_end(). */
static _Thread_local struct {
    const rfg_context *ctx; /* NULL: it describes none */
    char *buf;              /* NULL: nobody asked for the problems */
    size_t size;
} description;

bool rfg_context_describes(const rfg_context *ctx)
{
    return description.ctx == ctx;
}

bool rfg_checks_begin(rfg_context *ctx)
{
    if (description.ctx)
        return false;
    description.ctx = ctx;
    description.buf = NULL;
    atomic_fetch_add(&ctx->describing, 1);
    return true;
}

rfg_status rfg_describe_begin(rfg_context *ctx, char *buf, size_t size)
{
    if (!ctx || !buf)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_describe_begin: %s is NULL", !ctx ? "ctx" : "buf");
    if (size < RFG_PROBLEM_MAX)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_describe_begin: size is %zu: must be at least %d", size,
                        RFG_PROBLEM_MAX);
    if (!rfg_checks_begin(ctx))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_describe_begin: this thread describes already: rfg_describe_end() must come first");
    *buf = 0;
    description.buf = buf;
    description.size = size;
    return RFG_OK;
}

/* Whether the list already has that line. */
static bool is_listed(const char *list, const char *problem)
{
    size_t len = strlen(problem);
    for (const char *s = list; (s = strstr(s, problem)); s++)
        if ((s == list || s[-1] == '\n') && (!s[len] || s[len] == '\n'))
            return true;
    return false;
}

rfg_status rfg_describe_call(const struct rfg_problem *prob)
{
    char text[RFG_PROBLEM_STRLEN];
    rfg_status st = rfg_problem_judge(prob);
    if (st != RFG_OK)
        return st;
    if (!description.buf || is_listed(description.buf, rfg_problem_format(prob, text, sizeof(text))))
        return RFG_OK;
    size_t at = strlen(description.buf), need = at + (at > 0) + strlen(text) + 1;
    if (need > description.size)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_describe_begin: size is %zu: must be at least %zu for the problems up to \"%s\" "
                        "(RFG_DESCRIBE_MAX: for any one call's)",
                        description.size, need, text);
    snprintf(description.buf + at, description.size - at, "%s%s", at ? "\n" : "", text);
    return RFG_OK;
}

void rfg_describe_end(rfg_context *ctx)
{
    if (!ctx || description.ctx != ctx)
        return;
    description.ctx = NULL;
    atomic_fetch_sub(&ctx->describing, 1);
}
