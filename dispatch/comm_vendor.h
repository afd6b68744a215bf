/* SPDX-License-Identifier: MIT
 *
 * NCCL and RCCL, which have one interface, as another way of the collectives (rfg/comm.h, vendor_from). */
#ifndef RFG_DISPATCH_COMM_VENDOR_H
#define RFG_DISPATCH_COMM_VENDOR_H

#include "context_impl.h"
#include "ops/comm.h"

struct comm_vendor;
/* Loads the platform's library, for messages of so many KiB and more. Rank 0 puts the id by which ranks find each other
 * into its window. UNSUPPORTED: there is no library. */
rfg_status rfg_comm_vendor_create(struct comm_vendor **out, rfg_context *ctx, int rank, int from_kib, char *window);
/* Waits for all ranks. window: rank 0's. The device is current, here and below. */
rfg_status rfg_comm_vendor_connect(struct comm_vendor *v, const char *window, int rank, int ranks);
/* Whether a message of n elements of a rank's part is the library's. */
bool rfg_comm_vendor_takes(const struct comm_vendor *v, enum comm_op op, int ranks, int dtype, int64_t n);
rfg_status rfg_comm_vendor_run(struct comm_vendor *v, const char *fn, enum comm_op op, int dtype,
                               const struct comm_args *a, rfg_stream stream);
rfg_status rfg_comm_vendor_check(struct comm_vendor *v, const char *fn);
/* v may be NULL. broken: calls may wait for a rank that doesn't come. */
void rfg_comm_vendor_destroy(struct comm_vendor *v, bool broken);

#endif
