/* SPDX-License-Identifier: MIT
 *
 * A pack: tuned rows and the code objects that they and the model need, in one file, so that an engine never compiles.
 *
 *   header      struct header in pack.c: magic, format, the database's schema, sizes, SHA-256 of itself and the index
 *   index       two tables as CSV, first of the code objects, then of the rows (as rfg-db export writes them)
 *   code        the code objects, in the order of their table, one behind the other
 *
 * Each byte is covered: the index by the header's sum, a code object by its line in the index. Same rows and code, same
 * file: nothing in it says when or where it was made. */
#ifndef RFG_DISPATCH_PACK_H
#define RFG_DISPATCH_PACK_H

#include "dispatch/db/db.h"
#include "dispatch/jit/jit.h"

/* A code object and what it was made of. The text of the kernel decides how the host must call it: code whose text is
 * another than this library's is never used. */
struct rfg_pack_code {
    char target[32];      /* "gfx942" */
    char source[96];      /* the kernel file, "gemm/gpu/any/skinny.hip", */
    char entry[64];       /* its function, */
    char macros[768];     /* "WAVES=4 ROWS=2", in the order that the variant gives them, */
    char source_hash[65]; /* and its text (rfg_jit_source_hash()) */
    char compiler[96];
    char code_hash[65]; /* hex SHA-256 of the code object */
    uint64_t size;
};
/* Fills source, entry and macros. */
bool rfg_pack_name(struct rfg_pack_code *code, const struct rfg_kernel *k, struct rfg_reason *why);
int rfg_pack_compare(const struct rfg_pack_code *a, const struct rfg_pack_code *b);

/* Written beside path and renamed, so that readers see all of it or nothing; mode 0644. codes are sorted, each once;
 * blobs[i] is the code of codes[i]. Errors: IO, OUT_OF_MEMORY, INVALID_ARGUMENT (more than a pack can hold). */
rfg_status rfg_pack_write(const char *path, const struct rfg_pack_code *codes, const struct rfg_blob *const *blobs,
                          size_t n_codes, const struct rfg_row *rows, size_t n_rows);

/* Does the file begin as a pack does? */
bool rfg_pack_is(const char *path);

struct rfg_pack;

/* Checks all of the file but the code objects, which are checked when they are used (rfg_pack_load()). Errors are
 * DATABASE: whose file it is (docs/security.md), not a pack, another format or schema, damaged, truncated, rows that
 * this version doesn't know. Each names the path. */
rfg_status rfg_pack_open(struct rfg_pack **pack, const char *path);
void rfg_pack_close(struct rfg_pack **pack);
const char *rfg_pack_path(const struct rfg_pack *pack);
const char *rfg_pack_version(const struct rfg_pack *pack); /* of the rfg that wrote it */
const struct rfg_pack_code *rfg_pack_codes(const struct rfg_pack *pack, size_t *n);
const struct rfg_row *rfg_pack_rows(const struct rfg_pack *pack, size_t *n);

/* Has it code for the target, all of kernels as they are in this library? DATABASE else. */
rfg_status rfg_pack_check_target(const struct rfg_pack *pack, const char *target);
/* The kernel's code object for that target; NULL: it has none. */
const struct rfg_pack_code *rfg_pack_find(const struct rfg_pack *pack, const char *target, const struct rfg_kernel *k);
/* The code itself, read and checked once; it lives as long as the pack. DATABASE: damaged. */
rfg_status rfg_pack_load(struct rfg_pack *pack, const struct rfg_pack_code *code, const struct rfg_blob **blob);

#endif
