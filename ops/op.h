/* SPDX-License-Identifier: MIT
 *
 * The contracts of an operator and of a variant. Both are const tables: an operator lists its variants, the
 * dispatcher, the tuner and the tests ask them questions. Nothing here knows a database, a JIT or a GPU runtime. */
#ifndef RFG_OPS_OP_H
#define RFG_OPS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arch.h"
#include "base/error.h"
#include "format.h"
#include "problem.h"
#include "rfg/core.h"

struct rfg_cpu_pool;
struct rfg_hip;

/* ---- devices ------------------------------------------------------------------------------------------------ */

/* A device's facts, by which variants judge and rank themselves. Plain data, so that tools can use a device that isn't
 * there (`rfg-tune --dry-run --device gfx942:304`, compile tests). Peak figures are estimates for ranking only. */
struct rfg_device {
    char name[40]; /* "cpu", "nvidia:0", "emu:gfx942:304" */
    enum rfg_platform platform;
    char arch[32];             /* the tuned row's arch: "gfx942", "sm_90", "cpu-avx512bf16" */
    char target[32];           /* what the compiler is asked for: "gfx942", "sm_90a"; "" on cpu */
    const struct rfg_arch *hw; /* what follows from the target; never NULL of a device that can be opened or imagined */
    int cu_count;              /* CUs (of RDNA too, where HIP counts WGPs), SMs, or CPU threads */
    int wave_size;             /* 64, 32; 1 on cpu */
    int lds_bytes;             /* a workgroup's limit */
    int max_threads;           /* of a workgroup */
    int xcds;                  /* dies with an L2 of their own, which workgroups go round; 0 and 1: one for all */
    unsigned features;         /* enum rfg_feature */
    double mem_gbps;           /* device memory bandwidth, GB/s */
    double mma_tflops;         /* dense bf16/fp16 with fp32 accumulation */
    double fma_tflops;         /* fp32 FMA */
    double latency_us;         /* launch, load, store: what one launch more costs inside a graph, empty */
    double sync_us;            /* a reduction across workgroups through memory, over and above latency_us */
    double load_us;            /* from a load's issue to its data out of memory */
    double cache_gbps;         /* what all CUs together take from the last-level cache they share, GB/s */
    int64_t cache_bytes; /* the largest cache in front of memory: AMD's Infinity Cache, else the L2, the cpu's L3 */
    bool calibrated;     /* what of this is a time or a rate was measured here */
};

/* ---- variants ----------------------------------------------------------------------------------------------- */

#define RFG_MAX_THREADS 1024 /* of a cpu device */

#define RFG_MAX_PARAMS 12
#define RFG_MAX_VALUES 16
#define RFG_MAX_MACROS 32

struct rfg_param {
    const char *name; /* as in the tuned row's JSON; never renamed */
    int n;
    int values[RFG_MAX_VALUES]; /* what the tuner sweeps; also all that a tuned row may say */
};

/* One compile: what hipRTC specialises. Must depend only on dtypes and parameters, never on M, N, K, so that
 * problems share code objects. */
struct rfg_kernel {
    const char *source; /* an embedded file, e.g. "gemm/gpu/any/skinny.hip" */
    const char *entry;  /* the extern "C" __global__ function */
    int n_macros;
    struct {
        const char *name;
        int value;
    } macros[RFG_MAX_MACROS];
};
void rfg_kernel_macro(struct rfg_kernel *k, const char *name, int value);

struct rfg_launch {
    uint32_t grid[3];  /* in workgroups */
    uint32_t block[3]; /* in threads */
    uint32_t lds;      /* dynamic LDS bytes */
};

/* A matrix in device memory that a kernel copies tiles of with RFG_FEATURE_TMA (rfg_tma.h). data and stride: multiples
 * of 16 bytes. */
