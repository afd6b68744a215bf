/* SPDX-License-Identifier: MIT
 *
 * The counters that rfg-emu and rfg-bench print, and the counts that rfg's kernels must keep. */
#include <jansson.h>

#include "dispatch/context.h"
#include "base/util.h"
#include "emu_counters_kernel.h"
#include "emu_kernel.h"
#include "tests/program.h"
#include "tests/suite.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100" };
#define N_ARCHS 3
#define DATA    1024 /* ints: what the addresses are relative to */

static int64_t member(const json_t *j, const char *a, const char *b, const char *c)
{
    j = json_object_get(j, a);
    j = b ? json_object_get(j, b) : j;
    j = c ? json_object_get(j, c) : j;
    ck_assert_msg(json_is_integer(j), "%s %s %s", a, b ? b : "", c ? c : "");
    return json_integer_value(j);
}

static void write_floats(const char *path, int n, float value)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < n; i++)
        ck_assert(fwrite(&value, sizeof(value), 1, f) == 1);
    ck_assert_int_eq(fclose(f), 0);
}

static void write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

START_TEST(programs)
{
    static int buffer[DATA + 8192];
    const struct rfg_blob *code;
    const char *arch = archs[_i];
    setenv("RFG_EMU_CHECKS", "0", 1);
    emu_open_device(arch);
    emu_build(arch, "k", source, &code);
    for (int l = 0; l < DATA; l++)
        buffer[l] = 8 * l; /* a lane's address */
    FILE *f = fopen("k.co", "wb");
    ck_assert(f && fwrite(code->data, 1, code->size, f) == code->size && !fclose(f));
    f = fopen("in.bin", "wb");
    ck_assert(f && fwrite(buffer, 1, sizeof(buffer), f) == sizeof(buffer) && !fclose(f));
    const char *how = "--kernel k --block 64 --repeat 2";
    char device[40];
    snprintf(device, sizeof(device), "--device %s", arch);
    ck_assert_msg(
        run_program("rfg-emu", "run k.co %s %s --counters --json --args inout:in.bin:out.bin i32:1", device, how) == 0,
        "%s", err);
    json_t *j = json_loads(out, 0, NULL), *counters = json_object_get(j, "counters");
    ck_assert_msg(counters, "'%s'", out);
    ck_assert_int_eq(member(counters, "launches", NULL, NULL), 2);
    ck_assert_int_eq(member(counters, "global", "loads", "bytes"), 2 * 512);
    ck_assert_int_eq(member(counters, "global", "loads", "lines64"), 2 * (4 + 8));
    ck_assert_int_eq(member(counters, "wave_instructions", NULL, NULL), member(j, "executed", NULL, NULL));
    json_decref(j);
    /* A word that is none before the end; a target that isn't emulated, whose file doesn't lose the others. */
    char *bytes = malloc(code->size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, code->data, code->size);
    bytes[0x30] = 0x33;
    write_bytes("gfx1010.co", bytes, code->size);
    bytes[0x30] = ((const char *)code->data)[0x30];
    size_t end = 256;
    uint32_t word = 0, ends = strcmp(arch, "gfx1100") ? 0xbf810000 : 0xbfb00000;
    for (; end + 4 < code->size && word != ends; end += 4)
        memcpy(&word, bytes + end, 4);
    ck_assert_uint_eq(word, ends);
    memset(bytes + end - 8, 0xff, 4);
    write_bytes("bad.co", bytes, code->size);
    free(bytes);
    ck_assert_int_eq(run_program("rfg-emu", "--coverage gfx1010.co k.co bad.co"), 1);
    PRINTS(err, "gfx1010.co: code object for machine 0x33: not an architecture that is known here");
    PRINTS(out, "(undecodable)");
    PRINTS(out, "3 files, 1 wholly implemented, 1 not readable or not decodable");
    ck_assert_int_eq(run_program("rfg-emu", "run k.co %s %s --counters --args in:in.bin i32:1", device, how), 0);
    PRINTS(out, "2 launches, 2 workgroups");
    PRINTS(out, "limited by");
    ck_assert_int_eq(run_program("rfg-emu", "run k.co %s %s --args in:in.bin i32:1", device, how), 0);
    ck_assert_ptr_null(strstr(out, "launches"));
    ck_assert_int_eq(run_program("rfg-emu", "run k.co %s %s --json --args in:in.bin i32:1", device, how), 0);
    j = json_loads(out, 0, NULL);
    ck_assert(json_is_string(json_object_get(j, "kernel")) && !json_object_get(j, "counters"));
    json_decref(j);
    ck_assert_msg(run_program("rfg-emu", "time k.co %s --kernel k --block 64 --trace t.trace --args in:in.bin i32:1",
                              device) == 0,
                  "%s", err);
    RUNS(run_program("rfg-emu", "time --replay t.trace --hot 1"), 0, out, "% at 0x");
    ck_assert_ptr_eq(strstr(out, "% at 0x"), strrchr(out, '%')); /* one of them */
    RUNS(run_program("rfg-emu", "time --replay k.co t.trace"), 2, err, "must be a trace");
    RUNS(run_program("rfg-emu", "time --replay nope.trace t.trace"), 1, err, "nope.trace");
    snprintf(device, sizeof(device), "emu:%s:4", arch);
    ck_assert_msg(run_program("rfg-bench",
                              "--device %s --counters --json --problem 'gemm bf16,bf16->f32 M=3 N=32 K=256'",
                              device) == 0,
                  "%s", err);
    j = json_loads(out, 0, NULL);
    ck_assert_msg(j, "'%s'", out);
    ck_assert_int_ge(member(j, "launches", NULL, NULL), 1);
    ck_assert_int_ge(member(j, "global", "unique64", NULL) * 64, (3 + 32) * 256 * 2);
    ck_assert(json_is_real(json_object_get(j, "minimal_bytes")));
    ck_assert_int_ge((int)json_array_size(json_object_get(j, "kernels")), 1);
    json_decref(j);
    ck_assert_int_eq(
        run_program("rfg-bench", "--device %s --counters --problem 'gemm bf16,bf16->f32 M=3 N=32 K=256'", device), 0);
    PRINTS(out, "global memory");
    PRINTS(out, "over the operator's minimum");
}
END_TEST

