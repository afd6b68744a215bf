/* SPDX-License-Identifier: MIT
 *
 * rfg-db: look into tuned databases, turn them into text and back, merge and verify them. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/pack/pack.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "exit.h"
#include "merge.h"
#include "pack.h"
#include "restamp.h"
#include "shapes.h"
#include "tuner/harness/output.h"
#include "tuner/harness/stamp.h"

struct options {
    const char *arch, *out, *db;
    const char **shapes;
    int n_shapes, jobs;
    bool json, keep_how, newest, system, all, tunableop, overlap;
    int argc;
    char **argv;
};

static const struct rfg_variant *variant_of(const struct rfg_row *row, int *p, struct rfg_reason *why)
{
    const struct rfg_variant *var = rfg_variant_find(row->problem.op, row->variant);
    if (!var)
        rfg_refuse(why, "variant '%s': %s has no such variant", row->variant, row->problem.op->name);
    return var && rfg_row_params(row, var, p, why) ? var : NULL;
}

static json_t *row_json(const struct rfg_row *row)
{
    char text[512];
    struct rfg_flat f;
    rfg_flatten(row, &f);
    json_t *obj = json_object();
    json_object_set_new(obj, "problem", json_string(rfg_problem_format(&row->problem, text, sizeof(text))));
    for (int i = 0; i < RFG_N_COLUMNS; i++) {
        const struct rfg_column *c = &rfg_columns[i];
        const void *v = (const char *)&f + c->offset;
        json_t *value = NULL;
        if (c->type == RFG_COLUMN_REAL)
            value = json_real(*(const double *)v);
        else if (c->type == RFG_COLUMN_INT)
            value = json_integer(*(const int *)v);
        else if (c->type == RFG_COLUMN_I64)
            value = json_integer(*(const int64_t *)v);
        else if (!strcmp(c->name, "params"))
            value = json_loads(v, 0, NULL);
        if (!value) /* seeds too: JSON's numbers end at 2^53 for many readers */
            value = json_string(rfg_column_format(&f, i, text, sizeof(text)));
        json_object_set_new(obj, c->name, value);
    }
    return obj;
}

/* ---- list, show -------------------------------------------------------------------------------------------------- */

#define LIST_COLUMNS 11
static const char *const list_titles[LIST_COLUMNS] = { "problem",   "arch",   "CUs",        "variant",
                                                       "median us", "spread", "vs default", "vs vendor",
                                                       "how",       "device", "date" };
static const bool list_right[LIST_COLUMNS] = { [2] = true, [4] = true, [5] = true, [6] = true, [7] = true };

static char *list_cell(const struct rfg_row *row, int column)
{
    char text[RFG_CONFIG_STRLEN + RFG_PROBLEM_STRLEN];
    double other;
    switch (column) {
    case 0:
        return strdup(rfg_problem_format(&row->problem, text, sizeof(text)));
    case 1:
        return strdup(row->arch);
    case 2:
        return rfg_asprintf("%d", row->cu_count);
    case 3:
        return strdup(rfg_row_config(row, text, sizeof(text)));
    case 4:
        return rfg_asprintf("%.2f", row->median_us);
    case 5:
        return rfg_asprintf("%.2f", row->spread_us);
    case 6:
    case 7:
        other = column == 6 ? row->default_us : row->vendor_us;
        return other > 0 ? rfg_asprintf("%.2fx", other / row->median_us) : strdup("-");
    case 8:
        return strdup(rfg_source_name(row->how));
    case 9:
        return strdup(*row->device ? row->device : "-");
    default:
        return strdup(row->date);
    }
}

static void print_table(const struct rfg_row *rows, size_t n)
{
    int width[LIST_COLUMNS];
    for (int c = 0; c < LIST_COLUMNS; c++) {
        width[c] = (int)strlen(list_titles[c]);
        for (size_t i = 0; i < n; i++) {
            char *cell = list_cell(&rows[i], c);
            if (cell && (int)strlen(cell) > width[c])
                width[c] = (int)strlen(cell);
            free(cell);
        }
    }
    for (size_t i = 0; i < n + 1; i++)
        for (int c = 0; c < LIST_COLUMNS; c++) {
            char *cell = i ? list_cell(&rows[i - 1], c) : strdup(list_titles[c]);
            bool last = c + 1 == LIST_COLUMNS;
            rfg_print(stdout, "%*s%s",
                      list_right[c] ? width[c]
                      : last        ? 0
                                    : -width[c],
                      cell ? cell : "?", last ? "\n" : "  ");
            free(cell);
        }
}

