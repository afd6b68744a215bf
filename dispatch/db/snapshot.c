/* SPDX-License-Identifier: MIT
 *
 * The rows of both databases for one arch, in memory and immutable: what the dispatcher's ladder asks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "db_internal.h"

/* Rows with all keys but M equal: sorted[first .. first + n), by CU count, then M. */
struct group {
    uint64_t hash;
    uint32_t first, n; /* n 0: an empty slot */
};

struct slot {
    uint64_t hash;
    const struct rfg_row *row; /* NULL: empty */
};

/* Both tables: open addressing, at most half full. */
struct rfg_snapshot {
    struct rfg_row *rows;
    size_t n, mask, n_read; /* n: of sorted; n_read: of rows */
    struct slot *exact;
    struct group *groups;
    const struct rfg_row **sorted;
};

static uint64_t mix_cus(uint64_t hash, int cu_count)
{
    return hash ^ ((uint64_t)(unsigned)cu_count * 0x9e3779b97f4a7c15u);
}

static int m_key(const struct rfg_op *op)
{
    return op->column_key[0] ? rfg_op_key(op, op->column_key[0]) : -1;
}

static struct rfg_problem without_m(const struct rfg_problem *p)
{
    struct rfg_problem g = *p;
    int m = m_key(p->op);
    if (m >= 0)
        g.v[m] = 0;
    return g;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

#define WITHOUT_ROWS "going on without its tuned rows"

struct rfg_db *rfg_db_open_to_read(const char *path, bool may_be_missing)
{
    struct rfg_db *db = NULL;
    if (path && *path && !(may_be_missing && !rfg_access(path, F_OK) && errno == ENOENT) &&
        rfg_db_open(&db, path, RFG_DB_READ) != RFG_OK)
        rfg_warn("%s: " WITHOUT_ROWS, rfg_last_error());
    return db;
}

struct bad_rows {
    size_t n;
    char first[200];
};

static void on_bad(void *ctx, const struct rfg_row *row, const char *why)
{
    struct bad_rows *b = ctx;
    (void)row;
    if (!b->n++)
        snprintf(b->first, sizeof(b->first), "%s", why);
}

static void read_rows(struct rfg_db *db, const char *arch, struct rfg_row **rows, size_t *n)
{
    struct bad_rows bad = { 0 };
    *rows = NULL;
    *n = 0;
    if (!db)
        return;
    if (rfg_db_all(db, arch, rows, n, on_bad, &bad) != RFG_OK)
        rfg_warn("%s: " WITHOUT_ROWS, rfg_last_error());
    else if (bad.n)
        rfg_warn("%s: %zu rows skipped, the first because of %s", rfg_db_path(db), bad.n, bad.first);
}

/* Total order of (problem without M, cu_count, M); 0 for rows of the same key. */
static int compare(const struct rfg_row *a, const struct rfg_row *b)
{
    const struct rfg_problem ga = without_m(&a->problem), gb = without_m(&b->problem);
    if (ga.op->id != gb.op->id)
        return ga.op->id < gb.op->id ? -1 : 1;
    int c = memcmp(ga.dtype, gb.dtype, sizeof(ga.dtype));
    if (!c)
        c = memcmp(ga.v, gb.v, sizeof(ga.v));
    if (!c)
        c = (a->cu_count > b->cu_count) - (a->cu_count < b->cu_count);
    int64_t ma = rfg_problem_rows(&a->problem), mb = rfg_problem_rows(&b->problem);
    return c ? c : (ma > mb) - (ma < mb);
}

bool rfg_row_of_sibling(const struct rfg_row *row, const char *device)
{
    return *device && *row->device && strcmp(row->device, device);
}

/* How far from the device a row was measured: there, who knows where, on a sibling. */
static int distance(const struct rfg_row *row, const char *device)
{
    return !*device || !strcmp(row->device, device) ? 0 : !*row->device ? 1 : 2;
}

struct order {
    const struct rfg_row *system; /* the first of the system's rows, which follow the user's in memory */
    const char *device;
};

/* Rows of one key: the one to believe first. What is only predicted or provisional comes last; then the device counts,
 * then whose the row is (the user's, the system's), within one file the better `how`. */
static int better_first(const struct rfg_row *a, const struct rfg_row *b, const struct order *o)
{
    bool sa = a >= o->system, sb = b >= o->system, pa = a->how < RFG_SOURCE_IMPORTED, pb = b->how < RFG_SOURCE_IMPORTED;
    int da = distance(a, o->device), db = distance(b, o->device);
    if (pa != pb)
        return pa - pb;
    if (da != db)
        return da - db;
    if (sa != sb)
        return sa - sb;
    if (a->how != b->how)
        return a->how > b->how ? -1 : 1;
    return (a > b) - (a < b);
}

static int compare_rows(const void *pa, const void *pb, void *order)
{
    const struct rfg_row *a = *(const struct rfg_row *const *)pa, *b = *(const struct rfg_row *const *)pb;
    int c = compare(a, b);
    return c ? c : better_first(a, b, order);
}

static void add_exact(struct rfg_snapshot *s, const struct rfg_row *row)
{
    uint64_t hash = mix_cus(rfg_problem_hash(&row->problem), row->cu_count);
    size_t i = hash & s->mask;
    while (s->exact[i].row)
        i = (i + 1) & s->mask;
    s->exact[i] = (struct slot){ hash, row };
}

static void add_to_group(struct rfg_snapshot *s, uint32_t at)
{
    const struct rfg_problem g = without_m(&s->sorted[at]->problem);
    uint64_t hash = rfg_problem_hash(&g);
    size_t i = hash & s->mask;
    for (; s->groups[i].n; i = (i + 1) & s->mask) {
        const struct rfg_problem other = without_m(&s->sorted[s->groups[i].first]->problem);
        if (s->groups[i].hash == hash && rfg_problem_equal(&g, &other)) {
            s->groups[i].n++; /* sorted: a group's rows follow each other */
            return;
        }
    }
    s->groups[i] = (struct group){ hash, at, 1 };
}

static bool build(struct rfg_snapshot *s, const struct rfg_row *system, const char *device)
{
    struct order order = { system, device };
    size_t size = 16;
    while (size < 2 * s->n + 1)
        size *= 2;
    s->mask = size - 1;
    s->n_read = s->n;
    s->exact = calloc(size, sizeof(*s->exact));
    s->groups = calloc(size, sizeof(*s->groups));
    s->sorted = malloc((s->n + 1) * sizeof(const struct rfg_row *));
    if (!s->exact || !s->groups || !s->sorted)
        return false;
    for (size_t i = 0; i < s->n; i++)
        s->sorted[i] = &s->rows[i];
    qsort_r(s->sorted, s->n, sizeof(const struct rfg_row *), compare_rows, &order);
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!kept || compare(s->sorted[kept - 1], s->sorted[i]))
            s->sorted[kept++] = s->sorted[i];
    s->n = kept;
    for (size_t i = 0; i < kept; i++) {
        add_exact(s, s->sorted[i]);
        add_to_group(s, (uint32_t)i);
    }
    return true;
}

