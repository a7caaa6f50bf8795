/* Reads what the files of a folder say of its tokens and roles, and orders the tokens that are added to a vocabulary. */
#include "folder_keys.h"
#include "json_cursor.h"
#include "megalith/file.h"
#include "megalith/json.h"
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
    if (out->content == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer: no memory for added tokens");
    memcpy(out->content, from->content, from->size);
    return MEGA_OK;
}

mega_status mega_rule_tokens_append(mega_rule_tokens *list, const mega_rule_token *token)
{
    mega_rule_token copy;
    MEGA_TRY(token_copy(&copy, token));
    if (!mega_array_add(&list->list, list->count, sizeof *list->list)) {
        token_fini(&copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer: no memory for added tokens");
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

mega_status mega_rule_tokens_put(mega_rule_tokens *list, const mega_rule_token *token)
{
    mega_rule_token *same = find(list, token);
    if (token->size == 0) return MEGA_OK;
    if (same == NULL) return mega_rule_tokens_append(list, token);
    same->special = token->special;
    same->normalized = token->normalized;
    same->lstrip = token->lstrip;
    same->rstrip = token->rstrip;
    same->single_word = token->single_word;
    return MEGA_OK;
}

static int by_id(const void *a, const void *b)
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

/* The tokens with an id, in its order, for those of a list whose own ids are what they are. */
static mega_status put_sorted(mega_rule_tokens *out, const mega_folder_rules *r, const mega_rule_tokens *own)
{
    mega_rule_tokens all = {0};
    mega_status st = MEGA_OK;
    const bool mixes = !r->has_decoder && r->decoder.count > 0;
    for (int i = 0; i < r->decoder.count && st == MEGA_OK; i++) st = mega_rule_tokens_append(&all, &r->decoder.list[i]);
    for (int i = 0; i < own->count && st == MEGA_OK && !r->has_decoder; i++)
        st = mixes ? put_by_id(&all, &own->list[i]) : mega_rule_tokens_append(&all, &own->list[i]);
    if (st == MEGA_OK && all.count > 0) qsort(all.list, (size_t)all.count, sizeof *all.list, by_id);
    for (int i = 0; i < all.count && st == MEGA_OK; i++) {
        mega_rule_token t = all.list[i];
        t.id = -1;
        st = mega_rule_tokens_put(out, &t);
    }
    mega_rule_tokens_fini(&all);
    return st;
}

static mega_status put_new(mega_rule_tokens *out, const mega_rule_token *token, bool plain)
{
    mega_rule_token t = *token;
    if (t.content == NULL || (!plain && find(out, &t) != NULL)) return MEGA_OK;
    t.id = -1;
    if (!plain) return mega_rule_tokens_put(out, &t);
    t.special = true;
    t.normalized = t.lstrip = t.rstrip = t.single_word = false;
    return mega_rule_tokens_put(out, &t);
}

/* Those of tokenizer.json first, where the class reads them from there; then those with an id in its order, then each role
 * that no token has yet, then the others. Qwen2's class adds its special tokens once more, without settings. */
mega_status mega_rules_tokens(const mega_folder_rules *r, const mega_rule_tokens *own, mega_rule_tokens *out)
{
    for (int i = 0; i < own->count && r->class == MEGA_CLASS_FILE; i++)
        MEGA_TRY(mega_rule_tokens_append(out, &own->list[i]));
    if (!r->has_config && r->class == MEGA_CLASS_FILE && r->decoder.count + r->more.count == 0) return MEGA_OK;
    MEGA_TRY(put_sorted(out, r, own));
    for (int again = 0; again < 1 + (r->class == MEGA_CLASS_QWEN2); again++) {
        for (int i = 0; i < MEGA_ROLES; i++) MEGA_TRY(put_new(out, &r->role[i].token, again > 0));
        for (int i = 0; i < r->more.count; i++) MEGA_TRY(put_new(out, &r->more.list[i], again > 0));
    }
    return MEGA_OK;
}

/* ---- files ---- */

static mega_status wrong(const char *file, const char *key, const char *expected)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: expected %s", file, key, expected);
}

/* A string, or an object with "content". A role makes its token special, whatever an object says. */
static mega_status read_token(const char *file, const char *key, const json_t *v, bool is_role, mega_rule_token *out)
{
    static const char *const flags[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
    const bool whole = json_is_object(v);
    const json_t *content = whole ? json_object_get(v, "content") : v;
    *out = (mega_rule_token){.id = -1, .special = is_role || !whole};
    if (!json_is_string(content)) return wrong(file, key, "a token: a string, or an object with \"content\"");
    bool *const to[] = {&out->special, &out->normalized, &out->lstrip, &out->rstrip, &out->single_word};
    for (size_t i = 0; i < sizeof flags / sizeof *flags && whole; i++) {
        const json_t *flag = json_object_get(v, flags[i]);
        if (i == 1) out->normalized = !out->special;
        if (flag == NULL || json_is_null(flag) || (i == 0 && is_role)) continue;
        if (!json_is_boolean(flag))
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: %s: \"%s\" of a token: expected true or false", file, key, flags[i]);
        *to[i] = json_is_true(flag);
    }
    out->size = json_string_length(content);
    out->content = mega_calloc(out->size + 1, 1);
    if (out->content == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory for a token", file);
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

static mega_status add_more(mega_folder_rules *r, const char *file, const char *key, const json_t *v, bool is_role)
{
    mega_rule_token token;
    MEGA_TRY(read_token(file, key, v, is_role, &token));
    const mega_status st = find(&r->more, &token) != NULL ? MEGA_OK : mega_rule_tokens_append(&r->more, &token);
    token_fini(&token);
    return st;
}

static bool is_role(const char *key)
{
    bool is = false;
    for (int i = 0; i < MEGA_ROLES; i++) is = is || strcmp(key, role_keys[i]) == 0;
    return is;
}

/* "image_token": a role of the model's own. */
static mega_status read_own_roles(mega_folder_rules *r, const char *file, json_t *root)
{
    const char *key;
    json_t *v;
    for (int typed = 1; typed >= 0; typed--) json_object_foreach(root, key, v)
        {
            const size_t n = strlen(key);
            if (n < 6 || strcmp(key + n - 6, "_token") != 0 || is_role(key)) continue;
            if (typed ? json_is_object(v) && json_object_get(v, "__type") != NULL : json_is_string(v))
                MEGA_TRY(add_more(r, file, key, v, true));
        }
    return MEGA_OK;
}

static mega_status read_list(mega_folder_rules *r, const char *file, const char *key, const json_t *list)
{
    size_t i;
    json_t *v;
    if (list == NULL || json_is_null(list)) return MEGA_OK;
    if (!json_is_array(list)) return wrong(file, key, "a list of tokens");
    json_array_foreach(list, i, v) MEGA_TRY(add_more(r, file, key, v, false));
    r->has_extra = true;
    return MEGA_OK;
}

/* "extra_special_tokens": a list, or an object of roles of the model's own. The older name of the list counts where there is
 * none, and not in the older file where tokenizer_config.json has one. */
static mega_status read_extras(mega_folder_rules *r, const char *file, const json_t *root)
{
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    json_t *extra = json_object_get(root, keys[0]), *v;
    const char *name;
    if (json_is_object(extra)) json_object_foreach(extra, name, v) MEGA_TRY(add_more(r, file, keys[0], v, true));
    else if (json_array_size(extra) > 0 || (extra != NULL && !json_is_null(extra) && !json_is_array(extra)))
        return read_list(r, file, keys[0], extra);
    return r->has_extra ? MEGA_OK : read_list(r, file, keys[1], json_object_get(root, keys[1]));
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
    if (!json_is_object(list)) return wrong(file, "added_tokens_decoder", "an object of ids and tokens");
    r->has_decoder = true;
    json_object_foreach(list, key, v)
    {
        mega_rule_token token;
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (*end != '\0' || key[0] == '\0' || id < 0)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: added_tokens_decoder: '%s' is not an id", file, key);
        if (!json_is_object(v)) return wrong(file, "added_tokens_decoder", "an object with \"content\" for each id");
        MEGA_TRY(read_token(file, "added_tokens_decoder", v, false, &token));
        token.id = id;
        token.at = (size_t)r->decoder.count;
        const mega_status st = mega_rule_tokens_append(&r->decoder, &token);
        token_fini(&token);
        MEGA_TRY(st);
    }
    return MEGA_OK;
}

static bool has_role(const mega_folder_rules *r, const mega_rule_token *token)
{
    bool has = find(&r->more, token) != NULL;
    for (int i = 0; i < MEGA_ROLES; i++) {
        const mega_rule_token *t = &r->role[i].token;
        has = has || (r->role[i].source != NULL && t->content != NULL && t->size == token->size &&
                      memcmp(t->content, token->content, t->size) == 0);
    }
    return has;
}

/* added_tokens.json: token -> id. Those with a role are special. */
static mega_status read_added(mega_folder_rules *r, const char *file, json_t *root)
{
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v)
    {
        if (!mega_json_id(v)) return wrong(file, key, "its id, 0 or more");
        mega_rule_token token = {
            .content = (char *)(uintptr_t)key, .size = strlen(key), .id = (int64_t)json_number_value(v)};
        token.special = has_role(r, &token);
        token.normalized = !token.special;
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
    MEGA_TRY(read_own_roles(r, file, root));
    MEGA_TRY(read_extras(r, file, root));
    return read_decoder(r, file, json_object_get(root, "added_tokens_decoder"));
}

/* The older files count where tokenizer_config.json has no added_tokens_decoder. */
mega_status mega_rules_read_older(mega_folder_rules *r, json_t *map, json_t *added)
{
    static const char file[] = "special_tokens_map.json";
    if (r->has_decoder) return MEGA_OK;
    if (map != NULL) {
        MEGA_TRY(read_roles(r, file, map));
        MEGA_TRY(read_own_roles(r, file, map));
        MEGA_TRY(read_extras(r, file, map));
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
        mega_rule_token token = {.content = name, .id = -1, .special = true};
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
    const mega_rule_token token = {.content = (char *)(uintptr_t)text, .size = n, .id = -1, .special = true};
    if (r->role[role].source != NULL) return MEGA_OK;
    MEGA_TRY(token_copy(&r->role[role].token, &token));
    r->role[role].source = source;
    return MEGA_OK;
}

void mega_rules_fini(mega_folder_rules *r)
{
    for (int i = 0; i < MEGA_ROLES; i++) token_fini(&r->role[i].token);
    mega_rule_tokens_fini(&r->more);
    mega_rule_tokens_fini(&r->decoder);
    mega_free(r->config);
    *r = (mega_folder_rules){0};
}
