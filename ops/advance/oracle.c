/* SPDX-License-Identifier: MIT
 *
 * The oracle of advance, by the rules of rfg/advance.h: a host that has each sequence's blocks in a list of its own. */
#include <stdlib.h>
#include <string.h>

#include "advance.h"
#include "advance_case.h"
#include "ops/oracle.h"

/* The tensors' contents after the step: by sequence, by token, by entry of the table. */
struct state {
    int64_t *len, *position, *slot, *table;
    int64_t spare;
};

static int64_t element(const rfg_tensor *t, int64_t i)
{
    return (int64_t)rfg_load(t->data, RFG_I32, i);
}

/* Whether sequence b advances, with the blocks that it has and takes. Taken blocks go to its row; *left is the number
 * that remain on the list, *waits is set if a sequence waits. */
static bool goes(const struct rfg_problem *prob, const rfg_tensor *host, struct state *s, int64_t b, bool *waits)
{
    const int64_t *v = prob->v;
    int64_t sq = v[ADVANCE_SQ], page = v[ADVANCE_PAGE], blocks = v[ADVANCE_BLOCKS], had = s->len[b];
    int64_t n = v[ADVANCE_ACCEPTED] ? element(&host[CASE_ACCEPTED], b) : sq;
    if (had < 0 || n < 0 || n > sq || (v[ADVANCE_ACTIVE] && element(&host[CASE_ACTIVE], b) == 0))
        return false;
    int64_t first = had + n - sq, last = had + n - 1, taken[ADVANCE_MAX_TOKENS], n_taken = 0;
    if (first < 0 || last >= INT32_MAX || (page && last / page >= blocks))
        return false;
    for (int64_t p = first; page && p <= last; p++) /* blocks that it has */
        if ((!v[ADVANCE_SPARE] || p / page * page < had) && s->table[b * blocks + p / page] < 0)
            return false;
    for (int64_t block = first / (page ? page : 1); v[ADVANCE_SPARE] && block <= last / page; block++)
        n_taken += block * page >= had;
    if (n_taken == 0)
        return true;
    if (*waits || n_taken > s->spare) {
        *waits = true;
        return false;
    }
    bool numbers = true;
    for (int64_t i = 0; i < n_taken; i++) {
        taken[i] = element(&host[CASE_SPARE], --s->spare);
        numbers = numbers && taken[i] >= 0;
    }
    for (int64_t i = 0; numbers && i < n_taken; i++)
        s->table[b * blocks + last / page - n_taken + 1 + i] = taken[i];
    return numbers;
}

static void step(const struct rfg_problem *prob, const rfg_tensor *host, struct state *s)
{
    const int64_t *v = prob->v;
    int64_t sq = v[ADVANCE_SQ], page = v[ADVANCE_PAGE];
    bool waits = false;
    for (int64_t b = 0; b < v[ADVANCE_B]; b++)
        s->len[b] = element(&host[CASE_LENS], b);
    for (int64_t i = 0; i < v[ADVANCE_B] * v[ADVANCE_BLOCKS]; i++)
        s->table[i] = (int64_t)rfg_element(&host[CASE_TABLE], i / v[ADVANCE_BLOCKS], i % v[ADVANCE_BLOCKS]);
    if (v[ADVANCE_SPARE]) {
        s->spare = element(&host[CASE_COUNT], 0);
        s->spare = s->spare < 0 ? 0 : s->spare > v[ADVANCE_SPARE] ? v[ADVANCE_SPARE] : s->spare;
    }
    for (int64_t b = 0; b < v[ADVANCE_B]; b++) {
        bool moves = goes(prob, host, s, b, &waits);
        if (moves)
            s->len[b] += v[ADVANCE_ACCEPTED] ? element(&host[CASE_ACCEPTED], b) : sq;
        for (int64_t j = 0; j < sq; j++) {
            int64_t p = moves ? s->len[b] - sq + j : 0;
            s->position[b * sq + j] = p;
            s->slot[b * sq + j] = !moves ? -1 : page ? s->table[b * v[ADVANCE_BLOCKS] + p / page] * page + p % page : 0;
        }
    }
}

rfg_status rfg_oracle_advance(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    const int64_t *v = prob->v;
    size_t b = (size_t)v[ADVANCE_B], tokens = b * (size_t)v[ADVANCE_SQ], entries = b * (size_t)v[ADVANCE_BLOCKS];
    int64_t *all = calloc(b + 2 * tokens + entries + 1, sizeof(*all));
    if (!all)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "advance's oracle: no memory");
    struct state s = { all, all + b, all + b + tokens, all + b + 2 * tokens, 0 };
    step(prob, host, &s);
    const struct {
        int tensor;
        const int64_t *values;
        int64_t cols;
    } outputs[] = { { CASE_POSITIONS, s.position, v[ADVANCE_SQ] },
                    { CASE_LENS_OUT, s.len, 1 },
                    { CASE_SLOTS, s.slot, v[ADVANCE_SQ] },
                    { CASE_TABLE_OUT, s.table, v[ADVANCE_BLOCKS] },
                    { CASE_COUNT_OUT, &s.spare, 1 } };
    for (size_t o = 0; o < sizeof(outputs) / sizeof(outputs[0]); o++) {
        const struct rfg_expected *e = &expected[outputs[o].tensor];
        int64_t cols = outputs[o].cols;
        for (int64_t i = 0; e->value && i < e->n_rows * cols; i++) {
            e->value[i] = (double)outputs[o].values[e->rows[i / cols] * cols + i % cols];
            e->allow[i] = 0;
        }
    }
    free(all);
    return RFG_OK;
}
