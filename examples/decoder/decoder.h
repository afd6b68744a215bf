/* SPDX-License-Identifier: MIT
 *
 * A decoder for Llama-, Qwen3- and Gemma-like dense models, and for mixtures of experts (Qwen3-MoE, gpt-oss, DeepSeek
 * V3), on rfg's operators alone: docs/decoder.md.
 *
 *   config.c    what a model is: config.json of a Hugging Face folder, or a .gguf file's values
 *   shapes.c    the built-in shapes
 *   weights.c   tensors by name: of files, or random numbers
 *   safetensors.c, gguf.c  what is in a file of either kind
 *   gguf_model.c  a .gguf file's values and tensors as a Hugging Face folder has them
 *   model.c     the weights in device memory, projections joined, tables of rotary angles
 *   load.c      how they get there
 *   experts.c   those of a layer's experts, one after the other
 *   cache.c     one paged cache for all sequences: which blocks are whose
 *   ops.c       rfg_op_* as the layers call them
 *   latent.c    the same of DeepSeek's attention
 *   gemma4.c    the same of what Gemma 4 has besides
 *   step.c      the layers: prefill of a chunk, decode of one token a sequence, and its graph
 *   generate.c  the continuous batch: sequences join, are prefilled, decode, leave
 *   team.c      tensor parallelism: ranks, and what they do together
 *   ladder.c    what each step towards speed gains
 *   options.c   the command line
 *   main.c      the program
 *   util.c      errors, clock
 *
 * Whatever goes wrong ends the program with one line: die(). */
#ifndef DECODER_H
#define DECODER_H

#include <rfg/rfg.h>

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
void check(rfg_status st, const char *call);
#define CHECK(call) check(call, #call)
void *allocate(size_t count, size_t size); /* zeroed */
double seconds(void);                      /* of a clock that only goes forward */
/* The value below which a share of n values lies: 0.5 is the median. */
double percentile(const double *values, size_t n, double share);

/* ---- config.c, shapes.c ----------------------------------------------------------------------------------------- */

enum { MOST_LAYERS = 256, MOST_HEAD = 512, MOST_EXPERTS = 1024, MOST_SLOTS = 32 /* experts of a token */ };

enum expert_format {
    EXPERTS_PLAIN,      /* as the model's other weights */
    EXPERTS_FP8_BLOCKS, /* e4m3, an fp32 scale for each 128 x 128 (DeepSeek) */
    EXPERTS_MXFP4       /* e2m1, an e8m0 scale for each 32 columns (gpt-oss) */
};

/* Multi-head latent attention (MLA). */
struct latent {
    int64_t kv_rank;            /* of the latent that a key's row in the cache begins with; 0: attention is another */
    int64_t q_rank;             /* of what queries are made of */
    int64_t nope, rope, values; /* elements of a head: of q and k those that aren't rotated, and those that are; of v */
};

/* What Gemma 4 has besides. Heads of full layers may have another size, and be others in number. */
struct gemma4 {
    bool on;                    /* v is normed, too, and a layer ends with a factor */
    bool k_is_v;                /* full layers: v is k before its norm and rotation. Its matrix is loaded twice */
    bool wide;                  /* layers without keys of their own have an MLP of twice the size */
    int64_t head_dim, kv_heads; /* of full layers */
    int64_t shared;             /* the last layers, which have no keys of their own */
    int64_t extra, extra_vocab; /* elements of a token's input to each layer, 0: there is none; rows of its table */
    float soft_cap;             /* of logits; 0: none */
};

/* A mixture of experts in place of the MLP, in each layer but the first ones. */
struct mixture {
    int64_t experts, top, intermediate; /* experts 0: layers have an MLP */
    int64_t dense;                      /* layers that have an MLP all the same */
    int64_t shared;                     /* experts that every token has besides: 0 or 1 */
    int64_t groups, topk_groups;        /* 0: experts are of no groups */
    rfg_moe_scoring scoring;
    bool renormalise;
    float scale; /* of the weights; 0: 1 */
    enum expert_format format;
    float limit; /* of swigluoai */
};

