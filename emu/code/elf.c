/* SPDX-License-Identifier: MIT
 *
 * The AMDGPU ELF loader: headers, segments, relocations, symbols, notes, kernel descriptors. Nothing in the file is
 * trusted: every offset is checked before it is followed. */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "code.h"

#define PAGE          4096ull
#define MAX_IMAGE     (1ull << 30)
#define GUARD         (16 * PAGE) /* before and after an image: nothing may be there */
#define MACH_MASK     0xffu
#define NOTE_METADATA 32  /* NT_AMDGPU_METADATA */
#define DESCRIPTOR    64  /* bytes */
#define PRELOAD_SKIP  256 /* the prologue for hardware that does not preload arguments */

enum { R_NONE = 0, R_ABS32_LO = 1, R_ABS32_HI, R_ABS64, R_REL32, R_REL64, R_ABS32, R_RELATIVE64 = 13 };

struct loader {
    struct emu_code *code;
    const Elf64_Ehdr *header;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct loader *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->error, l->error_size, fmt, ap);
    va_end(ap);
    return false;
}

/* [offset, offset + size) of the file, or NULL. */
static const void *at(const struct loader *l, uint64_t offset, uint64_t size)
{
    return offset <= l->code->file_size && size <= l->code->file_size - offset ? l->code->file + offset : NULL;
}

/* Copies are made of what is read: nothing in a file has to be aligned. */
static bool read_at(const struct loader *l, uint64_t offset, void *out, size_t size)
{
    const void *p = at(l, offset, size);
    if (p)
        memcpy(out, p, size);
    return p;
}

