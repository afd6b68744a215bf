/* SPDX-License-Identifier: MIT
 *
 * Where lines lie in a window; the host and the kernels read this same text. Not in comm_args.h, whose text tuned rows'
 * source hashes of the norms cover. */
#ifndef RFG_COMM_LINES_LAYOUT_H
#define RFG_COMM_LINES_LAYOUT_H

/* Bytes of a slot, in tiles of 512 bytes, of which 480 are data: one slot for each peer and phase. */
#define COMM_LINE_SLOT(phases, ranks) (2 * COMM_BULK / (phases) / ((ranks) > 1 ? (ranks)-1 : 1) / 512 * 512)

#endif
