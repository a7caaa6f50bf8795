/* Tests option names of other programs: each gets an answer, and a name that works does what it means. */
#include "options_kit.h"
#include <stdlib.h>

#define PLAN  "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
#define BATCH "--seq-length 32 --micro-batch-size 4 "

/* A foreign command line, and the same with this program's own names. */
typedef struct same {
    const char *command, *foreign, *own;
} same;

static const same works[] = {
    {"plan", PLAN "--block_size 32 --per_device_train_batch_size 4", PLAN BATCH},
    {"plan", "--n_layer=2 --n_head=4 --n_embd=64 --block_size=32 --batch_size=4 --dropout=0.0 --bias=True",
     PLAN BATCH "--attention-dropout 0.0 --hidden-dropout 0.0"},
    {"plan", PLAN BATCH "--learning_rate 1e-3 --max_steps 9 --warmup_steps 3 --max_grad_norm 0.5 --adam_epsilon 1e-6",
     PLAN BATCH "--lr 1e-3 --train-iters 9 --lr-warmup-iters 3 --clip-grad 0.5 --adam-eps 1e-6"},
    {"plan", PLAN BATCH "--output_dir x --save_steps 5 --save_total_limit 2 --logging_steps 7 --eval_steps 11",
     PLAN BATCH "--save x --save-interval 5 --keep-checkpoints 2 --log-interval 7 --eval-interval 11"},
    {"plan", PLAN BATCH "--gradient_accumulation_steps 3", PLAN BATCH "--global-batch-size 12"},
    {"plan", PLAN BATCH "--gradient_accumulation_steps 3 --world-size 2",
     PLAN BATCH "--global-batch-size 24 --world-size 2"},
    {"plan", PLAN BATCH "--num-micro-batches 3", PLAN BATCH "--global-batch-size 12"},
    {"plan", PLAN BATCH "--mixed-precision bf16", PLAN BATCH "--bf16"},
    {"plan", PLAN BATCH "--mixed_precision=no", PLAN BATCH},
    {"plan", PLAN BATCH "--dtype bfloat16", PLAN BATCH "--bf16"},
    {"plan", PLAN BATCH "--lr_scheduler_type cosine", PLAN BATCH "--lr-decay-style cosine"},
    {"plan", PLAN BATCH "--lr_scheduler_type inverse_sqrt", PLAN BATCH "--lr-decay-style inverse-square-root"},
    {"plan", PLAN BATCH "--lr_scheduler_type cosine_with_restarts", PLAN BATCH "--lr-decay-style cosine"},
    {"plan", PLAN BATCH "--lr_scheduler_type polynomial", PLAN BATCH "--lr-decay-style linear --min-lr 1e-7"},
    {"plan", PLAN BATCH "--train_sampling_strategy random --ddp_static_graph --trackio_space_id x", PLAN BATCH},
    {"plan", PLAN BATCH "--bf16 True --log-throughput False", PLAN BATCH "--bf16"},
    {"plan", PLAN BATCH "--bf16=true --fp16 false", PLAN BATCH "--bf16"},
    {"plan", PLAN BATCH "--no-pack-weights False --no-gradient-accumulation-fusion True", PLAN BATCH},
    {"plan", PLAN BATCH "--decay_lr False", PLAN BATCH "--lr-decay-style constant"},
    {"plan", PLAN BATCH "--always_save_checkpoint=False", PLAN BATCH},
    {"plan", PLAN BATCH "--optim adamw_torch", PLAN BATCH},
    {"plan", PLAN BATCH "--optim sgd", PLAN BATCH "--optimizer sgd"},
    {"plan", PLAN BATCH "--gradient_checkpointing", PLAN BATCH "--recompute-granularity full"},
    {"plan", PLAN BATCH "--gradient_checkpointing True --log-interval 3",
     PLAN BATCH "--recompute-granularity full --log-interval 3"},
    {"plan", PLAN BATCH "--gradient_checkpointing False", PLAN BATCH},
    {"plan", PLAN BATCH "--model_name_or_path x", PLAN BATCH "--load x --finetune"},
    {"plan", PLAN BATCH "--evaluation_strategy no", PLAN BATCH "--eval-iters 0"},
    {"plan", PLAN BATCH "--no-cuda --cuda false --use-gpu=False", PLAN BATCH},
    {"plan", PLAN BATCH "--tp 2 --world-size 2", PLAN BATCH "--tensor-model-parallel-size 2 --world-size 2"},
    {"plan", PLAN BATCH "--tp_degree 2 --sequence_parallelism true --world-size 2",
     PLAN BATCH "--tensor-model-parallel-size 2 --sequence-parallel --world-size 2"},
    {"plan", PLAN BATCH "--use-megatron-fsdp --use-distributed-optimizer --world-size 2",
     PLAN BATCH "--zero-stage 3 --world-size 2 --DDP-impl FSDP --use-distributed-optimizer"},
    {"plan", PLAN BATCH "--data-parallel-sharding-strategy optim_grads --world-size 2",
     PLAN BATCH "--zero-stage 2 --world-size 2"},
    {"plan", PLAN BATCH "--partition-activations --recompute-granularity full --world-size 2 --tp_size 2",
     PLAN BATCH "--distribute-saved-activations --recompute-granularity full --world-size 2 "
                "--tensor-model-parallel-size 2"},
    {"plan", PLAN BATCH "--grad-reduce-in-bf16", PLAN BATCH "--communication-data-type bf16"},
    {"plan", PLAN BATCH "--main-grads-dtype bf16", PLAN BATCH "--grad-accum-dtype bf16"},
    {"plan", PLAN BATCH "--megatron-fsdp-main-grads-dtype bf16 --megatron-fsdp-grad-comm-dtype auto",
     PLAN BATCH "--grad-accum-dtype bf16"},
    {"plan",
     PLAN BATCH "--norm rmsnorm --pos_emb rotary --rotary_pct 1 --activation swiglu --no_weight_tying "
                "--disable-bias-linear",
     PLAN BATCH "--normalization RMSNorm --position-embedding-type rope --rotary-percent 1 --swiglu "
                "--untie-embeddings-and-output-weights --disable-bias-linear"},
    {"plan", PLAN BATCH "--partition-activations", PLAN BATCH}, /* one rank has no other to share with */
    {"plan", PLAN BATCH "--logging-level 10", PLAN BATCH "--log-level debug"},
    {"plan", PLAN BATCH "--attention-head-type multihead", PLAN BATCH},
    {"plan", PLAN BATCH "--per_device_eval_batch_size 4 --data_seed 1234 --num-beams-like-nothing 1",
     NULL}, /* the last option is unknown */
    {"plan", PLAN BATCH "--per_device_eval_batch_size 4 --data_seed 1234", PLAN BATCH},
    {"plan", PLAN BATCH "--do_train --do_eval", PLAN BATCH},
    {"generate_samples_gpt", "--load . --start abc --max_new_tokens 7 --random_seed 5 --num_beams 1",
     "--load . --prompt abc --out-seq-length 7 --seed 5"},
    {"generate_samples_gpt", "--load . --prompt a --beam_width 4 --eos_token_id 5",
     "--load . --prompt a --num-beams 4 --stop_token 5"},
    {"generate_samples_gpt", "--load . --prompt a --genfile x --return_log_probs --stop_strings b --stop_words c",
     "--load . --prompt a --genfile x --logprobs --stop b --stop c"},
    {"generate_samples_gpt", "--load . --prompt a --do_sample false", "--load . --prompt a --greedy"},
    {"generate_samples_gpt", "--load . --prompt a --do_sample", "--load . --prompt a"},
    {"generate_samples_gpt", "--load . --prompt a --top_k 0 --top_p 0.0", "--load . --prompt a --greedy"},
    {"generate_samples_gpt", "--load . --prompt a --top_k 0", "--load . --prompt a"},
    {"train_tokenizer", "--input a --output b --vocab-size 300 --model-type unigram",
     "--input a --output b --vocab-size 300 --tokenizer-type SentencePieceTokenizer"},
    {"train_tokenizer", "--input a --output b --vocab-size 300 --model-type wordpiece",
     "--input a --output b --vocab-size 300 --tokenizer-type BertWordPieceLowerCase"},
    {"preprocess_data", "--input_file a --text_column body --output_path p --num_proc 3 --tokenizer-type ByteTokenizer",
     "--input a --json-keys body --output-prefix p --workers 3 --tokenizer-type ByteTokenizer"},
};

