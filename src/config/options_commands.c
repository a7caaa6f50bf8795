/* Options that belong to one command: preprocess_data, train_tokenizer, tokenize, generate_samples_gpt, tasks, data,
 * plot. */
#include "config_impl.h"

#define SENTENCES      "sentences are cut for BERT; a GPT's documents stay whole, leave it out"
#define TASK_TRAINING  "fine-tuning on a labelled task is not built; leave it out"
#define TASK_RETRIEVAL "it belongs to retrieval tasks"
#define ANY_WORKERS    "all workers share one input, and the output is the same for any number of them"

// clang-format off
static const option_row preprocess_rows[] = {
    {OPTION("input", preprocess.input, KIND_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {OPTION("input-format", preprocess.input_format, KIND_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines, or plain text with one document a file; auto looks at the content"},
    {OPTION("json-keys", preprocess.json_keys, KIND_LIST), .fallback = "text", .help = "keys of the JSON lines; one data set for each"},
    {RENAMED("json-key", KIND_STRING, "json-keys", "it is --json-keys")},
    {OPTION("append-eod", preprocess.append_eod, KIND_FLAG), .help = "end each document that is not empty with the end-of-document id"},
    {OPTION("split-on-blank-lines", preprocess.split_on_blank_lines, KIND_FLAG), .help = "plain text: a document ends with its blank line"},
    {OPTION("output-prefix", preprocess.output_prefix, KIND_STRING), .help = "PREFIX of PREFIX_text_document.bin and .idx"},
    {OPTION("workers", preprocess.workers, KIND_INT), .range = RANGE_POSITIVE, .most = 1024, .help = "threads that tokenize; all cores when not given"},
    {IDLE("chunk-size", KIND_INT, "32", "work is handed out by its size in bytes, and the output is the same")},
    {OPTION("log-interval", preprocess.log_interval, KIND_INT), .fallback = "1000", .range = RANGE_POSITIVE, .help = "documents between progress lines"},
    {OPTION("on-bad-line", preprocess.on_bad_line, KIND_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
    {LATER("split-sentences", KIND_FLAG, NULL, SENTENCES)},
    {LATER("keep-newlines", KIND_FLAG, NULL, SENTENCES)},
    {IDLE("lang", KIND_STRING, "english", "it only matters with --split-sentences")},
    {LATER("dataset-impl", KIND_STRING, "mmap", "data files are written for mapping; leave it out")},
    {IDLE("partitions", KIND_INT, "1", ANY_WORKERS)},
    {IDLE("keep-sequential-samples", KIND_FLAG, NULL, ANY_WORKERS)},
    {IDLE("seq-length", KIND_INT, NULL, "documents are stored whole, and cut into samples by the training")},
    {IDLE("make-vocab-size-divisible-by", KIND_INT, "128", "ids are stored as they are; the training pads the embedding")},
    {IDLE("pad-vocab-size-to", KIND_INT, NULL, "ids are stored as they are; the training pads the embedding")},
    {LATER("datasets", KIND_LIST, NULL, "use megalith data merge")},
};
const option_section mega_option_preprocess_section = {"preprocessing", FOR_PREPROCESS, preprocess_rows, ROW_COUNT(preprocess_rows)};

static const option_row train_tokenizer_rows[] = {
    {OPTION("input", train_tokenizer.input, KIND_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {OPTION("input-format", train_tokenizer.input_format, KIND_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {OPTION("json-keys", train_tokenizer.json_keys, KIND_LIST), .fallback = "text", .help = "keys of the JSON lines whose text is read"},
    {RENAMED("json-key", KIND_STRING, "json-keys", "it is --json-keys")},
    {OPTION("split-on-blank-lines", train_tokenizer.split_on_blank_lines, KIND_FLAG), .help = "plain text: a document ends with its blank line"},
    {OPTION("vocab-size", train_tokenizer.vocab_size, KIND_INT), .range = RANGE_POSITIVE, .help = "ids of the new vocabulary, 256 bytes and the end of document included"},
    {OPTION("min-frequency", train_tokenizer.min_frequency, KIND_INT), .fallback = "2", .range = RANGE_POSITIVE, .help = "pairs seen less often are not merged"},
    {OPTION("output", train_tokenizer.output, KIND_STRING), .help = "folder for vocab.json, merges.txt and tokenizer.json"},
    {OPTION("workers", train_tokenizer.workers, KIND_INT), .range = RANGE_POSITIVE, .most = 1024, .help = "threads that count; all cores when not given"},
    {OPTION("on-bad-line", train_tokenizer.on_bad_line, KIND_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
};
const option_section mega_option_train_tokenizer_section = {"tokenizer training", FOR_TRAIN_TOKENIZER, train_tokenizer_rows, ROW_COUNT(train_tokenizer_rows)};

static const option_row tokenize_rows[] = {
    {OPTION("text", tokenize.text, KIND_STRING), .takes_empty = true, .help = "the text; standard input when neither this nor --input is given"},
    {OPTION("input", tokenize.input, KIND_STRING), .help = "file with the text"},
    {OPTION("ids", tokenize.ids, KIND_LIST), .takes_empty = true, .help = "ids to turn back into text"},
    {OPTION("ids-only", tokenize.ids_only, KIND_FLAG), .help = "print the ids alone, on one line"},
    {OPTION("count", tokenize.count, KIND_FLAG), .help = "print how many tokens, characters and bytes there are, and no more"},
    {OPTION("special", tokenize.special, KIND_FLAG), .help = "take special tokens such as <|endoftext|> in the text for what they name, as in prompts; else they are text like any other, as in data"},
    {OPTION("text-only", tokenize.text_only, KIND_FLAG), .help = "with --ids: print the text alone"},
};
const option_section mega_option_tokenize_section = {"tokenize", FOR_TOKENIZE, tokenize_rows, ROW_COUNT(tokenize_rows)};

static const option_row generate_rows[] = {
    {OPTION("prompt", generate.prompt, KIND_APPEND), .takes_empty = true, .help = "text to go on from; may be given several times"},
    {OPTION("sample-input-file", generate.sample_input_file, KIND_STRING), .help = "file with one prompt a line"},
    {OPTION("sample-output-file", generate.sample_output_file, KIND_STRING), .help = "where its answers go; the input's name with .out when not given"},
    {OPTION("num-samples", generate.num_samples, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "so many texts from no prompt"},
    {OPTION("genfile", generate.genfile, KIND_STRING), .help = "JSON lines with text, length, finished"},
    {OPTION("out-seq-length", generate.out_seq_length, KIND_INT), .fallback = "1024", .range = RANGE_POSITIVE, .help = "new tokens at most"},
    {OPTION("temperature", generate.temperature, KIND_FLOAT), .fallback = "1.0", .range = RANGE_NOT_NEGATIVE, .help = "divides the logits"},
    {OPTION("greedy", generate.greedy, KIND_FLAG), .help = "take the most probable token"},
    {OPTION("top_p", generate.top_p, KIND_FLOAT), .fallback = "0.0", .range = RANGE_TOP_P, .help = "draw from the most probable tokens that have this probability together; 0 is off"},
    {OPTION("top_k", generate.top_k, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "draw from so many most probable tokens; 0 is off (--top_k 0 --top_p 0, both given, is --greedy)"},
    {OPTION("recompute", generate.recompute, KIND_FLAG), .help = "keep no keys and values, compute the whole text for every token"},
    {OPTION("batch", generate.batch, KIND_INT), .fallback = "1", .range = RANGE_POSITIVE, .help = "texts made at the same time"},
    {OPTION("inference-batch-times-seqlen-threshold", generate.inference_batch_times_seqlen_threshold, KIND_INT), .fallback = "512", .range = RANGE_POSITIVE, .help = "prompts are read in pieces of at most so many tokens of a batch (and 64 of a text), which pipeline stages take side by side"},
    {OPTION("interactive", generate.interactive, KIND_FLAG), .help = "read prompts from standard input"},
};
const option_section mega_option_generate_section = {"generation", FOR_GENERATE, generate_rows, ROW_COUNT(generate_rows)};

static const option_row task_rows[] = {
    {OPTION("task", tasks.task, KIND_STRING), .choices = "LM_LOSS|WIKITEXT103|LAMBADA", .unbuilt = "RACE|MNLI|QQP|ICT-ZEROSHOT-NQ|RETRIEVER-EVAL|RET-FINETUNE-NQ", .help = "what is measured"},
    {OPTION("valid-data", tasks.valid_data, KIND_LIST), .help = "files to evaluate: plain text, or JSON lines (a document each)"},
    {OPTION("input-format", tasks.input_format, KIND_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {OPTION("json-key", tasks.json_key, KIND_STRING), .fallback = "text", .help = "key of the JSON lines whose text is read"},
    {RENAMED("json-keys", KIND_STRING, "json-key", "here it is --json-key")},
    {RENAMED("pretrained-checkpoint", KIND_STRING, "load", "here it is --load")},
    {OPTION("overlapping-eval", tasks.overlapping_eval, KIND_INT), .fallback = "32", .range = RANGE_POSITIVE, .help = "tokens by which the window moves on"},
    {OPTION("strict-lambada", tasks.strict_lambada, KIND_FLAG), .help = "LAMBADA: all tokens of the last word must be right"},
    {LATER("epochs", KIND_INT, "0", TASK_TRAINING)},
    {LATER("train-data", KIND_LIST, NULL, TASK_TRAINING)},
    {IDLE("keep-last", KIND_FLAG, NULL, "evaluation saves nothing")},
    {IDLE("qa-data-dev", KIND_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("qa-data-test", KIND_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-use-gpu", KIND_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-match", KIND_STRING, "string", TASK_RETRIEVAL)},
    {IDLE("faiss-topk-retrievals", KIND_INT, "100", TASK_RETRIEVAL)},
    {IDLE("eval-micro-batch-size", KIND_INT, NULL, TASK_RETRIEVAL)},
    {IDLE("train-with-neg", KIND_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("train-hard-neg", KIND_INT, "0", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-hard-neg", KIND_INT, "30", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-other-neg", KIND_INT, "30", TASK_RETRIEVAL)},
};
const option_section mega_option_tasks_section = {"evaluation", FOR_TASKS, task_rows, ROW_COUNT(task_rows)};

static const option_row data_tool_rows[] = {
    {OPTION("num-documents", data.num_documents, KIND_INT), .range = RANGE_NOT_NEGATIVE, .help = "show: documents printed"},
    {OPTION("num-samples", data.num_samples, KIND_INT), .range = RANGE_NOT_NEGATIVE, .help = "show: samples printed as the model sees them"},
    {OPTION("first", data.first, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "show: number of the first document or sample"},
    {OPTION("input", data.input, KIND_LIST), .help = "merge: prefixes, or one folder of pairs"},
    {OPTION("output-prefix", data.output_prefix, KIND_STRING), .help = "merge: prefix of the new pair"},
};
const option_section mega_option_data_tool_section = {"data sets", FOR_DATA, data_tool_rows, ROW_COUNT(data_tool_rows)};

static const option_row plot_rows[] = {
    {OPTION("key", plot.key, KIND_LIST), .fallback = "lm_loss", .help = "keys of the metrics files to draw"},
    {OPTION("x", plot.x, KIND_STRING), .fallback = "iteration", .help = "key of the horizontal axis"},
    {OPTION("run", plot.run, KIND_STRING), .help = "id of the run to draw, of a file that holds several; the last one when not given"},
    {OPTION("svg", plot.svg, KIND_STRING), .help = "write an SVG file too"},
    {OPTION("smooth", plot.smooth, KIND_FLOAT), .fallback = "0.0", .range = RANGE_BELOW_ONE, .help = "factor of a running mean"},
    {OPTION("width", plot.width, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "characters; 0 is the terminal's"},
    {OPTION("height", plot.height, KIND_INT), .fallback = "0", .range = RANGE_NOT_NEGATIVE, .help = "lines; 0 is the terminal's"},
    {OPTION("log-x", plot.log_x, KIND_FLAG), .help = "logarithmic horizontal axis"},
    {OPTION("log-y", plot.log_y, KIND_FLAG), .help = "logarithmic vertical axis"},
};
const option_section mega_option_plot_section = {"plot", FOR_PLOT, plot_rows, ROW_COUNT(plot_rows)};
// clang-format on
