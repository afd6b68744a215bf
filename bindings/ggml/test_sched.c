/* SPDX-License-Identifier: MIT
 *
 * test-sched DIR: a decoder layer's MLP, computed by ggml's scheduler on rfg with ggml's CPU backend behind it, and on
 * the latter alone. DIR has libggml-cpu.so; GGML_BACKEND_PATH names libggml-rfg.so. What rfg refuses must go to the CPU
 * backend, what it claims to rfg, and both results must be the same but for rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "ggml.h"

enum { HIDDEN = 64, INNER = 160, TOKENS = 5 };

struct layer {
    struct ggml_context *ctx;
    struct ggml_cgraph *graph;
    struct ggml_tensor *x, *norm, *gate, *up, *down, *y;
};

static void die(const char *what)
{
    fprintf(stderr, "test-sched: %s\n", what);
    exit(1);
}

static void fill(struct ggml_tensor *t, unsigned seed)
{
    int64_t n = ggml_nelements(t);
    float *values = malloc((size_t)n * sizeof(float));
    ggml_fp16_t *halves = malloc((size_t)n * sizeof(ggml_fp16_t));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / (1 << 24) - 0.5f;
    }
    ggml_fp32_to_fp16_row(values, halves, n);
    ggml_backend_tensor_set(t, t->type == GGML_TYPE_F16 ? (void *)halves : values, 0, ggml_nbytes(t));
    free(values);
    free(halves);
}

/* y = x + down (silu(gate h) * up h), h = rms_norm(x) * norm */
static struct layer layer(void)
{
    struct layer l = { .ctx = ggml_init((struct ggml_init_params){ 1 << 20, NULL, true }) };
    l.x = ggml_new_tensor_2d(l.ctx, GGML_TYPE_F32, HIDDEN, TOKENS);
    l.norm = ggml_new_tensor_1d(l.ctx, GGML_TYPE_F32, HIDDEN);
    l.gate = ggml_new_tensor_2d(l.ctx, GGML_TYPE_F16, HIDDEN, INNER);
    l.up = ggml_new_tensor_2d(l.ctx, GGML_TYPE_F16, HIDDEN, INNER);
    l.down = ggml_new_tensor_2d(l.ctx, GGML_TYPE_F16, INNER, HIDDEN);
    struct ggml_tensor *leaves[] = { l.x, l.norm, l.gate, l.up, l.down };
    for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
        ggml_set_input(leaves[i]);
    struct ggml_tensor *h = ggml_mul(l.ctx, ggml_rms_norm(l.ctx, l.x, 1e-6f), l.norm);
    struct ggml_tensor *inner = ggml_swiglu_split(l.ctx, ggml_mul_mat(l.ctx, l.gate, h), ggml_mul_mat(l.ctx, l.up, h));
    l.y = ggml_add(l.ctx, l.x, ggml_mul_mat(l.ctx, l.down, inner));
    ggml_set_output(l.y);
    l.graph = ggml_new_graph(l.ctx);
    ggml_build_forward_expand(l.graph, l.y);
    return l;
}

/* Nodes that backends[0] computed. */
static int compute(ggml_backend_t *backends, int n, float *y)
{
    struct layer l = layer();
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, GGML_DEFAULT_GRAPH_SIZE, false, false);
    if (!ggml_backend_sched_alloc_graph(sched, l.graph))
        die("the graph can't be allocated");
    struct ggml_tensor *leaves[] = { l.x, l.norm, l.gate, l.up, l.down };
    for (unsigned i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
        fill(leaves[i], i);
    if (ggml_backend_sched_graph_compute(sched, l.graph) != GGML_STATUS_SUCCESS)
        die("the graph can't be computed");
    ggml_backend_tensor_get(l.y, y, 0, ggml_nbytes(l.y));
    int first = 0;
    for (int i = 0; i < ggml_graph_n_nodes(l.graph); i++)
        if (ggml_backend_sched_get_tensor_backend(sched, ggml_graph_node(l.graph, i)) == backends[0]) {
            if (n > 1)
                printf(" %s", ggml_op_desc(ggml_graph_node(l.graph, i)));
            first++;
        }
    ggml_backend_sched_free(sched);
    ggml_free(l.ctx);
    return first;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        die("usage: test-sched DIR");
    ggml_backend_load_all_from_path(argv[1]);
    ggml_backend_t backends[] = { ggml_backend_init_by_name("rfg", NULL), ggml_backend_init_by_name("CPU", NULL) };
    if (!backends[0] || !backends[1])
        die("no backend rfg, or no CPU");
    static float mine[HIDDEN * TOKENS], cpu[HIDDEN * TOKENS];
    printf("rfg:");
    int on_rfg = compute(backends, 2, mine);
    compute(backends + 1, 1, cpu);
    double worst = 0;
    for (int i = 0; i < HIDDEN * TOKENS; i++)
        worst = fmax(worst, fabs(mine[i] - cpu[i]));
    printf("; the largest difference from ggml's CPU backend: %.1e\n", worst);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
    if (on_rfg != 5)
        die("rfg must compute the norm, three products and the GLU");
    if (!(worst < 1e-4))
        die("the results differ by more than 1e-4");
    return 0;
}
