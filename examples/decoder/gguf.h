/* SPDX-License-Identifier: MIT
 *
 * A .gguf file as it is: values by key, tensors by name, all within the mapped file. Nothing here ends the program, so
 * that a fuzz target can call it. */
#ifndef DECODER_GGUF_H
#define DECODER_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GGUF_MOST_DIMS = 4, GGUF_ERROR = 512 };

/* Numbers of the format. */
enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KINDS
};

/* Text in the file: of any bytes, and no 0 behind them. */
struct gguf_text {
    const char *at;
    size_t size;
};

struct gguf_value {
    struct gguf_text key;
    enum gguf_kind kind; /* of an array, of its elements */
    bool array;
    uint64_t count; /* 1, or an array's elements */
    const char *at; /* the first one, at any address. A string is 8 bytes, its size, and the text */
};

/* How a tensor's numbers are stored: `size` bytes for each `elements` of a row. */
struct gguf_type {
    const char *name; /* NULL: the format has none of this number */
    uint32_t elements, size;
};
enum { GGUF_F32_TENSOR = 0, GGUF_F16_TENSOR = 1, GGUF_BF16_TENSOR = 30, GGUF_MXFP4_TENSOR = 39, GGUF_TYPES = 41 };
extern const struct gguf_type gguf_types[GGUF_TYPES];

struct gguf_tensor {
    struct gguf_text name;
    uint32_t type; /* of gguf_types */
    int ndim;
    uint64_t shape[GGUF_MOST_DIMS]; /* the longest stride first, unlike in the file; at least 1 */
    const char *at;
    uint64_t bytes;
};

struct gguf {
    char *map;
    size_t size;
    struct gguf_value *values; /* sorted by key */
    struct gguf_tensor *tensors;
    size_t value_count, tensor_count;
};

/* NULL: error, of GGUF_ERROR bytes, then names the file, the value and the rule. */
struct gguf *gguf_open(const char *path, char *error);
void gguf_close(struct gguf *g);
/* NULL: there is none. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Element i of numbers that are integers, or of any; false: the value is of another kind, or above INT64_MAX. */
bool gguf_integer(const struct gguf_value *v, uint64_t i, int64_t *to);
bool gguf_number(const struct gguf_value *v, uint64_t i, double *to);
/* The text of a string. */
struct gguf_text gguf_string(const struct gguf_value *v);
/* All strings of an array, one after the other: at is v->at at first. */
struct gguf_text gguf_next_string(const char **at);
bool gguf_is(struct gguf_text text, const char *literal);

#endif
