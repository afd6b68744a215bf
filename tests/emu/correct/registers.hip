/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: registers and what takes their place: spills, arrays in registers, calls, jump tables, pointers to
 * a work-item's own memory. */

/* Values that live over a divergent loop with calls: masks and registers go to memory and come back. */
FUNCTION NOINLINE unsigned stirred(unsigned a, unsigned b, unsigned c)
{
    for (unsigned k = 0; k < (c & 3); k++) {
        if (a & 1 << k)
            break;
        a = a * 3 + b;
    }
    return a ^ b;
}

ITEM(spills_over_calls)
{
    unsigned a = x, b = i, c = in[i ^ 1], d = in[i ^ 2], e = in[i ^ 4], sum = 0;
    for (unsigned k = 0; k < (x & 7); k++) {
        unsigned f = a * b, g = c ^ d, h = e + k;
        if (f & 8) {
            sum += stirred(f, g, h);
            if (sum & 0x20)
                continue;
            sum += stirred(g, h, f) + f;
        } else if ((g & 12) == 12)
            break;
        a += stirred(h, a, k) + b;
        c ^= sum;
    }
    return sum + a + b * 3 + c * 5 + d * 7 + e * 11;
}

/* Calls within calls, with more arguments than there are registers for them. */
struct wide_of {
    unsigned v[20];
};

FUNCTION NOINLINE unsigned many_arguments(unsigned a, struct wide_of w, unsigned long long l, unsigned z, unsigned k)
{
    unsigned r = a;
    for (int j = 0; j < 20; j++)
        r = r * 3 + w.v[j];
    return r + (unsigned)(l >> 7) + (z ? w.v[k & 15] : k);
}

FUNCTION NOINLINE struct wide_of widened(unsigned x)
{
    struct wide_of w;
    for (unsigned j = 0; j < 20; j++)
        w.v[j] = x * j + (x >> j);
    return w;
}

ITEM(stack_arguments)
{
    struct wide_of w = widened(x);
    unsigned r = many_arguments(x, w, (unsigned long long)x * x, i & 1, x >> 3);
    if (r & 4)
        r += many_arguments(r, widened(r), r, 0, i);
    return r;
}

/* Vectors whose element is chosen at run time, the same for all or not: v_movrel, waterfalls. */
#ifdef __AMDGCN__
typedef unsigned uint16_ __attribute__((ext_vector_type(16)));
KERNEL(vector_elements)
{
    uint16_ v;
    unsigned x = in[ME], sum = 0;
    for (unsigned k = 0; k < 16; k++)
        v[k] = x * k + k;
    for (int k = 0; k < 6; k++) {
        int same = UNIFORM((int)in[k] & 15);
        v[same] += sum + 1;
        sum += v[(n + k) & 15];
        v[x >> k & 15] ^= 3;
        sum ^= v[x >> (k + 3) & 15];
    }
    for (int k = 0; k < 16; k++)
        sum = sum * 3 + v[k];
    out[ME] = sum;
}
#else
HOST(vector_elements)
{
    for (int i = 0; i < ITEMS; i++) {
        unsigned v[16], x = in[i], sum = 0;
        for (unsigned k = 0; k < 16; k++)
            v[k] = x * k + k;
        for (int k = 0; k < 6; k++) {
            v[in[k] & 15] += sum + 1;
            sum += v[(n + k) & 15];
            v[x >> k & 15] ^= 3;
            sum ^= v[x >> (k + 3) & 15];
        }
        for (int k = 0; k < 16; k++)
            sum = sum * 3 + v[k];
        out[i] = sum;
    }
}
#endif

/* Only some elements are ever written, and only those are read. */
#ifdef __AMDGCN__
KERNEL(vector_in_part)
{
    uint16_ v;
    unsigned x = in[ME];
    int at = UNIFORM(n & 7);
    v[at] = x;
    v[at + 1] = x * 3;
    if (x & 1)
        v[at + 2] = x * 5;
    else
        v[at + 2] = 9;
    for (unsigned k = 0; k < (x & 3); k++)
        v[at + (int)(k & 1)] += v[at + 2] + k;
    out[ME] = v[at] + v[at + 1] * 2 + v[at + 2] * 4;
}
#else
HOST(vector_in_part)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned x = in[i], v[3] = { x, x * 3, x & 1 ? x * 5 : 9 };
        for (unsigned k = 0; k < (x & 3); k++)
            v[k & 1] += v[2] + k;
        out[i] = v[0] + v[1] * 2 + v[2] * 4;
    }
}
#endif

