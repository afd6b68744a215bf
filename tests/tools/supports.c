/* SPDX-License-Identifier: MIT
 *
 * Which of our variants (a vendor's library is not one) take which formats on which architecture, for README's matrix
 * (verified.py): a line for each problem of a row and architecture,
 * "row|formats|group|arch|problem|variant,variant,...". The group is that of the test cases that say such problems were
 * right (op_cases.h). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "dispatch/hip/hip.h"

#define EACH_PROBLEM 8

static const char *const archs[] = { "cpu",    "sm_90",   "sm_80",   "gfx942", "gfx950",
                                     "gfx90a", "gfx1100", "gfx1201", "gfx908", "gfx1030" };

static const struct row {
    const char *name, *formats, *group, *problems[EACH_PROBLEM];
} rows[] = {
    { "gemm",
      "bf16, f16, f32",
      "shapes",
      { "gemm bf16,bf16->bf16 M=16 N=1024 K=4096", "gemm f16,f16->f16 M=16 N=1024 K=4096",
        "gemm bf16,bf16->f32 M=16 N=1024 K=4096 bias=1", "gemm f32,f32->f32 M=16 N=1024 K=4096" } },
    { "gemm, 8-bit x and w",
      "e4m3, e4m3fnuz, e5m2, i8",
      "8-bit codes and their scales",
      { "gemm e4m3,e4m3->bf16 M=16 N=1024 K=4096 w_scale=f32 x_scale=f32 x_per=block w_per=block",
        "gemm e4m3fnuz,e4m3fnuz->bf16 M=16 N=1024 K=4096 w_scale=f32 x_scale=f32 x_per=row w_per=row",
        "gemm e5m2,e5m2->f32 M=16 N=1024 K=4096 w_scale=f32 x_scale=f32",
        "gemm i8,i8->bf16 M=16 N=1024 K=4096 w_scale=f32 x_scale=f32 x_per=row w_per=row" } },
    { "gemm, 8-bit y",
      "e4m3, e4m3fnuz, e5m2, i8",
      "8-bit outputs",
      { "gemm bf16,bf16->e4m3 M=16 N=1024 K=4096", "gemm f16,f16->i8 M=16 N=1024 K=4096",
        "gemm e4m3,e4m3->e5m2 M=16 N=1024 K=4096 w_scale=f32 x_scale=f32",
        "gemm bf16,bf16->e4m3fnuz M=256 N=1024 K=4096 act=silu gates=interleaved" } },
    { "gemm, 4-bit w, prepacked",
      "i4, mxfp4; x bf16",
      "4-bit weights, prepacked",
      { "gemm bf16,i4->bf16 M=8 N=4096 K=7168 w_scale=bf16 w_group=128 packed=1",
        "gemm bf16,e2m1->bf16 M=8 N=4096 K=7168 w_scale=e8m0 w_group=32 packed=1" } },
    { "gemm, nvfp4 w, prepacked",
      "x bf16, f16",
      "4-bit weights, any groups, prepacked",
      { "gemm bf16,e2m1->bf16 M=8 N=4096 K=7168 w_scale=e4m3 w_group=16 w_global=1 packed=1",
        "gemm f16,e2m1->f16 M=8 N=4096 K=7168 w_scale=e4m3 w_group=16 w_global=1 packed=1" } },
    { "gemm, mx formats",
      "mxfp8, mxfp4 x; mxfp4 w",
      "mx formats",
      { "gemm e4m3,e2m1->bf16 M=8 N=4096 K=7168 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group packed=1",
        "gemm e2m1,e2m1->bf16 M=8 N=4096 K=7168 w_scale=e8m0 x_scale=e8m0 x_per=group w_per=group packed=1" } },
    { "gemm, grouped by expert",
      "16-bit; 8-bit; 4-bit w, prepacked",
      "grouped gemm",
      { "gemm bf16,bf16->bf16 M=64 N=4096 K=2048 experts=128 top=8 act=silu",
        "gemm f16,f16->bf16 M=4096 N=2048 K=2048 experts=8 weights=1",
        "gemm e4m3,e4m3->bf16 M=64 N=4096 K=7168 experts=256 top=8 x_scale=f32 w_scale=f32 x_per=block w_per=block",
        "gemm i8,i8->bf16 M=64 N=1024 K=2048 experts=8 weights=1 x_scale=f32 w_scale=f32 x_per=row w_per=row",
        "gemm bf16,e2m1->bf16 M=64 N=4096 K=2048 experts=32 top=4 act=swigluoai gates=interleaved w_scale=e8m0 "
        "w_group=32 packed=1" } },
    { "embedding",
      "bf16, f16, f32",
      "embeddings",
      { "embedding i32,bf16->bf16 M=16 N=4096 V=128256", "embedding i64,f16->f16 M=16 N=4096 V=128256",
        "embedding i64,f32->f32 M=16 N=4096 V=128256", "embedding i32,bf16->f32 M=16 N=4096 V=128256 scaled=1" } },
    { "dequantize",
      "e4m3, e4m3fnuz, e5m2, i8",
      "dequantised",
      { "dequantize e4m3,f32->bf16 M=64 N=7168 group_rows=1 group_cols=128",
        "dequantize e4m3fnuz,f32->f16 M=64 N=7168 group_rows=1", "dequantize e5m2,f32->f32 M=64 N=7168",
        "dequantize i8,e8m0->bf16 M=64 N=7168 group_rows=128 group_cols=128 scale_columns=1" } },
    { "quantize, quantize_scale",
      "to e4m3, e4m3fnuz, e5m2, i8",
      "quantised",
      { "quantize bf16->e4m3,f32 M=64 N=7168 group_rows=1 group_cols=128",
        "quantize bf16->e4m3fnuz,f32 M=64 N=7168 group_rows=1", "quantize f16->e5m2,f32 M=64 N=7168",
        "quantize f32->i8,e8m0 M=64 N=7168 group_rows=1 group_cols=32 rounding=up" } },
    { "rope",
      "bf16, f16, f32",
      "rotary embeddings",
      { "rope bf16,i64->bf16 T=64 D=128 Hq=32 Hkv=8", "rope f16,i32->f16 T=64 D=128 Hq=32 Hkv=8 table=f32",
        "rope f32,i64->f32 T=64 D=128 Hq=32 Hkv=8" } },
    { "kv_append",
      "bf16, f16, e4m3, e4m3fnuz, e5m2",
      "writes to caches",
      { "kv_append bf16->bf16 T=64 D=128 Hkv=8 page=16", "kv_append f16->e4m3 T=64 D=128 Hkv=8 page=16",
        "kv_append bf16->e4m3fnuz T=64 D=128 Hkv=8 page=16 form=vllm",
        "kv_append bf16->e5m2 T=64 D=128 Hkv=8 page=16" } },
    { "rope_append",
      "bf16, f16",
      "norm, rotation and write in one launch",
      { "rope_append bf16,i64->bf16 T=64 D=128 Hq=32 Hkv=8 page=16 norm=w",
        "rope_append f16,i64->e4m3 T=64 D=128 Hq=32 Hkv=8 page=16" } },
    { "advance",
      "i32, i64",
      "next steps",
      { "advance i32->i64 B=64 Sq=1 blocks=256 page=16 slots=1 spare=4096",
        "advance i32->i32 B=64 Sq=4 blocks=0 accepted=1" } },
    { "argmax",
      "bf16, f16, f32",
      "argmax",
      { "argmax f32->i64 M=32 V=128256", "argmax bf16->i32 M=32 V=128256", "argmax f16->i64 M=1 V=50257 align=2" } },
    { "moe_align",
      "i32",
      "sorted experts",
      { "moe_align i32->i32 T=64 top=8 E=256 weights=1 places=1",
        "moe_align i32->i32 T=64 top=8 E=256 format=vllm block=64",
        "moe_align i32->i32 T=4096 top=8 E=256 format=aiter block=32" } },
    { "moe_sum",
      "bf16, f16, f32",
      "sums of experts",
      { "moe_sum bf16->bf16 T=8 N=7168 top=8 weights=1", "moe_sum f16->f16 T=64 N=2880 top=4",
        "moe_sum f32->f32 T=64 N=4096 top=8 residual=1" } },
    { "moe_gate",
      "bf16, f16",
      "routers in one launch",
      { "moe_gate bf16->f32 T=8 E=256 K=7168 top=8 norm=w score=sigmoid bias=1 groups=8 top_groups=4 renorm=1",
        "moe_gate f16->f32 T=64 E=128 K=2048 top=4 score=topk_softmax wbias=1" } },
    { "moe_route",
      "bf16, f16, f32",
      "routing",
      { "moe_route bf16->f32 T=8 E=256 top=8 score=sigmoid bias=1 groups=8 top_groups=4 renorm=1",
        "moe_route f16->f32 T=64 E=128 top=4 score=topk_softmax bias=1", "moe_route f32->f32 T=4096 E=8 top=2" } },
    { "sample",
      "bf16, f16, f32",
      "filters of samples",
      { "sample f32->i64 B=32 V=128256 temperature=1 top_k=1 top_p=1", "sample bf16->i32 B=1 V=151936 min_p=1",
        "sample f16->i64 B=8 V=32000 joint=1 top_p=1" } },
    { "gemm, prepacked w",
      "bf16, f16",
      "prepacked W",
      { "gemm bf16,bf16->bf16 M=16 N=1024 K=4096 packed=1", "gemm f16,f16->f16 M=16 N=1024 K=4096 packed=1" } },
    { "rmsnorm, layernorm, and their residual-add forms",
      "bf16, f16, f32",
      "norms",
      { "rmsnorm bf16->bf16 M=16 N=4096", "layernorm f16->f16 M=16 N=4096", "add_rmsnorm bf16->bf16 M=16 N=4096",
        "add_layernorm f32->f32 M=16 N=4096" } },
    { "act, act_and_mul",
      "bf16, f16, f32",
      "activations",
      { "act bf16->bf16 M=16 N=4096 act=gelu", "act_and_mul f16->f16 M=16 N=4096", "act_and_mul f32->f32 M=16 N=4096",
        "act_and_mul bf16->bf16 M=16 N=4096" } },
    { "norms, quantised output",
      "to e4m3, e4m3fnuz, e5m2, i8",
      "quantised norms",
      { "rmsnorm bf16->e4m3 M=16 N=4096 scale=token", "add_rmsnorm bf16->e4m3fnuz M=16 N=4096 scale=group",
        "layernorm f16->e5m2 M=16 N=4096 scale=static", "add_rmsnorm bf16->i8 M=16 N=4096 scale=token" } },
    { "activations, quantised output",
      "to e4m3, e4m3fnuz, e5m2, i8",
      "quantised outputs",
      { "act bf16->e4m3 M=16 N=4096 act=gelu scale=token", "act_and_mul bf16->e4m3fnuz M=16 N=4096 scale=group",
        "act_and_mul f16->e5m2 M=16 N=4096 scale=static", "act_and_mul bf16->i8 M=16 N=4096 scale=token" } },
    { "norms, mx output",
      "to mxfp8, mxfp4",
      "norms, mx outputs",
      { "rmsnorm bf16->e4m3 M=16 N=4096 scale=mx rounding=up",
        "add_rmsnorm bf16->e2m1 M=16 N=4096 scale=mx rounding=even",
        "layernorm f16->e2m1 M=16 N=4096 scale=mx rounding=down",
        "add_layernorm f16->e4m3 M=16 N=4096 scale=mx rounding=ceil" } },
    { "activations, mx output",
      "to mxfp8, mxfp4",
      "activations, mx outputs",
      { "act bf16->e2m1 M=16 N=4096 act=none scale=mx rounding=up",
        "act_and_mul bf16->e4m3 M=16 N=4096 scale=mx rounding=even",
        "act_and_mul f16->e2m1 M=16 N=4096 scale=mx rounding=down" } },
    { "mha (prefill)",
      "bf16, f16",
      "attention",
      { "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1",
        "mha f16->f16 B=1 Hq=32 Hkv=8 D=128 S=2048 Sq=2048 causal=1" } },
    { "mha_decode",
      "bf16, f16",
      "decode",
      { "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16",
        "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16" } },
    { "mla_decode",
      "bf16, f16",
      "MLA decode",
      { "mla_decode bf16->bf16 B=32 Hq=16 D=576 S=8192 Dv=512 page=64",
        "mla_decode f16->f16 B=32 Hq=128 D=576 S=8192 Dv=512 page=64" } },
    { "mla_append",
      "bf16, f16 -> the same, e4m3, e4m3fnuz, e5m2, V32, V4",
      "MLA append",
      { "mla_append bf16->bf16 T=64 D=576 R=64 Hq=16 page=64 norm=latent rope=gptj",
        "mla_append f16->e4m3 T=64 D=576 R=64 page=64 scale=1",
        "mla_append bf16->e4m3 T=64 D=576 R=64 page=64 format=v32 norm=latent rope=gptj",
        "mla_append bf16->e4m3 T=64 D=512 R=64 page=64 format=v4 norm=all rope=neox" } },
    { "mla_gather",
      "bf16, f16, e4m3, e4m3fnuz, e5m2, V32, V4 -> bf16, f16",
      "MLA gather",
      { "mla_gather bf16->bf16 N=8192 D=576 B=8 page=64", "mla_gather e4m3->f16 N=8192 D=576 B=8 page=64 scale=1",
        "mla_gather e4m3->bf16 N=8192 D=576 B=8 page=64 format=v32",
        "mla_gather e4m3->bf16 N=8192 D=512 B=8 page=64 format=v4" } },
    { "merge_states",
      "bf16, f16, f32",
      "merged attention states",
      { "merge_states bf16->bf16 T=128 H=128 D=512 n=8", "merge_states f16->f16 T=64 H=32 D=128 n=2",
        "merge_states f32->bf16 T=64 H=32 D=128 n=17" } },
    { "lora",
      "bf16, f16; y f32",
      "adapters",
      { "lora bf16->bf16 M=64 N=4096 K=4096 rank=16 adapters=8", "lora f16->f16 M=64 N=4096 K=4096 rank=16 adapters=8",
        "lora bf16->f32 M=64 N=4096 K=4096 rank=16 adapters=8" } },
    { "mha_decode, fp8 cache",
      "e4m3, e4m3fnuz, e5m2",
      "8-bit caches, forms of the cache",
      { "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=e4m3",
        "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=e4m3fnuz",
        "mha_decode f16->f16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=e5m2" } },
    { "mha_decode, a scale a token and head",
      "i8, i4",
      "caches with a scale a token and head",
      { "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=i8 scales=token",
        "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16 kv=i4 scales=token" } },
    { "kv_append, a scale a token and head",
      "i8, i4",
      "caches with a scale a token and head",
      { "kv_append bf16->i8 T=64 D=128 Hkv=8 page=16 scales=token",
        "kv_append bf16->i4 T=64 D=128 Hkv=8 page=16 scales=token" } },
};

/* The names of those that take the problem, with commas. */
static void list_variants(const struct rfg_device *dev, const struct rfg_problem *prob, char *names, size_t size)
{
    *names = 0;
    for (int v = 0; v < rfg_op_variants(prob->op)->n; v++) {
        const struct rfg_variant *var = rfg_op_variants(prob->op)->list[v];
        if (var->kind == RFG_VARIANT_VENDOR || !var->supports(dev, prob, NULL))
            continue;
        size_t used = strlen(names);
        snprintf(names + used, size - used, "%s%s", used ? "," : "", var->name);
    }
}

int main(void)
{
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (size_t a = 0; a < sizeof(archs) / sizeof(archs[0]); a++) {
            struct rfg_device dev = { 0 };
            char names[1024];
            if (!strcmp(archs[a], "cpu")) /* what is for every CPU */
                dev = (struct rfg_device){
                    .name = "cpu", .platform = RFG_PLATFORM_CPU, .arch = "cpu", .hw = rfg_arch_of(""), .cu_count = 1
                };
            else if (!rfg_device_imagine(&dev, archs[a])) {
                fprintf(stderr, "%s: not a known architecture\n", archs[a]);
                return 1;
            }
            for (int i = 0; i < EACH_PROBLEM && rows[r].problems[i]; i++) {
                struct rfg_problem prob;
                struct rfg_reason why;
                if (!rfg_problem_parse(&prob, rows[r].problems[i], &why)) {
                    fprintf(stderr, "%s: %s\n", rows[r].problems[i], why.text);
                    return 1;
                }
                list_variants(&dev, &prob, names, sizeof(names));
                printf("%s|%s|%s|%s|%s|%s\n", rows[r].name, rows[r].formats, rows[r].group, archs[a],
                       rows[r].problems[i], names);
            }
        }
    return 0;
}
