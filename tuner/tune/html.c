/* SPDX-License-Identifier: MIT
 *
 * The page of --report. A problem is two rows of a table: its numbers, and a strip on which every candidate is a tick,
 * at its time over the winner's. Positions are percentages, so strips are as wide as the window. The page is made of
 * what --json writes, refers to nothing outside of itself, and can be read without its script, which only sorts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune.h"

static void put(FILE *f, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '<')
            fputs("&lt;", f);
        else if (c == '>')
            fputs("&gt;", f);
        else if (c == '&')
            fputs("&amp;", f);
        else if (c == '"')
            fputs("&quot;", f);
        else if (c == '\'')
            fputs("&#39;", f);
        else if (c < ' ' || c == 127)
            fputs("&#xfffd;", f);
        else
            fputc(c, f);
    }
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* 0: not there. */
static double number_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static int count_of(const json_t *o, const char *key)
{
    return (int)json_integer_value(json_object_get(o, key));
}

static bool truth_of(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d8dee4;--panel:#f5f7f9;--tick:#5b6773;"
    "--win:#067a50;--def:#2f55d4;--ven:#b35900;--zone:#e8ecf0;--band:#067a5040;--warn:#7a4d00;--warnbg:#ffedc2;"
    "--warnband:#f0a80099;--bad:#b3261e;--badbg:#fde4e1;--badband:#e5484d80}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#11151a;--fg:#e4e9ee;--dim:#9aa6b2;--line:#333c46;--panel:#1a2027;"
    "--tick:#94a1af;--win:#3ddc97;--def:#8aa8ff;--ven:#ffa64d;--zone:#232b34;--band:#3ddc9740;--warn:#ffd479;"
    "--warnbg:#4a3600;--warnband:#d9960099;--bad:#ff9a94;--badbg:#511a17;--badband:#e5484d99}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;padding:1.2rem;max-width:1800px;background:var(--bg);color:var(--fg);"
    "font:15px/1.45 system-ui,sans-serif}h1{font-size:1.4rem;margin:0 0 .2rem}p{margin:.3rem 0}.dim{color:var(--dim)}\n"
    "code{font:12.5px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}"
    "dl{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0}dl div{background:var(--panel);border:1px solid "
    "var(--line);"
    "border-radius:6px;padding:.35rem .8rem}dt{color:var(--dim);font-size:.8rem}dd{margin:0;font-size:1.15rem;"
    "font-variant-numeric:tabular-nums}\n"
    "ul.key{list-style:none;margin:.5rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}"
    "ul.key svg{width:30px;height:20px;vertical-align:middle;margin-right:.35rem;overflow:visible}\n"
    "table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .6rem;"
    "font-variant-numeric:tabular-nums;vertical-align:baseline}th:first-child,td.l{text-align:left}"
    "th{font-weight:600}tbody th{font-weight:400}thead.top th{position:sticky;top:0;background:var(--bg);z-index:1;"
    "border-bottom:2px solid var(--line);font-size:.85rem}th button{font:inherit;font-weight:600;color:inherit;"
    "background:none;border:0;padding:0;cursor:pointer;text-decoration:underline dotted}"
    "th[aria-sort=ascending] button::after{content:\" \\25b2\"}th[aria-sort=descending] button::after{content:\" "
    "\\25bc\"}\n"
    "tbody.p{border-bottom:1px solid var(--line)}tbody.p>tr:first-child>*{padding-top:.7rem}td.s{text-align:left;"
    "padding-bottom:.7rem}tbody.p>tr:first-child code{font-weight:600}"
    "svg.strip{display:block;width:100%;height:50px;overflow:visible}svg text{font:11px system-ui,sans-serif;"
    "fill:var(--dim)}\n"
    ".g{stroke:var(--line)}.t{stroke:var(--tick);stroke-width:1.5;stroke-opacity:.75}.t.v{stroke:var(--ven)}"
    ".t.r{stroke-width:2.5;stroke-opacity:1}.t.o{stroke-dasharray:2 2}.t.n{stroke-dasharray:5 "
    "3}.z{fill:var(--zone)}.f{stroke:var(--tick);stroke-width:2}"
    ".b{fill:var(--band)}.b.warn{fill:var(--warnband)}.b.bad{fill:var(--badband)}.w{fill:var(--win)}"
    ".d{fill:none;stroke:var(--def);stroke-width:2.2}.u{fill:none;stroke:var(--ven);stroke-width:2.2}\n"
    ".chip{display:inline-block;border-radius:4px;padding:0 .45rem;margin:.1rem .2rem .1rem 0;font-size:.82rem;"
    "background:var(--panel);border:1px solid var(--line)}.chip.warn{background:var(--warnbg);color:var(--warn);"
    "border-color:transparent}.chip.bad,.bad{color:var(--bad)}.chip.bad{background:var(--badbg);"
    "border-color:transparent}\n"
    "details{margin-top:.2rem}summary{cursor:pointer;color:var(--dim);font-size:.85rem}details>div{overflow-x:auto}"
    "table.c{width:auto;font-size:.85rem;margin:.4rem 0}table.c td,table.c th{border-bottom:1px solid "
    "var(--line);padding:.1rem .5rem;"
    "text-align:right;white-space:nowrap}table.c td.l{text-align:left;white-space:normal}\n"
    "@media(max-width:760px){body{padding:.7rem}table.all,.all>thead,.all>tbody,.all>tbody>tr,.all>tbody>tr>*"
    "{display:block}.all>thead.top{display:none}.js .all>thead.top{display:block}.js .all>thead.top tr{display:flex;"
    "flex-wrap:wrap;gap:.2rem 1rem}.all>thead.top th{position:static;border:0;padding:0}"
    ".all>tbody.p>tr:first-child{display:grid;grid-template-columns:repeat(4,1fr)}"
    ".all>tbody.p>tr:first-child>th,.all>tbody.p>tr:first-child>td[colspan]{grid-column:1/-1;text-align:left}"
    ".all>tbody.p>tr>*{padding:.15rem 0;text-align:left}.all>tbody.p>tr:first-child>th{padding-top:.9rem}"
    "dl{gap:.35rem}dl div{padding:.15rem .5rem}dd{font-size:1rem}"
    "table.c thead{display:none}table.c tr{display:block;border-bottom:1px solid var(--line)}table.c td{border:0;"
    "padding:.1rem .6rem .1rem 0;display:inline-block}table.c td:empty{display:none}table.c "
    "td:nth-child(1)::after{content:\" us\"}"
    "table.c td:nth-child(4)::after{content:\" samples\"}table.c td:nth-child(5)::before{content:\"predicted \"}"
    "table.c td:nth-child(6):not(.l)::before{content:\"without overlap \"}table.c td.l{display:block}"
    ".all>thead tr::before{content:\"sort by\";color:var(--dim)}.all>tbody>tr>td[data-k]::before{content:attr(data-k);"
    "display:block;color:var(--dim);font-size:.75rem}}\n";

/* A third click restores the order of the file. */
static const char script[] =
    "document.documentElement.classList.add('js');(()=>{const t=document.querySelector('table.all'),"
    "b=[...t.tBodies];b.forEach((x,i)=>x.dataset.i=i);const hs=[...t.tHead.rows[0].cells];hs.forEach((h,c)=>{"
    "const k=document.createElement('button');k.type='button';k.textContent=h.textContent;h.replaceChildren(k);"
    "k.onclick=()=>{const n={ascending:'descending',descending:null}[h.getAttribute('aria-sort')],"
    "d=n===undefined?'ascending':n;hs.forEach(x=>x.removeAttribute('aria-sort'));if(d)h.setAttribute('aria-sort',d);"
    "const v=x=>{const e=x.rows[0].cells[c],s=e&&e.dataset.v;return s===undefined||s===''?null:c?+s:s};"
    "const s=d==='descending'?-1:1;[...b].sort((x,y)=>{if(!d)return x.dataset.i-y.dataset.i;const p=v(x),q=v(y);"
    "return p===q?x.dataset.i-y.dataset.i:p===null?1:q===null?-1:(p<q?-1:1)*s}).forEach(x=>t.append(x))}})})()";

static void put_tile(FILE *f, const char *name, const char *value)
{
    fprintf(f, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
}

static void put_count(FILE *f, const char *name, int n)
{
    char value[16];
    snprintf(value, sizeof(value), "%d", n);
    put_tile(f, name, value);
}

static void put_ratio(FILE *f, const char *name, double v, double scale, const char *unit)
{
    char value[32];
    snprintf(value, sizeof(value), scale > 1 ? "%.1f%s" : "%.3f%s", scale * v, unit);
    if (v > 0)
        put_tile(f, name, value);
}

static void put_key(FILE *f, const char *mark, const char *what)
{
    fprintf(f, "<li><svg aria-hidden=\"true\">%s</svg>%s</li>\n", mark, what);
}

void tune_html_begin(FILE *f, const json_t *head, const json_t *summary)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>rfg-tune: ",
          f);
    put(f, text_of(head, "device"));
    fprintf(f, "</title>\n<style>\n%s</style></head><body>\n", style);
    fputs("<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
          "<circle id=\"w\" r=\"5\"/><path id=\"d\" d=\"M0-9L9 0L0 9L-9 0Z\"/>"
          "<rect id=\"u\" x=\"-7\" y=\"-7\" width=\"14\" height=\"14\"/></defs></svg>\n<h1>rfg-tune</h1>\n<p>",
          f);
    put(f, *text_of(head, "product") ? text_of(head, "product") : text_of(head, "device"));
    fputs(" <span class=\"dim\">(", f);
    put(f, text_of(head, "device"));
    fputs(": ", f);
    put(f, text_of(head, "arch"));
    fprintf(f, ", %d ", count_of(head, "cu_count"));
    put(f, text_of(head, "units"));
    fputs(")", f);
    if (*text_of(head, "driver")) {
        fputs(", ", f);
        put(f, text_of(head, "driver"));
    }
    fputs(", rfg ", f);
    put(f, text_of(head, "rfg"));
    fprintf(f, ", seed %lld, ", (long long)json_integer_value(json_object_get(head, "seed")));
    put(f, text_of(head, "date"));
    fputs("</span></p>\n<dl>\n", f);
    put_count(f, "tuned", count_of(summary, "tuned"));
    put_count(f, "up to date", count_of(summary, "up_to_date"));
    put_count(f, "failed", count_of(summary, "failed"));
    put_count(f, "left out", count_of(summary, "left_out"));
    put_ratio(f, "the default&#39;s speed, geomean", number_of(summary, "geomean_vs_default"), 1, "&times;");
    put_ratio(f, "the vendor&#39;s speed, geomean", number_of(summary, "geomean_vs_vendor"), 1, "&times;");
    put_ratio(f, "of the floor, geomean", number_of(summary, "geomean_of_floor"), 100, " %");
    put_count(f, "spread swamps the result", count_of(summary, "swamped"));
    put_count(f, "with candidates not reached", count_of(summary, "cut_short"));
    fputs("</dl>\n<p>Each strip shows the times of all candidates of a problem over the winner&#39;s, on a logarithmic "
          "scale: faster is to the left.</p>\n<ul class=\"key\">\n",
          f);
    put_key(f, "<use href=\"#w\" class=\"w\" x=\"15\" y=\"10\"/>", "winner");
    put_key(f, "<use href=\"#d\" class=\"d\" x=\"15\" y=\"10\"/>", "default: what runs untuned");
    put_key(f, "<use href=\"#u\" class=\"u\" x=\"15\" y=\"10\"/>", "vendor&#39;s best");
    put_key(f, "<line class=\"t\" x1=\"15\" x2=\"15\" y1=\"2\" y2=\"18\"/>", "candidate: a few samples");
    put_key(f, "<line class=\"t r\" x1=\"15\" x2=\"15\" y1=\"0\" y2=\"20\"/>", "finalist: raced in turns");
    put_key(f, "<line class=\"t v\" x1=\"15\" x2=\"15\" y1=\"2\" y2=\"18\"/>", "of the vendor");
    put_key(f, "<line class=\"t o\" x1=\"15\" x2=\"15\" y1=\"2\" y2=\"18\"/>", "so slow that it ran once");
    put_key(f, "<line class=\"t n\" x1=\"15\" x2=\"15\" y1=\"2\" y2=\"18\"/>", "launched without overlap");
    put_key(f, "<rect class=\"b\" width=\"30\" height=\"14\" y=\"3\"/>", "5th to 95th percentile of the winner");
    put_key(f, "<rect class=\"b warn\" width=\"30\" height=\"14\" y=\"3\"/>",
            "more than the lead, or half of the time");
    put_key(f, "<rect class=\"b bad\" width=\"30\" height=\"14\" y=\"3\"/>", "more than the time itself");
    put_key(f,
            "<rect class=\"z\" width=\"20\" height=\"14\" y=\"3\"/><line class=\"f\" x1=\"20\" x2=\"20\" y1=\"1\" "
            "y2=\"19\"/>",
            "floor: bytes and flops at the device&#39;s best");
    fputs("</ul>\n<table class=\"all\"><thead class=\"top\"><tr><th scope=\"col\">problem</th><th "
          "scope=\"col\">median, us</th><th scope=\"col\">spread, us</th><th scope=\"col\">% of floor</th><th "
          "scope=\"col\">vs default</th><th scope=\"col\">vs vendor</th><th scope=\"col\">error</th><th "
          "scope=\"col\">timed</th></tr></thead>\n",
          f);
}

