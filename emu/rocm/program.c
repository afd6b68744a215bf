/* SPDX-License-Identifier: MIT
 *
 * Functions that compiled HIP programs call: registering kernels and variables, launches by the host's functions,
 * modules from files. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "rocm.h"

/* ---- what programs register ------------------------------------------------------------------------------------- */

#define FAT_MAGIC 0x48495046 /* "HIPF" */
struct fat_wrapper {
    unsigned magic, version;
    const void *image;
    void *unused;
};

struct fat_binary {
    const void *image;
    hipModule_t module[EMU_MAX_DEVICES]; /* loaded when first needed */
};

/* A kernel's stub or a variable's shadow on the host, and what it is called in the code object. */
static struct symbol {
    struct symbol *next;
    const void *host;
    const char *name;
    struct fat_binary *binary;
    size_t size; /* of a variable; 0: a kernel */
} * symbols;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void **__hipRegisterFatBinary(const void *data);
void **__hipRegisterFatBinary(const void *data)
{
    const struct fat_wrapper *w = data;
    struct fat_binary *b = w->magic == FAT_MAGIC && w->version == 1 ? calloc(1, sizeof(*b)) : NULL;
    if (b)
        b->image = w->image;
    return (void **)b;
}

void __hipUnregisterFatBinary(void **binary);
void __hipUnregisterFatBinary(void **binary)
{
    struct fat_binary *b = (struct fat_binary *)binary;
    pthread_mutex_lock(&mutex);
    for (struct symbol **at = &symbols, *s; (s = *at);) {
        if (s->binary == b) {
            *at = s->next;
            free(s);
        } else
            at = &s->next;
    }
    for (int i = 0; b && i < emu_n_devices; i++)
        if (b->module[i])
            emu_hipModuleUnload(b->module[i]);
    free(b);
    pthread_mutex_unlock(&mutex);
}

static void add(void **binary, const void *host, const char *name, size_t size)
{
    struct symbol *s = binary ? malloc(sizeof(*s)) : NULL;
    if (!s)
        return;
    pthread_mutex_lock(&mutex);
    *s = (struct symbol){ symbols, host, name, (struct fat_binary *)binary, size };
    symbols = s;
    pthread_mutex_unlock(&mutex);
}

void __hipRegisterFunction(void **binary, const void *host, char *device, const char *name, unsigned threads, void *tid,
                           void *bid, void *block, void *grid, int *wave);
void __hipRegisterFunction(void **binary, const void *host, char *device, const char *name, unsigned threads, void *tid,
                           void *bid, void *block, void *grid, int *wave)
{
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)wave;
    add(binary, host, name, 0);
}

void __hipRegisterVar(void **binary, void *host, char *name, char *device, int external, size_t size, int constant,
                      int global);
void __hipRegisterVar(void **binary, void *host, char *name, char *device, int external, size_t size, int constant,
                      int global)
{
    (void)device, (void)external, (void)constant, (void)global;
    add(binary, host, name, size ? size : 1);
}

/* The symbol, and its module on that device. */
static hipError_t find(const void *host, bool variable, int device, const struct symbol **symbol, hipModule_t *module)
{
    hipError_t e = hipErrorInvalidSymbol;
    int before = -1;
    pthread_mutex_lock(&mutex);
    for (const struct symbol *s = symbols; s && e != hipSuccess; s = s->next) {
        if (s->host != host || (s->size > 0) != variable)
            continue;
        hipModule_t *m = &s->binary->module[device];
        e = hipSuccess;
        if (!*m && (e = emu_hipGetDevice(&before)) == hipSuccess && (e = emu_hipSetDevice(device)) == hipSuccess) {
            e = emu_hipModuleLoadData(m, s->binary->image);
            emu_hipSetDevice(before);
        }
        *symbol = s;
        *module = *m;
        if (e != hipSuccess)
            break;
    }
    pthread_mutex_unlock(&mutex);
    return e;
}

static hipError_t kernel_of(const void *host, int device, hipFunction_t *fn)
{
    const struct symbol *s;
    hipModule_t m;
    hipError_t e = find(host, false, device, &s, &m);
    return e == hipSuccess ? emu_hipModuleGetFunction(fn, m, s->name) : e;
}

static int device_of(hipStream_t stream)
{
    LOCKED;
    const struct device *here = emu_here();
    if (stream && emu_stream_ok(&stream) && stream)
        here = ((struct stream *)stream)->device;
    return here ? (int)(here - emu_devices) : -1;
}

static int this_device(void)
{
    rocm_start();
    return device_of(NULL);
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

static _Thread_local struct call {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
} calls[8];
static _Thread_local int n_calls;

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream)
{
    if (n_calls == 8)
        return rocm_end(hipErrorOutOfMemory);
    calls[n_calls++] = (struct call){ grid, block, lds, stream };
    return rocm_end(hipSuccess);
}

hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *stream);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds, hipStream_t *stream)
{
    if (!n_calls)
        return rocm_end(hipErrorMissingConfiguration);
    const struct call *c = &calls[--n_calls];
    *grid = c->grid;
    *block = c->block;
    *lds = c->lds;
    *stream = c->stream;
    return rocm_end(hipSuccess);
}

hipError_t hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t lds, hipStream_t stream)
{
    hipFunction_t fn;
    rocm_start();
    int device = device_of(stream);
    hipError_t e = device < 0 ? hipErrorNoDevice : kernel_of(host, device, &fn);
    if (e != hipSuccess)
        return rocm_end(e == hipErrorInvalidSymbol ? hipErrorInvalidDeviceFunction : e);
    return hipModuleLaunchKernel(fn, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)lds, stream, args,
                                 NULL);
}

hipError_t hipLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args, unsigned lds,
                                      hipStream_t stream)
{
    hipFunction_t fn;
    rocm_start();
    int device = device_of(stream);
    hipError_t e = device < 0 ? hipErrorNoDevice : kernel_of(host, device, &fn);
    if (e == hipSuccess)
        e = emu_fault != hipSuccess ? emu_fault : emu_launch_cooperative(fn, grid, block, lds, stream, args);
    return rocm_end(e == hipErrorInvalidSymbol ? hipErrorInvalidDeviceFunction : e);
}

hipError_t launch_cooperative(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned lds, hipStream_t stream,
                              void **params) __asm__("hipModuleLaunchCooperativeKernel");
hipError_t launch_cooperative(hipFunction_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned lds, hipStream_t stream, void **params)
{
    rocm_start();
    return rocm_end(emu_fault != hipSuccess
                        ? emu_fault
                        : emu_launch_cooperative(fn, (dim3){ gx, gy, gz }, (dim3){ bx, by, bz }, lds, stream, params));
}

/* Its grid is in work-items. Exported as C and, since it was once C++, by this name too. */
hipError_t launch_ext(hipFunction_t fn, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                      size_t lds, hipStream_t stream, void **params, void **extra, hipEvent_t start, hipEvent_t stop,
                      uint32_t flags) __asm__("hipExtModuleLaunchKernel");
hipError_t launch_ext(hipFunction_t fn, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                      size_t lds, hipStream_t stream, void **params, void **extra, hipEvent_t start, hipEvent_t stop,
                      uint32_t flags)
{
    (void)flags;
    if (!bx || !by || !bz || gx % bx || gy % by || gz % bz)
        return rocm_end(hipErrorInvalidValue);
    hipError_t e = start ? hipEventRecord(start, stream) : hipSuccess;
    if (e == hipSuccess)
        e = hipModuleLaunchKernel(fn, gx / bx, gy / by, gz / bz, bx, by, bz, (unsigned)lds, stream, params, extra);
    return e == hipSuccess && stop ? hipEventRecord(stop, stream) : e;
}

/* ---- functions and variables ------------------------------------------------------------------------------------ */

hipError_t rocm_hipFuncSetAttribute(const void *host, hipFuncAttribute attr, int value)
{
    hipFunction_t fn;
    if (!rocm_version->func_attributes)
        return hipSuccess;
    if (!host)
        return hipErrorInvalidDeviceFunction;
    hipError_t e = kernel_of(host, this_device(), &fn);
    return e == hipSuccess ? emu_hipFuncSetAttribute((const void *)fn, attr, value) : e;
}

hipError_t hipFuncGetAttributes(struct hipFuncAttributes *a, const void *host)
{
    hipFunction_t fn;
    if (!a || this_device() < 0)
        return rocm_end(a ? hipErrorNoDevice : hipErrorInvalidValue);
    hipError_t e = kernel_of(host, this_device(), &fn);
    if (e != hipSuccess)
        return rocm_end(e == hipErrorInvalidSymbol ? hipErrorInvalidDeviceFunction : e);
    LOCKED;
    const struct emu_kernel *k = ((struct function *)fn)->kernel;
    const struct emu_arch *arch = ((struct function *)fn)->module->device->arch;
    *a = (struct hipFuncAttributes){ .localSizeBytes = k->scratch_bytes,
                                     .maxDynamicSharedSizeBytes = arch->lds_bytes - (int)k->lds_bytes,
                                     .maxThreadsPerBlock = k->max_threads,
                                     .numRegs = k->n_vgprs + k->n_agprs,
                                     .sharedSizeBytes = k->lds_bytes };
    return rocm_end(hipSuccess);
}

hipError_t hipFuncSetCacheConfig(const void *host, hipFuncCache_t config)
{
    (void)host, (void)config;
    return rocm_end(hipSuccess);
}

