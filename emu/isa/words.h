/* SPDX-License-Identifier: MIT
 *
 * Instructions that LLVM 19 doesn't know, gfx950's, and words that it doesn't read as newer compilers mean them. */
#ifndef RFG_EMU_WORDS_H
#define RFG_EMU_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_words {
    EMU_WORDS_OTHER, /* LLVM 19 knows it, or nobody does */
    EMU_WORDS_TEXT,  /* text and size are filled */
    EMU_WORDS_LIKE,  /* `like` is the same instruction with an opcode that LLVM 19 knows: put name for its mnemonic */
    EMU_WORDS_NONE,  /* no instruction here, whatever LLVM 19 says of gfx942 */
};
struct emu_words_found {
    char text[256];
    size_t size;
    uint32_t like; /* the first word */
    const char *name;
};
enum emu_words emu_words_gfx950(const uint32_t *word, size_t n_words, struct emu_words_found *f);

/* The same instruction in words that LLVM 19 reads. */
struct emu_canonical {
    uint32_t word[8];
    size_t n;         /* of word */
    int grown;        /* by how many words it is longer than the original */
    char op_sel[24];  /* comes behind the text; "" if nothing does */
    const char *name; /* the mnemonic in place of LLVM's, or NULL */
};
void emu_canonical(int gfx, const uint32_t *word, size_t n_words, struct emu_canonical *c);

#endif
