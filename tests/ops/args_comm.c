/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments of communicators and of their operators. Two ranks, in two contexts of the cpu. */
#include <check.h>
#include <limits.h>
#include <string.h>

#include "args.h"

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static rfg_context *ctx[2];
static rfg_comm *comm[2];
static rfg_comm_handle handle[2];

/* The last call was refused, by name. */
static void refused(rfg_status st, rfg_status want, const char *fn, const char *named)
{
    const char *error = rfg_last_error();
    ck_assert_msg(st == want, "%s: %s: %s, '%s'", fn, named, rfg_status_name(st), error);
    ck_assert_msg(strstr(error, fn) && strstr(error, named), "'%s' lacks '%s' or '%s'", error, fn, named);
}
#define INVALID(call, fn, named) refused(call, RFG_ERROR_INVALID_ARGUMENT, fn, named)

static void open_both(void)
{
    for (int r = 0; r < 2; r++) {
        ctx[r] = open_cpu();
        ck_assert_msg(rfg_comm_create(&comm[r], ctx[r], r, 2, NULL) == RFG_OK, "%s", rfg_last_error());
        ck_assert_int_eq(rfg_comm_get_handle(comm[r], &handle[r]), RFG_OK);
    }
}

static void close_both(void)
{
    for (int r = 0; r < 2; r++) {
        rfg_comm_destroy(&comm[r]);
        rfg_context_destroy(&ctx[r]);
    }
}

void comm_create(void)
{
    static const char *const fn = "rfg_comm_create";
    rfg_context *c = open_cpu();
    rfg_comm *m = (rfg_comm *)8;
    const rfg_comm_params late = { .size = sizeof(late), .timeout_ms = 3600001 },
                          never = { .size = sizeof(never), .timeout_ms = -1 },
                          less = { .size = sizeof(less), .vendor_from = -1 },
                          vendors = { .size = sizeof(vendors), .vendor_from = 1 }, unsized = { .size = 0 };
    INVALID(rfg_comm_create(NULL, c, 0, 1, NULL), fn, "comm is NULL");
    INVALID(rfg_comm_create(&m, NULL, 0, 1, NULL), fn, "ctx is NULL");
    ck_assert_ptr_null(m);
    INVALID(rfg_comm_create(&m, c, 0, 0, NULL), fn, "ranks is 0: must be from 1 to 8");
    INVALID(rfg_comm_create(&m, c, 0, 9, NULL), fn, "ranks is 9: must be from 1 to 8");
    INVALID(rfg_comm_create(&m, c, 0, INT_MIN, NULL), fn, "ranks is -2147483648");
    INVALID(rfg_comm_create(&m, c, 2, 2, NULL), fn, "rank is 2: must be from 0 to 1");
    INVALID(rfg_comm_create(&m, c, -1, 2, NULL), fn, "rank is -1");
    INVALID(rfg_comm_create(&m, c, 0, 1, &late), fn, "timeout_ms is 3600001");
    INVALID(rfg_comm_create(&m, c, 0, 1, &never), fn, "timeout_ms is -1");
    INVALID(rfg_comm_create(&m, c, 0, 1, &less), fn, "vendor_from is -1: must be 0 or more");
    refused(rfg_comm_create(&m, c, 0, 1, &vendors), RFG_ERROR_UNSUPPORTED, fn, "cpu has neither NCCL nor RCCL");
    INVALID(rfg_comm_create(&m, c, 0, 1, &unsized), fn, "size 0");
    rfg_comm_destroy(&m);
    rfg_comm_destroy(NULL);
    INVALID(rfg_comm_check(NULL), "rfg_comm_check", "comm is NULL");
    rfg_context_destroy(&c);
}

/* Each spoils rank 1's handle, as rank 0 gets it, at a byte of struct handle (dispatch/comm.c). */
static const struct {
    int at;
    unsigned char by;
    rfg_status status;
    const char *named;
    int also; /* a second byte, if not 0 */
} spoiled[] = {
    { 0, 1, RFG_ERROR_INVALID_ARGUMENT, "handles[1] is no handle" },
    { 8, 1, RFG_ERROR_INVALID_ARGUMENT, "rank 1 has rfg 1.2.0: must be 0.2.0" },
    { 56, 3, RFG_ERROR_INVALID_ARGUMENT, "handles[1] is rank 2's: must be rank 1's" },
    { 60, 1, RFG_ERROR_INVALID_ARGUMENT, "rank 1 is of 3 ranks: must be 2" },
    { 68, 1, RFG_ERROR_UNSUPPORTED, "rank 1 is cpu (cpu), this rank cpu (cpu): must be of one kind" },
    { 72, 1, RFG_ERROR_UNSUPPORTED, "rank 1 is cpu (bpu), this rank" },
    { 32, 1, RFG_ERROR_UNSUPPORTED, "rank 1 is on another host" },
    /* Another process: the window's number, the process that has it, its file. */
    { 24, 1, RFG_ERROR_UNSUPPORTED, "rank 1 is in another process, whose memory can't be opened", 144 },
    { 24, 0x40, RFG_ERROR_UNSUPPORTED, "rank 1 is in another process, whose memory can't be opened", 154 },
    { 24, 0x40, RFG_ERROR_UNSUPPORTED, "rank 1 is in another process, whose memory can't be opened", 157 },
};

