/* SPDX-License-Identifier: MIT */
#include "paths.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "util.h"

char *rfg_module_path(void)
{
    Dl_info info;
    struct link_map *map = NULL;
    /* The program's own name in the link map is empty, and in info it is argv[0], which anyone can choose. */
    bool library =
        dladdr1((const void *)&rfg_prefix_path, &info, (void **)&map, RTLD_DL_LINKMAP) && map && *map->l_name;
    return realpath(library ? map->l_name : "/proc/self/exe", NULL);
}

static char *module_dir(void)
{
    char *path = rfg_module_path(), *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = 0;
    return path;
}

/* Takes "/tail" off the end of dir. */
static bool cut_tail(char *dir, const char *tail)
{
    size_t n = strlen(dir), m = strlen(tail);
    if (n < m + 1 || dir[n - m - 1] != '/' || strcmp(dir + n - m, tail))
        return false;
    dir[n - m - 1] = 0;
    return true;
}

char *rfg_prefix_path(const char *relative)
{
    char *prefix = module_dir();
    bool installed = prefix && (cut_tail(prefix, RFG_LIBDIR) || cut_tail(prefix, RFG_BINDIR));
    char *path = rfg_asprintf("%s/%s", installed ? prefix : RFG_PREFIX, relative);
    free(prefix);
    return path;
}