/* Sixteen cases: a jump table, or a tree of branches. */
ITEM(jump_table)
{
    unsigned r = i;
    for (unsigned k = 0; k < 3; k++)
        switch (x >> 4 * k & 15) {
        case 0:
            r += 5;
            break;
        case 1:
            r *= 3;
        /* falls through */
        case 2:
            r ^= x;
            break;
        case 3:
            r = r << 3 | r >> 29;
            break;
        case 4:
            r -= in[r % ITEMS];
            break;
        case 5:
            return r;
        case 6:
            r /= 3;
            break;
        case 7:
            r += r & 15 ? 7 : in[k];
            break;
        case 8:
            r = ~r;
            break;
        case 9:
            continue;
        case 10:
            r *= r;
            break;
        case 11:
            r += k;
            break;
        case 12:
            r %= 1000;
            break;
        default:
            r ^= 0x5555;
            break;
        }
    return r;
}

/* Functions by a table: lanes call different ones. */
FUNCTION NOINLINE unsigned twice(unsigned v)
{
    return 2 * v + 1;
}
FUNCTION NOINLINE unsigned sum_to(unsigned v)
{
    unsigned s = 0;
    for (unsigned k = 0; k < (v & 15); k++)
        s += k * v;
    return s;
}
FUNCTION NOINLINE unsigned other_way(unsigned v)
{
    return v & 1 ? twice(v) : sum_to(v >> 2);
}
ITEM(calls_by_table)
{
    unsigned (*volatile f)(unsigned) = x & 1 ? twice : x & 2 ? sum_to : other_way;
    unsigned r = f(x);
    if (r & 3)
        r += f(i);
    return r;
}

/* Pointers to a work-item's own array go to a function that doesn't know what they are: FLAT to scratch. */
FUNCTION NOINLINE void turned(unsigned *a, int n, unsigned *swaps)
{
    for (int k = 0; k < n / 2; k++)
        if ((a[k] ^ a[n - 1 - k]) & 4) {
            unsigned t = a[k];
            a[k] = a[n - 1 - k];
            a[n - 1 - k] = t;
            ++*swaps;
        }
}
ITEM(pointers_to_own)
{
    unsigned a[12], swaps = 0, r = 0;
    for (unsigned k = 0; k < 12; k++)
        a[k] = x >> k;
    turned(a + (x & 1), 10, &swaps);
    for (unsigned k = 0; k < 12; k++)
        r = r * 7 + a[k];
    return r + swaps;
}

/* A struct with holes is copied whole, the holes never written. */
struct with_holes {
    unsigned char a;
    unsigned b;
    unsigned short c;
    unsigned long long d;
};
FUNCTION NOINLINE struct with_holes next_of(struct with_holes p)
{
    struct with_holes q = p;
    q.a++;
    q.d += q.b;
    return q;
}
ITEM(holes)
{
    struct with_holes p, all[3];
    p.a = (unsigned char)x;
    p.b = x >> 8;
    p.c = (unsigned short)i;
    p.d = 5;
    for (int k = 0; k < 3; k++) {
        all[k] = p;
        p = next_of(p);
    }
    p = all[x % 3];
    return p.a + p.b + p.c + (unsigned)p.d;
}

/* Bytes and shorts of an array of a work-item, read as words where they were written as such. */
ITEM(array_of_all_sizes)
{
    union {
        unsigned char b[32];
        unsigned short h[16];
        unsigned w[8];
        unsigned long long l[4];
    } u;
    for (unsigned k = 0; k < 4; k++)
        u.l[k] = (unsigned long long)x << k * 5;
    for (unsigned k = 0; k < 8; k++)
        u.b[x >> k & 31] ^= (unsigned char)k;
    for (unsigned k = 0; k < 5; k++)
        u.h[(x >> 2 * k) & 15] += u.b[k];
    return u.w[x & 7] + u.h[3] + (unsigned)(u.l[2] >> 9);
}

