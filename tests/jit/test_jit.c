/* SPDX-License-Identifier: MIT
 *
 * Expansion, the compilers on this machine, and failures of the machine. */
#include <elf.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch/context.h"
#include "dispatch/jit/jit_internal.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "tests/suite.h"
#include "jit_case.h"

/* ---- expansion ---------------------------------------------------------------------------------------------- */

START_TEST(expands_macros_and_includes)
{
    put_file("t/a.hip", "// a\n#include \"one.h\"\n  #  include \"t/two.h\"\n#include \"one.h\"\nint a;\n");
    put_file("device/one.h", "#pragma once\nint one;\n");
    put_file("t/two.h", "#include \"one.h\"\nint two;"); /* no newline at the end */
    setenv("RFG_KERNEL_DIR", root, 1);
    struct rfg_kernel k = { .source = "t/a.hip", .entry = "a" };
    rfg_kernel_macro(&k, "TILE", 16);
    rfg_kernel_macro(&k, "SHIFT", -3);
    char *text = rfg_jit_expand(&k);
    ck_assert_msg(text != NULL, "%s", rfg_last_error());
    ck_assert_str_eq(text, "#define TILE 16\n"
                           "#define SHIFT -3\n"
                           "#line 1 \"t/a.hip\"\n"
                           "// a\n"
                           "#line 1 \"device/one.h\"\n"
                           "\n"
                           "int one;\n"
                           "#line 3 \"t/a.hip\"\n"
                           "#line 1 \"t/two.h\"\n"
                           "\n"
                           "#line 2 \"t/two.h\"\n"
                           "int two;\n"
                           "#line 4 \"t/a.hip\"\n"
                           "\n"
                           "#line 5 \"t/a.hip\"\n"
                           "int a;\n");
    free(text);
}
END_TEST

/* In assembly macros are symbols, and lines are marked as assemblers know it. */
START_TEST(expands_assembly)
{
    put_file("asm/x.s", "/* x */\n#include \"asm/y.inc\"\n    s_nop TILE\n");
    put_file("asm/y.inc", "Y = 1\n");
    setenv("RFG_KERNEL_DIR", root, 1);
    struct rfg_kernel k = { .source = "asm/x.s", .entry = "x" };
    rfg_kernel_macro(&k, "TILE", 16);
    char *text = rfg_jit_expand(&k);
    ck_assert_msg(text != NULL, "%s", rfg_last_error());
    ck_assert_str_eq(text, ".set TILE, 16\n"
                           "# 1 \"asm/x.s\"\n"
                           "/* x */\n"
                           "# 1 \"asm/y.inc\"\n"
                           "Y = 1\n"
                           "# 3 \"asm/x.s\"\n"
                           "    s_nop TILE\n");
    free(text);
}
END_TEST

START_TEST(every_embedded_kernel_expands)
{
    static const char *const kernels[] = { "gemm/gpu/any/portable.hip", "gemm/gpu/any/skinny.hip",
                                           "gemm/gpu/any/splitk_mma.hip", "asm/gfx90a/gemm_skinny.s",
                                           "asm/gfx942/gemm_skinny.s" };
    for (int i = 0; i < 5; i++) {
        struct rfg_kernel k = { .source = kernels[i] };
        char *text = rfg_jit_expand(&k), hex[65];
        ck_assert_msg(text != NULL, "%s", rfg_last_error());
        free(text);
        rfg_jit_source_hash(kernels[i], hex);
        ck_assert_uint_eq(strlen(hex), 64);
    }
}
END_TEST

