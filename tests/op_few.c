/* SPDX-License-Identifier: MIT
 *
 * A few of a table's cases, with one parameter set each. */
#include "op_few.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/db/db.h"

/* Whether a case says a word (an option with its value, a format, a kind of data) that no case before it says. Sizes
 * are no such words. */
static bool says_more(json_t *said, const struct op_case *c)
{
    char text[RFG_PROBLEM_STRLEN + RFG_CONFIG_STRLEN];
    bool more = false;
    snprintf(text, sizeof(text), "%s data=%d unaligned=%d %.*s", c->problem, (int)c->data, c->unaligned,
             c->config ? (int)strcspn(c->config, "{") : 0, c->config ? c->config : "");
    for (char *save = NULL, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        bool size = *word >= 'A' && *word <= 'Z';
        if (!size && !json_object_get(said, word)) {
            json_object_set_new(said, word, json_true());
            more = true;
        }
    }
    return more;
}

struct op_case *op_few_cases(const struct op_case *cases, int *n)
{
    struct op_case *few = calloc((size_t)*n, sizeof(*few));
    json_t *said = json_object();
    int kept = 0;
    ck_assert(few && said);
    for (int i = 0; i < *n; i++)
        if (says_more(said, &cases[i]))
            few[kept++] = cases[i];
    *n = kept;
    json_decref(said);
    return few;
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

void op_keep_few(const struct rfg_device *dev, const struct rfg_problem *probs, struct configs *configs, int n)
{
    enum { MOST = 64 };
    const struct rfg_variant *seen[MOST];
    int had[MOST], n_seen = 0;
    for (int i = 0; i < n; i++) {
        struct configs *c = &configs[i];
        int least = 0, best = -1;
        double least_cost = 0;
        for (int k = 0; k < c->n; k++) {
            int v = 0;
            while (v < n_seen && seen[v] != c->list[k].var)
                v++;
            if (v == n_seen) {
                ck_assert_int_lt(n_seen, MOST);
                seen[n_seen] = c->list[k].var;
                had[n_seen++] = 0;
            }
            double cost = extent(dev, &probs[i], &c->list[k]);
            if (best < 0 || had[v] < had[best] || (v == best && cost < least_cost)) {
                best = v;
                least = k;
                least_cost = cost;
            }
        }
        if (c->n) {
            had[best]++;
            c->list[0] = c->list[least];
            c->n = 1;
        }
    }
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
