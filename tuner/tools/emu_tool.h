/* SPDX-License-Identifier: MIT
 *
 * What the files of rfg-emu share. */
#ifndef RFG_TUNER_EMU_TOOL_H
#define RFG_TUNER_EMU_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_arch;
struct emu_code;
struct rfg_hip;

/* ---- emu_files.c ------------------------------------------------------------------------------------------------- */

/* Prints it; 2, the exit status of a wrong command line. */
__attribute__((format(printf, 1, 2))) int tool_wrong(const char *fmt, ...);
/* A file's code object, without the header that it has in rfg's cache: malloc'ed; NULL with a message. */
char *tool_read_code(const char *path, size_t *size);
/* NULL with a message. arch NULL: the file has one alone. */
struct emu_code *tool_load(const char *path, const struct emu_arch *arch);

/* ---- the commands: they return the exit status ------------------------------------------------------------------- */

int tool_list(char **paths, int n);
int tool_coverage(char **paths, int n);
/* For the architectures named, or the three that are emulated. */
int tool_bench(char **archs, int n);

#define MAX_ARGS 128
#define MAX_SET  64

/* What rfg-emu time has beside run's options. */
struct tool_time {
    const char *trace, *timeline;
    const char *set[MAX_SET];       /* name=value */
    int n_set, inputs, rounds, hot; /* inputs: enum emu_time_inputs */
    bool replay, params;
};

struct tool_run {
    const char *path, *kernel, *device;
    uint32_t grid[3], block[3], lds; /* of the block 0: what the kernel requires, or 64 */
    bool counters, json;
    long repeat;
    bool timed;
    struct tool_time time;
    char **args;
    int n_args;
    const struct rfg_hip *hip;
    struct {
        uint8_t value[8];
        char *bytes; /* by value, longer than 8: malloc'ed */
        size_t size; /* of the argument */
        void *buffer;
        size_t buffer_size;
        const char *out; /* file to write the buffer to */
    } arg[MAX_ARGS];
};

/* emu_time.c: before the launches, after them; files of traces in place of a launch. Exit statuses. */
int tool_time_begin(struct tool_run *r);
int tool_time_end(struct tool_run *r);
int tool_time_replay(struct tool_run *r, char **paths, int n);
int tool_time_params(const struct tool_run *r);

bool tool_number(const char *text, unsigned long long lo, unsigned long long hi, unsigned long long *out);
int tool_run(struct tool_run *r);

#endif
