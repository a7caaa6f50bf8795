/* A run that is resumed by its own command is the run that was never cut: each kind of network that options describe
 * and each family of folders, with each option at its default and set. Weights and moments agree bit for bit, and so do
 * the settings that both runs store; the resumed run warns of nothing that the whole one does not. */
#include "gpt_engine.h"
#include "kit.h"
#include "megalith/checkpoint.h"
#include "megalith/command_options.h"
#include "megalith/family.h"
#include "megalith/file.h"
#include "megalith/hf_config.h"
#include "megalith/indexed.h"
#include "megalith/json.h"
#include "megalith/log.h"
#include "megalith/peak.h"
#include "megalith/train.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPT     "pretrain_gpt"
#define BERT    "pretrain_bert"
#define T5      "pretrain_t5"
#define SIZES   "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 "
#define ROPE    "--position-embedding-type rope "
#define LLAMA   ROPE "--normalization RMSNorm --swiglu --disable-bias-linear --ffn-hidden-size 40 "
#define YARN    LLAMA "--rope-type yarn --yarn-original-max-position-embeddings 16 --rotary-scaling-factor 4 "
#define GATE    ROPE "--normalization RMSNorm --disable-bias-linear --glu-activation "
#define SPECIAL 7 /* tokens at the start of the vocabulary that texts do not have */

static const char *folder;
static int failures, runs;

/* ---- what is trained on ---- */

/* One vocabulary and one pair of data files for all commands: documents of sentences. */
static void make_data(void)
{
    mega_buffer words = {0};
    mega_indexed_writer *w;
    mega_buffer_puts(&words, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[BOS]\n[EOS]\n");
    for (int i = SPECIAL; i < 50; i++) mega_buffer_printf(&words, "%c%c\n", 'a' + i % 26, 'a' + i / 26);
    mega_kit_write(mega_kit_path(folder, "vocab.txt"), words.data);
    mega_buffer_fini(&words);
    need(mega_indexed_writer_create(mega_kit_path(folder, "data"), MEGA_U16, &w));
    for (int d = 0; d < 60; d++) {
        int32_t token[40], size[4] = {8, 11, 9, 12};
        for (int i = 0; i < 40; i++) token[i] = SPECIAL + (d * 17 + i * i * 5 + i * d) % (50 - SPECIAL);
        need(mega_indexed_writer_add_document(w, token, size, 4));
    }
    need(mega_indexed_writer_finish(w));
}

/* ---- a run ---- */

/* Half of the time of so short a run: the linker puts this in place of the measurement (cmake/tests.cmake). */
mega_peak __wrap_mega_cpu_peak_measure(mega_team *team, mega_dtype dtype);
mega_peak __wrap_mega_cpu_peak_measure(mega_team *team, mega_dtype dtype)
{
    (void)team;
    (void)dtype;
    return (mega_peak){.flops = 1e9, .share = 1};
}

typedef struct notes {
    mega_buffer text;
} notes;

static void note(void *user, mega_log_level level, const char *line)
{
    notes *n = user;
    if (level == MEGA_LOG_WARN) mega_buffer_printf(&n->text, "%s\n", line);
}

static void no_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static int split_words(char *text, char **argv, int count)
{
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word != '\0') argv[count++] = word;
    argv[count] = NULL;
    return count;
}

static mega_status run_words(const char *command, const char *text, mega_buffer *warnings)
{
    static char name[] = "run";
    char line[4096], *argv[256] = {name};
    notes n = {{0}};
    mega_command_options cfg;
    mega_team *team = NULL;
    const mega_train_io io = {.line = no_line};
    snprintf(line, sizeof line, "%s", text);
    const int argc = split_words(line, argv, 1);
    mega_log_set_sink(note, &n);
    mega_status st = mega_command_options_init(&cfg);
    if (st == MEGA_OK) st = mega_options_read(cfg.train.engine.options, command, argc, argv);
    if (st == MEGA_OK) st = mega_team_create(1, &team);
    if (st == MEGA_OK) st = mega_train(&cfg.train, team, &io);
    mega_team_destroy(team);
    mega_command_options_fini(&cfg);
    mega_log_set_sink(NULL, NULL);
    *warnings = n.text;
    runs++;
    return st;
}

