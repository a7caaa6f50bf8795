/* A list of layers: one walk finds parameters, costs, borders and ties, from which parts are declared and described. */
#include "../model_impl.h"
#include "kit.h"
#include "megalith/model_parts.h"
#include "megalith/program.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 4, WIDE = 6 };

typedef struct scene {
    mega_layout *one, layout;
    mega_params *params;
    mega_model_parts *parts;
} scene;

static mega_tensor matrix(const mega_builder *b, const char *name, int64_t rows, int64_t columns)
{
    return mega_builder_param(b, name, rows, columns, &(mega_param_options){.init = MEGA_INIT_ONE});
}

/* The first layer: an input of WIDE channels; a second value passes through to the last layer. */
static void begin(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    const mega_tensor x = mega_input(b, "x", MEGA_F32, 1, WIDE);
    f->x = mega_op_linear(b->graph, x, matrix(b, "shared", 3, WIDE));
    f->more[2] = f->x;
}

static void widen(const mega_builder *b, const void *self, mega_flow *f)
{
    const int64_t *channels = self;
    f->x = mega_op_linear(b->graph, f->x, matrix(b, "w", *channels, mega_tensor_channels(b, f->x)));
}

static void finish(const mega_builder *b, const void *self, mega_flow *f)
{
    (void)self;
    const mega_tensor x = mega_op_linear(b->graph, f->x, matrix(b, "back", WIDE, mega_tensor_channels(b, f->x)));
    f->x = mega_op_linear(b->graph, x, matrix(b, "shared", 3, WIDE));
    mega_graph_output(b->graph, mega_op_add(b->graph, f->x, f->more[2]), "y");
}

static void stray(const mega_builder *b, const void *self, mega_flow *f)
{
    const int32_t *id = self;
    begin(b, NULL, f);
    f->more[1].id = *id;
}

static const int64_t four = 4, forty = 40;
/* Parameters of the six layers: 18, 12, 16, 160, 1600, 258. */
static const mega_layer layers[] = {{"m", begin, NULL, 1, "Start"},
                                    {"m.a.%d.x", widen, &four, 2, "Small"},
                                    {"m.b.%d", widen, &forty, 2, "Large"},
                                    {"m", finish, NULL, 0, NULL}};

static mega_model model_of(mega_partition partition, const char *type)
{
    return (mega_model){.name = "m", .layer = layers, .num_layers = 4, .partition = partition, .partition_type = type};
}

static void open_stage(scene *s, int stage, int stages)
{
    *s = (scene){.one = NULL};
    need(mega_layout_create(NULL, NULL, &s->one));
    s->layout = *s->one;
    s->layout.pp.rank = stage;
    s->layout.pp.size = stages;
    need(mega_params_create(&s->layout, &s->params));
}

static mega_status walk(scene *s, const mega_model *m, int parts)
{
    const mega_model_sizes sizes = {.mode = MEGA_EVAL, .samples = SAMPLES, .positions = 1};
    return mega_model_parts_create(m, &s->layout, MEGA_F32, sizes, parts, &s->parts);
}

static void close_stage(scene *s)
{
    mega_model_parts_destroy(s->parts);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->one);
}

static void expect_cut(const mega_model *m, int parts, const int *first)
{
    scene s;
    open_stage(&s, 0, parts);
    need(walk(&s, m, parts));
    for (int p = 0; p <= parts; p++)
        if (mega_model_parts_first(s.parts, p) != first[p])
            fail_msg("part %d of %d begins at %d; expected %d", p, parts, mega_model_parts_first(s.parts, p), first[p]);
    close_stage(&s);
}

