/* SPDX-License-Identifier: MIT
 *
 * A safetensors file is: 8 bytes, little-endian, the length of a header; the header, JSON: {"name":
 * {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ..., "__metadata__": {..}}; the data, from which
 * offsets count (github.com/huggingface/safetensors, its README's "Format"). */
#include "weights.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEADER = 100000000 };

/* Fills t from a header's entry; the rule that the entry breaks, or NULL. Tensors that a decoder can't use (integers,
 * more dimensions) have ndim -1. */
static const char *read_entry(struct tensor *t, const json_t *entry, const char *data, uint64_t size)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    if (!dtype || !json_is_array(shape) || json_array_size(offsets) != 2)
        return "must have dtype, shape and two data_offsets";
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_integer(begin) || !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return "data_offsets must be integers, 0 or more, in order";
    if ((uint64_t)json_integer_value(end) > size)
        return "its data ends behind the file's end: the file is truncated, or its header damaged";
    t->dtype = dtype_of(dtype);
    t->data = data + json_integer_value(begin);
    t->ndim = (int)json_array_size(shape);
    if (t->dtype == DTYPES || t->ndim < 1 || t->ndim > MOST_DIMS) {
        t->ndim = -1;
        return NULL;
    }
    uint64_t bytes = (uint64_t)dtype_bytes(t->dtype);
    for (int i = 0; i < t->ndim; i++) {
        const json_t *n = json_array_get(shape, (size_t)i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return "shape must be integers, 0 or more";
        t->shape[i] = json_integer_value(n);
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes))
            return "shape overflows";
    }
    if (bytes != (uint64_t)(json_integer_value(end) - json_integer_value(begin)))
        return "data_offsets don't fit dtype and shape";
    if (json_integer_value(begin) % dtype_bytes(t->dtype))
        return "its data isn't aligned to its elements";
    return NULL;
}

static void open_file(struct weights *w, const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        die("%s/%s: the path is too long", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        die("%s: %m", path);
    if (!S_ISREG(st.st_mode))
        die("%s: isn't a regular file", path);
    uint64_t header = 0, size = (uint64_t)st.st_size;
    if (size < sizeof(header))
        die("%s: has %llu bytes: a safetensors file has 8 at least", path, (unsigned long long)size);
    char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        die("%s: can't be mapped: %m", path);
    close(fd);
    memcpy(&header, map, sizeof(header));
    if (header > size - sizeof(header) || header > MOST_HEADER)
        die("%s: the header has %llu bytes, the file %llu: it is truncated, or no safetensors file", path,
            (unsigned long long)header, (unsigned long long)size);
    json_error_t e;
    json_t *root = json_loadb(map + sizeof(header), header, JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(root))
        die("%s: the header isn't a JSON object: %s", path, root ? "it is something else" : e.text);
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry)
    {
        if (!strcmp(key, "__metadata__"))
            continue;
        struct tensor *t = weights_add(w, key);
        const char *rule = read_entry(t, entry, map + sizeof(header) + header, size - sizeof(header) - header);
        if (rule)
            die("%s: tensor '%s': %s", path, key, rule);
    }
    json_decref(root);
    weights_add_file(w, name, map, size);
}

/* model.safetensors.index.json: {"weight_map": {"tensor's name": "file's name", ...}}. */
static void open_sharded(struct weights *w, const char *folder, const char *index, json_t *root)
{
    json_t *map = json_object_get(root, "weight_map"), *v;
    const char *key;
    if (!json_is_object(map))
        die("%s: the key 'weight_map' is missing", index);
    json_object_foreach(map, key, v)
    {
        const char *name = json_string_value(v);
        if (!name || !*name || strchr(name, '/'))
            die("%s: the file of '%s' must be the name of one in this folder", index, key);
        int i = 0;
        while (i < w->files && strcmp(w->file[i].name, name))
            i++;
        if (i == w->files)
            open_file(w, folder, name);
    }
    weights_sort(w);
    json_object_foreach(map, key, v)
    {
        const struct tensor *t = weights_find(w, key);
        if (!t || strcmp(w->file[t->file].name, json_string_value(v)))
            die("%s: '%s' should be in %s, and isn't", index, key, json_string_value(v));
    }
}

void safetensors_open(struct weights *w, const char *folder)
{
    char index[4096];
    json_error_t e;
    snprintf(index, sizeof(index), "%s/model.safetensors.index.json", folder);
    if (access(index, F_OK) != 0) {
        open_file(w, folder, "model.safetensors");
        return;
    }
    json_t *root = json_load_file(index, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        die("%s:%d: %s", index, e.line, e.text);
    open_sharded(w, folder, index, root);
    json_decref(root);
}
