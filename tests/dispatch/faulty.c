/* SPDX-License-Identifier: MIT */
#include "faulty.h"

#include <stdatomic.h>
#include <string.h>

static const struct rfg_hip *base;
static _Atomic int calls[FAULTY_ENTRIES + 1]; /* the last one: all */
static _Atomic int armed, armed_at, broken_at, armed_error;
static atomic_bool fired[FAULTY_ENTRIES];

static const char *const names[] = {
#define X(ret, name, params, args) #name,
    RFG_HIP_ENTRIES(X) RFG_HIP_PEER_ENTRIES(X)
#undef X
        "describe",
};

const char *faulty_name(enum faulty_entry entry)
{
    return names[entry];
}

int faulty_calls(enum faulty_entry entry)
{
    return atomic_load(&calls[entry]);
}

static void set(int entry, int n, int all_from, hipError_t error)
{
    atomic_store(&armed_at, 0);
    atomic_store(&broken_at, 0);
    for (int i = 0; i <= FAULTY_ENTRIES; i++)
        atomic_store(&calls[i], 0);
    for (int i = 0; i < FAULTY_ENTRIES; i++)
        atomic_store(&fired[i], false);
    atomic_store(&armed, entry);
    atomic_store(&armed_error, (int)error);
    atomic_store(&armed_at, n);
    atomic_store(&broken_at, all_from);
}

void faulty_arm(enum faulty_entry entry, int n, hipError_t error)
{
    set((int)entry, n, 0, error);
}

void faulty_break(int n, hipError_t error)
{
    set(0, 0, n, error);
}

void faulty_repair(void)
{
    atomic_store(&broken_at, 0);
}

bool faulty_fired_in(enum faulty_entry entry)
{
    return atomic_load(&fired[entry]);
}

bool faulty_fired(void)
{
    for (int i = 0; i < FAULTY_ENTRIES; i++)
        if (atomic_load(&fired[i]))
            return true;
    return false;
}

static bool hit(enum faulty_entry entry)
{
    int n = atomic_fetch_add(&calls[entry], 1) + 1, all = atomic_fetch_add(&calls[FAULTY_ENTRIES], 1) + 1;
    int from = atomic_load(&broken_at);
    if (!(from && all >= from) && !((int)entry == atomic_load(&armed) && n == atomic_load(&armed_at)))
        return false;
    atomic_store(&fired[entry], true);
    return true;
}

static bool ends_something(enum faulty_entry entry)
{
    return strstr(names[entry], "Destroy") || strstr(names[entry], "Free") || entry == FAULTY_hipModuleUnload ||
           entry == FAULTY_hipIpcCloseMemHandle;
}

#define X(ret, name, params, args)                                                                                     \
    static ret faulty_##name params                                                                                    \
    {                                                                                                                  \
        bool fail = hit(FAULTY_##name);                                                                                \
        if (fail && !ends_something(FAULTY_##name))                                                                    \
            return (hipError_t)atomic_load(&armed_error);                                                              \
        ret e = base->name args;                                                                                       \
        return fail ? (hipError_t)atomic_load(&armed_error) : e;                                                       \
    }
RFG_HIP_ENTRIES(X)
RFG_HIP_PEER_ENTRIES(X)
#undef X

/* A capture that can't be ended is over all the same, and there is no graph. */
static hipError_t end_capture(hipStream_t stream, hipGraph_t *graph)
{
    bool fail = hit(FAULTY_hipStreamEndCapture);
    hipError_t e = base->hipStreamEndCapture(stream, graph);
    if (fail && e == hipSuccess) {
        (void)base->hipGraphDestroy(*graph);
        *graph = NULL;
    }
    return fail ? (hipError_t)atomic_load(&armed_error) : e;
}

/* Who takes the handle of a failed creation for one is found out by the runtime that doesn't know it. */
#define CREATES(name, params, args, out)                                                                               \
    static hipError_t create_##name params                                                                             \
    {                                                                                                                  \
        hipError_t e = faulty_##name args;                                                                             \
        if (e != hipSuccess)                                                                                           \
            memset(out, 0x5a, sizeof(*out));                                                                           \
        return e;                                                                                                      \
    }
CREATES(hipMalloc, (void **ptr, size_t size), (ptr, size), ptr)
CREATES(hipStreamCreateWithFlags, (hipStream_t * s, unsigned flags), (s, flags), s)
CREATES(hipEventCreateWithFlags, (hipEvent_t * e_, unsigned flags), (e_, flags), e_)
CREATES(hipGraphInstantiate, (hipGraphExec_t * x, hipGraph_t g, hipGraphNode_t *n, char *log, size_t size),
        (x, g, n, log, size), x)
CREATES(hipModuleLoadData, (hipModule_t * m, const void *image), (m, image), m)
CREATES(hipModuleGetFunction, (hipFunction_t * f, hipModule_t m, const char *name), (f, m, name), f)

static hipError_t describe(int device, struct rfg_device *out)
{
    return hit(FAULTY_describe) ? (hipError_t)atomic_load(&armed_error) : base->describe(device, out);
}

const struct rfg_hip *faulty(const struct rfg_hip *wrapped)
{
    static struct rfg_hip table;
    base = wrapped;
    table = (struct rfg_hip){
#define X(ret, name, params, args) .name = faulty_##name,
        RFG_HIP_ENTRIES(X) RFG_HIP_PEER_ENTRIES(X)
#undef X
            .error_name = wrapped->error_name,
        .describe = describe,
        .platform = wrapped->platform,
    };
    table.hipStreamEndCapture = end_capture;
#define CREATING(name) table.name = create_##name
    CREATING(hipMalloc);
    CREATING(hipStreamCreateWithFlags);
    CREATING(hipEventCreateWithFlags);
    CREATING(hipGraphInstantiate);
    CREATING(hipModuleLoadData);
    CREATING(hipModuleGetFunction);
    faulty_arm(0, 0, hipSuccess);
    return &table;
}
