/* SPDX-License-Identifier: MIT
 *
 * rfg core: status codes, tensors, contexts, preparation and introspection.
 *
 * Threads: every function may be called from any thread. Many threads may use one rfg_context at once, but
 * rfg_context_destroy() must be the last call made with it.
 *
 * Stacks: a call on "cpu" takes at most 64 KiB of its thread's stack. A thread that never calls rfg carries at most
 * 4 KiB of thread-local storage for it. A first call on a GPU may run a compiler, which needs a stack of the system's
 * default size: if the calling thread has less, have another one rfg_prepare() the problem.
 *
 * fork(), "cpu" contexts: the child may use, destroy or ignore its copy, and may make other contexts. The copy shares
 * nothing with the parent's: its threads are started anew when it is used, and its calls are not written as misses.
 * fork() waits for the calls that other threads are making with "cpu" contexts, and while other threads have a database
 * open, as they have when they make contexts.
 *
 * fork(), GPUs and emulated GPUs: a GPU's runtime does not outlive fork(). In the child everything that needs the
 * parent's context is refused with RFG_ERROR_DEVICE, and rfg_context_destroy() forgets it without touching the device.
 * A new context for a GPU can be made there only if the parent had used none of its kind (a rule of CUDA's and HIP's).
 * posix_spawn(), and fork() followed by exec(), have none of these limits. */
#ifndef RFG_CORE_H
#define RFG_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RFG_API       __attribute__((visibility("default")))
#define RFG_NODISCARD __attribute__((warn_unused_result))
#else
#define RFG_API
#define RFG_NODISCARD
#endif

#define RFG_VERSION_MAJOR 0
#define RFG_VERSION_MINOR 2
#define RFG_VERSION_PATCH 0
#define RFG_VERSION       "0.2.0"

/* ---- status ------------------------------------------------------------------------------------------------- */

typedef enum rfg_status {
    RFG_OK = 0,
    RFG_ERROR_INVALID_ARGUMENT, /* the caller broke a rule; nothing was launched or written */
    RFG_ERROR_UNSUPPORTED,      /* a legal request that no variant on this device can serve */
    RFG_ERROR_OUT_OF_MEMORY,    /* host or device memory */
    RFG_ERROR_DEVICE,           /* the HIP/CUDA runtime or the device reported an error */
    RFG_ERROR_COMPILE,          /* the run-time compiler refused the kernel, or there is none for this arch, or a pack
                                   has no code for it, or the device refuses the code of each variant */
    RFG_ERROR_DATABASE,         /* a tuned database or a pack could not be opened, read or written */
    RFG_ERROR_IO,               /* a file could not be read or written, a program not be run */
    RFG_ERROR_NOT_READY,        /* the stream is being captured and the variant is not loaded: rfg_prepare() first */
    RFG_ERROR_INTERNAL          /* a bug in rfg */
} rfg_status;

/* The name of a status, e.g. "RFG_ERROR_DEVICE". Never NULL. */
RFG_API const char *rfg_status_name(rfg_status status);

/* The message of the last rfg call that failed on the calling thread. It names the argument, its value and the rule.
 * Never NULL; "" if nothing failed yet. Valid until the next rfg call that fails on this thread. */
RFG_API const char *rfg_last_error(void);

/* "0.2.0" */
RFG_API const char *rfg_version(void);

/* ---- tensors ------------------------------------------------------------------------------------------------ */

/* Operators compute with f32, f16 and bf16, and quantise to the 8-bit dtypes. Tables, lengths and ids are i32 and i64.
 * Each operator says which dtypes it takes. Later versions only add to the list.
 *
 * fp8 has two encodings. e4m3 and e5m2 are OCP's, of NVIDIA, gfx950 and gfx12. e4m3fnuz is gfx942's, without infinity
 * and negative zero. Either can be asked for on every device.
 *
 * A block of GGUF's is 32, 64 or 256 neighbouring elements of a row, with their scales. Shapes and strides count
 * elements; rows and row strides must be whole blocks, and data aligned to the largest power of two that divides a
 * block's bytes (1 to 16). As numbers they are what ggml's dequantize_row makes of them, without its rounding to f32.
 *
 * A byte holds two elements of a 4-bit dtype, the first in its low four bits (as DLPack, ONNX and PyTorch's
 * float4_e2m1fn_x2 have it). Shapes and strides count elements; rows and row strides must be whole bytes. */