void tune_html_end(FILE *f)
{
    fprintf(f, "</table>\n<script>%s</script>\n</body></html>\n", script);
}

/* ---- a strip ----------------------------------------------------------------------------------------------------- */

#define AXIS_FROM 0.5 /* times the winner's */
#define AXIS_TO   4.0
#define LEFT      2.0 /* %, so that marks at the ends are whole */
#define RIGHT     98.0

static double position(double ratio)
{
    double r = fmin(fmax(ratio, AXIS_FROM), AXIS_TO);
    return LEFT + (RIGHT - LEFT) * log2(r / AXIS_FROM) / log2(AXIS_TO / AXIS_FROM);
}

static void put_tick(FILE *f, const char *class, const json_t *try, const char *key, double winner_us)
{
    double us = number_of(try, key), x = position(us / winner_us);
    fprintf(f,
            "<line class=\"t%s\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"15\" y2=\"31\"><title>%.2f us, %.2f&times;: ", class,
            x, x, us, us / winner_us);
    put(f, text_of(try, "config"));
    fputs("</title></line>\n", f);
}

static void put_mark(FILE *f, const char *id, const char *name, double us, double winner_us)
{
    if (us > 0)
        fprintf(f,
                "<use href=\"#%s\" class=\"%s\" x=\"%.2f%%\" y=\"23\"><title>%s: %.2f us, %.2f&times;</title></use>\n",
                id, id, position(us / winner_us), name, us, us / winner_us);
}

