/* SPDX-License-Identifier: MIT
 *
 * The model of the L2s (emu/count/l2.h), figures by hand. (Of a launch: test_emu_counters.c; of kernels: test_xcd.c.)
 */
#include "emu/count/l2.h"
#include "tests/suite.h"

/* A workgroup's instructions, one a letter: loads of line 'a', 'b'...; capitals: stores. NULL: no more workgroups. */
static const struct l2_case {
    uint64_t lines; /* of each cache */
    int xcds, resident;
    const char *workgroup[5];
    uint64_t asked, fetched;
} l2_cases[] = {
    { 4, 1, 1, { "abcdaeab" }, 8, 6 },           /* e takes the place of b, which was used longest ago */
    { 4, 1, 1, { "abcdeabcde" }, 10, 10 },       /* ... and always of what comes next */
    { 4, 1, 1, { "abcdABCDEabcd" }, 13, 4 + 4 }, /* what is stored takes place, and nothing is fetched for it */
    { 4, 1, 1, { "Aab" }, 3, 1 },                /* and it is there then */
    { 4, 2, 1, { "abcd", "abcd", "abcd", "efgh" }, 16, 4 + 4 + 0 + 4 }, /* 0 and 2 on one XCD, 1 and 3 on the other */
    { 4, 6, 1, { "a", "a", "a", "a", "a" }, 5, 5 },                     /* more XCDs than workgroups */
    { 2, 1, 1, { "abcdef", "abcdef" }, 12, 12 },                        /* one after the other */
    { 2, 1, 2, { "abcdef", "abcdef" }, 12, 6 },                         /* by turns */
    { 2, 1, 3, { "abcdef", "abcdef" }, 12, 6 },                         /* room for more than there are */
    { 2, 1, 2, { "abcdef", "abcdef", "abcdef" }, 18, 12 },              /* the third one when the others are done */
    { 2, 1, 2, { "xy", "abcdef", "cdef" }, 12, 8 }, /* ... when the first is done, as the second comes to c */
    { 2, 1, 2, { "", "ab", "ab" }, 4, 2 },          /* nothing takes no turn */
};

START_TEST(l2_by_turns)
{
    const struct l2_case *c = &l2_cases[_i];
    struct emu_l2_shape shape = {
        .bytes = c->lines * EMU_L2_LINE, .xcds = c->xcds, .resident = c->resident, .waves = 1
    };
    while (shape.workgroups < 5 && c->workgroup[shape.workgroups])
        shape.workgroups++;
    struct emu_l2 *l2 = emu_l2_create(&shape);
    uint64_t asked, fetched;
    ck_assert_ptr_nonnull(l2);
    for (uint64_t g = 0; g < shape.workgroups; g++)
        for (const char *p = c->workgroup[g]; *p; p++) {
            uint64_t line = 2 * (uint64_t)(*p % 32); /* of 64 bytes */
            emu_l2_record(l2, emu_l2_wave(l2, g, 0), &line, 1, *p >= 'a');
        }
    for (int again = 0; again < 2; again++) {
        ck_assert(emu_l2_count(l2, &asked, &fetched));
        ck_assert_msg(asked == c->asked && fetched == c->fetched, "asked %llu, fetched %llu", (unsigned long long)asked,
                      (unsigned long long)fetched);
    }
    emu_l2_destroy(l2);
}
END_TEST

/* Waves take turns, too; instructions of many lines are one turn, however their lines lie. */
START_TEST(l2_instructions)
{
    struct emu_l2 *l2 = emu_l2_create(
        &(struct emu_l2_shape){ .bytes = 150 * EMU_L2_LINE, .xcds = 1, .resident = 1, .workgroups = 1, .waves = 2 });
    uint64_t line[130], asked, fetched;
    for (int k = 0; k < 130; k++) /* 64 neighbours and one of two halves; two apart, of one half each */
        line[k] = k < 128 ? 1000 + (uint64_t)k : 1001 + 4 * (uint64_t)k;
    emu_l2_record(l2, emu_l2_wave(l2, 0, 0), line + 1, 129, true);
    emu_l2_record(l2, emu_l2_wave(l2, 0, 0), line + 129, 1, true); /* is still there */
    emu_l2_record(l2, emu_l2_wave(l2, 0, 0), line, 128, true);
    for (int k = 0; k < 130; k++)
        line[k] = 5000 + 2 * (uint64_t)k;
    emu_l2_record(l2, emu_l2_wave(l2, 0, 1), line, 130, true); /* between the two: none of the first is left */
    ck_assert(emu_l2_count(l2, &asked, &fetched));
    ck_assert_uint_eq(asked, 66 + 1 + 64 + 130);
    ck_assert_uint_eq(fetched, 66 + 130 + 64);
    emu_l2_destroy(l2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_l2");
    TCase *tc = test_case(s, "l2", NULL, NULL);
    ADD_TESTS(tc, l2_instructions);
    ADD_LOOPS(tc, sizeof(l2_cases) / sizeof(l2_cases[0]), l2_by_turns);
    return run_suite(s);
}
