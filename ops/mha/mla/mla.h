/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_MLA_H
#define RFG_OPS_MLA_H

#include "ops/op.h"
#include "mla_args.h"
#include "mla_format.h"
#include "rfg/mla.h"

/* Indices of the keys. */
enum {
    MLA_B,
    MLA_HQ,
    MLA_D,
    MLA_S,
    MLA_SQ,
    MLA_DV, /* 0: D */
    MLA_CAUSAL,
    MLA_CAP, /* the soft cap, rounded up; 0: none */
    MLA_SINK,
    MLA_STYPE, /* rfg_dtype of the sinks; 0: f32 */
    MLA_LSE,
    MLA_PAGE,      /* rows of a block; 0: no table */
    MLA_KV,        /* rfg_dtype of kv; 0: q's */
    MLA_SCALE,     /* kv_scale */
    MLA_FORMAT,    /* rfg_mla_format */
    MLA_POSITIONS, /* q_positions */
    MLA_TABLE,     /* enum mla_table */
    MLA_Q,         /* enum mla_q */
    MLA_FORM,      /* enum mla_form: tests' */
    MLA_LENS,      /* enum mha_lens: tests' */
    MLA_CP,        /* ranks of context parallelism: tests' */
    MLA_ALIGN,
    MLA_INVARIANT,
    MLA_OVERLAP,
    MLA_NKEYS
};

enum mla_table { MLA_TABLE_BLOCK, MLA_TABLE_INDICES }; /* "block", "indices" */
enum mla_q { MLA_Q_WHOLE, MLA_Q_APART };               /* "whole", "apart" */
enum mla_form { MLA_FORM_PACKED, MLA_FORM_GAPS };      /* "packed"; "gaps": between rows, and kv has a head */

#define MLA_MAX_D    576
#define MLA_MAX_PAGE (1 << 30)

/* By enum rfg_mla_format. */
extern const char *const mla_format_names[];
/* Of a problem: the format, the dtype beside it, the cache's dtype, elements of a row. */
bool mla_format_valid(int64_t format, int x, int kv, int64_t d, struct rfg_reason *why);
/* Of a call: a format that there is; what its rows' pointers and strides must be. */
rfg_status mla_check_format(const char *fn, rfg_mla_format format);
rfg_status mla_check_rows(const char *fn, const rfg_tensor *kv, rfg_mla_format format);

extern const struct rfg_op rfg_op_mla_decode_desc;

static inline int mla_dv(const struct rfg_problem *prob)
{
    return (int)(prob->v[MLA_DV] ? prob->v[MLA_DV] : prob->v[MLA_D]);
}
static inline int mla_kv_dtype(const struct rfg_problem *prob)
{
    return prob->v[MLA_KV] ? (int)prob->v[MLA_KV] : prob->dtype[0];
}
static inline int mla_sink_dtype(const struct rfg_problem *prob)
{
    return prob->v[MLA_STYPE] ? (int)prob->v[MLA_STYPE] : RFG_F32;
}
static inline int64_t mla_table_columns(const struct rfg_problem *prob)
{
    return prob->v[MLA_PAGE] ? ceil_div(prob->v[MLA_S], prob->v[MLA_PAGE]) : 0;
}

/* A call with its arguments. */
struct mla_call {
    const rfg_tensor *out, *q, *kv;
    rfg_mla_params p;
};
/* The most keys that a sequence of the call's tensors can have. */
int64_t mla_held(const struct mla_call *c);
/* The kernel arguments of a call that was checked. */
void mla_fill_args(const struct mla_call *c, struct mla_args *a);

/* Keys of sequence b in tests: drawn from the problem alone. */
double mla_row_bytes(const struct rfg_problem *prob);
int64_t mla_test_length(const struct rfg_problem *prob, int64_t b);

/* gpu_wgmma_codes.c, gpu_wgmma_few.c, gpu_wgmma.c, gpu.c, cpu.c */
extern const struct rfg_variant mla_decode_wgmma_codes, mla_decode_wgmma_few, mla_decode_wgmma, mla_decode_tile_mma,
    mla_decode_portable, mla_decode_cpu;

/* What the first three share (gpu_wgmma.c). n: work items. */
bool mla_wgmma_supports(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why);
bool mla_wgmma_valid(const struct rfg_device *dev, int lds, int64_t n, int parts, int clusters, struct rfg_reason *why);
bool mla_wgmma_worth(const struct rfg_device *dev, const struct rfg_problem *prob, int64_t n, int parts, int clusters,
                     struct rfg_reason *why);
void mla_wgmma_macros(const struct rfg_problem *prob, int parts, int clusters, int lds, struct rfg_kernel *k);
void mla_wgmma_launch(int64_t groups, int lds, struct rfg_launch *l);
/* What mla_decode_wgmma_few and mla_decode_wgmma_codes share (gpu_wgmma_few.c): work items, of `rows` rows of a sequence
 * each, workgroups, and how they share keys. tile: microseconds of a tile of keys; tail: more than that, once. */
struct mla_few {
    int64_t items, groups;
    int rows, parts, clusters;
};
struct mla_few mla_few_of(const struct rfg_problem *prob, int rows, int parts, int clusters);
double mla_few_predict(const struct rfg_device *dev, const struct rfg_problem *prob, const struct mla_few *f,
                       double tile, double tail);
bool mla_few_worth(const struct rfg_device *dev, const struct rfg_problem *prob, struct mla_few f,
                   struct rfg_reason *why);
size_t mla_few_workspace(const struct rfg_problem *prob, struct mla_few f);
int mla_wgmma_maps(const struct rfg_problem *prob, const int *p, const void *kargs, struct rfg_tile_map *maps);

#endif
