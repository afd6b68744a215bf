/* SPDX-License-Identifier: MIT
 *
 * Waits: each kind of load, each counter at each depth, one too few and just enough. LDS between waves, and
 * barriers. */
#include "emu_rules.h"

/* v1: 4 * the work-item; v2: 0; v[4:5]: data; s[12:15]: a buffer over data; s9: the wave. */
#define BEGIN                                                                                                          \
    "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_mov_b32 v4, s2\nv_mov_b32 v5, s3\ns_mov_b32 s12, s2\n"                \
    "s_and_b32 s13, s3, 0xffff\ns_mov_b32 s14, 0x10000\n.if GFX < 0x1000\ns_mov_b32 s15, 0x27000\n.else\n"             \
    "s_mov_b32 s15, 0x31016000\n.endif\nv_readfirstlane_b32 s9, v0\ns_lshr_b32 s9, s9, WSHIFT\n"
/* For one wave, or one workgroup, alone. */
#define WAVE0(x)  "s_cmp_lg_u32 s9, 0\ns_cbranch_scc1 1f\n" x "\n1:\n"
#define WAVE1(x)  "s_cmp_lg_u32 s9, 1\ns_cbranch_scc1 1f\n" x "\n1:\n"
#define WAVE2(x)  "s_cmp_lg_u32 s9, 2\ns_cbranch_scc1 1f\n" x "\n1:\n"
#define GROUP0(x) "s_cmp_lg_u32 s8, 0\ns_cbranch_scc1 2f\n" x "\n2:\n"
#define GROUP1(x) "s_cmp_lg_u32 s8, 1\ns_cbranch_scc1 2f\n" x "\n2:\n"
#define LGKM      "\ns_waitcnt lgkmcnt(0)\n"
#define VM        "\ns_waitcnt vmcnt(0)\n"
#define BARRIER   "\ns_barrier\n"

/* ---- loads and their counters ------------------------------------------------------------------------------------ */

enum counter { VMCNT, LGKMCNT, BOTH, NO_ORDER };

