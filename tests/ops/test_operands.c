/* SPDX-License-Identifier: MIT
 *
 * Operands by role: every operator's table is in order and tells each tensor's use; keys that name formats; problem
 * strings of older files read and write unchanged. */
#include "ops/op_case.h"
#include "ops/quant.h"
#include "tests/suite.h"

/* Written as they are read. Of each operator, each key that names a value, each list of formats that there is. */
static const char *const problems[] = {
    "gemm bf16,bf16->bf16 M=8 N=2112 K=7168",
    "gemm f16,f16->f32 M=3 N=1 K=2 bias=1 ldx=9 align=2",
    "gemm bf16,bf16->bf16 M=8 N=64 K=64 bias=1 btype=f32",
    "gemm f32,f32->bf16 M=0 N=0 K=0",
    "gemm bf16,bf16->bf16 M=64 N=64 K=7168 packed=1 overlap=1",
    "gemm_prepack bf16->bf16 N=32 K=64",
    "gemm_prepack f16->f16 N=32 K=4 groups=1",
    "embedding i64,bf16->f32 M=64 N=4096 V=128256 scaled=1",
    "advance i32->i64 B=64 Sq=1 blocks=256 page=16 slots=1 accepted=1 active=1 spare=4096 ldb=300",
    "advance i32->i32 B=64 Sq=8 blocks=0 accepted=1",
    "dequantize e4m3,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128",
    "dequantize i8,e8m0->f32 M=64 N=7168 group_rows=128 group_cols=128 scale_columns=1",
    "quantize bf16->e4m3,f32 M=64 N=7168 group_rows=1 group_cols=128 reciprocal=3 floor_amax=10 scale_columns=1",
    "quantize f32->i8,e8m0 M=64 N=7168",
    "quantize bf16->i8,f32 M=64 N=7168 group_rows=1 smooth=f32 reciprocal=3",
    "quantize f16->e4m3,f32 M=64 N=7168 group_rows=1 smooth=f16",
    "quantize f16->e5m2,e8m0 M=64 N=7168 group_rows=1 rounding=up max=1000",
    "quantize_scale bf16->f32 M=64 N=7168 codes=e4m3fnuz max=224",
    "argmax f32->i64 M=32 V=128256",
    "moe_align i32->i32 T=64 top=8 E=32 map=256 tokens=1 weights=1 places=1",
    "moe_align i32->i32 T=64 top=8 E=256 format=vllm block=64 rows=20000",
    "moe_align i32->i32 T=64 top=8 E=256 weights=1 format=aiter block=32",
    "moe_align i32->i32 T=64 top=8 E=256 format=contiguous block=128 ldi=9",
    "moe_align i32->i32 T=64 top=8 E=256 format=masked",
    "moe_sum bf16->bf16 T=8 N=7168 top=8 weights=1 tokens=1",
    "moe_sum f16->f32 T=8 N=7168 top=8 residual=1 inplace=1 R=-1 align=2",
    "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1 shared=1",
    "moe_route f16->f32 T=64 E=128 top=4 score=topk_softmax bias=1 btype=f32 tokens=1 ldx=130 ldi=8 ldw=6",
    "sample bf16->i32 B=4 V=1000 temperature=1 top_k=1 top_p=1 min_p=1 joint=1",
    "sample f32->i64 B=4 V=1000 repetition=1 frequency=1 presence=1 bias=1 counts=1 prompt=1",
    "act_and_mul bf16->bf16 M=64 N=14336 act=gelu_tanh",
    "act_and_mul f16->i8 M=16 N=28672 scale=token",
    "act_and_mul bf16->e4m3fnuz M=16 N=4096 scale=token plain=1",
    "act f32->e5m2 M=5 N=2001 act=relu2 scale=static",
    "act bf16->e4m3 M=5 N=2048 act=none scale=mx rounding=ceil",
    "rmsnorm bf16->bf16 M=16 N=4096 weight=1+w",
    "add_rmsnorm f16->e4m3 M=16 N=4096 weight=none scale=group plain=1",
    "rmsnorm bf16->e2m1 M=16 N=4096 scale=mx rounding=even plain=1 scale_columns=1",
    "layernorm f32->f32 M=16 N=4096 bias=1",
    "add_layernorm f32->f32 M=1 N=1 inplace=3",
    "mha bf16->bf16 B=2 Hq=2 Hkv=1 D=128 S=140 Sq=9 causal=1 sink=1 page=128 kv=e4m3 scales=tensor",
    "mha_decode f16->f16 B=1 Hq=128 Hkv=1 D=128 S=4096 page=16",
    "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=100 lse=1 page=32 kv=e4m3fnuz scales=head",
    "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=100 kv=e5m2",
};
#define N_PROBLEMS ((int)(sizeof(problems) / sizeof(problems[0])))

