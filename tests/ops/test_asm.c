/* SPDX-License-Identifier: MIT
 *
 * Assembly variants: the manifest, the assemblers, their errors, the cache; where the model picks them; and every way
 * through the pipeline of the skinny GEMM, on emulated GPUs. */
#include <unistd.h>

#include "dispatch/context_impl.h"
#include "dispatch/jit/jit_internal.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "ops/asm.h"
#include "ops/embed.h"
#include "ops/gemm/gemm.h"
#include "tuner/harness/harness.h"
#include "tests/op_cases.h"
#include "tests/tempfiles.h"

static const char *const archs[] = { "gfx90a", "gfx942" };
#define N_ARCHS  2
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct rfg_device device(const char *arch)
{
    struct rfg_device dev;
    ck_assert_msg(rfg_device_imagine(&dev, arch), "%s", arch);
    return dev;
}

/* ---- the manifest --------------------------------------------------------------------------------------------- */

static int param_index(const struct rfg_variant *var, const char *name)
{
    for (int i = 0; i < var->n_params; i++)
        if (!strcmp(var->params[i].name, name))
            return i;
    return -1;
}

static bool size_check(const struct rfg_asm_size *s, const struct rfg_asm *a, const struct rfg_variant *var,
                       const struct rfg_op *op, const char *what, struct rfg_reason *why)
{
    if (s->key && rfg_op_key(op, s->key) < 0)
        return rfg_refuse(why, "[%s %s] %s: %s: must be a key of %s", a->variant, a->arch, what, s->key, a->op);
    for (size_t i = 0; i < COUNT(s->params) && s->params[i]; i++)
        if (param_index(var, s->params[i]) < 0)
            return rfg_refuse(why, "[%s %s] %s: %s: must be a parameter of the variant", a->variant, a->arch, what,
                              s->params[i]);
    return true;
}

/* Is all that the entry names there: op, keys, parameters, macros? */
static bool entry_holds(const struct rfg_asm *a, const struct rfg_variant *var, struct rfg_reason *why)
{
    const struct rfg_op *op = rfg_op_find(a->op, strlen(a->op));
    struct rfg_problem prob;
    struct rfg_reason inner;
    if (!op)
        return rfg_refuse(why, "[%s %s] op = %s: must be an operator", a->variant, a->arch, a->op);
    if (strcmp(a->variant, var->name) || rfg_variant_find(op, a->variant) != var)
        return rfg_refuse(why, "[%s %s]: must be a variant of %s", a->variant, a->arch, a->op);
    rfg_problem_init(&prob, op);
    for (size_t i = 0; i < COUNT(a->dtypes) && a->dtypes[i]; i++)
        if (!rfg_problem_parse_dtypes(&prob, a->dtypes[i], &inner))
            return rfg_refuse(why, "[%s %s] dtypes = %s: %s", a->variant, a->arch, a->dtypes[i], inner.text);
    for (size_t i = 0; i < COUNT(a->rules) && a->rules[i].key; i++)
        if (rfg_op_key(op, a->rules[i].key) < 0)
            return rfg_refuse(why, "[%s %s] %s: must be a key of %s", a->variant, a->arch, a->rules[i].key, a->op);
    for (size_t i = 0; i < COUNT(a->macros) && a->macros[i].name; i++) {
        const char *from = a->macros[i].from;
        if (from && strcmp(from, "in") && strcmp(from, "out") && param_index(var, from) < 0)
            return rfg_refuse(why, "[%s %s] macros = %s=%s: must be a parameter of the variant, in or out", a->variant,
                              a->arch, a->macros[i].name, from);
    }
    for (size_t i = 0; i < COUNT(a->limits) && a->limits[i].size.number; i++)
        if (!size_check(&a->limits[i].size, a, var, op, "limit", why))
            return false;
    return size_check(&a->grid, a, var, op, "grid", why) && size_check(&a->block, a, var, op, "block", why) &&
           size_check(&a->lds, a, var, op, "lds", why);
}

