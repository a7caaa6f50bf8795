/* Tests the command line: values, spellings, aliases, the four answers, and that mistakes are collected. */
#include "options_kit.h"
#include <math.h>
#include <stdlib.h>

#define SINKHORN "--num-experts 8 --moe-router-load-balancing-type sinkhorn "

static void values_are_read(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(
        &c, "plan",
        SHAPE
        "--lr .01 --train-samples 5e8 --weight-decay=1e-1 --split 90,10,0 --bf16 --lr-decay-style cosine "
        "--rampup-batch-size 4 4 1000 --global-batch-size 16 --memory-limit 1.5G --clip-grad 0 --adam_beta2 0.95");
    assert_true(c.train.engine.optim.lr == 0.01 && c.train.engine.optim.weight_decay == 0.1 &&
                c.train.engine.optim.clip_grad == 0.0 && c.train.engine.optim.adam_beta2 == 0.95);
    assert_int_equal(c.train.engine.optim.train_samples, 500000000);
    assert_int_equal(c.train.model.num_layers, 2);
    assert_string_equal(c.train.data.split, "90,10,0");
    assert_true(c.train.engine.backend.bf16);
    assert_int_equal(c.train.engine.backend.params_dtype, MEGA_BF16);
    assert_int_equal(c.train.engine.optim.lr_decay_style, MEGA_LR_COSINE);
    assert_int_equal(c.train.engine.optim.rampup_batch_size[0], 4);
    assert_int_equal(c.train.engine.optim.rampup_batch_size[2], 1000);
    assert_int_equal(c.train.memory_limit, 1610612736);
    mega_command_options_fini(&c);
}

static void lists_are_read(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "preprocess_data",
               "--input a.txt b.txt - --json-keys text title --output-prefix x "
               "--tokenizer-type ByteTokenizer --append-eod");
    assert_int_equal(c.preprocess.input.count, 3);
    assert_string_equal(c.preprocess.input.item[2], "-");
    assert_string_equal(c.preprocess.json_keys.item[1], "title");
    assert_true(c.preprocess.append_eod);
    assert_true(c.preprocess.workers >= 1);
    mega_command_options_fini(&c);
}

static void prompts_are_appended(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "generate_samples_gpt", "--load . --prompt 'a b' --prompt=--c --top-k 3");
    assert_int_equal(c.generate.prompt.count, 2);
    assert_string_equal(c.generate.prompt.item[0], "a b");
    assert_string_equal(c.generate.prompt.item[1], "--c");
    assert_int_equal(c.generate.top_k, 3);
    mega_command_options_fini(&c);
}

static void spellings_are_equal(void **state)
{
    (void)state;
    static const char *const lines[] = {
        SHAPE "--lr-decay-iters 7 --lr 1 --train-iters 9", SHAPE "--lr_decay_iters 7 --lr 1 --train_iters 9",
        SHAPE "--lr-decay-iters=7 --lr=1 --train-iters=9", SHAPE "--lr_decay-iters=7e0 --lr 1. --train-iters 9.0"};
    for (size_t i = 0; i < 4; i++) {
        mega_command_options c;
        kit_accept(&c, "plan", lines[i]);
        assert_int_equal(c.train.engine.optim.lr_decay_iters, 7);
        assert_int_equal(c.train.engine.optim.train_iters, 9);
        mega_command_options_fini(&c);
    }
}

static void bad_numbers(void **state)
{
    (void)state;
    kit_refuse("plan", SHAPE "--train-iters 1.5", "--train-iters: \"1.5\" is not a whole number");
    kit_refuse("plan", SHAPE "--train-iters ten", "is not a whole number");
    kit_refuse("plan", SHAPE "--train-iters 0x10", "is not a whole number");
    kit_refuse("plan", SHAPE "--train-iters 99999999999999999999", "is not a whole number");
    kit_refuse("plan", SHAPE "--lr nan", "--lr: \"nan\" is not a number");
    kit_refuse("plan", SHAPE "--lr 1e-3x", "is not a number");
    kit_refuse("plan", SHAPE "--hidden-dropout 1.0", "--hidden-dropout: 1.0 must be at least 0 and below 1");
    kit_refuse("plan", SHAPE "--seed 0", "must be between 1 and");
    kit_refuse("plan", SHAPE "--log-interval -5", "--log-interval: -5 must be greater than 0");
    kit_refuse("plan", SHAPE "--memory-limit lots", "not a size in bytes");
    kit_refuse("plan", SHAPE "--lr-decay-style cosin", "did you mean cosine?");
    kit_refuse("plan", SHAPE "--train-iters", "--train-iters needs a value");
    kit_refuse("plan", SHAPE "--bf16=1", "--bf16 takes no value");
}