static int cmd_list(const struct options *o)
{
    struct rfg_row *rows;
    size_t n;
    if (!rfg_db_load(o->argv[0], o->arch, &rows, &n))
        return complain(BAD_USAGE);
    if (o->json) {
        json_t *all = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(all, row_json(&rows[i]));
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(all);
    } else {
        print_table(rows, n);
        rfg_print(stdout, "%zu row%s\n", n, n == 1 ? "" : "s");
    }
    free(rows);
    return FINE;
}

static int cmd_show(const struct options *o)
{
    struct rfg_row *rows;
    struct rfg_problem p;
    struct rfg_reason why;
    size_t n, found = 0;
    if (!rfg_problem_parse(&p, o->argv[1], &why)) {
        fprintf(stderr, "rfg-db: problem: %s\n", why.text);
        return BAD_USAGE;
    }
    if (!rfg_db_load(o->argv[0], o->arch, &rows, &n))
        return complain(BAD_USAGE);
    p = rfg_problem_key(&p);
    for (size_t i = 0; i < n; i++) {
        char text[512];
        struct rfg_flat f;
        if (!rfg_problem_equal(&rows[i].problem, &p))
            continue;
        rfg_flatten(&rows[i], &f);
        if (found++)
            putchar('\n');
        rfg_print(stdout, "%-12s %s\n", "problem", rfg_problem_format(&p, text, sizeof(text)));
        for (int c = 0; c < RFG_N_COLUMNS; c++)
            rfg_print(stdout, "%-12s %s\n", rfg_columns[c].name, rfg_column_format(&f, c, text, sizeof(text)));
    }
    free(rows);
    if (!found)
        fprintf(stderr, "rfg-db: %s: no row for '%s'\n", o->argv[0], o->argv[1]);
    return found ? FINE : PROBLEMS;
}

/* ---- export, import ---------------------------------------------------------------------------------------------- */

static int cmd_export(const struct options *o)
{
    struct rfg_db *db;
    if (rfg_db_open(&db, o->argv[0], RFG_DB_READ) != RFG_OK)
        return complain(BAD_USAGE);
    rfg_status st = rfg_db_export_csv(db, o->arch, o->out && strcmp(o->out, "-") ? o->out : NULL);
    rfg_db_close(&db);
    return st == RFG_OK ? FINE : complain(BAD_USAGE);
}

/* A system database is made afresh beside its name and renamed, and needs no write-ahead log to be read. */
static int import_system(const struct options *o, const struct rfg_row *rows, size_t n)
{
    struct rfg_db *db = NULL;
    struct rfg_tempdir dir;
    if (rfg_access(o->db, F_OK) && rfg_db_open(&db, o->db, RFG_DB_READ) != RFG_OK) {
        fprintf(stderr, "rfg-db: %s; it is not replaced: only a tuned database is\n", rfg_last_error());
        return BAD_USAGE;
    }
    rfg_db_close(&db);
    char *prefix = rfg_asprintf("%s.tmp-", o->db);
    bool made = prefix && rfg_tempdir_make(&dir, prefix);
    char *tmp = made ? rfg_asprintf("%s/db", dir.path) : NULL;
    rfg_status st =
        tmp ? rfg_db_open(&db, tmp, RFG_DB_WRITE)
            : rfg_fail(RFG_ERROR_IO, "%s: cannot make a temporary directory beside it: %s", o->db, strerror(errno));
    if (st == RFG_OK)
        st = rfg_db_put_all(db, rows, n, NULL);
    if (st == RFG_OK)
        st = rfg_db_seal(db);
    rfg_db_close(&db);
    if (st == RFG_OK && rename(tmp, o->db))
        st = rfg_fail(RFG_ERROR_IO, "%s: cannot rename to it: %s", o->db, strerror(errno));
    if (st != RFG_OK)
        complain(BAD_USAGE);
    else
        rfg_print(stdout, "%s: %zu rows\n", o->db, n);
    if (made)
        rfg_tempdir_remove(&dir);
    free(prefix);
    free(tmp);
    return st == RFG_OK ? FINE : BAD_USAGE;
}

