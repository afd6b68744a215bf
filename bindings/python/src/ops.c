/* SPDX-License-Identifier: MIT
 *
 * The operators: each is a row of the table in op_table.c. An object of type Op calls it:
 *
 *   _rfg.rmsnorm(y, x, weight, eps=1e-5, quant=("token", q, scale), stream=None, ctx=None)
 *
 * takes the C function's tensors in their order, outputs first, then the params struct's members by name. */
#include "op.h"

/* ---- one call ---------------------------------------------------------------------------------------------------- */

enum { MOST_TENSORS = 10, MOST_MEMBERS = 40, MOST_PARAMS = 320 };

struct op_object {
    PyObject_HEAD vectorcallfunc vectorcall;
    const struct op *op;
    function fn; /* found at the first call */
    int tensors, outputs, members;
    const char *names[MOST_TENSORS];
    char text[96];
    PyObject *keywords[MOST_MEMBERS]; /* interned, those of params */
};
static PyObject *str_stream, *str_ctx, *str_cuda_stream;

/* Builds a call's params. */
struct scratch {
    struct views views;
    rfg_quant quant;
    _Alignas(16) char params[MOST_PARAMS], nested[MOST_PARAMS];
};

static bool words(PyObject *value, const char *what, const char *const *names, int first, int *out)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    for (int i = 0; text && names[i]; i++)
        if (!strcmp(text, names[i])) {
            *out = first + i;
            return true;
        }
    char all[160] = "";
    for (int i = 0; names[i]; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", names[i]);
    PyErr_Clear();
    return rfgpy_raise("%s: '%s': must be one of %s", what, text ? text : Py_TYPE(value)->tp_name, all);
}

static const char *const roundings[] = { "exact", "up", "down", "even", "ceil", NULL };

static bool set_quant(struct scratch *s, PyObject *value, const rfg_quant **to)
{
    static const char *const kinds[] = { "static", "token", "group", "mx", NULL };
    PyObject *kind, *q, *scale;
    int number, rounding = RFG_SCALE_EXACT;
    Py_ssize_t size = PyTuple_Check(value) ? PyTuple_GET_SIZE(value) : 0;
    if (size != 3 && size != 4)
        return rfgpy_raise("%s: quant: is a %s: must be a rfg.Quant (kind, q, scale[, rounding])", s->views.op,
                           Py_TYPE(value)->tp_name);
    kind = PyTuple_GET_ITEM(value, 0), q = PyTuple_GET_ITEM(value, 1), scale = PyTuple_GET_ITEM(value, 2);
    if (!words(kind, "quant.kind", kinds, RFG_SCALE_STATIC, &number) ||
        (size == 4 && !words(PyTuple_GET_ITEM(value, 3), "quant.rounding", roundings, RFG_SCALE_EXACT, &rounding)))
        return false;
    s->quant = (rfg_quant){ .size = sizeof(s->quant),
                            .kind = (rfg_scale_kind)number,
                            .rounding = (rfg_scale_rounding)rounding };
    if (!(s->quant.q = rfgpy_view(&s->views, q, "quant.q", true)) ||
        !(s->quant.scale = rfgpy_view(&s->views, scale, "quant.scale", number != RFG_SCALE_STATIC)))
        return false;
    *to = &s->quant;
    return true;
}

static bool set_int(void *to, PyObject *value, const char *name, enum member_kind kind)
{
    long long n = PyLong_AsLongLong(value);
    if (n == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return rfgpy_raise("%s: must be a whole number of 64 bits", name);
    }
    if (kind == INT64)
        *(int64_t *)to = n;
    else if (n < INT32_MIN || n > INT32_MAX)
        return rfgpy_raise("%s: %lld: must be a number of 32 bits", name, n);
    else
        *(int32_t *)to = (int32_t)n;
    return true;
}

