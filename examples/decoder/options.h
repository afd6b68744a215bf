/* SPDX-License-Identifier: MIT */
#ifndef DECODER_OPTIONS_H
#define DECODER_OPTIONS_H

#include "decoder.h"

enum { MOST_PROMPTS = 256 };

struct options {
    const char *model, *random, *device, *json, *logits, *blocks, *save_baseline, *baseline;
    struct request requests[MOST_PROMPTS];
    const char *texts[MOST_PROMPTS], *ids[MOST_PROMPTS]; /* of a request one is set */
    size_t count;
    int64_t tokens, batch, context, chunk, prompt_tokens, steps, from, layers, expand, gate, tp;
    struct sampling sampling;
    bool no_graph, ladder, apart, calls, bench;
};

/* Errors, and --help, end the program. */
void options_read(struct options *o, int argc, char **argv);

#endif
