/* SPDX-License-Identifier: MIT
 *
 * sample as the harness has it. Parameters are drawn so that rows differ in what they have on, edges among them. More
 * than one token may be right where sums in double and the library's differ by rounding: accept() works the draw out
 * in double, by rfg/sample.h's formulas, and takes what is within a bound of it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/util.h"
#include "ops/oracle.h"
#include "sample.h"

enum { Y, LOGITS, SEED, OFFSET, FIRST_OPTIONAL }; /* then one for each key from SAMPLE_TEMPERATURE to SAMPLE_PROMPT */

static int at_key(int key)
{
    return FIRST_OPTIONAL + key - SAMPLE_TEMPERATURE;
}

static int sample_tensors(const struct rfg_problem *prob, struct rfg_tensor_spec spec[RFG_MAX_TENSORS])
{
    static const char *const names[] = { "y",        "logits", "seed",   "offset",     "temperature",
                                         "top_k",    "top_p",  "min_p",  "repetition", "frequency",
                                         "presence", "bias",   "counts", "prompt" };
    const int64_t *v = prob->v;
    int n = at_key(SAMPLE_PROMPT) + 1;
    for (int i = 0; i < n; i++) {
        int key = i - FIRST_OPTIONAL + SAMPLE_TEMPERATURE;
        rfg_dtype d = i == Y                                        ? (rfg_dtype)prob->dtype[1]
                      : i == SEED || i == OFFSET                    ? RFG_I64
                      : key == SAMPLE_TOP_K || key == SAMPLE_COUNTS ? RFG_I32
                      : key == SAMPLE_PROMPT                        ? RFG_I8
                                                                    : RFG_F32;
        spec[i] = (struct rfg_tensor_spec){ .dtype = d, .ndim = 1, .shape = { v[SAMPLE_B] }, .align_key = -1 };
        if (i >= FIRST_OPTIONAL && key >= SAMPLE_BIAS) /* apart, whatever the logits are */
            spec[i] = rfg_rows_spec(NULL, d, v[SAMPLE_B], v[SAMPLE_V], 1, v[SAMPLE_V] + key - SAMPLE_BIAS, -1);
        if (i == LOGITS)
            spec[i] = rfg_rows_spec(NULL, (rfg_dtype)prob->dtype[0], v[SAMPLE_B], v[SAMPLE_V], 1, v[SAMPLE_LDX],
                                    SAMPLE_ALIGN);
        spec[i].name = names[i];
        spec[i].output = spec[i].by_predicate = i == Y;
        spec[i].absent = i >= FIRST_OPTIONAL && !v[key];
    }
    return n;
}

static double uniform(uint64_t *seed)
{
    return (double)(rfg_random(seed) >> 11) * 0x1p-53;
}

/* What engines ask for, which is what is timed: parameters as users leave them, logits as many models have them. */
static double usual(int key, uint64_t *seed)
{
    static const double values[][4] = {
        [SAMPLE_TEMPERATURE] = { 1, 0.8, 1, 0.7 },   [SAMPLE_TOP_K] = { 50, 40, 50, 60 },
        [SAMPLE_TOP_P] = { 0.9, 0.95, 0.9, 0.8 },    [SAMPLE_MIN_P] = { 0.05, 0.1, 0.05, 0.02 },
        [SAMPLE_REPETITION] = { 1.1, 1.05, 1, 1.2 }, [SAMPLE_FREQUENCY] = { 0.5, 0, 0.2, 1 },
        [SAMPLE_PRESENCE] = { 0.5, 0, 0.2, 1 },
    };
    return values[key][rfg_random(seed) % 4];
}

/* Logits spread as a model's are, a few of them alike; parameters by usual(), or (data other than random) from all that
 * callers could take, with edges. */
