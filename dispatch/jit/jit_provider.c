/* SPDX-License-Identifier: MIT
 *
 * The list of compilers, and the choice among them. */
#include "jit_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

const struct rfg_jit_provider *const rfg_jit_providers[] = { &rfg_jit_hiprtc, &rfg_jit_nvrtc, &rfg_jit_clang,
                                                             &rfg_jit_ziglang, NULL };
const struct rfg_jit_provider *rfg_jit_extra_provider;

const struct rfg_jit_provider *rfg_jit_provider_find(const char *name)
{
    for (int i = 0; rfg_jit_providers[i]; i++)
        if (!strcmp(rfg_jit_providers[i]->name, name))
            return rfg_jit_providers[i];
    return NULL;
}

const struct rfg_jit_provider *rfg_jit_provider_for(const char *target)
{
    if (rfg_jit_extra_provider && rfg_jit_extra_provider->has_target(target))
        return rfg_jit_extra_provider;
    const char *forced = rfg_env("RFG_JIT");
    if (forced && !rfg_jit_provider_find(forced)) {
        rfg_fail(RFG_ERROR_COMPILE, "RFG_JIT=%s: must be hiprtc, nvrtc, clang or ziglang", forced);
        return NULL;
    }
    for (int i = 0; rfg_jit_providers[i]; i++)
        if ((!forced || !strcmp(forced, rfg_jit_providers[i]->name)) && rfg_jit_providers[i]->has_target(target))
            return rfg_jit_providers[i];
    /* None. Only now are all asked why: some must be loaded or started for an answer. */
    char asked[800] = "";
    size_t used = 0;
    for (int i = 0; rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = rfg_jit_providers[i];
        if (forced && strcmp(forced, p->name))
            continue;
        char version[128];
        struct rfg_reason why = { "" };
        int n = p->available(version, sizeof(version), &why)
                    ? snprintf(asked + used, sizeof(asked) - used, "; %s does not know it", version)
                    : snprintf(asked + used, sizeof(asked) - used, "; %s: %s", p->name, why.text);
        used += (size_t)n < sizeof(asked) - used ? (size_t)n : sizeof(asked) - used - 1;
    }
    rfg_fail(RFG_ERROR_COMPILE, "no compiler for %s%s%s%s", target, forced ? " with RFG_JIT=" : "",
             forced ? forced : "", asked);
    return NULL;
}

const struct rfg_jit_provider *rfg_jit_provider_of_version(const char *version, const char *target)
{
    const char *forced = rfg_env("RFG_JIT");
    char mine[128];
    for (int i = -1; i < 0 || rfg_jit_providers[i]; i++) {
        const struct rfg_jit_provider *p = i < 0 ? rfg_jit_extra_provider : rfg_jit_providers[i];
        bool allowed = p && (i < 0 || !forced || !strcmp(forced, p->name));
        if (allowed && p->has_target(target) && p->available(mine, sizeof(mine), NULL) && !strcmp(mine, version))
            return p;
    }
    return NULL;
}
