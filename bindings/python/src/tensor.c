/* SPDX-License-Identifier: MIT
 *
 * Views of Python's tensors, without copies. Three ways, the quickest first:
 *   1. DLPack's C exchange interface, where the type has it (PyTorch from 2.9 on);
 *   2. Python's buffers (NumPy);
 *   3. data_ptr(), shape, stride(), dtype and device (older PyTorch; rfg.View). */
#include "rfgpy.h"

/* ---- DLPack ------------------------------------------------------------------------------------------------------ */

/* As DLPack 1.1 has them (Debian's header is older): https://dmlc.github.io/dlpack/latest/c_api.html */
struct dl_device {
    int32_t type, id;
};
struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
};
struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
struct dl_exchange {
    struct {
        uint32_t major, minor;
        void *prev;
    } header;
    void *allocate, *managed_from_object, *managed_to_object;
    int (*from_object)(void *object, struct dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
};
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_ROCM = 10, DL_ROCM_HOST = 11, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_FLOAT = 2, DL_BFLOAT = 4, DL_E4M3FN = 10, DL_E4M3FNUZ = 11, DL_E5M2 = 12, DL_E8M0 = 14 };

static const struct {
    uint8_t code, bits;
    rfg_dtype dtype;
} dl_dtypes[] = {
    { DL_BFLOAT, 16, RFG_BF16 },      { DL_FLOAT, 16, RFG_F16 }, { DL_FLOAT, 32, RFG_F32 },
    { DL_E4M3FN, 8, RFG_E4M3 },       { DL_INT, 8, RFG_I8 },     { DL_INT, 32, RFG_I32 },
    { DL_INT, 64, RFG_I64 },          { DL_E5M2, 8, RFG_E5M2 },  { DL_E8M0, 8, RFG_E8M0 },
    { DL_E4M3FNUZ, 8, RFG_E4M3FNUZ },
};

/* Cached facts about a type, by its address. The types are kept alive. */
struct type_info {
    PyTypeObject *type;
    const struct dl_exchange *exchange; /* NULL: there is none, or the type's tensors have no memory of their own */
    bool has_grad;
};
static struct type_info types[16];
static int n_types;
static PyObject *str_exchange, *str_dispatch, *str_data_ptr, *str_shape, *str_stride, *str_dtype, *str_device,
    *str_requires_grad;
static PyObject *dtypes;  /* an object that names a dtype: its number, as hooks.dtype() says */
static PyObject *devices; /* an object that names a device: (kind, index), as hooks.device() says */

bool rfgpy_tensor_init(void)
{
    dtypes = PyDict_New();
    devices = PyDict_New();
    return (str_exchange = PyUnicode_InternFromString("__dlpack_c_exchange_api__")) &&
           (str_dispatch = PyUnicode_InternFromString("__torch_dispatch__")) &&
           (str_data_ptr = PyUnicode_InternFromString("data_ptr")) &&
           (str_shape = PyUnicode_InternFromString("shape")) && (str_stride = PyUnicode_InternFromString("stride")) &&
           (str_dtype = PyUnicode_InternFromString("dtype")) && (str_device = PyUnicode_InternFromString("device")) &&
           (str_requires_grad = PyUnicode_InternFromString("requires_grad")) && dtypes && devices;
}

/* Whether a tensor's type stands for other data than its memory (FakeTensor, DTensor, wrappers). */
static bool redirects(PyTypeObject *type)
{
    PyObject *base = (PyObject *)type, *own = PyObject_GetAttr(base, str_dispatch), *plain = NULL;
    for (PyTypeObject *t = type; t; t = t->tp_base)
        if (!strcmp(t->tp_name, "torch.Tensor") || !strcmp(t->tp_name, "Tensor"))
            plain = PyObject_GetAttr((PyObject *)t, str_dispatch);
    bool other = own != plain;
    PyErr_Clear();
    Py_XDECREF(own);
    Py_XDECREF(plain);
    return other;
}

