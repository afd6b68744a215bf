/* SPDX-License-Identifier: MIT
 *
 * AITER's tuned_*.csv and untuned_*.csv: a row becomes the problem that it multiplies, told by the file's name, the
 * kernel's name or the columns, or is refused with the reason. Its measurement is kept. */
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db.h"
#include "rfg/rfg.h"
#include "tests/suite.h"
#include "tests/tempfiles.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static char said[700], warned[2000];

static void hear(void *ctx, const char *message)
{
    (void)ctx;
    snprintf(said, sizeof(said), "%s", message);
}

static void hear_warning(void *user, rfg_log_topic topic, const char *line)
{
    size_t at = strlen(warned);
    (void)user;
    (void)topic;
    snprintf(warned + at, sizeof(warned) - at, "%s\n", line);
}

static void read_file(const char *name, const char *text, struct rfg_shapes *s)
{
    const char *path = put_file(name, text);
    *said = *warned = 0;
    rfg_set_log_callback(hear_warning, NULL, 0);
    rfg_status st = rfg_shapes_read(path, s, hear, NULL);
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert_msg(st == RFG_OK, "%s: %s", name, rfg_last_error());
}

#define TUNED   "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n"
#define QUANT   "M,N,K,q_dtype_w\n"
#define BLOCKS  " w_scale=f32 x_scale=f32 x_per=block w_per=block"
#define PER_ROW " w_scale=f32 x_scale=f32 x_per=row w_per=row"
#define GROUPS  " w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group"
#define MNK     " M=16 N=1536 K=7168"

