/* SPDX-License-Identifier: MIT
 *
 * Shapes files: what is to be tuned, benched or prepared. Ours, and AITER's untuned_*.csv and tuned_*.csv. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"
#include "db_internal.h"
#include "dispatch/hip/hip.h"
#include "shapes_logs.h"

#define MAX_SIZE   2147483647
#define MAX_SHAPES 65536 /* problems of one file, and */
#define MAX_LINES  1000000
#define MOST_BAD   10 /* lines that are told one by one */

enum column {
    C_OP,
    C_DTYPE,
    C_M,
    C_N,
    C_K,
    C_ATTRS,
    C_WEIGHT,
    /* AITER's */
    C_OUTDTYPE,
    C_SCALED,      /* scaleAB: true is refused */
    C_PRESHUFFLED, /* bpreshuffle: packed=1 */
    C_QUANTISED,   /* q_dtype_w, q_dtype_a: a value is refused */
    C_GFX,         /* gfx, cu_num: what it was tuned on, if there is such a thing */
    C_CUS,
    C_IGNORED,
    C_KEY, /* + index: a column named like a key of the op, e.g. bias */
};

static const struct {
    const char *name;
    enum column column;
    bool aiter;
} known[] = {
    { "op", C_OP, false },
    { "dtype", C_DTYPE, false },
    { "M", C_M, false },
    { "N", C_N, false },
    { "K", C_K, false },
    { "attrs", C_ATTRS, false },
    { "weight", C_WEIGHT, false },
    { "outdtype", C_OUTDTYPE, true },
    { "scaleAB", C_SCALED, true },
    { "bpreshuffle", C_PRESHUFFLED, true },
    { "q_dtype_w", C_QUANTISED, true },
    { "q_dtype_a", C_QUANTISED, true },
    { "gfx", C_GFX, true },
    { "cu_num", C_CUS, true },
};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

struct reader {
    const char *path;
    struct rfg_shapes *out;
    size_t room;
    void (*bad)(void *ctx, const char *message);
    void *ctx;
    int n_header; /* columns; 0: not read yet */
    int header_line;
    char *name[RFG_CSV_FIELDS];
    enum column column[RFG_CSV_FIELDS];
    bool aiter;

    struct slot { /* the problems so far, by hash; open addressing */
        uint64_t hash;
        size_t shape; /* + 1; 0: empty */
    } * seen;
    size_t mask;
    int n_same, first_same_line, first_same_as;
    int n_impossible; /* lines of GPUs that there aren't */
    char impossible[100];
    bool is_log; /* a problem that comes again counts again */
    int lines;
    int left_out; /* the line from which on the file is left out; 0: none */
};

__attribute__((format(printf, 3, 4))) static void refuse(struct reader *r, int line, const char *fmt, ...)
{
    char message[700];
    size_t at = (size_t)snprintf(message, sizeof(message), "%.300s:%d: ", r->path, line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message + at, sizeof(message) - at, fmt, ap);
    va_end(ap);
    if (++r->out->n_bad <= MOST_BAD && r->bad)
        r->bad(r->ctx, message);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

static bool is_key(const char *name)
{
    for (int i = 0; rfg_ops[i]; i++)
        if (rfg_op_key(rfg_ops[i], name) >= 0)
            return true;
    return false;
}

static bool has(const struct reader *r, enum column c)
{
    for (int i = 0; i < r->n_header; i++)
        if (r->column[i] == c)
            return true;
    return false;
}

static rfg_status header_error(const struct reader *r, int line, const char *name, const char *rule)
{
    return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: column '%.40s': %s", r->path, line, name, rule);
}

static rfg_status no_column(const struct reader *r, int line, enum column c)
{
    return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                    "%s:%d: column %s is missing from the header: must be op,dtype,M,N[,K][,attrs][,weight] or "
                    "AITER's M,N,K[,bias][,dtype][,outdtype]",
                    r->path, line, known[c].name);
}

