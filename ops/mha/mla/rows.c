/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/pool.h"

struct mla_reader mla_reader_of(int format, int dtype, int d, long long row, long long scales_at)
{
    struct mla_reader r = { .format = format, .dtype = dtype, .d = d, .row = row, .scales_at = scales_at };
    for (int i = 0; i < 256 && !rfg_dtype_is_float(dtype); i++) {
        uint8_t code = (uint8_t)i;
        double value;
        rfg_format(dtype)->decode(rfg_format(dtype), &code, &value);
        r.code[i] = (float)value;
    }
    return r;
}

static float scale_of(const struct mla_reader *r, const char *scales, int g)
{
    float scale;
    if (r->format == MLA_V4) {
        int e = (uint8_t)scales[g];
        return e == 255 ? NAN : ldexpf(1, e - 127);
    }
    memcpy(&scale, scales + 4 * g, sizeof(scale));
    return scale;
}

void mla_read_row(const struct mla_reader *r, const char *block, int64_t t, float *x)
{
    if (r->format == MLA_PLAIN) {
        const char *row = block + t * r->row * rfg_format_bytes(r->dtype, 1);
        for (int d = 0; d < r->d; d++)
            x[d] = rfg_dtype_is_float(r->dtype) ? rfg_float_get(row, r->dtype, d) : r->code[((const uint8_t *)row)[d]];
        return;
    }
    const char *row = block + t * r->row;
    const char *scales = r->format == MLA_V4 ? block + r->scales_at + t * MLA_V4_SCALE_BYTES : row + MLA_V32_SCALES_AT;
    int codes = MLA_CODES(r->format), group = MLA_GROUP(r->format);
    for (int g = 0; g < MLA_SCALES(r->format); g++) {
        float scale = scale_of(r, scales, g);
        for (int d = g * group; d < (g + 1) * group; d++) {
            uint16_t rounded;
            rfg_float_put(&rounded, RFG_BF16, 0, r->code[((const uint8_t *)row)[d]] * scale);
            x[d] = rfg_float_get(&rounded, RFG_BF16, 0);
        }
    }
    for (int d = 0; d < MLA_ROTATED; d++)
        x[codes + d] = rfg_float_get(row + MLA_ROTATED_AT(r->format), RFG_BF16, d);
}
