/* Creates the tokenizer that options name, or that a folder holds. */
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json_cursor.h"
#include "megalith/log.h"
#include "megalith/text_options.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include <stdio.h>
#include <string.h>

static mega_status make_null(int64_t vocab_size, mega_tokenizer **out)
{
    if (vocab_size < 1 || vocab_size >= MEGA_MAX_VOCABULARY)
        return MEGA_MISTAKE("NullTokenizer: --vocab-size %lld; expected 1 to %d", (long long)vocab_size,
                            MEGA_MAX_VOCABULARY - 1);
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_tokenizer_begin(MEGA_KIND_NULL, "NullTokenizer", &t));
    t->eod = (int32_t)vocab_size;
    t->size = vocab_size + 1;
    const mega_status st = mega_tokenizer_finish(t);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

static mega_status create_bpe(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    if (o->vocab_file == NULL)
        return MEGA_MISTAKE(
            "GPT2BPETokenizer: --vocab-file is missing; give --vocab-file vocab.json --merge-file merges.txt, "
            "or --vocab-file tokenizer.json");
    bool is_json;
    MEGA_TRY(mega_tokenizer_is_json(&is_json, o->vocab_file));
    if (!is_json && o->merge_file == NULL)
        return MEGA_MISTAKE(
            "GPT2BPETokenizer: --merge-file is missing, and %s contains no merges; give the merges.txt that "
            "belongs to it",
            o->vocab_file);
    if (is_json && o->merge_file != NULL)
        return MEGA_MISTAKE(
            "GPT2BPETokenizer: --vocab-file %s is a tokenizer.json with merges of its own, but --merge-file %s "
            "is given too; drop --merge-file or give a vocab.json",
            o->vocab_file, o->merge_file);
    return is_json ? mega_tokenizer_read_json(o->vocab_file, out)
                   : mega_tokenizer_read_bpe(o->vocab_file, o->merge_file, out);
}

static mega_status create_char(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    if (o->vocab_file == NULL)
        return MEGA_MISTAKE("CharTokenizer: --vocab-file is missing; create one with: megalith train_tokenizer "
                            "--tokenizer-type CharTokenizer --input FILES --output FOLDER");
    bool is_json;
    MEGA_TRY(mega_tokenizer_is_json(&is_json, o->vocab_file));
    return is_json ? mega_tokenizer_read_json(o->vocab_file, out) : mega_tokenizer_read_char(o->vocab_file, out);
}

void mega_tokenizer_check_vocab_size(const mega_tokenizer *t, int64_t vocab_size)
{
    const int64_t used = t->kind == MEGA_KIND_NULL ? t->size - 1 : t->size;
    if (vocab_size == 0 || vocab_size == used) return;
    mega_warn("--vocab-size %lld has no effect: the %s has %lld ids; leave the option out", (long long)vocab_size,
              mega_tokenizer_type(t), (long long)used);
}

int64_t mega_tokenizer_extra_ids(const mega_tokenizer *t)
{
    char name[40];
    int64_t count = 0;
    while (mega_tokenizer_find(t, name, (size_t)snprintf(name, sizeof name, "<extra_id_%lld>", (long long)count)) >= 0)
        count++;
    return count;
}

static mega_status need_model(const mega_tokenizer_options *o, const char *what)
{
    if (o->model != NULL) return MEGA_OK;
    return MEGA_MISTAKE("%s: --tokenizer-model is missing; give %s", o->type, what);
}

static mega_status create_huggingface(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    MEGA_TRY(need_model(o, "the folder with the tokenizer.json, or its path"));
    MEGA_TRY(mega_tokenizer_load(o->model, out));
    (*out)->special_in_data = true;
    return MEGA_OK;
}

/* Reads the file of a BERT's vocabulary, or a SentencePiece model. */
static mega_status read_kind(const char *path, mega_tokenizer_kind kind, int64_t extra_ids, mega_tokenizer **out)
{
    const bool is_bert = kind == MEGA_KIND_BERT_LOWER || kind == MEGA_KIND_BERT_CASED;
    char *text;
    size_t size;
    MEGA_TRY(mega_file_read_kind(path, "a file of a tokenizer", is_bert ? 0 : MEGA_KIND_BINARY, &text, &size));
    const mega_status st = is_bert ? mega_tokenizer_read_bert_text(path, kind, extra_ids, &text, size, out)
                                   : mega_tokenizer_read_sentencepiece_text(path, kind, extra_ids, &text, size, out);
    mega_free(text);
    return st;
}

