/* SPDX-License-Identifier: MIT
 *
 * Problems out of what engines and libraries write down as they run: our RFG_LOG=calls, PyTorch's TunableOp files,
 * hipBLASLt's HIPBLASLT_LOG_MASK=32. The libraries compute Y^T = W X^T in columns: their m is our N, their n our M. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shapes_logs.h"

#define CALLS "rfg: calls: "
#define BENCH "hipblaslt-bench "

const char *rfg_shapes_dtype(const char *text)
{
    static const char *const alias[][2] = {
        { "bfloat16", "bf16" },
        { "float16", "f16" },
        { "half", "f16" },
        { "fp16", "f16" },
        { "float32", "f32" },
        { "float", "f32" },
        { "fp32", "f32" },
        { "float8_e4m3fn", "e4m3" },
        { "float8_e4m3fnuz", "e4m3fnuz" },
        { "float8_e5m2", "e5m2" },
        { "int8", "i8" },
        { "float4_e2m1fn_x2", "e2m1" },
    };
    if (!strncmp(text, "torch.", 6))
        text += 6;
    for (size_t i = 0; i < sizeof(alias) / sizeof(alias[0]); i++)
        if (!strcmp(text, alias[i][0]))
            return alias[i][1];
    return text;
}

/* ---- a gemm as the BLAS interface has it ------------------------------------------------------------------------- */

struct blas {
    const char *dtype, *out;        /* "bf16" */
    char transa, transb;            /* 'T', 'N' */
    int64_t m, n, k, lda, ldb, ldd; /* leading dimensions of 0: not said */
    bool bias;
};

static bool set_stride(struct rfg_problem *p, const char *key, int64_t ld, int64_t packed, struct rfg_reason *why)
{
    char text[24];
    if (!ld || ld == packed)
        return true;
    if (ld < packed)
        return rfg_refuse(why, "leading dimension %" PRId64 ": must be at least %" PRId64, ld, packed);
    snprintf(text, sizeof(text), "%" PRId64, ld);
    return rfg_problem_set(p, key, text, why);
}

static bool from_blas(const struct blas *b, struct rfg_problem *p, struct rfg_reason *why)
{
    char text[200];
    if (b->transa != 'T' || b->transb != 'N')
        return rfg_refuse(why, "transposed %c%c: must be TN: gemm multiplies by rows of w", b->transa, b->transb);
    if (b->m < 1 || b->n < 1 || b->k < 1)
        return rfg_refuse(why, "m, n and k must be at least 1");
    snprintf(text, sizeof(text), "gemm %s,%s->%s M=%" PRId64 " N=%" PRId64 " K=%" PRId64 "%s", b->dtype, b->dtype,
             b->out, b->n, b->m, b->k, b->bias ? " bias=1" : "");
    return rfg_problem_parse(p, text, why) && set_stride(p, "ldw", b->lda, b->k, why) &&
           set_stride(p, "ldx", b->ldb, b->k, why) && set_stride(p, "ldy", b->ldd, b->m, why) && p->op->valid(p, why);
}

/* A number of at most ten digits at *s, past which it goes. */
static bool number(const char **s, int64_t *n)
{
    size_t digits = strspn(*s, "0123456789");
    if (!digits || digits > 10)
        return false;
    *n = strtoll(*s, NULL, 10);
    *s += digits;
    return true;
}

/* ---- RFG_LOG=calls ----------------------------------------------------------------------------------------------- */

/* Whatever stands before it (a container's time stamp), and other lines, are the engine's. */
static int read_call(const char *line, struct rfg_problem *p, struct rfg_reason *why)
{
    const char *call = strstr(line, CALLS);
    if (!call)
        return 0;
    call += strlen(CALLS);
    return rfg_problem_parse(p, call, why) && p->op->valid(p, why) ? 1 : -1;
}

/* ---- TunableOp --------------------------------------------------------------------------------------------------- */

static const char *const torch_types[][2] = { { "BFloat16", "bf16" }, { "Half", "f16" }, { "float", "f32" } };

/* "GemmTunableOp_BFloat16_TN,tn_4096_8_7168_ld_7168_7168_4096,Gemm_Rocblas_45,0.1": results, and what was only recorded
 * (two fields). */
