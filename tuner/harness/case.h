/* SPDX-License-Identifier: MIT
 *
 * The inside of a case: for harness.c and case_data.c. */
#ifndef RFG_TUNER_CASE_H
#define RFG_TUNER_CASE_H

#include "fenced.h"
#include "harness.h"

#define GUARD      256  /* bytes before and after each tensor */
#define GUARD_BYTE 0xa5 /* no kernel writes it by chance */
#define POISON     0xff /* NaN in float formats */

struct place {
    struct rfg_tensor_spec spec;
    size_t offset; /* of the data in a set, from the guard before it */
    size_t extent; /* bytes from the first to the last element */
    /* As memory: `segs` stretches of `seg` bytes, `stride` bytes apart. */
    size_t seg, stride;
    int64_t segs;
    int64_t rows, cols; /* as the oracle sees it: all dimensions but the last, and the last; of one dimension: n, 1 */
};

/* Where the bytes [begin, end) of a set are; those of set s `set_bytes` * s further on. Bytes that no piece has aren't
 * on the device. */
struct piece {
    size_t begin, end;
    char *at;
};

struct rfg_case {
    rfg_context *ctx;
    const struct rfg_hip *hip;
    struct rfg_problem prob, as_called;
    const struct rfg_op_case *of;
    int rank;
    struct rfg_case_params params;
    int n_tensors, n_sets;
    double upload_s;
    struct place place[RFG_MAX_TENSORS];
    size_t set_bytes;
    char *host;  /* one set as it is before a run: inputs, poisoned outputs, guards */
    char *got;   /* and after: where rfg_case_check() puts it */
    char *arena; /* n_sets device (or host, on cpu) copies, unless fenced */
    struct rfg_fenced fenced[RFG_MAX_TENSORS], counters;
    struct piece piece[RFG_MAX_TENSORS];
    int n_pieces;
    rfg_tensor (*tensors)[RFG_MAX_TENSORS];
    rfg_tensor host_tensors[RFG_MAX_TENSORS];
    int64_t *rows[RFG_MAX_TENSORS]; /* that are asked of outputs; NULL where they are an earlier output's */
    struct rfg_expected expected[RFG_MAX_TENSORS];
    void *kargs;
    bool asked; /* the last run was asked for all outputs */
};

/* The tensor whose first element is at data. */
rfg_tensor rfg_case_tensor_at(const struct place *p, char *data);
/* Bytes from a tensor's first element to the one in row r and column i. */
size_t rfg_case_place_of(const struct place *p, int64_t r, int64_t i);
/* Is it an output that the last run was asked for? */
bool rfg_case_is_asked(const struct rfg_case *c, const struct place *p);
/* Copies the bytes [from, to) of a set that are on the device to it from `bytes`, or back. */
rfg_status rfg_case_copy(const struct rfg_case *c, int set, char *bytes, size_t from, size_t to, bool back);
/* Waits for what runs; the case's device is the thread's current one then. */
rfg_status rfg_case_settle(const struct rfg_case *c);
/* Fills c->host: guards, inputs from the seed, poisoned outputs. False: no memory. */
bool rfg_case_make_data(struct rfg_case *c);

#endif
