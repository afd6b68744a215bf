/* SPDX-License-Identifier: MIT */
#include "emu_kernel.h"

#include "emu/isa/llvm.h"
#include "tests/op_cases.h"

rfg_context *ctx;
const struct rfg_hip *hip;

void emu_open_device(const char *arch)
{
    char name[40];
    snprintf(name, sizeof(name), "emu:%s:4", arch);
    ctx = op_context(name);
    hip = rfg_context_hip(ctx);
}

hipModule_t emu_build(const char *arch, const char *entry, const char *source, const struct rfg_blob **code)
{
    struct rfg_jit_request req = { .name = "test", .entry = entry, .target = arch, .source = source };
    const struct rfg_blob *blob;
    hipModule_t m;
    ck_assert_msg(rfg_cache_get(rfg_context_cache(ctx), &req, NULL, NULL, &blob) == RFG_OK, "%s", rfg_last_error());
    ck_assert_int_eq(hip->hipModuleLoadData(&m, blob->data), hipSuccess);
    if (code)
        *code = blob;
    return m;
}

bool emu_is_there(void)
{
    char why[200];
    (void)rfg_jit_provider_for("gfx942"); /* compilers are looked for here once, not by each test's process */
    if (emu_disasm_ready(why, sizeof(why)))
        return true;
    printf("SKIPPED: the emulator: %s\n", why);
    return false;
}
