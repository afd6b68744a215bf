/* SPDX-License-Identifier: MIT
 *
 * From an instruction to its source line: the DWARF line table (version 2 to 5) of a code object that was compiled with
 * -g. Read only when something is reported; a table that makes no sense gives no line. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "code.h"

/* What is left of a section; reading beyond the end gives 0 and marks it. */
struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static uint64_t fixed(struct cursor *c, size_t n)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        c->p = c->end;
        return 0;
    }
    memcpy(&v, c->p, n < 8 ? n : 8);
    c->p += n;
    return v;
}

static uint64_t uleb(struct cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        uint64_t b = fixed(c, 1);
        if (shift < 64)
            v |= (b & 127) << shift;
        if (!(b & 128))
            return v;
    }
}

static int64_t sleb(struct cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0;;) {
        uint64_t b = fixed(c, 1);
        if (shift < 64)
            v |= (b & 127) << shift;
        shift += 7;
        if (!(b & 128))
            return (int64_t)(shift < 64 && (b & 64) ? v | ~0ull << shift : v);
    }
}

static const char *string(struct cursor *c)
{
    const uint8_t *s = c->p, *nul = memchr(s, 0, (size_t)(c->end - s));
    if (!nul) {
        c->bad = true;
        c->p = c->end;
        return "";
    }
    c->p = nul + 1;
    return (const char *)s;
}

static struct cursor find_section(const struct emu_code *code, const char *name)
{
    Elf64_Ehdr h;
    Elf64_Shdr names, s;
    struct cursor none = { 0 };
    memcpy(&h, code->file, sizeof(h)); /* the loader has checked that the headers are in the file */
    if (h.e_shstrndx >= h.e_shnum)
        return none;
    memcpy(&names, code->file + h.e_shoff + h.e_shstrndx * sizeof(s), sizeof(s));
    for (unsigned i = 0; i < h.e_shnum; i++) {
        memcpy(&s, code->file + h.e_shoff + i * sizeof(s), sizeof(s));
        uint64_t at = names.sh_offset + s.sh_name;
        if (names.sh_offset > code->file_size || at > code->file_size || strlen(name) + 1 > code->file_size - at ||
            memcmp(code->file + at, name, strlen(name) + 1) || s.sh_type != SHT_PROGBITS ||
            (s.sh_flags & SHF_COMPRESSED) || s.sh_offset > code->file_size || s.sh_size > code->file_size - s.sh_offset)
            continue;
        return (struct cursor){ code->file + s.sh_offset, code->file + s.sh_offset + s.sh_size, false };
    }
    return none;
}

struct unit {
    int version;
    uint8_t min_inst, line_range, opcode_base;
    int8_t line_base;
    uint8_t lengths[256];
    struct cursor files;          /* where the file names begin */
    struct cursor strings, lines; /* .debug_str, .debug_line_str */
};

/* One attribute of a version 5 entry. Its string, or NULL. */
static const char *form(struct unit *u, struct cursor *c, uint64_t kind)
{
    struct cursor at = kind == 0x1f ? u->lines : u->strings;
    uint64_t n;
    switch (kind) {
    case 0x08: /* string */
        return string(c);
    case 0x0e: /* strp */
    case 0x1f: /* line_strp */
        n = fixed(c, 4);
        if (n >= (uint64_t)(at.end - at.p))
            return NULL;
        at.p += n;
        return string(&at);
    case 0x0b: /* data1, 2, 4, 8, 16; udata; block */
        fixed(c, 1);
        return NULL;
    case 0x05:
        fixed(c, 2);
        return NULL;
    case 0x06:
        fixed(c, 4);
        return NULL;
    case 0x07:
        fixed(c, 8);
        return NULL;
    case 0x1e:
        fixed(c, 16);
        return NULL;
    case 0x0f:
        uleb(c);
        return NULL;
    case 0x09:
        n = uleb(c);
        fixed(c, n < (uint64_t)(c->end - c->p) ? n : SIZE_MAX);
        return NULL;
    default:
        c->bad = true;
        return NULL;
    }
}

/* Reads a version 5 table of directories or files up to entry `wanted`; its name (attribute 1). */
static const char *table5(struct unit *u, struct cursor *c, uint64_t wanted)
{
    uint64_t content[16] = { 0 }, kind[16] = { 0 };
    unsigned n = (unsigned)fixed(c, 1);
    const char *name = NULL;
    for (unsigned i = 0; i < n; i++) {
        uint64_t a = uleb(c), b = uleb(c);
        if (i < 16) {
            content[i] = a;
            kind[i] = b;
        } else
            c->bad = true;
    }
    uint64_t entries = uleb(c);
    for (uint64_t e = 0; e < entries && !c->bad && n; e++)
        for (unsigned i = 0; i < n && !c->bad; i++) {
            const char *s = form(u, c, kind[i]);
            if (e == wanted && content[i] == 1)
                name = s;
        }
    return name;
}

