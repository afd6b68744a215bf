/* SPDX-License-Identifier: MIT
 *
 * The measuring process. It reads one command a line from fd 0 and answers each with one line:
 *   {"cmd":"open","device":D,"cache":DIR}                     the context; once
 *   {"cmd":"begin","problem":P,"seed":S,"rotate":B,"rows":R}  the data and the oracle's answer
 *   {"cmd":"try","config":C,"rounds":N,"max_s":T,"limit_us":L} checks the candidate, then times it; if its check alone
 *                                                             took longer than the limit: "slow", not timed
 *   {"cmd":"race","configs":[C...],"plain":[B...],"rounds":N,"max_s":T}  times checked candidates in turns
 *   {"cmd":"clock","config":C}                              what the clock of an emulated GPU says; unchecked
 *   {"cmd":"verify","config":C}                               checks it again; says the hash of its code object
 * try and verify, too, take "plain":true: launch without overlap though the problem says overlap=1.
 * Answers say how long the device was used for, at most ("busy"): {"ok":true, ...} or {"ok":false,"kind":K,"error":E}
 * with K wrong, refused, memory, compile, device, error. After "device" the process ends: the runtime's state can't be
 * trusted any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "tuner/harness/clock.h"
#include "tuner/harness/loads.h"
#include "tune.h"

/* A candidate made ready. */
struct ready {
    struct ready *next;
    char config[RFG_CONFIG_STRLEN];
    bool plain;
    struct rfg_plan *plan;
    bool checked;
    double ratio;
};

struct measure {
    FILE *in;
    int out;
    rfg_context *ctx;
    char *cache; /* its directory */
    struct rfg_problem prob;
    struct rfg_case *c;
    struct tune_joint *joint; /* of a collective, in place of c */
    struct ready *plans;
    double since; /* when the device began to be used for the command */
};

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void answer(const struct measure *m, json_t *reply)
{
    if (reply)
        json_object_set_new(reply, "busy", json_real(rfg_now() - m->since));
    char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    char *line = text ? rfg_asprintf("%s\n", text) : NULL;
    if (!line)
        _exit(MEASURE_EXIT_NO_MEMORY);
    for (size_t at = 0, len = strlen(line); at < len;) {
        ssize_t n = write(m->out, line + at, len - at);
        if (n < 0 && errno != EINTR)
            _exit(0); /* nobody listens */
        at += n > 0 ? (size_t)n : 0;
    }
    json_decref(reply);
    free(text);
    free(line);
}

static void refuse(const struct measure *m, const char *kind, const char *error)
{
    /* Messages may hold a compiler's or a driver's bytes: only ASCII is always valid JSON. */
    char text[1024];
    snprintf(text, sizeof(text), "%s", error);
    for (char *s = text; *s; s++)
        if ((unsigned char)*s > 126)
            *s = '?';
    answer(m, json_pack("{sb ss ss}", "ok", 0, "kind", kind, "error", text));
    if (!strcmp(kind, "device"))
        _exit(MEASURE_EXIT_DEVICE);
}