typedef enum rfg_dtype {
    RFG_DTYPE_NONE = 0,
    RFG_F32,
    RFG_F16,
    RFG_BF16,
    RFG_E4M3,     /* largest 448; NaN 0x7f, 0xff; no infinity */
    RFG_E4M3FNUZ, /* largest 240; NaN 0x80; neither infinity nor -0 */
    RFG_E5M2,     /* largest 57344; infinity and NaN as in IEEE formats */
    RFG_I8,
    RFG_I32,
    RFG_I4,   /* -8 to 7, two in a byte */
    RFG_E2M1, /* elements of mxfp4 and nvfp4, two in a byte; largest 6; neither infinity nor NaN */
    RFG_E8M0, /* scales of the mx formats: powers of two from 2^-127 to 2^127; NaN 0xff */
    RFG_I64,  /* token ids, positions, slots */
    /* GGUF's, as stored in its files: a block holds its scales beside its elements */
    RFG_Q4_0, /* blocks of 32 elements in 18 bytes */
    RFG_Q4_1,
    RFG_Q5_0,
    RFG_Q5_1,
    RFG_Q8_0,
    RFG_Q2_K, /* of 256 */
    RFG_Q3_K,
    RFG_Q4_K,
    RFG_Q5_K,
    RFG_Q6_K,
    RFG_IQ4_NL, /* of 32 */
    RFG_IQ4_XS, /* of 256 */
    RFG_MXFP4,  /* of 32 in 17 bytes: e2m1 beside their e8m0 (files' type 39) */
    RFG_NVFP4,  /* of 64 in 36 bytes (type 40) */
    RFG_DTYPE_COUNT
} rfg_dtype;

/* "f32", "f16", "bf16", "e4m3", "e4m3fnuz", "e5m2", "i8", "i32", "i4", "e2m1", "e8m0", "i64",
 * "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4";
 * "none" for RFG_DTYPE_NONE and "?" for a value out of range. */
RFG_API const char *rfg_dtype_name(rfg_dtype dtype);
/* The bytes of so many packed elements. 0 if elements is below 1, if they are not whole bytes (an odd number of a 4-bit
 * dtype), or if the dtype is out of range. */
RFG_API size_t rfg_dtype_bytes(rfg_dtype dtype, int64_t elements);

#define RFG_MAX_DIMS 5

/* A view of memory that the caller owns: device memory on GPUs, host memory on "cpu". Strides are in elements,
 * as in DLPack. A call reads the view only until it returns. */
typedef struct rfg_tensor {
    void *data;
    rfg_dtype dtype;
    int32_t ndim;
    int64_t shape[RFG_MAX_DIMS];
    int64_t strides[RFG_MAX_DIMS];
} rfg_tensor;

/* A packed 1-d view. */
static inline rfg_tensor rfg_tensor_1d(void *data, rfg_dtype dtype, int64_t n)
{
    rfg_tensor t = { data, dtype, 1, { n, 0, 0, 0, 0 }, { 1, 0, 0, 0, 0 } };
    return t;
}

/* A row-major 2-d view whose rows start row_stride elements apart (row_stride >= cols). */
static inline rfg_tensor rfg_tensor_2d(void *data, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t row_stride)
{
    rfg_tensor t = { data, dtype, 2, { rows, cols, 0, 0, 0 }, { row_stride, 1, 0, 0, 0 } };
    return t;
}

/* A packed row-major view of 1 to RFG_MAX_DIMS dimensions. Like the two above it checks nothing: operators refuse any
 * other ndim, and sizes below 0. At most the first RFG_MAX_DIMS of shape are read. */
static inline rfg_tensor rfg_tensor_nd(void *data, rfg_dtype dtype, int32_t ndim, const int64_t *shape)
{
    rfg_tensor t = { data, dtype, ndim, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 } };
    uint64_t stride = 1;
    for (int32_t i = ndim < RFG_MAX_DIMS ? ndim : RFG_MAX_DIMS; i > 0; i--) {
        t.shape[i - 1] = shape[i - 1];
        t.strides[i - 1] = (int64_t)stride;
        stride *= (uint64_t)shape[i - 1];
    }
    return t;
}

