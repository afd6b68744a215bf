/* SPDX-License-Identifier: MIT */
#include "gates.h"

#include <math.h>

#include "base/error.h"

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

#define SWIGLUOAI_ALPHA  1.702f
#define SWIGLU_LIMIT     7.0f /* swigluoai's and swiglustep's */
#define SITU_BETA        4.0f /* Kimi K3's config.json, as the next */
#define SITU_LINEAR_BETA 25.0f

rfg_status rfg_check_gate(const char *fn, const struct rfg_gate_options *o)
{
    if (!(o->limit >= 0 && o->limit <= RFG_MAX_LIMIT))
        return BAD("%s: limit is %g: must be from 0 to %d", fn, (double)o->limit, RFG_MAX_LIMIT);
    if (!isfinite(o->alpha))
        return BAD("%s: alpha is %g: must be finite", fn, (double)o->alpha);
    if (o->alpha != 0 && o->act != RFG_ACT_SWIGLUOAI)
        return BAD("%s: alpha is %g: must be 0, act is not swigluoai", fn, (double)o->alpha);
    if (o->act != RFG_ACT_SITU && (o->situ_beta != 0 || o->situ_linear_beta != 0))
        return BAD("%s: situ_beta is %g, situ_linear_beta %g: must be 0, act is not situ", fn, (double)o->situ_beta,
                   (double)o->situ_linear_beta);
    bool usable = (o->situ_beta == 0 || o->situ_beta >= 0x1p-64f) && o->situ_beta <= 0x1p64f &&
                  (o->situ_linear_beta == 0 || o->situ_linear_beta >= 0x1p-64f) &&
                  (o->situ_linear_beta <= 0x1p64f || isinf(o->situ_linear_beta));
    return usable ? RFG_OK
                  : BAD("%s: situ_beta is %g, situ_linear_beta %g: must be from 2^-64 to 2^64, or 0; situ_linear_beta "
                        "may be infinite",
                        fn, (double)o->situ_beta, (double)o->situ_linear_beta);
}

static bool has_default_limit(rfg_act act)
{
    return act == RFG_ACT_SWIGLUOAI || act == RFG_ACT_SWIGLUSTEP;
}

struct rfg_gate rfg_gate_of(const struct rfg_gate_options *o)
{
    float own = o->act == RFG_ACT_SITU ? o->situ_beta : o->alpha;
    float own_default = o->act == RFG_ACT_SITU ? SITU_BETA : SWIGLUOAI_ALPHA;
    float limit_default = has_default_limit(o->act) ? SWIGLU_LIMIT : INFINITY;
    float linear = o->situ_linear_beta != 0 ? o->situ_linear_beta : SITU_LINEAR_BETA;
    struct rfg_gate g = { .alpha = own != 0 ? own : own_default, .limit = o->limit != 0 ? o->limit : limit_default };
    memcpy(&g.linear_beta, &linear, sizeof(linear));
    return g;
}

struct rfg_gate rfg_gate_in(rfg_act act, int64_t limit)
{
    return rfg_gate_of(&(struct rfg_gate_options){ .act = act, .limit = (float)limit });
}

int64_t rfg_gate_limit_key(const struct rfg_gate_options *o)
{
    bool default_one = has_default_limit(o->act) && o->limit == SWIGLU_LIMIT;
    return default_one ? 0 : (int64_t)ceilf(o->limit);
}

bool rfg_gate_is_limited(rfg_act act, int64_t limit)
{
    return limit != 0 || rfg_act_is_of_gates(act);
}
