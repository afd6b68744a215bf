/* SPDX-License-Identifier: MIT
 *
 * The harness' case of advance. The seed chooses the tensors' contents: sequences of any length, some at a page's or
 * the table's end, some inactive or out of range; lists that are empty, short, or too long for the table. */
#include "advance.h"
#include "advance_case.h"
#include "base/util.h"
#include "ops/oracle.h"

static struct rfg_tensor_spec ints(const char *name, int64_t n, bool there)
{
    return (struct rfg_tensor_spec){
        .name = name, .dtype = RFG_I32, .ndim = 1, .shape = { n }, .absent = !there, .align_key = -1
    };
}

static struct rfg_tensor_spec in_place(struct rfg_tensor_spec of, const char *name, int input)
{
    of.name = name;
    of.output = true;
    of.same_as = 1 + input;
    return of;
}

static struct rfg_tensor_spec tokens(const char *name, rfg_dtype dtype, const struct rfg_problem *prob, bool there)
{
    struct rfg_tensor_spec s = rfg_rows_spec(name, dtype, prob->v[ADVANCE_B], prob->v[ADVANCE_SQ], 1, 0, -1);
    s.ndim = prob->v[ADVANCE_SQ] > 1 ? 2 : 1;
    s.output = true;
    s.absent = !there;
    return s;
}

static int advance_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    const int64_t *v = prob->v;
    bool spare = v[ADVANCE_SPARE] > 0;
    spec[CASE_POSITIONS] = tokens("positions", (rfg_dtype)prob->dtype[1], prob, true);
    spec[CASE_LENS] = ints("kv_lens", v[ADVANCE_B], true);
    spec[CASE_LENS_OUT] = in_place(spec[CASE_LENS], "lens_out", CASE_LENS);
    spec[CASE_SLOTS] = tokens("slots", RFG_I64, prob, v[ADVANCE_SLOTS]);
    spec[CASE_TABLE] = rfg_rows_spec("block_table", RFG_I32, v[ADVANCE_B], v[ADVANCE_BLOCKS], 1, v[ADVANCE_LDB], -1);
    spec[CASE_TABLE].absent = !v[ADVANCE_PAGE];
    spec[CASE_TABLE_OUT] = in_place(spec[CASE_TABLE], "table_out", CASE_TABLE);
    spec[CASE_TABLE_OUT].absent = !spare;
    spec[CASE_COUNT] = ints("spare_count", 1, spare);
    spec[CASE_COUNT_OUT] = in_place(spec[CASE_COUNT], "count_out", CASE_COUNT);
    spec[CASE_ACCEPTED] = ints("accepted", v[ADVANCE_B], v[ADVANCE_ACCEPTED]);
    spec[CASE_ACTIVE] = ints("active", v[ADVANCE_B], v[ADVANCE_ACTIVE]);
    spec[CASE_SPARE] = ints("spare", v[ADVANCE_SPARE], spare);
    return CASE_TENSORS;
}

/* One in eight is beside what there is. */
static void fill_lens(const struct rfg_problem *prob, const rfg_tensor *t, uint64_t seed)
{
    const int64_t *v = prob->v;
    static const int32_t beside[] = { -1, -INT32_MAX, INT32_MAX, INT32_MAX - 1, INT32_MAX - 7 };
    int64_t page = v[ADVANCE_PAGE] ? v[ADVANCE_PAGE] : 16, room = v[ADVANCE_PAGE] ? page * v[ADVANCE_BLOCKS] : 1000;
    room = room < INT32_MAX ? room : INT32_MAX;
    for (int64_t b = 0; b < v[ADVANCE_B]; b++) {
        uint64_t r = rfg_random(&seed), which = r >> 8;
        int64_t len = (int64_t)(which % (uint64_t)(room + 1));
        if (r % 8 < 4) /* at a page's end, or near it */
            len = len / page * page + (int64_t)(r >> 4) % 3 - 1;
        ((int32_t *)t->data)[b] = r % 8 == 7 ? beside[which % 5] : (int32_t)(len < 0 ? 0 : len);
    }
}

