/* SPDX-License-Identifier: MIT
 *
 * mla_decode of a cache of e4m3 on Hopper's asynchronous matrix instructions. Keys take the instruction's 64 rows and
 * queries its columns, as in wgmma_few.hip. Codes lie in LDS as they do in the cache, and become elements in registers
 * on their way to the instruction, which takes its 64 rows from there: as keys for S^T = K Q^T, and once more, keys two
 * by two beside each other, as columns for O^T = V^T P^T. TEAMS warpgroups multiply, each its own tiles of keys, and add
 * up their sums in the end: while one weighs its scores others decode. One wave copies, several tiles ahead.
 *
 * Budget, D=576 Dv=512, a tile of 64 keys: 37 KB of codes are 1.15 us of a CU's share of the memory's speed, 2000
 * cycles. LDS: 37 KB written, 70 read, and 34 of queries and weights: 1100 cycles of 128 bytes. Decoding two codes takes
 * a permutation with the sign, a shift, a mask and a product: 69632 codes, 1100 to 1300 cycles of each scheduler. 68
 * matrix instructions of 16 columns: below 1100.
 *
 * Macros: DTYPE; D (a multiple of 64), DV (of 256), CAP, POSITIONS, SINK_DTYPE as
 * mla_tile.h has them; ROWS (16 or 32); TEAMS (2 or 3); PARTS, CLUSTERS as wgmma_few.hip; STAGES; LDS_BYTES. Rows of
 * 16-byte chunks. Grid: CLUSTERS times PARTS for each ROWS rows of each sequence. */
#include "rfg_device.h"
#include "rfg_quant.h"
#include "rfg_attention.h"
#include "rfg_tma.h"
#include "mha/mla/mla_args.h"
#include "mha/mla/mla_format.h"
#include "mha/mla/mla_layout.h"

#define TILE_KV MLA_WG_KEYS
#include "mha/mla/mla_item.h"
#include "mha/prefill/wgmma_frag.h"

#define MULTIPLIERS 128           /* of a team */
#define COPIERS     (TEAMS * 128) /* the others, as the first team sees it; the last 32 to 128 do copy */
#define TEAM        (rfg_thread() / MULTIPLIERS)
#define WAVES       (MULTIPLIERS / 32)
#define BLOCKS      (D / 64)   /* of a tile's columns */
#define V_BLOCKS    (DV / 64)  /* of them values */
#define SPANS       (DV / 128) /* of 128 values */
#define ROW         D          /* bytes */
#define TILE        (TILE_KV * ROW)
#define FRAGS       (ROWS / 16) /* of 16 rows */
#define HEADS       (ROWS / 4)  /* rows of which a thread has scores: see head_of() */
#define PAIRS       (HEADS / 2)

#define Q_AT       MLA_FEW_Q_AT
#define WEIGHTS_AT MLA_FEW_WEIGHTS_AT(D, ROWS)
#define KV_AT      MLA_CODES_KV_AT(D, ROWS, TEAMS)
#define APART      false
struct barriers {
    rfg_u64 empty[STAGES], full[STAGES];
    rfg_u32 flag;
    int end[ROWS];                     /* of the keys that a row sees */
    float of_wave[TEAMS][WAVES][ROWS]; /* maxima, at the end sums of weights */
    float ends[TEAMS][2][ROWS];        /* m and l of teams */
};
#include "mha/mla/mla_wgmma.h"
static_assert(sizeof(struct barriers) <= Q_AT, "queries follow the barriers");
static_assert(LDS_BYTES == KV_AT + STAGES * TILE, "mla_layout.h");
static_assert(D % 64 == 0 && DV % 256 == 0 && DV <= D, "blocks of 64 columns, spans two by two");

/* Which of a wave's 16 keys the instruction's row is: so that eight threads read all banks of LDS, rows being ROW bytes
 * from each other. As keys they read rows r and r + 1, four chunks of each, so these are 64 bytes apart; as values words
 * of eight lanes, of rows r, r + 2, r + 4 and r + 6. */
RFG_DEVICE int key_of(int row)
{
    int r = row % 16;
    if (ROW % 128 == 64)
        return row ^ (r >> 1 & 1);
    return row - r + r / 8 + r % 2 * 8 + ((r & 6) ^ (r % 2 * 4));
}
#define KEY_OF(row) key_of(row)
#include "mha/mla/mla_few.h"

/* ---- copies ------------------------------------------------------------------------------------------------------ */