/* Returns the values that a command line sets, as JSON without their sources. */
static char *values(const char *command, const char *line)
{
    mega_command_options c;
    mega_buffer b = {0};
    kit_accept(&c, command, line);
    /* the two lines may set it in different ways; the values derived from it are compared */
    c.train.engine.optim.gradient_accumulation_steps = 0;
    assert_int_equal(mega_options_to_json(c.train.engine.options, &b), MEGA_OK);
    mega_command_options_fini(&c);
    return b.data;
}

static void names_that_work(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        if (works[i].own == NULL) {
            kit_refuse(works[i].command, works[i].foreign, "is not an option");
            continue;
        }
        char *foreign = values(works[i].command, works[i].foreign), *own = values(works[i].command, works[i].own);
        if (strcmp(foreign, own) != 0) fail_msg("%s\n%s\nis not\n%s", works[i].foreign, foreign, own);
        mega_free(foreign);
        mega_free(own);
    }
}

static void names_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *command, *line, *part;
    } cases[] = {
        {"plan", PLAN BATCH "--num_train_epochs 3",
         "--num_train_epochs 3 is not implemented yet: the length is said by"},
        {"plan", PLAN BATCH "--config_overrides n_embd=8", "is not implemented yet: give --preset"},
        {"plan", PLAN BATCH "--tokenizer_name gpt2", "is not implemented yet: give its folder: --tokenizer-type"},
        {"plan", PLAN BATCH "--autotuning run", "is not implemented yet: megalith plan"},
        {"plan", PLAN BATCH "--mixed_precision int4",
         "--mixed_precision int4 is not implemented yet; known are bf16, no"},
        {"plan", PLAN BATCH "--offload_optimizer_device nvme", "known are none, cpu ("},
        {"plan", PLAN BATCH "--init_from resume", "(resume is --load FOLDER, gpt2 is --load FOLDER --finetune)"},
        {"plan", PLAN BATCH "--gradient_checkpointing maybe", "\"maybe\" is neither true nor false"},
        {"plan", PLAN BATCH "--do_eval", "here that is --skip-train"},
        {"plan", PLAN BATCH "--per_device_eval_batch_size 8",
         "(only --micro-batch-size 4 (argument 9) is accepted): evaluations"},
        {"plan", PLAN BATCH "--gradient_accumulation_steps 3 --global-batch-size 8",
         "--gradient_accumulation_steps 3 (argument 11) and --global-batch-size 8"},
        {"plan", PLAN BATCH "--gradient-accumulation-steps 3 --global-batch-size 8", "contradict each other"},
        {"plan", PLAN BATCH "--use-torch-fsdp2 --zero-stage 1", "FSDP is ZeRO stage 3"},
        {"plan", PLAN BATCH "-num-layers 2", "-num-layers: options begin with two dashes: write --num-layers"},
        {"plan", PLAN BATCH "-block_size 2", "write --block_size"},
        {"plan", PLAN BATCH "\u2013lr 2", "begins with a long dash, as web pages print it; write --lr"},
        {"plan", PLAN BATCH "--learnin_rate 2", "did you mean --learning_rate?"},
        {"plan", PLAN BATCH "--fp8", "--fp8 is not implemented yet: nothing is computed in FP8"},
        {"plan", PLAN BATCH "--fp8 hybrid", "--fp8 hybrid is not implemented yet: nothing is computed in FP8"},
        {"plan", PLAN BATCH "--gpu", "--gpu is refused: commands that compute take a GPU by --device cuda"},
        {"plan", PLAN BATCH "--gpu=0", "--gpu 0 is refused: commands that compute take a GPU by --device cuda"},
        {"plan", PLAN BATCH "--cuda", "is refused: commands that compute take a GPU by --device cuda"},
        {"tokenize", "--tokenizer-type ByteTokenizer --text a --gpu",
         "commands that compute take a GPU by --device cuda"},
        {"data", "info a --use-cuda", "commands that compute take a GPU by --device cuda"},
        {"tokenize", "--tokenizer-type ByteTokenizer --text a --fp8",
         "--fp8 is not an option of tokenize: nothing is computed in FP8"}, /* no command has it */
        {"generate_samples_gpt", "--load . --prompt a --num-beam-groups 4", "groups of beams are not implemented"},
        {"generate_samples_gpt", "--load . --prompt a --typical-p 0.5", "is not implemented yet (only 1 is accepted)"},
        {"generate_samples_gpt", "--load . --prompt a --no-repeat-ngram-size 2",
         "is not implemented yet (only 0 is accepted)"},
        {"generate_samples_gpt", "--load . --prompt a --suppress-tokens 5", "is not implemented yet: every token"},
        {"generate_samples_gpt", "--load . --prompt a --output-scores", "is not implemented yet: texts are returned"},
        {"generate_samples_gpt", "--load . --prompt a --max_length 9", "it counts the prompt too"},
        {"preprocess_data", "--input a --output-prefix b --tokenizer-type ByteTokenizer --max-documents 3",
         "cut the input"},
        {"plan", PLAN BATCH "--decoder-seq-length 4", "--decoder-seq-length 4 is refused: only a T5 has a decoder"},
        {"plan", PLAN BATCH "--output-bert-embeddings", "megalith embed writes the embeddings"},
        {"generate_samples_gpt", "--load . --prompt a --pipeline-model-parallel-split-rank 1",
         "--pipeline-model-parallel-split-rank 1 is refused: texts are the same"},
        {"train_tokenizer", "--input a --output b --vocab-size 300 --model-type words",
         "known are bpe, BPE, unigram, Unigram, wordpiece"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kit_refuse(cases[i].command, cases[i].line, cases[i].part);
        if (strstr(mega_error_message(), "mistakes") != NULL) fail_msg("%s: %s", cases[i].line, mega_error_message());
    }
}