static void sample_fill(const struct rfg_problem *prob, int tensor, const rfg_tensor *t, enum rfg_data data,
                        uint64_t seed)
{
    static const double temperatures[] = { 1, 0.7, 0, 0.3, 1.5, 1e-4, -1, NAN, 1e30, 0.01 };
    static const double ps[] = { 0.9, 0.5, 1, 0, 0.95, 1e-7, NAN, 0.999, 2, -1 };
    static const double min_ps[] = { 0.05, 0, 0.3, 1, NAN, 1e-3, 2, -1 };
    static const double repetitions[] = { 1.2, 1, 0.8, 2, 0, -1, NAN, INFINITY };
    static const double penalties[] = { 0, 0.5, 2, -1 };
    int64_t b = prob->v[SAMPLE_B], v = prob->v[SAMPLE_V];
    const int64_t ks[] = { 50, 1, 0, v, v - 1, -3, 2, v + 7, 5, 1000, INT32_MAX, INT32_MIN };
    int key = tensor - FIRST_OPTIONAL + SAMPLE_TEMPERATURE;
#define ONE_OF(list) list[rfg_random(&seed) % (sizeof(list) / sizeof(list[0]))]
    for (int64_t r = 0; tensor != Y && r < b; r++) {
        if (tensor == SEED || tensor == OFFSET) {
            ((int64_t *)t->data)[r] = (int64_t)rfg_random(&seed);
            continue;
        }
        if (tensor == LOGITS) {
            for (int64_t i = 0; i < v; i++) {
                double l = rfg_load(t->data, t->dtype, r * t->strides[0] + i), u = uniform(&seed);
                if (data == RFG_DATA_RANDOM || data == RFG_DATA_WILD)
                    l = (data == RFG_DATA_WILD ? 2 : 3) * sqrt(-2 * log(u + 1e-9)) *
                            cos(6.283185307179586 * uniform(&seed)) +
                        1;
                if (data == RFG_DATA_SPECIAL && r % 4 == 1 && i % 3)
                    l = u < 0.5 ? NAN : -INFINITY;
                if (data == RFG_DATA_SPECIAL && r % 8 == 5)
                    l = u < 0.5 ? NAN : -INFINITY;
                rfg_store(t->data, t->dtype, r * t->strides[0] + i, l);
            }
            for (int64_t i = v; r + 1 < b && i < t->strides[0]; i++)
                rfg_store(t->data, t->dtype, r * t->strides[0] + i, INFINITY);
            continue;
        }
        if (key >= SAMPLE_BIAS) {
            for (int64_t i = 0; i < t->strides[0] && (i < v || r + 1 < b); i++) {
                uint64_t bits = rfg_random(&seed);
                double x = key == SAMPLE_PROMPT   ? (double)((bits % 4 == 0) * (int)(bits >> 8 & 127) - (bits % 8 == 1))
                           : key == SAMPLE_COUNTS ? (double)(bits % 5 == 0) * (double)(bits >> 8 & 3)
                           : bits % 16            ? (uniform(&seed) - 0.5) * (double)(bits % 3)
                                                  : -INFINITY;
                rfg_store(t->data, t->dtype, r * t->strides[0] + i, i < v ? x : 100);
            }
            continue;
        }
        double x = data == RFG_DATA_RANDOM     ? usual(key, &seed)
                   : key == SAMPLE_TEMPERATURE ? ONE_OF(temperatures)
                   : key == SAMPLE_TOP_K       ? (double)ONE_OF(ks)
                   : key == SAMPLE_TOP_P       ? ONE_OF(ps)
                   : key == SAMPLE_MIN_P       ? ONE_OF(min_ps)
                   : key == SAMPLE_REPETITION  ? ONE_OF(repetitions)
                                               : ONE_OF(penalties);
        rfg_store(t->data, t->dtype, r, x);
    }
#undef ONE_OF
}