void comm_connect(void)
{
    static const char *const fn = "rfg_comm_connect";
    open_both();
    INVALID(rfg_comm_get_handle(NULL, handle), "rfg_comm_get_handle", "comm is NULL");
    INVALID(rfg_comm_get_handle(comm[0], NULL), "rfg_comm_get_handle", "handle is NULL");
    INVALID(rfg_comm_connect(NULL, handle), fn, "comm is NULL");
    INVALID(rfg_comm_connect(comm[0], NULL), fn, "handles is NULL");
    for (int i = 0; i < COUNT(spoiled); i++) {
        rfg_comm_handle all[2] = { handle[0], handle[1] };
        all[1].bytes[spoiled[i].at] ^= spoiled[i].by;
        if (spoiled[i].also)
            all[1].bytes[spoiled[i].also] ^= spoiled[i].by;
        refused(rfg_comm_connect(comm[0], all), spoiled[i].status, fn, spoiled[i].named);
    }
    const rfg_comm_handle turned[] = { handle[1], handle[0] };
    INVALID(rfg_comm_connect(comm[0], turned), fn, "handles[0] is rank 1's");
    rfg_comm *other;
    ck_assert_int_eq(rfg_comm_create(&other, ctx[0], 1, 2, NULL), RFG_OK);
    rfg_comm_handle same[2] = { handle[0] };
    ck_assert_int_eq(rfg_comm_get_handle(other, &same[1]), RFG_OK);
    INVALID(rfg_comm_connect(comm[0], same), fn, "rank 1 has the context of rank 0");
    rfg_comm_handle not_own[2] = { handle[0], handle[1] };
    not_own[1].bytes[48] ^= 1; /* its window */
    INVALID(rfg_comm_connect(comm[1], not_own), fn, "handles[1] is not this rank's own");
    rfg_comm_destroy(&other);
    ck_assert_int_eq(rfg_comm_connect(comm[0], handle), RFG_OK);
    INVALID(rfg_comm_connect(comm[0], handle), fn, "comm is connected");
    close_both();
}

