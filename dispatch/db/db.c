/* SPDX-License-Identifier: MIT
 *
 * One tuned database file: opening, migrating, setting aside. */
#include "db_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "base/log.h"
#include "base/util.h"

/* By mode, in seconds: how long another process's lock is waited for, and how long SQLite may run for an operation of
 * ours. (None takes that long, but a hostile file's schema or data can make one.) */
static const struct {
    double lock, run;
} limits[] = {
    [RFG_DB_READ] = { 2, 20 }, [RFG_DB_WRITE] = { 15, 60 }, [RFG_DB_NOTE] = { 0, 0.5 }, [RFG_DB_LAST_NOTE] = { 2, 2 }
};

/* But for the device. */
#define COLUMNS_OF_2                                                                                                   \
    "op, dtypes, attrs, M, N, K, arch, cu_count, variant, params, median_us, spread_us, samples, error, error_bound, " \
    "default_us, vendor_us, source_hash, code_hash, compiler, driver, rfg_version, date, seed, how, how_rank"

/* Of schema 3: by way of names that are nobody's, since one row's new name may be another's old one. */
#define RENAME_PROBLEMS(table)                                                                                         \
    "UPDATE " table " SET attrs = '~' || " RFG_DB_ATTRS_OF_3 " WHERE attrs != " RFG_DB_ATTRS_OF_3 ";"                  \
    "UPDATE OR REPLACE " table " SET attrs = substr(attrs, 2) WHERE attrs GLOB '~*';"

/* migrations[i] takes a file from schema i to i + 1. Never edited once released: a change is a new entry. */
static const char *const migrations[] = {
    "CREATE TABLE tuned ("
    " op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL,"
    " M INTEGER NOT NULL, N INTEGER NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL,"
    " variant TEXT NOT NULL, params TEXT NOT NULL,"
    " median_us REAL NOT NULL, spread_us REAL NOT NULL, samples INTEGER NOT NULL,"
    " error REAL NOT NULL, error_bound REAL NOT NULL, default_us REAL NOT NULL, vendor_us REAL NOT NULL,"
    " source_hash TEXT NOT NULL, compiler TEXT NOT NULL, driver TEXT NOT NULL, rfg_version TEXT NOT NULL,"
    " date TEXT NOT NULL, device TEXT NOT NULL, seed INTEGER NOT NULL,"
    " how TEXT NOT NULL, how_rank INTEGER NOT NULL,"
    " PRIMARY KEY (op, dtypes, attrs, M, N, K, arch, cu_count)) WITHOUT ROWID;"
    "CREATE TABLE misses ("
    " op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL,"
    " M INTEGER NOT NULL, N INTEGER NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL,"
    " rung INTEGER NOT NULL, calls INTEGER NOT NULL, last TEXT NOT NULL,"
    " PRIMARY KEY (op, dtypes, attrs, M, N, K, arch, cu_count)) WITHOUT ROWID;"
    "CREATE TABLE failures ("
    " op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL,"
    " M INTEGER NOT NULL, N INTEGER NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL,"
    " config TEXT NOT NULL, source_hash TEXT NOT NULL, what TEXT NOT NULL, detail TEXT NOT NULL, date TEXT NOT NULL,"
    " PRIMARY KEY (op, dtypes, attrs, M, N, K, arch, cu_count, config)) WITHOUT ROWID;",
    "ALTER TABLE tuned ADD COLUMN code_hash TEXT NOT NULL DEFAULT '';",
    "CREATE TABLE tuned_3 ("
    " op TEXT NOT NULL, dtypes TEXT NOT NULL, attrs TEXT NOT NULL,"
    " M INTEGER NOT NULL, N INTEGER NOT NULL, K INTEGER NOT NULL, arch TEXT NOT NULL, cu_count INTEGER NOT NULL,"
    " variant TEXT NOT NULL, params TEXT NOT NULL,"
    " median_us REAL NOT NULL, spread_us REAL NOT NULL, samples INTEGER NOT NULL,"
    " error REAL NOT NULL, error_bound REAL NOT NULL, default_us REAL NOT NULL, vendor_us REAL NOT NULL,"
    " source_hash TEXT NOT NULL, code_hash TEXT NOT NULL, compiler TEXT NOT NULL, driver TEXT NOT NULL,"
    " rfg_version TEXT NOT NULL, date TEXT NOT NULL, device TEXT NOT NULL, mem_gbps REAL NOT NULL,"
    " seed INTEGER NOT NULL, how TEXT NOT NULL, how_rank INTEGER NOT NULL,"
    " PRIMARY KEY (op, dtypes, attrs, M, N, K, arch, cu_count, device)) WITHOUT ROWID;"
    "INSERT INTO tuned_3 (" COLUMNS_OF_2 ", device, mem_gbps) SELECT " COLUMNS_OF_2 ", " RFG_DB_OLD_DEVICE ", 0"
    " FROM tuned;"
    "DROP TABLE tuned;"
    "ALTER TABLE tuned_3 RENAME TO tuned;",
    RENAME_PROBLEMS("tuned") RENAME_PROBLEMS("misses") RENAME_PROBLEMS("failures"),
};
_Static_assert(sizeof(migrations) / sizeof(migrations[0]) == RFG_DB_SCHEMA, "one migration for each schema");

