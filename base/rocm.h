/* SPDX-License-Identifier: MIT
 *
 * Finds and opens ROCm's libraries by one rule, so that all libraries of a process come from one ROCm (docs/amd.md,
 * "Which ROCm is used"). None of them is linked, and none is ever closed. */
#ifndef RFG_BASE_ROCM_H
#define RFG_BASE_ROCM_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

enum rfg_rocm { RFG_ROCM_HIP, RFG_ROCM_HIPRTC, RFG_ROCM_COMGR, RFG_ROCM_HIPBLASLT, RFG_ROCM_ROCBLAS, RFG_ROCM_COUNT };

struct rfg_rocm_library {
    const char *name; /* "hip", "hiprtc", "comgr", "hipblaslt", "rocblas" */
    void *handle;     /* dlopen()'s; NULL: it was not found, or could not be loaded */
    char path[512];   /* its file; without a handle, what was asked for */
    char soname[64];  /* "libamdhip64.so.6", whatever the file is called (PyTorch's wheels: libamdhip64.so) */
    /* Tells builds apart, in tuned rows and the code cache's keys: "6.4.60400" where the file is called so, else its
     * soname's number with the build id or the size ("6 build 1a2b3c4d"): wheels have "libhiprtc.so" and ".so.7", and
     * hiprtcVersion() is 9.0 in every release. */
    char version[64];
    const char *found; /* how: "RFG_LIBHIP", "loaded by this process before", "beside the HIP runtime", ... */
    char problem[320]; /* why there is no handle */
};

/* The library, looked for once a process; never NULL. In this order, the first that can be loaded:
 *   1. the file that $RFG_LIBHIP (RFG_LIBHIPRTC, RFG_LIBCOMGR, RFG_LIBHIPBLASLT, RFG_LIBROCBLAS) names, and no other;
 *   2. HIP: the one that this process has loaded already. The others: the one beside the HIP runtime of this process
 *      (its directory, then the rocm-sdk wheels beside it), comgr: beside hipRTC; then one that is loaded already;
 *   3. in the directories of $LD_LIBRARY_PATH, then in $ROCM_PATH/lib;
 *   4. by its versioned names, then its bare one, as the dynamic loader finds them; then in /opt/rocm/lib.
 * In each place the names of the HIP runtime's own release come before others. Files of 2 beside the runtime must
 * belong to root, to us or to the runtime's owner. hipRTC may be the HIP runtime itself (ROCm 5 had it in there). */
const struct rfg_rocm_library *rfg_rocm_open(enum rfg_rocm which);

/* The same without a search: NULL if nothing opened it yet or it wasn't found. */
const struct rfg_rocm_library *rfg_rocm_opened(enum rfg_rocm which);

/* Variables that make a child process use the libraries that this one has open: "RFG_LIBHIP=/path", ... malloc'ed; the
 * rest of set is NULL. Returns how many. */
int rfg_rocm_settings(char *set[RFG_ROCM_COUNT]);

/* Whether the library is of another major release of ROCm than the HIP runtime in use; why then names both. False for
 * libraries with an unknown name. */
bool rfg_rocm_differs(enum rfg_rocm which, struct rfg_reason *why);

/* The files of the HIP runtimes that this process has loaded, the first `max` of them; returns how many there are (two
 * and more: streams and memory of one mean nothing to the other). */
int rfg_rocm_runtimes(char paths[][512], int max);

/* $RFG_LIBHIPRTC, ... */
const char *rfg_rocm_variable(enum rfg_rocm which);

#endif
