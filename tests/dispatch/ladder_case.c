/* SPDX-License-Identifier: MIT
 *
 * A context and databases of rows of its own, for the test of the ladder. */
#include "ladder_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char dir[64], user_db[96], system_db[96];

void setup(void)
{
    strcpy(dir, "/tmp/rfg-ladder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(user_db, sizeof(user_db), "%s/user.db", dir);
    snprintf(system_db, sizeof(system_db), "%s/system.db", dir);
    unsetenv("RFG_VARIANTS");
    unsetenv("RFG_LOG");
    unsetenv("RFG_THREADS");
}

void teardown(void)
{
    char cmd[128];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

rfg_context *open_ctx(const char *variants)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p),
                             .device = "cpu",
                             .user_db = user_db,
                             .system_db = system_db,
                             .cache_dir = "",
                             .threads = 2,
                             .misses = 1,
                             .variants = variants };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

/* The first configuration that is valid whatever M is asked for below: the rung must decide, not the variant. */
static bool valid_everywhere(void *arg, const int *p)
{
    static const int sizes[] = { 1, 3, 4, 8, 9, 16, 1000 };
    struct pick *pick = arg;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rfg_problem prob = pick->prob;
        prob.v[GEMM_M] = sizes[i];
        if (!rfg_variant_check(&gemm_cpu_portable, &pick->dev, &prob, p, NULL))
            return true;
    }
    memcpy(pick->p, p, (size_t)gemm_cpu_portable.n_params * sizeof(int));
    return false;
}

/* Writes a row for the portable variant, which nothing but the row would choose. */
void put_row(const char *path, const char *text, int cu_offset, double us)
{
    struct pick pick = { .prob = op_problem(text) };
    struct rfg_db *db;
    rfg_device_cpu(&pick.dev, 2);
    struct rfg_row row = { .problem = op_problem(text),
                           .cu_count = pick.dev.cu_count + cu_offset,
                           .median_us = us,
                           .samples = 9,
                           .error = 0.5,
                           .error_bound = 1,
                           .how = RFG_SOURCE_MEASURED,
                           .variant = "gemm_cpu_portable",
                           .date = "2026-11-21T00:00:00Z",
                           .version = RFG_VERSION,
                           .device = "cpu",
                           .compiler = "test" };
    strcpy(row.arch, pick.dev.arch);
    rfg_variant_each(&gemm_cpu_portable, &pick.dev, &row.problem, valid_everywhere, &pick);
    rfg_params_json(&gemm_cpu_portable, pick.p, row.params, sizeof(row.params));
    ck_assert_msg(rfg_db_open(&db, path, RFG_DB_WRITE) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_db_put(db, &row) == RFG_OK, "%s", rfg_last_error());
    rfg_db_close(&db);
}

void damage_row(const char *sql)
{
    char cmd[400];
    snprintf(
        cmd, sizeof(cmd),
        "python3 -c 'import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()' %s \"%s\"",
        user_db, sql);
    ck_assert_int_eq(system(cmd), 0);
}

struct rfg_choice choose(rfg_context *ctx, const char *text)
{
    struct rfg_problem p = op_problem(text);
    struct rfg_choice c;
    ck_assert_msg(rfg_choose(ctx, &p, RFG_RUNG_EXACT, 0, &c, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    return c;
}

/* Runs the op for real and checks one element. */
enum rfg_rung run(rfg_context *ctx, int m, int n, int k)
{
    float *x = calloc((size_t)m * k, 4), *w = calloc((size_t)n * k, 4), *y = calloc((size_t)m * n, 4);
    for (int i = 0; i < m * k; i++)
        x[i] = 1;
    for (int i = 0; i < n * k; i++)
        w[i] = 2;
    rfg_tensor ty = rfg_tensor_2d(y, RFG_F32, m, n, n), tx = rfg_tensor_2d(x, RFG_F32, m, k, k);
    rfg_tensor tw = rfg_tensor_2d(w, RFG_F32, n, k, k);
    ck_assert_msg(rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, NULL) == RFG_OK, "%s", rfg_last_error());
    for (int i = 0; i < m * n; i++)
        ck_assert_float_eq(y[i], 2.0f * (float)k);
    char text[RFG_PROBLEM_STRLEN];
    snprintf(text, sizeof(text), "gemm f32,f32->f32 M=%d N=%d K=%d", m, n, k);
    struct rfg_problem p = op_problem(text);
    const struct rfg_plan *plan = NULL; /* the plan's key holds the alignment of what calloc gave */
    for (int64_t a = 4; a <= 16; a *= 2)
        for (int64_t b = 4; b <= 16 && !plan; b *= 2) {
            p.v[GEMM_ALIGN] = a;
            p.v[GEMM_ALIGN_Y] = b;
            plan = rfg_plan_find(ctx, &p);
        }
    ck_assert_ptr_nonnull(plan);
    free(x);
    free(w);
    free(y);
    return rfg_plan_choice(plan)->rung;
}
