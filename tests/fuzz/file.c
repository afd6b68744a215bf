/* SPDX-License-Identifier: MIT
 *
 * Files for targets that read files. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static char dir[64];
static char paths[8][128];
static int n_paths;

static void remove_all(void)
{
    for (int i = 0; i < n_paths; i++)
        unlink(paths[i]);
    rmdir(dir);
}

const char *fuzz_dir(void)
{
    if (*dir)
        return dir;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.40s/rfg-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm"
             : tmp                         ? tmp
                                           : "/tmp");
    if (!mkdtemp(dir)) {
        printf("%s: can't be made\n", dir);
        exit(2);
    }
    atexit(remove_all);
    return dir;
}

const char *fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    int i = 0;
    snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), name);
    while (i < n_paths && strcmp(paths[i], path) != 0)
        i++;
    if (i == n_paths) {
        FUZZ_CHECK(n_paths < (int)(sizeof(paths) / sizeof(paths[0])));
        memcpy(paths[n_paths++], path, sizeof(path));
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    close(fd);
    return paths[i];
}
