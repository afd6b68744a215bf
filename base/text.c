/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdio.h>
#include <string.h>

/* The length of the printable UTF-8 character that s begins with; 0: none. */
static size_t printable(const unsigned char *s)
{
    if (*s < 0x80)
        return *s >= 0x20 && *s != 0x7f;
    size_t n = *s >= 0xc2 && *s < 0xe0 ? 2 : *s >= 0xe0 && *s < 0xf0 ? 3 : *s >= 0xf0 && *s < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* U+0080 to U+009F are control characters too; overlong forms and surrogates are no UTF-8. */
    bool bad = (s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90);
    return bad ? 0 : n;
}

bool rfg_is_printable(const char *text)
{
    size_t n;
    while (*text && (n = printable((const unsigned char *)text)))
        text += n;
    return !*text;
}

void rfg_escape(char *text, size_t size)
{
    size_t n, left = strlen(text);
    for (char *s = text; *s; s += n, left -= n) {
        char hex[5];
        if ((n = printable((const unsigned char *)s)))
            continue;
        snprintf(hex, sizeof(hex), *s == '\n' ? "\\n" : *s == '\t' ? "\\t" : "\\x%02x", *(unsigned char *)s);
        n = strlen(hex);
        size_t room = size - 1 - (size_t)(s - text);
        if (room < n) {
            *s = 0;
            return;
        }
        left += n - 1;
        left = left < room ? left : room;
        memmove(s + n, s + 1, left - n);
        memcpy(s, hex, n);
        s[left] = 0;
    }
}
