/* SPDX-License-Identifier: MIT */
#include "stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "ops/op_case.h"

#define COMPILE_TIMEOUT 300.0 /* a busy machine must not make rows stale */

struct rfg_problem rfg_packed_call(const struct rfg_problem *key)
{
    struct rfg_problem call = *key;
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    uint64_t bits[RFG_MAX_KEYS] = { 0 };
    int n = key->op->joint ? 0 : rfg_op_case_of(key->op)->tensors(key, spec);
    for (int i = 0; i < n; i++)
        if (!spec[i].absent && spec[i].align_key >= 0) {
            bool rows = spec[i].ndim > 1 && spec[i].shape[0] > 1;
            bits[spec[i].align_key] |=
                16 | (rows ? (uint64_t)rfg_format_bytes((int)spec[i].dtype, spec[i].row_stride) : 0);
        }
    for (int k = 0; k < key->op->n_keys; k++)
        if (bits[k])
            call.v[k] = (int64_t)(bits[k] & -bits[k]);
    return call;
}

bool rfg_stamp_differs(const struct rfg_stamp *s)
{
    return strcmp(s->source_hash, s->row->source_hash) || strcmp(s->code_hash, s->row->code_hash) ||
           strcmp(s->compiler, s->row->compiler);
}

static void decide(struct rfg_stamp_check *c, enum rfg_stamp_state state, const char *why)
{
    c->state = state;
    snprintf(c->why, sizeof(c->why), "%s", why);
}

void rfg_stamp_look(struct rfg_stamp_check *c, const struct rfg_row *row, const struct rfg_device *dev)
{
    struct rfg_reason why = { "" };
    char name[64];
    memset(c, 0, sizeof(*c));
    c->job = -1;
    c->stamp.row = row;
    memcpy(c->stamp.source_hash, row->source_hash, sizeof(row->source_hash));
    memcpy(c->stamp.code_hash, row->code_hash, sizeof(row->code_hash));
    memcpy(c->stamp.compiler, row->compiler, sizeof(row->compiler));
    c->var = rfg_variant_find(row->problem.op, row->variant);
    if (!c->var)
        rfg_refuse(&why, "variant '%s': %s has no such variant", row->variant, row->problem.op->name);
    if (!c->var || !rfg_row_params(row, c->var, c->p, &why)) {
        decide(c, RFG_STAMP_REFUSED, why.text);
        return;
    }
    if (c->var->kind == RFG_VARIANT_HOST && strcmp(row->source_hash, "rfg-" RFG_VERSION))
        decide(c, RFG_STAMP_STALE, "it is part of the library, and that is another version now");
    if (c->var->kind != RFG_VARIANT_KERNEL || !c->var->kernel)
        return;
    snprintf(name, sizeof(name), "%s:%d", row->arch, row->cu_count);
    if (dev) {
        c->dev = *dev;
    } else if (!rfg_device_imagine(&c->dev, name)) {
        rfg_refuse(&why, "this version doesn't know the device %s", row->arch);
        decide(c, RFG_STAMP_UNKNOWN, why.text);
        return;
    }
    struct rfg_problem call = rfg_packed_call(&row->problem);
    if (!rfg_variant_check(c->var, &c->dev, &call, c->p, &why)) {
        decide(c, RFG_STAMP_REFUSED, why.text);
        return;
    }
    struct rfg_kernel k = { 0 };
    c->is_kernel = true;
    c->var->kernel(&c->dev, &call, c->p, &k);
    rfg_jit_source_hash(k.source, c->stamp.source_hash);
    if (!strcmp(c->stamp.source_hash, row->source_hash))
        return;
    c->compile = *row->code_hash != 0;
    decide(c, *row->code_hash ? RFG_STAMP_CHANGED : RFG_STAMP_STALE,
           "its text has changed, and the row has no code_hash to compare with");
}

/* ---- compiling ------------------------------------------------------------------------------------------------- */

struct job {
    char key[65], name[RFG_CONFIG_STRLEN], hash[65], compiler[96], error[240];
    rfg_status status;
};

struct jobs {
    struct rfg_jit_request *reqs;
    struct job *v;
    int n, done;
    void (*progress)(int done, int all);
};

