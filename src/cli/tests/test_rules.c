/* Tests each rule between options: it rejects violations, says what would be valid, and accepts everything else. */
#include "options_kit.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void accept(const char *command, const char *line)
{
    mega_command_options c;
    kit_accept(&c, command, line);
    mega_command_options_fini(&c);
}

static void shape(void **state)
{
    (void)state;
    kit_refuse("plan", "--micro-batch-size 1",
               "missing: --num-layers, --hidden-size, --num-attention-heads, --seq-length");
    kit_refuse("plan", "--num-layers 2 --micro-batch-size 1",
               "missing: --hidden-size, --num-attention-heads, --seq-length");
    kit_refuse("plan", SHAPE "--hidden-size 100 --num-attention-heads 12",
               "does not divide --hidden-size 100 (argument 11); heads that do: 1, 2, 4, 5, 10, 20, 25, 50; or a "
               "hidden size of 108");
    kit_refuse("plan", SHAPE "--max-position-embeddings 16",
               "--max-position-embeddings 16 (argument 11) is shorter than --seq-length 32");
    accept("plan", SHAPE "--max-position-embeddings 32 --kv-channels 16");
    accept("plan", SHAPE "--kv-channels 32");
    accept("plan", "--preset tiny --micro-batch-size 1");
    kit_refuse("plan", SHAPE "--num-layers 5e8", "--num-layers: 5e8 must be at most 16384");
    kit_refuse("plan", SHAPE "--micro-batch-size 16777216 --gradient-accumulation-steps 16777216",
               "--global-batch-size 281474976710656 (follows from other options) must be at most 1073741824");
    kit_refuse("plan", SHAPE "--keep-checkpoints 4294967297 --save x",
               "--keep-checkpoints: 4294967297 must be at most");
    kit_refuse("plan", SHAPE "--world-size 4294967297", "--world-size: 4294967297 must be at most 1048576");
    kit_refuse("preprocess_data", "--input a --output-prefix b --tokenizer-type ByteTokenizer --workers 4294967297",
               "--workers: 4294967297 must be at most 1024");
    kit_refuse("plan", SHAPE "--hidden-size 1048576 --micro-batch-size 1e6 --num-layers 1e4",
               "a micro-batch would keep");
    kit_refuse("tokenize", "--num-threads 5000 --tokenizer-type ByteTokenizer",
               "--num-threads: 5000 must be at most 1024");
}

static void zero(void **state)
{
    (void)state;
    mega_command_options c;
    accept("plan", SHAPE "--zero-stage 1 --save x --save-interval 1"); /* one rank has no other to share with */
    kit_accept(&c, "plan", SHAPE "--use-distributed-optimizer");
    assert_int_equal(c.train.engine.graph.zero_stage, 1);
    mega_command_options_fini(&c);
    accept("plan", SHAPE "--use-distributed-optimizer --zero-stage 1");
    kit_refuse(
        "plan", SHAPE "--use-distributed-optimizer --zero-stage 2",
        "--use-distributed-optimizer (argument 11) and --zero-stage 2 (argument 12): the distributed optimizer is "
        "ZeRO stage 1");
    kit_refuse("plan", SHAPE "--zero-stage 4", "expected 0, 1, 2 or 3");
    static const char *const fsdp[] = {SHAPE "--DDP-impl FSDP", SHAPE "--world-size 4 --DDP-impl FSDP",
                                       SHAPE
                                       "--world-size 4 --DDP-impl FSDP --zero-stage 3 --use-distributed-optimizer"};
    for (size_t i = 0; i < sizeof fsdp / sizeof fsdp[0]; i++) {
        kit_accept(&c, "plan", fsdp[i]);
        assert_int_equal(c.train.engine.graph.zero_stage, 3);
        mega_command_options_fini(&c);
    }
    kit_refuse("plan", SHAPE "--DDP-impl FSDP --zero-stage 1",
               "--DDP-impl FSDP (argument 11) and --zero-stage 1 (argument 13): FSDP is ZeRO stage 3");
    kit_accept(&c, "plan",
               SHAPE "--zero-stage 3 --DDP-impl torch --ddp-bucket-size 1e6 --stage3-prefetch-bucket-size 0");
    assert_true(c.train.engine.graph.ddp_impl == MEGA_DDP_TORCH && c.train.engine.graph.ddp_bucket_size == 1000000 &&
                c.train.engine.graph.stage3_prefetch_bucket_size == 0);
    mega_command_options_fini(&c);
    kit_refuse("plan", SHAPE "--ddp-bucket-size 0", "must be greater than 0");
    kit_accept(&c, "plan", SHAPE "--zero-stage 2 --zero-reduce-bucket-size 5e8");
    assert_int_equal(c.train.engine.graph.ddp_bucket_size, 500000000);
    mega_command_options_fini(&c);
}

