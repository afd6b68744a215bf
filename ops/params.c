/* SPDX-License-Identifier: MIT */
#include "params.h"

#define MAX_PARAMS_SIZE 4096 /* a larger one was never written: what lies there is read */

#define BAD(...) rfg_fail(RFG_ERROR_INVALID_ARGUMENT, __VA_ARGS__)

static rfg_status check_size(const char *fn, const char *name, const char *type, size_t size, size_t own_size)
{
    if (size < sizeof(size) || size % sizeof(size) || size > MAX_PARAMS_SIZE)
        return BAD("%s: %s has size %zu: must be sizeof(%s), a multiple of %zu up to %d (%zu in this version)", fn,
                   name, size, type, sizeof(size), MAX_PARAMS_SIZE, own_size);
    return RFG_OK;
}

rfg_status rfg_take_other_struct(const char *fn, const char *name, const char *type, void *own, size_t own_size,
                                 const void *theirs)
{
    const unsigned char *bytes = theirs;
    size_t size;
    memcpy(&size, theirs, sizeof(size));
    rfg_status st = check_size(fn, name, type, size, own_size);
    if (st != RFG_OK)
        return st;
    for (size_t i = own_size; i < size; i++)
        if (bytes[i])
            return BAD("%s: %s has size %zu and byte %zu is not 0: this version's %s has %zu bytes, those beyond "
                       "must be 0",
                       fn, name, size, i, type, own_size);
    memset(own, 0, own_size);
    memcpy(own, theirs, size < own_size ? size : own_size);
    return RFG_OK;
}

rfg_status rfg_give_struct(const char *fn, const char *name, const char *type, void *theirs, const void *own,
                           size_t own_size)
{
    size_t size;
    memcpy(&size, theirs, sizeof(size));
    rfg_status st = check_size(fn, name, type, size, own_size);
    if (st != RFG_OK)
        return st;
    size_t known = size < own_size ? size : own_size;
    memcpy((char *)theirs + sizeof(size), (const char *)own + sizeof(size), known - sizeof(size));
    memset((char *)theirs + known, 0, size - known);
    return RFG_OK;
}
