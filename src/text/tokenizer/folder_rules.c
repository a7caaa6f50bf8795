/* Reads what the files of a folder say of its tokens and roles, and orders the tokens that are added to a
 * vocabulary. */
#include "folder_keys.h"
#include "megalith/file.h"
#include "megalith/json_cursor.h"
#include "vocabulary.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_keys[MEGA_ROLES] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token"};

const char *mega_role_key(mega_role role)
{
    return role_keys[role];
}

/* ---- lists of tokens ---- */

static void token_fini(mega_rule_token *t)
{
    mega_free(t->content);
    *t = (mega_rule_token){0};
}

void mega_rule_tokens_fini(mega_rule_tokens *list)
{
    for (int i = 0; i < list->count; i++) token_fini(&list->list[i]);
    mega_free(list->list);
    *list = (mega_rule_tokens){0};
}

static mega_status token_copy(mega_rule_token *out, const mega_rule_token *from)
{
    *out = *from;
    out->content = mega_calloc(from->size + 1, 1);
    if (out->content == NULL) return MEGA_NO_MEMORY("tokenizer", "added tokens");
    memcpy(out->content, from->content, from->size);
    return MEGA_OK;
}

mega_status mega_rule_tokens_append(mega_rule_tokens *list, const mega_rule_token *token)
{
    mega_rule_token copy;
    MEGA_TRY(token_copy(&copy, token));
    if (!mega_array_add(&list->list, list->count, sizeof *list->list)) {
        token_fini(&copy);
        return MEGA_NO_MEMORY("tokenizer", "added tokens");
    }
    list->list[list->count++] = copy;
    return MEGA_OK;
}

static mega_rule_token *find(const mega_rule_tokens *list, const mega_rule_token *token)
{
    for (int i = 0; i < list->count; i++)
        if (list->list[i].size == token->size && memcmp(list->list[i].content, token->content, token->size) == 0)
            return &list->list[i];
    return NULL;
}

/* The same, or gives the token of this text these flags: what was special once stays so. */
static mega_status folder_rules_put(mega_rule_tokens *list, const mega_rule_token *token)
{
    mega_rule_token *same = find(list, token);
    if (token->size == 0) return MEGA_OK;
    if (same == NULL) {
        MEGA_TRY(mega_rule_tokens_append(list, token));
        list->list[list->count - 1].id = -1;
        return MEGA_OK;
    }
    same->special = same->special || token->special;
    same->normalized = token->normalized;
    same->lstrip = token->lstrip;
    same->rstrip = token->rstrip;
    same->single_word = token->single_word;
    return MEGA_OK;
}

static bool has_same_flags(const mega_rule_token *a, const mega_rule_token *b)
{
    return a->is_string == b->is_string && a->special == b->special && a->normalized == b->normalized &&
           a->lstrip == b->lstrip && a->rstrip == b->rstrip && a->single_word == b->single_word;
}

static bool is_text_of_role(const mega_folder_rules *r, const mega_rule_token *token)
{
    bool is = false;
    for (int i = 0; i < MEGA_ROLES; i++) {
        const mega_rule_token *t = &r->role[i].token;
        is = is || (t->content != NULL && t->size == token->size && memcmp(t->content, token->content, t->size) == 0);
    }
    return is;
}

static int by_token_id(const void *a, const void *b)
{
    const mega_rule_token *x = a, *y = b;
    if (x->id != y->id) return (x->id > y->id) - (x->id < y->id);
    return (x->at > y->at) - (x->at < y->at);
}

/* A token of an id takes the place of an earlier one of it. */
static mega_status put_by_id(mega_rule_tokens *list, const mega_rule_token *token)
{
    for (int i = 0; i < list->count; i++) {
        if (list->list[i].id != token->id) continue;
        token_fini(&list->list[i]);
        return token_copy(&list->list[i], token);
    }
    return mega_rule_tokens_append(list, token);
}

/* Adds a token as it is, but with a role it is special; `known`: the tokens of the vocabulary's own file, which keep
 * their flags. */
