/* SPDX-License-Identifier: MIT
 *
 * The results: a table, JSON, and a web page that needs nothing else. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../dispatch/util.h"
#include "tune.h"

static bool has_row(const struct tune_shape *s)
{
    return s->state == SHAPE_TUNED || s->state == SHAPE_CURRENT;
}

struct geomean {
    double logs;
    int n;
};

static void add_ratio(struct geomean *g, double other_us, double median_us)
{
    if (other_us > 0 && median_us > 0) {
        g->logs += log(other_us / median_us);
        g->n++;
    }
}

static double mean_of(const struct geomean *g)
{
    return g->n ? exp(g->logs / g->n) : 0;
}

struct summary {
    int tuned, current, failed, left, empty;
    struct geomean vs_default, vs_vendor, floor;
    bool weighted;               /* weights were given: */
    double default_us, tuned_us; /* all shapes with a default, each as often as its weight says */
};

static struct summary summarize(const struct tune *t)
{
    struct summary m = { 0 };
    for (int i = 0; i < t->n_shapes; i++) {
        const struct tune_shape *s = &t->shapes[i];
        m.tuned += s->state == SHAPE_TUNED;
        m.current += s->state == SHAPE_CURRENT;
        m.failed += s->state == SHAPE_FAILED;
        m.left += s->state == SHAPE_WAITING;
        m.empty += s->state == SHAPE_EMPTY;
        if (has_row(s)) {
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

static const char *state_name(const struct tune_shape *s)
{
    static const char *const names[] = { [SHAPE_WAITING] = "left out",
                                         [SHAPE_CURRENT] = "up to date",
                                         [SHAPE_EMPTY] = "empty",
                                         [SHAPE_TUNED] = "tuned",
                                         [SHAPE_FAILED] = "failed" };
    return names[s->state];
}

/* ---- the table -----------------------------------------------------------------------------------------------------
 */

/* "1.25x", "-" if there is nothing to compare with. */
static char *times_text(double other_us, double median_us, char *buf, size_t size)
{
    if (other_us > 0 && median_us > 0)
        snprintf(buf, size, "%.2fx", other_us / median_us);
    else
        snprintf(buf, size, "-");
    return buf;
}

void tune_print_table(const struct tune *t, FILE *out)
{
    struct summary m = summarize(t);
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
        if (!has_row(s)) {
            fprintf(out, "%-*s %s: %s\n", width, s->text, state_name(s), s->why);
            continue;
        }
        if (s->state == SHAPE_TUNED) {
            snprintf(counts, sizeof(counts), "%d/%d/%d", s->tried, s->refused, s->failed);
            snprintf(seconds, sizeof(seconds), "%.1f", s->seconds);
        }
        fprintf(out, "%-*s %10.2f %8.2f %7.1f %8s %8s %6.3f %12s %6s  %s%s\n", width, s->text, s->row.median_us,
                s->row.spread_us, s->row.median_us > 0 ? 100 * s->floor_us / s->row.median_us : 0,
                times_text(s->row.default_us, s->row.median_us, def, sizeof(def)),
                times_text(s->row.vendor_us, s->row.median_us, vendor, sizeof(vendor)), s->row.error, counts, seconds,
                rfg_row_config(&s->row, config, sizeof(config)), s->state == SHAPE_CURRENT ? "  (up to date)" : "");
    }
    if (m.left) {
        fprintf(out, "left out%s:\n", t->out_of_time ? ", the time budget was up" : "");
        for (int i = 0; i < t->n_shapes; i++)
            if (t->shapes[i].state == SHAPE_WAITING)
                fprintf(out, "  %s\n", t->shapes[i].text);
    }
    if (m.vs_default.n)
        fprintf(out, "geomean: %.3fx the default's speed over %d shapes\n", mean_of(&m.vs_default), m.vs_default.n);
    if (m.weighted && m.tuned_us > 0)
        fprintf(out, "by weight: %.3fx the default's speed over all calls\n", m.default_us / m.tuned_us);
    if (m.vs_vendor.n)
        fprintf(out, "geomean: %.3fx the vendor's speed over %d shapes\n", mean_of(&m.vs_vendor), m.vs_vendor.n);
    if (m.floor.n)
        fprintf(out, "geomean: %.1f%% of the byte/flop floor over %d shapes\n", 100 * mean_of(&m.floor), m.floor.n);
    fprintf(out, "%d tuned, %d up to date, %d failed, %d left out%s in %.1f s; seed %llu; %s\n", m.tuned, m.current,
            m.failed, m.left, m.empty ? ", some with nothing to compute" : "", rfg_now() - t->started,
            (unsigned long long)t->opt.seed, t->db ? rfg_db_path(t->db) : "");
    fflush(out);
}

/* ---- JSON -----------------------------------------------------------------------------------------------------------
 */

static void set_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, isfinite(v) ? json_real(v) : json_null());
}

