/* SPDX-License-Identifier: MIT
 *
 * comgr's assembler and linker, for the assembly that hipRTC does not take. The caller has asked its list of ISAs. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "jit_internal.h"

/* amd_comgr.h: handles are structs of one 64-bit integer, passed by value. */
struct data {
    uint64_t handle;
};
struct set {
    uint64_t handle;
};
struct info {
    uint64_t handle;
};
#define SOURCE_NAME "rfg.s"
enum { KIND_SOURCE = 1, KIND_LOG = 5, KIND_RELOCATABLE = 7, KIND_EXECUTABLE = 8 };

struct comgr {
    void (*version)(size_t *major, size_t *minor);
    int (*status_string)(int status, const char **text);
    int (*create_data)(int kind, struct data *data);
    int (*release_data)(struct data data);
    int (*set_data)(struct data data, size_t size, const char *bytes);
    int (*set_data_name)(struct data data, const char *name);
    int (*get_data)(struct data data, size_t *size, char *bytes);
    int (*create_set)(struct set *set);
    int (*destroy_set)(struct set set);
    int (*set_add)(struct set set, struct data data);
    int (*set_get)(struct set set, int kind, size_t index, struct data *data);
    int (*set_count)(struct set set, int kind, size_t *count);
    int (*create_info)(struct info *info);
    int (*destroy_info)(struct info info);
    int (*set_isa)(struct info info, const char *isa);
    int (*set_logging)(struct info info, bool on);
    int (*action)(int kind, struct info info, struct set in, struct set out);
};

static bool load(void *lib, struct comgr *c, struct rfg_reason *why)
{
    const struct {
        void **fn;
        const char *name;
    } names[] = {
        { (void **)&c->version, "amd_comgr_get_version" },
        { (void **)&c->status_string, "amd_comgr_status_string" },
        { (void **)&c->create_data, "amd_comgr_create_data" },
        { (void **)&c->release_data, "amd_comgr_release_data" },
        { (void **)&c->set_data, "amd_comgr_set_data" },
        { (void **)&c->set_data_name, "amd_comgr_set_data_name" },
        { (void **)&c->get_data, "amd_comgr_get_data" },
        { (void **)&c->create_set, "amd_comgr_create_data_set" },
        { (void **)&c->destroy_set, "amd_comgr_destroy_data_set" },
        { (void **)&c->set_add, "amd_comgr_data_set_add" },
        { (void **)&c->set_get, "amd_comgr_action_data_get_data" },
        { (void **)&c->set_count, "amd_comgr_action_data_count" },
        { (void **)&c->create_info, "amd_comgr_create_action_info" },
        { (void **)&c->destroy_info, "amd_comgr_destroy_action_info" },
        { (void **)&c->set_isa, "amd_comgr_action_info_set_isa_name" },
        { (void **)&c->set_logging, "amd_comgr_action_info_set_logging" },
        { (void **)&c->action, "amd_comgr_do_action" },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(*names[i].fn = dlsym(lib, names[i].name)))
            return rfg_refuse(why, "libamd_comgr has no %s", names[i].name);
    return true;
}

/* The first result of a kind, with a NUL behind it; empty if there is none. */
static struct rfg_blob take(const struct comgr *c, struct set out, int kind)
{
    struct rfg_blob blob = { 0 };
    struct data data;
    size_t n = 0;
    if (c->set_count(out, kind, &n) || n == 0 || c->set_get(out, kind, 0, &data))
        return blob;
    if (!c->get_data(data, &blob.size, NULL) && (blob.data = calloc(1, blob.size + 1)) &&
        c->get_data(data, &blob.size, blob.data))
        rfg_blob_free(&blob);
    c->release_data(data);
    return blob;
}

static int fill(const struct comgr *c, struct set source, const char *text)
{
    struct data data;
    int err = c->create_data(KIND_SOURCE, &data);
    if (err)
        return err;
    err = c->set_data(data, strlen(text), text);
    if (!err)
        err = c->set_data_name(data, SOURCE_NAME);
    if (!err)
        err = c->set_add(source, data);
    c->release_data(data);
    return err;
}

/* Where line `number` of the expanded source comes from, by the '# LINE "FILE"' before it. Returns the line; *file and
 * its length are untouched if nothing says. */
static long origin(const char *source, long number, const char **file, int *len)
{
    long line = 0;
    for (const char *s = source; *s && number-- > 0; s += strcspn(s, "\n"), s += *s == '\n') {
        char *end;
        line++;
        if (strncmp(s, "# ", 2) || s[2] < '0' || s[2] > '9')
            continue;
        line = strtol(s + 2, &end, 10) - 1;
        *file = end + strspn(end, " \"");
        *len = (int)strcspn(*file, "\"\n");
    }
    return line;
}

/* The log with places in FILE:LINE instead of comgr's temporary file (its assembler does not look at '#' lines). */
static char *with_places(const char *log, const char *source)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = rfg_text_stream(&text, &size);
    for (const char *s = log, *next; out && *s; s = next) {
        size_t n = strcspn(s, "\n");
        const char *at = memmem(s, n, "/" SOURCE_NAME ":", strlen("/" SOURCE_NAME ":")), *file = SOURCE_NAME;
        int len = (int)strlen(file);
        next = s + n + (s[n] == '\n');
        if (at) {
            char *end;
            long line = origin(source, strtol(at + strlen("/" SOURCE_NAME ":"), &end, 10), &file, &len);
            fprintf(out, "%.*s:%ld", len, file, line);
            s = end;
        }
        fprintf(out, "%.*s", (int)(next - s), s);
    }
    bool whole = out && !ferror(out);
    if (!out || fclose(out) || !whole) {
        free(text);
        return NULL;
    }
    return text;
}

rfg_status rfg_comgr_assemble(void *lib, const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                              struct rfg_blob *code, char **log)
{
    struct comgr c;
    struct rfg_reason why = { "" };
    if (!load(lib, &c, &why))
        return rfg_jit_failed(prov, req, NULL, why.text);
    char isa[64];
    snprintf(isa, sizeof(isa), "amdgcn-amd-amdhsa--%s", req->target);
    size_t major = 0, minor = 0;
    c.version(&major, &minor);
    /* comgr 3 took two actions away and closed the gaps. */
    int assemble = major >= 3 ? 0x8 : 0xa, link = major >= 3 ? 0x7 : 0x9;

    struct info info = { 0 };
    struct set set[3] = { { 0 } }; /* source, relocatable, executable */
    int err = c.create_info(&info), sets = 0;
    bool has_info = !err;
    while (!err && sets < 3 && !(err = c.create_set(&set[sets])))
        sets++;
    if (!err)
        err = c.set_isa(info, isa);
    if (!err)
        err = c.set_logging(info, true);
    if (!err)
        err = fill(&c, set[0], req->source);
    for (int step = 0; !err && step < 2; step++) {
        err = c.action(step ? link : assemble, info, set[step], set[step + 1]);
        struct rfg_blob text = take(&c, set[step + 1], KIND_LOG);
        if (text.data && *(char *)text.data) {
            free(*log);
            *log = with_places(text.data, req->source);
        }
        rfg_blob_free(&text);
    }
    if (!err)
        *code = take(&c, set[2], KIND_EXECUTABLE);
    while (sets > 0)
        c.destroy_set(set[--sets]);
    if (has_info)
        c.destroy_info(info);
    if (code->data)
        return RFG_OK;
    const char *text = "it left no code object";
    if (err)
        c.status_string(err, &text);
    return rfg_jit_failed(prov, req, *log, text);
}
