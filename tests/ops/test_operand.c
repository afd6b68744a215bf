/* SPDX-License-Identifier: MIT
 *
 * Properties of tensors that public functions compute: rows, strides, touched bytes, alignment; and which pairs of
 * tensors overlap. */
#include "ops/tensors.h"
#include "tests/suite.h"

#define AT 0x10000000

static const struct {
    const char *what;
    rfg_tensor t;
    int64_t rows, cols, inner, ld, ld_inner;
    size_t offset, extent; /* of the first byte from AT, and bytes */
    int align;             /* as a problem says it */
} good[] = {
    { "a vector", { NULL, RFG_BF16, 1, { 40 }, { 1 } }, 1, 40, 1, 40, 40, 0, 80, 16 },
    { "a vector one element on", { NULL, RFG_BF16, 1, { 40 }, { 1 } }, 1, 40, 1, 40, 40, 2, 80, 2 },
    { "an element of any stride", { NULL, RFG_F32, 1, { 1 }, { -7 } }, 1, 1, 1, 1, 1, 0, 4, 16 },
    { "packed rows of 16 bytes", { NULL, RFG_BF16, 2, { 3, 8 }, { 8, 1 } }, 3, 8, 1, 8, 8, 0, 48, 16 },
    { "packed rows of 10 bytes", { NULL, RFG_BF16, 2, { 3, 5 }, { 5, 1 } }, 3, 5, 1, 5, 5, 0, 30, 2 },
    { "rows 12 bytes apart", { NULL, RFG_F32, 2, { 2, 2 }, { 3, 1 } }, 2, 2, 1, 3, 2, 0, 20, 4 },
    { "rows 24 bytes apart", { NULL, RFG_BF16, 2, { 2, 8 }, { 12, 1 } }, 2, 8, 1, 12, 8, 0, 40, 8 },
    { "rows 5 bytes apart", { NULL, RFG_I8, 2, { 2, 4 }, { 5, 1 } }, 2, 4, 1, 5, 4, 0, 9, 1 },
    { "one row of any stride", { NULL, RFG_BF16, 2, { 1, 8 }, { -3, 1 } }, 1, 8, 1, 8, 8, 0, 16, 16 },
    { "one column of any last stride", { NULL, RFG_F32, 2, { 4, 1 }, { 6, 0 } }, 4, 1, 1, 6, 1, 0, 76, 8 },
    { "rows that fold", { NULL, RFG_BF16, 3, { 2, 3, 8 }, { 48, 16, 1 } }, 6, 8, 1, 16, 8, 0, 176, 16 },
    { "rows of rows", { NULL, RFG_BF16, 3, { 2, 3, 8 }, { 64, 8, 1 } }, 6, 8, 3, 64, 8, 0, 176, 16 },
    { "rows of rows of 10 bytes", { NULL, RFG_BF16, 3, { 2, 3, 5 }, { 64, 5, 1 } }, 6, 5, 3, 64, 5, 0, 158, 2 },
    { "rows of rows 24 bytes apart", { NULL, RFG_BF16, 3, { 2, 2, 8 }, { 36, 16, 1 } }, 4, 8, 2, 36, 16, 0, 120, 8 },
    { "one outer row", { NULL, RFG_BF16, 3, { 1, 3, 8 }, { 1, 12, 1 } }, 3, 8, 1, 12, 8, 0, 64, 8 },
    { "one inner row", { NULL, RFG_BF16, 3, { 3, 1, 8 }, { 12, 1, 1 } }, 3, 8, 1, 12, 8, 0, 64, 8 },
};

START_TEST(operands)
{
    struct rfg_operand o;
    rfg_tensor t = good[_i].t;
    t.data = (void *)(uintptr_t)(AT + good[_i].offset);
    ck_assert_msg(rfg_check_operand(&o, "fn", "t", &t, 1, 3) == RFG_OK, "%s: %s", good[_i].what, rfg_last_error());
    ck_assert_msg(o.rows == good[_i].rows && o.cols == good[_i].cols, "%s: rows, columns", good[_i].what);
    ck_assert_msg(o.inner == good[_i].inner && o.ld == good[_i].ld && o.ld_inner == good[_i].ld_inner,
                  "%s: inner %d, ld %d, ld_inner %d", good[_i].what, (int)o.inner, (int)o.ld, (int)o.ld_inner);
    ck_assert_msg(o.begin == AT + good[_i].offset && o.end == o.begin + good[_i].extent, "%s: %zu bytes", good[_i].what,
                  (size_t)(o.end - o.begin));
    ck_assert_msg(rfg_alignment(o.bits) == good[_i].align, "%s: aligned to %d", good[_i].what,
                  (int)rfg_alignment(o.bits));
}
END_TEST

