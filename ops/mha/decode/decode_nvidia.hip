/* SPDX-License-Identifier: MIT
 *
 * Decode attention on NVIDIA's tensor cores: mha_decode_stream_mma there. See decode_kernel.h for the algorithm and the
 * macros, and decode_amd.hip for the other half. */
#include "rfg_device.h"
#include "rfg_attention.h"
#include "rfg_ballot.h"
#include "rfg_cache.h"
#include "mha/mha_args.h"
#include "mha/mha_device.h"
#include "mha/decode/decode_layout.h"

#define LDS_WAVES (WAVES / D_SPLIT)
#define QUERY_ROW 0
#define REAL_ROWS MHA_DECODE_REAL_ROWS(GROUP *SQ, ROWS)
/* Of a wave's outputs: so that its stores hit all banks. Lanes hold pieces of four rows, every other one, by turns with
 * their neighbours'. */
#define ROW_AT(row) ((row)*DV + (row) / 2 % 2 * 4 + (row) / 4 * 16)
#define LOADS_LATE  MHA_DECODE_LOADS_LATE(1, RFG_WAVE, D_PART, DV_PART)
#define ROW_OFFSETS 0
/* Where pages are whole steps, all rows of a step can be read, those beyond the sequence's end too, so that a lane's
 * rows are at constant distances. Values past the end are zeroed after the load. The largest heads leave no registers
 * for that. */
#define WHOLE_STEPS (PAGED == 1 && D_PART + DV_PART <= 384)
/* Scores are nothing but products: scaled, and the maximum subtracted, by one instruction. */
#define SCALE_FMA     (!CAP && !ALIBI)
#define KEY_STEPS     (KV_ALIGN < 16 ? 1 : KV_I4 && D_PART % 128 == 0 ? 4 : KV_SMALL && D_PART % 64 == 0 ? 2 : 1)
#define PAIRED_VALUES 1
#define PADDED_LOADS  1
#define SUBNORMALS    KV_I4
#define ALWAYS_LOADS  1 /* loads are predicated, without a branch */
#define RING          MHA_DECODE_RING(UNROLL)

#if RING
/* Copied to LDS, 0 if !on. */
#define COPY_IF(kind, bytes, more)                                                                                     \
    asm volatile("cp.async." kind ".shared.global" more " [%0], [%1], " bytes ", %2;" ::"r"(rfg_lds_address(v)),       \
                 "l"(p), "r"(on ? (int)sizeof(*v) : 0)                                                                 \
                 : "memory")
RFG_DEVICE void load16_if(rfg_u32x4 *v, const char *p, bool on)
{
    COPY_IF("cg", "16", ".L2::128B");
}
RFG_DEVICE void load8_if(rfg_u32x2 *v, const char *p, bool on)
{
    COPY_IF("ca", "8", ".L2::128B");
}
RFG_DEVICE void load4_if(rfg_u32 *v, const char *p, bool on)
{
    COPY_IF("ca", "4", "");
}
#else
/* Streamed, into v; if !on v stays as it is. No branch, so that the registers stay the same. */
/* Not .nc in clusters: such loads would be moved behind the barrier that is waited for meanwhile. */
#if CLUSTER > 1
#define LOAD_STREAM "ld.global.L1::no_allocate.L2::128B"
#else
#define LOAD_STREAM "ld.global.nc.L1::no_allocate.L2::128B"
#endif
#define STREAM_IF(how) "{\n.reg .pred p;\nsetp.ne.s32 p, %" how ", 0;\n@p " LOAD_STREAM
RFG_DEVICE void load16_if(rfg_u32x4 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("5") ".v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "+r"(v->x), "+r"(v->y), "+r"(v->z), "+r"(v->w)
                 : "l"(p), "r"((int)on));
}
RFG_DEVICE void load8_if(rfg_u32x2 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("3") ".v2.u32 {%0, %1}, [%2];\n}" : "+r"(v->x), "+r"(v->y) : "l"(p), "r"((int)on));
}
RFG_DEVICE void load4_if(rfg_u32 *v, const char *p, bool on)
{
    asm volatile(STREAM_IF("2") ".u32 %0, [%1];\n}" : "+r"(*v) : "l"(p), "r"((int)on));
}
#endif
RFG_DEVICE int load_block(const int *entry)
{
    return rfg_load4_global(entry);
}
#include "mha/decode/decode_pieces.h"
#include "mha/decode/decode_item.h"