/* Every entry names things that exist, and the arguments are the operator's. */
START_TEST(table_is_right)
{
    int n = 0;
    for (const struct rfg_asm *a = rfg_asm_table; a->variant; a++, n++) {
        const struct rfg_op *op = rfg_op_find(a->op, strlen(a->op));
        struct rfg_reason why;
        ck_assert_msg(op && entry_holds(a, rfg_variant_find(op, a->variant), &why), "%s", why.text);
        const struct rfg_embedded *e = rfg_embedded;
        while (e->name && strcmp(e->name, a->source))
            e++;
        ck_assert_msg(e->name != NULL, "%s is not embedded", a->source);
        for (size_t i = 0; i < RFG_MAX_MACROS && a->macros[i].name; i++) {
#define AT(arg, field)                                                                                                 \
    if (!strcmp(a->macros[i].name, "ARG_" arg))                                                                        \
    ck_assert_uint_eq((size_t)a->macros[i].value, offsetof(struct gemm_args, field))
            AT("WORKSPACE", workspace);
            AT("COUNTERS", counters);
            AT("Y", y);
            AT("X", x);
            AT("W", w);
            AT("BIAS", bias);
            AT("LDX", ldx);
            AT("LDW", ldw);
            AT("LDY", ldy);
            AT("M", m);
            AT("N", n);
            AT("K", k);
            if (!strcmp(a->macros[i].name, "ARG_BYTES"))
                ck_assert_uint_eq((size_t)a->macros[i].value, GEMM_ARGS_BYTES);
        }
    }
    ck_assert_int_eq(n, N_ARCHS);
}
END_TEST

START_TEST(entries_that_name_nothing)
{
    struct rfg_reason why;
    struct rfg_asm a = rfg_asm_table[0];
    a.rules[0].key = "Q";
    ck_assert(!entry_holds(&a, &gemm_skinny_mma_asm, &why));
    ck_assert_msg(strstr(why.text, "gfx90a] Q: must be a key of gemm") != NULL, "%s", why.text);
    a = rfg_asm_table[0];
    a.macros[0].from = "tile_q";
    ck_assert(!entry_holds(&a, &gemm_skinny_mma_asm, &why));
    ck_assert_msg(strstr(why.text, "IN_DTYPE=tile_q: must be a parameter") != NULL, "%s", why.text);
    a = rfg_asm_table[0];
    a.lds.params[2] = "depth";
    ck_assert(!entry_holds(&a, &gemm_skinny_mma_asm, &why));
    ck_assert_msg(strstr(why.text, "lds: depth: must be a parameter") != NULL, "%s", why.text);
    a = rfg_asm_table[0];
    a.op = "gemmm";
    ck_assert(!entry_holds(&a, &gemm_skinny_mma_asm, &why));
    ck_assert_msg(strstr(why.text, "op = gemmm: must be an operator") != NULL, "%s", why.text);
    a = rfg_asm_table[0];
    a.dtypes[1] = "bf16,bf17->bf16";
    ck_assert(!entry_holds(&a, &gemm_skinny_mma_asm, &why));
    ck_assert_msg(strstr(why.text, "dtypes = bf16,bf17->bf16: ") != NULL, "%s", why.text);
}
END_TEST

/* One line of a good manifest replaced by a bad one, and what must be said of it. */
static const struct {
    const char *line, *says[3];
} bad_lines[] = {
    { "M = 1..", { "[v gfx90a] M = 1..", "must be MIN..MAX" } },
    { "M = 9..3", { "[v gfx90a] M = 9..3", "MIN <= MAX" } },
    { "M = 1..16 by 0", { "[v gfx90a] M = 1..16 by 0", "STEP >= 1" } },
    { "a-b = 1..2", { "a-b", "must be a key of the problem" } },
    { "source = none.s", { "source = none.s", "must be a file under asm/gfx90a/" } },
    { "args = x:8 y:3", { "args = y:3", "must be NAME:BYTES" } },
    { "args = x:4 y:8", { "args = y:8", "is at byte 4: must be aligned" } },
    { "args = x:8 x:8", { "ARG_X", "must be given once" } },
    { "macros = ROWS", { "macros = ROWS", "must be NAME=PARAMETER" } },
    { "grid = N / rows / 2", { "grid = ", "must be a NUMBER above 0 or a PARAMETER" } },
    { "block = N / 64", { "block = N / 64", "must be NUMBERs and PARAMETERs" } },
    { "lds = 0 * rows", { "lds = 0", "must be a NUMBER above 0" } },
    { "limit = rows * 4 < 7", { "limit = rows * 4 < 7", "PRODUCT <= NUMBER" } },
    { "dtypes = bf16", { "dtypes = bf16", "INPUTS->OUTPUTS" } },
    { "dtypes =", { "dtypes = 0", "must be from 1 to 12" } },
    { "op =", { "op = ", "must be a name" } },
    { "[v]", { "[v]", "" } },
    { "[v gfx]x", { "[v gfx]", "must be [VARIANT] or [VARIANT gfxARCH]" } },
    { "[w]", { "[w]", "has no [w gfxARCH]" } },
    { "nonsense", { "nonsense", "" } },
};

