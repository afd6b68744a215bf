/* SPDX-License-Identifier: MIT
 *
 * Loads, stores and atomics of all spaces, permutes through LDS. Memory is a copy of random bytes; what a snippet makes
 * of it is computed here, and everything else must be as before: other bytes, lanes that are off, other registers. */
#include "emu_isa.h"
#include "emu_isa_atomics.h"

/* v[0:1]: a lane's address in memory (64 bits); v2: its byte offset, a multiple of 64 between lanes, shuffled; v[4:7]
 * data; v[12:15] result. s[0:1]: memory; s2: 32; s[4:7]: a buffer of all of it; m0: 256. */
enum { REGION = 64 * 64, BASE = 4096 };

static struct bare *b;
static struct bare before;
static uint8_t was[MEMORY];
static uint32_t offset_of[64];
static int gfx;

static void set64(int r, int l, uint64_t x)
{
    b->v[r][l] = (uint32_t)x;
    b->v[r + 1][l] = (uint32_t)(x >> 32);
}

static void prepare(uint64_t seed)
{
    rnd_seed(seed);
    bare_randomize(b);
    stray = 0;
    reported[0] = 0;
    rnd_bytes(memory, MEMORY);
    rnd_bytes(b->lds, MEMORY);
    rnd_words(b->scratch, 64 * 256);
    int perm[64];
    for (int l = 0; l < 64; l++)
        perm[l] = l;
    for (int l = 63; l > 0; l--) {
        int o = (int)(rnd() % (uint64_t)(l + 1)), t = perm[l];
        perm[l] = perm[o];
        perm[o] = t;
    }
    for (int l = 0; l < 64; l++) {
        offset_of[l] = BASE + 64 * (uint32_t)perm[l];
        /* What is off points to nowhere. */
        bool on = b->w.exec >> l & 1;
        set64(0, l, on ? (uint64_t)(uintptr_t)memory + offset_of[l] : 0xdead0000beef0000ull);
        b->v[2][l] = on ? offset_of[l] : 0xfff00000;
        b->v[3][l] = on ? 16 : 0x7fffff00; /* scratch */
    }
    uint64_t base = (uint64_t)(uintptr_t)memory;
    b->w.s[0] = (uint32_t)base;
    b->w.s[1] = (uint32_t)(base >> 32);
    b->w.s[2] = 32;
    b->w.s[4] = (uint32_t)base;
    b->w.s[5] = (uint32_t)(base >> 32) & 0xffff;
    b->w.s[6] = MEMORY;
    b->w.s[7] = gfx >= 0x1000 ? 0x31016fac : 0x00027000;
    b->w.s[EMU_M0] = 256;
    memcpy(&before, b, sizeof(before));
    memcpy(was, memory, MEMORY);
}

/* Byte `at` of lane l before the snippet. */
static const uint8_t *byte_before(int space, int l, int at)
{
    return space == GLOBAL ? was + offset_of[l] + at
           : space == LDS  ? before.lds + offset_of[l] + at
                           : before.scratch[l] + at;
}
static uint32_t word_before(int space, int l, int at)
{
    uint32_t x;
    memcpy(&x, byte_before(space, l, at), 4);
    return x;
}

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

/* Forms worth writing down (emu_isa_memory.def); emu_isa_forms.c adds every mnemonic in every space. */
static const struct move by_hand[] = {
#define MOVE(...) { __VA_ARGS__ },
#include "emu_isa_memory.def"
};
enum { BY_HAND = sizeof(by_hand) / sizeof(by_hand[0]), MOVES = 1024 };
static struct move moves[MOVES];

/* Where dword d is: the second half of two is elsewhere. */
static int place(int k, int d)
{
    const struct move *m = &moves[k];
    return m->second && 8 * d >= m->bytes ? m->second + 4 * d - m->bytes / 2 : m->at + 4 * d;
}

