/* SPDX-License-Identifier: MIT
 *
 * rfg-db pack: chooses and compiles the kernels of given problems, without a GPU, for an engine that never compiles. */
#include "pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tempdir.h"
#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/pack/pack.h"
#include "exit.h"
#include "tuner/harness/stamp.h"

#define MAX_ARCHS       32
#define MOST_PROBLEMS   10 /* that are told one by one */
#define COMPILE_TIMEOUT 300.0

/* A kernel that is needed; its code object goes to codes[] of the pack. */
struct code {
    struct rfg_pack_code name;
    struct rfg_jit_request req;
    char config[RFG_CONFIG_STRLEN];
    const struct rfg_blob *blob;
    rfg_status status;
    char error[300];
    bool done;
};

/* A problem on an arch, and the rung of the ladder that it reached. */
struct want {
    rfg_context *ctx;
    struct rfg_problem prob;
    bool portable; /* not what is best, but the variant that takes any size and layout of these formats */
    enum rfg_rung from;
    uint32_t skip;
    struct rfg_choice choice;
    size_t code; /* of codes; SIZE_MAX: it needs none */
    bool settled;
};

struct packing {
    const struct rfg_pack_options *o;
    rfg_context *ctxs[MAX_ARCHS];
    const char *archs[MAX_ARCHS], *products[MAX_ARCHS]; /* NULL: no product in particular */
    int n_archs, n_named;                               /* n_named: that --arch names */
    struct want *wants;
    struct code *codes;
    struct rfg_row *rows;
    size_t n_wants, n_codes, n_rows, room_wants, room_codes, room_rows;
    size_t n_problems; /* of the shapes files */
    size_t problems;   /* that can't be packed */
    char *arch_names;
    struct rfg_cache *cache;
};

/* Room for one more; false with the error set. */
static bool grow(void **v, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t more = *room ? 2 * *room : 64;
    void *grown = realloc(*v, more * size);
    if (!grown)
        return rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "pack: out of memory") == RFG_OK;
    *v = grown;
    *room = more;
    return true;
}

static void problem(struct packing *p, const struct want *w, const char *what)
{
    char text[RFG_PROBLEM_STRLEN];
    if (++p->problems <= MOST_PROBLEMS)
        rfg_print(stderr, "rfg-db: %s: %s: %s\n", rfg_context_device(w->ctx),
                  rfg_problem_format(&w->prob, text, sizeof(text)), what);
}

/* ---- what is wanted ---------------------------------------------------------------------------------------------- */

static int open_archs(struct packing *p)
{
    p->arch_names = strdup(p->o->archs);
    for (char *save, *name = p->arch_names ? strtok_r(p->arch_names, ",", &save) : NULL; name;
         name = strtok_r(NULL, ",", &save)) {
        rfg_context_params params = {
            .size = sizeof(params), .device = name, .user_db = p->o->db, .misses = -1, .cache_dir = "", .pack = ""
        };
        if (p->n_archs == MAX_ARCHS) {
            fprintf(stderr, "rfg-db: --arch: must name at most %d\n", MAX_ARCHS);
            return BAD_USAGE;
        }
        for (int i = 0; i < p->n_archs; i++)
            if (!strcmp(p->archs[i], name)) {
                fprintf(stderr, "rfg-db: --arch: %s is there twice\n", name);
                return BAD_USAGE;
            }
        rfg_context **ctx = &p->ctxs[p->n_archs];
        if (rfg_context_imagine(ctx, &params, NULL) != RFG_OK) {
            fprintf(stderr, "rfg-db: --arch %s\n", rfg_last_error());
            return BAD_USAGE;
        }
        p->archs[p->n_archs++] = name;
        p->n_named++;
        const char *target = rfg_context_info(*ctx)->target;
        if (!rfg_jit_provider_for(target)) {
            fprintf(stderr, "rfg-db: --arch %s: %s\n", name, rfg_last_error());
            p->problems++;
        }
        /* Siblings' rows too: each product takes its own. */
        const char *product;
        for (int i = 0; (product = rfg_context_measured_on(*ctx, i)); i++) {
            if (p->n_archs == MAX_ARCHS) {
                fprintf(stderr, "rfg-db: --arch: %s: with the products that rows were measured on more than %d\n", name,
                        MAX_ARCHS);
                return BAD_USAGE;
            }
            if (rfg_context_imagine(&p->ctxs[p->n_archs], &params, product) != RFG_OK)
                return complain(BAD_USAGE);
            p->products[p->n_archs] = product;
            p->archs[p->n_archs++] = name;
        }
    }
    if (p->n_archs)
        return p->problems ? PROBLEMS : FINE;
    fprintf(stderr, "rfg-db: --arch '%s': must name archs, such as gfx942,gfx950,sm_90\n", p->o->archs);
    return BAD_USAGE;
}

