/* SPDX-License-Identifier: MIT
 *
 * rfg-decoder: its output, and its messages for bad input. */
#include <math.h>
#include <unistd.h>

#include "decoder_model.h"
#include "examples/decoder/decoder.h"
#include "base/util.h"
#include "tests/program.h"
#include "tests/suite.h"

/* The program must say one line with `says` in it, print nothing, write nothing, and exit with 1. */
static void refused(const char *says, const char *args)
{
    int code = run_program("rfg-decoder", "%s --json times.json", args);
    ck_assert_msg(code == 1, "%s: exit code %d, '%s'", args, code, err);
    PRINTS(err, says);
    ck_assert_msg(!strncmp(err, "decoder: ", 9) && strchr(err, '\n') == err + strlen(err) - 1, "'%s': one line", err);
    ck_assert_str_eq(out, "");
    ck_assert_msg(access("times.json", F_OK) != 0, "%s: wrote its --json", args);
}

static void edit(const char *file, const char *from, const char *to)
{
    char command[512];
    snprintf(command, sizeof(command), "sed -i 's/%s/%s/' %s", from, to, file);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(bad_files)
{
    const char *run = "--model model --device cpu --ids 1,2,3 --tokens 2";
    struct tiny t = tiny_models[0];
    tiny_write(&t, "model");
    ck_assert_msg(run_program("rfg-decoder", "%s", run) == 0, "%s", err);
    static const int64_t cuts[] = { 5, 100, -1, -30000 };
    static const char *const says[] = { "has 5 bytes", "it is truncated, or no safetensors file", "truncated",
                                        "truncated" };
    for (int i = 0; i < 4; i++) {
        int64_t bytes = tiny_write(&t, "model");
        ck_assert_int_eq(truncate("model/model.safetensors", cuts[i] > 0 ? cuts[i] : bytes + cuts[i]), 0);
        refused(says[i], run);
    }
    tiny_write(&t, "model");
    edit("model/model.safetensors", "\"F16\"", "\"I16\"");
    refused("must be BF16, F16 or F32", run);
    tiny_write(&t, "model");
    ck_assert_int_eq(unlink("model/model.safetensors"), 0);
    refused("model/model.safetensors: No such file", run);

    t.hidden_of_norm = 80;
    tiny_write(&t, "model");
    refused("'model.norm.weight' has shape [80]: config.json asks for [128]", run);
    t = tiny_models[0];
    t.without = "model.layers.1.mlp.up_proj.weight";
    tiny_write(&t, "model");
    refused("'model.layers.1.mlp.up_proj.weight' is in none of the files", run);
    t = tiny_models[0];
    t.also = "model.layers.0.self_attn.q_proj.bias";
    tiny_write(&t, "model");
    refused("'model.layers.0.self_attn.q_proj.bias': the model has no such part", run);
    static const struct {
        int model;
        const char *without, *says;
    } parts[] = {
        { TINY_QWEN3_MOE, "model.layers.1.mlp.experts.3.up_proj.weight", "is in none of the files" },
        { TINY_QWEN3_MOE, "model.layers.0.mlp.gate.weight", "is in none of the files" },
        { TINY_GPT_OSS, "model.layers.2.mlp.experts.down_proj_scales", "is in none of the files" },
        { TINY_GPT_OSS, "model.layers.0.self_attn.sinks", "is in none of the files" },
        { TINY_DEEPSEEK, "model.layers.1.mlp.shared_experts.down_proj.weight", "is in none of the files" },
        { TINY_DEEPSEEK, "model.layers.2.self_attn.kv_a_layernorm.weight", "is in none of the files" },
        { TINY_FP8, "model.layers.1.mlp.experts.5.gate_proj.weight_scale_inv", "is in none of the files" },
        { TINY_FP8, "model.layers.1.mlp.gate.e_score_correction_bias", "is in none of the files" },
        { TINY_FP8, "model.layers.1.self_attn.q_b_proj.weight_scale_inv", "is in none of the files" },
        { TINY_FP8, "model.layers.1.self_attn.kv_b_proj.weight_scale_inv", "is in none of the files" },
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        t = tiny_models[parts[i].model];
        t.without = parts[i].without;
        tiny_write(&t, "model");
        refused(parts[i].says, run);
        PRINTS(err, parts[i].without);
    }
    tiny_write(&tiny_models[TINY_GPT_OSS], "model");
    edit("model/model.safetensors", "\"U8\"", "\"I8\"");
    refused("gate_up_proj_blocks' must be U8", run);
    tiny_write(&tiny_models[TINY_GPT_OSS], "model");
    edit("model/model.safetensors", "\\[5, 192, 4, 16\\]", "[5, 192, 8, 8 ]");
    refused("gate_up_proj_blocks' has shape [5, 192, 8, 8]: config.json asks for [5, 192, 4, 16]", run);
    tiny_write(&tiny_models[TINY_FP8], "model");
    edit("model/model.safetensors", "F8_E4M3", "F8_E5M2");
    refused("proj.weight' must be F8_E4M3", run);
    t = tiny_models[0];
    t.shards = 2;
    tiny_write(&t, "sharded");
    edit("sharded/model.safetensors.index.json", "part0", "part1");
    refused("and isn't", "--model sharded --device cpu --ids 1 --tokens 2");
    edit("sharded/model.safetensors.index.json", "part1", "..\\/part1");
    refused("must be the name of one in this folder", "--model sharded --device cpu --ids 1 --tokens 2");
}
END_TEST

START_TEST(bad_config)
{
    const char *run = "--model model --device cpu --ids 1,2,3 --tokens 2";
    static const struct {
        const char *from, *to, *says;
        int model;
    } edits[] = {
        { "\"hidden_size\"", "\"hidden\"", "model/config.json: the key 'hidden_size' is missing" },
        { "\"rope_theta\"", "\"theta\"", "the key 'rope_theta' is missing" },
        { "\"query_pre_attn_scalar\"", "\"scalar\"", "the key 'query_pre_attn_scalar' is missing" },
        { "\"vocab_size\": 256", "\"vocab_size\": \"256\"", "'vocab_size' must be an integer" },
        { "\"head_dim\": 64", "\"head_dim\": 70", "'head_dim' is 70: must be a multiple of 8 up to 512" },
        { "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3", "must be a multiple of" },
        { "Gemma3ForCausalLM", "GPT2LMHeadModel", "'architectures' is 'GPT2LMHeadModel'" },
        { "gelu_pytorch_tanh", "swish", "'hidden_activation' is 'swish'" },
        { "\"sliding_attention\"", "\"local\"", "must say sliding_attention or full_attention" },
        { "\"linear\"", "\"ntk\"", "type is 'ntk'" },
        { "0.75", "1.25", "'partial_rotary_factor' is 1.25: must be at most 1", TINY_PHI3 },
        { "0.75", "0.65", "and 41 of a head's 64 elements even", TINY_PHI3 },
        { "0.75", "0.67", "'short_factor' must have a number for each of 21 pairs, and has 24", TINY_PHI3 },
        { "\"long_factor\"", "\"factors\"", "the key 'long_factor' is missing", TINY_PHI3 },
        { "\"long_factor\": \\[1", "\"long_factor\": [0", "'long_factor' must be numbers above 0", TINY_PHI3 },
        { "embeddings\": 16", "embeddings\": 1", "'original_max_position_embeddings' must be an integer from 2",
          TINY_PHI3 },
        { "\"default\"", "\"default\", \"partial_rotary_factor\": 0.5", "must be the same for all layers",
          TINY_PROPORTIONAL },
        { "\"factor\"", "\"fact\"", "the key 'factor' is missing", TINY_DYNAMIC },
        { "}$", "", "config.json:" },
        { "\"intermediate_size\": 96", "\"intermediate_size\": 104", "config.json asks for [104, 128]" },
        { "Qwen3Moe", "Qwen2Moe", "'architectures' is 'Qwen2MoeForCausalLM': must be LlamaForCausalLM",
          TINY_QWEN3_MOE },
        { "full_attention", "linear_attention", "layer 0 is 'linear_attention': must be full_attention", TINY_QWEN35 },
        { "_wide_mlp", "_wide_mlp\": true, \"enable_moe_block", "'enable_moe_block' is true", TINY_GEMMA4 },
        { "_kv_shared_layers\": 2", "_kv_shared_layers\": 4", "layer 1 has no layer of its kind before", TINY_GEMMA4 },
        { "\"head_dim\": 128", "\"head_dim\": 132", "full layers have heads of 132 elements", TINY_GEMMA4_KV },
        { "{\"1\": {", "{\"0\": {", "layer 0 has 'head_dim' 128", TINY_GEMMA4_KV },
        { "per_layer_input\": 16", "per_layer_input\": 12", "'hidden_size_per_layer_input' is 12", TINY_GEMMA4 },
        { "_per_tok\": 2", "_per_tok\": 7", "'num_experts_per_tok' is 7: must be at most 6", TINY_QWEN3_MOE },
        { "_per_tok\": 2", "_per_tok\": 0", "'num_experts_per_tok' must be an integer from 1", TINY_QWEN3_MOE },
        { "num_experts\"", "experts\"", "the key 'num_experts' is missing", TINY_QWEN3_MOE },
        { "sparse_step\": 1", "sparse_step\": 2", "'decoder_sparse_step' must be 1", TINY_QWEN3_MOE },
        { "only_layers\": \\[", "only_layers\": [1", "'mlp_only_layers' must be empty", TINY_QWEN3_MOE },
        { "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 40", "config.json asks for [40, 128]",
          TINY_QWEN3_MOE },
        { "mxfp4", "awq", "'quant_method' is 'awq': must be mxfp4", TINY_GPT_OSS },
        { "quantization_config", "quantisation", "'quantization_config' is missing", TINY_GPT_OSS },
        { "\"intermediate_size\": 96", "\"intermediate_size\": 104", "is 104: must be a multiple of 32", TINY_GPT_OSS },
        { "\"q_lora_rank\": 48", "\"q_lora_rank\": null", "'q_lora_rank' must be an integer from 8", TINY_DEEPSEEK },
        { "kv_lora_rank\": 64", "kv_lora_rank\": 72", "'kv_lora_rank' is 72: must be a multiple of 64 up to 512",
          TINY_DEEPSEEK },
        { "rope_head_dim\": 32", "rope_head_dim\": 16", "'qk_rope_head_dim' is 16: must be 32 or 64", TINY_DEEPSEEK },
        { "nope_head_dim\": 40", "nope_head_dim\": 36", "'qk_nope_head_dim' is 36, 'v_head_dim' 24", TINY_DEEPSEEK },
        { "attention_heads\": 3", "attention_heads\": 129", "'num_attention_heads' is 129: must be at most 128",
          TINY_DEEPSEEK },
        { "v_head_dim\": 24", "v_head_dim\": 32", "config.json asks for [128, 96]", TINY_DEEPSEEK },
        { "dense_replace\": 1", "dense_replace\": 3", "is 3: must be less than the layers, 3", TINY_DEEPSEEK },
        { "q_lora_rank\": 128", "q_lora_rank\": 136", "'q_lora_rank' is 136: must be a multiple of 128", TINY_FP8 },
        { "sigmoid", "softmax", "'scoring_func' is 'softmax': must be sigmoid", TINY_DEEPSEEK },
        { "n_group\": 4", "n_group\": 3", "3 groups of experts of which 2 are taken", TINY_DEEPSEEK },
        { "topk_group\": 2", "topk_group\": 5", "4 groups of experts of which 5 are taken", TINY_DEEPSEEK },
        { "_per_tok\": 3", "_per_tok\": 5", "'num_experts_per_tok' is 5: must be at most 4", TINY_DEEPSEEK },
        { "n_shared_experts\": 1", "n_shared_experts\": 2", "'n_shared_experts' must be an integer from 0 to 1",
          TINY_DEEPSEEK },
        { "\\[128, 128\\]", "[64, 128]", "'weight_block_size' must be [128, 128]", TINY_FP8 },
        { "\"moe_intermediate_size\": 256", "\"moe_intermediate_size\": 192", "is 192: must be a multiple of 128",
          TINY_FP8 },
    };
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        tiny_write(&tiny_models[edits[i].model ? edits[i].model : TINY_GEMMA3], "model");
        edit("model/config.json", edits[i].from, edits[i].to);
        refused(edits[i].says, run);
    }
}
END_TEST

