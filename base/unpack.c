/* SPDX-License-Identifier: MIT */
#include "unpack.h"

#include <string.h>

#define MAX_DEPTH 16

/* Walks over one object: true if all of its items can be there. */
static bool plausible(const uint8_t **at, const uint8_t *end, int depth)
{
    const uint8_t *p = *at;
    if (p >= end || depth > MAX_DEPTH)
        return false;
    uint8_t b = *p++;
    uint64_t bytes = 0, items = 0, width = 0;
    if (b < 0x80 || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3)
        ;
    else if (b <= 0x8f)
        items = 2u * (b & 15);
    else if (b <= 0x9f)
        items = b & 15;
    else if (b <= 0xbf)
        bytes = b & 31;
    else if ((b >= 0xc4 && b <= 0xc9) || (b >= 0xd9 && b <= 0xdf)) { /* a length of 1, 2 or 4 bytes follows */
        width = b >= 0xdc ? 2u << ((b - 0xdc) & 1) : b >= 0xd9 ? 1u << (b - 0xd9) : 1u << ((b - 0xc4) % 3);
        uint64_t n = 0;
        if ((uint64_t)(end - p) < width)
            return false;
        for (uint64_t i = 0; i < width; i++)
            n = n << 8 | *p++;
        if (b >= 0xde)
            items = 2 * n;
        else if (b >= 0xdc)
            items = n;
        else
            bytes = n + (b >= 0xc7 && b <= 0xc9);
    } else if (b >= 0xca && b <= 0xd3) {
        static const uint8_t size[] = { 4, 8, 1, 2, 4, 8, 1, 2, 4, 8 };
        bytes = size[b - 0xca];
    } else if (b >= 0xd4 && b <= 0xd8)
        bytes = 1u + (1u << (b - 0xd4));
    else
        return false;
    if (bytes > (uint64_t)(end - p) || items > (uint64_t)(end - p))
        return false;
    p += bytes;
    for (uint64_t i = 0; i < items; i++)
        if (!plausible(&p, end, depth + 1))
            return false;
    *at = p;
    return true;
}

bool rfg_unpack_plausible(const uint8_t *data, size_t size)
{
    return plausible(&data, data + size, 0);
}

const msgpack_object *rfg_unpack_get(const msgpack_object *map, const char *key)
{
    size_t len = strlen(key);
    for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++) {
        const msgpack_object_kv *kv = &map->via.map.ptr[i];
        if (kv->key.type == MSGPACK_OBJECT_STR && kv->key.via.str.size == len && !memcmp(kv->key.via.str.ptr, key, len))
            return &kv->val;
    }
    return NULL;
}