static void batch(void **state)
{
    (void)state;
    kit_refuse("plan", "--preset tiny", "missing: --micro-batch-size");
    kit_refuse("plan", SHAPE "--global-batch-size 10",
               "--global-batch-size 10 (argument 11) is not a multiple of --micro-batch-size 4 (argument 9); "
               "micro-batches that divide it: 1, 2, 5, 10");
    accept("plan", SHAPE "--global-batch-size 12 --train-samples 9 --rampup-batch-size 4 8 100");
    kit_refuse("plan", SHAPE "--global-batch-size 12 --rampup-batch-size 4 3 100",
               "does not reach --global-batch-size 12");
    kit_refuse("plan", SHAPE "--global-batch-size 12 --rampup-batch-size 2 2 100",
               "must be multiples of --micro-batch-size 4");
    kit_refuse("plan", SHAPE "--global-batch-size 12 --rampup-batch-size 4 4",
               "three whole numbers are needed, 2 values");
    kit_refuse("plan", SHAPE "--global-batch-size 12 --rampup-batch-size 0 0 0", "three whole numbers above 0");
}

static void length_and_units(void **state)
{
    (void)state;
#define RUN SHAPE "--lr 1 --tokenizer-type=ByteTokenizer --data-path=here "
    kit_refuse("pretrain_gpt", RUN, "missing: --train-iters N (optimizer steps) or --train-samples N");
    kit_refuse("pretrain_gpt", RUN "--train-iters 3 --train-samples 5", "both say how long to train");
    kit_refuse("pretrain_gpt", RUN "--train-iters 30 --profile-table --profile-step-end 10",
               "--profile-step-end 10 (argument 18) must be greater than --profile-step-start 10");
    accept("pretrain_gpt", RUN "--train-iters 30 --profile-table --profile-step-end 11");
    kit_refuse("pretrain_gpt", RUN "--train-iters 30 --profile --profile-step-end 10", "must be greater than");
    kit_refuse("pretrain_gpt", RUN "--train-iters 10 --profile", "the run ends after 10 iterations");
    accept("pretrain_gpt", RUN "--skip-train");
    accept("pretrain_gpt", RUN "--train-iters 3 --lr-warmup-samples 0");
    kit_refuse("pretrain_gpt", RUN "--train-iters 3 --lr-decay-samples 5",
               "--lr-decay-samples 5 (argument 17) counts samples, but");
    kit_refuse("pretrain_gpt", RUN "--train-iters 3 --lr-warmup-samples 5", "counts samples");
    kit_refuse("pretrain_gpt", RUN "--train-samples 3 --lr-decay-iters 5", "counts iterations");
    kit_refuse("pretrain_gpt", RUN "--train-samples 3 --lr-warmup-iters 5", "counts iterations");
    kit_refuse("pretrain_gpt", SHAPE "--train-iters 3", "missing: --lr");
    kit_refuse("pretrain_gpt", SHAPE "--lr 1 --train-iters 3 --dry-run", "missing: --data-path PREFIX");
    /* counted in tokens, 32 of which are a sample and 128 an iteration */
    mega_command_options c;
    kit_accept(&c, "plan", SHAPE "--train-tokens 3200 --lr-decay-tokens 1600 --lr-warmup-tokens 320");
    assert_int_equal(c.train.engine.optim.train_samples, 100);
    assert_int_equal(c.train.engine.optim.lr_decay_samples, 50);
    assert_int_equal(c.train.engine.optim.lr_warmup_samples, 10);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--train-tokens 3200 --train-samples 70");
    assert_int_equal(c.train.engine.optim.train_samples, 70);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--train-tokens 3201 --train-iters 90 --lr-decay-tokens 1280");
    assert_int_equal(c.train.engine.optim.train_iters, 26);
    assert_int_equal(c.train.engine.optim.lr_decay_iters, 10);
    mega_command_options_fini(&c);
}