static void refuse_status(const struct measure *m, rfg_status st)
{
    refuse(m,
           st == RFG_ERROR_DEVICE          ? "device"
           : st == RFG_ERROR_COMPILE       ? "compile"
           : st == RFG_ERROR_UNSUPPORTED   ? "refused"
           : st == RFG_ERROR_OUT_OF_MEMORY ? "memory"
                                           : "error",
           rfg_last_error());
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* Tests: RFG_TEST_MEASURE="hang:rows=4;crash:rows=8;wrong:cols=2;wears:k=1" makes candidates misbehave. One that wears
 * is right the first time only, one that slips wrong the first time only; one that is ended is killed from outside, one
 * that fails reports a full disk, one that lags takes 20 ms more (by the clock, twice the time); "once-" before hang, crash and end: only in the first
 * process that comes to it. Times are steady or noisy. */
static bool misbehaves(const char *how, const char *config)
{
    const char *s = rfg_env("RFG_TEST_MEASURE");
    size_t len = strlen(how);
    while (s && *s) {
        size_t n = strcspn(s, ";");
        if (n > len && s[len] == ':' && !strncmp(s, how, len)) {
            char what[128];
            snprintf(what, sizeof(what), "%.*s", (int)(n - len - 1), s + len + 1);
            if (strstr(config, what))
                return true;
        }
        s += n + (s[n] == ';');
    }
    return false;
}

/* The same for faults that come once: a file beside the cache remembers them. */
static bool misbehaves_now(const char *how, const char *config)
{
    char once[32];
    const char *dir = rfg_env("RFG_TEST_MEASURE_ONCE");
    snprintf(once, sizeof(once), "once-%s", how);
    if (misbehaves(how, config))
        return true;
    if (!dir || !misbehaves(once, config))
        return false;
    char *mark = rfg_asprintf("%s/%s", dir, config);
    int fd = mark ? open(mark, O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    free(mark);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void spoil_outputs(const struct measure *m, int set)
{
    struct rfg_tensor_spec spec[RFG_MAX_TENSORS];
    const rfg_tensor *t = rfg_case_tensors(m->c, set);
    const struct rfg_hip *hip = rfg_context_hip(m->ctx);
    int n = rfg_op_case_of(m->prob.op)->tensors(&m->prob, spec);
    for (int i = 0; i < n; i++)
        if (spec[i].output && t[i].data) {
            size_t size = (size_t)rfg_format((int)t[i].dtype)->bytes;
            if (!hip)
                memset(t[i].data, 0x42, size);
            else
                (void)hip->hipMemsetD8Async((hipDeviceptr_t)t[i].data, 0x42, size, NULL);
        }
}

static struct ready *find(struct measure *m, const char *config, bool plain)
{
    for (struct ready *r = m->plans; r; r = r->next)
        if (!strcmp(r->config, config) && r->plain == plain)
            return r;
    const struct rfg_variant *var;
    struct rfg_reason why;
    int p[RFG_MAX_PARAMS] = { 0 };
    if (!rfg_config_parse(m->prob.op, config, &var, p, &why)) {
        refuse(m, "refused", why.text);
        return NULL;
    }
    struct ready *r = calloc(1, sizeof(*r));
    rfg_status st = r ? rfg_plan_create(m->ctx, m->joint ? &m->prob : rfg_case_problem(m->c), var, p, &r->plan)
                      : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "plan");
    if (st != RFG_OK) {
        free(r);
        refuse_status(m, st);
        return NULL;
    }
    snprintf(r->config, sizeof(r->config), "%s", config);
    r->plain = plain;
    if (plain)
        rfg_plan_launch_plainly(r->plan);
    r->next = m->plans;
    m->plans = r;
    return r;
}

/* Runs one set on poisoned outputs and compares with the oracle. seconds: what the run took, on cpu. */
static rfg_status run_and_check(const struct measure *m, struct ready *r, int set, bool quick, struct rfg_check *got,
                                double *seconds)
{
    rfg_status st = quick ? rfg_case_poison_quickly(m->c, set) : rfg_case_poison(m->c, set);
    double start = rfg_now();
    if (st == RFG_OK)
        st = rfg_case_run_checked(m->c, set, r->plan, NULL);
    *seconds = rfg_now() - start;
    if (st == RFG_OK && (misbehaves("wrong", r->config) || (r->checked && misbehaves("wears", r->config)) ||
                         (quick && misbehaves("slips", r->config))))
        spoil_outputs(m, set);
    if (st == RFG_OK)
        st = quick ? rfg_case_check_quickly(m->c, set, got) : rfg_case_check(m->c, set, got);
    return st;
}

/* A collective's candidate, on all ranks. */
static bool check_joint(const struct measure *m, struct ready *r)
{
    char wrong[200];
    rfg_status st = tune_joint_check(m->joint, rfg_plan_choice(r->plan), wrong, sizeof(wrong));
    r->checked = st == RFG_OK && !*wrong;
    if (st != RFG_OK)
        refuse_status(m, st);
    else if (*wrong)
        refuse(m, "wrong", wrong);
    return r->checked;
}

/* A quick check, for losers. An error counts only if it is found again on renewed inputs. */
static bool check(const struct measure *m, struct ready *r, int set, bool quick, double *seconds)
{
    struct rfg_check got = { 0 };
    if (m->joint)
        return check_joint(m, r);
    rfg_status st = run_and_check(m, r, set, quick, &got, seconds);
    if (quick && st == RFG_OK && (!got.ok || got.guard_broken)) {
        double again;
        st = run_and_check(m, r, set, false, &got, &again);
    }
    if (st != RFG_OK) {
        refuse_status(m, st);
        return false;
    }
    r->ratio = got.max_ratio > r->ratio ? got.max_ratio : r->ratio;
    r->checked = got.ok && !got.guard_broken;
    if (!r->checked)
        refuse(m, "wrong", got.message);
    return r->checked;
}

static json_t *times_json(const struct rfg_times *t, const struct ready *r)
{
    double us = rfg_times_at(t, 0.5), p5 = rfg_times_at(t, 0.05), p95 = rfg_times_at(t, 0.95);
    if (misbehaves("steady", r->config))
        p5 = p95 = us;
    if (misbehaves("noisy", r->config))
        p95 = p5 + 1.1 * us;
    return json_pack("{ss sf sf sf sf si}", "config", r->config, "us", us, "p5", p5, "p95", p95, "ratio", r->ratio, "n",
                     t->n);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *cmd, const char *key)
{
    return json_string_value(json_object_get(cmd, key));
}

static double number_of(const json_t *cmd, const char *key)
{
    return json_number_value(json_object_get(cmd, key));
}

static int64_t integer_of(const json_t *cmd, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(cmd, key));
}

static bool truth_of(const json_t *cmd, const char *key)
{
    return json_is_true(json_object_get(cmd, key));
}

static void end_problem(struct measure *m)
{
    while (m->plans) {
        struct ready *r = m->plans;
        m->plans = r->next;
        rfg_plan_destroy(m->ctx, &r->plan);
        free(r);
    }
    rfg_case_destroy(&m->c);
    tune_joint_destroy(&m->joint);
}

/* What the parent has read; empty: nothing. */
static rfg_status take_loads(const json_t *loads)
{
    size_t n = json_array_size(loads);
    int64_t *tokens = calloc(n + 1, sizeof(*tokens));
    for (size_t e = 0; tokens && e < n; e++)
        tokens[e] = json_integer_value(json_array_get(loads, e));
    bool taken = tokens && gemm_loads_set(tokens, (int)n);
    free(tokens);
    return taken ? RFG_OK : rfg_fail(RFG_ERROR_OUT_OF_MEMORY, "no memory for the loads of %zu experts", n);
}

static void do_open(struct measure *m, const json_t *cmd)
{
    rfg_context_params p = { .size = sizeof(p),
                             .device = text_of(cmd, "device"),
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = text_of(cmd, "cache"),
                             .misses = -1,
                             .pack = "" };
    rfg_status st = take_loads(json_object_get(cmd, "loads"));
    if (st == RFG_OK)
        st = rfg_context_create(&m->ctx, &p);
    if (st != RFG_OK)
        refuse(m, "error", rfg_last_error());
    else {
        m->cache = p.cache_dir ? strdup(p.cache_dir) : NULL;
        answer(m, json_pack("{sb}", "ok", 1));
    }
}

static void do_begin(struct measure *m, const json_t *cmd)
{
    struct rfg_reason why;
    const char *text = text_of(cmd, "problem");
    struct rfg_case_params p = { .seed = (uint64_t)integer_of(cmd, "seed"),
                                 .rotate_bytes = (size_t)integer_of(cmd, "rotate"),
                                 .check_rows = integer_of(cmd, "rows") };
    end_problem(m);
    if (!text || !rfg_problem_parse(&m->prob, text, &why)) {
        refuse(m, "error", text ? why.text : "begin: no problem");
        return;
    }
    if (m->prob.op->joint) {
        rfg_status made = tune_joint_create(&m->joint, m->ctx, m->cache, &m->prob);
        if (made != RFG_OK)
            refuse_status(m, made);
        else
            answer(m, json_pack("{sb si}", "ok", 1, "sets", 1));
        return;
    }
    rfg_status st = rfg_case_create(m->ctx, &m->prob, &p, &m->c);
    if (st == RFG_OK && rfg_context_hip(m->ctx)) /* the data and the oracle's answer are the host's work */
        m->since = rfg_now() - rfg_case_upload_s(m->c);
    if (st != RFG_OK)
        refuse_status(m, st);
    else
        answer(m, json_pack("{sb si}", "ok", 1, "sets", rfg_case_sets(m->c)));
}

#define MAX_RACE 16

/* Times candidates in turns. */
static rfg_status race(const struct measure *m, struct ready *const *r, int n, const json_t *cmd,
                       struct rfg_times *times)
{
    const int rounds = (int)integer_of(cmd, "rounds");
    const double max_s = number_of(cmd, "max_s");
    const struct rfg_plan *plans[MAX_RACE];
    struct rfg_choice choices[MAX_RACE];
    for (int i = 0; i < n; i++) {
        plans[i] = r[i]->plan;
        choices[i] = *rfg_plan_choice(plans[i]);
    }
    return m->joint ? tune_joint_race(m->joint, choices, n, rounds, max_s, times)
                    : rfg_case_race(m->c, plans, n, rounds, max_s, times);
}

static void do_try(struct measure *m, const json_t *cmd)
{
    const char *config = text_of(cmd, "config");
    double limit_us = number_of(cmd, "limit_us"), seconds = 0;
    struct ready *r = config ? find(m, config, truth_of(cmd, "plain")) : NULL;
    if (!r)
        return;
    while (misbehaves_now("hang", config))
        pause();
    if (misbehaves_now("crash", config))
        raise(SIGSEGV);
    if (misbehaves_now("end", config))
        raise(SIGKILL);
    if (misbehaves("lag", config))
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    if (misbehaves("fail", config)) {
        refuse(m, "error", "x: cannot write: No space left on device");
        return;
    }
    if (!r->checked) {
        if (!check(m, r, 0, true, &seconds))
            return;
        /* The first run also warms up, so only candidates that are far off are dropped. GPUs run asynchronously, and
         * measuring is cheap. */
        double us = seconds * 1e6;
        if (!rfg_context_hip(m->ctx) && limit_us > 0 && us > limit_us && us > 2000) {
            answer(m, json_pack("{sb sb sf sf}", "ok", 1, "slow", 1, "us", us, "ratio", r->ratio));
            return;
        }
    }
    struct rfg_times times = { 0 };
    rfg_status st = race(m, &r, 1, cmd, &times);
    if (st != RFG_OK) {
        refuse_status(m, st);
        return;
    }
    json_t *reply = times_json(&times, r);
    rfg_times_free(&times);
    if (reply)
        json_object_set_new(reply, "ok", json_true());
    answer(m, reply);
}

static void do_race(struct measure *m, const json_t *cmd)
{
    const json_t *configs = json_object_get(cmd, "configs"), *plain = json_object_get(cmd, "plain");
    struct ready *r[MAX_RACE] = { NULL };
    struct rfg_times times[MAX_RACE] = { 0 };
    double seconds;
    int n = (int)json_array_size(configs);
    if (n < 1 || n > MAX_RACE) {
        refuse(m, "error", "race: no candidates or too many");
        return;
    }
    for (int i = 0; i < n; i++) {
        const char *config = json_string_value(json_array_get(configs, (size_t)i));
        r[i] = config ? find(m, config, json_is_true(json_array_get(plain, (size_t)i))) : NULL;
        if (!r[i] || (!r[i]->checked && !check(m, r[i], 0, true, &seconds)))
            return;
    }
    rfg_status st = race(m, r, n, cmd, times);
    if (st != RFG_OK) {
        refuse_status(m, st);
        return;
    }
    json_t *results = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(results, times_json(&times[i], r[i]));
        rfg_times_free(&times[i]);
    }
    answer(m, json_pack("{sb so}", "ok", 1, "results", results));
}

