/* SPDX-License-Identifier: MIT
 *
 * What gemm_prepack is given, by value; the host and the kernel read this same text. The last two members are struct
 * rfg_kargs_head. */
#ifndef RFG_PREPACK_ARGS_H
#define RFG_PREPACK_ARGS_H

struct prepack_args {
    void *dst;
    const void *src;
    int n, k;
    long long ld;
    void *workspace;
    unsigned int *counters;
};

#endif
