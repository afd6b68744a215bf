/* SPDX-License-Identifier: MIT
 *
 * libhiprtc, emulated: clang compiles. Declarations as in the header of hipRTC; numbers of results the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_clang.h"

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct program {
    char *source, *log;
    void *code;
    size_t size;
};

STUB_API int hiprtcVersion(int *major, int *minor);
STUB_API const char *hiprtcGetErrorString(int result);
STUB_API int hiprtcCreateProgram(struct program **prog, const char *source, const char *name, int n,
                                 const char *const *headers, const char *const *names);
STUB_API int hiprtcCompileProgram(struct program *prog, int n, const char *const *options);
STUB_API int hiprtcGetProgramLogSize(struct program *prog, size_t *size);
STUB_API int hiprtcGetProgramLog(struct program *prog, char *log);
STUB_API int hiprtcGetCodeSize(struct program *prog, size_t *size);
STUB_API int hiprtcGetCode(struct program *prog, char *code);
STUB_API int hiprtcDestroyProgram(struct program **prog);

/* 9.0 for every ROCm 5 and 6 (hipamd/src/hiprtc/hiprtc.cpp: hiprtcVersion()), the release's own from 7.0 on. */
int hiprtcVersion(int *major, int *minor)
{
    *major = EMU_ROCM < 70000 ? 9 : EMU_ROCM / 10000;
    *minor = EMU_ROCM < 70000 ? 0 : EMU_ROCM / 100 % 100;
    return SUCCESS;
}

const char *hiprtcGetErrorString(int result)
{
    static const char *const names[] = { [SUCCESS] = "HIPRTC_SUCCESS",
                                         [OUT_OF_MEMORY] = "HIPRTC_ERROR_OUT_OF_MEMORY",
                                         [INVALID_INPUT] = "HIPRTC_ERROR_INVALID_INPUT",
                                         [INVALID_PROGRAM] = "HIPRTC_ERROR_INVALID_PROGRAM",
                                         [INVALID_OPTION] = "HIPRTC_ERROR_INVALID_OPTION",
                                         [COMPILATION] = "HIPRTC_ERROR_COMPILATION" };
    bool known = result >= 0 && result < (int)(sizeof(names) / sizeof(names[0])) && names[result];
    return known ? names[result] : "Invalid HIPRTC error code";
}

int hiprtcCreateProgram(struct program **prog, const char *source, const char *name, int n, const char *const *headers,
                        const char *const *names)
{
    (void)name;
    (void)headers;
    (void)names;
    if (!prog || !source || n) /* headers: not offered */
        return INVALID_INPUT;
    struct program *p = calloc(1, sizeof(*p));
    if (p && !(p->source = strdup(source))) {
        free(p);
        p = NULL;
    }
    *prog = p;
    return p ? SUCCESS : OUT_OF_MEMORY;
}

int hiprtcCompileProgram(struct program *prog, int n, const char *const *options)
{
    const char *args[32] = { "--cuda-device-only",
                             "--no-gpu-bundle-output",
                             "-nogpuinc",
                             "-nogpulib",
                             "--no-default-config",
                             "-fuse-cuid=none",
                             "-D__HIPCC_RTC__=1",
                             "-std=c++17",
                             "-x",
                             "hip",
                             EMU_ROCM >= 70000 ? "-mcode-object-version=6" : NULL /* the default of its clang 20 */ };
    int at = 0;
    if (!prog || n < 0 || n > 16)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    while (args[at])
        at++;
    for (int i = 0; i < n; i++) {
        const char *arch = strncmp(options[i], "--offload-arch=", 15) ? NULL : options[i] + 15;
        char target[24] = "";
        if (arch)
            snprintf(target, sizeof(target), "%.*s", (int)strcspn(arch, ":"), arch);
        if (arch && !stub_has_target(target)) {
            /* 5.x asserts that comgr knows it. */
            if (EMU_ROCM < 60000) {
                fprintf(stderr, "hiprtc: %s is no target of this comgr\n", arch);
                abort();
            }
            free(prog->log);
            prog->log = strdup("error: invalid target ID");
            return COMPILATION;
        }
        args[at++] = options[i];
    }
    free(prog->code);
    free(prog->log);
    return stub_clang(args, "rfg.hip", prog->source, strlen(prog->source), &prog->code, &prog->size, &prog->log)
               ? SUCCESS
               : COMPILATION;
}

int hiprtcGetProgramLogSize(struct program *prog, size_t *size)
{
    if (!prog || !size)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    *size = prog->log && *prog->log ? strlen(prog->log) + 1 : 0;
    return SUCCESS;
}

int hiprtcGetProgramLog(struct program *prog, char *log)
{
    if (!prog || !log)
        return prog ? INVALID_INPUT : INVALID_PROGRAM;
    if (prog->log)
        memcpy(log, prog->log, strlen(prog->log) + 1);
    return SUCCESS;
}

int hiprtcGetCodeSize(struct program *prog, size_t *size)
{
    if (!prog || !prog->code || !size)
        return INVALID_PROGRAM;
    *size = prog->size;
    return SUCCESS;
}

int hiprtcGetCode(struct program *prog, char *code)
{
    if (!prog || !prog->code || !code)
        return INVALID_PROGRAM;
    memcpy(code, prog->code, prog->size);
    return SUCCESS;
}

int hiprtcDestroyProgram(struct program **prog)
{
    if (!prog || !*prog)
        return INVALID_PROGRAM;
    free((*prog)->source);
    free((*prog)->log);
    free((*prog)->code);
    free(*prog);
    *prog = NULL;
    return SUCCESS;
}