/* What a rank of a model that is spread over several has (team.c). */
struct shard {
    int rank, ranks;  /* ranks 0: it has all */
    int64_t kv_heads; /* of the whole model */
};

struct config {
    char name[64];
    struct shard shard; /* heads, kv_heads and intermediate sizes are then the rank's own */
    struct mixture moe;
    struct latent mla; /* head_dim is then what is rotated, kv_heads 1 */
    bool
        gpt_oss; /* projections, router and experts have biases, heads have sinks; an expert's gate and up take turns */
    bool biased; /* q, k and v have biases (Qwen2, gpt-oss) */
    bool phi3;   /* files hold q, k and v as one matrix, gate and up as another */
    bool deepseek; /* MLA; a bias chooses experts, beside their scores */
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, positions;
    float eps;
    rfg_act act;
    bool qk_norm; /* RMSNorm of each head of Q and K before the rotation (Qwen3, Gemma3) */
    bool gemma;   /* there are four norms a layer; the embedding is scaled */
    bool plus;    /* norms multiply with 1 + w (Gemma3, Qwen3.5) */
    bool gated;   /* attention's result is multiplied with the sigmoid of a gate (Qwen3.5) */
    struct gemma4 gemma4;
    bool tied;                                /* lm_head is the embedding table */
    bool bytes;                               /* "tokenizer": "bytes": token ids are bytes */
    float attention_scale;                    /* 0: 1 / sqrt(head_dim) */
    int64_t window;                           /* keys that a sliding layer sees, the token's own included */
    bool slides, sliding[MOST_LAYERS];        /* any of them */
    rfg_rope_table_params rope, sliding_rope; /* of full and of sliding layers */
    int64_t rotated;                          /* the first elements of a head; 0: all */
    float rope_factors[2][MOST_HEAD / 2];     /* LongRoPE's, short and long */
    int64_t eos[4];
    int eos_count;
};

/* Of model/config.json, or of the values of the .gguf file. */
void config_read(struct config *c, const char *model);
/* What scores are multiplied with: YaRN has a part in it. */
float config_latent_scale(const struct latent *a, const rfg_rope_table_params *rope);
/* A built-in shape, of so many layers; 0: all. */
void config_builtin(struct config *c, const char *name, int64_t layers);
/* A model that the operators don't support ends the program. where: the file, or the option. */
void config_check(const struct config *c, const char *where);

/* Leaves a rank's part; what can't be spread ends the program. */
void config_shard(struct config *c, int rank, int ranks);
static inline int ranks_of(const struct config *c)
{
    return c->shard.ranks ? c->shard.ranks : 1;
}

/* Of a layer: elements of a head, those that are rotated; heads of k; columns of q. */
static inline int64_t head_elements(const struct config *c, int64_t layer)
{
    return c->gemma4.on && !c->sliding[layer] ? c->gemma4.head_dim : c->head_dim;
}
static inline int64_t rotated(const struct config *c, int64_t layer)
{
    return c->rotated ? c->rotated : head_elements(c, layer);
}
static inline int64_t key_heads(const struct config *c, int64_t layer)
{
    return c->gemma4.on && !c->sliding[layer] ? c->gemma4.kv_heads : c->kv_heads;
}
static inline int64_t head_columns(const struct config *c, int64_t layer)
{
    return c->heads * head_elements(c, layer);
}
/* Whose keys a layer reads: its own, or those of the last layer of its kind that has some. */
static inline int64_t keys_of(const struct config *c, int64_t layer)
{
    int64_t own = c->layers - c->gemma4.shared, of = layer;
    if (layer >= own)
        for (of = own - 1; of > 0 && c->sliding[of] != c->sliding[layer];)
            of--;
    return of;
}
static inline int64_t mlp_columns(const struct config *c, int64_t layer)
{
    return c->intermediate * (c->gemma4.wide && keys_of(c, layer) != layer ? 2 : 1);
}

/* ---- weights.c -------------------------------------------------------------------------------------------------- */

