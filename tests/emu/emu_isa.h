/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests of emulated instructions: snippets of assembly, a bare wave to run them on, memory. */
#ifndef RFG_TESTS_EMU_ISA_H
#define RFG_TESTS_EMU_ISA_H

#include <math.h>

#include "emu/emu.h"
#include "tests/suite.h"

enum {
    G908 = 1,
    G90A = 2,
    G942 = 4,
    G11 = 8,
    G11W64 = 16,
    /* These run what is said of gfx9 or gfx11 too, as far as their assembler knows it: runs_on(). */
    G10 = 32,
    G12 = 64,
    G115 = 128,
    G950 = 256,

    G9 = G90A | G942,
    GALL = G9 | G11,
    EMU_TESTED = 9
};
struct tested {
    struct emu_arch arch;
    int wave_size;
};
extern const struct tested tested[EMU_TESTED];

/* Assembled snippets of one architecture: all at once, each ended by s_endpgm. */
struct snippets {
    struct emu_program prog;
    uint8_t *text;
    const struct emu_inst **start; /* [n] */
    int n;
    struct bare *bare;
};
/* Returns a wave to run them on, which goes with them. */
struct bare *snippets_build(struct snippets *s, int arch, const char *const *text, int n);
void snippets_free(struct snippets *s);
/* Sets ok[k]: the assembler knows text k on this architecture. */
void snippets_known(int arch, const char *const *text, int n, bool *ok);
/* Is a snippet that is flagged so for this architecture, if it knows it? */
bool runs_on(int arch, int flags, const char *text);

/* ---- forms that are generated: emu_isa_forms.c ------------------------------------------------------------------- */

enum space { GLOBAL, LDS, SCRATCH };
/* at: byte offset from the lane's; bytes; kind of value: z zero-extended, s sign-extended, l low half (d16), h high
 * half; L, H: the same, sign-extended; second: where the second half of the bytes is, 0: after the first. */
struct move {
    int archs, space, at, bytes;
    char kind;
    bool store;
    const char *text;
    int second;
};
/* op: + add, - sub, r rsub, x swap, c cmpswap (new value first), C (comparand first), e E the same on floats, k mskor,
 * s csub, m smin, n smax, u umin, M umax, & | ^, i inc, d dec, f fadd, l fmin, g fmax, h pk f16, b pk bf16 */
struct atomic {
    int archs, space, bytes;
    bool returns;
    char op;
    const char *text;
};
/* Every mnemonic that the assembler knows on arch; how many. */
int forms_moves(int arch, struct move *m, int room);
int forms_atomics(int arch, struct atomic *a, int room);
void emu_case_compare(Suite *s);

/* Which rows of the instruction table some snippet has run, in any of the tests' processes. */
void covered_init(void);
void covered_mark(const struct emu_program *prog);
void emu_case_covered(Suite *s);
/* What decoding one snippet says: "" or the error. */
void decode_error(int arch, const char *text, char *error, size_t size);

struct bare {
    struct emu_wave w;
    struct emu_workgroup wg;
    uint32_t v[256][64], a[256][64];
    uint8_t lds[65536], scratch[64][256];
};
struct bare *bare_new(int arch, const struct emu_program *prog);
/* Random registers, EXEC, VCC, SCC. */
void bare_randomize(struct bare *b);
enum emu_stop bare_run(struct bare *b, const struct emu_inst *at);

/* Global memory of the test: nothing else may be touched. */
#define MEMORY 65536
extern uint8_t memory[MEMORY];
extern int stray;          /* accesses outside */
extern char reported[512]; /* the last report */

/* As ck_assert_msg(), which writes to a file that it was passed: too slow where it is passed for each lane. */
#define ASSERT_LANE(condition, ...)                                                                                    \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
    } while (0)

uint64_t rnd(void);
uint32_t rnd32(void); /* half of them edges: denormals, infinities, NaN, shifts' ends */
uint64_t rnd64(void);
uint32_t rnd_half2(void);
void rnd_words(void *to, size_t size); /* of rnd32(); size: up to 256 KiB, a multiple of 4 */
void rnd_bytes(void *to, size_t size); /* of rnd(): the same */
void rnd_seed(uint64_t seed);

static inline float f32(uint32_t x)
{
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline uint32_t u32(float f)
{
    uint32_t x;
    memcpy(&x, &f, 4);
    return x;
}
static inline double f64(uint64_t x)
{
    double f;
    memcpy(&f, &x, 8);
    return f;
}
static inline uint64_t u64(double f)
{
    uint64_t x;
    memcpy(&x, &f, 8);
    return x;
}
static inline _Float16 f16(uint32_t x)
{
    _Float16 f;
    uint16_t h = (uint16_t)x;
    memcpy(&f, &h, 2);
    return f;
}
static inline uint32_t u16(_Float16 f)
{
    uint16_t h;
    memcpy(&h, &f, 2);
    return h;
}

void emu_case_lanes(Suite *s);
void emu_case_scalar(Suite *s);
void emu_case_memory(Suite *s);
void emu_case_matrix(Suite *s);
void emu_case_decode(Suite *s);
void emu_case_gfx950(Suite *s);
void emu_case_words(Suite *s);
int emu_bench(void);
/* gfx950's instructions that LLVM 19 doesn't know, assembled: gfx950_words.def. */
extern const struct gfx950_words {
    const char *text;
    int n;
    uint32_t word[4];
} gfx950_words[];
extern const int gfx950_n_words;

#endif
