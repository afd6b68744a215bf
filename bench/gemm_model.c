/* SPDX-License-Identifier: MIT
 *
 * gemm-model: judges gemm's analytical model by measured times, and fits its constants (ops/gemm/model.h) to them.
 * The times are `rfg-tune --json` of as many candidates as there was time for (docs/perf/gemm.md says how). */
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/context.h"
#include "../ops/gemm/gemm.h"
#include "../ops/gemm/model.h"

static const char usage[] =
    "usage: gemm-model [options] RFG-TUNE.json...\n"
    "For each problem: what the model would pick of the measured candidates, against the best of them.\n"
    "  --fit          fit the constants first, print them as a row for ops/gemm/model.c\n"
    "  --fit-device   fit what the device's table (dispatch/device.c) says of latencies and caches as well\n"
    "  --fold I/N     fit without every N-th (N, K), from the I-th on; judge by those alone\n"
    "  --replay       how many candidates, in the model's order, a sweep needs\n"
    "  --problem P    list the candidates of the problems that have P in their text, fastest first\n"
    "  --sweeps N     of a fit (default 40)\n";

struct
try {
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    double us, predicted;
    char config[RFG_CONFIG_STRLEN];
};

struct shape {
    struct rfg_problem prob;
    char text[RFG_PROBLEM_STRLEN];
    struct try *v;
    int n;
    double best, vendor; /* of all; of a vendor's library */
    bool held;           /* not for the fit */
};

static struct rfg_device dev;
static struct shape *shapes;
static int n_shapes;

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "gemm-model: no memory\n");
        exit(1);
    }
    return p;
}

/* Of a problem that was measured twice, candidates that came later are added, if they are new. */
static struct shape *shape_for(const struct rfg_problem *prob)
{
    for (int i = 0; i < n_shapes; i++)
        if (rfg_problem_equal(&shapes[i].prob, prob))
            return &shapes[i];
    shapes = must(realloc(shapes, (size_t)(n_shapes + 1) * sizeof(*shapes)));
    struct shape *s = &shapes[n_shapes++];
    *s = (struct shape){ .prob = *prob, .best = HUGE_VAL, .vendor = HUGE_VAL };
    rfg_problem_format(prob, s->text, sizeof(s->text));
    return s;
}

static void add_try(struct shape *s, const char *config, double us)
{
    struct try t = { .us = us };
    struct rfg_reason why;
    if (!config || us <= 0 || !rfg_config_parse(s->prob.op, config, &t.var, t.p, &why))
        return; /* of another version */
    bool vendor = t.var->kind == RFG_VARIANT_VENDOR;
    if (!vendor && (!rfg_variant_check(t.var, &dev, &s->prob, t.p, &why) ||
                    (t.var->worth && !t.var->worth(&dev, &s->prob, t.p, &why))))
        return; /* nobody would ask the model about it */
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->v[i].config, config))
            return;
    snprintf(t.config, sizeof(t.config), "%s", config);
    s->v = must(realloc(s->v, (size_t)(s->n + 1) * sizeof(*s->v)));
    s->v[s->n++] = t;
    s->best = fmin(s->best, us);
    if (vendor)
        s->vendor = fmin(s->vendor, us);
}

static bool read_file(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *shape, *try;
    char name[64];
    size_t i, k;
    if (!root) {
        fprintf(stderr, "gemm-model: %s: %s\n", path, error.text);
        return false;
    }
    const char *arch = json_string_value(json_object_get(root, "arch"));
    snprintf(name, sizeof(name), "%s:%d", arch ? arch : "?",
             (int)json_integer_value(json_object_get(root, "cu_count")));
    if (!rfg_device_imagine(&dev, name)) {
        fprintf(stderr, "gemm-model: %s: device '%s' is not known\n", path, name);
        return false;
    }
    json_array_foreach(json_object_get(root, "shapes"), i, shape)
    {
        struct rfg_problem prob;
        struct rfg_reason why;
        const char *text = json_string_value(json_object_get(shape, "problem"));
        if (!text || !rfg_problem_parse(&prob, text, &why) || strcmp(prob.op->name, "gemm"))
            continue;
        struct shape *s = shape_for(&prob);
        json_array_foreach(json_object_get(shape, "tries"), k, try) add_try(
            s, json_string_value(json_object_get(try, "config")), json_number_value(json_object_get(try, "us")));
    }
    json_decref(root);
    return true;
}

