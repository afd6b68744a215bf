/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a .gguf file, and text to ids and back. A byte-level BPE's tokens are written with a character for
 * each byte, which is undone when they are read; its merges are pairs of tokens, the first ones first. SentencePiece's
 * have scores, any two neighbours that make a token are a pair, and the larger score goes first. */
#include "tokens.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"

/* tokenizer.ggml.token_type */
enum kind { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct token {
    struct gguf_text text; /* what it stands for; of special ones, how a text spells them */
    float score;
    uint8_t kind;
};

/* An open table of 2^bits places; -1: empty. */
struct table {
    int32_t *at;
    int bits;
};

struct merge {
    int32_t left, right, result;
};

struct tokens {
    const char *path;
    char *error; /* while it is opened */
    bool scored; /* SentencePiece */
    enum splitter splitter;
    bool whole_words;   /* a piece that is a token is that one, whatever the merges */
    bool space_first;   /* SentencePiece: a text has a space in front */
    int32_t begin;      /* in front of each text; -1: none */
    int32_t unknown;    /* -1: none */
    int32_t bytes[256]; /* the token of each byte, or -1 */
    struct token *token;
    int64_t count;
    char *pool; /* texts that aren't the file's */
    struct table by_text, by_pair;
    struct merge *merges;
    int64_t merge_count;
    int32_t *special; /* by first byte, then length, the longest first */
    int64_t special_count, special_from[257];
};

__attribute__((format(printf, 2, 3))) static bool fail(const struct tokens *t, const char *format, ...)
{
    va_list args;
    int n = snprintf(t->error, GGUF_ERROR, "%.200s: ", t->path);
    va_start(args, format);
    vsnprintf(t->error + n, (size_t)(GGUF_ERROR - n), format, args);
    va_end(args);
    return false;
}

static int shown(struct gguf_text text)
{
    return text.size < 80 ? (int)text.size : 80;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static struct table make_table(int64_t entries)
{
    struct table t = { .bits = 4 };
    while ((int64_t)1 << t.bits < 2 * entries)
        t.bits++;
    t.at = allocate((size_t)1 << t.bits, sizeof(*t.at));
    memset(t.at, 0xff, sizeof(*t.at) << t.bits);
    return t;
}

static size_t place_of(const struct table *t, uint64_t hash)
{
    return (size_t)(hash * 0x9e3779b97f4a7c15 >> (64 - t->bits));
}

static size_t next_place(const struct table *t, size_t i)
{
    return (i + 1) & (((size_t)1 << t->bits) - 1);
}

/* The place of a text: its token's, or the empty one where it would be. */
static int32_t *find_text(const struct tokens *t, const char *at, size_t size)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)at[i]) * 0x100000001b3;
    size_t i = place_of(&t->by_text, h);
    for (; t->by_text.at[i] >= 0; i = next_place(&t->by_text, i)) {
        struct gguf_text text = t->token[t->by_text.at[i]].text;
        if (text.size == size && !memcmp(text.at, at, size))
            break;
    }
    return &t->by_text.at[i];
}

