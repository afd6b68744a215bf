/* SPDX-License-Identifier: MIT
 *
 * A paged batch for attention's tests, on the cpu and on GPUs: made, uploaded, run, compared. Memory of the cpu ends
 * right before a page that nobody may touch. */
#ifndef RFG_TESTS_MHA_BATCH_H
#define RFG_TESTS_MHA_BATCH_H

#include "tests/op_cases.h"
#include "rfg/rfg.h"

enum { B = 2, HQ = 4, HKV = 2, D = 64, PAGE = 16, COLUMNS = 9, BLOCKS = B * COLUMNS, SQ = 20 };
enum { ROW = HKV * D, BLOCK = PAGE * ROW, Q = B * SQ * HQ * D };

/* What a call reads; the first `sq` queries of each sequence are there. */
struct batch {
    bool decode;
    int sq, columns;
    uint16_t q[Q], k[BLOCKS * BLOCK], v[BLOCKS * BLOCK];
    int32_t table[B * COLUMNS], lens[B];
    rfg_mha_params p;
};
struct result {
    uint16_t out[Q];
    float lse[B * HQ * SQ];
};
float to_float(uint16_t bf16);
struct batch *make(bool decode, int sq);

/* Memory of a device. */
struct buffers {
    const struct rfg_hip *hip;
    void *at[8];
    size_t bytes[8];
    int n;
};
void *put(struct buffers *m, const void *data, size_t bytes);
void get(const struct buffers *m, void *to, void *from, size_t bytes);
void free_buffers(struct buffers *m);

/* A batch on the device. */
struct uploaded {
    struct buffers m;
    rfg_tensor q, k, v, out, lse, table, lens;
};
void upload(rfg_context *ctx, const struct batch *b, struct result *r, struct uploaded *u);
/* False: no variant of the context takes it. */
bool attend(rfg_context *ctx, const struct batch *b, const struct uploaded *u, rfg_stream stream);
void download(struct uploaded *u, struct result *r);

/* All of that; run() fails the test where try_run() gives false. */
bool try_run(rfg_context *ctx, const struct batch *b, struct result *r);
void run(rfg_context *ctx, const struct batch *b, struct result *r);

/* The calls that each rule is tried with. */
struct kind {
    bool decode;
    int sq, causal;
};
#define N_KINDS 3
extern const struct kind kinds[N_KINDS];
struct batch *make_kind(int kind);
void must_equal(const char *device, int kind, const char *what, const struct result *a, const struct result *b);

#endif
