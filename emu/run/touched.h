/* SPDX-License-Identifier: MIT
 *
 * The bytes of memory that a launch read, wrote and changed by atomics: for races between streams (emu/hip). */
#ifndef RFG_EMU_TOUCHED_H
#define RFG_EMU_TOUCHED_H

#include "front.h"

enum emu_touch { EMU_TOUCH_READ = 1, EMU_TOUCH_WRITE = 2, EMU_TOUCH_ATOMIC = 4 };

struct emu_touched;                           /* of a launch; one thread's */
struct emu_touched *emu_touched_create(void); /* NULL: no memory */
void emu_touched_destroy(struct emu_touched *t);
void emu_touched_add(struct emu_touched *t, const struct emu_memory *m, const struct emu_access *a);
/* Calls fn for each run of bytes that were touched in one way. False: there was no memory to keep them in. */
bool emu_touched_each(const struct emu_touched *t, void (*fn)(void *arg, uint64_t lo, uint64_t hi, enum emu_touch how),
                      void *arg);

#endif