/* What a comment or a formatter changes makes no tuned row stale. */
START_TEST(strips_comments_and_white_space)
{
    static const struct {
        const char *text, *stripped;
    } cases[] = {
        { "", "" },
        { "a", "a" },
        { " \n\ta  b\n", "a b" },
        { "a/* b */c", "a c" },
        { "a /* b\n * c */\n  d // e\nf", "a d f" },
        { "a // b", "a" },
        { "a /* not ended", "a" },
        { "a / b * c", "a/b*c" },
        { "f(\n    a, b) + +c; {\n}", "f(a,b) + +c; { }" },
        { "\"/* no  comment */\" \"\\\" // nor\" x", "\"/* no  comment */\" \"\\\" // nor\"x" },
        { "'\"' /* \" */ '\"'", "'\"' '\"'" },
        { "\"not ended", "\"not ended" },
        { "\"ends in \\", "\"ends in \\" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = strdup(cases[i].text);
        rfg_jit_strip(text);
        ck_assert_str_eq(text, cases[i].stripped);
        free(text);
    }
}
END_TEST

START_TEST(source_hash_sees_includes)
{
    char a[65], b[65], c[65];
    put_file("t/a.hip", "#include \"one.h\"\nint a;\n");
    put_file("device/one.h", "int one;\n");
    setenv("RFG_KERNEL_DIR", root, 1);
    rfg_jit_source_hash("t/a.hip", a);
    rfg_jit_source_hash("t/a.hip", b);
    ck_assert_uint_eq(strlen(a), 64);
    ck_assert_str_eq(a, b);
    put_file("device/one.h", "int two;\n");
    rfg_jit_source_hash("t/a.hip", c);
    ck_assert_str_ne(a, c);
}
END_TEST

START_TEST(expansion_errors_name_the_place)
{
    struct rfg_kernel k = { .source = "t/a.hip" };
    char hex[65];
    ck_assert_ptr_null(rfg_jit_expand(&k));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "t/a.hip"));
    rfg_jit_source_hash("t/a.hip", hex);
    ck_assert_str_eq(hex, "");
    setenv("RFG_KERNEL_DIR", root, 1);
    put_file("t/a.hip", "int a;\n#include \"nothing.h\"\n");
    ck_assert_ptr_null(rfg_jit_expand(&k));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "t/a.hip:2"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "nothing.h"));
    put_file("t/a.hip", "#include \"nothing\nint a;\n");
    ck_assert_ptr_null(rfg_jit_expand(&k));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "t/a.hip:1"));
}
END_TEST

/* ---- compilers ---------------------------------------------------------------------------------------------- */

/* The i-th compiler, or NULL (and says why) where it isn't installed. */
static const struct rfg_jit_provider *compiler(int i)
{
    struct rfg_reason why = { "" };
    char version[128];
    if (compilers[i].prov->available(version, sizeof(version), &why)) {
        ck_assert_str_ne(version, "");
        if (compilers[i].prov->has_target(compilers[i].target))
            return compilers[i].prov;
        snprintf(why.text, sizeof(why.text), "%s does not list it", version);
    }
    ck_assert_str_ne(why.text, "");
    printf("SKIPPED: %s by %s: %s\n", compilers[i].target, compilers[i].prov->name, why.text);
    return NULL;
}

START_TEST(compiles)
{
    const struct rfg_jit_provider *prov = compiler(_i);
    if (!prov)
        return;
    struct rfg_jit_request req = {
        .name = "scale{a=1}", .entry = "scale", .target = compilers[_i].target, .source = KERNEL "}\n"
    };
    struct rfg_blob code[2];
    for (int i = 0; i < 2; i++) {
        char *log = NULL;
        rfg_status st = prov->compile(&req, &code[i], &log);
        ck_assert_msg(st == RFG_OK, "%s\n%s", rfg_last_error(), log ? log : "");
        free(log);
    }
    /* The same request gives the same bytes: nothing of temporary names, times or ids is in them. */
    ck_assert_uint_eq(code[0].size, code[1].size);
    ck_assert_int_eq(memcmp(code[0].data, code[1].data, code[0].size), 0);
    Elf64_Ehdr *elf = code[0].data;
    ck_assert_uint_gt(code[0].size, sizeof(*elf));
    ck_assert_int_eq(memcmp(elf->e_ident, ELFMAG, SELFMAG), 0);
    ck_assert_int_eq(elf->e_machine, compilers[_i].machine);
    ck_assert_ptr_nonnull(memmem(code[0].data, code[0].size, "\0scale", 7));
    ck_assert_int_eq(entries_in(root), 0); /* temporary files are gone */
    rfg_blob_free(&code[0]);
    rfg_blob_free(&code[1]);
    ck_assert_ptr_null(code[0].data);
}
END_TEST