static void expect_load(int k, int l, uint32_t *r)
{
    uint32_t x = 0;
    for (int d = 0; d < 4; d++)
        r[d] = before.v[12 + d][l];
    if (moves[k].bytes >= 4) {
        for (int d = 0; d < moves[k].bytes / 4; d++)
            r[d] = word_before(moves[k].space, l, place(k, d));
        return;
    }
    for (int j = 0; j < moves[k].bytes; j++)
        x |= (uint32_t)*byte_before(moves[k].space, l, moves[k].at + j) << 8 * j;
    uint32_t kept = gfx >= 0x1000 ? r[0] : 0; /* with ECC on the register file the other half becomes 0 */
    if (strchr("sLH", moves[k].kind))
        x = moves[k].bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
    switch (moves[k].kind) {
    case 'l':
    case 'L':
        r[0] = (x & 0xffff) | (kept & 0xffff0000);
        break;
    case 'h':
    case 'H':
        r[0] = x << 16 | (kept & 0xffff);
        break;
    default:
        r[0] = x;
    }
}

/* The same store done here, on the copies. */
static void do_store(int k, int l)
{
    uint8_t data[16];
    for (int d = 0; d < 4; d++)
        memcpy(data + 4 * d, &before.v[4 + d][l], 4);
    if (moves[k].bytes < 4)
        memcpy((uint8_t *)byte_before(moves[k].space, l, moves[k].at), data + (moves[k].kind == 'h' ? 2 : 0),
               (size_t)moves[k].bytes);
    for (int d = 0; d < moves[k].bytes / 4; d++)
        memcpy((uint8_t *)byte_before(moves[k].space, l, place(k, d)), data + 4 * d, 4);
}

static void check_memory(const char *text)
{
    ck_assert_msg(!memcmp(was, memory, MEMORY), "%s: global memory", text);
    ck_assert_msg(!memcmp(before.lds, b->lds, sizeof(b->lds)), "%s: LDS", text);
    ck_assert_msg(!memcmp(before.scratch, b->scratch, sizeof(b->scratch)), "%s: scratch", text);
    ck_assert_msg(!stray, "%s: %d accesses out of range", text, stray);
    ck_assert_msg(!*reported, "%s: %s", text, reported);
}

START_TEST(load_store)
{
    const char *text[MOVES];
    int index[MOVES], arch = _i < 3 ? _i + 1 : _i + 2, n = 0, all;
    struct snippets s;
    memcpy(moves, by_hand, sizeof(by_hand));
    all = BY_HAND + forms_moves(arch, moves + BY_HAND, MOVES - BY_HAND);
    for (int k = 0; k < all; k++)
        if (moves[k].archs & 1 << arch) {
            text[n] = moves[k].text;
            index[n++] = k;
        }
    b = snippets_build(&s, arch, text, n);
    gfx = tested[arch].arch.gfx;
    for (int c = 0; c < n; c++)
        for (int repeat = 0; repeat < 40; repeat++) {
            int k = index[c];
            prepare((uint64_t)(100 * k + repeat));
            ck_assert_int_eq(bare_run(b, s.start[c]), EMU_END);
            for (int l = 0; l < b->w.wave_size; l++) {
                uint32_t want[4];
                bool on = before.w.exec >> l & 1;
                if (moves[k].store && on)
                    do_store(k, l);
                if (moves[k].store || !on)
                    for (int d = 0; d < 4; d++)
                        want[d] = before.v[12 + d][l];
                else
                    expect_load(k, l, want);
                for (int d = 0; d < 4; d++)
                    ASSERT_LANE(b->v[12 + d][l] == want[d], "%s lane %d: v%d is %08x, expected %08x", text[c], l,
                                12 + d, b->v[12 + d][l], want[d]);
            }
            check_memory(text[c]);
        }
    printf("%s: %d loads and stores\n", tested[arch].arch.name, n);
    snippets_free(&s);
}
END_TEST

/* ---- atomics: each lane has its own bytes here; together() has them share ---------------------------------------- */

static const struct atomic atomics_by_hand[] = {
#define ATOMIC(...) { __VA_ARGS__ },
#include "emu_isa_memory.def"
};
enum { ATOMICS_BY_HAND = sizeof(atomics_by_hand) / sizeof(atomics_by_hand[0]), ATOMICS = 1024 };
static struct atomic atomics[ATOMICS];

