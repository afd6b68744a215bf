/* SPDX-License-Identifier: MIT
 *
 * Chooses and orders a shape's candidates, and gives the reason for those left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tune.h"

#define DEFAULT_CANDIDATES 48  /* docs/perf/gemm.md says what more and fewer would find */
#define PRUNE_FACTOR       4.0 /* candidates that the model thinks are so much slower than its best are not tried, */
#define KEEP_AT_LEAST      8   /* but this many are: the model may be wrong */
#define SHARE              8   /* 1/8 of --candidates is for the best of each variant, if it has so many */
#define MAX_VENDOR         32  /* of a vendor's library: its algorithms have no order that a model knows */

/* ---- are they what can be tuned here? --------------------------------------------------------------------------- */

/* Is there what problems' data are made of? -1: go on; else the exit code. */
static int check_loads(const struct tune *t)
{
    struct rfg_reason why;
    for (int i = 0; i < t->n_shapes; i++)
        if (!gemm_loads_fit(&t->shapes[i].problem, &why)) {
            fprintf(stderr, "rfg-tune: %s: %s\n", t->shapes[i].text, why.text);
            return TUNE_EXIT_USAGE;
        }
    return -1;
}

/* Overlap=1 problems need a device that can overlap launches, and the rows without overlap to race against. -1: go on;
 * else the exit code. */
static int prepare_overlap(struct tune *t)
{
    struct rfg_reason why;
    int i = 0;
    while (i < t->n_shapes && !rfg_problem_overlaps(&t->shapes[i].problem))
        i++;
    if (i == t->n_shapes)
        return -1;
    if (!rfg_device_can_overlap(&t->dev, &why)) {
        fprintf(stderr, "rfg-tune: %s: %s\n", t->opt.overlap ? "--overlap" : t->shapes[i].text, why.text);
        return TUNE_EXIT_USAGE;
    }
    char *system = rfg_db_system_path(t->dev.arch, t->dev.cu_count);
    t->rows = rfg_snapshot_load(t->db, system, t->dev.arch, t->ctx ? rfg_context_named(t->ctx) : "");
    free(system);
    return -1;
}

int tune_prepare_shapes(struct tune *t)
{
    int code = check_loads(t);
    return code < 0 ? prepare_overlap(t) : code;
}

/* ---- enumeration ------------------------------------------------------------------------------------------------- */

struct list {
    const struct tune *t;
    const struct tune_shape *s;
    const struct rfg_variant *var;
    struct tune_candidate *c;
    int n, room;
    bool out_of_memory;
};

static bool add(void *arg, const int *p)
{
    struct list *l = arg;
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        struct tune_candidate *more = realloc(l->c, (size_t)room * sizeof(*more));
        if (!more) {
            l->out_of_memory = true;
            return false;
        }
        l->c = more;
        l->room = room;
    }
    struct tune_candidate *c = &l->c[l->n];
    *c = (struct tune_candidate){ .var = l->var, .order = l->n, .predicted_us = HUGE_VAL };
    memcpy(c->p, p, (size_t)l->var->n_params * sizeof(*p));
    if (l->var->predict)
        c->predicted_us = l->var->predict(&l->t->dev, &l->s->call, p);
    if (isnan(c->predicted_us))
        c->predicted_us = HUGE_VAL;
    l->n++;
    return true;
}

static int by_prediction(const void *pa, const void *pb)
{
    const struct tune_candidate *a = pa, *b = pb;
    if (a->predicted_us != b->predicted_us)
        return a->predicted_us < b->predicted_us ? -1 : 1;
    return a->order - b->order;
}

/* The winner without overlap is raced too: turning overlap on must not make a tuned problem slower. */
static void mark_plain_winner(const struct tune *t, struct tune_shape *s)
{
    struct rfg_problem plain = rfg_problem_with_overlap(&s->problem, false);
    const struct rfg_row *row = t->rows ? rfg_snapshot_exact(t->rows, &plain, t->dev.cu_count) : NULL;
    int p[RFG_MAX_PARAMS];
    for (int i = 0; row && i < s->n; i++)
        s->c[i].wins_plainly = !strcmp(s->c[i].var->name, row->variant) && rfg_row_params(row, s->c[i].var, p, NULL) &&
                               !memcmp(s->c[i].p, p, (size_t)s->c[i].var->n_params * sizeof(int));
}

