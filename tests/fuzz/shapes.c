/* SPDX-License-Identifier: MIT
 *
 * Shapes files. */
#include <string.h>

#include "dispatch/db/db.h"
#include "fuzz.h"

const char fuzz_name[] = "shapes";
const int fuzz_is_text = 1;
const size_t fuzz_max_size = 4096;
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = NULL;

static void bad_line(void *ctx, const char *message)
{
    (void)ctx;
    FUZZ_CHECK(*message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rfg_shapes shapes;
    const char *path = fuzz_file("shapes.csv", data, size);
    rfg_status st = rfg_shapes_read(path, &shapes, bad_line, NULL);
    FUZZ_CHECK(st == RFG_OK || strstr(rfg_last_error(), path));
    for (size_t i = 0; i < shapes.n; i++) {
        const struct rfg_problem *p = &shapes.v[i].problem;
        FUZZ_CHECK(p->op->valid(p, NULL) && shapes.v[i].weight > 0 && shapes.v[i].line > 0);
    }
    rfg_shapes_free(&shapes);
    return 0;
}
