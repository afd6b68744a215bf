/* SPDX-License-Identifier: MIT
 *
 * Collectives of the GPUs of one host, for tensor parallelism.
 *
 * A communicator joins 1 to RFG_COMM_MAX_RANKS ranks. Each rank has a context of its own: in one process, or in one
 * process a rank. Every rank makes its part, the caller exchanges their handles by any means (MPI, a socket, a pipe,
 * torch.distributed), and every rank connects to all:
 *
 *   rfg_comm *comm;
 *   rfg_comm_handle all[RANKS];
 *   rfg_comm_create(&comm, ctx, rank, RANKS, NULL);
 *   rfg_comm_get_handle(comm, &all[rank]);
 *   ... each rank sends its handle to the others ...
 *   rfg_comm_connect(comm, all);
 *   rfg_op_all_reduce(comm, &y, &x, stream);
 *
 * The calls. All ranks make the same calls of a communicator in the same order, with the same sizes and dtypes. On a
 * GPU a call only queues its kernel. Two calls of one rank must not run at the same time: make them on one stream, or
 * order the streams by events. They can be captured; a graph is replayed any number of times if all ranks replay
 * theirs. "cpu" and "emu:*" work within the call: there each rank needs a thread of its own.
 *
 * Kernels. Tuned rows say which one a message gets, as of other operators; without a row the model does. `rfg-tune
 * --problem "all_reduce bf16->bf16 bytes=1048576 ranks=2"` measures one size on so many GPUs; rows of bf16 serve all
 * dtypes, and a message takes the row of the next power of two. Ranks whose rows differ all take the model's choice. The
 * bits of a sum don't depend on the kernel.
 *
 * Two communicators of the same GPUs: don't let their calls run at the same time. A GPU that is full of the one's
 * workgroups keeps the other's waiting.
 *
 * Results. Sums are in fp32, in the order of the ranks, rounded once to the dtype: the same bits on every rank, in
 * every run, for every size and alignment.
 *
 * Ranks that don't come. A kernel waits for its peers for timeout_ms at most. Then the communicator is broken: the
 * output of that call is undefined, kernels of later calls return at once, and rfg_comm_check() and every later call
 * return RFG_ERROR_DEVICE with the rank that didn't come. The other ranks find out by their own timeouts. Destroy
 * it, and make another.
 *
 * NCCL and RCCL. With vendor_from the platform's library serves all_reduce, reduce_scatter and all_gather of so many KiB
 * and more, counted of the larger tensor: for comparison, and for links that it knows better. $RFG_LIBNCCL and
 * $RFG_LIBRCCL name its file. Such results are the library's: summed in its order, rounded as it rounds. It has no timeout:
 * a rank that doesn't come keeps the others' streams waiting, and rfg_comm_connect() waits for all ranks, each in a
 * thread or process of its own.
 *
 * Where. NVIDIA GPUs that reach each other's memory (NVLink, PCIe); multicast is not used. AMD GPUs likewise (run on the
 * emulator only so far). "cpu", in one process or in several of one user. Emulated GPUs in one process. All ranks have
 * the same architecture.
 *
 * Threads: one thread at a time uses a communicator. fork(): the child may not use it. */
#ifndef RFG_COMM_H
#define RFG_COMM_H

#include "rfg/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RFG_COMM_MAX_RANKS 8

typedef struct rfg_comm rfg_comm;

/* What a rank tells the others; to be copied as bytes. It is valid while the communicator exists. */
typedef struct rfg_comm_handle {
    unsigned char bytes[256];
} rfg_comm_handle;

typedef struct rfg_comm_params {
    size_t size;         /* sizeof(rfg_comm_params) */
    int32_t timeout_ms;  /* how long a call waits for a peer: 1 to 3600000; 0: 1900, for an error in 2 s */
    int32_t vendor_from; /* messages of so many KiB and more are NCCL's or RCCL's; 0: none */
} rfg_comm_params;
#define RFG_COMM_PARAMS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(rfg_comm_params), 0, 0                                                                                  \
    }

/* Makes rank `rank` of `ranks`, and allocates its window, which peers write to: 64 MiB and 8 MiB a rank of device
 * memory. It belongs to ctx, which must outlive it. *comm is NULL on an error. params may be NULL.
 * Errors: INVALID_ARGUMENT (comm or ctx is NULL; ranks is not from 1 to RFG_COMM_MAX_RANKS; rank is not below ranks;
 * params), UNSUPPORTED (the runtime lacks what it needs; vendor_from, and there is no such library), OUT_OF_MEMORY,
 * DEVICE. */
RFG_API RFG_NODISCARD rfg_status rfg_comm_create(rfg_comm **comm, rfg_context *ctx, int32_t rank, int32_t ranks,
                                                 const rfg_comm_params *params);

