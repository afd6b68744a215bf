/* SPDX-License-Identifier: MIT
 *
 * What each variant of attention that serves every problem must do, called by its name, on the cpu and on the devices
 * of $RFG_TEST_DEVICES: every 8-bit code, NaN included, in keys and values; values that some rows of a tile don't see,
 * and are NaN; the same bits from any number of threads. */
#include <math.h>

#include "base/util.h"
#include "tests/op_cases.h"
#include "rfg/rfg.h"

static const char *const cpu_variants[] = { "avx512", "avx2", "portable" };

/* A context that has one variant of each operator only. isa: an index of cpu_variants; on GPUs the portable one. */
static rfg_context *context_of(const char *device, int isa, int threads)
{
    char list[100];
    rfg_context *ctx;
    if (strcmp(device, "cpu"))
        snprintf(list, sizeof(list), "mha_portable,mha_decode_portable");
    else
        snprintf(list, sizeof(list), "mha_cpu_%s,mha_decode_cpu_%s", cpu_variants[isa], cpu_variants[isa]);
    setenv("RFG_VARIANTS", list, 1);
    rfg_context_params p = { .size = sizeof(p), .device = device, .user_db = "", .system_db = "", .threads = threads };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    return ctx;
}

/* Contexts to test on a device; what this cpu lacks is left out. */
static int isas_of(const char *device)
{
    return strcmp(device, "cpu") ? 1 : (int)(sizeof(cpu_variants) / sizeof(cpu_variants[0]));
}
static bool lacks(const rfg_context *ctx, int isa)
{
    const struct rfg_device *dev = rfg_context_info(ctx);
    unsigned needed = isa == 0 ? RFG_FEATURE_AVX512 : isa == 1 ? RFG_FEATURE_AVX2 : 0;
    if (dev->platform != RFG_PLATFORM_CPU || (dev->features & needed) == needed)
        return false;
    printf("SKIPPED: %s: this cpu has none\n", cpu_variants[isa]);
    return true;
}

/* ---- memory of the device --------------------------------------------------------------------------------------- */

static void *put(rfg_context *ctx, const void *data, size_t bytes)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    void *p = NULL;
    if (hip) {
        ck_assert_int_eq(hip->hipMalloc(&p, bytes), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)p, (void *)(uintptr_t)data, bytes), hipSuccess);
    } else {
        p = malloc(bytes);
        ck_assert_ptr_nonnull(p);
        memcpy(p, data, bytes);
    }
    return p;
}
static void take(rfg_context *ctx, void *to, void *from, size_t bytes)
{
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    if (to && hip) {
        ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyDtoH(to, (hipDeviceptr_t)from, bytes), hipSuccess);
    } else if (to) {
        memcpy(to, from, bytes);
    }
    if (hip)
        (void)hip->hipFree(from);
    else
        free(from);
}

/* Tensors without a table: q, out [B,Sq,Hq,D], k, v [B,S,Hkv,D], lse [B,Hq,Sq]. */
struct call {
    int b, sq, hq, s, hkv, d;
    rfg_dtype dtype, kv;
    bool decode;
    rfg_mha_params p;
    const void *q, *k, *v;
    void *out;
    float *lse;
};

