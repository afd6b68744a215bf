/* SPDX-License-Identifier: MIT
 *
 * Baselines: a JSON file {"device": ..., "arch": ..., "version": ..., "p50_us": {"problem": microseconds}}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tuner/harness/output.h"
#include "bench.h"

struct bench_baseline {
    json_t *times;
    char arch[32]; /* "": not known */
};

bool bench_baseline_load(const char *path, struct bench_baseline **out, struct rfg_reason *why)
{
    json_error_t e;
    json_t *root = json_load_file(path, 0, &e), *times = json_object_get(root, "p50_us"), *v;
    const char *key;
    *out = NULL;
    if (!root)
        return e.line > 0 ? rfg_refuse(why, "%.80s:%d: %.60s", path, e.line, e.text)
                          : rfg_refuse(why, "%.140s", e.text);
    bool ok = json_is_object(times);
    json_object_foreach(times, key, v) ok = ok && json_is_number(v) && json_number_value(v) > 0;
    if (ok && (*out = calloc(1, sizeof(**out)))) {
        const char *arch = json_string_value(json_object_get(root, "arch"));
        (*out)->times = json_incref(times);
        snprintf((*out)->arch, sizeof((*out)->arch), "%s", arch ? arch : "");
    }
    json_decref(root);
    return *out || rfg_refuse(why, "%.80s: must be a file that --save-baseline wrote", path);
}

bool bench_baseline_fits(const struct bench_baseline *b, const char *arch, struct rfg_reason *why)
{
    return !*b->arch || !strcmp(b->arch, arch) || rfg_refuse(why, "is of %s: this device is %s", b->arch, arch);
}

double bench_baseline_us(const struct bench_baseline *b, const char *problem)
{
    return b ? json_number_value(json_object_get(b->times, problem)) : 0;
}

bool bench_baseline_set(struct bench_baseline **b, const char *problem, double us)
{
    if (!*b && (*b = calloc(1, sizeof(**b))))
        (*b)->times = json_object();
    return *b && json_object_set_new((*b)->times, problem, json_real(us)) == 0;
}

bool bench_baseline_save(const struct bench_baseline *b, const char *path, const struct rfg_device *dev)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:O}", "device", dev->name, "arch", dev->arch, "version", RFG_VERSION,
                             "p50_us", b->times);
    struct rfg_output o;
    bool ok = rfg_output_open(&o, "rfg-bench", "--save-baseline", path);
    if (ok)
        ok = rfg_output_close(&o, root && json_dumpf(root, o.f, JSON_INDENT(2)) == 0);
    json_decref(root);
    return ok;
}

void bench_baseline_free(struct bench_baseline **b)
{
    if (*b)
        json_decref((*b)->times);
    free(*b);
    *b = NULL;
}