struct rfg_snapshot *rfg_snapshot_load(struct rfg_db *user_db, const char *system_path, const char *arch,
                                       const char *device)
{
    struct rfg_row *user, *system;
    size_t n_user, n_system;
    struct rfg_snapshot *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    struct rfg_db *system_db = rfg_db_open_to_read(system_path, false);
    read_rows(user_db, arch, &user, &n_user);
    read_rows(system_db, arch, &system, &n_system);
    rfg_db_close(&system_db);
    s->n = n_user + n_system;
    s->rows = malloc((s->n + 1) * sizeof(*s->rows));
    if (s->rows) {
        if (n_user)
            memcpy(s->rows, user, n_user * sizeof(*user));
        if (n_system)
            memcpy(s->rows + n_user, system, n_system * sizeof(*system));
    }
    free(user);
    free(system);
    if (!s->rows || !build(s, s->rows + n_user, device))
        rfg_snapshot_free(&s);
    return s;
}

struct rfg_snapshot *rfg_snapshot_of(const struct rfg_row *rows, size_t n, const char *arch, const char *device)
{
    struct rfg_snapshot *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->rows = malloc((n + 1) * sizeof(*s->rows));
    for (size_t i = 0; s->rows && i < n; i++)
        if (!strcmp(rows[i].arch, arch))
            s->rows[s->n++] = rows[i];
    if (!s->rows || !build(s, s->rows, device))
        rfg_snapshot_free(&s);
    return s;
}

void rfg_snapshot_free(struct rfg_snapshot **snap)
{
    if (!snap || !*snap)
        return;
    free((*snap)->rows);
    free((*snap)->exact);
    free((*snap)->groups);
    free((*snap)->sorted);
    free(*snap);
    *snap = NULL;
}

size_t rfg_snapshot_rows(const struct rfg_snapshot *snap)
{
    return snap->n;
}

const char *rfg_snapshot_device(const struct rfg_snapshot *s, int cu_count, int i)
{
    for (size_t k = 0; k < s->n_read; k++) {
        const struct rfg_row *row = &s->rows[k];
        bool first = row->cu_count == cu_count && *row->device;
        for (size_t j = 0; j < k && first; j++)
            first = s->rows[j].cu_count != cu_count || strcmp(s->rows[j].device, row->device);
        if (first && i-- == 0)
            return row->device;
    }
    return NULL;
}

