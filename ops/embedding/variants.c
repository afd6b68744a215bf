/* SPDX-License-Identifier: MIT
 *
 * The variants of embedding, in order of preference where the model ties; the portable ones come last. */
#include "embedding.h"

RFG_VARIANTS(embedding, &embedding_rows, &embedding_portable, &embedding_cpu);
