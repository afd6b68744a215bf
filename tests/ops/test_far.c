/* SPDX-License-Identifier: MIT
 *
 * Tensors beyond 2^31 and 2^32 bytes and elements, one after the other of every operator, on the devices of
 * $RFG_TEST_DEVICES: a case of the harness runs with one of its tensors far apart in memory that only costs the pages
 * that are touched (on cpu and the emulator), and what comes out is taken back to where the harness expects it. With
 * $RFG_TEST_FEW by the public function, else by every variant. Of a device without so much memory a line that begins
 * with "SKIPPED:" says so. */
#include <inttypes.h>

#include "rfg/rfg.h"
#include "tests/op_cases.h"

/* Elements from a row to the next; multiples of 16 bytes, and of no larger power of two, so that an offset that wraps
 * ends where nothing is. */
#define FEW_BITS "1073741888" /* of 32 rows of 4-bit elements: 2^34 bytes */
#define A_FEW    "150000064"  /* of 32 rows: 2^32 */
#define MANY     "4194368"    /* of 2048 rows: tiles of 128 span less than 2 GiB */

struct far {
    const char *problem;
    const char *changed; /* "ldx=..., V=...": keys that become others */
    const char *tensor;  /* that is far apart */
    int64_t ld;          /* elements from one of its rows to the next, where no key says it; */
    int rows;            /* of so many rows at a time that follow one another; 0: one */
    /* Where it gets more rows: those that it had become the last ones. */
    const char *index; /* the tensor that numbers them, */
    int64_t first;     /* from here on */
};

/* ---- one tensor ------------------------------------------------------------------------------------------------- */

/* Bytes of a row, and where row r is; of a tensor of one dimension an element is one. */
struct layout {
    int64_t rows;
    size_t row, stride, group_stride;
    int group;
};

static struct layout layout_of(const struct rfg_tensor_spec *s)
{
    int d = (int)s->dtype;
    int64_t inner = s->ndim == 3 ? s->shape[1] : 1;
    if (s->ndim == 1)
        return (struct layout){ s->shape[0], (size_t)rfg_format_bytes(d, 1), (size_t)rfg_format_bytes(d, 1), 0, 1 };
    if (s->column_major)
        return (struct layout){ s->shape[1], (size_t)rfg_format_bytes(d, s->shape[0]),
                                (size_t)rfg_format_bytes(d, s->shape[0]), 0, 1 };
    return (struct layout){ s->shape[0], (size_t)rfg_format_bytes(d, inner * s->shape[s->ndim - 1]),
                            (size_t)rfg_format_bytes(d, s->row_stride), 0, 1 };
}

static size_t place(const struct layout *l, int64_t r)
{
    return l->group == 1 ? (size_t)r * l->stride
                         : (size_t)(r / l->group) * l->group_stride + (size_t)(r % l->group) * l->stride;
}

static size_t extent(const struct layout *l)
{
    return l->rows ? place(l, l->rows - 1) + l->row : 0;
}

/* Copies rows between two layouts on the device; `shift` more rows stand before the second's. */
static void move(rfg_context *ctx, const struct layout *near, char *at, const struct layout *far, char *there,
                 int64_t shift, bool back)
{
    for (int64_t r = 0; r < near->rows; r++) {
        char *a = at + place(near, r), *b = there + place(far, r + shift);
        ck_assert(rfg_device_copy(ctx, back ? a : b, back ? b : a, near->row, RFG_DEVICE_TO_DEVICE, NULL) == RFG_OK);
    }
}