/* ---- judging ------------------------------------------------------------------------------------------------------
 */

static void predict(struct shape *s)
{
    for (int i = 0; i < s->n; i++)
        s->v[i].predicted = s->v[i].var->predict ? s->v[i].var->predict(&dev, &s->prob, s->v[i].p) : HUGE_VAL;
}

static const struct try *pick(const struct shape *s)
{
    const struct try *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (!best || s->v[i].predicted < best->predicted)
            best = &s->v[i];
    return best;
}

static int by_us(const void *pa, const void *pb)
{
    const struct try *a = pa, *b = pb;
    return a->us < b->us ? -1 : a->us > b->us;
}

static int by_predicted(const void *pa, const void *pb)
{
    const struct try *a = pa, *b = pb;
    return a->predicted < b->predicted ? -1 : a->predicted > b->predicted;
}

/* Spearman's, of the kernels; ties don't matter much. Leaves the candidates fastest first. */
static double rank_correlation(struct shape *s)
{
    double sum = 0, n = 0;
    struct try *copy = must(malloc((size_t)(s->n + 1) * sizeof(*copy)));
    qsort(s->v, (size_t)s->n, sizeof(*s->v), by_us);
    memcpy(copy, s->v, (size_t)s->n * sizeof(*copy));
    qsort(copy, (size_t)s->n, sizeof(*copy), by_predicted);
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->n; k++)
            if (!strcmp(s->v[i].config, copy[k].config)) {
                sum += (double)(i - k) * (i - k);
                n++;
            }
    free(copy);
    return n > 2 ? 1 - 6 * sum / (n * (n * n - 1)) : 1;
}

/* What the model would pick of everything, measured or not. */
struct choice {
    const struct shape *s;
    const struct rfg_variant *var;
    double best;
    char config[RFG_CONFIG_STRLEN];
};

static bool consider(void *arg, const int *p)
{
    struct choice *c = arg;
    double us = c->var->predict(&dev, &c->s->prob, p);
    if (us < c->best) {
        c->best = us;
        rfg_config_format(c->var, p, c->config, sizeof(c->config));
    }
    return true;
}

static bool pick_was_measured(const struct shape *s, double measured_pick)
{
    struct choice c = { .s = s, .best = measured_pick * (1 - 1e-9) };
    for (int i = 0; i < s->prob.op->n_variants; i++) {
        c.var = s->prob.op->variants[i];
        if (c.var->predict && c.var->kind != RFG_VARIANT_VENDOR)
            rfg_variant_each(c.var, &dev, &s->prob, consider, &c);
    }
    if (*c.config)
        printf("    not measured: %.2f us predicted %s\n", c.best, c.config);
    return !*c.config;
}

static void report(bool held_only)
{
    double log_sum = 0, worst = HUGE_VAL, worst_vendor = HUGE_VAL, rank = 0;
    int n = 0, unmeasured = 0;
    const char *worst_text = "";
    printf("%-44s %7s %7s %7s %6s %7s %5s  %s\n", "problem", "best", "vendor", "pick", "share", "predict", "rank",
           "pick");
    for (int i = 0; i < n_shapes; i++) {
        struct shape *s = &shapes[i];
        if (!s->n || (held_only && !s->held))
            continue;
        predict(s);
        double r = rank_correlation(s);
        const struct try *t = pick(s);
        double share = s->best / t->us;
        printf("%-44s %7.2f %7.2f %7.2f %6.3f %7.2f %5.2f  %s\n", s->text, s->best, s->vendor, t->us, share,
               t->predicted, r, t->config);
        unmeasured += !pick_was_measured(s, t->predicted);
        log_sum += log(share);
        rank += r;
        n++;
        if (share < worst) {
            worst = share;
            worst_text = s->text;
        }
        worst_vendor = fmin(worst_vendor, s->vendor / t->us);
    }
    printf(
        "%d problems: pick / best geomean %.3f, worst %.3f (%s); vendor / pick worst %.3f; mean rank correlation %.2f; "
        "%d picks not measured\n",
        n, exp(log_sum / n), worst, worst_text, worst_vendor, rank / n, unmeasured);
}

