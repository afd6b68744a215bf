/* SPDX-License-Identifier: MIT
 *
 * Loads, stores and atomics under every name of every architecture in every space, as texts: what the assembler does
 * not know of them is dropped. emu_isa_memory.c runs them. */
#include "emu_isa.h"

#include <stdarg.h>

enum { TEXTS = 4096 };
static char *texts[TEXTS];
static int n_texts;

__attribute__((format(printf, 1, 2))) static const char *text_of(const char *fmt, ...)
{
    char line[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    ck_assert_int_lt(n_texts, TEXTS);
    texts[n_texts] = strdup(line);
    ck_assert_ptr_nonnull(texts[n_texts]);
    return texts[n_texts++];
}
/* v12, v[12:13]... */
static const char *regs(int first, int words)
{
    static char buf[4][16];
    static int turn;
    char *s = buf[turn++ % 4];
    if (words == 1)
        snprintf(s, sizeof(buf[0]), "v%d", first);
    else
        snprintf(s, sizeof(buf[0]), "v[%d:%d]", first, first + words - 1);
    return s;
}

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name; /* of gfx9, of gfx11 */
    int bytes;
    char kind;
    bool store;
} sizes[] = {
    { "dword", 4, 'z', false },      { "dwordx2", 8, 'z', false },
    { "dwordx3", 12, 'z', false },   { "dwordx4", 16, 'z', false },
    { "ubyte", 1, 'z', false },      { "sbyte", 1, 's', false },
    { "ushort", 2, 'z', false },     { "sshort", 2, 's', false },
    { "ubyte_d16", 1, 'l', false },  { "ubyte_d16_hi", 1, 'h', false },
    { "sbyte_d16", 1, 'L', false },  { "sbyte_d16_hi", 1, 'H', false },
    { "short_d16", 2, 'l', false },  { "short_d16_hi", 2, 'h', false },
    { "b32", 4, 'z', false },        { "b64", 8, 'z', false },
    { "b96", 12, 'z', false },       { "b128", 16, 'z', false },
    { "u8", 1, 'z', false },         { "i8", 1, 's', false },
    { "u16", 2, 'z', false },        { "i16", 2, 's', false },
    { "d16_u8", 1, 'l', false },     { "d16_hi_u8", 1, 'h', false },
    { "d16_i8", 1, 'L', false },     { "d16_hi_i8", 1, 'H', false },
    { "d16_b16", 2, 'l', false },    { "d16_hi_b16", 2, 'h', false },
    { "dword", 4, 'z', true },       { "dwordx2", 8, 'z', true },
    { "dwordx3", 12, 'z', true },    { "dwordx4", 16, 'z', true },
    { "byte", 1, 'z', true },        { "short", 2, 'z', true },
    { "byte_d16_hi", 1, 'h', true }, { "short_d16_hi", 2, 'h', true },
    { "b32", 4, 'z', true },         { "b64", 8, 'z', true },
    { "b96", 12, 'z', true },        { "b128", 16, 'z', true },
    { "b8", 1, 'z', true },          { "b16", 2, 'z', true },
    { "d16_hi_b8", 1, 'h', true },   { "d16_hi_b16", 2, 'h', true },
};
/* LDS: "read_", "load_"; "write_", "store_". */
static const struct {
    const char *name;
    int bytes;
    char kind;
    bool store;
} lds_sizes[] = {
    { "b32", 4, 'z', false },       { "b64", 8, 'z', false },        { "b96", 12, 'z', false },
    { "b128", 16, 'z', false },     { "u8", 1, 'z', false },         { "i8", 1, 's', false },
    { "u16", 2, 'z', false },       { "i16", 2, 's', false },        { "u8_d16", 1, 'l', false },
    { "u8_d16_hi", 1, 'h', false }, { "i8_d16", 1, 'L', false },     { "i8_d16_hi", 1, 'H', false },
    { "u16_d16", 2, 'l', false },   { "u16_d16_hi", 2, 'h', false }, { "b8", 1, 'z', true },
    { "b16", 2, 'z', true },        { "b32", 4, 'z', true },         { "b64", 8, 'z', true },
    { "b96", 12, 'z', true },       { "b128", 16, 'z', true },       { "b8_d16_hi", 1, 'h', true },
    { "b16_d16_hi", 2, 'h', true },
};

static int keep_known(int arch, int n, bool *ok)
{
    snippets_known(arch, (const char *const *)texts, n, ok);
    int kept = 0;
    for (int k = 0; k < n; k++)
        kept += ok[k];
    return kept;
}