static void to_host(rfg_context *ctx, void *to, const void *from, size_t bytes)
{
    ck_assert(rfg_device_copy(ctx, to, from, bytes, RFG_DEVICE_TO_HOST, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
}

static void to_device(rfg_context *ctx, void *to, const void *from, size_t bytes)
{
    ck_assert(rfg_device_copy(ctx, to, from, bytes, RFG_HOST_TO_DEVICE, NULL) == RFG_OK);
    ck_assert(rfg_stream_sync(ctx, NULL) == RFG_OK);
}

/* Numbers of rows, of which there are `rows` from `first` on, become those of rows further on. */
static void shift_numbers(rfg_context *ctx, rfg_tensor *t, int64_t first, int64_t rows, int64_t shift)
{
    int64_t n = t->shape[0] * (t->ndim > 1 ? t->strides[0] : 1);
    size_t size = t->dtype == RFG_I64 ? 8 : 4, bytes = (size_t)n * size;
    char *host = malloc(bytes);
    ck_assert_ptr_nonnull(host);
    to_host(ctx, host, t->data, bytes);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = size == 8 ? ((int64_t *)(void *)host)[i] : ((int32_t *)(void *)host)[i];
        v += v >= first && v - first <= rows ? shift : 0;
        if (size == 8)
            ((int64_t *)(void *)host)[i] = v;
        else
            ((int32_t *)(void *)host)[i] = (int32_t)v;
    }
    to_device(ctx, t->data, host, bytes);
    free(host);
}

/* Offsets of so many experts more, which come first and have no rows. */
static void empty_experts(rfg_context *ctx, char *there, int64_t shift, int64_t experts)
{
    int32_t *host = malloc((size_t)(shift + experts + 1) * sizeof(*host));
    ck_assert_ptr_nonnull(host);
    to_host(ctx, host + shift, there + (size_t)shift * sizeof(*host), (size_t)(experts + 1) * sizeof(*host));
    for (int64_t e = 0; e < shift; e++)
        host[e] = host[shift];
    to_device(ctx, there, host, (size_t)(shift + experts + 1) * sizeof(*host));
    free(host);
}

/* ---- a case ----------------------------------------------------------------------------------------------------- */

struct run {
    rfg_context *ctx;
    const struct far *of;
    const struct rfg_op_case *op;
    struct rfg_problem near, far;
    struct rfg_case *c;
    int n;
    struct rfg_tensor_spec was[RFG_MAX_TENSORS], spec[RFG_MAX_TENSORS];
    struct layout from[RFG_MAX_TENSORS], to[RFG_MAX_TENSORS];
    int64_t shift[RFG_MAX_TENSORS];
    rfg_tensor t[RFG_MAX_TENSORS];
    char where[600];
};

static void change(struct rfg_problem *prob, const char *text)
{
    char list[200];
    snprintf(list, sizeof(list), "%s", text);
    for (char *save = NULL, *word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        ck_assert_ptr_nonnull(value);
        *value = 0;
        int key = rfg_op_key(prob->op, word);
        ck_assert_msg(key >= 0, "%s is no key", word);
        prob->v[key] = strtoll(value + 1, NULL, 10);
    }
}

static void describe(struct run *r)
{
    int found = -1;
    r->near = op_problem(r->of->problem);
    r->far = r->near;
    change(&r->far, r->of->changed);
    r->op = rfg_op_case_of(r->near.op);
    r->n = r->op->tensors(&r->near, r->was);
    r->op->tensors(&r->far, r->spec);
    for (int i = 0; i < r->n; i++) {
        r->was[i].absent |= r->was[i].on_request;
        if (r->was[i].absent)
            continue;
        if (!strcmp(r->was[i].name, r->of->tensor)) {
            found = i;
            if (r->of->ld)
                r->spec[i].row_stride = r->of->ld;
        }
        r->from[i] = layout_of(&r->was[i]);
        r->to[i] = layout_of(&r->spec[i]);
        if (found == i && r->of->rows) {
            r->to[i].group = r->of->rows;
            r->to[i].group_stride = r->to[i].stride * (size_t)r->of->rows;
            r->to[i].stride = r->from[i].stride;
        }
        r->shift[i] = r->to[i].rows - r->from[i].rows;
        ck_assert_msg(r->shift[i] >= 0 && r->to[i].row == r->from[i].row, "%s: %s", r->where, r->was[i].name);
    }
    for (int i = 0; i < r->n; i++)
        if (!r->was[i].absent && r->was[i].same_as)
            r->to[i] = r->to[r->was[i].same_as - 1];
    ck_assert_msg(found >= 0, "%s: no tensor %s", r->where, r->of->tensor);
    ck_assert_msg(extent(&r->to[found]) > (size_t)1 << 32, "%s: %zu bytes: not far", r->where, extent(&r->to[found]));
}

/* False: the device has not the memory. */
static bool lay_out(struct run *r)
{
    const rfg_tensor *was = rfg_case_tensors(r->c, 0);
    for (int i = 0; i < r->n; i++) {
        void *p;
        const struct rfg_tensor_spec *s = &r->spec[i];
        r->t[i] = (rfg_tensor){ 0 };
        if (r->was[i].absent || s->same_as)
            continue;
        rfg_status st = rfg_device_alloc(r->ctx, &p, extent(&r->to[i]) + 16);
        if (st == RFG_ERROR_OUT_OF_MEMORY)
            return false;
        ck_assert_msg(st == RFG_OK, "%s: %s", r->where, rfg_last_error());
        r->t[i] = was[i];
        r->t[i].data = p;
        memcpy(r->t[i].shape, s->shape, sizeof(s->shape));
        if (s->ndim > 1 && !s->column_major)
            r->t[i].strides[0] = s->row_stride;
        move(r->ctx, &r->from[i], was[i].data, &r->to[i], p, r->shift[i], false);
        if (r->shift[i] && !strcmp(s->name, "offsets"))
            empty_experts(r->ctx, p, r->shift[i], r->from[i].rows - 1);
    }
    for (int i = 0; i < r->n; i++)
        if (!r->was[i].absent && r->spec[i].same_as)
            r->t[i] = r->t[r->spec[i].same_as - 1];
    for (int i = 0; i < r->n; i++)
        for (int k = 0; r->of->index && k < r->n; k++)
            if (!r->was[i].absent && !r->was[k].absent && !strcmp(r->was[i].name, r->of->index) &&
                !strcmp(r->was[k].name, r->of->tensor))
                shift_numbers(r->ctx, &r->t[i], r->of->first, r->from[k].rows, r->shift[k]);
    return true;
}

static void let_go(struct run *r)
{
    for (int i = 0; i < r->n; i++)
        if (!r->was[i].absent && !r->spec[i].same_as)
            ck_assert(rfg_device_free(r->ctx, r->t[i].data) == RFG_OK);
}

/* Poison in, run, results back to where the harness looks for them. */
static void run_once(void *run, const struct rfg_plan *plan, const char *how)
{
    struct run *r = run;
    struct rfg_check check;
    const rfg_tensor *was = rfg_case_tensors(r->c, 0);
    ck_assert(rfg_case_poison(r->c, 0) == RFG_OK);
    for (int i = 0; i < r->n; i++)
        if (!r->was[i].absent && (r->was[i].output || r->was[i].same_as))
            move(r->ctx, &r->from[i], was[i].data, &r->to[i], r->t[i].data, r->shift[i], false);
    rfg_status st;
    if (plan) {
        void *args = calloc(1, r->far.op->kargs_size);
        ck_assert_ptr_nonnull(args);
        r->op->pack(&r->far, r->t, args);
        st = rfg_plan_launch(r->ctx, plan, args, NULL);
        free(args);
    } else
        st = r->op->call(r->ctx, &r->far, r->t, NULL);
    if (st == RFG_OK)
        st = rfg_stream_sync(r->ctx, NULL);
    if (getenv("RFG_TEST_FAR_ALL") && st != RFG_OK) {
        printf("  WRONG %s %s\n", how, rfg_last_error());
        return;
    }
    ck_assert_msg(st == RFG_OK, "%s: %s: %s", r->where, how, rfg_last_error());
    for (int i = 0; i < r->n; i++)
        if (!r->was[i].absent && r->was[i].output)
            move(r->ctx, &r->from[i], was[i].data, &r->to[i], r->t[i].data, r->shift[i], true);
    ck_assert(rfg_case_check(r->c, 0, &check) == RFG_OK);
    if (getenv("RFG_TEST_FAR_ALL")) {
        printf("  %s %s %s\n", check.wrong ? "WRONG" : "right", how, check.wrong ? check.message : "");
        return;
    }
    ck_assert_msg(!check.wrong, "%s: %s: %s", r->where, how, check.message);
}

static void far_run(const char *device, const struct far *of, int n)
{
    rfg_context *ctx = op_context(device);
    const char *only = getenv("RFG_TEST_PROBLEM");
    int right = 0, skipped = 0, runs = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int k = 0; k < n; k++) {
        struct run r = { .ctx = ctx, .of = &of[k] };
        struct rfg_case_params params = { .seed = op_seed(), .data = RFG_DATA_RANDOM };
        struct rfg_reason why;
        snprintf(r.where, sizeof(r.where), "%s: %s with %s of %s", device, of[k].problem, of[k].changed, of[k].tensor);
        if (only && !strstr(r.where, only))
            continue;
        describe(&r);
        ck_assert_msg(r.far.op->valid(&r.far, &why), "%s: %s", r.where, why.text);
        ck_assert_msg(rfg_case_create(ctx, &r.near, &params, &r.c) == RFG_OK, "%s: %s", r.where, rfg_last_error());
        if (getenv("RFG_TEST_FAR_ALL"))
            printf("%s\n", r.where);
        if (lay_out(&r)) {
            run_once(&r, NULL, "the public function");
            runs += getenv("RFG_TEST_FEW") ? 1 : 1 + op_each_plan(ctx, &r.far, 2, run_once, &r);
            right++;
        } else {
            printf("SKIPPED: %s: no memory\n", r.where);
            skipped++;
        }
        let_go(&r);
        rfg_case_destroy(&r.c);
    }
    printf("%s: %d far tensors, %d runs right, %d skipped\n", device, right, runs, skipped);
    rfg_context_destroy(&ctx);
}

