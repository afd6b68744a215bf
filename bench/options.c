/* SPDX-License-Identifier: MIT
 *
 * rfg-bench's options. */
#include <stdio.h>
#include <stdlib.h>

#include "tuner/harness/loads.h"
#include "tuner/harness/options.h"
#include "bench.h"

static void bad_line(void *arg, const char *message)
{
    *(bool *)arg = true;
    fprintf(stderr, "rfg-bench: %s\n", message);
}

static bool add_problem(struct rfg_shapes *s, const char *text)
{
    struct rfg_reason why;
    struct rfg_shape *more = realloc(s->v, (s->n + 1) * sizeof(*more));
    if (!more)
        return false;
    s->v = more;
    s->v[s->n] = (struct rfg_shape){ .weight = 1 };
    if (!rfg_problem_parse(&s->v[s->n].problem, text, &why)) {
        fprintf(stderr, "rfg-bench: --problem \"%s\": %s\n", text, why.text);
        return false;
    }
    s->n++;
    return true;
}

static bool take_problem(void *options, const char *value)
{
    return add_problem(&((struct bench_options *)options)->shapes, value);
}

static bool take_shapes(void *options, const char *value)
{
    struct bench_options *o = options;
    struct rfg_shapes read = { 0 };
    bool ok = rfg_shapes_read(value, &read, bad_line, &o->bad_lines) == RFG_OK;
    if (!ok)
        fprintf(stderr, "rfg-bench: %s\n", rfg_last_error());
    struct rfg_shape *more = realloc(o->shapes.v, (o->shapes.n + read.n + 1) * sizeof(*more));
    if (more) {
        for (size_t i = 0; i < read.n; i++)
            more[o->shapes.n + i] = read.v[i];
        o->shapes.v = more;
        o->shapes.n += read.n;
    }
    rfg_shapes_free(&read);
    return ok;
}

static bool take_loads(void *options, const char *value)
{
    (void)options;
    return rfg_loads_option("rfg-bench", value);
}

#define RFG_OPTIONS struct bench_options
/* What has no help here is in the line before. */
static const struct rfg_option table[] = {
    { "device", "D", "cpu, amd:0, nvidia:0 (default: as rfg_context_create())", RFG_TEXT(device) },
    { "problem", "\"...\"", "e.g. \"gemm bf16,bf16->bf16 M=8 N=512 K=7168\"; may be repeated", RFG_CALL(take_problem) },
    { "shapes", "FILE", "a CSV of problems, as for rfg-tune", RFG_CALL(take_shapes) },
    { "db", "FILE", "the tuned database (default: the user's)", RFG_TEXT(db) },
    { "overlap", NULL, "all problems as overlap=1: in a context with launch_overlap", RFG_FLAG(overlap) },
    { "invariant", NULL, "all problems as invariant=1: in a context with batch_invariant", RFG_FLAG(invariant) },
    { "loads", "FILE", "the tokens of each expert, for problems with routing=recorded, as for rfg-tune",
      RFG_CALL(take_loads) },
    { "variant", "\"v{...}\"", "time this variant instead of the dispatcher's choice", RFG_TEXT(variant) },
    { "all-variants", NULL, "time every configuration that supports the problem, fastest first", RFG_FLAG(all) },
    { "rounds", "N", "samples (default 50); --max-seconds S bounds each problem (default 3)",
      RFG_WHOLE(rounds, 3, 1000000) },
    { "max-seconds", "S", NULL, RFG_REAL(max_s, 0.001, 86400) },
    { "no-check", NULL, "don't verify results before timing", RFG_FLAG(no_check) },
    { "seed", "N", "of the data", RFG_WHOLE(seed, 0, INT64_C(1) << 53) },
    { "copy", NULL, "on cpu: copies of memory between the samples, and the share of their bandwidth", RFG_FLAG(copy) },
    { "dispatch", NULL, "instead: cost of a lookup and of an op call over a raw launch (host time)",
      RFG_FLAG(dispatch) },
    { "counters", NULL,
      "instead, on emu:ARCH[:CUS]: what one call does: instructions, bytes, cache lines, LDS\nconflicts, matrix "
      "cycles, occupancy",
      RFG_FLAG(counters) },
    { "time", NULL,
      "instead, on emu:ARCH[:CUS]: microseconds that one call would take, predicted by the model of\ntime "
      "(docs/perf/amd_time.md); RFG_EMU_CHECKS=none is quicker",
      RFG_FLAG(time) },
    { "save-baseline", "F",
      "write the medians; --baseline F compares: a median more than 10% above (--threshold PCT)\nis named and the exit "
      "code is 1",
      RFG_TEXT(save) },
    { "baseline", "F", NULL, RFG_TEXT(baseline) },
    { "threshold", "PCT", NULL, RFG_REAL(threshold, 0, 1000) },
    { "json", NULL, "one JSON object a line", RFG_FLAG(json) },
    { 0 },
};

static const struct rfg_command_line command_line = {
    .program = "rfg-bench",
    .before = "usage: rfg-bench [OPTIONS] --problem \"...\" | --shapes FILE\n"
              "Times problems through the public API: captured graphs where there are graphs, inputs rotated past the "
              "last-level\n"
              "cache, random data, each result checked against the oracle first.\n",
    .after = "  -h, --help           -V, --version\n"
             "Exit: 0 fine; 1 a problem failed or regressed; 2 bad usage or input\n",
    .column = 23,
    .options = table,
    .bare = true,
};

int bench_options_parse(struct bench_options *o, int argc, char **argv)
{
    int first = 0, code = rfg_options_parse(&command_line, argc, argv, o, &first);
    if (code >= 0)
        return code;
    if (first < argc) {
        fprintf(stderr, "rfg-bench: '%s': not an option\n", argv[first]);
        return 2;
    }
    if ((o->save || o->baseline) && (o->all || o->dispatch || o->counters || o->time)) {
        fprintf(stderr, "rfg-bench: %s: needs one time a problem: not with %s\n",
                o->save ? "--save-baseline" : "--baseline",
                o->all        ? "--all-variants"
                : o->dispatch ? "--dispatch"
                : o->counters ? "--counters"
                              : "--time");
        return 2;
    }
    if (o->time && (o->counters || o->dispatch || o->all)) {
        fprintf(stderr, "rfg-bench: --time: not with --counters, --dispatch or --all-variants\n");
        return 2;
    }
    if (!o->shapes.n && o->dispatch && !add_problem(&o->shapes, "gemm bf16,bf16->bf16 M=1 N=64 K=7168"))
        return 2;
    if (!o->shapes.n) {
        fprintf(stderr, "rfg-bench: nothing to time: %s: rfg-bench --help says more\n",
                o->bad_lines ? "no line is good" : "give --problem or --shapes");
        return 2;
    }
    return -1;
}