RFG_DEVICE const char *row_of_key(const struct mla_args *a, const struct work_item *it, int key)
{
    int block = block_of(a, it, &key);
    return (const char *)a->kv + block * a->kv_block + key * a->kv_row;
}

/* By one wave. Rows that follow each other in memory are copied at once, in tiles that are whole. */
RFG_DEVICE void copy_all(const struct mla_args *a, const struct work_item *it, struct span s, struct barriers *b,
                         char *lds, int lane)
{
    int most = a->kv_row != ROW ? 1 : MLA_WG_TMA_ROWS(a->table != 0, a->page_shift);
    int stage = 0, odd = 1;
    const char *next = s.begin < s.end ? row_of_key(a, it, s.begin * TILE_KV + lane * most) : 0;
#pragma unroll 1
    for (int t = s.begin; t < s.end; t++) {
        int key0 = t * TILE_KV, rows = key0 + TILE_KV <= it->len ? most : 1;
        rfg_u32 to = rfg_lds_address(lds) + KV_AT + (rfg_u32)(stage * TILE);
        const char *first = rows == most ? next : row_of_key(a, it, key0 + lane);
        if (t + 1 < s.end)
            next = row_of_key(a, it, key0 + TILE_KV + lane * most);
        rfg_arrival_wait(&b->empty[stage], odd);
        if (lane == 0)
            rfg_arrive_expect(&b->full[stage], TILE);
        if (lane * rows < TILE_KV)
            rfg_bulk_load(to + (rfg_u32)(lane * rows * ROW), first, (rfg_u32)(rows * ROW), &b->full[stage]);
        if (rows == 1)
            rfg_bulk_load(to + (rfg_u32)((lane + 32) * ROW), row_of_key(a, it, key0 + lane + 32), ROW, &b->full[stage]);
        if (++stage == STAGES) {
            stage = 0;
            odd ^= 1;
        }
    }
}

/* By the teams, before the sequence's length is known. Rows that there aren't are zeroes. Columns lie as codes become
 * k of the instruction: of each 64, a thread has the 16 of a chunk, four for an instruction (multiply_keys()), which are
 * k 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 there. */
RFG_DEVICE void copy_queries(const struct mla_args *a, const struct work_item *it, char *to)
{
    int c = rfg_thread() % 8;
#pragma unroll
    for (int i = 0; i < FRAGS; i++) {
        int r = rfg_thread() / 8 % 16 + i * 16;
        const rfg_u16 *q = (const rfg_u16 *)a->q.data + row_at(a, it, &a->q, r) + c * 8;
        const rfg_u16 *rope = (const rfg_u16 *)a->q_rope.data + row_at(a, it, &a->q_rope, r) + c * 8;
#pragma unroll 3
        for (int k = TEAM; k < BLOCKS; k += TEAMS) {
            rfg_u32x4 v = make_uint4(0, 0, 0, 0);
            if (it->row0 + r < it->rows)
                v = rfg_load16(k < V_BLOCKS ? q + k * 64 : rope + (k - V_BLOCKS) * 64);
            char *block = to + k * ROWS * 128 + c / 2 * 4;
            *(rfg_u32 *)(block + rfg_wg_at(r, c % 2 * 4)) = v.x;
            *(rfg_u32 *)(block + rfg_wg_at(r, c % 2 * 4 + 1)) = v.y;
            *(rfg_u32 *)(block + rfg_wg_at(r, c % 2 * 4 + 2)) = v.z;
            *(rfg_u32 *)(block + rfg_wg_at(r, c % 2 * 4 + 3)) = v.w;
        }
    }
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */

/* Two bytes of u and v as halves of a word, each with eight copies of its sign above. */
RFG_DEVICE rfg_u32 signed_bytes(rfg_u32 u, rfg_u32 v, rfg_u32 which)
{
    rfg_u32 r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(u), "r"(v), "r"(which));
    return r;
}
/* Such codes as elements: with the exponent in place they are a power of two times the number, subnormal ones too, which
 * an exact product puts right. */
RFG_DEVICE rfg_u32 decode_two(rfg_u32 u)
{
#if DTYPE == RFG_BF16
    u = (u << 4) & 0x87f087f0u;
    asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(u) : "r"(0x7b807b80u)); /* 2^120 */