static bool want(struct packing *p, rfg_context *ctx, const struct rfg_problem *prob, bool portable)
{
    if (!grow((void **)&p->wants, p->n_wants, &p->room_wants, sizeof(*p->wants)))
        return false;
    p->wants[p->n_wants++] = (struct want){ .ctx = ctx,
                                            .prob = *prob,
                                            .portable = portable,
                                            .from = portable ? RFG_RUNG_PORTABLE : RFG_RUNG_EXACT,
                                            .code = SIZE_MAX };
    return true;
}

static void bad_line(void *ctx, const char *message)
{
    (void)ctx;
    rfg_print(stderr, "rfg-db: %s\n", message);
}

static int read_shapes(struct packing *p)
{
    for (int i = 0; i < p->o->n_shapes; i++) {
        struct rfg_shapes shapes;
        bool ok = rfg_shapes_read(p->o->shapes[i], &shapes, bad_line, NULL) == RFG_OK;
        int code = !ok ? complain(BAD_USAGE) : shapes.n_bad ? BAD_USAGE : FINE;
        for (size_t k = 0; k < shapes.n && code == FINE; k++) {
            const struct rfg_problem *prob = &shapes.v[k].problem, key = rfg_problem_key(prob);
            struct rfg_problem call = rfg_problem_equal(prob, &key) ? rfg_packed_call(&key) : *prob;
            for (int a = 0; a < p->n_archs && code == FINE; a++) {
                const struct rfg_problem over = rfg_problem_with_overlap(&call, true);
                bool both = p->o->overlap && !rfg_problem_overlaps(&call) &&
                            rfg_device_can_overlap(rfg_context_info(p->ctxs[a]), NULL);
                if (!want(p, p->ctxs[a], &call, false) || !want(p, p->ctxs[a], &call, true) ||
                    (both && !want(p, p->ctxs[a], &over, false)))
                    code = complain(BAD_USAGE);
            }
            p->n_problems++;
        }
        rfg_shapes_free(&shapes);
        if (code != FINE)
            return code;
    }
    if (p->n_wants)
        return FINE;
    fprintf(stderr, "rfg-db: pack: the shapes files have no problems\n");
    return BAD_USAGE;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool add_row(struct packing *p, const struct rfg_row *row)
{
    for (size_t i = 0; i < p->n_rows; i++)
        if (rfg_problem_equal(&p->rows[i].problem, &row->problem) && !strcmp(p->rows[i].arch, row->arch) &&
            p->rows[i].cu_count == row->cu_count && !strcmp(p->rows[i].device, row->device))
            return true;
    if (!grow((void **)&p->rows, p->n_rows, &p->room_rows, sizeof(*p->rows)))
        return false;
    p->rows[p->n_rows++] = *row;
    return true;
}

/* Down the ladder: from the next rung of rows, or past the variant that failed. */
static void go_on(struct want *w)
{
    w->from = w->choice.rung < RFG_RUNG_MODEL ? w->choice.rung + 1
              : w->from > RFG_RUNG_MODEL      ? w->from
                                              : RFG_RUNG_MODEL;
    w->skip |= rfg_variant_bit(w->prob.op, w->choice.variant);
}

static size_t find_code(const struct packing *p, const struct rfg_pack_code *name)
{
    size_t i = 0;
    while (i < p->n_codes && rfg_pack_compare(&p->codes[i].name, name))
        i++;
    return i;
}

static bool add_code(struct packing *p, struct want *w)
{
    struct code c = { .status = RFG_OK };
    struct rfg_kernel kernel = { 0 };
    struct rfg_reason why;
    const struct rfg_choice *ch = &w->choice;
    const struct rfg_device *dev = rfg_context_info(w->ctx);
    ch->variant->kernel(dev, &w->prob, ch->params, &kernel);
    snprintf(c.name.target, sizeof(c.name.target), "%s", dev->target);
    if (!rfg_pack_name(&c.name, &kernel, &why))
        return rfg_fail(RFG_ERROR_INTERNAL, "%s", why.text) == RFG_OK;
    w->code = find_code(p, &c.name);
    if (w->code < p->n_codes)
        return true;
    if (!grow((void **)&p->codes, p->n_codes, &p->room_codes, sizeof(*p->codes)))
        return false;
    /* The compiler that the row was measured with, if it is here. */
    const struct rfg_jit_provider *prov =
        ch->row && *ch->row->compiler ? rfg_jit_provider_of_version(ch->row->compiler, dev->target) : NULL;
    if (!prov && !(prov = rfg_jit_provider_for(dev->target)))
        return false;
    struct code *to = &p->codes[p->n_codes];
    *to = c;
    if (rfg_variant_request(dev, &w->prob, ch->variant, ch->params, &to->req, to->config, &kernel) != RFG_OK)
        return false;
    p->n_codes++;
    to->req.provider = prov;
    to->req.name = NULL; /* config moves with the array */
    to->req.entry = NULL;
    to->req.target = NULL;
    rfg_jit_source_hash(to->name.source, to->name.source_hash);
    prov->available(to->name.compiler, sizeof(to->name.compiler), NULL);
    return true;
}

/* A library's row is packed for machines that have the library, and the best of our kernels for the others. */
static bool choose(struct packing *p, struct want *w)
{
    struct rfg_reason why;
    const struct rfg_device *dev = rfg_context_info(w->ctx);
    if (rfg_problem_overlaps(&w->prob) && !rfg_device_can_overlap(dev, &why)) {
        w->settled = true;
        if (!w->portable)
            problem(p, w, why.text);
        return true;
    }
    const struct rfg_row *exact = w->portable ? NULL : rfg_context_row(w->ctx, &w->prob);
    const struct rfg_variant *of_row = exact ? rfg_variant_find(w->prob.op, exact->variant) : NULL;
    if (of_row && of_row->kind == RFG_VARIANT_VENDOR && !add_row(p, exact))
        return false;
    for (;;) {
        if (rfg_choose(w->ctx, &w->prob, w->from, w->skip, &w->choice, NULL, NULL) != RFG_OK) {
            w->settled = true;
            if (!w->portable)
                problem(p, w, rfg_last_error());
            return true;
        }
        if (w->choice.row && !add_row(p, w->choice.row))
            return false;
        if (w->choice.variant->kind != RFG_VARIANT_VENDOR)
            break;
        go_on(w);
    }
    return w->choice.variant->kind != RFG_VARIANT_KERNEL || add_code(p, w);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

struct batch {
    struct packing *p;
    size_t *of; /* codes, by request */
    int done, all;
};

static void compiled(void *ctx, int i, rfg_status st, const char *error)
{
    struct batch *b = ctx;
    struct code *c = &b->p->codes[b->of[i]];
    c->status = st;
    snprintf(c->error, sizeof(c->error), "%s", error);
    b->done++;
    if (isatty(2))
        fprintf(stderr, "\r%d of %d code objects%s", b->done, b->all, b->done == b->all ? "\n" : "");
}

/* Compiles what is new. */
static bool compile(struct packing *p)
{
    struct rfg_jit_request *reqs = calloc(p->n_codes + 1, sizeof(*reqs));
    struct batch b = { .p = p, .of = calloc(p->n_codes + 1, sizeof(*b.of)) };
    bool ok = reqs && b.of;
    for (size_t i = 0; ok && i < p->n_codes; i++) {
        struct code *c = &p->codes[i];
        c->req.name = c->config;
        c->req.entry = c->name.entry;
        c->req.target = c->name.target;
        if (!c->done) {
            reqs[b.all] = c->req;
            b.of[b.all++] = i;
        }
    }
    if (ok && b.all) {
        struct rfg_device cpu;
        rfg_device_cpu(&cpu, 0);
        int workers = p->o->jobs > 0 ? p->o->jobs : cpu.cu_count;
        workers = workers < b.all ? workers : b.all;
        struct rfg_jit_pool *pool = rfg_jit_pool_create(workers, COMPILE_TIMEOUT);
        rfg_jit_prefetch(p->cache, pool, workers, reqs, b.all, compiled, &b);
        rfg_jit_pool_destroy(&pool);
    }
    for (size_t i = 0; ok && i < p->n_codes; i++) {
        struct code *c = &p->codes[i];
        if (!c->done && c->status == RFG_OK && (c->status = rfg_cache_get(p->cache, &c->req, NULL, NULL, &c->blob)))
            snprintf(c->error, sizeof(c->error), "%s", rfg_last_error());
        if (!c->done && c->status == RFG_OK) {
            c->name.size = c->blob->size;
            rfg_sha256_hex(c->name.code_hash, (const char *const[]){ c->blob->data }, &c->blob->size, 1);
        }
        c->done = true;
    }
    free(reqs);
    free(b.of);
    return ok || rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "pack: out of memory") == RFG_OK;
}

/* Repeats until each problem has code: kernels that a compiler refuses are skipped, as an engine would do. */
static bool settle(struct packing *p)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < p->n_wants; i++)
            if (!p->wants[i].settled && !choose(p, &p->wants[i]))
                return false;
        if (!compile(p))
            return false;
        for (size_t i = 0; i < p->n_wants; i++) {
            struct want *w = &p->wants[i];
            const struct code *c = !w->settled && w->code != SIZE_MAX ? &p->codes[w->code] : NULL;
            bool failed = c && c->status != RFG_OK;
            if (failed && c->status == RFG_ERROR_IO) /* the machine, not the kernel */
                problem(p, w, c->error);
            else if (failed)
                rfg_warn("%s: %s; the next best is packed", rfg_context_device(w->ctx), c->error);
            w->settled = !failed || c->status == RFG_ERROR_IO;
            if (w->settled)
                continue;
            w->code = SIZE_MAX;
            go_on(w);
            again = true;
        }
    }
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return rfg_pack_compare(&((const struct code *)a)->name, &((const struct code *)b)->name);
}

