/* Wrong calls of the engine: each returns a status and leaves a message. */
#include "device.h"
#include "engine_rig.h"
#include "gpt_describe.h"
#include "megalith/batch.h"
#include "megalith/update.h"
#include <math.h>
#include <string.h>

/* Objects for the calls: engines before and after allocation, and objects of lower modules for the same model. */
typedef struct scene {
    rig raw, empty, ready, no_train, no_evaluate; /* empty: allocated, without values */
    mega_layout *layout;
    mega_params *unplaced, *placed, *params; /* `params` has memory */
    mega_program *raw_program, *program;
    mega_optimizer *raw_optimizer, *optimizer, *empty_optimizer; /* empty: no moments, but its parameters have memory */
    mega_update *raw_update, *update, *none;
    const char *folder;
} scene;

static mega_program *program_of(const scene *s, mega_params *params)
{
    mega_graph *g = NULL;
    mega_program *p = NULL;
    need(mega_graph_create(MEGA_F32, params, s->layout, &g));
    need(gpt_describe_train(g, &s->raw.gpt, 0, 2, SEQ));
    need(mega_program_build(g, &(mega_program_options){.differentiate = true, .name = "train"}, &p));
    return p;
}

static mega_params *params_of(const scene *s, bool placed, bool allocated)
{
    mega_params *p = NULL;
    need(mega_params_create(s->layout, &p));
    need(gpt_declare(&s->raw.gpt, p));
    if (placed) need(mega_params_place(p, MEGA_F32, 0));
    if (allocated) need(mega_params_allocate(p, MEGA_PARAMS_WEIGHTS | MEGA_PARAMS_GRADS));
    if (allocated) need(mega_params_initialize(p, 1));
    return p;
}

static void rig_with(rig *r, const mega_engine_options *o)
{
    r->gpt = engine_run_gpt();
    need(gpt_engine_create(&r->engine, &r->gpt, o));
    need(mega_engine_allocate(r->engine));
    need(mega_engine_initialize(r->engine, 1));
}

static void scene_open(scene *s)
{
    mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    const mega_optimizer_options adam = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    *s = (scene){.folder = mega_kit_temp_folder()};
    rig_create(&s->raw);
    rig_create(&s->empty);
    need(mega_engine_allocate(s->empty.engine));
    rig_open(&s->ready, 1);
    o.no_train = true;
    rig_with(&s->no_train, &o);
    o.no_train = false;
    o.no_evaluate = true;
    rig_with(&s->no_evaluate, &o);
    need(mega_layout_create(NULL, NULL, &s->layout));
    s->unplaced = params_of(s, false, false);
    s->placed = params_of(s, true, false);
    s->params = params_of(s, true, true);
    s->raw_program = program_of(s, s->params);
    s->program = program_of(s, s->params);
    need(mega_program_allocate(s->program));
    need(mega_optimizer_create(s->placed, s->layout, &adam, &s->raw_optimizer));
    need(mega_optimizer_create(s->params, s->layout, &adam, &s->optimizer));
    need(mega_optimizer_allocate(s->optimizer));
    need(mega_optimizer_create(s->params, s->layout, &adam, &s->empty_optimizer));
    need(mega_update_create(s->raw_optimizer, &(mega_update_options){0}, &s->raw_update));
    need(mega_update_create(s->empty_optimizer, &(mega_update_options){0}, &s->update));
}

static void scene_close(scene *s)
{
    mega_engine_destroy(s->raw.engine);
    mega_engine_destroy(s->empty.engine);
    mega_engine_destroy(s->ready.engine);
    mega_engine_destroy(s->no_train.engine);
    mega_engine_destroy(s->no_evaluate.engine);
    mega_update_destroy(s->raw_update);
    mega_update_destroy(s->update);
    mega_optimizer_destroy(s->empty_optimizer);
    mega_optimizer_destroy(s->raw_optimizer);
    mega_optimizer_destroy(s->optimizer);
    mega_program_destroy(s->raw_program);
    mega_program_destroy(s->program);
    mega_params_destroy(s->unplaced);
    mega_params_destroy(s->placed);
    mega_params_destroy(s->params);
    mega_layout_destroy(s->layout);
}

