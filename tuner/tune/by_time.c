/* SPDX-License-Identifier: MIT
 *
 * --by-time: rows for a GPU that isn't there. The model's best few run on the emulator, whose clock (emu/time) says
 * which of them is the fastest. A row is worth having only where that is another than the model's first, and faster by
 * more than the clock errs: without a row, dispatch takes the model's. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tuner/harness/clock.h"
#include "tuner/harness/loads.h"
#include "tune.h"

#define PATIENCE_S 300 /* of one candidate: thousands of rows take a minute */

static void fail(struct tune_shape *s, const char *why)
{
    s->state = SHAPE_FAILED;
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static void clock_version(char text[64])
{
    snprintf(text, 64, "clock %d", EMU_TIME_VERSION);
}

/* Sends a command about a candidate. NULL: the candidate can't be asked again; why says the reason. */
static json_t *ask(struct tune *t, struct tune_shape *s, struct tune_candidate *c, const char *cmd,
                   struct rfg_reason *why)
{
    char config[RFG_CONFIG_STRLEN];
    json_t *reply = NULL;
    rfg_config_format(c->var, c->p, config, sizeof(config));
    enum tune_answer a =
        tune_child_ask(t->child, s, json_pack("{ss ss}", "cmd", cmd, "config", config), PATIENCE_S, &reply, why);
    if (a == ANSWER_OK)
        return reply;
    json_decref(reply);
    c->state = CANDIDATE_FAILED;
    s->failed++;
    if (t->opt.verbose)
        tune_say("%s: %s: %s", s->text, config, why->text);
    return NULL;
}

static const char *text_in(const json_t *reply, const char *key)
{
    const char *text = json_string_value(json_object_get(reply, key));
    return text ? text : "";
}

/* The fastest by the clock that is also right. Drops the replies of those that aren't. NULL: none is; why
 * says the last reason. */
static struct tune_candidate *best_right(struct tune *t, struct tune_shape *s, json_t **replies, double *error,
                                         struct rfg_reason *why)
{
    for (;;) {
        struct tune_candidate *best = NULL;
        for (int i = 0; i < s->n; i++)
            if (s->c[i].state == CANDIDATE_TIMED && (!best || s->c[i].t.us < best->t.us))
                best = &s->c[i];
        json_t *right = best ? ask(t, s, best, "verify", why) : NULL;
        *error = json_number_value(json_object_get(right, "ratio"));
        json_decref(right);
        if (!best || right)
            return best;
        json_decref(replies[best - s->c]);
        replies[best - s->c] = NULL;
    }
}

static void make_row(const struct tune *t, const struct tune_shape *s, const struct tune_candidate *c,
                     double default_us, const json_t *reply, double error, struct rfg_row *row)
{
    *row = (struct rfg_row){ .problem = s->problem,
                             .cu_count = t->dev.cu_count,
                             .median_us = c->t.us,
                             .spread_us = EMU_TIME_ERROR * c->t.us,
                             .default_us = default_us,
                             .error = error,
                             .error_bound = 1,
                             .seed = t->opt.seed,
                             .how = RFG_SOURCE_PREDICTED };
    snprintf(row->arch, sizeof(row->arch), "%s", t->dev.arch);
    rfg_row_set_config(row, c->var, c->p, true);
    if (rfg_problem_is_recorded(&row->problem))
        rfg_row_set_loads(row, gemm_loads_name());
    snprintf(row->source_hash, sizeof(row->source_hash), "%s", text_in(reply, "source_hash"));
    snprintf(row->code_hash, sizeof(row->code_hash), "%s", text_in(reply, "code_hash"));
    snprintf(row->compiler, sizeof(row->compiler), "%s", text_in(reply, "compiler"));
    clock_version(row->driver);
    snprintf(row->version, sizeof(row->version), "%s", rfg_version());
    rfg_date(row->date);
}

/* All candidates by the clock; the default's time, 0 if it has none. */
static double clock_all(struct tune *t, struct tune_shape *s, json_t **replies, struct rfg_reason *why)
{
    double default_us = 0;
    for (int i = 0; i < s->n; i++) {
        struct tune_candidate *c = &s->c[i];
        if (c->var->kind != RFG_VARIANT_KERNEL)
            continue;
        s->tried++;
        replies[i] = ask(t, s, c, "clock", why);
        if (!replies[i])
            continue;
        c->state = CANDIDATE_TIMED;
        c->t = (struct tune_times){ .us = json_number_value(json_object_get(replies[i], "us")), .n = 1 };
        if (c->is_default)
            default_us = c->t.us;
        if (t->opt.verbose) {
            char config[RFG_CONFIG_STRLEN];
            tune_say("%s: %.2f us, %.2f by the model: %s", s->text, c->t.us, c->predicted_us,
                     rfg_config_format(c->var, c->p, config, sizeof(config)));
        }
    }
    return default_us;
}

/* Writes the row, or sees to it that there is none. */
static void store(struct tune *t, struct tune_shape *s)
{
    const struct rfg_row *row = &s->row;
    bool needed = !(row->default_us > 0) || row->default_us - row->median_us > row->spread_us;
    rfg_status st =
        needed ? rfg_db_put(t->db, row) : rfg_db_drop_predicted(t->db, &s->problem, t->dev.arch, t->dev.cu_count);
    s->state = needed ? SHAPE_TUNED : SHAPE_STANDS;
    if (!needed)
        snprintf(s->why, sizeof(s->why), "%.2f us by the model's choice, %.2f by the best of %d", row->default_us,
                 row->median_us, s->tried);
    if (st != RFG_OK) {
        s->state = SHAPE_FAILED;
        snprintf(s->why, sizeof(s->why), "the row can't be written: %s", rfg_last_error());
    }
}

/* What was measured or imported says more; what this clock said of this text is said. */
static bool stands(const struct tune *t, const struct tune_shape *s)
{
    char version[64], hash[65];
    struct rfg_kernel kernel = { 0 };
    clock_version(version);
    if (!s->had_row || s->row.how > RFG_SOURCE_PREDICTED)
        return s->had_row;
    if (t->opt.force || strcmp(s->row.driver, version) || !tune_row_is_current(t, s, &s->row))
        return false;
    const struct rfg_variant *var = rfg_variant_find(s->problem.op, s->row.variant);
    int p[RFG_MAX_PARAMS] = { 0 };
    (void)rfg_row_params(&s->row, var, p, NULL);
    var->kernel(&t->dev, &s->problem, p, &kernel);
    rfg_jit_source_hash(kernel.source, hash);
    return !strcmp(hash, s->row.source_hash);
}

void tune_by_time(struct tune *t, struct tune_shape *s)
{
    double start = rfg_now(), error = 0;
    struct rfg_reason why = { "no kernel of ours can serve it on this device" };
    if (stands(t, s)) {
        s->state = SHAPE_CURRENT;
        return;
    }
    json_t **replies = calloc((size_t)s->n + 1, sizeof(*replies));
    if (!replies || (!t->child && !(t->child = tune_child_create(t)))) {
        free(replies);
        fail(s, "no memory");
        return;
    }
    double default_us = clock_all(t, s, replies, &why);
    struct tune_candidate *best = tune_stop ? NULL : best_right(t, s, replies, &error, &why);
    if (best) {
        make_row(t, s, best, default_us, replies[best - s->c], error, &s->row);
        store(t, s);
    } else if (!tune_stop)
        fail(s, why.text);
    for (int i = 0; i < s->n; i++)
        json_decref(replies[i]);
    free(replies);
    s->seconds = rfg_now() - start;
}
