/* Options that belong to one command: preprocess_data, train_tokenizer, tokenize, generate_samples_gpt, tasks, data,
 * plot. */
#include "program_impl.h"

#define SENTENCES      "sentences are cut for BERT; a GPT's documents stay whole, leave it out"
#define TASK_TRAINING  "fine-tuning on a labelled task is not built; leave it out"
#define TASK_RETRIEVAL "it belongs to retrieval tasks"
#define ANY_WORKERS    "all workers share one input, and the output is the same for any number of them"

// clang-format off
static const mega_option_row preprocess_rows[] = {
    {OPTION("input", preprocess.input, MEGA_OPTION_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {OPTION("input-format", preprocess.input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines, or plain text with one document a file; auto looks at the content"},
    {OPTION("json-keys", preprocess.json_keys, MEGA_OPTION_LIST), .fallback = "text", .help = "keys of the JSON lines; one data set for each"},
    {RENAMED("json-key", MEGA_OPTION_STRING, "json-keys", "it is --json-keys")},
    {OPTION("append-eod", preprocess.append_eod, MEGA_OPTION_FLAG), .help = "end each document that is not empty with the end-of-document id"},
    {OPTION("split-on-blank-lines", preprocess.split_on_blank_lines, MEGA_OPTION_FLAG), .help = "plain text: a document ends with its blank line"},
    {OPTION("output-prefix", preprocess.output_prefix, MEGA_OPTION_STRING), .help = "PREFIX of PREFIX_text_document.bin and .idx"},
    {OPTION("workers", preprocess.workers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1024, .help = "threads that tokenize; all cores when not given"},
    {IDLE("chunk-size", MEGA_OPTION_INT, "32", "work is handed out by its size in bytes, and the output is the same")},
    {OPTION("log-interval", preprocess.log_interval, MEGA_OPTION_INT), .fallback = "1000", .range = MEGA_RANGE_POSITIVE, .help = "documents between progress lines"},
    {OPTION("on-bad-line", preprocess.on_bad_line, MEGA_OPTION_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
    {LATER("split-sentences", MEGA_OPTION_FLAG, NULL, SENTENCES)},
    {LATER("keep-newlines", MEGA_OPTION_FLAG, NULL, SENTENCES)},
    {IDLE("lang", MEGA_OPTION_STRING, "english", "it only matters with --split-sentences")},
    {LATER("dataset-impl", MEGA_OPTION_STRING, "mmap", "data files are written for mapping; leave it out")},
    {IDLE("partitions", MEGA_OPTION_INT, "1", ANY_WORKERS)},
    {IDLE("keep-sequential-samples", MEGA_OPTION_FLAG, NULL, ANY_WORKERS)},
    {IDLE("seq-length", MEGA_OPTION_INT, NULL, "documents are stored whole, and cut into samples by the training")},
    {IDLE("make-vocab-size-divisible-by", MEGA_OPTION_INT, "128", "ids are stored as they are; the training pads the embedding")},
    {IDLE("pad-vocab-size-to", MEGA_OPTION_INT, NULL, "ids are stored as they are; the training pads the embedding")},
    {LATER("datasets", MEGA_OPTION_LIST, NULL, "use megalith data merge")},
};
const mega_option_section mega_option_preprocess_section = MEGA_SECTION("preprocessing", preprocess_rows);

static const mega_option_row train_tokenizer_rows[] = {
    {OPTION("input", train_tokenizer.input, MEGA_OPTION_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {OPTION("input-format", train_tokenizer.input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {OPTION("json-keys", train_tokenizer.json_keys, MEGA_OPTION_LIST), .fallback = "text", .help = "keys of the JSON lines whose text is read"},
    {RENAMED("json-key", MEGA_OPTION_STRING, "json-keys", "it is --json-keys")},
    {OPTION("split-on-blank-lines", train_tokenizer.split_on_blank_lines, MEGA_OPTION_FLAG), .help = "plain text: a document ends with its blank line"},
    {OPTION("vocab-size", train_tokenizer.vocab_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ids of the new vocabulary, 256 bytes and the end of document included"},
    {OPTION("min-frequency", train_tokenizer.min_frequency, MEGA_OPTION_INT), .fallback = "2", .range = MEGA_RANGE_POSITIVE, .help = "pairs seen less often are not merged"},
    {OPTION("output", train_tokenizer.output, MEGA_OPTION_STRING), .help = "folder for vocab.json, merges.txt and tokenizer.json"},
    {OPTION("workers", train_tokenizer.workers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1024, .help = "threads that count; all cores when not given"},
    {OPTION("on-bad-line", train_tokenizer.on_bad_line, MEGA_OPTION_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
};
const mega_option_section mega_option_train_tokenizer_section = MEGA_SECTION("tokenizer training", train_tokenizer_rows);

static const mega_option_row tokenize_rows[] = {
    {OPTION("text", tokenize.text, MEGA_OPTION_STRING), .takes_empty = true, .help = "the text; standard input when neither this nor --input is given"},
    {OPTION("input", tokenize.input, MEGA_OPTION_STRING), .help = "file with the text"},
    {OPTION("ids", tokenize.ids, MEGA_OPTION_LIST), .takes_empty = true, .help = "ids to turn back into text"},
    {OPTION("ids-only", tokenize.ids_only, MEGA_OPTION_FLAG), .help = "print the ids alone, on one line"},
    {OPTION("count", tokenize.count, MEGA_OPTION_FLAG), .help = "print how many tokens, characters and bytes there are, and no more"},
    {OPTION("special", tokenize.special, MEGA_OPTION_FLAG), .help = "take special tokens such as <|endoftext|> in the text for what they name, as in prompts; else they are text like any other, as in data"},
    {OPTION("text-only", tokenize.text_only, MEGA_OPTION_FLAG), .help = "with --ids: print the text alone"},
};
const mega_option_section mega_option_tokenize_section = MEGA_SECTION("tokenize", tokenize_rows);

static const mega_option_row generate_rows[] = {
    {OPTION("prompt", generate.prompt, MEGA_OPTION_APPEND), .takes_empty = true, .help = "text to go on from; may be given several times"},
    {OPTION("sample-input-file", generate.sample_input_file, MEGA_OPTION_STRING), .help = "file with one prompt a line"},
    {OPTION("sample-output-file", generate.sample_output_file, MEGA_OPTION_STRING), .help = "where its answers go; the input's name with .out when not given"},
    {OPTION("num-samples", generate.num_samples, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "so many texts from no prompt"},
    {OPTION("genfile", generate.genfile, MEGA_OPTION_STRING), .help = "JSON lines with text, length, finished"},
    {OPTION("out-seq-length", generate.out_seq_length, MEGA_OPTION_INT), .fallback = "1024", .range = MEGA_RANGE_POSITIVE, .help = "new tokens at most"},
    {OPTION("temperature", generate.temperature, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "divides the logits"},
    {OPTION("greedy", generate.greedy, MEGA_OPTION_FLAG), .help = "take the most probable token"},
    {OPTION("top_p", generate.top_p, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_TOP_P, .help = "draw from the most probable tokens that have this probability together; 0 is off"},
    {OPTION("top_k", generate.top_k, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "draw from so many most probable tokens; 0 is off (--top_k 0 --top_p 0, both given, is --greedy)"},
    {OPTION("recompute", generate.recompute, MEGA_OPTION_FLAG), .help = "keep no keys and values, compute the whole text for every token"},
    {OPTION("batch", generate.batch, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "texts made at the same time"},
    {OPTION("inference-batch-times-seqlen-threshold", generate.inference_batch_times_seqlen_threshold, MEGA_OPTION_INT), .fallback = "512", .range = MEGA_RANGE_POSITIVE, .help = "prompts are read in pieces of at most so many tokens of a batch (and 64 of a text), which pipeline stages take side by side"},
    {OPTION("interactive", generate.interactive, MEGA_OPTION_FLAG), .help = "read prompts from standard input"},
};
const mega_option_section mega_option_generate_section = MEGA_SECTION("generation", generate_rows);

static const mega_option_row task_rows[] = {
    {OPTION("task", tasks.task, MEGA_OPTION_STRING), .choices = "LM_LOSS|WIKITEXT103|LAMBADA", .unbuilt = "RACE|MNLI|QQP|ICT-ZEROSHOT-NQ|RETRIEVER-EVAL|RET-FINETUNE-NQ", .help = "what is measured"},
    {OPTION("valid-data", tasks.valid_data, MEGA_OPTION_LIST), .help = "files to evaluate: plain text, or JSON lines (a document each)"},
    {OPTION("input-format", tasks.input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {OPTION("json-key", tasks.json_key, MEGA_OPTION_STRING), .fallback = "text", .help = "key of the JSON lines whose text is read"},
    {RENAMED("json-keys", MEGA_OPTION_STRING, "json-key", "here it is --json-key")},
    {RENAMED("pretrained-checkpoint", MEGA_OPTION_STRING, "load", "here it is --load")},
    {OPTION("overlapping-eval", tasks.overlapping_eval, MEGA_OPTION_INT), .fallback = "32", .range = MEGA_RANGE_POSITIVE, .help = "tokens by which the window moves on"},
    {OPTION("strict-lambada", tasks.strict_lambada, MEGA_OPTION_FLAG), .help = "LAMBADA: all tokens of the last word must be right"},
    {LATER("epochs", MEGA_OPTION_INT, "0", TASK_TRAINING)},
    {LATER("train-data", MEGA_OPTION_LIST, NULL, TASK_TRAINING)},
    {IDLE("keep-last", MEGA_OPTION_FLAG, NULL, "evaluation saves nothing")},
    {IDLE("qa-data-dev", MEGA_OPTION_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("qa-data-test", MEGA_OPTION_STRING, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-use-gpu", MEGA_OPTION_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("faiss-match", MEGA_OPTION_STRING, "string", TASK_RETRIEVAL)},
    {IDLE("faiss-topk-retrievals", MEGA_OPTION_INT, "100", TASK_RETRIEVAL)},
    {IDLE("eval-micro-batch-size", MEGA_OPTION_INT, NULL, TASK_RETRIEVAL)},
    {IDLE("train-with-neg", MEGA_OPTION_FLAG, NULL, TASK_RETRIEVAL)},
    {IDLE("train-hard-neg", MEGA_OPTION_INT, "0", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-hard-neg", MEGA_OPTION_INT, "30", TASK_RETRIEVAL)},
    {IDLE("val-av-rank-other-neg", MEGA_OPTION_INT, "30", TASK_RETRIEVAL)},
};
const mega_option_section mega_option_tasks_section = MEGA_SECTION("evaluation", task_rows);

static const mega_option_row data_tool_rows[] = {
    {OPTION("num-documents", data.num_documents, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: documents printed"},
    {OPTION("num-samples", data.num_samples, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: samples printed as the model sees them"},
    {OPTION("first", data.first, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: number of the first document or sample"},
    {OPTION("input", data.input, MEGA_OPTION_LIST), .help = "merge: prefixes, or one folder of pairs"},
    {OPTION("output-prefix", data.output_prefix, MEGA_OPTION_STRING), .help = "merge: prefix of the new pair"},
};
const mega_option_section mega_option_data_tool_section = MEGA_SECTION("data sets", data_tool_rows);

static const mega_option_row plot_rows[] = {
    {OPTION("key", plot.key, MEGA_OPTION_LIST), .fallback = "lm_loss", .help = "keys of the metrics files to draw"},
    {OPTION("x", plot.x, MEGA_OPTION_STRING), .fallback = "iteration", .help = "key of the horizontal axis"},
    {OPTION("run", plot.run, MEGA_OPTION_STRING), .help = "id of the run to draw, of a file that holds several; the last one when not given"},
    {OPTION("svg", plot.svg, MEGA_OPTION_STRING), .help = "write an SVG file too"},
    {OPTION("smooth", plot.smooth, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_BELOW_ONE, .help = "factor of a running mean"},
    {OPTION("width", plot.width, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "characters; 0 is the terminal's"},
    {OPTION("height", plot.height, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "lines; 0 is the terminal's"},
    {OPTION("log-x", plot.log_x, MEGA_OPTION_FLAG), .help = "logarithmic horizontal axis"},
    {OPTION("log-y", plot.log_y, MEGA_OPTION_FLAG), .help = "logarithmic vertical axis"},
};
const mega_option_section mega_option_plot_section = MEGA_SECTION("plot", plot_rows);

static const mega_option_row new_rows[] = {
    {OPTION("text", project.text, MEGA_OPTION_STRING), .help = "text file to train on, to which the project gets a link, text.txt"},
};
const mega_option_section mega_option_new_section = MEGA_SECTION("new", new_rows);
// clang-format on