static void every_way_to_cut(void **state)
{
    (void)state;
    const int at[] = {0, 1, 2};
    mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    expect_cut(&m, 1, (int[]){0, 6});
    expect_cut(&m, 4, (int[]){0, 2, 4, 5, 6});
    m = model_of(MEGA_PARTITION_PARAMETERS, NULL);
    expect_cut(&m, 2, (int[]){0, 5, 6});
    m = model_of(MEGA_PARTITION_FLOPS, NULL);
    expect_cut(&m, 2, (int[]){0, 5, 6});
    m = model_of(MEGA_PARTITION_TYPE, "^small|START");
    expect_cut(&m, 3, (int[]){0, 1, 2, 6});
    m = model_of(MEGA_PARTITION_TYPE, "b\\.%d|m$");
    m.layer = layers;
    expect_cut(&m, 2, (int[]){0, 5, 6});
    m.first_layer = at;
    expect_cut(&m, 3, (int[]){0, 1, 2, 6});
}

static void one_walk_finds_all(void **state)
{
    (void)state;
    static const double elements[] = {18, 12, 16, 160, 1600, 258};
    static const char *const name[] = {"m.shared", "m.a.0.x.w", "m.a.1.x.w", "m.b.0.w", "m.b.1.w", "m.back"};
    scene s;
    open_stage(&s, 0, 1);
    const mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    need(walk(&s, &m, 1));
    assert_int_equal(mega_model_parts_layers(s.parts), 6);
    assert_int_equal(mega_params_count(mega_model_parts_params(s.parts)), 6);
    for (int l = 0; l < 6; l++) {
        assert_true(mega_model_parts_flops(s.parts, l) == 2 * SAMPLES * elements[l]);
        assert_string_equal(mega_params_get(mega_model_parts_params(s.parts), l)->name, name[l]);
    }
    assert_true(mega_model_parts_hash(s.parts, 0, 3) != mega_model_parts_hash(s.parts, 0, 4));
    close_stage(&s);
}

static mega_tensor apply_scale(mega_graph *g, mega_tensor x, int way)
{
    return mega_op_scale(g, x, way == 0 ? 2.0 : 3.0);
}

static mega_tensor apply_activation(mega_graph *g, mega_tensor x, int way)
{
    return mega_op_activation(g, x, way == 0 ? MEGA_ACT_RELU : MEGA_ACT_GELU);
}

static mega_tensor apply_norm(mega_graph *g, mega_tensor x, int way)
{
    const mega_builder b = {.graph = g};
    const mega_tensor gain = mega_builder_param(&b, "gain", WIDE, 0, NULL),
                      bias = mega_builder_param(&b, "b", WIDE, 0, NULL);
    return mega_op_layer_norm(g, x, gain, bias, way == 0 ? 1e-5 : 1e-6);
}

static mega_tensor apply_operands(mega_graph *g, mega_tensor x, int way)
{
    const mega_tensor y = mega_op_scale(g, x, 1);
    return mega_op_mul(g, x, way == 0 ? x : y);
}

static void custom_shape(const void *self, const int64_t *rows_in, const int64_t *channels_in, int64_t *out_rows,
                         int64_t *out_channels)
{
    (void)self;
    *out_rows = *rows_in;
    *out_channels = *channels_in;
}

static mega_status custom_forward(const void *self, const mega_custom_call *call)
{
    (void)self;
    (void)call;
    return MEGA_OK;
}

static mega_tensor apply_custom(mega_graph *g, mega_tensor x, int way)
{
    static const mega_custom_op op[] = {{"one", 1, 1, custom_shape, custom_forward, NULL, true, 0},
                                        {"two", 1, 1, custom_shape, custom_forward, NULL, true, 0}};
    const mega_builder b = {.graph = g};
    mega_tensor y = mega_none();
    mega_custom(&b, &op[way], NULL, &x, &y);
    return y;
}

typedef struct applied {
    mega_tensor (*apply)(mega_graph *g, mega_tensor x, int way);
    int way;
} applied;

static void apply(const mega_builder *b, const void *self, mega_flow *f)
{
    const applied *a = self;
    f->x = a->apply(b->graph, mega_input(b, "x", MEGA_F32, 1, WIDE), a->way);
}

static void declare(const mega_builder *b, const void *self, mega_flow *f)
{
    f->x =
        mega_op_linear(b->graph, mega_input(b, "x", MEGA_F32, 1, WIDE), mega_builder_param(b, "w", WIDE, WIDE, self));
}

