/* SPDX-License-Identifier: MIT
 *
 * The regular expressions by which models cut text before BPE, as functions. Alternatives are tried in order, and one of
 * them always matches; what each takes is what a backtracking matcher takes.
 *
 *   gpt-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   llama-3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
 *            \s+(?!\S)|\s+
 *   qwen2    the same with \p{N}
 *   gpt-4o   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
 *            [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
 *            \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
#include "tokens.h"

#include <string.h>

#include "tokens_unicode.h"

static const struct {
    bool any_case;     /* of 's and the others */
    bool cased;        /* words are cut before capitals, and their 's belongs to them */
    bool space_only;   /* in front of a word; else any character but letters, numbers and ends of lines */
    int digits;        /* of a number at most; 0: any, and a space in front */
    const char *after; /* characters that may follow punctuation */
} rules[SPLITTERS] = {
    [SPLIT_GPT2] = { .space_only = true, .after = "" },
    [SPLIT_LLAMA3] = { .any_case = true, .digits = 3, .after = "\r\n" },
    [SPLIT_QWEN2] = { .any_case = true, .digits = 1, .after = "\r\n" },
    [SPLIT_GPT4O] = { .any_case = true, .cased = true, .digits = 3, .after = "\r\n/" },
};

/* ---- characters -------------------------------------------------------------------------------------------------- */

