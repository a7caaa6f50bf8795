/* The options of single commands. */
#include "loaded.h"
#include "megalith/labelled.h"
#include "options_impl.h"

// clang-format off
static const mega_option_row preprocess_rows[] = {
    {MEGA_OPTION(mega_preprocess_options, "input", input, MEGA_OPTION_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {MEGA_OPTION(mega_preprocess_options, "input-format", input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines, or plain text with one document a file; auto looks at the content"},
    {MEGA_OPTION(mega_preprocess_options, "json-keys", json_keys, MEGA_OPTION_LIST), .fallback = "text", .help = "keys of the JSON lines; one data set for each"},
    {MEGA_OPTION(mega_preprocess_options, "append-eod", append_eod, MEGA_OPTION_FLAG), .help = "end each document that is not empty with the end-of-document id"},
    {MEGA_OPTION(mega_preprocess_options, "split-on-blank-lines", split_on_blank_lines, MEGA_OPTION_FLAG), .help = "plain text: a document ends with its blank line"},
    {MEGA_OPTION(mega_preprocess_options, "split-sentences", split_sentences, MEGA_OPTION_FLAG), .help = "cut documents into sentences, for BERT and T5: PREFIX_text_sentence.bin and .idx"},
    {MEGA_OPTION(mega_preprocess_options, "keep-newlines", keep_newlines, MEGA_OPTION_FLAG), .help = "white space between sentences belongs to the one before it"},
    {MEGA_OPTION(mega_preprocess_options, "lang", lang, MEGA_OPTION_STRING), .fallback = "english", .help = "language of the sentences, by its English name or its code of two letters"},
    {MEGA_OPTION(mega_preprocess_options, "sentence-parameters", sentence_parameters, MEGA_OPTION_STRING), .help = "folder of Punkt's parameters (NLTK's punkt_tab, or one of its languages); learnt from the input when not given"},
    {MEGA_OPTION(mega_preprocess_options, "save-sentence-parameters", save_sentence_parameters, MEGA_OPTION_STRING), .help = "folder to write the parameters to"},
    {MEGA_OPTION(mega_preprocess_options, "abbreviations", abbreviations, MEGA_OPTION_STRING), .help = "file of further abbreviations, one a line"},
    {MEGA_OPTION(mega_preprocess_options, "output-prefix", output_prefix, MEGA_OPTION_STRING), .help = "PREFIX of PREFIX_text_document.bin and .idx"},
    {MEGA_OPTION(mega_preprocess_options, "workers", workers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1024, .help = "threads that tokenize; all cores when not given"},
    {MEGA_OPTION(mega_preprocess_options, "log-interval", log_interval, MEGA_OPTION_INT), .fallback = "1000", .range = MEGA_RANGE_POSITIVE, .help = "documents between progress lines"},
    {MEGA_OPTION(mega_preprocess_options, "on-bad-line", on_bad_line, MEGA_OPTION_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
};
const mega_option_section cli_preprocess_section = MEGA_SECTION("preprocessing", preprocess_rows);

static const mega_option_row train_tokenizer_rows[] = {
    {MEGA_OPTION(mega_train_tokenizer_options, "input", input, MEGA_OPTION_LIST), .help = "files, quoted globs, folders; - is standard input"},
    {MEGA_OPTION(mega_train_tokenizer_options, "input-format", input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {MEGA_OPTION(mega_train_tokenizer_options, "json-keys", json_keys, MEGA_OPTION_LIST), .fallback = "text", .help = "keys of the JSON lines whose text is read"},
    {MEGA_OPTION(mega_train_tokenizer_options, "split-on-blank-lines", split_on_blank_lines, MEGA_OPTION_FLAG), .help = "plain text: a document ends with its blank line"},
    {MEGA_OPTION(mega_train_tokenizer_options, "vocab-size", vocab_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ids of the new vocabulary, with its bytes or characters and its special tokens"},
    {MEGA_OPTION(mega_train_tokenizer_options, "min-frequency", min_frequency, MEGA_OPTION_INT), .fallback = "2", .range = MEGA_RANGE_POSITIVE, .help = "pairs seen less often are not merged (BPE, WordPiece)"},
    {MEGA_OPTION(mega_train_tokenizer_options, "character-coverage", character_coverage, MEGA_OPTION_FLOAT), .fallback = "0.9995", .range = MEGA_RANGE_FRACTION, .help = "share of the text whose characters are pieces, the most frequent ones; the others are <unk> (Unigram)"},
    {MEGA_OPTION(mega_train_tokenizer_options, "output", output, MEGA_OPTION_STRING), .help = "folder for tokenizer.json and vocab.json with merges.txt, vocab.txt or tokenizer.model"},
    {MEGA_OPTION(mega_train_tokenizer_options, "workers", workers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1024, .help = "threads that count words and learn; all cores when not given"},
    {MEGA_OPTION(mega_train_tokenizer_options, "on-bad-line", on_bad_line, MEGA_OPTION_CHOICE), .fallback = "stop", .choices = "stop|skip", .help = "a line that is no JSON object with the keys"},
};
const mega_option_section cli_train_tokenizer_section = MEGA_SECTION("tokenizer training", train_tokenizer_rows);

static const mega_option_row tokenize_rows[] = {
    {MEGA_OPTION(mega_tokenize_options, "text", text, MEGA_OPTION_STRING), .takes_empty = true, .help = "the text; standard input when neither this nor --input is given"},
    {MEGA_OPTION(mega_tokenize_options, "input", input, MEGA_OPTION_STRING), .help = "file with the text"},
    {MEGA_OPTION(mega_tokenize_options, "ids", ids, MEGA_OPTION_LIST), .takes_empty = true, .help = "ids to decode into text"},
    {MEGA_OPTION(mega_tokenize_options, "ids-only", ids_only, MEGA_OPTION_FLAG), .help = "print the ids alone, on one line"},
    {MEGA_OPTION(mega_tokenize_options, "count", count, MEGA_OPTION_FLAG), .help = "print how many tokens, characters and bytes there are, and no more"},
    {MEGA_OPTION(mega_tokenize_options, "special", special, MEGA_OPTION_FLAG), .help = "take special tokens such as <|endoftext|> in the text for what they name, as in prompts; else they are text like any other, as in data"},
    {MEGA_OPTION(mega_tokenize_options, "text-only", text_only, MEGA_OPTION_FLAG), .help = "with --ids: print the text alone"},
};
const mega_option_section cli_tokenize_section = MEGA_SECTION("tokenize", tokenize_rows);

static const mega_option_row generate_rows[] = {
    {MEGA_OPTION(mega_generate_options, "prompt", prompt, MEGA_OPTION_APPEND), .commands = FOR_GENERATE, .takes_empty = true, .help = "text to continue; may be given several times"},
    {MEGA_OPTION(mega_generate_options, "sample-input-file", sample_input_file, MEGA_OPTION_STRING), .commands = FOR_GENERATE, .help = "file with one prompt a line"},
    {MEGA_OPTION(mega_generate_options, "sample-output-file", sample_output_file, MEGA_OPTION_STRING), .commands = FOR_GENERATE, .help = "where its answers go; the input's name with .out when not given"},
    {MEGA_OPTION(mega_generate_options, "num-samples", num_samples, MEGA_OPTION_INT), .commands = FOR_GENERATE, .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "number of texts to generate without a prompt"},
    {MEGA_OPTION(mega_generate_options, "genfile", genfile, MEGA_OPTION_STRING), .commands = FOR_GENERATE, .help = "JSON lines with text, length, finished; with --logprobs also tokens and logprobs, with beams also score"},
    {MEGA_OPTION(mega_generate_options, "out-seq-length", out_seq_length, MEGA_OPTION_INT), .commands = FOR_GENERATE, .fallback = "1024", .range = MEGA_RANGE_POSITIVE, .help = "new tokens at most"},
    {MEGA_OPTION(mega_generate_options, "temperature", temperature, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "1.0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "divides the logits"},
    {MEGA_OPTION(mega_generate_options, "greedy", greedy, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "take the most probable token"},
    {MEGA_OPTION(mega_generate_options, "top_p", top_p, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "0.0", .range = MEGA_RANGE_TOP_P, .help = "draw from the most probable tokens that have this probability together; 0 is off"},
    {MEGA_OPTION(mega_generate_options, "top_k", top_k, MEGA_OPTION_INT), .commands = FOR_GENERATE, .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "number of most probable tokens to draw from; 0 is off (--top_k 0 --top_p 0, both given, is --greedy)"},
    {MEGA_OPTION(mega_generate_options, "top_p_decay", top_p_decay, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "0.0", .range = MEGA_RANGE_FRACTION, .help = "--top_p is multiplied by it after each token of a text; 0 is off"},
    {MEGA_OPTION(mega_generate_options, "top_p_bound", top_p_bound, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "0.0", .range = MEGA_RANGE_FRACTION, .help = "--top_p does not decay below it"},
    {MEGA_OPTION(mega_generate_options, "min_p", min_p, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "0.0", .range = MEGA_RANGE_FRACTION, .help = "drop tokens less probable than this part of the most probable one; 0 is off"},
    {MEGA_OPTION(mega_generate_options, "repetition_penalty", repetition_penalty, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .help = "logits of tokens that the text contains are divided by it if positive, else multiplied; 1 is off"},
    {MEGA_OPTION(mega_generate_options, "add_BOS", add_bos, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "begin each prompt with the end-of-document id, which Megatron uses as the first id of a text"},
    {MEGA_OPTION(mega_generate_options, "stop", stop, MEGA_OPTION_APPEND), .commands = FOR_GENERATE, .help = "text that ends a generated text, which includes it; may be given several times"},
    {MEGA_OPTION(mega_generate_options, "stop_token", stop_token, MEGA_OPTION_INT), .commands = FOR_GENERATE, .fallback = "-1", .help = "id that ends a text; -1 is the end of document"},
    {MEGA_OPTION(mega_generate_options, "stop_on_eol", stop_on_eol, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "a token of one or two line ends ends a text"},
    {MEGA_OPTION(mega_generate_options, "stop_on_double_eol", stop_on_double_eol, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "two line ends, as one token or two, end a text"},
    {MEGA_OPTION(mega_generate_options, "prevent_newline_after_colon", prevent_newline_after_colon, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "the token of a line end does not follow that of a colon"},
    {MEGA_OPTION(mega_generate_options, "logprobs", logprobs, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "write to --genfile the ids of each text, and the logarithm of the probability of each after the first; prompts are then read one token at a time"},
    {MEGA_OPTION(mega_generate_options, "num_beams", num_beams, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = MEGA_CLI_MOST_BATCH, .help = "open beams of a beam search, which finds the text with the best score; 1: none"},
    {MEGA_OPTION(mega_generate_options, "length_penalty", length_penalty, MEGA_OPTION_FLOAT), .commands = FOR_GENERATE, .fallback = "1.0", .help = "the score of a text is the sum of the logarithms of its probabilities, divided by its number of new tokens to this power"},
    {MEGA_OPTION(mega_generate_options, "beam_rules", beam_rules, MEGA_OPTION_CHOICE), .commands = FOR_GENERATE, .fallback = "megatron", .choices = "megatron|transformers", .help = "whose rules end a search, and what happens to texts that reach the greatest length"},
    {MEGA_OPTION(mega_generate_options, "early_stopping", early_stopping, MEGA_OPTION_CHOICE), .commands = FOR_GENERATE, .fallback = "false", .choices = "false|true|never", .help = "with --beam-rules transformers: true ends a search once as many texts as beams have ended; never goes on while a longer text could be better"},
    {MEGA_OPTION(mega_generate_options, "return_logits", return_logits, MEGA_OPTION_STRING), .commands = FOR_GENERATE, .help = "FILE.npy or FILE.safetensors for the logits of each new token, float32 [tokens, vocabulary] in the order of the texts"},
    {MEGA_OPTION(mega_generate_options, "recompute", recompute, MEGA_OPTION_FLAG), .help = "keep no keys and values, compute the whole text for every token"},
    {MEGA_OPTION(mega_generate_options, "batch", batch, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "texts made at the same time"},
    {MEGA_OPTION(mega_generate_options, "inference-batch-times-seqlen-threshold", inference_batch_times_seqlen_threshold, MEGA_OPTION_INT), .fallback = "512", .range = MEGA_RANGE_POSITIVE, .help = "largest number of tokens of a batch that is read from the prompts at a time (64 of one text); pipeline stages work on several such pieces at once"},
    {MEGA_OPTION(mega_generate_options, "inference-micro-batches", inference_micro_batches, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = MEGA_RUN_MICRO_BATCHES, .help = "parts of a --batch that pipeline stages work on at the same time"},
    {MEGA_OPTION(mega_generate_options, "interactive", interactive, MEGA_OPTION_FLAG), .commands = FOR_GENERATE, .help = "read prompts from standard input"},
};
const mega_option_section cli_generate_section = MEGA_SECTION("generation", generate_rows);

static const mega_option_row server_rows[] = {
    {MEGA_OPTION(mega_server_options, "host", host, MEGA_OPTION_STRING), .fallback = "127.0.0.1", .help = "IPv4 address to listen on; 0.0.0.0 is all of this machine"},
    {MEGA_OPTION(mega_server_options, "port", port, MEGA_OPTION_INT), .fallback = "5000", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 65535, .help = "port to listen on; 0 is any that is free"},
    {MEGA_OPTION(mega_server_options, "max-request-bytes", max_request_bytes, MEGA_OPTION_INT), .fallback = "1000000", .range = MEGA_RANGE_POSITIVE, .most = 1000000000, .help = "a larger request is refused with status 413"},
    {MEGA_OPTION(mega_server_options, "max-request-seconds", max_request_seconds, MEGA_OPTION_INT), .fallback = "60", .range = MEGA_RANGE_POSITIVE, .most = 1000000, .help = "a request that takes longer is given up with status 503"},
    {MEGA_OPTION(mega_server_options, "max-receive-seconds", max_receive_seconds, MEGA_OPTION_INT), .fallback = "60", .range = MEGA_RANGE_POSITIVE, .most = 1000000, .help = "a request that has not arrived so long after its first byte is dropped with its connection"},
    {MEGA_OPTION(mega_server_options, "min-receive-rate", min_receive_rate, MEGA_OPTION_INT), .fallback = "100", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1000000000, .help = "a request that arrives with fewer bytes a second, not counting its first 5 seconds, is dropped with its connection"},
    {MEGA_OPTION(mega_server_options, "max-waiting-requests", max_waiting_requests, MEGA_OPTION_INT), .fallback = "256", .range = MEGA_RANGE_POSITIVE, .most = 1000000, .help = "most requests that may wait; further ones are refused with status 503"},
};
const mega_option_section cli_server_section = MEGA_SECTION("server", server_rows);

static const mega_option_row tasks_rows[] = {
    {MEGA_OPTION(mega_tasks_options, "input-format", input_format, MEGA_OPTION_CHOICE), .fallback = "auto", .choices = "auto|jsonl|text", .help = "JSON lines or plain text; auto looks at the content"},
    {MEGA_OPTION(mega_tasks_options, "json-key", json_key, MEGA_OPTION_STRING), .fallback = "text", .help = "key of the JSON lines whose text is read"},
    {MEGA_OPTION(mega_tasks_options, "overlapping-eval", overlapping_eval, MEGA_OPTION_INT), .fallback = "32", .range = MEGA_RANGE_POSITIVE, .help = "tokens by which the window moves on"},
    {MEGA_OPTION(mega_tasks_options, "strict-lambada", strict_lambada, MEGA_OPTION_FLAG), .help = "LAMBADA: all tokens of the last word must be right"},
};
const mega_option_section cli_tasks_section = MEGA_SECTION("evaluation", tasks_rows);

static const mega_option_row merge_rows[] = {
    {MEGA_OPTION(mega_merge_options, "model-type", model_type, MEGA_OPTION_STRING), .choices = "GPT|BERT|T5" MEGA_LABELLED_TASKS(MEGA_LABELLED_CHOICE), .help = "what the checkpoint must hold: a decoder (GPT), an encoder with a decoder (T5), or an encoder"},
    {MEGA_OPTION(mega_merge_options, "target-pipeline-model-parallel-size", target_pipeline_model_parallel_size, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .help = "pipeline stages that will load it: at most one for each layer; what is written is the same for all"},
};
const mega_option_section cli_merge_section = MEGA_SECTION("merging", merge_rows);

static const mega_option_row embed_rows[] = {
    {MEGA_OPTION(mega_embed_options, "input", input, MEGA_OPTION_STRING), .help = "file with a text a line"},
    {MEGA_OPTION(mega_embed_options, "output", output, MEGA_OPTION_STRING), .commands = FOR_EMBED, .help = "FILE.npy, float32 [texts, hidden size]"},
    {MEGA_OPTION(mega_embed_options, "text", text, MEGA_OPTION_APPEND), .commands = FOR_FILL, .help = "text with the model's mask, [MASK] or <mask>, once or several times; may be given several times"},
    {MEGA_OPTION(mega_embed_options, "top_k", top_k, MEGA_OPTION_INT), .commands = FOR_FILL, .fallback = "5", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "tokens of each mask, the most probable first"},
    {MEGA_OPTION(mega_embed_options, "targets", targets, MEGA_OPTION_LIST), .commands = FOR_FILL, .help = "consider these tokens alone; their probabilities are those among all tokens"},
};
const mega_option_section cli_embed_section = MEGA_SECTION("embedding", embed_rows);

static const mega_option_row data_rows[] = {
    {MEGA_OPTION(mega_data_command_options, "num-documents", num_documents, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: documents printed"},
    {MEGA_OPTION(mega_data_command_options, "num-samples", num_samples, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: samples printed as the model sees them"},
    {MEGA_OPTION(mega_data_command_options, "first", first, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "show: number of the first document or sample"},
    {MEGA_OPTION(mega_data_command_options, "input", input, MEGA_OPTION_LIST), .help = "merge: prefixes, or one folder of pairs"},
    {MEGA_OPTION(mega_data_command_options, "output-prefix", output_prefix, MEGA_OPTION_STRING), .help = "merge: prefix of the new pair"},
};
const mega_option_section cli_data_section = MEGA_SECTION("data sets", data_rows);

static const mega_option_row plot_rows[] = {
    {MEGA_OPTION(mega_plot_options, "key", key, MEGA_OPTION_LIST), .fallback = "lm_loss", .help = "keys of the metrics files to draw"},
    {MEGA_OPTION(mega_plot_options, "x", x, MEGA_OPTION_STRING), .fallback = "iteration", .help = "key of the horizontal axis"},
    {MEGA_OPTION(mega_plot_options, "run", run, MEGA_OPTION_STRING), .help = "id of the run to draw, of a file that holds several; the last one when not given"},
    {MEGA_OPTION(mega_plot_options, "svg", svg, MEGA_OPTION_STRING), .help = "write an SVG file too"},
    {MEGA_OPTION(mega_plot_options, "smooth", smooth, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_BELOW_ONE, .help = "factor of a running mean"},
    {MEGA_OPTION(mega_plot_options, "width", width, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "characters; 0 is the terminal's"},
    {MEGA_OPTION(mega_plot_options, "height", height, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "lines; 0 is the terminal's"},
    {MEGA_OPTION(mega_plot_options, "log-x", log_x, MEGA_OPTION_FLAG), .help = "logarithmic horizontal axis"},
    {MEGA_OPTION(mega_plot_options, "log-y", log_y, MEGA_OPTION_FLAG), .help = "logarithmic vertical axis"},
};
const mega_option_section cli_plot_section = MEGA_SECTION("plot", plot_rows);

static const mega_option_row report_rows[] = {
    {MEGA_OPTION(mega_report_options, "output", output, MEGA_OPTION_STRING), .fallback = "report.html", .help = "the HTML file to write; also -o"},
    {MEGA_OPTION(mega_report_options, "run", run, MEGA_OPTION_STRING), .help = "id of the run to show, of a metrics file that holds several; the last one when not given"},
};
const mega_option_section cli_report_section = MEGA_SECTION("report", report_rows);

static const mega_option_row config_rows[] = {
    {MEGA_OPTION(mega_config_options, "config-file", config_file, MEGA_OPTION_STRING), .value = "FILE", .help = "the file to write, a YAML or, named .json, a JSON; default: where Accelerate has it, ~/.cache/huggingface/accelerate/default_config.yaml"},
    {MEGA_OPTION(mega_config_options, "full", full, MEGA_OPTION_FLAG), .help = "ask all questions of today's accelerate, not the fewer ones of its guide to Megatron-LM"},
    {MEGA_OPTION(mega_config_options, "default", is_default, MEGA_OPTION_FLAG), .help = "ask nothing: one process on this machine; also the word default"},
    {MEGA_OPTION(mega_config_options, "mixed-precision", mixed_precision, MEGA_OPTION_STRING), .fallback = "no", .choices = "no|fp16|bf16", .help = "with --default"},
};
const mega_option_section cli_config_section = MEGA_SECTION("configuration", config_rows);

static const mega_option_row new_rows[] = {
    {MEGA_OPTION(mega_project_options, "text", text, MEGA_OPTION_STRING), .help = "text file to train on, to which the project gets a link, text.txt"},
};
const mega_option_section cli_new_section = MEGA_SECTION("new", new_rows);

static const mega_option_row logging_rows[] = {
    {MEGA_OPTION(mega_command_options, "log-level", log_level, MEGA_OPTION_CHOICE), .fallback = "info", .choices = "error|warning|info|debug|trace", .alike = MEGA_ALIKE_NOT_NEEDED, .help = "lines less urgent than this are not shown"},
};
const mega_option_section cli_logging_section = MEGA_SECTION("logging", logging_rows);
// clang-format on