/* What is wrong with a .gguf file's model: gguf.c's own rules are test_gguf's. */
START_TEST(bad_gguf)
{
    static const struct {
        const char *from, *to, *says;
        int model;
    } edits[] = {
        { "qwen3", "qwen9", "'general.architecture' is 'qwen9': must be llama, qwen2, qwen3", TINY_QWEN3 },
        { "block_count", "block_caunt", "the key 'num_hidden_layers' ('block_count') is missing", TINY_QWEN3 },
        { "attention.head_count_kv", "attention.head_count_kw",
          "has shape [128, 128]: the file's values ask for [256, 128]", TINY_QWEN3 },
        { "blk.1.ffn_up.", "blk.1.ffn_ap.", "tensor 'model.layers.1.mlp.up_proj.weight' is in none of the files",
          TINY_QWEN3 },
        { "token_embd", "token_ambd", "tensor 'token_embd.weight' must have two dimensions, and is missing",
          TINY_QWEN3 },
        { "attention.value_length", "attention.value_langth", NULL, TINY_QWEN3 },
        { "ffn_up_exps", "ffn_ap_exps", "'blk.0.ffn_up_exps.bias' must be of the type and shape of", TINY_GPT_OSS },
        { "yarn", "barn", "'gpt-oss.rope.scaling.type' is 'barn': must be none, linear or yarn", TINY_GPT_OSS },
        { "ffn_gate_exps", "ffn_gote_exps", "mlp.experts.0.gate_proj.weight' is in none of the files", TINY_QWEN3_MOE },
    };
    const char *run = "--model model.gguf --device cpu --ids 1,2,3 --tokens 2";
    char same[256];
    tiny_write(&tiny_models[TINY_QWEN3], "model");
    tiny_write_gguf(&tiny_models[TINY_QWEN3], "model.gguf", TINY_Q8_NONE);
    ck_assert_msg(run_program("rfg-decoder", "--model model --device cpu --ids 1,2,3 --tokens 2") == 0, "%s", err);
    snprintf(same, sizeof(same), "%s", out);
    ck_assert_msg(run_program("rfg-decoder", "%s", run) == 0, "%s", err);
    ck_assert_str_eq(out, same);
    refused("model.gguf: 'tokenizer.ggml.model' must be a string, and is missing", "--model model.gguf --prompt hello");
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        char command[256];
        tiny_write_gguf(&tiny_models[edits[i].model], "model.gguf", TINY_Q8_NONE);
        snprintf(command, sizeof(command), "LC_ALL=C sed -i 's/%s/%s/g' model.gguf", edits[i].from, edits[i].to);
        ck_assert_int_eq(system(command), 0);
        if (edits[i].says)
            refused(edits[i].says, run);
        else
            ck_assert_msg(run_program("rfg-decoder", "%s", run) == 0, "%s", err);
    }
}
END_TEST