static bool section(const struct loader *l, unsigned i, Elf64_Shdr *out)
{
    return i < l->header->e_shnum && l->header->e_shoff <= l->code->file_size &&
           read_at(l, l->header->e_shoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

/* Where the loaded code object has [vaddr, vaddr + size); NULL if that isn't inside one segment. */
static uint8_t *loaded(const struct emu_code *c, uint64_t vaddr, uint64_t size, const struct emu_segment **out)
{
    for (int i = 0; i < c->n_segments; i++) {
        const struct emu_segment *s = &c->segment[i];
        if (vaddr >= s->vaddr && vaddr - s->vaddr <= s->memsz && size <= s->memsz - (vaddr - s->vaddr)) {
            if (out)
                *out = s;
            return c->image + vaddr;
        }
    }
    return NULL;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

/* Code objects for all of a family: what they run on. */
static bool generic_covers(unsigned mach, const struct emu_arch *arch)
{
    return (mach == 0x5f && (arch->gfx == 0x942 || arch->gfx == 0x950)) || /* gfx9-4-generic */
           (mach == 0x53 && arch->gfx == 0x1030) ||                        /* gfx10-3-generic */
           (mach == 0x54 && arch->gfx >> 8 == 0x11) ||                     /* gfx11-generic */
           (mach == 0x59 && arch->gfx >> 8 == 0x12);                       /* gfx12-generic */
}

static bool check_header(struct loader *l, const struct emu_arch *want)
{
    const Elf64_Ehdr *h = l->header;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG))
        return fail(l, "not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != 224)
        return fail(l, "ELF of machine %u, class %u: must be AMDGPU (224), 64 bits, little-endian", h->e_machine,
                    h->e_ident[EI_CLASS]);
    if (h->e_ident[EI_OSABI] != 64)
        return fail(l, "ELF of OS ABI %u: must be AMDGPU_HSA (64)", h->e_ident[EI_OSABI]);
    l->code->version = h->e_ident[EI_ABIVERSION] + 2;
    if (l->code->version < 4 || l->code->version > 6)
        return fail(l, "code object v%d: must be v4, v5 or v6", l->code->version);
    if (h->e_type != ET_DYN)
        return fail(l, "ELF of type %u: must be a linked one (3)", h->e_type);
    unsigned mach = h->e_flags & MACH_MASK;
    const struct emu_arch *is = emu_arch_of_mach(mach);
    if (want && !((is && is->mach == want->mach) || generic_covers(mach, want)))
        return fail(l, "code object for %s (machine 0x%02x): must be for %s (0x%02x)", is ? is->name : "another GPU",
                    mach, want->name, (unsigned)want->mach);
    if (!want && !is)
        return fail(l, "code object for machine 0x%02x: not an architecture that is known here", mach);
    l->code->arch = want ? want : is;
    if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phoff > l->code->file_size ||
        !at(l, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr)))
        return fail(l, "program headers (%u of %u bytes at 0x%llx) are not in the file of %zu bytes", h->e_phnum,
                    h->e_phentsize, (unsigned long long)h->e_phoff, l->code->file_size);
    if (h->e_shentsize != sizeof(Elf64_Shdr) || !h->e_shnum || h->e_shoff > l->code->file_size ||
        !at(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return fail(l, "section headers (%u of %u bytes at 0x%llx) are not in the file of %zu bytes", h->e_shnum,
                    h->e_shentsize, (unsigned long long)h->e_shoff, l->code->file_size);
    return true;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static bool add_segment(struct loader *l, const Elf64_Phdr *p)
{
    struct emu_code *c = l->code;
    if (c->n_segments == EMU_MAX_SEGMENTS)
        return fail(l, "more than %d segments to load", EMU_MAX_SEGMENTS);
    if (!at(l, p->p_offset, p->p_filesz) || p->p_filesz > p->p_memsz)
        return fail(l, "segment %d: 0x%llx bytes at offset 0x%llx are not in the file of %zu bytes", c->n_segments,
                    (unsigned long long)p->p_filesz, (unsigned long long)p->p_offset, c->file_size);
    if (p->p_vaddr > MAX_IMAGE || p->p_memsz > MAX_IMAGE - p->p_vaddr)
        return fail(l, "segment %d: 0x%llx bytes at address 0x%llx: must end below 0x%llx", c->n_segments,
                    (unsigned long long)p->p_memsz, (unsigned long long)p->p_vaddr, MAX_IMAGE);
    for (int i = 0; i < c->n_segments; i++)
        if (p->p_vaddr < c->segment[i].vaddr + c->segment[i].memsz && c->segment[i].vaddr < p->p_vaddr + p->p_memsz)
            return fail(l, "segments %d and %d overlap", i, c->n_segments);
    c->segment[c->n_segments++] =
        (struct emu_segment){ p->p_vaddr, p->p_filesz, p->p_memsz, p->p_flags & PF_W, p->p_flags & PF_X };
    uint64_t end = (p->p_vaddr + p->p_memsz + PAGE - 1) & ~(PAGE - 1);
    if (end > c->image_size)
        c->image_size = end;
    return true;
}

static bool load_segments(struct loader *l)
{
    struct emu_code *c = l->code;
    uint64_t offsets[EMU_MAX_SEGMENTS];
    for (unsigned i = 0; i < l->header->e_phnum; i++) {
        Elf64_Phdr p;
        read_at(l, l->header->e_phoff + i * sizeof(p), &p, sizeof(p));
        if (p.p_type != PT_LOAD || !p.p_memsz)
            continue;
        if (!add_segment(l, &p))
            return false;
        offsets[c->n_segments - 1] = p.p_offset;
    }
    if (!c->n_segments)
        return fail(l, "no segment to load");
    c->mapping_size = c->image_size + 2 * GUARD;
    c->mapping = mmap(NULL, c->mapping_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->mapping == MAP_FAILED) {
        c->mapping = NULL;
        return fail(l, "no memory for an image of %zu bytes", c->image_size);
    }
    c->image = (uint8_t *)c->mapping + GUARD;
    if (mprotect(c->image, c->image_size, PROT_READ | PROT_WRITE))
        return fail(l, "no memory for an image of %zu bytes", c->image_size);
    for (int i = 0; i < c->n_segments; i++)
        memcpy(c->image + c->segment[i].vaddr, c->file + offsets[i], c->segment[i].filesz);
    return true;
}

static bool find_text(struct loader *l)
{
    struct emu_code *c = l->code;
    uint64_t lo = UINT64_MAX, hi = 0;
    for (unsigned i = 0; i < l->header->e_shnum; i++) {
        Elf64_Shdr s;
        const struct emu_segment *seg;
        section(l, i, &s);
        if (s.sh_type != SHT_PROGBITS || !(s.sh_flags & SHF_EXECINSTR) || !s.sh_size)
            continue;
        if (!loaded(c, s.sh_addr, s.sh_size, &seg) || !seg->executable || s.sh_addr % 4 || s.sh_size % 4)
            return fail(l, "section %u, code: 0x%llx bytes at 0x%llx are not whole words of a segment with code", i,
                        (unsigned long long)s.sh_size, (unsigned long long)s.sh_addr);
        lo = s.sh_addr < lo ? s.sh_addr : lo;
        hi = s.sh_addr + s.sh_size > hi ? s.sh_addr + s.sh_size : hi;
    }
    if (lo >= hi)
        return true; /* data only */
    if (!loaded(c, lo, hi - lo, NULL))
        return fail(l, "sections with code are not in one segment");
    c->text = lo;
    c->text_size = hi - lo;
    return true;
}

/* ---- symbols and relocations ------------------------------------------------------------------------------------- */

/* A string of a string table; NULL if it isn't inside. */
static const char *string_at(const struct loader *l, const Elf64_Shdr *strings, uint64_t offset)
{
    const char *table = strings->sh_type == SHT_STRTAB ? at(l, strings->sh_offset, strings->sh_size) : NULL;
    return table && offset < strings->sh_size && memchr(table + offset, 0, strings->sh_size - offset) ? table + offset
                                                                                                      : NULL;
}

static bool read_symbols(struct loader *l, const Elf64_Shdr *s)
{
    struct emu_code *c = l->code;
    Elf64_Shdr strings;
    uint64_t n = s->sh_size / sizeof(Elf64_Sym);
    if (s->sh_entsize != sizeof(Elf64_Sym) || !at(l, s->sh_offset, s->sh_size) || !section(l, s->sh_link, &strings))
        return fail(l, "a symbol table of 0x%llx bytes at offset 0x%llx is broken", (unsigned long long)s->sh_size,
                    (unsigned long long)s->sh_offset);
    if (n > c->file_size / sizeof(Elf64_Sym) - c->n_entries)
        return fail(l, "its symbol tables and relocations are more than the file of %zu bytes has room for",
                    c->file_size);
    c->n_entries += n;
    struct emu_symbol *grown = realloc(c->symbol, (c->n_symbols + n + 1) * sizeof(*grown));
    if (!grown)
        return fail(l, "no memory for %llu symbols", (unsigned long long)n);
    c->symbol = grown;
    for (uint64_t i = 1; i < n; i++) {
        Elf64_Sym sym;
        read_at(l, s->sh_offset + i * sizeof(sym), &sym, sizeof(sym));
        const char *name = string_at(l, &strings, sym.st_name);
        if (!name)
            return fail(l, "symbol %llu: its name is not in the string table", (unsigned long long)i);
        int type = ELF64_ST_TYPE(sym.st_info);
        if (sym.st_shndx != SHN_UNDEF && sym.st_shndx < SHN_LORESERVE && *name &&
            (type == STT_OBJECT || type == STT_FUNC || type == STT_NOTYPE))
            c->symbol[c->n_symbols++] = (struct emu_symbol){ name, sym.st_value, sym.st_size, (uint8_t)type };
    }
    return true;
}

static bool symbol_address(struct loader *l, const Elf64_Shdr *table, uint64_t index, uint64_t *out)
{
    Elf64_Sym sym;
    Elf64_Shdr strings;
    if (!index) {
        *out = 0;
        return true;
    }
    if (table->sh_type != SHT_DYNSYM || index >= table->sh_size / sizeof(sym) ||
        !read_at(l, table->sh_offset + index * sizeof(sym), &sym, sizeof(sym)))
        return fail(l, "a relocation's symbol %llu is not in the symbol table", (unsigned long long)index);
    const char *name = section(l, table->sh_link, &strings) ? string_at(l, &strings, sym.st_name) : NULL;
    if (sym.st_shndx == SHN_UNDEF)
        return fail(l, "symbol '%s' is used, but not defined", name ? name : "?");
    *out = (uint64_t)(uintptr_t)l->code->image + sym.st_value;
    return true;
}

static bool relocate(struct loader *l, const Elf64_Shdr *s)
{
    struct emu_code *c = l->code;
    Elf64_Shdr table = { 0 };
    uint64_t n = s->sh_size / sizeof(Elf64_Rela);
    if (s->sh_entsize != sizeof(Elf64_Rela) || !at(l, s->sh_offset, s->sh_size) || !section(l, s->sh_link, &table) ||
        !at(l, table.sh_offset, table.sh_size))
        return fail(l, "a relocation table of 0x%llx bytes at offset 0x%llx is broken", (unsigned long long)s->sh_size,
                    (unsigned long long)s->sh_offset);
    if (n > c->file_size / sizeof(Elf64_Sym) - c->n_entries)
        return fail(l, "its symbol tables and relocations are more than the file of %zu bytes has room for",
                    c->file_size);
    c->n_entries += n;
    for (uint64_t i = 0; i < n; i++) {
        Elf64_Rela r;
        uint64_t sym = 0;
        read_at(l, s->sh_offset + i * sizeof(r), &r, sizeof(r));
        unsigned type = (unsigned)ELF64_R_TYPE(r.r_info);
        size_t size = type == R_ABS64 || type == R_REL64 || type == R_RELATIVE64 ? 8 : 4;
        if (type == R_NONE)
            continue;
        uint8_t *place = loaded(l->code, r.r_offset, size, NULL);
        if (!place)
            return fail(l, "relocation %llu is for address 0x%llx, which isn't loaded", (unsigned long long)i,
                        (unsigned long long)r.r_offset);
        if (!symbol_address(l, &table, ELF64_R_SYM(r.r_info), &sym))
            return false;
        uint64_t value = sym + (uint64_t)r.r_addend;
        switch (type) {
        case R_RELATIVE64:
            value = (uint64_t)(uintptr_t)l->code->image + (uint64_t)r.r_addend;
            break;
        case R_ABS64:
        case R_ABS32:
        case R_ABS32_LO:
            break;
        case R_ABS32_HI:
            value >>= 32;
            break;
        case R_REL32:
        case R_REL64:
            value -= (uint64_t)(uintptr_t)place;
            break;
        default:
            return fail(l, "relocation %llu is of type %u: not one that a linked code object has",
                        (unsigned long long)i, type);
        }
        memcpy(place, &value, size);
    }
    return true;
}

static bool read_sections(struct loader *l)
{
    Elf64_Shdr s;
    for (unsigned i = 0; i < l->header->e_shnum; i++)
        if (section(l, i, &s) && (s.sh_type == SHT_DYNSYM || s.sh_type == SHT_SYMTAB) && !read_symbols(l, &s))
            return false;
    for (unsigned i = 0; i < l->header->e_shnum; i++)
        if (section(l, i, &s) && s.sh_type == SHT_RELA && (s.sh_flags & SHF_ALLOC) && !relocate(l, &s))
            return false;
    return true;
}

/* ---- notes and descriptors --------------------------------------------------------------------------------------- */

static bool read_notes(struct loader *l, const Elf64_Phdr *p, bool *found)
{
    if (!at(l, p->p_offset, p->p_filesz))
        return fail(l, "notes: 0x%llx bytes at offset 0x%llx are not in the file of %zu bytes",
                    (unsigned long long)p->p_filesz, (unsigned long long)p->p_offset, l->code->file_size);
    for (uint64_t o = 0; p->p_filesz - o >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr n;
        read_at(l, p->p_offset + o, &n, sizeof(n));
        o += sizeof(n);
        uint64_t name = ((uint64_t)n.n_namesz + 3) & ~3ull, desc = ((uint64_t)n.n_descsz + 3) & ~3ull;
        if (name > p->p_filesz - o || n.n_descsz > p->p_filesz - o - name)
            return fail(l, "notes: one is larger than its segment");
        const uint8_t *data = at(l, p->p_offset + o, name + n.n_descsz);
        if (n.n_type == NOTE_METADATA && n.n_namesz == 7 && !memcmp(data, "AMDGPU", 7)) {
            if (*found)
                return fail(l, "notes: there are two with metadata");
            *found = true;
            if (!emu_meta_parse(l->code, data + name, n.n_descsz, l->error, l->error_size))
                return false;
        }
        o += name + desc;
        if (o > p->p_filesz)
            break;
    }
    return true;
}

static bool read_metadata(struct loader *l)
{
    bool found = false;
    uint64_t size = 0;
    for (unsigned i = 0; i < l->header->e_phnum; i++) {
        Elf64_Phdr p;
        read_at(l, l->header->e_phoff + i * sizeof(p), &p, sizeof(p));
        if (p.p_type != PT_NOTE)
            continue;
        if (p.p_filesz > l->code->file_size - size)
            return fail(l, "notes: more than the file of %zu bytes has room for", l->code->file_size);
        size += p.p_filesz;
        if (!read_notes(l, &p, &found))
            return false;
    }
    return found || fail(l, "no metadata: must have a note of type %d by AMDGPU", NOTE_METADATA);
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static void count_registers(const struct emu_arch *arch, struct emu_kernel *k)
{
    int granules = (int)(k->rsrc1 & 63) + 1, total;
    if (arch->gfx >= 0x1000) {
        total = granules * (k->wave_size == 32 ? 8 : 4);
        k->n_sgprs = 106;
    } else {
        total = granules * (arch->unified_agprs ? 8 : 4);
        if (!k->n_sgprs || k->n_sgprs > 102)
            k->n_sgprs = 102;
    }
    if (arch->unified_agprs) {
        int accum = (int)((k->rsrc3 & 63) + 1) * 4; /* where the AGPRs begin */
        k->n_vgprs = accum < total ? accum : total;
        k->n_agprs = total - k->n_vgprs;
    } else {
        k->n_vgprs = total;
        k->n_agprs = arch->gfx == 0x908 ? total : 0;
    }
    if (k->n_vgprs > 256)
        k->n_vgprs = 256;
    if (k->n_agprs > 256)
        k->n_agprs = 256;
}

static bool read_descriptor(struct loader *l, struct emu_kernel *k)
{
    struct emu_code *c = l->code;
    const uint8_t *d = loaded(c, k->descriptor, DESCRIPTOR, NULL);
    if (!d)
        return fail(l, "kernel '%.120s': its descriptor at 0x%llx isn't loaded", k->name,
                    (unsigned long long)k->descriptor);
    uint64_t entry;
    uint16_t preload;
    memcpy(&entry, d + 16, sizeof(entry));
    memcpy(&k->properties, d + 56, sizeof(k->properties));
    memcpy(&preload, d + 58, sizeof(preload));
    k->lds_bytes = u32_at(d);
    k->scratch_bytes = u32_at(d + 4);
    uint32_t kernarg = u32_at(d + 8);
    k->rsrc3 = u32_at(d + 44);
    k->rsrc1 = u32_at(d + 48);
    k->rsrc2 = u32_at(d + 52);
    k->preload_length = preload & 127;
    k->preload_offset = (uint8_t)(preload >> 7 & 127);
    k->entry = k->descriptor + entry + (k->preload_length ? PRELOAD_SKIP : 0);
    if (k->entry < c->text || k->entry - c->text >= c->text_size || k->entry % 4)
        return fail(l, "kernel '%.120s': its entry 0x%llx is not in the code, 0x%llx bytes at 0x%llx", k->name,
                    (unsigned long long)k->entry, (unsigned long long)c->text_size, (unsigned long long)c->text);
    if (kernarg > 65536)
        return fail(l, "kernel '%.120s': its kernarg segment is %u bytes: must be at most 65536", k->name, kernarg);
    if (kernarg > k->kernarg_bytes) /* assembly leaves it 0 in one of the two places */
        k->kernarg_bytes = kernarg;
    if (4u * (k->preload_offset + k->preload_length) > k->kernarg_bytes)
        return fail(l, "kernel '%.120s': %u dwords are preloaded from dword %u of a kernarg segment of %u bytes",
                    k->name, k->preload_length, k->preload_offset, k->kernarg_bytes);
    bool wave32 = k->properties & EMU_KERNEL_WAVE32;
    if (wave32 != (k->wave_size == 32))
        return fail(l, "kernel '%.120s': the descriptor says wave%d, the metadata wave%d", k->name, wave32 ? 32 : 64,
                    k->wave_size);
    if (k->lds_bytes > (uint32_t)c->arch->lds_bytes)
        return fail(l, "kernel '%.120s': needs %u bytes of LDS: %s has %d", k->name, k->lds_bytes, c->arch->name,
                    c->arch->lds_bytes);
    if (k->scratch_bytes > 1u << 20)
        return fail(l, "kernel '%.120s': needs %u bytes of scratch a work-item: must be at most %u", k->name,
                    k->scratch_bytes, 1u << 20);
    count_registers(c->arch, k);
    return true;
}

/* ---- whole ------------------------------------------------------------------------------------------------------- */

bool emu_code_load(struct emu_code **out, const void *data, size_t size, const struct emu_arch *arch, char *error,
                   size_t error_size)
{
    const uint8_t *bytes = data;
    Elf64_Ehdr header;
    *out = NULL;
    if (!emu_unbundle(&bytes, &size, arch, error, error_size))
        return false;
    if (size < sizeof(header)) {
        snprintf(error, error_size, "%zu bytes: too short for an ELF file", size);
        return false;
    }
    struct emu_code *c = calloc(1, sizeof(*c));
    if (c)
        c->file = malloc(size);
    if (!c || !c->file) {
        free(c);
        snprintf(error, error_size, "no memory for a code object of %zu bytes", size);
        return false;
    }
    memcpy(c->file, bytes, size);
    c->file_size = size;
    memcpy(&header, bytes, sizeof(header));
    struct loader l = { .code = c, .header = &header, .error = error, .error_size = error_size };
    bool ok = check_header(&l, arch) && load_segments(&l) && find_text(&l) && read_sections(&l) && read_metadata(&l);
    for (int i = 0; ok && i < c->n_kernels; i++)
        ok = read_descriptor(&l, &c->kernel[i]);
    if (!ok)
        emu_code_free(&c);
    *out = c;
    return ok;
}

bool emu_code_load_image(struct emu_code **out, const void *image, const struct emu_arch *arch, char *error,
                         size_t error_size)
{
    size_t size;
    uint8_t *copy = emu_image_copy(image, &size, error, error_size);
    *out = NULL;
    if (copy)
        (void)emu_code_load(out, copy, size, arch, error, error_size);
    free(copy);
    return *out;
}

void emu_code_free(struct emu_code **pcode)
{
    struct emu_code *c = *pcode;
    *pcode = NULL;
    if (!c)
        return;
    for (int i = 0; i < c->n_kernels; i++) {
        struct emu_kernel *k = &c->kernel[i];
        for (int a = 0; a < k->n_args; a++)
            free(k->arg[a].name);
        free(k->arg);
        free(k->name);
    }
    for (int i = 0; i < 2; i++)
        if (c->program[i].size)
            emu_program_free(&c->program[i]);
    if (c->mapping)
        munmap(c->mapping, c->mapping_size);
    free(c->kernel);
    free(c->symbol);
    free(c->file);
    free(c);
}

bool emu_code_decode(struct emu_code *c, bool allow_unknown, char *error, size_t error_size)
{
    if (!emu_op_next(NULL)) {
        snprintf(error, error_size, "no memory for the table of instructions");
        return false;
    }
    for (int i = 0; i < c->n_kernels; i++) {
        struct emu_program *p = &c->program[c->kernel[i].wave_size == 32];
        if (!p->size && !emu_decode(p, c->arch, c->kernel[i].wave_size, c->image + c->text, c->text_size,
                                    (uint64_t)(uintptr_t)(c->image + c->text), allow_unknown, error, error_size)) {
            p->size = 0;
            return false;
        }
        if (p->at[(c->kernel[i].entry - c->text) / 4] < 0) {
            snprintf(error, error_size, "kernel '%.120s': no instruction begins at its entry", c->kernel[i].name);
            return false;
        }
    }
    return true;
}

const struct emu_program *emu_code_program(const struct emu_code *c, const struct emu_kernel *k)
{
    return &c->program[k->wave_size == 32];
}

const struct emu_kernel *emu_code_kernel(const struct emu_code *c, const char *name)
{
    for (int i = 0; i < c->n_kernels; i++)
        if (!strcmp(c->kernel[i].name, name))
            return &c->kernel[i];
    return NULL;
}

const struct emu_arg *emu_kernel_hidden(const struct emu_kernel *k, enum emu_arg_kind kind)
{
    for (int i = k->n_explicit; i < k->n_args; i++)
        if (k->arg[i].kind == kind)
            return &k->arg[i];
    return NULL;
}

const struct emu_symbol *emu_code_global(const struct emu_code *c, const char *name)
{
    for (size_t i = 0; i < c->n_symbols; i++)
        if (c->symbol[i].type == 1 && !strcmp(c->symbol[i].name, name) &&
            loaded(c, c->symbol[i].value, c->symbol[i].size, NULL))
            return &c->symbol[i];
    return NULL;
}

const struct emu_symbol *emu_code_function(const struct emu_code *c, uint64_t text_offset)
{
    const struct emu_symbol *best = NULL;
    for (size_t i = 0; i < c->n_symbols; i++) {
        const struct emu_symbol *s = &c->symbol[i];
        if (s->type == 2 && s->value >= c->text && s->value - c->text <= text_offset &&
            (!best || s->value > best->value))
            best = s;
    }
    return best;
}