#define MAX RFG_MAX_SIZE

static const struct {
    rfg_tensor t;
    size_t at;
    const char *why;
} bad[] = {
    { { NULL, RFG_DTYPE_NONE, 1, { 4 }, { 1 } }, AT, "t has dtype 0" },
    { { NULL, RFG_DTYPE_COUNT, 1, { 4 }, { 1 } }, AT, "t has dtype 27" },
    { { NULL, (rfg_dtype)-1, 1, { 4 }, { 1 } }, AT, "t has dtype -1" },
    { { NULL, RFG_F32, 0, { 4 }, { 1 } }, AT, "0 dimensions" },
    { { NULL, RFG_F32, 4, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } }, AT, "4 dimensions" },
    { { NULL, RFG_F32, INT32_MIN, { 4 }, { 1 } }, AT, "-2147483648 dimensions" },
    { { NULL, RFG_F32, 1, { -1 }, { 1 } }, AT, "a dimension of -1" },
    { { NULL, RFG_F32, 1, { INT64_MAX }, { 1 } }, AT, "a dimension of 9223372036854775807" },
    { { NULL, RFG_F32, 2, { 3, -1 }, { 1, 1 } }, AT, "t is 3 x -1" },
    { { NULL, RFG_F32, 2, { (int64_t)MAX + 1, 1 }, { 1, 1 } }, AT, "t is 2147483648 x 1" },
    { { NULL, RFG_F32, 3, { 65536, 32768, 1 }, { 32768, 1, 1 } }, AT, "rows in all" },
    { { NULL, RFG_F32, 1, { 4 }, { 2 } }, AT, "stride 2 in its last" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { 4, 0 } }, AT, "stride 0 in its last" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { 3, 1 } }, AT, "row stride 3" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { -4, 1 } }, AT, "row stride -4" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { INT64_MAX, 1 } }, AT, "row stride 9223372036854775807" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { INT64_MIN, 1 } }, AT, "row stride -9223372036854775808" },
    { { NULL, RFG_F32, 2, { 2, 4 }, { (int64_t)MAX + 1, 1 } }, AT, "at most 2147483647" },
    { { NULL, RFG_F32, 3, { 2, 3, 4 }, { 11, 4, 1 } }, AT, "row stride 11" },
    { { NULL, RFG_F32, 3, { 2, 3, 4 }, { 12, 3, 1 } }, AT, "row stride 3" },
    { { NULL, RFG_F32, 1, { 4 }, { 1 } }, 0, "data is NULL" },
    { { NULL, RFG_F32, 1, { 4 }, { 1 } }, AT + 2, "aligned to its element, 4 bytes" },
    { { NULL, RFG_BF16, 1, { 4 }, { 1 } }, AT + 1, "aligned to its element, 2 bytes" },
    { { NULL, RFG_F32, 1, { 4 }, { 1 } }, (size_t)-8, "wraps around" },
    { { NULL, RFG_F32, 2, { MAX, MAX }, { MAX, 1 } }, AT * 256ull, "wraps around" },
};

START_TEST(operand_refusals)
{
    struct rfg_operand o;
    rfg_tensor t = bad[_i].t;
    t.data = (void *)(uintptr_t)bad[_i].at;
    ck_assert_msg(rfg_check_operand(&o, "fn", "t", &t, 1, 3) == RFG_ERROR_INVALID_ARGUMENT, "%s: taken", bad[_i].why);
    ck_assert_msg(strstr(rfg_last_error(), bad[_i].why), "'%s' lacks '%s'", rfg_last_error(), bad[_i].why);
    ck_assert_msg(!strncmp(rfg_last_error(), "fn: t ", 6) || !strncmp(rfg_last_error(), "fn: t'", 6),
                  "'%s' names neither function nor argument", rfg_last_error());
}
END_TEST