static int by_row(const void *pa, const void *pb)
{
    const struct rfg_row *a = pa, *b = pb;
    char x[RFG_PROBLEM_STRLEN], y[RFG_PROBLEM_STRLEN];
    int c = strcmp(a->arch, b->arch);
    c = c ? c : (a->cu_count > b->cu_count) - (a->cu_count < b->cu_count);
    c = c ? c : strcmp(rfg_problem_format(&a->problem, x, sizeof(x)), rfg_problem_format(&b->problem, y, sizeof(y)));
    return c ? c : strcmp(a->device, b->device);
}

/* Whether an engine with the pack gets the chosen kernels. *other: the problems that get another kernel of the pack. */
static bool try_out(const struct packing *p, size_t *other)
{
    for (int a = 0; a < p->n_archs; a++) {
        rfg_context_params params = {
            .size = sizeof(params), .device = p->archs[a], .user_db = "", .misses = -1, .pack = p->o->out
        };
        rfg_context *ctx;
        if (rfg_context_imagine(&ctx, &params, p->products[a]) != RFG_OK)
            return false;
        bool ok = true;
        for (size_t i = 0; i < p->n_wants && ok; i++) {
            const struct want *w = &p->wants[i];
            struct rfg_choice c;
            if (w->ctx != p->ctxs[a] || w->portable)
                continue;
            ok = rfg_choose(ctx, &w->prob, RFG_RUNG_EXACT, 0, &c, NULL, NULL) == RFG_OK;
            *other += ok && c.variant->kind == RFG_VARIANT_KERNEL &&
                      (c.variant != w->choice.variant ||
                       memcmp(c.params, w->choice.params, (size_t)c.variant->n_params * sizeof(int)));
        }
        rfg_context_destroy(&ctx);
        if (!ok)
            return false;
    }
    return true;
}