static mega_status put_named(mega_rule_tokens *out, const mega_folder_rules *r, const mega_rule_token *token,
                             const mega_rule_tokens *known)
{
    mega_rule_token t = *token;
    const mega_rule_token *same = known != NULL ? find(known, token) : NULL;
    if (same != NULL && has_same_flags(same, token)) return MEGA_OK;
    if (!t.special && (is_text_of_role(r, token) || find(&r->own_roles, token) != NULL)) {
        t.special = true;
        if (!t.says_normalized) t.normalized = false;
    }
    return folder_rules_put(out, &t);
}

/* The tokens with an id, in its order, for those of a list whose own ids are what they are. */
static mega_status put_sorted(mega_rule_tokens *out, const mega_folder_rules *r, const mega_rule_tokens *own)
{
    mega_rule_tokens all = {0};
    mega_status st = MEGA_OK;
    const bool mixes = !r->has_decoder && r->decoder.count > 0;
    for (int i = 0; i < r->decoder.count && st == MEGA_OK; i++) st = mega_rule_tokens_append(&all, &r->decoder.list[i]);
    for (int i = 0; i < own->count && st == MEGA_OK && !r->has_decoder; i++)
        st = mixes ? put_by_id(&all, &own->list[i]) : mega_rule_tokens_append(&all, &own->list[i]);
    if (st == MEGA_OK && all.count > 0) qsort(all.list, (size_t)all.count, sizeof *all.list, by_token_id);
    for (int i = 0; i < all.count && st == MEGA_OK; i++)
        st = put_named(out, r, &all.list[i], r->class == MEGA_CLASS_FILE ? own : NULL);
    mega_rule_tokens_fini(&all);
    return st;
}

/* Notes a token that is to be added. One that a file gave an id keeps the flags that it has there, and none comes
 * twice; of two with one text and other flags both are added, and the last counts. */
static mega_status want(mega_rule_tokens *wanted, const mega_rule_tokens *known, const mega_rule_token *token)
{
    bool has = token->content == NULL || find(known, token) != NULL;
    for (int i = 0; i < wanted->count && !has; i++) {
        const mega_rule_token *t = &wanted->list[i];
        has = t->size == token->size && memcmp(t->content, token->content, t->size) == 0 && has_same_flags(t, token);
    }
    return has ? MEGA_OK : mega_rule_tokens_append(wanted, token);
}

static mega_status want_all(mega_rule_tokens *wanted, const mega_rule_tokens *known, const mega_folder_rules *r)
{
    for (int i = 0; i < MEGA_ROLES; i++) MEGA_TRY(want(wanted, known, &r->role[i].token));
    for (int i = 0; i < r->own_roles.count; i++) MEGA_TRY(want(wanted, known, &r->own_roles.list[i]));
    for (int i = 0; i < r->more.count; i++) MEGA_TRY(want(wanted, known, &r->more.list[i]));
    return MEGA_OK;
}

static mega_status put_plain(mega_rule_tokens *out, const mega_rule_token *token)
{
    const mega_rule_token t = {.content = token->content, .size = token->size, .id = -1, .special = true};
    return t.content == NULL ? MEGA_OK : folder_rules_put(out, &t);
}

/* Those of tokenizer.json first, where the class reads them from there; then those with an id in its order, then each
 * role that no token has yet, then the others. Qwen2's class adds its special tokens once more, without settings. */
mega_status mega_rules_tokens(const mega_folder_rules *r, const mega_rule_tokens *own, mega_rule_tokens *out)
{
    mega_rule_tokens wanted = {0};
    for (int i = 0; i < own->count && r->class == MEGA_CLASS_FILE; i++)
        MEGA_TRY(mega_rule_tokens_append(out, &own->list[i]));
    if (!r->has_config && r->class == MEGA_CLASS_FILE && r->decoder.count + r->more.count == 0) return MEGA_OK;
    MEGA_TRY(put_sorted(out, r, own));
    mega_status st = want_all(&wanted, out, r);
    for (int i = 0; i < wanted.count && st == MEGA_OK; i++) st = put_named(out, r, &wanted.list[i], NULL);
    mega_rule_tokens_fini(&wanted);
    if (st != MEGA_OK || r->class != MEGA_CLASS_QWEN2) return st;
    for (int i = 0; i < MEGA_ROLES; i++) MEGA_TRY(put_plain(out, &r->role[i].token));
    for (int i = 0; i < r->own_roles.count; i++) MEGA_TRY(put_plain(out, &r->own_roles.list[i]));
    for (int i = 0; i < r->more.count; i++) MEGA_TRY(put_plain(out, &r->more.list[i]));
    return MEGA_OK;
}

