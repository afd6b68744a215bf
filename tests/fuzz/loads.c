/* SPDX-License-Identifier: MIT
 *
 * Files of --loads, and the rows that their loads become. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "tuner/harness/loads.h"

const char fuzz_name[] = "loads";
const int fuzz_is_text = 1;
const size_t fuzz_max_size = 4096;

static void more_seeds(void (*add)(const void *data, size_t size))
{
    static const char *const seeds[] = { "7\n0\n12\n1000000000000\n", "# layer 3\r\n5\r\n\r\n3\r\n",
                                         "expert,tokens\n1,12\n0,7\n2,0\n", "expert,tokens\n0,\"3\"\n" };
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        add(seeds[i], strlen(seeds[i]));
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = more_seeds;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("loads", data, size);
    const int64_t *tokens, rows = fuzz_hash(data, size) >> 1;
    (void)gemm_loads_set(NULL, 0);
    rfg_status st = rfg_loads_read(path);
    int experts = gemm_loads(&tokens);
    int64_t *share = gemm_loads_share(rows), given = 0;
    FUZZ_CHECK(st == RFG_OK ? experts > 0 && experts <= GEMM_MAX_EXPERTS : !experts && strstr(rfg_last_error(), path));
    FUZZ_CHECK((share != NULL) == (experts > 0));
    double sum = 0;
    for (int e = 0; e < experts; e++)
        sum += (double)tokens[e];
    for (int e = 0; e < experts; e++) {
        FUZZ_CHECK(fabs((double)share[e] - (double)rows * (double)tokens[e] / sum) < 1.00001);
        FUZZ_CHECK(share[e] >= 0 && (tokens[e] || !share[e]));
        given += share[e];
    }
    FUZZ_CHECK(given == (experts ? rows : 0));
    free(share);
    (void)gemm_loads_set(NULL, 0);
    return 0;
}
