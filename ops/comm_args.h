/* SPDX-License-Identifier: MIT
 *
 * What every kernel of the collectives is given, by value, and how a rank's window lies; the host and the kernels read
 * this same text. The last two members are struct rfg_kargs_head.
 *
 * A window is the memory of a rank that its peers write to: control words, flags, packets, bulk data. The kernels and
 * the arguments are explained in comm.hip. */
#ifndef RFG_COMM_ARGS_H
#define RFG_COMM_ARGS_H

#define COMM_MAX_RANKS   8
#define COMM_TICKET_BITS 10           /* an epoch's part of the ticket: at most 1 << 10 workgroups, a power of two */
#define COMM_PACKETS     (1ll << 20)  /* bytes of data in a slot of packets */
#define COMM_BULK        (16ll << 20) /* bytes of a message, of all ranks' parts together */
#define COMM_TILES       4096         /* flags of a rank and phase */

/* Offsets in a window. */
#define COMM_TICKET            0 /* 8 bytes; behind them 4: not 0: broken */
#define COMM_FLAGS             4096
#define COMM_PACKETS_AT(ranks) (COMM_FLAGS + 2ll * (ranks)*COMM_TILES * 4)
#define COMM_BULK_AT(ranks)    (COMM_PACKETS_AT(ranks) + 4ll * (ranks)*2 * COMM_PACKETS)
#define COMM_WINDOW(ranks)     (COMM_BULK_AT(ranks) + 4ll * COMM_BULK)
/* Bulk bytes of a slot, if each rank has one in each of two phases; 256 at a time. */
#define COMM_PART(ranks) (COMM_BULK / (ranks) / 256 * 256)

/* enum: what a kernel's OP is. */
#define COMM_ALL_REDUCE     0 /* each rank sums all of it */
#define COMM_ALL_REDUCE_TWO 1 /* each rank sums a part, and sends that */
#define COMM_REDUCE_SCATTER 2
#define COMM_ALL_GATHER     3

struct comm_args {
    const void *x;
    void *y;
    void *window[COMM_MAX_RANKS]; /* by rank, as this device sees them */
    long long n;                  /* elements; of one rank's part, if there are parts in x or y */
    long long stride;             /* elements from a rank's part of x or y to the next's */
    unsigned int *status;         /* host memory: 1 + the rank that didn't come, 0: none */
    unsigned long long timeout;   /* ticks of the device's clock */
    int rank;
    int wide; /* x, y and their parts are aligned to 16 bytes */
    void *workspace;
    unsigned int *counters;
};

#endif
