/* SPDX-License-Identifier: MIT
 *
 * Races between streams, and of the host with what they copy (RFG_EMU_CHECKS=+streams). The emulator runs all work as
 * it is queued, so what a GPU might do at the same time is told by what the program said of order: streams, events,
 * synchronisation, as vector clocks; and by which bytes each operation touched.
 *
 * Nothing here does anything unless the check is wanted. All of it is under the emulator's lock. */
#ifndef RFG_EMU_HIP_ORDER_H
#define RFG_EMU_HIP_ORDER_H

#include "emu/run/touched.h"
#include "hip_impl.h"

bool emu_order_wanted(void);

/* An operation of the stream begins: it comes after what the stream, an event that it waited for or the host knows. */
void emu_order_begin(hipStream_t stream, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What it touches. Reported if an operation that it isn't ordered with touched it in a way that doesn't go with this.
 */
void emu_order_touch(const void *p, size_t size, enum emu_touch how);
void emu_order_touched(const struct emu_touched *t);
/* It is done; a copy reads or writes host memory that the host should leave alone until it waited. False: there was a
 * report. */
bool emu_order_end(const void *pinned, size_t size);

/* An operation that is a function of the host's. */
void emu_order_host_function(hipStream_t stream);

void emu_order_record(struct event *e, hipStream_t stream);
void emu_order_wait(hipStream_t stream, const struct event *e);
void emu_order_forget(struct event *e);
/* The host waited for the stream, for an event, for everything. */
void emu_order_host_stream(hipStream_t stream);
void emu_order_host_event(const struct event *e);
void emu_order_host_all(void);
/* The host gives memory up without waiting for anybody: call says how. */
void emu_order_host_gone(const void *p, size_t size, const char *call);
/* The stream is destroyed: another may have its place. */
void emu_order_destroy(struct stream *s);

#endif
