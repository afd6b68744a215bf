/* SPDX-License-Identifier: MIT */
#include "op_cases.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/util.h"
#include "suite.h"

static const char *const data_names[] = { "random", "ints", "cancel", "special", "exact", "wild" };
#define N_DATA (int)(sizeof(data_names) / sizeof(data_names[0]))

/* ---- what the environment says ----------------------------------------------------------------------------------- */

void op_say(char *text, const char *format, ...)
{
    size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, RFG_PROBLEM_STRLEN - at, format, args);
    va_end(args);
}

int op_random_problems(void)
{
    const char *wanted = getenv("RFG_TEST_RANDOM");
    return wanted ? atoi(wanted) : 300;
}

void op_case_right(rfg_context *ctx, const char *problem, enum rfg_data data, uint64_t seed)
{
    struct rfg_problem prob = op_problem(problem);
    struct rfg_case_params params = { .seed = seed, .data = data, .fenced = true };
    struct rfg_check check;
    struct rfg_case *c;
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s: %s", problem, rfg_last_error());
    ck_assert(rfg_case_poison(c, 0) == RFG_OK);
    ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s: %s", problem, rfg_last_error());
    ck_assert(rfg_case_check(c, 0, &check) == RFG_OK);
    ck_assert_msg(!check.wrong && !check.guard_broken, "%s, data %d, seed %llu: %s", problem, (int)data,
                  (unsigned long long)seed, check.message);
    rfg_case_destroy(&c);
}

struct rfg_problem op_problem(const char *text)
{
    struct rfg_problem prob;
    struct rfg_reason why;
    ck_assert_msg(rfg_problem_parse(&prob, text, &why), "%s: %s", text, why.text);
    return prob;
}

void op_refused(rfg_status got, const char *words)
{
    ck_assert_msg(got == RFG_ERROR_INVALID_ARGUMENT, "%s, not refused for '%s'", rfg_status_name(got), words);
    ck_assert_msg(strstr(rfg_last_error(), words), "'%s' lacks '%s'", rfg_last_error(), words);
}

void op_problem_refused(const char *text, const char *words)
{
    struct rfg_problem prob;
    struct rfg_reason why = { "" };
    ck_assert_msg(!rfg_problem_parse(&prob, text, &why), "%s: was taken", text);
    ck_assert_msg(strstr(why.text, words), "%s: '%s' lacks '%s'", text, why.text, words);
}

void op_problems_refused(const char *begin, const char *const (*bad)[2], int n)
{
    for (int i = 0; i < n; i++) {
        char text[RFG_PROBLEM_STRLEN];
        snprintf(text, sizeof(text), "%s%s", begin, bad[i][0]);
        op_problem_refused(text, bad[i][1]);
    }
}

void op_config_taken(const char *arch, const char *problem, const char *config, const char *words)
{
    struct rfg_problem prob = op_problem(problem);
    const struct rfg_variant *v;
    struct rfg_device dev;
    struct rfg_reason why = { 0 };
    int p[RFG_MAX_PARAMS] = { 0 };
    ck_assert(rfg_device_imagine(&dev, arch));
    ck_assert_msg(rfg_config_parse(prob.op, config, &v, p, &why), "%s", why.text);
    bool taken = rfg_variant_check(v, &dev, &prob, p, &why);
    ck_assert_msg(taken == !words && (taken || strstr(why.text, words)), "%s: %s: %s", problem, config,
                  taken ? "taken" : why.text);
}

uint64_t op_seed(void)
{
    const char *s = getenv("RFG_TEST_SEED");
    return s ? strtoull(s, NULL, 0) : 20260101;
}

#define MAX_DEVICES 8
static char devices[MAX_DEVICES][40];
static int n_devices;

/* Returns where GPUs begin: cpu, if it is named, must be first. */
static int read_devices(void)
{
    char list[400];
    const char *env = getenv("RFG_TEST_DEVICES");
    snprintf(list, sizeof(list), "%s", env && *env ? env : "cpu");
    n_devices = 0;
    for (char *save = NULL, *t = strtok_r(list, ",", &save); t && n_devices < MAX_DEVICES;
         t = strtok_r(NULL, ",", &save)) {
        if (n_devices && !strcmp(t, "cpu")) { /* not in a test yet: Check can't be told */
            fprintf(stderr, "RFG_TEST_DEVICES=%s: cpu must be the first\n", env);
            exit(2);
        }
        snprintf(devices[n_devices++], sizeof(devices[0]), "%s", t);
    }
    return !strcmp(devices[0], "cpu");
}

