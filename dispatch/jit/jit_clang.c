/* SPDX-License-Identifier: MIT
 *
 * clang run as a program: for architectures that the hipRTC at hand does not know, and for machines without ROCm. Two
 * providers: a clang with lld from $RFG_CLANG or the PATH; and the one inside PyPI's ziglang package, which knows
 * gfx950. Each compiles or assembles to an object, which lld links. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit_internal.h"
#include "base/arch.h"
#include "base/tempdir.h"
#include "base/trust.h"
#include "base/util.h"

#define OLDEST_CLANG 17 /* the first that compiles HIP without a ROCm installation and knows gfx942 */

struct clang {
    bool ok;
    const char *argv[4]; /* how it is started: {"clang-19"} or {"python3", "-m", "ziglang", "clang"} */
    int argc;
    bool by_text; /* from source to assembly to an object: what an object at once isn't byte for byte */
    char path[256], linker[512], version[128];
    char *targets; /* --print-supported-cpus, as printed */
    struct rfg_reason why;
};

/* No HIP headers, no device library: the prelude brings what kernels need. No CUID: it hashes the temporary file's
 * name into the code object, which would then differ from compile to compile. Code object version 5 is clang 18's and
 * 19's default; from 20 on that is 6, which ROCm loads from 6.3 on. */
static const char *const options[] = { "--no-default-config",
                                       "-x",
                                       "hip",
                                       "-std=c++17",
                                       "--cuda-device-only",
                                       "--no-gpu-bundle-output",
                                       "-nogpuinc",
                                       "-nogpulib",
                                       "-fuse-cuid=none",
                                       "-mcode-object-version=5",
                                       "-O3",
                                       NULL };

/* Code object version 4 is what the sources say in their metadata. */
static const char *const assembler_options[] = {
    "--no-default-config", "-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=4", NULL
};

/* c's program with more arguments. */
static bool run(const struct clang *c, const char *const *args, const char *tmpdir, char **output,
                struct rfg_reason *why)
{
    const char *argv[32];
    int n = 0;
    for (int i = 0; i < c->argc; i++)
        argv[n++] = c->argv[i];
    for (int i = 0; args[i] && n < 31; i++)
        argv[n++] = args[i];
    argv[n] = NULL;
    return rfg_jit_run(argv, tmpdir, output, why);
}

/* Of the text's first line, at most so many bytes. */
static int line_length(const char *text, int most)
{
    size_t n = strcspn(text, "\n");
    return n < (size_t)most ? (int)n : most;
}

/* Asks c for its targets. clang says its version and its directory before them, also where it has no AMD GPU: one start
 * of it (30 ms) tells all. */
static bool probe(struct clang *c)
{
    static const char *const args[] = { "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus", NULL };
    struct rfg_reason why = { "" };
    bool ok = run(c, args, NULL, &c->targets, &why);
    const char *at = c->targets ? strstr(c->targets, "clang version ") : NULL;
    if (!at && !ok)
        return rfg_refuse(&c->why, "%s", why.text);
    const char *first = c->targets ? c->targets : "";
    if (!at || atoi(at + strlen("clang version ")) < OLDEST_CLANG)
        return rfg_refuse(&c->why, "%s is '%.*s': must be clang %d or newer", c->path, line_length(first, 60), first,
                          OLDEST_CLANG);
    if (!ok || !strstr(at, "gfx"))
        return rfg_refuse(&c->why, "%s was built without AMD GPU support", c->path);
    snprintf(c->version, sizeof(c->version), "%.*s", line_length(first, (int)sizeof(c->version) - 1), first);
    return true;
}

/* Is the target a whole word of what --print-supported-cpus printed? */
static bool lists(const struct clang *c, const char *target)
{
    size_t len = strlen(target);
    for (const char *s = c->targets; (s = strstr(s, target)); s += len)
        if (s > c->targets && strchr(" \t\n", s[-1]) && strchr(" \t\n", s[len]))
            return true;
    return false;
}

static bool in_path(const char *name)
{
    char path[512];
    return rfg_find_program(name, path, sizeof(path));
}

/* ---- clang -------------------------------------------------------------------------------------------------- */

static struct clang clang;
static pthread_once_t clang_once = PTHREAD_ONCE_INIT;

/* The linker that clang itself would start: the one in its own directory, or else the first in PATH. */
static bool find_linker(struct clang *c)
{
    static const char label[] = "InstalledDir: ";
    const char *dir = strstr(c->targets, label);
    if (dir)
        snprintf(c->linker, sizeof(c->linker), "%.*s/lld", line_length(dir + strlen(label), 500), dir + strlen(label));
    if (dir && rfg_access(c->linker, X_OK))
        return true;
    strcpy(c->linker, "lld");
    return in_path(c->linker) ||
           rfg_refuse(&c->why, "%s has no lld beside it (Debian: apt-get install lld-19)", c->path);
}

static bool try_clang(const char *path)
{
    free(clang.targets);
    snprintf(clang.path, sizeof(clang.path), "%s", path);
    clang.argv[0] = clang.path;
    clang.argc = 1;
    clang.ok = probe(&clang) && find_linker(&clang);
    return clang.ok;
}