static void run(rfg_context *ctx, const struct call *c)
{
    int64_t b = c->b, sq = c->sq, hq = c->hq, s = c->s, hkv = c->hkv, d = c->d;
    size_t nq = (size_t)(b * sq * hq * d) * 2, nk = rfg_dtype_bytes(c->kv, b * s * hkv * d);
    const int64_t queries[] = { b, sq, hq, d }, keys[] = { b, s, hkv, d }, rows[] = { b, hq, sq };
    rfg_tensor q = rfg_tensor_nd(put(ctx, c->q, nq), c->dtype, 4, queries), out = q;
    rfg_tensor k = rfg_tensor_nd(put(ctx, c->k, nk), c->kv, 4, keys), v = k;
    rfg_tensor lse = rfg_tensor_nd(put(ctx, c->lse, (size_t)(b * hq * sq) * 4), RFG_F32, 3, rows);
    rfg_mha_params p = c->p;
    v.data = put(ctx, c->v, nk);
    out.data = put(ctx, c->out, nq);
    p.size = sizeof(p);
    p.lse = &lse;
    rfg_status st = (c->decode ? rfg_op_mha_decode : rfg_op_mha)(ctx, &out, &q, &k, &v, &p, NULL);
    ck_assert_msg(st == RFG_OK, "%s: %s", rfg_context_device(ctx), rfg_last_error());
    take(ctx, c->out, out.data, nq);
    take(ctx, c->lse, lse.data, (size_t)(b * hq * sq) * 4);
    take(ctx, NULL, q.data, 0);
    take(ctx, NULL, k.data, 0);
    take(ctx, NULL, v.data, 0);
}

/* ---- codes ------------------------------------------------------------------------------------------------------ */

enum { CODES = 256, D = 64 };

/* Two keys, of which the first is 0. Head 0: the second one is a code, in one place: lse = log(1 + e^code). Head 1: it
 * is 0, too, and its value is codes: half of them is the result. */
static void check_codes(const char *device, int isa, rfg_dtype kv, rfg_dtype dtype)
{
    static uint16_t q[CODES * 2 * D], out[CODES * 2 * D];
    static uint8_t k[CODES * 2 * 2 * D], v[CODES * 2 * 2 * D];
    static float lse[CODES * 2];
    rfg_context *ctx = context_of(device, isa, 2);
    struct call c = { CODES, 1, 2, 2, 2, D, dtype, kv, true, { .scale = 1 }, q, k, v, out, lse };
    memset(k, 0, sizeof(k));
    memset(v, 0, sizeof(v));
    for (int b = 0; b < CODES; b++) {
        for (int i = 0; i < 2 * D; i++)
            rfg_store(q, dtype, b * 2 * D + i, i == 5);
        k[(b * 2 + 1) * 2 * D + 5] = (uint8_t)b;
        for (int i = 0; i < D; i++)
            v[((b * 2 + 1) * 2 + 1) * D + i] = (uint8_t)(b + i);
    }
    if (!lacks(ctx, isa)) {
        run(ctx, &c);
        for (int b = 0; b < CODES; b++) {
            uint8_t code = (uint8_t)b;
            double x = rfg_load(&code, kv, 0), want = x == INFINITY ? NAN : x > 50 ? x : log1p(exp(x)), is = lse[b * 2];
            ck_assert_msg(isnan(want) ? isnan(is) : fabs(is - want) <= 1e-6 * (1 + fabs(want)),
                          "%s, isa %d: a key of %s code 0x%02x, %g: lse is %g, must be %g", device, isa,
                          rfg_dtype_name(kv), b, x, is, want);
            for (int i = 0; i < D; i++) {
                code = (uint8_t)(b + i);
                want = rfg_load(&code, kv, 0) / 2;
                is = rfg_load(out, dtype, (b * 2 + 1) * D + i);
                ck_assert_msg(isnan(want) ? isnan(is) : is == want,
                              "%s, isa %d: a value of %s code 0x%02x: result is %g, must be %g", device, isa,
                              rfg_dtype_name(kv), code, is, want);
            }
        }
    }
    rfg_context_destroy(&ctx);
}

START_TEST(codes)
{
    for (int isa = 0; isa < isas_of(op_device(_i)); isa++)
        for (rfg_dtype kv = RFG_E4M3; kv <= RFG_E5M2; kv++) {
            check_codes(op_device(_i), isa, kv, RFG_BF16);
            check_codes(op_device(_i), isa, kv, RFG_F16);
        }
}
END_TEST

/* ---- what a row doesn't see ------------------------------------------------------------------------------------- */

/* Six queries of two heads and nine keys, causal with a window of 6: the value of key j is NaN. Sequences enough for
 * variants to put several rows together. */