#else
    u = (u << 7) & 0xbf80bf80u;
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(u) : "r"(0x5c005c00u)); /* 2^8 */
#endif
    return u;
}
RFG_DEVICE rfg_u32 word_of(rfg_u32x4 v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
/* In the upper bit of a byte: the code is a NaN, of all ones. */
RFG_DEVICE rfg_u32 nans_of(rfg_u32x4 v)
{
    const rfg_u32 low = 0x7f7f7f7fu, one = 0x01010101u;
    return ((v.x & low) + one) | ((v.y & low) + one) | ((v.z & low) + one) | ((v.w & low) + one);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

#define WG_R8  RFG_WG_R8
#define WG_R16 RFG_WG_R16
/* c = (add ? c : 0) + A B^T, A's rows in registers. a0 ... p: numbers of the operands after c's. */
#define WG_REGISTERS(width, registers, a0, a1, a2, a3, b, p)                                                           \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" p ", 0;\n"                                                   \
                 "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." WG_TYPE "." WG_TYPE " {" WG_R##registers         \
                 "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", add, 1, 1, 0;\n}"                                   \
                 : WG_F##registers(c, 0)                                                                               \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(rows_b), "r"(add))
RFG_DEVICE void wg_add(rfg_frag_c *c, rfg_u32x4 a, rfg_u64 rows_b, int add)
{
#if ROWS == 16
    WG_REGISTERS("16", 8, "8", "9", "10", "11", "12", "13");
#else
    WG_REGISTERS("32", 16, "16", "17", "18", "19", "20", "21");
#endif
}

/* 16 columns of two keys, for four instructions. */
struct pieces {
    rfg_u32x4 of[2];
};
RFG_DEVICE struct pieces load_keys(const char *const *row, int k)
{
    struct pieces p;
#pragma unroll
    for (int h = 0; h < 2; h++)
        p.of[h] = *(const rfg_u32x4 *)(row[h] + k * 64);
    return p;
}
RFG_DEVICE void decode_keys(rfg_u32x4 *a, const struct pieces *p)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        rfg_u32 u = word_of(p->of[0], i), v = word_of(p->of[1], i);
        a[i] = make_uint4(decode_two(signed_bytes(u, 0, 0x9180)), decode_two(signed_bytes(v, 0, 0x9180)),
                          decode_two(signed_bytes(u, 0, 0xb3a2)), decode_two(signed_bytes(v, 0, 0xb3a2)));
    }
}
RFG_DEVICE void multiply_four(rfg_frag_c *c, const rfg_u32x4 *a, rfg_u64 rows_b, int add)
{
    rfg_wg_fence();
#pragma unroll
    for (int i = 0; i < 4; i++)
        wg_add(c, a[i], rows_b + (rfg_u32)(2 * i), i + add > 0);
    rfg_wg_commit();
}

/* Scores of the tile: done. */
RFG_DEVICE void multiply_keys(rfg_frag_c *s, const char *tile, rfg_u64 q)
{
    int lane = rfg_lane(), r = rfg_wave() % WAVES * 16 + lane / 4, t = lane % 4;
    const char *row[2] = { tile + key_of(r) * ROW + t * 16, tile + key_of(r + 8) * ROW + t * 16 };
    rfg_frag_c sums[FRAGS];
    rfg_u32x4 a[2][4];
    rfg_u32 nans[2] = { 0, 0 };
    struct pieces next = load_keys(row, 0);
    asm volatile("" : "+l"(q));
#pragma unroll
    for (int k = 0; k < BLOCKS; k++) {
        struct pieces now = next;
        if (k + 1 < BLOCKS)
            next = load_keys(row, k + 1);
        decode_keys(a[k % 2], &now);
        nans[0] |= nans_of(now.of[0]);
        nans[1] |= nans_of(now.of[1]);
        multiply_four(sums, a[k % 2], q + (rfg_u32)(k * (ROWS * 8)), k);
        rfg_wg_wait(1);
    }
    rfg_wg_wait(0);
    wg_settle(sums, FRAGS);
#pragma unroll
    for (int j = 0; j < FRAGS; j++)
        s[j] = sums[j];
    if (rfg_any_lane((nans[0] | nans[1]) & 0x80808080u)) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            nans[h] |= rfg_as_u32(rfg_shuffle_xor(rfg_as_float(nans[h]), 1));
            nans[h] |= rfg_as_u32(rfg_shuffle_xor(rfg_as_float(nans[h]), 2));
        }
#pragma unroll
        for (int j = 0; j < FRAGS; j++)
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (nans[is_further(e)] & 0x80808080u)
                    s[j].v[e] = rfg_as_float(0x7fc00000u);
    }
}

