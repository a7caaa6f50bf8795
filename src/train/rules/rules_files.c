/* Rules about input files: they must exist before anything is started. */
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "train_rules.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mega_train_rule_split(mega_train_options *cfg)
{
    if (cfg->data.split == NULL) return;
    double sum = 0;
    int parts = 0;
    const char *at = cfg->data.split;
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
    mega_options_mistake(
        cfg->engine.options,
        "%s: expected up to three parts that are not negative, for training, validation and test, as in 969,30,1",
        mega_options_origin(cfg->engine.options, "split"));
}

static bool data_pair_exists(mega_train_options *cfg, const char *prefix)
{
    const char *bin = mega_options_text(cfg->engine.options, "%s.bin", prefix);
    const char *idx = mega_options_text(cfg->engine.options, "%s.idx", prefix);
    return mega_file_exists(bin) && mega_file_exists(idx);
}

/* Reports a path that this user may not access as such, not as missing. Returns whether that is the case. */
bool mega_train_is_hidden(mega_train_options *cfg, const char *option, const char *path)
{
    const mega_status st = mega_path_check_access(path);
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s %s", option, mega_error_message());
    return st != MEGA_OK;
}

/* For a missing pair of files, finds an existing pair whose name begins with the prefix: preprocess_data appends the
 * JSON key and "_document" or "_sentence". Returns NULL if there is none. */
static const char *pair_beside(mega_train_options *cfg, const char *prefix)
{
    char *found = NULL;
    const mega_status st = mega_path_complete(&found, prefix, ".idx");
    if (st != MEGA_OK) mega_options_problem(cfg->engine.options, st, "%s", mega_error_message());
    const char *pair = found != NULL ? mega_options_text(cfg->engine.options, "%s", found) : NULL;
    mega_free(found);
    return pair != NULL && data_pair_exists(cfg, pair) ? pair : NULL;
}

/* Returns where else a text of --train-data would have been found, for the error about its pair. */
static const char *nor_a_text(mega_train_options *cfg, const char *option, const char *name)
{
    mega_options *o = cfg->engine.options;
    if (strcmp(option, "--train-data-path") != 0) return "";
    if (strchr(name, '/') != NULL) return mega_options_text(o, ", nor is %s a text", name);
    return mega_options_text(o, ", nor is %s a text, nor is data/%s/data.json there", name, name);
}

/* Checks a prefix; if its pair of files is missing, reports what exists instead. */
static void check_prefix(mega_train_options *cfg, const char *option, const char *prefix)
{
    if (data_pair_exists(cfg, prefix) || prefix == cfg->made_data_path ||
        (cfg->made_data_path != NULL && strcmp(prefix, cfg->made_data_path) == 0))
        return;
    const size_t n = strlen(prefix);
    const char *shorter = n > 4 ? mega_options_text(cfg->engine.options, "%.*s", (int)(n - 4), prefix) : NULL;
    const char *text = mega_options_text(cfg->engine.options, "%s_text_document", prefix);
    const char *longer = data_pair_exists(cfg, text) ? text : pair_beside(cfg, prefix);
    const char *bin = mega_options_text(cfg->engine.options, "%s.bin", prefix);
    const char *idx = mega_options_text(cfg->engine.options, "%s.idx", prefix);
    if (mega_train_is_hidden(cfg, option, bin) || mega_train_is_hidden(cfg, option, idx)) return;
    if (shorter != NULL && (strcmp(prefix + n - 4, ".bin") == 0 || strcmp(prefix + n - 4, ".idx") == 0) &&
        data_pair_exists(cfg, shorter)) {
        mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND, "%s %s: a prefix is wanted, without %s; use %s",
                             option, prefix, prefix + n - 4, shorter);
    } else if (longer != NULL) {
        mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                             "%s %s: there is no %s, but there is %s.bin; use %s", option, prefix, bin, longer, longer);
    } else {
        const bool has_bin = mega_file_exists(bin), has_idx = mega_file_exists(idx);
        mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND,
                             "%s %s: %s%s%s not there%s; megalith preprocess_data makes this pair", option, prefix,
                             has_bin ? "" : bin, has_bin || has_idx ? "" : " and ",
                             has_idx ? " is"
                                     : mega_options_text(cfg->engine.options, "%s %s", idx, has_bin ? "is" : "are"),
                             nor_a_text(cfg, option, prefix));
    }
}

/* Checks "PREFIX", "PREFIX PREFIX …" or "WEIGHT PREFIX WEIGHT PREFIX …". */
static void check_blend(mega_train_options *cfg, const char *option, const mega_list *list)
{
    if (list->count == 1) check_prefix(cfg, option, list->item[0]);
    if (list->count < 2) return;
    if (mega_blend_is_by_size(list->item, (int)list->count)) {
        for (size_t i = 0; i < list->count; i++) check_prefix(cfg, option, list->item[i]);
        return;
    }
    if (list->count % 2 != 0) {
        mega_options_mistake(
            cfg->engine.options,
            "%s: %zu values; expected one prefix, or WEIGHT PREFIX in pairs, as in 0.7 A 0.3 B, or prefixes alone",
            option, list->count);
        return;
    }
    for (size_t i = 0; i < list->count; i += 2) {
        double weight;
        if (!mega_value_float(list->item[i], &weight) || weight <= 0) {
            mega_options_mistake(cfg->engine.options, "%s: \"%s\" is in the place of a weight for %s, a number above 0",
                                 option, list->item[i], list->item[i + 1]);
        }
        check_prefix(cfg, option, list->item[i + 1]);
    }
}