START_TEST(benches)
{
    RUNS(run_program("rfg-decoder", "--random small --layers 1 --device cpu --bench --json times.json"), 0, out,
         "| tg128 |");
    PRINTS(out, "| pp512 |");
    ck_assert_int_eq(access("times.json", F_OK), 0);
    ck_assert_int_eq(unlink("times.json"), 0);
    refused("--bench: 511 keys are too few (--context): must be 512 at least",
            "--random small --device cpu --bench --context 511 --layers 1");
    refused("--bench and --ladder: must be one of them", "--random small --bench --ladder");
    refused("--blocks is --random's", "--model model --blocks q4_0 --ids 1");
    refused("--blocks 'q9': must be q4_0", "--random small --blocks q9 --ids 1");
    refused("its rows of 576 elements are no whole blocks of q4_k",
            "--random small --layers 1 --blocks q4_k --device cpu --ids 1");
    RUNS(run_program("rfg-decoder", "--random small --layers 1 --blocks q4_0 --device cpu --ids 1 --tokens 2"), 0, err,
         "2 tokens");
}
END_TEST

START_TEST(bad_options)
{
    tiny_write(&tiny_models[1], "model");
    refused("prompt 0: its 9 tokens and 128 to generate are more than the cache holds of a sequence: 64 (--context)",
            "--model model --device cpu --ids 1,2,3,4,5,6,7,8,9 --context 64");
    refused("the model has 64 positions", "--model model --device cpu --ids 1 --context 65");
    refused("its token 1 is 256: the vocabulary has 256", "--model model --device cpu --ids 1,256 --tokens 1");
    refused("must be token ids between commas", "--model model --device cpu --ids 1,x");
    refused("--tokens '0': must be an integer from 1", "--model model --ids 1 --tokens 0");
    refused("--top-p '2': must be a number from 0 to 1", "--model model --ids 1 --top-p 2");
    refused("the model's tokens aren't bytes", "--model model --device cpu --prompt hello");
    refused("there is no --prompt and no --ids", "--model model");
    refused("one of --model PATH and --random NAME", "--ids 1");
    refused("--random 'large': must be", "--random large --ids 1");
    refused("--layers '0': must be an integer from 1", "--random small --layers 0 --ids 1");
    refused("--layers is --random's", "--model model --layers 1 --ids 1");
    tiny_write(&tiny_models[TINY_GEMMA4], "model");
    refused("temperature 1: must be 0 where logits are capped",
            "--model model --device cpu --ids 1 --tokens 2 --temperature 1");
    refused("'rest': no such argument", "--random small rest");
    refused("must be cpu or one of", "--random small --device cpu:7 --ids 1");
    refused("--logits: there must be one prompt", "--random small --ids 1 --ids 2 --logits l");
    refused("--logits no/where: can't be written", "--random small --device cpu --ids 1 --logits no/where");
    refused("need --context ", "--random small --device cpu --ladder --context 100");
    refused("--tp '9': must be an integer from 1 to 8", "--random small --ids 1 --tp 9");
    refused("--tp 3: heads are 4: must be a multiple of 3", "--random small --ids 1 --tp 3");
    refused("--tp 8: heads are 4: must be a multiple of 8", "--random small --ids 1 --tp 8");
    refused("--tp 2: must be a Llama-, Qwen3-, Gemma3- or Qwen3-MoE-like", "--random small-mla --ids 1 --tp 2");
    refused("--tp 2: must be a Llama-, Qwen3-, Gemma3- or Qwen3-MoE-like", "--random gpt-oss-20b --ids 1 --tp 2");
    refused("--device cpu,cpu: must be one, or one for each of --tp 4",
            "--random small --ids 1 --tp 4 --device cpu,cpu");
    refused("--device cpu,cpu,cpu: must be one, or one for each of --tp 2",
            "--random small --ids 1 --tp 2 --device cpu,cpu,cpu");
    refused("--apart is of --tp", "--random small --ids 1 --apart");
}
END_TEST

