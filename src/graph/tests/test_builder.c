/* Parameters and inputs by request: the first request declares, a later one shares, and one that does not match causes
 * an error that names both. */
#include "kit.h"
#include "megalith/builder.h"
#include "megalith/philox.h"
#include "megalith/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, S = 3, C = 8, F = 12 };

typedef struct sketch {
    mega_layout *one, layout;
    mega_params *params;
    mega_builder b;
} sketch;

static mega_builder builder_of(const sketch *k)
{
    mega_builder b = {.layout = &k->layout, .samples = B, .positions = S, .path = "m"};
    need(mega_graph_create(MEGA_F32, k->params, &k->layout, &b.graph));
    return b;
}

/* Starts a sketch on rank `rank` of `size` tp ranks. */
static void begin(sketch *k, int rank, int size)
{
    *k = (sketch){.one = NULL};
    need(mega_layout_create(NULL, NULL, &k->one));
    k->layout = *k->one;
    k->layout.tp.rank = rank;
    k->layout.tp.size = size;
    need(mega_params_create(&k->layout, &k->params));
    k->b = builder_of(k);
}

static void end(sketch *k)
{
    mega_graph_destroy(k->b.graph);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->one);
}

static void expect_error(const mega_builder *b, const char *text)
{
    assert_int_equal(mega_graph_status(b->graph), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
}

static void the_first_request_declares(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 1, 2);
    const mega_param_options o = {
        .init = MEGA_INIT_NORMAL, .init_std = 0.5, .shard_rows = true, .blocks = 3, .transposed_in_file = true};
    const mega_builder at = mega_builder_at(&k.b, "h.%d", 3);
    const mega_tensor w = mega_builder_param(&at, "up.weight", 3 * F, C, &o);
    const mega_tensor bias = mega_builder_param(&at, "up.bias", F, 0, NULL);
    const mega_tensor table =
        mega_builder_param(&k.b, "wte.weight", 16, C,
                           &(mega_param_options){.shard_columns = true, .padding_rows = 5, .decay = MEGA_DECAY_NO});
    need(mega_graph_status(k.b.graph));
    assert_int_equal(mega_params_count(k.params), 3);
    assert_int_equal(mega_tensor_rows(&at, w), 3 * F / 2);
    assert_int_equal(mega_tensor_channels(&at, w), C);
    assert_int_equal(mega_tensor_rows(&at, bias), F);
    assert_int_equal(mega_tensor_channels(&at, bias), 0);
    assert_int_equal(mega_tensor_channels(&at, table), C / 2);
    const mega_param *r = mega_params_get(k.params, 0);
    assert_string_equal(r->name, "m.h.3.up.weight");
    assert_true(r->axis == MEGA_AXIS_TP && r->cut_dim == 0 && r->num_parts == 3 && r->weight_decay);
    assert_true(r->init == MEGA_INIT_NORMAL && r->init_std == 0.5 && r->transposed_in_file);
    assert_false(r->grads_are_partial);
    r = mega_params_get(k.params, 1);
    assert_string_equal(r->name, "m.h.3.up.bias");
    assert_true(r->axis == MEGA_AXIS_NONE && r->num_parts == 1 && !r->weight_decay && r->init == MEGA_INIT_ZERO);
    r = mega_params_get(k.params, 2);
    assert_true(r->cut_dim == 1 && r->true_shape[0] == 11 && r->shape[0] == 16 && !r->weight_decay);
    assert_true(r->init == MEGA_INIT_FAN_IN); /* the default for matrices; vectors are zero by default */
    end(&k);
}