static int cmd_import(const struct options *o)
{
    struct rfg_db *db;
    struct rfg_row *rows;
    size_t n;
    int written;
    if (!o->db) {
        fprintf(stderr, "rfg-db: import: --db is missing: must name the database to write\n");
        return BAD_USAGE;
    }
    /* Read first: bad text makes no database. */
    if (rfg_db_read_files((const char *const *)o->argv, o->argc, o->system || o->keep_how, &rows, &n) != RFG_OK)
        return complain(BAD_USAGE);
    if (o->system) {
        int code = import_system(o, rows, n);
        free(rows);
        return code;
    }
    rfg_status st = rfg_db_open(&db, o->db, RFG_DB_WRITE);
    if (st == RFG_OK)
        st = rfg_db_put_all(db, rows, n, &written);
    free(rows);
    rfg_db_close(&db);
    if (st != RFG_OK)
        return complain(BAD_USAGE);
    rfg_print(stdout, "%s: %d rows imported", o->db, written);
    if ((size_t)written < n)
        rfg_print(stdout, ", %zu not: a row that ranks higher (measured > imported > provisional > predicted) is there",
                  n - (size_t)written);
    putchar('\n');
    return FINE;
}

static int cmd_merge(const struct options *o)
{
    if (o->db)
        return rfg_db_merge((const char *const *)o->argv, o->argc, o->db, o->newest);
    fprintf(stderr, "rfg-db: merge: --db is missing: must name the database to write\n");
    return BAD_USAGE;
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */

struct verify {
    const char *path;
    int problems, stale, changed, unchecked;
    size_t rows;
};

static void finding(void *ctx, const char *text)
{
    struct verify *v = ctx;
    v->problems++;
    rfg_print(stdout, "%s: damaged: %s\n", v->path, text);
}

static bool date_ok(const char *s)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    for (size_t i = 0; i < sizeof(form); i++)
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
            return false;
    return true;
}

static bool verify_row(void *ctx, const struct rfg_row *row, const char *bad)
{
    struct verify *v = ctx;
    char text[RFG_PROBLEM_STRLEN], name[64];
    int p[RFG_MAX_PARAMS];
    struct rfg_device device, *dev = &device;
    struct rfg_stamp_check check;
    struct rfg_reason why = { "" };
    const char *column = NULL;
    v->rows++;
    if (bad) {
        v->problems++;
        rfg_print(stdout, "%s: row not understood: %s\n", v->path, bad);
        return true;
    }
    snprintf(name, sizeof(name), "%s:%d", row->arch, row->cu_count);
    if (!rfg_device_imagine(dev, name))
        dev = NULL;
    bool plausible = rfg_row_check(row, &column, &why), ok = plausible;
    const struct rfg_variant *var = ok ? variant_of(row, p, &why) : NULL;
    ok = ok && var;
    /* A library's row is true of machines that have it; this one needn't. */
    bool absent = ok && var->kind == RFG_VARIANT_VENDOR && (!dev || !*var->vendor_version(dev));
    v->unchecked += absent;
    if (ok && dev && rfg_problem_overlaps(&row->problem))
        ok = rfg_device_can_overlap(dev, &why);
    if (ok && dev && !absent)
        ok = rfg_variant_check(var, dev, &row->problem, p, &why);
    for (int i = 0; ok && i < var->n_params; i++) {
        bool listed = false;
        for (int j = 0; j < var->params[i].n; j++)
            listed |= var->params[i].values[j] == p[i];
        if (!listed)
            ok = rfg_refuse(&why, "%s=%d: not a value that %s has", var->params[i].name, p[i], var->name);
    }
    if (ok && row->how == RFG_SOURCE_MEASURED && row->samples < 1)
        ok = rfg_refuse(&why, "samples %d: a measured row must have some", row->samples);
    if (ok && row->median_us > 1e9)
        ok = rfg_refuse(&why, "median_us %g: must be less than 1000 s", row->median_us);
    if (ok && !date_ok(row->date))
        ok = rfg_refuse(&why, "date '%s': must be as 2026-11-21T03:40:00Z", row->date);
    rfg_problem_format(&row->problem, text, sizeof(text));
    if (!ok) {
        v->problems++;
        rfg_print(stdout, "%s: %s, %s, %d CUs: %s%s%s%s\n", v->path, text, row->arch, row->cu_count,
                  plausible ? "" : "column ", plausible ? "" : column, plausible ? "" : ": ", why.text);
        return true;
    }
    rfg_stamp_look(&check, row, NULL);
    v->changed += check.state == RFG_STAMP_CHANGED;
    v->stale += check.state == RFG_STAMP_STALE;
    if (check.state == RFG_STAMP_STALE)
        rfg_print(stdout, "%s: %s, %s, %d CUs: stale: %s: %s (source_hash '%s')\n", v->path, text, row->arch,
                  row->cu_count, row->variant, check.why, row->source_hash);
    return true;
}

