/* SPDX-License-Identifier: MIT
 *
 * The parent's end of the measuring process: one JSON object a line each way. A process that does not answer in time is
 * killed; the next command starts another. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "tuner/harness/loads.h"
#include "tune.h"

#define OPEN_TIMEOUT  120.0 /* loading a GPU's runtime from a cold disk */
#define BEGIN_TIMEOUT 120.0 /* making a problem's data */
#define CLOCK_ROWS    4     /* of an output that are compared: the emulator is slow, and tests compare all */

extern char **environ;

struct tune_child {
    struct tune *t;
    pid_t pid; /* 0: none */
    int to, from;
    const struct tune_shape *begun;
    char *line; /* what was read and is not a whole line yet */
    size_t len, room;
};

struct tune_child *tune_child_create(struct tune *t)
{
    struct tune_child *c = calloc(1, sizeof(*c));
    if (c)
        c->t = t;
    return c;
}

/* Signals that no kernel and no driver raises: kill by hand, a memory or time limit. */
static bool is_from_outside(int sig)
{
    static const int outside[] = { SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGXFSZ };
    bool found = false;
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        found |= outside[i] == sig;
    return found;
}

/* Ends the process if it runs, and says how it ended: of itself, or from outside. */
static enum tune_answer reap(struct tune_child *c, bool kill_it, struct rfg_reason *why)
{
    int status = 0;
    pid_t done = 0;
    if (!c->pid)
        return ANSWER_LOST;
    if (kill_it)
        kill(c->pid, SIGKILL);
    close(c->to);
    close(c->from);
    /* A driver can block a killed process's exit for long: don't wait forever. */
    for (double until = rfg_now() + 10; (done = waitpid(c->pid, &status, WNOHANG)) == 0 && rfg_now() < until;)
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    if (done == 0)
        rfg_refuse(why, "the measuring process %d can't be ended: the driver holds it", (int)c->pid);
    else if (done > 0 && WIFSIGNALED(status))
        rfg_refuse(why, "the measuring process was ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        rfg_refuse(why, "the measuring process ended with status %d", done > 0 ? WEXITSTATUS(status) : -1);
    c->pid = 0;
    c->begun = NULL;
    c->len = 0;
    bool own = done > 0 && (WIFSIGNALED(status) ? !is_from_outside(WTERMSIG(status))
                                                : WEXITSTATUS(status) != MEASURE_EXIT_NO_MEMORY);
    return own ? ANSWER_DIED : ANSWER_LOST;
}

void tune_child_restart(struct tune_child *c)
{
    reap(c, true, NULL);
}

void tune_child_destroy(struct tune_child **pc)
{
    struct tune_child *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    reap(c, true, NULL);
    free(c->line);
    free(c);
}

static bool start(struct tune_child *c, struct rfg_reason *why)
{
    int to[2], from[2];
    char parent[24];
    if (pipe2(to, O_CLOEXEC))
        return rfg_refuse(why, "pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return rfg_refuse(why, "pipe: %s", strerror(errno));
    }
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    char *argv[] = { "rfg-tune", "--measure-worker", parent, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    int e = posix_spawn(&c->pid, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    c->to = to[1];
    c->from = from[0];
    c->len = 0;
    if (e) {
        close(c->to);
        close(c->from);
        c->pid = 0;
        return rfg_refuse(why, "the measuring process can't be started: %s", strerror(e));
    }
    return true;
}

/* ---- one exchange ------------------------------------------------------------------------------------------------ */

static bool put_line(struct tune_child *c, const char *text)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        ssize_t n = write(c->to, text + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* Waits for a whole line and makes it the reply. */
static enum tune_answer get_reply(struct tune_child *c, double timeout_s, json_t **reply, struct rfg_reason *why)
{
    double until = rfg_now() + timeout_s;
    for (;;) {
        char *end = c->len ? memchr(c->line, '\n', c->len) : NULL;
        if (end) {
            json_error_t error;
            size_t size = (size_t)(end - c->line) + 1;
            *reply = json_loadb(c->line, size - 1, 0, &error);
            memmove(c->line, c->line + size, c->len - size);
            c->len -= size;
            if (*reply)
                return ANSWER_OK;
            reap(c, true, NULL);
            rfg_refuse(why, "the measuring process answered with something else than JSON: %s", error.text);
            return ANSWER_DIED;
        }
        if (tune_stop) {
            reap(c, true, NULL);
            return ANSWER_STOPPED;
        }
        double left = until - rfg_now();
        if (left <= 0) {
            reap(c, true, NULL);
            rfg_refuse(why, "no answer after %.1f s", timeout_s);
            return ANSWER_HUNG;
        }
        /* Short waits: a signal may come between the look at tune_stop and the poll. */
        struct pollfd p = { .fd = c->from, .events = POLLIN };
        int ready = poll(&p, 1, left < 0.2 ? (int)(left * 1000) + 1 : 200);
        if (ready <= 0)
            continue;
        if (c->room - c->len < 4096) {
            char *more = realloc(c->line, c->room + 65536);
            if (!more) {
                reap(c, true, NULL);
                rfg_refuse(why, "no memory for a reply");
                return ANSWER_LOST;
            }
            c->line = more;
            c->room += 65536;
        }
        ssize_t n = read(c->from, c->line + c->len, c->room - c->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            enum tune_answer end = reap(c, false, why);
            return tune_stop ? ANSWER_STOPPED : end;
        }
        c->len += (size_t)n;
    }
}

static enum tune_answer exchange(struct tune_child *c, json_t *cmd, double timeout_s, json_t **reply,
                                 struct rfg_reason *why)
{
    char *text = cmd ? json_dumps(cmd, JSON_COMPACT) : NULL;
    char *line = text ? rfg_asprintf("%s\n", text) : NULL;
    json_decref(cmd);
    free(text);
    *reply = NULL;
    if (!line) {
        rfg_refuse(why, "no memory for a command");
        return ANSWER_LOST;
    }
    bool sent = put_line(c, line);
    free(line);
    if (!sent) {
        enum tune_answer end = reap(c, false, why);
        return tune_stop ? ANSWER_STOPPED : end;
    }
    enum tune_answer a = get_reply(c, timeout_s, reply, why);
    if (a != ANSWER_OK || json_is_true(json_object_get(*reply, "ok")))
        return a;
    const char *error = json_string_value(json_object_get(*reply, "error"));
    const char *kind = json_string_value(json_object_get(*reply, "kind"));
    rfg_refuse(why, "%s", error ? error : "no reason given");
    if (kind && !strcmp(kind, "device")) /* its device context is lost: it ends itself */
        reap(c, true, NULL);
    return ANSWER_REFUSED;
}

static int64_t rotate_bytes(const struct rfg_device *dev)
{
    size_t bytes = rfg_rotate_bytes(dev), least = (size_t)64 << 20;
    return (int64_t)(bytes < least ? least : bytes);
}

/* The oracle computes all rows where that is cheap; else some, whatever a row costs. (One of latent attention is all
 * heads of a query over all of its keys.) */
static int64_t check_rows(const struct rfg_problem *prob)
{
    double bytes, flops;
    if (prob->op->joint)
        return 0;
    prob->op->cost(prob, &bytes, &flops);
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    int n = rfg_op_case_of(prob->op)->tensors(prob, spec);
    double outputs = 0, rows = 1;
    for (int i = 0; i < n; i++)
        if (spec[i].output && !spec[i].absent) {
            double size = 1;
            for (int d = 0; d < spec[i].ndim; d++)
                size *= (double)spec[i].shape[d];
            outputs += size;
            rows = fmax(rows, size / fmax((double)spec[i].shape[spec[i].ndim - 1], 1));
        }
    if (outputs <= 1e6 && flops <= 4e9)
        return 0;
    return (int64_t)fmax(2, fmin(flops <= 4e11 ? 64 : 8, 1e10 * rows / flops));
}

/* The same for a command that uses the device: it first pauses as the budget asks, and its time is counted. */
static enum tune_answer exchange_in_turn(struct tune_child *c, json_t *cmd, double timeout_s, json_t **reply,
                                         struct rfg_reason *why)
{
    struct tune *t = c->t;
    if (!tune_rest(t)) {
        json_decref(cmd);
        *reply = NULL;
        return ANSWER_STOPPED;
    }
    double start = rfg_now();
    enum tune_answer a = exchange(c, cmd, timeout_s, reply, why);
    const json_t *busy = json_object_get(*reply, "busy");
    tune_pace_worked(&t->pace, json_is_number(busy) ? json_number_value(busy) : rfg_now() - start);
    return a;
}

/* A process that has begun the shape. */
static enum tune_answer make_ready(struct tune_child *c, const struct tune_shape *s, json_t **reply,
                                   struct rfg_reason *why)
{
    const struct tune *t = c->t;
    if (c->pid && c->begun == s)
        return ANSWER_OK;
    if (!c->pid) {
        if (!start(c, why))
            return ANSWER_LOST;
        json_t *open = json_pack("{ss ss? ss?}", "cmd", "open", "device", t->opt.device, "cache", t->cache_dir.path);
        const int64_t *tokens;
        int experts = gemm_loads(&tokens);
        json_t *loads = json_array();
        for (int e = 0; e < experts; e++)
            json_array_append_new(loads, json_integer(tokens[e]));
        json_object_set_new(open, "loads", loads);
        enum tune_answer a = exchange(c, open, OPEN_TIMEOUT, reply, why);
        if (a != ANSWER_OK)
            return a;
        json_decref(*reply);
    }
    c->begun = NULL;
    json_t *begin = json_pack("{ss ss sI sI sI}", "cmd", "begin", "problem", s->text, "seed", (json_int_t)t->opt.seed,
                              "rotate", (json_int_t)(t->opt.by_time ? 0 : rotate_bytes(&t->dev)), "rows",
                              (json_int_t)(t->opt.by_time ? CLOCK_ROWS : check_rows(&s->problem)));
    enum tune_answer a = exchange_in_turn(c, begin, BEGIN_TIMEOUT, reply, why);
    if (a != ANSWER_OK)
        return a;
    json_decref(*reply);
    *reply = NULL;
    c->begun = s;
    return ANSWER_OK;
}

enum tune_answer tune_child_ready(struct tune_child *c, const struct tune_shape *s, struct rfg_reason *why)
{
    json_t *reply = NULL;
    enum tune_answer a = make_ready(c, s, &reply, why);
    json_decref(reply);
    return a == ANSWER_OK || a == ANSWER_STOPPED ? a : ANSWER_REFUSED;
}

enum tune_answer tune_child_ask(struct tune_child *c, const struct tune_shape *s, json_t *cmd, double timeout_s,
                                json_t **reply, struct rfg_reason *why)
{
    *reply = NULL;
    enum tune_answer a = tune_child_ready(c, s, why);
    if (a == ANSWER_OK)
        return exchange_in_turn(c, cmd, timeout_s, reply, why);
    json_decref(cmd);
    /* An error of the kind "begin". */
    *reply = a == ANSWER_STOPPED ? NULL : json_pack("{ss}", "kind", "begin");
    return a;
}