static rfg_status read_header(struct reader *r, int line, int n, char *const *field)
{
    char ignored[300] = "";
    r->aiter = true;
    for (int i = 0; i < n; i++)
        r->aiter &= strcmp(field[i], "op") != 0;
    for (int i = 0; i < n; i++) {
        size_t k = 0;
        while (k < N_KNOWN && (strcmp(known[k].name, field[i]) || (known[k].aiter && !r->aiter)))
            k++;
        for (int j = 0; j < i; j++)
            if (!strcmp(field[i], field[j]))
                return header_error(r, line, field[i], "is there twice");
        r->column[i] = k < N_KNOWN ? known[k].column : is_key(field[i]) ? C_KEY : C_IGNORED;
        if (!(r->name[i] = strdup(field[i])))
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", r->path);
        r->n_header = i + 1;
        r->header_line = line;
        if (r->column[i] == C_IGNORED && !r->aiter)
            return header_error(r, line, field[i],
                                "must be one of op, dtype, M, N, K, attrs, weight or a key of an operator");
        size_t at = strlen(ignored);
        if (r->column[i] == C_IGNORED && at < sizeof(ignored))
            snprintf(ignored + at, sizeof(ignored) - at, "%s%s", at ? ", " : "", field[i]);
    }
    for (enum column c = C_M; c <= (r->aiter ? C_K : C_N); c++)
        if (!has(r, c))
            return no_column(r, line, c);
    if (!r->aiter && !has(r, C_DTYPE))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: column dtype is missing from the header", r->path, line);
    if (*ignored)
        rfg_warn("%s: note: columns ignored: %s", r->path, ignored);
    return RFG_OK;
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* Our name of a dtype that may be spelled as PyTorch does. */
static const char *dtype_name(const char *text)
{
    static const char *const alias[][2] = {
        { "bfloat16", "bf16" }, { "float16", "f16" }, { "half", "f16" }, { "fp16", "f16" },
        { "float32", "f32" },   { "float", "f32" },   { "fp32", "f32" },
    };
    if (!strncmp(text, "torch.", 6))
        text += 6;
    for (size_t i = 0; i < sizeof(alias) / sizeof(alias[0]); i++)
        if (!strcmp(text, alias[i][0]))
            return alias[i][1];
    return text;
}

/* "bf16" -> "bf16,bf16->out" for an op with two inputs; out NULL: the same. A full signature stays as it is. */
static bool set_dtypes(struct rfg_problem *p, const char *text, const char *out, struct rfg_reason *why)
{
    char all[160];
    size_t at = 0;
    if (strstr(text, "->"))
        return rfg_problem_parse_dtypes(p, text, why);
    const char *in = dtype_name(text);
    out = out && *out ? dtype_name(out) : in;
    for (int i = 0; i < p->op->n_in + p->op->n_out && at < sizeof(all); i++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%.20s",
                               i == 0             ? ""
                               : i == p->op->n_in ? "->"
                                                  : ",",
                               i < p->op->n_in ? in : out);
    struct rfg_reason full;
    if (rfg_problem_parse_dtypes(p, all, &full))
        return true;
    return rfg_refuse(why, "'%.40s'%s%.40s: must be bf16, f16 or f32, or a signature such as bf16,bf16->f32", text,
                      out != in ? " to " : "", out != in ? out : "");
}

static bool parse_size(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v < 1 || v > MAX_SIZE)
        return false;
    *out = v;
    return true;
}

/* Python's and C's booleans; anything else is passed through. */
static const char *flag(const char *text)
{
    return !strcasecmp(text, "true") ? "1" : !strcasecmp(text, "false") || !*text ? "0" : text;
}

static const char *value(const struct reader *r, enum column c, char *const *field)
{
    for (int i = 0; i < r->n_header; i++)
        if (r->column[i] == c)
            return field[i];
    return NULL;
}

static bool read_row(const struct reader *r, char *const *field, struct rfg_shape *shape, const char **column,
                     struct rfg_reason *why)
{
    struct rfg_problem *p = &shape->problem;
    const char *text = r->aiter ? "gemm" : value(r, C_OP, field);
    const struct rfg_op *op = rfg_op_find(text, strlen(text));
    *column = "op";
    if (!op)
        return rfg_refuse(why, "'%.40s': no such operator", text);
    rfg_problem_init(p, op);

    *column = "dtype";
    text = value(r, C_DTYPE, field);
    if (!set_dtypes(p, text ? text : "bf16", value(r, C_OUTDTYPE, field), why))
        return false;

    for (int i = 0; i < 3; i++) {
        int64_t v;
        *column = known[C_M + i].name;
        text = value(r, C_M + i, field);
        if (!op->column_key[i]) {
            if (text && *text && strcmp(text, "0"))
                return rfg_refuse(why, "'%.40s': must be empty: %s has no such size", text, op->name);
        } else if (!parse_size(text, &v) || !rfg_problem_set(p, op->column_key[i], text, NULL)) {
            return rfg_refuse(why, "'%.40s': must be a whole number from 1 to %d", text, MAX_SIZE);
        }
    }