START_TEST(unseen_nan)
{
    enum { B = 16, SQ = 6, HQ = 2, S = 9, SEEN = 6 };
    static uint16_t q[B * SQ * HQ * D], k[B * S * D], v[B * S * D], out[B * SQ * HQ * D];
    static float lse[B * SQ * HQ];
    for (int isa = 0; isa < isas_of(op_device(_i)); isa++) {
        rfg_context *ctx = context_of(op_device(_i), isa, 1);
        for (int decode = 0; decode < 2 && !lacks(ctx, isa); decode++)
            for (int bad = 0; bad < S; bad++) {
                struct call c = {
                    .b = B, .sq = SQ, .hq = HQ, .s = S, .hkv = 1, .d = D, .dtype = RFG_BF16, .kv = RFG_BF16
                };
                c.decode = decode;
                c.p = (rfg_mha_params){ .causal = 1, .window = SEEN };
                c.q = q;
                c.k = k;
                c.v = v;
                c.out = out;
                c.lse = lse;
                for (int i = 0; i < B * S * D; i++)
                    v[i] = i / D % S == bad ? 0x7fc1 : 0x3f80;
                run(ctx, &c);
                for (int i = 0; i < B * SQ * HQ * D; i++) {
                    int query = i / (HQ * D) % SQ, at = query + S - SQ;
                    bool sees = bad <= at && bad > at - SEEN;
                    double is = rfg_load(out, RFG_BF16, i);
                    ck_assert_msg(sees ? isnan(is) : is == 1, "%s, isa %d, decode %d: query %d, NaN at key %d: %g",
                                  op_device(_i), isa, decode, query, bad, is);
                }
            }
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* ---- threads ---------------------------------------------------------------------------------------------------- */

START_TEST(same_bits_from_any_threads)
{
    enum { S = 2500, HQ = 6, HKV = 3, MOST = 8 };
    static const struct {
        bool decode;
        int sq, causal;
    } kinds[] = { { true, 1, 0 }, { true, 8, 1 }, { false, 40, 1 } };
    static uint16_t q[40 * HQ * D], k[S * HKV * D], v[S * HKV * D], out[2][40 * HQ * D];
    static float lse[2][40 * HQ];
    uint64_t seed = op_seed();
    for (size_t i = 0; i < sizeof(q) / 2; i++)
        rfg_store(q, RFG_F16, (int64_t)i, (double)(int64_t)rfg_random(&seed) * 0x1p-62);
    for (size_t i = 0; i < sizeof(k) / 2; i++) {
        rfg_store(k, RFG_F16, (int64_t)i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
        rfg_store(v, RFG_F16, (int64_t)i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    }
    for (int isa = 0; isa < isas_of("cpu"); isa++)
        for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
            for (int threads = 1; threads <= MOST; threads += threads < 3 ? 1 : 5) {
                rfg_context *ctx = context_of("cpu", isa, threads);
                int to = threads > 1;
                struct call c = { 1,
                                  kinds[kind].sq,
                                  HQ,
                                  S,
                                  HKV,
                                  D,
                                  RFG_F16,
                                  RFG_F16,
                                  kinds[kind].decode,
                                  { .causal = kinds[kind].causal },
                                  q,
                                  k,
                                  v,
                                  out[to],
                                  lse[to] };
                if (!lacks(ctx, isa)) {
                    run(ctx, &c);
                    ck_assert_msg(!to || (!memcmp(out[0], out[1], (size_t)(c.sq * HQ * D) * 2) &&
                                          !memcmp(lse[0], lse[1], (size_t)(c.sq * HQ) * 4)),
                                  "%s: Sq=%d: 1 and %d threads differ", cpu_variants[isa], c.sq, threads);
                }
                rfg_context_destroy(&ctx);
            }
}
END_TEST

int main(void)
{
    return op_main("mha_variants", OP_TESTS(codes, unseen_nan), OP_TESTS(same_bits_from_any_threads));
}