struct rfg_tile_map {
    const void *data;
    int64_t rows, row_bytes, stride; /* stride: bytes from a row to the next */
    int tile_rows;                   /* at most 256, of 128 bytes each */
    /* Not 0: row r and what lies so many bytes behind it take turns in a tile, whose rows are half of the one and half
     * of the other. A multiple of 16; `rows` are those of the first. */
    int64_t turns;
};
#define RFG_MAX_TILE_MAPS 3

enum rfg_variant_kind {
    RFG_VARIANT_KERNEL, /* JIT-compiled for a GPU */
    RFG_VARIANT_HOST,   /* a C function for the cpu device */
    RFG_VARIANT_VENDOR, /* a vendor's library, loaded by dlopen */
};

/* Every op's kernel argument struct has this in it (struct rfg_op, head); the dispatcher fills it before a launch. */
struct rfg_kargs_head {
    void *workspace;    /* variant->workspace() bytes, 256-byte aligned; contents undefined */
    uint32_t *counters; /* RFG_COUNTERS zeroes (GPU only); a launch must leave them zero */
};
#define RFG_COUNTERS        65536
#define RFG_WORKSPACE_BYTES ((size_t)32 << 20) /* what kernels may use of a stream's */
/* What a stream of the device has: more on large AMD GPUs, where hipBLASLt's Stream-K keeps a tile of 256 x 256 fp32
 * sums a CU. A multiple of RFG_WORKSPACE_BYTES: 96 MiB on an MI300X, 64 on an MI300A (AMD advises 64 to
 * 128 on gfx942). */
size_t rfg_workspace_bytes(const struct rfg_device *dev);

/* What a vendor variant may use while it prepares and runs. */
struct rfg_vendor_env {
    const struct rfg_hip *hip;
    int device; /* ordinal of the platform */
    void
        *workspace; /* of variant->workspace() bytes; NULL while a handle is opened, and in prepare but for first_run */
    rfg_stream stream;
    void *handle; /* of vendor_open(): the stream's; NULL if the variant has none */
};
#define RFG_FIRST_RUN_BYTES ((size_t)1 << 20) /* the workspace in prepare of a variant with first_run */

/* An order of summation, in words: variants with the same words give the same bits. */
struct rfg_order {
    char words[80];
};

/* All functions but launch-time ones are pure. `p` holds the parameter values in the order of `params`. */
struct rfg_variant {
    const char *name; /* stable id, "gemm_splitk_mma"; never reused or renamed */
    enum rfg_variant_kind kind;
    int n_params;
    const struct rfg_param *params;
    size_t
        joint_args; /* bytes of struct comm_args behind the operator's arguments, if it is of several ranks; else 0 */

