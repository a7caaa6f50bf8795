/* Tests the rows of pretrain_gpt, pretrain_bert and pretrain_t5: their models, and how they handle checkpoints. */
#include "kit.h"
#include "megalith/command_options.h"
#include "megalith/engine_commands.h"
#include "megalith/family.h"
#include "tasks/task.h"

#include <string.h>

/* Configures a network of four layers, in two stages with two programs each. */
static void configure(mega_command_options *cfg)
{
    char *argv[] = {"plan", "--num-layers",
                    "4",    "--hidden-size",
                    "32",   "--num-attention-heads",
                    "4",    "--seq-length",
                    "16",   "--max-position-embeddings",
                    "16",   "--micro-batch-size",
                    "1",    "--train-iters",
                    "1",    "--lr",
                    "1e-3", NULL};
    need(mega_command_options_init(cfg));
    need(mega_options_parse(cfg->train.engine.options, "plan", (int)(sizeof argv / sizeof *argv) - 1, argv));
    cfg->train.model.padded_vocab_size = 128;
    cfg->train.engine.comm.pipeline_model_parallel_size = 2;
    cfg->train.model.num_virtual_stages_per_pipeline_rank = 2;
}

static void commands_have_rows(void **state)
{
    (void)state;
    assert_string_equal(train_task_of("pretrain_gpt")->command, "pretrain_gpt");
    assert_ptr_equal(train_task_of("pretrain_bert"), &train_task_bert);
    assert_ptr_equal(train_task_of("pretrain_t5"), &train_task_t5);
    assert_ptr_equal(train_task_of("tasks"), &train_task_classify);
    assert_ptr_equal(train_task_of("plan"), &train_task_gpt);
    assert_ptr_equal(train_task_of(NULL), &train_task_gpt);
}

/* The list of layers is valid as long as the task holds it: the engine may be created from it repeatedly. */
static void a_model_is_made_from_options(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_model m;
    mega_buffer text = {0};
    configure(&cfg);
    const mega_task_options o = {.cfg = &cfg.train, .vocab_rows = 100};
    need(train_task_gpt.make_model(&o, &m));
    assert_int_equal(m.stage_programs, 2);
    assert_int_equal(m.model.num_layers, 3);
    assert_int_equal(m.model.layer[1].repeat, 4);
    const mega_engine_options e = {.compute = MEGA_F32,
                                   .layout = {.pp = 2, .planned_ranks = 2, .planned_rank = 1},
                                   .stage_programs = m.stage_programs,
                                   .micro_batch = 1,
                                   .seq = 16,
                                   .batch = {.global_batch = 4, .micro_step = 1},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-3, .decay = 100}};
    for (int i = 0; i < 2; i++) {
        mega_engine *engine;
        need(mega_engine_create(&(mega_setup){.model = &m.model, .options = &e}, &engine));
        assert_int_equal(mega_engine_chunks(engine), 2);
        mega_engine_destroy(engine);
    }
    train_task_gpt.describe(&m, &text);
    assert_non_null(strstr(text.data, "4 layers, hidden 32, 4 heads of 8, ffn 128, positions 16"));
    mega_buffer_fini(&text);
    train_task_gpt.free_model(&m);
    assert_null(m.self);
    mega_command_options_fini(&cfg);
}

static void checkpoints_are_compared_by_the_names_of_options(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_model m;
    mega_buffer text = {0};
    configure(&cfg);
    need(train_task_gpt.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100}, &m));
    mega_model_shape stored = train_task_gpt.shape(&m, 3);
    assert_int_equal(stored.eos, 3);
    train_task_gpt.compare(&m, &stored, &text);
    assert_int_equal(text.size, 0);
    stored.num_layers = 6;
    stored.vocab = 101;
    train_task_gpt.compare(&m, &stored, &text);
    assert_string_equal(text.data, "\n  --num-layers is 4 here, 6 in the checkpoint"
                                   "\n  the vocabulary of the tokenizer is 100 here, 101 in the checkpoint");
    mega_buffer_fini(&text);
    train_task_gpt.free_model(&m);

    /* A model trained with the exact gelu keeps using it; the command line overrides the checkpoint's other values. */
    stored.net.activation = MEGA_ACT_GELU;
    stored.norm_epsilon = 1e-6;
    need(train_task_gpt.take_shape(&cfg.train, &stored, true));
    assert_int_equal(cfg.train.model.num_layers, 4);
    assert_true(cfg.train.model.layernorm_epsilon == 1e-6);
    need(train_task_gpt.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 101, .stored = &stored}, &m));
    assert_int_equal(train_task_gpt.shape(&m, 3).net.activation, MEGA_ACT_GELU);
    train_task_gpt.free_model(&m);
    mega_command_options_fini(&cfg);
}

