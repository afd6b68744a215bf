/* SPDX-License-Identifier: MIT
 *
 * A device's own numbers in a tuned database. The table is made when something is first written to it: a file without
 * it has none, and versions that don't know it pass it over, so the schema's number stays. */
#include "base/text.h"
#include "db_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

static const char make_table[] =
    "CREATE TABLE IF NOT EXISTS calibration ("
    " arch TEXT NOT NULL, cu_count INTEGER NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL,"
    " mem_gbps REAL NOT NULL, cache_gbps REAL NOT NULL, latency_us REAL NOT NULL, load_us REAL NOT NULL,"
    " sync_us REAL NOT NULL, date TEXT NOT NULL,"
    " PRIMARY KEY (arch, cu_count, device, driver)) WITHOUT ROWID";

/* What no machine has is a failed measurement. */
static bool plausible(const struct rfg_calibration *c, struct rfg_reason *why)
{
    const struct {
        const char *name;
        double v, min, max;
    } bounds[] = {
        { "mem_gbps", c->mem_gbps, 0.1, 1e5 },      { "cache_gbps", c->cache_gbps, 0.1, 1e6 },
        { "latency_us", c->latency_us, 0.01, 1e3 }, { "load_us", c->load_us, 1e-3, 100 },
        { "sync_us", c->sync_us, 1e-3, 1e3 },
    };
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (!isfinite(bounds[i].v) || bounds[i].v < bounds[i].min || bounds[i].v > bounds[i].max)
            return rfg_refuse(why, "%s=%g: must be from %g to %g", bounds[i].name, bounds[i].v, bounds[i].min,
                              bounds[i].max);
    return true;
}

static void bind_key(struct rfg_db *db, sqlite3_stmt *s, const char *arch, int cu_count, const char *device,
                     const char *driver)
{
    rfg_db_bind(db, s, 1, arch);
    sqlite3_bind_int(s, 2, cu_count);
    rfg_db_bind(db, s, 3, device);
    rfg_db_bind(db, s, 4, driver);
}

rfg_status rfg_db_put_calibration(struct rfg_db *db, const char *arch, int cu_count, const struct rfg_calibration *c)
{
    struct rfg_reason why;
    if (!plausible(c, &why))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: calibration refused: %s", db->path, why.text);
    rfg_db_lock(db);
    rfg_status st = rfg_db_begin(db);
    if (st == RFG_OK && sqlite3_exec(db->h, make_table, NULL, NULL, NULL) != SQLITE_OK)
        st = rfg_db_fail(db, "cannot make the calibration table");
    sqlite3_stmt *s =
        st == RFG_OK
            ? rfg_db_prepare(db,
                             "INSERT OR REPLACE INTO calibration (arch, cu_count, device, driver, mem_gbps,"
                             " cache_gbps, latency_us, load_us, sync_us, date) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")
            : NULL;
    if (s) {
        const double v[] = { c->mem_gbps, c->cache_gbps, c->latency_us, c->load_us, c->sync_us };
        bind_key(db, s, arch, cu_count, c->device, c->driver);
        for (int i = 0; i < 5; i++)
            sqlite3_bind_double(s, 5 + i, v[i]);
        rfg_db_bind(db, s, 10, c->date);
        if (rfg_db_step(db, s) != SQLITE_DONE)
            st = rfg_db_fail(db, "cannot write the calibration");
        else if (!sqlite3_changes(db->h))
            st = rfg_fail(RFG_ERROR_DATABASE, "%s: cannot write the calibration: nothing was stored", db->path);
        sqlite3_finalize(s);
    } else if (st == RFG_OK)
        st = RFG_ERROR_DATABASE;
    st = rfg_db_finish(db, st);
    rfg_db_unlock(db);
    return st;
}

int rfg_db_get_calibration(struct rfg_db *db, const char *arch, int cu_count, const char *device, const char *driver,
                           struct rfg_calibration *out)
{
    sqlite3_stmt *s = NULL;
    int found = 0;
    *out = (struct rfg_calibration){ 0 };
    rfg_db_lock(db);
    int there = sqlite3_table_column_metadata(db->h, NULL, "calibration", NULL, NULL, NULL, NULL, NULL, NULL);
    if (there != SQLITE_OK && there != SQLITE_ERROR) { /* SQLITE_ERROR: there is no table, so it is not there */
        rfg_db_fail(db, "cannot read the calibration");
        found = -1;
    }
    if (there == SQLITE_OK) {
        s = rfg_db_prepare(db, "SELECT mem_gbps, cache_gbps, latency_us, load_us, sync_us, date FROM calibration"
                               " WHERE arch=?1 AND cu_count=?2 AND device=?3 AND driver=?4");
        found = s ? 0 : -1;
    }
    if (s) {
        bind_key(db, s, arch, cu_count, device, driver);
        int rc = rfg_db_step(db, s);
        if (rc == SQLITE_ROW) {
            struct rfg_reason why;
            double *v[] = { &out->mem_gbps, &out->cache_gbps, &out->latency_us, &out->load_us, &out->sync_us };
            for (int i = 0; i < 5; i++)
                *v[i] = sqlite3_column_double(s, i);
            const char *date = (const char *)sqlite3_column_text(s, 5);
            snprintf(out->date, sizeof(out->date), "%s", date ? date : "");
            rfg_escape(out->date, sizeof(out->date));
            snprintf(out->device, sizeof(out->device), "%s", device);
            snprintf(out->driver, sizeof(out->driver), "%s", driver);
            found = 1;
            if (!plausible(out, &why)) {
                rfg_fail(RFG_ERROR_DATABASE, "%s: calibration of %s: %s", db->path, device, why.text);
                found = -1;
            }
        } else if (rc != SQLITE_DONE) {
            rfg_db_fail(db, "cannot read the calibration");
            found = -1;
        }
        sqlite3_finalize(s);
    }
    rfg_db_unlock(db);
    return found;
}

void rfg_device_calibrate(struct rfg_device *dev, const struct rfg_calibration *c)
{
    dev->mem_gbps = c->mem_gbps;
    dev->cache_gbps = c->cache_gbps;
    dev->latency_us = c->latency_us;
    dev->load_us = c->load_us;
    dev->sync_us = c->sync_us;
    dev->calibrated = true;
}

bool rfg_device_calibration(const struct rfg_device *dev, const char *product, const char *driver, struct rfg_db *db,
                            struct rfg_calibration *out)
{
    *out = (struct rfg_calibration){ 0 };
    int found = db ? rfg_db_get_calibration(db, dev->arch, dev->cu_count, product, driver, out) : 0;
    if (found < 0)
        rfg_warn("%s", rfg_last_error());
    return found == 1;
}
