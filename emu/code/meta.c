/* SPDX-License-Identifier: MIT
 *
 * The metadata of a code object: msgpack in a note, as the AMDGPU backend's guide describes it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unpack.h"
#include "code.h"

#define MAX_KERNELS 65536

static const struct {
    const char *name;
    enum emu_arg_kind kind;
} kinds[] = {
    { "by_value", EMU_ARG_BY_VALUE },
    { "global_buffer", EMU_ARG_GLOBAL_BUFFER },
    { "dynamic_shared_pointer", EMU_ARG_DYNAMIC_SHARED_POINTER },
    { "hidden_block_count_x", EMU_ARG_HIDDEN_BLOCK_COUNT_X },
    { "hidden_block_count_y", EMU_ARG_HIDDEN_BLOCK_COUNT_Y },
    { "hidden_block_count_z", EMU_ARG_HIDDEN_BLOCK_COUNT_Z },
    { "hidden_group_size_x", EMU_ARG_HIDDEN_GROUP_SIZE_X },
    { "hidden_group_size_y", EMU_ARG_HIDDEN_GROUP_SIZE_Y },
    { "hidden_group_size_z", EMU_ARG_HIDDEN_GROUP_SIZE_Z },
    { "hidden_remainder_x", EMU_ARG_HIDDEN_REMAINDER_X },
    { "hidden_remainder_y", EMU_ARG_HIDDEN_REMAINDER_Y },
    { "hidden_remainder_z", EMU_ARG_HIDDEN_REMAINDER_Z },
    { "hidden_grid_dims", EMU_ARG_HIDDEN_GRID_DIMS },
    { "hidden_dynamic_lds_size", EMU_ARG_HIDDEN_DYNAMIC_LDS_SIZE },
    { "hidden_private_base", EMU_ARG_HIDDEN_PRIVATE_BASE },
    { "hidden_shared_base", EMU_ARG_HIDDEN_SHARED_BASE },
    { "hidden_queue_ptr", EMU_ARG_HIDDEN_QUEUE_PTR },
    { "hidden_hostcall_buffer", EMU_ARG_HIDDEN_HOSTCALL_BUFFER },
    { "hidden_multigrid_sync_arg", EMU_ARG_HIDDEN_MULTIGRID_SYNC_ARG },
    { "hidden_printf_buffer", EMU_ARG_HIDDEN_PRINTF_BUFFER },
};

struct parser {
    struct emu_code *code;
    char *error;
    size_t error_size;
    char where[160]; /* "kernel 'x'" */
};

__attribute__((format(printf, 2, 3))) static bool fail(struct parser *p, const char *fmt, ...)
{
    va_list ap;
    char text[256];
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    snprintf(p->error, p->error_size, "metadata%s%s: %s", *p->where ? ", " : "", p->where, text);
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool get_u32(struct parser *p, const msgpack_object *map, const char *key, uint32_t *out)
{
    const msgpack_object *o = rfg_unpack_get(map, key);
    if (!o)
        return true;
    if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 > UINT32_MAX)
        return fail(p, "%s: must be an integer from 0 to 2^32-1", key);
    *out = (uint32_t)o->via.u64;
    return true;
}

static bool get_int(struct parser *p, const msgpack_object *map, const char *key, int *out)
{
    uint32_t v = (uint32_t)*out;
    if (!get_u32(p, map, key, &v))
        return false;
    if (v > INT32_MAX)
        return fail(p, "%s is %u: must be at most 2^31-1", key, v);
    *out = (int)v;
    return true;
}

/* malloc'ed; *out stays NULL if the key is absent. */
static bool get_string(struct parser *p, const msgpack_object *map, const char *key, char **out)
{
    const msgpack_object *o = rfg_unpack_get(map, key);
    if (!o)
        return true;
    if (o->type != MSGPACK_OBJECT_STR || memchr(o->via.str.ptr, 0, o->via.str.size))
        return fail(p, "%s: must be a string", key);
    *out = strndup(o->via.str.ptr, o->via.str.size);
    return *out ? true : fail(p, "no memory");
}

