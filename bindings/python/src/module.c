/* SPDX-License-Identifier: MIT
 *
 * The library, contexts, and the module itself. */
#include "rfgpy.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>

struct api api;
PyObject *rfgpy_error;
static void *library;
static PyObject *defaults; /* device's name: its context */

PyObject *rfgpy_hook(const char *name)
{
    PyObject *module = PyImport_ImportModule("rfg._hooks");
    PyObject *hook = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return hook;
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void set_error(PyObject *text, const char *status)
{
    PyObject *e = text ? PyObject_CallOneArg(rfgpy_error, text) : NULL;
    PyObject *name = e ? PyUnicode_FromString(status) : NULL;
    if (name && !PyObject_SetAttrString(e, "status", name))
        PyErr_SetObject(rfgpy_error, e);
    Py_XDECREF(name);
    Py_XDECREF(e);
    Py_XDECREF(text);
}

PyObject *rfgpy_raise(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    set_error(PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"), "RFG_ERROR_INVALID_ARGUMENT");
    return NULL;
}

PyObject *rfgpy_raise_status(rfg_status status)
{
    const char *text = api.rfg_last_error();
    set_error(PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"), api.rfg_status_name(status));
    return NULL;
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

void *rfgpy_symbol(const char *name)
{
    return library ? dlsym(library, name) : NULL;
}

static PyObject *load(PyObject *self, PyObject *arg)
{
    (void)self;
    const char *path = PyUnicode_AsUTF8(arg);
    if (!path)
        return NULL;
    if (library)
        return rfgpy_raise("the library is loaded already");
    if (*path != '/')
        return rfgpy_raise("librfg: '%s': must be an absolute path", path);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return rfgpy_raise("librfg could not be loaded: %s", dlerror());
    struct api a;
    const char *missing = NULL;
#define LOOK_UP(name)                                                                                                  \
    *(void **)&a.name = dlsym(lib, #name);                                                                             \
    if (!a.name && !missing)                                                                                           \
        missing = #name;
    RFGPY_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    char ours[32];
    int n = snprintf(ours, sizeof(ours), "%d.%d.", RFG_VERSION_MAJOR, RFG_VERSION_MINOR);
    if (missing)
        rfgpy_raise("librfg: %s has no %s()", path, missing);
    else if (strncmp(a.rfg_version(), ours, (size_t)n))
        rfgpy_raise("librfg: %s is of version %s: this module was built for %s", path, a.rfg_version(), RFG_VERSION);
    if (PyErr_Occurred()) {
        dlclose(lib);
        return NULL;
    }
    api = a;
    library = lib;
    Py_RETURN_NONE;
}

bool rfgpy_need_library(void)
{
    if (library)
        return true;
    PyObject *hook = rfgpy_hook("load_library"), *done = hook ? PyObject_CallNoArgs(hook) : NULL;
    Py_XDECREF(hook);
    Py_XDECREF(done);
    if (done && !library)
        rfgpy_raise("librfg was not loaded");
    return done && library;
}

/* In a program with more rights than its caller the environment isn't trusted (docs/security.md). */
static PyObject *privileged(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return PyBool_FromLong(getauxval(AT_SECURE) != 0);
}

static PyObject *version(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return rfgpy_need_library() ? PyUnicode_FromString(api.rfg_version()) : NULL;
}

/* The number of a dtype by rfg's name; 0: there is none. */
static PyObject *dtype_number(PyObject *self, PyObject *arg)
{
    (void)self;
    const char *name = PyUnicode_AsUTF8(arg);
    if (!name || !rfgpy_need_library())
        return NULL;
    int i = RFG_DTYPE_COUNT - 1;
    while (i > 0 && strcmp(api.rfg_dtype_name((rfg_dtype)i), name))
        i--;
    return PyLong_FromLong(i);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

void rfgpy_device_name(const struct device *device, char *buf, size_t size)
{
    static const char *const kinds[] = { "cpu", "amd", "nvidia", "an unknown device" };
    if (device->kind == DEVICE_AMD || device->kind == DEVICE_NVIDIA)
        snprintf(buf, size, "%s:%d", kinds[device->kind], device->index);
    else
        snprintf(buf, size, "%s", kinds[device->kind]);
}

static struct device device_of(const char *name)
{
    if (!strcmp(name, "cpu"))
        return (struct device){ DEVICE_CPU, 0 };
    if (!strncmp(name, "amd:", 4))
        return (struct device){ DEVICE_AMD, atoi(name + 4) };
    if (!strncmp(name, "nvidia:", 7))
        return (struct device){ DEVICE_NVIDIA, atoi(name + 7) };
    return (struct device){ DEVICE_OTHER, 0 };
}

static int context_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct context *c = (struct context *)self;
    static char *names[] = { "device",   "user_db",        "system_db", "cache_dir", "threads",         "misses",
                             "variants", "launch_overlap", "pack",      "tune",      "batch_invariant", NULL };
    rfg_context_params p = RFG_CONTEXT_PARAMS_INIT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z$zzziizpzzp:Context", names, &p.device, &p.user_db, &p.system_db,
                                     &p.cache_dir, &p.threads, &p.misses, &p.variants, &p.launch_overlap, &p.pack,
                                     &p.tune, &p.batch_invariant) ||
        !rfgpy_need_library())
        return -1;
    if (c->ctx) {
        rfgpy_raise("Context: is open already");
        return -1;
    }
    rfg_context *ctx;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = api.rfg_context_create(&ctx, &p);
    PyEval_RestoreThread(gil);
    if (st != RFG_OK) {
        rfgpy_raise_status(st);
        return -1;
    }
    c->ctx = ctx;
    c->device = device_of(api.rfg_context_device(ctx));
    return 0;
}

static void destroy_if_unused(struct context *c)
{
    if (c->closed && !c->users && c->ctx) {
        rfg_context *ctx = c->ctx;
        c->ctx = NULL;
        PyThreadState *gil = PyEval_SaveThread();
        api.rfg_context_destroy(&ctx);
        PyEval_RestoreThread(gil);
    }
}

bool rfgpy_context_enter(struct context *c)
{
    if (c->closed || !c->ctx) {
        rfgpy_raise("the context was closed");
        return false;
    }
    c->users++;
    return true;
}

void rfgpy_context_leave(struct context *c)
{
    c->users--;
    if (c->closed)
        destroy_if_unused(c);
}

static PyObject *context_close(PyObject *self, PyObject *none)
{
    (void)none;
    struct context *c = (struct context *)self;
    c->closed = true;
    destroy_if_unused(c);
    Py_RETURN_NONE;
}

static void context_dealloc(PyObject *self)
{
    context_close(self, NULL);
    Py_TYPE(self)->tp_free(self); /* a subclass in Python drops its own reference to its type */
}

/* Passes one string to a library function that may take long. */
static PyObject *with_text(PyObject *self, PyObject *arg, rfg_status (*fn)(rfg_context *, const char *))
{
    struct context *c = (struct context *)self;
    const char *text = PyUnicode_AsUTF8(arg);
    if (!text || !rfgpy_context_enter(c))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = fn(c->ctx, text);
    PyEval_RestoreThread(gil);
    PyObject *result = st == RFG_OK ? Py_NewRef(Py_None) : rfgpy_raise_status(st);
    rfgpy_context_leave(c);
    return result;
}

static PyObject *context_prepare(PyObject *self, PyObject *problem)
{
    return with_text(self, problem, api.rfg_prepare);
}

static PyObject *context_prepare_from_csv(PyObject *self, PyObject *path)
{
    return with_text(self, path, api.rfg_prepare_from_csv);
}

static PyObject *context_prepare_stream(PyObject *self, PyObject *arg)
{
    struct context *c = (struct context *)self;
    void *stream = PyLong_AsVoidPtr(arg);
    if ((!stream && PyErr_Occurred()) || !rfgpy_context_enter(c))
        return NULL;
    rfg_status st = api.rfg_prepare_stream(c->ctx, stream);
    PyObject *result = st == RFG_OK ? Py_NewRef(Py_None) : rfgpy_raise_status(st);
    rfgpy_context_leave(c);
    return result;
}

static PyObject *context_explain(PyObject *self, PyObject *problem)
{
    struct context *c = (struct context *)self;
    enum { SIZE = 256 << 10 };
    const char *text = PyUnicode_AsUTF8(problem);
    if (!text || !rfgpy_context_enter(c))
        return NULL;
    char *buf = malloc(SIZE);
    PyObject *result = NULL;
    if (!buf) {
        PyErr_NoMemory();
    } else {
        rfg_status st = api.rfg_explain(c->ctx, text, buf, SIZE);
        result = st == RFG_OK ? PyUnicode_DecodeUTF8(buf, (Py_ssize_t)strlen(buf), "replace") : rfgpy_raise_status(st);
    }
    free(buf);
    rfgpy_context_leave(c);
    return result;
}

static _Thread_local char described[RFG_DESCRIBE_MAX];

static PyObject *context_describe_begin(PyObject *self, PyObject *none)
{
    (void)none;
    struct context *c = (struct context *)self;
    if (!rfgpy_context_enter(c))
        return NULL;
    rfg_status st = api.rfg_describe_begin(c->ctx, described, sizeof(described));
    rfgpy_context_leave(c);
    return st == RFG_OK ? Py_NewRef(Py_None) : rfgpy_raise_status(st);
}

static PyObject *context_describe_end(PyObject *self, PyObject *none)
{
    (void)none;
    struct context *c = (struct context *)self;
    api.rfg_describe_end(c->ctx);
    return PyUnicode_FromString(described);
}

static PyObject *context_stats(PyObject *self, PyObject *none)
{
    (void)none;
    struct context *c = (struct context *)self;
    if (!rfgpy_context_enter(c))
        return NULL;
    rfg_stats s = RFG_STATS_INIT;
    api.rfg_context_stats(c->ctx, &s);
    rfgpy_context_leave(c);
    return Py_BuildValue("(KKKKKK)", s.calls, s.misses, s.plans, s.compiles, s.cache_hits, s.tuned);
}

static PyObject *context_device(PyObject *self, void *unused)
{
    (void)unused;
    struct context *c = (struct context *)self;
    if (!rfgpy_context_enter(c))
        return NULL;
    PyObject *name = PyUnicode_FromString(api.rfg_context_device(c->ctx));
    rfgpy_context_leave(c);
    return name;
}

static PyMethodDef context_methods[] = {
    { "close", context_close, METH_NOARGS, NULL },
    { "prepare", context_prepare, METH_O, NULL },
    { "prepare_from_csv", context_prepare_from_csv, METH_O, NULL },
    { "prepare_stream", context_prepare_stream, METH_O, NULL },
    { "explain", context_explain, METH_O, NULL },
    { "describe_begin", context_describe_begin, METH_NOARGS, NULL },
    { "describe_end", context_describe_end, METH_NOARGS, NULL },
    { "stats", context_stats, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef context_getset[] = { { "device", context_device, NULL, NULL, NULL }, { 0 } };

PyTypeObject rfgpy_context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rfg._rfg.Context",
    .tp_basicsize = sizeof(struct context),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = context_init,
    .tp_dealloc = context_dealloc,
    .tp_methods = context_methods,
    .tp_getset = context_getset,
};

/* The default context of a device; hooks.make_context() makes it. New reference. */
static struct context *default_context(const char *name)
{
    PyObject *c = PyDict_GetItemString(defaults, name);
    if (c && !((struct context *)c)->closed)
        return (struct context *)Py_NewRef(c);
    PyObject *hook = rfgpy_hook("make_context");
    c = hook ? PyObject_CallFunction(hook, "s", name) : NULL;
    Py_XDECREF(hook);
    if (c && !PyObject_TypeCheck(c, &rfgpy_context_type)) {
        Py_CLEAR(c);
        PyErr_SetString(PyExc_TypeError, "make_context() must return a Context");
    }
    if (c && PyDict_SetItemString(defaults, name, c))
        Py_CLEAR(c);
    return (struct context *)c;
}

struct context *rfgpy_context_for(PyObject *given, const struct device *device)
{
    char name[32];
    if (given && given != Py_None) {
        if (!PyObject_TypeCheck(given, &rfgpy_context_type))
            return (struct context *)rfgpy_raise("ctx: is a %s: must be a rfg.Context", Py_TYPE(given)->tp_name);
        struct context *c = (struct context *)given;
        if (!c->closed && (c->device.kind != device->kind || c->device.index != device->index)) {
            rfgpy_device_name(device, name, sizeof(name));
            return (struct context *)rfgpy_raise("ctx: is for %s, the tensors are on %s: must be one device",
                                                 api.rfg_context_device(c->ctx), name);
        }
        return (struct context *)Py_NewRef(given);
    }
    if (device->kind == DEVICE_CPU) { /* without building a name */
        static PyObject *cpu;
        PyObject *c = cpu || (cpu = PyUnicode_InternFromString("cpu")) ? PyDict_GetItem(defaults, cpu) : NULL;
        if (c && !((struct context *)c)->closed)
            return (struct context *)Py_NewRef(c);
    }
    rfgpy_device_name(device, name, sizeof(name));
    return default_context(name);
}

static PyObject *context_of(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(name);
    return text ? (PyObject *)default_context(text) : NULL;
}

static PyObject *close_all(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    PyObject *key, *c;
    for (Py_ssize_t at = 0; PyDict_Next(defaults, &at, &key, &c);)
        Py_XDECREF(context_close(c, NULL));
    PyDict_Clear(defaults);
    Py_RETURN_NONE;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    { "load", load, METH_O, NULL },
    { "privileged", privileged, METH_NOARGS, NULL },
    { "version", version, METH_NOARGS, NULL },
    { "dtype_number", dtype_number, METH_O, NULL },
    { "context", context_of, METH_O, NULL },
    { "close_all", close_all, METH_NOARGS, NULL },
    { 0 },
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "rfg._rfg", NULL, -1, functions, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__rfg(void);
PyMODINIT_FUNC PyInit__rfg(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *members = Py_BuildValue("{ss}", "status", "RFG_ERROR_INVALID_ARGUMENT"); /* of errors raised in Python */
    rfgpy_error = PyErr_NewExceptionWithDoc(
        "rfg.Error",
        "What rfg refused or what failed: the C library's message, which names the argument, the value and the rule.\n"
        "`status` is the C status' name, e.g. \"RFG_ERROR_UNSUPPORTED\".",
        PyExc_RuntimeError, members);
    Py_XDECREF(members);
    defaults = PyDict_New();
    if (!rfgpy_error || !defaults || PyType_Ready(&rfgpy_context_type) ||
        PyModule_AddObjectRef(module, "Error", rfgpy_error) ||
        PyModule_AddObjectRef(module, "Context", (PyObject *)&rfgpy_context_type) ||
        PyModule_AddStringConstant(module, "built_for", RFG_VERSION) || !rfgpy_tensor_init() ||
        !rfgpy_comm_init(module) || !rfgpy_ops_init(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
