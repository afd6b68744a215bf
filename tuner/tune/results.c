/* SPDX-License-Identifier: MIT
 *
 * A run's results as JSON: --json writes it, --report draws it. When a shape is done, its candidates are written as
 * text to an unnamed file, so that they take no memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tuner/harness/output.h"
#include "tune.h"

#define DUMP JSON_REAL_PRECISION(12)

static void set_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, isfinite(v) ? json_real(v) : json_null());
}

/* ---- a shape ---------------------------------------------------------------------------------------------------- */

static json_t *candidate_json(const struct tune_candidate *c)
{
    char config[RFG_CONFIG_STRLEN];
    json_t *o = json_pack("{ss}", "config", rfg_config_format(c->var, c->p, config, sizeof(config)));
    set_number(o, "predicted_us", c->predicted_us);
    if (c->var->kind == RFG_VARIANT_VENDOR)
        json_object_set_new(o, "vendor", json_true());
    if (c->is_default)
        json_object_set_new(o, "default", json_true());
    if (c->is_winner)
        json_object_set_new(o, "winner", json_true());
    if (c->raced)
        json_object_set_new(o, "raced", json_true());
    return o;
}

/* The candidates that were timed, in their order: evidence for the winner, and data for fitting a model. */
static json_t *tries_json(const struct tune_shape *s)
{
    json_t *tries = json_array();
    for (int i = 0; i < s->n; i++) {
        const struct tune_candidate *c = &s->c[i];
        if (c->state != CANDIDATE_TIMED && c->state != CANDIDATE_SLOW)
            continue;
        json_t *o = candidate_json(c);
        json_object_set_new(o, "samples", json_integer(c->t.n));
        set_number(o, "us", c->t.us);
        if (c->t.n) {
            set_number(o, "p5_us", c->t.p5);
            set_number(o, "p95_us", c->t.p95);
        }
        if (c->plain.n)
            set_number(o, "plain_us", c->plain.us);
        json_array_append_new(tries, o);
    }
    return tries;
}

/* The others: what became of them. */
static json_t *untimed_json(const struct tune_shape *s)
{
    json_t *others = json_array();
    for (int i = 0; i < s->n; i++) {
        const struct tune_candidate *c = &s->c[i];
        if (c->state == CANDIDATE_TIMED || c->state == CANDIDATE_SLOW)
            continue;
        json_t *o = candidate_json(c);
        json_object_set_new(o, "state",
                            json_string(c->state == CANDIDATE_FAILED    ? "failed"
                                        : c->state == CANDIDATE_REFUSED ? "refused"
                                                                        : "not reached"));
        if (c->what)
            json_object_set_new(o, "what", json_string(c->what));
        json_array_append_new(others, o);
    }
    return others;
}

static bool was_tried(const struct tune_shape *s)
{
    return s->n && (s->state == SHAPE_TUNED || s->state == SHAPE_STANDS || s->state == SHAPE_FAILED);
}

static json_t *shape_json(const struct tune_shape *s)
{
    char config[RFG_CONFIG_STRLEN];
    json_t *o = json_pack("{ss ss si si si si si si si}", "problem", s->text, "state", tune_state_name(s), "candidates",
                          s->valid, "tried", s->tried, "refused", s->refused, "failed", s->failed, "pruned", s->pruned,
                          "remembered", s->remembered, "not_reached", s->not_reached);
    set_number(o, "floor_us", s->floor_us);
    if (s->floor_of)
        json_object_set_new(o, "floor_of", json_string(s->floor_of));
    set_number(o, "seconds", s->seconds);
    if (was_tried(s)) {
        json_object_set_new(o, "tries", tries_json(s));
        json_object_set_new(o, "untimed", untimed_json(s));
    }
    if (*s->why)
        json_object_set_new(o, "why", rfg_json_text(s->why));
    if (!tune_has_row(s))
        return o;
    const struct rfg_row *r = &s->row;
    json_t *params = json_loads(r->params, 0, NULL);
    json_object_set_new(o, "variant", rfg_json_text(r->variant));
    json_object_set_new(o, "params", params ? params : json_null());
    json_object_set_new(o, "config", rfg_json_text(rfg_row_config(r, config, sizeof(config))));
    set_number(o, "median_us", r->median_us);
    set_number(o, "spread_us", r->spread_us);
    set_number(o, "default_us", r->default_us);
    set_number(o, "vendor_us", r->vendor_us);
    if (tune_spread_swamps(r))
        json_object_set_new(o, "spread_swamps", json_string(tune_spread_swamps(r)));
    set_number(o, "error", r->error);
    json_object_set_new(o, "samples", json_integer(r->samples));
    json_object_set_new(o, "how", json_string(rfg_source_name(r->how)));
    if (*s->doubt)
        json_object_set_new(o, "provisional", rfg_json_text(s->doubt));
    json_object_set_new(o, "source_hash", rfg_json_text(r->source_hash));
    json_object_set_new(o, "code_hash", rfg_json_text(r->code_hash));
    json_object_set_new(o, "compiler", rfg_json_text(r->compiler));
    json_object_set_new(o, "date", rfg_json_text(r->date));
    return o;
}

