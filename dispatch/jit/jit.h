/* SPDX-License-Identifier: MIT
 *
 * From a variant's kernel description to a code object: expand the source, look in the cache, else compile. */
#ifndef RFG_DISPATCH_JIT_H
#define RFG_DISPATCH_JIT_H

#include <stdbool.h>
#include <stddef.h>

#include "ops/op.h"

struct rfg_blob {
    void *data; /* malloc'ed */
    size_t size;
};
void rfg_blob_free(struct rfg_blob *blob);
#define RFG_MAX_CODE (256u << 20) /* bytes of a code object */

/* ---- expansion ---------------------------------------------------------------------------------------------- */

/* The whole translation unit as one text: the macros, then the kernel file with its #include "rfg_device.h" and
 * the like (embedded files only) put in place, with #line directives; in assembly (a name that ends with .s) macros
 * are symbols. From $RFG_KERNEL_DIR/<file> if set, else the embedded copy. malloc'ed; NULL
 * with rfg_last_error() set. */
char *rfg_jit_expand(const struct rfg_kernel *k);
/* Is there a file in $RFG_KERNEL_DIR, if that is set, that could be meant? */
bool rfg_jit_sources_there(struct rfg_reason *why);

/* Hex SHA-256 of a kernel's source and prelude, without the macros, comments and white space: the tuned row's
 * source_hash. */
void rfg_jit_source_hash(const char *source, char hex[65]);
/* C text without its comments, and a space only between two words or two operators that had any. */
void rfg_jit_strip(char *text);

/* ---- compiling ---------------------------------------------------------------------------------------------- */

struct rfg_jit_provider;

struct rfg_jit_request {
    const char *name;   /* for messages: the variant's configuration */
    const char *entry;  /* the kernel function */
    const char *target; /* "gfx942", "sm_90a" */
    const char *source; /* expanded */
    bool assembly;      /* not HIP but AMD GPU assembly */
    /* Bytes of arguments that a launch passes, and of those that every kernel takes; 0: not known here. more_args: and
     * others behind them (struct rfg_tile_map). */
    size_t args, least_args;
    bool more_args;
    const struct rfg_jit_provider *provider; /* NULL: the target's preferred one */
};

bool rfg_jit_is_assembly(const struct rfg_kernel *k);

/* A compiler (and assembler) that turns a request into a code object. Providers never print; a failed compile is
 * RFG_ERROR_COMPILE with the log in *log (malloc'ed; may be set on success too: warnings), or RFG_ERROR_IO if the
 * machine was the reason, and not the source: no verdict about it. */
struct rfg_jit_provider {
    const char *name;           /* "hiprtc", "nvrtc", "clang", "ziglang" */
    const char *const *options; /* what every compile is given beside the target; NULL-terminated; part of the key */
    const char *const *assembler_options; /* the same for assembly; may be NULL */
    /* Is the compiler there? version: "hiprtc 5.2.21153 (LLVM 15)"; why: what was looked for and what to install. */
    bool (*available)(char *version, size_t size, struct rfg_reason *why);
    /* Asked before every compile; must be answered without asking the compiler to compile. */
    bool (*has_target)(const char *target);
    rfg_status (*compile)(const struct rfg_jit_request *req, struct rfg_blob *code, char **log);
};
extern const struct rfg_jit_provider rfg_jit_hiprtc, rfg_jit_nvrtc, rfg_jit_clang, rfg_jit_ziglang;
/* In order of preference, NULL-terminated: hiprtc, nvrtc, clang, ziglang. $RFG_JIT=name forces one. */
extern const struct rfg_jit_provider *const rfg_jit_providers[];

/* Is what a compiler left the request's code object: ELF, target, kernel, arguments? Targets that are neither gfxN nor
 * sm_N are believed. */
bool rfg_code_check(const struct rfg_jit_request *req, const struct rfg_blob *code, struct rfg_reason *why);

typedef rfg_status (*rfg_compile_fn)(void *ctx, const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                                     struct rfg_blob *code, char **log);
/* Compiles, by prov in this process if compile is NULL, and checks what came of it: RFG_ERROR_IO if that is no code
 * object of the request's. */
rfg_status rfg_jit_compile(const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                           rfg_compile_fn compile, void *ctx, struct rfg_blob *code, char **log);

