/* SPDX-License-Identifier: MIT
 *
 * The extension module rfg._rfg: librfg's functions, opened at run time, on tensors of Python. */
#ifndef RFGPY_H
#define RFGPY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "rfg/rfg.h"

/* ---- the library (module.c) ----------------------------------------------------------------------------------- */

/* Functions that must be there. An operator's may be missing in an older library: calling it is an error then. */
#define RFGPY_FUNCTIONS(X)                                                                                             \
    X(rfg_version)                                                                                                     \
    X(rfg_status_name)                                                                                                 \
    X(rfg_last_error)                                                                                                  \
    X(rfg_dtype_name)                                                                                                  \
    X(rfg_context_create)                                                                                              \
    X(rfg_context_destroy)                                                                                             \
    X(rfg_context_device)                                                                                              \
    X(rfg_prepare_stream)                                                                                              \
    X(rfg_prepare)                                                                                                     \
    X(rfg_prepare_from_csv)                                                                                            \
    X(rfg_explain)                                                                                                     \
    X(rfg_describe_begin)                                                                                              \
    X(rfg_describe_end)                                                                                                \
    X(rfg_context_stats)

struct api {
#define DECLARE(name) __typeof__(&name) name;
    RFGPY_FUNCTIONS(DECLARE)
#undef DECLARE
};
extern struct api api;

/* Opens the library if it isn't yet: false with a Python exception. */
bool rfgpy_need_library(void);
/* A symbol of the library, NULL if it has none of that name. */
void *rfgpy_symbol(const char *name);

/* rfg.Error, and the functions in Python that rarely asked questions go to (rfg/_hooks.py). */
extern PyObject *rfgpy_error;
PyObject *rfgpy_hook(const char *name);

/* Sets rfg.Error; status RFG_OK: of the binding itself, counted as INVALID_ARGUMENT. Returns NULL. */
PyObject *rfgpy_raise(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets rfg.Error with rfg_last_error(). Returns NULL. */
PyObject *rfgpy_raise_status(rfg_status status);

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

enum device_kind { DEVICE_CPU, DEVICE_AMD, DEVICE_NVIDIA, DEVICE_OTHER };
struct device {
    enum device_kind kind;
    int index;
};

struct context {
    PyObject_HEAD rfg_context *ctx;
    struct device device;
    int users; /* calls in flight */
    bool closed;
};
extern PyTypeObject rfgpy_context_type;

/* The context of a call: given, or the device's default one. New reference. */
struct context *rfgpy_context_for(PyObject *given, const struct device *device);
/* Around a call without the GIL: between them close() waits for the last one. */
bool rfgpy_context_enter(struct context *c);
void rfgpy_context_leave(struct context *c);
/* "cpu", "nvidia:0" */
void rfgpy_device_name(const struct device *device, char *buf, size_t size);

/* ---- tensors (tensor.c) --------------------------------------------------------------------------------------- */

/* Tensors of one call. */
#define RFGPY_MAX_TENSORS 24

struct views {
    const char *op;
    struct device device; /* of all of them, once n > 0 */
    const char *first;    /* the name of the first */
    PyObject *like;       /* the first that is no host array: its framework knows the current stream; borrowed */
    int n, n_buffers;
    rfg_tensor view[RFGPY_MAX_TENSORS];
    Py_buffer buffer[RFGPY_MAX_TENSORS];
};

/* Makes a view of a tensor of PyTorch, NumPy, or of anything with data_ptr(), shape, stride(), dtype, device. It lasts
 * until rfgpy_views_release(). NULL with an exception. */
const rfg_tensor *rfgpy_view(struct views *v, PyObject *tensor, const char *name, bool output);
void rfgpy_views_release(struct views *v);
/* The stream that the caller's framework is on. False: exception. */
bool rfgpy_current_stream(const struct views *v, rfg_stream *stream);
bool rfgpy_tensor_init(void);

/* ---- operators (ops.c) ------------------------------------------------------------------------------------------- */

/* Adds an object for each operator to the module. */
bool rfgpy_ops_init(PyObject *module);

/* ---- communicators (comm.c) -------------------------------------------------------------------------------------- */

extern PyTypeObject rfgpy_comm_type;
/* Around a call of a communicator's operator, which is given as its ctx. A new reference to its context; NULL with an
 * exception. */
struct context *rfgpy_comm_enter(PyObject *given, const char *op, const struct device *device, void **comm);
void rfgpy_comm_leave(PyObject *given);
bool rfgpy_comm_init(PyObject *module);

#endif
