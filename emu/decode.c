/* SPDX-License-Identifier: MIT
 *
 * From machine code to struct emu_inst, by way of LLVM's disassembler and its text: one parser serves every
 * architecture, since the text names the operation, the operands and the modifiers whatever the encoding is. It costs
 * microseconds an instruction, once. */
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

/* ---- LLVM, by dlopen: these functions of its C interface have been stable for a decade ----------------------------
 */

typedef void *(*create_fn)(const char *triple, const char *cpu, const char *features, void *info, int tag_type,
                           void *get_op_info, void *symbol_lookup);
typedef size_t (*disasm_fn)(void *ctx, uint8_t *bytes, uint64_t size, uint64_t pc, char *out, size_t out_size);
typedef void (*dispose_fn)(void *ctx);
typedef void (*init_fn)(void);

static struct {
    create_fn create;
    disasm_fn disasm;
    dispose_fn dispose;
    bool ok;
    char why[200];
} llvm;

static void load_llvm(void)
{
    static const char *const names[] = { "libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so", "libLLVM.so.20.1",
                                         NULL };
    const char *env = getenv("RFG_LIBLLVM");
    void *lib = NULL;
    if (env && *env)
        lib = dlopen(env, RTLD_NOW | RTLD_LOCAL);
    else
        for (int i = 0; names[i] && !lib; i++)
            lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(llvm.why, sizeof(llvm.why), "%s not found (Debian: apt-get install libllvm19; or set RFG_LIBLLVM)",
                 env && *env ? env : names[0]);
        return;
    }
    static const char *const inits[] = { "LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                                         "LLVMInitializeAMDGPUDisassembler" };
    for (int i = 0; i < 3; i++) {
        init_fn f = (init_fn)dlsym(lib, inits[i]);
        if (!f) {
            snprintf(llvm.why, sizeof(llvm.why), "LLVM lacks %s: it was built without AMDGPU", inits[i]);
            return;
        }
        f();
    }
    llvm.create = (create_fn)dlsym(lib, "LLVMCreateDisasmCPUFeatures");
    llvm.disasm = (disasm_fn)dlsym(lib, "LLVMDisasmInstruction");
    llvm.dispose = (dispose_fn)dlsym(lib, "LLVMDisasmDispose");
    /* CPUFeatures takes the arguments (triple, cpu, features, ...) */
    llvm.ok = llvm.create && llvm.disasm && llvm.dispose;
    if (!llvm.ok)
        snprintf(llvm.why, sizeof(llvm.why), "LLVM lacks the disassembler's C interface");
}

bool emu_llvm_ready(char *why, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_llvm);
    if (!llvm.ok && why)
        snprintf(why, size, "%s", llvm.why);
    return llvm.ok;
}

static void *open_disasm(const struct emu_arch *arch, int wave_size)
{
    const char *features = arch->gfx >= 0x1000 ? (wave_size == 64 ? "+wavefrontsize64,-wavefrontsize32"
                                                                  : "+wavefrontsize32,-wavefrontsize64")
                                               : "";
    return llvm.create("amdgcn-amd-amdhsa", arch->name, features, NULL, 0, NULL, NULL);
}

/* LLVM 19 crashes on SDWA words whose selectors have values that mean nothing (7; 3 for dst_unused). Such words are no
 * instructions. SDWA: VOP1, VOP2 or VOPC with 0xf9 for source 0, gfx9. */
static bool crashes_llvm(const struct emu_arch *arch, const uint8_t *bytes, size_t n)
{
    uint32_t w[2];
    if (arch->gfx >= 0x1000 || n < 8)
        return false;
    memcpy(w, bytes, 8);
    if (w[0] >> 31 || (w[0] & 0x1ff) != 0xf9)
        return false;
    bool vopc = w[0] >> 25 == 0x3e;
    return (w[1] >> 16 & 7) == 7 || (w[1] >> 24 & 7) == 7 || (!vopc && ((w[1] >> 8 & 7) == 7 || (w[1] >> 11 & 3) == 3));
}

