/* SPDX-License-Identifier: MIT
 *
 * Communicators: windows, handles, launches. */
#include "comm.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/util.h"
#include "comm_cpu.h"
#include "comm_vendor.h"
#include "context_impl.h"
#include "ops/params.h"

RFG_PARAMS_END(rfg_comm_params, vendor_from);

#define BAD(...)         rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)
#define TIMEOUT_MS       1900 /* an error comes within 2 s */
#define TIMEOUT_MOST     3600000
#define MAGIC            "rfgcomm"
#define JOINT_MOST       (512 << 10) /* bytes that a rank sends in one launch with a norm: packets carry the double */
#define UNCACHED         3           /* hipDeviceMallocUncached, of ROCm 6 and later */
#define LAZY_PEER_ACCESS 1           /* hipIpcMemLazyEnablePeerAccess */
#define HOST_MAPPED      (hipHostMallocPortable | hipHostMallocMapped)

/* What is in a handle. */
struct handle {
    char magic[8], version[16];
    uint64_t process, host;   /* random numbers that tell processes apart, and hosts */
    uint64_t context, window; /* addresses in that process */
    int32_t rank, ranks, ordinal, platform;
    char arch[32], device[40];
    union {
        hipIpcMemHandle_t ipc; /* GPUs; zeroes: its runtime has none */
        struct comm_cpu_window cpu;
    };
    uint64_t ways; /* a hash of which kernel a message gets there */
};
_Static_assert(sizeof(struct handle) <= sizeof(rfg_comm_handle), "a handle has 256 bytes");

struct loaded {
    struct loaded *next;
    struct rfg_plan *plan;
};

