/* SPDX-License-Identifier: MIT
 *
 * Memory that ends where its contents end, so that accesses beyond are detected. On a GPU it is an allocation of its
 * own, whose bounds the emulator and compute-sanitizer know to the byte; on cpu whole pages between two inaccessible
 * ones. */
#ifndef RFG_TUNER_FENCED_H
#define RFG_TUNER_FENCED_H

#include "dispatch/context.h"

struct rfg_fenced {
    char *data;           /* of `size` bytes */
    size_t before, after; /* bytes around it that can be written unseen: check them */
    void *base;           /* of the allocation */
    size_t mapped;        /* bytes of it on cpu */
};

/* data is `shift` bytes past an address that is a multiple of align (at most 256). The device is current. */
rfg_status rfg_fenced_alloc(rfg_context *ctx, size_t size, size_t align, size_t shift, struct rfg_fenced *out);
/* Of one that is all zeroes: nothing. */
void rfg_fenced_free(rfg_context *ctx, struct rfg_fenced *f);

#endif
