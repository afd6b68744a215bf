/* SPDX-License-Identifier: MIT
 *
 * What hipRTC and NVRTC have in common. */
#include "jit_rtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 8

bool rfg_rtc_bind(struct rfg_rtc *rtc, void *lib, const char *prefix, const char *code, char missing[64])
{
    char name[64];
#define LOAD(member, ...)                                                                                              \
    snprintf(name, sizeof(name), __VA_ARGS__);                                                                         \
    if (!(*(void **)&rtc->member = dlsym(lib, name))) {                                                                \
        memcpy(missing, name, sizeof(name));                                                                           \
        return false;                                                                                                  \
    }
    LOAD(version_fn, "%sVersion", prefix)
    LOAD(error_string, "%sGetErrorString", prefix)
    LOAD(create, "%sCreateProgram", prefix)
    LOAD(compile, "%sCompileProgram", prefix)
    LOAD(log_size, "%sGetProgramLogSize", prefix)
    LOAD(log, "%sGetProgramLog", prefix)
    LOAD(code_size, "%sGet%sSize", prefix, code)
    LOAD(code, "%sGet%s", prefix, code)
    LOAD(destroy, "%sDestroyProgram", prefix)
#undef LOAD
    return true;
}

bool rfg_rtc_available(const struct rfg_rtc *rtc, char *version, size_t size, struct rfg_reason *why)
{
    snprintf(version, size, "%s", rtc->version);
    if (!rtc->ok && why)
        *why = rtc->why;
    return rtc->ok;
}

rfg_status rfg_rtc_compile(const struct rfg_rtc *rtc, const struct rfg_jit_provider *prov, const char *name,
                           const char *arch_option, const struct rfg_jit_request *req, struct rfg_blob *code,
                           char **log)
{
    const char *args[1 + MAX_OPTIONS] = { arch_option };
    int n_args = 1;
    while (n_args <= MAX_OPTIONS && prov->options[n_args - 1]) {
        args[n_args] = prov->options[n_args - 1];
        n_args++;
    }
    rtc_program prog = NULL;
    size_t size = 0;
    int err = rtc->create(&prog, req->source, name, 0, NULL, NULL);
    if (!err) {
        err = rtc->compile(prog, n_args, args);
        if (rtc->log_size(prog, &size) == 0 && size > 1 && (*log = calloc(1, size + 1)))
            rtc->log(prog, *log);
        if (!err)
            err = rtc->code_size(prog, &size);
        if (!err && (code->data = malloc(size))) {
            code->size = size;
            err = rtc->code(prog, code->data);
        }
        rtc->destroy(&prog);
    }
    if (err || !code->data) {
        rfg_blob_free(code);
        return rfg_jit_failed(prov, req, *log, err ? rtc->error_string(err) : "out of memory");
    }
    return RFG_OK;
}
