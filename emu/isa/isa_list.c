/* SPDX-License-Identifier: MIT
 *
 * The tables of one host. */
#include "isa.h"

#define TABLES(X)                                                                                                      \
    X(ops_int)                                                                                                         \
    X(ops_float)                                                                                                       \
    X(ops_half)                                                                                                        \
    X(ops_cmp)                                                                                                         \
    X(ops_cross)                                                                                                       \
    X(ops_matrix)                                                                                                      \
    X(ops_lds)                                                                                                         \
    X(ops_vmem)                                                                                                        \
    X(ops_salu)                                                                                                        \
    X(ops_sparse)                                                                                                      \
    X(ops_sfloat)                                                                                                      \
    X(ops_wmma12)                                                                                                      \
    X(ops_scaled)                                                                                                      \
    X(ops_gfx950)
#define DECLARE(t) extern const struct emu_ops EMU_N(t);
TABLES(DECLARE)

#define GET(t) &EMU_N(t),
const struct emu_ops *const EMU_N(emu_tables)[] = { TABLES(GET) NULL };
