/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "no_memory.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

extern char __executable_start, etext;

static _Thread_local long fails_at, requests;
static _Thread_local bool fails_later;
static atomic_long blocks;

void no_memory_from(long n, bool all_later)
{
    fails_at = n;
    fails_later = all_later;
    requests = 0;
}

long no_memory_requests(void)
{
    return requests;
}

long no_memory_blocks(void)
{
    return blocks;
}

static bool fails(const char *caller)
{
    if (caller >= &__executable_start && caller < &etext)
        return false;
    requests++;
    if (!fails_at || requests < fails_at || (requests > fails_at && !fails_later))
        return false;
    errno = ENOMEM;
    return true;
}

/* SQLite's, as if they were asked for from outside of the program. */
static void *sqlite_malloc(int size)
{
    return fails(NULL) ? NULL : __libc_malloc((size_t)size);
}

static void *sqlite_realloc(void *p, int size)
{
    return fails(NULL) ? NULL : __libc_realloc(p, (size_t)size);
}

static int sqlite_size(void *p)
{
    return (int)malloc_usable_size(p);
}

static int sqlite_roundup(int size)
{
    return (size + 7) & ~7;
}

static int sqlite_init(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}

static void sqlite_end(void *unused)
{
    (void)unused;
}

void no_memory_sqlite(void)
{
    static const sqlite3_mem_methods methods = { sqlite_malloc,  __libc_free, sqlite_realloc, sqlite_size,
                                                 sqlite_roundup, sqlite_init, sqlite_end,     NULL };
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
        abort();
}

static void *counted(void *p)
{
    blocks += p != NULL;
    return p;
}

#pragma GCC visibility push(default) /* the libraries' too */
void *malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
    if (fails(__builtin_return_address(0)))
        return NULL;
    void *q = __libc_realloc(p, size);
    blocks += (p == NULL && q != NULL) - (p != NULL && q == NULL && size == 0);
    return q;
}

void *memalign(size_t align, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(align, size));
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(align, size));
}

int posix_memalign(void **p, size_t align, size_t size)
{
    if (fails(__builtin_return_address(0)))
        return ENOMEM;
    *p = counted(__libc_memalign(align, size));
    return *p ? 0 : ENOMEM;
}

void free(void *p)
{
    blocks -= p != NULL;
    __libc_free(p);
}
#pragma GCC visibility pop