/* A format that a kernel, or a function of the prelude, knows nothing of never becomes another one. */
#define ENDS "RESIDUAL=0 GATED=0 SCALES=0 "
#define GEMM ENDS "W_SCALE_DTYPE=0 BIAS_DTYPE=2 PACKED=0 "
static const struct {
    const char *source, *entry, *macros; /* a kernel as it stands, or NULL and: */
    const char *statement;               /* of a kernel of the prelude alone */
    const char *macro;                   /* the one to be wrong; NULL: none */
    int good, bad;
} formats[] = {
    { "gemm/gpu/any/portable.hip", "gemm_portable", GEMM "OUT_DTYPE=3 W_DTYPE=3 TILE_M=16 PREPACKED=0", NULL,
      "IN_DTYPE", 3, 9 },
    { "gemm/gpu/any/portable.hip", "gemm_portable", GEMM "IN_DTYPE=3 W_DTYPE=3 TILE_M=16 PREPACKED=0", NULL,
      "OUT_DTYPE", 3, 8 },
    { "gemm/gpu/any/portable.hip", "gemm_portable", GEMM "IN_DTYPE=3 OUT_DTYPE=3 TILE_M=16 PREPACKED=0", NULL,
      "W_DTYPE", 3, 9 },
    { "gemm/gpu/any/portable.hip", "gemm_portable", GEMM "IN_DTYPE=3 OUT_DTYPE=3 TILE_M=16 PREPACKED=0", NULL,
      "W_DTYPE", 3, 2 },
    { "gemm/gpu/any/portable.hip", "gemm_portable",
      ENDS "W_SCALE_DTYPE=0 PACKED=0 IN_DTYPE=3 W_DTYPE=3 OUT_DTYPE=3 TILE_M=16 PREPACKED=0", NULL, "BIAS_DTYPE", 1,
      9 },
    { "gemm/gpu/any/portable.hip", "gemm_portable",
      ENDS "BIAS_DTYPE=3 PACKED=0 IN_DTYPE=3 W_DTYPE=3 OUT_DTYPE=3 TILE_M=16 PREPACKED=0", NULL, "W_SCALE_DTYPE", 0,
      1 },
    { "gemm/gpu/any/portable.hip", "gemm_portable",
      "RESIDUAL=0 SCALES=0 W_SCALE_DTYPE=0 BIAS_DTYPE=3 PACKED=0 IN_DTYPE=3 W_DTYPE=3 OUT_DTYPE=3 TILE_M=16 "
      "PREPACKED=0",
      NULL, "GATED", 1, 6 },
    { "gemm/gpu/any/skinny.hip", "gemm_skinny", GEMM "OUT_DTYPE=1 W_DTYPE=2 M_TILE=1 ROWS=1 WAVES=1 UNROLL=1", NULL,
      "IN_DTYPE", 2, 0 },
    { "gemm/gpu/any/skinny.hip", "gemm_skinny", GEMM "IN_DTYPE=2 W_DTYPE=2 M_TILE=1 ROWS=1 WAVES=1 UNROLL=1", NULL,
      "OUT_DTYPE", 1, 12 },
    { NULL, NULL, NULL, "rfg_store4(y, rfg_as_u32(rfg_load_float(y, 0, X)))", "X", 3, 9 },
    { NULL, NULL, NULL, "rfg_store_float(y, 0, 1.0f, X)", "X", 2, 6 },
    { NULL, NULL, NULL, "rfg_f32x4 f; f.x = f.y = f.z = f.w = 0; rfg_store_float4(y, 0, f, X)", "X", 2, 8 },
    { NULL, NULL, NULL, "float f[RFG_DTYPE_VEC(X)]; f[0] = 0; rfg_store4(y, rfg_as_u32(f[0]))", "X", 5, 10 },
    { NULL, NULL, NULL, "float f[8]; rfg_unpack(f, rfg_load16(y), X); rfg_store4(y, rfg_as_u32(f[0]))", "X", 3, 4 },
    { NULL, NULL, NULL, "float f[8] = { 0 }; rfg_store16(y, rfg_pack(f, X))", "X", 3, 10 },
    { NULL, NULL, NULL, "rfg_store16(y, rfg_load_chunk(y, 0, 8, X, 16, false))", "X", 1, 7 },
    { NULL, NULL, NULL, "rfg_store_chunk(y, 0, 8, rfg_load16(y), X, 16, false)", "X", 1, 11 },
    { NULL, NULL, NULL,
      "rfg_frag_c c; rfg_frag_ab a; a.v[0] = rfg_load16(y); rfg_frag_zero(&c); rfg_frag_mma(&c, &a, &a, X); "
      "rfg_store4(y, rfg_as_u32(c.v[0]))",
      "X", 3, 1 },
    { NULL, NULL, NULL,
      "rfg_frag_wx c; rfg_frag_ab a; a.v[0] = rfg_load16(y); rfg_frag_zero(&c); rfg_frag_mma_wx(&c, &a, &a, X); "
      "rfg_store4(y, rfg_as_u32(c.v[0]))",
      "X", 2, 4 },
    { NULL, NULL, NULL, "rfg_store4(y, IN_DTYPE)", "IN_DTYPE", 3, 9 },
    { NULL, NULL, NULL, "rfg_store4(y, OUT_DTYPE)", "OUT_DTYPE", 7, 8 },
    { NULL, NULL, NULL, "rfg_store4(y, DTYPE)", "DTYPE", 1, 4 },
    { NULL, NULL, NULL, "rfg_store4(y, KV_DTYPE)", "KV_DTYPE", 6, 7 },
};

