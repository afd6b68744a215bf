/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: options, what is to be tuned, exit codes. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "calibrate.h"
#include "tuner/harness/loads.h"
#include "tuner/harness/output.h"
#include "tune.h"

volatile sig_atomic_t tune_stop;

static const char help[] =
    "usage: rfg-tune --shapes FILE.csv [options]\n"
    "Finds the fastest correct variant for each problem and writes it to the tuned database.\n"
    "\n"
    "what to tune (any of, each any number of times):\n"
    "  --shapes FILE.csv    op,dtype,M,N,K[,attrs][,weight], or AITER's tuned or untuned *.csv\n"
    "  --problem TEXT       e.g. \"gemm bf16,bf16->bf16 M=8 N=2112 K=7168\"\n"
    "  --calibrate          first measure what the device's launches, memory and caches take (2 s), for the models "
    "that\n"
    "                       rank candidates; nothing else needs to be given\n"
    "  --from-misses        what was run on this device without a tuned row, most-called first\n"
    "where:\n"
    "  --device D           cpu, amd:0, nvidia:0; default: $RFG_DEVICE, else the first GPU, else cpu; amd:all, "
    "nvidia:all:\n"
    "                       every GPU of this host, which share out the shapes\n"
    "  --db FILE            default: $RFG_DB, else the user's database\n"
    "how:\n"
    "  --overlap            every problem as overlap=1: for contexts with launch_overlap, launched so that each "
    "kernel\n"
    "                       begins before the one before it has ended; winners that are faster without say so\n"
    "  --invariant          every problem as invariant=1: for contexts with batch_invariant, which sum all rows in one "
    "order\n"
    "  --loads FILE         the tokens of each expert as an engine recorded them (a line each, or CSV: expert,tokens): "
    "for\n"
    "                       grouped products with routing=recorded, which those without a routing become\n"
    "  --per-shape S        seconds a shape is measured for (default: 1.5; cpu, emulated: 8)\n"
    "  --time-budget S      start no further shape after S seconds\n"
    "  --candidates N       try at most N candidates a shape besides the vendor's (default: 48)\n"
    "  --variants LIST      only these variants, comma-separated (default: $RFG_VARIANTS, else all)\n"
    "  --force              also shapes whose rows are up to date, and candidates that failed before\n"
    "  --seed N             of the random inputs (default: the time; it is printed)\n"
    "  --jobs N             compiler processes (default: the cores)\n"
    "  --keep-going         go on when the device can't measure several shapes in a row\n"
    "  --dry-run            list what would be tried, and why the rest is refused; the device may be imagined:\n"
    "                       --device gfx942:304, sm_90\n"
    "  --predict            measure nothing: write what the analytical model ranks first, as rows marked `predicted`,\n"
    "                       which never take the place of others; the device may be imagined\n"
    "  --max-m M            leave out problems with more than M rows\n"
    "  --shard I/N          every N-th shape, from the I-th on (0 to N - 1): one of N runs, whose databases rfg-db "
    "merge\n"
    "                       puts together; auto: I and N as Slurm's array, mpirun or srun say\n"
    "  --online MS          beside a program that computes on the same device: use at most MS milliseconds of each "
    "minute,\n"
    "                       in short slices, and write provisional rows; needs --from-misses, and goes on until no "
    "new\n"
    "                       ones are recorded. RFG_TUNE=online starts it so\n"
    "results:\n"
    "  --json FILE          \"-\": stdout (the table goes to stderr)\n"
    "  --report FILE.html   a page with a chart of every candidate, which needs nothing else\n"
    "  -v, --verbose        say why candidates are refused\n"
    "  -h, --help           -V, --version\n"
    "\n"
    "A run that was killed goes on where it was when it is started again: shapes with a row that is still true are "
    "not\n"
    "tuned again, candidates that hung, crashed, were wrong or didn't compile are remembered and not tried again.\n"
    "\n"
    "exit code: 0 every shape has a row; 1 some shapes failed; 2 wrong usage; 3 some lines of a shapes file are bad "
    "(the\n"
    "others are tuned); 4 the time budget left shapes out; 130 interrupted: what was finished is in the database\n";

/* ---- options --------------------------------------------------------------------------------------------------------
 */