static hipError_t occupancy(int *blocks, hipFunction_t fn, int threads, size_t lds)
{
    LOCKED;
    if (!blocks || threads < 1 || !emu_is(fn, FUNCTION))
        return rocm_end(hipErrorInvalidValue);
    const struct function *f = (struct function *)fn;
    struct emu_residency r = { 0 };
    emu_residency(f->module->device->arch, f->kernel, threads, f->kernel->lds_bytes + (uint32_t)lds, &r);
    *blocks = threads > f->kernel->max_threads ? 0 : r.groups;
    return rocm_end(hipSuccess);
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t fn, int threads, size_t lds)
{
    return occupancy(blocks, fn, threads, lds);
}

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t lds)
{
    hipFunction_t fn;
    if (this_device() < 0)
        return rocm_end(hipErrorNoDevice);
    hipError_t e = kernel_of(host, this_device(), &fn);
    return e == hipSuccess ? occupancy(blocks, fn, threads, lds) : rocm_end(hipErrorInvalidDeviceFunction);
}

hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *threads, const void *host, size_t lds, int most)
{
    hipFunction_t fn;
    int blocks = 0, multiprocessors = 0;
    if (!grid || !threads || this_device() < 0)
        return rocm_end(hipErrorInvalidValue);
    hipError_t e = kernel_of(host, this_device(), &fn);
    if (e != hipSuccess)
        return rocm_end(hipErrorInvalidDeviceFunction);
    e = emu_hipFuncGetAttribute(threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fn);
    if (e == hipSuccess && most > 0 && most < *threads)
        *threads = most;
    if (e == hipSuccess)
        e = occupancy(&blocks, fn, *threads, lds);
    if (e == hipSuccess)
        e = emu_hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount, this_device());
    *grid = blocks * multiprocessors;
    return rocm_end(e);
}

static hipError_t global(hipModule_t module, const char *name, void **p, size_t *size)
{
    LOCKED;
    if (!emu_is(module, MODULE))
        return hipErrorInvalidHandle;
    const struct emu_code *code = ((struct module *)module)->code;
    const struct emu_symbol *s = name ? emu_code_global(code, name) : NULL;
    if (s && p)
        *p = code->image + s->value;
    if (s && size)
        *size = s->size;
    return s ? hipSuccess : hipErrorNotFound;
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t *p, size_t *size, hipModule_t module, const char *name)
{
    return rocm_end(global(module, name, p, size));
}

static hipError_t variable(const void *host, void **p, size_t *size)
{
    const struct symbol *s;
    hipModule_t m;
    if (this_device() < 0)
        return hipErrorNoDevice;
    hipError_t e = find(host, true, this_device(), &s, &m);
    return e == hipSuccess ? global(m, s->name, p, size) : e;
}

hipError_t hipGetSymbolAddress(void **p, const void *symbol)
{
    return rocm_end(p ? variable(symbol, p, NULL) : hipErrorInvalidValue);
}

hipError_t hipGetSymbolSize(size_t *size, const void *symbol)
{
    return rocm_end(size ? variable(symbol, NULL, size) : hipErrorInvalidValue);
}

static hipError_t part(const void *symbol, size_t offset, size_t bytes, void **p)
{
    size_t size;
    hipError_t e = variable(symbol, p, &size);
    if (e == hipSuccess && (offset > size || bytes > size - offset))
        e = hipErrorInvalidValue;
    if (e == hipSuccess)
        *p = (char *)*p + offset;
    return rocm_end(e);
}

hipError_t hipMemcpyToSymbol(const void *symbol, const void *src, size_t size, size_t offset, hipMemcpyKind kind)
{
    void *p;
    hipError_t e = part(symbol, offset, size, &p);
    return e == hipSuccess ? hipMemcpy(p, src, size, kind) : e;
}

hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *src, size_t size, size_t offset, hipMemcpyKind kind,
                                  hipStream_t stream)
{
    void *p;
    hipError_t e = part(symbol, offset, size, &p);
    return e == hipSuccess ? hipMemcpyAsync(p, src, size, kind, stream) : e;
}

hipError_t hipMemcpyFromSymbol(void *dst, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind)
{
    void *p;
    hipError_t e = part(symbol, offset, size, &p);
    return e == hipSuccess ? hipMemcpy(dst, p, size, kind) : e;
}

hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind,
                                    hipStream_t stream)
{
    void *p;
    hipError_t e = part(symbol, offset, size, &p);
    return e == hipSuccess ? hipMemcpyAsync(dst, p, size, kind, stream) : e;
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

hipError_t hipModuleLoad(hipModule_t *module, const char *path)
{
    size_t size = 0;
    char *data = path ? rfg_read_file(path, &size) : NULL;
    if (!data)
        return rocm_end(path ? hipErrorFileNotFound : hipErrorInvalidValue);
    hipError_t e = size < 64 ? rocm_end(hipErrorInvalidImage) : hipModuleLoadData(module, data);
    free(data);
    return e;
}

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned n, hipJitOption *options, void **values)
{
    (void)n, (void)options, (void)values; /* clr ignores them too */
    return hipModuleLoadData(module, image);
}
