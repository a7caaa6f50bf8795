/* Rules about files: that they are there, before anything is started. */
#include "megalith/file.h"
#include "program_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mega_rule_split(mega_config *cfg)
{
    if (cfg->split == NULL) return;
    double sum = 0;
    int parts = 0;
    const char *at = cfg->split;
    while (*at != '\0') {
        char *end = NULL;
        const double x = strtod(at, &end);
        if (end == at || !isfinite(x) || x < 0) break;
        sum += x;
        parts++;
        at = end + strspn(end, " ");
        if (*at != ',' && *at != '/') break;
        at++;
    }
    if (*at == '\0' && parts >= 1 && parts <= 3 && sum > 0) return;
    mega_config_problem(
        cfg, MEGA_ERR_USAGE,
        "%s: expected up to three parts that are not negative, for training, validation and test, as in 969,30,1",
        mega_config_origin(cfg, "split"));
}

static bool pair_exists(mega_config *cfg, const char *prefix)
{
    const char *bin = mega_config_text(cfg, "%s.bin", prefix);
    const char *idx = mega_config_text(cfg, "%s.idx", prefix);
    return mega_file_exists(bin) && mega_file_exists(idx);
}

/* What this user may not look at is not "not there". */
static bool is_hidden(mega_config *cfg, const char *option, const char *path)
{
    const mega_status st = mega_path_check_access(path);
    if (st != MEGA_OK) mega_config_problem(cfg, st, "%s %s", option, mega_error_message());
    return st != MEGA_OK;
}

/* Another pair beside a missing one whose name begins with it: preprocess_data adds the key of the JSON lines and
 * "_document", or "_sentence". NULL when there is none. */
static const char *pair_beside(mega_config *cfg, const char *prefix)
{
    char *found = NULL;
    const mega_status st = mega_path_complete(&found, prefix, ".idx");
    if (st != MEGA_OK) mega_config_problem(cfg, st, "%s", mega_error_message());
    const char *pair = found != NULL ? mega_config_text(cfg, "%s", found) : NULL;
    mega_free(found);
    return pair != NULL && pair_exists(cfg, pair) ? pair : NULL;
}

/* A prefix whose pair of files is missing: says what is there instead. */
static void check_prefix(mega_config *cfg, const char *option, const char *prefix)
{
    if (pair_exists(cfg, prefix)) return;
    const size_t n = strlen(prefix);
    const char *shorter = n > 4 ? mega_config_text(cfg, "%.*s", (int)(n - 4), prefix) : NULL;
    const char *text = mega_config_text(cfg, "%s_text_document", prefix);
    const char *longer = pair_exists(cfg, text) ? text : pair_beside(cfg, prefix);
    const char *bin = mega_config_text(cfg, "%s.bin", prefix);
    const char *idx = mega_config_text(cfg, "%s.idx", prefix);
    if (is_hidden(cfg, option, bin) || is_hidden(cfg, option, idx)) return;
    if (shorter != NULL && (strcmp(prefix + n - 4, ".bin") == 0 || strcmp(prefix + n - 4, ".idx") == 0) &&
        pair_exists(cfg, shorter)) {
        mega_config_problem(cfg, MEGA_ERR_NOT_FOUND, "%s %s: a prefix is wanted, without %s; use %s", option, prefix,
                            prefix + n - 4, shorter);
    } else if (longer != NULL) {
        mega_config_problem(cfg, MEGA_ERR_NOT_FOUND, "%s %s: there is no %s, but there is %s.bin; use %s", option,
                            prefix, bin, longer, longer);
    } else {
        const bool has_bin = mega_file_exists(bin), has_idx = mega_file_exists(idx);
        mega_config_problem(cfg, MEGA_ERR_NOT_FOUND,
                            "%s %s: %s%s%s not there; megalith preprocess_data makes this pair", option, prefix,
                            has_bin ? "" : bin, has_bin || has_idx ? "" : " and ",
                            has_idx ? " is" : mega_config_text(cfg, "%s %s", idx, has_bin ? "is" : "are"));
    }
}

/* "PREFIX" or "WEIGHT PREFIX WEIGHT PREFIX …". */
static void check_blend(mega_config *cfg, const char *option, const mega_list *list)
{
    if (list->count == 1) check_prefix(cfg, option, list->item[0]);
    if (list->count < 2) return;
    if (list->count % 2 != 0) {
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "%s: %zu values; expected one prefix, or WEIGHT PREFIX in pairs, as in 0.7 A 0.3 B", option,
                            list->count);
        return;
    }
    for (size_t i = 0; i < list->count; i += 2) {
        double weight;
        if (!mega_value_float(list->item[i], &weight) || weight <= 0) {
            mega_config_problem(cfg, MEGA_ERR_USAGE, "%s: \"%s\" is in the place of a weight for %s, a number above 0",
                                option, list->item[i], list->item[i + 1]);
        }
        check_prefix(cfg, option, list->item[i + 1]);
    }
}

