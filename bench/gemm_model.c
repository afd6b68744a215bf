/* SPDX-License-Identifier: MIT
 *
 * gemm-model: judges gemm's analytical model by measured times, and fits its constants (ops/model/model.h) to them.
 * The times are `rfg-tune --json` of as many candidates as there was time for (docs/perf/gemm.md says how). */
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/context.h"
#include "dispatch/hip/hip.h"
#include "ops/gemm/gemm.h"
#include "ops/model/model.h"

static const char usage[] =
    "usage: gemm-model [options] RFG-TUNE.json...\n"
    "For each problem: what the model would pick of the measured candidates, against the best of them.\n"
    "  --fit          fit the constants first, print them as a row for ops/model/model.c\n"
    "  --fit-device   fit what the device's table (dispatch/device.c) says of latencies and caches as well\n"
    "  --folds N      N times: fit without every N-th (N, K), judge by those alone; the figures of all of them\n"
    "  --replay       how many candidates, in the model's order, a sweep needs\n"
    "  --problem P    list the candidates of the problems that have P in their text, fastest first\n"
    "  --sweeps N     of a fit (default 40)\n";

struct
try {
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    double us, predicted;
    bool asked; /* the model would be asked about it; the fit learns from the others as well */
    char config[RFG_CONFIG_STRLEN];
};

struct shape {
    struct rfg_problem prob;
    char text[RFG_PROBLEM_STRLEN];
    struct try *v;
    int n;
    double mem_gbps;     /* of the card that it was measured on */
    double best, vendor; /* of all; of a vendor's library */
    bool held;           /* not for the fit */
    int worth, valid;    /* parameter sets of kernels */
};

#define FASTER 12 /* how much more the fast candidates weigh in a fit: to the power */

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

/* If a problem was measured twice, new candidates of the later measurement are added. */
static struct shape *shape_for(const struct rfg_problem *prob)
{
    for (int i = 0; i < n_shapes; i++)
        if (rfg_problem_equal(&shapes[i].prob, prob) && shapes[i].mem_gbps == dev.mem_gbps)
            return &shapes[i];
    shapes = must(realloc(shapes, (size_t)(n_shapes + 1) * sizeof(*shapes)));
    struct shape *s = &shapes[n_shapes++];
    *s = (struct shape){ .prob = *prob, .mem_gbps = dev.mem_gbps, .best = HUGE_VAL, .vendor = HUGE_VAL };
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
    if (!vendor && !rfg_variant_check(t.var, &dev, &s->prob, t.p, &why))
        return;
    t.asked = vendor || !t.var->worth || t.var->worth(&dev, &s->prob, t.p, &why);
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->v[i].config, config))
            return;
    if (t.asked)
        s->best = fmin(s->best, us);
    if (vendor)
        s->vendor = fmin(s->vendor, us);
    if (vendor && t.p[0])
        return; /* the model knows no better than the library, whose favourite is the first */
    snprintf(t.config, sizeof(t.config), "%s", config);
    s->v = must(realloc(s->v, (size_t)(s->n + 1) * sizeof(*s->v)));
    s->v[s->n++] = t;
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
    const char *product = json_string_value(json_object_get(root, "product"));
    struct rfg_memory memory = { .product = "" };
    snprintf(memory.product, sizeof(memory.product), "%s", product ? product : "");
    rfg_device_peaks(&dev, &memory);
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

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static void predict(struct shape *s)
{
    dev.mem_gbps = s->mem_gbps;
    for (int i = 0; i < s->n; i++)
        s->v[i].predicted = s->v[i].var->predict ? s->v[i].var->predict(&dev, &s->prob, s->v[i].p) : HUGE_VAL;
}

static const struct try *pick(const struct shape *s)
{
    const struct try *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (s->v[i].asked && (!best || s->v[i].predicted < best->predicted))
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

/* The model's choice among all candidates, measured or not. */
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
    for (int i = 0; i < rfg_op_variants(s->prob.op)->n; i++) {
        c.var = rfg_op_variants(s->prob.op)->list[i];
        if (c.var->predict && c.var->kind != RFG_VARIANT_VENDOR)
            rfg_variant_each(c.var, &dev, &s->prob, consider, &c);
    }
    if (*c.config)
        printf("    not measured: %.2f us predicted %s\n", c.best, c.config);
    return !*c.config;
}

