/* SPDX-License-Identifier: MIT
 *
 * The loop of an inner kernel, for cpu_micro.h and cpu_i8.h. Before including, they define GROUP and GROUP_BYTES,
 * elements and bytes of a step's W in a row, packed_bytes(kind) of its X, and step(); cpu_micro.h says the rest. */

INLINE const char *prefetch(const struct cpu_block *b, const char *ahead, const int groups, const int bytes)
{
    UNROLL
    for (int g = 0; g < groups; g++) {
        UNROLL
        for (int at = 0; at < bytes; at += 64)
            __builtin_prefetch(ahead + (size_t)g * b->ahead_stride + at);
    }
    return ahead + b->ahead_step;
}

INLINE void block(const enum cpu_kind kind, const int rows, const int cols, struct cpu_block *b)
{
    vec acc[CPU_MAX_ROWS][CPU_MAX_COLS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int c = 0; c < cols; c++)
            acc[r][c] = vec_load(b->acc + (size_t)r * b->acc_stride + (size_t)(c * LANES));
    }
    const char *w[CPU_MAX_ROWS], *x = b->x, *ahead = b->ahead;
    UNROLL
    for (int r = 0; r < rows; r++)
        w[r] = b->w + (size_t)r * b->w_stride;
#ifdef HAVE_DOT
    dot_vec smallest = dot_all_ones();
#define STEP() (kind == CPU_BF16_DOT ? step_dot(rows, cols, w, x, acc, &smallest) : step(kind, rows, cols, w, x, acc))
#else
#define STEP() step(kind, rows, cols, w, x, acc)
#endif
#define LOOP(PREFETCH)                                                                                                 \
    for (int64_t g = 0; g < groups; g++) {                                                                             \
        PREFETCH;                                                                                                      \
        STEP();                                                                                                        \
        UNROLL                                                                                                         \
        for (int r = 0; r < rows; r++)                                                                                 \
            w[r] += GROUP_BYTES;                                                                                       \
        x += cols * packed_bytes(kind);                                                                                \
    }

    int64_t groups = b->k / GROUP;
    switch (b->pace) {
    case CPU_PACE_FULL:
        LOOP(ahead = prefetch(b, ahead, rows, GROUP_BYTES));
        break;
    case CPU_PACE_HALF:
        LOOP(ahead = prefetch(b, ahead, rows > 2 ? rows / 2 : 1, GROUP_BYTES));
        break;
    case CPU_PACE_QUARTER:
        LOOP(ahead = prefetch(b, ahead, rows > 4 ? rows / 4 : 1, GROUP_BYTES));
        break;
    default:
        LOOP((void)0);
    }
    b->ahead = ahead;

    int rest = (int)(b->k % GROUP);
    if (rest) { /* the last group of a row: filled up with zeros, as X's is */
        char tail[CPU_MAX_ROWS][GROUP * 4];
        for (int r = 0; r < rows; r++) {
            memset(tail[r], 0, (size_t)GROUP_BYTES);
            memcpy(tail[r], w[r], (size_t)(rest * (GROUP_BYTES / GROUP)));
            w[r] = tail[r];
        }
        STEP();
    }

    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int c = 0; c < cols; c++)
            vec_store(b->acc + (size_t)r * b->acc_stride + (size_t)(c * LANES), acc[r][c]);
    }
#ifdef HAVE_DOT
    if (kind == CPU_BF16_DOT) {
        uint16_t m = dot_reduce(smallest);
        if (m < b->min_w)
            b->min_w = m;
    }
#endif
#undef LOOP
#undef STEP
}

#define DEFINE_BLOCK(kind, rows, cols)                                                                                 \
    static void kind##_##rows##x##cols(struct cpu_block *b)                                                            \
    {                                                                                                                  \
        if (rows * cols <= MAX_REGS)                                                                                   \
            block(kind, rows, cols, b);                                                                                \
    }
#define DEFINE_ROWS(kind, rows)                                                                                        \
    DEFINE_BLOCK(kind, rows, 1)                                                                                        \
    DEFINE_BLOCK(kind, rows, 2)                                                                                        \
    DEFINE_BLOCK(kind, rows, 3)                                                                                        \
    DEFINE_BLOCK(kind, rows, 4)                                                                                        \
    DEFINE_BLOCK(kind, rows, 5)                                                                                        \
    DEFINE_BLOCK(kind, rows, 6)                                                                                        \
    DEFINE_BLOCK(kind, rows, 7)                                                                                        \
    DEFINE_BLOCK(kind, rows, 8)
#define DEFINE_PACK(kind)                                                                                              \
    static uint16_t kind##_pack(char *to, const char *x, size_t x_stride, int cols, int64_t k)                         \
    {                                                                                                                  \
        return pack(kind, to, x, x_stride, cols, k);                                                                   \
    }
#define DEFINE_KIND(kind)                                                                                              \
    DEFINE_ROWS(kind, 1)                                                                                               \
    DEFINE_ROWS(kind, 2)                                                                                               \
    DEFINE_ROWS(kind, 4)                                                                                               \
    DEFINE_ROWS(kind, 8)

#define BLOCK_IF(kind, rows, cols) rows *cols <= MAX_REGS ? kind##_##rows##x##cols : NULL
#define LIST_ROWS(kind, rows)                                                                                          \
    {                                                                                                                  \
        BLOCK_IF(kind, rows, 1), BLOCK_IF(kind, rows, 2), BLOCK_IF(kind, rows, 3), BLOCK_IF(kind, rows, 4),            \
            BLOCK_IF(kind, rows, 5), BLOCK_IF(kind, rows, 6), BLOCK_IF(kind, rows, 7), BLOCK_IF(kind, rows, 8)         \
    }
#define LIST_KIND(kind)                                                                                                \
    {                                                                                                                  \
        LIST_ROWS(kind, 1), LIST_ROWS(kind, 2), LIST_ROWS(kind, 4), LIST_ROWS(kind, 8)                                 \
    }