const char *op_device(int i)
{
    return devices[i];
}

static int configs_wanted(void)
{
    const char *s = getenv("RFG_TEST_CONFIGS");
    return s ? atoi(s) : 6;
}

static bool few_wanted(void)
{
    return getenv("RFG_TEST_FEW") != NULL;
}

rfg_context *op_context(const char *device)
{
    return op_context_of_rows(device, "");
}

rfg_context *op_context_of_rows(const char *device, const char *db)
{
    rfg_context *ctx;
    const char *cache = getenv("RFG_TEST_CACHE"); /* all suites share it, from one run to the next */
    rfg_context_params p = { .size = sizeof(p), .device = device, .user_db = db, .system_db = "", .cache_dir = cache };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    return ctx;
}

/* ---- choosing parameter sets ------------------------------------------------------------------------------------- */

static void take(struct configs *c, const int *p)
{
    if (c->n == c->size) {
        c->size = c->size * 2 + 64;
        c->list = realloc(c->list, (size_t)c->size * sizeof(*c->list));
        ck_assert_ptr_nonnull(c->list);
    }
    c->list[c->n].var = c->var;
    memcpy(c->list[c->n++].p, p, sizeof(c->list->p));
}

static bool offered(void *ctx, const int *p)
{
    struct configs *c = ctx;
    int full[RFG_MAX_PARAMS] = { 0 };
    memcpy(full, p, (size_t)c->var->n_params * sizeof(int));
    if (c->at++ % c->every == 0)
        take(c, full);
    return true;
}

static bool nothing(void *ctx, const int *p)
{
    (void)ctx, (void)p;
    return true;
}

/* An even sample of what the tuner would try, and a few random sets that are only legal: a tuned row of another M may
 * say them. Which ones are taken changes from case to case. */
static void sample(struct configs *c, const rfg_context *ctx, const struct rfg_problem *prob, uint64_t *seed)
{
    const struct rfg_device *dev = rfg_context_info(ctx);
    int wanted = configs_wanted(), drawn = few_wanted() ? 12 : 2;
    for (int i = 0; i < rfg_op_variants(prob->op)->n; i++) {
        const struct rfg_variant *v = c->var = rfg_op_variants(prob->op)->list[i];
        if (!rfg_variant_listed(rfg_context_variants(ctx), prob->op, v) || !v->supports(dev, prob, NULL))
            continue;
        int n = rfg_variant_each(v, dev, prob, nothing, NULL);
        c->every = wanted && n > wanted ? n / wanted : 1;
        c->at = (int)(rfg_random(seed) % (uint64_t)c->every);
        rfg_variant_each(v, dev, prob, offered, c);
        for (int tries = 0, found = 0; v->kind == RFG_VARIANT_KERNEL && tries < 200 && found < drawn; tries++) {
            int p[RFG_MAX_PARAMS] = { 0 };
            for (int k = 0; k < v->n_params; k++)
                p[k] = v->params[k].values[rfg_random(seed) % (uint64_t)v->params[k].n];
            if (rfg_variant_check(v, dev, prob, p, NULL)) {
                take(c, p);
                found++;
            }
        }
    }
}

int op_each_plan(rfg_context *ctx, const struct rfg_problem *prob, int wanted,
                 void (*run)(void *arg, const struct rfg_plan *plan, const char *name), void *arg)
{
    const char *configs = getenv("RFG_TEST_CONFIGS");
    const struct rfg_device *dev = rfg_context_info(ctx);
    struct configs c = { .n = 0 };
    int ran = 0;
    wanted = configs ? atoi(configs) : wanted;
    for (int i = 0; i < rfg_op_variants(prob->op)->n; i++) {
        c.var = rfg_op_variants(prob->op)->list[i];
        if (!c.var->supports(dev, prob, NULL))
            continue;
        int n = rfg_variant_each(c.var, dev, prob, nothing, NULL);
        c.every = wanted && n > wanted ? (n + wanted - 1) / wanted : 1;
        c.at = 0;
        rfg_variant_each(c.var, dev, prob, offered, &c);
    }
    for (int i = 0; i < c.n; i++) {
        struct rfg_plan *plan;
        char name[RFG_CONFIG_STRLEN], text[RFG_PROBLEM_STRLEN];
        rfg_config_format(c.list[i].var, c.list[i].p, name, sizeof(name));
        rfg_status st = rfg_plan_create(ctx, prob, c.list[i].var, c.list[i].p, &plan);
        if (st == RFG_ERROR_UNSUPPORTED && c.list[i].var->kind == RFG_VARIANT_VENDOR)
            continue;
        rfg_problem_format(prob, text, sizeof(text));
        ck_assert_msg(st == RFG_OK, "%s: %s: %s: %s", dev->name, text, name, rfg_last_error());
        run(arg, plan, name);
        rfg_plan_destroy(ctx, &plan);
        ran++;
    }
    free(c.list);
    return ran;
}