static void repeated_options(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", SHAPE "--train-iters 5 --bf16 --bf16 --train_iters 6");
    assert_int_equal(c.train.engine.optim.train_iters, 6);
    kit_assert_has(kit_notes,
                   "--train_iters was given more than once: the last one, 6 (argument 15), counts; 5 (argument 11)");
    mega_command_options_fini(&c);
}

static void aliases(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan",
               "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --encoder-seq-length 32 --batch-size 3 "
               "--model-parallel-size 1 --warmup .05 --checkpoint-activations --checkpoint-num-layers 2 "
               "--norm-epsilon 1e-6 --override-lr-scheduler");
    assert_int_equal(c.train.engine.optim.micro_batch_size, 3);
    assert_int_equal(c.train.seq_length, 32);
    assert_true(c.train.engine.optim.lr_warmup_fraction == 0.05 && c.train.model.layernorm_epsilon == 1e-6);
    assert_int_equal(c.train.engine.graph.recompute_granularity, MEGA_RECOMPUTE_FULL);
    assert_int_equal(c.train.engine.graph.recompute_method, MEGA_RECOMPUTE_UNIFORM);
    assert_int_equal(c.train.engine.graph.recompute_num_layers, 2);
    assert_true(c.train.override_opt_param_scheduler);
    kit_assert_has(kit_notes, "read as: --encoder-seq-length -> --seq-length, --model-parallel-size -> "
                              "--tensor-model-parallel-size, --warmup -> --lr-warmup-fraction, ");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--activations-checkpoint-method block --activations-checkpoint-num-layers 1");
    assert_int_equal(c.train.engine.graph.recompute_method, MEGA_RECOMPUTE_BLOCK);
    assert_int_equal(c.train.engine.graph.recompute_granularity, MEGA_RECOMPUTE_FULL);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--recompute-activations --eval-only true --no-log-learning-rate-to-tensorboard");
    assert_int_equal(c.train.engine.graph.recompute_granularity, MEGA_RECOMPUTE_SELECTIVE);
    assert_true(c.train.skip_train && !c.train.log_learning_rate_to_tensorboard);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--eval-only false");
    assert_false(c.train.skip_train);
    mega_command_options_fini(&c);
    kit_accept(&c, "preprocess_data",
               "--input a --json-key body --output-prefix x --tokenizer-type CharTokenizer --vocab v.json");
    assert_string_equal(c.preprocess.json_keys.item[0], "body");
    assert_string_equal(c.train.text.vocab_file, "v.json");
    mega_command_options_fini(&c);
    kit_refuse("plan", SHAPE "--model-parallel-size 2", "does not divide the world of 1 rank; sizes that do: 1");
    kit_refuse("plan", SHAPE "--model-parallel-size 9000000000000000000",
               "--model-parallel-size: 9000000000000000000 must be at most 1048576");
}

