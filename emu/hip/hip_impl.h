/* SPDX-License-Identifier: MIT
 *
 * What the files of the emulator's HIP table share. Each calls the ones before it: hip_objects.c, hip_order.c,
 * hip_late.c, hip_stream.c, hip_memory.c and hip_module.c, hip_emu.c. */
#ifndef RFG_EMU_HIP_IMPL_H
#define RFG_EMU_HIP_IMPL_H

#include "base/log.h"
#include "emu/run/touched.h"
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

/* What a device says of itself beside its architecture; zeroes where emu:ARCH doesn't need it. */
struct card {
    const char *name;     /* NULL: "emulated gfx942" */
    const char *features; /* ":sramecc+:xnack-", which code must suit; NULL: any does */
    int multiprocessors;  /* HIP's count: WGPs in RDNA's WGP mode */
    int l2_bytes, bus_bits, mem_khz, clock_khz;
    int pci_bus;
    int xccs; /* what hipDeviceAttributeNumberOfXccs says; 0: there is no such attribute yet */
};

struct device {
    const struct emu_arch *arch;
    int cu_count;
    struct card card;
    struct emu_memory memory;
};

/* What a fault that ends its kernel leaves behind. */
enum emu_on_fault {
    EMU_FAULT_CONTINUES, /* nothing: emu:ARCH, where tests and sweeps go on with the next kernel */
    EMU_FAULT_STAYS,     /* emu_fault: nothing is run any more */
    EMU_FAULT_ABORTS     /* the process ends, as ROCm's runtime ends it */
};

/* Where HIP runtimes differ. */
struct emu_rules {
    int version;          /* what hipDriverGetVersion() says */
    int code_object;      /* the newest code object version that a module may have */
    bool capture_breaks;  /* a call that may not be made during a capture invalidates it too */
    bool sync_breaks;     /* hipDeviceSynchronize() is such a call */
    bool implicit_copies; /* hipMemcpy() beside a capture is hipErrorStreamCaptureImplicit */
    bool legacy_handle;   /* hipStreamLegacy, (hipStream_t)1, is the default stream */
    double node_seconds;  /* of submitting a graph's node */
    double tail_seconds;  /* of what ends a graph */
    enum emu_on_fault on_fault;
    void (*abort)(const char *why); /* EMU_FAULT_ABORTS: does not return; the library has none */
    /* errors of: a handle that is no stream's, the same in a launch, empty grids and blocks, blocks of over 1024 */
    hipError_t bad_stream, bad_launch_stream, no_grid, no_block, large_block;
};
extern struct emu_rules emu_rules; /* set once, before the first call */
/* The error of a fault that stays; hipSuccess: none. */
extern _Atomic hipError_t emu_fault;

/* Work of a stream, for now or in a graph. */
struct node {
    struct node *next;
    hipError_t (*run)(hipStream_t stream, const struct node *n, bool replayed); /* replayed: by a graph */
    struct function *fn;                                                        /* of a kernel; else NULL */
    void (*host)(void *data);
    uint32_t grid[3], block[3], lds;
    bool cooperative;
    bool joint;           /* with other devices' kernels */
    struct rfg_joint who; /* ... which */
    uint8_t *kernarg;
    void *dst;       /* or the host function's data */
    const void *src; /* NULL: a memset */
    hipMemcpyKind kind;
    uint32_t value; /* of a memset: its low `width` bytes, again and again */
    int width;
    size_t size;
    bool replayed; /* in a late stream */
};

/* Work of a late stream, numbered from 1. */
struct emu_line {
    hipStream_t stream;
    struct node *first, **end;
    uint64_t queued, done;
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
    int queue; /* hip_order.c's; 0: none yet */
    struct emu_line line;
};