/* With sequence parallelism, a replicated parameter only sees the rows of its rank. */
/* What a layer of experts does: one tensor of several parameters, each with its own name and tensor of the file. */
static void numbered_parameters_are_one_tensor(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 1, 2);
    const mega_param_options o = {
        .init = MEGA_INIT_NORMAL,
        .init_std = 0.5,
        .shard_rows = true,
        .num_parts = 2,
        .part = {{.file = "experts.#.gate.weight", .rows = F}, {.file = "experts.#.up.weight", .rows = F}}};
    const mega_builder at = mega_builder_at(&k.b, "h.%d", 3);
    const mega_tensor w = mega_builder_params(&at, "experts.#.both.weight", 5, 2 * F, C, &o);
    need(mega_graph_status(k.b.graph));
    assert_int_equal(mega_graph_dim_count(k.b.graph, w), 2);
    assert_int_equal(mega_graph_dim(k.b.graph, w, 0), 5 * F); /* F: half of 2 F, on two ranks */
    assert_int_equal(mega_graph_dim(k.b.graph, w, 1), C);
    const mega_tensor bias = mega_builder_params(&at, "experts.#.bias", 5, 3, 0, NULL);
    assert_int_equal(mega_graph_dim(k.b.graph, bias, 0), 5);
    assert_int_equal(mega_graph_dim(k.b.graph, bias, 1), 3);
    assert_int_equal(mega_params_count(k.params), 10);
    const int first = mega_params_find(k.params, "m.h.3.experts.0.both.weight");
    assert_int_equal(mega_params_joined(k.params, first), 5);
    for (int i = 0, file; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "m.h.3.experts.%d.up.weight", i);
        assert_int_equal(mega_params_find_file(k.params, name, &file), first - i);
        assert_int_equal(file, 1);
    }
    assert_int_equal(mega_builder_params(&at, "experts.#.both.weight", 5, 2 * F, C, NULL).id, w.id);
    const mega_param_options stacked = {.is_stacked = true,
                                        .shard_rows = true,
                                        .num_parts = 2,
                                        .part = {{.file = "all", .rows = F, .stride = 2, .block = 1},
                                                 {.file = "all", .rows = F, .first = 1, .stride = 2, .block = 1}}};
    mega_builder_params(&at, "stacked.#", 3, 2 * F, C, &stacked);
    need(mega_graph_status(k.b.graph));
    for (int i = 0; i < 3; i++) {
        char name[32];
        int64_t shape[2];
        snprintf(name, sizeof name, "m.h.3.stacked.%d", i);
        const mega_param *r = mega_params_get(k.params, mega_params_find(k.params, name));
        assert_true(r->stack_at == i && r->stack_of == 3 && mega_param_shares_file(r, 0));
        assert_string_equal(mega_param_file_name(r, 0), "m.h.3.all");
        mega_param_file_shape(r, 0, shape);
        assert_true(shape[0] == 2 * F && shape[1] == C);
    }
    const mega_tensor alone = mega_builder_params(&at, "alone.weight", 1, F, C, NULL);
    assert_int_equal(mega_graph_dim(k.b.graph, alone, 0), F);
    assert_int_equal(mega_params_joined(k.params, mega_params_find(k.params, "m.h.3.alone.weight")), 1);
    mega_builder_param(&at, "experts.4.both.weight", 2 * F, C, NULL);
    expect_error(&at, "requested alone, and also as one of several");
    end(&k);
    static const struct {
        const char *name;
        int64_t count;
        const char *answer;
    } wrong[] = {
        {"experts.weight", 2, "expected one # in it"},  {"experts.#.#.weight", 2, "expected one # in it"},
        {"experts.#.weight", 0, "0 parameters called"}, {NULL, 2, "and a name"},
        {"few.#.weight", 3, "declared apart"},          {"many.#.weight", 3, "of which an earlier request made 4"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin(&k, 0, 1);
        mega_builder_params(&k.b, "few.#.weight", 2, F, C, NULL);
        mega_builder_params(&k.b, "many.#.weight", 4, F, C, NULL);
        assert_int_equal(mega_builder_params(&k.b, wrong[i].name, wrong[i].count, F, C, NULL).id, 0);
        expect_error(&k.b, wrong[i].answer);
        end(&k);
    }
}

static void sequence_parallel_gradients_are_partial(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 2);
    mega_graph_set_sequence_parallel(k.b.graph, true);
    mega_builder_param(&k.b, "norm.weight", C, 0, NULL);
    mega_builder_param(&k.b, "up.weight", F, C, &(mega_param_options){.shard_rows = true});
    need(mega_graph_status(k.b.graph));
    assert_true(mega_params_get(k.params, 0)->grads_are_partial);
    assert_false(mega_params_get(k.params, 1)->grads_are_partial);
    end(&k);
}

