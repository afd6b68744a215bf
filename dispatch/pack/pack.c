/* SPDX-License-Identifier: MIT */
#include "pack.h"

#include <csv.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/util.h"
#include "dispatch/db/db_internal.h"
#include "ops/embed.h"

/* Also another when the host comes to expect of code what its text doesn't tell: a compiler's option
 * (wave size, ABI). */
#define FORMAT        1
#define OLDEST_SCHEMA 4 /* of rows that are still understood */
#define MAX_INDEX     (64u << 20)
#define MAX_CODES     65536
#define HEX_LEN       64

/* The numbers are little-endian, as all hosts of GPUs are; elsewhere it is another format. */
struct header {
    char magic[8];
    uint32_t format, schema; /* RFG_DB_SCHEMA: what the rows' columns are */
    uint64_t codes_size, rows_size, code_size;
    char version[16];
    char checksum[HEX_LEN]; /* hex SHA-256 of what is above and of the index */
};
static const char magic[8] = "RFGPACK";

struct rfg_pack {
    char *path;
    int fd;
    struct header h;
    struct rfg_pack_code *codes;
    uint64_t *offsets; /* of the code objects in the file */
    struct rfg_row *rows;
    size_t n_codes, room, n_rows;
    bool has_header;       /* of the table that is read */
    pthread_mutex_t mutex; /* of blobs */
    struct rfg_blob *blobs;
};

/* ---- the table of code objects ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset, size; /* in struct rfg_pack_code; size 0: the number */
} columns[] = {
#define TEXT(member)                                                                                                   \
    {                                                                                                                  \
#member, offsetof(struct rfg_pack_code, member), sizeof(((struct rfg_pack_code *)0)->member)                   \
    }
    TEXT(target),   TEXT(source),    TEXT(entry),       TEXT(macros),
    TEXT(compiler), TEXT(code_hash), TEXT(source_hash), { "size", offsetof(struct rfg_pack_code, size), 0 },
};
#define N_COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

bool rfg_pack_name(struct rfg_pack_code *code, const struct rfg_kernel *k, struct rfg_reason *why)
{
    size_t at = 0;
    snprintf(code->source, sizeof(code->source), "%s", k->source);
    snprintf(code->entry, sizeof(code->entry), "%s", k->entry);
    code->macros[0] = 0;
    for (int i = 0; i < k->n_macros && at < sizeof(code->macros); i++)
        at += (size_t)snprintf(code->macros + at, sizeof(code->macros) - at, "%s%s=%d", i ? " " : "", k->macros[i].name,
                               k->macros[i].value);
    return (at < sizeof(code->macros) && !strcmp(code->source, k->source) && !strcmp(code->entry, k->entry)) ||
           rfg_refuse(why, "%.80s: its name or its macros are longer than a pack has room for", k->source);
}

int rfg_pack_compare(const struct rfg_pack_code *a, const struct rfg_pack_code *b)
{
    int c = strcmp(a->target, b->target);
    c = c ? c : strcmp(a->source, b->source);
    c = c ? c : strcmp(a->entry, b->entry);
    return c ? c : strcmp(a->macros, b->macros);
}

static rfg_status bad_code(const struct rfg_pack *p, int line, const char *what)
{
    return rfg_fail(RFG_ERROR_DATABASE, "%s: line %d of its code objects: %s", p->path, line, what);
}

