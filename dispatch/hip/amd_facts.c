/* SPDX-License-Identifier: MIT
 *
 * Why a process sees the AMD GPUs that it sees. Who reads which variable, and how: ROCR_VISIBLE_DEVICES by ROCr
 * (ROCm/ROCR-Runtime 6.2, core/runtime/amd_filter_device.cpp), HSA_OVERRIDE_GFX_VERSION by its thunk (its
 * libhsakmt, topology), HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES by HIP (ROCm/clr 5.6 to 6.2 and ROCm/rocm-systems
 * of 2026, rocclr's rocdevice.cpp; there GPU_DEVICE_ORDINAL is OpenCL's alone). */
#include "amd_facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

enum { MAX_GPUS = 128 };

struct gpu {
    int node;      /* of KFD's topology */
    char arch[32]; /* the hardware's own; "" if the kernel doesn't say */
};

struct list {
    const char *root;
    struct rfg_platform_fact *facts;
    int n, max;
    struct gpu gpus[MAX_GPUS];
    int n_gpus;
    int visible;                   /* of them, to HIP: what ROCr hides is not for HIP to show */
    struct rfg_platform_fact rest; /* where there is no room left */
};

/* The fact's sentence is then written to the returned place. */
static struct rfg_platform_fact *fact(struct list *l, const char *what, const char *value)
{
    struct rfg_platform_fact *f = l->n < l->max ? &l->facts[l->n++] : &l->rest;
    snprintf(f->what, sizeof(f->what), value ? "%s=%s" : "%s", what, value);
    f->says[0] = 0;
    f->misleads = false;
    return f;
}

__attribute__((format(printf, 2, 3))) static void say(struct rfg_platform_fact *f, const char *fmt, ...)
{
    size_t at = strlen(f->says);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->says + at, sizeof(f->says) - at, fmt, ap);
    va_end(ap);
}

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* The value of "name 123" among the lines of a node's properties; 0 without one. */
static unsigned long long property(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = text; s; s = strchr(s, '\n'), s += s != NULL)
        if (!strncmp(s, name, n) && s[n] == ' ')
            return strtoull(s + n, NULL, 10);
    return 0;
}

static void list_gpus(struct list *l)
{
    for (int node = 0, missing = 0; missing < 16 && l->n_gpus < MAX_GPUS; node++) { /* a container may lack some */
        char *path = rfg_asprintf("%s/sys/class/kfd/kfd/topology/nodes/%d/properties", l->root, node);
        char *text = path ? rfg_read_file(path, NULL) : NULL;
        missing = text ? 0 : missing + 1;
        if (text && property(text, "simd_count") > 0) {
            struct gpu *g = &l->gpus[l->n_gpus++];
            unsigned v = (unsigned)property(text, "gfx_target_version"); /* 90402: gfx942; 90010: gfx90a */
            *g = (struct gpu){ .node = node };
            if (v)
                snprintf(g->arch, sizeof(g->arch), "gfx%u%x%x", v / 10000, v / 100 % 100, v % 100);
        }
        free(text);
        free(path);
    }
}

/* "8 GPUs: gfx942 x 8" */
static void say_gpus(struct list *l, struct rfg_platform_fact *f)
{
    say(f, "%d GPU%s", l->n_gpus, l->n_gpus == 1 ? "" : "s");
    for (int i = 0, same; i < l->n_gpus; i += same) {
        for (same = 1; i + same < l->n_gpus && !strcmp(l->gpus[i].arch, l->gpus[i + same].arch);)
            same++;
        say(f, "%s%s x %d", i ? ", " : ": ", *l->gpus[i].arch ? l->gpus[i].arch : "of an unnamed arch", same);
    }
}

static bool driver_is_loaded(struct list *l)
{
    char *path = rfg_asprintf("%s/sys/class/kfd", l->root);
    bool ok = path && rfg_access(path, F_OK);
    free(path);
    return ok;
}

static void kernel(struct list *l)
{
    struct rfg_platform_fact *f = fact(l, "amdgpu", NULL);
    list_gpus(l);
    l->visible = l->n_gpus;
    if (!driver_is_loaded(l))
        say(f,
            "the kernel's driver is not loaded: there is no /sys/class/kfd (modprobe amdgpu; on the host, if this is "
            "a container)");
    else if (l->n_gpus == 0)
        say(f, "the kernel's driver is loaded, but shows this process no GPU");
    else
        say_gpus(l, f);
}

