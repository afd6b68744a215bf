/* SPDX-License-Identifier: MIT
 *
 * An operator's case: what only tests, the tuner and rfg-bench need. Its tensors, their contents, how they are passed,
 * the expected results. It stands in ops/<op>/case.c, beside its oracle; both are part of the harness
 * (tuner/harness/harness.h). */
#ifndef RFG_OPS_OP_CASE_H
#define RFG_OPS_OP_CASE_H

#include "op.h"

#define RFG_MAX_TENSORS 16

/* What inputs hold. */
enum rfg_data {
    RFG_DATA_RANDOM,  /* uniform in [-1, 1), or what engines have: what is timed and checked by default */
    RFG_DATA_INTS,    /* small integers: sums are exact in fp32, so any order gives the same answer: error 0 */
    RFG_DATA_CANCEL,  /* large terms that cancel: exposes 16-bit accumulation */
    RFG_DATA_SPECIAL, /* random with NaN, +-inf, denormals, -0 sprinkled in */
    RFG_DATA_EXACT,   /* gemm: sums are exact in fp32 and of more bits than 16-bit formats have: they must be rounded
                         once, to nearest even */
    RFG_DATA_WILD, /* sample: random, and rows' parameters all over their range, edges among them; its sums are exact:
                      all variants give the same bits */
};

struct rfg_tensor_spec {
    const char *name;
    bool output;
    rfg_dtype dtype;
    int ndim; /* 1, 2 or 3 */
    int64_t shape[RFG_MAX_DIMS];
    int64_t row_stride; /* ndim >= 2: elements from one shape[0] to the next; what is inside is packed */
    bool column_major;  /* ndim 2, packed: shape[1] columns of shape[0] elements */
    bool absent;        /* an optional tensor that this problem does not have: pass NULL */
    int align_key;      /* the LAYOUT key that says how its pointer and rows are aligned; -1: none */

    /* Inputs. */
    double constant; /* not 0: what all elements are (a scale, say) */
    int64_t
        index_end;    /* i32, i64: elements are drawn from 0 to index_end - 1; 0: they are 0 until fill() says better */
    bool few_special; /* RFG_DATA_SPECIAL has few of its values here: each spoils many rows of the outputs */

    /* Outputs. */
    int same_as; /* 1 + an input: this output lies where that input lies, and holds what that holds until
                  * it is written */
    /* A quantised output: element (row, column) times element (row, column / scale_group) of that tensor is what it
     * stands for. A scale tensor of one row serves all rows. */
    int scaled_by; /* 1 + the tensor of scales; 0: not quantised */
    int64_t scale_group;
    bool from_zero;    /* i4: codes are numbers from 0 to 15; the last four bits of their scale are the one that is 0 */
    bool exact;        /* bit for bit the value, rounded to nearest even; of NaNs one is as good as another */
    bool on_request;   /* one that the problem is without, but every variant gives: checked runs of plans ask for it */
    bool by_predicate; /* more than one answer is right: accept() says whether a row is one, the oracle says nothing */
};

/* Of one output: which rows are asked for, and what they must hold. A row is what the last dimension counts; of a
 * tensor of one dimension, one element. Outputs with equally many rows are asked for the same rows. */
struct rfg_expected {
    const int64_t *rows;
    int64_t n_rows;
    /* By row asked for and column: the value before it is rounded to the dtype, and how far off it the kernel's
     * unrounded value may be. Of a quantised output: what the codes times their scale stand for. NULL where the problem
     * has no such output, or accept() judges it. */
    double *value,
        *allow; /* allow below 0: nobody writes it, its bytes must be what they were; -INFINITY: any is right */
};

/* Fills value and allow of each output, from the tensors in host memory. expected: by tensor. */
typedef rfg_status rfg_oracle_fn(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected);

/* Tensors are in the order of tensors(); t has RFG_MAX_TENSORS, those absent without data. */
struct rfg_op_case {
    /* Describes the tensors of a problem. Returns their number. */
    int (*tensors)(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS]);
    /* Through the public function, as an engine would. */
    rfg_status (*call)(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream);
    /* Fills the kernel argument struct but for its head, to launch a given variant. */
    void (*pack)(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs);
    rfg_oracle_fn *oracle;

    /* The others may be NULL. */

    /* Whether the sources of its data are there (recorded loads). NULL: nothing is needed. */
    bool (*can_make)(const struct rfg_problem *prob, struct rfg_reason *why);

    /* Problems that between them have each value of each macro of its kernels, and NULL: what tests/jit/test_compile.c
     * compiles for every architecture. NULL: its own table has them. */
    const char *const *compiled;
    /* Problems that cpu takes in a moment, spelled as they are printed, and NULL: what tests of all operators run
     * (operands, special data, stacks). NULL: those tests' own tables have some. */
    const char *const *small;

    /* Replaces the harness' data of input `tensor` if the default doesn't fit: lengths, tables, data that would hide
     * mistakes. t: in host memory. */
    void (*fill)(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data, uint64_t seed);
    /* Whether this row of an output by_predicate holds a right answer; if not, says why. host: the tensors before the
     * run, got: after it (both in host memory). */
    bool (*accept)(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                   int64_t row, struct rfg_reason *why);
    /* Makes a problem the one that its call() is dispatched as, where LAYOUT keys say what only tests choose and the
     * public function can't see. NULL: they are the same. */
    void (*as_called)(struct rfg_problem *prob);
    /* An operator that several devices work on together: how many, each with all the tensors, and in place of call()
     * all their calls. Here and in the oracle, tensor i of rank r (and what is expected of it) is at [r *
     * RFG_MAX_TENSORS + i]. streams may be NULL. */
    int (*ranks)(const struct rfg_problem *prob);
    rfg_status (*call_ranks)(rfg_context *const *ctx, const struct rfg_problem *prob, const rfg_tensor *t,
                             const rfg_stream *streams);
};

/* NULL: the operator isn't in the registry. */
const struct rfg_op_case *rfg_op_case_of(const struct rfg_op *op);
/* The i-th of all cases' small problems; NULL: there are no more. How many there are. */
const char *rfg_small_problem(int i);
int rfg_small_problems(void);

#define RFG_OP(name, folder)                                                                                           \
    extern const struct rfg_op_case rfg_op_case_##name;                                                                \
    rfg_oracle_fn rfg_oracle_##name; /* operators may share one */
#include "registry.def"
#undef RFG_OP

/* ---- specs that operators share --------------------------------------------------------------------------------- */

/* Of rows x cols (heads > 1: 3-d) at row stride ld (0: packed). */
struct rfg_tensor_spec rfg_rows_spec(const char *name, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t heads,
                                     int64_t ld, int align_key);

/* Of y, q and scale (ops/quant.h) at spec[0..2], for rows x cols (in `heads` rows of rows if > 1). */
struct rfg_outputs_shape {
    int64_t rows, cols, heads;
    int64_t ld;                          /* of y and q; 0: packed */
    int64_t scale, plain, scale_columns; /* their keys */
    int align_key;
};
void rfg_outputs_specs(const struct rfg_problem *prob, const struct rfg_outputs_shape *s,
                       struct rfg_tensor_spec spec[RFG_MAX_TENSORS]);

#endif
