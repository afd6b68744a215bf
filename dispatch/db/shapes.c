/* SPDX-License-Identifier: MIT
 *
 * Shapes files: what is to be tuned, benched or prepared. Ours, and AITER's untuned_*.csv and tuned_*.csv. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "db_internal.h"
#include "dispatch/hip/hip.h"
#include "ops/operand.h"
#include "shapes_aiter.h"
#include "shapes_logs.h"

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
    C_US,
    C_US_ON,
    C_AITER, /* one of AITER's that isn't ours, too */
    C_KEY,   /* + index: a column named like a key of the op, e.g. bias */
};

static const char *const known[] = {
    [C_OP] = "op",       [C_DTYPE] = "dtype",   [C_M] = "M",   [C_N] = "N",         [C_K] = "K",
    [C_ATTRS] = "attrs", [C_WEIGHT] = "weight", [C_US] = "us", [C_US_ON] = "us_on",
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
    bool aiter, mixture; /* no column op; a column token */
    unsigned notes;      /* of shapes_aiter.h */
    char *const *row;    /* the line that is read */

    struct slot { /* the problems so far, by hash; open addressing */
        uint64_t hash;
        size_t shape; /* + 1; 0: empty */
    } * seen;
    size_t mask;
    int n_same, first_same_line, first_same_as;
    int n_impossible; /* lines of GPUs that don't exist */
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
                    "AITER's M,N,K[,bias][,dtype][,outdtype] or token,model_dim,inter_dim,expert,topk,...",
                    r->path, line, known[c]);
}

/* Which column is it? False: none. */
static bool find_column(struct reader *r, const char *name, enum column *column)
{
    for (enum column c = C_OP; c <= C_US_ON; c++)
        if (!strcmp(name, known[c]) && (!r->aiter || c < C_US) && (!r->aiter || c != C_ATTRS)) {
            *column = c;
            return true;
        }
    *column = r->aiter && rfg_aiter_knows(name) && strcmp(name, "bias") ? C_AITER : C_KEY;
    return *column == C_AITER || (is_key(name) && !r->mixture);
}

static rfg_status read_header(struct reader *r, int line, int n, char *const *field)
{
    r->aiter = true;
    for (int i = 0; i < n; i++) {
        r->aiter &= strcmp(field[i], "op") != 0;
        r->mixture |= !strcmp(field[i], "token");
    }
    r->mixture &= r->aiter;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            if (!strcmp(field[i], field[j]))
                return header_error(r, line, field[i], "is there twice");
        if (!find_column(r, field[i], &r->column[i]))
            return header_error(r, line, field[i],
                                r->aiter ? "must be one of AITER's files' (there is no column op), or a key of gemm"
                                         : "must be one of op, dtype, M, N, K, attrs, weight, us, us_on or a key of an "
                                           "operator");
        if (!(r->name[i] = strdup(field[i])))
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: out of memory", r->path);
        r->n_header = i + 1;
        r->header_line = line;
    }
    for (enum column c = C_M; c <= (r->aiter ? C_K : C_N) && !r->mixture; c++)
        if (!has(r, c))
            return no_column(r, line, c);
    if (!r->aiter && !has(r, C_DTYPE))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "%s:%d: column dtype is missing from the header", r->path, line);
    return RFG_OK;
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* "bf16" -> "bf16,bf16->bf16" for an op with two inputs. A full signature stays as it is. */
static bool set_dtypes(struct rfg_problem *p, const char *text, struct rfg_reason *why)
{
    char all[160];
    size_t at = 0;
    if (strstr(text, "->"))
        return rfg_problem_parse_dtypes(p, text, why);
    for (int i = 0; i < p->op->n_in + p->op->n_out && at < sizeof(all); i++)
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%.20s",
                               i == 0             ? ""
                               : i == p->op->n_in ? "->"
                                                  : ",",
                               rfg_shapes_dtype(text));
    struct rfg_reason full;
    if (rfg_problem_parse_dtypes(p, all, &full))
        return true;
    return rfg_refuse(why, "'%.40s': must be bf16, f16 or f32, or a signature such as bf16,bf16->f32", text);
}

static bool parse_size(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v < 1 || v > RFG_MAX_SIZE)
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