/* Runs a step on a batch whose last sample has `value` as the fourth element of an input. */
static mega_status step_with(mega_engine *e, const char *input, int32_t value)
{
    mega_step_result r;
    mega_batch *b = mega_engine_batch(e);
    for (int64_t i = 0; i < BATCH; i++) engine_run_fill(b, i, i);
    mega_sample_i32(mega_batch_sample(b, BATCH - 1), input, SEQ)[3] = value;
    return mega_engine_train_batch(e, &r);
}

/* Runs a step on a batch whose last sample is not filled, or has inputs with names that the model does not know. */
static mega_status step_without_sample(mega_engine *e)
{
    mega_step_result r;
    mega_batch *b = mega_engine_batch(e);
    for (int64_t i = 0; i < BATCH - 1; i++) engine_run_fill(b, i, i);
    return mega_engine_train_batch(e, &r);
}

static mega_status set(mega_engine *e, const char *input, int64_t count, bool is_float)
{
    static const int32_t ids[2 * SEQ];
    static const float weights[2 * SEQ];
    mega_sample *sample = mega_batch_sample(mega_engine_batch(e), 0);
    return is_float ? mega_sample_set_f32(sample, input, weights, count)
                    : mega_sample_set_i32(sample, input, ids, count);
}

/* Returns the recorded status of a function that returns no status. */
static mega_status recorded(const void *returned)
{
    mega_error_record r;
    mega_error_get(&r);
    return returned == NULL ? r.code : MEGA_OK;
}

static mega_status create(const scene *s, const mega_transformer *gpt, const mega_engine_options *o)
{
    mega_engine *e = NULL;
    (void)s;
    const mega_status st = gpt_engine_create(&e, gpt, o);
    assert_null(e);
    return st;
}

static mega_status create_model(const mega_model *model)
{
    mega_engine *e = NULL;
    const mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    const mega_status st = mega_engine_create(&(mega_setup){.model = model, .options = &o}, &e);
    assert_null(e);
    return st;
}

/* Defines a call of mega_engine_create with one option changed. */
#define CREATE_WITH(name, change)                                   \
    static mega_status name(scene *s)                               \
    {                                                               \
        mega_engine_options o = engine_run_options(BATCH, 2, 1e-2); \
        change;                                                     \
        return create(s, &s->raw.gpt, &o);                          \
    }
CREATE_WITH(create_without_rows, o.micro_batch = 0)
CREATE_WITH(create_without_positions, o.seq = 0)
CREATE_WITH(create_without_ramp, o.batch.micro_step = 0)
CREATE_WITH(create_for_other_ranks, o.batch.micro_step = 4)
CREATE_WITH(create_with_odd_batch, o.batch.global_batch = 5)
CREATE_WITH(create_with_stage_7, o.zero_stage = 7)
CREATE_WITH(create_with_i32, o.compute = MEGA_I32)

/* A call that is one expression with a status. */
#define CALL(name, ...)               \
    static mega_status name(scene *s) \
    {                                 \
        mega_step_result r = {0};     \
        mega_loss_sums sums = {0};    \
        mega_engine_loaded loaded;    \
        mega_norm_result norm;        \
        (void)s, (void)r, (void)sums; \
        (void)&loaded, (void)&norm;   \
        return __VA_ARGS__;           \
    }
CALL(create_nowhere, gpt_engine_create(NULL, &s->raw.gpt, &(mega_engine_options){0}))
CALL(create_without_options, create(s, &s->raw.gpt, NULL))
CALL(create_without_model, create_model(NULL))
CALL(create_without_layers, create_model(&(mega_model){.name = "m"}))
CALL(create_without_describe, create_model(&(mega_model){.layer = &(mega_layer){.path = "x"}, .num_layers = 1}))
CALL(step_empty, mega_engine_batch(s->empty.engine) == NULL ? 0 : mega_engine_train_batch(s->empty.engine, &r))
CALL(evaluate_empty, mega_engine_evaluation_batch(s->empty.engine, 2, 0) == NULL
                         ? 0
                         : mega_engine_evaluate_batch(s->empty.engine, &sums))
