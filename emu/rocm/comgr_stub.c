/* SPDX-License-Identifier: MIT
 *
 * libamd_comgr, emulated: the list of ISAs, and clang's assembler and linker behind its actions. Declarations and
 * numbers as in amd_comgr.h, which 3.0 (ROCm 6.4) took two actions out of and closed the gaps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_clang.h"

enum { SUCCESS = 0, ERROR = 1, INVALID = 2, OUT_OF_RESOURCES = 3 };
enum { SOURCE = 1, LOG = 5, RELOCATABLE = 7, EXECUTABLE = 8 };
#if EMU_ROCM >= 60400
enum { LINK = 0x7, ASSEMBLE = 0x8, MAJOR = 3, MINOR = EMU_ROCM >= 70000 };
#else
enum { LINK = 0x9, ASSEMBLE = 0xa, MAJOR = 2, MINOR = EMU_ROCM < 60000 ? 5 : 6 };
#endif

/* Handles are structs of one 64-bit integer, passed by value: here an address. */
struct handle {
    uint64_t address;
};
struct data {
    int kind, users;
    char name[64];
    void *bytes;
    size_t size;
};
#define MAX_SET 8
struct set {
    struct data *v[MAX_SET];
    size_t n;
};
struct info {
    char isa[64];
    bool logging;
};

#define AT(type, handle) ((type *)(uintptr_t)(handle).address)

STUB_API void amd_comgr_get_version(size_t *major, size_t *minor);
STUB_API int amd_comgr_status_string(int status, const char **text);
STUB_API int amd_comgr_get_isa_count(size_t *count);
STUB_API int amd_comgr_get_isa_name(size_t index, const char **name);
STUB_API int amd_comgr_create_data(int kind, struct handle *data);
STUB_API int amd_comgr_release_data(struct handle data);
STUB_API int amd_comgr_set_data(struct handle data, size_t size, const char *bytes);
STUB_API int amd_comgr_set_data_name(struct handle data, const char *name);
STUB_API int amd_comgr_get_data(struct handle data, size_t *size, char *bytes);
STUB_API int amd_comgr_create_data_set(struct handle *set);
STUB_API int amd_comgr_destroy_data_set(struct handle set);
STUB_API int amd_comgr_data_set_add(struct handle set, struct handle data);
STUB_API int amd_comgr_action_data_get_data(struct handle set, int kind, size_t index, struct handle *data);
STUB_API int amd_comgr_action_data_count(struct handle set, int kind, size_t *count);
STUB_API int amd_comgr_create_action_info(struct handle *info);
STUB_API int amd_comgr_destroy_action_info(struct handle info);
STUB_API int amd_comgr_action_info_set_isa_name(struct handle info, const char *isa);
STUB_API int amd_comgr_action_info_set_logging(struct handle info, bool on);
STUB_API int amd_comgr_do_action(int kind, struct handle info, struct handle in, struct handle out);

void amd_comgr_get_version(size_t *major, size_t *minor)
{
    *major = MAJOR;
    *minor = MINOR;
}

int amd_comgr_status_string(int status, const char **text)
{
    static const char *const names[] = { "SUCCESS", "ERROR", "INVALID_ARGUMENT", "OUT_OF_RESOURCES" };
    if (status < 0 || status > OUT_OF_RESOURCES || !text)
        return INVALID;
    *text = names[status];
    return SUCCESS;
}

int amd_comgr_get_isa_count(size_t *count)
{
    for (*count = 0; stub_targets[*count]; ++*count)
        ;
    return SUCCESS;
}

int amd_comgr_get_isa_name(size_t index, const char **name)
{
    static _Thread_local char text[64];
    size_t count;
    if (amd_comgr_get_isa_count(&count) || index >= count)
        return INVALID;
    snprintf(text, sizeof(text), "amdgcn-amd-amdhsa--%s", stub_targets[index]);
    *name = text;
    return SUCCESS;
}

static int make(size_t size, struct handle *out)
{
    void *p = calloc(1, size);
    out->address = (uintptr_t)p;
    return p ? SUCCESS : OUT_OF_RESOURCES;
}

int amd_comgr_create_data(int kind, struct handle *data)
{
    int st = make(sizeof(struct data), data);
    if (!st) {
        AT(struct data, *data)->kind = kind;
        AT(struct data, *data)->users = 1;
    }
    return st;
}

int amd_comgr_release_data(struct handle data)
{
    struct data *d = AT(struct data, data);
    if (!d)
        return INVALID;
    if (!--d->users) {
        free(d->bytes);
        free(d);
    }
    return SUCCESS;
}

int amd_comgr_set_data(struct handle data, size_t size, const char *bytes)
{
    struct data *d = AT(struct data, data);
    void *copy = d && bytes && size ? malloc(size) : NULL;
    if (!copy)
        return INVALID;
    free(d->bytes);
    d->bytes = memcpy(copy, bytes, size);
    d->size = size;
    return SUCCESS;
}

