/* SPDX-License-Identifier: MIT
 *
 * A context and a stream on a device, with a product to launch in it: on the cpu, on an emulated GPU and on a mock GPU
 * that counts every object; with RFG_TEST_DEVICES=nvidia:0 on a GPU too. */
#ifndef RFG_TESTS_DEVICE_CASE_H
#define RFG_TESTS_DEVICE_CASE_H

#include <stdbool.h>

#include "rfg/rfg.h"

/* A product that is split along K on the GPUs, so that it needs a workspace. */
enum { M = 2, N = 16, K = 4096 };
#define PROBLEM "gemm bf16,bf16->f32 M=2 N=16 K=4096"

extern const char *devices[8];
extern int n_devices;
void more_devices(void); /* adds those of $RFG_TEST_DEVICES; once */

/* Of the device that is open. */
extern rfg_context *ctx;
extern rfg_stream stream;
extern char *x, *w, *y; /* device memory */

void open_device(const char *device);
void close_device(void); /* nothing is left, and nothing that HIP forbids was done */
bool on_cpu(void);
#define FAKE "fake" /* an imagined AMD GPU: fakehip.h */
bool on_fake(void);

/* x is value, w is 1: y = value K. 0x4040 is 3, 0x3f80 1 in bf16. */
void set_x(int byte);
static const float of_40 = 3.0f * K, of_0 = 0;
void set_w(void);
rfg_status gemm(rfg_stream in);
void expect(const void *memory, float value); /* all of a y */

#define OK(call)        ck_assert_msg((call) == RFG_OK, "%s: %s: %s", rfg_context_device(ctx), #call, rfg_last_error())
#define REFUSED(call)   refused(call, #call, "")
#define NAMED(call, of) refused(call, #call, of)
void refused(rfg_status st, const char *call, const char *of); /* an invalid argument, in a message that says `of` */

#endif