void comm_prepare(void)
{
    static const rfg_dtype wrong[] = { RFG_DTYPE_NONE, RFG_E4M3, RFG_I8, RFG_DTYPE_COUNT, (rfg_dtype)-1 };
    open_both();
    INVALID(rfg_comm_prepare(NULL, RFG_BF16), "rfg_comm_prepare", "comm is NULL");
    for (int i = 0; i < COUNT(wrong); i++)
        INVALID(rfg_comm_prepare(comm[0], wrong[i]), "rfg_comm_prepare", "dtype is ");
    ck_assert_int_eq(rfg_comm_prepare(comm[0], RFG_BF16), RFG_OK);
    close_both();
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

typedef rfg_status (*operator)(rfg_comm *, const rfg_tensor *, const rfg_tensor *, rfg_stream);
static const struct {
    operator run;
    const char *name;
    int64_t x, y; /* elements of rank 0's */
} operators[] = { { rfg_op_all_reduce, "rfg_op_all_reduce", 12, 12 },
                  { rfg_op_reduce_scatter, "rfg_op_reduce_scatter", 24, 12 },
                  { rfg_op_all_gather, "rfg_op_all_gather", 12, 24 } };

/* Tensor i (y, x) of operator o. Nothing may be written, so no peer is needed. */
static void wrong_tensor(int o, int i)
{
    static const char *const names[] = { "y", "x" };
    static const int dims[] = { INT_MIN, -1, 0, 6, INT_MAX };
    float memory[2][30];
    rfg_tensor t[2] = { rfg_tensor_2d(memory[0], RFG_F32, 2, operators[o].y / 2, operators[o].y / 2),
                        rfg_tensor_2d(memory[1], RFG_F32, 2, operators[o].x / 2, operators[o].x / 2) };
    const rfg_tensor right = t[i];
    const char *fn = operators[o].name, *name = names[i];
    const rfg_tensor *const without[] = { i == 0 ? NULL : &t[0], i == 1 ? NULL : &t[1] };
    memset(memory, 0x5a, sizeof(memory));
    INVALID(operators[o].run(comm[0], without[0], without[1], NULL), fn, name);
#define WRONG(change)                                                                                                  \
    do {                                                                                                               \
        change;                                                                                                        \
        INVALID(operators[o].run(comm[0], &t[0], &t[1], NULL), fn, name);                                              \
        t[i] = right;                                                                                                  \
    } while (0)
    for (int d = 0; d <= RFG_DTYPE_COUNT; d++)
        if (d != RFG_F32)
            WRONG(t[i].dtype = (rfg_dtype)d);
    for (int d = 0; d < COUNT(dims); d++)
        WRONG(t[i].ndim = dims[d]);
    WRONG(t[i].shape[0] = -1);
    WRONG(t[i].shape[1] = INT64_MIN);
    WRONG(t[i].shape[0] = INT64_MAX);
    WRONG(t[i].shape[0] = 3);
    WRONG(t[i].strides[0]++);
    WRONG(t[i].strides[1] = 2);
    WRONG(t[i].strides[1] = 0);
    WRONG(t[i].data = NULL);
    WRONG(t[i].data = (char *)right.data + 1);
    WRONG(t[i].data = (char *)right.data + 2);
    WRONG(t[i].data = (char *)t[!i].data + 4); /* over each other, but not in place */
    for (int k = 0; k < 30; k++)
        ck_assert(!memcmp(&memory[0][k], &(uint32_t){ 0x5a5a5a5a }, 4) && !memcmp(&memory[1][k], &memory[0][k], 4));
}

/* What it adds to rfg_op_add_rmsnorm()'s rules, and one of those by its name. */
void comm_norm_calls(void)
{
    static const char *const fn = "rfg_op_all_reduce_add_rmsnorm";
    float memory[4][40] = { { 0 } };
    rfg_tensor y = rfg_tensor_2d(memory[0], RFG_F32, 3, 8, 8), out = rfg_tensor_2d(memory[1], RFG_F32, 3, 8, 8),
               x = rfg_tensor_2d(memory[2], RFG_F32, 3, 8, 8), none = rfg_tensor_2d(memory[2], RFG_F32, 0, 8, 8);
    open_both();
    INVALID(rfg_op_all_reduce_add_rmsnorm(NULL, &y, &out, &x, &out, NULL, NULL, NULL), fn, "comm is NULL");
    INVALID(rfg_op_all_reduce_add_rmsnorm(comm[0], &y, &out, &x, &out, NULL, NULL, NULL), fn, "comm is not connected");
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(rfg_comm_connect(comm[r], handle), RFG_OK);
    const rfg_tensor *const all[] = { &y, &out, &x, &out };
    static const char *const names[] = { "y", "residual_out", "x", "residual" };
    for (int i = 0; i < 4; i++) {
        const rfg_tensor *t[4] = { all[0], all[1], all[2], all[3] };
        t[i] = NULL;
        INVALID(rfg_op_all_reduce_add_rmsnorm(comm[0], t[0], t[1], t[2], t[3], NULL, NULL, NULL), fn, names[i]);
    }
    x.strides[0] = 12;
    INVALID(rfg_op_all_reduce_add_rmsnorm(comm[0], &y, &out, &x, &out, NULL, NULL, NULL), fn, "x has gaps");
    x.strides[0] = 8;
    const rfg_norm_params early = { .size = sizeof(early), .eps = -1 };
    INVALID(rfg_op_all_reduce_add_rmsnorm(comm[0], &y, &out, &x, &out, NULL, &early, NULL), fn, "eps is -1");
    INVALID(rfg_op_all_reduce_add_rmsnorm(comm[0], &y, &out, &x, &out, NULL, NULL, (rfg_stream)&x), fn, "stream");
    ck_assert_int_eq(rfg_op_all_reduce_add_rmsnorm(comm[0], &none, &none, &none, &none, NULL, NULL, NULL), RFG_OK);
    ck_assert_int_eq(rfg_comm_check(comm[0]), RFG_OK);
    close_both();
}

void comm_calls(void)
{
    float memory[24] = { 0 };
    rfg_tensor t = rfg_tensor_1d(memory, RFG_F32, 0);
    open_both();
    for (int o = 0; o < COUNT(operators); o++) {
        INVALID(operators[o].run(NULL, &t, &t, NULL), operators[o].name, "comm is NULL");
        INVALID(operators[o].run(comm[0], &t, &t, NULL), operators[o].name, "comm is not connected");
    }
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(rfg_comm_connect(comm[r], handle), RFG_OK);
    for (int o = 0; o < COUNT(operators); o++) {
        wrong_tensor(o, 0);
        wrong_tensor(o, 1);
        ck_assert_msg(operators[o].run(comm[0], &t, &t, NULL) == RFG_OK, "nothing: %s", rfg_last_error());
        rfg_tensor x = rfg_tensor_1d(memory, RFG_F32, operators[o].x),
                   y = rfg_tensor_1d(memory, RFG_F32, operators[o].y);
        INVALID(operators[o].run(comm[0], &y, &x, (rfg_stream)&x), operators[o].name, "stream");
    }
    ck_assert_int_eq(rfg_comm_check(comm[0]), RFG_OK);
    close_both();
}
