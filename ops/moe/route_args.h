/* SPDX-License-Identifier: MIT
 *
 * What every kernel of moe_route is given, by value; the host and the kernels read this same text. The last two members
 * are struct rfg_kargs_head. */
#ifndef RFG_ROUTE_ARGS_H
#define RFG_ROUTE_ARGS_H

/* enum rfg_moe_scoring */
#define ROUTE_SOFTMAX       0
#define ROUTE_TOPK_SOFTMAX  1
#define ROUTE_SIGMOID       2
#define ROUTE_SQRT_SOFTPLUS 3

#define ROUTE_MAX_E      8192 /* RFG_MOE_MAX_EXPERTS */
#define ROUTE_WAVE_E     1024 /* that a wave's registers hold: 32 a lane of 32 */
#define ROUTE_GROUP_BITS 9    /* of the number of threads that take more; 16 each */
#define ROUTE_MAX_TOP    32   /* a lane each */
#define ROUTE_MAX_GROUPS 32   /* a lane at least */
#define ROUTE_MAX_SHARED 32

struct route_args {
    const void *x, *bias;
    const int *tokens;
    const int *table;      /* experts of a row each, or NULL: they are chosen */
    const void *token_ids; /* of the table: a token's row; NULL: its own number */
    int *ids;
    float *weights;
    int t, e, top, shared;
    int groups, group_bits; /* groups = 1 << group_bits */
    int size, top_groups;   /* experts of a group; groups that are kept */
    int renormalise;
    float scale, shared_weight;
    long long ldx, ldi, ldw, ldt; /* row strides in elements; ldt: of the table */
    long long table_rows;
    void *workspace;
    unsigned int *counters;
};

#endif
