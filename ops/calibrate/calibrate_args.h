/* SPDX-License-Identifier: MIT
 *
 * What the kernels of calibrate.hip are given, by value; tuner/calibrate.c and the kernels read this same text. */
#ifndef RFG_CALIBRATE_ARGS_H
#define RFG_CALIBRATE_ARGS_H

#define CALIBRATE_THREADS  256  /* of a workgroup */
#define CALIBRATE_UNROLL   8    /* chunks of 16 bytes that a thread of calibrate_read has in flight */
#define CALIBRATE_COUNTERS 1024 /* of 4 bytes */

struct calibrate_args {
    const char *data;       /* zeroes */
    unsigned int *out;      /* as many as there are threads */
    unsigned int *counters; /* zeroes; the last one is where the chase has come to */
    int groups, n, times;   /* n: chunks of 16 bytes in a slice; loads; workgroups that share a reduction */
    unsigned int mask;      /* of the chase: bytes of data - 1 */
};

#endif