/* A candidate that was right once must still be right after thousands of launches: counters reset, the same sums, and
 * every other byte unchanged. */
static void do_verify(struct measure *m, const json_t *cmd)
{
    const char *config = text_of(cmd, "config");
    struct ready *r = config ? find(m, config, truth_of(cmd, "plain")) : NULL;
    double seconds;
    char code[65];
    if (!r || !check(m, r, 0, false, &seconds))
        return;
    rfg_plan_code_hash(r->plan, code);
    answer(m, json_pack("{sb sf ss}", "ok", 1, "ratio", r->ratio, "code_hash", code));
}

static void do_clock(struct measure *m, const json_t *cmd)
{
    const char *config = text_of(cmd, "config");
    if (m->joint) {
        refuse(m, "refused", "the clock is of one device");
        return;
    }
    struct ready *r = config ? find(m, config, false) : NULL;
    char code[65], source[65], compiler[96];
    static struct rfg_clocked clocked;
    if (!r)
        return;
    setenv("RFG_EMU_CHECKS", "none", 0); /* which cost more than the clock, and are the tests' */
    rfg_status st = rfg_case_clock(m->c, r->plan, &clocked);
    if (st != RFG_OK) {
        refuse_status(m, st);
        return;
    }
    if (misbehaves("lag", config))
        clocked.us *= 2;
    rfg_plan_code_hash(r->plan, code);
    rfg_variant_provenance(m->ctx, &m->prob, rfg_plan_choice(r->plan)->variant, source, compiler, sizeof(compiler));
    answer(m, json_pack("{sb sf ss ss ss}", "ok", 1, "us", clocked.us, "code_hash", code, "source_hash", source,
                        "compiler", compiler));
}

