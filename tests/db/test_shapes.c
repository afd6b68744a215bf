/* SPDX-License-Identifier: MIT
 *
 * Shapes files: ours and AITER's, and the messages about bad ones. */
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "ops/gemm/gemm.h"
#include "tests/suite.h"

static char dir[32], path[64];

static void setup(void)
{
    strcpy(dir, "/tmp/rfg-shapes-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/shapes.csv", dir);
}

static void teardown(void)
{
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

struct said {
    int n;
    char first[700], last[700];
};

static void hear(void *ctx, const char *message)
{
    struct said *s = ctx;
    snprintf(s->n++ ? s->last : s->first, sizeof(s->first), "%s", message);
}

static rfg_status read_bytes(const void *bytes, size_t size, struct rfg_shapes *out, struct said *said)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    fclose(f);
    memset(said, 0, sizeof(*said));
    rfg_status st = rfg_shapes_read(path, out, hear, said);
    ck_assert_int_eq(said->n, out->n_bad > 10 ? 11 : (int)out->n_bad);
    return st;
}

static rfg_status read_text(const char *text, struct rfg_shapes *out, struct said *said)
{
    return read_bytes(text, strlen(text), out, said);
}

#define HEAD "op,dtype,M,N,K,attrs,weight\n"

static const struct {
    const char *csv;
    int line;
    double weight;
    const char *problem;
} good[] = {
    { "op,dtype,M,N,K\ngemm,bf16,1,64,7168\n", 2, 1, "gemm bf16,bf16->bf16 M=1 N=64 K=7168" },
    { "op,dtype,M,N,K\ngemm,bf16,1,64,7168", 2, 1, "gemm bf16,bf16->bf16 M=1 N=64 K=7168" }, /* no last newline */
    { "K, N ,M,op,dtype\r\n\r\n# a, \"comment\r\n 7168 , 64,1,gemm,\"f16,f16->f32\"\r\n", 4, 1,
      "gemm f16,f16->f32 M=1 N=64 K=7168" },
    { "\xef\xbb\xbf" HEAD "gemm,fp32,1,2,3,bias=1,2.5\n", 2, 2.5, "gemm f32,f32->f32 M=1 N=2 K=3 bias=1" },
    { HEAD "gemm,torch.float16,2147483647,2,3,,\n", 2, 1, "gemm f16,f16->f16 M=2147483647 N=2 K=3" },
    { "op,dtype,M,N,K,bias\ngemm,bf16,1,2,3,true\n", 2, 1, "gemm bf16,bf16->bf16 M=1 N=2 K=3 bias=1" },
    { "M,N,K\n1, 1280, 8192\n", 2, 1, "gemm bf16,bf16->bf16 M=1 N=1280 K=8192" },
    { "M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle\n4,5,6,True,torch.bfloat16,torch.float32,False,False\n", 2, 1,
      "gemm bf16,bf16->f32 M=4 N=5 K=6 bias=1" },
    { "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,"
      "bw\n"
      "gfx950,256,64,256,5120,False,torch.bfloat16,torch.float32,False,False,asm,5,13,7.9,_ZN5,0.0,21.1,417.9\n",
      2, 1, "gemm bf16,bf16->f32 M=64 N=256 K=5120" },
    { "M,N,K,q_dtype_w,bias\n4,5,6,,0\n", 2, 1, "gemm bf16,bf16->bf16 M=4 N=5 K=6" },
    { "M,N,K,bias,bpreshuffle\n4,16,64,True,True\n", 2, 1, "gemm bf16,bf16->bf16 M=4 N=16 K=64 bias=1 packed=1" },
    { "M,N,K,bpreshuffle\n4,16,64,1\n", 2, 1, "gemm bf16,bf16->bf16 M=4 N=16 K=64 packed=1" },
    { "M,N,K,bpreshuffle\n4,16,64,\n", 2, 1, "gemm bf16,bf16->bf16 M=4 N=16 K=64" },
};

