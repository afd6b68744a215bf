/* SPDX-License-Identifier: MIT
 *
 * What operators and their variants say of problems on GPUs that aren't there: what is refused and why, costs, the
 * model's times, workspaces, launches, macros, orders of summation. tests/ops/model.tsv has a checksum of it for each
 * problem and device; nothing else sees most of these numbers. A problem stands for some more, drawn around it: sizes
 * at powers of two and one beyond, other options, formats and strides; parameters are drawn too, most of them one step
 * from a legal set.
 *
 *   test-model                          compares
 *   test-model --record                 writes model.tsv anew: for changes of a model or a rule that are meant
 *   test-model --say DEVICE "PROBLEM"   prints it: compare that of two builds */
#include <inttypes.h>
#include <stdarg.h>

#include "base/util.h"
#include "dispatch/hip/hip.h"
#include "ops/op.h"
#include "tests/suite.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TABLE RFG_SOURCE_ROOT "/tests/ops/model.tsv"
enum { DRAWN = 48, SETS = 6, MAX_ROWS = 1000, SUM = 9 };

static const char *const devices[] = { "gfx942:304", "gfx90a:104", "gfx1030:80", "gfx1100:96", "gfx950:256",
                                       "gfx1201:64", "sm_80:108",  "sm_90:132",  "cpu:8" };
enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };

/* Not a failure of a test: --record has none. */
static void die(const char *what, const char *why)
{
    fprintf(stderr, "test-model: %s: %s\n", what, why);
    exit(2);
}

struct row {
    char problem[RFG_PROBLEM_STRLEN], sums[DEVICES][SUM];
};

/* ---- what is said ------------------------------------------------------------------------------------------------ */

struct said {
    const struct rfg_device *dev;
    uint64_t seed;
    XXH64_hash_t sum;
    FILE *out; /* or NULL */
};

__attribute__((format(printf, 2, 3))) static void say(struct said *s, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n >= (int)sizeof(text))
        die("a line too long", text);
    s->sum = XXH3_64bits_withSeed(text, (size_t)n, s->sum);
    if (s->out)
        fputs(text, s->out);
}

static int below(struct said *s, int n)
{
    return (int)(rfg_random(&s->seed) % (uint64_t)n);
}

static int64_t drawn_size(struct said *s, int64_t v)
{
    switch (below(s, 6)) {
    case 0:
        return v + 1;
    case 1:
        return v - 1;
    case 2:
        return v * 2;
    case 3:
        return (v + 1) / 2;
    default:
        return ((int64_t)1 << below(s, 18)) + below(s, 3) - 1;
    }
}

static int64_t drawn_value(struct said *s, const struct rfg_problem *prob, int k)
{
    const struct rfg_key *key = &prob->op->keys[k];
    int64_t v;
    if (key->formats)
        v = below(s, 3) ? below(s, RFG_DTYPE_COUNT) : 0;
    else if (key->names)
        v = key->min + below(s, (int)(key->max - key->min + 1));
    else if (key->max - key->min < 4)
        v = key->min + below(s, (int)(key->max - key->min) + 1);
    else
        v = below(s, 4) ? drawn_size(s, prob->v[k]) : prob->v[below(s, 3)] + below(s, 3) - 1;
    if (key->formats && v && !(key->formats >> v & 1))
        return 0;
    return v < key->min ? key->min : v > key->max ? key->max : v;
}

/* Changes the problem in some places. */
static void draw(struct said *s, struct rfg_problem *prob)
{
    static const int changes[] = { 1, 1, 1, 2, 2, 3 };
    for (int n = changes[below(s, 6)]; n > 0; n--) {
        int k = below(s, prob->op->n_keys);
        if (below(s, 12) == 0) {
            prob->dtype[below(s, prob->op->n_in + prob->op->n_out)] = (uint8_t)(1 + below(s, RFG_DTYPE_COUNT - 1));
            continue;
        }
        for (int tries = 0; tries < 2 && prob->op->keys[k].kind != RFG_KEY_SIZE; tries++)
            k = below(s, prob->op->n_keys); /* sizes are few among the keys, and matter most */
        prob->v[k] = drawn_value(s, prob, k);
    }
}

