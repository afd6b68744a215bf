/* SPDX-License-Identifier: MIT
 *
 * NCCL and RCCL by dlopen and our own declarations. $RFG_LIBNCCL and $RFG_LIBRCCL name the file to load in place of what
 * the dynamic loader finds (the tests' seam, and for PyTorch's wheels). Neither library is ever closed. */
#include "comm_vendor.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

/* ncclUniqueId, ncclDataType_t, ncclRedOp_t; ncclResult_t 0 is success. */
struct unique_id {
    char internal[128];
};
enum { ID_AT = 1024 }; /* in rank 0's window, between the ticket and the flags */
_Static_assert(ID_AT + sizeof(struct unique_id) <= COMM_FLAGS, "no flag is overwritten");
enum { NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9, NCCL_SUM = 0 };

#define ENTRIES(X)                                                                                                     \
    X(int, GetUniqueId, (struct unique_id *))                                                                          \
    X(int, CommInitRank, (void **, int, struct unique_id, int))                                                        \
    X(int, CommDestroy, (void *))                                                                                      \
    X(int, CommAbort, (void *))                                                                                        \
    X(int, CommGetAsyncError, (void *, int *))                                                                         \
    X(const char *, GetErrorString, (int))                                                                             \
    X(int, AllReduce, (const void *, void *, size_t, int, int, void *, void *))                                        \
    X(int, ReduceScatter, (const void *, void *, size_t, int, int, void *, void *))                                    \
    X(int, AllGather, (const void *, void *, size_t, int, void *, void *))

struct library {
    const char *title, *env;
    const char *names[2];
    bool looked_for;
    struct rfg_reason why; /* it can't be used */
#define DECLARE(type, name, params) type(*name) params;
    ENTRIES(DECLARE)
#undef DECLARE
};

struct comm_vendor {
    rfg_context *ctx;
    const struct library *lib;
    void *comm;
    int64_t from; /* bytes */
};

static struct library nccl = { .title = "NCCL", .env = "RFG_LIBNCCL", .names = { "libnccl.so.2", "libnccl.so" } };
static struct library rccl = { .title = "RCCL", .env = "RFG_LIBRCCL", .names = { "librccl.so.1", "librccl.so" } };