/* What was timed, as it was tried: evidence for the winner, and what a model is fitted to. */
static json_t *tries_json(const struct tune_shape *s)
{
    json_t *tries = json_array();
    for (int i = 0; i < s->n; i++) {
        const struct tune_candidate *c = &s->c[i];
        char config[RFG_CONFIG_STRLEN];
        if (c->state != CANDIDATE_TIMED && c->state != CANDIDATE_SLOW)
            continue;
        rfg_config_format(c->var, c->p, config, sizeof(config));
        json_t *o = json_pack("{ss si}", "config", config, "samples", c->t.n);
        set_number(o, "us", c->t.us);
        if (c->plain.n)
            set_number(o, "plain_us", c->plain.us);
        set_number(o, "predicted_us", c->predicted_us);
        json_array_append_new(tries, o);
    }
    return tries;
}

static json_t *shape_json(const struct tune_shape *s)
{
    json_t *o = json_pack("{ss ss si si si si si si si}", "problem", s->text, "state", state_name(s), "candidates",
                          s->valid, "tried", s->tried, "refused", s->refused, "failed", s->failed, "pruned", s->pruned,
                          "remembered", s->remembered, "not_reached", s->not_reached);
    set_number(o, "floor_us", s->floor_us);
    set_number(o, "seconds", s->seconds);
    json_object_set_new(o, "tries", tries_json(s));
    if (*s->why)
        json_object_set_new(o, "why", json_string(s->why));
    if (!has_row(s))
        return o;
    json_object_set_new(o, "variant", json_string(s->row.variant));
    json_t *params = json_loads(s->row.params, 0, NULL);
    json_object_set_new(o, "params", params ? params : json_null());
    set_number(o, "median_us", s->row.median_us);
    set_number(o, "spread_us", s->row.spread_us);
    set_number(o, "default_us", s->row.default_us);
    set_number(o, "vendor_us", s->row.vendor_us);
    set_number(o, "error", s->row.error);
    json_object_set_new(o, "samples", json_integer(s->row.samples));
    json_object_set_new(o, "source_hash", json_string(s->row.source_hash));
    json_object_set_new(o, "compiler", json_string(s->row.compiler));
    json_object_set_new(o, "date", json_string(s->row.date));
    return o;
}

json_t *tune_json(const struct tune *t)
{
    struct summary m = summarize(t);
    json_t *shapes = json_array();
    for (int i = 0; i < t->n_shapes; i++)
        json_array_append_new(shapes, shape_json(&t->shapes[i]));
    json_t *o = json_pack("{ss ss ss si ss sI so}", "rfg", rfg_version(), "device", t->dev.name, "arch", t->dev.arch,
                          "cu_count", t->dev.cu_count, "driver", t->ctx ? rfg_context_driver(t->ctx) : "", "seed",
                          (json_int_t)t->opt.seed, "shapes", shapes);
    json_t *sum =
        json_pack("{si si si si}", "tuned", m.tuned, "up_to_date", m.current, "failed", m.failed, "left_out", m.left);
    set_number(sum, "geomean_vs_default", mean_of(&m.vs_default));
    set_number(sum, "geomean_vs_vendor", mean_of(&m.vs_vendor));
    set_number(sum, "seconds", rfg_now() - t->started);
    json_object_set_new(sum, "bad_lines", json_integer(t->bad_lines));
    json_object_set_new(o, "summary", sum);
    return o;
}

bool tune_write_json(const struct tune *t, const char *path)
{
    bool to_stdout = !strcmp(path, "-");
    FILE *f = to_stdout ? stdout : fopen(path, "w");
    json_t *o = tune_json(t);
    bool ok = f && o && json_dumpf(o, f, JSON_INDENT(1)) == 0 && fputc('\n', f) != EOF && fflush(f) == 0;
    if (!ok)
        tune_say("--json: '%s' can't be written: %s", path, strerror(errno));
    json_decref(o);
    if (f && !to_stdout)
        fclose(f);
    return ok;
}

/* ---- HTML
 * ------------------------------------------------------------------------------------------------------------ */

static void put_escaped(FILE *f, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(*s, f);
        }
}

#define CHART_WIDTH 420

static void put_bar(FILE *f, int y, double us, double most, const char *class, const char *name)
{
    if (us <= 0)
        return;
    double width = us / most * CHART_WIDTH;
    fprintf(f, "<rect class=\"%s\" x=\"0\" y=\"%d\" width=\"%.1f\" height=\"11\"><title>%s: %.2f us</title></rect>",
            class, y, width < 1 ? 1 : width, name, us);
    fprintf(f, "<text x=\"%.1f\" y=\"%d\">%.2f %s</text>", width + 4, y + 10, us, name);
}

