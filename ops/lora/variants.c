/* SPDX-License-Identifier: MIT
 *
 * The variants of lora, in order of preference where the model ties; the portable ones come last. */
#include "lora.h"

RFG_VARIANTS(lora, &lora_rows, &lora_portable, &lora_cpu);