static void put_axis(FILE *f)
{
    static const double at[] = { 0.5, 0.75, 1, 1.5, 2, 3, 4 };
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
        fprintf(f,
                "<line class=\"g\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"12\" y2=\"34\"/><text x=\"%.2f%%\" y=\"47\" "
                "text-anchor=\"middle\">%g&times;</text>",
                position(at[i]), position(at[i]), position(at[i]), at[i]);
    fputs("\n", f);
}

/* Values off the scale are written at its end. */
static void put_ends(FILE *f, const json_t *s, double us)
{
    double floor = number_of(s, "floor_us") / us, def = number_of(s, "default_us") / us,
           vendor = number_of(s, "vendor_us") / us;
    int n = 0;
    size_t i;
    const json_t *try;
    json_array_foreach(json_object_get(s, "tries"), i, try) n += number_of(try, "us") > AXIS_TO * us;
    if (floor > 0 && floor < AXIS_FROM)
        fprintf(f, "<text x=\"0\" y=\"9\">&lsaquo; floor %.2f&times;</text>\n", floor);
    if (def <= AXIS_TO && vendor <= AXIS_TO && !n)
        return;
    fputs("<text x=\"100%\" y=\"9\" text-anchor=\"end\">", f);
    if (def > AXIS_TO)
        fprintf(f, "default %.1f&times; ", def);
    if (vendor > AXIS_TO)
        fprintf(f, "vendor %.1f&times; ", vendor);
    if (n)
        fprintf(f, "%d over %g&times; ", n, AXIS_TO);
    fputs("&rsaquo;</text>\n", f);
}

