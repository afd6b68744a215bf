/* SPDX-License-Identifier: MIT
 *
 * More than one GPU: a shard of the problems (one of several independent runs), or all GPUs of this host (one rfg-tune
 * for each, on one database, where they claim problems). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trust.h"
#include "base/util.h"
#include "tune.h"

#define MAX_SHARDS 65536
#define MAX_GPUS   64

/* ---- shards ------------------------------------------------------------------------------------------------------ */

static bool number(const char *text, long min, long max, long *out)
{
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return end != text && !*end && !errno && *out >= min && *out <= max;
}

/* False with a message: the variable isn't a number in [min, max]. *there: it is set. */
static bool env_number(const char *name, long min, long max, long *out, bool *there)
{
    const char *text = rfg_env(name);
    *there = text != NULL;
    if (!text || number(text, min, max, out))
        return true;
    fprintf(stderr, "rfg-tune: --shard auto: %s='%.40s': must be a whole number from %ld to %ld\n", name, text, min,
            max);
    return false;
}

/* One level of a job: our number and the number of tasks. */
struct level {
    const char *index, *count;
};

/* False with a message; *found: its variables are set. */
static bool read_level(const struct level *l, struct tune_shard *out, bool *found)
{
    long i = 0, n = 0;
    bool have_n;
    *found = false;
    if (!env_number(l->index, 0, MAX_SHARDS - 1, &i, found) || !*found)
        return !*found;
    if (!env_number(l->count, 1, MAX_SHARDS, &n, &have_n))
        return false;
    if (!have_n || i >= n) {
        fprintf(stderr, "rfg-tune: --shard auto: %s=%ld, %s=%ld: the first must be less than the second\n", l->index, i,
                l->count, n);
        return false;
    }
    *out = (struct tune_shard){ (int)i, (int)n };
    return true;
}

/* Slurm counts an array's tasks from anywhere, in steps: 10-30:10 are tasks 0, 1, 2 of 3. */
static bool read_array(struct tune_shard *out, bool *found)
{
    long id = 0, min = 0, step = 1, n = 0;
    bool have_min, have_step, have_n;
    *found = false;
    if (!env_number("SLURM_ARRAY_TASK_ID", 0, INT32_MAX, &id, found) || !*found)
        return !*found;
    if (!env_number("SLURM_ARRAY_TASK_MIN", 0, INT32_MAX, &min, &have_min) ||
        !env_number("SLURM_ARRAY_TASK_STEP", 1, INT32_MAX, &step, &have_step) ||
        !env_number("SLURM_ARRAY_TASK_COUNT", 1, MAX_SHARDS, &n, &have_n))
        return false;
    long i = (id - min) / step;
    if (!have_n || id < min || (id - min) % step || i >= n) {
        fprintf(
            stderr,
            "rfg-tune: --shard auto: SLURM_ARRAY_TASK_ID=%ld of %ld tasks from %ld in steps of %ld: must be an array "
            "without gaps, such as --array=0-7\n",
            id, n, min, step);
        return false;
    }
    *out = (struct tune_shard){ (int)i, (int)n };
    return true;
}

/* An array's tasks, and within each the ranks that mpirun or srun started. */
static bool shard_of_job(struct tune_shard *out)
{
    static const struct level ranks[] = { { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
                                          { "PMI_RANK", "PMI_SIZE" },
                                          { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS" } };
    struct tune_shard task = { 0, 1 }, rank = { 0, 1 };
    bool is_task, is_rank = false;
    if (!read_array(&task, &is_task))
        return false;
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]) && !is_rank; i++) {
        /* A batch script has a SLURM_PROCID without being a step of several tasks. */
        if (i == 2 && !rfg_env(ranks[i].count))
            continue;
        if (!read_level(&ranks[i], &rank, &is_rank))
            return false;
    }
    if (!is_task && !is_rank) {
        fprintf(stderr, "rfg-tune: --shard auto: neither SLURM_ARRAY_TASK_ID nor OMPI_COMM_WORLD_RANK, PMI_RANK or "
                        "SLURM_STEP_NUM_TASKS is set: must run as a task of Slurm's or MPI's, or say --shard I/N\n");
        return false;
    }
    if ((long)task.n * rank.n > MAX_SHARDS) {
        fprintf(stderr, "rfg-tune: --shard auto: %d tasks of %d ranks: must be at most %d in all\n", task.n, rank.n,
                MAX_SHARDS);
        return false;
    }
    *out = (struct tune_shard){ task.i * rank.n + rank.i, task.n * rank.n };
    return true;
}

