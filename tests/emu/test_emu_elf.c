/* SPDX-License-Identifier: MIT
 *
 * The emulator's loader reads clang's output, and refuses broken files with a reason, without crashing. */
#include <elf.h>
#include <sys/mman.h>

#include "base/util.h"
#include "emu/run/front.h"
#include "emu/run/slot.h"
#include "tuner/harness/harness.h"
#include "emu_compile.h"
#include "tests/suite.h"

static const char *const source =
    "__device__ unsigned counter = 7;\n"
    "__device__ unsigned zeroed[100];\n"
    "__constant__ float lut[4] = { 1, 2, 3, 4 };\n"
    "__device__ unsigned *where = &counter;\n"
    "extern __shared__ float dyn[];\n"
    "extern \"C\" __global__ void vadd(float *y, const float *x, int n, double a)\n"
    "{\n"
    "    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() +\n"
    "            __builtin_amdgcn_workitem_id_x();\n"
    "    if (i < n) y[i] += a * x[i] + lut[i & 3];\n"
    "}\n"
    "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size(64, 64))) void three(float *y)\n"
    "{\n"
    "    __shared__ float s[100];\n"
    "    int x = __builtin_amdgcn_workitem_id_x(), z = __builtin_amdgcn_workitem_id_z();\n"
    "    s[x + z * 8 + __builtin_amdgcn_workitem_id_y() * 16] = y[x];\n"
    "    __builtin_amdgcn_s_barrier();\n"
    "    dyn[x] = 0;\n"
    "    y[x + __builtin_amdgcn_workgroup_id_z()] = s[99 - x - 2 * __builtin_amdgcn_workgroup_id_y()] + *where +"
    " zeroed[x];\n"
    "    y[100] = __builtin_amdgcn_workgroup_size_y();\n"
    "}\n"
    "__device__ __attribute__((noinline)) float f(float *a, int i)\n"
    "{\n"
    "    float b[20];\n"
    "    for (int j = 0; j < 20; j++) b[j] = a[j];\n"
    "    return b[i % 20];\n"
    "}\n"
    "extern \"C\" __global__ void calls(float *y, int i) { y[0] = f(y, i); }\n";

static const struct file {
    const char *arch, *options;
    int version;
} files[] = {
    { "gfx90a", "-mcode-object-version=4 --no-gpu-bundle-output", 4 },
    { "gfx90a", "-mcode-object-version=5 --no-gpu-bundle-output", 5 },
    { "gfx90a", "-mcode-object-version=6 --no-gpu-bundle-output", 6 },
    { "gfx942", "-mcode-object-version=4 --no-gpu-bundle-output", 4 },
    { "gfx942", "-mcode-object-version=5", 5 }, /* in a bundle */
    { "gfx942", "-g -mcode-object-version=6 --no-gpu-bundle-output", 6 },
    { "gfx942", "-mcode-object-version=5 --no-gpu-bundle-output -mllvm -amdgpu-kernarg-preload-count=4", 5 },
    { "gfx1100", "-mcode-object-version=4", 4 },
    { "gfx1100", "-mcode-object-version=5 --no-gpu-bundle-output", 5 },
    { "gfx1100", "-mcode-object-version=6 -mwavefrontsize64 --no-gpu-bundle-output", 6 },
};
#define N_FILES ((int)(sizeof(files) / sizeof(files[0])))
enum { PRELOADS = 6, WAVE64 = 9 };

static struct emu_code *load(const char *data, size_t size, const char *arch)
{
    char error[512];
    struct emu_code *code;
    ck_assert_msg(emu_code_load(&code, data, size, emu_arch_find(arch), error, sizeof(error)), "%s", error);
    return code;
}

static void expect_arg(const struct emu_kernel *k, int i, uint32_t offset, uint32_t size, enum emu_arg_kind kind)
{
    ck_assert_int_lt(i, k->n_explicit);
    ck_assert_uint_eq(k->arg[i].offset, offset);
    ck_assert_uint_eq(k->arg[i].size, size);
    ck_assert_int_eq(k->arg[i].kind, kind);
}