/* ---- files ---- */

static mega_status folder_rules_mistake(const char *file, const char *key, const char *expected)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: expected %s", file, key, expected);
}

/* A string, or an object with "content". A role makes its token special, whatever an object says. */
static mega_status read_token(const char *file, const char *key, const json_t *v, bool is_role, mega_rule_token *out)
{
    static const char *const flags[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
    const bool whole = json_is_object(v);
    const json_t *content = whole ? json_object_get(v, "content") : v;
    *out = (mega_rule_token){.id = -1, .special = is_role || !whole, .is_string = !whole};
    if (!json_is_string(content))
        return folder_rules_mistake(file, key, "a token: a string, or an object with \"content\"");
    bool *const to[] = {&out->special, &out->normalized, &out->lstrip, &out->rstrip, &out->single_word};
    for (size_t i = 0; i < sizeof flags / sizeof *flags && whole; i++) {
        const json_t *flag = json_object_get(v, flags[i]);
        if (i == 1) out->normalized = !out->special;
        if (flag == NULL || json_is_null(flag) || (i == 0 && is_role)) continue;
        if (!json_is_boolean(flag))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: \"%s\" of a token: expected true or false", file, key, flags[i]);
        *to[i] = json_is_true(flag);
        if (i == 1) out->says_normalized = true;
    }
    out->size = json_string_length(content);
    out->content = mega_calloc(out->size + 1, 1);
    if (out->content == NULL) return MEGA_NO_MEMORY(file, "a token");
    memcpy(out->content, json_string_value(content), out->size);
    return MEGA_OK;
}

static mega_status read_role(const char *file, const json_t *v, mega_role role, mega_folder_rules *r)
{
    mega_rule_role *to = &r->role[role];
    mega_rule_token token = {0};
    if (v == NULL) return MEGA_OK;
    if (!json_is_null(v)) MEGA_TRY(read_token(file, role_keys[role], v, true, &token));
    token_fini(&to->token);
    to->token = token;
    to->source = file;
    return MEGA_OK;
}

static bool is_role(const char *key)
{
    bool is = false;
    for (int i = 0; i < MEGA_ROLES; i++) is = is || strcmp(key, role_keys[i]) == 0;
    return is;
}

static mega_status folder_rules_add_token(mega_rule_tokens *list, const char *file, const char *key, const json_t *v,
                                          bool is_role)
{
    mega_rule_token token;
    MEGA_TRY(read_token(file, key, v, is_role, &token));
    const mega_status st = mega_rule_tokens_append(list, &token);
    token_fini(&token);
    return st;
}

static mega_status folder_rules_read_list(mega_folder_rules *r, const char *file, const char *key, const json_t *list)
{
    size_t i;
    json_t *v;
    if (list == NULL || json_is_null(list)) return MEGA_OK;
    if (!json_is_array(list)) return folder_rules_mistake(file, key, "a list of tokens");
    json_array_foreach(list, i, v) MEGA_TRY(folder_rules_add_token(&r->more, file, key, v, false));
    r->has_extra = true;
    return MEGA_OK;
}

static const char specific_key[] = "model_specific_special_tokens", extra_key[] = "extra_special_tokens";

/* "extra_special_tokens": a list, or an object of roles of the model's own. The older name of the list counts where
 * there is none, and not in the older file where tokenizer_config.json has one. The pieces of a SentencePiece model
 * take its place where it has not become the newer one. */
