/* SPDX-License-Identifier: MIT
 *
 * Every GPU variant compiles for every architecture that it claims, spills no register and fits into LDS; no GPU is
 * needed. What can differ in a code object is its set of macros; the sets that problems of the decode grid and around
 * it ask for are collected per variant and architecture, and of them enough are compiled that each pair of macro values
 * that occurs at all is compiled at least once. RFG_TEST_COMPILE=all, or =gfx942, compiles every set, of all
 * or of one architecture (about three minutes of CPU time each); RFG_TEST_FAMILY=norm is for one family
 * alone, RFG_TEST_ARCH=gfx1030 for one architecture. */
#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "tests/suite.h"
#include "ops/gemm/gemm.h"
#include "ops/mha/mha.h"
#include "ops/op_case.h"
#include "compile_problems.h"

#define MAX_SETS 16384
#define WORKERS  2

static const struct arch {
    const char *name, *provider;
    bool optional; /* its compiler isn't one that everybody has: skip with the reason if it is missing */
    bool alone;    /* each value of each macro will do: the same compiler sees all pairs for a near relative */
} archs[] = {
    { "gfx90a", "hiprtc", false, false }, { "gfx908", "hiprtc", false, true },  { "gfx1030", "hiprtc", false, true },
    { "gfx942", "clang", false, false },  { "gfx1100", "clang", false, false }, { "gfx1201", "clang", false, true },
    { "gfx950", "ziglang", true, false }, { "gfx1250", "ziglang", true, true }, { "sm_90", "nvrtc", true, false },
    { "sm_80", "nvrtc", true, true },
};

#define GEMM_VARIANTS rfg_op_variants(&rfg_op_gemm_desc)->list
#define N_VARIANTS    rfg_op_variants(&rfg_op_gemm_desc)->n

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* gemm's variants are a family each, of the problems that collect_all() makes; these are the others. A kernel variant
 * that is in none fails (each_variant_is_compiled). */
static const struct family {
    const char *name;
    const struct rfg_variant *variant; /* one of gemm's; NULL: all kernels of the problems' operators */
    const char *const *problems;
    size_t n;
    const char *only; /* or NULL: in the names of those of the problems' kernels that count */
} families[] = {
    { "gemm_prepacked", NULL, prepack_problems, COUNT(prepack_problems), NULL },
    { "gemm_batch", NULL, batch_problems, COUNT(batch_problems), NULL },
    { "gemm_blocks", NULL, blocks_problems, COUNT(blocks_problems), "gemm_blocks_dot" },
    { "gemm_w8", NULL, w8_problems, COUNT(w8_problems), NULL },
    { "gemm_4_bits", NULL, four_bit_problems, COUNT(four_bit_problems), NULL },
    { "gemm_groups", NULL, group_problems, COUNT(group_problems), NULL },
    { "gemm_tile_4_bits", NULL, four_bit_tile_problems, COUNT(four_bit_tile_problems), "gemm_tile" },
    { "gemm_epilogues", NULL, epilogue_problems, COUNT(epilogue_problems), NULL },
    { "gemm_outputs", NULL, output_problems, COUNT(output_problems), NULL },
    { "gemm_codes", NULL, codes_problems, COUNT(codes_problems), NULL },
    { "gemm_mx", NULL, mx_problems, COUNT(mx_problems), NULL },
    { "gemm_experts", NULL, expert_problems, COUNT(expert_problems), NULL },
    { "gemm_by_id", NULL, id_problems, COUNT(id_problems), NULL },
    { "gemm_wgmma_codes", NULL, code_problems, COUNT(code_problems), "gemm_wgmma" },
    { "gemm_tile_codes", NULL, code_problems, COUNT(code_problems), "gemm_tile" },
    { "act", NULL, act_problems, COUNT(act_problems), NULL },
    { "norm", NULL, norm_problems, COUNT(norm_problems), NULL },
    { "mha_portable", NULL, mha_problems, COUNT(mha_problems), "_portable" },
    { "mha_prefill", NULL, prefill_problems, COUNT(prefill_problems), "_prefill_mma" },
    { "mha_prefill_wgmma", NULL, prefill_problems, COUNT(prefill_problems), "_prefill_wgmma" },
    { "mha_decode_wgmma", NULL, decode_problems, COUNT(decode_problems), "_decode_wgmma" },
    { "mha_decode_stream", NULL, decode_problems, COUNT(decode_problems), "_stream_mma" },
    { "mha_decode_tile", NULL, decode_problems, COUNT(decode_problems), "_tile_mma" },
};

