/* SPDX-License-Identifier: MIT
 *
 * Problem strings are parsed, written and read back. Every variant then judges the valid ones, on many devices. */
#include <math.h>
#include <string.h>

#include "dispatch/hip/hip.h"
#include "ops/op_case.h"
#include "fuzz.h"

const char fuzz_name[] = "problem";
const int fuzz_is_text = 1;
const size_t fuzz_max_size = RFG_PROBLEM_STRLEN + 20;
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = NULL;

static const char *const archs[] = { "gfx90a",    "gfx942",  "gfx950:1", "gfx942:65535", "gfx1030",
                                     "gfx1100:7", "gfx1201", "sm_80",    "sm_90" };
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))
static struct rfg_device devices[N_ARCHS + 1];

static void make_devices(void)
{
    if (devices[0].cu_count)
        return;
    for (size_t i = 0; i < N_ARCHS; i++)
        FUZZ_CHECK(rfg_device_imagine(&devices[i], archs[i]));
    rfg_device_cpu(&devices[N_ARCHS], 4);
}

struct tries {
    const struct rfg_variant *var;
    const struct rfg_device *dev;
    const struct rfg_problem *prob;
    int left;
};

/* Calls of such a problem return at once. */
static bool is_empty(const struct rfg_problem *p)
{
    for (int i = 0; i < p->op->n_keys; i++)
        if (p->op->keys[i].kind == RFG_KEY_SIZE && p->v[i] == 0)
            return true;
    return false;
}

static bool try(void *arg, const int *p)
{
    struct tries *t = arg;
    const struct rfg_variant *v = t->var;
    double us = v->predict ? v->predict(t->dev, t->prob, p) : 0;
    if (!(us >= 0) && !is_empty(t->prob)) { /* or NaN */
        char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
        printf("%s on %s: %s: %g us\n", rfg_problem_format(t->prob, text, sizeof(text)), t->dev->name,
               rfg_config_format(v, p, config, sizeof(config)), us);
        FUZZ_CHECK(!"an estimate");
    }
    if (v->workspace)
        (void)v->workspace(t->dev, t->prob, p);
    if (v->kind == RFG_VARIANT_KERNEL) {
        struct rfg_kernel k = { 0 };
        struct rfg_launch l = { 0 };
        v->kernel(t->dev, t->prob, p, &k);
        v->launch(t->dev, t->prob, p, &l);
        FUZZ_CHECK(k.source && k.entry && l.block[0]);
    }
    return --t->left > 0;
}

static void ask_variants(const struct rfg_problem *p, const struct rfg_device *dev)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    double bytes = -1, flops = -1;
    p->op->cost(p, &bytes, &flops);
    FUZZ_CHECK(bytes >= 0 && flops >= 0 && isfinite(bytes) && isfinite(flops));
    int n = rfg_op_case_of(p->op)->tensors(p, spec);
    FUZZ_CHECK(n > 0 && n <= RFG_MAX_TENSORS);
    for (int i = 0; i < rfg_op_variants(p->op)->n; i++) {
        struct tries t = { rfg_op_variants(p->op)->list[i], dev, p, 3 };
        struct rfg_reason why = { "" };
        if (t.var->kind != RFG_VARIANT_VENDOR && t.var->supports(dev, p, &why))
            rfg_variant_each(t.var, dev, p, try, &t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rfg_problem p, again;
    struct rfg_reason why = { "" };
    char text[RFG_PROBLEM_STRLEN + 40], back[RFG_PROBLEM_STRLEN], attrs[RFG_PROBLEM_STRLEN];
    if (size >= sizeof(text))
        return 0;
    make_devices();
    memcpy(text, data, size);
    text[size] = 0;
    if (!rfg_problem_parse(&p, text, &why)) {
        FUZZ_CHECK(*why.text && memchr(why.text, 0, sizeof(why.text)));
        return 0;
    }
    rfg_problem_format(&p, back, sizeof(back));
    if (!rfg_problem_parse(&again, back, &why) || !rfg_problem_equal(&p, &again)) {
        printf("'%s' is written '%s': %s\n", text, back, why.text);
        FUZZ_CHECK(!"reads back");
    }
    FUZZ_CHECK(rfg_problem_hash(&p) == rfg_problem_hash(&again));
    rfg_problem_format_attrs(&p, attrs, sizeof(attrs));
    struct rfg_problem key = rfg_problem_key(&p);
    FUZZ_CHECK(p.op->valid(&p, &why));
    (void)rfg_problem_rows(&key);
    ask_variants(&p, &devices[fuzz_hash(data, size) % (N_ARCHS + 1)]);
    return 0;
}
