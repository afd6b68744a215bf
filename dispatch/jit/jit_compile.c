/* SPDX-License-Identifier: MIT
 *
 * A compile, whoever does it: what came of it is checked, what went wrong is said. */
#include "jit_internal.h"

#include <stdlib.h>
#include <string.h>

void rfg_blob_free(struct rfg_blob *blob)
{
    free(blob->data);
    *blob = (struct rfg_blob){ 0 };
}

/* What the machine did, and not the source: it may go well the next time. Programs are run under LC_ALL=C. */
static bool is_passing(const char *text)
{
    static const char *const phrases[] = {
        "No space left on device",
        "Disk quota exceeded",
        "Too many open files",
        "Cannot allocate memory",
        "Resource temporarily unavailable",
        "Input/output error",
        "Read-only file system",
        "out of memory",
        "OUT_OF_MEMORY",
        "could not be started",
        "version mismatch",
        "before it said its version",
        "unable to execute command: Killed",
        "unable to execute command: Terminated",
        /* signals that nobody raises himself */
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
        "SIGHUP",
        "SIGXCPU",
        "SIGXFSZ",
    };
    bool found = false;
    for (size_t i = 0; text && i < sizeof(phrases) / sizeof(phrases[0]) && !found; i++)
        found = strcasestr(text, phrases[i]) != NULL;
    return found;
}

rfg_status rfg_jit_failed(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req, const char *log,
                          const char *fallback)
{
    const char *line = log ? strstr(log, "error") : NULL;
    if (line) {
        while (line > log && line[-1] != '\n')
            line--;
    } else if (log) {
        line = log + strspn(log, " \r\n\t");
    }
    if (!line || !*line)
        line = fallback;
    rfg_status st = is_passing(log) || is_passing(fallback) ? RFG_ERROR_IO : RFG_ERROR_COMPILE;
    return rfg_fail(st, "%s for %s by %s: %.*s", req->name, req->target, prov->name, (int)strcspn(line, "\r\n"), line);
}

rfg_status rfg_jit_compile(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                           rfg_compile_fn compile, void *ctx, struct rfg_blob *code, char **log)
{
    struct rfg_reason why;
    rfg_status st = compile ? compile(ctx, prov, req, code, log) : prov->compile(req, code, log);
    if (st != RFG_OK || rfg_code_check(req, code, &why))
        return st;
    rfg_blob_free(code);
    return rfg_fail(RFG_ERROR_IO, "%s for %s by %s: the compiler left what is no code object of it: %s", req->name,
                    req->target, prov->name, why.text);
}
