/* SPDX-License-Identifier: MIT
 *
 * .gguf files of the decoder, and the tokenizers in them. */
#include <string.h>

#include "examples/decoder/gguf.h"
#include "examples/decoder/tokens.h"
#include "fuzz.h"
#include "tests/gguf_file.h"

const char fuzz_name[] = "gguf";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 8192;

static void add_one(struct gguf_file *f, void (*add)(const void *data, size_t size))
{
    struct gguf_bytes b = gguf_join(f);
    gguf_free(f);
    add(b.at, b.size);
    free(b.at);
}

static void more_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const bpe[] = { "a", "b", "\u0120", "ab", "\u0120ab", "<|x|>" }, *const merges[] = {
        "a b", "\u0120 ab"
    };
    static const char *const spm[] = { "<unk>", "<0x41>", "\u2581", "a", "\u2581a", "aa" };
    static const int32_t bpe_kinds[] = { 1, 1, 1, 1, 1, 3 }, spm_kinds[] = { 2, 6, 1, 1, 1, 1 };
    static const float scores[] = { 0, 0, -3, -4, -1, -2 };
    static const int64_t shape[] = { 2, 32 };
    for (int scored = 0; scored < 2; scored++) {
        struct gguf_file f = { 0 };
        gguf_text(&f, "tokenizer.ggml.model", scored ? "llama" : "gpt2");
        gguf_text(&f, "tokenizer.ggml.pre", "gpt-4o");
        gguf_texts(&f, "tokenizer.ggml.tokens", scored ? spm : bpe, 6);
        gguf_texts(&f, "tokenizer.ggml.merges", merges, 2);
        gguf_array(&f, "tokenizer.ggml.token_type", GGUF_I32, 6);
        gguf_put(&f.value, scored ? spm_kinds : bpe_kinds, sizeof(spm_kinds));
        gguf_array(&f, "tokenizer.ggml.scores", GGUF_F32, 6);
        gguf_put(&f.value, scores, sizeof(scores));
        gguf_u32(&f, "tokenizer.ggml.bos_token_id", 1);
        gguf_bool(&f, "tokenizer.ggml.add_bos_token", 1);
        add_one(&f, add);
    }
    struct gguf_file f = { 0 };
    gguf_u32(&f, "general.alignment", 32);
    gguf_f32(&f, "f", 1);
    gguf_add(&f, "x", 0, 2, shape, NULL, 256);
    gguf_add(&f, "y", 8, 2, shape, NULL, 68);
    add_one(&f, add);
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = more_seeds;

/* All of it is within the file. */
static unsigned read_all(const struct gguf *g)
{
    const char *begin = g->map, *end = g->map + g->size;
    unsigned sum = 0;
    for (size_t i = 0; i < g->value_count; i++) {
        const struct gguf_value *v = &g->values[i];
        const char *at = v->at;
        for (uint64_t n = 0; n < v->count; n++) {
            double d;
            if (v->kind == GGUF_STRING) {
                struct gguf_text t = gguf_next_string(&at);
                FUZZ_CHECK(t.at >= begin && t.size <= (size_t)(end - t.at));
            } else {
                sum += gguf_number(v, n, &d);
            }
        }
        FUZZ_CHECK(at >= begin && at <= end);
    }
    for (size_t i = 0; i < g->tensor_count; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        FUZZ_CHECK(t->bytes > 0 && t->at >= begin && t->at < end && t->bytes <= (uint64_t)(end - t->at));
        sum += (unsigned char)t->at[t->bytes - 1];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "ab ab <|x|>a\xc3\xa9\xff A 1\n";
    char error[GGUF_ERROR] = "";
    const char *path = fuzz_file("gguf", data, size);
    struct gguf *g = gguf_open(path, error);
    FUZZ_CHECK(g || (!strncmp(error, path, strlen(path)) && error[strlen(path)] == ':'));
    if (!g)
        return 0;
    read_all(g);
    struct tokens *t = tokens_open(g, path, error);
    FUZZ_CHECK(t || !strncmp(error, path, strlen(path)));
    if (t) {
        int64_t count;
        int32_t *ids = tokens_encode(t, text, sizeof(text) - 1, &count);
        FUZZ_CHECK(count >= 0 && count <= 2 * (int64_t)sizeof(text) + 2);
        for (int64_t i = 0; i < count; i++) {
            FUZZ_CHECK(ids[i] >= 0 && ids[i] < tokens_count(t));
            tokens_decode(t, ids[i]);
        }
        free(ids);
        tokens_close(t);
    }
    gguf_close(g);
    return 0;
}