/* The compiler is told how many workgroups a CU is to hold: registers follow from that. */
#if CLUSTER > 1
#define DECODE_KERNEL extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, GROUPS)
#else
#define DECODE_KERNEL extern "C" __global__ void __launch_bounds__(THREADS, GROUPS)
#endif

#if WHOLE_STEPS
/* The step's part of this lane's first row, which base is of. */
RFG_DEVICE const char *step_at(const struct mha_args *a, const struct mha_cache *c, const char *base, int block,
                               int step)
{
    rfg_u32 t = (rfg_u32)RFG_PAGE_ROW(step * MHA_DECODE_STEP, a->page_shift);
    base += (rfg_u64)(rfg_u32)block * (rfg_u64)row_bytes(c->block);
    return rfg_opaque_pointer(base + (rfg_u64)t * ((rfg_u32)c->token * KV_BYTES));
}
RFG_DEVICE void load_keys(const struct mha_args *a, const struct work_item *it, struct place *s, int block, int step,
                          bool on)
{
    const char *p = step_at(a, &a->k, it->k, block, step);
#pragma unroll
    for (int i = 0; i < RFG_FRAG_AB; i++) {
#pragma unroll
        for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
            load_key(&s->k[k][i] MINE, p + key_at(k, i), on && is_key(k, i));
        p = rfg_opaque_pointer(p + (rfg_u32)(8 * KV_BYTES) * (rfg_u32)a->k.token);
    }
}
RFG_DEVICE void load_values(const struct mha_args *a, const struct work_item *it, struct place *s, int block, int step,
                            bool on)
{
    const char *p = step_at(a, &a->v, it->v, block, step);
    rfg_u32 stride = (rfg_u32)a->v.token * KV_BYTES;
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i += 2) {
        load_value(s->v[i], p, on);
        load_value(s->v[i + 1], rfg_opaque_pointer(p + stride), on);
        p = rfg_opaque_pointer(p + 8 * stride);
    }
}
/* Values of tokens that the sequence doesn't have, of which there are `left`, may be anything. */
RFG_DEVICE void clear_values(struct stage *s, int left)
{
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++)
        if (rfg_pv_token(i) >= left)
            clear_value(s->v[i]);
}
#endif