/* A second graph declares the parameters that the first lacks and shares the rest. Both are built after placement. */
static void graphs_share_parameters(void **state)
{
    (void)state;
    enum { MANY = 200 }; /* more than the initial capacity of any list of a graph */
    sketch k;
    mega_program *p[2] = {NULL, NULL};
    begin(&k, 0, 1);
    mega_builder both[2] = {k.b, builder_of(&k)};
    for (int i = 0; i < 2; i++) {
        mega_tensor x = mega_input(&both[i], "x", MEGA_F32, S, C);
        for (int n = 0; n < (i == 0 ? 1 : MANY); n++) {
            const mega_builder at = mega_builder_at(&both[i], "h.%d", n);
            const mega_tensor w = mega_builder_param(&at, "weight", C, C, NULL);
            assert_int_equal(w.id, mega_builder_param(&at, "weight", C, C, NULL).id);
            x = mega_op_linear(both[i].graph, x, w);
        }
        mega_graph_seed_gradient(both[i].graph, x, "dx");
        need(mega_graph_status(both[i].graph));
    }
    assert_int_equal(mega_params_count(k.params), MANY);
    need(mega_params_place(k.params, MEGA_F32, 0));
    mega_builder_param(&both[1], "h.0.weight", C, C, NULL); /* it is still found after that */
    for (int i = 0; i < 2; i++)
        need(mega_program_build(both[i].graph, &(mega_program_options){.differentiate = true}, &p[i]));
    need(mega_params_allocate(k.params, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    for (int i = 0; i < 2; i++) {
        need(mega_program_allocate(p[i]));
        need(mega_program_forward(p[i], 0));
        need(mega_program_backward(p[i], 0));
        mega_program_destroy(p[i]);
    }
    k.b.graph = NULL;
    end(&k);
}

static void requests_that_disagree_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns;
        mega_param_options options;
        const char *message;
    } wrong[] = {
        {F + 1, C, {0}, "parameter m.w: this request is for [13, 8], but an earlier one declared [12, 8]; "},
        {F, 0, {0}, "this request is for [12], but an earlier one declared [12, 8]"},
        {F,
         C,
         {.shard_columns = true},
         "for [12, 8], columns cut in 1 part, but an earlier one declared [12, 8], rows "
         "cut in 3 parts"},
        {F, C, {.shard_rows = true}, "rows cut in 1 part, but"},
        {F, C, {.init = MEGA_INIT_ONE}, "[12, 8], not cut, but"},
        {F, C, {.shard_rows = true, .blocks = 3}, "parameter m.w: this request has other options"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .padding_rows = 1}, "has other options"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .decay = MEGA_DECAY_NO}, "has other options"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .init_std = 1}, "has other options"},
        {F, C, {.init_std = 1}, "[12, 8], not cut, but"},
        {F, C, {.is_buffer = true}, "[12, 8], not cut, but"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .is_buffer = true}, "has other options"},
        {F,
         C,
         {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .file_dims = 2, .file_dim = {C, F}},
         "has other options"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .lr_scale = 2}, "has other options"},
        {F, C, {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE, .is_frozen = true}, "has other options"},
        {F, C, {.shard_rows = true, .shard_columns = true}, "parameter m.w: shard_rows and shard_columns are both set"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sketch k;
        begin(&k, 0, 1);
        const mega_param_options first = {.shard_rows = true, .blocks = 3, .init = MEGA_INIT_ONE};
        mega_builder_param(&k.b, "w", F, C, &first);
        mega_builder_param(&k.b, "w", F, C, &first);
        mega_builder_param(&k.b, "w", F, C, NULL);
        need(mega_graph_status(k.b.graph));
        const mega_tensor none = mega_builder_param(&k.b, "w", wrong[i].rows, wrong[i].columns, &wrong[i].options);
        assert_int_equal(none.id, 0);
        expect_error(&k.b, wrong[i].message);
        end(&k);
    }
}

static void expect_wrong(const mega_param_options *o, const char *message)
{
    sketch k;
    begin(&k, 0, 1);
    mega_builder_param(&k.b, "w", F, C, o);
    expect_error(&k.b, message);
    end(&k);
}