/* ---- talking to SQLite ------------------------------------------------------------------------------------------- */

static bool is_corrupt(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

static bool is_busy(int rc)
{
    return (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED || (rc & 0xff) == SQLITE_PROTOCOL;
}

rfg_status rfg_db_fail(const struct rfg_db *db, const char *what)
{
    int rc = sqlite3_errcode(db->h);
    if (db->unbound)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: %s: no memory", db->path, what);
    if (is_busy(rc) && limits[db->mode].lock == 0)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: %s: locked by another process", db->path, what);
    if (is_busy(rc))
        return rfg_fail(RFG_ERROR_DATABASE, "%s: %s: locked by another process for more than %.0f s", db->path, what,
                        limits[db->mode].lock);
    if ((rc & 0xff) == SQLITE_INTERRUPT)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: %s: took longer than %g s, and was ended", db->path, what,
                        limits[db->mode].run);
    return rfg_fail(RFG_ERROR_DATABASE, "%s: %s: %s", db->path, what, sqlite3_errmsg(db->h));
}

/* One wait for another process's lock; 0: we have waited enough. */
static int wait_for_lock(void *arg, int n)
{
    const struct rfg_db *db = arg;
    if (rfg_now() >= db->give_up_at)
        return 0;
    nanosleep(&(struct timespec){ .tv_nsec = n < 5 ? 1000000 : 5000000 }, NULL);
    return 1;
}

static int took_too_long(void *arg)
{
    const struct rfg_db *db = arg;
    return rfg_now() > db->stop_at;
}

/* Begins an operation. */
static void start_patience(struct rfg_db *db)
{
    db->give_up_at = rfg_now() + limits[db->mode].lock;
    db->spent = 0;
    db->unbound = false;
}

/* Around whatever SQLite runs: the operation's time, without what its caller does between rows. */
static double start_running(struct rfg_db *db)
{
    double now = rfg_now();
    db->stop_at = now + limits[db->mode].run - db->spent;
    return now;
}

static void end_running(struct rfg_db *db, double started)
{
    db->spent += rfg_now() - started;
}

/* The busy handler is not asked where SQLite sees that waiting inside would deadlock (a change of journal mode, the
 * recovery of a log): there the statement is run again. */
static int exec(struct rfg_db *db, const char *sql)
{
    int rc;
    do {
        double started = start_running(db);
        rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);
        end_running(db, started);
    } while (is_busy(rc) && wait_for_lock(db, 5));
    return rc;
}

void rfg_db_bind(struct rfg_db *db, sqlite3_stmt *s, int i, const char *text)
{
    db->unbound |= sqlite3_bind_text(s, i, text, -1, SQLITE_TRANSIENT) != SQLITE_OK;
}

int rfg_db_step(struct rfg_db *db, sqlite3_stmt *s)
{
    if (db->unbound)
        return SQLITE_NOMEM;
    double started = start_running(db);
    int rc = sqlite3_step(s);
    end_running(db, started);
    return rc;
}

rfg_status rfg_db_begin(struct rfg_db *db)
{
    return exec(db, "BEGIN IMMEDIATE") == SQLITE_OK ? RFG_OK : rfg_db_fail(db, "cannot start to write");
}

