/* SPDX-License-Identifier: MIT
 *
 * Calibration: on a mock GPU whose kernels take known times, the same numbers are measured. They are stored for that
 * product and driver only, and contexts use them. */
#include <math.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/util.h"
#include "tuner/harness/harness.h"
#include "tuner/tune/calibrate.h"
#include "tests/dispatch/fakehip.h"
#include "tests/dispatch/faulty.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

static char dir[64], db_path[128];

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/rfg-calibrate-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db_path, sizeof(db_path), "%s/user.db", dir);
    setenv("RFG_CACHE_DIR", dir, 1);
    setenv("RFG_VENDOR", "0", 1);
    unsetenv("RFG_DB");
    unsetenv("RFG_SYSTEM_DB");
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static rfg_context *open_context(const char *device)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = device, .user_db = db_path, .system_db = "" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    return ctx;
}

static void put(const char *arch, int cus, const struct rfg_calibration *c, rfg_status expected)
{
    struct rfg_db *db;
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_put_calibration(db, arch, cus, c), expected);
    rfg_db_close(&db);
}

static const struct rfg_calibration some = { 1234, 5678, 1.5, 0.75, 1.25, "imagined gfx90a", "HIP 5.2.21153", "today" };

START_TEST(measures_what_kernels_take)
{
    char live[200];
    struct rfg_calibration c;
    const struct rfg_hip *hip = fakehip();
    rfg_hip_override(RFG_PLATFORM_AMD, hip);
    fakehip_speed(some.mem_gbps, some.cache_gbps, some.latency_us, some.load_us, some.sync_us);
    fakehip_tail(30); /* us, as of AMD's replays: in none of the numbers */
    rfg_context *ctx = open_context("amd:0");
    ck_assert_msg(rfg_calibrate(ctx, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_double_eq_tol(c.mem_gbps, some.mem_gbps, 1e-3 * some.mem_gbps);
    ck_assert_double_eq_tol(c.cache_gbps, some.cache_gbps, 1e-3 * some.cache_gbps);
    ck_assert_double_eq_tol(c.latency_us, some.latency_us, 1e-3);
    ck_assert_double_eq_tol(c.load_us, some.load_us, 1e-3);
    ck_assert_double_eq_tol(c.sync_us, some.sync_us, 1e-3);
    ck_assert_str_eq(c.device, some.device);
    ck_assert_str_eq(c.driver, some.driver);
    const struct rfg_device *dev = rfg_context_info(ctx);
    double table = dev->mem_gbps;
    put(dev->arch, dev->cu_count, &c, RFG_OK);
    ck_assert_double_eq(rfg_context_info(ctx)->mem_gbps, table); /* an open context stays as it is */
    rfg_context_destroy(&ctx);
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());

    ctx = open_context("amd:0");
    dev = rfg_context_info(ctx);
    ck_assert_double_eq(dev->mem_gbps, c.mem_gbps);
    ck_assert_double_eq(dev->cache_gbps, c.cache_gbps);
    ck_assert_double_eq(dev->latency_us, c.latency_us);
    ck_assert_double_eq(dev->load_us, c.load_us);
    ck_assert_double_eq(dev->sync_us, c.sync_us);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Each entry's first call fails, or its second: calibration does too, with that call's name. */
START_TEST(every_failure_is_told)
{
    struct rfg_calibration c;
    int fired = 0;
    rfg_hip_override(RFG_PLATFORM_AMD, faulty(fakehip()));
    fakehip_speed(some.mem_gbps, some.cache_gbps, some.latency_us, some.load_us, some.sync_us);
    rfg_context *ctx = open_context("amd:0");
    faulty_arm(0, 0, hipSuccess);
    ck_assert_msg(rfg_calibrate(ctx, &c) == RFG_OK, "%s", rfg_last_error());
    int calls[FAULTY_ENTRIES];
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        calls[e] = faulty_calls((enum faulty_entry)e);
    for (int e = 0; e < FAULTY_ENTRIES; e++)
        for (int n = 1; n <= 2 && n <= calls[e]; n++) {
            const char *name = faulty_name((enum faulty_entry)e);
            if (strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload"))
                continue; /* they give back */
            faulty_arm((enum faulty_entry)e, n, hipErrorUnknown);
            rfg_status st = rfg_calibrate(ctx, &c);
            bool failed = faulty_fired();
            fired += failed;
            faulty_arm(0, 0, hipSuccess);
            ck_assert_msg(!failed || (st != RFG_OK && strstr(rfg_last_error(), name)), "call %d of %s fails: %s: %s", n,
                          name, rfg_status_name(st), rfg_last_error());
        }
    ck_assert_int_gt(fired, 20);
    rfg_context_destroy(&ctx);
}
END_TEST

/* What a replay takes besides its launches is in no sample; clocks get their time to rise. */
START_TEST(times_launches_alone)
{
    static const double tails[] = { 0, 30, 500 };
    struct rfg_problem prob;
    struct rfg_reason why;
    struct rfg_case *c;
    struct rfg_times t;
    struct rfg_case_params params = { .seed = 1, .rotate_bytes = _i ? 1 << 20 : 0 };
    rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
    fakehip_gemm_dtypes(RFG_BF16, RFG_F32);
    fakehip_speed(1000, 1000, 2.5, 1, 1);
    fakehip_tail(tails[_i]);
    rfg_context *ctx = open_context("amd:0");
    ck_assert_msg(rfg_problem_parse(&prob, "gemm bf16,bf16->f32 M=1 N=64 K=64", &why), "%s", why.text);
    ck_assert_msg(rfg_case_create(ctx, &prob, &params, &c) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(rfg_case_run(c, 0, NULL, NULL), RFG_OK);
    const struct rfg_plan *plan = rfg_plan_find(ctx, rfg_case_as_called(c));
    int replays = fakehip_replays();
    double start = rfg_now();
    ck_assert_msg(rfg_case_time(c, plan, 5, 1, &t) == RFG_OK, "%s", rfg_last_error());
    double took = rfg_now() - start;
    ck_assert_int_ge(t.n, 3);
    for (int i = 0; i < t.n; i++)
        ck_assert_double_eq_tol(t.us[i], 2.5, 1e-3);
    ck_assert_double_ge(took, 1e-3 * FAKEHIP_WARM_UP_MS);
    ck_assert_int_gt(fakehip_replays() - replays, 3 + 2 * t.n); /* those of captures and samples */
    rfg_times_free(&t);
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
}
END_TEST

/* Of the key's four parts another value each: not its calibration. */
START_TEST(holds_for_its_device_alone)
{
    struct rfg_db *db;
    struct rfg_calibration c;
    rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
    put("gfx90a", 104, &some, RFG_OK);
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_READ), RFG_OK);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, some.device, some.driver, &c), 1);
    ck_assert_double_eq(c.sync_us, some.sync_us);
    ck_assert_str_eq(c.date, some.date);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx942", 104, some.device, some.driver, &c), 0);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 103, some.device, some.driver, &c), 0);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, "another", some.driver, &c), 0);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, some.device, "HIP 6", &c), 0);
    rfg_db_close(&db);
    rfg_context *ctx = open_context("amd:0");
    ck_assert_double_eq(rfg_context_info(ctx)->mem_gbps, some.mem_gbps);
    rfg_context_destroy(&ctx);

    struct rfg_calibration newer = some;
    newer.mem_gbps = 4321;
    put("gfx90a", 104, &newer, RFG_OK); /* replaces */
    ctx = open_context("amd:0");
    ck_assert_double_eq(rfg_context_info(ctx)->mem_gbps, 4321);
    rfg_context_destroy(&ctx);

    snprintf(newer.driver, sizeof(newer.driver), "HIP 4");
    put("gfx90a", 104, &newer, RFG_OK);
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_READ), RFG_OK);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, some.device, "HIP 4", &c), 1);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, some.device, some.driver, &c), 1);
    rfg_db_close(&db);
}
END_TEST