/* What is large and legal is taken. */
START_TEST(largest)
{
    struct rfg_operand o;
    rfg_tensor row = rfg_tensor_2d((void *)(uintptr_t)AT, RFG_F32, 1, MAX, MAX);
    rfg_tensor column = rfg_tensor_2d((void *)(uintptr_t)AT, RFG_BF16, MAX, 1, 1);
    rfg_tensor apart = rfg_tensor_2d((void *)(uintptr_t)AT, RFG_BF16, 2, 1, MAX);
    ck_assert_msg(rfg_check_operand(&o, "fn", "row", &row, 2, 2) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_check_operand(&o, "fn", "column", &column, 2, 2) == RFG_OK, "%s", rfg_last_error());
    ck_assert_msg(rfg_check_operand(&o, "fn", "apart", &apart, 2, 2) == RFG_OK, "%s", rfg_last_error());
    ck_assert_uint_eq(o.end - o.begin, 2 * (size_t)MAX + 2);
    rfg_tensor empty = rfg_tensor_2d(NULL, RFG_F32, 0, 5, 5);
    ck_assert_msg(rfg_check_operand(&o, "fn", "empty", &empty, 2, 2) == RFG_OK, "%s", rfg_last_error());
    ck_assert_uint_eq(o.begin, o.end);
}
END_TEST

/* An output of 64 bytes against an input of 128 at all distances. */
START_TEST(overlaps)
{
    struct rfg_operand out, in;
    rfg_tensor ti = rfg_tensor_1d((void *)(uintptr_t)AT, RFG_I8, 128);
    ck_assert_int_eq(rfg_check_operand(&in, "fn", "in", &ti, 1, 1), RFG_OK);
    for (int at = -100; at < 200; at++) {
        rfg_tensor to = rfg_tensor_1d((void *)(uintptr_t)(AT + at), RFG_I8, 64);
        bool apart = at + 64 <= 0 || at >= 128;
        ck_assert_int_eq(rfg_check_operand(&out, "fn", "out", &to, 1, 1), RFG_OK);
        for (int same = 0; same < 2; same++) {
            rfg_status st = rfg_check_overlap("fn", &out, &in, same);
            ck_assert_msg((st == RFG_OK) == apart, "at %d: %s", at, rfg_status_name(st));
            ck_assert_msg((rfg_check_overlap("fn", &in, &out, same) == RFG_OK) == apart, "at %d, reversed", at);
            ck_assert(apart || (strstr(rfg_last_error(), "overlaps") && strstr(rfg_last_error(), "fn: in [")));
        }
    }
}
END_TEST

/* One and the same, but for one thing. */
START_TEST(same)
{
    static const rfg_tensor t = { NULL, RFG_BF16, 3, { 2, 3, 8 }, { 64, 8, 1 } };
    rfg_tensor others[] = { t, t, t, t, t, t };
    others[0].dtype = RFG_F16;
    others[1].shape[0] = 1;
    others[2].shape[1] = 2;
    others[3].shape[2] = 7;
    others[4].strides[0] = 72;
    others[5].strides[1] = 10;
    struct rfg_operand a, b;
    rfg_tensor x = t;
    x.data = (void *)(uintptr_t)AT;
    ck_assert_int_eq(rfg_check_operand(&a, "fn", "a", &x, 3, 3), RFG_OK);
    ck_assert_int_eq(rfg_check_overlap("fn", &a, &a, true), RFG_OK);
    ck_assert_int_ne(rfg_check_overlap("fn", &a, &a, false), RFG_OK);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        others[i].data = x.data;
        ck_assert_int_eq(rfg_check_operand(&b, "fn", "b", &others[i], 3, 3), RFG_OK);
        ck_assert_msg(rfg_check_overlap("fn", &a, &b, true) != RFG_OK, "%zu", i);
    }
}
END_TEST

/* ---- tables of a call's tensors ---------------------------------------------------------------------------------- */

enum { A, B, Y, N_TENSORS };
enum { M = 1, N };
static const struct rfg_axis axes[] = { [M] = { "rows", 0, 0 }, [N] = { "columns", 1, 8 } };
static const struct rfg_tensor_rule rules[] = {
    { "a", A, RFG_PACKED, 2, { M, N }, RFG_FLOAT_FORMATS },
    { "b", B, RFG_EITHER_WAY | RFG_OPTIONAL, 2, { M, N }, RFG_DTYPE(F32), A + 1 },
    { "y", Y, RFG_VIEW | RFG_OUT, 3, { M, 0, N | RFG_PLUS_ONE }, 0, A + 1, .reach = 2 },
};