static void check_atomic(int k, const struct emu_inst *at, uint64_t seed)
{
    int bytes = atomics[k].bytes;
    bool buffer = !strncmp(atomics[k].text, "buffer", 6);
    prepare(seed);
    if (strchr("flghbeE", atomics[k].op)) /* numbers that are of one size */
        for (int l = 0; l < 64; l++)
            if ((b->w.exec >> l & 1) && rnd() & 3)
                for (int d = 0; d < bytes / 4; d++) {
                    uint32_t x = (uint32_t)(rnd() >> 20) &
                                 (bytes == 4 && strchr("hb", atomics[k].op) ? 0x83ff83ff : 0x807fffff),
                             near =
                                 bytes == 8 && d == 0 ? x : x | (strchr("hb", atomics[k].op) ? 0x3c003c00 : 0x3f800000);
                    b->v[4 + d][l] = near;
                }
    for (int l = 0; l < 64; l++) /* half of the comparisons succeed */
        if ((b->w.exec >> l & 1) && rnd() & 1 && strchr("cCeE", atomics[k].op))
            for (int d = 0; d < bytes / 4; d++)
                b->v[strchr("CE", atomics[k].op) ? 4 : 4 + bytes / 4 + d][l] = word_before(atomics[k].space, l, 4 * d);
    memcpy(&before, b, sizeof(before));
    ck_assert_int_eq(bare_run(b, at), EMU_END);
    for (int l = 0; l < b->w.wave_size; l++) {
        uint64_t m = 0, v = 0, v2 = 0, got = 0, ret = 0;
        bool on = before.w.exec >> l & 1;
        int r = atomics[k].returns && buffer ? 4 : 12;
        for (int d = 0; d < bytes / 4; d++) {
            uint32_t now;
            const uint8_t *p = byte_before(atomics[k].space, l, 4 * d);
            memcpy(&now, atomics[k].space == GLOBAL ? memory + (p - was) : b->lds + (p - before.lds), 4);
            m |= (uint64_t)word_before(atomics[k].space, l, 4 * d) << 32 * d;
            v |= (uint64_t)before.v[4 + d][l] << 32 * d;
            v2 |= (uint64_t)before.v[4 + bytes / 4 + d][l] << 32 * d;
            got |= (uint64_t)now << 32 * d;
            ret |= (uint64_t)b->v[r + d][l] << 32 * d;
        }
        uint64_t want = !on ? m : combine(atomics[k].op, bytes, m, v, v2) & (bytes == 8 ? ~0ull : 0xffffffff);
        uint64_t want_ret = atomics[k].returns && on ? m
                            : bytes == 8             ? before.v[r][l] | (uint64_t)before.v[r + 1][l] << 32
                                                     : before.v[r][l];
        ASSERT_LANE(same_number(atomics[k].op, bytes, got, want),
                    "%s lane %d: memory %llx with %llx, %llx: got %llx, expected %llx", atomics[k].text, l,
                    (unsigned long long)m, (unsigned long long)v, (unsigned long long)v2, (unsigned long long)got,
                    (unsigned long long)want);
        ASSERT_LANE(ret == want_ret, "%s lane %d returns %llx, expected %llx", atomics[k].text, l,
                    (unsigned long long)ret, (unsigned long long)want_ret);
    }
    ck_assert_msg(!stray && !*reported, "%s: %d stray accesses %s", atomics[k].text, stray, reported);
}

START_TEST(atomic)
{
    const char *text[ATOMICS];
    int index[ATOMICS], arch = _i < 3 ? _i + 1 : _i + 2, n = 0, all;
    struct snippets s;
    memcpy(atomics, atomics_by_hand, sizeof(atomics_by_hand));
    all = ATOMICS_BY_HAND + forms_atomics(arch, atomics + ATOMICS_BY_HAND, ATOMICS - ATOMICS_BY_HAND);
    for (int k = 0; k < all; k++)
        if (atomics[k].archs & 1 << arch) {
            text[n] = atomics[k].text;
            index[n++] = k;
        }
    b = snippets_build(&s, arch, text, n);
    gfx = tested[arch].arch.gfx;
    for (int c = 0; c < n; c++)
        for (int repeat = 0; repeat < 40; repeat++)
            check_atomic(index[c], s.start[c], (uint64_t)(1000 * index[c] + repeat));
    printf("%s: %d atomics\n", tested[arch].arch.name, n);
    snippets_free(&s);
}
END_TEST

/* ---- what else memory instructions do ---------------------------------------------------------------------------- */

