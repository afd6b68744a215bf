/* SPDX-License-Identifier: MIT
 *
 * Outputs of norms and activations in the mx formats (RFG_SCALE_MX): against the oracle, in tables and at random; bit
 * for bit what rfg_op_quantize() makes of the plain output; and what is refused. */
#include <math.h>

#include "base/util.h"
#include "ops/act/act.h"
#include "ops/norm/norm.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

#define R RFG_DATA_RANDOM
#define S RFG_DATA_SPECIAL

static const struct op_case norms[] = {
    { "rmsnorm bf16->e4m3 M=4 N=4096 scale=mx rounding=up" },
    { "rmsnorm bf16->e2m1 M=5 N=2880 scale=mx rounding=even plain=1 weight=1+w" },
    { "rmsnorm f32->e2m1 M=3 N=96 scale=mx rounding=down" },
    { "rmsnorm bf16->e2m1 M=5 N=64 ldy=65 scale=mx rounding=even plain=1" },
    { "rmsnorm f16->e4m3 M=33 N=32 scale=mx rounding=ceil weight=none" },
    { "rmsnorm bf16->e2m1 M=12 N=128 heads=4 ldx=640 scale=mx rounding=up plain=1" },
    { "rmsnorm bf16->e2m1 M=12 N=64 heads=4 ldx=640 ldy=260 scale=mx rounding=even" },
    { "add_rmsnorm bf16->e2m1 M=4 N=7168 scale=mx rounding=up" },
    { "add_rmsnorm bf16->e2m1 M=1 N=7168 scale=mx rounding=even" },
    { "add_rmsnorm bf16->e4m3 M=5 N=1568 scale=mx rounding=even scale_columns=1 inplace=2" },
    { "add_rmsnorm bf16->e2m1 M=3 N=3584 scale=mx rounding=down residual=f32 wtype=f32" },
    { "add_rmsnorm f32->e4m3 M=4 N=512 scale=mx rounding=ceil plain=1", R, true },
    { "add_rmsnorm bf16->e2m1 M=2 N=16384 scale=mx rounding=up" },
    { "layernorm f16->e2m1 M=3 N=4128 bias=1 scale=mx rounding=even", R, true },
    { "layernorm f32->e4m3 M=3 N=608 bias=1 scale=mx rounding=down ldy=616" },
    { "add_layernorm f16->e4m3 M=4 N=3584 bias=1 scale=mx rounding=up plain=1" },
    { "add_layernorm bf16->e2m1 M=3 N=160 scale=mx rounding=ceil ldy=162 align=4 align_y=2" },
    { "rmsnorm bf16->e4m3 M=40 N=512 scale=mx rounding=up weight=none", S },
    { "rmsnorm f16->e2m1 M=40 N=512 scale=mx rounding=even", S },
    { "rmsnorm bf16->e2m1 M=0 N=64 scale=mx rounding=up" },
    { "rmsnorm bf16->e4m3 M=4 N=0 scale=mx rounding=up" },
};

static const struct op_case activations[] = {
    { "act_and_mul bf16->e4m3 M=6 N=2880 scale=mx rounding=up" },
    { "act_and_mul bf16->e2m1 M=5 N=2048 act=gelu_tanh scale=mx rounding=even plain=1" },
    { "act_and_mul f16->e2m1 M=3 N=96 act=gelu scale=mx rounding=down scale_columns=1" },
    { "act_and_mul f32->e4m3 M=4 N=544 scale=mx rounding=ceil" },
    { "act_and_mul f32->e2m1 M=9 N=32 act=relu2 scale=mx rounding=up" },
    { "act_and_mul bf16->e2m1 M=4 N=2880 act=swigluoai gates=interleaved scale=mx rounding=up plain=1" },
    { "act_and_mul bf16->e4m3 M=5 N=512 ldx=1040 ldy=520 scale=mx rounding=even" },
    { "act_and_mul f16->e2m1 M=5 N=160 ldy=162 align=4 align_y=2 scale=mx rounding=up" },
    { "act_and_mul f32->e2m1 M=4 N=512 scale=mx rounding=even scale_columns=1", R, true },
    { "act bf16->e2m1 M=8 N=4096 act=none scale=mx rounding=up" },
    { "act f32->e4m3 M=3 N=640 act=relu scale=mx rounding=down" },
    { "act f16->e4m3 M=5 N=320 ldx=328 ldy=328 act=none inplace=1 scale=mx rounding=even plain=1" },
    { "act_and_mul bf16->e4m3 M=40 N=512 scale=mx rounding=up", S },
    { "act bf16->e2m1 M=40 N=512 act=none scale=mx rounding=even", S },
    { "act f32->e4m3 M=40 N=512 act=none scale=mx rounding=ceil", S },
    { "act_and_mul bf16->e2m1 M=0 N=64 scale=mx rounding=up" },
};

