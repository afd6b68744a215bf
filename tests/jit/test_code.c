/* SPDX-License-Identifier: MIT
 *
 * A compiler's output is checked before it is stored: compilers that exit with 0 and leave something else. */
#include <elf.h>
#include <unistd.h>

#include "base/tempdir.h"
#include "base/util.h"
#include "dispatch/jit/cache_disk.h"
#include "dispatch/jit/jit_internal.h"
#include "tests/entries.h"
#include "tests/suite.h"

#define ARGS                                                                                                           \
    "#if defined(__clang__) && !defined(__HIPCC_RTC__)\n"                                                              \
    "#define __global__ __attribute__((global))\n"                                                                     \
    "#endif\n"                                                                                                         \
    "struct args { float *y; const float *x; int n; };\n"
/* 24 bytes of arguments */
#define GOOD ARGS "extern \"C\" __global__ void scale(const args a)\n{\n    a.y[a.n] = a.x[0] * 2;\n}\n"
enum { ARGS_SIZE = 24 };

static struct rfg_tempdir tmp;
static const struct rfg_jit_provider *real; /* that the damaging one asks */
static const char *target, *other_target;
static void (*damage)(struct rfg_blob *code); /* NULL: none */

/* ---- the damages ------------------------------------------------------------------------------------------------- */

static void garbage(struct rfg_blob *code)
{
    memset(code->data, '#', code->size);
}

static void empty(struct rfg_blob *code)
{
    code->size = 0;
}

static void short_one(struct rfg_blob *code)
{
    code->size = 40;
}

static void half(struct rfg_blob *code)
{
    code->size /= 2;
}

/* Each section's content, but not the headers. */
static void hollow(struct rfg_blob *code)
{
    Elf64_Ehdr h;
    memcpy(&h, code->data, sizeof(h));
    bool first = h.e_phoff < h.e_shoff; /* NVIDIA's program headers come last */
    size_t from = first ? h.e_phoff + (size_t)h.e_phnum * h.e_phentsize : sizeof(h);
    memset((char *)code->data + from, 0, h.e_shoff - from);
}

static void program(struct rfg_blob *code)
{
    rfg_blob_free(code);
    code->data = rfg_read_file("/proc/self/exe", &code->size);
    ck_assert_ptr_nonnull(code->data);
}

static void compiles_source(const char *source, const char *entry, const char *of, struct rfg_blob *code)
{
    char *log;
    struct rfg_jit_request req = { .name = "t{}", .entry = entry, .target = of, .source = source };
    rfg_blob_free(code);
    ck_assert_msg(real->compile(&req, code, &log) == RFG_OK, "%s", rfg_last_error());
    free(log);
}

static void others(struct rfg_blob *code)
{
    compiles_source(GOOD, "scale", other_target, code);
}

static void no_entry(struct rfg_blob *code)
{
    compiles_source(ARGS "extern \"C\" __global__ void scaled(const args a)\n{\n    a.y[0] = 1;\n}\n", "scaled", target,
                    code);
}

/* A function, and no kernel, of that name. */
static void no_kernel(struct rfg_blob *code)
{
    compiles_source(ARGS "extern \"C\" __attribute__((device, noinline, used)) int scale(int i) { return i * 3; }\n"
                         "extern \"C\" __global__ void other(const args a)\n{\n    a.y[0] = 1;\n}\n",
                    "other", target, code);
}

static void fewer_arguments(struct rfg_blob *code)
{
    compiles_source(ARGS "extern \"C\" __global__ void scale(float *y, const float *x)\n{\n    y[0] = x[0];\n}\n",
                    "scale", target, code);
}

static void more_arguments(struct rfg_blob *code)
{
    compiles_source(ARGS "extern \"C\" __global__ void scale(const args a, int m)\n{\n    a.y[m] = a.x[0];\n}\n",
                    "scale", target, code);
}

