/* SPDX-License-Identifier: MIT
 *
 * clang as the compiler of the stub libhiprtc and libamd_comgr: the program that the build found, by its
 * absolute path. */
#ifndef RFG_EMU_ROCM_STUB_CLANG_H
#define RFG_EMU_ROCM_STUB_CLANG_H

#include <stdbool.h>
#include <stddef.h>

#define STUB_API __attribute__((visibility("default")))

/* A file for the compiler: its name, in a directory of its own, and what is in it. */
struct stub_file {
    const char *name;
    const void *data;
    size_t size;
};

/* Compiles the first of n files; the others lie beside it, where #include finds them: false if clang refuses it, isn't
 * there or can't be started. *out is malloc'ed, NULL on failure; *log too: what clang said, else why it could not be
 * asked, with a NUL behind it. */
bool stub_clang(const char *const *args, const struct stub_file *files, int n, void **out, size_t *out_size,
                char **log);

/* The processors of the emulated release, "gfx942"; NULL-terminated. */
extern const char *const stub_targets[];
bool stub_has_target(const char *target);

#endif
