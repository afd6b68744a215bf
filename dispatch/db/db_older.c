/* SPDX-License-Identifier: MIT
 *
 * Problems of databases of schema 3 and older, as they are said today. Then window= was window_left, and gated gemms
 * were interleaved unless they said halves=1. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "db_internal.h"

/* Has attrs the word, or with begins one that begins so? */
static bool has(const char *attrs, const char *word, bool begins)
{
    size_t n = strlen(word);
    for (const char *s = attrs; (s = strstr(s, word)); s++)
        if ((s == attrs || s[-1] == ' ') && (begins || !s[n] || s[n] == ' '))
            return true;
    return false;
}

/* One of attrs' words to out, with a space before it unless it is the first; how long that is. */
static size_t word_of_3(const char *op, const char *attrs, const char *word, char *out, size_t size)
{
    int n = (int)strcspn(word, " "), gap = attrs == word ? 0 : 1;
    bool gemm = !strcmp(op, "gemm"), decode = !strcmp(op, "mha_decode");
    bool behind = has(attrs, "causal=1", false) || (decode && !has(attrs, "Sq=", true));
    long long left;
    if (gemm && !strncmp(word, "halves=1", (size_t)n) && n == 8)
        return 0;
    if (!strcmp(op, "act_and_mul") && !strncmp(word, "interleaved=1", (size_t)n) && n == 13)
        return (size_t)snprintf(out, size, "%*sgates=interleaved", gap, "");
    if ((decode || !strcmp(op, "mha")) && sscanf(word, "window=%lld", &left) == 1 && left >= 0 && left < INT32_MAX)
        return (size_t)snprintf(out, size, "%*s%s=%lld", gap, "", behind ? "window" : "window_left", left + behind);
    bool last = !strncmp(word, has(attrs, "limit=", true) ? "limit=" : "act=", 4); /* of what stands before gates= */
    return (size_t)snprintf(out, size, "%*s%.*s%s", gap, "", n, word,
                            gemm && last && !has(attrs, "halves=1", false) ? " gates=interleaved" : "");
}

bool rfg_db_attrs_of_3(const char *op, const char *attrs, char *out, size_t size)
{
    size_t at = 0;
    *out = 0;
    for (const char *w = attrs; *w;) {
        at += word_of_3(op, attrs, w, out + at, size - at);
        if (at >= size)
            return false;
        w += strcspn(w, " ");
        w += strspn(w, " ");
    }
    return true;
}

static void attrs_of_3(sqlite3_context *call, int n, sqlite3_value **v)
{
    const char *op = (const char *)sqlite3_value_text(v[0]), *attrs = (const char *)sqlite3_value_text(v[1]);
    char out[RFG_PROBLEM_STRLEN];
    (void)n;
    if (op && attrs && rfg_db_attrs_of_3(op, attrs, out, sizeof(out)))
        sqlite3_result_text(call, out, -1, SQLITE_TRANSIENT);
    else /* whoever reads the row refuses it */
        sqlite3_result_value(call, v[1]);
}

int rfg_db_add_functions(sqlite3 *h)
{
    return sqlite3_create_function_v2(h, "rfg_attrs_of_3", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
                                      NULL, attrs_of_3, NULL, NULL, NULL);
}
