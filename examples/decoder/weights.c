/* SPDX-License-Identifier: MIT
 *
 * Tensors by name. A safetensors file is: 8 bytes, little-endian, the length of a header; the header, JSON: {"name":
 * {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ..., "__metadata__": {..}}; the data, from which
 * offsets count (github.com/huggingface/safetensors, its README's "Format"). */
#include "decoder.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 512, MOST_DIMS = 4, MOST_HEADER = 100000000 };

enum dtype { BF16, F16, F32, U8, F8_E4M3, DTYPES };
static const struct {
    const char *name;
    int bytes;
} dtypes[DTYPES] = { { "BF16", 2 }, { "F16", 2 }, { "F32", 4 }, { "U8", 1 }, { "F8_E4M3", 1 } };

struct tensor {
    char *name;
    enum dtype dtype;
    int file, ndim;
    int64_t shape[MOST_DIMS];
    const char *data;
    bool used; /* by the model */
};

struct weights {
    bool random;
    uint64_t seed;
    int files;
    struct {
        char *name; /* without the folder */
        char *map;
        size_t size;
    } file[MOST_FILES];
    struct tensor *tensor; /* sorted by name */
    size_t count;
};

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static struct tensor *find(const struct weights *w, const char *name)
{
    struct tensor key = { .name = (char *)name };
    return bsearch(&key, w->tensor, w->count, sizeof(key), by_name);
}

static enum dtype dtype_of(const char *name)
{
    int i = 0;
    while (i < DTYPES && strcmp(dtypes[i].name, name))
        i++;
    return (enum dtype)i;
}

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
    uint64_t bytes = (uint64_t)dtypes[t->dtype].bytes;
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
    if (json_integer_value(begin) % dtypes[t->dtype].bytes)
        return "its data isn't aligned to its elements";
    return NULL;
}

static void open_file(struct weights *w, const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        die("%s/%s: the path is too long", folder, name);
    if (w->files == MOST_FILES)
        die("%s: the weights are in more than %d files", folder, MOST_FILES);
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
    w->tensor = realloc(w->tensor, (w->count + json_object_size(root)) * sizeof(*w->tensor) + 1);
    if (!w->tensor)
        die("out of memory");
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry)
    {
        if (!strcmp(key, "__metadata__"))
            continue;
        struct tensor *t = &w->tensor[w->count++];
        *t = (struct tensor){ .name = strdup(key), .file = w->files };
        const char *rule = read_entry(t, entry, map + sizeof(header) + header, size - sizeof(header) - header);
        if (rule)
            die("%s: tensor '%s': %s", path, key, rule);
    }
    json_decref(root);
    w->file[w->files].name = strdup(name);
    w->file[w->files].map = map;
    w->file[w->files++].size = size;
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
    qsort(w->tensor, w->count, sizeof(*w->tensor), by_name);
    json_object_foreach(map, key, v)
    {
        const struct tensor *t = find(w, key);
        if (!t || strcmp(w->file[t->file].name, json_string_value(v)))
            die("%s: '%s' should be in %s, and isn't", index, key, json_string_value(v));
    }
}

struct weights *weights_open(const char *folder)
{
    struct weights *w = allocate(1, sizeof(*w));
    char index[4096];
    json_error_t e;
    snprintf(index, sizeof(index), "%s/model.safetensors.index.json", folder);
    if (access(index, F_OK) == 0) {
        json_t *root = json_load_file(index, JSON_REJECT_DUPLICATES, &e);
        if (!root)
            die("%s:%d: %s", index, e.line, e.text);
        open_sharded(w, folder, index, root);
        json_decref(root);
    } else {
        open_file(w, folder, "model.safetensors");
        qsort(w->tensor, w->count, sizeof(*w->tensor), by_name);
    }
    for (size_t i = 1; i < w->count; i++)
        if (!strcmp(w->tensor[i - 1].name, w->tensor[i].name))
            die("%s: tensor '%s' is there twice", folder, w->tensor[i].name);
    return w;
}

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return h;
}