static void list(const char *part)
{
    for (int i = 0; i < n_shapes; i++) {
        struct shape *s = &shapes[i];
        if (!strstr(s->text, part))
            continue;
        predict(s);
        qsort(s->v, (size_t)s->n, sizeof(*s->v), by_us);
        printf("%s\n", s->text);
        for (int k = 0; k < s->n; k++)
            printf("  %7.2f predicted %7.2f (%5.2f)  %s\n", s->v[k].us, s->v[k].predicted,
                   s->v[k].predicted / s->v[k].us, s->v[k].config);
    }
}

/* ---- fitting ------------------------------------------------------------------------------------------------------
 */

static struct gemm_model trial;

struct constant {
    const char *name, *what;
    double *v;
    bool device;
};

static const struct constant constants[] = {
#define CONSTANT(name, what) { #name, what, &trial.name, false },
    GEMM_MODEL(CONSTANT)
#undef CONSTANT
        { "latency_us", "", &dev.latency_us, true },
    { "sync_us", "", &dev.sync_us, true },
    { "load_us", "", &dev.load_us, true },
    { "cache_gbps", "", &dev.cache_gbps, true },
    { "mem_gbps", "", &dev.mem_gbps, true },
};
#define N_CONSTANTS (sizeof(constants) / sizeof(constants[0]))

/* How wrong the model is: about the times of what is fast, and, softly, about what it picks. */
static double loss_of(struct shape *s)
{
    double wrong = 0, weight = 0, regret = 0, mass = 0, least = HUGE_VAL;
    predict(s);
    for (int i = 0; i < s->n; i++)
        least = fmin(least, s->v[i].predicted);
    for (int i = 0; i < s->n; i++) {
        const struct try *t = &s->v[i];
        double ratio = s->best / t->us, w = ratio * ratio * ratio * ratio, e = log(t->predicted / t->us);
        wrong += w * e * e;
        weight += w;
        double m = exp(-log(t->predicted / least) / 0.02);
        regret += m * -log(ratio);
        mass += m;
    }
    regret /= mass;
    return 2 * wrong / weight + regret + 4 * regret * regret;
}

static double loss(void)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < n_shapes; i++)
        if (!shapes[i].held && shapes[i].n) {
            sum += loss_of(&shapes[i]);
            n++;
        }
    return sum / n;
}

/* One constant after the other, a step up, a step down, smaller steps: the loss has corners. */
static void fit(int sweeps, bool device)
{
    double step[N_CONSTANTS], now = loss();
    for (size_t i = 0; i < N_CONSTANTS; i++)
        step[i] = 0.3;
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (size_t i = 0; i < N_CONSTANTS; i++) {
            if (constants[i].device && !device)
                continue;
            double was = *constants[i].v, best = now, at = was;
            for (int dir = -1; dir <= 1; dir += 2) {
                *constants[i].v = was * (dir < 0 ? 1 / (1 + step[i]) : 1 + step[i]);
                double l = loss();
                if (l < best) {
                    best = l;
                    at = *constants[i].v;
                }
            }
            *constants[i].v = at;
            step[i] = best < now ? fmin(step[i] * 1.5, 0.5) : fmax(step[i] * 0.6, 0.005);
            now = best;
        }
        fprintf(stderr, "\rsweep %d: %.5f ", sweep + 1, now);
    }
    fprintf(stderr, "\n");
}