static void neutral_values(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(
        &c, "plan",
        SHAPE
        "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --num-experts 1 --context-parallel-size 1 "
        "--normalization LayerNorm --position-embedding-type learned_absolute --local_rank 0 --data-impl mmap "
        "--num-key-value-heads 4 --rotary-seq-len-interpolation-factor 1.0 --onnx-safe false");
    assert_string_equal(kit_notes, "");
    mega_command_options_fini(&c);
    kit_refuse("plan", SHAPE "--tensor-model-parallel-size 2",
               "--tensor-model-parallel-size 2 (argument 11) does not divide the world of 1 rank; sizes that do: 1");
    kit_refuse("plan", SHAPE "--position-embedding-type rope --rope-type yarn --use-rope-scaling",
               "both lengthen the wavelengths of the rotation; give one");
    kit_refuse("plan", SHAPE "--context-parallel-size 2",
               "--context-parallel-size 2 is not implemented yet (only 1 is accepted)");
    kit_refuse("pretrain_gpt", SHAPE "--num-experts 4 x", "--num-experts 4 x (argument 11): expected whole numbers");
    kit_refuse("plan", SHAPE "--world-size 2 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1",
               "--expert-tensor-parallel-size 1 is not implemented yet (only --tensor-model-parallel-size 2");
    kit_refuse("plan", SHAPE "--num-experts 8 --moe-latent-size 2", "--moe-latent-size 2 (argument 13) is not");
    kit_refuse("plan", SHAPE "--num-experts 8 --moe-train-capacity-factor 2", "give --moe-expert-capacity-factor");
    kit_refuse("plan", SHAPE "--num-experts 8 --moe-eval-capacity-factor 2", "an evaluation drops no choice");
    kit_refuse("plan", SHAPE "--num-experts 8 --moe-router-load-balancing-type global_aux_loss",
               "global_aux_loss\" is not implemented");
    kit_refuse("plan", SHAPE SINKHORN "--moe-aux-loss-coeff 0.01", "balances without a loss; give one of them");
    kit_refuse("plan", SHAPE SINKHORN "--moe-router-enable-expert-bias", "both decide which experts a token chooses");
    kit_refuse("plan", SHAPE SINKHORN "--moe-router-num-groups 2 --moe-router-group-topk 1", "leave the groups out");
    kit_refuse("plan", SHAPE SINKHORN "--moe-router-score-function sigmoid", "-topk 2 are those of a softmax; leave");
    kit_refuse("plan", SHAPE SINKHORN "--moe-router-topk 1 --moe-router-pre-softmax",
               "the weight of --moe-router-topk 1 is");
    kit_refuse("plan", SHAPE "--softmax-type learnable", "--softmax-type learnable is not implemented yet");
    kit_refuse("plan", SHAPE "--fp16 --bf16", "--bf16 (argument 12) and --fp16 (argument 11): a run has one precision");
    kit_refuse("plan", SHAPE "--quick-geglu", "--quick-geglu is not implemented yet");
    kit_refuse("plan", SHAPE "--muon-tp-mode blockwise", "--muon-tp-mode blockwise is not implemented yet");
    kit_refuse("plan", SHAPE "--muon-coefficient-type aol", "\"aol\" is not implemented yet");
    kit_refuse("pretrain_gpt", SHAPE "--tokenizer-type BertWordPieceCase", "missing: --vocab-file vocab.txt");
    kit_refuse("pretrain_gpt", SHAPE "--tokenizer-type TikTokenizer", "missing: --tokenizer-model PATH");
    kit_refuse("plan", SHAPE "--use-dist-ckpt", "--use-dist-ckpt is not implemented yet: there is one format");
}

static void no_effect_is_told_once(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan",
               SHAPE "--num-workers 2 --no-bias-gelu-fusion --distributed-backend nccl --no-masked-softmax-fusion "
                     "--DDP-impl local --num-workers 4");
    kit_assert_has(kit_notes, "no effect here: --num-workers: files are mapped");
    kit_assert_has(kit_notes, "--no-masked-softmax-fusion, --no-bias-gelu-fusion: kernels are fused");
    const char *first = strstr(kit_notes, "kernels are fused");
    assert_null(strstr(first + 1, "kernels are fused"));
    mega_command_options_fini(&c);
    kit_refuse("plan", SHAPE "--num-workers many", "--num-workers: \"many\" is not a whole number");
}

