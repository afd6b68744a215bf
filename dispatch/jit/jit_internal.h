/* SPDX-License-Identifier: MIT
 *
 * What the providers share; nobody else includes it but tests. */
#ifndef RFG_DISPATCH_JIT_INTERNAL_H
#define RFG_DISPATCH_JIT_INTERNAL_H

#include "jit.h"

/* Tests: a provider that is asked before all others (not in worker processes). NULL outside tests. */
extern const struct rfg_jit_provider *rfg_jit_extra_provider;

const struct rfg_jit_provider *rfg_jit_provider_find(const char *name);

/* RFG_ERROR_COMPILE, with a message of the variant, the target, the provider, and the first error line of log (or
 * fallback, if the log says nothing). RFG_ERROR_IO if that tells of the machine rather than of the source: a full disk,
 * no descriptors, no memory, a compiler that was killed or couldn't be started. */
rfg_status rfg_jit_failed(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req, const char *log,
                          const char *fallback);

/* Assembles and links with the comgr that `lib` is; called for targets that it lists. One at a time. */
rfg_status rfg_comgr_assemble(void *lib, const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                              struct rfg_blob *code, char **log);

/* rfg-compile, or what $RFG_COMPILE_WORKER names: malloc'ed, NULL: there is none (a log's line says so). */
char *rfg_jit_worker_program(void);

/* Runs a program without a shell, in the directory / (paths among its arguments must be absolute); stdin is empty,
 * *output gets stdout and stderr (malloc'ed; output may be NULL). tmpdir (may be NULL) becomes its $TMPDIR. False if it
 * couldn't be started or did not exit with 0: why says which. */
bool rfg_jit_run(const char *const *argv, const char *tmpdir, char **output, struct rfg_reason *why);

#endif
