/* SPDX-License-Identifier: MIT
 *
 * Device memory: host allocations between red zones, found by address. Freed ones stay reserved for a while, so that a
 * use after free is seen and named. */
#include "memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RED_ZONE   4096
#define QUARANTINE 64
#define BIG        (1 << 20) /* from here on memory comes from mmap and is given back at once when it is freed */

struct region {
    uintptr_t lo, hi; /* what the caller has */
    size_t size;      /* of the whole allocation, red zones and all */
    char *base;
    const char *what;
    bool freed;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct region *regions; /* by address */
static int n_regions, room, n_freed;

/* The last region that begins at or before p; -1: none. */
static int find(uintptr_t p)
{
    int lo = 0, hi = n_regions;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (regions[mid].lo <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo - 1;
}

static void forget(int at)
{
    if (regions[at].base)
        munmap(regions[at].base, regions[at].size);
    memmove(&regions[at], &regions[at + 1], (size_t)(--n_regions - at) * sizeof(*regions));
}

void *emu_alloc(size_t size, const char *what)
{
    size_t whole = (size + 2 * RED_ZONE + 4095) & ~(size_t)4095;
    char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    pthread_rwlock_wrlock(&lock);
    if (n_regions == room) {
        room = room * 2 + 64;
        regions = realloc(regions, (size_t)room * sizeof(*regions));
        if (!regions)
            abort();
    }
    int at = find((uintptr_t)base) + 1;
    memmove(&regions[at + 1], &regions[at], (size_t)(n_regions++ - at) * sizeof(*regions));
    regions[at] =
        (struct region){ (uintptr_t)base + RED_ZONE, (uintptr_t)base + RED_ZONE + size, whole, base, what, false };
    pthread_rwlock_unlock(&lock);
    return base + RED_ZONE;
}

bool emu_free(void *p)
{
    pthread_rwlock_wrlock(&lock);
    int at = find((uintptr_t)p);
    bool ok = at >= 0 && regions[at].lo == (uintptr_t)p && !regions[at].freed;
    if (ok) {
        regions[at].freed = true;
        madvise(regions[at].base, regions[at].size, MADV_DONTNEED);
        if (++n_freed > QUARANTINE)
            for (int k = 0; k < n_regions; k++)
                if (regions[k].freed && k != at) {
                    forget(k);
                    n_freed--;
                    break;
                }
    }
    pthread_rwlock_unlock(&lock);
    return ok;
}

bool emu_mapped(uint64_t p, size_t n, uintptr_t *lo, uintptr_t *hi)
{
    pthread_rwlock_rdlock(&lock);
    int at = find((uintptr_t)p);
    bool ok = at >= 0 && !regions[at].freed && p + n <= regions[at].hi && p + n >= p;
    if (ok && lo) {
        *lo = regions[at].lo;
        *hi = regions[at].hi;
    }
    pthread_rwlock_unlock(&lock);
    return ok;
}

void emu_whereabouts(uint64_t p, char *buf, size_t size)
{
    pthread_rwlock_rdlock(&lock);
    int at = find((uintptr_t)p);
    const struct region *r = at >= 0 ? &regions[at] : NULL, *next = at + 1 < n_regions ? &regions[at + 1] : NULL;
    if (r && p < r->hi)
        snprintf(buf, size, "%llu bytes into %s of %zu bytes%s", (unsigned long long)(p - r->lo), r->what,
                 (size_t)(r->hi - r->lo), r->freed ? ", freed" : "");
    else if (r && p - r->hi < 1 << 20 && (!next || p - r->hi <= next->lo - p))
        snprintf(buf, size, "%llu bytes after %s of %zu bytes%s", (unsigned long long)(p - r->hi), r->what,
                 (size_t)(r->hi - r->lo), r->freed ? ", freed" : "");
    else if (next && next->lo - p < 1 << 20)
        snprintf(buf, size, "%llu bytes before %s of %zu bytes", (unsigned long long)(next->lo - p), next->what,
                 (size_t)(next->hi - next->lo));
    else
        snprintf(buf, size, "in no allocation");
    pthread_rwlock_unlock(&lock);
}

/* ---- what kernels touch ---------------------------------------------------------------------------------------------
 */

static const char *verb(enum emu_kind kind)
{
    return kind == EMU_IS_LOAD ? "reads" : kind == EMU_IS_STORE ? "writes" : "updates";
}

/* Distinct lines of 64 and 128 bytes that an instruction touches. */
static void count_lines(struct emu_counters *c, const uint64_t *addr, uint64_t lanes, unsigned bytes)
{
    uint64_t seen[128];
    int n = 0;
    for (uint64_t m = lanes; m; m &= m - 1)
        for (uint64_t p = addr[__builtin_ctzll(m)], line = p >> 6; line <= (p + bytes - 1) >> 6; line++) {
            int k = n - 1;
            while (k >= 0 && seen[k] != line)
                k--;
            if (k < 0 && n < 128)
                seen[n++] = line;
        }
    c->lines64 += (uint64_t)n;
    for (int k = 0; k < n; k++) {
        int other = k - 1;
        while (other >= 0 && seen[other] >> 1 != seen[k] >> 1)
            other--;
        c->lines128 += other < 0;
    }
}

uint64_t emu_global(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint64_t *addr,
                    uint64_t lanes, unsigned bytes)
{
    uint64_t bad = 0;
    unsigned n = i->op->cls == EMU_SMEM ? (unsigned)i->op->info * 4 : bytes;
    for (uint64_t m = lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        uint64_t p = addr[l];
        if (p >= w->mem_lo && p + n <= w->mem_hi)
            continue;
        if (!emu_mapped(p, n, &w->mem_lo, &w->mem_hi)) {
            w->mem_lo = w->mem_hi = 0;
            bad |= UINT64_C(1) << l;
        }
    }
    if (w->launch->count)
        count_lines(&w->launch->counters, addr, lanes, n);
    if (kind == EMU_IS_LOAD)
        w->launch->counters.load_bytes += (uint64_t)__builtin_popcountll(lanes) * n;
    else
        w->launch->counters.store_bytes += (uint64_t)__builtin_popcountll(lanes) * n;
    if (bad) {
        char where[160];
        uint64_t p = addr[__builtin_ctzll(bad)];
        emu_whereabouts(p, where, sizeof(where));
        emu_report(w, i, strstr(where, "freed") ? "use-after-free" : "global-out-of-bounds", true, bad,
                   "%s %u bytes at 0x%llx, %s", verb(kind), n, (unsigned long long)p, where);
        return 0;
    }
    if (kind == EMU_IS_ATOMIC && bytes)
        for (uint64_t m = lanes; m; m &= m - 1) {
            uint64_t p = addr[__builtin_ctzll(m)];
            if (p % bytes) {
                emu_report(w, i, "misaligned", true, m & -m, "an atomic of %u bytes at 0x%llx", bytes,
                           (unsigned long long)p);
                return 0;
            }
        }
    return lanes;
}

uint64_t emu_lds(struct emu_wave *w, const struct emu_inst *i, enum emu_kind kind, const uint32_t *offset,
                 uint64_t lanes, unsigned bytes)
{
    uint64_t bad = 0, crooked = 0;
    uint32_t size = w->wg->lds_bytes, align = bytes == 12 ? 4 : bytes == 16 ? 8 : bytes;
    for (uint64_t m = lanes; m; m &= m - 1) {
        int l = __builtin_ctzll(m);
        bad |= (uint64_t)(offset[l] > size || bytes > size - offset[l]) << l;
        crooked |= (uint64_t)(offset[l] % align != 0) << l;
    }
    w->launch->counters.lds_bytes += (uint64_t)__builtin_popcountll(lanes) * bytes;
    if (bad) {
        emu_report(w, i, "lds-out-of-bounds", true, bad, "%s %u bytes at offset %u of %u bytes of LDS", verb(kind),
                   bytes, offset[__builtin_ctzll(bad)], size);
        return 0;
    }
    if (crooked && w->checks) {
        emu_report(w, i, "misaligned", true, crooked, "%s %u bytes of LDS at offset %u: must be a multiple of %u",
                   verb(kind), bytes, offset[__builtin_ctzll(crooked)], align);
        return 0;
    }
    if (w->wg->shadow)
        emu_check_lds(w, i, kind, offset, lanes, bytes);
    return w->stop == EMU_FAULT ? 0 : lanes;
}
