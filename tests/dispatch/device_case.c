/* SPDX-License-Identifier: MIT */
#include "device_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/context.h"
#include "fakehip.h"
#include "tests/program.h"

#define VARIANTS "gemm_splitk_mma"

const char *devices[8] = { "cpu", "emu:gfx942:304", FAKE };
int n_devices = 3;

rfg_context *ctx;
rfg_stream stream;
char *x, *w, *y;

void refused(rfg_status st, const char *call, const char *of)
{
    ck_assert_msg(st == RFG_ERROR_INVALID_ARGUMENT, "%s: %s: %s", rfg_context_device(ctx), call, rfg_status_name(st));
    char fn[60];
    snprintf(fn, sizeof(fn), "%.*s", (int)strcspn(call, "("), call);
    PRINTS(rfg_last_error(), fn);
    PRINTS(rfg_last_error(), of);
}

bool on_cpu(void)
{
    return !rfg_context_hip(ctx);
}

static bool fake;

bool on_fake(void)
{
    return fake;
}

void open_device(const char *device)
{
    fake = !strcmp(device, FAKE);
    rfg_context_params p = { .size = sizeof(p),
                             .device = fake ? "amd:0" : device,
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = "cache",
                             .threads = 2 };
    if (strcmp(device, "cpu") != 0)
        p.variants = VARIANTS;
    rfg_hip_override(RFG_PLATFORM_AMD, fake ? fakehip() : NULL);
    if (fake)
        fakehip_gemm_dtypes(RFG_BF16, RFG_F32);
    ck_assert_msg(rfg_context_create(&ctx, &p) == RFG_OK, "%s: %s", device, rfg_last_error());
    OK(rfg_stream_create(ctx, &stream));
    OK(rfg_device_alloc(ctx, (void **)&x, M * K * 2));
    OK(rfg_device_alloc(ctx, (void **)&w, N * K * 2));
    OK(rfg_device_alloc(ctx, (void **)&y, M * N * 4));
}

void close_device(void)
{
    char live[200];
    OK(rfg_device_free(ctx, x));
    OK(rfg_device_free(ctx, w));
    OK(rfg_device_free(ctx, y));
    if (stream)
        OK(rfg_stream_destroy(ctx, &stream));
    ck_assert_ptr_null(stream);
    rfg_context_destroy(&ctx);
    if (!fake)
        return;
    ck_assert_msg(!fakehip_misuse(), "%s", fakehip_misuse());
    ck_assert_str_eq(fakehip_live(live, sizeof(live)), "");
}

void set_x(int byte)
{
    OK(rfg_device_memset(ctx, x, byte, M * K * 2, stream));
}

void set_w(void)
{
    uint16_t *ones = malloc(N * K * 2);
    for (int i = 0; ones && i < N * K; i++)
        ones[i] = 0x3f80;
    OK(rfg_device_copy(ctx, w, ones, N * K * 2, RFG_HOST_TO_DEVICE, stream));
    OK(rfg_stream_sync(ctx, stream));
    free(ones);
}

rfg_status gemm(rfg_stream in)
{
    rfg_tensor tx = rfg_tensor_2d(x, RFG_BF16, M, K, K), tw = rfg_tensor_2d(w, RFG_BF16, N, K, K),
               ty = rfg_tensor_2d(y, RFG_F32, M, N, N);
    return rfg_op_gemm(ctx, &ty, &tx, &tw, NULL, in);
}

void expect(const void *memory, float value)
{
    float got[M * N] = { -1 };
    OK(rfg_device_copy(ctx, got, memory, sizeof(got), RFG_DEVICE_TO_HOST, stream));
    OK(rfg_stream_sync(ctx, stream));
    for (int i = 0; i < M * N; i++)
        ck_assert_msg(got[i] == value, "%s: [%d] is %g, not %g", rfg_context_device(ctx), i, got[i], value);
}

void more_devices(void)
{
    char *more = getenv("RFG_TEST_DEVICES") ? strdup(getenv("RFG_TEST_DEVICES")) : NULL;
    for (char *d = more ? strtok(more, ",") : NULL; d && n_devices < 8; d = strtok(NULL, ","))
        if (!strncmp(d, "nvidia:", 7) || !strncmp(d, "emu:", 4))
            devices[n_devices++] = d;
}
