/* SPDX-License-Identifier: MIT
 *
 * A .gguf file (github.com/ggml-org/ggml, its gguf document), all little-endian: "GGUF"; u32 version; u64 tensors, u64 values;
 * of each value a string (its key), u32 kind, and the value; of each tensor a string (its name), u32 dimensions, a u64
 * for each of them (the shortest stride first), u32 type, u64 offset; then, aligned, the data, from which offsets count.
 * A string is u64 bytes and the text. An array is u32 kind of its elements, u64 elements, and these. */
#include "gguf.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const struct gguf_type gguf_types[GGUF_TYPES] = {
    [0] = { "F32", 1, 4 },         [1] = { "F16", 1, 2 },         [2] = { "Q4_0", 32, 18 },
    [3] = { "Q4_1", 32, 20 },      [6] = { "Q5_0", 32, 22 },      [7] = { "Q5_1", 32, 24 },
    [8] = { "Q8_0", 32, 34 },      [9] = { "Q8_1", 32, 36 },      [10] = { "Q2_K", 256, 84 },
    [11] = { "Q3_K", 256, 110 },   [12] = { "Q4_K", 256, 144 },   [13] = { "Q5_K", 256, 176 },
    [14] = { "Q6_K", 256, 210 },   [15] = { "Q8_K", 256, 292 },   [16] = { "IQ2_XXS", 256, 66 },
    [17] = { "IQ2_XS", 256, 74 },  [18] = { "IQ3_XXS", 256, 98 }, [19] = { "IQ1_S", 256, 50 },
    [20] = { "IQ4_NL", 32, 18 },   [21] = { "IQ3_S", 256, 110 },  [22] = { "IQ2_S", 256, 82 },
    [23] = { "IQ4_XS", 256, 136 }, [24] = { "I8", 1, 1 },         [25] = { "I16", 1, 2 },
    [26] = { "I32", 1, 4 },        [27] = { "I64", 1, 8 },        [28] = { "F64", 1, 8 },
    [29] = { "IQ1_M", 256, 56 },   [30] = { "BF16", 1, 2 },       [34] = { "TQ1_0", 256, 54 },
    [35] = { "TQ2_0", 256, 66 },   [39] = { "MXFP4", 32, 17 },    [40] = { "NVFP4", 64, 36 },
};

/* Bytes of a value; 0: strings and arrays. */
static const struct {
    const char *name;
    size_t size;
} kinds[GGUF_KINDS] = { { "u8", 1 },  { "i8", 1 },  { "u16", 2 },  { "i16", 2 },    { "u32", 4 },
                        { "i32", 4 }, { "f32", 4 }, { "bool", 1 }, { "string", 0 }, { "array", 0 },
                        { "u64", 8 }, { "i64", 8 }, { "f64", 8 } };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct reader {
    const char *path, *at, *end;
    char *error; /* of GGUF_ERROR bytes */
};

/* False, for the caller to return. The file's name is in front. */
__attribute__((format(printf, 2, 3))) static bool fail(struct reader *r, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->error, GGUF_ERROR, "%.200s: ", r->path);
    va_start(args, format);
    vsnprintf(r->error + n, (size_t)(GGUF_ERROR - n), format, args);
    va_end(args);
    return false;
}

static size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

/* For a %.*s: names in messages are cut. */
static int shown(struct gguf_text t)
{
    return t.size < 80 ? (int)t.size : 80;
}

static bool take(struct reader *r, void *to, size_t size, const char *what)
{
    if (left(r) < size)
        return fail(r, "%s: the file ends in it: it is truncated", what);
    memcpy(to, r->at, size);
    r->at += size;
    return true;
}

static bool take_text(struct reader *r, struct gguf_text *to, const char *what)
{
    uint64_t size = 0;
    if (!take(r, &size, sizeof(size), what))
        return false;
    if (size > left(r))
        return fail(r, "%s has %llu bytes: %zu are left of the file", what, (unsigned long long)size, left(r));
    *to = (struct gguf_text){ r->at, (size_t)size };
    r->at += size;
    return true;
}

/* Keys and names: of 1 to `most` bytes, none of them 0. */
static bool take_name(struct reader *r, struct gguf_text *to, size_t most, const char *what)
{
    if (!take_text(r, to, what))
        return false;
    if (to->size < 1 || to->size > most)
        return fail(r, "%s has %zu bytes: must be 1 to %zu", what, to->size, most);
    if (memchr(to->at, 0, to->size))
        return fail(r, "%s '%.*s' has a byte that is 0", what, shown(*to), to->at);
    return true;
}

