/* SPDX-License-Identifier: MIT */
#ifndef RFG_BENCH_H
#define RFG_BENCH_H

#include "tuner/harness/harness.h"

struct bench_memory;

struct bench_options {
    const char *device, *db, *variant, *save, *baseline;
    int rounds;
    uint64_t seed;
    double max_s, threshold;
    bool json, no_check, all, dispatch, counters, time, copy, overlap, invariant;
    struct bench_memory *memory; /* cpu */
    struct rfg_shapes shapes;
    bool bad_lines;
};
/* -1: go on; else the exit code. */
int bench_options_parse(struct bench_options *o, int argc, char **argv);

/* Measures the dispatcher's own cost for a problem; prints nanoseconds, as text or one JSON object. */
rfg_status bench_dispatch(rfg_context *ctx, const struct rfg_problem *prob, bool json);

/* Counts one call's work on an emulated device: instructions by class, bytes, lines. timed: predicts its microseconds. */
rfg_status bench_counters(rfg_context *ctx, const struct rfg_problem *prob, const char *variant, uint64_t seed,
                          bool json, bool timed);

/* Bandwidth of the cpu's memory with all its threads, over more than the last-level cache: reads, GB/s, the best of
 * some sweeps; and one copy, GB/s read and written. NULL if there is no memory for it. */
struct bench_memory *bench_memory_create(const struct rfg_device *dev, bool copies);
void bench_memory_destroy(struct bench_memory **m);
double bench_memory_read(struct bench_memory *m);
double bench_memory_copy(struct bench_memory *m);

/* Compares with, or writes, a file of {"problem": p50 us} of one device. */
struct bench_baseline;
bool bench_baseline_load(const char *path, struct bench_baseline **out, struct rfg_reason *why);
/* Whether it was measured on this architecture. Files of rfg 0.1 don't say, and count as fitting. */
bool bench_baseline_fits(const struct bench_baseline *b, const char *arch, struct rfg_reason *why);
/* 0 if the problem isn't in it. */
double bench_baseline_us(const struct bench_baseline *b, const char *problem);
bool bench_baseline_set(struct bench_baseline **b, const char *problem, double us);
/* False with a message. */
bool bench_baseline_save(const struct bench_baseline *b, const char *path, const struct rfg_device *dev);
void bench_baseline_free(struct bench_baseline **b);

#endif