    /* Whether this variant can serve the problem on the device with some parameters; says why not. */
    bool (*supports)(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why);
    /* Are these parameters legal for it? Static limits (LDS, registers, divisibility) live here; that a stream's
     * workspace and a launch are large enough is looked after for all. Called only if supports() and each value is one
     * of the listed ones. May be NULL: always. */
    bool (*valid)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why);
    /* Of the valid ones, is this worth a measurement, and the model's notice? Prunes the sweep; a tuned row may say
     * what isn't worth it (it comes from another M). May be NULL: always. */
    bool (*worth)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_reason *why);
    /* The analytical model: estimated microseconds. */
    double (*predict)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);
    /* Workspace bytes; NULL: 0. */
    size_t (*workspace)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p);
    /* Of an invariant=1 problem: the order in which a row's elements are summed, as words: parameters with the same
     * words give a row the same bits, however many rows there are and whatever is in the others. What it says must not
     * depend on the sizes that rfg_op.at_size sets, and some parameters with these words must be valid for any of
     * them. Of the others it says why not. NULL: none. */
    bool (*order)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_order *order,
                  struct rfg_reason *why);

    /* RFG_VARIANT_KERNEL */
    void (*kernel)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_kernel *k);
    void (*launch)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, struct rfg_launch *l);
    /* Matrices that its kernel has further parameters for; returns how many, at most RFG_MAX_TILE_MAPS. kargs: the op's
     * argument struct. NULL: none. */
    int (*tile_maps)(const struct rfg_problem *prob, const int *p, const void *kargs, struct rfg_tile_map *maps);

    /* RFG_VARIANT_HOST. kargs: the op's argument struct. */
    void (*run)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p, const void *kargs,
                struct rfg_cpu_pool *pool);

    /* RFG_VARIANT_VENDOR. prepare finds the library and an algorithm (slow; not under capture); run only launches.
     * version is the library's, for the tuned row ("" if it isn't there).
     * Libraries of which a handle serves one stream at a time have one for each stream, and one for prepare: opens says
     * whether there are handles on a device, open makes one, bind (may be NULL) tells it its stream. That is done while
     * nothing is captured: libraries allocate then, and end the process if they can't. open NULL: there
     * are no handles. */
    bool (*vendor_opens)(const struct rfg_device *dev);
    rfg_status (*vendor_open)(const struct rfg_device *dev, const struct rfg_vendor_env *env, void **handle);
    rfg_status (*vendor_bind)(void *handle, const struct rfg_vendor_env *env);
    void (*vendor_close)(void *handle);
    rfg_status (*vendor_prepare)(const struct rfg_device *dev, const struct rfg_problem *prob, const int *p,
                                 const struct rfg_vendor_env *env, void **plan);
    rfg_status (*vendor_run)(void *plan, const void *kargs, const struct rfg_vendor_env *env);
    void (*vendor_release)(void *plan);
    const char *(*vendor_version)(const struct rfg_device *dev);
    bool by_version; /* parameters mean something to the version that they were measured with only */
    /* The first use may end the process: it is tried in a child before, which takes the same library by setting ("NAME=
     * VALUE"), and prepare does a product. */
    bool first_run;
    void (*vendor_setting)(char *buf, size_t size);
};

/* Calls fn for every parameter set that is listed, supported, valid and worth it, in the order of the parameter list.
 * Stops early if fn returns false. Returns how many it offered. */
int rfg_variant_each(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                     bool (*fn)(void *ctx, const int *p), void *ctx);

/* The same of those that sum in this order (NULL: in any); if none of these is worth it, all that are valid. */
int rfg_variant_each_in(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                        const struct rfg_order *order, bool (*fn)(void *ctx, const int *p), void *ctx);

/* Whether each value of p is one that its parameter lists. */
bool rfg_params_listed(const struct rfg_variant *var, const int *p, struct rfg_reason *why);

/* Whether p is a listed, valid choice. (Tuned rows are checked with this before they are used.) */
bool rfg_variant_check(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                       const int *p, struct rfg_reason *why);

/* Whether it can serve the problem with some parameters: supports(), and an order() if the problem needs one. */
bool rfg_variant_supports(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                          struct rfg_reason *why);

/* The order in which rows of an invariant=1 problem are summed on a device, whatever at_size() sets: the one that the
 * model expects to be fastest for few rows and for many alike. variants: the list that restricts them. */
bool rfg_order_find(const struct rfg_device *dev, const struct rfg_problem *prob, const char *variants,
                    struct rfg_order *order, struct rfg_reason *why);
/* Whether the variant sums in this order with these (valid) parameters; if not, says in which. */
bool rfg_order_kept(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, const struct rfg_order *order, struct rfg_reason *why);

/* Whether a comma-separated list of variants' names allows this variant of op. The list restricts only operators of
 * which it names a variant; list NULL: none. */
bool rfg_variant_listed(const char *list, const struct rfg_op *op, const struct rfg_variant *var);
/* Whether each name in the list is some operator's variant. */
bool rfg_variants_known(const char *list, struct rfg_reason *why);

/* "gemm_skinny{waves=4,rows=2}": for people and for --variant options; and back. */
#define RFG_CONFIG_STRLEN 256
char *rfg_config_format(const struct rfg_variant *var, const int *p, char *buf, size_t size);
bool rfg_config_parse(const struct rfg_op *op, const char *text, const struct rfg_variant **var, int *p,
                      struct rfg_reason *why);