struct rfg_comm {
    rfg_context *ctx;
    int rank, ranks, timeout_ms;
    bool connected, shared; /* shared: two ranks are on one GPU */
    struct handle own;
    void *window[COMM_MAX_RANKS];
    bool opened[COMM_MAX_RANKS]; /* of another process */
    unsigned *status;            /* comm_args.h */
    struct loaded *loaded;
    struct comm_way ways[COMM_OPS][COMM_SIZES];
    bool forced;
    struct comm_way way;
    const struct rfg_variant *var;
    struct comm_vendor *vendor; /* NCCL's or RCCL's; NULL: it isn't wanted */
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

/* Differs between processes, a fork()'s child and its parent too. */
static uint64_t process_number(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t number;
    static pid_t of;
    pthread_mutex_lock(&lock);
    if (of != getpid()) {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            number = (uint64_t)(rfg_now() * 1e9) ^ (uint64_t)getpid() << 40;
        of = getpid();
    }
    uint64_t n = number;
    pthread_mutex_unlock(&lock);
    return n;
}

static uint64_t host_number(void)
{
    size_t size = 0;
    char *id = rfg_read_file("/proc/sys/kernel/random/boot_id", &size);
    uint64_t h = id ? XXH3_64bits(id, size) : 0;
    free(id);
    return h;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool has_functions(const struct rfg_hip *hip)
{
    return hip->hipHostMalloc && hip->hipHostFree && hip->hipExtMallocWithFlags && hip->hipDeviceCanAccessPeer &&
           hip->hipDeviceEnablePeerAccess;
}

/* A peer's stores must be seen while a kernel runs: on AMD memory that no cache keeps. */
static rfg_status alloc_window(rfg_comm *c)
{
    const struct rfg_hip *hip = c->ctx->hip;
    const size_t size = (size_t)COMM_WINDOW(c->ranks);
    void **window = &c->window[c->rank];
    hipError_t e = hip->hipExtMallocWithFlags(window, size, UNCACHED);
    if (e == hipErrorInvalidValue)
        e = hip->hipExtMallocWithFlags(window, size, hipDeviceMallocFinegrained);
    if (e != hipSuccess) {
        *window = NULL;
        return rfg_hip_fail(c->ctx, "hipExtMallocWithFlags", e);
    }
    if ((e = hip->hipMemsetD8Async((hipDeviceptr_t)*window, 0, size, NULL)) != hipSuccess)
        return rfg_hip_fail(c->ctx, "hipMemsetD8Async", e);
    if ((e = hip->hipStreamSynchronize(NULL)) != hipSuccess)
        return rfg_hip_fail(c->ctx, "hipStreamSynchronize", e);
    if ((e = hip->hipHostMalloc((void **)&c->status, sizeof(*c->status), HOST_MAPPED)) != hipSuccess) {
        c->status = NULL;
        return rfg_hip_fail(c->ctx, "hipHostMalloc", e);
    }
    *c->status = 0;
    if (hip->hipIpcGetMemHandle && hip->hipIpcOpenMemHandle && hip->hipIpcCloseMemHandle &&
        hip->hipIpcGetMemHandle(&c->own.ipc, *window) != hipSuccess)
        memset(&c->own.ipc, 0, sizeof(c->own.ipc));
    return RFG_OK;
}

static rfg_status alloc_memory(rfg_comm *c)
{
    int previous;
    if (!c->ctx->hip) {
        c->window[c->rank] = rfg_comm_cpu_alloc((size_t)COMM_WINDOW(c->ranks), &c->own.cpu);
        c->status = calloc(1, sizeof(*c->status));
        return c->window[c->rank] && c->status
                   ? RFG_OK
                   : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_comm_create: no memory for a window");
    }
    if (!has_functions(c->ctx->hip))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rfg_comm_create: %s: its runtime has no memory that peers can reach",
                        c->ctx->dev.name);
    rfg_status st = rfg_call_enter_outside_captures(c->ctx, "rfg_comm_create", &previous);
    if (st != RFG_OK)
        return st;
    st = alloc_window(c);
    rfg_device_leave(c->ctx, previous);
    return st;
}

/* Peers' windows of other processes. */
static void close_opened(rfg_comm *c)
{
    for (int r = 0; r < c->ranks; r++) {
        if (c->opened[r] && c->ctx->hip)
            (void)c->ctx->hip->hipIpcCloseMemHandle(c->window[r]);
        else if (c->opened[r])
            rfg_comm_cpu_close(c->window[r], (size_t)COMM_WINDOW(c->ranks));
        c->opened[r] = false;
    }
}

static void free_memory(rfg_comm *c)
{
    const struct rfg_hip *hip = c->ctx->hip;
    rfg_comm_vendor_destroy(c->vendor, c->status && __atomic_load_n(c->status, __ATOMIC_ACQUIRE));
    close_opened(c);
    if (hip) {
        (void)hip->hipFree(c->window[c->rank]);
        if (c->status)
            (void)hip->hipHostFree(c->status);
    } else {
        rfg_comm_cpu_free(c->window[c->rank], (size_t)COMM_WINDOW(c->ranks), &c->own.cpu);
        free(c->status);
    }
}

/* ---- which kernel ------------------------------------------------------------------------------------------------ */

/* As tuned rows say, or the model. model: the model alone, of a device as the tables have it: then all ranks choose the
 * same. */
static void choose_ways(rfg_comm *c, bool model)
{
    struct rfg_choice choice;
    for (int op = 0; op < COMM_OPS && c->ctx->hip; op++)
        for (int size = 0; size < COMM_SIZES; size++) {
            struct comm_way *way = &c->ways[op][size];
            const struct rfg_problem prob = comm_problem((enum comm_op)op, c->ranks, size);
            if (model || rfg_choose(c->ctx, &prob, RFG_RUNG_EXACT, 0, &choice, NULL, NULL) != RFG_OK)
                comm_choose(&c->ctx->uncalibrated, &prob, way);
            else
                memcpy(way->p, choice.params, sizeof(way->p));
        }
    c->own.ways = XXH3_64bits(c->ways, sizeof(c->ways));
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

static rfg_status check_params(rfg_context *ctx, int32_t rank, int32_t ranks, const rfg_comm_params *given,
                               rfg_comm_params *p)
{
    static const char *const fn = "rfg_comm_create";
    if (!ctx)
        return BAD("%s: ctx is NULL: must be a context", fn);
    if (ranks < 1 || ranks > RFG_COMM_MAX_RANKS)
        return BAD("%s: ranks is %" PRId32 ": must be from 1 to %d", fn, ranks, RFG_COMM_MAX_RANKS);
    if (rank < 0 || rank >= ranks)
        return BAD("%s: rank is %" PRId32 ": must be from 0 to %" PRId32, fn, rank, ranks - 1);
    rfg_status st = RFG_TAKE_PARAMS(fn, rfg_comm_params, p, given);
    if (st != RFG_OK)
        return st;
    if (p->timeout_ms < 0 || p->timeout_ms > TIMEOUT_MOST)
        return BAD("%s: timeout_ms is %" PRId32 ": must be from 1 to %d, or 0 for %d", fn, p->timeout_ms, TIMEOUT_MOST,
                   TIMEOUT_MS);
    if (p->vendor_from < 0)
        return BAD("%s: vendor_from is %" PRId32 ": must be 0 or more", fn, p->vendor_from);
    return RFG_OK;
}

rfg_status rfg_comm_create(rfg_comm **comm, rfg_context *ctx, int32_t rank, int32_t ranks, const rfg_comm_params *given)
{
    rfg_comm_params p = RFG_COMM_PARAMS_INIT;
    if (!comm)
        return BAD("rfg_comm_create: comm is NULL: must be where the communicator goes");
    *comm = NULL;
    rfg_status st = check_params(ctx, rank, ranks, given, &p);
    if (st != RFG_OK)
        return st;
    rfg_comm *c = calloc(1, sizeof(*c));
    if (!c)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_comm_create: no memory for a communicator");
    c->ctx = ctx;
    c->rank = rank;
    c->ranks = ranks;
    c->timeout_ms = p.timeout_ms ? p.timeout_ms : TIMEOUT_MS;
    if ((st = alloc_memory(c)) != RFG_OK ||
        (p.vendor_from &&
         (st = rfg_comm_vendor_create(&c->vendor, ctx, rank, p.vendor_from, c->window[rank])) != RFG_OK)) {
        free_memory(c);
        free(c);
        return st;
    }
    struct handle *h = &c->own;
    memcpy(h->magic, MAGIC, sizeof(h->magic));
    snprintf(h->version, sizeof(h->version), "%s", RFG_VERSION);
    h->process = process_number();
    h->host = host_number();
    h->context = (uintptr_t)ctx;
    h->window = (uintptr_t)c->window[rank];
    h->rank = rank;
    h->ranks = ranks;
    h->ordinal = ctx->ordinal;
    h->platform = (int32_t)ctx->dev.platform;
    snprintf(h->arch, sizeof(h->arch), "%s", ctx->hip ? ctx->dev.target : "cpu");
    snprintf(h->device, sizeof(h->device), "%s", ctx->dev.name);
    choose_ways(c, false);
    *comm = c;
    return RFG_OK;
}

rfg_status rfg_comm_get_handle(const rfg_comm *comm, rfg_comm_handle *handle)
{
    if (!comm || !handle)
        return BAD("rfg_comm_get_handle: %s is NULL: must be a %s", comm ? "handle" : "comm",
                   comm ? "handle" : "communicator");
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &comm->own, sizeof(comm->own));
    return RFG_OK;
}

void rfg_comm_destroy(rfg_comm **comm)
{
    rfg_comm *c = comm ? *comm : NULL;
    int previous;
    if (!c)
        return;
    *comm = NULL;
    if (!rfg_context_forked(c->ctx) && rfg_device_enter(c->ctx, &previous) == RFG_OK) {
        for (struct loaded *l = c->loaded, *next; l; l = next) {
            next = l->next;
            rfg_plan_destroy(c->ctx, &l->plan);
            free(l);
        }
        free_memory(c);
        rfg_device_leave(c->ctx, previous);
    }
    free(c);
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static rfg_status check_handle(const rfg_comm *c, const struct handle *h, int r)
{
    static const char *const fn = "rfg_comm_connect";
    const struct handle *own = &c->own;
    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 || h->version[sizeof(h->version) - 1] ||
        h->arch[sizeof(h->arch) - 1] || h->device[sizeof(h->device) - 1])
        return BAD("%s: handles[%d] is no handle: must be what rfg_comm_get_handle() wrote", fn, r);
    if (strcmp(h->version, own->version))
        return BAD("%s: rank %d has rfg %s: must be %s, as this rank's", fn, r, h->version, own->version);
    if (h->ranks != c->ranks)
        return BAD("%s: rank %d is of %" PRId32 " ranks: must be %d, as this rank", fn, r, h->ranks, c->ranks);
    if (h->rank != r)
        return BAD("%s: handles[%d] is rank %" PRId32 "'s: must be rank %d's", fn, r, h->rank, r);
    if (r == c->rank && memcmp(h, own, sizeof(*own)) != 0)
        return BAD("%s: handles[%d] is not this rank's own: must be", fn, r);
    if (r == c->rank)
        return RFG_OK;
    if (h->platform != own->platform || strcmp(h->arch, own->arch))
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: rank %d is %s (%s), this rank %s (%s): must be of one kind", fn, r,
                        h->device, h->arch, own->device, own->arch);
    if (h->process == own->process && h->context == own->context)
        return BAD("%s: rank %d has the context of rank %d: each rank must have its own", fn, r, c->rank);
    if (h->host != own->host)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: rank %d is on another host: must be on one", fn, r);
    return RFG_OK;
}

