/* SPDX-License-Identifier: MIT
 *
 * Shared by the harness' case and oracle of embedding. */
#define FIRST 1000   /* the table's first id */
#define SCALE 1.375f /* of scaled problems */
