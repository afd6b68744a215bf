/* SPDX-License-Identifier: MIT
 *
 * mla_decode by rules that need no oracle, on the cpu and on the devices of $RFG_TEST_DEVICES: what must not change a
 * bit, lengths and tables that don't fit, captured graphs. And what it refuses. */
#include <stdlib.h>

#include "base/util.h"
#include "mha_batch.h"

enum { MLA_B = 3, MLA_HQ = 5, MLA_D = 128, MLA_DV = 64, MLA_PAGE = 16, MLA_COLUMNS = 40, MLA_SQ = 2 };
enum { MLA_BLOCKS = MLA_B * MLA_COLUMNS, MLA_ROW = MLA_PAGE * MLA_D, MLA_OUT = MLA_SQ * MLA_HQ * MLA_DV };

struct mla_batch {
    uint16_t q[MLA_B * MLA_SQ * MLA_HQ * MLA_D], kv[MLA_BLOCKS * MLA_ROW];
    int32_t table[MLA_B * MLA_COLUMNS], lens[MLA_B], begin[MLA_B + 1];
    int most; /* max_seqlen_k */
    bool indices;
};
struct mla_result {
    uint16_t out[MLA_B * MLA_OUT];
    float lse[MLA_B * MLA_HQ * MLA_SQ];
};

