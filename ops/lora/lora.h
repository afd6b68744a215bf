/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_LORA_H
#define RFG_OPS_LORA_H

#include "lora_args.h"
#include "ops/op.h"
#include "rfg/lora.h"

/* Indices of the keys. */
enum {
    LORA_M,
    LORA_N,
    LORA_K,
    LORA_RANK,
    LORA_ADAPTERS,
    LORA_SEGMENTS, /* 0: an id a row */
    LORA_SCALES,
    LORA_RANKS,
    LORA_FORM,    /* enum lora_form */
    LORA_ALIGN,   /* as gemm's, of x */
    LORA_ALIGN_A, /* of a, b, y */
    LORA_ALIGN_B,
    LORA_ALIGN_Y,
    LORA_OVERLAP,
    LORA_NKEYS
};

/* How tests lay tensors out: packed; with gaps between rows, and between adapters. Calls say the first. */
enum lora_form { LORA_PACKED, LORA_GAPS };

/* dtype[0] = x, a and b; dtype[1] = y. */

/* Fills in what follows from the problem. */
void lora_set_sizes(struct lora_args *a, const struct rfg_problem *prob);

extern const struct rfg_op rfg_op_lora_desc;

/* gpu.c, cpu.c */
extern const struct rfg_variant lora_rows, lora_portable, lora_cpu;

#endif
