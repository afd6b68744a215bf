/* SPDX-License-Identifier: MIT
 *
 * A ggml backend that is loaded at run time (GGML_BACKEND_DL): its registry entry, one device, its buffers and streams.
 * Tensors stay in ggml's own host memory.
 *
 * A loaded backend is structs of functions, which ggml declares in a header of its sources, not of its installed ones:
 * all of ggml's backends include it, and nothing else that is private is used. */
#define GGML_BACKEND_SHARED
#define GGML_BACKEND_BUILD
#define GGML_BACKEND_DL
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ops.h"

static const char name[] = "rfg";

static void say(const char *what)
{
    fprintf(stderr, "ggml-rfg: %s: %s\n", what, rfg_last_error());
}

/* ---- a backend: one worker --------------------------------------------------------------------------------------- */

static rfg_status open_context(rfg_context **ctx, int threads)
{
    return rfg_context_create(
        ctx, &(rfg_context_params){ .size = sizeof(rfg_context_params), .device = "cpu", .threads = threads });
}

static const char *backend_name(ggml_backend_t backend)
{
    (void)backend;
    return name;
}

static void backend_free(ggml_backend_t backend)
{
    struct worker *w = backend->context;
    rfg_context_destroy(&w->ctx);
    free(w->scratch);
    free(w);
    free(backend);
}

static enum ggml_status compute_one(struct worker *w, struct ggml_tensor *op)
{
    /* ggml's scheduler asks supports_op() first, but a program that calls a backend directly may not. */
    if (!rfg_ggml_supports(op)) {
        fprintf(stderr, "ggml-rfg: %s '%s': must be an operator that supports_op() says yes to\n", ggml_op_desc(op),
                op->name);
        return GGML_STATUS_FAILED;
    }
    rfg_status status = rfg_ggml_compute(w, op);
    if (status == RFG_OK)
        return GGML_STATUS_SUCCESS;
    bool memory = status == RFG_ERROR_OUT_OF_MEMORY;
    fprintf(stderr, "ggml-rfg: %s '%s': %s: %s\n", ggml_op_desc(op), op->name, rfg_status_name(status),
            memory ? "no host memory" : rfg_last_error());
    return memory ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

static enum ggml_status backend_compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor *op = ggml_graph_node(graph, i);
        if (!(op->flags & GGML_TENSOR_FLAG_COMPUTE))
            continue;
        enum ggml_status status = compute_one(backend->context, op);
        if (status != GGML_STATUS_SUCCESS)
            return status;
    }
    return GGML_STATUS_SUCCESS;
}

static ggml_guid_t guid(void)
{
    static ggml_guid id = { 0x5e, 0x3a, 0x91, 0xd4, 0x0b, 0x77, 0x4c, 0x1f,
                            0xa6, 0x28, 0xe0, 0x95, 0x72, 0x66, 0x67, 0x21 };
    return &id;
}

static ggml_backend_t device_open(ggml_backend_dev_t dev, const char *params)
{
    (void)params;
    ggml_backend_t backend = calloc(1, sizeof(*backend));
    struct worker *w = calloc(1, sizeof(*w));
    if (!backend || !w || open_context(&w->ctx, 0) != RFG_OK) {
        say("no context");
        free(backend);
        free(w);
        return NULL;
    }
    *backend = (struct ggml_backend){
        .guid = guid(),
        .iface = { .get_name = backend_name, .free = backend_free, .graph_compute = backend_compute },
        .device = dev,
        .context = w,
    };
    return backend;
}

/* The function that ggml and its programs look up by name: ggml_backend_set_n_threads. */
static void set_threads(ggml_backend_t backend, int threads)
{
    struct worker *w = backend->context;
    rfg_context *ctx;
    if (threads == w->threads)
        return;
    if (open_context(&ctx, threads) != RFG_OK) {
        say("the number of threads stays as it was");
        return;
    }
    rfg_context_destroy(&w->ctx);
    w->ctx = ctx;
    w->threads = threads;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static const char *device_name(ggml_backend_dev_t dev)
{
    (void)dev;
    return name;
}

static const char *device_description(ggml_backend_dev_t dev)
{
    (void)dev;
    return "rfg " RFG_VERSION " on cpu";
}

static void device_memory(ggml_backend_dev_t dev, size_t *left, size_t *total)
{
    (void)dev;
    *left = *total = 0; /* the host's: none of its own */
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev)
{
    (void)dev;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL; /* works beside ggml's CPU backend, in its memory */
}

static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props *props)
{
    *props = (struct ggml_backend_dev_props){ .name = name,
                                              .description = device_description(dev),
                                              .type = device_type(dev),
                                              .caps = { .buffer_from_host_ptr = true, .mmap_support = true } };
}

static ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t dev)
{
    (void)dev;
    return ggml_backend_cpu_buffer_type();
}

static ggml_backend_buffer_t device_wrap(ggml_backend_dev_t dev, void *memory, size_t size, size_t largest_tensor)
{
    (void)dev;
    (void)largest_tensor;
    return ggml_backend_cpu_buffer_from_ptr(memory, size);
}

static bool device_supports(ggml_backend_dev_t dev, const struct ggml_tensor *op)
{
    (void)dev;
    return rfg_ggml_supports(op);
}

static bool device_reads(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type)
{
    (void)dev;
    return ggml_backend_buft_is_host(type);
}

/* ---- the registry ------------------------------------------------------------------------------------------------ */

static const char *reg_name(ggml_backend_reg_t reg)
{
    (void)reg;
    return name;
}

static size_t reg_count(ggml_backend_reg_t reg)
{
    (void)reg;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index)
{
    static struct ggml_backend_device device = {
        .iface = { .get_name = device_name,
                   .get_description = device_description,
                   .get_memory = device_memory,
                   .get_type = device_type,
                   .get_props = device_props,
                   .init_backend = device_open,
                   .get_buffer_type = device_buffers,
                   .buffer_from_host_ptr = device_wrap,
                   .supports_op = device_supports,
                   .supports_buft = device_reads },
    };
    device.reg = reg;
    return index == 0 ? &device : NULL;
}

static void *reg_function(ggml_backend_reg_t reg, const char *wanted)
{
    (void)reg;
    return strcmp(wanted, "ggml_backend_set_n_threads") == 0 ? (void *)set_threads : NULL;
}

static ggml_backend_reg_t rfg_reg(void)
{
    static struct ggml_backend_reg reg = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = { .get_name = reg_name,
                   .get_device_count = reg_count,
                   .get_device = reg_device,
                   .get_proc_address = reg_function },
    };
    return &reg;
}

GGML_BACKEND_DL_IMPL(rfg_reg)