static rfg_status read_code_line(void *ctx, int line, int n, char *const *field, const char *bad)
{
    struct rfg_pack *p = ctx;
    if (bad || n != N_COLUMNS)
        return bad_code(p, line, bad ? bad : "must have as many fields as the header");
    if (!p->has_header) {
        for (int i = 0; i < N_COLUMNS; i++)
            if (strcmp(field[i], columns[i].name))
                return bad_code(p, line, "must name the columns as this version does");
        p->has_header = true;
        return RFG_OK;
    }
    if (p->n_codes == MAX_CODES)
        return bad_code(p, line, "there are more than 65536");
    if (p->n_codes == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        struct rfg_pack_code *more = realloc(p->codes, room * sizeof(*more));
        if (!more)
            return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its code objects", p->path);
        p->codes = more;
        p->room = room;
    }
    struct rfg_pack_code *c = &p->codes[p->n_codes];
    memset(c, 0, sizeof(*c));
    for (int i = 0; i < N_COLUMNS; i++) {
        char *end;
        if (columns[i].size) {
            if (strlen(field[i]) >= columns[i].size || !rfg_is_printable(field[i]))
                return bad_code(p, line, "a field is too long, or can't be printed");
            strcpy((char *)c + columns[i].offset, field[i]);
        } else if ((c->size = strtoull(field[i], &end, 10)) > RFG_MAX_CODE || *end || *field[i] < '0' ||
                   *field[i] > '9') {
            return bad_code(p, line, "size must be a number of at most 256 MiB");
        }
    }
    if (p->n_codes && rfg_pack_compare(c - 1, c) >= 0)
        return bad_code(p, line, "must be in order, each there once");
    p->n_codes++;
    return RFG_OK;
}

static void write_codes(FILE *f, const struct rfg_pack_code *codes, size_t n)
{
    for (int i = 0; i < N_COLUMNS; i++)
        fprintf(f, "%s%s", columns[i].name, i + 1 < N_COLUMNS ? "," : "\n");
    for (size_t k = 0; k < n; k++) {
        for (int i = 0; i < N_COLUMNS; i++) {
            const char *text = (const char *)&codes[k] + columns[i].offset;
            if (columns[i].size)
                csv_fwrite(f, text, strlen(text));
            else
                fprintf(f, "%llu", (unsigned long long)codes[k].size);
            fputc(i + 1 < N_COLUMNS ? ',' : '\n', f);
        }
    }
}

