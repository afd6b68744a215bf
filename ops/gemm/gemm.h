/* SPDX-License-Identifier: MIT */
#ifndef RFG_OPS_GEMM_H
#define RFG_OPS_GEMM_H

#include "ops/gates.h"
#include "ops/gemm_sum.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "gemm_args.h"
#include "prepack_layout.h"
#include "rfg/gemm.h"

/* Indices of the problem's keys, in the order of gemm_keys. */
enum {
    GEMM_M,
    GEMM_N, /* rows of w */
    GEMM_K,
    GEMM_BATCH, /* products of M x N x K, each with a w of its own; 0: one, of matrices */
    GEMM_BIAS,
    GEMM_BTYPE,     /* the bias' rfg_dtype; 0: x's */
    GEMM_RESIDUAL,  /* 1: there is one, of y's dtype */
    GEMM_GATED,     /* "act": enum rfg_act + 1 of a gated activation; 0: none */
    GEMM_LIMIT,     /* rfg_gate_limit_key() */
    GEMM_GATES,     /* rfg_gates of it: how rows of w lie */
    GEMM_EXPERTS,   /* experts of a grouped product, each with N rows of w; 0: it is a plain one */
    GEMM_TOP,       /* of it: rows of y for each of x, which params' rows say; 0: x has its own row for each */
    GEMM_WEIGHTS,   /* of it, 1: rows of y have weights */
    GEMM_ROUTING,   /* enum gemm_routing: how its rows are shared out among experts */
    GEMM_SLOTS,     /* of it: so many rows are summed to one of y, and the residual's is added; 0: none are */
    GEMM_IDS,       /* of it, 1: of each row of y its expert is said, in any order, in place of offsets and rows */
    GEMM_W_SCALE,   /* the rfg_dtype of w's scales; 0: it has none */
    GEMM_W_ZERO,    /* the rfg_dtype of w's zero points; 0: it has none */
    GEMM_W_GROUP,   /* columns of w that share a scale, in formats of the list (gemm_w_format()); of codes per group */
    GEMM_W_GLOBAL,  /* 1: w's scales are multiplied by one of the tensor, f32 (an expert's) */
    GEMM_X_SCALE,   /* of codes: the rfg_dtype of x's scales; 0: it has none */
    GEMM_X_PER,     /* enum rfg_gemm_scale: what of codes shares a scale, */
    GEMM_W_PER,     /* of w of codes, */
    GEMM_FAST,      /* "fast": sums of fp8 may be as Hopper's matrix unit has them */
    GEMM_PREPACKED, /* "packed": W is as rfg_gemm_prepack() leaves it */
    GEMM_LDX,       /* row strides in elements; 0: rows follow each other (K, K, N) */
    GEMM_LDW,
    GEMM_LDY,
    GEMM_LDR,       /* of the residual */
    GEMM_X_COLUMNS, /* 1: x's scales are column-major */
    GEMM_W_COLUMNS,
    GEMM_INPLACE, /* y is the residual */
    GEMM_TOKENS,  /* with slots, 1: device memory says how many rows of y count */
    GEMM_X_ROWS,  /* with top: rows of x, if it is far (gemm_far_rows()); 0: M / top, or more within 2 GiB */
    GEMM_ALIGN,   /* 1, 2, 4, 8, 16: what x's and w's pointers and row strides, in bytes, are multiples of */
    GEMM_ALIGN_Y, /* the same for y and bias */
    GEMM_INVARIANT,
    GEMM_OVERLAP,
    GEMM_NKEYS
};

/* dtype[0] = X, dtype[1] = W, dtype[2] = Y. */

/* Planes of a grid. */
#define GEMM_MAX_BATCH 65535

/* "tensor", "row", ...: an rfg_gemm_scale as keys spell it. */
const char *gemm_per_name(int64_t per);

/* What is timed: experts that are as likely as one another; by Zipf's law; one that has all rows; as loads.h has it. */
enum gemm_routing { GEMM_UNIFORM, GEMM_ZIPF, GEMM_ONE, GEMM_RECORDED };

/* Of a gated one. */
static inline rfg_act gemm_act(const struct rfg_problem *prob)
{
    return (rfg_act)(prob->v[GEMM_GATED] - 1);
}
static inline bool gemm_is_limited(const struct rfg_problem *prob)
{
    return prob->v[GEMM_GATED] && rfg_gate_is_limited(gemm_act(prob), prob->v[GEMM_LIMIT]);
}

