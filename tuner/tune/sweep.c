/* SPDX-License-Identifier: MIT
 *
 * The sweep: for each shape, successive halving over its candidates, a race of the best few, one row written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch/db/db_internal.h"
#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tune.h"

#define FIRST_ROUNDS      3
#define SECOND_ROUNDS     11
#define RACE_ROUNDS       31
#define RACE_ROUNDS_CPU   101 /* single calls on a machine that does other things as well */
#define MAX_FINALISTS     4   /* beside the default, the vendor's best and the winner without overlap */
#define SLOW_FACTOR       3   /* a candidate whose first run alone takes so many times the best isn't timed */
#define MAX_DEVICE_ERRORS 3
#define ONLINE_S          0.4 /* a shape's time with --online: its longest slice, a race, is a quarter */
#define MAX_RACES         3   /* while the winner's spread is above its median */

struct search {
    struct tune *t;
    struct tune_shape *s;
    double limit_s; /* for measuring this shape */
    double spent_s; /* so far; waiting for compilers doesn't count */
    double best_us;
    bool broken;        /* the shape can't be measured at all: s->why */
    char code_hash[65]; /* of the candidate that was verified last: the winner */
};

static bool is_cpu(const struct tune *t)
{
    return t->dev.platform == RFG_PLATFORM_CPU;
}

static double env_seconds(const char *name, double otherwise)
{
    const char *s = rfg_env(name);
    double v = s ? atof(s) : 0;
    return v > 0 ? v : otherwise;
}

