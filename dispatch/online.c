/* SPDX-License-Identifier: MIT
 *
 * Online tuning: an rfg-tune in the background tunes a context's misses, and later calls use its rows. All of this runs
 * inside calls that missed, at most once in a few seconds, outside of captures. It never waits: a lock that is taken is
 * tried again later. docs/engine.md describes it for engines.
 *
 * DB.tuning, beside the user database, is the tuner's stdout and stderr, and who runs has it locked: there is one tuner
 * for a database, whichever process started it. That the file has grown says that there may be new rows. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rocm.h"
#include "base/trust.h"
#include "base/util.h"
#include "context_impl.h"

#define BUDGET_MS   500   /* of each minute */
#define MAX_BUDGET  60000 /* all of it */
#define LOOK_EVERY  5.0   /* seconds between a context's looks */
#define START_EVERY 60.0  /* and between its starts of a tuner */
#define END_WITHIN  3.0   /* how long a tuner may take to end when it is told to */

struct rfg_online {
    _Atomic double next; /* the time of the next look */
    double start_at;     /* no tuner is started before */
    double every;
    char *db, *log, *cache_dir, *program;
    int budget_ms;
    pid_t pid; /* of the tuner that this context started; 0: none runs */
    bool off;  /* it can't be started: said once */
    struct timespec seen;
    off_t seen_size; /* of the log, when rows were looked for */
};

static double test_every;

void rfg_online_override_pace(double seconds)
{
    test_every = seconds;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static rfg_status read_budget(int *ms)
{
    const char *env = rfg_env("RFG_TUNE_BUDGET_MS");
    char *end = NULL;
    long n = env ? strtol(env, &end, 10) : BUDGET_MS;
    if (env && (end == env || *end || n < 1 || n > MAX_BUDGET))
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT,
                        "rfg_context_create: RFG_TUNE_BUDGET_MS='%s': must be a number from 1 to %d", env, MAX_BUDGET);
    *ms = (int)n;
    return RFG_OK;
}

rfg_status rfg_online_read(const char *param, int *budget_ms)
{
    const char *word = param ? param : rfg_env("RFG_TUNE");
    *budget_ms = 0;
    if (!word || !*word || !strcmp(word, "off"))
        return RFG_OK;
    if (strcmp(word, "online") != 0)
        return rfg_fail(RFG_ERROR_INVALID_ARGUMENT, "rfg_context_create: %s='%s': must be online or off",
                        param ? "tune" : "RFG_TUNE", word);
    return read_budget(budget_ms);
}

static void destroy(struct rfg_online **po)
{
    struct rfg_online *o = *po;
    *po = NULL;
    if (!o)
        return;
    free(o->db);
    free(o->log);
    free(o->cache_dir);
    free(o->program);
    free(o);
}

void rfg_online_begin(rfg_context *ctx, int budget_ms, bool no_misses, const char *cache_dir)
{
    const char *why = ctx->pack                                      ? "a pack's rows are all there is"
                      : no_misses || !ctx->user_db || !*ctx->user_db ? "misses are not recorded"
                      : rfg_privileged()                             ? "the program has more rights than its caller"
                                                                     : NULL;
    if (!budget_ms || why) {
        if (why && budget_ms)
            rfg_log(RFG_LOG_DISPATCH, "%s: nothing is tuned online: %s", ctx->dev.name, why);
        return;
    }
    struct rfg_online *o = calloc(1, sizeof(*o));
    if (o) {
        o->db = rfg_absolute(ctx->user_db);
        o->log = o->db ? rfg_asprintf("%s.tuning", o->db) : NULL;
        o->cache_dir = cache_dir ? rfg_absolute(cache_dir) : NULL;
        o->budget_ms = budget_ms;
        o->every = test_every > 0 ? test_every : LOOK_EVERY;
        atomic_store(&o->next, rfg_now() + o->every);
    }
    if (o && !o->log)
        destroy(&o);
    ctx->online = o;
    if (o)
        ctx->save_misses = true; /* the tuner reads them */
}

/* ---- the tuner --------------------------------------------------------------------------------------------------- */

/* Did it end since it was last asked? Only our own child is waited for; if another part of the program has reaped it
 * (waitpid(-1), SIGCHLD ignored) it has ended all the same. */
static bool has_ended(struct rfg_online *o)
{
    int status = 0;
    pid_t got = o->pid ? waitpid(o->pid, &status, WNOHANG) : 0;
    if (!o->pid || got == 0 || (got < 0 && errno == EINTR))
        return false;
    o->pid = 0;
    /* 1: some problems could not be tuned, which the log says. */
    if (got > 0 && WIFSIGNALED(status))
        rfg_warn("the online tuner was ended by signal %d; see %s", WTERMSIG(status), o->log);
    else if (got > 0 && WEXITSTATUS(status) > 1)
        rfg_warn("the online tuner ended with status %d; see %s", WEXITSTATUS(status), o->log);
    else if (got > 0 && WEXITSTATUS(status) == 1)
        rfg_log(RFG_LOG_DISPATCH, "the online tuner could not tune all; see %s", o->log);
    return true;
}

