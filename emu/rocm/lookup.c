/* SPDX-License-Identifier: MIT
 *
 * HIP's functions by name, and those that return no error. */
#include <dlfcn.h>
#include <string.h>

#include "rocm.h"

enum { FOUND = 0, NOT_FOUND = 1 }; /* hipDriverProcAddressQueryResult */

/* Since 6.2. */
hipError_t proc_address(const char *name, void **fn, int version, uint64_t flags,
                        int *status) __asm__("hipGetProcAddress");
hipError_t proc_address(const char *name, void **fn, int version, uint64_t flags, int *status)
{
    Dl_info info;
    (void)flags;
    if (!name || !*name || !fn)
        return rocm_end(hipErrorInvalidValue);
    if (version >= 600 && !strcmp(name, "hipGetDeviceProperties"))
        name = "hipGetDevicePropertiesR0600";
    void *self = dladdr((const void *)&rocm_version, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    *fn = self ? dlsym(self, name) : NULL;
    if (self)
        dlclose(self); /* one count less: the library stays */
    if (status)
        *status = *fn ? FOUND : NOT_FOUND;
    return rocm_end(*fn ? hipSuccess : hipErrorInvalidValue);
}

/* As functions that are refused, but of other types. */
#define REFUSED(type, name, value)                                                                                     \
    type refused_##name(void) __asm__(#name);                                                                          \
    type refused_##name(void)                                                                                          \
    {                                                                                                                  \
        rocm_refuse(#name);                                                                                            \
        return value;                                                                                                  \
    }
REFUSED(const char *, hipApiName, "unknown")
REFUSED(const char *, hipKernelNameRef, "unknown")
REFUSED(const char *, hipKernelNameRefByPtr, "unknown")
REFUSED(int, hipGetStreamDeviceId, -1)
REFUSED(void, __hipGetPCH, )
REFUSED(void, __hipRegisterManagedVar, )
REFUSED(void, __hipRegisterSurface, )
REFUSED(void, __hipRegisterTexture, )
