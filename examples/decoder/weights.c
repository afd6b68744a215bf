/* SPDX-License-Identifier: MIT
 *
 * Tensors by name, of files or of random numbers. */
#include "weights.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int bytes;
} dtypes[DTYPES] = { { "BF16", 2 }, { "F16", 2 }, { "F32", 4 }, { NULL, 0 }, { "U8", 1 }, { "F8_E4M3", 1 } };

enum dtype dtype_of(const char *name)
{
    int i = 0;
    while (i < DTYPES && (!dtypes[i].name || strcmp(dtypes[i].name, name)))
        i++;
    return (enum dtype)i;
}

int dtype_bytes(enum dtype dtype)
{
    return dtypes[dtype].bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

void weights_sort(struct weights *w)
{
    qsort(w->tensor, w->count, sizeof(*w->tensor), by_name);
}

struct tensor *weights_find(const struct weights *w, const char *name)
{
    struct tensor key = { .name = (char *)name };
    return bsearch(&key, w->tensor, w->count, sizeof(key), by_name);
}

struct tensor *weights_add(struct weights *w, const char *name)
{
    if ((w->count & (w->count - 1)) == 0) { /* 0, or a power of two: it is full */
        w->tensor = realloc(w->tensor, (w->count ? 2 * w->count : 1) * sizeof(*w->tensor));
        if (!w->tensor)
            die("out of memory: %zu tensors", w->count);
    }
    struct tensor *t = &w->tensor[w->count++];
    *t = (struct tensor){ .name = strdup(name), .file = w->files };
    return t;
}

void weights_add_file(struct weights *w, const char *name, char *map, size_t size)
{
    if (w->files == MOST_FILES)
        die("%s: the weights are in more than %d files", name, MOST_FILES);
    w->file[w->files].name = strdup(name);
    w->file[w->files].map = map;
    w->file[w->files++].size = size;
}

struct weights *weights_open(const char *path)
{
    struct weights *w = allocate(1, sizeof(*w));
    w->gguf = is_gguf(path);
    if (w->gguf)
        gguf_weights(w, path);
    else
        safetensors_open(w, path);
    weights_sort(w);
    for (size_t i = 1; i < w->count; i++)
        if (!strcmp(w->tensor[i - 1].name, w->tensor[i].name))
            die("%s: tensor '%s' is there twice", path, w->tensor[i].name);
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
    rfg_context_destroy(&w->host);
    free(w);
}

bool weights_has(const struct weights *w, const char *name)
{
    return w->random || weights_find(w, name);
}

/* Random blocks: where their fp16 scales are, and what codes times inner scales are about (rms). A block's minimum is so
 * many times its scale that the mean is 0. */
static const struct {
    rfg_dtype dtype;
    int elements, scale_at, min_at;
    double size, min;
} random_kinds[] = { { RFG_Q4_0, 32, 0, -1, 4.6, 0 },
                     { RFG_Q8_0, 32, 0, -1, 74, 0 },
                     { RFG_Q4_K, 256, 0, 2, 36 * 5.5, 7.5 },
                     { RFG_Q5_K, 256, 0, 2, 36 * 11, 15.5 },
                     { RFG_Q6_K, 256, 208, -1, 74 * 18, 0 } };
enum { RANDOM_KINDS = sizeof(random_kinds) / sizeof(random_kinds[0]) };

static int random_kind(const char *name)
{
    int i = 0;
    while (i < RANDOM_KINDS && strcmp(rfg_dtype_name(random_kinds[i].dtype), name))
        i++;
    return i;
}

void weights_random_blocks(struct weights *w, const char *type, int64_t layers)
{
    if (strcmp(type, "q4_k_m") && random_kind(type) == RANDOM_KINDS)
        die("--blocks '%s': must be q4_0, q8_0, q4_k, q5_k, q6_k or q4_k_m", type);
    w->random_blocks = type;
    w->layers = layers;
}

/* llama.cpp's Q4_K_M has v and down of the first and last eighth of layers, and of each third one between, in q6_k. */
static rfg_dtype random_blocks(const struct weights *w, const char *name)
{
    int layer = 0, eighth = (int)w->layers / 8;
    bool head = !strcmp(name, "lm_head.weight"), table = !strcmp(name, "model.embed_tokens.weight");
    if (!w->random_blocks || strstr(name, "experts") || (!head && !table && !strstr(name, "_proj.weight")))
        return RFG_DTYPE_NONE;
    if (strcmp(w->random_blocks, "q4_k_m"))
        return random_kinds[random_kind(w->random_blocks)].dtype;
    bool often = strstr(name, "v_proj") || strstr(name, "down_proj");
    sscanf(name, "model.layers.%d.", &layer);
    bool more = layer < eighth || layer >= 7 * (int)w->layers / 8 || (layer - eighth) % 3 == 2;
    return head || (often && more) ? RFG_Q6_K : RFG_Q4_K;
}

rfg_dtype weights_blocks(const struct weights *w, const char *name)
{
    if (w->random)
        return random_blocks(w, name);
    const struct tensor *t = weights_find(w, name);
    return t && t->dtype == BLOCKS ? t->blocks : RFG_DTYPE_NONE;
}

int64_t weights_decoded(const struct weights *w, int64_t *bytes)
{
    *bytes = w->decoded_bytes;
    return w->decoded;
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
    struct tensor *t = weights_find(w, name);
    if (!t)
        die("tensor '%s' is in none of the files", name);
    if (t->ndim < 0 || (must_be == DTYPES ? t->dtype > BLOCKS : t->dtype != must_be))
        die("%s: tensor '%s' must be %s, of one to %d dimensions", w->file[t->file].name, name,
            must_be != DTYPES ? dtypes[must_be].name
            : w->gguf         ? "BF16, F16, F32 or of blocks that rfg has"
                              : "BF16, F16 or F32",
            MOST_DIMS);
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
        die("%s: tensor '%s' has shape %s: %s for %s", w->file[t->file].name, name,
            shape_text(has, sizeof(has), t->ndim, t->shape), w->gguf ? "the file's values ask" : "config.json asks",
            shape_text(wants, sizeof(wants), ndim, shape));
    }
    return t;
}