static void learning_rate(void **state)
{
    (void)state;
#define TRAIN SHAPE "--train-iters 100 "
    accept("plan", TRAIN "--lr 1e-3 --min-lr 1e-3 --lr-warmup-iters 99");
    kit_refuse("plan", TRAIN "--lr 1e-4 --min-lr 1e-3",
               "--min-lr 0.001 (argument 15) is above --lr 0.0001 (argument 13)");
    kit_refuse("plan", TRAIN "--lr 1e-4 --lr-warmup-init 1e-3", "to which the warm-up rises");
    kit_refuse("plan", TRAIN "--lr 1 --lr-warmup-iters 100",
               "must be below --lr-decay-iters 100 (follows from other options)");
    kit_refuse("plan", TRAIN "--lr 1 --lr-warmup-iters 50 --lr-decay-iters 50",
               "must be below --lr-decay-iters 50 (argument 17)");
    kit_refuse("plan", SHAPE "--train-samples 9 --lr 1 --lr-warmup-samples 9", "must be below --lr-decay-samples 9");
    kit_refuse("plan", TRAIN "--lr 1 --lr-warmup-iters 5 --lr-warmup-fraction .1", "both say how long to warm up");
    kit_refuse("plan", SHAPE "--train-samples 9 --lr 1 --lr-warmup-samples 5 --lr-warmup-fraction .1",
               "both say how long to warm up");
    kit_refuse("plan", TRAIN "--override-opt_param-scheduler --use-checkpoint-opt-param-scheduler",
               "contradict each other");
    kit_refuse("plan", TRAIN "--load x --no-load-optim --use-checkpoint-opt_param-scheduler",
               "leaves the checkpoint's schedule unread together with its optimizer, and "
               "--use-checkpoint-opt_param-scheduler");
    accept("plan", TRAIN "--load x --no-load-optim --override-opt_param-scheduler");
    accept("plan", TRAIN "--load x --use-checkpoint-opt_param-scheduler");
}

static void warm_up_stay_and_decay(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN "--lr 1e-3 --lr-decay-style WSD --lr-wsd-decay-iters 20 --lr-wsd-decay-style cosine");
    assert_true(c.train.engine.optim.lr_decay_style == MEGA_LR_WSD &&
                c.train.engine.optim.lr_wsd_decay_style == MEGA_LR_WSD_COSINE);
    assert_true(c.train.engine.optim.lr_wsd_decay_iters == 20);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", SHAPE "--train-samples 9 --lr 1 --lr-decay-style WSD --lr-wsd-decay-samples 0");
    assert_true(c.train.engine.optim.lr_wsd_decay_style == MEGA_LR_WSD_EXPONENTIAL);
    mega_command_options_fini(&c);
    kit_refuse("plan", TRAIN "--lr 1e-3 --lr-decay-style WSD",
               "missing: --lr-wsd-decay-iters N, how long the last part of the curve of --lr-decay-style WSD "
               "(argument 15) is");
    kit_refuse("plan", SHAPE "--train-samples 9 --lr 1 --lr-decay-style WSD", "missing: --lr-wsd-decay-samples N");
    kit_refuse("plan", TRAIN "--lr 1e-3 --lr-decay-style WSD --lr-wsd-decay-samples 20", "counts samples");
    kit_accept(&c, "plan", TRAIN "--lr 1e-3 --lr-decay-style exponential --lr-wsd-decay-iters 20");
    kit_assert_has(kit_notes, "--lr-wsd-decay-iters 20 (argument 17) has no effect without --lr-decay-style WSD");
    assert_true(c.train.engine.optim.lr_decay_style == MEGA_LR_EXPONENTIAL);
    mega_command_options_fini(&c);
}

static void weight_decay(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN "--weight-decay 0.2");
    assert_true(c.train.engine.optim.start_weight_decay == 0.2 && c.train.engine.optim.end_weight_decay == 0.2);
    mega_command_options_fini(&c);
    accept("plan", TRAIN "--weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 0.1");
    kit_refuse("plan", TRAIN "--weight-decay-incr-style cosine --start-weight-decay 0",
               "needs both --start-weight-decay and");
    kit_refuse("plan", TRAIN "--start-weight-decay 0.5", "needs --weight-decay-incr-style linear or cosine");
    kit_accept(&c, "plan", TRAIN "--no-decoupled-weight-decay");
    assert_false(c.train.engine.optim.decoupled_weight_decay);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", TRAIN "--no-decoupled-weight-decay --optimizer sgd");
    kit_assert_has(kit_notes, "has no effect with --optimizer sgd");
    assert_true(c.train.engine.optim.optimizer == MEGA_OPTIMIZER_SGD);
    mega_command_options_fini(&c);
}

