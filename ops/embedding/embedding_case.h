/* SPDX-License-Identifier: MIT
 *
 * What the harness' case and oracle of embedding share. */
#define FIRST 1000   /* the table's first id */
#define SCALE 1.375f /* of scaled problems */