static int read_tunable(const char *line, struct rfg_problem *p, struct rfg_reason *why)
{
    static const char *const names[] = { "GemmTunableOp_", "GemmAndBiasTunableOp_" };
    struct blas b = { .transa = 0 };
    size_t name = strcspn(line, ",");
    const char *s = line + name, *type = NULL;
    if (!strncmp(line, "Validator,", 10))
        return 0;
    for (int i = 0; i < 2; i++)
        if (!strncmp(line, names[i], strlen(names[i]))) {
            type = line + strlen(names[i]);
            b.bias = i == 1;
        }
    if (!type || *s != ',') {
        rfg_refuse(why, "'%.*s': must be GemmTunableOp_ or GemmAndBiasTunableOp_, a type and TN, then its sizes",
                   (int)(name < 60 ? name : 60), line);
        return -1;
    }
    for (size_t i = 0; i < sizeof(torch_types) / sizeof(torch_types[0]); i++) {
        size_t len = strlen(torch_types[i][0]);
        if (!strncmp(type, torch_types[i][0], len) && type[len] == '_')
            b.dtype = b.out = torch_types[i][1];
    }
    if (!b.dtype) {
        rfg_refuse(why, "'%.*s': its type must be BFloat16, Half or float", (int)(name < 60 ? name : 60), line);
        return -1;
    }
    s++;
    size_t sizes = strcspn(s, ",");
    const char *stop = s + sizes, *from = s;
    b.transa = *s == 't' ? 'T' : *s == 'n' ? 'N' : '?';
    b.transb = *s && s[1] == 't' ? 'T' : *s && s[1] == 'n' ? 'N' : '?';
    bool ok = sizes > 3 && s[2] == '_';
    s += ok ? 3 : 0;
    ok = ok && number(&s, &b.m) && *s++ == '_' && number(&s, &b.n) && *s++ == '_' && number(&s, &b.k);
    if (ok && s < stop) /* PyTorch 2.6 on */
        ok = !strncmp(s, "_ld_", 4) && (s += 4, number(&s, &b.lda)) && *s++ == '_' && number(&s, &b.ldb) &&
             *s++ == '_' && number(&s, &b.ldd);
    if (!ok || s != stop) {
        rfg_refuse(why, "'%.*s': must be tn_M_N_K or tn_M_N_K_ld_A_B_C", (int)(sizes < 60 ? sizes : 60), from);
        return -1;
    }
    return from_blas(&b, p, why) ? 1 : -1;
}

/* ---- hipBLASLt --------------------------------------------------------------------------------------------------- */

/* The word after `option` in a command line; "" if there is none. */
static void option(const char *line, const char *name, char *buf, size_t size)
{
    size_t len = strlen(name);
    *buf = 0;
    for (const char *s = line; (s = strstr(s, name)); s += len)
        if (s > line && s[-1] == ' ' && s[len] == ' ') {
            s += len + strspn(s + len, " ");
            snprintf(buf, size, "%.*s", (int)strcspn(s, " \t\r"), s);
            return;
        }
}

static bool option_number(const char *line, const char *name, int64_t *n, struct rfg_reason *why)
{
    char text[40];
    option(line, name, text, sizeof(text));
    const char *s = text;
    if (!*text)
        return true;
    return (number(&s, n) && !*s) || rfg_refuse(why, "%s %s: must be a whole number", name, text);
}

/* What gemm can't do must be off: absent, or one of two words. */
static bool is_off(const char *line, const char *name, const char *off, const char *off2, struct rfg_reason *why)
{
    char text[40];
    option(line, name, text, sizeof(text));
    return !*text || !strcmp(text, off) || !strcmp(text, off2) ||
           rfg_refuse(why, "%s %s: must be %s: gemm has no such thing", name, text, off);
}

static const char *blas_type(const char *line, const char *name)
{
    static const char *const types[][2] = { { "bf16_r", "bf16" }, { "f16_r", "f16" }, { "f32_r", "f32" } };
    char text[40];
    option(line, name, text, sizeof(text));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(text, types[i][0]))
            return types[i][1];
    return NULL;
}

