/* SPDX-License-Identifier: MIT
 *
 * rfg_explain(): what the ladder would choose, and why. */
#include <stdio.h>
#include <stdlib.h>

#include "context_impl.h"

struct text {
    char *buf;
    size_t size, at;
};

static void add_line(void *arg, const char *line)
{
    struct text *t = arg;
    size_t at = t->at < t->size ? t->at : t->size - 1;
    int n = snprintf(t->buf + at, t->size - at, "%s\n", line);
    t->at += n > 0 ? (size_t)n : 0;
}

/* What is said of one problem. */
static rfg_status explain(rfg_context *ctx, const struct rfg_problem *problem, struct text *t)
{
    struct rfg_problem prob = *problem;
    struct rfg_reason why;
    struct rfg_choice c;
    char line[RFG_CONFIG_STRLEN + 300], config[RFG_CONFIG_STRLEN];
    rfg_status st = rfg_context_problem(ctx, &prob, &prob);
    if (st != RFG_OK)
        return st;
    prob = rfg_problem_as_called(&prob);
    st = rfg_choose(ctx, &prob, RFG_RUNG_EXACT, 0, &c, add_line, t);
    if (st != RFG_OK) {
        add_line(t, rfg_last_error());
        return RFG_OK;
    }
    snprintf(line, sizeof(line), "chosen: %s by rung %d on %s (%s, %d CUs)%s",
             rfg_config_format(c.variant, c.params, config, sizeof(config)), (int)c.rung, ctx->dev.name, ctx->dev.arch,
             ctx->dev.cu_count,
             !ctx->overlap ? ""
             : c.overlap   ? ", launched with overlap"
                           : ", launched plainly");
    add_line(t, line);
    if (ctx->pack) {
        snprintf(line, sizeof(line), "code: of the pack %.250s, nothing is compiled", rfg_pack_path(ctx->pack));
        add_line(t, line);
    }
    if (c.row) {
        snprintf(line, sizeof(line),
                 "row: %.2f us (spread %.2f, %d samples), default %.2f us, vendor %.2f us, error %.3g of %.3g allowed",
                 c.row->median_us, c.row->spread_us, c.row->samples, c.row->default_us, c.row->vendor_us, c.row->error,
                 c.row->error_bound);
        add_line(t, line);
        snprintf(line, sizeof(line), "row: %s on %s, compiler %s, driver %s, rfg %s, source %.12s",
                 rfg_source_name(c.row->how), *c.row->device ? c.row->device : "an unnamed device", c.row->compiler,
                 c.row->driver, c.row->version, c.row->source_hash);
        add_line(t, line);
    }
    const struct rfg_variants *all = rfg_op_variants(prob.op);
    for (int i = 0; i < all->n; i++) {
        const struct rfg_variant *var = all->list[i];
        if (var == c.variant)
            continue;
        why.text[0] = 0;
        if (!rfg_variant_listed(ctx->variants, prob.op, var))
            rfg_refuse(&why, "switched off by RFG_VARIANTS");
        else if (rfg_variant_supports(var, &ctx->dev, &prob, &why))
            rfg_refuse(&why, "could serve it, not chosen");
        snprintf(line, sizeof(line), "%s: %s", var->name, why.text);
        add_line(t, line);
    }
    return RFG_OK;
}

rfg_status rfg_explain(rfg_context *ctx, const char *problem, char *buf, size_t size)
{
    struct rfg_reason why;
    struct text t = { buf, size, 0 };
    struct rfg_problem *probs;
    char text[RFG_PROBLEM_STRLEN];
    size_t n;
    if (!ctx || !buf || !size)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_explain: %s",
                        !ctx   ? "ctx is NULL: must be a context"
                        : !buf ? "buf is NULL: must have room for text"
                               : "size is 0: buf must have room for text");
    buf[0] = 0;
    if (rfg_context_forked(ctx))
        return rfg_fork_refuse(ctx);
    rfg_status st = rfg_problems_parse(problem, &probs, &n, &why);
    if (st != RFG_OK)
        return rfg_fail(st, "rfg_explain: %s", why.text);
    for (size_t i = 0; i < n && st == RFG_OK; i++) {
        if (n > 1)
            add_line(&t, rfg_problem_format(&probs[i], text, sizeof(text)));
        st = explain(ctx, &probs[i], &t);
    }
    free(probs);
    if (st == RFG_OK && t.at >= size)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_explain: size is %zu: must be at least %zu for all of the text",
                      size, t.at + 1);
    return st;
}