static struct snippets one;
static void run_one(int arch, const char *text, uint64_t exec)
{
    b = snippets_build(&one, arch, &text, 1);
    gfx = tested[arch].arch.gfx;
    prepare(7);
    b->w.exec = exec;
    for (int l = 0; l < 64; l++) {
        set64(0, l, (uint64_t)(uintptr_t)memory + offset_of[l]);
        b->v[2][l] = offset_of[l];
    }
    memcpy(&before, b, sizeof(before));
    ck_assert_int_eq(bare_run(b, one.start[0]), EMU_END);
}
static void done(void)
{
    snippets_free(&one);
}

START_TEST(scalar_loads)
{
    run_one(2,
            "s_load_dwordx4 s[8:11], s[0:1], 0x40\ns_load_dwordx16 s[16:31], s[0:1], s2 "
            "offset:0x8\ns_buffer_load_dwordx2 s[12:13], s[4:7], 0x80\n"
            "s_load_dword s14, s[0:1], 0x0",
            ~0ull);
    ck_assert(!memcmp(&b->w.s[8], memory + 64, 16));
    ck_assert(!memcmp(&b->w.s[16], memory + 40, 64));
    ck_assert(!memcmp(&b->w.s[12], memory + 128, 8));
    ck_assert(!memcmp(&b->w.s[14], memory, 4));
    done();
    static const struct {
        int arch, words;
        const char *text;
    } loads[] = {
        { 2, 2, "s_load_dwordx2 s[16:17], s[0:1], 0x40" },
        { 2, 8, "s_load_dwordx8 s[16:23], s[0:1], 0x40" },
        { 2, 1, "s_buffer_load_dword s16, s[4:7], 0x40" },
        { 2, 8, "s_buffer_load_dwordx8 s[16:23], s[4:7], 0x40" },
        { 2, 16, "s_buffer_load_dwordx16 s[16:31], s[4:7], 0x40" },
        { 3, 1, "s_load_b32 s16, s[0:1], 0x40" },
        { 3, 2, "s_load_b64 s[16:17], s[0:1], 0x40" },
        { 3, 4, "s_load_b128 s[16:19], s[0:1], 0x40" },
        { 3, 8, "s_load_b256 s[16:23], s[0:1], 0x40" },
        { 3, 16, "s_load_b512 s[16:31], s[0:1], 0x40" },
        { 3, 1, "s_buffer_load_b32 s16, s[4:7], 0x40" },
        { 3, 2, "s_buffer_load_b64 s[16:17], s[4:7], 0x40" },
        { 3, 4, "s_buffer_load_b128 s[16:19], s[4:7], 0x40" },
        { 3, 8, "s_buffer_load_b256 s[16:23], s[4:7], 0x40" },
        { 3, 16, "s_buffer_load_b512 s[16:31], s[4:7], s2 offset:0x20" },
        { 6, 3, "s_load_b96 s[16:18], s[0:1], 0x40" },
        { 6, 3, "s_buffer_load_b96 s[16:18], s[4:7], 0x40" },
    };
    for (size_t k = 0; k < sizeof(loads) / sizeof(loads[0]); k++) {
        run_one(loads[k].arch, loads[k].text, 0xffffffff);
        ck_assert_msg(!memcmp(&b->w.s[16], memory + 64, 4 * (size_t)loads[k].words), "%s", loads[k].text);
        ck_assert_uint_eq(b->w.s[16 + loads[k].words], before.w.s[16 + loads[k].words]);
        done();
    }
    run_one(6,
            "s_load_u8 s8, s[0:1], 0x41\ns_load_i8 s9, s[0:1], 0x42\ns_load_u16 s10, s[0:1], 0x42\n"
            "s_load_i16 s11, s[0:1], 0x44",
            0xffffffff);
    int16_t short_at;
    memcpy(&short_at, memory + 68, 2);
    ck_assert_uint_eq(b->w.s[8], memory[65]);
    ck_assert_uint_eq(b->w.s[9], (uint32_t)(int8_t)memory[66]);
    ck_assert_uint_eq(b->w.s[10], memory[66] | (uint32_t)memory[67] << 8);
    ck_assert_uint_eq(b->w.s[11], (uint32_t)short_at);
    done();
    run_one(2, "s_store_dword s8, s[0:1], 0x20\ns_store_dwordx4 s[12:15], s[0:1], 0x40", ~0ull);
    ck_assert(!memcmp(&b->w.s[8], memory + 32, 4) && !memcmp(was + 36, memory + 36, 4));
    ck_assert(!memcmp(&b->w.s[12], memory + 64, 16));
    done();
    run_one(2, "s_movk_i32 s6, 64+4\ns_buffer_load_dwordx4 s[12:15], s[4:7], 0x40", ~0ull);
    ck_assert(!memcmp(&b->w.s[12], memory + 64, 4) && b->w.s[13] == 0 && b->w.s[15] == 0);
    done();
    run_one(2, "s_store_dwordx2 s[8:9], s[0:1], 0x20", ~0ull);
    ck_assert(!memcmp(&b->w.s[8], memory + 32, 8));
    done();
}
END_TEST