/* One instruction as text; its size, 0: it is none. */
static size_t disassemble(void *dis, const struct emu_arch *arch, const uint8_t *code, size_t size, uint64_t pc,
                          char *out, size_t out_size)
{
    uint8_t bytes[32] = { 0 }; /* LLVM takes them as not const, and may look at more than one instruction's */
    size_t n = size < sizeof(bytes) ? size : sizeof(bytes);
    memcpy(bytes, code, n);
    out[0] = 0;
    if (crashes_llvm(arch, bytes, n))
        return 0;
    size_t used = llvm.disasm(dis, bytes, n, pc, out, out_size);
    return used <= n ? used : 0;
}

/* ---- operands -----------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    uint16_t reg;
    uint8_t words;
} named[] = {
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
    { "src_shared_base", EMU_SHARED_BASE_REG, 2 },
    { "src_shared_limit", EMU_SHARED_BASE_REG + 1, 2 },
    { "src_private_base", EMU_SHARED_BASE_REG + 2, 2 },
    { "src_private_limit", EMU_SHARED_BASE_REG + 3, 2 },
};

static uint16_t half_of(double v)
{
    _Float16 h = (_Float16)v;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}

/* A number as an operand of that type holds it. */
static bool parse_constant(const char *t, char type, uint64_t *k)
{
    char *end;
    if (strchr(t, '.') || strstr(t, "inf") || strstr(t, "nan")) {
        double v = strtod(t, &end);
        float f = (float)v;
        uint32_t u;
        if (*end)
            return false;
        memcpy(&u, &f, 4);
        if (type == 'd' || type == 'q')
            memcpy(k, &v, 8);
        else
            *k = type == 'h' || type == 'p' ? half_of(v) : u;
        return true;
    }
    bool hex = !strncmp(t, "0x", 2);
    long long v = hex ? (long long)strtoull(t, &end, 16) : strtoll(t, &end, 10);
    if (end == t || *end)
        return false;
    if (hex && type == 'd' && (unsigned long long)v <= UINT32_MAX)
        *k = (uint64_t)v << 32; /* a 32-bit literal is the upper half of a double */
    else if (type == 'd' || type == 'q')
        *k = (uint64_t)v;
    else
        *k = (uint32_t)v;
    return true;
}

static bool parse_operand(struct emu_inst *i, int at, const char *text)
{
    char t[96];
    snprintf(t, sizeof(t), "%s", text);
    char *s = t;
    uint8_t mods = 0;
    size_t len = strlen(s);
    if (!strncmp(s, "sext(", 5) && s[len - 1] == ')') {
        mods |= EMU_SEXT;
        s[len - 1] = 0;
        s += 5;
    } else if (!strncmp(s, "neg(", 4) && s[len - 1] == ')') {
        mods |= EMU_NEG;
        s[len - 1] = 0;
        s += 4;
    } else if (*s == '-' && (isalpha((unsigned char)s[1]) || s[1] == '|')) {
        mods |= EMU_NEG;
        s++;
    }
    len = strlen(s);
    if (*s == '|' && len > 1 && s[len - 1] == '|') {
        mods |= EMU_ABS;
        s[len - 1] = 0;
        s++;
    }
    i->m.src[at] = mods;
    for (size_t n = 0; n < sizeof(named) / sizeof(named[0]); n++)
        if (!strcmp(s, named[n].name)) {
            i->reg[at] = named[n].reg;
            i->words[at] = named[n].words;
            return true;
        }
    int base = *s == 'v' ? EMU_VGPR : *s == 'a' ? EMU_AGPR : *s == 's' ? 0 : -1;
    const char *r = s + 1;
    if (!strncmp(s, "ttmp", 4)) {
        base = EMU_TTMP;
        r = s + 4;
    }
    int lo, hi, used = 0;
    if (base >= 0 && sscanf(r, "[%d:%d]%n", &lo, &hi, &used) == 2 && used && !r[used] && hi >= lo) {
        i->reg[at] = (uint16_t)(base + lo);
        i->words[at] = (uint8_t)(hi - lo + 1);
        return true;
    }
    used = 0;
    if (base >= 0 && sscanf(r, "%d%n", &lo, &used) == 1 && used && !r[used]) {
        i->reg[at] = (uint16_t)(base + lo);
        i->words[at] = 1;
        return true;
    }
    i->reg[at] = EMU_CONST;
    i->words[at] = 1;
    if (!strncmp(s, "hwreg(", 6)) {
        char name[40];
        int id = -1, offset = 0, width = 32;
        if (sscanf(s, "hwreg(%d, %d, %d)", &id, &offset, &width) < 1 &&
            sscanf(s, "hwreg(HW_REG_%39[A-Z_0-9], %d, %d)", name, &offset, &width) >= 1)
            id = !strcmp(name, "MODE") ? 1 : 63; /* others read as 0 */
        i->k[at] = (uint64_t)(id | offset << 6 | (width - 1) << 11);
        return id >= 0;
    }
    return parse_constant(s, (char)i->op->type, &i->k[at]);
}