static void precision_and_recompute(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN "--fp64");
    assert_int_equal(c.train.engine.backend.backend, MEGA_BACKEND_PLAIN);
    assert_int_equal(c.train.engine.backend.params_dtype, MEGA_F64);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", TRAIN "--recompute-granularity full");
    assert_int_equal(c.train.engine.graph.recompute_method, MEGA_RECOMPUTE_UNIFORM);
    mega_command_options_fini(&c);
    kit_refuse("plan", TRAIN "--fp64 --bf16", "a run has one precision");
    kit_refuse("plan", TRAIN "--fp64 --backend cpu", "only the plain kernels compute in double");
    kit_refuse("plan", TRAIN "--recompute-granularity selective --recompute-method block",
               "selective recompute has no method");
    kit_refuse("plan", TRAIN "--recompute-method block", "changes nothing without --recompute-granularity full");
}

static void checkpoints(void **state)
{
    (void)state;
    kit_refuse("plan", TRAIN "--use-checkpoint-args", "--use-checkpoint-args (argument 13) needs --load FOLDER");
    kit_refuse("plan", TRAIN "--ckpt-step 20", "--ckpt-step 20 (argument 13) needs --load FOLDER");
    kit_refuse("plan", TRAIN "--exit-on-missing-checkpoint", "needs --load FOLDER");
    kit_refuse("plan", TRAIN "--log-progress", "needs --save FOLDER");
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN "--save-interval 5"); /* it has no effect, as in Megatron */
    mega_command_options_fini(&c);
    /* the shape comes from the checkpoint, so it is checked only after the caller has set it */
    kit_accept(&c, "plan", "--use-checkpoint-args --load x --ckpt-step 20 --micro-batch-size 1");
    assert_string_equal(c.train.load, "x/iter_0000020");
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", "--use-checkpoint-args --load x --micro-batch-size 1");
    assert_int_equal(mega_options_check(c.train.engine.options), MEGA_ERR_USAGE);
    mega_command_options_fini(&c);
    kit_accept(&c, "plan", "--use-checkpoint-args --load x --micro-batch-size 1");
    assert_int_equal(mega_options_set_int(c.train.engine.options, "num_layers", 2, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_int_equal(mega_options_set_int(c.train.engine.options, "hidden_size", 48, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_int_equal(mega_options_set_int(c.train.engine.options, "num_attention_heads", 4, MEGA_SET_BY_CHECKPOINT),
                     MEGA_OK);
    assert_int_equal(mega_options_set_int(c.train.engine.options, "seq_length", 16, MEGA_SET_BY_CHECKPOINT), MEGA_OK);
    assert_int_equal(mega_options_check(c.train.engine.options), MEGA_OK);
    assert_int_equal(c.train.model.ffn_hidden_size, 192);
    assert_int_equal(c.train.model.kv_channels, 12);
    assert_true(mega_options_was_set(c.train.engine.options, "hidden_size"));
    assert_string_equal(mega_options_origin(c.train.engine.options, "hidden_size"),
                        "--hidden-size 48 (from the checkpoint)");
    assert_int_equal(mega_options_set_int(c.train.engine.options, "num_layers", 0, MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_USAGE);
    assert_int_equal(mega_options_set_int(c.train.engine.options, "num_wings", 2, MEGA_SET_BY_CHECKPOINT),
                     MEGA_ERR_NOT_FOUND);
    mega_command_options_fini(&c);
}

static void several_ranks(void **state)
{
    (void)state;
    setenv("WORLD_SIZE", "4", 1); /* variables exported by a shell do not mean that there is a launcher */
    setenv("RANK", "3", 1);
    accept("plan", TRAIN);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    kit_refuse("plan", TRAIN, "environment TORCHELASTIC_RUN_ID: torchrun started this process as one of 4");
    kit_assert_has(mega_error_message(), "start them with megalith torchrun");
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1); /* mpirun has started this process since, as its only rank */
    accept("plan", TRAIN);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    kit_refuse("plan", TRAIN, "environment OMPI_COMM_WORLD_SIZE=2: several ranks run under an MPI launcher");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("TORCHELASTIC_RUN_ID");
    setenv("CROSS_SIZE", "1", 1);
    kit_refuse("plan", TRAIN, "environment CROSS_SIZE: deepspeed started this process as one of 4");
    setenv("WORLD_SIZE", "1", 1);
    accept("plan", TRAIN);
    unsetenv("CROSS_SIZE");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
}

/* Parses the options as a launcher with `ranks` ranks would. */
static mega_status parse_ranks(mega_command_options *c, int64_t ranks, int argc, char **argv)
{
    kit_notes[0] = '\0';
    mega_log_set_sink(kit_note, NULL);
    mega_status st = mega_command_options_init(c);
    c->train.engine.world_size = c->train.engine.local_world_size = ranks;
    if (st == MEGA_OK) st = mega_options_parse(c->train.engine.options, "plan", argc, argv);
    return st;
}

/* An empty OMP_NUM_THREADS or 0 means "not set": ranks share the cores of their host. */
static void threads_of_ranks(void **state)
{
    (void)state;
    char *argv[] = {"plan", "--preset", "tiny", "--micro-batch-size", "1"};
    static const char *const none[] = {"", "0"};
    const char *old = getenv("OMP_NUM_THREADS");
    char *kept = old != NULL ? mega_strdup(old) : NULL;
    mega_command_options c;
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(parse_ranks(&c, 64, 5, argv), MEGA_OK);
    const int64_t shared = c.train.engine.backend.num_threads;
    mega_command_options_fini(&c);
    for (size_t i = 0; i < 2; i++) {
        setenv("OMP_NUM_THREADS", none[i], 1);
        assert_int_equal(parse_ranks(&c, 64, 5, argv), MEGA_OK);
        assert_int_equal(c.train.engine.backend.num_threads, shared);
        mega_command_options_fini(&c);
    }
    unsetenv("OMP_NUM_THREADS");
    if (kept != NULL) setenv("OMP_NUM_THREADS", kept, 1);
    mega_free(kept);
}

/* A batch is divided among the data-parallel ranks: world size / (tensor-parallel size * pipeline stages). */
static void batch_over_ranks(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN "--world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2");
    assert_int_equal(c.train.engine.data_parallel_size, 2);
    assert_int_equal(c.train.engine.optim.global_batch_size, 8);
    mega_command_options_fini(&c);
    accept("plan", TRAIN "--world-size 3 --global-batch-size 24");
    kit_refuse(
        "plan", TRAIN "--world-size 3 --global-batch-size 16",
        "is not a multiple of --micro-batch-size 4 (argument 9) x 3 data-parallel ranks; expected a multiple of 12");
}

/* Options that can never change anything are reported as having no effect, for any number of ranks. The others are
 * rejected if there are enough ranks for them to matter, and are then not reported as having no effect. */
static void idle_on_ranks(void **state)
{
    (void)state;
    static const char *const idle[] = {"--overlap-p2p-communication",
                                       "--no-scatter-gather-tensors-in-pipeline",
                                       "--use-ring-exchange-p2p",
                                       "--no-delay-grad-reduce",
                                       "--overlap-param-gather",
                                       "--zero-reduce-scatter",
                                       "--force-ds-sequence-parallel",
                                       "--no-async-tensor-model-parallel-allreduce",
                                       "--no-clone-scatter-output-in-embedding",
                                       "--tp-comm-overlap",
                                       "--disable-tp-comm-split-ag",
                                       "--no-barrier-with-level-1-timing"};
    static const struct {
        const char *option, *size, *expected;
    } alone[] = {{"--scattered-embeddings", "--tensor-model-parallel-size", "use --sequence-parallel"},
                 {"--enable-zbh1-pipeline", "--pipeline-model-parallel-size", "not implemented yet for more"},
                 {"--no-pipeline-parallel", "--pipeline-model-parallel-size", "give one or the other"}};
    mega_command_options c;
    char line[512];
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        snprintf(line, sizeof line, TRAIN "--world-size 2 %s", idle[i]);
        kit_accept(&c, "plan", line);
        kit_assert_has(kit_notes, "no effect here: ");
        kit_assert_has(kit_notes, idle[i]);
        mega_command_options_fini(&c);
    }
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        snprintf(line, sizeof line, TRAIN "--global-batch-size 8 --world-size 2 %s", alone[i].option);
        kit_accept(&c, "plan", line);
        snprintf(line, sizeof line, "no effect here: %s: %s is 1", alone[i].option, alone[i].size);
        kit_assert_has(kit_notes, line);
        mega_command_options_fini(&c);
        snprintf(line, sizeof line, TRAIN "--world-size 2 %s %s 2", alone[i].option, alone[i].size);
        kit_refuse("plan", line, alone[i].expected);
        assert_null(strstr(kit_notes, "no effect here"));
    }
}