/* ---- device nodes ----------------------------------------------------------------------------------------------- */

/* Can it be opened as HIP opens it? Else says why not. */
static bool can_open(struct list *l, const char *node)
{
    char *path = rfg_asprintf("%s%s", l->root, node);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1, err = errno;
    struct stat st;
    bool known = path && stat(path, &st) == 0;
    free(path);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    struct rfg_platform_fact *f = fact(l, node, NULL);
    say(f, "%s", strerror(err));
    if (err == ENOENT) {
        say(f, driver_is_loaded(l) ? ": the driver is loaded, so this container lacks the device (docker run --device "
                                     "/dev/kfd --device /dev/dri)"
                                   : ": it comes with the driver");
    } else if (err == EACCES && known) {
        char buf[1024];
        struct group g, *group = NULL;
        getgrgid_r(st.st_gid, &g, buf, sizeof(buf), &group);
        say(f, ": mode %04o, group %s (gid %u), in which this process is not (usermod -aG, docker run --group-add)",
            (unsigned)(st.st_mode & 07777), group ? group->gr_name : "without a name", (unsigned)st.st_gid);
    } else if (err == EPERM) {
        say(f, ": the container's rules forbid the device (docker run --device /dev/kfd --device /dev/dri)");
    }
    return false;
}

/* By sysfs: of AMD's GPUs; one that sysfs doesn't know might be. */
static bool is_amds(struct list *l, const char *name)
{
    char *path = rfg_asprintf("%s/sys/class/drm/%s/device/vendor", l->root, name);
    char *text = path ? rfg_read_file(path, NULL) : NULL;
    bool ok = !text || strtoul(text, NULL, 16) == 0x1002;
    free(text);
    free(path);
    return ok;
}

static int is_render_node(const struct dirent *e)
{
    return !strncmp(e->d_name, "renderD", 7);
}

static void device_nodes(struct list *l)
{
    if (can_open(l, "/dev/kfd"))
        say(fact(l, "/dev/kfd", NULL), "can be opened");
    char *dir = rfg_asprintf("%s/dev/dri", l->root);
    struct dirent **entries = NULL;
    int n = dir ? scandir(dir, &entries, is_render_node, alphasort) : -1, ours = 0, usable = 0;
    for (int i = 0; i < n; i++) {
        char node[300];
        snprintf(node, sizeof(node), "/dev/dri/%s", entries[i]->d_name);
        if (is_amds(l, entries[i]->d_name)) {
            ours++;
            usable += can_open(l, node);
        }
        free(entries[i]);
    }
    free(entries);
    free(dir);
    struct rfg_platform_fact *f = ours == 0 || usable ? fact(l, "/dev/dri/renderD*", NULL) : NULL;
    if (f && ours)
        say(f, "%d of %d can be opened", usable, ours);
    else if (f)
        say(f, "no render node of an AMD GPU%s", driver_is_loaded(l) ? " (docker run --device /dev/dri)" : "");
}

/* ---- variables -------------------------------------------------------------------------------------------------- */

/* The number that an entry is, -1 if it is none: ROCr takes what strtol() takes, HIP what it would print itself. */
static long number_in(const char *entry, size_t len, bool rocr)
{
    char *end;
    long n = strtol(entry, &end, rocr ? 0 : 10);
    if (rocr)
        end += strspn(end, " \t");
    else if (*entry < '0' || *entry > '9' || (*entry == '0' && len > 1))
        return -1;
    return end > entry && end == entry + len ? n : -1;
}

/* Counts the entries of a list of devices up to the first that is none of n GPUs; that one goes to bad. Unique ids are
 * believed. In ROCr's lists an entry that comes again ends the list too; HIP passes over it. */
static int count_entries(const char *list, int n, bool rocr, char bad[32])
{
    bool seen[MAX_GPUS] = { false };
    int count = 0;
    bad[0] = 0;
    for (size_t len; *list; list += len + (list[len] != 0)) {
        len = strcspn(list, ",");
        long index = number_in(list, len, rocr);
        bool id = !strncasecmp(list, "GPU-", 4);
        bool ok = id || (index >= 0 && index < n);
        bool again = ok && !id && seen[index];
        if (!ok || (again && rocr)) {
            snprintf(bad, 32, "%.*s", (int)len, list);
            break;
        }
        if (!id)
            seen[index] = true;
        count += !again;
    }
    return count < n ? count : n;
}

