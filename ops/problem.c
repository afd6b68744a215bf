/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "op.h"
#include "quant.h"

void rfg_problem_init(struct rfg_problem *p, const struct rfg_op *op)
{
    memset(p, 0, sizeof(*p));
    p->op = op;
    for (int i = 0; i < op->n_keys; i++)
        p->v[i] = op->keys[i].def;
}

int rfg_op_key(const struct rfg_op *op, const char *name)
{
    for (int i = 0; i < op->n_keys; i++)
        if (!strcmp(op->keys[i].name, name))
            return i;
    return -1;
}

int rfg_op_operand(const struct rfg_op *op, const char *name)
{
    for (int i = 0; i < op->n_operands; i++)
        if (!strcmp(op->operands[i].name, name))
            return i;
    return -1;
}

rfg_dtype rfg_problem_format_of(const struct rfg_problem *p, int operand)
{
    const struct rfg_op_operand *o = &p->op->operands[operand];
    switch (o->at) {
    case RFG_FORMAT_LISTED:
        return (rfg_dtype)p->dtype[o->of];
    case RFG_FORMAT_KEYED:
        return p->v[o->of] ? (rfg_dtype)p->v[o->of] : o->same ? rfg_problem_format_of(p, o->same - 1) : RFG_DTYPE_NONE;
    case RFG_FORMAT_AS:
        return rfg_problem_format_of(p, o->of);
    case RFG_FORMAT_OF_SCALE:
        return rfg_scale_dtype(p->v[o->of]);
    default:
        return (rfg_dtype)o->of;
    }
}

/* What stands before dtype i of the list. */
static const char *separator(const struct rfg_op *op, int i)
{
    return i == 0 ? "" : i == op->n_in ? "->" : ",";
}

bool rfg_problem_parse_dtypes(struct rfg_problem *p, const char *text, struct rfg_reason *why)
{
    const struct rfg_op *op = p->op;
    const char *s = text;
    char names[RFG_FORMAT_NAMES], signature[RFG_DTYPES_STRLEN];
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
        rfg_dtype d = rfg_format_find(s, len);
        if (d == RFG_DTYPE_NONE)
            return rfg_refuse(why, "dtype '%.*s' in '%.60s': must be %s", (int)(len ? len : strlen(s)), s, text,
                              rfg_format_names(names, sizeof(names)));
        p->dtype[i] = (uint8_t)d;
        s += len;
        const char *sep = i + 1 == op->n_in + op->n_out ? "" : i + 1 == op->n_in ? "->" : ",";
        if (strncmp(s, sep, strlen(sep)) || (!*sep && *s))
            return rfg_refuse(why, "dtypes '%.60s': must be those of %s's %s", text, op->name,
                              rfg_op_signature(op, signature, sizeof(signature)));
        s += strlen(sep);
    }
    return true;
}

/* The spelling of a key's value; NULL: the key has no such value. */
static const char *value_name(const struct rfg_key *key, int64_t v)
{
    if (key->formats && v)
        return key->formats >> v & 1 ? rfg_dtype_name((rfg_dtype)v) : NULL;
    return key->names[v - key->min];
}

bool rfg_problem_set(struct rfg_problem *p, const char *name, const char *value, struct rfg_reason *why)
{
    int i = rfg_op_key(p->op, name);
    if (i < 0)
        return rfg_refuse(why, "key '%.40s': %s has no such key", name, p->op->name);
    const struct rfg_key *key = &p->op->keys[i];
    char values[160];
    if (key->names) {
        for (int64_t v = key->min; v <= key->max; v++)
            if (value_name(key, v) && !strcmp(value_name(key, v), value)) {
                p->v[i] = v;
                return true;
            }
        return rfg_refuse(why, "%s=%.40s: must be one of %s", name, value,
                          rfg_key_values(key, ", ", values, sizeof(values)));
    }
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (errno || end == value || *end || !(isdigit((unsigned char)*value) || *value == '-'))
        return rfg_refuse(why, "%s=%.40s: must be a whole number", name, value);
    if (v < key->min || v > key->max)
        return rfg_refuse(why, "%s=%lld: must be from %" PRId64 " to %" PRId64, name, v, key->min, key->max);
    p->v[i] = v;
    return true;
}