/* False with a message: not a number in [min, max]. */
static bool parse_number(const char *name, const char *text, double min, double max, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= min && *out <= max)
        return true;
    fprintf(stderr, "rfg-tune: --%s '%s': must be a number from %g to %g\n", name, text, min, max);
    return false;
}

static bool parse_integer(const char *name, const char *text, long long max, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 0);
    if (end != text && !*end && !errno && *out >= 0 && *out <= max)
        return true;
    fprintf(stderr, "rfg-tune: --%s '%s': must be a whole number from 0 to %lld\n", name, text, max);
    return false;
}

/* Appends to an argument list. */
static bool append(const char ***list, int *n, const char *text)
{
    const char **more = realloc(*list, (size_t)(*n + 1) * sizeof(*more));
    if (!more)
        return false;
    more[(*n)++] = text;
    *list = more;
    return true;
}

/* -1: go on; else the exit code. */
static int parse_options(struct tune_options *o, int argc, char **argv)
{
    enum {
        OPT = 256,
        SHAPES,
        PROBLEM,
        DEVICE,
        DB,
        BUDGET,
        PER_SHAPE,
        CANDIDATES,
        SEED,
        FORCE,
        DRY,
        JSON,
        REPORT,
        MISSES,
        JOBS,
        VARIANTS,
        OVERLAP,
        INVARIANT,
        LOADS,
        KEEP,
        CALIBRATE,
        PREDICT,
        MAX_M,
        SHARD,
        WORKER_OF,
        ONLINE,
        ENGINE
    };
    static const struct option options[] = {
        { "shapes", required_argument, NULL, SHAPES },
        { "problem", required_argument, NULL, PROBLEM },
        { "device", required_argument, NULL, DEVICE },
        { "db", required_argument, NULL, DB },
        { "time-budget", required_argument, NULL, BUDGET },
        { "per-shape", required_argument, NULL, PER_SHAPE },
        { "candidates", required_argument, NULL, CANDIDATES },
        { "seed", required_argument, NULL, SEED },
        { "force", no_argument, NULL, FORCE },
        { "dry-run", no_argument, NULL, DRY },
        { "json", required_argument, NULL, JSON },
        { "report", required_argument, NULL, REPORT },
        { "from-misses", no_argument, NULL, MISSES },
        { "jobs", required_argument, NULL, JOBS },
        { "variants", required_argument, NULL, VARIANTS },
        { "overlap", no_argument, NULL, OVERLAP },
        { "invariant", no_argument, NULL, INVARIANT },
        { "loads", required_argument, NULL, LOADS },
        { "keep-going", no_argument, NULL, KEEP },
        { "calibrate", no_argument, NULL, CALIBRATE },
        { "predict", no_argument, NULL, PREDICT },
        { "max-m", required_argument, NULL, MAX_M },
        { "shard", required_argument, NULL, SHARD },
        { "worker-of", required_argument, NULL, WORKER_OF }, /* tune_fleet()'s */
        { "online", required_argument, NULL, ONLINE },
        { "engine", required_argument, NULL, ENGINE }, /* dispatch/online.c's */
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    bool ok = true, have_seed = false;
    long long i = 0;
    for (int c; ok && (c = getopt_long(argc, argv, "vhV", options, NULL)) != -1;)
        switch (c) {
        case SHAPES:
            ok = append(&o->shapes, &o->n_shapes, optarg);
            break;
        case PROBLEM:
            ok = append(&o->problems, &o->n_problems, optarg);
            break;
        case DEVICE:
            o->device = optarg;
            break;
        case DB:
            o->db = optarg;
            break;
        case BUDGET:
            ok = parse_number("time-budget", optarg, 0, 1e9, &o->time_budget);
            break;
        case PER_SHAPE:
            ok = parse_number("per-shape", optarg, 0.01, 1e6, &o->per_shape);
            break;
        case CANDIDATES:
            ok = parse_integer("candidates", optarg, 1000000, &i);
            o->candidates = (int)i;
            break;
        case SEED:
            ok = have_seed = parse_integer("seed", optarg, INT64_MAX, &i);
            o->seed = (uint64_t)i;
            break;
        case JOBS:
            ok = parse_integer("jobs", optarg, 1024, &i);
            o->jobs = (int)i;
            break;
        case FORCE:
            o->force = true;
            break;
        case DRY:
            o->dry_run = true;
            break;
        case JSON:
            o->json = optarg;
            break;
        case REPORT:
            o->report = optarg;
            break;
        case MISSES:
            o->from_misses = true;
            break;
        case VARIANTS:
            o->variants = optarg;
            break;
        case OVERLAP:
            o->overlap = true;
            break;
        case INVARIANT:
            o->invariant = true;
            break;
        case LOADS:
            ok = rfg_loads_option("rfg-tune", optarg);
            break;
        case KEEP:
            o->keep_going = true;
            break;
        case CALIBRATE:
            o->calibrate = true;
            break;
        case PREDICT:
            o->predict = true;
            break;
        case MAX_M:
            ok = parse_integer("max-m", optarg, INT32_MAX, &i);
            o->max_m = (int)i;
            break;
        case SHARD:
            ok = tune_shard_parse(optarg, &o->shard);
            break;
        case WORKER_OF:
            tune_worker_of(atol(optarg));
            break;
        case ONLINE:
            ok = parse_integer("online", optarg, 60000, &i);
            if (ok && !i) {
                fprintf(stderr, "rfg-tune: --online '%s': must be at least 1\n", optarg);
                ok = false;
            }
            o->online_ms = (int)i;
            o->jobs = o->jobs ? o->jobs : 1;
            break;
        case ENGINE:
            o->engine = atol(optarg);
            break;
        case 'v':
            o->verbose = true;
            break;
        case 'h':
            fputs(help, stdout);
            return TUNE_EXIT_OK;
        case 'V':
            printf("rfg-tune %s\n", rfg_version());
            return TUNE_EXIT_OK;
        default:
            ok = false;
        }
    if (ok && optind < argc) {
        fprintf(stderr, "rfg-tune: '%s': not an option; a shapes file is given with --shapes\n", argv[optind]);
        ok = false;
    } else if (ok && !o->n_shapes && !o->n_problems && !o->from_misses && !o->calibrate) {
        fprintf(stderr, "rfg-tune: nothing to tune: give --shapes, --problem, --from-misses or --calibrate\n");
        ok = false;
    }
    bool measures = o->n_shapes || o->n_problems || o->from_misses;
    if (ok && o->predict && o->dry_run) {
        fprintf(stderr, "rfg-tune: --predict: can't be combined with --dry-run, which writes nothing\n");
        ok = false;
    }
    if (ok && o->shard.n && o->from_misses) {
        fprintf(stderr, "rfg-tune: --shard: can't be combined with --from-misses: each run would see another list\n");
        ok = false;
    }
    if (ok && (o->online_ms || o->engine) &&
        (!o->online_ms || !o->from_misses || o->n_shapes || o->n_problems || o->calibrate || o->predict || o->dry_run ||
         o->force || gemm_loads(NULL) || tune_is_fleet(o->device))) {
        fprintf(stderr,
                "rfg-tune: --online: must come with --from-misses, on one device, and with neither other problems "
                "nor --calibrate, --dry-run, --force, --loads, --predict\n");
        ok = false;
    }
    if (ok && tune_is_fleet(o->device) && (o->json || o->report || o->dry_run || o->predict)) {
        fprintf(stderr, "rfg-tune: --device %s: can't be combined with %s: must be one device\n", o->device,
                o->json      ? "--json"
                : o->report  ? "--report"
                : o->dry_run ? "--dry-run"
                             : "--predict");
        ok = false;
    }
    if (ok && (o->json || o->report) && (o->predict || o->dry_run || !measures)) {
        fprintf(stderr, "rfg-tune: %s: is about measurements of problems: %s\n", o->json ? "--json" : "--report",
                o->predict   ? "--predict makes none"
                : o->dry_run ? "--dry-run makes none"
                             : "none is given");
        ok = false;
    }
    if (ok && o->json && o->report && !strcmp(o->json, o->report)) {
        fprintf(stderr, "rfg-tune: --report '%s': must be another file than --json's\n", o->report);
        ok = false;
    }
    if (!ok) {
        fprintf(stderr, "rfg-tune --help says more\n");
        return TUNE_EXIT_USAGE;
    }
    if (!o->variants)
        o->variants = rfg_env("RFG_VARIANTS");
    if (!have_seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        o->seed = ((uint64_t)now.tv_sec ^ (uint64_t)now.tv_nsec) & 0x7fffffff;
    }
    return -1;
}

/* Each name in the list must be a variant's: a typo would tune nothing. */
static bool check_variants(const char *list)
{
    struct rfg_reason why;
    bool known = rfg_variants_known(list, &why);
    if (!known)
        fprintf(stderr, "rfg-tune: --variants: %s\n", why.text);
    return known;
}

/* ---- what is to be tuned ------------------------------------------------------------------------------------------
 */

/* Doubles the list and its index. */
static bool grow_shapes(struct tune *t)
{
    int room = t->index_size ? t->index_size : 64;
    struct tune_shape *shapes = realloc(t->shapes, (size_t)room * sizeof(*shapes));
    if (shapes)
        t->shapes = shapes;
    uint32_t *index = shapes ? calloc(2 * (size_t)room, sizeof(*index)) : NULL;
    if (!index)
        return false;
    for (int i = 0; i < t->n_shapes; i++) {
        size_t at = rfg_problem_hash(&t->shapes[i].problem) & (size_t)(2 * room - 1);
        while (index[at])
            at = (at + 1) & (size_t)(2 * room - 1);
        index[at] = (uint32_t)i + 1;
    }
    free(t->index);
    t->index = index;
    t->index_size = 2 * room;
    return true;
}

/* Each problem once. False: no memory. */
static bool add_shape(struct tune *t, const struct rfg_problem *asked, double weight)
{
    const struct rfg_problem own = rfg_loads_applied(asked);
    const struct rfg_problem over = t->opt.overlap ? rfg_problem_with_overlap(&own, true) : own;
    const struct rfg_problem prob = t->opt.invariant ? rfg_problem_with_invariant(&over, true) : over;
    if (t->opt.max_m && rfg_problem_rows(&prob) > t->opt.max_m)
        return true;
    if (2 * t->n_shapes >= t->index_size && !grow_shapes(t))
        return false;
    size_t mask = (size_t)t->index_size - 1, at = rfg_problem_hash(&prob) & mask;
    for (; t->index[at]; at = (at + 1) & mask)
        if (rfg_problem_equal(&t->shapes[t->index[at] - 1].problem, &prob))
            return true;
    struct tune_shape *s = &t->shapes[t->n_shapes];
    t->index[at] = (uint32_t)++t->n_shapes;
    *s = (struct tune_shape){ .problem = prob, .weight = weight };
    rfg_problem_format(&prob, s->text, sizeof(s->text));
    return true;
}

static void bad_line(void *ctx, const char *message)
{
    (void)ctx;
    fprintf(stderr, "rfg-tune: %s\n", message);
}

/* -1: go on; else the exit code. */
static int read_inputs(struct tune *t)
{
    for (int i = 0; i < t->opt.n_shapes; i++) {
        struct rfg_shapes shapes = { 0 };
        rfg_status st = rfg_shapes_read(t->opt.shapes[i], &shapes, bad_line, NULL);
        bool ok = true;
        if (st != RFG_OK) {
            fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
            t->bad_lines++;
        }
        t->bad_lines += (int)shapes.n_bad;
        for (size_t k = 0; ok && st == RFG_OK && k < shapes.n; k++) {
            struct rfg_problem key = rfg_problem_key(&shapes.v[k].problem);
            ok = add_shape(t, &key, shapes.v[k].weight);
        }
        rfg_shapes_free(&shapes);
        if (!ok)
            return TUNE_EXIT_FAILED;
    }
    for (int i = 0; i < t->opt.n_problems; i++) {
        struct rfg_problem prob, key;
        struct rfg_reason why;
        if (!rfg_problem_parse(&prob, t->opt.problems[i], &why)) {
            fprintf(stderr, "rfg-tune: --problem '%s': %s\n", t->opt.problems[i], why.text);
            return TUNE_EXIT_USAGE;
        }
        key = rfg_problem_key(&prob);
        if (!rfg_problem_equal(&key, &prob)) {
            fprintf(stderr,
                    "rfg-tune: --problem '%s': strides and alignment are not part of a tuned row: leave them out\n",
                    t->opt.problems[i]);
            return TUNE_EXIT_USAGE;
        }
        if (!add_shape(t, &key, 1))
            return TUNE_EXIT_FAILED;
    }
    return -1;
}

#define MAX_MISSES 65536 /* that one run tunes: the most called */

struct misses {
    struct tune *t;
    int n;
    bool no_memory;
};

static bool take_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                      uint64_t calls, const char *last)
{
    struct misses *m = ctx;
    (void)rung;
    (void)last;
    if (!prob->op || strcmp(arch, m->t->dev.arch) || cu_count != m->t->dev.cu_count)
        return true;
    m->no_memory = !add_shape(m->t, prob, (double)calls);
    return !m->no_memory && ++m->n < MAX_MISSES;
}

