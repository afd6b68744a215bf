/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target with mutated seeds, without libFuzzer: run N of a seed is always the same input, so a finding is
 * repeated by its number. Any crash, sanitizer report, wrong answer or run of more than ten seconds ends
 * the program. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz.h"

#define HANG_SECONDS 10
#define MAX_SEEDS    256

static struct seed {
    uint8_t *data;
    size_t size;
} seeds[MAX_SEEDS];
static int n_seeds;

static uint64_t the_seed = 1;
static volatile uint64_t the_run; /* that is under way */

static void add_seed(const void *data, size_t size)
{
    if (n_seeds == MAX_SEEDS || size > fuzz_max_size)
        return;
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    seeds[n_seeds++] = (struct seed){ copy, size };
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* of no locale */
}

/* A file; text has a seed a line. Or all files of a directory. */
static void read_seeds(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, by_name);
    char file[PATH_MAX];
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof(file), "%s/%s", path, list[i]->d_name);
        if (*list[i]->d_name != '.')
            read_seeds(file);
        free(list[i]);
    }
    if (n >= 0) {
        free(list);
        return;
    }
    size_t size;
    char *data = rfg_read_file(path, &size);
    if (!data) {
        fprintf(stdout, "%s: can't be read\n", path);
        exit(2);
    }
    if (strstr(path, ".lines"))
        for (char *save, *line = strtok_r(data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            add_seed(line, strlen(line));
    else
        add_seed(data, size);
    free(data);
}

/* ---- mutations --------------------------------------------------------------------------------------------------- */

static const char *const words[] = {
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "1e99",
    "nan",
    "inf",
    "99999999999999999999999",
    "=",
    ",",
    "\"",
    "\n",
    "\r\n",
    "->",
    " ",
    "#",
    "%s%n",
    "\xef\xbb\xbf",
    "''",
    "null",
    "[]",
    "{}",
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))
static const uint64_t numbers[] = { 0,          1,          0x7f,       0x80,       0xff,       0x7fff,
                                    0x8000,     0xffff,     0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32,
                                    1ull << 45, 1ull << 63, INT64_MAX,  UINT64_MAX, 0xfffffff0, 4096 };
#define N_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

struct buffer {
    uint8_t *data;
    size_t size;
};

static size_t below(uint64_t *state, size_t n)
{
    return n ? (size_t)(rfg_random(state) % n) : 0;
}

/* Puts n bytes at `at`, in place of `cut` that were there. */
static void replace(struct buffer *b, size_t at, size_t cut, const void *bytes, size_t n)
{
    if (b->size - cut + n > fuzz_max_size)
        return;
    memmove(b->data + at + n, b->data + at + cut, b->size - at - cut);
    memcpy(b->data + at, bytes, n);
    b->size += n - cut;
}

static void insert_word(struct buffer *b, uint64_t *state)
{
    const char *word = words[below(state, N_WORDS)];
    size_t at = below(state, b->size + 1), cut = 0;
    if (b->size && rfg_random(state) % 2) /* in place of a number */
        while (at + cut < b->size && b->data[at + cut] >= '0' && b->data[at + cut] <= '9')
            cut++;
    replace(b, at, cut, word, strlen(word));
}

/* An integer of 1 to 8 bytes, mostly where it would be aligned. */
static void put_number(struct buffer *b, uint64_t *state)
{
    size_t width = (size_t)1 << rfg_random(state) % 4, at = below(state, b->size);
    uint64_t v = numbers[below(state, N_NUMBERS)] + rfg_random(state) % 3 - 1;
    if (rfg_random(state) % 4)
        at = at / width * width;
    if (at + width <= b->size)
        memcpy(b->data + at, &v, width);
}

static void splice(struct buffer *b, uint64_t *state)
{
    const struct seed *other = &seeds[below(state, (size_t)n_seeds)];
    size_t from = below(state, other->size), n = below(state, other->size - from + 1), at = below(state, b->size + 1);
    size_t cut = rfg_random(state) % 2 ? below(state, b->size - at + 1) : n < b->size - at ? n : b->size - at;
    replace(b, at, cut, other->data + from, n);
}

static void mutate(struct buffer *b, uint64_t *state)
{
    size_t at = below(state, b->size), n = below(state, 1 + below(state, b->size - at + 1));
    uint8_t copy[64];
    switch (rfg_random(state) % 9) {
    case 0: /* a bit */
        if (b->size)
            b->data[at] ^= (uint8_t)(1u << rfg_random(state) % 8);
        break;
    case 1: /* a byte */
        if (b->size)
            b->data[at] = (uint8_t)(fuzz_is_text ? ' ' + rfg_random(state) % 95 : rfg_random(state));
        break;
    case 2: /* bytes less */
        replace(b, at, n, "", 0);
        break;
    case 3: /* bytes twice */
        n = n > sizeof(copy) ? sizeof(copy) : n;
        memcpy(copy, b->data + at, n);
        replace(b, below(state, b->size + 1), 0, copy, n);
        break;
    case 4: /* the end off */
        if (rfg_random(state) % 4 == 0)
            b->size = at;
        break;
    case 5:
        splice(b, state);
        break;
    case 6:
        insert_word(b, state);
        break;
    default:
        if (fuzz_is_text)
            insert_word(b, state);
        else
            put_number(b, state);
    }
}

