/* Names of Megatron options whose answer is not "works": data, tokenizer, inference, and the groups of models that are
 * not implemented. */
#include "options_impl.h"

#define THREADS_READ "files are mapped, and a thread reads them ahead; there are no loader processes"
#define OTHER_DATA   "it belongs to the data of pretrain_bert and pretrain_t5"
#define ONLY_T5      "only a T5 has a decoder beside its encoder, and pretrain_t5 trains it; leave it out"
#define OTHER_NOISE  "spans are words here, and --mask-prob is the share of tokens in them"
#define RETRIEVAL    "it belongs to retrieval models, and no model here reads it"
#define VISION       "it belongs to vision models, and no model here reads it"
#define NO_RETRO     "it belongs to RETRO, and --retro-add-retriever is off"
#define WEIGHTED     "use --train-data-path, --valid-data-path and --test-data-path"
#define OWN_INDEX    "index files are found by what they depend on; --data-cache-path says where they lie"
#define SERVER_ONLY  "it belongs to the generation server"
#define DISTILL      "training from a teacher is not implemented; leave it out"
#define NO_TEACHER   "it only matters with --mos or --kd"

// clang-format off
static const mega_option_row data_rows[] = {
    {RENAMED("vocab", MEGA_OPTION_STRING, "vocab-file", "it is --vocab-file"), .commands = FOR_TEXT},
    {RENAMED("tokenizer-name-or-path", MEGA_OPTION_STRING, "tokenizer-model", "it is --tokenizer-model, with --tokenizer-type HuggingFaceTokenizer"), .commands = FOR_TEXT},
    {IDLE("trust-remote-code", MEGA_OPTION_FLAG, NULL, "no code is loaded"), .commands = FOR_TEXT},
    {RENAMED("encoder-seq-length", MEGA_OPTION_INT, "seq-length", "it is --seq-length")},
    {NEVER("decoder-seq-length", MEGA_OPTION_INT, NULL, ONLY_T5), .commands = NOT_T5},
    {IDLE("retriever-seq-length", MEGA_OPTION_INT, "256", RETRIEVAL)},
    {IDLE("sample-rate", MEGA_OPTION_FLOAT, "1.0", RETRIEVAL)},
    {IDLE("mask-prob", MEGA_OPTION_FLOAT, "0.15", OTHER_DATA), .commands = NOT_BERT & NOT_T5},
    {IDLE("short-seq-prob", MEGA_OPTION_FLOAT, "0.1", OTHER_DATA), .commands = NOT_BERT & NOT_T5},
    {IDLE("mmap-warmup", MEGA_OPTION_FLAG, NULL, "the system reads mapped files ahead")},
    {IDLE("num-workers", MEGA_OPTION_INT, "2", THREADS_READ)},
    {IDLE("valid-num-workers", MEGA_OPTION_INT, "2", THREADS_READ)},
    {LATER("data-impl", MEGA_OPTION_STRING, "mmap|infer", "data files are mapped; leave it out")},
    {LATER("mock-data", MEGA_OPTION_FLAG, NULL, "megalith preprocess_data makes a data set of any text in seconds")},
    {LATER("aml-data-download-path", MEGA_OPTION_STRING, NULL, "write the whole path in --data-path")},
    {LATER("train-data-exact-num-epochs", MEGA_OPTION_INT, NULL, "the epochs follow from --train-iters or --train-samples")},
    {IDLE("no-create-attention-mask-in-dataloader", MEGA_OPTION_OFF, NULL, "samples carry no mask; attention knows where it may look"), .dest = "create_attention_mask_in_dataloader"},
    {IDLE("return-data-index", MEGA_OPTION_FLAG, NULL, "every sample carries its index in any case")},
    {LATER("data-efficiency-curriculum-learning", MEGA_OPTION_FLAG, NULL, "samples come in the seeded order; leave it out")},
    {LATER("train-idx-path", MEGA_OPTION_STRING, NULL, OWN_INDEX)},
    {LATER("train-desc-path", MEGA_OPTION_STRING, NULL, OWN_INDEX)},
    {LATER("train-doc-idx-path", MEGA_OPTION_STRING, NULL, OWN_INDEX)},
    {LATER("train-sample-idx-path", MEGA_OPTION_STRING, NULL, OWN_INDEX)},
    {LATER("train-shuffle-idx-path", MEGA_OPTION_STRING, NULL, OWN_INDEX)},
    {IDLE("repeated-dataloader", MEGA_OPTION_FLAG, NULL, "the index arrays hold as many epochs as the training needs")},
    {LATER("train-weighted-split-paths", MEGA_OPTION_LIST, NULL, WEIGHTED)},
    {LATER("valid-weighted-split-paths", MEGA_OPTION_LIST, NULL, WEIGHTED)},
    {LATER("test-weighted-split-paths", MEGA_OPTION_LIST, NULL, WEIGHTED)},
    {LATER("train-weighted-split-paths-path", MEGA_OPTION_STRING, NULL, WEIGHTED)},
    {LATER("valid-weighted-split-paths-path", MEGA_OPTION_STRING, NULL, WEIGHTED)},
    {LATER("test-weighted-split-paths-path", MEGA_OPTION_STRING, NULL, WEIGHTED)},
    {LATER("loss-on-targets-only", MEGA_OPTION_FLAG, NULL, "it belongs to prefix language models; leave it out")},
    {LATER("reweight-loss-based-on-position-frequency", MEGA_OPTION_FLAG, NULL, "it belongs to prefix language models; leave it out")},
    {IDLE("noise-density", MEGA_OPTION_FLOAT, NULL, OTHER_NOISE)},
    {IDLE("mean-noise-span-length", MEGA_OPTION_INT, NULL, OTHER_NOISE)},
};
const mega_option_section cli_other_data_section = MEGA_SECTION("data and tokenizer", data_rows);

