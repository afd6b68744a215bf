/* SPDX-License-Identifier: MIT
 *
 * What every kernel of moe_gate is given, by value; the host and the kernels read this same text, after route_args.h.
 * The last two members are struct rfg_kargs_head. */
#ifndef RFG_GATE_ARGS_H
#define RFG_GATE_ARGS_H

#define GATE_WAVES    8    /* of a workgroup: each token's sums are added in one order, whatever the parameters */
#define GATE_MAX_T    64   /* each workgroup reads all of x */
#define GATE_MAX_K    8192 /* what the threads of a workgroup hold */
#define GATE_MAX_SORT 1024 /* pairs of token and slot: each is compared with all others */

struct gate_args {
    struct route_args route;           /* x: the logits, in the workspace; its workspace and counters mean nothing */
    const void *x, *w, *norm, *w_bias; /* norm, w_bias: or NULL */
    void *y;                           /* with a norm */
    int k;
    float eps;
    int *rows, *offsets, *places; /* of rfg_op_moe_align() */
    float *sorted;
    void *workspace;
    unsigned int *counters;
};

#endif
