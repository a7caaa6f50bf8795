/* Tests what a C program can save: whole parameters and optimizer states by name, and checkpoints with its own
 * state. */
#include "api_engine.h"
#include "device.h"
#include "megalith/file.h"
#include <math.h>
#include <string.h>

enum { TABLE = API_IDS * API_WIDTH };

static double steps(mega_engine *e, int count)
{
    mega_step_result r = {0};
    for (int i = 0; i < count; i++) need(mega_engine_train_batch(e, &r));
    return r.loss;
}

/* ---- parameters ---- */

static void parameters_are_listed(void **state)
{
    static const struct {
        const char *name;
        int64_t rows, columns;
    } expected[] = {{"net.wte.weight", API_IDS, API_WIDTH},
                    {"net.h.0.ln.weight", API_WIDTH, 0},
                    {"net.h.0.ln.bias", API_WIDTH, 0},
                    {"net.h.0.up.weight", 4 * API_WIDTH, API_WIDTH}};
    mega_engine *e = api_open(&api_data, "");
    const char *name;
    int64_t rows, columns;
    (void)state;
    for (int i = 0; i < 4; i++) {
        need(mega_engine_param_info(e, i, &name, &rows, &columns));
        assert_string_equal(name, expected[i].name);
        assert_int_equal(rows, expected[i].rows);
        assert_int_equal(columns, expected[i].columns);
    }
    need_error(mega_engine_param_info(e, 1000, &name, &rows, &columns), MEGA_ERR_NOT_FOUND, "parameters 0 to");
    need_error(mega_engine_param_info(e, -1, &name, &rows, &columns), MEGA_ERR_NOT_FOUND, "parameter -1");
    need_error(mega_engine_param_info(e, 0, NULL, &rows, &columns), MEGA_ERR_USAGE, "out_name is NULL");
    mega_engine_destroy(e);
}

/* If one engine's weights and states are copied to another, both compute the same next step. */
static void states_move_by_name(void **state)
{
    static const char *const what[] = {NULL, "exp_avg", "exp_avg_sq"};
    static float values[4096];
    char *argv[] = {API_ARGV, "--adam-beta1", "0", "--adam-beta2", "0", "--clip-grad", "0"};
    const mega_setup setup = {
        .model = &api_model, .training_data = &api_data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv};
    mega_engine *a = NULL, *b = NULL;
    (void)state;
    need(mega_initialize(&setup, &a));
    need(mega_initialize(&setup, &b));
    steps(a, 3);
    steps(b, 3);
    need(mega_engine_get_param(b, "net.wte.weight", NULL, TABLE, values));
    for (int i = 0; i < TABLE; i++) values[i] = 0;
    need(mega_engine_set_param(b, "net.wte.weight", NULL, TABLE, values));
    const char *name;
    int64_t rows, columns;
    for (int i = 0; mega_engine_param_info(a, i, &name, &rows, &columns) == MEGA_OK; i++) {
        const int64_t count = rows * (columns > 0 ? columns : 1);
        for (int k = 0; k < 3; k++) {
            need(mega_engine_get_param(a, name, what[k], count, values));
            need(mega_engine_set_param(a, name, what[k], count, values)); /* rounded to F32 in both */
            need(mega_engine_set_param(b, name, what[k], count, values));
        }
    }
    const double x = steps(a, 1), y = steps(b, 1);
    if (x != y) fail_msg("loss %.17g, %.17g with the weights and states of the first", x, y);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void wrong_names_and_counts(void **state)
{
    static float values[TABLE];
    mega_engine *e = api_open(&api_data, "");
    (void)state;
    need_error(mega_engine_get_param(e, "net.wte.wieght", NULL, TABLE, values), MEGA_ERR_NOT_FOUND,
               "did you mean \"net.wte.weight\"");
    need_error(mega_engine_get_param(e, NULL, NULL, TABLE, values), MEGA_ERR_USAGE, "name is NULL");
    need_error(mega_engine_get_param(e, "net.wte.weight", "exp_avg_qs", TABLE, values), MEGA_ERR_NOT_FOUND,
               "\"exp_avg\"");
    need_error(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE - 1, values), MEGA_ERR_USAGE, "192 elements");
    need_error(mega_engine_get_param(e, "net.wte.weight", NULL, TABLE, NULL), MEGA_ERR_USAGE, "out is NULL");
    need_error(mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, NULL), MEGA_ERR_USAGE, "values is NULL");
    need_error(mega_engine_set_param(e, "net.wte.weight", "grad", TABLE, values), MEGA_ERR_USAGE, "no gradient now");
    need(mega_engine_forward(e, NULL));
    need_error(mega_engine_set_param(e, "net.wte.weight", NULL, TABLE, values), MEGA_ERR_USAGE,
               "still reads the weights");
    mega_engine_destroy(e);
}

