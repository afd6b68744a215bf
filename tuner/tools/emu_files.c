/* SPDX-License-Identifier: MIT
 *
 * Code objects in files: rfg-emu list, and how the other commands read them. */
#include "emu_tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/jit/jit.h"
#include "emu/code/code.h"

int tool_wrong(const char *fmt, ...)
{
    va_list ap;
    fputs("rfg-emu: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\n", stderr);
    return 2;
}

char *tool_read_code(const char *path, size_t *size)
{
    const char *why = NULL;
    char *data = rfg_read_file(path, size);
    if (data)
        why = rfg_cache_unwrap(data, size);
    else
        why = strerror(errno);
    if (!why)
        return data;
    fprintf(stderr, "rfg-emu: %s: %s\n", path, why);
    free(data);
    return NULL;
}

struct emu_code *tool_load(const char *path, const struct emu_arch *arch)
{
    char error[512];
    size_t size;
    struct emu_code *code = NULL;
    char *data = tool_read_code(path, &size);
    if (data && !emu_code_load(&code, data, size, arch, error, sizeof(error)))
        fprintf(stderr, "rfg-emu: %s: %s\n", path, error);
    free(data);
    return code;
}

static const char *kind_name(enum emu_arg_kind k)
{
    return k == EMU_ARG_BY_VALUE                 ? "value"
           : k == EMU_ARG_GLOBAL_BUFFER          ? "pointer"
           : k == EMU_ARG_DYNAMIC_SHARED_POINTER ? "LDS pointer"
                                                 : "other";
}

int tool_list(char **paths, int n)
{
    int bad = 0;
    for (int f = 0; f < n; f++) {
        struct emu_code *code = tool_load(paths[f], NULL);
        if (!code) {
            bad++;
            continue;
        }
        printf("%s: %s, code object v%d, %llu bytes of code\n", paths[f], code->arch->name, code->version,
               (unsigned long long)code->text_size);
        for (int i = 0; i < code->n_kernels; i++) {
            const struct emu_kernel *k = &code->kernel[i];
            printf("  %s: wave%d, %d VGPRs, %d AGPRs, %d SGPRs, LDS %u, scratch %u, at most %d work-items", k->name,
                   k->wave_size, k->n_vgprs, k->n_agprs, k->n_sgprs, k->lds_bytes, k->scratch_bytes, k->max_threads);
            if (k->reqd[0])
                printf(", requires %dx%dx%d", k->reqd[0], k->reqd[1], k->reqd[2]);
            if (k->preload_length)
                printf(", %d dwords preloaded", k->preload_length);
            printf("\n    entry 0x%llx, kernarg %u bytes, %d hidden arguments\n", (unsigned long long)k->entry,
                   k->kernarg_bytes, k->n_args - k->n_explicit);
            for (int a = 0; a < k->n_explicit; a++)
                printf("    %3u: %s, %u bytes%s%s\n", k->arg[a].offset, kind_name(k->arg[a].kind), k->arg[a].size,
                       k->arg[a].name ? ", " : "", k->arg[a].name ? k->arg[a].name : "");
        }
        emu_code_free(&code);
    }
    return bad != 0;
}