#define FAR(name, table)                                                                                               \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        far_run(op_device(_i), table, (int)(sizeof(table) / sizeof(table[0])));                                        \
    }                                                                                                                  \
    END_TEST

/* ---- the tables ------------------------------------------------------------------------------------------------- */

#define BLOCKS " x_scale=f32 w_scale=f32 x_per=block w_per=block"
#define ROWS   " x_scale=f32 w_scale=f32 x_per=row w_per=row"
#define MX     " x_scale=e8m0 w_scale=e8m0 x_per=group w_per=group"
#define I4     " w_scale=f16 w_group=32"

/* One of each kind, for `./dev test`. */
static const struct far few[] = {
    { "embedding i64,bf16->bf16 M=32 N=256 V=24", "V=20000000", "table", .index = "ids", .first = 1000 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16", "", "k", 67108928 },
    { "gemm bf16,bf16->bf16 M=256 N=32 K=512 experts=4 top=2", "x_rows=8000000", "x", .index = "rows" },
};
FAR(far_few, few)

static const struct far norms[] = {
    { "rmsnorm bf16->bf16 M=32 N=512", "ldx=" A_FEW, "x" },
    { "rmsnorm bf16->bf16 M=32 N=512", "ldy=" A_FEW, "y" },
    { "add_rmsnorm f16->f16 M=32 N=512", "ldr=" A_FEW, "residual" },
    { "add_rmsnorm f16->f16 M=32 N=512", "ldr=" A_FEW, "residual_out" },
    { "layernorm f32->f32 M=16 N=130 bias=1", "ldx=" A_FEW, "x" },
    { "rmsnorm bf16->e4m3 M=32 N=512 scale=group", "ldx=" A_FEW, "x" },
    { "rmsnorm bf16->e4m3 M=32 N=512 scale=group", "ldy=" A_FEW, "q" },
    { "act bf16->bf16 M=32 N=512", "ldx=" A_FEW, "x" },
    { "act bf16->bf16 M=32 N=512", "ldy=" A_FEW, "y" },
    { "act f16->e4m3 M=32 N=512 scale=token", "ldx=" A_FEW, "x" },
    { "act f16->e4m3 M=32 N=512 scale=token", "ldy=" A_FEW, "q" },
};
FAR(far_norms, norms)

static const struct far codes[] = {
    { "quantize bf16->e4m3,f32 M=32 N=512 group_rows=1", "ldx=" A_FEW, "x" },
    { "quantize bf16->e4m3,f32 M=32 N=512 group_rows=1", "ldq=" A_FEW, "q" },
    { "quantize bf16->e2m1,e8m0 M=32 N=512 group_rows=1 group_cols=32 rounding=even", "ldx=" A_FEW, "x" },
    { "quantize bf16->e2m1,e8m0 M=32 N=512 group_rows=1 group_cols=32 rounding=even", "ldq=" FEW_BITS, "q" },
    { "quantize f32->e4m3,f32 M=32 N=500", "ldx=" A_FEW, "x" },
    { "quantize_scale bf16->f32 M=32 N=500 codes=e4m3", "ldx=" A_FEW, "x" },
    { "dequantize e4m3,f32->bf16 M=32 N=512 group_rows=1", "ldq=" A_FEW, "q" },
    { "dequantize e4m3,f32->bf16 M=32 N=512 group_rows=1", "ldy=" A_FEW, "y" },
    { "dequantize i4,f32->bf16 M=32 N=512 group_rows=1 group_cols=32", "ldq=" FEW_BITS, "q" },
};
FAR(far_codes, codes)

static const struct far tokens[] = {
    { "embedding i32,bf16->bf16 M=32 N=256 V=24", "ldt=" A_FEW, "table" },
    { "embedding i64,bf16->bf16 M=32 N=256 V=24", "V=20000000", "table", .index = "ids", .first = 1000 },
    { "embedding i32,f16->f32 M=32 N=129 V=24", "V=40000000", "table", .index = "ids", .first = 1000 },
    { "embedding i64,f16->f16 M=32 N=250 V=24", "ldy=" A_FEW, "y" },
    { "advance i32->i64 B=32 Sq=2 blocks=6 page=4 slots=1", "ldb=" A_FEW, "block_table" },
    { "argmax bf16->i32 M=32 V=600", "ldx=" A_FEW, "x" },
    { "sample bf16->i32 B=32 V=600 temperature=1 top_p=1", "ldx=" A_FEW, "logits" },
    { "moe_route bf16->f32 T=32 E=64 top=4", "ldx=" A_FEW, "x" },
    { "moe_route bf16->f32 T=32 E=64 top=4", "ldi=" A_FEW, "ids" },
    { "moe_route bf16->f32 T=32 E=64 top=4", "ldw=" A_FEW, "weights" },
    { "moe_align i32->i32 T=32 top=4 E=8", "ldi=" A_FEW, "ids" },
    { "moe_align i32->i32 T=32 top=4 E=8 places=1", "ldp=" A_FEW, "places" },
    { "moe_align i32->i32 T=32 top=4 E=8 weights=1", "ldw=" A_FEW, "weights" },
    { "moe_sum bf16->bf16 T=8 N=256 top=4 weights=1", "ldx=" A_FEW, "x" },
    { "moe_sum bf16->bf16 T=8 N=256 top=4 weights=1", "R=20000000", "x", .index = "places" },
    { "moe_sum bf16->bf16 T=32 N=256 top=4", "ldy=" A_FEW, "y" },
    { "moe_sum bf16->bf16 T=32 N=256 top=4 residual=1", "ldr=" A_FEW, "residual" },
    { "moe_sum bf16->bf16 T=32 N=256 top=4", "ldp=" A_FEW, "places" },
    { "moe_sum bf16->bf16 T=32 N=256 top=4 weights=1", "ldw=" A_FEW, "weights" },
};
FAR(far_tokens, tokens)

static const struct far heads[] = {
    { "rope bf16,i64->bf16 T=32 D=64 Hq=4 Hkv=2", "", "q", 268435520 },
    { "rope bf16,i64->bf16 T=32 D=64 Hq=4 Hkv=2", "", "k_out", 268435520 },
    { "rope bf16,i64->bf16 T=32 D=64 Hq=4 Hkv=2", "", "cos_sin", 134217792 },
    { "rope bf16,i64->bf16 T=32 D=64 Hq=4 Hkv=2 qkv=fused inplace=1", "", "qkv", 268435520 },
    { "kv_append bf16->bf16 T=24 D=64 Hkv=2 page=4", "", "k_cache", 268435520 },
    { "kv_append bf16->bf16 T=24 D=64 Hkv=2 page=4", "", "v_cache", 268435520 },
    { "kv_append bf16->e4m3 T=24 D=64 Hkv=2 page=4 form=hnd", "", "k_cache", 134217856 },
    { "kv_append bf16->bf16 T=24 D=64 Hkv=2 page=4", "", "k", 268435520 },
    { "rope_append bf16,i64->bf16 T=24 D=128 Hq=4 Hkv=2 page=4 norm=w", "", "k_cache", 268435520 },
    { "rope_append bf16,i64->bf16 T=24 D=128 Hq=4 Hkv=2 page=4 norm=w", "", "v_cache", 268435520 },
    { "rope_append bf16,i64->bf16 T=24 D=128 Hq=4 Hkv=2 page=4 norm=w", "", "q_out", 268435520 },
    { "mla_append bf16->bf16 T=24 D=96 R=32 Hq=4 page=4 norm=latent rope=gptj", "", "kv", 268435520 },
    { "mla_append bf16->e4m3 T=24 D=576 R=64 Hq=4 page=4 format=v32 rope=gptj", "", "kv", 268435520 },
    { "mla_append bf16->e4m3 T=24 D=512 R=64 Hq=4 page=4 format=v4 rope=gptj", "", "kv", 1073742336 },
    { "mla_append bf16->bf16 T=24 D=96 R=32 Hq=4 page=4 norm=latent rope=gptj", "", "latent", 268435520 },
    { "mla_append bf16->bf16 T=24 D=96 R=32 Hq=4 page=4 norm=latent rope=gptj", "", "q_out", 268435520 },
    { "mla_decode bf16->bf16 B=2 Hq=4 D=96 S=50 Dv=64 page=16", "", "kv", 67108928 },
    { "mla_decode bf16->bf16 B=2 Hq=4 D=576 S=50 Dv=512 page=16 kv=e4m3 format=v32", "", "kv", 67108928 },
    { "mla_decode bf16->bf16 B=2 Hq=4 D=512 S=50 page=16 kv=e4m3 format=v4", "", "kv", 1073742336 },
    { "mla_gather bf16->bf16 N=50 D=96 B=2 page=16", "", "kv", 67108928 },
    { "mla_gather bf16->bf16 N=50 D=96 B=2 page=16", "", "rows", 67108928 },
    { "mla_gather e4m3->bf16 N=50 D=512 B=2 page=16 format=v4", "", "kv", 2147484672 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16", "", "k", 67108928 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16", "", "v", 67108928 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 form=hnd", "", "k", 67108928, .rows = 16 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 form=hnd", "", "v", 67108928, .rows = 16 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 form=vllm", "", "k", 67108928, .rows = 16 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 form=vllm", "", "v", 67108928, .rows = 16 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=50 page=16 kv=e4m3 scales=tensor", "", "k", 67108928 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64", "", "k", 67108928 },
    { "mha_decode bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64", "", "v", 67108928 },
    { "mha_decode bf16->bf16 B=32 Hq=4 Hkv=2 D=64 S=16", "", "q", 268435520 },
    { "mha_decode bf16->bf16 B=32 Hq=4 Hkv=2 D=64 S=16", "", "out", 268435520 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=64 causal=1", "", "q", 67108928 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=64 causal=1", "", "out", 67108928 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=64 causal=1", "", "k", 67108928 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=64 Sq=64 causal=1", "", "v", 67108928 },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=1024 Sq=16", "", "k", 4194368 },
    { "mha bf16->bf16 B=1 Hq=2 Hkv=1 D=64 S=1024 Sq=16", "", "v", 4194368 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=60 Sq=9 causal=1 page=16", "", "k", 67108928 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=60 Sq=9 causal=1 page=16", "", "v", 67108928 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=60 Sq=9 causal=1 page=16 form=hnd", "", "k", 67108928, .rows = 16 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=128 S=60 Sq=9 causal=1 page=16 form=hnd", "", "v", 67108928, .rows = 16 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1", "", "q", 134217792 },
    { "mha bf16->bf16 B=2 Hq=4 Hkv=2 D=64 S=60 Sq=20 varlen=1", "", "k", 67108928 },
    { "merge_states bf16->bf16 T=16 H=2 D=64 n=2", "", "o", 67108928 },
    { "merge_states bf16->bf16 T=16 H=2 D=64 n=2", "", "out", 268435520 },
    { "merge_states bf16->bf16 T=16 H=2 D=64 n=2", "", "lse", 33554496 },
    { "merge_states bf16->bf16 T=16 H=2 D=64 n=2 lse=1", "", "lse_out", 67108928 },
};
FAR(far_heads, heads)

static const struct far adapters[] = {
    { "lora bf16->bf16 M=16 N=64 K=64 rank=8 adapters=2", "", "x", 268435520 },
    { "lora bf16->bf16 M=16 N=64 K=64 rank=8 adapters=2", "", "a", 268435520 },
    { "lora bf16->bf16 M=16 N=64 K=64 rank=8 adapters=2", "", "b", 33554440 },
    { "lora bf16->bf16 M=16 N=64 K=64 rank=8 adapters=2", "", "y_in", 268435520 },
};
FAR(far_adapters, adapters)

static const struct far products[] = {
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64", "ldx=" A_FEW, "x" },
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64", "ldw=" A_FEW, "w" },
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64", "ldy=" A_FEW, "y" },
    { "gemm bf16,bf16->bf16 M=32 N=32 K=64 residual=1", "ldr=" A_FEW, "residual" },
    { "gemm bf16,bf16->bf16 M=2048 N=16 K=64", "ldx=" MANY, "x" },
    { "gemm bf16,bf16->bf16 M=16 N=2048 K=64", "ldw=" MANY, "w" },
    { "gemm bf16,bf16->bf16 M=2048 N=16 K=64", "ldy=" MANY, "y" },
    { "gemm bf16,bf16->bf16 M=16 N=2048 K=64 act=silu", "ldw=" MANY, "w" },
    { "gemm bf16,bf16->bf16 M=16 N=128 K=64 batch=16", "ldw=" MANY, "w" },
    { "gemm bf16,bf16->bf16 M=2048 N=16 K=64 batch=2", "ldx=" MANY, "x" },
    { "gemm bf16,bf16->bf16 M=2048 N=16 K=64 batch=2", "ldy=" MANY, "y" },
    { "gemm f32,f32->f32 M=32 N=32 K=64", "ldx=" A_FEW, "x" },
    { "gemm e4m3,e4m3->bf16 M=2048 N=16 K=128" BLOCKS, "ldx=" MANY, "x" },
    { "gemm e4m3,e4m3->bf16 M=16 N=2048 K=128" BLOCKS, "ldw=" MANY, "w" },
    { "gemm e4m3,e4m3->bf16 M=32 N=32 K=128" ROWS, "ldx=" A_FEW, "x" },
    { "gemm e4m3,e4m3->bf16 M=2048 N=128 K=128" BLOCKS, "", "x_scale", 2097216 },
    { "gemm e4m3,e4m3->bf16 M=16 N=2048 K=128" BLOCKS, "", "w_scale", 134217792 },
    { "gemm e2m1,e2m1->bf16 M=2048 N=16 K=256" MX, "ldx=8388736", "x" },
    { "gemm bf16,i4->bf16 M=2048 N=16 K=256" I4, "ldx=" MANY, "x" },
    { "gemm bf16,i4->bf16 M=16 N=2048 K=256" I4, "ldw=8388736", "w" },
    { "gemm_prepack bf16->bf16 N=32 K=64", "ld=" A_FEW, "src" },
};
FAR(far_products, products)

static const struct far experts[] = {
    { "gemm bf16,bf16->bf16 M=24 N=32 K=64 experts=4 top=2", "ldx=400000064", "x" },
    { "gemm bf16,bf16->bf16 M=24 N=32 K=512 experts=4 top=2", "x_rows=8000000", "x", .index = "rows" },
    { "gemm bf16,bf16->bf16 M=24 N=32 K=512 experts=4 top=2", "x_rows=4300000", "x", .index = "rows" },
    { "gemm bf16,bf16->bf16 M=256 N=32 K=512 experts=4 top=2", "x_rows=8000000", "x", .index = "rows" },
    { "gemm f16,f16->f32 M=256 N=32 K=520 experts=4 top=2", "x_rows=8000000", "x", .index = "rows" },
    { "gemm e4m3,e4m3->bf16 M=256 N=128 K=512 experts=4 top=2" BLOCKS, "x_rows=16000000", "x", .index = "rows" },
    { "gemm bf16,i4->bf16 M=256 N=32 K=512 experts=4 top=2" I4, "x_rows=8000000", "x", .index = "rows" },
    { "gemm e4m3,e4m3->bf16 M=256 N=64 K=480 experts=4 top=2" MX, "x_rows=16000000", "x", .index = "rows" },
    { "gemm e2m1,e2m1->bf16 M=256 N=64 K=512 experts=4 top=2" MX, "x_rows=32000000", "x", .index = "rows" },
    { "gemm e4m3,e4m3->bf16 M=24 N=128 K=512 experts=4 top=2" BLOCKS, "x_rows=16000000", "x", .index = "rows" },
    { "gemm e4m3,e4m3->bf16 M=24 N=128 K=512 experts=4 top=2" BLOCKS, "", "x_scale", 134217792 * 3 },
    { "gemm bf16,i4->bf16 M=24 N=32 K=512 experts=4 top=2" I4, "x_rows=8000000", "x", .index = "rows" },
    { "gemm bf16,e2m1->bf16 M=24 N=32 K=512 experts=4 top=2 w_scale=e8m0 w_group=32 packed=1", "x_rows=8000000", "x",
      .index = "rows" },
    { "gemm e4m3,e2m1->bf16 M=24 N=32 K=512 experts=4 top=2 packed=1" MX, "x_rows=16000000", "x", .index = "rows" },
    { "gemm e4m3,e2m1->bf16 M=24 N=32 K=512 experts=4 top=2" MX, "x_rows=16000000", "x", .index = "rows" },
    { "gemm e2m1,e2m1->bf16 M=24 N=32 K=512 experts=4 top=2" MX, "x_rows=32000000", "x", .index = "rows" },
    { "gemm bf16,bf16->bf16 M=256 N=32 K=64 experts=4", "ldx=33554496", "x" },
    { "gemm bf16,bf16->bf16 M=256 N=32 K=64 experts=4", "ldy=33554496", "y" },
    { "gemm bf16,bf16->bf16 M=8 N=256 K=1152 experts=4", "experts=16000", "w" },
    { "gemm bf16,bf16->bf16 M=40 N=256 K=1152 experts=4 packed=1", "experts=16000", "w" },
    { "gemm bf16,bf16->bf16 M=40 N=256 K=1152 experts=4 act=silu", "experts=16000", "w" },
    { "gemm e4m3,e4m3->bf16 M=40 N=256 K=1152 experts=4" BLOCKS, "experts=16000", "w" },
    { "gemm bf16,i4->bf16 M=8 N=256 K=1152 experts=4" I4, "experts=32000", "w" },
    { "gemm bf16,e2m1->bf16 M=40 N=256 K=1152 experts=4 w_scale=e8m0 w_group=32 packed=1", "experts=32000", "w" },
    { "gemm e4m3,e2m1->bf16 M=8 N=256 K=1152 experts=4 packed=1" MX, "experts=32000", "w" },
    { "gemm e4m3,e2m1->bf16 M=40 N=256 K=1152 experts=4" MX, "experts=32000", "w" },
};
FAR(far_experts, experts)

/* What kernels can't count is refused. */
static rfg_status scaled(rfg_context *ctx, int64_t x_apart, int64_t w_apart)
{
    static char memory[8192 + 4096 + 65536 + 2048]; /* y first: nothing that is far reaches it */
    rfg_tensor y = rfg_tensor_2d(memory, RFG_BF16, 16, 256, 256);
    rfg_tensor x = rfg_tensor_2d(memory + 8192, RFG_E4M3, 16, 256, 256);
    rfg_tensor w = rfg_tensor_2d(memory + 12288, RFG_E4M3, 256, 256, 256);
    rfg_tensor x_scale = rfg_tensor_2d(memory + 77824, RFG_E8M0, 16, 8, x_apart);
    rfg_tensor w_scale = rfg_tensor_2d(memory + 77824, RFG_E8M0, 256, 8, w_apart);
    rfg_gemm_params p = { .size = sizeof(p),
                          .x_scale = &x_scale,
                          .w_scale = &w_scale,
                          .x_per = RFG_GEMM_SCALE_GROUP,
                          .w_per = RFG_GEMM_SCALE_GROUP };
    return rfg_op_gemm(ctx, &y, &x, &w, &p, NULL);
}
START_TEST(refused)
{
    rfg_context *ctx = op_context("cpu");
    op_refused(scaled(ctx, 1 << 28, 8), "x_scale has 16 rows, 268435456 apart");
    op_refused(scaled(ctx, 8, 1 << 24), "w_scale has 256 rows, 16777216 apart");
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    return op_main(
        "far", OP_TESTS(far_few, far_norms, far_codes, far_tokens, far_heads, far_adapters, far_products, far_experts),
        OP_TESTS(refused));
}
