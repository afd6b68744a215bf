/* SPDX-License-Identifier: MIT
 *
 * Where the databases are: the user's, which is made of an older version's, and the installed ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "config.h"
#include "db_internal.h"

#define V_SUFFIX "-v" RFG_DB_STR(RFG_DB_SCHEMA) ".db"

/* Copies the database of an older version, whole and under a new name: that version goes on with its own. False:
 * there is nothing at path, and last_error says why. */
static bool adopt(const char *older, const char *path)
{
    struct rfg_db *db;
    struct rfg_tempdir dir = { NULL, -1 };
    if (rfg_db_open(&db, older, RFG_DB_READ) != RFG_OK)
        return false;
    char *prefix = rfg_asprintf("%s.tmp-", path);
    char *tmp = prefix && rfg_tempdir_make(&dir, prefix) ? rfg_asprintf("%s/db", dir.path) : NULL;
    sqlite3_stmt *s = tmp ? rfg_db_prepare(db, "VACUUM INTO ?1") : NULL;
    bool copied =
        s && sqlite3_bind_text(s, 1, tmp, -1, SQLITE_STATIC) == SQLITE_OK && rfg_db_step(db, s) == SQLITE_DONE;
    if (s && !copied)
        rfg_db_fail(db, "cannot be copied");
    else if (!tmp)
        rfg_fail(RFG_ERROR_IO, "%s: cannot make a temporary directory beside it: %s", path, strerror(errno));
    sqlite3_finalize(s);
    rfg_db_close(&db);
    int fd = copied ? open(tmp, O_RDONLY | O_CLOEXEC) : -1;
    bool ok =
        fd >= 0 && fsync(fd) == 0 && (rfg_rename_new(tmp, path) || errno == EEXIST); /* another process was faster */
    if (copied && !ok)
        rfg_fail(RFG_ERROR_IO, "%s: cannot be made: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    rfg_tempdir_remove(&dir);
    free(prefix);
    free(tmp);
    return ok;
}

char *rfg_db_user_path(void)
{
    const char *env = rfg_env("RFG_DB");
    if (env)
        return strdup(env);
    errno = 0;
    char *dir = rfg_xdg_dir("XDG_DATA_HOME", ".local/share");
    if (!dir && errno == ENOMEM)
        return NULL;
    char *path = dir ? rfg_asprintf("%s/user" V_SUFFIX, dir) : calloc(1, 1);
    bool missing = path && *path && !rfg_access(path, F_OK) && errno == ENOENT;
    for (int v = RFG_DB_SCHEMA - 1; missing && v > 0; v--) {
        char *older = rfg_asprintf("%s/user-v%d.db", dir, v);
        if (older && !rfg_access(older, F_OK)) {
            free(older);
            continue;
        }
        missing = false;
        if (!older) {
            free(path);
            path = NULL;
            break;
        }
        if (adopt(older, path)) {
            free(older);
        } else {
            rfg_warn("%s; going on with %s", rfg_last_error(), older);
            free(path);
            path = older;
        }
    }
    free(dir);
    return path;
}

char *rfg_db_system_dir(void)
{
    const char *env = rfg_env("RFG_SYSTEM_DB");
    struct stat st;
    if (!env)
        return rfg_prefix_path(RFG_DATADIR);
    return stat(env, &st) == 0 && S_ISDIR(st.st_mode) ? strdup(env) : NULL;
}

/* The file of that arch in dir whose CU count is nearest (then smaller); -1 if there is none. */
static int nearest_cus(const char *dir, const char *arch, int cu_count)
{
    int best = -1;
    size_t len = strlen(arch);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *end;
        if (strncmp(e->d_name, arch, len) || e->d_name[len] != '_' || e->d_name[len + 1] < '0' ||
            e->d_name[len + 1] > '9')
            continue;
        long cus = strtol(e->d_name + len + 1, &end, 10);
        if (strcmp(end, V_SUFFIX) || cus > INT32_MAX)
            continue;
        long far = labs(cus - cu_count), best_far = labs((long)best - cu_count);
        if (best < 0 || far < best_far || (far == best_far && cus < best))
            best = (int)cus;
    }
    if (d)
        closedir(d);
    return best;
}

char *rfg_db_system_path(const char *arch, int cu_count)
{
    const char *env = rfg_env("RFG_SYSTEM_DB");
    char *dir = rfg_db_system_dir();
    if (!dir)
        return strdup(env ? env : "");
    for (int any = 0; any < 2; any++) {
        int cus = any ? nearest_cus(dir, arch, cu_count) : cu_count;
        char *path = cus < 0 ? NULL : rfg_asprintf("%s/%s_%d" V_SUFFIX, dir, arch, cus);
        if (path && rfg_access(path, F_OK)) {
            free(dir);
            return path;
        }
        free(path);
    }
    free(dir);
    return calloc(1, 1);
}
