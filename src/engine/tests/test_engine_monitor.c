/* Monitors of a C program, from a DeepSpeed JSON: files and lines of steps, and that they change no number. */
#include "api_engine.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include "notes.h"
#include <stdio.h>
#include <string.h>

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) n++;
    return n;
}

static void open_engine(mega_engine **e, const char *config)
{
    notes_begin();
    need(api_try_open(e, (mega_setup){.training_data = &api_data, .config = config}, API_LINE));
}

static mega_step_result one_step(mega_engine *e, bool by_parts)
{
    mega_step_result r = {0};
    if (!by_parts) {
        need(mega_engine_train_batch(e, &r));
        return r;
    }
    for (int i = 0; i < 2; i++) {
        need(mega_engine_forward(e, NULL));
        need(mega_engine_backward(e));
        need(mega_engine_step(e, &r));
    }
    return r;
}

/* The caller frees it. */
static void read_text(const char *folder, const char *name, char **out)
{
    size_t size = 0;
    *out = NULL;
    need(mega_file_read(mega_kit_path(folder, name), out, &size));
}

/* Both ways to run a step log the same lines, and the losses are those of an engine without monitors. */
static void files_and_lines(void **state)
{
    (void)state;
    for (int by_parts = 0; by_parts < 2; by_parts++) {
        const char *folder = mega_kit_temp_folder();
        mega_engine *plain = NULL, *e = NULL;
        char config[512], rows[512] = "step,train_loss\n";
        snprintf(config, sizeof config,
                 "{\"csv_monitor\": {\"enabled\": true, \"output_path\": \"%s\", \"job_name\": \"job\"},\n"
                 "\"steps_per_print\": 2, \"wall_clock_breakdown\": true, \"memory_breakdown\": true,\n"
                 "\"comms_logger\": {\"enabled\": true}, \"dump_state\": true}",
                 folder);
        open_engine(&plain, NULL);
        open_engine(&e, config);
        for (int i = 1; i <= 4; i++) {
            const mega_step_result r = one_step(e, by_parts != 0), expected = one_step(plain, false);
            mega_buffer b = {0};
            assert_true(r.loss == expected.loss && r.grad_norm == expected.grad_norm);
            mega_buffer_json_double(&b, r.loss);
            snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%d,%s\n", 2 * i, b.data);
            mega_buffer_fini(&b);
        }
        need(mega_engine_write_event(e, "mine/value", 0.5));
        mega_step_result evaluated;
        need(mega_engine_evaluate(e, &api_data, 2, &evaluated));
        mega_engine_destroy(e);
        mega_engine_destroy(plain);
        char *loss, *lr, *mine, *eval;
        read_text(folder, "job/Train_Samples_train_loss.csv", &loss);
        read_text(folder, "job/Train_Samples_lr.csv", &lr);
        read_text(folder, "job/mine_value.csv", &mine);
        read_text(folder, "job/Train_Samples_eval_loss.csv", &eval);
        assert_string_equal(loss, rows);
        assert_string_equal(lr, "step,lr\n2,0.01\n4,0.01\n6,0.01\n8,0.01\n");
        assert_string_equal(mine, "step,value\n8,0.5\n");
        assert_has(eval, "step,eval_loss\n8,");
        mega_free(loss);
        mega_free(lr);
        mega_free(mine);
        mega_free(eval);
        assert_has(notes, "\nstep=0, skipped=0, lr=[0.01], mom=[(0.9, 0.999)]\n");
        assert_has(notes, "\nstep=4, skipped=0, lr=[0.01], mom=[(0.9, 0.999)]\nepoch=0/micro_step=8/global_step=4, ");
        assert_int_equal(count_of(notes, "step="), 3 + 1 + 1); /* micro_step=, global_step= too */
        assert_int_equal(count_of(notes, "| step_microstep: "), 8);
        assert_int_equal(count_of(notes, "time (ms) | fwd: "), 4);
        assert_int_equal(count_of(notes, "Engine after step\n"), by_parts != 0 ? 8 : 4);
        assert_has(notes, "engine: step 0, samples 0, batch size 2 = 1 x 2 micro-batches x 1 ranks\n");
        assert_has(notes, "micro_batch_size .");
    }
}

