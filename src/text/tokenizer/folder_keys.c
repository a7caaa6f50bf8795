/* The keys of tokenizer_config.json that change ids or decoded text, and what becomes of each: one table. */
#include "folder_keys.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/json.h"
#include "tokenizer_impl.h"
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define IN(class) (1u << MEGA_CLASS_##class)
enum {
    ALL = (1u << MEGA_CLASSES) - 1,
    PREFIX = IN(GPT2) | IN(ROBERTA) | IN(NEOX) | IN(QWEN2) | IN(QWEN35) | IN(LLAMA) | IN(XLMR) | IN(ALBERT),
};

typedef enum key_kind {
    KEY_TRI,  /* an int of the rules: -1 or what the file says */
    KEY_BOOL, /* a bool of the rules */
    KEY_COUNT,
    KEY_REFUSED, /* true changes ids in a way that is not built */
    KEY_EMPTY,   /* anything in the list does */
    KEY_FILES,   /* names of files other than tokenizer.json do */
    KEY_CODE,    /* code of the folder's own, unless the class is known */
} key_kind;

/* Roles and lists of tokens: folder_rules.c. Keys that are not here change no ids: of padding, truncation, offsets,
 * chats, and those of Python's own tokenizers (do_basic_tokenize, never_split, errors, sp_model_kwargs, …). */
static const struct {
    const char *key;
    key_kind kind;
    unsigned classes; /* those in which it has an effect */
    size_t offset;
} keys[] = {
    {"add_prefix_space", KEY_TRI, PREFIX, offsetof(mega_folder_rules, prefix_blank)},
    {"do_lower_case", KEY_TRI, IN(BERT) | IN(ALBERT), offsetof(mega_folder_rules, lower)},
    {"tokenize_chinese_chars", KEY_TRI, IN(BERT), offsetof(mega_folder_rules, chinese)},
    {"strip_accents", KEY_TRI, IN(BERT), offsetof(mega_folder_rules, strip)},
    {"keep_accents", KEY_TRI, IN(ALBERT), offsetof(mega_folder_rules, keep_accents)},
    {"legacy", KEY_TRI, IN(LLAMA), offsetof(mega_folder_rules, legacy)},
    {"add_bos_token", KEY_TRI, ALL, offsetof(mega_folder_rules, adds_bos)},
    {"add_eos_token", KEY_TRI, ALL, offsetof(mega_folder_rules, adds_eos)},
    {"split_special_tokens", KEY_BOOL, ALL, offsetof(mega_folder_rules, split_special)},
    {"clean_up_tokenization_spaces", KEY_BOOL, ALL, offsetof(mega_folder_rules, clean_up)},
    {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", KEY_BOOL, ALL,
     offsetof(mega_folder_rules, clean_up_bpe)},
    {"extra_ids", KEY_COUNT, IN(T5), offsetof(mega_folder_rules, extra_ids)},
    {"fix_mistral_regex", KEY_REFUSED, ALL, 0},
    {"init_inputs", KEY_EMPTY, ALL, 0},
    {"fast_tokenizer_files", KEY_FILES, ALL, 0},
    {"auto_map", KEY_CODE, IN(FILE), 0},
};

static mega_status folder_refuse(const char *key, const char *why)
{
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "tokenizer_config.json: %s: %s", key, why);
}

static mega_status read_files(const char *key, const json_t *v)
{
    size_t i;
    json_t *name;
    json_array_foreach(v, i, name)
    {
        if (json_is_string(name) && strcmp(json_string_value(name), "tokenizer.json") != 0)
            return folder_refuse(
                key, "a file for a version of `transformers` is not supported; expected tokenizer.json alone");
    }
    return MEGA_OK;
}

static mega_status read_key(mega_folder_rules *r, size_t k, const json_t *v)
{
    void *to = (char *)r + keys[k].offset;
    const char *key = keys[k].key;
    switch (keys[k].kind) {
    case KEY_TRI:
    case KEY_BOOL:
    case KEY_REFUSED:
        if (!json_is_boolean(v))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "tokenizer_config.json: %s: expected true or false", key);
        if (keys[k].kind == KEY_TRI) *(int *)to = json_is_true(v);
        else if (keys[k].kind == KEY_BOOL)
            *(bool *)to = json_is_true(v);
        else if (json_is_true(v))
            return folder_refuse(key, "true is not supported; write its expression into tokenizer.json");
        return MEGA_OK;
    case KEY_COUNT:
        if (!mega_json_id(v) || json_number_value(v) > MEGA_TOKENIZER_EXTRA_IDS)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "tokenizer_config.json: %s: expected 0 to %d", key,
                             MEGA_TOKENIZER_EXTRA_IDS);
        *(int64_t *)to = (int64_t)json_number_value(v);
        return MEGA_OK;
    case KEY_EMPTY:
        return json_array_size(v) == 0 ? MEGA_OK
                                       : folder_refuse(key, "positional arguments of a class are not supported");
    case KEY_FILES: return read_files(key, v);
    case KEY_CODE:
        if (json_object_get(v, "AutoTokenizer") == NULL && !json_is_array(v)) return MEGA_OK;
        return folder_refuse(key, "code of the folder's own is not run; save the tokenizer as a tokenizer.json of "
                                  "PreTrainedTokenizerFast");
    }
    return MEGA_OK;
}

