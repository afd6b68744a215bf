/* SPDX-License-Identifier: MIT */
#include "shapes_aiter.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dispatch/hip/hip.h"
#include "ops/gemm_sum.h"
#include "ops/operand.h"
#include "shapes_logs.h"

const char *const rfg_aiter_notes[RFG_AITER_N_NOTES] = {
    "fp8 is taken as e4m3 where no column says of which GPU the rows are (gfx: gfx942 has e4m3fnuz) or q_dtype_w does",
    "shuffled weights of codes are taken by rows: rfg has AITER's layout for bf16 and f16 alone",
    "taken as bf16: neither a column, nor the kernels, nor the file's name tell the products' format",
};

bool rfg_aiter_knows(const char *column)
{
    static const char *const names[] = {
        "M",
        "N",
        "K",
        "B",
        "bias",
        "dtype",
        "outdtype",
        "scaleAB",
        "bpreshuffle",
        "q_dtype_w",
        "q_dtype_a",
        "weight",
        /* of mixtures of experts */
        "token",
        "model_dim",
        "inter_dim",
        "expert",
        "topk",
        "act_type",
        "q_type",
        "use_g1u1",
        "doweight_stage1",
        /* on what, which kernel, and what was measured */
        "gfx",
        "cu_num",
        "libtype",
        "solidx",
        "kernelId",
        "splitK",
        "kernelName",
        "us",
        "tflops",
        "bw",
        "err_ratio",
        "errRatio",
        "block_m",
        "ksplit",
        "us1",
        "kernelName1",
        "err1",
        "us2",
        "kernelName2",
        "err2",
        "run_1stage",
        "_tag",
        "tag",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(column, names[i]))
            return true;
    return false;
}

/* A field's text; "" if there is no such column. */
static const char *field(const struct rfg_aiter_row *row, const char *column)
{
    const char *text = row->field(row->ctx, column);
    return text ? text : "";
}

/* 1: true, 0: false or not said, -1: something else. */
static int boolean(const char *text)
{
    return !*text || !strcasecmp(text, "false") || !strcmp(text, "0") ? 0
           : !strcasecmp(text, "true") || !strcmp(text, "1")          ? 1
                                                                      : -1;
}

static bool read_boolean(const struct rfg_aiter_row *row, const char **column, int *value, struct rfg_reason *why)
{
    *value = boolean(field(row, *column));
    return *value >= 0 || rfg_refuse(why, "'%.40s': must be true or false", field(row, *column));
}