/* "warn" if the spread is more than what it is compared with, "bad" if it is more than the time. */
static const char *spread_class(const json_t *s)
{
    const char *swamps = text_of(s, "spread_swamps");
    return !*swamps ? "" : !strcmp(swamps, "time") ? "bad" : "warn";
}

static void put_spread(FILE *f, const json_t *s, double us)
{
    double low = us - number_of(s, "spread_us") / 2, high = us + number_of(s, "spread_us") / 2;
    size_t i;
    const json_t *try;
    json_array_foreach(json_object_get(s, "tries"), i, try) if (truth_of(try, "winner"))
    {
        bool plain = number_of(try, "plain_us") == us; /* its percentiles are those with overlap */
        low = plain || !number_of(try, "p5_us") ? low : number_of(try, "p5_us");
        high = plain || !number_of(try, "p95_us") ? high : number_of(try, "p95_us");
    }
    double from = position(low / us), to = position(high / us);
    fprintf(f,
            "<rect class=\"b %s\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"14\" height=\"18\"><title>spread: %.2f to %.2f "
            "us</title></rect>\n",
            spread_class(s), from, to - from, low, high);
}

static void put_strip(FILE *f, const json_t *s)
{
    double us = number_of(s, "median_us"), floor = number_of(s, "floor_us");
    const json_t *tries = json_object_get(s, "tries"), *try;
    size_t i;
    fprintf(f, "<svg class=\"strip\" role=\"img\" aria-label=\"winner %.2f us", us);
    if (number_of(s, "default_us") > 0)
        fprintf(f, ", default %.2f us", number_of(s, "default_us"));
    if (number_of(s, "vendor_us") > 0)
        fprintf(f, ", vendor %.2f us", number_of(s, "vendor_us"));
    fprintf(f, ", floor %.2f us; %zu candidates\">\n", floor, json_array_size(tries));
    double x = position(floor / us);
    if (floor >= AXIS_FROM * us)
        fprintf(f,
                "<rect class=\"z\" x=\"0\" width=\"%.2f%%\" y=\"12\" height=\"22\"/><line class=\"f\" x1=\"%.2f%%\" "
                "x2=\"%.2f%%\" y1=\"10\" y2=\"36\"><title>floor: %.2f us, %.2f&times;, by %s</title></line>\n",
                x, x, x, floor, floor / us, text_of(s, "floor_of"));
    put_axis(f);
    put_spread(f, s, us);
    json_array_foreach(tries, i, try)
    {
        char class[8];
        snprintf(class, sizeof(class), "%s%s%s", truth_of(try, "raced") ? " r" : "",
                 truth_of(try, "vendor") ? " v" : "", count_of(try, "samples") ? "" : " o");
        put_tick(f, class, try, "us", us);
        if (number_of(try, "plain_us") > 0)
            put_tick(f, " n", try, "plain_us", us);
    }
    put_mark(f, "d", "default", number_of(s, "default_us"), us);
    put_mark(f, "u", "vendor&#39;s best", number_of(s, "vendor_us"), us);
    put_mark(f, "w", "winner", us, us);
    put_ends(f, s, us);
    fputs("</svg>\n", f);
}