static void say_set(struct said *s, const struct rfg_variant *var, const struct rfg_problem *prob, const int *p)
{
    struct rfg_reason why = { "" };
    struct rfg_order order = { "" };
    bool worth = !var->worth || var->worth(s->dev, prob, p, &why);
    say(s, "worth %d %s\n", worth, worth ? "" : why.text);
    if (var->predict)
        say(s, "us %.5g\n", var->predict(s->dev, prob, p));
    if (var->workspace)
        say(s, "workspace %zu\n", var->workspace(s->dev, prob, p));
    if (var->order && rfg_problem_is_invariant(prob)) {
        bool known = var->order(s->dev, prob, p, &order, &why);
        say(s, "order %d %s\n", known, known ? order.words : why.text);
    }
    if (var->kind != RFG_VARIANT_KERNEL)
        return;
    struct rfg_launch l = { .grid = { 0 } };
    var->launch(s->dev, prob, p, &l);
    say(s, "launch %u %u %u of %u %u %u, %u\n", l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
        l.lds);
    struct rfg_kernel k = { 0 };
    var->kernel(s->dev, prob, p, &k);
    say(s, "%s %s", k.source, k.entry);
    for (int i = 0; i < k.n_macros; i++)
        say(s, " %s=%d", k.macros[i].name, k.macros[i].value);
    say(s, "\n");
}

static void say_variant(struct said *s, const struct rfg_variant *var, const struct rfg_problem *prob, int *legal)
{
    struct rfg_reason why = { "" };
    bool supported = rfg_variant_supports(var, s->dev, prob, &why);
    say(s, "%s %d %s\n", var->name, supported, supported ? "" : why.text);
    for (int i = 0; supported && i < SETS; i++) {
        char config[RFG_CONFIG_STRLEN];
        int p[RFG_MAX_PARAMS] = { 0 };
        bool near = legal[0] >= 0 && below(s, 4);
        for (int k = 0; k < var->n_params; k++)
            p[k] = near ? legal[k] : var->params[k].values[below(s, var->params[k].n)];
        if (near && var->n_params && i) {
            int k = below(s, var->n_params);
            p[k] = var->params[k].values[below(s, var->params[k].n)];
        }
        why.text[0] = 0;
        bool valid = rfg_variant_check(var, s->dev, prob, p, &why);
        say(s, "%s %d %s\n", rfg_config_format(var, p, config, sizeof(config)), valid, valid ? "" : why.text);
        if (!valid)
            continue;
        memcpy(legal, p, sizeof(p));
        say_set(s, var, prob, p);
    }
}

static void say_problem(struct said *s, const struct rfg_problem *prob, int legal[][RFG_MAX_PARAMS])
{
    char text[RFG_PROBLEM_STRLEN];
    struct rfg_reason why = { "" };
    bool valid = prob->op->valid(prob, &why);
    say(s, "\n%s %d %s\n", rfg_problem_format(prob, text, sizeof(text)), valid, valid ? "" : why.text);
    if (!valid)
        return;
    double bytes, flops;
    prob->op->cost(prob, &bytes, &flops);
    say(s, "cost %.6g %.6g\n", bytes, flops);
    for (int i = 0; i < rfg_op_variants(prob->op)->n; i++)
        if (rfg_op_variants(prob->op)->list[i]->kind != RFG_VARIANT_VENDOR)
            say_variant(s, rfg_op_variants(prob->op)->list[i], prob, legal[i]);
}