static void add_job(struct jobs *j, struct rfg_stamp_check *c)
{
    const struct rfg_row *row = c->stamp.row;
    struct rfg_reason why;
    /* No code was measured for a predicted row: any compiler will do. */
    const struct rfg_jit_provider *prov = *row->compiler || row->how != RFG_SOURCE_PREDICTED
                                              ? rfg_jit_provider_of_version(row->compiler, c->dev.target)
                                              : rfg_jit_provider_for(c->dev.target);
    if (!prov && c->state == RFG_STAMP_CHANGED) {
        rfg_refuse(&why, "its text has changed, and its compiler, '%.96s', is not here to tell whether its code has",
                   row->compiler);
        decide(c, RFG_STAMP_UNKNOWN, why.text);
    }
    if (!prov)
        return;
    struct job *job = &j->v[j->n];
    struct rfg_jit_request *req = &j->reqs[j->n];
    struct rfg_kernel kernel;
    struct rfg_problem call = rfg_packed_call(&row->problem);
    memset(job, 0, sizeof(*job));
    if (rfg_variant_request(&c->dev, &call, c->var, c->p, req, job->name, &kernel) != RFG_OK) {
        decide(c, RFG_STAMP_REFUSED, rfg_last_error());
        return;
    }
    req->provider = prov;
    rfg_cache_key(req, prov, job->key);
    prov->available(job->compiler, sizeof(job->compiler), NULL);
    for (c->job = 0; c->job < j->n && strcmp(j->v[c->job].key, job->key);)
        c->job++;
    if (c->job < j->n) {
        free((char *)req->source);
        return;
    }
    j->n++;
}

static void job_done(void *ctx, int i, rfg_status st, const char *error)
{
    struct jobs *j = ctx;
    j->v[i].status = st;
    snprintf(j->v[i].error, sizeof(j->v[i].error), "%s", error);
    if (j->progress)
        j->progress(++j->done, j->n);
}

static void compare(struct rfg_stamp_check *c, const struct job *job)
{
    if (job->status != RFG_OK)
        decide(c, RFG_STAMP_REFUSED, job->error);
    else if (!*c->stamp.code_hash) {
        memcpy(c->stamp.code_hash, job->hash, sizeof(job->hash));
        memcpy(c->stamp.compiler, job->compiler, sizeof(job->compiler));
    } else if (!strcmp(c->stamp.code_hash, job->hash)) {
        decide(c, RFG_STAMP_CURRENT, "");
    } else {
        decide(c, RFG_STAMP_STALE, "it makes other code than was measured");
        /* The text is the same but the code isn't, so the host's macros or options have changed. Then an equal text
         * proves nothing. */
        if (!strcmp(c->stamp.source_hash, c->stamp.row->source_hash))
            c->stamp.source_hash[0] = 0;
    }
}

bool rfg_stamp_compile(struct rfg_stamp_check *c, size_t n, struct rfg_cache *cache, int workers,
                       void (*progress)(int done, int all))
{
    struct jobs j = { .reqs = calloc(n + 1, sizeof(*j.reqs)), .v = calloc(n + 1, sizeof(*j.v)), .progress = progress };
    bool ok = j.reqs && j.v;
    for (size_t i = 0; ok && i < n; i++)
        if (c[i].compile && c[i].is_kernel && c[i].state <= RFG_STAMP_CHANGED)
            add_job(&j, &c[i]);
    if (ok && j.n) {
        struct rfg_device cpu;
        rfg_device_cpu(&cpu, 0);
        workers = workers > 0 ? workers : cpu.cu_count;
        workers = workers < j.n ? workers : j.n;
        struct rfg_jit_pool *pool = rfg_jit_pool_create(workers, COMPILE_TIMEOUT);
        rfg_jit_prefetch(cache, pool, workers, j.reqs, j.n, job_done, &j);
        for (int i = 0; i < j.n; i++) {
            const struct rfg_blob *code;
            if (j.v[i].status == RFG_OK &&
                (j.v[i].status = rfg_cache_get(cache, &j.reqs[i], NULL, NULL, &code)) == RFG_OK)
                rfg_sha256_hex(j.v[i].hash, (const char *const[]){ code->data }, &code->size, 1);
        }
        if (pool)
            rfg_jit_pool_destroy(&pool);
        for (size_t i = 0; i < n; i++)
            if (c[i].job >= 0)
                compare(&c[i], &j.v[c[i].job]);
    }
    for (int i = 0; i < j.n; i++)
        free((char *)j.reqs[i].source);
    free(j.reqs);
    free(j.v);
    return ok;
}
