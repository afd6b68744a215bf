/* SPDX-License-Identifier: MIT
 *
 * The ladder: exact row, nearest M, other CU count, analytical model, portable variant. */
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context_impl.h"

static bool allowed(const rfg_context *ctx, const struct rfg_op *op, const struct rfg_variant *var)
{
    return rfg_variant_listed(ctx->variants, op, var);
}

/* With a pack: whether it has the kernel's code. (Other kinds of variants need none.) */
static bool has_code(const rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var,
                     const int *p)
{
    struct rfg_kernel kernel = { 0 };
    if (!ctx->pack || var->kind != RFG_VARIANT_KERNEL)
        return true;
    var->kernel(&ctx->dev, prob, p, &kernel);
    return rfg_pack_find(ctx->pack, ctx->dev.target, &kernel) != NULL;
}

/* A row whose M differs by more than NEAR times is skipped if the model expects its own choice to be FASTER times as
 * fast. */
#define NEAR   2
#define FASTER 1.5
/* A row whose M differs by more than FAR times tells little: AGREES times as fast is enough. */
#define FAR    8
#define AGREES 1.1

struct walk {
    rfg_context *ctx;
    const struct rfg_problem *prob; /* the call's: what variants are checked against */
    struct rfg_problem key;         /* what rows are looked up by: the call's, with or without overlap=1 */
    bool more_keys;                 /* there are others of this call: rfg_op.row_key */
    uint32_t skip;                  /* variants left out by rungs 4 and 5 */
    struct rfg_choice *out;
    void (*say)(void *arg, const char *line);
    void *arg;
    struct model_answer *model;
    const struct rfg_order *order; /* of an invariant=1 problem, which takes no other; else NULL */
};

/* The model's choice, computed once per walk, for all rows that are compared with it. */
struct model_answer {
    bool asked, found;
    struct rfg_choice pick;
    struct rfg_choice missed; /* better than that, but its code is not in the pack; variant NULL: there is none */
};

__attribute__((format(printf, 2, 3))) static void tell(const struct walk *w, const char *fmt, ...)
{
    char line[700];
    if (!w->say)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    w->say(w->arg, line);
}

#define MAX_WARNINGS 8 /* of skipped rows in a context; RFG_LOG=dispatch tells of all */

/* True the first time for each row (or variant), up to a limit. */
static bool first_warning(rfg_context *ctx, const void *subject)
{
    bool first = true;
    pthread_mutex_lock(&ctx->warn_lock);
    for (size_t i = 0; i < ctx->n_warned && first; i++)
        first = ctx->warned[i] != subject;
    first = first && ctx->n_warned < MAX_WARNINGS;
    const void **more = first ? realloc(ctx->warned, (ctx->n_warned + 1) * sizeof(*more)) : NULL;
    if (more) {
        ctx->warned = more;
        ctx->warned[ctx->n_warned++] = subject;
    }
    pthread_mutex_unlock(&ctx->warn_lock);
    return first;
}

/* Goes a rung up by each key that rows of the call may have. */
static bool by_keys(struct walk *w, bool (*rung)(const struct walk *))
{
    bool found = false;
    for (int i = 0; !found && rfg_problem_row_key(&w->key, i); i++) {
        struct rfg_problem next = w->key;
        w->more_keys = rfg_problem_row_key(&next, i + 1);
        found = rung(w);
    }
    return found;
}

bool rfg_context_order(rfg_context *ctx, const struct rfg_problem *prob, struct rfg_order *order,
                       struct rfg_reason *why)
{
    struct rfg_problem key = *prob;
    prob->op->at_size(&key, false);
    pthread_mutex_lock(&ctx->warn_lock);
    const struct known_order *o = ctx->orders;
    while (o && !rfg_problem_equal(&o->prob, &key))
        o = o->next;
    pthread_mutex_unlock(&ctx->warn_lock);
    if (o) {
        *order = o->order;
        return true;
    }
    if (!rfg_order_find(&ctx->uncalibrated, &key, ctx->variants, order, why))
        return false;
    struct known_order *found = malloc(sizeof(*found)); /* without: it is found again */
    if (found) {
        pthread_mutex_lock(&ctx->warn_lock);
        *found = (struct known_order){ ctx->orders, key, *order };
        ctx->orders = found;
        pthread_mutex_unlock(&ctx->warn_lock);
    }
    return true;
}