START_TEST(bad_manifests)
{
    static const char *const good[] = {
        "op = gemm",      "source = k.s",  "entry = k",       "dtypes = bf16,bf16->bf16",
        "args = x:8 n:4", "macros =",      "grid = N / rows", "block = 64 * waves",
        "lds = 1024",     "M = 1..16 by 3"
    };
    const char *python = getenv("RFG_PYTHON"), *source = getenv("RFG_SOURCE_ROOT");
    ck_assert_msg(python && source, "RFG_PYTHON, RFG_SOURCE_ROOT: meson sets them");
    char *script = rfg_asprintf("%s/asm/manifest.py", source);
    put_file("gfx90a/k.s", "");
    for (int i = -1; i < (int)(sizeof(bad_lines) / sizeof(bad_lines[0])); i++) {
        const char *line = i < 0 ? "" : bad_lines[i].line;
        size_t key = strcspn(line, "=");
        char *text = strdup("[v gfx90a]\n");
        for (size_t g = 0; g < sizeof(good) / sizeof(good[0]); g++) {
            char *more = !strncmp(good[g], line, key + 1) && line[key] ? text : rfg_asprintf("%s%s\n", text, good[g]);
            if (more != text)
                free(text);
            text = more;
        }
        char *all = rfg_asprintf("%s%s\n", text, line), *out;
        const char *path = put_file("manifest.ini", all);
        struct rfg_reason why;
        bool ok = rfg_jit_run((const char *const[]){ python, script, path, NULL }, NULL, &out, &why);
        ck_assert_msg(ok == (i < 0 || !strcmp(line, "[v]")) || strstr(out, "no [v gfx") != NULL, "%s: %s", line, out);
        for (int s = 0; i >= 0 && !ok && s < 3 && bad_lines[i].says[s]; s++)
            ck_assert_msg(strstr(out, bad_lines[i].says[s]) != NULL, "'%s': no '%s' in: %s", line, bad_lines[i].says[s],
                          out);
        ck_assert_msg(ok || (strstr(out, "manifest.ini") && !strstr(out, "Traceback")), "%s", out);
        free(all);
        free(text);
        free(out);
    }
    free(script);
}
END_TEST

/* ---- who may have it ------------------------------------------------------------------------------------------- */

