/* SPDX-License-Identifier: MIT
 *
 * rfg-db: lists tuned databases, converts them to text and back, merges and verifies them. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "exit.h"
#include "list.h"
#include "merge.h"
#include "pack.h"
#include "restamp.h"
#include "shapes.h"
#include "verify.h"
#include "tuner/harness/options.h"
#include "tuner/harness/output.h"

/* The values of --form, --how and --prefer. */
enum { CSV, TUNABLEOP };
enum { KEEP, IMPORTED };
enum { FASTEST, NEWEST };
static const char *const forms[] = { "csv", "tunableop", NULL };
static const char *const hows[] = { "keep", "imported", NULL };
static const char *const preferences[] = { "fastest", "newest", NULL };

struct options {
    const char *arch, *out, *db;
    const char **shapes;
    int n_shapes, form, how, prefer, jobs;
    bool json, system, all, overlap;
    int argc;
    char **argv;
};

static int cmd_list(const struct options *o)
{
    return rfg_db_list(o->argv[0], o->arch, o->json);
}

static int cmd_show(const struct options *o)
{
    return rfg_db_show(o->argv[0], o->arch, o->argv[1]);
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
    if (rfg_db_read_files((const char *const *)o->argv, o->argc, o->system || o->how == KEEP, &rows, &n) != RFG_OK)
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
        return rfg_db_merge((const char *const *)o->argv, o->argc, o->db, o->prefer == NEWEST);
    fprintf(stderr, "rfg-db: merge: --db is missing: must name the database to write\n");
    return BAD_USAGE;
}

static int cmd_restamp(const struct options *o)
{
    int problems = 0;
    if (!rfg_db_restamp_files((const char *const *)o->argv, o->argc, o->arch, o->all, &problems))
        return BAD_USAGE;
    return problems ? PROBLEMS : FINE;
}

