/* SPDX-License-Identifier: MIT
 *
 * A text section, disassembled by LLVM, into struct emu_inst: once, before it runs. */
#include "decode.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"
#include "llvm.h"

/* ---- disassemblers: one for each processor and wave size, kept --------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char cpu[16];
    int wave_size;
    struct emu_disasm *d;
} cache[16];

/* Under the lock, which the caller keeps for as long as it uses the disassembler. */
static struct emu_disasm *disasm_for(const struct emu_arch *arch, int wave_size, char *error, size_t error_size)
{
    int slot = -1;
    for (int i = 0; i < COUNT(cache); i++) {
        if (cache[i].d && cache[i].wave_size == wave_size && !strcmp(cache[i].cpu, arch->name))
            return cache[i].d;
        if (!cache[i].d && slot < 0)
            slot = i;
    }
    if (slot < 0) {
        emu_disasm_close(cache[0].d);
        slot = 0;
    }
    cache[slot].d = emu_disasm_open(arch->name, arch->gfx, wave_size, error, error_size);
    cache[slot].wave_size = wave_size;
    snprintf(cache[slot].cpu, sizeof(cache[slot].cpu), "%s", arch->name);
    return cache[slot].d;
}

/* ---- a program under construction -------------------------------------------------------------------------------- */

struct chunk {
    struct chunk *next;
    int n;
    struct emu_mods mods[128];
};
static const struct emu_mods no_mods = { .row_mask = 15, .bank_mask = 15 };

