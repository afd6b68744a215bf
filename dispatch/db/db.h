/* SPDX-License-Identifier: MIT
 *
 * The tuned database: SQLite, one read-only system file and one writable user file, which wins. */
#ifndef RFG_DISPATCH_DB_H
#define RFG_DISPATCH_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/op.h"

#define RFG_DB_APPLICATION_ID 0x52464731 /* "RFG1" */
#define RFG_DB_SCHEMA         4          /* PRAGMA user_version; part of the default file name */

/* How a row was obtained; a better one always beats a worse one in lookups. */
enum rfg_source {
    RFG_SOURCE_PREDICTED,
    RFG_SOURCE_PROVISIONAL, /* measured, but not to be relied on: one candidate of several, or a spread above the
                               median; tuned again. Versions that don't know it pass such rows over with a warning. */
    RFG_SOURCE_IMPORTED,
    RFG_SOURCE_MEASURED,
};
const char *rfg_source_name(enum rfg_source s);

/* A tuned row: the winner for (problem, arch, CU count, device) and where it comes from. */
struct rfg_row {
    struct rfg_problem problem; /* without LAYOUT keys */
    char arch[32];
    int cu_count; /* as struct rfg_device's: of RDNA, CUs and not WGPs */
    char variant[48];
    char params[256];            /* JSON object of named parameters, keys in the variant's order: {"waves":4} */
    double median_us, spread_us; /* spread: p95 - p5 of the samples; predicted: the clock's error */
    int samples;
    double error, error_bound; /* largest error against the oracle and what was allowed, in units of the bound's rule */
    double default_us, vendor_us; /* in the same run; 0: none */
    char source_hash[65];         /* of the kernel source, or the library version for a vendor's */
    char code_hash[65]; /* hex SHA-256 of the code object that was measured; "" where unknown or there is none */
    char compiler[96], driver[64], version[24], date[24]; /* date: "2026-11-21T03:40:00Z"; driver of predicted ones:
                                                            "clock 1", which predicted it */
    char device[64]; /* the product's name, as its runtime tells it: "NVIDIA H200"; "": not known (predicted for an
                        imagined device, or a row of schema 2) */
    double mem_gbps; /* of its memory, as `rfg-tune --calibrate` measured it there; 0: it wasn't */
    uint64_t seed;
    enum rfg_source how;
};

/* ---- one file ------------------------------------------------------------------------------------------------ */

struct rfg_db;

enum rfg_db_mode {
    RFG_DB_READ,  /* must exist */
    RFG_DB_WRITE, /* made if missing, with its directories */
    RFG_DB_NOTE,  /* the same for an engine's notes, made in the midst of its work: waits for nobody's lock (an error),
                     looks for no damage */
    RFG_DB_LAST_NOTE, /* the same at its end: waits, but for 2 s only */
};

/* Errors are RFG_ERROR_DATABASE with a message naming the path: not a database, another application's, a newer
 * schema (which says both numbers), one with views or triggers, locked (2 s, for RFG_DB_WRITE 15 s), unwritable.
 * RFG_DB_WRITE moves a corrupt file aside to PATH.corrupt-N, warns, and makes a new one, but only a file that has
 * SQLite's header and our application id; it never overwrites or deletes. Older schemas are migrated in one
 * transaction; RFG_DB_READ reads them as they are. */
rfg_status rfg_db_open(struct rfg_db **db, const char *path, enum rfg_db_mode mode);
/* For one who goes on without: NULL, and a warning where the file can't be read. None: no path, and no file if it may
 * be missing (a user's before the first tuning). All reads at a context's creation are of one, so a lock is waited for
 * once. */
struct rfg_db *rfg_db_open_to_read(const char *path, bool may_be_missing);
void rfg_db_close(struct rfg_db **db);
/* Around fork(): waits until no other thread has a database open, and keeps it so. */
void rfg_db_before_fork(void);
void rfg_db_after_fork(bool child);
const char *rfg_db_path(const struct rfg_db *db);

/* Default paths: $RFG_DB or $XDG_DATA_HOME/rfg/user-v4.db; $RFG_SYSTEM_DB (a file, or a directory of
 * ARCH_CUS-v4.db) or the installed system database for (arch, cu_count), "" if there is none. malloc'ed.
 * The number is the schema's, so that versions side by side don't share a file. The user database that an older version
 * left (user-v3.db) is copied to the new name first, and stays; where that can't be done, its own path is returned. */
char *rfg_db_user_path(void);
char *rfg_db_system_path(const char *arch, int cu_count);

/* Inserts or replaces the row of its (problem, arch, cu_count, device), but for one with a better `how`, which stays.
 * One transaction; durable on return. INVALID_ARGUMENT if a figure is not plausible (not finite, negative, an error
 * over its bound) or a text is not one line. */
rfg_status rfg_db_put(struct rfg_db *db, const struct rfg_row *row);
/* The row of that device, else one whose device isn't known; device NULL: of all, the one with the best `how`. 1 found,
 * 0 not there, -1 error. */