/* ---- parameters of operators ---------------------------------------------------------------------------------

 * An operator's function takes the tensors that it can't do without, then one const rfg_<op>_params *, then the stream.
 * NULL in place of params asks for the defaults. The struct's first member is its size, so that it can grow later:
 *
 *   rfg_gemm_params p = { .size = sizeof(p), .bias = &bias };     (in C++ before C++20: p = RFG_GEMM_PARAMS_INIT,
 *   rfg_op_gemm(ctx, &y, &x, &w, &p, stream);                      then p.bias = &bias)
 *
 * A caller that was compiled with an older rfg has a smaller struct: members that it lacks count as zero. One that was
 * compiled with a newer rfg has a larger struct: bytes that this library doesn't know must be zero, so that nothing
 * that was asked for is ignored.
 *
 * In every such struct 0 asks for a member's default; the member's line says which that is. RFG_<OP>_PARAMS_INIT sets
 * size, and every other member to what NULL stands for. A member that would have no effect in a call is refused. The
 * exceptions are hints (max_seqlen_k, mean_seqlen_k), an order of filters without filters, sections without axes, and
 * a rope table's members of scalings that weren't asked for.
 *
 * Errors: INVALID_ARGUMENT if size is 0 (not set), no multiple of sizeof(size_t) or above 4096, or if a byte beyond
 * what this library knows is not 0. The struct, and the views that it points to, are read during the call only. */

/* ---- contexts ----------------------------------------------------------------------------------------------- */

typedef struct rfg_context rfg_context;

/* A hipStream_t on "amd:*", a CUstream/cudaStream_t on "nvidia:*", one of rfg_stream_create() (rfg/device.h) on every
 * device. NULL is the device's default stream; "cpu" has no others besides those of rfg_stream_create().
 *
 * All functions refuse hipStreamPerThread and hipStreamLegacy (CUDA: CU_STREAM_PER_THREAD, CU_STREAM_LEGACY) with
 * INVALID_ARGUMENT. In place of hipStreamLegacy pass NULL, which is the same stream. hipStreamPerThread is one value
 * for a stream of each thread, and a workspace belongs to one stream: pass a stream of the thread's own. */
typedef void *rfg_stream;

