/* SPDX-License-Identifier: MIT
 *
 * rfg_pack_qkv(), rfg_pack_gate_up(): the place of each row, on the cpu, an emulated GPU and $RFG_TEST_DEVICES;
 * rfg_pack_fnuz(): the result for each code and scale; refusals, with nothing written. */
#include <math.h>

#include "ops/oracle.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"

enum { K = 64, APART = 80, MOST = 160 * APART };

static rfg_context *ctx;
static uint16_t *device, *host;

static void open_device(const char *name)
{
    rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .cache_dir = "" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", name, rfg_last_error());
    ck_assert_int_eq(rfg_device_alloc(ctx, (void **)&device, 3 * MOST * sizeof(*device)), RFG_OK);
    host = calloc(3 * MOST, sizeof(*host));
    ck_assert_ptr_nonnull(host);
    for (int i = MOST; i < 3 * MOST; i++)
        host[i] = (uint16_t)(i * 40503 + 7); /* any bits, NaNs too */
    ck_assert_int_eq(rfg_device_copy(ctx, device, host, 3 * MOST * sizeof(*host), RFG_HOST_TO_DEVICE, NULL), RFG_OK);
}

static void fetch(void)
{
    ck_assert_int_eq(rfg_device_copy(ctx, host, device, MOST * sizeof(*host), RFG_DEVICE_TO_HOST, NULL), RFG_OK);
    ck_assert_int_eq(rfg_stream_sync(ctx, NULL), RFG_OK);
}

static void close_device(void)
{
    ck_assert_int_eq(rfg_device_free(ctx, device), RFG_OK);
    rfg_context_destroy(&ctx);
    free(host);
}

/* Sources lie behind dst's place, one after the other; ld elements from row to row. */
static rfg_tensor source(int first_row, int rows, int64_t ld)
{
    return rfg_tensor_2d(device + MOST + first_row * ld, RFG_BF16, rows, K, ld);
}

static void expect_row(const uint16_t *row, int source_row, int64_t ld, const char *what)
{
    ck_assert_msg(!memcmp(row, host + MOST + source_row * ld, K * sizeof(*row)), "%s: source's row %d", what,
                  source_row);
}

static const char *const devices[] = { "cpu", "emu:gfx942:4" };

START_TEST(joins_rows)
{
    for (int apart = 0; apart < 2; apart++) {
        int64_t ld = apart ? APART : K;
        open_device(devices[_i]);
        rfg_tensor q = source(0, 48, ld), k = source(48, 16, ld), v = source(64, 16, ld);
        rfg_tensor dst = rfg_tensor_2d(device, RFG_BF16, 80, K, ld);
        ck_assert_msg(rfg_pack_qkv(ctx, &dst, &q, &k, &v, NULL) == RFG_OK, "%s", rfg_last_error());
        fetch();
        for (int r = 0; r < 80; r++) {
            expect_row(host + r * ld, r, ld, "qkv");
            for (int c = K; apart && c < APART; c++)
                ck_assert_uint_eq(host[r * ld + c], 0); /* between rows */
        }
        ck_assert_uint_eq(host[80 * ld], 0);
        rfg_tensor gate = source(0, 40, ld), up = source(40, 40, ld);
        for (rfg_gates gates = RFG_GATES_HALVES; gates <= RFG_GATES_INTERLEAVED; gates++) {
            ck_assert_msg(rfg_pack_gate_up(ctx, &dst, &gate, &up, gates, NULL) == RFG_OK, "%s", rfg_last_error());
            fetch();
            for (int r = 0; r < 80; r++)
                expect_row(host + r * ld, gates ? r / 2 + r % 2 * 40 : r, ld, "gate and up");
        }
        close_device();
    }
}
END_TEST