bool rfg_problem_parse(struct rfg_problem *p, const char *text, struct rfg_reason *why)
{
    char copy[RFG_PROBLEM_STRLEN];
    if (!text)
        return rfg_refuse(why, "problem is NULL: must be a problem string");
    if (strlen(text) >= sizeof(copy))
        return rfg_refuse(why, "problem string: must be shorter than %d characters", RFG_PROBLEM_STRLEN);
    memcpy(copy, text, strlen(text) + 1);

    char *save;
    char *word = strtok_r(copy, " \t", &save);
    const struct rfg_op *op = word ? rfg_op_find(word, strlen(word)) : NULL;
    if (!op)
        return rfg_refuse(why, "op '%.40s': no such operator", word ? word : "");
    rfg_problem_init(p, op);

    word = strtok_r(NULL, " \t", &save);
    if (!word || !rfg_problem_parse_dtypes(p, word, why))
        return word ? false : rfg_refuse(why, "'%.60s': dtypes are missing after the operator", text);

    uint64_t seen = 0;
    while ((word = strtok_r(NULL, " \t", &save))) {
        char *eq = strchr(word, '=');
        if (!eq)
            return rfg_refuse(why, "'%.40s': must be key=value", word);
        *eq = 0;
        if (!rfg_problem_set(p, word, eq + 1, why))
            return false;
        uint64_t bit = 1ull << rfg_op_key(op, word);
        if (seen & bit)
            return rfg_refuse(why, "key '%.40s' is given twice", word);
        seen |= bit;
    }
    for (int i = 0; i < op->n_keys; i++)
        if (op->keys[i].kind == RFG_KEY_SIZE && !(seen & 1ull << i))
            return rfg_refuse(why, "'%.60s': %s= is missing", text, op->keys[i].name);
    return op->valid(p, why);
}

/* Appends to buf at *at, never past size. */
__attribute__((format(printf, 4, 5))) static void append(char *buf, size_t size, size_t *at, const char *fmt, ...)
{
    if (*at >= size)
        return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf + *at, size - *at, fmt, ap);
    va_end(ap);
    *at += n > 0 ? (size_t)n : 0;
}

char *rfg_key_values(const struct rfg_key *key, const char *between, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int64_t v = key->min; v <= key->max; v++)
        if (value_name(key, v))
            append(buf, size, &at, "%s%s", at ? between : "", value_name(key, v));
    return buf;
}

char *rfg_op_signature(const struct rfg_op *op, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < op->n_in + op->n_out; i++)
        append(buf, size, &at, "%s%s", separator(op, i), op->operands[i].name);
    return buf;
}

static void append_key(const struct rfg_problem *p, int i, char *buf, size_t size, size_t *at)
{
    const struct rfg_key *key = &p->op->keys[i];
    const char *space = *at ? " " : "";
    if (key->names)
        append(buf, size, at, "%s%s=%s", space, key->name, value_name(key, p->v[i]));
    else
        append(buf, size, at, "%s%s=%" PRId64, space, key->name, p->v[i]);
}

char *rfg_problem_format_dtypes(const struct rfg_problem *p, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < p->op->n_in + p->op->n_out; i++)
        append(buf, size, &at, "%s%s", separator(p->op, i), rfg_dtype_name((rfg_dtype)p->dtype[i]));
    return buf;
}

char *rfg_problem_format_attrs(const struct rfg_problem *p, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < p->op->n_keys; i++)
        if (p->op->keys[i].kind == RFG_KEY_ATTR && p->v[i] != p->op->keys[i].def)
            append_key(p, i, buf, size, &at);
    return buf;
}

char *rfg_problem_format(const struct rfg_problem *p, char *buf, size_t size)
{
    char dtypes[RFG_DTYPES_STRLEN];
    size_t at = 0;
    append(buf, size, &at, "%s %s", p->op->name, rfg_problem_format_dtypes(p, dtypes, sizeof(dtypes)));
    for (int i = 0; i < p->op->n_keys; i++)
        if (p->op->keys[i].kind == RFG_KEY_SIZE || p->v[i] != p->op->keys[i].def)
            append_key(p, i, buf, size, &at);
    return buf;
}

struct rfg_problem rfg_problem_key(const struct rfg_problem *p)
{
    struct rfg_problem key = *p;
    for (int i = 0; i < p->op->n_keys; i++)
        if (p->op->keys[i].kind == RFG_KEY_LAYOUT)
            key.v[i] = p->op->keys[i].def;
    return key;
}

int64_t rfg_problem_rows(const struct rfg_problem *p)
{
    const char *name = p->op->column_key[0];
    return name ? p->v[rfg_op_key(p->op, name)] : 0;
}

bool rfg_problem_equal(const struct rfg_problem *a, const struct rfg_problem *b)
{
    return a->op == b->op && !memcmp(a->dtype, b->dtype, sizeof(a->dtype)) &&
           !memcmp(a->v, b->v, (size_t)a->op->n_keys * sizeof(a->v[0]));
}

uint64_t rfg_problem_hash(const struct rfg_problem *p)
{
    uint64_t dtypes;
    _Static_assert(sizeof(dtypes) == sizeof(p->dtype), "a word holds the dtypes");
    memcpy(&dtypes, p->dtype, sizeof(dtypes));
    uint64_t seed = dtypes * 0x9e3779b97f4a7c15 ^ p->op->id; /* odd: no two lists become one */
    uint32_t v[RFG_MAX_KEYS]; /* of a constant size, which is what makes it fast; they are of 31 bits */
    for (int i = 0; i < RFG_MAX_KEYS; i++)
        v[i] = (uint32_t)p->v[i];
    return XXH3_64bits_withSeed(v, sizeof(v), seed);
}