/* a [3,4], b its transpose's rows, y [3,2,5]: but for one thing. NULL: that is right. */
static const struct {
    const char *why;
    int tensor;
    rfg_tensor t;
} calls[] = {
    { NULL, A, { NULL, RFG_BF16, 2, { 3, 4 }, { 4, 1 } } },
    { "a has row stride 5: must be its columns, 4", A, { NULL, RFG_BF16, 2, { 3, 4 }, { 5, 1 } } },
    { "a is i8: must be bf16, f16 or f32", A, { NULL, RFG_I8, 2, { 3, 4 }, { 4, 1 } } },
    { "a has dtype 99: must be bf16", A, { NULL, (rfg_dtype)99, 2, { 3, 4 }, { 4, 1 } } },
    { "a has 9 columns, columns: must be from 1 to 8", A, { NULL, RFG_BF16, 2, { 3, 9 }, { 9, 1 } } },
    { "b has 2 rows: must be a's rows, 3", B, { NULL, RFG_F32, 2, { 2, 4 }, { 1, 8 } } },
    { "b has 5 columns: must be a's columns, 4", B, { NULL, RFG_F32, 2, { 3, 5 }, { 1, 8 } } },
    { "b is f16: must be a's dtype, bf16, or f32", B, { NULL, RFG_F16, 2, { 3, 4 }, { 1, 8 } } },
    { "y is f32: must be a's dtype, bf16", Y, { NULL, RFG_F32, 3, { 3, 2, 5 }, { 10, 5, 1 } } },
    { "y has 4 in dimension 2: must be a's columns + 1, 5", Y, { NULL, RFG_BF16, 3, { 3, 2, 4 }, { 8, 4, 1 } } },
    { "from the first to the last of its 2", Y, { NULL, RFG_BF16, 3, { 3, 2, 5 }, { 5, INT64_C(1) << 31, 1 } } },
    { "its elements would overlap", Y, { NULL, RFG_BF16, 3, { 3, 2, 5 }, { 9, 5, 1 } } },
};

START_TEST(tables)
{
    rfg_tensor t[N_TENSORS] = { { NULL, RFG_BF16, 2, { 3, 4 }, { 4, 1 } },
                                { NULL, RFG_F32, 2, { 3, 4 }, { 1, 8 } },
                                { NULL, RFG_BF16, 3, { 3, 2, 5 }, { 10, 5, 1 } } };
    t[calls[_i].tensor] = calls[_i].t;
    for (int i = 0; i < N_TENSORS; i++)
        t[i].data = (void *)(uintptr_t)(AT + i * 4096);
    const rfg_tensor *const all[] = { &t[A], &t[B], &t[Y] };
    struct rfg_tensors c;
    rfg_tensors_begin(&c, "fn", axes, all, N_TENSORS);
    rfg_status st = rfg_check_tensors(&c, rules, RFG_RULES(rules));
    ck_assert_msg((st == RFG_OK) == !calls[_i].why, "%s: %s", calls[_i].why, rfg_status_name(st));
    ck_assert_msg(!calls[_i].why || strstr(rfg_last_error(), calls[_i].why), "'%s' lacks '%s'", rfg_last_error(),
                  calls[_i].why);
    if (st)
        return;
    ck_assert(rfg_size(&c, M) == 3 && rfg_size(&c, N) == 4);
    ck_assert(rfg_row_stride(&c, B) == 1 && rfg_col_stride(&c, B) == 8 && rfg_row_stride(&c, A) == 4);
    ck_assert_int_eq(rfg_check_overlaps(&c), RFG_OK);
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

int main(void)
{
    Suite *s = suite_create("operand");
    TCase *tc = test_case(s, "operand", NULL, NULL);
    ADD_TESTS(tc, largest, overlaps, same);
    ADD_LOOPS(tc, COUNT(good), operands);
    ADD_LOOPS(tc, COUNT(bad), operand_refusals);
    ADD_LOOPS(tc, COUNT(calls), tables);
    return run_suite(s);
}
