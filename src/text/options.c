/* The options of this room: the tokenizer. */
#include "megalith/text_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_text_options, name, field, kind)

// clang-format off
static const mega_option_row type_rows[] = {
    {ROW("tokenizer-type", tokenizer_type, MEGA_OPTION_STRING), .fallback = "GPT2BPETokenizer", .choices = "GPT2BPETokenizer|ByteTokenizer|CharTokenizer|NullTokenizer|HuggingFaceTokenizer|HFTokenizer|PretrainedFromHF|SentencePieceTokenizer|GPTSentencePieceTokenizer|Llama2Tokenizer|TikTokenizer|BertWordPieceLowerCase|BertWordPieceCase", .help = "how text becomes ids"},
};
const mega_option_section mega_text_type_section = MEGA_SECTION("data and tokenizer", type_rows);

static const mega_option_row files_rows[] = {
    {ROW("vocab-file", vocab_file, MEGA_OPTION_STRING), .help = "vocab.json, or a tokenizer.json, or the characters of a CharTokenizer, or BERT's vocab.txt"},
    {ROW("merge-file", merge_file, MEGA_OPTION_STRING), .help = "merges.txt of the byte-level BPE"},
    {ROW("vocab-size", vocab_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ids of a NullTokenizer or TikTokenizer"},
    {ROW("tokenizer-model", tokenizer_model, MEGA_OPTION_STRING), .help = "the folder of a HuggingFaceTokenizer, the .model of a SentencePiece tokenizer, the JSON of a TikTokenizer"},
    {ROW("vocab-extra-ids", vocab_extra_ids, MEGA_OPTION_INT), .range = MEGA_RANGE_NOT_NEGATIVE, .most = MEGA_TOKENIZER_EXTRA_IDS, .help = "tokens <extra_id_0> and so on, which a SentencePieceTokenizer or BertWordPiece* appends"},
    {ROW("tiktoken-pattern", tiktoken_pattern, MEGA_OPTION_STRING), .choices = "v1|v2", .help = "how a TikTokenizer splits text into words; v2 when not given"},
    {ROW("tiktoken-num-special-tokens", tiktoken_special, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .fallback = "1000", .help = "the first ids of a TikTokenizer"},
};
const mega_option_section mega_text_files_section = MEGA_SECTION("data and tokenizer", files_rows);
// clang-format on
