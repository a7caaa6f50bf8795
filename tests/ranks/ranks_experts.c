/* Tests what layers of experts do over ranks of expert parallelism. Usage: ranks_experts
 *
 * The op all_to_all, forward and backward, in each type: every element must come from the place that its position
 * says. And the layer mega_moe: each rank has tokens of its own and a share of the experts. Its result, the gradient of
 * its input and those of the router must be those of a layer that has all experts on this rank; the gradients of an
 * expert, the sums of theirs over the ranks. */
#include "megalith/experts.h"
#include "megalith/philox.h"
#include "megalith/program.h"
#include "rank.h"

#include <math.h>
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

/* ---- the layer ---- */

enum { C = 16, HIDDEN = 12 };

/* Which experts tokens choose: whatever their numbers say, on every rank each expert as often, all the last one first,
 * all but the second one. */
typedef enum choices { AT_RANDOM, EVENLY, ONE_FIRST, ALL_BUT_ONE } choices;

static const struct layer_case {
    const char *name;
    int experts, slots, tokens;
    double factor;
    choices how;
    int exchanges_2, exchanges_4; /* of a forward on 2 and 4 ranks; 0: any number */
    mega_expert_capacity capacity;
    int dropped; /* tokens of a rank that no expert computes; -1: any number */
} cases[] = {{"at random", 8, 2, 24, 0, AT_RANDOM, 0, 0, {.factor = 0}, 0},
             {"small buffer", 8, 2, 24, 0.3, AT_RANDOM, 0, 0, {.factor = 0}, 0},
             {"evenly", 8, 1, 32, 1, EVENLY, 2, 2, {.factor = 0}, 0},
             {"all to one expert", 8, 1, 32, 1, ONE_FIRST, 4, 8, {.factor = 0}, 0},
             {"one expert first, small buffer", 8, 3, 24, 0.3, ONE_FIRST, 0, 0, {.factor = 0}, 0},
             {"an expert without tokens", 8, 2, 24, 1, ALL_BUT_ONE, 0, 0, {.factor = 0}, 0},
             {"every expert", 4, 4, 8, 0, AT_RANDOM, 2, 2, {.factor = 0}, 0},
             {"an expert a rank", 4, 2, 8, 0, AT_RANDOM, 0, 2, {.factor = 0}, 0},
             {"one token", 8, 2, 1, 0, AT_RANDOM, 2, 2, {.factor = 0}, 0},
             {"a capacity", 8, 2, 24, 0.3, AT_RANDOM, 0, 0, {.factor = 0.75}, -1},
             {"a capacity by position", 8, 2, 24, 0, AT_RANDOM, 0, 0, {.factor = 0.5, .by_position = true}, -1},
             {"one expert first, a capacity", 8, 3, 24, 0, ONE_FIRST, 2, 2, {.factor = 1}, -1},
             {"all to one expert, a capacity", 8, 1, 32, 1, ONE_FIRST, 2, 2, {.factor = 1}, 28},
             {"all to one expert, at least seven", 8, 1, 32, 1, ONE_FIRST, 0, 0, {.factor = 0.1, .least = 7}, 25},
             {"every expert, half of the tokens", 4, 4, 8, 0, AT_RANDOM, 0, 0, {.factor = 0.5, .by_position = true}, 4},
             {"all to one expert, a wide capacity", 8, 1, 32, 1, ONE_FIRST, 4, 8, {.factor = 9}, 0}};

typedef struct run {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    mega_dtype dtype;
    int forward, backward; /* exchanges over ep */
} run;

static double number(uint32_t what, int64_t i)
{
    const mega_philox r = mega_philox4x32((mega_philox){{(uint32_t)i, what, 0, 0}}, 3, 4);
    return (double)r.v[0] / 4294967296.0 - 0.5;
}