/* Commits if st is RFG_OK, else rolls back and passes st on. */
rfg_status rfg_db_finish(struct rfg_db *db, rfg_status st)
{
    if (st == RFG_OK && exec(db, "COMMIT") != SQLITE_OK)
        st = rfg_db_fail(db, "cannot commit");
    if (st != RFG_OK && !sqlite3_get_autocommit(db->h))
        sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

sqlite3_stmt *rfg_db_prepare(struct rfg_db *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int rc;
    do {
        double started = start_running(db);
        rc = sqlite3_prepare_v2(db->h, sql, -1, &s, NULL);
        end_running(db, started);
    } while (is_busy(rc) && wait_for_lock(db, 5));
    if (!s)
        rfg_db_fail(db, "cannot read the schema");
    return s;
}

static int get_int(struct rfg_db *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *s = rfg_db_prepare(db, sql);
    int rc = s ? rfg_db_step(db, s) : sqlite3_errcode(db->h);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void rfg_db_lock(struct rfg_db *db)
{
    pthread_mutex_lock(&db->lock);
    start_patience(db);
}

void rfg_db_unlock(struct rfg_db *db)
{
    pthread_mutex_unlock(&db->lock);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* "file:///tmp/a%20b.db?mode=ro": so that no path has a special meaning (":memory:", "file:...", "a?b"). */
static char *file_uri(const char *path, const char *query)
{
    const char *head = path[0] == '/' ? "file://" : "file:./";
    char *uri = malloc(strlen(head) + 3 * strlen(path) + strlen(query) + 1);
    if (!uri)
        return NULL;
    char *at = uri + sprintf(uri, "%s", head);
    for (const char *s = path; *s; s++)
        if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("/._-", *s))
            *at++ = *s;
        else
            at += sprintf(at, "%%%02X", (unsigned char)*s);
    strcpy(at, query);
    return uri;
}

/* Looks at the first bytes, through SQLite's own descriptor: closing one of ours would drop the locks that this process
 * holds on the file. Only a file that has SQLite's header and our application id is ours to set aside. */
static rfg_status read_header(struct rfg_db *db)
{
    static const char magic[16] = "SQLite format 3";
    sqlite3_file *f = NULL;
    sqlite3_int64 size = 0;
    unsigned char h[100] = { 0 };
    db->ours = false;
    if (sqlite3_file_control(db->h, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f || !f->pMethods ||
        f->pMethods->xFileSize(f, &size) != SQLITE_OK)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: cannot read", db->path);
    if (!size)
        return RFG_OK; /* new */
    int rc = f->pMethods->xRead(f, h, sizeof(h), 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: cannot read", db->path);
    if (memcmp(h, magic, sizeof(magic)))
        return rfg_fail(RFG_ERROR_DATABASE, "%s: not an SQLite file: must be a tuned database", db->path);
    uint32_t id = (uint32_t)h[68] << 24 | (uint32_t)h[69] << 16 | (uint32_t)h[70] << 8 | h[71];
    db->ours = id == RFG_DB_APPLICATION_ID;
    return RFG_OK;
}

/* Tables are data; what runs when they are read or written (views, triggers, virtual tables) no tuned database has. */
static rfg_status refuse_programs(struct rfg_db *db)
{
    rfg_status st = RFG_OK;
    sqlite3_stmt *s = rfg_db_prepare(db, "SELECT type, substr(name, 1, 60) FROM sqlite_master WHERE type NOT IN "
                                         "('table', 'index') OR sql LIKE 'create virtual%' LIMIT 1");
    int rc = s ? rfg_db_step(db, s) : SQLITE_ERROR;
    if (rc == SQLITE_ROW) {
        const char *type = (const char *)sqlite3_column_text(s, 0), *name = (const char *)sqlite3_column_text(s, 1);
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: has a %s '%s': must have tables only, as rfg makes them", db->path,
                      type && strcmp(type, "table") ? type : "virtual table", name ? name : "?");
    } else if (rc != SQLITE_DONE)
        st = s ? rfg_db_fail(db, "cannot read the schema") : RFG_ERROR_DATABASE;
    sqlite3_finalize(s);
    return st;
}

static rfg_status migrate(struct rfg_db *db)
{
    int64_t schema = 0;
    rfg_status st = rfg_db_begin(db);
    if (st != RFG_OK)
        return st;
    if (get_int(db, "PRAGMA user_version", &schema) != SQLITE_OK) /* another process may have been faster */
        st = rfg_db_fail(db, "cannot read user_version");
    for (int64_t i = schema; st == RFG_OK && i < RFG_DB_SCHEMA; i++)
        if (exec(db, migrations[i]) != SQLITE_OK)
            st = rfg_db_fail(db, "cannot migrate");
    if (st == RFG_OK && schema < RFG_DB_SCHEMA &&
        exec(db, "PRAGMA user_version=" RFG_DB_STR(RFG_DB_SCHEMA)) != SQLITE_OK)
        st = rfg_db_fail(db, "cannot migrate");
    return rfg_db_finish(db, st);
}

/* Whose file is it, and can this version read it? Changes nothing. *corrupt: it is damaged. */
static rfg_status inspect(struct rfg_db *db, bool *corrupt)
{
    int64_t id = 0, schema = 0, tables = 0;
    /* One snapshot: another process may be making the file. */
    int rc = exec(db, "BEGIN");
    if (rc != SQLITE_OK || (rc = get_int(db, "PRAGMA application_id", &id)) != SQLITE_OK ||
        (rc = get_int(db, "PRAGMA user_version", &schema)) != SQLITE_OK ||
        (rc = get_int(db, "SELECT count(*) FROM sqlite_master", &tables)) != SQLITE_OK ||
        (rc = exec(db, "ROLLBACK")) != SQLITE_OK) {
        *corrupt = is_corrupt(rc);
        return *corrupt ? rfg_fail(RFG_ERROR_DATABASE, "%s: damaged: %s", db->path, sqlite3_errmsg(db->h))
                        : rfg_db_fail(db, "cannot read");
    }
    db->labelled = id == RFG_DB_APPLICATION_ID;
    if (!db->labelled && (id || schema || tables))
        return rfg_fail(RFG_ERROR_DATABASE,
                        "%s: application_id 0x%08" PRIx64 ": must be 0x%08x: the database of another application",
                        db->path, id & 0xffffffff, RFG_DB_APPLICATION_ID);
    if (schema < 0 || schema > RFG_DB_SCHEMA)
        return rfg_fail(RFG_ERROR_DATABASE,
                        "%s: schema %" PRId64 ": must be at most %d, the newest that rfg %s knows: written by a newer "
                        "version",
                        db->path, schema, RFG_DB_SCHEMA, RFG_VERSION);
    db->schema = (int)schema;
    return refuse_programs(db);
}

static int connect(struct rfg_db *db, const char *query)
{
    char *uri = file_uri(db->path, query);
    if (!uri)
        return SQLITE_NOMEM;
    int flags = db->mode == RFG_DB_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(uri, &db->h, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    free(uri);
    if (db->h) {
        sqlite3_extended_result_codes(db->h, 1);
        sqlite3_busy_handler(db->h, wait_for_lock, db);
        sqlite3_progress_handler(db->h, 100, took_too_long, db);
        sqlite3_limit(db->h, SQLITE_LIMIT_LENGTH, 16 << 20);
        start_running(db);
    }
    /* A damaged or hostile file must not make SQLite do more than fail. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db->h, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON", NULL, NULL, NULL);
    return rc == SQLITE_OK ? rfg_db_add_functions(db->h) : rc;
}

static void disconnect(struct rfg_db *db, bool corrupt)
{
    if (corrupt) /* the log stays as it is, for whoever wants to rescue something */
        sqlite3_db_config(db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close_v2(db->h);
    db->h = NULL;
}

static rfg_status open_checked(struct rfg_db *db, const char *query)
{
    bool corrupt;
    rfg_status st = connect(db, query) == SQLITE_OK ? read_header(db) : rfg_db_fail(db, "cannot open");
    return st == RFG_OK ? inspect(db, &corrupt) : st;
}

static rfg_status open_read(struct rfg_db *db)
{
    rfg_status st = open_checked(db, "?mode=ro");
    int rc = sqlite3_errcode(db->h) & 0xff;
    /* A file in WAL mode needs its index beside it, which can't be made in a read-only directory. */
    if (st != RFG_OK && (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY) && rfg_access(db->path, R_OK)) {
        disconnect(db, false);
        st = open_checked(db, "?mode=ro&immutable=1");
    }
    return st;
}

static void keep_first(void *ctx, const char *finding)
{
    char *first = ctx;
    if (!first[0])
        snprintf(first, 200, "%s", finding);
}

static int check(struct rfg_db *db, const char *pragma, void (*say)(void *ctx, const char *finding), void *ctx)
{
    sqlite3_stmt *s = rfg_db_prepare(db, pragma);
    int n = 0, rc = s ? SQLITE_ROW : SQLITE_ERROR;
    while (s && (rc = rfg_db_step(db, s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        const char *nl = text ? strchr(text, '\n') : NULL;
        if (nl && !strncmp(text, "***", 3)) /* a title line above the finding */
            text = nl + 1;
        if (text && strcmp(text, "ok")) {
            n++;
            say(ctx, text);
        }
    }
    if (rc != SQLITE_DONE) {
        n = is_corrupt(sqlite3_errcode(db->h)) ? n + 1 : -1;
        if (n > 0)
            say(ctx, sqlite3_errmsg(db->h));
        else
            rfg_db_fail(db, "cannot check");
    }
    sqlite3_finalize(s);
    return n;
}

static rfg_status open_write(struct rfg_db *db, bool *corrupt)
{
    char first[200] = "";
    *corrupt = false;
    if (connect(db, "?mode=rwc") != SQLITE_OK)
        return rfg_db_fail(db, "cannot open");
    rfg_status st = read_header(db);
    if (st == RFG_OK)
        st = inspect(db, corrupt);
    if (st != RFG_OK)
        return st;
    if (db->mode == RFG_DB_WRITE && check(db, "PRAGMA quick_check(1)", keep_first, first)) {
        *corrupt = first[0] != 0;
        return *corrupt ? rfg_fail(RFG_ERROR_DATABASE, "%s: damaged: %s", db->path, first) : RFG_ERROR_DATABASE;
    }
    /* The label is in the file itself, not only in its log, before anything else is. */
    int rc = db->labelled ? SQLITE_OK : exec(db, "PRAGMA application_id=" RFG_DB_STR(RFG_DB_APPLICATION_ID));
    /* FULL: a row that was reported as written survives a power cut too, not only a kill. */
    if (rc == SQLITE_OK)
        rc = exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    if (rc != SQLITE_OK) {
        *corrupt = is_corrupt(rc);
        return rfg_db_fail(db, "cannot be written");
    }
    if (sqlite3_db_readonly(db->h, "main") == 1)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: cannot be written: the file or its directory is read-only", db->path);
    if (db->schema < RFG_DB_SCHEMA)
        st = migrate(db);
    if (st == RFG_OK)
        db->schema = RFG_DB_SCHEMA;
    return st;
}

bool rfg_rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    return !rfg_access(to, F_OK) && rename(from, to) == 0; /* a file system without it; we hold the directory's lock */
}

/* Moves the damaged file and its log to PATH.corrupt-N. Two processes that both saw the damage must not move twice:
 * under the directory's lock it is looked at again. */
static rfg_status set_aside(struct rfg_db *db)
{
    char *dir = strdup(db->path), *slash = dir ? strrchr(dir, '/') : NULL;
    if (!dir)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", db->path);
    if (slash)
        slash[slash == dir] = 0;
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    bool held = fd < 0, corrupt = false;
    while (!held && !(held = flock(fd, LOCK_EX | LOCK_NB) == 0) && wait_for_lock(db, 5))
        ;
    rfg_status st = held ? open_write(db, &corrupt)
                         : rfg_fail(RFG_ERROR_DATABASE,
                                    "%s: damaged, and cannot be moved: its directory is locked by "
                                    "another process",
                                    db->path);
    disconnect(db, corrupt);
    if (st != RFG_OK && corrupt && db->ours) {
        static const char *const suffix[] = { "-wal", "-shm", "-journal",
                                              "" }; /* the file last: else its log might be replayed into the new one */
        char from[4096], to[4096] = "";
        bool ok = false, taken = true;
        for (int n = 1; n < 10000 && taken; n++) {
            taken = false;
            for (int i = 0; i < 4; i++) {
                snprintf(to, sizeof(to), "%s.corrupt-%d%s", db->path, n, suffix[i]);
                taken |= rfg_access(to, F_OK);
            }
            for (int i = 0; i < 4 && !taken; i++) {
                snprintf(from, sizeof(from), "%s%s", db->path, suffix[i]);
                snprintf(to, sizeof(to), "%s.corrupt-%d%s", db->path, n, suffix[i]);
                ok = rfg_rename_new(from, to) || (errno == ENOENT && i < 3);
                if (!ok)
                    break;
            }
        }
        st = RFG_OK;
        if (ok)
            rfg_warn("%s; moved to %s, starting a new one", rfg_last_error(), to);
        else
            st = rfg_fail(RFG_ERROR_DATABASE, "%s: damaged, and cannot be moved to %s: %s", db->path, to,
                          strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return st;
}

rfg_status rfg_db_open(struct rfg_db **out, const char *path, enum rfg_db_mode mode)
{
    *out = NULL;
    if (!path || !*path)
        return rfg_fail(RFG_ERROR_DATABASE, "database path is empty: must name a file");
    struct rfg_db *db = calloc(1, sizeof(*db));
    if (!db || !(db->path = strdup(path))) {
        free(db);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    rfg_db_watch(db);
    db->mode = mode;
    db->claims = -1;
    start_patience(db);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&db->lock, &attr);
    pthread_mutexattr_destroy(&attr);

    struct stat sb;
    bool there = stat(path, &sb) == 0;
    rfg_status st = RFG_OK;
    if (!there && mode == RFG_DB_READ)
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: cannot open: %s", path, strerror(errno));
    else if (there && !S_ISREG(sb.st_mode))
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: not a file: must be a tuned database", path);
    else if (there && sb.st_size == 1) /* which SQLite would take for an empty one */
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: not an SQLite file: must be a tuned database", path);
    else if (mode == RFG_DB_READ) {
        st = open_read(db);
    } else {
        char *slash = strrchr(db->path, '/');
        if (slash && slash != db->path) {
            *slash = 0;
            bool made = rfg_mkdirs(db->path);
            int e = errno;
            *slash = '/';
            if (!made)
                st = rfg_fail(RFG_ERROR_DATABASE, "%s: cannot make its directory: %s", path, strerror(e));
        }
        for (int i = 0; st == RFG_OK && i < 3; i++) {
            bool corrupt;
            st = open_write(db, &corrupt);
            corrupt = corrupt && db->ours && mode == RFG_DB_WRITE;
            /* Another process that found it damaged may have moved it between our opening it and reading it. */
            bool moved = !corrupt && i < 2 && db->h && (sqlite3_errcode(db->h) & 0xff) == SQLITE_IOERR;
            if (st == RFG_OK || (!corrupt && !moved))
                break;
            disconnect(db, true);
            st = corrupt ? set_aside(db) : RFG_OK;
        }
        if (st == RFG_OK && !db->h)
            st = rfg_fail(RFG_ERROR_DATABASE, "%s: damaged again and again", path);
    }
    if (st == RFG_OK)
        *out = db;
    else
        rfg_db_close(&db);
    return st;
}

void rfg_db_close(struct rfg_db **db)
{
    if (!db || !*db)
        return;
    disconnect(*db, false);
    if ((*db)->claims >= 0)
        close((*db)->claims); /* after SQLite's: closing any descriptor drops its locks on the file */
    pthread_mutex_destroy(&(*db)->lock);
    rfg_db_unwatch(*db);
    free((*db)->path);
    free(*db);
    *db = NULL;
}

const char *rfg_db_path(const struct rfg_db *db)
{
    return db->path;
}

int rfg_db_schema(const struct rfg_db *db)
{
    return db->schema;
}

int rfg_db_integrity(struct rfg_db *db, void (*say)(void *ctx, const char *finding), void *ctx)
{
    rfg_db_lock(db);
    int n = check(db, "PRAGMA integrity_check", say, ctx);
    rfg_db_unlock(db);
    return n;
}

bool rfg_db_claim(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *device,
                  bool claim)
{
    struct rfg_problem key = rfg_problem_key(prob);
    uint64_t hash = rfg_problem_hash(&key) + 31 * (uint64_t)cu_count;
    for (const char *s = arch; *s; s++)
        hash = hash * 1099511628211u + (unsigned char)*s;
    for (const char *s = device; *s; s++)
        hash = hash * 1099511628211u + (unsigned char)*s;
    /* A byte far behind the file's end and SQLite's own locks, which are a process's; these are the descriptor's. */
    struct flock lock = { .l_type = claim ? F_WRLCK : F_UNLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(1ull << 62 | hash >> 3),
                          .l_len = 1 };
    if (db->claims < 0 && (db->claims = open(db->path, O_RDWR | O_CLOEXEC)) < 0)
        return true;
    return fcntl(db->claims, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}

rfg_status rfg_db_seal(struct rfg_db *db)
{
    rfg_db_lock(db);
    rfg_status st = exec(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE; VACUUM") == SQLITE_OK
                        ? RFG_OK
                        : rfg_db_fail(db, "cannot leave the write-ahead log");
    rfg_db_unlock(db);
    return st;
}
