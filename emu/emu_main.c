/* SPDX-License-Identifier: MIT
 *
 * rfg-emu: what a code object needs, holds, and does. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/util.h"
#include "emu.h"

static const char usage[] =
    "usage: rfg-emu --coverage FILE.co...      which instructions the files hold, and which of them are not emulated\n"
    "       rfg-emu list FILE.co               kernels, their arguments, registers and LDS\n"
    "       rfg-emu run FILE.co --kernel NAME --grid X[,Y,Z] --block X[,Y,Z] [options] ARG...\n"
    "  --lds BYTES      dynamic LDS\n"
    "  --cus N          compute units (default: the architecture's)\n"
    "  --seed N         another order of waves and workgroups\n"
    "  --no-checks      without the checks\n"
    "  ARG              i32:N u32:N i64:N f32:X, in order; memory: zero:BYTES, in:FILE, out:FILE:BYTES (written after "
    "the\n"
    "                   run), inout:FILE:OUTFILE\n"
    "Files are code objects (ELF) for gfx90a, gfx942 or gfx1100.\n"
    "Exit: 0 fine; 1 something is not emulated, or a check found something; 2 bad usage or input\n";

__attribute__((format(printf, 1, 2))) static int bad(const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "rfg-emu: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return 2;
}

static bool load(const char *path, struct emu_module *m)
{
    size_t size;
    char error[400], *file = rfg_read_file(path, &size);
    bool ok = false;
    if (!file)
        bad("%s: cannot read: %s", path, strerror(errno));
    else if (!(ok = emu_module_load(m, file, size, error, sizeof(error))))
        bad("%s: %s", path, error);
    free(file);
    return ok;
}

/* ---- coverage -------------------------------------------------------------------------------------------------------
 */

struct tally {
    char name[48];
    int n;
};

struct coverage {
    struct tally *missing;
    int kinds, instructions, unknown;
};

static void count_missing(void *arg, const char *text)
{
    struct coverage *c = arg;
    char name[48];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " \t"), text);
    c->unknown++;
    for (int k = 0; k < c->kinds; k++)
        if (!strcmp(c->missing[k].name, name)) {
            c->missing[k].n++;
            return;
        }
    struct tally *more = realloc(c->missing, (size_t)(c->kinds + 1) * sizeof(*more));
    if (!more)
        abort();
    c->missing = more;
    c->missing[c->kinds].n = 1;
    memcpy(c->missing[c->kinds++].name, name, sizeof(name));
}

static int most_first(const void *a, const void *b)
{
    return ((const struct tally *)b)->n - ((const struct tally *)a)->n;
}

static int coverage(char **files, int n)
{
    struct coverage all = { 0 };
    int whole = 0, unread = 0;
    if (!n)
        return bad("--coverage: no file is named");
    for (int f = 0; f < n; f++) {
        struct emu_module m;
        struct emu_program p;
        char error[400];
        int before = all.unknown;
        if (!load(files[f], &m)) {
            unread++;
            continue;
        }
        int wave = m.n_kernels ? m.kernels[0].wave_size : m.arch->wave_size;
        if (!emu_decode(&p, m.arch, wave, m.image + m.text_address, m.text_size,
                        (uint64_t)(uintptr_t)m.image + m.text_address, count_missing, &all, error, sizeof(error))) {
            bad("%s: %s", files[f], error);
            unread++;
        } else {
            all.instructions += p.n;
            whole += all.unknown == before;
            printf("%s: %d instructions, %d not emulated\n", files[f], p.n, all.unknown - before);
            emu_program_free(&p);
        }
        emu_module_unload(&m);
    }
    qsort(all.missing, (size_t)all.kinds, sizeof(*all.missing), most_first);
    for (int k = 0; k < all.kinds; k++)
        printf("%8d %s\n", all.missing[k].n, all.missing[k].name);
    printf("%d files, %d of them wholly emulated, %d unreadable; %d instructions, %d (of %d kinds) not emulated\n", n,
           whole, unread, all.instructions, all.unknown, all.kinds);
    free(all.missing);
    return unread ? 2 : all.unknown ? 1 : 0;
}

/* ---- list
 * ------------------------------------------------------------------------------------------------------------- */