START_TEST(only_where_it_was_written_for)
{
    static const char *const others[] = { "gfx908",  "gfx950", "gfx1030", "gfx1100",
                                          "gfx1201", "sm_80",  "sm_90",   "sm_100" };
    static const struct {
        const char *arch, *problem, *says;
    } refused[] = {
        { "gfx942", "gemm bf16,bf16->bf16 M=17 N=64 K=512", "M=17: must be from 1 to 16" },
        { "gfx942", "gemm bf16,bf16->bf16 M=1 N=64 K=516", "K=516: must be 8 and a multiple of 8 more" },
        { "gfx942", "gemm bf16,bf16->bf16 M=1 N=64 K=0", "K=0: must be from 8" },
        { "gfx942", "gemm bf16,bf16->bf16 M=1 N=64 K=512 align=8", "align=8: must be from 16 to 16" },
        { "gfx942", "gemm bf16,bf16->bf16 M=2 N=64 K=512 ldy=33554433", "ldy=33554433: must be from 0 to 33554432" },
        { "gfx942", "gemm f32,f32->f32 M=1 N=64 K=512", "f32,f32->f32: not one of the dtypes" },
        { "gfx90a", "gemm f16,f16->f16 M=1 N=64 K=512", "f16,f16->f16: not one of the dtypes" },
    };
    struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=1 N=1024 K=7168");
    struct rfg_reason why;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct rfg_device dev = device(others[i]);
        ck_assert_msg(!gemm_skinny_mma_asm.supports(&dev, &prob, &why), "%s", others[i]);
        ck_assert_msg(strstr(why.text, "must be gfx90a or gfx942") != NULL, "%s", why.text);
        /* A tuned row may name it all the same: it has no source there. */
        struct rfg_kernel k = { 0 };
        char hash[65];
        gemm_skinny_mma_asm.kernel(&dev, &prob, (const int[]){ 1, 4, 4, 4 }, &k);
        rfg_jit_source_hash(k.source, hash);
        ck_assert_str_eq(hash, "");
        ck_assert_int_eq(k.n_macros, 0);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct rfg_device dev = device(refused[i].arch);
        prob = op_problem(refused[i].problem);
        ck_assert_msg(!gemm_skinny_mma_asm.supports(&dev, &prob, &why), "%s", refused[i].problem);
        ck_assert_msg(strstr(why.text, refused[i].says) != NULL, "%s: %s", refused[i].problem, why.text);
    }
    struct rfg_device dev = device("gfx942");
    prob = op_problem("gemm f16,f16->f32 M=5 N=64 K=512");
    ck_assert(gemm_skinny_mma_asm.supports(&dev, &prob, &why));
    ck_assert(!rfg_variant_check(&gemm_skinny_mma_asm, &dev, &prob, (const int[]){ 4, 4, 4, 4 }, &why));
    ck_assert_msg(strstr(why.text, "m_tile=4: must be at least M=5") != NULL, "%s", why.text);
    ck_assert(!rfg_variant_check(&gemm_skinny_mma_asm, &dev, &prob, (const int[]){ 8, 16, 4, 4 }, &why));
    ck_assert_msg(strstr(why.text, "rows*m_tile=128: must be at most 64") != NULL, "%s", why.text);
    ck_assert_msg(rfg_variant_check(&gemm_skinny_mma_asm, &dev, &prob, (const int[]){ 8, 8, 4, 4 }, &why), "%s",
                  why.text);
}
END_TEST

struct best {
    const struct rfg_variant *var;
    const struct rfg_device *dev;
    const struct rfg_problem *prob;
    double us;
};

static bool better(void *ctx, const int *p)
{
    struct best *b = ctx;
    double us = b->var->predict(b->dev, b->prob, p);
    b->us = us < b->us ? us : b->us;
    return true;
}

static double predicted(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob)
{
    struct best b = { .var = var, .dev = dev, .prob = prob, .us = 1e9 };
    ck_assert_int_gt(rfg_variant_each(var, dev, prob, better, &b), 0);
    return b.us;
}

/* Weights that come from memory take no less than that; many workgroups rather than few; before the compiled one where
 * it saves instructions and never far behind it. */
START_TEST(the_model_ranks_it)
{
    static const int ms[] = { 1, 2, 3, 4, 8, 16 }, ns[] = { 64, 384, 1024, 8192 };
    for (int a = 0; a < N_ARCHS; a++) {
        struct rfg_device dev = device(archs[a]);
        for (size_t m = 0; m < 6; m++)
            for (size_t n = 0; n < 4; n++) {
                struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=1 N=1 K=7168");
                prob.v[GEMM_M] = ms[m];
                prob.v[GEMM_N] = ns[n];
                double floor = ns[n] * 7168.0 * 2 / (1e3 * dev.mem_gbps);
                double us = predicted(&gemm_skinny_mma_asm, &dev, &prob);
                double compiled = predicted(&gemm_skinny, &dev, &prob);
                double mma = predicted(&gemm_splitk_mma, &dev, &prob);
                ck_assert_msg(us > floor, "%s: %f, the memory needs %f", archs[a], us, floor);
                ck_assert_msg(us < 1.5 * compiled, "%f, compiled %f", us, compiled);
                if (ns[n] >= 1024 && ms[m] <= 8)
                    ck_assert_msg(us <= compiled && us < 1.1 * mma, "%f, %f, %f", us, compiled, mma);
            }
    }
}
END_TEST

/* ---- assembling ------------------------------------------------------------------------------------------------- */

static const struct rfg_jit_provider *assembler(const char *arch)
{
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(arch);
    ck_assert_msg(prov != NULL, "%s", rfg_last_error());
    return prov;
}