bool tune_shard_parse(const char *text, struct tune_shard *out)
{
    long i, n;
    char first[12];
    const char *slash = strchr(text, '/');
    if (!strcmp(text, "auto"))
        return shard_of_job(out);
    snprintf(first, sizeof(first), "%.*s", slash ? (int)(slash - text) : 0, text);
    if (!slash || slash - text >= (long)sizeof(first) || !number(slash + 1, 1, MAX_SHARDS, &n) ||
        !number(first, 0, n - 1, &i)) {
        fprintf(
            stderr,
            "rfg-tune: --shard '%s': must be I/N, such as 0/4, with I from 0 to N - 1 and N from 1 to %d, or auto\n",
            text, MAX_SHARDS);
        return false;
    }
    *out = (struct tune_shard){ (int)i, (int)n };
    return true;
}

void tune_shard_keep(struct tune *t)
{
    const struct tune_shard *shard = &t->opt.shard;
    int all = t->n_shapes, kept = 0;
    if (shard->n < 1)
        return;
    /* Every n-th problem: neighbours in a list take about as long. */
    for (int i = 0; i < all; i++)
        if (i % shard->n == shard->i)
            t->shapes[kept++] = t->shapes[i];
    t->n_shapes = kept;
    fprintf(stderr, "rfg-tune: shard %d/%d: %d of %d shapes\n", shard->i, shard->n, kept, all);
}

/* ---- all GPUs of this host --------------------------------------------------------------------------------------- */

struct gpu {
    char name[24], product[64];
    pid_t pid;
    int log; /* its stderr; -1: at its end */
    size_t len;
    char line[4096];
};

bool tune_is_fleet(const char *device)
{
    const char *colon = device ? strchr(device, ':') : NULL;
    return colon && !strcmp(colon, ":all");
}

/* The number of them, with their names; -1 with a message. */
static int list_gpus(const char *device, struct gpu *gpus)
{
    const struct rfg_hip_platform *platform = NULL;
    struct rfg_platform_report report = { 0 };
    size_t len = strcspn(device, ":");
    for (int i = 0; rfg_platforms[i]; i++)
        if (rfg_platforms[i]->hardware && strlen(rfg_platforms[i]->name) == len &&
            !strncmp(rfg_platforms[i]->name, device, len))
            platform = rfg_platforms[i];
    if (!platform) {
        fprintf(stderr, "rfg-tune: --device '%s': must be amd:all or nvidia:all\n", device);
        return -1;
    }
    const struct rfg_hip *hip = platform->load(&report);
    int n = 0;
    if (!hip || hip->hipGetDeviceCount(&n) != hipSuccess || n < 1) {
        fprintf(stderr, "rfg-tune: --device %s: %s%s%s\n", device, hip ? "there is none" : report.problem,
                hip && *report.advice ? "; " : "", hip ? report.advice : "");
        return -1;
    }
    for (int i = 0; i < n && i < MAX_GPUS; i++) {
        snprintf(gpus[i].name, sizeof(gpus[i].name), "%s:%d", platform->name, i);
        if (hip->hipDeviceGetName(gpus[i].product, sizeof(gpus[i].product), i) != hipSuccess)
            gpus[i].product[0] = 0;
    }
    return n < MAX_GPUS ? n : MAX_GPUS;
}

/* The same command line on one GPU. Of GPUs of one product the first prints the table: it has all rows in the end. */
static bool start(struct gpu *g, bool prints, int argc, char **argv, int jobs, uint64_t seed)
{
    char parent[24], jobs_text[24], seed_text[24];
    int log[2], n = 0;
    const char **args = calloc((size_t)argc + 12, sizeof(*args));
    char **env = rfg_program_env((char *[]){ NULL });
    if (!args || !env || pipe2(log, O_CLOEXEC)) {
        fprintf(stderr, "rfg-tune: %s: can't be started: %s\n", g->name, strerror(args && env ? errno : ENOMEM));
        free(args);
        free(env);
        return false;
    }
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    snprintf(jobs_text, sizeof(jobs_text), "%d", jobs);
    snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
    const char *const more[] = { "--device", g->name, "--jobs", jobs_text, "--seed", seed_text, "--worker-of", parent };
    args[n++] = "rfg-tune";
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        args[n++] = more[i];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!prints)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log[1], 2);
    posix_spawnattr_init(&attr); /* a group of its own: Ctrl-C reaches it through us, and once */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    int e = posix_spawn(&g->pid, "/proc/self/exe", &actions, &attr, (char *const *)(uintptr_t)args, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    free(args);
    free(env);
    close(log[1]);
    g->log = log[0];
    if (e)
        fprintf(stderr, "rfg-tune: %s: can't be started: %s\n", g->name, strerror(e));
    return !e;
}