static double real(const void *x, mega_dtype t, int64_t i)
{
    return t == MEGA_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void set_real(void *x, mega_dtype t, int64_t i, double v)
{
    if (t == MEGA_F64) ((double *)x)[i] = v;
    else
        ((float *)x)[i] = (float)v;
}

static mega_tensor expert(const mega_builder *b, const mega_experts *e, mega_tensor x, const void *self)
{
    const mega_linear_options no_bias = {.no_bias = true};
    (void)self;
    x = mega_activation(b, mega_experts_column_linear(b, e, "experts.#.up", x, HIDDEN, NULL), MEGA_ACT_SILU);
    return mega_experts_row_linear(b, e, "experts.#.down", x, C, &no_bias);
}

static void describe(run *r, const struct layer_case *c, mega_world *world)
{
    mega_builder b = {.layout = r->layout, .samples = 1, .positions = c->tokens, .path = "m"};
    const int64_t dim[2] = {c->tokens, C}, experts = c->experts;
    need(mega_graph_create(r->dtype, r->params, r->layout, &b.graph));
    const mega_tensor x = mega_graph_input(b.graph, "x", r->dtype, 2, dim);
    mega_graph_want_gradient(b.graph, x, "dx");
    const mega_moe_options o = {
        .num_experts = experts,
        .buffer_factor = c->factor,
        .capacity = c->capacity,
        .router = {.route = {.score = MEGA_ROUTE_SOFTMAX, .choices = c->slots, .normalized = true},
                   .choice_bias = mega_graph_input(b.graph, "choice_bias", r->dtype, 1, &experts)}};
    mega_router_result router;
    const mega_tensor y = mega_moe(&b, "moe", x, &o, expert, NULL, &router);
    if (world != NULL) mega_graph_output(b.graph, router.later, "later");
    mega_graph_output(b.graph, y, "y");
    mega_graph_seed_gradient(b.graph, y, "dy");
    need(mega_params_place(r->params, r->dtype, 0));
    need(mega_params_allocate(r->params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    const mega_program_options p = {.backend = r->dtype == MEGA_F64 ? MEGA_BACKEND_PLAIN : MEGA_BACKEND_CPU,
                                    .differentiate = true,
                                    .name = c->name,
                                    .world = world};
    need(mega_program_build(b.graph, &p, &r->program));
    need(mega_program_allocate(r->program));
}

/* Sets parameters by their names, and inputs by this rank. */
static void fill(const run *r, const struct layer_case *c)
{
    for (int i = 0; i < mega_params_count(r->params); i++) {
        const mega_param *p = mega_params_get(r->params, i);
        for (int64_t k = 0; k < p->count; k++)
            set_real(mega_params_master(r->params, i), r->dtype, k, number(mega_name_hash(p->name), k));
    }
    const int gate = mega_params_find(r->params, "m.moe.gate.weight");
    for (int64_t e = 0; e < c->experts; e++) /* expert e reads channel e */
        set_real(mega_params_master(r->params, gate), r->dtype, e * C + e, 10.0);
    for (int64_t i = 0; i < (int64_t)c->tokens * C; i++) {
        const bool is_chosen = c->how == EVENLY && i % C == i / C % c->experts;
        const int64_t at = (int64_t)ep.rank * c->tokens * C + i;
        set_real(mega_program_tensor(r->program, "x", 0), r->dtype, i, number(1, at) + (is_chosen ? 5.0 : 0.0));
        set_real(mega_program_tensor(r->program, "dy", 0), r->dtype, i, number(2, at));
    }
    for (int64_t e = 0; e < c->experts; e++) {
        const bool is_first = c->how == ONE_FIRST && e == c->experts - 1, is_last = c->how == ALL_BUT_ONE && e == 1;
        set_real(mega_program_tensor(r->program, "choice_bias", 0), r->dtype, e, is_first ? 1e3 : is_last ? -1e3 : 0.0);
    }
}

/* Computes a case, over the ranks of ep or on this rank alone. */
static void open_run(run *r, const struct layer_case *c, mega_world *world, mega_dtype dtype)
{
    *r = (run){.dtype = dtype};
    need(mega_layout_create(world, &(mega_layout_sizes){.ep = ep.size * (world != NULL)}, &r->layout));
    need(mega_params_create(r->layout, &r->params));
    describe(r, c, world);
    mega_step_block *step = mega_program_step_block(r->program);
    step->loss_factor = 1.0;
    step->first_micro_batch = step->last_micro_batch = true;
    fill(r, c);
    const mega_comm *comm = r->layout->ep.comm;
    const uint64_t before = mega_comm_sequence(comm);
    need(mega_program_forward(r->program, 0));
    r->forward = (int)(mega_comm_sequence(comm) - before);
    need(mega_program_backward(r->program, 0));
    r->backward = (int)(mega_comm_sequence(comm) - before) - r->forward;
}

static void close_run(run *r)
{
    mega_program_destroy(r->program);
    mega_params_destroy(r->params);
    mega_layout_destroy(r->layout);
}

static void expect_near(const struct layer_case *c, const char *what, const run *r, const void *found,
                        const void *expected, int64_t count)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        const double e = real(expected, r->dtype, i), d = real(found, r->dtype, i) - e;
        apart += d * d;
        size += e * e;
    }
    const double relative = sqrt(apart / (size > 0 ? size : 1));
    if (relative <= (r->dtype == MEGA_F64 ? 1e-12 : 1e-5)) return;
    fprintf(stderr, "%s, rank %d of %d, %s: %s is %.3g apart\n", c->name, ep.rank, ep.size, mega_dtype_name(r->dtype),
            what, relative);
    exit(1);
}

/* A forward first exchanges the numbers of rows, then twice a round. A backward does that twice for rounds after the
 * first, which it computes again; how many these are is a result. */
static void check_exchanges(const struct layer_case *c, const run *r)
{
    const double later = real(mega_program_tensor(r->program, "later", 0), r->dtype, 0);
    expect(r->forward == 3 + 2 * later && r->backward == 2 + 4 * later, "the rounds after the first", c->name);
    const int wanted = ep.size == 2 ? c->exchanges_2 : c->exchanges_4;
    if (wanted == 0 || (r->forward == wanted + 1 && r->backward == 2 * wanted - 2)) return;
    fprintf(stderr, "%s, %d ranks: %d and %d exchanges, expected %d and %d\n", c->name, ep.size, r->forward,
            r->backward, wanted + 1, 2 * wanted - 2);
    exit(1);
}

/* Tokens that no expert computes have zeros. */
static void check_dropped(const struct layer_case *c, const run *r)
{
    int zeros = 0;
    for (int t = 0; t < c->tokens; t++) {
        bool is_zero = true;
        for (int i = 0; i < C; i++)
            is_zero = is_zero && real(mega_program_tensor(r->program, "y", 0), r->dtype, (int64_t)t * C + i) == 0;
        zeros += is_zero;
    }
    expect(c->dropped < 0 || zeros == c->dropped, "another number of tokens is dropped", c->name);
}

static void check_layer(const struct layer_case *c, mega_world *world, mega_dtype dtype)
{
    static const char *const tensors[] = {"y", "dx"};
    run many, one;
    open_run(&many, c, world, dtype);
    open_run(&one, c, NULL, dtype);
    for (int i = 0; i < 2; i++)
        expect_near(c, tensors[i], &many, mega_program_tensor(many.program, tensors[i], 0),
                    mega_program_tensor(one.program, tensors[i], 0), (int64_t)c->tokens * C);
    for (int i = 0; i < mega_params_count(one.params); i++) {
        const mega_param *p = mega_params_get(one.params, i);
        const int own = mega_params_find(many.params, p->name);
        const bool is_expert = strstr(p->name, "experts") != NULL;
        void *grad = mega_params_grad(one.params, i);
        if (is_expert) need(mega_comm_all_reduce(ep.comm, p->name, grad, p->count, dtype, MEGA_REDUCE_SUM));
        if (own >= 0) expect_near(c, p->name, &many, mega_params_grad(many.params, own), grad, p->count);
        else
            expect(is_expert, "a parameter is missing", p->name);
    }
    mega_program_cost cost[2];
    mega_program_cost_get(many.program, &cost[0]);
    mega_program_cost_get(one.program, &cost[1]);
    expect(cost[0].forward_flops == cost[1].forward_flops && cost[0].backward_flops == cost[1].backward_flops,
           "the FLOPs are not those of one rank", c->name);
    check_exchanges(c, &many);
    check_dropped(c, &many);
    close_run(&many);
    close_run(&one);
}

/* Options that no rank can take: each rank says what is wrong, before anything is exchanged. */
static void check_refusals(mega_world *world)
{
    static const struct {
        int64_t experts;
        double factor;
        const char *says;
        mega_expert_capacity capacity;
    } wrong[] = {
        {7, 0, "layer \"m\", moe: 7 experts over %d ranks of ep; expected a multiple of the ranks", {.factor = 0}},
        {8, -1, "layer \"m\", moe: buffer_factor -1; expected a number above 0, or 0 for 1.5", {.factor = 0}},
        {8, NAN, "layer \"m\", moe: buffer_factor nan; expected a number above 0", {.factor = 0}},
        {8, 0, "layer \"m\", moe: capacity of factor nan, at least 0, of", {.factor = NAN}},
        {8, 0, "layer \"m\", moe: capacity of factor 1, at least -1, of", {.factor = 1, .least = -1}},
        {8, 0, "moe: groups of 3 samples in a micro-batch of 1 samples", {.factor = 1, .group = 3}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run r = {.dtype = MEGA_F64};
        char says[160];
        const int64_t dim[2] = {4, C};
        need(mega_layout_create(world, &(mega_layout_sizes){.ep = ep.size}, &r.layout));
        need(mega_params_create(r.layout, &r.params));
        mega_builder b = {.layout = r.layout, .samples = 1, .positions = 4, .path = "m"};
        need(mega_graph_create(r.dtype, r.params, r.layout, &b.graph));
        const mega_moe_options o = {.num_experts = wrong[i].experts,
                                    .buffer_factor = wrong[i].factor,
                                    .capacity = wrong[i].capacity,
                                    .router = {.route = {.choices = 1}}};
        mega_moe(&b, "moe", mega_graph_input(b.graph, "x", r.dtype, 2, dim), &o, expert, NULL, NULL);
        snprintf(says, sizeof says, wrong[i].says, ep.size);
        expect(mega_graph_status(b.graph) == MEGA_ERR_USAGE && strstr(mega_error_message(), says) != NULL, "a message",
               mega_error_message());
        mega_graph_destroy(b.graph);
        mega_params_destroy(r.params);
        mega_layout_destroy(r.layout);
    }
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_layer(&cases[i], world, MEGA_F64);
        check_layer(&cases[i], world, MEGA_F32);
    }
    check_refusals(world);
    mega_layout_destroy(layout);
    mega_world_destroy(world);
    return 0;
}