/* Family i: gemm's kernel variants, those of the table, and one for each operator whose case has its problems. False:
 * there is none. */
static bool family_at(size_t i, struct family *out)
{
    for (int v = 0; v < N_VARIANTS; v++)
        if (GEMM_VARIANTS[v]->kind == RFG_VARIANT_KERNEL && i-- == 0) {
            *out = (struct family){ .name = GEMM_VARIANTS[v]->name, .variant = GEMM_VARIANTS[v] };
            return true;
        }
    if (i < COUNT(families)) {
        *out = families[i];
        return true;
    }
    i -= COUNT(families);
    for (int k = 0; rfg_ops[k]; k++) {
        const char *const *problems = rfg_op_case_of(rfg_ops[k])->compiled;
        if (problems && i-- == 0) {
            *out = (struct family){ .name = rfg_ops[k]->name, .problems = problems };
            while (problems[out->n])
                out->n++;
            return true;
        }
    }
    return false;
}

/* One code object that a variant can ask for. */
struct set {
    const struct rfg_variant *var;
    struct rfg_kernel kernel;
    int params[RFG_MAX_PARAMS];
    struct rfg_problem prob; /* one that asks for it */
    uint32_t lds;            /* the most that a launch of it asks for */
    bool chosen;
};

struct sets {
    const struct rfg_device *dev;
    const struct rfg_variant *var;
    const struct rfg_problem *prob;
    int n;
    struct set v[MAX_SETS];
};

static bool same_kernel(const struct rfg_kernel *a, const struct rfg_kernel *b)
{
    if (strcmp(a->source, b->source) || strcmp(a->entry, b->entry) || a->n_macros != b->n_macros)
        return false;
    for (int i = 0; i < a->n_macros; i++)
        if (strcmp(a->macros[i].name, b->macros[i].name) || a->macros[i].value != b->macros[i].value)
            return false;
    return true;
}

static bool collect(void *ctx, const int *p)
{
    struct sets *s = ctx;
    struct rfg_kernel k = { 0 };
    struct rfg_launch l;
    int i = 0;
    s->var->kernel(s->dev, s->prob, p, &k);
    s->var->launch(s->dev, s->prob, p, &l);
    while (i < s->n && !same_kernel(&k, &s->v[i].kernel))
        i++;
    if (i == s->n) {
        ck_assert_int_lt(s->n, MAX_SETS);
        s->v[s->n] = (struct set){ .var = s->var, .kernel = k, .prob = *s->prob };
        memcpy(s->v[s->n++].params, p, (size_t)s->var->n_params * sizeof(*p));
    }
    s->v[i].lds = l.lds > s->v[i].lds ? l.lds : s->v[i].lds;
    return true;
}

/* Problems whose sweeps together reach every parameter value. */
static void collect_all(struct sets *s, const char *dtypes)
{
    static const int ms[] = { 1, 2, 4, 8, 16, 32, 64, 128, 4096 }, ns[] = { 16, 64, 384, 1024, 8192 };
    static const int ks[] = { 64, 512, 7168 };
    struct rfg_problem prob;
    struct rfg_reason why;
    rfg_problem_init(&prob, &rfg_op_gemm_desc);
    ck_assert(rfg_problem_parse_dtypes(&prob, dtypes, &why));
    s->prob = &prob;
    for (size_t m = 0; m < sizeof(ms) / sizeof(ms[0]); m++)
        for (size_t n = 0; n < sizeof(ns) / sizeof(ns[0]); n++)
            for (size_t k = 0; k < sizeof(ks) / sizeof(ks[0]); k++) {
                prob.v[GEMM_M] = ms[m];
                prob.v[GEMM_N] = ns[n];
                prob.v[GEMM_K] = ks[k];
                rfg_variant_each(s->var, s->dev, &prob, collect, s);
            }
    s->prob = NULL;
}

