/* A batch: its columns are the inputs of a program, its samples are filled by name, and their values arrive in the
 * program in the compute type. */
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/builder.h"
#include "megalith/gpt_data.h"

#include <string.h>

/* C: the numbers of x are written to the program in several pieces */
enum { SAMPLES = 3, S = 4, C = 300, IDS = 7, LONG = 6 };

typedef struct sketch {
    mega_layout *layout;
    mega_params *params;
    mega_program *program;
    mega_batch *batch;
} sketch;

static void expect(mega_status st, const char *text)
{
    assert_int_equal(st, MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), text) == NULL) fail_msg("expected \"%s\" in: %s", text, mega_error_message());
}

/* Builds y = table[ids] + x; weights, sample_id and seq_position are read as well. */
static void begin(sketch *k, mega_dtype dtype)
{
    *k = (sketch){.layout = NULL};
    need(mega_layout_create(NULL, NULL, &k->layout));
    need(mega_params_create(k->layout, &k->params));
    mega_builder b = {.layout = k->layout, .samples = SAMPLES, .positions = S};
    need(mega_graph_create(dtype, k->params, k->layout, &b.graph));
    const mega_tensor table = mega_builder_param(&b, "table", IDS, C, NULL);
    const mega_tensor ids = mega_input(&b, "ids", MEGA_I32, S, 0), x = mega_input(&b, "x", MEGA_F32, S, C);
    const mega_tensor mask = mega_input(&b, "weights", MEGA_F32, S, 0);
    const mega_tensor y = mega_op_embedding(b.graph, ids, table, x, 0);
    const mega_tensor rows = mega_op_squared_error(b.graph, y, y);
    mega_graph_output(b.graph, mega_op_weighted_sum(b.graph, rows, mask).sum, "y");
    mega_input(&b, "sample_id", MEGA_I32, S, 0);
    mega_input(&b, "seq_position", MEGA_I32, S, 0);
    mega_input(&b, "sample_id", MEGA_I32, LONG, 0); /* of longer samples in the same program */
    mega_input(&b, "seq_position", MEGA_I32, LONG, 0);
    assert_int_equal(mega_input(&b, "sample_id", MEGA_I32, LONG, 0).id,
                     mega_input(&b, "sample_id", MEGA_I32, LONG, 0).id);
    need(mega_graph_status(b.graph));
    need(mega_params_place(k->params, dtype, 0));
    need(mega_params_allocate(k->params, MEGA_PARAMS_WEIGHTS));
    need(mega_program_build(b.graph, &(mega_program_options){.backend = MEGA_BACKEND_PLAIN, .name = "sum"},
                            &k->program));
    need(mega_program_allocate(k->program));
    mega_batch_input input[MEGA_INPUTS];
    int count = 0;
    need(mega_batch_inputs_of(k->program, SAMPLES, input, &count));
    need(mega_batch_create(SAMPLES, &k->batch));
    for (int i = 0; i < count; i++) need(mega_batch_add(k->batch, &input[i], true));
    need(mega_batch_allocate(k->batch));
}

static void end(sketch *k)
{
    mega_batch_destroy(k->batch);
    mega_program_destroy(k->program);
    mega_params_destroy(k->params);
    mega_layout_destroy(k->layout);
}

static const float weights[S] = {1, 0, 0.5F, 2};

static void fill(const sketch *k, int64_t from)
{
    for (int64_t i = from; i < mega_batch_num_samples(k->batch); i++) {
        mega_sample *s = mega_batch_sample(k->batch, i);
        int32_t ids[S];
        float x[S * C];
        for (int t = 0; t < S; t++) ids[t] = (int32_t)(i + t) % IDS;
        for (int t = 0; t < S * C; t++) x[t] = (float)i + 0.25F * (float)(t % 7);
        need(mega_sample_set_i32(s, "ids", ids, S));
        need(mega_sample_set_f32(s, "x", x, (int64_t)S * C));
        need(mega_sample_set_f32(s, "weights", weights, S));
    }
}