/* Are rows of w all gates, then all ups? */
static inline bool gemm_halves(const struct rfg_problem *prob)
{
    return prob->v[GEMM_GATED] && prob->v[GEMM_GATES] == RFG_GATES_HALVES;
}

/* Products of a batch; 1: there is one, of matrices perhaps. */
static inline int64_t gemm_products(const struct rfg_problem *prob)
{
    return prob->v[GEMM_BATCH] ? prob->v[GEMM_BATCH] : 1;
}

/* Rows of all experts' w. */
static inline int64_t gemm_w_rows(const struct rfg_problem *prob)
{
    return prob->v[GEMM_N] * (prob->v[GEMM_EXPERTS] ? prob->v[GEMM_EXPERTS] : 1);
}
static inline int64_t gemm_y_rows(const struct rfg_problem *prob)
{
    return prob->v[GEMM_SLOTS] ? prob->v[GEMM_M] / prob->v[GEMM_SLOTS] : prob->v[GEMM_M];
}
/* Rows of x that are read, and that it has as far as the problem says: of an x whose rows are gathered more. */
static inline int64_t gemm_x_rows(const struct rfg_problem *prob)
{
    return prob->v[GEMM_TOP] ? ceil_div(prob->v[GEMM_M], prob->v[GEMM_TOP]) : prob->v[GEMM_M];
}
static inline int64_t gemm_all_x_rows(const struct rfg_problem *prob)
{
    return prob->v[GEMM_X_ROWS] ? prob->v[GEMM_X_ROWS] : gemm_x_rows(prob);
}
/* What GEMM_X_ROWS says of a gathered x of so many rows, ld elements apart: 0 if 32 bits count its bytes, else a power
 * of two, so that such calls have few plans. */
int64_t gemm_far_rows(int64_t rows, int64_t ld);
/* Of a grouped product, the plain one that costs about as much: of the rows that an expert has, with all w that are
 * read. Of a batch, one with all w side by side. Of a plain one, itself. */
struct rfg_problem gemm_as_plain(const struct rfg_problem *prob);
bool gemm_row_key(struct rfg_problem *key, int i);
bool gemm_is_recorded(const struct rfg_problem *prob);
void gemm_cost(const struct rfg_problem *prob, double *bytes, double *flops);
/* Tiles of tile_m rows that a grouped product has at most. */
int64_t gemm_most_tiles(const struct rfg_problem *prob, int tile_m);

/* How x and w are read (takes.c): a problem asks for one of these. */
enum gemm_read {
    GEMM_READ_F32 = 1 << 0,    /* both are of f32 */
    GEMM_READ_HALF = 1 << 1,   /* of bf16, or of f16 */
    GEMM_READ_CODES = 1 << 2,  /* of a format of 8 bits; scales, if there are any, are of rows or tensors */
    GEMM_READ_BLOCKS = 1 << 3, /* with scales of blocks */
    GEMM_READ_MX8 = 1 << 4,    /* mx formats, w of 8 bits */
    GEMM_READ_MX4 = 1 << 5,    /* or of 4 */
    GEMM_READ_GROUPS = 1 << 6, /* w is of a format of its own (gemm_w_format()), with scales of groups, */
    GEMM_READ_W8 = 1 << 7,     /* or of codes of 8 bits beside an x of 16, whose scales are as those of codes, */
    GEMM_READ_PARTS = 1 << 8,  /* or with groups that aren't whole chunks of 32 columns, or don't divide w's columns, */
    GEMM_READ_NVFP4 = 1 << 9,  /* or with scales of e4m3, times which codes of e2m1 are x's format exactly */
    GEMM_READ_FINE = 1 << 10,  /* or, as GROUPS else, with groups of 16 columns */
    GEMM_READ_SCALED = 1 << 11, /* w's blocks hold their scales (GGUF's) */
    GEMM_READ_ALL = (1 << 12) - 1
};
unsigned gemm_read_asked(const struct rfg_problem *prob);