static const char *file_name(struct unit *u, uint64_t file)
{
    struct cursor c = u->files;
    if (u->version >= 5) {
        table5(u, &c, UINT64_MAX); /* directories */
        return table5(u, &c, file);
    }
    while (!c.bad && *string(&c))
        ;
    for (uint64_t i = 1; !c.bad; i++) {
        const char *name = string(&c);
        if (!*name)
            break;
        uleb(&c);
        uleb(&c);
        uleb(&c);
        if (i == file)
            return name;
    }
    return NULL;
}

struct row {
    uint64_t address, file;
    int64_t line;
    bool valid;
};

/* A row is complete: does the one before it cover the address? */
static bool emit(const struct row *now, struct row *last, bool end, uint64_t wanted)
{
    bool hit = last->valid && last->address <= wanted && wanted < now->address;
    if (!hit) {
        *last = *now;
        last->valid = !end;
    }
    return hit;
}

/* The line program: true, with the row, if it has the address. */
static bool run(const struct unit *u, struct cursor *c, uint64_t wanted, struct row *found)
{
    struct row now = { .file = 1, .line = 1 };
    found->valid = false;
    while (c->p < c->end && !c->bad) {
        unsigned op = (unsigned)fixed(c, 1);
        if (op >= u->opcode_base) {
            unsigned special = op - u->opcode_base;
            now.address += special / u->line_range * u->min_inst;
            now.line += u->line_base + (int)(special % u->line_range);
            if (emit(&now, found, false, wanted))
                return true;
            continue;
        }
        uint64_t length;
        switch (op) {
        case 0: /* extended */
            length = uleb(c);
            if (!length || length > (uint64_t)(c->end - c->p))
                return false;
            struct cursor sub = { c->p, c->p + length, false };
            c->p += length;
            switch (fixed(&sub, 1)) {
            case 1: /* end of a sequence */
                if (emit(&now, found, true, wanted))
                    return true;
                now = (struct row){ .file = 1, .line = 1 };
                break;
            case 2:
                now.address = fixed(&sub, 8);
                break;
            }
            break;
        case 1: /* copy */
            if (emit(&now, found, false, wanted))
                return true;
            break;
        case 2:
            now.address += uleb(c) * u->min_inst;
            break;
        case 3:
            now.line += sleb(c);
            break;
        case 4:
            now.file = uleb(c);
            break;
        case 8: /* const_add_pc */
            now.address += (255u - u->opcode_base) / u->line_range * u->min_inst;
            break;
        case 9:
            now.address += fixed(c, 2);
            break;
        default: /* of no interest: skip its arguments */
            for (unsigned i = 0; i < u->lengths[op]; i++)
                uleb(c);
        }
    }
    return false;
}

bool emu_code_line(const struct emu_code *code, uint64_t text_offset, char *buf, size_t size)
{
    struct cursor all = find_section(code, ".debug_line");
    struct unit u = { .strings = find_section(code, ".debug_str"), .lines = find_section(code, ".debug_line_str") };
    while (all.p < all.end && !all.bad) {
        uint64_t length = fixed(&all, 4);
        if (length > (uint64_t)(all.end - all.p)) /* also 64-bit DWARF, which no compiler writes for GPUs */
            return false;
        struct cursor c = { all.p, all.p + length, false };
        struct row row = { 0 };
        all.p += length;
        u.version = (int)fixed(&c, 2);
        if (u.version < 2 || u.version > 5)
            continue;
        if (u.version >= 5)
            fixed(&c, 2); /* address and segment selector size */
        uint64_t header = fixed(&c, 4);
        if (header > (uint64_t)(c.end - c.p))
            return false;
        struct cursor program = { c.p + header, c.end, false };
        u.min_inst = (uint8_t)fixed(&c, 1);
        if (u.version >= 4)
            fixed(&c, 1); /* operations of an instruction: for VLIW */
        fixed(&c, 1);     /* is_stmt */
        u.line_base = (int8_t)fixed(&c, 1);
        u.line_range = (uint8_t)fixed(&c, 1);
        u.opcode_base = (uint8_t)fixed(&c, 1);
        for (unsigned i = 1; i < u.opcode_base; i++)
            u.lengths[i] = (uint8_t)fixed(&c, 1);
        u.files = c;
        if (c.bad || !u.line_range || !u.opcode_base || !run(&u, &program, code->text + text_offset, &row) ||
            row.line <= 0)
            continue;
        const char *name = file_name(&u, row.file);
        const char *slash = name ? strrchr(name, '/') : NULL;
        snprintf(buf, size, "%.100s:%lld", slash ? slash + 1 : name ? name : "?", (long long)row.line);
        return true;
    }
    return false;
}
