/* SPDX-License-Identifier: MIT
 *
 * Exported tuned rows, as rfg-db import reads them. */
#include <string.h>

#include "base/util.h"
#include "rows.h"

const char fuzz_name[] = "rows_csv";
const int fuzz_is_text = 1;
const size_t fuzz_max_size = 8192;

static void export_rows(void (*add)(const void *data, size_t size))
{
    struct rfg_db *db;
    const char *csv = fuzz_file("seed.csv", NULL, 0);
    FUZZ_CHECK(rfg_db_open(&db, fuzz_database(), RFG_DB_READ) == RFG_OK);
    FUZZ_CHECK(rfg_db_export_csv(db, NULL, csv) == RFG_OK);
    rfg_db_close(&db);
    size_t size;
    char *text = rfg_read_file(csv, &size);
    FUZZ_CHECK(text && size > 100);
    add(text, size);
    free(text);
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = export_rows;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("rows.csv", data, size);
    for (int keep_how = 0; keep_how < 2; keep_how++) {
        struct rfg_row *rows = NULL;
        size_t n = 0;
        rfg_status st = rfg_db_read_files(&path, 1, keep_how, &rows, &n);
        FUZZ_CHECK(st == RFG_OK || (!rows && !n && strstr(rfg_last_error(), path)));
        for (size_t i = 0; i < n; i++)
            fuzz_check_row(&rows[i], true);
        free(rows);
    }
    return 0;
}