START_TEST(good_files)
{
    struct rfg_shapes s;
    struct said said;
    char text[RFG_PROBLEM_STRLEN];
    ck_assert_msg(read_text(good[_i].csv, &s, &said) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(!s.n_bad, "%s", said.first);
    ck_assert_uint_eq(s.n, 1);
    ck_assert_str_eq(rfg_problem_format(&s.v[0].problem, text, sizeof(text)), good[_i].problem);
    ck_assert_double_eq(s.v[0].weight, good[_i].weight);
    ck_assert_int_eq(s.v[0].line, good[_i].line);
    rfg_shapes_free(&s);
    ck_assert_ptr_null(s.v);
}
END_TEST

#define CALLS "rfg: calls: gemm bf16,bf16->bf16 M=8 N=2112 K=7168"
#define BENCH                                                                                                          \
    "hipblaslt-bench --api_method c -m 2112 -n 8 -k 7168 --lda 7168 --ldb 7168 --ldc 2112 --ldd 2112  --stride_a 0 "   \
    "--alpha 1.000000 --beta 0.000000 --transA T --transB N --batch_count 1 --scaleA 0 --scaleB 0  --a_type bf16_r "   \
    "--b_type bf16_r --c_type bf16_r --d_type bf16_r --scale_type f32_r --compute_type f32_r "

/* What engines and libraries write down, and the problems in it with their weights. */
static const struct {
    const char *text;
    size_t n, n_bad;
    double weight; /* of the first */
    const char *problem, *says;
} logs[] = {
    { CALLS "\n", 1, 0, 1, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL },
    { "engine starts\n2026-11-23T01:02:03Z " CALLS "\nrfg: dispatch: rung 1\n" CALLS "\n\xff\n" CALLS " align=8\n", 2,
      0, 2, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL },
    { CALLS " ldx=8192 bias=1\r\n", 1, 0, 1, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168 bias=1 ldx=8192", NULL },
    { CALLS "\nrfg: calls: gemm bf16,bf16->bf16 M=8\n", 1, 1, 1, NULL, "shapes.csv:2: " },
    { "Validator,PT_VERSION,2.9.0\nGemmTunableOp_BFloat16_TN,tn_2112_8_7168_ld_7168_7168_2112,Gemm_Rocblas_45,0.1\n", 1,
      0, 1, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL },
    { "GemmTunableOp_Half_TN,tn_2112_8_7168,Default,0.1\n", 1, 0, 1, "gemm f16,f16->f16 M=8 N=2112 K=7168", NULL },
    { "GemmAndBiasTunableOp_float_TN,tn_12_8_64_ld_96_80_16\r\n", 1, 0, 1,
      "gemm f32,f32->f32 M=8 N=12 K=64 bias=1 ldx=80 ldw=96 ldy=16", NULL },
    { "GemmTunableOp_BFloat16_NN,nn_1_2_3\nGemmTunableOp_BFloat16_TN,tn_1_2_3\n", 1, 1, 1,
      "gemm bf16,bf16->bf16 M=2 N=1 K=3", "shapes.csv:1: transposed NN: must be TN" },
    { "GemmTunableOp_BFloat16_TN,tn_1_2\n", 0, 1, 0, NULL, "'tn_1_2': must be tn_M_N_K" },
    { "GemmTunableOp_BFloat16_TN,tn_1_2_3x\n", 0, 1, 0, NULL, "'tn_1_2_3x': must be" },
    { "GemmTunableOp_BFloat16_TN,tn_1_2_3_ld_3_3\n", 0, 1, 0, NULL, "must be tn_M_N_K or" },
    { "GemmTunableOp_BFloat16_TN,tn_1_2_3_ld_3_3_4x\n", 0, 1, 0, NULL, "must be tn_M_N_K or" },
    { "GemmTunableOp_BFloat16_TN,tn_99999999999_2_3\n", 0, 1, 0, NULL, "must be tn_M_N_K" },
    { "GemmTunableOp_BFloat16_TN,tn_0_2_3\n", 0, 1, 0, NULL, "must be at least 1" },
    { "GemmTunableOp_BFloat16_TN,tn_4_2_3_ld_2_3_4\n", 0, 1, 0, NULL, "leading dimension 2: must be at least 3" },
    { "GemmTunableOp_double_TN,tn_1_2_3\n", 0, 1, 0, NULL, "type must be BFloat16, Half or float" },
    { "Validator,a,b\nScaledGemmTunableOp_BFloat16_TN,tn_1_2_3\n", 0, 1, 0, NULL, "must be GemmTunableOp_" },
    { BENCH "\nother\n" BENCH "\n", 1, 0, 2, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL },
    { BENCH "--bias_vector --bias_type bf16_r\n", 1, 0, 1, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168 bias=1", NULL },
    { BENCH "--activation_type gelu\n", 0, 1, 0, NULL, "--activation_type gelu: must be none" },
    { "hipblaslt-bench -m 4 -n 2 -k 3 --transA T --a_type f16_r --b_type f16_r --d_type f32_r\n", 1, 0, 1,
      "gemm f16,f16->f32 M=2 N=4 K=3", NULL },
    { "hipblaslt-bench -m 4 -n 2 -k 3 --a_type f16_r --b_type f16_r --d_type f16_r\n", 0, 1, 0, NULL,
      "transposed NN: must be TN" },
    { "hipblaslt-bench -m 4 -n 2 -k 3 --transA T --a_type f8_r --b_type f8_r --d_type f16_r\n", 0, 1, 0, NULL,
      "--a_type, --b_type and --d_type: must be" },
    { "hipblaslt-bench -m 4 -n 2 -k 3 --transA T --batch_count 2 --a_type f16_r --b_type f16_r --d_type f16_r\n", 0, 1,
      0, NULL, "--batch_count 2: must be 1" },
    { "hipblaslt-bench -m 4x -n 2 -k 3 --transA T --a_type f16_r --b_type f16_r --d_type f16_r\n", 0, 1, 0, NULL,
      "-m 4x: must be a whole number" },
    { "# made of rfg: calls: lines, and hipblaslt-bench ones\nM,N,K\n1,2,3\n", 1, 0, 1,
      "gemm bf16,bf16->bf16 M=1 N=2 K=3", NULL },
    { "op,dtype,M,N,K\ngemm,bf16,2..4,5,6\n", 3, 0, 1, "gemm bf16,bf16->bf16 M=2 N=5 K=6", NULL },
    { "op,dtype,M,N,K,attrs\nmha_decode,bf16,1,64,8,Hkv=1..2 D=128\n", 2, 0, 1,
      "mha_decode bf16->bf16 B=1 Hq=8 Hkv=1 D=128 S=64", NULL },
    { "op,dtype,M,N,K\ngemm,bf16,2..4,5..6,6\n", 0, 1, 0, NULL, "has a second range" },
    { "op,dtype,M,N,K\ngemm,bf16,4..2,5,6\n", 0, 1, 0, NULL, "'4..2': low must not be above high" },
    { "op,dtype,M,N,K\ngemm,bf16,1..4097,5,6\n", 0, 1, 0, NULL, "at most 4096 problems" },
    { "op,dtype,M,N,K\ngemm,bf16,..4,5,6\n", 0, 1, 0, NULL, "'..4': a range must be low..high" },
    { "op,dtype,M,N,K\ngemm,bf16,0..4,5,6\n", 0, 1, 0, NULL, "column M: '0': must be a whole number" },
    { "op,dtype,M,N,K\ngemm,bf16,2...4,5,6\n", 0, 1, 0, NULL, "'2...4': " },
};

START_TEST(logs_and_ranges)
{
    struct rfg_shapes s;
    struct said said;
    char text[RFG_PROBLEM_STRLEN];
    ck_assert_msg(read_text(logs[_i].text, &s, &said) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(s.n == logs[_i].n && s.n_bad == logs[_i].n_bad, "%d: %zu problems, %zu bad: %s", _i, s.n, s.n_bad,
                  said.first);
    if (logs[_i].problem) {
        ck_assert_str_eq(rfg_problem_format(&s.v[0].problem, text, sizeof(text)), logs[_i].problem);
        ck_assert_double_eq(s.v[0].weight, logs[_i].weight);
    }
    ck_assert_msg(!logs[_i].says || strstr(said.first, logs[_i].says), "'%s' does not say '%s'", said.first,
                  logs[_i].says);
    rfg_shapes_free(&s);
}
END_TEST

START_TEST(repeats_count_for_their_own)
{
    static const char text[] = CALLS "\n" CALLS " bias=1\n" CALLS " align=8\n" CALLS " bias=1\n" CALLS "\n" CALLS
                                     " align=8\n" CALLS " align=8\n" CALLS " align=8\n" CALLS " bias=1\n";
    static const double weights[] = { 2, 3, 4 };
    struct rfg_shapes s;
    struct said said;
    ck_assert_msg(read_text(text, &s, &said) == RFG_OK, "%s", rfg_last_error());
    ck_assert_uint_eq(s.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(s.v[i].weight, weights[i]);
    rfg_shapes_free(&s);
}
END_TEST

static char warning[700];

static void hear_warning(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING && strstr(line, "don't exist"))
        snprintf(warning, sizeof(warning), "%s", line);
}

/* Rows tuned on GPUs that don't exist match no GPU; as shapes they are as good as others. */
START_TEST(impossible_gpus)
{
    static const struct {
        const char *gfx;
        int cus;
        bool possible;
    } gpus[] = { { "gfx942", 304, true }, { "gfx942", 38, true },  { "gfx942", 80, true },   { "gfx942", 256, false },
                 { "gfx950", 256, true }, { "gfx950", 128, true }, { "gfx950", 304, false }, { "gfx950", 0, false },
                 { NULL, 304, true },     { NULL, 305, false },    { "gfx9999", 7, true } };
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
        struct rfg_shapes s;
        struct said said;
        char text[200];
        if (gpus[i].gfx)
            snprintf(text, sizeof(text), "gfx,cu_num,M,N,K\n%s,%d,4,5,6\n", gpus[i].gfx, gpus[i].cus);
        else
            snprintf(text, sizeof(text), "cu_num,M,N,K\n%d,4,5,6\n", gpus[i].cus);
        *warning = 0;
        rfg_set_log_callback(hear_warning, NULL, 0);
        ck_assert_int_eq(read_text(text, &s, &said), RFG_OK);
        rfg_set_log_callback(NULL, NULL, 0);
        ck_assert_uint_eq(s.n, 1);
        ck_assert_msg(!*warning == gpus[i].possible, "%s %d: '%s'", gpus[i].gfx, gpus[i].cus, warning);
        snprintf(text, sizeof(text), "line 2, cu_num %d of", gpus[i].cus);
        ck_assert(gpus[i].possible || strstr(warning, text));
        rfg_shapes_free(&s);
    }
}
END_TEST

/* A header, one bad line, and what is said; a good line follows and must be read. */
static const struct {
    const char *header, *line, *says;
} bad[] = {
    { HEAD, "gemm,bf16,abc,2,3,,", "shapes.csv:2: column M: 'abc': must be a whole number from 1 to 2147483647" },
    { HEAD, "gemm,bf16,0,2,3,,", "shapes.csv:2: column M: '0': must be a whole number from 1 to 2147483647" },
    { HEAD, "gemm,bf16,1,-2,3,,", "shapes.csv:2: column N: '-2': must be" },
    { HEAD, "gemm,bf16,1,2.0,3,,", "shapes.csv:2: column N: '2.0': must be" },
    { HEAD, "gemm,bf16,1,2,2147483648,,", "shapes.csv:2: column K: '2147483648': must be" },
    { HEAD, "gemm,bf16,1,2,99999999999999999999,,", "shapes.csv:2: column K: '99999999999999999999': must be" },
    { HEAD, "gemm,bf16,1,2,,,", "shapes.csv:2: column K: '': must be" },
    { HEAD, "gem,bf16,1,2,3,,", "shapes.csv:2: column op: 'gem': no such operator" },
    { HEAD, "gemm,int4,1,2,3,,", "shapes.csv:2: column dtype: 'int4': must be bf16, f16 or f32" },
    { HEAD, "gemm,,1,2,3,,", "shapes.csv:2: column dtype: '': must be" },
    { HEAD, "gemm,\"bf16,f32->bf16\",1,2,3,,", "shapes.csv:2: column dtype: dtype of w is f32" },
    { HEAD, "gemm,\"bf16->bf16\",1,2,3,,",
      "shapes.csv:2: column dtype: dtypes 'bf16->bf16': must be those of gemm's x,w->y" },
    { HEAD, "gemm,bf16,1,2,3,bias,", "shapes.csv:2: column attrs: 'bias': must be key=value" },
    { HEAD, "gemm,bf16,1,2,3,bias=2,", "shapes.csv:2: column attrs: bias=2: must be from 0 to 1" },
    { HEAD, "gemm,bf16,1,2,3,page=16,", "shapes.csv:2: column attrs: key 'page': gemm has no such key" },
    { HEAD, "gemm,bf16,1,2,3,M=4,", "shapes.csv:2: column attrs: 'M': has a column of its own" },
    { HEAD, "gemm,bf16,1,2,3,ldx=64,", "shapes.csv:2: column attrs: 'ldx': strides and alignment" },
    { HEAD, "gemm,bf16,1,2,3,bias=1 bias=1,", "shapes.csv:2: column attrs: 'bias': is given twice" },
    { HEAD, "gemm,bf16,1,2,3,,heavy", "shapes.csv:2: column weight: 'heavy': must be a number above 0" },
    { HEAD, "gemm,bf16,1,2,3,,0", "shapes.csv:2: column weight: '0': must be a number above 0" },
    { HEAD, "gemm,bf16,1,2,3,,inf", "shapes.csv:2: column weight: 'inf': must be a number above 0" },
    { HEAD, "gemm,bf16,1,2,3", "shapes.csv:2: 5 fields: must be 7, as in the header" },
    { HEAD, "gemm,bf16,1,2,3,,,", "shapes.csv:2: 8 fields: must be 7, as in the header" },
    { HEAD, "gemm,\"bf16,1,2,3,,", "shapes.csv:2: the quotes" },
    { HEAD, "gemm,\"bf16\"x,1,2,3,,", "shapes.csv:2: the quotes" },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,2,3,True,False,,0", "shapes.csv:2: column scaleAB: 'True'" },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,2,3,False,1,,0", "shapes.csv:2: column dtype: " },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,16,32,False,2,,0", "shapes.csv:2: column bpreshuffle: '2'" },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,16,48,False,True,,0",
      "column dtype: K=48: must be a multiple of 32" },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,2,3,,,torch.float64,0",
      "column q_dtype_w: 'torch.float64': must be" },
    { "M,N,K,scaleAB,bpreshuffle,q_dtype_w,bias\n", "1,2,3,,,,maybe", "shapes.csv:2: column attrs: bias=maybe" },
};

