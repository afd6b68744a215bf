/* SPDX-License-Identifier: MIT
 *
 * What a .gguf file says of a model, as a Hugging Face folder says it: its values become config.json's, its tensors get
 * the names that load.c asks for. llama.cpp's converter changes some tensors, which is undone where they are read:
 *   llama   a head's rows of q and k lie in turn, since it rotates pairs of neighbours: tensor.turned
 *   gemma3  norms are 1 + w: tensor.plus_one
 *   gpt-oss gate and up are tensors of their own, and an expert's matrices are blocks with scales: tensor.second
 * A mixture's experts are one tensor, of which each is a part. */
#include "weights.h"

#include "gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

bool is_gguf(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

struct gguf *open_gguf(const char *path)
{
    char error[GGUF_ERROR];
    struct gguf *g = gguf_open(path, error);
    if (!g)
        die("%s", error);
    return g;
}

/* ---- architectures ---------------------------------------------------------------------------------------------- */

enum arch { LLAMA, QWEN2, QWEN3, QWEN3MOE, GEMMA3, GPT_OSS, ARCHS };
static const struct {
    const char *name, *class, *act;
} archs[ARCHS] = {
    [LLAMA] = { "llama", "LlamaForCausalLM", "silu" },
    [QWEN2] = { "qwen2", "Qwen2ForCausalLM", "silu" },
    [QWEN3] = { "qwen3", "Qwen3ForCausalLM", "silu" },
    [QWEN3MOE] = { "qwen3moe", "Qwen3MoeForCausalLM", "silu" },
    [GEMMA3] = { "gemma3", "Gemma3ForCausalLM", "gelu_pytorch_tanh" },
    [GPT_OSS] = { "gpt-oss", "GptOssForCausalLM", "silu" },
};

struct source {
    const char *path;
    const struct gguf *g;
    enum arch arch;
};

static const struct gguf_value *find(const struct source *s, const char *key)
{
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", archs[s->arch].name, key);
    return gguf_find(s->g, name);
}

/* "general.architecture"; others end the program. */
static enum arch read_arch(const char *path, const struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, "general.architecture");
    char names[128] = "";
    if (!v || v->kind != GGUF_STRING || v->array)
        die("%s: 'general.architecture' must be a string, and %s", path, v ? "isn't" : "is missing");
    for (int i = 0; i < ARCHS; i++) {
        if (gguf_is(gguf_string(v), archs[i].name))
            return (enum arch)i;
        strcat(names, !i ? "" : i + 1 == ARCHS ? " or " : ", ");
        strcat(names, archs[i].name);
    }
    struct gguf_text text = gguf_string(v);
    die("%s: 'general.architecture' is '%.*s': must be %s", path, text.size < 80 ? (int)text.size : 80, text.at, names);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Numbers that have another name only. Those that a file lacks config.c asks for, by its own name. */
static const struct {
    const char *key, *name;
    int of; /* an architecture, or ARCHS: all */
} renamed[] = {
    { "embedding_length", "hidden_size", ARCHS },
    { "feed_forward_length", "intermediate_size", ARCHS },
    { "block_count", "num_hidden_layers", ARCHS },
    { "context_length", "max_position_embeddings", ARCHS },
    { "attention.head_count", "num_attention_heads", ARCHS },
    { "attention.head_count_kv", "num_key_value_heads", ARCHS },
    { "attention.key_length", "head_dim", ARCHS },
    { "attention.layer_norm_rms_epsilon", "rms_norm_eps", ARCHS },
    { "rope.freq_base", "rope_theta", ARCHS },
    { "rope.freq_base_swa", "rope_local_base_freq", GEMMA3 },
    { "attention.sliding_window", "sliding_window", GEMMA3 },
    { "attention.sliding_window", "sliding_window", GPT_OSS },
    { "expert_count", "num_experts", QWEN3MOE },
    { "expert_count", "num_local_experts", GPT_OSS },
    { "expert_used_count", "num_experts_per_tok", QWEN3MOE },
    { "expert_used_count", "num_experts_per_tok", GPT_OSS },
    { "expert_feed_forward_length", "moe_intermediate_size", QWEN3MOE },
    { "expert_feed_forward_length", "intermediate_size", GPT_OSS }, /* in place of the other one */
};

const char *gguf_key_of(const char *name)
{
    for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
        if (!strcmp(renamed[i].name, name))
            return renamed[i].key;
    return NULL;
}

static bool number(const struct source *s, const char *key, double *to)
{
    const struct gguf_value *v = find(s, key);
    if (v && (v->array || !gguf_number(v, 0, to)))
        die("%s: '%s.%s' must be one number", s->path, archs[s->arch].name, key);
    return v != NULL;
}

static void rename_numbers(const struct source *s, json_t *to)
{
    for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
        double d;
        int64_t n;
        if ((renamed[i].of != ARCHS && renamed[i].of != (int)s->arch) || !number(s, renamed[i].key, &d))
            continue;
        bool is_integer = gguf_integer(find(s, renamed[i].key), 0, &n);
        json_object_set_new(to, renamed[i].name, is_integer ? json_integer(n) : json_real(d));
    }
}