static const struct {
    const char *name, *text;
    const char *problem; /* the first; NULL: refused, and */
    const char *says;    /* the reason, or a note */
} files[] = {
    { "a8w8_blockscale_untuned_gemm.csv", "M,N,K\n16, 1536, 7168\n", "gemm e4m3,e4m3->bf16" MNK BLOCKS,
      "fp8 is taken as e4m3" },
    { "a8w8_blockscale_tuned_gemm.csv",
      TUNED "gfx942,304,16,1536,7168,ck,8,0,9.5,a8w8_blockscale_1x128x128_256x16x64x256,37.1,1200.0,0.0\n",
      "gemm e4m3fnuz,e4m3fnuz->bf16" MNK BLOCKS, NULL },
    { "renamed.csv", TUNED "gfx950,256,16,1536,7168,ck,8,0,9.5,a8w8_blockscale_1x128x128_256x16x64,37.1,1200.0,0.0\n",
      "gemm e4m3,e4m3->bf16" MNK BLOCKS, NULL },
    { "a8w8_blockscale_bpreshuffle_tuned_gemm_dsv3.csv",
      "cu_num,M,N,K,kernelId,us,kernelName\n304,16,1536,7168,7,18.1,a8w8_blockscale_bpreshuffle_1x128x128\n",
      "gemm e4m3fnuz,e4m3fnuz->bf16" MNK BLOCKS, "taken by rows" },
    { "a8w8_blockscale_tuned_gemm.csv", "cu_num,M,N,K\n256,16,1536,7168\n", "gemm e4m3,e4m3->bf16" MNK BLOCKS, NULL },
    { "a4w4_blockscale_tuned_gemm.csv",
      "cu_num,M,N,K,us,kernelName\n256,16,1536,7168,9,_ZN5aiter42f4gemm_bf16_per1x32Fp4_BpreShuffle_192x128E\n",
      "gemm e2m1,e2m1->bf16" MNK GROUPS, "taken by rows" },
    { "renamed.csv", "cu_num,M,N,K,us,kernelName\n256,16,1536,7168,9,f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128\n",
      "gemm e2m1,e2m1->bf16" MNK GROUPS, "taken by rows" },
    { "a4w4_blockscale_untuned_gemm.csv", "M,N,K\n16,1536,7168\n", "gemm e2m1,e2m1->bf16" MNK GROUPS, NULL },
    { "a8w8_untuned_gemm.csv", QUANT "16,1536,7168,torch.int8\n", "gemm i8,i8->bf16" MNK PER_ROW, NULL },
    { "shapes.csv", QUANT "16,1536,7168,torch.float8_e4m3fnuz\n", "gemm e4m3fnuz,e4m3fnuz->bf16" MNK PER_ROW, NULL },
    { "a8w8_bpreshuffle_untuned_gemm.csv", QUANT "16,1536,7168,torch.float8_e4m3fn\n",
      "gemm e4m3,e4m3->bf16" MNK PER_ROW, "taken by rows" },
    { "a8w8_untuned_gemm.csv", "M,N,K\n16,1536,7168\n", "gemm i8,i8->bf16" MNK PER_ROW, NULL },
    { "asm_a8w8_gemm.csv", "M,N,K,bias,outdtype,splitK,us\n16,1536,7168,True,torch.float16,0,13.85\n",
      "gemm i8,i8->f16" MNK " bias=1 btype=f16" PER_ROW, NULL },
    { "x.csv", "M,N,K,kernelName\n16,1536,7168,a8w8_rowwise_256x16x64x512\n", "gemm i8,i8->bf16" MNK PER_ROW, NULL },
    { "x.csv", "M,N,K,q_dtype_w,kernelName\n16,1536,7168,torch.int8,_ZN5aiter42I8gemm_bf16_perTokenI8_BpreShuffle\n",
      "gemm i8,i8->bf16" MNK PER_ROW, "taken by rows" },
    { "x.csv", "M,N,K,q_dtype_w\n16,1536,7168,torch.float4_e2m1fn_x2\n", "gemm e2m1,e2m1->bf16" MNK GROUPS, NULL },
    { "scaled.csv",
      "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n"
      "16,1536,7168,False,torch.float8_e4m3fnuz,torch.bfloat16,True,False\n",
      "gemm e4m3fnuz,e4m3fnuz->bf16" MNK " w_scale=f32 x_scale=f32", NULL },
    { "bf16_untuned_gemm.csv", "M,N,K\n16,1536,7168\n", "gemm bf16,bf16->bf16" MNK, NULL },
    { "llama.csv", "M,N,K\n16,1536,7168\n", "gemm bf16,bf16->bf16" MNK, "taken as bf16: neither" },
    { "llama.csv", "M,N,K,dtype\n16,1536,7168,torch.float16\n", "gemm f16,f16->f16" MNK, NULL },
    { "bf16_tuned_gemm.csv",
      "M,N,K,bias,dtype,outdtype,scaleAB,cu_num,libtype,solidx,us,kernelName\n"
      "16,1536,7168,False,torch.bfloat16,torch.float32,False,80,asm,1,8.3,_ZN5aiter28bf16gemm_outf32_tn_32x64_pf3E\n",
      "gemm bf16,bf16->f32" MNK, NULL },
    { "untuned_batched_gemm.csv", "B,M,N,K\n8,2,1536,7168\n", "gemm bf16,bf16->bf16" MNK " experts=8",
      "taken as bf16" },
    { "a8w8_untuned_batched_gemm.csv", "B,M,N,K\n8,2,1536,7168\n", "gemm i8,i8->bf16" MNK " experts=8" PER_ROW, NULL },

    { "a16w4_gemm.csv", "M,N,K\n16,1536,7168\n", NULL, ":2: column M: 'a16w4_gemm.csv': must be" },
    { "x.csv", "M,N,K,kernelName\n16,1536,7168,a8w4_x\n", NULL, ":2: column kernelName: 'a8w4_x': must be" },
    { "a8w8_gemm.csv", QUANT "16,1536,7168,torch.bfloat16\n", "gemm bf16,bf16->bf16" MNK, NULL },
    { "x.csv", "M,N,K,q_dtype_w,kernelName\n16,1536,7168,torch.bfloat16,a8w8_x\n", NULL,
      "column q_dtype_w: 'torch.bfloat16': must be an fp8 or int8: 'a8w8_x' is of 8 bits" },
    { "x.csv", "M,N,K,q_dtype_w,kernelName\n16,1536,7168,torch.int8,a4w4_x\n", NULL,
      "column q_dtype_w: 'torch.int8': must be float4_e2m1fn_x2" },
    { "x.csv", "M,N,K,q_dtype_w,q_dtype_a\n16,1536,7168,torch.int8,torch.bfloat16\n", NULL,
      "column q_dtype_a: 'torch.bfloat16': must be q_dtype_w's" },
    { "x.csv", "M,N,K,dtype,scaleAB\n16,1536,7168,torch.float8_e4m3fn,False\n", NULL,
      "column dtype: 'torch.float8_e4m3fn': must be" },
    { "x.csv", "M,N,K,dtype,scaleAB\n16,1536,7168,torch.bfloat16,True\n", NULL,
      "column scaleAB: 'True': must be false" },
    { "x.csv", "B,M,N,K\n0,2,1536,7168\n", NULL, "column B: '0': must be a whole number" },
    { "x.csv", "B,M,N,K\n1000,2147483647,1536,7168\n", NULL, "column B: '1000': B times M" },
    { "a4w4_gemm.csv", "M,N,K\n16,1536,7169\n", NULL, "column dtype: K=7169" },
};

