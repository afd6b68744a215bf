/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: what is to be tuned. */
#include <stdlib.h>
#include <string.h>

#include "tuner/harness/loads.h"
#include "tune.h"

/* Doubles the list and its index. */
static bool grow_shapes(struct tune *t)
{
    int room = t->index_size ? t->index_size : 64;
    struct tune_shape *shapes = realloc(t->shapes, (size_t)room * sizeof(*shapes));
    if (shapes)
        t->shapes = shapes;
    uint32_t *index = shapes ? calloc(2 * (size_t)room, sizeof(*index)) : NULL;
    if (!index)
        return false;
    for (int i = 0; i < t->n_shapes; i++) {
        size_t at = rfg_problem_hash(&t->shapes[i].problem) & (size_t)(2 * room - 1);
        while (index[at])
            at = (at + 1) & (size_t)(2 * room - 1);
        index[at] = (uint32_t)i + 1;
    }
    free(t->index);
    t->index = index;
    t->index_size = 2 * room;
    return true;
}

/* Each problem once. False: no memory. */
static bool add_shape(struct tune *t, const struct rfg_problem *asked, double weight)
{
    const struct rfg_problem own = rfg_loads_applied(asked);
    const struct rfg_problem over = t->opt.overlap ? rfg_problem_with_overlap(&own, true) : own;
    const struct rfg_problem prob = t->opt.invariant ? rfg_problem_with_invariant(&over, true) : over;
    if (t->opt.max_m && rfg_problem_rows(&prob) > t->opt.max_m)
        return true;
    if (2 * t->n_shapes >= t->index_size && !grow_shapes(t))
        return false;
    size_t mask = (size_t)t->index_size - 1, at = rfg_problem_hash(&prob) & mask;
    for (; t->index[at]; at = (at + 1) & mask)
        if (rfg_problem_equal(&t->shapes[t->index[at] - 1].problem, &prob))
            return true;
    struct tune_shape *s = &t->shapes[t->n_shapes];
    t->index[at] = (uint32_t)++t->n_shapes;
    *s = (struct tune_shape){ .problem = prob, .weight = weight };
    rfg_problem_format(&prob, s->text, sizeof(s->text));
    return true;
}

static void bad_line(void *ctx, const char *message)
{
    (void)ctx;
    fprintf(stderr, "rfg-tune: %s\n", message);
}

int tune_read_shapes(struct tune *t)
{
    for (int i = 0; i < t->opt.n_shapes; i++) {
        struct rfg_shapes shapes = { 0 };
        rfg_status st = rfg_shapes_read(t->opt.shapes[i], &shapes, bad_line, NULL);
        bool ok = true;
        if (st != RFG_OK) {
            fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
            t->bad_lines++;
        }
        t->bad_lines += (int)shapes.n_bad;
        for (size_t k = 0; ok && st == RFG_OK && k < shapes.n; k++) {
            struct rfg_problem key = rfg_problem_key(&shapes.v[k].problem);
            ok = add_shape(t, &key, shapes.v[k].weight);
        }
        rfg_shapes_free(&shapes);
        if (!ok)
            return TUNE_EXIT_FAILED;
    }
    for (int i = 0; i < t->opt.n_problems; i++) {
        struct rfg_problem prob, key;
        struct rfg_reason why;
        if (!rfg_problem_parse(&prob, t->opt.problems[i], &why)) {
            fprintf(stderr, "rfg-tune: --problem '%s': %s\n", t->opt.problems[i], why.text);
            return TUNE_EXIT_USAGE;
        }
        key = rfg_problem_key(&prob);
        if (!rfg_problem_equal(&key, &prob)) {
            fprintf(stderr,
                    "rfg-tune: --problem '%s': strides and alignment are not part of a tuned row: leave them out\n",
                    t->opt.problems[i]);
            return TUNE_EXIT_USAGE;
        }
        if (!add_shape(t, &key, 1))
            return TUNE_EXIT_FAILED;
    }
    return -1;
}

#define MAX_MISSES 65536 /* that one run tunes: the most called */

struct misses {
    struct tune *t;
    int n;
    bool no_memory;
};

static bool take_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                      uint64_t calls, const char *last)
{
    struct misses *m = ctx;
    (void)rung;
    (void)last;
    if (!prob->op || strcmp(arch, m->t->dev.arch) || cu_count != m->t->dev.cu_count)
        return true;
    m->no_memory = !add_shape(m->t, prob, (double)calls);
    return !m->no_memory && ++m->n < MAX_MISSES;
}

/* In the order of the database: most-called first. */
int tune_read_misses(struct tune *t)
{
    struct misses m = { .t = t };
    if (!t->db) /* a dry run without a database: none was recorded */
        return -1;
    if (rfg_db_each_miss(t->db, take_miss, &m) != RFG_OK || m.no_memory) {
        fprintf(stderr, "rfg-tune: %s\n", m.no_memory ? "no memory for the misses" : rfg_last_error());
        return TUNE_EXIT_FAILED;
    }
    if (!m.n && !t->n_shapes)
        fprintf(stderr, "rfg-tune: no misses recorded for %s with %d %s in %s (engines write them with RFG_MISSES=1)\n",
                t->dev.arch, t->dev.cu_count, t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs",
                rfg_db_path(t->db));
    return -1;
}