/* In the order of the database: most-called first. */
int tune_read_misses(struct tune *t)
{
    struct misses m = { .t = t };
    if (!t->db) /* a dry run without a database: none was recorded */
        return -1;
    if (rfg_db_each_miss(t->db, take_miss, &m) != RFG_OK || m.no_memory) {
        fprintf(stderr, "rfg-tune: %s\n", m.no_memory ? "no memory for the misses" : rfg_last_error());
        return TUNE_EXIT_FAILED;
    }
    if (!m.n && !t->n_shapes)
        fprintf(stderr, "rfg-tune: no misses recorded for %s with %d %s in %s\n", t->dev.arch, t->dev.cu_count,
                t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs", rfg_db_path(t->db));
    return -1;
}

/* ---- where ---------------------------------------------------------------------------------------------------------
 */

/* Code objects reach the measuring process through the cache on disk. Where that can't be written, a private one
 * serves for this run. */
static void private_cache(struct rfg_tempdir *own)
{
    struct rfg_reason why = { "there is no home" };
    char *dir = rfg_cache_default_dir();
    bool usable = dir && rfg_cache_usable(dir, true, &why) && rfg_access(dir, W_OK);
    if (!usable)
        rfg_warn("code cache %s: %s; this run takes one of its own", dir ? dir : "",
                 *why.text ? why.text : strerror(EACCES));
    free(dir);
    if (!usable)
        rfg_tempdir_make(own, NULL);
}

/* Rows that would be kept under another GPU's name. */
static void warn_of_facts(enum rfg_platform platform)
{
    struct rfg_platform_fact facts[RFG_PLATFORM_FACTS];
    for (int i = 0; rfg_platforms[i]; i++) {
        bool ours = rfg_platforms[i]->id == platform && rfg_platforms[i]->facts;
        int n = ours ? rfg_platforms[i]->facts("", facts, RFG_PLATFORM_FACTS) : 0;
        for (int j = 0; j < n; j++)
            if (facts[j].misleads)
                rfg_warn("%s: %s", facts[j].what, facts[j].says);
    }
}

static bool open_device(struct tune *t)
{
    if ((t->opt.dry_run || t->opt.predict) && t->opt.device && rfg_device_imagine(&t->dev, t->opt.device))
        return true;
    private_cache(&t->cache_dir);
    rfg_context_params p = { .device = t->opt.device,
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = t->cache_dir.path,
                             .variants = t->opt.variants,
                             .no_misses = 1,
                             .pack = "" };
    if (rfg_context_create(&t->ctx, &p) != RFG_OK) {
        fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
        return false;
    }
    t->dev = *rfg_context_info(t->ctx);
    t->opt.device = t->dev.name;
    warn_of_facts(t->dev.platform);
    return true;
}

static bool open_database(struct tune *t)
{
    char *path = t->opt.db ? strdup(t->opt.db) : rfg_db_user_path();
    bool ok = path && *path;
    if (!ok)
        fprintf(stderr, "rfg-tune: no database: give --db, or set $RFG_DB or $HOME\n");
    else if (t->opt.online_ms && !tune_online_begin(t, path))
        ok = false;
    else if (!t->opt.dry_run || rfg_access(path, F_OK)) {
        ok = rfg_db_open(&t->db, path, t->opt.dry_run ? RFG_DB_READ : RFG_DB_WRITE) == RFG_OK;
        if (!ok)
            fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
    }
    free(path);
    return ok;
}

static void use_calibration(struct tune *t, const struct rfg_calibration *c)
{
    rfg_context_calibrate(t->ctx, c);
    t->mem_gbps = c->mem_gbps;
    t->dev = *rfg_context_info(t->ctx);
}

/* What an earlier run stored: what is the model's default there must be it here. */
static void recall_calibration(struct tune *t)
{
    struct rfg_calibration c;
    if (t->ctx && t->db && t->dev.platform != RFG_PLATFORM_EMU &&
        rfg_db_get_calibration(t->db, t->dev.arch, t->dev.cu_count, rfg_context_product(t->ctx),
                               rfg_context_driver(t->ctx), &c) == 1)
        use_calibration(t, &c);
}

/* Measures the device and stores its numbers; the models of this run use them too. */
static bool calibrate(struct tune *t)
{
    struct rfg_calibration c;
    const struct rfg_device *d = &t->dev;
    if (!t->ctx || t->opt.dry_run) {
        fprintf(stderr, "rfg-tune: --calibrate: must have a device, and no --dry-run\n");
        return false;
    }
    if (rfg_calibrate(t->ctx, &c) != RFG_OK || rfg_db_put_calibration(t->db, d->arch, d->cu_count, &c) != RFG_OK) {
        fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
        return false;
    }
    const struct {
        const char *name, *unit;
        double was, is;
    } v[] = { { "memory", "GB/s", d->mem_gbps, c.mem_gbps },
              { "caches", "GB/s", d->cache_gbps, c.cache_gbps },
              { "launch", "us", d->latency_us, c.latency_us },
              { "load", "us", d->load_us, c.load_us },
              { "sync", "us", d->sync_us, c.sync_us } };
    printf("%s: %s, %s, %d %s, %s\n", d->name, c.device, d->arch, d->cu_count,
           d->platform == RFG_PLATFORM_CPU ? "threads" : "CUs", c.driver);
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        printf("  %-7s %9.2f %-4s (was %.2f)\n", v[i].name, v[i].is, v[i].unit, v[i].was);
    use_calibration(t, &c);
    return true;
}

/* ---- the run
 * --------------------------------------------------------------------------------------------------------- */

static void on_signal(int sig)
{
    static const char again[] = "\nrfg-tune: stopped at once\n";
    if (tune_stop) {
        ssize_t n = write(2, again, sizeof(again) - 1);
        (void)n;
        _exit(TUNE_EXIT_SIGNAL + sig);
    }
    tune_stop = sig;
}

static void catch_signals(void)
{
    struct sigaction sa = { .sa_handler = on_signal };
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN); /* a measuring process that died is noticed by other means */
}