struct event {
    struct object o;
    unsigned flags;
    bool recorded, captured;
    double time;
    struct emu_order *order; /* hip_order.c's: what is over when it is; NULL: unknown */
    struct emu_line *line;   /* of a late stream: until number `number` of it has run; else NULL */
    uint64_t number;
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
/* Lets others have the lock until the condition is signalled, at most so long. False: that was it. */
bool emu_hip_wait(pthread_cond_t *c, double until);
#define LOCKED __attribute__((cleanup(emu_hip_unlock))) const bool held_ = emu_hip_lock()

extern struct device emu_devices[EMU_MAX_DEVICES];
extern int emu_n_devices;
extern struct object *emu_objects;

/* gfx1100 is 0x1100 in the table, and 11.0. */
static inline int emu_major(const struct emu_arch *a)
{
    return (a->gfx >> 12) * 10 + (a->gfx >> 8 & 15);
}

void *emu_make(enum kind kind, size_t size); /* zeroed; NULL: no memory */
bool emu_is(const void *handle, enum kind kind);
void emu_forget(void *handle);
void emu_free_node(struct node *n);
struct device *emu_here(void); /* the thread's device; NULL: there is none */
/* Is p in memory that a device may touch? */
struct emu_block *emu_find_block(const void *p);
/* A device of its own, its memory empty; -1: there are EMU_MAX_DEVICES. */
int emu_add_device(const struct emu_arch *arch, int cu_count, const struct card *card);

/* hip_stream.c. Calls that may not be made while something is captured (globally, or by this thread) break the
 * capture. */
hipError_t emu_not_while_capturing(void);
/* The default stream waits for every blocking stream: while one is captured, that can't be. */
hipError_t emu_implicit_ok(hipStream_t stream);
/* Calls that wait for the device, as hipMemcpy(), beside a capture of any mode. */
hipError_t emu_blocking_ok(void);
/* NULL is the device's default stream: always there, never captured. hipStreamPerThread becomes the thread's own. */
bool emu_stream_ok(hipStream_t *stream);
/* Takes the node: runs it, or adds it to the capture or the late stream. */
hipError_t emu_submit(hipStream_t stream, struct node *n);

/* Not in the table, as rfg needs neither. emu/rocm shows it as hipLaunchHostFunc(). fn runs under the emulator's lock:
 * as on a GPU it may not call HIP. */
/* hipModuleLaunchCooperativeKernel() */
hipError_t emu_launch_cooperative(hipFunction_t fn, dim3 grid, dim3 block, unsigned lds, hipStream_t stream,
                                  void **params);
hipError_t emu_hipLaunchHostFunc(hipStream_t stream, void (*fn)(void *data), void *data);

/* hip_joint.c: kernels of several devices at once. */
hipError_t emu_run_joint(hipStream_t stream, const struct node *n, bool replayed);
/* hip_objects.c: what a launch's result is to its caller. */
hipError_t emu_launched(const struct emu_launch *l, enum emu_result result);
/* hip_module.c */
hipError_t emu_launch_joint(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params,
                            const struct rfg_joint *who);

/* hip_memory.c: may a copy touch it, the host's or a device's? False, and a report, if it is a device's that was freed or ends
 * before. */
bool emu_copy_fits(const void *p, size_t size, bool write, const char *call);
/* Without waiting for anybody. */
hipError_t emu_free(void *p);
/* count elements of width bytes, 1, 2 or 4 */
hipError_t emu_memset(void *dst, uint32_t value, int width, size_t count, hipStream_t stream);
/* Memory that the host writes as it likes: a device takes it for written. NULL: none is left. */
void *emu_host_alloc(size_t size);

/* hip_order.c: races between streams, and of the host with what they copy (RFG_EMU_CHECKS=+streams). The emulator runs
 * all work as it is queued, so what a GPU might do at the same time is told by what the program said of order: streams,
 * events, synchronisation, as vector clocks; and by which bytes each operation touched. Nothing here does anything
 * unless the check is wanted. */
bool emu_order_wanted(void);

/* An operation of the stream begins: it comes after what the stream, an event that it waited for or the host knows. */
void emu_order_begin(hipStream_t stream, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What it touches. Reported if an operation that it isn't ordered with touched it in a way that doesn't
 * go with this. */
void emu_order_touch(const void *p, size_t size, enum emu_touch how);
void emu_order_touched(const struct emu_touched *t);
/* It is done; a copy reads or writes host memory that the host should leave alone until it waited. False: there was a
 * report. */
bool emu_order_end(const void *pinned, size_t size);

/* hip_late.c: streams that run work when it is waited for (RFG_EMU_LATE=1). */
bool emu_late(void);
hipError_t emu_keep(hipStream_t stream, struct node *n); /* takes the node */
hipError_t emu_late_record(struct event *v, hipStream_t stream);
hipError_t emu_late_wait(hipStream_t stream, const struct event *v);
void emu_late_forget(struct event *v); /* it is as if recorded at once */
void emu_late_event_gone(struct event *v);
void emu_late_stream_gone(struct stream *s);
/* The host waits. The first error of what ran. */
hipError_t emu_finish_stream(hipStream_t stream);
hipError_t emu_finish_event(struct event *v);
hipError_t emu_finish_all(void);

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