static rfg_status reach(rfg_comm *c, const struct handle *h)
{
    static const char *const fn = "rfg_comm_connect";
    const struct rfg_hip *hip = c->ctx->hip;
    int can = 0;
    hipError_t e;
    if (h->process == c->own.process) {
        c->window[h->rank] = (void *)(uintptr_t)h->window;
        c->shared |= h->ordinal == c->own.ordinal;
        if (!hip || h->ordinal == c->own.ordinal)
            return RFG_OK;
        if ((e = hip->hipDeviceCanAccessPeer(&can, c->ctx->ordinal, h->ordinal)) != hipSuccess)
            return rfg_hip_fail(c->ctx, "hipDeviceCanAccessPeer", e);
        if (!can)
            return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: rank %" PRId32 " is %s: %s can't reach its memory", fn, h->rank,
                            h->device, c->ctx->dev.name);
        e = hip->hipDeviceEnablePeerAccess(h->ordinal, 0);
        return e == hipSuccess || e == hipErrorPeerAccessAlreadyEnabled
                   ? RFG_OK
                   : rfg_hip_fail(c->ctx, "hipDeviceEnablePeerAccess", e);
    }
    if (!hip) {
        c->window[h->rank] = rfg_comm_cpu_open((size_t)COMM_WINDOW(c->ranks), &h->cpu);
        c->opened[h->rank] = c->window[h->rank] != NULL;
        return c->opened[h->rank] ? RFG_OK
                                  : rfg_fail(RFG_ERROR_UNSUPPORTED,
                                             "%s: rank %" PRId32
                                             " is in another process, whose memory can't be opened: must be of the "
                                             "same user and container, and run",
                                             fn, h->rank);
    }
    static const hipIpcMemHandle_t none;
    if (!hip->hipIpcOpenMemHandle || !memcmp(&h->ipc, &none, sizeof(none)))
        return rfg_fail(RFG_ERROR_UNSUPPORTED,
                        "%s: rank %" PRId32 " is in another process, to which %s gives no memory", fn, h->rank,
                        h->device);
    e = hip->hipIpcOpenMemHandle(&c->window[h->rank], h->ipc, LAZY_PEER_ACCESS);
    if (e == hipErrorPeerAccessUnsupported)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "%s: rank %" PRId32 " is %s: %s can't reach its memory", fn, h->rank,
                        h->device, c->ctx->dev.name);
    if (e != hipSuccess)
        return rfg_hip_fail(c->ctx, "hipIpcOpenMemHandle", e);
    c->opened[h->rank] = true;
    return RFG_OK;
}