static mega_status create_kind(const mega_tokenizer_options *o, mega_tokenizer_kind kind, mega_tokenizer **out)
{
    mega_status st;
    switch (kind) {
    case MEGA_KIND_BPE:
        st = create_bpe(o, out);
        if (st == MEGA_ERR_FORMAT)
            MEGA_CONTEXT("GPT2BPETokenizer takes --vocab-file vocab.json with --merge-file merges.txt, or --vocab-file "
                         "tokenizer.json");
        return st;
    case MEGA_KIND_CHAR:
        st = create_char(o, out);
        if (st == MEGA_ERR_FORMAT)
            MEGA_CONTEXT(
                "CharTokenizer takes --vocab-file with a JSON list of characters, as train_tokenizer writes it");
        return st;
    case MEGA_KIND_BYTE: return mega_tokenizer_make_bytes(out);
    case MEGA_KIND_NULL: return make_null(o->vocab_size, out);
    case MEGA_KIND_HUGGINGFACE: return create_huggingface(o, out);
    case MEGA_KIND_SENTENCEPIECE:
    case MEGA_KIND_GPT_SENTENCEPIECE:
    case MEGA_KIND_LLAMA2:
        MEGA_TRY(need_model(o, "the SentencePiece model, a file that ends in .model"));
        return read_kind(o->model, kind, o->extra_ids, out);
    case MEGA_KIND_BERT_LOWER:
    case MEGA_KIND_BERT_CASED:
        if (o->vocab_file != NULL) return read_kind(o->vocab_file, kind, o->extra_ids, out);
        return MEGA_MISTAKE("%s: --vocab-file is missing; give the vocab.txt of BERT, one token a line", o->type);
    case MEGA_KIND_TIKTOKEN:
    case MEGA_KINDS: break;
    }
    MEGA_TRY(need_model(o, "the vocabulary, a JSON list with \"rank\" and \"token_bytes\""));
    return mega_tokenizer_read_tiktoken(o, out);
}

/* Finds the kind of a name. Three names mean a tokenizer of Hugging Face. */
static bool find_kind(const char *type, mega_tokenizer_kind *out)
{
    static const char *const huggingface[] = {"HFTokenizer", "PretrainedFromHF"};
    for (int kind = 0; kind < MEGA_KINDS; kind++) {
        *out = (mega_tokenizer_kind)kind;
        if (strcmp(type, mega_tokenizer_kind_name(*out)) == 0) return true;
    }
    *out = MEGA_KIND_HUGGINGFACE;
    return strcmp(type, huggingface[0]) == 0 || strcmp(type, huggingface[1]) == 0;
}

bool mega_tokenizer_needs_model(const char *type)
{
    mega_tokenizer_kind kind;
    return find_kind(type, &kind) && mega_tokenizer_kind_needs_model(kind);
}

bool mega_tokenizer_needs_file(const char *type)
{
    mega_tokenizer_kind kind;
    return find_kind(type, &kind) && kind != MEGA_KIND_BYTE && kind != MEGA_KIND_NULL;
}

static mega_status check_extra_ids(const char *what, int64_t count)
{
    if (count >= 0 && count <= MEGA_TOKENIZER_EXTRA_IDS) return MEGA_OK;
    return MEGA_MISTAKE("%s: found %lld; expected 0 to %d", what, (long long)count, MEGA_TOKENIZER_EXTRA_IDS);
}

