/* SPDX-License-Identifier: MIT
 *
 * rfg-db unpack, inspect, verify: the contents of a pack. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "exit.h"
#include "pack.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/pack/pack.h"

static void print_code(FILE *f, const struct rfg_pack_code *c)
{
    rfg_print(f, "%s %s %s %s: %llu bytes, code %.16s, text %.16s, %s\n", c->target, c->source, c->entry, c->macros,
              (unsigned long long)c->size, c->code_hash, c->source_hash, c->compiler);
}

int rfg_db_inspect(const char *path)
{
    struct rfg_pack *p;
    size_t n_codes, n_rows;
    if (rfg_pack_open(&p, path) != RFG_OK)
        return complain(BAD_USAGE);
    const struct rfg_pack_code *codes = rfg_pack_codes(p, &n_codes);
    const struct rfg_row *rows = rfg_pack_rows(p, &n_rows);
    rfg_print(stdout, "%s: written by rfg %s, schema %d, %zu rows, %zu code objects\n", path, rfg_pack_version(p),
              RFG_DB_SCHEMA, n_rows, n_codes);
    for (size_t i = 0; i < n_codes; i++) {
        if (!i || strcmp(codes[i].target, codes[i - 1].target)) {
            bool usable = rfg_pack_check_target(p, codes[i].target) == RFG_OK;
            rfg_print(stdout, "%s: %s\n", codes[i].target,
                      usable ? "its kernels are those of this rfg" : rfg_last_error());
        }
        print_code(stdout, &codes[i]);
    }
    for (size_t i = 0; i < n_rows; i++) {
        char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
        rfg_print(stdout, "row %s, %s, %d CUs: %s, %.2f us, %s\n",
                  rfg_problem_format(&rows[i].problem, text, sizeof(text)), rows[i].arch, rows[i].cu_count,
                  rfg_row_config(&rows[i], config, sizeof(config)), rows[i].median_us, rfg_source_name(rows[i].how));
    }
    rfg_pack_close(&p);
    return FINE;
}

int rfg_db_verify_pack(const char *path, bool (*check_row)(void *ctx, const struct rfg_row *row, const char *bad),
                       void *ctx, const int *row_problems)
{
    struct rfg_pack *p;
    const struct rfg_blob *blob;
    size_t n_codes, n_rows;
    int problems = 0;
    if (rfg_pack_open(&p, path) != RFG_OK)
        return complain(PROBLEMS);
    const struct rfg_pack_code *codes = rfg_pack_codes(p, &n_codes);
    const struct rfg_row *rows = rfg_pack_rows(p, &n_rows);
    for (size_t i = 0; i < n_codes; i++) {
        bool first = !i || strcmp(codes[i].target, codes[i - 1].target);
        if ((first && rfg_pack_check_target(p, codes[i].target) != RFG_OK && ++problems) ||
            (rfg_pack_load(p, &codes[i], &blob) != RFG_OK && ++problems))
            rfg_print(stdout, "%s\n", rfg_last_error());
    }
    for (size_t i = 0; i < n_rows; i++)
        check_row(ctx, &rows[i], NULL);
    problems += *row_problems;
    rfg_print(stdout, "%s: pack of rfg %s, %zu rows, %zu code objects, %d problem%s\n", path, rfg_pack_version(p),
              n_rows, n_codes, problems, problems == 1 ? "" : "s");
    rfg_pack_close(&p);
    return problems ? PROBLEMS : FINE;
}

/* ---- unpack ------------------------------------------------------------------------------------------------------ */

static bool write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wbxe");
    bool ok = f && (!size || fwrite(data, size, 1, f) == 1);
    ok = (!f || fclose(f) == 0) && ok;
    return ok || rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", path, strerror(errno)) == RFG_OK;
}

/* DIR/gfx942/<its hash>.co */
static bool write_code(struct rfg_pack *p, const char *dir, const struct rfg_pack_code *c)
{
    const struct rfg_blob *blob;
    if (rfg_pack_load(p, c, &blob) != RFG_OK)
        return false;
    if (strspn(c->target, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(c->target) || !*c->target)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: target '%s': must be a name such as gfx942", rfg_pack_path(p),
                        c->target) == RFG_OK;
    char *sub = rfg_asprintf("%s/%s", dir, c->target);
    char *path = rfg_asprintf("%s/%s/%.64s.co", dir, c->target, c->code_hash);
    struct stat sb;
    bool ok = sub && path &&
              (mkdir(sub, 0777) == 0 || errno == EEXIST ||
               rfg_fail(RFG_ERROR_IO, "%s: cannot be made: %s", sub, strerror(errno)) == RFG_OK);
    if (ok && stat(path, &sb)) /* equal code of two kernels is one file */
        ok = write_file(path, blob->data, blob->size);
    free(sub);
    free(path);
    return ok;
}

static bool write_all(struct rfg_pack *p, const char *dir)
{
    size_t n_codes, n_rows;
    const struct rfg_pack_code *codes = rfg_pack_codes(p, &n_codes);
    const struct rfg_row *rows = rfg_pack_rows(p, &n_rows);
    char *rows_path = rfg_asprintf("%s/rows.csv", dir), *list_path = rfg_asprintf("%s/code.txt", dir);
    bool ok = rows_path && list_path && rfg_db_write_csv(rows, n_rows, rows_path) == RFG_OK;
    for (size_t i = 0; ok && i < n_codes; i++)
        ok = write_code(p, dir, &codes[i]);
    char *text = NULL;
    size_t size = 0;
    FILE *f = ok ? rfg_text_stream(&text, &size) : NULL;
    for (size_t i = 0; f && i < n_codes; i++)
        print_code(f, &codes[i]);
    bool whole = f && !ferror(f);
    ok = f && fclose(f) == 0 && whole && write_file(list_path, text, size);
    free(text);
    free(rows_path);
    free(list_path);
    return ok;
}

int rfg_db_unpack(const char *path, const char *dir)
{
    struct rfg_pack *p;
    if (!dir) {
        fprintf(stderr, "rfg-db: unpack: -o is missing: must name the directory to make\n");
        return BAD_USAGE;
    }
    if (rfg_pack_open(&p, path) != RFG_OK)
        return complain(BAD_USAGE);
    bool made = mkdir(dir, 0777) == 0;
    if (!made)
        rfg_fail(RFG_ERROR_IO, "-o %s: cannot be made: %s: must be a new directory's name", dir, strerror(errno));
    bool ok = made && write_all(p, dir);
    if (made && !ok)
        rfg_remove_tree(dir); /* keeps the message */
    rfg_pack_close(&p);
    if (!ok)
        return complain(BAD_USAGE);
    rfg_print(stdout, "%s: rows.csv, code.txt, TARGET/CODE_HASH.co\n", dir);
    return FINE;
}