static void refuses_folder(const mega_train_options *cfg, const mega_model_shape *stored, const char *says)
{
    mega_task_model m;
    const mega_task_options o = {.cfg = cfg, .vocab_rows = 100, .stored = stored};
    assert_true(train_task_classify.make_model(&o, &m) != MEGA_OK);
    if (strstr(mega_error_message(), says) == NULL) fail_msg("\"%s\" is not in %s", says, mega_error_message());
    train_task_classify.free_model(&m);
}

/* A run that only takes the weights of another task's classifier gets one with the classes of its own. */
static void begins_anew(const mega_train_options *cfg, const mega_model_shape *stored)
{
    mega_task_model m;
    need(train_task_classify.make_model(&(mega_task_options){.cfg = cfg, .vocab_rows = 100, .stored = stored}, &m));
    const mega_model_shape made = train_task_classify.shape(&m, 3);
    assert_true(m.begins_classifier && made.net.choices == (strcmp(cfg->classify.task, "RACE") == 0 ? 4 : 0));
    if (made.net.classes > 0)
        assert_string_equal(mega_shape_label(&made.net, 0), made.net.classes == 2 ? "not_duplicate" : "contradiction");
    train_task_classify.free_model(&m);
}

/* A classifier begins from an encoder, or goes on from a classifier of the same task. */
static void classifiers_begin_from_encoders(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_model m;
    configure(&cfg);
    const mega_task_options new = {.cfg = &cfg.train, .vocab_rows = 100};
    cfg.train.bert = (mega_bert_options){.bert_binary_head = true};
    need(train_task_bert.make_model(&new, &m));
    const mega_model_shape bert = train_task_bert.shape(&m, 3);
    train_task_bert.free_model(&m);

    cfg.train.classify.task = "MNLI";
    cfg.train.finetune = true;
    need(train_task_classify.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &bert},
                                        &m));
    const mega_model_shape tuned = train_task_classify.shape(&m, 3);
    assert_true(m.begins_classifier && tuned.net.classes == 3 && tuned.net.choices == 0 && !tuned.net.sentence_head);
    assert_string_equal(mega_family_of(&tuned.net)->model_type, "megatron-bert");
    train_task_classify.free_model(&m);
    need(train_task_classify.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &tuned},
                                        &m));
    assert_false(m.begins_classifier);
    train_task_classify.free_model(&m);
    assert_string_equal(mega_shape_label(&tuned.net, 1), "entailment");
    mega_model_shape named = tuned;
    memset(named.net.labels, 0, sizeof named.net.labels);
    static const char *const other[] = {"NEUTRAL", "Contradiction", "entailment"};
    for (int i = 0; i < 3; i++) assert_true(mega_shape_add_label(&named.net, other[i]));
    need(train_task_classify.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &named},
                                        &m));
    const mega_model_shape kept = train_task_classify.shape(&m, 3);
    assert_string_equal(mega_shape_label(&kept.net, 0), "NEUTRAL");
    train_task_classify.free_model(&m);
    strcpy(named.net.labels, "neutrol");
    begins_anew(&cfg.train, &named);
    cfg.train.finetune = false;
    refuses_folder(&cfg.train, &named, "calls the classes neutrol, Contradiction, entailment (id2label)");
    strcpy(named.net.labels, "neutral");
    strcpy(named.net.labels + sizeof "neutral", "neutral");
    refuses_folder(&cfg.train, &named, "which are not those of MNLI");

    cfg.train.finetune = true;
    cfg.train.classify.task = "RACE";
    need(train_task_classify.make_model(&new, &m));
    const mega_model_shape race = train_task_classify.shape(&m, 3);
    assert_true(!m.begins_classifier && race.net.choices == 4);
    assert_string_equal(mega_family_of(&race.net)->model_type, "megatron-bert");
    train_task_classify.free_model(&m);
    begins_anew(&cfg.train, &tuned);

    cfg.train.classify.task = "QQP";
    begins_anew(&cfg.train, &tuned);
    begins_anew(&cfg.train, &race);
    cfg.train.finetune = false;
    refuses_folder(&cfg.train, &race, "a classifier of 4 choices, and QQP has 2 classes");
    refuses_folder(&cfg.train, &tuned, "a classifier of 3 classes, and QQP has 2 classes");
    refuses_folder(&cfg.train, &bert, "--pretrained-checkpoint with this folder begins one");
    cfg.train.skip_train = true;
    refuses_folder(&cfg.train, &bert, "and nothing is trained");
    mega_model_shape decoder = bert;
    decoder.net = (mega_network_shape){.kv_heads = 0};
    refuses_folder(&cfg.train, &decoder, "the folder holds a gpt2; --task QQP needs a bert");
    assert_int_equal(
        train_task_bert.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &tuned}, &m),
        MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "the folder holds a classifier (megatron-bert)"));
    train_task_bert.free_model(&m);
    mega_command_options_fini(&cfg);
}

/* The form of a new BERT follows the options, that of a loaded one its folder; decoders and encoders are not mixed
 * up. */
