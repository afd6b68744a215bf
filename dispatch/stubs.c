/* SCAFFOLD, to be deleted before the first release: weak definitions so that the tree links while its parts are
 * being written. A strong definition anywhere replaces one here. */
#include <stdlib.h>
#include "context.h"
#include "util.h"
#include "../ops/cpu/pool.h"
#include "../ops/gemm/gemm.h"
#define W __attribute__((weak))
#define NOT_YET rfg_fail(RFG_ERROR_INTERNAL, "%s: not there yet", __func__)
#pragma GCC diagnostic ignored "-Wunused-parameter"
W const struct rfg_hip *rfg_hip_amd(struct rfg_platform_report *r) { return NULL; }
W const struct rfg_hip *rfg_hip_nvidia(struct rfg_platform_report *r) { return NULL; }
W void rfg_device_peaks(struct rfg_device *d) {}
W void rfg_device_cpu(struct rfg_device *d, int threads)
{
    *d = (struct rfg_device){ .name = "cpu", .arch = "cpu-base", .cu_count = threads ? threads : 2, .wave_size = 1,
        .mem_gbps = 20, .mma_tflops = 0.1, .fma_tflops = 0.1, .latency_us = 2, .sync_us = 2, .cache_bytes = 32 << 20 };
}
W bool rfg_device_imagine(struct rfg_device *dev, const char *arch) { return false; }
W void rfg_hip_override(enum rfg_platform p, const struct rfg_hip *hip) {}
W void rfg_blob_free(struct rfg_blob *b) {}
W char *rfg_jit_expand(const struct rfg_kernel *k) { (void)NOT_YET; return NULL; }
W void rfg_jit_source_hash(const char *source, char hex[65]) { hex[0] = 0; }
W const struct rfg_jit_provider *rfg_jit_provider_for(const char *t) { (void)NOT_YET; return NULL; }
W struct rfg_cache *rfg_cache_open(const char *dir, uint64_t m) { static int x; return (struct rfg_cache *)&x; }
W void rfg_cache_close(struct rfg_cache **c) { *c = NULL; }
W void rfg_cache_get_stats(struct rfg_cache *c, struct rfg_cache_stats *s) { *s = (struct rfg_cache_stats){ 0 }; }
W void rfg_cache_key(const struct rfg_jit_request *r, const struct rfg_jit_provider *p, char hex[65]) { hex[0] = 0; }
W rfg_status rfg_cache_get(struct rfg_cache *c, const struct rfg_jit_request *r, rfg_compile_fn f, void *ctx, const struct rfg_blob **code) { return NOT_YET; }
W struct rfg_jit_pool *rfg_jit_pool_create(int w, double t) { return NULL; }
W void rfg_jit_pool_destroy(struct rfg_jit_pool **p) {}
W rfg_status rfg_jit_pool_compile(void *pool, const struct rfg_jit_provider *p, const struct rfg_jit_request *r, struct rfg_blob *c, char **l) { return NOT_YET; }
W int rfg_jit_prefetch(struct rfg_cache *c, struct rfg_jit_pool *pool, int w, const struct rfg_jit_request *r, int n, void (*done)(void *, int, rfg_status, const char *), void *ctx) { return n; }
W const char *rfg_source_name(enum rfg_source s) { return "?"; }
W rfg_status rfg_db_open(struct rfg_db **db, const char *path, enum rfg_db_mode mode) { *db = NULL; return NOT_YET; }
W void rfg_db_close(struct rfg_db **db) { *db = NULL; }
W char *rfg_db_user_path(void) { return calloc(1, 1); }
W char *rfg_db_system_path(const char *a, int c) { return calloc(1, 1); }
W rfg_status rfg_db_put(struct rfg_db *db, const struct rfg_row *row) { return NOT_YET; }
W int rfg_db_get(struct rfg_db *db, const struct rfg_problem *p, const char *a, int c, struct rfg_row *r) { return 0; }
W rfg_status rfg_db_each(struct rfg_db *db, const char *a, bool (*fn)(void *, const struct rfg_row *, const char *), void *ctx) { return NOT_YET; }
W bool rfg_row_params(const struct rfg_row *row, const struct rfg_variant *var, int *p, struct rfg_reason *why) { return false; }
W char *rfg_params_json(const struct rfg_variant *var, const int *p, char *buf, size_t size) { buf[0] = 0; return buf; }
W rfg_status rfg_db_add_misses(struct rfg_db *db, const struct rfg_problem *p, const char *a, int c, int r, uint64_t n) { return NOT_YET; }
W rfg_status rfg_db_each_miss(struct rfg_db *db, bool (*fn)(void *, const struct rfg_problem *, const char *, int, int, uint64_t, const char *), void *ctx) { return NOT_YET; }
W rfg_status rfg_db_clear_miss(struct rfg_db *db, const struct rfg_problem *p, const char *a, int c) { return NOT_YET; }
W rfg_status rfg_db_put_failure(struct rfg_db *db, const struct rfg_problem *p, const char *a, int c, const char *cf, const char *sh, const char *w, const char *d) { return NOT_YET; }
W int rfg_db_failed(struct rfg_db *db, const struct rfg_problem *p, const char *a, int c, const char *cf, const char *sh, char *what, size_t size) { return 0; }
W struct rfg_snapshot *rfg_snapshot_load(const char *u, const char *s, const char *a) { static int x; return (struct rfg_snapshot *)&x; }
W void rfg_snapshot_free(struct rfg_snapshot **s) { *s = NULL; }
W size_t rfg_snapshot_rows(const struct rfg_snapshot *s) { return 0; }
W const struct rfg_row *rfg_snapshot_exact(const struct rfg_snapshot *s, const struct rfg_problem *p, int c) { return NULL; }
W const struct rfg_row *rfg_snapshot_nearest(const struct rfg_snapshot *s, const struct rfg_problem *p, int c, int i) { return NULL; }
W const struct rfg_row *rfg_snapshot_other_cus(const struct rfg_snapshot *s, const struct rfg_problem *p, int c, int i) { return NULL; }
W rfg_status rfg_shapes_read(const char *path, struct rfg_shapes *out, void (*bad)(void *, const char *), void *ctx) { return NOT_YET; }
W void rfg_shapes_free(struct rfg_shapes *s) {}
W struct rfg_cpu_pool *rfg_cpu_pool_create(int t) { static int x; return (struct rfg_cpu_pool *)&x; }
W void rfg_cpu_pool_destroy(struct rfg_cpu_pool **p) { *p = NULL; }
W int rfg_cpu_pool_threads(const struct rfg_cpu_pool *p) { return 1; }
W void rfg_cpu_pool_run(struct rfg_cpu_pool *p, int n, void (*fn)(void *, int, int), void *ctx) { for (int i = 0; i < n; i++) fn(ctx, i, 0); }
static bool no(const struct rfg_device *d, const struct rfg_problem *p, struct rfg_reason *why) { return rfg_refuse(why, "not there yet"); }
W const struct rfg_variant gemm_cpu_avx512 = { .name = "gemm_cpu_avx512", .kind = RFG_VARIANT_HOST, .supports = no };
W const struct rfg_variant gemm_cpu_avx2 = { .name = "gemm_cpu_avx2", .kind = RFG_VARIANT_HOST, .supports = no };
W const struct rfg_variant gemm_cpu_portable = { .name = "gemm_cpu_portable", .kind = RFG_VARIANT_HOST, .supports = no };
W const struct rfg_variant gemm_skinny = { .name = "gemm_skinny", .supports = no };
W const struct rfg_variant gemm_splitk_mma = { .name = "gemm_splitk_mma", .supports = no };
W const struct rfg_variant gemm_portable = { .name = "gemm_portable", .supports = no };
W const struct rfg_variant gemm_cublaslt = { .name = "gemm_cublaslt", .kind = RFG_VARIANT_VENDOR, .supports = no };
W const struct rfg_variant gemm_hipblaslt = { .name = "gemm_hipblaslt", .kind = RFG_VARIANT_VENDOR, .supports = no };
W const struct rfg_variant gemm_rocblas = { .name = "gemm_rocblas", .kind = RFG_VARIANT_VENDOR, .supports = no };