/* Compiles on all cores what the cases will ask for one by one. Failures are found again, and told, by the case. */
static void precompile(rfg_context *ctx, const struct rfg_problem *probs, const struct configs *configs, int n)
{
    int total = 0, made = 0;
    for (int i = 0; i < n; i++)
        total += configs[i].n;
    struct rfg_jit_request *reqs = calloc((size_t)total + 1, sizeof(*reqs));
    char(*names)[RFG_CONFIG_STRLEN] = calloc((size_t)total + 1, sizeof(*names));
    struct rfg_kernel *kernels = calloc((size_t)total + 1, sizeof(*kernels));
    ck_assert(reqs && names && kernels);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < configs[i].n; k++) {
            const struct config *c = &configs[i].list[k];
            if (c->var->kind == RFG_VARIANT_KERNEL &&
                rfg_variant_request(rfg_context_info(ctx), &probs[i], c->var, c->p, &reqs[made], names[made],
                                    &kernels[made]) == RFG_OK)
                made++;
        }
    int workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
    /* hipRTC and NVRTC hold locks: in processes of their own. clang is one. */
    bool locks = made && rfg_jit_provider_for(reqs[0].target) != &rfg_jit_clang;
    struct rfg_jit_pool *pool = locks ? rfg_jit_pool_create(workers, 60) : NULL;
    if (made)
        (void)rfg_jit_prefetch(rfg_context_cache(ctx), pool, workers, reqs, made, NULL, NULL);
    rfg_jit_pool_destroy(&pool);
    for (int i = 0; i < made; i++)
        free((char *)reqs[i].source);
    free(reqs);
    free(names);
    free(kernels);
}

/* The emulator does some ten million products a second: what is larger is for real devices. */
static bool too_large(const char *device, const struct rfg_problem *prob)
{
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    return !strncmp(device, "emu:", 4) && flops > 1e7;
}

