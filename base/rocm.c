/* SPDX-License-Identifier: MIT */
#include "rocm.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "trust.h"
#include "util.h"

/* Sonames, newest first, and the major releases of ROCm that have them. HIP's and hipRTC's go by the release's major
 * (ROCm/clr, hipamd/src: HIP_LIB_VERSION_MAJOR, read in 5.6 to 6.0); the others' were not read in their sources. */
static const struct kind {
    const char *name, *stem, *env;
    struct {
        int number, from, to;
    } sonames[4];
    int n_sonames;
} kinds[RFG_ROCM_COUNT] = {
    [RFG_ROCM_HIP] = { "hip", "libamdhip64.so", "RFG_LIBHIP", { { 7, 7, 7 }, { 6, 6, 6 }, { 5, 5, 5 } }, 3 },
    [RFG_ROCM_HIPRTC] = { "hiprtc", "libhiprtc.so", "RFG_LIBHIPRTC", { { 7, 7, 7 }, { 6, 6, 6 }, { 5, 5, 5 } }, 3 },
    [RFG_ROCM_COMGR] = { "comgr", "libamd_comgr.so", "RFG_LIBCOMGR", { { 3, 6, 7 }, { 2, 5, 6 } }, 2 },
    [RFG_ROCM_HIPBLASLT] = { "hipblaslt", "libhipblaslt.so", "RFG_LIBHIPBLASLT", { { 1, 7, 7 }, { 0, 5, 6 } }, 2 },
    [RFG_ROCM_ROCBLAS] = { "rocblas",
                           "librocblas.so",
                           "RFG_LIBROCBLAS",
                           { { 5, 7, 7 }, { 4, 6, 6 }, { 3, 5, 5 }, { 0, 5, 5 } },
                           4 },
};
enum { MAX_NAMES = 6 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rfg_rocm_library libraries[RFG_ROCM_COUNT];
static bool looked_for[RFG_ROCM_COUNT];

/* ---- what is loaded --------------------------------------------------------------------------------------------- */

struct loaded {
    const char *stem;
    char (*paths)[512];
    int n, max;
};

/* "libamdhip64.so", "libamdhip64.so.6", and with a hash as wheels' repair tools put one,
 * "libamdhip64-1a2b3c4d.so.6". */
static bool is_called(const char *path, const char *stem)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t base = strlen(stem) - strlen(".so");
    if (strncmp(name, stem, base))
        return false;
    name += base;
    name += *name == '-' ? 1 + strspn(name + 1, "0123456789abcdef") : 0;
    return !strncmp(name, ".so", 3);
}

static int note_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct loaded *l = data;
    if (!info->dlpi_name || !is_called(info->dlpi_name, l->stem) || strlen(info->dlpi_name) >= sizeof(l->paths[0]))
        return 0;
    if (l->n < l->max)
        strcpy(l->paths[l->n], info->dlpi_name);
    l->n++;
    return 0;
}

static int list_loaded(const char *stem, char paths[][512], int max)
{
    struct loaded l = { .stem = stem, .paths = paths, .max = max };
    dl_iterate_phdr(note_loaded, &l);
    return l.n;
}