static int cmd_verify(const struct options *o)
{
    struct verify v = { .path = o->argv[0] };
    struct rfg_db *db;
    if (!rfg_access(v.path, R_OK)) {
        fprintf(stderr, "rfg-db: %s: cannot read: %s\n", v.path, strerror(errno));
        return BAD_USAGE;
    }
    if (rfg_pack_is(v.path))
        return rfg_db_verify_pack(v.path, verify_row, &v, &v.problems);
    if (rfg_db_open(&db, v.path, RFG_DB_READ) != RFG_OK) {
        complain(BAD_USAGE);
        return PROBLEMS;
    }
    int schema = rfg_db_schema(db);
    if (rfg_db_integrity(db, finding, &v) < 0 || (!v.problems && rfg_db_each(db, o->arch, verify_row, &v) != RFG_OK)) {
        complain(BAD_USAGE);
        v.problems++;
    }
    rfg_db_close(&db);
    rfg_print(stdout, "%s: schema %d, %zu rows, %d problem%s, %d stale\n", v.path, schema, v.rows, v.problems,
              v.problems == 1 ? "" : "s", v.stale);
    if (v.changed)
        rfg_print(stdout,
                  "%s: %d rows' kernels have another text than was measured: rfg-db restamp %s tells whether their "
                  "code has changed\n",
                  v.path, v.changed, v.path);
    if (v.unchecked)
        rfg_print(stdout,
                  "%s: %d rows name a vendor's library that is not on this machine: only their form was checked\n",
                  v.path, v.unchecked);
    return v.problems ? PROBLEMS : FINE;
}

static int cmd_restamp(const struct options *o)
{
    int problems = 0;
    if (!rfg_db_restamp_files((const char *const *)o->argv, o->argc, o->arch, o->all, &problems))
        return BAD_USAGE;
    return problems ? PROBLEMS : FINE;
}

/* ---- packs ------------------------------------------------------------------------------------------------------- */

static int cmd_pack(const struct options *o)
{
    struct rfg_pack_options p = { o->arch, o->out, o->db, o->shapes, o->n_shapes, o->jobs, o->overlap };
    return rfg_db_pack(&p);
}

static int cmd_unpack(const struct options *o)
{
    return rfg_db_unpack(o->argv[0], o->out);
}

static int cmd_shapes(const struct options *o)
{
    return rfg_db_shapes((const char *const *)o->argv, o->argc, o->tunableop, o->out);
}

static int cmd_inspect(const struct options *o)
{
    return rfg_db_inspect(o->argv[0]);
}

/* ---- misses, path ------------------------------------------------------------------------------------------------ */

static bool print_miss(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count, int rung,
                       uint64_t calls, const char *last)
{
    const struct options *o = ctx;
    char text[RFG_PROBLEM_STRLEN];
    if (!o->arch || !strcmp(o->arch, arch))
        rfg_print(stdout, "%10llu calls  rung %d  %s  %s, %d CUs  %s\n", (unsigned long long)calls, rung,
                  rfg_problem_format(prob, text, sizeof(text)), arch, cu_count, last);
    return true;
}

static int cmd_misses(const struct options *o)
{
    struct rfg_db *db;
    if (rfg_db_open(&db, o->argv[0], RFG_DB_READ) != RFG_OK)
        return complain(BAD_USAGE);
    rfg_status st = rfg_db_each_miss(db, print_miss, (void *)(uintptr_t)o);
    rfg_db_close(&db);
    return st == RFG_OK ? FINE : complain(BAD_USAGE);
}

