/* SPDX-License-Identifier: MIT
 *
 * What a model is: config.json of a Hugging Face folder, or one of the built-in shapes. */
#include "decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading JSON: what is missing or wrong is said with the file's name and the key ---------------------------- */

struct source {
    const char *path;
    json_t *object;
};

static const json_t *need(const struct source *s, const char *key)
{
    const json_t *v = json_object_get(s->object, key);
    if (!v)
        die("%s: the key '%s' is missing", s->path, key);
    return v;
}

static int64_t integer(const struct source *s, const char *key, int64_t least, int64_t most)
{
    const json_t *v = need(s, key);
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        die("%s: '%s' must be an integer from %lld to %lld", s->path, key, (long long)least, (long long)most);
    return json_integer_value(v);
}

static double number(const struct source *s, const char *key)
{
    const json_t *v = need(s, key);
    if (!json_is_number(v) || !(json_number_value(v) > 0) || isinf(json_number_value(v)))
        die("%s: '%s' must be a number above 0", s->path, key);
    return json_number_value(v);
}

static const char *string(const struct source *s, const char *key)
{
    const json_t *v = need(s, key);
    if (!json_is_string(v))
        die("%s: '%s' must be a string", s->path, key);
    return json_string_value(v);
}

/* Absent and null are the same in these files. */
static bool has(const struct source *s, const char *key)
{
    const json_t *v = json_object_get(s->object, key);
    return v && !json_is_null(v);
}

static double number_or(const struct source *s, const char *key, double otherwise)
{
    return has(s, key) ? number(s, key) : otherwise;
}