/* A search that is left from three loops down, with what was found on the way. */
ITEM(deep_return)
{
    unsigned best = 0, where = 99;
    for (unsigned a = 0; a < 5; a++)
        for (unsigned b = 0; b < 4; b++)
            for (unsigned c = 0; c < 3; c++) {
                unsigned v = (x * (a + 1) ^ (b << 3)) + c * 7;
                if ((v & 0x3f) == 7)
                    return where * 3 + a + 10 * b + 100 * c;
                if ((v & 31) > best) {
                    best = v & 31;
                    where = a * 12 + b * 3 + c;
                    if (best == 31)
                        goto found;
                }
            }
    return best;
found:
    return 1000 + where;
}

/* Lanes leave one after another; each takes with it what it had when it left. */
ITEM(leave_one_by_one)
{
    unsigned v = x, kept = 0, at = 0, flags = 0;
    for (unsigned k = 0; k < 24; k++) {
        unsigned t = v & 7;
        if (t == 1) {
            kept = v;
            flags |= 1;
            break;
        }
        if (t == 6 && k > 4) {
            at = k;
            flags |= 2;
            break;
        }
        if (t & 4)
            v = v / 2 + k;
        else
            v = v * 5 + 1;
    }
    if (flags & 1)
        return kept ^ i;
    return flags ? at : v;
}

/* Scalars that every lane shares, and a wave's own decision. */
ITEM(scalar_chains)
{
    unsigned s = (unsigned)n, t = in[3];
    for (int k = 0; k < n % 13; k++) {
        s = s * 1664525u + 1013904223u;
        t ^= in[s % ITEMS];
        if (t & 0x40000)
            s += t >> 3;
        else if (!(s & 3))
            break;
    }
    return s + t * 3 + x + (i & 1 ? s >> 4 : t >> 5);
}

/* 128 bits, and shifts of 64. */
ITEM(wide_integers)
{
    unsigned __int128 a = (unsigned __int128)x * 0x123456789abcdefull, b = a + ((unsigned __int128)i << 70);
    unsigned long long c = (unsigned long long)(b >> (x & 63)), d = c << (i & 31);
    long long e = (long long)(d ^ c) >> (x & 15);
    return (unsigned)c + (unsigned)(d >> 32) + (unsigned)e + (unsigned)(b > a);
}

/* Bits: counts, reversals, rotations, bytes. */
ITEM(bits)
{
    unsigned r = (unsigned)__builtin_popcount(x) + 32 * (unsigned)__builtin_clz(x | 1) +
                 1024 * (unsigned)__builtin_ctz(x | 0x80000000u);
    r += __builtin_bswap32(x) ^ (x << (i & 31) | (x >> ((32 - (i & 31)) & 31)));
    r += (unsigned)__builtin_popcountll((unsigned long long)x * x);
    unsigned b = 0;
    for (unsigned k = 0; k < 32; k++)
        b |= (x >> k & 1) << (31 - k);
    return r ^ b;
}

/* Of 8, 16 and 64 bits, signed; the least, the greatest, the middle. */
ITEM(small_integers)
{
    signed char a = (signed char)x;
    short b = (short)(x >> 8);
    unsigned char c = (unsigned char)(x >> 4);
    int lo = a < b ? a : b, hi = a < b ? b : a, mid = c < lo ? lo : c > hi ? hi : c;
    short s = (short)(a * b);
    signed char t = (signed char)(s >> 3);
    unsigned short u = (unsigned short)(c * 257u + (unsigned)b);
    int sat = (int)b * 3;
    sat = sat > 32767 ? 32767 : sat < -32768 ? -32768 : sat;
    return (unsigned)(mid + t + sat) + u + (i & 3);
}

/* Differences of bytes, fields, and products of halves. */
ITEM(fields)
{
    unsigned y = in[i ^ 1], sad = 0, dot = 0;
    for (unsigned k = 0; k < 4; k++) {
        unsigned p = x >> 8 * k & 255, q = y >> 8 * k & 255;
        sad += p > q ? p - q : q - p;
        dot += p * q;
    }
    int part = (int)(x << 7) >> 20;
    unsigned mix = (x & 0x00ff00ff) | (y & 0xff00ff00);
    return sad + dot * 3 + (unsigned)part + mix + (x & 0xffff) * (y >> 16) +
           (unsigned)((unsigned long long)x * y >> 32);
}