/* gfx9's scalar atomics, with and without return, at s[0:1] + 0x40: data in s[8:11]. */
START_TEST(scalar_atomics)
{
    static const struct {
        const char *name;
        char op;
    } ops[] = { { "swap", 'x' }, { "add", '+' },  { "sub", '-' },    { "smin", 'm' }, { "umin", 'u' },
                { "smax", 'n' }, { "umax", 'M' }, { "and", '&' },    { "or", '|' },   { "xor", '^' },
                { "inc", 'i' },  { "dec", 'd' },  { "cmpswap", 'c' } };
    enum { OPS = sizeof(ops) / sizeof(ops[0]), FORMS = 8 * OPS };
    static char line[FORMS][80];
    const char *text[FORMS];
    struct snippets s;
    for (int k = 0; k < FORMS; k++) { /* bit 0: 64 bits, 1: buffer, 2: returns */
        int words = (1 + k % 2) * (ops[k / 8].op == 'c' ? 2 : 1);
        char data[16] = "s8";
        if (words > 1)
            snprintf(data, sizeof(data), "s[8:%d]", 7 + words);
        snprintf(line[k], sizeof(line[k]), "s_%satomic_%s%s %s, %s, 0x40%s", k & 2 ? "buffer_" : "", ops[k / 8].name,
                 k & 1 ? "_x2" : "", data, k & 2 ? "s[4:7]" : "s[0:1]", k & 4 ? " glc" : "");
        text[k] = line[k];
    }
    b = snippets_build(&s, 1, text, FORMS);
    gfx = 0x90a;
    for (int k = 0; k < FORMS; k++)
        for (int repeat = 0; repeat < 40; repeat++) {
            int words = 1 + k % 2, bytes = 4 * words;
            uint64_t m = 0, v = 0, v2 = 0, now = 0;
            prepare((uint64_t)(1000 * k + repeat));
            if (repeat % 2 && ops[k / 8].op == 'c')
                memcpy(&b->w.s[8 + words], memory + 64, (size_t)bytes);
            memcpy(&before, b, sizeof(before));
            memcpy(&m, was + 64, (size_t)bytes);
            memcpy(&v, &before.w.s[8], (size_t)bytes);
            memcpy(&v2, &before.w.s[8 + words], (size_t)bytes);
            ck_assert_int_eq(bare_run(b, s.start[k]), EMU_END);
            uint64_t want = combine(ops[k / 8].op, bytes, m, v, v2) & (bytes == 8 ? ~0ull : 0xffffffff);
            memcpy(&now, memory + 64, (size_t)bytes);
            ASSERT_LANE(now == want, "%s: %llx with %llx, %llx: got %llx, expected %llx", text[k],
                        (unsigned long long)m, (unsigned long long)v, (unsigned long long)v2, (unsigned long long)now,
                        (unsigned long long)want);
            ASSERT_LANE(!memcmp(&b->w.s[8], k & 4 ? was + 64 : (uint8_t *)&before.w.s[8], (size_t)bytes), "%s: returns",
                        text[k]);
            ck_assert(!memcmp(&b->w.s[8 + words], &before.w.s[8 + words], 8));
            ck_assert(!memcmp(memory, was, 64) && !memcmp(memory + 64 + bytes, was + 64 + bytes, 64) && !stray);
        }
    snippets_free(&s);
}
END_TEST