/* SplitMix64 (Steele, Lea and Flood 2014) of a counter. Each result is four numbers of 16 bits. */
static uint64_t draw(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* To nearest, ties to even; not for NaN. */
static uint16_t round_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_bf16(float f)
{
    return f == f ? round_to_bf16(f) : 0x7fc0;
}

struct weights *weights_random(uint64_t seed)
{
    struct weights *w = allocate(1, sizeof(*w));
    w->random = true;
    w->seed = seed;
    return w;
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

void weights_close(struct weights *w)
{
    for (int i = 0; i < w->files; i++) {
        munmap(w->file[i].map, w->file[i].size);
        free(w->file[i].name);
    }
    for (size_t i = 0; i < w->count; i++)
        free(w->tensor[i].name);
    free(w->tensor);
    free(w);
}

bool weights_has(const struct weights *w, const char *name)
{
    return w->random || find(w, name);
}

bool weights_are_random(const struct weights *w)
{
    return w->random;
}

const char *weights_unused(const struct weights *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const char *name = w->tensor[i].name;
        if (!w->tensor[i].used && !strstr(name, "rotary_emb.inv_freq") && strcmp(name, "lm_head.weight"))
            return name;
    }
    return NULL;
}

/* Tensors of other kinds may be in a file, but not where the model needs one: must_be, DTYPES: of floats. */
static struct tensor *need(const struct weights *w, const char *name, enum dtype must_be)
{
    struct tensor *t = find(w, name);
    if (!t)
        die("tensor '%s' is in none of the files", name);
    if (t->ndim < 0 || (must_be == DTYPES ? t->dtype > F32 : t->dtype != must_be))
        die("%s: tensor '%s' must be %s, of one to %d dimensions", w->file[t->file].name, name,
            must_be == DTYPES ? "BF16, F16 or F32" : dtypes[must_be].name, MOST_DIMS);
    return t;
}

rfg_dtype weights_dtype(const struct weights *w)
{
    return !w->random && need(w, "model.embed_tokens.weight", DTYPES)->dtype == F16 ? RFG_F16 : RFG_BF16;
}

/* Part of a tensor; first is a multiple of 4. */
struct part {
    uint64_t seed;
    float mean, scale;
    int64_t first, count;
    uint16_t *to;
};

static void *fill_part(void *arg)
{
    const struct part *p = arg;
    for (int64_t i = 0; i < p->count; i += 4) {
        uint64_t bits = draw(p->seed, (uint64_t)(p->first + i) / 4);
        uint16_t four[4];
        for (int n = 0; n < 4; n++)
            four[n] = round_to_bf16(p->mean + p->scale * (float)(int16_t)(bits >> 16 * n));
        memcpy(p->to + i, four, sizeof(four[0]) * (size_t)(p->count - i < 4 ? p->count - i : 4));
    }
    return NULL;
}

/* By all cores: billions of numbers are wanted. */
static void get_random(const struct weights *w, const char *name, double mean, double spread, int64_t first,
                       int64_t count, uint16_t *to)
{
    enum { MOST = 32, LEAST = 1 << 18 };
    pthread_t threads[MOST];
    struct part parts[MOST];
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN), n = count / LEAST + 1, at = 0;
    n = n > cores ? cores : n;
    n = n > MOST ? MOST : n < 1 ? 1 : n;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = i == n - 1 ? count - at : count / n / 4 * 4;
        parts[i] =
            (struct part){ w->seed ^ hash_name(name), (float)mean, (float)(spread / 32768), first + at, size, to + at };
        at += size;
        if (i > 0 && pthread_create(&threads[i], NULL, fill_part, &parts[i]) != 0)
            die("a thread can't be started");
    }
    fill_part(&parts[0]);
    for (int64_t i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
}

static const char *shape_text(char *to, size_t size, int ndim, const int64_t *shape)
{
    size_t at = 0;
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(to + at, size - at, i ? ", %lld" : "[%lld", (long long)shape[i]);
    if (at + 1 < size)
        snprintf(to + at, size - at, "]");
    return to;
}

/* A tensor of this shape, which is now used. */
static struct tensor *use(struct weights *w, const char *name, enum dtype must_be, int ndim, const int64_t *shape)
{
    struct tensor *t = need(w, name, must_be);
    t->used = true;
    if (t->ndim != ndim || memcmp(t->shape, shape, (size_t)ndim * sizeof(*shape))) {
        char has[128], wants[128];
        die("%s: tensor '%s' has shape %s: config.json asks for %s", w->file[t->file].name, name,
            shape_text(has, sizeof(has), t->ndim, t->shape), shape_text(wants, sizeof(wants), ndim, shape));
    }
    return t;
}