    /* Sizes that have no column here may have come in columns named like them: collect all as attributes. */
    char attrs[RFG_PROBLEM_STRLEN];
    text = value(r, C_ATTRS, field);
    size_t at = (size_t)snprintf(attrs, sizeof(attrs), "%s", text ? text : "");
    for (int i = 0; i < r->n_header && at < sizeof(attrs); i++) {
        *column = r->name[i];
        switch (r->column[i]) {
        case C_KEY:
            if (*field[i] && rfg_op_key(op, r->name[i]) < 0)
                return rfg_refuse(why, "'%.40s': must be empty: %s has no such key", field[i], op->name);
            if (*field[i])
                at += (size_t)snprintf(attrs + at, sizeof(attrs) - at, " %s=%s", r->name[i], flag(field[i]));
            break;
        case C_SCALED:
            if (strcmp(flag(field[i]), "0"))
                return rfg_refuse(why, "'%.40s': must be false: scaled inputs are not supported", field[i]);
            break;
        case C_PRESHUFFLED: /* our packed=1 is the layout of AITER's shuffle_weight(w, (16, 16)) */
            if (strcmp(flag(field[i]), "0") && strcmp(flag(field[i]), "1"))
                return rfg_refuse(why, "'%.40s': must be true or false", field[i]);
            if (!strcmp(flag(field[i]), "1"))
                at += (size_t)snprintf(attrs + at, sizeof(attrs) - at, " packed=1");
            break;
        case C_QUANTISED:
            if (*field[i])
                return rfg_refuse(why, "'%.40s': must be empty: quantised tensors are not supported", field[i]);
            break;
        default:
            break;
        }
    }
    *column = "attrs";
    if (at >= sizeof(attrs))
        return rfg_refuse(why, "'%.40s...': must be shorter than %zu characters", attrs, sizeof(attrs));
    if (!rfg_problem_set_attrs(p, attrs, why))
        return false;
    *column = "dtype";
    if (!op->valid(p, why))
        return false;