/* Out of a buffer's range: loads give 0, stores and atomics do nothing, dword by dword. */
START_TEST(buffer_range)
{
    run_one(2,
            "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2\nv_lshlrev_b32 v2, 2, v2\ns_movk_i32 s6, 40\n"
            "buffer_load_dwordx4 v[12:15], v2, s[4:7], 0 offen\nbuffer_store_dwordx2 v[4:5], v2, s[4:7], 0 offen\n"
            "buffer_atomic_add v4, v2, s[4:7], 0 offen",
            0x00010000ffff0fffull);
    for (int l = 0; l < 64; l++)
        for (int d = 0; d < 4 && before.w.exec >> l & 1; d++) {
            uint32_t want = 0;
            if (4 * l + 4 * d + 4 <= 40)
                memcpy(&want, was + 4 * l + 4 * d, 4);
            ASSERT_LANE(b->v[12 + d][l] == want, "lane %d dword %d: %x, expected %x", l, d, b->v[12 + d][l], want);
        }
    ck_assert(!memcmp(memory + 40, was + 40, MEMORY - 40));
    ck_assert_int_eq(stray, 0);
    done();
    run_one(3,
            "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_lshlrev_b32 v2, 2, v2\ns_movk_i32 s6, 40\nbuffer_load_b32 v12, v2, "
            "s[4:7], 0 offen",
            0xffffffff);
    for (int l = 0; l < 32; l++) {
        uint32_t want = 0;
        if (l < 10)
            memcpy(&want, was + 4 * l, 4);
        ck_assert_uint_eq(b->v[12][l], want);
    }
    done();
}
END_TEST

/* base + index * stride + offset, the index checked against the records; and swizzled: elements of 4
 * bytes, 64 lanes. */
START_TEST(buffer_structs)
{
    run_one(2,
            "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2\nv_mov_b32 v3, 4\ns_or_b32 s5, s5, "
            "0x00180000\ns_movk_i32 s6, 20\n"
            "buffer_load_dword v12, v[2:3], s[4:7], 0 idxen offen offset:8",
            ~0ull);
    for (int l = 0; l < 64; l++) {
        uint32_t want = 0;
        if (l < 20)
            memcpy(&want, was + 24 * l + 12, 4);
        ck_assert_uint_eq(b->v[12][l], want);
    }
    done();
    run_one(2,
            "v_mbcnt_lo_u32_b32 v2, -1, 0\nv_mbcnt_hi_u32_b32 v2, -1, v2\nv_mov_b32 v3, 8\ns_or_b32 s5, s5, "
            "0x80100000\ns_movk_i32 s6, 64\n"
            "s_mov_b32 s7, 0x007a7000\nbuffer_load_dword v12, v[2:3], s[4:7], 0 idxen offen",
            ~0ull);
    for (int l = 0; l < 64; l++) { /* stride 16, elements of 4 whatever bits 19 and 20 say, index stride 64 (code 3) */
        uint32_t want;
        memcpy(&want, was + 8 / 4 * 4 * 64 + 4 * l, 4);
        ck_assert_uint_eq(b->v[12][l], want);
    }
    done();
}
END_TEST

START_TEST(flat_apertures)
{
    run_one(
        2,
        "s_mov_b64 s[8:9], src_shared_base\ns_mov_b64 s[10:11], src_private_base\nv_mov_b32 v0, v2\nv_mov_b32 v1, s9\n"
        "flat_load_dwordx2 v[12:13], v[0:1] offset:4\nv_mov_b32 v0, 16\nv_mov_b32 v1, s11\nflat_load_dwordx4 v[16:19], "
        "v[0:1]\n"
        "flat_store_dword v[0:1], v4 offset:64",
        ~0ull);
    for (int l = 0; l < 64; l++) {
        ck_assert(!memcmp(&b->v[12][l], before.lds + offset_of[l] + 4, 4));
        ck_assert(!memcmp(&b->v[13][l], before.lds + offset_of[l] + 8, 4));
        for (int d = 0; d < 4; d++)
            ck_assert(!memcmp(&b->v[16 + d][l], before.scratch[l] + 16 + 4 * d, 4));
        ck_assert(!memcmp(&b->v[4][l], b->scratch[l] + 80, 4));
    }
    ck_assert_int_eq(stray, 0);
    done();
}
END_TEST