static void encoders_have_a_row_of_their_own(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_model m;
    configure(&cfg);
    cfg.train.bert = (mega_bert_options){.bert_binary_head = true};
    const mega_task_options o = {.cfg = &cfg.train, .vocab_rows = 100};
    need(train_task_bert.make_model(&o, &m));
    mega_model_shape stored = train_task_bert.shape(&m, 3);
    assert_string_equal(mega_family_of(&stored.net)->model_type, "megatron-bert");
    assert_int_equal(stored.net.activation, MEGA_ACT_GELU);
    assert_true(stored.net.is_encoder && stored.net.sentence_head && stored.eos == -1);
    train_task_bert.free_model(&m);

    cfg.train.bert = (mega_bert_options){.bert_form = MEGA_BERT_ORIGINAL, .openai_gelu = true};
    need(train_task_bert.make_model(&o, &m));
    mega_model_shape original = train_task_bert.shape(&m, 3);
    assert_string_equal(mega_family_of(&original.net)->model_type, "bert");
    assert_int_equal(original.net.activation, MEGA_ACT_GELU_TANH);
    assert_false(original.net.sentence_head);
    train_task_bert.free_model(&m);

    /* a folder of pairs, trained without them; then with them, which a folder without the head forbids */
    need(train_task_bert.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &stored}, &m));
    assert_false(train_task_bert.shape(&m, 3).net.sentence_head);
    train_task_bert.free_model(&m);
    cfg.train.bert.bert_binary_head = true;
    need(train_task_bert.take_shape(&cfg.train, &original, true));
    assert_false(cfg.train.bert.bert_binary_head);

    assert_int_equal(
        train_task_gpt.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &stored}, &m),
        MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "which pretrain_bert trains"));
    stored.net = (mega_network_shape){.kv_heads = 0};
    assert_int_equal(
        train_task_bert.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = 100, .stored = &stored}, &m),
        MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "which pretrain_gpt trains"));
    mega_command_options_fini(&cfg);
}

/* The form of a new T5 follows the options, that of a loaded one its folder. */
static void two_stacks_have_a_row_of_their_own(void **state)
{
    (void)state;
    static const struct {
        mega_t5_form form;
        const char *family;
        bool gated, untied;
    } row[] = {{MEGA_T5_FORM_MEGATRON, "megatron-t5", false, false},
               {MEGA_T5_FORM_T5, "t5", false, false},
               {MEGA_T5_FORM_V1_1, "t5", true, true},
               {MEGA_T5_FORM_MT5, "mt5", true, true},
               {MEGA_T5_FORM_UMT5, "umt5", true, true}};
    mega_command_options cfg;
    mega_task_model m;
    configure(&cfg);
    cfg.train.t5 = (mega_t5_settings){.decoder_num_layers = 3, .decoder_seq_length = 8};
    cfg.train.model.num_virtual_stages_per_pipeline_rank = 1; /* the tables of a tied t5 would meet */
    mega_task_options o = {.cfg = &cfg.train, .vocab_rows = 100};
    mega_model_shape stored = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        cfg.train.t5.t5_form = row[i].form;
        need(train_task_t5.make_model(&o, &m));
        stored = train_task_t5.shape(&m, 3);
        assert_string_equal(mega_family_of(&stored.net)->model_type, row[i].family);
        assert_true(stored.net.gated == row[i].gated && stored.net.untied == row[i].untied);
        assert_int_equal(stored.net.decoder_layers, 3);
        assert_int_equal(m.model.num_layers, 6);
        train_task_t5.free_model(&m);
    }
    cfg.train.t5.t5_form = MEGA_T5_FORM_MEGATRON; /* the folder, a umt5, wins */
    o.stored = &stored;
    need(train_task_t5.make_model(&o, &m));
    const mega_model_shape loaded = train_task_t5.shape(&m, 3);
    assert_string_equal(mega_family_of(&loaded.net)->model_type, "umt5");
    assert_true(loaded.net.biases_by_layer);
    train_task_t5.free_model(&m);
    cfg.train.t5.decoder_num_layers = 2;
    assert_int_equal(train_task_t5.make_model(&o, &m), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "--decoder-num-layers is 2 here, 3 in the checkpoint"));
    train_task_t5.free_model(&m);
    assert_int_equal(train_task_gpt.make_model(&o, &m), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "which pretrain_t5 trains"));
    stored.net = (mega_network_shape){.kv_heads = 0};
    assert_int_equal(train_task_t5.make_model(&o, &m), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "which pretrain_gpt trains"));
    mega_command_options_fini(&cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_have_rows),
        cmocka_unit_test(a_model_is_made_from_options),
        cmocka_unit_test(checkpoints_are_compared_by_the_names_of_options),
        cmocka_unit_test(classifiers_begin_from_encoders),
        cmocka_unit_test(encoders_have_a_row_of_their_own),
        cmocka_unit_test(two_stacks_have_a_row_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
