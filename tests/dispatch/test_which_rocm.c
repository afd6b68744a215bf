/* SPDX-License-Identifier: MIT
 *
 * Which ROCm a process uses: base/rocm.h's order, tried with copies of fake_rocm.c in folders like those of PyTorch's
 * and ROCm's wheels. Check's fork per test gives each its own first look. */
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rocm.h"
#include "dispatch/hip/hip.h"
#include "dispatch/jit/jit.h"
#include "rfg/rfg.h"
#include "tests/program.h"
#include "tests/suite.h"
#include "tests/tempfiles.h"

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* What meson.build gives the fake as its soname; as long as any that tests want. */
#define PLACEHOLDER "fake-rocm-soname-placeholder"

static const char *in_root(const char *name)
{
    static char paths[8][600];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

/* A library at root/file that calls itself soname; a HIP runtime with hipRTC inside only if it is asked for. Returns
 * its path. */
static const char *put_with(const char *file, const char *soname, bool hiprtc)
{
    const char *path = in_root(file), *fake = rfg_env("RFG_FAKE_ROCM");
    char dir[600];
    snprintf(dir, sizeof(dir), "%s", path);
    *strrchr(dir, '/') = 0;
    ck_assert(rfg_mkdirs(dir));
    ck_assert_msg(fake, "RFG_FAKE_ROCM must name the library");
    size_t size;
    char *bytes = rfg_read_file(fake, &size);
    ck_assert_msg(bytes, "%s can't be read", fake);
    char *name = memmem(bytes, size, PLACEHOLDER, sizeof(PLACEHOLDER));
    ck_assert_ptr_nonnull(name);
    strcpy(name, soname);
    char *symbol = memmem(bytes, size, "hiprtcCreateProgram", sizeof("hiprtcCreateProgram"));
    if (!hiprtc)
        *symbol = 'x';
    FILE *f = fopen(path, "w");
    ck_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
    free(bytes);
    return path;
}

static const char *put(const char *file, const char *soname)
{
    return put_with(file, soname, false);
}

/* The libraries of a release in root/dir: under their sonames, or without numbers as PyTorch's wheels have them. */
static void put_release(const char *dir, int release, bool bare)
{
    static const char *const sonames[][RFG_ROCM_COUNT] = {
        { "libamdhip64.so.5", "libhiprtc.so.5", "libamd_comgr.so.2", "libhipblaslt.so.0", "librocblas.so.3" },
        { "libamdhip64.so.6", "libhiprtc.so.6", "libamd_comgr.so.2", "libhipblaslt.so.0", "librocblas.so.4" },
        { "libamdhip64.so.7", "libhiprtc.so.7", "libamd_comgr.so.3", "libhipblaslt.so.1", "librocblas.so.5" },
    };
    for (int i = 0; i < RFG_ROCM_COUNT; i++) {
        const char *soname = sonames[release - 5][i];
        char file[200];
        snprintf(file, sizeof(file), "%s/%.*s", dir, bare ? (int)(strrchr(soname, '.') - soname) : 99, soname);
        put(file, soname);
    }
}

static void *load(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib, "%s", dlerror());
    return lib;
}