/* ---- the program ------------------------------------------------------------------------------------------------ */

START_TEST(prints_tokens)
{
    tiny_write(&tiny_models[1], "model");
    ck_assert_int_eq(run_program("rfg-decoder", "--model model --device cpu --ids 1,2,3 --tokens 5"), 0);
    int commas = 0;
    for (const char *c = out; *c; c++)
        commas += *c == ',';
    ck_assert_int_eq(commas, 4);
    PRINTS(err, "5 tokens in ");
    char first[256];
    snprintf(first, sizeof(first), "%s", out);
    ck_assert_int_eq(run_program("rfg-decoder", "--model model --device cpu --ids 1,2,3 --tokens 5 --no-graph"), 0);
    ck_assert_str_eq(out, first);
    ck_assert_int_eq(
        run_program("rfg-decoder", "--random small --device cpu --prompt He --prompt She --tokens 4 --json t.json"), 0);
    PRINTS(out, "[0] ");
    PRINTS(out, "\n[1] ");
    /* The largest of each row of logits is the token; ids in, ids out, also of a model of bytes. */
    ck_assert_int_eq(run_program("rfg-decoder", "--random small --device cpu --ids 72,101 --tokens 3 --logits l"), 0);
    size_t bytes;
    char *data = rfg_read_file("l", &bytes);
    ck_assert_uint_eq(bytes, 3 * 256 * sizeof(float));
    const float *logits = (const float *)data;
    char want[64] = "";
    for (int t = 0; t < 3; t++, logits += 256) {
        int best = 0;
        for (int v = 1; v < 256; v++)
            best = logits[v] > logits[best] ? v : best;
        snprintf(want + strlen(want), sizeof(want) - strlen(want), t < 2 ? "%d," : "%d\n", best);
    }
    ck_assert_str_eq(out, want);
    free(data);
    ck_assert_int_eq(access("t.json", F_OK), 0);
}
END_TEST

