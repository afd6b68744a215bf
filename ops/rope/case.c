/* SPDX-License-Identifier: MIT
 *
 * rope, kv_append and rope_append as the harness has them. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "ops/oracle.h"
#include "rope_case.h"

#define GAP 16 /* elements between heads, and between rows, with qkv=gaps and form=gaps: keeps every alignment */

/* ---- geometry ---------------------------------------------------------------------------------------------------- */

static bool is_fused(const struct rfg_problem *prob)
{
    return prob->v[ROPE_QKV] == ROPE_QKV_FUSED;
}
static int64_t head_stride(const struct rfg_problem *prob, int64_t d)
{
    return d + (prob->v[ROPE_QKV] == ROPE_QKV_GAPS ? GAP : 0);
}
static int64_t fused_columns(const struct rfg_problem *prob)
{
    const int64_t *v = prob->v;
    return (v[ROPE_HQ] + v[ROPE_HKV]) * v[ROPE_D] + v[ROPE_HKV] * rope_dv(prob);
}
static int64_t table_rows(const struct rfg_problem *prob)
{
    int64_t t = prob->v[ROPE_T];
    return t < 48 ? 48 : t > 8192 ? 8192 : t;
}
/* Of the caches: a quarter more rows than tokens. */
static int64_t blocks_of(const struct rfg_problem *prob)
{
    int64_t page = prob->v[ROPE_PAGE] ? prob->v[ROPE_PAGE] : 1, rows = prob->v[ROPE_T] + prob->v[ROPE_T] / 4;
    return (rows + page - 1) / page + 1;
}
static int64_t x_of(const struct rfg_problem *prob)
{
    return rfg_format_elements(rope_cache_dtype(prob), 16);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static struct rfg_tensor_spec rows_spec(const char *name, int dtype, int64_t rows, int64_t cols, int64_t ld,
                                        bool output)
{
    return (struct rfg_tensor_spec){ .name = name,
                                     .output = output,
                                     .dtype = (rfg_dtype)dtype,
                                     .ndim = 2,
                                     .shape = { rows, cols },
                                     .row_stride = ld,
                                     .align_key = ROPE_ALIGN };
}

static struct rfg_tensor_spec heads_spec(const struct rfg_problem *prob, const char *name, int64_t heads, int64_t d,
                                         bool output)
{
    int64_t cols = is_fused(prob) && !output ? fused_columns(prob) : heads * head_stride(prob, d);
    struct rfg_tensor_spec s = rows_spec(name, rope_dtype(prob), prob->v[ROPE_T], cols,
                                         cols + (prob->v[ROPE_QKV] == ROPE_QKV_GAPS ? GAP : 0), output);
    s.absent = !heads;
    return s;
}

static struct rfg_tensor_spec vector_spec(const char *name, int dtype, int64_t n, bool present)
{
    return (struct rfg_tensor_spec){
        .name = name, .dtype = (rfg_dtype)dtype, .ndim = 1, .shape = { n }, .absent = !present, .align_key = -1
    };
}

static struct rfg_tensor_spec cache_spec(const struct rfg_problem *prob, bool is_v)
{
    const int64_t *v = prob->v;
    int64_t d = is_v ? rope_dv(prob) : v[ROPE_D], heads = v[ROPE_HKV], blocks = blocks_of(prob), page = v[ROPE_PAGE];
    int64_t rows = blocks * page, cols = heads * d, x = is_v ? 1 : x_of(prob);
    if (v[ROPE_FORM] == ROPE_FORM_HND || v[ROPE_FORM] == ROPE_FORM_PACKED) {
        rows = blocks * heads * page;
        cols = v[ROPE_FORM] == ROPE_FORM_PACKED ? v[ROPE_D] + rope_dv(prob) : d;
    } else if (v[ROPE_FORM] == ROPE_FORM_VLLM) {
        rows = blocks * heads * (d / x);
        cols = page * x;
    }
    struct rfg_tensor_spec s = rows_spec(is_v ? "v_cache" : "k_cache", rope_cache_dtype(prob), rows, cols,
                                         cols + (v[ROPE_FORM] == ROPE_FORM_GAPS ? GAP : 0), true);
    s.absent = !rope_appends(prob) || !heads || (is_v && v[ROPE_FORM] == ROPE_FORM_PACKED);
    return s;
}

/* Rows as the caches', with a column for each head. */
static void token_scales_specs(const struct rfg_problem *prob, struct rfg_tensor_spec *spec)
{
    const int64_t *v = prob->v;
    for (int i = 0; i < 2; i++) {
        struct rfg_tensor_spec *cache = &spec[ROPE_T_K_CACHE + i], *scale = &spec[ROPE_T_K_SCALE + i];
        bool packed = v[ROPE_FORM] == ROPE_FORM_PACKED;
        int64_t d = i ? rope_dv(prob) : v[ROPE_D], cols = packed ? 2 : cache->shape[1] / d;
        *scale = rows_spec(i ? "v_scale" : "k_scale", RFG_F32, cache->shape[0], cols,
                           cols + (v[ROPE_FORM] == ROPE_FORM_GAPS ? GAP : 0), true);
        scale->align_key = -1;
        scale->absent = cache->absent;
        cache->scaled_by = 1 + ROPE_T_K_SCALE + i;
        cache->scale_group = d;
        cache->from_zero = rope_cache_dtype(prob) == RFG_I4;
    }
}

static int rope_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    int64_t d = v[ROPE_D], hq = v[ROPE_HQ], hkv = v[ROPE_HKV];
    bool rotate = rope_rotates(prob), append = rope_appends(prob), fused = is_fused(prob), norm = v[ROPE_NORM] != 0;
    _Static_assert(ROPE_T_COUNT <= RFG_MAX_TENSORS, "room for all");
    spec[ROPE_T_Q] = heads_spec(prob, fused ? "qkv" : "q", fused ? 1 : hq, d, false);
    spec[ROPE_T_K] = heads_spec(prob, "k", fused ? 0 : hkv, d, false);
    spec[ROPE_T_V] = heads_spec(prob, "v", fused || !append ? 0 : hkv, rope_dv(prob), false);
    spec[ROPE_T_Q_OUT] = heads_spec(prob, "q_out", hq, d, true);
    spec[ROPE_T_K_OUT] = heads_spec(prob, "k_out", append ? 0 : hkv, d, true);
    if (v[ROPE_INPLACE]) {
        bool q = !spec[ROPE_T_Q].absent, k = !append && !spec[ROPE_T_K].absent;
        spec[ROPE_T_Q_OUT] = spec[ROPE_T_Q];
        spec[ROPE_T_K_OUT] = spec[ROPE_T_K];
        spec[ROPE_T_Q_OUT].name = "q_out", spec[ROPE_T_Q_OUT].output = true;
        spec[ROPE_T_K_OUT].name = "k_out", spec[ROPE_T_K_OUT].output = true;
        spec[ROPE_T_Q_OUT].same_as = q ? 1 + ROPE_T_Q : 0, spec[ROPE_T_Q_OUT].absent = !q;
        spec[ROPE_T_K_OUT].same_as = k ? 1 + ROPE_T_K : 0, spec[ROPE_T_K_OUT].absent = !k;
    }
    spec[ROPE_T_K_CACHE] = cache_spec(prob, false);
    spec[ROPE_T_V_CACHE] = cache_spec(prob, true);
    spec[ROPE_T_TABLE] =
        rows_spec("cos_sin", rope_table_dtype(prob), table_rows(prob), rope_r(prob), rope_r(prob), false);
    spec[ROPE_T_TABLE].absent = !rotate;
    spec[ROPE_T_TABLE].few_special = true; /* a row is seen by all heads of its tokens */
    spec[ROPE_T_POSITIONS] =
        rows_spec("positions", rope_position_dtype(prob), v[ROPE_AXES] ? v[ROPE_AXES] : 1, v[ROPE_T], v[ROPE_T], false);
    spec[ROPE_T_POSITIONS].absent = !rotate;
    spec[ROPE_T_POSITIONS].align_key = -1;
    spec[ROPE_T_SLOTS] = vector_spec("slots", RFG_I64, v[ROPE_T], append);
    spec[ROPE_T_Q_NORM] = vector_spec("q_norm", rope_weight_dtype(prob), d, norm);
    spec[ROPE_T_K_NORM] = vector_spec("k_norm", rope_weight_dtype(prob), d, norm);
    spec[ROPE_T_Q_NORM].align_key = spec[ROPE_T_K_NORM].align_key = ROPE_ALIGN;
    int64_t scales = v[ROPE_SCALES] == ROPE_SCALES_HEAD ? hkv : 1;
    spec[ROPE_T_K_SCALE] = vector_spec("k_scale", RFG_F32, scales, v[ROPE_SCALES] != 0);
    spec[ROPE_T_V_SCALE] = vector_spec("v_scale", RFG_F32, scales, v[ROPE_SCALES] != 0);
    if (append && rope_token_scales(prob))
        token_scales_specs(prob, spec);
    return ROPE_T_COUNT;
}