static int list(const char *path)
{
    struct emu_module m;
    if (!load(path, &m))
        return 2;
    for (int k = 0; k < m.n_kernels; k++) {
        const struct emu_kernel *kernel = &m.kernels[k];
        printf("%s: %s, wave%d, %d VGPRs of them %d AGPRs, %d SGPRs, %u bytes of LDS, %u of scratch a lane, %u of "
               "arguments\n",
               kernel->name, m.arch->name, kernel->wave_size, kernel->vgprs, kernel->agprs, kernel->sgprs, kernel->lds,
               kernel->scratch, kernel->kernarg_size);
        for (int a = 0; a < kernel->n_args; a++)
            printf("  argument %d: %u bytes at %u%s\n", a, kernel->args[a].size, kernel->args[a].offset,
                   kernel->args[a].hidden ? ", hidden" : "");
    }
    emu_module_unload(&m);
    return 0;
}

/* ---- run
 * ---------------------------------------------------------------------------------------------------------------- */

static bool triple(const char *option, const char *text, uint32_t out[3])
{
    char *end;
    out[1] = out[2] = 1;
    for (int k = 0; k < 3; k++) {
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || v < 1 || v > UINT32_MAX || (*end && *end != ',')) {
            bad("%s: '%s': must be one to three positive numbers with commas between", option, text);
            return false;
        }
        out[k] = (uint32_t)v;
        if (!*end)
            return true;
        text = end + 1;
    }
    bad("%s: more than three numbers", option);
    return false;
}

struct buffer {
    void *mem;
    size_t size;
    const char *out; /* file to write after the run */
};

/* One argument: up to eight bytes in *value. */
static bool argument(char *text, struct buffer *b, uint64_t *value, size_t size)
{
    char *colon = strchr(text, ':'), *rest = colon ? colon + 1 : NULL, *end = NULL, *second = NULL;
    *b = (struct buffer){ 0 };
    if (!colon)
        return bad("argument '%s': must be KIND:VALUE", text), false;
    *colon = 0;
    if (!strcmp(text, "i32") || !strcmp(text, "u32") || !strcmp(text, "i64")) {
        *value = (uint64_t)strtoll(rest, &end, 0);
        if (end == rest || *end || (size != 4 && text[1] == '3') || (size != 8 && text[1] == '6'))
            return bad("argument '%s:%s': must be a number of the %zu bytes that the kernel takes", text, rest, size),
                   false;
        return true;
    }
    if (!strcmp(text, "f32")) {
        float f = strtof(rest, &end);
        memcpy(value, &f, 4);
        return end != rest && !*end && size == 4
                   ? true
                   : (bad("argument 'f32:%s': must be a number, of 4 bytes", rest), false);
    }
    if (size != 8)
        return bad("argument '%s:%s': memory, where the kernel takes %zu bytes: must be 8", text, rest, size), false;
    char *file = NULL;
    if (!strcmp(text, "zero")) {
        b->size = strtoul(rest, &end, 0);
        if (end == rest || *end || !b->size)
            return bad("argument 'zero:%s': must be a number of bytes", rest), false;
    } else if (!strcmp(text, "out") && (second = strrchr(rest, ':'))) {
        *second++ = 0;
        b->size = strtoul(second, &end, 0);
        b->out = rest;
        if (*end || !b->size)
            return bad("argument 'out:%s:%s': must be a number of bytes", rest, second), false;
    } else if (!strcmp(text, "in") || (!strcmp(text, "inout") && (second = strrchr(rest, ':')))) {
        if (second)
            *second++ = 0;
        b->out = second;
        if (!(file = rfg_read_file(rest, &b->size)))
            return bad("argument '%s:%s': cannot read: %s", text, rest, strerror(errno)), false;
    } else
        return bad("argument '%s:%s': must be i32, u32, i64, f32, zero, in, out or inout", text, rest), false;
    b->mem = emu_alloc(b->size, "an argument's memory");
    if (b->mem && file)
        memcpy(b->mem, file, b->size);
    free(file);
    *value = (uint64_t)(uintptr_t)b->mem;
    return b->mem || (bad("no memory for %zu bytes", b->size), false);
}

static bool write_out(const struct buffer *b)
{
    FILE *f = b->out ? fopen(b->out, "wb") : NULL;
    if (!b->out)
        return true;
    bool ok = f && fwrite(b->mem, 1, b->size, f) == b->size;
    if (f && fclose(f))
        ok = false;
    return ok || (bad("%s: cannot write: %s", b->out, strerror(errno)), false);
}

