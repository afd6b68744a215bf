/* SPDX-License-Identifier: MIT
 *
 * gfx12: its split counters, the scopes of its memory model, its remaining hazards. */
#include "emu_rules.h"

/* v1: 4 * the work-item, v2: 0, v3: 7, v[4:5]: data, s8: the workgroup, s9: the wave. */
#define BEGIN                                                                                                          \
    "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 7\nv_mov_b32 v4, s2\nv_mov_b32 v5, s3\n"                  \
    "s_mov_b32 s8, ttmp9\nv_readfirstlane_b32 s9, v0\ns_lshr_b32 s9, s9, 5\n"
#define WAVE0(x)     "s_cmp_lg_u32 s9, 0\ns_cbranch_scc1 1f\n" x "1:\n"
#define WAVE1(x)     "s_cmp_lg_u32 s9, 1\ns_cbranch_scc1 1f\n" x "1:\n"
#define GROUP0(x)    "s_cmp_lg_u32 s8, 0\ns_cbranch_scc1 2f\n" x "2:\n"
#define GROUP1(x)    "s_cmp_lg_u32 s8, 1\ns_cbranch_scc1 2f\n" x "2:\n"
#define ONE(x)       "s_mov_b32 exec_lo, 1\n" x "s_mov_b32 exec_lo, -1\n"
#define GIVE(g0, g1) GROUP0(g0) GROUP1(g1)
#define BARRIER      "s_barrier_signal -1\ns_barrier_wait -1\n"
#define LOADS        "s_wait_loadcnt 0x0\n"
#define STORES       "s_wait_storecnt 0x0\n"
#define STORE        "global_store_b32 v1, v3, s[2:3]\n"
#define LOAD         "global_load_b32 v21, v1, s[2:3]\n"
#define FLAG         ONE("global_store_b32 v2, v3, s[2:3] offset:2048 scope:SCOPE_DEV\n")
#define SEE_FLAG     ONE("global_load_b32 v20, v2, s[2:3] offset:2048 scope:SCOPE_DEV\n") LOADS
#define WRITEBACK    "global_wb scope:SCOPE_DEV\n"
#define INVALIDATE   "global_inv scope:SCOPE_DEV\n"
#define RELEASE      WRITEBACK STORES FLAG
#define ACQUIRE      SEE_FLAG INVALIDATE
#define GIVEN        GIVE(STORE RELEASE, ACQUIRE LOAD LOADS)
#define STALE        "no invalidate since the acquire: a cache may still hold the old bytes"
#define NOT_WAITED   "it had not been waited for (s_waitcnt) when that wave released"
#define UNORDERED    "nothing orders the two"

#define GLOBAL  "global_load_b32 v20, v1, s[2:3]\nglobal_load_b32 v21, v1, s[2:3] offset:4\n"
#define LDS     "ds_load_b32 v20, v2\nds_load_b32 v21, v2 offset:4\n"
#define SCALAR  "s_load_b32 s20, s[2:3], 0x0\n"
#define READ_20 "v_mov_b32 v100, v20"
#define READ_21 "v_mov_b32 v100, v21"

#define WMMA "v_wmma_f32_16x16x16_f16 v[40:47], v[80:83], v[84:87], v[40:47]\n"