struct build {
    struct emu_program *prog;
    const uint8_t *text;
    size_t size;
    int room, wave_size;
    bool allow_unknown;
    const char *inst_text;
    uint32_t address, inst_size;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct build *b, const char *fmt, ...)
{
    char why[256], bytes[64] = "", text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    for (uint32_t i = 0; i < b->inst_size && i < 20; i++)
        snprintf(bytes + 3 * i, sizeof(bytes) - 3 * i, " %02x", b->text[b->address + i]);
    snprintf(text, sizeof(text), "%s", b->inst_text);
    for (char *c = text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    snprintf(b->error, b->error_size, "%s instruction at 0x%x:%s, bytes%s: %s", b->prog->arch->name, b->address, text,
             bytes, why);
    return false;
}

static const struct emu_mods *keep_mods(struct build *b, const struct emu_mods *m)
{
    if (!memcmp(m, &no_mods, sizeof(*m)))
        return &no_mods;
    struct chunk *c = b->prog->pool;
    if (c && c->n && !memcmp(&c->mods[c->n - 1], m, sizeof(*m)))
        return &c->mods[c->n - 1];
    if (!c || c->n == COUNT(c->mods)) {
        c = calloc(1, sizeof(*c));
        if (!c)
            return NULL;
        c->next = b->prog->pool;
        b->prog->pool = c;
    }
    c->mods[c->n] = *m;
    return &c->mods[c->n++];
}

static struct emu_inst *new_inst(struct build *b)
{
    struct emu_program *p = b->prog;
    if (p->n == b->room) {
        int room = b->room ? 2 * b->room : 256;
        struct emu_inst *more = realloc(p->inst, (size_t)room * sizeof(*more));
        if (!more)
            return NULL;
        p->inst = more;
        b->room = room;
    }
    struct emu_inst *i = &p->inst[p->n++];
    memset(i, 0, sizeof(*i));
    i->address = b->address;
    i->size = (uint8_t)b->inst_size;
    i->mods = &no_mods;
    i->target = -1;
    for (int k = 0; k < EMU_MAX_OPERANDS; k++)
        i->reg[k] = EMU_NONE;
    return i;
}

/* Do the operands of the text fit this row? */
static bool fits(const struct emu_text *t, const struct emu_sig *s)
{
    if (s->any)
        return true;
    if (t->n < s->min || t->n > s->n)
        return false;
    for (int k = 0; k < t->n; k++) {
        const struct emu_operand *o = &t->operand[k];
        if (o->number || !s->words[k] || !o->words || s->role[k] == 'm' || s->role[k] == 'n')
            continue;
        if (o->words != s->words[k])
            return false;
    }
    return true;
}

static const struct emu_op *find_row(const struct emu_text *t, struct emu_sig *s)
{
    for (const struct emu_op *op = emu_op_find(t->name); op; op = emu_op_next(op)) {
        if (strcmp(op->name, t->name))
            break;
        emu_sig_parse(op->sig, s);
        if (fits(t, s))
            return op;
    }
    return NULL;
}

/* Registers in range, and how many rows the instruction needs. */
static bool check_registers(struct build *b, struct emu_inst *i)
{
    for (int k = 0; k < i->n; k++) {
        unsigned r = i->reg[k], words = i->words[k] ? i->words[k] : 1;
        if (r >= EMU_NONE)
            continue;
        if (r >= EMU_AGPR) {
            if (r + words > EMU_AGPR + 256)
                return fail(b, "operand %d: %u AGPRs from a%u on", k + 1, words, r - EMU_AGPR);
            if (r + words - EMU_AGPR > i->need_a)
                i->need_a = (uint16_t)(r + words - EMU_AGPR);
        } else if (r >= EMU_VGPR) {
            if (r + words > EMU_VGPR + 256)
                return fail(b, "operand %d: %u VGPRs from v%u on", k + 1, words, r - EMU_VGPR);
            if (r + words - EMU_VGPR > i->need_v)
                i->need_v = (uint16_t)(r + words - EMU_VGPR);
        } else if (r < EMU_M0 && r + words > EMU_M0) {
            return fail(b, "operand %d: %u SGPRs from s%u on", k + 1, words, r);
        }
    }
    return true;
}

/* What the handlers look at instead of the modifiers. */
static void mark_slow(struct emu_inst *i, const struct emu_sig *s, int gfx)
{
    const struct emu_mods *m = i->mods;
    i->src0 = 255;
    for (int k = 0; k < i->n; k++) {
        if (s->role[k] == 's' && i->src0 == 255)
            i->src0 = (uint8_t)k;
        if (s->role[k] == 'b' && (i->type[k] == EMU_F16 || i->type[k] == EMU_I16) && m->op_sel & 8)
            i->slow |= (uint8_t)(1 << k);
        if (i->reg[k] < EMU_VGPR || m->src[k])
            i->slow |= (uint8_t)(1 << k);
    }
    if (i->src0 != 255) {
        if (m->dpp)
            i->slow |= (uint8_t)(1 << i->src0);
        if (m->sdwa)
            i->slow |= (uint8_t)(3 << i->src0);
        for (int k = i->src0; k < i->n; k++)
            if ((i->type[k] == EMU_F16 || i->type[k] == EMU_I16) && m->op_sel >> (k - i->src0) & 1)
                i->slow |= (uint8_t)(1 << k);
    }
    i->slow &= 0x3f;
    if (m->dpp || m->sdwa || m->clamp || m->omod)
        i->slow |= EMU_SLOW_DST;
    if (gfx >= 0x1000 || i->op->info & EMU_KEEPS_HI)
        i->slow |= EMU_SLOW_KEEP_HI;
}

/* Values of immediates that the handlers don't know: said now, not when it is run. */
static const char *unknown_value(const struct emu_inst *i, int gfx, char *buf, size_t size)
{
    static const uint32_t readable =
        1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 15 | 1u << 20 | 1u << 23 | 1u << 24 | 1u << 29;
    const char *name = i->op->name;
    unsigned reg = !strcmp(name, "s_getreg_b32") ? i->k[1] & 63 : !strncmp(name, "s_setreg", 8) ? i->k[0] & 63 : 1;
    unsigned at = i->k[0] >> 6 & 31, bits = (i->k[0] >> 11 & 31) + 1; /* s_setreg's: of the register */
    if (!strcmp(name, "s_round_mode")
            ? i->k[0] & 15
            : !strcmp(name, "s_setreg_imm32_b32") && reg == 1 && (i->k[1] & ((1ull << bits) - 1)) << at & 15)
        return "a rounding mode other than to nearest even";
    if (!strncmp(name, "s_barrier_", 10) && i->reg[0] == EMU_CONST && (i->k[0] & 0xffff) != 0xffff)
        return "a barrier other than the workgroup's (-1)";
    if (!strncmp(name, "s_barrier_", 10) && i->reg[0] != EMU_CONST)
        return "a barrier named by M0";
    if (gfx >> 8 == 0x10 && !strcmp(name, "s_setreg_b32") && (reg == 20 || reg == 21))
        return NULL; /* FLAT_SCRATCH, which is known anyway */
    if (!strcmp(name, "s_getreg_b32") ? reg <= 31 && readable >> reg & 1 : reg == 1 || reg == 3)
        return NULL;
    snprintf(buf, size, "hardware register %u", reg);
    return buf;
}
static bool check_values(struct build *b, struct emu_inst *i)
{
    char buf[64];
    const char *what = unknown_value(i, b->prog->arch->gfx, buf, sizeof(buf));
    if (!what)
        return true;
    if (!b->allow_unknown)
        return fail(b, "not implemented: %s", what);
    i->fn = NULL;
    return true;
}

static uint32_t raw32(const struct build *b)
{
    uint32_t x;
    memcpy(&x, b->text + b->address, 4);
    return x;
}

static bool emit(struct build *b, const char *text)
{
    struct emu_text t;
    struct emu_sig s;
    char why[128];
    int gfx = b->prog->arch->gfx;
    struct emu_inst *i = new_inst(b);
    if (!i)
        return fail(b, "out of memory");
    if (!emu_text_parse(text, &t, why, sizeof(why)))
        return b->allow_unknown ||
               (emu_op_find(t.name) ? fail(b, "not understood: %s", why) : fail(b, "not implemented"));
    const struct emu_op *op = find_row(&t, &s);
    if (!op || !op->fn) {
        if (!b->allow_unknown)
            return fail(b, op                    ? "not implemented"
                           : emu_op_find(t.name) ? "these operands are not implemented"
                                                 : "not implemented");
        i->op = op;
        return true;
    }
    i->op = op;
    i->fn = op->fn;
    if (s.any) {
        i->k[0] = raw32(b) & 0xffff;
        i->wait = emu_text_wait(t.name, t.rest);
        if (gfx >= 0x1200 && op->cls == EMU_CACHE) { /* the scope decides what is invalidated */
            uint32_t word = 0;
            if (b->inst_size > 4)
                memcpy(&word, b->text + b->address + 4, 4);
            i->k[0] = word >> 18 & 3;
        }
        return true;
    }
    i->n = (uint8_t)t.n;
    for (int k = 0; k < t.n; k++) {
        const struct emu_operand *o = &t.operand[k];
        i->reg[k] = o->reg;
        i->role[k] = s.role[k];
        i->type[k] = s.type[k];
        i->words[k] = o->number || !o->words ? s.words[k] : o->words;
        if (s.role[k] == 'm' || s.role[k] == 'n')
            i->words[k] = (uint8_t)(b->wave_size / 32);
        if (o->special)
            i->k[k] = raw32(b) & 0xffff;
        else if (o->number)
            i->k[k] = emu_widen(o, s.type[k], s.words[k]);
        if (o->mods) {
            t.mods.src[k] = o->mods;
            t.has_mods = true;
        }
        if (o->half == 2) {
            t.mods.op_sel |= (uint8_t)(s.role[k] == 'd' || s.role[k] == 'b' ? 8 : 1 << (k - 1));
            t.has_mods = true;
        }
    }
    bool packed = false;
    int sources = 0;
    for (int k = 0; k < t.n; k++)
        sources += s.role[k] == 's';
    if (t.op_sels == sources + 1 && sources < 3) { /* one more bit than sources: the destination's, here always bit 3 */
        unsigned dst = t.mods.op_sel >> sources & 1;
        t.mods.op_sel = (uint8_t)((t.mods.op_sel & ~(1u << sources)) | dst << 3);
    }
    for (int k = 0; k < t.n; k++)
        packed |= s.type[k] == EMU_PK || s.type[k] == EMU_BF16;
    if (packed && !strstr(t.rest, "op_sel_hi") && strncmp(t.name, "v_fma_mix", 9) && strncmp(t.name, "v_mad_mix", 9)) {
        t.mods.op_sel_hi = 7;
        t.has_mods = true;
    }
    if (!strncmp(t.name, "ds_", 3)) {
        uint32_t raw = raw32(b);
        bool two =
            strstr(t.name, "read2") || strstr(t.name, "write2") || strstr(t.name, "2addr") || strstr(t.name, "xchg2");
        t.mods.offset = two ? raw & 0xff : raw & 0xffff;
        t.mods.offset1 = two ? raw >> 8 & 0xff : 0;
        t.has_mods = true;
    }
    if (t.has_mods && !(i->mods = keep_mods(b, &t.mods)))
        return fail(b, "out of memory");
    if (op->cls == EMU_BRANCH && t.n && s.role[t.n - 1] == 'i')
        i->target = (int32_t)(b->address + 4) + 4 * (int16_t)(raw32(b) & 0xffff); /* bytes; an index later */
    mark_slow(i, &s, gfx);
    return check_values(b, i) && check_registers(b, i);
}

extern void emu_dual(struct emu_wave *w, const struct emu_inst *i);

static bool reads(const struct emu_inst *i, unsigned reg)
{
    for (int k = 0; k < i->n; k++)
        if ((i->role[k] == 's' || i->role[k] == 'b') && i->reg[k] == reg)
            return true;
    return false;
}

/* gfx11 issues two at once: both read before either writes. So the second goes first if it reads what the first writes;
 * if each reads what the other writes, emu_dual() runs both. */
static void dual_order(struct emu_inst *x, struct emu_inst *y)
{
    if (!reads(y, x->reg[0]))
        return;
    if (!reads(x, y->reg[0])) {
        struct emu_inst t = *x;
        *x = *y;
        *y = t;
        return;
    }
    x->fn = emu_dual;
}

static bool emit_dual(struct build *b, char *text, char *second)
{
    *second = 0;
    if (!emit(b, text) || !emit(b, second + 4))
        return false;
    struct emu_inst *x = &b->prog->inst[b->prog->n - 2], *y = x + 1;
    if (x->fn && y->fn)
        dual_order(x, y);
    y->size = 0;
    return true;
}

/* ---- bytes that are no instruction: data in the text. An error only if they are run ------------------------------ */

static void run_data(struct emu_wave *w, const struct emu_inst *i)
{
    emu_report(w, i, "illegal-instruction", w->exec, "the bytes at 0x%x are not an instruction", i->address);
    w->stop = EMU_FAULT;
}
static const struct emu_op data_op = { ".long", run_data, "*", EMU_MESSAGE, 0 };

static bool emit_data(struct build *b)
{
    struct emu_inst *i = new_inst(b);
    if (!i)
        return fail(b, "out of memory");
    i->op = &data_op;
    i->fn = run_data;
    i->size = 4;
    return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool sweep(struct build *b, struct emu_disasm *d)
{
    struct emu_program *p = b->prog;
    for (size_t at = 0; at + 4 <= b->size;) {
        char text[256];
        size_t n = emu_disasm_one(d, b->text + at, b->size - at, at, text, sizeof(text));
        b->address = (uint32_t)at;
        b->inst_size = (uint32_t)(n ? n : 4);
        b->inst_text = text;
        p->at[at / 4] = p->n;
        /* Zeroes, with which linkers fill, are gfx11's v_illegal. */
        if (n && n % 4 == 0 && at + n <= b->size && !strstr(text, "v_illegal")) {
            char *second = strstr(text, " :: ");
            if (second) {
                char copy[256];
                memcpy(copy, text, sizeof(copy));
                if (!emit_dual(b, copy, copy + (second - text)))
                    return false;
            } else if (!emit(b, text)) {
                return false;
            }
            at += n;
        } else {
            if (!emit_data(b))
                return false;
            at += 4;
        }
    }
    /* The end is not one to run into. */
    b->address = (uint32_t)(b->size & ~3ull);
    b->inst_size = 0;
    return emit_data(b);
}

static void resolve_branches(struct emu_program *p)
{
    for (int k = 0; k < p->n; k++) {
        struct emu_inst *i = &p->inst[k];
        if (!i->op || i->op->cls != EMU_BRANCH || !i->n || i->role[i->n - 1] != 'i')
            continue;
        int32_t to = i->target;
        i->target = to >= 0 && (size_t)to + 4 <= p->size ? p->at[to / 4] : -1;
    }
}

bool emu_decode(struct emu_program *prog, const struct emu_arch *arch, int wave_size, const void *text, size_t size,
                uint64_t base, bool allow_unknown, char *error, size_t error_size)
{
    memset(prog, 0, sizeof(*prog));
    prog->arch = arch;
    prog->base = base;
    prog->size = size;
    prog->wave_size = wave_size;
    if (size > INT32_MAX / 2) {
        snprintf(error, error_size, "text of %zu bytes: must be less than 1 GiB", size);
        return false;
    }
    prog->at = malloc((size / 4 + 1) * sizeof(*prog->at));
    if (!prog->at) {
        snprintf(error, error_size, "out of memory");
        return false;
    }
    memset(prog->at, 0xff, (size / 4 + 1) * sizeof(*prog->at));
    struct build b = { .prog = prog,
                       .text = text,
                       .size = size,
                       .wave_size = wave_size,
                       .allow_unknown = allow_unknown,
                       .inst_text = "",
                       .error = error,
                       .error_size = error_size };
    pthread_mutex_lock(&lock);
    struct emu_disasm *d = disasm_for(arch, wave_size, error, error_size);
    bool ok = d && sweep(&b, d);
    pthread_mutex_unlock(&lock);
    if (ok)
        resolve_branches(prog);
    else
        emu_program_free(prog);
    return ok;
}

void emu_program_free(struct emu_program *prog)
{
    for (struct chunk *c = prog->pool, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(prog->inst);
    free(prog->at);
    free(prog->effects);
    prog->effects = NULL;
    prog->pool = NULL;
    prog->inst = NULL;
    prog->at = NULL;
    prog->n = 0;
}

void emu_inst_text(const struct emu_program *prog, const struct emu_inst *i, char *buf, size_t size)
{
    char error[128], text[256] = "";
    if (i->address + 4ull > prog->size) {
        snprintf(buf, size, "(end of the text)");
        return;
    }
    int wave_size = prog->wave_size;
    pthread_mutex_lock(&lock);
    struct emu_disasm *d = disasm_for(prog->arch, wave_size, error, sizeof(error));
    if (d)
        emu_disasm_one(d, (const void *)(uintptr_t)(prog->base + i->address), prog->size - i->address, i->address, text,
                       sizeof(text));
    pthread_mutex_unlock(&lock);
    size_t skip = strspn(text, " \t");
    snprintf(buf, size, "%s", *text ? text + skip : "(not an instruction)");
    for (char *c = buf; *c; c++)
        if (*c == '\t')
            *c = ' ';
}