/* The input of a run. */
static void make(struct buffer *b, uint64_t run)
{
    uint64_t state = the_seed * 0x9e3779b97f4a7c15u ^ run * 0xd1b54a32d192ed03u;
    (void)rfg_random(&state);
    const struct seed *s = &seeds[below(&state, (size_t)n_seeds)];
    memcpy(b->data, s->data, s->size);
    b->size = s->size;
    if (run < (uint64_t)n_seeds) { /* the seeds themselves first */
        memcpy(b->data, seeds[run].data, seeds[run].size);
        b->size = seeds[run].size;
        return;
    }
    for (uint64_t n = 1 + rfg_random(&state) % 4 * (rfg_random(&state) % 3); n; n--)
        mutate(b, &state);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void say_where(void)
{
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "fuzz %s: FINDING in run %" PRIu64 ": repeat it with --seed %" PRIu64 " --run %" PRIu64 "\n",
                     fuzz_name, the_run, the_seed, the_run);
    (void)!write(1, text, (size_t)n);
}

/* ASan's and UBSan's: what they say when they end the program. */
extern void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void on_signal(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

static void on_alarm(int number)
{
    static uint64_t last;
    static int seconds;
    (void)number;
    seconds = the_run == last ? seconds + 1 : 0;
    last = the_run;
    if (seconds >= HANG_SECONDS) {
        say_where();
        (void)!write(1, "it takes too long\n", 18);
        _exit(3);
    }
}

static void watch(void)
{
    static const int numbers_of[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct itimerval second = { { 1, 0 }, { 1, 0 } };
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_where);
    for (size_t i = 0; i < sizeof(numbers_of) / sizeof(numbers_of[0]); i++)
        if (!__sanitizer_set_death_callback || numbers_of[i] == SIGABRT) /* the others are reported by the sanitizer */
            signal(numbers_of[i], on_signal);
    struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &second, NULL);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t number(const char *text, const char *option)
{
    char *end;
    uint64_t v = strtoull(text ? text : "", &end, 10);
    if (!text || end == text || *end) {
        printf("%s needs a number\n", option);
        exit(2);
    }
    return v;
}

int main(int argc, char **argv)
{
    uint64_t runs = 100000, first = 0;
    double limit = 1e9;
    const char *save = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs"))
            runs = number(argv[++i], "--runs");
        else if (!strcmp(argv[i], "--seconds"))
            limit = (double)number(argv[++i], "--seconds");
        else if (!strcmp(argv[i], "--seed"))
            the_seed = number(argv[++i], "--seed");
        else if (!strcmp(argv[i], "--run"))
            first = number(argv[++i], "--run"), runs = first + 1;
        else if (!strcmp(argv[i], "--save"))
            save = argv[++i];
        else if (*argv[i] == '-') {
            printf("usage: %s [--runs N] [--seconds S] [--seed N] [--run N [--save FILE]] SEEDS...\n", argv[0]);
            return 2;
        } else
            read_seeds(argv[i]);
    }
    if (fuzz_more_seeds)
        fuzz_more_seeds(add_seed);
    if (!n_seeds) {
        printf("no seeds\n");
        return 2;
    }
    /* What the library warns of would be most of what there is to see. Sanitizers write to descriptor 2 itself. */
    FILE *null = fopen("/dev/null", "w");
    if (null && runs > first + 1)
        stderr = null;

    struct buffer b = { malloc(fuzz_max_size + 1), 0 };
    double start = rfg_now(), used = cpu_seconds(), told = start;
    watch();
    uint64_t run = first;
    for (; run < runs; run++) {
        the_run = run;
        make(&b, run);
        if (save) {
            FILE *f = fopen(save, "wb");
            if (!f || fwrite(b.data, 1, b.size, f) != b.size || fclose(f))
                printf("%s: can't be written\n", save);
        }
        /* A copy of the very size, whose end the sanitizer guards. */
        uint8_t *exact = malloc(b.size);
        if (!exact && b.size)
            abort();
        if (b.size)
            memcpy(exact, b.data, b.size);
        (void)LLVMFuzzerTestOneInput(exact, b.size);
        free(exact);
        if (run % 256 == 0 && rfg_now() - start > limit)
            break;
        if (run % 4096 == 0 && rfg_now() - told > 60) {
            told = rfg_now();
            printf("fuzz %s: %" PRIu64 " runs, %.0f a second\n", fuzz_name, run - first,
                   (double)(run - first) / (told - start));
            fflush(stdout);
        }
    }
    used = cpu_seconds() - used;
    printf("fuzz %s: %" PRIu64 " runs from %d seeds, 0 findings, %.0f runs a second of CPU time, seed %" PRIu64 "\n",
           fuzz_name, run - first, n_seeds, (double)(run - first) / (used > 0 ? used : 1e-9), the_seed);
    for (int i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    free(b.data);
    return 0;
}