/* Calls fn for every legal parameter set, with dtypes in turn. Returns how many. */
static int each_set(const struct rfg_device *dev,
                    void (*fn)(void *, const struct rfg_device *, const struct rfg_problem *, const int *), void *ctx)
{
    const struct rfg_variant *var = &gemm_skinny_mma_asm;
    const struct rfg_asm *a = rfg_asm_find(var->name, dev, NULL);
    struct rfg_problem prob = op_problem("gemm bf16,bf16->bf16 M=1 N=64 K=512");
    int n = 0, n_dtypes = 0, p[RFG_MAX_PARAMS];
    while (n_dtypes < 12 && a->dtypes[n_dtypes])
        n_dtypes++;
    for (int i = 0; i < var->params[0].n; i++)
        for (int j = 0; j < var->params[1].n; j++)
            for (int k = 0; k < var->params[2].n; k++)
                for (int l = 0; l < var->params[3].n; l++) {
                    p[0] = var->params[0].values[i];
                    p[1] = var->params[1].values[j];
                    p[2] = var->params[2].values[k];
                    p[3] = var->params[3].values[l];
                    if (!rfg_variant_check(var, dev, &prob, p, NULL))
                        continue;
                    ck_assert(rfg_problem_parse_dtypes(&prob, a->dtypes[n++ % n_dtypes], NULL));
                    fn(ctx, dev, &prob, p);
                }
    return n;
}

struct mc {
    const char *program;
    char *in, *out;
};

static void run_mc(void *ctx, const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct mc *mc = ctx;
    struct rfg_jit_request req;
    struct rfg_kernel kernel;
    struct rfg_reason why;
    char name[RFG_CONFIG_STRLEN], *log, cpu[48];
    ck_assert_int_eq(rfg_variant_request(dev, prob, &gemm_skinny_mma_asm, p, &req, name, &kernel), RFG_OK);
    ck_assert(req.assembly);
    FILE *f = fopen(mc->in, "w");
    ck_assert(f && fputs(req.source, f) >= 0 && !fclose(f));
    snprintf(cpu, sizeof(cpu), "-mcpu=%s", dev->target);
    bool ok = rfg_jit_run((const char *const[]){ mc->program, "-triple=amdgcn-amd-amdhsa", cpu, "-filetype=obj",
                                                 "--fatal-warnings", "-o", mc->out, mc->in, NULL },
                          NULL, &log, &why);
    ck_assert_msg(ok, "%s for %s: %s: %s", name, dev->target, why.text, log);
    free(log);
    free((char *)req.source);
}

START_TEST(llvm_mc_takes_every_set)
{
    struct rfg_device dev = device(archs[_i]);
    struct mc mc = { .program = "llvm-mc-19", .in = rfg_asprintf("%s/a.s", root), .out = rfg_asprintf("%s/a.o", root) };
    struct rfg_reason why;
    char *text = NULL;
    if (!rfg_jit_run((const char *const[]){ mc.program, "--version", NULL }, NULL, &text, &why)) {
        printf("SKIPPED: assembling by llvm-mc: %s (Debian: llvm-19)\n", why.text);
        free(text);
        return;
    }
    free(text);
    int n = each_set(&dev, run_mc, &mc);
    printf("%s: llvm-mc assembled %d sets\n", archs[_i], n);
    ck_assert_int_gt(n, 100);
    free(mc.in);
    free(mc.out);
}
END_TEST

static struct rfg_jit_request request(const struct rfg_device *dev, const char *text, const int *p, char *name,
                                      struct rfg_kernel *kernel)
{
    struct rfg_jit_request req;
    struct rfg_problem prob = op_problem(text);
    ck_assert_msg(rfg_variant_request(dev, &prob, &gemm_skinny_mma_asm, p, &req, name, kernel) == RFG_OK, "%s",
                  rfg_last_error());
    return req;
}

#define ONE                                                                                                            \
    (const int[])                                                                                                      \
    {                                                                                                                  \
        1, 4, 4, 4                                                                                                     \
    }
#define TWO                                                                                                            \
    (const int[])                                                                                                      \
    {                                                                                                                  \
        2, 4, 4, 4                                                                                                     \
    }