/* The one that a case names, where the device has its variant. */
static void named(struct configs *c, const struct rfg_device *dev, const struct rfg_problem *prob, const char *text)
{
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    ck_assert_msg(rfg_config_parse(prob->op, text, &c->var, p, &why), "%s: %s", text, why.text);
    if (!c->var->supports(dev, prob, NULL))
        return;
    ck_assert_msg(rfg_variant_check(c->var, dev, prob, p, &why), "%s: %s: %s", dev->name, text, why.text);
    take(c, p);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct tally {
    int cases, launches, vendor_refused;
    json_t *variants; /* name: launches */
};

static void count(struct tally *t, const char *variant, int launches)
{
    json_int_t n = json_integer_value(json_object_get(t->variants, variant));
    json_object_set_new(t->variants, variant, json_integer(n + launches));
    t->launches += launches;
}

/* One run of a poisoned set; the outputs in *bytes (malloc'ed). */
static rfg_status run_once(struct rfg_case *c, const struct rfg_plan *plan, struct rfg_check *check, void **bytes,
                           size_t *size)
{
    rfg_status st;
    *bytes = NULL;
    if ((st = rfg_case_poison(c, 0)) || (st = rfg_case_run_checked(c, 0, plan, NULL)) ||
        (st = rfg_case_check(c, 0, check)))
        return st;
    return rfg_case_outputs(c, 0, bytes, size);
}

/* Sizes of 0 make all expected values alike, rightly. */
static bool right(const struct rfg_check *check)
{
    return !check->wrong && !check->guard_broken;
}

/* MI100's and MI200's matrix instructions take subnormal inputs for 0: what special data give there is no error of
 * ours. */
static bool may_flush(rfg_context *ctx, const struct rfg_variant *var, enum rfg_data data)
{
    const char *arch = rfg_context_info(ctx)->arch;
    return data == RFG_DATA_SPECIAL && (strstr(arch, "gfx90a") || strstr(arch, "gfx908")) &&
           (strstr(var->name, "mma") || !strcmp(var->name, "gemm_tile"));
}

static bool is_zero(const struct rfg_problem *p, const char *key)
{
    int k = rfg_op_key(p->op, key);
    return k >= 0 && p->v[k] == 0;
}

/* Settled before dispatch: variants need not know it. */
static bool is_empty_output(const struct rfg_problem *p)
{
    return p->v[0] == 0 || p->v[1] == 0 || is_zero(p, "Sq");
}

static bool is_empty_sum(const struct rfg_problem *p)
{
    return is_empty_output(p) || is_zero(p, "K") || is_zero(p, "S");
}

static void run_case(rfg_context *ctx, const struct op_case *oc, const struct rfg_problem *prob,
                     const struct configs *configs, struct tally *tally)
{
    /* A GPU keeps to no fence, so that guards are worth more; but compute-sanitizer does. */
    bool fenced = rfg_context_info(ctx)->platform == RFG_PLATFORM_CPU ||
                  rfg_context_info(ctx)->platform == RFG_PLATFORM_EMU || getenv("RFG_TEST_FENCED");
    struct rfg_case_params params = {
        .seed = op_seed(), .data = oc->data, .unaligned = oc->unaligned, .fenced = fenced
    };
    struct rfg_case *c;
    struct rfg_check check;
    void *first, *again;
    size_t size;
    char where[500];
    snprintf(where, sizeof(where),
             "%s: RFG_TEST_PROBLEM=\"%s\" RFG_TEST_DATA=%s RFG_TEST_UNALIGNED=%d RFG_TEST_SEED=%" PRIu64,
             rfg_context_device(ctx), oc->problem, data_names[oc->data], oc->unaligned, params.seed);
    ck_assert_msg(rfg_case_create(ctx, prob, &params, &c) == RFG_OK, "%s: %s", where, rfg_last_error());

    ck_assert_msg(run_once(c, NULL, &check, &first, &size) == RFG_OK, "%s: %s", where, rfg_last_error());
    const struct rfg_plan *called = rfg_plan_find(ctx, rfg_case_as_called(c));
    bool was_right = right(&check);
    ck_assert_msg(was_right || (called && may_flush(ctx, rfg_plan_choice(called)->variant, oc->data)),
                  "%s: the public function: %s", where, check.message);
    ck_assert_msg(!check.trivial || is_empty_sum(prob), "%s: %s", where, check.message);
    setenv("RFG_EMU_SCHEDULE", "20", 1); /* the emulator's waves in another order: who comes last must not matter */
    ck_assert_msg(run_once(c, NULL, &check, &again, &size) == RFG_OK, "%s: %s", where, rfg_last_error());
    unsetenv("RFG_EMU_SCHEDULE");
    ck_assert_msg(!memcmp(first, again, size), "%s: the public function gave other bits the second time", where);
    free(again);
    tally->cases += was_right;
    tally->launches += was_right ? 2 : 0;

    for (int i = 0; i < configs->n; i++) {
        const struct config *cf = &configs->list[i];
        bool vendor = cf->var->kind == RFG_VARIANT_VENDOR;
        char name[RFG_CONFIG_STRLEN];
        struct rfg_plan *plan;
        rfg_config_format(cf->var, cf->p, name, sizeof(name));
        if (is_empty_output(prob))
            break;
        /* The case's tensors may be aligned worse than the problem's text says. */
        if (may_flush(ctx, cf->var, oc->data) ||
            !rfg_variant_check(cf->var, rfg_context_info(ctx), rfg_case_problem(c), cf->p, NULL))
            continue;
        if (called && op_is_config(rfg_plan_choice(called), cf)) { /* the public function's own */
            count(tally, cf->var->name, 0);
            continue;
        }
        rfg_status st = rfg_plan_create(ctx, rfg_case_problem(c), cf->var, cf->p, &plan);
        if (st == RFG_ERROR_UNSUPPORTED && vendor) {
            tally->vendor_refused++;
            continue;
        }
        ck_assert_msg(st == RFG_OK, "%s: %s: %s", where, name, rfg_last_error());
        for (int round = 0; round < 2; round++) {
            void *bytes;
            size_t n;
            if (round)
                setenv("RFG_EMU_SCHEDULE", "20", 1);
            ck_assert_msg(run_once(c, plan, &check, &bytes, &n) == RFG_OK, "%s: %s: %s", where, name, rfg_last_error());
            ck_assert_msg(right(&check), "%s: %s: %s", where, name, check.message);
            if (round == 0 && (oc->data == RFG_DATA_INTS || oc->data == RFG_DATA_WILD) && !vendor)
                ck_assert_msg(!memcmp(first, bytes, n < size ? n : size),
                              "%s: %s: exact sums, but other bits than the public function's", where, name);
            if (round == 0)
                again = bytes;
            else {
                ck_assert_msg(vendor || !memcmp(again, bytes, n), "%s: %s: other bits the second time", where, name);
                free(again);
                free(bytes);
            }
            count(tally, cf->var->name, 1);
        }
        unsetenv("RFG_EMU_SCHEDULE");
        rfg_plan_destroy(ctx, &plan);
    }
    free(first);
    rfg_case_destroy(&c);
}

static void record(rfg_context *ctx, const char *group, const struct op_case *cases, const struct tally *t)
{
    const char *path = getenv("RFG_VERIFIED_FILE");
    const struct rfg_device *dev = rfg_context_info(ctx);
    printf("%s on %s (%s, %d CUs): %d cases, %d runs right\n", group, dev->name, dev->arch, dev->cu_count, t->cases,
           t->launches);
    if (!path)
        return;
    const char *space = strchr(cases[0].problem, ' ');
    json_t *line = json_pack("{s:s%, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:O}", "op", cases[0].problem,
                             (size_t)(space - cases[0].problem), "group", group, "device", dev->name, "arch", dev->arch,
                             "cu_count", dev->cu_count, "cases", t->cases, "runs", t->launches, "vendor_refused",
                             t->vendor_refused, "variants", t->variants);
    char *text = json_dumps(line, JSON_COMPACT);
    FILE *f = fopen(path, "a");
    ck_assert_msg(f && text, "RFG_VERIFIED_FILE=%s: can't append to it", path);
    fprintf(f, "%s\n", text);
    ck_assert_msg(fclose(f) == 0, "RFG_VERIFIED_FILE=%s: can't write", path);
    free(text);
    json_decref(line);
}

void op_cases_run(const char *device, const char *group, const struct op_case *cases, int n)
{
    struct op_case one = { .problem = getenv("RFG_TEST_PROBLEM") };
    if (one.problem) {
        const char *data = getenv("RFG_TEST_DATA"), *unaligned = getenv("RFG_TEST_UNALIGNED");
        for (int i = 0; data && i < N_DATA; i++)
            if (!strcmp(data, data_names[i]))
                one.data = (enum rfg_data)i;
        one.unaligned = unaligned && atoi(unaligned);
        cases = &one;
        n = 1;
    }
    struct op_case *few = few_wanted() ? malloc((size_t)n * sizeof(*few)) : NULL;
    if (few)
        cases = memcpy(few, cases, (size_t)n * sizeof(*few));
    rfg_context *ctx = op_context(device);
    struct rfg_problem *probs = calloc((size_t)n, sizeof(*probs));
    struct configs *configs = calloc((size_t)n, sizeof(*configs));
    struct tally tally = { .variants = json_object() };
    uint64_t seed = op_seed();
    ck_assert(probs && configs);
    for (int i = 0; i < n; i++) {
        struct rfg_reason why;
        ck_assert_msg(rfg_problem_parse(&probs[i], cases[i].problem, &why), "%s: %s", cases[i].problem, why.text);
        ck_assert_msg(rfg_context_problem(ctx, &probs[i], &probs[i]) == RFG_OK, "%s: %s", cases[i].problem,
                      rfg_last_error()); /* with $RFG_LAUNCH_OVERLAP every variant is launched so */
        if (cases[i].config)
            named(&configs[i], rfg_context_info(ctx), &probs[i], cases[i].config);
        else if (!too_large(device, &probs[i]))
            sample(&configs[i], ctx, &probs[i], &seed);
    }
    struct rfg_tempdir rows = { 0 };
    if (few) {
        n = op_keep_few(rfg_context_info(ctx), few, probs, configs, n);
        const char *db = op_few_rows(&rows, ctx, probs, configs, n);
        rfg_context_destroy(&ctx);
        ctx = op_context_of_rows(device, db);
    }
    precompile(ctx, probs, configs, n);
    for (int i = 0; i < n; i++) {
        if (!too_large(device, &probs[i]) || one.problem)
            run_case(ctx, &cases[i], &probs[i], &configs[i], &tally);
        else
            printf("SKIPPED: %s on %s: more than the emulator can do in a second\n", cases[i].problem, device);
        free(configs[i].list);
    }
    record(ctx, group, cases, &tally);
    json_decref(tally.variants);
    free(configs);
    free(probs);
    free(few);
    rfg_context_destroy(&ctx);
    rfg_tempdir_remove(&rows);
}

/* Once for each variant, though many of a test's cases may name it. */
static void say_skipped(const char *device, const char *problem, const char *config)
{
    static char said[16][40];
    static int n;
    char name[40];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(config, "{"), config);
    for (int i = 0; i < n; i++)
        if (!strcmp(said[i], name))
            return;
    if (n < (int)(sizeof(said) / sizeof(said[0])))
        strcpy(said[n++], name);
    printf("SKIPPED: %s in few workgroups: %s lacks it for %s\n", name, device, problem);
}

