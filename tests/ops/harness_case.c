/* SPDX-License-Identifier: MIT
 *
 * A case on the cpu, for tests of the harness. */
#include "harness_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rfg_context *ctx;
struct rfg_case *c;

void begin_with(const char *text, struct rfg_case_params params)
{
    struct rfg_problem p;
    struct rfg_reason why;
    rfg_context_params cp = {
        .size = sizeof(cp), .device = "cpu", .user_db = "", .system_db = "", .cache_dir = "", .threads = 1
    };
    ck_assert_msg(rfg_context_create(&ctx, &cp) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_problem_parse(&p, text, &why), "%s: %s", text, why.text);
    ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_case_run(c, 0, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
}

void begin(const char *text, enum rfg_data data)
{
    begin_with(text, (struct rfg_case_params){ .seed = 5, .data = data });
}

void end(void)
{
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}

struct rfg_check checked(void)
{
    struct rfg_check k;
    ck_assert_msg(rfg_case_check(c, 0, &k) == RFG_OK, "%s", rfg_last_error());
    return k;
}
