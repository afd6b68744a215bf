/* SPDX-License-Identifier: MIT
 *
 * Memory, streams and graphs of a context's device, for programs that have no GPU runtime of their own. The calls are
 * the same on "cpu", "emu:*", "amd:*" and "nvidia:*", so that one program runs on all of them. An engine that uses HIP
 * or CUDA itself needs none of this: rfg takes its pointers and its streams.
 *
 * Order: what is queued on a stream (operators, copies, memsets, replays) runs in that order; streams do not wait for
 * each other. On "cpu" and "emu:*" work is done when the call that queued it returns. NULL is the device's own default
 * stream: always there, never captured, and not waited for by the streams made here.
 *
 * Threads: one thread at a time uses a stream, and the thread that begins a capture ends it. While a thread captures,
 * what allocates, frees, waits or replays is refused to it with INVALID_ARGUMENT; the capture goes on.
 *
 * fork(): see rfg/core.h. In the child all of this is refused on GPUs; on "cpu" memory, streams and graphs are copies
 * of the parent's, and work.
 *
 * Errors of every function here: INVALID_ARGUMENT (names the argument, its value and the rule; nothing was done),
 * OUT_OF_MEMORY, DEVICE (the runtime or the device; the message has its name for the error). Errors of work that runs
 * asynchronously come from a later call, most often rfg_stream_sync(). */
#ifndef RFG_DEVICE_H
#define RFG_DEVICE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ------------------------------------------------------------------------------------------------- */

/* Allocates memory of the device, aligned to 256 bytes, with undefined contents. *memory is NULL on an error, and for 0
 * bytes. The host reads and writes it through rfg_device_copy() only. May wait for the device. */
RFG_API RFG_NODISCARD rfg_status rfg_device_alloc(rfg_context *ctx, void **memory, size_t bytes);

/* Frees memory of rfg_device_alloc() with the same context. NULL: nothing happens. Work that uses it must have ended,
 * and graphs that use it must not be replayed any more. May wait for the device. */
RFG_API rfg_status rfg_device_free(rfg_context *ctx, void *memory);

typedef enum rfg_copy_kind { RFG_HOST_TO_DEVICE, RFG_DEVICE_TO_HOST, RFG_DEVICE_TO_DEVICE } rfg_copy_kind;

/* Queues a copy of bytes from `from` to `to`, which may not overlap. It is asynchronous: until rfg_stream_sync() host
 * memory that is read must stay as it is, and host memory that is written doesn't hold the bytes yet. In a capture only
 * RFG_DEVICE_TO_DEVICE is allowed; the addresses are captured, not the bytes. 0 bytes: nothing happens, to and from may
 * be NULL. */
RFG_API RFG_NODISCARD rfg_status rfg_device_copy(rfg_context *ctx, void *to, const void *from, size_t bytes,
                                                 rfg_copy_kind kind, rfg_stream stream);

/* Queues the setting of each byte to value, 0 to 255. Can be captured. 0 bytes: nothing happens. */
RFG_API RFG_NODISCARD rfg_status rfg_device_memset(rfg_context *ctx, void *memory, int value, size_t bytes,
                                                   rfg_stream stream);

/* ---- streams ------------------------------------------------------------------------------------------------ */

/* Makes a stream. On GPUs it is a non-blocking hipStream_t or CUstream, which the runtime's own functions take as well.
 * *stream is NULL on an error. Streams that are not destroyed before are destroyed with the context. */
RFG_API RFG_NODISCARD rfg_status rfg_stream_create(rfg_context *ctx, rfg_stream *stream);

/* Waits until everything that was queued on the stream (any of the device's, NULL too) has ended. */
RFG_API RFG_NODISCARD rfg_status rfg_stream_sync(rfg_context *ctx, rfg_stream stream);

/* Waits for the stream, frees it and its workspace, and sets *stream to NULL. stream or *stream may be NULL. It is
 * refused while the stream is captured, and while there are graphs that were captured from it, since they use its
 * workspace. After any other error the stream is gone all the same. */
RFG_API rfg_status rfg_stream_destroy(rfg_context *ctx, rfg_stream *stream);

/* ---- workspaces --------------------------------------------------------------------------------------------- */

/* The bytes of a stream's workspace: what the operators on it may need to work in. It is the same for all streams and
 * problems of a context: 32 MiB and 256 KiB on GPUs, up to 128 MiB on AMD's largest, for hipBLASLt. 0 on "cpu", where a
 * context has its own, and if ctx is NULL. */
RFG_API size_t rfg_workspace_size(const rfg_context *ctx);

/* Gives a stream (any of the device's, the engine's too, NULL too) its workspace, in place of the one that a context
 * allocates when a stream's first operator needs it (or in rfg_prepare_stream()). What the context had allocated for
 * the stream is freed.
 *
 *   memory  device memory of the caller's, aligned to 256 bytes. It must stay until the stream is given another
 *           workspace, or the stream or the context is destroyed. Nothing else may write to it, and two streams must
 *           not share it. Its contents may be anything: what must be zero is zeroed here, on the stream, which is
 *           waited for. NULL, with 0 bytes: the stream has no workspace any more; the context allocates one for the
 *           next operator that needs it
 *   bytes   rfg_workspace_size() or more; what is beyond that is for rfg_op_moe() without a
 *           workspace of its own, and for rfg_op_all_reduce_add_rmsnorm()
 *
 * No operator may be running on the stream, and no other thread may call one on it. Graphs captured from it would go on
 * using the workspace that it had: destroy them first (with rfg_graphs left the call is refused). Not during a capture.
 * After a DEVICE error the stream may have no workspace. */
RFG_API RFG_NODISCARD rfg_status rfg_stream_set_workspace(rfg_context *ctx, rfg_stream stream, void *memory,
                                                          size_t bytes);

/* ---- graphs ------------------------------------------------------------------------------------------------- */

/* What was captured from a stream: operators with their arguments as they were, copies, memsets. */
typedef struct rfg_graph rfg_graph;

/* From here on what the calling thread queues on the stream, one of rfg_stream_create(), is recorded and not run. If
 * the stream has no workspace it is allocated first, as by rfg_prepare_stream(). A problem must have been called or
 * prepared (rfg_prepare()) before: else its call is refused with NOT_READY, and the capture goes on without it. */
RFG_API RFG_NODISCARD rfg_status rfg_stream_begin_capture(rfg_context *ctx, rfg_stream stream);

/* Ends the capture: *graph is what was recorded, NULL on an error (DEVICE: something broke the capture). Memory that
 * the graph uses, its stream and the context must outlive it. */
RFG_API RFG_NODISCARD rfg_status rfg_stream_end_capture(rfg_context *ctx, rfg_stream stream, rfg_graph **graph);

/* Queues all that the graph recorded on a stream (any of the device's, NULL too). It may be called as often as one
 * likes. The graph uses the workspace of the stream that it was captured from. So two replays of graphs of one stream,
 * or a replay and operators on that stream, must not run at the same time. */
RFG_API RFG_NODISCARD rfg_status rfg_graph_replay(rfg_context *ctx, rfg_graph *graph, rfg_stream stream);

/* Frees a graph whose replays have ended and sets *graph to NULL, also on a DEVICE error. graph or *graph
 * may be NULL. */
RFG_API rfg_status rfg_graph_destroy(rfg_context *ctx, rfg_graph **graph);

#ifdef __cplusplus
}
#endif
#endif
