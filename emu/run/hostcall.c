/* SPDX-License-Identifier: MIT
 *
 * Requests of waves to the host: printf, and functions of the host. A wave takes a packet of a buffer, fills a row of
 * eight words for each lane, puts the packet on the stack of those that are ready and spins until the host is done with
 * it. The layouts are those of ROCm's device library (ockl's hostcall and printf; read in Debian's ockl.bc 5.2.3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hostcall.h"

enum { SERVICE_FUNCTION = 1, SERVICE_PRINTF = 2, SERVICE_MEMORY = 3 };
enum {
    MESSAGE_BEGINS = 1,
    MESSAGE_ENDS = 2
}; /* bits of a message's first word; 5..7: words that follow; 8..: number */

struct header {
    _Atomic uint64_t next;
    uint64_t lanes;
    uint32_t service;
    _Atomic uint32_t control; /* bit 0: the wave waits */
};
struct payload {
    uint64_t lane[64][8];
};
struct shared {
    struct header *headers;
    struct payload *payloads;
    void *doorbell;
    _Atomic uint64_t free_stack, ready_stack; /* a packet's index, and above it a count so that no value comes again */
    uint64_t mask;
};
/* amd_signal_t, without a mailbox: nobody sleeps on it */
struct doorbell {
    int64_t kind;
    _Atomic int64_t value;
    uint64_t rest[6];
};

/* A printf on its way, of one lane. */
struct message {
    uint64_t *word;
    size_t n, room;
    bool used;
};

struct emu_hostcall {
    uint8_t *mapping;
    size_t size;
    struct emu_block *block;
    struct shared *shared;
    pthread_mutex_t lock;
    struct message *message;
    size_t n_messages;
    bool printed;
};

/* ---- the buffer -------------------------------------------------------------------------------------------------- */

