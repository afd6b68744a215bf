/* SPDX-License-Identifier: MIT
 *
 * The table of results and its summary. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tune.h"

const char *tune_state_name(const struct tune_shape *s)
{
    static const char *const names[] = {
        [SHAPE_WAITING] = "left out", [SHAPE_CURRENT] = "up to date", [SHAPE_EMPTY] = "empty",
        [SHAPE_STANDS] = "no row",    [SHAPE_TUNED] = "tuned",        [SHAPE_FAILED] = "failed"
    };
    return names[s->state];
}

bool tune_has_row(const struct tune_shape *s)
{
    return s->state == SHAPE_TUNED || s->state == SHAPE_CURRENT;
}

static void add_ratio(struct tune_geomean *g, double other_us, double median_us)
{
    if (other_us > 0 && median_us > 0) {
        g->logs += log(other_us / median_us);
        g->n++;
    }
}

double tune_mean_of(const struct tune_geomean *g)
{
    return g->n ? exp(g->logs / g->n) : 0;
}

/* Whether the spread exceeds the winner's distance from another time. */
static bool swamped(const struct rfg_row *r, double other_us)
{
    return other_us > 0 && other_us != r->median_us && r->spread_us >= fabs(other_us - r->median_us);
}

const char *tune_spread_swamps(const struct rfg_row *r)
{
    if (r->spread_us >= r->median_us)
        return "time";
    if (r->default_us > r->median_us && swamped(r, r->default_us))
        return "default";
    if (swamped(r, r->vendor_us))
        return "vendor";
    return r->spread_us >= r->median_us / 2 ? "half" : NULL;
}

struct tune_summary tune_summarize(const struct tune *t)
{
    struct tune_summary m = { 0 };
    for (int i = 0; i < t->n_shapes; i++) {
        const struct tune_shape *s = &t->shapes[i];
        m.tuned += s->state == SHAPE_TUNED;
        m.current += s->state == SHAPE_CURRENT;
        m.unknown += s->state == SHAPE_CURRENT && s->code_unknown;
        m.failed += s->state == SHAPE_FAILED;
        m.left += s->state == SHAPE_WAITING;
        m.empty += s->state == SHAPE_EMPTY;
        m.stands += s->state == SHAPE_STANDS;
        m.cut_short += s->not_reached > 0;
        if (tune_has_row(s)) {
            m.swamped += tune_spread_swamps(&s->row) != NULL;
            add_ratio(&m.vs_default, s->row.default_us, s->row.median_us);
            add_ratio(&m.vs_vendor, s->row.vendor_us, s->row.median_us);
            add_ratio(&m.floor, s->floor_us, s->row.median_us);
            m.weighted |= s->weight != 1;
            if (s->row.default_us > 0) {
                m.default_us += s->weight * s->row.default_us;
                m.tuned_us += s->weight * s->row.median_us;
            }
        }
    }
    return m;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* "1.25x"; "-" if there is nothing to compare with; "no diff" if the spread swamps the difference. */
static char *times_text(const struct rfg_row *r, double other_us, char *buf, size_t size)
{
    if (swamped(r, other_us))
        snprintf(buf, size, "no diff");
    else if (other_us > 0 && r->median_us > 0)
        snprintf(buf, size, "%.2fx", other_us / r->median_us);
    else
        snprintf(buf, size, "-");
    return buf;
}

void tune_print_table(const struct tune *t, FILE *out)
{
    struct tune_summary m = tune_summarize(t);
    int width = 7;
    for (int i = 0; i < t->n_shapes; i++)
        width = (int)strlen(t->shapes[i].text) > width ? (int)strlen(t->shapes[i].text) : width;
    if (m.tuned + m.current + m.failed)
        fprintf(out, "%-*s %10s %8s %7s %8s %8s %6s %12s %6s  %s\n", width, "problem", "median us", "spread", "% floor",
                "default", "vendor", "error", "tried/ref/f", "s", "winner");
    for (int i = 0; i < t->n_shapes; i++) {
        const struct tune_shape *s = &t->shapes[i];
        char config[RFG_CONFIG_STRLEN], def[16], vendor[16], counts[32] = "-", seconds[16] = "-";
        if (s->state == SHAPE_WAITING)
            continue;
        if (!tune_has_row(s)) {
            fprintf(out, "%-*s %s: %s\n", width, s->text, tune_state_name(s), s->why);
            continue;
        }
        if (s->state == SHAPE_TUNED) {
            snprintf(counts, sizeof(counts), "%d/%d/%d", s->tried, s->refused, s->failed);
            snprintf(seconds, sizeof(seconds), "%.1f", s->seconds);
        }
        fprintf(out, "%-*s %10.2f %8.2f %7.1f %8s %8s %6.3f %12s %6s  %s%s\n", width, s->text, s->row.median_us,
                s->row.spread_us, s->row.median_us > 0 ? 100 * s->floor_us / s->row.median_us : 0,
                times_text(&s->row, s->row.default_us, def, sizeof(def)),
                times_text(&s->row, s->row.vendor_us, vendor, sizeof(vendor)), s->row.error, counts, seconds,
                rfg_row_config(&s->row, config, sizeof(config)), s->state == SHAPE_CURRENT ? "  (up to date)" : "");
    }
    if (m.left) {
        fprintf(out, "left out%s:\n", t->out_of_time ? ", the time budget was up" : "");
        for (int i = 0; i < t->n_shapes; i++)
            if (t->shapes[i].state == SHAPE_WAITING)
                fprintf(out, "  %s\n", t->shapes[i].text);
    }
    if (m.vs_default.n)
        fprintf(out, "geomean: %.3fx the default's speed over %d shapes\n", tune_mean_of(&m.vs_default),
                m.vs_default.n);
    if (m.weighted && m.tuned_us > 0)
        fprintf(out, "by weight: %.3fx the default's speed over all calls\n", m.default_us / m.tuned_us);
    if (m.vs_vendor.n)
        fprintf(out, "geomean: %.3fx the vendor's speed over %d shapes\n", tune_mean_of(&m.vs_vendor), m.vs_vendor.n);
    if (m.floor.n)
        fprintf(out, "geomean: %.1f%% of the byte/flop floor over %d shapes\n", 100 * tune_mean_of(&m.floor),
                m.floor.n);
    fprintf(out, "%d tuned, %d up to date, %d failed, %d left out%s in %.1f s; seed %llu; %s\n", m.tuned, m.current,
            m.failed, m.left, m.empty ? ", some with nothing to compute" : "", rfg_now() - t->started,
            (unsigned long long)t->opt.seed, t->db ? rfg_db_path(t->db) : "");
    if (m.stands)
        fprintf(out, "%d need no row: the model's choice is as fast, within the clock's error\n", m.stands);
    if (m.unknown)
        fprintf(out,
                "%d of those up to date were measured with code of a compiler that is not here (--force tunes them "
                "again)\n",
                m.unknown);
    fflush(out);
}