START_TEST(refuses_what_no_machine_has)
{
    static const double bad[] = { 0, -1, NAN, INFINITY, 1e9 };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (int field = 0; field < 5; field++) {
            struct rfg_calibration c = some;
            double *v[] = { &c.mem_gbps, &c.cache_gbps, &c.latency_us, &c.load_us, &c.sync_us };
            static const char *const names[] = { "mem_gbps", "cache_gbps", "latency_us", "load_us", "sync_us" };
            *v[field] = bad[i];
            put("gfx90a", 104, &c, RFG_ERROR_INVALID_ARGUMENT);
            ck_assert_msg(strstr(rfg_last_error(), names[field]) != NULL, "%s", rfg_last_error());
        }
    /* Somebody else's hand in the file: a warning, and the table's numbers. */
    sqlite3 *h;
    put("gfx90a", 104, &some, RFG_OK);
    ck_assert_int_eq(sqlite3_open(db_path, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, "UPDATE calibration SET load_us=-3", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    rfg_hip_override(RFG_PLATFORM_AMD, fakehip());
    rfg_context *ctx = open_context("amd:0");
    struct rfg_device table;
    ck_assert(rfg_device_imagine(&table, "gfx90a"));
    ck_assert_double_eq(rfg_context_info(ctx)->load_us, table.load_us);
    ck_assert_double_eq(rfg_context_info(ctx)->mem_gbps, table.mem_gbps);
    rfg_context_destroy(&ctx);
}
END_TEST

/* Files that were made before there was such a table. */
START_TEST(no_table_is_no_calibration)
{
    struct rfg_db *db;
    struct rfg_calibration c;
    ck_assert_int_eq(rfg_db_open(&db, db_path, RFG_DB_WRITE), RFG_OK);
    ck_assert_int_eq(rfg_db_get_calibration(db, "gfx90a", 104, some.device, some.driver, &c), 0);
    rfg_db_close(&db);
}
END_TEST

START_TEST(cpu_is_measured)
{
    struct rfg_calibration c;
    rfg_context *ctx = open_context("cpu");
    ck_assert_msg(rfg_calibrate(ctx, &c) == RFG_OK, "%s", rfg_last_error());
    const struct rfg_device *dev = rfg_context_info(ctx);
    put(dev->arch, dev->cu_count, &c, RFG_OK); /* plausible */
    rfg_context_destroy(&ctx);
    ctx = open_context("cpu");
    ck_assert_double_eq(rfg_context_info(ctx)->mem_gbps, c.mem_gbps);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(emulator_is_refused)
{
    struct rfg_calibration c;
    rfg_context *ctx = open_context("emu:gfx90a:4");
    ck_assert_int_eq(rfg_calibrate(ctx, &c), RFG_ERROR_UNSUPPORTED);
    ck_assert_msg(strstr(rfg_last_error(), "emulator") != NULL, "%s", rfg_last_error());
    rfg_context_destroy(&ctx);
}
END_TEST

/* For every kind of device that can be calibrated. */
START_TEST(kernels_compile)
{
    static const char *const targets[] = { "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm_80", "sm_90a" };
    const char *target = targets[_i];
    const struct rfg_jit_provider *prov = rfg_jit_provider_for(target);
    if (!prov) {
        printf("SKIPPED: %s: %s\n", target, rfg_last_error());
        return;
    }
    struct rfg_kernel kernel = { .source = "calibrate/calibrate.hip", .entry = "calibrate_empty" };
    char *source = rfg_jit_expand(&kernel);
    ck_assert_ptr_nonnull(source);
    struct rfg_jit_request req = { .name = "calibrate", .entry = kernel.entry, .target = target, .source = source };
    struct rfg_cache *cache = rfg_cache_open("", 0);
    const struct rfg_blob *code;
    ck_assert_msg(rfg_cache_get(cache, &req, NULL, NULL, &code) == RFG_OK, "%s", rfg_last_error());
    static const char *const entries[] = { "calibrate_empty", "calibrate_read", "calibrate_chase", "calibrate_reduce" };
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(memmem(code->data, code->size, entries[i], strlen(entries[i])));
    free(source);
    rfg_cache_close(&cache);
}
END_TEST

/* ---- cold inputs ------------------------------------------------------------------------------------------------- */

/* fakehip() with a cache and a memory of these sizes. */
static struct rfg_hip sized;
static int64_t cache_size;
static size_t memory_size;

static hipError_t describe_sized(int device, struct rfg_device *out)
{
    hipError_t e = fakehip()->describe(device, out);
    out->cache_bytes = cache_size;
    return e;
}

static hipError_t total_sized(size_t *bytes, hipDevice_t device)
{
    (void)device;
    *bytes = memory_size;
    return hipSuccess;
}

static rfg_context *open_sized(int64_t cache, size_t memory)
{
    sized = *fakehip();
    sized.describe = describe_sized;
    sized.hipDeviceTotalMem = total_sized;
    cache_size = cache;
    memory_size = memory;
    rfg_hip_override(RFG_PLATFORM_AMD, &sized);
    return open_context("amd:0");
}

static void keep_line(void *user, rfg_log_topic topic, const char *line)
{
    (void)topic;
    snprintf(user, 400, "%s", line);
}

#define MIB ((int64_t)1 << 20)

/* No cache keeps the inputs from one turn to the next: at least twice the last one. */
START_TEST(rotation)
{
    struct rfg_device dev;
    static const char *const archs[] = { "gfx908",  "gfx90a",  "gfx942",  "gfx942:38", "gfx950",
                                         "gfx1100", "gfx1201", "gfx1151", "sm_90" };
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
        ck_assert(rfg_device_imagine(&dev, archs[i]));
        ck_assert_msg((int64_t)rfg_rotate_bytes(&dev) == 4 * dev.cache_bytes, "%s", archs[i]);
    }
    ck_assert(rfg_device_imagine(&dev, "gfx942"));
    ck_assert_int_eq(rfg_rotate_bytes(&dev), 1024 * MIB);
    dev.cache_bytes = 384 * MIB;
    ck_assert_int_eq(rfg_rotate_bytes(&dev), 1024 * MIB);
    dev.cache_bytes = 768 * MIB;
    ck_assert_int_eq(rfg_rotate_bytes(&dev), 1536 * MIB);
    rfg_device_cpu(&dev, 2);
    ck_assert_int_eq(rfg_rotate_bytes(&dev), 2 * dev.cache_bytes);
    dev.cache_bytes = 0;
    ck_assert_int_eq(rfg_rotate_bytes(&dev), 0);
}
END_TEST

/* Sets of 1 MiB of inputs and as much output, and more on guards: a quarter of the memory, which is said where it is
 * too little. */
static const struct {
    int64_t memory;
    int sets;
    bool said;
} rooms[] = { { 1024 * MIB, 33, false }, { 264 * MIB, 32, false }, { 32 * MIB, 3, true }, { MIB, 1, true } };

START_TEST(rotation_within_the_memory)
{
    char line[400] = "";
    struct rfg_case *c;
    struct rfg_problem p;
    rfg_context *ctx = open_sized(8 * MIB, (size_t)rooms[_i].memory);
    rfg_set_log_callback(keep_line, line, 0);
    struct rfg_case_params params = { .seed = 1, .rotate_bytes = rfg_rotate_bytes(rfg_context_info(ctx)) };
    ck_assert(rfg_problem_parse(&p, "act bf16->bf16 M=128 N=4096", NULL));
    ck_assert_msg(rfg_case_create(ctx, &p, &params, &c) == RFG_OK, "%s", rfg_last_error());
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert_int_eq(rfg_case_sets(c), rooms[_i].sets);
    ck_assert_msg(rooms[_i].said == (strstr(line, "less than twice its cache of 8 MiB") != NULL), "'%s'", line);
    rfg_case_destroy(&c);
    rfg_context_destroy(&ctx);
}
END_TEST

START_TEST(calibration_within_the_memory)
{
    char line[400] = "";
    struct rfg_calibration c;
    fakehip_speed(some.mem_gbps, some.cache_gbps, some.latency_us, some.load_us, some.sync_us);
    for (int enough = 0; enough < 2; enough++) {
        rfg_context *ctx = open_sized((enough ? 32 : 256) * MIB, (size_t)512 * MIB);
        *line = 0;
        rfg_set_log_callback(keep_line, line, 0);
        ck_assert_msg(rfg_calibrate(ctx, &c) == RFG_OK, "%s", rfg_last_error());
        rfg_set_log_callback(NULL, NULL, 0);
        ck_assert_msg(enough ? !*line : strstr(line, "less than twice its cache of 256 MiB") != NULL, "'%s'", line);
        rfg_context_destroy(&ctx);
    }
}
END_TEST

int main(void)
{
    Suite *su = suite_create("calibrate");
    TCase *tc = test_case(su, "calibrate", setup, teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, measures_what_kernels_take, every_failure_is_told, holds_for_its_device_alone,
              refuses_what_no_machine_has, no_table_is_no_calibration, cpu_is_measured, emulator_is_refused, rotation,
              calibration_within_the_memory);
    ADD_LOOPS(tc, 3, times_launches_alone);
    ADD_LOOPS(tc, 7, kernels_compile);
    ADD_LOOPS(tc, 4, rotation_within_the_memory);
    return run_suite(su);
}
