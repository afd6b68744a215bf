/* SPDX-License-Identifier: MIT
 *
 * test-emu_isa --bench: wave-instructions per second of loops, on one core. */
#include "emu_isa.h"

#include <time.h>

static const struct {
    const char *name;
    int arch;
    const char *body;
    double bar;
} loops[] = {
    { "VALU f32, int and a load", 2,
      "v_fma_f32 v4, v5, v6, v4\nv_add_u32 v7, v8, v9\nv_mul_f32 v10, v5, v6\nv_lshlrev_b32 v11, 3, v7\n"
      "v_and_b32 v12, v11, v8\nv_fmac_f32 v13, v5, v10\nglobal_load_dword v14, v[0:1], off\ns_add_u32 s4, s4, 1\n"
      "v_add_f32 v15, v13, v10\nv_cmp_lt_u32 vcc, v7, v8\nv_cndmask_b32 v16, v7, v8, vcc\nv_xor_b32 v17, v16, v8",
      30e6 },
    { "loads of 16 bytes and fma", 2,
      "global_load_dwordx4 v[20:23], v[0:1], off\nv_fmac_f32 v4, v5, v20\nv_fmac_f32 v6, v5, v21\nv_fmac_f32 v7, v5, "
      "v22\n"
      "v_fmac_f32 v8, v5, v23\nds_read_b128 v[24:27], v2\nv_fmac_f32 v9, v5, v24\nv_fmac_f32 v10, v5, v25\n"
      "v_fmac_f32 v11, v5, v26\nv_fmac_f32 v12, v5, v27",
      30e6 },
    { "VALU with DPP and constants", 2,
      "v_add_f32_dpp v4, v5, v4 row_shr:1 row_mask:0xf bank_mask:0xf\nv_mul_f32 v6, 2.0, v5\nv_add_u32 v7, s4, v8", 0 },
    { "v_mfma_f32_16x16x16_bf16", 2, "v_mfma_f32_16x16x16_bf16 a[0:3], v[4:5], v[6:7], a[0:3]", 3e6 },
    { "v_mfma_f32_16x16x16_f16", 2, "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[8:11]", 3e6 },
    { "v_mfma_f32_32x32x8_bf16", 2, "v_mfma_f32_32x32x8_bf16 a[0:15], v[4:5], v[6:7], a[0:15]", 0 },
    { "v_mfma_f32_16x16x32_fp8_fp8", 2, "v_mfma_f32_16x16x32_fp8_fp8 a[0:3], v[4:5], v[6:7], a[0:3]", 0 },
    { "v_mfma_i32_16x16x32_i8", 2, "v_mfma_i32_16x16x32_i8 a[0:3], v[4:5], v[6:7], a[0:3]", 0 },
    { "v_exp_f32", 2, "v_exp_f32 v5, v4", 0 },
    { "v_pk_fma_f32", 2, "v_pk_fma_f32 v[8:9], v[4:5], v[6:7], v[8:9]", 0 },
    { "v_wmma_f32_16x16x16_f16", 3, "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[24:31], v[8:15]", 0 },
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int emu_bench(void)
{
    printf("handlers: %s\n", emu_host());
    for (size_t k = 0; k < sizeof(loops) / sizeof(loops[0]); k++) {
        char text[4096];
        snprintf(text, sizeof(text), "1:\n%s\n%s\n%s\n%s\ns_branch 1b", loops[k].body, loops[k].body, loops[k].body,
                 loops[k].body);
        const char *p = text;
        struct snippets s;
        struct bare *b = snippets_build(&s, loops[k].arch, &p, 1);
        for (int l = 0; l < 64; l++) {
            uint64_t at = (uint64_t)(uintptr_t)memory + 16 * (uint64_t)l;
            for (int r = 2; r < 32; r++)
                b->v[r][l] = 0x3f803f80;
            b->v[0][l] = (uint32_t)at;
            b->v[1][l] = (uint32_t)(at >> 32);
            b->v[2][l] = 16 * (uint32_t)l;
        }
        b->w.exec = b->w.wave_size == 64 ? ~0ull : 0xffffffff;
        b->w.pc = s.start[0];
        emu_run(&b->w, 10000);
        uint64_t before = b->w.executed;
        double start = seconds(), took;
        do
            emu_run(&b->w, 100000);
        while ((took = seconds() - start) < 0.4);
        double rate = (double)(b->w.executed - before) / took;
        printf("%-32s %8.2f M/s %8.1f ns", loops[k].name, rate / 1e6, 1e9 / rate);
        printf(loops[k].bar != 0 ? " (bar %.0f M/s: %s)\n" : "\n", loops[k].bar / 1e6,
               rate >= loops[k].bar ? "met" : "MISSED");
        snippets_free(&s);
    }
    return 0;
}
