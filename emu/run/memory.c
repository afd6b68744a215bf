/* SPDX-License-Identifier: MIT
 *
 * Device memory at host addresses: allocations between red zones, a quarantine of freed ones, and the check that every
 * memory instruction passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "front.h"

#define ALIGN            256
#define PAGE             4096
#define POISON           0xFF
#define RED              0xBD /* what red zones are filled with */
#define QUARANTINE_COUNT 1024
#define QUARANTINE_BYTES ((size_t)1 << 36) /* of address space: their pages are given back */
#define NEAR             (1 << 20)         /* an address farther from a block than this has nothing to do with it */
#define LARGE            ((size_t)1 << 28) /* from here on poison is mapped, from a file of so many bytes: */
#define POISON_FILE      ((size_t)1 << 24)

static const struct emu_hooks no_hooks;
const struct emu_hooks *emu_hooks = &no_hooks;

/* ---- the sorted array -------------------------------------------------------------------------------------------- */

/* The number of blocks with lo <= address. */
static int rank(const struct emu_memory *m, uint64_t address)
{
    int lo = 0, hi = m->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->block[mid]->lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct emu_block *emu_memory_find(const struct emu_memory *m, uint64_t address)
{
    int i = rank(m, address);
    return i ? m->block[i - 1] : NULL;
}

static bool insert(struct emu_memory *m, struct emu_block *b)
{
    if (m->n == m->capacity) {
        int capacity = m->capacity ? 2 * m->capacity : 64;
        struct emu_block **grown = realloc(m->block, (size_t)capacity * sizeof(*grown));
        if (!grown)
            return false;
        m->block = grown;
        m->capacity = capacity;
    }
    int i = rank(m, b->lo);
    memmove(&m->block[i + 1], &m->block[i], (size_t)(m->n - i) * sizeof(m->block[0]));
    m->block[i] = b;
    m->n++;
    b->number = ++m->numbers;
    if (emu_hooks->block_begin)
        emu_hooks->block_begin(b);
    return true;
}

static void take_out(struct emu_memory *m, struct emu_block *b)
{
    int i = rank(m, b->lo) - 1;
    memmove(&m->block[i], &m->block[i + 1], (size_t)(m->n - i - 1) * sizeof(m->block[0]));
    m->n--;
}

/* ---- allocating -------------------------------------------------------------------------------------------------- */

/* A file without a name that holds poison; -1: there is none. */
static int poison_file(void)
{
    static int file = -1;
    if (file >= 0)
        return file;
    int fd = memfd_create("emu-poison", MFD_CLOEXEC);
    void *p = fd < 0 || ftruncate(fd, POISON_FILE) != 0
                  ? MAP_FAILED
                  : mmap(NULL, POISON_FILE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    memset(p, POISON, POISON_FILE);
    munmap(p, POISON_FILE);
    return file = fd;
}

/* Large memory is mapped as copies of one file, so that it costs what is written of it. False: it is as it was, in
 * part. */
static bool map_poison(uint8_t *p, size_t size)
{
    int file = poison_file();
    for (size_t at = 0; file >= 0 && at < size; at += POISON_FILE) {
        size_t n = size - at < POISON_FILE ? size - at : POISON_FILE;
        if (mmap(p + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0) == MAP_FAILED)
            return false;
    }
    return file >= 0;
}

static void poison(uint8_t *p, size_t size)
{
    size_t before = (PAGE - (uintptr_t)p % PAGE) % PAGE, pages = size < LARGE ? 0 : (size - before) / PAGE * PAGE;
    if (!pages || !map_poison(p + before, pages)) {
        memset(p, POISON, size);
        return;
    }
    memset(p, POISON, before);
    memset(p + before + pages, POISON, size - before - pages);
}

struct emu_block *emu_memory_alloc(struct emu_memory *m, size_t size)
{
    if (size > m->limit - m->allocated)
        return NULL;
    size_t body = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    size_t total = (body + 2 * EMU_RED_ZONE + PAGE - 1) & ~(size_t)(PAGE - 1);
    struct emu_block *b = calloc(1, sizeof(*b));
    uint8_t *p =
        b ? mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
    if (p == MAP_FAILED) {
        free(b);
        return NULL;
    }
    *b = (struct emu_block){ .kind = EMU_BLOCK_DEVICE, .writable = true, .mapping = p, .mapping_size = total };
    b->lo = (uint64_t)(uintptr_t)p + EMU_RED_ZONE;
    b->hi = b->lo + size;
    memset(p, RED, EMU_RED_ZONE);
    poison(p + EMU_RED_ZONE, size);
    memset(p + EMU_RED_ZONE + size, RED, EMU_RED_ZONE);
    if (!insert(m, b)) {
        munmap(p, total);
        free(b);
        return NULL;
    }
    m->allocated += size;
    return b;
}

/* Kernels can't get at red zones: what changed one was the host. */
static void check_red_zones(const struct emu_memory *m, const struct emu_block *b)
{
    const uint8_t *lo = b->mapping, *hi = (const uint8_t *)(uintptr_t)b->hi;
    for (int i = 0; i < EMU_RED_ZONE; i++) {
        const uint8_t *bad = lo[i] != RED ? lo + i : hi[i] != RED ? hi + i : NULL;
        char where[160];
        if (!bad)
            continue;
        emu_memory_describe(m, (uint64_t)(uintptr_t)bad, where, sizeof(where));
        emu_report_launch(NULL, "red-zone-overwritten", "the host wrote to %s", where);
        return;
    }
}

static void release(struct emu_block *b)
{
    if (b->mapping)
        munmap(b->mapping, b->mapping_size);
    free(b);
}

/* Its pages go back to the host, its addresses stay taken. */
static void quarantine(struct emu_memory *m, struct emu_block *b)
{
    struct emu_block **grown = realloc(m->freed, (size_t)(m->n_freed + 1) * sizeof(*grown));
    b->freed = true;
    if (emu_hooks->block_end)
        emu_hooks->block_end(b);
    if (!grown || mmap(b->mapping, b->mapping_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                       -1, 0) == MAP_FAILED) {
        m->freed = grown ? grown : m->freed;
        take_out(m, b);
        release(b);
        return;
    }
    m->freed = grown;
    m->freed[m->n_freed++] = b;
    m->freed_bytes += b->mapping_size;
    while (m->n_freed > QUARANTINE_COUNT || m->freed_bytes > QUARANTINE_BYTES) {
        struct emu_block *old = m->freed[0];
        m->freed_bytes -= old->mapping_size;
        memmove(m->freed, m->freed + 1, (size_t)--m->n_freed * sizeof(*m->freed));
        take_out(m, old);
        release(old);
    }
}

bool emu_memory_free(struct emu_memory *m, const void *p, bool *freed)
{
    struct emu_block *b = emu_memory_find(m, (uint64_t)(uintptr_t)p);
    *freed = false;
    if (!b || b->lo != (uint64_t)(uintptr_t)p || b->kind != EMU_BLOCK_DEVICE)
        return false;
    if (b->freed) {
        *freed = true;
        return false;
    }
    check_red_zones(m, b);
    m->allocated -= b->hi - b->lo;
    quarantine(m, b);
    return true;
}

struct emu_block *emu_memory_add(struct emu_memory *m, enum emu_block_kind kind, const void *p, size_t size,
                                 bool writable, const char *label)
{
    struct emu_block *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    *b = (struct emu_block){ .kind = (uint8_t)kind, .writable = writable, .label = label };
    b->lo = (uint64_t)(uintptr_t)p;
    b->hi = b->lo + size;
    if (insert(m, b))
        return b;
    free(b);
    return NULL;
}

void emu_memory_remove(struct emu_memory *m, struct emu_block *b)
{
    if (!b)
        return;
    if (emu_hooks->block_end)
        emu_hooks->block_end(b);
    take_out(m, b);
    release(b);
}

void emu_memory_destroy(struct emu_memory *m)
{
    for (int i = 0; i < m->n; i++) {
        if (emu_hooks->block_end && !m->block[i]->freed)
            emu_hooks->block_end(m->block[i]);
        release(m->block[i]);
    }
    free(m->block);
    free(m->freed);
    *m = (struct emu_memory){ 0 };
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void name_block(const struct emu_block *b, char *buf, size_t size)
{
    static const char *const kinds[] = { "allocation", "code object", "kernel arguments", "scratch memory" };
    char number[32] = "";
    if (b->kind == EMU_BLOCK_DEVICE)
        snprintf(number, sizeof(number), " %llu", (unsigned long long)b->number);
    snprintf(buf, size, "%s%s%s%s%.60s (%llu bytes at 0x%llx%s%s)", b->freed ? "freed " : "", kinds[b->kind], number,
             b->label ? " of " : "", b->label ? b->label : "", (unsigned long long)(b->hi - b->lo),
             (unsigned long long)b->lo, *b->argument ? ", " : "", b->argument);
}

void emu_memory_arguments(struct emu_memory *m, const struct emu_kernel *k, const uint8_t *kernarg)
{
    for (int i = 0; i < m->n; i++)
        m->block[i]->argument[0] = 0;
    for (int a = 0; a < k->n_explicit; a++)
        for (uint32_t at = 0; at + 8 <= k->arg[a].size; at += 8) {
            const char *name = k->arg[a].name;
            char more[16] = "";
            uint64_t p;
            memcpy(&p, kernarg + k->arg[a].offset + at, 8);
            struct emu_block *b = emu_memory_find(m, p);
            if (!b || b->kind != EMU_BLOCK_DEVICE || p >= b->hi || *b->argument)
                continue;
            if (at)
                snprintf(more, sizeof(more), " + %u", at);
            snprintf(b->argument, sizeof(b->argument), "argument %d%s%.40s%s%s", a, name ? " '" : "", name ? name : "",
                     name ? "'" : "", more);
        }
}

void emu_memory_describe(const struct emu_memory *m, uint64_t address, char *buf, size_t size)
{
    int i = rank(m, address);
    const struct emu_block *before = i ? m->block[i - 1] : NULL, *after = i < m->n ? m->block[i] : NULL;
    uint64_t past = before && address >= before->hi ? address - before->hi : UINT64_MAX;
    uint64_t until = after ? after->lo - address : UINT64_MAX;
    char name[260];
    if (before && address < before->hi) {
        name_block(before, name, sizeof(name));
        snprintf(buf, size, "byte %llu of %s", (unsigned long long)(address - before->lo), name);
    } else if (past <= until && past < NEAR) {
        name_block(before, name, sizeof(name));
        snprintf(buf, size, "%llu bytes past the end of %s", (unsigned long long)past, name);
    } else if (until < NEAR) {
        name_block(after, name, sizeof(name));
        snprintf(buf, size, "%llu bytes before %s", (unsigned long long)until, name);
    } else
        snprintf(buf, size, "nothing within %d bytes of it is device memory", NEAR);
}

bool emu_memory_owns(const struct emu_memory *m, const void *p)
{
    uint64_t a = (uint64_t)(uintptr_t)p;
    int after = rank(m, a);
    for (int k = after ? after - 1 : 0; k <= after && k < m->n; k++) {
        const struct emu_block *b = m->block[k];
        uint64_t from = b->mapping ? (uint64_t)(uintptr_t)b->mapping : b->lo;
        if (a - from < (b->mapping ? b->mapping_size : b->hi - b->lo))
            return true;
    }
    return false;
}

bool emu_memory_check(const struct emu_memory *m, const void *p, size_t size, bool write, char *why, size_t why_size)
{
    uint64_t a = (uint64_t)(uintptr_t)p;
    const struct emu_block *b = emu_memory_find(m, a);
    if (b && a <= b->hi && size <= b->hi - a && !b->freed && (b->writable || !write))
        return true;
    emu_memory_describe(m, b && a < b->hi && !b->freed && (b->writable || !write) ? b->hi : a, why, why_size);
    return false;
}

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

/* Are all lanes' addresses in [lo, lo + span]? Also gathers the low bits of all addresses. */
typedef uint64_t v8 __attribute__((vector_size(64)));
#define ALL_IN(name, ...)                                                                                              \
    __VA_ARGS__ static bool name(const uint64_t *addr, uint64_t lanes, uint64_t lo, uint64_t span, uint64_t *low)      \
    {                                                                                                                  \
        const v8 bit = { 1, 2, 4, 8, 16, 32, 64, 128 };                                                                \
        v8 bad = { 0 }, bits = { 0 };                                                                                  \
        for (int g = 0; g < 8; g++) {                                                                                  \
            v8 a, active = (v8)(((lanes >> 8 * g & 255) & bit) != 0);                                                  \
            memcpy(&a, addr + 8 * g, sizeof(a));                                                                       \
            bad |= (v8)(a - lo > span) & active;                                                                       \
            bits |= a & active;                                                                                        \
        }                                                                                                              \
        uint64_t any = 0, all = 0;                                                                                     \
        for (int l = 0; l < 8; l++) {                                                                                  \
            any |= bad[l];                                                                                             \
            all |= bits[l];                                                                                            \
        }                                                                                                              \
        *low = all;                                                                                                    \
        return !any;                                                                                                   \
    }
ALL_IN(all_in_base)
#if defined(__x86_64__)
ALL_IN(all_in_avx2, __attribute__((target("avx2"))))
ALL_IN(all_in_avx512, __attribute__((target("avx512f,avx512vl,avx512dq"))))
#endif

static bool (*all_in)(const uint64_t *, uint64_t, uint64_t, uint64_t, uint64_t *) = all_in_base;

__attribute__((constructor)) static void choose_all_in(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        all_in = all_in_avx512;
    else if (__builtin_cpu_supports("avx2"))
        all_in = all_in_avx2;
#endif
}

static const char *const did[] = { "load", "store", "atomic" };

/* The block's part that the wave may touch: its own of the scratch. */
static void bounds(const struct emu_wave *w, const struct emu_block *b, uint64_t *lo, uint64_t *hi)
{
    *lo = b->lo;
    *hi = b->hi;
    if (b->kind == EMU_BLOCK_SCRATCH) {
        *lo = (uint64_t)(uintptr_t)w->scratch;
        *hi = *lo + (uint64_t)w->scratch_bytes * w->wave_size;
    }
}

/* Lane by lane; says which are right, and reports the others. */
static uint64_t sort_out(struct emu_wave *w, const struct emu_inst *i, const struct emu_access *a)
{
    uint64_t good = 0, bad = 0, lo = 0, hi = 0;
    const struct emu_block *bad_block = NULL;
    int first = -1;
    for (uint64_t rest = a->lanes; rest; rest &= rest - 1) {
        int l = __builtin_ctzll(rest);
        uint64_t addr = a->addr[l];
        const struct emu_block *b = NULL;
        if (addr < lo || addr >= hi || a->bytes > hi - addr) {
            b = emu_memory_find(w->launch->memory, addr);
            if (b)
                bounds(w, b, &lo, &hi);
            if (!b || addr < lo || addr >= hi || a->bytes > hi - addr || b->freed ||
                (a->kind != EMU_LOAD && !b->writable)) {
                if (first < 0) {
                    first = l;
                    bad_block = b && addr >= b->lo && addr < b->hi ? b : NULL;
                }
                bad |= 1ull << l;
                lo = hi = 0;
                continue;
            }
        }
        good |= 1ull << l;
    }
    if (bad) {
        char where[256];
        bool freed = bad_block && bad_block->freed;
        bool read_only = bad_block && !freed && a->kind != EMU_LOAD && !bad_block->writable;
        uint64_t addr = a->addr[first];
        /* one that begins inside and ends outside: its first bad byte is at the end */
        emu_memory_describe(w->launch->memory,
                            bad_block && !freed && !read_only && bad_block->kind != EMU_BLOCK_SCRATCH ? bad_block->hi
                                                                                                      : addr,
                            where, sizeof(where));
        emu_report(w, i,
                   freed       ? "use-after-free"
                   : read_only ? "write-to-read-only"
                               : "global-out-of-bounds",
                   bad, "%s of %d bytes at 0x%llx: %s", did[a->kind], a->bytes, (unsigned long long)addr, where);
    }
    return good;
}

static uint64_t global_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a, uint64_t *low)
{
    uint64_t room = w->mem_hi - w->mem_lo;
    if (room >= a->bytes && all_in(a->addr, a->lanes, w->mem_lo, room - a->bytes, low))
        return a->lanes;
    uint64_t addr = a->addr[__builtin_ctzll(a->lanes)], lo, hi;
    const struct emu_block *b = emu_memory_find(w->launch->memory, addr);
    if (b && !b->freed && (b->writable || a->kind == EMU_LOAD)) {
        bounds(w, b, &lo, &hi);
        if (hi - lo >= a->bytes && all_in(a->addr, a->lanes, lo, hi - lo - a->bytes, low)) {
            if (b->writable) { /* the quick test doesn't ask */
                w->mem_lo = lo;
                w->mem_hi = hi;
            }
            return a->lanes;
        }
    }
    all_in(a->addr, a->lanes, 0, UINT64_MAX, low);
    return sort_out(w, i, a);
}

static uint64_t scalar_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a)
{
    uint64_t addr = a->addr[0];
    if (addr - w->mem_lo < w->mem_hi - w->mem_lo && a->bytes <= w->mem_hi - addr)
        return 1;
    a->lanes = 1;
    return sort_out(w, i, a);
}

/* LDS and scratch: offsets below a limit. */
static uint64_t offset_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a, uint64_t limit,
                              uint64_t *low)
{
    if (limit >= a->bytes && all_in(a->addr, a->lanes, 0, limit - a->bytes, low))
        return a->lanes;
    uint64_t bad = 0;
    all_in(a->addr, a->lanes, 0, UINT64_MAX, low);
    for (uint64_t rest = a->lanes; rest; rest &= rest - 1) {
        int l = __builtin_ctzll(rest);
        if (a->addr[l] > limit || a->bytes > limit - a->addr[l])
            bad |= 1ull << l;
    }
    bool lds = a->space == EMU_LDS_SPACE;
    uint64_t addr = a->addr[__builtin_ctzll(bad)];
    emu_report(w, i, lds ? "lds-out-of-bounds" : "scratch-out-of-bounds", bad,
               "%s of %d bytes at offset 0x%llx: the %s has %llu bytes", did[a->kind], a->bytes,
               (unsigned long long)addr, lds ? "workgroup's LDS" : "work-item's scratch", (unsigned long long)limit);
    return a->lanes & ~bad;
}