/* Notes say how this value was understood, and do not list all values; the note on nanoGPT's schedule
 * is printed once. */
static void what_was_done_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *command, *line, *said, *unsaid;
    } rows[] = {
        {"plan", PLAN BATCH "--dtype bfloat16", "read as: --dtype bfloat16 -> --bf16\n", "needs nothing"},
        {"plan", PLAN BATCH "--dtype float32 --n_layer 2", "--dtype float32 -> the default, --n_layer -> ", "bf16"},
        {"plan", PLAN BATCH "--lr_scheduler_type cosine", "cosine -> --lr-decay-style cosine\n", "nanoGPT"},
        {"generate_samples_gpt", "--load . --prompt a --do_sample False", "--do_sample False -> --greedy\n", "drawn"},
        {"plan", PLAN BATCH "--learning_rate 1e-3 --max_iters=9 --lr_decay_iters=9 --warmup_iters=1 --min_lr=1e-4",
         "--max_iters: the learning rate decays linearly here, as in Megatron; give --lr-decay-style cosine",
         "--min_lr: the learning rate"},
        {"plan", PLAN BATCH "--decay_lr=True", "--decay_lr: the learning rate decays linearly here", NULL},
        {"plan", PLAN BATCH "--decay_lr=False --warmup_iters 1 --train-iters 3", "--decay_lr False -> --lr-decay-style",
         "linearly here"},
        {"plan", PLAN BATCH "--lr 1e-3 --train-iters 9 --lr-decay-iters 9 --min-lr 1e-4 --block_size 32", "read as",
         "linearly here"},
        {"generate_samples_gpt", "--load . --prompt a --echo True --n_predict 3", "read as", "echo"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mega_command_options c;
        kit_accept(&c, rows[i].command, rows[i].line);
        kit_assert_has(kit_notes, rows[i].said);
        if (rows[i].unsaid != NULL && strstr(kit_notes, rows[i].unsaid) != NULL)
            fail_msg("%s: %s", rows[i].line, kit_notes);
        mega_command_options_fini(&c);
    }
    kit_refuse("generate_samples_gpt", "--load . --prompt a --echo False", "texts begin with their prompt");
}

