/* SPDX-License-Identifier: MIT
 *
 * Snippets of assembly on a bare wave: no HIP, no loader, no checks. */
#include "emu_isa.h"

#include <elf.h>
#include <stdarg.h>
#include <unistd.h>

#ifndef LLVM_MC
#define LLVM_MC "llvm-mc-19"
#endif

const struct tested tested[EMU_TESTED] = {
    { { .name = "gfx908", .gfx = 0x908, .wave_size = 64, .xcds = 1 }, 64 },
    { { .name = "gfx90a", .gfx = 0x90a, .wave_size = 64, .xcds = 1, .unified_agprs = true }, 64 },
    { { .name = "gfx942", .gfx = 0x942, .wave_size = 64, .xcds = 8, .unified_agprs = true, .fnuz = true }, 64 },
    { { .name = "gfx1100", .gfx = 0x1100, .wave_size = 32, .xcds = 1 }, 32 },
    { { .name = "gfx1100", .gfx = 0x1100, .wave_size = 32, .xcds = 1 }, 64 },
    { { .name = "gfx1030", .gfx = 0x1030, .wave_size = 32, .xcds = 1 }, 32 },
    { { .name = "gfx1201", .gfx = 0x1200, .wave_size = 32, .xcds = 1 }, 32 },
    { { .name = "gfx1150", .gfx = 0x1150, .wave_size = 32, .xcds = 1 }, 32 },
    { { .name = "gfx950", .gfx = 0x950, .wave_size = 64, .xcds = 8, .unified_agprs = true }, 64 },
};

const struct gfx950_words gfx950_words[] = {
#define WORDS(text, ...) { text, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, { __VA_ARGS__ } },
#include "gfx950_words.def"
};
const int gfx950_n_words = sizeof(gfx950_words) / sizeof(gfx950_words[0]);

uint8_t memory[MEMORY] __attribute__((aligned(64)));
int stray;
char reported[512];

/* ---- the front's part, as little of it as it takes --------------------------------------------------------------- */

void emu_report(struct emu_wave *w, const struct emu_inst *i, const char *check, uint64_t lanes, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)w, (void)lanes;
    snprintf(reported, sizeof(reported), "%s at 0x%x: %s", check, i->address, text);
}

uint64_t emu_access(struct emu_wave *w, const struct emu_inst *i, struct emu_access *a)
{
    uint64_t ok = 0;
    (void)i;
    if (a->space == EMU_GLOBAL && a->lanes == ~0ull) { /* the usual case, fast: the benchmark counts it */
        uint64_t far = 0, size = MEMORY - a->bytes;
        for (int l = 0; l < 64; l++)
            far |= (uint64_t)(a->addr[l] - (uint64_t)(uintptr_t)memory > size);
        if (!far)
            return ~0ull;
    }
    if (a->space == EMU_LDS_SPACE && a->lanes == ~0ull) {
        uint64_t far = 0, size = w->wg->lds_bytes - a->bytes;
        for (int l = 0; l < 64; l++)
            far |= (uint64_t)(a->addr[l] > size);
        if (!far)
            return ~0ull;
    }
    for (int l = 0; l < (a->scalar ? 1 : 64); l++) {
        uint64_t base = a->space == EMU_GLOBAL ? (uint64_t)(uintptr_t)memory : 0;
        uint64_t size = a->space == EMU_GLOBAL      ? MEMORY
                        : a->space == EMU_LDS_SPACE ? w->wg->lds_bytes
                                                    : w->scratch_bytes;
        if (!(a->lanes >> l & 1))
            continue;
        if (a->addr[l] >= base && a->addr[l] - base + a->bytes <= size)
            ok |= 1ull << l;
        else
            stray++;
    }
    return ok;
}

uint8_t *emu_scratch(struct emu_wave *w, int lane, uint32_t offset)
{
    return w->scratch + 256 * lane + offset;
}

/* ---- assembling -------------------------------------------------------------------------------------------------- */

/* Not Check's assertions: the benchmark runs outside of a test. */
static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "test-emu_isa: %s\n", what);
    abort();
}