static int exit_code(const struct tune *t)
{
    bool failed = false, left = false;
    for (int i = 0; i < t->n_shapes; i++) {
        failed |= t->shapes[i].state == SHAPE_FAILED;
        left |= t->shapes[i].state == SHAPE_WAITING;
    }
    return tune_stop                             ? TUNE_EXIT_SIGNAL + (int)tune_stop
           : failed || (left && !t->out_of_time) ? TUNE_EXIT_FAILED
           : t->bad_lines                        ? TUNE_EXIT_BAD_LINES
           : left                                ? TUNE_EXIT_TIME
                                                 : TUNE_EXIT_OK;
}

#define BATCH 256 /* shapes that are planned, compiled for and tuned at a time */

/* Candidates are many: they are kept for the results that show them. */
static void forget_candidates(const struct tune *t, struct tune_shape *s)
{
    if (tune_results_need(t, s))
        return;
    free(s->c);
    s->c = NULL;
    s->n = 0;
}

/* False: no memory, or no threads. */
static bool tune_batch(struct tune *t, struct tune_shape *shapes, int n)
{
    int waiting = 0;
    for (int i = 0; i < n && !tune_is_over(t); i++)
        if (shapes[i].state == SHAPE_WAITING) {
            tune_plan_shape(t, &shapes[i]);
            waiting++;
        }
    bool ok = true;
    if (waiting) {
        t->compiler = tune_compiler_start(t);
        if (!t->child)
            t->child = tune_child_create(t);
        ok = t->compiler && t->child;
        if (ok)
            tune_sweep(t, shapes, n);
        tune_compiler_stop(&t->compiler);
    }
    for (int i = 0; i < n; i++)
        forget_candidates(t, &shapes[i]);
    return ok;
}