uint64_t emu_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a)
{
    uint64_t low = 0;
    if (!a->lanes)
        return 0;
    w->stores += a->kind == EMU_STORE && a->space == EMU_GLOBAL;
    w->lds_stores += a->kind == EMU_STORE && a->space == EMU_LDS_SPACE;
    if (a->scalar) {
        a->lanes = scalar_access(w, i, a);
        low = a->addr[0];
    } else if (a->space == EMU_GLOBAL)
        a->lanes = global_access(w, i, a, &low);
    else
        a->lanes = offset_access(w, i, a, a->space == EMU_LDS_SPACE ? w->wg->lds_bytes : w->scratch_bytes, &low);
    if (a->align > 1 && (low & (a->align - 1u))) {
        uint64_t bad = 0;
        for (uint64_t rest = a->lanes; rest; rest &= rest - 1)
            if (a->addr[__builtin_ctzll(rest)] & (a->align - 1u))
                bad |= rest & -rest;
        if (bad)
            emu_report(w, i, "misaligned", bad, "%s of %d bytes at 0x%llx: must be %d-byte aligned", did[a->kind],
                       a->bytes, (unsigned long long)a->addr[__builtin_ctzll(bad)], a->align);
        a->lanes &= ~bad;
    }
    if ((w->watch & EMU_WATCH_ACCESS) && a->lanes) {
        const struct emu_block *b =
            a->space == EMU_GLOBAL ? emu_memory_find(w->launch->memory, a->addr[__builtin_ctzll(a->lanes)]) : NULL;
        a->lanes = emu_hooks->access(w, i, a, b);
    }
    return a->lanes;
}

uint8_t *emu_scratch(struct emu_wave *w, int lane, uint32_t offset)
{
    return w->scratch + (size_t)(offset & ~3u) * w->wave_size + (size_t)lane * 4 + (offset & 3);
}