static void names_without_effect(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--resume-dataloader",
        "--cache-dir x",
        "--lazy-loader",
        "--offload-optimizer",
        "--report_to wandb",
        "--do_train",
        "--dataloader_num_workers 3",
        "--rl-prompts-per-eval 3 --rl-partial-rollouts",
        "--moe-latent-size 3",
        "--optimizer-cpu-offload",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        mega_command_options c;
        char line[256];
        snprintf(line, sizeof line, PLAN BATCH "%s", lines[i]);
        kit_accept(&c, "plan", line);
        kit_assert_has(kit_notes, "no effect here: ");
        mega_command_options_fini(&c);
    }
    mega_command_options c;
    kit_accept(&c, "plan", PLAN BATCH "--wandb");
    kit_assert_has(kit_notes, "--wandb: --wandb-project NAME writes an offline run");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", PLAN BATCH "--rl-prompts-per-eval 3 --rl-partial-rollouts --rl-profile-dir x");
    kit_assert_has(kit_notes, "--rl-prompts-per-eval, --rl-partial-rollouts, --rl-profile-dir: it only matters with");
    mega_command_options_fini(&c);
    kit_accept(&c, "generate_samples_gpt", "--load . --prompt a --top_k 0 --top_p 0");
    kit_assert_has(kit_notes, "--top_k 0 --top_p 0 is --greedy, as Megatron-DeepSpeed documents it");
    mega_command_options_fini(&c);
}

