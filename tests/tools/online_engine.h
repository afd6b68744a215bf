/* SPDX-License-Identifier: MIT
 *
 * The engine that tests of online tuning start: online_engine.c. */
#ifndef RFG_TESTS_ONLINE_ENGINE_H
#define RFG_TESTS_ONLINE_ENGINE_H

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "rfg/rfg.h"
#include "tune_case.h"
#include "tuner/tune/pace.h"

struct engine {
    rfg_context *ctx;
    rfg_stream stream;
    void *x, *w, *y;
    uint64_t calls;
};

#define M 1

#define N 16

#define K 32

#define P "gemm bf16,bf16->bf16 M=1 N=16 K=32" /* small: the emulator tunes it, too */

#define engine(device, what, seconds) finish(start_engine(device, db_path, what, seconds, NULL))

int engine_main(char **argv);
void setup_online(void);
void plant(const char *lines, mode_t mode);
void plant_real(const char *more);
void plant_marker(const char *then);
pid_t start_engine(const char *device, const char *db, const char *what, const char *seconds, const char *more);
int starts(void);
bool tuner_is_gone(void);
bool log_says(const char *text);
extern char mark[300], engine_path[300], tune_path[300], log_path[320];

#endif
