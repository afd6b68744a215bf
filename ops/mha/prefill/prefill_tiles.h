/* SPDX-License-Identifier: MIT
 *
 * Of prefill.hip: tiles of K and V into LDS, and fragments out of it. */
struct source {
    const char *data;       /* row 0 of the sequence's head; paged: of block 0 */
    long long token, block; /* bytes */
    const int *table;
    int shift, last; /* last: the last key there is */
#if RFG_NVIDIA
    const char *lane; /* not paged: this lane's first chunk of the next tile */
#elif !PAGED
    rfg_buffer buffer; /* of all rows */
    int even_end;      /* the last whole tile's first key, if offsets of it are 31 bits; else less than any */
#endif
};

RFG_DEVICE struct source source_of(const struct mha_args *a, const struct mha_cache *c, const struct place *p,
                                   int chunks)
{
    struct source s;
    long long b = PAGED || a->kv_begin ? 0 : p->b;
    s.data = rfg_uniform((char *)c->data + 2 * (b * c->block + p->kv_row * c->token + p->kv_head * c->head));
    s.token = 2 * c->token;
    s.block = 2 * c->block;
    s.table = a->block_table + p->b * a->table_stride;
    s.shift = a->page_shift;
    s.last = p->skv - 1;
    (void)chunks;
#if RFG_AMD && !PAGED
    rfg_u64 bytes = (rfg_u64)s.last * (rfg_u64)s.token + 16u * (rfg_u32)chunks;
    s.even_end = (rfg_u64)s.token < 1u << 24 && bytes < 1ull << 31 ? s.last - (TILE_KV - 1) : -1;
    s.buffer = rfg_buffer_of(s.data, (int)bytes);
#endif
    return s;
}
/* Keys beyond the last one are that one again: they are masked, and what they hold is a number if the last one's is. */
RFG_DEVICE const char *key_address(const struct source *s, int key)
{
    key = key < s->last ? key : s->last;
#if PAGED
    int block = (int)rfg_load4(s->table + (key >> s->shift));
    return s->data + block * s->block + (key & ((1 << s->shift) - 1)) * s->token;
#else
    return s->data + key * s->token;
#endif
}
/* A thread's i-th chunk of a tile's rows of so many chunks: neighbours have neighbouring chunks, as many as a power of
 * two allows; a row has `parts` of these. The row is the sum of a part that all lanes have and the rest. */
#define LANES_OF(chunks)    ((chunks) % 32 == 0 ? 32 : (chunks) % 16 == 0 ? 16 : (chunks) % 8 == 0 ? 8 : 4)
#define PARTS(chunks)       ((chunks) / LANES_OF(chunks))
#define ROWS_A_PASS(chunks) (THREADS / LANES_OF(chunks))
#define ITEMS(chunks)       (PARTS(chunks) * ((TILE_KV + ROWS_A_PASS(chunks) - 1) / ROWS_A_PASS(chunks)))
RFG_DEVICE int item_base(int i, int chunks)
{
    return i / PARTS(chunks) * ROWS_A_PASS(chunks);
}
RFG_DEVICE int item_row(int thread, int chunks)
{
    return thread / LANES_OF(chunks);
}
RFG_DEVICE int item_chunk(int thread, int i, int chunks)
{
    return thread % LANES_OF(chunks) + i % PARTS(chunks) * LANES_OF(chunks);
}
RFG_DEVICE bool item_exists(int thread, int i, int chunks)
{
    return TILE_KV % ROWS_A_PASS(chunks) == 0 || item_base(i, chunks) + item_row(thread, chunks) < TILE_KV;
}

#if RFG_NVIDIA

/* Chunk c of a row is at c ^ (row & 7), so that ldmatrix finds 8 rows' in different banks. Tiles are copied in order.
 */
RFG_DEVICE void copy_rows(struct source *s, rfg_u32x4 *tile, int key0, int chunks, int stride)
{
    rfg_u32 to = (rfg_u32)__cvta_generic_to_shared(tile);
    int thread = rfg_thread(), part = item_row(thread, chunks);
    if (!PAGED && key0 + TILE_KV - 1 <= s->last) {
#pragma unroll
        for (int i = 0; i < ITEMS(chunks); i++) {
            int c = item_chunk(thread, i, chunks), row = item_base(i, chunks) + part;
            if (item_exists(thread, i, chunks))
                rfg_async_copy16_at(to + 16 * (row * stride + (c ^ (row & 7))),
                                    s->lane + 16 * LANES_OF(chunks) * (i % PARTS(chunks)), true, false);
            if (i % PARTS(chunks) == PARTS(chunks) - 1 && TILE_KV > ROWS_A_PASS(chunks))
                s->lane += ROWS_A_PASS(chunks) * s->token;
        }
        if (TILE_KV <= ROWS_A_PASS(chunks))
            s->lane += TILE_KV * s->token;
    } else {
#pragma unroll 1 /* or the compiler makes one of both */
        for (int i = 0; i < ITEMS(chunks); i++) {
            int row = item_base(i, chunks) + part, c = item_chunk(thread, i, chunks);
            if (item_exists(thread, i, chunks))
                rfg_async_copy16_at(to + 16 * (row * stride + (c ^ (row & 7))),
                                    PAGED ? key_address(s, key0 + row) + c * 16
                                          : s->lane +
                                                (row < s->last - key0 ? row - part : s->last - key0 - part) * s->token +
                                                16 * LANES_OF(chunks) * (i % PARTS(chunks)),
                                    true, false);
        }
    }
}
RFG_DEVICE void copy_k(struct source *s, rfg_u32x4 *tile, int key0)
{
    copy_rows(s, tile, key0, D / 8, K_CHUNKS);
}
RFG_DEVICE void copy_v(struct source *s, rfg_u32x4 *tile, int key0)
{
    copy_rows(s, tile, key0, DV / 8, V_CHUNKS);
}

