/* SPDX-License-Identifier: MIT
 *
 * The decoder's .gguf files: what is read is what was written; damaged ones are refused with the rule that they break;
 * and the tokenizer in them gives what others make of the same text (tokens_vectors.inc). */
#include <math.h>

#include "base/util.h"
#include "examples/decoder/gguf.h"
#include "examples/decoder/tokens.h"
#include "tests/gguf_file.h"
#include "tests/program.h"
#include "tests/suite.h"
#include "tokens_vectors.inc"

enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

/* ---- files ------------------------------------------------------------------------------------------------------ */

static const int64_t shape[] = { 3, 64 };
static float numbers[3 * 64];

static struct gguf_file some_file(void)
{
    struct gguf_file f = { 0 };
    const char *const two[] = { "one", "" };
    for (int i = 0; i < 3 * 64; i++)
        numbers[i] = (float)i;
    gguf_u32(&f, "value.b", 0xfffffffe);
    gguf_texts(&f, "value.a", two, 2);
    gguf_f32(&f, "value.d", 0.5);
    gguf_bool(&f, "value.c", 1);
    gguf_add(&f, "tensor.y", 8, 2, shape, NULL, 3 * 2 * 34);
    gguf_add(&f, "tensor.x", 0, 2, shape, numbers, sizeof(numbers));
    return f;
}

START_TEST(reads)
{
    char error[GGUF_ERROR] = "";
    struct gguf_file f = some_file();
    gguf_write("file", gguf_join(&f));
    gguf_free(&f);
    struct gguf *g = gguf_open("file", error);
    ck_assert_msg(g != NULL, "%s", error);
    ck_assert_uint_eq(g->value_count, 4);
    int64_t integer;
    double d;
    ck_assert(gguf_integer(gguf_find(g, "value.b"), 0, &integer) && integer == 0xfffffffe);
    ck_assert(gguf_number(gguf_find(g, "value.b"), 0, &d) && d == 0xfffffffe);
    ck_assert(gguf_number(gguf_find(g, "value.d"), 0, &d) && d == 0.5);
    ck_assert(!gguf_integer(gguf_find(g, "value.d"), 0, &integer) &&
              !gguf_integer(gguf_find(g, "value.a"), 0, &integer));
    ck_assert(!gguf_number(gguf_find(g, "value.d"), 1, &d));
    ck_assert_ptr_null(gguf_find(g, "value.e"));
    const struct gguf_value *a = gguf_find(g, "value.a");
    ck_assert(a->array && a->kind == GGUF_STRING && a->count == 2);
    const char *at = a->at;
    ck_assert(gguf_is(gguf_next_string(&at), "one") && gguf_next_string(&at).size == 0);
    const struct gguf_tensor *x = gguf_find_tensor(g, "tensor.x"), *y = gguf_find_tensor(g, "tensor.y");
    ck_assert(x && y && x->ndim == 2 && x->shape[0] == 3 && x->shape[1] == 64);
    ck_assert(x->type == 0 && x->bytes == sizeof(numbers) && !memcmp(x->at, numbers, sizeof(numbers)));
    ck_assert(y->type == 8 && y->bytes == 3 * 2 * 34);
    ck_assert_ptr_null(gguf_find_tensor(g, "tensor.z"));
    gguf_close(g);
}
END_TEST