static uint8_t *read_text(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    need(f != NULL, path);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *elf = malloc(n), *text = NULL;
    need(fread(elf, 1, n, f) == n, path);
    fclose(f);
    Elf64_Ehdr e;
    memcpy(&e, elf, sizeof(e));
    for (int k = 0; k < e.e_shnum; k++) {
        Elf64_Shdr s, names;
        memcpy(&s, elf + e.e_shoff + (size_t)k * sizeof(s), sizeof(s));
        memcpy(&names, elf + e.e_shoff + e.e_shstrndx * sizeof(s), sizeof(s));
        if (strcmp((const char *)elf + names.sh_offset + s.sh_name, ".text"))
            continue;
        text = malloc(s.sh_size + 1);
        memcpy(text, elf + s.sh_offset, s.sh_size);
        *size = s.sh_size;
    }
    free(elf);
    need(text != NULL, "no .text");
    return text;
}

/* gfx12's way of saying it: no constant for a buffer's scalar offset, an atomic's result as a hint. */
static const char *said(const struct tested *t, const char *text, char *buf, size_t size)
{
    const char *soffset = strstr(text, "], 0"), *glc = strstr(text, " glc");
    if (t->arch.gfx < 0x1200)
        return text;
    if (strncmp(text, "buffer_", 7))
        soffset = NULL;
    int n = soffset ? (int)(soffset - text) : (int)strcspn(text, "");
    if (!soffset)
        snprintf(buf, size, "%.*s%s", (int)(glc ? glc - text : n), text, glc ? " th:TH_ATOMIC_RETURN" : "");
    else
        snprintf(buf, size, "%.*s], null%.*s%s", n, text, (int)(glc ? glc - soffset - 4 : (long)strlen(soffset + 4)),
                 soffset + 4, glc ? " th:TH_ATOMIC_RETURN" : "");
    return buf;
}

bool runs_on(int arch, int flags, const char *text)
{
    if (flags & 1 << arch)
        return true;
    if (arch < 5 || arch == 8 || !(flags & (G9 | G11)))
        return false;
    if (strstr(text, "exec_b64")) /* of waves of 64 */
        return false;
    /* gfx12's minima and maxima have rows of their own: their mode bit is gone. */
    if (arch == 6 && strstr(text, "_f") && (strstr(text, "min") || strstr(text, "max") || strstr(text, "med3")))
        return false;
    /* gfx90a and gfx942 alone have fp8 of another format, and a register file that clears what d16 loads leave. */
    return !strstr(text, "fp8") && !strstr(text, "bf8") && !(arch == 6 && flags & G11 && strstr(text, "wmma"));
}

/* NULL: gfx942 has it too. */
static const struct gfx950_words *words_of(const char *text)
{
    for (int k = 0; k < gfx950_n_words; k++)
        if (!strcmp(gfx950_words[k].text, text))
            return &gfx950_words[k];
    return NULL;
}

/* known: which texts have no error in them, one line each; NULL: an error ends the test. */
static uint8_t *assemble(int arch, const char *const *text, int n, size_t *size, bool *known)
{
    char source[] = "/tmp/rfg-isa-XXXXXX", object[64], command[512], line[1024];
    const struct tested *t = &tested[arch];
    int fd = mkstemp(source);
    FILE *f = fdopen(fd, "w");
    for (int k = 0; k < n; k++) {
        char other[256];
        const char *what = said(t, text[k], other, sizeof(other));
        const struct gfx950_words *words = t->arch.gfx == 0x950 ? words_of(text[k]) : NULL;
        for (int w = 0; words && w < words->n; w++)
            fprintf(f, "%s 0x%x", w ? "," : ".long", words->word[w]);
        for (const char *c = words ? "" : what; *c; c++) { /* a mask is vcc_lo in wave32 */
            fputc(*c, f);
            if (t->wave_size == 32 && c >= what + 2 && !strncmp(c - 2, "vcc", 3) && !strchr("_zn", c[1] ? c[1] : ' '))
                fputs("_lo", f);
        }
        fputs("\ns_endpgm\n", f);
    }
    fclose(f);
    snprintf(object, sizeof(object), "%s.o", source);
    snprintf(command, sizeof(command), LLVM_MC " -triple=amdgcn-amd-amdhsa -mcpu=%s %s -filetype=obj -o %s %s",
             t->arch.gfx == 0x950 ? "gfx942" : t->arch.name,
             t->arch.gfx < 0x1000 ? ""
             : t->wave_size == 32 ? "-mattr=+wavefrontsize32"
                                  : "-mattr=-wavefrontsize32,+wavefrontsize64",
             object, source);
    if (known) {
        snprintf(line, sizeof(line), "%s 2>&1", command);
        FILE *says = popen(line, "r");
        need(says != NULL, command);
        for (int k = 0; k < n; k++)
            known[k] = true;
        while (fgets(line, sizeof(line), says)) {
            int at, k = 0;
            if (strncmp(line, source, strlen(source)) || !strstr(line, ": error:") ||
                sscanf(line + strlen(source), ":%d:", &at) != 1)
                continue;
            for (int to = 1; k < n; k++) { /* a text's lines, each followed by one of s_endpgm */
                for (const char *c = text[k]; *c; c++)
                    to += *c == '\n';
                if (at <= to)
                    break;
                to += 2;
            }
            if (k < n)
                known[k] = false;
        }
        pclose(says);
        unlink(source);
        unlink(object);
        return NULL;
    }
    need(system(command) == 0, command);
    uint8_t *code = read_text(object, size);
    unlink(source);
    unlink(object);
    return code;
}

