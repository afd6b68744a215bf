/* SPDX-License-Identifier: MIT
 *
 * rfg-tune: the device, the database, the run, exit codes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "calibrate.h"
#include "ops/gemm/loads.h"
#include "tuner/harness/clock.h"
#include "tuner/harness/output.h"
#include "tune.h"

/* Each name in the list must be a variant's: a typo would tune nothing. */
static bool check_variants(const char *list)
{
    struct rfg_reason why;
    bool known = rfg_variants_known(list, &why);
    if (!known)
        fprintf(stderr, "rfg-tune: --variants: %s\n", why.text);
    return known;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

/* Code objects reach the measuring process through the cache on disk. Where that can't be written, a private one
 * serves for this run. */
static void private_cache(struct rfg_tempdir *own)
{
    struct rfg_reason why = { "there is no home" };
    char *dir = rfg_cache_default_dir();
    bool usable = dir && rfg_cache_usable(dir, true, &why) && rfg_access(dir, W_OK);
    if (!usable)
        rfg_warn("code cache %s: %s; this run takes one of its own", dir ? dir : "",
                 *why.text ? why.text : strerror(EACCES));
    free(dir);
    if (!usable)
        rfg_tempdir_make(own, NULL);
}

/* Rows that would be kept under another GPU's name. */
static void warn_of_facts(enum rfg_platform platform)
{
    struct rfg_platform_fact facts[RFG_PLATFORM_FACTS];
    for (int i = 0; rfg_platforms[i]; i++) {
        bool ours = rfg_platforms[i]->id == platform && rfg_platforms[i]->facts;
        int n = ours ? rfg_platforms[i]->facts("", facts, RFG_PLATFORM_FACTS) : 0;
        for (int j = 0; j < n; j++)
            if (facts[j].misleads)
                rfg_warn("%s: %s", facts[j].what, facts[j].says);
    }
}

/* --by-time: the GPU that the rows are of; its emulator is the measuring process'. */
static bool imagine_emulated(struct tune *t)
{
    const char *name = t->opt.device ? t->opt.device : "";
    if (strncmp(name, "emu:", 4) != 0 || !rfg_device_imagine(&t->dev, name + 4)) {
        fprintf(stderr, "rfg-tune: --by-time: --device '%s': must be an emulated GPU, as emu:gfx950:256\n", name);
        return false;
    }
    if (!rfg_clock_is_judged(t->dev.arch)) {
        fprintf(stderr,
                "rfg-tune: --by-time: --device '%s': must be of gfx942 or gfx950: no published times of others have "
                "judged the clock\n",
                name);
        return false;
    }
    private_cache(&t->cache_dir);
    return true;
}

static bool open_device(struct tune *t)
{
    if (t->opt.by_time)
        return imagine_emulated(t);
    if (t->opt.dry_run && t->opt.device && rfg_device_imagine(&t->dev, t->opt.device))
        return true;
    private_cache(&t->cache_dir);
    rfg_context_params p = { .size = sizeof(p),
                             .device = t->opt.device,
                             .user_db = "",
                             .system_db = "",
                             .cache_dir = t->cache_dir.path,
                             .variants = t->opt.variants,
                             .misses = -1,
                             .pack = "" };
    if (rfg_context_create(&t->ctx, &p) != RFG_OK) {
        fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
        return false;
    }
    t->dev = *rfg_context_info(t->ctx);
    t->opt.device = t->dev.name;
    warn_of_facts(t->dev.platform);
    return true;
}

static bool open_database(struct tune *t)
{
    char *path = t->opt.db ? strdup(t->opt.db) : rfg_db_user_path();
    bool ok = path && *path;
    if (!ok)
        fprintf(stderr, "rfg-tune: no database: give --db, or set $RFG_DB or $HOME\n");
    else if (t->opt.online_ms && !tune_online_begin(t, path))
        ok = false;
    else if (!t->opt.dry_run || rfg_access(path, F_OK)) {
        ok = rfg_db_open(&t->db, path, t->opt.dry_run ? RFG_DB_READ : RFG_DB_WRITE) == RFG_OK;
        if (!ok)
            fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
    }
    free(path);
    return ok;
}

static void use_calibration(struct tune *t, const struct rfg_calibration *c)
{
    rfg_context_calibrate(t->ctx, c);
    t->mem_gbps = c->mem_gbps;
    t->dev = *rfg_context_info(t->ctx);
}

/* Loads the calibration that an earlier run stored, so that the model's default is the same here. */
static void recall_calibration(struct tune *t)
{
    struct rfg_calibration c;
    if (t->ctx && t->db && t->dev.platform != RFG_PLATFORM_EMU &&
        rfg_db_get_calibration(t->db, t->dev.arch, t->dev.cu_count, rfg_context_product(t->ctx),
                               rfg_context_driver(t->ctx), &c) == 1)
        use_calibration(t, &c);
}

/* Measures the device and stores its numbers; the models of this run use them too. */
static bool calibrate(struct tune *t)
{
    struct rfg_calibration c;
    const struct rfg_device *d = &t->dev;
    if (!t->ctx || t->opt.dry_run) {
        fprintf(stderr, "rfg-tune: --calibrate: must have a device, and no --dry-run\n");
        return false;
    }
    if (rfg_calibrate(t->ctx, &c) != RFG_OK || rfg_db_put_calibration(t->db, d->arch, d->cu_count, &c) != RFG_OK) {
        fprintf(stderr, "rfg-tune: %s\n", rfg_last_error());
        return false;
    }
    const struct {
        const char *name, *unit;
        double was, is;
    } v[] = { { "memory", "GB/s", d->mem_gbps, c.mem_gbps },
              { "caches", "GB/s", d->cache_gbps, c.cache_gbps },
              { "launch", "us", d->latency_us, c.latency_us },
              { "load", "us", d->load_us, c.load_us },
              { "sync", "us", d->sync_us, c.sync_us } };
    printf("%s: %s, %s, %d %s, %s\n", d->name, c.device, d->arch, d->cu_count,
           d->platform == RFG_PLATFORM_CPU ? "threads" : "CUs", c.driver);
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        printf("  %-7s %9.2f %-4s (was %.2f)\n", v[i].name, v[i].is, v[i].unit, v[i].was);
    use_calibration(t, &c);
    return true;
}

/* ---- the run
 * --------------------------------------------------------------------------------------------------------- */

static int exit_code(const struct tune *t)
{
    bool failed = false, left = false;
    for (int i = 0; i < t->n_shapes; i++) {
        failed |= t->shapes[i].state == SHAPE_FAILED;
        left |= t->shapes[i].state == SHAPE_WAITING;
    }
    return tune_stop                             ? TUNE_EXIT_SIGNAL + (int)tune_stop
           : failed || (left && !t->out_of_time) ? TUNE_EXIT_FAILED
           : t->bad_lines                        ? TUNE_EXIT_BAD_LINES
           : left                                ? TUNE_EXIT_TIME
                                                 : TUNE_EXIT_OK;
}

/* The table and the files of results. */
static int finish(struct tune *t, bool ok)
{
    tune_print_table(t, tune_to_stdout(t->opt.json) || tune_to_stdout(t->opt.report) ? stderr : stdout);
    if (t->opt.json)
        ok &= tune_write_json(t, t->opt.json);
    if (t->opt.report)
        ok &= tune_write_html(t, t->opt.report);
    int code = exit_code(t);
    return ok || code >= TUNE_EXIT_SIGNAL ? code : TUNE_EXIT_FAILED;
}

/* --dry-run, --by-time: nothing is measured. */
static int run_without_measuring(struct tune *t)
{
    for (int i = 0; i < t->n_shapes && !tune_is_over(t); i++) {
        struct tune_shape *s = &t->shapes[i];
        if (s->state == SHAPE_WAITING)
            tune_plan_shape(t, s);
        if (t->opt.dry_run)
            tune_explain_shape(t, s, stdout);
        else if (s->state == SHAPE_WAITING)
            tune_by_time(t, s);
        if (tune_results_need(t, s))
            tune_results_add(t, s);
        tune_forget_candidates(t, s);
    }
    tune_child_destroy(&t->child);
    if (t->opt.dry_run)
        return t->bad_lines ? TUNE_EXIT_BAD_LINES : TUNE_EXIT_OK;
    return finish(t, true);
}

static int run(struct tune *t)
{
    int waiting = 0;
    for (int i = 0; i < t->n_shapes && !tune_is_over(t); i++)
        tune_look_up_shape(t, &t->shapes[i]);
    if (!t->opt.online_ms && !tune_look_up_code(t)) {
        fprintf(stderr, "rfg-tune: no memory to compare code objects\n");
        return TUNE_EXIT_FAILED;
    }
    for (int i = 0; i < t->n_shapes; i++)
        waiting += t->shapes[i].state == SHAPE_WAITING;
    tune_catch_signals();
    if (t->opt.dry_run || t->opt.by_time)
        return run_without_measuring(t);
    fprintf(stderr, "rfg-tune: %s: %s, %d %s; %d of %d shapes to tune; seed %llu; %s\n", t->dev.name, t->dev.arch,
            t->dev.cu_count, t->dev.platform == RFG_PLATFORM_CPU ? "threads" : "CUs", waiting, t->n_shapes,
            (unsigned long long)t->opt.seed, rfg_db_path(t->db));
    bool ok = t->opt.online_ms ? tune_online_run(t) : tune_batches(t, 0, t->n_shapes);
    if (!ok)
        tune_say("no memory, or no threads for the compilers");
    tune_child_destroy(&t->child);
    tune_progress_clear();
    return finish(t, ok);
}

int main(int argc, char **argv)
{
    rfg_program_begin();
    if (argc > 1 && !strcmp(argv[1], "--measure-worker"))
        return tune_measure_main(argc, argv);

    struct tune t = { .started = rfg_now() };
    rfg_tempdir_sweep(NULL); /* what a killed run left */
    int code = tune_options_parse(&t.opt, argc, argv);
    if (code < 0 && !check_variants(t.opt.variants))
        code = TUNE_EXIT_USAGE;
    if (code < 0 && (!rfg_output_check("rfg-tune", "--json", tune_to_stdout(t.opt.json) ? NULL : t.opt.json) ||
                     !rfg_output_check("rfg-tune", "--report", tune_to_stdout(t.opt.report) ? NULL : t.opt.report)))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && tune_is_fleet(t.opt.device)) {
        tune_catch_signals();
        code = tune_fleet(&t.opt, argc, argv);
    }
    if (code < 0)
        code = tune_read_shapes(&t);
    if (code < 0 && !t.n_shapes && t.bad_lines && !t.opt.from_misses)
        code = TUNE_EXIT_BAD_LINES;
    if (code < 0 && (!open_device(&t) || !open_database(&t)))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && t.opt.calibrate && !calibrate(&t))
        code = TUNE_EXIT_FAILED;
    if (code < 0 && !t.opt.calibrate)
        recall_calibration(&t);
    if (code < 0 && t.opt.from_misses)
        code = tune_read_misses(&t);
    if (code < 0)
        tune_shard_keep(&t);
    if (code < 0 && t.opt.calibrate && !t.n_shapes)
        code = TUNE_EXIT_OK;
    if (code < 0)
        code = tune_prepare_shapes(&t);
    if (code < 0)
        code = run(&t);
    for (int i = 0; i < t.n_shapes; i++)
        free(t.shapes[i].c);
    free(t.shapes);
    if (t.results)
        fclose(t.results);
    free(t.index);
    free(t.opt.shapes);
    free(t.opt.problems);
    (void)gemm_loads_set(NULL, 0);
    rfg_snapshot_free(&t.rows);
    rfg_db_close(&t.db);
    rfg_context_destroy(&t.ctx);
    rfg_tempdir_remove(&t.cache_dir);
    return rfg_program_end("rfg-tune", code, TUNE_EXIT_FAILED);
}