static float float_at(const char *data, int64_t i)
{
    float f;
    memcpy(&f, data + i * 4, sizeof(f));
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
    const struct tensor *t = weights_find(w, name);
    if (!t || t->dtype != F8_E4M3 || !cols)
        return false;
    int64_t along = (cols + 127) / 128;
    snprintf(inv, sizeof(inv), "%s_scale_inv", name);
    const struct tensor *scales = use(w, inv, F32, 2, (int64_t[]){ (rows + 127) / 128, along });
    t = use(w, name, F8_E4M3, 2, (int64_t[]){ rows, cols });
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (first + i) / cols, col = (first + i) % cols;
        to[i] =
            to_bf16(e4m3_value((uint8_t)t->data[first + i]) * float_at(scales->data, row / 128 * along + col / 128));
    }
    return true;
}

/* How many elements from i on, of `most`, lie side by side in the file, from element *at of *data on. */
static int64_t side_by_side(const struct tensor *t, int64_t i, int64_t most, const char **data, int64_t *at)
{
    *data = t->data;
    *at = i;
    if (t->second) {
        *data = i & 1 ? t->second : t->data;
        *at = i / 2;
        return 1;
    }
    if (!t->turned)
        return most;
    int64_t width = t->ndim == 2 ? t->shape[1] : 1, row = i / width, half = t->turned / 2, in = row % t->turned;
    *at = (row - in + in % half * 2 + in / half) * width + i % width;
    return most < width - i % width ? most : width - i % width;
}

