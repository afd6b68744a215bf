/* SPDX-License-Identifier: MIT
 *
 * Caches with a scale for each token and head: codes, scales and zeros by hand; vLLM's buffer, in which a head's scale
 * lies behind its codes, written by rfg_op_kv_append() and read by rfg_op_mha_decode() and rfg_op_mha(); what is
 * refused. (Against the oracle: test_rope.c and test_mha.c.) */
#include <math.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

static void ok(rfg_status st)
{
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
}

static uint32_t word_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

/* A head of 4 elements, its scale's word and its codes: a byte each, of i4 by twos. */
static const struct {
    rfg_dtype dtype;
    double x[4];
    float scale;
    uint32_t zero;
    uint8_t codes[4];
} heads[] = {
    { RFG_I8, { 127, -63, 0.4, 2.5 }, 1, 0, { 127, 193, 0, 2 } }, /* ties go to the even one */
    { RFG_I8, { -254, 1.5, 3, -1 }, 2, 0, { 129, 1, 2, 0 } },
    { RFG_I8, { 0, 0, 0, -0.0 }, 1e-6f, 0, { 0, 0, 0, 0 } },
    { RFG_I4, { -5, 10, 0, 2 }, 1, 5, { 0xf0, 0x75 } },
    { RFG_I4, { 15, 14, 13.7, 3 }, 1, 0, { 0xef, 0x3e } }, /* none is negative: 0 is the first code */
    { RFG_I4, { -30, -2, -14, -8 }, 2, 15, { 0xe0, 0xb8 } },
    { RFG_I4, { -7.5, 7.5, 0, 1 }, 1, 8, { 0xf0, 0x98 } }, /* 8 + 8 is one too much */
    { RFG_E4M3, { -896, 2, 0, 3 }, 2, 0, { 0xfe, 0x38, 0, 0x3c } },
};

