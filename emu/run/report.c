/* SPDX-License-Identifier: MIT
 *
 * Reports of findings: counted by check, printed once per instruction. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "front.h"

/* Any finding makes its launch fail in the end; most let it go on: others may follow. These end it at once, as the
 * hardware would or because nothing after them means anything. */
static const char *const fatal[] = {
    "global-out-of-bounds", "use-after-free",  "write-to-read-only",  "lds-out-of-bounds", "scratch-out-of-bounds",
    "misaligned",           "deadlock",        "illegal-instruction", "illegal-branch",    "trap",
    "register-range",       "not-implemented", "instruction-limit",
};

struct seen {
    struct seen *next;
    char *key; /* check, kernel, address */
};
struct tally {
    struct tally *next;
    char *check;
    int n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen *printed;
static struct tally *tallies;
static char last[1300];

bool emu_report_is_fatal(const char *check)
{
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        if (!strcmp(check, fatal[i]))
            return true;
    return false;
}

/* Under lock. */
static void count(const char *check)
{
    struct tally *t = tallies;
    while (t && strcmp(t->check, check))
        t = t->next;
    if (!t && (t = calloc(1, sizeof(*t)))) {
        t->check = strdup(check);
        t->next = tallies;
        if (!t->check) {
            free(t);
            return;
        }
        tallies = t;
    }
    if (t)
        t->n++;
}

/* Under lock: true the first time. */
static bool is_new(const char *key)
{
    for (struct seen *s = printed; s; s = s->next)
        if (!strcmp(s->key, key))
            return false;
    struct seen *s = calloc(1, sizeof(*s));
    if (s && (s->key = strdup(key))) {
        s->next = printed;
        printed = s;
    } else
        free(s);
    return true;
}

/* Counted. True if it is to be told. */
static bool enter(const char *check, const char *key)
{
    pthread_mutex_lock(&lock);
    count(check);
    bool fresh = is_new(key);
    pthread_mutex_unlock(&lock);
    return fresh;
}

static void tell(const char *text)
{
    pthread_mutex_lock(&lock);
    snprintf(last, sizeof(last), "%s", text);
    pthread_mutex_unlock(&lock);
    rfg_warn_each("emu: %s", text);
}

static void found(struct emu_launch *l, const char *check)
{
    const char *none = NULL;
    if (emu_report_is_fatal(check)) {
        atomic_store(&l->why, check); /* it ends the launch, whatever was found before */
        atomic_store_explicit(&l->stop, true, memory_order_release);
    } else
        atomic_compare_exchange_strong(&l->why, &none, check);
}

/* "function+0x10 (kernel.hip:12)" */
static void place(const struct emu_launch *l, uint32_t address, char *buf, size_t size)
{
    const struct emu_symbol *f = emu_code_function(l->code, address);
    char line[128];
    bool known = l->code->file && emu_code_line(l->code, address, line, sizeof(line));
    if (f)
        snprintf(buf, size, "%.100s+0x%llx%s%s%s", f->name, (unsigned long long)(address - (f->value - l->code->text)),
                 known ? " (" : "", known ? line : "", known ? ")" : "");
    else
        snprintf(buf, size, "0x%x%s%s%s", address, known ? " (" : "", known ? line : "", known ? ")" : "");
}

void emu_report_place(const struct emu_launch *l, const struct emu_inst *i, char *buf, size_t size)
{
    char inst[160], where[256];
    emu_inst_text(l->prog, i, inst, sizeof(inst));
    place(l, i->address, where, sizeof(where));
    snprintf(buf, size, "'%s' at %s", inst, where);
}

/* Told once for each instruction. */
static void describe(struct emu_wave *w, const struct emu_inst *i, const char *check, uint64_t lanes, const char *fmt,
                     va_list ap)
{
    char what[700], where[420] = "?", text[1300], who[96] = "";
    const struct emu_launch *l = w->launch;
    vsnprintf(what, sizeof(what), fmt, ap);
    if (i)
        emu_report_place(l, i, where, sizeof(where));
    if (lanes)
        snprintf(who, sizeof(who), ", lanes 0x%llx (%d, first %d)", (unsigned long long)lanes,
                 __builtin_popcountll(lanes), __builtin_ctzll(lanes));
    snprintf(text, sizeof(text), "%s: %s; kernel %.120s, %s, workgroup (%u,%u,%u), wave %d%s", check, what,
             l->kernel->name, where, w->wg->id[0], w->wg->id[1], w->wg->id[2], w->index, who);
    tell(text);
}

static void key_of(const struct emu_wave *w, const struct emu_inst *i, const char *check, char *key, size_t size)
{
    snprintf(key, size, "%s %.120s %x", check, w->launch->kernel->name, i ? i->address : ~0u);
}

void emu_report(struct emu_wave *w, const struct emu_inst *i, const char *check, uint64_t lanes, const char *fmt, ...)
{
    char key[256];
    va_list ap;
    if (emu_report_is_fatal(check))
        w->stop = EMU_FAULT;
    found(w->launch, check);
    key_of(w, i, check, key, sizeof(key));
    if (!enter(check, key))
        return;
    va_start(ap, fmt);
    describe(w, i, check, lanes, fmt, ap);
    va_end(ap);
}

void emu_note(struct emu_wave *w, const struct emu_inst *i, const char *what, uint64_t lanes, const char *fmt, ...)
{
    char key[256], name[64];
    va_list ap;
    snprintf(name, sizeof(name), "note: %s", what);
    key_of(w, i, name, key, sizeof(key));
    pthread_mutex_lock(&lock);
    bool fresh = is_new(key);
    pthread_mutex_unlock(&lock);
    if (!fresh)
        return;
    va_start(ap, fmt);
    describe(w, i, name, lanes, fmt, ap);
    va_end(ap);
}

void emu_report_launch(struct emu_launch *l, const char *check, const char *fmt, ...)
{
    char what[900], key[1100], text[1100];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "%s: %s%s%.120s", check, what, l ? "; kernel " : "", l ? l->kernel->name : "");
    snprintf(key, sizeof(key), "%s", text);
    if (enter(check, key))
        tell(text);
    if (l)
        found(l, check);
}

int emu_reports(const char *check)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (const struct tally *t = tallies; t; t = t->next)
        if (!check || !strcmp(check, t->check))
            n += t->n;
    pthread_mutex_unlock(&lock);
    return n;
}

void emu_reports_last(char *buf, size_t size)
{
    pthread_mutex_lock(&lock);
    snprintf(buf, size, "%s", last);
    pthread_mutex_unlock(&lock);
}

void emu_reports_clear(void)
{
    pthread_mutex_lock(&lock);
    while (printed) {
        struct seen *s = printed;
        printed = s->next;
        free(s->key);
        free(s);
    }
    while (tallies) {
        struct tally *t = tallies;
        tallies = t->next;
        free(t->check);
        free(t);
    }
    last[0] = 0;
    pthread_mutex_unlock(&lock);
}