static int32_t *find_pair(const struct tokens *t, int32_t left, int32_t right)
{
    size_t i = place_of(&t->by_pair, ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0xbf58476d1ce4e5b9);
    while (t->by_pair.at[i] >= 0 &&
           (t->merges[t->by_pair.at[i]].left != left || t->merges[t->by_pair.at[i]].right != right))
        i = next_place(&t->by_pair, i);
    return &t->by_pair.at[i];
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The byte that a character of byte-level BPE stands for, or -1: printable ones of Latin-1 are themselves, the other
 * bytes are the characters from 256 on, in order. */
static int byte_of(uint32_t c)
{
    static int16_t others[68];
    if (!others[1]) /* 0, 1, ... 32, 127, ..., of which the first is 0 */
        for (int b = 0, n = 0; b < 256; b++)
            if (b < 33 || (b > 126 && b < 161) || b == 173)
                others[n++] = (int16_t)b;
    if (c >= 256)
        return c < 256 + 68 ? others[c - 256] : -1;
    return c < 33 || (c > 126 && c < 161) || c == 173 ? -1 : (int)c;
}

/* Bytes of byte-level characters; those of others stay. */
static size_t unwrap(struct gguf_text text, char *to)
{
    size_t size = 0;
    for (size_t i = 0, n; i < text.size; i += n) {
        const unsigned char *b = (const unsigned char *)text.at + i;
        n = utf8_size(text.at + i, text.size - i);
        int byte = n == 1 ? byte_of(b[0]) : n == 2 ? byte_of((b[0] & 31u) << 6 | (b[1] & 63u)) : -1;
        if (byte >= 0 && (n == 2 || b[0] < 0x80)) {
            to[size++] = (char)byte;
        } else {
            memcpy(to + size, b, n);
            size += n;
        }
    }
    return size;
}

/* SentencePiece's: U+2581 is a space, and <0x41> a byte. */
static size_t unescape(struct gguf_text text, bool is_byte, char *to)
{
    size_t size = 0;
    if (is_byte && text.size == 6) {
        *to = (char)strtoul(text.at + 3, NULL, 16);
        return 1;
    }
    for (size_t i = 0; i < text.size;) {
        bool space = text.size - i >= 3 && !memcmp(text.at + i, "\xe2\x96\x81", 3);
        to[size++] = space ? ' ' : text.at[i];
        i += space ? 3 : 1;
    }
    return size;
}

static bool is_byte_text(struct gguf_text t)
{
    return t.size == 6 && !memcmp(t.at, "<0x", 3) && t.at[5] == '>' && strspn(t.at + 3, "0123456789abcdefABCDEF") == 2;
}

/* An array of `count` elements of a kind; NULL: there is none, unless it must be. */
static bool array(const struct tokens *t, const struct gguf *g, const char *key, enum gguf_kind kind, uint64_t count,
                  const struct gguf_value **to)
{
    *to = gguf_find(g, key);
    if (!*to)
        return true;
    if (!(*to)->array || (*to)->kind != kind)
        return fail(t, "'%s' must be an array of %s", key,
                    kind == GGUF_STRING ? "strings"
                    : kind == GGUF_F32  ? "f32"
                                        : "i32");
    if (count && (*to)->count != count)
        return fail(t, "'%s' has %llu elements: must be %llu, as many as 'tokenizer.ggml.tokens' has", key,
                    (unsigned long long)(*to)->count, (unsigned long long)count);
    return true;
}

static bool read_vocabulary(struct tokens *t, const struct gguf *g)
{
    const struct gguf_value *texts, *scores, *kinds;
    if (!array(t, g, "tokenizer.ggml.tokens", GGUF_STRING, 0, &texts))
        return false;
    if (!texts || texts->count < 1 || texts->count > 1 << 24)
        return fail(t, "'tokenizer.ggml.tokens' must have 1 to 2^24 tokens, and %s", texts ? "hasn't" : "is missing");
    t->count = (int64_t)texts->count;
    if (!array(t, g, "tokenizer.ggml.scores", GGUF_F32, texts->count, &scores) ||
        !array(t, g, "tokenizer.ggml.token_type", GGUF_I32, texts->count, &kinds))
        return false;
    if (t->scored && !scores)
        return fail(t, "'tokenizer.ggml.scores' is missing: tokens of 'llama' must have scores");
    t->token = allocate((size_t)t->count, sizeof(*t->token));
    const char *at = texts->at;
    size_t bytes = 0;
    for (int64_t i = 0; i < t->count; i++)
        bytes += gguf_next_string(&at).size;
    t->pool = allocate(bytes, 1);
    at = texts->at;
    bytes = 0;
    for (int64_t i = 0; i < t->count; i++) {
        struct token *token = &t->token[i];
        struct gguf_text text = gguf_next_string(&at);
        int64_t kind = NORMAL;
        double score = 0;
        if (kinds)
            gguf_integer(kinds, (uint64_t)i, &kind);
        if (scores)
            gguf_number(scores, (uint64_t)i, &score);
        if (isnan(score))
            return fail(t, "'tokenizer.ggml.scores': token %lld's score is no number", (long long)i);
        if (kind < 0 || kind > BYTE)
            return fail(t, "'tokenizer.ggml.token_type': token %lld is of type %lld: must be 0 to %d", (long long)i,
                        (long long)kind, BYTE);
        if (kind == BYTE && !is_byte_text(text))
            return fail(t, "token %lld is a byte, and '%.*s': must be <0x00> to <0xFF>", (long long)i, shown(text),
                        text.at);
        *token = (struct token){ text, (float)score, (uint8_t)kind };
        if (kind == CONTROL || kind == UNKNOWN || (kind == USER_DEFINED && !t->scored))
            continue;
        token->text.at = t->pool + bytes;
        token->text.size = t->scored ? unescape(text, kind == BYTE, t->pool + bytes) : unwrap(text, t->pool + bytes);
        bytes += token->text.size;
    }
    return true;
}

/* Which tokens text may become by itself, and those of single bytes. */
static void index_texts(struct tokens *t)
{
    t->by_text = make_table(t->count);
    memset(t->bytes, 0xff, sizeof(t->bytes));
    for (int64_t i = 0; i < t->count; i++) {
        const struct token *token = &t->token[i];
        if (token->text.size == 1 && (t->scored ? token->kind == BYTE : token->kind <= NORMAL))
            t->bytes[(unsigned char)*token->text.at] = (int32_t)i;
        if (token->kind == CONTROL || token->kind == UNKNOWN || token->kind == BYTE || !token->text.size)
            continue;
        int32_t *place = find_text(t, token->text.at, token->text.size);
        if (*place < 0)
            *place = (int32_t)i;
    }
}

static bool read_merges(struct tokens *t, const struct gguf *g)
{
    const struct gguf_value *texts;
    if (!array(t, g, "tokenizer.ggml.merges", GGUF_STRING, 0, &texts))
        return false;
    bool longer = false;
    for (int64_t i = 0; !texts && i < t->count; i++)
        longer = longer || (t->token[i].kind <= NORMAL && t->token[i].text.size > 1);
    if (longer)
        return fail(t, "'tokenizer.ggml.merges' is missing: tokens of more than a byte must have merges");
    if (texts && texts->count > 1 << 26)
        return fail(t, "'tokenizer.ggml.merges' has %llu merges: must be at most 2^26",
                    (unsigned long long)texts->count);
    t->by_pair = make_table(texts ? (int64_t)texts->count : 0);
    if (!texts)
        return true;
    t->merges = allocate((size_t)texts->count, sizeof(*t->merges));
    const char *at = texts->at;
    for (uint64_t i = 0; i < texts->count; i++) {
        struct gguf_text text = gguf_next_string(&at);
        const char *space = text.size > 1 ? memchr(text.at + 1, ' ', text.size - 1) : NULL;
        if (!space || text.size > 4096)
            return fail(t, "'tokenizer.ggml.merges': merge %llu is '%.*s': must be two tokens with a space between",
                        (unsigned long long)i, shown(text), text.at);
        char both[4096];
        size_t left = unwrap((struct gguf_text){ text.at, (size_t)(space - text.at) }, both);
        size_t right = unwrap((struct gguf_text){ space + 1, (size_t)(text.at + text.size - space - 1) }, both + left);
        struct merge *m = &t->merges[i];
        *m = (struct merge){ *find_text(t, both, left), *find_text(t, both + left, right),
                             *find_text(t, both, left + right) };
        if (m->left < 0 || m->right < 0 || m->result < 0)
            return fail(t, "'tokenizer.ggml.merges': merge %llu is '%.*s': both and what they become must be tokens",
                        (unsigned long long)i, shown(text), text.at);
        int32_t *place = find_pair(t, m->left, m->right);
        if (*place < 0)
            *place = (int32_t)i;
    }
    t->merge_count = (int64_t)texts->count;
    return true;
}

/* An id, or -1. */
static bool read_id(const struct tokens *t, const struct gguf *g, const char *key, int32_t *to)
{
    const struct gguf_value *v = gguf_find(g, key);
    int64_t n = -1;
    if (v && (v->array || !gguf_integer(v, 0, &n) || n < 0 || n >= t->count))
        return fail(t, "'%s' must be an integer, and one of %lld tokens", key, (long long)t->count);
    *to = (int32_t)n;
    return true;
}

static bool read_bool(const struct tokens *t, const struct gguf *g, const char *key, bool *to)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (v && (v->array || v->kind != GGUF_BOOL))
        return fail(t, "'%s' must be a bool", key);
    *to = v ? *v->at : *to;
    return true;
}