static void load_clang(void)
{
    const char *chosen = rfg_env("RFG_CLANG");
    rfg_refuse(&clang.why, "clang-%d or newer not found in PATH (Debian: apt-get install clang-19 lld-19)",
               OLDEST_CLANG);
    if (chosen) {
        try_clang(chosen);
        return;
    }
    for (int v = 22; v >= OLDEST_CLANG; v--) {
        char name[16];
        snprintf(name, sizeof(name), "clang-%d", v);
        if (in_path(name) && try_clang(name))
            return;
    }
    if (in_path("clang"))
        try_clang("clang");
}

static bool clang_available(char *version, size_t size, struct rfg_reason *why)
{
    pthread_once(&clang_once, load_clang);
    snprintf(version, size, "%s", clang.version);
    if (!clang.ok && why)
        *why = clang.why;
    return clang.ok;
}

static bool clang_has_target(const char *target)
{
    if (strncmp(target, "gfx", 3))
        return false;
    pthread_once(&clang_once, load_clang);
    return clang.ok && lists(&clang, target);
}

/* ---- ziglang ------------------------------------------------------------------------------------------------ */

static struct clang zig;
static pthread_once_t zig_once = PTHREAD_ONCE_INIT;

static void load_zig(void)
{
    const char *python = rfg_env("RFG_ZIGLANG_PYTHON");
    snprintf(zig.path, sizeof(zig.path), "%s", python ? python : "python3");
    zig.argv[0] = zig.path;
    zig.argv[1] = "-m";
    zig.argv[2] = "ziglang";
    zig.argv[3] = "clang";
    zig.argc = 4;
    zig.by_text = true; /* so tuned rows of gfx950 were made */
    for (int v = 22; v >= OLDEST_CLANG && !zig.linker[0]; v--) {
        char name[16];
        snprintf(name, sizeof(name), "ld.lld-%d", v);
        if (in_path(name))
            strcpy(zig.linker, name);
    }
    if (!zig.linker[0] && in_path("ld.lld"))
        strcpy(zig.linker, "ld.lld");
    if (!zig.linker[0])
        rfg_refuse(&zig.why, "ld.lld not found in PATH (Debian: apt-get install lld-19)");
    else if (!(zig.ok = probe(&zig)) && !(zig.targets && strstr(zig.targets, "clang version ")))
        rfg_refuse(&zig.why, "%.60s -m ziglang clang can't be run (pip install ziglang; or set RFG_ZIGLANG_PYTHON)",
                   zig.path);
}

static bool zig_available(char *version, size_t size, struct rfg_reason *why)
{
    pthread_once(&zig_once, load_zig);
    snprintf(version, size, "%s%s", zig.ok ? "ziglang: " : "", zig.version);
    if (!zig.ok && why)
        *why = zig.why;
    return zig.ok;
}

static bool zig_has_target(const char *target)
{
    if (!rfg_arch_of(target)->new_clang) /* what it is here for */
        return false;
    pthread_once(&zig_once, load_zig);
    return zig.ok && lists(&zig, target);
}

/* ---- compiling ---------------------------------------------------------------------------------------------- */

static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

/* The directory is ours, but where the one above is everybody's (a /tmp without its sticky bit) it could have been
 * replaced: a file that isn't ours is not taken. NULL: why. */
static FILE *open_output(const char *path, struct rfg_reason *why)
{
    struct rfg_reason wrong;
    struct stat st = { .st_size = 0 };
    int fd = rfg_open_own_file(AT_FDCWD, path, O_RDONLY, &wrong);
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (f && !fstat(fd, &st) && st.st_size > 0 && st.st_size <= RFG_MAX_CODE)
        return f;
    if (st.st_size > RFG_MAX_CODE)
        rfg_refuse(why, "it left a file of %lld bytes: must be at most %u", (long long)st.st_size, RFG_MAX_CODE);
    else
        rfg_refuse(why, "it left no code object: %s", fd < 0 ? wrong.text : "it is empty");
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return NULL;
}

static bool is_output(const char *path, struct rfg_reason *why)
{
    FILE *f = open_output(path, why);
    if (f)
        fclose(f);
    return f != NULL;
}

static bool read_output(const char *path, struct rfg_blob *code, struct rfg_reason *why)
{
    FILE *f = open_output(path, why);
    if (!f)
        return false;
    code->data = rfg_read_stream(f, &code->size);
    fclose(f);
    return code->data || rfg_refuse(why, "%s: can't be read", path);
}

/* Source to an object (to assembly, if so). The driver that makes assembly is itself the compiler; for an object it starts
 * another and then the linker, a fifth of a small kernel's time. So it is asked for assembly and its compiler, behind its
 * back, for an object: the same bytes. */