/* Of few tokens every third is none of the `rows`, of many one in a hundred or so: right before or behind them, far
 * off, or among them but for its upper half. Which, differs from problem to problem. */
static bool is_beside(const struct rfg_problem *prob, int64_t i)
{
    return i % (prob->v[ROPE_T] > 64 ? 97 : 3) == 2;
}
static int64_t beside(const struct rfg_problem *prob, int64_t i, int64_t rows, bool wide)
{
    uint64_t draw = (uint64_t)(i / 3 + prob->v[ROPE_T] + prob->v[ROPE_D] / 8 + 2 * prob->v[ROPE_HKV]);
    const int64_t values[] = { -1, rows, wide ? INT64_MIN : INT32_MIN, wide ? rows / 2 + ((int64_t)1 << 32) : INT32_MAX,
                               wide ? INT64_MAX : -rows };
    return values[draw % 5];
}

/* Each slot once, in an order that is none. */
static void fill_slots(const struct rfg_problem *prob, int64_t *slots, int64_t rows, uint64_t seed)
{
    uint64_t step = rfg_random(&seed) % (uint64_t)rows + 1, first = rfg_random(&seed) % (uint64_t)rows;
    for (bool whole = false; !whole; step += !whole) { /* until it has no divisor in common with rows */
        uint64_t a = step, b = (uint64_t)rows;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        whole = a == 1;
    }
    for (int64_t i = 0; i < prob->v[ROPE_T]; i++)
        slots[i] =
            is_beside(prob, i) ? beside(prob, i, rows, true) : (int64_t)((first + (uint64_t)i * step) % (uint64_t)rows);
}