/* What rfg compiled and cached is a code object like any other. */
START_TEST(runs_files_of_the_cache)
{
    char file[300], said[300], *bytes;
    size_t size;
    setenv("RFG_CACHE_DIR", "cache", 1);
    ck_assert_msg(run_program("rfg-bench",
                              "--device emu:gfx942:4 --counters --problem 'gemm f32,f32->f32 M=2 N=16 K=32' "
                              "--variant 'gemm_portable{tile_m=16}'") == 0,
                  "%s", err);
    FILE *p = popen("ls cache/gfx942/*.rfgco", "r");
    ck_assert(p && fgets(file, sizeof(file), p) && pclose(p) == 0);
    file[strcspn(file, "\n")] = 0;
    ck_assert_msg(run_program("rfg-emu", "list %s", file) == 0, "%s", err);
    PRINTS(out, "gemm_portable: wave64");
    /* struct gemm_args: 2 rows of ones by 16 rows of twos, 32 long. */
#define ARGS "{ out:y.bin:128 in:x.bin in:w.bin null i32:2 i32:16 i32:32 i32:0 i64:32 i64:32 i64:16 zero:256 zero:256 }"
    write_floats("x.bin", 2 * 32, 1);
    write_floats("w.bin", 16 * 32, 2);
    ck_assert_msg(run_program("rfg-emu", "run %s --block 256 --args " ARGS, file) == 0, "%s", err);
    PRINTS(out, "gemm_portable: ");
    float *y = (float *)rfg_read_file("y.bin", &size);
    ck_assert(y && size == 128);
    for (int i = 0; i < 32; i++)
        ck_assert_float_eq(y[i], 64);
    free(y);
    static const struct {
        const char *args, *says;
    } wrong[] = {
        { "{ i32:1 }", "argument 0 has 4 bytes: " },
        { "{ i8:1 i64:1 i8:1 }", "argument 0 has 24 bytes: " },
        { "{ i32:1", "must have members and end with }" },
        { "{ }", "must have members and end with }" },
        { "{ bytes:x.bin }", "bytes:x.bin: can't be in a struct" },
        { "{ i32:1 } i32:1", "2 are given: gemm_portable has 1" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        RUNS(run_program("rfg-emu", "run %s --args %s", file, wrong[i].args), 2, err, wrong[i].says);
    }
    RUNS(run_program("rfg-emu", "--coverage %s", file), 0, out, "1 wholly implemented");
    /* A bit turned, or the end missing: said, not run. */
    bytes = rfg_read_file(file, &size);
    ck_assert(bytes && size > 1000);
    for (int cut = 0; cut < 2; cut++) {
        bytes[size / 2] ^= 1;
        FILE *f = fopen("bad.rfgco", "wb");
        ck_assert(f && fwrite(bytes, 1, size - (size_t)cut, f) == size - (size_t)cut && !fclose(f));
        ck_assert_int_eq(run_program("rfg-emu", "run bad.rfgco --block 256 --args " ARGS), 1);
        snprintf(said, sizeof(said), "bad.rfgco: %s", cut ? "truncated" : "wrong checksum");
        PRINTS(err, said);
    }
    free(bytes);
    /* Outputs are looked at before the launch. */
    ck_assert_int_eq(run_program("rfg-emu", "run %s --args { out:/nonexistent/x:128 }", file), 1);
    PRINTS(err, "'/nonexistent/x' can't be written: No such file");
    ck_assert_str_eq(out, "");
}
END_TEST

/* What docs/perf/norms.md says of them, with a little room: compilers differ. (Of the norms Triton's take
 * 184 and 681.) */
START_TEST(rows_stay_lean)
{
    static const struct {
        const char *problem, *variant;
        double a_wave, valu; /* wave-instructions; VALU instructions a 16-byte load: at most */
    } rows[] = {
        { "add_rmsnorm f16->f16 M=4 N=4096",
          "add_rmsnorm_rows{threads=256,rows=1,chunks=2,keep=1,ahead=1,width=16,stream=0,persist=0,split=1}", 165, 12 },
        { "add_rmsnorm bf16->bf16 M=2 N=8192",
          "add_rmsnorm_rows{threads=256,rows=1,chunks=4,keep=1,ahead=1,width=16,stream=0,persist=0,split=1}", 510, 33 },
        { "act_and_mul bf16->bf16 M=2 N=14336", "act_and_mul_flat{threads=64,unroll=2,width=16,stream=0,persist=0}",
          250, 38 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(run_program("rfg-bench", "--device emu:gfx942:8 --counters --json --problem '%s' --variant '%s'",
                                  rows[i].problem, rows[i].variant) == 0,
                      "%s: %s", rows[i].problem, err);
        json_t *j = json_loads(out, 0, NULL);
        const json_t *kernel = json_array_get(json_object_get(j, "kernels"), 0);
        int64_t bytes = member(j, "global", "loads", "bytes");
        double a_wave = (double)member(j, "wave_instructions", NULL, NULL) / (double)member(j, "waves", NULL, NULL);
        double valu =
            (double)(member(j, "by_class", "valu", NULL) + member(j, "by_class", "trans", NULL)) * 1024 / (double)bytes;
        ck_assert_msg(a_wave <= rows[i].a_wave, "%s: %.1f instructions a wave: at most %.0f", out, a_wave,
                      rows[i].a_wave);
        ck_assert_msg(valu <= rows[i].valu, "%s: %.1f VALU instructions a 16-byte load: at most %.0f", out, valu,
                      rows[i].valu);
        ck_assert_int_eq(member(j, "global", "loads", "lines128") * 128, bytes); /* whole lines */
        ck_assert_int_eq(member(j, "lds", "conflict_cycles", NULL), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(kernel, "spilled_vgprs")), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(kernel, "scratch")), 0);
        json_decref(j);
    }
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_programs");
    TCase *tc = test_case(s, "programs", program_setup, program_teardown);
    tcase_set_timeout(tc, 120);
    ADD_TESTS(tc, runs_files_of_the_cache, rows_stay_lean);
    ADD_LOOPS(tc, N_ARCHS, programs);
    return run_suite(s);
}