/* A mixture's ladder says what it read: of a step of two rows four experts each, all other weights, and the keys. */
START_TEST(ladder_of_experts)
{
    ck_assert_msg(run_program("rfg-decoder", "--random small-moe --layers 2 --device cpu --ladder --batch 2 "
                                             "--prompt-tokens 20 --steps 3 --context 64 --calls --json l.json") == 0,
                  "%s", err);
    PRINTS(out, "calls of a layer");
    PRINTS(out, "\n9: experts "); /* the last of nine */
    PRINTS(out, "experts: a step reads ");
    PRINTS(out, " of 16 a layer");
    json_t *root = json_load_file("l.json", 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(root, "model")), "small-moe, 2 layers");
    double read = json_number_value(json_object_get(root, "experts_read")), expert = 3 * 128 * 256 * 2;
    double rest = 2 * (256 * (4 + 2 * 2) * 64 + 256 * 256 + 16 * 256 + 2 * 256) + 256 * 256 + 256; /* elements */
    ck_assert_double_ge(read, 2 * 4);
    ck_assert_double_le(read, 2 * 8);
    ck_assert_double_eq_tol(json_number_value(json_object_get(root, "weight_bytes")), 2 * rest + read * expert, 4096);
    ck_assert_double_gt(json_number_value(json_object_get(json_object_get(root, "operator_ms"), "experts")), 0);
    ck_assert_double_gt(json_number_value(json_object_get(json_object_get(root, "operator_ms"), "route")), 0);
    json_decref(root);
}
END_TEST

