/* SPDX-License-Identifier: MIT */
#include "verify.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "dispatch/context.h"
#include "dispatch/db/db_internal.h"
#include "dispatch/pack/pack.h"
#include "exit.h"
#include "pack.h"
#include "tuner/harness/stamp.h"

static const struct rfg_variant *variant_of(const struct rfg_row *row, int *p, struct rfg_reason *why)
{
    const struct rfg_variant *var = rfg_variant_find(row->problem.op, row->variant);
    if (!var)
        rfg_refuse(why, "variant '%s': %s has no such variant", row->variant, row->problem.op->name);
    return var && rfg_row_params(row, var, p, why) ? var : NULL;
}

struct verify {
    const char *path;
    int problems, stale, changed, unchecked;
    size_t rows;
};

static void finding(void *ctx, const char *text)
{
    struct verify *v = ctx;
    v->problems++;
    rfg_print(stdout, "%s: damaged: %s\n", v->path, text);
}

static bool date_ok(const char *s)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    for (size_t i = 0; i < sizeof(form); i++)
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
            return false;
    return true;
}

static bool verify_row(void *ctx, const struct rfg_row *row, const char *bad)
{
    struct verify *v = ctx;
    char text[RFG_PROBLEM_STRLEN], name[64];
    int p[RFG_MAX_PARAMS];
    struct rfg_device device, *dev = &device;
    struct rfg_stamp_check check;
    struct rfg_reason why = { "" };
    const char *column = NULL;
    v->rows++;
    if (bad) {
        v->problems++;
        rfg_print(stdout, "%s: row not understood: %s\n", v->path, bad);
        return true;
    }
    snprintf(name, sizeof(name), "%s:%d", row->arch, row->cu_count);
    if (!rfg_device_imagine(dev, name))
        dev = NULL;
    bool plausible = rfg_row_check(row, &column, &why), ok = plausible;
    const struct rfg_variant *var = ok ? variant_of(row, p, &why) : NULL;
    ok = ok && var;
    /* A row of a vendor's library is valid on machines that have the library; this one may lack it. */
    bool absent = ok && var->kind == RFG_VARIANT_VENDOR && (!dev || !*var->vendor_version(dev));
    v->unchecked += absent;
    if (ok && dev && rfg_problem_overlaps(&row->problem))
        ok = rfg_device_can_overlap(dev, &why);
    if (ok && dev && !absent)
        ok = rfg_variant_check(var, dev, &row->problem, p, &why);
    for (int i = 0; ok && i < var->n_params; i++) {
        bool listed = false;
        for (int j = 0; j < var->params[i].n; j++)
            listed |= var->params[i].values[j] == p[i];
        if (!listed)
            ok = rfg_refuse(&why, "%s=%d: not a value that %s has", var->params[i].name, p[i], var->name);
    }
    if (ok && row->how == RFG_SOURCE_MEASURED && row->samples < 1)
        ok = rfg_refuse(&why, "samples %d: a measured row must have some", row->samples);
    if (ok && row->median_us > 1e9)
        ok = rfg_refuse(&why, "median_us %g: must be less than 1000 s", row->median_us);
    if (ok && !date_ok(row->date))
        ok = rfg_refuse(&why, "date '%s': must be as 2026-11-21T03:40:00Z", row->date);
    rfg_problem_format(&row->problem, text, sizeof(text));
    if (!ok) {
        v->problems++;
        rfg_print(stdout, "%s: %s, %s, %d CUs: %s%s%s%s\n", v->path, text, row->arch, row->cu_count,
                  plausible ? "" : "column ", plausible ? "" : column, plausible ? "" : ": ", why.text);
        return true;
    }
    rfg_stamp_look(&check, row, NULL);
    v->changed += check.state == RFG_STAMP_CHANGED;
    v->stale += check.state == RFG_STAMP_STALE;
    if (check.state == RFG_STAMP_STALE)
        rfg_print(stdout, "%s: %s, %s, %d CUs: stale: %s: %s (source_hash '%s')\n", v->path, text, row->arch,
                  row->cu_count, row->variant, check.why, row->source_hash);
    return true;
}

int rfg_db_verify(const char *path, const char *arch)
{
    struct verify v = { .path = path };
    struct rfg_db *db;
    if (!rfg_access(v.path, R_OK)) {
        fprintf(stderr, "rfg-db: %s: cannot read: %s\n", v.path, strerror(errno));
        return BAD_USAGE;
    }
    if (rfg_pack_is(v.path))
        return rfg_db_verify_pack(v.path, verify_row, &v, &v.problems);
    if (rfg_db_open(&db, v.path, RFG_DB_READ) != RFG_OK) {
        complain(BAD_USAGE);
        return PROBLEMS;
    }
    int schema = rfg_db_schema(db);
    if (rfg_db_integrity(db, finding, &v) < 0 || (!v.problems && rfg_db_each(db, arch, verify_row, &v) != RFG_OK)) {
        complain(BAD_USAGE);
        v.problems++;
    }
    rfg_db_close(&db);
    rfg_print(stdout, "%s: schema %d, %zu rows, %d problem%s, %d stale\n", v.path, schema, v.rows, v.problems,
              v.problems == 1 ? "" : "s", v.stale);
    if (v.changed)
        rfg_print(stdout,
                  "%s: %d rows' kernels have another text than was measured: rfg-db restamp %s tells whether their "
                  "code has changed\n",
                  v.path, v.changed, v.path);
    if (v.unchecked)
        rfg_print(stdout,
                  "%s: %d rows name a vendor's library that is not on this machine: only their form was checked\n",
                  v.path, v.unchecked);
    return v.problems ? PROBLEMS : FINE;
}
