/* SPDX-License-Identifier: MIT
 *
 * rfg-emu: lists AMD code objects and runs them without a GPU. Its command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_tool.h"
#include "tuner/harness/options.h"
#include "tuner/harness/output.h"

static char self[] = "rfg-emu"; /* getopt's messages begin with argv[0] */
#define HINT "rfg-emu: rfg-emu --help lists the options\n"

/* ---- run --------------------------------------------------------------------------------------------------------- */

static int parse_dims(const char *what, const char *text, unsigned long long most, uint32_t out[3])
{
    char part[32];
    const char *at = text;
    for (int d = 0; d < 3; d++) {
        unsigned long long v = 1;
        if (d == 0 || *at) {
            size_t len = strcspn(at, ",");
            if (len >= sizeof(part))
                return tool_wrong("%s %s: must be X[,Y[,Z]]", what, text);
            memcpy(part, at, len);
            part[len] = 0;
            if (!tool_number(part, 1, most, &v))
                return tool_wrong("%s %s: '%s' must be a number from 1 to %llu", what, text, part, most);
            at += len + (at[len] == ',');
        }
        out[d] = (uint32_t)v;
    }
    return *at ? tool_wrong("%s %s: must be X[,Y[,Z]]", what, text) : 0;
}

static bool take_grid(void *options, const char *value)
{
    return parse_dims("--grid", value, UINT32_MAX, ((struct tool_run *)options)->grid) == 0;
}

static bool take_block(void *options, const char *value)
{
    return parse_dims("--block", value, 1024, ((struct tool_run *)options)->block) == 0;
}

static bool take_param(void *options, const char *value)
{
    struct tool_time *t = &((struct tool_run *)options)->time;
    if (t->n_set == MAX_SET) {
        tool_wrong("--param %s: at most %d can be given", value, MAX_SET);
        return false;
    }
    t->set[t->n_set++] = value;
    return true;
}

static const char *const inputs[] = { "rotated", "cold", "warm", NULL }; /* enum emu_time_inputs */

#define RFG_OPTIONS struct tool_run
static const struct rfg_option run_options[] = {
    { "kernel", "NAME", "which kernel (needed if the file has several)", RFG_TEXT(kernel) },
    { "grid", "X[,Y[,Z]]", "workgroups (default 1)", RFG_CALL(take_grid) },
    { "block", "X[,Y[,Z]]", "work-items of a workgroup (default: what the kernel requires, else 64)",
      RFG_CALL(take_block) },
    { "lds", "BYTES", "dynamic LDS", RFG_WHOLE(lds, 0, 1 << 20), .must = "a number of bytes" },
    { "device", "ARCH[:CUS]", "default: the code object's architecture", RFG_TEXT(device) },
    { "repeat", "N", "launch it N times", RFG_WHOLE(repeat, 1, 1000000), .must = "a number from 1 to 1000000" },
    { "counters", NULL, "counters of all launches together: docs/emulator.md defines them", RFG_FLAG(counters) },
    { "json", NULL, "the run (and the counters) as one JSON object; time: one for each launch", RFG_FLAG(json) },
    { "inputs", "WHERE",
      "time: where they are: rotated (default: 101 copies), cold (in memory), warm (in the last cache)",
      RFG_CHOICE(time.inputs, inputs) },
    { "param", "NAME=VALUE", "time: another value for a parameter of the model", RFG_CALL(take_param) },
    { "params", NULL, "time: lists the parameters (--device: of which architecture)", RFG_FLAG(time.params) },
    { "rounds", "N", "time: emulate N rounds of workgroups at most, the rest by likeness (default 3)",
      RFG_WHOLE(time.rounds, 2, 1000), .must = "a number from 2 to 1000" },
    { "trace", "FILE", "time: write what the first launch executed, for --replay", RFG_TEXT(time.trace) },
    { "replay", NULL, "time: the files are traces", RFG_FLAG(time.replay) },
    { "hot", "N", "time: the N instructions that waves were at the longest", RFG_WHOLE(time.hot, 1, 1000),
      .must = "a number from 1 to 1000" },
    { "timeline", "FILE", "time: write one CU's waves for a trace viewer (JSON)", RFG_TEXT(time.timeline) },
    { 0 },
};