#if KV_I4
/* Lanes have scores of tokens lane / 4 and that + 8; values of tokens 2 (lane % 4), the next one, and those + 8. */
RFG_DEVICE void find_zeros(struct step_scales *to, const rfg_u32 *k, const rfg_u32 *v, rfg_u32 word)
{
    rfg_u32 mine = kv_zero(v[0]) | kv_zero(v[1]) << 16;
    rfg_u32 even = rfg_shuffle_u32(mine, rfg_lane() % 4 * 8), odd = rfg_shuffle_u32(mine, rfg_lane() % 4 * 8 + 4);
    (void)word;
    to->k_zero[0] = (float)kv_zero(k[0]);
    to->k_zero[1] = (float)kv_zero(k[1]);
    to->v_zero[0] = rfg_byte_perm(even, odd, 0x5410) | TWICE(0x8000);
    to->v_zero[1] = rfg_byte_perm(even, odd, 0x7632) | TWICE(0x8000);
}
#endif

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* Scores to weights. */
RFG_DEVICE void softmax_step(const struct mha_args *a, const struct work_item *it, const struct queries *q,
                             struct sums *acc, rfg_frag_wx *s, STEP_SCALES int first, bool masks)
{
    bool raise = V_EXCEEDS(acc, scales);
#if SCALE_FMA
    rfg_frag_wx over[TILES]; /* scores relative to acc->m */
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            over[t].v[i] = rfg_fma(s[t].v[i], UP(t, i), -acc->m[t][i % RFG_FRAG_WX_COLS]);
    if (masks) {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                if (is_masked(a, it, first + rfg_frag_c_row(i), it->row0 + t * RFG_FRAG_X_ROWS + rfg_frag_c_col(i)))
                    over[t].v[i] = MINUS_INFINITY;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            raise |= over[t].v[i] > SLACK;
#else
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
            s[t].v[i] = score(a, it, s[t].v[i], first + rfg_frag_c_row(i),
                              it->row0 + t * RFG_FRAG_X_ROWS + rfg_frag_c_col(i), masks);
            raise |= s[t].v[i] > acc->m[t][i % RFG_FRAG_WX_COLS] + SLACK;
        }
#endif
    /* What weights are relative to need not be the largest score, only near it. */
    if (rfg_any_lane(raise)) {
#if TOKEN_SCALES
        float v_down = raise_v_top(acc, scales);
#endif
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float down[RFG_FRAG_WX_COLS];
#if SCALE_FMA
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                s[t].v[i] = over[t].v[i] == MINUS_INFINITY ? MINUS_INFINITY : s[t].v[i] * UP(t, i);
#endif
#pragma unroll
            for (int j = 0; j < RFG_FRAG_WX_COLS; j++) {
                float m = acc->m[t][j];
#pragma unroll
                for (int i = j; i < RFG_FRAG_WX; i += RFG_FRAG_WX_COLS)
                    m = rfg_max(m, s[t].v[i]);
                m = rfg_frag_wx_reduce(m, true);
                down[j] = rfg_exp2(acc->m[t][j] - m);
                acc->m[t][j] = m;
                acc->l[t][j] *= down[j];
#if TOKEN_SCALES
                down[j] *= v_down;
#endif
            }
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int i = 0; i < RFG_PV_O; i++)
                    acc->o[t][b][i] *= down[i % RFG_FRAG_WX_COLS];
#if SCALE_FMA
#pragma unroll
            for (int i = 0; i < RFG_FRAG_WX; i++)
                over[t].v[i] = s[t].v[i] - acc->m[t][i % RFG_FRAG_WX_COLS];
#endif
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++) {
#if SCALE_FMA
            s[t].v[i] = rfg_exp2(over[t].v[i]);
#else
            s[t].v[i] = rfg_exp2(s[t].v[i] - acc->m[t][i % RFG_FRAG_WX_COLS]);
#endif
            acc->l[t][i % RFG_FRAG_WX_COLS] += s[t].v[i];
        }
    }
}

#if D_SPLIT > 1
static_assert(D_SPLIT == 2 && MMA_DTYPE == DTYPE, "two waves add products of the same queries");
RFG_DEVICE void await_pair(void)
{
    asm volatile("bar.sync %0, 64;" ::"r"(1 + rfg_wave() / 2) : "memory");
}
/* Both waves' products, added in the same order by both. They go through where the pair's outputs will be, by turns
 * through two places, so that one barrier a step is enough. */
RFG_DEVICE void add_parts(struct work_item *it, rfg_frag_wx *s)
{
    float *at = (float *)rfg_lds + OUTPUTS_AT + rfg_wave() / 2 * WAVE_OUTPUTS + it->turn * (2 * TILES * 128);
    it->turn ^= 1;
#pragma unroll
    for (int t = 0; t < TILES; t++)
        *(rfg_f32x4 *)(at + ((part_of() * TILES + t) * 32 + rfg_lane()) * 4) =
            make_float4(s[t].v[0], s[t].v[1], s[t].v[2], s[t].v[3]);
    await_pair();
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        rfg_f32x4 other = *(const rfg_f32x4 *)(at + (((1 - part_of()) * TILES + t) * 32 + rfg_lane()) * 4);
        s[t].v[0] += other.x;
        s[t].v[1] += other.y;
        s[t].v[2] += other.z;
        s[t].v[3] += other.w;
    }
}
static_assert(RFG_FRAG_WX == 4 && WAVE_OUTPUTS >= 4 * TILES * 128 && OUTPUTS_AT % 4 == 0 && WAVE_OUTPUTS % 4 == 0,
              "two places for two waves' products");
