/* SPDX-License-Identifier: MIT
 *
 * Common behaviour of rfg's programs: help, versions, wrong options, missing files, outputs that can't be written. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/program.h"
#include "rfg/rfg.h"
#include "tests/suite.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define P        "\"gemm f32,f32->f32 M=1 N=16 K=32\""
#define BENCH    "--device cpu --db none.db --rounds 3 --max-seconds 0.001 --problem " P

/* Each program, and each of its commands: all take -h, -V and no --bogus. */
static const struct {
    const char *name, *command;
} commands[] = {
    { "rfg-tune", "" },     { "rfg-bench", "" },       { "rfg-info", "" },     { "rfg-compile", "" },
    { "rfg-db", "" },       { "rfg-db", "list" },      { "rfg-db", "show" },   { "rfg-db", "export" },
    { "rfg-db", "import" }, { "rfg-db", "merge" },     { "rfg-db", "verify" }, { "rfg-db", "misses" },
    { "rfg-db", "path" },   { "rfg-emu", "" },         { "rfg-emu", "run" },   { "rfg-emu", "list" },
    { "rfg-emu", "bench" }, { "rfg-emu", "coverage" },
};

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void setup(void)
{
    program_setup();
    setenv("RFG_DB", "none.db", 1);
    setenv("RFG_CACHE_DIR", "cache", 1);
    setenv("RFG_CPU_ISA", "portable", 1);
    setenv("RFG_THREADS", "2", 1);
    unsetenv("RFG_VARIANTS");
}

START_TEST(say_what_they_are)
{
    const char *name = commands[_i].name, *command = commands[_i].command;
    char want[80];
    for (int l = 0; l < 2; l++) {
        ck_assert_msg(run_program(name, "%s %s", command, l ? "--help" : "-h") == 0, "%s %s: %s", name, command, err);
        ck_assert_str_eq(err, "");
        snprintf(want, sizeof(want), "usage: %s ", name);
        ck_assert_msg(!strncmp(out, want, strlen(want)), "%s", out);
        PRINTS(out, "-h, --help");
        PRINTS(out, "-V, --version");
        ck_assert_msg(run_program(name, "%s %s", command, l ? "--version" : "-V") == 0, "%s %s: %s", name, command,
                      err);
        ck_assert_str_eq(err, "");
        snprintf(want, sizeof(want), "%s %s\n", name, rfg_version());
        ck_assert_str_eq(out, want);
    }
}
END_TEST

START_TEST(refuse_options_that_they_do_not_have)
{
    const char *name = commands[_i].name, *command = commands[_i].command;
    static const char *const options[] = { "--bogus", "-Z" };
    for (size_t i = 0; i < COUNT(options); i++) {
        ck_assert_msg(run_program(name, "%s %s", command, options[i]) == 2, "%s %s: %s", name, command, err);
        ck_assert_str_eq(out, "");
        PRINTS(err, name);
        PRINTS(err, options[i] + 1 + (options[i][1] == '-'));
    }
}
END_TEST

/* Input that is not there or is no input: named, with the exit code, and nothing is printed as if it were a result. */
static const struct {
    const char *name, *args;
    int code;
    const char *says;
} inputs[] = {
    { "rfg-tune", "--shapes nope.csv", 3, "nope.csv" },
    { "rfg-tune", "--shapes header.csv", 3, "header.csv: has a header and no shapes" },
    { "rfg-bench", "--shapes nope.csv", 2, "nope.csv" },
    { "rfg-bench", "--shapes header.csv", 2, "header.csv: has a header and no shapes" },
    { "rfg-bench", "--shapes bad.csv", 2, "no line is good" },
    { "rfg-bench", "--baseline nope.json " BENCH, 2, "nope.json" },
    { "rfg-bench", "--baseline dir " BENCH, 2, "dir" },
    { "rfg-bench", "--baseline other.json " BENCH, 2, "'other.json' does not have this problem" },
    { "rfg-bench", "--baseline gpu.json " BENCH, 2, "'gpu.json': is of gfx942: this device is cpu" },
    { "rfg-bench", "--baseline other.json --all-variants " BENCH, 2, "--baseline: needs one time a problem" },
    { "rfg-bench", "--save-baseline b.json --all-variants " BENCH, 2, "--save-baseline: needs one time a problem" },
    { "rfg-db", "list nope.db", 2, "nope.db" },
    { "rfg-db", "show nope.db " P, 2, "nope.db" },
    { "rfg-db", "export nope.db", 2, "nope.db" },
    { "rfg-db", "import --db made.db nope.csv", 2, "nope.csv" },
    { "rfg-db", "merge --db made.db nope.db", 2, "nope.db" },
    { "rfg-db", "verify nope.db", 2, "nope.db" },
    { "rfg-db", "misses nope.db", 2, "nope.db" },
    { "rfg-emu", "run nope.co", 1, "nope.co" },
    { "rfg-emu", "run dir", 1, "dir" },
    { "rfg-emu", "list nope.co", 1, "nope.co" },
    { "rfg-emu", "run cut.rfgco", 1, "cut.rfgco: shorter than its header" },
    { "rfg-emu", "run", 2, "must have one FILE" },
    { "rfg-emu", "list", 2, "must have a file" },
    { "rfg-emu", "", 2, "command is missing" },
    { "rfg-db", "", 2, "usage: rfg-db" },
    { "rfg-tune", "--json x.json --report x.html --shapes nope.csv", 3, "nope.csv" },
    { "rfg-tune", "--json x.json --dry-run --problem " P, 2, "--json: is about measurements" },
    { "rfg-tune", "--report x.html --by-time --problem " P, 2, "--report: is about measurements" },
    { "rfg-tune", "--report x.html --calibrate", 2, "--report: is about measurements" },
    { "rfg-tune", "--report x --json x --problem " P, 2, "must be another file" },
};

