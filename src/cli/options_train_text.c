/* --train-data FILE of 2019: a text or JSON lines instead of a data set. Its tokens are kept in a data set beside the
 * file (or under --data-cache-path), which the next run of the same file and tokenizer finds. This file names it. */
#include "megalith/file.h"
#include "megalith/hash.h"
#include "train_text.h"
#include <string.h>
#include <sys/stat.h>

static bool pair_exists(mega_options *o, const char *prefix)
{
    return mega_file_exists(mega_options_text(o, "%s.bin", prefix)) &&
           mega_file_exists(mega_options_text(o, "%s.idx", prefix));
}

/* Returns the file that the name means: itself, or that of a data set of 2019 (webtext, wikipedia); NULL: none. */
static const char *option_words(mega_options *o, const char *name)
{
    const size_t n = strlen(name);
    if (n > 4 && (strcmp(name + n - 4, ".bin") == 0 || strcmp(name + n - 4, ".idx") == 0)) return NULL;
    if (mega_file_exists(name)) return name;
    if (strchr(name, '/') != NULL) return NULL;
    const char *named = mega_options_text(o, "data/%s/data.json", name);
    return mega_file_exists(named) ? named : NULL;
}

/* Continues a hash with what tells one state of a file from another, without reading it. */
static uint64_t text_options_hash_file(uint64_t hash, const char *path)
{
    struct stat of = {0};
    if (path == NULL || stat(path, &of) != 0) return hash;
    const int64_t state[] = {(int64_t)of.st_size, (int64_t)of.st_mtim.tv_sec, (int64_t)of.st_mtim.tv_nsec};
    return mega_hash64(hash, state, sizeof state);
}

/* Returns the prefix under which preprocess_data would write the tokens, without the key. */
static const char *prefix_of(mega_command_options *cfg, const char *file)
{
    mega_options *o = cfg->train.engine.options;
    const mega_text_options *t = &cfg->train.text;
    const char *slash = strrchr(file, '/'), *folder = cfg->train.data.data_cache_path;
    uint64_t hash = text_options_hash_file(MEGA_HASH_START, file);
    hash = mega_hash64(hash, t->tokenizer_type, strlen(t->tokenizer_type));
    hash = mega_hash64(hash, &t->vocab_size, sizeof t->vocab_size);
    hash = text_options_hash_file(text_options_hash_file(hash, t->vocab_file), t->merge_file);
    if (t->tokenizer_model != NULL)
        hash = text_options_hash_file(mega_hash64(hash, t->tokenizer_model, strlen(t->tokenizer_model)),
                                      t->tokenizer_model);
    if (folder == NULL) folder = slash != NULL ? mega_options_text(o, "%.*s", (int)(slash - file), file) : ".";
    return mega_options_text(o, "%s/%s-%08x", folder, slash != NULL ? slash + 1 : file, (unsigned)(hash & 0xffffffff));
}

void cli_train_text_name(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    mega_data_options *d = &cfg->train.data;
    const bool is_alone = d->train_data_path.count == 1 && d->data_path.count == 0 && d->valid_data_path.count == 0 &&
                          d->test_data_path.count == 0;
    if (!is_alone || cfg->train_text.file != NULL || pair_exists(o, d->train_data_path.item[0])) return;
    const char *file = option_words(o, d->train_data_path.item[0]);
    if (file == NULL) return;
    cfg->train_text.file = file;
    cfg->train_text.prefix = prefix_of(cfg, file);
    cfg->train.made_data_path = mega_options_text(o, "%s_" TRAIN_TEXT_KEY "_document", cfg->train_text.prefix);
    if (mega_options_set(o, "data_path", cfg->train.made_data_path, MEGA_SET_BY_DERIVATION) != MEGA_OK)
        mega_options_add_mistake(o, MEGA_ERR_MEMORY);
    d->train_data_path = (mega_list){0};
}

bool cli_train_text_is_made(const mega_command_options *cfg)
{
    return pair_exists(cfg->train.engine.options, cfg->train.made_data_path);
}