static int read_bench(const char *line, struct rfg_problem *p, struct rfg_reason *why)
{
    struct blas b = { .transa = 0 };
    const char *s = strstr(line, BENCH);
    char transa[4], transb[4], bias[4];
    int64_t batch = 1;
    if (!s)
        return 0;
    option(s, "--transA", transa, sizeof(transa));
    option(s, "--transB", transb, sizeof(transb));
    b.transa = *transa ? *transa : 'N';
    b.transb = *transb ? *transb : 'N';
    b.dtype = blas_type(s, "--a_type");
    b.out = blas_type(s, "--d_type");
    option(s, "--bias_vector", bias, sizeof(bias));
    b.bias = strstr(s, " --bias_vector") && strcmp(bias, "0") != 0;
    bool ok = option_number(s, "-m", &b.m, why) && option_number(s, "-n", &b.n, why) &&
              option_number(s, "-k", &b.k, why) && option_number(s, "--lda", &b.lda, why) &&
              option_number(s, "--ldb", &b.ldb, why) && option_number(s, "--ldd", &b.ldd, why) &&
              option_number(s, "--batch_count", &batch, why);
    const char *b_type = blas_type(s, "--b_type");
    if (ok && (!b.dtype || !b.out || !b_type || strcmp(b.dtype, b_type)))
        ok = rfg_refuse(why, "--a_type, --b_type and --d_type: must be bf16_r, f16_r or f32_r, the first two the same");
    if (ok && batch != 1)
        ok = rfg_refuse(why, "--batch_count %" PRId64 ": must be 1", batch);
    ok = ok && is_off(s, "--activation_type", "none", "0", why) && is_off(s, "--scaleA", "0", "0", why) &&
         is_off(s, "--scaleB", "0", "0", why) && is_off(s, "--beta", "0.000000", "0", why) &&
         is_off(s, "--alpha", "1.000000", "1", why) && from_blas(&b, p, why);
    return ok ? 1 : -1;
}

/* ---- which is it ------------------------------------------------------------------------------------------------- */

/* Is it in a line that is no comment? */
static bool has_word(const char *text, const char *word)
{
    for (const char *s = text; (s = strstr(s, word)); s++) {
        const char *line = s;
        while (line > text && line[-1] != '\n')
            line--;
        if (*line != '#')
            return true;
    }
    return false;
}

/* Does a line of the text begin with that? */
static bool has_line(const char *text, const char *begin)
{
    size_t len = strlen(begin);
    for (const char *s = text; s; s = (s = strchr(s, '\n')) ? s + 1 : NULL)
        if (!strncmp(s, begin, len))
            return true;
    return false;
}

rfg_shapes_line_fn rfg_shapes_form(const char *head)
{
    if (has_word(head, CALLS))
        return read_call;
    if (has_word(head, BENCH))
        return read_bench;
    if (has_line(head, "Validator,") || has_line(head, "GemmTunableOp_") || has_line(head, "GemmAndBiasTunableOp_"))
        return read_tunable;
    return NULL;
}

bool rfg_tunable_format(const struct rfg_problem *p, char *buf, size_t size, struct rfg_reason *why)
{
    const struct rfg_op *op = p->op;
    struct rfg_problem back;
    const char *type = NULL;
    for (size_t i = 0; i < sizeof(torch_types) / sizeof(torch_types[0]); i++)
        if (!strcmp(torch_types[i][1], rfg_dtype_name((rfg_dtype)p->dtype[0])))
            type = torch_types[i][0];
    int m = rfg_op_key(op, "M"), n = rfg_op_key(op, "N"), k = rfg_op_key(op, "K"), bias = rfg_op_key(op, "bias");
    if (strcmp(op->name, "gemm") || !type)
        return rfg_refuse(why, "must be a gemm of bf16, f16 or f32");
    int64_t ldw = p->v[rfg_op_key(op, "ldw")], ldx = p->v[rfg_op_key(op, "ldx")], ldy = p->v[rfg_op_key(op, "ldy")];
    snprintf(buf, size, "%s_%s_TN,tn_%" PRId64 "_%" PRId64 "_%" PRId64 "_ld_%" PRId64 "_%" PRId64 "_%" PRId64,
             p->v[bias] ? "GemmAndBiasTunableOp" : "GemmTunableOp", type, p->v[n], p->v[m], p->v[k],
             ldw ? ldw : p->v[k], ldx ? ldx : p->v[k], ldy ? ldy : p->v[n]);
    /* What isn't the same when it is read again has more to it than TunableOp can say. */
    return (read_tunable(buf, &back, why) == 1 && rfg_problem_equal(&back, p)) ||
           rfg_refuse(why, "TunableOp can't say all of it: must be one dtype, at most with a bias of it");
}
