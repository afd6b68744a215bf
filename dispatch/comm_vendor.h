/* SPDX-License-Identifier: MIT
 *
 * NCCL and RCCL, which have one interface, as another way of the collectives (rfg/comm.h, vendor_from). */
#ifndef RFG_DISPATCH_COMM_VENDOR_H
#define RFG_DISPATCH_COMM_VENDOR_H

#include "context_impl.h"
#include "ops/comm.h"

enum { COMM_VENDOR_ID = 128 }; /* bytes by which ranks find each other: the first one makes them */

struct comm_vendor;
/* Loads the platform's library. rank 0: writes id. UNSUPPORTED: there is none. */
rfg_status rfg_comm_vendor_create(struct comm_vendor **out, const struct rfg_device *dev, int rank,
                                  unsigned char id[COMM_VENDOR_ID]);
/* Waits for all ranks, on the device that is current. */
rfg_status rfg_comm_vendor_connect(struct comm_vendor *v, const unsigned char id[COMM_VENDOR_ID], int rank, int ranks);
rfg_status rfg_comm_vendor_run(struct comm_vendor *v, const char *fn, enum comm_op op, int dtype,
                               const struct comm_args *a, rfg_stream stream);
rfg_status rfg_comm_vendor_check(struct comm_vendor *v, const char *fn);
/* v may be NULL. broken: calls may wait for a rank that doesn't come. */
void rfg_comm_vendor_destroy(struct comm_vendor *v, bool broken);

#endif
