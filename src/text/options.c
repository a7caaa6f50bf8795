/* The options of this room: the tokenizer. */
#include "megalith/text_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_text_options, name, field, kind)

// clang-format off
static const mega_option_row type_rows[] = {
    {ROW("tokenizer-type", tokenizer_type, MEGA_OPTION_STRING), .fallback = "GPT2BPETokenizer", .choices = "GPT2BPETokenizer|ByteTokenizer|CharTokenizer|NullTokenizer", .not_implemented = "BertWordPieceLowerCase|BertWordPieceCase|SentencePieceTokenizer|GPTSentencePieceTokenizer|Llama2Tokenizer|HFTokenizer|HuggingFaceTokenizer|TikTokenizer|PretrainedFromHF", .help = "how text becomes ids"},
};
const mega_option_section mega_text_type_section = MEGA_SECTION("data and tokenizer", type_rows);

static const mega_option_row files_rows[] = {
    {ROW("vocab-file", vocab_file, MEGA_OPTION_STRING), .help = "vocab.json, or a tokenizer.json, or the characters of a CharTokenizer"},
    {ROW("merge-file", merge_file, MEGA_OPTION_STRING), .help = "merges.txt of the byte-level BPE"},
    {ROW("vocab-size", vocab_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "ids of a NullTokenizer"},
};
const mega_option_section mega_text_files_section = MEGA_SECTION("data and tokenizer", files_rows);
// clang-format on