static rfg_status sample_call(rfg_context *ctx, const struct rfg_problem *prob, const rfg_tensor *t, rfg_stream stream)
{
    const rfg_tensor *of[SAMPLE_JOINT] = { NULL };
    for (int key = SAMPLE_TEMPERATURE; key <= SAMPLE_PROMPT; key++)
        of[key] = t[at_key(key)].data ? &t[at_key(key)] : NULL;
    rfg_sample_params p = { .size = sizeof(p),
                            .temperature = of[SAMPLE_TEMPERATURE],
                            .top_k = of[SAMPLE_TOP_K],
                            .top_p = of[SAMPLE_TOP_P],
                            .min_p = of[SAMPLE_MIN_P],
                            .repetition = of[SAMPLE_REPETITION],
                            .frequency = of[SAMPLE_FREQUENCY],
                            .presence = of[SAMPLE_PRESENCE],
                            .bias = of[SAMPLE_BIAS],
                            .counts = of[SAMPLE_COUNTS],
                            .prompt = of[SAMPLE_PROMPT],
                            .order = prob->v[SAMPLE_JOINT] ? RFG_SAMPLE_JOINT : RFG_SAMPLE_TOP_K_FIRST };
    return rfg_op_sample(ctx, &t[Y], &t[LOGITS], &t[SEED], &t[OFFSET], &p, stream);
}

static void sample_pack(const struct rfg_problem *prob, const rfg_tensor *t, void *kargs)
{
#define AT(key) t[at_key(key)]
    *(struct sample_args *)kargs = (struct sample_args){ .logits = t[LOGITS].data,
                                                         .y = t[Y].data,
                                                         .seed = t[SEED].data,
                                                         .offset = t[OFFSET].data,
                                                         .temperature = AT(SAMPLE_TEMPERATURE).data,
                                                         .top_p = AT(SAMPLE_TOP_P).data,
                                                         .min_p = AT(SAMPLE_MIN_P).data,
                                                         .repetition = AT(SAMPLE_REPETITION).data,
                                                         .frequency = AT(SAMPLE_FREQUENCY).data,
                                                         .presence = AT(SAMPLE_PRESENCE).data,
                                                         .top_k = AT(SAMPLE_TOP_K).data,
                                                         .bias = AT(SAMPLE_BIAS).data,
                                                         .counts = AT(SAMPLE_COUNTS).data,
                                                         .prompt = AT(SAMPLE_PROMPT).data,
                                                         .b = (int)prob->v[SAMPLE_B],
                                                         .v = (int)prob->v[SAMPLE_V],
                                                         .joint = (int)prob->v[SAMPLE_JOINT],
                                                         .ldx = t[LOGITS].strides[0],
                                                         .ld_bias = AT(SAMPLE_BIAS).strides[0],
                                                         .ld_counts = AT(SAMPLE_COUNTS).strides[0],
                                                         .ld_prompt = AT(SAMPLE_PROMPT).strides[0] };
#undef AT
}

/* ---- the draw in double ----------------------------------------------------------------------------------------- */

struct ranked {
    double l;
    int64_t id;
    double weight; /* 0: a filter took it */
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->l != y->l ? (x->l < y->l ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static double of_row(const struct rfg_problem *prob, const rfg_tensor *host, int key, int64_t row, double none)
{
    const rfg_tensor *t = &host[at_key(key)];
    return prob->v[key] ? rfg_load(t->data, t->dtype, row) : none;
}

/* Philox 4x32-10's first two words, as its paper has it. */
static uint64_t philox(const uint64_t key, const uint64_t counter)
{
    uint32_t c[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), 0, 0 };
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t k0 = (uint32_t)key + round * 0x9E3779B9u, k1 = (uint32_t)(key >> 32) + round * 0xBB67AE85u;
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                             (uint32_t)p0 };
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
    }
    return (uint64_t)c[1] << 32 | c[0];
}

