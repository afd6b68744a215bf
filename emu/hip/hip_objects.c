/* SPDX-License-Identifier: MIT
 *
 * The basis of all calls of the emulator's HIP table: the lock, the objects behind the handles, the devices. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "emu/check/watch.h"
#include "hip_impl.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
struct device emu_devices[EMU_MAX_DEVICES];
int emu_n_devices;
struct object *emu_objects;
_Atomic hipError_t emu_fault;
/* emu:ARCH is strict where the releases differ. */
struct emu_rules emu_rules = { .version = 60000000,
                               .code_object = 6,
                               .capture_breaks = true,
                               .sync_breaks = true,
                               .bad_stream = hipErrorInvalidHandle,
                               .bad_launch_stream = hipErrorInvalidHandle,
                               .no_grid = hipErrorInvalidConfiguration,
                               .no_block = hipErrorInvalidConfiguration,
                               .large_block = hipErrorInvalidConfiguration };

bool emu_hip_lock(void)
{
    pthread_mutex_lock(&mutex);
    return true;
}

void emu_hip_unlock(const bool *held)
{
    (void)held;
    pthread_mutex_unlock(&mutex);
}

bool emu_hip_wait(pthread_cond_t *c, double until)
{
    struct timespec t = { (time_t)until, (long)((until - (double)(time_t)until) * 1e9) };
    return pthread_cond_clockwait(c, &mutex, CLOCK_MONOTONIC, &t) == 0;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

void *emu_make(enum kind kind, size_t size)
{
    struct object *o = calloc(1, size);
    if (o) {
        o->kind = kind;
        o->next = emu_objects;
        emu_objects = o;
    }
    return o;
}

bool emu_is(const void *handle, enum kind kind)
{
    for (const struct object *o = emu_objects; o; o = o->next)
        if (o == handle)
            return o->kind == kind;
    return false;
}

void emu_forget(void *handle)
{
    struct object **at = &emu_objects;
    while (*at != handle)
        at = &(*at)->next;
    *at = (*at)->next;
    free(handle);
}

void emu_free_node(struct node *n)
{
    if (n)
        free(n->kernarg);
    free(n);
}

struct device *emu_here(void)
{
    return current < emu_n_devices ? &emu_devices[current] : NULL;
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* The error of a launch that was reported. A fault that ended it may stay. */
static hipError_t failed(const struct emu_launch *l)
{
    const char *why = atomic_load(&l->why);
    bool address = why && (strstr(why, "out-of-bounds") || !strcmp(why, "use-after-free") ||
                           !strcmp(why, "write-to-read-only") || !strcmp(why, "misaligned"));
    hipError_t e = address ? hipErrorIllegalAddress : hipErrorLaunchFailure;
    if (!l->stop || emu_rules.on_fault == EMU_FAULT_CONTINUES)
        return e;
    if (emu_rules.on_fault == EMU_FAULT_ABORTS)
        emu_rules.abort(why);
    return emu_fault = e;
}

hipError_t emu_launched(const struct emu_launch *l, enum emu_result result)
{
    return result == EMU_DONE ? hipSuccess : result == EMU_NO_MEMORY ? hipErrorOutOfMemory : failed(l);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

hipError_t emu_hipSetDevice(int device)
{
    LOCKED;
    if (device < 0 || device >= emu_n_devices)
        return hipErrorInvalidDevice;
    current = device;
    return hipSuccess;
}

hipError_t emu_hipGetDevice(int *device)
{
    if (!device)
        return hipErrorInvalidValue;
    LOCKED;
    if (!emu_here())
        return hipErrorNoDevice;
    *device = current;
    return hipSuccess;
}

static pthread_once_t watched = PTHREAD_ONCE_INIT;

int emu_add_device(const struct emu_arch *arch, int cu_count, const struct card *card)
{
    if (emu_n_devices == EMU_MAX_DEVICES)
        return -1;
    pthread_once(&watched, emu_watch);
    struct device *d = &emu_devices[emu_n_devices];
    d->arch = arch;
    d->cu_count = cu_count;
    d->card = *card;
    d->memory.limit = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return emu_n_devices++;
}

struct emu_block *emu_find_block(const void *p)
{
    for (int i = 0; i < emu_n_devices; i++) {
        struct emu_block *b = emu_memory_find(&emu_devices[i].memory, (uint64_t)(uintptr_t)p);
        if (b && !b->freed && (uint64_t)(uintptr_t)p < b->hi)
            return b;
    }
    return NULL;
}
