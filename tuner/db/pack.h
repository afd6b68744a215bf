/* SPDX-License-Identifier: MIT */
#ifndef RFG_TUNER_DB_PACK_H
#define RFG_TUNER_DB_PACK_H

#include <stdbool.h>

#include "dispatch/db/db.h"

/* rfg-db's commands on packs. Each prints what it found and returns the program's exit code: 0 fine, 1 problems, 2 bad
 * usage or input. */

struct rfg_pack_options {
    const char *archs, *out, *db; /* archs: "gfx942,gfx90a:104"; db NULL: the default one */
    const char *const *shapes;
    int n_shapes, jobs;
    bool overlap; /* also as contexts with launch_overlap ask for them, where that can be */
};
/* Chooses for each problem and arch, compiles, writes the pack. If something is missing, it prints what, and writes
 * nothing. */
int rfg_db_pack(const struct rfg_pack_options *o);
/* Rows and code objects as files in a directory that is made; NULL is refused. */
int rfg_db_unpack(const char *path, const char *dir);
int rfg_db_inspect(const char *path);
/* Every byte, and whether this build can use it; check_row (of rfg-db verify) is called for each row. */
int rfg_db_verify_pack(const char *path, bool (*check_row)(void *ctx, const struct rfg_row *row, const char *bad),
                       void *ctx, const int *row_problems);

#endif