/* Winner, default, vendor and floor of one shape, each to the scale of the slowest. */
static void put_chart(FILE *f, const struct tune_shape *s)
{
    const struct {
        const char *class, *name;
        double us;
    } bars[] = { { "w", "winner", s->row.median_us },
                 { "d", "default", s->row.default_us },
                 { "v", "vendor", s->row.vendor_us },
                 { "f", "floor", s->floor_us } };
    double most = 0;
    int n = 0;
    for (size_t i = 0; i < sizeof(bars) / sizeof(bars[0]); i++) {
        most = bars[i].us > most ? bars[i].us : most;
        n += bars[i].us > 0;
    }
    fprintf(f, "<svg width=\"%d\" height=\"%d\" role=\"img\">", CHART_WIDTH + 110, 14 * n);
    for (size_t i = 0, y = 0; most > 0 && i < sizeof(bars) / sizeof(bars[0]); i++)
        if (bars[i].us > 0) {
            put_bar(f, (int)y, bars[i].us, most, bars[i].class, bars[i].name);
            y += 14;
        }
    fputs("</svg>", f);
}

static const char page_head[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>rfg-tune</title><style>\n"
    "body{font:14px/1.4 sans-serif;margin:2em;color:#222}table{border-collapse:collapse}\n"
    "th,td{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}\n"
    "th:first-child,td:first-child,td.l,th.l{text-align:left}code{font-size:12px}svg text{font-size:10px;fill:#444}\n"
    ".w{fill:#2a7}.d{fill:#99b}.v{fill:#d85}.f{fill:#ccc}.bad{color:#b00}\n"
    "</style></head><body>\n";

static void put_shape(FILE *f, const struct tune_shape *s)
{
    char config[RFG_CONFIG_STRLEN], a[16], b[16];
    fputs("<tr><td><code>", f);
    put_escaped(f, s->text);
    fputs("</code></td>", f);
    if (!has_row(s)) {
        fprintf(f, "<td class=\"l bad\" colspan=\"9\">%s", state_name(s));
        if (*s->why) {
            fputs(": ", f);
            put_escaped(f, s->why);
        }
        fputs("</td></tr>\n", f);
        return;
    }
    fprintf(f, "<td>%.2f</td><td>%.2f</td><td>%.1f</td><td>%s</td><td>%s</td><td>%.3f</td>", s->row.median_us,
            s->row.spread_us, s->row.median_us > 0 ? 100 * s->floor_us / s->row.median_us : 0,
            times_text(s->row.default_us, s->row.median_us, a, sizeof(a)),
            times_text(s->row.vendor_us, s->row.median_us, b, sizeof(b)), s->row.error);
    if (s->state == SHAPE_TUNED)
        fprintf(f, "<td>%d / %d / %d</td>", s->tried, s->refused, s->failed);
    else
        fputs("<td>up to date</td>", f);
    fputs("<td class=\"l\"><code>", f);
    put_escaped(f, rfg_row_config(&s->row, config, sizeof(config)));
    fputs("</code></td><td class=\"l\">", f);
    put_chart(f, s);
    fputs("</td></tr>\n", f);
}

bool tune_write_html(const struct tune *t, const char *path)
{
    struct summary m = summarize(t);
    char date[24];
    FILE *f = fopen(path, "w");
    if (!f) {
        tune_say("--report: '%s' can't be written: %s", path, strerror(errno));
        return false;
    }
    rfg_date(date);
    fputs(page_head, f);
    fputs("<h1>rfg-tune</h1><p>", f);
    put_escaped(f, t->dev.name);
    fprintf(f, " (%s, %d %s), ", t->dev.arch, t->dev.cu_count, t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs");
    put_escaped(f, t->ctx && *rfg_context_driver(t->ctx) ? rfg_context_driver(t->ctx) : "no driver");
    fprintf(f, ", rfg %s, seed %llu, %s</p>\n<p>%d tuned, %d up to date, %d failed, %d left out", rfg_version(),
            (unsigned long long)t->opt.seed, date, m.tuned, m.current, m.failed, m.left);
    if (m.vs_default.n)
        fprintf(f, "; geomean %.3fx the default's speed", mean_of(&m.vs_default));
    if (m.vs_vendor.n)
        fprintf(f, "; geomean %.3fx the vendor's speed", mean_of(&m.vs_vendor));
    fputs("</p>\n<table><tr><th>problem</th><th>median us</th><th>spread</th><th>% of floor</th><th>vs default</th>"
          "<th>vs vendor</th><th>error</th><th>tried / refused / failed</th><th class=\"l\">winner</th>"
          "<th class=\"l\">us</th></tr>\n",
          f);
    for (int i = 0; i < t->n_shapes; i++)
        put_shape(f, &t->shapes[i]);
    fputs("</table></body></html>\n", f);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    if (failed)
        tune_say("--report: '%s' can't be written: %s", path, strerror(errno));
    return !failed;
}