static void no_arguments(struct rfg_blob *code)
{
    compiles_source(ARGS "extern \"C\" __global__ void scale()\n{\n}\n", "scale", target, code);
}

static const struct {
    const char *name;
    void (*fn)(struct rfg_blob *code);
    const char *words; /* of the message */
} damages[] = {
    { "garbage", garbage, "not an ELF file" },
    { "empty", empty, "0 bytes" },
    { "short", short_one, "40 bytes" },
    { "half", half, "not in the file" },
    { "hollow", hollow, "scale" },
    { "another program", program, "machine 62" },
    { "another target", others, "must be" },
    { "another kernel", no_entry, "no kernel scale" },
    { "no kernel", no_kernel, "no kernel scale" },
    { "fewer arguments", fewer_arguments, "16 bytes of arguments: must be 20 to 24" },
    { "more arguments", more_arguments, "28 bytes of arguments: must be 20 to 24" },
    { "no arguments", no_arguments, "0 bytes of arguments: must be 20 to 24" },
};
#define N_DAMAGES (int)(sizeof(damages) / sizeof(damages[0]))

/* ---- the compiler ------------------------------------------------------------------------------------------------ */

static bool available(char *version, size_t size, struct rfg_reason *why)
{
    (void)why;
    snprintf(version, size, "damaging 1.0");
    return true;
}

static bool has_target(const char *t)
{
    return target && !strcmp(t, target);
}

/* What the compiler makes of GOOD, asked once. */
static void good(struct rfg_blob *code)
{
    static struct rfg_blob made; /* of a test, which has one target and a process of its own */
    if (!made.data)
        compiles_source(GOOD, "scale", target, &made);
    code->data = malloc(made.size);
    ck_assert_ptr_nonnull(code->data);
    memcpy(code->data, made.data, code->size = made.size);
}

static rfg_status compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    (void)req;
    *log = NULL;
    good(code);
    if (damage)
        damage(code);
    return RFG_OK;
}

static const char *const no_options[] = { NULL };
static const struct rfg_jit_provider damaging = {
    .name = "damaging", .options = no_options, .available = available, .has_target = has_target, .compile = compile
};

static void setup(void)
{
    ck_assert(rfg_tempdir_make(&tmp, NULL));
    rfg_jit_extra_provider = &damaging;
    damage = NULL;
    target = NULL;
}

static void teardown(void)
{
    rfg_tempdir_remove(&tmp);
}

/* false: it isn't here. */
static bool choose(const struct rfg_jit_provider *prov, const char *t, const char *other)
{
    char version[128];
    real = prov;
    target = t;
    other_target = other;
    return prov->available(version, sizeof(version), NULL) && prov->has_target(t) && prov->has_target(other);
}