void snippets_known(int arch, const char *const *text, int n, bool *ok)
{
    assemble(arch, text, n, NULL, ok);
}

struct bare *snippets_build(struct snippets *s, int arch, const char *const *text, int n)
{
    size_t size;
    char error[512] = "";
    s->text = assemble(arch, text, n, &size, NULL);
    bool ok = emu_decode(&s->prog, &tested[arch].arch, tested[arch].wave_size, s->text, size,
                         (uint64_t)(uintptr_t)s->text, false, error, sizeof(error));
    need(ok, error);
    s->start = calloc((size_t)n + 1, sizeof(*s->start));
    s->n = 0;
    s->start[s->n++] = s->prog.inst;
    for (int k = 0; k + 1 < s->prog.n && s->n < n; k++)
        if (!strcmp(s->prog.inst[k].op->name, "s_endpgm"))
            s->start[s->n++] = &s->prog.inst[k + 1];
    need(s->n == n, "as many s_endpgm as snippets");
    covered_mark(&s->prog);
    return s->bare = bare_new(arch, &s->prog);
}

void snippets_free(struct snippets *s)
{
    emu_program_free(&s->prog);
    free(s->text);
    free(s->start);
    free(s->bare);
}

void decode_error(int arch, const char *text, char *error, size_t error_size)
{
    size_t size;
    struct emu_program prog;
    uint8_t *code = assemble(arch, &text, 1, &size, NULL);
    error[0] = 0;
    if (emu_decode(&prog, &tested[arch].arch, tested[arch].wave_size, code, size, (uint64_t)(uintptr_t)code, false,
                   error, error_size))
        emu_program_free(&prog);
    free(code);
}

/* ---- a wave ------------------------------------------------------------------------------------------------------ */

struct bare *bare_new(int arch, const struct emu_program *prog)
{
    struct bare *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    memset(b, 0, sizeof(*b));
    b->w = (struct emu_wave){ .wave_size = (uint8_t)tested[arch].wave_size,
                              /* all denormals, DX10_CLAMP, IEEE (not on gfx12): what HIP kernels run with */
                              .mode = tested[arch].arch.gfx >= 0x1200 ? 0x1f0 : 0x3f0,
                              .n_vgprs = 256,
                              .n_agprs = 256,
                              .v = b->v,
                              .a = b->a,
                              .scratch = b->scratch[0],
                              .scratch_bytes = 256,
                              .wg = &b->wg,
                              .prog = prog };
    b->wg = (struct emu_workgroup){ .n_waves = 1, .lds = b->lds, .lds_bytes = sizeof(b->lds), .wave = &b->w };
    return b;
}

enum emu_stop bare_run(struct bare *b, const struct emu_inst *at)
{
    b->w.pc = at;
    return emu_run(&b->w, 100000);
}

/* ---- random operands --------------------------------------------------------------------------------------------- */