static int cmd_verify(const struct options *o)
{
    return rfg_db_verify(o->argv[0], o->arch);
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
    return rfg_db_shapes((const char *const *)o->argv, o->argc, o->form == TUNABLEOP, o->out);
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

/* ---- the command line -------------------------------------------------------------------------------------------- */

enum { MOST_SHAPES = 64 /* of one pack */ };

static bool add_shapes(void *options, const char *value)
{
    struct options *o = options;
    if (o->n_shapes == MOST_SHAPES) {
        fprintf(stderr, "rfg-db: --shapes: must be there at most %d times\n", MOST_SHAPES);
        return false;
    }
    o->shapes[o->n_shapes++] = value;
    return true;
}

#define RFG_OPTIONS struct options
static const struct rfg_option options[] = {
    { "arch", "A", RFG_TEXT(arch) },
    { "json", RFG_FLAG(json) },
    { "output", "FILE", .letter = 'o', RFG_TEXT(out) },
    { "db", "DB", RFG_TEXT(db) },
    { "how", "HOW", RFG_CHOICE(how, hows) },
    { "system", RFG_FLAG(system) },
    { "prefer", "WHICH", RFG_CHOICE(prefer, preferences) },
    { "all", RFG_FLAG(all) },
    { "shapes", "FILE", RFG_CALL(add_shapes) },
    { "form", "FORM", RFG_CHOICE(form, forms) },
    { "overlap", RFG_FLAG(overlap) },
    { "jobs", "N", RFG_WHOLE(jobs, 1, 1024) },
    { 0 },
};

static const struct command {
    const char *name, *options; /* those that it takes */
    int min, max;
    int (*run)(const struct options *o); /* NULL: only --help's, another form of the command */
    const char *arguments, *help;
} commands[] = {
    { "list", "arch json", 1, 1, cmd_list, "[--arch A] [--json] DB", "the tuned rows as a table" },
    { "show", "arch", 2, 2, cmd_show, "[--arch A] DB \"PROBLEM\"", "every column of a problem's rows" },
    { "export", "arch output", 1, 1, cmd_export, "[--arch A] [-o FILE] DB", "as CSV, the form kept in tuned_configs/" },
    { "import", "db how system", 1, INT32_MAX, cmd_import, "[--how keep|imported] --db DB FILE.csv...",
      "CSV into a database, all or nothing (default: imported)" },
    { "import", "", 0, 0, NULL, "--system --db OUT FILE.csv...", "makes a read-only system database" },
    { "merge", "db prefer", 1, INT32_MAX, cmd_merge, "--db OUT [--prefer fastest|newest] IN|FILE.csv...",
      "IN's rows into OUT; prints the winner of each conflict: the better evidence\n(measured, imported, provisional, "
      "predicted), then the fastest (default) or the\nnewest row of a problem, arch, CU count and device" },
    { "verify", "arch", 1, 1, cmd_verify, "[--arch A] DB",
      "integrity, schema, and each row against this version's variants" },
    { "restamp", "arch all", 1, INT32_MAX, cmd_restamp, "[--arch A] [--all] DB|FILE.csv...",
      "compiles kernels whose text has changed with their rows' compilers; prints\nthe stale rows, and marks those "
      "whose code is the same as current\n(--all: compiles every row's)" },
    { "pack", "arch shapes db jobs output overlap", 0, 0, cmd_pack,
      "--arch A,... --shapes FILE... [--db DB] [--overlap] [--jobs N] -o PACK",
      "rows and compiled kernels for these GPUs and problems, in one file" },
    { "inspect", "", 1, 1, cmd_inspect, "PACK; verify PACK",
      "its contents; whether every byte is right, and made for this build" },
    { "unpack", "output", 1, 1, cmd_unpack, "-o DIR PACK",
      "its rows as CSV and its code objects as files, in a new directory" },
    { "shapes", "form output", 1, INT32_MAX, cmd_shapes, "[--form csv|tunableop] [-o FILE] FILE|DB...",
      "problems of shapes files, logs (RFG_LOG=calls, TunableOp, hipBLASLt) and rows\nas a shapes file, or as a list "
      "for PyTorch to tune offline" },
    { "misses", "arch", 1, 1, cmd_misses, "[--arch A] DB", "problems that were run without an exact row" },
    { "path", "", 0, 0, cmd_path, "", "where the default databases are" },
};
#define HELP_COLUMN 43
#define N_COMMANDS  (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *f)
{
    fputs("usage: rfg-db COMMAND [OPTIONS] ...\n", f);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char label[128];
        snprintf(label, sizeof(label), "%s%s%s", commands[i].name, *commands[i].arguments ? " " : "",
                 commands[i].arguments);
        rfg_help_line(f, HELP_COLUMN, label, commands[i].help);
    }
    rfg_help_line(f, HELP_COLUMN, "-h, --help  -V, --version", "alone, or after a command");
    fputs("Exit status: 0 fine, 1 problems found, 2 bad usage or input.\n", f);
}

/* NULL with a message. */
static const struct command *find_command(const char *name)
{
    for (size_t c = 0; c < N_COMMANDS; c++)
        if (!strcmp(commands[c].name, name))
            return &commands[c];
    if (*name)
        fprintf(stderr, "rfg-db: command '%s': there is no such command\n", name);
    print_help(stderr);
    return NULL;
}

static int run(int argc, char **argv)
{
    static char self[] = "rfg-db"; /* getopt's messages begin with it */
    const char *shapes[MOST_SHAPES], *name = argc > 1 ? argv[1] : "";
    struct options o = { .shapes = shapes, .how = IMPORTED };
    int first = 0;
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return FINE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("rfg-db %s\n", rfg_version());
        return FINE;
    }
    const struct command *c = find_command(name);
    if (!c)
        return BAD_USAGE;
    argv[1] = self;
    const struct rfg_command_line line = {
        .program = self, .options = options, .help = print_help, .command = c->name, .takes = c->options
    };
    int code = rfg_options_parse(&line, argc - 1, argv + 1, &o, &first);
    if (code >= 0)
        return code;
    o.argc = argc - 1 - first;
    o.argv = argv + 1 + first;
    if (o.argc < c->min || o.argc > c->max) {
        fprintf(stderr, "rfg-db: %s: %d arguments: must be %d%s: see rfg-db --help\n", c->name, o.argc, c->min,
                c->max > c->min ? " or more" : "");
        return BAD_USAGE;
    }
    return c->run(&o);
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    return rfg_program_end("rfg-db", run(argc, argv), BAD_USAGE);
}