static void look_for(struct library *l)
{
    const char *given = rfg_env(l->env);
    void *handle = dlopen(given ? given : l->names[0], RTLD_NOW | RTLD_LOCAL);
    l->looked_for = true;
    if (!handle && !given)
        handle = dlopen(l->names[1], RTLD_NOW | RTLD_LOCAL);
    if (!handle && given)
        rfg_refuse(&l->why, "%s: %s", l->env, dlerror());
    else if (!handle)
        rfg_refuse(&l->why, "neither %s nor %s is found (or set %s)", l->names[0], l->names[1], l->env);
#define LOOK_UP(type, name, params)                                                                                    \
    if (handle && !(*(void **)&l->name = dlsym(handle, "nccl" #name)) && !*l->why.text)                                \
        rfg_refuse(&l->why, "%s lacks nccl" #name, given ? given : l->title);
    ENTRIES(LOOK_UP)
#undef LOOK_UP
}

/* The library of a device, or why there is none. */
static rfg_status find(struct library **out, const struct rfg_device *dev)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct library *l = dev->platform == RFG_PLATFORM_NVIDIA ? &nccl : dev->platform == RFG_PLATFORM_AMD ? &rccl : NULL;
    if (!l)
        return rfg_fail(RFG_ERROR_UNSUPPORTED, "rfg_comm_create: vendor_from: %s has neither NCCL nor RCCL: must be 0",
                        dev->name);
    pthread_mutex_lock(&lock);
    if (!l->looked_for)
        look_for(l);
    pthread_mutex_unlock(&lock);
    *out = l;
    return *l->why.text ? rfg_fail(RFG_ERROR_UNSUPPORTED, "rfg_comm_create: vendor_from: %s: %s", l->title, l->why.text)
                        : RFG_OK;
}

/* The device is current. */
static rfg_status make_id(const struct library *l, rfg_context *ctx, char *window)
{
    struct unique_id id;
    int e = l->GetUniqueId(&id);
    if (e)
        return rfg_fail(RFG_ERROR_DEVICE, "rfg_comm_create: ncclGetUniqueId: %s", l->GetErrorString(e));
    hipError_t copied = ctx->hip->hipMemcpyHtoD((hipDeviceptr_t)(window + ID_AT), id.internal, sizeof(id.internal));
    return copied == hipSuccess ? RFG_OK : rfg_hip_fail(ctx, "hipMemcpyHtoD", copied);
}

rfg_status rfg_comm_vendor_create(struct comm_vendor **out, rfg_context *ctx, int rank, int from_kib, char *window)
{
    struct library *l = NULL;
    int previous;
    rfg_status st = find(&l, &ctx->dev);
    if (st != RFG_OK || (st = rfg_device_enter(ctx, &previous)) != RFG_OK)
        return st;
    if (rank == 0)
        st = make_id(l, ctx, window);
    rfg_device_leave(ctx, previous);
    if (st == RFG_OK && !(*out = calloc(1, sizeof(**out))))
        st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "rfg_comm_create: no memory for a communicator of %s", l->title);
    if (st == RFG_OK)
        **out = (struct comm_vendor){ .ctx = ctx, .lib = l, .from = (int64_t)from_kib << 10 };
    return st;
}

rfg_status rfg_comm_vendor_connect(struct comm_vendor *v, const char *window, int rank, int ranks)
{
    struct unique_id id;
    hipError_t copied = v->ctx->hip->hipMemcpyDtoH(id.internal, (hipDeviceptr_t)(window + ID_AT), sizeof(id.internal));
    if (copied != hipSuccess)
        return rfg_hip_fail(v->ctx, "hipMemcpyDtoH", copied);
    int e = v->lib->CommInitRank(&v->comm, ranks, id, rank);
    if (!e)
        return RFG_OK;
    v->comm = NULL;
    return rfg_fail(RFG_ERROR_DEVICE, "rfg_comm_connect: ncclCommInitRank: %s", v->lib->GetErrorString(e));
}

bool rfg_comm_vendor_takes(const struct comm_vendor *v, enum comm_op op, int ranks, int dtype, int64_t n)
{
    return rfg_format_bytes(dtype, n) * (op == COMM_OP_REDUCE ? 1 : ranks) >= v->from;
}

rfg_status rfg_comm_vendor_run(struct comm_vendor *v, const char *fn, enum comm_op op, int dtype,
                               const struct comm_args *a, rfg_stream stream)
{
    static const char *const names[] = { "ncclAllReduce", "ncclReduceScatter", "ncclAllGather" };
    const struct library *l = v->lib;
    const int of = dtype == RFG_BF16 ? NCCL_BFLOAT16 : dtype == RFG_F16 ? NCCL_FLOAT16 : NCCL_FLOAT32;
    const size_t n = (size_t)a->n;
    int e = op == COMM_OP_GATHER    ? l->AllGather(a->x, a->y, n, of, v->comm, stream)
            : op == COMM_OP_SCATTER ? l->ReduceScatter(a->x, a->y, n, of, NCCL_SUM, v->comm, stream)
                                    : l->AllReduce(a->x, a->y, n, of, NCCL_SUM, v->comm, stream);
    return e ? rfg_fail(RFG_ERROR_DEVICE, "%s: %s: %s", fn, names[op], l->GetErrorString(e)) : RFG_OK;
}

rfg_status rfg_comm_vendor_check(struct comm_vendor *v, const char *fn)
{
    int happened = 0, e = v->comm ? v->lib->CommGetAsyncError(v->comm, &happened) : 0;
    e = e ? e : happened;
    return e ? rfg_fail(RFG_ERROR_DEVICE, "%s: %s: %s", fn, v->lib->title, v->lib->GetErrorString(e)) : RFG_OK;
}

void rfg_comm_vendor_destroy(struct comm_vendor *v, bool broken)
{
    if (v && v->comm)
        (void)(broken ? v->lib->CommAbort : v->lib->CommDestroy)(v->comm);
    free(v);
}