/* Words of four columns, of four keys. */
RFG_DEVICE rfg_u32x4 load_values(const char *const *row, int span)
{
    return make_uint4(*(const rfg_u32 *)(row[0] + span * 128), *(const rfg_u32 *)(row[1] + span * 128),
                      *(const rfg_u32 *)(row[2] + span * 128), *(const rfg_u32 *)(row[3] + span * 128));
}
/* Of 16 keys, the i-th of the tile, two spans from `half` on: what four instructions take. */
#define HALVES (SPANS / 2)
RFG_DEVICE void load_columns(rfg_u32x4 *u, const char *tile, int n)
{
    int lane = rfg_lane(), i = n / HALVES;
    const char *row[4], *from = tile + rfg_wave() % WAVES * 32 + lane / 4 * 4;
#pragma unroll
    for (int r = 0; r < 4; r++)
        row[r] = from + key_of(i * 16 + lane % 4 * 2 + r % 2 + r / 2 * 8) * ROW;
    u[0] = load_values(row, n % HALVES * 2);
    u[1] = load_values(row, n % HALVES * 2 + 1);
}
/* Adds the tile's values: done. A thread has of each 128 columns the four from wave * 32 + lane / 4 * 4 on. first: what
 * load_columns() loaded. */
RFG_DEVICE void multiply_values(struct state *w, const char *tile, rfg_u64 weights, const rfg_u32x4 *first)
{
    const int all = TILE_KV / 16 * HALVES;
    asm volatile("" : "+l"(weights));
    rfg_u32x4 a[2][4], u[2] = { first[0], first[1] };
#pragma unroll
    for (int n = 0; n < all; n++) {
        rfg_u32x4 *at = a[n % 2], next[2] = { u[0], u[1] };
        int half = n % HALVES * 2;
        if (n + 1 < all)
            load_columns(next, tile, n + 1);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            at[2 * h] = make_uint4(
                decode_two(signed_bytes(u[h].x, u[h].y, 0xc480)), decode_two(signed_bytes(u[h].x, u[h].y, 0xd591)),
                decode_two(signed_bytes(u[h].z, u[h].w, 0xc480)), decode_two(signed_bytes(u[h].z, u[h].w, 0xd591)));
            at[2 * h + 1] = make_uint4(
                decode_two(signed_bytes(u[h].x, u[h].y, 0xe6a2)), decode_two(signed_bytes(u[h].x, u[h].y, 0xf7b3)),
                decode_two(signed_bytes(u[h].z, u[h].w, 0xe6a2)), decode_two(signed_bytes(u[h].z, u[h].w, 0xf7b3)));
        }
        rfg_wg_fence();
#pragma unroll
        for (int h = 0; h < 4; h++)
            wg_add(w->o[half * 2 + h], at[h], weights + (rfg_u32)(2 * (n / HALVES)), 1);
        rfg_wg_commit();
        rfg_wg_wait(1);
        u[0] = next[0];
        u[1] = next[1];
    }
    rfg_wg_wait(0);
    settle_sums(w);
}

RFG_DEVICE void attend(const struct mla_args *a, const struct work_item *it, struct span span, char *lds,
                       struct state *w)
{
    struct barriers *b = (struct barriers *)lds;
    const char *at = lds + WEIGHTS_AT + TEAM * (ROWS * 128);
    rfg_u64 q = rfg_wg_rows(lds + Q_AT), p = rfg_wg_rows(at);
    int stage = TEAM, odd = 0, unmasked = b->end[0];
#pragma unroll 1
    for (int t = span.begin + TEAM; t < span.end; t += TEAMS) {
        rfg_frag_c s[FRAGS];
        const float alike[2] = { 1.0f, 1.0f };
        const char *tile = lds + KV_AT + stage * TILE;
        rfg_arrival_wait(&b->full[stage], odd);
        multiply_keys(s, tile, q);
        weigh_scores(a, it, b->end, b->of_wave[TEAM], w, s, t * TILE_KV, unmasked);
        store_weights(rfg_lds_address(at), s, alike);
        rfg_u32x4 columns[2];
        load_columns(columns, tile, 0);
        rfg_wg_see();
        meet();
        multiply_values(w, tile, p, columns);
        rfg_arrive_wave(&b->empty[stage]);
        stage += TEAMS;
        if (stage >= STAGES) {
            stage -= STAGES;
            odd ^= 1;
        }
    }
}

#define NEIGHBOURS /* a unit's columns are */
#include "mha/mla/wgmma_few_out.h"