static void add_macros(struct rfg_kernel *k, const char *text)
{
    static char names[12][16];
    int value, used;
    for (int i = 0; i < 12 && sscanf(text, " %15[A-Z_]=%d%n", names[i], &value, &used) == 2; i++, text += used)
        rfg_kernel_macro(k, names[i], value);
}

START_TEST(unknown_formats_are_refused)
{
    const struct rfg_jit_provider *prov = compiler(0); /* hipRTC, for gfx90a */
    if (!prov)
        return;
    for (int bad = 0; bad < 2; bad++) {
        struct rfg_kernel k = { .source = formats[_i].source, .entry = formats[_i].entry };
        if (!k.source) /* its kernel is appended: RFG_KERNEL_DIR stays that of whoever runs this, as mutate.py does */
            k = (struct rfg_kernel){ .source = "device/rfg_device.h", .entry = "scale" };
        add_macros(&k, formats[_i].macros ? formats[_i].macros : "");
        rfg_kernel_macro(&k, formats[_i].macro, bad ? formats[_i].bad : formats[_i].good);
        char *text = rfg_jit_expand(&k), *log = NULL;
        ck_assert_msg(text != NULL, "%s", rfg_last_error());
        if (!formats[_i].source) {
            char *prelude = text;
            text = rfg_asprintf("%sRFG_KERNEL(64) scale(char *y) { %s; }\n", prelude, formats[_i].statement);
            free(prelude);
        }
        struct rfg_jit_request req = { .name = "f{}", .entry = k.entry, .target = compilers[0].target, .source = text };
        struct rfg_blob code;
        rfg_status st = prov->compile(&req, &code, &log);
        ck_assert_msg(st == (bad ? RFG_ERROR_COMPILE : RFG_OK), "%s: %s=%d: %s", k.source, formats[_i].macro,
                      bad ? formats[_i].bad : formats[_i].good, st ? log : "compiles");
        if (!bad)
            rfg_blob_free(&code);
        free(log);
        free(text);
    }
}
END_TEST

START_TEST(syntax_error_gives_the_log)
{
    const struct rfg_jit_provider *prov = compiler(_i);
    if (!prov)
        return;
    struct rfg_jit_request req = {
        .name = "scale{a=1}", .entry = "scale", .target = compilers[_i].target, .source = KERNEL "    nonsense;\n}\n"
    };
    struct rfg_blob code;
    char *log = NULL;
    ck_assert_int_eq(prov->compile(&req, &code, &log), RFG_ERROR_COMPILE);
    ck_assert_ptr_null(code.data);
    ck_assert_ptr_nonnull(log);
    ck_assert_ptr_nonnull(strstr(log, "nonsense"));
    const char *error = rfg_last_error();
    const char *const wanted[] = { "scale{a=1}", compilers[_i].target, prov->name, "jit/scale.hip", "nonsense" };
    for (int i = 0; i < 5; i++)
        ck_assert_msg(strstr(error, wanted[i]) != NULL, "'%s' is not in '%s'", wanted[i], error);
    ck_assert_msg(strstr(error, "scale.hip:4") || strstr(error, "scale.hip(4)"), "%s", error);
    ck_assert_int_eq(entries_in(root), 0);
    free(log);
}
END_TEST