/* The class is known by then. */
static mega_status read_keys(mega_folder_rules *r, const json_t *root, bool class_is_known)
{
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const json_t *v = json_object_get(root, keys[k].key);
        const bool counts = (keys[k].classes & 1u << r->class) != 0 && !(keys[k].kind == KEY_CODE && class_is_known);
        if (v != NULL && !json_is_null(v) && counts) MEGA_TRY(read_key(r, k, v));
    }
    return MEGA_OK;
}

/* Numbers are read as real ones: a model_max_length of 1e30 is common. */
static mega_status load_folder_json(const char *folder, const char *name, json_t **out)
{
    char *path = mega_path_join(folder, name), *text = NULL;
    size_t size;
    json_error_t error;
    mega_status st = path == NULL ? MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", folder) : MEGA_OK;
    if (st == MEGA_OK && mega_file_exists(path)) {
        st = mega_file_read_kind(path, "a file of a tokenizer", 0, &text, &size);
        if (st == MEGA_OK &&
            (*out = mega_json_load(text, size, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error)) == NULL)
            st = MEGA_FAIL(mega_json_status(&error), "%s line %d column %d: %s", path, error.line, error.column,
                           error.text);
        if (st == MEGA_OK && !json_is_object(*out)) st = MEGA_FAIL(MEGA_ERR_FORMAT, "%s: expected an object", path);
    }
    MEGA_FREE(text, path);
    return st;
}

static const char *folder_text(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    return text == NULL ? "" : text;
}

static mega_status has_byte_level(const char *folder, bool *out)
{
    char *path = mega_path_join(folder, "tokenizer.json"), *text = NULL;
    size_t size;
    mega_status st = path == NULL ? MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", folder) : MEGA_OK;
    if (st == MEGA_OK && mega_file_exists(path)) st = mega_file_read(path, &text, &size);
    if (text != NULL) *out = memmem(text, size, "\"ByteLevel\"", 11) != NULL;
    MEGA_FREE(text, path);
    return st;
}

static mega_status find_tokenizer_class(mega_folder_rules *r, const char *folder, const json_t *config,
                                        const json_t *model, const json_t *kept, bool *is_known)
{
    const char *named = folder_text(config, "tokenizer_class"), *model_type = folder_text(model, "model_type");
    r->class_source = named[0] != '\0' ? "tokenizer_config.json: tokenizer_class" : "config.json: tokenizer_class";
    bool byte_level = false;
    /* a folder that megalith wrote says all of it itself: a model of any type may have any of our tokenizers */
    r->is_ours = json_object_get(config, "megalith_tokenizer_type") != NULL;
    if (r->is_ours) model_type = "";
    else if (kept != NULL) {
        named = folder_text(kept, "tokenizer_class");
        model_type = folder_text(kept, "model_type");
    } else if (named[0] == '\0')
        named = folder_text(model, "tokenizer_class");
    snprintf(r->named, sizeof r->named, "%s", named);
    snprintf(r->model_type, sizeof r->model_type, "%s", model_type);
    if (strncmp(named, "LlamaTokenizer", 14) == 0) MEGA_TRY(has_byte_level(folder, &byte_level));
    snprintf(r->class_name, sizeof r->class_name, "%s", named[0] != '\0' ? named : model_type);
    r->names_class = named[0] != '\0';
    if (!r->names_class) r->class_source = "config.json: model_type";
    *is_known = model_type[0] != '\0';
    if (mega_class_find(named, model_type, byte_level, &r->class)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "%s: %s: `transformers` has rules of its own for this class, which are not built; "
                     "where tokenizer.json has all of them, write PreTrainedTokenizerFast",
                     r->class_source, named);
}