/* Of these and of the operators' cases. */
static const char *problem_at(int i)
{
    return i < N_PROBLEMS ? problems[i] : rfg_small_problem(i - N_PROBLEMS);
}

START_TEST(strings)
{
    struct rfg_problem p;
    struct rfg_reason why = { "" };
    char text[RFG_PROBLEM_STRLEN];
    const char *problem = problem_at(_i);
    ck_assert_msg(rfg_problem_parse(&p, problem, &why), "%s: %s", problem, why.text);
    ck_assert_str_eq(rfg_problem_format(&p, text, sizeof(text)), problem);
}
END_TEST

/* What an operator's tensors are is what its table says of them. */
START_TEST(tensors)
{
    struct rfg_problem p;
    struct rfg_reason why = { "" };
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    const char *problem = problem_at(_i);
    ck_assert_msg(rfg_problem_parse(&p, problem, &why), "%s: %s", problem, why.text);
    int n = rfg_op_case_of(p.op)->tensors(&p, spec), seen = 0;
    for (int i = 0; i < n; i++) {
        int o = rfg_op_operand(p.op, spec[i].name);
        ck_assert_msg(o >= 0, "%s: %s is no operand of it", problem, spec[i].name);
        seen++;
        if (spec[i].absent)
            continue;
        ck_assert_msg(rfg_problem_format_of(&p, o) == spec[i].dtype, "%s: %s is %s, the table says %s", problem,
                      spec[i].name, rfg_dtype_name(spec[i].dtype), rfg_dtype_name(rfg_problem_format_of(&p, o)));
        ck_assert_msg(p.op->operands[o].output || !spec[i].output, "%s: %s is an output", problem, spec[i].name);
    }
    ck_assert_msg(seen == p.op->n_operands, "%s: %d of %d operands have tensors", problem, seen, p.op->n_operands);
}
END_TEST

START_TEST(tables)
{
    for (int i = 0; rfg_ops[i]; i++) {
        const struct rfg_op *op = rfg_ops[i];
        int listed = op->n_in + op->n_out;
        ck_assert_msg(listed <= op->n_operands && op->n_operands <= RFG_MAX_TENSORS, "%s", op->name);
        for (int k = 0; k < op->n_operands; k++) {
            const struct rfg_op_operand *o = &op->operands[k];
            ck_assert_msg(rfg_op_operand(op, o->name) == k, "%s: %s is there twice", op->name, o->name);
            ck_assert_msg((o->at == RFG_FORMAT_LISTED) == (k < listed), "%s: %s: those of the list come first",
                          op->name, o->name);
            switch (o->at) {
            case RFG_FORMAT_LISTED:
                ck_assert_msg(o->of == k && o->output == (k >= op->n_in), "%s: %s", op->name, o->name);
                break;
            case RFG_FORMAT_KEYED:
                ck_assert_msg(op->keys[o->of].formats && o->same <= op->n_operands, "%s: %s", op->name, o->name);
                break;
            case RFG_FORMAT_AS:
                ck_assert_msg(o->of < listed, "%s: %s", op->name, o->name);
                break;
            case RFG_FORMAT_OF_SCALE:
                ck_assert_msg(op->keys[o->of].max == RFG_SCALE_MX && op->keys[o->of].names, "%s: %s", op->name,
                              o->name);
                break;
            default:
                ck_assert_msg(rfg_format(o->of) != NULL, "%s: %s", op->name, o->name);
            }
        }
        for (int k = 0; k < op->n_keys; k++) {
            const struct rfg_key *key = &op->keys[k];
            ck_assert_msg(!key->formats || (key->names && key->names[0] && !key->def && !key->min &&
                                            key->max == RFG_DTYPE_COUNT - 1 && key->kind == RFG_KEY_ATTR),
                          "%s: %s=", op->name, key->name);
        }
    }
}
END_TEST