/* What becomes of a product, beside its store with a bias (takes.c). A problem asks for some of these. */
enum gemm_end {
    GEMM_END_RESIDUAL = 1 << 0,
    GEMM_END_ACT = 1 << 1,     /* of gate and up, whose rows of w take turns, */
    GEMM_END_HALVES = 1 << 2,  /* or are all gates, then all ups */
    GEMM_END_CODES = 1 << 3,   /* y is of codes */
    GEMM_END_EXPERTS = 1 << 4, /* rows of y have a w each, and perhaps a weight */
    GEMM_END_SLOTS = 1 << 5,   /* they are summed by token */
    GEMM_END_BATCH = 1 << 6,   /* there are several products */
    GEMM_ENDS_ALL = (1 << 7) - 1,
    GEMM_END_IDS = 1 << 7, /* of rows of y experts are said, in any order */
    GEMM_ENDS_EPILOGUE =
        GEMM_ENDS_ALL &
        ~(GEMM_END_SLOTS | GEMM_END_BATCH) /* those of gpu/any/epilogue.h, for kernels that store by it */
};
unsigned gemm_ends_asked(const struct rfg_problem *prob);
/* Those that a key asks for. The last row has none. */
extern const struct gemm_end_row {
    unsigned end;
    int key;
    const char *macro; /* of kernels, for the key's value if it isn't 0; NULL: gpu.h says what they are told */
    const char *rule;  /* of a variant without it */
} gemm_ends[];

/* What a variant takes. */
struct gemm_takes {
    unsigned rows, prepacked; /* enum gemm_read: of a w by rows, and of a prepacked one */
    bool chunks;              /* it reads x and w in chunks of 16 bytes: K and the alignment must suit */
    bool steps;    /* it scales sums of PREPACK4_COLS columns of a prepacked w of 4 bits, or of their parts */
    unsigned ends; /* enum gemm_end */
};
/* Is what the problem asks for among it? Says why not. */
bool gemm_takes(const struct rfg_problem *prob, const struct gemm_takes *takes, struct rfg_reason *why);

/* What a product whose rows are summed by token may be, and bytes of workspace for them. */
bool gemm_slots_valid(const struct rfg_problem *prob, struct rfg_reason *why);
size_t gemm_slot_bytes(const struct rfg_problem *prob);

/* Are x and w codes, of 8 bits or (mx formats alone) e2m1? */
static inline bool gemm_is_codes(const struct rfg_problem *prob)
{
    return rfg_dtype_is_code(prob->dtype[0]) || prob->dtype[0] == RFG_E2M1;
}

static inline bool gemm_is_fp8(const struct rfg_problem *prob)
{
    return rfg_dtype_is_code(prob->dtype[0]) && prob->dtype[0] != RFG_I8;
}

/* Is w of codes of 8 bits beside an x of 16? It is decoded to x's format. */
static inline bool gemm_w_is_8_bits(const struct rfg_problem *prob)
{
    return rfg_dtype_is_code(prob->dtype[1]) && RFG_HALF_FORMATS >> prob->dtype[0] & 1;
}

/* Is w of blocks that hold their scales? */
static inline bool gemm_w_is_blocks(const struct rfg_problem *prob)
{
    return prob->dtype[1] >= RFG_Q4_0 && prob->dtype[1] <= RFG_NVFP4;
}

/* Does w_per say what of w shares a scale? */
static inline bool gemm_w_has_per(const struct rfg_problem *prob)
{
    return gemm_is_codes(prob) || gemm_w_is_8_bits(prob);
}

/* Codes of which each GEMM_SCALE_GROUP columns of a row share a scale, on both sides? */
static inline bool gemm_is_mx(const struct rfg_problem *prob)
{
    return prob->v[GEMM_X_PER] == RFG_GEMM_SCALE_GROUP;
}

/* Is y of codes, with a scale? */
static inline bool gemm_y_is_codes(const struct rfg_problem *prob)
{
    return rfg_dtype_is_code(prob->dtype[2]);
}

/* What a bias may be beside f32. */
static inline rfg_dtype gemm_bias_like(const struct rfg_problem *prob)
{
    return !gemm_is_codes(prob) ? prob->dtype[0] : gemm_y_is_codes(prob) ? RFG_F32 : prob->dtype[2];
}
static inline rfg_dtype gemm_bias_dtype(const struct rfg_problem *prob)
{
    return (rfg_dtype)(prob->v[GEMM_BTYPE] ? prob->v[GEMM_BTYPE] : gemm_bias_like(prob));
}

/* How the scales of codes go into the sum: GEMM_SCALES_NONE, ... of gemm_args.h. Groups of a w of 8 bits are blocks of
 * one row. */
