/* SPDX-License-Identifier: MIT
 *
 * rfg-tune's options. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tuner/harness/options.h"
#include "tune.h"

/* False with a message. */
__attribute__((format(printf, 1, 2))) static bool wrong(const char *fmt, ...)
{
    va_list ap;
    fputs("rfg-tune: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

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

static bool add_shapes(void *options, const char *value)
{
    struct tune_options *o = options;
    return append(&o->shapes, &o->n_shapes, value);
}

static bool add_problem(void *options, const char *value)
{
    struct tune_options *o = options;
    return append(&o->problems, &o->n_problems, value);
}

static bool take_loads(void *options, const char *value)
{
    (void)options;
    return rfg_loads_option("rfg-tune", value);
}

static bool take_shard(void *options, const char *value)
{
    return tune_shard_parse(value, &((struct tune_options *)options)->shard);
}

static bool take_parent(void *options, const char *value)
{
    (void)options;
    tune_worker_of(atol(value));
    return true;
}

#define RFG_OPTIONS struct tune_options
static const struct rfg_option table[] = {
    { .help = "what to tune (any of, each any number of times):" },
    { "shapes", "FILE.csv", "op,dtype,M,N,K[,attrs][,weight], or AITER's tuned or untuned *.csv",
      RFG_CALL(add_shapes) },
    { "problem", "TEXT", "e.g. \"gemm bf16,bf16->bf16 M=8 N=2112 K=7168\"", RFG_CALL(add_problem) },
    { "calibrate", NULL,
      "first measure the device's launches, memory and caches (2 s), for the models that rank\ncandidates; "
      "no problem needs to be given",
      RFG_FLAG(calibrate) },
    { "from-misses", NULL,
      "problems that ran on this device without a tuned row, with RFG_MISSES=1;\nmost-called first",
      RFG_FLAG(from_misses) },
    { .help = "where:" },
    { "device", "D",
      "cpu, amd:0, nvidia:0; default: $RFG_DEVICE, else the first GPU, else cpu; amd:all, nvidia:all:\nall GPUs of "
      "this host, which share the shapes",
      RFG_TEXT(device) },
    { "db", "FILE", "default: $RFG_DB, else the user's database", RFG_TEXT(db) },
    { .help = "how:" },
    { "overlap", NULL,
      "every problem as overlap=1: for contexts with launch_overlap, where a kernel begins before the\none before it "
      "has ended; rows record overlap=0 when the plain launch was faster",
      RFG_FLAG(overlap) },
    { "invariant", NULL,
      "every problem as invariant=1: for contexts with batch_invariant, which sum all rows in one order",
      RFG_FLAG(invariant) },
    { "loads", "FILE",
      "the tokens of each expert, as an engine recorded them (a line each, or CSV: expert,tokens);\ngrouped "
      "products without a routing become routing=recorded",
      RFG_CALL(take_loads) },
    { "per-shape", "S", "seconds a shape is measured for (default: 1.5; cpu, emulated: 8)",
      RFG_REAL(per_shape, 0.01, 1e6) },
    { "time-budget", "S", "start no further shape after S seconds", RFG_REAL(time_budget, 0, 1e9) },
    { "candidates", "N", "try at most N candidates a shape besides the vendor's (default: 48)",
      RFG_WHOLE(candidates, 0, 1000000) },
    { "variants", "LIST", "only these variants, comma-separated (default: $RFG_VARIANTS, else all)",
      RFG_TEXT(variants) },
    { "force", NULL, "tune shapes with current rows, and try candidates that failed before, too", RFG_FLAG(force) },
    { "seed", "N", "of the random inputs (default: the time; it is printed)", RFG_WHOLE(seed, 0, INT64_MAX) },
    { "jobs", "N", "compiler processes (default: the cores)", RFG_WHOLE(jobs, 0, 1024) },
    { "keep-going", NULL, "continue if the device can't measure several shapes in a row", RFG_FLAG(keep_going) },
    { "dry-run", NULL,
      "list the candidates, and why others are refused; the device needn't be there:\n--device gfx942:304, sm_90",
      RFG_FLAG(dry_run) },
    { "by-time", NULL,
      "measure nothing: the clock of an emulated GPU (--device emu:gfx950:256, emu:gfx942:304) chooses among\nthe "
      "model's best 8 (--candidates N). Writes rows marked `predicted` where that is faster than the\nmodel's first by "
      "more than the clock errs; they never replace other rows",
      RFG_FLAG(by_time) },
    { "max-m", "M", "leave out problems with more than M rows", RFG_WHOLE(max_m, 0, INT32_MAX) },
    { "shard", "I/N",
      "every N-th shape, from the I-th on (0 to N - 1): one of N runs, whose databases rfg-db merge\nmerges; "
      "auto: I and N from Slurm's array, mpirun or srun",
      RFG_CALL(take_shard) },
    { "online", "MS",
      "beside a program that uses the same device: use at most MS milliseconds of each minute, in short\nslices, and "
      "write provisional rows; needs --from-misses, and runs until no new misses are\nrecorded. "
      "RFG_TUNE=online starts it this way",
      RFG_WHOLE(online_ms, 1, 60000) },
    { .help = "results:" },
    { "json", "FILE", "\"-\": stdout (the table goes to stderr)", RFG_TEXT(json) },
    { "report", "FILE.html", "a self-contained page with a chart of every candidate", RFG_TEXT(report) },
    { "verbose", NULL, "say why candidates are refused", .letter = 'v', RFG_FLAG(verbose) },
    { "worker-of", "PID", NULL, RFG_CALL(take_parent) },        /* tune_fleet()'s */
    { "engine", "PID", NULL, RFG_WHOLE(engine, 0, INT32_MAX) }, /* dispatch/online.c's */
    { 0 },
};

static const struct rfg_command_line command_line = {
    .program = "rfg-tune",
    .before = "usage: rfg-tune --shapes FILE.csv [options]\n"
              "Finds the fastest correct variant for each problem and writes it to the tuned database.\n"
              "\n",
    .after =
        "  -h, --help           -V, --version\n"
        "\n"
        "A killed run continues when it is started again: shapes with a valid row are not tuned again, and candidates\n"
        "that hung, crashed, were wrong or didn't compile are not tried again.\n"
        "\n"
        "exit code: 0 every shape has a row; 1 some shapes failed; 2 wrong usage; 3 some lines of a shapes file are "
        "bad (the\n"
        "others are tuned); 4 the time budget left shapes out; 130 interrupted: what was finished is in the database\n",
    .column = 23,
    .options = table,
};

/* ---- what goes together ------------------------------------------------------------------------------------------ */

/* False with a message. */
static bool is_for_online(const struct tune_options *o)
{
    return (o->online_ms && o->from_misses && !o->n_shapes && !o->n_problems && !o->calibrate && !o->by_time &&
            !o->dry_run && !o->force && !gemm_loads(NULL) && !tune_is_fleet(o->device)) ||
           wrong("--online: must come with --from-misses, on one device, and with neither other problems nor "
                 "--by-time, --calibrate, --dry-run, --force, --loads");
}

static bool results_are_possible(const struct tune_options *o)
{
    bool measures = o->n_shapes || o->n_problems || o->from_misses;
    if (o->dry_run || !measures)
        return wrong("%s: is about measurements of problems: %s", o->json ? "--json" : "--report",
                     o->dry_run ? "--dry-run makes none" : "none is given");
    if (o->report && o->by_time)
        return wrong("--report: is about measurements of problems: --by-time makes none");
    return !o->json || !o->report || strcmp(o->json, o->report) ||
           wrong("--report '%s': must be another file than --json's", o->report);
}

static bool is_consistent(const struct tune_options *o, const char *argument)
{
    if (argument)
        return wrong("'%s': not an option; a shapes file is given with --shapes", argument);
    if (!o->n_shapes && !o->n_problems && !o->from_misses && !o->calibrate)
        return wrong("nothing to tune: give --shapes, --problem, --from-misses or --calibrate");
    if (o->by_time && (o->dry_run || o->calibrate || o->per_shape > 0 || o->jobs))
        return wrong("--by-time: can't be combined with %s", o->dry_run     ? "--dry-run, which writes nothing"
                                                             : o->calibrate ? "--calibrate: nothing is measured"
                                                             : o->jobs      ? "--jobs: one process compiles and runs"
                                                                            : "--per-shape: nothing is measured");
    if (o->shard.n && o->from_misses)
        return wrong("--shard: can't be combined with --from-misses: each run would see another list");
    if ((o->online_ms || o->engine) && !is_for_online(o))
        return false;
    if (tune_is_fleet(o->device) && (o->json || o->report || o->dry_run || o->by_time))
        return wrong("--device %s: can't be combined with %s: must be one device", o->device,
                     o->json      ? "--json"
                     : o->report  ? "--report"
                     : o->dry_run ? "--dry-run"
                                  : "--by-time");
    return (!o->json && !o->report) || results_are_possible(o);
}

int tune_options_parse(struct tune_options *o, int argc, char **argv)
{
    int first = 0;
    o->seed = UINT64_MAX; /* as no option gives it */
    int code = rfg_options_parse(&command_line, argc, argv, o, &first);
    if (!code)
        return code;
    if (code > 0 || !is_consistent(o, argv[first])) {
        fprintf(stderr, "rfg-tune --help says more\n");
        return TUNE_EXIT_USAGE;
    }
    if (o->online_ms && !o->jobs)
        o->jobs = 1;
    if (o->by_time && !o->candidates)
        o->candidates = 8;
    if (!o->variants)
        o->variants = rfg_env("RFG_VARIANTS");
    if (o->seed == UINT64_MAX) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        o->seed = ((uint64_t)now.tv_sec ^ (uint64_t)now.tv_nsec) & 0x7fffffff;
    }
    return -1;
}
