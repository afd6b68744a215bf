/* SPDX-License-Identifier: MIT
 *
 * msgpack from outside: the metadata of code objects. */
#ifndef RFG_BASE_UNPACK_H
#define RFG_BASE_UNPACK_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* msgpack-c allocates what an array's header promises: to be asked before it sees the bytes. */
bool rfg_unpack_plausible(const uint8_t *data, size_t size);

/* A map's value; NULL: it is no map, or has none. */
const msgpack_object *rfg_unpack_get(const msgpack_object *map, const char *key);

#endif