OP_CASES(right_norms, norms, "norms, mx outputs")
OP_CASES(right_activations, activations, "activations, mx outputs")

/* ---- random problems --------------------------------------------------------------------------------------------- */

static void draw(char *text, uint64_t *state)
{
    static const char *const floats[] = { "f32", "f16", "bf16" }, *const codes[] = { "e4m3", "e2m1" };
    static const char *const ops[] = { "rmsnorm", "add_rmsnorm", "layernorm",  "add_layernorm",
                                       "act",     "act_and_mul", "act_and_mul" };
    static const char *const acts[] = { "silu", "gelu", "gelu_tanh", "relu", "relu2", "none" };
    static const char *const roundings[] = { "up", "down", "even", "ceil" };
    static const char *const weights[] = { "w", "1+w", "none" };
    uint64_t seed = *state;
    const char *op = ONE_OF(ops), *x = ONE_OF(floats);
    int m = 1 + BELOW(30), n = 32 * (1 + BELOW(BELOW(4) ? 12 : 80));
    bool norm = *op != 'a' || op[1] == 'd', adds = op[1] == 'd', wide = *x != 'f' || x[1] != '3';
    *text = 0;
    op_say(text, "%s %s->%s M=%d N=%d scale=mx rounding=%s plain=%d scale_columns=%d", op, x, ONE_OF(codes), m, n,
           ONE_OF(roundings), BELOW(2), BELOW(2));
    if (norm) {
        const char *weight = ONE_OF(weights);
        bool bias = strstr(op, "layer") && BELOW(2);
        op_say(text, " weight=%s bias=%d", weight, bias);
        if (wide && adds && BELOW(3) == 0)
            op_say(text, " residual=f32");
        if (wide && (bias || *weight != 'n') && BELOW(3) == 0)
            op_say(text, " wtype=f32");
    } else {
        op_say(text, " act=%s", ONE_OF(acts));
        if (op[3] && BELOW(4) == 0)
            op_say(text, " gates=interleaved");
    }
    if (BELOW(3) == 0)
        op_say(text, " ldx=%d ldy=%d", 2 * n + BELOW(9), n + 2 * BELOW(9));
    *state = seed;
}