START_TEST(reads_what_clang_writes)
{
    const struct file *f = &files[_i];
    size_t size;
    if (!emu_can_compile())
        return;
    char *data = emu_compile(source, f->arch, f->options, &size);
    ck_assert_uint_eq(emu_code_size(data), size);
    struct emu_code *c = load(data, size, f->arch);
    free(data); /* the loader has its own */
    ck_assert_str_eq(c->arch->name, f->arch);
    ck_assert_int_eq(c->version, f->version);
    ck_assert_int_eq(c->n_kernels, 3);
    ck_assert_ptr_null(emu_code_kernel(c, "nothing"));

    const struct emu_kernel *k = emu_code_kernel(c, "vadd");
    ck_assert_ptr_nonnull(k);
    ck_assert_int_eq(k->n_explicit, 4);
    expect_arg(k, 0, 0, 8, EMU_ARG_GLOBAL_BUFFER);
    expect_arg(k, 2, 16, 4, EMU_ARG_BY_VALUE);
    expect_arg(k, 3, 24, 8, EMU_ARG_BY_VALUE);
    if (k->arg[0].name)
        ck_assert_str_eq(k->arg[0].name, "y");
    ck_assert_int_eq(k->wave_size, c->arch->wave_size == 64 || _i == WAVE64 ? 64 : 32);
    ck_assert_int_ge(k->n_vgprs, 4);
    ck_assert_int_eq(k->n_vgprs % 4, 0);
    ck_assert_uint_eq(k->lds_bytes, 0);
    ck_assert_uint_eq(k->scratch_bytes, 0);
    ck_assert_uint_ge(k->kernarg_bytes, 32);
    ck_assert(k->properties & EMU_KERNEL_KERNARG_PTR);
    if (f->version >= 5)
        ck_assert_int_gt(k->n_args, k->n_explicit); /* it asks for the group size */
    const struct emu_symbol *s = emu_code_function(c, k->entry - c->text);
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(s->name, "vadd");
    ck_assert_uint_eq(k->entry - s->value, _i == PRELOADS ? 256 : 0);
    ck_assert_int_eq(k->preload_length > 0, _i == PRELOADS);

    k = emu_code_kernel(c, "three");
    ck_assert_int_eq(k->max_threads, 64);
    ck_assert_int_eq(k->reqd[0], 0); /* only OpenCL says */
    ck_assert_uint_eq(k->lds_bytes, 400);

    k = emu_code_kernel(c, "calls");
    ck_assert_uint_ge(k->scratch_bytes, 80);

    /* data, bss, constants and the one relocation */
    const struct emu_symbol *counter = emu_code_global(c, "counter"), *where = emu_code_global(c, "where"),
                            *zeroed = emu_code_global(c, "zeroed"), *lut = emu_code_global(c, "lut");
    ck_assert(counter && where && zeroed && lut);
    ck_assert_ptr_null(emu_code_global(c, "vadd"));
    ck_assert_uint_eq(*(uint32_t *)(c->image + counter->value), 7);
    ck_assert_uint_eq(*(uint64_t *)(c->image + where->value), (uint64_t)(uintptr_t)(c->image + counter->value));
    ck_assert_uint_eq(zeroed->size, 400);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(((uint32_t *)(c->image + zeroed->value))[i], 0);
    ck_assert(((float *)(c->image + lut->value))[3] == 4);
    emu_code_free(&c);
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(source_lines)
{
    static const char *const text = "extern \"C\" __global__ void k(float *y, float *x)\n" /* after 4 lines of words */
                                    "{\n"
                                    "    float a = x[0];\n"
                                    "    float b = y[64];\n"
                                    "    y[1] = a;\n"
                                    "    y[20] = b;\n"
                                    "}\n";
    static const char *const options[] = { "-g --no-gpu-bundle-output", "-g -gdwarf-4 --no-gpu-bundle-output", "" };
    static const char *const archs[] = { "gfx90a", "gfx1100" };
    char line[128];
    size_t size;
    bool seen[16] = { 0 };
    if (!emu_can_compile())
        return;
    char *data = emu_compile(text, archs[_i & 1], options[_i / 2], &size);
    struct emu_code *c = load(data, size, archs[_i & 1]);
    for (uint64_t at = 0; at < c->text_size; at += 4)
        if (emu_code_line(c, at, line, sizeof(line))) {
            ck_assert_msg(strncmp(line, "in.hip:", 7) == 0, "%s", line);
            seen[atoi(line + 7) & 15] = true;
        }
    for (int i = 7; i <= 9; i++) /* the kernel's first statements */
        ck_assert_msg(seen[i] == (_i / 2 < 2), "line %d", i);
    ck_assert(!emu_code_line(c, 1 << 20, line, sizeof(line)));
    emu_code_free(&c);
    free(data);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *data, size_t size, const char *arch, const char *word)
{
    char error[512] = "";
    struct emu_code *c;
    ck_assert_msg(!emu_code_load(&c, data, size, arch ? emu_arch_find(arch) : NULL, error, sizeof(error)),
                  "accepted; expected '%s'", word);
    ck_assert_ptr_null(c);
    ck_assert_msg(strstr(error, word) != NULL, "expected '%s' in '%s'", word, error);
}

/* Sets a field in a copy of the file, and expects the loader to say why that can't be. */
#define WITH(type, field, value, word)                                                                                 \
    do {                                                                                                               \
        char *copy_ = malloc(size);                                                                                    \
        memcpy(copy_, data, size);                                                                                     \
        ((type *)copy_)->field = (value);                                                                              \
        expect_refusal(copy_, size, "gfx90a", word);                                                                   \
        free(copy_);                                                                                                   \
    } while (0)

START_TEST(says_why_not)
{
    size_t size, bundled;
    if (!emu_can_compile())
        return;
    char *data = emu_compile(source, "gfx90a", files[1].options, &size);
    char *bundle = emu_compile(source, "gfx942", files[4].options, &bundled);
    expect_refusal("", 0, "gfx90a", "too short");
    expect_refusal(data, 63, "gfx90a", "too short");
    expect_refusal(data, size, "gfx942", "for gfx90a");
    expect_refusal(bundle, bundled, "gfx90a", "none of its 1 code objects is for gfx90a");
    expect_refusal("CCOB and what follows", 21, "gfx90a", "compressed");
    WITH(Elf64_Ehdr, e_ident[0], 'x', "not an ELF");
    WITH(Elf64_Ehdr, e_ident[EI_CLASS], ELFCLASS32, "64 bits");
    WITH(Elf64_Ehdr, e_machine, EM_X86_64, "AMDGPU");
    WITH(Elf64_Ehdr, e_ident[EI_OSABI], 0, "AMDGPU_HSA");
    WITH(Elf64_Ehdr, e_ident[EI_ABIVERSION], 1, "v3");
    WITH(Elf64_Ehdr, e_ident[EI_ABIVERSION], 5, "v7");
    WITH(Elf64_Ehdr, e_type, ET_REL, "linked");
    WITH(Elf64_Ehdr, e_flags, 0xff, "machine 0xff");
    WITH(Elf64_Ehdr, e_phoff, size - 8, "program headers");
    WITH(Elf64_Ehdr, e_phoff, UINT64_MAX - 8, "program headers");
    WITH(Elf64_Ehdr, e_shoff, UINT64_MAX - 8, "section headers");
    WITH(Elf64_Ehdr, e_shnum, 60000, "section headers");
    /* One symbol table, told of thousands of times. */
    Elf64_Ehdr h;
    memcpy(&h, data, sizeof(h));
    size_t n_headers = 20000, bomb_size = size + n_headers * sizeof(Elf64_Shdr);
    char *bomb = malloc(bomb_size), *table = bomb + size;
    ck_assert_ptr_nonnull(bomb);
    memcpy(bomb, data, size);
    Elf64_Shdr symbols = { 0 };
    for (unsigned i = 0; i < h.e_shnum; i++) {
        memcpy(table + i * sizeof(Elf64_Shdr), data + h.e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
        Elf64_Shdr one;
        memcpy(&one, table + i * sizeof(one), sizeof(one));
        if (one.sh_type == SHT_SYMTAB)
            symbols = one;
    }
    ck_assert_uint_eq(symbols.sh_type, SHT_SYMTAB);
    for (size_t i = h.e_shnum; i < n_headers; i++)
        memcpy(table + i * sizeof(symbols), &symbols, sizeof(symbols));
    h.e_shoff = size;
    h.e_shnum = (Elf64_Half)n_headers;
    memcpy(bomb, &h, sizeof(h));
    expect_refusal(bomb, bomb_size, "gfx90a", "has room for");
    free(bomb);
    for (size_t n = 64; n < size; n += 61) {
        char error[512], *cut = malloc(n);
        struct emu_code *c;
        memcpy(cut, data, n);
        ck_assert(!emu_code_load(&c, cut, n, emu_arch_find("gfx90a"), error, sizeof(error)));
        free(cut);
    }
    free(data);
    free(bundle);
}
END_TEST

/* A global's bytes all lie in its segment: one that ends past it isn't there, though the segment is as large. */
START_TEST(symbols_past_their_segment)
{
    size_t size;
    if (!emu_can_compile())
        return;
    char *data = emu_compile(source, "gfx90a", files[1].options, &size);
    struct emu_code *c = load(data, size, "gfx90a");
    free(data);
    const struct emu_symbol *zeroed = emu_code_global(c, "zeroed");
    uint64_t before = 0, room = 0; /* of its segment */
    for (int i = 0; i < c->n_segments && !room; i++)
        if (zeroed->value - c->segment[i].vaddr < c->segment[i].memsz) {
            before = zeroed->value - c->segment[i].vaddr;
            room = c->segment[i].memsz - before;
        }
    ck_assert_uint_ge(before, 1);
    ck_assert_uint_ge(room, 400);
    for (int more = 0; more < 2; more++) {
        for (size_t i = 0; i < c->n_symbols; i++) /* there may be two tables */
            if (!strcmp(c->symbol[i].name, "zeroed"))
                c->symbol[i].size = room + (uint64_t)more;
        ck_assert_int_eq(emu_code_global(c, "zeroed") == NULL, more);
    }
    emu_code_free(&c);
}
END_TEST

/* ---- damage
 * ---------------------------------------------------------------------------------------------------------- */

/* Places worth hitting: headers, section headers and notes rather than code. */
static size_t pick(uint64_t *seed, const char *data, size_t size)
{
    Elf64_Ehdr h;
    memcpy(&h, data, sizeof(h));
    size_t at;
    switch (rfg_random(seed) % 5) {
    case 0:
        return rfg_random(seed) % 64;
    case 1:
        return 64 + rfg_random(seed) % 512;
    case 2: /* notes come right after the program headers */
        return 500 + rfg_random(seed) % 3000;
    case 3:
        at = h.e_shoff < size ? h.e_shoff : 0;
        return at + rfg_random(seed) % (size - at);
    default:
        return rfg_random(seed) % size;
    }
}

static void damage(uint64_t *seed, char *data, size_t size)
{
    static const uint64_t values[] = { 0,
                                       1,
                                       8,
                                       0x7f,
                                       0xff,
                                       0xffff,
                                       0x7fffffff,
                                       0xffffffff,
                                       0x7fffffffffffffff,
                                       0xffffffffffffffff,
                                       0xffffffffffffff00,
                                       0xdd,
                                       0xdf,
                                       0xc9,
                                       0x1000,
                                       1ull << 40 };
    int n = 1 + (int)(rfg_random(seed) % 4);
    for (int i = 0; i < n; i++) {
        size_t at = pick(seed, data, size), width = 1ull << rfg_random(seed) % 4;
        uint64_t v = rfg_random(seed) % 2 ? values[rfg_random(seed) % 16] : rfg_random(seed);
        if (at + width > size)
            continue;
        if (rfg_random(seed) % 3 == 0)
            data[at] ^= (char)(1 << rfg_random(seed) % 8);
        else
            memcpy(data + at, &v, width);
    }
}

/* A quarter of the 100,000 in each of four processes, so that each stays short. */
START_TEST(survives_damage)
{
    uint64_t seed = 1000 + (uint64_t)_i;
    int refused = 0, n = 25000;
    if (!emu_can_compile())
        return;
    for (int f = _i; f < N_FILES; f += 4) {
        size_t size;
        char *data = emu_compile(source, files[f].arch, files[f].options, &size);
        char *copy = malloc(size);
        int share = n / ((N_FILES - _i + 3) / 4) + 1;
        for (int i = 0; i < share; i++) {
            char error[512] = "";
            size_t length = rfg_random(&seed) % 16 ? size : rfg_random(&seed) % size;
            struct emu_code *c;
            memcpy(copy, data, size);
            damage(&seed, copy, size);
            if (!emu_code_load(&c, copy, length, rfg_random(&seed) % 4 ? emu_arch_find(files[f].arch) : NULL, error,
                               sizeof(error))) {
                refused++;
                ck_assert_msg(*error, "seed %d, file %d, mutation %d: refused without a reason", 1000 + _i, f, i);
                ck_assert_ptr_null(c);
            } else {
                if (i % 25 == 0) /* the decoder takes what it gets, too */
                    (void)emu_code_decode(c, i % 50 == 0, error, sizeof(error));
                if (i % 5 == 0)
                    (void)emu_code_line(c, rfg_random(&seed) % 4096, error, sizeof(error));
                emu_code_free(&c);
            }
        }
        free(copy);
        free(data);
    }
    ck_assert_int_gt(refused, n / 10); /* else the damage hits nothing */
}
END_TEST

/* ---- images of unknown size
 * ------------------------------------------------------------------------------------------- */

/* size bytes that end where memory does. */
static char *at_the_edge(const void *data, size_t size)
{
    size_t pages = (size + 4095) / 4096 * 4096;
    char *map = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_eq(mprotect(map + pages, 4096, PROT_NONE), 0);
    memcpy(map + pages - size, data, size);
    return map + pages - size;
}

static void not_an_image(const void *data, size_t size)
{
    char error[512] = "", *image = at_the_edge(data, size);
    struct emu_code *c;
    ck_assert_uint_eq(emu_code_size(image), 0);
    ck_assert(!emu_code_load_image(&c, image, NULL, error, sizeof(error)));
    ck_assert_ptr_null(c);
    ck_assert_str_ne(error, "");
}

/* hipModuleLoadData() gets a pointer: tables far away, or without an end, must not be followed. */
START_TEST(headers_that_lie)
{
    static const struct {
        uint64_t shoff, phoff;
        uint16_t shnum, phnum;
    } lies[] = {
        { 1ull << 45, 64, 4, 1 }, { 64, 1ull << 45, 1, 4 },         { 64, 64, 0xffff, 1 },    { 64, 64, 1, 0xffff },
        { UINT64_MAX, 64, 1, 0 }, { UINT64_MAX - 32, 64, 1, 0 },    { 64, UINT64_MAX, 0, 1 }, { 4096, 64, 1, 0 },
        { 64, 4096, 0, 1 },       { 1ull << 63, 1ull << 63, 2, 2 },
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        Elf64_Ehdr h = { .e_ident = ELFMAG, .e_shoff = lies[i].shoff, .e_phoff = lies[i].phoff };
        h.e_shnum = lies[i].shnum;
        h.e_phnum = lies[i].phnum;
        h.e_shentsize = sizeof(Elf64_Shdr);
        h.e_phentsize = sizeof(Elf64_Phdr);
        not_an_image(&h, sizeof(h));
    }
    struct {
        Elf64_Ehdr h;
        Elf64_Phdr p;
        Elf64_Shdr s;
    } far = { .h = { .e_ident = ELFMAG, .e_phoff = 64, .e_phnum = 1, .e_phentsize = sizeof(Elf64_Phdr) },
              .p = { .p_offset = UINT64_MAX - 8, .p_filesz = 16 } };
    not_an_image(&far, sizeof(far)); /* their sum is 7 */
    far.p = (Elf64_Phdr){ 0 };
    far.h.e_shoff = offsetof(__typeof__(far), s);
    far.h.e_shnum = 1;
    far.h.e_shentsize = sizeof(far.s);
    far.s = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_offset = 8, .sh_size = 1ull << 45 };
    not_an_image(&far, sizeof(far));
    far.s.sh_type = SHT_NOBITS; /* it takes no room: whole, but for what a code object must have */
    ck_assert_uint_eq(emu_code_size(at_the_edge(&far, sizeof(far))), sizeof(far));
    far.s = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_offset = 8, .sh_size = sizeof(far) };
    char error[512];
    struct emu_code *c;
    ck_assert(!emu_code_load_image(&c, at_the_edge(&far, sizeof(far)), NULL, error, sizeof(error)));
    ck_assert_msg(strstr(error, "there are fewer") != NULL, "%s", error);

    static const uint64_t entries[][4] = {
        /* how many, offset, size, id_size */
        { 1, 1ull << 45, 1, 4 }, { 1, 0, 1ull << 45, 4 }, { 1, 0, 1, 1ull << 45 },     { 1, UINT64_MAX, 2, 4 },
        { UINT64_MAX, 0, 1, 4 }, { 2, 0, 1, 0 },          { 1, 0, 1, UINT64_MAX - 40 }
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        char bundle[24 + 32] = "__CLANG_OFFLOAD_BUNDLE__";
        memcpy(bundle + 24, entries[i], 32);
        not_an_image(bundle, sizeof(bundle));
    }
    not_an_image("__CLANG_OFFLOAD_BUNDLE__", 24);
    not_an_image("\177ELF", 4);
    not_an_image("x", 1);
}
END_TEST

