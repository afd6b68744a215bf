/* SPDX-License-Identifier: MIT
 *
 * The counters on gfx950: matrix cycles, banks of the LDS. */
#include "emu/count/counters.h"
#include "tests/suite.h"

/* gfx950's: by the formats, and fp64 at half of gfx942's rate. CDNA4's guide, 7.1.5; LLVM 22's s_nops
 * after them agree. */
START_TEST(matrix_cycles_of_gfx950)
{
    static const struct {
        const char *arch, *name;
        int cbsz, blgp;
        unsigned cycles;
    } cases[] = {
        { "gfx950", "v_mfma_f32_16x16x32_bf16", 0, 0, 16 },
        { "gfx950", "v_mfma_f32_32x32x16_f16", 0, 0, 32 },
        { "gfx950", "v_mfma_f32_16x16x128_f8f6f4", 0, 0, 32 },
        { "gfx950", "v_mfma_f32_16x16x128_f8f6f4", 4, 1, 32 },
        { "gfx950", "v_mfma_f32_16x16x128_f8f6f4", 2, 4, 16 },
        { "gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4", 0, 4, 64 },
        { "gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4", 4, 4, 32 },
        { "gfx950", "v_mfma_f64_16x16x4_f64", 0, 0, 64 },
        { "gfx942", "v_mfma_f64_16x16x4_f64", 0, 0, 32 },
        { "gfx950", "v_smfmac_f32_32x32x64_fp8_bf8", 0, 0, 32 },
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct emu_mods mods = { .cbsz = (uint8_t)cases[k].cbsz, .blgp = (uint8_t)cases[k].blgp };
        struct emu_inst i = { .op = emu_op_find(cases[k].name), .mods = &mods };
        ck_assert_uint_eq(emu_matrix_cycles(emu_matrix_row(emu_arch_find(cases[k].arch), &i)), cases[k].cycles);
    }
}
END_TEST

/* gfx950's LDS: loads of 8 and 16 bytes have 64 banks and twice the lanes at a time. */
START_TEST(lds_of_gfx950)
{
    static const struct {
        int bytes, stride;
        bool store;
        unsigned ideal, conflicts, on_gfx942[2];
    } cases[] = { { 8, 8, false, 2, 0, { 4, 0 } },     { 16, 16, false, 4, 0, { 8, 0 } },
                  { 4, 4, false, 2, 0, { 2, 0 } },     { 16, 16, true, 8, 0, { 8, 0 } },
                  { 8, 8, true, 4, 0, { 4, 0 } },      { 8, 256, false, 2, 62, { 4, 60 } },
                  { 16, 256, false, 4, 60, { 8, 56 } } };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
        for (int old = 0; old < 2; old++) {
            struct emu_access a = { .space = EMU_LDS_SPACE,
                                    .kind = cases[k].store ? EMU_STORE : EMU_LOAD,
                                    .bytes = (uint8_t)cases[k].bytes,
                                    .lanes = ~0ull };
            unsigned ideal, conflicts;
            for (int l = 0; l < 64; l++)
                a.addr[l] = (uint64_t)(l * cases[k].stride);
            emu_lds_cycles(emu_arch_find(old ? "gfx942" : "gfx950"), &a, &ideal, &conflicts);
            ck_assert_msg(ideal == (old ? cases[k].on_gfx942[0] : cases[k].ideal) &&
                              conflicts == (old ? cases[k].on_gfx942[1] : cases[k].conflicts),
                          "case %zu: %u + %u", k, ideal, conflicts);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_gfx950");
    TCase *tc = test_case(s, "emu", NULL, NULL);
    ADD_TESTS(tc, matrix_cycles_of_gfx950, lds_of_gfx950);
    return run_suite(s);
}
