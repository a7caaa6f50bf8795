/* Tests what layers of experts do over ranks of expert parallelism. Usage: ranks_experts
 *
 * The op all_to_all, forward and backward, in each type: every element must come from the place that its position
 * says. */
#include "megalith/builder.h"
#include "megalith/program.h"
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_axis ep;

static void expect(bool ok, const char *what, const char *of)
{
    if (ok) return;
    fprintf(stderr, "rank %d of %d: %s, %s\n", ep.rank, ep.size, what, of);
    exit(1);
}

/* ---- the op all_to_all ---- */

enum { ROWS = 3, COLS = 5, BLOCK = ROWS * COLS };

/* A whole number that every type has, of element i of what a rank holds. */
static int held(int rank, int64_t i)
{
    return (int)((rank * 31 + i * 7) % 61);
}

static void put(void *x, mega_dtype t, int64_t i, int v)
{
    switch (t) {
    case MEGA_F64: ((double *)x)[i] = v; break;
    case MEGA_F32: ((float *)x)[i] = (float)v; break;
    case MEGA_I32: ((int32_t *)x)[i] = v; break;
    default: ((uint16_t *)x)[i] = mega_f32_to_half((float)v, t); break;
    }
}

static int get(const void *x, mega_dtype t, int64_t i)
{
    switch (t) {
    case MEGA_F64: return (int)((const double *)x)[i];
    case MEGA_F32: return (int)((const float *)x)[i];
    case MEGA_I32: return ((const int32_t *)x)[i];
    default: return (int)mega_half_to_f32(((const uint16_t *)x)[i], t);
    }
}

/* Element i of the block of each rank is element i of the block that this rank has there, times `factor`. */
static void check_blocks(const void *x, mega_dtype t, int factor, const char *what)
{
    for (int r = 0; r < ep.size; r++)
        for (int64_t i = 0; i < BLOCK; i++)
            expect(get(x, t, r * BLOCK + i) == factor * held(r, ep.rank * BLOCK + i), what, mega_dtype_name(t));
}

static void fill_blocks(void *x, mega_dtype t)
{
    for (int64_t i = 0; i < (int64_t)ep.size * BLOCK; i++) put(x, t, i, held(ep.rank, i));
}

/* Runs forward and backward, with an exchange of x that is needed or not: then its results are 0. */
static void run_op(mega_program *p, mega_dtype t, bool is_needed)
{
    const int factor = is_needed ? 2 : 0;
    *(int32_t *)mega_program_tensor(p, "needed", 0) = is_needed;
    need(mega_program_forward(p, 0));
    check_blocks(mega_program_tensor(p, "y", 0), t, factor, "the result");
    check_blocks(mega_program_tensor(p, "m", 0), MEGA_I32, 1, "the numbers");
    need(mega_program_backward(p, 0));
    check_blocks(mega_program_tensor(p, "dx", 0), t, factor, "the gradient");
}

/* y = the exchanged 2 x, and the exchange of numbers; dx = 2 times the exchanged dy. */
static void check_op(const mega_layout *layout, mega_world *world, mega_dtype t, mega_backend_kind backend)
{
    const int64_t one = 1;
    mega_graph *g = NULL;
    mega_program *p = NULL;
    const int64_t dim[2] = {(int64_t)ep.size * ROWS, COLS};
    need(mega_graph_create(t, NULL, layout, &g));
    const mega_tensor x = mega_graph_input(g, "x", t, 2, dim), n = mega_graph_input(g, "n", MEGA_I32, 2, dim);
    const mega_tensor needed = mega_graph_input(g, "needed", MEGA_I32, 1, &one);
    mega_graph_want_gradient(g, x, "dx");
    const mega_tensor y = mega_op_all_to_all(g, mega_op_scale(g, x, 2.0), needed, &ep);
    mega_graph_output(g, mega_op_all_to_all(g, n, (mega_tensor){0}, &ep), "m");
    mega_graph_output(g, y, "y");
    mega_graph_seed_gradient(g, y, "dy");
    const mega_program_options o = {.backend = backend, .differentiate = true, .name = "exchange", .world = world};
    need(mega_program_build(g, &o, &p));
    need(mega_program_compare_collectives(p, ep.comm));
    need(mega_program_allocate(p));
    fill_blocks(mega_program_tensor(p, "x", 0), t);
    fill_blocks(mega_program_tensor(p, "n", 0), MEGA_I32);
    fill_blocks(mega_program_tensor(p, "dy", 0), t);
    run_op(p, t, true);
    run_op(p, t, false);
    run_op(p, t, true);
    mega_program_destroy(p);
}

int main(void)
{
    static const mega_dtype types[] = {MEGA_F64, MEGA_F32, MEGA_BF16, MEGA_F16};
    mega_world *world;
    mega_layout *layout;
    need(mega_world_create(NULL, &world));
    need(mega_layout_create(world, &(mega_layout_sizes){.ep = mega_world_size(world)}, &layout));
    ep = layout->ep;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_op(layout, world, types[i], MEGA_BACKEND_PLAIN);
        if (types[i] != MEGA_F64) check_op(layout, world, types[i], MEGA_BACKEND_CPU);
    }
    mega_layout_destroy(layout);
    mega_world_destroy(world);
    return 0;
}
