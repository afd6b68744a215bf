/* SPDX-License-Identifier: MIT
 *
 * What hipRTC and NVRTC have in common: the same functions under two prefixes. For jit_hiprtc.c and jit_nvrtc.c. */
#ifndef RFG_DISPATCH_JIT_RTC_H
#define RFG_DISPATCH_JIT_RTC_H

#include "jit_internal.h"

typedef struct rtc_program_s *rtc_program;

struct rfg_rtc {
    bool ok;
    char version[128];     /* for people and tuned rows: "nvrtc 13.0" */
    struct rfg_reason why; /* it is not ok */
    int (*version_fn)(int *major, int *minor);
    const char *(*error_string)(int result);
    int (*create)(rtc_program *prog, const char *src, const char *name, int n, const char *const *headers,
                  const char *const *names);
    int (*compile)(rtc_program prog, int n, const char *const *options);
    int (*log_size)(rtc_program prog, size_t *size);
    int (*log)(rtc_program prog, char *log);
    int (*code_size)(rtc_program prog, size_t *size);
    int (*code)(rtc_program prog, char *code);
    int (*destroy)(rtc_program *prog);
};

/* Looks the functions up: prefix "nvrtc", code "CUBIN" is nvrtcGetCUBIN(). False: the library has no `missing`. */
bool rfg_rtc_bind(struct rfg_rtc *rtc, void *lib, const char *prefix, const char *code, char missing[64]);

/* A provider's available(), once its library was looked for. */
bool rfg_rtc_available(const struct rfg_rtc *rtc, char *version, size_t size, struct rfg_reason *why);

/* A provider's compile() with arch_option and the provider's options; name: the source file's, in the log. */
rfg_status rfg_rtc_compile(const struct rfg_rtc *rtc, const struct rfg_jit_provider *prov, const char *name,
                           const char *arch_option, const struct rfg_jit_request *req, struct rfg_blob *code,
                           char **log);

#endif
