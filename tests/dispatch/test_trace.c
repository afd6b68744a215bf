/* SPDX-License-Identifier: MIT
 *
 * $RFG_TRACE: the file of calls, and a profiler's ranges. */
#include <dlfcn.h>
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "device_case.h"
#include "dispatch/context.h"
#include "fakehip.h"
#include "tests/program.h"
#include "tests/suite.h"

static char warned[2000];

static void listen(void *user, rfg_log_topic topic, const char *line)
{
    (void)user;
    if (topic == RFG_LOG_WARNING)
        snprintf(warned, sizeof(warned), "%s", line);
}

/* The file so far, whose bracket isn't closed before the process ends. */
static json_t *events(const char *path)
{
    size_t n;
    json_error_t e;
    char *text = rfg_read_file(path, &n), *whole = rfg_asprintf("%s]", text ? text : "nothing");
    json_t *root = json_loads(whole, 0, &e);
    ck_assert_msg(root != NULL, "%s: %s: %s", path, e.text, whole);
    free(text);
    free(whole);
    return root;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *s = json_string_value(json_object_get(json_object_get(event, "args"), key));
    return s ? s : "";
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

START_TEST(file_of_calls)
{
    char path[64];
    setenv("RFG_TRACE", "trace-%p.json", 1);
    snprintf(path, sizeof(path), "trace-%d.json", (int)getpid());
    bool late = !strncmp(devices[_i], "emu:", 4);
    setenv("RFG_EMU_LATE", late ? "1" : "0", 1);
    open_device(devices[_i]);
    set_w();
    set_x(0x40);
    double begin = 1e6 * rfg_now(), runs = begin;
    OK(gemm(stream));
    if (late) { /* it runs when it is waited for */
        usleep(200000);
        runs = 1e6 * rfg_now();
    }
    OK(rfg_stream_sync(ctx, stream));
    rfg_graph *graph;
    OK(rfg_stream_begin_capture(ctx, stream));
    OK(gemm(stream));
    OK(rfg_stream_end_capture(ctx, stream, &graph));
    double end = 1e6 * rfg_now();
    expect(y, of_40);
    OK(rfg_graph_destroy(ctx, &graph));
    bool cpu = on_cpu();
    close_device();
    json_t *all = events(path), *v;
    size_t i;
    int calls = 0, device = 0, captured = 0;
    json_array_foreach(all, i, v)
    {
        const char *kind = json_string_value(json_object_get(v, "cat"));
        if (!kind)
            continue; /* names a track */
        ck_assert_str_eq(text_of(v, "problem"), PROBLEM);
        ck_assert_str_eq(text_of(v, "device"), on_fake() ? "amd:0" : devices[_i]);
        ck_assert(!strncmp(text_of(v, "variant"), "gemm_", 5) && strchr(text_of(v, "variant"), '{'));
        ck_assert_str_eq(json_string_value(json_object_get(v, "ph")), "X");
        bool on_device = !strcmp(kind, "device");
        calls += !on_device;
        device += on_device;
        captured += json_is_true(json_object_get(json_object_get(v, "args"), "captured"));
        ck_assert_double_ge(number_of(v, "dur"), 0);
        if (!on_device || !on_fake()) { /* an imagined GPU has a clock of its own */
            ck_assert_double_ge(number_of(v, "ts"), on_device ? runs - 1000 : begin);
            ck_assert_double_le(number_of(v, "ts") + number_of(v, "dur"), end + (on_device ? 1000 : 0));
        }
    }
    ck_assert_int_eq(calls, 2);
    ck_assert_int_eq(captured, cpu);
    ck_assert_int_eq(device, !cpu); /* of a capture there is none */
    json_decref(all);
}
END_TEST

/* The process's last word closes the list; a child of fork() has none. */
START_TEST(file_is_closed)
{
    json_error_t e;
    pid_t child = fork();
    if (child == 0) {
        setenv("RFG_TRACE", "whole.json", 1);
        open_device("cpu");
        set_w();
        set_x(0x40);
        OK(gemm(stream));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            OK(gemm(stream));
            exit(0);
        }
        waitpid(grandchild, NULL, 0);
        OK(gemm(stream));
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    json_t *all = json_load_file("whole.json", 0, &e);
    ck_assert_msg(all != NULL, "%s", e.text);
    ck_assert_uint_eq(json_array_size(all), 2);
    json_decref(all);
}
END_TEST

START_TEST(ranges)
{
    static const char *const env[] = { "RFG_LIBROCTX", "RFG_LIBNVTX" }, *const names[] = { "roctx:", "nvtx:" };
    const char *mock = rfg_env("RFG_MOCK_TX");
    ck_assert_ptr_nonnull(mock);
    setenv("RFG_TRACE", "1", 1);
    setenv(env[_i], mock, 1);
    setenv(env[!_i], "no-such-folder/library.so", 1);
    open_device("cpu");
    set_w();
    set_x(0x40);
    OK(gemm(stream));
    const char *said = dlsym(dlopen(mock, RTLD_NOW), "mock_tx_said");
    ck_assert_ptr_nonnull(said);
    ck_assert_msg(strstr(said, names[_i]) == said, "'%s'", said);
    PRINTS(said, "gemm gemm_cpu_");
    ck_assert_str_eq(strchr(said, '('), "()");
    close_device();
}
END_TEST

/* A GPU's own profiler is asked first; the other where it isn't there. */
START_TEST(ranges_of_a_gpu)
{
    const char *mock = rfg_env("RFG_MOCK_TX"), *const env[] = { "RFG_LIBROCTX", "RFG_LIBNVTX" };
    setenv("RFG_TRACE", "1", 1);
    setenv(env[_i / 2], mock, 1);
    setenv(env[!(_i / 2)], "no-such-folder/library.so", 1);
    rfg_set_log_callback(listen, NULL, 0);
    rfg_hip_override(_i % 2 ? RFG_PLATFORM_NVIDIA : RFG_PLATFORM_AMD, _i % 2 ? fakehip_nvidia() : fakehip());
    rfg_context_params p = {
        .size = sizeof(p), .device = _i % 2 ? "nvidia:0" : "amd:0", .user_db = "", .system_db = "", .cache_dir = "cache"
    };
    OK(rfg_context_create(&ctx, &p));
    rfg_context_destroy(&ctx);
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert_str_eq(warned, "");
}
END_TEST

/* What can't be had is said, and all else goes on; what isn't asked for isn't written. */
START_TEST(nothing_to_trace_with)
{
    static const char *const settings[] = { "no-such-folder/trace.json", "1", "0" };
    static const char *const says[] = { "RFG_TRACE=no-such-folder/trace.json: can't be written", "there are no ranges",
                                        "" };
    setenv("RFG_TRACE", settings[_i], 1);
    setenv("RFG_LIBROCTX", "no-such-folder/library.so", 1);
    setenv("RFG_LIBNVTX", "no-such-folder/library.so", 1);
    rfg_set_log_callback(listen, NULL, 0);
    open_device("cpu");
    set_w();
    set_x(0x40);
    OK(gemm(stream));
    expect(y, of_40);
    close_device();
    rfg_set_log_callback(NULL, NULL, 0);
    ck_assert_msg(*says[_i] ? strstr(warned, says[_i]) != NULL : !*warned, "'%s'", warned);
    ck_assert_int_ne(access("0", F_OK), 0);
    ck_assert_int_ne(access("1", F_OK), 0);
}
END_TEST

int main(void)
{
    more_devices();
    Suite *s = suite_create("trace");
    TCase *c = test_case(s, "trace", program_setup, program_teardown);
    ADD_TESTS(c, file_is_closed);
    ADD_LOOPS(c, n_devices, file_of_calls);
    ADD_LOOPS(c, 2, ranges);
    ADD_LOOPS(c, 4, ranges_of_a_gpu);
    ADD_LOOPS(c, 3, nothing_to_trace_with);
    return run_suite(s);
}