/* The sets of a family. */
static void collect_family(struct sets *s, const struct family *f)
{
    static const char *const dtypes[] = { "bf16,bf16->bf16", "f16,f16->f16", "bf16,bf16->f32",
                                          "f16,f16->bf16",   "f32,f32->f32", "f32,f32->bf16" };
    struct rfg_problem prob;
    struct rfg_reason why;
    s->var = f->variant;
    for (size_t d = 0; f->variant && d < COUNT(dtypes); d++)
        collect_all(s, dtypes[d]);
    s->prob = &prob;
    for (size_t i = 0; i < f->n; i++) {
        ck_assert_msg(rfg_problem_parse(&prob, f->problems[i], &why), "%s: %s", f->problems[i], why.text);
        for (int v = 0; v < rfg_op_variants(prob.op)->n; v++) {
            s->var = rfg_op_variants(prob.op)->list[v];
            if (s->var->kind == RFG_VARIANT_KERNEL && (!f->only || strstr(s->var->name, f->only)))
                rfg_variant_each(s->var, s->dev, &prob, collect, s);
        }
    }
    s->prob = NULL;
}

/* ---- a covering choice ------------------------------------------------------------------------------------------- */

/* Pairs of macro values that a chosen set has, by their hash; 0: an empty place. */
#define MAX_PAIRS (1 << 16)
static uint64_t covered[MAX_PAIRS];

/* Where macros i and j (i == j: i alone) of a set are, or would be. */
static uint64_t *find_pair(const struct rfg_kernel *k, int i, int j, uint64_t *hash)
{
    const uint64_t parts[] = { (uint64_t)(uintptr_t)k->entry, (uint64_t)i, (uint64_t)k->macros[i].value, (uint64_t)j,
                               (uint64_t)k->macros[j].value };
    *hash = 1;
    for (int p = 0; p < 5; p++) {
        *hash = (*hash ^ parts[p]) * 0x9e3779b97f4a7c15u;
        *hash ^= *hash >> 29;
    }
    size_t at = *hash % MAX_PAIRS;
    while (covered[at] && covered[at] != *hash)
        at = (at + 1) % MAX_PAIRS;
    return &covered[at];
}

/* How many pairs of the set no chosen one has; `take` them if it is chosen. */
static int new_pairs(const struct set *a, bool alone, bool take)
{
    uint64_t hash;
    int n = 0;
    for (int i = 0; i < a->kernel.n_macros; i++)
        for (int j = i; j < (alone ? i + 1 : a->kernel.n_macros); j++) {
            uint64_t *at = find_pair(&a->kernel, i, j, &hash);
            n += !*at;
            if (take)
                *at = hash;
        }
    return n;
}

/* Greedily, the set with the most uncovered pairs (alone: values) first. Returns how many it chose. */
static int choose(struct sets *s, bool all, bool alone)
{
    int chosen = 0;
    memset(covered, 0, sizeof(covered));
    for (;;) {
        int best = -1, most = 0;
        for (int i = 0; i < s->n; i++) {
            int pairs = s->v[i].chosen ? 0 : all ? 1 : new_pairs(&s->v[i], alone, false);
            if (pairs > most) {
                most = pairs;
                best = i;
                if (all)
                    break;
            }
        }
        if (best < 0)
            return chosen;
        s->v[best].chosen = true;
        new_pairs(&s->v[best], alone, true);
        chosen++;
    }
}

/* ---- what a code object says of itself --------------------------------------------------------------------------- */

struct resources {
    long vgpr_spills, sgpr_spills, scratch, lds, registers; /* -1: it doesn't say */
    long accumulators;                                      /* of the registers, those of CDNA's matrix instructions */
};

/* An unsigned integer of the metadata note of an AMD code object (MessagePack: a short string, then the value). */
static long metadata(const struct rfg_blob *code, const char *key)
{
    char name[40];
    size_t len = strlen(key);
    ck_assert_uint_lt(len, 32);
    name[0] = (char)(0xa0 | len);
    memcpy(name + 1, key, len);
    const unsigned char *at = memmem(code->data, code->size, name, len + 1);
    if (!at)
        return -1;
    at += len + 1;
    if (at[0] < 0x80)
        return at[0];
    if (at[0] == 0xcc)
        return at[1];
    if (at[0] == 0xcd)
        return at[1] << 8 | at[2];
    return at[0] == 0xce ? (long)((unsigned long)at[1] << 24 | (unsigned long)at[2] << 16 | at[3] << 8 | at[4]) : -1;
}