static const struct {
    const struct rfg_jit_provider *prov;
    const char *target, *other;
} kinds[] = {
    { &rfg_jit_clang, "gfx942", "gfx90a" },
    { &rfg_jit_clang, "gfx1201", "gfx1100" },
    { &rfg_jit_nvrtc, "sm_90a", "sm_80" },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static struct rfg_jit_request request_of(void)
{
    return (struct rfg_jit_request){
        .name = "scale{rows=2}", .entry = "scale", .target = target, .source = GOOD, .args = ARGS_SIZE, .least_args = 20
    };
}

static int stored(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", tmp.path, target);
    return entries_in(path);
}

START_TEST(damaged_code_is_not_stored)
{
    if (!choose(kinds[_i].prov, kinds[_i].target, kinds[_i].other)) {
        printf("SKIPPED: no compiler for %s\n", kinds[_i].target);
        return;
    }
    struct rfg_jit_request req = request_of();
    const struct rfg_blob *code;
    for (int d = 0; d < N_DAMAGES; d++) {
        struct rfg_cache *c = rfg_cache_open(tmp.path, 0);
        damage = damages[d].fn;
        ck_assert_msg(rfg_cache_get(c, &req, NULL, NULL, &code) == RFG_ERROR_IO, "%s %s: %s", target, damages[d].name,
                      rfg_last_error());
        const char *said = rfg_last_error();
        ck_assert_msg(strstr(said, damages[d].words) && strstr(said, "scale{rows=2}") && strstr(said, target) &&
                          strstr(said, "damaging"),
                      "%s %s: %s", target, damages[d].name, said);
        ck_assert_msg(stored() == 0, "%s %s: it is stored", target, damages[d].name);
        damage = NULL;
        ck_assert_msg(rfg_cache_get(c, &req, NULL, NULL, &code) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(stored(), 1);
        rfg_cache_close(&c);
        char *cmd = rfg_asprintf("rm -r %s/%s", tmp.path, target);
        ck_assert_int_eq(system(cmd), 0);
        free(cmd);
    }
}
END_TEST

/* What an earlier version stored under a valid checksum. */
START_TEST(damaged_code_of_the_disk_is_compiled_anew)
{
    if (!choose(kinds[_i].prov, kinds[_i].target, kinds[_i].other))
        return;
    struct rfg_jit_request req = request_of();
    struct rfg_reason why;
    const struct rfg_blob *code;
    char key[65];
    rfg_cache_key(&req, &damaging, key);
    for (int d = 0; d < N_DAMAGES; d++) {
        struct rfg_blob bad = { 0 };
        struct rfg_cache_stats s;
        int dir = rfg_disk_open(tmp.path, target, &why);
        good(&bad);
        damages[d].fn(&bad);
        ck_assert_uint_gt(rfg_disk_write(dir, key, &bad), 0);
        rfg_blob_free(&bad);
        for (int again = 0; again < 2; again++) {
            struct rfg_cache *c = rfg_cache_open(tmp.path, 0);
            ck_assert_msg(rfg_cache_get(c, &req, NULL, NULL, &code) == RFG_OK, "%s", rfg_last_error());
            rfg_cache_get_stats(c, &s);
            ck_assert_msg((int)s.compiles == !again && (int)s.corrupt == !again, "%s %s: %d compiles, %d corrupt",
                          target, damages[d].name, (int)s.compiles, (int)s.corrupt);
            rfg_cache_close(&c);
        }
        close(dir);
    }
}
END_TEST

/* Matrices that a launch describes: further arguments, 64 bytes aligned, that a request only says there may be. */
START_TEST(more_arguments_may_be_said)
{
    struct rfg_blob code = { 0 };
    struct rfg_reason why;
    if (!choose(&rfg_jit_nvrtc, "sm_90a", "sm_80"))
        return;
    struct rfg_jit_request req = request_of();
    more_arguments(&code);
    ck_assert(!rfg_code_check(&req, &code, &why));
    req.more_args = true;
    ck_assert(rfg_code_check(&req, &code, &why));
    fewer_arguments(&code);
    ck_assert(!rfg_code_check(&req, &code, &why));
    rfg_blob_free(&code);
}
END_TEST

/* Nothing is known of them. */
START_TEST(other_targets)
{
    struct rfg_blob code = { (char[]){ "anything" }, 8 };
    struct rfg_jit_request req = { .name = "v{}", .entry = "k", .target = "test1", .source = "", .args = 8 };
    struct rfg_reason why;
    ck_assert(rfg_code_check(&req, &code, &why));
    code.size = RFG_MAX_CODE + 1;
    ck_assert(!rfg_code_check(&req, &code, &why));
    ck_assert_str_eq(why.text, "268435457 bytes: must be at most 268435456");
}
END_TEST

int main(void)
{
    Suite *su = suite_create("code");
    TCase *tc = test_case(su, "code", setup, teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, more_arguments_may_be_said, other_targets);
    ADD_LOOPS(tc, N_KINDS, damaged_code_is_not_stored, damaged_code_of_the_disk_is_compiled_anew);
    return run_suite(su);
}