/* The remark on a name is about its meaning in the other program. */
static void remarks_are_of_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *remark;
    } pairs[] = {
        {"contiguous_memory_optimization", "memory is planned"},
        {"synchronize_checkpoint_boundary", "what is recomputed is said by --recompute-granularity"},
        {"number_checkpoints", "what is recomputed is said by --recompute-granularity"},
        {"sub_group_size", "the optimizer updates all"},
        {"allgather_bucket_size", "--ddp-bucket-size"},
        {"sync_bn", "no model here has a batch norm"},
        {"enable_progress_bar", "there is no progress bar"},
        {"dist_url", "the MPI launcher"},
        {"is_train_batch_min", "--micro-batch-size"},
        {"callbacks", "there are no callbacks"},
        {"flash", "attention"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const size_t index = mega_option_find(kit_table(), pairs[i].name, strlen(pairs[i].name), FOR_PRETRAIN);
        assert_true(index != SIZE_MAX);
        kit_assert_has(kit_table()->line[index].row->remark, pairs[i].remark);
    }
    const size_t words = mega_option_find(kit_table(), "bad_words_ids", strlen("bad_words_ids"), FOR_GENERATE);
    kit_assert_has(kit_table()->line[words].row->remark, "every token may be drawn");
}

/* Returns a value that is valid for the row's kind. */
static const char *some_value(const mega_option_row *row)
{
    static char text[64];
    if (row->cases != NULL) { /* the first case */
        snprintf(text, sizeof text, "%.*s", (int)strcspn(row->cases, ":"), row->cases);
        return text;
    }
    switch (row->kind) {
    case MEGA_OPTION_INT:
    case MEGA_OPTION_FLOAT: return "7";
    case MEGA_OPTION_BOOL: return row->neutral != NULL ? "false" : "true";
    case MEGA_OPTION_STRING:
    case MEGA_OPTION_LIST:
    case MEGA_OPTION_APPEND: return "x";
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF:
    case MEGA_OPTION_CHOICE:
    case MEGA_OPTION_BYTES:
    case MEGA_OPTION_INT3:
    case MEGA_OPTION_ANY: return "";
    }
    return "";
}

/* Every foreign name gets an answer from every command that accepts it, and is never reported as unknown. */
static void every_foreign_name_is_answered(void **state)
{
    (void)state;
    static const char *const commands[] = {"plan", "generate_samples_gpt", "tasks", "preprocess_data",
                                           "train_tokenizer"};
    const size_t step = getenv("MEGA_UNDER_VALGRIND") != NULL ? 11 : 1;
    size_t checked = 0;
    for (size_t i = 0; i < kit_table()->count; i += step) {
        const mega_option_row *row = kit_table()->line[i].row;
        for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++) {
            if (!kit_table()->line[i].is_foreign ||
                (kit_table()->line[i].commands & mega_command_find(&mega_commands, commands[c])->bit) == 0)
                continue;
            mega_command_options cfg;
            char line[256];
            snprintf(line, sizeof line, "--%s %s", row->name, some_value(row));
            const mega_status st = kit_parse(&cfg, commands[c], line);
            const char *said = st != MEGA_OK ? mega_error_message() : "";
            if (strstr(said, "is not an option") != NULL) fail_msg("%s %s: %s", commands[c], line, said);
            /* its rule waits for the shape of a checkpoint */
            const bool waits = row->neutral != NULL && row->neutral[0] == '=';
            if (row->answer == MEGA_ANSWER_NOT_IMPLEMENTED && !waits) kit_assert_has(said, "is not implemented yet");
            if (row->answer == MEGA_ANSWER_NO_EFFECT) kit_assert_has(kit_notes, "no effect here: ");
            if (row->cases != NULL) kit_assert_has(kit_notes, " -> ");
            else if (row->answer == MEGA_ANSWER_RENAMED)
                kit_assert_has(kit_notes, row->remark + (strncmp(row->remark, "it is ", 6) == 0 ? 6 : 0));
            mega_command_options_fini(&cfg);
            checked++;
        }
    }
    assert_true(checked > 500 / step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_work),
        cmocka_unit_test(what_was_done_is_said),
        cmocka_unit_test(names_that_are_refused),
        cmocka_unit_test(names_without_effect),
        cmocka_unit_test(remarks_are_of_their_names),
        cmocka_unit_test(every_foreign_name_is_answered),
    };
    setenv("OMP_NUM_THREADS", "2", 1); /* otherwise each of thousands of lines queries the number of cores */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