static void rope_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                      uint64_t seed)
{
    bool wide = rope_position_dtype(prob) == RFG_I64;
    switch (tensor) {
    case ROPE_T_POSITIONS:
        for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++) {
            uint64_t r = rfg_random(&seed);
            int64_t rows = table_rows(prob), p = (int64_t)((r >> 8) % (uint64_t)rows);
            if (is_beside(prob, i))
                p = beside(prob, i, rows, wide);
            if (wide)
                ((int64_t *)t->data)[i] = p;
            else
                ((int32_t *)t->data)[i] = (int32_t)p;
        }
        break;
    case ROPE_T_SLOTS:
        fill_slots(prob, t->data, blocks_of(prob) * prob->v[ROPE_PAGE], seed);
        break;
    case ROPE_T_K_SCALE:
    case ROPE_T_V_SCALE: /* some so small that values saturate; exact data stay exact; of heads' special
                          * ones one is NaN */
        for (int64_t i = 0; i < t->shape[0]; i++) {
            uint64_t r = rfg_random(&seed);
            ((float *)t->data)[i] = data == RFG_DATA_INTS ? 0.5f
                                    : r % 3               ? 0.011f + (float)(r >> 8 & 255) / 100
                                                          : 0.001f;
        }
        if (data == RFG_DATA_SPECIAL && t->shape[0] > 1)
            ((float *)t->data)[rfg_random(&seed) % (uint64_t)t->shape[0]] = NAN;
    }
}

/* ---- views of the harness' memory -------------------------------------------------------------------------------- */

static rfg_tensor heads_view(const struct rfg_problem *prob, const rfg_tensor *t, int64_t first, int64_t heads,
                             int64_t d)
{
    char *data = t->data;
    return (rfg_tensor){ data && heads ? data + rfg_format_bytes(rope_dtype(prob), first) : NULL,
                         (rfg_dtype)rope_dtype(prob),
                         3,
                         { prob->v[ROPE_T], heads, d },
                         { t->strides[0], head_stride(prob, d), 1 } };
}