/* As prepacking what was joined. */
START_TEST(joins_prepacked)
{
    static uint16_t want[80 * K];
    open_device(devices[_i]);
    rfg_tensor q = source(0, 48, APART), k = source(48, 16, APART), v = source(64, 16, APART),
               all = source(0, 80, APART);
    rfg_tensor dst = rfg_tensor_prepacked(device, RFG_BF16, 80, K);
    ck_assert_msg(rfg_gemm_prepack(ctx, &dst, &all, NULL) == RFG_OK, "%s", rfg_last_error());
    fetch();
    memcpy(want, host, sizeof(want));
    ck_assert_int_eq(rfg_device_memset(ctx, device, 0, sizeof(want), NULL), RFG_OK);
    ck_assert_msg(rfg_pack_qkv(ctx, &dst, &q, &k, &v, NULL) == RFG_OK, "%s", rfg_last_error());
    fetch();
    ck_assert_mem_eq(host, want, sizeof(want));
    rfg_tensor gate = source(0, 48, APART), up = source(48, 32, APART);
    ck_assert_int_eq(rfg_device_memset(ctx, device, 0, sizeof(want), NULL), RFG_OK);
    ck_assert_msg(rfg_pack_gate_up(ctx, &dst, &gate, &up, RFG_GATES_HALVES, NULL) == RFG_OK, "%s", rfg_last_error());
    fetch();
    ck_assert_mem_eq(host, want, sizeof(want));
    close_device();
}
END_TEST

#define REFUSED(call, says)                                                                                            \
    do {                                                                                                               \
        ck_assert_int_eq(call, RFG_ERROR_INVALID_ARGUMENT);                                                            \
        PRINTS(rfg_last_error(), says);                                                                                \
    } while (0)

START_TEST(refused)
{
    open_device("cpu");
    rfg_tensor a = source(0, 16, K), b = source(16, 16, K), c = source(32, 16, K), wrong;
    rfg_tensor dst = rfg_tensor_2d(device, RFG_BF16, 48, K, K), two = rfg_tensor_2d(device, RFG_BF16, 32, K, K);
    rfg_tensor packed = rfg_tensor_prepacked(device, RFG_BF16, 48, K),
               packed2 = rfg_tensor_prepacked(device, RFG_BF16, 32, K);
    REFUSED(rfg_pack_qkv(NULL, &dst, &a, &b, &c, NULL), "rfg_pack_qkv: ctx is NULL");
    REFUSED(rfg_pack_qkv(ctx, NULL, &a, &b, &c, NULL), "dst is NULL");
    REFUSED(rfg_pack_qkv(ctx, &dst, NULL, &b, &c, NULL), "q is NULL");
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, NULL, &c, NULL), "k is NULL");
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, &b, NULL, NULL), "v is NULL");
    REFUSED(rfg_pack_gate_up(ctx, &two, NULL, &b, RFG_GATES_HALVES, NULL), "rfg_pack_gate_up: gate is NULL");
    REFUSED(rfg_pack_gate_up(ctx, &two, &a, NULL, RFG_GATES_HALVES, NULL), "up is NULL");
    REFUSED(rfg_pack_gate_up(ctx, &dst, &a, &b, RFG_GATES_HALVES, NULL),
            "dst has 48 rows: must be the rows of its parts, 32");
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, &b, &c, ctx), "stream");
    wrong = b;
    wrong.dtype = RFG_F16;
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, &wrong, &c, NULL), "k is f16: must be q's dtype, bf16");
    wrong.dtype = RFG_E4M3;
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, &wrong, &c, NULL), "k");
    wrong = b;
    wrong.shape[1] = K - 1;
    REFUSED(rfg_pack_gate_up(ctx, &two, &a, &wrong, RFG_GATES_HALVES, NULL),
            "up has 63 columns: must be gate's columns, 64");
    wrong = b;
    wrong.data = device + 32 * K - 1;
    REFUSED(rfg_pack_qkv(ctx, &dst, &a, &b, &wrong, NULL), "overlap");
    wrong = source(16, 15, K);
    REFUSED(rfg_pack_qkv(ctx, &packed, &a, &wrong, &c, NULL), "k: N=15: must be a multiple of 16");
    wrong = b;
    wrong.data = device + MOST + 1;
    REFUSED(rfg_pack_qkv(ctx, &packed, &a, &b, &wrong, NULL), "multiples of 16 bytes");
    wrong = packed;
    wrong.data = device + 1;
    REFUSED(rfg_pack_qkv(ctx, &wrong, &a, &b, &c, NULL), "dst is at");
    REFUSED(rfg_pack_gate_up(ctx, &packed2, &a, &b, RFG_GATES_INTERLEAVED, NULL),
            "gates is RFG_GATES_INTERLEAVED and dst prepacked");
    rfg_gemm_params p = { .size = sizeof(p), .gated = 1 };
    rfg_tensor x = rfg_tensor_2d(device, RFG_BF16, 2, K, K), y = rfg_tensor_2d(device + 40 * K, RFG_BF16, 2, 16, 16);
    REFUSED(rfg_op_gemm(ctx, &y, &x, &packed2, &p, NULL), "by rfg_pack_gate_up(..., RFG_GATES_INTERLEAVED)");
    wrong = source(0, 20, K);
    rfg_tensor other = source(20, 12, K);
    REFUSED(rfg_pack_gate_up(ctx, &two, &wrong, &other, RFG_GATES_INTERLEAVED, NULL), "must have as many");
    REFUSED(rfg_pack_gate_up(ctx, &two, &a, &b, (rfg_gates)2, NULL), "gates is 2: must be RFG_GATES_HALVES or");
    fetch();
    for (int i = 0; i < MOST; i++)
        ck_assert_uint_eq(host[i], 0);
    close_device();
}
END_TEST