/* A field of the row by its column's name. */
static const char *field_named(const void *ctx, const char *column)
{
    const struct reader *r = ctx;
    for (int i = 0; i < r->n_header; i++)
        if (!strcmp(r->name[i], column))
            return r->row[i];
    return NULL;
}

static struct rfg_aiter_row aiter_row(struct reader *r, char *const *field)
{
    r->row = field;
    return (struct rfg_aiter_row){ r->path, field_named, r };
}

/* weight; us and us_on, or what AITER measured. */
static bool read_numbers(struct reader *r, char *const *field, struct rfg_shape *shape, const char **column,
                         struct rfg_reason *why)
{
    struct rfg_aiter_row row = aiter_row(r, field);
    static const enum column numbers[] = { C_WEIGHT, C_US };
    double *to[] = { &shape->weight, &shape->us };
    shape->weight = 1;
    for (int i = 0; i < 2; i++) {
        const char *text = value(r, numbers[i], field);
        char *end;
        if (!text || !*text)
            continue;
        *column = known[numbers[i]];
        *to[i] = strtod(text, &end);
        if (*end || !isfinite(*to[i]) || *to[i] <= 0)
            return rfg_refuse(why, "'%.40s': must be a number above 0", text);
    }
    const char *on = value(r, C_US_ON, field);
    snprintf(shape->us_on, sizeof(shape->us_on), "%s", on ? on : "");
    if (r->aiter)
        rfg_aiter_measured(&row, "us", shape);
    return true;
}

/* AITER's batch of products of M, N, K: a grouped one of as many experts, of M rows each. */
static bool set_batch(struct rfg_problem *p, int64_t batch, struct rfg_reason *why)
{
    int m = rfg_op_key(p->op, "M");
    if (p->v[m] * batch > RFG_MAX_SIZE)
        return rfg_refuse(why, "'%" PRId64 "': B times M must be at most %d", batch, RFG_MAX_SIZE);
    p->v[m] *= batch;
    p->v[rfg_op_key(p->op, "experts")] = batch;
    return true;
}

static bool read_row(struct reader *r, char *const *field, struct rfg_shape *shape, const char **column,
                     struct rfg_reason *why)
{
    struct rfg_problem *p = &shape->problem;
    const char *text = r->aiter ? "gemm" : value(r, C_OP, field);
    const struct rfg_op *op = rfg_op_find(text, strlen(text));
    *column = "op";
    if (!op)
        return rfg_refuse(why, "'%.40s': no such operator", text);
    rfg_problem_init(p, op);

    struct rfg_aiter_product aiter = { .batch = 0 };
    struct rfg_aiter_row row = aiter_row(r, field);
    if (r->aiter && !rfg_aiter_product(&row, &aiter, column, why))
        return false;
    *column = "dtype";
    if (!set_dtypes(p, r->aiter ? aiter.dtypes : value(r, C_DTYPE, field), why))
        return false;

    for (int i = 0; i < 3; i++) {
        int64_t v;
        *column = known[C_M + i];
        text = value(r, C_M + i, field);
        if (!op->column_key[i]) {
            if (text && *text && strcmp(text, "0"))
                return rfg_refuse(why, "'%.40s': must be empty: %s has no such size", text, op->name);
        } else if (!parse_size(text, &v) || !rfg_problem_set(p, op->column_key[i], text, NULL)) {
            return rfg_refuse(why, "'%.40s': must be a whole number from 1 to %d", text, RFG_MAX_SIZE);
        }
    }

    /* Sizes that have no column here may have come in columns named like them: collect all as attributes. */
    char attrs[RFG_PROBLEM_STRLEN];
    text = value(r, C_ATTRS, field);
    size_t at = (size_t)snprintf(attrs, sizeof(attrs), "%s", r->aiter ? aiter.attrs : text ? text : "");
    for (int i = 0; i < r->n_header && at < sizeof(attrs); i++) {
        if (r->column[i] != C_KEY || !*field[i])
            continue;
        *column = r->name[i];
        if (rfg_op_key(op, r->name[i]) < 0)
            return rfg_refuse(why, "'%.40s': must be empty: %s has no such key", field[i], op->name);
        at += (size_t)snprintf(attrs + at, sizeof(attrs) - at, " %s=%s", r->name[i], flag(field[i]));
    }
    *column = "attrs";
    if (at >= sizeof(attrs))
        return rfg_refuse(why, "'%.40s...': must be shorter than %zu characters", attrs, sizeof(attrs));
    if (!rfg_problem_set_attrs(p, attrs, why))
        return false;
    *column = "B";
    if (aiter.batch && !set_batch(p, aiter.batch, why))
        return false;
    r->notes |= aiter.notes;
    *column = "dtype";
    if (!op->valid(p, why))
        return false;

