/* SPDX-License-Identifier: MIT */
#include "gguf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { U32 = 4, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9, ALIGNMENT = 32 };

void gguf_put(struct gguf_bytes *b, const void *from, size_t size)
{
    b->at = realloc(b->at, b->size + size + 1);
    if (!b->at)
        abort();
    if (from)
        memcpy(b->at + b->size, from, size);
    else
        memset(b->at + b->size, 0, size);
    b->size += size;
}

void gguf_put_text(struct gguf_bytes *b, const char *text, size_t size)
{
    uint64_t n = size;
    gguf_put(b, &n, sizeof(n));
    gguf_put(b, text, size);
}

void gguf_key(struct gguf_file *f, const char *key, uint32_t kind)
{
    f->values++;
    gguf_put_text(&f->value, key, strlen(key));
    gguf_put(&f->value, &kind, sizeof(kind));
}

void gguf_u32(struct gguf_file *f, const char *key, uint32_t v)
{
    gguf_key(f, key, U32);
    gguf_put(&f->value, &v, sizeof(v));
}

void gguf_f32(struct gguf_file *f, const char *key, double v)
{
    float single = (float)v;
    gguf_key(f, key, F32);
    gguf_put(&f->value, &single, sizeof(single));
}

void gguf_bool(struct gguf_file *f, const char *key, uint8_t v)
{
    gguf_key(f, key, BOOL);
    gguf_put(&f->value, &v, sizeof(v));
}

void gguf_text(struct gguf_file *f, const char *key, const char *v)
{
    gguf_key(f, key, STRING);
    gguf_put_text(&f->value, v, strlen(v));
}

void gguf_array(struct gguf_file *f, const char *key, uint32_t kind, uint64_t count)
{
    gguf_key(f, key, ARRAY);
    gguf_put(&f->value, &kind, sizeof(kind));
    gguf_put(&f->value, &count, sizeof(count));
}

void gguf_texts(struct gguf_file *f, const char *key, const char *const *v, uint64_t count)
{
    gguf_array(f, key, STRING, count);
    for (uint64_t i = 0; i < count; i++)
        gguf_put_text(&f->value, v[i], strlen(v[i]));
}

void gguf_add(struct gguf_file *f, const char *name, uint32_t type, int ndim, const int64_t *shape, const void *data,
              size_t bytes)
{
    uint32_t n = (uint32_t)ndim;
    f->tensors++;
    gguf_put_text(&f->tensor, name, strlen(name));
    gguf_put(&f->tensor, &n, sizeof(n));
    for (int i = ndim - 1; i >= 0; i--)
        gguf_put(&f->tensor, &shape[i], sizeof(shape[i]));
    gguf_put(&f->tensor, &type, sizeof(type));
    gguf_put(&f->data, NULL, (ALIGNMENT - f->data.size % ALIGNMENT) % ALIGNMENT);
    uint64_t offset = f->data.size;
    gguf_put(&f->tensor, &offset, sizeof(offset));
    gguf_put(&f->data, data, bytes);
}

struct gguf_bytes gguf_join(const struct gguf_file *f)
{
    struct gguf_bytes b = { 0 };
    uint32_t version = 3;
    gguf_put(&b, "GGUF", 4);
    gguf_put(&b, &version, sizeof(version));
    gguf_put(&b, &f->tensors, sizeof(f->tensors));
    gguf_put(&b, &f->values, sizeof(f->values));
    gguf_put(&b, f->value.at, f->value.size);
    gguf_put(&b, f->tensor.at, f->tensor.size);
    gguf_put(&b, NULL, (ALIGNMENT - b.size % ALIGNMENT) % ALIGNMENT);
    gguf_put(&b, f->data.at, f->data.size);
    return b;
}

void gguf_write(const char *path, struct gguf_bytes b)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b.at, 1, b.size, f) != b.size || fclose(f) != 0)
        abort();
    free(b.at);
}

void gguf_free(struct gguf_file *f)
{
    free(f->value.at);
    free(f->tensor.at);
    free(f->data.at);
    *f = (struct gguf_file){ 0 };
}
