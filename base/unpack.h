/* SPDX-License-Identifier: MIT
 *
 * Checks msgpack that comes from outside: the metadata of code objects. */
#ifndef RFG_BASE_UNPACK_H
#define RFG_BASE_UNPACK_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether all items can fit in the bytes. Call it before msgpack-c, which allocates what an array's header promises. */
bool rfg_unpack_plausible(const uint8_t *data, size_t size);

/* A map's value; NULL: it is no map, or has none. */
const msgpack_object *rfg_unpack_get(const msgpack_object *map, const char *key);

#endif
