/* SPDX-License-Identifier: MIT
 *
 * Makes rfg_tensor views of DLPack tensors (PyTorch, JAX, CuPy) without copying. Header only. */
#ifndef RFG_DLPACK_H
#define RFG_DLPACK_H

#include <dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rfg_dtype of a DLPack dtype; RFG_DTYPE_NONE if rfg has none.
 *
 * 4-bit elements must be packed, two in a byte. That is DLPack's default. A DLManagedTensorVersioned whose flags say
 * that its elements are padded must not be passed. */
static inline rfg_dtype rfg_dtype_from_dlpack(DLDataType t)
{
    if (t.lanes != 1)
        return RFG_DTYPE_NONE;
    if (t.code == kDLFloat && t.bits == 32)
        return RFG_F32;
    if (t.code == kDLFloat && t.bits == 16)
        return RFG_F16;
    if (t.code == kDLBfloat && t.bits == 16)
        return RFG_BF16;
    if (t.code == kDLInt && t.bits == 8)
        return RFG_I8;
    if (t.code == kDLInt && t.bits == 32)
        return RFG_I32;
    if (t.code == kDLInt && t.bits == 64)
        return RFG_I64;
    if (t.code == kDLInt && t.bits == 4)
        return RFG_I4;
#if defined(DLPACK_MAJOR_VERSION) &&                                                                                   \
    (DLPACK_MAJOR_VERSION > 1 || (DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION > 0))
    if (t.code == kDLFloat8_e4m3fn && t.bits == 8)
        return RFG_E4M3;
    if (t.code == kDLFloat8_e4m3fnuz && t.bits == 8)
        return RFG_E4M3FNUZ;
    if (t.code == kDLFloat8_e5m2 && t.bits == 8)
        return RFG_E5M2;
    if (t.code == kDLFloat8_e8m0fnu && t.bits == 8)
        return RFG_E8M0;
    if (t.code == kDLFloat4_e2m1fn && t.bits == 4)
        return RFG_E2M1;
#endif
    return RFG_DTYPE_NONE;
}

/* Fills *out from a DLTensor. The DLTensor keeps its memory. NULL strides mean packed row-major.
 *
 * Returns 0. Returns -1 and leaves *out as it was if
 *   - out or dl is NULL, or shape is NULL and ndim isn't 0
 *   - ndim is above RFG_MAX_DIMS, the dtype has several lanes, or rfg has no such dtype
 *   - a size is negative, or packed strides overflow
 *   - data is NULL and byte_offset isn't 0; byte_offset is above PTRDIFF_MAX or wraps around the address space
 *   - the device type is not CPU, CUDA, CUDAHost, CUDAManaged, ROCM or ROCMHost
 * It does not check the device number; rfg_tensor_from_dlpack_for() does. */
static inline int rfg_tensor_from_dlpack(rfg_tensor *out, const DLTensor *dl)
{
    rfg_tensor t = { 0, RFG_DTYPE_NONE, 0, { 0 }, { 0 } };
    if (!out || !dl || dl->ndim < 0 || dl->ndim > RFG_MAX_DIMS || (dl->ndim && !dl->shape))
        return -1;
    switch ((int)dl->device.device_type) {
    case kDLCPU:
    case kDLCUDA:
    case kDLCUDAHost:
    case kDLCUDAManaged:
    case kDLROCM:
    case kDLROCMHost:
        break;
    default:
        return -1;
    }
    t.dtype = rfg_dtype_from_dlpack(dl->dtype);
    if (t.dtype == RFG_DTYPE_NONE)
        return -1;
    if (dl->byte_offset &&
        (!dl->data || dl->byte_offset > PTRDIFF_MAX || dl->byte_offset > UINTPTR_MAX - (uintptr_t)dl->data))
        return -1;
    t.data = dl->byte_offset ? (char *)dl->data + dl->byte_offset : dl->data;
    t.ndim = dl->ndim;
    int64_t packed = 1;
    for (int i = dl->ndim - 1; i >= 0; i--) {
        int64_t n = dl->shape[i];
        if (n < 0 || (!dl->strides && n > 1 && packed > INT64_MAX / n))
            return -1;
        t.shape[i] = n;
        t.strides[i] = dl->strides ? dl->strides[i] : packed;
        packed *= dl->strides || n == 0 ? 1 : n;
    }
    *out = t;
    return 0;
}

/* The same, and also -1 if ctx is NULL or its operators can't use the tensor's memory. They can use
 *   - on "cpu" host memory, pinned memory included
 *   - on "nvidia:N" memory of GPU N, and managed memory
 *   - on "amd:N" memory of GPU N
 *   - on "emu:*" ROCM memory of any number: DLPack has no name for the emulator's memory. */
static inline int rfg_tensor_from_dlpack_for(const rfg_context *ctx, rfg_tensor *out, const DLTensor *dl)
{
    const char *device = ctx ? rfg_context_device(ctx) : "", *colon = strchr(device, ':');
    int kind = dl ? (int)dl->device.device_type : 0, here;
    if (!strcmp(device, "cpu"))
        here = kind == kDLCPU || kind == kDLCUDAHost || kind == kDLROCMHost;
    else if (!strncmp(device, "nvidia:", 7))
        here = kind == kDLCUDAManaged || (kind == kDLCUDA && dl->device.device_id == atoi(colon + 1));
    else if (!strncmp(device, "amd:", 4))
        here = kind == kDLROCM && dl->device.device_id == atoi(colon + 1);
    else
        here = kind == kDLROCM && !strncmp(device, "emu:", 4);
    return here ? rfg_tensor_from_dlpack(out, dl) : -1;
}

#ifdef __cplusplus
}
#endif
#endif