struct weights;
struct gguf;
/* gguf_model.c: whether a path is a file, which must be .gguf then, and no folder; the file, or an error that ends the
 * program; what config.json of such a model would be. */
bool is_gguf(const char *path);
struct gguf *open_gguf(const char *path);
json_t *gguf_config(const char *path);
/* The value that becomes a key of config.json, without its architecture; NULL: none does. */
const char *gguf_key_of(const char *name);
/* Maps the .gguf file, or model/model.safetensors, or the files of model/model.safetensors.index.json, and checks all of
 * their headers. */
struct weights *weights_open(const char *model);
/* Any tensor that is asked for, from a generator that counts: element i of a tensor depends on seed, name and i. */
struct weights *weights_random(uint64_t seed);
/* Their matrices, but for experts, become blocks: of a dtype's name, or as llama.cpp mixes them for Q4_K_M. */
void weights_random_blocks(struct weights *w, const char *type, int64_t layers);
void weights_close(struct weights *w);
/* Whether the files hold it (random weights: yes). */
bool weights_has(const struct weights *w, const char *name);
bool weights_are_random(const struct weights *w);
/* The dtype of a tensor of a .gguf file's blocks; of others RFG_DTYPE_NONE. */
rfg_dtype weights_blocks(const struct weights *w, const char *name);
/* What model memory holds: bf16, or fp16 if the files do. */
rfg_dtype weights_dtype(const struct weights *w);
/* A tensor of the files that was never read: without it the model would compute something else. Rotary frequencies, a
 * second copy of a tied lm_head don't count. NULL: none. */
const char *weights_unused(const struct weights *w);
/* Elements first .. first + count - 1 of a [rows, cols] tensor (cols 0: [rows]) as 16-bit numbers; fp32 is rounded to
 * bf16, and so are codes of e4m3 times their "<name>_scale_inv". mean, spread: of random weights, uniform in mean +- spread; their first is a multiple of 4. */
void weights_get(struct weights *w, const char *name, int64_t rows, int64_t cols, double mean, double spread,
                 int64_t first, int64_t count, uint16_t *to);
/* The same of rows of a tensor of blocks, as they are. */
void weights_rows(struct weights *w, const char *name, int64_t rows, int64_t cols, int64_t first, int64_t count,
                  void *to);
/* How many tensors of blocks weights_get() has decoded so far, and what they became, in bytes. */
int64_t weights_decoded(const struct weights *w, int64_t *bytes);
/* All of it as fp32. */
void weights_floats(struct weights *w, const char *name, int64_t rows, int64_t cols, double mean, double spread,
                    float *to);
/* Bytes first .. first + count - 1 of a tensor of bytes, as they are. dtype: "U8" or "F8_E4M3". Random ones are any
 * numbers: e4m3's two NaN count as the numbers before them. first is a multiple of 8. */
void weights_bytes(struct weights *w, const char *name, const char *dtype, int ndim, const int64_t *shape,
                   int64_t first, int64_t count, uint8_t *to);

/* ---- model.c, load.c --------------------------------------------------------------------------------------------- */

/* A matrix that activations are multiplied with: of the model's dtype; of e4m3, with a scale for each 128 x 128; or of a
 * .gguf file's blocks. */
struct weight {
    void *at;
    float *scale;
    rfg_dtype dtype;
};

/* Its rows from `row` on, of so many columns; with scales, a multiple of 128. */
static inline struct weight weight_from(struct weight w, int64_t row, int64_t cols)
{
    w.at = w.at ? (char *)w.at + rfg_dtype_bytes(w.dtype, row * cols) : NULL;
    w.scale += w.scale ? row / 128 * ((cols + 127) / 128) : 0;
    return w;
}

