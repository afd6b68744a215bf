/* SPDX-License-Identifier: MIT
 *
 * Reading a row of the cache on the cpu. */
#ifndef RFG_MLA_ROWS_H
#define RFG_MLA_ROWS_H

#include "mla.h"

struct mla_reader {
    int format, dtype, d; /* dtype: of a plain kv */
    long long row, scales_at;
    float code[256]; /* what an 8-bit element stands for */
};
struct mla_reader mla_reader_of(int format, int dtype, int d, long long row, long long scales_at);
/* Row t of a block, as fp32: of V32 and V4 rounded to bf16. */
void mla_read_row(const struct mla_reader *r, const char *block, int64_t t, float *x);

#endif