/* Starts the tuner. Its environment has what it must share with this process, and nothing that is meant for this
 * process only. */
static int spawn(rfg_context *ctx, int log)
{
    const struct rfg_online *o = ctx->online;
    bool cpu = ctx->dev.platform == RFG_PLATFORM_CPU;
    char budget[16], parent[24], threads[32], *rocm[RFG_ROCM_COUNT], *set[RFG_ROCM_COUNT + 6] = { 0 };
    char *cache = o->cache_dir ? rfg_asprintf("RFG_CACHE_DIR=%s", o->cache_dir) : NULL;
    snprintf(budget, sizeof(budget), "%d", o->budget_ms);
    snprintf(parent, sizeof(parent), "%ld", (long)getpid());
    snprintf(threads, sizeof(threads), "RFG_THREADS=%d", ctx->dev.cu_count);
    int n = rfg_rocm_settings(rocm);
    memcpy(set, rocm, sizeof(rocm));
    set[n++] = (char *)"RFG_TUNE=";
    set[n++] = (char *)"RFG_TRACE=";
    if (cpu)
        set[n++] = threads;
    if (cache)
        set[n++] = cache;
    const char *argv[] = { "rfg-tune",    "--from-misses", "--online", budget,       "--engine",    parent, "--device",
                           ctx->dev.name, "--db",          o->db,      "--variants", ctx->variants, NULL };
    if (!ctx->variants)
        argv[10] = NULL;
    char **env = rfg_program_env(set);
    /* Its log is its output; an engine's sockets are not its own, and it ends with the engine. */
    const struct rfg_start how = { .fd = { -1, log, log }, .own_group = true, .only_these = true };
    pid_t pid;
    int err = env ? rfg_spawn(&pid, o->program, &how, argv, env) : ENOMEM;
    for (int i = 0; i < RFG_ROCM_COUNT; i++)
        free(rocm[i]);
    free(cache);
    free(env);
    if (!err)
        ctx->online->pid = pid;
    return err;
}

/* Starts a tuner unless one is at work on the database: it gets the lock with its stderr. */
static bool start(rfg_context *ctx)
{
    struct rfg_online *o = ctx->online;
    struct rfg_reason why;
    if (!o->program && !(o->program = rfg_program_path("rfg-tune"))) {
        rfg_warn("no rfg-tune beside rfg or in its bin directory that may be started: nothing is tuned online");
        o->off = true;
        return false;
    }
    int log = rfg_open_own_file(AT_FDCWD, o->log, O_RDWR | O_CREAT | O_APPEND, &why), err = 0;
    if (log < 0) {
        rfg_warn("nothing is tuned online: %s: %s", o->log, why.text);
        o->off = true;
        return false;
    }
    bool mine = flock(log, LOCK_EX | LOCK_NB) == 0;
    if (mine && (ftruncate(log, 0) || (err = spawn(ctx, log)))) {
        rfg_warn("nothing is tuned online: %s can't be started: %s", o->program, strerror(err ? err : errno));
        o->off = true;
        mine = false;
    }
    close(log); /* the tuner's copy keeps the lock */
    if (mine)
        rfg_log(RFG_LOG_DISPATCH, "the online tuner runs as process %ld, %d ms a minute; its log is %s", (long)o->pid,
                o->budget_ms, o->log);
    return mine;
}

/* ---- its rows ---------------------------------------------------------------------------------------------------- */

/* Has a tuner, this process' or another's, said something since rows were last looked for? */
static bool log_changed(struct rfg_online *o)
{
    struct stat st;
    if (stat(o->log, &st) ||
        (st.st_size == o->seen_size && st.st_mtim.tv_sec == o->seen.tv_sec && st.st_mtim.tv_nsec == o->seen.tv_nsec))
        return false;
    o->seen_size = st.st_size;
    o->seen = st.st_mtim;
    return true;
}

static bool is_known(const struct rfg_row *have, const struct rfg_row *row)
{
    return have && have->seed == row->seed && have->median_us == row->median_us && !strcmp(have->date, row->date);
}

/* The row of a plan that missed, if there is one that the context doesn't know: from now on it does. */
static bool learn(rfg_context *ctx, struct rfg_db *db, const struct rfg_plan *plan)
{
    struct rfg_problem key = rfg_problem_key(&plan->prob);
    const char *product = rfg_context_named(ctx);
    struct learned_row *l = calloc(1, sizeof(*l));
    if (!l || rfg_db_get(db, &key, ctx->dev.arch, ctx->dev.cu_count, *product ? product : NULL, &l->row) != 1 ||
        is_known(rfg_context_row(ctx, &key), &l->row)) {
        free(l);
        return false;
    }
    l->next = atomic_load(&ctx->learned);
    atomic_store_explicit(&ctx->learned, l, memory_order_release);
    return true;
}

