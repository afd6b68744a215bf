/* SPDX-License-Identifier: MIT
 *
 * A process a rank, of which one is killed at a random moment: the others have an error with its number in time, and make
 * the next communicator with the process that takes its place. The moments are drawn from a fixed seed. On the cpu and on
 * GPUs of $RFG_TEST_DEVICES (nvidia:0: nvidia:0, nvidia:1; where there is one, both ranks are on it).
 *
 *   RFG_TEST_KILLS=50 build/tests/test-comm_killed     # so often, by the library's own timeout; else a few, by a short one
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rfg/rfg.h"
#include "comm_world.h"
#include "tests/suite.h"

enum {
    MOST = 3, /* ranks */
    FEW_KILLS = 4,
    SHORT_MS = 1000,   /* a timeout that a busy machine's ranks don't miss */
    LIBRARY_MS = 1900, /* the default one */
    LATE_MS = 700,     /* what a busy machine adds */
    HANGS_MS = 60000,
    N = 50000, /* elements at most of a rank's part */
    CALLS = 20 /* before a rank says that it is at work */
};

/* What a process says: its handle, that it is at work, or why it stopped. */
struct message {
    enum { HANDLE, AT_WORK, STOPPED } what;
    rfg_status status;
    double at; /* seconds() */
    char error[300];
    rfg_comm_handle handle;
};

struct order {
    uint64_t seed; /* of its calls */
    rfg_comm_handle handles[MOST];
};

static int ranks, timeout_ms;
static char device[60];

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* one clock of all processes */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

struct rank {
    int rank, socket;
    rfg_context *ctx;
    rfg_stream stream;
    float *x, *y; /* of the device, MOST * N */
    float *host;
    rfg_comm *comm;
};

static void say(const struct rank *k, struct message *m)
{
    m->at = seconds();
    if (write(k->socket, m, sizeof(*m)) != sizeof(*m))
        _exit(1); /* the test has ended */
}

static void must(rfg_status st, const char *call)
{
    if (st != RFG_OK)
        fprintf(stderr, "%s: %s\n", call, rfg_last_error());
    if (st != RFG_OK)
        _exit(2);
}
#define MUST(call) must(call, #call)

static float number(int rank, uint32_t call)
{
    return (float)((uint32_t)(rank + 1) * (call % 7 + 1));
}

static void fill(struct rank *k, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        k->host[i] = value;
    MUST(rfg_device_copy(k->ctx, k->x, k->host, (size_t)n * sizeof(float), RFG_HOST_TO_DEVICE, k->stream));
    MUST(rfg_stream_sync(k->ctx, k->stream));
}

static void expect(struct rank *k, int op, int64_t n, uint32_t call)
{
    int64_t all = op == 2 ? n * ranks : n;
    float sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += number(r, call);
    MUST(rfg_device_copy(k->ctx, k->host, k->y, (size_t)all * sizeof(float), RFG_DEVICE_TO_HOST, k->stream));
    MUST(rfg_stream_sync(k->ctx, k->stream));
    for (int64_t i = 0; i < all; i++)
        if (k->host[i] != (op == 2 ? number((int)(i / n), call) : sum)) {
            fprintf(stderr, "rank %d, call %u of kind %d, element %d of %d is %g\n", k->rank, call, op, (int)i,
                    (int)all, (double)k->host[i]);
            _exit(3);
        }
}

/* One call of a communicator, the same on all ranks. */
static rfg_status call(struct rank *k, uint32_t i, uint64_t *state)
{
    static rfg_status (*const ops[])(rfg_comm *, const rfg_tensor *, const rfg_tensor *,
                                     rfg_stream) = { rfg_op_all_reduce, rfg_op_reduce_scatter, rfg_op_all_gather };
    int op = (int)(draw(state) % 3);
    int64_t n = 1 + draw(state) % N, nx = op == 1 ? n * ranks : n, ny = op == 2 ? n * ranks : n;
    rfg_tensor x = rfg_tensor_1d(k->x, RFG_F32, nx), y = rfg_tensor_1d(k->y, RFG_F32, ny);
    fill(k, nx, number(k->rank, i));
    rfg_status st = ops[op](k->comm, &y, &x, k->stream);
    if (st == RFG_OK)
        MUST(rfg_stream_sync(k->ctx, k->stream));
    if (st == RFG_OK)
        st = rfg_comm_check(k->comm);
    if (st == RFG_OK)
        expect(k, op, n, i);
    return st;
}

/* A communicator's life: until a peer is missing. */
static void work(struct rank *k)
{
    struct message m = { .what = HANDLE };
    struct order o;
    rfg_comm_params p = { .size = sizeof(p), .timeout_ms = timeout_ms };
    MUST(rfg_comm_create(&k->comm, k->ctx, k->rank, ranks, &p));
    MUST(rfg_comm_prepare(k->comm, RFG_F32));
    MUST(rfg_comm_get_handle(k->comm, &m.handle));
    say(k, &m);
    if (read(k->socket, &o, sizeof(o)) != sizeof(o))
        _exit(1);
    rfg_status st = rfg_comm_connect(k->comm, o.handles);
    uint64_t state = o.seed;
    for (uint32_t i = 0; st == RFG_OK; i++) {
        if (i == CALLS)
            say(k, &(struct message){ .what = AT_WORK });
        st = call(k, i, &state);
    }
    m = (struct message){ .what = STOPPED, .status = st };
    snprintf(m.error, sizeof(m.error), "%s", rfg_last_error());
    say(k, &m);
    rfg_comm_destroy(&k->comm);
}

