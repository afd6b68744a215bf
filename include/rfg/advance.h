/* SPDX-License-Identifier: MIT
 *
 * From one decode step to the next on the device: one captured graph then runs step after step. */
#ifndef RFG_ADVANCE_H
#define RFG_ADVANCE_H

#include "rfg/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rfg_advance_params {
    size_t size;                   /* sizeof(rfg_advance_params): see rfg/core.h. All other members may be zero */
    const rfg_tensor *slots;       /* int64, shaped as positions: where the step's tokens go in the cache */
    const rfg_tensor *block_table; /* [B,n] int32, n >= 1, row stride >= n; with page */
    int64_t page;                  /* keys of a block: up to 2^20 */
    const rfg_tensor *accepted;    /* [B] int32: tokens of the last step that count, 0 to Sq; NULL: Sq */
    const rfg_tensor *active;      /* [B] int32: 0: the sequence stands still; NULL: none does for that */
    /* Blocks that nobody uses, the next one last: [F] int32, F >= 1, and [1] int32, how many of them there are. */
    const rfg_tensor *spare, *spare_count;
} rfg_advance_params;
#define RFG_ADVANCE_PARAMS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(rfg_advance_params), NULL, NULL, 0, NULL, NULL, NULL, NULL                                              \
    }

/* Makes a step's lengths, positions and slots from the last step's lengths (vLLM's advance_step). Of sequence b, with
 * Sq tokens in each step and n = accepted[b]:
 *
 *   kv_lens[b]  += n
 *   positions[b,j] = p(j) = kv_lens[b] - Sq + j              the step's tokens are the last of the sequence
 *   slots[b,j]     = block_table[b, p(j) / page] * page + p(j) % page
 *
 *   kv_lens    [B] int32, changed in place: keys of each sequence, as rfg_op_mha_decode() takes them
 *   positions  [B], or [B,Sq] with Sq from 1 to 8; int32 or int64, packed: as [B Sq] what rfg_op_rope_append() takes
 *   params     or NULL: lengths and positions alone
 *
 * Before the first step kv_lens are the prompt's lengths; where accepted is given, it is Sq in the first step. After a
 * step kv_lens count the step's tokens, too. The next step writes over those that are rejected.
 *
 * Blocks. Without spare the table holds all blocks that sequences will reach. With spare it holds the blocks of kv_lens
 * keys, and a sequence that reaches a new block takes one: block_table[b,i] = spare[spare_count - 1], and spare_count
 * is one less. Sequences take blocks in the order of b. One that needs more than are left waits, and so do all after it
 * that need any: none is overtaken. An engine gives blocks back by putting them behind the last one of spare.
 *
 * A sequence stands still where active[b] is 0; where kv_lens[b] is negative; where accepted[b] isn't from 0 to Sq;
 * where a token would have a position below 0 or from 2^31 - 1 on, or no column of the table; where one of its blocks
 * is negative (one taken from spare is then gone); and where it waits for blocks. Its kv_lens and row of the table
 * stay, its slots are -1, its positions 0. What the step computes for it means nothing. When it goes on, its token must
 * be the one that it had when it stopped; whoever writes tokens sees to that. Nothing outside of a tensor is read or
 * written, whatever the tensors hold.
 *
 * B = 0 does nothing. B, F, n <= 2^31 - 1. Pointers must be aligned to their element's size. Aliasing: none, no element
 * of kv_lens, positions, slots, block_table and spare_count may lie in another tensor of the call (refused; of
 * block_table only with spare).
 * The same bits in each run. Asynchronous, errors, warm-up: as rfg_op_gemm().
 *
 * Problem string: "advance i32->i64 B=64 Sq=1 blocks=256 page=16 slots=1 spare=4096" (kv_lens -> positions). Its keys:
 *   blocks=                          columns of the table; 0 without page=
 *   page=                            keys of a block
 *   slots=1, accepted=1, active=1    the member is given
 *   spare=                           F
 *   ldb=                             layout: row stride of the table
 *   overlap=1                        see rfg/core.h */
RFG_API RFG_NODISCARD rfg_status rfg_op_advance(rfg_context *ctx, const rfg_tensor *kv_lens,
                                                const rfg_tensor *positions, const rfg_advance_params *params,
                                                rfg_stream stream);

#ifdef __cplusplus
}
#endif
#endif
