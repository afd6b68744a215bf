/* SPDX-License-Identifier: MIT
 *
 * The emulated GPU's modules, functions and launches. */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_impl.h"

#define MAX_GRID 0xFFFFFFFFull

/* ---- launches ---------------------------------------------------------------------------------------------------- */
static hipError_t run_kernel(hipStream_t stream, const struct node *n, bool replayed)
{
    (void)replayed;
    struct module *m = n->fn->module;
    struct emu_launch l = { .arch = m->device->arch,
                            .cu_count = m->device->cu_count,
                            .memory = &m->device->memory,
                            .code = m->code,
                            .kernel = n->fn->kernel,
                            .kernarg = n->kernarg,
                            .dynamic_lds = n->lds,
                            .cooperative = n->cooperative };
    memcpy(l.grid, n->grid, sizeof(l.grid));
    memcpy(l.block, n->block, sizeof(l.block));
    emu_order_begin(stream, "kernel %.80s", n->fn->kernel->name);
    l.touched = emu_order_wanted() ? emu_touched_create() : NULL;
    enum emu_result result = emu_launch_run(&l);
    emu_order_touched(l.touched);
    emu_touched_destroy(l.touched);
    bool ordered = emu_order_end(NULL, 0);
    return result == EMU_DONE && !ordered ? hipErrorLaunchFailure : emu_launched(&l, result);
}

static struct device *device_of(hipStream_t stream)
{
    return stream ? ((struct stream *)stream)->device : emu_here();
}

__attribute__((format(printf, 3, 4))) static hipError_t refuse(const struct function *f, hipError_t e, const char *fmt,
                                                               ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rfg_warn("emu: launch of %.120s refused: %s", f->kernel->name, text);
    return e;
}

/* What the runtime checks before it launches, and the error it then gives. */
static hipError_t check_launch(const struct function *f, const uint32_t grid[3], const uint32_t block[3], unsigned lds)
{
    const struct emu_kernel *k = f->kernel;
    const struct device *d = f->module->device;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++) {
        if (!grid[i] || !block[i])
            return refuse(f, grid[i] ? emu_rules.no_block : emu_rules.no_grid,
                          "grid %ux%ux%u of %ux%ux%u: none may be 0", grid[0], grid[1], grid[2], block[0], block[1],
                          block[2]);
        if ((uint64_t)grid[i] * block[i] > MAX_GRID || block[i] > 1024)
            return refuse(f, block[i] > 1024 ? emu_rules.large_block : hipErrorInvalidConfiguration,
                          "dimension %d has %u workgroups of %u: must be less than "
                          "2^32 work-items, in workgroups of at most 1024",
                          i, grid[i], block[i]);
        if (k->reqd[i] && block[i] != (uint32_t)k->reqd[i])
            return refuse(f, hipErrorLaunchFailure, "block is %ux%ux%u: the kernel requires %dx%dx%d", block[0],
                          block[1], block[2], k->reqd[0], k->reqd[1], k->reqd[2]);
    }
    if ((uint64_t)grid[0] * grid[1] > UINT64_MAX / grid[2])
        return refuse(f, hipErrorInvalidConfiguration, "too many workgroups");
    if (threads > 1024)
        return refuse(f, emu_rules.large_block, "%llu work-items a workgroup: must be at most 1024",
                      (unsigned long long)threads);
    if (threads > (uint64_t)k->max_threads)
        return refuse(f, hipErrorLaunchFailure, "%llu work-items a workgroup: the kernel's launch bounds say %d",
                      (unsigned long long)threads, k->max_threads);
    if (emu_kernel_hidden(k, EMU_ARG_HIDDEN_PRINTF_BUFFER))
        return refuse(f, hipErrorNotSupported, "it prints into a buffer: compile it with -mprintf-kind=hostcall");
    if ((uint64_t)lds + k->lds_bytes > (uint64_t)d->arch->lds_bytes)
        return refuse(f, hipErrorInvalidValue, "%u + %u bytes of LDS: %s has %d", k->lds_bytes, lds, d->arch->name,
                      d->arch->lds_bytes);
    if (emu_occupancy(d->arch, k, d->cu_count, (int)threads, lds + k->lds_bytes) < 1)
        return refuse(f, hipErrorLaunchOutOfResources,
                      "a CU does not hold a workgroup of %llu work-items with %d VGPRs", (unsigned long long)threads,
                      k->n_vgprs + k->n_agprs);
    return hipSuccess;
}

/* `extra` as hipModuleLaunchKernel() takes it: keys and values, ended by HIP_LAUNCH_PARAM_END. */
static bool read_extra(void **extra, const void **packed, size_t *size)
{
    for (int i = 0; i < 8 && extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
            *packed = extra[i + 1];
        else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
            *size = *(const size_t *)extra[i + 1];
        else
            return false;
    }
    return *packed && *size;
}