/* ---- the list of candidates -------------------------------------------------------------------------------------- */

static int by_time(const void *pa, const void *pb)
{
    double a = number_of(*(json_t *const *)pa, "us"), b = number_of(*(json_t *const *)pb, "us");
    return (a > b) - (a < b);
}

static void put_cell(FILE *f, const char *format, double v)
{
    fputs("<td>", f);
    if (v > 0)
        fprintf(f, format, v);
    fputs("</td>", f);
}

/* plain: there is a column for launches without overlap. */
static void put_candidate(FILE *f, const json_t *c, double winner_us, bool plain)
{
    double us = number_of(c, "us");
    const char *state = text_of(c, "state"), *what = text_of(c, "what");
    put_cell(f, "%.2f", us);
    put_cell(f, "%.2f&times;", winner_us > 0 ? us / winner_us : 0);
    fputs("<td>", f);
    if (number_of(c, "p95_us") > 0)
        fprintf(f, "%.2f&ndash;%.2f", number_of(c, "p5_us"), number_of(c, "p95_us"));
    fputs("</td>", f);
    put_cell(f, "%.0f", count_of(c, "samples"));
    put_cell(f, "%.2f", number_of(c, "predicted_us"));
    if (plain)
        put_cell(f, "%.2f", number_of(c, "plain_us"));
    fputs("<td class=\"l\">", f);
    if (*state)
        fprintf(f, "<span class=\"chip %s\">", !strcmp(state, "failed") ? "bad" : "warn");
    put(f, state);
    fputs(*what ? ": " : "", f);
    put(f, what);
    fputs(*state ? "</span>" : "", f);
    if (us > 0 && !count_of(c, "samples"))
        fputs("<span class=\"chip\">ran once</span>", f);
    fputs(truth_of(c, "winner") ? "<span class=\"chip\">winner</span>" : "", f);
    fputs(truth_of(c, "default") ? "<span class=\"chip\">default</span>" : "", f);
    fputs("<code>", f);
    put(f, text_of(c, "config"));
    fputs("</code></td></tr>\n", f);
}

