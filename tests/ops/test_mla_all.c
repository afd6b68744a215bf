/* SPDX-License-Identifier: MIT
 *
 * mla_decode in every combination of heads, page, queries and cache on the devices of $RFG_TEST_DEVICES, against the
 * oracle. Without $RFG_TEST_ALL a sample that has each value of each. The command for all of them:
 *
 *   RFG_TEST_ALL=1 RFG_TEST_CONFIGS=1 RFG_TEST_DEVICES=cpu,emu:gfx942:4 build/tests/test-mla_all
 *
 * RFG_TEST_ALL=I/N takes every N-th from the I-th on (0 to N - 1): one of N processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/op_cases.h"

static const int heads[] = { 1, 3, 8, 12, 16, 32, 64, 96, 128 }, pages[] = { 1, 16, 64 };
static const char *const caches[] = { "",         " kv=e4m3 scale=1",    " kv=e4m3fnuz",
                                      " kv=e5m2", " kv=e4m3 format=v32", " kv=e4m3 format=v4" };
#define N(a)       (int)(sizeof(a) / sizeof((a)[0]))
#define ALL        (N(heads) * N(pages) * 8 * N(caches))
#define SAMPLE_GAP 67 /* shares no factor with ALL: every value of each comes up */

static void run(const char *device, int first, int by)
{
    static char text[ALL][RFG_PROBLEM_STRLEN];
    static struct op_case cases[ALL];
    int n = 0;
    for (int i = first; i < ALL; i += by) {
        int head = heads[i % N(heads)], page = pages[i / N(heads) % N(pages)], sq = 1 + i / (N(heads) * N(pages)) % 8;
        const char *cache = caches[i / (N(heads) * N(pages) * 8)];
        bool v32 = strstr(cache, "v32") != NULL, v4 = strstr(cache, "v4") != NULL;
        const char *dtype = i % 2 && !v32 && !v4 ? "f16->f16" : "bf16->bf16";
        *text[n] = 0;
        op_say(text[n], "mla_decode %s B=2 Hq=%d D=%d S=%d", dtype, head, v4 ? 512 : 576, 40 + i % 7);
        if (sq > 1)
            op_say(text[n], " Sq=%d", sq);
        op_say(text[n], "%s%s lse=1 page=%d%s", v4 ? "" : " Dv=512", sq > 1 ? " causal=1" : "", page, cache);
        if (i % 3 == 0)
            op_say(text[n], " table=indices");
        op_say(text[n], " lens=any");
        cases[n] = (struct op_case){ .problem = text[n], .data = RFG_DATA_RANDOM };
        n++;
    }
    op_cases_run(device, "MLA decode, heads by pages by queries by caches", cases, n);
}

START_TEST(combinations)
{
    const char *all = getenv("RFG_TEST_ALL");
    int first = 0, by = all ? 1 : SAMPLE_GAP;
    if (all && strchr(all, '/') && (sscanf(all, "%d/%d", &first, &by) != 2 || first < 0 || first >= by))
        ck_abort_msg("$RFG_TEST_ALL: '%s': must be 1, or I/N with I from 0 to N - 1", all);
    run(op_device(_i), first, by);
}
END_TEST

int main(void)
{
    return op_main("mla_all", OP_TESTS(combinations), OP_TESTS(NULL));
}