/* Dispatch's choice without a row: the context's answer, or, for an imagined device, the model's first. */
static void mark_default(const struct tune *t, struct tune_shape *s)
{
    struct rfg_choice choice;
    if (!t->ctx) {
        if (s->n)
            s->c[0].is_default = true;
        return;
    }
    if (rfg_choose(t->ctx, &s->call, RFG_RUNG_MODEL, 0, &choice, NULL, NULL) != RFG_OK)
        return;
    for (int i = 0; i < s->n; i++)
        s->c[i].is_default = s->c[i].var == choice.variant &&
                             !memcmp(s->c[i].p, choice.params, (size_t)choice.variant->n_params * sizeof(int));
}

/* The source hash of each variant, asked once: it is part of what a failure is remembered by. */
struct hashes {
    const struct rfg_variant *var[32];
    char hex[32][65];
    int n;
};

static const char *source_hash(const struct tune *t, const struct tune_shape *s, const struct rfg_variant *var,
                               struct hashes *h)
{
    char compiler[96];
    for (int i = 0; i < h->n; i++)
        if (h->var[i] == var)
            return h->hex[i];
    if (!t->ctx || h->n == 32)
        return "";
    h->var[h->n] = var;
    rfg_variant_provenance(t->ctx, &s->problem, var, h->hex[h->n], compiler, sizeof(compiler));
    return h->hex[h->n++];
}

static bool failed_before(const struct tune *t, const struct tune_shape *s, const struct tune_candidate *c,
                          struct hashes *h)
{
    char config[RFG_CONFIG_STRLEN], what[64];
    if (!t->db || t->opt.force)
        return false;
    rfg_config_format(c->var, c->p, config, sizeof(config));
    return rfg_db_failed(t->db, &s->problem, t->dev.arch, t->dev.cu_count, config, source_hash(t, s, c->var, h), what,
                         sizeof(what)) == 1;
}

/* Marks the candidates to try: the best of the sorted list, and some of each variant, since the model ranks parameters
 * of a variant better than variants. */
static void choose_candidates(const struct tune *t, const struct tune_shape *s, bool *keep)
{
    const struct rfg_op *op = s->problem.op;
    int most = t->opt.candidates > 0 ? t->opt.candidates : DEFAULT_CANDIDATES, kept = 0, vendor = 0;
    double limit = s->n ? PRUNE_FACTOR * s->c[0].predicted_us : 0;
    const struct rfg_variants *all = rfg_op_variants(op);
    for (int v = 0; v < all->n; v++)
        for (int i = 0, n = 0; i < s->n && n < most / SHARE && kept < most; i++)
            if (s->c[i].var == all->list[v] && s->c[i].var->kind != RFG_VARIANT_VENDOR &&
                s->c[i].predicted_us <= limit) {
                keep[i] = true;
                n++;
                kept++;
            }
    for (int i = 0; i < s->n; i++) {
        if (s->c[i].var->kind == RFG_VARIANT_VENDOR)
            keep[i] = vendor++ < MAX_VENDOR;
        else if (!keep[i] && kept < most && (s->c[i].predicted_us <= limit || kept < KEEP_AT_LEAST)) {
            keep[i] = true;
            kept++;
        }
        keep[i] |= s->c[i].is_default || s->c[i].wins_plainly;
    }
}

static bool prune(const struct tune *t, struct tune_shape *s)
{
    struct hashes hashes = { .n = 0 };
    bool *keep = calloc((size_t)s->n + 1, sizeof(*keep));
    int n = 0;
    if (!keep)
        return false;
    choose_candidates(t, s, keep);
    for (int i = 0; i < s->n; i++) {
        if (!keep[i])
            s->pruned++;
        else if (failed_before(t, s, &s->c[i], &hashes))
            s->remembered++;
        else
            s->c[n++] = s->c[i];
    }
    s->n = n;
    free(keep);
    return true;
}

