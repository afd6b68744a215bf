/* SPDX-License-Identifier: MIT
 *
 * What quantize's cases and its oracle share: params of a problem, whose floors are powers of ten there. */
#ifndef RFG_QUANTIZE_CASE_H
#define RFG_QUANTIZE_CASE_H

#include "quantize.h"

rfg_quantize_params quantize_case_params(const struct rfg_problem *prob);

#endif