struct ranking {
    const struct walk *w;
    const struct rfg_variant *var;
    struct rfg_choice *out;
    double best;
};

static bool rank(void *arg, const int *p)
{
    struct ranking *r = arg;
    double us = r->var->predict(&r->w->ctx->dev, r->w->prob, p);
    struct rfg_choice *missed = &r->w->model->missed;
    if (us >= r->best)
        return true;
    bool has = has_code(r->w->ctx, r->w->prob, r->var, p);
    if (!has && missed->variant && us >= missed->predicted_us)
        return true;
    struct rfg_choice *to = has ? r->out : missed;
    r->best = has ? us : r->best;
    *to = (struct rfg_choice){ .variant = r->var, .rung = RFG_RUNG_MODEL, .predicted_us = us };
    memcpy(to->params, p, (size_t)r->var->n_params * sizeof(int));
    return true;
}

/* The model's choice; NULL: it has none. */
static const struct rfg_choice *model_pick(const struct walk *w)
{
    const struct rfg_op *op = w->prob->op;
    struct model_answer *m = w->model;
    struct ranking r = { .w = w, .out = &m->pick, .best = DBL_MAX };
    const struct rfg_variants *all = rfg_op_variants(op);
    for (int i = 0; !m->asked && i < all->n; i++) {
        r.var = all->list[i];
        if (!(w->skip >> i & 1) && allowed(w->ctx, op, r.var) && r.var->predict)
            rfg_variant_each_in(r.var, &w->ctx->dev, w->prob, w->order, rank, &r);
    }
    m->found = m->asked ? m->found : r.best < DBL_MAX;
    m->asked = true;
    return m->found ? &m->pick : NULL;
}

/* Whether the row says nothing about this call: a predicted one of another M or CU count, whose neighbours have no rows
 * because the model's choice is right there; or the model advises against it, because its M is far. */
static bool too_far(const struct walk *w, const struct rfg_row *row, const struct rfg_choice *c, struct rfg_reason *why)
{
    int64_t m = rfg_problem_rows(w->prob), its = rfg_problem_rows(&row->problem);
    if (row->how == RFG_SOURCE_PREDICTED)
        return !rfg_refuse(why, "a predicted row serves its own problem and CU count only");
    if ((m <= NEAR * its && its <= NEAR * m) || !c->variant->predict)
        return false;
    bool far = m > FAR * its || its > FAR * m;
    const struct rfg_choice *pick = model_pick(w);
    double us = c->variant->predict(&w->ctx->dev, w->prob, c->params);
    return pick && us > (far ? AGREES : FASTER) * pick->predicted_us &&
           !rfg_refuse(why, "the model expects %.2f us, and %.2f us of its own choice", us, pick->predicted_us);
}

/* Whether the row's parameters belong to another version of a library, where they mean something else. */
static bool other_version(const struct walk *w, const struct rfg_row *row, const struct rfg_variant *var,
                          struct rfg_reason *why)
{
    const char *here = var->by_version ? var->vendor_version(&w->ctx->dev) : "";
    return *here && strcmp(row->source_hash, here) != 0 &&
           !rfg_refuse(why, "measured with %s, and this is %s: its parameters mean something else here",
                       row->source_hash, here);
}

/* "1234 GB/s", and whether that was measured. */
static const char *bandwidth(double measured, double estimate, char buf[48])
{
    if (measured > 0 || estimate > 0)
        snprintf(buf, 48, "%.0f GB/s%s", measured > 0 ? measured : estimate, measured > 0 ? "" : " expected");
    else
        snprintf(buf, 48, "bandwidth not measured");
    return buf;
}