static void checksum(const struct header *h, const char *index, char hex[65])
{
    rfg_sha256_hex(hex, (const char *const[]){ (const char *)h, index },
                   (const size_t[]){ offsetof(struct header, checksum), h->codes_size + h->rows_size }, 2);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool fill_index(struct header *h, char **index, const struct rfg_pack_code *codes, size_t n_codes,
                       const struct rfg_row *rows, size_t n_rows)
{
    size_t size = 0;
    FILE *f = rfg_text_stream(index, &size);
    if (!f)
        return false;
    write_codes(f, codes, n_codes);
    fflush(f);
    h->codes_size = size;
    rfg_db_write_rows(f, rows, n_rows);
    bool ok = !ferror(f);
    ok = fclose(f) == 0 && ok;
    h->rows_size = size - h->codes_size;
    return ok;
}

static bool write_parts(const char *path, const struct header *h, const char *index,
                        const struct rfg_blob *const *blobs, size_t n)
{
    FILE *f = fopen(path, "wbxe");
    if (!f)
        return false;
    fwrite(h, sizeof(*h), 1, f);
    fwrite(index, 1, h->codes_size + h->rows_size, f);
    for (size_t i = 0; i < n; i++)
        fwrite(blobs[i]->data, 1, blobs[i]->size, f);
    bool ok = !ferror(f) && !fflush(f) && !fchmod(fileno(f), 0644) && !fsync(fileno(f));
    int err = errno;
    if (fclose(f) || !ok) {
        errno = ok ? errno : err;
        return false;
    }
    return true;
}

rfg_status rfg_pack_write(const char *path, const struct rfg_pack_code *codes, const struct rfg_blob *const *blobs,
                          size_t n_codes, const struct rfg_row *rows, size_t n_rows)
{
    struct header h = { .format = FORMAT, .schema = RFG_DB_SCHEMA };
    char hex[65], *index = NULL;
    bool fits = n_codes <= MAX_CODES;
    memcpy(h.magic, magic, sizeof(magic));
    snprintf(h.version, sizeof(h.version), "%s", rfg_version());
    for (size_t i = 0; i < n_codes; i++) {
        h.code_size += blobs[i]->size;
        fits &= blobs[i]->size <= RFG_MAX_CODE;
    }
    if (!fill_index(&h, &index, codes, n_codes, rows, n_rows)) {
        free(index);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its index", path);
    }
    if (!fits || h.codes_size + h.rows_size > MAX_INDEX) {
        free(index);
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "%s: a pack must have at most 65536 code objects of 256 MiB and an index of 64 MiB", path);
    }
    checksum(&h, index, hex);
    if (!*hex) {
        free(index);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its checksum", path);
    }
    memcpy(h.checksum, hex, HEX_LEN);

    struct rfg_tempdir dir = { NULL, -1 };
    char *prefix = rfg_asprintf("%s.tmp-", path);
    char *tmp = prefix && rfg_tempdir_make(&dir, prefix) ? rfg_asprintf("%s/pack", dir.path) : NULL;
    rfg_status st = RFG_OK;
    if (!tmp || !write_parts(tmp, &h, index, blobs, n_codes))
        st = rfg_fail(RFG_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
    else if (rename(tmp, path))
        st = rfg_fail(RFG_ERROR_IO, "%s: cannot rename to it: %s", path, strerror(errno));
    rfg_tempdir_remove(&dir);
    free(prefix);
    free(tmp);
    free(index);
    return st;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool rfg_pack_is(const char *path)
{
    char head[sizeof(magic)];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool is = fd >= 0 && rfg_read_at(fd, head, sizeof(head), 0) == sizeof(head) && !memcmp(head, magic, sizeof(magic));
    if (fd >= 0)
        close(fd);
    return is;
}

static rfg_status refuse(const struct rfg_pack *p, const char *what)
{
    return rfg_fail(RFG_ERROR_DATABASE, "%s: %s", p->path, what);
}

static rfg_status unread(const struct rfg_pack *p)
{
    return rfg_fail(RFG_ERROR_DATABASE, "%s: cannot be read: %s", p->path,
                    errno ? strerror(errno) : "it became shorter");
}

static rfg_status read_header(struct rfg_pack *p)
{
    struct stat st;
    struct header *h = &p->h;
    if (fstat(p->fd, &st))
        return unread(p);
    bool read = rfg_read_at(p->fd, h, sizeof(*h), 0) == sizeof(*h);
    if (!read && errno)
        return unread(p);
    if (!read || memcmp(h->magic, magic, sizeof(magic)))
        return refuse(p, "not a pack: must be a file that rfg-db pack wrote");
    if (h->format != FORMAT)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: pack format %u: must be %d, which rfg %s knows: pack anew", p->path,
                        h->format, FORMAT, rfg_version());
    if (h->schema < OLDEST_SCHEMA || h->schema > RFG_DB_SCHEMA)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: rows of schema %u: must be %d to %d, which rfg %s knows: pack anew",
                        p->path, h->schema, OLDEST_SCHEMA, RFG_DB_SCHEMA, rfg_version());
    uint64_t size = (uint64_t)st.st_size;
    bool sane = h->codes_size <= MAX_INDEX && h->rows_size <= MAX_INDEX &&
                h->code_size <= (uint64_t)MAX_CODES * RFG_MAX_CODE && memchr(h->version, 0, sizeof(h->version)) &&
                rfg_is_printable(h->version);
    uint64_t whole = sane ? sizeof(*h) + h->codes_size + h->rows_size + h->code_size : 0;
    if (!sane)
        return refuse(p, "damaged: its header has sizes that no pack has");
    if (size != whole)
        return rfg_fail(RFG_ERROR_DATABASE, "%s: %s: has %llu bytes: must have %llu", p->path,
                        size < whole ? "truncated" : "damaged", (unsigned long long)size, (unsigned long long)whole);
    return RFG_OK;
}