static void shows(struct list *l, struct rfg_platform_fact *f, const char *value, bool rocr)
{
    char bad[32];
    int before = l->visible;
    if (l->n_gpus == 0) { /* nothing to count with */
        say(f, "these GPUs alone, in this order");
        return;
    }
    l->visible = count_entries(value, before, rocr, bad);
    say(f, "%d of %d GPU%s, in this order", l->visible, before, before == 1 ? "" : "s");
    if (*bad)
        say(f, "; the list ends at '%s', which is none%s", bad, rocr ? " or came before" : "");
}

static void variables(struct list *l)
{
    const char *rocr = rfg_env("ROCR_VISIBLE_DEVICES"), *hip = rfg_env("HIP_VISIBLE_DEVICES");
    const char *cuda = rfg_env("CUDA_VISIBLE_DEVICES"), *opencl = rfg_env("GPU_DEVICE_ORDINAL");
    struct rfg_platform_fact *f;
    if (rocr) {
        f = fact(l, "ROCR_VISIBLE_DEVICES", rocr);
        say(f, "ROCr gives HIP ");
        shows(l, f, rocr, true);
    } else if (rfg_env_empty("ROCR_VISIBLE_DEVICES")) {
        l->visible = 0;
        say(fact(l, "ROCR_VISIBLE_DEVICES", ""), "empty, which hides every GPU (unset it)");
    }
    if (hip || cuda) {
        f = fact(l, hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", hip ? hip : cuda);
        say(f, "%sHIP shows ", hip ? "" : "read where HIP_VISIBLE_DEVICES is not set: ");
        shows(l, f, hip ? hip : cuda, false);
    }
    if (hip && cuda)
        say(fact(l, "CUDA_VISIBLE_DEVICES", cuda), "not read by HIP, as HIP_VISIBLE_DEVICES is set");
    if (opencl)
        say(fact(l, "GPU_DEVICE_ORDINAL", opencl), "not read by HIP: it is OpenCL's (HIP_VISIBLE_DEVICES is HIP's)");
}

/* The variable that renames a node's arch, NULL if none does. */
static const char *override_of(int node, char name[48])
{
    snprintf(name, 48, "HSA_OVERRIDE_GFX_VERSION_%d", node);
    if (!rfg_env(name))
        snprintf(name, 48, "HSA_OVERRIDE_GFX_VERSION");
    return rfg_env(name);
}

/* Says it once for neighbours of one arch under one variable. */
static void overrides(struct list *l)
{
    char said[80] = "", name[48];
    for (int i = 0; i < l->n_gpus || i == 0; i++) {
        const struct gpu none = { .node = -1 }, *g = l->n_gpus ? &l->gpus[i] : &none;
        const char *value = override_of(g->node, name);
        unsigned v[3];
        char more, arch[32], key[80];
        snprintf(key, sizeof(key), "%.40s %.32s", name, g->arch);
        if (!value || !strcmp(key, said))
            continue;
        memcpy(said, key, sizeof(said));
        struct rfg_platform_fact *f = fact(l, name, value);
        if (sscanf(value, "%u.%u.%u%c", &v[0], &v[1], &v[2], &more) != 3 || v[0] > 63 || v[1] > 255 || v[2] > 255) {
            say(f, "not of the form MAJOR.MINOR.STEPPING (11.0.0): ROCr refuses the GPU");
            continue;
        }
        snprintf(arch, sizeof(arch), "gfx%u%x%x", v[0], v[1], v[2]);
        f->misleads = strcmp(arch, g->arch) != 0;
        if (!f->misleads)
            say(f, "HIP's arch is %s, the GPU's own", arch);
        else
            say(f, "HIP's arch is %s, the GPU's own is %s: what is tuned here is kept and used as %s's", arch,
                *g->arch ? g->arch : "not known", arch);
    }
}

int rfg_amd_facts(const char *root, struct rfg_platform_fact *facts, int max)
{
    struct list *l = calloc(1, sizeof(*l));
    if (!l)
        return 0;
    *l = (struct list){ .root = root, .facts = facts, .max = max };
    kernel(l);
    device_nodes(l);
    variables(l);
    overrides(l);
    int n = l->n;
    free(l);
    return n;
}