static bool read_arg(struct parser *p, const msgpack_object *o, struct emu_arg *arg, uint32_t kernarg_bytes)
{
    const msgpack_object *kind = rfg_unpack_get(o, ".value_kind");
    if (o->type != MSGPACK_OBJECT_MAP || !kind || kind->type != MSGPACK_OBJECT_STR || !rfg_unpack_get(o, ".offset") ||
        !rfg_unpack_get(o, ".size"))
        return fail(p, "an argument lacks .offset, .size or .value_kind");
    if (!get_u32(p, o, ".offset", &arg->offset) || !get_u32(p, o, ".size", &arg->size) ||
        !get_string(p, o, ".name", &arg->name))
        return false;
    const char *s = kind->via.str.ptr;
    size_t len = kind->via.str.size;
    arg->kind = len > 7 && !memcmp(s, "hidden_", 7) ? EMU_ARG_HIDDEN_ZERO : EMU_ARG_OTHER;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strlen(kinds[i].name) == len && !memcmp(kinds[i].name, s, len))
            arg->kind = kinds[i].kind;
    if ((uint64_t)arg->offset + arg->size > kernarg_bytes)
        return fail(p, "an argument of %u bytes at offset %u: must lie in the %u bytes of the kernarg segment",
                    arg->size, arg->offset, kernarg_bytes);
    return true;
}

static bool read_args(struct parser *p, const msgpack_object *list, struct emu_kernel *k)
{
    if (!list)
        return true;
    if (list->type != MSGPACK_OBJECT_ARRAY)
        return fail(p, ".args: must be an array");
    k->arg = calloc(list->via.array.size + 1, sizeof(*k->arg));
    if (!k->arg)
        return fail(p, "no memory");
    /* hipModuleLaunchKernel()'s parameters are the explicit ones, which come first. */
    bool hidden_seen = false;
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        struct emu_arg *a = &k->arg[k->n_args++];
        if (!read_arg(p, &list->via.array.ptr[i], a, k->kernarg_bytes))
            return false;
        if (a->kind >= EMU_ARG_HIDDEN)
            hidden_seen = true;
        else if (hidden_seen)
            return fail(p, "argument %u is explicit, after a hidden one", i);
        else
            k->n_explicit = k->n_args;
    }
    return true;
}

static bool read_kernel(struct parser *p, const msgpack_object *o, struct emu_kernel *k, char **symbol)
{
    if (o->type != MSGPACK_OBJECT_MAP)
        return fail(p, "a kernel must be a map");
    if (!get_string(p, o, ".name", &k->name) || !get_string(p, o, ".symbol", symbol))
        return false;
    if (!k->name || !*symbol)
        return fail(p, "a kernel lacks .name or .symbol");
    snprintf(p->where, sizeof(p->where), "kernel '%.120s'", k->name);
    k->wave_size = p->code->arch->wave_size;
    k->kernarg_align = 8;
    k->max_threads = 1024;
    const msgpack_object *reqd = rfg_unpack_get(o, ".reqd_workgroup_size"),
                         *dynamic = rfg_unpack_get(o, ".uses_dynamic_stack");
    if (!get_u32(p, o, ".kernarg_segment_size", &k->kernarg_bytes) ||
        !get_u32(p, o, ".kernarg_segment_align", &k->kernarg_align) ||
        !get_int(p, o, ".wavefront_size", &k->wave_size) ||
        !get_int(p, o, ".max_flat_workgroup_size", &k->max_threads) || !get_int(p, o, ".sgpr_count", &k->n_sgprs) ||
        !get_int(p, o, ".vgpr_spill_count", &k->spilled_vgprs) ||
        !get_int(p, o, ".sgpr_spill_count", &k->spilled_sgprs))
        return false;
    if (k->wave_size != 64 && (k->wave_size != 32 || p->code->arch->wave_size == 64))
        return fail(p, ".wavefront_size is %d: must be 64%s", k->wave_size,
                    p->code->arch->wave_size == 64 ? "" : " or 32");
    if (k->max_threads < 1 || k->max_threads > 1024)
        return fail(p, ".max_flat_workgroup_size is %d: must be 1 to 1024", k->max_threads);
    if (k->kernarg_bytes > 65536)
        return fail(p, ".kernarg_segment_size is %u: must be at most 65536", k->kernarg_bytes);
    for (uint32_t i = 0; reqd && i < 3; i++) {
        const msgpack_object *n =
            reqd->type == MSGPACK_OBJECT_ARRAY && reqd->via.array.size == 3 ? &reqd->via.array.ptr[i] : NULL;
        if (!n || n->type != MSGPACK_OBJECT_POSITIVE_INTEGER || n->via.u64 < 1 || n->via.u64 > 1024)
            return fail(p, ".reqd_workgroup_size: must be three numbers from 1 to 1024");
        k->reqd[i] = (int)n->via.u64;
    }
    k->dynamic_stack = dynamic && dynamic->type == MSGPACK_OBJECT_BOOLEAN && dynamic->via.boolean;
    return read_args(p, rfg_unpack_get(o, ".args"), k);
}

