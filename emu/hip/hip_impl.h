/* SPDX-License-Identifier: MIT
 *
 * What the three files of the emulator's HIP table share: the objects behind the handles, one lock. */
#ifndef RFG_EMU_HIP_IMPL_H
#define RFG_EMU_HIP_IMPL_H

#include "base/log.h"
#include "emu/run/front.h"
#include "hip_emu.h"

#define EMU_MAX_DEVICES 64

/* emu_hipMalloc() and its kin */
#define X(ret, name, params, args) ret emu_##name params;
RFG_HIP_ENTRIES(X)
#undef X

enum kind { STREAM = 1, EVENT, MODULE, FUNCTION, GRAPH, GRAPH_EXEC };

/* What handles point to. */
struct object {
    struct object *next;
    enum kind kind;
};

struct device {
    const struct emu_arch *arch;
    int cu_count;
    struct emu_memory memory;
};

struct node {
    struct node *next;
    struct function *fn; /* NULL: a copy or a memset */
    uint32_t grid[3], block[3], lds;
    uint8_t *kernarg;
    void *dst;
    const void *src; /* NULL: a memset */
    hipMemcpyKind kind;
    unsigned char value;
    size_t size;
};

struct graph { /* and GRAPH_EXEC */
    struct object o;
    struct node *first, **end;
};

struct stream {
    struct object o;
    struct device *device;
    unsigned flags;
    hipStreamCaptureStatus capture;
    hipStreamCaptureMode mode;
    pthread_t owner; /* who began the capture */
    struct graph *graph;
};

struct event {
    struct object o;
    unsigned flags;
    bool recorded, captured;
    double time;
};

struct module {
    struct object o;
    struct device *device;
    struct emu_code *code;
    struct emu_block *block[EMU_MAX_SEGMENTS];
    int n_blocks;
};

struct function {
    struct object o;
    struct module *module;
    const struct emu_kernel *kernel;
};

/* LOCKED; at the top of a function holds the emulator's lock until it returns. Everything below is under it. */
bool emu_hip_lock(void);
void emu_hip_unlock(const bool *held);
#define LOCKED __attribute__((cleanup(emu_hip_unlock))) const bool held_ = emu_hip_lock()

extern struct device emu_devices[EMU_MAX_DEVICES];
extern int emu_n_devices;
extern struct object *emu_objects;

void *emu_make(enum kind kind, size_t size); /* zeroed; NULL: no memory */
bool emu_is(const void *handle, enum kind kind);
void emu_forget(void *handle);
struct device *emu_here(void); /* the thread's device; NULL: there is none */

/* hip_stream.c. Calls that may not be made while something is captured (globally, or by this thread) break the
 * capture. */
hipError_t emu_not_while_capturing(void);
/* The default stream waits for every blocking stream: while one is captured, that can't be. */
hipError_t emu_implicit_ok(hipStream_t stream);
/* NULL is the device's default stream: always there, never captured. */
bool emu_stream_ok(hipStream_t stream);
/* Takes the node: runs it, or adds it to the capture. */
hipError_t emu_submit(hipStream_t stream, struct node *n);

/* hip_emu.c: the block that [p, p + size) is in; NULL, and a report, if it isn't in one. */
struct emu_block *emu_find_range(const void *p, size_t size, bool write, const char *call);
hipError_t emu_run_copy(const struct node *n); /* or a memset */
/* hip_module.c */
hipError_t emu_run_kernel(const struct node *n);

#endif