/* Debian's hipRTC aborts the process on an architecture that comgr doesn't list. */
START_TEST(unlisted_target_is_refused)
{
    static const char *const bad[] = { "gfx9999", "gfx942x", "gfx", "gfx90a:xnack+", "sm_1", "sm_90b", "sm_80a", "" };
    const struct rfg_jit_provider *prov = rfg_jit_providers[_i];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rfg_jit_request req = { .name = "s{}", .entry = "scale", .target = bad[i], .source = KERNEL "}\n" };
        struct rfg_blob code;
        char *log = NULL;
        ck_assert_msg(!prov->has_target(bad[i]), "%s knows '%s'?", prov->name, bad[i]);
        ck_assert_int_eq(prov->compile(&req, &code, &log), RFG_ERROR_COMPILE);
        ck_assert_ptr_null(code.data);
        ck_assert_ptr_nonnull(strstr(rfg_last_error(), bad[i]));
    }
}
END_TEST

START_TEST(provider_choice)
{
    ck_assert_ptr_null(rfg_jit_provider_for("gfx9999"));
    for (int i = 0; rfg_jit_providers[i]; i++)
        ck_assert_msg(strstr(rfg_last_error(), rfg_jit_providers[i]->name) != NULL, "%s: %s",
                      rfg_jit_providers[i]->name, rfg_last_error());
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "gfx9999"));
    if (rfg_jit_hiprtc.has_target("gfx90a"))
        ck_assert_ptr_eq(rfg_jit_provider_for("gfx90a"), &rfg_jit_hiprtc);
    setenv("RFG_JIT", "clang", 1);
    if (rfg_jit_clang.has_target("gfx90a"))
        ck_assert_ptr_eq(rfg_jit_provider_for("gfx90a"), &rfg_jit_clang);
    ck_assert_ptr_null(rfg_jit_provider_for("sm_90a"));
    setenv("RFG_JIT", "tcc", 1);
    ck_assert_ptr_null(rfg_jit_provider_for("gfx90a"));
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "RFG_JIT=tcc"));
}
END_TEST