static void buffers_and_dimensions_of_files_are_checked(void **state)
{
    (void)state;
    expect_wrong(&(mega_param_options){.buffer_momentum = 0.1, .buffer_samples = 1},
                 "buffer_momentum 0.1 of groups of 1 samples; expected");
    expect_wrong(&(mega_param_options){.is_buffer = true, .buffer_momentum = 0.1}, "0.1 of groups of 0 samples");
    expect_wrong(&(mega_param_options){.is_buffer = true, .buffer_momentum = 1.5, .buffer_samples = 1},
                 "buffer_momentum 1.5");
    expect_wrong(&(mega_param_options){.buffer_rate = 0.1, .buffer_choices = 1},
                 "buffer_rate 0.1 of 1 choices; expected");
    expect_wrong(&(mega_param_options){.is_buffer = true, .buffer_rate = -1, .buffer_choices = 1}, "buffer_rate -1");
    expect_wrong(&(mega_param_options){.lr_scale = -1}, "parameter m.w: lr_scale -1; expected a factor above 0");
    expect_wrong(&(mega_param_options){.file_dims = 3, .file_dim = {F, 2, C}},
                 "parameter m.w: 3 file_dims, [12, 2, 8, 0]; expected 1 to 4 that hold its 96 elements");
    expect_wrong(&(mega_param_options){.file_dims = 5, .file_dim = {F, 1, 1, C}}, "5 file_dims");
    expect_wrong(&(mega_param_options){.file_dims = 2, .file_dim = {-F, -C}}, "2 file_dims");
    expect_wrong(&(mega_param_options){.file_dims = 1, .file_dim = {F * C}, .transposed_in_file = true},
                 "of what is not transposed in the file");
}

static void options_of_parameters_are_in_range(void **state)
{
    (void)state;
    expect_wrong(&(mega_param_options){.shard_rows = true, .blocks = -1},
                 "parameter m.w: -1 blocks; expected 1 or more");
    expect_wrong(&(mega_param_options){.init = (mega_init)99}, "parameter m.w: init 99; expected a kind of mega_init");
    expect_wrong(&(mega_param_options){.init = MEGA_INIT_NORMAL, .init_std = -1},
                 "parameter m.w: init_std -1; expected");
    expect_wrong(&(mega_param_options){.init = MEGA_INIT_NORMAL, .init_std = (double)NAN},
                 "m.w: init_std nan; expected");
    expect_wrong(&(mega_param_options){.init_std = (double)INFINITY}, "parameter m.w: init_std inf; expected a finite");
    expect_wrong(&(mega_param_options){.decay = (mega_decay)77},
                 "parameter m.w: decay 77; expected MEGA_DECAY_DEFAULT");
    expect_wrong(&(mega_param_options){.padding_rows = -1}, "parameter m.w: padding_rows -1; expected 0 or more");
    expect_wrong(&(mega_param_options){.lr_scale = (double)NAN}, "parameter m.w: lr_scale");
    expect_wrong(&(mega_param_options){.file_dims = -1}, "parameter m.w: -1 file_dims");
    expect_wrong(&(mega_param_options){.is_stacked = true}, "parameter m.w: is_stacked of one parameter");
}

/* A checkpoint with any other name could be written but not read. */
static void names_are_text(void **state)
{
    (void)state;
    static const char *const name[] = {"\xff\xfe", "a\nb", "\x7f"};
    static const char *const shown[] = {"\\xff\\xfe\"", "a\\x0ab\"", "\\x7f\""};
    for (int i = 0; i < 3; i++)
        for (int kind = 0; kind < 6; kind++) {
            static const char *const what[] = {"a parameter", "an input", "an output", "a loss", "a part of it"};
            sketch k;
            begin(&k, 0, 1);
            const mega_tensor x = mega_input(&k.b, "x", MEGA_F32, S, C);
            const mega_loss sum = mega_op_weighted_sum(k.b.graph, mega_input(&k.b, "v", MEGA_F32, S, 0), mega_none());
            need(mega_graph_status(k.b.graph));
            if (kind == 0) mega_builder_param(&k.b, name[i], F, C, NULL);
            if (kind == 1) mega_input(&k.b, name[i], MEGA_F32, S, C);
            if (kind == 2) mega_output(&k.b, name[i], x);
            if (kind == 3) mega_loss_add(&k.b, name[i], sum, 0);
            if (kind == 4) mega_builder_at(&k.b, "%s", name[i]);
            if (kind < 5) {
                expect_error(&k.b, what[kind]);
                expect_error(&k.b, shown[i]);
                expect_error(&k.b, "is not UTF-8 text without control characters; choose another name");
            } else {
                mega_param record = {.num_dims = 1, .shape = {5}, .true_shape = {5}};
                snprintf(record.name, sizeof record.name, "%s", name[i]);
                assert_int_equal(mega_params_add(k.params, &record, NULL), MEGA_ERR_USAGE);
                assert_non_null(strstr(mega_error_message(), "its name is not UTF-8 text"));
            }
            end(&k);
        }
}