    *column = "weight";
    shape->weight = 1;
    text = value(r, C_WEIGHT, field);
    if (text && *text) {
        char *end;
        shape->weight = strtod(text, &end);
        if (*end || !isfinite(shape->weight) || shape->weight <= 0)
            return rfg_refuse(why, "'%.40s': must be a number above 0", text);
    }
    return true;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* "1..256" in a field. */
struct range {
    int field;               /* -1: the line has none */
    const char *begin, *end; /* in the field's text */
    int64_t low, high;
};

static bool find_range(const struct reader *r, char *const *field, struct range *range, struct rfg_reason *why)
{
    *range = (struct range){ .field = -1 };
    for (int i = 0; i < r->n_header; i++) {
        const char *dots = strstr(field[i], "..");
        if (!dots)
            continue;
        if (range->field >= 0 || strstr(dots + 1, ".."))
            return rfg_refuse(why, "'%.40s': has a second range: a line may have one", field[i]);
        range->field = i;
        range->begin = dots;
        while (range->begin > field[i] && range->begin[-1] >= '0' && range->begin[-1] <= '9')
            range->begin--;
        size_t digits = strspn(dots + 2, "0123456789");
        range->end = dots + 2 + digits;
        if (range->begin == dots || dots - range->begin > 10 || !digits || digits > 10)
            return rfg_refuse(why, "'%.40s': a range must be low..high, two whole numbers", field[i]);
        range->low = strtoll(range->begin, NULL, 10);
        range->high = strtoll(dots + 2, NULL, 10);
        if (range->low > range->high || range->high - range->low >= RFG_PREPARE_MAX)
            return rfg_refuse(why, "'%.40s': low must not be above high, and at most %d problems", field[i],
                              RFG_PREPARE_MAX);
    }
    return true;
}

/* AITER's tuned rows of a GPU with that many CUs, which there isn't, match no GPU there; the problem is one all the
 * same.
 */
static void look_at_gpu(struct reader *r, char *const *field, int line)
{
    const char *gfx = value(r, C_GFX, field), *cus = value(r, C_CUS, field);
    int64_t n;
    if (!cus || !*cus || (parse_size(cus, &n) && n <= 65535 && rfg_device_has_cus(gfx ? gfx : "gfx", (int)n)))
        return;
    if (!r->n_impossible++)
        snprintf(r->impossible, sizeof(r->impossible), "line %d, cu_num %.20s of %.20s", line, cus,
                 gfx ? gfx : "any AMD GPU");
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static bool grow(struct reader *r)
{
    size_t room = r->room ? 2 * r->room : 64;
    struct rfg_shape *v = realloc(r->out->v, room * sizeof(*v));
    if (v)
        r->out->v = v;
    struct slot *seen = v ? calloc(2 * room, sizeof(*seen)) : NULL;
    if (!seen)
        return false;
    for (size_t i = 0; r->seen && i <= r->mask; i++)
        if (r->seen[i].shape) {
            size_t j = r->seen[i].hash & (2 * room - 1);
            while (seen[j].shape)
                j = (j + 1) & (2 * room - 1);
            seen[j] = r->seen[i];
        }
    free(r->seen);
    r->seen = seen;
    r->mask = 2 * room - 1;
    r->room = room;
    return true;
}

/* Ends the reading with an error that is none. */
static rfg_status leave_out_rest(struct reader *r, int line)
{
    r->left_out = line;
    r->out->n_bad++;
    return RFG_ERROR_IO;
}

static rfg_status add(struct reader *r, const struct rfg_shape *shape)
{
    struct rfg_shapes *out = r->out;
    if (out->n == r->room && !grow(r))
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s:%d: no memory for another shape", r->path, shape->line);
    uint64_t hash = rfg_problem_hash(&shape->problem);
    size_t i = hash & r->mask;
    for (; r->seen[i].shape; i = (i + 1) & r->mask) {
        const struct rfg_shape *other = &out->v[r->seen[i].shape - 1];
        if (r->seen[i].hash == hash && rfg_problem_equal(&other->problem, &shape->problem)) {
            if (!r->n_same++) {
                r->first_same_line = shape->line;
                r->first_same_as = other->line;
            }
            if (r->is_log)
                out->v[r->seen[i].shape - 1].weight += shape->weight;
            return RFG_OK;
        }
    }
    if (out->n == MAX_SHAPES)
        return leave_out_rest(r, shape->line);
    out->v[out->n++] = *shape;
    r->seen[i] = (struct slot){ hash, out->n };
    return RFG_OK;
}

/* Is the line's op one that has a third size? */
static bool wants_k(const struct reader *r, char *const *field)
{
    const char *name = value(r, C_OP, field);
    const struct rfg_op *op = name ? rfg_op_find(name, strlen(name)) : NULL;
    return op && op->column_key[2];
}

/* What each number of the range makes of the line; a line of which one is refused adds those before it. */
static rfg_status add_range(struct reader *r, char *const *field, const struct range *range, struct rfg_shape *shape)
{
    char *one[RFG_CSV_FIELDS], *text = field[range->field];
    rfg_status st = RFG_OK;
    memcpy(one, field, (size_t)r->n_header * sizeof(*one));
    for (int64_t v = range->low; v <= range->high && st == RFG_OK; v++) {
        struct rfg_reason why = { "" };
        const char *column;
        one[range->field] = rfg_asprintf("%.*s%" PRId64 "%s", (int)(range->begin - text), text, v, range->end);
        if (!one[range->field])
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s:%d: out of memory", r->path, shape->line);
        bool ok = read_row(r, one, shape, &column, &why);
        free(one[range->field]);
        if (!ok) {
            refuse(r, shape->line, "column %s: %s", column, why.text);
            break;
        }
        st = add(r, shape);
    }
    return st;
}

static rfg_status read_line(void *ctx, int line, int n, char *const *field, const char *bad)
{
    struct reader *r = ctx;
    struct rfg_shape shape = { .line = line };
    struct rfg_reason why = { "" };
    const char *column;
    if (++r->lines > MAX_LINES)
        return leave_out_rest(r, line);
    if (!r->n_header)
        return bad ? rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: header: %s", r->path, line, bad)
                   : read_header(r, line, n, field);
    struct range range;
    if (!bad && n == r->n_header)
        look_at_gpu(r, field, line);
    if (bad)
        refuse(r, line, "%s", bad);
    else if (n == r->n_header && !has(r, C_K) && wants_k(r, field))
        return no_column(r, r->header_line, C_K);
    else if (n != r->n_header)
        refuse(r, line, "%d fields: must be %d, as in the header", n, r->n_header);
    else if (!find_range(r, field, &range, &why))
        refuse(r, line, "%s", why.text);
    else if (range.field >= 0)
        return add_range(r, field, &range, &shape);
    else if (!read_row(r, field, &shape, &column, &why))
        refuse(r, line, "column %s: %s", column, why.text);
    else
        return add(r, &shape);
    return RFG_OK;
}

/* The first 64 KiB of a file; NULL for what can be read but once. */
static char *read_head(const char *path)
{
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;
    char *head = f ? calloc(1, RFG_MAX_LINE + 1) : NULL;
    size_t n = head ? fread(head, 1, RFG_MAX_LINE, f) : 0;
    for (size_t i = 0; i < n; i++)
        head[i] = head[i] ? head[i] : ' ';
    if (f)
        fclose(f);
    return head;
}

/* A log, line by line; what else is in it is passed over. */
static rfg_status read_log(struct reader *r, rfg_shapes_line_fn parse)
{
    FILE *f = fopen(r->path, "rbe");
    char *text = malloc(RFG_MAX_LINE + 1);
    bool too_long;
    rfg_status st = !f      ? rfg_fail(RFG_ERROR_IO, "%s: cannot read: %s", r->path, strerror(errno))
                    : !text ? rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a line", r->path)
                            : RFG_OK;
    for (long len; st == RFG_OK && (len = rfg_next_line(f, text, &too_long)) >= 0;) {
        struct rfg_shape shape = { .weight = 1, .line = ++r->lines };
        struct rfg_reason why = { "" };
        text[len] = 0;
        if (r->lines > MAX_LINES) {
            st = leave_out_rest(r, r->lines);
            break;
        }
        int found = !too_long && strlen(text) == (size_t)len ? parse(text, &shape.problem, &why) : 0;
        if (found < 0)
            refuse(r, r->lines, "%s", why.text);
        else if (found)
            st = add(r, &shape);
    }
    if (st == RFG_OK && ferror(f))
        st = rfg_fail(RFG_ERROR_IO, "%s: cannot read: %s", r->path, strerror(errno));
    free(text);
    if (f)
        fclose(f);
    return st;
}

rfg_status rfg_shapes_read(const char *path, struct rfg_shapes *out, void (*bad)(void *ctx, const char *message),
                           void *ctx)
{
    struct reader r = { .path = path, .out = out, .bad = bad, .ctx = ctx };
    memset(out, 0, sizeof(*out));
    char message[500], *head = read_head(path);
    rfg_shapes_line_fn parse = head ? rfg_shapes_form(head) : NULL;
    free(head);
    r.is_log = parse != NULL;
    rfg_status st = parse ? read_log(&r, parse) : rfg_csv_read(path, read_line, &r);
    if (r.left_out)
        st = RFG_OK;
    if (r.left_out && bad) {
        snprintf(message, sizeof(message),
                 "%.300s:%d: the rest of the file is left out: must be at most %d problems in %d lines", path,
                 r.left_out, MAX_SHAPES, MAX_LINES);
        bad(ctx, message);
    }
    if (out->n_bad > MOST_BAD && bad) {
        snprintf(message, sizeof(message), "%.300s: %zu lines refused in all", path, out->n_bad);
        bad(ctx, message);
    }
    if (st == RFG_OK && !r.is_log && !r.n_header)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: empty: must begin with a header line, op,dtype,M,N,K", path);
    if (st == RFG_OK && !out->n && !out->n_bad)
        st = rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s: has %s and no shapes: must have a line for each", path,
                      r.is_log ? "a log's lines" : "a header");
    if (r.n_impossible)
        rfg_warn("%s: note: %d rows are of GPUs that there aren't, and match none (the first: %s); taken as shapes",
                 path, r.n_impossible, r.impossible);
    if (r.n_same && !r.is_log)
        rfg_warn("%s: note: %d lines repeat a problem, which is taken once (the first: line %d, as line %d)", path,
                 r.n_same, r.first_same_line, r.first_same_as);
    for (int i = 0; i < r.n_header; i++)
        free(r.name[i]);
    free(r.seen);
    if (st != RFG_OK)
        rfg_shapes_free(out);
    return st;
}

void rfg_shapes_free(struct rfg_shapes *s)
{
    free(s->v);
    memset(s, 0, sizeof(*s));
}