/* ---- checkpoints ---- */

static void client_state_comes_back(void **state)
{
    const char *folder = mega_kit_temp_folder();
    const double curve[6] = {1, 2, 3, 4, 5, 0.1};
    const int32_t order[3] = {7, 8, 9};
    const mega_client_array arrays[] = {{"curve", MEGA_F64, 2, 3, curve}, {"order", MEGA_I32, 3, 0, order}};
    const mega_client_state client = {"{\"epoch\": 3, \"best\": [0.5, \"x\"]}", arrays, 2}, *loaded = NULL;
    mega_engine *a = api_open(&api_data, ""), *b = api_open(&api_data, "--lr 0.5");
    bool found = false;
    (void)state;
    steps(a, 3);
    need(mega_engine_save_checkpoint(a, folder, NULL, &client));
    need(mega_engine_save_checkpoint(a, folder, "iter_0000003", &client)); /* replaces the checkpoint of this name */
    need(mega_engine_load_checkpoint(b, folder, NULL, NULL, &found, &loaded));
    assert_true(found);
    assert_int_equal(mega_engine_global_steps(b), 3);
    assert_true(mega_engine_lr(b) == mega_engine_lr(a)); /* the checkpoint's schedule continues */
    if (strstr(loaded->json, "\"epoch\": 3") == NULL || strstr(loaded->json, "\"best\"") == NULL)
        fail_msg("%s", loaded->json);
    assert_int_equal(loaded->num_arrays, 2);
    for (int i = 0; i < 2; i++) {
        const mega_client_array *x = &loaded->array[i];
        const bool is_curve = strcmp(x->name, "curve") == 0;
        assert_int_equal(x->dtype, is_curve ? MEGA_F64 : MEGA_I32);
        assert_int_equal(x->rows, is_curve ? 2 : 3);
        assert_int_equal(x->columns, is_curve ? 3 : 0);
        assert_memory_equal(x->data, is_curve ? (const void *)curve : order, is_curve ? sizeof curve : sizeof order);
    }
    const double x = steps(a, 1), y = steps(b, 1);
    if (x != y) fail_msg("the next loss is %.17g, %.17g after loading", x, y);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

static void parts_of_a_checkpoint(void **state)
{
    const char *folder = mega_kit_temp_folder();
    mega_engine *a = api_open(&api_data, ""), *b = api_open(&api_data, "--lr 0.5");
    const mega_client_state *client = NULL;
    static float x[TABLE], y[TABLE];
    bool found = true;
    (void)state;
    need(mega_engine_load_checkpoint(a, folder, NULL, NULL, &found, NULL));
    assert_false(found);
    steps(a, 2);
    need(mega_engine_save_checkpoint(a, folder, NULL, NULL));
    need(mega_engine_load_checkpoint(b, folder, "iter_0000002", &(mega_load_options){.module_only = true}, &found,
                                     &client));
    assert_true(found);
    assert_int_equal(mega_engine_global_steps(b), 0);
    assert_string_equal(client->json, "{}");
    assert_int_equal(client->num_arrays, 0);
    assert_true(mega_engine_lr(b) == 0.5);
    need(mega_engine_get_param(a, "net.wte.weight", NULL, TABLE, x));
    need(mega_engine_get_param(b, "net.wte.weight", NULL, TABLE, y));
    assert_memory_equal(x, y, sizeof x);
    need(mega_engine_load_checkpoint(b, folder, NULL, &(mega_load_options){.no_lr_scheduler_states = true}, &found,
                                     NULL));
    assert_int_equal(mega_engine_global_steps(b), 2);
    assert_true(mega_engine_lr(b) == 0.5);
    mega_engine_destroy(a);
    mega_engine_destroy(b);
}

/* States that are not loaded are as in an engine without the checkpoint; the others are as saved. */
static void states_that_are_left_out(void **state)
{
    const char *folder = mega_kit_temp_folder();
    static float here[TABLE], there[TABLE];
    (void)state;
    for (int moments = 0; moments < 2; moments++) {
        mega_engine *a = api_open(&api_data, "--lr 0.01"), *b = api_open(&api_data, "--lr 0.5");
        const mega_load_options o = {.no_optimizer_states = moments == 0, .no_lr_scheduler_states = moments == 1};
        bool found;
        steps(a, 3);
        need(mega_engine_save_checkpoint(a, folder, NULL, NULL));
        need(mega_engine_load_checkpoint(b, folder, NULL, &o, &found, NULL));
        assert_int_equal(mega_engine_progress_get(b)->schedule_samples, moments == 1 ? 0 : 6);
        assert_true(mega_engine_lr(b) == (moments == 1 ? 0.5 : 0.01));
        need(mega_engine_get_param(a, "net.wte.weight", "exp_avg", TABLE, there));
        need(mega_engine_get_param(b, "net.wte.weight", "exp_avg", TABLE, here));
        assert_int_equal(mega_optimizer_updates(mega_engine_optimizer(b)), moments == 1 ? 3 : 0);
        if (moments == 0) memset(there, 0, sizeof there);
        assert_memory_equal(here, there, sizeof here);
        mega_engine_destroy(a);
        mega_engine_destroy(b);
    }
}

/* Loading discards accumulated gradients, because they belong to the previous weights. */
static void loading_discards_micro_batches(void **state)
{
    const char *folder = mega_kit_temp_folder();
    mega_engine *a = api_open(&api_data, "");
    bool found;
    (void)state;
    need(mega_engine_save_checkpoint(a, folder, NULL, NULL));
    const double first = steps(a, 1);
    need(mega_engine_forward(a, NULL));
    need(mega_engine_load_checkpoint(a, folder, NULL, NULL, &found, NULL));
    assert_true(steps(a, 1) == first);
    mega_engine_destroy(a);
}

static void in_two_tensors(const mega_builder *b, const void *self, mega_flow *f)
{
    static const mega_linear_options joined = {
        .no_bias = true,
        .weight = {.num_parts = 2,
                   .part = {{.file = "gate.weight", .rows = 4}, {.file = "up.weight", .rows = API_WIDTH - 4}}}};
    (void)self;
    f->x = mega_linear(b, "joined", f->x, API_WIDTH, &joined);
}

/* The error for a moment that cannot be saved does not call it a weight. */
static void bad_values_of_several_tensors(void **state)
{
    const mega_layer layers[] = {
        {"net", api_embed, NULL, 1, NULL}, {"net.h", in_two_tensors, NULL, 1, NULL}, {"net", api_head, NULL, 1, NULL}};
    const mega_model model = {.name = "parts", .layer = layers, .num_layers = 3, .positions = API_SEQ};
    static const char *const said[] = {"saved: net.h.joined.weight has values that are infinite",
                                       "saved: exp_avg_sq.net.h.joined.weight has values that are infinite"};
    char *argv[] = {API_ARGV};
    const mega_setup setup = {
        .model = &model, .training_data = &api_data, .argc = (int)(sizeof argv / sizeof *argv), .argv = argv};
    mega_engine *e = NULL;
    (void)state;
    need(mega_initialize(&setup, &e));
    steps(e, 1);
    const int p = mega_params_find(mega_engine_params(e), "net.h.joined.weight");
    void *const values[] = {mega_params_master(mega_engine_params(e), p),
                            mega_optimizer_moment(mega_engine_optimizer(e), 1, p)};
    for (int i = 0; i < 2; i++) {
        const double good = device_number(values[i], MEGA_F64, 5 * API_WIDTH);
        device_set(values[i], MEGA_F64, 5 * API_WIDTH, (double)INFINITY);
        need_error(mega_engine_save_checkpoint(e, mega_kit_temp_folder(), NULL, NULL), MEGA_ERR_NUMERIC, said[i]);
        device_set(values[i], MEGA_F64, 5 * API_WIDTH, good);
    }
    mega_engine_destroy(e);
}

static void wrong_saves_and_loads(void **state)
{
    const char *folder = mega_kit_temp_folder();
    const float one = 1;
    const mega_client_array nameless = {NULL, MEGA_F32, 1, 0, &one}, empty = {"x", MEGA_F32, 0, 0, &one},
                            twice[] = {{"x", MEGA_F32, 1, 0, &one}, {"x", MEGA_F32, 1, 0, &one}},
                            without = {"x", MEGA_F32, 1, 0, NULL}, typeless = {"x", MEGA_DTYPE_COUNT, 1, 0, &one},
                            endless = {"x", MEGA_F32, INT64_MAX / 2, 4, &one}, torn = {"\xff", MEGA_F32, 1, 0, &one};
    const struct {
        mega_client_state client;
        const char *said;
    } wrong[] = {{{.json = "[1]"}, "is no object"},
                 {{.json = "{\"a\""}, "line 1"},
                 {{.num_arrays = 1}, "array is NULL"},
                 {{.array = &nameless, .num_arrays = 1}, "has no name"},
                 {{.array = &empty, .num_arrays = 1}, "0 x 0"},
                 {{.array = twice, .num_arrays = 2}, "two arrays"},
                 {{.array = &without, .num_arrays = 1}, "data NULL"},
                 {{.array = &typeless, .num_arrays = 1}, "of type"},
                 {{.array = &endless, .num_arrays = 1}, "at most"},
                 {{.array = &torn, .num_arrays = 1}, "UTF-8"}};
    mega_engine *e = api_open(&api_data, "");
    bool found = false;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        need_error(mega_engine_save_checkpoint(e, folder, NULL, &wrong[i].client), MEGA_ERR_USAGE, wrong[i].said);
    need_error(mega_engine_save_checkpoint(e, NULL, NULL, NULL), MEGA_ERR_USAGE, "folder is NULL");
    need_error(mega_engine_save_checkpoint(e, "", NULL, NULL), MEGA_ERR_USAGE, "the folder is empty");
    need_error(mega_engine_save_checkpoint(e, folder, "", NULL), MEGA_ERR_USAGE, "it is empty");
    need_error(mega_engine_save_checkpoint(e, folder, "../best", NULL), MEGA_ERR_USAGE, "slash");
    need_error(mega_engine_save_checkpoint(e, folder, "iter_0000007", NULL), MEGA_ERR_USAGE, "iter_0000000");
    need_error(mega_engine_load_checkpoint(e, NULL, NULL, NULL, &found, NULL), MEGA_ERR_USAGE, "folder is NULL");
    need_error(mega_engine_load_checkpoint(e, "", NULL, NULL, &found, NULL), MEGA_ERR_USAGE, "the folder is empty");
    need_error(mega_engine_load_checkpoint(e, folder, "", NULL, &found, NULL), MEGA_ERR_USAGE, "the tag is empty");
    need_error(mega_engine_load_checkpoint(e, folder, NULL, NULL, NULL, NULL), MEGA_ERR_USAGE, "out_found is NULL");
    need_error(mega_engine_load_checkpoint(e, folder, "best", NULL, &found, NULL), MEGA_ERR_NOT_FOUND, "best");
    assert_false(mega_file_exists(mega_kit_path(folder, "iter_0000000/config.json")));
    mega_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_listed),         cmocka_unit_test(states_move_by_name),
        cmocka_unit_test(wrong_names_and_counts),        cmocka_unit_test(client_state_comes_back),
        cmocka_unit_test(parts_of_a_checkpoint),         cmocka_unit_test(loading_discards_micro_batches),
        cmocka_unit_test(bad_values_of_several_tensors), cmocka_unit_test(wrong_saves_and_loads),
        cmocka_unit_test(states_that_are_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