static uint64_t hash_of(void (*describe)(const mega_builder *, const void *, mega_flow *), const void *self)
{
    const mega_layer layer[] = {{"m", describe, self, 1, NULL}};
    const mega_model m = {.name = "m", .layer = layer, .num_layers = 1};
    scene s;
    open_stage(&s, 0, 1);
    need(walk(&s, &m, 1));
    const uint64_t hash = mega_model_parts_hash(s.parts, 0, 1);
    close_stage(&s);
    return hash;
}

/* The models have equal FLOPs, shapes and parameters but different ops. */
static void the_hash_knows_what_a_layer_computes(void **state)
{
    (void)state;
    mega_tensor (*const all[])(mega_graph *, mega_tensor, int) = {apply_scale, apply_activation, apply_norm,
                                                                  apply_operands, apply_custom};
    for (int i = 0; i < 5; i++) {
        const uint64_t hash = hash_of(apply, &(applied){all[i], 0});
        if (hash != hash_of(apply, &(applied){all[i], 0})) fail_msg("op %d: two hashes of one model", i);
        if (hash == hash_of(apply, &(applied){all[i], 1})) fail_msg("op %d: one hash of two models", i);
    }
}

static void the_hash_knows_how_a_file_holds_a_parameter(void **state)
{
    (void)state;
    const mega_param_options plain = {.num_parts = 1, .part = {{.rows = WIDE}}}, turned = {.transposed_in_file = true};
    const uint64_t hash = hash_of(declare, &(mega_param_options){.num_parts = 0});
    assert_true(hash_of(declare, &plain) == hash && hash_of(declare, &turned) != hash);
}

/* The first stage owns the parameter that the last shares; the stage in between has no copy. */
static void a_name_of_two_stages_is_tied(void **state)
{
    (void)state;
    static const mega_tie tie[] = {MEGA_TIE_OWNER, MEGA_TIE_NONE, MEGA_TIE_COPY};
    const mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    for (int stage = 0; stage < 3; stage++) {
        scene s;
        open_stage(&s, stage, 3);
        need(walk(&s, &m, 3));
        need(mega_model_parts_declare(s.parts, stage, s.params));
        const int shared = mega_params_find(s.params, "m.shared");
        assert_int_equal(shared >= 0, stage != 1);
        assert_int_equal(mega_model_parts_holds(s.parts, 0, stage), stage != 1);
        for (int i = 0; i < mega_params_count(s.params); i++)
            assert_int_equal(mega_params_get(s.params, i)->tie, i == shared ? tie[stage] : MEGA_TIE_NONE);
        close_stage(&s);
    }
}

/* With ZeRO 3 each layer has a bucket, and so has each parameter that several layers read. */
static void a_layer_is_a_bucket(void **state)
{
    (void)state;
    const mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    scene s;
    open_stage(&s, 0, 1);
    s.layout.dp.size = 2;
    need(walk(&s, &m, 1));
    need(mega_model_parts_declare(s.parts, 0, s.params));
    const mega_param more = {.name = "more", .num_dims = 1, .shape = {5}, .true_shape = {5}, .layer = 6};
    need(mega_params_add(s.params, &more, NULL));
    need(mega_params_shard(s.params, 3));
    need(mega_params_place(s.params, MEGA_F32, 0));
    assert_int_equal(mega_params_num_buckets(s.params), 6);
    const int back = mega_params_find(s.params, "m.back"), beside = mega_params_find(s.params, "more");
    assert_int_equal(mega_params_get(s.params, back)->layer, 6);
    assert_int_equal(mega_params_get(s.params, back)->bucket, mega_params_get(s.params, beside)->bucket);
    assert_int_equal(mega_params_get(s.params, mega_params_find(s.params, "m.a.1.x.w"))->layer, 3);
    assert_true(mega_params_get(s.params, mega_params_find(s.params, "m.shared"))->is_shared);
    close_stage(&s);
}

static bool has(const mega_program *p, const char *name, int64_t channels)
{
    mega_program_named t;
    for (int i = 0; mega_program_named_get(p, i, &t); i++)
        if (strcmp(t.name, name) == 0) return t.dim[0] == SAMPLES && t.dim[1] == channels;
    return false;
}