START_TEST(missing_compilers_say_so)
{
    struct rfg_reason why = { "" };
    char version[128];
    setenv("RFG_CLANG", "/nowhere/clang", 1);
    ck_assert(!rfg_jit_clang.available(version, sizeof(version), &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/clang"));
    ck_assert(!rfg_jit_clang.has_target("gfx942"));
    setenv("RFG_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
    ck_assert(!rfg_jit_nvrtc.available(version, sizeof(version), &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/libnvrtc.so"));
    ck_assert(!rfg_jit_nvrtc.has_target("sm_90a"));
    setenv("RFG_ZIGLANG_PYTHON", "/nowhere/python3", 1);
    ck_assert(!rfg_jit_ziglang.available(version, sizeof(version), &why));
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/python3"));
}
END_TEST

START_TEST(second_run_calls_no_compiler)
{
    struct rfg_jit_request req = request("scale{}", KERNEL "}\n");
    if (!req.target)
        return;
    char *dir = rfg_asprintf("%s/cache", root);
    for (int i = 0; i < 2; i++) {
        const struct rfg_blob *code;
        struct rfg_cache_stats s;
        struct rfg_cache *c = rfg_cache_open(dir, 0);
        ck_assert_int_eq(rfg_cache_get(c, &req, NULL, NULL, &code), RFG_OK);
        rfg_cache_get_stats(c, &s);
        ck_assert_uint_eq(s.compiles, i == 0);
        ck_assert_uint_eq(s.disk_hits, i == 1);
        rfg_cache_close(&c);
    }
    free(dir);
}
END_TEST

/* ---- the machine ------------------------------------------------------------------------------------------------- */

#define WITH_OUTPUT(does) "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && { " does "; }; shift; done; "
/* What the machine did is no verdict about a kernel. */
static const struct {
    const char *does, *says;
    rfg_status st;
} breaking[] = {
    { "echo 'in.hip:3:1: error: nonsense' >&2; exit 1", "nonsense", RFG_ERROR_COMPILE },
    { "kill -SEGV $$", "SIGSEGV", RFG_ERROR_COMPILE },
    { "kill -KILL $$", "SIGKILL", RFG_ERROR_IO },
    { "kill -TERM $$", "SIGTERM", RFG_ERROR_IO },
    { "echo 'error: unable to open out.co: No space left on device' >&2; exit 1", "No space", RFG_ERROR_IO },
    { "echo 'clang: error: unable to execute command: Killed' >&2; exit 1", "Killed", RFG_ERROR_IO },
    { "echo 'sh: fork: Resource temporarily unavailable' >&2; exit 254", "Resource", RFG_ERROR_IO },
    { "exit 0", "out.o", RFG_ERROR_IO },
    /* too much */
    { WITH_OUTPUT("truncate -s 300M \"$2\"") "exit 0", "a file of 314572800 bytes: must be at most", RFG_ERROR_IO },
    { "while [ \"$(ulimit -f)\" = unlimited ]; do :; done; " /* it is set when the compiler runs already */
      WITH_OUTPUT("truncate -s 6G \"$2\" || exit 3"),
      "clang", RFG_ERROR_COMPILE },
    { "exec yes aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", RFG_ERROR_IO },
    { WITH_OUTPUT(": > \"$2\"") "exit 0", "no code object", RFG_ERROR_IO },
};

static bool has_clang(void)
{
    if (system("command -v clang-19 > /dev/null") == 0) /* the provider isn't asked: it would look for clang but once */
        return true;
    printf("SKIPPED: faults of clang-19: it is not there\n");
    return false;
}

START_TEST(passing_faults_are_no_verdict)
{
    if (!has_clang())
        return;
    char *path = rfg_asprintf("%s/clang", root),
         *text = rfg_asprintf("#!/bin/sh\ncase \"$*\" in *-cpus) exec clang-19 \"$@\";; esac\n%s\n", breaking[_i].does);
    put_file("clang", text);
    ck_assert_int_eq(chmod(path, 0755), 0);
    setenv("RFG_CLANG", path, 1);
    setenv("RFG_JIT", "clang", 1);
    struct rfg_jit_request req = { .name = "x", .entry = "x", .target = "gfx942", .source = KERNEL "}\n" };
    struct rfg_blob code;
    char *log;
    ck_assert_int_eq(rfg_jit_clang.compile(&req, &code, &log), breaking[_i].st);
    ck_assert_msg(strstr(rfg_last_error(), breaking[_i].says) != NULL, "%s", rfg_last_error());
    ck_assert_ptr_null(code.data);
    free(log);
    free(path);
    free(text);
}
END_TEST

/* What clang may say when it is asked for its targets; $dir has a linker. */
static const struct {
    const char *does, *why; /* NULL: it is taken */
} claims[] = {
    { "printf \"clang version 19.1.7 (x)\\nInstalledDir: $dir\\n\\tgfx942\\n\"", NULL },
    { "printf \"clang version 17.0.0\\nInstalledDir: $dir\\n\\tgfx942\\n\"", NULL },
    { "printf \"Debian clang version 16.0.6\\nInstalledDir: $dir\\n\\tgfx942\\n\"",
      "/clang is 'Debian clang version 16.0.6': must be clang 17 or newer" },
    { "printf \"gcc 12\\n\\tgfx942\\n\"", "/clang is 'gcc 12': must be clang 17 or newer" },
    { "printf \"clang version 19.1.7\\nInstalledDir: $dir\\nerror: unable to create target\\n\"; exit 1",
      "/clang was built without AMD GPU support" },
    { "printf \"clang version 19.1.7\\nInstalledDir: $dir\\n\\tsm_90\\n\"",
      "/clang was built without AMD GPU support" },
    { "printf \"clang version 19.1.7\\nInstalledDir: /nowhere\\n\\tgfx942\\n\"", "/clang has no lld beside it" },
    { "exit 3", "/clang exited with 3" },
};

START_TEST(what_clang_says_of_itself)
{
    char version[128], *path = rfg_asprintf("%s/clang", root),
                       *script = rfg_asprintf("#!/bin/sh\ndir=%s\n%s\n", root, claims[_i].does);
    struct rfg_reason why = { "" };
    put_file("clang", script);
    put_file("lld", "");
    char *lld = rfg_asprintf("%s/lld", root);
    ck_assert(chmod(path, 0755) == 0 && chmod(lld, 0755) == 0);
    setenv("RFG_CLANG", path, 1);
    setenv("PATH", "/nowhere", 1); /* this machine's lld is not meant */
    ck_assert_int_eq(rfg_jit_clang.available(version, sizeof(version), &why), claims[_i].why == NULL);
    ck_assert_msg(!claims[_i].why || strstr(why.text, claims[_i].why), "%s", why.text);
    ck_assert(claims[_i].why || rfg_jit_clang.has_target("gfx942"));
    ck_assert(!rfg_jit_clang.has_target("gfx94"));
    free(lld);
    free(path);
    free(script);
}
END_TEST

START_TEST(code_objects_are_of_version_5)
{
    struct rfg_jit_request req = { .name = "x", .entry = "x", .target = "gfx942", .source = KERNEL "}\n" };
    struct rfg_blob code;
    char *log, *path = rfg_asprintf("%s/clang", root);
    if (!has_clang())
        return;
    put_file("clang", "#!/bin/sh\ncase \"$*\" in *-cpus) exec clang-19 \"$@\";; esac\n"
                      "exec clang-19 -mcode-object-version=6 \"$@\"\n"); /* as a default: the last one is taken */
    ck_assert_int_eq(chmod(path, 0755), 0);
    setenv("RFG_CLANG", path, 1);
    ck_assert_msg(rfg_jit_clang.compile(&req, &code, &log) == RFG_OK, "%s", rfg_last_error());
    free(log);
    ck_assert_int_eq(((unsigned char *)code.data)[EI_ABIVERSION], 3); /* ELFABIVERSION_AMDGPU_HSA_V5 */
    rfg_blob_free(&code);
    free(path);
}
END_TEST

START_TEST(no_temporary_directory_is_no_verdict)
{
    struct rfg_jit_request req = { .name = "x", .entry = "x", .target = "gfx942", .source = KERNEL "}\n" };
    struct rfg_blob code;
    char *log;
    if (!has_clang())
        return;
    setenv("TMPDIR", "/proc/nowhere", 1);
    ck_assert_int_eq(rfg_jit_clang.compile(&req, &code, &log), RFG_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(rfg_last_error(), "no temporary directory"));
}
END_TEST

/* A killed maker's directory goes when the next one is made; a living one's, and what only looks like one, stays. */
START_TEST(temporary_directories_are_swept)
{
    struct rfg_tempdir mine, next;
    char *prefix = rfg_asprintf("%s/x.tmp-", root), *other = rfg_asprintf("%s/x.tmp-abc", root);
    char *link = rfg_asprintf("%s/x.tmp-linked", root), *deep = rfg_asprintf("%s/x.tmp-abcdefg", root);
    char *file = rfg_asprintf("%s/x.tmp-afile1", root);
    ck_assert(mkdir(other, 0700) == 0 && mkdir(deep, 0700) == 0 && symlink(other, link) == 0);
    fclose(fopen(file, "w"));
    ck_assert(rfg_tempdir_make(&mine, prefix));
    ck_assert_int_eq(strncmp(mine.path, prefix, strlen(prefix)), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rfg_tempdir lost;
        char *inner = rfg_tempdir_make(&lost, prefix) ? rfg_asprintf("%s/full", lost.path) : NULL;
        if (inner && mkdir(inner, 0700) == 0)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(entries_in(root), 6);
    ck_assert(rfg_tempdir_make(&next, prefix));
    ck_assert_int_eq(entries_in(root), 6); /* the lost one's place is taken by the next */
    ck_assert(access(mine.path, F_OK) == 0 && access(other, F_OK) == 0 && access(deep, F_OK) == 0);
    ck_assert(access(link, F_OK) == 0 && access(file, F_OK) == 0);
    rfg_tempdir_remove(&next);
    rfg_tempdir_remove(&mine);
    ck_assert_int_eq(entries_in(root), 4);
    free(prefix);
    free(other);
    free(link);
    free(deep);
    free(file);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("jit");
    TCase *tc = tcase_create("jit");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    ADD_TESTS(tc, expands_macros_and_includes, expands_assembly, every_embedded_kernel_expands,
              strips_comments_and_white_space, source_hash_sees_includes, expansion_errors_name_the_place);
    ADD_LOOPS(tc, N_COMPILERS, compiles, syntax_error_gives_the_log);
    tcase_add_loop_test(slow_case(s, "jit", "unknown_formats_are_refused", setup, teardown),
                        unknown_formats_are_refused, 0, (int)(sizeof(formats) / sizeof(formats[0])));
    ADD_TESTS(tc, provider_choice, missing_compilers_say_so, second_run_calls_no_compiler);
    ADD_LOOPS(tc, 4, unlisted_target_is_refused);
    suite_add_tcase(s, tc);

    tc = test_case(s, "machine", setup, teardown);
    ADD_TESTS(tc, temporary_directories_are_swept, code_objects_are_of_version_5, no_temporary_directory_is_no_verdict);
    ADD_LOOPS(tc, (sizeof(breaking) / sizeof(breaking[0])), passing_faults_are_no_verdict);
    ADD_LOOPS(tc, (sizeof(claims) / sizeof(claims[0])), what_clang_says_of_itself);
    return run_suite(s);
}
