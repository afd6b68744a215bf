/* SPDX-License-Identifier: MIT
 *
 * What attention's kernels share. */
#include "rfg_pages.h"

#define LOG2_E 1.44269504f
#define LN_2   0.69314718f

/* n, but at least `least` and at most `most`: a length or an offset that stays within the tensors, whatever the
 * caller's says. */
RFG_DEVICE int within(int n, int least, int most)
{
    n = n < most ? n : most;
    return n > least ? n : least;
}

/* Elements of a head that memory has; D and DV are what the kernel pads them to. */
#ifndef D_REAL
#define D_REAL D
#endif
#ifndef DV_REAL
#define DV_REAL DV
#endif

/* A head's sink. SINK_DTYPE is there where sinks are not f32. */
RFG_DEVICE float load_sink(const struct mha_args *a, int head)
{
#ifdef SINK_DTYPE
    return rfg_load_float(a->sinks, head, SINK_DTYPE);
#else
    return rfg_as_float(rfg_load4((const float *)a->sinks + head));
#endif
}

/* The arguments, read again: AMD's scalar registers do not hold all of them from the kernel's start to its end. */
RFG_DEVICE struct mha_args reread_args(const struct mha_args *a)
{
    struct mha_args copy;
    RFG_REREAD_ARGS(copy, a);
    return copy;
}
