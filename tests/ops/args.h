/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments, from tables: test_args.c gives each public function every argument wrong in turn; args_ops.c has the
 * operators' calls that are right, args_functions.c all other functions. */
#ifndef RFG_TESTS_ARGS_H
#define RFG_TESTS_ARGS_H

#include <stdbool.h>

#include "rfg/rfg.h"

#define MAX_ARGS 14

/* How a caller's params struct differs from the one this library was compiled with. All zero: not at all. */
struct foreign {
    bool quant; /* of the rfg_quant that params point to, not of params */
    bool sized;
    size_t size;        /* what its member says, if sized */
    size_t kept;        /* bytes that are as this library has them; 0: all */
    unsigned char rest; /* what the bytes after those are */
    size_t dirt;        /* a byte that is 1; 0: none */
};
extern size_t params_size; /* sizeof the params struct (or rfg_quant) of the last call; 0: it takes none */

/* A call of any operator. */
struct call {
    rfg_context *ctx;
    const rfg_tensor *t[MAX_ARGS]; /* in the order of the form's `args` */
    rfg_scale_kind kind;
    int rounding; /* of mx */
    rfg_norm_params norm;
    rfg_act_params act;
    rfg_mha_params mha;
    rfg_mla_params mla;
    rfg_mla_append_params mla_append;
    rfg_mla_gather_params mla_gather;
    rfg_embedding_params embedding;
    rfg_advance_params advance;
    rfg_dequantize_params dequantize;
    rfg_quantize_params quantize;
    rfg_rope_params rope;
    rfg_rope_append_params rope_append;
    rfg_moe_align_params moe_align;
    rfg_moe_params moe;
    rfg_moe_gate_params moe_gate;
    rfg_moe_route_params moe_route;
    float lora_scale;
    int64_t sample_order;
    struct foreign foreign;
    rfg_stream stream;
};

enum {
    ARG_OUT = 1,          /* may not overlap anything */
    ARG_OPTIONAL = 2,     /* may be NULL */
    ARG_ANY_STRIDE = 4,   /* its last stride needn't be 1 */
    ARG_SAME_AS_NEXT = 8, /* may be the next one (in place) */
};

struct arg {
    const char *name;
    rfg_tensor t; /* without data */
    unsigned flags;
    unsigned dtypes;   /* bits of those that would be right, too */
    unsigned sizes;    /* bits of dimensions that may be one larger */
    int32_t values[8]; /* of an i32 tensor */
};

/* Something wrong that is not about a tensor. */
struct wrong {
    const char *named;
    void (*spoil)(struct call *c);
};

/* One way to call an operator that is right. */
struct form {
    const char *fn, *op, *what;
    rfg_status (*run)(const struct call *c);
    struct call call;           /* scalars */
    const struct wrong *wrongs; /* ends with a NULL name */
    int n;
    struct arg args[MAX_ARGS];
};

extern const struct form forms[];
extern const int n_forms;

/* The other public functions, each of which trial() calls wrongly. */
struct function {
    const char *name;
    void (*trial)(void);
};
extern const struct function functions[];
extern const int n_functions;

rfg_context *open_cpu(void);

/* Of functions that are no operators of the registry but take tensors or params structs like them. */
void rope_table(void);
void moe_workspace(void);
/* args_comm.c */
void comm_create(void);
void comm_connect(void);
void comm_prepare(void);
void comm_calls(void);
void comm_norm_calls(void);
#define LIKE_OPERATORS                                                                                                 \
    { "rfg_rope_table", rope_table }, { "rfg_moe_workspace_bytes", moe_workspace },                                    \
        { "rfg_comm_create", comm_create }, { "rfg_comm_destroy", comm_create }, { "rfg_comm_check", comm_create },    \
        { "rfg_comm_get_handle", comm_connect }, { "rfg_comm_connect", comm_connect },                                 \
        { "rfg_comm_prepare", comm_prepare }, { "rfg_op_all_reduce", comm_calls },                                     \
        { "rfg_op_reduce_scatter", comm_calls }, { "rfg_op_all_reduce_add_rmsnorm", comm_norm_calls },                 \
    {                                                                                                                  \
        "rfg_op_all_gather", comm_calls                                                                                \
    }

#endif