    return read_numbers(r, field, shape, column, why);
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
 * same. */
static void look_at_gpu(struct reader *r, char *const *field, int line)
{
    struct rfg_aiter_row row = aiter_row(r, field);
    const char *gfx = row.field(row.ctx, "gfx"), *cus = row.field(row.ctx, "cu_num");
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
    for (char *s = out->v[out->n - 1].us_on; *s; s++) /* it is written to other CSV files */
        *s = strchr(",\"\\#", *s) || *s < ' ' || *s > '~' ? '_' : *s;
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

/* A line of a mixture of experts: its problems. */
static rfg_status add_mixture(struct reader *r, char *const *field, const struct rfg_shape *shape)
{
    struct rfg_shape pieces[RFG_AITER_PIECES];
    struct rfg_aiter_row row = aiter_row(r, field);
    struct rfg_reason why = { "" };
    const char *column = "";
    rfg_status st = RFG_OK;
    struct rfg_shape all = *shape;
    int n = read_numbers(r, field, &all, &column, &why) ? rfg_aiter_mixture(&row, pieces, &r->notes, &column, &why) : 0;
    if (!n)
        refuse(r, shape->line, "column %s: %s", column, why.text);
    for (int i = 0; i < n && st == RFG_OK; i++) {
        pieces[i].line = shape->line;
        pieces[i].weight = all.weight;
        st = add(r, &pieces[i]);
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
    else if (r->mixture && range.field < 0)
        return add_mixture(r, field, &shape);
    else if (range.field >= 0 && !r->mixture)
        return add_range(r, field, &range, &shape);
    else if (range.field >= 0)
        refuse(r, line, "'%.40s': must have no range: a mixture of experts is several problems", field[range.field]);
    else if (!read_row(r, field, &shape, &column, &why))
        refuse(r, line, "column %s: %s", column, why.text);
    else
        return add(r, &shape);
    return RFG_OK;
}

/* The form of a log, by the first 64 KiB of the file; NULL: it is none, or can be read but once. */
static rfg_status look_at_head(const char *path, rfg_shapes_line_fn *form)
{
    struct stat st;
    *form = NULL;
    bool there = stat(path, &st) == 0;
    if (there && !S_ISREG(st.st_mode))
        return RFG_OK;
    int fd = there ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char *head = fd >= 0 ? calloc(1, RFG_MAX_LINE + 1) : NULL;
    size_t n = head ? rfg_read_at(fd, head, RFG_MAX_LINE, 0) : 0;
    bool read = head && (n == RFG_MAX_LINE || !errno);
    rfg_status status = read ? RFG_OK : rfg_fail(RFG_ERROR_IO, "%s: cannot read: %s", path, strerror(errno));
    for (size_t i = 0; i < n; i++)
        head[i] = head[i] ? head[i] : ' ';
    if (read)
        *form = rfg_shapes_form(head);
    if (fd >= 0)
        close(fd);
    free(head);
    return status;
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
    char message[500];
    rfg_shapes_line_fn parse;
    rfg_status st = look_at_head(path, &parse);
    r.is_log = parse != NULL;
    if (st == RFG_OK)
        st = parse ? read_log(&r, parse) : rfg_csv_read(path, read_line, &r);
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
        rfg_warn("%s: note: %d rows are of GPUs that don't exist, and match none (the first: %s); taken as shapes",
                 path, r.n_impossible, r.impossible);
    for (int i = 0; i < RFG_AITER_N_NOTES; i++)
        if (r.notes >> i & 1)
            rfg_warn("%s: note: %s", path, rfg_aiter_notes[i]);
    if (r.n_same && !r.is_log && !r.mixture)
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
