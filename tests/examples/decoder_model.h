/* SPDX-License-Identifier: MIT
 *
 * Tiny models for the decoder's test: written as Hugging Face folders, and computed in double. Weights depend on their
 * names; each is a number that bf16, fp16 and fp32 have exactly. */
#ifndef RFG_TESTS_DECODER_MODEL_H
#define RFG_TESTS_DECODER_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TINY_VOCAB = 256,
    TINY_CONTEXT = 40, /* positions of the tables: some formulas go by it */
    TINY_LLAMA = 0,
    TINY_QWEN3,
    TINY_GEMMA3,
    TINY_PHI3,         /* LongRoPE, three quarters of a head; matrices that are joined in the files */
    TINY_PROPORTIONAL, /* Gemma 3 with Gemma 4's rope_parameters, an entry of each type of layers */
    TINY_DYNAMIC,      /* as far as twice max_position_embeddings */
    TINY_GEMMA4,       /* inputs of layers, keys of other layers */
    TINY_GEMMA4_KV,    /* values that are keys, another number of heads in full layers */
    TINY_QWEN35,       /* a gate of attention, a quarter of a head rotated */
    TINY_QWEN2,        /* biases of q, k and v */
    TINY_QWEN3_MOE,
    TINY_GPT_OSS,
    TINY_PREPACKED,
    TINY_DEEPSEEK,
    TINY_FP8,
    TINY_FP8_RAGGED, /* hidden is no multiple of the blocks */
    TINY_MODELS
};

struct tiny {
    const char *name, *arch;
    bool qk_norm, gemma, gpt_oss, deepseek; /* gpt-oss: experts in mxfp4; DeepSeek: MLA */
    bool gemma4, k_is_v, gated;             /* gemma4: besides gemma. gated: Qwen3.5 */
    bool biased;                            /* Qwen2: q, k and v */
    bool fp8;                               /* of DeepSeek's matrices, but for the router, embedding and head */
    int layers, hidden, heads, kv_heads;
    bool f16;
    bool phi3;
    double theta, local_theta, linear, llama3_original; /* of rotations; linear, llama3_original: scaling, if not 0 */
    double proportional, dynamic;                       /* the share, the factor, if not 0 */
    int window;                                   /* of Gemma's and gpt-oss' first and third layer, of Phi's all */
    int experts, top, inter, groups, topk_groups; /* of a mixture */
    int dense;                                    /* of DeepSeek's layers, those that have an mlp */
    int q_rank, kv_rank, nope, rope, values;      /* MLA */
    double mscale, mscale_all;                    /* of DeepSeek's YaRN, if the latter isn't 0 */
    int shared, extra;                            /* Gemma 4: layers without keys, elements of a layer's input */
    double soft_cap;                              /* of logits, if not 0 */
    int seed;                                     /* of weights, such that no choice of experts is a near one */
    double grows;           /* the rms error of its logits, by what its roundings alone add up to: see test_decoder.c */
    double grows_quantised; /* the same where rows beside fp8 are quantised */
    /* what a test changes: */
    int shards; /* files, if not 0 */
    bool f32;
    int hidden_of_norm;         /* of the last norm, if not 0 */
    const char *without, *also; /* a tensor that is left out, one that is added */
};
extern const struct tiny tiny_models[TINY_MODELS];

/* Writes folder/config.json and the weights; bytes of the last file of weights. */
int64_t tiny_write(const struct tiny *t, const char *folder);

/* The same model as llama.cpp's converter writes it, of the architectures that the decoder reads; from decoder_gguf.c.
 * Matrices may be Q8_0, which has their numbers exactly: all; or some, such that of what is joined not all is. */
enum tiny_q8 { TINY_Q8_NONE, TINY_Q8_ALL, TINY_Q8_SOME };
void tiny_write_gguf(const struct tiny *t, const char *path, enum tiny_q8 q8);
/* All tensors of a model; how many. Element i of one, of TINY_FLOATS. */
const struct tiny_item *tiny_items(const struct tiny *t, int *count);
double tiny_item_element(const struct tiny *t, const struct tiny_item *x, int64_t i);