/* A number of `size` bytes is put so many bytes behind the first place of a text. */
static const struct {
    const char *text;
    size_t behind, size;
    uint64_t number;
    const char *says;
} damages[] = {
    { "GGUF", 0, 4, 1, "its version is 1: must be 2 or 3" },
    { "GGUF", 0, 4, 0x03000000, "it is a big-endian file" },
    { "GGU", 0, 1, 'X', "its first bytes are 47 47 55 58: must be 'GGUF'" },
    { "GGUF", 4, 8, 1ull << 60, "it has 1152921504606846976 tensors of" },
    { "GGUF", 12, 8, 1ull << 60, "it has 1152921504606846976 values of" },
    { "GGUF", 12, 8, 5, "the name of tensor 0 has" },
    { "GGUF", 12, 8, 0, "tensor 'value.b' is of type" },
    { "value.b", 0, 4, 13, "'value.b' is of kind 13: must be 0 to 12" },
    { "value.a", 4, 4, 9, "'value.a''s element is of kind 9: must be 0 to 12, and no array" },
    { "value.a", 8, 8, 1ull << 60, "'value.a' has 1152921504606846976 elements of 8 bytes or more" },
    { "value.a", 16, 8, 1ull << 60, "string 0 of 'value.a' has 1152921504606846976 bytes" },
    { "value.a", 16, 8, UINT64_MAX, "string 0 of 'value.a' has 18446744073709551615 bytes" },
    { "value.", 0, 1, 0, "the key of value 0 'value.' has a byte that is 0" },
    { "value.c", 4, 1, 2, "'value.c' is 2: a bool must be 0 or 1" },
    { "tensor.y", 0, 4, 0, "tensor 'tensor.y' has 0 dimensions: must be 1 to 4" },
    { "tensor.y", 0, 4, 5, "tensor 'tensor.y' has 5 dimensions: must be 1 to 4" },
    { "tensor.y", 4, 8, 65, "tensor 'tensor.y' has rows of 65 elements: must be a multiple of 32, a block of Q8_0" },
    { "tensor.y", 4, 8, 0, "tensor 'tensor.y' has a dimension of 0" },
    { "tensor.y", 12, 8, 542551296285575048, /* times 34: 2^64 and 16 */
      "tensor 'tensor.y' has more bytes than 64 bits count: its shape overflows" },
    { "tensor.y", 12, 8, 1ull << 56, "bytes at offset 0: the file has" },
    { "tensor.y", 12, 8, UINT64_MAX, "must be 1 to 2^63 - 1" },
    { "tensor.y", 20, 4, 4, "tensor 'tensor.y' is of type 4, which isn't known here" },
    { "tensor.y", 20, 4, 1000000, "tensor 'tensor.y' is of type 1000000, which isn't known here" },
    { "tensor.y", 24, 8, 16, "tensor 'tensor.y' is at offset 16: must be a multiple of 32" },
    { "tensor.y", 24, 8, 1ull << 40, "tensor 'tensor.y' has 204 bytes at offset 1099511627776" },
    { "tensor.y", 24, 8, UINT64_MAX - 31, "tensor 'tensor.y' has 204 bytes at offset" },
    { "tensor.y", 24, 8, 256, "tensor 'tensor.y' begins within 'tensor.x'" },
};

START_TEST(damaged)
{
    char error[GGUF_ERROR] = "";
    struct gguf_file f = some_file();
    struct gguf_bytes b = gguf_join(&f);
    char *at = memmem(b.at, b.size, damages[_i].text, strlen(damages[_i].text));
    ck_assert_ptr_nonnull(at);
    memcpy(at + strlen(damages[_i].text) + damages[_i].behind, &damages[_i].number, damages[_i].size);
    gguf_write("file", b);
    gguf_free(&f);
    ck_assert_ptr_null(gguf_open("file", error));
    PRINTS(error, damages[_i].says);
    ck_assert_msg(!strncmp(error, "file: ", 6) && !strchr(error, '\n'), "'%s'", error);
}
END_TEST

/* However short it is cut, it is refused. */
START_TEST(truncated)
{
    char error[GGUF_ERROR] = "";
    struct gguf_file f = some_file();
    struct gguf_bytes whole = gguf_join(&f);
    size_t size = whole.size;
    free(whole.at);
    for (size_t n = 0; n < size; n++) {
        struct gguf_bytes b = gguf_join(&f);
        b.size = n;
        gguf_write("file", b);
        ck_assert_msg(!gguf_open("file", error), "%zu of %zu bytes", n, size);
        ck_assert_msg(!strncmp(error, "file: ", 6), "'%s'", error);
    }
    gguf_free(&f);
}
END_TEST

START_TEST(twice)
{
    char error[GGUF_ERROR] = "";
    struct gguf_file f = some_file();
    gguf_u32(&f, "value.b", 1);
    gguf_write("file", gguf_join(&f));
    gguf_free(&f);
    ck_assert_ptr_null(gguf_open("file", error));
    PRINTS(error, "the key 'value.b' is there twice");
    f = some_file();
    gguf_add(&f, "tensor.x", 0, 2, shape, NULL, sizeof(numbers));
    gguf_write("file", gguf_join(&f));
    gguf_free(&f);
    ck_assert_ptr_null(gguf_open("file", error));
    PRINTS(error, "tensor 'tensor.x' is there twice");
    static const uint32_t alignments[] = { 0, 48, 1 << 21 };
    for (size_t i = 0; i < LENGTH(alignments); i++) {
        f = some_file();
        gguf_u32(&f, "general.alignment", alignments[i]);
        gguf_write("file", gguf_join(&f));
        gguf_free(&f);
        ck_assert_ptr_null(gguf_open("file", error));
        PRINTS(error, "'general.alignment' must be a u32, a power of two up to 2^20");
    }
    ck_assert_ptr_null(gguf_open("nowhere", error));
    PRINTS(error, "nowhere: No such file");
    ck_assert_ptr_null(gguf_open(".", error));
    PRINTS(error, "isn't a regular file");
}
END_TEST

/* ---- the tokenizer ---------------------------------------------------------------------------------------------- */

