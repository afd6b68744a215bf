/* SPDX-License-Identifier: MIT */
#include "decoder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (char *c = line; *c; c++) /* names from files may hold anything */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    fflush(stdout);
    fprintf(stderr, "decoder: %s\n", line);
    exit(1);
}

void check(rfg_status st, const char *call)
{
    if (st != RFG_OK)
        die("%.*s: %s: %s", (int)strcspn(call, "("), call, rfg_status_name(st), rfg_last_error());
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die("out of memory: %zu times %zu bytes", count, size);
    return memory;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

double percentile(const double *values, size_t n, double share)
{
    if (n == 0)
        return 0;
    double *sorted = allocate(n, sizeof(*sorted));
    for (size_t i = 0; i < n; i++)
        sorted[i] = values[i];
    qsort(sorted, n, sizeof(*sorted), by_value);
    size_t at = (size_t)(share * (double)n);
    double v = sorted[at < n ? at : n - 1];
    free(sorted);
    return v;
}