/* Four 8x8 matrices: as they are, or turned. */
RFG_DEVICE rfg_u32x4 load_matrices(rfg_u32 at)
{
    rfg_u32x4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}
RFG_DEVICE rfg_u32x4 load_turned(rfg_u32 at)
{
    rfg_u32x4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

RFG_DEVICE void mma_16x8(float *c, rfg_u32x4 a, rfg_u32 b0, rfg_u32 b1)
{
    if (DTYPE == RFG_F16)
        RFG_MMA_SYNC("f16", c, a.x, a.y, a.z, a.w, b0, b1);
    else
        RFG_MMA_SYNC("bf16", c, a.x, a.y, a.z, a.w, b0, b1);
}

#else

/* The rows that are that key, or d, where a matrix instruction finds them. */
RFG_DEVICE int row_of_key(int key)
{
#if RFG_MFMA
    return (key & ~31) | (key & 4) << 2 | (key & 24) >> 1 | (key & 3);
#elif RFG_WMMA11
    return (key & ~15) | (key & 7) << 1 | (key & 8) >> 3;
#else
    return key;
#endif
}

/* Chunk c of row r is at r * chunks + (c ^ swizzle(r)): 8 neighbouring rows' chunk c are in different banks, and so is
 * what 16 lanes write of V: 4 chunks of 4 times 4 keys. */
RFG_DEVICE int swizzle(int row)
{
    return (row & 7) ^ (row >> 2 & 2);
}

/* V is turned in units of 4 keys by 8 d. Of 16 neighbouring lanes 4 have chunks side by side, times 4 units of keys. */
#define V_LANES  (DV / 32 % 8 == 0 ? 8 : DV / 32 % 4 == 0 ? 4 : DV / 32 % 2 == 0 ? 2 : 1) /* times 4 chunks */
#define V_PARTS  (DV / 32 / V_LANES)
#define V_UNITS  (THREADS / (4 * V_LANES)) /* of keys, in a pass */
#define V_PASSES (V_PARTS * ((TILE_KV / 4 + V_UNITS - 1) / V_UNITS))

struct staged {
    rfg_u32x4 k[ITEMS(D / 8)];
    rfg_u32x4 v[V_PASSES][4];
};

RFG_DEVICE int unit_chunk(int thread, int i)
{
    return thread % 4 + 4 * (thread / 16 % V_LANES) + i % V_PARTS * (4 * V_LANES);
}
RFG_DEVICE int unit_keys(int thread, int i)
{
    return thread / 4 % 4 + thread / (16 * V_LANES) * 4 + i / V_PARTS * V_UNITS;
}
RFG_DEVICE bool unit_exists(int thread, int i)
{
    return TILE_KV / 4 % V_UNITS == 0 || unit_keys(thread, i) < TILE_KV / 4;
}
/* Items and units exist for whole waves: what this thread asks unit_exists() and item_exists(), for a branch that is
 * the same in all lanes. */
RFG_DEVICE int first_of_wave(void)
{
    return rfg_wave() * RFG_WAVE;
}

/* Whole tiles of rows at one distance: offsets are one that all lanes have, and one of the lane that is the same for
 * all of its rows and all tiles. */
RFG_DEVICE bool is_even(const struct source *k, const struct source *v, int key0)
{
#if PAGED
    (void)k, (void)v, (void)key0;
    return false;
#else
    return key0 <= (k->even_end < v->even_end ? k->even_end : v->even_end);
#endif
}
RFG_DEVICE rfg_u32x4 load_chunk(const struct source *s, bool even, int key0, int base, int row, int chunk)
{
#if !PAGED
    if (even)
        return rfg_buffer_load16(s->buffer, (rfg_u32)row * (rfg_u32)s->token + chunk * 16u,
                                 (key0 + base) * (int)s->token);
#endif
    return rfg_load16(key_address(s, key0 + base + row) + chunk * 16);
}

/* Rather than what was there before, which would have to be kept, and copied where branches meet. */
RFG_DEVICE rfg_u32x4 nothing(void)
{
    rfg_u32x4 v;
    asm volatile("" : "=v"(v));
    return v;
}

RFG_DEVICE void load_rows(const struct source *k, const struct source *v, struct staged *s, int key0, bool even)
{
    int thread = anew(rfg_thread()), first = first_of_wave();
#pragma unroll
    for (int i = 0; i < ITEMS(D / 8); i++)
        s->k[i] = item_exists(first, i, D / 8) ? load_chunk(k, even, key0, item_base(i, D / 8), item_row(thread, D / 8),
                                                            item_chunk(thread, i, D / 8))
                                               : nothing();
#pragma unroll
    for (int i = 0; i < V_PASSES; i++) {
        if (unit_exists(first, i))
#pragma unroll
            for (int j = 0; j < 4; j++)
                s->v[i][j] = load_chunk(v, even, key0, j, 4 * unit_keys(thread, i), unit_chunk(thread, i));
        else
#pragma unroll
            for (int j = 0; j < 4; j++)
                s->v[i][j] = nothing();
    }
}
RFG_DEVICE void load_tile(const struct source *k, const struct source *v, struct staged *s, int key0)
{
    if (is_even(k, v, key0))
        load_rows(k, v, s, key0, true);
    else
        load_rows(k, v, s, key0, false);
}

/* The lower or upper halves of two words. */
RFG_DEVICE rfg_u32 halves_of(rfg_u32 lo, rfg_u32 hi, bool upper)
{
    return __builtin_amdgcn_perm(hi, lo, upper ? 0x07060302u : 0x05040100u);
}

RFG_DEVICE void put_tile(const struct staged *s, rfg_u32x4 *k_tile, rfg_u32x4 *v_tile)
{
    int thread = anew(rfg_thread()), first = first_of_wave();
#pragma unroll
    for (int i = 0; i < ITEMS(D / 8); i++) {
        int at = row_of_key(item_base(i, D / 8) + item_row(thread, D / 8));
        if (item_exists(first, i, D / 8))
            k_tile[at * K_CHUNKS + (item_chunk(thread, i, D / 8) ^ swizzle(at))] = s->k[i];
    }
#pragma unroll
    for (int i = 0; i < V_PASSES; i++)
        if (unit_exists(first, i)) {
            int keys = unit_keys(thread, i), d0 = 8 * unit_chunk(thread, i);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                int at = row_of_key(d0 + e);
                rfg_u32x2 w;
                w.x = halves_of(s->v[i][0][e / 2], s->v[i][1][e / 2], e % 2);
                w.y = halves_of(s->v[i][2][e / 2], s->v[i][3][e / 2], e % 2);
                ((rfg_u32x2 *)(v_tile + at * KV_CHUNKS + (keys / 2 ^ swizzle(at))))[keys % 2] = w;
            }
        }
}