static const char *const splitters[] = { "gpt-2", "llama-bpe", "qwen2", "gpt-4o" };
static const int16_t *const pieces[] = { gpt_2_pieces, llama_bpe_pieces, qwen2_pieces, gpt_4o_pieces };
static const int16_t *const ids[] = { gpt_2_ids, llama_bpe_ids, qwen2_ids, gpt_4o_ids, spm_space_ids, spm_ids };

START_TEST(splits)
{
    const int16_t *want = pieces[_i];
    for (int n = 0; n < COUNT; n++) {
        const struct text *x = &texts[n];
        size_t at = 0;
        for (int i = *want++; i > 0; i--) {
            size_t size = split_next((enum splitter)_i, x->text + at, x->size - at);
            ck_assert_msg((int)size == *want, "%s: text %d, '%s', from byte %zu on: %zu bytes, not %d", splitters[_i],
                          n, x->text, at, size, *want);
            at += size;
            want++;
        }
        ck_assert_uint_eq(at, x->size);
    }
}
END_TEST

static void put_bpe(struct gguf_file *f, const char *splitter)
{
    uint32_t count = LENGTH(bpe_tokens);
    gguf_text(f, "tokenizer.ggml.model", "gpt2");
    gguf_text(f, "tokenizer.ggml.pre", splitter);
    gguf_texts(f, "tokenizer.ggml.tokens", bpe_tokens, count);
    gguf_texts(f, "tokenizer.ggml.merges", bpe_merges, LENGTH(bpe_merges));
    gguf_array(f, "tokenizer.ggml.token_type", GGUF_I32, count);
    for (uint32_t i = 0; i < count; i++) {
        int32_t kind = !strncmp(bpe_tokens[i], "<|", 2) && bpe_tokens[i][2] ? 3 : 1;
        gguf_put(&f->value, &kind, sizeof(kind));
    }
}

static void put_spm(struct gguf_file *f, bool space)
{
    uint32_t count = LENGTH(spm_tokens);
    gguf_text(f, "tokenizer.ggml.model", "llama");
    gguf_texts(f, "tokenizer.ggml.tokens", spm_tokens, count);
    gguf_array(f, "tokenizer.ggml.scores", GGUF_F32, count);
    gguf_put(&f->value, spm_scores, sizeof(spm_scores));
    gguf_array(f, "tokenizer.ggml.token_type", GGUF_I32, count);
    gguf_put(&f->value, spm_kinds, sizeof(spm_kinds));
    gguf_bool(f, "tokenizer.ggml.add_space_prefix", space);
}

static struct tokens *open_tokens(struct gguf_file *f, struct gguf **g)
{
    char error[GGUF_ERROR] = "";
    gguf_write("file", gguf_join(f));
    gguf_free(f);
    *g = gguf_open("file", error);
    ck_assert_msg(*g != NULL, "%s", error);
    struct tokens *t = tokens_open(*g, "file", error);
    ck_assert_msg(t != NULL, "%s", error);
    return t;
}

START_TEST(encodes)
{
    struct gguf_file f = { 0 };
    struct gguf *g;
    bool scored = _i >= SPLITTERS, space = _i == SPLITTERS;
    if (scored)
        put_spm(&f, space);
    else
        put_bpe(&f, splitters[_i]);
    gguf_bool(&f, "tokenizer.ggml.add_bos_token", 0);
    struct tokens *t = open_tokens(&f, &g);
    const int16_t *want = ids[_i];
    for (int n = 0; n < COUNT; n++) {
        const struct text *x = &texts[n];
        int64_t count;
        int32_t *got = tokens_encode(t, x->text, x->size, &count);
        int many = *want++;
        char back[4096];
        size_t size = 0;
        for (int i = 0; i < many && i < count; i++) {
            ck_assert_msg(got[i] == want[i], "%d: text %d, '%s': token %d of %d is %d, not %d", _i, n, x->text, i, many,
                          got[i], want[i]);
            struct gguf_text piece = tokens_decode(t, got[i]);
            memcpy(back + size, piece.at, piece.size);
            size += piece.size;
        }
        ck_assert_msg(count == many, "%d: text %d, '%s': %d tokens, not %d", _i, n, x->text, (int)count, many);
        if (!strstr(x->text, "<|") || scored)
            ck_assert_msg(size == x->size + space && !memcmp(back + space, x->text, x->size),
                          "%d: text %d comes back as "
                          "'%.*s'",
                          _i, n, (int)size, back);
        want += many;
        free(got);
    }
    tokens_close(t);
    gguf_close(g);
}
END_TEST

