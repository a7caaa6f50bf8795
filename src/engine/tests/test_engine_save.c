/* Tests saving a model that belongs to no Hugging Face family, and the caller's state in a checkpoint. */
#include "engine_rig.h"
#include "megalith/file.h"
#include "megalith/pretrained.h"
#include <string.h>

static void a_model_without_a_shape_is_saved_and_loaded(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    rig r, other;
    mega_checkpoint *c = NULL;
    mega_engine_loaded loaded;
    char *config = NULL;
    rig_open(&r, 1);
    loss_of_a_step(&r);
    need(save(&r, folder, "{\"epoch\": 3}"));
    need(mega_file_read(mega_kit_path(folder, "iter_0000001/config.json"), &config, NULL));
    if (strstr(config, "\"model_type\": \"megalith\"") == NULL || strstr(config, "not a Hugging Face model") == NULL)
        fail_msg("config.json does not name what it is: %s", config);
    mega_free(config);
    assert_false(mega_file_exists(mega_kit_path(folder, "iter_0000001/generation_config.json")));

    rig_open(&other, 2);
    need(mega_checkpoint_open(folder, false, &c));
    assert_null(mega_checkpoint_shape(c));
    if (strstr(mega_checkpoint_run_json(c), "\"epoch\": 3") == NULL) fail_msg("the member of the caller is lost");
    need(mega_engine_check_tensors(other.engine, c));
    need(mega_engine_load(other.engine, c, &(mega_engine_load_options){0}, &loaded));
    assert_true(loaded.optimizer && loaded.resumed);
    mega_checkpoint_close(c);
    const double a = loss_of_a_step(&r), b = loss_of_a_step(&other);
    if (a != b) fail_msg("the next loss is %.17g, %.17g in the engine that was loaded", a, b);
    mega_engine_destroy(other.engine);
    mega_engine_destroy(r.engine);
}

static void such_a_model_does_not_generate(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    rig r;
    mega_pretrained m;
    rig_open(&r, 1);
    need(save(&r, folder, NULL));
    mega_engine_destroy(r.engine);
    assert_int_equal(mega_pretrained_check(folder), MEGA_ERR_UNSUPPORTED);
    assert_int_equal(mega_pretrained_open(folder, &(mega_pretrained_options){.compute = MEGA_F32}, &m),
                     MEGA_ERR_UNSUPPORTED);
    if (strstr(mega_error_message(), "load it with that program") == NULL) fail_msg("%s", mega_error_message());
}

/* ---- client state ---- */

static void client_state_must_be_an_object(void **state)
{
    (void)state;
    static const struct {
        const char *json, *said;
    } wrong[] = {
        {"[1, 2]", "found an array"},     {"3", "found a number"},
        {"true", "found true"},           {"null", "found null"},
        {"\"text\"", "found a string"},   {"{\"a\": ", "line 1"},
        {"", "expected one JSON object"}, {"{\"iteration\": 5}", "\"iteration\" is a name that the engine uses"}};
    const char *folder = mega_kit_temp_folder();
    rig r;
    rig_open(&r, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const mega_status st = save(&r, folder, wrong[i].json);
        if (st != MEGA_ERR_USAGE || strstr(mega_error_message(), wrong[i].said) == NULL)
            fail_msg("%s: status %s, \"%s\"", wrong[i].json, mega_status_name(st), mega_error_message());
    }
    mega_names names = {0};
    need(mega_folder_list(folder, &names));
    assert_int_equal(names.count, 0);
    mega_names_fini(&names);
    need(save(&r, folder, "{}")); /* the engine is unchanged */
    mega_engine_destroy(r.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_without_a_shape_is_saved_and_loaded),
        cmocka_unit_test(such_a_model_does_not_generate),
        cmocka_unit_test(client_state_must_be_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