int rfg_db_get(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *device,
               struct rfg_row *row);
/* Removes the predicted row of a problem whose device isn't known, if there is one: the model's choice stands. */
rfg_status rfg_db_drop_predicted(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count);
/* Every row in a stable order (op, dtypes, attrs, N, K, M, arch, cu_count, device). Rows that can't be understood
 * (unknown op, bad dtypes) are passed with row->problem.op == NULL and the reason; fn false stops. arch NULL: all. */
rfg_status rfg_db_each(struct rfg_db *db, const char *arch,
                       bool (*fn)(void *ctx, const struct rfg_row *row, const char *bad), void *ctx);

/* Parameters of a row as values in the variant's order. Refuses unknown, missing and ill-typed ones. A row of an
 * overlap=1 problem (and no other) has one more, which no variant has: {"waves":4,"overlap":0} was fastest when it was
 * launched plainly. */
bool rfg_row_params(const struct rfg_row *row, const struct rfg_variant *var, int *p, struct rfg_reason *why);
/* What it says there; false in the rows of other problems. */
bool rfg_row_overlap(const struct rfg_row *row);
/* Fills variant and params; overlap is left out unless the row's problem has it. */
void rfg_row_set_config(struct rfg_row *row, const struct rfg_variant *var, const int *p, bool overlap);
/* Rows of recorded problems (and no others) have another parameter more, the recording's name of 16 hexadecimal digits:
 * {"waves":4,"loads":"8f3a..."}. Adds it to params, as rfg_row_set_config() made them. */
void rfg_row_set_loads(struct rfg_row *row, const char *name);
/* What it says there; "" in rows of other problems. Returns buf. */
char *rfg_row_loads(const struct rfg_row *row, char *buf, size_t size);
/* {"waves":4,"rows":2} */
char *rfg_params_json(const struct rfg_variant *var, const int *p, char *buf, size_t size);
/* For people: "gemm_skinny{waves=4}", "gemm_skinny{waves=4} launched plainly", "... for loads 8f3a..."; as it is stored
 * if this version does not know it. */
char *rfg_row_config(const struct rfg_row *row, char *buf, size_t size);

/* What a row should say of its code: restamping changes these columns and no other. */
struct rfg_stamp {
    const struct rfg_row *row; /* as it was read */
    char source_hash[65], code_hash[65], compiler[96];
};
/* One transaction. A row that was written anew since it was read stays as it is. written: how many were stored. */
rfg_status rfg_db_restamp(struct rfg_db *db, const struct rfg_stamp *stamps, size_t n, size_t *written);

/* Misses: problems that were run without an exact row. */
rfg_status rfg_db_add_misses(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count,
                             int rung, uint64_t calls);
rfg_status rfg_db_each_miss(struct rfg_db *db,
                            bool (*fn)(void *ctx, const struct rfg_problem *prob, const char *arch, int cu_count,
                                       int rung, uint64_t calls, const char *last),
                            void *ctx);
rfg_status rfg_db_clear_miss(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count);

/* Candidates that hung, faulted, computed wrong results or didn't compile, so that no later sweep tries them again
 * (until the source hash changes). */
rfg_status rfg_db_put_failure(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count,
                              const char *config, const char *source_hash, const char *what, const char *detail);
/* 1 yes (what is filled), 0 no, -1 error. */
int rfg_db_failed(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *config,
                  const char *source_hash, char *what, size_t size);

/* Two tuners on one file share its problems: claims one, or releases it. False: another holds it. A claim ends with
 * its process; where files can't be locked, everybody has all. For programs with one connection to the file. */
bool rfg_db_claim(struct rfg_db *db, const struct rfg_problem *prob, const char *arch, int cu_count, const char *device,
                  bool claim);

/* A device's own numbers as `rfg-tune --calibrate` measured them; the analytical models' rather than what the table in
 * device.c says. They hold for that product and driver. */
struct rfg_calibration {
    double mem_gbps, cache_gbps, latency_us, load_us, sync_us; /* as in struct rfg_device */
    char device[64], driver[64], date[24];                     /* device: the product's name, "NVIDIA H200" */
};
/* Replaces what was there. INVALID_ARGUMENT if a number is not plausible. */
rfg_status rfg_db_put_calibration(struct rfg_db *db, const char *arch, int cu_count, const struct rfg_calibration *c);
/* 1 found, 0 not there, -1 error. */
int rfg_db_get_calibration(struct rfg_db *db, const char *arch, int cu_count, const char *device, const char *driver,
                           struct rfg_calibration *out);
/* The same for contexts and rfg-info: no database (NULL) is no calibration, errors are warnings. */
bool rfg_device_calibration(const struct rfg_device *dev, const char *product, const char *driver, struct rfg_db *db,
                            struct rfg_calibration *out);