/* How text is cut before merges, by the name of a model that is cut so. */
static bool read_splitter(struct tokens *t, const struct gguf *g)
{
    static const struct {
        const char *name;
        enum splitter splitter;
    } known[] = { { "gpt-2", SPLIT_GPT2 },      { "llama-bpe", SPLIT_LLAMA3 }, { "llama3", SPLIT_LLAMA3 },
                  { "llama-v3", SPLIT_LLAMA3 }, { "qwen2", SPLIT_QWEN2 },      { "deepseek-r1-qwen", SPLIT_QWEN2 },
                  { "gpt-4o", SPLIT_GPT4O } };
    enum { KNOWN = sizeof(known) / sizeof(known[0]) };
    const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.pre");
    if (!v || v->array || v->kind != GGUF_STRING)
        return fail(t, "'tokenizer.ggml.pre' must be a string, and %s: how text is cut isn't known",
                    v ? "isn't" : "is missing");
    struct gguf_text name = gguf_string(v);
    for (int i = 0; i < KNOWN; i++)
        if (gguf_is(name, known[i].name)) {
            t->splitter = known[i].splitter;
            return true;
        }
    return fail(t,
                "'tokenizer.ggml.pre' is '%.*s': must be gpt-2, llama-bpe, llama3, llama-v3, qwen2, deepseek-r1-qwen "
                "or gpt-4o",
                shown(name), name.at);
}

