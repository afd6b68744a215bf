/* SPDX-License-Identifier: MIT
 *
 * rfg-tune's common declarations. The parent process plans, compiles and writes the database. A child process measures
 * (measure.c), so that a candidate that hangs or faults costs only that child. */
#ifndef RFG_TUNER_TUNE_H
#define RFG_TUNER_TUNE_H

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "base/tempdir.h"
#include "tuner/harness/harness.h"
#include "tuner/harness/stamp.h"
#include "pace.h"

/* Exit codes; --help says what they mean. */
enum {
    TUNE_EXIT_OK = 0,
    TUNE_EXIT_FAILED = 1,
    TUNE_EXIT_USAGE = 2,
    TUNE_EXIT_BAD_LINES = 3,
    TUNE_EXIT_TIME = 4,
    TUNE_EXIT_SIGNAL = 128, /* + the signal's number */
};

/* Of a measuring process. */
enum {
    MEASURE_EXIT_USAGE = 2,
    MEASURE_EXIT_DEVICE = 3, /* the device's context is lost */
    MEASURE_EXIT_NO_MEMORY = 4,
};

/* Every n-th problem of the list, from the i-th on; n 0: all of them. */
struct tune_shard {
    int i, n;
};

struct tune_options {
    const char *device, *db, *variants, *json, *report;
    const char **shapes; /* shapes files */
    int n_shapes;
    const char **problems;
    int n_problems;
    double time_budget; /* seconds for the whole run; 0: none */
    double per_shape;   /* seconds a shape may be measured for; 0: 1.5 on a GPU, 8 on cpu */
    int candidates;     /* the most that are tried for a shape; 0: 48 */
    uint64_t seed;
    int jobs;  /* compiler processes; 0: the online cores */
    int max_m; /* problems with more rows are left out; 0: none are */
    bool force, dry_run, by_time, from_misses, keep_going, verbose, calibrate;
    bool overlap, invariant; /* every problem as overlap=1, as invariant=1 */
    int online_ms;           /* of each minute that the device may be used for; 0: as much as there is */
    long engine;             /* the process that started us, with whose end we end; 0: none */
    struct tune_shard shard;
};

/* ---- what is tuned ----------------------------------------------------------------------------------------------- */

enum tune_candidate_state {
    CANDIDATE_NEW,     /* to be tried */
    CANDIDATE_TIMED,   /* right, and measured at least once */
    CANDIDATE_SLOW,    /* right, but so much slower than another that one run was enough */
    CANDIDATE_REFUSED, /* could not be made ready: no algorithm, no memory, no compiler */
    CANDIDATE_FAILED,  /* wrong, hung, faulted or didn't compile: in the database's failures */
};

struct tune_times {
    double us, p5, p95, ratio; /* median and spread; the largest error in units of what is allowed */
    int n;
};

struct tune_candidate {
    const struct rfg_variant *var;
    int p[RFG_MAX_PARAMS];
    double predicted_us; /* HUGE_VAL: the variant has no model */
    int order;           /* as enumerated: breaks ties */
    bool is_default;     /* dispatch's choice without a tuned row */
    bool is_winner;      /* the row says so */
    bool raced;          /* timed with the other finalists, in turns */
    bool wins_plainly;   /* what the row without overlap says, if the problem has overlap=1 */
    enum tune_candidate_state state;
    const char *what;     /* CANDIDATE_FAILED: wrong, hung, fault, compile */
    struct tune_job *job; /* the code object that it needs; NULL: none */
    struct tune_times t;
    struct tune_times plain; /* finalists of overlap=1 problems: launched without overlap; n 0: not timed so */
};

enum tune_shape_state {
    SHAPE_WAITING,
    SHAPE_CURRENT, /* its row is there and still true */
    SHAPE_EMPTY,   /* nothing to compute: nothing to tune */
    SHAPE_STANDS,  /* --by-time: the model's choice needs no row */
    SHAPE_TUNED,
    SHAPE_FAILED,
};