/* The middle stage receives two values and passes both on, one of them unchanged. */
static void a_part_is_a_program(void **state)
{
    (void)state;
    const mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    scene s;
    mega_graph *g;
    mega_program *p;
    open_stage(&s, 1, 3);
    need(walk(&s, &m, 3));
    assert_int_equal(mega_model_parts_values(s.parts), 2);
    need(mega_model_parts_declare(s.parts, 1, s.params));
    need(mega_params_place(s.params, MEGA_F32, 0));
    need(mega_graph_create(MEGA_F32, s.params, &s.layout, &g));
    need(mega_model_parts_describe(s.parts, 1, MEGA_TRAIN, g));
    need(mega_program_build(g, &(mega_program_options){.differentiate = true}, &p));
    assert_true(has(p, "stage_input", 4) && has(p, "stage_input.3", 3) && !has(p, "stage_input.1", 3));
    assert_true(has(p, "stage_output", 40) && has(p, "stage_output.3", 3));
    assert_true(has(p, "stage_input_gradient", 4) && has(p, "stage_input_gradient.3", 3));
    assert_true(has(p, "stage_output_gradient", 40) && has(p, "stage_output_gradient.3", 3));
    mega_program_destroy(p);
    close_stage(&s);
}

/* Regions have recompute_interval layers; a layer of another type ends a region. */
static void intervals_are_regions(void **state)
{
    (void)state;
    static const struct {
        int interval, most;
        const char *type;
        int regions;
    } way[] = {{0, 0, NULL, 0}, {1, 0, NULL, 6}, {2, 0, NULL, 3},    {4, 0, NULL, 2},
               {1, 2, NULL, 2}, {3, 0, "a", 2},  {1, 0, "large", 2}, {2, 0, "^small", 1}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
        scene s;
        mega_graph *g;
        m.recompute_interval = way[i].interval;
        m.recompute_regions = way[i].most;
        m.recompute_type = way[i].type;
        open_stage(&s, 0, 1);
        need(walk(&s, &m, 1));
        need(mega_model_parts_declare(s.parts, 0, s.params));
        for (mega_mode mode = MEGA_TRAIN; mode <= MEGA_EVAL; mode++) {
            need(mega_graph_create(MEGA_F32, s.params, &s.layout, &g));
            need(mega_model_parts_describe(s.parts, 0, mode, g));
            assert_int_equal(g->regions.count, mode == MEGA_TRAIN ? way[i].regions : 0);
            assert_int_equal(g->regions.open, 0);
            mega_graph_destroy(g);
        }
        close_stage(&s);
    }
}

/* ---- levels and regions of layers ---- */

/* Level k recomputes the k layers that cost the fewest FLOPs per byte; after them, regions grow by a layer each. */
static void levels_recompute_ever_more(void **state)
{
    (void)state;
    static const struct {
        int layers, regions;
        const char *region; /* whether each layer is recomputed, or the number of its region */
    } level[] = {{0, 0, "000000"}, {1, 1, "000100"}, {2, 2, NULL},     {3, 3, NULL},
                 {4, 4, NULL},     {5, 5, NULL},     {6, 6, "123456"}, {6, 3, "112233"},
                 {6, 2, "111222"}, {6, 2, "111122"}, {6, 2, "111112"}, {6, 1, "111111"}};
    const mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    scene s;
    open_stage(&s, 0, 1);
    need(walk(&s, &m, 1));
    assert_int_equal(mega_model_parts_levels(s.parts), 12);
    for (int i = 0; i < 12; i++) {
        int again, regions;
        need(mega_model_parts_set_level(s.parts, i));
        mega_model_parts_regions(s.parts, &again, &regions);
        assert_int_equal(again, level[i].layers);
        assert_int_equal(regions, level[i].regions);
        for (int l = 0; l < 6 && i >= 6; l++) assert_int_equal(s.parts->region[l], level[i].region[l] - '0');
    }
    need(mega_model_parts_set_level(s.parts, 1));
    double least = -1, chosen = 0;
    for (int l = 0; l < 6; l++) {
        const double ratio = s.parts->flops[l] / s.parts->bytes[l];
        least = least < 0 || ratio < least ? ratio : least;
        if (s.parts->region[l] != 0) chosen = ratio;
    }
    assert_true(chosen <= least);
    assert_int_equal(mega_model_parts_set_level(s.parts, 12), MEGA_ERR_USAGE);
    assert_int_equal(mega_model_parts_set_level(s.parts, -1), MEGA_ERR_USAGE);
    close_stage(&s);
}