/* ---- modifiers ----------------------------------------------------------------------------------------------------
 */

/* "[1,0,1]" as bits, first element lowest. */
static uint8_t bits_of(const char *s)
{
    uint8_t bits = 0;
    for (int n = 0; *s && *s != ']'; s++)
        if (*s == '0' || *s == '1')
            bits |= (uint8_t)((*s - '0') << n++);
    return bits;
}

static bool parse_selection(const char *s, uint8_t *sel)
{
    static const char *const names[] = { "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD" };
    for (uint8_t n = 0; n < 7; n++)
        if (!strcmp(s, names[n])) {
            *sel = n;
            return true;
        }
    return false;
}

static bool starts(const char **s, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*s, prefix, n))
        return false;
    *s += n;
    return true;
}

static bool parse_modifier(struct emu_inst *i, const char *t)
{
    static const struct {
        const char *name;
        uint8_t dpp;
    } dpps[] = { { "row_shl:", EMU_DPP_ROW_SHL },
                 { "row_shr:", EMU_DPP_ROW_SHR },
                 { "row_ror:", EMU_DPP_ROW_ROR },
                 { "wave_shl:", EMU_DPP_WAVE_SHL },
                 { "wave_rol:", EMU_DPP_WAVE_ROL },
                 { "wave_shr:", EMU_DPP_WAVE_SHR },
                 { "wave_ror:", EMU_DPP_WAVE_ROR },
                 { "row_newbcast:", EMU_DPP_ROW_NEWBCAST },
                 { "row_share:", EMU_DPP_ROW_SHARE },
                 { "row_xmask:", EMU_DPP_ROW_XMASK },
                 { "row_half_mirror", EMU_DPP_ROW_HALF_MIRROR },
                 { "row_mirror", EMU_DPP_ROW_MIRROR } };
    struct emu_mods *m = &i->m;
    const char *s = t;
    if (starts(&s, "offset:"))
        return sscanf(s, "%i", &m->offset) == 1;
    if (starts(&s, "offset0:"))
        return sscanf(s, "%i", &m->offset) == 1;
    if (starts(&s, "offset1:"))
        return sscanf(s, "%i", &m->offset1) == 1;
    if (starts(&s, "op_sel:"))
        return (m->op_sel = bits_of(s), true);
    if (starts(&s, "op_sel_hi:"))
        return (m->op_sel_hi = bits_of(s), true);
    if (starts(&s, "neg_lo:"))
        return (m->neg_lo = bits_of(s), true);
    if (starts(&s, "neg_hi:"))
        return (m->neg_hi = bits_of(s), true);
    if (starts(&s, "dst_sel:")) {
        m->sdwa = true;
        return parse_selection(s, &m->sel_dst);
    }
    if (starts(&s, "src0_sel:")) {
        m->sdwa = true;
        return parse_selection(s, &m->sel[0]);
    }
    if (starts(&s, "src1_sel:"))
        return parse_selection(s, &m->sel[1]);
    if (starts(&s, "dst_unused:")) {
        m->sel_unused = !strcmp(s, "UNUSED_SEXT") ? 1 : !strcmp(s, "UNUSED_PRESERVE") ? 2 : 0;
        return true;
    }
    if (starts(&s, "quad_perm:")) {
        int q[4];
        if (sscanf(s, "[%d,%d,%d,%d]", &q[0], &q[1], &q[2], &q[3]) != 4)
            return false;
        m->dpp = EMU_DPP_QUAD_PERM;
        m->dpp_arg = (uint32_t)(q[0] | q[1] << 2 | q[2] << 4 | q[3] << 6);
        return true;
    }
    if (starts(&s, "dpp8:")) {
        int q[8];
        if (sscanf(s, "[%d,%d,%d,%d,%d,%d,%d,%d]", &q[0], &q[1], &q[2], &q[3], &q[4], &q[5], &q[6], &q[7]) != 8)
            return false;
        m->dpp = EMU_DPP_8;
        m->row_mask = m->bank_mask = 15;
        for (int n = 0; n < 8; n++)
            m->dpp_arg |= (uint32_t)q[n] << 3 * n;
        return true;
    }
    if (starts(&s, "row_bcast:")) {
        int n = atoi(s);
        m->dpp = n == 15 ? EMU_DPP_ROW_BCAST15 : EMU_DPP_ROW_BCAST31;
        return n == 15 || n == 31;
    }
    for (size_t n = 0; n < sizeof(dpps) / sizeof(dpps[0]); n++)
        if (starts(&s, dpps[n].name)) {
            m->dpp = dpps[n].dpp;
            m->dpp_arg = (uint32_t)atoi(s);
            return true;
        }
    int v;
    if (sscanf(t, "row_mask:%i", &v) == 1)
        return (m->row_mask = (uint8_t)v, true);
    if (sscanf(t, "bank_mask:%i", &v) == 1)
        return (m->bank_mask = (uint8_t)v, true);
    if (sscanf(t, "bound_ctrl:%i", &v) == 1)
        return (m->bound_ctrl = true);
    if (sscanf(t, "fi:%i", &v) == 1)
        return (m->fi = v, true);
    if (sscanf(t, "cbsz:%i", &v) == 1)
        return (m->cbsz = (uint8_t)v, true);
    if (sscanf(t, "abid:%i", &v) == 1)
        return (m->abid = (uint8_t)v, true);
    if (sscanf(t, "blgp:%i", &v) == 1)
        return (m->blgp = (uint8_t)v, true);
    if (sscanf(t, "mul:%i", &v) == 1)
        return (m->omod = v == 2 ? 1 : 2, true);
    if (sscanf(t, "div:%i", &v) == 1)
        return (m->omod = 3, true);
    static const struct {
        const char *name;
        size_t at;
    } flags[] = { { "clamp", offsetof(struct emu_mods, clamp) }, { "glc", offsetof(struct emu_mods, ret) },
                  { "sc0", offsetof(struct emu_mods, ret) },     { "sc1", offsetof(struct emu_mods, sc1) },
                  { "nt", offsetof(struct emu_mods, nt) },       { "slc", offsetof(struct emu_mods, nt) },
                  { "dlc", offsetof(struct emu_mods, sc1) },     { "offen", offsetof(struct emu_mods, offen) },
                  { "idxen", offsetof(struct emu_mods, idxen) }, { "lds", offsetof(struct emu_mods, lds) } };
    for (size_t n = 0; n < sizeof(flags) / sizeof(flags[0]); n++)
        if (!strcmp(t, flags[n].name)) {
            *((bool *)m + flags[n].at) = true;
            return true;
        }
    return false;
}

