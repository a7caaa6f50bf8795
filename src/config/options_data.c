/* Options: data, tokenizer, inference, and the groups of models that are not built. */
#include "config_impl.h"

#define THREADS_READ  "files are mapped, and a thread reads them ahead; there are no loader processes"
#define OTHER_DATA    "it belongs to BERT and T5 data, and a GPT does not read it"
#define RETRIEVAL     "it belongs to retrieval models, and a GPT does not read it"
#define VISION        "it belongs to vision models, and a GPT does not read it"
#define NO_RETRO      "it belongs to RETRO, and --retro-add-retriever is off"
#define WEIGHTED      "use --train-data-path, --valid-data-path and --test-data-path"
#define OWN_INDEX     "index files are found by what they depend on; --data-cache-path says where they lie"
#define OWN_TOKENIZER "give its files: --vocab-file and --merge-file, or its tokenizer.json as --vocab-file"
#define SERVER_ONLY   "it belongs to the generation server"
#define DISTILL       "training from a teacher is not built; leave it out"
#define NO_TEACHER    "it only matters with --mos or --kd"

// clang-format off
static const option_row data_rows[] = {
    {OPTION("data-path", data_path, KIND_LIST), .help = "prefix of an indexed data set (PREFIX.bin and PREFIX.idx), or WEIGHT PREFIX WEIGHT PREFIX …"},
    {OPTION("split", split, KIND_STRING), .commands = FOR_TRAINING | FOR_DATA, .fallback = "969, 30, 1", .help = "parts for training, validation, test"},
    {OPTION("train-data-path", train_data_path, KIND_LIST), .help = "data of the training alone, instead of --data-path"},
    {OPTION("valid-data-path", valid_data_path, KIND_LIST), .help = "data of the validation alone"},
    {OPTION("test-data-path", test_data_path, KIND_LIST), .help = "data of the test alone"},
    {OPTION("data-cache-path", data_cache_path, KIND_STRING), .alike = ALIKE_NOT_NEEDED, .help = "folder for index arrays; beside the data when not given"},
    {OPTION("tokenizer-type", tokenizer_type, KIND_STRING), .commands = FOR_TEXT | FOR_TRAIN_TOKENIZER, .fallback = "GPT2BPETokenizer", .choices = "GPT2BPETokenizer|ByteTokenizer|CharTokenizer|NullTokenizer", .unbuilt = "BertWordPieceLowerCase|BertWordPieceCase|SentencePieceTokenizer|GPTSentencePieceTokenizer|Llama2Tokenizer|HFTokenizer|HuggingFaceTokenizer|TikTokenizer|PretrainedFromHF", .help = "how text becomes ids"},
    {OPTION("vocab-file", vocab_file, KIND_STRING), .commands = FOR_TEXT, .help = "vocab.json, or a tokenizer.json, or the characters of a CharTokenizer"},
    {RENAMED("vocab", KIND_STRING, "vocab-file", "it is --vocab-file"), .commands = FOR_TEXT},
    {OPTION("merge-file", merge_file, KIND_STRING), .commands = FOR_TEXT, .help = "merges.txt of the byte-level BPE"},
    {OPTION("vocab-size", vocab_size, KIND_INT), .commands = FOR_TEXT, .range = RANGE_POSITIVE, .help = "ids of a NullTokenizer"},
    {OPTION("override-tokenizer", override_tokenizer, KIND_FLAG), .commands = FOR_PRETRAIN | FOR_PLAN, .help = "go on from --load with another tokenizer than it was trained with, whose ids have other meanings"},
    {LATER("tokenizer-model", KIND_STRING, NULL, "SentencePiece models are not read; " OWN_TOKENIZER), .commands = FOR_TEXT},
    {LATER("tokenizer-name-or-path", KIND_STRING, NULL, OWN_TOKENIZER), .commands = FOR_TEXT},
    {IDLE("trust-remote-code", KIND_FLAG, NULL, "no code is loaded"), .commands = FOR_TEXT},
    {IDLE("vocab-extra-ids", KIND_INT, "0", "sentinel ids belong to BERT and T5 tokenizers")},
    {OPTION("seq-length", seq_length, KIND_INT), .commands = FOR_TRAINING | FOR_DATA, .range = RANGE_POSITIVE, .most = 1 << 24, .help = "tokens of a sample"},
    {RENAMED("encoder-seq-length", KIND_INT, "seq-length", "for a GPT it is --seq-length")},
    {LATER("decoder-seq-length", KIND_INT, NULL, "it belongs to T5; a GPT takes --seq-length")},
    {IDLE("retriever-seq-length", KIND_INT, "256", RETRIEVAL)},
    {IDLE("sample-rate", KIND_FLOAT, "1.0", RETRIEVAL)},
    {IDLE("mask-prob", KIND_FLOAT, "0.15", OTHER_DATA)},
    {IDLE("short-seq-prob", KIND_FLOAT, "0.1", OTHER_DATA)},
    {IDLE("mmap-warmup", KIND_FLAG, NULL, "the system reads mapped files ahead")},
    {IDLE("num-workers", KIND_INT, "2", THREADS_READ)},
    {IDLE("valid-num-workers", KIND_INT, "2", THREADS_READ)},
    {LATER("data-impl", KIND_STRING, "mmap|infer", "data files are mapped; leave it out")},
    {OPTION("reset-position-ids", reset_position_ids, KIND_FLAG), .commands = FOR_TRAINING | FOR_DATA, .resume = RESUME_REPORTED, .help = "positions start at 0 again after an end of document"},
    {OPTION("reset-attention-mask", reset_attention_mask, KIND_FLAG), .commands = FOR_TRAINING | FOR_DATA, .resume = RESUME_REPORTED, .help = "attention does not look back over an end of document"},
    {OPTION("eod-mask-loss", eod_mask_loss, KIND_FLAG), .commands = FOR_TRAINING | FOR_DATA, .resume = RESUME_REPORTED, .help = "no loss where the input is the end of a document"},
    {LATER("mock-data", KIND_FLAG, NULL, "megalith preprocess_data makes a data set of any text in seconds")},
    {LATER("aml-data-download-path", KIND_STRING, NULL, "write the whole path in --data-path")},
    {LATER("train-data-exact-num-epochs", KIND_INT, NULL, "the epochs follow from --train-iters or --train-samples")},
    {IDLE("no-create-attention-mask-in-dataloader", KIND_OFF, NULL, "samples carry no mask; attention knows where it may look"), .dest = "create_attention_mask_in_dataloader"},
    {IDLE("return-data-index", KIND_FLAG, NULL, "every sample carries its index in any case")},
    {LATER("data-efficiency-curriculum-learning", KIND_FLAG, NULL, "samples come in the seeded order; leave it out")},
    {LATER("train-idx-path", KIND_STRING, NULL, OWN_INDEX)},
    {LATER("train-desc-path", KIND_STRING, NULL, OWN_INDEX)},
    {LATER("train-doc-idx-path", KIND_STRING, NULL, OWN_INDEX)},
    {LATER("train-sample-idx-path", KIND_STRING, NULL, OWN_INDEX)},
    {LATER("train-shuffle-idx-path", KIND_STRING, NULL, OWN_INDEX)},
    {IDLE("repeated-dataloader", KIND_FLAG, NULL, "the index arrays hold as many epochs as the training needs")},
    {LATER("train-weighted-split-paths", KIND_LIST, NULL, WEIGHTED)},
    {LATER("valid-weighted-split-paths", KIND_LIST, NULL, WEIGHTED)},
    {LATER("test-weighted-split-paths", KIND_LIST, NULL, WEIGHTED)},
    {LATER("train-weighted-split-paths-path", KIND_STRING, NULL, WEIGHTED)},
    {LATER("valid-weighted-split-paths-path", KIND_STRING, NULL, WEIGHTED)},
    {LATER("test-weighted-split-paths-path", KIND_STRING, NULL, WEIGHTED)},
    {LATER("loss-on-targets-only", KIND_FLAG, NULL, "it belongs to prefix language models; leave it out")},
    {LATER("reweight-loss-based-on-position-frequency", KIND_FLAG, NULL, "it belongs to prefix language models; leave it out")},
    {IDLE("noise-density", KIND_FLOAT, NULL, OTHER_DATA)},
    {IDLE("mean-noise-span-length", KIND_INT, NULL, OTHER_DATA)},
};
const option_section mega_option_data_section = {"data and tokenizer", FOR_TRAINING, data_rows, ROW_COUNT(data_rows)};