static long dimensions_of(PyObject *tensor)
{
    PyObject *ndim = PyObject_GetAttrString(tensor, "ndim");
    long n = ndim ? PyLong_AsLong(ndim) : 0;
    Py_XDECREF(ndim);
    PyErr_Clear(); /* what is no tensor is refused where it is read */
    return n;
}

static bool set_nested(struct scratch *s, const struct member *m, PyObject *value);

static bool set_member(struct scratch *s, char *params, const struct member *m, PyObject *value)
{
    static const char *const pers[] = { "tensor", "row", "block", "group", NULL };
    static const char *const scalings[] = { "default", "linear",   "llama3",       "yarn",
                                            "dynamic", "longrope", "proportional", NULL };
    static const char *const acts[] = { "silu",      "gelu", "gelu_tanh",  "relu", "relu2",
                                        "swigluoai", "situ", "swiglustep", "none", NULL };
    static const char *const gates[] = { "halves", "interleaved", NULL };
    void *to = params + m->offset;
    if (value == Py_None)
        return true; /* as RFG_<OP>_PARAMS_INIT has it */
    switch (m->kind) {
    case FLOAT:
    case DOUBLE: {
        double d = PyFloat_AsDouble(value);
        if (d == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return rfgpy_raise("%s: %s: is a %s: must be a number", s->views.op, m->name, Py_TYPE(value)->tp_name);
        }
        if (m->kind == DOUBLE)
            *(double *)to = d;
        else
            *(float *)to = (float)d;
        return true;
    }
    case INT32:
    case INT64:
        return set_int(to, value, m->name, m->kind);
    case INT32_4: {
        PyObject *list = PySequence_Fast(value, "");
        bool ok = list && PySequence_Fast_GET_SIZE(list) <= 4;
        PyErr_Clear();
        if (!ok)
            rfgpy_raise("%s: %s: must be at most four numbers", s->views.op, m->name);
        for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(list); i++)
            ok = set_int((int32_t *)to + i, PySequence_Fast_GET_ITEM(list, i), m->name, INT32);
        Py_XDECREF(list);
        return ok;
    }
    case INPUT:
    case OUTPUT:
    case SCALES: {
        bool output = m->kind == OUTPUT || (m->kind == SCALES && dimensions_of(value) > 1);
        return (*(const rfg_tensor **)to = rfgpy_view(&s->views, value, m->name, output)) != NULL;
    }
    case QUANT:
        return set_quant(s, value, to);
    case ACT:
        return words(value, "act", acts, RFG_ACT_SILU, to);
    case GATES:
        return words(value, "gates", gates, RFG_GATES_HALVES, to);
    case PER:
        return words(value, m->name, pers, RFG_GEMM_SCALE_TENSOR, to);
    case SCALING:
        return words(value, "scaling", scalings, RFG_ROPE_DEFAULT, to);
    case ROUNDING:
        return words(value, "rounding", roundings, RFG_SCALE_EXACT, to);
    case NESTED:
        return set_nested(s, m, value) && (*(const void **)to = s->nested, true);
    case MEMORY: { /* of a tensor's, from where it is aligned to 256 bytes */
        const rfg_tensor *t = rfgpy_view(&s->views, value, m->name, true);
        if (t)
            *(void **)to = (void *)(((uintptr_t)t->data + 255) / 256 * 256);
        return t != NULL;
    }
    }
    return false;
}

/* A params struct inside of another's: a dict of its members. */
static bool set_nested(struct scratch *s, const struct member *m, PyObject *value)
{
    if (!PyDict_Check(value))
        return rfgpy_raise("%s: %s: is a %s: must be a dict", s->views.op, m->name, Py_TYPE(value)->tp_name);
    memcpy(s->nested, m->nested->init, m->nested->size);
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
        const struct member *inner = m->nested->members;
        while (inner->name && !(PyUnicode_Check(key) && !PyUnicode_CompareWithASCIIString(key, inner->name)))
            inner++;
        if (!inner->name)
            return rfgpy_raise("%s: %s: has no such member: %.100s", s->views.op, m->name,
                               PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : "?");
        if (!set_member(s, s->nested, inner, item))
            return false;
    }
    return true;
}

