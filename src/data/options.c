/* The options of this room: data sets. */
#include "megalith/data_options.h"
#include "megalith/gpt_data.h"
#include <stdlib.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_data_options, name, field, kind)

// clang-format off
static const mega_option_row paths_rows[] = {
    {ROW("data-path", data_path, MEGA_OPTION_LIST), .help = "prefix of an indexed data set (PREFIX.bin and PREFIX.idx), or WEIGHT PREFIX WEIGHT PREFIX …, or several that are mixed by their sizes"},
    {ROW("data-path2", data_path2, MEGA_OPTION_LIST), .help = "data of the validation: the second part of --split 98,2,0 of it, in place of that of --data-path"},
    {ROW("train-data-path", train_data_path, MEGA_OPTION_LIST), .help = "data of the training alone, instead of --data-path"},
    {ROW("valid-data-path", valid_data_path, MEGA_OPTION_LIST), .help = "data of the validation alone"},
    {ROW("test-data-path", test_data_path, MEGA_OPTION_LIST), .help = "data of the test alone"},
    {ROW("data-cache-path", data_cache_path, MEGA_OPTION_STRING), .alike = MEGA_ALIKE_NOT_NEEDED, .help = "folder for index arrays; beside the data when not given"},
};
const mega_option_section mega_data_paths_section = MEGA_SECTION("data and tokenizer", paths_rows);

static const mega_option_row samples_rows[] = {
    {ROW("split", split, MEGA_OPTION_STRING), .fallback = "969, 30, 1", .help = "parts for training, validation, test"},
    {ROW("reset-position-ids", reset_position_ids, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "positions start at 0 again after an end of document"},
    {ROW("reset-attention-mask", reset_attention_mask, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "attention does not look back over an end of document"},
    {ROW("eod-mask-loss", eod_mask_loss, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "no loss where the input is the end of a document"},
};
const mega_option_section mega_data_samples_section = MEGA_SECTION("data and tokenizer", samples_rows);
// clang-format on

bool mega_blend_is_by_size(const char *const *args, int n)
{
    for (int i = 0; i < n; i += n % 2 != 0 ? 1 : 2) {
        char *end;
        (void)strtod(args[i], &end);
        if (end != args[i] && *end == '\0') return false;
    }
    return n > 1;
}