CALL(save_empty, save(&s->empty, s->folder, NULL))
CALL(program_null, recorded(mega_engine_program(NULL, true)))
CALL(chunk_program_null, recorded(mega_engine_chunk_program(NULL, 0, true)))
CALL(params_null, recorded(mega_engine_params(NULL)))
CALL(whole_null, recorded(mega_engine_whole(NULL)))
CALL(optimizer_null, recorded(mega_engine_optimizer(NULL)))
CALL(layout_null, recorded(mega_engine_layout(NULL)))
CALL(schedule_null, recorded(mega_engine_schedule(NULL)))
CALL(step_schedule_null, recorded(mega_engine_step_schedule(NULL)))
CALL(progress_null, recorded(mega_engine_progress_get(NULL)))
CALL(chunks_null, mega_engine_chunks(NULL) == 0 ? recorded(NULL) : 0)
CALL(sample_null, mega_engine_sample(NULL, 0) == -1 ? recorded(NULL) : 0)
CALL(bytes_null, mega_engine_save_bytes(NULL, &(mega_engine_save_options){0}) == -1 ? recorded(NULL) : 0)
CALL(bytes_without_options, mega_engine_save_bytes(s->ready.engine, NULL) == -1 ? recorded(NULL) : 0)
CALL(profile_null, (mega_engine_profile(NULL, NULL), recorded(NULL)))
CALL(observe_null, (mega_engine_observe(NULL, NULL, NULL), recorded(NULL)))
CALL(cost_null, (mega_engine_cost_get(NULL, &(mega_engine_cost){0}), recorded(NULL)))
CALL(cost_nowhere, (mega_engine_cost_get(s->ready.engine, NULL), recorded(NULL)))
CALL(memory_null, (mega_engine_memory_get(NULL, &(mega_engine_memory){0}), recorded(NULL)))
CALL(memory_nowhere, (mega_engine_memory_get(s->ready.engine, NULL), recorded(NULL)))
CALL(layout_nowhere, mega_layout_create(NULL, NULL, NULL))
CALL(graph_nowhere, mega_graph_create(MEGA_F32, s->params, s->layout, NULL))
CALL(graph_status_null, mega_graph_status(NULL))
CALL(print_null, mega_program_print(NULL, NULL))
CALL(print_nowhere, mega_program_print(s->program, NULL))
CALL(norm_null, mega_optimizer_params_norm(NULL, &norm))
CALL(norm_nowhere, mega_optimizer_params_norm(s->optimizer, NULL))
CALL(allocate_null, mega_engine_allocate(NULL))
CALL(allocate_twice, mega_engine_allocate(s->ready.engine))
CALL(initialize_null, mega_engine_initialize(NULL, 1))
CALL(initialize_early, mega_engine_initialize(s->raw.engine, 1))
CALL(batch_null, recorded(mega_engine_batch(NULL)))
CALL(batch_early, recorded(mega_engine_batch(s->raw.engine)))
CALL(step_null, mega_engine_train_batch(NULL, &r))
CALL(step_early, mega_engine_train_batch(s->raw.engine, &r))
CALL(step_without_batch, mega_engine_train_batch(s->no_evaluate.engine, &r))
CALL(step_of_evaluation,
     mega_engine_evaluation_batch(s->ready.engine, 2, 0) ? mega_engine_train_batch(s->ready.engine, &r) : 0)
