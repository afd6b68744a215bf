/* SPDX-License-Identifier: MIT
 *
 * Finds the code object in an offload bundle, or in memory whose size only its headers tell. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "code.h"

#define MAX_FILE    (1ull << 30)
#define MAX_ENTRIES 256 /* of an offload bundle */

#define BUNDLE            "__CLANG_OFFLOAD_BUNDLE__"
#define BUNDLE_COMPRESSED "CCOB"

struct bundle_entry {
    uint64_t offset, size, id_size;
};

/* "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+" is for gfx90a. */
static bool id_is_for(const char *id, uint64_t len, const char *arch)
{
    size_t n = strlen(arch);
    for (uint64_t i = 0; i + n <= len; i++)
        if (!memcmp(id + i, arch, n) && i && id[i - 1] == '-' && (i + n == len || id[i + n] == ':'))
            return true;
    return false;
}

bool emu_unbundle(const uint8_t **data, size_t *size, const struct emu_arch *arch, char *error, size_t error_size)
{
    if (*size >= sizeof(BUNDLE_COMPRESSED) - 1 && !memcmp(*data, BUNDLE_COMPRESSED, sizeof(BUNDLE_COMPRESSED) - 1)) {
        snprintf(error, error_size, "a compressed offload bundle: unbundle it with clang-offload-bundler first");
        return false;
    }
    if (*size < sizeof(BUNDLE) - 1 || memcmp(*data, BUNDLE, sizeof(BUNDLE) - 1))
        return true;
    size_t at = sizeof(BUNDLE) - 1;
    uint64_t n = 0, seen = 0;
    if (*size >= at + 8)
        memcpy(&n, *data + at, 8);
    at += 8;
    for (uint64_t i = 0; i < n && at <= *size && *size - at >= sizeof(struct bundle_entry); i++) {
        struct bundle_entry e;
        memcpy(&e, *data + at, sizeof(e));
        at += sizeof(e);
        if (e.id_size > *size - at || e.offset > *size || e.size > *size - e.offset) {
            snprintf(error, error_size, "offload bundle: entry %llu is not in the file", (unsigned long long)i);
            return false;
        }
        const char *id = (const char *)*data + at;
        bool gpu = e.id_size > 5 && memcmp(id, "host-", 5) && e.size;
        seen += gpu;
        if (gpu && (!arch || id_is_for(id, e.id_size, arch->name))) {
            *data += e.offset;
            *size = e.size;
            return true;
        }
        at += e.id_size;
    }
    snprintf(error, error_size, "offload bundle: none of its %llu code objects is for %s", (unsigned long long)seen,
             arch ? arch->name : "a GPU");
    return false;
}

/* Copies memory that may not be mapped: HIP's call says where an image begins, and its headers, which may lie, how long
 * it is. On systems without this call the headers are trusted. */
static bool peek(void *to, const void *from, uint64_t offset, size_t size)
{
    struct iovec local = { to, size }, remote = { (uint8_t *)(uintptr_t)from + offset, size };
    if (offset > MAX_FILE)
        return false;
    ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (n < 0 && errno != EFAULT)
        memcpy(to, remote.iov_base, n = (ssize_t)size);
    return n == (ssize_t)size;
}

/* The end of a part of an image, if it is farther. */
static bool reach(uint64_t *end, uint64_t offset, uint64_t size)
{
    if (offset > MAX_FILE || size > MAX_FILE - offset)
        return false;
    *end = offset + size > *end ? offset + size : *end;
    return true;
}

static size_t bundle_size(const void *data)
{
    uint64_t n, at = sizeof(BUNDLE) - 1 + sizeof(n), end = at;
    if (!peek(&n, data, at - sizeof(n), sizeof(n)) || n > MAX_ENTRIES)
        return 0;
    for (uint64_t i = 0; i < n; i++) {
        struct bundle_entry e;
        if (!peek(&e, data, at, sizeof(e)) || !reach(&end, e.offset, e.size) || !reach(&end, at + sizeof(e), e.id_size))
            return 0;
        at += sizeof(e) + e.id_size;
    }
    return end;
}

size_t emu_code_size(const void *data)
{
    Elf64_Ehdr h;
    char start[sizeof(BUNDLE) - 1];
    if (peek(start, data, 0, sizeof(start)) && !memcmp(start, BUNDLE, sizeof(start)))
        return bundle_size(data);
    if (!peek(&h, data, 0, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG))
        return 0;
    uint64_t end = sizeof(h);
    if (!reach(&end, h.e_shoff, (uint64_t)h.e_shnum * h.e_shentsize) ||
        !reach(&end, h.e_phoff, (uint64_t)h.e_phnum * h.e_phentsize))
        return 0;
    for (unsigned i = 0; i < h.e_phnum && h.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr p;
        if (!peek(&p, data, h.e_phoff + i * sizeof(p), sizeof(p)) || !reach(&end, p.p_offset, p.p_filesz))
            return 0;
    }
    for (unsigned i = 0; i < h.e_shnum && h.e_shentsize == sizeof(Elf64_Shdr); i++) {
        Elf64_Shdr s;
        if (!peek(&s, data, h.e_shoff + i * sizeof(s), sizeof(s)) ||
            (s.sh_type != SHT_NOBITS && !reach(&end, s.sh_offset, s.sh_size)))
            return 0;
    }
    return end;
}

uint8_t *emu_image_copy(const void *image, size_t *size, char *error, size_t error_size)
{
    *size = emu_code_size(image);
    uint8_t *copy = *size ? malloc(*size) : NULL;
    if (!*size)
        snprintf(error, error_size,
                 "it is neither an ELF file nor an offload bundle, or its headers tell of more than "
                 "there is");
    else if (!copy)
        snprintf(error, error_size, "no memory for a code object of %zu bytes", *size);
    else if (!peek(copy, image, 0, *size)) {
        snprintf(error, error_size, "its headers tell of %zu bytes: there are fewer", *size);
        free(copy);
        copy = NULL;
    }
    return copy;
}