/* ---- a made-up operator: quantised weights with scales, a residual ----------------------------------------------- */

enum { M, W_SCALE, RESIDUAL, OVERLAP, N_KEYS };
static const char *const none[] = { "none" }, *const same[] = { "x" };
static const struct rfg_key keys[N_KEYS] = {
    [M] = { "M", RFG_KEY_SIZE, 0, 0, 100, NULL, "rows" },
    [W_SCALE] = { "w_scale", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, none, "", 1u << RFG_F32 | 1u << RFG_E8M0 },
    [RESIDUAL] = { "residual", RFG_KEY_ATTR, 0, 0, RFG_DTYPE_COUNT - 1, same, "", 1u << RFG_F32 },
    [OVERLAP] = RFG_KEY_OVERLAP,
};
static const struct rfg_op_operand operands[] = {
    { "x", false, RFG_FORMAT_LISTED, 0, 0 },
    { "w", false, RFG_FORMAT_LISTED, 1, 0 },
    { "a", false, RFG_FORMAT_LISTED, 2, 0 },
    { "b", false, RFG_FORMAT_LISTED, 3, 0 },
    { "c", false, RFG_FORMAT_LISTED, 4, 0 },
    { "d", false, RFG_FORMAT_LISTED, 5, 0 },
    { "y", true, RFG_FORMAT_LISTED, 6, 0 },
    { "z", true, RFG_FORMAT_LISTED, 7, 0 },
    { "bias", false, RFG_FORMAT_AS, 0, 0 },
    { "w_scale", false, RFG_FORMAT_KEYED, W_SCALE, 0 },
    { "residual", false, RFG_FORMAT_KEYED, RESIDUAL, 1 },
};
static bool any(const struct rfg_problem *prob, struct rfg_reason *why)
{
    (void)prob, (void)why;
    return true;
}
static const struct rfg_op wide = {
    .name = "wide",
    .id = 999,
    .n_in = 6,
    .n_out = 2,
    .n_operands = (int)(sizeof(operands) / sizeof(operands[0])),
    .operands = operands,
    .n_keys = N_KEYS,
    .keys = keys,
    .valid = any,
};

static const struct {
    const char *key, *value, *says; /* NULL: taken */
    rfg_dtype w_scale, residual;
} settings[] = {
    { "w_scale", "f32", NULL, RFG_F32, RFG_BF16 },
    { "w_scale", "e8m0", NULL, RFG_E8M0, RFG_BF16 },
    { "w_scale", "none", NULL, RFG_DTYPE_NONE, RFG_BF16 },
    { "residual", "f32", NULL, RFG_DTYPE_NONE, RFG_F32 },
    { "residual", "x", NULL, RFG_DTYPE_NONE, RFG_BF16 },
    { "w_scale", "bf16", "w_scale=bf16: must be one of none, f32, e8m0", 0, 0 },
    { "w_scale", "1", "must be one of none, f32, e8m0", 0, 0 },
    { "residual", "none", "residual=none: must be one of x, f32", 0, 0 },
};

