/* SPDX-License-Identifier: MIT
 *
 * The emulator's transcendental functions against the C library's in double, rounded: the same bits at each of many
 * arguments. A coefficient that is off moves a double by too little for a tolerance of an f32's last place to show. */
#include <math.h>

#include "base/util.h"
#include "emu/isa/isa_math.h"
#include "tests/suite.h"

static double sine(double x)
{
    return sin(2 * 3.14159265358979323846 * x);
}

static double cosine(double x)
{
    return cos(2 * 3.14159265358979323846 * x);
}

static const struct {
    const char *name;
    float (*is)(float);
    double (*right)(double), from, to; /* where all of a series counts, and its sum has no whole part that hides it */
} functions[] = {
    { "exp2", exp2_, exp2, -0.5, 0.5 },        { "log2", log2_, log2, 0.7072, 1.4142 },
    { "sin", sin2pi_, sine, -0.125, 0.125 },   { "sin, of cos' series", sin2pi_, sine, 0.13, 0.37 },
    { "cos", cos2pi_, cosine, -0.125, 0.125 }, { "cos, of sin's series", cos2pi_, cosine, 0.13, 0.37 },
};

START_TEST(rounded_like_doubles)
{
    enum { N = 400000 };
    uint64_t seed = 11;
    int other = 0;
    for (int i = 0; i < N; i++) {
        double at = (double)(rfg_random(&seed) >> 11) * 0x1p-53;
        float x = (float)(functions[_i].from + at * (functions[_i].to - functions[_i].from));
        float is = functions[_i].is(x), right = (float)functions[_i].right((double)x);
        other += as_u32(is) != as_u32(right);
    }
    ck_assert_msg(other <= 1, "%s: %d of %d are rounded otherwise", functions[_i].name, other, N);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emu_math");
    TCase *tc = test_case(s, "math", NULL, NULL);
    ADD_LOOPS(tc, sizeof(functions) / sizeof(functions[0]), rounded_like_doubles);
    return run_suite(s);
}