static void sequence_parallelism(void **state)
{
    (void)state;
    mega_command_options c;
    kit_accept(&c, "plan", TRAIN " --sequence-parallel");
    kit_assert_has(kit_notes, "--sequence-parallel is off");
    kit_assert_has(kit_notes, "with --tensor-model-parallel-size 1");
    assert_false(c.train.model.sequence_parallel);
    mega_command_options_fini(&c);
    char *argv[] = {"plan", "--preset",           "tiny", "--micro-batch-size",
                    "1",    "--seq-length",       "32",   "--tensor-model-parallel-size",
                    "2",    "--sequence-parallel"};
    if (parse_ranks(&c, 2, 10, argv) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(c.train.model.sequence_parallel);
    mega_command_options_fini(&c);
    argv[9] = "--distribute-saved-activations";
    assert_int_equal(parse_ranks(&c, 2, 10, argv), MEGA_ERR_USAGE);
    kit_assert_has(mega_error_message(), "add --recompute-granularity full");
    mega_command_options_fini(&c);
    argv[9] = "--sequence-parallel";
    argv[6] = "31";
    assert_int_equal(parse_ranks(&c, 2, 10, argv), MEGA_ERR_USAGE);
    kit_assert_has(mega_error_message(), "cuts the 31 tokens of a micro-batch");
    kit_assert_has(mega_error_message(), "expected a multiple of 2");
    mega_command_options_fini(&c);
}

/* Returns the line with every @ replaced by the folder. */
static const char *in_folder(const char *line, const char *folder)
{
    static char out[2048];
    size_t n = 0;
    for (; *line != '\0'; line++) {
        n += (size_t)snprintf(out + n, sizeof out - n, *line == '@' ? "%s" : "%.1s", *line == '@' ? folder : line);
    }
    return out;
}

static void data_paths(void **state)
{
    (void)state;
    static const struct {
        const char *line, *part; /* part NULL: the line is accepted */
    } cases[] = {
        {TRAIN "--data-path @/a_text_document", NULL},
        {TRAIN "--data-path 0.3 @/a_text_document 0.7 @/a_text_document", NULL},
        {TRAIN "--data-path @/a_text_document.bin", "a prefix is wanted, without .bin; use "},
        {TRAIN "--data-path @/a", "/a_text_document.bin; use "},
        {TRAIN "--data-path @/nothing", "nothing.idx are not there; megalith preprocess_data makes this pair"},
        {TRAIN "--data-path @/half", "half.idx is not there"},
        {TRAIN "--data-path @/codeparrot", "/codeparrot_content_document.bin; use "},
        {TRAIN "--data-path @/codeparrot_content", "/codeparrot_content_document.bin; use "},
        {TRAIN "--data-path @/codep", "codep.idx are not there"},
        {TRAIN "--data-path 0.3 @/a_text_document 0.7",
         "3 values; expected one prefix, or WEIGHT PREFIX in pairs, as in 0.7 A 0.3 B, or prefixes alone"},
        {TRAIN "--data-path @/a_text_document @/a_text_document", NULL},
        {TRAIN "--data-path @/a_text_document @/a_text_document 0.3 @/a_text_document",
         "is in the place of a weight for"},
        {TRAIN "--data-path @/a_text_document --train-data-path @/a_text_document", "give one or the other"},
        {TRAIN "--split 90,x,0", "expected up to three parts"},
        {TRAIN "--split 0,0,0", "expected up to three parts"},
        {TRAIN "--split 1,2,3,4", "expected up to three parts"},
        {TRAIN "--split 90/5/5", NULL},
        {TRAIN "--split 100", NULL},
    };
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "a_text_document.bin"), "x");
    mega_kit_write(mega_kit_path(folder, "a_text_document.idx"), "x");
    mega_kit_write(mega_kit_path(folder, "half.bin"), "x");
    mega_kit_write(mega_kit_path(folder, "codeparrot_content_document.bin"), "x");
    mega_kit_write(mega_kit_path(folder, "codeparrot_content_document.idx"), "x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].part != NULL) kit_refuse("plan", in_folder(cases[i].line, folder), cases[i].part);
        else
            accept("plan", in_folder(cases[i].line, folder));
    }
    kit_refuse("pretrain_gpt", TRAIN "--lr 1", "missing: --data-path PREFIX");
}