static _Noreturn void run_rank(int rank, int socket)
{
    struct rank k = { .rank = rank, .socket = socket };
    char name[60];
    world_device_of_rank(device, rank, name);
    rfg_context_params p = { .size = sizeof(p), .device = name, .user_db = "", .system_db = "", .threads = 1 };
    MUST(rfg_context_create(&k.ctx, &p));
    MUST(rfg_stream_create(k.ctx, &k.stream));
    MUST(rfg_device_alloc(k.ctx, (void **)&k.x, MOST * N * sizeof(float)));
    MUST(rfg_device_alloc(k.ctx, (void **)&k.y, MOST * N * sizeof(float)));
    k.host = calloc(MOST * N, sizeof(float));
    for (;;)
        work(&k);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

struct process {
    pid_t pid;
    int socket;
};

static void start(struct process *all, int rank)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    fflush(stdout);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int r = 0; r < ranks; r++)
            if (r != rank && all[r].pid)
                close(all[r].socket);
        close(ends[0]);
        run_rank(rank, ends[1]);
    }
    close(ends[1]);
    all[rank] = (struct process){ pid, ends[0] };
}

static void end(struct process *p)
{
    ck_assert_int_eq(kill(p->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(p->pid, NULL, 0), p->pid);
    close(p->socket);
}

/* The next message of this kind; others before it are passed over. */
static struct message hear(const struct process *p, int rank, int what)
{
    struct message m;
    do {
        struct pollfd f = { .fd = p->socket, .events = POLLIN };
        ck_assert_msg(poll(&f, 1, HANGS_MS) == 1, "rank %d hangs", rank);
        ck_assert_msg(read(p->socket, &m, sizeof(m)) == sizeof(m), "rank %d has ended", rank);
        ck_assert_msg((int)m.what <= what, "rank %d: %s", rank, m.error);
    } while ((int)m.what != what);
    return m;
}

static void connect_all(struct process *all, uint64_t seed)
{
    struct order o = { .seed = seed };
    for (int r = 0; r < ranks; r++)
        o.handles[r] = hear(&all[r], r, HANDLE).handle;
    for (int r = 0; r < ranks; r++)
        ck_assert_int_eq(write(all[r].socket, &o, sizeof(o)), sizeof(o));
}

/* ms from the kill to the last survivor's error. */
static double kill_one(struct process *all, uint64_t *state)
{
    int victim = (int)(draw(state) % (uint32_t)ranks);
    bool at_once = draw(state) % 8 == 0; /* it never comes to a call, or isn't connected */
    unsigned us = draw(state) % 30000;
    char named[40];
    double last = 0;
    int names = 0; /* survivors that name the victim */
    snprintf(named, sizeof(named), "rank %d ", victim);
    for (int r = 0; r < ranks && !at_once; r++)
        hear(&all[r], r, AT_WORK);
    usleep(at_once ? us / 10 : us);
    double begin = seconds();
    end(&all[victim]);
    for (int r = 0; r < ranks; r++) {
        if (r == victim)
            continue;
        struct message m = hear(&all[r], r, STOPPED);
        /* One that couldn't connect to the victim doesn't come either, and goes on to the next communicator: the
         * others may miss that one first. */
        bool itself = strstr(m.error, named) != NULL;
        ck_assert_msg(at_once ? m.status == RFG_ERROR_UNSUPPORTED || m.status == RFG_ERROR_DEVICE
                              : itself && m.status == RFG_ERROR_DEVICE,
                      "rank %d was killed, rank %d says: %s", victim, r, m.error);
        names += itself;
        last = m.at - begin > last ? m.at - begin : last;
    }
    ck_assert_msg(1e3 * last <= (timeout_ms ? timeout_ms : LIBRARY_MS) + LATE_MS, "rank %d was killed: %g s", victim,
                  last);
    ck_assert_int_ge(names, 1);
    all[victim].pid = 0;
    start(all, victim);
    return 1e3 * last;
}

START_TEST(errors_in_time)
{
    const char *env = getenv("RFG_TEST_KILLS");
    struct process all[MOST] = { 0 };
    int kills = env ? atoi(env) : FEW_KILLS;
    double worst = 0;
    uint64_t state = 41;
    snprintf(device, sizeof(device), "%s", world_device[_i]);
    if (world_is_emulated(device))
        return; /* its ranks are of one process */
    ranks = strcmp(device, "cpu") ? 2 : MOST;
    timeout_ms = env ? 0 : SHORT_MS;
    for (int r = 0; r < ranks; r++)
        start(all, r);
    for (int i = 0; i < kills; i++) {
        connect_all(all, state);
        double ms = kill_one(all, &state);
        worst = ms > worst ? ms : worst;
    }
    connect_all(all, state);
    for (int r = 0; r < ranks; r++)
        hear(&all[r], r, AT_WORK);
    for (int r = 0; r < ranks; r++)
        end(&all[r]);
    printf("%s: %d kills of %d ranks, the last error after at most %.1f ms\n", device, kills, ranks, worst);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm_killed");
    world_read_devices();
    TCase *tc = test_case(s, "killed", NULL, NULL);
    tcase_set_timeout(tc, 300);
    ADD_LOOPS(tc, world_devices, errors_in_time);
    return run_suite(s);
}