/* Every code, by the values that the two formats give it; scales; in place, and rows apart. */
START_TEST(to_fnuz)
{
    open_device(devices[_i]);
    uint8_t *codes = (uint8_t *)device, *got = (uint8_t *)host;
    for (int in_place = 0; in_place < 2; in_place++)
        for (int apart = 0; apart < 2; apart++) {
            int64_t ld = apart ? 80 : 64;
            float scales[4] = { 1, 0.375f, 0x1p-149f, 3e38f };
            uint8_t exponents[4] = { 0, 127, 254, 255 };
            memset(got, 0x55, 4096);
            for (int i = 0; i < 256; i++)
                got[i / 64 * ld + i % 64] = (uint8_t)i;
            memcpy(got + 1024, scales, sizeof(scales));
            memcpy(got + 1040, exponents, sizeof(exponents));
            ck_assert_int_eq(rfg_device_copy(ctx, codes, got, 4096, RFG_HOST_TO_DEVICE, NULL), RFG_OK);
            size_t to = in_place ? 0 : 2048;
            rfg_tensor src = rfg_tensor_2d(codes, RFG_E4M3, 4, 64, ld);
            rfg_tensor dst = rfg_tensor_2d(codes + to, RFG_E4M3FNUZ, 4, 64, ld);
            rfg_tensor s = rfg_tensor_1d(codes + 1024, RFG_F32, 4), d = rfg_tensor_1d(codes + 1024 + to, RFG_F32, 4);
            rfg_tensor e = rfg_tensor_1d(codes + 1040, RFG_E8M0, 4), f = rfg_tensor_1d(codes + 1040 + to, RFG_E8M0, 4);
            ck_assert_msg(rfg_pack_fnuz(ctx, &dst, &src, &d, &s, NULL) == RFG_OK, "%s", rfg_last_error());
            fetch();
            for (int i = 0; i < 256; i++) {
                uint8_t code = (uint8_t)i, was = got[i / 64 * ld + i % 64],
                        now = got[to + (size_t)(i / 64 * ld + i % 64)];
                double from = rfg_load(&code, RFG_E4M3, 0), is = rfg_load(&now, RFG_E4M3FNUZ, 0);
                ck_assert_msg(isnan(from) ? isnan(is) && now == 0x80 : 2 * is == from, "%02x: %02x", i, now);
                ck_assert(in_place || was == i);
            }
            ck_assert_int_eq(got[to + 255 / 64 * (size_t)ld + 64], 0x55); /* behind the last row */
            for (int i = 0; i < 4; i++)
                ck_assert(((float *)(got + to + 1024))[i] == scales[i] * 2);
            ck_assert_msg(rfg_pack_fnuz(ctx, &dst, &src, &f, &e, NULL) == RFG_OK, "%s", rfg_last_error());
            fetch();
            ck_assert(!memcmp(got + to + 1040, ((uint8_t[]){ 1, 128, 255, 255 }), 4));
        }
    close_device();
}
END_TEST