struct layer {
    void *attention_norm, *q_norm, *k_norm, *mlp_norm;
    /* q, k and v; if they are of one dtype, k's and v's rows follow q's, and `joined` is set. Rows of gate and up in turn. */
    struct weight qkv[3], o, gate_up, down;
    bool joined;
    void *after_attention_norm, *after_mlp_norm; /* Gemma */
    void *qkv_bias, *o_bias, *sinks;             /* gpt-oss */
    void *gate;                                  /* Qwen3.5: of attention; qkv has no rows of it */
    /* Gemma 4: a layer's input and what it becomes; what the layer's result is multiplied with. */
    void *extra_gate, *extra_projection, *extra_norm;
    float factor;
    /* MLA: qkv[0] makes q's latent, k's, and what of k is rotated; q_norm and k_norm are norms of latents. q_b makes the
     * heads' q. absorb_k [heads, kv_rank, nope] and absorb_v [heads, values, kv_rank] are kv_b's halves. expand_k
     * [heads, nope + rope, kv_rank + rope] makes a head's k of a key in the cache: k's half, and 1 for what is rotated. */
    struct weight q_b;
    void *absorb_k, *absorb_v, *expand_k;
    /* Of a mixture. The experts' are [E, 2 intermediate, hidden] and [E, hidden, intermediate], shared ones last. */
    void *router, *router_bias, *choice_bias; /* the latter chooses only (DeepSeek) */
    void *w1, *w2, *w1_scale, *w2_scale, *w1_bias, *w2_bias;
};

struct model {
    struct config c;
    rfg_dtype dtype;
    /* Columns of the joined projection, of the largest layer: (heads + 2 kv_heads) head_dim; MLA: q_rank + kv_rank +
     * rope */
    int64_t qkv;
    int64_t context; /* positions that the rotary tables have */
    void *memory;    /* one allocation holds all */
    void *embedding, *norm;
    struct weight head;                                    /* of a rank's part of the vocabulary */
    void *extra_embedding, *extra_projection, *extra_norm; /* of the layers' inputs; the norm in fp32 */
    void *angles[2]; /* [context, head_dim] fp32: cosines, then sines; of full and of sliding layers */
    struct layer layer[MOST_LAYERS];
    size_t bytes;        /* of memory */
    size_t step_bytes;   /* of weights that a decode step reads, of experts none */
    size_t expert_bytes; /* of one expert, with its scales and biases */
    float embedding_scale;
};

/* Counts the model's weights by use; experts include the shared ones. */
static inline int64_t model_experts(const struct model *m)
{
    return m->c.moe.experts + m->c.moe.shared;
}
static inline int64_t model_slots(const struct model *m)
{
    return m->c.moe.top + m->c.moe.shared;
}

static inline bool has_experts(const struct config *c, int64_t layer)
{
    return c->moe.experts && layer >= c->moe.dense;
}
/* Of all heads, of the largest layer: of q, and of what attention makes. */
static inline int64_t query_columns(const struct config *c)
{
    return c->heads * (c->mla.kv_rank ? c->mla.nope + c->mla.rope : c->head_dim);
}
static inline int64_t attention_columns(const struct config *c)
{
    int64_t most = c->gemma4.head_dim > c->head_dim ? c->gemma4.head_dim : c->head_dim;
    return c->heads * (c->mla.kv_rank ? c->mla.values : most);
}
/* Elements that a key has in the cache, of the largest layer. */
static inline int64_t key_elements(const struct config *c)
{
    int64_t one = c->kv_heads * c->head_dim, other = c->gemma4.kv_heads * c->gemma4.head_dim;
    return c->mla.kv_rank ? c->mla.kv_rank + c->mla.rope : 2 * (one > other ? one : other);
}

struct model *model_create(rfg_context *ctx, const struct config *c, struct weights *w, int64_t context);
void model_destroy(rfg_context *ctx, struct model **m);

/* Lays buffers out in one allocation. First call it with base NULL: then `used` is their size. */
struct arena {
    char *base;
    size_t used;
};
void *arena_take(struct arena *a, size_t bytes);

/* ---- experts.c -------------------------------------------------------------------------------------------------- */

struct loader;
/* Router and experts of a layer. */
void load_mixture(struct loader *l, int64_t layer);
/* How rfg_op_moe() takes a layer's experts. The tensors are what the params point to. */
struct expert_tensors {
    rfg_tensor w1, w2, w1_scale, w2_scale, w1_bias, w2_bias;
    rfg_moe_params p;
};
void expert_tensors(struct expert_tensors *t, const struct model *m, int64_t layer);