/* How long a command may take before its candidate counts as hung. */
static double patience(const struct search *q, const struct tune_candidate *c, int rounds)
{
    double guess = isfinite(c->predicted_us) ? c->predicted_us * 1e-6 : 0.1;
    double s = 10 + (is_cpu(q->t) ? 50 * guess * (rounds + 2) : 0) + (c->var->kind == RFG_VARIANT_VENDOR ? 50 : 0);
    return env_seconds("RFG_TEST_MEASURE_TIMEOUT", s);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Stores a candidate that failed, so that no later sweep tries it again. */
static void remember(const struct search *q, const struct tune_candidate *c, const char *what, const char *detail)
{
    const struct tune *t = q->t;
    char config[RFG_CONFIG_STRLEN], hash[65], compiler[96];
    rfg_config_format(c->var, c->p, config, sizeof(config));
    rfg_variant_provenance(t->ctx, &q->s->problem, c->var, hash, compiler, sizeof(compiler));
    tune_say("%s: %s: %s: %s", q->s->text, config, what, detail);
    if (rfg_db_put_failure(t->db, &q->s->problem, t->dev.arch, t->dev.cu_count, config, hash, what, detail) != RFG_OK)
        tune_say("the failure is not remembered: %s", rfg_last_error());
}

static void fail_candidate(struct search *q, struct tune_candidate *c, const char *what, const char *detail)
{
    if (c->state == CANDIDATE_NEW)
        q->s->tried++;
    c->state = CANDIDATE_FAILED;
    c->what = what;
    q->s->failed++;
    remember(q, c, what, detail);
}

static void break_shape(struct search *q, const char *why)
{
    q->broken = true;
    snprintf(q->s->why, sizeof(q->s->why), "%s", why);
}

/* Drops the candidate from this run only. disturbed: the machine was the reason. */
static void refuse_candidate(struct search *q, struct tune_candidate *c, bool disturbed, const char *why)
{
    struct tune_shape *s = q->s;
    if (c->state == CANDIDATE_NEW)
        s->tried++;
    c->state = CANDIDATE_REFUSED;
    s->refused++;
    if (!*s->why)
        snprintf(s->why, sizeof(s->why), "%s", why);
    if (disturbed && !s->disturbed++) {
        snprintf(s->disturbance, sizeof(s->disturbance), "%s", why);
        tune_say("%s: a candidate could not be tried, which says nothing about it: %s", s->text, why);
    } else if (q->t->opt.verbose)
        tune_say("%s: refused: %s", s->text, why);
}

static const char *kind_of(const json_t *reply)
{
    const char *kind = json_string_value(json_object_get(reply, "kind"));
    return kind ? kind : "";
}

/* Sends a command. If the failure may not be the candidate's, a fresh process tries once more; a failure that doesn't
 * repeat is ignored. cmd's reference is taken. */
static enum tune_answer ask(struct search *q, json_t *cmd, double timeout_s, json_t **reply, struct rfg_reason *why)
{
    enum tune_answer a = ANSWER_LOST;
    *reply = NULL;
    for (int i = 0; i < 2 && !tune_stop; i++) {
        json_decref(*reply);
        a = tune_child_ask(q->t->child, q->s, json_incref(cmd), timeout_s, reply, why);
        const char *kind = kind_of(*reply);
        bool certain = a == ANSWER_OK || a == ANSWER_STOPPED ||
                       (a == ANSWER_REFUSED && (!strcmp(kind, "wrong") || !strcmp(kind, "refused")));
        if (certain)
            break;
        if (i == 0)
            tune_child_restart(q->t->child);
    }
    json_decref(cmd);
    return tune_stop ? ANSWER_STOPPED : a;
}

/* Handles an answer that is not OK. False: stop with this shape. Only failures that the candidate caused are stored. */
static bool judge(struct search *q, struct tune_candidate *c, enum tune_answer a, const json_t *reply,
                  const struct rfg_reason *why)
{
    const char *kind = kind_of(reply), *error = json_string_value(json_object_get(reply, "error"));
    if (!error)
        error = why->text;
    switch (a) {
    case ANSWER_OK:
        return true;
    case ANSWER_STOPPED:
        return false;
    case ANSWER_HUNG:
        fail_candidate(q, c, "hung", why->text);
        return true;
    case ANSWER_DIED:
        fail_candidate(q, c, "fault", why->text);
        return true;
    case ANSWER_LOST:
        refuse_candidate(q, c, true, why->text);
        return true;
    case ANSWER_REFUSED:
        break;
    }
    if (!strcmp(kind, "begin")) {
        break_shape(q, error);
        return false;
    }
    if (!strcmp(kind, "wrong"))
        fail_candidate(q, c, "wrong", error);
    else if (!strcmp(kind, "device"))
        fail_candidate(q, c, "fault", error);
    else if (!strcmp(kind, "compile"))
        fail_candidate(q, c, "compile", error);
    else /* no algorithm, or no memory on the device for it; else something that has nothing to do with it */
        refuse_candidate(q, c, strcmp(kind, "refused") && strcmp(kind, "memory"), error);
    return true;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static struct tune_times times_of(const json_t *j)
{
    return (struct tune_times){ .us = json_number_value(json_object_get(j, "us")),
                                .p5 = json_number_value(json_object_get(j, "p5")),
                                .p95 = json_number_value(json_object_get(j, "p95")),
                                .ratio = json_number_value(json_object_get(j, "ratio")),
                                .n = (int)json_integer_value(json_object_get(j, "n")) };
}

/* For an overlap=1 problem: whether the candidate is faster when launched without overlap. */
static bool faster_plainly(const struct tune_candidate *c)
{
    return c->plain.n && c->plain.us < c->t.us;
}

static double best_us(const struct tune_candidate *c)
{
    return faster_plainly(c) ? c->plain.us : c->t.us;
}

/* Can it be launched both ways? */
static bool has_both(const struct search *q, const struct tune_candidate *c)
{
    return rfg_problem_overlaps(&q->s->problem) && c->var->kind == RFG_VARIANT_KERNEL;
}

/* Checks and times one candidate; plain: launched without overlap. False: stop with this shape. */
static bool try_candidate(struct search *q, struct tune_candidate *c, bool plain, int rounds, double max_s)
{
    char config[RFG_CONFIG_STRLEN];
    json_t *reply;
    struct rfg_reason why = { "" };
    enum tune_answer ready = tune_child_ready(q->t->child, q->s, &why); /* which is not the candidate's time */
    if (ready == ANSWER_STOPPED)
        return false;
    double start = tune_now(q->t);
    rfg_config_format(c->var, c->p, config, sizeof(config));
    json_t *cmd = json_pack("{ss ss sb si sf sf}", "cmd", "try", "config", config, "plain", plain, "rounds", rounds,
                            "max_s", max_s, "limit_us", q->best_us < HUGE_VAL ? SLOW_FACTOR * q->best_us : 0.0);
    enum tune_answer a = ask(q, cmd, patience(q, c, rounds) + max_s, &reply, &why);
    bool on = judge(q, c, a, reply, &why);
    if (a == ANSWER_OK) {
        if (c->state == CANDIDATE_NEW)
            q->s->tried++;
        c->state = json_is_true(json_object_get(reply, "slow")) ? CANDIDATE_SLOW : CANDIDATE_TIMED;
        *(plain ? &c->plain : &c->t) = times_of(reply);
        if (c->state == CANDIDATE_TIMED && best_us(c) < q->best_us)
            q->best_us = best_us(c);
    }
    json_decref(reply);
    q->spent_s += tune_now(q->t) - start;
    tune_progress_update(q->t, q->s, q->s->tried, q->best_us, "");
    return on;
}

/* Whether its code object is ready. A failed compile ends the candidate. */
static bool is_ready(struct search *q, struct tune_candidate *c)
{
    if (!c->job)
        return true;
    enum tune_job_state state = tune_job_state(q->t->compiler, c->job);
    if (state == JOB_FAILED) {
        rfg_status st;
        const char *error = tune_job_error(q->t->compiler, c->job, &st);
        /* Only the compiler's own refusal is the candidate's fault. */
        if (st == RFG_ERROR_COMPILE && rfg_jit_provider_for(q->t->dev.target))
            fail_candidate(q, c, "compile", error);
        else
            refuse_candidate(q, c, st != RFG_ERROR_UNSUPPORTED, error);
    }
    return state == JOB_DONE;
}

/* How many were found right. */
static int measured(const struct tune_shape *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->c[i].state == CANDIDATE_TIMED || s->c[i].state == CANDIDATE_SLOW;
    return n;
}

/* All candidates, as their code objects come in, a few samples each. False: stop with this shape. */
static bool first_round(struct search *q)
{
    struct tune_shape *s = q->s;
    int seen = 0;
    while (!tune_stop) {
        struct tune_candidate *next = NULL;
        int left = 0;
        for (int i = 0; i < s->n && !next; i++)
            if (s->c[i].state == CANDIDATE_NEW) {
                if (is_ready(q, &s->c[i]))
                    next = &s->c[i];
                left += s->c[i].state == CANDIDATE_NEW;
            }
        if (!left)
            return true;
        /* Half of the time is for the rest. The candidates that the winner is compared with are always measured. */
        if (q->spent_s > 0.5 * q->limit_s && q->best_us < HUGE_VAL && measured(s) > 1 &&
            (!next || !(next->is_default || next->wins_plainly || next->var->kind == RFG_VARIANT_VENDOR) ||
             q->spent_s > 2 * q->limit_s)) {
            for (int i = 0; i < s->n; i++)
                s->not_reached += s->c[i].state == CANDIDATE_NEW;
            return true;
        }
        if (!next) {
            tune_progress_update(q->t, s, s->tried, q->best_us, "compiling");
            tune_compiler_wait(q->t->compiler, &seen);
        } else if (!try_candidate(q, next, false, FIRST_ROUNDS, q->limit_s / 16))
            return false;
    }
    return false;
}

static int by_time(const void *pa, const void *pb)
{
    const struct tune_candidate *a = *(struct tune_candidate *const *)pa, *b = *(struct tune_candidate *const *)pb;
    return a->t.us < b->t.us ? -1 : a->t.us > b->t.us;
}

/* Those measured, fastest first. order has room for s->n. */
static int rank(const struct tune_shape *s, struct tune_candidate **order)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->c[i].state == CANDIDATE_TIMED)
            order[n++] = &s->c[i];
    qsort(order, (size_t)n, sizeof(*order), by_time);
    return n;
}