/* The second use of a cache, and of its directory by another one, assembles nothing; another macro does. */
START_TEST(cached_as_any_code_object)
{
    struct rfg_device dev = device(archs[_i]);
    char name[RFG_CONFIG_STRLEN], key[2][65], *dir = rfg_asprintf("%s/cache", root);
    struct rfg_kernel kernel;
    struct rfg_jit_request req = request(&dev, "gemm bf16,bf16->bf16 M=1 N=64 K=512", ONE, name, &kernel), hip = req;
    struct rfg_cache_stats stats;
    const struct rfg_blob *code[2];
    for (int i = 0; i < 2; i++) {
        struct rfg_cache *cache = rfg_cache_open(dir, 0);
        for (int j = 0; j < 2; j++)
            ck_assert_msg(rfg_cache_get(cache, &req, NULL, NULL, &code[j]) == RFG_OK, "%s", rfg_last_error());
        ck_assert_ptr_eq(code[0], code[1]);
        rfg_cache_get_stats(cache, &stats);
        ck_assert_uint_eq(stats.compiles, i ? 0 : 1);
        ck_assert_uint_eq(stats.disk_hits, i ? 1 : 0);
        ck_assert_uint_eq(stats.memory_hits, 1);
        if (i) {
            free((char *)req.source);
            req = request(&dev, "gemm bf16,bf16->bf16 M=1 N=64 K=512", TWO, name, &kernel);
            ck_assert_int_eq(rfg_cache_get(cache, &req, NULL, NULL, &code[0]), RFG_OK);
            rfg_cache_get_stats(cache, &stats);
            ck_assert_uint_eq(stats.compiles, 1);
        }
        rfg_cache_close(&cache);
    }
    hip = req;
    hip.assembly = false;
    rfg_cache_key(&req, assembler(dev.target), key[0]);
    rfg_cache_key(&hip, assembler(dev.target), key[1]);
    ck_assert_str_ne(key[0], key[1]);
    free((char *)req.source);
    free(dir);
}
END_TEST

/* Both assemblers of gfx90a, in this process and in a worker, make the same instructions of it, and the same bytes
 * each time. */
START_TEST(assemblers_agree)
{
    struct rfg_device dev = device("gfx90a");
    char name[RFG_CONFIG_STRLEN], *log;
    struct rfg_kernel kernel;
    struct rfg_jit_request req = request(&dev, "gemm bf16,bf16->f32 M=1 N=64 K=512", ONE, name, &kernel);
    static const struct rfg_jit_provider *const provs[] = { &rfg_jit_hiprtc, &rfg_jit_clang };
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 60);
    struct rfg_blob code[2][2];
    for (int i = 0; i < 2; i++) {
        if (!provs[i]->has_target("gfx90a")) {
            printf("SKIPPED: assembling for gfx90a by %s: it is not here\n", provs[i]->name);
            rfg_jit_pool_destroy(&pool);
            return;
        }
        ck_assert_msg(provs[i]->compile(&req, &code[i][0], &log) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(!log, "%s: %s", provs[i]->name, log);
        ck_assert_msg(rfg_jit_pool_compile(pool, provs[i], &req, &code[i][1], &log) == RFG_OK, "%s", rfg_last_error());
        ck_assert_ptr_null(log);
        ck_assert_uint_eq(code[i][0].size, code[i][1].size);
        ck_assert_int_eq(memcmp(code[i][0].data, code[i][1].data, code[i][0].size), 0);
    }
    /* From s_load_dwordx8 s[4:11], s[0:1], 0x0 on: some 3 KiB, and the padding that follows. */
    static const unsigned char first[] = { 0x00, 0x01, 0x0e, 0xc0, 0, 0, 0, 0 };
    const char *at[2];
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_nonnull(at[i] = memmem(code[i][0].data, code[i][0].size, first, sizeof(first)));
    ck_assert_int_eq(memcmp(at[0], at[1], 3000), 0);
    for (int i = 0; i < 4; i++)
        rfg_blob_free(&code[i / 2][i % 2]);
    rfg_jit_pool_destroy(&pool);
    free((char *)req.source);
}
END_TEST