/* ---- cache.c ---------------------------------------------------------------------------------------------------- */

enum { PAGE = 16 }; /* keys of a block */

struct cache {
    int64_t blocks, per_sequence; /* of a layer; columns of a block table */
    void *memory; /* [layers][k, v][blocks, PAGE, kv_heads, head_dim]; MLA: [layers][blocks, PAGE, kv_rank + rope] */
    size_t bytes, layer_bytes; /* of all; of a layer, the largest */
    int32_t *free;
    int64_t free_count;
};

/* Room for `sequences` of `context` keys each, in the model's dtype. */
void cache_create(struct cache *k, rfg_context *ctx, const struct model *m, int64_t sequences, int64_t context);
void cache_destroy(struct cache *k, rfg_context *ctx);
/* Writes blocks for so many keys to a row of a block table; the rest of the row gets block 0. False: not enough are
 * free. */
bool cache_take(struct cache *k, int32_t *table, int64_t keys);
void cache_give(struct cache *k, const int32_t *table, int64_t keys);
/* Where key `at` of a sequence is written: the slot mapping's number. */
int64_t cache_slot(const int32_t *table, int64_t at);

/* ---- step.c, ops.c ---------------------------------------------------------------------------------------------- */

/* Kinds of kernels. A step can run some of them alone, to time them. */
enum op_kind {
    OP_EMBEDDING,
    OP_NORM,
    OP_GEMM,
    OP_ROPE,
    OP_APPEND,
    OP_ATTENTION,
    OP_ACT,
    OP_ROUTE,
    OP_EXPERTS,
    OP_SAMPLE,
    OP_COMM,
    OP_KINDS
};
extern const char *const op_names[OP_KINDS];

struct sampling {
    double temperature; /* 0: the largest logit */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
    uint64_t seed;
};

/* How a step is made of operators. */
struct engine_params {
    int64_t batch, context, chunk; /* sequences, keys of one at most, tokens of a prefill chunk at most */
    int64_t longest, mean; /* keys that sequences will have in decode, by which its attention is chosen; 0: who knows */
    bool separate;         /* q, k, v and gate, up by products of their own */
    bool unfused;          /* norms of heads, rotation and cache write by kernels of their own */
    bool plain_gemms;      /* residuals and activations by kernels of their own, not in epilogues */
    /* Up to so many rows, norm, router, choice and order of experts are one launch. */
    int64_t gate;
    /* MLA: a chunk of so many tokens attends to keys and values of heads, which it makes of so many latents at a time;
     * 0: EXPAND_TOKENS, EXPAND_KEYS. */
    int64_t expand, expand_keys;
    /* Beside weights of fp8 so many rows and more are quantised, for matrix cores; 0: QUANTISE_ROWS. Fewer stay as they
     * are, which saves launches. */
    int64_t quantise;
    struct sampling sampling;
    struct team *team; /* of the model's ranks; NULL: it has one */
    bool apart;        /* ranks: all-reduce and norm by two launches */
};

/* MLA's prefill, absorbed, takes so many tokens for a sequence of their own. From EXPAND_TOKENS on it takes less time to
 * make keys and values of heads than to multiply latents: 16 heads' of a key are 5.6 million operations, which save 25
 * thousand a token. Their attention has PIECES parts at most. */
enum { QUANTISE_ROWS = 65 };
enum { LATENT_QUERIES = 8, EXPAND_TOKENS = 256, EXPAND_KEYS = 4096, PIECES = 8 };
/* Tokens that go through the layers together: in host memory, and in device memory for the kernels. The images are
 * alike, so that one copy brings all of it. */
