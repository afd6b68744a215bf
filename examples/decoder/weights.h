/* SPDX-License-Identifier: MIT
 *
 * Tensors of files, by the names that Hugging Face's files have: what safetensors.c and gguf_model.c find, and weights.c
 * reads. */
#ifndef DECODER_WEIGHTS_H
#define DECODER_WEIGHTS_H

#include "decoder.h"

enum { MOST_FILES = 512, MOST_DIMS = 4 };

enum dtype { BF16, F16, F32, BLOCKS, U8, F8_E4M3, DTYPES };

struct tensor {
    char *name;
    enum dtype dtype;
    int file, ndim;
    int64_t shape[MOST_DIMS];
    const char *data; /* at any address */
    bool used;        /* by the model */
    /* Of .gguf files: */
    rfg_dtype blocks;   /* of BLOCKS, and of those that mxfp4's parts are read from */
    const char *second; /* every other row (of a mixture's biases: element) is from here: of gate, of up */
    int64_t turned;     /* not 0: elements of a head, whose rows i and i + turned / 2 are neighbours in the file */
    bool plus_one;      /* the file has 1 + w */
};

struct weights {
    bool random, gguf;
    uint64_t seed;
    const char *random_blocks; /* of matrices, if not NULL */
    int64_t layers;            /* of random ones of "q4_k_m" */
    rfg_context *host;         /* "cpu", once blocks were decoded; how many tensors, and what they became */
    int64_t decoded, decoded_bytes;
    int files;
    struct {
        char *name; /* without the folder */
        char *map;
        size_t size;
    } file[MOST_FILES];
    struct tensor *tensor; /* sorted by name */
    size_t count;
};

/* DTYPES: none of the kinds that a model's tensors have. */
enum dtype dtype_of(const char *name);
int dtype_bytes(enum dtype dtype);
/* A new tensor, all zero but for its name, which is copied, and its file, the one that comes next. */
struct tensor *weights_add(struct weights *w, const char *name);
/* The next file. */
void weights_add_file(struct weights *w, const char *name, char *map, size_t size);
void weights_sort(struct weights *w);
/* Of sorted ones; NULL: there is none. */
struct tensor *weights_find(const struct weights *w, const char *name);

/* ---- safetensors.c, gguf_model.c: add all tensors of a folder, or of a file ---------------------------------------- */

void safetensors_open(struct weights *w, const char *folder);
void gguf_weights(struct weights *w, const char *path);

#endif
