/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <string.h>

static const char *const problems[] = {
    "gemm bf16,bf16->bf16 M=8 N=2112 K=7168",
    "gemm f16,f16->f32 M=33 N=64 K=128 bias=1",
    "gemm bf16,bf16->bf16 M=64 N=64 K=128 experts=8 top=2 routing=recorded",
    "rmsnorm bf16->e4m3 M=8 N=7168 weight=1+w scale=group plain=1",
    "act_and_mul bf16->bf16 M=64 N=14336 act=gelu_tanh",
    "mha bf16->bf16 B=1 Hq=32 Hkv=8 D=128 Sq=2048 S=2048 causal=1",
    "mha_decode bf16->bf16 B=32 Hq=32 Hkv=8 D=128 S=4096 page=16",
};

const char *fuzz_database(void)
{
    static char path[128];
    struct rfg_db *db;
    snprintf(path, sizeof(path), "%s", fuzz_file("seed.db", NULL, 0));
    remove(path);
    FUZZ_CHECK(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK);
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        struct rfg_row r = { .cu_count = 132,
                             .arch = "sm_90",
                             .median_us = 10,
                             .spread_us = 0.5,
                             .samples = 11,
                             .error = 0.1,
                             .error_bound = 1,
                             .default_us = 20,
                             .vendor_us = 15,
                             .source_hash = "abc",
                             .compiler = "nvrtc 13, \"quoted\"",
                             .driver = "CUDA 13.0",
                             .version = RFG_VERSION,
                             .date = "2026-11-21T03:40:00Z",
                             .device = "NVIDIA H200",
                             .seed = 7,
                             .how = RFG_SOURCE_MEASURED };
        int p[RFG_MAX_PARAMS] = { 0 };
        FUZZ_CHECK(rfg_problem_parse(&r.problem, problems[i], NULL));
        const struct rfg_op *op = r.problem.op;
        for (int v = 0; v < rfg_op_variants(op)->n; v++)
            if (strstr(rfg_op_variants(op)->list[v]->name, "_portable") &&
                !strstr(rfg_op_variants(op)->list[v]->name, "_cpu_")) {
                for (int k = 0; k < rfg_op_variants(op)->list[v]->n_params; k++)
                    p[k] = rfg_op_variants(op)->list[v]->params[k].values[0];
                rfg_row_set_config(&r, rfg_op_variants(op)->list[v], p, false);
                if (rfg_problem_is_recorded(&r.problem))
                    rfg_row_set_loads(&r, "c307217daa82ba9d");
            }
        rfg_status st = rfg_db_put(db, &r);
        if (st != RFG_OK)
            printf("%s\n", rfg_last_error());
        FUZZ_CHECK(st == RFG_OK);
    }
    FUZZ_CHECK(rfg_db_seal(db) == RFG_OK);
    rfg_db_close(&db);
    return path;
}

void fuzz_check_row(const struct rfg_row *row, bool plausible)
{
    const char *column;
    struct rfg_reason why = { "" };
    if (!row->problem.op)
        return; /* told as one that can't be understood */
    FUZZ_CHECK(row->problem.op->valid(&row->problem, NULL));
    if (!rfg_row_check(row, &column, &why) && plausible) {
        printf("%s: %s\n", column, why.text);
        FUZZ_CHECK(!"plausible");
    }
    const struct rfg_variant *var = rfg_variant_find(row->problem.op, row->variant);
    int p[RFG_MAX_PARAMS];
    if (var)
        (void)rfg_row_params(row, var, p, &why);
    (void)rfg_row_overlap(row);
    char config[RFG_CONFIG_STRLEN + 200], loads[RFG_RECORDING_NAME];
    (void)rfg_row_loads(row, loads, sizeof(loads));
    (void)rfg_row_config(row, config, sizeof(config));
}