/* A struct that grows as operators' params do: see above. All members but size may be zero. Strings are copied. */
typedef struct rfg_context_params {
    size_t size; /* sizeof(rfg_context_params) */
    /* "cpu", "amd:0", "nvidia:0", "emu:gfx942:304". NULL: $RFG_DEVICE, else the first AMD device, else the first
     * NVIDIA device, else "cpu". */
    const char *device;
    /* The writable tuned database. NULL: $RFG_DB, else $XDG_DATA_HOME/rfg/user-v4.db. "": none. */
    const char *user_db;
    /* The read-only tuned database. NULL: $RFG_SYSTEM_DB, else the installed one for the device. "": none. */
    const char *system_db;
    /* The code-object cache. NULL: $RFG_CACHE_DIR, else $XDG_CACHE_HOME/rfg. "": memory only. */
    const char *cache_dir;
    /* Threads that CPU variants use, the caller's included; at most 1024. 0: $RFG_THREADS, else the online cores. */
    int32_t threads;
    /* 1: calls without a tuned row are written to user_db, for rfg-tune --from-misses. 0: if $RFG_MISSES is 1, or with
     * tune "online", which needs them. -1: never. rfg_stats counts them in any case. */
    int32_t misses;
    /* A comma-separated list of variants, e.g. "gemm_portable". NULL: $RFG_VARIANTS. An operator of which the list
     * names variants uses only those; the other operators are as ever. For bisecting a wrong result. */
    const char *variants;
    /* A file made by rfg-db pack. NULL: $RFG_PACK. "": none.
     *
     * With a pack nothing is compiled, and neither the tuned databases nor the code cache is read: only the pack's rows
     * and code objects are used. (Misses still go to user_db.) A problem that the pack was not made for uses the best
     * kernel of the pack, by the usual rules. If none fits, the call fails with COMPILE, and the message has the
     * problem. Host variants and vendors' libraries need no code. */
    const char *pack;
    /* "online": problems without a tuned row are tuned while the program goes on. NULL: $RFG_TUNE. "" or "off": no.
     *
     * A call without a tuned row starts rfg-tune in the background: the one beside the library or in its prefix, one
     * process for each user_db. It uses the device for at most $RFG_TUNE_BUDGET_MS (500) of each minute. It verifies
     * every candidate as usual, and writes provisional rows to user_db. A later call of the problem, outside of
     * captures, uses the row: it loads the new kernel as a first call does. Captured graphs stay as they were. Failures
     * of the tuner are logged, and never fail a call. The tuner ends with the context or the process. It doesn't start
     * with a pack, with misses -1, or without a user_db. docs/engine.md has more. */
    const char *tune;
    /* Not 0: launches overlap. 0: $RFG_LAUNCH_OVERLAP, 0 or 1.
     *
     * A kernel may begin before the kernel before it in the stream has ended (NVIDIA's programmatic dependent launch,
     * from sm_90 on; ignored elsewhere). It still waits for that end before it reads or writes anything that a kernel
     * may write. The exception are weights: w of rfg_op_gemm(), weight and bias of norms, q_norm and k_norm of
     * rfg_op_rope_append(). They may be fetched at once. So the caller promises that nothing in the stream writes them,
     * other than work that had ended before the stream's first overlapped call.
     *
     * Rows tuned for it (rfg-tune --overlap) come first. Such a row may say that the plain launch was faster; then the
     * launch doesn't overlap. Where there is no such row, other tuned rows serve. */
    int32_t launch_overlap;
    /* Not 0: the bits of a row do not depend on how many rows a call has, where among them the row is, or what the
     * others hold. 0: $RFG_BATCH_INVARIANT, 0 or 1.
     *
     * A row is one of x of rfg_op_gemm() and the norms, and a query of rfg_op_mha(), rfg_op_mha_decode() (rfg/mha.h
     * says what else must be equal) and rfg_op_mla_decode(). Embeddings, activations, rotary embeddings, rfg_op_merge_states(), rfg_op_argmax()
     * and rfg_op_sample() are so anyway.
     *
     * These may vary without changing a row's bits: M; for attention the sequences, their lengths, and the capacity of
     * the tensors; tuned rows, misses, calibrations, packs, threads, and tuning that goes on meanwhile. These may
     * change them: the device (architecture, number of CUs, product; on "cpu" its instruction set), the version of rfg,
     * `variants`, and everything else of the call. Row strides and alignments count: x with rows that are not aligned
     * to 16 bytes uses another kernel.
     *
     * Only tuned rows of invariant=1 problems are used (rfg-tune --invariant), and of these only rows with the chosen
     * order of summation. If that order's kernel can't be compiled, the call fails.
     *
     * It costs speed. No vendor's library is used, and k is not split across workgroups (except by clusters, on sm_90).
     * Of the kernels for few rows only those are used that also take many rows: on GPUs, products with f32, or with w
     * of another dtype, use the portable kernel. rfg_explain() says what was decided. */
    int32_t batch_invariant;
} rfg_context_params;
#define RFG_CONTEXT_PARAMS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(rfg_context_params), NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, 0, 0                               \
    }

/* Opens a device: loads its platform and reads the databases into memory. This takes milliseconds: do it once per
 * process and device. A missing or corrupt database is a warning (rfg_set_log_callback()), not an error.
 * Errors: INVALID_ARGUMENT (size; unknown device name; threads; misses; a variant that there isn't;
 * $RFG_MISSES, $RFG_LAUNCH_OVERLAP, $RFG_BATCH_INVARIANT or $RFG_VENDOR other than 0 and 1; a platform in
 * $RFG_HIP_DISABLE that there isn't;
 * $RFG_KERNEL_DIR without kernel sources; tune, $RFG_TUNE or $RFG_TUNE_BUDGET_MS other than what they may be), DEVICE
 * (no such device; the platform's library is missing), DATABASE (a pack that is damaged, of another build of rfg, not
 * ours or root's alone, or without code for the device), OUT_OF_MEMORY. On error *ctx is NULL. params may be NULL. */
RFG_API RFG_NODISCARD rfg_status rfg_context_create(rfg_context **ctx, const rfg_context_params *params);

/* Writes the misses (see rfg_context_params.misses), frees everything and sets *ctx to NULL. It does not wait for the
 * device: work that the caller queued must have finished. ctx or *ctx may be NULL. */