int forms_moves(int arch, struct move *m, int room)
{
    static bool ok[TEXTS];
    int n = 0, kept = 0;
    n_texts = 0;
#define ADD(...)                                                                                                       \
    do {                                                                                                               \
        ck_assert_int_lt(n, room);                                                                                     \
        m[n++] = (struct move){ 1 << arch, __VA_ARGS__ };                                                              \
    } while (0)
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const char *name = sizes[k].name;
        int bytes = sizes[k].bytes, words = bytes < 4 ? 1 : bytes / 4;
        char kind = sizes[k].kind;
        if (sizes[k].store) {
            ADD(GLOBAL, 4, bytes, kind, true, text_of("global_store_%s v[0:1], %s, off offset:4", name, regs(4, words)),
                0);
            ADD(GLOBAL, 0, bytes, kind, true, text_of("flat_store_%s v[0:1], %s", name, regs(4, words)), 0);
            ADD(GLOBAL, 8, bytes, kind, true,
                text_of("buffer_store_%s %s, v2, s[4:7], 0 offen offset:8", name, regs(4, words)), 0);
            ADD(SCRATCH, 28, bytes, kind, true, text_of("scratch_store_%s v3, %s, off offset:12", name, regs(4, words)),
                0);
        } else {
            ADD(GLOBAL, 4, bytes, kind, false,
                text_of("global_load_%s %s, v[0:1], off offset:4", name, regs(12, words)), 0);
            ADD(GLOBAL, 0, bytes, kind, false, text_of("flat_load_%s %s, v[0:1]", name, regs(12, words)), 0);
            ADD(GLOBAL, 8, bytes, kind, false,
                text_of("buffer_load_%s %s, v2, s[4:7], 0 offen offset:8", name, regs(12, words)), 0);
            ADD(SCRATCH, 28, bytes, kind, false,
                text_of("scratch_load_%s %s, v3, off offset:12", name, regs(12, words)), 0);
        }
    }
    for (size_t k = 0; k < sizeof(lds_sizes) / sizeof(lds_sizes[0]); k++)
        for (int names = 0; names < 2; names++) {
            int bytes = lds_sizes[k].bytes, words = bytes < 4 ? 1 : bytes / 4;
            if (lds_sizes[k].store)
                ADD(LDS, 4, bytes, lds_sizes[k].kind, true,
                    text_of("ds_%s_%s v2, %s offset:4", names ? "store" : "write", lds_sizes[k].name, regs(4, words)),
                    0);
            else
                ADD(LDS, 4, bytes, lds_sizes[k].kind, false,
                    text_of("ds_%s_%s %s, v2 offset:4", names ? "load" : "read", lds_sizes[k].name, regs(12, words)),
                    0);
        }
    static const struct {
        const char *load, *store;
        int step;
    } twos[] = { { "read2", "write2", 1 },
                 { "read2st64", "write2st64", 64 },
                 { "load_2addr", "store_2addr", 1 },
                 { "load_2addr_stride64", "store_2addr_stride64", 64 } };
    for (size_t k = 0; k < sizeof(twos) / sizeof(twos[0]); k++)
        for (int words = 1; words <= 2; words++) {
            int one = 4 * words * twos[k].step, bytes = 8 * words;
            ADD(LDS, one, bytes, 'z', false,
                text_of("ds_%s_b%d %s, v2 offset0:1 offset1:3", twos[k].load, 32 * words, regs(12, 2 * words)),
                3 * one);
            int far = twos[k].step == 64 ? 32 : 1; /* 64 apart: beyond all lanes' bytes */
            ADD(LDS, 2 * far * one, bytes, 'z', true,
                text_of("ds_%s_b%d v2, %s, %s offset0:%d offset1:%d", twos[k].store, 32 * words, regs(4, words),
                        regs(4 + words, words), 2 * far, far),
                far * one);
        }
#undef ADD
    keep_known(arch, n, ok);
    for (int k = 0; k < n; k++)
        if (ok[k])
            m[kept++] = m[k];
    return kept;
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