/* ---- one instruction ----------------------------------------------------------------------------------------------
 */

/* The operands that the table expects against those of the text. */
static bool match_signature(struct emu_inst *i, char *error, size_t size)
{
    const char *s = i->op->sig, *other = strchr(s, '/');
    int at = 0;
    if (other) { /* "fewer operands/more operands" */
        int fewer = 1;
        for (const char *c = s; c < other; c++)
            fewer += *c == ' ';
        if (i->n > fewer)
            s = other + 1;
    }
    for (; *s && *s != '/'; at++) {
        char role = *s++;
        int words = (int)strtol(s, (char **)&s, 10);
        bool optional = *s == '?';
        s += optional;
        s += *s == ' ';
        if (at >= i->n) {
            if (!optional) {
                snprintf(error, size, "has %d operands, the table of instructions says more: %s", i->n, i->op->sig);
                return false;
            }
            i->reg[at] = EMU_NONE;
            i->words[at] = 0;
        } else if (words && i->reg[at] != EMU_CONST && i->words[at] != words && i->reg[at] < EMU_SCC - 4 &&
                   i->reg[at] != EMU_NULL) {
            snprintf(error, size, "operand %d has %d words, the table of instructions says %d", at, i->words[at],
                     words);
            return false;
        } else if (words && i->reg[at] >= EMU_VGPR && i->reg[at] != EMU_NONE && i->words[at] != words) {
            snprintf(error, size, "operand %d has %d words, the table of instructions says %d", at, i->words[at],
                     words);
            return false;
        }
        i->role[at] = role;
        if (i->reg[at] == EMU_CONST && words)
            i->words[at] = (uint8_t)words;
    }
    const char *name = i->op->name;
    i->on_scc = i->op->cls == EMU_BRANCH && strstr(name, "_scc");
    i->on_vcc = i->op->cls == EMU_BRANCH && strstr(name, "_vcc");
    i->sets_scc = !strncmp(name, "s_cmp", 5) || !strncmp(name, "s_bitcmp", 8);
    i->packed32 = !strncmp(name, "v_pk_", 5) && i->words[0] == 2;
    i->pk_mov = !strcmp(name, "v_pk_mov_b32");
    i->wordwise = !strcmp(name, "v_mov_b64");
    i->low_first = !strncmp(name, "v_mad_u64", 9) || !strncmp(name, "v_mad_i64", 9) ||
                   !strcmp(name, "v_lshl_add_u64") || !strcmp(name, "v_lshlrev_b64");
    i->select = !strcmp(name, "v_cndmask_b32") || !strncmp(name, "s_cselect", 9);
    i->cross = i->m.dpp || i->op->cls == EMU_MMA || i->op->cls == EMU_LDS_OP || !strncmp(name, "v_read", 6) ||
               !strncmp(name, "v_perml", 7);
    if (at < i->n) {
        snprintf(error, size, "has %d operands, the table of instructions says %d", i->n, at);
        return false;
    }
    return true;
}

