/* SPDX-License-Identifier: MIT
 *
 * Communicators (rfg/comm.h). Their operators are rows of ops.c's table, called with ctx=communicator. */
#include "rfgpy.h"

#include <stdlib.h>

#define COMM_FUNCTIONS(X)                                                                                              \
    X(rfg_comm_create)                                                                                                 \
    X(rfg_comm_get_handle)                                                                                             \
    X(rfg_comm_connect)                                                                                                \
    X(rfg_comm_prepare)                                                                                                \
    X(rfg_comm_check)                                                                                                  \
    X(rfg_comm_destroy)

static struct {
#define DECLARE(name) __typeof__(&name) name;
    COMM_FUNCTIONS(DECLARE)
#undef DECLARE
} of_comm;

struct comm {
    PyObject_HEAD struct context *context; /* owned */
    rfg_comm *comm;
    int ranks;
    bool busy; /* a call without the GIL: one thread at a time */
};

static bool look_up(void)
{
#define LOOK_UP(name)                                                                                                  \
    if (!(*(void **)&of_comm.name = rfgpy_symbol(#name)))                                                              \
        return rfgpy_raise("Comm: this librfg (%s) has no %s()", api.rfg_version(), #name);
    COMM_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return true;
}

static bool enter(struct comm *c)
{
    if (!c->comm)
        return rfgpy_raise("the communicator was closed");
    if (c->busy)
        return rfgpy_raise("the communicator is in use by another thread: must be used by one at a time");
    c->busy = rfgpy_context_enter(c->context);
    return c->busy;
}

static void leave(struct comm *c)
{
    c->busy = false;
    rfgpy_context_leave(c->context);
}

struct context *rfgpy_comm_enter(PyObject *given, const char *op, const struct device *device, void **comm)
{
    struct comm *c = (struct comm *)given;
    if (!given || !PyObject_TypeCheck(given, &rfgpy_comm_type))
        return (struct context *)rfgpy_raise("%s: ctx: must be a rfg.comm.Comm", op);
    struct context *ctx = rfgpy_context_for((PyObject *)c->context, device); /* the tensors' device is checked */
    if (ctx && !enter(c))
        Py_CLEAR(ctx);
    *comm = c->comm;
    return ctx;
}

void rfgpy_comm_leave(PyObject *given)
{
    leave((struct comm *)given);
}

static PyObject *result_of(struct comm *c, rfg_status st)
{
    PyObject *result = st == RFG_OK ? Py_NewRef(Py_None) : rfgpy_raise_status(st);
    leave(c);
    return result;
}

static int comm_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct comm *c = (struct comm *)self;
    static char *names[] = { "ctx", "rank", "ranks", "timeout_ms", "vendor_from", NULL };
    rfg_comm_params p = RFG_COMM_PARAMS_INIT;
    PyObject *ctx;
    int rank;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!ii|ii:Comm", names, &rfgpy_context_type, &ctx, &rank, &c->ranks,
                                     &p.timeout_ms, &p.vendor_from) ||
        !rfgpy_need_library() || !look_up())
        return -1;
    if (c->context) {
        rfgpy_raise("Comm: is made already");
        return -1;
    }
    c->context = (struct context *)Py_NewRef(ctx);
    if (!rfgpy_context_enter(c->context))
        return -1;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = of_comm.rfg_comm_create(&c->comm, c->context->ctx, rank, c->ranks, &p);
    PyEval_RestoreThread(gil);
    if (st == RFG_OK)
        return 0; /* the context stays until comm_close() leaves it */
    rfgpy_raise_status(st);
    rfgpy_context_leave(c->context);
    return -1;
}

static PyObject *comm_close(PyObject *self, PyObject *none)
{
    struct comm *c = (struct comm *)self;
    (void)none;
    if (c->comm && c->busy)
        return rfgpy_raise("the communicator is in use by another thread: must not be closed");
    if (c->comm) {
        rfg_comm *comm = c->comm;
        c->comm = NULL;
        PyThreadState *gil = PyEval_SaveThread();
        of_comm.rfg_comm_destroy(&comm);
        PyEval_RestoreThread(gil);
        rfgpy_context_leave(c->context);
    }
    Py_RETURN_NONE;
}

static void comm_dealloc(PyObject *self)
{
    struct comm *c = (struct comm *)self;
    Py_XDECREF(comm_close(self, NULL));
    Py_XDECREF((PyObject *)c->context);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *comm_handle(PyObject *self, PyObject *none)
{
    struct comm *c = (struct comm *)self;
    rfg_comm_handle h;
    (void)none;
    if (!enter(c))
        return NULL;
    rfg_status st = of_comm.rfg_comm_get_handle(c->comm, &h);
    leave(c);
    return st == RFG_OK ? PyBytes_FromStringAndSize((const char *)h.bytes, sizeof(h.bytes)) : rfgpy_raise_status(st);
}

/* A sequence of all ranks' handles. */
static PyObject *comm_connect(PyObject *self, PyObject *arg)
{
    struct comm *c = (struct comm *)self;
    rfg_comm_handle all[RFG_COMM_MAX_RANKS];
    PyObject *list = PySequence_Fast(arg, "connect() takes the ranks' handles, in their order");
    if (!list)
        return NULL;
    bool ok = PySequence_Fast_GET_SIZE(list) == c->ranks;
    for (int r = 0; ok && r < c->ranks; r++) {
        PyObject *one = PySequence_Fast_GET_ITEM(list, r);
        ok = PyBytes_Check(one) && PyBytes_GET_SIZE(one) == sizeof(all[r]);
        if (ok)
            memcpy(&all[r], PyBytes_AS_STRING(one), sizeof(all[r]));
    }
    Py_DECREF(list);
    if (!ok)
        return rfgpy_raise("connect: handles: must be %d of %zu bytes, as handle() makes them", c->ranks,
                           sizeof(all[0]));
    if (!enter(c))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = of_comm.rfg_comm_connect(c->comm, all);
    PyEval_RestoreThread(gil);
    return result_of(c, st);
}

static PyObject *comm_prepare(PyObject *self, PyObject *arg)
{
    struct comm *c = (struct comm *)self;
    long dtype = PyLong_AsLong(arg);
    if (PyErr_Occurred() || !enter(c))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = of_comm.rfg_comm_prepare(c->comm, (rfg_dtype)dtype);
    PyEval_RestoreThread(gil);
    return result_of(c, st);
}

static PyObject *comm_check(PyObject *self, PyObject *none)
{
    struct comm *c = (struct comm *)self;
    (void)none;
    return enter(c) ? result_of(c, of_comm.rfg_comm_check(c->comm)) : NULL;
}

static PyMethodDef methods[] = {
    { "close", comm_close, METH_NOARGS, NULL }, { "handle", comm_handle, METH_NOARGS, NULL },
    { "connect", comm_connect, METH_O, NULL },  { "prepare", comm_prepare, METH_O, NULL },
    { "check", comm_check, METH_NOARGS, NULL }, { 0 },
};

PyTypeObject rfgpy_comm_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rfg._rfg.Comm",
    .tp_basicsize = sizeof(struct comm),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = comm_init,
    .tp_dealloc = comm_dealloc,
    .tp_methods = methods,
};

bool rfgpy_comm_init(PyObject *module)
{
    return !PyType_Ready(&rfgpy_comm_type) && !PyModule_AddObjectRef(module, "Comm", (PyObject *)&rfgpy_comm_type);
}