/* A profiler whose step never comes says so at the end, and a detail without what enables it at the start. */
static void nothing_to_report(void **state)
{
    (void)state;
    mega_engine *e = NULL;
    open_engine(&e, "{\"flops_profiler\": {\"enabled\": true, \"profile_step\": 2}}");
    for (int i = 0; i < 2; i++) (void)one_step(e, false);
    assert_int_equal(count_of(notes, "flops profiler: "), 0);
    mega_engine_destroy(e);
    assert_has(notes,
               "flops profiler: there is no report: it profiles the step after step 2, and this engine ran up to "
               "step 2;");
    open_engine(&e, "{\"flops_profiler\": {\"profile_step\": 2}, \"csv_monitor\": {\"job_name\": \"x\"},\n"
                    "\"comms_logger\": {\"enabled\": false, \"debug\": true}, \"communication_data_type\": \"fp16\"}");
    assert_has(notes, "\"flops_profiler.profile_step\" 2 (mega_setup.config, line 1) has no effect without ");
    assert_has(notes, "\"csv_monitor.job_name\" \"x\" (mega_setup.config, line 1) has no effect without ");
    assert_has(notes,
               "\"communication_data_type\" \"fp16\" (mega_setup.config, line 2) has no effect: one data-parallel "
               "rank");
    assert_int_equal(count_of(notes, "comms_logger"), 0);
    mega_engine_destroy(e);
    open_engine(&e, "{\"flops_profiler\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}");
    assert_int_equal(count_of(notes, "has no effect"), 0);
    (void)one_step(e, false);
    (void)one_step(e, false);
    mega_engine_destroy(e);
    assert_int_equal(count_of(notes, "there is no report"), 0);
}

/* The profiler reports the step after profile_step steps, once, and its parameters stand beside the work of their
 * module. */
static void flops_of_a_step(void **state)
{
    (void)state;
    for (int by_parts = 0; by_parts < 2; by_parts++) {
        const char *folder = mega_kit_temp_folder();
        mega_engine *e = NULL;
        char config[256];
        snprintf(
            config, sizeof config,
            "{\"flops_profiler\": {\"enabled\": true, \"profile_step\": 1, \"output_file\": \"%s/sub/flops.txt\"}}",
            folder);
        open_engine(&e, config);
        for (int i = 0; i < 3; i++) (void)one_step(e, by_parts != 0);
        mega_engine_destroy(e);
        char *text;
        read_text(folder, "sub/flops.txt", &text);
        assert_int_equal(count_of(text, "Profile Summary at step 2:\n"), 1);
        assert_int_equal(count_of(notes, "flops profiler: "), 1);
        /* of one micro-batch of 8 positions: two blocks of 12 x 48 x 2, and the head */
        assert_has(text, "(h): 2.47 K = ");
        assert_has(text, "fwd MACs per rank:");
        const char *up = strstr(text, "(up): 624 = ");
        if (up == NULL) fail_msg("%s", text);
        assert_has(up, "4.61 KMACs = ");
        mega_free(text);
    }
}

/* A file of somebody else stays; the run goes on. */
static void flops_keep_other_files(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_engine *e = NULL;
    char config[256];
    mega_kit_write(mega_kit_path(folder, "flops.txt"), "mine");
    snprintf(config, sizeof config, "{\"flops_profiler\": {\"enabled\": true, \"output_file\": \"%s/flops.txt\"}}",
             folder);
    open_engine(&e, config);
    for (int i = 0; i < 3; i++) (void)one_step(e, false);
    mega_engine_destroy(e);
    char *text;
    read_text(folder, "flops.txt", &text);
    assert_string_equal(text, "mine");
    assert_has(notes, "flops.txt exists and is not a report of the flops profiler");
    mega_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_lines),
        cmocka_unit_test(flops_of_a_step),
        cmocka_unit_test(nothing_to_report),
        cmocka_unit_test(flops_keep_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
