/* SPDX-License-Identifier: MIT
 *
 * Reading CSV line by line: a file of any size takes the memory of one line. */
#include <csv.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db_internal.h"
#include "base/util.h"

#define MAX_LINE RFG_MAX_LINE

struct record {
    int n;
    char *field[RFG_CSV_FIELDS];
    bool too_many, has_nul, no_memory;
};

static void on_field(void *data, size_t len, void *ctx)
{
    struct record *r = ctx;
    if (r->n == RFG_CSV_FIELDS) {
        r->too_many = true;
        return;
    }
    char *copy = malloc(len + 1);
    if (!copy) {
        r->no_memory = true;
        return;
    }
    if (len)
        memcpy(copy, data, len);
    copy[len] = 0;
    r->has_nul |= strlen(copy) != len;
    r->field[r->n++] = copy;
}

static void on_record(int end, void *ctx)
{
    (void)end;
    (void)ctx;
}

/* One line is one record: a quote that is never closed costs its own line, not the rest of the file. Why it is
 * malformed, or NULL; without memory r says so. */
static const char *parse_line(const char *line, size_t len, struct record *r)
{
    struct csv_parser p;
    memset(r, 0, sizeof(*r));
    if (csv_init(&p, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL)) {
        r->no_memory = true;
        return NULL;
    }
    const char *bad = NULL;
    if (csv_parse(&p, line, len, on_field, on_record, r) != len || csv_fini(&p, on_field, on_record, r))
        bad = csv_error(&p) == CSV_EPARSE ? "the quotes must enclose a whole field and be closed on the same line"
                                          : csv_strerror(csv_error(&p));
    r->no_memory |= csv_error(&p) == CSV_ENOMEM;
    csv_free(&p);
    if (!bad && r->too_many)
        bad = "there are too many fields";
    if (!bad && r->has_nul)
        bad = "there is a NUL byte";
    return bad;
}

long rfg_next_line(FILE *f, char *line, bool *too_long)
{
    long n = 0;
    int c;
    *too_long = false;
    while ((c = getc_unlocked(f)) != EOF && c != '\n')
        if (n < MAX_LINE)
            line[n++] = (char)c;
        else
            *too_long = true;
    if (c == EOF && !n)
        return -1;
    return n && line[n - 1] == '\r' && c == '\n' ? n - 1 : n;
}

rfg_status rfg_csv_read(const char *path, rfg_csv_fn fn, void *ctx)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return rfg_fail(RFG_ERROR_IO, "%s: cannot read: %s", path, strerror(errno));
    rfg_status st = rfg_csv_read_stream(f, path, fn, ctx);
    fclose(f);
    return st;
}

rfg_status rfg_csv_read_stream(FILE *f, const char *path, rfg_csv_fn fn, void *ctx)
{
    static const char bom[] = "\xef\xbb\xbf";
    char *buf = malloc(MAX_LINE);
    rfg_status st = buf ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a line", path);
    bool too_long;
    long len;
    errno = 0;
    for (int line = 1; st == RFG_OK && (len = rfg_next_line(f, buf, &too_long)) >= 0; line++) {
        const char *s = buf, *stop = buf + len;
        if (line == 1 && len >= 3 && !memcmp(s, bom, 3))
            s += 3;
        size_t blank = 0;
        while (s + blank < stop && (s[blank] == ' ' || s[blank] == '\t'))
            blank++;
        if (s + blank < stop && s[blank] != '#') {
            struct record r = { .n = 0 };
            const char *bad = too_long ? "longer than 65536 bytes" : parse_line(s, (size_t)(stop - s), &r);
            st = r.no_memory ? rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s:%d: no memory for the line", path, line)
                             : fn(ctx, line, bad ? 0 : r.n, r.field, bad);
            for (int i = 0; i < r.n; i++)
                free(r.field[i]);
        }
    }
    if (st == RFG_OK && ferror(f))
        st = rfg_fail(RFG_ERROR_IO, "%s: cannot read: %s", path, strerror(errno));
    free(buf);
    return st;
}