mega_status mega_tokenizer_create(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    static const char known[] = "expected GPT2BPETokenizer, ByteTokenizer, CharTokenizer, NullTokenizer, "
                                "HuggingFaceTokenizer, SentencePieceTokenizer, GPTSentencePieceTokenizer, "
                                "Llama2Tokenizer, TikTokenizer, BertWordPieceLowerCase or BertWordPieceCase";
    mega_tokenizer *t = NULL;
    mega_tokenizer_kind kind;
    if (o->type == NULL) return MEGA_MISTAKE("--tokenizer-type is missing; %s", known);
    if (!find_kind(o->type, &kind)) return MEGA_MISTAKE("--tokenizer-type %s is not known; %s", o->type, known);
    MEGA_TRY(check_extra_ids("--vocab-extra-ids", o->extra_ids));
    MEGA_TRY(create_kind(o, kind, &t));
    if (kind != MEGA_KIND_HUGGINGFACE && kind != t->kind) {
        const bool is_hf = t->kind == MEGA_KIND_HUGGINGFACE;
        const mega_status st = MEGA_MISTAKE(
            "--vocab-file %s holds a %s, but --tokenizer-type is %s%s", o->vocab_file, mega_tokenizer_type(t), o->type,
            is_hf ? "; give --tokenizer-type HuggingFaceTokenizer --tokenizer-model and its "
                    "folder"
                  : "");
        mega_tokenizer_destroy(t);
        return st;
    }
    mega_tokenizer_check_vocab_size(t, o->vocab_size);
    *out = t;
    return MEGA_OK;
}

/* What a tokenizer_config.json says of a tokenizer without a tokenizer.json. */
typedef struct folder_config {
    char type[40], pattern[8];
    int64_t extra_ids, special, vocab_size;
    bool adds_bos;
} folder_config;

static mega_status config_string(mega_cursor *c, size_t at, char *out, size_t size)
{
    c->at = at;
    if (at == 0 || mega_cursor_peek(c) != '"') return MEGA_OK;
    MEGA_TRY(mega_cursor_string(c));
    snprintf(out, size, "%s", c->string.size == 0 ? "" : c->string.data);
    return MEGA_OK;
}

static mega_status config_int(mega_cursor *c, size_t at, int64_t *out)
{
    c->at = at;
    return at == 0 || mega_cursor_null(c) ? MEGA_OK : mega_cursor_int(c, out);
}

static mega_status read_folder_config(const char *path, folder_config *out)
{
    static const char *const keys[] = {"megalith_tokenizer_type",     "tiktoken_pattern", "megalith_extra_ids",
                                       "tiktoken_num_special_tokens", "vocab_size",       "add_bos_token"};
    size_t at[6] = {0}, size;
    char *text;
    *out = (folder_config){.type = "", .pattern = "v2", .adds_bos = true};
    if (!mega_file_exists(path)) return MEGA_OK;
    MEGA_TRY(mega_file_read_kind(path, "a file of a tokenizer", 0, &text, &size));
    mega_cursor c;
    mega_cursor_init(&c, path, text, size);
    mega_status st = mega_json_members(&c, keys, (size_t *const[]){&at[0], &at[1], &at[2], &at[3], &at[4], &at[5]}, 6);
    if (st == MEGA_OK) st = config_string(&c, at[0], out->type, sizeof out->type);
    if (st == MEGA_OK) st = config_string(&c, at[1], out->pattern, sizeof out->pattern);
    if (st == MEGA_OK) st = config_int(&c, at[2], &out->extra_ids);
    if (st == MEGA_OK && (st = check_extra_ids("megalith_extra_ids", out->extra_ids)) != MEGA_OK)
        MEGA_CONTEXT("%s", path);
    if (st == MEGA_OK) st = config_int(&c, at[3], &out->special);
    if (st == MEGA_OK) st = config_int(&c, at[4], &out->vocab_size);
    c.at = at[5];
    if (st == MEGA_OK && at[5] != 0 && !mega_cursor_null(&c)) st = mega_cursor_bool(&c, &out->adds_bos);
    mega_cursor_fini(&c);
    mega_free(text);
    return st;
}

/* Loads a SentencePiece model as its configuration says: without one, as Llama's. */
static mega_status load_sentencepiece(const char *model, const folder_config *config, mega_tokenizer **out)
{
    mega_tokenizer_kind kind = config->adds_bos ? MEGA_KIND_LLAMA2 : MEGA_KIND_GPT_SENTENCEPIECE;
    for (int k = MEGA_KIND_SENTENCEPIECE; k <= MEGA_KIND_LLAMA2; k++)
        if (strcmp(config->type, mega_tokenizer_kind_name((mega_tokenizer_kind)k)) == 0) kind = (mega_tokenizer_kind)k;
    return read_kind(model, kind, config->extra_ids, out);
}