START_TEST(bad_lines)
{
    char csv[500];
    struct rfg_shapes s;
    struct said said;
    bool aiter = bad[_i].header[0] == 'M';
    snprintf(csv, sizeof(csv), "%s%s\n%s", bad[_i].header, bad[_i].line,
             aiter ? "8,9,10,0,0,,0\n" : "gemm,bf16,8,9,10,,\n");
    ck_assert_msg(read_text(csv, &s, &said) == RFG_OK, "%s", rfg_last_error());
    ck_assert_uint_eq(s.n_bad, 1);
    ck_assert_msg(strstr(said.first, bad[_i].says) != NULL, "'%s' does not say '%s'", said.first, bad[_i].says);
    ck_assert_msg(!strncmp(said.first, path, strlen(path)), "%s", said.first);
    ck_assert_uint_eq(s.n, 1);
    ck_assert_int_eq(s.v[0].problem.v[GEMM_M], 8);
    ck_assert_int_eq(s.v[0].line, 3);
    rfg_shapes_free(&s);
}
END_TEST

static const struct {
    const char *csv, *says;
} unusable[] = {
    { "", "shapes.csv: empty" },
    { "\n\n# only a comment\n", "shapes.csv: empty" },
    { HEAD, "shapes.csv: has a header and no shapes" },
    { HEAD "# none\n\n", "shapes.csv: has a header and no shapes" },
    { "op,dtype,M,N\ngemm,bf16,1,2\n", "shapes.csv:1: column K is missing" },
    { "op,M,N,K\ngemm,1,2,3\n", "shapes.csv:1: column dtype is missing" },
    { "M,N\n1,2\n", "shapes.csv:1: column K is missing" },
    { "op,dtype,M,N,K,M\ngemm,bf16,1,2,3,4\n", "shapes.csv:1: column 'M': is there twice" },
    { "op,dtype,M,N,K,colour\ngemm,bf16,1,2,3,red\n", "shapes.csv:1: column 'colour': must be one of" },
    { "op,dtype,M,N,K,scaleAB\ngemm,bf16,1,2,3,0\n", "shapes.csv:1: column 'scaleAB': must be one of" },
    { "# x\nop,\"dtype,M,N,K\n", "shapes.csv:2: header: the quotes" },
    { "gemm,bf16,1,2,3\n", "shapes.csv:1: column 'gemm': must be one of AITER's" },
    { "operator,dtype,M,N,K\nrmsnorm,bf16,1,2,3\n", "shapes.csv:1: column 'operator': must be one of AITER's" },
    { "M,N,K,colour\n1,2,3,red\n", "shapes.csv:1: column 'colour': must be one of AITER's" },
    { "M,N,K,Bias\n1,2,3,1\n", "shapes.csv:1: column 'Bias': must be" },
    { "token,model_dim,bias\n1,2,1\n", "shapes.csv:1: column 'bias': must be" },
};