static size_t whole(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

struct emu_hostcall *emu_hostcall_open(struct emu_memory *memory, uint64_t waves, const char *kernel)
{
    struct emu_hostcall *h = calloc(1, sizeof(*h));
    uint64_t n = 2;
    while (n < waves)
        n *= 2;
    size_t headers = whole(n * sizeof(struct header)), fixed = whole(sizeof(struct shared) + sizeof(struct doorbell));
    if (!h)
        return NULL;
    h->size = fixed + headers + whole(n * sizeof(struct payload));
    h->mapping = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->mapping == MAP_FAILED) {
        free(h);
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    struct shared *s = h->shared = (struct shared *)h->mapping;
    s->headers = (struct header *)(h->mapping + fixed);
    s->payloads = (struct payload *)(h->mapping + fixed + headers);
    s->doorbell = s + 1;
    s->mask = n - 1;
    for (uint64_t i = 0; i < n; i++) /* each packet's number with a count of 1: none is 0, which ends a stack */
        atomic_init(&s->headers[i].next, i ? n + i - 1 : 0);
    atomic_init(&s->free_stack, n + n - 1);
    h->block = emu_memory_add(memory, EMU_BLOCK_KERNARG, h->mapping, h->size, true, kernel);
    if (!h->block)
        emu_hostcall_close(memory, &h);
    return h;
}

uint64_t emu_hostcall_address(const struct emu_hostcall *h)
{
    return (uint64_t)(uintptr_t)h->shared;
}

void emu_hostcall_close(struct emu_memory *memory, struct emu_hostcall **hostcall)
{
    struct emu_hostcall *h = *hostcall;
    if (!h)
        return;
    if (h->printed)
        fflush(stdout);
    for (size_t i = 0; i < h->n_messages; i++)
        free(h->message[i].word);
    free(h->message);
    if (h->block)
        emu_memory_remove(memory, h->block);
    munmap(h->mapping, h->size);
    pthread_mutex_destroy(&h->lock);
    free(h);
    *hostcall = NULL;
}

/* ---- printf ------------------------------------------------------------------------------------------------------ */

/* The words that the text at `from` takes, with its NUL. */
static size_t text_words(const uint64_t *word, size_t n, size_t from)
{
    size_t most = (n - from) * 8, length = strnlen((const char *)(word + from), most);
    return length < most ? length / 8 + 1 : n - from;
}

/* One conversion, "%-5d": its argument begins at *at. Returns how many characters it printed. */
static int convert(FILE *out, const char *spec, char type, bool is_long, const struct message *m, size_t *at)
{
    uint64_t v = *at < m->n ? m->word[*at] : 0;
    double d;
    int printed = 0;
    if (strchr("aAeEfFgG", type)) {
        memcpy(&d, &v, sizeof(d));
        printed = fprintf(out, spec, d);
    } else if (type == 's') {
        size_t words = *at < m->n ? text_words(m->word, m->n, *at) : 0;
        char *text = strndup(words ? (const char *)(m->word + *at) : "", words * 8);
        printed = text ? fprintf(out, spec, text) : 0;
        free(text);
        *at += words;
        return printed;
    } else if (type == 'p')
        printed = fprintf(out, spec, (void *)(uintptr_t)v);
    else if (type != 'n') /* what is counted isn't stored */
        printed = is_long ? fprintf(out, spec, v) : fprintf(out, spec, (int)v);
    ++*at;
    return printed;
}

/* Prints by the format that the message begins with, at word 1, as printf() would. */
static int format(FILE *out, const struct message *m)
{
    size_t at = m->n > 1 ? 1 + text_words(m->word, m->n, 1) : m->n;
    char *text = m->n > 1 ? strndup((const char *)(m->word + 1), (at - 1) * 8) : NULL;
    int printed = 0;
    for (const char *c = text; c && *c;) {
        char spec[96];
        size_t n = 0;
        if (*c != '%' || c[1] == '%') {
            fputc(*c, out);
            printed++;
            c += *c == '%' ? 2 : 1;
            continue;
        }
        spec[n++] = *c++;
        for (; *c && strchr("-+ #0123456789.*", *c) && n < 60; c++)
            if (*c == '*')
                n += (size_t)snprintf(spec + n, 12, "%d", at < m->n ? (int)m->word[at++] : 0);
            else
                spec[n++] = *c;
        bool is_long = false;
        for (; *c && strchr("hlLqjzt", *c) && n < 70; c++) {
            is_long |= *c != 'h';
            if (*c == 'h' || strchr("diouxX", c[strspn(c, "hlLqjzt")]))
                spec[n++] = *c; /* "%lf" is a double, too */
        }
        if (!*c)
            break;
        spec[n++] = *c;
        spec[n] = 0;
        printed += convert(out, spec, *c++, is_long, m, &at);
    }
    free(text);
    return printed;
}

static struct message *message_at(struct emu_hostcall *h, uint64_t number)
{
    return number < h->n_messages && h->message[number].used ? &h->message[number] : NULL;
}

static bool begin_message(struct emu_hostcall *h, uint64_t *number)
{
    for (*number = 0; *number < h->n_messages && h->message[*number].used;)
        ++*number;
    if (*number == h->n_messages) {
        size_t room = h->n_messages ? 2 * h->n_messages : 64;
        struct message *grown = realloc(h->message, room * sizeof(*grown));
        if (!grown)
            return false;
        memset(grown + h->n_messages, 0, (room - h->n_messages) * sizeof(*grown));
        h->message = grown;
        h->n_messages = room;
    }
    h->message[*number].used = true;
    h->message[*number].n = 0;
    return true;
}

static bool append(struct message *m, const uint64_t *words, size_t n)
{
    if (m->n + n > m->room) {
        size_t room = 2 * (m->n + n) + 16;
        uint64_t *grown = realloc(m->word, room * sizeof(*grown));
        if (!grown)
            return false;
        m->word = grown;
        m->room = room;
    }
    memcpy(m->word + m->n, words, n * sizeof(*words));
    m->n += n;
    return true;
}

/* One lane's piece of a message. Answered by the message's first word or, when it ends, by printf's result. */
static bool print(struct emu_hostcall *h, uint64_t row[8])
{
    uint64_t first = row[0], number = first >> 8;
    if (first & MESSAGE_BEGINS && !begin_message(h, &number))
        return false;
    struct message *m = message_at(h, number);
    if (!m || !append(m, row + 1, first >> 5 & 7))
        return false;
    row[0] = number << 8 | (first & 0xff & ~(uint64_t)MESSAGE_BEGINS);
    if (!(first & MESSAGE_ENDS))
        return true;
    row[0] = (uint64_t)format(m->n && m->word[0] & 1 ? stderr : stdout, m);
    m->used = false;
    h->printed = true;
    return true;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static bool answer(struct emu_launch *l, struct emu_hostcall *h, const struct header *header, struct payload *p)
{
    for (int lane = 0; lane < 64; lane++) {
        uint64_t *row = p->lane[lane], in[7];
        if (!(header->lanes >> lane & 1))
            continue;
        switch (header->service) {
        case SERVICE_PRINTF:
            if (print(h, row))
                break;
            emu_report_launch(l, "not-implemented", "printf: a message that was not begun, or no memory");
            return false;
        case SERVICE_FUNCTION:
            memcpy(in, row + 1, sizeof(in));
            ((void (*)(uint64_t *, uint64_t *))(uintptr_t)row[0])(row, in);
            break;
        default:
            emu_report_launch(l, "not-implemented", "hostcall: service %u%s", header->service,
                              header->service == SERVICE_MEMORY ? ", malloc and free in kernels" : "");
            return false;
        }
    }
    return true;
}

bool emu_hostcall_serve(struct emu_launch *l)
{
    struct emu_hostcall *h = l->hostcall;
    struct shared *s = h->shared;
    if (!atomic_load_explicit(&s->ready_stack, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&h->lock);
    uint64_t at = atomic_exchange_explicit(&s->ready_stack, 0, memory_order_acquire), oldest = 0, next;
    for (; at; at = next) { /* the last is on top */
        next = atomic_load(&s->headers[at & s->mask].next);
        atomic_store(&s->headers[at & s->mask].next, oldest);
        oldest = at;
    }
    for (at = oldest; at; at = next) {
        struct header *header = &s->headers[at & s->mask];
        next = atomic_load(&header->next); /* once it is answered, its wave puts it back */
        if (!answer(l, h, header, &s->payloads[at & s->mask]))
            break;
        atomic_store_explicit(&header->control, 0, memory_order_release);
    }
    pthread_mutex_unlock(&h->lock);
    return oldest;
}