int rfg_rocm_runtimes(char paths[][512], int max)
{
    return list_loaded(kinds[RFG_ROCM_HIP].stem, paths, max);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* N of "libx.so.N.1.2", -1 without one. */
static int number_of(const char *soname)
{
    const char *so = strstr(soname, ".so.");
    return so && so[4] >= '0' && so[4] <= '9' ? (int)strtol(so + 4, NULL, 10) : -1;
}

struct build {
    ElfW(Addr) at;
    char id[17]; /* the first 8 bytes, in hex */
};

static int note_build(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct build *b = data;
    for (int i = 0; info->dlpi_addr == b->at && i < info->dlpi_phnum; i++) {
        const char *s = (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const char *end = s + info->dlpi_phdr[i].p_memsz;
        while (info->dlpi_phdr[i].p_type == PT_NOTE && (size_t)(end - s) > sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *n = (const void *)s;
            const unsigned char *id = (const unsigned char *)s + sizeof(*n) + (n->n_namesz + 3) / 4 * 4;
            size_t whole = sizeof(*n) + (n->n_namesz + 3) / 4 * 4 + (n->n_descsz + 3) / 4 * 4;
            if (whole > (size_t)(end - s))
                break;
            if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !memcmp(n + 1, "GNU", 4) && n->n_descsz >= 8)
                for (int k = 0; k < 8; k++)
                    snprintf(b->id + 2 * k, 3, "%02x", id[k]);
            s += whole;
        }
    }
    return 0;
}

static void take_version(struct rfg_rocm_library *l, const struct link_map *map)
{
    char *real = realpath(map->l_name, NULL), *slash = real ? strrchr(real, '/') : NULL;
    const char *so = slash ? strstr(slash, ".so.") : NULL, *dot = so ? strchr(so + 4, '.') : NULL;
    struct build b = { .at = map->l_addr };
    struct stat st;
    if (dot && strchr(dot + 1, '.')) {
        snprintf(l->version, sizeof(l->version), "%s", so + 4);
    } else {
        dl_iterate_phdr(note_build, &b);
        if (b.id[0])
            snprintf(l->version, sizeof(l->version), "%d build %s", number_of(l->soname), b.id);
        else if (real && stat(real, &st) == 0)
            snprintf(l->version, sizeof(l->version), "%d size %lld", number_of(l->soname), (long long)st.st_size);
    }
    free(real);
}

/* The loader's path of the library, its own name for itself, its version. */
static void look_at(struct rfg_rocm_library *l)
{
    struct link_map *map = NULL;
    if (dlinfo(l->handle, RTLD_DI_LINKMAP, &map) || !map)
        return;
    char *path = rfg_absolute(map->l_name);
    snprintf(l->path, sizeof(l->path), "%s", path ? path : map->l_name);
    free(path);
    const char *strings = NULL;
    size_t at = 0;
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) /* glibc has put the address in place of the offset on most machines */
            strings = (const char *)(d->d_un.d_ptr < map->l_addr ? map->l_addr + d->d_un.d_ptr : d->d_un.d_ptr);
        else if (d->d_tag == DT_SONAME)
            at = d->d_un.d_val;
    }
    if (strings && at)
        snprintf(l->soname, sizeof(l->soname), "%s", strings + at);
    take_version(l, map);
}

static bool opened(struct rfg_rocm_library *l, const char *path, int flags, const char *found)
{
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
    if (l->handle) {
        l->found = found;
        look_at(l);
        return true;
    }
    /* The file exists but can't be loaded (a library that it needs is missing): report it. */
    const char *error = dlerror();
    bool absent = !error || (!strncmp(error, path, strlen(path)) && strstr(error, "No such file"));
    if (!absent && !l->problem[0])
        snprintf(l->problem, sizeof(l->problem), "%s", error);
    return false;
}

/* The major release of the HIP runtime in use, -1 if none is or its name doesn't say. */
static int hip_major(void)
{
    return number_of(libraries[RFG_ROCM_HIP].soname);
}

/* Is soname i of ROCm `major`? A release that came after this table may still have its newest ones. */
static bool is_of(enum rfg_rocm which, int i, int major)
{
    const struct kind *k = &kinds[which];
    return which == RFG_ROCM_HIPRTC ? k->sonames[i].number == major
                                    : major >= k->sonames[i].from && (i == 0 || major <= k->sonames[i].to);
}

/* The file names of a library: those of the runtime's release, the other known ones, the bare one. */
static int list_names(enum rfg_rocm which, char names[MAX_NAMES][64])
{
    const struct kind *k = &kinds[which];
    int n = 0, major = hip_major();
    if (which == RFG_ROCM_HIPRTC && major > k->sonames[0].number)
        snprintf(names[n++], sizeof(names[0]), "%s.%d", k->stem, major);
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < k->n_sonames; i++)
            if (is_of(which, i, major) == first)
                snprintf(names[n++], sizeof(names[0]), "%s.%d", k->stem, k->sonames[i].number);
    snprintf(names[n++], sizeof(names[0]), "%s", k->stem);
    return n;
}