/* None: the current one. A number, or what has one: torch.cuda.Stream. */
static bool set_stream(const struct scratch *s, PyObject *given, rfg_stream *stream)
{
    if (!given || given == Py_None)
        return rfgpy_current_stream(&s->views, stream);
    PyObject *number = PyLong_Check(given) ? Py_NewRef(given) : PyObject_GetAttr(given, str_cuda_stream);
    *stream = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (!PyErr_Occurred())
        return true;
    PyErr_Clear();
    return rfgpy_raise("%s: stream: is a %s: must be a stream of torch.cuda, or a stream's address as a number",
                       s->views.op, Py_TYPE(given)->tp_name);
}

static bool keyword(struct op_object *o, struct scratch *s, PyObject *name, PyObject *value, PyObject **stream,
                    PyObject **ctx)
{
    if (name == str_stream)
        *stream = value;
    else if (name == str_ctx)
        *ctx = value;
    else {
        for (int i = 0; i < o->members; i++)
            if (o->keywords[i] == name)
                return set_member(s, s->params, &o->op->params->members[i], value);
        /* Not interned, or none of ours. */
        PyObject *interned = Py_NewRef(name);
        PyUnicode_InternInPlace(&interned);
        bool ok;
        if (interned != name)
            ok = keyword(o, s, interned, value, stream, ctx);
        else
            ok = PyErr_Format(PyExc_TypeError, "%s() has no argument '%U'", o->op->name, name);
        Py_DECREF(interned);
        return ok;
    }
    return true;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct op_object *o = (struct op_object *)self;
    const struct op *op = o->op;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), n_names = names ? PyTuple_GET_SIZE(names) : 0;
    if (nargs != o->tensors)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d tensors (%s), not %zd", op->name, o->tensors, op->tensors,
                            nargs);
    if (!o->fn) {
        if (!rfgpy_need_library())
            return NULL;
        *(void **)&o->fn = rfgpy_symbol(op->symbol);
        if (!o->fn)
            return rfgpy_raise("%s: this librfg (%s) has no %s()", op->name, api.rfg_version(), op->symbol);
    }
    struct scratch s;
    s.views.op = op->name;
    s.views.like = NULL;
    s.views.n = s.views.n_buffers = 0;
    const rfg_tensor *t[MOST_TENSORS];
    PyObject *given_stream = NULL, *given_ctx = NULL, *result = NULL;
    struct context *ctx = NULL;
    void *handle = NULL; /* the context's, or the communicator's */
    rfg_stream stream;
    if (op->params)
        memcpy(s.params, op->params->init, op->params->size);
    for (int n = 0; n < o->tensors; n++) { /* inputs first: outputs may have been made like them, wrong ones too */
        int i = (n + o->outputs) % o->tensors;
        if (args[i] == Py_None)
            t[i] = NULL;
        else if (!(t[i] = rfgpy_view(&s.views, args[i], o->names[i], i < o->outputs)))
            goto end;
    }
    for (Py_ssize_t i = 0; i < n_names; i++)
        if (!keyword(o, &s, PyTuple_GET_ITEM(names, i), args[nargs + i], &given_stream, &given_ctx))
            goto end;
    if (!s.views.n) {
        rfgpy_raise("%s: there is no tensor among the arguments", op->name);
        goto end;
    }
    if (!set_stream(&s, given_stream, &stream) ||
        !(ctx = op->joint ? rfgpy_comm_enter(given_ctx, op->name, &s.views.device, &handle)
                          : rfgpy_context_for(given_ctx, &s.views.device)) ||
        (!op->joint && !rfgpy_context_enter(ctx)))
        goto end;
    size_t bytes;
    PyThreadState *gil = PyEval_SaveThread();
    rfg_status st = op->call(o->fn, op->joint ? handle : ctx->ctx, t, s.params, stream);
    PyEval_RestoreThread(gil);
    if (st != RFG_OK)
        result = rfgpy_raise_status(st);
    else
        result = rfgpy_op_says(op, &bytes) ? PyLong_FromSize_t(bytes) : Py_NewRef(Py_None);
    if (op->joint)
        rfgpy_comm_leave(given_ctx);
    else
        rfgpy_context_leave(ctx);