START_TEST(unusable_headers)
{
    struct rfg_shapes s;
    struct said said;
    ck_assert_int_eq(read_text(unusable[_i].csv, &s, &said), RFG_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(rfg_last_error(), unusable[_i].says) != NULL, "%s", rfg_last_error());
    ck_assert_uint_eq(s.n, 0);
    ck_assert_ptr_null(s.v);
}
END_TEST

START_TEST(odd_bytes)
{
    static const char nul[] = HEAD "gemm,bf16,1\0,2,3,,\ngemm,bf16,8,9,10,,\n";
    struct rfg_shapes s;
    struct said said;
    ck_assert_int_eq(read_bytes(nul, sizeof(nul) - 1, &s, &said), RFG_OK);
    ck_assert_uint_eq(s.n_bad, 1);
    ck_assert_msg(strstr(said.first, "shapes.csv:2: there is a NUL byte") != NULL, "%s", said.first);
    ck_assert_uint_eq(s.n, 1);
    rfg_shapes_free(&s);

    char commas[400] = HEAD; /* more fields than there can be columns */
    memset(commas + strlen(HEAD), ',', 100);
    ck_assert_int_eq(read_text(commas, &s, &said), RFG_OK);
    ck_assert_msg(strstr(said.first, "shapes.csv:2: there are too many fields") != NULL, "%s", said.first);
    rfg_shapes_free(&s);

    ck_assert_int_eq(rfg_shapes_read("/nonexistent/x.csv", &s, hear, &said), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "/nonexistent/x.csv: cannot read: No such file"));
    ck_assert_int_eq(rfg_shapes_read("/", &s, hear, &said), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "/: cannot read: Is a directory"));
    ck_assert_int_eq(rfg_shapes_read(dir, &s, hear, &said), RFG_ERROR_IO);
}
END_TEST

