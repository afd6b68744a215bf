/* SPDX-License-Identifier: MIT
 *
 * Parses LLVM's assembly text of one AMDGPU instruction. No other file knows the syntax. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "isa.h"

/* ---- signatures -------------------------------------------------------------------------------------------------- */

void emu_sig_parse(const char *sig, struct emu_sig *s)
{
    memset(s, 0, sizeof(*s));
    if (*sig == '*') {
        s->any = true;
        return;
    }
    bool optional = false;
    while (*sig && *sig != '|') {
        if (*sig == ' ') {
            sig++;
            continue;
        }
        int k = s->n++;
        s->role[k] = (uint8_t)*sig++;
        int words = 0;
        while (isdigit((unsigned char)*sig))
            words = 10 * words + *sig++ - '0';
        s->words[k] = (uint8_t)words;
        static const char letters[] = "fhwydjp";
        static const uint8_t types[] = { EMU_F32, EMU_F16, EMU_I16, EMU_BF16, EMU_F64, EMU_I64, EMU_PK };
        const char *at = *sig ? strchr(letters, *sig) : NULL;
        s->type[k] = words == 2 || s->role[k] == 'n' || s->role[k] == 'm' ? EMU_B64 : EMU_B32;
        if (at) {
            s->type[k] = types[at - letters];
            sig++;
        }
        if (*sig == '?') {
            optional = true;
            sig++;
        }
        if (!optional)
            s->min = s->n;
    }
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint16_t reg;
    uint8_t words;
} names[] = {
    { "vcc", EMU_VCC, 2 },
    { "vcc_lo", EMU_VCC, 1 },
    { "vcc_hi", EMU_VCC + 1, 1 },
    { "exec", EMU_EXEC, 2 },
    { "exec_lo", EMU_EXEC, 1 },
    { "exec_hi", EMU_EXEC + 1, 1 },
    { "m0", EMU_M0, 1 },
    { "null", EMU_NULL, 0 },
    { "off", EMU_NONE, 0 },
    { "scc", EMU_SCC, 1 },
    { "src_scc", EMU_SCC, 1 },
    { "vccz", EMU_VCCZ, 1 },
    { "src_vccz", EMU_VCCZ, 1 },
    { "execz", EMU_EXECZ, 1 },
    { "src_execz", EMU_EXECZ, 1 },
    { "src_shared_base", EMU_APERTURE, 0 },
    { "src_shared_limit", EMU_APERTURE + 1, 0 },
    { "src_private_base", EMU_APERTURE + 2, 0 },
    { "src_private_limit", EMU_APERTURE + 3, 0 },
    { "flat_scratch", 102, 2 },
    { "flat_scratch_lo", 102, 1 },
    { "flat_scratch_hi", 103, 1 },
    { "xnack_mask", 104, 2 },
    { "xnack_mask_lo", 104, 1 },
    { "xnack_mask_hi", 105, 1 },
};

/* "v12", "s[2:3]", "v0.h"; false: not a register of that kind. */
static bool parse_register(const char *s, const char *prefix, int base, int count, struct emu_operand *o)
{
    size_t n = strlen(prefix);
    if (strncmp(s, prefix, n))
        return false;
    s += n;
    char *end;
    long first, last;
    if (*s == '[') {
        first = last = strtol(s + 1, &end, 10);
        if (end == s + 1)
            return false;
        if (*end == ':')
            last = strtol(end + 1, &end, 10);
        if (*end++ != ']')
            return false;
    } else if (isdigit((unsigned char)*s)) {
        first = last = strtol(s, &end, 10);
    } else {
        return false;
    }
    if (!strcmp(end, ".l") || !strcmp(end, ".h")) {
        o->half = end[1] == 'h' ? 2 : 1;
        end += 2;
    }
    if (*end || first < 0 || last < first || last >= count)
        return false;
    o->reg = (uint16_t)(base + first);
    o->words = (uint8_t)(last - first + 1);
    return true;
}

