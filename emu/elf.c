/* SPDX-License-Identifier: MIT
 *
 * Code objects: AMDGPU ELF files of code object versions 4 to 6, with their metadata. Nothing in a file is believed:
 * every offset is compared with the file's size before it is followed. */
#include <msgpack.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

/* ---- ELF ------------------------------------------------------------------------------------------------------------
 */

struct file {
    const uint8_t *data;
    size_t size;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool bad(struct file *f, const char *fmt, ...)
{
    va_list ap;
    int n = snprintf(f->error, f->error_size, "code object: ");
    va_start(ap, fmt);
    vsnprintf(f->error + n, f->error_size - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bytes); /* the host is little-endian as the file is */
    return v;
}

static bool inside(const struct file *f, uint64_t at, uint64_t n)
{
    return at <= f->size && n <= f->size - at;
}

struct header {
    uint64_t phoff, shoff;
    unsigned phnum, phsize, shnum, shsize;
};

static bool read_header(struct file *f, struct header *h)
{
    const uint8_t *d = f->data;
    if (f->size < 64 || memcmp(d, "\177ELF", 4))
        return bad(f, "not an ELF file");
    if (d[4] != 2 || d[5] != 1)
        return bad(f, "class %d, byte order %d: must be 64-bit, little-endian", d[4], d[5]);
    if (get(d + 18, 2) != 224)
        return bad(f, "machine %u: must be AMDGPU, 224", (unsigned)get(d + 18, 2));
    if (d[7] != 64 || d[8] < 2 || d[8] > 4)
        return bad(f, "OS ABI %d version %d: must be HSA, code object version 4 to 6", d[7], d[8]);
    *h = (struct header){ get(d + 32, 8),           get(d + 40, 8),           (unsigned)get(d + 56, 2),
                          (unsigned)get(d + 54, 2), (unsigned)get(d + 60, 2), (unsigned)get(d + 58, 2) };
    if (h->phsize < 56 || !inside(f, h->phoff, (uint64_t)h->phnum * h->phsize))
        return bad(f, "program headers at %llu: beyond the file's end", (unsigned long long)h->phoff);
    if (h->shnum && (h->shsize < 64 || !inside(f, h->shoff, (uint64_t)h->shnum * h->shsize)))
        return bad(f, "section headers at %llu: beyond the file's end", (unsigned long long)h->shoff);
    return true;
}

size_t emu_elf_size(const void *file)
{
    const uint8_t *d = file;
    if (memcmp(d, "\177ELF", 4))
        return 0;
    uint64_t phoff = get(d + 32, 8), shoff = get(d + 40, 8), end = shoff + get(d + 60, 2) * get(d + 58, 2);
    uint64_t phend = phoff + get(d + 56, 2) * get(d + 54, 2);
    end = end > phend ? end : phend;
    for (unsigned k = 0; k < get(d + 56, 2); k++) {
        const uint8_t *p = d + phoff + k * get(d + 54, 2);
        uint64_t e = get(p + 8, 8) + get(p + 32, 8);
        end = end > e ? end : e;
    }
    return (size_t)end;
}

static bool load_segments(struct file *f, const struct header *h, struct emu_module *m)
{
    uint64_t end = 0;
    for (unsigned k = 0; k < h->phnum; k++) {
        const uint8_t *p = f->data + h->phoff + (size_t)k * h->phsize;
        uint64_t off = get(p + 8, 8), vaddr = get(p + 16, 8), filesz = get(p + 32, 8), memsz = get(p + 40, 8);
        if (get(p, 4) != 1) /* PT_LOAD */
            continue;
        if (!inside(f, off, filesz) || filesz > memsz || vaddr > 1u << 30 || memsz > 1u << 30)
            return bad(f, "segment %u of %llu bytes at offset %llu: beyond the file's end, or too large", k,
                       (unsigned long long)memsz, (unsigned long long)off);
        if (vaddr + memsz > end)
            end = vaddr + memsz;
    }
    if (!end)
        return bad(f, "no segment to load");
    m->image_size = (size_t)end;
    if (!(m->image = emu_alloc(m->image_size, "a code object")))
        return bad(f, "no memory for %zu bytes", m->image_size);
    for (unsigned k = 0; k < h->phnum; k++) {
        const uint8_t *p = f->data + h->phoff + (size_t)k * h->phsize;
        if (get(p, 4) != 1)
            continue;
        uint64_t vaddr = get(p + 16, 8), filesz = get(p + 32, 8);
        memcpy(m->image + vaddr, f->data + get(p + 8, 8), (size_t)filesz);
        if (get(p + 4, 4) & 1) { /* executable */
            m->text_address = vaddr;
            m->text_size = (size_t)filesz;
        }
    }
    return m->text_size ? true : bad(f, "no executable segment");
}

/* A symbol's address in the image; false if there is none of that name. */
static bool find_symbol(const struct file *f, const struct header *h, const char *name, uint64_t *address)
{
    for (unsigned k = 0; k < h->shnum; k++) {
        const uint8_t *s = f->data + h->shoff + (size_t)k * h->shsize;
        uint64_t type = get(s + 4, 4), off = get(s + 24, 8), size = get(s + 32, 8), link = get(s + 40, 4);
        if ((type != 11 && type != 2) || !inside(f, off, size) || link >= h->shnum)
            continue;
        const uint8_t *str = f->data + h->shoff + (size_t)link * h->shsize;
        uint64_t stroff = get(str + 24, 8), strsize = get(str + 32, 8);
        if (!inside(f, stroff, strsize))
            continue;
        for (uint64_t at = 0; at + 24 <= size; at += 24) {
            const uint8_t *sym = f->data + off + at;
            uint64_t n = get(sym, 4), len = strlen(name);
            if (n < strsize && len < strsize - n && !memcmp(f->data + stroff + n, name, len + 1) && get(sym + 6, 2)) {
                *address = get(sym + 8, 8);
                return true;
            }
        }
    }
    return false;
}

static bool relocate(struct file *f, const struct header *h, struct emu_module *m)
{
    for (unsigned k = 0; k < h->shnum; k++) {
        const uint8_t *s = f->data + h->shoff + (size_t)k * h->shsize;
        uint64_t off = get(s + 24, 8), size = get(s + 32, 8), link = get(s + 40, 4);
        if (get(s + 4, 4) != 4) /* SHT_RELA */
            continue;
        if (!inside(f, off, size))
            return bad(f, "relocations at %llu: beyond the file's end", (unsigned long long)off);
        for (uint64_t at = 0; at + 24 <= size; at += 24) {
            const uint8_t *r = f->data + off + at;
            uint64_t where = get(r, 8), info = get(r + 8, 8), addend = get(r + 16, 8), value;
            uint32_t type = (uint32_t)info, sym = (uint32_t)(info >> 32);
            if (type == 0)
                continue;
            if (where > m->image_size || m->image_size - where < 8)
                return bad(f, "a relocation at 0x%llx: outside of the image", (unsigned long long)where);
            if (type == 13) /* R_AMDGPU_RELATIVE64 */
                value = (uint64_t)(uintptr_t)m->image + addend;
            else if (type == 3 && link < h->shnum) { /* R_AMDGPU_ABS64 */
                const uint8_t *tab = f->data + h->shoff + (size_t)link * h->shsize;
                uint64_t symoff = get(tab + 24, 8) + (uint64_t)sym * 24;
                if (!inside(f, symoff, 24))
                    return bad(f, "a relocation names symbol %u, which is not there", sym);
                value = (uint64_t)(uintptr_t)m->image + get(f->data + symoff + 8, 8) + addend;
            } else
                return bad(f, "a relocation of type %u: must be R_AMDGPU_RELATIVE64 or ABS64", type);
            memcpy(m->image + where, &value, 8);
        }
    }
    return true;
}

/* ---- metadata
 * --------------------------------------------------------------------------------------------------------- */

static const msgpack_object *member(const msgpack_object *map, const char *key)
{
    for (uint32_t k = 0; map && map->type == MSGPACK_OBJECT_MAP && k < map->via.map.size; k++) {
        const msgpack_object *name = &map->via.map.ptr[k].key;
        if (name->type == MSGPACK_OBJECT_STR && name->via.str.size == strlen(key) &&
            !memcmp(name->via.str.ptr, key, strlen(key)))
            return &map->via.map.ptr[k].val;
    }
    return NULL;
}

static uint32_t number(const msgpack_object *map, const char *key, uint32_t def)
{
    const msgpack_object *o = member(map, key);
    return o && o->type == MSGPACK_OBJECT_POSITIVE_INTEGER && o->via.u64 <= UINT32_MAX ? (uint32_t)o->via.u64 : def;
}

static bool text(const msgpack_object *map, const char *key, char *buf, size_t size)
{
    const msgpack_object *o = member(map, key);
    if (!o || o->type != MSGPACK_OBJECT_STR || o->via.str.size >= size)
        return false;
    memcpy(buf, o->via.str.ptr, o->via.str.size);
    buf[o->via.str.size] = 0;
    return true;
}

static enum emu_hidden hidden_of(const char *kind)
{
    static const struct {
        const char *name;
        enum emu_hidden what;
    } kinds[] = { { "global_offset_x", EMU_ARG_OFFSET_X }, { "global_offset_y", EMU_ARG_OFFSET_Y },
                  { "global_offset_z", EMU_ARG_OFFSET_Z }, { "block_count_x", EMU_ARG_BLOCKS_X },
                  { "block_count_y", EMU_ARG_BLOCKS_Y },   { "block_count_z", EMU_ARG_BLOCKS_Z },
                  { "group_size_x", EMU_ARG_SIZE_X },      { "group_size_y", EMU_ARG_SIZE_Y },
                  { "group_size_z", EMU_ARG_SIZE_Z },      { "remainder_x", EMU_ARG_REM_X },
                  { "remainder_y", EMU_ARG_REM_Y },        { "remainder_z", EMU_ARG_REM_Z },
                  { "grid_dims", EMU_ARG_DIMS },           { "dynamic_lds_size", EMU_ARG_LDS_SIZE } };
    if (strncmp(kind, "hidden_", 7))
        return EMU_ARG_VALUE;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        if (!strcmp(kind + 7, kinds[k].name))
            return kinds[k].what;
    return EMU_ARG_ZERO;
}

static bool read_kernel(struct file *f, const struct header *h, struct emu_module *m, const msgpack_object *o,
                        struct emu_kernel *k)
{
    char symbol[300];
    uint64_t kd;
    if (!text(o, ".name", k->name, sizeof(k->name)) || !text(o, ".symbol", symbol, sizeof(symbol)))
        return bad(f, "metadata: a kernel without .name or .symbol");
    if (!find_symbol(f, h, symbol, &kd) || kd > m->image_size || m->image_size - kd < 64)
        return bad(f, "kernel %s: its descriptor %s is not there", k->name, symbol);
    memcpy(k->descriptor, m->image + kd, 64);
    uint64_t entry = kd + get(k->descriptor + 16, 8) - m->text_address;
    if (entry >= m->text_size || entry % 4)
        return bad(f, "kernel %s: its entry is outside of the text", k->name);
    k->entry = (uint32_t)entry;
    k->lds = (uint32_t)get(k->descriptor, 4);
    k->scratch = (uint32_t)get(k->descriptor + 4, 4);
    k->kernarg_size = number(o, ".kernarg_segment_size", (uint32_t)get(k->descriptor + 8, 4));
    k->vgprs = (int)number(o, ".vgpr_count", 256);
    k->agprs = (int)number(o, ".agpr_count", 0);
    k->sgprs = (int)number(o, ".sgpr_count", 104);
    k->max_threads = (int)number(o, ".max_flat_workgroup_size", 1024);
    k->wave_size = (int)number(o, ".wavefront_size", (uint32_t)m->arch->wave_size);
    if (k->kernarg_size > 65536 || k->scratch > 1 << 20 || (k->wave_size != 32 && k->wave_size != 64))
        return bad(f, "kernel %s: %u bytes of arguments, %u of scratch, waves of %d: out of range", k->name,
                   k->kernarg_size, k->scratch, k->wave_size);
    const msgpack_object *args = member(o, ".args");
    for (uint32_t n = 0; args && args->type == MSGPACK_OBJECT_ARRAY && n < args->via.array.size; n++) {
        const msgpack_object *a = &args->via.array.ptr[n];
        char kind[60] = "";
        text(a, ".value_kind", kind, sizeof(kind));
        struct emu_arg arg = { number(a, ".offset", 0), number(a, ".size", 0), (uint8_t)hidden_of(kind) };
        if (arg.offset > k->kernarg_size || arg.size > k->kernarg_size - arg.offset)
            return bad(f, "kernel %s: argument %u lies outside of the %u bytes of arguments", k->name, n,
                       k->kernarg_size);
        if (k->n_args == EMU_MAX_ARGS)
            return bad(f, "kernel %s: more than %d arguments", k->name, EMU_MAX_ARGS);
        k->args[k->n_args++] = arg;
    }
    return true;
}

/* EF_AMDGPU_MACH of the ELF header's flags: not all metadata name their target. */
static const struct emu_arch *arch_of(const struct file *f)
{
    switch (get(f->data + 48, 4) & 0xff) {
    case 0x3f:
        return emu_arch_find("gfx90a", 6);
    case 0x4c:
        return emu_arch_find("gfx942", 6);
    case 0x41:
        return emu_arch_find("gfx1100", 7);
    }
    return NULL;
}

static bool read_metadata(struct file *f, const struct header *h, struct emu_module *m, const uint8_t *data,
                          size_t size)
{
    msgpack_unpacked u;
    size_t off = 0;
    bool ok = false;
    msgpack_unpacked_init(&u);
    if (msgpack_unpack_next(&u, (const char *)data, size, &off) != MSGPACK_UNPACK_SUCCESS) {
        msgpack_unpacked_destroy(&u);
        return bad(f, "the metadata is no MessagePack");
    }
    const msgpack_object *kernels = member(&u.data, "amdhsa.kernels");
    if (!(m->arch = arch_of(f)))
        bad(f, "machine flags 0x%x: not emulated (gfx90a, gfx942, gfx1100 are)", (unsigned)get(f->data + 48, 4));
    else if (!kernels || kernels->type != MSGPACK_OBJECT_ARRAY || kernels->via.array.size > 4096)
        bad(f, "metadata: no amdhsa.kernels");
    else {
        ok = true;
        m->kernels = calloc(kernels->via.array.size + 1, sizeof(*m->kernels));
        if (!m->kernels)
            abort();
        for (uint32_t n = 0; ok && n < kernels->via.array.size; n++)
            if ((ok = read_kernel(f, h, m, &kernels->via.array.ptr[n], &m->kernels[m->n_kernels])))
                m->n_kernels++;
    }
    msgpack_unpacked_destroy(&u);
    return ok;
}

static bool find_metadata(struct file *f, const struct header *h, struct emu_module *m)
{
    for (unsigned k = 0; k < h->phnum; k++) {
        const uint8_t *p = f->data + h->phoff + (size_t)k * h->phsize;
        uint64_t off = get(p + 8, 8), size = get(p + 32, 8);
        if (get(p, 4) != 4) /* PT_NOTE */
            continue;
        if (!inside(f, off, size))
            return bad(f, "notes at %llu: beyond the file's end", (unsigned long long)off);
        for (uint64_t at = 0; at + 12 <= size;) {
            const uint8_t *n = f->data + off + at;
            uint64_t namesz = get(n, 4), descsz = get(n + 4, 4), name = (namesz + 3) & ~UINT64_C(3);
            if (name > size - at - 12 || descsz > size - at - 12 - name)
                return bad(f, "a note is longer than its segment");
            if (get(n + 8, 4) == 32 && namesz == 7 && !memcmp(n + 12, "AMDGPU", 7))
                return read_metadata(f, h, m, n + 12 + name, (size_t)descsz);
            at += 12 + name + ((descsz + 3) & ~UINT64_C(3));
        }
    }
    return bad(f, "no AMDGPU metadata");
}

/* ---- modules
 * ----------------------------------------------------------------------------------------------------------- */

bool emu_module_load(struct emu_module *m, const void *file, size_t size, char *error, size_t error_size)
{
    struct file f = { file, size, error, error_size };
    struct header h = { 0 };
    *m = (struct emu_module){ 0 };
    if (read_header(&f, &h) && load_segments(&f, &h, m) && find_metadata(&f, &h, m) && relocate(&f, &h, m))
        return true;
    emu_module_unload(m);
    return false;
}

void emu_module_unload(struct emu_module *m)
{
    for (int k = 0; k < 2; k++)
        emu_program_free(&m->program[k]);
    if (m->image)
        emu_free(m->image);
    free(m->kernels);
    *m = (struct emu_module){ 0 };
}

struct emu_kernel *emu_module_kernel(struct emu_module *m, const char *name)
{
    for (int k = 0; k < m->n_kernels; k++)
        if (!strcmp(m->kernels[k].name, name))
            return &m->kernels[k];
    return NULL;
}

const struct emu_program *emu_module_program(struct emu_module *m, int wave_size, char *error, size_t error_size)
{
    struct emu_program *p = &m->program[wave_size == 64];
    if (!p->inst && !emu_decode(p, m->arch, wave_size, m->image + m->text_address, m->text_size,
                                (uint64_t)(uintptr_t)m->image + m->text_address, NULL, NULL, error, error_size))
        return NULL;
    return p;
}