/* The assembler's message, with file and line, is what the user reads; and comgr does not print or abort. */
START_TEST(bad_assembly)
{
    static const struct {
        const char *text, *says[2];
    } bad[] = {
        { "/* a line */\n    v_nonsense_b32 v0, v1\n", { "k.s:2:", "invalid instruction" } },
        { "\n\n    v_mov_b32 v0, v[TILE:TILE + 1]\n", { "k.s:3:", "invalid operand" } },
        { "\n    .if TILE != 4\n    .error \"TILE: must be 4\"\n    .endif\n", { "k.s:3:", "TILE: must be 4" } },
        { ".amdgcn_target \"amdgcn-amd-amdhsa--gfx1100\"\n", { "k.s:1:", "gfx" } },
        { "#include \"nothing.inc\"\n", { "asm/k.s:1", "nothing.inc" } },
    };
    setenv("RFG_KERNEL_DIR", root, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rfg_kernel k = { .source = "asm/k.s", .entry = "k" };
        struct rfg_jit_request req = { .name = "asm{t=5}", .entry = "k", .target = archs[_i], .assembly = true };
        struct rfg_cache *cache = rfg_cache_open("", 0);
        const struct rfg_blob *code;
        put_file("asm/k.s", bad[i].text);
        rfg_kernel_macro(&k, "TILE", 5);
        ck_assert(rfg_jit_is_assembly(&k));
        req.source = rfg_jit_expand(&k);
        if (req.source)
            ck_assert_int_eq(rfg_cache_get(cache, &req, NULL, NULL, &code), RFG_ERROR_COMPILE);
        const char *error = rfg_last_error();
        if (req.source)
            ck_assert_msg(strstr(error, "asm{t=5} for ") && strstr(error, archs[_i]), "%s", error);
        for (int s = 0; s < 2; s++)
            ck_assert_msg(strstr(error, bad[i].says[s]) != NULL, "no '%s' in: %s", bad[i].says[s], error);
        free((char *)req.source);
        rfg_cache_close(&cache);
    }
    /* An architecture that nobody lists is refused before anything is asked to assemble for it. */
    struct rfg_jit_request req = { .name = "asm", .entry = "k", .target = "gfx9999", .source = "", .assembly = true };
    struct rfg_blob code;
    char *log;
    if (rfg_jit_hiprtc.has_target("gfx90a")) {
        ck_assert_int_eq(rfg_jit_hiprtc.compile(&req, &code, &log), RFG_ERROR_COMPILE);
        ck_assert_msg(strstr(rfg_last_error(), "not one of its targets") != NULL, "%s", rfg_last_error());
    }
}
END_TEST

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void run_right(rfg_context *ctx, const char *text, const int *p, enum rfg_data data)
{
    struct rfg_problem prob = op_problem(text);
    struct rfg_case_params params = { .seed = 7, .data = data };
    struct rfg_case *c;
    struct rfg_plan *plan;
    struct rfg_check check;
    char name[RFG_CONFIG_STRLEN];
    rfg_config_format(&gemm_skinny_mma_asm, p, name, sizeof(name));
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s: %s", text, rfg_last_error());
    ck_assert_msg(rfg_plan_create(ctx, rfg_case_problem(c), &gemm_skinny_mma_asm, p, &plan) == RFG_OK, "%s: %s: %s",
                  text, name, rfg_last_error());
    ck_assert_int_eq(rfg_case_poison(c, 0), RFG_OK);
    ck_assert_msg(rfg_case_run(c, 0, plan, NULL) == RFG_OK && rfg_case_check(c, 0, &check) == RFG_OK, "%s: %s: %s",
                  text, name, rfg_last_error());
    ck_assert_msg(!check.wrong && !check.guard_broken, "%s: %s: %s", text, name, check.message);
    rfg_plan_destroy(ctx, &plan);
    rfg_case_destroy(&c);
}

static rfg_context *context(const char *arch)
{
    rfg_context *ctx;
    char *dir = rfg_asprintf("%s/code", root), name[40];
    snprintf(name, sizeof(name), "emu:%s:4", arch);
    rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .cache_dir = dir };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", name, rfg_last_error());
    free(dir);
    return ctx;
}

/* Each number of whole steps that a wave can have, so each way into, around and out of the ring, with and without a
 * rest of k. */
