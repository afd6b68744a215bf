/* SPDX-License-Identifier: MIT
 *
 * rfg_op_* as the layers call them: on the engine's buffers, row after row, on its stream. A step that is asked for
 * some kinds of kernels alone (engine.only) leaves the others out. */
#ifndef DECODER_OPS_H
#define DECODER_OPS_H

#include "decoder.h"

/* Whether a step is to launch a kernel of this kind; counts it. */
bool wanted(struct engine *e, enum op_kind kind);
rfg_tensor matrix(const struct engine *e, const void *data, int64_t rows, int64_t cols); /* of the model's dtype */
rfg_tensor ints(const int32_t *data, int64_t n);
rfg_norm_params norm_params(const struct engine *e);
/* Heads first .. first + n - 1 of a layer's joined projection, in e->qkv: [rows, n, head_elements]. */
rfg_tensor heads(const struct engine *e, int64_t layer, int64_t rows, int64_t first, int64_t n);

/* to = rows of the embedding table. */
void op_embedding(struct engine *e, void *to, const struct rows *r);
/* y = norm(x) */
void op_norm(struct engine *e, void *y, const void *x, const void *weight, int64_t rows);
/* y = norm(residual += x); weight NULL: 1 */
void op_add_norm(struct engine *e, void *y, void *residual, const void *x, const void *weight, int64_t rows);
/* A matrix of the model's dtype. */
struct weight plain(const struct engine *e, const void *at);
/* y [rows, n] = x [rows, k] w^T; rows of y are ldy elements apart, those of w ldw. bias: [n], or NULL. params:
 * an epilogue, or NULL. */
void op_gemm(struct engine *e, void *y, rfg_dtype dtype, int64_t ldy, const void *x, struct weight w, int64_t ldw,
             const void *bias, int64_t rows, int64_t n, int64_t k, const rfg_gemm_params *params);
/* residual [rows, hidden] += x [rows, k] w^T + bias, or NULL */
void op_gemm_add(struct engine *e, void *residual, const void *x, struct weight w, const void *bias, int64_t rows,
                 int64_t k);
/* In e->qkv: norms of the heads of q and k if the model has them, rotation; k and v into the cache. */
void op_rope_append(struct engine *e, int64_t layer, const struct rows *r);
/* e->attention = attention of the queries in e->qkv over the cache. */
void op_attention(struct engine *e, int64_t layer, const struct rows *r, bool prefill, int64_t longest);
/* MLA, all of it but o: e->attention = attention of e->normed's queries over the cache, to which their keys are
 * written. */
void op_latent_attention(struct engine *e, int64_t layer, const struct rows *r, bool prefill, int64_t longest);
/* A chunk's pieces in its image: keys before it, expand_keys at a time, then its own. How many there are. */
int engine_pieces(const struct engine *e, struct rows *r, int64_t first, int64_t count);
/* e->act [rows, n] = act(gate) up of e->gate_up, whose columns lie so */
void op_act(struct engine *e, int64_t rows, int64_t n, rfg_gates gates);
/* e->attention *= sigmoid(e->normed gate^T), of Qwen3.5. */
void op_gate(struct engine *e, int64_t layer, const struct rows *r);
/* Gemma 4: v = norm(v) in e->qkv; e->pairs = inputs of the layers, of the embedding in e->residual; what a
 * layer ends with, if there is something: false. After it e->residual is complete, e->x no part of it; they may have
 * changed places. */
void op_norm_v(struct engine *e, int64_t layer, const struct rows *r);
void op_inputs(struct engine *e, const struct rows *r);
bool op_layer_end(struct engine *e, int64_t layer, const struct rows *r);
/* e->x [rows, hidden], or added to the residual, = what the experts of each row of e->normed make of it. Rows from
 * r->live on have none: theirs are left as they are. gate: e->normed = norm(e->residual) is made here, too, in the
 * launch that chooses. */
void op_experts(struct engine *e, int64_t layer, const struct rows *r, bool add, bool gate);
/* Of ranks: x = the sum of all ranks' x; y = norm(residual += that sum), x is undefined then; logits of rows of which
 * each rank has made its part. */
void op_all_reduce(struct engine *e, void *x, int64_t rows);
void op_reduce_add_norm(struct engine *e, void *y, void *residual, void *x, const void *weight, int64_t rows);
void op_gather_logits(struct engine *e, int64_t row, int64_t rows);
/* next[row..] = tokens chosen by logits[row..]; draws: the number of each one's draw in its sequence. */
void op_sample(struct engine *e, int64_t row, int64_t rows, const int64_t *draws);

#endif