static void unknown_options(void **state)
{
    (void)state;
    kit_refuse("plan", SHAPE "--num-layer 3", "did you mean --num-layers?");
    kit_refuse("plan", SHAPE "--hiden-size 3", "did you mean --hidden-size?");
    kit_refuse("plan", SHAPE "--lr-warmpu-iters 3", "did you mean --lr-warmup-iters?");
    kit_refuse("plan", SHAPE "--sede 3",
               "did you mean --seed?"); /* two swapped letters count as one edit; two edits would be too many */
    kit_refuse("plan", SHAPE "--workers 3", "--workers is an option of preprocess_data, train_tokenizer, not of plan");
    kit_refuse("plan", SHAPE "--num-beams 3",
               "--num-beams is an option of generate_samples_gpt, run_text_generation_server, not of plan");
    assert_null(strstr(mega_error_message(), "did you mean")); /* it is not a misspelling of --num-heads */
    kit_refuse("plan", SHAPE "--deepspeed_hostfile h", "it is an option of megalith launch: put it before plan");
    kit_refuse("plan", SHAPE "--dynamo-backend no", "it is an option of megalith launch");
    kit_refuse("plan", SHAPE "--entirely-unheard-of 3", "--entirely-unheard-of is not an option of plan");
    kit_refuse("plan", SHAPE "--lr-w 3", "names are not abbreviated");
    kit_refuse("plan", SHAPE "--lr-warmup 3",
               "write --lr-warmup-fraction, --lr-warmup-iters, --lr-warmup-samples or another of 5");
    kit_refuse("plan", SHAPE "--warmup-frac 3", "did you mean --lr-warmup-fraction?");
    kit_refuse("plan", SHAPE "--adam-beta3 3", "--adam-beta3 is not an option of plan; its options:");
    kit_refuse("plan", SHAPE "--fp5-format 3", "--fp5-format is not an option of plan; its options:");
    kit_refuse("plan", SHAPE "-n 3", "-n is not an option of plan");
    kit_refuse("preprocess_data", "--input a --output-prefix x --tokenizer-type ByteTokenizer --num-layers 4",
               "is an option of pretrain_gpt");
    kit_refuse("pretrain_gpt", "stray", "\"stray\" (argument 1) belongs to no option");
}

static void mistakes_are_collected(void **state)
{
    (void)state;
    mega_command_options c;
    const mega_status st =
        kit_parse(&c, "plan",
                  "--num-layers two --hidden-size 64 --num-attention-heads 5 --seq-length 32 --micro-batch-size 4 "
                  "--hiden-size 3 4 5 --quick-geglu --global-batch-size 6");
    assert_int_equal(st, MEGA_ERR_USAGE);
    const char *text = mega_error_message();
    kit_assert_has(text, "5 mistakes:\n  1. --num-layers: \"two\" is not a whole number\n  2. --hiden-size");
    kit_assert_has(text, "3. --quick-geglu is not implemented yet");
    kit_assert_has(text, "--num-attention-heads 5 (argument 5) does not divide --hidden-size 64 (argument 3); heads "
                         "that do: 1, 2, 4, 8");
    kit_assert_has(text, "--global-batch-size 6 (argument 16) is not a multiple of --micro-batch-size 4");
    mega_command_options_fini(&c);
}

/* MEGA_CHECK=1 shows the source line of the rule, not of the code that collects the mistakes. */
static void mistakes_know_their_rule(void **state)
{
    (void)state;
    kit_refuse("plan", SHAPE "--num-attention-heads 5", "does not divide");
    assert_memory_equal(mega_error_where(), "rules.c:", strlen("rules.c:"));
    kit_refuse("plan", SHAPE "--hiden-size 3", "--hiden-size");
    assert_memory_equal(mega_error_where(), "parse.c:", strlen("parse.c:"));
    kit_refuse("plan", SHAPE "--num-attention-heads 5 --hiden-size 3", "2 mistakes");
    assert_memory_equal(mega_error_where(), "parse.c:", strlen("parse.c:")); /* the location of the first mistake */
    assert_null(strstr(mega_error_message(), "(at "));
    setenv("MEGA_CHECK", "1", 1);
    kit_refuse("plan", SHAPE "--num-attention-heads 5 --hiden-size 3", "(at rules.c:");
    assert_non_null(strstr(mega_error_message(), "(at parse.c:"));
    unsetenv("MEGA_CHECK");
}