int tune_measure_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct measure *m, const json_t *cmd);
        bool needs_context, needs_case;
    } commands[] = {
        { "open", do_open, false, false }, { "begin", do_begin, true, false },  { "try", do_try, true, true },
        { "race", do_race, true, true },   { "verify", do_verify, true, true }, { "clock", do_clock, true, true },
    };
    struct measure m = { .out = fcntl(1, F_DUPFD_CLOEXEC, 3) };
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char *line = NULL;
    size_t room = 0;

    signal(SIGINT, SIG_IGN); /* Ctrl-C is for the parent, which ends us */
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3 || getppid() != atoi(argv[2]))
        return MEASURE_EXIT_USAGE;                    /* the parent is gone already */
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }); /* a crash is expected now and then */
    /* Output of libraries to stdout must not mix with the answers. */
    if (m.out < 0 || in < 0 || null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0 || !(m.in = fdopen(in, "r")))
        return MEASURE_EXIT_USAGE;
    while (getline(&line, &room, m.in) > 0) {
        json_error_t error;
        json_t *cmd = json_loads(line, 0, &error);
        const char *name = cmd ? text_of(cmd, "cmd") : NULL;
        size_t i = 0, n = sizeof(commands) / sizeof(commands[0]);
        m.since = rfg_now();
        while (i < n && (!name || strcmp(commands[i].name, name)))
            i++;
        if (i == n)
            refuse(&m, "error", name ? name : error.text);
        else if ((commands[i].needs_context && !m.ctx) || (commands[i].needs_case && !m.c && !m.joint))
            refuse(&m, "error", "open, then begin comes first");
        else
            commands[i].run(&m, cmd);
        json_decref(cmd);
    }
    end_problem(&m);
    rfg_context_destroy(&m.ctx);
    free(m.cache);
    (void)gemm_loads_set(NULL, 0);
    free(line);
    fclose(m.in);
    return 0;
}