/* logits [n, TINY_VOCAB] of each of n tokens, given those before it. */
void tiny_reference(const struct tiny *t, const int32_t *tokens, int n, double *logits);

/* y [n, rows] = x [n, cols] w^T, of gpt-oss' attention with a bias; y [n, size] = norm(x), in place or
 * not; name NULL: without a weight. */
void tiny_linear(const struct tiny *t, double *y, const double *x, int n, const char *name, int rows, int cols);
void tiny_norm(const struct tiny *t, double *y, const double *x, int n, int size, const char *name);

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

/* What kind of numbers a tensor has. */
enum tiny_kind {
    TINY_FLOATS, /* of the model's dtype */
    TINY_F32,
    TINY_E4M3,
    TINY_U8
};
struct tiny_item {
    char name[128];
    int ndim;
    int64_t shape[4];
    enum tiny_kind kind;
};
/* ---- decoder_gemma4.c ------------------------------------------------------------------------------------------- */

/* Whether a layer is a full one. */
bool tiny_gemma4_full(const struct tiny *t, int layer);
/* Columns of its mlp, of `inter` in most layers. */
int tiny_gemma4_inter(const struct tiny *t, int layer, int inter);
/* Appends what a layer has of attention and inputs to a list of n; how many there are then. */
int tiny_gemma4_items(const struct tiny *t, struct tiny_item *list, int n, int layer);
void tiny_write_gemma4(const struct tiny *t, FILE *f);
/* out [n, hidden] = attention of h */
void tiny_gemma4_attention(const struct tiny *t, int layer, double *out, const double *h, int n);
/* What a layer ends with: x takes its input, and is multiplied. layer -1: makes the inputs, of the embedding x. */
void tiny_gemma4_end(const struct tiny *t, int layer, double *x, const int32_t *tokens, int n);

/* ---- decoder_latent.c ------------------------------------------------------------------------------------------- */

enum { TINY_MOST_TOKENS = 64 };

/* Appends attention's matrices and norms to a list of n; how many there are then. */
int tiny_latent_items(const struct tiny *t, int layer, struct tiny_item *list, int n);
/* Its lines of config.json. */
void tiny_write_latent(const struct tiny *t, FILE *f);
/* x [n, hidden] += attention of h, as DeepSeek-V3's report has it: keys and values of each head are made. */
void tiny_latent_attention(const struct tiny *t, int layer, double *x, const double *h, int n);

/* ---- decoder_experts.c ------------------------------------------------------------------------------------------ */

enum { TINY_MOST_HIDDEN = 256 };

/* Appends a layer's router and experts to a list of n; how many there are then. */
int tiny_expert_items(const struct tiny *t, int layer, struct tiny_item *list, int n);
/* Element i of a tensor that isn't of TINY_FLOATS: the byte, or the number. */
uint8_t tiny_byte(const struct tiny *t, const char *name, enum tiny_kind kind, int64_t i);
double tiny_f32(const struct tiny *t, const char *name, int64_t i);
/* Element (r, c) of a matrix of `cols` columns, which with fp8 has codes and scales. */
double tiny_element(const struct tiny *t, const char *name, int64_t cols, int64_t r, int64_t c);
/* Appends such a matrix. */
int tiny_append_matrix(const struct tiny *t, struct tiny_item *list, int n, int layer, const char *part, int64_t rows,
                       int64_t cols);
/* Element i of one of TINY_FLOATS: an integer of at most 7 bits by a power of two. cols 0: a norm's, near 1 (of 1 + w:
 * near 0). */
double tiny_weight(const struct tiny *t, const char *name, int64_t cols, int64_t i);
uint64_t tiny_hash(const struct tiny *t, const char *name, int64_t i);
/* x [n, hidden] += what the experts make of h. The least distance between experts that were chosen and that
 * weren't, of all so far, is tiny_margin, in logits. */
void tiny_experts(const struct tiny *t, int layer, double *x, const double *h, int n);
extern double tiny_margin;

#endif
