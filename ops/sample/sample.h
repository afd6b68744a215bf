/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_SAMPLE_H
#define RFG_OPS_SAMPLE_H

#include "ops/op.h"
#include "rfg/sample.h"
#include "sample_args.h"

/* Indices of the keys. */
enum {
    SAMPLE_B,
    SAMPLE_V,
    SAMPLE_TEMPERATURE, /* 1: there is such a tensor; so all up to SAMPLE_PROMPT */
    SAMPLE_TOP_K,
    SAMPLE_TOP_P,
    SAMPLE_MIN_P,
    SAMPLE_REPETITION,
    SAMPLE_FREQUENCY,
    SAMPLE_PRESENCE,
    SAMPLE_BIAS,
    SAMPLE_COUNTS,
    SAMPLE_PROMPT,
    SAMPLE_JOINT,
    SAMPLE_LDX,   /* row stride in elements; 0: packed */
    SAMPLE_ALIGN, /* as gemm's, of the logits */
    SAMPLE_OVERLAP,
    SAMPLE_NKEYS
};

/* dtype[0] = logits, dtype[1] = y. */

extern const struct rfg_op rfg_op_sample_desc;

/* sample_gpu.c, sample_cpu.c */
extern const struct rfg_variant sample_rows, sample_portable, sample_cpu;

#endif