void op_few_groups(const char *device, const char *problem, const char *config, unsigned groups)
{
    rfg_context *ctx = op_context(device);
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    struct rfg_case_params params = { .seed = op_seed(), .fenced = true };
    struct rfg_problem prob;
    struct rfg_reason why;
    struct rfg_case *c;
    struct rfg_plan *plan;
    struct rfg_launch l;
    struct rfg_check check;
    struct configs configs = { 0 };
    hipFunction_t fn;
    ck_assert_msg(rfg_problem_parse(&prob, problem, &why), "%s: %s", problem, why.text);
    ck_assert_msg(hip, "%s has no workgroups: such a test is for GPUs alone", device);
    named(&configs, rfg_context_info(ctx), &prob, config);
    if (!configs.n) {
        say_skipped(device, problem, config);
        rfg_context_destroy(&ctx);
        return;
    }
    configs.n = 0;
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    prob = *rfg_case_problem(c); /* its rows may be aligned worse than the text says */
    named(&configs, rfg_context_info(ctx), &prob, config);
    ck_assert_int_eq(configs.n, 1);
    ck_assert_msg(rfg_plan_create(ctx, &prob, configs.list->var, configs.list->p, &plan) == RFG_OK, "%s",
                  rfg_last_error());
    ck_assert(rfg_plan_raw(plan, &fn, &l) && l.grid[0] > groups && l.grid[1] == 1 && !rfg_plan_workspace(plan));
    struct rfg_plan_params args;
    void *kargs = calloc(1, prob.op->kargs_size);
    ck_assert_ptr_nonnull(kargs);
    ck_assert_msg(rfg_case_pack(c, rfg_case_tensors(c, 0), plan, kargs) == RFG_OK, "%s: %s", problem, rfg_last_error());
    ck_assert_msg(rfg_plan_params(ctx, plan, kargs, &args) == RFG_OK, "%s", rfg_last_error());
    hipError_t e =
        hip->hipModuleLaunchKernel(fn, groups, 1, 1, l.block[0], l.block[1], l.block[2], l.lds, NULL, args.list, NULL);
    ck_assert_msg(e == hipSuccess, "%s: %s by %s in %u workgroups: error %d", device, problem, config, groups, (int)e);
    ck_assert_msg(rfg_case_check(c, 0, &check) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(check.ok, "%s: by %s in %u workgroups: %s", device, config, groups, check.message);
    free(kargs);
    free(configs.list);
    rfg_plan_destroy(ctx, &plan);
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}

/* Each test is a case of its own, so that CK_RUN_CASE can ask for it. */
static TCase *add_tcase(Suite *s, const TTest *test)
{
    return slow_case(s, test->name, test->name, NULL, NULL);
}

int op_main(const char *name, const TTest *const *each, const TTest *const *once)
{
    return op_main_gpus(name, each, once, OP_TESTS(NULL));
}

int op_main_gpus(const char *name, const TTest *const *each, const TTest *const *once, const TTest *const *gpus)
{
    Suite *s = suite_create(name);
    int first_gpu = read_devices();
    const char *asked = getenv("CK_RUN_CASE");
    for (; *each; each++)
        tcase_add_loop_test(add_tcase(s, *each), *each, 0, n_devices);
    for (; *once; once++)
        if (first_gpu == n_devices || (asked && !strcmp(asked, (*once)->name)))
            tcase_add_test(add_tcase(s, *once), *once);
    for (; *gpus; gpus++)
        tcase_add_loop_test(add_tcase(s, *gpus), *gpus, first_gpu, n_devices);
    return run_suite(s);
}