static bool parse_waits(struct emu_inst *i, const char *s)
{
    int v, used;
    for (; *s; s += used) {
        while (*s == ' ' || *s == '&')
            s++;
        used = 0;
        if (sscanf(s, "vmcnt(%d)%n", &v, &used) == 1 && used)
            i->wait_vm = (uint8_t)(v + 1);
        else if (sscanf(s, "lgkmcnt(%d)%n", &v, &used) == 1 && used)
            i->wait_lgkm = (uint8_t)(v + 1);
        else if (sscanf(s, "expcnt(%d)%n", &v, &used) == 1 && used)
            ;
        else if (sscanf(s, "%i%n", &v, &used) == 1 && used) /* everything, or a mask that waits for all we track */
            i->wait_vm = i->wait_lgkm = 1;
        else
            return !*s;
    }
    return true;
}

/* "mnemonic operands modifiers", without LLVM's leading tab. */
static bool parse_text(struct emu_inst *i, const struct emu_arch *arch, const char *text, char *error, size_t size)
{
    char name[64], token[96];
    size_t len = strcspn(text, " \t");
    snprintf(name, sizeof(name), "%.*s", (int)len, text);
    const char *s = text + len;
    while (*s == ' ' || *s == '\t')
        s++;
    static const char *const suffixes[] = { "_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa" };
    i->op = emu_op_find(name);
    for (size_t n = 0; !i->op && n < sizeof(suffixes) / sizeof(suffixes[0]); n++) {
        size_t l = strlen(name), k = strlen(suffixes[n]);
        if (l > k && !strcmp(name + l - k, suffixes[n])) {
            name[l - k] = 0;
            i->op = emu_op_find(name);
        }
    }
    if (!i->op) {
        snprintf(error, size, "is not implemented");
        return false;
    }
    i->fn = i->op->fn;
    i->m.op_sel_hi = 0xff;
    i->m.row_mask = i->m.bank_mask = 15;
    i->m.sel[0] = i->m.sel[1] = i->m.sel_dst = 6;
    i->target = -1;
    if (!strcmp(name, "v_fma_mix_f32") || !strncmp(name, "v_fma_mix", 9) || !strncmp(name, "v_mad_mix", 9))
        i->m.op_sel_hi = 0; /* there it says which sources are halves */
    if (!strncmp(name, "s_waitcnt", 9)) {
        if (!strcmp(name, "s_waitcnt_vscnt")) {
            i->wait_vs = (uint8_t)(strtol(strchr(s, ' ') ? strchr(s, ' ') : s, NULL, 0) + 1);
            return true;
        }
        if (!strcmp(name, "s_waitcnt_depctr"))
            return true;
        return parse_waits(i, s);
    }
    if (!*i->op->sig)
        return true; /* hints: what follows has no effect here */
    bool operands = *s != 0;
    for (int depth; *s;) {
        len = 0;
        depth = 0;
        for (; s[len]; len++) {
            depth += (s[len] == '[' || s[len] == '(') - (s[len] == ']' || s[len] == ')');
            if (!depth && (s[len] == ',' || s[len] == ' '))
                break;
        }
        snprintf(token, sizeof(token), "%.*s", (int)len, s);
        s += len;
        bool more = *s == ',';
        while (*s == ',' || *s == ' ')
            s++;
        if (operands) {
            if (i->n == 0 && parse_modifier(i, token)) {
                operands = false;
                continue;
            }
            if (i->n >= EMU_OPERANDS || !parse_operand(i, i->n, token)) {
                snprintf(error, size, "has an operand that is not understood: %s", token);
                return false;
            }
            i->n++;
            operands = more;
        } else if (!parse_modifier(i, token)) {
            snprintf(error, size, "has a modifier that is not understood: %s", token);
            return false;
        }
    }
    if (i->m.ret && arch->gfx >= 0x940 && arch->gfx < 0x1000)
        i->m.sc0 = true;
    if (i->fn == NULL) {
        snprintf(error, size, "is not implemented");
        return false;
    }
    return match_signature(i, error, size);
}