static rfg_tensor cache_view(const struct rfg_problem *prob, const rfg_tensor *t, bool is_v)
{
    const int64_t *v = prob->v;
    int64_t d = is_v ? rope_dv(prob) : v[ROPE_D], heads = v[ROPE_HKV], blocks = blocks_of(prob), page = v[ROPE_PAGE];
    int64_t ld = t->strides[0], x = x_of(prob);
    rfg_dtype dtype = (rfg_dtype)rope_cache_dtype(prob);
    const rfg_tensor nhd = { t->data, dtype, 4, { blocks, page, heads, d }, { page * ld, ld, d, 1 } };
    const rfg_tensor hnd = { t->data, dtype, 4, { blocks, page, heads, d }, { heads * page * ld, ld, page * ld, 1 } };
    if (v[ROPE_FORM] == ROPE_FORM_VLLM && is_v)
        return (rfg_tensor){ t->data, dtype, 4, { blocks, heads, d, page }, { heads * d * page, d * page, page, 1 } };
    if (v[ROPE_FORM] == ROPE_FORM_VLLM)
        return (rfg_tensor){
            t->data, dtype, 5, { blocks, heads, d / x, page, x }, { heads * d * page, d * page, page * x, x, 1 }
        };
    return v[ROPE_FORM] == ROPE_FORM_HND || v[ROPE_FORM] == ROPE_FORM_PACKED ? hnd : nhd;
}

static rfg_tensor scale_view(const struct rfg_problem *prob, const rfg_tensor *t, bool is_v)
{
    rfg_tensor v = cache_view(prob, t, is_v);
    bool hnd = prob->v[ROPE_FORM] == ROPE_FORM_HND || prob->v[ROPE_FORM] == ROPE_FORM_PACKED;
    v.dtype = RFG_F32;
    v.ndim = 3;
    v.strides[2] = hnd ? v.strides[2] : 1;
    return v;
}

/* Sections of `half` pairs, by what is left of models': Qwen2-VL's are 16, 24, 24, Qwen3-VL's 24, 20, 20. */
static void sections_of(const struct rfg_problem *prob, int32_t *sections)
{
    int64_t half = rope_r(prob) / 2, axes = prob->v[ROPE_AXES];
    int64_t share = prob->v[ROPE_MROPE] ? half * 5 / 16 : axes == 4 ? half / 5 : half * 3 / 8;
    for (int64_t i = 0; i < axes; i++)
        sections[i] = (int32_t)(i ? share : half - (axes - 1) * share);
}

void rope_views(const struct rfg_problem *prob, const rfg_tensor *t, struct rope_views *views)
{
    const int64_t *v = prob->v;
    int64_t d = v[ROPE_D], hq = v[ROPE_HQ], hkv = v[ROPE_HKV], dv = rope_dv(prob);
    bool rotate = rope_rotates(prob), append = rope_appends(prob), fused = is_fused(prob), inplace = v[ROPE_INPLACE];
    const rfg_tensor *k = &t[fused ? ROPE_T_Q : ROPE_T_K], *val = &t[fused ? ROPE_T_Q : ROPE_T_V];
    rfg_tensor *w = views->t;
    memcpy(w, t, ROPE_T_COUNT * sizeof(*w));
    w[ROPE_T_Q] = heads_view(prob, &t[ROPE_T_Q], 0, hq, d);
    w[ROPE_T_K] = heads_view(prob, k, fused ? hq * d : 0, hkv, d);
    w[ROPE_T_V] = heads_view(prob, val, fused ? (hq + hkv) * d : 0, hkv, dv);
    w[ROPE_T_Q_OUT] = inplace ? w[ROPE_T_Q] : heads_view(prob, &t[ROPE_T_Q_OUT], 0, hq, d);
    w[ROPE_T_K_OUT] = inplace ? w[ROPE_T_K] : heads_view(prob, &t[ROPE_T_K_OUT], 0, hkv, d);
    if (!v[ROPE_AXES]) {
        w[ROPE_T_POSITIONS].ndim = 1;
        w[ROPE_T_POSITIONS].shape[0] = v[ROPE_T];
        w[ROPE_T_POSITIONS].strides[0] = 1;
    }
    if (append) {
        bool packed = v[ROPE_FORM] == ROPE_FORM_PACKED;
        w[ROPE_T_K_CACHE] = cache_view(prob, &t[ROPE_T_K_CACHE], false);
        w[ROPE_T_V_CACHE] = cache_view(prob, &t[packed ? ROPE_T_K_CACHE : ROPE_T_V_CACHE], true);
        if (packed && w[ROPE_T_V_CACHE].data)
            w[ROPE_T_V_CACHE].data = (char *)w[ROPE_T_V_CACHE].data + rfg_format_bytes(rope_cache_dtype(prob), d);
        if (rope_token_scales(prob)) {
            w[ROPE_T_K_SCALE] = scale_view(prob, &t[ROPE_T_K_SCALE], false);
            w[ROPE_T_V_SCALE] = scale_view(prob, &t[packed ? ROPE_T_K_SCALE : ROPE_T_V_SCALE], true);
            if (packed && w[ROPE_T_V_SCALE].data)
                w[ROPE_T_V_SCALE].data = (float *)w[ROPE_T_V_SCALE].data + 1;
        }
    }
    views->rope = (rfg_rope_params){ .size = sizeof(rfg_rope_params),
                                     .gptj = v[ROPE_PAIRS] != 0,
                                     .last = v[ROPE_LAST] != 0,
                                     .backward = v[ROPE_BACKWARD] != 0,
                                     .mrope_interleaved = v[ROPE_MROPE] != 0,
                                     .offset = (int32_t)v[ROPE_OFFSET] };
    sections_of(prob, views->rope.sections);
    bool has_q = rotate && (hq || append), has_k = hkv || append;
    views->call = (struct rope_call){
        .op = prob->op,
        .q = has_q ? &w[ROPE_T_Q] : NULL,
        .q_out = has_q ? &w[ROPE_T_Q_OUT] : NULL,
        .k = has_k ? &w[ROPE_T_K] : NULL,
        .k_out = has_k && !append ? &w[ROPE_T_K_OUT] : NULL,
        .v = append ? &w[ROPE_T_V] : NULL,
        .k_cache = append ? &w[ROPE_T_K_CACHE] : NULL,
        .v_cache = append ? &w[ROPE_T_V_CACHE] : NULL,
        .cos_sin = rotate ? &w[ROPE_T_TABLE] : NULL,
        .positions = rotate ? &w[ROPE_T_POSITIONS] : NULL,
        .slots = append ? &w[ROPE_T_SLOTS] : NULL,
        .rope = views->rope,
        .p = { .size = sizeof(rfg_rope_append_params),
               .rope = &views->rope,
               .q_norm = v[ROPE_NORM] ? &w[ROPE_T_Q_NORM] : NULL,
               .k_norm = v[ROPE_NORM] ? &w[ROPE_T_K_NORM] : NULL,
               .eps = v[ROPE_NORM] ? ROPE_CASE_EPS : 0,
               .one_plus_weight = v[ROPE_NORM] == ROPE_NORM_1W,
               .k_scale = v[ROPE_SCALES] ? &w[ROPE_T_K_SCALE] : NULL,
               .v_scale = v[ROPE_SCALES] ? &w[ROPE_T_V_SCALE] : NULL },
    };
}