/* Does the text have the word in it, in whatever case? */
static bool has(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* ---- which format ------------------------------------------------------------------------------------------------ */

enum kind { UNKNOWN, SIXTEEN, ROWS, BLOCKS, MX, OTHER };

/* What the name of a kernel or of a file says. Blocks of 4 bits are MX's groups. */
static enum kind kind_of_name(const char *name)
{
    if (has(name, "a4w4") || has(name, "f4gemm") || has(name, "per1x32Fp4"))
        return MX;
    for (const char *s = name; (s = strpbrk(s, "aA")); s++) { /* a8w4, a16w4, a16w8 */
        const char *w = s + 1 + strspn(s + 1, "0123456789");
        if (w > s + 1 && tolower((unsigned char)*w) == 'w' && isdigit((unsigned char)w[1]) && !has(name, "a8w8") &&
            !has(name, "a16w16"))
            return OTHER;
    }
    if (has(name, "a8w8") || has(name, "f8gemm") || has(name, "fp8gemm") || has(name, "i8gemm"))
        return has(name, "blockscale") || has(name, "1x128") ? BLOCKS : ROWS;
    if (has(name, "blockscale"))
        return BLOCKS;
    return has(name, "bf16") || has(name, "a16w16") ? SIXTEEN : UNKNOWN;
}

/* The fp8 of the GPU that the row was tuned on. */
static const char *fp8(const struct rfg_aiter_row *row, unsigned *notes)
{
    const char *gfx = field(row, "gfx");
    int cus = atoi(field(row, "cu_num"));
    bool old = *gfx ? rfg_arch_of(gfx)->codes & RFG_ARCH_CODE(RFG_E4M3FNUZ)
                    : cus > 0 && !rfg_device_has_cus("gfx950", cus) && rfg_device_has_cus("gfx942", cus);
    *notes |= *gfx || cus ? 0 : RFG_AITER_FP8;
    return old ? "e4m3fnuz" : "e4m3";
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_code(const char *dtype)
{
    return !strcmp(dtype, "e4m3") || !strcmp(dtype, "e4m3fnuz") || !strcmp(dtype, "e5m2") || !strcmp(dtype, "i8") ||
           !strcmp(dtype, "e2m1");
}

/* The dtype that a column says, which must be one that gemm has; "" if it says none. */
static bool read_dtype(const struct rfg_aiter_row *row, const char **column, const char **dtype, struct rfg_reason *why)
{
    const char *text = field(row, *column), *name = rfg_shapes_dtype(text);
    *dtype = name;
    return !*text || is_code(name) || !strcmp(name, "bf16") || !strcmp(name, "f16") || !strcmp(name, "f32") ||
           rfg_refuse(why, "'%.40s': must be bf16, f16, f32, an fp8, int8 or float4_e2m1fn_x2", text);
}

/* Of which kind is it, by the most certain that says it? *column is what did. */
static enum kind kind_of_row(const struct rfg_aiter_row *row, const char *dtype, const char *q_dtype,
                             const char **column, unsigned *notes)
{
    const char *kernel = field(row, "kernelName");
    enum kind by_kernel = kind_of_name(kernel), by_name = kind_of_name(base_name(row->path));
    *column = "kernelName";
    if (by_kernel != UNKNOWN && (by_kernel != SIXTEEN || !is_code(q_dtype)))
        return by_kernel;
    *column = "q_dtype_w";
    if (is_code(q_dtype))
        return !strcmp(q_dtype, "e2m1") ? MX : by_name == BLOCKS ? BLOCKS : ROWS;
    *column = "dtype";
    if (*dtype || *q_dtype)
        return SIXTEEN; /* or codes with a scale of each tensor */
    *column = "M";      /* the file's name is no column; sizes are all that there is */
    if (by_name == UNKNOWN)
        *notes |= RFG_AITER_BF16;
    return by_name == UNKNOWN ? SIXTEEN : by_name;
}

/* Scales, of products of codes; bias has y's dtype. */
static void say_codes(struct rfg_aiter_product *p, const char *x, const char *w, const char *out, const char *scale,
                      const char *per, bool bias)
{
    snprintf(p->dtypes, sizeof(p->dtypes), "%s,%s->%s", x, w, out);
    snprintf(p->attrs, sizeof(p->attrs), " w_scale=%s x_scale=%s", scale, scale);
    size_t at = strlen(p->attrs);
    if (*per)
        at += (size_t)snprintf(p->attrs + at, sizeof(p->attrs) - at, " x_per=%s w_per=%s", per, per);
    if (bias)
        snprintf(p->attrs + at, sizeof(p->attrs) - at, " btype=%s", out);
}

static bool of_16_bits(const struct rfg_aiter_row *row, const char *dtype, const char *out, bool shuffled, bool bias,
                       struct rfg_aiter_product *p, const char **column, struct rfg_reason *why)
{
    int scaled;
    *column = "scaleAB";
    if (!read_boolean(row, column, &scaled, why))
        return false;
    dtype = *dtype ? dtype : "bf16";
    if (scaled && !is_code(dtype))
        return rfg_refuse(why, "'%.40s': must be false: dtype is %s, which has no scales", field(row, "scaleAB"),
                          dtype);
    *column = "dtype";
    if (is_code(dtype) && (!scaled || !strcmp(dtype, "e2m1")))
        return rfg_refuse(why, "'%.40s': must be bf16, f16 or f32, or an fp8 or int8 with scaleAB true",
                          field(row, "dtype"));
    if (scaled) { /* torch._scaled_mm's, of a scale for each tensor */
        say_codes(p, dtype, dtype, *out ? out : "bf16", "f32", "", bias);
        p->notes |= shuffled ? RFG_AITER_BY_ROWS : 0;
        return true;
    }
    snprintf(p->dtypes, sizeof(p->dtypes), "%s,%s->%s", dtype, dtype, *out ? out : dtype);
    snprintf(p->attrs, sizeof(p->attrs), "%s", shuffled ? " packed=1" : "");
    return true;
}

bool rfg_aiter_product(const struct rfg_aiter_row *row, struct rfg_aiter_product *p, const char **column,
                       struct rfg_reason *why)
{
    const char *dtype, *out, *w, *x, *kernel = field(row, "kernelName");
    int shuffled, bias = boolean(field(row, "bias")) == 1;
    memset(p, 0, sizeof(*p));
    if (!read_dtype(row, (*column = "dtype", column), &dtype, why) ||
        !read_dtype(row, (*column = "outdtype", column), &out, why) ||
        !read_dtype(row, (*column = "q_dtype_w", column), &w, why) ||
        !read_dtype(row, (*column = "q_dtype_a", column), &x, why) ||
        !read_boolean(row, (*column = "bpreshuffle", column), &shuffled, why))
        return false;
    *column = "q_dtype_a";
    if (*x && strcmp(x, w))
        return rfg_refuse(why, "'%.40s': must be q_dtype_w's, '%.40s', or empty", field(row, *column),
                          field(row, "q_dtype_w"));
    *column = "B";
    const char *batch = field(row, "B");
    char *end;
    p->batch = *batch ? strtoll(batch, &end, 10) : 0;
    if (*batch && (*end || p->batch < 1 || p->batch > 1024))
        return rfg_refuse(why, "'%.40s': must be a whole number from 1 to 1024", batch);
    enum kind kind = kind_of_row(row, dtype, w, column, &p->notes);
    if (kind == OTHER)
        return rfg_refuse(why, "'%.60s': must be a product that gemm has by name: a16w16, a8w8, a8w8_blockscale, a4w4",
                          !strcmp(*column, "M") ? base_name(row->path) : kernel);
    if (kind == SIXTEEN)
        return of_16_bits(row, *dtype ? dtype : w, out, shuffled, bias, p, column, why);
    if (*dtype && !is_code(dtype) && *column[0] == 'k' && !*out)
        out = dtype; /* what x was before it was quantised, and y is */
    const char *name = kind_of_name(kernel) != UNKNOWN ? kernel : base_name(row->path);
    if (kind == MX) {
        *column = "q_dtype_w";
        if (*w && strcmp(w, "e2m1"))
            return rfg_refuse(why, "'%.40s': must be float4_e2m1fn_x2: '%.60s' is of 4 bits", field(row, *column),
                              name);
        say_codes(p, "e2m1", "e2m1", *out ? out : "bf16", "e8m0", "group", bias);
    } else {
        /* AITER's gemm_a8w8 is int8's where nothing says another; blocks and shuffled weights are of fp8. */
        bool fp8s = kind == BLOCKS || (has(name, "bpreshuffle") && !has(name, "i8")) || has(name, "f8");
        const char *code = *w ? w : is_code(dtype) ? dtype : fp8s ? fp8(row, &p->notes) : "i8";
        *column = "q_dtype_w";
        if (!is_code(code) || !strcmp(code, "e2m1"))
            return rfg_refuse(why, "'%.40s': must be an fp8 or int8: '%.60s' is of 8 bits", field(row, *column), name);
        say_codes(p, code, code, *out ? out : "bf16", "f32", kind == BLOCKS ? "block" : "row", bias);
    }
    p->notes |= shuffled || has(name, "bpreshuffle") ? RFG_AITER_BY_ROWS : 0;
    return true;
}

/* ---- what was measured ------------------------------------------------------------------------------------------- */

void rfg_aiter_measured(const struct rfg_aiter_row *row, const char *column, struct rfg_shape *shape)
{
    const char *gfx = field(row, "gfx"), *cus = field(row, "cu_num");
    char *end;
    double us = strtod(field(row, column), &end);
    if (*end || !isfinite(us) || us <= 0)
        return;
    shape->us = us;
    snprintf(shape->us_on, sizeof(shape->us_on), "%.11s%s%.5s", gfx, *gfx && *cus ? ":" : "", cus);
}

/* ---- mixtures of experts ----------------------------------------------------------------------------------------- */

struct mixture {
    int64_t t, h, i, e, k;
    const char *dtype, *x, *w, *act, *per, *scale; /* x, w: as they are multiplied */
    bool weights_first;
};

static bool read_size(const struct rfg_aiter_row *row, const char **column, int64_t max, int64_t *out,
                      struct rfg_reason *why)
{
    char *end;
    const char *text = field(row, *column);
    *out = strtoll(text, &end, 10);
    return (isdigit((unsigned char)*text) && !*end && *out >= 1 && *out <= max) ||
           rfg_refuse(why, "'%.40s': must be a whole number from 1 to %" PRId64, text, max);
}

/* One of names, by what stands behind the dot; NULL with *why. */
static const char *read_name(const struct rfg_aiter_row *row, const char *column, const char *const names[][2], int n,
                             struct rfg_reason *why)
{
    const char *text = field(row, column), *dot = strrchr(text, '.');
    char all[160] = "";
    for (int i = 0; i < n; i++) {
        if (!strcasecmp(dot ? dot + 1 : text, names[i][0]))
            return names[i][1];
        size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", names[i][0]);
    }
    rfg_refuse(why, "'%.40s': must be one of %s", text, all);
    return NULL;
}

static bool read_formats(const struct rfg_aiter_row *row, struct mixture *m, const char **column,
                         struct rfg_reason *why)
{
    static const char *const pers[][2] = { { "No", "" },
                                           { "per_Tensor", "tensor" },
                                           { "per_Token", "row" },
                                           { "per_1x128", "block" },
                                           { "per_128x128", "block" },
                                           { "per_1x32", "group" } };
    static const char *const acts[][2] = {
        { "Silu", "silu" }, { "Gelu", "gelu" }, { "Swiglu", "swigluoai" }, { "Situv2", "situ" }
    };
    if (!read_dtype(row, (*column = "dtype", column), &m->dtype, why) ||
        !read_dtype(row, (*column = "q_dtype_a", column), &m->x, why) ||
        !read_dtype(row, (*column = "q_dtype_w", column), &m->w, why))
        return false;
    m->dtype = *m->dtype ? m->dtype : "bf16";
    m->x = *m->x ? m->x : m->dtype;
    m->w = *m->w ? m->w : m->dtype;
    if (!(m->act = read_name(row, *column = "act_type", acts, 4, why)) ||
        !(m->per = read_name(row, *column = "q_type", pers, 6, why)))
        return false;
    bool mx = !strcmp(m->w, "e2m1");
    m->scale = mx || !strcmp(m->per, "group") ? "e8m0" : "f32";
    *column = "q_type";
    if (is_code(m->w) != (*m->per != 0) || mx != !strcmp(m->per, "group"))
        return rfg_refuse(why, "'%.40s': must be %s, q_dtype_w is %s", field(row, "q_type"),
                          mx              ? "per_1x32"
                          : is_code(m->w) ? "per_Tensor, per_Token or per_1x128"
                                          : "No",
                          m->w);
    *column = "q_dtype_a";
    return !strcmp(m->x, m->w) || (mx && (!strcmp(m->x, m->dtype) || !strcmp(m->x, "e4m3"))) ||
           rfg_refuse(why, "'%.40s': must be %s", field(row, "q_dtype_a"),
                      mx ? "of 4 bits, e4m3 or dtype's, as q_dtype_w is of 4 bits" : "q_dtype_w's");
}

static bool read_mixture(const struct rfg_aiter_row *row, struct mixture *m, const char **column,
                         struct rfg_reason *why)
{
    int gated, first;
    if (!read_size(row, (*column = "token", column), RFG_MAX_SIZE, &m->t, why) ||
        !read_size(row, (*column = "model_dim", column), RFG_MAX_SIZE, &m->h, why) ||
        !read_size(row, (*column = "inter_dim", column), RFG_MAX_SIZE / 2, &m->i, why) ||
        !read_size(row, (*column = "expert", column), 1024, &m->e, why) ||
        !read_size(row, (*column = "topk", column), 32, &m->k, why) || !read_formats(row, m, column, why) ||
        !read_boolean(row, (*column = "use_g1u1", column), &gated, why) ||
        !read_boolean(row, (*column = "doweight_stage1", column), &first, why))
        return false;
    m->weights_first = first;
    *column = "token";
    if (m->t * m->k > RFG_MAX_SIZE)
        return rfg_refuse(why, "'%.40s': token times topk must be at most %d", field(row, "token"), RFG_MAX_SIZE);
    *column = "use_g1u1";
    return gated || rfg_refuse(why, "'%.40s': must be 1: rfg's experts are gated", field(row, "use_g1u1"));
}

struct pieces {
    struct rfg_shape *v;
    int n;
    bool ok;
    struct rfg_reason *why;
};

__attribute__((format(printf, 2, 3))) static void add(struct pieces *p, const char *fmt, ...)
{
    char text[RFG_PROBLEM_STRLEN];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    p->ok = p->ok && rfg_problem_parse(&p->v[p->n].problem, text, p->why);
    p->n++;
}

/* Rows that become codes on the way. */
static void add_quantised(struct pieces *p, const struct mixture *m, int64_t rows, int64_t cols)
{
    const char *by = !strcmp(m->per, "tensor")  ? ""
                     : !strcmp(m->per, "row")   ? " group_rows=1"
                     : !strcmp(m->per, "block") ? " group_rows=1 group_cols=128"
                                                : " group_rows=1 group_cols=32 rounding=up";
    if (is_code(m->x))
        add(p, "quantize %s->%s,%s M=%" PRId64 " N=%" PRId64 "%s", m->dtype, m->x, m->scale, rows, cols, by);
}

int rfg_aiter_mixture(const struct rfg_aiter_row *row, struct rfg_shape pieces[RFG_AITER_PIECES], unsigned *notes,
                      const char **column, struct rfg_reason *why)
{
    struct mixture m;
    struct pieces p = { pieces, 0, true, why };
    char scales[100] = "", second[200];
    memset(pieces, 0, RFG_AITER_PIECES * sizeof(*pieces));
    if (!read_mixture(row, &m, column, why))
        return 0;
    if (is_code(m.x))
        snprintf(scales, sizeof(scales), " w_scale=%s x_scale=%s x_per=%s w_per=%s", m.scale, m.scale, m.per, m.per);
    else if (is_code(m.w))
        snprintf(scales, sizeof(scales), " w_scale=%s w_group=32", m.scale);
    *notes |= is_code(m.w) ? RFG_AITER_BY_ROWS : 0;
    int64_t pairs = m.t * m.k;
    add(&p, "moe_align i32->i32 T=%" PRId64 " top=%" PRId64 " E=%" PRId64 " weights=1 places=1", m.t, m.k, m.e);
    add_quantised(&p, &m, m.t, m.h);
    struct rfg_shape *one = &pieces[p.n];
    add(&p, "gemm %s,%s->%s M=%" PRId64 " N=%" PRId64 " K=%" PRId64 " act=%s experts=%" PRId64 " top=%" PRId64 "%s%s",
        m.x, m.w, m.dtype, pairs, 2 * m.i, m.h, m.act, m.e, m.k, m.weights_first ? " weights=1" : "", scales);
    add_quantised(&p, &m, pairs, m.i);
    snprintf(second, sizeof(second), "M=%" PRId64 " N=%" PRId64 " K=%" PRId64 " experts=%" PRId64 "%s%s", pairs, m.h,
             m.i, m.e, m.weights_first ? "" : " weights=1", scales);
    struct rfg_shape *two = &pieces[p.n];
    add(&p, "gemm %s,%s->%s %s", m.x, m.w, m.dtype, second);
    add(&p, "moe_sum %s->%s T=%" PRId64 " N=%" PRId64 " top=%" PRId64, m.dtype, m.dtype, m.t, m.h, m.k);
    if (pairs <= RFG_MOE_FEW_PAIRS) /* AMD's GPUs have that in place of the last two */
        add(&p, "gemm %s,%s->%s %s slots=%" PRId64, m.x, m.w, m.dtype, second, m.k);
    if (boolean(field(row, "run_1stage")) == 0) {
        rfg_aiter_measured(row, "us1", one);
        rfg_aiter_measured(row, "us2", two);
    }
    *column = "dtype";
    return p.ok ? p.n : 0;
}