CALL(step_without_result, mega_engine_train_batch(s->ready.engine, NULL))
CALL(step_without_program, mega_engine_train_batch(s->no_train.engine, &r))
CALL(step_without_filling, mega_engine_batch(s->ready.engine) ? mega_engine_train_batch(s->ready.engine, &r) : 0)
CALL(step_without_the_last_sample, step_without_sample(s->ready.engine))
CALL(step_with_token_50, step_with(s->ready.engine, "tokens", 50))
CALL(step_with_label_below_0, step_with(s->ready.engine, "labels", -1))
CALL(step_with_position_16, step_with(s->ready.engine, "position_ids", 16))
CALL(set_unknown_input, set(s->ready.engine, "image", SEQ, true))
CALL(set_short_input, set(s->ready.engine, "tokens", SEQ - 1, false))
CALL(set_ids_as_weights, set(s->ready.engine, "tokens", SEQ, true))
CALL(set_no_sample,
     mega_sample_set_i32(mega_batch_sample(mega_engine_batch(s->ready.engine), BATCH), "tokens", NULL, 1))
CALL(event_null, mega_engine_write_event(NULL, "a", 1))
CALL(event_early, mega_engine_write_event(s->raw.engine, "a", 1))
CALL(event_nameless, mega_engine_write_event(s->ready.engine, NULL, 1))
CALL(event_with_comma, mega_engine_write_event(s->ready.engine, "a,b", 1))
CALL(exchanges_null, mega_engine_log_exchanges(NULL, true))
CALL(exchanges_early, mega_engine_log_exchanges(s->raw.engine, true))
CALL(exchanges_not_counted, mega_engine_log_exchanges(s->ready.engine, true))
CALL(part_null, mega_engine_evaluate_part(NULL, &(mega_dataset){.count = 1}, 0, 2, &sums))
CALL(part_early, mega_engine_evaluate_part(s->raw.engine, &(mega_dataset){.count = 1}, 0, 2, &sums))
CALL(part_of_nothing, mega_engine_evaluate_part(s->ready.engine, NULL, 0, 2, &sums))
CALL(part_without_function, mega_engine_evaluate_part(s->ready.engine, &(mega_dataset){.count = 1}, 0, 2, &sums))
CALL(part_of_3_rows, mega_engine_evaluate_part(s->ready.engine, &(mega_dataset){.count = 1}, 0, 3, &sums))
CALL(part_before_the_first, mega_engine_evaluate_part(s->ready.engine, &(mega_dataset){.count = 1}, -1, 2, &sums))
CALL(evaluate_null, mega_engine_evaluate_batch(NULL, &sums))
CALL(evaluate_early, mega_engine_evaluate_batch(s->raw.engine, &sums))
CALL(evaluate_without_batch, mega_engine_evaluate_batch(s->no_train.engine, &sums))
CALL(evaluate_without_sums, mega_engine_evaluate_batch(s->ready.engine, NULL))
CALL(evaluate_without_program, mega_engine_evaluate_batch(s->no_evaluate.engine, &sums))
CALL(evaluation_of_3_rows, recorded(mega_engine_evaluation_batch(s->ready.engine, 3, 0)))
CALL(evaluation_of_many_rows, recorded(mega_engine_evaluation_batch(s->ready.engine, 1000, 0)))
CALL(evaluation_of_no_rows, recorded(mega_engine_evaluation_batch(s->ready.engine, 0, 0)))
CALL(chunk_5, recorded(mega_engine_chunk_program(s->ready.engine, 5, true)))
CALL(compare_null, mega_engine_compare_ranks(NULL))
CALL(save_null, mega_engine_save(NULL, &(mega_engine_save_options){.folder = s->folder}))
CALL(save_without_options, mega_engine_save(s->ready.engine, NULL))
CALL(save_nowhere, mega_engine_save(s->ready.engine, &(mega_engine_save_options){.save_dtype = MEGA_F32}))
CALL(save_early, save(&s->raw, s->folder, NULL))
CALL(save_without_state, save(&s->no_train, s->folder, NULL))
CALL(load_nothing, mega_engine_load(s->ready.engine, NULL, &(mega_engine_load_options){0}, &loaded))
CALL(load_without_options, mega_engine_load(s->ready.engine, NULL, NULL, &loaded))
CALL(check_nothing, mega_engine_check_tensors(s->ready.engine, NULL))
CALL(check_load_nothing, mega_engine_check_load(&(mega_engine_options){0}, NULL, &(mega_engine_load_options){0}))