static bool second_round(struct search *q, struct tune_candidate **order)
{
    int n = rank(q->s, order), most = n / 3 < 6 ? 6 : n / 3;
    n = n < most ? n : most;
    for (int i = 0; i < n && !tune_stop && q->spent_s < 0.75 * q->limit_s; i++)
        if (!try_candidate(q, order[i], false, SECOND_ROUNDS, q->limit_s / 32))
            return false;
    return !tune_stop;
}

/* The fastest few, and those that the winner is compared with. */
static int finalists(const struct tune_shape *s, struct tune_candidate **order, struct tune_candidate **final)
{
    int n = rank(s, order), count = 0;
    bool have_vendor = false;
    for (int i = 0; i < n; i++) {
        bool is_vendor = order[i]->var->kind == RFG_VARIANT_VENDOR;
        if (i < MAX_FINALISTS || order[i]->is_default || order[i]->wins_plainly || (is_vendor && !have_vendor))
            final[count++] = order[i];
        have_vendor |= is_vendor;
    }
    return count;
}

/* Interleaved, so that drift hits all alike; overlap=1 problems with overlap and without. False: stop
 * with this shape. */
static bool race(struct search *q, struct tune_candidate **final, int n)
{
    double start = tune_now(q->t), max_s = q->limit_s - q->spent_s, most = 0.25 * q->limit_s;
    max_s = max_s < 0.1 * q->limit_s ? 0.1 * q->limit_s : max_s > most ? most : max_s;
    json_t *reply, *configs = json_array(), *plain = json_array();
    struct rfg_reason why = { "" };
    double timeout = 0;
    int rounds = is_cpu(q->t) ? RACE_ROUNDS_CPU : RACE_ROUNDS, entries = 0;
    struct tune_times *times[2 * (MAX_FINALISTS + 3)]; /* whose each entry is */
    for (int i = 0; i < n; i++) {
        final[i]->raced = true;
        for (int k = 0; k <= has_both(q, final[i]); k++) {
            char config[RFG_CONFIG_STRLEN];
            rfg_config_format(final[i]->var, final[i]->p, config, sizeof(config));
            json_array_append_new(configs, json_string(config));
            json_array_append_new(plain, json_boolean(k));
            times[entries++] = k ? &final[i]->plain : &final[i]->t;
            timeout += patience(q, final[i], rounds);
        }
    }
    tune_progress_update(q->t, q->s, q->s->tried, q->best_us, "racing");
    json_t *cmd = json_pack("{ss so so si sf}", "cmd", "race", "configs", configs, "plain", plain, "rounds", rounds,
                            "max_s", max_s);
    enum tune_answer a = tune_child_ask(q->t->child, q->s, cmd, timeout + max_s, &reply, &why);
    bool on = a != ANSWER_STOPPED;
    const json_t *results = json_object_get(reply, "results");
    if (a == ANSWER_OK && (int)json_array_size(results) == entries) {
        for (int i = 0; i < entries; i++)
            *times[i] = times_of(json_array_get(results, (size_t)i));
    } else
        /* One of them fails only in long runs. Run each alone to find it. */
        for (int i = 0; i < n && on; i++)
            for (int k = 0; k <= has_both(q, final[i]) && on; k++)
                on = try_candidate(q, final[i], k, rounds, max_s / entries);
    json_decref(reply);
    q->spent_s += tune_now(q->t) - start;
    return on && !tune_stop;
}

