/* SPDX-License-Identifier: MIT
 *
 * Events of emulated waves: the interface for a timing model. Off unless a sink is set, and then nothing of it costs
 * anything. With a sink a launch runs in one host thread, so that events come one at a time, and in the same order each
 * time (RFG_EMU_SCHEDULE=seed: another one).
 *
 * A wave's events come in its program's order: ISSUE for an instruction, just before it is executed, then what belongs
 * to it: MEMORY (one for each space that it touches: FLAT may touch three, a load to LDS two, ds_read2 LDS twice). A
 * model that wants times gets from them
 *   - from ISSUE: the wave (event.wave: its workgroup and index), the instruction, its registers and what it leaves
 *     pending (event.effect), what it waits for (inst->wait: EMU_WAIT_*), lanes on, cycles of a matrix instruction;
 *   - from MEMORY: the lines of 64 bytes (global memory), or the LDS cycles.
 * The order between waves is the emulator's, not the hardware's: a model keeps a queue for each wave and issues from
 * them as it sees fit. Addresses and values are those of the emulator's order: a program whose control flow depends on
 * who comes first is replayed the way it happened here. */
#ifndef RFG_EMU_EVENTS_H
#define RFG_EMU_EVENTS_H

#include "emu/check/effects.h"
#include "emu/run/front.h"

enum emu_event_kind {
    EMU_EVENT_LAUNCH_BEGIN, /* launch: grid, block, kernel, LDS are set */
    EMU_EVENT_LAUNCH_END,
    EMU_EVENT_WAVE_BEGIN, /* a wave got its place and registers */
    EMU_EVENT_WAVE_END,   /* after its s_endpgm */
    EMU_EVENT_ISSUE,
    EMU_EVENT_MEMORY,
    EMU_EVENT_BARRIER, /* of the workgroup: every wave that is left has arrived, and goes on now */
};

/* Valid during the call only. Members that the kind hasn't are NULL or 0. */
struct emu_event {
    uint8_t kind; /* enum emu_event_kind */
    const struct emu_launch *launch;
    const struct emu_workgroup *wg;  /* but for LAUNCH_* */
    const struct emu_wave *wave;     /* WAVE_*, ISSUE, MEMORY */
    const struct emu_inst *inst;     /* ISSUE, MEMORY */
    const struct emu_effect *effect; /* ISSUE */
    uint64_t lanes;                  /* ISSUE: EXEC; MEMORY: those that access something */
    unsigned matrix_cycles;          /* ISSUE */
    const struct emu_access *access; /* MEMORY: space, kind, bytes of a lane, addresses */
    const uint64_t *lines;           /* MEMORY, global: address / 64, ascending, each once */
    int n_lines;
    unsigned lds_cycles, lds_conflicts; /* MEMORY, LDS: all cycles; those of them that conflicts cost */
};

struct emu_event_sink {
    void (*event)(void *to, const struct emu_event *e);
    void *to;
    /* NULL: none. Workgroups that are not to run; asked after LAUNCH_BEGIN. */
    bool (*skips)(void *to, const struct emu_launch *l, uint64_t workgroup);
};

/* From the next launch on; NULL: no more. The struct is copied. */
void rfg_emu_events(const struct emu_event_sink *sink);

#endif