static mega_status folder_read_keys(mega_folder_rules *r, const char *folder, mega_class plain, json_t *root[5])
{
    static const char *const names[] = {"tokenizer_config.json", "config.json", "special_tokens_map.json",
                                        "added_tokens.json", MEGA_RULES_FILE};
    bool is_known = false;
    for (int i = 0; i < 5; i++) {
        const mega_status st = load_folder_json(folder, names[i], &root[i]);
        if (i != 1 || st != MEGA_ERR_FORMAT) MEGA_TRY(st);
        else { /* it is about a model, or a file of another program: the tokenizer does not depend on it */
            json_decref(root[i]);
            root[i] = NULL;
            mega_error_clear();
        }
    }
    r->has_json = plain == MEGA_CLASS_FILE;
    r->has_config = root[0] != NULL || root[2] != NULL;
    MEGA_TRY(find_tokenizer_class(r, folder, root[0], root[1], root[4], &is_known));
    const bool is_mt5 = plain == MEGA_CLASS_T5 && strncmp(r->class_name, "MT5Tokenizer", 12) == 0;
    if (r->class == MEGA_CLASS_FILE && (!r->names_class || is_mt5)) r->class = plain;
    MEGA_TRY(read_keys(r, root[0], is_known));
    MEGA_TRY(mega_rules_read_config(r, root[0]));
    MEGA_TRY(mega_rules_read_older(r, root[2], root[3]));
    MEGA_TRY(mega_rules_read_named(r, root[0], root[2]));
    return mega_rules_fill(r);
}

mega_status mega_rules_read(const char *path, mega_class plain, bool has_pieces, mega_folder_rules *out)
{
    json_t *root[5] = {NULL};
    char *folder = mega_folder_exists(path) ? mega_strdup(path) : mega_path_folder(path);
    *out = (mega_folder_rules){.prefix_blank = -1,
                               .lower = -1,
                               .chinese = -1,
                               .strip = -1,
                               .legacy = -1,
                               .adds_bos = -1,
                               .adds_eos = -1,
                               .keep_accents = -1,
                               .extra_ids = 100,
                               .has_pieces = has_pieces,
                               .config = folder == NULL ? NULL : mega_path_join(folder, "tokenizer_config.json")};
    mega_status st = out->config != NULL ? MEGA_OK : MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", path);
    if (st == MEGA_OK && (st = folder_read_keys(out, folder, plain, root)) != MEGA_OK)
        MEGA_CONTEXT("tokenizer folder %s", folder);
    for (int i = 0; i < 5; i++) json_decref(root[i]);
    mega_free(folder);
    if (st != MEGA_OK) mega_rules_fini(out);
    return st;
}

mega_status mega_rules_check_class(const mega_folder_rules *r, mega_class class, const char *path)
{
    if (r->class != MEGA_CLASS_FILE && strcmp(mega_class_model(r->class), mega_class_model(class)) == 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                     "%s: %s: %s is no class for such a file; save the tokenizer as tokenizer.json", path,
                     r->class_source, r->class_name);
}

bool mega_rules_around(const mega_folder_rules *r, bool has_post, mega_role *before, mega_role *after)
{
    const bool adds = !r->has_json;
    *before = *after = MEGA_ROLES;
    switch (r->class) {
    case MEGA_CLASS_BERT:
    case MEGA_CLASS_ROBERTA:
        *before = MEGA_ROLE_CLS;
        *after = MEGA_ROLE_SEP;
        return true;
    case MEGA_CLASS_XLMR:
        *before = MEGA_ROLE_BOS;
        *after = MEGA_ROLE_EOS;
        return true;
    case MEGA_CLASS_T5: *after = MEGA_ROLE_EOS; return true;
    case MEGA_CLASS_ALBERT:
        if (!adds && has_post) return false;
        *before = MEGA_ROLE_CLS;
        *after = MEGA_ROLE_SEP;
        return true;
    default: break;
    }
    if (!adds && has_post && r->class != MEGA_CLASS_NEOX) return false;
    if (adds && r->adds_bos > 0 && r->role[MEGA_ROLE_BOS].token.content != NULL) *before = MEGA_ROLE_BOS;
    if (adds && r->adds_eos > 0 && r->role[MEGA_ROLE_EOS].token.content != NULL) *after = MEGA_ROLE_EOS;
    return true;
}

mega_status mega_rules_need(const mega_folder_rules *r, mega_role role)
{
    if (role == MEGA_ROLES || r->role[role].token.content != NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "%s: %s: null is not supported with %s, which puts it around a text",
                     r->role[role].source, mega_role_key(role), r->class_name);
}

mega_status mega_rules_keep(const mega_folder_rules *r, mega_tokenizer *t)
{
    if (r->is_ours || t->num_files == 0) return MEGA_OK;
    mega_buffer text = {0};
    json_t *root = json_pack("{s:s, s:s}", "tokenizer_class", r->named, "model_type", r->model_type);
    char *dumped = root != NULL ? mega_json_dump(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (dumped != NULL) mega_buffer_printf(&text, "%s\n", dumped);
    const mega_status st = dumped != NULL ? mega_buffer_check(&text, MEGA_RULES_FILE)
                                          : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", MEGA_RULES_FILE);
    mega_free(dumped);
    if (st == MEGA_OK) mega_tokenizer_keep(t, MEGA_RULES_FILE, text.data, text.size);
    else
        mega_buffer_fini(&text);
    return st;
}
