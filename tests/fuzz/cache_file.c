/* SPDX-License-Identifier: MIT
 *
 * Files of the code cache: whatever they hold, a hit returns what was written. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/jit/cache_disk.h"
#include "base/util.h"
#include "fuzz.h"

const char fuzz_name[] = "cache_file";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 2048;

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
static const char *const codes[] = { "", "code", "\177ELF and so on, a bit longer than the others are" };
#define N_CODES (sizeof(codes) / sizeof(codes[0]))
static int target = -1;

static void open_target(void)
{
    if (target < 0)
        target = open(fuzz_dir(), O_RDONLY | O_DIRECTORY);
    FUZZ_CHECK(target >= 0);
}

static void write_files(void (*add)(const void *data, size_t size))
{
    open_target();
    for (size_t i = 0; i < N_CODES; i++) {
        char path[200];
        size_t size;
        struct rfg_blob blob = { (void *)(uintptr_t)codes[i], strlen(codes[i]) };
        FUZZ_CHECK(rfg_disk_write(target, KEY, &blob));
        snprintf(path, sizeof(path), "%s/" KEY ".rfgco", fuzz_dir());
        char *bytes = rfg_read_file(path, &size);
        FUZZ_CHECK(bytes);
        add(bytes, size);
        free(bytes);
    }
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = write_files;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rfg_blob code = { 0 };
    struct rfg_reason why = { "" };
    open_target();
    const char *path = fuzz_file(KEY ".rfgco", data, size);
    switch (rfg_disk_read(target, KEY, &code, &why)) {
    case RFG_DISK_HIT: {
        bool one_of_ours = false;
        for (size_t i = 0; i < N_CODES; i++)
            one_of_ours |= strlen(codes[i]) == code.size && !memcmp(codes[i], code.data, code.size);
        FUZZ_CHECK(one_of_ours);
        free((void *)(uintptr_t)code.data);
        break;
    }
    case RFG_DISK_DAMAGED:
        FUZZ_CHECK(*why.text && access(path, F_OK) != 0); /* told of, and gone */
        break;
    default:
        FUZZ_CHECK(!"a hit or damaged");
    }
    return 0;
}