/* The winner is still right after all those launches? */
static bool verify(struct search *q, struct tune_candidate *c)
{
    char config[RFG_CONFIG_STRLEN];
    json_t *reply;
    struct rfg_reason why = { "" };
    rfg_config_format(c->var, c->p, config, sizeof(config));
    json_t *cmd = json_pack("{ss ss sb}", "cmd", "verify", "config", config, "plain", faster_plainly(c));
    enum tune_answer a = ask(q, cmd, patience(q, c, 1), &reply, &why);
    struct tune_times *times = faster_plainly(c) ? &c->plain : &c->t;
    if (a == ANSWER_OK && json_number_value(json_object_get(reply, "ratio")) > times->ratio)
        times->ratio = json_number_value(json_object_get(reply, "ratio"));
    const char *code_hash = json_string_value(json_object_get(reply, "code_hash"));
    snprintf(q->code_hash, sizeof(q->code_hash), "%s", code_hash ? code_hash : "");
    judge(q, c, a, reply, &why);
    json_decref(reply);
    return a == ANSWER_OK;
}

/* The fastest of the race that is still right; NULL: none of them, or stopped. */
static struct tune_candidate *best_verified(struct search *q, struct tune_candidate **final, int n)
{
    while (!tune_stop && !q->broken) {
        struct tune_candidate *best = NULL;
        for (int i = 0; i < n; i++)
            if (final[i]->state == CANDIDATE_TIMED && (!best || best_us(final[i]) < best_us(best)))
                best = final[i];
        if (!best || verify(q, best))
            return best;
    }
    return NULL;
}