/* The order of trial: the default, the vendor's, then the rest in the model's order. So if a sweep is cut short, the
 * times to compare with are there. */
static int by_need(const void *pa, const void *pb)
{
    const struct tune_candidate *a = pa, *b = pb;
    int rank_a = a->is_default ? 0 : a->var->kind == RFG_VARIANT_VENDOR ? 1 : 2;
    int rank_b = b->is_default ? 0 : b->var->kind == RFG_VARIANT_VENDOR ? 1 : 2;
    return rank_a != rank_b ? rank_a - rank_b : by_prediction(pa, pb);
}

/* NULL: any order will do. */
static const struct rfg_order *order_of(const struct tune_shape *s)
{
    return rfg_problem_is_invariant(&s->call) ? &s->order : NULL;
}

/* ---- up to date? ------------------------------------------------------------------------------------------------- */

/* Whether the row is valid for this library and this call. CHANGED: only compiling its kernel can tell. */
static enum rfg_stamp_state row_state(const struct tune *t, const struct tune_shape *s, const struct rfg_row *row)
{
    const struct rfg_variant *var = rfg_variant_find(s->problem.op, row->variant);
    struct hashes hashes = { .n = 0 };
    struct rfg_stamp_check c;
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    char loads[RFG_RECORDING_NAME];
    if (rfg_problem_is_recorded(&row->problem) && strcmp(rfg_row_loads(row, loads, sizeof(loads)), gemm_loads_name()))
        return RFG_STAMP_STALE;
    if (!var || !rfg_variant_listed(t->opt.variants, s->problem.op, var) || !rfg_row_params(row, var, p, &why) ||
        !rfg_variant_check(var, &t->dev, &s->call, p, &why) ||
        !rfg_order_kept(var, &t->dev, &s->call, p, order_of(s), &why))
        return RFG_STAMP_STALE;
    if (!t->ctx)
        return RFG_STAMP_CURRENT;
    if (var->kind != RFG_VARIANT_KERNEL)
        return strcmp(row->source_hash, source_hash(t, s, var, &hashes)) ? RFG_STAMP_STALE : RFG_STAMP_CURRENT;
    rfg_stamp_look(&c, row, &t->dev);
    bool missing = *row->compiler && !rfg_jit_provider_of_version(row->compiler, t->dev.target);
    return missing && c.state <= RFG_STAMP_CHANGED ? RFG_STAMP_UNKNOWN : c.state;
}

bool tune_row_is_current(const struct tune *t, const struct tune_shape *s, const struct rfg_row *row)
{
    return row_state(t, s, row) == RFG_STAMP_CURRENT;
}

static bool get_row(struct tune *t, const struct tune_shape *s, struct rfg_row *row)
{
    return t->db && rfg_db_get(t->db, &s->problem, t->dev.arch, t->dev.cu_count, tune_product(t), row) == 1;
}

bool tune_done_elsewhere(struct tune *t, struct tune_shape *s)
{
    struct rfg_row now;
    if (!get_row(t, s, &now) ||
        (s->had_row && now.seed == s->row.seed && now.median_us == s->row.median_us && !strcmp(now.date, s->row.date)))
        return false;
    bool measured = now.how == RFG_SOURCE_MEASURED || now.how == RFG_SOURCE_PROVISIONAL;
    enum rfg_stamp_state state = measured ? row_state(t, s, &now) : RFG_STAMP_STALE;
    if (state != RFG_STAMP_CURRENT && state != RFG_STAMP_UNKNOWN)
        return false;
    s->row = now;
    s->state = SHAPE_CURRENT;
    return true;
}