/* Lengths of one segment, of two, and of five. */
static void mla_make(struct mla_batch *b)
{
    uint64_t seed = op_seed();
    memset(b, 0, sizeof(*b));
    for (int i = 0; i < MLA_B * MLA_SQ * MLA_HQ * MLA_D; i++)
        rfg_store(b->q, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-62);
    for (int i = 0; i < MLA_BLOCKS * MLA_ROW; i++)
        rfg_store(b->kv, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    for (int i = 0; i < MLA_BLOCKS; i++)
        b->table[i] = MLA_BLOCKS - 1 - i;
    b->lens[0] = 600;
    b->lens[1] = 37;
    b->lens[2] = 250;
    for (int s = 0; s <= MLA_B; s++)
        b->begin[s] = s * MLA_COLUMNS;
    b->most = 640;
}

struct mla_memory {
    struct buffers m;
    rfg_tensor q, kv, out, lse, table, lens, begin, index;
};

/* Sequences first to first + n - 1. */
static void mla_upload(rfg_context *ctx, const struct mla_batch *b, int first, int n, struct mla_result *r,
                       struct mla_memory *u)
{
    *u = (struct mla_memory){ .m = { .hip = rfg_context_hip(ctx) } };
    memset(r, 0xff, sizeof(*r));
    const uint16_t *q = b->q + first * MLA_SQ * MLA_HQ * MLA_D;
    u->q = rfg_tensor_nd(put(&u->m, q, (size_t)(n * MLA_SQ * MLA_HQ * MLA_D) * 2), RFG_BF16, 4,
                         (const int64_t[]){ n, MLA_SQ, MLA_HQ, MLA_D });
    u->kv =
        rfg_tensor_nd(put(&u->m, b->kv, sizeof(b->kv)), RFG_BF16, 3, (const int64_t[]){ MLA_BLOCKS, MLA_PAGE, MLA_D });
    u->out = rfg_tensor_nd(put(&u->m, r->out, (size_t)(n * MLA_OUT) * 2), RFG_BF16, 4,
                           (const int64_t[]){ n, MLA_SQ, MLA_HQ, MLA_DV });
    u->lse = rfg_tensor_nd(put(&u->m, r->lse, (size_t)(n * MLA_HQ * MLA_SQ) * 4), RFG_F32, 3,
                           (const int64_t[]){ n, MLA_HQ, MLA_SQ });
    u->table = rfg_tensor_2d(put(&u->m, b->table + first * MLA_COLUMNS, (size_t)(n * MLA_COLUMNS) * 4), RFG_I32, n,
                             MLA_COLUMNS, MLA_COLUMNS);
    u->lens = rfg_tensor_1d(put(&u->m, b->lens + first, (size_t)n * 4), RFG_I32, n);
    u->begin = rfg_tensor_1d(put(&u->m, b->begin + first, (size_t)(n + 1) * 4), RFG_I32, n + 1);
    u->index = rfg_tensor_1d(put(&u->m, b->table, sizeof(b->table)), RFG_I32, MLA_BLOCKS);
}

static void mla_attend(rfg_context *ctx, const struct mla_batch *b, const struct mla_memory *u, rfg_stream stream)
{
    rfg_mla_params p = { .size = sizeof(p), .scale = 0.2f, .causal = 1, .max_seqlen_k = b->most };
    p.lse = &u->lse;
    p.kv_lens = &u->lens;
    p.block_table = b->indices ? NULL : &u->table;
    p.kv_indptr = b->indices ? &u->begin : NULL;
    p.kv_indices = b->indices ? &u->index : NULL;
    ck_assert_msg(rfg_op_mla_decode(ctx, &u->out, &u->q, &u->kv, &p, stream) == RFG_OK, "%s", rfg_last_error());
}

static void mla_run(rfg_context *ctx, const struct mla_batch *b, int first, int n, struct mla_result *r)
{
    struct mla_memory u;
    mla_upload(ctx, b, first, n, r, &u);
    mla_attend(ctx, b, &u, NULL);
    get(&u.m, r->out, u.out.data, (size_t)(n * MLA_OUT) * 2);
    get(&u.m, r->lse, u.lse.data, (size_t)(n * MLA_HQ * MLA_SQ) * 4);
    free_buffers(&u.m);
}

static void mla_equal(const struct mla_result *a, int first, const struct mla_result *b, int n, const char *device,
                      const char *what)
{
    ck_assert_msg(!memcmp(a->out + first * MLA_OUT, b->out, (size_t)(n * MLA_OUT) * 2), "%s: %s: another out", device,
                  what);
    ck_assert_msg(!memcmp(a->lse + first * MLA_HQ * MLA_SQ, b->lse, (size_t)(n * MLA_HQ * MLA_SQ) * 4),
                  "%s: %s: another lse", device, what);
}

/* A context with one variant: each, where there is one. */
static const char *const mla_ways[] = { NULL, "mla_decode_portable" };
static rfg_context *mla_context(const char *device, int way)
{
    if (mla_ways[way] && strcmp(device, "cpu"))
        setenv("RFG_VARIANTS", mla_ways[way], 1);
    rfg_context *ctx = op_context(device);
    unsetenv("RFG_VARIANTS");
    return ctx;
}

static void mla_nan_rows(struct mla_batch *b)
{
    for (int s = 0; s < MLA_B; s++)
        for (int key = b->lens[s]; key < MLA_COLUMNS * MLA_PAGE; key++)
            for (int i = 0; i < MLA_D; i++)
                b->kv[b->table[s * MLA_COLUMNS + key / MLA_PAGE] * MLA_ROW + key % MLA_PAGE * MLA_D + i] = 0x7fc0;
}
static void mla_indices(struct mla_batch *b)
{
    b->indices = true;
}
static void mla_unknown_most(struct mla_batch *b)
{
    b->most = 0;
}
static void mla_small_most(struct mla_batch *b) /* one segment, as the host sees it */
{
    b->most = 16;
}
static const struct {
    const char *says;
    void (*change)(struct mla_batch *b);
} mla_unchanged[] = {
    { "NaN in rows past the end", mla_nan_rows },
    { "indices in place of a table", mla_indices },
    { "max_seqlen_k 0", mla_unknown_most },
    { "max_seqlen_k 16", mla_small_most },
};

/* Each sequence alone, two of them, and all; a tile of 16 rows has other sequences' rows in none of them, but parts and
 * grids differ. */
START_TEST(same_bits)
{
    static struct mla_batch b;
    static struct mla_result all, some;
    const char *device = op_device(_i);
    for (int way = 0; way < 2; way++) {
        rfg_context *ctx = mla_context(device, way);
        mla_make(&b);
        mla_run(ctx, &b, 0, MLA_B, &all);
        ck_assert(all.lse[0] == all.lse[0]);
        for (int s = 0; s < MLA_B; s++) {
            mla_run(ctx, &b, s, 1, &some);
            mla_equal(&all, s, &some, 1, device, "a sequence alone");
        }
        mla_run(ctx, &b, 1, 2, &some);
        mla_equal(&all, 1, &some, 2, device, "two sequences");
        for (size_t i = 0; i < sizeof(mla_unchanged) / sizeof(mla_unchanged[0]); i++) {
            mla_make(&b);
            mla_unchanged[i].change(&b);
            mla_run(ctx, &b, 0, MLA_B, &some);
            mla_equal(&all, 0, &some, MLA_B, device, mla_unchanged[i].says);
        }
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* Lengths, indices and blocks that the tensors don't hold count as the nearest that they hold. */
START_TEST(past_the_tensors)
{
    static struct mla_batch b;
    static struct mla_result want, got;
    const char *device = op_device(_i);
    for (int way = 0; way < 2; way++) {
        rfg_context *ctx = mla_context(device, way);
        mla_make(&b);
        b.lens[0] = MLA_COLUMNS * MLA_PAGE;
        b.lens[1] = 0;
        b.table[2 * MLA_COLUMNS] = 0;
        b.table[2 * MLA_COLUMNS + 1] = MLA_BLOCKS - 1;
        mla_run(ctx, &b, 0, MLA_B, &want);
        for (int i = 0; i < MLA_OUT; i++)
            ck_assert_msg(want.out[MLA_OUT + i] == 0, "%s: out of no keys", device);
        b.lens[0] = INT32_MAX;
        b.lens[1] = INT32_MIN;
        b.table[2 * MLA_COLUMNS] = -7;
        b.table[2 * MLA_COLUMNS + 1] = INT32_MAX;
        mla_run(ctx, &b, 0, MLA_B, &got);
        mla_equal(&want, 0, &got, MLA_B, device, "lengths and blocks past the tensors");
        b.indices = true;
        b.begin[0] = -100;
        b.begin[MLA_B] = INT32_MAX;
        mla_run(ctx, &b, 0, MLA_B, &got);
        mla_equal(&want, 0, &got, MLA_B, device, "kv_indptr past kv_indices");
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* ---- formats ----------------------------------------------------------------------------------------------------- */

enum { FORMAT_B = 2, FORMAT_HQ = 5, FORMAT_PAGE = 16, FORMAT_COLUMNS = 24, FORMAT_BLOCKS = FORMAT_B * FORMAT_COLUMNS };
enum { FORMAT_KEYS = FORMAT_PAGE * FORMAT_COLUMNS, FORMAT_OUT = FORMAT_B * FORMAT_HQ * 512 };
static const int32_t format_lens[FORMAT_B] = { 370, 37 },
                     format_ends[FORMAT_B + 1] = { 0, FORMAT_KEYS, 2 * FORMAT_KEYS };

struct format_memory {
    struct buffers m;
    rfg_tensor q, kv, rows, out, table, lens, ends;
};

static void format_decode(rfg_context *ctx, const struct format_memory *u, const rfg_tensor *kv, rfg_mla_format format,
                          uint16_t *out)
{
    struct buffers m = u->m;
    rfg_mla_params p = { .size = sizeof(p), .scale = 0.05f, .kv_lens = &u->lens, .format = format };
    p.block_table = format == RFG_MLA_PLAIN ? NULL : &u->table;
    ck_assert_msg(rfg_op_mla_decode(ctx, &u->out, &u->q, kv, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    get(&m, out, u->out.data, FORMAT_OUT * 2);
}

/* Where a row's bytes, and its scales', begin. */
static uint8_t *format_row(uint8_t *cache, rfg_mla_format format, int row)
{
    return cache + row / FORMAT_PAGE * FORMAT_PAGE * 592 * (format == RFG_MLA_V4) +
           (format == RFG_MLA_V4 ? row % FORMAT_PAGE * 576 : row * 656);
}
static uint8_t *format_scales(uint8_t *cache, rfg_mla_format format, int row)
{
    return format == RFG_MLA_V4
               ? cache + row / FORMAT_PAGE * FORMAT_PAGE * 592 + FORMAT_PAGE * 576 + row % FORMAT_PAGE * 8
               : format_row(cache, format, row) + 512;
}

/* Rows of either format as decode reads them, and as bf16 that gather made of them: the same bits. Rows past a length
 * are of NaN in the end. */
static void format_same_bits(rfg_context *ctx, rfg_mla_format format, const char *device)
{
    static _Alignas(16) uint8_t cache[FORMAT_BLOCKS * FORMAT_PAGE * 656];
    static uint16_t q[FORMAT_B * FORMAT_HQ * 576], plain[FORMAT_OUT], bytes[FORMAT_OUT], past[FORMAT_OUT];
    int32_t table[FORMAT_BLOCKS];
    bool v4 = format == RFG_MLA_V4;
    int d = v4 ? 512 : 576, groups = v4 ? 7 : 4, codes = d - 64;
    uint64_t seed = op_seed();
    for (int i = 0; i < FORMAT_B * FORMAT_HQ * d; i++)
        rfg_store(q, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-62);
    for (int r = 0; r < FORMAT_BLOCKS * FORMAT_PAGE; r++) {
        uint8_t *row = format_row(cache, format, r), *scales = format_scales(cache, format, r);
        for (int i = 0; i < codes; i++)
            row[i] = (uint8_t)(rfg_random(&seed) % 0x60 + rfg_random(&seed) % 2 * 0x80);
        for (int g = 0; g < groups; g++)
            rfg_store(scales, v4 ? RFG_E8M0 : RFG_F32, g, 0x1p-5 * (double)(1 << rfg_random(&seed) % 3));
        for (int i = 0; i < 64; i++)
            rfg_store(row + (v4 ? 448 : 528), RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    }
    for (int i = 0; i < FORMAT_BLOCKS; i++)
        table[i] = FORMAT_BLOCKS - 1 - i;
    struct format_memory u = { .m = { .hip = rfg_context_hip(ctx) } };
    int64_t kv_shape[] = { FORMAT_BLOCKS, FORMAT_PAGE, v4 ? 584 : 656 };
    static uint16_t rows[2 * FORMAT_KEYS * 576];
    u.kv = rfg_tensor_nd(put(&u.m, cache, sizeof(cache)), RFG_E4M3, 3, kv_shape);
    u.kv.strides[0] = FORMAT_PAGE * (v4 ? 592 : 656);
    u.q = rfg_tensor_nd(put(&u.m, q, sizeof(q)), RFG_BF16, 3, (const int64_t[]){ FORMAT_B, FORMAT_HQ, d });
    u.rows = rfg_tensor_2d(put(&u.m, rows, sizeof(rows)), RFG_BF16, 2 * FORMAT_KEYS, d, d);
    u.out = rfg_tensor_nd(put(&u.m, plain, sizeof(plain)), RFG_BF16, 3, (const int64_t[]){ FORMAT_B, FORMAT_HQ, 512 });
    u.table = rfg_tensor_2d(put(&u.m, table, sizeof(table)), RFG_I32, FORMAT_B, FORMAT_COLUMNS, FORMAT_COLUMNS);
    u.lens = rfg_tensor_1d(put(&u.m, format_lens, sizeof(format_lens)), RFG_I32, FORMAT_B);
    u.ends = rfg_tensor_1d(put(&u.m, format_ends, sizeof(format_ends)), RFG_I32, FORMAT_B + 1);
    rfg_mla_gather_params p = { .size = sizeof(p), .block_table = &u.table, .format = format };
    ck_assert_msg(rfg_op_mla_gather(ctx, &u.rows, &u.kv, &u.ends, &p, NULL) == RFG_OK, "%s", rfg_last_error());
    rfg_tensor as_cache = rfg_tensor_nd(u.rows.data, RFG_BF16, 3, (const int64_t[]){ FORMAT_B, FORMAT_KEYS, d });
    format_decode(ctx, &u, &as_cache, RFG_MLA_PLAIN, plain);
    format_decode(ctx, &u, &u.kv, format, bytes);
    ck_assert_msg(!memcmp(plain, bytes, sizeof(plain)), "%s: format %d: other bits than of its rows", device, format);
    free_buffers(&u.m);
    u.m.n = 0;
    for (int b = 0; b < FORMAT_B; b++)
        for (int key = format_lens[b]; key < FORMAT_KEYS; key++) {
            int r = table[b * FORMAT_COLUMNS + key / FORMAT_PAGE] * FORMAT_PAGE + key % FORMAT_PAGE;
            memset(format_row(cache, format, r), 0xff, v4 ? 576 : 656);
            memset(format_scales(cache, format, r), 0xff, v4 ? 8 : 16);
        }
    u.kv.data = put(&u.m, cache, sizeof(cache));
    u.q.data = put(&u.m, q, sizeof(q));
    u.out.data = put(&u.m, past, sizeof(past));
    u.table.data = put(&u.m, table, sizeof(table));
    u.lens.data = put(&u.m, format_lens, sizeof(format_lens));
    format_decode(ctx, &u, &u.kv, format, past);
    ck_assert_msg(!memcmp(past, bytes, sizeof(past)), "%s: format %d: NaN past the end is seen", device, format);
    free_buffers(&u.m);
}

START_TEST(formats)
{
    const char *device = op_device(_i);
    for (int way = 0; way < 2; way++) {
        /* Hopper's other variants have another order of sums: it may differ between a format and its rows. */
        if (!mla_ways[way] && strcmp(device, "cpu"))
            setenv("RFG_VARIANTS", "mla_decode_tile_mma,mla_decode_portable", 1);
        rfg_context *ctx = mla_context(device, way);
        format_same_bits(ctx, RFG_MLA_V32, device);
        format_same_bits(ctx, RFG_MLA_V4, device);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

/* A captured call reads lengths and tables when it is replayed. */
START_TEST(captured)
{
    static struct mla_batch b, c;
    static struct mla_result want, got;
    rfg_context *ctx = op_context(op_device(_i));
    const struct rfg_hip *hip = rfg_context_hip(ctx);
    if (hip) { /* the cpu has no graphs */
        struct mla_memory u;
        hipStream_t stream;
        hipGraph_t graph;
        hipGraphExec_t exec;
        mla_make(&b);
        mla_make(&c);
        c.lens[0] = 1;
        c.lens[1] = 400;
        c.lens[2] = 5;
        for (int i = 0; i < MLA_BLOCKS; i++)
            c.table[i] = i;
        mla_run(ctx, &c, 0, MLA_B, &want);
        mla_upload(ctx, &b, 0, MLA_B, &got, &u);
        mla_attend(ctx, &b, &u, NULL);
        ck_assert_int_eq(hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
        mla_attend(ctx, &b, &u, stream);
        ck_assert_int_eq(hip->hipStreamSynchronize(stream), hipSuccess);
        ck_assert_int_eq(hip->hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), hipSuccess);
        mla_attend(ctx, &b, &u, stream);
        ck_assert_int_eq(hip->hipStreamEndCapture(stream, &graph), hipSuccess);
        ck_assert_int_eq(hip->hipGraphInstantiate(&exec, graph, NULL, NULL, 0), hipSuccess);
        memset(&got, 0xff, sizeof(got));
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.out.data, got.out, sizeof(got.out)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.lens.data, c.lens, sizeof(c.lens)), hipSuccess);
        ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)u.table.data, c.table, sizeof(c.table)), hipSuccess);
        for (int replay = 0; replay < 2; replay++)
            ck_assert_int_eq(hip->hipGraphLaunch(exec, stream), hipSuccess);
        ck_assert_int_eq(hip->hipStreamSynchronize(stream), hipSuccess);
        get(&u.m, got.out, u.out.data, sizeof(got.out));
        get(&u.m, got.lse, u.lse.data, sizeof(got.lse));
        mla_equal(&want, 0, &got, MLA_B, op_device(_i), "replayed with other lengths");
        (void)hip->hipGraphExecDestroy(exec);
        (void)hip->hipGraphDestroy(graph);
        (void)hip->hipStreamDestroy(stream);
        free_buffers(&u.m);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(refusals)
{
    static const char *const bad[][2] = {
        { "Hq=129 D=576 S=16 Dv=512 page=16", "Hq" },
        { "Hq=16 D=576 S=16 Dv=512 page=48", "page=48" },
        { "Hq=16 D=576 S=16 Sq=9 Dv=512 page=16", "Sq" },
        { "Hq=16 D=576 S=16 Dv=448 page=16", "D - Dv" },
        { "Hq=16 D=576 S=16 page=16", "Dv must be" },
        { "Hq=16 D=160 S=16 Dv=96 page=16", "Dv must be" },
        { "Hq=16 D=512 S=16 Dv=512 page=16", "leave it out" },
        { "Hq=16 D=576 S=16 Dv=512 page=16 scale=1", "kv_scale" },
        { "Hq=16 D=576 S=16 Dv=512 causal=1 page=16", "causal" },
        { "Hq=16 D=512 S=16 page=16 q=apart", "q_rope" },
        { "Hq=16 D=576 S=16 Dv=512 table=indices", "page" },
        { "Hq=16 D=576 S=16 Dv=512 page=16 stype=bf16", "stype" },
        { "Hq=16 D=576 S=16 Dv=512 page=16 align=3", "power of two" },
        { "Hq=16 D=576 S=16 Dv=512 page=16 kv=i8", "kv" },
    };
    OP_PROBLEMS_REFUSED("mla_decode bf16->bf16 B=2 ", bad);
    op_problem_refused("mla_decode f32->f32 B=2 Hq=16 D=576 S=16 Dv=512", "bf16 or f16");
    op_problem_refused("mla_decode bf16->f16 B=2 Hq=16 D=576 S=16 Dv=512", "out");
    rfg_context *ctx = op_context("cpu");
    static uint16_t q[2 * 96], kv[8 * 96], y[2 * 64];
    int32_t index[2] = { 0 };
    rfg_tensor tq = rfg_tensor_nd(q, RFG_BF16, 3, (const int64_t[]){ 1, 2, 96 });
    rfg_tensor tk = rfg_tensor_nd(kv, RFG_BF16, 3, (const int64_t[]){ 1, 8, 96 });
    rfg_tensor to = rfg_tensor_nd(y, RFG_BF16, 3, (const int64_t[]){ 1, 2, 64 }), ti = rfg_tensor_1d(index, RFG_I32, 2);
    rfg_mla_params p = { .size = sizeof(p), .scale = 1 };
    op_refused(rfg_op_mla_decode(ctx, &to, &tq, &tk, NULL, NULL), "scale is 0: must be finite and given");
    p.kv_indptr = &ti;
    op_refused(rfg_op_mla_decode(ctx, &to, &tq, &tk, &p, NULL), "kv_indices is NULL");
    p.kv_indices = &ti;
    rfg_tensor tt = rfg_tensor_2d(index, RFG_I32, 1, 1, 1);
    p.block_table = &tt;
    op_refused(rfg_op_mla_decode(ctx, &to, &tq, &tk, &p, NULL), "beside block_table");
    p.kv_indptr = p.kv_indices = p.block_table = NULL;
    tq.shape[2] = 64;
    op_refused(rfg_op_mla_decode(ctx, &to, &tq, &tk, &p, NULL),
               "kv has 96 in dimension 2: must be q's elements, with those of q_rope, 64");
    rfg_context_destroy(&ctx);
}
END_TEST

/* Of mla_decode_wgmma, mla_decode_wgmma_few and mla_decode_wgmma_codes, which no emulated GPU has. */
START_TEST(clusters)
{
    const char *few = "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=8192 Dv=512 page=64";
    op_config_taken("sm_90", few, "mla_decode_wgmma{parts=8,clusters=16}", NULL);
    op_config_taken("sm_90", few, "mla_decode_wgmma{parts=16,clusters=8}", NULL);
    op_config_taken("sm_90", few, "mla_decode_wgmma{parts=16,clusters=16}", "must be 2 parts at least, of at most 128");
    op_config_taken("sm_90", few, "mla_decode_wgmma{parts=1,clusters=2}", "must be 2 parts at least, of at most 128");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=96 S=99 Dv=64", "mla_decode_wgmma{parts=1,clusters=1}",
                    "D=96");
    op_config_taken("sm_90", few, "mla_decode_wgmma_few{rows=16,parts=16,clusters=8}", NULL);
    op_config_taken("sm_90", few, "mla_decode_wgmma_few{rows=32,parts=16,clusters=16}",
                    "must be 2 parts at least, of at most 128");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=96 S=99 Dv=64",
                    "mla_decode_wgmma_few{rows=16,parts=1,clusters=1}", "D=96");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=512 S=99 Dv=448 page=64 kv=e4m3 format=v4",
                    "mla_decode_wgmma_few{rows=32,parts=2,clusters=1}", NULL);
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=512 S=99 Dv=448 page=64 kv=e4m3 format=v4",
                    "mla_decode_wgmma{parts=2,clusters=1}", "kv=e4m3");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=512 S=99 page=64 kv=e4m3 format=v4",
                    "mla_decode_wgmma_codes{rows=16,teams=2,parts=2,clusters=1}", "must be e4m3, plain");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=99 Dv=512 page=64 kv=e5m2",
                    "mla_decode_wgmma_codes{rows=16,teams=2,parts=2,clusters=1}", "kv=e5m2");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=192 S=99 Dv=128 page=64 kv=e4m3",
                    "mla_decode_wgmma_codes{rows=16,teams=2,parts=2,clusters=1}", "Dv=128: must be 256 or 512");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=32 D=576 S=99 Dv=512 page=64 kv=e4m3",
                    "mla_decode_wgmma_codes{rows=32,teams=3,parts=2,clusters=1}", "rows=32 teams=3");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=99 Dv=512 page=64 kv=e4m3 format=v32",
                    "mla_decode_wgmma_codes{rows=16,teams=3,parts=16,clusters=8}", "format=v32: must be e4m3, plain");
    op_config_taken("sm_90", "mla_decode bf16->bf16 B=1 Hq=16 D=576 S=99 Dv=512 page=64 kv=e4m3",
                    "mla_decode_wgmma_codes{rows=16,teams=3,parts=16,clusters=8}", NULL);
}
END_TEST

int main(void)
{
    return op_main("mla_rules", OP_TESTS(same_bits, past_the_tensors, formats, captured), OP_TESTS(refusals, clusters));
}