/* A barrier of the teams. */
RFG_DEVICE void meet_teams(void)
{
    asm volatile("bar.sync 2, %0;" ::"n"(TEAMS * MULTIPLIERS) : "memory");
}
/* The first team's sums become all teams'. */
RFG_DEVICE void add_teams(char *lds, struct state *w)
{
    struct barriers *b = (struct barriers *)lds;
    rfg_f32x4 *sums = (rfg_f32x4 *)(lds + KV_AT) + rfg_thread() % MULTIPLIERS;
    const int team = TEAM, all = V_BLOCKS * PAIRS;
    meet_teams();
    if (team > 0) {
#pragma unroll
        for (int u = 0; u < all; u++) {
            const float *v = w->o[u / PAIRS][u % PAIRS / 2].v + u % 2 * 4;
            sums[((team - 1) * all + u) * MULTIPLIERS] = make_float4(v[0], v[1], v[2], v[3]);
        }
        if (rfg_thread() % MULTIPLIERS < 4)
#pragma unroll
            for (int n = 0; n < HEADS; n++) {
                b->ends[team][0][head_of(n)] = w->m[n];
                b->ends[team][1][head_of(n)] = w->l[n];
            }
    }
    meet_teams();
    if (team > 0)
        return;
#pragma unroll 1
    for (int i = 1; i < TEAMS; i++) {
        float mine[HEADS], its[HEADS];
#pragma unroll
        for (int n = 0; n < HEADS; n++) {
            float m = b->ends[i][0][head_of(n)], top = rfg_max(w->m[n], m);
            mine[n] = rfg_exp2(w->m[n] - top);
            its[n] = rfg_exp2(m - top);
            w->m[n] = top;
            w->l[n] = w->l[n] * mine[n] + b->ends[i][1][head_of(n)] * its[n];
        }
#pragma unroll
        for (int u = 0; u < all; u++) {
            float *v = w->o[u / PAIRS][u % PAIRS / 2].v + u % 2 * 4;
            int n = u % PAIRS * 2;
            rfg_f32x4 x = sums[((i - 1) * all + u) * MULTIPLIERS];
            v[0] = v[0] * mine[n] + x.x * its[n];
            v[1] = v[1] * mine[n + 1] + x.y * its[n + 1];
            v[2] = v[2] * mine[n] + x.z * its[n];
            v[3] = v[3] * mine[n + 1] + x.w * its[n + 1];
        }
    }
}

RFG_DEVICE void multiply_all(const struct mla_args *a, const struct work_item *it, struct span span, char *lds)
{
    struct barriers *b = (struct barriers *)lds;
    struct state w;
    begin_rows(a, it, &w, b->end);
    rfg_wg_see(); /* queries */
    meet_teams();
    attend(a, it, span, lds, &w);
    add_sums(b->of_wave[TEAM], &w);
    add_teams(lds, &w);
#if PARTS > 1
    start_sending();
    if (TEAM == 0)
        send_sums(&w, lds, rfg_group_x() % PARTS);
    combine(a, it, lds);
#else
    if (TEAM == 0)
        store_rows(a, it, &w);
#endif
}

#define COPY_REGISTERS     (TEAMS == 2 ? 56 : 32)
#define MULTIPLY_REGISTERS (TEAMS == 2 ? 224 : 160)

#if PARTS > 1
RFG_KERNEL_CLUSTER((MULTIPLIERS + COPIERS), PARTS)
#else
RFG_KERNEL((MULTIPLIERS + COPIERS))
#endif
mla_decode_wgmma_codes(struct mla_args a)
{
    char *lds = (char *)rfg_wg_lds;
    struct barriers *b = (struct barriers *)lds;
    rfg_start_next();
    if (rfg_thread() == 0)
        for (int stage = 0; stage < STAGES; stage++) {
            rfg_arrival_init(&b->empty[stage], WAVES);
            rfg_arrival_init(&b->full[stage], 1);
        }
    rfg_barrier_lds();
    rfg_await_previous();
    struct work_item it;
    place_item(&a, &it, own_item(), items_each(&a));
    if (TEAM < TEAMS)
        copy_queries(&a, &it, lds + Q_AT);
    else
        expect_table(&a, it.b, rfg_thread() - TEAMS * MULTIPLIERS);
    open_item(&a, &it, own_item(), items_each(&a));
    struct span span = span_of(&it);
    if (TEAM < TEAMS) {
        rfg_more_registers(MULTIPLY_REGISTERS);
        multiply_all(&a, &it, span, lds);
    } else {
        rfg_fewer_registers(COPY_REGISTERS);
        if (rfg_thread() < TEAMS * MULTIPLIERS + 32)
            copy_all(&a, &it, span, b, lds, rfg_lane());
#if PARTS > 1
        start_sending();
        combine(&a, &it, lds);
#endif
    }
}