static int count_state(const json_t *untimed, const char *state)
{
    int n = 0;
    size_t i;
    const json_t *c;
    json_array_foreach(untimed, i, c) n += !strcmp(text_of(c, "state"), state);
    return n;
}

static void put_candidates(FILE *f, const json_t *s)
{
    const json_t *tries = json_object_get(s, "tries"), *untimed = json_object_get(s, "untimed");
    size_t n = json_array_size(tries), others = json_array_size(untimed);
    json_t **order = calloc(n + 1, sizeof(json_t *));
    if (!order || !(n + others)) {
        free(order);
        return;
    }
    bool plain = false;
    for (size_t i = 0; i < n; i++) {
        order[i] = json_array_get(tries, i);
        plain |= number_of(order[i], "plain_us") > 0;
    }
    qsort(order, n, sizeof(json_t *), by_time);
    fprintf(f,
            "<details><summary>%zu candidates, fastest first (of %d valid ones %d were pruned by the model, %d failed "
            "in earlier runs)</summary><div><table class=\"c\"><thead><tr><th>us</th><th></th><th>p5&ndash;p95</th>"
            "<th>samples</th><th>predicted</th>%s<th></th></tr></thead><tbody>\n",
            n + others, count_of(s, "candidates"), count_of(s, "pruned"), count_of(s, "remembered"),
            plain ? "<th>without overlap</th>" : "");
    for (size_t i = 0; i < n; i++) {
        fputs("<tr class=\"timed\">", f);
        put_candidate(f, order[i], number_of(s, "median_us"), plain);
    }
    for (size_t i = 0; i < others; i++) {
        fputs("<tr class=\"untimed\">", f);
        put_candidate(f, json_array_get(untimed, i), 0, plain);
    }
    fputs("</tbody></table></div></details>\n", f);
    free(order);
}