START_TEST(random_problems)
{
    rfg_context *ctx = op_context(op_device(_i));
    uint64_t seed = op_seed();
    int wanted = !strcmp(op_device(_i), "cpu") ? op_random_problems() : op_random_problems() / 10;
    for (int i = 0; i < wanted; i++) {
        char text[RFG_PROBLEM_STRLEN];
        draw(text, &seed);
        op_case_right(ctx, text, BELOW(4) ? R : S, rfg_random(&seed));
    }
    printf("random mx outputs on %s: %d right\n", op_device(_i), wanted);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- as rfg_op_quantize() has it --------------------------------------------------------------------------------- */

enum { ROWS = 72, COLS = 288, GROUPS = COLS / 32, ELEMENTS = ROWS * COLS };

struct memory {
    _Alignas(16) float x[2 * ELEMENTS], y[ELEMENTS];
    uint8_t q[2][ELEMENTS], scale[2][ROWS * GROUPS];
};

/* Groups whose largest is next to where a scale of any rounding changes, from the least to the largest scale; and
 * what is special. */
static void fill_groups(float *x, rfg_dtype codes, uint64_t seed)
{
    const float max = (float)rfg_largest(codes);
    const float specials[] = { NAN, -NAN, INFINITY, -INFINITY };
    const float edges[] = { max, 1, 1.75f, 1.875f, 1.9375f, 1.5f, 1.96875f };
    for (int g = 0; g < ROWS * GROUPS; g++) {
        int exponent = g % 2 ? BELOW(290) - 155 : BELOW(16) - 8; /* all that fp32 has, or what is common */
        float edge = ldexpf(ONE_OF(edges), exponent), at[3] = { edge, nextafterf(edge, 0), nextafterf(edge, INFINITY) };
        float largest = isinf(edge) ? 0x1.fffffep127f : ONE_OF(at);
        for (int i = 0; i < 32; i++) {
            float v = (float)(rfg_random(&seed) % 2048) / 1024 - 1;
            x[g * 32 + i] = v * largest;
        }
        x[g * 32 + BELOW(32)] = BELOW(2) ? largest : -largest;
        if (g % 16 == 0)
            x[g * 32 + BELOW(32)] = ONE_OF(specials);
        if (g % 37 == 0)
            memset(x + g * 32, 0, 32 * sizeof(*x));
    }
}

static bool same_code(rfg_dtype dtype, const uint8_t *a, const uint8_t *b, int64_t i)
{
    double v = rfg_load(a, dtype, i), w = rfg_load(b, dtype, i);
    return (isnan(v) && isnan(w)) || (v == w && !signbit(v) == !signbit(w));
}

/* Both outputs of a call, then the codes and scales that quantising the plain one makes. */
static void check_bits(rfg_context *ctx, const char *what, int op, rfg_dtype codes, int64_t rounding)
{
    static struct memory host;
    static const char *const ops[] = { "act none", "act silu", "act_and_mul", "rmsnorm", "layernorm" };
    void *data;
    memset(&host, 0, sizeof(host));
    fill_groups(host.x, codes, op_seed());
    for (int i = 0; i < ELEMENTS && op; i++) /* what these make something of */
        host.x[i] = fabsf(host.x[i]) < 1e9f ? host.x[i] : (float)(i % 7);
    for (int i = 0; i < ELEMENTS; i++)
        host.x[ELEMENTS + i] = (float)(i % 13) - 6;
    ck_assert_msg(rfg_device_alloc(ctx, &data, sizeof(host)) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_device_copy(ctx, data, &host, sizeof(host), RFG_HOST_TO_DEVICE, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    struct memory *m = data;
    int64_t rows = op == 2 ? ROWS / 2 : ROWS; /* of act_and_mul x has twice the columns */
    rfg_tensor x = rfg_tensor_2d(m->x, RFG_F32, rows, op == 2 ? 2 * COLS : COLS, op == 2 ? 2 * COLS : COLS);
    rfg_tensor y = rfg_tensor_2d(m->y, RFG_F32, rows, COLS, COLS), q[2], s[2];
    for (int k = 0; k < 2; k++) {
        q[k] = rfg_tensor_2d(m->q[k], codes, rows, COLS, COLS);
        s[k] = rfg_tensor_2d(m->scale[k], RFG_E8M0, rows, GROUPS, GROUPS);
    }
    rfg_quant quant = { sizeof(quant), RFG_SCALE_MX, rounding, &q[0], &s[0] };
    rfg_act_params a = { .size = sizeof(a), .act = op ? RFG_ACT_SILU : RFG_ACT_NONE, .quant = &quant };
    rfg_norm_params n = { .size = sizeof(n), .eps = 1e-6f, .quant = &quant };
    rfg_quantize_params p = {
        .size = sizeof(p), .group_rows = 1, .group_cols = 32, .rounding = (rfg_scale_rounding)rounding
    };
    rfg_status st = op < 2    ? rfg_op_act(ctx, &y, &x, &a, NULL)
                    : op == 2 ? rfg_op_act_and_mul(ctx, &y, &x, &a, NULL)
                    : op == 3 ? rfg_op_rmsnorm(ctx, &y, &x, NULL, &n, NULL)
                              : rfg_op_layernorm(ctx, &y, &x, NULL, &n, NULL);
    ck_assert_msg(st == RFG_OK, "%s: %s: %s", what, ops[op], rfg_last_error());
    ck_assert_msg(rfg_op_quantize(ctx, &q[1], &s[1], &y, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_device_copy(ctx, &host, data, sizeof(host), RFG_DEVICE_TO_HOST, NULL) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert_msg(rfg_stream_sync(ctx, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_device_free(ctx, data) == RFG_OK, "%s", rfg_last_error());
    int scales = 0;
    bool seen[256] = { false };
    for (int64_t i = 0; i < rows * COLS; i++) {
        int64_t g = i / 32;
        float v = host.y[i];
        scales += !seen[host.scale[0][g]];
        seen[host.scale[0][g]] = true;
        ck_assert_msg(host.scale[0][g] == host.scale[1][g], "%s: %s to %s, %s: scale %d is %d, quantize's %d", what,
                      ops[op], rfg_dtype_name(codes), RFG_ROUNDING_NAMES[rounding], (int)g, host.scale[0][g],
                      host.scale[1][g]);
        ck_assert_msg(same_code(codes, host.q[0], host.q[1], i),
                      "%s: %s to %s, %s: code %d, of %a, is %g, quantize's %g", what, ops[op], rfg_dtype_name(codes),
                      RFG_ROUNDING_NAMES[rounding], (int)i, (double)v, rfg_load(host.q[0], codes, i),
                      rfg_load(host.q[1], codes, i));
    }
    ck_assert_msg(scales > (op ? 4 : 150), "%s: %s: %d scales", what, ops[op], scales);
}

START_TEST(as_quantize)
{
    static const char *const lists[] = {
        "act_cpu_portable,act_and_mul_cpu_portable,rmsnorm_cpu_portable,layernorm_cpu_portable",
        "act_cpu_avx2,act_and_mul_cpu_avx2,rmsnorm_cpu_avx2,layernorm_cpu_avx2",
        "act_cpu_avx512,act_and_mul_cpu_avx512,rmsnorm_cpu_avx512,layernorm_cpu_avx512",
    };
    static const char *const names[] = { "act_cpu_portable", "act_cpu_avx2", "act_cpu_avx512" };
    bool cpu = !strcmp(op_device(_i), "cpu");
    int missing = 0;
    for (int k = 0; k < (cpu ? 3 : 1); k++) {
        rfg_context_params p = { .size = sizeof(p), .device = op_device(_i), .user_db = "", .system_db = "" };
        p.variants = cpu ? lists[k] : NULL;
        rfg_context *ctx;
        ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
        const struct rfg_variant *v = rfg_variant_find(&rfg_op_act_desc, names[k]);
        ck_assert_ptr_nonnull(v);
        bool have = !cpu || v->supports(rfg_context_info(ctx), NULL, NULL);
        for (int op = 0; have && op < 5; op++)
            for (int64_t rounding = RFG_SCALE_UP; rounding <= RFG_SCALE_CEIL; rounding++) {
                check_bits(ctx, cpu ? names[k] : op_device(_i), op, RFG_E4M3, rounding);
                check_bits(ctx, cpu ? names[k] : op_device(_i), op, RFG_E2M1, rounding);
            }
        missing += !have;
        rfg_context_destroy(&ctx);
    }
    printf("mx outputs as rfg_op_quantize()'s on %s: %d instruction sets missing\n", op_device(_i), missing);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

START_TEST(problems_refused)
{
    static const char *const wrong[][2] = {
        { "act bf16->e4m3 M=4 N=64 act=none scale=mx", "rounding is 0: must be RFG_SCALE_UP, DOWN, EVEN or CEIL" },
        { "act bf16->e4m3 M=4 N=48 act=none scale=mx rounding=up", "q has 48 columns: must be a multiple of 32" },
        { "act bf16->e5m2 M=4 N=64 act=none scale=mx rounding=up", "q is e5m2: must be e4m3 or e2m1 (scale mx)" },
        { "rmsnorm bf16->i4 M=4 N=64 scale=mx rounding=up", "q is i4: must be e4m3 or e2m1 (scale mx)" },
        { "rmsnorm bf16->e2m1 M=4 N=64 scale=group", "q is e2m1: must be e4m3, e4m3fnuz, e5m2 or i8 (scale group)" },
        { "rmsnorm bf16->e4m3 M=4 N=64 scale=token rounding=even", "rounding is 3: must be 0" },
        { "rmsnorm bf16->bf16 M=4 N=64 rounding=even", "rounding=even: only with scale=mx" },
        { "rmsnorm bf16->e2m1 M=4 N=64 ldy=65 scale=mx rounding=up", "ldy=65: must be even" },
        { "act_and_mul bf16->e4m3 M=4 N=64 scale=token scale_columns=1", "only with scale=group or mx" },
    };
    OP_PROBLEMS_REFUSED("", wrong);
}
END_TEST

static const struct refusal {
    rfg_dtype q, scale;
    int64_t n, groups;
    int rounding;
    const char *words;
} calls[] = {
    { RFG_E4M3, RFG_E8M0, 64, 2, RFG_SCALE_EXACT, "rounding is 0: must be RFG_SCALE_UP, DOWN, EVEN or CEIL, 1 to 4" },
    { RFG_E4M3, RFG_E8M0, 64, 2, 5, "rounding is 5: must be RFG_SCALE_UP" },
    { RFG_E4M3, RFG_E8M0, 64, 2, -1, "rounding is -1: must be" },
    { RFG_E4M3, RFG_F32, 64, 2, RFG_SCALE_UP, "scale is f32: must be e8m0 (mx)" },
    { RFG_E4M3, RFG_E8M0, 64, 1, RFG_SCALE_UP, "scale is 4 x 1: must be 4 x 2 (mx: one for each 32 columns)" },
    { RFG_E4M3, RFG_E8M0, 80, 3, RFG_SCALE_UP, "q has 80 columns: must be a multiple of 32" },
    { RFG_I8, RFG_E8M0, 64, 2, RFG_SCALE_UP, "q is i8: must be e4m3 or e2m1" },
};

START_TEST(calls_refused)
{
    static uint16_t x[4 * 160];
    static uint8_t q[4 * 80];
    static float scale[12];
    rfg_context *ctx = op_context("cpu");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct refusal *c = &calls[i];
        rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, 4, 2 * c->n, 2 * c->n), tq = rfg_tensor_2d(q, c->q, 4, c->n, c->n);
        rfg_tensor ts = rfg_tensor_2d(scale, c->scale, 4, c->groups, c->groups);
        rfg_quant quant = { sizeof(quant), RFG_SCALE_MX, c->rounding, &tq, &ts };
        rfg_act_params a = { .size = sizeof(a), .quant = &quant };
        rfg_norm_params n = { .size = sizeof(n), .quant = &quant };
        for (int norm = 0; norm < 2; norm++) {
            tx.shape[1] = norm ? c->n : 2 * c->n;
            rfg_status st =
                norm ? rfg_op_rmsnorm(ctx, NULL, &tx, NULL, &n, NULL) : rfg_op_act_and_mul(ctx, NULL, &tx, &a, NULL);
            op_refused(st, c->words);
        }
    }
    for (size_t i = 0; i < sizeof(q); i++)
        ck_assert_msg(!q[i], "refused, but wrote code %zu", i);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main("mx_outputs", OP_TESTS(right_norms, right_activations, random_problems, as_quantize),
                   OP_TESTS(problems_refused, calls_refused));
}