/* Lanes of one instruction in all three. */
START_TEST(flat_mixed)
{
    run_one(
        2,
        "s_mov_b64 s[8:9], src_shared_base\ns_mov_b64 s[10:11], src_private_base\ns_mov_b64 exec, 0xff00\nv_mov_b32 "
        "v0, v2\nv_mov_b32 v1, s9\n"
        "s_mov_b64 exec, 0xff\nv_mov_b32 v0, 16\nv_mov_b32 v1, s11\ns_mov_b64 exec, -1\nflat_load_dword v12, v[0:1]",
        ~0ull);
    for (int l = 0; l < 64; l++) {
        const uint8_t *from = l < 8 ? before.scratch[l] + 16 : l < 16 ? before.lds + offset_of[l] : was + offset_of[l];
        ck_assert(!memcmp(&b->v[12][l], from, 4));
    }
    done();
}
END_TEST

START_TEST(loads_to_lds)
{
    run_one(2, "buffer_load_dword v2, s[4:7], 0 offen offset:16 lds", 0xfffffffffffffff7ull);
    for (int l = 0; l < 64; l++) {
        uint32_t at = 256 + 16 + 4 * (uint32_t)l;
        ck_assert(!memcmp(b->lds + at, l == 3 ? before.lds + at : was + offset_of[l] + 16, 4));
    }
    ck_assert(!memcmp(b->v, before.v, sizeof(b->v)));
    done();
    static const struct {
        int arch, bytes, sign;
        const char *text;
    } loads[] = {
        { 2, 4, 0, "global_load_lds_dword v[0:1], off" },
        { 2, 1, 0, "global_load_lds_ubyte v[0:1], off" },
        { 2, 1, 1, "global_load_lds_sbyte v[0:1], off" },
        { 2, 2, 0, "global_load_lds_ushort v[0:1], off" },
        { 2, 2, 1, "global_load_lds_sshort v[0:1], off" },
        { 2, 1, 0, "buffer_load_ubyte v2, s[4:7], 0 offen lds" },
        { 2, 1, 1, "buffer_load_sbyte v2, s[4:7], 0 offen lds" },
        { 2, 2, 0, "buffer_load_ushort v2, s[4:7], 0 offen lds" },
        { 2, 2, 1, "buffer_load_sshort v2, s[4:7], 0 offen lds" },
        { 8, 12, 0, "global_load_lds_dwordx3 v[0:1], off" },
        { 8, 16, 0, "global_load_lds_dwordx4 v[0:1], off" },
        { 8, 12, 0, "buffer_load_dwordx3 v2, s[4:7], 0 offen lds" },
        { 8, 16, 0, "buffer_load_dwordx4 v2, s[4:7], 0 offen lds" },
    };
    for (size_t k = 0; k < sizeof(loads) / sizeof(loads[0]); k++) {
        run_one(loads[k].arch, loads[k].text, ~0ull);
        for (int l = 0; l < 64; l++) {
            int bytes = loads[k].bytes, room = bytes < 4 ? 4 : bytes;
            uint8_t want[16] = { 0 };
            memcpy(want, was + offset_of[l], (size_t)bytes);
            if (loads[k].sign && want[bytes - 1] & 128)
                memset(want + bytes, 255, (size_t)(4 - bytes));
            ck_assert_msg(!memcmp(b->lds + 256 + room * l, want, (size_t)room), "%s lane %d", loads[k].text, l);
        }
        done();
    }
}
END_TEST

/* All lanes on one address: every one takes effect, in some order. */
START_TEST(together)
{
    run_one(2,
            "v_mov_b32 v0, s0\nv_mov_b32 v1, s1\nv_mov_b32 v4, 3\nglobal_atomic_add v12, v[0:1], v4, off "
            "sc0\nv_mov_b32 v2, 0\nds_add_u32 v2, v4",
            ~0ull);
    uint32_t first, now, seen = 0, lds_first, lds_now;
    memcpy(&first, was, 4);
    memcpy(&now, memory, 4);
    memcpy(&lds_first, before.lds, 4);
    memcpy(&lds_now, b->lds, 4);
    ck_assert_uint_eq(now, first + 192);
    ck_assert_uint_eq(lds_now, lds_first + 192);
    for (int l = 0; l < 64; l++)
        seen += (b->v[12][l] - first) / 3;
    ck_assert_uint_eq(seen, 64 * 63 / 2);
    done();
}
END_TEST

