/* SPDX-License-Identifier: MIT
 *
 * rfg-emu: lists AMD code objects and runs them without a GPU. Its command line. */
#include <stdio.h>
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
    { "json", NULL, "the run (and the counters) as one JSON object", RFG_FLAG(json) },
    { 0 },
};

static const struct rfg_command_line run_line = {
    .program = self,
    .before =
        "usage: rfg-emu --coverage FILE.co...     instructions by mnemonic and family, and which are not implemented\n"
        "       rfg-emu list FILE.co...           kernels: registers, LDS, scratch, arguments\n"
        "       rfg-emu run FILE.co [options]     run a kernel on files\n"
        "       rfg-emu bench [ARCH...]           how fast the emulator is here\n"
        "\n"
        "run:\n",
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

static int run(int argc, char **argv)
{
    static struct tool_run r = { .grid = { 1, 1, 1 }, .repeat = 1 };
    int first = 0;
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
    if (first + 1 != argc)
        return tool_wrong("run: must have one FILE.co, has %d", argc - first);
    r.path = argv[first];
    if (r.device && !strncmp(r.device, "emu:", 4))
        r.device += 4;
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
    if (!strcmp(what, "run"))
        return run(argc - 1, argv + 1);
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