static void many_mistakes_fit(void **state)
{
    (void)state;
    char line[4096] = "";
    for (int i = 0; i < 60; i++) {
        char word[64];
        snprintf(word, sizeof word, "--surely-not-an-option-%d 1 ", i);
        strcat(line, word);
    }
    kit_refuse("plan", line, "more");
}

static void presets(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", "--preset gpt2 --micro-batch-size 1");
    assert_int_equal(c.train.model.num_layers, 12);
    assert_int_equal(c.train.model.hidden_size, 768);
    assert_int_equal(c.train.model.num_attention_heads, 12);
    assert_int_equal(c.train.seq_length, 1024);
    assert_int_equal(c.train.model.max_position_embeddings, 1024);
    assert_int_equal(c.train.model.ffn_hidden_size, 3072);
    assert_int_equal(c.train.model.kv_channels, 64);
    assert_int_equal(mega_options_set_by(c.train.engine.options, "num_layers"), MEGA_SET_BY_PRESET);
    assert_string_equal(mega_options_origin(c.train.engine.options, "num_layers"),
                        "--num-layers 12 (from --preset gpt2)");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", "--num-layers 3 --preset gpt2-xl --seq-length 128 --micro-batch-size 1");
    assert_int_equal(c.train.model.num_layers, 3);
    assert_int_equal(c.train.model.hidden_size, 1600);
    assert_int_equal(c.train.seq_length, 128);
    assert_int_equal(c.train.model.max_position_embeddings, 1024);
    assert_int_equal(mega_options_set_by(c.train.engine.options, "num_layers"), MEGA_SET_BY_COMMAND_LINE);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", "--preset gpt2 --seq-length 2048 --micro-batch-size 1");
    assert_int_equal(c.train.model.max_position_embeddings, 2048);
    mega_command_options_fini(&c);
    kit_refuse("plan", "--preset gpt3 --micro-batch-size 1", "\"gpt3\" is not one of gpt2, gpt2-medium");
}

static void origins(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", SHAPE "--batch-size 8");
    assert_string_equal(mega_options_origin(c.train.engine.options, "micro_batch_size"),
                        "--batch-size 8 (argument 11)");
    assert_true(mega_options_was_set(c.train.engine.options, "micro_batch_size"));
    assert_false(mega_options_was_set(c.train.engine.options, "lr"));
    assert_false(mega_options_was_set(c.train.engine.options, "ffn_hidden_size"));
    assert_int_equal(mega_options_set_by(c.train.engine.options, "ffn_hidden_size"), MEGA_SET_BY_DERIVATION);
    assert_string_equal(mega_options_origin(c.train.engine.options, "seed"), "--seed 1234 (default)");
    assert_string_equal(mega_options_origin(c.train.engine.options, "lr"), "--lr None (default)");
    mega_command_options_fini(&c);
    /* switches as they were typed, also those that set a field to false, and those that are turned off again */
    kit_accept(&c, "plan", SHAPE "--bf16 --no-decoupled-weight-decay --fp16 False --muon-no-split-qkv False");
    assert_string_equal(mega_options_origin(c.train.engine.options, "bf16"), "--bf16 (argument 11)");
    assert_string_equal(mega_options_origin(c.train.engine.options, "decoupled_weight_decay"),
                        "--no-decoupled-weight-decay (argument 12)");
    assert_string_equal(mega_options_origin(c.train.engine.options, "fp16"), "--fp16 False (argument 13)");
    assert_string_equal(mega_options_origin(c.train.engine.options, "muon_split_qkv"),
                        "--muon-no-split-qkv False (argument 15)");
    mega_command_options_fini(&c);
}