/* What begins a text, by its id; what text isn't UTF-8. */
START_TEST(edges)
{
    struct gguf_file f = { 0 };
    struct gguf *g;
    int64_t n;
    put_bpe(&f, "llama-bpe");
    gguf_u32(&f, "tokenizer.ggml.bos_token_id", 1);
    struct tokens *t = open_tokens(&f, &g);
    int32_t *got = tokens_encode(t, "", 0, &n);
    ck_assert(n == 1 && got[0] == 1 && tokens_decode(t, 1).size == 0);
    free(got);
    got = tokens_encode(t, "\xff\xc3\xed\xa0\x80\xe2\x82", 7, &n);
    ck_assert_int_eq(n, 1 + 7);
    free(got);
    ck_assert(tokens_decode(t, -1).size == 0 && tokens_decode(t, tokens_count(t)).size == 0);
    tokens_close(t);
    gguf_close(g);
    put_spm(&f, true);
    gguf_u32(&f, "tokenizer.ggml.bos_token_id", 1);
    t = open_tokens(&f, &g);
    got = tokens_encode(t, "", 0, &n);
    ck_assert(n == 1 && got[0] == 1);
    free(got);
    tokens_close(t);
    gguf_close(g);
}
END_TEST

/* A tokenizer's value that is wrong: what is changed, before the file is joined. */
static void wrong(struct gguf_file *f, int which)
{
    static const char *const a[] = { "a" }, *const ab[] = { "a", "b" }, *const merges[] = { "ab" },
                             *const no_token[] = { "a b" };
    const float scores[] = { 0, which == 7 ? NAN : 1 };
    static const int32_t kinds[][2] = { { 1, 7 }, { 1, 6 } };
    gguf_text(f, "tokenizer.ggml.model", which == 1 ? "bert" : which >= 6 ? "llama" : "gpt2");
    gguf_text(f, "tokenizer.ggml.pre", which == 2 ? "viking" : "qwen2");
    if (which == 3)
        gguf_text(f, "tokenizer.ggml.tokens", "a");
    else
        gguf_texts(f, "tokenizer.ggml.tokens", which == 9 ? a : ab, which == 9 ? 1 : 2);
    if (which == 4 || which == 5)
        gguf_texts(f, "tokenizer.ggml.merges", which == 4 ? merges : no_token, 1);
    if (which >= 7) {
        gguf_array(f, "tokenizer.ggml.scores", GGUF_F32, 2);
        gguf_put(&f->value, scores, sizeof(scores));
    }
    if (which == 10 || which == 11) {
        gguf_array(f, "tokenizer.ggml.token_type", GGUF_I32, 2);
        gguf_put(&f->value, kinds[which - 10], sizeof(kinds[0]));
    }
    if (which == 8)
        gguf_u32(f, "tokenizer.ggml.add_bos_token", 1);
    if (which == 12)
        gguf_u32(f, "tokenizer.ggml.bos_token_id", 2);
}

static const char *const wrong_says[] = {
    "'tokenizer.ggml.model' must be a string, and is missing",
    "'tokenizer.ggml.model' is 'bert': must be gpt2 or llama",
    "'tokenizer.ggml.pre' is 'viking': must be gpt-2",
    "'tokenizer.ggml.tokens' must be an array of strings",
    "merge 0 is 'ab': must be two tokens with a space between",
    "merge 0 is 'a b': both and what they become must be tokens",
    "'tokenizer.ggml.scores' is missing",
    "'tokenizer.ggml.scores': token 1's score is no number",
    "'tokenizer.ggml.add_bos_token' must be a bool",
    "'tokenizer.ggml.scores' has 2 elements: must be 1",
    "token 1 is of type 7: must be 0 to 6",
    "token 1 is a byte, and 'b': must be <0x00> to <0xFF>",
    "'tokenizer.ggml.bos_token_id' must be an integer, and one of 2 tokens",
};

START_TEST(wrong_tokens)
{
    char error[GGUF_ERROR] = "";
    struct gguf_file f = { 0 };
    if (_i)
        wrong(&f, _i);
    gguf_write("file", gguf_join(&f));
    gguf_free(&f);
    struct gguf *g = gguf_open("file", error);
    ck_assert_msg(g != NULL, "%s", error);
    ck_assert_ptr_null(tokens_open(g, "file", error));
    PRINTS(error, wrong_says[_i]);
    gguf_close(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    const struct {
        const char *name;
        const TTest *test;
        int n;
    } cases[] = { { "reads", reads, 1 },           { "damaged", damaged, LENGTH(damages) },
                  { "truncated", truncated, 1 },   { "twice", twice, 1 },
                  { "splits", splits, SPLITTERS }, { "encodes", encodes, LENGTH(ids) },
                  { "edges", edges, 1 },           { "wrong_tokens", wrong_tokens, LENGTH(wrong_says) } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TCase *c = test_case(s, cases[i].name, program_setup, program_teardown);
        ADD_LOOPS(c, cases[i].n, cases[i].test);
    }
    return run_suite(s);
}