CALL(params_without_layout, mega_params_create(NULL, &s->unplaced))
CALL(param_minus_1, recorded(mega_params_get(s->params, -1)))
CALL(param_of_none, recorded(mega_params_get(s->params, mega_params_find(s->params, "nobody"))))
CALL(param_without_name, recorded(mega_params_get(s->params, mega_params_find(s->params, NULL))))
CALL(weight_99, recorded(mega_params_weight(s->params, 99)))
CALL(master_99, recorded(mega_params_master(s->params, 99)))
CALL(grad_99, recorded(mega_params_grad(s->params, 99)))
CALL(bucket_99, recorded(mega_params_bucket(s->params, 99)))
CALL(bucket_early, recorded(mega_params_bucket(s->unplaced, 0)))
CALL(shard_late, mega_params_shard(s->placed, 1))
CALL(shard_4, mega_params_shard(s->unplaced, 4))
CALL(persist_late, mega_params_persist(s->placed, 1))
CALL(persist_minus_1, mega_params_persist(s->unplaced, -1))
CALL(publish_early, mega_params_publish(s->placed))
CALL(gather_early, mega_params_gather(s->placed))
CALL(fill_early, mega_params_initialize(s->placed, 1))
CALL(add_late, mega_params_add(s->placed, &(mega_param){.name = "late"}, NULL))
CALL(add_nothing, mega_params_add(s->unplaced, NULL, NULL))
CALL(place_twice, mega_params_place(s->placed, MEGA_F32, 0))
CALL(buffers_early, mega_params_allocate(s->unplaced, MEGA_PARAMS_WEIGHTS))

CALL(build_without_options, mega_program_build(NULL, NULL, &s->raw_program))
CALL(program_twice, mega_program_allocate(s->program))
CALL(forward_null, mega_program_forward(NULL, 0))
CALL(forward_early, mega_program_forward(s->raw_program, 0))
CALL(forward_of_slot_1, mega_program_forward(s->program, 1))
CALL(backward_early, mega_program_backward(s->raw_program, 0))
CALL(backward_of_slot_1, mega_program_backward(s->program, -1))
CALL(backward_without_forward, mega_program_backward(s->program, 0))
CALL(tensor_of_slot_1, recorded(mega_program_tensor(s->program, "tokens", 1)))

CALL(optimizer_of_nothing, mega_optimizer_create(NULL, s->layout, &(mega_optimizer_options){0}, &s->raw_optimizer))
CALL(optimizer_unplaced, mega_optimizer_create(s->unplaced, s->layout, &(mega_optimizer_options){0}, &s->raw_optimizer))
CALL(optimizer_early, mega_optimizer_allocate(s->raw_optimizer))
CALL(optimizer_twice, mega_optimizer_allocate(s->optimizer))
CALL(print_update_null, mega_update_print(NULL, NULL))
CALL(print_update_nowhere, mega_update_print(s->update, NULL))
CALL(update_early, mega_update_run(s->raw_update, MEGA_UPDATE_APPLY))
CALL(update_without_moments, mega_update_run(s->update, MEGA_UPDATE_APPLY))
CALL(update_null, mega_update_run(NULL, MEGA_UPDATE_APPLY))
CALL(update_of_nothing, mega_update_create(NULL, &(mega_update_options){0}, &s->none))
CALL(update_of_100_sums, mega_update_create(s->optimizer, &(mega_update_options){.num_sums = 100}, &s->none))
CALL(norm_early, mega_optimizer_params_norm(s->raw_optimizer, &norm))