/* Elements of blocks, whole ones, on the host by rfg itself. */
static void decode_blocks(struct weights *w, rfg_dtype blocks, const char *data, int64_t at, int64_t n, rfg_dtype dtype,
                          void *to)
{
    if (!w->host)
        CHECK(
            rfg_context_create(&w->host, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu" }));
    size_t bytes = rfg_dtype_bytes(blocks, n);
    void *aligned = allocate(1, bytes); /* which a file's blocks needn't be */
    memcpy(aligned, data + (at ? rfg_dtype_bytes(blocks, at) : 0), bytes);
    int64_t block = 256, rows = n % block ? 1 : n / block; /* rows are shared out among threads */
    float one = 1;
    rfg_tensor y = rfg_tensor_2d(to, dtype, rows, n / rows, n / rows), scale = rfg_tensor_2d(&one, RFG_F32, 1, 1, 1);
    rfg_tensor q = rfg_tensor_2d(aligned, blocks, rows, n / rows, n / rows);
    CHECK(rfg_op_dequantize(w->host, &y, &q, &scale, NULL, NULL));
    CHECK(rfg_stream_sync(w->host, NULL));
    free(aligned);
}

/* Numbers of a file's kind as fp32; not of BLOCKS. */
static void widen(const struct tensor *t, const char *data, int64_t at, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        uint32_t bits;
        _Float16 f;
        if (t->dtype == F32) {
            to[i] = float_at(data, at + i);
            continue;
        }
        memcpy(&half, data + (at + i) * 2, sizeof(half));
        bits = (uint32_t)half << 16;
        if (t->dtype == BF16) {
            memcpy(&to[i], &bits, sizeof(bits));
        } else {
            memcpy(&f, &half, sizeof(f));
            to[i] = (float)f;
        }
    }
    for (int64_t i = 0; t->plus_one && i < n; i++)
        to[i] -= 1;
}

static uint16_t to_f16(float f)
{
    _Float16 half = (_Float16)f;
    uint16_t bits;
    memcpy(&bits, &half, sizeof(bits));
    return bits;
}

/* Through fp32, so many at a time. */
static void narrow(const struct tensor *t, const char *data, int64_t at, int64_t n, bool f16, uint16_t *to)
{
    enum { SOME = 1024 };
    float some[SOME];
    for (int64_t from = 0, count; from < n; from += count) {
        count = n - from < SOME ? n - from : SOME;
        widen(t, data, at + from, count, some);
        for (int64_t i = 0; i < count; i++)
            to[from + i] = f16 ? to_f16(some[i]) : to_bf16(some[i]);
    }
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
    enum dtype wanted = weights_dtype(w) == RFG_F16 ? F16 : BF16;
    if (!w->gguf && (t->dtype == F16) != (wanted == F16))
        die("%s: tensor '%s' must be %s, as the embedding is", w->file[t->file].name, name,
            wanted == F16 ? "F16" : "BF16 or F32");
    w->decoded += t->dtype == BLOCKS && first == 0;
    w->decoded_bytes += t->dtype == BLOCKS ? count * 2 : 0;
    for (int64_t i = 0, n, at; i < count; i += n) {
        const char *data;
        n = side_by_side(t, first + i, count - i, &data, &at);
        if (t->dtype == BLOCKS)
            decode_blocks(w, t->blocks, data, at, n, weights_dtype(w), to + i);
        else if (t->dtype == wanted && !t->plus_one)
            memcpy(to + i, data + at * 2, (size_t)n * 2);
        else
            narrow(t, data, at, n, wanted == F16, to + i);
    }
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

/* Rows of blocks of size about 1 / sqrt(cols): their codes and inner scales are any numbers. */
static void random_rows(const struct weights *w, const char *name, int64_t cols, int64_t first, int64_t count, char *to)
{
    int kind = random_kind(rfg_dtype_name(weights_blocks(w, name)));
    size_t row = rfg_dtype_bytes(random_kinds[kind].dtype, cols),
           block = rfg_dtype_bytes(random_kinds[kind].dtype, random_kinds[kind].elements);
    double scale = 1 / (random_kinds[kind].size * sqrt((double)cols));
    uint16_t halves[] = { to_f16((float)scale), to_f16((float)(scale * random_kinds[kind].min)) };
    random_bytes(w, name, false, first * (int64_t)row / 8 * 8, count * (int64_t)row, (uint8_t *)to);
    for (char *at = to; at < to + (size_t)count * row; at += block) {
        memcpy(at + random_kinds[kind].scale_at, &halves[0], sizeof(halves[0]));
        if (random_kinds[kind].min_at >= 0)
            memcpy(at + random_kinds[kind].min_at, &halves[1], sizeof(halves[1]));
    }
}

void weights_rows(struct weights *w, const char *name, int64_t rows, int64_t cols, int64_t first, int64_t count,
                  void *to)
{
    if (w->random) {
        random_rows(w, name, cols, first, count, to);
        return;
    }
    const struct tensor *t = use(w, name, BLOCKS, 2, (int64_t[]){ rows, cols });
    char *put = to;
    for (int64_t i = first * cols, n, at; i < (first + count) * cols; i += n) {
        const char *data;
        n = side_by_side(t, i, (first + count) * cols - i, &data, &at);
        size_t bytes = rfg_dtype_bytes(t->blocks, n);
        memcpy(put, data + (at ? rfg_dtype_bytes(t->blocks, at) : 0), bytes);
        put += bytes;
    }
}

void weights_floats(struct weights *w, const char *name, int64_t rows, int64_t cols, double mean, double spread,
                    float *to)
{
    int64_t count = rows * (cols ? cols : 1);
    if (w->random) {
        uint16_t *half = allocate((size_t)count, sizeof(*half));
        const struct tensor t = { .dtype = BF16 };
        get_random(w, name, mean, spread, 0, count, half);
        widen(&t, (const char *)half, 0, count, to);
        free(half);
        return;
    }
    const struct tensor *t = use(w, name, DTYPES, cols ? 2 : 1, (int64_t[]){ rows, cols });
    for (int64_t i = 0, n, at; i < count; i += n) {
        const char *data;
        n = side_by_side(t, i, count - i, &data, &at);
        if (t->dtype == BLOCKS)
            decode_blocks(w, t->blocks, data, at, n, RFG_F32, to + i);
        else
            widen(t, data, at, n, to + i);
    }
}

/* Bytes of gpt-oss' tensors, which .gguf files have as blocks: a scale, and 16 bytes of which byte i has elements i and
 * i + 16. "_blocks" [E, rows, groups, 16] have elements 2i and 2i + 1 in a byte; "_scales" are [E, rows, groups]. */
static void mxfp4_part(const struct tensor *t, int64_t first, int64_t count, uint8_t *to)
{
    bool scales = t->ndim == 3;
    int64_t groups = t->shape[2], size = (int64_t)rfg_dtype_bytes(t->blocks, 32);
    for (int64_t i = 0; i < count; i++) {
        int64_t block = scales ? first + i : (first + i) / 16, row = block / groups, byte = (first + i) % 16;
        const char *from = t->data;
        if (t->second) {
            from = row & 1 ? t->second : t->data;
            row /= 2;
        }
        const uint8_t *b = (const uint8_t *)from + (row * groups + block % groups) * size, *codes = b + 1;
        int shift = byte < 8 ? 0 : 4, pair = (int)(byte % 8) * 2;
        to[i] = scales ? b[0] : (uint8_t)((codes[pair] >> shift & 15) | (codes[pair + 1] >> shift & 15) << 4);
    }
}

void weights_bytes(struct weights *w, const char *name, const char *dtype, int ndim, const int64_t *shape,
                   int64_t first, int64_t count, uint8_t *to)
{
    enum dtype is = dtype_of(dtype);
    if (w->random) {
        random_bytes(w, name, is == F8_E4M3, first, count, to);
        return;
    }
    const struct tensor *t = use(w, name, is, ndim, shape);
    if (t->blocks)
        mxfp4_part(t, first, count, to);
    else
        memcpy(to, t->data + first, (size_t)count);
}
