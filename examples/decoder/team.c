/* SPDX-License-Identifier: MIT
 *
 * Tensor parallelism: the ranks are threads of this process, each with a context, a share of the weights and an engine
 * of its own. All make the same steps of the same sequences; no rank tells another what to do, since all have the same
 * bits of the residual stream and of the logits, and so choose the same experts and tokens.
 *
 *   heads, and with them the cache   in equal parts; where ranks outnumber the heads of k, some share one
 *   an MLP, each expert              an equal part of its intermediate columns
 *   lm_head                          equal parts of the vocabulary; logits are gathered
 *   embedding, norms, router         on every rank */
#include "ops.h"

#include <pthread.h>
#include <stdlib.h>

/* Compilers and file caches make ranks late for their first calls. */
enum { TIMEOUT_MS = 60000 };

struct team {
    int ranks;
    pthread_barrier_t barrier;
    rfg_comm_handle handles[RFG_COMM_MAX_RANKS];
};

struct member {
    pthread_t thread;
    struct team *team;
    int rank;
    void (*run)(void *user, struct team *t, int rank);
    void *user;
};

static void *run_member(void *arg)
{
    struct member *m = arg;
    m->run(m->user, m->team, m->rank);
    return NULL;
}

void team_run(int ranks, void (*run)(void *user, struct team *t, int rank), void *user)
{
    struct team t = { .ranks = ranks };
    struct member members[RFG_COMM_MAX_RANKS];
    pthread_barrier_init(&t.barrier, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        members[r] = (struct member){ .team = &t, .rank = r, .run = run, .user = user };
        if (pthread_create(&members[r].thread, NULL, run_member, &members[r]) != 0)
            die("a thread can't be started");
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(members[r].thread, NULL);
    pthread_barrier_destroy(&t.barrier);
}

rfg_comm *team_join(struct team *t, rfg_context *ctx, int rank)
{
    rfg_comm *comm;
    CHECK(rfg_comm_create(&comm, ctx, rank, t->ranks,
                          &(rfg_comm_params){ .size = sizeof(rfg_comm_params), .timeout_ms = TIMEOUT_MS }));
    CHECK(rfg_comm_get_handle(comm, &t->handles[rank]));
    pthread_barrier_wait(&t->barrier);
    CHECK(rfg_comm_connect(comm, t->handles));
    pthread_barrier_wait(&t->barrier); /* the handles have been read */
    return comm;
}

void team_leave(struct team *t, rfg_comm **comm)
{
    pthread_barrier_wait(&t->barrier); /* peers write to its window no more */
    rfg_comm_destroy(comm);
}

/* ---- in a step --------------------------------------------------------------------------------------------------- */

/* A kernel that is loaded may wait for all that run on its GPU. If one of those waits for a peer whose host waits for
 * the same driver, nobody moves: so in the first step of a size collectives are alone. */
static void settle(struct engine *e)
{
    if (!e->settling)
        return;
    CHECK(rfg_stream_sync(e->ctx, e->stream));
    pthread_barrier_wait(&e->p.team->barrier);
}

void op_all_reduce(struct engine *e, void *x, int64_t rows)
{
    if (!wanted(e, OP_COMM))
        return;
    rfg_tensor t = matrix(e, x, rows, e->m->c.hidden);
    settle(e);
    CHECK(rfg_op_all_reduce(e->comm, &t, &t, e->stream));
    e->collectives++;
    settle(e);
}

void op_reduce_add_norm(struct engine *e, void *y, void *residual, void *x, const void *weight, int64_t rows)
{
    int64_t n = e->m->c.hidden;
    if (e->p.apart) {
        op_all_reduce(e, x, rows);
        op_add_norm(e, y, residual, x, weight, rows);
        return;
    }
    if (!wanted(e, OP_COMM))
        return;
    rfg_tensor ty = matrix(e, y, rows, n), tx = matrix(e, x, rows, n), tr = matrix(e, residual, rows, n);
    rfg_tensor tw = rfg_tensor_1d((void *)weight, e->m->dtype, n), spare = matrix(e, e->spare, rows, n);
    rfg_norm_params p = norm_params(e);
    if (e->settling) /* it may be two launches: loads the second's kernel */
        CHECK(rfg_op_add_rmsnorm(e->ctx, &ty, &spare, &tx, &tr, &tw, &p, e->stream));
    settle(e);
    CHECK(rfg_op_all_reduce_add_rmsnorm(e->comm, &ty, &tr, &tx, &tr, &tw, &p, e->stream));
    e->collectives++;
    settle(e);
}

void op_gather_logits(struct engine *e, int64_t row, int64_t rows)
{
    int64_t n = e->m->c.vocab, part = n / e->p.team->ranks;
    for (; rows > 0; row++, rows--) {
        rfg_tensor y = rfg_tensor_1d(e->logits + row * n, RFG_F32, n);
        rfg_tensor x = rfg_tensor_1d(e->logits + row * n + e->m->c.shard.rank * part, RFG_F32, part);
        if (!wanted(e, OP_COMM))
            continue;
        settle(e);
        CHECK(rfg_op_all_gather(e->comm, &y, &x, e->stream));
        e->collectives++;
        settle(e);
    }
}