/* The number before `words` in ptxas' report; absent if it says nothing of it. */
static long reported(const char *log, const char *words, long absent)
{
    const char *at = log ? strstr(log, words) : NULL;
    while (at && (at == log || at[-1] < '0' || at[-1] > '9')) /* "use of registers": no number */
        at = strstr(at + 1, words);
    if (!at)
        return log ? absent : -1;
    while (at > log && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return atol(at);
}

static struct resources resources_of(const struct rfg_device *dev, const struct rfg_blob *code, const char *log)
{
    if (dev->platform == RFG_PLATFORM_NVIDIA)
        return (struct resources){ .vgpr_spills = reported(log, " bytes spill stores", -1),
                                   .sgpr_spills = 0,
                                   .scratch = reported(log, " bytes stack frame", -1),
                                   .lds = reported(log, " bytes smem", 0),
                                   .registers = reported(log, " registers", -1) };
    long accumulators = metadata(code, ".agpr_count"); /* CDNA's */
    return (struct resources){ .vgpr_spills = metadata(code, ".vgpr_spill_count"),
                               .sgpr_spills = metadata(code, ".sgpr_spill_count"),
                               .scratch = metadata(code, ".private_segment_fixed_size"),
                               .lds = metadata(code, ".group_segment_fixed_size"),
                               .registers = metadata(code, ".vgpr_count"),
                               .accumulators = accumulators < 0 ? 0 : accumulators };
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* How far mha_decode_registers() may be from what the compiler takes: a little more than it was when this was written.
 * Accumulators don't count. With cluster=0 CDNA's kernels take many more than are guessed. */
static const struct margin {
    const char *arch;
    int below, below_shared, above; /* guesses; below_shared: with cluster=0 */
} margins[] = { { "sm_90", 36, 42, 20 }, { "gfx942", 20, 92, 90 }, { "gfx90a", 64, 92, 84 }, { "gfx1100", 8, 8, 40 } };

struct work {
    const struct rfg_jit_provider *prov;
    const struct margin *margin; /* or NULL: guesses are not looked at */
    struct rfg_jit_pool *pool;
    struct sets *sets;
    atomic_int next;
    pthread_mutex_t lock;
    int compiled, failed;
    long most_registers, most_lds;
    double seconds; /* of the slowest */
};

/* NULL, or what is wrong with it. log: the compiler's, or NULL. */
static const char *judge(const struct rfg_device *dev, const struct set *set, const struct resources *r,
                         const char *log)
{
    if (log && strstr(log, "serialized")) /* ptxas of wgmma: correct, but each instruction is waited for */
        return "matrix instructions are serialized";
    if (r->vgpr_spills < 0 || r->sgpr_spills < 0 || r->scratch < 0 || r->lds < 0 || r->registers <= 0)
        return "the code object does not say what it needs";
    if (r->vgpr_spills || r->sgpr_spills || r->scratch)
        return "registers are spilled";
    if (r->lds + (long)set->lds > dev->lds_bytes)
        return "LDS over the limit";
    return NULL;
}

static const char *judge_guess(const struct margin *m, const struct rfg_device *dev, const struct set *set,
                               const struct resources *r, char text[100])
{
    int cluster = 1, guess = mha_decode_registers(dev, &set->prob, set->params);
    for (int i = 0; i < set->kernel.n_macros; i++)
        if (!strcmp(set->kernel.macros[i].name, "CLUSTER"))
            cluster = set->kernel.macros[i].value;
    long above = guess - (r->registers - r->accumulators);
    snprintf(text, 100, "%d registers are guessed, which is %ld %s", guess, labs(above), above < 0 ? "below" : "above");
    return above > m->above || -above > (cluster ? m->below : m->below_shared) ? text : NULL;
}

static void compile_one(struct work *w, const struct set *set)
{
    const struct rfg_device *dev = w->sets->dev;
    char name[RFG_CONFIG_STRLEN], problem[RFG_PROBLEM_STRLEN];
    struct rfg_jit_request req;
    struct rfg_kernel kernel;
    struct rfg_blob code = { 0 };
    struct rfg_reason why;
    char *log = NULL;
    rfg_status st = rfg_variant_request(dev, &set->prob, set->var, set->params, &req, name, &kernel);
    double start = rfg_now();
    if (st == RFG_OK)
        st = rfg_jit_pool_compile(w->pool, w->prov, &req, &code, &log);
    double took = rfg_now() - start;
    struct resources r = { 0 };
    char guess[100];
    const char *wrong = "does not compile";
    if (st == RFG_OK) {
        r = resources_of(dev, &code, log);
        wrong = rfg_code_check(&req, &code, &why) ? judge(dev, set, &r, log) : why.text;
        if (!wrong && w->margin)
            wrong = judge_guess(w->margin, dev, set, &r, guess);
    }
    pthread_mutex_lock(&w->lock);
    w->compiled++;
    w->seconds = took > w->seconds ? took : w->seconds;
    w->most_registers = r.registers > w->most_registers ? r.registers : w->most_registers;
    w->most_lds = r.lds + (long)set->lds > w->most_lds ? r.lds + (long)set->lds : w->most_lds;
    if (wrong) {
        w->failed++;
        fprintf(
            stderr,
            "%s %s, of \"%s\": %s: spills %ld vector, %ld scalar; %ld bytes of scratch; LDS %ld + %u, limit %d; %s\n",
            dev->target, name, rfg_problem_format(&set->prob, problem, sizeof(problem)), wrong, r.vgpr_spills,
            r.sgpr_spills, r.scratch, r.lds, set->lds, dev->lds_bytes, st == RFG_OK ? "" : rfg_last_error());
    }
    pthread_mutex_unlock(&w->lock);
    free((char *)req.source);
    free(log);
    rfg_blob_free(&code);
}

static void *worker(void *arg)
{
    struct work *w = arg;
    int i;
    while ((i = atomic_fetch_add(&w->next, 1)) < w->sets->n)
        if (w->sets->v[i].chosen)
            compile_one(w, &w->sets->v[i]);
    return NULL;
}

static void compile_chosen(struct work *w)
{
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, w), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const struct rfg_jit_provider *find_provider(const struct arch *arch, const char *target, struct rfg_reason *why)
{
    char version[128];
    for (int i = 0; rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = rfg_jit_providers[i];
        if (strcmp(p->name, arch->provider))
            continue;
        if (!p->available(version, sizeof(version), why))
            return NULL;
        if (p->has_target(target))
            return p;
        rfg_refuse(why, "%s does not know %s", version, target);
        return NULL;
    }
    rfg_refuse(why, "there is no provider called %s", arch->provider);
    return NULL;
}

/* A line for docs/verified.md; see tests/tools/verified.py. */
static void record(const struct rfg_device *dev, const char *family, const struct rfg_jit_provider *prov,
                   const struct work *w)
{
    const char *path = getenv("RFG_VERIFIED_FILE");
    char version[128];
    struct rfg_reason why;
    if (!path || w->failed || !prov->available(version, sizeof(version), &why))
        return;
    FILE *f = fopen(path, "a");
    ck_assert_msg(f != NULL, "RFG_VERIFIED_FILE=%s: can't append to it", path);
    fprintf(f, "{\"compiled_for\":\"%s\",\"variant\":\"%s\",\"compiler\":\"%s\",\"code_objects\":%d}\n", dev->target,
            family, version, w->compiled);
    fclose(f);
}

/* Whether RFG_TEST_ARCH names it, among commas. */
static bool asked_for(const char *arch)
{
    const char *list = getenv("RFG_TEST_ARCH");
    size_t n = strlen(arch);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (!strncmp(p, arch, n) && (!p[n] || p[n] == ','))
            return true;
    }
    return !list;
}

START_TEST(compiles)
{
    static struct sets sets;
    const struct arch *arch = &archs[_i];
    const char *mode = getenv("RFG_TEST_COMPILE");
    if (!asked_for(arch->name))
        return;
    bool all = mode && (!strcmp(mode, "all") || !strcmp(mode, arch->name));
    struct rfg_device dev;
    struct rfg_reason why = { "" };
    ck_assert_msg(rfg_device_imagine(&dev, arch->name), "%s: not a known architecture", arch->name);
    const struct rfg_jit_provider *prov = find_provider(arch, dev.target, &why);
    if (!prov) {
        ck_assert_msg(arch->optional, "%s: %s", dev.target, why.text);
        printf("SKIPPED: compiling for %s: %s\n", dev.target, why.text); /* ./dev test counts these lines */
        return;
    }
    struct rfg_jit_pool *pool = rfg_jit_pool_create(WORKERS, 120);
    ck_assert_ptr_nonnull(pool);
    int failed = 0;
    struct family family;
    for (size_t v = 0; family_at(v, &family); v++) {
        const struct family *f = &family;
        const char *only = getenv("RFG_TEST_FAMILY");
        if (only && strcmp(only, f->name))
            continue;
        sets = (struct sets){ .dev = &dev };
        collect_family(&sets, f);
        if (sets.n == 0) {
            struct rfg_problem prob;
            for (size_t i = 0; !f->variant && i < f->n; i++) {
                ck_assert(rfg_problem_parse(&prob, f->problems[i], &why));
                for (int k = 0; k < rfg_op_variants(prob.op)->n; k++)
                    ck_assert_msg(!f->only || !strstr(rfg_op_variants(prob.op)->list[k]->name, f->only) ||
                                      !rfg_op_variants(prob.op)->list[k]->supports(&dev, &prob, &why),
                                  "%s: %s has no parameters for %s", dev.target,
                                  rfg_op_variants(prob.op)->list[k]->name, f->problems[i]);
            }
            if (f->variant) {
                ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->bf16 M=8 N=64 K=512", &why));
                ck_assert_msg(!f->variant->supports(&dev, &prob, &why), "%s: %s has no parameters for it", dev.target,
                              f->name);
            }
            printf("%s %s: not for it: %s\n", f->name, dev.target, why.text);
            continue;
        }
        choose(&sets, all, arch->alone);
        struct work w = { .prov = prov, .pool = pool, .sets = &sets, .lock = PTHREAD_MUTEX_INITIALIZER };
        compile_chosen(&w);
        printf("%s %s %s: %d of %d compiled, %d bad; at most %ld registers, %ld bytes of LDS; slowest %.2f s\n",
               f->name, dev.target, prov->name, w.compiled, sets.n, w.failed, w.most_registers, w.most_lds, w.seconds);
        failed += w.failed;
        record(&dev, f->name, prov, &w);
    }
    rfg_jit_pool_destroy(&pool);
    ck_assert_int_eq(failed, 0);
}
END_TEST

/* Whether one of the families' problems asks for a code object of var, on one of the architectures. */
static bool is_compiled(const struct rfg_variant *var)
{
    static struct sets sets;
    for (size_t a = 0; a < COUNT(archs); a++) {
        struct rfg_device dev;
        struct family f;
        ck_assert(rfg_device_imagine(&dev, archs[a].name));
        for (size_t i = 0; family_at(i, &f); i++) {
            if (f.variant ? f.variant != var : f.only && !strstr(var->name, f.only))
                continue;
            sets = (struct sets){ .dev = &dev };
            collect_family(&sets, &f);
            for (int v = 0; v < sets.n; v++)
                if (sets.v[v].var == var)
                    return true;
        }
    }
    return false;
}

START_TEST(each_variant_is_compiled)
{
    for (int o = 0; rfg_ops[o]; o++)
        for (int v = 0; v < rfg_op_variants(rfg_ops[o])->n; v++) {
            const struct rfg_variant *var = rfg_op_variants(rfg_ops[o])->list[v];
            if (var->kind == RFG_VARIANT_KERNEL)
                ck_assert_msg(is_compiled(var), "%s: no family's problems ask for it on any architecture: add them",
                              var->name);
        }
}
END_TEST

/* Sizes of the problem are no macros: problems that differ only in them share code objects, so that the tuner's
 * compiles stay few. */
static const struct sweep {
    const char *arch;
    int most;  /* configurations a problem and variant */
    int total; /* code objects: a quarter of a second each, on one core */
} sweeps[] = { { "sm_90", 90, 690 }, { "gfx942", 100, 300 }, { "gfx1100", 100, 180 } };

START_TEST(code_objects_of_the_decode_grid)
{
    static struct sets sets;
    static const int ns[] = { 64, 384, 512, 1024 };
    const struct sweep *sweep = &sweeps[_i];
    struct rfg_device dev;
    struct rfg_problem prob;
    struct rfg_reason why;
    int total = 0;
    ck_assert(rfg_device_imagine(&dev, sweep->arch));
    for (int v = 0; v < N_VARIANTS; v++) {
        if (GEMM_VARIANTS[v]->kind != RFG_VARIANT_KERNEL)
            continue;
        sets = (struct sets){ .dev = &dev, .var = GEMM_VARIANTS[v], .prob = &prob };
        int most = 0;
        for (int n = 0; n < 4; n++)
            for (int m = 1; m <= 128; m *= 2) {
                char text[100];
                snprintf(text, sizeof(text), "gemm bf16,bf16->bf16 M=%d N=%d K=7168", m, ns[n]);
                ck_assert(rfg_problem_parse(&prob, text, &why));
                int offered = rfg_variant_each(GEMM_VARIANTS[v], &dev, &prob, collect, &sets);
                most = offered > most ? offered : most;
            }
        printf("%s %s: %d code objects for the decode grid, at most %d configurations a problem\n", sweep->arch,
               GEMM_VARIANTS[v]->name, sets.n, most);
        ck_assert_int_le(most, sweep->most);
        total += sets.n;
    }
    ck_assert_int_le(total, sweep->total);
}
END_TEST

static bool count(void *ctx, const int *p)
{
    (void)ctx;
    (void)p;
    return true;
}

/* A variant that supports a problem has something to try for it, whatever the sizes. */
START_TEST(something_for_every_problem)
{
    static const int ms[] = { 1, 3, 16, 17, 100, 128, 129, 5000 };
    static const int ns[] = { 1, 3, 16, 17, 40, 64, 65, 200, 2112, 57344 };
    for (size_t a = 0; a < sizeof(archs) / sizeof(archs[0]); a++) {
        struct rfg_device dev;
        struct rfg_problem prob;
        struct rfg_reason why;
        char text[RFG_PROBLEM_STRLEN];
        ck_assert(rfg_device_imagine(&dev, archs[a].name));
        ck_assert(rfg_problem_parse(&prob, "gemm bf16,bf16->bf16 M=1 N=1 K=0", &why));
        for (size_t m = 0; m < sizeof(ms) / sizeof(ms[0]); m++)
            for (size_t n = 0; n < sizeof(ns) / sizeof(ns[0]); n++)
                for (int k = 0; k <= 20000; k += k < 64 ? 8 : k < 2048 ? 56 : 1024)
                    for (int v = 0; v < N_VARIANTS; v++) {
                        if (GEMM_VARIANTS[v]->kind != RFG_VARIANT_KERNEL)
                            continue;
                        prob.v[GEMM_M] = ms[m];
                        prob.v[GEMM_N] = ns[n];
                        prob.v[GEMM_K] = k;
                        if (GEMM_VARIANTS[v]->supports(&dev, &prob, NULL))
                            ck_assert_msg(rfg_variant_each(GEMM_VARIANTS[v], &dev, &prob, count, NULL) > 0,
                                          "%s: %s: %s", dev.name, GEMM_VARIANTS[v]->name,
                                          rfg_problem_format(&prob, text, sizeof(text)));
                    }
    }
}
END_TEST

/* The tuner never compiles what mha_decode_stream_mma guesses to spill, and predicts by the same guess. */
START_TEST(register_guesses)
{
    static struct sets sets;
    const struct margin *margin = &margins[_i];
    const struct arch *arch = archs;
    struct rfg_device dev;
    struct rfg_reason why = { "" };
    if (!asked_for(margin->arch))
        return;
    while (strcmp(arch->name, margin->arch))
        arch++;
    ck_assert(rfg_device_imagine(&dev, arch->name));
    const struct rfg_jit_provider *prov = find_provider(arch, dev.target, &why);
    if (!prov) {
        ck_assert_msg(arch->optional, "%s: %s", dev.target, why.text);
        printf("SKIPPED: guesses of %s's registers: %s\n", dev.target, why.text);
        return;
    }
    sets = (struct sets){ .dev = &dev };
    collect_family(&sets,
                   &(struct family){ .problems = decode_problems, .n = COUNT(decode_problems), .only = "_stream_mma" });
    choose(&sets, false, true);
    struct work w = { .prov = prov, .margin = margin, .sets = &sets, .lock = PTHREAD_MUTEX_INITIALIZER };
    w.pool = rfg_jit_pool_create(WORKERS, 120);
    compile_chosen(&w);
    rfg_jit_pool_destroy(&w.pool);
    ck_assert_int_gt(w.compiled, 0);
    ck_assert_int_eq(w.failed, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("compile");
    TCase *tc = tcase_create("compile");
    tcase_set_timeout(tc, 0); /* meson's limit holds */
    ADD_TESTS(tc, each_variant_is_compiled, something_for_every_problem);
    ADD_LOOPS(tc, COUNT(sweeps), code_objects_of_the_decode_grid);
    ADD_LOOPS(tc, (sizeof(archs) / sizeof(archs[0])), compiles);
    suite_add_tcase(s, tc);

    tc = test_case(s, "registers", NULL, NULL);
    tcase_set_timeout(tc, 0);
    ADD_LOOPS(tc, COUNT(margins), register_guesses);
    return run_suite(s);
}
