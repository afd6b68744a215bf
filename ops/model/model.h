/* SPDX-License-Identifier: MIT
 *
 * What the models (predict) of gemm's GPU variants share: the constants of a device, and the time of a grid of
 * workgroups that stream bytes. bench/gemm_model.c judges the model by measured times and fits the
 * constants to them. */
#ifndef RFG_OPS_GEMM_MODEL_H
#define RFG_OPS_GEMM_MODEL_H

#include <math.h>

#include "ops/op.h"

/* The constants: name, whether a fit may change it, what it is. Times in microseconds. All that is known of a device
 * itself (bandwidths, latencies) is in struct rfg_device; these are of our kernels on it. */
#define GEMM_MODEL(X)                                                                                                  \
    X(burst, "what one CU can take from the caches, over its share of what all take together")                         \
    X(twice, "share of latency_us, the load and the store in it, that is counted again for a kernel's own")            \
    X(queue, "a load's latency while all CUs load, over what it is alone")                                             \
    X(blend, "exponent that adds up limits which overlap: 1 the sum, infinity the largest")                            \
    X(narrow, "what memory takes longer if 128 bytes of a row are asked for at once, not 256")                         \
    X(hidden, "exponent of a CU's workgroups: they hide so much of each other's waits in further rounds")              \
    X(waves_full, "waves on a CU that keep its units as busy as they get")                                             \
    X(last_kb, "through memory: each KiB that the last to arrive reads and adds")                                      \
    X(skinny_x, "skinny: lane operations' worth of a 16-byte load of X, its unpacking included")                       \
    X(skinny_batch, "skinny: the wait for four rows of X")                                                             \
    X(skinny_wave, "skinny: a wave's start, addresses and sums, on a CU")                                              \
    X(skinny_tail, "skinny: addresses, the waves' sums, stores")                                                       \
    X(thin_load, "thin: a load instruction of 512 bytes in 64-byte pieces, on a CU")                                   \
    X(thin_mma, "thin: matrix instructions of a wave and step for 16 x 8 of sums, on a CU")                            \
    X(thin_decode, "thin: a piece of fp8 made fp16, and multiplied, by a wave")                                        \
    X(thin_step, "thin: a step of a wave, each load of it")                                                            \
    X(thin_uneven, "thin: a step that not all waves have, tested for")                                                 \
    X(thin_sum, "thin: a KiB of partial sums, once in LDS and out again")                                              \
    X(wgmma_fill, "wgmma: arrivals set up, the first stage, sums stored")                                              \
    X(wgmma_held, "wgmma: stages of the ring that wait for the matrix cores, not for bytes")                           \
    X(wgmma_lds, "wgmma: a KiB in or out of LDS")                                                                      \
    X(wgmma_step, "wgmma: a step: arrivals, fences")                                                                   \
    X(wgmma_add, "wgmma: of codes, a column of B's such sums, added")                                                  \
    X(wgmma_again, "wgmma: what W costs that another row of tiles reads again, over reading it from memory")           \
    X(wgmma_sent, "wgmma: a KiB of sums on the way to their owners")                                                   \
    X(wgmma_store, "wgmma: a store of each lane of a wave")                                                            \
    X(wgmma_scale, "wgmma: what a store takes longer with scales of rows")                                             \
    X(tile_mma, "tile: what a step takes, over what the matrix cores' peak says")                                      \
    X(tile_store, "tile: a column of a tile's sums, stored")                                                           \
    X(splitk_step, "splitk: a step: a wait, a barrier")                                                                \
    X(splitk_mma, "splitk: a fragment's loads from LDS and its matrix instructions, of a wave")                        \
    X(splitk_tail, "splitk: addresses, the waves' sums in LDS, stores")                                                \
    X(vendor_tail, "a vendor's library: what it takes more than reading and writing")                                  \
    X(vendor_split, "a vendor's library: to add up sums of a K that was split")                                        \
    X(vendor_rate, "a vendor's library: share of the memory's bandwidth that it reaches")                              \
    X(vendor_burst, "a vendor's library: what one CU takes from the caches, as burst")                                 \
    X(vendor_mma, "a vendor's library: share of the matrix cores' peak")

struct gemm_model {
#define FIELD(name, what) double name;
    GEMM_MODEL(FIELD)
#undef FIELD
};

const struct gemm_model *gemm_model(const struct rfg_device *dev);

/* For fits: not NULL, it is what gemm_model() answers for any device. Not for threads. */
extern const struct gemm_model *gemm_model_trial;

/* A grid of workgroups, as the model sees it. */
struct gemm_flow {
    double groups;    /* all workgroups */
    double per_cu;    /* that a CU holds at once, by registers, LDS and threads */
    int cluster;      /* workgroups that start together on neighbouring CUs; 1: each for itself */
    double memory;    /* bytes of memory that are read or written, all together, each once */
    double bytes;     /* that a workgroup takes from the caches */
    double in_flight; /* of those, under way at once (Little's law) */
    double issue;     /* us that a workgroup keeps its CU's units busy: adds up over a CU's workgroups */
    double chain;     /* us that its steps wait for each other, whoever else is there */
    double latency;   /* us before the first bytes come and after the last ones are multiplied */
    bool overlaps;    /* asks for W before the launch before it has ended, if there is room for both, */
    double early;     /* so that its start and so much of its latency are hidden */
};

double gemm_flow_us(const struct rfg_device *dev, const struct gemm_flow *f);

/* Bytes that who only reads gets from the memory in a microsecond. */
double gemm_memory(const struct rfg_device *dev);

/* Workgroups of `threads` threads that a CU holds at once; at least 1. */
double gemm_resident(const struct rfg_device *dev, int threads, int registers, int lds);

/* Workgroups in clusters of `cluster` that run at once, `per_cu` on a CU. A cluster lies within a GPC. */
double gemm_at_once(const struct rfg_device *dev, int cluster, double per_cu);

/* The last workgroup to arrive reads its tile's partials alone. */
double gemm_reduce_us(const struct rfg_device *dev, int split, double partial_bytes);

#endif