struct rows {
    int64_t count, sequences;
    int64_t *slots;           /* [count]; -1: no key is written */
    int64_t *draws;           /* [count]: the number of the draw of the token after this one; the engine sets it */
    int32_t *positions;       /* [count] */
    int32_t *lens;            /* [sequences], the rows' own keys included; of MLA's prefill one for LATENT_QUERIES */
    int32_t *live;            /* [1]: the number of used rows; rows from there on have no experts; the engine sets it */
    int32_t *table;           /* [sequences, cache.per_sequence] */
    int32_t *pieces;          /* of a chunk [PIECES][3]: 0, keys, and the first of them: engine_pieces() */
    int32_t *tokens;          /* [count]; of a decode step they are outside of the image: the device has them already */
    size_t bytes, head_bytes; /* of the image; of all before the table */
};

enum { LAYER_CALLS = 64 }; /* operator calls of a layer that can be told apart */
enum { IMAGES = 8 };       /* host images of a decode step: that many may be queued before the host waits */

struct engine {
    rfg_context *ctx;
    rfg_stream stream;
    const struct model *m;
    struct engine_params p;
    struct cache cache;
    void *memory, *host; /* one allocation each */
    size_t bytes;
    struct rows decode, chunk;                   /* on the device */
    struct rows decode_host[IMAGES], chunk_host; /* on the host */
    int image;                                   /* the newest of them */
    bool table_changed;                          /* set by who edits a table */
    int32_t *next;                               /* device [batch]: the tokens that a decode step reads and replaces */
    int32_t *next_host;
    char *x, *residual, *normed, *qkv, *attention, *gate_up, *act; /* of max(batch, chunk) rows */
    float *gates; /* Qwen3.5: [2][rows, attention_columns], the second all 0; so is a second e->attention */
    /* Gemma 4: [rows, layers, extra], what they are made of, twice; [rows, layers, 2, extra], the latter of the two. */
    char *inputs, *scratch, *pairs;
    int32_t *counting;     /* 0, 1, 2, ... */
    size_t state_elements; /* of e->attention, and of gates: where the second begins */
    char *codes;           /* of rows that are quantised, [max(batch, chunk), most columns], and a scale for each */
    float *code_scales;    /* 128 of them */
    char *q, *absorbed, *latent;          /* MLA: heads' q, times absorb_k, and what attention makes before absorb_v */
    char *keys, *head_keys, *head_values; /* of expand_keys of the cache's rows; keys and values of heads, of them */
    char *states;                         /* [PIECES][chunk, heads, values]: what attention makes of each piece */
    float *lse;                           /* [PIECES][heads, chunk] */
    float *logits;                        /* [batch, vocab] */
    float *router;                        /* [max(batch, chunk), experts]: a layer's logits */
    int32_t *ids, *given_ids;             /* [layers][max(batch, chunk), slots]: the newest step's rows' experts */
    float *shares, *given_shares;         /* the same: their weights */
    int32_t *sorted_rows, *offsets, *places; /* of rfg_op_moe_gate(), of a layer's up to gate rows */
    float *sorted;
    bool given;                 /* rows take given_ids and given_shares; the others are made all the same */
    size_t layer_slots;         /* max(batch, chunk) slots */
    float *temperature, *top_p; /* [batch], of draws, and the next two */
    int32_t *top_k;
    int64_t *seed;
    rfg_comm *comm; /* of a team; and a buffer like x */
    char *spare;
    bool settling;       /* this step is the first of its size: op_reduce_add_norm() */
    int64_t settled;     /* the size of the newest prefill */
    bool decoded;        /* a decode step has run */
    int64_t collectives; /* so far, which the context's counters leave out; replays don't count */
    unsigned only;       /* bits of op_kind; 0: all */
    /* Operator calls of a layer count from 1: the newest, the only one that is made, one that isn't; 0: none. */
    int call, calls, alone, left_out;
    enum op_kind kinds[LAYER_CALLS + 1]; /* of the newest layer's calls */
    rfg_graph *graph;
};

/* The seed of a row's draws, which count positions: a request draws the same tokens in any row, beside any others. */
void engine_seed(struct engine *e, int64_t row, uint64_t seed);
struct engine *engine_create(rfg_context *ctx, const struct model *m, const struct engine_params *p);
void engine_destroy(struct engine **e);
/* A chunk of a sequence's prompt: tokens at positions first .. first + count - 1. If it is the prompt's last one, the
 * token after it becomes next[row], and logits[row] are its logits. table: the sequence's row of the block table. */