/* The same damage as above, at the edge of memory, with the size that the headers tell; alone and in a bundle. */
START_TEST(survives_damage_of_unknown_size)
{
    static const char *const ids[] = { "host-x86_64-unknown-linux--", "hip-amdgcn-amd-amdhsa--gfx942" };
    uint64_t seed = 77;
    size_t size;
    if (!emu_can_compile())
        return;
    char *data = emu_compile(source, "gfx942", files[3].options, &size);
    char *bundle = calloc(1, 4096 + size), *at = bundle + 24 + 8;
    memcpy(bundle, "__CLANG_OFFLOAD_BUNDLE__", 24);
    bundle[24] = 2; /* entries: clang puts an empty one for the host first */
    for (int i = 0; i < 2; i++) {
        uint64_t entry[] = { 4096, i ? size : 0, strlen(ids[i]) };
        memcpy(at, entry, sizeof(entry));
        memcpy(at + sizeof(entry), ids[i], entry[2]);
        at += sizeof(entry) + entry[2];
    }
    memcpy(bundle + 4096, data, size);
    for (int bundled = 0; bundled < 2; bundled++) {
        const char *whole = bundled ? bundle : data;
        size_t length = bundled ? 4096 + size : size;
        char *image = at_the_edge(whole, length), error[512];
        struct emu_code *c;
        ck_assert_uint_eq(emu_code_size(image), length);
        ck_assert_msg(emu_code_load_image(&c, image, emu_arch_find("gfx942"), error, sizeof(error)), "%s", error);
        emu_code_free(&c);
        for (int i = 0; i < 3000; i++) {
            memcpy(image, whole, length);
            damage(&seed, image, i % 4 ? 128 : length); /* mostly the headers */
            if (emu_code_load_image(&c, image, emu_arch_find("gfx942"), error, sizeof(error)))
                emu_code_free(&c);
        }
    }
    free(bundle);
    free(data);
}
END_TEST