START_TEST(ladder_and_baseline)
{
    const char *run = "--random small --device cpu --ladder --batch 2 --prompt-tokens 20 --steps 2 --context 64";
    ck_assert_msg(run_program("rfg-decoder", "%s --save-baseline base.json", run) == 0, "%s", err);
    static const char *const rungs[] = { "portable kernels",         "tuned kernels",
                                         "captured graph",           "joined projections",
                                         "fused norm, rope, append", "launch overlap" };
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++)
        PRINTS(out, rungs[i]);
    PRINTS(out, "TTFT of 20 tokens");
    PRINTS(out, "at copy speed");
    edit("base.json", "\"ms\": [0-9.e-]*", "\"ms\": 100000.0");
    ck_assert_msg(run_program("rfg-decoder", "%s --baseline base.json", run) == 0, "%s", out);
    edit("base.json", "\"ms\": 100000.0", "\"ms\": 0.001");
    RUNS(run_program("rfg-decoder", "%s --baseline base.json", run), 1, out, "SLOWER");
    edit("base.json", "\"batch\": 2", "\"batch\": 3");
    RUNS(run_program("rfg-decoder", "%s --baseline base.json", run), 1, err, "is of another batch");
}
END_TEST

/* The model that comes with the decoder ends words as Debian's documentation does. */
START_TEST(small_model)
{
    static const char *const words_of_debian[][2] = { { "To install the pack", "age" },
                                                      { "The configurat", "ion" },
                                                      { "For more informat", "ion" } };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(run_program("rfg-decoder",
                                     "--model %s/examples/decoder/small --device cpu --prompt '%s' --tokens 3",
                                     rfg_env("RFG_SOURCE_ROOT"), words_of_debian[i][0]),
                         0);
        ck_assert_msg(!strncmp(out, words_of_debian[i][1], 3), "%s: %s", words_of_debian[i][0], out);
    }
}
END_TEST

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* The rms of what two files of logits differ by, by the rms of the first. */
static double differ(const char *a, const char *b)
{
    size_t bytes[2];
    float *of[2] = { (float *)rfg_read_file(a, &bytes[0]), (float *)rfg_read_file(b, &bytes[1]) };
    double d = 0, all = 0;
    ck_assert_uint_eq(bytes[0], bytes[1]);
    ck_assert_uint_gt(bytes[0], 0);
    for (size_t i = 0; i < bytes[0] / sizeof(float); i++) {
        d += ((double)of[0][i] - of[1][i]) * ((double)of[0][i] - of[1][i]);
        all += (double)of[0][i] * of[0][i];
    }
    free(of[0]);
    free(of[1]);
    return sqrt(d / all);
}

/* Each rank's part of a product is rounded to 16 bits before they are summed: two roundings a layer more, or four, of
 * half an ulp each. What is wrong differs by 0.1 and more. */
enum { PERCENT = 2 };

static void decode_by(const char *model, const char *more, int ranks, const char *logits)
{
    int code = run_program("rfg-decoder", "%s %s --tp %d --logits %s", model, more, ranks, logits);
    ck_assert_msg(code == 0, "%s, %d ranks: %s", model, ranks, err);
}

/* One token after a prompt, whose logits are compared; then a few of which each rank must choose the same, or they would
 * wait for each other. */
static void close_by(const char *model, int most)
{
    char name[] = "l0";
    decode_by(model, "--device cpu --ids 3,77,12,200,5,5,131 --tokens 1", 1, "one");
    for (int ranks = 2; ranks <= most; ranks *= 2) {
        name[1] = (char)('0' + ranks);
        decode_by(model, "--device cpu --ids 3,77,12,200,5,5,131 --tokens 1", ranks, name);
        ck_assert_msg(differ("one", name) < PERCENT / 100.0, "%s, %d ranks: logits differ by %g", model, ranks,
                      differ("one", name));
        decode_by(model, "--device cpu --ids 3,77,12 --tokens 6 --chunk 2", ranks, name);
    }
}

