/* SPDX-License-Identifier: MIT
 *
 * Large sparse allocations of the emulated GPU. */
#include "dispatch/context.h"
#include "emu/run/front.h"
#include "emu/hip/hip_emu.h"
#include "tests/suite.h"

#define OK(call) ck_assert_msg((call) == hipSuccess, "%s", #call)

/* Kilobytes that the process has in memory. */
static long resident(void)
{
    char line[200];
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    ck_assert_int_eq(sscanf(line, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * 4;
}

/* Poison to the last byte, and nothing but what is written of it. */
START_TEST(large_memory_costs_what_is_touched)
{
    size_t size = ((size_t)1 << 31) + 12345;
    unsigned char back[3] = { 0 }, one = 7;
    void *p;
    const struct rfg_hip *hip = rfg_hip_emu(NULL);
    char error[256];
    int device = rfg_emu_open("gfx90a:4", error, sizeof(error));
    ck_assert_msg(device >= 0, "%s", error);
    OK(hip->hipSetDevice(device));
    long before = resident();
    OK(hip->hipMalloc(&p, size));
    for (size_t at = 0; at < size; at += size / 7) {
        OK(hip->hipMemcpyHtoD((char *)p + at, &one, 1));
        OK(hip->hipMemcpyDtoH(back, (char *)p + at, 3));
        ck_assert(back[0] == 7 && back[1] == 0xff && back[2] == 0xff);
    }
    OK(hip->hipMemcpyDtoH(back, (char *)p + size - 3, 3));
    ck_assert(back[0] == 0xff && back[1] == 0xff && back[2] == 0xff);
    ck_assert(hip->hipMemcpyDtoH(back, (char *)p + size - 2, 3) == hipErrorInvalidValue);
    ck_assert_int_lt(resident() - before, 100000);
    OK(hip->hipFree(p));
    ck_assert_int_eq(emu_reports("red-zone-overwritten"), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_memory");
    TCase *tc = test_case(s, "emu_memory", NULL, NULL);
    ADD_TESTS(tc, large_memory_costs_what_is_touched);
    return run_suite(s);
}
