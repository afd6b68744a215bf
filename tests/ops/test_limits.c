/* SPDX-License-Identifier: MIT
 *
 * On devices that take fewer threads and have less LDS than any GPU: no parameters are valid that would launch more,
 * whatever the variant. */
#include "dispatch/hip/hip.h"
#include "ops/op_case.h"
#include "tests/suite.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201", "sm_90" };
static const struct limit {
    int threads, lds;
} limits[] = { { 64, 1 << 20 }, { 128, 1 << 20 }, { 1024, 4096 } };
enum { ARCHS = sizeof(archs) / sizeof(archs[0]), LIMITS = sizeof(limits) / sizeof(limits[0]) };

struct look {
    const struct rfg_device *dev;
    const struct rfg_problem *prob;
    const struct rfg_variant *var;
    const struct limit *limit;
    int sets;
};

static bool within(void *ctx, const int *p)
{
    struct look *k = ctx;
    struct rfg_launch l = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    char config[RFG_CONFIG_STRLEN], text[RFG_PROBLEM_STRLEN];
    k->var->launch(k->dev, k->prob, p, &l);
    uint64_t threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];
    ck_assert_msg(threads <= (unsigned)k->limit->threads && l.lds <= (unsigned)k->limit->lds,
                  "%s: '%s': %s: %llu threads, %u bytes of LDS: must be at most %d, %d", k->dev->arch,
                  rfg_problem_format(k->prob, text, sizeof(text)), rfg_config_format(k->var, p, config, sizeof(config)),
                  (unsigned long long)threads, l.lds, k->limit->threads, k->limit->lds);
    k->sets++;
    return true;
}

static int look_at(const char *text, struct look *k)
{
    struct rfg_problem prob;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&prob, text, &why), "%s: %s", text, why.text);
    const struct rfg_variants *all = rfg_op_variants(prob.op);
    k->prob = &prob;
    k->sets = 0;
    for (int i = 0; i < all->n; i++) {
        k->var = all->list[i];
        if (k->var->kind == RFG_VARIANT_KERNEL && rfg_variant_supports(k->var, k->dev, &prob, &why))
            (void)rfg_variant_each(k->var, k->dev, &prob, within, k);
    }
    return k->sets;
}

START_TEST(launches_fit)
{
    struct rfg_device dev;
    struct look k = { .dev = &dev, .limit = &limits[_i / ARCHS] };
    int sets = 0;
    ck_assert(rfg_device_imagine(&dev, archs[_i % ARCHS]));
    dev.max_threads = k.limit->threads;
    dev.lds_bytes = k.limit->lds < dev.lds_bytes ? k.limit->lds : dev.lds_bytes;
    for (int o = 0; rfg_ops[o]; o++) {
        const struct rfg_op_case *c = rfg_op_case_of(rfg_ops[o]);
        for (int i = 0; c && c->compiled && c->compiled[i]; i++)
            sets += look_at(c->compiled[i], &k);
    }
    for (int i = 0; i < rfg_small_problems(); i++)
        sets += look_at(rfg_small_problem(i), &k);
    ck_assert_int_gt(sets, 100);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("limits");
    TCase *tc = test_case(s, "limits", NULL, NULL);
    ADD_LOOPS(tc, ARCHS * LIMITS, launches_fit);
    return run_suite(s);
}