/* ---- operators ---------------------------------------------------------------------------------------------- */

/* Where the format of an operand stands in a problem. */
enum rfg_format_at {
    RFG_FORMAT_LISTED,   /* at position `of` of the list of dtypes: inputs, then outputs */
    RFG_FORMAT_KEYED,    /* in key `of`, one with formats; while it is 0 as operand `same - 1`, or absent */
    RFG_FORMAT_AS,       /* as operand `of`'s */
    RFG_FORMAT_ALWAYS,   /* `of` is the rfg_dtype */
    RFG_FORMAT_OF_SCALE, /* of scales whose rfg_scale_kind is in key `of`: e8m0 of mx, else f32 */
};

struct rfg_op_operand {
    const char *name; /* its role, as the public function, its errors and struct rfg_tensor_spec call it */
    bool output;
    enum rfg_format_at at;
    int of, same;
};

struct rfg_op {
    const char *name;
    uint16_t id;     /* stable; part of hashes */
    int n_in, n_out; /* dtypes in the problem string */
    int n_operands;
    const struct rfg_op_operand *operands; /* those of the list of dtypes first, in its order */
    int n_keys;
    const struct rfg_key *keys; /* the last one: RFG_KEY_OVERLAP */
    const char *column_key[3];  /* the keys that are the tuned row's M, N and K columns; NULL where it has none */
    size_t kargs_size;
    size_t head; /* where struct rfg_kargs_head is in it */

    /* Operators whose results depend on an order of summation have the key RFG_KEY_INVARIANT, the last but one, and
     * this: it sets the sizes that the order must not depend on, to few (large false) or many. NULL: no such key. */
    void (*at_size)(struct rfg_problem *prob, bool large);

    /* Problems may say what a call doesn't tell (gemm's routing): it sets that in a call's key to what its i-th best
     * tuned rows say, and false, when there are no more, leaves the key alone. The last one is the call's own. NULL:
     * only that. */
    bool (*row_key)(struct rfg_problem *key, int i);
    /* Whether its data follow an engine's recording; a tuned row then names the recording. NULL: no. */
    bool (*is_recorded)(const struct rfg_problem *prob);
    /* Its kernels are of all ranks of a communicator (rfg/comm.h), which chooses and launches them: no context runs such
     * a problem alone. In rfg_joint_ops, and not in the registry. */
    bool joint;
#define RFG_RECORDING_NAME 17 /* for a recording's name: 16 hexadecimal digits, a hash of what was recorded */

    /* Whether the operator's contract allows this combination of dtypes and values. For calls the dispatcher asks only
     * if a problem is new. A message also names the tensors that a value comes from. */
    bool (*valid)(const struct rfg_problem *prob, struct rfg_reason *why);
    /* Bytes that must move (each tensor once) and floating-point operations. */
    void (*cost)(const struct rfg_problem *prob, double *bytes, double *flops);
};

/* Members of a descriptor that go together. */
#define RFG_OPERANDS(array) .n_operands = sizeof(array) / sizeof((array)[0]), .operands = (array)
#define RFG_KARGS(type)     .kargs_size = sizeof(type), .head = offsetof(type, workspace)

/* Every operator's last key: the launch may begin before the kernel before it in the stream has ended (struct
 * rfg_context_params, launch_overlap). What is fast then is something else, so it has tuned rows of its own. Op
 * functions leave it 0: the dispatcher knows its context. */
