/* SPDX-License-Identifier: MIT
 *
 * Correct kernels: divergent control flow. */

ITEM(loop_break)
{
    unsigned sum = 0;
    for (int k = 0; k < n; k++) {
        if (x >> (k & 31) & 1 && sum > 40)
            break;
        sum += (x ^ (unsigned)k) & 15;
    }
    return sum + i;
}

ITEM(loop_continue)
{
    unsigned sum = 0;
    for (unsigned k = 0; k < (x & 63); k++) {
        if ((x >> (k & 31)) & 1)
            continue;
        if ((in[k] ^ x) & 2)
            continue;
        sum += k * 3 + in[k];
    }
    return sum;
}

ITEM(loop_nested)
{
    unsigned sum = 0;
    for (unsigned a = 0; a < (x & 7) + 1; a++) {
        for (unsigned b = 0; b < (x >> 3 & 15); b++) {
            if (((a * b) ^ x) % 11 == 3)
                break;
            if (b > 9 && (x & 0x100))
                goto out;
            sum += a * b + 1;
        }
        if (sum > 200)
            break;
    }
out:
    return sum * 2 + (unsigned)n;
}

ITEM(loop_while)
{
    unsigned steps = 0, v = (x & 0xffff) + 1;
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        steps++;
    }
    return steps + (i & 1);
}

/* Two ways out of a loop, each with its own value. */
ITEM(loop_two_breaks)
{
    unsigned result = 7;
    for (unsigned k = 0;; k++) {
        if ((in[(i + k) % ITEMS] & 15) == 5) {
            result = k;
            break;
        }
        if ((in[(i + 2 * k) % ITEMS] & 31) == 9) {
            result = 1000 + k;
            break;
        }
        if (k > 50)
            break;
    }
    return result;
}

ITEM(loop_return)
{
    for (unsigned k = 0; k < 100; k++) {
        if ((x >> (k % 29) & 7) == 6)
            return k;
        if (x < k << 24)
            return 500 + k;
    }
    return (unsigned)n;
}

/* A state machine. */
ITEM(loop_switch)
{
    unsigned state = x & 3, sum = 0;
    for (unsigned k = 0; k < 40; k++)
        switch (state) {
        case 0:
            sum += k;
            state = x >> (k & 31) & 1 ? 1 : 2;
            break;
        case 1:
            sum ^= k << 3;
            state = sum & 4 ? 3 : 0;
            continue;
        case 2:
            if (sum > 1000)
                return sum;
            state = 3;
            break;
        default:
            sum += 100;
            state = x >> (k & 15) & 3;
        }
    return sum;
}

ITEM(loop_do_while)
{
    unsigned v = x, count = 0;
    do {
        count++;
        if (v % 7 == 0) {
            v = v / 7 + 1;
            continue;
        }
        if (v % 5 == 0)
            break;
        v -= v / 3 + 1;
    } while (v > 10);
    return count << 8 | (v & 255);
}

ITEM(loop_search)
{
    unsigned found = ITEMS;
    for (unsigned k = 0; k < ITEMS; k++)
        if (((in[k] ^ x) & 0x3f) == 0 && k != i) {
            found = k;
            break;
        }
    return found;
}