static int run(struct emu_module *m, struct emu_launch *l, char **args, int n)
{
    static struct buffer buffers[EMU_MAX_ARGS];
    const struct emu_kernel *k = l->kernel;
    int next = 0, code = 0;
    if (!(l->kernarg = emu_alloc(k->kernarg_size + 8, "the kernel's arguments")))
        return bad("no memory");
    for (int a = 0; a < k->n_args; a++) {
        uint64_t v = 0;
        int d = (k->args[a].hidden - EMU_ARG_OFFSET_X) % 3;
        uint8_t hidden = k->args[a].hidden;
        if (hidden == EMU_ARG_VALUE) {
            if (next == n)
                return bad("%s takes more than the %d arguments given", k->name, n);
            if (!argument(args[next], &buffers[next], &v, k->args[a].size))
                return 2;
            next++;
        } else if (hidden >= EMU_ARG_BLOCKS_X && hidden <= EMU_ARG_BLOCKS_Z)
            v = l->grid[d];
        else if (hidden >= EMU_ARG_SIZE_X && hidden <= EMU_ARG_SIZE_Z)
            v = l->block[d];
        else if (hidden == EMU_ARG_DIMS)
            v = 3;
        else if (hidden == EMU_ARG_LDS_SIZE)
            v = l->dynamic_lds;
        memcpy((char *)l->kernarg + k->args[a].offset, &v, k->args[a].size < 8 ? k->args[a].size : 8);
    }
    if (next < n)
        return bad("%s takes %d arguments, not %d", k->name, next, n);
    l->module = m;
    double start = rfg_now();
    if (!emu_launch_run(l)) {
        printf("%s\n", l->first);
        code = 1;
    }
    for (int b = 0; b < next && !code; b++)
        code = write_out(&buffers[b]) ? 0 : 2;
    const struct emu_counters *c = &l->counters;
    double s = rfg_now() - start;
    printf("%llu waves, %llu wave-instructions in %.3f s (%.1f million a second), %llu barriers; bytes: %llu read, "
           "%llu written, %llu "
           "LDS\n",
           (unsigned long long)c->waves, (unsigned long long)c->instructions, s, (double)c->instructions / s * 1e-6,
           (unsigned long long)c->barriers, (unsigned long long)c->load_bytes, (unsigned long long)c->store_bytes,
           (unsigned long long)c->lds_bytes);
    return code;
}

static int cmd_run(int argc, char **argv)
{
    static const struct option options[] = { { "kernel", 1, NULL, 'k' },    { "grid", 1, NULL, 'g' },
                                             { "block", 1, NULL, 'b' },     { "lds", 1, NULL, 'l' },
                                             { "cus", 1, NULL, 'c' },       { "seed", 1, NULL, 's' },
                                             { "no-checks", 0, NULL, 'n' }, { NULL, 0, NULL, 0 } };
    struct emu_launch l = { .grid = { 1, 1, 1 }, .checks = true };
    struct emu_module m;
    const char *kernel = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'k':
            kernel = optarg;
            break;
        case 'g':
        case 'b':
            if (!triple(c == 'g' ? "--grid" : "--block", optarg, c == 'g' ? l.grid : l.block))
                return 2;
            break;
        case 'l':
            l.dynamic_lds = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'c':
            l.cu_count = atoi(optarg);
            break;
        case 's':
            l.seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            l.checks = false;
            break;
        default:
            fputs(usage, stderr);
            return 2;
        }
    if (optind == argc || !kernel || !l.block[0])
        return bad("run: needs a file, --kernel and --block");
    if ((uint64_t)l.block[0] * l.block[1] * l.block[2] > 1024)
        return bad("--block: %u x %u x %u threads: must be at most 1024", l.block[0], l.block[1], l.block[2]);
    if (!load(argv[optind], &m))
        return 2;
    l.arch = m.arch;
    l.cu_count = l.cu_count > 0 ? l.cu_count : m.arch->cu_count;
    if (!(l.kernel = emu_module_kernel(&m, kernel))) {
        bad("%s: no kernel '%s': see rfg-emu list", argv[optind], kernel);
        emu_module_unload(&m);
        return 2;
    }
    if ((uint64_t)l.dynamic_lds + l.kernel->lds > (uint64_t)m.arch->lds_bytes)
        return bad("--lds %u: with the kernel's %u more than %d bytes", l.dynamic_lds, l.kernel->lds,
                   m.arch->lds_bytes);
    int code = run(&m, &l, argv + optind + 1, argc - optind - 1);
    emu_module_unload(&m);
    return code;
}

int main(int argc, char **argv)
{
    char why[200];
    if (argc < 2 || !strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")) {
        fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (!emu_llvm_ready(why, sizeof(why)))
        return bad("%s", why);
    if (!strcmp(argv[1], "--coverage"))
        return coverage(argv + 2, argc - 2);
    if (!strcmp(argv[1], "list"))
        return argc == 3 ? list(argv[2]) : bad("list: takes one file");
    if (!strcmp(argv[1], "run"))
        return cmd_run(argc - 1, argv + 1);
    return bad("'%s': must be --coverage, list or run: see --help", argv[1]);
}
