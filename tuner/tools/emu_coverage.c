/* SPDX-License-Identifier: MIT
 *
 * rfg-emu --coverage: the instructions of code objects, and which are not implemented. */
#include "emu_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/code/code.h"

struct count {
    const char *name; /* the op's, or a mnemonic that is known to nobody (malloc'ed) */
    uint64_t n;
    bool missing;
};

struct counts {
    struct count *v;
    int n, capacity;
};

static void add(struct counts *c, const char *name, uint64_t n, bool missing)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->v[i].name, name)) {
            c->v[i].n += n;
            return;
        }
    if (c->n == c->capacity) {
        int capacity = c->capacity ? 2 * c->capacity : 256;
        struct count *grown = realloc(c->v, (size_t)capacity * sizeof(*grown));
        if (!grown)
            return;
        c->v = grown;
        c->capacity = capacity;
    }
    c->v[c->n++] = (struct count){ strdup(name), n, missing };
}

static void free_counts(struct counts *c)
{
    for (int i = 0; i < c->n; i++)
        free((char *)c->v[i].name);
    free(c->v);
}

static int by_count(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    if (x->missing != y->missing)
        return x->missing ? -1 : 1;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static void totals(const struct counts *c, uint64_t *all, uint64_t *missing)
{
    *all = *missing = 0;
    for (int i = 0; i < c->n; i++) {
        *all += c->v[i].n;
        *missing += c->v[i].missing ? c->v[i].n : 0;
    }
}

/* Is it a word that no disassembler knows, where a wave would run it: what pads and data come after an end or a jump.
 */
static bool is_undecodable(const struct emu_program *prog, const struct emu_inst *inst)
{
    if (strcmp(inst->op->name, ".long") || inst == prog->inst || inst->address >= prog->size)
        return false;
    const struct emu_inst *before = inst - 1;
    while (before > prog->inst && before->op && !strcmp(before->op->name, ".long"))
        before--;
    const char *name = before->op ? before->op->name : "";
    return strcmp(name, ".long") && strcmp(name, "s_endpgm") && strcmp(name, "s_branch") &&
           strcmp(name, "s_setpc_b64") && strcmp(name, "s_code_end");
}

/* The kernels' own code, without padding. */
static void count_code(const struct emu_code *code, struct counts *c)
{
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < code->program[p].n; i++) {
            const struct emu_inst *inst = &code->program[p].inst[i];
            char text[128];
            const char *name = inst->op ? inst->op->name : NULL;
            if (!name) {
                emu_inst_text(&code->program[p], inst, text, sizeof(text));
                text[strcspn(text, " \t\n")] = 0;
                name = text;
            }
            bool undecodable = inst->op && is_undecodable(&code->program[p], inst);
            add(c, undecodable ? "(undecodable)" : name, 1, !inst->fn || undecodable);
        }
}

/* The purpose of a file, by the names that AITER, hipBLASLt and others use: the first word found in its path, else its
 * folder. */
static const char *family_of(const char *path, char *buf, size_t size)
{
    static const struct {
        const char *word, *family;
    } words[] = { { "allreduce", "all-reduce" },
                  { "all_reduce", "all-reduce" },
                  { "fmha", "attention" },
                  { "mla", "mla" },
                  { "/pa/", "paged attention" },
                  { "/pa_", "paged attention" },
                  { "moe", "moe" },
                  { "gemm", "gemm" },
                  { "flatmm", "gemm" },
                  { "norm", "norm" },
                  { "topk", "top-k" } };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(path, words[i].word))
            return words[i].family;
    const char *end = strrchr(path, '/'), *from = end;
    while (from && from > path && from[-1] != '/')
        from--;
    snprintf(buf, size, "%.*s", end ? (int)(end - from) : 1, end ? from : ".");
    return buf;
}

struct family {
    char name[64];
    int files, whole;
    uint64_t instructions, missing;
};

static void add_file(struct family *f, int *n, int room, const char *path, uint64_t all, uint64_t missing, bool whole)
{
    char buf[64];
    const char *name = family_of(path, buf, sizeof(buf));
    int k = 0;
    while (k < *n && strcmp(f[k].name, name))
        k++;
    if (k == room) /* the last takes the rest */
        k--;
    else if (k == *n) {
        f[k] = (struct family){ 0 };
        snprintf(f[k].name, sizeof(f[k].name), "%s", name);
        (*n)++;
    }
    f[k].files++;
    f[k].whole += whole;
    f[k].instructions += all;
    f[k].missing += missing;
}

int tool_coverage(char **paths, int n)
{
    struct counts total = { 0 };
    struct family family[64];
    int families = 0, whole_files = 0;
    int bad_files = 0;
    uint64_t all, missing;
    for (int f = 0; f < n; f++) {
        struct counts c = { 0 };
        char error[512];
        struct emu_code *code = tool_load(paths[f], NULL);
        if (!code) {
            add_file(family, &families, 64, paths[f], 0, 0, false);
            bad_files++;
            continue;
        }
        bool decoded = emu_code_decode(code, true, error, sizeof(error));
        if (!decoded) {
            fprintf(stderr, "rfg-emu: %s: %s\n", paths[f], error);
            bad_files++;
        }
        count_code(code, &c);
        totals(&c, &all, &missing);
        whole_files += decoded && !missing;
        add_file(family, &families, 64, paths[f], all, missing, decoded && !missing);
        printf("%s: %s v%d, %d kernels, %llu instructions, %d mnemonics, %llu not implemented%s", paths[f],
               code->arch->name, code->version, code->n_kernels, (unsigned long long)all, c.n,
               (unsigned long long)missing, missing ? ":" : "");
        qsort(c.v, (size_t)c.n, sizeof(*c.v), by_count);
        for (int i = 0; i < c.n; i++) {
            if (c.v[i].missing)
                printf(" %s", c.v[i].name);
            add(&total, c.v[i].name, c.v[i].n, c.v[i].missing);
        }
        printf("\n");
        free_counts(&c);
        emu_code_free(&code);
    }
    totals(&total, &all, &missing);
    qsort(total.v, (size_t)total.n, sizeof(*total.v), by_count);
    printf("\n%12s  instruction\n", "count");
    for (int i = 0; i < total.n; i++)
        printf("%12llu  %s%s\n", (unsigned long long)total.v[i].n, total.v[i].name,
               total.v[i].missing ? "  NOT IMPLEMENTED" : "");
    printf("\n%-20s %12s %7s %13s %16s\n", "family", "files", "whole", "instructions", "not implemented");
    for (int i = 0; i < families; i++)
        printf("%-20s %12d %6.1f%% %13llu %16llu\n", family[i].name, family[i].files,
               100.0 * family[i].whole / family[i].files, (unsigned long long)family[i].instructions,
               (unsigned long long)family[i].missing);
    printf("\n%d files, %d wholly implemented, %d not readable or not decodable; %llu instructions, %d mnemonics; not "
           "implemented: %llu (%.3f%%)\n",
           n, whole_files, bad_files, (unsigned long long)all, total.n, (unsigned long long)missing,
           all ? 100.0 * (double)missing / (double)all : 0.0);
    free_counts(&total);
    return missing || bad_files;
}