/* Llama 3.1's factors are a tensor: each pair's frequency is divided by its own. */
static json_t *factors(const struct source *s)
{
    const struct gguf_tensor *t = gguf_find_tensor(s->g, "rope_freqs.weight");
    if (!t)
        return NULL;
    if (t->type != GGUF_F32_TENSOR || t->ndim != 1 || t->shape[0] > MOST_HEAD / 2)
        die("%s: tensor 'rope_freqs.weight' must be F32, one number for each of up to %d pairs", s->path,
            MOST_HEAD / 2);
    json_t *list = json_array();
    for (uint64_t i = 0; i < t->shape[0]; i++) {
        float f;
        memcpy(&f, t->at + i * sizeof(f), sizeof(f));
        json_array_append_new(list, json_real(isfinite(f) ? (double)f : 0)); /* which config.c refuses */
    }
    return list;
}

static void read_scaling(const struct source *s, json_t *to)
{
    const struct gguf_value *type = find(s, "rope.scaling.type");
    double factor = 1, n;
    json_t *list = factors(s), *scaling = NULL;
    if (type && (type->kind != GGUF_STRING || type->array))
        die("%s: '%s.rope.scaling.type' must be a string", s->path, archs[s->arch].name);
    number(s, "rope.scaling.factor", &factor);
    if (list) {
        scaling =
            json_pack("{s:s, s:O, s:o, s:f, s:f, s:i}", "rope_type", "longrope", "short_factor", list, "long_factor",
                      list, "factor", 1.0, "attention_factor", 1.0, "original_max_position_embeddings", 2);
    } else if (type && gguf_is(gguf_string(type), "linear")) {
        scaling = json_pack("{s:s, s:f}", "rope_type", "linear", "factor", factor);
    } else if (type && gguf_is(gguf_string(type), "yarn")) {
        scaling = json_pack("{s:s, s:f, s:b}", "rope_type", "yarn", "factor", factor, "truncate", s->arch != GPT_OSS);
        if (number(s, "rope.scaling.original_context_length", &n))
            json_object_set_new(scaling, "original_max_position_embeddings", json_integer((json_int_t)n));
        if (number(s, "rope.scaling.yarn_beta_fast", &n))
            json_object_set_new(scaling, "beta_fast", json_real(n));
        if (number(s, "rope.scaling.yarn_beta_slow", &n))
            json_object_set_new(scaling, "beta_slow", json_real(n));
    } else if (type && !gguf_is(gguf_string(type), "none")) {
        die("%s: '%s.rope.scaling.type' is '%.*s': must be none, linear or yarn", s->path, archs[s->arch].name,
            gguf_string(type).size < 80 ? (int)gguf_string(type).size : 80, gguf_string(type).at);
    }
    if (scaling)
        json_object_set_new(to, "rope_scaling", scaling);
}

