/* SPDX-License-Identifier: MIT
 *
 * Problems: a call's, with what the context adds to it, and those of a string of several. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"

struct rfg_problem rfg_problem_of_call(const rfg_context *ctx, const struct rfg_problem *prob)
{
    struct rfg_problem own = rfg_problem_with_overlap(prob, ctx->overlap);
    return rfg_problem_with_invariant(&own, ctx->invariant);
}

rfg_status rfg_context_problem(const rfg_context *ctx, const struct rfg_problem *prob, struct rfg_problem *own)
{
    struct rfg_reason why = { "overlap=1: launch_overlap of the context is off" };
    if (rfg_problem_is_invariant(prob) && !ctx->invariant)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "invariant=1: batch_invariant of the context is off");
    if (rfg_problem_overlaps(prob) && !ctx->overlap)
        return rfg_fail(rfg_device_can_overlap(&ctx->dev, &why) ? RFG_ERROR_INVALID_ARGUMENT : RFG_ERROR_UNSUPPORTED,
                        "%s", why.text);
    *own = rfg_problem_of_call(ctx, prob);
    return RFG_OK;
}

/* "M=1..256" in a string. */
struct range {
    const char *key, *value, *end; /* in the string: M, 1, and what follows 256 */
    int64_t low, high;
};

/* A number of up to ten digits at s; returns what follows it, NULL: there is none. */
static const char *read_number(const char *s, int64_t *n)
{
    size_t digits = strspn(s, "0123456789");
    *n = digits && digits <= 10 ? strtoll(s, NULL, 10) : -1;
    return *n < 0 ? NULL : s + digits;
}

static bool read_range(const char *problem, const char *dots, struct range *r, struct rfg_reason *why)
{
    r->key = r->value = dots;
    while (r->key > problem && !strchr(" \t", r->key[-1]))
        r->key--;
    while (r->value > r->key && r->value[-1] != '=')
        r->value--;
    r->end = dots + strcspn(dots, " \t");
    int len = (int)(r->end - r->key < 80 ? r->end - r->key : 80);
    if (r->value == r->key || read_number(r->value, &r->low) != dots || read_number(dots + 2, &r->high) != r->end)
        return rfg_refuse(why, "'%.*s': a range must be key=low..high, two whole numbers", len, r->key);
    if (r->low > r->high)
        return rfg_refuse(why, "%.*s: low must not be above high", len, r->key);
    if (r->high - r->low >= RFG_PREPARE_MAX)
        return rfg_refuse(why, "%.*s: %" PRId64 " problems: must be at most %d", len, r->key, r->high - r->low + 1,
                          RFG_PREPARE_MAX);
    const char *more = strstr(r->end, "..");
    return !more ||
           rfg_refuse(why, "%.*s: has a second range: only one key may have one", (int)strlen(problem), problem);
}

/* Adds the problems of one line, with a range or without. */
static rfg_status read_problem(const char *line, struct rfg_problem **probs, size_t *n, struct rfg_reason *why)
{
    struct range r = { 0 };
    const char *dots = strstr(line, "..");
    if (dots && !read_range(line, dots, &r, why))
        return RFG_ERROR_INVALID_ARGUMENT;
    size_t more = (size_t)(r.high - r.low + 1), size = strlen(line) + 24;
    if (*n + more > RFG_PREPARE_MAX) {
        rfg_refuse(why, "'%.80s': more than %d problems: must be at most so many in all", line, RFG_PREPARE_MAX);
        return RFG_ERROR_INVALID_ARGUMENT;
    }
    struct rfg_problem *v = realloc(*probs, (*n + more) * sizeof(*v));
    char *text = v ? malloc(size) : NULL;
    *probs = v ? v : *probs;
    bool ok = true;
    for (size_t i = 0; text && ok && i < more; i++) {
        if (dots)
            snprintf(text, size, "%.*s%" PRId64 "%s", (int)(r.value - line), line, r.low + (int64_t)i, r.end);
        ok = rfg_problem_parse(&v[*n], dots ? text : line, why) && rfg_problem_is_alone(&v[*n], why);
        *n += ok;
    }
    if (!text)
        rfg_refuse(why, "no memory for %zu problems", *n + more);
    rfg_status st = !text ? RFG_ERROR_OUT_OF_MEMORY : ok ? RFG_OK : RFG_ERROR_INVALID_ARGUMENT;
    free(text);
    return st;
}

rfg_status rfg_problems_parse(const char *text, struct rfg_problem **probs, size_t *n, struct rfg_reason *why)
{
    char *copy = text ? strdup(text) : NULL, *rest = copy, *line;
    rfg_status st = RFG_OK;
    *probs = NULL;
    *n = 0;
    if (text && !copy) {
        rfg_refuse(why, "no memory for the problems");
        return RFG_ERROR_OUT_OF_MEMORY;
    }
    while (st == RFG_OK && (line = strsep(&rest, "\r\n")))
        if (line[strspn(line, " \t\r")])
            st = read_problem(line, probs, n, why);
    if (st == RFG_OK && !*n) {
        struct rfg_problem none;
        rfg_problem_parse(&none, text, why); /* says what is wrong with nothing */
        st = RFG_ERROR_INVALID_ARGUMENT;
    }
    free(copy);
    if (st != RFG_OK) {
        free(*probs);
        *probs = NULL;
    }
    return st;
}

rfg_status rfg_problem_judge(const struct rfg_problem *prob)
{
    struct rfg_reason why;
    return prob->op->valid(prob, &why)
               ? RFG_OK
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_op_%s: %s", prob->op->name, why.text);
}