START_TEST(every_way_through_the_ring)
{
    static const int unrolls[] = { 2, 4, 8 };
    rfg_context *ctx = context(archs[_i]);
    for (int u = 0; u < 3; u++)
        for (int steps = 0; steps <= 3 * unrolls[u] + 1; steps++)
            for (int rest = steps ? 0 : 8; rest < 128; rest += 40) {
                char text[100];
                snprintf(text, sizeof(text), "gemm bf16,bf16->f32 M=3 N=5 K=%d bias=1", steps * 128 + rest);
                run_right(ctx, text, (const int[]){ 4, 4, 1, unrolls[u] }, RFG_DATA_RANDOM);
            }
    rfg_context_destroy(&ctx);
}
END_TEST

struct runs {
    rfg_context *ctx;
    int n, done;
};

/* A third of the sets, on problems that are whole in nothing. */
static void run_set(void *arg, const struct rfg_device *dev, const struct rfg_problem *prob, const int *p)
{
    struct runs *r = arg;
    char text[160], dtypes[40];
    (void)dev;
    if (r->n++ % 5 != 2)
        return;
    int m = p[0] > 2 ? p[0] - r->n % 2 : p[0], k = 128 * (p[2] * p[3] + r->n % 7) + 8 * (r->n % 16);
    snprintf(text, sizeof(text), "gemm %s M=%d N=%d K=%d bias=%d ldx=%d ldw=%d ldy=%d",
             rfg_problem_format_dtypes(prob, dtypes, sizeof(dtypes)), m, 2 * p[1] + r->n % p[1], k, r->n / 5 % 2,
             k + 8 * (r->n % 3), k + 16, 3 * p[1] + r->n % 2);
    run_right(r->ctx, text, p, r->n % 2 ? RFG_DATA_RANDOM : RFG_DATA_CANCEL);
    r->done++;
}

START_TEST(sets_are_right)
{
    struct rfg_device dev = device(archs[_i]);
    struct runs r = { .ctx = context(archs[_i]) };
    each_set(&dev, run_set, &r);
    printf("%s: %d of %d sets right\n", archs[_i], r.done, r.n);
    ck_assert_int_gt(r.done, 20);
    rfg_context_destroy(&r.ctx);
}
END_TEST

/* The same bits whatever the order of workgroups and waves. */
START_TEST(same_bits_in_any_schedule)
{
    void *first = NULL;
    for (int seed = 0; seed < 6; seed++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", seed);
        setenv("RFG_EMU_SCHEDULE", text, 1);
        rfg_context *ctx = context(archs[_i]);
        struct rfg_problem prob = op_problem("gemm bf16,bf16->f32 M=8 N=13 K=4104");
        struct rfg_case_params params = { .seed = 3 };
        struct rfg_case *c;
        struct rfg_plan *plan;
        void *bytes;
        size_t size;
        ck_assert_int_eq(rfg_case_create(ctx, &prob, &params, &c), RFG_OK);
        ck_assert_int_eq(
            rfg_plan_create(ctx, rfg_case_problem(c), &gemm_skinny_mma_asm, (const int[]){ 8, 8, 8, 2 }, &plan),
            RFG_OK);
        ck_assert_msg(rfg_case_run(c, 0, plan, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_case_outputs(c, 0, &bytes, &size), RFG_OK);
        ck_assert_msg(!first || !memcmp(first, bytes, size), "schedule %d gives other bits", seed);
        if (!first)
            first = bytes;
        else
            free(bytes);
        rfg_plan_destroy(ctx, &plan);
        rfg_case_destroy(&c);
        rfg_context_destroy(&ctx);
    }
    free(first);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("asm");
    TCase *tc = tcase_create("asm");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, table_is_right, entries_that_name_nothing, bad_manifests, only_where_it_was_written_for,
              the_model_ranks_it);
    tcase_add_loop_test(slow_case(s, "asm", "llvm_mc_takes_every_set", setup, teardown), llvm_mc_takes_every_set, 0,
                        N_ARCHS);
    ADD_TESTS(tc, assemblers_agree);
    ADD_LOOPS(tc, N_ARCHS, cached_as_any_code_object, bad_assembly);
    tcase_add_loop_test(slow_case(s, "asm", "every_way_through_the_ring", setup, teardown), every_way_through_the_ring,
                        0, N_ARCHS);
    ADD_LOOPS(tc, N_ARCHS, sets_are_right, same_bits_in_any_schedule);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
