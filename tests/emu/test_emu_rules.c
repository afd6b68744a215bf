/* SPDX-License-Identifier: MIT
 *
 * Every rule of the emulator's checks with a program that breaks it and one beside it that doesn't: see emu_rules.h. */
#include "emu_rules.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/util.h"
#include "emu/run/front.h"
#include "emu/isa/llvm.h"
#include "emu/check/watch.h"
#include "tests/suite.h"

static const struct {
    const char *name, *options;
    int wave_size;
} targets[P_ARCHS] = {
    { "gfx90a", "", 64 },
    { "gfx942", "", 64 },
    { "gfx1100", "-mattr=+wavefrontsize32", 32 },
    { "gfx1100", "-mattr=-wavefrontsize32,+wavefrontsize64", 64 },
    { "gfx1201", "-mattr=+wavefrontsize32", 32 },
    { "gfx950", "", 64 }, /* assembled as gfx942's */
};

/* sources: whose words the pairs must all have brought out. */
static const struct {
    const char *name;
    void (*add[3])(struct pairs *p);
    const char *sources[3];
} families[] = {
    { "hazards", { pairs_hazards }, { "check/check_hazards.c", "check/check_hazards_gfx11.c" } },
    { "registers",
      { pairs_waits, pairs_registers, pairs_gfx12 },
      { "check/check_registers.c", "check/check_memory.c" } },
    { "lds", { pairs_lds }, { "check/check_lds.c", "check/watch.c" } },
    { "races", { pairs_races }, { "check/check_races.c" } },
    { "access", { pairs_access }, { "run/memory.c", "isa/isa.c" } },
    { "nan", { pairs_nan }, { "check/check_nan.c" } },
};
#define N_FAMILIES (int)(sizeof(families) / sizeof(families[0]))

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

/* What text() made, until the family is done with. */
static char **texts;
static int n_texts, texts_room;

const char *text(const char *fmt, ...)
{
    va_list ap;
    if (n_texts == texts_room) {
        texts_room = 2 * texts_room + 256;
        texts = realloc(texts, (size_t)texts_room * sizeof(*texts));
        ck_assert_ptr_nonnull(texts);
    }
    va_start(ap, fmt);
    ck_assert_int_ge(vasprintf(&texts[n_texts], fmt, ap), 0);
    va_end(ap);
    return texts[n_texts++];
}

void pair_add(struct pairs *p, const struct pair *pair)
{
    if (!(pair->archs >> p->arch & 1))
        return;
    if (p->n == p->room) {
        p->room = 2 * p->room + 64;
        p->pair = realloc(p->pair, (size_t)p->room * sizeof(*p->pair));
        ck_assert_ptr_nonnull(p->pair);
    }
    p->pair[p->n++] = *pair;
}

static void pairs_free(struct pairs *p)
{
    while (n_texts)
        free(texts[--n_texts]);
    free(p->pair);
    *p = (struct pairs){ 0 };
}

/* ---- assembling -------------------------------------------------------------------------------------------------- */

static struct {
    struct emu_code code;
    struct emu_kernel kernel;
    struct emu_launch l;
    struct emu_memory memory;
    struct emu_symbol *symbol;
    uint64_t *start; /* offset of each program: 2 * pair + good */
    uint8_t *object;
    uint64_t kernarg[8] __attribute__((aligned(64)));
} m;