/* A vocab.txt is Megatron's if its configuration names one of its types. */
static mega_status load_bert(const char *vocab, const folder_config *config, mega_folder_rules *rules,
                             mega_tokenizer **out)
{
    for (int k = MEGA_KIND_BERT_LOWER; k <= MEGA_KIND_BERT_CASED; k++)
        if (strcmp(config->type, mega_tokenizer_kind_name((mega_tokenizer_kind)k)) == 0)
            return read_kind(vocab, (mega_tokenizer_kind)k, config->extra_ids, out);
    return mega_tokenizer_read_bert_folder(vocab, rules, out);
}

static mega_status load_tiktoken(const char *model, const folder_config *config, mega_tokenizer **out)
{
    return mega_tokenizer_read_tiktoken(&(mega_tokenizer_options){.model = model,
                                                                  .tiktoken_pattern = config->pattern,
                                                                  .tiktoken_special = config->special,
                                                                  .vocab_size = config->vocab_size},
                                        out);
}

enum {
    HAS_JSON,
    HAS_VOCAB,
    HAS_MERGES,
    HAS_MODEL,
    HAS_TIKTOKEN,
    HAS_BERT,
    HAS_SPIECE,
    HAS_BPE_MODEL,
    HAS_CONFIG,
    FOLDER_FILES
};
static const char *const folder_file[FOLDER_FILES] = {
    "tokenizer.json",        "vocab.json", "merges.txt",   "tokenizer.model",
    MEGA_TIKTOKEN_FILE,      "vocab.txt",  "spiece.model", "sentencepiece.bpe.model",
    "tokenizer_config.json",
};

bool mega_tokenizer_is_in(const char *folder)
{
    bool found = false;
    for (int i = 0; i < HAS_CONFIG && !found; i++) {
        char *path = i == HAS_MERGES ? NULL : mega_path_join(folder, folder_file[i]);
        found = path != NULL && mega_file_exists(path);
        mega_free(path);
    }
    return found;
}

/* Whether it is a kind whose tokenizer.json is made for `transformers` alone, beside the file that we read. */
static bool is_made(const char *type)
{
    static const mega_tokenizer_kind kinds[] = {MEGA_KIND_SENTENCEPIECE, MEGA_KIND_BERT_LOWER, MEGA_KIND_BERT_CASED};
    bool is = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        is = is || strcmp(type, mega_tokenizer_kind_name(kinds[i])) == 0;
    return is;
}

/* A vocabulary that is no tokenizer.json. */
static mega_status load_plain(const char *folder, char *const path[FOLDER_FILES], const folder_config *config,
                              mega_folder_rules *rules, mega_tokenizer **out)
{
    const bool has_model = mega_file_exists(path[HAS_MODEL]), is_ours = config->type[0] != '\0';
    if (mega_file_exists(path[HAS_VOCAB]) && mega_file_exists(path[HAS_MERGES])) {
        if (!is_ours && rules->class != MEGA_CLASS_FILE)
            return mega_tokenizer_read_bpe_folder(path[HAS_VOCAB], path[HAS_MERGES], rules, out);
        MEGA_TRY(mega_tokenizer_read_bpe(path[HAS_VOCAB], path[HAS_MERGES], out));
        return mega_tokenizer_keep_folder(*out, folder, NULL);
    }
    if (has_model && !is_ours && (rules->has_config || rules->names_class))
        return mega_tokenizer_read_model_folder(path[HAS_MODEL], rules, out);
    if (has_model || mega_file_exists(path[HAS_TIKTOKEN])) {
        MEGA_TRY(has_model ? load_sentencepiece(path[HAS_MODEL], config, out)
                           : load_tiktoken(path[HAS_TIKTOKEN], config, out));
        return mega_tokenizer_keep_folder(*out, folder, has_model ? "tokenizer.model" : MEGA_TIKTOKEN_FILE);
    }
    if (mega_file_exists(path[HAS_BERT])) {
        MEGA_TRY(load_bert(path[HAS_BERT], config, rules, out));
        return (*out)->kind == MEGA_KIND_HUGGINGFACE ? MEGA_OK : mega_tokenizer_keep_folder(*out, folder, "vocab.txt");
    }
    for (int i = HAS_SPIECE; i <= HAS_BPE_MODEL; i++)
        if (mega_file_exists(path[i])) return mega_tokenizer_read_sentencepiece_folder(path[i], rules, out);
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                     "tokenizer folder %s: it contains neither tokenizer.json nor tokenizer.model nor vocab.json with "
                     "merges.txt nor vocab.txt nor spiece.model; copy "
                     "them there or name the folder that has them",
                     folder);
}