static const struct {
    const char *name;
    mega_status (*call)(scene *s);
    const char *said;
} wrong[] = {
#define ROW(name, said)   \
    {                     \
#name, name, said \
    }
    ROW(create_nowhere, "out is NULL"),
    ROW(create_without_options, "options is NULL"),
    ROW(create_without_model, "model is NULL"),
    ROW(create_without_layers, "model m: it has no layers"),
    ROW(create_without_describe, "has no function describe"),
    ROW(create_without_rows, "micro_batch 0"),
    ROW(create_without_positions, "seq 0"),
    ROW(create_without_ramp, "batch.micro_step 0"),
    ROW(create_for_other_ranks, "expected 2, micro_batch (2) times 1"),
    ROW(create_with_odd_batch, "batch.global_batch 5; expected a multiple of batch.micro_step (2)"),
    ROW(create_with_stage_7, "zero_stage 7; expected 0, 1, 2 or 3"),
    ROW(create_with_i32, "expected f32, bf16, f16 or f64"),
    ROW(step_empty, "the parameters have no values; call mega_engine_initialize or mega_engine_load"),
    ROW(evaluate_empty, "the parameters have no values"),
    ROW(save_empty, "the parameters have no values"),
    ROW(program_null, "the engine is NULL"),
    ROW(chunk_program_null, "the engine is NULL"),
    ROW(params_null, "the engine is NULL"),
    ROW(whole_null, "the engine is NULL"),
    ROW(optimizer_null, "the engine is NULL"),
    ROW(layout_null, "the engine is NULL"),
    ROW(schedule_null, "the engine is NULL"),
    ROW(step_schedule_null, "the engine is NULL"),
    ROW(progress_null, "the engine is NULL"),
    ROW(chunks_null, "the engine is NULL"),
    ROW(sample_null, "the engine is NULL"),
    ROW(bytes_null, "the engine is NULL"),
    ROW(bytes_without_options, "the argument options is NULL"),
    ROW(profile_null, "the engine is NULL"),
    ROW(observe_null, "the engine is NULL"),
    ROW(cost_null, "the engine is NULL"),
    ROW(cost_nowhere, "the argument out is NULL"),
    ROW(memory_null, "the engine is NULL"),
    ROW(memory_nowhere, "the argument out is NULL"),
    ROW(layout_nowhere, "out is NULL"),
    ROW(graph_nowhere, "out is NULL"),
    ROW(graph_status_null, "the graph is NULL"),
    ROW(print_null, "the program is NULL"),
    ROW(print_nowhere, "out is NULL"),
    ROW(norm_null, "the optimizer is NULL"),
    ROW(norm_nowhere, "out is NULL"),
    ROW(allocate_null, "the engine is NULL"),
    ROW(allocate_twice, "has its memory already"),
    ROW(initialize_null, "the engine is NULL"),
    ROW(initialize_early, "call mega_engine_allocate first"),
    ROW(batch_null, "the engine is NULL"),
    ROW(batch_early, "call mega_engine_allocate first"),
    ROW(step_null, "the engine is NULL"),
    ROW(step_early, "call mega_engine_allocate first"),
    ROW(step_without_batch, "call mega_engine_batch"),
    ROW(step_of_evaluation, "those of an evaluation"),
    ROW(step_without_result, "argument out is NULL"),
    ROW(step_without_program, "created with no_train"),
    ROW(step_without_filling, "input \"key_begin\" of sample 0 (row 0 of the batch) is not filled; fill it with "
                              "mega_sample_set_i32"),
    ROW(step_without_the_last_sample, "input \"key_begin\" of sample 3 (row 3 of the batch) is not filled"),
    ROW(step_with_token_50, "input \"tokens\": number 3 of sample 3 (row 3 of the batch) is 50; expected 0 to 49"),
    ROW(step_with_label_below_0,
        "input \"labels\": label -1 (number 3 of sample 3, row 3 of the batch); expected 0 to 49, one of 50 classes"),
    ROW(step_with_position_16,
        "input \"position_ids\": number 3 of sample 3 (row 3 of the batch) is 16; expected 0 to 15"),
    ROW(set_unknown_input,
        "sample: \"image\" is filled with 16 numbers of type f32, but the model has no input of that "
        "name, number and type; its inputs, with their numbers per sample, are \""),
    ROW(set_short_input, "\"tokens\" is filled with 15 numbers of type i32, but"),
    ROW(set_ids_as_weights, "\"tokens\" is filled with 16 numbers of type f32, but"),
    ROW(set_no_sample, "the sample is NULL"),
    ROW(event_null, "the engine is NULL"),
    ROW(event_early, "call mega_engine_allocate first"),
    ROW(event_nameless, "argument name is NULL"),
    ROW(event_with_comma, "name \"a,b\"; expected a name without commas"),
    ROW(exchanges_null, "the engine is NULL"),
    ROW(exchanges_early, "call mega_engine_allocate first"),
    ROW(exchanges_not_counted, "exchanges are not counted; give"),
    ROW(part_null, "the engine is NULL"),
    ROW(part_early, "call mega_engine_allocate first"),
    ROW(part_of_nothing, "argument dataset is NULL"),
    ROW(part_without_function, "its function read is NULL"),
    ROW(part_of_3_rows, "3 rows; expected a multiple of micro_batch"),
    ROW(part_before_the_first, "the first sample is -1"),
    ROW(evaluate_null, "the engine is NULL"),
    ROW(evaluate_early, "call mega_engine_allocate first"),
    ROW(evaluate_without_batch, "call mega_engine_evaluation_batch"),
    ROW(evaluate_without_sums, "argument sums is NULL"),
    ROW(evaluate_without_program, "created with no_evaluate"),
    ROW(evaluation_of_3_rows, "3 rows; expected a multiple of micro_batch (2), at most 4"),
    ROW(evaluation_of_many_rows, "1000 rows"),
    ROW(evaluation_of_no_rows, "0 rows"),
    ROW(chunk_5, "chunk 5; this rank has chunks 0 to 0"),
    ROW(compare_null, "the engine is NULL"),
    ROW(save_null, "the engine is NULL"),
    ROW(save_without_options, "argument options is NULL"),
    ROW(save_nowhere, "argument options.folder is NULL"),
    ROW(save_early, "call mega_engine_allocate first"),
    ROW(save_without_state, "created with no_train"),
    ROW(load_nothing, "the checkpoint is NULL"),
    ROW(load_without_options, "argument options is NULL"),
    ROW(check_nothing, "argument checkpoint is NULL"),
    ROW(check_load_nothing, "the checkpoint is NULL"),
    ROW(params_without_layout, "the layout is NULL"),
    ROW(param_minus_1, "parameter -1: expected a number from 0 to"),
    ROW(param_of_none, "parameter -1"),
    ROW(param_without_name, "parameter -1"),
    ROW(weight_99, "parameter 99"),
    ROW(master_99, "parameter 99"),
    ROW(grad_99, "parameter 99"),
    ROW(bucket_99, "bucket 99: expected a number from 0 to"),
    ROW(bucket_early, "no buckets before mega_params_place"),
    ROW(shard_late, "called after mega_params_place"),
    ROW(shard_4, "stage 4 of ZeRO"),
    ROW(persist_late, "called after mega_params_place"),
    ROW(persist_minus_1, "-1 elements"),
    ROW(publish_early, "call mega_params_allocate first"),
    ROW(gather_early, "call mega_params_allocate first"),
    ROW(fill_early, "call mega_params_allocate first"),
    ROW(add_late, "declared after mega_params_place"),
    ROW(add_nothing, "the record is NULL"),
    ROW(place_twice, "placed twice"),
    ROW(buffers_early, "before mega_params_place"),
    ROW(build_without_options, "the graph is NULL"),
    ROW(program_twice, "allocated before"),
    ROW(forward_null, "the program is NULL"),
    ROW(forward_early, "call mega_program_allocate first"),
    ROW(forward_of_slot_1, "slot 1; it was built with 1, expected 0 to 0"),
    ROW(backward_early, "call mega_program_allocate first"),
    ROW(backward_of_slot_1, "slot -1"),
    ROW(backward_without_forward, "run mega_program_forward of that slot first"),
    ROW(tensor_of_slot_1, "slot 1"),
    ROW(optimizer_of_nothing, "the list of parameters is NULL"),
    ROW(optimizer_unplaced, "call mega_params_place first"),
    ROW(optimizer_early, "call mega_params_allocate first"),
    ROW(optimizer_twice, "allocated before"),
    ROW(print_update_null, "the program is NULL"),
    ROW(print_update_nowhere, "out is NULL"),
    ROW(update_early, "call mega_params_allocate first"),
    ROW(update_without_moments, "call mega_optimizer_allocate first"),
    ROW(update_null, "the program is NULL"),
    ROW(update_of_nothing, "the optimizer is NULL"),
    ROW(update_of_100_sums, "num_sums 100"),
    ROW(norm_early, "call mega_params_allocate first"),
#undef ROW
};