void tune_look_up_shape(struct tune *t, struct tune_shape *s)
{
    double bytes, flops;
    struct rfg_reason why;
    s->call = rfg_packed_call(&s->problem);
    /* If there is none, none of its configurations sums so. */
    if (rfg_problem_is_invariant(&s->call) &&
        !(t->ctx ? rfg_context_order(t->ctx, &s->call, &s->order, &why)
                 : rfg_order_find(&t->dev, &s->call, t->opt.variants, &s->order, &why)))
        s->order.words[0] = 0;
    s->problem.op->cost(&s->problem, &bytes, &flops);
    s->floor_us = rfg_floor_us(&t->dev, &s->problem, &s->floor_of);
    if (flops <= 0) {
        s->state = SHAPE_EMPTY;
        snprintf(s->why, sizeof(s->why), "nothing to compute");
        return;
    }
    s->had_row = get_row(t, s, &s->row);
    /* Provisional rows are tuned again, as predicted and imported ones are. */
    if (!s->had_row || t->opt.force || s->row.how != RFG_SOURCE_MEASURED)
        return;
    enum rfg_stamp_state state = row_state(t, s, &s->row);
    s->text_changed = state == RFG_STAMP_CHANGED;
    s->code_unknown = state == RFG_STAMP_UNKNOWN;
    if (state == RFG_STAMP_CURRENT || state == RFG_STAMP_UNKNOWN)
        s->state = SHAPE_CURRENT;
}

bool tune_look_up_code(struct tune *t)
{
    struct rfg_stamp_check *c = calloc((size_t)t->n_shapes + 1, sizeof(*c));
    struct rfg_stamp *stamps = calloc((size_t)t->n_shapes + 1, sizeof(*stamps));
    size_t n = 0, same = 0, written;
    for (int i = 0; c && i < t->n_shapes; i++)
        if (t->shapes[i].text_changed)
            rfg_stamp_look(&c[n++], &t->shapes[i].row, &t->dev);
    if (n)
        tune_say("the kernels of %zu rows have another text than was measured: compiling them to see if the code is "
                 "the same",
                 n);
    bool ok = c && stamps && (!n || rfg_stamp_compile(c, n, rfg_context_cache(t->ctx), t->opt.jobs, NULL));
    for (size_t i = 0, k = 0; ok && n && i < (size_t)t->n_shapes; i++)
        if (t->shapes[i].text_changed && c[k++].state == RFG_STAMP_CURRENT) {
            t->shapes[i].state = SHAPE_CURRENT;
            stamps[same++] = c[k - 1].stamp;
        }
    /* So that the next run needn't compile. */
    if (ok && same && !t->opt.dry_run && rfg_db_restamp(t->db, stamps, same, &written) != RFG_OK)
        tune_say("rows are not restamped: %s", rfg_last_error());
    free(c);
    free(stamps);
    return ok;
}

void tune_plan_shape(struct tune *t, struct tune_shape *s)
{
    struct list l = { .t = t, .s = s };
    for (int i = 0; i < rfg_op_variants(s->problem.op)->n; i++) {
        l.var = rfg_op_variants(s->problem.op)->list[i];
        if (rfg_variant_listed(t->opt.variants, s->problem.op, l.var))
            rfg_variant_each_in(l.var, &t->dev, &s->call, order_of(s), add, &l);
    }
    s->c = l.c;
    s->n = s->valid = l.n;
    if (l.n)
        qsort(s->c, (size_t)s->n, sizeof(*s->c), by_prediction);
    mark_default(t, s);
    if (rfg_problem_overlaps(&s->problem))
        mark_plain_winner(t, s);
    l.out_of_memory |= !prune(t, s);
    struct tune_candidate *fit = s->n ? realloc(s->c, (size_t)s->n * sizeof(*s->c)) : NULL;
    if (fit)
        s->c = fit;
    if (s->n)
        qsort(s->c, (size_t)s->n, sizeof(*s->c), by_need);
    if (l.out_of_memory || !s->n) {
        s->state = SHAPE_FAILED;
        snprintf(s->why, sizeof(s->why), "%s",
                 l.out_of_memory ? "no memory for the candidates"
                 : s->remembered ? "every candidate failed in an earlier run (--force tries them again)"
                                 : "no variant can serve it on this device (--dry-run says why)");
    }
}

/* ---- --dry-run --------------------------------------------------------------------------------------------------- */

/* Reasons that differ in their numbers only are one kind: "rows=8: more than 16" stands for all rows. */
struct reasons {
    struct {
        char kind[160], example[160];
        int n;
    } v[24];
    int n, others;
};

