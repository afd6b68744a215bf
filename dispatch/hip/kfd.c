/* SPDX-License-Identifier: MIT
 *
 * /sys/class/kfd/kfd/topology: what amdkfd, the kernel's compute driver, knows of a GPU and HIP does not tell. A node
 * has its properties, and a directory for each of its caches (Linux 6.8, drivers/gpu/drm/amd/amdkfd: kfd_topology
 * writes them, kfd_crat takes level 3 from gmc.mall_size, in KiB). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "hip.h"

static const char *topology = "/sys/class/kfd/kfd/topology";

void rfg_kfd_override(const char *dir)
{
    topology = dir ? dir : "/sys/class/kfd/kfd/topology";
}

#define MOST 4096 /* nodes of a machine, caches of a node: a limit for what a loop believes */

/* The properties, lines of a name and a number, of a node or of one of its caches; malloc'ed; NULL: there is none. */
static char *properties(int node, int cache)
{
    char *path = cache < 0 ? rfg_asprintf("%s/nodes/%d/properties", topology, node)
                           : rfg_asprintf("%s/nodes/%d/caches/%d/properties", topology, node, cache);
    char *text = path ? rfg_read_file(path, NULL) : NULL;
    free(path);
    return text;
}

static bool property(const char *text, const char *name, long long *value)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (!strncmp(line, name, len) && line[len] == ' ') {
            *value = strtoll(line + len, NULL, 10);
            return true;
        }
    return false;
}

/* "gfx90a" -> 90010: major, two digits of the minor, two of the stepping; the name's are hexadecimal. */
static long long version_of(const char *arch)
{
    char major[8] = "";
    size_t len = strlen(arch);
    if (len < 6 || len - 5 >= sizeof(major))
        return -1;
    memcpy(major, arch + 3, len - 5);
    long low = strtol(arch + len - 2, NULL, 16);
    return strtoll(major, NULL, 10) * 10000 + (low >> 4) * 100 + (low & 15);
}

/* location_id is the place's bus, device and function, with a partition's number in its upper bits. */
static bool is_it(const char *text, const char *arch, const int pci[3])
{
    long long location = -1, domain = 0, version = -1;
    property(text, "gfx_target_version", &version);
    if (version <= 0) /* a CPU's node */
        return false;
    if (!pci)
        return version == version_of(arch);
    property(text, "domain", &domain); /* old drivers don't say it */
    return property(text, "location_id", &location) && domain == pci[0] && (location >> 8 & 0xff) == pci[1] &&
           (location >> 3 & 0x1f) == pci[2];
}

static int64_t cache_of(int node)
{
    int64_t most = 0;
    char *text;
    for (int i = 0; i < MOST && (text = properties(node, i)); i++) {
        long long level = 0, kib = 0;
        if (property(text, "level", &level) && level == 3 && property(text, "size", &kib) && kib > most &&
            kib < INT64_MAX / 1024)
            most = kib;
        free(text);
    }
    return most * 1024;
}

bool rfg_kfd_find(struct rfg_kfd *out, const char *arch, const int pci[3])
{
    *out = (struct rfg_kfd){ 0 };
    for (int node = 0; node < MOST; node++) {
        char *dir = rfg_asprintf("%s/nodes/%d", topology, node);
        bool there = dir && rfg_access(dir, F_OK);
        free(dir);
        if (!there)
            return false;
        char *text = properties(node, -1); /* NULL: a container's other GPUs */
        long long xcds = 0;
        bool it = text && is_it(text, arch, pci);
        if (it && property(text, "num_xcc", &xcds) && xcds > 0 && xcds < 64)
            out->xcds = (int)xcds;
        free(text);
        if (it) {
            out->cache_bytes = cache_of(node);
            return true;
        }
    }
    return false;
}