/* Makes each wrong call twice, because the first refusal must not change the second; afterwards everything works as if
 * no wrong call had been made. */
static void wrong_calls_are_answered(void **state)
{
    (void)state;
    scene s;
    rig fresh;
    scene_open(&s);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            mega_error_clear();
            const mega_status st = wrong[i].call(&s);
            if (st != MEGA_ERR_USAGE && wrong[i].call != create_with_i32)
                fail_msg("%s: %s, \"%s\"", wrong[i].name, mega_status_name(st), mega_error_message());
            if (st == MEGA_OK || strstr(mega_error_message(), wrong[i].said) == NULL)
                fail_msg("%s said \"%s\", expected \"%s\"", wrong[i].name, mega_error_message(), wrong[i].said);
        }
    need(mega_program_forward(s.program, 0));
    need(mega_program_backward(s.program, 0));
    assert_int_equal(mega_program_backward(s.program, 0), MEGA_ERR_USAGE); /* its backward has already run */
    assert_null(mega_program_tensor(s.program, "nobody", 0));
    rig_open(&fresh, 1);
    if (loss_of_a_step(&s.ready) != loss_of_a_step(&fresh)) fail_msg("a wrong call changed the engine");
    mega_engine_destroy(fresh.engine);
    scene_close(&s);
}