static void clear(void)
{
    static const char *const names[] = { "RFG_LIBHIP",          "RFG_LIBHIPRTC",           "RFG_LIBCOMGR",
                                         "RFG_LIBHIPBLASLT",    "RFG_LIBROCBLAS",          "ROCM_PATH",
                                         "LD_LIBRARY_PATH",     "RFG_HIP_DISABLE",         "ROCR_VISIBLE_DEVICES",
                                         "HIP_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION" };
    setup();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static void expect(enum rfg_rocm which, const char *file)
{
    const struct rfg_rocm_library *l = rfg_rocm_open(which);
    ck_assert_msg(l->handle, "%s: %s", l->name, l->problem);
    ck_assert_str_eq(l->path, in_root(file));
    ck_assert_str_eq(l->problem, "");
}

static char warnings[2000];

static void note(void *user, rfg_log_topic topic, const char *text)
{
    (void)user;
    (void)topic;
    strncat(warnings, text, sizeof(warnings) - strlen(warnings) - 1);
}

/* ---- the process's own runtime ---------------------------------------------------------------------------------- */

/* PyTorch's wheel has loaded its libamdhip64.so; another ROCm comes first wherever else one could look. */
START_TEST(loaded_runtime_is_used)
{
    put_release("site-packages/torch/lib", 6, true);
    put_release("opt/lib", 7, false);
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    setenv("ROCM_PATH", in_root("opt"), 1);
    int *calls = dlsym(load(in_root("site-packages/torch/lib/libamdhip64.so")), "fake_rocm_calls");
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_gt(*calls, 0);
    struct rfg_platform_report r;
    ck_assert_ptr_nonnull(rfg_platform_amd.load(&r));
    ck_assert_str_eq(r.library, in_root("site-packages/torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_HIP, "site-packages/torch/lib/libamdhip64.so");
    ck_assert_str_eq(rfg_rocm_open(RFG_ROCM_HIP)->soname, "libamdhip64.so.6");
    expect(RFG_ROCM_HIPRTC, "site-packages/torch/lib/libhiprtc.so");
    expect(RFG_ROCM_COMGR, "site-packages/torch/lib/libamd_comgr.so");
    expect(RFG_ROCM_HIPBLASLT, "site-packages/torch/lib/libhipblaslt.so");
    expect(RFG_ROCM_ROCBLAS, "site-packages/torch/lib/librocblas.so");
    char paths[2][512];
    ck_assert_int_eq(rfg_rocm_runtimes(paths, 2), 1);
    rfg_context_destroy(&ctx);
}
END_TEST

/* The same with runtimes that work (emu/rocm): memory and stream of the one that is loaded mean nothing
 * to the other. */
START_TEST(memory_and_stream_of_the_loaded_runtime)
{
    static const char *const releases[] = { "6.4", "7.1" };
    enum { M = 4, N = 48, K = 64 };
    char other[600], file[600], loaded[600];
    const char *all = rfg_env("RFG_EMULATED_ROCM");
    snprintf(file, sizeof(file), "%s/%s/libamdhip64.so", all ? all : "", releases[_i]);
    snprintf(other, sizeof(other), "%s/%s", all ? all : "", releases[1 - _i]);
    if (access(file, R_OK) || access(other, R_OK)) {
        printf("SKIPPED: %s is not built\n", file);
        return;
    }
    ck_assert(rfg_mkdirs(in_root("torch/lib")));
    snprintf(loaded, sizeof(loaded), "%s", in_root("torch/lib/libamdhip64.so"));
    ck_assert_int_eq(symlink(file, loaded), 0);
    setenv("LD_LIBRARY_PATH", other, 1);
    setenv("EMULATED_ROCM_GPUS", "MI300X:4", 1);
    setenv("RFG_VARIANTS", "gemm_portable", 1);
    void *lib = load(loaded), *tensors[3];
#define THEIRS(name) ((__typeof__(&name))dlsym(lib, #name))
    float host[3][N * K];
    hipStream_t stream;
    ck_assert_int_eq(THEIRS(hipStreamCreateWithFlags)(&stream, hipStreamNonBlocking), hipSuccess);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(THEIRS(hipMalloc)(&tensors[i], sizeof(host[i])), hipSuccess);
        for (int k = 0; k < N * K; k++)
            host[i][k] = (float)(i + 1);
        ck_assert_int_eq(THEIRS(hipMemcpyHtoD)(tensors[i], host[i], sizeof(host[i])), hipSuccess);
    }
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = "amd:0", .user_db = "", .system_db = "", .cache_dir = "" };
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s", rfg_last_error());
    rfg_tensor x = rfg_tensor_2d(tensors[0], RFG_F32, M, K, K), w = rfg_tensor_2d(tensors[1], RFG_F32, N, K, K);
    rfg_tensor y = rfg_tensor_2d(tensors[2], RFG_F32, M, N, N);
    rfg_status st = rfg_op_gemm(ctx, &y, &x, &w, NULL, stream);
    ck_assert_msg(st == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(THEIRS(hipStreamSynchronize)(stream), hipSuccess);
    ck_assert_int_eq(THEIRS(hipMemcpyDtoH)(host[2], tensors[2], sizeof(host[2])), hipSuccess);
    for (int k = 0; k < M * N; k++)
        ck_assert_float_eq(host[2][k], 2 * K);
    rfg_context_destroy(&ctx);
}
END_TEST

/* A compiler asked before any context takes the loaded runtime's hipRTC, too. */
START_TEST(compiler_goes_by_the_loaded_runtime)
{
    put_release("torch/lib", 6, true);
    put_release("opt/lib", 7, false);
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    load(in_root("torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_HIPRTC, "torch/lib/libhiprtc.so");
    expect(RFG_ROCM_COMGR, "torch/lib/libamd_comgr.so");
}
END_TEST

/* The names that a runtime's file goes by; what only begins alike is no runtime. */
START_TEST(file_names)
{
    static const struct {
        const char *file;
        bool runtime;
    } files[] = {
        { "lib/libamdhip64.so", true },
        { "lib/libamdhip64.so.6", true },
        { "lib/libamdhip64.so.6.4.60400", true },
        { "lib/libamdhip64-0a1b2c3d.so.6", true },
        { "lib/libamdhip64-wrapper.so.6", false },
        { "lib/libamdhip64x.so.6", false },
        { "lib/xlibamdhip64.so.6", false },
    };
    char paths[1][512];
    load(put(files[_i].file, "libamdhip64.so.6"));
    ck_assert_int_eq(rfg_rocm_runtimes(paths, 1), files[_i].runtime);
    if (files[_i].runtime)
        expect(RFG_ROCM_HIP, files[_i].file);
}
END_TEST

/* AMD's wheels: versioned names alone, the BLAS libraries in a wheel of their own beside the runtime's. */
START_TEST(rocm_sdk_wheels)
{
    static const char *const families[] = { "sp/_rocm_sdk_libraries_gfx94X_dcgpu/lib", "sp/_rocm_sdk_libraries/lib" };
    char file[200];
    put("sp/_rocm_sdk_core/lib/libamdhip64.so.7", "libamdhip64.so.7");
    put("sp/_rocm_sdk_core/lib/libhiprtc.so.7", "libhiprtc.so.7");
    put("sp/_rocm_sdk_core/lib/libamd_comgr.so.3", "libamd_comgr.so.3");
    snprintf(file, sizeof(file), "%s/libhipblaslt.so.1", families[_i]);
    put(file, "libhipblaslt.so.1");
    snprintf(file, sizeof(file), "%s/librocblas.so.5", families[_i]);
    put(file, "librocblas.so.5");
    put_release("opt/lib", 7, false);
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    load(in_root("sp/_rocm_sdk_core/lib/libamdhip64.so.7"));
    expect(RFG_ROCM_ROCBLAS, file);
    snprintf(file, sizeof(file), "%s/libhipblaslt.so.1", families[_i]);
    expect(RFG_ROCM_HIPBLASLT, file);
    expect(RFG_ROCM_HIP, "sp/_rocm_sdk_core/lib/libamdhip64.so.7");
    expect(RFG_ROCM_HIPRTC, "sp/_rocm_sdk_core/lib/libhiprtc.so.7");
    expect(RFG_ROCM_COMGR, "sp/_rocm_sdk_core/lib/libamd_comgr.so.3");
}
END_TEST

/* Wheels for two families of GPUs: the process has chosen one. */
START_TEST(family_of_the_process)
{
    static const char *const files[] = { "sp/_rocm_sdk_libraries_gfx110X_all/lib/libhipblaslt.so.1",
                                         "sp/_rocm_sdk_libraries_gfx94X_dcgpu/lib/libhipblaslt.so.1" };
    load(put("sp/_rocm_sdk_core/lib/libamdhip64.so.7", "libamdhip64.so.7"));
    put(files[0], "libhipblaslt.so.1");
    put(files[1], "libhipblaslt.so.1");
    load(in_root(files[_i]));
    expect(RFG_ROCM_HIPBLASLT, files[_i]);
}
END_TEST

/* Where several releases share a directory, the runtime's own is taken. */
START_TEST(release_of_the_runtime)
{
    static const struct {
        int release;
        const char *comgr, *hipblaslt, *rocblas;
    } cases[] = { { 5, "libamd_comgr.so.2", "libhipblaslt.so.0", "librocblas.so.3" },
                  { 6, "libamd_comgr.so.3", "libhipblaslt.so.0", "librocblas.so.4" },
                  { 7, "libamd_comgr.so.3", "libhipblaslt.so.1", "librocblas.so.5" } };
    char file[64];
    for (int release = 5; release <= 7; release++)
        put_release("lib", release, false);
    snprintf(file, sizeof(file), "lib/libamdhip64.so.%d", cases[_i].release);
    load(in_root(file));
    expect(RFG_ROCM_HIP, file);
    snprintf(file, sizeof(file), "lib/libhiprtc.so.%d", cases[_i].release);
    expect(RFG_ROCM_HIPRTC, file);
    snprintf(file, sizeof(file), "lib/%s", cases[_i].comgr);
    expect(RFG_ROCM_COMGR, file);
    snprintf(file, sizeof(file), "lib/%s", cases[_i].hipblaslt);
    expect(RFG_ROCM_HIPBLASLT, file);
    snprintf(file, sizeof(file), "lib/%s", cases[_i].rocblas);
    expect(RFG_ROCM_ROCBLAS, file);
    for (int i = 0; i < RFG_ROCM_COUNT; i++)
        ck_assert(!rfg_rocm_differs((enum rfg_rocm)i, NULL));
}
END_TEST

/* PyTorch's runtime has no number in its file's name, but one of its own. */
START_TEST(release_of_a_bare_name)
{
    put("torch/lib/libamdhip64.so", "libamdhip64.so.6");
    put("opt/lib/librocblas.so.5", "librocblas.so.5");
    put("opt/lib/librocblas.so.4", "librocblas.so.4");
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    load(in_root("torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_ROCBLAS, "opt/lib/librocblas.so.4");
}
END_TEST

/* What tells one build from another. The types of ELF notes are in memory as they are in the file. */
START_TEST(versions)
{
    static const char id[] = "\3\0\0\0GNU"; /* NT_GNU_BUILD_ID */
    size_t size;
    const char *path = put("lib/libhiprtc.so.6.4.60400", "libhiprtc.so.6");
    char *bytes = rfg_read_file(path, &size), *note = memmem(bytes, size, id, sizeof(id)), says[64];
    if (!note) {
        printf("SKIPPED: the linker wrote no build id\n");
        return;
    }
    const unsigned char *u = (const unsigned char *)note + sizeof(id);
    if (_i == 0) {
        strcpy(says, "6.4.60400");
        ck_assert_int_eq(symlink("libhiprtc.so.6.4.60400", in_root("lib/libhiprtc.so.6")), 0);
    } else {
        snprintf(says, sizeof(says), "6 build %02x%02x%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4], u[5],
                 u[6], u[7]);
        ck_assert_int_eq(rename(path, in_root(_i == 1 ? "lib/libhiprtc.so" : "lib/libhiprtc.so.6")), 0);
    }
    if (_i == 3) { /* and without one */
        snprintf(says, sizeof(says), "6 size %zu", size);
        *note = 4;
        FILE *f = fopen(in_root("lib/libhiprtc.so.6"), "w");
        ck_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
    }
    setenv("ROCM_PATH", root, 1);
    ck_assert_str_eq(rfg_rocm_open(RFG_ROCM_HIPRTC)->version, says);
    free(bytes);
}
END_TEST

/* A release that came after us: hipRTC has the runtime's number, the others may have kept theirs. */
START_TEST(release_of_the_future)
{
    put("lib/libamdhip64.so.11", "libamdhip64.so.11");
    put("lib/libhiprtc.so.11", "libhiprtc.so.11");
    put("lib/libamd_comgr.so.3", "libamd_comgr.so.3");
    put("lib/librocblas.so.4", "librocblas.so.4");
    load(in_root("lib/libamdhip64.so.11"));
    expect(RFG_ROCM_HIPRTC, "lib/libhiprtc.so.11");
    expect(RFG_ROCM_COMGR, "lib/libamd_comgr.so.3");
    expect(RFG_ROCM_ROCBLAS, "lib/librocblas.so.4");
    struct rfg_reason why;
    ck_assert(!rfg_rocm_differs(RFG_ROCM_HIPRTC, &why));
    ck_assert(!rfg_rocm_differs(RFG_ROCM_COMGR, &why));
    ck_assert(rfg_rocm_differs(RFG_ROCM_ROCBLAS, &why));
    ck_assert_str_eq(why.text, "librocblas.so.4 is ROCm 6's, the HIP runtime libamdhip64.so.11 is ROCm 11's");
}
END_TEST

/* ROCm 5 had hipRTC in the runtime: its own comes before another release's that lies about. */
START_TEST(hiprtc_in_the_runtime)
{
    put_with("lib/libamdhip64.so.5", "libamdhip64.so.5", true);
    put("lib/libamd_comgr.so.2", "libamd_comgr.so.2");
    put_release("opt/lib", 6, false);
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    load(in_root("lib/libamdhip64.so.5"));
    expect(RFG_ROCM_HIPRTC, "lib/libamdhip64.so.5");
    expect(RFG_ROCM_COMGR, "lib/libamd_comgr.so.2");
    ck_assert(!rfg_rocm_differs(RFG_ROCM_HIPRTC, NULL));
}
END_TEST

START_TEST(two_runtimes_are_said)
{
    load(put("a/libamdhip64.so", "libamdhip64.so.6"));
    load(put("b/libamdhip64.so.7", "libamdhip64.so.7"));
    rfg_set_log_callback(note, NULL, 0);
    ck_assert_ptr_nonnull(rfg_platform_amd.load(NULL));
    expect(RFG_ROCM_HIP, "a/libamdhip64.so");
    PRINTS(warnings, "two HIP runtimes are loaded");
    PRINTS(warnings, in_root("a/libamdhip64.so"));
    PRINTS(warnings, in_root("b/libamdhip64.so.7"));
}
END_TEST

START_TEST(one_runtime_is_not)
{
    load(put("a/libamdhip64.so", "libamdhip64.so.6"));
    rfg_set_log_callback(note, NULL, 0);
    ck_assert_ptr_nonnull(rfg_platform_amd.load(NULL));
    ck_assert_str_eq(warnings, "");
}
END_TEST

/* ---- variables -------------------------------------------------------------------------------------------------- */

/* LD_LIBRARY_PATH as for any HIP program, whatever the number; then ROCM_PATH, then the system. */
START_TEST(order_of_places)
{
    put_release("path/lib", 6, false);
    put_release("rocm/lib", 7, false);
    setenv("ROCM_PATH", in_root("rocm"), 1);
    if (_i == 0) {
        char dirs[1300];
        snprintf(dirs, sizeof(dirs), "relative::/nowhere:%s", in_root("path/lib"));
        setenv("LD_LIBRARY_PATH", dirs, 1);
    }
    expect(RFG_ROCM_HIP, _i == 0 ? "path/lib/libamdhip64.so.6" : "rocm/lib/libamdhip64.so.7");
    expect(RFG_ROCM_HIPRTC, _i == 0 ? "path/lib/libhiprtc.so.6" : "rocm/lib/libhiprtc.so.7");
}
END_TEST

/* Without a runtime: who compiles for a machine elsewhere needs none. */
START_TEST(compiler_without_runtime)
{
    put("rocm/lib/libhiprtc.so.7", "libhiprtc.so.7");
    put("rocm/lib/libamd_comgr.so.3", "libamd_comgr.so.3");
    setenv("ROCM_PATH", in_root("rocm"), 1);
    expect(RFG_ROCM_HIPRTC, "rocm/lib/libhiprtc.so.7");
    expect(RFG_ROCM_COMGR, "rocm/lib/libamd_comgr.so.3");
    ck_assert_ptr_null(rfg_rocm_opened(RFG_ROCM_HIP));
    char paths[1][512];
    ck_assert_int_eq(rfg_rocm_runtimes(paths, 1), 0);
}
END_TEST

static const char *const elsewhere[RFG_ROCM_COUNT] = { "else/libamdhip64.so.7", "else/libhiprtc.so.7",
                                                       "else/libamd_comgr.so.3", "else/libhipblaslt.so.1",
                                                       "else/librocblas.so.5" };

/* Each library's own variable comes before everything; the others stay where they were. */
START_TEST(each_variable)
{
    put_release("lib", 6, false);
    put_release("else", 7, false);
    load(in_root("lib/libamdhip64.so.6"));
    setenv(rfg_rocm_variable((enum rfg_rocm)_i), in_root(elsewhere[_i]), 1);
    expect((enum rfg_rocm)_i, elsewhere[_i]);
    ck_assert_str_eq(rfg_rocm_open((enum rfg_rocm)_i)->found, rfg_rocm_variable((enum rfg_rocm)_i));
    if (_i == RFG_ROCM_HIP)
        expect(RFG_ROCM_ROCBLAS, "else/librocblas.so.5");
    else
        expect(RFG_ROCM_HIP, "lib/libamdhip64.so.6");
    if (_i == RFG_ROCM_HIPRTC) /* its own assembler */
        expect(RFG_ROCM_COMGR, "else/libamd_comgr.so.3");
}
END_TEST

/* What it names can't be loaded: no other is taken in its place. */
START_TEST(each_variable_wrong)
{
    const char *name = rfg_rocm_variable((enum rfg_rocm)_i);
    put_release("lib", 6, false);
    load(in_root("lib/libamdhip64.so.6"));
    setenv(name, in_root("nowhere.so"), 1);
    const struct rfg_rocm_library *l = rfg_rocm_open((enum rfg_rocm)_i);
    ck_assert_ptr_null(l->handle);
    PRINTS(l->problem, name);
    PRINTS(l->problem, in_root("nowhere.so"));
}
END_TEST

/* The name of 0.1 is not read any more. */
START_TEST(old_name)
{
    put_release("lib", 6, false);
    setenv("ROCM_PATH", root, 1);
    setenv("RFG_LIBAMDHIP64", "/nowhere", 1);
    expect(RFG_ROCM_HIP, "lib/libamdhip64.so.6");
}
END_TEST

static const struct {
    enum rfg_rocm which;
    const char *hip, *file, *says; /* NULL: they belong together */
} differing[] = {
    { RFG_ROCM_HIPRTC, "libamdhip64.so.6", "libhiprtc.so.7",
      "libhiprtc.so.7 is ROCm 7's, the HIP runtime "
      "libamdhip64.so.6 is ROCm 6's" },
    { RFG_ROCM_HIPRTC, "libamdhip64.so.7", "libhiprtc.so.6", "libhiprtc.so.6 is ROCm 6's" },
    { RFG_ROCM_HIPRTC, "libamdhip64.so.6", "libhiprtc.so.6", NULL },
    { RFG_ROCM_COMGR, "libamdhip64.so.7", "libamd_comgr.so.2", "libamd_comgr.so.2 is ROCm 6's" },
    { RFG_ROCM_COMGR, "libamdhip64.so.5", "libamd_comgr.so.3", "libamd_comgr.so.3 is ROCm 7's" },
    { RFG_ROCM_COMGR, "libamdhip64.so.6", "libamd_comgr.so.2", NULL },
    { RFG_ROCM_COMGR, "libamdhip64.so.6", "libamd_comgr.so.3", NULL },
    { RFG_ROCM_HIPBLASLT, "libamdhip64.so.7", "libhipblaslt.so.0", "libhipblaslt.so.0 is ROCm 6's" },
    { RFG_ROCM_HIPBLASLT, "libamdhip64.so.6", "libhipblaslt.so.1", "libhipblaslt.so.1 is ROCm 7's" },
    { RFG_ROCM_ROCBLAS, "libamdhip64.so.7", "librocblas.so.4", "librocblas.so.4 is ROCm 6's" },
    { RFG_ROCM_ROCBLAS, "libamdhip64.so.5", "librocblas.so.0", NULL },
};

START_TEST(releases_that_differ)
{
    char hip[64], file[64];
    snprintf(hip, sizeof(hip), "hip/%s", differing[_i].hip);
    snprintf(file, sizeof(file), "other/%s", differing[_i].file);
    put(hip, differing[_i].hip);
    put(file, differing[_i].file);
    setenv("RFG_LIBHIP", in_root(hip), 1);
    setenv(rfg_rocm_variable(differing[_i].which), in_root(file), 1);
    expect(RFG_ROCM_HIP, hip);
    expect(differing[_i].which, file);
    struct rfg_reason why = { "" };
    ck_assert_int_eq(rfg_rocm_differs(differing[_i].which, &why), differing[_i].says != NULL);
    if (differing[_i].says)
        PRINTS(why.text, differing[_i].says);
}
END_TEST

/* ---- trust ------------------------------------------------------------------------------------------------------ */

/* What others could have put beside the runtime is not loaded; a variable may name it all the same. */
START_TEST(others_files_beside)
{
    put_release("torch/lib", 6, true);
    put_release("opt/lib", 6, false);
    setenv("LD_LIBRARY_PATH", in_root("opt/lib"), 1);
    const char *bad = in_root("torch/lib/librocblas.so");
    if (_i == 0)
        ck_assert_int_eq(chmod(bad, 0666), 0);
    else if (geteuid()) {
        printf("SKIPPED: another user's library: takes root\n");
        return;
    } else
        ck_assert_int_eq(chown(bad, 12345, 12345), 0);
    rfg_set_log_callback(note, NULL, 0);
    load(in_root("torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_ROCBLAS, "opt/lib/librocblas.so.4");
    PRINTS(warnings, _i == 0 ? "can be written by others" : "belongs to another user");
}
END_TEST

/* All of a wheel that somebody else installed and this process has loaded belongs to that one. */
START_TEST(owner_of_the_runtime)
{
    if (geteuid()) {
        printf("SKIPPED: another user's runtime: takes root\n");
        return;
    }
    put_release("torch/lib", 6, true);
    ck_assert_int_eq(chown(in_root("torch/lib/libamdhip64.so"), 12345, 12345), 0);
    ck_assert_int_eq(chown(in_root("torch/lib/librocblas.so"), 12345, 12345), 0);
    load(in_root("torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_ROCBLAS, "torch/lib/librocblas.so");
}
END_TEST

/* A library that is there, but won't load, is not "not found". */
START_TEST(damaged_library)
{
    put("lib/libamdhip64.so.6", "libamdhip64.so.6");
    put_file("lib/librocblas.so.4", "no library");
    load(in_root("lib/libamdhip64.so.6"));
    const struct rfg_rocm_library *l = rfg_rocm_open(RFG_ROCM_ROCBLAS);
    ck_assert_ptr_null(l->handle);
    PRINTS(l->problem, in_root("lib/librocblas.so.4"));
    PRINTS(l->problem, "too short");
}
END_TEST

/* ---- programs --------------------------------------------------------------------------------------------------- */

/* A compile worker is a fresh process: it is told which hipRTC this one has. */
START_TEST(workers_compile_with_the_same)
{
    char script[700], *said;
    put_release("torch/lib", 6, true);
    snprintf(script, sizeof(script), "#!/bin/sh\necho \"$RFG_LIBHIPRTC $RFG_LIBCOMGR\" > %s\n", in_root("said"));
    ck_assert_int_eq(chmod(put_file("worker", script), 0755), 0);
    setenv("RFG_COMPILE_WORKER", in_root("worker"), 1);
    load(in_root("torch/lib/libamdhip64.so"));
    expect(RFG_ROCM_HIPRTC, "torch/lib/libhiprtc.so");
    expect(RFG_ROCM_COMGR, "torch/lib/libamd_comgr.so");
    struct rfg_jit_request req = { .name = "v{}", .entry = "k", .target = "gfx942", .source = "" };
    struct rfg_blob code = { 0 };
    char *log = NULL;
    struct rfg_jit_pool *pool = rfg_jit_pool_create(1, 20);
    (void)rfg_jit_pool_compile(pool, &rfg_jit_clang, &req, &code, &log);
    rfg_jit_pool_destroy(&pool);
    ck_assert_ptr_nonnull(said = rfg_read_file(in_root("said"), NULL));
    PRINTS(said, in_root("torch/lib/libhiprtc.so"));
    PRINTS(said, in_root("torch/lib/libamd_comgr.so"));
    free(said);
    free(log);
}
END_TEST

START_TEST(info_says_which)
{
    char line[900];
    put_release("lib", 6, false);
    put("else/librocblas.so.5", "librocblas.so.5");
    setenv("RFG_LIBHIP", in_root("lib/libamdhip64.so.6"), 1);
    setenv("RFG_LIBROCBLAS", in_root("else/librocblas.so.5"), 1);
    setenv("HIP_VISIBLE_DEVICES", "0", 1);
    setenv("HSA_OVERRIDE_GFX_VERSION", "9.4.1", 1);
    ck_assert_int_eq(run_program("rfg-info", "%s", ""), 0);
    snprintf(line, sizeof(line), "AMD: %s, version 6.4.43483", in_root("lib/libamdhip64.so.6"));
    PRINTS(out, line);
    snprintf(line, sizeof(line), "  hip: %s (libamdhip64.so.6, RFG_LIBHIP)\n", in_root("lib/libamdhip64.so.6"));
    PRINTS(out, line);
    snprintf(line, sizeof(line), "  hiprtc: %s (libhiprtc.so.6, beside the HIP runtime)\n",
             in_root("lib/libhiprtc.so.6"));
    PRINTS(out, line);
    snprintf(line, sizeof(line), "  comgr: %s (", in_root("lib/libamd_comgr.so.2"));
    PRINTS(out, line);
    snprintf(line, sizeof(line), "  hipblaslt: %s (", in_root("lib/libhipblaslt.so.0"));
    PRINTS(out, line);
    snprintf(line, sizeof(line),
             "  rocblas: %s (librocblas.so.5, RFG_LIBROCBLAS)\n    warning: another release: "
             "librocblas.so.5 is ROCm 7's, the HIP runtime libamdhip64.so.6 is ROCm 6's\n",
             in_root("else/librocblas.so.5"));
    PRINTS(out, line);
    PRINTS(out, "  HIP_VISIBLE_DEVICES=0: HIP shows ");
    PRINTS(out, "  HSA_OVERRIDE_GFX_VERSION=9.4.1: HIP's arch is gfx941, the GPU's own is ");
    PRINTS(out, "  /dev/kfd: ");
    setenv("RFG_VENDOR", "0", 1);
    RUNS(run_program("rfg-info", "%s", ""), 0, out, "  comgr: ");
    ck_assert_ptr_null(strstr(out, "rocblas"));
    setenv("RFG_HIP_DISABLE", "amd", 1);
    ck_assert_int_eq(run_program("rfg-info", "%s", ""), 0);
    ck_assert_ptr_null(strstr(out, "ROCm's libraries"));
    ck_assert_ptr_null(strstr(out, "HIP_VISIBLE_DEVICES"));
}
END_TEST

/* Rows that were tuned under another arch's name are that arch's. */
START_TEST(tuner_warns_of_another_name)
{
    static const char dry[] = "--device amd:0 --dry-run --problem 'gemm bf16,bf16->bf16 M=1 N=256 K=256'";
    put_release("lib", 6, false);
    setenv("RFG_LIBHIP", in_root("lib/libamdhip64.so.6"), 1);
    ck_assert_msg(run_program("rfg-tune", "%s", dry) == 0, "%s", err);
    ck_assert_ptr_null(strstr(err, "HSA_OVERRIDE"));
    ck_assert_ptr_null(strstr(err, "/dev/kfd"));
    setenv("HSA_OVERRIDE_GFX_VERSION", "9.4.1", 1);
    ck_assert_msg(run_program("rfg-tune", "%s", dry) == 0, "%s", err);
    PRINTS(err, "warning: HSA_OVERRIDE_GFX_VERSION=9.4.1: HIP's arch is gfx941");
    PRINTS(err, "what is tuned here is kept and used as gfx941's");
}
END_TEST

static void in_a_folder(void)
{
    clear();
    program_setup();
}

static void folder_away(void)
{
    program_teardown();
    teardown();
}

int main(void)
{
    Suite *s = suite_create("which_rocm");
    TCase *tc = test_case(s, "libraries", clear, teardown);
    tcase_set_timeout(tc, 30);
    ADD_TESTS(tc, loaded_runtime_is_used, compiler_goes_by_the_loaded_runtime, release_of_a_bare_name,
              release_of_the_future, hiprtc_in_the_runtime, two_runtimes_are_said, one_runtime_is_not,
              compiler_without_runtime, old_name, owner_of_the_runtime, damaged_library, workers_compile_with_the_same);
    ADD_LOOPS(tc, 2, memory_and_stream_of_the_loaded_runtime);
    ADD_LOOPS(tc, 7, file_names);
    ADD_LOOPS(tc, 2, rocm_sdk_wheels, family_of_the_process);
    ADD_LOOPS(tc, 3, release_of_the_runtime);
    ADD_LOOPS(tc, 4, versions);
    ADD_LOOPS(tc, 2, order_of_places);
    ADD_LOOPS(tc, RFG_ROCM_COUNT, each_variable, each_variable_wrong);
    ADD_LOOPS(tc, sizeof(differing) / sizeof(differing[0]), releases_that_differ);
    ADD_LOOPS(tc, 2, others_files_beside);
    tc = test_case(s, "programs", in_a_folder, folder_away);
    ADD_TESTS(tc, info_says_which, tuner_warns_of_another_name);
    return run_suite(s);
}
