/* SPDX-License-Identifier: MIT
 *
 * The tokenizer in a .gguf file: byte-level BPE ("gpt2") or SentencePiece's BPE with scores ("llama"). Nothing here ends
 * the program but a want of memory, so that a fuzz target can call it.
 *
 *   tokens.c        the vocabulary; special tokens; text to ids and back
 *   tokens_split.c  cuts text into what BPE doesn't merge across: the models' regular expressions, by hand
 *   tokens_merge.c  merges pairs, the best one first */
#ifndef DECODER_TOKENS_H
#define DECODER_TOKENS_H

#include "gguf.h"

/* ---- for the decoder --------------------------------------------------------------------------------------------- */

struct tokens;
/* Of an open file, which must stay open. NULL: error, of GGUF_ERROR bytes, says why. */
struct tokens *tokens_open(const struct gguf *g, const char *path, char *error);
void tokens_close(struct tokens *t);
int64_t tokens_count(const struct tokens *t);
/* Ids of text, with the token that begins a text in front if the model wants one; special tokens that the text spells
 * are these. The caller frees them. */
int32_t *tokens_encode(const struct tokens *t, const char *text, size_t size, int64_t *count);
/* What a token stands for, bytes; of special ones, and of ids that are none, nothing. */
struct gguf_text tokens_decode(const struct tokens *t, int64_t id);

/* ---- among its files --------------------------------------------------------------------------------------------- */

/* Where a piece of text ends that begins at its first byte, of size 1 or more. */
enum splitter { SPLIT_GPT2, SPLIT_LLAMA3, SPLIT_QWEN2, SPLIT_GPT4O, SPLITTERS };
size_t split_next(enum splitter s, const char *text, size_t size);
/* Bytes of the character that text begins with; one that isn't UTF-8 is one byte. */
size_t utf8_size(const char *text, size_t size);

/* A part of a text, while it is merged. */
struct symbol {
    const char *at;
    size_t size;          /* 0: merged into the one before */
    int32_t id;           /* -1: no token */
    int64_t before, next; /* -1: none */
};
/* The token that two neighbours become, or -1; its priority: the least first. */
typedef int32_t merge_rule(const struct tokens *t, const struct symbol *left, const struct symbol *right,
                           double *priority);
/* Merges until no rule applies; of equal ones the leftmost first. */
void merge_symbols(const struct tokens *t, merge_rule *rule, struct symbol *symbols, size_t count);

#endif