static const mega_option_row inference_rows[] = {
    {IDLE("inference-batch-times-seqlen-threshold", MEGA_OPTION_INT, "512", "it is about prompts, which generate_samples_gpt reads"), .commands = FOR_PRETRAIN | FOR_PLAN | FOR_TASKS},
    {IDLE("max-tokens-to-oom", MEGA_OPTION_INT, "12000", SERVER_ONLY)},
    {NEVER("output-bert-embeddings", MEGA_OPTION_FLAG, NULL, "megalith embed writes the embeddings of texts; leave it out")},
    {IDLE("bert-embedder-type", MEGA_OPTION_STRING, "megatron", RETRIEVAL)},
};
const mega_option_section cli_other_inference_section = MEGA_SECTION("inference", inference_rows);

static const mega_option_row other_model_rows[] = {
    /* distillation */
    {LATER("mos", MEGA_OPTION_FLAG, NULL, DISTILL)},
    {LATER("kd", MEGA_OPTION_FLAG, NULL, DISTILL)},
    {LATER("load-teacher", MEGA_OPTION_STRING, NULL, DISTILL)},
    {IDLE("num-layers-teacher", MEGA_OPTION_INT, NULL, NO_TEACHER)},
    {IDLE("num-experts-teacher", MEGA_OPTION_LIST, "1", NO_TEACHER)},
    {IDLE("hidden-size-teacher", MEGA_OPTION_INT, NULL, NO_TEACHER)},
    {IDLE("num-attention-heads-teacher", MEGA_OPTION_INT, NULL, NO_TEACHER)},
    {IDLE("kd-alpha-ce", MEGA_OPTION_FLOAT, "1", NO_TEACHER)},
    {IDLE("kd-beta-ce", MEGA_OPTION_FLOAT, "1", NO_TEACHER)},
    {IDLE("kd-temp", MEGA_OPTION_FLOAT, "1.0", NO_TEACHER)},
    {LATER("reset-iteration", MEGA_OPTION_FLAG, NULL, "use --finetune, which begins at iteration 0")},
    /* biencoder */
    {IDLE("ict-head-size", MEGA_OPTION_INT, NULL, RETRIEVAL)},
    {IDLE("biencoder-projection-dim", MEGA_OPTION_INT, "0", RETRIEVAL)},
    {IDLE("biencoder-shared-query-context-model", MEGA_OPTION_FLAG, NULL, RETRIEVAL)},
    {IDLE("ict-load", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("bert-load", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("titles-data-path", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("query-in-block-prob", MEGA_OPTION_FLOAT, "0.1", RETRIEVAL)},
    {IDLE("use-one-sent-docs", MEGA_OPTION_FLAG, NULL, RETRIEVAL)},
    {IDLE("evidence-data-path", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("retriever-report-topk-accuracies", MEGA_OPTION_LIST, NULL, RETRIEVAL)},
    {IDLE("retriever-score-scaling", MEGA_OPTION_FLAG, NULL, RETRIEVAL)},
    {IDLE("block-data-path", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("embedding-path", MEGA_OPTION_STRING, NULL, RETRIEVAL)},
    {IDLE("indexer-batch-size", MEGA_OPTION_INT, "128", RETRIEVAL)},
    {IDLE("indexer-log-interval", MEGA_OPTION_INT, "1000", RETRIEVAL)},
    /* vision */
    {IDLE("img-dim", MEGA_OPTION_INT, "224", VISION)},
    {IDLE("num-classes", MEGA_OPTION_INT, "1000", VISION)},
    {IDLE("img-h", MEGA_OPTION_INT, "224", VISION)},
    {IDLE("img-w", MEGA_OPTION_INT, "224", VISION)},
    {IDLE("num-channels", MEGA_OPTION_INT, "3", VISION)},
    {IDLE("patch-dim", MEGA_OPTION_INT, "16", VISION)},
    {IDLE("classes-fraction", MEGA_OPTION_FLOAT, "1.0", VISION)},
    {IDLE("data-per-class-fraction", MEGA_OPTION_FLOAT, "1.0", VISION)},
    {IDLE("no-data-sharding", MEGA_OPTION_OFF, NULL, "samples come in one order, whatever the number of ranks"), .dest = "data_sharding"},
    {IDLE("head-lr-mult", MEGA_OPTION_FLOAT, "1.0", VISION)},
    {IDLE("vision-pretraining", MEGA_OPTION_FLAG, NULL, VISION)},
    {IDLE("vision-pretraining-type", MEGA_OPTION_STRING, "classify", VISION)},
    {IDLE("vision-backbone-type", MEGA_OPTION_STRING, "vit", VISION)},
    {IDLE("swin-backbone-type", MEGA_OPTION_STRING, "tiny", VISION)},
    {IDLE("mask-type", MEGA_OPTION_STRING, "random", VISION)},
    {IDLE("mask-factor", MEGA_OPTION_FLOAT, "1.0", VISION)},
    {IDLE("iter-per-epoch", MEGA_OPTION_INT, "1250", VISION)},
    {IDLE("dino-local-img-size", MEGA_OPTION_INT, "96", VISION)},
    {IDLE("dino-local-crops-number", MEGA_OPTION_INT, "10", VISION)},
    {IDLE("dino-head-hidden-size", MEGA_OPTION_INT, "2048", VISION)},
    {IDLE("dino-bottleneck-size", MEGA_OPTION_INT, "256", VISION)},
    {IDLE("dino-freeze-last-layer", MEGA_OPTION_FLOAT, "1", VISION)},
    {IDLE("dino-norm-last-layer", MEGA_OPTION_FLAG, NULL, VISION)},
    {IDLE("dino-warmup-teacher-temp", MEGA_OPTION_FLOAT, "0.04", VISION)},
    {IDLE("dino-teacher-temp", MEGA_OPTION_FLOAT, "0.07", VISION)},
    {IDLE("dino-warmup-teacher-temp-epochs", MEGA_OPTION_INT, "30", VISION)},
    /* retro */
    {LATER("retro-add-retriever", MEGA_OPTION_FLAG, NULL, "only a GPT without retrieval is implemented; leave it out")},
    {IDLE("retro-workdir", MEGA_OPTION_STRING, NULL, NO_RETRO)},
    {IDLE("retro-cyclic-train-iters", MEGA_OPTION_INT, NULL, NO_RETRO)},
    {IDLE("retro-encoder-layers", MEGA_OPTION_INT, "2", NO_RETRO)},
    {IDLE("retro-encoder-hidden-dropout", MEGA_OPTION_FLOAT, "0.1", NO_RETRO)},
    {IDLE("retro-encoder-attention-dropout", MEGA_OPTION_FLOAT, "0.1", NO_RETRO)},
    {IDLE("retro-num-neighbors", MEGA_OPTION_INT, "2", NO_RETRO)},
    {IDLE("retro-num-retrieved-chunks", MEGA_OPTION_INT, "2", NO_RETRO)},
    {IDLE("retro-return-doc-ids", MEGA_OPTION_FLAG, NULL, NO_RETRO)},
};
const mega_option_section cli_other_other_models_section = MEGA_SECTION("other models", other_model_rows);
// clang-format on