START_TEST(by_hand)
{
    rfg_context *ctx = op_context("cpu");
    for (size_t n = 0; n < sizeof(heads) / sizeof(heads[0]); n++) {
        float scales[2] = { 77, 77 };
        uint16_t half[4];
        uint8_t codes[2][4];
        int64_t slots[] = { 0 };
        rfg_tensor k = { half, RFG_F16, 3, { 1, 1, 4 }, { 4, 4, 1 } }, s = rfg_tensor_1d(slots, RFG_I64, 1);
        rfg_tensor kc = { codes[0], heads[n].dtype, 4, { 1, 1, 1, 4 }, { 4, 4, 4, 1 } }, vc = kc;
        rfg_tensor ks = { &scales[0], RFG_F32, 3, { 1, 1, 1 }, { 1, 1, 1 } }, vs = ks;
        rfg_kv_append_params p = { .size = sizeof(p), .k_scale = &ks, .v_scale = &vs };
        vc.data = codes[1];
        vs.data = &scales[1];
        memset(codes, 0x11, sizeof(codes));
        for (int i = 0; i < 4; i++)
            rfg_store(half, RFG_F16, i, heads[n].x[i]);
        ok(rfg_op_kv_append(ctx, &kc, &vc, &k, &k, &s, &p, NULL));
        for (int of = 0; of < 2; of++) {
            uint32_t word =
                heads[n].dtype == RFG_I4 ? (word_of(heads[n].scale) & ~15u) | heads[n].zero : word_of(heads[n].scale);
            ck_assert_msg(word_of(scales[of]) == word, "head %zu: scale is %08x, must be %08x", n, word_of(scales[of]),
                          word);
            for (int i = 0; i < (heads[n].dtype == RFG_I4 ? 2 : 4); i++)
                ck_assert_msg(codes[of][i] == heads[n].codes[i], "head %zu: byte %d is %02x, must be %02x", n, i,
                              codes[of][i], heads[n].codes[i]);
        }
    }
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- vLLM's buffer ----------------------------------------------------------------------------------------------- */

enum { BLOCKS = 4, PAGE = 16, HKV = 2, HQ = 4, D = 64, TOKENS = 40, QUERIES = 3 };
enum { SCALES = BLOCKS * PAGE * HKV * 4, HALF = BLOCKS * PAGE * HKV * D + SCALES, ALL = 2 * HALF };

/* Views of K's or V's codes, [blocks,page,Hkv,D], and scales, [blocks,page,Hkv]. in_line: as vLLM has them, [blocks,Hkv,
 * page] of K's codes, their scale, V's codes, their scale; else K's codes, K's scales, V's codes, V's scales, the last by
 * tokens. */
static void views_of(char *buffer, rfg_dtype dtype, bool v, bool in_line, rfg_tensor *codes, rfg_tensor *scales)
{
    int64_t bytes = (int64_t)rfg_dtype_bytes(dtype, D), by = D / bytes; /* elements in a byte */
    int64_t row = in_line ? 2 * (bytes + 4) : bytes, words = in_line ? row / 4 : 1;
    char *first = buffer + (!v ? 0 : in_line ? bytes + 4 : HALF), *scale = first + (in_line ? bytes : HALF - SCALES);
    *codes = (rfg_tensor){
        first, dtype, 4, { BLOCKS, PAGE, HKV, D }, { HKV * PAGE * row * by, row * by, PAGE * row * by, 1 }
    };
    *scales = (rfg_tensor){ scale, RFG_F32, 3, { BLOCKS, PAGE, HKV }, { HKV * PAGE * words, words, PAGE * words } };
    if (v && !in_line) {
        scales->strides[1] = HKV;
        scales->strides[2] = 1;
    }
}

static char *device_memory(rfg_context *ctx, const void *data, size_t bytes)
{
    void *p;
    ok(rfg_device_alloc(ctx, &p, bytes));
    ok(rfg_device_copy(ctx, p, data, bytes, RFG_HOST_TO_DEVICE, NULL));
    ok(rfg_stream_sync(ctx, NULL));
    return p;
}

/* The same tokens to both layouts: the same codes and scales, and what attention makes of them the same bits but for
 * the order of sums. */
static void check_in_line(rfg_context *ctx, rfg_dtype dtype)
{
    static uint16_t x[TOKENS * HKV * D], q[QUERIES * HQ * D], zeroes[QUERIES * HQ * D], out[2][2][QUERIES * HQ * D];
    static char cache[2][ALL];
    int64_t slots[TOKENS];
    int32_t table[BLOCKS] = { 2, 0, 3, 1 }, lens[1] = { TOKENS };
    uint64_t seed = op_seed();
    for (int i = 0; i < TOKENS; i++)
        slots[i] = table[i / PAGE] * PAGE + i % PAGE;
    for (int i = 0; i < TOKENS * HKV * D; i++)
        rfg_store(x, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-62);
    for (int i = 0; i < QUERIES * HQ * D; i++)
        rfg_store(q, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    rfg_tensor tx = { device_memory(ctx, x, sizeof(x)), RFG_BF16, 3, { TOKENS, HKV, D }, { HKV * D, D, 1 } };
    rfg_tensor ts = rfg_tensor_1d(device_memory(ctx, slots, sizeof(slots)), RFG_I64, TOKENS);
    const int64_t queries[] = { 1, QUERIES, HQ, D };
    rfg_tensor tq = rfg_tensor_nd(device_memory(ctx, q, sizeof(q)), RFG_BF16, 4, queries);
    rfg_tensor tt = rfg_tensor_2d(device_memory(ctx, table, sizeof(table)), RFG_I32, 1, BLOCKS, BLOCKS);
    rfg_tensor tl = rfg_tensor_1d(device_memory(ctx, lens, sizeof(lens)), RFG_I32, 1), to = tq;
    to.data = device_memory(ctx, zeroes, sizeof(zeroes));
    for (int in_line = 0; in_line < 2; in_line++) {
        rfg_tensor k, v, ks, vs;
        memset(cache[in_line], 0xff, ALL); /* scales past the sequence's end are NaN */
        char *buffer = device_memory(ctx, cache[in_line], ALL);
        views_of(buffer, dtype, false, in_line, &k, &ks);
        views_of(buffer, dtype, true, in_line, &v, &vs);
        rfg_kv_append_params ap = { .size = sizeof(ap), .k_scale = &ks, .v_scale = &vs };
        ok(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &ap, NULL));
        rfg_mha_params p = {
            .size = sizeof(p), .causal = 1, .block_table = &tt, .kv_lens = &tl, .k_scale = &ks, .v_scale = &vs
        };
        for (int decode = 0; decode < 2; decode++) {
            ok((decode ? rfg_op_mha_decode : rfg_op_mha)(ctx, &to, &tq, &k, &v, &p, NULL));
            ok(rfg_device_copy(ctx, out[in_line][decode], to.data, sizeof(q), RFG_DEVICE_TO_HOST, NULL));
            ok(rfg_stream_sync(ctx, NULL));
        }
        ok(rfg_device_copy(ctx, cache[in_line], buffer, ALL, RFG_DEVICE_TO_HOST, NULL));
        ok(rfg_stream_sync(ctx, NULL));
        ok(rfg_device_free(ctx, buffer));
    }
    for (int is_v = 0; is_v < 2; is_v++)
        for (int slot = 0; slot < BLOCKS * PAGE * HKV; slot++) {
            size_t bytes = rfg_dtype_bytes(dtype, D), at[2] = { 0 };
            rfg_tensor codes, scales;
            uint32_t first = 0;
            for (int in_line = 0; in_line < 2; in_line++) {
                views_of(cache[in_line], dtype, is_v, in_line, &codes, &scales);
                int64_t block = slot / (PAGE * HKV), row = slot / HKV % PAGE, head = slot % HKV;
                at[in_line] =
                    (size_t)((char *)codes.data - cache[in_line]) +
                    (size_t)(block * codes.strides[0] + row * codes.strides[1] + head * codes.strides[2]) * bytes / D;
                float *s = (float *)scales.data + block * scales.strides[0] + row * scales.strides[1] +
                           head * scales.strides[2];
                first = in_line ? first : word_of(*s);
                ck_assert_msg(first == word_of(*s), "slot %d of %s: scale %08x, in line %08x", slot, is_v ? "v" : "k",
                              first, word_of(*s));
            }
            ck_assert_msg(!memcmp(cache[0] + at[0], cache[1] + at[1], bytes), "slot %d of %s: codes differ", slot,
                          is_v ? "v" : "k");
        }
    for (int decode = 0; decode < 2; decode++)
        for (int i = 0; i < QUERIES * HQ * D; i++) {
            double a = rfg_load(out[0][decode], RFG_BF16, i), b = rfg_load(out[1][decode], RFG_BF16, i);
            ck_assert_msg(a != 0 && fabs(a - b) <= 0x1p-7 * fabs(a) + 0x1p-9,
                          "%s, decode %d: out[%d] is %g, in line %g", rfg_dtype_name(dtype), decode, i, a, b);
        }
    void *all[] = { tx.data, ts.data, tq.data, tt.data, tl.data, to.data };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ok(rfg_device_free(ctx, all[i]));
}

START_TEST(in_line)
{
    rfg_context *ctx = op_context(op_device(_i));
    check_in_line(ctx, RFG_I8);
    check_in_line(ctx, RFG_I4);
    check_in_line(ctx, RFG_E4M3);
    rfg_context_destroy(&ctx);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refused(rfg_status st, const char *words)
{
    ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT && strstr(rfg_last_error(), words), "'%s' doesn't say '%s'",
                  rfg_last_error(), words);
}

START_TEST(refusals)
{
    static char buffer[ALL] __attribute__((aligned(16)));
    static uint16_t x[TOKENS * HKV * D];
    rfg_context *ctx = op_context("cpu");
    int64_t slots[TOKENS] = { 0 };
    float half = 0.5f;
    rfg_tensor k, v, ks, vs, tx = { x, RFG_BF16, 3, { TOKENS, HKV, D }, { HKV * D, D, 1 } };
    rfg_tensor ts = rfg_tensor_1d(slots, RFG_I64, TOKENS), one = rfg_tensor_1d(&half, RFG_F32, 1);
    views_of(buffer, RFG_I4, false, true, &k, &ks);
    views_of(buffer, RFG_I4, true, true, &v, &vs);
    rfg_kv_append_params p = { .size = sizeof(p), .k_scale = &ks };
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "v_scale is NULL");
    p.k_scale = p.v_scale = &one;
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "must be with scales=token");
    p.k_scale = &ks;
    p.v_scale = &ks;
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "overlaps");
    vs.data = (char *)vs.data - 4; /* over the last codes */
    p.v_scale = &vs;
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "overlaps");
    views_of(buffer, RFG_I4, true, true, &v, &vs);
    vs.strides[0] = (int64_t)INT32_MAX + 1;
    vs.shape[0] = k.shape[0] = v.shape[0] = ks.shape[0] = 2;
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "v_scale has stride 2147483648 in dimension 0");
    rfg_tensor q = { x, RFG_BF16, 3, { 2, HQ, D }, { HQ * D, D, 1 } }, out = q;
    rfg_mha_params mp = { .size = sizeof(mp), .k_scale = &ks, .v_scale = &vs };
    out.data = x + 2 * HQ * D;
    refused(rfg_op_mha_decode(ctx, &out, &q, &k, &v, &mp, NULL), "v_scale has stride 2147483648 in dimension 0");
    views_of(buffer, RFG_I4, true, true, &v, &vs);
    v.strides[1]++;
    refused(rfg_op_kv_append(ctx, &k, &v, &tx, &tx, &ts, &p, NULL), "must be whole blocks of 2");
    rfg_context_destroy(&ctx);
}
END_TEST

/* Problems that are none (of kv_append: test_rules.c). */
START_TEST(rules)
{
    static const struct {
        const char *problem, *words;
    } wrong[] = {
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 kv=i8 scales=head",
          "kv=i8, k's dtype: must be with scales=token" },
        { "mha bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 Sq=8 kv=i4", "kv=i4, k's dtype: must be with scales=token" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 scales=token", "must be with k and v of 8 bits, or i4" },
        { "mha_decode bf16->bf16 B=1 Hq=2 Hkv=2 D=64 S=8 page=16 kv=e4m3 scales=token form=vllm", "not form=vllm" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct rfg_problem prob;
        struct rfg_reason why = { "" };
        ck_assert_msg(!rfg_problem_parse(&prob, wrong[i].problem, &why) && strstr(why.text, wrong[i].words),
                      "%s: '%s' doesn't say '%s'", wrong[i].problem, why.text, wrong[i].words);
    }
}
END_TEST

int main(void)
{
    return op_main("token_scales", OP_TESTS(in_line), OP_TESTS(by_hand, refusals, rules));
}