/* Which layers slide: each but every n-th, or a bool for each layer. */
static void read_pattern(const struct source *s, json_t *to)
{
    const struct gguf_value *v = find(s, "attention.sliding_window_pattern");
    int64_t n;
    if (!v)
        return;
    if (!v->array && gguf_integer(v, 0, &n)) {
        json_object_set_new(to, "sliding_window_pattern", json_integer(n));
        return;
    }
    if (v->kind != GGUF_BOOL || v->count > MOST_LAYERS)
        die("%s: '%s.attention.sliding_window_pattern' must be an integer, or a bool for each of up to %d layers",
            s->path, archs[s->arch].name, MOST_LAYERS);
    json_t *types = json_array();
    for (uint64_t i = 0; i < v->count; i++)
        json_array_append_new(types, json_string(v->at[i] ? "sliding_attention" : "full_attention"));
    json_object_set_new(to, "layer_types", types);
}

/* Gemma 3's scores are divided by the root of a number that llama.cpp takes from the model's size: only the one with 62
 * layers (27B) has another than its heads' elements. */
static void read_scalar(const struct source *s, json_t *to)
{
    double layers = 0, hidden = 0, heads = 1, scalar = 0, scale;
    number(s, "block_count", &layers);
    number(s, "embedding_length", &hidden);
    number(s, "attention.head_count", &heads);
    number(s, "attention.key_length", &scalar);
    if (layers == 62)
        scalar = hidden / heads;
    if (number(s, "attention.scale", &scale))
        scalar = 1 / (scale * scale);
    json_object_set_new(to, "query_pre_attn_scalar", json_real(isfinite(scalar) ? scalar : 0));
}

static void read_ends(const struct source *s, json_t *to)
{
    static const char *const keys[] = { "eos", "eot", "eom" };
    json_t *ends = json_array();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char key[64];
        int64_t n;
        snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", keys[i]);
        const struct gguf_value *v = gguf_find(s->g, key);
        if (v && (v->array || !gguf_integer(v, 0, &n)))
            die("%s: '%s' must be an integer", s->path, key);
        if (v)
            json_array_append_new(ends, json_integer(n));
    }
    json_object_set_new(to, "eos_token_id", ends);
}

/* What may not be, and what must be alike. */
static void check_values(const struct source *s)
{
    const char *arch = archs[s->arch].name;
    const struct gguf_value *split = gguf_find(s->g, "split.count");
    double n, keys = 0, values = 0;
    int64_t files;
    if (split && gguf_integer(split, 0, &files) && files > 1)
        die("%s: 'split.count' is %lld: must be 1: a model in several files isn't known here", s->path,
            (long long)files);
    if (number(s, "attention.key_length", &keys) && number(s, "attention.value_length", &values) && keys != values)
        die("%s: '%s.attention.key_length' is %g, 'attention.value_length' %g: must be the same", s->path, arch, keys,
            values);
    if ((s->arch == LLAMA || s->arch == QWEN2) && number(s, "expert_count", &n) && n != 0)
        die("%s: '%s.expert_count' is %g: must be 0: experts are qwen3moe's and gpt-oss' here", s->path, arch, n);
    static const char *const caps[] = { "attn_logit_softcapping", "final_logit_softcapping" };
    for (size_t i = 0; i < 2; i++)
        if (number(s, caps[i], &n) && n != 0)
            die("%s: '%s.%s' is %g: capped logits aren't known here", s->path, arch, caps[i], n);
}

