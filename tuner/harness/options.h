/* SPDX-License-Identifier: MIT
 *
 * A program's command line as a table: its options, where their values go, and their lines of --help. getopt_long()
 * reads it. */
#ifndef RFG_TUNER_OPTIONS_H
#define RFG_TUNER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum rfg_option_kind {
    RFG_OPTION_FLAG,   /* bool */
    RFG_OPTION_TEXT,   /* const char * */
    RFG_OPTION_REAL,   /* double */
    RFG_OPTION_WHOLE,  /* an integer of 4 or 8 bytes; 0x and 0 begin other bases */
    RFG_OPTION_CHOICE, /* int: which of the words */
    RFG_OPTION_CALL,
};

struct rfg_option {
    const char *name;  /* NULL: only the letter */
    const char *value; /* as --help calls it; NULL: there is none */
    const char *help;  /* NULL: --help leaves it out. Without name and letter: a line of its own */
    char letter;
    enum rfg_option_kind kind;
    size_t at, size; /* of the member of the program's options that it goes to */
    union {
        double real[2]; /* least, most */
        int64_t whole[2];
        const char *const *words; /* NULL ends them */
        bool (*call)(void *options, const char *value);
    };
    const char *must; /* what a value must be, in place of the usual words; NULL: those */
};

/* What a row does with its value; the members are of RFG_OPTIONS, which a program defines as its struct of options. */
#define RFG_MEMBER(member)             .at = offsetof(RFG_OPTIONS, member), .size = sizeof(((RFG_OPTIONS *)0)->member)
#define RFG_FLAG(member)               .kind = RFG_OPTION_FLAG, RFG_MEMBER(member)
#define RFG_TEXT(member)               .kind = RFG_OPTION_TEXT, RFG_MEMBER(member)
#define RFG_REAL(member, least, most)  .kind = RFG_OPTION_REAL, RFG_MEMBER(member), .real = { least, most }
#define RFG_WHOLE(member, least, most) .kind = RFG_OPTION_WHOLE, RFG_MEMBER(member), .whole = { least, most }
#define RFG_CHOICE(member, list)       .kind = RFG_OPTION_CHOICE, RFG_MEMBER(member), .words = list
#define RFG_CALL(function)             .kind = RFG_OPTION_CALL, .call = function

struct rfg_command_line {
    const char *program, *before, *after; /* its name; --help's text around the options */
    int column;                           /* where --help's explanations begin */
    const struct rfg_option *options;     /* one without name, letter and help ends them; -h and -V are not in it */
    void (*help)(FILE *f);                /* NULL: rfg_options_help() */
    const char *hint;                     /* printed after getopt's complaints; NULL: nothing */
    bool bare;                            /* messages have values without quotes */
    const char *command, *takes;          /* of its options this command takes these, between spaces; NULL: all */
};

/* A line of --help; newlines in the text go on at the column. */
void rfg_help_line(FILE *f, int column, const char *label, const char *text);
void rfg_options_help(const struct rfg_command_line *line);

/* -1: go on, argv[*first] is the first argument that isn't an option. Else the exit code: 0 after --help and --version,
 * 2 with a message. */
int rfg_options_parse(const struct rfg_command_line *line, int argc, char **argv, void *options, int *first);

#endif