/* A training does not print its program; --dry-run and a plan do. */
static void printed_programs(void **state)
{
    (void)state;
    static const char note[] = "--print-program (argument 1) has no effect on a training";
    mega_command_options c;
    (void)kit_parse(&c, "pretrain_gpt", "--print-program --dry-run");
    assert_null(strstr(kit_notes, "on a training"));
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--print-program");
    assert_null(strstr(kit_notes, "on a training"));
    mega_command_options_fini(&c);
    (void)kit_parse(&c, "pretrain_gpt", "--print-program");
    kit_assert_has(kit_notes, note);
    mega_command_options_fini(&c);
    kit_refuse("tasks", "--print-program", "--print-program is an option of pretrain_gpt");
}

static void commands_have_names(void **state)
{
    (void)state;
    assert_string_equal(mega_command_name(&mega_commands, "tools/preprocess_data.py"), "preprocess_data");
    assert_string_equal(mega_command_name(&mega_commands, "/a/b/pretrain_gpt.py"), "pretrain_gpt");
    assert_string_equal(mega_command_name(&mega_commands, "pretrain_gpt2.py"), "pretrain_gpt");
    assert_string_equal(mega_command_name(&mega_commands, "preprocess-data"), "preprocess_data");
    assert_string_equal(mega_command_name(&mega_commands, "tasks/main.py"), "tasks");
    assert_string_equal(mega_command_name(&mega_commands, "./tasks/main.py"), "tasks");
    assert_string_equal(mega_command_name(&mega_commands, "tools/generate_samples_gpt.py"), "generate_samples_gpt");
    assert_string_equal(mega_command_name(&mega_commands, "tools/merge_datasets.py"), "merge_datasets");
    assert_string_equal(mega_command_name(&mega_commands, "tools/checkpoint/util.py"), "checkpoint");
    assert_null(mega_command_name(&mega_commands, "main.py"));
    assert_null(mega_command_name(&mega_commands, ""));
    const char *const names[] = {"tokenize", "tasks", "plot"};
    assert_string_equal(mega_options_nearest("tokenise", names, 3), "tokenize");
    assert_null(mega_options_nearest("zebra", names, 3));
    /* no hint is better than a wrong one; a word has to be close for its length, or a part of the name */
    static const struct {
        const char *typed, *name, *near;
    } pairs[] = {
        {"fp8", "fp4", NULL},
        {"fp6", "fp64", NULL},
        {"fp16", "bf16", NULL},
        {"adam-beta3", "adam-beta1", NULL},
        {"gpu", "tpu", NULL},
        {"export", "report", NULL},
        {"lr-warmup", "warmup", NULL},
        {"num-beams", "num-heads", NULL},
        {"bf-16", "bf16", "bf16"},
        {"sed", "seed", "seed"},
        {"sede", "seed", "seed"},
        {"goof", "good", "good"},
        {"zero-stage3", "zero-stage", "zero-stage"},
        {"lr_warmup", "lr-warmup-iters", "lr-warmup-iters"},
        {"warmup-frac", "lr-warmup-fraction", "lr-warmup-fraction"},
        {"layers", "num-layers", "num-layers"},
        {"layer", "num-player", NULL},
        {"lr", "lra", NULL},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *near = mega_options_nearest(pairs[i].typed, &pairs[i].name, 1);
        if ((near == NULL) != (pairs[i].near == NULL))
            fail_msg("%s: %s", pairs[i].typed, near != NULL ? near : "no hint");
    }
    char endless[300]; /* found by fuzz_options: it is too long to be compared, and the first name was returned */
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    assert_null(mega_options_nearest(endless, names, 3));
}

static mega_status attempt(void *user)
{
    mega_command_options c;
    const mega_status st = kit_parse(&c, "plan", user);
    mega_command_options_fini(&c);
    return st;
}

static mega_status attempt_refused(void *user)
{
    const mega_status st = attempt(user);
    return st == MEGA_ERR_USAGE ? MEGA_OK : st;
}