size_t utf8_size(const char *text, size_t size)
{
    const unsigned char *b = (const unsigned char *)text;
    size_t n = b[0] < 0xc2 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 1;
    if (n > size)
        return 1;
    for (size_t i = 1; i < n; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 1;
    bool overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool outside = (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf4 && b[1] > 0x8f);
    return overlong || outside ? 1 : n;
}

/* The code point; of bytes that aren't UTF-8 one that is OTHER. */
static uint32_t code_point(const char *text, size_t n)
{
    const unsigned char *b = (const unsigned char *)text;
    if (n == 1)
        return b[0] < 0x80 ? b[0] : 0x10ffff;
    uint32_t c = b[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (b[i] & 0x3f);
    return c;
}

static enum char_class class_of(uint32_t c)
{
    size_t low = 0, high = sizeof(char_classes) / sizeof(char_classes[0]);
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (char_classes[middle] >> 4 <= c)
            low = middle;
        else
            high = middle;
    }
    enum char_class k = (enum char_class)(char_classes[low] & 15);
    return k != UPPER_AND_LOWER ? k : (c - (char_classes[low] >> 4)) & 1 ? LOWER : UPPER;
}

struct text {
    const char *at;
    size_t size;
};

/* The class of the character at `at`, which ends at *end; at the end of the text -1. */
static int class_at(const struct text *t, size_t at, size_t *end)
{
    *end = at;
    if (at >= t->size)
        return -1;
    size_t n = utf8_size(t->at + at, t->size - at);
    *end = at + n;
    return (int)class_of(code_point(t->at + at, n));
}

/* Sets of classes, as bits. */
enum {
    LETTERS = 1 << UPPER | 1 << LOWER | 1 << LETTER,
    NUMBERS = 1 << NUMBER,
    SPACES = 1 << SPACE,
    HIGH = 1 << UPPER | 1 << LETTER | 1 << MARK, /* before a word's capitals end */
    LOW = 1 << LOWER | 1 << LETTER | 1 << MARK,
    OTHERS = 1 << OTHER | 1 << MARK /* neither spaces, letters nor numbers */
};

static bool is_in(int k, int set)
{
    return k >= 0 && (set >> k & 1);
}

/* Where characters of a set end that begin at `at`, at most so many (0: all). */
static size_t run(const struct text *t, size_t at, int set, int most)
{
    size_t end;
    for (int n = 0; (!most || n < most) && is_in(class_at(t, at, &end), set); n++)
        at = end;
    return at;
}

static bool is_one_of(const struct text *t, size_t at, const char *chars)
{
    return at < t->size && t->at[at] && strchr(chars, t->at[at]);
}

/* ---- alternatives: where what begins at `at` ends; `at` itself: it doesn't match ---------------------------------- */

static bool same_letter(const struct text *t, size_t *at, char wanted, bool any_case)
{
    if (*at >= t->size)
        return false;
    char c = t->at[*at];
    if (c == wanted || (any_case && c == wanted - 'a' + 'A')) {
        *at += 1;
        return true;
    }
    if (any_case && wanted == 's' && t->size - *at >= 2 && !memcmp(t->at + *at, "\xc5\xbf", 2)) { /* the long s */
        *at += 2;
        return true;
    }
    return false;
}

/* 's|'t|'re|'ve|'m|'ll|'d */
static size_t ending(const struct text *t, size_t at, bool any_case)
{
    static const char *const endings[] = { "s", "t", "re", "ve", "m", "ll", "d" };
    for (size_t i = 0; at < t->size && t->at[at] == '\'' && i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t end = at + 1;
        const char *c = endings[i];
        while (*c && same_letter(t, &end, *c, any_case))
            c++;
        if (!*c)
            return end;
    }
    return at;
}

/* [HIGH]*[LOW]+: the longest run of the first, and as much of the second; if there is none of it, a part of the first
 * that is in both. */
static size_t capitals_then_small(const struct text *t, size_t at)
{
    size_t high = run(t, at, HIGH, 0), low = run(t, high, LOW, 0), last = at, end;
    if (low > high)
        return low;
    for (size_t i = at; i < high; i = end)
        if (is_in(class_at(t, i, &end), LOW))
            last = end;
    return last;
}

/* [HIGH]+[LOW]* */
static size_t capitals(const struct text *t, size_t at)
{
    size_t high = run(t, at, HIGH, 0);
    return high == at ? at : run(t, high, LOW, 0);
}

static size_t letters(const struct text *t, size_t at)
{
    return run(t, at, LETTERS, 0);
}

typedef size_t word_rule(const struct text *t, size_t at);

/* A word with a character in front, if that may be there, or else without. */
static size_t word(const struct text *t, size_t at, bool space_only, word_rule *rule)
{
    size_t front;
    int k = class_at(t, at, &front);
    bool may = space_only ? is_one_of(t, at, " ") : k >= 0 && !is_in(k, LETTERS | NUMBERS) && !is_one_of(t, at, "\r\n");
    size_t end = may ? rule(t, front) : front;
    if (may && end > front)
        return end;
    return rule(t, at);
}

static size_t words(enum splitter s, const struct text *t, size_t at)
{
    if (!rules[s].cased)
        return word(t, at, rules[s].space_only, letters);
    size_t end = word(t, at, false, capitals_then_small);
    if (end == at)
        end = word(t, at, false, capitals);
    return end == at ? at : ending(t, end, true);
}

static size_t numbers(enum splitter s, const struct text *t, size_t at)
{
    size_t from = rules[s].digits == 0 && is_one_of(t, at, " ") ? at + 1 : at;
    size_t end = run(t, from, NUMBERS, rules[s].digits);
    return end == from ? at : end;
}

/* ` ?[^\s\p{L}\p{N}]+`, and what may follow */
static size_t punctuation(enum splitter s, const struct text *t, size_t at)
{
    size_t from = is_one_of(t, at, " ") ? at + 1 : at, end = run(t, from, OTHERS, 0);
    if (end == from)
        return at;
    while (is_one_of(t, end, rules[s].after))
        end++;
    return end;
}

/* `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last end of a line; or all but the last space, which belongs to what follows; or
 * all. gpt-2 has the latter two only. */
static size_t spaces(enum splitter s, const struct text *t, size_t at)
{
    size_t end = run(t, at, SPACES, 0), last = at, line = at, next;
    for (size_t i = at; i < end; i = next) {
        class_at(t, i, &next);
        last = i;
        if (is_one_of(t, i, "\r\n"))
            line = next;
    }
    if (line > at && !rules[s].space_only)
        return line;
    return end < t->size && last > at ? last : end;
}

size_t split_next(enum splitter s, const char *text, size_t size)
{
    const struct text t = { text, size };
    size_t end = rules[s].cased ? 0 : ending(&t, 0, rules[s].any_case);
    if (!end)
        end = words(s, &t, 0);
    if (!end)
        end = numbers(s, &t, 0);
    if (!end)
        end = punctuation(s, &t, 0);
    if (!end)
        end = spaces(s, &t, 0);
    return end ? end : utf8_size(text, size);
}