ITEM(loop_halving)
{
    unsigned lo = 0, hi = 1 << 16, want = x & 0xffffff;
    while (lo < hi) {
        unsigned mid = (lo + hi) / 2;
        if (mid * mid / 7 < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

ITEM(loop_gcd)
{
    unsigned a = x | 1, b = (in[(i + 1) % ITEMS] >> 8) + 1;
    while (b) {
        unsigned t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* Conditions that are asked for only if the ones before hold. */
ITEM(loop_conditions)
{
    unsigned k = 0, sum = 0;
    while (k < 64 && (in[k] & 63) != (x & 63) && (k < 10 || (in[k + 1] & 1) || sum < 300)) {
        if ((x & 1 && in[k] & 2) || (x & 4 && !(in[k] & 8)))
            sum += in[k] & 31;
        k++;
    }
    return sum << 8 | k;
}

/* A flag carried round the loop: a lane mask in SGPRs. */
ITEM(loop_flag)
{
    int found = 0, odd = 0;
    unsigned k;
    for (k = 0; k < 32 && !found; k++) {
        found = (x >> k & 5) == 5;
        odd ^= (x >> k & 1) && !(k & 1);
    }
    return k << 2 | (found ? 2u : 0u) | (odd ? 1u : 0u);
}

/* Is used only where it was set. */
ITEM(value_of_a_branch)
{
    unsigned v;
    int known = (x & 3) == 1;
    if (known)
        v = x * 3;
    unsigned sum = in[(i + 5) % ITEMS];
    for (unsigned k = 0; k < (x >> 28); k++)
        sum = sum * 5 + k;
    if (known)
        sum += v;
    return sum;
}

ITEM(loop_of_three)
{
    unsigned sum = 0;
    for (unsigned a = 0; a < 3; a++) {
        unsigned k = x >> (8 * a) & 31;
        for (;;) {
            for (unsigned c = 0; c < (k & 3); c++) {
                sum += c + a;
                if (sum % 13 == 5)
                    break;
            }
            if (k-- == 0)
                break;
            if ((k & 3) == 2)
                continue;
            sum += k;
        }
        if (sum & 1)
            continue;
        sum += 3;
    }
    return sum;
}

/* ---- functions ---- */

FUNCTION NOINLINE unsigned mixed(unsigned a, unsigned b)
{
    unsigned r = a * 2654435761u ^ b;
    while (r & 0x10)
        r = r >> 1 ^ 0x5bd1e995u * (r & 1);
    return r;
}

ITEM(calls)
{
    unsigned sum = i;
    for (unsigned k = 0; k < (x & 7); k++)
        if (x >> k & 8)
            sum = mixed(sum, x);
        else if (sum & 1)
            break;
        else
            sum += mixed(k, x ^ sum);
    return sum;
}

FUNCTION NOINLINE unsigned depth_of(unsigned v, unsigned depth)
{
    if (depth == 0 || v < 5)
        return v;
    unsigned left = depth_of(v / 2, depth - 1);
    return left + (v & 1 ? depth_of(v / 3, depth - 1) : 1) + depth;
}

ITEM(calls_itself)
{
    return depth_of(x & 0xfff, 4) + (unsigned)n;
}

ITEM(calls_by_pointer)
{
    unsigned (*volatile f)(unsigned, unsigned) = mixed;
    unsigned r = x;
    if (x & 1)
        r = f(x, i);
    return r;
}

/* ---- arrays of a work-item ---- */

ITEM(array_small)
{
    unsigned a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (unsigned k = 0; k < 12; k++)
        a[x >> k & 7] += k + a[(x >> k >> 3) & 7];
    return a[0] + 2 * a[1] + 3 * a[2] + 5 * a[3] + 7 * a[4] + 11 * a[5] + 13 * a[6] + a[x >> 29];
}

/* Not all of it is written before some is read. */
ITEM(array_filled_by_and_by)
{
    unsigned a[16], filled = 0, sum = 0;
    for (unsigned k = 0; k < (x & 15) + 1; k++) {
        a[filled++] = x * k + 1;
        if (filled > 2 && (x >> k & 1))
            sum += a[--filled];
        sum += a[filled - 1];
    }
    return sum;
}

ITEM(array_sorted)
{
    unsigned a[24];
    for (unsigned k = 0; k < 24; k++)
        a[k] = in[(i + k) % ITEMS] & 0xff;
    for (int k = 1; k < 24; k++) {
        unsigned v = a[k];
        int j = k - 1;
        while (j >= 0 && a[j] > v) {
            a[j + 1] = a[j];
            j--;
        }
        a[j + 1] = v;
    }
    unsigned r = 0;
    for (unsigned k = 0; k < 24; k++)
        r = r * 31 + a[k];
    return r;
}

ITEM(array_of_bytes)
{
    unsigned char b[32];
    for (unsigned k = 0; k < 32; k++)
        b[k] = (unsigned char)(x >> (k & 24) ^ k);
    for (unsigned k = 0; k < 16; k++) {
        unsigned char t = b[k + (x >> k & 15)];
        b[k + (x >> k & 15)] = b[k];
        b[k] = t;
    }
    unsigned r = 0;
    for (unsigned k = 0; k < 32; k++)
        r = r * 17 + b[k];
    return r;
}

struct pair_of {
    unsigned short a;
    unsigned char b, c;
    unsigned long long d;
};

FUNCTION NOINLINE struct pair_of made(unsigned x)
{
    struct pair_of p = { (unsigned short)x, (unsigned char)(x >> 16), 3, (unsigned long long)x * x };
    return p;
}

ITEM(structs)
{
    struct pair_of p = made(x), q = made(x + i);
    if (x & 1)
        p = q;
    p.c += p.b;
    return p.a + p.b * 3u + p.c * 5u + (unsigned)(p.d >> 20);
}

/* ---- more registers than there are ---- */

/* Many values that are the same in the whole wave, all alive over a loop: SGPRs go to lanes of VGPRs, and to memory. */
ITEM(many_scalars)
{
    unsigned s[96], r = x;
#ifdef __AMDGCN__
#pragma unroll
#endif
    for (int k = 0; k < 96; k++)
        s[k] = in[k * 7] * (unsigned)n;
    for (unsigned step = 0; step < (x & 3) + 1; step++) {
#ifdef __AMDGCN__
#pragma unroll
#endif
        for (int k = 0; k < 96; k++)
            r = (r ^ s[k]) * 5 + (unsigned)k;
        if (r & 0x40)
            break;
    }
    return r;
}

#ifdef __AMDGCN__
extern "C" __global__ void
    __attribute__((amdgpu_flat_work_group_size(SIZE, SIZE), amdgpu_num_vgpr(32), amdgpu_num_sgpr(40)))
    few_registers(const unsigned *in, unsigned *out, int n)
{
    unsigned v[64], r = 0;
#pragma unroll
    for (int k = 0; k < 64; k++)
        v[k] = in[(ME + 9 * k) % ITEMS] + in[k];
    for (unsigned step = 0; step < (in[ME] & 3) + 1; step++) {
#pragma unroll
        for (int k = 0; k < 64; k++) {
            r = (r + v[k]) * 3;
            v[k] ^= r;
        }
        if (r & 1)
            break;
    }
    out[ME] = r + (unsigned)n;
}
#else
HOST(few_registers)
{
    for (int i = 0; i < ITEMS; i++) {
        unsigned v[64], r = 0;
        for (int k = 0; k < 64; k++)
            v[k] = in[(i + 9 * k) % ITEMS] + in[k];
        for (unsigned step = 0; step < (in[i] & 3) + 1; step++) {
            for (int k = 0; k < 64; k++) {
                r = (r + v[k]) * 3;
                v[k] ^= r;
            }
            if (r & 1)
                break;
        }
        out[i] = r + (unsigned)n;
    }
}
#endif

/* ---- arithmetic ---- */

ITEM(divisions)
{
    unsigned long long a = (unsigned long long)x << 20 | i, b = (in[(i + 3) % ITEMS] >> 3) + 1;
    long long c = (long long)(int)x * 77777, d = (int)(x >> 20) - 1000;
    unsigned r = (unsigned)(a / b) + (unsigned)(a % b);
    if (d)
        r += (unsigned)(c / d) ^ (unsigned)(c % d);
    return r;
}

/* Sums and products that are exact. */
ITEM(floats)
{
    float f = (float)(x & 0xff), sum = 0;
    double d = (double)(x >> 16);
    for (unsigned k = 0; k < (x & 15); k++) {
        sum += f * (float)k;
        if (sum > 5000)
            break;
        d = d * 2 + 1;
    }
    return (unsigned)sum + (unsigned)(unsigned long long)d;
}

ITEM(halves)
{
    _Float16 h[4], sum = 0;
    for (int k = 0; k < 4; k++)
        h[k] = (_Float16)(float)(x >> (8 * k) & 7);
    for (int k = 0; k < 4; k++)
        if (x >> k & 16)
            sum += h[k] * h[3 - k];
    float f = (float)sum + (float)h[1] * (float)h[2];
    return (unsigned)(int)f + (i & 3);
}
