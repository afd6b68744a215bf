/* SPDX-License-Identifier: MIT
 *
 * A kernel's translation unit as one text. Compilers are given no include path and no headers: what a source includes
 * is put in place here, once a file, wherever the first #include of it stands (so don't put one inside an #if). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/embed.h"
#include "jit.h"
#include "base/util.h"

#define MAX_FILES 48
#define MAX_DEPTH 8
#define NO_MEMORY "%s: no memory to expand it"

struct expansion {
    FILE *out;
    const char *line_directive; /* "#line", or "#" as assemblers know it; NULL: none */
    int n_seen, depth;
    char seen[MAX_FILES][128];
};

/* The text of ops/<name>, malloc'ed: $RFG_KERNEL_DIR's copy before the embedded one; NULL if there is neither, or no
 * memory (*known: there is one). */
static char *read_source(const char *name, bool *known)
{
    const char *dir = rfg_env("RFG_KERNEL_DIR");
    char *path = dir ? rfg_asprintf("%s/%s", dir, name) : NULL;
    char *text = path ? rfg_read_file(path, NULL) : NULL;
    free(path);
    *known = text != NULL;
    for (const struct rfg_embedded *e = rfg_embedded; !*known && e->name; e++)
        if ((*known = !strcmp(e->name, name)))
            text = strdup(e->text);
    return text;
}

bool rfg_jit_sources_there(struct rfg_reason *why)
{
    const char *dir = rfg_env("RFG_KERNEL_DIR");
    bool found = !dir;
    for (const struct rfg_embedded *e = rfg_embedded; !found && e->name; e++) {
        char *path = rfg_asprintf("%s/%s", dir, e->name);
        found = path && rfg_access(path, R_OK);
        free(path);
    }
    return found || rfg_refuse(why, "RFG_KERNEL_DIR=%.90s: must have kernel sources, as ops/ has them", dir);
}

/* If the line is `#<word> ...`, the text behind the word; else NULL. */
static const char *directive(const char *line, const char *word)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return NULL;
    line += strspn(line, " \t");
    size_t n = strlen(word);
    return strncmp(line, word, n) ? NULL : line + n + strspn(line + n, " \t");
}

static bool expand_file(struct expansion *x, const char *name, const char *from, int from_line);

static bool expand_include(struct expansion *x, const char *wanted, const char *from, int from_line)
{
    char name[128];
    size_t len = strcspn(wanted, "\"\n");
    if (wanted[len] != '"' || len + sizeof("device/") > sizeof(name)) {
        rfg_fail(RFG_ERROR_INTERNAL, "%s:%d: #include \"%.60s: must be a file name in quotes, at most %zu characters",
                 from, from_line, wanted, sizeof(name) - sizeof("device/"));
        return false;
    }
    snprintf(name, sizeof(name), "%.*s", (int)len, wanted);
    bool known;
    free(read_source(name, &known));
    if (!known) {
        snprintf(name, sizeof(name), "device/%.*s", (int)len, wanted);
        free(read_source(name, &known));
    }
    if (!known) {
        rfg_fail(RFG_ERROR_INTERNAL, "%s:%d: #include \"%.*s\": neither %s nor that under device/ is an embedded file",
                 from, from_line, (int)len, wanted, name + 7);
        return false;
    }
    return expand_file(x, name, from, from_line);
}