/* qsort() takes no argument. */
struct spelling {
    struct gguf_text text;
    int32_t id;
};

static int by_byte_and_length(const void *a, const void *b)
{
    const struct spelling *x = a, *y = b;
    int first = (unsigned char)*x->text.at - (unsigned char)*y->text.at;
    if (first)
        return first;
    return x->text.size != y->text.size ? (x->text.size < y->text.size) - (x->text.size > y->text.size) : x->id - y->id;
}

static void index_special(struct tokens *t)
{
    struct spelling *all = allocate((size_t)t->count, sizeof(*all));
    for (int64_t i = 0; i < t->count; i++)
        if ((t->token[i].kind == CONTROL || t->token[i].kind == USER_DEFINED) && t->token[i].text.size)
            all[t->special_count++] = (struct spelling){ t->token[i].text, (int32_t)i };
    qsort(all, (size_t)t->special_count, sizeof(*all), by_byte_and_length);
    t->special = allocate((size_t)t->special_count, sizeof(*t->special));
    for (int64_t i = 0; i < t->special_count; i++) {
        t->special[i] = all[i].id;
        t->special_from[(unsigned char)*all[i].text.at + 1]++;
    }
    for (int b = 0; b < 256; b++)
        t->special_from[b + 1] += t->special_from[b];
    free(all);
}

static bool read_all(struct tokens *t, const struct gguf *g)
{
    const struct gguf_value *model = gguf_find(g, "tokenizer.ggml.model");
    if (!model || model->array || model->kind != GGUF_STRING)
        return fail(t, "'tokenizer.ggml.model' must be a string, and %s", model ? "isn't" : "is missing");
    struct gguf_text name = gguf_string(model);
    t->scored = gguf_is(name, "llama");
    if (!t->scored && !gguf_is(name, "gpt2"))
        return fail(t, "'tokenizer.ggml.model' is '%.*s': must be gpt2 or llama", shown(name), name.at);
    if ((!t->scored && !read_splitter(t, g)) || !read_vocabulary(t, g))
        return false;
    index_texts(t);
    index_special(t);
    t->whole_words = !t->scored && t->splitter == SPLIT_LLAMA3;
    t->space_first = t->scored;
    bool begins = t->scored || t->splitter == SPLIT_LLAMA3;
    if ((!t->scored && !read_merges(t, g)) || !read_bool(t, g, "tokenizer.ggml.add_bos_token", &begins) ||
        !read_bool(t, g, "tokenizer.ggml.add_space_prefix", &t->space_first) ||
        !read_id(t, g, "tokenizer.ggml.bos_token_id", &t->begin) ||
        !read_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unknown))
        return false;
    t->space_first = t->space_first && t->scored;
    t->begin = begins ? t->begin : -1;
    return true;
}

struct tokens *tokens_open(const struct gguf *g, const char *path, char *error)
{
    struct tokens *t = allocate(1, sizeof(*t));
    t->path = path;
    t->error = error;
    if (read_all(t, g))
        return t;
    tokens_close(t);
    return NULL;
}

void tokens_close(struct tokens *t)
{
    free(t->token);
    free(t->pool);
    free(t->by_text.at);
    free(t->by_pair.at);
    free(t->merges);
    free(t->special);
    free(t);
}

int64_t tokens_count(const struct tokens *t)
{
    return t->count;
}

/* ---- text to ids ------------------------------------------------------------------------------------------------- */

struct output {
    int32_t *ids;
    int64_t count;
};

