/* SPDX-License-Identifier: MIT
 *
 * A few of the tables' cases, with one parameter set each. */
#include "op_few.h"

#include <check.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/db/db.h"

#define MOST_EXTENT 16

/* What has been run so far: words of problems but sizes, and of each kernel its macros' values, the kinds of data and of
 * sizes. Of a process: with CK_FORK=no a program's tables share it. */
static json_t *ran;

struct news {
    bool keep; /* from now on it is none */
    int worth;
};
/* How new a case must be to be run: three options that none before it had, say, or one and four values. Each case costs
 * seconds where no kernel was compiled before. */
enum { VALUE = 1, OPTION = 2, LEAST_WORTH = 6, NEXT_WORTH = 12, MOST_SETS = 2 };

__attribute__((format(printf, 3, 4))) static void tell(struct news *news, int worth, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (json_object_get(ran, text))
        return;
    news->worth += worth;
    if (news->keep)
        json_object_set_new(ran, text, json_true());
}

static void tell_kernel(struct news *news, const struct rfg_kernel *k, const struct op_case *c,
                        const struct rfg_problem *prob)
{
    tell(news, VALUE, "%s data=%d", k->entry, (int)c->data);
    tell(news, VALUE, "%s unaligned=%d", k->entry, c->unaligned);
    for (int i = 0; i < k->n_macros; i++) {
        int v = k->macros[i].value; /* large ones are sizes: about how large will do */
        tell(news, VALUE, "%s %s=%d", k->entry, k->macros[i].name, v > 16 ? 64 - __builtin_clz((unsigned)v) : v);
    }
    for (int i = 0; i < prob->op->n_keys; i++)
        if (prob->op->keys[i].kind == RFG_KEY_SIZE)
            tell(news, VALUE, "%s %s %s", k->entry, prob->op->keys[i].name,
                 prob->v[i] % 64 == 0  ? "of whole tiles"
                 : prob->v[i] % 8 == 0 ? "of whole loads"
                                       : "odd");
}

/* How much a case by one of its sets (NULL: it has none) would be the first to run. */
static int news_of(const struct rfg_device *dev, const struct op_case *c, const struct rfg_problem *prob,
                   const struct config *set, bool keep)
{
    struct news news = { .keep = keep };
    char text[RFG_PROBLEM_STRLEN];
    snprintf(text, sizeof(text), "%s", c->problem);
    for (char *save = NULL, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        if (!(*word >= 'A' && *word <= 'Z')) /* a size */
            tell(&news, OPTION, "%s", word);
    tell(&news, VALUE, "data=%d unaligned=%d", (int)c->data, c->unaligned);
    if (set && set->var->kind == RFG_VARIANT_KERNEL) {
        struct rfg_kernel k = { 0 };
        set->var->kernel(dev, prob, set->p, &k);
        tell_kernel(&news, &k, c, prob);
    }
    return news.worth;
}

static bool is_one_wave(const struct rfg_device *dev, const struct rfg_problem *prob, const struct config *c)
{
    struct rfg_launch l = { .block = { 0 } };
    if (c->var->kind == RFG_VARIANT_KERNEL)
        c->var->launch(dev, prob, c->p, &l);
    return l.block[0] * l.block[1] * l.block[2] <= (uint32_t)dev->wave_size;
}

/* What compiling a set costs, roughly: its tiles and unrolled loops are its parameters. One wave costs more than all. */
static double extent(const struct rfg_device *dev, const struct rfg_problem *prob, const struct config *c)
{
    double product = is_one_wave(dev, prob, c) ? 1e30 : 1;
    for (int i = 0; i < c->var->n_params; i++)
        product *= c->p[i] > 0 ? c->p[i] : 1;
    return product;
}

/* Whether a set takes far longer than another of its variant: such are left to the sweeps. */
static bool is_dear(const struct rfg_device *dev, const struct rfg_problem *prob, const struct configs *configs, int k)
{
    double cost = extent(dev, prob, &configs->list[k]);
    for (int i = 0; i < configs->n; i++)
        if (configs->list[i].var == configs->list[k].var && cost > MOST_EXTENT * extent(dev, prob, &configs->list[i]))
            return true;
    return false;
}

/* The set that runs most that is new; of those that are no better the cheapest, which compiles soonest. */
static int best_set(const struct rfg_device *dev, const struct op_case *c, const struct rfg_problem *prob,
                    const struct configs *configs)
{
    double best_cost = 0;
    int best = -1, most = 0;
    for (int k = 0; k < configs->n; k++) {
        if (is_dear(dev, prob, configs, k))
            continue;
        double cost = extent(dev, prob, &configs->list[k]);
        int news = news_of(dev, c, prob, &configs->list[k], false);
        if (best < 0 || news > most || (news == most && cost < best_cost)) {
            best = k;
            most = news;
            best_cost = cost;
        }
    }
    return best;
}

/* A case's sets, as op_keep_few() says, in place of its list. Whether it is run. */
static bool keep_sets(const struct rfg_device *dev, const struct op_case *c, const struct rfg_problem *prob,
                      struct configs *configs, bool first)
{
    struct config sets[MOST_SETS];
    int n = 0;
    if (!configs->n)
        return news_of(dev, c, prob, NULL, true) >= LEAST_WORTH || first;
    while (n < MOST_SETS) {
        const struct config *set = &configs->list[best_set(dev, c, prob, configs)];
        if (news_of(dev, c, prob, set, false) < (n ? NEXT_WORTH : LEAST_WORTH) && (n || !first))
            break;
        news_of(dev, c, prob, set, true);
        sets[n++] = *set;
    }
    memcpy(configs->list, sets, (size_t)n * sizeof(*sets));
    configs->n = n;
    return n > 0;
}

int op_keep_few(const struct rfg_device *dev, struct op_case *cases, struct rfg_problem *probs, struct configs *configs,
                int n)
{
    int kept = 0;
    ran = ran ? ran : json_object();
    for (int i = 0; i < n; i++) {
        if (!keep_sets(dev, &cases[i], &probs[i], &configs[i], i == 0)) {
            free(configs[i].list);
            continue;
        }
        cases[kept] = cases[i];
        probs[kept] = probs[i];
        configs[kept++] = configs[i];
    }
    return kept;
}

bool op_is_config(const struct rfg_choice *choice, const struct config *c)
{
    return choice->variant == c->var && !memcmp(choice->params, c->p, (size_t)c->var->n_params * sizeof(int));
}

char *op_few_rows(struct rfg_tempdir *dir, rfg_context *ctx, const struct rfg_problem *probs,
                  const struct configs *configs, int n)
{
    static char path[512];
    struct rfg_db *db;
    const struct rfg_device *dev = rfg_context_info(ctx);
    ck_assert(rfg_tempdir_make(dir, NULL));
    snprintf(path, sizeof(path), "%s/rows.db", dir->path);
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < n; i++) {
        if (!configs[i].n)
            continue;
        const struct config *c = &configs[i].list[0];
        struct rfg_row row = { .problem = rfg_problem_key(&probs[i]),
                               .cu_count = dev->cu_count,
                               .median_us = 1,
                               .samples = 9,
                               .error = 0.5,
                               .error_bound = 1,
                               .how = RFG_SOURCE_MEASURED,
                               .date = "2026-11-28T00:00:00Z",
                               .version = RFG_VERSION };
        strcpy(row.arch, dev->arch);
        rfg_row_set_config(&row, c->var, c->p, false);
        rfg_variant_provenance(ctx, &probs[i], c->var, row.source_hash, row.compiler, sizeof(row.compiler));
        ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    }
    rfg_db_close(&db);
    return path;
}
