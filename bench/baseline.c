/* SPDX-License-Identifier: MIT
 *
 * Baselines: a JSON file {"device": ..., "version": ..., "p50_us": {"problem": microseconds}}. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../dispatch/util.h"
#include "bench.h"

struct bench_baseline {
    json_t *times;
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
    if (ok && (*out = calloc(1, sizeof(**out))))
        (*out)->times = json_incref(times);
    json_decref(root);
    return *out || rfg_refuse(why, "%.80s: must be a file that --save-baseline wrote", path);
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

bool bench_baseline_save(const struct bench_baseline *b, const char *path, const char *device, struct rfg_reason *why)
{
    json_t *root = json_pack("{s:s, s:s, s:O}", "device", device, "version", RFG_VERSION, "p50_us", b->times);
    char *tmp = rfg_asprintf("%s.tmp", path);
    bool ok = root && tmp && json_dump_file(root, tmp, JSON_INDENT(2)) == 0 && rename(tmp, path) == 0;
    int err = errno;
    if (!ok && tmp)
        unlink(tmp);
    free(tmp);
    json_decref(root);
    return ok || rfg_refuse(why, "%.80s: can't be written: %s", path, strerror(err));
}

void bench_baseline_free(struct bench_baseline **b)
{
    if (*b)
        json_decref((*b)->times);
    free(*b);
    *b = NULL;
}