/* A layer's own regions: begins, then ends, as often as the text says. */
static void own_regions(const mega_builder *b, const void *self, mega_flow *f)
{
    widen(b, &four, f);
    for (const char *c = self; *c != '\0'; c++) {
        if (*c == '(') mega_recompute_begin(b);
        else if (*c == ')')
            mega_recompute_end(b);
        else
            f->x = mega_op_scale(b->graph, f->x, 2.0);
    }
}

static mega_status describe_own(const char *text, int interval, int *regions, int *recomputed)
{
    const mega_layer list[] = {
        {"m", begin, NULL, 1, NULL}, {"m.own", own_regions, text, 1, "own"}, {"m", finish, NULL, 1, NULL}};
    const mega_model m = {
        .name = "m", .layer = list, .num_layers = 3, .recompute_interval = interval, .recompute_type = "own"};
    scene s;
    mega_graph *g = NULL;
    open_stage(&s, 0, 1);
    mega_status st = walk(&s, &m, 1);
    if (st == MEGA_OK) {
        need(mega_model_parts_declare(s.parts, 0, s.params));
        need(mega_graph_create(MEGA_F32, s.params, &s.layout, &g));
        st = mega_model_parts_describe(s.parts, 0, MEGA_TRAIN, g);
        *regions = g->regions.count;
        *recomputed = 0;
        for (int i = 0; i < g->num_ops; i++) *recomputed += g->op[i].kind == OP_SCALE && g->op[i].region != 0;
        mega_graph_destroy(g);
    }
    close_stage(&s);
    return st;
}

static void layers_begin_regions_of_their_own(void **state)
{
    (void)state;
    int regions, recomputed;
    need(describe_own("x(x)x(xx)", 0, &regions, &recomputed));
    assert_int_equal(regions, 2);
    assert_int_equal(recomputed, 3);
    need(describe_own("x(x(x)x)x", 0, &regions, &recomputed)); /* inner regions are part of the outer one */
    assert_int_equal(regions, 1);
    assert_int_equal(recomputed, 3);
    need(describe_own("x(x)x", 1, &regions, &recomputed)); /* and of that of the model */
    assert_int_equal(regions, 1);
    assert_int_equal(recomputed, 3);
    assert_int_equal(describe_own("x(x", 0, &regions, &recomputed), MEGA_ERR_USAGE);
    assert_non_null(
        strstr(mega_error_message(), "layer \"m.own\" (1 of the list of model m): 1 more calls of mega_rec"));
    assert_int_equal(describe_own("x)", 0, &regions, &recomputed), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "layer \"m.own\": mega_recompute_end without mega_recompute_begin"));
}