/* rfg_frag_chunk() of a lane. */
RFG_DEVICE int chunk_of(int lane, int i)
{
    return RFG_WMMA11 ? i : lane / 16 + 2 * i;
}

RFG_DEVICE void load_fragment(rfg_frag_ab *f, const rfg_u32x4 *tile, int chunks, int row0, int chunk0, int lane)
{
    int row = row0 + lane % 16;
    const rfg_u32x4 *p = tile + row * chunks;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++)
        f->v[i] = p[(chunk0 + chunk_of(lane, i)) ^ swizzle(row)];
}

/* Fragments are read BATCH at a time, and with MFMA a batch ahead of what is multiplied and waited for once a batch:
 * the compiler waits before an instruction for all that it reads, and here this one, of no code, reads them all. (LLVM
 * 15 would spill registers, and so would larger heads with 4.) */
#if RFG_MFMA && __clang_major__ >= 16
#define AHEAD true
#define BATCH (D > 128 || DV % 64 ? 2 : 4)
#else
#define AHEAD false
#define BATCH 1
#endif
struct batch {
    rfg_frag_ab f[BATCH];
};
/* The 4 chunks of step k of 16 BATCH rows, from 16 block on. */
RFG_DEVICE void load_batch(struct batch *b, const rfg_u32x4 *tile, int chunks, int block, int k, int lane)
{
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        load_fragment(&b->f[i], tile, chunks, 16 * (block + i), k * RFG_FRAG_CHUNKS, lane);
}
/* The same of a tile of blocks times steps, in which `next` is what comes after it: blocks of a step, then steps. */
RFG_DEVICE void take_batch(struct batch *b, struct batch *next, const rfg_u32x4 *tile, int chunks, int block,
                           int blocks, int k, int steps, int lane)
{
    if (AHEAD && block + k > 0)
        *b = *next;
    else
        load_batch(b, tile, chunks, block, k, lane);
#if RFG_MFMA
    if (AHEAD) {
        bool same = block + BATCH < blocks;
        if (same || k + 1 < steps)
            load_batch(next, tile, chunks, same ? block + BATCH : 0, same ? k : k + 1, lane);
        if (BATCH == 2)
            asm volatile("" : "+v"(b->f[0].v[0]), "+v"(b->f[1 % BATCH].v[0])::"memory");
        else
            asm volatile(""
                         : "+v"(b->f[0].v[0]), "+v"(b->f[1 % BATCH].v[0]), "+v"(b->f[2 % BATCH].v[0]),
                           "+v"(b->f[3 % BATCH].v[0])::"memory");
    }
#endif
}

#endif
