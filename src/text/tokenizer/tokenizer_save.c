/* Writes the files of a tokenizer, each atomically, and all together such that a process that dies leaves the old ones,
 * the new ones, or no vocab.json, but never a vocab.json with the merges.txt of another tokenizer. */
#include "folder_rules.h"
#include "megalith/file.h"
#include "megalith/json_cursor.h"
#include "symbols.h"
#include "tokenizer_impl.h"
#include "tokenizer_json.h"
#include <string.h>

/* Appends the key of a token in a vocabulary file. */
static void save_put_key(mega_buffer *out, mega_buffer *scratch, const mega_tokenizer *t, const mega_token *token)
{
    const char *bytes = mega_token_bytes(&t->vocabulary, token);
    const bool symbols = t->kind != MEGA_KIND_CHAR && (token->flags & MEGA_TOKEN_RAW) == 0;
    scratch->size = 0;
    if (symbols) mega_symbols_write(scratch, bytes, token->size);
    else
        mega_buffer_append(scratch, bytes, token->size);
    mega_json_quote(out, scratch->data, scratch->size);
    out->failed = out->failed || scratch->failed;
}

/* {"key": id, …} in order of id. */
static void put_vocab(mega_buffer *out, mega_buffer *scratch, const mega_tokenizer *t, const char *separator)
{
    mega_buffer_puts(out, "{");
    const char *between = "";
    for (int64_t id = 0; id < t->size; id++) {
        const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
        if (t->kind == MEGA_KIND_NULL) {
            mega_buffer_printf(out, "%s\"%lld\": %lld", between, (long long)id, (long long)id);
        } else if (token != NULL) {
            mega_buffer_puts(out, between);
            save_put_key(out, scratch, t, token);
            mega_buffer_printf(out, ": %lld", (long long)id);
        } else {
            continue;
        }
        between = separator;
    }
    mega_buffer_puts(out, "}");
}

static void put_symbols(mega_buffer *out, const mega_tokenizer *t, int32_t id)
{
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    mega_symbols_write(out, mega_token_bytes(&t->vocabulary, token), token->size);
}

static void put_merges_json(mega_buffer *out, mega_buffer *scratch, const mega_tokenizer *t)
{
    mega_buffer_puts(out, "[");
    for (int64_t i = 0; i < t->merges.count; i++) {
        scratch->size = 0;
        put_symbols(scratch, t, t->merges.list[i].left);
        mega_buffer_puts(scratch, " ");
        put_symbols(scratch, t, t->merges.list[i].right);
        mega_buffer_puts(out, i == 0 ? "\n      " : ",\n      ");
        mega_json_quote(out, scratch->data, scratch->size);
    }
    mega_buffer_puts(out, "]");
}

void mega_json_put_added(mega_buffer *out, const char *bytes, size_t n, int64_t id, bool normalized, bool special)
{
    mega_buffer_printf(out, "{\"id\": %lld, \"content\": ", (long long)id);
    mega_json_quote(out, bytes, n);
    mega_buffer_printf(out,
                       ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": %s, "
                       "\"special\": %s}",
                       normalized ? "true" : "false", special ? "true" : "false");
}

static void saved_put_added(mega_buffer *out, const mega_tokenizer *t)
{
    mega_buffer_puts(out, "[");
    for (int i = 0; i < t->num_added; i++) {
        const mega_added_token *a = &t->added[i];
        mega_buffer_puts(out, i == 0 ? "\n    " : ",\n    ");
        mega_json_put_added(out, a->content, a->size, a->id, a->normalized, a->special);
    }
    mega_buffer_puts(out, "]");
}

