/* SPDX-License-Identifier: MIT */
#include "faulty.h"

#include <stdatomic.h>
#include <string.h>

static const struct rfg_hip *base;
static _Atomic int calls[FAULTY_ENTRIES];
static enum faulty_entry armed;
static int armed_at;
static hipError_t armed_error;
static atomic_bool fired;

static const char *const names[] = {
#define X(ret, name, params, args) #name,
    RFG_HIP_ENTRIES(X)
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

void faulty_arm(enum faulty_entry entry, int n, hipError_t error)
{
    for (int i = 0; i < FAULTY_ENTRIES; i++)
        atomic_store(&calls[i], 0);
    armed = entry;
    armed_at = n;
    armed_error = error;
    atomic_store(&fired, false);
}

bool faulty_fired(void)
{
    return atomic_load(&fired);
}

static bool hit(enum faulty_entry entry)
{
    int n = atomic_fetch_add(&calls[entry], 1) + 1;
    if (entry != armed || n != armed_at)
        return false;
    atomic_store(&fired, true);
    return true;
}

static bool ends_something(enum faulty_entry entry)
{
    return strstr(names[entry], "Destroy") || entry == FAULTY_hipFree || entry == FAULTY_hipModuleUnload;
}

#define X(ret, name, params, args)                                                                                     \
    static ret faulty_##name params                                                                                    \
    {                                                                                                                  \
        bool fail = hit(FAULTY_##name);                                                                                \
        if (fail && !ends_something(FAULTY_##name))                                                                    \
            return armed_error;                                                                                        \
        ret e = base->name args;                                                                                       \
        return fail ? armed_error : e;                                                                                 \
    }
RFG_HIP_ENTRIES(X)
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
    return fail ? armed_error : e;
}

static hipError_t describe(int device, struct rfg_device *out)
{
    return hit(FAULTY_describe) ? armed_error : base->describe(device, out);
}

const struct rfg_hip *faulty(const struct rfg_hip *wrapped)
{
    static struct rfg_hip table;
    base = wrapped;
    table = (struct rfg_hip){
#define X(ret, name, params, args) .name = faulty_##name,
        RFG_HIP_ENTRIES(X)
#undef X
            .error_name = wrapped->error_name,
        .describe = describe,
        .platform = wrapped->platform,
    };
    table.hipStreamEndCapture = end_capture;
    faulty_arm(0, 0, hipSuccess);
    return &table;
}