/* --dry-run, --predict: nothing is measured. */
static int run_without_measuring(struct tune *t)
{
    for (int i = 0; i < t->n_shapes && !tune_is_over(t); i++) {
        struct tune_shape *s = &t->shapes[i];
        if (s->state == SHAPE_WAITING)
            tune_plan_shape(t, s);
        if (t->opt.dry_run)
            tune_explain_shape(t, s, stdout);
        else if (s->state == SHAPE_WAITING)
            tune_predict_shape(t, s);
        forget_candidates(t, s);
    }
    if (t->opt.dry_run)
        return t->bad_lines ? TUNE_EXIT_BAD_LINES : TUNE_EXIT_OK;
    tune_print_table(t, stdout);
    return exit_code(t);
}

bool tune_batches(struct tune *t, int from, int to)
{
    bool ok = true;
    for (int i = from; i < to && ok && !tune_is_over(t) && !t->gave_up; i += BATCH)
        ok = tune_batch(t, &t->shapes[i], to - i < BATCH ? to - i : BATCH);
    return ok;
}

static int run(struct tune *t)
{
    int waiting = 0;
    for (int i = 0; i < t->n_shapes && !tune_is_over(t); i++)
        tune_look_up_shape(t, &t->shapes[i]);
    if (!t->opt.online_ms && !tune_look_up_code(t)) {
        fprintf(stderr, "rfg-tune: no memory to compare code objects\n");
        return TUNE_EXIT_FAILED;
    }
    for (int i = 0; i < t->n_shapes; i++)
        waiting += t->shapes[i].state == SHAPE_WAITING;
    if (t->opt.dry_run || t->opt.predict)
        return run_without_measuring(t);
    catch_signals();
    fprintf(stderr, "rfg-tune: %s: %s, %d %s; %d of %d shapes to tune; seed %llu; %s\n", t->dev.name, t->dev.arch,
            t->dev.cu_count, t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs", waiting, t->n_shapes,
            (unsigned long long)t->opt.seed, rfg_db_path(t->db));
    bool ok = t->opt.online_ms ? tune_online_run(t) : tune_batches(t, 0, t->n_shapes);
    if (!ok)
        tune_say("no memory, or no threads for the compilers");
    tune_child_destroy(&t->child);
    tune_progress_clear();
    tune_print_table(t, tune_to_stdout(t->opt.json) || tune_to_stdout(t->opt.report) ? stderr : stdout);
    if (t->opt.json)
        ok &= tune_write_json(t, t->opt.json);
    if (t->opt.report)
        ok &= tune_write_html(t, t->opt.report);
    int code = exit_code(t);
    return ok || code >= TUNE_EXIT_SIGNAL ? code : TUNE_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    if (argc > 1 && !strcmp(argv[1], "--measure-worker"))
        return tune_measure_main(argc, argv);

    struct tune t = { .started = rfg_now() };
    rfg_tempdir_sweep(NULL); /* what a killed run left */
    int code = parse_options(&t.opt, argc, argv);
    if (code < 0 && !check_variants(t.opt.variants))
        code = TUNE_EXIT_USAGE;
    if (code < 0 && (!rfg_output_check("rfg-tune", "--json", tune_to_stdout(t.opt.json) ? NULL : t.opt.json) ||
                     !rfg_output_check("rfg-tune", "--report", tune_to_stdout(t.opt.report) ? NULL : t.opt.report)))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && tune_is_fleet(t.opt.device)) {
        catch_signals();
        code = tune_fleet(&t.opt, argc, argv);
    }
    if (code < 0)
        code = read_inputs(&t);
    if (code < 0 && !t.n_shapes && t.bad_lines && !t.opt.from_misses)
        code = TUNE_EXIT_BAD_LINES;
    if (code < 0 && (!open_device(&t) || !open_database(&t)))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && t.opt.calibrate && !calibrate(&t))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && !t.opt.calibrate)
        recall_calibration(&t);
    if (code < 0 && t.opt.from_misses)
        code = tune_read_misses(&t);
    if (code < 0)
        tune_shard_keep(&t);
    if (code < 0 && t.opt.calibrate && !t.n_shapes)
        code = TUNE_EXIT_OK;
    if (code < 0)
        code = tune_prepare_shapes(&t);
    if (code < 0)
        code = run(&t);
    for (int i = 0; i < t.n_shapes; i++)
        free(t.shapes[i].c);
    free(t.shapes);
    if (t.results)
        fclose(t.results);
    free(t.index);
    free(t.opt.shapes);
    free(t.opt.problems);
    (void)gemm_loads_set(NULL, 0);
    rfg_snapshot_free(&t.rows);
    rfg_db_close(&t.db);
    rfg_context_destroy(&t.ctx);
    rfg_tempdir_remove(&t.cache_dir);
    return rfg_program_end("rfg-tune", code, TUNE_EXIT_FAILED);
}