void mega_rule_data_paths(mega_config *cfg)
{
    const bool own = cfg->train_data_path.count > 0 || cfg->valid_data_path.count > 0 || cfg->test_data_path.count > 0;
    if (cfg->data_path.count > 0 && own) {
        mega_config_problem(
            cfg, MEGA_ERR_USAGE,
            "--data-path is split by --split, and --train-data-path, --valid-data-path, --test-data-path come "
            "instead of it; give one or the other");
    }
    const bool needed = cfg->state->command->bit == FOR_PRETRAIN;
    if (needed && cfg->data_path.count == 0 && !own) {
        mega_config_problem(cfg, MEGA_ERR_USAGE, "missing: --data-path PREFIX, made by megalith preprocess_data");
    }
    check_blend(cfg, "--data-path", &cfg->data_path);
    check_blend(cfg, "--train-data-path", &cfg->train_data_path);
    check_blend(cfg, "--valid-data-path", &cfg->valid_data_path);
    check_blend(cfg, "--test-data-path", &cfg->test_data_path);
}

static void check_file(mega_config *cfg, const char *option, const char *path, const char *what)
{
    if (path == NULL || is_hidden(cfg, option, path) || mega_file_exists(path)) return;
    mega_config_problem(cfg, MEGA_ERR_NOT_FOUND, "%s %s: %s; expected %s", option, path,
                        mega_folder_exists(path) ? "it is a folder" : "there is no such file", what);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A plan may be of a network alone: what it does not name is not missing. */
void mega_rule_tokenizer_files(mega_config *cfg)
{
    const char *type = cfg->tokenizer_type;
    const bool is_plan = cfg->state->command->bit == FOR_PLAN;
    if (strcmp(type, "NullTokenizer") == 0 && cfg->vocab_size <= 0) {
        mega_config_problem(cfg, MEGA_ERR_USAGE, "missing: --vocab-size N, the ids of a NullTokenizer");
    }
    if (strcmp(type, "CharTokenizer") == 0 && cfg->vocab_file == NULL) {
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "missing: --vocab-file FILE, the characters of a CharTokenizer; train_tokenizer "
                            "writes it, and preprocess_data where it is not there yet");
    }
    if (strcmp(type, "CharTokenizer") == 0 && cfg->state->command->bit != FOR_PREPROCESS) {
        check_file(cfg, "--vocab-file", cfg->vocab_file, "the characters of a CharTokenizer");
    }
    if (strcmp(type, "GPT2BPETokenizer") != 0) return;
    /* a folder given by --load may bring its tokenizer along */
    if (cfg->vocab_file == NULL) {
        if (cfg->load == NULL && !is_plan) {
            mega_config_problem(cfg, MEGA_ERR_USAGE,
                                "missing: --vocab-file vocab.json with --merge-file merges.txt, or --vocab-file "
                                "tokenizer.json; megalith train_tokenizer makes them");
        }
        return;
    }
    check_file(cfg, "--vocab-file", cfg->vocab_file, "vocab.json or tokenizer.json");
    check_file(cfg, "--merge-file", cfg->merge_file, "merges.txt");
    if (cfg->merge_file == NULL && ends_with(cfg->vocab_file, "vocab.json")) {
        mega_config_problem(cfg, MEGA_ERR_USAGE,
                            "missing: --merge-file merges.txt, which belongs to %s (a tokenizer.json needs none)",
                            mega_config_origin(cfg, "vocab_file"));
    }
}

/* Opening a file to write empties it: prompts would be gone before the first is read, answers beneath other answers. */
static void check_outputs(mega_config *cfg)
{
    const struct {
        const char *dest, *path;
        bool read;
    } file[] = {{"sample_input_file", cfg->generate.sample_input_file, true},
                {"sample_output_file", cfg->generate.sample_output_file, false},
                {"genfile", cfg->generate.genfile, false}};
    for (size_t a = 0; a < 3; a++) {
        for (size_t b = a + 1; b < 3; b++) {
            if (file[a].path == NULL || file[b].path == NULL || !mega_file_same(file[a].path, file[b].path)) continue;
            mega_config_problem(cfg, MEGA_ERR_USAGE, "%s and %s are the same file, which %s; give another name",
                                mega_config_origin(cfg, file[a].dest), mega_config_origin(cfg, file[b].dest),
                                file[a].read ? "would be emptied before its prompts are read"
                                             : "both would write over each other");
        }
    }
}

void mega_rule_tokenize_input(mega_config *cfg)
{
    check_file(cfg, "--input", cfg->tokenize.input, "a text file");
}

/* A checkpoint to generate from or to evaluate, and the files that go with it. */
void mega_rule_reads(mega_config *cfg)
{
    if (cfg->load != NULL && !is_hidden(cfg, "--load", cfg->load) && !mega_folder_exists(cfg->load)) {
        const bool is_file = mega_file_exists(cfg->load);
        mega_buffer near = {0};
        if (!is_file) mega_config_put_near(&near, cfg->load);
        mega_config_problem(cfg, MEGA_ERR_NOT_FOUND,
                            "--load %s: %s%s; expected a folder of checkpoints, or a Hugging Face GPT-2 folder",
                            cfg->load, is_file ? "it is a file" : "there is no such folder",
                            near.data != NULL ? near.data : "");
        mega_buffer_fini(&near);
    }
    check_file(cfg, "--vocab-file", cfg->vocab_file, "vocab.json or tokenizer.json");
    check_file(cfg, "--merge-file", cfg->merge_file, "merges.txt");
    check_file(cfg, "--sample-input-file", cfg->generate.sample_input_file, "a file with one prompt a line");
    check_outputs(cfg);
    for (size_t i = 0; i < cfg->tasks.valid_data.count; i++) {
        check_file(cfg, "--valid-data", cfg->tasks.valid_data.item[i], "a text file");
    }
}