static void tokenizers(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "vocab.json"), "{}");
    mega_kit_write(mega_kit_path(folder, "tokenizer.json"), "{}");
#define WORDS "--input a --output-prefix b "
    kit_refuse("preprocess_data", WORDS, "missing: --vocab-file vocab.json with --merge-file");
    kit_refuse("preprocess_data", in_folder(WORDS "--vocab-file @/vocab.json", folder),
               "missing: --merge-file merges.txt");
    accept("preprocess_data", in_folder(WORDS "--vocab-file @/tokenizer.json", folder));
    kit_refuse("preprocess_data", in_folder(WORDS "--vocab-file @", folder), "it is a folder");
    kit_refuse("preprocess_data", in_folder(WORDS "--vocab-file @/vocab.json --merge-file @/merges.txt", folder),
               "merges.txt: there is no such file");
    kit_refuse("preprocess_data", WORDS "--tokenizer-type NullTokenizer", "missing: --vocab-size N");
    kit_refuse("preprocess_data", WORDS "--tokenizer-type CharTokenizer", "missing: --vocab-file FILE");
    accept("preprocess_data", WORDS "--tokenizer-type CharTokenizer --vocab-file not-there-yet");
    accept("preprocess_data", WORDS "--tokenizer-type ByteTokenizer");
    kit_refuse("preprocess_data", "--tokenizer-type ByteTokenizer", "2 mistakes");
    kit_refuse("preprocess_data", WORDS "--tokenizer-type bytetokenizer", "did you mean ByteTokenizer?");
}