static rfg_status read_tables(struct rfg_pack *p, char *index)
{
    if (!p->h.codes_size || !p->h.rows_size)
        return refuse(p, "damaged: its index has an empty table");
    FILE *codes = fmemopen(index, p->h.codes_size, "r");
    FILE *rows = fmemopen(index + p->h.codes_size, p->h.rows_size, "r");
    rfg_status st = codes && rows ? rfg_csv_read_stream(codes, p->path, read_code_line, p)
                                  : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its index", p->path);
    if (st == RFG_OK && !p->has_header)
        st = bad_code(p, 1, "must name the columns");
    if (st == RFG_OK && rfg_db_read_rows(rows, "rows", &p->rows, &p->n_rows) != RFG_OK) {
        char why[600];
        snprintf(why, sizeof(why), "%s", rfg_last_error());
        st = rfg_fail(RFG_ERROR_DATABASE, "%s: %s (written by rfg %s, this is %s)", p->path, why, p->h.version,
                      rfg_version());
    }
    if (codes)
        fclose(codes);
    if (rows)
        fclose(rows);
    return st;
}

static rfg_status read_index(struct rfg_pack *p)
{
    char hex[65];
    size_t size = p->h.codes_size + p->h.rows_size;
    char *index = malloc(size + 1);
    if (!index)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its index", p->path);
    rfg_status st = rfg_read_at(p->fd, index, size, sizeof(p->h)) == size ? RFG_OK : unread(p);
    if (st == RFG_OK) {
        checksum(&p->h, index, hex);
        st = !*hex ? rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its checksum", p->path)
             : memcmp(hex, p->h.checksum, HEX_LEN) ? refuse(p, "damaged: wrong checksum of its index")
                                                   : RFG_OK;
    }
    if (st == RFG_OK)
        st = read_tables(p, index);
    free(index);
    if (st != RFG_OK)
        return st;
    p->offsets = calloc(p->n_codes + 1, sizeof(*p->offsets));
    p->blobs = calloc(p->n_codes + 1, sizeof(*p->blobs));
    if (!p->offsets || !p->blobs)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for its code objects", p->path);
    uint64_t at = sizeof(p->h) + size, begin = at;
    for (size_t i = 0; i < p->n_codes; i++) {
        p->offsets[i] = at;
        at += p->codes[i].size;
    }
    return at - begin == p->h.code_size ? RFG_OK : refuse(p, "damaged: its code objects are not as large as it says");
}

rfg_status rfg_pack_open(struct rfg_pack **out, const char *path)
{
    struct rfg_reason why;
    *out = NULL;
    struct rfg_pack *p = calloc(1, sizeof(*p));
    if (!p || !(p->path = strdup(path))) {
        free(p);
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a pack", path);
    }
    pthread_mutex_init(&p->mutex, NULL);
    p->fd = rfg_open_trusted_file(path, &why);
    rfg_status st = p->fd < 0 ? refuse(p, why.text) : read_header(p);
    if (st == RFG_OK)
        st = read_index(p);
    if (st == RFG_OK)
        *out = p;
    else
        rfg_pack_close(&p);
    return st;
}

void rfg_pack_close(struct rfg_pack **pack)
{
    struct rfg_pack *p = pack ? *pack : NULL;
    if (!p)
        return;
    for (size_t i = 0; p->blobs && i < p->n_codes; i++)
        rfg_blob_free(&p->blobs[i]);
    if (p->fd >= 0)
        close(p->fd);
    pthread_mutex_destroy(&p->mutex);
    free(p->blobs);
    free(p->offsets);
    free(p->codes);
    free(p->rows);
    free(p->path);
    free(p);
    *pack = NULL;
}

const char *rfg_pack_path(const struct rfg_pack *p)
{
    return p->path;
}