struct rope_element rope_element_of(const struct rfg_problem *prob, int tensor, int64_t row, int64_t col)
{
    const int64_t *v = prob->v;
    int64_t d = v[ROPE_D], heads = v[ROPE_HKV], page = v[ROPE_PAGE], x = x_of(prob);
    bool is_v = tensor == ROPE_T_V_CACHE;
    int64_t n = is_v ? rope_dv(prob) : d;
    if (tensor == ROPE_T_Q_OUT || tensor == ROPE_T_K_OUT) {
        int64_t step = head_stride(prob, d), head = col / step, part = tensor == ROPE_T_K_OUT;
        if (is_fused(prob) && v[ROPE_INPLACE] && head >= v[ROPE_HQ]) { /* what follows q in the buffer */
            head -= v[ROPE_HQ];
            part = rope_appends(prob) || head >= heads ? -1 : 1;
        }
        return (struct rope_element){ col % step < d ? (int)part : -1, row, head, col % step };
    }
    if (v[ROPE_FORM] == ROPE_FORM_HND || v[ROPE_FORM] == ROPE_FORM_PACKED) {
        bool second = col >= n;
        return (struct rope_element){ is_v || second ? 2 : 1, row / page / heads * page + row % page,
                                      row / page % heads, second ? col - n : col };
    }
    if (v[ROPE_FORM] == ROPE_FORM_VLLM) {
        int64_t wide = is_v ? 1 : x, parts = n / wide;
        return (struct rope_element){ is_v ? 2 : 1, row / parts / heads * page + col / wide, row / parts % heads,
                                      row % parts * wide + col % wide };
    }
    return (struct rope_element){ is_v ? 2 : 1, row, col / n, col % n };
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static rfg_status rope_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    struct rope_views w;
    rope_views(prob, t, &w);
    const struct rope_call *c = &w.call;
    rfg_kv_append_params p = { sizeof(p), c->p.k_scale, c->p.v_scale };
    if (!rope_appends(prob))
        return rfg_op_rope(ctx, c->q_out, c->k_out, c->q, c->k, c->cos_sin, c->positions, &c->rope, stream);
    if (!rope_rotates(prob))
        return rfg_op_kv_append(ctx, c->k_cache, c->v_cache, c->k, c->v, c->slots, &p, stream);
    return rfg_op_rope_append(ctx, c->q_out, c->k_cache, c->v_cache, c->q, c->k, c->v, c->cos_sin, c->positions,
                              c->slots, &c->p, stream);
}