START_TEST(permutes)
{
    uint64_t exec = 0xfffffffff0ff7fffull;
    run_one(
        2,
        "v_mbcnt_lo_u32_b32 v16, -1, 0\nv_mbcnt_hi_u32_b32 v16, -1, v16\nv_mul_u32_u24 v17, 20, "
        "v16\nds_bpermute_b32 v12, v17, v16\n"
        "ds_permute_b32 v13, v17, v16\nds_swizzle_b32 v14, v16 offset:swizzle(QUAD_PERM, 3, 0, 2, 1)\n"
        "ds_swizzle_b32 v15, v16 offset:swizzle(SWAP, 16)\nds_swizzle_b32 v18, v16 offset:swizzle(BROADCAST, 8, 5)\n"
        "ds_swizzle_b32 v19, v16 offset:0xc060\nds_swizzle_b32 v20, v16 offset:0xc463\nds_swizzle_b32 v21, v16 "
        "offset:0xe000\n"
        "ds_swizzle_b32 v22, v16 offset:0xe003",
        exec);
    for (int l = 0; l < 64; l++) {
        if (!(exec >> l & 1))
            continue;
        int from = 5 * l % 64, to = -1, quad = l / 4 * 4 + "\3\0\2\1"[l % 4], swap = l ^ 16, cast = l / 8 * 8 + 5;
        for (int g = 0; g < 64; g++)
            if (5 * g % 64 == l && (exec >> g & 1))
                to = g;
#define VALUE(n) ((n) >= 0 && (exec >> (n)&1) ? (uint32_t)(n) : 0)
        ck_assert_uint_eq(b->v[12][l], VALUE(from));
        ck_assert_uint_eq(b->v[13][l], VALUE(to));
        ck_assert_uint_eq(b->v[14][l], VALUE(quad));
        ck_assert_uint_eq(b->v[15][l], VALUE(swap));
        ck_assert_uint_eq(b->v[18][l], VALUE(cast));
        int reversed = 0, up = l / 32 * 32;
        for (int k = 0; k < 5; k++)
            reversed |= (l >> k & 1) << (4 - k);
        ck_assert_uint_eq(b->v[19][l], VALUE(up + (l + 3) % 32));                            /* rotate by 3 */
        ck_assert_uint_eq(b->v[20][l], VALUE(up + (((l % 32 + 32 - 3) % 32) & ~3) + l % 4)); /* back, keeping 2 bits */
        ck_assert_uint_eq(b->v[21][l], VALUE(up + reversed));
        ck_assert_uint_eq(b->v[22][l], VALUE(up + (reversed >> 2 | l % 4)));
    }
    done();
    run_one(3, "v_mbcnt_lo_u32_b32 v16, -1, 0\nv_mul_u32_u24 v17, 20, v16\nds_bpermute_b32 v12, v17, v16", 0xffffffff);
    for (int l = 0; l < 32; l++)
        ck_assert_uint_eq(b->v[12][l], (uint32_t)(5 * l % 32));
    done();
}
END_TEST

/* Cache instructions are none of memory: they name no register. */
START_TEST(caches)
{
    run_one(2, "buffer_inv sc1\nbuffer_wbl2 sc0 sc1\ns_dcache_wb", ~0ull);
    ck_assert(!memcmp(b->v, before.v, sizeof(b->v)));
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(one.prog.inst[k].op->cls, EMU_CACHE);
    done();
    run_one(1, "buffer_wbinvl1\nbuffer_wbinvl1_vol\nbuffer_invl2", ~0ull);
    done();
    run_one(3, "buffer_gl0_inv\nbuffer_gl1_inv", 0xffffffff);
    done();
}
END_TEST

void emu_case_memory(Suite *s)
{
    TCase *c = test_case(s, "memory", NULL, NULL);
    ADD_TESTS(c, scalar_loads, scalar_atomics, buffer_range, buffer_structs, flat_apertures, flat_mixed, loads_to_lds,
              together, permutes, caches);
    ADD_LOOPS(c, 5, load_store, atomic);
}