rfg_status rfg_comm_connect(rfg_comm *comm, const rfg_comm_handle *handles)
{
    static const char *const fn = "rfg_comm_connect";
    struct handle h;
    int previous;
    if (!comm || !handles)
        return BAD("%s: %s is NULL: must be %s", fn, comm ? "handles" : "comm", comm ? "handles" : "a communicator");
    if (comm->connected)
        return BAD("%s: comm is connected: must not be", fn);
    for (int r = 0; r < comm->ranks; r++) {
        memcpy(&h, &handles[r], sizeof(h));
        rfg_status st = check_handle(comm, &h, r);
        if (st != RFG_OK)
            return st;
    }
    rfg_status st = rfg_call_enter_outside_captures(comm->ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    for (int r = 0; r < comm->ranks && st == RFG_OK; r++) {
        memcpy(&h, &handles[r], sizeof(h));
        if (r != comm->rank)
            st = reach(comm, &h);
    }
    if (st == RFG_OK && comm->vendor)
        st = rfg_comm_vendor_connect(comm->vendor, comm->window[0], comm->rank, comm->ranks);
    if (st != RFG_OK)
        close_opened(comm);
    bool alike = true; /* kernels must be the same on all ranks */
    for (int r = 0; r < comm->ranks; r++) {
        memcpy(&h, &handles[r], sizeof(h));
        alike &= h.ways == comm->own.ways;
    }
    if (st == RFG_OK && !alike)
        choose_ways(comm, true);
    comm->connected = st == RFG_OK;
    rfg_device_leave(comm->ctx, previous);
    return st;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* The device is current. stream: the call's; NULL: it is prepared. */
static rfg_status load(rfg_comm *c, const char *fn, const struct rfg_problem *prob, const struct rfg_variant *var,
                       const int *p, const rfg_stream *stream, struct rfg_plan **out)
{
    for (struct loaded *l = c->loaded; l; l = l->next) {
        const struct rfg_choice *its = rfg_plan_choice(l->plan);
        if (its->variant == var && !memcmp(its->params, p, (size_t)var->n_params * sizeof(*p)) &&
            rfg_problem_equal(rfg_plan_problem(l->plan), prob)) {
            *out = l->plan;
            return RFG_OK;
        }
    }
    bool captured = false;
    rfg_status st = stream && c->ctx->hip ? rfg_stream_captured(c->ctx, fn, *stream, &captured) : RFG_OK;
    if (st == RFG_OK && captured)
        st = rfg_fail(RFG_ERROR_NOT_READY,
                      "%s: stream %p is being captured and the kernel isn't loaded: call rfg_comm_prepare() before", fn,
                      *stream);
    if (st != RFG_OK)
        return st;
    struct loaded *l = calloc(1, sizeof(*l));
    if (!l)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a kernel", fn);
    if ((st = rfg_plan_create(c->ctx, prob, var, p, &l->plan)) != RFG_OK) {
        free(l);
        return st;
    }
    l->next = c->loaded;
    c->loaded = l;
    *out = l->plan;
    return RFG_OK;
}

static rfg_status load_way(rfg_comm *c, const char *fn, enum comm_op op, int dtype, const int *p,
                           const rfg_stream *stream, struct rfg_plan **out)
{
    struct rfg_problem prob = { .op = comm_ops[op], .dtype = { (uint8_t)dtype, (uint8_t)dtype } };
    prob.v[COMM_RANKS] = c->ranks;
    return load(c, fn, &prob,
                !c->ctx->hip                    ? &comm_cpu
                : c->var && !c->var->joint_args ? c->var
                                                : &comm_push,
                p, stream, out);
}

rfg_status rfg_comm_prepare(rfg_comm *comm, rfg_dtype dtype)
{
    static const char *const fn = "rfg_comm_prepare";
    struct rfg_plan *plan;
    int previous;
    if (!comm)
        return BAD("%s: comm is NULL: must be a communicator", fn);
    if (!rfg_dtype_is_float((int)dtype))
        return BAD("%s: dtype is %s: must be bf16, f16 or f32", fn, rfg_dtype_name(dtype));
    rfg_status st = rfg_call_enter_outside_captures(comm->ctx, fn, &previous);
    if (st != RFG_OK)
        return st;
    for (int op = 0; op < COMM_OPS; op++)
        for (int size = 0; st == RFG_OK && size < COMM_SIZES; size++)
            st = load_way(comm, fn, (enum comm_op)op, (int)dtype, comm->ways[op][size].p, NULL, &plan);
    rfg_device_leave(comm->ctx, previous);
    return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

rfg_context *rfg_comm_context(const rfg_comm *comm)
{
    return comm->ctx;
}
int rfg_comm_ranks(const rfg_comm *comm)
{
    return comm->ranks;
}
int rfg_comm_rank(const rfg_comm *comm)
{
    return comm->rank;
}
bool rfg_comm_describes(const rfg_comm *comm)
{
    return rfg_context_describes(comm->ctx);
}

void rfg_comm_force(rfg_comm *comm, const struct comm_way *way, const struct rfg_variant *var)
{
    comm->forced = way != NULL;
    if (way)
        comm->way = *way;
    comm->var = var;
}

const struct comm_way *rfg_comm_way(const rfg_comm *comm, enum comm_op op, int64_t bytes)
{
    return &comm->ways[op][comm_size_of(bytes)];
}

const int *rfg_comm_forced(const rfg_comm *comm, const struct rfg_variant *var)
{
    return comm->forced && comm->var == var ? comm->way.p : NULL;
}

static rfg_status refuse_broken(const rfg_comm *c, const char *fn)
{
    unsigned missing = __atomic_load_n(c->status, __ATOMIC_ACQUIRE);
    return missing ? rfg_fail(RFG_ERROR_DEVICE,
                              "%s: the communicator is broken: rank %u did not come within %d ms to a call of rank %d",
                              fn, missing - 1, c->timeout_ms, c->rank)
                   : RFG_OK;
}

rfg_status rfg_comm_check(rfg_comm *comm)
{
    static const char *const fn = "rfg_comm_check";
    if (!comm)
        return BAD("%s: comm is NULL: must be a communicator", fn);
    rfg_status st = refuse_broken(comm, fn);
    return st == RFG_OK && comm->vendor ? rfg_comm_vendor_check(comm->vendor, fn) : st;
}

rfg_status rfg_comm_ready(const rfg_comm *comm, const char *fn)
{
    if (!comm)
        return BAD("%s: comm is NULL: must be a communicator", fn);
    if (!comm->connected)
        return BAD("%s: comm is not connected: must be (rfg_comm_connect())", fn);
    if (rfg_context_forked(comm->ctx) && comm->ctx->hip)
        return rfg_fork_refuse(comm->ctx);
    return refuse_broken(comm, fn);
}

/* Of a millisecond: NVIDIA's clock counts ns, AMD's 100 MHz, an emulated GPU's a wave's instructions. */
static uint64_t ticks(const rfg_comm *c)
{
    static const unsigned per_ms[] = { [RFG_PLATFORM_CPU] = 1000000,
                                       [RFG_PLATFORM_AMD] = 100000,
                                       [RFG_PLATFORM_NVIDIA] = 1000000,
                                       [RFG_PLATFORM_EMU] = 1000 };
    return (uint64_t)c->timeout_ms * per_ms[c->ctx->dev.platform];
}

/* What the communicator gives a kernel. */
static void fill_args(const rfg_comm *c, struct comm_args *a)
{
    memcpy(a->window, c->window, sizeof(a->window));
    a->status = c->status;
    a->timeout = ticks(c);
    a->rank = c->rank;
}

/* groups: 0: as many as the plan says. */
static rfg_status launch(rfg_comm *c, const struct rfg_plan *plan, int groups, void **params, rfg_stream stream)
{
    const struct rfg_hip *hip = c->ctx->hip;
    struct rfg_launch l;
    hipFunction_t fn;
    (void)rfg_plan_raw(plan, &fn, &l);
    if (groups)
        l.grid[0] = (uint32_t)groups;
    hipError_t e;
    if (hip->launch_joint)
        e = hip->launch_joint(fn, &l, (hipStream_t)stream, params,
                              &(struct rfg_joint){ c->window[0], c->rank, c->ranks, c->timeout_ms * 1e-3 });
    else
        e = hip->hipModuleLaunchKernel(fn, l.grid[0], 1, 1, l.block[0], 1, 1, l.lds, (hipStream_t)stream, params, NULL);
    return e == hipSuccess ? RFG_OK : rfg_hip_fail(c->ctx, "hipModuleLaunchKernel of a collective", e);
}

static rfg_status run_cpu(rfg_comm *c, const char *fn, const struct rfg_plan *plan, struct comm_args *a,
                          rfg_stream stream)
{
    struct rfg_graph *record = NULL;
    rfg_status st = stream ? rfg_stream_record(c->ctx, fn, stream, &record) : RFG_OK;
    if (st != RFG_OK)
        return st;
    return record ? rfg_graph_add(record, &(struct rfg_record){ .plan = plan }, a, sizeof(*a))
                  : rfg_plan_launch(c->ctx, plan, a, stream);
}

/* Elements [from, from + n) of each part. */
static rfg_status run_piece(rfg_comm *c, const char *fn, enum comm_op op, int dtype, const struct comm_args *call,
                            int64_t from, int64_t n, const struct comm_way *way, rfg_stream stream)
{
    struct comm_args a = *call;
    struct rfg_plan *plan;
    rfg_status st = load_way(c, fn, op, dtype, way->p, &stream, &plan);
    if (st != RFG_OK)
        return st;
    int64_t at = from * rfg_format_bytes(dtype, 1);
    a.x = (const char *)call->x + at;
    a.y = (char *)call->y + at;
    a.n = n;
    fill_args(c, &a);
    if (!c->ctx->hip)
        return run_cpu(c, fn, plan, &a, stream);
    int groups = way->groups;
    if (!groups)
        groups = comm_groups(&c->ctx->dev, op, c->ranks, dtype, n, way->p, c->shared);
    return launch(c, plan, groups, (void *[]){ &a }, stream);
}

/* The way of the next launch, of a call that has n elements left; returns how many it takes. */
static int64_t next_way(const rfg_comm *c, enum comm_op op, int dtype, int64_t n, struct comm_way *way)
{
    if (!c->ctx->hip)
        *way = (struct comm_way){ { [COMM_P_BULK] = 1, [COMM_P_THREADS] = 512, [COMM_P_UNROLL] = 4 }, 1 };
    else if (c->forced && !(c->var && c->var->joint_args))
        *way = c->way;
    else
        *way = *rfg_comm_way(c, op, rfg_format_bytes(dtype, n));
    int64_t most = comm_most(op, c->ranks, dtype, way->p);
    return n < most ? n : most;
}

rfg_status rfg_comm_load(rfg_comm *c, enum comm_op op, int dtype, int64_t n)
{
    struct comm_way way;
    struct rfg_plan *plan;
    int previous;
    rfg_status st = rfg_device_enter(c->ctx, &previous);
    for (int64_t at = 0; st == RFG_OK && at < n; at += next_way(c, op, dtype, n - at, &way)) {
        (void)next_way(c, op, dtype, n - at, &way);
        st = load_way(c, "rfg_comm_load", op, dtype, way.p, NULL, &plan);
    }
    rfg_device_leave(c->ctx, previous);
    return st;
}

/* Ends a call that came to status st. */
static rfg_status leave(rfg_comm *c, const char *fn, rfg_status st, int previous)
{
    if (st == RFG_OK && c->ctx->dev.platform != RFG_PLATFORM_AMD && c->ctx->dev.platform != RFG_PLATFORM_NVIDIA)
        st = refuse_broken(c, fn); /* its work is done */
    rfg_device_leave(c->ctx, previous);
    return st;
}

rfg_status rfg_comm_run(rfg_comm *c, const char *fn, enum comm_op op, int dtype, const struct comm_args *call,
                        rfg_stream stream)
{
    struct comm_way way;
    int previous;
    if (rfg_stream_is_special(c->ctx, stream))
        return rfg_stream_refuse_special(fn, stream);
    rfg_status st = rfg_device_enter(c->ctx, &previous);
    if (st == RFG_OK && c->vendor && rfg_comm_vendor_takes(c->vendor, op, c->ranks, dtype, call->n)) {
        st = rfg_comm_vendor_run(c->vendor, fn, op, dtype, call, stream);
        return leave(c, fn, st, previous);
    }
    for (int64_t at = 0, n; st == RFG_OK && at < call->n; at += n) {
        n = next_way(c, op, dtype, call->n - at, &way);
        st = run_piece(c, fn, op, dtype, call, at, n, &way, stream);
    }
    return leave(c, fn, st, previous);
}

bool rfg_comm_takes_packets(const rfg_comm *c, int dtype, int64_t n)
{
    static const int packets[COMM_NPARAMS] = { 0, COMM_BY_PACKETS, 128, 1 };
    if (!c->ctx->hip || c->ranks < 2 || c->ctx->invariant || n > comm_most(COMM_OP_REDUCE, c->ranks, dtype, packets))
        return false;
    if (c->forced && !(c->var && c->var->joint_args))
        return c->way.p[COMM_P_BULK] == COMM_BY_PACKETS && !c->way.p[COMM_P_TWO];
    return rfg_format_bytes(dtype, n) * (c->ranks - 1) <= JOINT_MOST;
}

rfg_status rfg_comm_launch(rfg_comm *c, const char *fn, const struct rfg_problem *prob, const struct rfg_variant *var,
                           const int *p, void *kargs, rfg_stream stream)
{
    struct comm_args a = { .n = 0 };
    struct rfg_plan *plan;
    int previous;
    if (rfg_stream_is_special(c->ctx, stream))
        return rfg_stream_refuse_special(fn, stream);
    rfg_status st = rfg_device_enter(c->ctx, &previous);
    if (st == RFG_OK)
        st = load(c, fn, prob, var, p, &stream, &plan);
    if (st == RFG_OK) {
        fill_args(c, &a);
        st = launch(c, plan, 0, (void *[]){ kargs, &a }, stream);
    }
    return leave(c, fn, st, previous);
}
