/* SPDX-License-Identifier: MIT
 *
 * Misaligned accesses: those that AMD's GPUs refuse are refused, those that they accept (as Linux sets them up) are
 * right. */
#include "emu_kernel.h"
#include "tests/suite.h"

static const char *const archs[] = { "gfx90a", "gfx942", "gfx1100" };

/* One lane, at a byte offset into memory (p) or LDS, whose bytes are 0, 1, 2, ...; y gets what was read. */
static const struct {
    const char *what, *text; /* gfx11: if it has another name there */
    const char *gfx11;
    int bytes, taken_at, refused_at; /* offsets; 0: there is none */
    bool lds, writes;
} cases[] = {
    { "dword", "global_load_dword %0, %1, off", "global_load_b32 %0, %1, off", 4, 1, 0, false, false },
    { "dwordx2", "global_load_dwordx2 %0, %1, off", "global_load_b64 %0, %1, off", 8, 2, 0, false, false },
    { "dwordx4", "global_load_dwordx4 %0, %1, off", "global_load_b128 %0, %1, off", 16, 6, 0, false, false },
    { "atomic add", "global_atomic_add %0, %1, %2, off", "global_atomic_add_u32 %0, %1, %2, off", 4, 4, 2, false,
      true },
    { "atomic add", "global_atomic_add %0, %1, %2, off", "global_atomic_add_u32 %0, %1, %2, off", 4, 4, 1, false,
      true },
    { "atomic add of 8 bytes", "global_atomic_add_x2 %0, %1, %2, off", "global_atomic_add_u64 %0, %1, %2, off", 8, 8, 4,
      false, true },
    { "LDS, 4 bytes", "ds_read_b32 %0, %1", "ds_load_b32 %0, %1", 4, 2, 0, true, false },
    { "LDS, 8 bytes", "ds_read_b64 %0, %1", "ds_load_b64 %0, %1", 8, 1, 0, true, false },
    { "LDS, 16 bytes", "ds_read_b128 %0, %1", "ds_load_b128 %0, %1", 16, 3, 0, true, false },
    { "LDS, 2 bytes", "ds_read_u16 %0, %1", "ds_load_u16 %0, %1", 2, 1, 0, true, false },
    { "LDS atomic", "ds_add_rtn_u32 %0, %1, %2", NULL, 4, 4, 2, true, true },
    { "LDS atomic of 8 bytes", "ds_add_rtn_u64 %0, %1, %2", NULL, 8, 8, 4, true, true },
};
#define N_CASES (int)(sizeof(cases) / sizeof(cases[0]))

static void append(char *source, size_t size, int c, const char *arch)
{
    bool gfx11 = !strcmp(arch, "gfx1100");
    static const char *const types[] = { [2] = "int", [4] = "int", [8] = "long", [16] = "v4" };
    const char *text = gfx11 && cases[c].gfx11 ? cases[c].gfx11 : cases[c].text;
    const char *type = types[cases[c].bytes];
    const char *returns = !cases[c].writes || cases[c].lds ? "" : strcmp(arch, "gfx942") ? " glc" : " sc0";
    size_t at = strlen(source);
    snprintf(source + at, size - at,
             "extern \"C\" __global__ void case%d(char *p, %s *y, int n)\n"
             "{\n"
             "    __shared__ int s[64];\n"
             "    if (__builtin_amdgcn_workitem_id_x()) return;\n"
             "    for (int i = 0; i < 64; i++) ((volatile int *)s)[i] = 0x03020100 + 0x04040404 * i;\n"
             "    %s v; %s one = %s;\n"
             "    asm volatile(\"s_waitcnt lgkmcnt(0)\\n%s%s\\ns_waitcnt vmcnt(0) lgkmcnt(0)\" : \"=&v\"(v) : "
             "\"v\"(%s), \"v\"(one) : \"memory\");\n"
             "    *y = v;\n"
             "}\n",
             c, type, type, type, cases[c].bytes == 16 ? "{1}" : "1", text, returns,
             cases[c].lds ? "(int)(__UINTPTR_TYPE__)(__attribute__((address_space(3))) int *)s + n" : "p + n");
}

