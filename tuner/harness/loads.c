/* SPDX-License-Identifier: MIT */
#include "loads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/db/db_internal.h"
#include "ops/gemm/gemm.h"

struct reading {
    const char *path;
    bool begun, named; /* has the first line been read? were there a header and numbers of experts? */
    int64_t *tokens;   /* GEMM_MAX_EXPERTS */
    int *line;         /* that said it; 0: none did */
    int experts;       /* the last one that a line is of, + 1 */
};

static bool whole_number(const char *text, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    *out = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    return *out >= 0 && !*end && !errno && *out <= max;
}

static rfg_status read_line(void *ctx, int line, int n, char *const *field, const char *bad)
{
    struct reading *r = ctx;
    int64_t expert = r->experts, tokens;
    if (bad)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: %s", r->path, line, bad);
    bool first = !r->begun;
    r->begun = true;
    if (first && n == 2 && !strcmp(field[0], "expert") && !strcmp(field[1], "tokens")) {
        r->named = true;
        return RFG_OK;
    }
    if (n != 1 + r->named)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: %d fields: must be %s", r->path, line, n,
                        r->named ? "two, expert,tokens"
                                 : "one, an expert's tokens (or two under the header expert,tokens)");
    if (r->named && !whole_number(field[0], GEMM_MAX_EXPERTS - 1, &expert))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: expert '%.40s': must be a whole number from 0 to %d",
                        r->path, line, field[0], GEMM_MAX_EXPERTS - 1);
    if (!whole_number(field[r->named], GEMM_MAX_LOAD, &tokens))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: tokens '%.40s': must be a whole number from 0 to %" PRId64,
                        r->path, line, field[r->named], (int64_t)GEMM_MAX_LOAD);
    if (expert == GEMM_MAX_EXPERTS)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: must have at most %d experts", r->path, line,
                        GEMM_MAX_EXPERTS);
    if (r->line[expert])
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: expert %" PRId64 ": line %d has it already", r->path, line,
                        expert, r->line[expert]);
    r->line[expert] = line;
    r->tokens[expert] = tokens;
    r->experts = expert >= r->experts ? (int)expert + 1 : r->experts;
    return RFG_OK;
}

/* Whether all experts are listed and at least one has tokens. */
static rfg_status check(const struct reading *r)
{
    int64_t sum = 0;
    for (int e = 0; e < r->experts; e++) {
        if (!r->line[e])
            return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: expert %d is missing: must have each from 0 to %d",
                            r->path, e, r->experts - 1);
        sum += r->tokens[e];
    }
    return sum ? RFG_OK
               : rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: %d experts, 0 tokens: must have at least one", r->path,
                          r->experts);
}

rfg_status rfg_loads_read(const char *path)
{
    struct reading r = { .path = path,
                         .tokens = calloc(GEMM_MAX_EXPERTS, sizeof(*r.tokens)),
                         .line = calloc(GEMM_MAX_EXPERTS, sizeof(*r.line)) };
    rfg_status st = r.tokens && r.line ? rfg_csv_read(path, read_line, &r)
                                       : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory", path);
    if (st == RFG_OK)
        st = check(&r);
    if (st == RFG_OK && !gemm_loads_set(r.tokens, r.experts))
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory", path);
    free(r.tokens);
    free(r.line);
    return st;
}

bool rfg_loads_option(const char *program, const char *path)
{
    bool ok = rfg_loads_read(path) == RFG_OK;
    if (!ok)
        fprintf(stderr, "%s: --loads: %s\n", program, rfg_last_error());
    return ok;
}

struct rfg_problem rfg_loads_applied(const struct rfg_problem *prob)
{
    struct rfg_problem own = *prob;
    if (gemm_loads(NULL) && own.op == &rfg_op_gemm_desc && own.v[GEMM_EXPERTS] && own.v[GEMM_ROUTING] == GEMM_UNIFORM)
        own.v[GEMM_ROUTING] = GEMM_RECORDED;
    return own;
}