#endif

#if RING
/* A step's keys and scales, and its values, out of LDS. */
RFG_DEVICE void take_keys_of(struct stage *to, const struct place *from)
{
#pragma unroll
    for (int k = 0; k < K_STEPS / KEY_STEPS; k++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            to->k[k][i] = from->k[k][i] MINE;
#if TOKEN_SCALES
    to->scales = from->scales MINE;
#endif
}
RFG_DEVICE void take_values_of(struct stage *to, const struct place *from)
{
#pragma unroll
    for (int i = 0; i < RFG_PV_TOKENS; i++)
#pragma unroll
        for (int j = 0; j < PIECES; j++)
            to->v[i][j].v = from->v[i][j] MINE.v;
}
#endif

/* One step: S = K Q^T, P, O += V^T P^T. Loads for step `next` (below `end`) go to the registers of what has been used.
 */
RFG_DEVICE void one_step(const struct mha_args *a, struct work_item *it, const struct queries *q, struct place *in,
                         struct sums *acc, int step, int next, int end, int block, int next_block)
{
#if RING
    struct stage taken, *st = &taken;
    take_keys_of(st, in);
#else
    struct stage *st = in;
#endif
#if LOADS_LATE
    load_keys(a, it, st, block, step, true);
    load_scales(a, it, st, block, step, true);
#endif
#if TOKEN_SCALES
    struct step_scales scales;
    scales_of_step(&scales, st->scales);
#endif
    rfg_frag_wx s[TILES], odd[TILES]; /* of every other part of D: half as long a chain */
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            s[t].v[i] = odd[t].v[i] = 0.0f;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        rfg_frag_ab keys;
#pragma unroll
        for (int i = 0; i < RFG_FRAG_AB; i++)
            keys.v[i] = KEY_OF(st->k[k / KEY_STEPS][i], k, i);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            rfg_frag_mma_wx(k % 2 ? &odd[t] : &s[t], &keys, &q[t].x[k], MMA_DTYPE);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < RFG_FRAG_WX; i++)
            s[t].v[i] =
#if SUBNORMALS
                rfg_fma(s[t].v[i] + odd[t].v[i], KEY_UNIT,
                        scales.k_zero[i / RFG_FRAG_WX_COLS] * q[t].less[i % RFG_FRAG_WX_COLS])
#else
                (s[t].v[i] + odd[t].v[i])
#endif
#if SCALED_QUERIES && !SCALE_FMA
                * q[t].up[i % RFG_FRAG_WX_COLS]
#endif
#if TOKEN_SCALES
                * scales.k[i / RFG_FRAG_WX_COLS]
#endif
                ;
#if RING
    take_values_of(st, in);
#elif LOADS_LATE
    load_values(a, it, st, block, step, true);
#else
    load_keys(a, it, st, next_block, next, next < end);
    load_scales(a, it, st, next_block, next, next < end);
#endif

#if D_SPLIT > 1
    add_parts(it, s);
#endif
    int first = step * MHA_DECODE_STEP, at = it->len - SQ;
    bool masks = first + MHA_DECODE_STEP > it->len ||
                 (MASK && (first + MHA_DECODE_STEP - 1 - at > a->window_right || at + SQ - 1 - first > a->window_left));
    rfg_u32 p[TILES][P_WORDS];
    softmax_step(a, it, q, acc, s, PASS_SCALES(&scales) first, masks);
#if TOKEN_SCALES
    scale_weights(acc, s, &scales);
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++)
        rfg_pv_probabilities(p[t], s[t].v, MMA_DTYPE);

#if WHOLE_STEPS
    if (first + MHA_DECODE_STEP > it->len)
        clear_values(st, it->len - first);
#endif
    struct values v;
    VALUES_OF(&v, st->v);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            multiply_values(acc->o[t], &v, p[t], b);
