/* SPDX-License-Identifier: MIT
 *
 * The variants of dequantize, quantize and quantize_scale, in order of preference where the model ties; the portable
 * ones come last. */
#include "dequantize.h"
#include "quantize.h"

RFG_VARIANTS(dequantize, &dequantize_rows, &dequantize_portable, &dequantize_cpu);
RFG_VARIANTS(quantize, &quantize_rows, &quantize_portable, &quantize_cpu);
RFG_VARIANTS(quantize_scale, &quantize_scale_rows, &quantize_scale_portable, &quantize_scale_cpu);