struct figures {
    double logs, worst, worst_vendor, rank;
    int n, unmeasured;
    const char *worst_text;
};

static void report(bool held_only, struct figures *f)
{
    if (!f->n) {
        *f = (struct figures){ .worst = HUGE_VAL, .worst_vendor = HUGE_VAL };
        printf("%-44s %7s %7s %7s %6s %7s %5s  %s\n", "problem", "best", "vendor", "pick", "share", "predict", "rank",
               "pick");
    }
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
        f->unmeasured += !pick_was_measured(s, t->predicted);
        f->logs += log(share);
        f->rank += r;
        f->n++;
        if (share < f->worst) {
            f->worst = share;
            f->worst_text = s->text;
        }
        f->worst_vendor = fmin(f->worst_vendor, s->vendor / t->us);
    }
}

static void print_figures(const struct figures *f)
{
    if (f->n)
        printf(
            "%d problems: best / pick geomean %.3f, worst %.3f (%s); vendor / pick worst %.3f; mean rank correlation "
            "%.2f; %d picks not measured\n",
            f->n, exp(f->logs / f->n), f->worst, f->worst_text, f->worst_vendor, f->rank / f->n, f->unmeasured);
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

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

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
};
#define N_CONSTANTS (sizeof(constants) / sizeof(constants[0]))