/* The provider for a target, or NULL with rfg_last_error() saying which were asked and why each can't. */
const struct rfg_jit_provider *rfg_jit_provider_for(const char *target);
/* The one of that version, as a tuned row names its compiler; NULL: it isn't here, or doesn't know the target. */
const struct rfg_jit_provider *rfg_jit_provider_of_version(const char *version, const char *target);

/* ---- the cache ---------------------------------------------------------------------------------------------- */

struct rfg_cache;

struct rfg_cache_stats {
    uint64_t memory_hits, disk_hits, misses, compiles, corrupt, evicted;
};

/* $RFG_CACHE_DIR, else $XDG_CACHE_HOME/rfg, else ~/.cache/rfg; malloc'ed; NULL: there is no home either. */
char *rfg_cache_default_dir(void);
/* Is the directory ours alone, all the way (docs/security.md)? make: it is made if it is missing; else that is no.
 * errno tells: EPERM is a rule that was broken. */
bool rfg_cache_usable(const char *dir, bool make, struct rfg_reason *why);

/* dir NULL: rfg_cache_default_dir(); "": memory only. A directory that isn't usable means memory only, with one
 * warning. max_bytes 0: $RFG_CACHE_MAX_MIB, else 1 GiB. */
struct rfg_cache *rfg_cache_open(const char *dir, uint64_t max_bytes);
void rfg_cache_close(struct rfg_cache **cache);
void rfg_cache_get_stats(struct rfg_cache *cache, struct rfg_cache_stats *stats);

/* Hex SHA-256 of what decides the code object: source, target, provider and its version, options. */
void rfg_cache_key(const struct rfg_jit_request *req, const struct rfg_jit_provider *prov, char hex[65]);

/* The code object for a request: memory, disk, or one compile per key across threads and processes. The
 * returned pointer lives as long as the cache. compile NULL: req's provider in this process. */
rfg_status rfg_cache_get(struct rfg_cache *cache, const struct rfg_jit_request *req, rfg_compile_fn compile, void *ctx,
                         const struct rfg_blob **code);

/* A device doesn't take the code object that rfg_cache_get() gave (which stays where it is): it is dropped, and its
 * file deleted. RFG_OK: the next get compiles once more. RFG_ERROR_COMPILE: what was compiled once more was refused,
 * too, and gets fail from now on. */
rfg_status rfg_cache_refuse(struct rfg_cache *cache, const struct rfg_jit_request *req, const struct rfg_blob *code,
                            const char *why);

/* Takes the header off a file of the cache that was read into memory; other files stay as they are. Returns what is
 * wrong with it; NULL: nothing. */
const char *rfg_cache_unwrap(char *bytes, size_t *size);

/* ---- worker processes ---------------------------------------------------------------------------------------- */

/* Compilers hold global locks and can crash: many compiles go to child processes (the program rfg-compile --worker,
 * found beside the library or program, in its prefix's bin, or by $RFG_COMPILE_WORKER). */
struct rfg_jit_pool;
struct rfg_jit_pool *rfg_jit_pool_create(int workers, double timeout_s);
void rfg_jit_pool_destroy(struct rfg_jit_pool **pool);

/* An rfg_compile_fn: ctx is the pool. Blocks the calling thread until a worker has compiled; call it from as many
 * threads as there are workers. A crash or timeout of the worker is RFG_ERROR_COMPILE with what happened, a
 * worker that was killed or can't be started RFG_ERROR_IO. */
rfg_status rfg_jit_pool_compile(void *pool, const struct rfg_jit_provider *prov, const struct rfg_jit_request *req,
                                struct rfg_blob *code, char **log);

/* Fills the cache for n requests, on a pool, `workers` at a time. done (may be NULL) is called from several threads,
 * one at a time, as each is finished. Returns how many failed. */
int rfg_jit_prefetch(struct rfg_cache *cache, struct rfg_jit_pool *pool, int workers,
                     const struct rfg_jit_request *reqs, int n,
                     void (*done)(void *ctx, int i, rfg_status st, const char *error), void *ctx);

/* The worker's main loop; fd 0 is a socket for requests and replies (jit_worker.c has the protocol). before, or NULL,
 * is told the name of each request before it is compiled. */
int rfg_jit_worker_main(void (*before)(const char *name));

#endif
