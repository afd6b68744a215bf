/* SPDX-License-Identifier: MIT
 *
 * Assembly variants: kernel variants whose source is an embedded .s file. asm/manifest.ini says what each can do and
 * how it is launched; asm/manifest.py makes this table of it. A variant's struct rfg_variant hands its questions to the
 * functions below and adds what a manifest can't say: parameters to sweep and the model. */
#ifndef RFG_OPS_ASM_H
#define RFG_OPS_ASM_H

#include "op.h"

/* number * parameters, or the key's value over that, rounded up. */
struct rfg_asm_size {
    const char *key;
    int64_t number;
    const char *params[4]; /* NULL after the last */
};

/* Arrays end with a zeroed element unless they are full. */
struct rfg_asm {
    const char *variant, *arch, *op, *entry;
    const char *source; /* "asm/gfx942/gemm_skinny.s" */
    const char *dtypes[12];
    struct {
        const char *key;
        int64_t min, max, step;
    } rules[12];
    struct {
        const char *name, *from; /* a parameter, "in", "out", or NULL: value */
        int value;
    } macros[RFG_MAX_MACROS];
    struct {
        struct rfg_asm_size size;
        int64_t most;
    } limits[4];
    struct rfg_asm_size grid, block, lds;
};
extern const struct rfg_asm rfg_asm_table[]; /* ends with a NULL variant */

/* The entry for a device, or NULL: says for which architectures there is one. */
const struct rfg_asm *rfg_asm_find(const char *variant, const struct rfg_device *dev, struct rfg_reason *why);

/* What struct rfg_variant asks. */
bool rfg_asm_supports(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                      struct rfg_reason *why);
bool rfg_asm_valid(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                   const int *p, struct rfg_reason *why);
void rfg_asm_kernel(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, struct rfg_kernel *k);
void rfg_asm_launch(const struct rfg_variant *var, const struct rfg_device *dev, const struct rfg_problem *prob,
                    const int *p, struct rfg_launch *l);

#endif