START_TEST(products)
{
    struct rfg_shapes s;
    char text[RFG_PROBLEM_MAX];
    struct rfg_problem want;
    struct rfg_reason why;
    read_file(files[_i].name, files[_i].text, &s);
    ck_assert_msg(!files[_i].says || strstr(files[_i].problem ? warned : said, files[_i].says), "%s: '%s%s'",
                  files[_i].name, said, warned);
    const char *note = strstr(warned, ": note: "); /* at most one */
    ck_assert_msg(note ? files[_i].says && !strstr(note + 1, ": note: ") : !*warned, "%s: %s", files[_i].name, warned);
    ck_assert_uint_eq(s.n, files[_i].problem != NULL);
    if (files[_i].problem) {
        ck_assert_msg(rfg_problem_parse(&want, files[_i].problem, &why), "%s", why.text);
        rfg_problem_format(&s.v[0].problem, text, sizeof(text));
        ck_assert_msg(rfg_problem_equal(&want, &s.v[0].problem), "%s: %s, must be %s", files[_i].name, text,
                      files[_i].problem);
    }
    rfg_shapes_free(&s);
}
END_TEST

/* What was measured stays beside the problem, with what it was measured on. */
START_TEST(measured)
{
    struct rfg_shapes s;
    read_file("x.csv", TUNED "gfx942,304,16,1536,7168,ck,8,0,9.5,,37.1,1200.0,0.0\n,80,1,2,3,,,,nan,,,,\n", &s);
    ck_assert_uint_eq(s.n, 2);
    ck_assert_double_eq(s.v[0].us, 9.5);
    ck_assert_str_eq(s.v[0].us_on, "gfx942:304");
    ck_assert_double_eq(s.v[1].us, 0);
    rfg_shapes_free(&s);
    read_file("ours.csv", "op,dtype,M,N,K,us,us_on\ngemm,bf16,1,2,3,7.25,\"a,b\"\ngemm,bf16,2,2,3,-1,\n", &s);
    ck_assert_uint_eq(s.n, 1);
    ck_assert_double_eq(s.v[0].us, 7.25);
    ck_assert_str_eq(s.v[0].us_on, "a_b");
    ck_assert_ptr_nonnull(strstr(said, "column us: '-1': must be a number above 0"));
    rfg_shapes_free(&s);
}
END_TEST

/* ---- mixtures of experts ----------------------------------------------------------------------------------------- */

#define MOE                                                                                                            \
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,us1,"    \
    "us2,"                                                                                                             \
    "run_1stage\n"
#define FP8 "torch.float8_e4m3fn"

