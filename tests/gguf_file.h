/* SPDX-License-Identifier: MIT
 *
 * Writes .gguf files for tests, right ones and any wrong ones: a file is built in memory, where a test may change it. */
#ifndef RFG_TESTS_GGUF_FILE_H
#define RFG_TESTS_GGUF_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. */
struct gguf_bytes {
    char *at;
    size_t size;
};

struct gguf_file {
    uint64_t values, tensors;
    struct gguf_bytes value, tensor, data;
};

void gguf_put(struct gguf_bytes *b, const void *from, size_t size);
void gguf_put_text(struct gguf_bytes *b, const char *text, size_t size);
/* A key and its kind, of which the value is put behind. */
void gguf_key(struct gguf_file *f, const char *key, uint32_t kind);
void gguf_u32(struct gguf_file *f, const char *key, uint32_t v);
void gguf_f32(struct gguf_file *f, const char *key, double v);
void gguf_bool(struct gguf_file *f, const char *key, uint8_t v);
void gguf_text(struct gguf_file *f, const char *key, const char *v);
/* An array's head: elements are put behind. */
void gguf_array(struct gguf_file *f, const char *key, uint32_t kind, uint64_t count);
void gguf_texts(struct gguf_file *f, const char *key, const char *const *v, uint64_t count);
/* A tensor, the longest stride first; data NULL: zeroes. */
void gguf_add(struct gguf_file *f, const char *name, uint32_t type, int ndim, const int64_t *shape, const void *data,
              size_t bytes);
/* All of it; the caller frees it. */
struct gguf_bytes gguf_join(const struct gguf_file *f);
void gguf_write(const char *path, struct gguf_bytes b);
void gguf_free(struct gguf_file *f);

#endif