/* ---- lookups ----------------------------------------------------------------------------------------------------- */

const struct rfg_row *rfg_snapshot_exact(const struct rfg_snapshot *s, const struct rfg_problem *prob, int cu_count)
{
    uint64_t hash = mix_cus(rfg_problem_hash(prob), cu_count);
    for (size_t i = hash & s->mask; s->exact[i].row; i = (i + 1) & s->mask) {
        const struct rfg_row *row = s->exact[i].row;
        if (s->exact[i].hash == hash && row->cu_count == cu_count && rfg_problem_equal(&row->problem, prob))
            return row;
    }
    return NULL;
}

static const struct rfg_row **find_group(const struct rfg_snapshot *s, const struct rfg_problem *prob, uint32_t *n)
{
    const struct rfg_problem g = without_m(prob);
    uint64_t hash = rfg_problem_hash(&g);
    for (size_t i = hash & s->mask; s->groups[i].n; i = (i + 1) & s->mask) {
        const struct rfg_problem other = without_m(&s->sorted[s->groups[i].first]->problem);
        if (s->groups[i].hash == hash && rfg_problem_equal(&g, &other)) {
            *n = s->groups[i].n;
            return s->sorted + s->groups[i].first;
        }
    }
    *n = 0;
    return NULL;
}

/* Is lo at least as near to m as hi, for lo <= m <= hi? By ratio: m / lo <= hi / m, without rounding. */
static bool lower_is_nearer(int64_t lo, int64_t m, int64_t hi)
{
    __extension__ typedef unsigned __int128 wide;
    return (wide)m * (wide)m <= (wide)lo * (wide)hi;
}

/* The i-th row by distance from m, of rows sorted by M. */
static const struct rfg_row *nth_by_m(const struct rfg_row *const *rows, uint32_t n, int64_t m, bool with_equal, int i)
{
    uint32_t hi = 0;
    while (hi < n && rfg_problem_rows(&rows[hi]->problem) < m)
        hi++;
    uint32_t lo = hi; /* rows[lo - 1] is the next below, rows[hi] the next above */
    if (hi < n && rfg_problem_rows(&rows[hi]->problem) == m) {
        if (with_equal && i-- == 0)
            return rows[hi];
        hi++;
    }
    while (lo > 0 || hi < n) {
        bool low = hi == n || (lo > 0 && lower_is_nearer(rfg_problem_rows(&rows[lo - 1]->problem), m,
                                                         rfg_problem_rows(&rows[hi]->problem)));
        const struct rfg_row *row = low ? rows[--lo] : rows[hi++];
        if (i-- == 0)
            return row;
    }
    return NULL;
}

/* The first row at or after `from` whose CU count is at least cus. */
static uint32_t first_with_cus(const struct rfg_row *const *rows, uint32_t n, uint32_t from, int64_t cus)
{
    while (from < n && rows[from]->cu_count < cus)
        from++;
    return from;
}

const struct rfg_row *rfg_snapshot_nearest(const struct rfg_snapshot *s, const struct rfg_problem *prob, int cu_count,
                                           int i)
{
    uint32_t n;
    const struct rfg_row *const *rows = find_group(s, prob, &n);
    if (!n)
        return NULL;
    uint32_t first = first_with_cus(rows, n, 0, cu_count);
    return nth_by_m(rows + first, first_with_cus(rows, n, first, (int64_t)cu_count + 1) - first, rfg_problem_rows(prob),
                    false, i);
}

const struct rfg_row *rfg_snapshot_other_cus(const struct rfg_snapshot *s, const struct rfg_problem *prob, int cu_count,
                                             int i)
{
    uint32_t n;
    const struct rfg_row *const *rows = find_group(s, prob, &n);
    uint32_t lo = first_with_cus(rows, n, 0, cu_count), hi = first_with_cus(rows, n, lo, (int64_t)cu_count + 1);
    while (lo > 0 || hi < n) { /* CU count by CU count, the nearest first, then the smaller */
        bool low = hi == n || (lo > 0 && cu_count - rows[lo - 1]->cu_count <= rows[hi]->cu_count - cu_count);
        uint32_t first = hi, last = hi;
        if (low) {
            last = lo;
            lo = first = first_with_cus(rows, n, 0, rows[lo - 1]->cu_count);
        } else {
            hi = last = first_with_cus(rows, n, hi, (int64_t)rows[hi]->cu_count + 1);
        }
        if (i < (int)(last - first))
            return nth_by_m(rows + first, last - first, rfg_problem_rows(prob), true, i);
        i -= (int)(last - first);
    }
    return NULL;
}