static bool parse_number(const char *s, struct emu_operand *o)
{
    char *end;
    if (!isdigit((unsigned char)s[*s == '-']))
        return false;
    o->number = true;
    o->reg = EMU_CONST;
    if (strchr(s, '.') && !strchr(s, 'x')) {
        o->real = true;
        o->f = strtod(s, &end);
        /* 1/(2 pi) is printed with the digits of its type: take the exact one. */
        if (o->f > 0.159 && o->f < 0.1592)
            o->f = 0.15915494309189532;
    } else {
        o->hex = strchr(s, 'x') != NULL;
        o->i = *s == '-' ? -(int64_t)strtoull(s + 1, &end, 0) : (int64_t)strtoull(s, &end, 0);
    }
    return !*end;
}

static bool parse_operand(char *s, struct emu_operand *o)
{
    memset(o, 0, sizeof(*o));
    size_t n = strlen(s);
    if (s[0] == '-' && !isdigit((unsigned char)s[1])) {
        o->mods ^= EMU_NEG;
        s++;
        n--;
    }
    static const struct {
        const char *open, *close;
        uint8_t mod;
    } wraps[] = { { "neg(", ")", EMU_NEG },
                  { "abs(", ")", EMU_ABS },
                  { "sext(", ")", EMU_SEXT },
                  { "|", "|", EMU_ABS },
                  { "lit(", ")", 0 } };
    for (size_t i = 0; i < COUNT(wraps) * 1u; i++) {
        size_t k = strlen(wraps[i].open);
        if (n > k + 1 && !strncmp(s, wraps[i].open, k) && s[n - 1] == wraps[i].close[0]) {
            s[n - 1] = 0;
            uint8_t outer = o->mods;
            if (!parse_operand(s + k, o))
                return false;
            o->mods |= outer | wraps[i].mod;
            return true;
        }
    }
    uint8_t mods = o->mods;
    for (size_t i = 0; i < COUNT(names) * 1u; i++)
        if (!strcmp(s, names[i].name)) {
            o->reg = names[i].reg;
            o->words = names[i].words;
            return true;
        }
    if (parse_register(s, "v", EMU_VGPR, 256, o) || parse_register(s, "a", EMU_AGPR, 256, o) ||
        parse_register(s, "s", EMU_SGPR, 106, o) || parse_register(s, "ttmp", EMU_TTMP, 16, o) || parse_number(s, o)) {
        o->mods = mods;
        return true;
    }
    if (strchr(s, '(') || !strncmp(s, "gpr_idx", 7)) {
        o->special = o->number = true;
        o->reg = EMU_CONST;
        return true;
    }
    return false;
}

uint64_t emu_widen(const struct emu_operand *o, int type, int words)
{
    if (o->real)
        switch (type) {
        case EMU_F64:
        case EMU_B64:
        case EMU_I64:
            return as_u64(o->f);
        case EMU_F16:
        case EMU_I16:
            return f2h((float)o->f);
        case EMU_PK:
            return words == 2 ? as_u32((float)o->f) : f2h((float)o->f);
        default:
            return as_u32((float)o->f);
        }
    uint64_t v = (uint64_t)o->i;
    switch (type) {
    case EMU_F64:
        return o->hex && v <= 0xffffffff ? v << 32 : v;
    case EMU_I64:
        return o->hex && v <= 0xffffffff ? (uint64_t)(int64_t)(int32_t)v : v;
    case EMU_B64:
        return v;
    default:
        return (uint32_t)v;
    }
}

/* ---- modifiers --------------------------------------------------------------------------------------------------- */

/* "[0,1,1]": how many bits, -1: it is not that. */
static int parse_bits(const char *s, uint8_t *bits)
{
    int i = 0;
    if (*s++ != '[')
        return -1;
    *bits = 0;
    for (; *s && *s != ']'; i++) {
        if (*s != '0' && *s != '1')
            return -1;
        *bits |= (uint8_t)((*s++ - '0') << i);
        if (*s == ',')
            s++;
    }
    return i;
}