void engine_prefill(struct engine *e, int64_t row, const int32_t *tokens, int64_t count, int64_t first, bool last,
                    const int32_t *table);
/* The image to fill for the next engine_decode(): as the last one was. */
struct rows *engine_next_rows(struct engine *e);
/* One token of each sequence: next[] becomes logits[], and the tokens after them next[]. Replays the graph if there is
 * one. Doesn't wait. */
void engine_decode(struct engine *e);
/* Captures the decode step; it must have run once. From here on engine_decode() replays it. */
void engine_capture(struct engine *e);
/* Waits; next_host[] are then the newest tokens. */
const int32_t *engine_tokens(struct engine *e);
/* Waits; experts and their weights, [layers, batch, slots], that the router chose in the newest decode step; shares may
 * be NULL. */
void engine_experts(struct engine *e, int32_t *ids, float *shares);
/* Those that rows take from the next step on if e->given. */
void engine_give_experts(struct engine *e, const int32_t *ids, const float *shares);
/* Waits; how many experts' weights the newest decode step read, of all layers together. */
int64_t engine_touched(struct engine *e);
/* Waits, and copies logits of a row. */
void engine_logits(struct engine *e, int64_t row, float *to);

/* ---- team.c ------------------------------------------------------------------------------------------------------ */

struct team;
/* Calls run(user, team, rank) on a thread for each rank, and waits for all. */
void team_run(int ranks, void (*run)(void *user, struct team *t, int rank), void *user);
/* A communicator of all ranks, each of which must call it. */
rfg_comm *team_join(struct team *t, rfg_context *ctx, int rank);
/* All ranks' calls have been queued and their streams synchronised. */
void team_leave(struct team *t, rfg_comm **comm);

/* ---- generate.c ------------------------------------------------------------------------------------------------- */

struct request {
    const int32_t *prompt;
    int64_t count, tokens; /* of the prompt; to generate at most, 1 or more */
    uint64_t seed;         /* of its draws: the same request gives the same tokens alone and beside others */
};

/* When tokens came: seconds from a request's arrival (the call of generate()) to its first token, and
 * between tokens. */
struct times {
    double *first, *between;
    size_t firsts, betweens;
    int64_t prompt_tokens, tokens;
    double seconds;
};

/* Runs all requests, as many at a time as the engine has rows; the others wait for one to leave. Each token is given to
 * token(user, request's number, token). With `graph` decode steps replay a captured graph. t may be NULL. */
void generate(struct engine *e, const struct request *requests, size_t n, bool graph,
              void (*token)(void *user, size_t request, int32_t token), void *user, struct times *t);
void times_free(struct times *t);
/* {"ttft_ms": {"p50": ...}, "tpot_ms": {...}, "tokens_per_second": ...} */
json_t *times_json(const struct times *t);
/* A request that a cache of so many keys a sequence can't serve ends the program. */
void request_check(const struct request *q, size_t number, const struct config *c, int64_t context);

/* ---- ladder.c --------------------------------------------------------------------------------------------------- */

enum { LADDER_RUNGS = 8 };

struct ladder_params {
    const char *json, *save_baseline, *baseline;       /* NULL: none */
    int64_t batch, prompt, steps, chunk, expand, gate; /* prompt: keys in the cache before the first timed step */
    int64_t from;                                      /* the first rung, from 1 */
    struct team *team;                                 /* of the model's ranks: each calls it, the first one prints */
    bool apart;
    bool calls; /* also time each operator call of a layer */
};

/* Prints the table; the program's exit code: 1 if a rung is wrong, or slower than the baseline's by over 10 %. */
int ladder(rfg_context *ctx, const struct model *m, const struct ladder_params *p);

/* ---- bench.c ---------------------------------------------------------------------------------------------------- */

/* Prints llama-bench's pp512 and tg128; the same as JSON. */
json_t *bench(rfg_context *ctx, const struct model *m, int64_t chunk, bool graph);

#endif