static bool compile_source(const struct clang *c, const struct rfg_jit_request *req, const char *dir, const char *in,
                           bool to_text, const char *out, char **log, struct rfg_reason *why)
{
    char arch[64];
    const char *args[24];
    int n = 0;
    snprintf(arch, sizeof(arch), "--offload-arch=%s", req->target);
    for (int i = 0; options[i]; i++)
        args[n++] = options[i];
    const char *const more[] = { arch, "-o", out, in, "-S", to_text ? NULL : "-Xclang", "-emit-obj", NULL };
    memcpy(&args[n], more, sizeof(more));
    return run(c, args, dir, log, why);
}

/* Assembly to an object. */
static bool assemble(const struct clang *c, const struct rfg_jit_request *req, const char *dir, const char *in,
                     const char *object, char **log, struct rfg_reason *why)
{
    char cpu[64];
    const char *args[16];
    int n = 0;
    snprintf(cpu, sizeof(cpu), "-mcpu=%s", req->target);
    for (int i = 0; assembler_options[i]; i++)
        args[n++] = assembler_options[i];
    const char *const more[] = { cpu, "-c", "-o", object, in, NULL };
    memcpy(&args[n], more, sizeof(more));
    return run(c, args, dir, log, why);
}

static bool to_object(const struct clang *c, const struct rfg_jit_request *req, const char *dir, const char *in,
                      const char *object, char **log, struct rfg_reason *why)
{
    char text[PATH_MAX];
    snprintf(text, sizeof(text), "%s/mid.s", dir);
    if (req->assembly)
        return assemble(c, req, dir, in, object, log, why);
    if (!c->by_text)
        return compile_source(c, req, dir, in, false, object, log, why);
    if (!compile_source(c, req, dir, in, true, text, log, why))
        return false;
    free(*log);
    return assemble(c, req, dir, text, object, log, why);
}

/* An object to a code object. The compiler's log stays where the linker has nothing to say. */
static bool link_object(const struct clang *c, const char *dir, const char *object, const char *out, char **log,
                        struct rfg_reason *why)
{
    const char *const argv[] = { c->linker, "-flavor", "gnu", "-shared", "--no-undefined", "-o", out, object, NULL };
    char *said = NULL;
    bool ok = rfg_jit_run(argv, dir, &said, why);
    if (said && *said) {
        free(*log);
        *log = said;
    } else {
        free(said);
    }
    return ok;
}

/* In a temporary directory. False: a program has a word against the source, or *compiled and why: there is no output. */
static bool make(const struct clang *c, const struct rfg_jit_request *req, const char *dir, struct rfg_blob *code,
                 char **log, bool *compiled, struct rfg_reason *why)
{
    char in[PATH_MAX], object[PATH_MAX], out[PATH_MAX];
    snprintf(in, sizeof(in), "%s/in.%s", dir, req->assembly ? "s" : "hip");
    snprintf(object, sizeof(object), "%s/out.o", dir);
    snprintf(out, sizeof(out), "%s/out.co", dir);
    if (!write_file(in, req->source))
        return rfg_refuse(why, "the source can't be written to the temporary directory: %s", strerror(errno));
    *compiled = to_object(c, req, dir, in, object, log, why);
    if (!*compiled || !is_output(object, why))
        return false;
    *compiled = link_object(c, dir, object, out, log, why);
    return *compiled && read_output(out, code, why);
}

static rfg_status compile(const struct rfg_jit_provider *prov, const struct clang *c, const struct rfg_jit_request *req,
                          struct rfg_blob *code, char **log)
{
    struct rfg_tempdir tmp;
    struct rfg_reason why = { "" };
    *code = (struct rfg_blob){ 0 };
    *log = NULL;
    if (!prov->has_target(req->target))
        return rfg_jit_failed(prov, req, NULL, c->ok ? "not one of its targets" : c->why.text);
    if (!rfg_tempdir_make(&tmp, NULL))
        return rfg_fail(RFG_ERROR_IO, "%s for %s by %s: no temporary directory can be made in $TMPDIR or /tmp: %s",
                        req->name, req->target, prov->name, strerror(errno));
    bool compiled = false, ok = make(c, req, tmp.path, code, log, &compiled, &why);
    rfg_tempdir_remove(&tmp);
    if (*log && !**log) {
        free(*log);
        *log = NULL;
    }
    if (ok)
        return RFG_OK;
    if (compiled) /* without a word against the source */
        return rfg_fail(RFG_ERROR_IO, "%s for %s by %s: %s", req->name, req->target, prov->name, why.text);
    return rfg_jit_failed(prov, req, *log, why.text);
}

static rfg_status clang_compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    return compile(&rfg_jit_clang, &clang, req, code, log);
}

static rfg_status zig_compile(const struct rfg_jit_request *req, struct rfg_blob *code, char **log)
{
    return compile(&rfg_jit_ziglang, &zig, req, code, log);
}

const struct rfg_jit_provider rfg_jit_clang = {
    .name = "clang",
    .options = options,
    .assembler_options = assembler_options,
    .available = clang_available,
    .has_target = clang_has_target,
    .compile = clang_compile,
};

const struct rfg_jit_provider rfg_jit_ziglang = {
    .name = "ziglang",
    .options = options,
    .available = zig_available,
    .has_target = zig_has_target,
    .compile = zig_compile,
};