static bool parse_sel(const char *s, uint8_t *sel)
{
    static const char *const sels[] = { "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD" };
    for (int i = 0; i < COUNT(sels); i++)
        if (!strcmp(s, sels[i])) {
            *sel = (uint8_t)i;
            return true;
        }
    return false;
}

static bool parse_dpp(const char *name, const char *value, struct emu_mods *m)
{
    static const struct {
        const char *name;
        uint8_t dpp;
    } kinds[] = { { "row_shl", EMU_DPP_ROW_SHL },
                  { "row_shr", EMU_DPP_ROW_SHR },
                  { "row_ror", EMU_DPP_ROW_ROR },
                  { "wave_shl", EMU_DPP_WAVE_SHL },
                  { "wave_rol", EMU_DPP_WAVE_ROL },
                  { "wave_shr", EMU_DPP_WAVE_SHR },
                  { "wave_ror", EMU_DPP_WAVE_ROR },
                  { "row_mirror", EMU_DPP_ROW_MIRROR },
                  { "row_half_mirror", EMU_DPP_ROW_HALF_MIRROR },
                  { "row_newbcast", EMU_DPP_ROW_SHARE },
                  { "row_share", EMU_DPP_ROW_SHARE },
                  { "row_xmask", EMU_DPP_ROW_XMASK } };
    if (!strcmp(name, "quad_perm")) {
        int a, b, c, d;
        if (sscanf(value, "[%d,%d,%d,%d]", &a, &b, &c, &d) != 4)
            return false;
        m->dpp = EMU_DPP_QUAD_PERM;
        m->dpp_arg = (uint16_t)((a & 3) | (b & 3) << 2 | (c & 3) << 4 | (d & 3) << 6);
        return true;
    }
    if (!strcmp(name, "dpp8")) {
        const char *s = value + 1;
        m->dpp = EMU_DPP_8;
        for (int i = 0; i < 8; i++) {
            m->dpp8 |= (uint32_t)(strtoul(s, (char **)&s, 10) & 7) << 3 * i;
            if (*s == ',')
                s++;
        }
        return *s == ']';
    }
    if (!strcmp(name, "row_bcast")) {
        m->dpp = atoi(value) == 15 ? EMU_DPP_ROW_BCAST15 : EMU_DPP_ROW_BCAST31;
        return true;
    }
    for (int i = 0; i < COUNT(kinds); i++)
        if (!strcmp(name, kinds[i].name)) {
            m->dpp = kinds[i].dpp;
            m->dpp_arg = (uint16_t)atoi(value);
            return true;
        }
    return false;
}