static void run(hipFunction_t f, int c, char *p, int offset, hipError_t want)
{
    unsigned char bytes[64], got[16] = { 0 };
    for (int i = 0; i < 64; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_int_eq(hip->hipMemcpyHtoD((hipDeviceptr_t)p, bytes, sizeof(bytes)), hipSuccess);
    struct {
        char *p, *y;
        int n;
    } args = { p, p + 128, offset };
    void *params[] = { &args.p, &args.y, &args.n };
    hipError_t e = hip->hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
    if (e == hipSuccess)
        e = hip->hipDeviceSynchronize();
    ck_assert_msg(e == want, "%s at offset %d: %s", cases[c].what, offset, hip->error_name(e));
    ck_assert_int_eq(hip->hipMemcpyDtoH(got, (hipDeviceptr_t)args.y, (size_t)cases[c].bytes), hipSuccess);
    if (want == hipSuccess)
        ck_assert_msg(!memcmp(got, bytes + offset, (size_t)cases[c].bytes), "%s at offset %d: other bytes",
                      cases[c].what, offset);
}

START_TEST(offsets)
{
    static char source[16384] =
        "#ifndef __global__\n#define __global__ __attribute__((global))\n#define __shared__ __attribute__((shared))\n"
        "#endif\ntypedef int v4 __attribute__((ext_vector_type(4)));\n";
    char name[20];
    void *p;
    emu_open_device(archs[_i]);
    for (int c = 0; c < N_CASES; c++)
        append(source, sizeof(source), c, archs[_i]);
    hipModule_t m = emu_build(archs[_i], "case0", source, NULL);
    ck_assert_int_eq(hip->hipMalloc(&p, 256), hipSuccess);
    for (int c = 0; c < N_CASES; c++) {
        hipFunction_t f;
        snprintf(name, sizeof(name), "case%d", c);
        ck_assert_int_eq(hip->hipModuleGetFunction(&f, m, name), hipSuccess);
        run(f, c, p, 0, hipSuccess);
        run(f, c, p, cases[c].taken_at, hipSuccess);
        if (cases[c].refused_at)
            run(f, c, p, cases[c].refused_at, hipErrorIllegalAddress);
    }
    hip->hipFree(p);
    rfg_context_destroy(&ctx);
}
END_TEST

/* A word in two words of scratch, which are not adjacent: LLVM makes such code from gfx942 on; gfx90a has no such
 * instructions. */
START_TEST(scratch)
{
    static const char source[] =
        "#ifndef __global__\n#define __global__ __attribute__((global))\n#endif\n"
        "#ifdef __gfx1100__\n#define WORD \"b32\"\n#define WAIT \"s_waitcnt_vscnt null, 0\"\n"
        "#else\n#define WORD \"dword\"\n#define WAIT \"s_waitcnt vmcnt(0)\"\n#endif\n"
        "extern \"C\" __global__ void odd(unsigned *y)\n"
        "{\n"
        "    volatile unsigned char b[32];\n"
        "    unsigned t = __builtin_amdgcn_workitem_id_x(), x, z, word = t * 0x01010101u;\n"
        "    for (unsigned j = 0; j < 32; j++) b[j] = (unsigned char)(t + j * 9);\n"
        "    unsigned at = (unsigned)(__UINTPTR_TYPE__)(__attribute__((address_space(5))) char *)b;\n"
        "    asm volatile(WAIT \"\\nscratch_store_\" WORD \" %0, %1, off\\n\" WAIT : : \"v\"(at + t % 8 + 17), "
        "\"v\"(word) : \"memory\");\n"
        "    asm volatile(\"scratch_load_\" WORD \" %0, %1, off\\ns_waitcnt vmcnt(0)\" : \"=v\"(x) : \"v\"(at + t % 4 "
        "+ 1) "
        ": \"memory\");\n"
        "    asm volatile(\"scratch_load_\" WORD \" %0, %1, off\\ns_waitcnt vmcnt(0)\" : \"=v\"(z) : \"v\"(at + t % 8 "
        "+ 16) "
        ": \"memory\");\n"
        "    y[t] = x ^ z;\n"
        "}\n";
    uint32_t back[64];
    void *y, *params[] = { &y };
    hipFunction_t f;
    emu_open_device(archs[_i]);
    hipModule_t module = emu_build(archs[_i], "odd", source, NULL);
    ck_assert_int_eq(hip->hipModuleGetFunction(&f, module, "odd"), hipSuccess);
    ck_assert_int_eq(hip->hipMalloc(&y, sizeof(back)), hipSuccess);
    ck_assert_int_eq(hip->hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL), hipSuccess);
    ck_assert_int_eq(hip->hipMemcpyDtoH(back, y, sizeof(back)), hipSuccess);
    for (uint32_t i = 0; i < 64; i++) {
        uint8_t b[32];
        uint32_t word = i * 0x01010101u, x[2];
        for (uint32_t j = 0; j < 32; j++)
            b[j] = (uint8_t)(i + j * 9);
        memcpy(b + i % 8 + 17, &word, 4);
        memcpy(&x[0], b + i % 4 + 1, 4);
        memcpy(&x[1], b + i % 8 + 16, 4);
        ck_assert_uint_eq(back[i], x[0] ^ x[1]);
    }
    rfg_context_destroy(&ctx);
}
END_TEST

int main(void)
{
    if (!emu_is_there())
        return 77;
    Suite *s = suite_create("emu_align");
    TCase *tc = test_case(s, "emu_align", NULL, NULL);
    tcase_add_loop_test(tc, scratch, 1, (int)(sizeof(archs) / sizeof(archs[0])));
    ADD_LOOPS(tc, (sizeof(archs) / sizeof(archs[0])), offsets);
    return run_suite(s);
}