static mega_status read_extras(mega_folder_rules *r, const char *file, const json_t *root, bool is_older)
{
    static const char older[] = "additional_special_tokens";
    const json_t *extra = json_object_get(root, extra_key);
    const bool is_list = !json_is_object(extra) && extra != NULL && !json_is_null(extra);
    if (json_array_size(extra) > 0 || (is_list && !json_is_array(extra)))
        return folder_rules_read_list(r, file, extra_key, extra);
    if (r->has_extra || (r->has_pieces && (is_older || json_object_size(extra) > 0))) return MEGA_OK;
    return folder_rules_read_list(r, file, older, json_object_get(root, older));
}

/* "image_token": a role of the model's own. */
static bool is_own_role(const char *key)
{
    const size_t n = strlen(key);
    return n >= 6 && strcmp(key + n - 6, "_token") == 0 && !is_role(key);
}

/* `later` are the strings of tokenizer_config.json, or what it says in model_specific_special_tokens if it has none,
 * and an object of extra_special_tokens; `first` its objects, and all of special_tokens_map.json. */
static mega_status gather_named(json_t *first, json_t *later, json_t *config, json_t *map)
{
    const char *key;
    json_t *v, *specific = json_object_get(config, specific_key);
    int failed = 0;
    json_object_foreach(config, key, v) if (is_own_role(key) && json_is_string(v)) failed |=
        json_object_set(later, key, v);
    v = json_object_get(config, extra_key);
    if (json_is_object(v)) failed |= json_object_update(later, v);
    if (json_is_null(specific)) specific = NULL;
    if (specific != NULL && !json_is_object(specific))
        return folder_rules_mistake("tokenizer_config.json", specific_key, "an object of names and tokens");
    if (json_object_get(map, specific_key) != NULL)
        return folder_rules_mistake("special_tokens_map.json", specific_key,
                                    "no such key in this file; it is one of tokenizer_config.json");
    if (json_object_size(later) == 0 && specific != NULL) failed |= json_object_update(later, specific);
    json_object_foreach(config, key, v) if (is_own_role(key) && json_object_get(v, "__type") != NULL) failed |=
        json_object_set(first, key, v);
    json_object_foreach(map, key, v) if (is_own_role(key) && (json_is_string(v) || json_is_object(v))) failed |=
        json_object_set(first, key, v);
    v = json_object_get(map, extra_key);
    if (json_is_object(v)) failed |= json_object_update(later, v);
    if (json_object_size(later) > 0) failed |= json_object_update(first, later);
    return failed ? MEGA_NO_MEMORY("tokenizer_config.json", "its tokens") : MEGA_OK;
}

mega_status mega_rules_read_named(mega_folder_rules *r, json_t *config, json_t *map)
{
    static const char file[] = "tokenizer_config.json: a role of the model's own";
    json_t *first = json_object(), *later = json_object(), *v;
    const char *key;
    mega_status st = first != NULL && later != NULL ? gather_named(first, later, config, r->has_decoder ? NULL : map)
                                                    : MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", file);
    json_object_foreach(first, key, v)
    {
        if (st == MEGA_OK && is_role(key))
            st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                           "tokenizer_config.json: \"%s\" in %s or %s is not supported; say it outside of them", key,
                           specific_key, extra_key);
        if (st == MEGA_OK) st = folder_rules_add_token(&r->own_roles, file, key, v, true);
    }
    json_decref(first);
    json_decref(later);
    return st;
}

bool mega_json_id(const json_t *v)
{
    const double number = json_number_value(v);
    return json_is_number(v) && number >= 0 && number < MEGA_MAX_VOCABULARY && number == (double)(int64_t)number;
}