static inline int gemm_scales(const struct rfg_problem *prob)
{
    bool parts = gemm_w_is_8_bits(prob) && prob->v[GEMM_W_PER] >= RFG_GEMM_SCALE_BLOCK;
    return parts || prob->v[GEMM_X_PER] == RFG_GEMM_SCALE_BLOCK                       ? GEMM_SCALES_BLOCKS
           : gemm_is_mx(prob)                                                         ? GEMM_SCALES_GROUPS
           : gemm_w_has_per(prob) && (prob->v[GEMM_X_SCALE] || prob->v[GEMM_W_SCALE]) ? GEMM_SCALES_ROWS
                                                                                      : GEMM_SCALES_NONE;
}
/* Their dtype, which x's and w's share. */
static inline int gemm_scale_dtype(const struct rfg_problem *prob)
{
    return (int)(prob->v[GEMM_X_SCALE] ? prob->v[GEMM_X_SCALE] : prob->v[GEMM_W_SCALE]);
}
/* Rows and columns of the scales of x and of w, an expert's; rows 0: there are none. */
struct gemm_scale_shape {
    int64_t rows, cols;
};
struct gemm_scale_shape gemm_x_scales(const struct rfg_problem *prob);
struct gemm_scale_shape gemm_w_scales(const struct rfg_problem *prob);
/* Of codes, scales from an expert's to the next one's; row: w_scale_row. */
int64_t gemm_expert_scales(const struct rfg_problem *prob, int row);

/* Columns of Y. */
static inline int64_t gemm_y_cols(const struct rfg_problem *prob)
{
    return prob->v[GEMM_N] / (prob->v[GEMM_GATED] ? 2 : 1);
}

/* A format of W, other than X's, that gpu/any/load.h has a loader for, which gemm_portable and gemm_skinny then take.
 * gemm_cpu_portable decodes any of them by ops/format.c. */
struct gemm_w_format {
    rfg_dtype w;
    uint32_t x;       /* formats of X: bits 1 << rfg_dtype */
    uint32_t w_scale; /* the same of its scales */
    /* Which kernels take it: those that say so. GROUPS: with others' groups it is GEMM_READ_PARTS; so are formats that only
     * kernels without matrix cores read. W8: w_per says what shares a scale, and it may have none; of others groups of
     * columns do. NVFP4: its scales may be multiplied by one of the tensor. */
    enum gemm_read read;
    bool zeros; /* it may have zero points, i8 */
    int group;  /* columns that share a scale: a multiple of this, which is of w's blocks, or all */
    int vec;    /* elements that a lane of gemm_skinny takes at a time: W_VEC of its loader */
};

static inline bool gemm_format_has_per(const struct gemm_w_format *f)
{
    return f && f->read == GEMM_READ_W8;
}

/* Of W, X and W's scales of the problem's formats, or if none has such scales of W and X; NULL: W is of X's, or there
 * is none. */
const struct gemm_w_format *gemm_w_format(const struct rfg_problem *prob);
/* Has W no other scales than those? Says why not. */
bool gemm_w_scale_valid(const struct rfg_problem *prob, struct rfg_reason *why);
/* Elements of W in a chunk: of 16 bytes, or of such a format as many as it says. */
int64_t gemm_w_vec(const struct rfg_problem *prob);
static inline bool gemm_w_is_4_bits(const struct rfg_problem *prob)
{
    return rfg_dtype_is_4_bits(prob->dtype[1]);
}

/* Codes of 4 bits beside an x of 16, times whose scales they are x's format exactly? */
static inline bool gemm_w_is_nvfp4(const struct rfg_problem *prob)
{
    return prob->dtype[1] == RFG_E2M1 && prob->v[GEMM_W_SCALE] == RFG_E4M3;
}

/* And as exactly bf16's: mxfp4? */
static inline bool gemm_w_is_mxfp4(const struct rfg_problem *prob)
{
    return prob->dtype[1] == RFG_E2M1 && prob->v[GEMM_W_SCALE] == RFG_E8M0;
}

/* Is W prepacked with columns beyond K, up to whole blocks? */
static inline bool gemm_w_is_padded(const struct rfg_problem *prob)
{
    return prob->v[GEMM_PREPACKED] && gemm_w_is_4_bits(prob) && prob->v[GEMM_K] % PREPACK4_COLS;
}
/* Columns that W has, and groups of them. */
static inline int64_t gemm_w_cols(const struct rfg_problem *prob)
{
    return gemm_w_is_padded(prob) ? PREPACKED4_COLS(prob->v[GEMM_K]) : prob->v[GEMM_K];
}
static inline int64_t gemm_w_groups(const struct rfg_problem *prob)
{
    return prob->v[GEMM_W_GROUP] ? ceil_div(gemm_w_cols(prob), prob->v[GEMM_W_GROUP]) : 0;
}

