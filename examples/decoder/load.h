/* SPDX-License-Identifier: MIT
 *
 * Loads weights into device memory. Everything is done twice: without memory, to count bytes, and with it. */
#ifndef DECODER_LOAD_H
#define DECODER_LOAD_H

#include "decoder.h"

enum { PIECE = 16 << 20 }; /* elements that go through host memory at a time */

struct loader {
    rfg_context *ctx;
    struct model *m;
    struct weights *w;
    struct arena arena;
    uint16_t *piece;
    size_t apart; /* bytes so far of which a decode step reads few or none: experts, expand_k */
    char name[128];
};

/* The name of a part of a layer; good until the next one. */
const char *load_name(struct loader *l, int64_t layer, const char *part);
/* A copy, and it is there. */
void load_copy(struct loader *l, void *to, const void *from, size_t bytes, rfg_copy_kind kind);
/* A tensor of 16-bit numbers, cols 0: of one dimension, where `to` is; NULL: nowhere yet. mean, spread: if random. */
void load_at(struct loader *l, char *to, const char *name, int64_t rows, int64_t cols, double mean, double spread);
/* A rank's part of a matrix of the files: rows or columns from `first` on, of `whole`. */
struct cut {
    int64_t whole, first;
    bool columns;
};
/* n: of each rank. */
struct cut cut_rows(const struct config *c, int64_t n);
struct cut cut_columns(const struct config *c, int64_t n);
/* [rows, cols] of a matrix; random ones as load_matrix() has them. */
void load_part(struct loader *l, char *to, const char *name, struct cut cut, int64_t rows, int64_t cols);
/* The same of such a part, or of a whole tensor, into the arena, right behind what is there. */
void load_more_part(struct loader *l, const char *name, struct cut cut, int64_t rows, int64_t cols);
void load_more(struct loader *l, const char *name, int64_t rows, int64_t cols, double mean, double spread);
/* The same, aligned; where it is. A matrix is such that its products with activations of size 1 have size 1, if random.
 */
void *load_vector(struct loader *l, const char *name, int64_t n, double mean, double spread);
void *load_matrix(struct loader *l, const char *name, int64_t rows, int64_t cols);
/* A matrix that only activations are multiplied with, right behind what is there: blocks stay as they are. */
struct weight load_weight(struct loader *l, const char *name, int64_t rows, int64_t cols);
/* The same of a rank's part, which has no blocks. */
struct weight load_weight_part(struct loader *l, const char *name, struct cut cut, int64_t rows, int64_t cols);
/* The dtype that it has in device memory; bytes of a row of it, which must be whole blocks; and count of its rows as such, to host memory. */
rfg_dtype load_dtype(const struct loader *l, const char *name);
size_t load_row_bytes(const char *name, rfg_dtype dtype, int64_t cols);
void load_rows(struct loader *l, const char *name, rfg_dtype dtype, int64_t rows, int64_t cols, int64_t first,
               int64_t count, void *to);
/* Bytes of a tensor to where `to` is; random: each `constant`, or if that is -1 any. */
void load_bytes(struct loader *l, char *to, const char *name, const char *dtype, int ndim, const int64_t *shape,
                int constant);
/* A matrix of e4m3, named `part` of a layer, and its scales, "<part>_scale_inv", for each 128 x 128. */
void load_codes(struct loader *l, char *to, char *scales, int64_t layer, const char *part, int64_t rows, int64_t cols);
/* n numbers as fp32, at most PIECE / 2. */
void *load_floats(struct loader *l, const char *name, int64_t n, double mean, double spread);

#endif