static void inputs_of_ids_have_no_channels(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 1);
    mega_input(&k.b, "q", MEGA_I32, 1, 5);
    expect_error(&k.b, "layer \"m\": input \"q\" is requested as i32 with 5 channels; expected f32, or 0 channels");
    end(&k);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    sketch k;
    char name[MEGA_PARAM_NAME];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    begin(&k, 0, 2);
    mega_builder_param(&k.b, name, C, 0, NULL);
    expect_error(&k.b, "its name has 97 characters; expected at most 95");
    end(&k);

    begin(&k, 0, 2);
    mega_builder_param(&k.b, "", C, 0, NULL);
    expect_error(&k.b, "layer \"m\": a parameter is requested without a name");
    end(&k);

    begin(&k, 0, 2);
    mega_builder_param(&k.b, "w", C + 1, C, &(mega_param_options){.shard_rows = true});
    expect_error(&k.b,
                 "parameter m.w: part 0 of 1 has 9 rows, which cannot be cut over 2 ranks; expected a multiple of 2");
    end(&k);

    begin(&k, 0, 2);
    need(mega_params_place(k.params, MEGA_F32, 0));
    mega_builder_param(&k.b, "late", C, C, NULL);
    expect_error(&k.b, "parameter m.late: first requested after mega_params_place");
    end(&k);

    begin(&k, 0, 2); /* each program of a pipeline stage has its own buckets */
    mega_builder_param(&k.b, "w", C, C, NULL);
    mega_params_next_part(k.params);
    mega_builder_param(&k.b, "v", C, C, NULL);
    need(mega_graph_status(k.b.graph));
    mega_builder_param(&k.b, "w", C, C, NULL);
    assert_int_equal(mega_graph_status(k.b.graph), MEGA_ERR_UNSUPPORTED);
    assert_non_null(strstr(mega_error_message(), "parameter m.w: two programs of one pipeline stage request it"));
    end(&k);

    begin(&k, 0, 2); /* an error of the layer itself; the first error is kept */
    mega_builder_fail(&k.b, MEGA_OK);
    mega_builder_fail(&k.b, MEGA_FAIL(MEGA_ERR_USAGE, "the layer has three legs"));
    assert_int_equal(mega_builder_param(&k.b, "w", C, C, NULL).id, 0);
    mega_builder_at(&k.b, "%s", name);
    expect_error(&k.b, "the layer has three legs");
    assert_int_equal(mega_params_count(k.params), 0);
    end(&k);

    begin(&k, 0, 2);
    mega_builder bare = k.b;
    need(mega_graph_create(MEGA_F32, NULL, &k.layout, &bare.graph));
    mega_builder_param(&bare, "w", C, C, NULL);
    expect_error(&bare, "parameter m.w: the graph was created without a list of parameters");
    mega_graph_destroy(bare.graph);
    end(&k);
}

static void missing_names_are_refused(void **state)
{
    (void)state;
    sketch k;
    for (int i = 0; i < 3; i++) { /* parts without a name: their parameters would have names such as "m..w" */
        const char *const part[] = {NULL, "", "%s"};
        begin(&k, 0, 2);
        const mega_builder at = mega_builder_at(&k.b, part[i], "");
        expect_error(&k.b, "layer \"m\": a part of it has no name; give it one");
        assert_string_equal(at.path, "m");
        end(&k);
    }
    for (int i = 0; i < 2; i++) {
        begin(&k, 0, 2);
        mega_builder_dropout_site(&k.b, i == 0 ? NULL : "");
        expect_error(&k.b, "layer \"m\": a dropout has no name; give it one");
        end(&k);
    }
}

static void programs_need_placed_parameters(void **state)
{
    (void)state;
    sketch k;
    mega_program *p = NULL;
    begin(&k, 0, 1);
    const mega_tensor x = mega_input(&k.b, "x", MEGA_F32, S, C);
    mega_graph_output(k.b.graph, mega_op_linear(k.b.graph, x, mega_builder_param(&k.b, "w", C, C, NULL)), "y");
    assert_int_equal(mega_program_build(k.b.graph, &(mega_program_options){.name = "early"}, &p), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "the parameters are not placed; call mega_params_place first"));
    k.b.graph = NULL;
    end(&k);
}