static bool parse_modifier(char *s, struct emu_text *t)
{
    struct emu_mods *m = &t->mods;
    char *value = strchr(s, ':');
    if (value)
        *value++ = 0;
    else
        value = s + strlen(s);
    static const struct {
        const char *name;
        size_t at;
    } flags[] = {
#define FLAG(f) { #f, offsetof(struct emu_mods, f) }
        FLAG(clamp), FLAG(offen), FLAG(idxen), FLAG(addr64), FLAG(lds), FLAG(gds), FLAG(tfe),
        FLAG(glc),   FLAG(slc),   FLAG(dlc),   FLAG(nt),     FLAG(sc0), FLAG(sc1),
#undef FLAG
    };
    t->has_mods = true;
    if (!*value)
        for (int i = 0; i < COUNT(flags); i++)
            if (!strcmp(s, flags[i].name)) {
                *((bool *)m + flags[i].at) = true;
                return true;
            }
    if (!strcmp(s, "scope")) {
        static const char *const scopes[] = { "SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS" };
        for (int i = 0; i < COUNT(scopes); i++)
            if (!strcmp(value, scopes[i]))
                m->scope = (uint8_t)i;
        return true;
    }
    if (!strcmp(s, "th")) { /* of the hints only this changes what is done */
        m->glc = !strncmp(value, "TH_ATOMIC", 9) && strstr(value, "RETURN");
        return true;
    }
    if (!strcmp(s, "byte_sel")) { /* where op_sel has it: of a source; of a destination with random rounding */
        unsigned n = (unsigned)strtoul(value, NULL, 0);
        m->op_sel = (uint8_t)(strncmp(t->name, "v_cvt_sr", 8) ? n >> 1 | (n & 1) << 1 : n << 2);
        return true;
    }
    if (!strcmp(s, "op_sel"))
        return (t->op_sels = parse_bits(value, &m->op_sel)) > 0;
    if (!strcmp(s, "op_sel_hi"))
        return parse_bits(value, &m->op_sel_hi) > 0;
    if (!strcmp(s, "neg_lo") || !strcmp(s, "neg"))
        return parse_bits(value, &m->neg_lo) > 0;
    if (!strcmp(s, "neg_hi"))
        return parse_bits(value, &m->neg_hi) > 0;
    if (!strcmp(s, "offset") || !strcmp(s, "offset0")) {
        m->offset = (int32_t)strtol(value, NULL, 0);
        return true;
    }
    if (!strcmp(s, "offset1")) {
        m->offset1 = (int32_t)strtol(value, NULL, 0);
        return true;
    }
    if (!strcmp(s, "mul") || !strcmp(s, "div")) {
        m->omod = s[0] == 'd' ? 3 : value[0] == '2' ? 1 : 2;
        return true;
    }
    if (!strcmp(s, "row_mask"))
        m->row_mask = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "bank_mask"))
        m->bank_mask = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "bound_ctrl"))
        m->bound_ctrl = true;
    else if (!strcmp(s, "fi"))
        m->fi = value[0] == '1';
    else if (!strcmp(s, "cbsz"))
        m->cbsz = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "abid") || !strcmp(s, "index_key"))
        m->abid = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "blgp"))
        m->blgp = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "bitop3"))
        m->bitop3 = (uint8_t)strtol(value, NULL, 0);
    else if (!strcmp(s, "dst_sel"))
        return parse_sel(value, &m->sdwa_dst);
    else if (!strcmp(s, "src0_sel"))
        return parse_sel(value, &m->sdwa_src[0]);
    else if (!strcmp(s, "src1_sel"))
        return parse_sel(value, &m->sdwa_src[1]);
    else if (!strcmp(s, "dst_unused"))
        m->sdwa_unused = !strcmp(value, "UNUSED_PRESERVE") ? 2 : !strcmp(value, "UNUSED_SEXT") ? 1 : 0;
    else
        return parse_dpp(s, value, m);
    return true;
}

/* ---- an instruction ---------------------------------------------------------------------------------------------- */

static bool strip(char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    if (n <= k || strcmp(s + n - k, suffix))
        return false;
    s[n - k] = 0;
    return true;
}

/* The end of the token at s: a comma or a space outside brackets. */
static const char *token_end(const char *s)
{
    int depth = 0;
    for (; *s; s++) {
        if (*s == '(' || *s == '[')
            depth++;
        else if (*s == ')' || *s == ']')
            depth--;
        else if (depth == 0 && (*s == ',' || *s == ' '))
            break;
    }
    return s;
}