static void count_reason(struct reasons *r, const char *text)
{
    char kind[160];
    size_t at = 0;
    for (const char *s = text; *s && at < sizeof(kind) - 1; s++) {
        bool digit = *s >= '0' && *s <= '9';
        if (digit && at && kind[at - 1] == '#')
            continue;
        kind[at++] = digit ? '#' : *s;
    }
    kind[at] = 0;
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->v[i].kind, kind)) {
            r->v[i].n++;
            return;
        }
    if (r->n == (int)(sizeof(r->v) / sizeof(r->v[0]))) {
        r->others++;
        return;
    }
    snprintf(r->v[r->n].kind, sizeof(r->v[0].kind), "%s", kind);
    snprintf(r->v[r->n].example, sizeof(r->v[0].example), "%s", text);
    r->v[r->n++].n = 1;
}

static void explain_parameters(const struct tune *t, const struct tune_shape *s, const struct rfg_variant *var,
                               FILE *out)
{
    int at[RFG_MAX_PARAMS] = { 0 }, p[RFG_MAX_PARAMS], refused = 0;
    struct reasons *r = calloc(1, sizeof(*r));
    if (!r)
        return;
    for (int i = 0; i >= 0 && (var->valid || var->worth || order_of(s));) {
        struct rfg_reason why = { "" };
        for (i = 0; i < var->n_params; i++)
            p[i] = var->params[i].values[at[i]];
        if ((var->valid && !var->valid(&t->dev, &s->call, p, &why)) ||
            (var->worth && !var->worth(&t->dev, &s->call, p, &why)) ||
            !rfg_order_kept(var, &t->dev, &s->call, p, order_of(s), &why)) {
            refused++;
            count_reason(r, why.text);
        }
        for (i = var->n_params - 1; i >= 0 && ++at[i] == var->params[i].n; i--)
            at[i] = 0;
    }
    if (refused)
        fprintf(out, "  %s: %d sets of parameters refused:\n", var->name, refused);
    for (int i = 0; i < r->n; i++)
        fprintf(out, "    %6d  %s%s\n", r->v[i].n, r->v[i].n > 1 ? "e.g. " : "", r->v[i].example);
    if (r->others)
        fprintf(out, "    %6d  for other reasons\n", r->others);
    free(r);
}

void tune_explain_shape(const struct tune *t, const struct tune_shape *s, FILE *out)
{
    char config[RFG_CONFIG_STRLEN];
    fprintf(out, "%s  (floor %.2f us: %s)\n", s->text, s->floor_us, s->floor_of ? s->floor_of : "?");
    if (s->state == SHAPE_CURRENT) {
        fprintf(out, "  up to date: %s, %.2f us, measured %s\n", rfg_row_config(&s->row, config, sizeof(config)),
                s->row.median_us, s->row.date);
        return;
    }
    if (s->state != SHAPE_WAITING)
        fprintf(out, "  %s\n", s->why);
    if (s->state == SHAPE_EMPTY)
        return;
    fprintf(out, "  would try %d of %d candidates (%d pruned by the model, %d failed in an earlier run)\n", s->n,
            s->valid, s->pruned, s->remembered);
    for (int i = 0; i < s->n; i++) {
        const struct tune_candidate *c = &s->c[i];
        rfg_config_format(c->var, c->p, config, sizeof(config));
        if (isfinite(c->predicted_us))
            fprintf(out, "    %10.2f us  %s%s\n", c->predicted_us, config, c->is_default ? "  (default)" : "");
        else
            fprintf(out, "             ? us  %s%s\n", config, c->is_default ? "  (default)" : "");
    }
    for (int i = 0; i < rfg_op_variants(s->problem.op)->n; i++) {
        const struct rfg_variant *var = rfg_op_variants(s->problem.op)->list[i];
        struct rfg_reason why = { "" };
        if (!rfg_variant_listed(t->opt.variants, s->problem.op, var))
            fprintf(out, "  %s: not listed in --variants or $RFG_VARIANTS\n", var->name);
        else if (!rfg_variant_supports(var, &t->dev, &s->call, &why))
            fprintf(out, "  %s: refused: %s\n", var->name, why.text);
        else
            explain_parameters(t, s, var, out);
    }
}
