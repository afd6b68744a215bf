/* SPDX-License-Identifier: MIT
 *
 * Reads config.json of a Hugging Face folder, or what a .gguf file says of the same. */
#include "decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading JSON: what is missing or wrong is said with the file's name and the key ---------------------------- */

struct source {
    const char *path;
    json_t *object;
    bool gguf;
};

/* What messages call a key: a .gguf file has another name for it. */
static const char *called(const struct source *s, const char *key)
{
    static char both[128];
    const char *other = s->gguf ? gguf_key_of(key) : NULL;
    snprintf(both, sizeof(both), other ? "%s' ('%s')" : "%s'", key, other);
    return both;
}

static const json_t *need(const struct source *s, const char *key)
{
    const json_t *v = json_object_get(s->object, key);
    if (!v)
        die("%s: the key '%s is missing", s->path, called(s, key));
    return v;
}

static int64_t integer(const struct source *s, const char *key, int64_t least, int64_t most)
{
    const json_t *v = need(s, key);
    if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > most)
        die("%s: '%s must be an integer from %lld to %lld", s->path, called(s, key), (long long)least, (long long)most);
    return json_integer_value(v);
}

static double number(const struct source *s, const char *key)
{
    const json_t *v = need(s, key);
    if (!json_is_number(v) || !(json_number_value(v) > 0) || isinf(json_number_value(v)))
        die("%s: '%s must be a number above 0", s->path, called(s, key));
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

static int64_t integer_or(const struct source *s, const char *key, int64_t least, int64_t most, int64_t otherwise)
{
    return has(s, key) ? integer(s, key, least, most) : otherwise;
}

static bool is_true(const struct source *s, const char *key)
{
    return json_is_true(json_object_get(s->object, key));
}

/* ---- angles ----------------------------------------------------------------------------------------------------- */

/* LongRoPE's factors of one length: a number above 0 for each pair. */
static void read_factors(float *to, const struct source *s, const char *key, int64_t pairs)
{
    const json_t *v = need(s, key);
    if ((int64_t)json_array_size(v) != pairs)
        die("%s: '%s' must have a number for each of %lld pairs, and has %zu", s->path, key, (long long)pairs,
            json_array_size(v));
    for (int64_t i = 0; i < pairs; i++) {
        to[i] = (float)json_number_value(json_array_get(v, (size_t)i));
        if (!(to[i] > 0) || isinf(to[i]))
            die("%s: '%s' must be numbers above 0", s->path, key);
    }
}

/* Older files of Phi-3 say "su". */
static void read_longrope(struct config *c, rfg_rope_table_params *r, const struct source *config,
                          const struct source *s)
{
    const char *key = "original_max_position_embeddings";
    r->scaling = RFG_ROPE_LONGROPE;
    r->original = (int32_t)integer(has(config, key) ? config : s, key, 2, INT32_MAX);
    r->factor = number_or(s, "factor", fmax((double)c->positions / r->original, 1));
    r->attention_factor = number_or(s, "attention_factor", 0);
    r->short_mscale = number_or(s, "short_mscale", 0);
    r->long_mscale = number_or(s, "long_mscale", 0);
    read_factors(c->rope_factors[0], s, "short_factor", rotated(c, 0) / 2);
    read_factors(c->rope_factors[1], s, "long_factor", rotated(c, 0) / 2);
}

static void read_yarn(rfg_rope_table_params *r, const struct source *s, int64_t positions)
{
    r->scaling = RFG_ROPE_YARN;
    r->factor = number(s, "factor");
    r->beta_fast = number_or(s, "beta_fast", 32);
    r->beta_slow = number_or(s, "beta_slow", 1);
    r->attention_factor = number_or(s, "attention_factor", 0);
    r->mscale = number_or(s, "mscale", 0);
    r->mscale_all_dim = number_or(s, "mscale_all_dim", 0);
    r->original = (int32_t)integer_or(s, "original_max_position_embeddings", 1, INT32_MAX, positions);
    r->untruncated = has(s, "truncate") && !is_true(s, "truncate");
}

static void read_llama3(rfg_rope_table_params *r, const struct source *s)
{
    r->scaling = RFG_ROPE_LLAMA3;
    r->factor = number(s, "factor");
    r->low_freq_factor = number(s, "low_freq_factor");
    r->high_freq_factor = number(s, "high_freq_factor");
    r->original = (int32_t)integer(s, "original_max_position_embeddings", 1, INT32_MAX);
    if (r->high_freq_factor <= r->low_freq_factor)
        die("%s: 'high_freq_factor' must be above 'low_freq_factor'", s->path);
}

/* The share of a head that is rotated: of the head's elements, or, proportional, of the table's pairs. */
static void read_rotated(struct config *c, rfg_rope_table_params *r, const struct source *config,
                         const struct source *s)
{
    bool proportional = r->scaling == RFG_ROPE_PROPORTIONAL, second = r != &c->rope;
    const struct source *from = s->object && has(s, "partial_rotary_factor") ? s : config;
    double share = number_or(from, "partial_rotary_factor", c->gated ? 0.25 : 1);
    int64_t rotated = proportional ? c->head_dim : (int64_t)((double)c->head_dim * share);
    if (share > 1 || rotated < 2 || rotated % 2)
        die("%s: 'partial_rotary_factor' is %g: must be at most 1, and %lld of a head's %lld elements even", s->path,
            share, (long long)rotated, (long long)c->head_dim);
    rotated = rotated == c->head_dim ? 0 : rotated; /* all of a head, whatever its size */
    if (second && c->rotated != rotated)
        die("%s: 'partial_rotary_factor' must be the same for all layers", s->path);
    c->rotated = rotated;
    if (proportional)
        r->partial_rotary_factor = share;
}

/* transformers' rope_scaling, or an entry of rope_parameters: {"rope_type": ..., "factor": ...}; older files say
 * "type". NULL: there is none. */
static void read_scaling(struct config *c, rfg_rope_table_params *r, const struct source *config, json_t *object)
{
    struct source s = { config->path, object, config->gguf };
    if (object && !json_is_object(object))
        die("%s: 'rope_scaling' or 'rope_parameters' must be an object", s.path);
    bool typed = object && (has(&s, "rope_type") || has(&s, "type"));
    const char *type = !typed ? "default" : string(&s, has(&s, "rope_type") ? "rope_type" : "type");
    *r = (rfg_rope_table_params){ .size = sizeof(*r) };
    r->theta = number(object && has(&s, "rope_theta") ? &s : config, "rope_theta");
    r->scaling = !strcmp(type, "proportional") ? RFG_ROPE_PROPORTIONAL : RFG_ROPE_DEFAULT;
    read_rotated(c, r, config, &s);
    if (!strcmp(type, "linear")) {
        r->scaling = RFG_ROPE_LINEAR;
        r->factor = number(&s, "factor");
    } else if (!strcmp(type, "llama3")) {
        read_llama3(r, &s);
    } else if (!strcmp(type, "yarn")) {
        read_yarn(r, &s, c->positions);
    } else if (!strcmp(type, "longrope") || !strcmp(type, "su")) {
        read_longrope(c, r, config, &s);
    } else if (!strcmp(type, "dynamic")) { /* the table is for as many positions as there are (--context) */
        r->scaling = RFG_ROPE_DYNAMIC;
        r->factor = number(&s, "factor");
        r->original = (int32_t)integer(config, "max_position_embeddings", 1, INT32_MAX);
        c->positions = (int64_t)fmin((double)r->original * r->factor, INT32_MAX);
    } else if (!strcmp(type, "proportional")) {
        r->factor = number_or(&s, "factor", 1);
    } else if (strcmp(type, "default")) {
        die("%s: rope_scaling's type is '%s': must be default, linear, llama3, yarn, dynamic, longrope or proportional",
            s.path, type);
    }
}

/* rope_parameters (transformers 5) are one entry, or one of each type of layers. */
static void read_rope(struct config *c, const struct source *s)
{
    json_t *given = json_object_get(s->object, has(s, "rope_parameters") ? "rope_parameters" : "rope_scaling");
    json_t *full = json_object_get(given, "full_attention"), *sliding = json_object_get(given, "sliding_attention");
    read_scaling(c, &c->rope, s, json_is_null(given) ? NULL : full ? full : given);
    c->sliding_rope = c->rope;
    if (sliding)
        read_scaling(c, &c->sliding_rope, s, sliding);
    else if (c->gemma && !c->gemma4.on)
        c->sliding_rope =
            (rfg_rope_table_params){ .size = sizeof(c->rope), .theta = number_or(s, "rope_local_base_freq", 10000) };
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

/* Which layers slide: "layer_types", or each but every sliding_window_pattern-th (Gemma3: 6, gpt-oss: 2). */
static void read_sliding(struct config *c, const struct source *s)
{
    c->slides = true;
    c->window = integer(s, "sliding_window", 1, INT32_MAX);
    if (!has(s, "layer_types")) {
        int64_t pattern = integer_or(s, "sliding_window_pattern", 1, MOST_LAYERS, c->gemma ? 6 : 2);
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

/* A value of per_layer_config, which must be the same for all full layers; as older files have it: at the top. */
static int64_t of_full_layers(const struct config *c, const struct source *s, const char *key, const char *older,
                              int64_t otherwise)
{
    int64_t found = integer_or(s, older, 1, 1 << 16, otherwise);
    const json_t *given = json_object_get(s->object, "per_layer_config");
    bool first = true;
    for (int64_t l = 0; given && l < c->layers; l++) {
        char number[24];
        snprintf(number, sizeof(number), "%lld", (long long)l);
        struct source one = { s->path, json_object_get(given, number), s->gguf };
        int64_t n = integer_or(&one, key, 1, 1 << 16, integer(s, key, 1, 1 << 16));
        if (c->sliding[l] ? n != integer(s, key, 1, 1 << 16) : !first && n != found)
            die("%s: 'per_layer_config': layer %s has '%s' %lld: full layers must have one value, sliding layers the "
                "model's",
                s->path, number, key, (long long)n);
        if (!c->sliding[l]) {
            found = n;
            first = false;
        }
    }
    return found;
}

static void read_gemma4(struct config *c, const struct source *s)
{
    struct gemma4 *g = &c->gemma4;
    if (is_true(s, "enable_moe_block"))
        die("%s: 'enable_moe_block' is true: Gemma 4's experts aren't known here", s->path);
    if (has(s, "use_bidirectional_attention") && strcmp(string(s, "use_bidirectional_attention"), "vision"))
        die("%s: 'use_bidirectional_attention' is '%s': must be null, or vision", s->path,
            string(s, "use_bidirectional_attention"));
    g->k_is_v = is_true(s, "attention_k_eq_v");
    g->wide = is_true(s, "use_double_wide_mlp");
    g->head_dim = of_full_layers(c, s, "head_dim", "global_head_dim", 512);
    g->kv_heads =
        of_full_layers(c, s, "num_key_value_heads", g->k_is_v ? "num_global_key_value_heads" : "", c->kv_heads);
    g->shared = integer_or(s, "num_kv_shared_layers", 0, c->layers - 1, 0);
    g->extra = integer_or(s, "hidden_size_per_layer_input", 0, 1 << 16, 256);
    g->extra_vocab = integer_or(s, "vocab_size_per_layer_input", 1, 1 << 24, c->vocab);
    g->soft_cap = (float)number_or(s, "final_logit_softcapping", 0);
    if (g->head_dim % 8 || g->head_dim > MOST_HEAD || c->heads % g->kv_heads)
        die("%s: full layers have heads of %lld elements, %lld of k: must be a multiple of 8 up to %d, and divide "
            "'num_attention_heads'",
            s->path, (long long)g->head_dim, (long long)g->kv_heads, MOST_HEAD);
    if (g->extra % 8 || (g->extra && g->extra_vocab < c->vocab))
        die("%s: 'hidden_size_per_layer_input' is %lld, 'vocab_size_per_layer_input' %lld: must be a multiple of 8, "
            "and "
            "%lld at least",
            s->path, (long long)g->extra, (long long)g->extra_vocab, (long long)c->vocab);
    for (int64_t l = c->layers - g->shared; l < c->layers; l++)
        if (c->sliding[keys_of(c, l)] != c->sliding[l])
            die("%s: 'num_kv_shared_layers' is %lld: layer %lld has no layer of its kind before them", s->path,
                (long long)g->shared, (long long)l);
}

/* Its linear attention isn't rfg's. */
static void read_qwen35(const struct config *c, const struct source *s)
{
    const json_t *types = need(s, "layer_types");
    for (int64_t i = 0; i < c->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (!type || strcmp(type, "full_attention"))
            die("%s: 'layer_types': layer %lld is '%s': must be full_attention: rfg has no gated delta net", s->path,
                (long long)i, type ? type : "no string");
    }
}

/* Where there is a window, all layers have it; one that holds all positions is none. */
static void read_phi3(struct config *c, const struct source *s)
{
    c->window = integer_or(s, "sliding_window", 1, INT32_MAX, c->positions);
    c->slides = c->window < c->positions;
    for (int64_t i = 0; i < c->layers && c->slides; i++)
        c->sliding[i] = true;
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

/* ---- mixtures --------------------------------------------------------------------------------------------------- */

/* The format of the experts' weights in the files, "quantization_config". */
static enum expert_format read_format(const struct source *config, bool gpt_oss)
{
    struct source s = { config->path, json_object_get(config->object, "quantization_config"), config->gguf };
    if (!json_is_object(s.object)) {
        if (gpt_oss)
            die("%s: 'quantization_config' is missing: gpt-oss' experts must be mxfp4", s.path);
        return EXPERTS_PLAIN;
    }
    const char *method = string(&s, "quant_method");
    if (strcmp(method, gpt_oss ? "mxfp4" : "fp8"))
        die("%s: 'quant_method' is '%s': must be %s", s.path, method, gpt_oss ? "mxfp4" : "fp8");
    if (gpt_oss)
        return EXPERTS_MXFP4;
    const json_t *block = need(&s, "weight_block_size");
    if (json_array_size(block) != 2 || json_integer_value(json_array_get(block, 0)) != 128 ||
        json_integer_value(json_array_get(block, 1)) != 128)
        die("%s: 'weight_block_size' must be [128, 128]", s.path);
    return EXPERTS_FP8_BLOCKS;
}

/* Layers without experts behind the first that has them. */
static void refuse_dense_layers(const struct source *s)
{
    static const struct {
        const char *key;
        int64_t must;
    } keys[] = { { "decoder_sparse_step", 1 }, { "moe_layer_freq", 1 } };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (integer_or(s, keys[i].key, 0, INT32_MAX, keys[i].must) != keys[i].must)
            die("%s: '%s' must be %lld: each layer but the first ones has experts here", s->path, keys[i].key,
                (long long)keys[i].must);
    if (json_array_size(json_object_get(s->object, "mlp_only_layers")))
        die("%s: 'mlp_only_layers' must be empty: each layer has experts here", s->path);
}

static void read_deepseek(struct config *c, const struct source *s)
{
    struct mixture *m = &c->moe;
    const char *scoring = string(s, "scoring_func");
    if (strcmp(scoring, "sigmoid"))
        die("%s: 'scoring_func' is '%s': must be sigmoid", s->path, scoring);
    m->scoring = RFG_MOE_SIGMOID;
    m->shared = integer_or(s, "n_shared_experts", 0, 1, 0);
    m->groups = integer_or(s, "n_group", 1, 32, 1);
    m->topk_groups = integer_or(s, "topk_group", 1, 32, m->groups);
    m->scale = (float)number_or(s, "routed_scaling_factor", 1);
    m->dense = integer_or(s, "first_k_dense_replace", 0, MOST_LAYERS, 0);
}

/* DeepSeek's attention. */
static void read_latent(struct config *c, const struct source *s)
{
    struct latent *a = &c->mla;
    a->q_rank = integer(s, "q_lora_rank", 8, 1 << 16);
    a->kv_rank = integer(s, "kv_lora_rank", 8, 1 << 16);
    a->nope = integer(s, "qk_nope_head_dim", 8, 1 << 16);
    a->rope = integer(s, "qk_rope_head_dim", 8, 1 << 16);
    a->values = integer(s, "v_head_dim", 8, 1 << 16);
    c->heads = integer(s, "num_attention_heads", 1, 1 << 16);
    c->kv_heads = 1;
    c->head_dim = a->rope;
}

float config_latent_scale(const struct latent *a, const rfg_rope_table_params *rope)
{
    double size = rope->factor > 1 ? 0.1 * rope->mscale_all_dim * log(rope->factor) + 1 : 1;
    return (float)(size * size / sqrt((double)(a->nope + a->rope)));
}

static void read_mixture(struct config *c, const struct source *s)
{
    struct mixture *m = &c->moe;
    m->experts = integer(s,
                         c->gpt_oss    ? "num_local_experts"
                         : c->deepseek ? "n_routed_experts"
                                       : "num_experts",
                         1, MOST_EXPERTS - 1);
    m->top = integer(s, "num_experts_per_tok", 1, MOST_SLOTS - 1);
    m->intermediate = integer(s, c->gpt_oss ? "intermediate_size" : "moe_intermediate_size", 8, 1 << 20);
    m->renormalise = is_true(s, "norm_topk_prob");
    m->format = read_format(s, c->gpt_oss);
    if (c->deepseek)
        read_deepseek(c, s);
    refuse_dense_layers(s);
    if (c->gpt_oss) {
        m->scoring = RFG_MOE_TOPK_SOFTMAX;
        m->limit = (float)number_or(s, "swiglu_limit", 7);
        c->act = RFG_ACT_SWIGLUOAI;
    }
}

static void check_mixture(const struct mixture *m, int64_t hidden, const char *where)
{
    int64_t groups = m->groups ? m->groups : 1, taken = m->groups ? m->topk_groups : 1;
    if (m->experts % groups || taken > groups)
        die("%s: %lld groups of experts of which %lld are taken: must divide %lld experts, and be as many at least",
            where, (long long)groups, (long long)taken, (long long)m->experts);
    if (m->top > m->experts / groups * taken)
        die("%s: 'num_experts_per_tok' is %lld: must be at most %lld, the experts that a token may have", where,
            (long long)m->top, (long long)(m->experts / groups * taken));
    int64_t multiple = m->format == EXPERTS_FP8_BLOCKS ? 128 : m->format == EXPERTS_MXFP4 ? 32 : 1;
    if (m->intermediate % multiple)
        die("%s: experts' intermediate size is %lld: must be a multiple of %lld, what shares a scale", where,
            (long long)m->intermediate, (long long)multiple);
    if (m->format == EXPERTS_MXFP4 && hidden % multiple)
        die("%s: 'hidden_size' is %lld: must be a multiple of %lld, what shares a scale", where, (long long)hidden,
            (long long)multiple);
}

static void check_latent(const struct config *c, const char *where)
{
    const struct latent *a = &c->mla;
    if (c->heads > RFG_MLA_MAX_HEADS)
        die("%s: 'num_attention_heads' is %lld: must be at most %d", where, (long long)c->heads, RFG_MLA_MAX_HEADS);
    if (a->kv_rank % 64 || a->kv_rank > 512)
        die("%s: 'kv_lora_rank' is %lld: must be a multiple of 64 up to 512", where, (long long)a->kv_rank);
    if (a->rope != 32 && a->rope != 64)
        die("%s: 'qk_rope_head_dim' is %lld: must be 32 or 64", where, (long long)a->rope);
    if (a->nope % 8 || a->values % 8 || a->q_rank % 8)
        die("%s: 'qk_nope_head_dim' is %lld, 'v_head_dim' %lld, 'q_lora_rank' %lld: must be multiples of 8", where,
            (long long)a->nope, (long long)a->values, (long long)a->q_rank);
    if (c->moe.format == EXPERTS_FP8_BLOCKS && a->q_rank % 128)
        die("%s: 'q_lora_rank' is %lld: must be a multiple of 128, what shares a scale", where, (long long)a->q_rank);
    if (c->moe.dense >= c->layers)
        die("%s: 'first_k_dense_replace' is %lld: must be less than the layers, %lld", where, (long long)c->moe.dense,
            (long long)c->layers);
}

/* The operators' limits, which also hold for built-in shapes. */
void config_check(const struct config *c, const char *where)
{
    if (c->heads % c->kv_heads)
        die("%s: 'num_attention_heads' is %lld: must be a multiple of 'num_key_value_heads', %lld", where,
            (long long)c->heads, (long long)c->kv_heads);
    if (c->head_dim % 8 || c->head_dim > MOST_HEAD)
        die("%s: 'head_dim' is %lld: must be a multiple of 8 up to %d", where, (long long)c->head_dim, MOST_HEAD);
    if (c->bytes && c->vocab < 256)
        die("%s: 'vocab_size' is %lld: must be 256 at least with \"tokenizer\": \"bytes\"", where, (long long)c->vocab);
    if (c->moe.experts)
        check_mixture(&c->moe, c->hidden, where);
    if (c->mla.kv_rank)
        check_latent(c, where);
}

/* ---- a rank's part ---------------------------------------------------------------------------------------------- */

static int64_t share(const struct config *c, const char *what, int64_t n, int64_t multiple)
{
    if (n % (c->shard.ranks * multiple))
        die("--tp %d: %s are %lld: must be a multiple of %d", c->shard.ranks, what, (long long)n,
            (int)(c->shard.ranks * multiple));
    return n / c->shard.ranks;
}

void config_shard(struct config *c, int rank, int ranks)
{
    if (c->mla.kv_rank || c->gemma4.on || c->gated || c->biased || c->phi3 || c->moe.format != EXPERTS_PLAIN)
        die("--tp %d: must be a Llama-, Qwen3-, Gemma3- or Qwen3-MoE-like model of 16 bits", ranks);
    c->shard = (struct shard){ rank, ranks, c->kv_heads };
    c->heads = share(c, "heads", c->heads, 1);
    if (c->kv_heads < ranks && ranks % c->kv_heads == 0)
        c->kv_heads = 1;
    else
        c->kv_heads = share(c, "heads of k", c->kv_heads, 1);
    (void)share(c, "the vocabulary's tokens", c->vocab, 1);
    if (c->moe.experts)
        c->moe.intermediate = share(c, "experts' intermediate columns", c->moe.intermediate, 8);
    else
        c->intermediate = share(c, "intermediate columns", c->intermediate, 8);
}

/* ---- a file ----------------------------------------------------------------------------------------------------- */

/* Reads "architectures"; an unknown one ends the program. */
static void read_architecture(struct config *c, const struct source *s)
{
    static const char *const known[] = { "LlamaForCausalLM",     "Qwen2ForCausalLM",    "Qwen3ForCausalLM",
                                         "Gemma3ForCausalLM",    "Phi3ForCausalLM",     "Gemma4ForCausalLM",
                                         "Qwen3_5ForCausalLM",   "Qwen3MoeForCausalLM", "GptOssForCausalLM",
                                         "DeepseekV3ForCausalLM" };
    enum { LLAMA, QWEN2, QWEN3, GEMMA3, PHI3, GEMMA4, QWEN3_5, QWEN3_MOE, GPT_OSS, DEEPSEEK_V3, KNOWN };
    char names[256] = "";
    const char *arch = json_string_value(json_array_get(need(s, "architectures"), 0));
    int i = 0;
    while (i < KNOWN && (!arch || strcmp(arch, known[i])))
        i++;
    for (int k = 0; i == KNOWN && k < KNOWN; k++) {
        strcat(names, k == 0 ? "" : k + 1 == KNOWN ? " or " : ", ");
        strcat(names, known[k]);
    }
    if (i == KNOWN)
        die("%s: 'architectures' is '%s': must be %s", s->path, arch ? arch : "no list of a string", names);
    snprintf(c->name, sizeof(c->name), "%s", arch);
    c->biased = i == QWEN2 || i == GPT_OSS;
    c->qk_norm = i == QWEN3 || i == GEMMA3 || i == QWEN3_MOE || i == GEMMA4 || i == QWEN3_5;
    c->gemma = i == GEMMA3 || i == GEMMA4;
    c->plus = i == GEMMA3 || i == QWEN3_5;
    c->gated = i == QWEN3_5;
    c->gemma4.on = i == GEMMA4;
    c->phi3 = i == PHI3;
    c->gpt_oss = i == GPT_OSS;
    c->deepseek = i == DEEPSEEK_V3;
    c->moe.experts = i >= QWEN3_MOE; /* how many, is read later */
}

static void read_heads(struct config *c, const struct source *s)
{
    if (c->deepseek) {
        read_latent(c, s);
        return;
    }
    c->heads = integer(s, "num_attention_heads", 1, 1 << 16);
    c->kv_heads = integer_or(s, "num_key_value_heads", 1, 1 << 16, c->heads);
    c->head_dim = integer_or(s, "head_dim", 1, 1 << 16, c->hidden / c->heads);
}

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!object && e.line > 0)
        die("%s:%d: %s", path, e.line, e.text);
    if (!object)
        die("%s", e.text);
    return object;
}

void config_read(struct config *c, const char *model)
{
    static char path[4096];
    bool gguf = is_gguf(model);
    snprintf(path, sizeof(path), gguf ? "%s" : "%s/config.json", model);
    struct source s = { path, gguf ? gguf_config(path) : load(path), gguf };
    *c = (struct config){ 0 };
    read_architecture(c, &s);
    c->hidden = integer(&s, "hidden_size", 8, 1 << 20);
    c->intermediate = integer(&s, "intermediate_size", 8, 1 << 20);
    c->layers = integer(&s, "num_hidden_layers", 1, MOST_LAYERS);
    c->vocab = integer(&s, "vocab_size", 2, 1 << 24);
    c->positions = integer(&s, "max_position_embeddings", 1, INT32_MAX);
    c->eps = (float)number(&s, "rms_norm_eps");
    c->tied = has(&s, "tie_word_embeddings") ? is_true(&s, "tie_word_embeddings") : c->gemma;
    c->bytes = has(&s, "tokenizer") && !strcmp(string(&s, "tokenizer"), "bytes");
    read_act(c, &s, c->gemma && has(&s, "hidden_activation") ? "hidden_activation" : "hidden_act");
    read_eos(c, &s);
    if (c->moe.experts)
        read_mixture(c, &s);
    read_heads(c, &s);
    config_check(c, path);
    read_rope(c, &s);
    if (c->gated)
        read_qwen35(c, &s);
    if (c->deepseek)
        c->attention_scale = config_latent_scale(&c->mla, &c->rope);
    if (c->gemma || c->gpt_oss)
        read_sliding(c, &s);
    else if (c->phi3)
        read_phi3(c, &s);
    else if (is_true(&s, "use_sliding_window"))
        die("%s: 'use_sliding_window' is true: only Gemma3's and gpt-oss' windows are known", path);
    if (c->gemma4.on)
        read_gemma4(c, &s);
    if (c->gemma)
        c->attention_scale = c->gemma4.on ? 1 : (float)(1 / sqrt(number(&s, "query_pre_attn_scalar")));
    if ((is_true(&s, "attention_bias") && !c->gpt_oss) || is_true(&s, "mlp_bias"))
        die("%s: 'attention_bias' or 'mlp_bias' is true: projections have no bias here but gpt-oss'", path);
    if (has(&s, "attn_logit_softcapping") || (has(&s, "final_logit_softcapping") && !c->gemma4.on))
        die("%s: logits are capped ('attn_logit_softcapping', 'final_logit_softcapping'): that isn't known here", path);
    json_decref(s.object);
}