/* ---- a text section -----------------------------------------------------------------------------------------------
 */

static struct emu_inst *grow(struct emu_program *p, int *room)
{
    if (p->n + 2 > *room) {
        *room = *room * 2 + 256;
        struct emu_inst *more = realloc(p->inst, (size_t)*room * sizeof(*more));
        if (!more)
            abort();
        p->inst = more;
    }
    memset(&p->inst[p->n], 0, 2 * sizeof(*p->inst));
    return &p->inst[p->n];
}

static bool fail_at(struct emu_program *p, const uint8_t *bytes, size_t n, uint32_t address, const char *text,
                    const char *what, char *error, size_t size)
{
    char hex[40] = "";
    for (size_t k = 0; k < n && k < 12; k++)
        snprintf(hex + 2 * k, sizeof(hex) - 2 * k, "%02x", bytes[k]);
    snprintf(error, size, "%s: at 0x%x (bytes %s): '%s' %s", p->arch->name, address, hex, text, what);
    return false;
}

/* "v_dual_a x, y :: v_dual_b z, w" becomes two instructions; the first is told to do both. */
static bool parse_dual(struct emu_program *p, int *room, char *text, char *second, char *error, size_t size)
{
    char name[128];
    struct emu_inst *a = grow(p, room);
    uint32_t address = a->address;
    snprintf(name, sizeof(name), "v_%s", text + strlen("v_dual_"));
    if (!parse_text(a, p->arch, name, error, size))
        return false;
    snprintf(name, sizeof(name), "v_%s", second + strlen("v_dual_"));
    struct emu_inst *b = a + 1;
    b->address = address;
    return parse_text(b, p->arch, name, error, size);
}