/* Prints the GPUs of the pack. GPUs of other CU counts use its parts that fit them. */
static void say_gpus(const struct packing *p)
{
    rfg_print(stdout, "%s: for", p->o->out);
    for (int a = 0, said = 0; a < p->n_archs; a++) {
        const struct rfg_device *dev = rfg_context_info(p->ctxs[a]);
        if (!p->products[a])
            rfg_print(stdout, "%s %s with %d CUs", said++ ? "," : "", dev->target, dev->cu_count);
    }
    rfg_print(stdout, " (another count is packed as --arch ARCH:CUS)\n");
}

static int write_pack(struct packing *p)
{
    struct rfg_pack_code *codes = calloc(p->n_codes + 1, sizeof(*codes));
    const struct rfg_blob **blobs = calloc(p->n_codes + 1, sizeof(*blobs));
    size_t n = 0, other = 0, bytes = 0;
    struct stat sb;
    rfg_status st = codes && blobs ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "pack: out of memory");
    if (st == RFG_OK) {
        if (p->n_codes)
            qsort(p->codes, p->n_codes, sizeof(*p->codes), by_name);
        if (p->n_rows)
            qsort(p->rows, p->n_rows, sizeof(*p->rows), by_row);
        for (size_t i = 0; i < p->n_codes; i++)
            if (p->codes[i].status == RFG_OK) {
                codes[n] = p->codes[i].name;
                bytes += codes[n].size;
                blobs[n++] = p->codes[i].blob;
            }
        st = rfg_pack_write(p->o->out, codes, blobs, n, p->rows, p->n_rows);
    }
    free(codes);
    free(blobs);
    if (st != RFG_OK || !try_out(p, &other))
        return complain(BAD_USAGE);
    say_gpus(p);
    rfg_print(stdout, "%s: %zu problems on %d arch%s: %zu rows, %zu code objects of %.1f KiB, %.1f KiB in all\n",
              p->o->out, p->n_problems, p->n_named, p->n_named == 1 ? "" : "s", p->n_rows, n, (double)bytes / 1024,
              stat(p->o->out, &sb) == 0 ? (double)sb.st_size / 1024 : 0);
    if (other)
        rfg_print(stdout, "%s: %zu problems get another of the pack's variants than the one chosen for them\n",
                  p->o->out, other);
    return FINE;
}

