/* SPDX-License-Identifier: MIT
 *
 * Tiny models for the decoder's test: written as Hugging Face folders, and computed in double. Weights depend on their
 * names; each is a number that bf16, fp16 and fp32 have exactly. */
#ifndef RFG_TESTS_DECODER_MODEL_H
#define RFG_TESTS_DECODER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { TINY_VOCAB = 256, TINY_MODELS = 3 };

struct tiny {
    const char *name, *arch;
    bool qk_norm, gemma;
    int layers, heads, kv_heads;
    bool f16;
    double theta, local_theta, linear, llama3_original; /* of rotations; linear, llama3_original: scaling, if not 0 */
    int window;                                         /* of Gemma's first and third layer */
    /* what a test changes: */
    int shards; /* files, if not 0 */
    bool f32;
    int hidden_of_norm;         /* of the last norm, if not 0 */
    const char *without, *also; /* a tensor that is left out, one that is added */
};
extern const struct tiny tiny_models[TINY_MODELS];

/* Writes folder/config.json and the weights; bytes of the last file of weights. */
int64_t tiny_write(const struct tiny *t, const char *folder);

/* logits [n, TINY_VOCAB] of each of n tokens, given those before it. */
void tiny_reference(const struct tiny *t, const int32_t *tokens, int n, double *logits);

#endif