bool emu_text_parse(const char *text, struct emu_text *t, char *why, size_t why_size)
{
    memset(t, 0, sizeof(*t));
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strcspn(text, " \t");
    if (n >= sizeof(t->name))
        return snprintf(why, why_size, "mnemonic of %zu characters", n), false;
    memcpy(t->name, text, n);
    t->dpp = strip(t->name, "_dpp");
    t->sdwa = strip(t->name, "_sdwa");
    t->e64 = strip(t->name, "_e64");
    strip(t->name, "_e32");
    if (!strncmp(t->name, "v_dual_", 7))
        memmove(t->name + 2, t->name + 7, strlen(t->name + 7) + 1);
    t->mods.sdwa = t->sdwa;
    t->mods.row_mask = t->mods.bank_mask = 15;
    t->has_mods = t->dpp || t->sdwa;
    if (t->sdwa)
        t->mods.sdwa_dst = t->mods.sdwa_src[0] = t->mods.sdwa_src[1] = 6;
    text += n;
    while (isspace((unsigned char)*text))
        text++;
    t->rest = text;
    if (!strncmp(t->name, "s_wait", 6) || !strcmp(t->name, "s_delay_alu") || !strcmp(t->name, "s_sendmsg"))
        return true;
    bool more = *text != 0;
    while (more) {
        char token[96];
        const char *end = token_end(text);
        n = (size_t)(end - text);
        if (n >= sizeof(token) || t->n == (int)COUNT(t->operand))
            return snprintf(why, why_size, "too much text"), false;
        memcpy(token, text, n);
        token[n] = 0;
        if (!t->n && *end != ',') { /* "s_barrier", "buffer_inv sc1": the first may already be a modifier */
            char copy[96];
            memcpy(copy, token, n + 1);
            if (!parse_operand(copy, &t->operand[0]))
                break;
            memcpy(copy, token, n + 1);
        }
        char copy[96];
        memcpy(copy, token, n + 1);
        if (!parse_operand(copy, &t->operand[t->n]))
            return snprintf(why, why_size, "operand '%s'", token), false;
        t->n++;
        text = end;
        more = *text == ',';
        while (*text == ',' || *text == ' ')
            text++;
    }
    while (*text) {
        char token[96];
        const char *end = token_end(text);
        n = (size_t)(end - text);
        if (n >= sizeof(token))
            return snprintf(why, why_size, "too much text"), false;
        memcpy(token, text, n);
        token[n] = 0;
        if (n && !parse_modifier(token, t))
            return snprintf(why, why_size, "modifier '%s'", token), false;
        text = end;
        while (*text == ',' || *text == ' ')
            text++;
    }
    return true;
}

/* gfx12: each counter has an instruction, or two share one: the second in bits 5:0, the first from bit 8 on. */
static uint32_t wait_gfx12(const char *name, const char *rest)
{
    static const struct {
        const char *name;
        int low, high;
    } waits[] = { { "loadcnt", EMU_WAIT_VM, -1 },
                  { "storecnt", EMU_WAIT_VS, -1 },
                  { "dscnt", EMU_WAIT_LGKM, -1 },
                  { "kmcnt", EMU_WAIT_KM, -1 },
                  { "loadcnt_dscnt", EMU_WAIT_LGKM, EMU_WAIT_VM },
                  { "storecnt_dscnt", EMU_WAIT_LGKM, EMU_WAIT_VS } };
    unsigned long n = strtoul(rest, NULL, 0);
    if (!strcmp(name, "s_wait_idle"))
        return 0x01010101;
    for (int i = 0; i < COUNT(waits); i++)
        if (!strcmp(name + strlen("s_wait_"), waits[i].name))
            return (uint32_t)((n & 63) + 1) << waits[i].low |
                   (waits[i].high < 0 ? 0 : (uint32_t)((n >> 8 & 63) + 1) << waits[i].high);
    return 0;
}

uint32_t emu_text_wait(const char *name, const char *rest)
{
    if (!strncmp(name, "s_wait_", 7))
        return wait_gfx12(name, rest);

    static const struct {
        const char *counter;
        int at;
    } counters[] = {
        { "vmcnt", EMU_WAIT_VM }, { "lgkmcnt", EMU_WAIT_LGKM }, { "expcnt", EMU_WAIT_EXP }, { "vscnt", EMU_WAIT_VS }
    };
    uint32_t wait = 0;
    for (int i = 0; i < COUNT(counters); i++) {
        const char *at = strstr(rest, counters[i].counter);
        size_t n = strlen(counters[i].counter);
        if (at && at[n] == '(')
            wait |= (uint32_t)((strtoul(at + n + 1, NULL, 0) + 1) & 255) << counters[i].at;
        /* s_waitcnt_vscnt null, 0x0 */
        const char *comma = strchr(rest, ',');
        if (!strncmp(name, "s_waitcnt_", 10) && !strcmp(name + 10, counters[i].counter) && comma)
            wait |= (uint32_t)((strtoul(comma + 1, NULL, 0) + 1) & 255) << counters[i].at;
    }
    return wait;
}