const char *rfg_pack_version(const struct rfg_pack *p)
{
    return p->h.version;
}

const struct rfg_pack_code *rfg_pack_codes(const struct rfg_pack *p, size_t *n)
{
    *n = p->n_codes;
    return p->codes;
}

const struct rfg_row *rfg_pack_rows(const struct rfg_pack *p, size_t *n)
{
    *n = p->n_rows;
    return p->rows;
}

/* ---- what a context asks ----------------------------------------------------------------------------------------- */

static bool is_embedded(const char *source)
{
    for (const struct rfg_embedded *e = rfg_embedded; e->name; e++)
        if (!strcmp(e->name, source))
            return true;
    return false;
}

rfg_status rfg_pack_check_target(const struct rfg_pack *p, const char *target)
{
    const struct rfg_pack_code *last = NULL;
    char hex[65] = "", others[200] = "";
    bool found = false;
    for (size_t i = 0; i < p->n_codes; i++) {
        const struct rfg_pack_code *c = &p->codes[i];
        size_t at = strlen(others);
        if (strcmp(c->target, target)) {
            if (!i || strcmp(c->target, c[-1].target))
                snprintf(others + at, sizeof(others) - at, "%s%s", at ? ", " : "", c->target);
            continue;
        }
        found = true;
        if (!last || strcmp(last->source, c->source)) {
            hex[0] = 0;
            if (is_embedded(c->source))
                rfg_jit_source_hash(c->source, hex);
            last = c;
        }
        if (strcmp(hex, c->source_hash))
            return rfg_fail(RFG_ERROR_DATABASE,
                            "%s: made by another build, rfg %s: its code for %s is of a %s that this rfg %s %s: pack "
                            "anew with this one",
                            p->path, p->h.version, target, c->source, rfg_version(),
                            *hex ? "has another text of" : "does not have");
    }
    return found ? RFG_OK
                 : rfg_fail(RFG_ERROR_DATABASE, "%s: has no code for %s: must be packed with --arch for it (has %s)",
                            p->path, target, *others ? others : "none at all");
}

const struct rfg_pack_code *rfg_pack_find(const struct rfg_pack *p, const char *target, const struct rfg_kernel *k)
{
    struct rfg_pack_code wanted;
    snprintf(wanted.target, sizeof(wanted.target), "%s", target);
    if (!rfg_pack_name(&wanted, k, NULL))
        return NULL;
    for (size_t lo = 0, hi = p->n_codes; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        int c = rfg_pack_compare(&p->codes[mid], &wanted);
        if (!c)
            return &p->codes[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

rfg_status rfg_pack_load(struct rfg_pack *p, const struct rfg_pack_code *code, const struct rfg_blob **blob)
{
    size_t i = (size_t)(code - p->codes);
    char hex[65];
    rfg_status st = RFG_OK;
    *blob = NULL;
    pthread_mutex_lock(&p->mutex);
    struct rfg_blob *b = &p->blobs[i];
    if (!b->data) {
        char *data = malloc(code->size + 1);
        if (!data)
            st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a code object", p->path);
        else if (rfg_read_at(p->fd, data, code->size, p->offsets[i]) < code->size)
            st = unread(p);
        if (st == RFG_OK) {
            rfg_sha256_hex(hex, (const char *const[]){ data }, (const size_t[]){ code->size }, 1);
            if (!*hex)
                st = rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "%s: no memory for a checksum", p->path);
            else if (strcmp(hex, code->code_hash))
                st = rfg_fail(RFG_ERROR_DATABASE, "%s: damaged: wrong checksum of the code of %s, %s for %s", p->path,
                              code->source, code->entry, code->target);
        }
        if (st == RFG_OK)
            *b = (struct rfg_blob){ data, code->size };
        else
            free(data);
    }
    if (st == RFG_OK)
        *blob = b;
    pthread_mutex_unlock(&p->mutex);
    return st;
}