static bool expand_file(struct expansion *x, const char *name, const char *from, int from_line)
{
    for (int i = 0; i < x->n_seen; i++)
        if (!strcmp(x->seen[i], name)) {
            fputc('\n', x->out); /* in the #include's place */
            return true;
        }
    if (x->n_seen == MAX_FILES || x->depth == MAX_DEPTH || strlen(name) >= sizeof(x->seen[0])) {
        rfg_fail(RFG_ERROR_INTERNAL, "%s:%d: %.60s: at most %d files and %d levels of #include", from, from_line, name,
                 MAX_FILES, MAX_DEPTH);
        return false;
    }
    strcpy(x->seen[x->n_seen++], name);
    bool known;
    char *text = read_source(name, &known);
    if (!text) {
        if (known)
            rfg_fail(RFG_ERROR_OUT_OF_MEMORY, NO_MEMORY, name);
        else
            rfg_fail(RFG_ERROR_INTERNAL, "%s: not an embedded kernel source", name);
        return false;
    }
    if (x->line_directive)
        fprintf(x->out, "%s 1 \"%s\"\n", x->line_directive, name);
    bool ok = true;
    int number = 1;
    x->depth++;
    for (char *line = text, *next; ok && *line; line = next, number++) {
        size_t len = strcspn(line, "\n");
        next = line + len + (line[len] == '\n');
        const char *include = directive(line, "include"), *pragma = directive(line, "pragma");
        if (include && *include == '"') {
            ok = expand_include(x, include + 1, name, number);
            if (ok && x->line_directive)
                fprintf(x->out, "%s %d \"%s\"\n", x->line_directive, number + 1, name);
        } else if (pragma && !strncmp(pragma, "once", 4)) {
            fputc('\n', x->out);
        } else {
            fprintf(x->out, "%.*s\n", (int)len, line);
        }
    }
    x->depth--;
    free(text);
    return ok;
}

bool rfg_jit_is_assembly(const struct rfg_kernel *k)
{
    size_t len = strlen(k->source);
    return len > 2 && !strcmp(k->source + len - 2, ".s");
}

/* k NULL: no macros, no #line. */
static char *expand(const char *source, const struct rfg_kernel *k)
{
    char *text = NULL;
    size_t size = 0;
    struct expansion *x = calloc(1, sizeof(*x));
    if (!x || !(x->out = rfg_text_stream(&text, &size))) {
        free(x);
        rfg_fail(RFG_ERROR_OUT_OF_MEMORY, NO_MEMORY, source);
        return NULL;
    }
    bool assembly = k && rfg_jit_is_assembly(k);
    for (int i = 0; k && i < k->n_macros; i++)
        fprintf(x->out, assembly ? ".set %s, %d\n" : "#define %s %d\n", k->macros[i].name, k->macros[i].value);
    x->line_directive = !k ? NULL : assembly ? "#" : "#line";
    bool ok = expand_file(x, source, source, 0);
    bool written = !ferror(x->out);
    if (fclose(x->out) || !written) {
        rfg_fail(RFG_ERROR_OUT_OF_MEMORY, NO_MEMORY, source);
        ok = false;
    }
    free(x);
    if (!ok) {
        free(text);
        return NULL;
    }
    return text;
}

char *rfg_jit_expand(const struct rfg_kernel *k)
{
    return expand(k->source, k);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

void rfg_jit_strip(char *text)
{
    char *out = text;
    bool gap = false; /* something left out lies between this and what came before */
    for (const char *s = text; *s;) {
        const char *from = s;
        if (s[0] == '/' && s[1] == '*') {
            const char *end = strstr(s + 2, "*/");
            s = end ? end + 2 : s + strlen(s);
        } else if (s[0] == '/' && s[1] == '/') {
            s += strcspn(s, "\n");
        } else if (isspace((unsigned char)*s)) {
            s++;
        } else if (*s == '"' || *s == '\'') {
            for (s++; *s && *s != *from; s++)
                s += *s == '\\' && s[1];
            s += *s != 0;
        } else
            s++;
        bool kept = !isspace((unsigned char)*from) && !(from[0] == '/' && (from[1] == '*' || from[1] == '/'));
        if (kept) {
            if (gap && out > text && is_word(out[-1]) == is_word(*from))
                *out++ = ' ';
            memmove(out, from, (size_t)(s - from));
            out += s - from;
        }
        gap = !kept;
    }
    *out = 0;
}

void rfg_jit_source_hash(const char *source, char hex[65])
{
    char *text = expand(source, NULL);
    hex[0] = 0;
    if (text)
        rfg_jit_strip(text);
    if (text)
        rfg_sha256_hex(hex, (const char *const[]){ text }, (const size_t[]){ strlen(text) }, 1);
    free(text);
}
