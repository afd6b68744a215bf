/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MLA_GATHER_H
#define RFG_OPS_MLA_GATHER_H

#include "gather_args.h"
#include "ops/mha/mla/mla.h"

/* Indices of the keys. */
enum {
    GATHER_N,
    GATHER_D,
    GATHER_B,
    GATHER_PAGE,   /* rows of a block; 0: no table */
    GATHER_FORMAT, /* rfg_mla_format */
    GATHER_SCALE,  /* kv_scale */
    GATHER_FIRST,  /* first */
    GATHER_TABLE,  /* enum mla_table */
    GATHER_FORM,   /* enum mla_form: tests' */
    GATHER_ALIGN,
    GATHER_OVERLAP,
    GATHER_NKEYS
};

extern const struct rfg_op rfg_op_mla_gather_desc;

/* A call with its arguments. */
struct gather_call {
    const rfg_tensor *rows, *kv, *cu_seqlens;
    rfg_mla_gather_params p;
};
/* The kernel arguments of a call that was checked. */
void gather_fill_args(const struct gather_call *c, struct gather_args *a);

/* gpu.c, cpu.c */
extern const struct rfg_variant mla_gather_rows, mla_gather_cpu;

#endif
