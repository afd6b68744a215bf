/* SPDX-License-Identifier: MIT
 *
 * What an operator is: a row of the table in op_table.c. */
#ifndef RFGPY_OP_H
#define RFGPY_OP_H

#include "rfgpy.h"

#include <stddef.h>

enum member_kind {
    FLOAT,
    DOUBLE,
    INT32,
    INT64,
    INT32_4,
    INPUT,
    OUTPUT,
    SCALES, /* an output where it has more than one dimension */
    QUANT,
    ACT,
    GATES,
    PER,
    SCALING,
    ROUNDING,
    NESTED,
    MEMORY
};

struct member {
    const char *name;
    enum member_kind kind;
    size_t offset;
    const struct params *nested;
};

struct params {
    size_t size;
    const void *init; /* RFG_<OP>_PARAMS_INIT */
    const struct member *members;
};

typedef void (*function)(void);

struct op {
    const char *name, *symbol; /* gemm, rfg_op_gemm */
    const char *tensors;       /* "y x w"; those before the dash are outputs: "y - x w" */
    const struct params *params;
    rfg_status (*call)(function fn, void *ctx, const rfg_tensor *const *t, const void *params, rfg_stream stream);
    bool joint; /* ctx is a communicator */
};

extern const struct op rfgpy_ops[];
extern const size_t rfgpy_n_ops;

/* True: the thread's last call of op answered a number of bytes. */
bool rfgpy_op_says(const struct op *op, size_t *bytes);

#endif