static mega_status run(const char *command, const char *words, const char *load, const char *save,
                       mega_buffer *warnings)
{
    char line[4096];
    const bool is_t5 = strcmp(command, T5) == 0;
    snprintf(
        line, sizeof line,
        "--seq-length 16 --micro-batch-size 2 --lr 1e-2 --train-iters 4 --save-interval 2 --eval-iters 0 --num-threads "
        "1 "
        "--tokenizer-type BertWordPieceLowerCase --vocab-file %s/vocab.txt --data-path %s/data --split 100,0,0 %s%s "
        "--save %s %s",
        folder, folder, is_t5 ? "--vocab-extra-ids 8 " : "", load, save, words);
    return run_words(command, line, warnings);
}

/* ---- comparing ---- */

static json_t *json_of(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL) fail_msg("%s: %s", path, error.text);
    return json;
}

static void complain(const char *command, const char *words, const char *what)
{
    failures++;
    printf("FAILED %s %s: %s\n", command, words, what);
}

static void compare_file(const char *command, const char *words, const char *a, const char *b, const char *name)
{
    char *x = NULL, *y = NULL, what[600];
    size_t n = 0, m = 0;
    const char *left = mega_kit_path(a, name), *right = mega_kit_path(b, name);
    if (!mega_file_exists(left) && !mega_file_exists(right)) return;
    need(mega_file_read(left, &x, &n));
    need(mega_file_read(right, &y, &m));
    snprintf(what, sizeof what, "%s of the resumed run differs", name);
    if (n != m || memcmp(x, y, n) != 0) complain(command, words, what);
    mega_free(x);
    mega_free(y);
}

static void compare_section(const char *command, const char *words, const json_t *a, const json_t *b,
                            const char *section)
{
    static const char *const other[] = {"load", "save", "finetune", "ckpt_step"};
    const json_t *x = json_object_get(a, section), *y = json_object_get(b, section), *value;
    const char *key;
    char what[600];
    json_object_foreach((json_t *)(uintptr_t)x, key, value)
    {
        bool differs = !json_equal((json_t *)(uintptr_t)value, json_object_get(y, key));
        for (size_t i = 0; i < sizeof other / sizeof *other; i++) differs = differs && strcmp(key, other[i]) != 0;
        if (!differs) continue;
        char *before = json_dumps(value, JSON_ENCODE_ANY),
             *after = json_dumps(json_object_get(y, key), JSON_ENCODE_ANY);
        snprintf(what, sizeof what, "%s.%s was %s, is %s", section, key, before, after);
        complain(command, words, what);
        free(before);
        free(after);
    }
}

/* Each line of b stands in a. */
static void compare_warnings(const char *command, const char *words, const char *a, char *b)
{
    for (char *rest = b, *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line != '\0' && strstr(line, "transformers cannot load") == NULL &&
            strstr(a != NULL ? a : "", line) == NULL)
            complain(command, words, line);
}