/* Names: gfx9's with _x2 for 64 bits, gfx11's for 32 and 64 bits; NULL: there is none. */
static const struct {
    const char *gfx9, *b32, *b64;
    char op;
} global_ops[] = {
    { "swap", "swap_b32", "swap_b64", 'x' },
    { "add", "add_u32", "add_u64", '+' },
    { "sub", "sub_u32", "sub_u64", '-' },
    { "smin", "min_i32", "min_i64", 'm' },
    { "umin", "min_u32", "min_u64", 'u' },
    { "smax", "max_i32", "max_i64", 'n' },
    { "umax", "max_u32", "max_u64", 'M' },
    { "and", "and_b32", "and_b64", '&' },
    { "or", "or_b32", "or_b64", '|' },
    { "xor", "xor_b32", "xor_b64", '^' },
    { "inc", "inc_u32", "inc_u64", 'i' },
    { "dec", "dec_u32", "dec_u64", 'd' },
    { "cmpswap", "cmpswap_b32", "cmpswap_b64", 'c' },
    { NULL, "add_f32", "add_f64", 'f' },
    { NULL, "min_f32", "min_f64", 'l' },
    { NULL, "max_f32", "max_f64", 'g' },
    { NULL, "pk_add_f16", NULL, 'h' },
    { NULL, "pk_add_bf16", NULL, 'b' },
    { NULL, "cmpswap_f32", NULL, 'e' },
    { "csub", "csub_u32", NULL, 's' },
    { "fmin", NULL, NULL, 'l' },
    { "fmax", NULL, NULL, 'g' },
    { "fcmpswap", NULL, NULL, 'e' },
    { NULL, "min_num_f32", NULL, 'l' },
    { NULL, "max_num_f32", NULL, 'g' },
    { NULL, "sub_clamp_u32", NULL, 's' },
    { NULL, "cond_sub_u32", NULL, 'S' },
};
static const struct {
    const char *name, *b32, *b64;
    char op;
    bool only_returns;
} lds_ops[] = {
    { "add", "u32", "u64", '+', false },      { "sub", "u32", "u64", '-', false },
    { "rsub", "u32", "u64", 'r', false },     { "inc", "u32", "u64", 'i', false },
    { "dec", "u32", "u64", 'd', false },      { "min", "i32", "i64", 'm', false },
    { "max", "i32", "i64", 'n', false },      { "min", "u32", "u64", 'u', false },
    { "max", "u32", "u64", 'M', false },      { "and", "b32", "b64", '&', false },
    { "or", "b32", "b64", '|', false },       { "xor", "b32", "b64", '^', false },
    { "add", "f32", "f64", 'f', false },      { "min", "f32", "f64", 'l', false },
    { "max", "f32", "f64", 'g', false },      { "pk_add", "f16", NULL, 'h', false },
    { "pk_add", "bf16", NULL, 'b', false },   { "mskor", "b32", "b64", 'k', false },
    { "cmpst", "b32", "b64", 'C', false },    { "cmpst", "f32", "f64", 'E', false },
    { "cmpstore", "b32", "b64", 'c', false }, { "cmpstore", "f32", "f64", 'e', false },
    { "min_num", "f32", "f64", 'l', false },  { "max_num", "f32", "f64", 'g', false },
    { "sub_clamp", "u32", NULL, 's', false }, { "cond_sub", "u32", NULL, 'S', false },
    { "wrxchg", "b32", "b64", 'x', true },    { "storexchg", "b32", "b64", 'x', true },
};

int forms_atomics(int arch, struct atomic *a, int room)
{
    static bool ok[TEXTS];
    int n = 0, kept = 0;
    const char *wants = arch == 2 ? " sc0" : " glc";
    n_texts = 0;
#define ADD(...)                                                                                                       \
    do {                                                                                                               \
        ck_assert_int_lt(n, room);                                                                                     \
        a[n++] = (struct atomic){ 1 << arch, __VA_ARGS__ };                                                            \
    } while (0)
    for (size_t k = 0; k < sizeof(global_ops) / sizeof(global_ops[0]); k++)
        for (int form = 0; form < 4; form++) {
            char name[40];
            const char *given = form >= 2 ? form == 2 ? global_ops[k].b32 : global_ops[k].b64 : global_ops[k].gfx9;
            int words = 1 + form % 2, bytes = 4 * words, data = strchr("ce", global_ops[k].op) ? 2 * words : words;
            char op = global_ops[k].op;
            if (!given)
                continue;
            snprintf(name, sizeof(name), "%s%s", given, form == 1 ? "_x2" : "");
            ADD(GLOBAL, bytes, false, op, text_of("global_atomic_%s v[0:1], %s, off", name, regs(4, data)));
            ADD(GLOBAL, bytes, true, op,
                text_of("global_atomic_%s %s, v[0:1], %s, off%s", name, regs(12, words), regs(4, data), wants));
            ADD(GLOBAL, bytes, false, op, text_of("flat_atomic_%s v[0:1], %s", name, regs(4, data)));
            ADD(GLOBAL, bytes, true, op,
                text_of("flat_atomic_%s %s, v[0:1], %s%s", name, regs(12, words), regs(4, data), wants));
            ADD(GLOBAL, bytes, false, op, text_of("buffer_atomic_%s %s, v2, s[4:7], 0 offen", name, regs(4, data)));
            ADD(GLOBAL, bytes, true, op,
                text_of("buffer_atomic_%s %s, v2, s[4:7], 0 offen%s", name, regs(4, data), wants));
        }
    for (size_t k = 0; k < sizeof(lds_ops) / sizeof(lds_ops[0]); k++)
        for (int words = 1; words <= 2; words++) {
            const char *type = words == 1 ? lds_ops[k].b32 : lds_ops[k].b64, *name = lds_ops[k].name;
            bool two = strchr("kCEce", lds_ops[k].op);
            char data[40];
            if (!type)
                continue;
            snprintf(data, sizeof(data), two ? "%s, %s" : "%s", regs(4, words), regs(4 + words, words));
            if (!lds_ops[k].only_returns)
                ADD(LDS, 4 * words, false, lds_ops[k].op, text_of("ds_%s_%s v2, %s", name, type, data));
            ADD(LDS, 4 * words, true, lds_ops[k].op,
                text_of("ds_%s_rtn_%s %s, v2, %s", name, type, regs(12, words), data));
        }
#undef ADD
    keep_known(arch, n, ok);
    for (int k = 0; k < n; k++)
        if (ok[k])
            a[kept++] = a[k];
    return kept;
}