#define RFG_KEY_OVERLAP                                                                                                \
    {                                                                                                                  \
        "overlap", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: of a context with launch_overlap, on a device that can"            \
    }
static inline bool rfg_problem_overlaps(const struct rfg_problem *p)
{
    return p->v[p->op->n_keys - 1] != 0;
}
static inline struct rfg_problem rfg_problem_with_overlap(const struct rfg_problem *p, bool overlap)
{
    struct rfg_problem copy = *p;
    copy.v[p->op->n_keys - 1] = overlap;
    return copy;
}

/* The last key but one of operators with at_size(): a row's bits do not depend on the rows beside it (struct
 * rfg_context_params, batch_invariant). Fewer kernels will do then, so it has tuned rows of its own. Op functions leave
 * it 0, too. */
#define RFG_KEY_INVARIANT                                                                                              \
    {                                                                                                                  \
        "invariant", RFG_KEY_ATTR, 0, 0, 1, NULL, "1: of a context with batch_invariant"                               \
    }
static inline bool rfg_problem_is_invariant(const struct rfg_problem *p)
{
    return p->op->at_size && p->v[p->op->n_keys - 2] != 0;
}
static inline struct rfg_problem rfg_problem_with_invariant(const struct rfg_problem *p, bool invariant)
{
    struct rfg_problem copy = *p;
    if (p->op->at_size)
        copy.v[p->op->n_keys - 2] = invariant;
    return copy;
}

static inline bool rfg_problem_row_key(struct rfg_problem *key, int i)
{
    return key->op->row_key ? key->op->row_key(key, i) : i == 0;
}
static inline bool rfg_problem_is_recorded(const struct rfg_problem *p)
{
    return p->op->is_recorded && p->op->is_recorded(p);
}
/* What a call asks for that the problem stands for. */
static inline struct rfg_problem rfg_problem_as_called(const struct rfg_problem *p)
{
    struct rfg_problem call = *p;
    for (int i = 0; rfg_problem_row_key(&call, i); i++)
        ;
    return call;
}

/* supports() of variants that take all problems on the cpu device. prob: not looked at. */
bool rfg_cpu_only(const struct rfg_device *dev, const struct rfg_problem *prob, struct rfg_reason *why);

/* Can the device overlap launches (RFG_FEATURE_OVERLAP)? Says why not: "overlap=1: ...". */
bool rfg_device_can_overlap(const struct rfg_device *dev, struct rfg_reason *why);

/* How many b cover a, both at least 0. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* What kernels divide by d > 0 with: i / d is the upper half of 2 i * mul, shifted right, for i < 2^31. */
static inline void rfg_divisor(unsigned d, unsigned *mul, unsigned *shift)
{
    *shift = d > 1 ? 32 - (unsigned)__builtin_clz(d - 1) : 0;
    *mul = (unsigned)((((uint64_t)1 << (31 + *shift)) + d - 1) / d);
}

/* The registry (registry.def): NULL-terminated, and the only place that an operator is listed. */
extern const struct rfg_op *const rfg_ops[];
extern const struct rfg_op *const rfg_joint_ops[]; /* likewise */
/* Of both. */
const struct rfg_op *rfg_op_find(const char *name, size_t len);
/* Refuses problems of joint operators, for what runs a problem on one device. */
bool rfg_problem_is_alone(const struct rfg_problem *prob, struct rfg_reason *why);

#define RFG_MAX_VARIANTS 32 /* bits of a mask of them */

/* An operator's variants, in order of preference where the model ties; the portable ones come last. They stand apart
 * from its descriptor, so that what only reads problems links without kernels. */
struct rfg_variants {
    int n;
    const struct rfg_variant *const *list;
};
#define RFG_VARIANTS(op_name, ...)                                                                                     \
    static const struct rfg_variant *const op_name##_list[] = { __VA_ARGS__ };                                         \
    const struct rfg_variants rfg_op_##op_name##_variants = { sizeof(op_name##_list) / sizeof(op_name##_list[0]),      \
                                                              op_name##_list };                                        \
    _Static_assert(sizeof(op_name##_list) / sizeof(op_name##_list[0]) <= RFG_MAX_VARIANTS, "rfg_choose()'s skip")
const struct rfg_variants *rfg_op_variants(const struct rfg_op *op);
const struct rfg_variant *rfg_variant_find(const struct rfg_op *op, const char *name);
/* Its bit in a mask of op's variants. */
uint32_t rfg_variant_bit(const struct rfg_op *op, const struct rfg_variant *var);

#endif