int rfg_db_pack(const struct rfg_pack_options *o)
{
    struct packing p = { .o = o };
    const char *missing = !o->archs      ? "--arch is missing: must name GPUs, such as gfx942,gfx950,sm_90"
                          : !o->n_shapes ? "--shapes is missing: must name a file of problems"
                          : !o->out      ? "-o is missing: must name the pack to write"
                                         : NULL;
    if (missing) {
        fprintf(stderr, "rfg-db: pack: %s\n", missing);
        return BAD_USAGE;
    }
    int code = open_archs(&p);
    if (code == FINE)
        code = read_shapes(&p);
    if (code == FINE) {
        p.cache = rfg_cache_open(NULL, 0);
        code = p.cache && settle(&p) ? FINE : complain(BAD_USAGE);
    }
    if (p.problems > MOST_PROBLEMS)
        fprintf(stderr, "rfg-db: %zu problems can't be packed in all\n", p.problems);
    if (code == FINE && p.problems)
        code = PROBLEMS;
    if (code == FINE)
        code = write_pack(&p);
    else if (code == PROBLEMS)
        fprintf(stderr, "rfg-db: %s: not written\n", o->out);
    for (int i = 0; i < p.n_archs; i++)
        rfg_context_destroy(&p.ctxs[i]);
    for (size_t i = 0; i < p.n_codes; i++)
        free((char *)p.codes[i].req.source);
    rfg_cache_close(&p.cache);
    free(p.arch_names);
    free(p.wants);
    free(p.codes);
    free(p.rows);
    return code;
}
