# SPDX-License-Identifier: MIT
"""What tests/faults.py --self-test asks: (name, file, text, every (kind, new text) of the kinds that are named there; all kinds where name is all)."""
CASES = [
    ('all', 'untouched.c', """/* a < b; x = a + 1; */
// if (a == 0) return;
#include <stdio.h>
#define N (4 + 1)
#define MORE(a) \\
    do { a = a + 1; } while (0)
enum e { A = 1, B = 2 };
struct s {
    char name[16];
    int bits : 3;
};
int f(int a[4], const char *b);
static const char *const names[] = { "a < b", "1 + 2" };
_Static_assert(sizeof(struct s) < 40, "x");
void g(int a)
{
    char text[64 + 1];
    int v[2][8];
    assert(a < 3);
    printf("%d\\n", a + 1);
    rfg_log("x", "%d", a + 1);
    switch (a) {
    case 1:
    case 1 + 1:
        break;
    }
    char *p = "a && b = 1 + 2"; /* x = 1; */
    sizeof(v[0]);
    asm volatile("s_nop 0" : "=r"(a) : "n"(1));
    free(p);
    pthread_mutex_lock(&lock);
}
""", [
        ('leak', '(void)0;'),
    ]),
    ('comparison', 'ops/a.c', """int f(int a, int b)
{
    for (int i = 0; i != a; i++)
        while (a <= b)
            b--;
    if (a > b)
        a = b;
    int m = a < b ? a : b;
    struct s *p = q->next == NULL ? a << 1 : b;
    return m >= a;
}
""", [
        ('comparison', 'while (a < b)'),
        ('comparison', 'struct s *p = q->next != NULL ? a << 1 : b;'),
        ('comparison', 'return m > a;'),
    ]),
    ('constant', 'ops/a.c', """static const struct row rows[] = {
    { "M", 0, 16 },
};
int f(int a)
{
    struct s s = { 0 };
    static const int t[2] = { [1] = 7 };
    a = __builtin_amdgcn_update_dpp(0, a, 3);
    return a + 0x0fu + 1.5f + 07;
}
""", [
        ('constant', '{ "M", 1, 16 },'),
        ('constant', '{ "M", 0, 15 },'),
        ('constant', '{ "M", 0, 17 },'),
        ('constant', 'static const int t[2] = { [1] = 8 };'),
        ('constant', 'static const int t[2] = { [1] = 6 };'),
        ('constant', 'return a + 0x10u + 1.5f + 07;'),
        ('constant', 'return a + 0x0eu + 1.5f + 07;'),
    ]),
    ('swapped', 'ops/a.c', """int f(int a, int b, char *p)
{
    g(a, b, p);
    g(s->m, s->n);
    MIN(a, b);
    return a - f(b) + a * b / c - 1;
}
int h(int a)
{
    return x - a - b + (1 << (int)n) * fabs(x - y);
}
""", [
        ('swapped', 'g(b, a, p);'),
        ('swapped', 'g(s->n, s->m);'),
        ('swapped', 'return f(b) - a + a * b / c - 1;'),
        ('swapped', 'return a - x - b + (1 << (int)n) * fabs(x - y);'),
        ('swapped', 'return x - a - b + ((int)n << 1) * fabs(x - y);'),
    ]),
    ('arithmetic', 'ops/a.c', """int f(int a, int *p)
{
    int *q = p + a, c = -a * *p;
    a += 2;
    return a && !c || (int)-a;
}
""", [
        ('arithmetic', 'int *q = p - a, c = -a * *p;'),
        ('arithmetic', 'int *q = p + a, c = -a + *p;'),
        ('arithmetic', 'a -= 2;'),
        ('arithmetic', 'return a || !c || (int)-a;'),
        ('arithmetic', 'return a && !c && (int)-a;'),
    ]),
    ('dropped', 'ops/a.c', """int f(int a, int *p)
{
    int q = g();
    if (a)
        q = 1;
    else
        c->g(a,
             q);
    a++;
    (void)g(q);
    free(p);
    rfg_warn("x");
    for (a = 0; a < 2; a++)
        p[a] += 1;
    return q;
}
""", [
        ('dropped', '(void)0;'),
        ('dropped', '(void)0;'),
        ('dropped', '(void)0;'),
        ('dropped', '(void)0;'),
        ('leak', '(void)0;'),
        ('dropped', '(void)0;'),
    ]),
    ('mask', 'ops/a.c', """int f(int a, int n)
{
    int *p = &a;
    a = a >> 4 & 15;
    a = (a & (n - 1)) + *p % n;
    return MIN(a, n) + (a & n);
}
""", [
        ('mask', 'a = a >> 4;'),
        ('mask', 'a = (a) + *p % n;'),
        ('mask', 'a = (a & (n - 1)) + *p;'),
        ('mask', 'return (a) + (a & n);'),
        ('mask', 'return (n) + (a & n);'),
    ]),
    ('barrier', 'ops/a.hip', """RFG_KERNEL(64) f(struct f_args a)
{
    rfg_barrier_lds();
    if (a.n)
        __builtin_amdgcn_s_barrier();
    asm volatile("s_barrier");
#if RFG_NVIDIA
    rfg_barrier();
#endif
}
""", [
        ('barrier', '(void)0;'),
        ('barrier', '(void)0;'),
        ('barrier', '(void)0;'),
    ]),
    ('wait', 'ops/a.c', """hipError_t f(struct c *c)
{
    asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    while (c->n)
        pthread_cond_wait(&c->cond, &c->lock);
    rfg_await_previous();
    hipError_t e = c->hip->hipStreamSynchronize(c->s);
    return hipDeviceSynchronize();
}
""", [
        ('wait', '(void)0;'),
        ('wait', '(void)0;'),
        ('wait', 'hipError_t e = 0;'),
        ('wait', 'return 0;'),
    ]),
    ('rounding', 'ops/a.c', """int f(float a, int b)
{
    unsigned u = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    int n = (b + c[1] - 1) / c[1];
    return rintf(a) + ceil_div(b, 4);
}
""", [
        ('rounding', 'unsigned u = (b + 0 + (b >> 16 & 1)) >> 16;'),
        ('rounding', 'unsigned u = (b + 0x8000 + (b >> 16 & 1)) >> 16;'),
        ('rounding', 'int n = (b) / c[1];'),
        ('rounding', 'return floorf(a) + ceil_div(b, 4);'),
        ('rounding', 'return rintf(a) + ((b) / (4));'),
    ]),
    ('check', 'ops/a.c', """bool f(int a, struct rfg_reason *why)
{
    if (a < 1)
        return rfg_refuse(why, "a is %d: must be 1", a);
    if (!valid(a, why))
        return false;
    if (a == 3)
        return false;
    if (a > 2 &&
        a < 9) {
        a = 2;
        return BAD("a");
    }
    if (a == 5)
        st = rfg_fail(RFG_ERROR_IO, "x");
    else if (a == 6)
        a = 2;
    return a > 1 || rfg_refuse(why, "a is %d", a);
}
""", [
        ('check', 'if ((a < 1) && 0)'),
        ('check', 'if ((!valid(a, why)) && 0)'),
        ('check', 'if ((a > 2 && a < 9) && 0) {'),
        ('check', 'if ((a == 5) && 0)'),
        ('check', 'return a > 1 || true;'),
    ]),
    ('unlock', 'ops/a.c', """void f(void)
{
    pthread_mutex_lock(&m);
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    flock(fd, LOCK_EX);
    flock(fd, LOCK_UN);
}
""", [
        ('unlock', '(void)0;'),
        ('unlock', '(void)0;'),
        ('unlock', '(void)0;'),
    ]),
    ('status', 'ops/a.c', """rfg_status f(void)
{
    rfg_status st = g(1);
    int other = g(2);
    if (st != RFG_OK)
        return st;
    st = h(2);
    if (other)
        return rfg_fail(RFG_ERROR_IO, "x");
    if (st)
        return RFG_ERROR_DEVICE;
    return other;
}
""", [
        ('status', 'rfg_status st = (g(1), RFG_OK);'),
        ('status', 'if ((st != RFG_OK) && 0)'),
        ('status', 'return RFG_OK;'),
        ('status', 'st = (h(2), RFG_OK);'),
        ('status', 'return rfg_fail(RFG_OK, "x");'),
        ('status', 'return RFG_OK;'),
    ]),
    ('branches', 'ops/a.c', """int f(int a)
{
#if A
    if (a) {
#else
    if (!a) {
#endif
        a = 1;
    }
    return a < 2;
}
""", [
        ('dropped', '(void)0;'),
        ('comparison', 'return a <= 2;'),
    ]),
    ('all', 'rfg/a.py', """\"\"\"x = 1 + 2\"\"\"
LIMIT = 8  # 1 + 2


def f(a, b=True):
    \"\"\"a < b\"\"\"
    c = a + 1 if a is not None else b
    if a < 0:
        raise Error("f: a is %d" % (a - 1))
    c = g(a) and not b
    a.n = c
    g(c, "a" + "b")
    print(a + 1)
    return "%d" % (a * c)
""", [
        ('constant', 'LIMIT = 7 # 1 + 2'),
        ('constant', 'LIMIT = 9 # 1 + 2'),
        ('constant', 'def f(a, b=False):'),
        ('arithmetic', 'c = a - 1 if a is not None else b'),
        ('constant', 'c = a + 0 if a is not None else b'),
        ('constant', 'c = a + 2 if a is not None else b'),
        ('comparison', 'c = a + 1 if a is None else b'),
        ('check', 'if (a < 0) and False:'),
        ('comparison', 'if a <= 0:'),
        ('constant', 'if a < 1:'),
        ('dropped', 'pass'),
        ('arithmetic', 'c = g(a) or not b'),
        ('dropped', 'pass'),
        ('dropped', 'pass'),
    ]),
]