static const struct mixture {
    const char *row;
    rfg_dtype w, scale, x_codes;
    rfg_gemm_scale per;
    rfg_act act;
    int weights_first;
    int64_t t, k;
} mixtures[] = {
    { "32,256,128,8,4,ActivationType.Silu,torch.bfloat16,torch.bfloat16,torch.bfloat16,QuantType.No,1,0,3,4,0",
      RFG_BF16, 0, 0, 0, RFG_ACT_SILU, 0, 32, 4 },
    { "4,256,128,8,4,ActivationType.Gelu,torch.bfloat16,torch.bfloat16,torch.bfloat16,QuantType.No,1,1,3,4,0", RFG_BF16,
      0, 0, 0, RFG_ACT_GELU, 1, 4, 4 },
    { "32,256,128,8,4,ActivationType.Silu,torch.bfloat16," FP8 "," FP8 ",QuantType.per_1x128,1,0,3,4,0", RFG_E4M3,
      RFG_F32, 0, RFG_GEMM_SCALE_BLOCK, RFG_ACT_SILU, 0, 32, 4 },
    { "32,256,128,8,4,ActivationType.Silu,torch.bfloat16," FP8 "," FP8 ",QuantType.per_Token,1,1,3,4,0", RFG_E4M3,
      RFG_F32, 0, RFG_GEMM_SCALE_ROW, RFG_ACT_SILU, 1, 32, 4 },
    { "32,256,128,8,4,ActivationType.Silu,torch.bfloat16,torch.int8,torch.int8,QuantType.per_Tensor,1,0,3,4,0", RFG_I8,
      RFG_F32, 0, RFG_GEMM_SCALE_TENSOR, RFG_ACT_SILU, 0, 32, 4 },
    { "32,256,128,8,4,ActivationType.Swiglu,torch.bfloat16,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_"
      "1x32,"
      "1,0,3,4,0",
      RFG_E2M1, RFG_E8M0, 0, RFG_GEMM_SCALE_GROUP, RFG_ACT_SWIGLUOAI, 0, 32, 4 },
    { "32,256,128,8,4,ActivationType.Swiglu,torch.bfloat16,torch.bfloat16,torch.float4_e2m1fn_x2,QuantType.per_1x32,1,"
      "0,3,4,"
      "0",
      RFG_E2M1, RFG_E8M0, 0, 0, RFG_ACT_SWIGLUOAI, 0, 32, 4 },
};

/* What rfg_op_moe() of it is made of, on cpu, by calls that are not made. */
static void describe_mixture(const struct mixture *m, char *text, size_t size)
{
    enum { H = 256, I = 128, E = 8 };
    rfg_context *ctx;
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_msg(rfg_context_create(&ctx, &cp) == RFG_OK, "%s", rfg_last_error());
    void *at[12]; /* tensors lie nowhere */
    for (int i = 0; i < 12; i++)
        at[i] = (void *)((uintptr_t)(i + 1) << 40);
    bool tensor = m->w == RFG_I8, group = m->w == RFG_E2M1;
    rfg_tensor y = rfg_tensor_2d(at[0], RFG_BF16, m->t, H, H), x = rfg_tensor_2d(at[1], RFG_BF16, m->t, H, H);
    rfg_tensor w1 = { at[2], m->w, 3, { E, 2 * I, H }, { 2 * I * H, H, 1 } };
    rfg_tensor w2 = { at[3], m->w, 3, { E, H, I }, { H * I, I, 1 } };
    rfg_tensor ids = rfg_tensor_2d(at[4], RFG_I32, m->t, m->k, m->k);
    rfg_tensor weights = rfg_tensor_2d(at[5], RFG_F32, m->t, m->k, m->k);
    int64_t r1 = group || m->per == RFG_GEMM_SCALE_ROW ? E * 2 * I : E * 2 * I / 128;
    int64_t r2 = group || m->per == RFG_GEMM_SCALE_ROW ? E * H : E * H / 128;
    rfg_tensor s1 = rfg_tensor_2d(at[6], m->scale, r1, group ? H / 32 : H / 128, group ? H / 32 : H / 128);
    rfg_tensor s2 = rfg_tensor_2d(at[7], m->scale, r2, group ? I / 32 : 1, group ? I / 32 : 1);
    if (tensor || m->per == RFG_GEMM_SCALE_ROW) {
        s1 = rfg_tensor_1d(at[6], m->scale, tensor ? E : r1);
        s2 = rfg_tensor_1d(at[7], m->scale, tensor ? E : r2);
    }
    rfg_tensor one = rfg_tensor_1d(at[8], RFG_F32, 1), other = rfg_tensor_1d(at[9], RFG_F32, 1);
    rfg_moe_params p = { .size = sizeof(p), .act = m->act, .weights_first = m->weights_first };
    p.x_per = p.w_per = m->per;
    p.w1_scale = m->scale ? &s1 : NULL;
    p.w2_scale = m->scale ? &s2 : NULL;
    p.x_scale = tensor ? &one : NULL;
    p.h_scale = tensor ? &other : NULL;
    p.workspace = at[10];
    p.workspace_bytes = 1 << 30;
    ck_assert_msg(rfg_describe_begin(ctx, text, size) == RFG_OK, "%s", rfg_last_error());
    rfg_status st = rfg_op_moe(ctx, &y, &x, &w1, &w2, &ids, &weights, &p, NULL);
    rfg_describe_end(ctx);
    ck_assert_msg(st == RFG_OK, "%s: %s", m->row, rfg_last_error());
    rfg_context_destroy(&ctx);
}