bool emu_decode(struct emu_program *p, const struct emu_arch *arch, int wave_size, const void *text, size_t size,
                uint64_t base, void (*unknown)(void *ctx, const char *text), void *ctx, char *error, size_t error_size)
{
    *p = (struct emu_program){ .arch = arch, .wave_size = wave_size, .base = base, .size = size };
    if (!emu_llvm_ready(error, error_size))
        return false;
    void *dis = open_disasm(arch, wave_size);
    if (!dis) {
        snprintf(error, error_size, "LLVM doesn't know %s", arch->name);
        return false;
    }
    int room = 0;
    bool ok = true;
    const uint8_t *bytes = text;
    p->at = malloc((size / 4 + 2) * sizeof(*p->at));
    if (!p->at)
        abort();
    for (size_t k = 0; k < size / 4 + 2; k++)
        p->at[k] = -1;
    for (size_t pc = 0; ok && pc + 4 <= size;) {
        char buf[256], what[160] = "";
        size_t used = disassemble(dis, arch, bytes + pc, size - pc, pc, buf, sizeof(buf));
        char *t = buf;
        while (*t == ' ' || *t == '\t')
            t++;
        char *comment = strstr(t, "//");
        if (comment)
            *comment = 0;
        for (size_t l = strlen(t); l && (t[l - 1] == ' ' || t[l - 1] == '\t'); l--)
            t[l - 1] = 0;
        struct emu_inst *i = grow(p, &room);
        i->address = (uint32_t)pc;
        i->size = (uint8_t)(used ? used : 4);
        /* Padding behind a kernel: zero words, s_code_end, s_nop. Whoever runs into it is told. */
        uint32_t word;
        memcpy(&word, bytes + pc, 4);
        if (!used || word == 0 || !strncmp(t, "s_code_end", 10)) {
            if (used || word == 0 || pc + 4 >= size) {
                pc += used ? used : 4;
                continue;
            }
            if (unknown)
                unknown(ctx, "(not an instruction)");
            else
                ok = fail_at(p, bytes + pc, size - pc, (uint32_t)pc, "?", "is no instruction", error, error_size);
            pc += 4;
            continue;
        }
        p->at[pc / 4] = p->n;
        char *dual = strstr(t, " :: ");
        bool good;
        if (dual) {
            *dual = 0;
            good = parse_dual(p, &room, t, dual + 4, what, sizeof(what));
            i = &p->inst[p->n];
            if (good) {
                i->size = (uint8_t)used;
                i[1].size = (uint8_t)used;
                emu_make_dual(i);
                p->n++;
            }
            *dual = ' ';
        } else
            good = parse_text(i, arch, t, what, sizeof(what));
        if (!good) {
            if (unknown)
                unknown(ctx, t);
            else
                ok = fail_at(p, bytes + pc, used, (uint32_t)pc, t, what, error, error_size);
        } else if (i->op->cls == EMU_BRANCH && i->n == 1 && i->reg[0] == EMU_CONST)
            i->target = (int32_t)(pc + 4) + (int32_t)(int16_t)i->k[0] * 4; /* becomes an index below */
        p->n++;
        pc += used;
    }
    llvm.dispose(dis);
    if (ok) {
        struct emu_inst *end = grow(p, &room);
        end->address = (uint32_t)size;
        emu_make_sentinel(end);
        for (int k = 0; k < p->n; k++)
            if (p->inst[k].op && p->inst[k].op->cls == EMU_BRANCH && p->inst[k].target >= 0) {
                uint32_t to = (uint32_t)p->inst[k].target;
                p->inst[k].target = to < size ? p->at[to / 4] : -1;
                if (p->inst[k].target < 0)
                    p->inst[k].target = p->n; /* the sentinel */
            }
    } else
        emu_program_free(p);
    return ok;
}

void emu_program_free(struct emu_program *p)
{
    free(p->inst);
    free(p->at);
    p->inst = NULL;
    p->at = NULL;
    p->n = 0;
}

void emu_text_of(const struct emu_program *p, const struct emu_inst *i, char *buf, size_t size)
{
    void *dis = emu_llvm_ready(NULL, 0) ? open_disasm(p->arch, p->wave_size) : NULL;
    char text[256] = "?";
    if (dis && i->address + 4 <= p->size) {
        (void)disassemble(dis, p->arch, (const uint8_t *)(uintptr_t)p->base + i->address, p->size - i->address,
                          i->address, text, sizeof(text));
        llvm.dispose(dis);
    }
    char *t = text;
    while (*t == ' ' || *t == '\t')
        t++;
    snprintf(buf, size, "%s", t);
}