static uint64_t state = 88172645463325252ull;
void rnd_seed(uint64_t seed)
{
    state = seed * 0x9e3779b97f4a7c15ull + 88172645463325252ull;
}
uint64_t rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}
uint32_t rnd32(void)
{
    static const uint32_t edges[] = {
        0,          1,          2,          31,         32,         33,         63,         64,         0x7f,
        0x80,       0xff,       0x7fff,     0x8000,     0xffff,     0x10000,    0x7fffff,   0x800000,   0x800001,
        0xffffff,   0x1000000,  0x3f800000, 0xbf800000, 0x3f000000, 0x40490fdb, 0x7f7fffff, 0x7f800000, 0xff800000,
        0x7fc00000, 0x7f800001, 0xffc12345, 0x7fffffff, 0x80000000, 0x80000001, 0x807fffff, 0xfffffffe, 0xffffffff,
        0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000, 0x477fe000, 0x477ff000, 0x38800000, 0x33800000,
        0x33000000, 0x3c003c00, 0x7bff0400, 0x03ff0001, 0x7c00fc00, 0x7e017c01, 0x80008001, 0x4b800000, 0x3effffff,
    };
    uint64_t r = rnd();
    uint32_t x = (uint32_t)(r >> 32);
    switch (r & 7) {
    case 0:
    case 1:
        return edges[x % (sizeof(edges) / sizeof(edges[0]))];
    case 2: /* a float of moderate size */
        return (x & 0x807fffff) | (((x >> 23 & 31) + 112) << 23);
    case 3:
        return x & 0xff;
    case 4: /* subnormal */
        return x & 0x807fffff;
    default:
        return x;
    }
}
uint64_t rnd64(void)
{
    static const uint64_t edges[] = { 0,
                                      1,
                                      63,
                                      64,
                                      65,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xffffffffffffffff,
                                      0x100000000,
                                      0xffffffff,
                                      0x3ff0000000000000,
                                      0x7ff0000000000000,
                                      0xfff0000000000000,
                                      0x7ff8000000000000,
                                      0x000fffffffffffff,
                                      0x8000000000000001,
                                      0x7fefffffffffffff,
                                      0x41dfffffffc00000,
                                      0xc1e0000000200000,
                                      0x41efffffffe00000,
                                      0x7ff0000000000001,
                                      0xfff4000000000000,
                                      0x3fe0000000000000,
                                      0x47efffffe0000000 };
    uint64_t r = rnd(), x = rnd();
    if ((r & 7) < 2)
        return edges[x % (sizeof(edges) / sizeof(edges[0]))];
    if ((r & 7) < 4) /* a double of moderate size */
        return (x & 0x800fffffffffffffull) | ((x >> 52 & 63) + 992) << 52;
    return (r & 7) == 4 ? rnd32() : x;
}
/* Two f16, edges among them. */
uint32_t rnd_half2(void)
{
    static const uint16_t edges[] = { 0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x401,  0x3c00,
                                      0xbc00, 0x3800, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01,
                                      0x3c01, 0x3bff, 0x0200, 0x4248, 0x1400, 0x6400 };
    uint32_t r = 0;
    for (int h = 0; h < 32; h += 16) {
        uint64_t x = rnd();
        uint32_t v = x & 3 ? (uint32_t)(x >> 8) & 0xffff : edges[(x >> 8) % (sizeof(edges) / sizeof(edges[0]))];
        if ((x & 12) == 12)
            v = (v & 0x83ff) | (uint32_t)((x >> 40 & 7) + 12) << 10;
        r |= v << h;
    }
    return r;
}

/* Bytes of a pool that is filled once, from a place drawn anew: making each word anew took most of the tests' time. */
static void from_pool(void *to, size_t size, uint64_t (*make)(void), uint64_t *pool, size_t words)
{
    for (size_t i = 0; !pool[words - 1] && i < words; i++)
        pool[i] = make() | (i == words - 1); /* the last is no zero: filled */
    need(size < 8 * words, "more random bytes than there are");
    memcpy(to, (uint8_t *)pool + 4 * (rnd() % (2 * words - size / 4)), size);
}

static uint64_t two_words(void)
{
    return (uint64_t)rnd32() << 32 | rnd32();
}

void rnd_words(void *to, size_t size)
{
    static uint64_t pool[1 << 15];
    from_pool(to, size, two_words, pool, sizeof(pool) / sizeof(pool[0]));
}

void rnd_bytes(void *to, size_t size)
{
    static uint64_t pool[1 << 15];
    from_pool(to, size, rnd, pool, sizeof(pool) / sizeof(pool[0]));
}

void bare_randomize(struct bare *b)
{
    for (int r = 0; r < 32; r++)
        rnd_words(b->v[r], 64 * sizeof(uint32_t));
    rnd_words(b->w.s, 124 * sizeof(uint32_t));
    uint64_t all = b->w.wave_size == 64 ? ~0ull : 0xffffffff;
    b->w.exec = (rnd() & 3 ? rnd() : ~0ull) & all;
    b->w.scc = rnd() & 1;
}
