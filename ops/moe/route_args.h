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

#define ROUTE_MAX_E      1024
#define ROUTE_MAX_TOP    32 /* a lane each */
#define ROUTE_MAX_GROUPS 32 /* a lane at least */
#define ROUTE_MAX_SHARED 32

struct route_args {
    const void *x, *bias;
    const int *tokens;
    int *ids;
    float *weights;
    int t, e, top, shared;
    int groups, group_bits; /* groups = 1 << group_bits */
    int size, top_groups;   /* experts of a group; groups that are kept */
    int renormalise;
    float scale, shared_weight;
    long long ldx, ldi, ldw; /* row strides in elements */
    void *workspace;
    unsigned int *counters;
};

#endif