/* runtime: the HIP runtime that dir is beside, if the directory was found only through it. */
static bool opened_in_as(enum rfg_rocm which, const char *dir, const char *runtime, int flags, const char *found)
{
    char names[MAX_NAMES][64];
    int n = list_names(which, names);
    bool ok = false;
    for (int i = 0; i < n && !ok; i++) {
        char *path = rfg_asprintf("%s/%s", dir, names[i]);
        struct rfg_reason why;
        struct stat st;
        if (path && stat(path, &st) == 0) { /* not access(): a set-uid program opens files as its effective user */
            bool is_loaded = flags & RTLD_NOLOAD; /* it is loaded already: too late to check */
            if (runtime && !is_loaded && !rfg_library_trusted(path, runtime, &why))
                rfg_warn("%s: it is not used", why.text);
            else
                ok = opened(&libraries[which], path, flags, found);
        }
        free(path);
    }
    return ok;
}

static bool opened_in(enum rfg_rocm which, const char *dir, const char *found)
{
    return opened_in_as(which, dir, NULL, 0, found);
}

/* Cuts the last part off a path. False: it had none. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash && slash > path;
}

static int is_sdk(const struct dirent *e)
{
    return !strncmp(e->d_name, "_rocm_sdk_core", 14) || !strncmp(e->d_name, "_rocm_sdk_libraries", 19);
}

/* In the directory of a library that is loaded. The rocm-sdk wheels (TheRock) put the runtime into
 * site-packages/_rocm_sdk_core/lib and the BLAS libraries into site-packages/_rocm_sdk_libraries_FAMILY/lib: of several
 * families' the one that is loaded already, for the others may have no kernels for this GPU. */
static bool opened_beside(enum rfg_rocm which, const char *path)
{
    static const char found[] = "beside the HIP runtime";
    char *dir = strdup(path);
    bool ok = dir && cut(dir) && opened_in_as(which, dir, path, 0, found);
    const char *last = dir && !ok ? strrchr(dir, '/') : NULL;
    if (last && !strcmp(last, "/lib") && cut(dir) && cut(dir)) {
        struct dirent **entries = NULL;
        int n = scandir(dir, &entries, is_sdk, alphasort);
        for (int i = 0; i < 2 * n && !ok; i++) {
            char *lib = rfg_asprintf("%s/%s/lib", dir, entries[i % n]->d_name);
            ok = lib && opened_in_as(which, lib, path, i < n ? RTLD_NOLOAD : 0, found);
            free(lib);
        }
        for (int i = 0; i < n; i++)
            free(entries[i]);
        free(entries);
    }
    free(dir);
    return ok;
}

static bool opened_loaded(enum rfg_rocm which)
{
    char path[1][512];
    return list_loaded(kinds[which].stem, path, 1) > 0 &&
           opened(&libraries[which], path[0], RTLD_NOLOAD, "loaded by this process before");
}

/* dlopen() searches there too, but one name after another: it would take libamdhip64.so.7 from anywhere before
 * libamdhip64.so.6 from the directory that the user put first. */
static bool opened_in_path(enum rfg_rocm which)
{
    const char *dirs = rfg_env("LD_LIBRARY_PATH");
    bool ok = false;
    for (size_t len; dirs && *dirs && !ok; dirs += len + (dirs[len] != 0)) {
        len = strcspn(dirs, ":;");
        char *dir = *dirs == '/' ? strndup(dirs, len) : NULL; /* others are left to the loader */
        ok = dir && opened_in(which, dir, "in LD_LIBRARY_PATH");
        free(dir);
    }
    return ok;
}

static bool opened_in_rocm_path(enum rfg_rocm which)
{
    const char *root = rfg_env("ROCM_PATH");
    char *dir = root ? rfg_asprintf("%s/lib", root) : NULL;
    bool ok = dir && opened_in(which, dir, "in ROCM_PATH");
    free(dir);
    return ok;
}

static bool opened_by_name(enum rfg_rocm which)
{
    char names[MAX_NAMES][64];
    int n = list_names(which, names);
    for (int i = 0; i < n; i++)
        if (opened(&libraries[which], names[i], 0, "by the dynamic loader"))
            return true;
    return opened_in(which, "/opt/rocm/lib", "in /opt/rocm/lib");
}

static void look_for(enum rfg_rocm which);

static bool opened_in_runtime(enum rfg_rocm which)
{
    struct rfg_rocm_library *hip = &libraries[RFG_ROCM_HIP];
    return which == RFG_ROCM_HIPRTC && hip->handle && dlsym(hip->handle, "hiprtcCreateProgram") &&
           opened(&libraries[which], hip->path, RTLD_NOLOAD, "the HIP runtime itself");
}