static void find_programs(int n)
{
    Elf64_Ehdr e;
    memcpy(&e, m.object, sizeof(e));
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(m.object + e.e_shoff);
    m.start = calloc((size_t)n, sizeof(*m.start));
    ck_assert_ptr_nonnull(m.start);
    for (int k = 0; k < e.e_shnum; k++) {
        const char *names = (const char *)m.object + s[e.e_shstrndx].sh_offset;
        if (!strcmp(names + s[k].sh_name, ".text")) {
            m.code.text_size = s[k].sh_size;
            m.code.image = m.object + s[k].sh_offset;
        }
        if (s[k].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *sym = (const Elf64_Sym *)(const void *)(m.object + s[k].sh_offset);
        const char *strings = (const char *)m.object + s[s[k].sh_link].sh_offset;
        for (size_t i = 0; i < s[k].sh_size / sizeof(*sym); i++) {
            int pair;
            char good;
            if (sscanf(strings + sym[i].st_name, "program_%d_%c", &pair, &good) == 2 && 2 * pair < n)
                m.start[2 * pair + (good == 'g')] = sym[i].st_value;
        }
    }
    ck_assert_ptr_nonnull(m.code.image);
}

/* What differs between the architectures. */
static const char macros[] = ".macro LANES which\n.if WAVE == 64\ns_mov_b64 exec, \\which\n.else\n"
                             "s_mov_b32 exec_lo, \\which\n.endif\n.endm\n"
                             ".if GFX == 0x90a\n"
                             ".macro WRITEBACK\n.endm\n"
                             ".macro INVALIDATE\nbuffer_wbinvl1_vol\n.endm\n"
                             ".elseif GFX == 0x942\n"
                             ".macro WRITEBACK\nbuffer_wbl2 sc1\n.endm\n"
                             ".macro INVALIDATE\nbuffer_inv sc1\n.endm\n"
                             ".else\n"
                             ".macro WRITEBACK\n.endm\n"
                             ".macro INVALIDATE\nbuffer_gl1_inv\nbuffer_gl0_inv\n.endm\n"
                             ".endif\n"
                             ".if GFX == 0x942\n"
                             ".macro BYPASS what, at:vararg\n\\what \\at sc1\n.endm\n"
                             ".macro RETURNS what, at:vararg\n\\what \\at sc0\n.endm\n"
                             ".else\n"
                             ".macro BYPASS what, at:vararg\n\\what \\at glc\n.endm\n"
                             ".macro RETURNS what, at:vararg\n\\what \\at glc\n.endm\n"
                             ".endif\n"
                             ".if GFX < 0x1000\n"
                             ".macro WAIT_STORES_TO n\ns_waitcnt vmcnt(\\n)\n.endm\n"
                             ".else\n"
                             ".macro WAIT_STORES_TO n\ns_waitcnt_vscnt null, \\n\n.endm\n"
                             ".endif\n";

static void assemble(const struct pairs *p)
{
    char source[] = "/tmp/rfg-rules-XXXXXX", object[64], command[400], error[400] = "";
    size_t size;
    const char *name = targets[p->arch].name, *assembled_as = strcmp(name, "gfx950") ? name : "gfx942";
    int fd = mkstemp(source), wave = targets[p->arch].wave_size;
    FILE *f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, ".set WAVE, %d\n.set WSHIFT, %d\n.set GFX, 0x%x\n%s", wave, wave == 64 ? 6 : 5,
            emu_arch_find(assembled_as)->gfx, macros);
    for (int k = 0; k < p->n; k++)
        for (int good = 0; good <= 1; good++)
            if (good ? p->pair[k].good : p->pair[k].bad)
                fprintf(f, "program_%d_%c:\n%s\ns_endpgm\n", k, good ? 'g' : 'b',
                        good ? p->pair[k].good : p->pair[k].bad);
    ck_assert_int_eq(fclose(f), 0);
    snprintf(object, sizeof(object), "%s.o", source);
    snprintf(command, sizeof(command), LLVM_MC " -triple=amdgcn-amd-amdhsa -mcpu=%s %s -filetype=obj -o %s %s",
             assembled_as, targets[p->arch].options, object, source);
    ck_assert_msg(system(command) == 0, "%s", command);
    m.object = (uint8_t *)rfg_read_file(object, &size);
    unlink(source);
    unlink(object);
    ck_assert_ptr_nonnull(m.object);
    find_programs(2 * p->n);
    m.code.arch = emu_arch_find(targets[p->arch].name);
    struct emu_program *prog = &m.code.program[wave == 32];
    ck_assert_msg(emu_decode(prog, m.code.arch, wave, m.code.image, m.code.text_size, (uint64_t)(uintptr_t)m.code.image,
                             false, error, sizeof(error)),
                  "%s", error);
    m.kernel = (struct emu_kernel){ .name = (char *)(uintptr_t) "pair",
                                    .wave_size = wave,
                                    .n_vgprs = 128,
                                    .n_agprs = p->arch < 2 || p->arch == 5 ? 64 : 0,
                                    .n_sgprs = 96,
                                    .scratch_bytes = 64,
                                    .kernarg_bytes = 64,
                                    .preload_length = 6,
                                    .properties = EMU_KERNEL_KERNARG_PTR,
                                    .rsrc2 = 8 << 1 | 1 << 7 };
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

#define DATA 65536
static uint64_t data_at;

static void set_up(void)
{
    bool freed;
    m.memory.limit = 1 << 24;
    data_at = emu_memory_alloc(&m.memory, DATA)->lo;
    struct emu_block *gone = emu_memory_alloc(&m.memory, 4096);
    m.kernarg[0] = data_at;
    m.kernarg[2] = gone->lo;
    ck_assert(emu_memory_free(&m.memory, (void *)(uintptr_t)gone->lo, &freed));
    m.l = (struct emu_launch){ .arch = m.code.arch,
                               .cu_count = 4,
                               .memory = &m.memory,
                               .code = &m.code,
                               .kernel = &m.kernel,
                               .kernarg = (uint8_t *)m.kernarg };
}

static void tear_down(struct pairs *p)
{
    emu_program_free(&m.code.program[targets[p->arch].wave_size == 32]);
    emu_memory_destroy(&m.memory);
    free(m.object);
    free(m.start);
    memset(&m, 0, sizeof(m));
}

/* What reports say goes to emu_reports_last(), not to the test's output. */
static enum emu_result run_quietly(void)
{
    static int null = -1;
    if (null < 0)
        null = open("/dev/null", O_WRONLY);
    fflush(stderr);
    int keep = dup(2);
    ck_assert(null >= 0 && keep >= 0 && dup2(null, 2) == 2);
    enum emu_result r = emu_launch_run(&m.l);
    fflush(stderr);
    ck_assert_int_eq(dup2(keep, 2), 2);
    close(keep);
    return r;
}

static enum emu_result run_program(const struct pairs *p, int k, bool good)
{
    const struct pair *pair = &p->pair[k];
    bool freed;
    struct emu_block *fresh = emu_memory_alloc(&m.memory, 4096), *data = emu_memory_find(&m.memory, data_at);
    ck_assert_ptr_nonnull(fresh);
    memset((void *)(uintptr_t)data_at, 0, DATA);
    emu_hooks->host_write(data, data_at, DATA);
    m.kernarg[1] = fresh->lo;
    m.kernel.entry = m.start[2 * k + good];
    m.kernel.rsrc1 = pair->wgp ? 1u << 29 : 0;
    for (int d = 0; d < 3; d++)
        m.l.grid[d] = m.l.block[d] = 1;
    m.l.grid[0] = pair->workgroups ? (uint32_t)pair->workgroups : 1;
    m.l.block[0] = (uint32_t)(pair->waves ? pair->waves : 1) * (uint32_t)m.kernel.wave_size;
    m.l.dynamic_lds = pair->lds ? (uint32_t)pair->lds : 1024;
    setenv("RFG_EMU_CHECKS", pair->groups ? pair->groups : "usual", 1);
    emu_reports_clear();
    enum emu_result r = run_quietly();
    ck_assert_int_ne(r, EMU_NO_MEMORY);
    ck_assert(emu_memory_free(&m.memory, (void *)(uintptr_t)fresh->lo, &freed));
    return r;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* All that was reported. */
static char *heard;

static void hear(const char *said)
{
    size_t had = heard ? strlen(heard) : 0;
    if (heard && strstr(heard, said))
        return;
    heard = realloc(heard, had + strlen(said) + 2);
    ck_assert_ptr_nonnull(heard);
    sprintf(heard + had, "%s\n", said);
}

/* The C string literal at *c, with those that follow it, as it is in the source; *c: behind it. False: none. */
static bool literal(const char **c, char *out, size_t size)
{
    size_t n = 0;
    while (**c == '"') {
        for ((*c)++; **c && **c != '"'; (*c)++) {
            if (**c == '\\')
                (*c)++;
            if (n + 1 < size)
                out[n++] = **c;
        }
        for ((*c)++; isspace((unsigned char)**c);)
            (*c)++;
    }
    out[n] = 0;
    return n;
}

/* The longest part of a format without conversions. */
static void plain_part(const char *fmt, char *out, size_t size)
{
    size_t best = 0, length = 0;
    for (const char *c = fmt; *c;) {
        size_t n = strcspn(c, "%");
        if (n > length) {
            best = (size_t)(c - fmt);
            length = n;
        }
        c += n;
        if (*c)
            c += strcspn(c, "diusxg") + 1;
    }
    snprintf(out, size, "%.*s", (int)length, fmt + best);
}

/* Has each sentence of the source been said by some report? A rule is known by its words: a new one fails here until
 * it has a pair. */
static int unsaid(const char *source)
{
    /* said to the user of an environment variable, of memory that was never there, or by other tests */
    static const char *const others[] = { "emu: ",          "RFG_EMU_CHECKS", "the host wrote to", "code object",
                                          "scratch memory", "argument ",      " of rank " /* tests/ops/test_comm.c */ };
    const char *path = text("%s/emu/%s", getenv("RFG_SOURCE_ROOT"), source);
    size_t size;
    char *file = rfg_read_file(path, &size), sentence[500], part[500];
    int n = 0;
    ck_assert_msg(file != NULL, "%s can't be read", path);
    for (const char *c = file; *c;) {
        bool other = false;
        if (!strncmp(c, "/*", 2))
            c = strstr(c, "*/") ? strstr(c, "*/") + 2 : c + 2;
        else if (!strncmp(c, "'\"'", 3) || !strncmp(c, "#include", 8))
            c += strcspn(c, *c == '#' ? "\n" : "") + (*c == '#' ? 0 : 3);
        else if (*c != '"')
            c++;
        else if (literal(&c, sentence, sizeof(sentence)) && strlen(sentence) > 9 && strchr(sentence, ' ')) {
            plain_part(sentence, part, sizeof(part));
            for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
                other |= !strncmp(sentence, others[k], strlen(others[k]));
            if (other || strlen(part) < 6 || (heard && strstr(heard, part)))
                continue;
            printf("%s: no bad program makes it say '%s'\n", source, part);
            n++;
        }
    }
    free(file);
    return n;
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* What is wrong with the pair, "" if nothing is. */
static const char *run_pair(const struct pairs *p, int k)
{
    const struct pair *pair = &p->pair[k];
    char last[1200] = "";
    if (pair->good) {
        enum emu_result r = run_program(p, k, true);
        emu_reports_last(last, sizeof(last));
        if (r != EMU_DONE || emu_reports(NULL))
            return text("the good program is reported: %s\n%s\n", last, pair->good);
    }
    if (!pair->bad)
        return "";
    bool note = !strncmp(pair->check, "note: ", 6);
    if (note && pair->good && *last)
        return text("the good program is noted: %s\n%s\n", last, pair->good);
    enum emu_result r = run_program(p, k, false);
    emu_reports_last(last, sizeof(last));
    if (note) {
        hear(last);
        return r == EMU_DONE && !emu_reports(NULL) && strstr(last, pair->check) && strstr(last, pair->says)
                   ? ""
                   : text("no note, or more than that: '%s'\n%s\n", last, pair->bad);
    }
    if (r != EMU_FAILED || !emu_reports(pair->check))
        return text("the bad program isn't reported as %s: '%s'\n%s\n", pair->check, last, pair->bad);
    if (emu_reports(pair->check) != emu_reports(NULL))
        return text("something else is reported too: %s\n%s\n", last, pair->bad);
    if (pair->says && !strstr(last, pair->says))
        return text("'%s' doesn't say '%s'\n%s\n", last, pair->says, pair->bad);
    hear(last);
    return "";
}

static int count_rules(const struct pairs *p)
{
    int n = 0;
    for (int k = 0; k < p->n; k++) {
        int j = 0;
        while (j < k && strcmp(p->pair[j].rule, p->pair[k].rule))
            j++;
        n += j == k;
    }
    return n;
}

static int run_family(int family, int arch)
{
    struct pairs p = { .arch = arch };
    int bad = 0, good = 0, wrong = 0;
    for (int k = 0; k < 3 && families[family].add[k]; k++)
        families[family].add[k](&p);
    if (!p.n)
        return 0;
    assemble(&p);
    set_up();
    for (int k = 0; k < p.n; k++) {
        const char *why = run_pair(&p, k);
        if (*why && ++wrong <= 20)
            printf("%s, %s: %s", targets[arch].name, p.pair[k].rule, why);
        bad += p.pair[k].bad != NULL;
        good += p.pair[k].good != NULL;
    }
    printf("%s, %s wave%d: %d rules: %d bad programs reported, %d good ones not\n", families[family].name,
           targets[arch].name, targets[arch].wave_size, count_rules(&p), bad, good);
    tear_down(&p);
    pairs_free(&p);
    return wrong;
}

START_TEST(pairs_of)
{
    int wrong = 0;
    setenv("RFG_EMU_MAX_SPIN", "100000", 1);
    emu_watch();
    for (int arch = 0; arch < P_ARCHS; arch++)
        wrong += run_family(_i, arch);
    for (int k = 0; k < 3 && families[_i].sources[k]; k++)
        wrong += unsaid(families[_i].sources[k]);
    fflush(stdout);
    ck_assert_msg(!wrong, "%d pairs or words are wrong", wrong);
}
END_TEST

int main(void)
{
    char why[200];
    if (!emu_disasm_ready(why, sizeof(why))) {
        printf("SKIPPED: the emulator: %s\n", why);
        return 77;
    }
    Suite *s = suite_create("emu_rules");
    for (int k = 0; k < N_FAMILIES; k++) {
        TCase *tc = tcase_create(families[k].name);
        tcase_set_timeout(tc, 60);
        tcase_add_loop_test(tc, pairs_of, k, k + 1);
        suite_add_tcase(s, tc);
    }
    return run_suite(s);
}