static double number(const void *x, mega_dtype dtype, int i)
{
    return dtype == MEGA_F64           ? ((const double *)x)[i]
           : mega_dtype_is_half(dtype) ? (double)mega_half_to_f32(((const uint16_t *)x)[i], dtype)
                                       : (double)((const float *)x)[i];
}

static void samples_arrive_in_the_compute_type(void **state)
{
    (void)state;
    static const mega_dtype types[] = {MEGA_F32, MEGA_BF16, MEGA_F64, MEGA_F16};
    for (int n = 0; n < 4; n++) {
        sketch k;
        begin(&k, types[n]);
        assert_int_equal(mega_batch_num_inputs(k.batch), 3);
        mega_batch_begin(k.batch, SAMPLES);
        for (int i = 0; i < SAMPLES; i++) mega_batch_set_index(k.batch, i, 40 + i);
        fill(&k, 0);
        need(mega_batch_check(k.batch));
        mega_batch_load(k.batch, 0, SAMPLES, k.program, 0);
        const void *x = mega_program_tensor(k.program, "x", 0);
        const int32_t *ids = mega_program_tensor(k.program, "ids", 0);
        const int32_t *sample = mega_program_tensor(k.program, "sample_id", 0);
        const int32_t *position = mega_program_tensor(k.program, "seq_position", 0);
        const float *mask = mega_program_tensor(k.program, "weights", 0);
        for (int t = 0; t < SAMPLES * LONG; t++) {
            assert_int_equal(((const int32_t *)mega_program_tensor(k.program, "sample_id.6", 0))[t], 40 + t / LONG);
            assert_int_equal(((const int32_t *)mega_program_tensor(k.program, "seq_position.6", 0))[t], t % LONG);
        }
        for (int t = 0; t < SAMPLES * S; t++) {
            assert_int_equal(ids[t], (t / S + t % S) % IDS);
            assert_int_equal(sample[t], 40 + t / S);
            assert_int_equal(position[t], t % S);
            assert_true(mask[t] == weights[t % S]);
        }
        for (int t = 0; t < SAMPLES * S * C; t++)
            assert_true(number(x, types[n], t) == t / (S * C) + 0.25 * (t % (S * C) % 7));
        assert_int_equal(mega_sample_index(mega_batch_sample(k.batch, 2)), 42);
        assert_null(mega_batch_sample(k.batch, SAMPLES));
        assert_null(mega_batch_sample(k.batch, -1));
        end(&k);
    }
}

static void wrong_fillings_are_refused(void **state)
{
    (void)state;
    const int32_t ids[S + 1] = {0}, high[S] = {0, 0, IDS, 0}, low[S] = {0, -1, 0, 0};
    const float x[S] = {0};
    sketch k;
    begin(&k, MEGA_F32);
    mega_batch_begin(k.batch, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) mega_batch_set_index(k.batch, i, 40 + i);
    mega_sample *s = mega_batch_sample(k.batch, 1);
    expect(mega_sample_set_i32(s, "id", ids, S),
           "\"id\" is filled with 4 numbers of type i32, but the model has no input of that name, number and type; "
           "its inputs, with their numbers per sample, are \"ids\" (4, i32), \"x\" (1200, f32), \"weights\" (4, f32)");
    expect(mega_sample_set_i32(s, "ids", ids, S + 1), "\"ids\" is filled with 5 numbers");
    expect(mega_sample_set_f32(s, "ids", x, S), "\"ids\" is filled with 4 numbers of type f32");
    expect(mega_sample_set_i32(NULL, "ids", ids, S), "the sample is NULL; a batch has as many as mega_batch_num");
    expect(mega_sample_set_i32(s, NULL, ids, S), "the name of the input is NULL");
    expect(mega_sample_set_i32(s, "ids", NULL, S), "the array of values is NULL");
    expect(mega_batch_check(k.batch), "input \"ids\" of sample 40 (row 0 of the batch) is not filled; fill it with "
                                      "mega_sample_set_i32");
    fill(&k, 0);
    need(mega_batch_check(k.batch));
    need(mega_sample_set_i32(s, "ids", high, S));
    expect(mega_batch_check(k.batch),
           "input \"ids\": number 2 of sample 41 (row 1 of the batch) is 7; expected 0 to 6");
    need(mega_sample_set_i32(s, "ids", low, S));
    expect(mega_batch_check(k.batch), "number 1 of sample 41 (row 1 of the batch) is -1; expected 0 to 6");
    mega_batch_begin(k.batch, SAMPLES); /* values of the last step must not remain in the next */
    fill(&k, 1);
    expect(mega_batch_check(k.batch), "input \"ids\" of sample 0 (row 0 of the batch) is not filled");
    end(&k);
}