/* Unknown words are an error for WordLevel, as they are for us, because its unk_token is in no vocabulary. */
static void put_tokenizer_json(mega_buffer *out, mega_buffer *scratch, const mega_tokenizer *t)
{
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                                     "\"use_regex\": true}";
    const bool bytes = t->kind == MEGA_KIND_BPE || t->kind == MEGA_KIND_BYTE;
    const char *pre = t->kind == MEGA_KIND_CHAR ? "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[\\\\s\\\\S]\"}, "
                                                  "\"behavior\": \"Isolated\", \"invert\": false}"
                                                : "{\"type\": \"WhitespaceSplit\"}";
    mega_buffer_puts(out,
                     "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": ");
    saved_put_added(out, t);
    mega_buffer_printf(out, ",\n  \"normalizer\": null,\n  \"pre_tokenizer\": %s,\n", bytes ? byte_level : pre);
    mega_buffer_printf(out, "  \"post_processor\": %s,\n",
                       bytes ? "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
                               "\"use_regex\": true}"
                             : "null");
    mega_buffer_printf(out, "  \"decoder\": %s,\n",
                       bytes ? byte_level : (t->kind == MEGA_KIND_CHAR ? "{\"type\": \"Fuse\"}" : "null"));
    mega_buffer_puts(out, "  \"model\": {\n");
    if (bytes)
        mega_buffer_puts(out,
                         "    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
                         "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                         "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n");
    else
        mega_buffer_puts(out, "    \"type\": \"WordLevel\",\n    \"unk_token\": \"<unk>\",\n");
    mega_buffer_puts(out, "    \"vocab\": ");
    put_vocab(out, scratch, t, ",\n      ");
    if (bytes) {
        mega_buffer_puts(out, ",\n    \"merges\": ");
        put_merges_json(out, scratch, t);
    }
    mega_buffer_puts(out, "\n  }\n}\n");
}

/* Our own type tells a later load that special tokens in data are ordinary text, as they are for Megatron. */
static void saved_put_config(mega_buffer *out, const mega_tokenizer *t)
{
    mega_buffer_printf(out, "{\n  \"add_prefix_space\": false,\n");
    const mega_token *eod = mega_vocabulary_get(&t->vocabulary, t->eod);
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token"};
    for (size_t i = 0; i < 3; i++) { /* null: without it the class of `transformers` would add a token */
        mega_buffer_printf(out, "  \"%s\": ", roles[i]);
        if (eod == NULL) mega_buffer_puts(out, "null");
        else
            mega_json_quote(out, mega_token_bytes(&t->vocabulary, eod), eod->size);
        mega_buffer_puts(out, ",\n");
    }
    if (!t->special_in_data)
        mega_buffer_printf(out, "  \"megalith_tokenizer_type\": \"%s\",\n", mega_tokenizer_type(t));
    mega_buffer_printf(out, "  \"clean_up_tokenization_spaces\": false,\n  \"tokenizer_class\": \"%s\"\n}\n",
                       t->kind == MEGA_KIND_BPE ? "GPT2Tokenizer" : "PreTrainedTokenizerFast");
}

enum { TOKENIZER_JSON, CONFIG, MERGES, VOCAB, FILES }; /* in the order in which they are renamed */
static const char *const file_name[FILES] = {"tokenizer.json", "tokenizer_config.json", "merges.txt", "vocab.json"};

/* ---- files that are kept ---- */

void mega_tokenizer_keep(mega_tokenizer *t, const char *name, char *bytes, size_t size)
{
    int i = 0;
    while (i < t->num_files && strcmp(t->files[i].name, name) != 0) i++;
    if (i == t->num_files) t->num_files++;
    else
        mega_free(t->files[i].bytes);
    t->files[i] = (mega_kept_file){.name = name, .bytes = bytes, .size = size};
}

static const char *const kept_name[MEGA_KEPT_FILES] = {"tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "tokenizer.model",
                                                       MEGA_TIKTOKEN_FILE,
                                                       "chat_template.jinja",
                                                       "merges.txt",
                                                       "vocab.json",
                                                       "vocab.txt",
                                                       "spiece.model",
                                                       "sentencepiece.bpe.model",
                                                       MEGA_RULES_FILE};

bool mega_tokenizer_names(const char *name)
{
    for (size_t i = 0; i < MEGA_KEPT_FILES; i++)
        if (strcmp(kept_name[i], name) == 0) return true;
    return false;
}

mega_status mega_tokenizer_keep_folder(mega_tokenizer *t, const char *folder, const char *without)
{
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < MEGA_KEPT_FILES && st == MEGA_OK; i++) {
        char *bytes = NULL, *path = mega_path_join(folder, kept_name[i]);
        size_t size;
        if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", folder);
        if (mega_file_exists(path) && (without == NULL || strcmp(kept_name[i], without) != 0)) {
            st = mega_file_read(path, &bytes, &size);
            if (st == MEGA_OK) mega_tokenizer_keep(t, kept_name[i], bytes, size);
        }
        mega_free(path);
    }
    return st;
}

static const mega_kept_file *find_kept(const mega_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->num_files; i++)
        if (strcmp(t->files[i].name, name) == 0) return &t->files[i];
    return NULL;
}

/* Files of a folder that are written and synced, each under its temporary name. */
typedef struct file_set {
    const char *folder;
    const mega_tokenizer *tokenizer;
    char *path[FILES], *temporary[FILES]; /* NULL: this tokenizer has no such file */
} file_set;

static mega_status save_write_file(file_set *set, int which, mega_buffer *text)
{
    const mega_kept_file *kept = find_kept(set->tokenizer, file_name[which]);
    mega_writer *w = NULL;
    if (kept != NULL) {
        text->size = 0;
        mega_buffer_append(text, kept->bytes, kept->size);
    }
    MEGA_TRY(mega_buffer_check(text, file_name[which]));
    set->path[which] = mega_path_join(set->folder, file_name[which]);
    if (set->path[which] != NULL) set->temporary[which] = mega_temporary_path(set->path[which]);
    if (set->temporary[which] == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "%s/%s: no memory", set->folder, file_name[which]);
    mega_temporaries_remove(set->folder, file_name[which], file_name[which], false);
    MEGA_TRY(mega_writer_create(set->temporary[which], &w));
    mega_writer_expect(w, (int64_t)text->size);
    MEGA_IGNORE(mega_writer_write(w, text->data, text->size)); /* close returns its error */
    MEGA_TRY(mega_writer_close(w, true));
    text->size = 0;
    return MEGA_OK;
}