/* Elements of W in a lane's 16 bytes times the four chunks of a step of matrix fragments: 32 of 16 bits. */
static inline int gemm_step_k(const struct rfg_problem *prob)
{
    return gemm_w_is_4_bits(prob) ? PREPACK4_COLS : gemm_w_has_per(prob) ? 64 : 32;
}

/* Columns of a row of W that share a scale; 0: there are no groups. */
static inline int64_t gemm_w_group(const struct rfg_problem *prob)
{
    return gemm_is_mx(prob) && gemm_w_is_4_bits(prob) ? GEMM_SCALE_GROUP : prob->v[GEMM_W_GROUP];
}

/* Bytes of a row of W, with its scales. */
int64_t gemm_w_row_bytes(const struct rfg_problem *prob);

/* Is y of f32, f16 or bf16? These say why not. */
bool gemm_y_is_float(const struct rfg_problem *prob, struct rfg_reason *why);
/* Do x's format and w's go together? */
bool gemm_has_loader(const struct rfg_problem *prob, struct rfg_reason *why);

_Static_assert(offsetof(struct gemm_args, w_scale) == GEMM_ARGS_BYTES &&
                   offsetof(struct gemm_args, counters) ==
                       offsetof(struct gemm_args, workspace) + offsetof(struct rfg_kargs_head, counters),
               "arguments must be the kernels', struct rfg_kargs_head among them");

extern const struct rfg_op rfg_op_gemm_desc;

/* The rearranging of W, or, with PREPACK_GROUPS, of its scales or zero points (prepack.c). dtype[0] = source, dtype[1]
 * = destination: the same. */
enum { PREPACK_N, PREPACK_K, PREPACK_GROUPS, PREPACK_PAD, PREPACK_LD, PREPACK_OVERLAP, PREPACK_NKEYS };
#define PREPACK_MOST_PAD 7 /* groups that K may lack to whole blocks: of 16 columns */
/* Columns of the destination: of W of 4 bits whole blocks, with groups PREPACK_PAD more than the source has. */
static inline int64_t prepack_dst_cols(const struct rfg_problem *prob)
{
    int64_t k = prob->v[PREPACK_K];
    return prob->v[PREPACK_GROUPS]               ? k + prob->v[PREPACK_PAD]
           : rfg_dtype_is_4_bits(prob->dtype[0]) ? PREPACKED4_COLS(k)
                                                 : k;
}

/* Where element k of row n is in a prepacked W of 16 or 8 bits and K columns. */
static inline int64_t prepacked_at(int64_t n, int64_t k, int64_t cols)
{
    return PREPACKED_AT(n, k, cols);
}
static inline int64_t prepacked8_at(int64_t n, int64_t k, int64_t cols)
{
    return PREPACKED8_AT(n, k, cols);
}

/* Elements of 16 bytes, and columns of a block. 0: there is no such layout of this dtype. */
static inline int prepack_chunk(int dtype)
{
    return dtype == RFG_BF16 || dtype == RFG_F16 ? PREPACK_CHUNK
           : rfg_dtype_is_code(dtype)            ? PREPACK8_CHUNK
           : rfg_dtype_is_4_bits(dtype)          ? PREPACK4_CHUNK
                                                 : 0;
}
static inline int prepack_cols(int dtype)
{
    return 4 * prepack_chunk(dtype);
}

/* Can N x K elements of this dtype be prepacked? Says why not. */
bool prepack_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why);
/* The same of scales and zero points. */
bool prepack_groups_valid(int64_t n, int64_t k, int dtype, struct rfg_reason *why);
/* The rows that a prepacked view is of; refuses what is not laid out as one. */
rfg_status prepack_rows(rfg_tensor *rows, const char *fn, const char *name, const rfg_tensor *t);

void prepack_cost(const struct rfg_problem *prob, double *bytes, double *flops);

extern const struct rfg_op rfg_op_gemm_prepack_desc;

#define RFG_VARIANT(name, files) extern const struct rfg_variant name;
#include "registry.def"
#undef RFG_VARIANT

#endif