/* A cooperative launch's workgroups must all be resident. */
static hipError_t check_cooperative(const struct function *f, const uint32_t grid[3], const uint32_t block[3],
                                    unsigned lds)
{
    const struct device *d = f->module->device;
    uint64_t wanted = (uint64_t)grid[0] * grid[1] * grid[2];
    int most = emu_occupancy(d->arch, f->kernel, d->cu_count, (int)(block[0] * block[1] * block[2]),
                             lds + f->kernel->lds_bytes);
    return wanted <= (uint64_t)most ? hipSuccess
                                    : refuse(f, hipErrorCooperativeLaunchTooLarge,
                                             "a cooperative launch of %llu workgroups: the device "
                                             "holds %d at a time",
                                             (unsigned long long)wanted, most);
}

static hipError_t launch(hipFunction_t fn, const uint32_t grid[3], const uint32_t block[3], unsigned lds,
                         hipStream_t stream, void **params, void **extra, bool cooperative, const struct rfg_joint *who)
{
    struct function *f = (struct function *)fn;
    if (!emu_stream_ok(&stream))
        return emu_rules.bad_launch_stream;
    if (!emu_is(fn, FUNCTION) || device_of(stream) != f->module->device)
        return hipErrorInvalidHandle;
    hipError_t e = check_launch(f, grid, block, lds);
    if (e == hipSuccess && cooperative)
        e = check_cooperative(f, grid, block, lds);
    if (e != hipSuccess)
        return e;
    const struct emu_kernel *k = f->kernel;
    const void *packed = NULL;
    size_t packed_size = 0;
    if ((params && extra) || (extra && !read_extra(extra, &packed, &packed_size)))
        return refuse(f, hipErrorInvalidValue, "arguments are given twice, or `extra` isn't a buffer and its size");
    if (!params && !packed && k->n_explicit)
        return refuse(f, hipErrorInvalidValue, "no arguments are given: it has %d", k->n_explicit);
    for (int i = 0; params && i < k->n_explicit; i++)
        if (!params[i])
            return refuse(f, hipErrorInvalidValue, "argument %d is NULL", i);
    struct node *n = calloc(1, sizeof(*n));
    size_t size = EMU_KERNARG_SIZE(k->kernarg_bytes);
    if (n)
        n->kernarg = aligned_alloc(64, size ? size : 64);
    if (!n || !n->kernarg) {
        free(n);
        return hipErrorOutOfMemory;
    }
    n->run = who ? emu_run_joint : run_kernel;
    n->joint = who != NULL;
    if (who)
        n->who = *who;
    n->fn = f;
    n->lds = lds;
    n->cooperative = cooperative;
    memcpy(n->grid, grid, sizeof(n->grid));
    memcpy(n->block, block, sizeof(n->block));
    struct emu_launch l = { .arch = f->module->device->arch,
                            .kernel = k,
                            .dynamic_lds = lds,
                            .kernarg = n->kernarg,
                            .cooperative = cooperative };
    memcpy(l.grid, n->grid, sizeof(l.grid));
    memcpy(l.block, n->block, sizeof(l.block));
    emu_kernarg_fill(&l, params, packed, packed_size);
    return emu_submit(stream, n);
}

hipError_t emu_hipModuleLaunchKernel(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned lds, hipStream_t stream, void **params, void **extra)
{
    LOCKED;
    return launch(fn, (uint32_t[]){ gx, gy, gz }, (uint32_t[]){ bx, by, bz }, lds, stream, params, extra, false, NULL);
}

hipError_t emu_launch_joint(hipFunction_t fn, const struct rfg_launch *l, hipStream_t stream, void **params,
                            const struct rfg_joint *who)
{
    LOCKED;
    if (who->rank < 0 || who->rank >= who->ranks || who->ranks > EMU_MAX_RANKS)
        return hipErrorInvalidValue;
    return launch(fn, l->grid, l->block, l->lds, stream, params, NULL, false, who);
}