static bool missed(const struct rfg_plan *plan)
{
    return plan->choice.rung != RFG_RUNG_EXACT && atomic_load_explicit(&plan->calls, memory_order_relaxed);
}

/* The first problem that has a row now gets a plan of it; true: others may have one as well. (A call pays for one
 * kernel to be loaded, not for many.) */
static bool take_up_row(rfg_context *ctx)
{
    struct rfg_plan *plan;
    struct rfg_db *db;
    bool found = false;
    if (rfg_db_open(&db, ctx->online->db, RFG_DB_NOTE) != RFG_OK) {
        ctx->online->seen = (struct timespec){ 0 }; /* locked: looked into the next time */
        return false;
    }
    for (size_t i = 0; !found && (plan = rfg_plans_next(ctx, &i));) {
        if (!missed(plan) || !learn(ctx, db, plan))
            continue;
        char text[RFG_PROBLEM_STRLEN], config[RFG_CONFIG_STRLEN];
        const struct rfg_row *row = &atomic_load(&ctx->learned)->row;
        bool taken = rfg_plan_renew(ctx, plan);
        ctx->tuned += taken;
        rfg_log(RFG_LOG_DISPATCH, "tuned online: %s: %s, %.2f us%s",
                rfg_problem_format(&plan->prob, text, sizeof(text)), rfg_row_config(row, config, sizeof(config)),
                row->median_us, taken ? "" : "; not usable for this call");
        found = true;
    }
    rfg_db_close(&db);
    return found;
}

/* ---- between calls ----------------------------------------------------------------------------------------------- */

/* Problems that no tuner was started for; *saved: they are all in the database. */
static int not_asked_for(const rfg_context *ctx, bool *saved)
{
    const struct rfg_plan *plan;
    int n = 0;
    *saved = true;
    for (size_t i = 0; (plan = rfg_plans_next(ctx, &i));)
        if (missed(plan) && !plan->asked_for) {
            n++;
            *saved &= plan->calls_saved > 0;
        }
    return n;
}

static void ask_for_all(rfg_context *ctx)
{
    struct rfg_plan *plan;
    for (size_t i = 0; (plan = rfg_plans_next(ctx, &i));)
        if (missed(plan) && plan->calls_saved)
            plan->asked_for = true;
}

/* Under ctx->lock, the device is current. Returns when to look again. */
static double look(rfg_context *ctx, double now)
{
    struct rfg_online *o = ctx->online;
    bool saved, ended = has_ended(o), changed = log_changed(o);
    if ((ended || changed) && take_up_row(ctx)) {
        o->seen = (struct timespec){ 0 }; /* to look again */
        return now + o->every / 10;
    }
    if (!not_asked_for(ctx, &saved))
        return now + o->every;
    /* A tuner that runs, ours or another process', looks for new misses before it ends. */
    if (!saved && !rfg_misses_note(ctx))
        return now + o->every;
    if (!o->pid && now >= o->start_at && start(ctx)) {
        o->start_at = now + (o->every < LOOK_EVERY ? o->every : START_EVERY);
        ask_for_all(ctx);
    }
    return now + o->every;
}

void rfg_online_tick(rfg_context *ctx, rfg_stream stream)
{
    struct rfg_online *o = ctx->online;
    bool captured = true;
    double now = rfg_now();
    if (now < atomic_load_explicit(&o->next, memory_order_relaxed) ||
        rfg_stream_captured(ctx, "rfg", stream, &captured) != RFG_OK || captured || rfg_capture_goes_on() ||
        pthread_mutex_trylock(&ctx->lock))
        return;
    /* A new row's plan may wait for what another thread compiles: not here. */
    if (!o->off && !ctx->making && now >= atomic_load(&o->next))
        atomic_store(&o->next, look(ctx, now));
    pthread_mutex_unlock(&ctx->lock);
}

void rfg_online_forked(rfg_context *ctx)
{
    if (ctx->online) {
        ctx->online->pid = 0;
        ctx->online->off = true;
    }
}

/* Waits up to so many seconds for the tuner's end; whether it has ended. */
static bool ends_within(struct rfg_online *o, double seconds)
{
    double until = rfg_now() + seconds;
    pid_t got;
    while ((got = waitpid(o->pid, NULL, WNOHANG)) == 0 && rfg_now() < until)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    return got != 0;
}

void rfg_online_end(rfg_context *ctx)
{
    struct rfg_online *o = ctx->online;
    /* Before each signal, checks that the pid is still our child's: it may have been reused. */
    if (o && o->pid && !ends_within(o, 0)) {
        kill(o->pid, SIGTERM);
        if (!ends_within(o, END_WITHIN)) {
            kill(o->pid, SIGKILL);
            (void)ends_within(o, END_WITHIN);
        }
    }
    destroy(&ctx->online);
    for (struct learned_row *l = atomic_load(&ctx->learned), *next; l; l = next) {
        next = l->next;
        free(l);
    }
    atomic_store(&ctx->learned, NULL);
}