/* Elements of a value, which `at` is set to; r->at is behind them. */
static bool take_elements(struct reader *r, struct gguf_value *v)
{
    int n = shown(v->key);
    size_t size = kinds[v->kind].size, least = size ? size : sizeof(uint64_t);
    if (v->count > left(r) / least)
        return fail(r, "'%.*s' has %llu elements of %zu bytes or more: %zu are left of the file", n, v->key.at,
                    (unsigned long long)v->count, least, left(r));
    v->at = r->at;
    r->at += size * v->count;
    struct gguf_text text;
    char what[128];
    for (uint64_t i = 0; !size && i < v->count; i++) {
        snprintf(what, sizeof(what), "string %llu of '%.*s'", (unsigned long long)i, n, v->key.at);
        if (!take_text(r, &text, what))
            return false;
    }
    for (uint64_t i = 0; v->kind == GGUF_BOOL && i < v->count; i++)
        if (v->at[i] != 0 && v->at[i] != 1)
            return fail(r, "'%.*s' is %d: a bool must be 0 or 1", n, v->key.at, (unsigned char)v->at[i]);
    return true;
}

static bool take_value(struct reader *r, struct gguf_value *v, size_t number)
{
    char what[128];
    uint32_t kind = 0;
    snprintf(what, sizeof(what), "the key of value %zu", number);
    if (!take_name(r, &v->key, 65535, what))
        return false;
    int n = shown(v->key);
    snprintf(what, sizeof(what), "'%.*s'", n, v->key.at);
    if (!take(r, &kind, sizeof(kind), what))
        return false;
    v->array = kind == GGUF_ARRAY;
    v->count = 1;
    if (v->array && (!take(r, &kind, sizeof(kind), what) || !take(r, &v->count, sizeof(v->count), what)))
        return false;
    if (kind >= GGUF_KINDS || kind == GGUF_ARRAY)
        return fail(r, "'%.*s'%s is of kind %u: must be 0 to %d%s", n, v->key.at, v->array ? "'s element" : "", kind,
                    GGUF_KINDS - 1, v->array ? ", and no array" : "");
    v->kind = (enum gguf_kind)kind;
    return take_elements(r, v);
}

/* All but where the data begins, which isn't known yet: `at` is set by place(). */
static bool take_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset, size_t number)
{
    char what[128];
    uint32_t ndim = 0;
    snprintf(what, sizeof(what), "the name of tensor %zu", number);
    if (!take_name(r, &t->name, 127, what))
        return false;
    int n = shown(t->name);
    snprintf(what, sizeof(what), "tensor '%.*s'", n, t->name.at);
    if (!take(r, &ndim, sizeof(ndim), what))
        return false;
    if (ndim < 1 || ndim > GGUF_MOST_DIMS)
        return fail(r, "%s has %u dimensions: must be 1 to %d", what, ndim, GGUF_MOST_DIMS);
    t->ndim = (int)ndim;
    for (int i = t->ndim - 1; i >= 0; i--)
        if (!take(r, &t->shape[i], sizeof(t->shape[i]), what))
            return false;
    if (!take(r, &t->type, sizeof(t->type), what) || !take(r, offset, sizeof(*offset), what))
        return false;
    if (t->type >= GGUF_TYPES || !gguf_types[t->type].name)
        return fail(r, "%s is of type %u, which isn't known here", what, t->type);
    const struct gguf_type *type = &gguf_types[t->type];
    uint64_t row = t->shape[t->ndim - 1];
    if (row % type->elements)
        return fail(r, "%s has rows of %llu elements: must be a multiple of %u, a block of %s", what,
                    (unsigned long long)row, type->elements, type->name);
    t->bytes = type->size;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 1 || t->shape[i] > INT64_MAX)
            return fail(r, "%s has a dimension of %llu: must be 1 to 2^63 - 1", what, (unsigned long long)t->shape[i]);
        uint64_t times = i == t->ndim - 1 ? row / type->elements : t->shape[i];
        if (__builtin_mul_overflow(t->bytes, times, &t->bytes) || t->bytes > INT64_MAX)
            return fail(r, "%s has more bytes than 64 bits count: its shape overflows", what);
    }
    return true;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int compare(struct gguf_text a, struct gguf_text b)
{
    int c = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return c ? c : (a.size > b.size) - (a.size < b.size);
}

