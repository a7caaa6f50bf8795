/* Tests the data functions of the pretrain_gpt row. */
#include "kit.h"
#include "megalith/batch.h"
#include "megalith/command_options.h"
#include "megalith/gpt_data.h"
#include "megalith/hash.h"
#include "megalith/indexed.h"
#include "train_impl.h"

#include <string.h>

enum { SEQ = 16, VOCAB = 50, DOCUMENTS = 10, LENGTH = 40 };

/* Writes documents of tokens below VOCAB, different in each document. */
static const char *write_data(void)
{
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), "a");
    mega_indexed_writer *w;
    need(mega_indexed_writer_create(prefix, MEGA_U16, &w));
    for (int d = 0; d < DOCUMENTS; d++) {
        int32_t tokens[LENGTH];
        for (int i = 0; i < LENGTH; i++) tokens[i] = (d * 7 + i * 3) % VOCAB;
        need(mega_indexed_writer_add(w, tokens, LENGTH));
    }
    need(mega_indexed_writer_finish(w));
    return prefix;
}

static void configure(mega_command_options *cfg)
{
    const char *prefix = write_data();
    char *argv[] = {"plan",
                    "--num-layers=1",
                    "--hidden-size=8",
                    "--num-attention-heads=2",
                    "--seq-length=16",
                    "--max-position-embeddings=16",
                    "--micro-batch-size=2",
                    "--train-iters=10",
                    "--lr=1e-3",
                    "--data-path",
                    (char *)prefix,
                    NULL};
    need(mega_command_options_init(cfg));
    need(mega_options_parse(cfg->train.engine.options, "plan", (int)(sizeof argv / sizeof *argv) - 1, argv));
    cfg->train.model.padded_vocab_size = 128;
}

static mega_task_data_options options_of(const mega_train_options *cfg, int64_t vocab)
{
    return (mega_task_data_options){.cfg = cfg, .vocab = vocab, .num_samples = {20, 0, 0}, .seed = 7};
}

static void free_all(mega_task_data d[MEGA_SPLIT_COUNT])
{
    for (int i = 0; i < MEGA_SPLIT_COUNT; i++) {
        train_task_gpt.free_data(&d[i]);
        assert_null(d[i].self);
    }
}

/* Returns a hash of a sample's tokens. */
static uint64_t hash_of(const mega_task_data *d, int64_t index)
{
    static const mega_batch_input tokens = {.name = "tokens", .dtype = MEGA_I32, .per_sample = SEQ};
    const mega_dataset set = train_task_gpt.dataset(d);
    mega_batch *b;
    need(mega_batch_create(1, &b));
    need(mega_batch_add(b, &tokens, true));
    need(mega_batch_allocate(b));
    mega_batch_begin(b, 1);
    need(set.read(set.user, index, mega_batch_sample(b, 0)));
    const uint64_t hash =
        mega_hash64(MEGA_HASH_START, mega_sample_i32(mega_batch_sample(b, 0), "tokens", SEQ), SEQ * sizeof(int32_t));
    mega_batch_destroy(b);
    return hash;
}

static void parts_follow_one_another(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_data one[MEGA_SPLIT_COUNT], two[MEGA_SPLIT_COUNT];
    configure(&cfg);
    mega_task_data_options o = options_of(&cfg.train, VOCAB);
    need(train_task_gpt.make_data(&o, one));
    o.seed++;
    need(train_task_gpt.make_data(&o, two));
    assert_null(one[MEGA_SPLIT_TEST].self); /* no sample was requested */
    assert_true(one[0].samples >= 20 && one[0].order_bytes > 0);
    assert_true(hash_of(&one[0], 0) != hash_of(&one[0], 1));
    assert_true(train_task_gpt.data_hash(&one[0]) == train_task_gpt.data_hash(&two[0]));
    const int64_t samples[] = {one[0].samples, two[0].samples};
    const uint64_t first = hash_of(&one[0], 3), second = hash_of(&two[0], 3);
    mega_task_data part[] = {one[0], two[0]}, joined;
    need(train_task_gpt.join_data(part, 2, &joined));
    assert_int_equal(joined.samples, samples[0] + samples[1]);
    assert_true(hash_of(&joined, 3) == first && hash_of(&joined, samples[0] + 3) == second);
    train_task_gpt.free_data(&joined);
    one[0].self = two[0].self = NULL;
    free_all(one);
    free_all(two);
    mega_command_options_fini(&cfg);
}

/* Token ids outside the vocabulary are reported before the first step if the checked tokens contain one, otherwise
 * when a sample that contains one is read. */
static void other_vocabularies_are_refused(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_data d[MEGA_SPLIT_COUNT];
    uint64_t content;
    configure(&cfg);
    mega_task_data_options o = options_of(&cfg.train, 10);
    need(train_task_gpt.make_data(&o, d));
    assert_int_equal(train_task_gpt.look_at_data(&d[0], &content), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "holds token id"));
    const mega_dataset set = train_task_gpt.dataset(&d[0]);
    assert_int_equal(set.read(set.user, 0, NULL), MEGA_ERR_USAGE);
    assert_non_null(strstr(mega_error_message(), "training sample 0 holds token id"));
    free_all(d);
    o.check_only = true;
    o.vocab = VOCAB;
    need(train_task_gpt.make_data(&o, d));
    need(train_task_gpt.look_at_data(&d[0], &content));
    free_all(d);
    mega_command_options_fini(&cfg);
}

/* Every input that the model names is filled. */
static void samples_fill_the_inputs_of_the_model(void **state)
{
    (void)state;
    mega_command_options cfg;
    mega_task_data d[MEGA_SPLIT_COUNT];
    mega_task_model m;
    mega_engine *e;
    mega_step_result r;
    configure(&cfg);
    const mega_task_data_options o = options_of(&cfg.train, VOCAB);
    const mega_engine_options eo = {.compute = MEGA_F32,
                                    .micro_batch = 2,
                                    .seq = SEQ,
                                    .batch = {.global_batch = 2, .micro_step = 2},
                                    .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                    .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-3, .decay = 100}};
    need(train_task_gpt.make_data(&o, d));
    need(train_task_gpt.make_model(&(mega_task_options){.cfg = &cfg.train, .vocab_rows = VOCAB}, &m));
    const mega_dataset set = train_task_gpt.dataset(&d[0]);
    need(mega_engine_create(&(mega_setup){.model = &m.model, .training_data = &set, .options = &eo}, &e));
    need(mega_engine_allocate(e));
    need(mega_engine_initialize(e, 1));
    need(mega_engine_train_batch(e, &r));
    mega_engine_destroy(e);
    train_task_gpt.free_model(&m);
    free_all(d);
    mega_command_options_fini(&cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_one_another),
        cmocka_unit_test(other_vocabularies_are_refused),
        cmocka_unit_test(samples_fill_the_inputs_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
