/* SPDX-License-Identifier: MIT
 *
 * The kernel of test_emu_counters.c and test_emu_programs.c. */
#ifndef RFG_TESTS_EMU_COUNTERS_KERNEL_H
#define RFG_TESTS_EMU_COUNTERS_KERNEL_H

/* One instruction or few, chosen by n; each lane's address (an offset in the data, or in LDS) comes from the first
 * 4 KiB of p. What the rest of the kernel does is the same for all n, but for the branches to the case. */
enum {
    NOTHING,
    LOAD,
    LOAD_X4,
    STORE,
    ATOMIC,
    SCALAR,
    LDS_READ,
    LDS_READ_B64,
    LDS_READ_B128,
    LDS_WRITE,
    LDS_WRITE_B128,
    LDS_ADD,
    TRANS,
    TRANS_3_LANES,
    LOOP,
    SPIN,
    WALK,
    WAITS,
    MATRIX,
    SCRATCH,
    LOAD_STORE,
    FLAG,
    DUAL,
    FLAT,
    LDS_READ2,
    LOAD_TO_LDS,
};
static const char source[] =
    "#ifndef __global__\n"
    "#define __global__ __attribute__((global))\n"
    "#endif\n"
    "#if defined(__gfx1100__)\n"
    "#define G(op, dw, b) \"global_\" op b\n"
    "#define DS_READ \"ds_load_\"\n"
    "#define DS_WRITE \"ds_store_\"\n"
    "#define ATOMIC_ADD \"global_atomic_add_u32\"\n"
    "#define S_LOAD \"s_load_b128\"\n"
    "#define V_ADD \"v_add_nc_u32\"\n"
    "#else\n"
    "#define G(op, dw, b) \"global_\" op dw\n"
    "#define DS_READ \"ds_read_\"\n"
    "#define DS_WRITE \"ds_write_\"\n"
    "#define ATOMIC_ADD \"global_atomic_add\"\n"
    "#define S_LOAD \"s_load_dwordx4\"\n"
    "#define V_ADD \"v_add_u32\"\n"
    "#endif\n"
    "typedef int int2v __attribute__((ext_vector_type(2)));\n"
    "typedef int int4v __attribute__((ext_vector_type(4)));\n"
    "typedef float float8v __attribute__((ext_vector_type(8)));\n"
    "typedef float float16v __attribute__((ext_vector_type(16)));\n"
    "typedef _Float16 half4v __attribute__((ext_vector_type(4)));\n"
    "typedef _Float16 half16v __attribute__((ext_vector_type(16)));\n"
    "#define ASM(...) asm volatile(__VA_ARGS__ : \"memory\", \"scc\", \"s20\", \"s21\", \"s22\", \"s23\")\n"
    "extern \"C\" __global__ void k(int *p, int n)\n"
    "{\n"
    "    int tid = __builtin_amdgcn_workitem_id_x(), at = p[tid], v = 0;\n"
    "    int times = __builtin_amdgcn_readfirstlane(p[1023]);\n"
    "    char *q = (char *)(p + 1024) + at;\n"
    "    int2v v2; int4v v4 = 0; float f = 1;\n"
    "    asm volatile(\"\" ::\"v\"(at), \"v\"(q));\n"
    "    if (n == 1) ASM(G(\"load_\", \"dword\", \"b32\") \" %0, %1, off\\ns_waitcnt vmcnt(0)\" : \"=&v\"(v) : "
    "\"v\"(q));\n"
    "    if (n == 2) ASM(G(\"load_\", \"dwordx4\", \"b128\") \" %0, %1, off\\ns_waitcnt vmcnt(0)\" : \"=&v\"(v4) : "
    "\"v\"(q));\n"
    "    if (n == 3) ASM(G(\"store_\", \"dword\", \"b32\") \" %0, %1, off\" :: \"v\"(q), \"v\"(at));\n"
    "    if (n == 4) ASM(ATOMIC_ADD \" %0, %1, off\" :: \"v\"(q), \"v\"(at));\n"
    "    if (n == 5) ASM(S_LOAD \" s[20:23], %0, 0x0\\ns_waitcnt lgkmcnt(0)\" :: \"s\"(p));\n"
    "    if (n == 6) ASM(DS_READ \"b32 %0, %1\\ns_waitcnt lgkmcnt(0)\" : \"=&v\"(v) : \"v\"(at));\n"
    "    if (n == 7) ASM(DS_READ \"b64 %0, %1\\ns_waitcnt lgkmcnt(0)\" : \"=&v\"(v2) : \"v\"(at));\n"
    "    if (n == 8) ASM(DS_READ \"b128 %0, %1\\ns_waitcnt lgkmcnt(0)\" : \"=&v\"(v4) : \"v\"(at));\n"
    "    if (n == 9) ASM(DS_WRITE \"b32 %0, %1\" :: \"v\"(at), \"v\"(tid));\n"
    "    if (n == 10) ASM(DS_WRITE \"b128 %0, %1\" :: \"v\"(at), \"v\"(v4));\n"
    "    if (n == 11) ASM(\"ds_add_u32 %0, %1\" :: \"v\"(at), \"v\"(tid));\n"
    "    if (n == 12) { float g; ASM(\".rept 10\\nv_exp_f32 %0, %1\\n.endr\" : \"=&v\"(g) : \"v\"(f)); f = g; }\n"
    "    if (n == 13 && tid < 3) { float g; ASM(\".rept 10\\nv_exp_f32 %0, %1\\n.endr\" : \"=&v\"(g) : \"v\"(f)); f = "
    "g; }\n"
    "#define AGAIN \"s_sub_u32 s20, s20, 1\\ns_cmp_lg_u32 s20, 0\\ns_cbranch_scc1 1b\"\n"
    "    if (n == 14) ASM(\"s_mov_b32 s20, %0\\n1:\" AGAIN :: \"s\"(times));\n"
    "    if (n == 15) ASM(\"s_mov_b32 s20, %2\\n1:\" G(\"load_\", \"dword\", \"b32\") \" %0, %1, off\\n\"\n"
    "        \"s_waitcnt vmcnt(0)\\n\" AGAIN : \"=&v\"(v) : \"v\"(q), \"s\"(times));\n"
    "    if (n == 16) ASM(\"s_mov_b32 s20, %3\\n1:\" G(\"load_\", \"dword\", \"b32\") \" %0, %1, %2\\n\"\n"
    "        \"s_waitcnt vmcnt(0)\\n\" V_ADD \" %1, 64, %1\\n\" AGAIN\n"
    "        : \"=&v\"(v), \"+v\"(at) : \"s\"(p + 1024), \"s\"(times));\n"
    "    if (n == 17) ASM(\"s_sleep 1\\ns_sleep 1\\ns_sleep 1\\ns_barrier\\ns_barrier\\ns_waitcnt vmcnt(0)\" ::);\n"
    "    if (n == 18) {\n"
    "#if defined(__gfx1100__)\n"
    "        float8v c = 0; half16v a = 0;\n"
    "        ASM(\".rept 3\\nv_wmma_f32_16x16x16_f16 %0, %1, %1, %0\\n.endr\" : \"+v\"(c) : \"v\"(a));\n"
    "#else\n"
    "        float16v c = 0; half4v a = 0;\n"
    "#if defined(__gfx942__)\n"
    "        ASM(\".rept 3\\nv_mfma_f32_32x32x8_f16 %0, %1, %1, %0\\n.endr\" : \"+v\"(c) : \"v\"(a));\n"
    "#else\n"
    "        ASM(\".rept 3\\nv_mfma_f32_32x32x8f16 %0, %1, %1, %0\\n.endr\" : \"+v\"(c) : \"v\"(a));\n"
    "#endif\n"
    "#endif\n"
    "    }\n"
    "    if (n == 21 && __builtin_amdgcn_workgroup_id_x() == 0)\n"
    "        while (__atomic_load_n(p + 1500, __ATOMIC_RELAXED) == 0);\n"
    "    if (n == 21 && __builtin_amdgcn_workgroup_id_x() == 1) __atomic_store_n(p + 1500, 1, __ATOMIC_RELAXED);\n"
    "#if defined(__gfx1100__)\n"
    "    if (n == 22)\n"
    "        asm volatile(\".rept 5\\nv_dual_mov_b32 v10, 1.0 :: v_dual_mov_b32 v11, 2.0\\n.endr\" ::: \"v10\", "
    "\"v11\");\n"
    "#endif\n"
    "#if defined(__gfx1100__)\n"
    "    if (n == 23) ASM(\"flat_load_b32 %0, %1\\ns_waitcnt vmcnt(0) lgkmcnt(0)\" : \"=&v\"(v) : \"v\"(q));\n"
    "    if (n == 24) ASM(\"ds_load_2addr_b32 %0, %1 offset1:1\\ns_waitcnt lgkmcnt(0)\" : \"=&v\"(v2) : \"v\"(at));\n"
    "#else\n"
    "    if (n == 23) ASM(\"flat_load_dword %0, %1\\ns_waitcnt vmcnt(0) lgkmcnt(0)\" : \"=&v\"(v) : \"v\"(q));\n"
    "    if (n == 24) ASM(\"ds_read2_b32 %0, %1 offset1:1\\ns_waitcnt lgkmcnt(0)\" : \"=&v\"(v2) : \"v\"(at));\n"
    "#endif\n"
    "#if defined(__gfx942__)\n"
    "    if (n == 25) ASM(\"s_mov_b32 m0, 0\\nglobal_load_lds_dword %0, off\\ns_waitcnt vmcnt(0)\" :: \"v\"(q));\n"
    "#endif\n"
    "    if (n == 19 || n == 20) {\n"
    "        typedef volatile __attribute__((address_space(5))) int *private_int;\n"
    "        int array[4];\n"
    "        private_int mine = (private_int)array; /* gfx90a: buffer instructions */\n"
    "        mine[n & 3] = tid;\n"
    "        v = mine[n & 3];\n"
    "        asm volatile(\"\" ::\"v\"(v));\n"
    "    }\n"
    "    if (n == 20) p[1024 + tid] = p[1024 + tid] + 1;\n"
    "}\n";

#endif