static void other_commands(void **state)
{
    (void)state;
    accept("generate_samples_gpt", "--load . --num-samples 3 --genfile y");
    kit_refuse("generate_samples_gpt", "--num-samples 3", "missing: --load FOLDER");
    kit_refuse("generate_samples_gpt", "--load . --num-samples 3 --sample-input-file /dev/null", "give one");
    kit_refuse("generate_samples_gpt", "--load . --prompt a --interactive", "give one");
    kit_refuse("generate_samples_gpt", "--load . --prompt a --sample-output-file b", "goes with --sample-input-file");
    kit_refuse("generate_samples_gpt", "--load . --temperature 0", "must be greater than 0; --greedy");
    kit_refuse("generate_samples_gpt", "--load . --top_p 1.5", "must be between 0 and 1");
    accept("generate_samples_gpt", "--load . --num-samples 3 --greedy --top_k 0 --temperature 1");
    assert_string_equal(kit_notes, "");
    accept("generate_samples_gpt", "--load . --num-samples 3 --greedy --top_k 5 --top_p 0.9 --temperature 0.7");
    kit_assert_has(kit_notes, "--top_k 5 (argument 6) has no effect beside --greedy");
    kit_assert_has(kit_notes, "--top_p 0.9");
    kit_assert_has(kit_notes, "--temperature 0.7");
    kit_refuse("tasks", "--num-threads 1", "3 mistakes");
    accept("plot", "a.jsonl b.jsonl --key lm_loss validation_loss --svg x.svg");
    kit_refuse("plot", "--svg x.svg", "missing: the metrics files");
    kit_refuse("nonsense", "", "is not a command");
}

static void places(void **state)
{
    (void)state;
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "file"), "x");
    kit_refuse("generate_samples_gpt", in_folder("--load @/nothing", folder),
               "nothing: there is no such folder; expected a folder of");
    kit_refuse("generate_samples_gpt", in_folder("--load @/file", folder),
               "file: it is a file; expected a folder of checkpoints");
    kit_refuse("generate_samples_gpt", in_folder("--load @ --sample-input-file @/none", folder),
               "none: there is no such file");
    kit_refuse("tasks", in_folder("--task LM_LOSS --load @ --valid-data @/file @/none", folder),
               "none: there is no such file");
    accept("pretrain_gpt",
           in_folder(RUN "--train-iters 3 --save @/a/b --metrics-file @/m.jsonl --tensorboard-dir @", folder));
    accept("pretrain_gpt", in_folder(RUN "--train-iters 3 --metrics-file @/file", folder));
    kit_refuse("pretrain_gpt", in_folder(RUN "--train-iters 3 --save @/file", folder),
               "it is a file; expected the name of a folder");
    kit_refuse("pretrain_gpt", in_folder(RUN "--train-iters 3 --save @/file/x/y", folder), "is a file, not a folder");
    kit_refuse("pretrain_gpt", in_folder(RUN "--train-iters 3 --metrics-file @", folder),
               "it is a folder; expected the name of a file");
}