static float float_at(const struct tensor *t, int64_t i)
{
    float f;
    memcpy(&f, t->data + i * 4, sizeof(f));
    return f;
}

static float e4m3_value(uint8_t code)
{
    int exponent = code >> 3 & 15, fraction = code & 7;
    float v = (code & 127) == 127 ? NAN
              : exponent          ? ldexpf((float)(8 + fraction), exponent - 10)
                                  : ldexpf((float)fraction, -9);
    return code & 128 ? -v : v;
}

/* Codes times their blocks' scales, rounded to bf16. False: the tensor has none. */
static bool get_scaled(struct weights *w, const char *name, int64_t rows, int64_t cols, int64_t first, int64_t count,
                       uint16_t *to)
{
    char inv[160];
    const struct tensor *t = find(w, name);
    if (!t || t->dtype != F8_E4M3 || !cols)
        return false;
    int64_t along = (cols + 127) / 128;
    snprintf(inv, sizeof(inv), "%s_scale_inv", name);
    const struct tensor *scales = use(w, inv, F32, 2, (int64_t[]){ (rows + 127) / 128, along });
    t = use(w, name, F8_E4M3, 2, (int64_t[]){ rows, cols });
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (first + i) / cols, col = (first + i) % cols;
        to[i] = to_bf16(e4m3_value((uint8_t)t->data[first + i]) * float_at(scales, row / 128 * along + col / 128));
    }
    return true;
}

void weights_get(struct weights *w, const char *name, int64_t rows, int64_t cols, double mean, double spread,
                 int64_t first, int64_t count, uint16_t *to)
{
    if (w->random) {
        get_random(w, name, mean, spread, first, count, to);
        return;
    }
    if (get_scaled(w, name, rows, cols, first, count, to))
        return;
    const struct tensor *t = use(w, name, DTYPES, cols ? 2 : 1, (int64_t[]){ rows, cols });
    if ((t->dtype == F16) != (weights_dtype(w) == RFG_F16))
        die("%s: tensor '%s' must be %s, as the embedding is", w->file[t->file].name, name,
            weights_dtype(w) == RFG_F16 ? "F16" : "BF16 or F32");
    if (t->dtype != F32) {
        memcpy(to, t->data + first * 2, (size_t)count * 2);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = to_bf16(float_at(t, first + i));
}

void weights_floats(struct weights *w, const char *name, int64_t rows, int64_t cols, double mean, double spread,
                    float *to)
{
    int64_t n = rows * (cols ? cols : 1);
    const struct tensor *t = w->random ? NULL : use(w, name, DTYPES, cols ? 2 : 1, (int64_t[]){ rows, cols });
    for (int64_t i = 0; t && t->dtype == F32 && i < n; i++)
        to[i] = float_at(t, i);
    if (t && t->dtype == F32)
        return;
    uint16_t *half = allocate((size_t)n, sizeof(*half));
    if (w->random)
        get_random(w, name, mean, spread, 0, n, half);
    else
        memcpy(half, t->data, (size_t)n * sizeof(*half));
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)half[i] << 16;
        if (t && t->dtype == F16) {
            _Float16 f;
            memcpy(&f, &half[i], sizeof(f));
            to[i] = (float)f;
        } else {
            memcpy(&to[i], &bits, sizeof(bits));
        }
    }
    free(half);
}

static void random_bytes(const struct weights *w, const char *name, bool e4m3, int64_t first, int64_t count,
                         uint8_t *to)
{
    uint64_t seed = w->seed ^ hash_name(name);
    for (int64_t i = 0; i < count; i += 8) {
        uint64_t bits = draw(seed, (uint64_t)(first + i) / 8), magnitudes = bits & 0x7f7f7f7f7f7f7f7f;
        if (e4m3) /* one less, where all bits of a magnitude are set */
            bits -= (magnitudes + 0x0101010101010101) >> 7 & 0x0101010101010101;
        memcpy(to + i, &bits, (size_t)(count - i < 8 ? count - i : 8));
    }
}

void weights_bytes(struct weights *w, const char *name, const char *dtype, int ndim, const int64_t *shape,
                   int64_t first, int64_t count, uint8_t *to)
{
    enum dtype is = dtype_of(dtype);
    if (w->random)
        random_bytes(w, name, is == F8_E4M3, first, count, to);
    else
        memcpy(to, use(w, name, is, ndim, shape)->data + first, (size_t)count);
}
