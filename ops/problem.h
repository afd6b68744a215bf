/* SPDX-License-Identifier: MIT
 *
 * A problem is one call's shape: op, dtypes, sizes, attributes. Its canonical string, e.g.
 * "gemm bf16,bf16->bf16 M=8 N=2112 K=7168 bias=1", names it everywhere: logs, tests, bench, tuner, database. */
#ifndef RFG_OPS_PROBLEM_H
#define RFG_OPS_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RFG_MAX_KEYS       40
#define RFG_MAX_DTYPES     8
#define RFG_DTYPES_STRLEN  96 /* of them as text */
#define RFG_PROBLEM_STRLEN RFG_PROBLEM_MAX

_Static_assert(RFG_DTYPE_COUNT <= 32, "a mask of formats has 32 bits");
_Static_assert(RFG_MAX_KEYS <= 64, "a mask of keys has 64 bits");

struct rfg_op;

enum rfg_key_kind {
    RFG_KEY_SIZE,   /* M, N, K: always printed, no default */
    RFG_KEY_ATTR,   /* part of the tuned row's key; printed if not the default */
    RFG_KEY_LAYOUT, /* strides and alignment: printed if not the default, not part of the tuned row's key */
};

struct rfg_key {
    const char *name;
    enum rfg_key_kind kind;
    int64_t def, min, max;
    const char *const *names; /* if the value is an enumeration: its spellings from min to max; else NULL */
    const char *help;         /* what it says, for rfg-info --keys */
    /* Of a key that names a format (kv=e4m3, w_scale=f32): a bit 1 << rfg_dtype for each that it takes; its value is
     * the rfg_dtype. 0, the default, is spelled names[0]. */
    uint32_t formats;
};

struct rfg_problem {
    const struct rfg_op *op;
    uint8_t dtype[RFG_MAX_DTYPES]; /* enum rfg_dtype: inputs, then outputs, as the op lists them; the rest 0 */
    int64_t v[RFG_MAX_KEYS];       /* by the op's keys; the rest 0 */
};

/* One of f32, f16, bf16: what operators compute with, as opposed to what they quantise to. */
static inline bool rfg_dtype_is_float(int dtype)
{
    return dtype >= RFG_F32 && dtype <= RFG_BF16;
}
/* They, and those of 16 bits, as a mask of 1 << rfg_dtype. */
#define RFG_FLOAT_FORMATS (1u << RFG_F32 | RFG_HALF_FORMATS)
#define RFG_HALF_FORMATS  (1u << RFG_F16 | 1u << RFG_BF16)
/* Of 8 bits: e4m3, e4m3fnuz, e5m2, i8. */
static inline bool rfg_dtype_is_code(int dtype)
{
    return dtype >= RFG_E4M3 && dtype <= RFG_I8;
}
/* Two of them in a byte. */
static inline bool rfg_dtype_is_4_bits(int dtype)
{
    return dtype == RFG_I4 || dtype == RFG_E2M1;
}

/* All keys at their defaults, sizes 0. */
void rfg_problem_init(struct rfg_problem *p, const struct rfg_op *op);

/* Parses a canonical string; keys may come in any order. On error says what was expected and what was there. */
bool rfg_problem_parse(struct rfg_problem *p, const char *text, struct rfg_reason *why);

/* The canonical string. Returns buf. */
char *rfg_problem_format(const struct rfg_problem *p, char *buf, size_t size);

/* "bf16,bf16->bf16" */
char *rfg_problem_format_dtypes(const struct rfg_problem *p, char *buf, size_t size);
bool rfg_problem_parse_dtypes(struct rfg_problem *p, const char *text, struct rfg_reason *why);

/* The ATTR keys that aren't at their default, in key order: "bias=1"; "" if none. */
char *rfg_problem_format_attrs(const struct rfg_problem *p, char *buf, size_t size);

/* Sets one key from text such as "bias=1"; refuses an unknown name, a bad number or a value out of range. */
bool rfg_problem_set(struct rfg_problem *p, const char *name, const char *value, struct rfg_reason *why);

/* A copy with the LAYOUT keys at their defaults: what the tuned database is asked for. */
struct rfg_problem rfg_problem_key(const struct rfg_problem *p);

/* How many rows it has: the size that is the tuned row's M column. 0: its operator has none. */
int64_t rfg_problem_rows(const struct rfg_problem *p);

/* Equality and hash of everything, LAYOUT keys included. */
bool rfg_problem_equal(const struct rfg_problem *a, const struct rfg_problem *b);
uint64_t rfg_problem_hash(const struct rfg_problem *p);

/* Index of the key, or operand, called name, or -1. */
int rfg_op_key(const struct rfg_op *op, const char *name);
int rfg_op_operand(const struct rfg_op *op, const char *name);

/* The format of one of the op's operands; RFG_DTYPE_NONE: a key says that there is no such operand. */
rfg_dtype rfg_problem_format_of(const struct rfg_problem *p, int operand);

/* What an op's list of dtypes is a list of: "x,w->y". Returns buf. */
char *rfg_op_signature(const struct rfg_op *op, char *buf, size_t size);

/* The values of a key that is spelled, with `between` them: "same|e4m3|e4m3fnuz|e5m2". Returns buf. */
char *rfg_key_values(const struct rfg_key *key, const char *between, char *buf, size_t size);

#endif
