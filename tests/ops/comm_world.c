/* SPDX-License-Identifier: MIT */
#include "comm_world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/jit/jit.h"
#include "tests/op_cases.h"

char world_device[8][40];
int world_devices;

void world_read_devices(void)
{
    const char *env = getenv("RFG_TEST_DEVICES");
    char text[200];
    snprintf(text, sizeof(text), "%s", env && *env ? env : "cpu");
    for (char *s = strtok(text, ","); s && world_devices < 8; s = strtok(NULL, ","))
        snprintf(world_device[world_devices++], sizeof(world_device[0]), "%s", s);
}

bool world_is_emulated(const char *device)
{
    return !strncmp(device, "emu:", 4);
}

static bool gpu_is_there(const char *name)
{
    rfg_context *ctx;
    rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "" };
    bool is = rfg_context_create(&ctx, &p) == RFG_OK;
    rfg_context_destroy(&ctx);
    return is;
}

void world_device_of_rank(const char *device, int rank, char name[60])
{
    char base[40];
    int n;
    snprintf(base, sizeof(base), "%s", device);
    char *colon = strrchr(base, ':');
    snprintf(name, 60, "%s", device);
    if (!colon || world_is_emulated(device)) /* whose last number is that of CUs */
        return;
    n = atoi(colon + 1) + rank;
    *colon = 0;
    snprintf(name, 60, "%s:%d", base, n);
    if (rank && !gpu_is_there(name))
        snprintf(name, 60, "%s", device);
}

void world_open(struct world *w, const char *device, int ranks, int timeout_ms)
{
    rfg_comm_handle handles[WORLD_MOST];
    rfg_comm_params cp = { .size = sizeof(cp), .timeout_ms = timeout_ms };
    memset(w, 0, sizeof(*w));
    w->ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        char name[60];
        world_device_of_rank(device, r, name);
        rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .threads = 1 };
        ck_assert_msg(rfg_context_create(&w->ctx[r], &p) == RFG_OK, "%s", rfg_last_error());
        ck_assert_msg(rfg_comm_create(&w->comm[r], w->ctx[r], r, ranks, &cp) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_comm_get_handle(w->comm[r], &handles[r]), RFG_OK);
        ck_assert_int_eq(rfg_stream_create(w->ctx[r], &w->stream[r]), RFG_OK);
    }
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(rfg_comm_connect(w->comm[r], handles) == RFG_OK, "%s", rfg_last_error());
}

void world_close(struct world *w)
{
    for (int r = 0; r < w->ranks; r++)
        ck_assert_msg(rfg_stream_sync(w->ctx[r], w->stream[r]) == RFG_OK, "%s", rfg_last_error());
    for (int r = 0; r < w->ranks; r++) {
        rfg_comm_destroy(&w->comm[r]);
        ck_assert_ptr_null(w->comm[r]);
        rfg_stream_destroy(w->ctx[r], &w->stream[r]);
        rfg_context_destroy(&w->ctx[r]);
    }
}

void world_compile(const struct rfg_device *dev, const struct rfg_jit_provider *prov, const struct rfg_problem *prob,
                   const struct rfg_variant *var, const int *p)
{
    struct rfg_jit_request req;
    struct rfg_kernel kernel;
    struct rfg_blob code = { 0 };
    char *log = NULL, name[RFG_CONFIG_STRLEN];
    ck_assert_int_eq(rfg_variant_request(dev, prob, var, p, &req, name, &kernel), RFG_OK);
    rfg_status st = rfg_jit_compile(prov, &req, NULL, NULL, &code, &log);
    ck_assert_msg(st == RFG_OK, "%s: %s", name, rfg_last_error());
    if (log && strstr(log, "spill") && !strstr(log, " 0 bytes spill stores"))
        ck_abort_msg("%s: %s", name, log);
    free(log);
    free(code.data);
    free((char *)req.source);
}