static bool is_true(const struct source *s, const char *key)
{
    return json_is_true(json_object_get(s->object, key));
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* transformers' rope_scaling: {"rope_type": ..., "factor": ...}; older files say "type". */
static void read_scaling(rfg_rope_table_params *r, const struct source *config, int64_t positions)
{
    if (!has(config, "rope_scaling"))
        return;
    struct source s = { config->path, json_object_get(config->object, "rope_scaling") };
    if (!json_is_object(s.object))
        die("%s: 'rope_scaling' must be an object", s.path);
    const char *type = string(&s, has(&s, "rope_type") ? "rope_type" : "type");
    if (!strcmp(type, "default"))
        return;
    r->factor = number(&s, "factor");
    r->original = (int32_t)positions;
    if (!strcmp(type, "linear")) {
        r->scaling = RFG_ROPE_LINEAR;
    } else if (!strcmp(type, "llama3")) {
        r->scaling = RFG_ROPE_LLAMA3;
        r->low_freq_factor = number(&s, "low_freq_factor");
        r->high_freq_factor = number(&s, "high_freq_factor");
        r->original = (int32_t)integer(&s, "original_max_position_embeddings", 1, INT32_MAX);
        if (r->high_freq_factor <= r->low_freq_factor)
            die("%s: 'high_freq_factor' must be above 'low_freq_factor'", s.path);
    } else if (!strcmp(type, "yarn")) {
        r->scaling = RFG_ROPE_YARN;
        r->beta_fast = number_or(&s, "beta_fast", 32);
        r->beta_slow = number_or(&s, "beta_slow", 1);
        r->attention_factor = number_or(&s, "attention_factor", 0);
        if (has(&s, "original_max_position_embeddings"))
            r->original = (int32_t)integer(&s, "original_max_position_embeddings", 1, INT32_MAX);
    } else {
        die("%s: rope_scaling's type is '%s': must be default, linear, llama3 or yarn", s.path, type);
    }
}

/* Gemma3: which layers slide: "layer_types", or each but every sliding_window_pattern-th (6). */
static void read_sliding(struct config *c, const struct source *s)
{
    c->window = integer(s, "sliding_window", 1, INT32_MAX);
    c->sliding_rope =
        (rfg_rope_table_params){ .size = sizeof(c->rope), .theta = number_or(s, "rope_local_base_freq", 10000) };
    if (!has(s, "layer_types")) {
        int64_t pattern = has(s, "sliding_window_pattern") ? integer(s, "sliding_window_pattern", 1, MOST_LAYERS) : 6;
        for (int64_t i = 0; i < c->layers; i++)
            c->sliding[i] = (i + 1) % pattern != 0;
        return;
    }
    const json_t *types = need(s, "layer_types");
    if ((int64_t)json_array_size(types) != c->layers)
        die("%s: 'layer_types' must have an entry for each of %lld layers, and has %zu", s->path, (long long)c->layers,
            json_array_size(types));
    for (int64_t i = 0; i < c->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        c->sliding[i] = type && !strcmp(type, "sliding_attention");
        if (!c->sliding[i] && (!type || strcmp(type, "full_attention")))
            die("%s: 'layer_types' must say sliding_attention or full_attention", s->path);
    }
}

static void read_eos(struct config *c, const struct source *s)
{
    const json_t *v = json_object_get(s->object, "eos_token_id");
    const size_t most = sizeof(c->eos) / sizeof(c->eos[0]);
    if (json_is_integer(v)) {
        c->eos[c->eos_count++] = json_integer_value(v);
    } else if (json_is_array(v)) {
        if (json_array_size(v) > most)
            die("%s: 'eos_token_id' has %zu entries: must be at most %zu", s->path, json_array_size(v), most);
        for (size_t i = 0; i < json_array_size(v); i++)
            c->eos[c->eos_count++] = json_integer_value(json_array_get(v, i));
    }
}

static void read_act(struct config *c, const struct source *s, const char *key)
{
    const char *act = string(s, key);
    if (!strcmp(act, "silu"))
        c->act = RFG_ACT_SILU;
    else if (!strcmp(act, "gelu_pytorch_tanh"))
        c->act = RFG_ACT_GELU_TANH;
    else if (!strcmp(act, "gelu"))
        c->act = RFG_ACT_GELU;
    else
        die("%s: '%s' is '%s': must be silu, gelu or gelu_pytorch_tanh", s->path, key, act);
}

/* What holds for built-in shapes too: what the attention operators take. */
static void check_shape(const struct config *c, const char *path)
{
    if (c->heads % c->kv_heads)
        die("%s: 'num_attention_heads' is %lld: must be a multiple of 'num_key_value_heads', %lld", path,
            (long long)c->heads, (long long)c->kv_heads);
    if (c->head_dim != 64 && c->head_dim != 96 && c->head_dim != 128 && c->head_dim != 256)
        die("%s: 'head_dim' is %lld: must be 64, 96, 128 or 256", path, (long long)c->head_dim);
    if (c->bytes && c->vocab < 256)
        die("%s: 'vocab_size' is %lld: must be 256 at least with \"tokenizer\": \"bytes\"", path, (long long)c->vocab);
}

void config_read(struct config *c, const char *folder)
{
    static char path[4096];
    json_error_t e;
    snprintf(path, sizeof(path), "%s/config.json", folder);
    struct source s = { path, json_load_file(path, JSON_REJECT_DUPLICATES, &e) };
    if (!s.object && e.line > 0)
        die("%s:%d: %s", path, e.line, e.text);
    if (!s.object)
        die("%s", e.text);
    *c = (struct config){ 0 };
    const char *arch = json_string_value(json_array_get(need(&s, "architectures"), 0));
    bool qwen = arch && !strcmp(arch, "Qwen3ForCausalLM");
    c->gemma = arch && !strcmp(arch, "Gemma3ForCausalLM");
    if (!qwen && !c->gemma && (!arch || strcmp(arch, "LlamaForCausalLM")))
        die("%s: 'architectures' is '%s': must be LlamaForCausalLM, Qwen3ForCausalLM or Gemma3ForCausalLM", path,
            arch ? arch : "no list of a string");
    snprintf(c->name, sizeof(c->name), "%s", arch);
    c->qk_norm = qwen || c->gemma;
    c->hidden = integer(&s, "hidden_size", 8, 1 << 20);
    c->intermediate = integer(&s, "intermediate_size", 8, 1 << 20);
    c->layers = integer(&s, "num_hidden_layers", 1, MOST_LAYERS);
    c->heads = integer(&s, "num_attention_heads", 1, 1 << 16);
    c->kv_heads = has(&s, "num_key_value_heads") ? integer(&s, "num_key_value_heads", 1, 1 << 16) : c->heads;
    c->head_dim = has(&s, "head_dim") ? integer(&s, "head_dim", 1, 1 << 16) : c->hidden / c->heads;
    c->vocab = integer(&s, "vocab_size", 2, 1 << 24);
    c->positions = integer(&s, "max_position_embeddings", 1, INT32_MAX);
    c->eps = (float)number(&s, "rms_norm_eps");
    c->rope.size = sizeof(c->rope);
    c->rope.theta = number(&s, "rope_theta");
    c->tied = has(&s, "tie_word_embeddings") ? is_true(&s, "tie_word_embeddings") : c->gemma;
    c->bytes = has(&s, "tokenizer") && !strcmp(string(&s, "tokenizer"), "bytes");
    read_scaling(&c->rope, &s, c->positions);
    read_act(c, &s, c->gemma && has(&s, "hidden_activation") ? "hidden_activation" : "hidden_act");
    read_eos(c, &s);
    if (c->gemma) {
        read_sliding(c, &s);
        c->attention_scale = (float)(1 / sqrt(number(&s, "query_pre_attn_scalar")));
    } else if (is_true(&s, "use_sliding_window")) {
        die("%s: 'use_sliding_window' is true: only Gemma3's windows are known", path);
    }
    if (is_true(&s, "attention_bias") || is_true(&s, "mlp_bias"))
        die("%s: 'attention_bias' or 'mlp_bias' is true: projections have no bias here", path);
    if (has(&s, "attn_logit_softcapping") || has(&s, "final_logit_softcapping"))
        die("%s: logits are capped ('attn_logit_softcapping', 'final_logit_softcapping'): that isn't known here", path);
    check_shape(c, path);
    json_decref(s.object);
}

/* ---- built-in shapes ----------------------------------------------------------------------------------------------
 */

#define ROPE(...)                                                                                                      \
    {                                                                                                                  \
        .size = sizeof(rfg_rope_table_params), __VA_ARGS__                                                             \
    }
#define LLAMA3_ROPE                                                                                                    \
    ROPE(.scaling = RFG_ROPE_LLAMA3, .theta = 500000, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,        \
         .original = 8192)

void config_builtin(struct config *c, const char *name)
{
    /* The files of meta-llama/Llama-3.1-8B and 70B, Qwen/Qwen3-8B, google/gemma-3-4b-it. */
    const struct config shapes[] = {
        { .name = "llama3-8b",
          .hidden = 4096,
          .intermediate = 14336,
          .layers = 32,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .vocab = 128256,
          .positions = 131072,
          .eps = 1e-5f,
          .rope = LLAMA3_ROPE },
        { .name = "llama3-70b-tp8",
          .hidden = 8192,
          .intermediate = 28672 / 8,
          .layers = 80,
          .heads = 64 / 8,
          .kv_heads = 8 / 8,
          .head_dim = 128,
          .vocab = 128256 / 8,
          .positions = 131072,
          .eps = 1e-5f,
          .rope = LLAMA3_ROPE },
        { .name = "qwen3-8b",
          .hidden = 4096,
          .intermediate = 12288,
          .layers = 36,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .vocab = 151936,
          .positions = 40960,
          .eps = 1e-6f,
          .rope = ROPE(.theta = 1e6),
          .qk_norm = true },
        { .name = "gemma3-4b",
          .hidden = 2560,
          .intermediate = 10240,
          .layers = 34,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 256,
          .vocab = 262208,
          .positions = 131072,
          .eps = 1e-6f,
          .rope = ROPE(.scaling = RFG_ROPE_LINEAR, .theta = 1e6, .factor = 8),
          .sliding_rope = ROPE(.theta = 10000),
          .window = 1024,
          .qk_norm = true,
          .gemma = true,
          .tied = true,
          .act = RFG_ACT_GELU_TANH,
          .attention_scale = 1 / 16.f },
        { .name = "small",
          .hidden = 256,
          .intermediate = 576,
          .layers = 6,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 64,
          .vocab = 256,
          .positions = 4096,
          .eps = 1e-5f,
          .rope = ROPE(.theta = 10000),
          .tied = true,
          .bytes = true },
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (!strcmp(shapes[i].name, name)) {
            *c = shapes[i];
            for (int64_t n = 0; c->gemma && n < c->layers; n++)
                c->sliding[n] = (n + 1) % 6 != 0;
            return;
        }
    die("--random '%s': must be llama3-8b, qwen3-8b, gemma3-4b, llama3-70b-tp8 or small", name);
}
