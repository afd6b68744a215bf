/* SPDX-License-Identifier: MIT
 *
 * Kernels of which a workgroup's waves share LDS. */

/* Fetched a tile ahead into registers, computed from the LDS of the other buffer. */
#ifdef __AMDGCN__
KERNEL(double_buffer)
{
    __shared__ unsigned tile[2][SIZE];
    unsigned next = in[TID], sum = 0;
    for (int k = 0; k < 6; k++) {
        tile[k & 1][TID] = next;
        next = in[(TID + 64 * (k + 1)) % ITEMS];
        BARRIER;
        for (int c = 0; c < 4; c++)
            sum = sum * 5 + tile[k & 1][(TID * 7 + c * 31 + GROUP) % SIZE];
    }
    out[ME] = sum;
}
#else
HOST(double_buffer)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++) {
        unsigned sum = 0;
        for (int k = 0; k < 6; k++)
            for (int c = 0; c < 4; c++)
                sum = sum * 5 + in[((i % SIZE * 7 + c * 31 + i / SIZE) % SIZE + 64 * k) % ITEMS];
        out[i] = sum;
    }
}
#endif

/* Two waves fill a ring, two empty it; each side waits at barriers of its own. */
#ifdef __AMDGCN__
KERNEL(ring)
{
    __shared__ unsigned slot[4][128];
    bool makes = UNIFORM(TID / 128) == 0;
    int t = TID & 127;
    unsigned sum = 0;
    if (makes)
        for (int k = 0; k < 9; k++) {
            if (k < 8)
                slot[k & 3][t] = in[(GROUP * 128 + t + k * 33) % ITEMS] + (unsigned)k;
            BARRIER;
        }
    else {
        BARRIER;
        for (int k = 0; k < 8; k++) {
            sum = sum * 3 + slot[k & 3][127 - t];
            BARRIER;
        }
        out[GROUP * 128 + t] = sum;
    }
}
#else
HOST(ring)
{
    (void)n;
    for (int i = 0; i < GROUPS * 128; i++) {
        unsigned sum = 0;
        for (int k = 0; k < 8; k++)
            sum = sum * 3 + in[(i - i % 128 + 127 - i % 128 + k * 33) % ITEMS] + (unsigned)k;
        out[i] = sum;
    }
}
#endif

#ifdef __AMDGCN__
KERNEL(bitonic)
{
    __shared__ unsigned s[SIZE];
    s[TID] = in[ME];
    BARRIER;
    for (int size = 2; size <= SIZE; size *= 2)
        for (int far = size / 2; far; far /= 2) {
            int other = TID ^ far;
            if (other > TID) {
                unsigned a = s[TID], b = s[other];
                if ((a > b) == !(TID & size)) {
                    s[TID] = b;
                    s[other] = a;
                }
            }
            BARRIER;
        }
    out[ME] = s[TID];
}
#else
HOST(bitonic)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned *a = out + g * SIZE;
        for (int t = 0; t < SIZE; t++) {
            int k = t;
            for (; k > 0 && a[k - 1] > in[g * SIZE + t]; k--)
                a[k] = a[k - 1];
            a[k] = in[g * SIZE + t];
        }
    }
}
#endif

/* A tile with a border, by those at its ends. */
#ifdef __AMDGCN__
KERNEL(stencil)
{
    __shared__ unsigned s[SIZE + 6];
    s[TID + 3] = in[ME];
    if (TID < 3)
        s[TID] = GROUP > 0 ? in[ME - 3] : 0;
    if (TID >= SIZE - 3)
        s[TID + 6] = GROUP < GROUPS - 1 ? in[ME + 3] : 0;
    BARRIER;
    unsigned sum = 0;
    for (int k = 0; k < 7; k++)
        sum += s[TID + k] * (unsigned)(k + 1);
    out[ME] = sum;
}
#else
HOST(stencil)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        for (int k = 0; k < 7; k++)
            if (i + k - 3 >= 0 && i + k - 3 < ITEMS)
                out[i] += in[i + k - 3] * (unsigned)(k + 1);
}
#endif

/* 16x16 tiles of integers. */
#ifdef __AMDGCN__
KERNEL(tiles)
{
    __shared__ unsigned a[16][17], b[16][17];
    int x = TID & 15, y = TID >> 4;
    unsigned sum = 0;
    for (int k = 0; k < 32; k += 16) {
        a[y][x] = in[(GROUP * 256 + y * 32 + k + x) % ITEMS];
        b[y][x] = in[((k + y) * 16 + x) % ITEMS];
        BARRIER;
        for (int i = 0; i < 16; i++)
            sum += a[y][i] * b[i][x];
        BARRIER;
    }
    out[ME] = sum;
}
#else
HOST(tiles)
{
    (void)n;
    for (int i = 0; i < ITEMS; i++)
        for (int k = 0; k < 32; k++)
            out[i] += in[(i / 256 * 256 + i % 256 / 16 * 32 + k) % ITEMS] * in[(k * 16 + i % 16) % ITEMS];
}
#endif

/* Bytes and shorts of one word, from different waves; then words of 4 bytes by all. */
#ifdef __AMDGCN__
KERNEL(bytes_of_a_word)
{
    __shared__ unsigned char s[SIZE];
    __shared__ unsigned short h[SIZE];
    int to = (TID & 63) * 4 + TID / 64;
    s[to] = (unsigned char)in[ME];
    h[(TID & 127) * 2 + TID / 128] = (unsigned short)(in[ME] >> 7);
    ((unsigned char *)out)[GROUP * SIZE + to] = (unsigned char)(in[ME] >> 9);
    BARRIER;
    if (TID < 64)
        out[ITEMS + GROUP * 64 + TID] = ((unsigned *)s)[TID] * 3 + ((unsigned *)h)[2 * TID];
}
#else
HOST(bytes_of_a_word)
{
    (void)n;
    for (int g = 0; g < GROUPS; g++) {
        unsigned char s[SIZE];
        unsigned short h[SIZE];
        for (int t = 0; t < SIZE; t++) {
            unsigned x = in[g * SIZE + t];
            s[(t & 63) * 4 + t / 64] = (unsigned char)x;
            h[(t & 127) * 2 + t / 128] = (unsigned short)(x >> 7);
            ((unsigned char *)out)[g * SIZE + (t & 63) * 4 + t / 64] = (unsigned char)(x >> 9);
        }
        for (int t = 0; t < 64; t++) {
            unsigned a, b;
            memcpy(&a, s + 4 * t, 4);
            memcpy(&b, h + 4 * t, 4);
            out[ITEMS + g * 64 + t] = a * 3 + b;
        }
    }
}
#endif
