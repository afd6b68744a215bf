/* SPDX-License-Identifier: MIT
 *
 * DLPack tensors, and the operators' checks of the views: the bytes that they count as touched. */
#include "rfg/dlpack.h"

#include "ops/operand.h"
#include "fuzz.h"

const char fuzz_name[] = "dlpack";
const int fuzz_is_text = 0;
const size_t fuzz_max_size = 160;

struct input {
    uint64_t data, byte_offset;
    int64_t shape[6], strides[6];
    int32_t device_type, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    uint8_t has_shape, has_strides, pad[2];
};

static void seeds(void (*add)(const void *data, size_t size))
{
    static const struct input in[] = {
        { 4096, 0, { 7 }, { 1 }, kDLCPU, 1, kDLFloat, 32, 1, 1, 0, { 0 } },
        { 4096, 64, { 3, 8 }, { 16, 1 }, kDLCUDA, 2, kDLBfloat, 16, 1, 1, 1, { 0 } },
        { 1 << 20, 0, { 2, 3, 8 }, { 48, 16, 1 }, kDLROCM, 3, kDLFloat, 16, 1, 1, 1, { 0 } },
        { 4096, 0, { 2, 3, 8 }, { 0 }, kDLCPU, 3, kDLInt, 8, 1, 1, 0, { 0 } },
        { 0, 0, { 0, 3, 8, 4 }, { 0 }, kDLCPU, 4, kDLInt, 32, 1, 1, 0, { 0 } },
        { 4096, 0, { 2, 3, 4, 16, 8 }, { 0 }, kDLCPU, 5, kDLFloat, 16, 1, 1, 0, { 0 } },
    };
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
        add(&in[i], sizeof(in[i]));
}
void (*const fuzz_more_seeds)(void (*add)(const void *data, size_t size)) = seeds;

/* The last element's end, in bytes from the first, without overflow. */
static __int128 extent(const rfg_tensor *t)
{
    __int128 last = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0)
            return 0;
        last += t->shape[i] > 1 ? (__int128)(t->shape[i] - 1) * t->strides[i] : 0;
    }
    return t->dtype == RFG_I4 || t->dtype == RFG_E2M1 ? last / 2 + 1 : (last + 1) * rfg_format_bytes((int)t->dtype, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { 0 };
    rfg_tensor t, was;
    struct rfg_operand o;
    memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
    DLTensor dl = { .data = (void *)(uintptr_t)in.data,
                    .device = { (DLDeviceType)in.device_type, 0 },
                    .ndim = in.ndim,
                    .dtype = { in.code, in.bits, in.lanes },
                    .shape = in.has_shape ? in.shape : NULL,
                    .strides = in.has_strides ? in.strides : NULL,
                    .byte_offset = in.byte_offset };
    memset(&was, 0xee, sizeof(was));
    t = was;
    if (rfg_tensor_from_dlpack(&t, &dl)) {
        FUZZ_CHECK(!memcmp(&t, &was, sizeof(t)));
        return 0;
    }
    FUZZ_CHECK(t.ndim >= 0 && t.ndim <= RFG_MAX_DIMS && rfg_dtype_bytes(t.dtype, 2));
    FUZZ_CHECK((uintptr_t)t.data - in.data == in.byte_offset && (uintptr_t)t.data >= in.data);
    if (rfg_check_operand(&o, "fuzz", "t", &t, 1, 3) != RFG_OK) {
        FUZZ_CHECK(!strncmp(rfg_last_error(), "fuzz: t", 7));
        return 0;
    }
    FUZZ_CHECK(o.end - o.begin == (uintptr_t)extent(&t) && o.begin + (o.end - o.begin) >= o.begin);
    FUZZ_CHECK(extent(&t) == 0 || (o.begin && extent(&t) <= (__int128)UINTPTR_MAX - o.begin));
    int64_t align = rfg_alignment(o.bits);
    for (int64_t r = 0; r < o.rows && r < 20 && extent(&t); r++) {
        int64_t at = r / o.inner * o.ld + r % o.inner * o.ld_inner;
        uintptr_t row = o.begin + (uintptr_t)rfg_format_bytes((int)t.dtype, at);
        FUZZ_CHECK(row % (uintptr_t)align == 0 && row >= o.begin && row < o.end);
    }
    return 0;
}