static int cmd_path(const struct options *o)
{
    (void)o;
    char *user = rfg_db_user_path();
    char *dir = rfg_db_system_dir();
    const char *env = rfg_env("RFG_SYSTEM_DB");
    rfg_print(stdout, "user    %s%s\n", user && *user ? user : "none: neither RFG_DB nor XDG_DATA_HOME nor HOME is set",
              user && *user && !rfg_access(user, F_OK) ? " (not there yet)" : "");
    free(user);
    if (!dir && env)
        rfg_print(stdout, "system  %s (RFG_SYSTEM_DB)%s\n", env, !rfg_access(env, F_OK) ? " (missing)" : "");
    if (dir) {
        struct dirent **names;
        int found = 0, n = scandir(dir, &names, NULL, alphasort);
        for (int k = 0; k < n; k++) {
            size_t len = strlen(names[k]->d_name);
            if (len > 3 && !strcmp(names[k]->d_name + len - 3, ".db") && ++found)
                rfg_print(stdout, "system  %s/%s\n", dir, names[k]->d_name);
            free(names[k]);
        }
        if (n >= 0)
            free(names);
        if (!found)
            rfg_print(stdout, "system  none in %s\n", dir);
    }
    free(dir);
    return FINE;
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

static const char usage[] =
    "usage: rfg-db COMMAND [OPTIONS] ...\n"
    "  list [--arch A] [--json] DB              the tuned rows as a table\n"
    "  show [--arch A] DB \"PROBLEM\"             every column of a problem's rows\n"
    "  export [--arch A] [-o FILE] DB           as CSV, the form kept in tuned_configs/\n"
    "  import [--how keep|imported] --db DB FILE.csv...\n"
    "                                           CSV into a database, all or nothing (default: imported)\n"
    "  import --system --db OUT FILE.csv...     makes a read-only system database\n"
    "  merge --db OUT [--prefer fastest|newest] IN|FILE.csv...\n"
    "                                           IN's rows into OUT; says who wins each conflict: the better evidence\n"
    "                                           (measured, imported, provisional, predicted), then the fastest "
    "(default) "
    "or the\n"
    "                                           newest row of a problem, arch, CU count and device\n"
    "  verify [--arch A] DB                     integrity, schema, and each row against this version's variants\n"
    "  restamp [--arch A] [--all] DB|FILE.csv...\n"
    "                                           compiles kernels whose text has changed with their rows' compilers; "
    "says\n"
    "                                           which rows are stale, and marks those whose code is the same as "
    "current\n"
    "                                           (--all: compiles every row's)\n"
    "  pack --arch A,... --shapes FILE... [--db DB] [--overlap] [--jobs N] -o PACK\n"
    "                                           rows and compiled kernels for these GPUs and problems, in one file\n"
    "  inspect PACK; verify PACK                what is in it; is every byte of it right, and for this build\n"
    "  unpack -o DIR PACK                       its rows as CSV and its code objects as files, in a new directory\n"
    "  shapes [--form csv|tunableop] [-o FILE] FILE|DB...\n"
    "                                           problems of shapes files, logs (RFG_LOG=calls, TunableOp, hipBLASLt) "
    "and rows\n"
    "                                           as a shapes file, or as a list for PyTorch to tune offline\n"
    "  misses [--arch A] DB                     problems that were run without an exact row\n"
    "  path                                     where the default databases are\n"
    "  -h, --help  -V, --version                alone, or after a command\n"
    "Exit status: 0 fine, 1 problems found, 2 bad usage or input.\n";

static const struct {
    const char *name, *options; /* letters of the long options that it takes */
    int min, max;
    int (*run)(const struct options *o);
} commands[] = {
    { "list", "aj", 1, 1, cmd_list },
    { "show", "a", 2, 2, cmd_show },
    { "export", "ao", 1, 1, cmd_export },
    { "import", "dws", 1, INT32_MAX, cmd_import },
    { "merge", "dp", 1, INT32_MAX, cmd_merge },
    { "verify", "a", 1, 1, cmd_verify },
    { "restamp", "aA", 1, INT32_MAX, cmd_restamp },
    { "pack", "aSdJoO", 0, 0, cmd_pack },
    { "unpack", "o", 1, 1, cmd_unpack },
    { "inspect", "", 1, 1, cmd_inspect },
    { "shapes", "fo", 1, INT32_MAX, cmd_shapes },
    { "misses", "a", 1, 1, cmd_misses },
    { "path", "", 0, 0, cmd_path },
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define MOST_SHAPES 64 /* files of one pack */

static int help(void)
{
    fputs(usage, stdout);
    return FINE;
}

static int version(void)
{
    printf("rfg-db %s\n", rfg_version());
    return FINE;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        { "arch", required_argument, NULL, 'a' },
        { "json", no_argument, NULL, 'j' },
        { "output", required_argument, NULL, 'o' },
        { "db", required_argument, NULL, 'd' },
        { "how", required_argument, NULL, 'w' },
        { "system", no_argument, NULL, 's' },
        { "prefer", required_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { "all", no_argument, NULL, 'A' },
        { "shapes", required_argument, NULL, 'S' },
        { "form", required_argument, NULL, 'f' },
        { "overlap", no_argument, NULL, 'O' },
        { "jobs", required_argument, NULL, 'J' },
        { 0 },
    };
    const char *shapes[MOST_SHAPES];
    struct options o = { .shapes = shapes };
    size_t c = 0;
    const char *first = argc > 1 ? argv[1] : "";
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help"))
        return help();
    if (!strcmp(first, "--version") || !strcmp(first, "-V"))
        return version();
    while (argc > 1 && c < N_COMMANDS && strcmp(argv[1], commands[c].name))
        c++;
    if (argc < 2 || c == N_COMMANDS) {
        if (argc > 1)
            fprintf(stderr, "rfg-db: command '%s': there is no such command\n", argv[1]);
        fputs(usage, stderr);
        return BAD_USAGE;
    }
    static char self[] = "rfg-db"; /* getopt's messages begin with it */
    argc--;
    argv++;
    argv[0] = self;
    for (int opt; (opt = getopt_long(argc, argv, "o:hV", longs, NULL)) != -1;) {
        if (opt == 'h')
            return help();
        if (opt == 'V')
            return version();
        if (opt == '?')
            return BAD_USAGE; /* getopt has said why */
        if (!strchr(commands[c].options, opt)) {
            fprintf(stderr, "rfg-db: %s does not take %s: see rfg-db --help\n", commands[c].name, argv[optind - 1]);
            return BAD_USAGE;
        }
        bool ok = true;
        switch (opt) {
        case 'a':
            o.arch = optarg;
            break;
        case 'j':
            o.json = true;
            break;
        case 'o':
            o.out = optarg;
            break;
        case 'd':
            o.db = optarg;
            break;
        case 's':
            o.system = true;
            break;
        case 'A':
            o.all = true;
            break;
        case 'O':
            o.overlap = true;
            break;
        case 'S':
            if (o.n_shapes == MOST_SHAPES) {
                fprintf(stderr, "rfg-db: --shapes: must be there at most %d times\n", MOST_SHAPES);
                return BAD_USAGE;
            }
            shapes[o.n_shapes++] = optarg;
            break;
        case 'J':
            o.jobs = atoi(optarg);
            if (o.jobs < 1 || o.jobs > 1024) {
                fprintf(stderr, "rfg-db: --jobs '%s': must be a number from 1 to 1024\n", optarg);
                return BAD_USAGE;
            }
            break;
        case 'f':
            o.tunableop = !strcmp(optarg, "tunableop");
            ok = o.tunableop || !strcmp(optarg, "csv");
            break;
        case 'w':
            o.keep_how = !strcmp(optarg, "keep");
            ok = o.keep_how || !strcmp(optarg, "imported");
            break;
        case 'p':
            o.newest = !strcmp(optarg, "newest");
            ok = o.newest || !strcmp(optarg, "fastest");
            break;
        }
        if (!ok) {
            fprintf(stderr, "rfg-db: --%s '%s': must be %s\n",
                    opt == 'w'   ? "how"
                    : opt == 'f' ? "form"
                                 : "prefer",
                    optarg,
                    opt == 'w'   ? "keep or imported"
                    : opt == 'f' ? "csv or tunableop"
                                 : "fastest or newest");
            return BAD_USAGE;
        }
    }
    o.argc = argc - optind;
    o.argv = argv + optind;
    if (o.argc < commands[c].min || o.argc > commands[c].max) {
        fprintf(stderr, "rfg-db: %s: %d arguments: must be %d%s: see rfg-db --help\n", commands[c].name, o.argc,
                commands[c].min, commands[c].max > commands[c].min ? " or more" : "");
        return BAD_USAGE;
    }
    return commands[c].run(&o);
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-db", run(argc, argv), BAD_USAGE);
}