static void expect_mistake(const mega_model *m, int parts, const char *text)
{
    scene s;
    open_stage(&s, 0, parts);
    assert_int_equal(walk(&s, m, parts), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
    assert_null(s.parts);
    close_stage(&s);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const mega_layer without_path[] = {{NULL, begin, NULL, 1, NULL}},
                            backwards[] = {{"m", begin, NULL, -1, NULL}},
                            unreadable[] = {{"\xff\xfe", begin, NULL, 1, NULL}};
    static const int32_t far = INT32_MAX, below = -1;
    static const mega_layer strays[] = {{"m", stray, &far, 1, NULL}, {"m.%d", stray, &below, 2, NULL}};
    const int wrong[] = {0, 3, 3}, late[] = {1, 2, 3};
    mega_model m = model_of(MEGA_PARTITION_TYPE, "medium");
    expect_mistake(&m, 2, "no layer has a type that matches \"medium\"");
    m.partition_type = "(small";
    expect_mistake(&m, 2, "\"(small\" is no regular expression");
    m.partition_type = NULL;
    expect_mistake(&m, 2, "without partition_type");
    m.partition = MEGA_PARTITION_UNIFORM;
    expect_mistake(&m, 7, "6 layers in 7 parts");
    m.first_layer = wrong;
    expect_mistake(&m, 3, "part 1 would have layers 3 to 2");
    m.first_layer = late;
    expect_mistake(&m, 3, "from layer 0");
    m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    m.num_layers = 0;
    expect_mistake(&m, 1, "it has no layers");
    m = (mega_model){.layer = without_path, .num_layers = 1};
    expect_mistake(&m, 1, "row 0 of its layers has no path");
    m.layer = backwards;
    expect_mistake(&m, 1, "repeats -1 times");
    m = model_of((mega_partition)99, NULL);
    expect_mistake(&m, 1, "model m: partition 99; expected MEGA_PARTITION_PARAMETERS");
    m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    m.positions = -5;
    expect_mistake(&m, 1, "model m: positions -5; expected 1 or more");
    m = (mega_model){.layer = unreadable, .num_layers = 1};
    expect_mistake(&m, 1, "the name of a layer, \"\\xff\\xfe\", is not UTF-8");
    m.layer = &strays[0];
    expect_mistake(&m, 1, "leaves flow->more[1] as tensor 2147483647, which is none of this graph");
    m.layer = &strays[1];
    expect_mistake(&m, 1, "layer \"m.0\" (0 of the list");
}

/* Stage boundaries have no effect on one rank, which holds all stages. */
static void a_model_is_declared_without_an_engine(void **state)
{
    (void)state;
    static const int at[] = {0, 2};
    mega_model m = model_of(MEGA_PARTITION_UNIFORM, NULL);
    m.first_layer = at;
    for (int stage = -1; stage < 2; stage++) {
        scene s;
        mega_graph *g = NULL;
        const mega_model_sizes what = {.mode = MEGA_EVAL, .samples = SAMPLES, .positions = 1};
        open_stage(&s, stage < 0 ? 0 : stage, stage < 0 ? 1 : 2);
        need(mega_model_declare(&m, 1, s.params));
        /* the first and last stage request "m.shared" */
        assert_int_equal(mega_params_count(s.params), stage < 0 ? 6 : stage == 0 ? 2 : 5);
        need(mega_graph_create(MEGA_F32, s.params, &s.layout, &g));
        need(mega_model_describe(&m, 1, 0, what, g));
        assert_int_equal(mega_params_count(s.params), stage < 0 ? 6 : stage == 0 ? 2 : 5);
        assert_int_equal(mega_model_declare(NULL, 1, s.params), MEGA_ERR_USAGE);
        assert_int_equal(mega_model_declare(&m, 1, NULL), MEGA_ERR_USAGE);
        assert_int_equal(mega_model_describe(&m, 0, 0, what, g), MEGA_ERR_USAGE);
        assert_int_equal(mega_model_describe(&m, 1, 1, what, g), MEGA_ERR_USAGE);
        assert_int_equal(mega_model_describe(&m, 1, 0, what, NULL), MEGA_ERR_USAGE);
        mega_graph_destroy(g);
        close_stage(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_to_cut),
                                       cmocka_unit_test(one_walk_finds_all),
                                       cmocka_unit_test(the_hash_knows_what_a_layer_computes),
                                       cmocka_unit_test(the_hash_knows_how_a_file_holds_a_parameter),
                                       cmocka_unit_test(a_name_of_two_stages_is_tied),
                                       cmocka_unit_test(a_part_is_a_program),
                                       cmocka_unit_test(a_layer_is_a_bucket),
                                       cmocka_unit_test(intervals_are_regions),
                                       cmocka_unit_test(levels_recompute_ever_more),
                                       cmocka_unit_test(layers_begin_regions_of_their_own),
                                       cmocka_unit_test(mistakes_are_named),
                                       cmocka_unit_test(a_model_is_declared_without_an_engine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