START_TEST(many_lines)
{
    char text[40 * 3001], note[64], cmd[200];
    struct rfg_shapes s;
    struct said said;
    size_t at = (size_t)sprintf(text, "op,dtype,M,N,K\n");
    for (int i = 0; i < 3000; i++) /* each problem twice, every tenth line bad */
        at += (size_t)sprintf(text + at, "gemm,bf16,%d,2,%s\n", 1 + i / 2, i % 10 ? "3" : "x");
    snprintf(note, sizeof(note), "%s/log", dir);
    ck_assert_ptr_nonnull(freopen(note, "w", stderr));
    ck_assert_int_eq(read_text(text, &s, &said), RFG_OK);
    fflush(stderr);
    ck_assert_uint_eq(s.n_bad, 300);
    ck_assert_uint_eq(s.n, 1500);
    for (size_t i = 0; i < s.n; i++)
        ck_assert_int_eq(s.v[i].problem.v[GEMM_M], 1 + (int)i); /* in the file's order */
    ck_assert_int_eq(s.v[1].line, 4);
    snprintf(cmd, sizeof(cmd), "grep -q '1200 lines repeat a problem.*line 5, as line 4' %s", note);
    ck_assert_int_eq(system(cmd), 0);
    rfg_shapes_free(&s);
    ck_assert_ptr_nonnull(strstr(said.last, ": 300 lines refused in all"));
}
END_TEST