static void compare(const char *command, const char *words, const char *a, const char *b)
{
    static const char *const files[] = {"config.json", "model.safetensors", "state/optimizer.safetensors",
                                        "state/masters.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) compare_file(command, words, a, b, files[i]);
    json_t *x = json_of(mega_kit_path(a, "state/run.json")), *y = json_of(mega_kit_path(b, "state/run.json"));
    compare_section(command, words, x, y, "arguments");
    compare_section(command, words, x, y, "network");
    json_decref(x);
    json_decref(y);
}

/* from: a folder of another program, from which the run begins; NULL: random weights. Returns false if its first
 * command is refused. */
static bool resumes(const char *command, const char *words, const char *from)
{
    static int number;
    char load[1024] = "", name[40], cut[1024];
    mega_buffer first = {0}, second = {0};
    snprintf(name, sizeof name, "whole%d", ++number);
    const char *whole = mega_kit_path(folder, name);
    snprintf(name, sizeof name, "rest%d", number);
    const char *rest = mega_kit_path(folder, name);
    if (from != NULL) snprintf(load, sizeof load, "--finetune --load %s", from);
    const mega_status st = run(command, words, load, whole, &first);
    snprintf(cut, sizeof cut, "--load %s/iter_0000002", whole);
    if (st == MEGA_OK && run(command, words, cut, rest, &second) == MEGA_OK) {
        compare(command, words, mega_kit_path(whole, "iter_0000004"), mega_kit_path(rest, "iter_0000004"));
        if (second.data != NULL) compare_warnings(command, words, first.data, second.data);
    } else if (st == MEGA_OK) {
        complain(command, words, mega_error_message());
    }
    MEGA_IGNORE(mega_tree_remove(whole)); /* hundreds of runs are 10 GB */
    MEGA_IGNORE(mega_tree_remove(rest));
    mega_buffer_fini(&first);
    mega_buffer_fini(&second);
    return st == MEGA_OK;
}

/* ---- folders of other programs ---- */

/* A small model of the family: its defaults, with sizes that fit each other. */
static void write_config(const mega_family *f, const char *path)
{
    static const struct {
        const char *key;
        int value;
    } sizes[] = {{"vocab_size", 61},
                 {"hidden_size", 32},
                 {"n_embd", 32},
                 {"num_hidden_layers", 2},
                 {"n_layer", 2},
                 {"num_attention_heads", 4},
                 {"n_head", 4},
                 {"num_key_value_heads", 2},
                 {"max_position_embeddings", 32},
                 {"n_positions", 32},
                 {"head_dim", 8},
                 {"intermediate_size", 40},
                 {"ffn_dim", 40},
                 {"dim", 32},
                 {"hidden_dim", 40},
                 {"n_layers", 2},
                 {"n_heads", 4},
                 {"d_model", 32},
                 {"d_kv", 8},
                 {"d_ff", 40},
                 {"num_layers", 2},
                 {"num_heads", 4},
                 {"original_max_position_embeddings", 32}};
    json_t *json = json_pack("{s:s, s:i}", "model_type", f->model_type, "eos_token_id", 6);
    for (int t = 0; f->keys[t] != NULL; t++)
        for (const mega_family_key *k = f->keys[t]; k->key != NULL; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                if (strcmp(k->key, sizes[i].key) == 0) json_object_set_new(json, k->key, json_integer(sizes[i].value));
    assert_int_equal(json_dump_file(json, path, 0), 0);
    json_decref(json);
}

/* Returns a folder with random weights, as another program would leave it: without state. */
static const char *make_folder(const mega_family *f)
{
    static const char *const state[] = {"state/run.json", "state/checksums.json", "state"};
    const char *config = mega_kit_path(folder, "config.json"), *save = mega_kit_path(folder, f->model_type);
    mega_model_shape shape;
    mega_transformer gpt;
    mega_engine *engine = NULL;
    write_config(f, config);
    need(mega_hf_config_read(config, &shape));
    mega_transformer_from_shape(&shape, 1, &gpt);
    if (shape.init_std <= 0) gpt.init_std = 0.02;
    if (gpt.net.t5 != MEGA_T5_NONE) gpt.decoder_positions = 16;
    const mega_engine_options o = {.compute = MEGA_F32,
                                   .micro_batch = 1,
                                   .seq = 16,
                                   .no_evaluate = true,
                                   .batch = {.global_batch = 1, .micro_step = 1},
                                   .optimizer = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
                                   .schedule = {.style = MEGA_LR_CONSTANT, .max_lr = 1e-3, .decay = 100}};
    need(gpt_engine_create(&engine, &gpt, &o));
    need(mega_engine_allocate(engine));
    need(mega_engine_initialize(engine, 5));
    need(mega_engine_save(engine, &(mega_engine_save_options){.folder = save, .shape = &shape, .no_optim = true}));
    mega_engine_destroy(engine);
    const char *iteration = mega_kit_path(save, "iter_0000000");
    for (size_t i = 0; i < sizeof state / sizeof *state; i++)
        if (remove(mega_kit_path(iteration, state[i])) != 0) fail_msg("%s/%s is not removed", iteration, state[i]);
    return iteration;
}

/* ---- the tables ---- */

/* clang-format off */
/* Options that every network takes. */
static const char *const of_all[] = {
    "", "--layernorm-epsilon 3e-4 --init-method-std 1.5 --make-vocab-size-divisible-by 7",
    "--bf16 --save-dtype bf16 --recompute-granularity selective", NULL};
/* A T5 has one number for both; the others are set each alone. */
static const char *const of_t5[] = {"--attention-dropout 0.23 --hidden-dropout 0.23", NULL};
static const char *const of_one_stack[] = {"--attention-dropout 0.23", "--hidden-dropout 0.17", NULL};

static const struct {
    const char *command, *words;
} networks[] = {
    {GPT, ""},
    {GPT, "--squared-relu"},
    {GPT, "--ffn-hidden-size 40"},
    {GPT, "--init-method-xavier-uniform"},
    {GPT, LLAMA},
    {GPT, LLAMA "--num-key-value-heads 2 --untie-embeddings-and-output-weights --rotary-base 5000"},
    {GPT, LLAMA "--use-rope-scaling --rope-scaling-factor 4"},
    {GPT, LLAMA "--rotary-seq-len-interpolation-factor 3"},
    {GPT, LLAMA "--window-size 5,0"},
    {GPT, LLAMA "--add-qkv-bias"},
    {GPT, LLAMA "--qk-layernorm"},
    {GPT, LLAMA "--no-rope-freq 2"},
    {GPT, YARN "--yarn-beta-fast 20 --yarn-beta-slow 2"},
    {GPT, YARN "--no-yarn-correction-range-round-to-int --mscale 0.7 --mscale-all-dim 0.9"},
    {GPT, LLAMA "--rotary-interleaved --apply-layernorm-1p"},
    {GPT, GATE "geglu"}, {GPT, GATE "liglu"}, {GPT, GATE "reglu"}, {GPT, GATE "swiglu"},
    {GPT, ROPE "--rotary-percent 0.5 --untie-embeddings-and-output-weights"},
    {GPT, ROPE "--group-query-attention --num-query-groups 2"},
    {GPT, "--position-embedding-type alibi --embed-layernorm"},
    {GPT, "--attention-head-type multiquery"},
    {GPT, "--position-embedding-type none"},
    {GPT, "--position-embedding-type alibi --normalization RMSNorm --kv-channels 8"},
    {GPT, LLAMA "--num-experts 4 --moe-aux-loss-coeff 0.01 --moe-z-loss-coeff 0.001 --moe-input-jitter-eps 0.01"},
    {GPT, LLAMA "--num-experts 4 --moe-router-load-balancing-type sinkhorn"},
    {GPT, LLAMA "--num-experts 4 --moe-expert-capacity-factor 0.5 --moe-min-capacity 3 --moe-token-drop-policy position"},
    {GPT, LLAMA "--num-experts 4 --moe-ffn-hidden-size 24 --moe-layer-freq [0,1] --qk-layernorm --moe-router-pre-softmax"},
    {GPT, LLAMA "--num-experts 4 --moe-ffn-hidden-size 24 --moe-layer-freq 2 --moe-router-score-function sigmoid "
                "--moe-router-topk-scaling-factor 2.5 --moe-router-num-groups 2 --moe-router-group-topk 1"},
    {GPT, LLAMA "--num-experts 4 --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
                "--moe-router-bias-update-rate 0.01"},
    {GPT, "--disable-bias-linear --num-experts 3 --moe-router-topk 1 --moe-router-pre-softmax"},
    {BERT, ""}, {BERT, "--openai-gelu"}, {BERT, "--bert-no-binary-head"}, {BERT, "--bert-form bert"},
    {T5, ""}, {T5, "--squared-relu --decoder-num-layers 1"}, {T5, "--t5-form t5"},
    {T5, "--t5-form t5 --swiglu --untie-embeddings-and-output-weights"}, {T5, "--t5-form v1.1"}, {T5, "--t5-form mt5"},
    {T5, "--t5-form umt5"}};

/* Options of the run, which no network changes. */
static const struct {
    const char *command, *words;
} settings[] = {
    {GPT, "--optimizer sgd --sgd-momentum 0.8 --sgd-dampening 0.1"}, {GPT, "--optimizer sgd --sgd-nesterov"},
    {GPT, "--optimizer adagrad --adagrad-lr-decay 0.1 --adagrad-initial-accumulator-value 0.2"},
    {GPT, "--optimizer lion"}, {GPT, "--optimizer ademamix --ademamix-beta3 0.99 --ademamix-alpha 3 --ademamix-steps 3"},
    {GPT, "--optimizer schedule_free_adamw --schedule-free-warmup-steps 3 --schedule-free-r 0.2 --schedule-free-weight-lr-power 1.5"},
    {GPT, "--optimizer lamb --lamb-max-coeff 5 --lamb-min-coeff 0.1"}, {GPT, "--optimizer muon --muon-momentum 0.8 --muon-nesterov --adam-lr 1e-3"},
    {GPT, "--optimizer one_bit_adam --one-bit-adam-freeze-step 3"},
    {GPT, "--adam-beta1 0.8 --adam-beta2 0.9 --adam-eps 1e-6"}, {GPT, "--adam-amsgrad"}, {GPT, "--no-adam-bias-correction"}, {GPT, "--maximize"},
    {GPT, "--clip-grad 0.3"}, {GPT, "--weight-decay 0.2 --no-decoupled-weight-decay"},
    {GPT, "--start-weight-decay 0.01 --end-weight-decay 0.2 --weight-decay-incr-style cosine"},
    {GPT, "--parameter-group *.bias:weight_decay=0.3,lr=5e-3"},
    {GPT, "--lr-decay-style cosine --min-lr 1e-4 --lr-warmup-iters 2 --lr-warmup-init 1e-5"},
    {GPT, "--lr-decay-style WSD --lr-wsd-decay-iters 2 --lr-decay-iters 6"}, {GPT, "--lr-decay-iters 9"},
    {GPT, "--global-batch-size 6"}, {GPT, "--calculate-per-token-loss"},
    {GPT, "--dataloader-type cyclic"}, {GPT, "--seed 77"},
    {GPT, "--fp16"}, {GPT, "--fp16 --loss-scale 16"}, {GPT, "--fp16 --initial-loss-scale 4294967296 --loss-scale-window 2 --hysteresis 1"},
    {GPT, "--fp64"}, {GPT, "--bf16 --grad-accum-dtype bf16"}, {GPT, "--apex-amp --apex-amp-level O2"},
    {GPT, "--curriculum-learning --curriculum-min-difficulty 8 --curriculum-total-steps 4"},
    {GPT, "--max-shard-size 20K"}, {GPT, "--zero-stage 2"}, {GPT, "--no-save-rng"},
    {BERT, "--mask-prob 0.3 --short-seq-prob 0.4"}, {BERT, "--bert-nsp"},
    {T5, "--mask-prob 0.3 --short-seq-prob 0.4"}, {T5, "--decoder-seq-length 12"}, {T5, "--decoder-seq-length 12 --t5-form t5"}};
/* clang-format on */

static void try_network(const char *command, const char *words, const char *more, const char *from)
{
    char line[2048];
    snprintf(line, sizeof line, "%s %s %s", from == NULL ? SIZES : "--use-checkpoint-args ", words, more);
    if (!resumes(command, line, from)) complain(command, line, mega_error_message());
}

static void try_options(const char *command, const char *words, const char *from)
{
    const char *const *const dropouts = strcmp(command, T5) == 0 ? of_t5 : of_one_stack;
    for (int k = 0; of_all[k] != NULL; k++) try_network(command, words, of_all[k], from);
    for (int k = 0; dropouts[k] != NULL; k++) try_network(command, words, dropouts[k], from);
}

static void networks_of_options_are_resumed(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        try_options(networks[i].command, networks[i].words, NULL);
    assert_int_equal(failures, 0);
}

static void settings_of_runs_are_resumed(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        try_network(settings[i].command, settings[i].words, "", NULL);
    assert_int_equal(failures, 0);
}

/* What a resumed run says of options: those that its user has changed, and no others. */
static void changes_are_named_alone(void **state)
{
    static const struct {
        const char *words, *more, *said;
    } rows[] = {{LLAMA "--hidden-dropout 0.17", "--hidden-dropout 0.3",
                 "  --hidden-dropout was 0.17, is 0.3 from iteration 3 on"},
                {LLAMA, "--clip-grad 0.3", "  --clip-grad was 1.0, is 0.3 from iteration 3 on"},
                {"", "--adam-beta2 0.9", "  --adam-beta2 was 0.999, is 0.9 from iteration 3 on"},
                {"", "--init-method-std 0.3", NULL},
                {"", "--micro-batch-size 4",
                 "  --global-batch-size (follows from other options) was 2, is 4 from iteration 3 on"},
                {"", "--train-iters 9", NULL},
                {"--train-iters 5 --min-lr 1e-4", "--train-iters 5 --min-lr 2e-4",
                 "  --min-lr was 0.0001, is 0.0002 from iteration 3 on"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[2048], name[40], load[1024];
        mega_buffer first = {0}, second = {0};
        snprintf(name, sizeof name, "before%zu", i);
        const char *before = mega_kit_path(folder, name);
        snprintf(line, sizeof line, SIZES "%s", rows[i].words);
        need(run(GPT, line, "", before, &first));
        snprintf(load, sizeof load, "--override-opt_param-scheduler --load %s/iter_0000002", before);
        snprintf(line, sizeof line, SIZES "%s %s", rows[i].words, rows[i].more);
        snprintf(name, sizeof name, "after%zu", i);
        need(run(GPT, line, load, mega_kit_path(folder, name), &second));
        const char *list = second.data != NULL ? strstr(second.data, "options differ") : NULL;
        const char *at = list != NULL ? strchr(list, '\n') : NULL;
        const size_t length = rows[i].said != NULL ? strlen(rows[i].said) : 0;
        if ((list != NULL) != (length > 0)) fail_msg("%s: %s", rows[i].more, second.data);
        if (length > 0 && (strncmp(at + 1, rows[i].said, length) != 0 || strncmp(at + 1 + length, "\n  --", 5) == 0))
            fail_msg("%s: %s", rows[i].more, list);
        mega_buffer_fini(&first);
        mega_buffer_fini(&second);
    }
}

/* An option that the command no longer has does not bring back its default: the network is the run's. */
static void dropped_options_stay_as_they_were(void **state)
{
    mega_buffer first = {0}, second = {0};
    char load[1024];
    (void)state;
    const char *before = mega_kit_path(folder, "dropped"), *after = mega_kit_path(folder, "dropped_after");
    failures = 0;
    need(run(GPT, SIZES LLAMA "--hidden-dropout 0.17 --layernorm-epsilon 3e-4", "", before, &first));
    snprintf(load, sizeof load, "--load %s --ckpt-step 2", before);
    need(run(GPT, SIZES LLAMA, load, after, &second));
    compare(GPT, "dropped", mega_kit_path(before, "iter_0000004"), mega_kit_path(after, "iter_0000004"));
    assert_null(second.data != NULL ? strstr(second.data, "options differ") : NULL);
    assert_int_equal(failures, 0);
    mega_buffer_fini(&first);
    mega_buffer_fini(&second);
}

static void folders_are_resumed(void **state)
{
    (void)state;
    failures = 0;
    for (int i = 0; mega_families[i] != NULL; i++) {
        const mega_family *f = mega_families[i];
        const char *command = f->net.t5 != MEGA_T5_NONE ? T5 : f->net.is_encoder ? BERT : GPT, *from = make_folder(f);
        const char *words = strcmp(command, BERT) == 0 ? "--bert-no-binary-head" : "";
        try_options(command, words, from);
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_of_options_are_resumed),
                                       cmocka_unit_test(settings_of_runs_are_resumed),
                                       cmocka_unit_test(folders_are_resumed), cmocka_unit_test(changes_are_named_alone),
                                       cmocka_unit_test(dropped_options_stay_as_they_were)};
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* hundreds of saves, each of which waits for its disk */
    folder = mega_kit_temp_folder();
    make_data();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("%d runs\n", runs);
    return failed;
}
