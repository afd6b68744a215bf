/* SPDX-License-Identifier: MIT
 *
 * The devices of the emulated libamdhip64, and what it says of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "rocm.h"

static const struct rocm_product products[] = {
#define PRODUCT(...) { __VA_ARGS__ },
#include "products.def"
#undef PRODUCT
};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static struct emu_arch archs[EMU_MAX_DEVICES]; /* with the product's XCDs */
static char arch_strings[EMU_MAX_DEVICES][64];

/* HSA_OVERRIDE_GFX_VERSION=11.0.0 makes every GPU a gfx1100, whatever it is. */
static const char *overridden(const char *arch)
{
    static char other[32];
    const char *env = rfg_env("HSA_OVERRIDE_GFX_VERSION");
    unsigned major, minor, step;
    if (!env || sscanf(env, "%u.%u.%u", &major, &minor, &step) != 3 || major > 99 || minor > 15 || step > 15)
        return arch;
    snprintf(other, sizeof(other), "gfx%u%u%x", major, minor, step);
    return other;
}

/* rocclr/device/rocm/rocdevice.cpp: RDNA counts WGPs of two CUs, unless its kernels are compiled for CU mode. */
static int multiprocessors(const struct emu_arch *arch, int cus)
{
    const char *wgp = rfg_env("GPU_ENABLE_WGP_MODE");
    bool pairs = arch->gfx >= 0x1000 && !(wgp && !strcmp(wgp, "0"));
    return pairs && cus > 1 ? cus / 2 : cus;
}

static bool add(const struct rocm_product *p, int cus)
{
    const char *name = overridden(p->arch);
    const struct emu_arch *arch = emu_arch_find(name);
    if (!arch || emu_n_devices == EMU_MAX_DEVICES) {
        fprintf(stderr, "emulated HIP: %s\n", arch ? "too many devices" : "HSA_OVERRIDE_GFX_VERSION: unknown GPU");
        return false;
    }
    int n = emu_n_devices, l2 = p->l2_kib * 1024;
    const char *features = name == p->arch ? p->features : "";
    archs[n] = *arch;
    archs[n].xcds = p->xcds;
    snprintf(arch_strings[n], sizeof(arch_strings[n]), "%s%s", name, features);
    return emu_add_device(&archs[n], cus,
                          &(struct card){ .name = p->board,
                                          .features = features,
                                          .multiprocessors = multiprocessors(arch, cus),
                                          .l2_bytes = rocm_version->l2_of_all_xcds ? l2 * p->xcds : l2,
                                          .bus_bits = p->bus_bits,
                                          .mem_khz = p->mem_mhz * 1000,
                                          .clock_khz = p->clock_mhz * 1000,
                                          .pci_bus = 0x0c + 0x10 * n,
                                          .xccs = rocm_version->so >= 7 ? p->xcds : 0 }) >= 0;
}

static const struct rocm_product *find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
        if (strlen(products[i].name) == len && !strncmp(products[i].name, name, len))
            return &products[i];
    return NULL;
}

/* One of the list, "MI300X" or "MI300X:4", to a product and its CUs. */
static const struct rocm_product *parse(const char *text, size_t len, int *cus)
{
    size_t n = strcspn(text, ":,");
    const struct rocm_product *p = find(text, n);
    char *end = (char *)text + n;
    *cus = p ? p->cus : 0;
    if (p && *end == ':')
        *cus = (int)strtol(text + n + 1, &end, 10);
    return p && *cus >= 1 && *cus <= 65535 && end == text + len ? p : NULL;
}

/* "0,2" of n devices: which are left, in that order. As the real ones do, the list ends where it is
 * wrong. NULL: all. */
static int visible(const char *list, int *which, int n)
{
    int left = 0, of[EMU_MAX_DEVICES];
    if (!list)
        return n;
    while (*list && left < n) {
        char *end;
        long i = *list >= '0' && *list <= '9' ? strtol(list, &end, 10) : -1;
        if (i < 0 || i >= n || (*end && *end != ','))
            break;
        of[left++] = which[i];
        list = *end ? end + 1 : end;
    }
    memcpy(which, of, sizeof(of[0]) * (size_t)left);
    return left;
}

/* $EMULATED_ROCM_ON_FAULT. ROCm's runtime aborts on a memory fault and on an exception of the GPU. */
static enum emu_on_fault on_fault(void)
{
    static const char *const ways[] = {
        [EMU_FAULT_CONTINUES] = "continue", [EMU_FAULT_STAYS] = "sticky", [EMU_FAULT_ABORTS] = "abort"
    };
    const char *text = rfg_env("EMULATED_ROCM_ON_FAULT");
    for (int k = 0; text && k < 3; k++)
        if (!strcmp(text, ways[k]))
            return (enum emu_on_fault)k;
    if (text && *text)
        fprintf(stderr, "emulated HIP: EMULATED_ROCM_ON_FAULT: '%s': must be abort, sticky or continue; it aborts\n",
                text);
    return EMU_FAULT_ABORTS;
}

static void end_process(const char *why)
{
    fprintf(stderr,
            "emulated HIP: %s: the process ends, as on hardware (EMULATED_ROCM_ON_FAULT=sticky: every later "
            "call fails; =continue: nothing stays)\n",
            why);
    abort();
}

static void start(void)
{
    const struct rocm_product *p[EMU_MAX_DEVICES];
    int cus[EMU_MAX_DEVICES], which[EMU_MAX_DEVICES], n = 0;
    const char *list = rfg_env("EMULATED_ROCM_GPUS");
    emu_rules = rocm_version->rules;
    emu_rules.version = rocm_version->hip_version;
    emu_rules.on_fault = on_fault();
    emu_rules.abort = end_process;
    for (const char *at = list ? list : "MI300X"; *at && strcmp(at, "none") != 0 && n < EMU_MAX_DEVICES;) {
        size_t len = strcspn(at, ",");
        which[n] = n;
        if (!(p[n] = parse(at, len, &cus[n]))) {
            fprintf(stderr, "emulated HIP: EMULATED_ROCM_GPUS: '%.*s' is none: must be one of", (int)len, at);
            for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
                fprintf(stderr, " %s", products[i].name);
            fprintf(stderr, ", with :CUS or without; there is no device\n");
            return;
        }
        n++;
        at += len + (at[len] == ',');
    }
    n = visible(rfg_env("ROCR_VISIBLE_DEVICES"), which, n);
    n = visible(rfg_env("HIP_VISIBLE_DEVICES"), which, n);
    for (int i = 0; i < n && add(p[which[i]], cus[which[i]]); i++)
        ;
}

void rocm_start(void)
{
    pthread_once(&started, start);
}

const char *rocm_arch_string(int d)
{
    return d >= 0 && d < emu_n_devices ? arch_strings[d] : "";
}