START_TEST(name_the_input_that_is_missing)
{
    write_text("header.csv", "op,dtype,M,N,K\n");
    write_text("bad.csv", "op,dtype,M,N,K\ngemm,f32,0,1,1\n");
    write_text("other.json", "{\"p50_us\": {\"gemm f32,f32->f32 M=2 N=16 K=32\": 5}}");
    write_text("gpu.json", "{\"arch\": \"gfx942\", \"p50_us\": {\"gemm f32,f32->f32 M=1 N=16 K=32\": 5}}");
    FILE *f = fopen("cut.rfgco", "w");
    ck_assert(f && fwrite("RFGCODE", 1, 8, f) == 8 && fclose(f) == 0);
    ck_assert_int_eq(mkdir("dir", 0700), 0);
    ck_assert_msg(run_program(inputs[_i].name, "%s", inputs[_i].args) == inputs[_i].code, "%s %s exits otherwise: %s",
                  inputs[_i].name, inputs[_i].args, err);
    PRINTS(err, inputs[_i].says);
    ck_assert_ptr_null(strstr(out, "gemm f32")); /* no result */
    ck_assert_int_ne(access("x.json", F_OK), 0);
    ck_assert_int_ne(access("x.html", F_OK), 0);
}
END_TEST

/* %s: a path that can't be written. Said before the work: nothing is measured, compiled or written. */
static const struct {
    const char *name, *option, *args;
    int code;
} outputs[] = {
    { "rfg-tune", "--json", "--db made.db --problem " P " --json %s", 1 },
    { "rfg-tune", "--report", "--db made.db --problem " P " --report %s", 1 },
    { "rfg-bench", "--save-baseline", BENCH " --save-baseline %s", 2 },
    { "rfg-compile", "-o", "--arch gfx942 --problem " P " --variant 'gemm_portable{tile_m=16}' -o %s", 2 },
};

START_TEST(refuse_outputs_before_they_work)
{
    static const struct {
        const char *path, *says;
    } bad[] = { { "/nonexistent/x", "No such file" }, { "dir", "Is a directory" }, { "file/x", "Not a directory" } };
    ck_assert_int_eq(mkdir("dir", 0700), 0);
    write_text("file", "mine");
    for (size_t i = 0; i < COUNT(bad); i++) {
        char args[400];
        const char *at = strstr(outputs[_i].args, "%s");
        snprintf(args, sizeof(args), "%.*s%s%s", (int)(at - outputs[_i].args), outputs[_i].args, bad[i].path, at + 2);
        ck_assert_msg(run_program(outputs[_i].name, "%s", args) == outputs[_i].code, "%s exits otherwise: %s", args,
                      err);
        ck_assert_str_eq(out, "");
        snprintf(args, sizeof(args), "%s: %s: '%s' can't be written: %s", outputs[_i].name, outputs[_i].option,
                 bad[i].path, bad[i].says);
        PRINTS(err, args);
        ck_assert_int_ne(access("made.db", F_OK), 0);
        ck_assert_int_ne(access("cache", F_OK), 0);
    }
}
END_TEST

