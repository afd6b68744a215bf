/* SPDX-License-Identifier: MIT
 *
 * The lines of memory that a launch touched: bits in pages that are allocated on first touch, by any number of
 * threads. */
#ifndef RFG_EMU_FOOTPRINT_H
#define RFG_EMU_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

enum emu_footprint_kind { EMU_TOUCH_LOAD, EMU_TOUCH_STORE, EMU_TOUCH_ATOMIC, EMU_TOUCH_SCALAR, EMU_TOUCHES };

struct emu_footprint;
struct emu_footprint_page;

struct emu_footprint *emu_footprint_create(void); /* NULL: no memory */
void emu_footprint_destroy(struct emu_footprint *f);
/* line: address / 64. *last: the caller's memory of the page it used last; begins as NULL. */
void emu_footprint_touch(struct emu_footprint *f, struct emu_footprint_page **last, enum emu_footprint_kind kind,
                         uint64_t line);
/* Lines of 64 and of 128 bytes by kind, and [EMU_TOUCHES]: by any. False: some are missing, for lack of memory. */
bool emu_footprint_sum(const struct emu_footprint *f, uint64_t lines64[EMU_TOUCHES + 1],
                       uint64_t lines128[EMU_TOUCHES + 1]);

#endif