/* The row's tokens, ranked. */
static void rank(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row, struct ranked *t)
{
    double repetition = of_row(prob, host, SAMPLE_REPETITION, row, 1),
           frequency = of_row(prob, host, SAMPLE_FREQUENCY, row, 0),
           presence = of_row(prob, host, SAMPLE_PRESENCE, row, 0);
    if (!(repetition > 0x1p-100 && repetition < 0x1p100))
        repetition = 1;
    for (int64_t i = 0; i < prob->v[SAMPLE_V]; i++) {
        double l = rfg_element(&host[LOGITS], row, i);
        double count = prob->v[SAMPLE_COUNTS] ? rfg_element(&host[at_key(SAMPLE_COUNTS)], row, i) : 0;
        bool prompt = prob->v[SAMPLE_PROMPT] && rfg_element(&host[at_key(SAMPLE_PROMPT)], row, i) != 0;
        if (prob->v[SAMPLE_BIAS])
            l += rfg_element(&host[at_key(SAMPLE_BIAS)], row, i);
        if (prompt || count > 0)
            l = l > 0 ? l / repetition : l * repetition;
        if (count > 0)
            l -= frequency * count + presence;
        t[i] = (struct ranked){ isnan(l) ? -INFINITY : l, i, 0 };
    }
    qsort(t, (size_t)prob->v[SAMPLE_V], sizeof(*t), by_rank);
}

#define NEAR 2e-5 /* of a weight or a sum: the roundings of fp32, times the largest |l| / temperature that counts */

/* Is the token at `at` what the draw may give, with limits moved by `slack` one way or the other? Sets
 * those that stay. */
static bool drawn(const struct rfg_problem *prob, const rfg_tensor *host, int64_t row, struct ranked *t, int64_t id,
                  struct rfg_reason *why)
{
    int64_t v = prob->v[SAMPLE_V], k = (int64_t)of_row(prob, host, SAMPLE_TOP_K, row, 0), at = 0;
    double temperature = of_row(prob, host, SAMPLE_TEMPERATURE, row, 1), p = of_row(prob, host, SAMPLE_TOP_P, row, 1),
           min_p = of_row(prob, host, SAMPLE_MIN_P, row, 0), all = 0, left = 0;
    bool exact = !prob->v[SAMPLE_BIAS] && !prob->v[SAMPLE_COUNTS] && !prob->v[SAMPLE_PROMPT];
    double moved = exact ? 0 : 4e-7 * (1 + fabs(t[0].l)); /* how far off an l of fp32 may be */
    while (t[at].id != id)
        at++;
    if (t[0].l == -INFINITY)
        return id == 0 || rfg_refuse(why, "%" PRId64 ": no token has a logit, must be 0", id);
    if (!(temperature >= 1e-5))
        return (exact ? at == 0 : t[at].l >= t[0].l - moved) ||
               rfg_refuse(why, "%" PRId64 ": greedy, must be %" PRId64, id, t[0].id);
    temperature = fmin(temperature, 0x1p20);
    for (int64_t i = 0; i < v; i++) {
        t[i].weight = t[i].l == t[0].l ? 1 : exp((t[i].l - t[0].l) / temperature);
        all += t[i].weight = t[i].weight < 0x1p-40 ? 0 : t[i].weight;
    }
    double error = NEAR + 2 * moved / temperature + 2e-6 * 30;
    k = k > 0 && k < v ? k : v;
    if (at >= k && (exact || t[at].l < t[k - 1].l - 2 * moved))
        return rfg_refuse(why, "%" PRId64 ": the %" PRId64 "-th largest, top-k is %" PRId64, id, at + 1, k);
    if (min_p > 0 && t[at].weight < fmin(min_p, 1) * (1 - error) - 1e-7)
        return rfg_refuse(why, "%" PRId64 ": of %g of the largest's weight, min-p is %g", id, t[at].weight, min_p);
    /* Sums up to each token, of what the filters left. */
    double before = 0, unfiltered = 0, kept = 0;
    for (int64_t i = 0; i < k; i++)
        left += min_p > 0 && t[i].weight < fmin(min_p, 1) ? 0 : t[i].weight;
    double share = p < 1 ? fmax(p, 0) * (prob->v[SAMPLE_JOINT] ? all : left) : INFINITY;
    for (int64_t i = 0; i < v; i++) {
        bool stays = i < k && !(min_p > 0 && t[i].weight < fmin(min_p, 1)) && (i == 0 || unfiltered < share);
        if (i < at)
            before += stays ? t[i].weight : 0;
        if (i == at && i > 0 && unfiltered >= share * (1 + error) + 1e-9)
            return rfg_refuse(why, "%" PRId64 ": %.9g of %.9g lie before it, top-p is %g", id, unfiltered,
                              prob->v[SAMPLE_JOINT] ? all : left, p);
        unfiltered += t[i].weight;
        kept += stays ? t[i].weight : 0;
    }
    uint64_t seed = (uint64_t)((const int64_t *)host[SEED].data)[row],
             offset = (uint64_t)((const int64_t *)host[OFFSET].data)[row];
    double target = (double)philox(seed, offset) * 0x1p-64 * kept;
    /* One token more or less at a filter's limit moves the sum by its weight. */
    double edge = 0, sum = 0;
    for (int64_t i = 0; i < v; i++)
        if ((min_p > 0 && fabs(t[i].weight - fmin(min_p, 1)) < error * t[i].weight + 1e-7) ||
            (!exact && fabs(t[i].l - t[k - 1].l) <= 2 * moved))
            edge += t[i].weight;
    for (int64_t i = 0; p < 1 && i < v; sum += t[i++].weight)
        if (fabs(sum - share) <= error * all || fabs(sum + t[i].weight - share) <= error * all)
            edge = fmax(edge, t[i].weight) + (i + 1 < v ? t[i + 1].weight : 0);
    double slack = error * kept + edge + (exact ? 0 : t[at].weight * error);
    if (target >= before - slack && target <= before + t[at].weight + slack)
        return true;
    return rfg_refuse(why, "%" PRId64 ": has %.9g to %.9g of %.9g, the draw is %.9g", id, before, before + t[at].weight,
                      kept, target);
}