static void inputs_are_shared_by_name(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 1);
    const mega_tensor ids = mega_input(&k.b, "ids", MEGA_I32, S, 0), x = mega_input(&k.b, "x", MEGA_F32, S, C);
    assert_int_equal(mega_input(&k.b, "ids", MEGA_I32, S, 0).id, ids.id);
    assert_int_equal(mega_input(&k.b, "x", MEGA_F32, S, C).id, x.id);
    assert_int_equal(mega_tensor_rows(&k.b, ids), B * S);
    assert_int_equal(mega_tensor_channels(&k.b, x), C);
    assert_int_equal(mega_tensor_rows(&k.b, mega_none()), 0);
    need(mega_graph_status(k.b.graph));
    assert_int_equal(mega_input(&k.b, "ids", MEGA_F32, S, 0).id, 0);
    expect_error(&k.b, "layer \"m\": input \"ids\" is requested as [6] f32, but the program has an input of that name, "
                       "[6] i32");
    end(&k);
    begin(&k, 0, 1);
    const mega_tensor y = mega_op_gelu(k.b.graph, mega_input(&k.b, "x", MEGA_F32, S, C), true);
    mega_graph_output(k.b.graph, y, "y");
    mega_input(&k.b, "y", MEGA_F32, S, C);
    expect_error(&k.b, "but the program has an output or state of that name");
    end(&k);
}

/* Returns the number of bits in which two dropout addresses differ: about half, whichever bit of the path differs. */
static int bits_apart(const char *a, const char *b)
{
    return __builtin_popcount(mega_dropout_site(a) ^ mega_dropout_site(b));
}

static void dropouts_have_addresses_of_their_own(void **state)
{
    (void)state;
    enum { LAYERS = 200 };
    static const char *const name[] = {"attn", "attn.drop", "mlp.drop"};
    sketch k;
    int apart = 0;
    begin(&k, 0, 1);
    for (int n = 0; n < LAYERS; n++)
        for (int i = 0; i < 3; i++) {
            const mega_builder at = mega_builder_at(&k.b, "h.%d", n);
            char full[64], next[64];
            snprintf(full, sizeof full, "m.h.%d.%s", n, name[i]);
            snprintf(next, sizeof next, "m.h.%d.%s", n + 1, name[i]);
            assert_int_equal(mega_builder_dropout_site(&at, name[i]), mega_dropout_site(full));
            assert_in_range(bits_apart(full, next), 4, 28);
            apart += bits_apart(full, next);
        }
    need(mega_graph_status(k.b.graph));
    assert_in_range(apart, 15 * 3 * LAYERS, 17 * 3 * LAYERS);
    assert_in_range(bits_apart("m.a", "m.b"), 8, 24);
    end(&k);
}

static void two_dropouts_under_one_path_are_refused(void **state)
{
    (void)state;
    sketch k;
    begin(&k, 0, 1);
    const mega_builder at = mega_builder_at(&k.b, "h"), other = mega_builder_at(&k.b, "h.attn");
    mega_builder_dropout_site(&at, "attn.drop");
    mega_builder_dropout_site(&at, "mlp.drop");
    need(mega_graph_status(k.b.graph));
    mega_builder_dropout_site(&other, "drop");
    expect_error(&k.b, "dropout \"m.h.attn.drop\": dropout \"m.h.attn.drop\" of this program would have the same mask");
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_request_declares),
        cmocka_unit_test(numbered_parameters_are_one_tensor),
        cmocka_unit_test(sequence_parallel_gradients_are_partial),
        cmocka_unit_test(graphs_share_parameters),
        cmocka_unit_test(requests_that_disagree_are_refused),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(missing_names_are_refused),
        cmocka_unit_test(options_of_parameters_are_in_range),
        cmocka_unit_test(names_are_text),
        cmocka_unit_test(inputs_of_ids_have_no_channels),
        cmocka_unit_test(buffers_and_dimensions_of_files_are_checked),
        cmocka_unit_test(programs_need_placed_parameters),
        cmocka_unit_test(inputs_are_shared_by_name),
        cmocka_unit_test(dropouts_have_addresses_of_their_own),
        cmocka_unit_test(two_dropouts_under_one_path_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