static void a_plan_cannot_run(void **state)
{
    (void)state;
    mega_engine *e = NULL;
    const mega_transformer gpt = engine_run_gpt();
    mega_engine_options o = engine_run_options(BATCH, 2, 1e-2);
    o.layout.planned_ranks = 2;
    o.batch.micro_step = 4;
    need(gpt_engine_create(&e, &gpt, &o));
    assert_int_equal(mega_engine_allocate(e), MEGA_ERR_USAGE);
    if (strstr(mega_error_message(), "planned_ranks 2") == NULL) fail_msg("%s", mega_error_message());
    mega_engine_destroy(e);
}

/* After a failed step, the next step computes the same as without the failure. */
static void a_step_follows_a_failed_one(void **state)
{
    (void)state;
    rig r, other;
    mega_step_result out;
    rig_open(&r, 1);
    rig_open(&other, 1);
    void *weight = mega_params_master(mega_engine_params(r.engine), 0);
    const double kept = device_number(weight, MEGA_F32, 0);
    device_set(weight, MEGA_F32, 0, (double)NAN);
    fill(r.engine);
    assert_int_equal(mega_engine_train_batch(r.engine, &out), MEGA_ERR_NUMERIC);
    device_set(weight, MEGA_F32, 0, kept);
    if (loss_of_a_step(&r) != loss_of_a_step(&other)) fail_msg("the first loss after a failed step is another");
    if (loss_of_a_step(&r) != loss_of_a_step(&other)) fail_msg("the second loss after a failed step is another");
    mega_engine_destroy(r.engine);
    mega_engine_destroy(other.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_calls_are_answered),
        cmocka_unit_test(a_plan_cannot_run),
        cmocka_unit_test(a_step_follows_a_failed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