static mega_status read_decoder(mega_folder_rules *r, const char *file, json_t *list)
{
    const char *key;
    json_t *v;
    if (list == NULL || json_is_null(list)) return MEGA_OK;
    if (!json_is_object(list)) return folder_rules_mistake(file, "added_tokens_decoder", "an object of ids and tokens");
    r->has_decoder = true;
    json_object_foreach(list, key, v)
    {
        mega_rule_token token;
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (*end != '\0' || key[0] == '\0' || id < 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: added_tokens_decoder: '%s' is not an id", file, key);
        if (!json_is_object(v))
            return folder_rules_mistake(file, "added_tokens_decoder", "an object with \"content\" for each id");
        MEGA_TRY(read_token(file, "added_tokens_decoder", v, false, &token));
        token.id = id;
        token.at = (size_t)r->decoder.count;
        const mega_status st = mega_rule_tokens_append(&r->decoder, &token);
        token_fini(&token);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

/* added_tokens.json: token -> id. Those with a role are special. */
static mega_status read_added(mega_folder_rules *r, const char *file, json_t *root)
{
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v)
    {
        if (!mega_json_id(v)) return folder_rules_mistake(file, key, "its id, 0 or more");
        mega_rule_token token = {
            .content = (char *)(uintptr_t)key, .size = strlen(key), .id = (int64_t)json_number_value(v)};
        token.special = is_text_of_role(r, &token) || find(&r->more, &token) != NULL;
        token.normalized = !token.special;
        token.says_normalized = true;
        token.at = (size_t)r->decoder.count;
        MEGA_TRY(mega_rule_tokens_append(&r->decoder, &token));
    }
    return MEGA_OK;
}

static mega_status read_roles(mega_folder_rules *r, const char *file, const json_t *root)
{
    for (int i = 0; i < MEGA_ROLES; i++)
        MEGA_TRY(read_role(file, json_object_get(root, role_keys[i]), (mega_role)i, r));
    return MEGA_OK;
}

mega_status mega_rules_read_config(mega_folder_rules *r, json_t *root)
{
    static const char file[] = "tokenizer_config.json";
    MEGA_TRY(read_roles(r, file, root));
    MEGA_TRY(read_extras(r, file, root, false));
    return read_decoder(r, file, json_object_get(root, "added_tokens_decoder"));
}

/* The older files count where tokenizer_config.json has no added_tokens_decoder. */
mega_status mega_rules_read_older(mega_folder_rules *r, json_t *map, json_t *added)
{
    static const char file[] = "special_tokens_map.json";
    if (r->has_decoder) return MEGA_OK;
    if (map != NULL) {
        MEGA_TRY(read_roles(r, file, map));
        MEGA_TRY(read_extras(r, file, map, true));
    }
    return added == NULL ? MEGA_OK : read_added(r, "added_tokens.json", added);
}

/* What no file says, the class does. */
mega_status mega_rules_fill(mega_folder_rules *r)
{
    for (int i = 0; i < MEGA_ROLES; i++) {
        const char *name = mega_class_role(r->class, (mega_role)i);
        if (name == NULL) continue;
        MEGA_TRY(mega_rules_set_role(r, (mega_role)i, name, strlen(name), r->class_name));
    }
    for (int64_t i = 0; i < r->extra_ids && r->class == MEGA_CLASS_T5 && !r->has_extra; i++) {
        char name[40];
        mega_rule_token token = {.content = name, .id = -1, .special = true, .is_string = true};
        token.size = (size_t)snprintf(name, sizeof name, "<extra_id_%lld>", (long long)i);
        MEGA_TRY(mega_rule_tokens_append(&r->more, &token));
    }
    return MEGA_OK;
}

mega_status mega_rules_add(mega_folder_rules *r, const mega_rule_token *token)
{
    return find(&r->more, token) != NULL ? MEGA_OK : mega_rule_tokens_append(&r->more, token);
}

mega_status mega_rules_set_role(mega_folder_rules *r, mega_role role, const char *text, size_t n, const char *source)
{
    const mega_rule_token token = {
        .content = (char *)(uintptr_t)text, .size = n, .id = -1, .special = true, .is_string = true};
    if (r->role[role].source != NULL) return MEGA_OK;
    MEGA_TRY(token_copy(&r->role[role].token, &token));
    r->role[role].source = source;
    return MEGA_OK;
}

void mega_rules_fini(mega_folder_rules *r)
{
    for (int i = 0; i < MEGA_ROLES; i++) token_fini(&r->role[i].token);
    mega_rule_tokens_fini(&r->own_roles);
    mega_rule_tokens_fini(&r->more);
    mega_rule_tokens_fini(&r->decoder);
    mega_free(r->config);
    *r = (mega_folder_rules){0};
}
