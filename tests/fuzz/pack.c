/* SPDX-License-Identifier: MIT
 *
 * Packs: whatever the file holds, only whole parts of it are used. Half of the inputs get the right checksum of their
 * index, so that the code behind the check is reached. */
#include <string.h>

#include "base/util.h"
#include "dispatch/pack/pack.h"
#include "fuzz.h"

const char fuzz_name[] = "pack";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 4096;

/* As in pack.c: magic, format, schema; three sizes; version; checksum. */
#define SIZES    16
#define CHECKSUM 56
#define HEADER   (CHECKSUM + 64)

static void write_packs(void (*add)(const void *data, size_t size))
{
    static const char *const texts[] = { "\177ELF code", "" };
    struct rfg_pack_code codes[2] = { 0 };
    struct rfg_blob blobs[2];
    for (int i = 0; i < 2; i++) {
        blobs[i] = (struct rfg_blob){ (void *)(uintptr_t)texts[i], strlen(texts[i]) };
        strcpy(codes[i].target, i ? "gfx942" : "gfx90a");
        strcpy(codes[i].source, "gemm/gpu/any/portable.hip");
        strcpy(codes[i].entry, "gemm_portable");
        strcpy(codes[i].macros, "ROWS=4 WAVES=2");
        strcpy(codes[i].compiler, "clang 19, \"a\"");
        codes[i].size = blobs[i].size;
        rfg_sha256_hex(codes[i].code_hash, &texts[i], &blobs[i].size, 1);
    }
    for (size_t n = 0; n < 3; n++) {
        const char *path = fuzz_file("seed.rfgpack", NULL, 0);
        size_t size;
        FUZZ_CHECK(rfg_pack_write(path, codes, (const struct rfg_blob *const[]){ &blobs[0], &blobs[1] }, n, NULL, 0) ==
                   RFG_OK);
        char *bytes = rfg_read_file(path, &size);
        FUZZ_CHECK(bytes);
        add(bytes, size);
        free(bytes);
    }
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = write_packs;

static void mend(uint8_t *data, size_t size)
{
    uint64_t sizes[2];
    char hex[65];
    if (size < HEADER)
        return;
    memcpy(sizes, data + SIZES, sizeof(sizes));
    if (sizes[0] > size || sizes[1] > size || sizes[0] + sizes[1] > size - HEADER)
        return;
    rfg_sha256_hex(hex, (const char *const[]){ (const char *)data, (const char *)data + HEADER },
                   (const size_t[]){ CHECKSUM, sizes[0] + sizes[1] }, 2);
    memcpy(data + CHECKSUM, hex, 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rfg_pack *p;
    uint8_t copy[4096];
    size_t n, n_rows, sum = 0;
    if (size > sizeof(copy)) /* libFuzzer without -max_len */
        return 0;
    memcpy(copy, data, size);
    if (fuzz_hash(data, size) & 1)
        mend(copy, size);
    const char *path = fuzz_file("fuzz.rfgpack", copy, size);
    if (rfg_pack_open(&p, path) != RFG_OK) {
        FUZZ_CHECK(!p && strstr(rfg_last_error(), path));
        return 0;
    }
    const struct rfg_pack_code *c = rfg_pack_codes(p, &n);
    rfg_pack_rows(p, &n_rows);
    for (size_t i = 0; i < n; i++) {
        const struct rfg_blob *b;
        char hex[65];
        FUZZ_CHECK(!i || rfg_pack_compare(&c[i - 1], &c[i]) < 0);
        sum += c[i].size;
        if (rfg_pack_load(p, &c[i], &b) == RFG_OK) {
            rfg_sha256_hex(hex, (const char *const[]){ b->data }, &b->size, 1);
            FUZZ_CHECK(!strcmp(hex, c[i].code_hash));
        }
        rfg_pack_check_target(p, c[i].target);
    }
    FUZZ_CHECK(sum < size);
    rfg_pack_close(&p);
    return 0;
}