hipError_t emu_launch_cooperative(hipFunction_t fn, dim3 grid, dim3 block, unsigned lds, hipStream_t stream,
                                  void **params)
{
    LOCKED;
    return launch(fn, (uint32_t[]){ grid.x, grid.y, grid.z }, (uint32_t[]){ block.x, block.y, block.z }, lds, stream,
                  params, NULL, true, NULL);
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void unload(struct module *m)
{
    for (struct object *o = emu_objects, *next; o; o = next) {
        next = o->next;
        if (o->kind == FUNCTION && ((struct function *)o)->module == m)
            emu_forget(o);
    }
    for (int i = 0; i < m->n_blocks; i++)
        emu_memory_remove(&m->device->memory, m->block[i]);
    emu_code_free(&m->code);
    emu_forget(m);
}

/* Is the code for any setting of a feature, or for the device's? Two bits of the ELF's flags say for which: 2 off, 3
 * on.
 */
static bool suits(const struct emu_code *code, const char *features, const char *feature, int bit)
{
    unsigned is = ((const Elf64_Ehdr *)(const void *)code->file)->e_flags >> bit & 3;
    const char *at = features ? strstr(features, feature) : NULL;
    return !at || is < 2 || at[strlen(feature)] == (is == 3 ? '+' : '-');
}

hipError_t emu_hipModuleLoadData(hipModule_t *module, const void *image)
{
    char error[512];
    if (!module || !image)
        return hipErrorInvalidValue;
    *module = NULL;
    LOCKED;
    if (!emu_here())
        return hipErrorNoDevice;
    struct module *m = emu_make(MODULE, sizeof(*m));
    if (!m)
        return hipErrorOutOfMemory;
    if (!emu_code_load_image(&m->code, image, emu_here()->arch, error, sizeof(error))) {
        rfg_warn("emu: code object refused: %s", error);
        emu_forget(m);
        return strstr(error, "must be for") || strstr(error, "none of its") ? hipErrorNoBinaryForGpu
                                                                            : hipErrorInvalidImage;
    }
    m->device = emu_here();
    hipError_t e = hipSuccess;
    if (m->code->version > emu_rules.code_object) {
        rfg_warn("emu: code object refused: v%d: this runtime takes up to v%d", m->code->version,
                 emu_rules.code_object);
        e = hipErrorNoBinaryForGpu;
    }
    const char *features = m->device->card.features;
    if (!suits(m->code, features, "xnack", 8) || !suits(m->code, features, "sramecc", 10)) {
        rfg_warn("emu: code object refused: compiled for other settings than the device's %s", features);
        e = hipErrorNoBinaryForGpu;
    }
    for (int i = 0; i < m->code->n_segments && e == hipSuccess; i++) {
        const struct emu_segment *s = &m->code->segment[i];
        struct emu_block *b =
            emu_memory_add(&m->device->memory, EMU_BLOCK_CODE, m->code->image + s->vaddr, s->memsz, s->writable,
                           s->executable ? "code"
                           : s->writable ? "data"
                                         : "constants");
        if (b)
            m->block[m->n_blocks++] = b;
        else
            e = hipErrorOutOfMemory;
    }
    if (e == hipSuccess && !emu_code_decode(m->code, false, error, sizeof(error))) {
        rfg_warn("emu: code object refused: %s", error);
        e = hipErrorNotSupported;
    }
    if (e == hipSuccess)
        *module = (hipModule_t)m;
    else
        unload(m);
    return e;
}

hipError_t emu_hipModuleUnload(hipModule_t module)
{
    LOCKED;
    if (!emu_is(module, MODULE))
        return hipErrorInvalidHandle;
    (void)emu_finish_all();
    emu_order_host_all();
    unload((struct module *)module);
    return hipSuccess;
}

hipError_t emu_hipModuleGetFunction(hipFunction_t *fn, hipModule_t module, const char *name)
{
    LOCKED;
    if (!fn || !name)
        return hipErrorInvalidValue;
    *fn = NULL;
    if (!emu_is(module, MODULE))
        return hipErrorInvalidHandle;
    const struct emu_kernel *k = emu_code_kernel(((struct module *)module)->code, name);
    if (!k)
        return hipErrorNotFound;
    for (struct object *o = emu_objects; o; o = o->next)
        if (o->kind == FUNCTION && ((struct function *)o)->kernel == k) {
            *fn = (hipFunction_t)o;
            return hipSuccess;
        }
    struct function *f = emu_make(FUNCTION, sizeof(*f));
    if (!f)
        return hipErrorOutOfMemory;
    f->module = (struct module *)module;
    f->kernel = k;
    *fn = (hipFunction_t)f;
    return hipSuccess;
}

hipError_t emu_hipFuncSetAttribute(const void *fn, hipFuncAttribute attr, int value)
{
    LOCKED;
    const struct function *f = fn;
    if (!emu_is(fn, FUNCTION))
        return hipErrorInvalidDeviceFunction;
    if (attr != hipFuncAttributeMaxDynamicSharedMemorySize)
        return hipErrorInvalidValue;
    int most = f->module->device->arch->lds_bytes - (int)f->kernel->lds_bytes;
    return value >= 0 && value <= most ? hipSuccess : hipErrorInvalidValue;
}

hipError_t emu_hipFuncGetAttribute(int *value, hipFunction_attribute attr, hipFunction_t fn)
{
    LOCKED;
    const struct function *f = (struct function *)fn;
    if (!value)
        return hipErrorInvalidValue;
    if (!emu_is(fn, FUNCTION))
        return hipErrorInvalidDeviceFunction;
    switch (attr) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = f->kernel->max_threads;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)f->kernel->lds_bytes;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = 0;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)f->kernel->scratch_bytes;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = f->kernel->n_vgprs + f->kernel->n_agprs;
        return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->module->device->arch->lds_bytes - (int)f->kernel->lds_bytes;
        return hipSuccess;
    default:
        return hipErrorInvalidValue;
    }
}