/* A row of another product with as many CUs: its memory may be faster or slower. */
static void tell_sibling(const struct walk *w, const struct rfg_row *row)
{
    const rfg_context *ctx = w->ctx;
    char its[48], ours[48];
    if (row->cu_count == ctx->dev.cu_count && rfg_row_of_sibling(row, rfg_context_named(ctx)))
        tell(w, "a sibling's row: of %s (%s); there is none of %s (%s)", row->device, bandwidth(row->mem_gbps, 0, its),
             ctx->product, bandwidth(ctx->measured_gbps, ctx->dev.mem_gbps, ours));
}

/* Whether the row is valid for this library and this call. */
static bool take_row(const struct walk *w, const struct rfg_row *row, enum rfg_rung rung)
{
    struct rfg_reason why = { "" };
    struct rfg_choice c = { .rung = rung, .row = row };
    char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
    bool broken = true; /* not for this call only */

    c.variant = rfg_variant_find(w->prob->op, row->variant);
    if (!c.variant)
        rfg_refuse(&why, "variant '%s' does not exist in this version", row->variant);
    else if (!allowed(w->ctx, w->prob->op, c.variant))
        broken = rfg_refuse(&why, "variant %s is switched off by RFG_VARIANTS", row->variant);
    else if (other_version(w, row, c.variant, &why))
        ;
    else if (rfg_row_params(row, c.variant, c.params, &why) &&
             rfg_variant_check(c.variant, &w->ctx->dev, &row->problem, c.params, &why) &&
             rfg_order_kept(c.variant, &w->ctx->dev, w->prob, c.params, w->order, &why)) {
        broken = false;
        if (rfg_variant_check(c.variant, &w->ctx->dev, w->prob, c.params, &why) &&
            (has_code(w->ctx, w->prob, c.variant, c.params) || rfg_refuse(&why, "its code is not in the pack")) &&
            (rung == RFG_RUNG_EXACT || !too_far(w, row, &c, &why))) {
            tell(w, "rung %d: row %s on %d CUs -> %s, %.2f us %s %s", (int)rung,
                 rfg_problem_format(&row->problem, text, sizeof(text)), row->cu_count,
                 rfg_row_config(row, config, sizeof(config)), row->median_us, rfg_source_name(row->how), row->date);
            tell_sibling(w, row);
            *w->out = c;
            return true;
        }
    }
    rfg_problem_format(&row->problem, text, sizeof(text));
    tell(w, "rung %d: row %s on %d CUs skipped: %s", (int)rung, text, row->cu_count, why.text);
    /* A library that is missing or switched off is reported once, however many rows name it. */
    bool vendor = c.variant && c.variant->kind == RFG_VARIANT_VENDOR;
    if (broken && vendor && first_warning(w->ctx, c.variant))
        rfg_warn("tuned rows of %s are skipped: %s", row->variant, why.text);
    else if (broken && !vendor && first_warning(w->ctx, row))
        rfg_warn("tuned row '%s' (%s, %d CUs) skipped: %s %s: %s", text, row->arch, row->cu_count, row->variant,
                 row->params, why.text);
    return false;
}

const struct rfg_row *rfg_context_row(const rfg_context *ctx, const struct rfg_problem *prob)
{
    struct rfg_problem key = rfg_problem_key(prob);
    const struct learned_row *l = atomic_load_explicit(&ctx->learned, memory_order_acquire);
    while (l && !rfg_problem_equal(&l->row.problem, &key))
        l = l->next;
    return l ? &l->row : rfg_snapshot_exact(ctx->snap, &key, ctx->dev.cu_count);
}

static bool by_exact(const struct walk *w)
{
    const struct rfg_row *row = rfg_context_row(w->ctx, &w->key);
    char text[RFG_PROBLEM_STRLEN];
    if (!row && !w->more_keys)
        tell(w, "rung 1: no row for %s", rfg_problem_format(&w->key, text, sizeof(text)));
    return row && take_row(w, row, RFG_RUNG_EXACT);
}

/* Words for the rows that a rung searched, if there are two kinds. */
static const char *kind(const struct walk *w)
{
    return !rfg_problem_overlaps(w->prob) ? "" : rfg_problem_overlaps(&w->key) ? ", overlap=1" : ", without overlap";
}

#define MAX_ROWS 32 /* so that a database of bad rows costs a bounded time */