static void imagine(struct rfg_device *dev, const char *name)
{
    if (strcmp(name, "cpu:8")) {
        if (!rfg_device_imagine(dev, name))
            die(name, "no device");
        return;
    }
    rfg_device_cpu(dev, 8);
    strcpy(dev->arch, "cpu-avx512"); /* the same on all machines */
    dev->features = RFG_FEATURE_AVX2 | RFG_FEATURE_AVX512;
    dev->mma_tflops = dev->fma_tflops = 1;
    dev->cache_bytes = 32 << 20;
}

/* The checksum of a problem and what is drawn around it. */
static bool look(const char *device, const char *text, FILE *out, char sum[SUM])
{
    struct rfg_device dev;
    struct rfg_problem prob, near;
    struct rfg_reason why;
    int legal[RFG_MAX_VARIANTS][RFG_MAX_PARAMS];
    struct said s = { .dev = &dev, .seed = XXH3_64bits(text, strlen(text)), .out = out };
    if (!rfg_problem_parse(&prob, text, &why)) {
        fprintf(stderr, "test-model: %s: %s\n", text, why.text);
        return false;
    }
    imagine(&dev, device);
    memset(legal, -1, sizeof(legal));
    for (int i = 0; i <= DRAWN; i++) {
        near = prob;
        if (i)
            draw(&s, &near);
        say_problem(&s, &near, legal);
    }
    snprintf(sum, SUM, "%08x", (unsigned)(s.sum >> 32));
    return true;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static struct row rows[MAX_ROWS];
static int n_rows;

static void read_rows(void)
{
    char line[RFG_PROBLEM_STRLEN + DEVICES * SUM + 2];
    FILE *f = fopen(TABLE, "r");
    if (!f)
        die(TABLE, "can't be read");
    while (fgets(line, sizeof(line), f) && n_rows < MAX_ROWS) {
        char *save, *word = strtok_r(line, "\t\n", &save);
        if (!word || *word == '#')
            continue;
        snprintf(rows[n_rows].problem, sizeof(rows->problem), "%s", word);
        for (int d = 0; d < DEVICES && (word = strtok_r(NULL, "\t\n", &save)); d++)
            snprintf(rows[n_rows].sums[d], SUM, "%s", word);
        n_rows++;
    }
    fclose(f);
}

static int record(void)
{
    FILE *f = fopen(TABLE, "w");
    if (!f)
        die(TABLE, "can't be written");
    fprintf(f, "# build/tests/test-model --record\n# problem");
    for (int d = 0; d < DEVICES; d++)
        fprintf(f, "\t%s", devices[d]);
    for (int i = 0; i < n_rows; i++)
        for (int d = 0; d < DEVICES; d++) {
            char sum[SUM];
            if (!look(devices[d], rows[i].problem, NULL, sum))
                break; /* left out: it is no problem any more */
            fprintf(f, d ? "\t%s" : "\n%s\t%s", d ? sum : rows[i].problem, sum);
        }
    fputc('\n', f);
    return fclose(f) != 0;
}

START_TEST(as_recorded)
{
    int wrong = 0;
    for (int i = 0; i < n_rows; i++) {
        char sum[SUM];
        if ((!look(devices[_i], rows[i].problem, NULL, sum) || strcmp(sum, rows[i].sums[_i])) && wrong++ < 10)
            printf("other than it was: test-model --say %s \"%s\"\n", devices[_i], rows[i].problem);
    }
    ck_assert_msg(!wrong, "%s: %d of %d problems; if that is meant: test-model --record", devices[_i], wrong, n_rows);
}
END_TEST

int main(int argc, char **argv)
{
    char sum[SUM];
    read_rows();
    if (argc == 2 && !strcmp(argv[1], "--record"))
        return record();
    if (argc == 4 && !strcmp(argv[1], "--say")) {
        return !look(argv[2], argv[3], stdout, sum);
    }
    Suite *s = suite_create("model");
    TCase *tc = test_case(s, "model", NULL, NULL);
    ADD_LOOPS(tc, DEVICES, as_recorded);
    return run_suite(s);
}
