/* SPDX-License-Identifier: MIT
 *
 * Text of files with control characters, and too much of it, in errors, warnings and listings. */
#include "dispatch/context.h"
#include "base/util.h"
#include "base/text.h"
#include "cache_case.h"
#include "tests/suite.h"

static const struct {
    const char *in, *out;
    size_t size; /* of the buffer; 0: enough */
} texts[] = {
    { "", "", 0 },
    { "plain text, 100%", "plain text, 100%", 0 },
    { "a\nb\tc\r", "a\\nb\\tc\\x0d", 0 },
    { "\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07", 0 },
    { "\x7f\x01", "\\x7f\\x01", 0 },
    { "Gr\xc3\xbc\xc3\x9f"
      "e, \xe2\x82\xac, \xf0\x9f\x98\x80",
      "Gr\xc3\xbc\xc3\x9f"
      "e, \xe2\x82\xac, \xf0\x9f\x98\x80",
      0 },
    { "\xc2\x9b"
      "2J",
      "\\xc2\\x9b"
      "2J",
      0 }, /* CSI in one character */
    { "\x9b", "\\x9b", 0 },
    { "\xc3", "\\xc3", 0 }, /* cut off */
    { "\xe2\x82", "\\xe2\\x82", 0 },
    { "\xc0\xaf\xc1\xbf", "\\xc0\\xaf\\xc1\\xbf", 0 }, /* overlong */
    { "\xe0\x80\xaf\xf0\x80\x80\xaf", "\\xe0\\x80\\xaf\\xf0\\x80\\x80\\xaf", 0 },
    { "\xed\xa0\x80", "\\xed\\xa0\\x80", 0 }, /* a surrogate */
    { "\xf4\x90\x80\x80\xf5\xff", "\\xf4\\x90\\x80\\x80\\xf5\\xff", 0 },
    { "abcdef\x01xyz", "abcdef\\x01xy", 13 },
    { "abcdef\x01", "abcdef\\x01", 11 },
    { "abcdef\x01", "abcdef", 10 },
    { "\x01\x02\x03", "\\x01", 8 },
    { "\nabc", "\\nabc", 6 },
};

START_TEST(text_is_harmless)
{
    char buf[200];
    memset(buf, '#', sizeof(buf));
    size_t size = texts[_i].size ? texts[_i].size : 100;
    strcpy(buf, texts[_i].in);
    rfg_escape(buf, size);
    ck_assert_str_eq(buf, texts[_i].out);
    ck_assert_int_eq(buf[size], '#');
    /* Whatever comes, no control character goes out, and it stays within its room. */
    for (uint64_t seed = 1, i = 0; i < 2000; i++) {
        size_t n = rfg_random(&seed) % 60;
        memset(buf, 0, sizeof(buf));
        for (size_t k = 0; k < n; k++)
            buf[k] = (char)rfg_random(&seed);
        size = n + 1 + rfg_random(&seed) % 40;
        buf[size] = '#';
        rfg_escape(buf, size);
        ck_assert_uint_lt(strlen(buf), size);
        ck_assert_int_eq(buf[size], '#');
        for (char *s = buf; *s; s++)
            ck_assert(!((unsigned char)*s < 0x20 || *s == 0x7f));
    }
}
END_TEST

static void say_it_all(void)
{
    rfg_warn("%s", "\x1b[2J\nrfg: warning: forged");
    rfg_warn_each("%s", "\x1b[2J");
    char line[2000];
    memset(line, 1, sizeof(line));
    line[sizeof(line) - 1] = 0;
    rfg_warn("long: %s", line);
    setenv("RFG_LOG", "all", 1);
    rfg_log(RFG_LOG_JIT, "%s", "\x1b[2J");
    rfg_print(stderr, "%s: %s\n", "\x1b[2J\n", "cell");
    rfg_print(stderr, "%-5s", "a\n");
    rfg_print(stderr, "%s", "");
    rfg_print(stderr, "\n");
}

/* Errors, reasons, warnings, log lines and listings: out of one mouth. */
START_TEST(messages_are_harmless)
{
    struct rfg_reason why;
    rfg_fail(RFG_ERROR_IO, "file '%s'", "\x1b[2J\n");
    ck_assert_str_eq(rfg_last_error(), "file '\\x1b[2J\\n'");
    ck_assert(!rfg_refuse(&why, "row '%s'", "\r"));
    ck_assert_str_eq(why.text, "row '\\x0d'");
    ck_assert_int_eq(warnings_of(say_it_all, ""), 4); /* the forged one is in the midst of a line, of which there are */
    int lines = 0;
    for (char *s = warned; *s; s++) {
        lines += *s == '\n';
        ck_assert_msg(*s == '\n' || (unsigned char)*s >= 0x20, "byte %d in %s", *s, warned);
    }
    ck_assert_int_eq(lines, 6);
    ck_assert_ptr_nonnull(strstr(warned, "\n\\x1b[2J\\n: cell\na\\n   \n"));
}
END_TEST

static void warn_often(void)
{
    for (int i = 1; i <= 12345; i++) {
        rfg_warn("kind one: %d", i);
        rfg_warn_each("each: %s", "x");
        if (i <= 3)
            rfg_warn("kind two: %d", i);
    }
}

/* A few of each kind, then 10, 100, 1000: told how many there were. */
START_TEST(warnings_of_a_kind_are_counted)
{
    ck_assert_int_eq(warnings_of(warn_often, "kind one"), 5 + 4);
    ck_assert_ptr_nonnull(strstr(warned, "kind one: 4\n"));
    ck_assert_ptr_nonnull(strstr(warned, "kind one: 5 (number 5 of this kind: not all are shown from here on)\n"));
    ck_assert_ptr_null(strstr(warned, "kind one: 6"));
    ck_assert_ptr_nonnull(strstr(warned, "kind one: 10000 (number 10000 of this kind"));
    ck_assert_ptr_nonnull(strstr(warned, "kind two: 3\n"));
    int each = 0;
    for (char *s = warned; (s = strstr(s, "each: x\n")); s++)
        each++;
    ck_assert_int_eq(each, 12345);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("text");
    TCase *tc = test_case(s, "text", cache_setup, cache_teardown);
    tcase_set_timeout(tc, 30);
    ADD_TESTS(tc, messages_are_harmless, warnings_of_a_kind_are_counted);
    ADD_LOOPS(tc, sizeof(texts) / sizeof(texts[0]), text_is_harmless);
    return run_suite(s);
}
