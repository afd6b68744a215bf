/* SPDX-License-Identifier: MIT
 *
 * hipGetDeviceProperties(), with the struct of either time: layouts as numbers, as one build of HIP's headers has only
 * one of them. */
#include <stdio.h>
#include <string.h>

#include "rocm.h"

enum { HIP5, HIP6 };
static const size_t sizes[] = { [HIP5] = 792, [HIP6] = 1472 };
static const int arch_name[] = { [HIP5] = 396, [HIP6] = 1160 };
#define NAME_BYTES 256

static void put(uint8_t *props, int at, const void *value, size_t size)
{
    if (at >= 0)
        memcpy(props + at, value, size);
}

static hipError_t fill(uint8_t *props, int device, int layout)
{
    rocm_start();
    LOCKED;
    if (!props)
        return rocm_end(hipErrorInvalidValue);
    if (device < 0 || device >= emu_n_devices)
        return rocm_end(hipErrorInvalidDevice);
    const struct device *d = &emu_devices[device];
    const struct emu_arch *a = d->arch;
    memset(props, 0, sizes[layout]);
    snprintf((char *)props, NAME_BYTES, "%s", d->card.name);
    snprintf((char *)props + arch_name[layout], NAME_BYTES, "%s", rocm_arch_string(device));
#define FIELD(name, type, in5, in6, value)                                                                             \
    {                                                                                                                  \
        type name = (type)(value);                                                                                     \
        put(props, layout == HIP5 ? (in5) : (in6), &name, sizeof(name));                                               \
    }
#include "properties.def"
#undef FIELD
    return rocm_end(hipSuccess);
}

/* By their linkers' names: headers make one a macro of the other. */
hipError_t of_hip5(void *props, int device) __asm__("hipGetDeviceProperties");
hipError_t of_hip5(void *props, int device)
{
    return fill(props, device, HIP5);
}

hipError_t of_hip6(void *props, int device) __asm__("hipGetDevicePropertiesR0600");
hipError_t of_hip6(void *props, int device)
{
    return fill(props, device, HIP6);
}