int amd_comgr_set_data_name(struct handle data, const char *name)
{
    struct data *d = AT(struct data, data);
    if (!d || !name)
        return INVALID;
    snprintf(d->name, sizeof(d->name), "%s", name);
    return SUCCESS;
}

int amd_comgr_get_data(struct handle data, size_t *size, char *bytes)
{
    const struct data *d = AT(struct data, data);
    if (!d || !size)
        return INVALID;
    if (bytes)
        memcpy(bytes, d->bytes, *size < d->size ? *size : d->size);
    else
        *size = d->size;
    return SUCCESS;
}

int amd_comgr_create_data_set(struct handle *set)
{
    return make(sizeof(struct set), set);
}

int amd_comgr_destroy_data_set(struct handle set)
{
    struct set *s = AT(struct set, set);
    for (size_t i = 0; s && i < s->n; i++)
        amd_comgr_release_data((struct handle){ (uintptr_t)s->v[i] });
    free(s);
    return s ? SUCCESS : INVALID;
}

int amd_comgr_data_set_add(struct handle set, struct handle data)
{
    struct set *s = AT(struct set, set);
    struct data *d = AT(struct data, data);
    if (!s || !d || s->n == MAX_SET || !*d->name) /* as the real one: data without a name is refused */
        return INVALID;
    d->users++;
    s->v[s->n++] = d;
    return SUCCESS;
}

int amd_comgr_action_data_count(struct handle set, int kind, size_t *count)
{
    const struct set *s = AT(struct set, set);
    *count = 0;
    for (size_t i = 0; s && i < s->n; i++)
        *count += s->v[i]->kind == kind;
    return s ? SUCCESS : INVALID;
}

int amd_comgr_action_data_get_data(struct handle set, int kind, size_t index, struct handle *data)
{
    const struct set *s = AT(struct set, set);
    for (size_t i = 0; s && i < s->n; i++)
        if (s->v[i]->kind == kind && !index--) {
            s->v[i]->users++;
            data->address = (uintptr_t)s->v[i];
            return SUCCESS;
        }
    return INVALID;
}

int amd_comgr_create_action_info(struct handle *info)
{
    return make(sizeof(struct info), info);
}

int amd_comgr_destroy_action_info(struct handle info)
{
    free(AT(struct info, info));
    return info.address ? SUCCESS : INVALID;
}

int amd_comgr_action_info_set_isa_name(struct handle info, const char *isa)
{
    static const char prefix[] = "amdgcn-amd-amdhsa--";
    if (!info.address || !isa || strncmp(isa, prefix, strlen(prefix)) || !stub_has_target(isa + strlen(prefix)))
        return INVALID;
    snprintf(AT(struct info, info)->isa, sizeof(AT(struct info, info)->isa), "%s", isa + strlen(prefix));
    return SUCCESS;
}

int amd_comgr_action_info_set_logging(struct handle info, bool on)
{
    if (!info.address)
        return INVALID;
    AT(struct info, info)->logging = on;
    return SUCCESS;
}

static int add(struct handle set, int kind, const char *name, const void *bytes, size_t size)
{
    struct handle data;
    int st = amd_comgr_create_data(kind, &data);
    if (st)
        return st;
    if (!(st = amd_comgr_set_data(data, size, bytes)) && !(st = amd_comgr_set_data_name(data, name)))
        st = amd_comgr_data_set_add(set, data);
    amd_comgr_release_data(data);
    return st;
}

int amd_comgr_do_action(int kind, struct handle info, struct handle in, struct handle out)
{
    const struct info *i = AT(struct info, info);
    struct handle data;
    bool link = kind == LINK;
    char cpu[80], *log = NULL;
    void *code = NULL;
    size_t size = 0;
    if (!i || !*i->isa || (!link && kind != ASSEMBLE) ||
        amd_comgr_action_data_get_data(in, link ? RELOCATABLE : SOURCE, 0, &data))
        return INVALID;
    const struct data *d = AT(struct data, data);
    snprintf(cpu, sizeof(cpu), "-mcpu=%s", i->isa);
    const char *const assemble[] = { "--no-default-config",     "-x", "assembler", "-target", "amdgcn-amd-amdhsa",
                                     "-mcode-object-version=4", cpu,  "-c",        NULL };
    const char *const links[] = { "--no-default-config", "-target", "amdgcn-amd-amdhsa", cpu, NULL };
    const struct stub_file file = { link ? "in.o" : d->name, d->bytes, d->size };
    bool ok = stub_clang(link ? links : assemble, &file, 1, &code, &size, &log);
    int st = ok ? add(out, link ? EXECUTABLE : RELOCATABLE, link ? "a.so" : "in.o", code, size) : ERROR;
    if (i->logging && log && *log)
        (void)add(out, LOG, "comgr.log", log, strlen(log));
    amd_comgr_release_data(data);
    free(code);
    free(log);
    return st;
}
