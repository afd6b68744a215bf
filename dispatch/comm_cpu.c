/* SPDX-License-Identifier: MIT
 *
 * A window of the cpu is a file without a name (memfd), so that nothing is left behind by a process that is killed.
 * Peers open it as /proc/PROCESS/fd/FILE, which the kernel allows to processes of the same user. A random number behind
 * the window tells it from whatever else has that name in a peer's container, or after the process has ended. */
#include "comm_cpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static void *map(size_t bytes, int file)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The window, and its number. */
static size_t bytes_of(size_t size)
{
    return size + sizeof(uint64_t);
}

void *rfg_comm_cpu_alloc(size_t size, struct comm_cpu_window *at)
{
    *at = (struct comm_cpu_window){ .process = (int32_t)getpid(), .file = memfd_create("rfg-comm", MFD_CLOEXEC) };
    if (at->file >= 0 && ftruncate(at->file, (off_t)bytes_of(size)) != 0) {
        close(at->file);
        at->file = -1;
    }
    if (at->file >= 0 && getrandom(&at->number, sizeof(at->number), 0) != sizeof(at->number))
        at->number = 0;
    char *window = map(bytes_of(size), at->file); /* without a file: of this process alone */
    if (window)
        memcpy(window + size, &at->number, sizeof(at->number));
    else if (at->file >= 0)
        close(at->file);
    return window;
}

void rfg_comm_cpu_free(void *window, size_t size, const struct comm_cpu_window *at)
{
    rfg_comm_cpu_close(window, size);
    if (window && at->file >= 0)
        close(at->file);
}

void *rfg_comm_cpu_open(size_t size, const struct comm_cpu_window *at)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)at->process, (int)at->file);
    int file = at->number ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (file < 0)
        return NULL;
    bool fits = fstat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)bytes_of(size);
    char *window = fits ? map(bytes_of(size), file) : NULL;
    close(file);
    if (window && memcmp(window + size, &at->number, sizeof(at->number)) != 0) {
        rfg_comm_cpu_close(window, size);
        window = NULL;
    }
    return window;
}

void rfg_comm_cpu_close(void *window, size_t size)
{
    if (window)
        (void)munmap(window, bytes_of(size));
}
