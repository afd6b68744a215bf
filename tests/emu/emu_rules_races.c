/* SPDX-License-Identifier: MIT
 *
 * Races in global memory: between workgroups with each step of a release and an acquire left out in turn, within a
 * workgroup, and what the granules of 16 bytes must tell apart. Workgroup 0 is through when workgroup 1 begins, wave 0
 * is at its barrier when wave 1 begins. */
#include "emu_rules.h"

/* v1: 4 * the work-item, v2: 0, v3: another value in each wave, s9: the wave. FLAG is 2048 bytes behind the data. */
#define BEGIN                                                                                                          \
    "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_readfirstlane_b32 s9, v0\ns_lshr_b32 s9, s9, WSHIFT\n"                \
    "s_lshl_b32 s10, s8, 4\ns_add_u32 s10, s10, s9\ns_add_u32 s10, s10, 7\nv_mov_b32 v3, s10\n"
#define WAVE0(x)  "s_cmp_lg_u32 s9, 0\ns_cbranch_scc1 1f\n" x "1:\n"
#define WAVE1(x)  "s_cmp_lg_u32 s9, 1\ns_cbranch_scc1 1f\n" x "1:\n"
#define GROUP0(x) "s_cmp_lg_u32 s8, 0\ns_cbranch_scc1 2f\n" x "2:\n"
#define GROUP1(x) "s_cmp_lg_u32 s8, 1\ns_cbranch_scc1 2f\n" x "2:\n"
#define GROUP2(x) "s_cmp_lg_u32 s8, 2\ns_cbranch_scc1 2f\n" x "2:\n"
#define VM        "s_waitcnt vmcnt(0)\n"
#define BARRIER   "s_barrier\n"
/* The assembler's macros, because the architectures differ. */
#define WAIT       "WAIT_STORES_TO 0\n"
#define WRITEBACK  "WRITEBACK\n"
#define INVALIDATE "INVALIDATE\n"

#define AT(where)   "v1, v3, s[2:3]" where "\n"
#define STORE       "global_store_dword " AT("")
#define LOAD        "global_load_dword v21, v1, s[2:3]\n"
#define ONE(x)      "LANES 1\n" x "LANES -1\n"
#define LANES(n, x) "LANES " n "\n" x "LANES -1\n"
#define SET_FLAG    "global_store_dword v2, v3, s[2:3] offset:2048\n"
#define FLAG        ONE(SET_FLAG)
#define SEE_FLAG    ONE("BYPASS global_load_dword, v20, v2, s[2:3] offset:2048\n")
#define RELEASE     WRITEBACK WAIT FLAG
#define ACQUIRE     SEE_FLAG VM INVALIDATE
#define ATOMIC      "global_atomic_add v2, v3, s[2:3] offset:2048\n"

#define UNORDERED  "nothing orders the two"
#define NOT_WAITED "it had not been waited for (s_waitcnt) when that wave released"
#define NOT_BACK   "it was not written back (buffer_wbl2 sc1, s_waitcnt vmcnt(0)) before that wave released"
#define STALE      "no invalidate since the acquire: a cache may still hold the old bytes"

#define SWAP "v_mov_b32 v6, 1\nv_mov_b32 v7, 1\nv_mov_b32 v8, 0\nv_mov_b32 v9, 0\n"
static const char NOTED[] = "stores what wave 0 of workgroup number 0 stored there";

/* G0 gives p[0...] to G1. */
#define GIVE(g0, g1) GROUP0(g0) GROUP1(g1)
#define GIVEN        GIVE(STORE RELEASE, ACQUIRE LOAD VM)