static const option_row inference_rows[] = {
    {IDLE("inference-batch-times-seqlen-threshold", KIND_INT, "512", "it is about prompts, which generate_samples_gpt reads"), .commands = FOR_PRETRAIN | FOR_PLAN | FOR_TASKS},
    {IDLE("max-tokens-to-oom", KIND_INT, "12000", SERVER_ONLY)},
    {IDLE("output-bert-embeddings", KIND_FLAG, NULL, "it belongs to BERT")},
    {IDLE("bert-embedder-type", KIND_STRING, "megatron", "it belongs to BERT")},
};
const option_section mega_option_inference_section = {"inference", FOR_TRAINING, inference_rows, ROW_COUNT(inference_rows)};

static const option_row other_model_rows[] = {
    /* distillation */
    {LATER("mos", KIND_FLAG, NULL, DISTILL)},
    {LATER("kd", KIND_FLAG, NULL, DISTILL)},
    {LATER("load-teacher", KIND_STRING, NULL, DISTILL)},
    {IDLE("num-layers-teacher", KIND_INT, NULL, NO_TEACHER)},
    {IDLE("num-experts-teacher", KIND_LIST, "1", NO_TEACHER)},
    {IDLE("hidden-size-teacher", KIND_INT, NULL, NO_TEACHER)},
    {IDLE("num-attention-heads-teacher", KIND_INT, NULL, NO_TEACHER)},
    {IDLE("kd-alpha-ce", KIND_FLOAT, "1", NO_TEACHER)},
    {IDLE("kd-beta-ce", KIND_FLOAT, "1", NO_TEACHER)},
    {IDLE("kd-temp", KIND_FLOAT, "1.0", NO_TEACHER)},
    {LATER("reset-iteration", KIND_FLAG, NULL, "use --finetune, which begins at iteration 0")},
    /* biencoder */
    {IDLE("ict-head-size", KIND_INT, NULL, RETRIEVAL)},
    {IDLE("biencoder-projection-dim", KIND_INT, "0", RETRIEVAL)},
    {IDLE("biencoder-shared-query-context-model", KIND_FLAG, NULL, RETRIEVAL)},
    {IDLE("ict-load", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("bert-load", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("titles-data-path", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("query-in-block-prob", KIND_FLOAT, "0.1", RETRIEVAL)},
    {IDLE("use-one-sent-docs", KIND_FLAG, NULL, RETRIEVAL)},
    {IDLE("evidence-data-path", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("retriever-report-topk-accuracies", KIND_LIST, NULL, RETRIEVAL)},
    {IDLE("retriever-score-scaling", KIND_FLAG, NULL, RETRIEVAL)},
    {IDLE("block-data-path", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("embedding-path", KIND_STRING, NULL, RETRIEVAL)},
    {IDLE("indexer-batch-size", KIND_INT, "128", RETRIEVAL)},
    {IDLE("indexer-log-interval", KIND_INT, "1000", RETRIEVAL)},
    /* vision */
    {IDLE("img-dim", KIND_INT, "224", VISION)},
    {IDLE("num-classes", KIND_INT, "1000", VISION)},
    {IDLE("img-h", KIND_INT, "224", VISION)},
    {IDLE("img-w", KIND_INT, "224", VISION)},
    {IDLE("num-channels", KIND_INT, "3", VISION)},
    {IDLE("patch-dim", KIND_INT, "16", VISION)},
    {IDLE("classes-fraction", KIND_FLOAT, "1.0", VISION)},
    {IDLE("data-per-class-fraction", KIND_FLOAT, "1.0", VISION)},
    {IDLE("no-data-sharding", KIND_OFF, NULL, "samples come in one order, whatever the number of ranks"), .dest = "data_sharding"},
    {IDLE("head-lr-mult", KIND_FLOAT, "1.0", VISION)},
    {IDLE("vision-pretraining", KIND_FLAG, NULL, VISION)},
    {IDLE("vision-pretraining-type", KIND_STRING, "classify", VISION)},
    {IDLE("vision-backbone-type", KIND_STRING, "vit", VISION)},
    {IDLE("swin-backbone-type", KIND_STRING, "tiny", VISION)},
    {IDLE("mask-type", KIND_STRING, "random", VISION)},
    {IDLE("mask-factor", KIND_FLOAT, "1.0", VISION)},
    {IDLE("iter-per-epoch", KIND_INT, "1250", VISION)},
    {IDLE("dino-local-img-size", KIND_INT, "96", VISION)},
    {IDLE("dino-local-crops-number", KIND_INT, "10", VISION)},
    {IDLE("dino-head-hidden-size", KIND_INT, "2048", VISION)},
    {IDLE("dino-bottleneck-size", KIND_INT, "256", VISION)},
    {IDLE("dino-freeze-last-layer", KIND_FLOAT, "1", VISION)},
    {IDLE("dino-norm-last-layer", KIND_FLAG, NULL, VISION)},
    {IDLE("dino-warmup-teacher-temp", KIND_FLOAT, "0.04", VISION)},
    {IDLE("dino-teacher-temp", KIND_FLOAT, "0.07", VISION)},
    {IDLE("dino-warmup-teacher-temp-epochs", KIND_INT, "30", VISION)},
    /* retro */
    {LATER("retro-add-retriever", KIND_FLAG, NULL, "a GPT without retrieval is what is built; leave it out")},
    {IDLE("retro-workdir", KIND_STRING, NULL, NO_RETRO)},
    {IDLE("retro-cyclic-train-iters", KIND_INT, NULL, NO_RETRO)},
    {IDLE("retro-encoder-layers", KIND_INT, "2", NO_RETRO)},
    {IDLE("retro-encoder-hidden-dropout", KIND_FLOAT, "0.1", NO_RETRO)},
    {IDLE("retro-encoder-attention-dropout", KIND_FLOAT, "0.1", NO_RETRO)},
    {IDLE("retro-num-neighbors", KIND_INT, "2", NO_RETRO)},
    {IDLE("retro-num-retrieved-chunks", KIND_INT, "2", NO_RETRO)},
    {IDLE("retro-return-doc-ids", KIND_FLAG, NULL, NO_RETRO)},
};
const option_section mega_option_other_models_section = {"other models", FOR_TRAINING, other_model_rows, ROW_COUNT(other_model_rows)};
// clang-format on