/* The model's error: of the times of fast candidates, and, with less weight, of its choice. */
static double loss_of(struct shape *s)
{
    double wrong = 0, weight = 0, regret = 0, mass = 0, vendor = 0, least = HUGE_VAL;
    predict(s);
    for (int i = 0; i < s->n; i++)
        if (s->v[i].asked)
            least = fmin(least, s->v[i].predicted);
    for (int i = 0; i < s->n; i++) {
        const struct try *t = &s->v[i];
        double ratio = s->best / t->us, w = pow(ratio, FASTER), e = log(t->predicted / t->us);
        if (t->var->kind == RFG_VARIANT_VENDOR) /* one against all kernels: must be right however slow it is */
            vendor = e * e;
        wrong += w * e * e;
        weight += w;
        if (!t->asked)
            continue;
        double m = exp(-log(t->predicted / least) / 0.02);
        regret += m * -log(ratio);
        mass += m;
    }
    regret /= mass;
    return wrong / weight + 2.0 * vendor + 2 * regret + 8 * regret * regret;
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

/* ---- replaying a sweep ------------------------------------------------------------------------------------------- */

static bool count_one(void *ctx, const int *p)
{
    (void)p;
    ++*(int *)ctx;
    return true;
}

/* Parameter sets of the kernels: those that are worth a measurement, or all that are valid. */
static int count_sets(const struct shape *s, bool worth)
{
    int n = 0;
    for (int i = 0; i < rfg_op_variants(s->prob.op)->n; i++) {
        struct rfg_variant var = *rfg_op_variants(s->prob.op)->list[i];
        if (!worth)
            var.worth = NULL;
        if (var.kind == RFG_VARIANT_KERNEL)
            rfg_variant_each(&var, &dev, &s->prob, count_one, &n);
    }
    return n;
}

/* What rfg-tune --candidates MOST keeps (tuner/tune/plan.c): a share for the best of each variant, the others in the
 * model's order. The candidates are in this order. Returns the best time of those kept. */
static double best_of(const struct shape *s, int most, int share, int *tried)
{
    bool *keep = must(calloc((size_t)s->n + 1, sizeof(*keep)));
    int kept = 0;
    double best = HUGE_VAL;
    const struct rfg_variants *all = rfg_op_variants(s->prob.op);
    for (int v = 0; share && v < all->n; v++)
        for (int i = 0, n = 0; i < s->n && n < most / share && kept < most; i++)
            if (s->v[i].asked && s->v[i].var == all->list[v] && s->v[i].var->kind != RFG_VARIANT_VENDOR) {
                keep[i] = true;
                n++;
                kept++;
            }
    for (int i = 0; i < s->n; i++) {
        if (s->v[i].var->kind == RFG_VARIANT_VENDOR || !s->v[i].asked)
            continue;
        if (!keep[i] && kept < most) {
            keep[i] = true;
            kept++;
        }
        if (keep[i])
            best = fmin(best, s->v[i].us);
    }
    free(keep);
    *tried = kept;
    return best;
}

/* How many candidates a sweep needs, if the times are those that were measured. */
static void replay(void)
{
    static const int counts[] = { 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
    static const int shares[] = { 0, 4, 8, 16 };
    printf("%10s %6s | best found / best (geomean, worst), problems within 1%% | cost: tried / worth it, / valid\n",
           "candidates", "share");
    for (size_t j = 0; j < sizeof(shares) / sizeof(shares[0]); j++)
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            double logs = 0, worst = HUGE_VAL, all = 0, worth = 0, valid = 0;
            int within = 0, n = 0, tried;
            for (int i = 0; i < n_shapes; i++) {
                struct shape *s = &shapes[i];
                predict(s);
                qsort(s->v, (size_t)s->n, sizeof(*s->v), by_predicted);
                double best = best_of(s, 1 << 20, 0, &tried);
                if (best == HUGE_VAL)
                    continue;
                double ratio = best / best_of(s, counts[k], shares[j], &tried);
                logs += log(ratio);
                worst = fmin(worst, ratio);
                within += ratio > 0.99;
                all += tried;
                if (j == 0 && k == 0)
                    s->worth = count_sets(s, true), s->valid = count_sets(s, false);
                worth += s->worth;
                valid += s->valid;
                n++;
            }
            printf("%10d %6d | %.4f %.3f %4d of %d | %5.1f%% %6.2f%%\n", counts[k], shares[j], exp(logs / n), worst,
                   within, n, 100 * all / worth, 100 * all / valid);
        }
}

/* A problem goes with all others of its N and K. */
static void hold_out(int fold, int folds)
{
    int next = 0;
    for (int i = 0; i < n_shapes; i++) {
        int k = 0;
        while (shapes[k].prob.v[GEMM_N] != shapes[i].prob.v[GEMM_N] ||
               shapes[k].prob.v[GEMM_K] != shapes[i].prob.v[GEMM_K])
            k++;
        shapes[i].held = k < i ? shapes[k].held : next++ % folds == fold;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "fit", no_argument, NULL, 'f' },           { "fit-device", no_argument, NULL, 'd' },
        { "folds", required_argument, NULL, 'o' },   { "replay", no_argument, NULL, 'r' },
        { "problem", required_argument, NULL, 'p' }, { "sweeps", required_argument, NULL, 's' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };
    bool do_fit = false, fit_device = false, do_replay = false;
    int folds = 0, sweeps = 40;
    const char *part = NULL;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        switch (c) {
        case 'd':
            fit_device = true; /* fall through */
        case 'f':
            do_fit = true;
            break;
        case 'o':
            folds = atoi(optarg);
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
    const struct gemm_model start = *gemm_model(&dev);
    const struct rfg_device device = dev;
    struct figures figures = { 0 };
    trial = start;
    gemm_model_trial = &trial;
    for (int fold = 0; fold < folds; fold++) {
        trial = start;
        dev = device;
        hold_out(fold, folds);
        fit(sweeps, fit_device);
        report(true, &figures);
    }
    if (do_fit && !folds)
        fit(sweeps, fit_device);
    if (part)
        list(part);
    else if (do_replay)
        replay();
    else if (!folds)
        report(false, &figures);
    print_figures(&figures);
    if (do_fit && !folds)
        print_constants();
    for (int i = 0; i < n_shapes; i++)
        free(shapes[i].v);
    free(shapes);
    return 0;
}
