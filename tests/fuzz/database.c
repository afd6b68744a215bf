/* SPDX-License-Identifier: MIT
 *
 * Tuned databases: SQLite's files with bytes changed. Read as a context and as rfg-db read them, never written. */
#include <string.h>

#include "base/util.h"
#include "rows.h"

const char fuzz_name[] = "database";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 1 << 17;

static void seed_database(void (*add)(const void *data, size_t size))
{
    size_t size;
    char *bytes = rfg_read_file(fuzz_database(), &size);
    FUZZ_CHECK(bytes && size > 1000);
    add(bytes, size);
    free(bytes);
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = seed_database;

static void bad_row(void *ctx, const struct rfg_row *row, const char *why)
{
    (void)ctx, (void)row;
    FUZZ_CHECK(*why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("fuzzed.db", data, size);
    struct rfg_db *db;
    struct rfg_row *rows = NULL, row;
    size_t n = 0;
    if (rfg_db_open(&db, path, RFG_DB_READ) != RFG_OK) {
        FUZZ_CHECK(strstr(rfg_last_error(), path));
        return 0;
    }
    if (rfg_db_all(db, NULL, &rows, &n, bad_row, NULL) == RFG_OK)
        for (size_t i = 0; i < n; i++)
            fuzz_check_row(&rows[i], false);
    struct rfg_problem p;
    FUZZ_CHECK(rfg_problem_parse(&p, "gemm bf16,bf16->bf16 M=8 N=2112 K=7168", NULL));
    (void)rfg_db_get(db, &p, "sm_90", 132, NULL, &row);
    char what[100];
    (void)rfg_db_failed(db, &p, "sm_90", 132, "gemm_portable{tile_m=16}", "abc", what, sizeof(what));
    rfg_db_close(&db);
    free(rows);
    db = rfg_db_open_to_read(path, false);
    struct rfg_snapshot *snap = rfg_snapshot_load(db, "", "sm_90", "");
    rfg_db_close(&db);
    FUZZ_CHECK(snap);
    const struct rfg_row *found = rfg_snapshot_exact(snap, &p, 132);
    if (found)
        fuzz_check_row(found, false);
    rfg_snapshot_free(&snap);
    return 0;
}