void mega_train_rule_data_paths(mega_train_options *cfg)
{
    if (train_is(cfg, "run_clm") || mega_train_classifies(cfg)) return; /* which refuse these options */
    const bool own = cfg->data.train_data_path.count > 0 || cfg->data.valid_data_path.count > 0 ||
                     cfg->data.test_data_path.count > 0;
    if (cfg->data.data_path.count > 0 && own) {
        mega_options_mistake(
            cfg->engine.options,
            "--data-path is split by --split, and --train-data-path, --valid-data-path, --test-data-path come "
            "instead of it; give one or the other");
    }
    if (cfg->data.data_path2.count > 0 && cfg->data.data_path.count == 0)
        mega_options_mistake(cfg->engine.options,
                             "--data-path2 is the validation beside --data-path, which is missing; beside "
                             "--train-data-path it is --valid-data-path");
    const bool needed = train_is_pretraining(cfg);
    if (needed && cfg->data.data_path.count == 0 && !own) {
        mega_options_mistake(cfg->engine.options, "missing: --data-path PREFIX, made by megalith preprocess_data%s",
                             train_is(cfg, "pretrain_gpt") ? "" : " --split-sentences");
    }
    check_blend(cfg, "--data-path", &cfg->data.data_path);
    check_blend(cfg, "--data-path2", &cfg->data.data_path2);
    check_blend(cfg, "--train-data-path", &cfg->data.train_data_path);
    check_blend(cfg, "--valid-data-path", &cfg->data.valid_data_path);
    check_blend(cfg, "--test-data-path", &cfg->data.test_data_path);
}

void mega_train_check_file(mega_train_options *cfg, const char *option, const char *path, const char *what)
{
    if (path == NULL || mega_train_is_hidden(cfg, option, path) || mega_file_exists(path)) return;
    mega_options_problem(cfg->engine.options, MEGA_ERR_NOT_FOUND, "%s %s: %s; expected %s", option, path,
                         mega_folder_exists(path) ? "it is a folder"
                         : mega_file_is_annexed(path)
                             ? "it is a link of git-annex, and the file itself is not here (git annex get)"
                             : "there is no such file",
                         what);
}

/* A tokenizer that is a folder or one file. The folder of --load may contain it. */
static void check_tokenizer_model(mega_train_options *cfg)
{
    const char *model = cfg->text.tokenizer_model;
    if (model == NULL && cfg->load == NULL && !train_is(cfg, "plan"))
        mega_options_mistake(cfg->engine.options, "missing: --tokenizer-model PATH, the folder or file of a %s",
                             cfg->text.tokenizer_type);
    if (model != NULL && !mega_folder_exists(model))
        mega_train_check_file(cfg, "--tokenizer-model", model, "the folder or file of a tokenizer");
}

/* Checks the tokenizer files. A plan may describe only a network, so it does not require them. */
void mega_train_rule_tokenizer_files(mega_train_options *cfg)
{
    const char *type = cfg->text.tokenizer_type;
    const bool is_plan = train_is(cfg, "plan");
    if (strcmp(type, "NullTokenizer") == 0 && cfg->text.vocab_size <= 0) {
        mega_options_mistake(cfg->engine.options, "missing: --vocab-size N, the ids of a NullTokenizer");
    }
    if (strcmp(type, "CharTokenizer") == 0 && cfg->text.vocab_file == NULL) {
        mega_options_mistake(cfg->engine.options,
                             "missing: --vocab-file FILE, the characters of a CharTokenizer; train_tokenizer "
                             "writes it, and preprocess_data where it is not there yet");
    }
    if (strcmp(type, "CharTokenizer") == 0 && !train_is(cfg, "preprocess_data")) {
        mega_train_check_file(cfg, "--vocab-file", cfg->text.vocab_file, "the characters of a CharTokenizer");
    }
    if (mega_tokenizer_needs_model(type)) {
        check_tokenizer_model(cfg);
        return;
    }
    if (strncmp(type, "BertWordPiece", 13) == 0) {
        if (cfg->text.vocab_file == NULL && cfg->load == NULL && !is_plan)
            mega_options_mistake(cfg->engine.options, "missing: --vocab-file vocab.txt, the tokens of a %s, one a line",
                                 type);
        mega_train_check_file(cfg, "--vocab-file", cfg->text.vocab_file, "the vocab.txt of BERT");
        return;
    }
    if (strcmp(type, "GPT2BPETokenizer") != 0 || cfg->clm.tokenizer_folder != NULL) return;
    /* the folder of --load may contain a tokenizer */
    if (cfg->text.vocab_file == NULL) {
        if (cfg->load == NULL && train_is(cfg, "run_clm")) {
            if (cfg->clm.tokenizer_name == NULL)
                mega_options_mistake(cfg->engine.options,
                                     "missing: --tokenizer_name FOLDER; megalith train_tokenizer makes one");
            else
                mega_options_set_faulty(cfg->engine.options,
                                        MEGA_TOPIC_TOKENIZER); /* reported where it was looked for */
        } else if (cfg->load == NULL && !is_plan) {
            mega_options_mistake(cfg->engine.options,
                                 "missing: --vocab-file vocab.json with --merge-file merges.txt, or --vocab-file "
                                 "tokenizer.json; megalith train_tokenizer makes them");
        }
        return;
    }
    mega_train_check_file(cfg, "--vocab-file", cfg->text.vocab_file, "vocab.json or tokenizer.json");
    mega_train_check_file(cfg, "--merge-file", cfg->text.merge_file, "merges.txt");
    if (cfg->text.merge_file == NULL && mega_path_ends_with(cfg->text.vocab_file, "vocab.json")) {
        mega_options_mistake(cfg->engine.options,
                             "missing: --merge-file merges.txt, which belongs to %s (a tokenizer.json needs none)",
                             mega_options_origin(cfg->engine.options, "vocab_file"));
    }
}