RFG_API void rfg_context_destroy(rfg_context **ctx);

/* "cpu", "nvidia:0", ...; valid as long as the context. "" if ctx is NULL. */
RFG_API const char *rfg_context_device(const rfg_context *ctx);

/* Allocates the workspace of a stream ahead of time, so that ops on it never allocate. A stream that the engine
 * captures by itself needs this before its first op under capture. The first time it waits for what was queued on the
 * stream.
 *
 * A captured graph uses the workspace of the stream that it was captured from. So do not replay it at the same time as
 * another replay of it, or as other rfg work on that stream. It may be replayed on any stream, if the stream that it
 * was captured from was waited for after its workspace was allocated, as this function does.
 *
 * An engine that destroys a stream of its own should give its workspace back before:
 * rfg_stream_set_workspace(ctx, stream, NULL, 0) of rfg/device.h, with which an engine can also give the memory itself.
 * A context serves at most 256 streams at a time.
 * Errors: OUT_OF_MEMORY, DEVICE, INVALID_ARGUMENT (on "cpu", a stream that rfg_stream_create() didn't make). */
RFG_API RFG_NODISCARD rfg_status rfg_prepare_stream(rfg_context *ctx, rfg_stream stream);

/* ---- problem strings ------------------------------------------------------------------------------------------

 * A problem string names what a call computes: the operator, its dtypes, its sizes and its options. Logs, shapes files,
 * the tools and the functions below use it. rfg_describe_begin() tells the string of a call. Each operator's header
 * lists its keys; so does `rfg-info --keys`. A key is left out where it has its default.
 *
 * "layout" marks keys that no tuned row has, because rows say what is fast for a shape:
 *   ld..=        a row stride in elements, if rows are not packed
 *   align..=     alignment in bytes of pointers and row strides, if it is below 16
 *   inplace=     an output is an input
 * Keys of a context:
 *   overlap=1    launch_overlap, on a device that can
 *   invariant=1  batch_invariant, of operators whose results depend on an order of summation */

/* Finds, compiles and loads the variant for a problem string such as "gemm bf16,bf16->bf16 M=8 N=2112 K=7168". Then the
 * first op call neither compiles nor allocates, and is legal under stream capture. The string must be the one of the
 * call, strides and alignment included: rfg_describe_begin() tells it.
 *
 * One key may have a range: M=1..256 in place of M=8 above prepares what each of these M needs. The string may hold
 * several problems, one a line, each with or without a range, such as rfg_describe_begin()'s for rfg_op_moe(). They may
 * be RFG_PREPARE_MAX problems in all. Problems share kernels; each kernel is compiled once, on all cores, in worker
 * processes. A string that is refused prepares nothing. Preparing stops at the first problem that fails.
 * Errors: INVALID_ARGUMENT (the string, with the offending part), UNSUPPORTED, COMPILE, IO, DEVICE, OUT_OF_MEMORY. */
#define RFG_PREPARE_MAX 4096
RFG_API RFG_NODISCARD rfg_status rfg_prepare(rfg_context *ctx, const char *problem);

/* The same for every row of a shapes file (header: op,dtype,M,N,K[,attrs][,weight], where one number of a line may be a
 * range; AITER's tuned and untuned *.csv are understood: docs/shipping.md). Compiles on all cores, in worker processes.
 * Bad lines are reported and skipped: the call then returns INVALID_ARGUMENT with the first one's file, line, column,
 * value and rule, after preparing the good ones. */
RFG_API RFG_NODISCARD rfg_status rfg_prepare_from_csv(rfg_context *ctx, const char *path);

/* Writes what the dispatcher does with a problem and why, as text of several lines: the rung taken, the variant
 * and its parameters, the tuned row's provenance, and why each other variant was passed over. As with
 * rfg_prepare(), there may be several problems, one a line: each problem's text then begins with the problem. It
 * compiles and loads nothing.
 *
 * buf is always terminated (size > 0). Errors: INVALID_ARGUMENT for a bad string, with buf empty; and if the text
 * doesn't fit, with its beginning in buf and the size that it needs in the message. */
RFG_API RFG_NODISCARD rfg_status rfg_explain(rfg_context *ctx, const char *problem, char *buf, size_t size);

