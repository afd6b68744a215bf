/* SPDX-License-Identifier: MIT
 *
 * The variants of moe_gate, moe_route, moe_align and moe_sum, in order of preference where the model ties; the portable ones come
 * last. */
#include "align.h"
#include "gate.h"
#include "route.h"
#include "sum.h"

RFG_VARIANTS(moe_gate, &moe_gate_arrive, &moe_gate_cpu);
RFG_VARIANTS(moe_route, &moe_route_wave, &moe_route_group, &moe_route_table, &moe_route_cpu);
RFG_VARIANTS(moe_align, &moe_align_experts, &moe_align_chunks, &moe_align_cpu);
RFG_VARIANTS(moe_sum, &moe_sum_rows, &moe_sum_portable, &moe_sum_cpu);