static struct rfg_command_line run_line = {
    .program = self,
    .before =
        "usage: rfg-emu --coverage FILE.co...     instructions by mnemonic and family, and which are not implemented\n"
        "       rfg-emu list FILE.co...           kernels: registers, LDS, scratch, arguments\n"
        "       rfg-emu run FILE.co [options]     run a kernel on files\n"
        "       rfg-emu time FILE.co [options]    run it, and predict its microseconds\n"
        "       rfg-emu time --replay TRACE...    the same of traces; --params lists the model's parameters\n"
        "       rfg-emu bench [ARCH...]           how fast the emulator is here\n"
        "\n"
        "run, time:\n",
    .after = "  --args A...            the kernel's explicit arguments, in order; to the end of the line:\n"
             "      i8: i16: i32: i64: u8: u16: u32: u64: f32: f64:  a number, e.g. i32:5\n"
             "      in:FILE            a buffer with the file's bytes\n"
             "      out:FILE:BYTES     a buffer of zeroes, written to the file afterwards\n"
             "      inout:FILE:FILE    a buffer with the first file's bytes, written to the second afterwards\n"
             "      zero:BYTES         a buffer of zeroes\n"
             "      bytes:FILE         an argument by value (a struct), the file's bytes\n"
             "      { A... }           a struct of such values and buffers, each aligned to its size, as rfg's kernels "
             "take one\n"
             "      null               a null pointer\n"
             "\n"
             "Files may be rfg's own (.rfgco, of its cache), and offload bundles if --device says which architecture "
             "is meant.\n"
             "$RFG_EMU_THREADS, $RFG_EMU_SCHEDULE (a seed), $RFG_EMU_TURN and $RFG_EMU_MAX_SPIN say how workgroups are "
             "scheduled.\n"
             "-h, --help, -V, --version: alone, or after a command. Exit status: 0; 1 if something is missing or "
             "failed; 2 for\n"
             "a wrong command line.\n",
    .column = 25,
    .options = run_options,
    .hint = HINT,
    .bare = true,
};

static int time_of(struct tool_run *r, char **paths, int n)
{
    if (r->time.params)
        return n ? tool_wrong("time: --params takes no file") : tool_time_params(r);
    if (r->counters || r->repeat != 1)
        return tool_wrong("time: --counters and --repeat are run's");
    if (r->time.replay)
        return n && !r->time.trace ? tool_time_replay(r, paths, n)
                                   : tool_wrong("time: --replay must have files of traces, and no --trace");
    setenv("RFG_EMU_CHECKS", "none", 0);
    return -1;
}

/* rfg-emu run; time: or rfg-emu time */
static int run(int argc, char **argv, bool timed)
{
    static struct tool_run r = { .grid = { 1, 1, 1 }, .repeat = 1, .time.rounds = 3 };
    int first = 0;
    r.timed = timed;
    run_line.command = timed ? "time" : "run";
    run_line.takes = timed ? NULL : " kernel grid block lds device repeat counters json ";
    argv[0] = self;
    /* --args takes the rest, whatever it looks like */
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--args")) {
            r.args = argv + i + 1;
            r.n_args = argc - i - 1;
            argc = i;
        }
    if (r.n_args > MAX_ARGS)
        return tool_wrong("--args: %d are given: at most %d can be", r.n_args, MAX_ARGS);
    int code = rfg_options_parse(&run_line, argc, argv, &r, &first);
    if (code >= 0)
        return code;
    if (r.device && !strncmp(r.device, "emu:", 4))
        r.device += 4;
    code = timed ? time_of(&r, argv + first, argc - first) : -1;
    if (code >= 0)
        return code;
    if (first + 1 != argc)
        return tool_wrong("%s: must have one FILE.co, has %d", run_line.command, argc - first);
    r.path = argv[first];
    return tool_run(&r);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static void help(FILE *f)
{
    (void)f;
    rfg_options_help(&run_line);
}

/* Those without options of their own. */
static const struct {
    const char *name;
    int min; /* arguments */
    int (*run)(char **args, int n);
} simple[] = {
    { "--coverage", 1, tool_coverage },
    { "coverage", 1, tool_coverage },
    { "list", 1, tool_list },
    { "bench", 0, tool_bench },
};

static int command(int argc, char **argv)
{
    static const struct rfg_option none[] = { { 0 } };
    static const struct rfg_command_line line = { .program = self, .options = none, .help = help, .hint = HINT };
    const char *what = argc > 1 ? argv[1] : "";
    int first = 0;
    if (!strcmp(what, "run") || !strcmp(what, "time"))
        return run(argc - 1, argv + 1, *what == 't');
    for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
        if (!strcmp(what, simple[i].name)) {
            argv[1] = self;
            int code = rfg_options_parse(&line, argc - 1, argv + 1, NULL, &first), n = argc - 1 - first;
            return code >= 0           ? code
                   : n < simple[i].min ? tool_wrong("%s: must have a file", what)
                                       : simple[i].run(argv + 1 + first, n);
        }
    if (!strcmp(what, "--help") || !strcmp(what, "-h") || !strcmp(what, "--version") || !strcmp(what, "-V"))
        return rfg_options_parse(&line, 2, argv, NULL, &first);
    return argc > 1 ? tool_wrong("'%s': rfg-emu --help lists what there is", what)
                    : tool_wrong("a command is missing: rfg-emu --help lists what there is");
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end(self, command(argc, argv), 1);
}