static void rope_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct rope_views w;
    rope_views(prob, t, &w);
    rope_fill_args(&w.call, kargs);
}

static void rope_as_called(struct rfg_problem *prob)
{
    if (prob->v[ROPE_FORM] != ROPE_FORM_VLLM)
        prob->v[ROPE_FORM] = ROPE_FORM_NHD;
    prob->v[ROPE_QKV] = ROPE_QKV_APART;
}

static const char *const rope_compiled[] = {
    "rope bf16,i64->bf16 T=8192 D=128 Hq=8 Hkv=2",
    "rope f16,i32->f16 T=8192 D=128 Hq=8 Hkv=2 R=64 pairs=gptj table=f32",
    "rope bf16,i32->bf16 T=8192 D=64 Hq=8 Hkv=2 axes=3 table=f32",
    "rope f16,i64->f16 T=8192 D=128 Hq=8 Hkv=2 axes=3 mrope=interleaved",
    "rope bf16,i64->bf16 T=8192 D=256 Hq=8 Hkv=2 R=64 align=8",
    "rope bf16,i64->bf16 T=8192 D=40 Hq=8 Hkv=2 align=4",
    "rope bf16,i64->bf16 T=8192 D=8 Hq=8 Hkv=2 align=2",
    "rope f32,i64->f32 T=8192 D=128 Hq=8 Hkv=2",
    "rope f32,i32->f32 T=8192 D=80 Hq=8 Hkv=2 R=32 offset=24 pairs=gptj align=4",
    NULL,
};
static const char *const kv_append_compiled[] = {
    "kv_append bf16->bf16 T=8192 D=128 Hkv=8 page=16",
    "kv_append f16->e4m3 T=8192 D=64 Hkv=8 page=16 scales=tensor",
    "kv_append bf16->e4m3fnuz T=8192 D=256 Hkv=8 page=16 form=vllm",
    "kv_append f16->f16 T=8192 D=128 Hkv=8 page=16 form=vllm",
    "kv_append bf16->e5m2 T=8192 D=12 Hkv=8 page=16 align=4",
    "kv_append bf16->i8 T=8192 D=128 Hkv=8 page=16 scales=token",
    "kv_append f16->i4 T=8192 D=64 Hkv=8 page=48 scales=token",
    "kv_append bf16->i4 T=8192 D=12 Hkv=8 page=16 scales=token align=4",
    NULL,
};
static const char *const rope_append_compiled[] = {
    "rope_append bf16,i64->bf16 T=8192 D=128 Hq=32 Hkv=8 page=16 norm=w table=f32",
    "rope_append f16,i32->e4m3 T=8192 D=64 Hq=8 Hkv=2 page=16 norm=1+w wtype=f32 scales=head",
    "rope_append bf16,i64->e4m3fnuz T=8192 D=256 Hq=8 Hkv=2 page=16 R=64 pairs=gptj last=1",
    "rope_append bf16,i32->e5m2 T=8192 D=128 Hq=8 Hkv=2 page=16 form=vllm axes=3 mrope=interleaved",
    "rope_append bf16,i64->bf16 T=8192 D=512 Hq=8 Hkv=1 page=16 norm=w axes=3",
    "rope_append bf16,i64->e4m3 T=8192 D=256 Hq=8 Hkv=2 page=16 R=64 offset=96",
    "rope_append bf16,i64->i8 T=8192 D=128 Hq=32 Hkv=8 page=16 norm=w scales=token",
    "rope_append f16,i32->i4 T=8192 D=128 Hq=8 Hkv=2 page=16 R=64 scales=token",
    "rope_append bf16,i64->e4m3 T=8192 D=64 Hq=8 Hkv=2 page=16 pairs=gptj scales=token",
    NULL,
};

#define CASE(name)                                                                                                     \
    const struct rfg_op_case rfg_op_case_##name = { .tensors = rope_tensors,                                           \
                                                    .call = rope_call,                                                 \
                                                    .pack = rope_pack,                                                 \
                                                    .oracle = rfg_oracle_rope,                                         \
                                                    .compiled = name##_compiled,                                       \
                                                    .fill = rope_fill,                                                 \
                                                    .as_called = rope_as_called }
CASE(rope);
CASE(kv_append);
CASE(rope_append);