static struct type_info type_of(PyTypeObject *type)
{
    for (int i = 0; i < n_types; i++)
        if (types[i].type == type)
            return types[i];
    struct type_info info = { type, NULL, false };
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, str_exchange);
    if (capsule && PyCapsule_CheckExact(capsule) && !redirects(type)) {
        const struct dl_exchange *e = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        if (e && e->header.major == 1 && e->from_object && e->current_stream)
            info.exchange = e;
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    info.has_grad = PyObject_HasAttr((PyObject *)type, str_requires_grad);
    if (n_types < (int)(sizeof(types) / sizeof(types[0]))) {
        Py_INCREF(type);
        types[n_types++] = info;
    }
    return info;
}

static bool from_exchange(const struct dl_exchange *exchange, PyObject *tensor, const char *op, const char *name,
                          rfg_tensor *out, struct device *device)
{
    struct dl_tensor dl;
    if (exchange->from_object(tensor, &dl))
        return false;
    *out = (rfg_tensor){ .data = (char *)dl.data + dl.byte_offset, .ndim = dl.ndim };
    for (size_t i = 0; i < sizeof(dl_dtypes) / sizeof(dl_dtypes[0]); i++)
        if (dl_dtypes[i].code == dl.dtype.code && dl_dtypes[i].bits == dl.dtype.bits && dl.dtype.lanes == 1)
            out->dtype = dl_dtypes[i].dtype;
    *device = (struct device){ DEVICE_OTHER, 0 };
    if (dl.device.type == DL_CPU || dl.device.type == DL_CUDA_HOST || dl.device.type == DL_ROCM_HOST)
        device->kind = DEVICE_CPU;
    else if (dl.device.type == DL_CUDA || dl.device.type == DL_CUDA_MANAGED)
        *device = (struct device){ DEVICE_NVIDIA, dl.device.id };
    else if (dl.device.type == DL_ROCM)
        *device = (struct device){ DEVICE_AMD, dl.device.id };
    if (dl.ndim > RFG_MAX_DIMS)
        return rfgpy_raise("%s: %s has %d dimensions: must be at most %d", op, name, dl.ndim, RFG_MAX_DIMS);
    for (int i = 0; i < dl.ndim; i++) {
        out->shape[i] = dl.shape[i];
        out->strides[i] = dl.strides ? dl.strides[i] : 1;
    }
    for (int i = dl.ndim - 2; !dl.strides && i >= 0; i--) /* packed */
        out->strides[i] = out->strides[i + 1] * (dl.shape[i + 1] ? dl.shape[i + 1] : 1);
    return true;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static rfg_dtype dtype_of_format(const char *f, Py_ssize_t itemsize)
{
    if (!f || (strchr("@=<", *f) && !*++f) || f[1])
        return RFG_DTYPE_NONE;
    switch (*f) {
    case 'f':
        return RFG_F32;
    case 'e':
        return RFG_F16;
    case 'b':
        return RFG_I8;
    case 'i':
    case 'l':
    case 'q':
        return itemsize == 4 ? RFG_I32 : itemsize == 8 ? RFG_I64 : RFG_DTYPE_NONE;
    default:
        return RFG_DTYPE_NONE;
    }
}

static bool from_buffer(struct views *v, PyObject *tensor, const char *name, bool output, rfg_tensor *out)
{
    Py_buffer *b = &v->buffer[v->n_buffers];
    if (PyObject_GetBuffer(tensor, b, PyBUF_STRIDES | PyBUF_FORMAT))
        return false;
    v->n_buffers++;
    if (output && b->readonly)
        return rfgpy_raise("%s: %s is read-only: it is written", v->op, name);
    if (b->ndim > RFG_MAX_DIMS)
        return rfgpy_raise("%s: %s has %d dimensions: must be at most %d", v->op, name, b->ndim, RFG_MAX_DIMS);
    *out = (rfg_tensor){ .data = b->buf, .dtype = dtype_of_format(b->format, b->itemsize), .ndim = b->ndim };
    if (out->dtype == RFG_DTYPE_NONE)
        return rfgpy_raise("%s: %s has elements of format '%s': must be f32, f16, i8, i32, i64, or a rfg.view() that "
                           "names the dtype",
                           v->op, name, b->format ? b->format : "B");
    for (int i = 0; i < b->ndim; i++) {
        out->shape[i] = b->shape[i];
        if (b->strides[i] % b->itemsize)
            return rfgpy_raise("%s: %s has a stride of %zd bytes: must be a multiple of its elements' size, %zd", v->op,
                               name, b->strides[i], b->itemsize);
        out->strides[i] = b->strides[i] / b->itemsize;
    }
    return true;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* A hook's answer for an object, cached. Borrowed. */
static PyObject *asked(PyObject *known, const char *hook_name, PyObject *of)
{
    PyObject *answer = PyDict_GetItemWithError(known, of);
    if (answer || PyErr_Occurred())
        return answer;
    PyObject *hook = rfgpy_hook(hook_name);
    answer = hook ? PyObject_CallOneArg(hook, of) : NULL;
    Py_XDECREF(hook);
    if (!answer || PyDict_SetItem(known, of, answer)) {
        Py_XDECREF(answer);
        return NULL;
    }
    Py_DECREF(answer);
    return answer;
}

/* A tuple's numbers; their count, -1 with an exception. */
static int numbers(PyObject *of, int64_t *to, const char *op, const char *name)
{
    PyObject *t = PySequence_Fast(of, "a shape and strides must be tuples");
    Py_ssize_t n = t ? PySequence_Fast_GET_SIZE(t) : -1;
    if (n > RFG_MAX_DIMS) {
        rfgpy_raise("%s: %s has %zd dimensions: must be at most %d", op, name, n, RFG_MAX_DIMS);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        to[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(t, i));
        if (to[i] == -1 && PyErr_Occurred())
            n = -1;
    }
    Py_XDECREF(t);
    return (int)n;
}

static bool from_attributes(PyObject *tensor, const char *op, const char *name, rfg_tensor *out, struct device *device)
{
    *out = (rfg_tensor){ 0 };
    PyObject *dtype = PyObject_GetAttr(tensor, str_dtype), *dev = PyObject_GetAttr(tensor, str_device),
             *shape = PyObject_GetAttr(tensor, str_shape), *strides = NULL, *pointer = NULL, *answer;
    bool ok = false;
    if (!dtype || !dev || !shape || !(strides = PyObject_CallMethodNoArgs(tensor, str_stride)) ||
        !(pointer = PyObject_CallMethodNoArgs(tensor, str_data_ptr)) || !(answer = asked(dtypes, "dtype", dtype)))
        goto end;
    out->dtype = (rfg_dtype)PyLong_AsLong(answer);
    if (!(answer = asked(devices, "device", dev)) || !PyArg_ParseTuple(answer, "ii", &device->kind, &device->index))
        goto end;
    out->data = PyLong_AsVoidPtr(pointer);
    out->ndim = numbers(shape, out->shape, op, name);
    if (out->ndim >= 0 && !PyErr_Occurred()) {
        int n = numbers(strides, out->strides, op, name);
        ok = n == out->ndim;
        if (!ok && n >= 0)
            rfgpy_raise("%s: %s has %d strides: must have %d, one a dimension", op, name, n, out->ndim);
    }
end:
    Py_XDECREF(dtype);
    Py_XDECREF(dev);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    Py_XDECREF(pointer);
    return ok;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Converts a Python exception about a tensor to rfg.Error. */
static void explain_failure(const char *op, const char *name, PyObject *tensor)
{
    if (PyErr_ExceptionMatches(rfgpy_error))
        return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *why = text ? PyUnicode_AsUTF8(text) : NULL;
    rfgpy_raise("%s: %s is a %s, which is no tensor with memory of its own: %s", op, name, Py_TYPE(tensor)->tp_name,
                why ? why : "?");
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* Whether PyTorch needs a gradient through this tensor. */
static bool wants_grad(PyObject *tensor)
{
    PyObject *flag = PyObject_GetAttr(tensor, str_requires_grad);
    bool wants = flag == Py_True;
    Py_XDECREF(flag);
    PyErr_Clear();
    if (!wants)
        return false;
    PyObject *hook = rfgpy_hook("grad_enabled"), *enabled = hook ? PyObject_CallNoArgs(hook) : NULL;
    wants = enabled == Py_True;
    Py_XDECREF(hook);
    Py_XDECREF(enabled);
    PyErr_Clear();
    return wants;
}

const rfg_tensor *rfgpy_view(struct views *v, PyObject *tensor, const char *name, bool output)
{
    if (v->n == RFGPY_MAX_TENSORS)
        return (void *)rfgpy_raise("%s: has more than %d tensors", v->op, RFGPY_MAX_TENSORS);
    rfg_tensor *out = &v->view[v->n];
    struct device device = { DEVICE_CPU, 0 };
    struct type_info info = type_of(Py_TYPE(tensor));
    bool ok, host = false;
    if (info.exchange)
        ok = from_exchange(info.exchange, tensor, v->op, name, out, &device);
    else if ((host = PyObject_CheckBuffer(tensor)))
        ok = from_buffer(v, tensor, name, output, out);
    else
        ok = from_attributes(tensor, v->op, name, out, &device);
    if (!ok) {
        explain_failure(v->op, name, tensor);
        return NULL;
    }
    if (out->dtype == RFG_DTYPE_NONE)
        return (void *)rfgpy_raise("%s: %s has a dtype that rfg has no name for", v->op, name);
    if (device.kind == DEVICE_OTHER)
        return (void *)rfgpy_raise("%s: %s is on a device that rfg doesn't know: must be cpu, CUDA or ROCm", v->op,
                                   name);
    if (v->n && (device.kind != v->device.kind || device.index != v->device.index)) {
        char one[32], other[32];
        rfgpy_device_name(&device, one, sizeof(one));
        rfgpy_device_name(&v->device, other, sizeof(other));
        return (void *)rfgpy_raise("%s: %s is on %s, %s on %s: all tensors of a call must be on one device", v->op,
                                   name, one, v->first, other);
    }
    if (info.has_grad && wants_grad(tensor))
        return (void *)rfgpy_raise("%s: %s requires a gradient, which this function can't give: call the one of "
                                   "rfg.torch, or this one under torch.no_grad()",
                                   v->op, name);
    if (!v->n) {
        v->device = device;
        v->first = name;
    }
    if (!v->like && !host)
        v->like = tensor;
    v->n++;
    return out;
}

void rfgpy_views_release(struct views *v)
{
    for (int i = 0; i < v->n_buffers; i++)
        PyBuffer_Release(&v->buffer[i]);
}

bool rfgpy_current_stream(const struct views *v, rfg_stream *stream)
{
    *stream = NULL;
    if (v->device.kind == DEVICE_CPU || !v->like)
        return true;
    struct type_info info = type_of(Py_TYPE(v->like));
    if (info.exchange)
        return !info.exchange->current_stream(v->device.kind == DEVICE_AMD ? DL_ROCM : DL_CUDA, v->device.index,
                                              stream);
    PyObject *hook = rfgpy_hook("current_stream");
    PyObject *answer = hook ? PyObject_CallFunction(hook, "i", v->device.index) : NULL;
    if (answer)
        *stream = PyLong_AsVoidPtr(answer);
    Py_XDECREF(hook);
    Py_XDECREF(answer);
    return !PyErr_Occurred();
}