/* Blocks; one in `odd` is none. */
static void fill_blocks(int32_t *to, int64_t n, uint64_t odd, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = rfg_random(seed);
        to[i] = r % odd ? (int32_t)(r >> 33) : r % 3 ? -1 : -INT32_MAX;
    }
}

static void advance_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                         uint64_t seed)
{
    const int64_t *v = prob->v;
    int32_t *to = t->data;
    (void)data;
    if (tensor == CASE_LENS)
        fill_lens(prob, t, seed);
    if (tensor == CASE_TABLE)
        for (int64_t b = 0; b < v[ADVANCE_B]; b++)
            fill_blocks(to + b * t->strides[0], v[ADVANCE_BLOCKS], 16, &seed);
    if (tensor == CASE_SPARE)
        fill_blocks(to, v[ADVANCE_SPARE], 16, &seed);
    if (tensor == CASE_COUNT) {
        int64_t few = (int64_t)(rfg_random(&seed) % (uint64_t)v[ADVANCE_SPARE]);
        const int64_t counts[] = { v[ADVANCE_SPARE], few, INT32_MAX, few / 2, v[ADVANCE_SPARE], few / 4, -1, 0 };
        /* Successive problems have different kinds, with any seed. */
        *to = (int32_t)counts[(rfg_random(&seed) + (uint64_t)(v[ADVANCE_B] + v[ADVANCE_SPARE])) % 8];
    }
    if (tensor == CASE_ACCEPTED || tensor == CASE_ACTIVE)
        for (int64_t b = 0; b < v[ADVANCE_B]; b++) {
            uint64_t r = rfg_random(&seed);
            const int32_t beside[] = { -1, (int32_t)v[ADVANCE_SQ] + 1, INT32_MAX, INT32_MIN };
            to[b] = tensor == CASE_ACTIVE ? (int32_t)(r % 4 ? r >> 40 : 0)
                    : r % 8               ? (int32_t)((r >> 8) % (uint64_t)(v[ADVANCE_SQ] + 1))
                                          : beside[(r >> 8) % 4];
        }
}

static const rfg_tensor *given(const rfg_tensor *t)
{
    return t->data ? t : NULL;
}

static rfg_status advance_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    rfg_advance_params p = { .size = sizeof(p),
                             .slots = given(&t[CASE_SLOTS]),
                             .block_table = given(&t[CASE_TABLE]),
                             .page = prob->v[ADVANCE_PAGE],
                             .accepted = given(&t[CASE_ACCEPTED]),
                             .active = given(&t[CASE_ACTIVE]),
                             .spare = given(&t[CASE_SPARE]),
                             .spare_count = given(&t[CASE_COUNT]) };
    return rfg_op_advance(ctx, &t[CASE_LENS], &t[CASE_POSITIONS], &p, stream);
}

static void advance_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
    struct advance_args *a = kargs;
    *a = (struct advance_args){ .kv_lens = t[CASE_LENS].data,
                                .positions = t[CASE_POSITIONS].data,
                                .slots = t[CASE_SLOTS].data,
                                .accepted = t[CASE_ACCEPTED].data,
                                .active = t[CASE_ACTIVE].data,
                                .spare = t[CASE_SPARE].data,
                                .spare_count = t[CASE_COUNT].data };
    advance_set_sizes(a, prob, &t[CASE_TABLE]);
}

static const char *const compiled[] = {
    "advance i32->i64 B=64 Sq=1 blocks=256 page=16 slots=1 spare=1024",
    "advance i32->i32 B=300 Sq=4 blocks=0 accepted=1",
    "advance i32->i32 B=5000 Sq=1 blocks=0",
    NULL,
};

const struct rfg_op_case rfg_op_case_advance = {
    .tensors = advance_tensors,
    .fill = advance_fill,
    .call = advance_call,
    .pack = advance_pack,
    .oracle = rfg_oracle_advance,
    .compiled = compiled,
};