/* The class of a vocabulary where the folder names none. */
static mega_class plain_class(char *const path[FOLDER_FILES])
{
    if (mega_file_exists(path[HAS_VOCAB]) && mega_file_exists(path[HAS_MERGES])) return MEGA_CLASS_GPT2;
    if (mega_file_exists(path[HAS_MODEL])) return MEGA_CLASS_FILE;
    return mega_file_exists(path[HAS_BERT]) ? MEGA_CLASS_BERT : MEGA_CLASS_T5;
}

static mega_status load_folder(const char *folder, char *const path[FOLDER_FILES], mega_tokenizer **out)
{
    folder_config config;
    mega_folder_rules rules;
    for (int i = 0; i < FOLDER_FILES; i++)
        if (path[i] == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer folder %s: no memory", folder);
    MEGA_TRY(read_folder_config(path[HAS_CONFIG], &config));
    const bool has_other = mega_file_exists(path[HAS_MODEL]) || mega_file_exists(path[HAS_BERT]);
    if (mega_file_exists(path[HAS_JSON]) && !(is_made(config.type) && has_other))
        return mega_tokenizer_read_json(path[HAS_JSON], out);
    const mega_class plain = plain_class(path);
    MEGA_TRY(mega_rules_read(folder, plain, plain == MEGA_CLASS_FILE || plain == MEGA_CLASS_T5, &rules));
    rules.has_json = false;
    mega_status st = load_plain(folder, path, &config, &rules, out);
    if (st == MEGA_OK && (st = mega_rules_keep(&rules, *out)) != MEGA_OK) {
        mega_tokenizer_destroy(*out);
        *out = NULL;
    }
    mega_rules_fini(&rules);
    return st;
}

/* Whatever its kind, the tokenizer of another's folder finds special tokens in data. One without a pipeline may be
 * ours. */
static mega_status find_settings(mega_tokenizer *t, const char *path)
{
    folder_config config = {.type = ""};
    char *folder = mega_folder_exists(path) ? mega_strdup(path) : mega_path_folder(path),
         *file = folder == NULL ? NULL : mega_path_join(folder, folder_file[HAS_CONFIG]);
    mega_status st = file != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", path);
    if (st == MEGA_OK && t->pipe == NULL) {
        st = read_folder_config(file, &config);
        if (st == MEGA_OK) t->special_in_data = config.type[0] == '\0';
    }
    MEGA_FREE(file, folder);
    return st;
}

static mega_status load_file(const char *path, mega_tokenizer **out)
{
    const size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".model") == 0 ? read_kind(path, MEGA_KIND_LLAMA2, 0, out)
                                                        : mega_tokenizer_read_json(path, out);
}

mega_status mega_tokenizer_load(const char *path, mega_tokenizer **out)
{
    mega_tokenizer *t = NULL;
    mega_status st;
    if (!mega_folder_exists(path)) {
        st = load_file(path, &t);
    } else {
        char *file[FOLDER_FILES];
        for (int i = 0; i < FOLDER_FILES; i++) file[i] = mega_path_join(path, folder_file[i]);
        st = load_folder(path, file, &t);
        for (int i = 0; i < FOLDER_FILES; i++) mega_free(file[i]);
    }
    if (st == MEGA_OK) st = find_settings(t, path);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

mega_tokenizer_options mega_text_tokenizer(const mega_text_options *o)
{
    return (mega_tokenizer_options){.type = o->tokenizer_type,
                                    .vocab_file = o->vocab_file,
                                    .merge_file = o->merge_file,
                                    .vocab_size = o->vocab_size,
                                    .model = o->tokenizer_model,
                                    .tiktoken_pattern = o->tiktoken_pattern,
                                    .tiktoken_special = o->tiktoken_special,
                                    .extra_ids = o->vocab_extra_ids};
}

bool mega_text_names_files(const mega_text_options *o)
{
    return o->vocab_file != NULL || o->tokenizer_model != NULL;
}