/* Writes the rank's handle. Errors: INVALID_ARGUMENT (comm or handle is NULL). */
RFG_API RFG_NODISCARD rfg_status rfg_comm_get_handle(const rfg_comm *comm, rfg_comm_handle *handle);

/* Opens the peers' windows. handles: `ranks` of them, in the order of the ranks, this rank's own among them. Waits for
 * no peer, without vendor_from. An error leaves it as it was.
 * Errors: INVALID_ARGUMENT (comm or handles is NULL; it is connected; a handle isn't one, or not that rank's, or of a
 * communicator of another size or version of rfg, or shares this rank's context), UNSUPPORTED (a peer is on another
 * kind of device or host, or its memory can't be reached), DEVICE, OUT_OF_MEMORY. Errors name the rank. */
RFG_API RFG_NODISCARD rfg_status rfg_comm_connect(rfg_comm *comm, const rfg_comm_handle *handles);

/* Compiles and loads the kernels of this dtype (bf16, f16 or f32), so that calls with it may be captured: after
 * rfg_comm_connect(). What was used before is loaded.
 * Errors: INVALID_ARGUMENT (comm, dtype), COMPILE, IO, DEVICE, OUT_OF_MEMORY. */
RFG_API RFG_NODISCARD rfg_status rfg_comm_prepare(rfg_comm *comm, rfg_dtype dtype);

/* Whether all ranks came to the calls that have run so far. Doesn't wait for the device: ask after
 * rfg_stream_sync() to know about all that was queued.
 * Errors: INVALID_ARGUMENT (comm is NULL), DEVICE (it is broken; names the rank that didn't come, and the timeout). */
RFG_API RFG_NODISCARD rfg_status rfg_comm_check(rfg_comm *comm);

/* Frees it and sets *comm to NULL. comm or *comm may be NULL. This rank's calls, and its peers' calls that it took part
 * in, must have ended; graphs of such calls must not be replayed any more. */
RFG_API void rfg_comm_destroy(rfg_comm **comm);

/* Of rfg_op_all_reduce(), rfg_op_reduce_scatter() and rfg_op_all_gather(): x and y have the same dtype, bf16, f16 or
 * f32, any shape of 1 to 5 dimensions, packed, and any alignment that the dtype has. y may be x, or in reduce_scatter
 * and all_gather this rank's part of x or x's place in y; other overlaps are refused. No elements: nothing happens, on
 * any rank.
 * Errors: INVALID_ARGUMENT (names the argument, its value and the rule; not connected), NOT_READY (the stream is
 * captured and the kernel isn't loaded: rfg_comm_prepare()), COMPILE, DEVICE (broken as rfg_comm_check() has it),
 * OUT_OF_MEMORY. */

/* y = the sum of all ranks' x. y has as many elements as x. */
RFG_API RFG_NODISCARD rfg_status rfg_op_all_reduce(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x,
                                                   rfg_stream stream);

/* What a tensor-parallel layer does behind a row-parallel product: rfg_op_all_reduce() of x, rounded to x's dtype, and
 * rfg_op_add_rmsnorm() of that sum (rfg/norm.h: residual_out = sum + residual, y = rmsnorm(residual_out)); in one launch
 * where that is faster (of 2 ranks up to 512 KiB), else in two, through scratch memory of the stream.
 *
 * x is packed, [M,N] (M = 1: [N]), and bf16, f16 or f32; it isn't written. The other tensors and params are
 * rfg_op_add_rmsnorm()'s, quantised outputs too; so are aliasing and errors. Ranks must have the same residual and
 * weight if they are to have the same results; then residual_out and y are the same bits on all. residual_out has the
 * bits of the two calls. y may differ from theirs in its last place: squares are summed in another order (but not with
 * batch_invariant, which always takes two launches).
 *
 * Call it once before a capture: rfg_comm_prepare() doesn't load its kernels. */
RFG_API RFG_NODISCARD rfg_status rfg_op_all_reduce_add_rmsnorm(rfg_comm *comm, const rfg_tensor *y,
                                                               const rfg_tensor *residual_out, const rfg_tensor *x,
                                                               const rfg_tensor *residual, const rfg_tensor *weight,
                                                               const rfg_norm_params *params, rfg_stream stream);

/* y = part `rank` of the sum of all ranks' x. x has `ranks` times as many elements as y: the parts, one behind the
 * other. */
RFG_API RFG_NODISCARD rfg_status rfg_op_reduce_scatter(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x,
                                                       rfg_stream stream);
/* y = all ranks' x, one behind the other. y has `ranks` times as many elements as x. */
RFG_API RFG_NODISCARD rfg_status rfg_op_all_gather(rfg_comm *comm, const rfg_tensor *y, const rfg_tensor *x,
                                                   rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