static int by_key(const void *a, const void *b)
{
    return compare(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return compare(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Room for `count` things of which each takes `least` bytes of the file: a count that can't be true takes no memory. */
static bool make_room(struct reader *r, void *to, uint64_t count, size_t size, size_t least, const char *what)
{
    if (count > left(r) / least)
        return fail(r, "it has %llu %s of %zu bytes or more: %zu are left of the file", (unsigned long long)count, what,
                    least, left(r));
    void *memory = calloc(count ? (size_t)count : 1, size);
    if (!memory)
        return fail(r, "out of memory: %llu %s", (unsigned long long)count, what);
    memcpy(to, &memory, sizeof(memory));
    return true;
}

static bool take_header(struct reader *r, uint64_t *tensors, uint64_t *values)
{
    char magic[4] = "";
    uint32_t version = 0;
    if (left(r) < 24)
        return fail(r, "has %zu bytes: a .gguf file has 24 at least", left(r));
    take(r, magic, sizeof(magic), "the header");
    if (memcmp(magic, "GGUF", sizeof(magic)))
        return fail(r, "its first bytes are %02x %02x %02x %02x: must be 'GGUF'", (unsigned char)magic[0],
                    (unsigned char)magic[1], (unsigned char)magic[2], (unsigned char)magic[3]);
    take(r, &version, sizeof(version), "the header");
    if (version && !(version & 0xffff))
        return fail(r, "its version is %u: it is a big-endian file, which isn't known here", version);
    if (version != 2 && version != 3)
        return fail(r, "its version is %u: must be 2 or 3", version);
    take(r, tensors, sizeof(*tensors), "the header");
    take(r, values, sizeof(*values), "the header");
    return true;
}

static bool take_values(struct reader *r, struct gguf *g, uint64_t count)
{
    if (!make_room(r, &g->values, count, sizeof(*g->values), 8 + 1 + 4 + 1, "values"))
        return false;
    for (; g->value_count < count; g->value_count++)
        if (!take_value(r, &g->values[g->value_count], g->value_count))
            return false;
    qsort(g->values, g->value_count, sizeof(*g->values), by_key);
    for (size_t i = 1; i < g->value_count; i++)
        if (!by_key(&g->values[i - 1], &g->values[i]))
            return fail(r, "the key '%.*s' is there twice", shown(g->values[i].key), g->values[i].key.at);
    return true;
}

static bool take_alignment(struct reader *r, const struct gguf *g, uint64_t *to)
{
    int64_t n = 32;
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    if (v && (v->kind != GGUF_U32 || v->array || !gguf_integer(v, 0, &n) || n < 1 || n > 1 << 20 || n & (n - 1)))
        return fail(r, "'general.alignment' must be a u32, a power of two up to 2^20");
    *to = (uint64_t)n;
    return true;
}

/* Where the tensors' data are. offsets: of each. */
static bool place(struct reader *r, struct gguf *g, const uint64_t *offsets, uint64_t alignment)
{
    uint64_t header = (uint64_t)(r->at - g->map), begin = (header + alignment - 1) / alignment * alignment;
    uint64_t size = begin < g->size ? g->size - begin : 0;
    for (size_t i = 0; i < g->tensor_count; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        int n = shown(t->name);
        if (offsets[i] % alignment)
            return fail(r, "tensor '%.*s' is at offset %llu: must be a multiple of %llu", n, t->name.at,
                        (unsigned long long)offsets[i], (unsigned long long)alignment);
        if (offsets[i] > size || t->bytes > size - offsets[i])
            return fail(r, "tensor '%.*s' has %llu bytes at offset %llu: the file has %llu bytes of data", n,
                        t->name.at, (unsigned long long)t->bytes, (unsigned long long)offsets[i],
                        (unsigned long long)size);
        t->at = g->map + begin + offsets[i];
    }
    qsort(g->tensors, g->tensor_count, sizeof(*g->tensors), by_place);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (g->tensors[i].at < g->tensors[i - 1].at + g->tensors[i - 1].bytes)
            return fail(r, "tensor '%.*s' begins within '%.*s'", shown(g->tensors[i].name), g->tensors[i].name.at,
                        shown(g->tensors[i - 1].name), g->tensors[i - 1].name.at);
    qsort(g->tensors, g->tensor_count, sizeof(*g->tensors), by_name);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (!by_name(&g->tensors[i - 1], &g->tensors[i]))
            return fail(r, "tensor '%.*s' is there twice", shown(g->tensors[i].name), g->tensors[i].name.at);
    return true;
}

static bool take_all(struct reader *r, struct gguf *g)
{
    uint64_t tensors = 0, values = 0, alignment = 0, *offsets = NULL;
    if (!take_header(r, &tensors, &values) || !take_values(r, g, values) || !take_alignment(r, g, &alignment) ||
        !make_room(r, &g->tensors, tensors, sizeof(*g->tensors), 8 + 1 + 4 + 8 + 4 + 8, "tensors") ||
        !make_room(r, &offsets, tensors, sizeof(*offsets), 1, "tensors"))
        return false;
    bool good = true;
    for (; good && g->tensor_count < tensors; g->tensor_count += good)
        good = take_tensor(r, &g->tensors[g->tensor_count], &offsets[g->tensor_count], g->tensor_count);
    good = good && place(r, g, offsets, alignment);
    free(offsets);
    return good;
}

static bool map_file(struct reader *r, struct gguf *g)
{
    struct stat st;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail(r, "%m");
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        close(fd);
        return fail(r, "isn't a regular file that has bytes");
    }
    g->size = (size_t)st.st_size;
    g->map = mmap(NULL, g->size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (g->map == MAP_FAILED) {
        g->map = NULL;
        return fail(r, "can't be mapped: %m");
    }
    r->at = g->map;
    r->end = g->map + g->size;
    return true;
}

struct gguf *gguf_open(const char *path, char *error)
{
    struct reader r = { .path = path, .error = error };
    struct gguf *g = calloc(1, sizeof(*g));
    if (!g) {
        fail(&r, "out of memory");
        return NULL;
    }
    if (!map_file(&r, g) || !take_all(&r, g)) {
        gguf_close(g);
        return NULL;
    }
    return g;
}

void gguf_close(struct gguf *g)
{
    if (g->map)
        munmap(g->map, g->size);
    free(g->values);
    free(g->tensors);
    free(g);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    struct gguf_value wanted = { .key = { key, strlen(key) } };
    return bsearch(&wanted, g->values, g->value_count, sizeof(wanted), by_key);
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    struct gguf_tensor wanted = { .name = { name, strlen(name) } };
    return bsearch(&wanted, g->tensors, g->tensor_count, sizeof(wanted), by_name);
}

bool gguf_integer(const struct gguf_value *v, uint64_t i, int64_t *to)
{
    size_t size = kinds[v->kind].size;
    uint64_t bits = 0;
    if (v->kind == GGUF_F32 || v->kind == GGUF_F64 || !size || i >= v->count)
        return false;
    memcpy(&bits, v->at + i * size, size);
    int above = 64 - 8 * (int)size;
    bool is_signed = v->kind == GGUF_I8 || v->kind == GGUF_I16 || v->kind == GGUF_I32 || v->kind == GGUF_I64;
    *to = is_signed ? (int64_t)(bits << above) >> above : (int64_t)bits;
    return is_signed || bits <= INT64_MAX;
}

bool gguf_number(const struct gguf_value *v, uint64_t i, double *to)
{
    int64_t integer;
    float single;
    if (v->kind == GGUF_F32 && i < v->count) {
        memcpy(&single, v->at + i * sizeof(single), sizeof(single));
        *to = (double)single;
        return true;
    }
    if (v->kind == GGUF_F64 && i < v->count) {
        memcpy(to, v->at + i * sizeof(*to), sizeof(*to));
        return true;
    }
    bool is_integer = gguf_integer(v, i, &integer);
    if (is_integer)
        *to = (double)integer;
    return is_integer;
}

struct gguf_text gguf_next_string(const char **at)
{
    uint64_t size;
    memcpy(&size, *at, sizeof(size));
    struct gguf_text text = { *at + sizeof(size), (size_t)size };
    *at = text.at + size;
    return text;
}

struct gguf_text gguf_string(const struct gguf_value *v)
{
    const char *at = v->at;
    return gguf_next_string(&at);
}

bool gguf_is(struct gguf_text text, const char *literal)
{
    return text.size == strlen(literal) && !memcmp(text.at, literal, text.size);
}
