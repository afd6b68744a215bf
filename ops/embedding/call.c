/* SPDX-License-Identifier: MIT
 *
 * rfg_op_embedding: what its tensors must be, and the problem of a call. */
#include <inttypes.h>
#include <math.h>

#include "dispatch/dispatch.h"
#include "ops/params.h"
#include "ops/tensors.h"
#include "embedding.h"

#define FN       "rfg_op_embedding"
#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, FN ": " __VA_ARGS__)

RFG_PARAMS_END(rfg_embedding_params, first);

enum { Y, IDS, TABLE, TENSORS };

enum { M = 1, N, V };
static const struct rfg_axis axes[] = {
    [M] = { "tokens", 0, 0 },
    [N] = { "columns", 0, 0 },
    [V] = { "rows", 0, 0 },
};

static const struct rfg_tensor_rule rules[] = {
    { "ids", IDS, 0, 1, { M }, RFG_INDEX_FORMATS },
    { "table", TABLE, 0, 2, { V, N }, RFG_FLOAT_FORMATS },
    { "y", Y, RFG_OUT, 2, { M, N }, RFG_DTYPE(F32), TABLE + 1 },
};

rfg_status rfg_op_embedding(rfg_context *ctx, const rfg_tensor *y, const rfg_tensor *ids, const rfg_tensor *table,
                            const rfg_embedding_params *given, rfg_stream stream)
{
    rfg_embedding_params p = RFG_EMBEDDING_PARAMS_INIT;
    const rfg_tensor *const all[] = { y, ids, table };
    struct rfg_tensors t;
    const struct rfg_operand *o = t.o;
    rfg_status st;
    if (!ctx)
        return BAD("ctx is NULL: must be a context");
    if ((st = RFG_TAKE_PARAMS(FN, rfg_embedding_params, &p, given)))
        return st;
    if (!isfinite(p.scale))
        return BAD("scale is %g: must be finite", (double)p.scale);
    rfg_tensors_begin(&t, FN, axes, all, TENSORS);
    if ((st = rfg_check_tensors(&t, rules, RFG_RULES(rules))) || rfg_size(&t, M) == 0 || rfg_size(&t, N) == 0 ||
        (st = rfg_check_overlaps(&t)))
        return st;
    struct rfg_problem prob = { .op = &rfg_op_embedding_desc,
                                .dtype = { (uint8_t)ids->dtype, (uint8_t)table->dtype, (uint8_t)y->dtype } };
    prob.v[EMBEDDING_M] = rfg_size(&t, M);
    prob.v[EMBEDDING_N] = rfg_size(&t, N);
    prob.v[EMBEDDING_V] = rfg_size(&t, V);
    prob.v[EMBEDDING_SCALED] = p.scale != 0 && p.scale != 1;
    prob.v[EMBEDDING_LDT] = rfg_ld_key(&o[TABLE]);
    prob.v[EMBEDDING_LDY] = rfg_ld_key(&o[Y]);
    prob.v[EMBEDDING_ALIGN] = rfg_alignment(o[TABLE].bits);
    prob.v[EMBEDDING_ALIGN_Y] = rfg_alignment(o[Y].bits);
    struct embedding_args a = { .table = table->data,
                                .ids = ids->data,
                                .y = y->data,
                                .m = (int)rfg_size(&t, M),
                                .n = (int)rfg_size(&t, N),
                                .scale = p.scale,
                                .v = rfg_size(&t, V),
                                .first = p.first,
                                .ldt = o[TABLE].ld,
                                .ldy = o[Y].ld };
    embedding_set_chunks(&a, &prob);
    return rfg_dispatch(ctx, &prob, &a, stream);
}