/* A rank accepts inputs that only other pipeline stages read; it does not keep or require them. */
static void other_stages_have_inputs_of_their_own(void **state)
{
    (void)state;
    const mega_batch_input here = {.name = "ids", .dtype = MEGA_I32, .per_sample = S, .below = 9},
                           there = {.name = "labels", .dtype = MEGA_I32, .per_sample = S},
                           again = {.name = "ids", .dtype = MEGA_I32, .per_sample = S, .below = 5},
                           wide = {.name = "ids", .dtype = MEGA_I32, .per_sample = S + 1},
                           other = {.name = "ids", .dtype = MEGA_F32, .per_sample = S};
    const int32_t ids[S] = {1, 2, 3, 5};
    mega_batch *b;
    need(mega_batch_create(SAMPLES, &b));
    need(mega_batch_add(b, &here, true));
    need(mega_batch_add(b, &there, false));
    need(mega_batch_add(b, &again, false));
    expect(
        mega_batch_add(b, &wide, true),
        "input \"ids\" is requested as 5 numbers per sample of type i32, but elsewhere in the model as 4 of type i32");
    expect(mega_batch_add(b, &other, true),
           "as 4 numbers per sample of type f32, but elsewhere in the model as 4 of type i32");
    assert_int_equal(mega_batch_num_inputs(b), 2);
    assert_int_equal(mega_batch_bytes(b), SAMPLES * S * sizeof(int32_t));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, 1);
    mega_sample *s = mega_batch_sample(b, 0);
    need(mega_sample_set_i32(s, "labels", ids, S));
    assert_null(mega_sample_i32(s, "labels", S));
    need(mega_sample_set_i32(s, "ids", ids, S));
    expect(mega_batch_check(b),
           "number 3 of sample 0 (row 0 of the batch) is 5; expected 0 to 4"); /* the limit of the smaller table */
    mega_sample_i32(s, "ids", S)[3] = 4;
    need(mega_batch_check(b));
    mega_batch_destroy(b);
}

static void texts_fill_what_the_model_has(void **state)
{
    (void)state;
    static const mega_batch_input has[] = {{.name = "tokens", .dtype = MEGA_I32, .per_sample = S},
                                           {.name = "loss_mask", .dtype = MEGA_F32, .per_sample = S}};
    const mega_ltor_options o = {.eod = 3, .eod_mask_loss = true};
    const int32_t row[S + 1] = {1, 3, 2, 5, 4};
    mega_batch *b;
    need(mega_batch_create(1, &b));
    for (int i = 0; i < 2; i++) need(mega_batch_add(b, &has[i], true));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, 1);
    mega_ltor_sample(mega_batch_sample(b, 0), row, S, &o);
    need(mega_batch_check(b));
    const int32_t *tokens = mega_sample_i32(mega_batch_sample(b, 0), "tokens", S);
    const float *mask = mega_sample_f32(mega_batch_sample(b, 0), "loss_mask", S);
    for (int t = 0; t < S; t++) assert_true(tokens[t] == row[t] && mask[t] == (t == 1 ? 0.0F : 1.0F));
    mega_batch_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_arrive_in_the_compute_type),
        cmocka_unit_test(wrong_fillings_are_refused),
        cmocka_unit_test(other_stages_have_inputs_of_their_own),
        cmocka_unit_test(texts_fill_what_the_model_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
