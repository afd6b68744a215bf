/* SPDX-License-Identifier: MIT
 *
 * The cpu's sum over slots, of moe_sum and of products that sum their rows; rfg_slots.h is the GPU's. */
#ifndef RFG_OPS_CPU_SLOTS_H
#define RFG_OPS_CPU_SLOTS_H

#include <stdint.h>

struct rfg_cpu_slots {
    const void *x, *residual; /* residual, weights: or NULL */
    void *y;
    const int *places;
    const float *weights;
    int n, top, x_rows, experts; /* experts: 0, or places are experts, of so many: slot s of row t has row t top + s */
    int in, out;                 /* rfg_dtype of x, and of y and the residual */
    int64_t ldx, ldy, ldr, ldp, ldw; /* row strides in elements */
    const void *identity;            /* the token's own row, where a place is RFG_MOE_IDENTITY, or NULL */
    const float *identity_weights;
    int64_t ld_identity, ld_identity_weights;
};

/* Row t of y: those rows of x that its places name, in their order, then the residual's, in fp32; rounded once. */
void rfg_cpu_sum_slots(const struct rfg_cpu_slots *s, int64_t t);

#endif