json_t *gguf_config(const char *path)
{
    struct gguf *g = open_gguf(path);
    struct source s = { path, g, read_arch(path, g) };
    const struct gguf_tensor *embedding = gguf_find_tensor(g, "token_embd.weight");
    if (!embedding || embedding->ndim != 2)
        die("%s: tensor 'token_embd.weight' must have two dimensions, and %s", path,
            embedding ? "hasn't" : "is missing");
    json_t *to = json_pack("{s:[s], s:s, s:b, s:f, s:b}", "architectures", archs[s.arch].class, "hidden_act",
                           archs[s.arch].act, "tie_word_embeddings", gguf_find_tensor(g, "output.weight") == NULL,
                           "rope_theta", 10000.0, "norm_topk_prob", s.arch == QWEN3MOE);
    check_values(&s);
    rename_numbers(&s, to);
    json_object_set_new(to, "vocab_size", json_integer((json_int_t)embedding->shape[0]));
    double rotated, head = 0;
    if (number(&s, "rope.dimension_count", &rotated)) {
        json_t *given = json_object_get(to, "head_dim");
        double hidden = 0, heads = 1;
        number(&s, "embedding_length", &hidden);
        number(&s, "attention.head_count", &heads);
        head = given ? json_number_value(given) : heads > 0 ? hidden / heads : 0;
        if (rotated != head)
            die("%s: '%s.rope.dimension_count' is %g: must be a head's elements, %g", path, archs[s.arch].name, rotated,
                head);
    }
    read_scaling(&s, to);
    read_ends(&s, to);
    if (s.arch == GEMMA3 || s.arch == GPT_OSS)
        read_pattern(&s, to);
    if (s.arch == GEMMA3)
        read_scalar(&s, to);
    if (s.arch == GPT_OSS)
        json_object_set_new(to, "quantization_config", json_pack("{s:s}", "quant_method", "mxfp4"));
    gguf_close(g);
    return to;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* What is behind "blk.N.", or all of a name, and what is behind "model.layers.N.". NULL: experts. */
static const struct {
    const char *from, *to;
    int of; /* an architecture, or ARCHS: those that no other line is for */
} names[] = {
    { "token_embd.weight", "model.embed_tokens.weight", ARCHS },
    { "output_norm.weight", "model.norm.weight", ARCHS },
    { "output.weight", "lm_head.weight", ARCHS },
    { "attn_norm.weight", "input_layernorm.weight", ARCHS },
    { "attn_q.weight", "self_attn.q_proj.weight", ARCHS },
    { "attn_k.weight", "self_attn.k_proj.weight", ARCHS },
    { "attn_v.weight", "self_attn.v_proj.weight", ARCHS },
    { "attn_output.weight", "self_attn.o_proj.weight", ARCHS },
    { "attn_q.bias", "self_attn.q_proj.bias", ARCHS },
    { "attn_k.bias", "self_attn.k_proj.bias", ARCHS },
    { "attn_v.bias", "self_attn.v_proj.bias", ARCHS },
    { "attn_output.bias", "self_attn.o_proj.bias", ARCHS },
    { "attn_q_norm.weight", "self_attn.q_norm.weight", ARCHS },
    { "attn_k_norm.weight", "self_attn.k_norm.weight", ARCHS },
    { "attn_sinks.weight", "self_attn.sinks", ARCHS },
    { "post_attention_norm.weight", "post_attention_layernorm.weight", ARCHS },
    { "post_ffw_norm.weight", "post_feedforward_layernorm.weight", ARCHS },
    { "ffn_norm.weight", "pre_feedforward_layernorm.weight", GEMMA3 },
    { "ffn_norm.weight", "post_attention_layernorm.weight", ARCHS },
    { "ffn_gate.weight", "mlp.gate_proj.weight", ARCHS },
    { "ffn_up.weight", "mlp.up_proj.weight", ARCHS },
    { "ffn_down.weight", "mlp.down_proj.weight", ARCHS },
    { "ffn_gate_inp.weight", "mlp.router.weight", GPT_OSS },
    { "ffn_gate_inp.weight", "mlp.gate.weight", ARCHS },
    { "ffn_gate_inp.bias", "mlp.router.bias", ARCHS },
};

/* A type that rfg has as a dtype of the same name. */
static rfg_dtype blocks_of(uint32_t type)
{
    for (rfg_dtype d = RFG_DTYPE_NONE + 1; d < RFG_DTYPE_COUNT; d++)
        if (!strcasecmp(rfg_dtype_name(d), gguf_types[type].name))
            return d;
    return RFG_DTYPE_NONE;
}

static void set(struct tensor *t, const struct gguf_tensor *from)
{
    t->dtype = from->type == GGUF_F32_TENSOR    ? F32
               : from->type == GGUF_F16_TENSOR  ? F16
               : from->type == GGUF_BF16_TENSOR ? BF16
                                                : BLOCKS;
    t->blocks = t->dtype == BLOCKS ? blocks_of(from->type) : RFG_DTYPE_NONE;
    t->data = from->at;
    t->ndim = t->dtype == BLOCKS && t->blocks == RFG_DTYPE_NONE ? -1 : from->ndim; /* -1: not for a decoder */
    for (int i = 0; i < from->ndim; i++)
        t->shape[i] = (int64_t)from->shape[i];
}

/* A tensor of a layer's experts: each is one of its own. */
static void add_each(struct weights *w, const struct gguf_tensor *from, int layer, const char *part)
{
    for (uint64_t e = 0; e < from->shape[0]; e++) {
        char name[128];
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%d.%s.weight", layer, (int)e, part);
        struct tensor *t = weights_add(w, name);
        set(t, from);
        t->ndim = 2;
        t->shape[0] = t->shape[1];
        t->shape[1] = t->shape[2];
        t->data += e * (from->bytes / from->shape[0]);
    }
}

/* gpt-oss': second NULL: it is one tensor, as in Hugging Face's files; else its rows and those of `second` take turns. */
static void add_stacked(struct weights *w, const struct gguf_tensor *from, const struct gguf_tensor *second, int layer,
                        const char *part)
{
    static const char *const kinds[] = { "blocks", "scales" };
    bool bias = from->ndim == 2;
    for (int i = 0; i < (bias ? 1 : 2); i++) {
        char name[128];
        snprintf(name, sizeof(name), "model.layers.%d.mlp.experts.%s_%s", layer, part, bias ? "bias" : kinds[i]);
        struct tensor *t = weights_add(w, name);
        set(t, from);
        t->second = second ? second->at : NULL;
        t->shape[1] *= second ? 2 : 1;
        if (bias)
            continue;
        t->dtype = U8;
        t->ndim = 4 - i;
        t->shape[2] /= 32;
        t->shape[3] = 16;
    }
}

/* What a layer's tensor of experts, `part` of its name, becomes. False: it is none. */
static bool add_experts(struct weights *w, const struct source *s, const struct gguf_tensor *t, int layer,
                        const char *part)
{
    static const struct {
        const char *from, *each, *stacked;
        int dims;
    } kinds[] = { { "ffn_gate_exps.weight", "gate_proj", "gate_up_proj", 3 },
                  { "ffn_up_exps.weight", "up_proj", NULL, 3 },
                  { "ffn_down_exps.weight", "down_proj", "down_proj", 3 },
                  { "ffn_gate_exps.bias", NULL, "gate_up_proj", 2 },
                  { "ffn_up_exps.bias", NULL, NULL, 2 },
                  { "ffn_down_exps.bias", NULL, "down_proj", 2 } };
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    int i = 0;
    while (i < KINDS && strcmp(part, kinds[i].from))
        i++;
    if (i == KINDS || (s->arch != QWEN3MOE && s->arch != GPT_OSS) || (s->arch == QWEN3MOE && !kinds[i].each))
        return false;
    const struct gguf_tensor *up = NULL;
    uint32_t must_be = kinds[i].dims == 3 ? GGUF_MXFP4_TENSOR : GGUF_F32_TENSOR;
    if (t->ndim != kinds[i].dims || t->shape[0] > MOST_EXPERTS)
        die("%s: tensor 'blk.%d.%s' must have %d dimensions, and at most %d experts", s->path, layer, part,
            kinds[i].dims, MOST_EXPERTS);
    if (s->arch == QWEN3MOE) {
        add_each(w, t, layer, kinds[i].each);
        return true;
    }
    if (t->type != must_be)
        die("%s: tensor 'blk.%d.%s' is %s: must be %s", s->path, layer, part, gguf_types[t->type].name,
            gguf_types[must_be].name);
    if (i % 3 == 0) {
        char name[128];
        snprintf(name, sizeof(name), "blk.%d.%s", layer, kinds[i + 1].from);
        up = gguf_find_tensor(s->g, name);
        if (!up || up->type != t->type || up->ndim != t->ndim || memcmp(up->shape, t->shape, sizeof(t->shape)))
            die("%s: tensor '%s' must be of the type and shape of 'blk.%d.%s', and %s", s->path, name, layer, part,
                up ? "isn't" : "is missing");
    }
    if (kinds[i].stacked)
        add_stacked(w, t, up, layer, kinds[i].stacked);
    return true;
}

/* Of "blk.N.part" N, and part; -1: of no layer. */
static int layer_of(const char **name)
{
    int layer, n = 0;
    if (sscanf(*name, "blk.%3d.%n", &layer, &n) != 1 || !n || layer < 0)
        return -1;
    *name += n;
    return layer;
}

/* Elements of a head of q or k, if the tensor is one of theirs and its rows lie in turn. */
static int64_t turned(const struct source *s, const struct gguf_tensor *t, const char *part)
{
    double n = 0;
    bool q = !strncmp(part, "attn_q.", 7), k = !strncmp(part, "attn_k.", 7);
    if (s->arch != LLAMA || (!q && !k))
        return 0;
    number(s, k && find(s, "attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count", &n);
    if (n < 1 || t->shape[0] % (uint64_t)n || t->shape[0] / (uint64_t)n % 2)
        die("%s: tensor '%.*s' has %llu rows: must be an even number for each of %g heads", s->path, (int)t->name.size,
            t->name.at, (unsigned long long)t->shape[0], n);
    return (int64_t)(t->shape[0] / (uint64_t)n);
}

static void add_tensor(struct weights *w, const struct source *s, const struct gguf_tensor *t)
{
    char full[128], name[160];
    const char *part = full;
    snprintf(full, sizeof(full), "%.*s", (int)t->name.size, t->name.at);
    int layer = layer_of(&part);
    if (!strcmp(part, "rope_freqs.weight") || (layer >= 0 && add_experts(w, s, t, layer, part)))
        return;
    const char *to = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !to; i++)
        if (!strcmp(part, names[i].from) && (names[i].of == ARCHS || names[i].of == (int)s->arch))
            to = names[i].to;
    if (!to)
        snprintf(name, sizeof(name), "%s", full); /* a part that the model hasn't got, which the end of loading says */
    else if (layer >= 0)
        snprintf(name, sizeof(name), "model.layers.%d.%s", layer, to);
    else
        snprintf(name, sizeof(name), "%s", to);
    struct tensor *added = weights_add(w, name);
    set(added, t);
    added->turned = turned(s, t, part);
    added->plus_one = s->arch == GEMMA3 && strstr(part, "norm");
}

void gguf_weights(struct weights *w, const char *path)
{
    struct gguf *g = open_gguf(path);
    struct source s = { path, g, read_arch(path, g) };
    for (size_t i = 0; i < g->tensor_count; i++)
        add_tensor(w, &s, &g->tensors[i]);
    weights_add_file(w, path, g->map, g->size);
    g->map = NULL; /* the weights have it now */
    gguf_close(g);
}