/* A file that has no end, or very many problems, costs no more than a bounded time and memory. */
START_TEST(too_much)
{
    struct rfg_shapes s;
    struct said said = { 0 };
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("op,dtype,M,N,K\n", f);
    for (int i = 0; i < (_i ? 66000 : 1000010); i++)
        fprintf(f, "gemm,bf16,%d,2,3\n", _i ? 1 + i : 7);
    fclose(f);
    ck_assert_int_eq(rfg_shapes_read(path, &s, hear, &said), RFG_OK);
    ck_assert_uint_eq(s.n, _i ? 65536 : 1);
    ck_assert_uint_eq(s.n_bad, 1);
    ck_assert_ptr_nonnull(strstr(said.first, _i ? ":65538: the rest" : ":1000001: the rest"));
    rfg_shapes_free(&s);
}
END_TEST

/* A line of any length is one bad line, and the next is read. */
START_TEST(long_lines)
{
    struct rfg_shapes s;
    struct said said;
    size_t size = 200000;
    char *text = malloc(size + 200);
    ck_assert_ptr_nonnull(text);
    size_t at = (size_t)sprintf(text, "op,dtype,M,N,K\ngemm,bf16,1,2,3\ngemm,bf16,");
    memset(text + at, '1', size);
    strcpy(text + at + size, ",2,3\ngemm,bf16,4,5,6");
    ck_assert_int_eq(read_text(text, &s, &said), RFG_OK);
    ck_assert_uint_eq(s.n, 2);
    ck_assert_int_eq(s.v[1].line, 4);
    ck_assert_ptr_nonnull(strstr(said.first, ":3: longer than 65536 bytes"));
    rfg_shapes_free(&s);
    free(text);
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
    Suite *s = suite_create("shapes");
    TCase *tc = test_case(s, "shapes", setup, teardown);
    ADD_TESTS(tc, impossible_gpus, odd_bytes, many_lines, long_lines, repeats_count_for_their_own);
    ADD_LOOPS(tc, COUNT(good), good_files);
    ADD_LOOPS(tc, COUNT(logs), logs_and_ranges);
    ADD_LOOPS(tc, COUNT(bad), bad_lines);
    ADD_LOOPS(tc, COUNT(unusable), unusable_headers);
    ADD_LOOPS(tc, 2, too_much);
    return run_suite(s);
}