static const struct tune_times *times_of_winner(const struct tune_candidate *c)
{
    return faster_plainly(c) ? &c->plain : &c->t;
}

static bool is_noisy(const struct tune_candidate *c)
{
    const struct tune_times *t = times_of_winner(c);
    return t->p95 - t->p5 > t->us;
}

/* Why the winner is not to be relied on; "": it is. */
static void doubt_winner(struct search *q, const struct tune_candidate *c)
{
    struct tune_shape *s = q->s;
    const struct tune_times *t = times_of_winner(c);
    int refused = s->refused - s->disturbed, others = s->valid - s->remembered - s->failed - refused;
    s->doubt[0] = 0;
    if (s->disturbed)
        snprintf(s->doubt, sizeof(s->doubt), "%d candidates could not be tried: %s", s->disturbed, s->disturbance);
    else if (measured(s) < 2 && others > 1)
        snprintf(s->doubt, sizeof(s->doubt), "1 of %d candidates was measured", others);
    else if (is_noisy(c))
        snprintf(s->doubt, sizeof(s->doubt), "the spread of %.2f us is above the median of %.2f us", t->p95 - t->p5,
                 t->us);
    else if (q->t->opt.online_ms)
        snprintf(s->doubt, sizeof(s->doubt), "it was measured beside an engine's work");
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static void make_row(const struct search *q, const struct tune_candidate *winner, struct tune_candidate *const *final,
                     int n, struct rfg_row *row)
{
    const struct tune *t = q->t;
    const struct tune_times *times = times_of_winner(winner);
    *row = (struct rfg_row){ .problem = q->s->problem,
                             .cu_count = t->dev.cu_count,
                             .median_us = times->us,
                             .spread_us = times->p95 - times->p5,
                             .samples = times->n,
                             .error = times->ratio,
                             .error_bound = 1,
                             .seed = t->opt.seed,
                             .how = *q->s->doubt ? RFG_SOURCE_PROVISIONAL : RFG_SOURCE_MEASURED };
    snprintf(row->arch, sizeof(row->arch), "%s", t->dev.arch);
    rfg_row_set_config(row, winner->var, winner->p, has_both(q, winner) && !faster_plainly(winner));
    if (rfg_problem_is_recorded(&row->problem))
        rfg_row_set_loads(row, gemm_loads_name());
    rfg_variant_provenance(t->ctx, &q->s->problem, winner->var, row->source_hash, row->compiler, sizeof(row->compiler));
    snprintf(row->code_hash, sizeof(row->code_hash), "%s", q->code_hash);
    snprintf(row->driver, sizeof(row->driver), "%s", rfg_context_driver(t->ctx));
    snprintf(row->version, sizeof(row->version), "%s", rfg_version());
    snprintf(row->device, sizeof(row->device), "%s", tune_product(t));
    row->mem_gbps = t->mem_gbps;
    rfg_date(row->date);
    for (int i = 0; i < n; i++) {
        const struct tune_candidate *c = final[i];
        if (c->state != CANDIDATE_TIMED)
            continue;
        if (c->is_default)
            row->default_us = c->t.us;
        if (c->var->kind == RFG_VARIANT_VENDOR && (row->vendor_us == 0 || c->t.us < row->vendor_us))
            row->vendor_us = c->t.us;
    }
}

/* Writes it; where a better one is, that stays. */
static void store_row(struct search *q)
{
    const struct tune *t = q->t;
    struct tune_shape *s = q->s;
    int written;
    if (rfg_db_put_all(t->db, &s->row, 1, &written) != RFG_OK) {
        s->state = SHAPE_FAILED;
        snprintf(s->why, sizeof(s->why), "the row can't be written: %s", rfg_last_error());
        return;
    }
    s->state = SHAPE_TUNED;
    s->why[0] = 0;
    if (*s->doubt)
        tune_say("%s: provisional%s, tuned again in the next run: %s", s->text,
                 written ? "" : " and not stored: a row that ranks higher is there", s->doubt);
    struct rfg_problem missed = rfg_problem_as_called(&s->problem);
    if (rfg_db_clear_miss(t->db, &missed, t->dev.arch, t->dev.cu_count) != RFG_OK)
        tune_say("the miss of %s is not cleared: %s", s->text, rfg_last_error());
}

/* Tunes one shape; its state says how it went. A stop leaves it waiting, and nothing written. */
static void tune_shape(struct tune *t, struct tune_shape *s)
{
    struct search q = { .t = t, .s = s, .best_us = HUGE_VAL };
    struct tune_candidate **order = calloc((size_t)s->n, sizeof(*order)), *final[MAX_FINALISTS + 3], *winner = NULL;
    int n = 0;
    q.limit_s = t->opt.per_shape > 0                               ? t->opt.per_shape
                : t->opt.online_ms                                 ? ONLINE_S
                : is_cpu(t) || t->dev.platform == RFG_PLATFORM_EMU ? 8
                                                                   : 1.5;
    if (!order)
        break_shape(&q, "no memory");
    if (order && first_round(&q) && second_round(&q, order))
        for (int races = 0; (!winner || (is_noisy(winner) && races < MAX_RACES)) && !tune_stop && !q.broken &&
                            (n = finalists(s, order, final)) && race(&q, final, n);
             races++)
            winner = best_verified(&q, final, n);
    if (winner && !tune_stop && !q.broken) {
        winner->is_winner = true;
        doubt_winner(&q, winner);
        make_row(&q, winner, final, n, &s->row);
        store_row(&q);
    } else if (!tune_stop) {
        char first[sizeof(s->why)];
        snprintf(first, sizeof(first), "%s", s->why);
        s->state = SHAPE_FAILED;
        if (!q.broken)
            snprintf(s->why, sizeof(s->why), "no candidate passed: %d tried, %d failed, %d refused%s%.250s", s->tried,
                     s->failed, s->refused, *first ? "; first refusal: " : "", first);
    }
    t->device_errors = q.broken ? t->device_errors + 1 : 0;
    free(order);
}

static bool claim(const struct tune *t, const struct tune_shape *s, bool claimed)
{
    return rfg_db_claim(t->db, &s->problem, t->dev.arch, t->dev.cu_count, tune_product(t), claimed);
}

void tune_sweep(struct tune *t, struct tune_shape *shapes, int n)
{
    /* Rounds: shapes that another tuner has claimed are checked again when all others are done. If that tuner is
     * killed, its claims end. */
    for (int left = 1, round = 0; left; round++) {
        if (round == 1)
            tune_say("%d shapes are left to another tuner on this database; waiting for it", left);
        left = 0;
        if (round > 1)
            nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        for (int i = 0; i < n; i++) {
            struct tune_shape *s = &shapes[i];
            if (s->state != SHAPE_WAITING)
                continue;
            if (tune_is_over(t))
                return;
            if (!claim(t, s, true)) {
                left++;
                continue;
            }
            double start = rfg_now();
            if (!tune_done_elsewhere(t, s))
                tune_shape(t, s);
            claim(t, s, false);
            s->seconds = rfg_now() - start;
            if (s->state == SHAPE_TUNED || s->state == SHAPE_FAILED)
                tune_progress_done(t, s);
            if (s->state != SHAPE_WAITING)
                tune_results_add(t, s);
            if (t->device_errors >= MAX_DEVICE_ERRORS && !t->opt.keep_going) {
                tune_say("%d shapes in a row could not be measured; giving up (--keep-going: don't): %s",
                         t->device_errors, s->why);
                t->gave_up = true;
                return;
            }
        }
    }
}