/* ---- shapes that are done ---------------------------------------------------------------------------------------- */

void tune_results_add(struct tune *t, struct tune_shape *s)
{
    if (!t->opt.json && !t->opt.report)
        return;
    if (!t->results)
        t->results = tmpfile();
    json_t *o = t->results ? shape_json(s) : NULL;
    long at = o && fseek(t->results, 0, SEEK_END) == 0 ? ftell(t->results) : -1;
    if (at >= 0 && json_dumpf(o, t->results, DUMP) == 0 && fputc('\n', t->results) != EOF && fflush(t->results) == 0)
        s->result = at + 1;
    json_decref(o);
}

bool tune_results_need(const struct tune *t, const struct tune_shape *s)
{
    return (t->opt.json || t->opt.report) && was_tried(s) && !s->result;
}

static json_t *result_of(const struct tune *t, const struct tune_shape *s)
{
    json_t *o = NULL;
    if (s->result && fseek(t->results, s->result - 1, SEEK_SET) == 0)
        o = json_loadf(t->results, JSON_DISABLE_EOF_CHECK, NULL);
    return o ? o : shape_json(s);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static json_t *head_json(const struct tune *t)
{
    char date[24];
    rfg_date(date);
    return json_pack("{ss ss so ss si ss so sI ss}", "rfg", rfg_version(), "device", t->dev.name, "product",
                     rfg_json_text(t->ctx ? rfg_context_product(t->ctx) : ""), "arch", t->dev.arch, "cu_count",
                     t->dev.cu_count, "units", t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs", "driver",
                     rfg_json_text(t->ctx ? rfg_context_driver(t->ctx) : ""), "seed", (json_int_t)t->opt.seed, "date",
                     date);
}

static json_t *summary_json(const struct tune *t, const struct tune_summary *m)
{
    json_t *o =
        json_pack("{si si si si si si si}", "tuned", m->tuned, "up_to_date", m->current, "failed", m->failed,
                  "left_out", m->left, "bad_lines", t->bad_lines, "swamped", m->swamped, "cut_short", m->cut_short);
    set_number(o, "geomean_vs_default", tune_mean_of(&m->vs_default));
    set_number(o, "geomean_vs_vendor", tune_mean_of(&m->vs_vendor));
    set_number(o, "geomean_of_floor", tune_mean_of(&m->floor));
    set_number(o, "seconds", rfg_now() - t->started);
    if (t->opt.online_ms)
        json_object_set_new(o, "online",
                            json_pack("{si si sf sf sf sf}", "budget_ms", t->opt.online_ms, "slices", t->pace.slices,
                                      "busy_s", t->pace.busy_s, "longest_s", t->pace.longest_s, "paused_s",
                                      t->pace.paused_s, "most_owed_s", t->pace.most_owed_s));
    return o;
}

static bool open_result(struct rfg_output *o, const char *option, const char *path)
{
    *o = (struct rfg_output){ .f = stdout };
    return tune_to_stdout(path) || rfg_output_open(o, "rfg-tune", option, path);
}

/* What doesn't arrive at stdout is noticed at the program's end. */
static bool close_result(struct rfg_output *o, bool whole)
{
    return o->f == stdout ? whole : rfg_output_close(o, whole);
}

bool tune_to_stdout(const char *path)
{
    return path && !strcmp(path, "-");
}

bool tune_write_json(const struct tune *t, const char *path)
{
    struct tune_summary m = tune_summarize(t);
    struct rfg_output o;
    if (!open_result(&o, "--json", path))
        return false;
    json_t *head = head_json(t), *sum = summary_json(t, &m);
    bool ok = head && sum && fputs("{", o.f) != EOF && json_dumpf(head, o.f, DUMP | JSON_EMBED) == 0;
    fputs(",\n\"shapes\": [", o.f);
    for (int i = 0; ok && i < t->n_shapes; i++) {
        json_t *s = result_of(t, &t->shapes[i]);
        fputs(i ? ",\n" : "\n", o.f);
        ok = s && json_dumpf(s, o.f, DUMP) == 0;
        json_decref(s);
    }
    fputs("],\n\"summary\": ", o.f);
    ok = ok && json_dumpf(sum, o.f, DUMP) == 0 && fputs("}\n", o.f) != EOF;
    json_decref(head);
    json_decref(sum);
    return close_result(&o, ok);
}

bool tune_write_html(const struct tune *t, const char *path)
{
    struct tune_summary m = tune_summarize(t);
    struct rfg_output o;
    if (!open_result(&o, "--report", path))
        return false;
    json_t *head = head_json(t), *sum = summary_json(t, &m);
    bool ok = head && sum;
    if (ok)
        tune_html_begin(o.f, head, sum);
    for (int i = 0; ok && i < t->n_shapes; i++) {
        json_t *s = result_of(t, &t->shapes[i]);
        ok = s != NULL;
        if (ok)
            tune_html_shape(o.f, s, i);
        json_decref(s);
    }
    if (ok)
        tune_html_end(o.f);
    json_decref(head);
    json_decref(sum);
    return close_result(&o, ok);
}