/* More than one piece on its way. */
START_TEST(to_fnuz_large)
{
    enum { BYTES = (5 << 19) + 3 };
    uint8_t *codes = malloc(BYTES), *memory;
    rfg_context_params p = {
        .size = sizeof(p), .device = devices[_i], .user_db = "", .system_db = "", .cache_dir = ""
    };
    ck_assert_int_eq(rfg_context_create(&ctx, &p), RFG_OK);
    ck_assert_int_eq(rfg_device_alloc(ctx, (void **)&memory, BYTES), RFG_OK);
    for (int i = 0; i < BYTES; i++)
        codes[i] = (uint8_t)(i * 31 >> 3);
    ck_assert_int_eq(rfg_device_copy(ctx, memory, codes, BYTES, RFG_HOST_TO_DEVICE, NULL), RFG_OK);
    rfg_tensor src = rfg_tensor_1d(memory, RFG_E4M3, BYTES), dst = rfg_tensor_1d(memory, RFG_E4M3FNUZ, BYTES);
    ck_assert_msg(rfg_pack_fnuz(ctx, &dst, &src, NULL, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_device_copy(ctx, codes, memory, BYTES, RFG_DEVICE_TO_HOST, NULL), RFG_OK);
    ck_assert_int_eq(rfg_stream_sync(ctx, NULL), RFG_OK);
    for (int i = 0; i < BYTES; i++) {
        uint8_t was = (uint8_t)(i * 31 >> 3), want = was == 0x80 ? 0 : (was & 0x7f) == 0x7f ? 0x80 : was;
        ck_assert_msg(codes[i] == want, "%d: %02x is %02x", i, was, codes[i]);
    }
    ck_assert_int_eq(rfg_device_free(ctx, memory), RFG_OK);
    rfg_context_destroy(&ctx);
    free(codes);
}
END_TEST

/* What rfg_pack_fnuz() refuses, with nothing written. */
START_TEST(fnuz_refused)
{
    open_device("cpu");
    uint16_t to[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, from[8] = { 0 };
    /* 8 codes and 2 scales; of the same memory, shifted: overlaps */
    rfg_tensor fnuz = rfg_tensor_1d(to, RFG_E4M3FNUZ, 8), fn = rfg_tensor_1d(from, RFG_E4M3, 8);
    rfg_tensor beside = rfg_tensor_1d((char *)to + 1, RFG_E4M3, 8), short_one = rfg_tensor_1d(from, RFG_E4M3, 7);
    rfg_tensor to_scale = rfg_tensor_1d(to + 4, RFG_F32, 2), from_scale = rfg_tensor_1d(from + 4, RFG_F32, 2);
    rfg_tensor e8m0 = rfg_tensor_1d(from + 4, RFG_E8M0, 2), half = rfg_tensor_1d(from + 4, RFG_F16, 2);
    REFUSED(rfg_pack_fnuz(NULL, &fnuz, &fn, NULL, NULL, NULL), "ctx");
    REFUSED(rfg_pack_fnuz(ctx, NULL, &fn, NULL, NULL, NULL), "dst");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, NULL, NULL, NULL, NULL), "src");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fnuz, NULL, NULL, NULL), "src is e4m3fnuz");
    REFUSED(rfg_pack_fnuz(ctx, &fn, &fn, NULL, NULL, NULL), "dst is e4m3: must be e4m3fnuz");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &short_one, NULL, NULL, NULL), "of one size");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &beside, NULL, NULL, NULL), "overlaps src");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, &to_scale, NULL, NULL), "src_scale is NULL");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, NULL, &from_scale, NULL), "dst_scale is NULL");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, &to_scale, &e8m0, NULL), "src_scale is e8m0");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, &half, &half, NULL), "src_scale is f16");
    rfg_tensor wide = rfg_tensor_1d(to, RFG_F32, 2);
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, &wide, &from_scale, NULL), "overlaps dst_scale");
    REFUSED(rfg_pack_fnuz(ctx, &fnuz, &fn, NULL, NULL, ctx), "stream");
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(to[i], i + 1);
    close_device();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pack");
    TCase *c = test_case(s, "pack", NULL, NULL);
    ADD_TESTS(c, refused, fnuz_refused);
    ADD_LOOPS(c, 2, joins_rows, joins_prepacked, to_fnuz, to_fnuz_large);
    return run_suite(s);
}