#if !LOADS_LATE && !RING
    load_values(a, it, st, next_block, next, next < end);
#endif
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* The tile that begins at row row0. */
RFG_DEVICE void load_queries(const struct mha_args *a, const struct work_item *it, struct queries *q, int row0)
{
    int row = row0 + rfg_frag_row(0);
    bool real = row < GROUP * SQ; /* others are zeroes: nobody asks for their results */
    const rfg_u16 *p = (const rfg_u16 *)a->q.data + it->b * a->q.batch + row / GROUP * a->q.token +
                       (it->head * GROUP + row % GROUP) * a->q.head;
#pragma unroll
    for (int i = 0; i < RFG_FRAG_X; i++)
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
            if (real &&
                part_of() * D_PART + (k / KEY_STEPS * 4 + rfg_frag_chunk(i)) * (8 * KEY_STEPS) + k % KEY_STEPS * 8 <
                    D_REAL)
                q->x[k].v[i] = load_query(p + part_of() * D_PART + k / KEY_STEPS * (32 * KEY_STEPS) +
                                          (rfg_frag_chunk(i) * KEY_STEPS + k % KEY_STEPS) * 8);
            else
                q->x[k].v[i].x = q->x[k].v[i].y = q->x[k].v[i].z = q->x[k].v[i].w = 0;
}

/* attend() calls these: before the first loads of keys and values, between the table's and the keys', and after them.
 */
struct query_pieces {
    char none;
};
RFG_DEVICE void begin_queries(const struct mha_args *a, struct work_item *it, struct query_pieces *pieces)
{
    (void)a, (void)it, (void)pieces;
}
/* Before the keys, which wait for the table. */
RFG_DEVICE void queries_before_keys(const struct mha_args *a, const struct work_item *it, struct queries *q)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
        load_queries(a, it, &q[t], it->row0 + t * RFG_FRAG_X_ROWS);
    __syncwarp(); /* so that they are not moved behind */
}
RFG_DEVICE void queries_after_keys(float *lds, const struct query_pieces *pieces)
{
    (void)lds, (void)pieces;
#if CLUSTER > 1
    __syncwarp();
    rfg_cluster_wait(); /* for all to have begun: while loads are under way */
#endif
}
RFG_DEVICE void read_queries(const struct work_item *it, const float *lds, struct queries *q, int row0)
{
    (void)it, (void)lds, (void)q, (void)row0; /* they are there already */
}

/* ---- partials ---------------------------------------------------------------------------------------------------- */

/* rfg_last_to_arrive(), but one thread answers for all that the workgroup wrote, which is quicker here. */
RFG_DEVICE bool last_to_arrive(rfg_u32 *counter, int n, rfg_u32 *flag)
{
    rfg_barrier();
    if (rfg_thread() == 0) {
        rfg_u32 before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        if (before == (rfg_u32)n - 1u)
            rfg_atomic_store(counter, 0u);
        *flag = before;
    }
    rfg_barrier();
    return *flag == (rfg_u32)n - 1u;
}

#include "mha/decode/decode_combine.h"

/* All waves' partials. */
RFG_DEVICE void write_waves(float *lds, struct sums *acc)
{
#if D_SPLIT > 1
    await_pair(); /* the other wave has read the last products */
#endif
#if RING
    rfg_barrier_lds(); /* all waves are done with what they copied there */
#endif
    write_wave(lds, acc, rfg_wave() / D_SPLIT, true);
    rfg_barrier_lds();
}

/* Partials from, from + 1, ... of n. */
RFG_DEVICE void load_partials(struct partials *p, const float *first, const float *others, int stride, int from, int n,
                              int i, int row)
{
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
        int part = from + k < n ? from + k : n - 1;
        const float *at = PART(part);
        p->o[k] = rfg_load_f32x4(at + 2 * ROWS + i * 4);
        p->ml[k] = rfg_load8(at + row * 2);
    }
}

#include "mha/decode/decode_kernel.h"