struct tune_shape {
    struct rfg_problem problem; /* the row's key */
    struct rfg_problem call;    /* with the alignment that packed tensors have: what variants are asked about */
    struct rfg_order order;     /* in which all its rows must be summed, if it is invariant=1 */
    char text[RFG_PROBLEM_STRLEN];
    double weight; /* how often it is run, relative to the others */
    enum tune_shape_state state;
    struct tune_candidate *c; /* those kept, in the order in which they are tried */
    int n;
    int valid;      /* valid candidates before pruning */
    int pruned;     /* left out by the model or by --candidates */
    int remembered; /* left out because they failed in an earlier run */
    int tried, refused, failed;
    int not_reached;       /* left out because the shape's time was up */
    int disturbed;         /* refused because of what the machine did, not the candidate: may go well the next time */
    char disturbance[120]; /* the first of them */
    char doubt[200];       /* why the row is provisional; "": it isn't */
    bool had_row;          /* row is what the database had when this run began */
    bool text_changed;     /* its kernel's text isn't the one that was measured: its code may be */
    bool code_unknown;     /* SHAPE_CURRENT, but the row's compiler is not here */
    struct rfg_row row;    /* SHAPE_TUNED, SHAPE_CURRENT */
    double floor_us, seconds;
    const char *floor_of; /* "memory", ... as rfg_floor_us says */
    char why[400];        /* SHAPE_FAILED, SHAPE_EMPTY */
    long result;          /* where it is in tune.results, + 1; 0: not there */
};

struct tune {
    struct tune_options opt;
    rfg_context *ctx; /* NULL: an imagined device */
    struct rfg_device dev;
    double mem_gbps;              /* as a calibration measured it; 0: none did */
    struct rfg_tempdir cache_dir; /* path NULL: the default cache; else a private one that is removed at the end */
    struct rfg_db *db;
    struct rfg_snapshot *rows; /* if there are overlap=1 problems: what they are raced against */
    struct tune_shape *shapes;
    int n_shapes;
    uint32_t *index; /* of shapes, + 1, by hash; open addressing, at most half full */
    int index_size;
    int bad_lines;
    struct tune_compiler *compiler;
    struct tune_child *child;
    double started;
    FILE *results; /* of the shapes that are done, for --json and --report */
    bool out_of_time, gave_up;
    int device_errors; /* shapes in a row that the device refused */
    struct tune_pace pace;
};

/* The product that rows are of; NULL: an imagined device. */
static inline const char *tune_product(const struct tune *t)
{
    return t->ctx ? rfg_context_product(t->ctx) : NULL;
}

/* ---- options.c --------------------------------------------------------------------------------------------------- */

/* -1: go on; else the exit code. */
int tune_options_parse(struct tune_options *o, int argc, char **argv);

/* ---- shapes.c: what is to be tuned ------------------------------------------------------------------------------- */

/* Lists what --shapes and --problem give. -1: go on; else the exit code. */
int tune_read_shapes(struct tune *t);
/* Adds what was missed on the device and isn't in the list. -1: go on; else the exit code. */
int tune_read_misses(struct tune *t);

/* ---- stop.c ------------------------------------------------------------------------------------------------------ */

/* The signal that asked us to stop; 0: none. */
extern volatile sig_atomic_t tune_stop;
/* SIGINT, SIGTERM; a second one ends the process at once. */
void tune_catch_signals(void);
/* Is the time budget spent, or were we asked to stop? Sets out_of_time. */
bool tune_is_over(struct tune *t);
/* Pauses as long as --online's budget asks for. False: we were asked to stop. */
bool tune_rest(struct tune *t);
/* rfg_now() without the time that it rested: what shapes and candidates are given. */
double tune_now(const struct tune *t);

/* ---- plan.c: which candidates ----------------------------------------------------------------------------- */

/* Is there what the problems need: the device's overlap, loads? Reads the rows that overlap=1 problems are raced
 * against. -1: go on; else the exit code, with a message. */
int tune_prepare_shapes(struct tune *t);
/* Looks into the database whether the shape needs tuning. */
void tune_look_up_shape(struct tune *t, struct tune_shape *s);
/* Once all are looked up: compiles what rows of another text were measured with; the same code is current. False: no
 * memory. */