static const struct race {
    int archs, waves, workgroups;
    bool wgp;
    const char *says, *bad, *good;
} races[] = {
    /* a flag that is there can be set again, by who saw it */
    { PALL, 1, 2, 0, UNORDERED, GIVE(FLAG, SEE_FLAG FLAG VM), GIVE(FLAG, SEE_FLAG VM FLAG) },
    /* of three readers that aren't the writer each counts */
    { PALL, 1, 3, 0, UNORDERED,
      GROUP0("global_load_dword v21, v1, s[2:3]\n" VM) GROUP1("global_load_dword v21, v1, s[2:3] offset:4\n" VM) GROUP2(
          "global_load_dword v21, v1, s[2:3] offset:8\n" VM LANES("0xff", "global_store_dword v1, v3, s[2:3]\n")),
      GROUP0("global_load_dword v21, v1, s[2:3]\n" VM) GROUP1("global_load_dword v21, v1, s[2:3] offset:4\n" VM)
          GROUP2("global_load_dword v21, v1, s[2:3] offset:8\n" VM "global_store_dword v1, v3, s[2:3] offset:1024\n") },
    /* nothing at all between them */
    { PALL, 1, 2, 0, UNORDERED, STORE, "v_lshl_add_u32 v1, s8, 8, v1\n" STORE },
    { PALL, 1, 2, 0, "writes byte", STORE, "v_lshl_add_u32 v1, s8, 8, v1\n" STORE },
    { PALL, 1, 2, 0, "which wave 0 of workgroup (0,0,0) wrote by 'global_store", GIVE(STORE, LOAD VM),
      GIVE(STORE, "global_load_dword v21, v1, s[2:3] offset:1024\n" VM) },
    { PALL, 1, 2, 0, "reads byte", GIVE(STORE, LOAD VM), GIVEN },
    { PALL, 1, 2, 0, "writes byte 0 of",
      GIVE(LANES("0xff", "global_store_byte v2, v3, s[2:3]\n"), "LANES 0xff\nglobal_store_byte v2, v3, s[2:3]\n"),
      GIVE(LANES("0xff", "global_store_byte v2, v3, s[2:3]\n"),
           "LANES 0xff\nglobal_store_byte v2, v3, s[2:3] offset:1\n") },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(STORE, "v_add_f32 v4, v0, v0\nglobal_store_dwordx4 v2, v[4:7], s[2:3] offset:12\n"),
      GIVE(STORE, "global_store_dwordx4 v2, v[4:7], s[2:3] offset:512\n") },
    { PALL, 1, 2, 0, "read by 'global_load",
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") LOAD VM, STORE),
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") LOAD VM, "global_store_dword " AT(" offset:1024")) },
    { PALL, 1, 3, 0, "which wave 0 of workgroup (1,0,0)", GROUP1(STORE) GROUP2(LOAD VM),
      GROUP1(STORE) GROUP2("global_load_dword v21, v1, s[2:3] offset:512\n" VM) },
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE, "s_load_dword s20, s[2:3], 0\ns_waitcnt lgkmcnt(0)\n"),
      GIVE(STORE RELEASE, ACQUIRE "s_load_dword s20, s[2:3], 0\ns_waitcnt lgkmcnt(0)\n") },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(STORE, "v_mov_b32 v4, s2\nv_mov_b32 v5, s3\nflat_load_dword v21, v[4:5]\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"),
      GIVE(STORE RELEASE, ACQUIRE
           "v_mov_b32 v4, s2\nv_mov_b32 v5, s3\nflat_load_dword v21, v[4:5]\ns_waitcnt vmcnt(0) lgkmcnt(0)\n") },
    /* the same value; a load of it then; another value by few lanes, which may be synchronisation, and by many */
    { PALL, 1, 2, 0, UNORDERED, STORE, "v_mov_b32 v3, 7\n" STORE },
    { PALL, 1, 2, 0, UNORDERED, FLAG, "v_mov_b32 v3, 7\n" FLAG },
    { PALL, 1, 2, 0, NOTED, "v_mov_b32 v3, 7\n" STORE, GROUP0(STORE) },
    { PALL, 2, 1, 0, "writes byte", "s_mov_b32 s10, 7\n" STORE WAVE1("global_store_dword v2, v3, s[2:3] offset:4\n"),
      "v_mov_b32 v3, 7\n" STORE WAVE1("global_store_dword v2, v3, s[2:3] offset:4\n") },
    { PALL, 1, 3, 0, UNORDERED,
      "v_mov_b32 v4, 9\nv_mov_b32 v3, 7\n" GROUP0(STORE) GROUP1(STORE) GROUP2("global_store_dword v1, v4, s[2:3]\n"),
      "v_mov_b32 v3, 7\n" GROUP0(STORE) GROUP1(STORE) GROUP2(LOAD VM STORE) },
    /* a compare-and-swap loop's first load is plain */
    { PALL, 1, 2, 0, UNORDERED,
      SWAP GIVE("global_atomic_add v2, v3, s[2:3]\n", ONE("global_load_dword v21, v2, s[2:3]\n" VM)),
      SWAP GIVE("global_atomic_add v2, v3, s[2:3]\n",
                ONE("global_load_dword v21, v2, s[2:3]\n" VM "global_atomic_cmpswap v2, v[6:7], s[2:3]\n")) },
    { PALL, 1, 2, 0, UNORDERED,
      SWAP GIVE("global_atomic_add v2, v3, s[2:3]\n",
                ONE("global_load_dword v21, v2, s[2:3]\n" VM "global_atomic_cmpswap v2, v[6:7], s[2:3] offset:4\n")),
      SWAP GIVE("global_atomic_add_x2 v2, v[6:7], s[2:3]\n",
                ONE("global_load_dwordx2 v[22:23], v2, s[2:3]\n" VM "global_atomic_cmpswap_x2 v2, v[6:9], s[2:3]\n")) },
    { PALL, 1, 2, 0, "read by",
      SWAP GIVE(ONE("global_load_dword v21, v2, s[2:3]\n" VM), "global_atomic_add v2, v3, s[2:3]\n"),
      SWAP GIVE(ONE("global_load_dword v21, v2, s[2:3]\n" VM "global_atomic_cmpswap v2, v[6:7], s[2:3]\n"),
                "global_atomic_add v2, v3, s[2:3]\n") },
    /* reads before any write to the page */
    { PALL, 1, 2, 0, "read by 'global_load", GIVE(LOAD VM, STORE),
      GIVE(LOAD VM, "global_store_dword " AT(" offset:1024")) },
    /* more than one writer of a word, of the 16 bytes around a lock */
    { PALL, 1, 3, 0, "which wave 0 of workgroup (0,0,0) wrote",
      GROUP0(ONE("global_store_byte v2, v3, s[2:3]\n")) GROUP1(ONE("global_store_byte v2, v3, s[2:3] offset:1\n"))
          GROUP2("global_load_ubyte v21, v2, s[2:3]\n" VM),
      GROUP0(ONE("global_store_byte v2, v3, s[2:3]\n")) GROUP1(ONE("global_store_byte v2, v3, s[2:3] offset:1\n"))
          GROUP2("global_load_ubyte v21, v2, s[2:3] offset:2\n" VM) },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:2052\n" ATOMIC),
           ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n"
               "global_load_dword v21, v2, s[2:3] offset:2052\n" VM)),
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:2052\n" WRITEBACK WAIT ATOMIC),
           ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n" VM INVALIDATE
               "global_load_dword v21, v2, s[2:3] offset:2052\n" VM)) },
    /* atomics and what isn't one */
    { PALL, 1, 2, 0, UNORDERED, GIVE("global_atomic_add " AT(""), STORE), "global_atomic_add " AT("") },
    { PALL, 1, 2, 0, UNORDERED, GIVE("global_atomic_add " AT(""), LOAD VM), "global_atomic_add " AT("") },
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE, "global_atomic_add " AT("")), "global_atomic_add " AT("") },
    { PALL, 1, 2, 0, "read by",
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") LOAD VM, "global_atomic_add " AT("")),
      "global_atomic_add " AT("") },
    { PALL, 1, 2, 0, UNORDERED, GIVE(FLAG, ONE("global_load_dword v20, v2, s[2:3] offset:2048\n") VM),
      GIVE(FLAG, SEE_FLAG VM) },
    { PALL, 1, 2, 0, "read by",
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") "BYPASS global_load_dword, v21, v1, s[2:3]\n" VM,
           STORE),
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") "BYPASS global_load_dword, v21, v1, s[2:3]\n" VM,
           "global_atomic_add " AT("")) },
    /* the steps of giving: of the release */
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE WRITEBACK WAIT, ACQUIRE LOAD VM), GIVEN },
    { PALL, 1, 2, 0, NOT_WAITED, GIVE(STORE FLAG, ACQUIRE LOAD VM), GIVEN },
    { PALL, 1, 2, 0, NOT_WAITED, GIVE(WRITEBACK WAIT STORE FLAG, ACQUIRE LOAD VM), GIVEN },
    { P11, 1, 2, 0, NOT_WAITED, GIVE(STORE VM FLAG, ACQUIRE LOAD VM), GIVEN },
    { P94, 1, 2, 0, NOT_BACK, GIVE(STORE WAIT FLAG, ACQUIRE LOAD VM),
      GIVE("global_store_dword " AT(" sc1") WAIT FLAG, ACQUIRE LOAD VM) },
    { P94, 1, 2, 0, NOT_BACK, GIVE(STORE "buffer_wbl2 sc0\n" WAIT FLAG, ACQUIRE LOAD VM), GIVEN },
    { P94, 1, 2, 0, NOT_BACK, GIVE(STORE WAIT WRITEBACK FLAG, ACQUIRE LOAD VM), GIVEN },
    { P94, 1, 2, 0, NOT_BACK, GIVE(WRITEBACK STORE WAIT FLAG, ACQUIRE LOAD VM), GIVEN },
    { P94, 1, 2, 0, NOT_BACK, GIVE(STORE WRITEBACK WAIT STORE WAIT FLAG, ACQUIRE LOAD VM), GIVEN },
    /* who may release: few lanes, or an atomic */
    { P90A | P11, 1, 2, 0, UNORDERED, GIVE(STORE WAIT LANES("255", SET_FLAG), ACQUIRE LOAD VM),
      GIVE(STORE WAIT LANES("127", SET_FLAG), ACQUIRE LOAD VM) },
    { P94, 1, 2, 0, UNORDERED, GIVE(STORE WRITEBACK WAIT LANES("3", SET_FLAG), ACQUIRE LOAD VM), GIVEN },
    /* ... or as many as there are, of a store that says whom it is for */
    { P94, 1, 2, 0, UNORDERED,
      GIVE(STORE WRITEBACK WAIT "global_store_dword v2, v3, s[2:3] offset:2048\n", ACQUIRE LOAD VM),
      GIVE(STORE WRITEBACK WAIT "global_store_dword v2, v3, s[2:3] offset:2048 sc1\n", ACQUIRE LOAD VM) },
    { P94, 1, 2, 0, NOT_BACK,
      GIVE(STORE WAIT "global_store_dword v1, v3, s[2:3] offset:2048 sc1\n",
           "global_load_dword v20, v1, s[2:3] offset:2048 sc1\n" VM INVALIDATE LOAD VM),
      GIVE(STORE WRITEBACK WAIT "global_store_dword v1, v3, s[2:3] offset:2048 sc1\n",
           "global_load_dword v20, v1, s[2:3] offset:2048 sc1\n" VM INVALIDATE LOAD VM) },
    { P94, 1, 2, 0, NOT_WAITED,
      GIVE(STORE "global_store_dword v1, v3, s[2:3] offset:2048 sc1\n",
           "global_load_dword v20, v1, s[2:3] offset:2048 sc1\n" VM INVALIDATE LOAD VM),
      GIVE(STORE WRITEBACK WAIT
           "global_store_dword v1, v3, s[2:3] offset:3072 sc1\nglobal_store_dword v1, v3, s[2:3] offset:2048 sc1\n",
           "global_load_dword v20, v1, s[2:3] offset:2048 sc1\n" VM INVALIDATE LOAD VM) },
    /* what atomics of others left, after one of its own */
    { PALL, 1, 2, 0, UNORDERED, GIVE(ATOMIC, ATOMIC VM "global_load_dword v21, v2, s[2:3] offset:2048\n" VM),
      GIVE(ATOMIC, ATOMIC VM "BYPASS global_load_dword, v21, v2, s[2:3] offset:2048\n" VM) },
    { PALL, 2, 2, 0, UNORDERED, ATOMIC GROUP1(BARRIER WAVE0("global_load_dword v21, v2, s[2:3] offset:2048\n" VM)),
      ATOMIC GROUP1(BARRIER WAVE0("BYPASS global_load_dword, v21, v2, s[2:3] offset:2048\n" VM)) },
    { PALL, 1, 2, 0, "reads byte 2048",
      GIVE(ONE(ATOMIC), ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n") INVALIDATE VM
           "global_load_dword v21, v2, s[2:3] offset:2048\n" VM),
      GIVE(ONE(ATOMIC), ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n") VM INVALIDATE
           "global_load_dword v21, v2, s[2:3] offset:2048\n" VM) },
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE WRITEBACK WAIT LANES("255", ATOMIC), ACQUIRE LOAD VM),
      GIVE(STORE WRITEBACK WAIT LANES("127", ATOMIC), ACQUIRE LOAD VM) },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(STORE RELEASE, ONE("BYPASS global_load_dword, v20, v2, s[2:3] offset:2052\n") VM INVALIDATE LOAD VM),
      GIVE(STORE WRITEBACK WAIT ONE("global_store_dword v2, v3, s[2:3] offset:2052\n"),
           ONE("BYPASS global_load_dword, v20, v2, s[2:3] offset:2052\n") VM INVALIDATE LOAD VM) },
    /* ... of the acquire */
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE RELEASE, LOAD VM), GIVEN },
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE RELEASE, SEE_FLAG INVALIDATE LOAD VM), GIVEN },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(STORE RELEASE, LANES("255", "BYPASS global_load_dword, v20, v2, s[2:3] offset:2048\n") INVALIDATE LOAD VM),
      GIVEN },
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE RELEASE, SEE_FLAG LOAD "s_waitcnt vmcnt(1)\n"), GIVEN },
    { PALL, 1, 2, 0, STALE, GIVE(STORE RELEASE, SEE_FLAG VM LOAD VM), GIVEN },
    { PALL, 1, 2, 0, STALE, GIVE(STORE RELEASE, INVALIDATE SEE_FLAG VM LOAD VM),
      GIVE(STORE RELEASE, SEE_FLAG VM "BYPASS global_load_dword, v21, v1, s[2:3]\n" VM) },
    { P94, 1, 2, 0, STALE, GIVE(STORE RELEASE, SEE_FLAG VM "buffer_inv sc0\n" LOAD VM), GIVEN },
    { P11, 1, 2, 0, STALE, GIVE(STORE RELEASE, SEE_FLAG VM "buffer_gl0_inv\n" LOAD VM), GIVEN },
    { P11, 1, 2, 0, STALE, GIVE(STORE RELEASE, SEE_FLAG VM "buffer_gl1_inv\n" LOAD VM), GIVEN },
    { P11, 1, 2, 0, STALE, GIVE(STORE RELEASE, SEE_FLAG VM "buffer_gl0_inv\nbuffer_gl1_inv\n" LOAD VM), GIVEN },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE(STORE RELEASE, ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n") INVALIDATE LOAD VM),
      GIVE(STORE WRITEBACK WAIT ONE(ATOMIC),
           ONE("RETURNS global_atomic_add, v20, v2, v3, s[2:3] offset:2048\n") VM INVALIDATE LOAD VM) },
    /* writing what was given needs no invalidate, but the order */
    { PALL, 1, 2, 0, UNORDERED, GIVE(STORE RELEASE, STORE), GIVE(STORE RELEASE, SEE_FLAG VM STORE) },
    /* what was read */
    { PALL, 1, 2, 0, "read by",
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") WAIT LOAD FLAG, ACQUIRE STORE),
      GIVE(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") WAIT LOAD VM FLAG, ACQUIRE STORE) },
    /* from one to the next to a third */
    { PALL, 1, 3, 0, UNORDERED,
      GROUP0(STORE RELEASE) GROUP1(SEE_FLAG ONE("global_store_dword v2, v3, s[2:3] offset:2064\n"))
          GROUP2(ONE("BYPASS global_load_dword, v20, v2, s[2:3] offset:2064\n") VM INVALIDATE LOAD VM),
      GROUP0(STORE RELEASE) GROUP1(ACQUIRE ONE("global_store_dword v2, v3, s[2:3] offset:2064\n"))
          GROUP2(ONE("BYPASS global_load_dword, v20, v2, s[2:3] offset:2064\n") VM INVALIDATE LOAD VM) },
    /* within a workgroup; another wave releases */
    { PALL, 2, 1, 0, UNORDERED,
      WAVE0("global_store_dword v1, v3, s[2:3]\n") WAVE1("global_load_dword v21, v2, s[2:3]\n" VM),
      WAVE0("global_store_dword v1, v3, s[2:3]\n") BARRIER WAVE1("global_load_dword v21, v2, s[2:3]\n" VM) },
    { PALL, 2, 1, 0, UNORDERED, BARRIER WAVE0(STORE) WAVE1("global_store_dword v2, v3, s[2:3]\n"),
      WAVE0(STORE) BARRIER WAVE1("global_store_dword v2, v3, s[2:3]\n") },
    { PALL, 2, 1, 0, "read by",
      WAVE0(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") LOAD) WAVE1("global_store_dword v2, v3, s[2:3]\n"),
      WAVE0(ONE("global_store_dword v2, v3, s[2:3] offset:3072\n") LOAD)
          BARRIER WAVE1("global_store_dword v2, v3, s[2:3]\n") },
    { P11, 2, 1, 1, UNORDERED, WAVE0(STORE) BARRIER WAVE1("buffer_gl0_inv\nglobal_load_dword v21, v2, s[2:3]\n" VM),
      WAVE0(STORE WAIT) BARRIER WAVE1("buffer_gl0_inv\nglobal_load_dword v21, v2, s[2:3]\n" VM) },
    { P11, 2, 1, 1, STALE, WAVE0(STORE WAIT) BARRIER WAVE1("global_load_dword v21, v2, s[2:3]\n" VM),
      WAVE0(STORE WAIT) BARRIER WAVE1("buffer_gl0_inv\nglobal_load_dword v21, v2, s[2:3]\n" VM) },
    { P11, 2, 1, 1, STALE,
      WAVE0(STORE WAIT) WAVE1("buffer_gl0_inv\n") BARRIER WAVE1("global_load_dword v21, v2, s[2:3]\n" VM),
      WAVE0(STORE WAIT) BARRIER WAVE1("buffer_gl0_inv\nglobal_load_dword v21, v2, s[2:3]\n" VM) },
    { PALL, 2, 2, 0, NOT_WAITED, GROUP0(WAVE0(STORE) BARRIER WAVE1(FLAG)) GROUP1(WAVE0(ACQUIRE LOAD VM)),
      GROUP0(WAVE0(STORE) BARRIER WAVE1(WRITEBACK WAIT FLAG)) GROUP1(WAVE0(ACQUIRE LOAD VM)) },
    { PALL, 2, 2, 0, STALE,
      GROUP0(WAVE0(STORE RELEASE)) GROUP1(WAVE0(SEE_FLAG VM) BARRIER WAVE1("v_subrev_u32 v1, 4*WAVE, v1\n" LOAD VM)),
      GROUP0(WAVE0(STORE RELEASE)) GROUP1(WAVE0(ACQUIRE) BARRIER WAVE1("v_subrev_u32 v1, 4*WAVE, v1\n" LOAD VM)) },
    /* Granules: what a wave writes beside its own given bytes later on is no part of them; others' bytes neither. */
    { PALL, 1, 2, 0, NOT_WAITED,
      GIVE(ONE(STORE) RELEASE "LANES 31\nglobal_store_dword v2, v3, s[2:3] offset:4\n",
           ACQUIRE "LANES 31\nglobal_load_dword v21, v2, s[2:3] offset:4\n" VM),
      GIVE(LANES("31", "global_store_dword v2, v3, s[2:3]\n") RELEASE
           "LANES 31\nglobal_store_dword v2, v3, s[2:3] offset:4\n",
           ACQUIRE "LANES 31\nglobal_load_dword v21, v2, s[2:3]\n" VM) },
    { PALL, 2, 1, 0, UNORDERED,
      WAVE0("global_store_dword v2, v3, s[2:3]\n") BARRIER WAVE0("global_store_dword v2, v3, s[2:3] offset:4\n")
          WAVE1("global_load_dword v21, v2, s[2:3] offset:4\n" VM),
      WAVE0("global_store_dword v2, v3, s[2:3]\n") BARRIER WAVE0("global_store_dword v2, v3, s[2:3] offset:4\n")
          WAVE1("global_load_dword v21, v2, s[2:3]\n" VM) },
    { PALL, 1, 2, 0, UNORDERED,
      GIVE("global_store_dword v2, v3, s[2:3]\nglobal_store_dword v2, v3, s[2:3] offset:4\n",
           "global_load_dword v21, v2, s[2:3]\n" VM),
      GIVE("global_store_dword v2, v3, s[2:3]\nglobal_store_dword v2, v3, s[2:3] offset:4\n",
           "global_load_dword v21, v2, s[2:3] offset:8\n" VM) },
};

void pairs_races(struct pairs *p)
{
    for (size_t k = 0; k < sizeof(races) / sizeof(races[0]); k++) {
        const struct race *r = &races[k];
        pair_add(p, &(struct pair){ .archs = r->archs,
                                    .rule = text("%s, row %zu", r->says, k),
                                    .check = r->says == NOTED ? "note: equal-stores" : "global-race",
                                    .says = r->says,
                                    .groups = r->says == NOTED ? "races,notes" : "races",
                                    .waves = r->waves,
                                    .workgroups = r->workgroups,
                                    .wgp = r->wgp,
                                    .bad = text(BEGIN "%s", r->bad),
                                    .good = text(BEGIN "%s", r->good) });
    }
    /* Stores are counted too: data, d others, and a wait that leaves d or one more. */
    for (int d = 0; d < 63; d++) {
        const char *mids = "";
        for (int k = 0; k < d; k++)
            mids = text("%sBYPASS global_store_dword, v1, v3, s[2:3] offset:1024\n", mids);
        pair_add(p,
                 &(struct pair){
                     .archs = PALL,
                     .rule = text("stores, depth %d", d),
                     .check = "global-race",
                     .says = NOT_WAITED,
                     .groups = "races",
                     .workgroups = 2,
                     .bad = text(BEGIN GROUP0("BYPASS global_store_dword, v1, v3, s[2:3]\n%s%s" FLAG)
                                     GROUP1(ACQUIRE LOAD VM),
                                 mids, d < 62 ? text("WAIT_STORES_TO %d\n", d + 1) : ""),
                     .good = text(BEGIN GROUP0("BYPASS global_store_dword, v1, v3, s[2:3]\n%sWAIT_STORES_TO %d\n" FLAG)
                                      GROUP1(ACQUIRE LOAD VM),
                                  mids, d) });
    }
}