#define EIGHT "bf16,i4,e2m1,e8m0,e4m3fnuz,e4m3fnuz->e4m3fnuz,i32"

START_TEST(format_keys)
{
    struct rfg_problem p, q;
    struct rfg_reason why = { "" };
    char text[RFG_PROBLEM_STRLEN], attrs[80];
    rfg_problem_init(&p, &wide);
    ck_assert(rfg_problem_parse_dtypes(&p, EIGHT, &why));
    q = p;
    ck_assert_int_eq(rfg_problem_set(&p, settings[_i].key, settings[_i].value, &why), !settings[_i].says);
    if (settings[_i].says) {
        ck_assert_msg(strstr(why.text, settings[_i].says), "%s", why.text);
        return;
    }
    ck_assert_int_eq(rfg_problem_format_of(&p, rfg_op_operand(&wide, "w_scale")), settings[_i].w_scale);
    ck_assert_int_eq(rfg_problem_format_of(&p, rfg_op_operand(&wide, "residual")), settings[_i].residual);
    ck_assert_int_eq(rfg_problem_format_of(&p, rfg_op_operand(&wide, "bias")), RFG_BF16);
    ck_assert_int_eq(rfg_problem_format_of(&p, rfg_op_operand(&wide, "w")), RFG_I4);
    bool said = p.v[W_SCALE] || p.v[RESIDUAL];
    snprintf(attrs, sizeof(attrs), "wide " EIGHT " M=0%s%s%s%s", said ? " " : "", said ? settings[_i].key : "",
             said ? "=" : "", said ? settings[_i].value : "");
    ck_assert_str_eq(rfg_problem_format(&p, text, sizeof(text)), attrs);
    ck_assert(rfg_problem_equal(&p, &q) == !said && (rfg_problem_hash(&p) == rfg_problem_hash(&q)) == !said);
}
END_TEST

/* Each of eight formats counts. */
START_TEST(eight_formats)
{
    struct rfg_problem p, q;
    struct rfg_reason why = { "" };
    char text[RFG_DTYPES_STRLEN];
    rfg_problem_init(&p, &wide);
    ck_assert(rfg_problem_parse_dtypes(&p, EIGHT, &why));
    ck_assert_str_eq(rfg_problem_format_dtypes(&p, text, sizeof(text)), EIGHT);
    ck_assert_str_eq(rfg_op_signature(&wide, text, sizeof(text)), "x,w,a,b,c,d->y,z");
    for (int i = 0; i < RFG_MAX_DTYPES; i++)
        for (int d = 1; d < RFG_DTYPE_COUNT; d++) {
            q = p;
            q.dtype[i] = (uint8_t)d;
            bool equal = d == p.dtype[i];
            ck_assert(rfg_problem_equal(&p, &q) == equal && (rfg_problem_hash(&p) == rfg_problem_hash(&q)) == equal);
        }
    ck_assert(!rfg_problem_parse_dtypes(&p, "bf16,i4->f32", &why));
    ck_assert_msg(strstr(why.text, "dtypes 'bf16,i4->f32': must be those of wide's x,w,a,b,c,d->y,z"), "%s", why.text);
    ck_assert(!rfg_problem_parse_dtypes(&p, "bf16,int4->f32", &why));
    ck_assert_msg(strstr(why.text,
                         "dtype 'int4' in 'bf16,int4->f32': must be f32, f16, bf16, e4m3, e4m3fnuz, e5m2, i8, "
                         "i32, i4, e2m1, e8m0, i64, or one of GGUF's, q4_0 to nvfp4"),
                  "%s", why.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("operands");
    TCase *tc = test_case(s, "operands", NULL, NULL);
    ADD_TESTS(tc, tables, eight_formats);
    ADD_LOOPS(tc, N_PROBLEMS + rfg_small_problems(), strings, tensors);
    ADD_LOOPS(tc, (sizeof(settings) / sizeof(settings[0])), format_keys);
    return run_suite(s);
}