void rfg_device_calibrate(struct rfg_device *dev, const struct rfg_calibration *c);

/* The text form kept in tuned_configs/: CSV with a header, one line a row, every column of struct rfg_row. */
rfg_status rfg_db_export_csv(struct rfg_db *db, const char *arch, const char *path /* NULL: stdout */);
/* keep_how: rows keep the `how` they say; else measured ones become IMPORTED. All or nothing: one bad line (said with
 * file, line, column, value and rule) imports nothing. *rows: how many were stored. Files of older schemas are fine:
 * without the column code_hash, or without mem_gbps and with "nvidia:0" for a device, which names no product. */
rfg_status rfg_db_import_csv(struct rfg_db *db, const char *path, bool keep_how, int *rows);

/* ---- what a context looks up --------------------------------------------------------------------------------- */

/* An immutable snapshot of both files for one arch; lookups are lock-free. Of the rows of one problem and CU count it
 * holds one: this device's, else one whose device isn't known, else that of a sibling (another product with as many
 * CUs); rows that are only predicted or provisional come after all of these. */
struct rfg_snapshot;

/* user: of rfg_db_open_to_read(), or NULL. Never fails but for memory: a file that can't be read is a warning. device:
 * the product's name; "": not known, and no row is nearer than another. */
struct rfg_snapshot *rfg_snapshot_load(struct rfg_db *user, const char *system_path, const char *arch,
                                       const char *device);
/* Of these rows, those of the arch. NULL: no memory. */
struct rfg_snapshot *rfg_snapshot_of(const struct rfg_row *rows, size_t n, const char *arch, const char *device);
/* Is the row another product's? */
bool rfg_row_of_sibling(const struct rfg_row *row, const char *device);
void rfg_snapshot_free(struct rfg_snapshot **snap);
size_t rfg_snapshot_rows(const struct rfg_snapshot *snap);
/* The i-th name among the devices of all rows that were read for the CU count; NULL: there are no more. */
const char *rfg_snapshot_device(const struct rfg_snapshot *snap, int cu_count, int i);

/* Rung 1. prob must be without LAYOUT keys. */
const struct rfg_row *rfg_snapshot_exact(const struct rfg_snapshot *snap, const struct rfg_problem *prob, int cu_count);
/* Rung 2: candidates with all keys but M equal, same cu_count, nearest M first (distance: |log2(M/M')|, then the
 * smaller M). i = 0, 1, ...; NULL at the end. */
const struct rfg_row *rfg_snapshot_nearest(const struct rfg_snapshot *snap, const struct rfg_problem *prob,
                                           int cu_count, int i);
/* Rung 3: exact problem or nearest M, other CU counts, nearest CU count first. */
const struct rfg_row *rfg_snapshot_other_cus(const struct rfg_snapshot *snap, const struct rfg_problem *prob,
                                             int cu_count, int i);

/* ---- shapes files --------------------------------------------------------------------------------------------- */

struct rfg_shape {
    struct rfg_problem problem;
    double weight;
    int line;
    double us;      /* what AITER measured; 0: nothing */
    char us_on[20]; /* on which GPU: gfx942:304, or what of it the file says */
};

struct rfg_shapes {
    struct rfg_shape *v;
    size_t n;
    size_t n_bad; /* lines refused */
};

/* Reads op,dtype,M,N,K[,attrs][,weight] with libcsv (columns by header name, any order). dtype: "bf16" means
 * in,in->in; "bf16,bf16->f32" (quoted) as in a problem string; attrs: "bias=1 ..."; us,us_on: another library's
 * microseconds, for comparison, and on what. Without an op column AITER's tuned_*.csv and untuned_*.csv
 * (shapes_aiter.c): M,N,K of a gemm, of the formats that columns, kernelName or the file's name say; B of such: a
 * grouped one; token,model_dim,...: the problems of a mixture of experts. A column that isn't known is an error. One
 * number of a line may be a range, 1..256 in column M: a problem for each (at most RFG_PREPARE_MAX). AITER's rows of
 * GPUs that don't exist (gfx942 with 256 CUs) are reported in a note. Also understood, by what is in them: lines of
 * RFG_LOG=calls, TunableOp's files, hipBLASLt's log (shapes_logs.c); there strides are kept, other lines passed over,
 * and weight counts how often a problem came.
 * Duplicate problems are kept once (said as a note). bad is called with "file:line: column: value: rule" for each
 * refused line; if there are many, for the first 10, and once more with their number. After 65536 problems or 1000000
 * lines the rest is left out, which counts as a refused line. RFG_ERROR_IO if the file can't be read, INVALID_ARGUMENT
 * if the header is unusable; bad lines alone are RFG_OK with n_bad > 0. */
rfg_status rfg_shapes_read(const char *path, struct rfg_shapes *out, void (*bad)(void *ctx, const char *message),
                           void *ctx);
void rfg_shapes_free(struct rfg_shapes *s);

#endif