/* Something of every kind that is printed: of each, with a full disk and with a closed stdout, an error. */
static const struct {
    const char *name, *args;
    int code;
} printing[] = {
    { "rfg-tune", "--help", 1 },
    { "rfg-tune", "--version", 1 },
    { "rfg-tune", "--dry-run --device gfx942:304 --problem " P, 1 },
    { "rfg-tune", "--per-shape 0.05 --candidates 1 --problem " P, 1 },
    { "rfg-tune", "--per-shape 0.05 --candidates 1 --json - --problem " P, 1 },
    { "rfg-tune", "--per-shape 0.05 --candidates 1 --report - --problem " P, 1 },
    { "rfg-bench", "-h", 1 },
    { "rfg-bench", "--dispatch --device cpu --problem " P, 1 },
    { "rfg-bench", "--dispatch --json --device cpu --problem " P, 1 },
    { "rfg-info", "-V", 1 },
    { "rfg-info", "", 1 },
    { "rfg-info", "--json", 1 },
    { "rfg-info", "--keys gemm", 1 },
    { "rfg-compile", "-h", 1 },
    { "rfg-compile", "--list-targets", 1 },
    { "rfg-compile", "--source --arch gfx942 --problem " P " --variant 'gemm_portable{tile_m=16}'", 1 },
    { "rfg-db", "-h", 2 },
    { "rfg-db", "path", 2 },
    { "rfg-db", "list a.db", 2 },
    { "rfg-db", "list --json a.db", 2 },
    { "rfg-db", "show a.db " P, 2 },
    { "rfg-db", "export a.db", 2 },
    { "rfg-db", "export -o - a.db", 2 },
    { "rfg-db", "verify a.db", 2 },
    { "rfg-emu", "-V", 1 },
    { "rfg-emu", "run --help", 1 },
};

START_TEST(know_that_nobody_got_their_output)
{
    static const char *const where[] = { "> /dev/full", ">&-" };
    if (strstr(printing[_i].args, "a.db"))
        ck_assert_int_eq(run_program("rfg-tune", "--db a.db --per-shape 0.05 --candidates 1 --problem " P), 0);
    for (size_t i = 0; i < COUNT(where); i++) {
        int code = run_program_to(where[i], printing[_i].name, "%s", printing[_i].args);
        ck_assert_msg(code == printing[_i].code, "%s %s %s: %d: %s", printing[_i].name, printing[_i].args, where[i],
                      code, err);
        ck_assert_msg(strstr(err, i ? "Bad file descriptor" : "No space left") || strstr(err, "can't be written"),
                      "%s %s %s: %s", printing[_i].name, printing[_i].args, where[i], err);
    }
}
END_TEST

/* Results go to their file whole, or what was there stays. */
START_TEST(replace_files_whole)
{
    struct stat st;
    char *text;
    write_text("r.json", "old");
    ck_assert_int_eq(chmod("r.json", 0640), 0);
    ck_assert_int_eq(symlink("target.html", "link.html"), 0);
    ck_assert_int_eq(
        run_program("rfg-tune", "--per-shape 0.05 --candidates 1 --json r.json --report link.html --problem " P), 0);
    text = rfg_read_file("r.json", NULL);
    ck_assert(text && text[0] == '{' && stat("r.json", &st) == 0 && (st.st_mode & 0777) == 0640);
    free(text);
    ck_assert(lstat("link.html", &st) == 0 && S_ISLNK(st.st_mode) && stat("target.html", &st) == 0 && st.st_size > 0);
    ck_assert_int_eq(run_program("rfg-tune", "--json /dev/full --report /dev/null --problem " P), 1);
    PRINTS(err, "--json: '/dev/full' can't be written: No space left on device");
    ck_assert_ptr_null(strstr(err, "Success"));
    ck_assert_int_eq(run_program("rfg-bench", BENCH " --save-baseline b.json"), 0);
    ck_assert_int_eq(system("ls | grep -q '\\.tmp-'"), 256); /* nothing is left lying about */
}
END_TEST

static void add(Suite *s, const char *name, const TTest *test, int n)
{
    TCase *tc = test_case(s, name, setup, program_teardown);
    ADD_LOOPS(tc, n, test);
}

int main(void)
{
    Suite *s = suite_create("programs");
    add(s, "help", say_what_they_are, COUNT(commands));
    add(s, "options", refuse_options_that_they_do_not_have, COUNT(commands));
    add(s, "inputs", name_the_input_that_is_missing, COUNT(inputs));
    add(s, "outputs", refuse_outputs_before_they_work, COUNT(outputs));
    add(s, "stdout", know_that_nobody_got_their_output, COUNT(printing));
    add(s, "files", replace_files_whole, 1);
    return run_suite(s);
}