static const struct rule {
    const char *check, *says, *bad, *good, *groups;
    int waves, workgroups;
    bool wgp;
} rules[] = {
    /* each counter at two depths, and the others don't help */
    { "missing-wait", "no s_wait of loadcnt waited for it", GLOBAL "s_wait_loadcnt 0x1\n" READ_21,
      GLOBAL "s_wait_loadcnt 0x1\n" READ_20, "waits" },
    { "missing-wait", "no s_wait of loadcnt waited for it",
      GLOBAL "s_wait_dscnt 0x0\ns_wait_kmcnt 0x0\ns_wait_storecnt 0x0\ns_wait_samplecnt 0x0\n" READ_20,
      GLOBAL "s_wait_loadcnt_dscnt 0x13f\n" READ_20, "waits" },
    { "missing-wait", "no s_wait of loadcnt waited for it",
      "global_load_b32 v20, v1, s[2:3]\nglobal_inv scope:SCOPE_DEV\ns_wait_loadcnt 0x2\n" READ_20,
      "global_load_b32 v20, v1, s[2:3]\nglobal_inv scope:SCOPE_DEV\ns_wait_loadcnt 0x1\n" READ_20, "waits" },
    { "missing-wait", "no s_wait of loadcnt waited for it",
      "global_atomic_add_u32 v20, v1, v2, s[2:3] th:TH_ATOMIC_RETURN\ns_wait_storecnt 0x0\n" READ_20,
      "global_atomic_add_u32 v20, v1, v2, s[2:3] th:TH_ATOMIC_RETURN\n" LOADS READ_20, "waits" },
    { "missing-wait", "no s_wait of dscnt waited for it", LDS "s_wait_dscnt 0x1\n" READ_21,
      LDS "s_wait_dscnt 0x1\n" READ_20, "waits" },
    { "missing-wait", "no s_wait of dscnt waited for it", LDS "s_wait_kmcnt 0x0\ns_wait_loadcnt 0x0\n" READ_20,
      LDS "s_wait_storecnt_dscnt 0x3f01\n" READ_20, "waits" },
    { "missing-wait", "no s_wait of dscnt waited for it", SCALAR LDS "s_wait_dscnt 0x1\n" READ_21,
      SCALAR LDS "s_wait_dscnt 0x1\n" READ_20, "waits" }, /* scalar loads don't upset the order of LDS */
    { "missing-wait", "no s_wait of kmcnt waited for it",
      SCALAR "s_wait_dscnt 0x0\ns_wait_loadcnt 0x0\ns_mov_b32 s21, s20", SCALAR "s_wait_kmcnt 0x0\ns_mov_b32 s21, s20",
      "waits" },
    { "missing-wait", "no s_wait of kmcnt waited for it",
      SCALAR "s_load_b32 s21, s[2:3], 0x4\ns_wait_kmcnt 0x1\ns_mov_b32 s22, s20",
      SCALAR "s_load_b32 s21, s[2:3], 0x4\ns_wait_idle\ns_mov_b32 s22, s20", "waits" },
    { "missing-wait", "no s_wait of loadcnt and dscnt waited for it",
      "flat_load_b32 v20, v[4:5]\ns_wait_loadcnt 0x0\n" READ_20,
      "flat_load_b32 v20, v[4:5]\ns_wait_loadcnt_dscnt 0x0\n" READ_20, "waits" },
    /* barriers in two steps */
    { "divergent-barrier", "waits here, wave 1 has ended after 1 barriers", BARRIER WAVE1("s_endpgm\n") BARRIER,
      WAVE1("s_endpgm\n") BARRIER BARRIER, "barriers", .waves = 2 },
    { "lds-race", NULL, WAVE0("ds_store_b32 v2, v3\n") BARRIER WAVE1("ds_load_b32 v20, v2\ns_wait_dscnt 0x0\n"),
      WAVE0("ds_store_b32 v2, v3\ns_wait_dscnt 0x0\n") BARRIER WAVE1("ds_load_b32 v20, v2\ns_wait_dscnt 0x0\n"),
      "lds,waits,barriers", .waves = 2 },
    /* a release and an acquire, each step left out in turn */
    { "global-race", UNORDERED, GIVE(STORE, LOAD LOADS), GIVEN, "races", .workgroups = 2 },
    { "global-race", NOT_WAITED, GIVE(STORE WRITEBACK FLAG, ACQUIRE LOAD LOADS), GIVEN, "races", .workgroups = 2 },
    { "global-race", NOT_WAITED, GIVE(STORE WRITEBACK LOADS FLAG, ACQUIRE LOAD LOADS), GIVEN, "races",
      .workgroups = 2 },
    { "global-race", STALE, GIVE(STORE RELEASE, SEE_FLAG LOAD LOADS), GIVEN, "races", .workgroups = 2 },
    { "global-race", STALE, GIVE(STORE RELEASE, SEE_FLAG "global_inv scope:SCOPE_SE\n" LOAD LOADS), GIVEN, "races",
      .workgroups = 2 },
    { "global-race", STALE, GIVE(STORE RELEASE, "global_inv scope:SCOPE_SYS\n" SEE_FLAG LOAD LOADS),
      GIVE(STORE RELEASE, SEE_FLAG "global_inv scope:SCOPE_SYS\n" LOAD LOADS), "races", .workgroups = 2 },
    { "global-race", UNORDERED,
      GIVE(STORE RELEASE, ONE("global_load_b32 v20, v2, s[2:3] offset:2048\n") LOADS INVALIDATE LOAD LOADS), GIVEN,
      "races", .workgroups = 2 },
    { "global-race", UNORDERED, GIVE(STORE RELEASE, "s_nop 0\n" INVALIDATE LOAD LOADS),
      GIVE(STORE RELEASE, SEE_FLAG "global_load_b32 v21, v1, s[2:3] scope:SCOPE_DEV\n" LOADS), "races",
      .workgroups = 2 },
    /* a workgroup over two CUs */
    { "global-race", UNORDERED,
      WAVE0(STORE) BARRIER WAVE1("global_inv scope:SCOPE_SE\nglobal_load_b32 v21, v2, s[2:3]\n" LOADS),
      WAVE0(STORE STORES) BARRIER WAVE1("global_inv scope:SCOPE_SE\nglobal_load_b32 v21, v2, s[2:3]\n" LOADS), "races",
      .waves = 2, .wgp = true },
    { "global-race", STALE, WAVE0(STORE STORES) BARRIER WAVE1("global_load_b32 v21, v2, s[2:3]\n" LOADS),
      WAVE0(STORE STORES) BARRIER WAVE1("global_inv scope:SCOPE_SE\nglobal_load_b32 v21, v2, s[2:3]\n" LOADS), "races",
      .waves = 2, .wgp = true },
    /* hazards */
    { "hazard", "reads a WMMA's result as A or B",
      WMMA "v_wmma_f32_16x16x16_f16 v[70:77], v[44:47], v[80:83], v[70:77]",
      WMMA "v_nop\nv_wmma_f32_16x16x16_f16 v[70:77], v[44:47], v[80:83], v[70:77]", "hazards" },
    { "hazard", "reads a WMMA's result as A or B", WMMA "v_swmmac_f32_16x16x32_f16 v[70:77], v[80:83], v[90:97], v47",
      WMMA "v_swmmac_f32_16x16x32_f16 v[40:47], v[80:83], v[90:97], v48", "hazards" }, /* the index too; C is none */
    { "hazard", "gives the VGPRs back", "v_mov_b32 v40, 0\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)",
      "v_rcp_f32 v40, v3\nv_mov_b32 v41, v40\ns_nop 0\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", "hazards" },
};

void pairs_gfx12(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
        const struct rule *r = &rules[k];
        pair_add(p, &(struct pair){ .archs = P12,
                                    .rule = text("gfx12: %s, row %zu", r->says ? r->says : r->check, k),
                                    .check = r->check,
                                    .says = r->says,
                                    .groups = r->groups,
                                    .waves = r->waves,
                                    .workgroups = r->workgroups,
                                    .wgp = r->wgp,
                                    .bad = text(BEGIN "%s", r->bad),
                                    .good = text(BEGIN "%s", r->good) });
    }
}