static void print_constants(void)
{
    for (size_t i = 0; i < N_CONSTANTS; i++)
        printf(constants[i].device ? "        /* device %s = %.3g */\n" : "        .%s = %.3g,\n", constants[i].name,
               *constants[i].v);
}

/* ---- replaying a sweep ---------------------------------------------------------------------------------------------
 */

/* In the model's order, kernels only: how many until one within 1% of the fastest kernel is among them? */
static void replay(void)
{
    static const int counts[] = { 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
    enum { N = sizeof(counts) / sizeof(counts[0]) };
    double logs[N] = { 0 };
    int within[N] = { 0 }, n = 0;
    for (int i = 0; i < n_shapes; i++) {
        struct shape *s = &shapes[i];
        double best = HUGE_VAL, so_far = HUGE_VAL;
        int tried = 0, at = 0;
        predict(s);
        qsort(s->v, (size_t)s->n, sizeof(*s->v), by_predicted);
        for (int k = 0; k < s->n; k++)
            if (s->v[k].var->kind != RFG_VARIANT_VENDOR)
                best = fmin(best, s->v[k].us);
        if (best == HUGE_VAL)
            continue;
        n++;
        for (int k = 0; k < s->n && at < N; k++) {
            if (s->v[k].var->kind == RFG_VARIANT_VENDOR)
                continue;
            so_far = fmin(so_far, s->v[k].us);
            if (++tried == counts[at]) {
                logs[at] += log(best / so_far);
                within[at++] += so_far <= 1.01 * best;
            }
        }
        for (; at < N; at++)
            within[at]++;
    }
    printf("candidates tried  best found / best, geomean  problems within 1%% (of %d)\n", n);
    for (int i = 0; i < N; i++)
        printf("%16d  %26.4f  %d\n", counts[i], exp(logs[i] / n), within[i]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "fit", no_argument, NULL, 'f' },           { "fit-device", no_argument, NULL, 'd' },
        { "fold", required_argument, NULL, 'o' },    { "replay", no_argument, NULL, 'r' },
        { "problem", required_argument, NULL, 'p' }, { "sweeps", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };
    bool do_fit = false, fit_device = false, do_replay = false;
    int fold = -1, folds = 0, sweeps = 40;
    const char *part = NULL;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        switch (c) {
        case 'd':
            fit_device = true; /* fall through */
        case 'f':
            do_fit = true;
            break;
        case 'o':
            if (sscanf(optarg, "%d/%d", &fold, &folds) != 2 || fold < 1 || fold > folds) {
                fprintf(stderr, "gemm-model: --fold '%s': must be I/N, 1 <= I <= N\n", optarg);
                return 2;
            }
            do_fit = true;
            break;
        case 'r':
            do_replay = true;
            break;
        case 'p':
            part = optarg;
            break;
        case 's':
            sweeps = atoi(optarg);
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    if (optind == argc) {
        fputs(usage, stderr);
        return 2;
    }
    for (int i = optind; i < argc; i++)
        if (!read_file(argv[i]))
            return 1;
    trial = *gemm_model(&dev);
    gemm_model_trial = &trial;
    if (folds) { /* a problem goes with all others of its N and K */
        int next = 0;
        for (int i = 0; i < n_shapes; i++) {
            int k = 0;
            while (shapes[k].prob.v[GEMM_N] != shapes[i].prob.v[GEMM_N] ||
                   shapes[k].prob.v[GEMM_K] != shapes[i].prob.v[GEMM_K])
                k++;
            shapes[i].held = k < i ? shapes[k].held : next++ % folds == fold - 1;
        }
    }
    if (do_fit)
        fit(sweeps, fit_device);
    if (part)
        list(part);
    else if (do_replay)
        replay();
    else
        report(folds > 0);
    if (do_fit)
        print_constants();
    for (int i = 0; i < n_shapes; i++)
        free(shapes[i].v);
    free(shapes);
    return 0;
}