static bool sample_accept(const struct rfg_problem *prob, const rfg_tensor *host, const rfg_tensor *got, int tensor,
                          int64_t row, struct rfg_reason *why)
{
    int64_t v = prob->v[SAMPLE_V], id = (int64_t)rfg_load(got[tensor].data, got[tensor].dtype, row);
    if (id < 0 || id >= v)
        return rfg_refuse(why, "%" PRId64 ": must be from 0 to %" PRId64, id, v - 1);
    struct ranked *t = malloc((size_t)v * sizeof(*t));
    if (!t)
        return rfg_refuse(why, "no memory for %" PRId64 " tokens", v);
    rank(prob, host, row, t);
    bool right = drawn(prob, host, row, t, id, why);
    free(t);
    return right;
}

/* All is accept()'s. */
rfg_status rfg_oracle_sample(const struct rfg_problem *prob, const rfg_tensor *host, struct rfg_expected *expected)
{
    (void)prob, (void)host, (void)expected;
    return RFG_OK;
}

static const char *const compiled[] = {
    "sample f32->i32 B=32 V=128256 temperature=1 top_k=1 top_p=1",
    "sample bf16->i64 B=8 V=151936 top_k=1 bias=1",
    "sample f16->i64 B=8 V=128001 top_k=1 align=2",
    "sample bf16->i32 B=8 V=32001 align=4",
    "sample f32->i64 B=8 V=32002 align=8",
    NULL,
};

const struct rfg_op_case rfg_op_case_sample = {
    .tensors = sample_tensors,
    .fill = sample_fill,
    .call = sample_call,
    .pack = sample_pack,
    .oracle = rfg_oracle_sample,
    .accept = sample_accept,
    .compiled = compiled,
};