end:
    Py_XDECREF(ctx);
    rfgpy_views_release(&s.views);
    return result;
}

/* ---- the objects ------------------------------------------------------------------------------------------------- */

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct op_object *)self)->op->name);
}

static PyObject *get_symbol(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct op_object *)self)->op->symbol);
}

static PyObject *get_tensors(PyObject *self, void *unused)
{
    (void)unused;
    struct op_object *o = (struct op_object *)self;
    PyObject *names = PyTuple_New(o->tensors);
    for (int i = 0; names && i < o->tensors; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(o->names[i]));
    return names;
}

static PyObject *get_members(PyObject *self, void *unused)
{
    (void)unused;
    struct op_object *o = (struct op_object *)self;
    PyObject *names = PyTuple_New(o->members);
    for (int i = 0; names && i < o->members; i++)
        PyTuple_SET_ITEM(names, i, Py_NewRef(o->keywords[i]));
    return names;
}

static PyGetSetDef op_getset[] = {
    { "__name__", get_name, NULL, NULL, NULL },
    { "symbol", get_symbol, NULL, "the C function's name", NULL },
    { "tensors", get_tensors, NULL, "names of the tensors, in order", NULL },
    { "members", get_members, NULL, "names of the params struct's members", NULL },
    { 0 },
};

static PyTypeObject op_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "rfg._rfg.Op",         .tp_basicsize = sizeof(struct op_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(struct op_object, vectorcall), .tp_getset = op_getset,
};

static bool name_tensors(struct op_object *o)
{
    snprintf(o->text, sizeof(o->text), "%s", o->op->tensors);
    for (char *at = o->text, *word; (word = strsep(&at, " "));) {
        if (!strcmp(word, "-"))
            o->outputs = o->tensors;
        else if (o->tensors < MOST_TENSORS)
            o->names[o->tensors++] = word;
    }
    return true;
}

static bool name_members(struct op_object *o)
{
    const struct params *p = o->op->params;
    if (p && p->size > MOST_PARAMS) {
        PyErr_Format(PyExc_SystemError, "rfg: %s: params of %zu bytes", o->op->name, p->size);
        return false;
    }
    for (const struct member *m = p ? p->members : NULL; m && m->name && o->members < MOST_MEMBERS; m++)
        if (!(o->keywords[o->members++] = PyUnicode_InternFromString(m->name)))
            return false;
    return true;
}

bool rfgpy_ops_init(PyObject *module)
{
    if (PyType_Ready(&op_type) || !(str_stream = PyUnicode_InternFromString("stream")) ||
        !(str_ctx = PyUnicode_InternFromString("ctx")) ||
        !(str_cuda_stream = PyUnicode_InternFromString("cuda_stream")))
        return false;
    for (size_t i = 0; i < rfgpy_n_ops; i++) {
        struct op_object *o = PyObject_New(struct op_object, &op_type);
        if (!o)
            return false;
        memset((char *)o + sizeof(PyObject), 0, sizeof(*o) - sizeof(PyObject));
        o->vectorcall = call;
        o->op = &rfgpy_ops[i];
        bool ok =
            name_tensors(o) && name_members(o) && !PyModule_AddObjectRef(module, rfgpy_ops[i].name, (PyObject *)o);
        Py_DECREF(o); /* the module keeps it */
        if (!ok)
            return false;
    }
    return true;
}
