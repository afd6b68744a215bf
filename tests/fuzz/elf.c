/* SPDX-License-Identifier: MIT
 *
 * Code objects and offload bundles, as the emulator loads and decodes them, and as the cache takes them. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dispatch/jit/jit.h"
#include "emu/code/code.h"
#include "fuzz.h"

const char fuzz_name[] = "elf";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 16384;
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = NULL;

static void look(struct emu_code *code, bool decode)
{
    char error[256] = "", line[300];
    FUZZ_CHECK(code->text_size <= code->image_size);
    bool decoded = decode && emu_code_decode(code, true, error, sizeof(error));
    FUZZ_CHECK(decoded || !decode || *error);
    for (int i = 0; i < code->n_kernels; i++) {
        const struct emu_kernel *k = &code->kernel[i];
        FUZZ_CHECK(k->name && emu_code_kernel(code, k->name));
        FUZZ_CHECK(!decoded || emu_code_program(code, k));
        for (int a = 0; a < k->n_args; a++)
            FUZZ_CHECK(a >= k->n_explicit || k->arg[a].offset + (uint64_t)k->arg[a].size <= k->kernarg_bytes);
    }
    for (size_t i = 0; i < code->n_symbols && i < 20; i++)
        (void)emu_code_global(code, code->symbol[i].name);
    for (uint64_t at = 0; at < code->text_size && at < 64; at += 20) {
        (void)emu_code_function(code, at);
        (void)emu_code_line(code, at, line, sizeof(line));
    }
}

/* Right before a page that can't be read: how far one may look is known from the bytes alone. */
static void load_of_unknown_size(const uint8_t *data, size_t size)
{
    static char *pages;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (fuzz_max_size + page - 1) / page * page;
    char error[256] = "";
    struct emu_code *code;
    if (!pages) {
        pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        FUZZ_CHECK(pages != MAP_FAILED && mprotect(pages + room, page, PROT_NONE) == 0);
    }
    char *at = pages + room - (size + 7) / 8 * 8; /* hipModuleLoadData()'s images are aligned */
    memcpy(at, data, size);
    (void)emu_code_size(at);
    if (emu_code_load_image(&code, at, NULL, error, sizeof(error)))
        emu_code_free(&code);
    else
        FUZZ_CHECK(*error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const archs[] = { NULL, "gfx942", "gfx1100" };
    unsigned turn = fuzz_hash(data, size);
    char error[256] = "";
    struct emu_code *code;
    if (size > fuzz_max_size)
        return 0;
    const char *name = archs[turn % 3];
    if (emu_code_load(&code, data, size, name ? emu_arch_find(name) : NULL, error, sizeof(error))) {
        look(code, turn / 3 % 4 == 0); /* it takes most of the time, and LLVM most of that */
        emu_code_free(&code);
    } else
        FUZZ_CHECK(*error && memchr(error, 0, sizeof(error)));
    static const char *const targets[] = { "gfx942", "gfx1100", "sm_90a" };
    struct rfg_jit_request req = { .target = targets[turn % 3], .entry = "k", .args = 24, .least_args = 16 };
    struct rfg_reason why = { "" };
    FUZZ_CHECK(rfg_code_check(&req, &(struct rfg_blob){ (void *)(uintptr_t)data, size }, &why) || *why.text);
    if (turn / 12 % 8 == 0)
        load_of_unknown_size(data, size);
    return 0;
}