START_TEST(mixtures_are_rfg_op_moe)
{
    const struct mixture *m = &mixtures[_i];
    char csv[1000], list[RFG_DESCRIBE_MAX], *rest = list, text[RFG_PROBLEM_MAX];
    struct rfg_shapes s;
    size_t n = 0;
    snprintf(csv, sizeof(csv), "%s%s\n", MOE, m->row);
    read_file("untuned_fmoe.csv", csv, &s);
    ck_assert_msg(!s.n_bad, "%s", said);
    describe_mixture(m, list, sizeof(list));
    for (char *line; (line = strsep(&rest, "\n")); n++) {
        struct rfg_problem p;
        struct rfg_reason why;
        ck_assert_msg(rfg_problem_parse(&p, line, &why), "%s", why.text);
        p = rfg_problem_key(&p);
        ck_assert_msg(n < s.n && rfg_problem_equal(&p, &s.v[n].problem), "%s: %zu is %s, the call's is %s", m->row, n,
                      n < s.n ? rfg_problem_format(&s.v[n].problem, text, sizeof(text)) : "missing", line);
    }
    ck_assert_uint_ge(n, 4);
    /* On AMD GPUs few tokens have another one in place of the last two. */
    ck_assert_uint_eq(s.n, n + (m->t * m->k <= 64));
    if (s.n > n)
        ck_assert_ptr_nonnull(strstr(rfg_problem_format(&s.v[n].problem, text, sizeof(text)), "slots=4"));
    double us = 0;
    for (size_t i = 0; i < s.n; i++)
        us += s.v[i].us;
    ck_assert_double_eq(us, 7);
    rfg_shapes_free(&s);
}
END_TEST

static const struct {
    const char *row, *says;
} refused[] = {
    { "0,256,128,8,4,Silu,torch.bfloat16,,,No,1,0,,,", "column token: '0': must be a whole number from 1 to" },
    { "1,256,128,8,33,Silu,torch.bfloat16,,,No,1,0,,,", "column topk: '33': must be a whole number from 1 to 32" },
    { "1,256,128,8,4,Mish,torch.bfloat16,,,No,1,0,,,",
      "column act_type: 'Mish': must be one of Silu, Gelu, Swiglu, Situv2" },
    { "1,256,128,8,4,Silu,torch.bfloat16,,,No,0,0,,,", "column use_g1u1: '0': must be 1: rfg's experts are gated" },
    { "1,256,128,8,4,Silu,torch.bfloat16,,,No,x,0,,,", "column use_g1u1: 'x': must be true or false" },
    { "1,256,128,8,4,Silu,torch.bfloat16,,,per_Token,1,0,,,", "column q_type: 'per_Token': must be No" },
    { "1,256,128,8,4,Silu,torch.bfloat16," FP8 "," FP8 ",No,1,0,,,", "column q_type: 'No': must be per_Tensor, " },
    { "1,256,128,8,4,Silu,torch.bfloat16,," FP8 ",per_Token,1,0,,,", "column q_dtype_a: '': must be q_dtype_w's" },
    { "1,256,128,8,4,Silu,torch.bfloat16," FP8 "," FP8 ",per_row,1,0,,,",
      "column q_type: 'per_row': must be one of No" },
    { "1..4,256,128,8,4,Silu,torch.bfloat16,,,No,1,0,,,", "'1..4': must have no range" },
};

START_TEST(mixtures_refused)
{
    char csv[1000];
    struct rfg_shapes s;
    snprintf(csv, sizeof(csv), "%s%s\n", MOE, refused[_i].row);
    read_file("fmoe.csv", csv, &s);
    ck_assert_msg(strstr(said, refused[_i].says), "'%s' does not say '%s'", said, refused[_i].says);
    ck_assert_uint_eq(s.n, 0);
    rfg_shapes_free(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shapes_aiter");
    TCase *tc = test_case(s, "shapes_aiter", setup, teardown);
    ADD_TESTS(tc, measured);
    ADD_LOOPS(tc, COUNT(files), products);
    ADD_LOOPS(tc, COUNT(mixtures), mixtures_are_rfg_op_moe);
    ADD_LOOPS(tc, COUNT(refused), mixtures_refused);
    return run_suite(s);
}
