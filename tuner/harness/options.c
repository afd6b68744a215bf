/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "rfg/rfg.h"

enum { MOST_OPTIONS = 48, FIRST = 256 /* what getopt_long() calls the first one: no letter */ };

static bool is_end(const struct rfg_option *o)
{
    return !o->name && !o->letter && !o->help;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

void rfg_help_line(FILE *f, int column, const char *label, const char *text)
{
    int at = fprintf(f, "  %s", label);
    if (at > column - 2) {
        fputc('\n', f);
        at = 0;
    }
    for (; *text; at = 0) {
        int n = (int)strcspn(text, "\n");
        fprintf(f, "%*s%.*s\n", column - at, "", n, text);
        text += n + (text[n] == '\n');
    }
}

void rfg_options_help(const struct rfg_command_line *line)
{
    fputs(line->before, stdout);
    for (const struct rfg_option *o = line->options; !is_end(o); o++) {
        char label[64], letter[5] = { '-', o->letter, 0 };
        if (!o->name && !o->letter)
            puts(o->help);
        if (!o->help || (!o->name && !o->letter))
            continue;
        if (o->letter && o->name)
            strcat(letter, ", ");
        snprintf(label, sizeof(label), "%s%s%s%s%s", o->letter ? letter : "", o->name ? "--" : "",
                 o->name ? o->name : "", o->value ? " " : "", o->value ? o->value : "");
        rfg_help_line(stdout, line->column, label, o->help);
    }
    fputs(line->after, stdout);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool is_value(const struct rfg_option *o, const char *text, void *member)
{
    char *end;
    errno = 0;
    if (o->kind == RFG_OPTION_REAL) {
        double v = strtod(text, &end);
        *(double *)member = v;
        return end != text && !*end && v >= o->real[0] && v <= o->real[1];
    }
    if (o->kind == RFG_OPTION_WHOLE) {
        long long v = strtoll(text, &end, 0);
        if (o->size == sizeof(int32_t))
            *(int32_t *)member = (int32_t)v;
        else
            *(int64_t *)member = v;
        return end != text && !*end && !errno && v >= o->whole[0] && v <= o->whole[1];
    }
    for (int i = 0; o->words[i]; i++)
        if (!strcmp(o->words[i], text)) {
            *(int *)member = i;
            return true;
        }
    return false;
}

static void say_rule(const struct rfg_option *o)
{
    if (o->must)
        fputs(o->must, stderr);
    else if (o->kind == RFG_OPTION_REAL)
        fprintf(stderr, "a number from %g to %g", o->real[0], o->real[1]);
    else if (o->kind == RFG_OPTION_WHOLE)
        fprintf(stderr, "a whole number from %lld to %lld", (long long)o->whole[0], (long long)o->whole[1]);
    else
        for (int i = 0; o->words[i]; i++)
            fprintf(stderr, "%s%s", i ? " or " : "", o->words[i]);
}

/* False with a message. */
static bool take(const struct rfg_command_line *line, const struct rfg_option *o, const char *text, void *options)
{
    void *member = (char *)options + o->at;
    const char *quote = line->bare ? "" : "'";
    if (o->kind == RFG_OPTION_CALL)
        return o->call(options, text);
    if (o->kind == RFG_OPTION_FLAG)
        *(bool *)member = true;
    else if (o->kind == RFG_OPTION_TEXT)
        *(const char **)member = text;
    else if (!is_value(o, text, member)) {
        fprintf(stderr, "%s: --%s %s%s%s: must be ", line->program, o->name, quote, text, quote);
        say_rule(o);
        fputc('\n', stderr);
        return false;
    }
    return true;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static bool is_taken(const char *words, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = words; (at = strstr(at, name)); at += n)
        if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

int rfg_options_parse(const struct rfg_command_line *line, int argc, char **argv, void *options, int *first)
{
    struct option longs[MOST_OPTIONS + 3] = { { "help", no_argument, NULL, 'h' },
                                              { "version", no_argument, NULL, 'V' } };
    char letters[2 * MOST_OPTIONS + 3] = "hV";
    const struct rfg_option *of_letter[128] = { NULL }, *o = line->options;
    for (int i = 0, n = 2, at = 2; !is_end(&o[i]); i++) {
        assert(i < MOST_OPTIONS);
        if (o[i].letter) {
            of_letter[(int)o[i].letter] = &o[i];
            letters[at++] = o[i].letter;
            if (o[i].value)
                letters[at++] = ':';
        }
        if (o[i].name)
            longs[n++] = (struct option){ o[i].name, o[i].value ? required_argument : no_argument, NULL, FIRST + i };
    }
    for (int c; (c = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (c == 'h') {
            line->help ? line->help(stdout) : rfg_options_help(line);
            return 0;
        }
        if (c == 'V') {
            printf("%s %s\n", line->program, rfg_version());
            return 0;
        }
        if (c == '?') {
            fputs(line->hint ? line->hint : "", stderr);
            return 2;
        }
        const struct rfg_option *given = c < FIRST ? of_letter[c] : &o[c - FIRST];
        if (line->takes && !is_taken(line->takes, given->name)) {
            const char letter[] = { given->letter, 0 };
            fprintf(stderr, "%s: %s does not take %s%s: see %s --help\n", line->program, line->command,
                    given->name ? "--" : "-", given->name ? given->name : letter, line->program);
            return 2;
        }
        if (!take(line, given, optarg, options))
            return 2;
    }
    *first = optind;
    return -1;
}