/* A size means what the same size means where it is printed: GB is 10^9 bytes. */
static void sizes_have_one_meaning(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } size[] = {{"80GB", 80000000000},  {"80gb", 80000000000},  {"1.5KB", 1500},      {"2MB", 2000000},
                {"1TB", 1000000000000}, {"80GiB", 85899345920}, {"80G", 85899345920}, {"3Mi", 3145728},
                {"2KiB", 2048},         {"1e9", 1000000000},    {"512B", 512},        {"512", 512}};
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        mega_command_options c;
        char words[200];
        snprintf(words, sizeof words, SHAPE "--memory-limit %s", size[i].text);
        kit_accept(&c, "plan", words);
        assert_int_equal(c.train.memory_limit, size[i].bytes);
        mega_command_options_fini(&c);
    }
    kit_refuse("plan", SHAPE "--memory-limit 8Gbit", "not a size in bytes");
    kit_refuse("plan", SHAPE "--memory-limit 8iB", "not a size in bytes");
}

static void memory_may_be_short(void **state)
{
    (void)state;
    static char good[] =
        SHAPE "--lr 1e-3 --train-iters 10 --split 9,1,0 --num-workers 2 --bf16 --fp8-margin 1 --log-interval 3";
    assert_true(mega_kit_fail_each_allocation((mega_kit_attempt *)attempt, good) > 2);
    static char bad[] =
        SHAPE "--lr x --num-attention-heads 5 --hiden-size 3 --tokenizer-type None --data-path nowhere --split a "
              "--load x --fp16 --quick-geglu --num-layer 1 --optimizer lion --encoder-seq-length 7 --batch-size 5";
    assert_true(mega_kit_fail_each_allocation((mega_kit_attempt *)attempt_refused, bad) > 2);
}

/* Random words get an answer: either they are accepted or there is a message. */
static void random_words(void **state)
{
    (void)state;
    static const char *const commands[] = {"pretrain_gpt",
                                           "plan",
                                           "generate_samples_gpt",
                                           "tasks",
                                           "preprocess_data",
                                           "train_tokenizer",
                                           "tokenize",
                                           "data",
                                           "plot",
                                           "new",
                                           "doctor"};
    static const char *const values[] = {"1", "0", "-1", "1e9", "x",   "", ".5", "nan", "99999999999999999999",
                                         "-", "=", "--", "a b", "%s%n"};
    uint32_t random = 12345;
    const int trials = getenv("MEGA_UNDER_VALGRIND") != NULL ? 60 : 1000;
    for (int trial = 0; trial < trials; trial++) {
        char line[1024] = "";
        for (int word = 0; word < 8; word++) {
            random = random * 1664525u + 1013904223u;
            const uint32_t r = random >> 8;
            const size_t used = strlen(line);
            if (r % 3 == 0) snprintf(line + used, sizeof line - used, "'%s' ", values[(r >> 4) % MEGA_COUNT(values)]);
            else if (r % 13 == 1)
                snprintf(line + used, sizeof line - used, "--%s=%s ", "lr", values[(r >> 4) % MEGA_COUNT(values)]);
            else
                snprintf(line + used, sizeof line - used, "--%s ",
                         kit_table()->line[(r >> 4) % kit_table()->count].row->name);
        }
        mega_command_options c;
        const mega_status st = kit_parse(&c, commands[trial % 10], line);
        if (st != MEGA_OK && mega_error_message()[0] == '\0') fail_msg("%s: no message", line);
        mega_command_options_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(prompts_are_appended),
        cmocka_unit_test(spellings_are_equal),
        cmocka_unit_test(bad_numbers),
        cmocka_unit_test(repeated_options),
        cmocka_unit_test(aliases),
        cmocka_unit_test(neutral_values),
        cmocka_unit_test(no_effect_is_told_once),
        cmocka_unit_test(unknown_options),
        cmocka_unit_test(mistakes_are_collected),
        cmocka_unit_test(mistakes_know_their_rule),
        cmocka_unit_test(many_mistakes_fit),
        cmocka_unit_test(presets),
        cmocka_unit_test(origins),
        cmocka_unit_test(printed_programs),
        cmocka_unit_test(commands_have_names),
        cmocka_unit_test(sizes_have_one_meaning),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(random_words),
    };
    setenv("OMP_NUM_THREADS", "2", 1); /* otherwise each of thousands of lines queries the number of cores */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