bool tune_look_up_code(struct tune *t);
/* Whether the row is valid for this library and this call. False too if only compiling its kernel could tell. */
bool tune_row_is_current(const struct tune *t, const struct tune_shape *s, const struct rfg_row *row);
/* Lists the candidates of a shape that waits, in the order of the analytical model: pruned, without those that failed
 * before. */
void tune_plan_shape(struct tune *t, struct tune_shape *s);
/* Whether another tuner has written its row since it was looked up. Then it is current. */
bool tune_done_elsewhere(struct tune *t, struct tune_shape *s);
/* --dry-run's text for a shape. */
void tune_explain_shape(const struct tune *t, const struct tune_shape *s, FILE *out);

/* ---- compile.c: code objects, in the background ------------------------------------------------------------------ */

enum tune_job_state { JOB_PENDING, JOB_RUNNING, JOB_DONE, JOB_FAILED };
struct tune_compiler;
struct tune_job;

/* Starts compiling what all planned shapes' candidates need, each code object once, in the order of need. Sets their
 * job. */
struct tune_compiler *tune_compiler_start(struct tune *t);
/* Waits for the compiles that are under way, drops the others. */
void tune_compiler_stop(struct tune_compiler **c);
enum tune_job_state tune_job_state(struct tune_compiler *c, struct tune_job *job);
/* The compiler's message of a failed job; its status. */
const char *tune_job_error(struct tune_compiler *c, struct tune_job *job, rfg_status *status);
/* Returns when some job has ended since `seen` was filled, or after a moment. */
void tune_compiler_wait(struct tune_compiler *c, int *seen);
void tune_compiler_count(struct tune_compiler *c, int *done, int *failed, int *all);

/* ---- child.c: the parent's end of the measuring process ---------------------------------------------------------- */

enum tune_answer {
    ANSWER_OK,
    ANSWER_REFUSED, /* the child answered with an error; "kind" and "error" are in the reply */
    ANSWER_DIED,    /* why says of what */
    ANSWER_HUNG,    /* killed after its time */
    ANSWER_LOST,    /* ended from outside, or for want of memory: no verdict about anything */
    ANSWER_STOPPED, /* killed because we were asked to stop */
};

struct tune_child;
struct tune_child *tune_child_create(struct tune *t);
void tune_child_destroy(struct tune_child **c);
/* Starts a process and begins the shape in it, where needed. ANSWER_REFUSED: not the candidate's fault. */
enum tune_answer tune_child_ready(struct tune_child *c, const struct tune_shape *s, struct rfg_reason *why);
/* Ends the process: the next command has a fresh one. */
void tune_child_restart(struct tune_child *c);
/* Sends a command for a shape (making ready where needed) and waits for the reply. cmd's reference is taken. *reply may
 * be NULL; json_decref() it. */
enum tune_answer tune_child_ask(struct tune_child *c, const struct tune_shape *s, json_t *cmd, double timeout_s,
                                json_t **reply, struct rfg_reason *why);

/* ---- measure.c: the measuring process ---------------------------------------------------------------------------- */

/* The main function of `rfg-tune --measure-worker PARENT`. */
int tune_measure_main(int argc, char **argv);

/* ---- joint.c: collectives, in the measuring process -------------------------------------------------------------- */

struct tune_joint;
/* The ranks of a collective's problem: ctx is the first one's, cache the directory of its code. Also after an error: destroy it. */
rfg_status tune_joint_create(struct tune_joint **joint, rfg_context *ctx, const char *cache,
                             const struct rfg_problem *prob);
void tune_joint_destroy(struct tune_joint **joint);
/* Runs a candidate. wrong: what is, or "". */
rfg_status tune_joint_check(struct tune_joint *j, const struct rfg_choice *c, char *wrong, size_t size);
/* Times candidates in turns, as rfg_case_race(). */
rfg_status tune_joint_race(struct tune_joint *j, const struct rfg_choice *c, int n, int rounds, double max_s,
                           struct rfg_times *out /* n */);

/* ---- sweep.c ----------------------------------------------------------------------------------------------- */

/* Tunes those of n shapes that wait, one after the other, and writes their rows. What another tuner on the same
 * database is about to tune is left to it. */