START_TEST(hidden_arguments)
{
    size_t size;
    if (!emu_can_compile())
        return;
    for (int f = 1; f <= 8; f += 7) {
        char *data = emu_compile(source, files[f].arch, files[f].options, &size);
        struct emu_code *c = load(data, size, files[f].arch);
        uint8_t kernarg[512];
        uint64_t y = 0x1111, x = 0x2222;
        int n = 33;
        double a = 1.5;
        void *params[] = { &y, &x, &n, &a };
        struct emu_launch l = { .arch = c->arch, .code = c, .kernel = emu_code_kernel(c, "vadd"), .kernarg = kernarg };
        for (int d = 0; d < 3; d++) {
            l.grid[d] = 10 + (uint32_t)d;
            l.block[d] = 3 + (uint32_t)d;
        }
        l.dynamic_lds = 1234;
        ck_assert_uint_le(l.kernel->kernarg_bytes, sizeof(kernarg));
        memset(kernarg, 0xAA, sizeof(kernarg));
        emu_kernarg_fill(&l, params, NULL, 0);
        ck_assert_mem_eq(kernarg, &y, 8);
        ck_assert_mem_eq(kernarg + 8, &x, 8);
        ck_assert_mem_eq(kernarg + 16, &n, 4);
        ck_assert_mem_eq(kernarg + 24, &a, 8);
        int seen = 0;
        for (int i = l.kernel->n_explicit; i < l.kernel->n_args; i++) {
            const struct emu_arg *arg = &l.kernel->arg[i];
            uint64_t v = 0;
            memcpy(&v, kernarg + arg->offset, arg->size < 8 ? arg->size : 8);
            if (arg->kind <= EMU_ARG_HIDDEN_BLOCK_COUNT_Z)
                ck_assert_uint_eq(v, 10 + arg->kind - EMU_ARG_HIDDEN_BLOCK_COUNT_X);
            else if (arg->kind <= EMU_ARG_HIDDEN_GROUP_SIZE_Z)
                ck_assert_uint_eq(v, 3 + arg->kind - EMU_ARG_HIDDEN_GROUP_SIZE_X);
            else if (arg->kind == EMU_ARG_HIDDEN_GRID_DIMS)
                ck_assert_uint_eq(v, 3);
            else
                ck_assert_uint_eq(v, arg->kind == EMU_ARG_HIDDEN_DYNAMIC_LDS_SIZE ? 1234 : 0);
            seen++;
        }
        ck_assert_int_ge(seen, 10);
        uint8_t packed[24];
        memset(packed, 0x5A, sizeof(packed));
        emu_kernarg_fill(&l, NULL, packed, sizeof(packed));
        ck_assert_mem_eq(kernarg, packed, sizeof(packed));
        ck_assert_uint_eq(kernarg[24], 0);
        emu_code_free(&c);
        free(data);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_elf");
    TCase *tc = test_case(s, "files", NULL, NULL);
    tcase_set_timeout(tc, 200);
    ADD_TESTS(tc, says_why_not, symbols_past_their_segment);
    ADD_LOOPS(tc, N_FILES, reads_what_clang_writes);
    ADD_LOOPS(tc, 6, source_lines);
    ADD_LOOPS(tc, 4, survives_damage);
    tc = test_case(s, "sizes", NULL, NULL);
    ADD_TESTS(tc, headers_that_lie, survives_damage_of_unknown_size);
    ADD_TESTS(test_case(s, "start", NULL, NULL), hidden_arguments);
    return run_suite(s);
}