/* Passes its lines on with its name before them. */
static void pass_on(struct gpu *g)
{
    ssize_t n = read(g->log, g->line + g->len, sizeof(g->line) - g->len);
    if (n < 0 && errno == EINTR)
        return;
    size_t at = 0;
    g->len += n > 0 ? (size_t)n : 0;
    for (char *end; (end = memchr(g->line + at, '\n', g->len - at)); at = (size_t)(end - g->line) + 1)
        fprintf(stderr, "%s: %.*s\n", g->name, (int)(end - g->line - (long)at), g->line + at);
    memmove(g->line, g->line + at, g->len - at);
    g->len -= at;
    if (g->len == sizeof(g->line) || (n <= 0 && g->len)) {
        fprintf(stderr, "%s: %.*s\n", g->name, (int)g->len, g->line);
        g->len = 0;
    }
    if (n <= 0) {
        close(g->log);
        g->log = -1;
    }
}

/* Until all have closed their stderr; a signal to us is passed on. */
static void attend(struct gpu *gpus, int n)
{
    bool told = false;
    for (int open = n; open;) {
        struct pollfd fds[MAX_GPUS];
        for (int i = 0; i < n; i++)
            fds[i] = (struct pollfd){ .fd = gpus[i].log, .events = POLLIN }; /* -1: passed over */
        /* Short waits: a signal may come between the look at tune_stop and the poll. */
        int ready = poll(fds, (nfds_t)n, 200);
        for (int i = 0; i < n && tune_stop && !told; i++)
            if (gpus[i].pid > 0)
                kill(gpus[i].pid, (int)tune_stop);
        told = tune_stop != 0;
        open = 0;
        for (int i = 0; i < n; i++) {
            if (ready > 0 && fds[i].revents)
                pass_on(&gpus[i]);
            open += gpus[i].log >= 0;
        }
    }
}

/* The more informative of two exit codes. */
static int worse(int a, int b)
{
    static const int order[] = { TUNE_EXIT_FAILED, TUNE_EXIT_USAGE, TUNE_EXIT_BAD_LINES, TUNE_EXIT_TIME };
    if (a >= TUNE_EXIT_SIGNAL || b >= TUNE_EXIT_SIGNAL)
        return a > b ? a : b;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return TUNE_EXIT_OK;
}

int tune_fleet(const struct tune_options *o, int argc, char **argv)
{
    struct gpu *gpus = calloc(MAX_GPUS, sizeof(*gpus));
    int n = gpus ? list_gpus(o->device, gpus) : -1, code = n < 0 ? TUNE_EXIT_FAILED : TUNE_EXIT_OK;
    struct rfg_device cpu;
    rfg_device_cpu(&cpu, 0);
    int jobs = o->jobs > 0 ? o->jobs : cpu.cu_count;
    jobs = n > 0 && jobs / n > 1 ? jobs / n : 1;
    if (n > 0)
        fprintf(stderr, "rfg-tune: %d GPUs share the shapes, %d compiler processes each\n", n, jobs);
    for (int i = 0; i < n; i++) {
        bool first = true;
        gpus[i].log = -1;
        for (int j = 0; j < i; j++)
            first &= strcmp(gpus[i].product, gpus[j].product) != 0;
        if (!start(&gpus[i], first, argc, argv, jobs, o->seed))
            code = TUNE_EXIT_FAILED;
    }
    if (n > 0)
        attend(gpus, n);
    for (int i = 0; i < n; i++) {
        int status = 0, got = TUNE_EXIT_FAILED;
        if (gpus[i].pid > 0 && waitpid(gpus[i].pid, &status, 0) == gpus[i].pid)
            got = WIFEXITED(status) ? WEXITSTATUS(status) : TUNE_EXIT_FAILED;
        if (gpus[i].pid > 0 && WIFSIGNALED(status))
            fprintf(stderr, "rfg-tune: %s: ended by SIG%s\n", gpus[i].name, sigabbrev_np(WTERMSIG(status)));
        code = worse(code, got);
    }
    free(gpus);
    return code;
}

void tune_worker_of(long parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it is gone already */
        tune_stop = SIGTERM;
}