/* A path that the user may not access is not reported as missing. */
static void hidden(void **state)
{
    (void)state;
    static const char *const lines[] = {"--load @/locked --prompt a", "--load @/locked/below --prompt a",
                                        "--load @ --sample-input-file @/locked/prompts",
                                        "--load @ --prompt a --vocab-file @/locked/vocab.json"};
    const char *folder = mega_kit_temp_folder(), *locked = mega_kit_path(folder, "locked");
    assert_int_equal(mkdir(locked, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    const bool is_root = geteuid() == 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        mega_command_options c;
        if (is_root) assert_int_equal(seteuid(65534), 0);
        const mega_status st = kit_parse(&c, "generate_samples_gpt", in_folder(lines[i], folder));
        if (is_root) assert_int_equal(seteuid(0), 0);
        assert_int_equal(st, MEGA_ERR_IO);
        kit_assert_has(mega_error_message(), "Permission denied; check the permissions");
        assert_null(strstr(mega_error_message(), "there is no such"));
        mega_command_options_fini(&c);
    }
    assert_int_equal(chmod(locked, 0700), 0);
}

static void rights(void **state __attribute__((unused)))
{
    const char *folder = mega_kit_temp_folder();
    if (geteuid() == 0) mega_kit_skip("root may write everywhere");
    assert_int_equal(chmod(folder, 0500), 0);
    kit_refuse("pretrain_gpt", in_folder(RUN "--train-iters 3 --save @/a/b", folder),
               ": Permission denied; check the folder's permissions");
    assert_int_equal(chmod(folder, 0700), 0);
}

/* The warning appears before hours of training, not after them. */
static void weights_that_nobody_keeps(void **state __attribute__((unused)))
{
    static const char note[] = "no --save: the trained weights will not be kept";
    mega_command_options c;
    const char *folder = mega_kit_temp_folder();
    kit_parse(&c, "pretrain_gpt", in_folder(RUN "--train-iters 3", folder));
    kit_assert_has(kit_notes, note);
    mega_command_options_fini(&c);
    kit_parse(&c, "pretrain_gpt", in_folder(RUN "--train-iters 3 --save @/a", folder));
    assert_null(strstr(kit_notes, note));
    mega_command_options_fini(&c);
    kit_refuse("pretrain_gpt", in_folder(RUN "--train-iters 3 --lr -1", folder), "--lr"); /* mistakes are read alone */
    assert_null(strstr(kit_notes, note));
}

static int make_data_of_run(void **state __attribute__((unused)))
{
    const char *folder = mega_kit_temp_folder();
    mega_kit_write(mega_kit_path(folder, "here.bin"), "x");
    mega_kit_write(mega_kit_path(folder, "here.idx"), "x");
    return chdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape),
        cmocka_unit_test(zero),
        cmocka_unit_test(batch),
        cmocka_unit_test(length_and_units),
        cmocka_unit_test(learning_rate),
        cmocka_unit_test(warm_up_stay_and_decay),
        cmocka_unit_test(weight_decay),
        cmocka_unit_test(precision_and_recompute),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(several_ranks),
        cmocka_unit_test(threads_of_ranks),
        cmocka_unit_test(data_paths),
        cmocka_unit_test(tokenizers),
        cmocka_unit_test(other_commands),
        cmocka_unit_test(places),
        cmocka_unit_test(hidden),
        cmocka_unit_test(rights),
        cmocka_unit_test(weights_that_nobody_keeps),
        cmocka_unit_test(batch_over_ranks),
        cmocka_unit_test(idle_on_ranks),
        cmocka_unit_test(sequence_parallelism),
    };
    return cmocka_run_group_tests(tests, make_data_of_run, NULL);
}