static bool by_nearest(const struct walk *w)
{
    const struct rfg_row *row = NULL;
    for (int i = 0; i < MAX_ROWS && (row = rfg_snapshot_nearest(w->ctx->snap, &w->key, w->ctx->dev.cu_count, i)); i++)
        if (take_row(w, row, RFG_RUNG_NEAREST))
            return true;
    if (!row && !w->more_keys)
        tell(w, "rung 2: no %srow with another M%s", rfg_snapshot_rows(w->ctx->snap) ? "usable " : "", kind(w));
    return false;
}

static bool by_other_cus(const struct walk *w)
{
    const struct rfg_row *row = NULL;
    for (int i = 0; i < MAX_ROWS && (row = rfg_snapshot_other_cus(w->ctx->snap, &w->key, w->ctx->dev.cu_count, i)); i++)
        if (take_row(w, row, RFG_RUNG_OTHER_CUS))
            return true;
    if (!row && !w->more_keys)
        tell(w, "rung 3: no %srow of another CU count%s", rfg_snapshot_rows(w->ctx->snap) ? "usable " : "", kind(w));
    return false;
}

/* Warns, once per operator, that the pack's best kernel for this GPU is slower than one that would have been
 * compiled. */
static void warn_of_pack(const struct walk *w, const struct rfg_choice *pick)
{
    const struct rfg_choice *missed = &w->model->missed;
    char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
    if (!missed->variant || (pick->rung == RFG_RUNG_MODEL && pick->predicted_us <= FASTER * missed->predicted_us) ||
        !first_warning(w->ctx, w->prob->op))
        return;
    rfg_warn(
        "%s: has no row that serves '%s' on %s with %d CUs, and no code of %s, which the model would take: %s serves "
        "it, slowly; pack with --arch %s:%d, too (further problems of %s aren't reported)",
        rfg_pack_path(w->ctx->pack), rfg_problem_format(&w->key, text, sizeof(text)), w->ctx->dev.arch,
        w->ctx->dev.cu_count, rfg_config_format(missed->variant, missed->params, config, sizeof(config)),
        pick->variant->name, w->ctx->dev.target, w->ctx->dev.cu_count, w->prob->op->name);
}

static bool by_model(const struct walk *w)
{
    char config[RFG_CONFIG_STRLEN];
    const struct rfg_choice *pick = model_pick(w);
    if (!pick) {
        tell(w, "rung 4: the model knows no variant for this problem");
        return false;
    }
    *w->out = *pick;
    tell(w, "rung 4: the model picks %s, %.2f us predicted",
         rfg_config_format(pick->variant, pick->params, config, sizeof(config)), pick->predicted_us);
    warn_of_pack(w, pick);
    return true;
}

static bool first(void *arg, const int *p)
{
    struct ranking *r = arg;
    if (!has_code(r->w->ctx, r->w->prob, r->var, p))
        return true;
    *r->w->out = (struct rfg_choice){ .variant = r->var, .rung = RFG_RUNG_PORTABLE };
    memcpy(r->w->out->params, p, (size_t)r->var->n_params * sizeof(int));
    return false;
}

static bool by_portable(const struct walk *w)
{
    const struct rfg_op *op = w->prob->op;
    const struct rfg_variants *all = rfg_op_variants(op);
    for (int i = all->n - 1; i >= 0; i--) {
        struct ranking r = { .w = w, .var = all->list[i] };
        w->out->variant = NULL;
        if (!(w->skip >> i & 1) && allowed(w->ctx, op, r.var))
            rfg_variant_each_in(r.var, &w->ctx->dev, w->prob, w->order, first, &r);
        if (w->out->variant) {
            char config[RFG_CONFIG_STRLEN];
            tell(w, "rung 5: portable variant %s", rfg_config_format(r.var, w->out->params, config, sizeof(config)));
            warn_of_pack(w, w->out);
            return true;
        }
    }
    return false;
}