/* The longest special token that a text begins with, or -1. */
static int32_t special_at(const struct tokens *t, const char *text, size_t size)
{
    int b = (unsigned char)*text;
    for (int64_t i = t->special_from[b]; i < t->special_from[b + 1]; i++) {
        struct gguf_text s = t->token[t->special[i]].text;
        if (s.size <= size && !memcmp(s.at, text, s.size))
            return t->special[i];
    }
    return -1;
}

static int32_t by_rank(const struct tokens *t, const struct symbol *left, const struct symbol *right, double *priority)
{
    int32_t merge = left->id < 0 || right->id < 0 ? -1 : *find_pair(t, left->id, right->id);
    if (merge < 0)
        return -1;
    *priority = merge;
    return t->merges[merge].result;
}

static int32_t by_score(const struct tokens *t, const struct symbol *left, const struct symbol *right, double *priority)
{
    int32_t id = *find_text(t, left->at, left->size + right->size); /* they are neighbours */
    if (id >= 0)
        *priority = -(double)t->token[id].score;
    return id;
}

/* Text that has no token becomes those of its bytes, or the unknown one. */
static void put_bytes(const struct tokens *t, const char *text, size_t size, struct output *out)
{
    bool all = true;
    for (size_t i = 0; i < size; i++)
        all = all && t->bytes[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; all && i < size; i++)
        out->ids[out->count++] = t->bytes[(unsigned char)text[i]];
    if (!all && t->unknown >= 0)
        out->ids[out->count++] = t->unknown;
}

/* Text within which anything may merge. */
static void encode_piece(const struct tokens *t, const char *text, size_t size, struct output *out)
{
    int32_t whole = t->whole_words ? *find_text(t, text, size) : -1;
    if (whole >= 0) {
        out->ids[out->count++] = whole;
        return;
    }
    struct symbol *symbols = allocate(size, sizeof(*symbols));
    size_t count = 0;
    for (size_t i = 0, n; i < size; i += n, count++) {
        n = t->scored ? utf8_size(text + i, size - i) : 1;
        int32_t id = t->scored ? *find_text(t, text + i, n) : t->bytes[(unsigned char)text[i]];
        symbols[count] = (struct symbol){ text + i, n, id, (int64_t)count - 1, i + n < size ? (int64_t)count + 1 : -1 };
    }
    merge_symbols(t, t->scored ? by_score : by_rank, symbols, count);
    for (size_t i = 0; i < count; i++)
        if (symbols[i].size && symbols[i].id >= 0)
            out->ids[out->count++] = symbols[i].id;
        else if (symbols[i].size)
            put_bytes(t, symbols[i].at, symbols[i].size, out);
    free(symbols);
}

/* Text without special tokens. */
static void encode_text(const struct tokens *t, const char *text, size_t size, bool space_first, struct output *out)
{
    if (!size)
        return;
    if (t->scored) {
        char *copy = allocate(size + 1, 1);
        *copy = ' ';
        size = unescape((struct gguf_text){ text, size }, false, copy + space_first); /* as SentencePiece reads it */
        encode_piece(t, copy, size + space_first, out);
        free(copy);
        return;
    }
    for (size_t at = 0, n; at < size; at += n) {
        n = split_next(t->splitter, text + at, size - at);
        encode_piece(t, text + at, n, out);
    }
}

int32_t *tokens_encode(const struct tokens *t, const char *text, size_t size, int64_t *count)
{
    /* A byte is a token at most; and there may be a space, and what begins. */
    struct output out = { .ids = allocate(2 * size + 2, sizeof(*out.ids)) };
    size_t from = 0;
    bool after_special = true; /* llama.cpp: what follows a special token begins with a space, too */
    if (t->begin >= 0)
        out.ids[out.count++] = t->begin;
    for (size_t at = 0; at < size;) {
        int32_t special = special_at(t, text + at, size - at);
        if (special < 0) {
            at++;
            continue;
        }
        encode_text(t, text + from, at - from, t->space_first && after_special, &out);
        out.ids[out.count++] = special;
        after_special = t->token[special].kind == CONTROL;
        at += t->token[special].text.size;
        from = at;
    }
    encode_text(t, text + from, size - from, t->space_first && after_special, &out);
    *count = out.count;
    return out.ids;
}

struct gguf_text tokens_decode(const struct tokens *t, int64_t id)
{
    static const struct gguf_text nothing = { "", 0 };
    if (id < 0 || id >= t->count || t->token[id].kind == CONTROL || t->token[id].kind == UNKNOWN)
        return nothing;
    return t->token[id].text;
}