/* The HIP runtime of the process, whoever loaded it. Processes that only compile need none. */
static void find_runtime(void)
{
    char path[1][512];
    if (rfg_env(kinds[RFG_ROCM_HIP].env) || rfg_rocm_runtimes(path, 1) > 0)
        look_for(RFG_ROCM_HIP);
}

static bool found_one(enum rfg_rocm which)
{
    if (which == RFG_ROCM_HIP)
        return opened_loaded(which) || opened_in_path(which) || opened_in_rocm_path(which) || opened_by_name(which);
    find_runtime();
    const struct rfg_rocm_library *beside = &libraries[which == RFG_ROCM_COMGR ? RFG_ROCM_HIPRTC : RFG_ROCM_HIP];
    if (!beside->handle)
        beside = &libraries[RFG_ROCM_HIP];
    if ((beside->handle && opened_beside(which, beside->path)) || opened_in_runtime(which) || opened_loaded(which) ||
        opened_in_path(which) || opened_in_rocm_path(which) || opened_by_name(which))
        return true;
    if (which != RFG_ROCM_HIPRTC)
        return false;
    look_for(RFG_ROCM_HIP);
    return opened_in_runtime(which);
}

/* "libx.so.2, .1, libx.so" */
static void say_names(enum rfg_rocm which, char *buf, size_t size)
{
    char names[MAX_NAMES][64];
    int n = list_names(which, names);
    size_t at = 0, stem = strlen(kinds[which].stem);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "", names[i] + (i && names[i][stem] ? stem : 0));
}

static void look_for(enum rfg_rocm which)
{
    struct rfg_rocm_library *l = &libraries[which];
    const struct kind *k = &kinds[which];
    if (looked_for[which])
        return;
    looked_for[which] = true;
    l->name = k->name;
    const char *path = rfg_env(k->env);
    if (path) {
        snprintf(l->path, sizeof(l->path), "%s", path);
        l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!l->handle)
            snprintf(l->problem, sizeof(l->problem), "%s: %s", k->env, dlerror());
        else
            look_at(l);
        l->found = k->env;
    } else if (found_one(which)) {
        l->problem[0] = 0;
    } else {
        char names[160];
        say_names(which, names, sizeof(names));
        snprintf(l->path, sizeof(l->path), "%s", names);
        if (!l->problem[0])
            snprintf(l->problem, sizeof(l->problem), "%s not found (or set %s)", names, k->env);
    }
}

const struct rfg_rocm_library *rfg_rocm_open(enum rfg_rocm which)
{
    pthread_mutex_lock(&lock);
    look_for(which);
    pthread_mutex_unlock(&lock);
    return &libraries[which];
}

const struct rfg_rocm_library *rfg_rocm_opened(enum rfg_rocm which)
{
    pthread_mutex_lock(&lock);
    const struct rfg_rocm_library *l = libraries[which].handle ? &libraries[which] : NULL;
    pthread_mutex_unlock(&lock);
    return l;
}

int rfg_rocm_settings(char *set[RFG_ROCM_COUNT])
{
    int n = 0;
    memset(set, 0, RFG_ROCM_COUNT * sizeof(*set));
    for (int i = 0; i < RFG_ROCM_COUNT; i++) {
        const struct rfg_rocm_library *l = rfg_rocm_opened((enum rfg_rocm)i);
        if (l && (set[n] = rfg_asprintf("%s=%s", kinds[i].env, l->path)))
            n++;
    }
    return n;
}

const char *rfg_rocm_variable(enum rfg_rocm which)
{
    return kinds[which].env;
}

bool rfg_rocm_differs(enum rfg_rocm which, struct rfg_reason *why)
{
    const struct rfg_rocm_library *l = rfg_rocm_opened(which), *hip = rfg_rocm_opened(RFG_ROCM_HIP);
    int number = l ? number_of(l->soname) : -1, major = hip ? number_of(hip->soname) : -1;
    if (!hip || major < 0)
        return false;
    for (int i = 0; i < kinds[which].n_sonames; i++)
        if (kinds[which].sonames[i].number == number && !is_of(which, i, major))
            return !rfg_refuse(why, "%s is ROCm %d's, the HIP runtime %s is ROCm %d's", l->soname,
                               kinds[which].sonames[i].to, hip->soname, major);
    return false;
}