/* Why no variant serves the problem: the reason of the last candidate of each kind. */
static rfg_status nothing_serves(const struct walk *w)
{
    const struct rfg_op *op = w->prob->op;
    char text[RFG_PROBLEM_STRLEN], reasons[600] = "";
    bool without_pack = false; /* could one serve it, had the pack its code? */
    rfg_problem_format(w->prob, text, sizeof(text));
    const struct rfg_variants *all = rfg_op_variants(op);
    for (int i = all->n - 1; i >= 0; i--) {
        const struct rfg_variant *var = all->list[i];
        struct rfg_reason why = { "no valid parameters" };
        if (!allowed(w->ctx, op, var))
            rfg_refuse(&why, "switched off by RFG_VARIANTS");
        else if (w->skip >> i & 1)
            rfg_refuse(&why, "could not be made ready");
        else if (rfg_variant_supports(var, &w->ctx->dev, w->prob, &why) && w->ctx->pack)
            without_pack = !rfg_refuse(&why, "its code is not in the pack");
        size_t at = strlen(reasons);
        snprintf(reasons + at, sizeof(reasons) - at, "%s%s: %s", at ? "; " : "", var->name, why.text);
    }
    if (without_pack)
        return rfg_fail(RFG_ERROR_COMPILE,
                        "%s on %s: nothing is compiled with a pack, and %s has no code that serves it: pack it with "
                        "this problem's shape: %s",
                        text, w->ctx->dev.name, rfg_pack_path(w->ctx->pack), reasons);
    return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s on %s (%s): no variant can serve it: %s", text, w->ctx->dev.name,
                    w->ctx->dev.arch, reasons);
}

rfg_status rfg_choose(rfg_context *ctx, const struct rfg_problem *prob, enum rfg_rung from, uint32_t skip,
                      struct rfg_choice *out, void (*say)(void *arg, const char *line), void *arg)
{
    static bool (*const rungs[])(const struct walk *) = {
        [RFG_RUNG_EXACT] = by_exact, [RFG_RUNG_NEAREST] = by_nearest,   [RFG_RUNG_OTHER_CUS] = by_other_cus,
        [RFG_RUNG_MODEL] = by_model, [RFG_RUNG_PORTABLE] = by_portable,
    };
    struct model_answer model = { 0 };
    struct walk w = { .ctx = ctx,
                      .prob = prob,
                      .key = rfg_problem_key(prob),
                      .skip = skip,
                      .out = out,
                      .say = say,
                      .arg = arg,
                      .model = &model };
    struct rfg_order order;
    struct rfg_reason why;
    bool overlaps = rfg_problem_overlaps(prob);
    if (rfg_problem_is_invariant(prob)) {
        if (!rfg_context_order(ctx, prob, &order, &why))
            return nothing_serves(&w);
        w.order = &order;
        tell(&w, "invariant=1: rows are summed as '%s', whatever their number; what sums otherwise is left out",
             order.words);
    }
    for (int r = from; r <= RFG_RUNG_PORTABLE; r++)
        /* Rows tuned for overlap, then the others, which tell more than the next rung. */
        for (int o = overlaps && r < RFG_RUNG_MODEL; o >= 0; o--) {
            w.key = rfg_problem_with_overlap(&w.key, o);
            if (!(r < RFG_RUNG_MODEL ? by_keys(&w, rungs[r]) : rungs[r](&w)))
                continue;
            out->overlap = overlaps && out->variant->kind == RFG_VARIANT_KERNEL && (!o || rfg_row_overlap(out->row));
            return RFG_OK;
        }
    return nothing_serves(&w);
}

bool rfg_dispatch_offers(rfg_context *ctx, const struct rfg_problem *prob, const struct rfg_variant *var)
{
    struct rfg_problem own = rfg_problem_of_call(ctx, prob);
    struct rfg_order order;
    if (!rfg_variant_listed(ctx->variants, prob->op, var) || !rfg_variant_supports(var, &ctx->dev, &own, NULL))
        return false;
    /* An order's words begin with the name of a variant that has parameters for it at all sizes. */
    return !rfg_problem_is_invariant(&own) ||
           (rfg_context_order(ctx, &own, &order, NULL) && !strncmp(order.words, var->name, strlen(var->name)));
}