/* ---- a problem --------------------------------------------------------------------------------------------------- */

static void put_number(FILE *f, const char *name, const char *format, const char *unit, double v)
{
    fprintf(f, "<td data-k=\"%s\" data-v=\"", name);
    if (v > 0)
        fprintf(f, "%.9g", v);
    fputs("\">", f);
    if (v > 0)
        fprintf(f, format, v);
    else
        fputs("&ndash;", f);
    fprintf(f, "%s</td>", v > 0 ? unit : "");
}

static void put_chips(FILE *f, const json_t *s)
{
    const json_t *untimed = json_object_get(s, "untimed");
    const char *swamps = text_of(s, "spread_swamps"), *state = text_of(s, "state");
    static const char *const states[] = { "not reached", "failed", "refused" };
    static const char *const classes[] = { "warn", "bad", "" };
    if (!strcmp(state, "up to date")) {
        fputs("<span class=\"chip\">up to date: measured ", f);
        put(f, text_of(s, "date"));
        fputs(", only the row is kept</span>", f);
    }
    if (*text_of(s, "provisional")) {
        fputs("<span class=\"chip warn\">provisional: ", f);
        put(f, text_of(s, "provisional"));
        fputs("</span>", f);
    }
    if (!strcmp(swamps, "time"))
        fputs("<span class=\"chip bad\">the spread is more than the time itself</span>", f);
    else if (!strcmp(swamps, "half"))
        fputs("<span class=\"chip warn\">the spread is more than half of the time</span>", f);
    else if (*swamps) {
        fputs("<span class=\"chip warn\">the spread is more than the distance to the ", f);
        put(f, swamps);
        fputs("</span>", f);
    }
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        int n = count_state(untimed, states[i]);
        if (n)
            fprintf(f, "<span class=\"chip %s\">%d %s%s</span>", classes[i], n, states[i],
                    i ? "" : ": the problem&#39;s time was up");
    }
}

void tune_html_shape(FILE *f, const json_t *s, int index)
{
    double us = number_of(s, "median_us"), floor = number_of(s, "floor_us");
    fprintf(f, "<tbody class=\"p\" id=\"p%d\"><tr><th scope=\"row\" data-v=\"", index + 1);
    put(f, text_of(s, "problem"));
    fputs("\"><code>", f);
    put(f, text_of(s, "problem"));
    fputs("</code></th>", f);
    if (us > 0) {
        put_number(f, "median, us", "%.2f", "", us);
        put_number(f, "spread, us", "%.2f", "", number_of(s, "spread_us"));
        put_number(f, "% of floor", "%.1f", "", 100 * floor / us);
        put_number(f, "vs default", "%.2f", "&times;", number_of(s, "default_us") / us);
        put_number(f, "vs vendor", "%.2f", "&times;", number_of(s, "vendor_us") / us);
        put_number(f, "error", "%.3f", "", number_of(s, "error"));
        put_number(f, "timed", "%.0f", "", (double)json_array_size(json_object_get(s, "tries")));
    } else {
        fprintf(f, "<td class=\"l%s\" colspan=\"7\">", !strcmp(text_of(s, "state"), "failed") ? " bad" : "");
        put(f, text_of(s, "state"));
        fputs(*text_of(s, "why") ? ": " : "", f);
        put(f, text_of(s, "why"));
        fputs("</td>", f);
    }
    fputs("</tr>\n", f);
    if (us > 0 || json_array_size(json_object_get(s, "untimed"))) {
        fputs("<tr><td class=\"s\" colspan=\"8\">", f);
        if (us > 0) {
            fputs("<code>", f);
            put(f, text_of(s, "config"));
            fputs("</code> ", f);
        }
        put_chips(f, s);
        if (us > 0)
            put_strip(f, s);
        put_candidates(f, s);
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody>\n", f);
}
