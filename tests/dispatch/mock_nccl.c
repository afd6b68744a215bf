/* SPDX-License-Identifier: MIT
 *
 * A mock of NCCL and of RCCL: their entry points as their headers declare them (github.com/NVIDIA/nccl; RCCL has the
 * same), knowing nothing of rfg. It notes what it is told. A communicator is made without waiting for others. With
 * MOCK_LACKS_GATHER it has no ncclAllGather. */
#include "mock_nccl.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char internal[128];
} ncclUniqueId;
struct ncclComm {
    int rank, ranks;
};

struct mock_nccl mock_nccl;

static int failing(void)
{
    return ++mock_nccl.calls == mock_nccl.fail_at ? 2 : 0; /* ncclSystemError */
}

#pragma GCC visibility push(default)
const char *ncclGetErrorString(int e);
int ncclGetUniqueId(ncclUniqueId *id);
int ncclCommInitRank(struct ncclComm **comm, int ranks, ncclUniqueId id, int rank);
int ncclCommDestroy(struct ncclComm *comm);
int ncclCommAbort(struct ncclComm *comm);
int ncclCommGetAsyncError(struct ncclComm *comm, int *e);
int ncclAllReduce(const void *x, void *y, size_t n, int dtype, int op, struct ncclComm *comm, void *stream);
int ncclReduceScatter(const void *x, void *y, size_t n, int dtype, int op, struct ncclComm *comm, void *stream);
int ncclAllGather(const void *x, void *y, size_t n, int dtype, struct ncclComm *comm, void *stream);
#pragma GCC visibility pop

const char *ncclGetErrorString(int e)
{
    return e == 2 ? "a mock error" : e == 6 ? "a remote process exited" : "no error";
}

int ncclGetUniqueId(ncclUniqueId *id)
{
    for (int i = 0; i < 128; i++)
        id->internal[i] = (char)(i + 1);
    return failing();
}

int ncclCommInitRank(struct ncclComm **comm, int ranks, ncclUniqueId id, int rank)
{
    *comm = (struct ncclComm *)8;
    if (failing())
        return 2;
    *comm = malloc(sizeof(**comm));
    if (!*comm)
        return 2;
    **comm = (struct ncclComm){ rank, ranks };
    memcpy(mock_nccl.id, id.internal, sizeof(mock_nccl.id));
    mock_nccl.alive++;
    return 0;
}

int ncclCommDestroy(struct ncclComm *comm)
{
    free(comm);
    mock_nccl.alive--;
    return failing();
}

int ncclCommAbort(struct ncclComm *comm)
{
    mock_nccl.aborted++;
    return ncclCommDestroy(comm);
}

int ncclCommGetAsyncError(struct ncclComm *comm, int *e)
{
    (void)comm;
    *e = mock_nccl.async;
    return failing();
}

static int told(const char *name, const void *x, void *y, size_t n, int dtype, int op, const struct ncclComm *comm,
                void *stream)
{
    mock_nccl.last = name;
    mock_nccl.send = x;
    mock_nccl.receive = y;
    mock_nccl.count = n;
    mock_nccl.dtype = dtype;
    mock_nccl.op = op;
    mock_nccl.rank = comm->rank;
    mock_nccl.ranks = comm->ranks;
    mock_nccl.stream = stream;
    return failing();
}

int ncclAllReduce(const void *x, void *y, size_t n, int dtype, int op, struct ncclComm *comm, void *stream)
{
    return told("AllReduce", x, y, n, dtype, op, comm, stream);
}

int ncclReduceScatter(const void *x, void *y, size_t n, int dtype, int op, struct ncclComm *comm, void *stream)
{
    return told("ReduceScatter", x, y, n, dtype, op, comm, stream);
}

#ifndef MOCK_LACKS_GATHER
int ncclAllGather(const void *x, void *y, size_t n, int dtype, struct ncclComm *comm, void *stream)
{
    return told("AllGather", x, y, n, dtype, -1, comm, stream);
}
#endif