void tune_sweep(struct tune *t, struct tune_shape *shapes, int n);

/* ---- batch.c ----------------------------------------------------------------------------------------------------- */

/* Plans, compiles for and tunes those of the shapes from..to - 1 that wait. False: no memory, or no threads. */
bool tune_batches(struct tune *t, int from, int to);
/* Frees the candidates unless the results need them: they are many. */
void tune_forget_candidates(const struct tune *t, struct tune_shape *s);

/* ---- online.c: beside an engine ---------------------------------------------------------------------------------- */

/* Before anything is tuned: low priority, one tuner a database, the engine is watched. False with a message. */
bool tune_online_begin(struct tune *t, const char *db);
/* Tunes misses until there are no new ones. */
bool tune_online_run(struct tune *t);

/* ---- fleet.c: more than one GPU ---------------------------------------------------------------------------------- */

/* "I/N", or "auto": what Slurm's or MPI's variables say. False with a message. */
bool tune_shard_parse(const char *text, struct tune_shard *out);
/* Leaves the other shards' problems out. */
void tune_shard_keep(struct tune *t);
/* "nvidia:all"? */
bool tune_is_fleet(const char *device);
/* Runs the same command line on each of the platform's GPUs; the exit code. */
int tune_fleet(const struct tune_options *o, int argc, char **argv);
/* This process is one of those: it ends with its parent. */
void tune_worker_of(long parent);

/* ---- by_time.c --------------------------------------------------------------------------------------------------- */

/* Asks the emulator's clock about the candidates of a shape that waits. Writes a row marked `predicted` if one of them
 * is faster than the model's choice by more than the clock's error; else there is none afterwards. Rows that were
 * measured or imported stay. */
void tune_by_time(struct tune *t, struct tune_shape *s);

/* ---- report.c ---------------------------------------------------------------------------------------------- */

const char *tune_state_name(const struct tune_shape *s);
bool tune_has_row(const struct tune_shape *s);

struct tune_geomean {
    double logs;
    int n;
};
double tune_mean_of(const struct tune_geomean *g);

struct tune_summary {
    int tuned, current, failed, left, empty, stands;
    int unknown;            /* of current: the row's compiler is not here */
    int swamped, cut_short; /* tune_spread_swamps() says so; candidates were not reached */
    struct tune_geomean vs_default, vs_vendor, floor;
    bool weighted;               /* weights were given: */
    double default_us, tuned_us; /* all shapes with a default, each as often as its weight says */
};
/* What is smaller than the spread of the winner's times: "time", the median itself; "default", "vendor", how far the
 * winner is from those; "half", half of the median; NULL: nothing. */
const char *tune_spread_swamps(const struct rfg_row *row);
struct tune_summary tune_summarize(const struct tune *t);
void tune_print_table(const struct tune *t, FILE *out);

/* ---- results.c --------------------------------------------------------------------------------------------- */

/* A shape is done: puts its result by. */
void tune_results_add(struct tune *t, struct tune_shape *s);
/* Whether its candidates must stay because its result couldn't be stored. */
bool tune_results_need(const struct tune *t, const struct tune_shape *s);
/* Does "-" stand for the path? */
bool tune_to_stdout(const char *path);
/* False with a message. */
bool tune_write_json(const struct tune *t, const char *path);
bool tune_write_html(const struct tune *t, const char *path);

/* ---- html.c ------------------------------------------------------------------------------------------------ */

/* The page of --report, from what --json writes: its members but "shapes", "summary"; each of "shapes". */
void tune_html_begin(FILE *f, const json_t *head, const json_t *summary);
void tune_html_shape(FILE *f, const json_t *shape, int index);
void tune_html_end(FILE *f);

/* ---- progress.c -------------------------------------------------------------------------------------------- */

/* One line that is rewritten on a terminal; a line a shape elsewhere. All on stderr. */
void tune_progress_update(const struct tune *t, const struct tune_shape *s, int tried, double best_us,
                          const char *doing);
void tune_progress_clear(void);
void tune_progress_done(const struct tune *t, const struct tune_shape *s);
__attribute__((format(printf, 1, 2))) void tune_say(const char *fmt, ...);

#endif
