/* SPDX-License-Identifier: MIT
 *
 * Header-only bridge: PyTorch, JAX and CuPy tensors (DLPack) to rfg_tensor views, without copies. */
#ifndef RFG_DLPACK_H
#define RFG_DLPACK_H

#include <dlpack/dlpack.h>

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *out from a DLTensor. Returns 0, or -1 where rfg cannot describe it: more than RFG_MAX_DIMS dimensions,
 * vector lanes, or a dtype rfg has no name for. The memory stays the DLTensor's. NULL strides mean packed row-major. */
static inline int rfg_tensor_from_dlpack(rfg_tensor *out, const DLTensor *dl)
{
    rfg_tensor t = { 0, RFG_DTYPE_NONE, 0, { 0 }, { 0 } };
    if (dl->ndim < 0 || dl->ndim > RFG_MAX_DIMS || dl->dtype.lanes != 1)
        return -1;
    if (dl->dtype.code == kDLFloat && dl->dtype.bits == 32)
        t.dtype = RFG_F32;
    else if (dl->dtype.code == kDLFloat && dl->dtype.bits == 16)
        t.dtype = RFG_F16;
    else if (dl->dtype.code == kDLBfloat && dl->dtype.bits == 16)
        t.dtype = RFG_BF16;
    else if (dl->dtype.code == kDLInt && dl->dtype.bits == 8)
        t.dtype = RFG_I8;
    else if (dl->dtype.code == kDLInt && dl->dtype.bits == 32)
        t.dtype = RFG_I32;
#if defined(DLPACK_MAJOR_VERSION) &&                                                                                   \
    (DLPACK_MAJOR_VERSION > 1 || (DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION > 0))
    else if (dl->dtype.code == kDLFloat8_e4m3fn)
        t.dtype = RFG_E4M3;
    else if (dl->dtype.code == kDLFloat8_e4m3fnuz)
        t.dtype = RFG_E4M3FNUZ;
    else if (dl->dtype.code == kDLFloat8_e5m2)
        t.dtype = RFG_E5M2;
#endif
    else
        return -1;
    t.data = (char *)dl->data + dl->byte_offset;
    t.ndim = dl->ndim;
    int64_t packed = 1;
    for (int i = dl->ndim - 1; i >= 0; i--) {
        t.shape[i] = dl->shape[i];
        t.strides[i] = dl->strides ? dl->strides[i] : packed;
        packed *= dl->shape[i];
    }
    *out = t;
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