/* Loads one after another: %d: the register, the offset. */
static const struct kind {
    int archs;
    const char *name;
    enum counter counter;
    const char *what, *load, *read, *write; /* read, write: %d: the register */
    bool every_depth;
} kinds[] = {
#define READ_V  "v_mov_b32 v100, v%d"
#define WRITE_V "v_mov_b32 v%d, 0"
    { PALL, "global load", VMCNT, "vector load", "global_load_dword v%d, v1, s[2:3] offset:%d", READ_V, WRITE_V, true },
    { PALL, "buffer load", VMCNT, "vector load", "buffer_load_dword v%d, off, s[12:15], 0 offset:%d", READ_V, WRITE_V,
      false },
    { P94 | P11, "scratch load", VMCNT, "vector load", "scratch_load_dword v%d, off, off offset:%d", READ_V, WRITE_V,
      false },
    { P90A | P11, "global atomic", VMCNT, "vector load", "global_atomic_add v%d, v1, v2, s[2:3] offset:%d glc", READ_V,
      WRITE_V, false },
    { P94, "global atomic", VMCNT, "vector load", "global_atomic_add v%d, v1, v2, s[2:3] offset:%d sc0", READ_V,
      WRITE_V, false },
    { P90A, "buffer atomic", VMCNT, "vector load",
      "v_mov_b32 v%1$d, 0\nbuffer_atomic_add v%1$d, off, s[12:15], 0 offset:%2$d glc", READ_V, WRITE_V, false },
    { P9, "load to an AGPR", VMCNT, "vector load", "global_load_dword a%d, v1, s[2:3] offset:%d",
      "v_accvgpr_read_b32 v100, a%d", "v_accvgpr_write_b32 a%d, v2", false },
    { PALL, "LDS load", LGKMCNT, "load from LDS", "ds_read_b32 v%d, v2 offset:%d", READ_V, WRITE_V, true },
    { PALL, "LDS atomic", LGKMCNT, "load from LDS", "ds_add_rtn_u32 v%d, v2, v2 offset:%d", READ_V, WRITE_V, false },
    { PALL, "ds_bpermute", LGKMCNT, "load from LDS", "ds_bpermute_b32 v%d, v2, v2 offset:%d", READ_V, WRITE_V, false },
    { PALL, "ds_swizzle", LGKMCNT, "load from LDS", "ds_swizzle_b32 v%d, v2 offset:%d", READ_V, WRITE_V, false },
    { PALL, "FLAT load", BOTH, "FLAT load", "flat_load_dword v%d, v[4:5] offset:%d", READ_V, WRITE_V, false },
    { PALL, "scalar load", NO_ORDER, "scalar load", "s_load_dword s%d, s[2:3], %d", "s_mov_b32 s90, s%d",
      "s_mov_b32 s%d, 0", false },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static const char *loads(const struct kind *k, int n)
{
    const char *all = "";
    for (int d = 0; d < n; d++) {
        char one[200];
        snprintf(one, sizeof(one), k->load, 20 + d, 4 * (d % 8));
        all = text("%s%s\n", all, one);
    }
    return all;
}

static const char *with(const char *fmt, int reg)
{
    char t[100];
    snprintf(t, sizeof(t), fmt, reg);
    return text("%s", t);
}

static const char *waitcnt(enum counter c, int n)
{
    return c == VMCNT  ? text("s_waitcnt vmcnt(%d)\n", n)
           : c == BOTH ? text("s_waitcnt vmcnt(%d) lgkmcnt(%d)\n", n, n)
                       : text("s_waitcnt lgkmcnt(%d)\n", n);
}

static void add_wait(struct pairs *p, const struct kind *k, const char *rule, bool write, const char *bad,
                     const char *good)
{
    const char *counter = k->counter == VMCNT ? "vmcnt" : k->counter == BOTH ? "vmcnt and lgkmcnt" : "lgkmcnt";
    const char *what =
        text("%s %s20 while a %s into it is under way: no s_waitcnt %s waited for it", write ? "writes" : "reads",
             k->counter == NO_ORDER  ? "s"
             : strchr(k->write, 'a') ? strstr(k->write, " a") ? "a" : "v"
                                     : "v",
             k->what, counter);
    pair_add(p, &(struct pair){ .archs = k->archs,
                                .rule = text("%s: %s", k->name, rule),
                                .check = "missing-wait",
                                .says = strstr(bad, "v21") || strstr(bad, "a21") ? NULL : what,
                                .groups = "waits",
                                .bad = text(BEGIN "%s", bad),
                                .good = good ? text(BEGIN "%s", good) : NULL });
}

static void depths(struct pairs *p, const struct kind *k)
{
    bool gfx11 = p->arch == 2 || p->arch == 3;
    int limit = k->counter == VMCNT || gfx11 ? 63 : 15; /* which means: don't wait */
    const char *read = with(k->read, 20), *write = with(k->write, 20);
    for (int d = 0; d < (k->every_depth ? limit : 3); d++) {
        const char *first = loads(k, d + 1), *enough = waitcnt(k->counter, d);
        const char *less = d + 1 < limit ? waitcnt(k->counter, d + 1) : "";
        bool ordered = k->counter != NO_ORDER && (k->counter != BOTH || gfx11);
        const char *all = waitcnt(k->counter, 0);
        for (int w = 0; w <= 1; w++) {
            const char *then = w ? write : read;
            add_wait(p, k, text("depth %d", d), w, text("%s%s%s", first, less, then),
                     text("%s%s%s", first, ordered ? enough : all, then));
            if (d && !ordered) /* returns in any order: only none left is enough */
                add_wait(p, k, "no order", w, text("%s%s%s", first, enough, then), NULL);
        }
        if (d && ordered) { /* the next one isn't there yet */
            const char *next = with(k->read, 21);
            add_wait(p, k, text("depth %d", d), false, text("%s%s%s", first, enough, next),
                     text("%s%s%s", first, waitcnt(k->counter, d - 1), next));
        }
    }
}

/* The other counter doesn't help; both at once do. */
static void counters(struct pairs *p, const struct kind *k)
{
    const char *one = loads(k, 1), *read = with(k->read, 20);
    const char *good = text("%ss_waitcnt vmcnt(0) lgkmcnt(0)\n%s", one, read);
    if (k->counter != VMCNT)
        add_wait(p, k, "vmcnt alone", false, text("%ss_waitcnt vmcnt(0)\n%s", one, read), good);
    if (k->counter == VMCNT || k->counter == BOTH)
        add_wait(p, k, "lgkmcnt alone", false, text("%ss_waitcnt lgkmcnt(0)\n%s", one, read), good);
    add_wait(p, k, "expcnt alone", false, text("%ss_waitcnt expcnt(0)\n%s", one, read), good);
    if (p->arch == 2 || p->arch == 3) {
        add_wait(p, k, "vscnt alone", false, text("%ss_waitcnt_vscnt null, 0x0\n%s", one, read), good);
        if (k->counter == VMCNT)
            add_wait(p, k, "s_waitcnt_vmcnt", false, text("%ss_waitcnt_vmcnt null, 0x1\n%s", one, read),
                     text("%ss_waitcnt_vmcnt null, 0x0\n%s", one, read));
        if (k->counter == LGKMCNT || k->counter == NO_ORDER)
            add_wait(p, k, "s_waitcnt_lgkmcnt", false, text("%ss_waitcnt_lgkmcnt null, 0x1\n%s", one, read),
                     text("%ss_waitcnt_lgkmcnt null, 0x0\n%s", one, read));
    }
}

/* Before the difference, bad, good, after it. */
static const struct wait {
    int archs;
    const char *rule, *before, *bad, *good, *after;
} waits[] = {
#define GLOBAL(r) "global_load_dword v" #r ", v1, s[2:3]\n"
#define LDS(r)    "ds_read_b32 v" #r ", v2\n"
#define SCALAR(r) "s_load_dword s" #r ", s[2:3], 0\n"
#define FLAT(r)   "flat_load_dword v" #r ", v[4:5]\n"
    { PALL, "read as a store's data", GLOBAL(20), "", VM, "global_store_dword v1, v20, s[2:3]" },
    { PALL, "read as an address", "ds_write_b32 v2, v2" LGKM LDS(20) VM, "", LGKM,
      "global_load_dword v21, v20, s[2:3]" },
    { PALL, "read as LDS data", GLOBAL(20), "", VM, "ds_write_b32 v1, v20" },
    { PALL, "read as a scalar address", "s_load_dwordx2 s[20:21], s[0:1], 0\n", "", LGKM,
      "s_load_dword s22, s[20:21], 0" },
    { PALL, "read by a VALU instruction as SGPR", SCALAR(20), "", LGKM, "v_mov_b32 v22, s20" },
    { PALL, "the last register of a load", "global_load_dwordx4 v[20:23], v1, s[2:3]\n", "v_mov_b32 v30, v23",
      "v_mov_b32 v30, v24", "" },
    { PALL, "the last register of a load", "s_load_dwordx4 s[20:23], s[0:1], 0\n", "s_mov_b32 s30, s23",
      "s_mov_b32 s30, s24", "" },
    { PALL, "the last register of a load", "ds_read2_b64 v[20:23], v2 offset1:1\n", "v_mov_b32 v30, v23",
      "v_mov_b32 v30, v24", "" },
    { PALL, "an operand's last register", GLOBAL(21), "", VM, "v_lshlrev_b64 v[30:31], 1, v[20:21]" },
    { P9, "an MFMA's operand", GLOBAL(23), "", VM, "v_mfma_f32_4x4x4f16 v[30:33], v[24:25], v[26:27], v[20:23]" },
    /* Loads of one sort return in order: one may follow another into its register. */
    { PALL, "a load of another sort into it", GLOBAL(20), LDS(20), GLOBAL(20), "" },
    { PALL, "a load of another sort into it", LDS(20), GLOBAL(20), LDS(20), "" },
    { PALL, "a scalar load into it", SCALAR(20), "", LGKM, SCALAR(20) },
    { PALL, "a FLAT load into it", FLAT(20), "", VM LGKM, FLAT(20) },
    /* What isn't LDS's of a FLAT one returns in order with other loads from memory. */
    { PALL, "a load from memory into a FLAT one's", FLAT(20), "", LGKM, GLOBAL(20) },
    { PALL, "an LDS load into a FLAT one's", FLAT(20), VM, VM LGKM, LDS(20) },
    /* The latest one counts. */
    { PALL, "followed", GLOBAL(20) GLOBAL(20), "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)", "\nv_mov_b32 v30, v20" },
    /* What returns in any order keeps lgkmcnt from counting. */
    { PALL, "an LDS load behind a scalar one", SCALAR(20) LDS(20) LDS(21), "s_waitcnt lgkmcnt(1)",
      "s_waitcnt lgkmcnt(0)", "\nv_mov_b32 v30, v20" },
    { PALL, "an LDS load before a scalar one", LDS(20) SCALAR(20), "s_waitcnt lgkmcnt(1)", "s_waitcnt lgkmcnt(0)",
      "\nv_mov_b32 v30, v20" },
    { PALL, "LDS loads after a scalar one was waited for", SCALAR(20), "", LGKM,
      LDS(20) LDS(21) "s_waitcnt lgkmcnt(1)\nv_mov_b32 v30, v20" },
    { P9, "an LDS load behind a FLAT one", FLAT(21) LDS(20) LDS(22), "s_waitcnt lgkmcnt(1)", "s_waitcnt lgkmcnt(0)",
      "\nv_mov_b32 v30, v20" },
    /* Stores count with loads on gfx9, apart on gfx11. */
    { P9, "a store after the load", GLOBAL(20) "global_store_dword v1, v2, s[2:3]", "", "\ns_waitcnt vmcnt(1)",
      "\nv_mov_b32 v30, v20" },
    { P11, "a store after the load", GLOBAL(20) "global_store_dword v1, v2, s[2:3]\n", "s_waitcnt vmcnt(1)",
      "s_waitcnt vmcnt(0)", "\nv_mov_b32 v30, v20" },
    { PALL, "an LDS store after the load", LDS(20) "ds_write_b32 v1, v2\n", "s_waitcnt lgkmcnt(2)",
      "s_waitcnt lgkmcnt(1)", "\nv_mov_b32 v30, v20" },
    { P9, "an atomic without result after the load", GLOBAL(20) "global_atomic_add v1, v2, s[2:3]\n",
      "s_waitcnt vmcnt(2)", "s_waitcnt vmcnt(1)", "\nv_mov_b32 v30, v20" },
    { P11, "an atomic without result after the load", GLOBAL(20) "global_atomic_add v1, v2, s[2:3]\n",
      "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)", "\nv_mov_b32 v30, v20" },
    { PALL, "a FLAT store after the load", LDS(20) "flat_store_dword v[4:5], v2\n", "s_waitcnt lgkmcnt(2)", LGKM,
      "\nv_mov_b32 v30, v20" },
    /* Waiting for more than there is. */
    { PALL, "fewer loads than the count", GLOBAL(20) VM GLOBAL(21), "s_waitcnt vmcnt(7)\nv_mov_b32 v30, v21",
      "s_waitcnt vmcnt(7)\nv_mov_b32 v30, v20", "" },
    /* A lesser wait afterwards takes nothing back. */
    { PALL, "a second wait", GLOBAL(20) GLOBAL(21), "s_waitcnt vmcnt(1)\n", VM "s_waitcnt vmcnt(1)\n",
      "v_mov_b32 v30, v21" },
    { PALL, "in one lane's branch",
      "s_mov_b64 s[40:41], exec\n.if WAVE == 64\ns_mov_b64 exec, 1\n.else\ns_mov_b32 exec_lo, 1\n.endif\n" GLOBAL(20),
      "", VM, "v_mov_b32 v30, v20" },
};

void pairs_waits(struct pairs *p)
{
    for (int k = 0; k < N_KINDS; k++)
        if (kinds[k].archs >> p->arch & 1) {
            depths(p, &kinds[k]);
            counters(p, &kinds[k]);
        }
    for (size_t k = 0; k < sizeof(waits) / sizeof(waits[0]); k++) {
        const struct wait *w = &waits[k];
        pair_add(p, &(struct pair){ .archs = w->archs,
                                    .rule = w->rule,
                                    .check = "missing-wait",
                                    .groups = "waits",
                                    .bad = text(BEGIN "%s%s\n%s", w->before, w->bad, w->after),
                                    .good = text(BEGIN "%s%s\n%s", w->before, w->good, w->after) });
    }
}

/* ---- LDS and barriers -------------------------------------------------------------------------------------------- */

#define NO_BARRIER "with no barrier between"
#define NOT_WAITED "and reached the barrier without waiting for it"
#define RAISE(at)  "v_mov_b32 v21, 1\nds_write_b32 v2, v21 offset:" at "\n"
#define LOOK(at)   "ds_read_b32 v20, v2 offset:" at LGKM "v_readfirstlane_b32 s30, v20\ns_cmp_eq_u32 s30, 0\n"
#define AWAIT(at)  "3:\n" LOOK(at) "s_cbranch_scc1 3b\n"
#define LOWERED    WAVE0("ds_write_b32 v2, v2 offset:64\nds_write_b32 v2, v2 offset:68" LGKM) BARRIER
#define DMA        "s_mov_b32 m0, 0\nbuffer_load_dword v1, s[12:15], 0 offen lds\n"

static const struct lds {
    int archs, waves, workgroups;
    const char *check, *says, *before, *bad, *good, *after;
} lds[] = {
    /* written, then read */
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16, which wave 0 wrote " NO_BARRIER ": 'ds_",
      WAVE0("ds_write_b32 v2, v2 offset:16" LGKM), "", BARRIER, WAVE1("ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16, which wave 0 wrote " NOT_WAITED ": 'ds_",
      WAVE0("ds_write_b32 v2, v2 offset:16"), "", LGKM, BARRIER WAVE1("ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", NOT_WAITED, WAVE0("ds_write_b32 v2, v2\nds_write_b32 v2, v2 offset:16"),
      "s_waitcnt lgkmcnt(2)", "s_waitcnt lgkmcnt(1)", BARRIER WAVE1("ds_read_b32 v20, v2" LGKM) },
    { PALL, 2, 1, "lds-race", NOT_WAITED,
      WAVE0("ds_write_b32 v2, v2\nds_write_b32 v2, v2 offset:16\ns_waitcnt lgkmcnt(1)"),
      BARRIER WAVE1("ds_read_b32 v20, v2 offset:16" LGKM), BARRIER WAVE1("ds_read_b32 v20, v2" LGKM), "" },
    { PALL, 2, 1, "lds-race", NOT_WAITED, WAVE0("ds_write_b32 v2, v2"), VM, LGKM,
      BARRIER WAVE1("ds_read_b32 v20, v2" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS", WAVE0("ds_write_b128 v2, v[20:23] offset:16" LGKM),
      WAVE1("ds_read_b32 v20, v2 offset:28" LGKM), BARRIER WAVE1("ds_read_b32 v20, v2 offset:28" LGKM), "" },
    { PALL, 2, 1, "lds-race", "reads LDS at offset 28", WAVE0("ds_write_b32 v2, v2 offset:28" LGKM),
      WAVE1("ds_read_b128 v[20:23], v2 offset:16" LGKM), WAVE1("ds_read_b128 v[20:23], v2 offset:32" LGKM), "" },
    /* by bytes */
    { PALL, 2, 1, "lds-race", "reads LDS", WAVE0("ds_write_b8 v2, v2 offset:5" LGKM),
      WAVE1("ds_read_u8 v20, v2 offset:5" LGKM), WAVE1("ds_read_u8 v20, v2 offset:6" LGKM), "" },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_write_b8 v2, v1 offset:7" LGKM),
      WAVE1("ds_write_b16 v2, v0 offset:6" LGKM), WAVE1("ds_write_b16 v2, v0 offset:4" LGKM), "" },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_read_u8 v20, v2 offset:4" LGKM),
      WAVE1("ds_write_b8 v2, v0 offset:4" LGKM), WAVE1("ds_write_b8 v2, v0 offset:5" LGKM), "" },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_write_b8 v2, v2 offset:4\nds_write_b8 v2, v2 offset:5" LGKM),
      WAVE1("ds_write_b8 v2, v0 offset:4" LGKM), WAVE1("ds_write_b8 v2, v0 offset:6" LGKM), "" },
    /* written twice */
    { PALL, 2, 1, "lds-race", "writes LDS at offset 0, which wave 0 wrote " NO_BARRIER ": 'ds_",
      WAVE0("ds_write_b32 v2, v2" LGKM), "", BARRIER, WAVE1("ds_write_b32 v2, v0" LGKM) },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_write2_b32 v2, v2, v2 offset1:8" LGKM),
      WAVE1("ds_write_b32 v2, v0 offset:32" LGKM), WAVE1("ds_write_b32 v2, v0 offset:36" LGKM), "" },
    /* read, then written */
    { PALL, 2, 1, "lds-race", "writes LDS at offset 0, which wave 0 read " NO_BARRIER ": 'ds_",
      WAVE0("ds_read_b32 v20, v2" LGKM), "", BARRIER, WAVE1("ds_write_b32 v2, v0" LGKM) },
    { PALL, 3, 1, "lds-race", "which wave 0 read", WAVE0("ds_read_b32 v20, v2" LGKM), WAVE1("ds_read_b32 v20, v2" LGKM),
      WAVE1("ds_read_b32 v20, v2 offset:16" LGKM) BARRIER, WAVE2("ds_write_b32 v2, v0" LGKM) },
    /* a wave may write what it read itself, if no other read it since */
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_read_b32 v20, v2" LGKM "s_sleep 1"),
      WAVE1("ds_read_b32 v20, v2" LGKM), WAVE1("ds_read_b32 v20, v2 offset:4" LGKM),
      WAVE0("ds_write_b32 v2, v2" LGKM) },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_read_b32 v20, v2" LGKM "s_sleep 1"),
      WAVE1("ds_read_b32 v20, v2" LGKM), WAVE1("ds_read_b32 v20, v2" LGKM) BARRIER, WAVE0("ds_write_b32 v2, v2" LGKM) },
    /* what was read before a barrier is over, what was read after it isn't */
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_read_b32 v20, v2" LGKM) BARRIER,
      WAVE0("ds_read_b32 v20, v2" LGKM), WAVE0("ds_read_b32 v20, v2 offset:4" LGKM),
      WAVE1("ds_write_b32 v2, v0" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS", WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER, WAVE0("ds_write_b32 v2, v2" LGKM),
      WAVE0("ds_write_b32 v2, v2 offset:4" LGKM), WAVE1("ds_read_b32 v20, v2" LGKM) },
    /* a load from memory to LDS: waited for by vmcnt */
    { P9, 1, 1, "missing-wait", "reads LDS at offset 0 while a load from memory to it is under way", DMA, "", VM,
      "ds_read_b32 v20, v2" LGKM },
    { P9, 1, 1, "missing-wait", "no s_waitcnt vmcnt waited for it", DMA, LGKM, VM, "ds_read_b32 v20, v2" LGKM },
    { P9, 1, 1, "missing-wait", "no s_waitcnt vmcnt waited for it", DMA "global_load_dword v21, v1, s[2:3]\n",
      "s_waitcnt vmcnt(2)", "s_waitcnt vmcnt(1)", "\nds_read_b32 v20, v2" LGKM },
    { P9, 2, 1, "lds-race", NOT_WAITED, WAVE0(DMA), LGKM, VM, BARRIER WAVE1("ds_read_b32 v20, v2" LGKM) },
    { P9, 2, 1, "lds-race", "writes LDS", WAVE0(DMA VM), "", BARRIER, WAVE1("ds_write_b32 v2, v0" LGKM) },
    { P94, 1, 1, "missing-wait", "no s_waitcnt vmcnt waited for it",
      "s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[2:3]", "", VM, "\nds_read_b32 v20, v2" LGKM },
    /* who stores the same */
    { PALL, 2, 1, "lds-race", "writes LDS", "",
      "v_readfirstlane_b32 s30, v0\nv_mov_b32 v3, s30\nds_write_b32 v2, v3" LGKM,
      "ds_write_b32 v2, v2" LGKM "ds_read_b32 v20, v2" LGKM, "" },
    { PALL, 2, 1, "note: equal-stores", "stores to LDS at offset 0 what wave 0 stored there", "",
      "ds_write_b32 v2, v2" LGKM, WAVE0("ds_write_b32 v2, v2" LGKM), "" },
    { PALL, 3, 1, "lds-race", "reads LDS", WAVE0("ds_write_b32 v2, v2" LGKM) WAVE1("ds_write_b32 v2, v2" LGKM), "",
      BARRIER, WAVE2("ds_read_b32 v20, v2" LGKM) },
    /* two writers of a word */
    { PALL, 3, 1, "lds-race", "which wave 0 wrote",
      WAVE0("ds_write_b8 v2, v2" LGKM) WAVE1("ds_write_b8 v2, v2 offset:1" LGKM), WAVE2("ds_read_u8 v20, v2" LGKM),
      WAVE1("ds_read_u8 v20, v2 offset:1" LGKM), "" },
    /* atomics order themselves, and only themselves */
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER,
      WAVE0("ds_write_b32 v2, v2" LGKM), "", "ds_add_u32 v2, v0" LGKM },
    { PALL, 2, 1, "lds-race", NOT_WAITED, WAVE0("ds_write_b32 v2, v2"), "", LGKM,
      BARRIER WAVE1("ds_add_u32 v2, v0" LGKM) },
    { PALL, 2, 1, "lds-race", "which wave 0 wrote by an atomic, with no barrier between",
      WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER "ds_add_u32 v2, v0" LGKM, "", BARRIER,
      WAVE1("ds_read_b32 v20, v2" LGKM) BARRIER },
    { PALL, 2, 1, "lds-race", "by an atomic, with no barrier between",
      WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER "ds_add_u32 v2, v0" LGKM, "", BARRIER,
      WAVE1("ds_read_b32 v20, v2" LGKM) },
    { PALL, 2, 1, "lds-race", "which wave 1 writes by an atomic, with no barrier between",
      WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER WAVE0("ds_read_b32 v20, v2" LGKM "s_sleep 1"), "", BARRIER,
      WAVE1("ds_add_u32 v2, v0" LGKM) BARRIER },
    { PALL, 2, 1, "lds-race", "writes LDS at offset 0, which wave 0 read",
      WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER WAVE0("ds_read_b32 v20, v2" LGKM), "", BARRIER,
      WAVE1("ds_add_u32 v2, v0" LGKM) },
    { PALL, 2, 1, "lds-race", "writes LDS", WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER, "ds_add_u32 v2, v0" LGKM, "",
      WAVE1("ds_write_b32 v2, v0" LGKM) },
    /* ... a compare-and-swap loop's first load is plain */
    { P9, 2, 1, "lds-race", "by an atomic", WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER "ds_add_u32 v2, v0" LGKM,
      WAVE1("ds_read_b32 v20, v2" LGKM "ds_write_b32 v2, v2 offset:4" LGKM "ds_cmpst_b32 v2, v2, v0 offset:4" LGKM),
      WAVE1("ds_read_b32 v20, v2" LGKM "ds_cmpst_b32 v2, v20, v0" LGKM), "" },
    { P11, 2, 1, "lds-race", "by an atomic", WAVE0("ds_write_b32 v2, v2" LGKM) BARRIER "ds_add_u32 v2, v0" LGKM,
      WAVE1("ds_read_b32 v20, v2" LGKM), WAVE1("ds_read_b32 v20, v2" LGKM "ds_cmpstore_b32 v2, v20, v0" LGKM), "" },
    /* a flag hands over what its wave did before it, to who waits for it in a loop */
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16", LOWERED WAVE0("ds_write_b32 v2, v0 offset:16\n" RAISE("64")),
      WAVE1(LOOK("64")), WAVE1(AWAIT("64")), WAVE1("ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16",
      LOWERED WAVE0(RAISE("68") "ds_write_b32 v2, v0 offset:16\n" RAISE("64")), WAVE1(LOOK("64") AWAIT("68")),
      WAVE1(LOOK("64") "s_cbranch_scc0 4f\n" AWAIT("64") "4:\n"), WAVE1("ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "writes LDS at offset 16, which wave 0 read",
      LOWERED WAVE1("ds_write_b32 v2, v2 offset:16\n" RAISE("64")), WAVE0(LOOK("68")), WAVE0(AWAIT("64")),
      WAVE0("ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16", LOWERED,
      WAVE0(RAISE("64") "ds_write_b32 v2, v2 offset:16" LGKM), WAVE0("ds_write_b32 v2, v2 offset:16\n" RAISE("64")),
      WAVE1(AWAIT("64") "ds_read_b32 v20, v2 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "reads LDS at offset 16", LOWERED WAVE0("ds_write_b32 v2, v2 offset:16\n" RAISE("64")),
      WAVE1("ds_read_b32 v20, v2 offset:16" LGKM AWAIT("64")), WAVE1(AWAIT("64") "ds_read_b32 v20, v2 offset:16" LGKM),
      "" },
    { PALL, 3, 1, "lds-race", "reads LDS at offset 16, which wave 0 wrote",
      LOWERED WAVE0("ds_write_b32 v2, v2 offset:16\n" RAISE("68")) WAVE1(RAISE("64")), WAVE2(AWAIT("64")),
      WAVE2(AWAIT("68")), WAVE2("ds_read_b32 v20, v2 offset:16" LGKM) },
    { P9, 2, 1, "lds-race", "reads LDS at offset 0", LOWERED WAVE0(DMA VM RAISE("64")) WAVE1(AWAIT("64")), "", BARRIER,
      WAVE1("ds_read_b32 v20, v2" LGKM) },
    /* ... and back, before it is overwritten */
    { PALL, 2, 1, "lds-race", "writes LDS at offset 16, which wave 1 read",
      LOWERED WAVE0("ds_write_b32 v2, v2 offset:16\n" RAISE("64"))
          WAVE1(AWAIT("64") "ds_read_b32 v20, v2 offset:16" LGKM RAISE("68")),
      WAVE0("s_sleep 1"), WAVE0(AWAIT("68")), WAVE0("ds_write_b32 v2, v0 offset:16" LGKM) },
    { PALL, 2, 1, "lds-race", "writes LDS at offset 16, which wave 1 read",
      LOWERED WAVE0("ds_write_b32 v2, v2 offset:16\n" RAISE("64")),
      WAVE1(AWAIT("64") RAISE("68") "ds_read_b32 v20, v2 offset:16" LGKM),
      WAVE1(AWAIT("64") "ds_read_b32 v20, v2 offset:16" LGKM RAISE("68")),
      WAVE0(AWAIT("68") "ds_write_b32 v2, v0 offset:16" LGKM) },
    /* what nothing wrote, by bytes and words; a workgroup finds nothing of the one before it */
    { PALL, 1, 1, "uninitialised-lds", "v20 comes from LDS that nothing wrote, read by 'ds_", "", "",
      "ds_write_b32 v2, v2" LGKM, "ds_read_b32 v20, v2" LGKM "global_store_dword v1, v20, s[2:3]" },
    { PALL, 1, 1, "uninitialised-lds", "v20 comes from LDS", "ds_write_b8 v2, v2 offset:9" LGKM,
      "ds_read_u8 v20, v2 offset:10" LGKM, "ds_read_u8 v20, v2 offset:9" LGKM, "global_store_dword v1, v20, s[2:3]" },
    { PALL, 1, 1, "uninitialised-lds", "v20 comes from LDS",
      "ds_write_b16 v2, v2 offset:8\nds_write_b8 v2, v2 offset:10" LGKM, "", "ds_write_b8 v2, v2 offset:11" LGKM,
      "ds_read_b32 v20, v2 offset:8" LGKM "v_xor_b32 v20, v2, v20\nglobal_store_dword v1, v20, s[2:3]" },
    { PALL, 1, 1, "uninitialised-lds", "v22 comes from LDS",
      "v_mov_b32 v3, 0\nds_write_b64 v2, v[2:3]\nds_write_b32 v2, v2 offset:12\nds_read_b128 v[20:23], v2" LGKM,
      "global_store_dword v1, v22, s[2:3]",
      "global_store_dwordx2 v1, v[20:21], s[2:3]\nglobal_store_dword v1, v23, s[2:3]", "" },
    { PALL, 1, 1, "uninitialised-lds", "v21 comes from LDS",
      "ds_write_b32 v2, v2\nds_read2_b32 v[20:21], v2 offset1:1" LGKM, "global_store_dword v1, v21, s[2:3]",
      "global_store_dword v1, v20, s[2:3]", "" },
    { PALL, 1, 1, "uninitialised-lds", "v20 comes from LDS", "", "ds_write_b32 v2, v30" LGKM,
      "ds_write_b32 v2, v0" LGKM, "ds_read_b32 v20, v2" LGKM "global_store_dword v1, v20, s[2:3]" },
    { PALL, 1, 1, "uninitialised-lds", "v21 comes from LDS",
      "v_mov_b32 v30, 0\nds_write_b64 v2, v[30:31]" LGKM "ds_read_b64 v[20:21], v2" LGKM,
      "global_store_dword v1, v21, s[2:3]", "global_store_dword v1, v20, s[2:3]", "" },
    { PALL, 1, 2, "uninitialised-lds", "v20 comes from LDS", GROUP0("ds_write_b32 v2, v2" LGKM), "",
      "ds_write_b32 v2, v2" LGKM, "ds_read_b32 v20, v2" LGKM "global_store_dword v1, v20, s[2:3] offset:2048\n" },
    { PALL, 2, 2, "lds-race", "reads LDS", WAVE0("ds_write_b32 v2, v2" LGKM), GROUP1(WAVE1("ds_read_b32 v20, v2" LGKM)),
      WAVE0("ds_read_b32 v20, v2" LGKM), "" },
    { PALL, 1, 1, "uninitialised-lds", "an atomic on LDS that nothing wrote, at offset 0", "", "",
      "ds_write_b32 v2, v2" LGKM, "ds_add_u32 v2, v2" LGKM },
    /* barriers */
    { PALL, 2, 1, "divergent-barrier", NULL, "", NULL, WAVE0("s_barrier\ns_endpgm") "s_barrier", "" },
    { PALL, 2, 1, "note: divergent-barrier", "waits here while wave 0 waits at 0x", "",
      WAVE0("s_barrier\ns_endpgm") "s_barrier", "s_barrier", "" },
    { PALL, 3, 1, "divergent-barrier", NULL, "s_barrier\n", NULL, WAVE2("s_barrier\ns_endpgm") "s_barrier", "" },
    { PALL, 2, 1, "divergent-barrier", "waits here, wave 1 has ended after 1 barriers", "",
      "s_barrier\n" WAVE1("s_endpgm") "s_barrier", WAVE1("s_endpgm") "s_barrier\ns_barrier", "" },
    { PALL, 2, 1, "divergent-barrier", "waits here, wave 0 has ended after 2 barriers", "s_barrier\ns_barrier\n",
      WAVE0("s_endpgm") "s_barrier", "s_barrier", "" },
    { PALL, 1, 2, "divergent-barrier", NULL, "", NULL, GROUP0("s_barrier\ns_endpgm") "s_barrier",
      "" }, /* two workgroups may */
};

void pairs_lds(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(lds) / sizeof(lds[0]); k++) {
        const struct lds *s = &lds[k];
        bool words = !strncmp(s->check, "uninit", 6);
        pair_add(p, &(struct pair){ .archs = s->archs,
                                    .rule = text("%s: %s, row %zu", s->check, s->says ? s->says : "none", k),
                                    .check = s->check,
                                    .says = s->says,
                                    .groups = words                           ? "registers"
                                              : !strncmp(s->check, "note", 4) ? "lds,waits,barriers,notes"
                                                                              : "lds,waits,barriers",
                                    .waves = s->waves,
                                    .workgroups = s->workgroups,
                                    .bad = s->bad ? text(BEGIN "%s%s\n%s", s->before, s->bad, s->after) : NULL,
                                    .good = text(BEGIN "%s%s\n%s", s->before, s->good, s->after) });
    }
}
