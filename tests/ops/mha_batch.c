/* SPDX-License-Identifier: MIT */
#include "mha_batch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

float to_float(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

struct batch *make(bool decode, int sq)
{
    struct batch *b = calloc(1, sizeof(*b));
    uint64_t seed = op_seed();
    ck_assert_ptr_nonnull(b);
    b->decode = decode;
    b->sq = sq;
    b->columns = COLUMNS - 2;
    for (int i = 0; i < Q; i++)
        rfg_store(b->q, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-62);
    for (int i = 0; i < BLOCKS * BLOCK; i++) {
        rfg_store(b->k, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
        rfg_store(b->v, RFG_BF16, i, (double)(int64_t)rfg_random(&seed) * 0x1p-63);
    }
    for (int i = 0; i < B * b->columns; i++)
        b->table[i] = i;
    b->lens[0] = 107;
    b->lens[1] = 40;
    return b;
}

#define GUARD_PAGE 4096
static size_t with_guard(size_t bytes)
{
    return (bytes + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE + GUARD_PAGE;
}

/* On the cpu right before a page that nobody may touch. */
void *put(struct buffers *m, const void *data, size_t bytes)
{
    void *p;
    m->bytes[m->n] = bytes;
    if (m->hip) {
        ck_assert_int_eq(m->hip->hipMalloc(&p, bytes), hipSuccess);
        ck_assert_int_eq(m->hip->hipMemcpyHtoD((hipDeviceptr_t)p, (void *)(uintptr_t)data, bytes), hipSuccess);
    } else {
        size_t all = with_guard(bytes);
        char *pages = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(pages != MAP_FAILED && mprotect(pages + all - GUARD_PAGE, GUARD_PAGE, PROT_NONE) == 0);
        p = memcpy(pages + all - GUARD_PAGE - bytes, data, bytes);
    }
    return m->at[m->n++] = p;
}

void free_buffers(struct buffers *m)
{
    for (int i = 0; i < m->n; i++) {
        if (m->hip)
            (void)m->hip->hipFree(m->at[i]);
        else
            (void)munmap((char *)m->at[i] + m->bytes[i] + GUARD_PAGE - with_guard(m->bytes[i]),
                         with_guard(m->bytes[i]));
    }
}

void get(const struct buffers *m, void *to, void *from, size_t bytes)
{
    if (m->hip) {
        ck_assert_int_eq(m->hip->hipDeviceSynchronize(), hipSuccess);
        ck_assert_int_eq(m->hip->hipMemcpyDtoH(to, (hipDeviceptr_t)from, bytes), hipSuccess);
    } else
        memcpy(to, from, bytes);
}

void upload(rfg_context *ctx, const struct batch *b, struct result *r, struct uploaded *u)
{
    *u = (struct uploaded){ .m = { .hip = rfg_context_hip(ctx) } };
    memset(r, 0xff, sizeof(*r));
    int sq = b->sq;
    u->q = (rfg_tensor){ put(&u->m, b->q, sizeof(b->q)), RFG_BF16, 4, { B, sq, HQ, D }, { SQ * HQ * D, HQ * D, D, 1 } };
    u->k = (rfg_tensor){ put(&u->m, b->k, sizeof(b->k)), RFG_BF16, 4, { BLOCKS, PAGE, HKV, D }, { BLOCK, ROW, D, 1 } };
    u->v = u->k;
    u->out = u->q;
    u->v.data = put(&u->m, b->v, sizeof(b->v));
    u->out.data = put(&u->m, r->out, sizeof(r->out));
    u->lse = (rfg_tensor){ put(&u->m, r->lse, sizeof(r->lse)), RFG_F32, 3, { B, HQ, sq }, { HQ * SQ, SQ, 1 } };
    u->table = rfg_tensor_2d(put(&u->m, b->table, sizeof(b->table)), RFG_I32, B, b->columns, b->columns);
    u->lens = rfg_tensor_1d(put(&u->m, b->lens, sizeof(b->lens)), RFG_I32, B);
}

bool attend(rfg_context *ctx, const struct batch *b, const struct uploaded *u, rfg_stream stream)
{
    rfg_mha_params p = b->p;
    p.size = sizeof(p);
    p.lse = &u->lse;
    p.max_seqlen_k = 107;
    p.block_table = &u->table;
    p.kv_lens = &u->lens;
    rfg_status st = (b->decode ? rfg_op_mha_decode : rfg_op_mha)(ctx, &u->out, &u->q, &u->k, &u->v, &p, stream);
    ck_assert_msg(st == RFG_OK || st == RFG_ERROR_UNSUPPORTED, "%s: %s", rfg_context_device(ctx), rfg_last_error());
    return st == RFG_OK;
}

void download(struct uploaded *u, struct result *r)
{
    get(&u->m, r->out, u->out.data, sizeof(r->out));
    get(&u->m, r->lse, u->lse.data, sizeof(r->lse));
}

bool try_run(rfg_context *ctx, const struct batch *b, struct result *r)
{
    struct uploaded u;
    upload(ctx, b, r, &u);
    bool ran = attend(ctx, b, &u, NULL);
    download(&u, r);
    free_buffers(&u.m);
    return ran;
}
void run(rfg_context *ctx, const struct batch *b, struct result *r)
{
    ck_assert_msg(try_run(ctx, b, r), "%s: %s", rfg_context_device(ctx), rfg_last_error());
}

const struct kind kinds[N_KINDS] = { { true, 1, 0 }, { true, 3, 1 }, { false, SQ, 1 } };

struct batch *make_kind(int kind)
{
    struct batch *b = make(kinds[kind].decode, kinds[kind].sq);
    b->p.causal = kinds[kind].causal;
    return b;
}

void must_equal(const char *device, int kind, const char *what, const struct result *a, const struct result *b)
{
    for (int i = 0; i < Q; i++)
        ck_assert_msg(a->out[i] == b->out[i], "%s: %s, Sq=%d: %s: out[%d] is %g, was %g", device,
                      kinds[kind].decode ? "mha_decode" : "mha", kinds[kind].sq, what, i, (double)to_float(b->out[i]),
                      (double)to_float(a->out[i]));
    ck_assert_msg(!memcmp(a->lse, b->lse, sizeof(a->lse)), "%s: Sq=%d: %s: another lse", device, kinds[kind].sq, what);
}
