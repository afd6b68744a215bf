/* SPDX-License-Identifier: MIT
 *
 * The parameter structs of public functions, which grow from version to version: rfg/core.h has the rules. */
#ifndef RFG_OPS_PARAMS_H
#define RFG_OPS_PARAMS_H

#include <string.h>

#include "base/error.h"

/* Fills *own, of own_size bytes, from a caller's struct of another size. name, type: of the struct, for errors:
 * "params", "rfg_gemm_params". */
rfg_status rfg_take_other_struct(const char *fn, const char *name, const char *type, void *own, size_t own_size,
                                 const void *theirs);

static inline rfg_status rfg_take_struct(const char *fn, const char *name, const char *type, void *own, size_t own_size,
                                         const void *theirs)
{
    size_t size;
    if (!theirs)
        return RFG_OK;
    memcpy(&size, theirs, sizeof(size));
    if (size != own_size)
        return rfg_take_other_struct(fn, name, type, own, own_size, theirs);
    memcpy(own, theirs, own_size);
    return RFG_OK;
}

/* Copies a caller's params to the struct *own of this library's version, which has the defaults and keeps them if
 * params is NULL. An error names `fn`, the size and the rule, and leaves *own as it was. */
#define RFG_TAKE_PARAMS(fn, type, own, params) RFG_TAKE_STRUCT(fn, "params", type, own, params)
/* The same of a struct with another name that params point to. */
#define RFG_TAKE_STRUCT(fn, name, type, own, theirs)                                                                   \
    rfg_take_struct(fn, name, #type, (type *){ own }, sizeof(type), (const type *){ theirs })

/* Fills a caller's *theirs, of the size that it says, from *own: what own has and they don't is left out, what they
 * have and own doesn't is 0. An error leaves it as it was. */
rfg_status rfg_give_struct(const char *fn, const char *name, const char *type, void *theirs, const void *own,
                           size_t own_size);
#define RFG_GIVE_STRUCT(fn, name, type, theirs, own)                                                                   \
    rfg_give_struct(fn, name, #type, (type *){ theirs }, (const type *){ own }, sizeof(type))

/* The struct ends with `last` and no padding: a member that a later version appended into padding would be read from
 * bytes that a caller of this version never wrote. */
#define RFG_PARAMS_END(type, last)                                                                                     \
    _Static_assert(offsetof(type, size) == 0 && offsetof(type, last) + sizeof(((type *)0)->last) == sizeof(type),      \
                   #type " has padding behind " #last)

#endif