static bool find_descriptor(struct parser *p, struct emu_kernel *k, const char *symbol)
{
    for (size_t i = 0; i < p->code->n_symbols; i++)
        if (!strcmp(p->code->symbol[i].name, symbol)) {
            k->descriptor = p->code->symbol[i].value;
            return true;
        }
    return fail(p, "the symbol '%.120s' of its descriptor is not in the file", symbol);
}

static bool read_root(struct parser *p, const msgpack_object *root)
{
    const msgpack_object *kernels = rfg_unpack_get(root, "amdhsa.kernels"),
                         *version = rfg_unpack_get(root, "amdhsa.version");
    if (!version || version->type != MSGPACK_OBJECT_ARRAY || version->via.array.size != 2 ||
        version->via.array.ptr[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return fail(p, "amdhsa.version: must be two numbers");
    if (version->via.array.ptr[0].via.u64 != 1)
        return fail(p, "amdhsa.version is %llu.x: must be 1.x", (unsigned long long)version->via.array.ptr[0].via.u64);
    if (!kernels)
        return true;
    if (kernels->type != MSGPACK_OBJECT_ARRAY || kernels->via.array.size > MAX_KERNELS)
        return fail(p, "amdhsa.kernels: must be an array of at most %d", MAX_KERNELS);
    p->code->kernel = calloc(kernels->via.array.size + 1, sizeof(*p->code->kernel));
    if (!p->code->kernel)
        return fail(p, "no memory");
    for (uint32_t i = 0; i < kernels->via.array.size; i++) {
        char *symbol = NULL;
        struct emu_kernel *k = &p->code->kernel[p->code->n_kernels++];
        bool ok = read_kernel(p, &kernels->via.array.ptr[i], k, &symbol) && find_descriptor(p, k, symbol);
        free(symbol);
        if (!ok)
            return false;
    }
    return true;
}

bool emu_meta_parse(struct emu_code *code, const uint8_t *data, size_t size, char *error, size_t error_size)
{
    struct parser p = { .code = code, .error = error, .error_size = error_size };
    if (!rfg_unpack_plausible(data, size))
        return fail(&p, "the note of %zu bytes is not msgpack", size);
    msgpack_unpacked u;
    msgpack_unpacked_init(&u);
    size_t offset = 0;
    bool ok = msgpack_unpack_next(&u, (const char *)data, size, &offset) == MSGPACK_UNPACK_SUCCESS;
    ok = ok ? read_root(&p, &u.data) : fail(&p, "the note of %zu bytes is not msgpack", size);
    msgpack_unpacked_destroy(&u);
    return ok;
}