START_TEST(ranks_are_as_one)
{
    static const int of_files[] = { TINY_LLAMA, TINY_QWEN3, TINY_GEMMA3, TINY_QWEN3_MOE };
    char small[200], one[600];
    snprintf(small, sizeof(small), "--model %s/examples/decoder/small", rfg_env("RFG_SOURCE_ROOT"));
    const char *prompt = "--device cpu --prompt 'The package name is' --tokens 40";
    decode_by(small, prompt, 1, "one");
    snprintf(one, sizeof(one), "%s", out);
    for (int ranks = 2; ranks <= 4; ranks *= 2) { /* of 4, two share a head of k */
        decode_by(small, prompt, ranks, "more");
        ck_assert_str_eq(out, one);
        PRINTS(err, ranks == 2 ? "on cpu and 1 more: 40 tokens" : "on cpu and 3 more: 40 tokens");
        ck_assert_double_lt(differ("one", "more"), PERCENT / 100.0);
    }
    decode_by(small, "--device cpu,cpu --apart --no-graph --prompt 'The package name is' --tokens 40", 2, "more");
    ck_assert_str_eq(out, one);
    for (size_t i = 0; i < sizeof(of_files) / sizeof(of_files[0]); i++) {
        tiny_write(&tiny_models[of_files[i]], "model");
        close_by("--model model", tiny_models[of_files[i]].heads % 2 ? 1 : 2);
    }
    close_by("--random small-moe", 4);
    close_by("--random small", 4);
    /* More than one sequence: logits are gathered row by row. */
    ck_assert_msg(run_program("rfg-decoder",
                              "%s --tp 2 --device cpu --tokens 3 --prompt 'To install the pack' "
                              "--prompt 'For more informat'",
                              small) == 0,
                  "%s", err);
    PRINTS(out, "[0] age");
    PRINTS(out, "[1] ion");
}
END_TEST

START_TEST(ranks_on_an_emulated_gpu)
{
    char small[200];
    snprintf(small, sizeof(small), "--model %s/examples/decoder/small", rfg_env("RFG_SOURCE_ROOT"));
    decode_by(small, "--device emu:gfx942:4,emu:gfx942:5 --prompt 'The package' --tokens 3", 2, "more");
    ck_assert_str_eq(out, " is\n");
    PRINTS(err, "on emu:gfx942:4 and 1 more: 3 tokens");
}
END_TEST

START_TEST(ladder_of_ranks)
{
    ck_assert_msg(run_program("rfg-decoder", "--random small-moe --layers 2 --device cpu --ladder --tp 2 --batch 2 "
                                             "--prompt-tokens 20 --steps 3 --context 64 --json l.json") == 0,
                  "%s", err);
    json_t *root = json_load_file("l.json", 0, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "rungs")), LADDER_RUNGS);
    /* two a layer, which on cpu are a sum and a norm, and of each of two rows its logits */
    const json_t *comm = json_object_get(json_object_get(root, "operators"), "comm");
    ck_assert_int_eq(json_integer_value(json_object_get(comm, "launches")), 2 * 2 * 2 + 2);
    char *line = strstr(out, "launch overlap");
    ck_assert_msg(line && !strstr(line + 1, "launch overlap"), "one rank prints: %s", out);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("decoder_program");
    const struct {
        const char *name;
        const TTest *test;
    } cases[] = { { "bad_files", bad_files },
                  { "bad_config", bad_config },
                  { "bad_options", bad_options },
                  { "bad_gguf", bad_gguf },
                  { "bench", benches },
                  { "program", prints_tokens },
                  { "small", small_model },
                  { "ladder", ladder_and_baseline },
                  { "ladder_of_experts", ladder_of_experts },
                  { "ranks", ranks_are_as_one },
                  { "ranks_emulated", ranks_on_an_emulated_gpu },
                  { "ladder_of_ranks", ladder_of_ranks } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TCase *c = test_case(s, cases[i].name, program_setup, program_teardown);
        tcase_set_timeout(c, 120);
        ADD_TESTS(c, cases[i].test);
    }
    return run_suite(s);
}
