/* SPDX-License-Identifier: MIT
 *
 * ggml's operators on rfg's cpu device. */
#ifndef RFG_GGML_OPS_H
#define RFG_GGML_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "ggml.h"
#include "rfg/rfg.h"

/* What a backend (ggml's word for a stream) computes with. */
struct worker {
    rfg_context *ctx;
    int threads;   /* of ctx; 0: rfg's default */
    void *scratch; /* grows, never shrinks */
    size_t scratch_bytes;
};

/* Whether rfg computes op, by its types, shapes, strides and parameters alone: data may not be there yet. */
bool rfg_ggml_supports(const struct ggml_tensor *op);

/* Computes op, for which rfg_ggml_supports() said yes. On an error rfg_last_error() says why. */
rfg_status rfg_ggml_compute(struct worker *w, struct ggml_tensor *op);

#endif
