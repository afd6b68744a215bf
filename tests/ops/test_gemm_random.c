/* SPDX-License-Identifier: MIT
 *
 * Random problems of rfg_op_gemm on the cpu, plain and grouped: of each format of X and W a tenth of $RFG_TEST_RANDOM.
 * Layouts, epilogues, scales and experts in combinations that no table has. */
#include "base/util.h"
#include "ops/gemm/gemm.h"
#include "ops/gpu.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

static const struct format {
    const char *x, *w, *w_scale; /* w_scale: of a w of groups */
    bool mx;                     /* groups of 32 on both sides */
} formats[] = {
    { "f32", "f32", NULL },         { "f16", "f16", NULL },           { "bf16", "bf16", NULL },
    { "e4m3", "e4m3", NULL },       { "e4m3fnuz", "e4m3fnuz", NULL }, { "e5m2", "e5m2", NULL },
    { "i8", "i8", NULL },           { "bf16", "i4", "f16" },          { "f16", "i4", "f32" },
    { "bf16", "i4", "bf16" },       { "bf16", "e2m1", "e8m0" },       { "f16", "e2m1", "e8m0" },
    { "e4m3", "e2m1", NULL, true }, { "e2m1", "e2m1", NULL, true },   { "e4m3", "e4m3", NULL, true },
};

/* A problem that may be none: what contradicts itself is drawn again. */
static void draw(char *text, const struct format *f, uint64_t *state)
{
    static const char *const floats[] = { "f32", "f16", "bf16" }, *const y_codes[] = { "e4m3", "e4m3fnuz", "e5m2",
                                                                                       "i8" };
    static const char *const pers[] = { "tensor", "row", "block" };
    static const char *const acts[] = { "silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai" };
    static const char *const gates[] = { "halves", "interleaved" };
    static const char *const routings[] = { "uniform", "zipf", "one" };
    static const int groups[] = { 32, 64, 96, 128 };
    uint64_t seed = *state;
    bool codes = !f->w_scale && (*f->x == 'e' || *f->x == 'i'), packed = BELOW(3) == 0, gated = BELOW(3) == 0;
    int group = ONE_OF(groups), m = BELOW(5) ? BELOW(24) : BELOW(150), n = 1 + BELOW(90), k = 1 + BELOW(300);
    if (f->w_scale || f->mx)
        k = (f->mx ? 32 : group) * (1 + BELOW(6));
    packed = packed && !(f->mx && f->w[1] == '4');
    if (packed) {
        n = 16 * (1 + BELOW(5));
        k = f->w_scale ? 128 * (1 + BELOW(4)) : 32 * (1 + BELOW(8));
    }
    n += gated && n % 2;
    *text = 0;
    op_say(text, "gemm %s,%s->%s M=%d N=%d K=%d", f->x, f->w, BELOW(4) ? ONE_OF(floats) : ONE_OF(y_codes), m, n, k);
    if (f->w_scale)
        op_say(text, " w_scale=%s w_group=%d%s", f->w_scale, group, *f->w == 'i' && BELOW(2) ? " w_zero=i8" : "");
    if (f->mx)
        op_say(text, " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group x_columns=%d", packed ? 0 : BELOW(2));
    if (codes && !f->mx) {
        const char *scale = BELOW(4) ? "f32" : "e8m0", *x_per = ONE_OF(pers), *w_per = ONE_OF(pers);
        if (BELOW(5))
            op_say(text, " x_scale=%s x_per=%s", scale, x_per);
        if (BELOW(5))
            op_say(text, " w_scale=%s w_per=%s", scale, strcmp(x_per, "block") ? w_per : x_per);
        if (!strcmp(x_per, "block") && BELOW(2))
            op_say(text, " x_columns=%d", BELOW(2));
        if (*f->x == 'e' && BELOW(4) == 0)
            op_say(text, " fast=1");
    }
    if (packed && (!codes || f->mx))
        op_say(text, " packed=1");
    if (gated)
        op_say(text, " act=%s gates=%s limit=%d", ONE_OF(acts), ONE_OF(gates), BELOW(2) * BELOW(9));
    if (BELOW(3) == 0)
        op_say(text, " bias=1%s", codes || BELOW(3) == 0 ? " btype=f32" : "");
    if (BELOW(2)) {
        op_say(text, " experts=%d top=%d weights=%d routing=%s", 1 + BELOW(BELOW(4) ? 9 : 200), BELOW(5), BELOW(2),
               ONE_OF(routings));
    } else {
        op_say(text, "%s", !gated && BELOW(4) == 0 ? " residual=1" : "");
        if (BELOW(4) == 0 && !packed)
            op_say(text, " ldw=%d", k + (f->w_scale || f->mx ? 32 : 1) * BELOW(9));
    }
    if (BELOW(4) == 0)
        op_say(text, " ldx=%d ldy=%d", k + BELOW(5) * (f->mx ? 2 : 1), n + BELOW(9));
    *state = seed;
}

START_TEST(random_problems)
{
    const struct format *f = &formats[_i];
    rfg_context *ctx = op_context("cpu");
    uint64_t seed = op_seed() + (uint64_t)_i;
    int wanted = op_random_problems() / 10, tries = 0;
    for (int i = 0; i < wanted; tries++) {
        char text[RFG_PROBLEM_STRLEN];
        struct rfg_problem prob;
        struct rfg_reason why;
        draw(text, f, &seed);
        if (!rfg_problem_parse(&prob, text, &why))
            continue;
        i++;
        /* Whether an activation of fp32 is 0 or just above decides what an infinity makes of it. */
        bool special = BELOW(4) == 0 && !prob.v[GEMM_GATED];
        op_case_right(ctx, text, special ? RFG_DATA_SPECIAL : RFG_DATA_RANDOM, rfg_random(&seed));
    }
    ck_assert_msg(tries < 6 * wanted, "%s,%s: of %d strings %d were problems", f->x, f->w, tries, wanted);
    printf("random products of %s by %s on cpu: %d right\n", f->x, f->w, wanted);
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gemm_random");
    TCase *tc = test_case(s, "random", NULL, NULL);
    tcase_set_timeout(tc, 1200);
    ADD_LOOPS(tc, COUNT(formats), random_problems);
    return run_suite(s);
}