static mega_status save_commit(file_set *set)
{
    if (set->path[VOCAB] != NULL && mega_file_exists(set->path[MERGES])) MEGA_TRY(mega_file_remove(set->path[VOCAB]));
    for (int i = 0; i < FILES; i++) {
        if (set->temporary[i] == NULL) continue;
        MEGA_TRY(mega_file_rename(set->temporary[i], set->path[i]));
        mega_free(set->temporary[i]);
        set->temporary[i] = NULL;
    }
    return mega_folder_sync(set->folder);
}

static void file_set_fini(file_set *set)
{
    for (int i = 0; i < FILES; i++) {
        if (set->temporary[i] != NULL) mega_file_discard(set->temporary[i]);
        MEGA_FREE(set->temporary[i], set->path[i]);
    }
}

static void put_merges_text(mega_buffer *out, const mega_tokenizer *t)
{
    mega_buffer_puts(out, "#version: 0.2\n");
    for (int64_t i = 0; i < t->merges.count; i++) {
        put_symbols(out, t, t->merges.list[i].left);
        mega_buffer_puts(out, " ");
        put_symbols(out, t, t->merges.list[i].right);
        mega_buffer_puts(out, "\n");
    }
}

/* The files of a tokenizer with a pipeline are those it was read from; others have files beside those that are made. */
static mega_status save_kept(const mega_tokenizer *t, const char *folder)
{
    mega_status st = MEGA_OK;
    for (int i = 0; i < t->num_files && st == MEGA_OK; i++) {
        const mega_kept_file *f = &t->files[i];
        bool is_made = false;
        for (int k = 0; k < FILES && t->pipe == NULL; k++) is_made = is_made || strcmp(f->name, file_name[k]) == 0;
        if (is_made) continue;
        char *path = mega_path_join(folder, f->name);
        if (path == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s/%s: no memory", folder, f->name);
        st = mega_file_write_atomic(path, f->bytes, f->size);
        mega_free(path);
    }
    return st;
}

mega_status mega_tokenizer_save(const mega_tokenizer *t, const char *folder)
{
    mega_status st = save_kept(t, folder);
    if (t->pipe != NULL || st != MEGA_OK) return st;
    mega_buffer text = {0}, scratch = {0};
    file_set set = {.folder = folder, .tokenizer = t};
    put_tokenizer_json(&text, &scratch, t);
    st = save_write_file(&set, TOKENIZER_JSON, &text);
    if (st == MEGA_OK) {
        saved_put_config(&text, t);
        st = save_write_file(&set, CONFIG, &text);
    }
    if (st == MEGA_OK && t->kind == MEGA_KIND_BPE) {
        put_merges_text(&text, t);
        st = save_write_file(&set, MERGES, &text);
        put_vocab(&text, &scratch, t, ", ");
        mega_buffer_puts(&text, "\n");
        if (st == MEGA_OK) st = save_write_file(&set, VOCAB, &text);
    }
    if (st == MEGA_OK) st = save_commit(&set);
    file_set_fini(&set);
    mega_buffer_fini(&text);
    mega_buffer_fini(&scratch);
    return st;
}

/* Appends ["a", "b", …, "<|endoftext|>"]; a list cannot represent a gap. */
static void saved_put_characters(mega_buffer *out, const mega_tokenizer *t)
{
    mega_buffer_puts(out, "[");
    for (int64_t id = 0; id < t->size; id++) {
        const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
        if (id > 0) mega_buffer_puts(out, ", ");
        mega_json_quote(out, mega_token_bytes(&t->vocabulary, token), token->size);
    }
    mega_buffer_puts(out, "]\n");
}

mega_status mega_tokenizer_save_vocab(const mega_tokenizer *t, const char *path)
{
    if (t->kind == MEGA_KIND_NULL || t->kind == MEGA_KIND_BYTE || t->pipe != NULL)
        return MEGA_MISTAKE("%s: a %s has no vocabulary file and needs none", path, mega_tokenizer_type(t));
    mega_buffer text = {0}, scratch = {0};
    if (t->kind == MEGA_KIND_CHAR && t->vocabulary.present == t->size) {
        saved_put_characters(&text, t);
    } else {
        put_vocab(&text, &scratch, t, ", ");
        mega_buffer_puts(&text, "\n");
    }
    text.failed = text.failed || scratch.failed;
    mega_status st = mega_buffer_check(&text, path);
    if (st == MEGA_OK) st = mega_file_write_atomic(path, text.data, text.size);
    mega_buffer_fini(&text);
    mega_buffer_fini(&scratch);
    return st;
}