/* Tells the problem strings of calls without running them. Between rfg_describe_begin() and rfg_describe_end() the
 * calling thread's op calls with ctx check their arguments as usual, append their problems to buf, one a line, and
 * return. Nothing is compiled, launched or written, and device memory isn't read.
 *
 * Most calls have one problem. rfg_op_moe() has those of all operators that it is made of, in their order;
 * rfg_prepare() of buf prepares all of them.
 *
 *   char problem[RFG_DESCRIBE_MAX];
 *   if (rfg_describe_begin(ctx, problem, sizeof(problem)) != RFG_OK)
 *       die(rfg_last_error());
 *   rfg_status st = rfg_op_gemm(ctx, &y, &x, &w, NULL, stream);
 *   rfg_describe_end(ctx);
 *
 * rfg_describe_begin() sets buf to "". A call that is refused, or has nothing to do (M = 0), adds no problem. A problem
 * that is in buf already isn't added again. A problem is shorter than RFG_PROBLEM_MAX, and those of one call together
 * are shorter than RFG_DESCRIBE_MAX. A call whose problems don't fit is refused (INVALID_ARGUMENT); those of earlier
 * calls are kept. A thread describes the calls of one context at a time.
 * Errors: INVALID_ARGUMENT (ctx or buf is NULL, size < RFG_PROBLEM_MAX, the thread describes already). */
#define RFG_PROBLEM_MAX  512
#define RFG_DESCRIBE_MAX (8 * RFG_PROBLEM_MAX)
RFG_API RFG_NODISCARD rfg_status rfg_describe_begin(rfg_context *ctx, char *buf, size_t size);
/* From here on calls are made again. Without an rfg_describe_begin() it does nothing. ctx may be NULL. */
RFG_API void rfg_describe_end(rfg_context *ctx);

/* ---- the log ------------------------------------------------------------------------------------------------ */

/* What a line is about. $RFG_LOG=dispatch,calls,jit or all switches the last three on; warnings are always on. */
typedef enum rfg_log_topic {
    RFG_LOG_DISPATCH = 1, /* which variant serves a problem, and why */
    RFG_LOG_CALLS = 2,    /* each op call's problem */
    RFG_LOG_JIT = 4,      /* compiles */
    RFG_LOG_WARNING = 8   /* something is wrong that a call gets around: a corrupt database, a variant that fails */
} rfg_log_topic;

/* line: one line of text without its newline, unprintable characters escaped; valid during the call. */
typedef void (*rfg_log_fn)(void *user, rfg_log_topic topic, const char *line);

/* From now on fn gets the lines of the log and the warnings of the whole process, in place of stderr. topics: bits of
 * rfg_log_topic that are wanted besides those of $RFG_LOG; 0: none. fn NULL: stderr again, $RFG_LOG alone.
 *
 * fn is called by whichever thread has something to say, the library's own threads included, one call at a time. It
 * runs inside rfg's calls, so it must return soon, and must neither call rfg nor fork(). When rfg_set_log_callback()
 * returns, the function that was set before is not running and won't be called any more. The child of a fork() has the
 * same function set. */
RFG_API void rfg_set_log_callback(rfg_log_fn fn, void *user, unsigned topics);

/* ---- statistics --------------------------------------------------------------------------------------------- */

/* What the context did so far. */
typedef struct rfg_stats {
    size_t size;         /* sizeof(rfg_stats), set by the caller */
    uint64_t calls;      /* op calls that were launched */
    uint64_t misses;     /* of them, not answered by an exact tuned row (rung 1) */
    uint64_t plans;      /* distinct problems seen */
    uint64_t compiles;   /* compiler runs */
    uint64_t cache_hits; /* code objects found in the cache on disk or in memory */
    uint64_t tuned;      /* problems that took up a row which was tuned since the context was made (tune="online") */
} rfg_stats;
#define RFG_STATS_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(rfg_stats), 0, 0, 0, 0, 0, 0                                                                            \
    }

/* Fills the members that stats->size has room for; members that this library doesn't know become 0. So start from
 * rfg_stats s = RFG_STATS_INIT. All are 0 if ctx is NULL. Nothing is written if stats is NULL or its size is wrong, by
 * the rule for params above. Each of these is said in rfg_last_error(). */
RFG_API void rfg_context_stats(rfg_context *ctx, rfg_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
