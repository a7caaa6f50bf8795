/* Puts the steps of a folder's class in place of those of its tokenizer.json: `transformers` takes the vocabulary, the
 * merges and the tokens around a text from the file, and makes the rest anew. */
#include "megalith/json.h"
#include "tokenizer_json.h"
#include <jansson.h>
#include <string.h>

/* Finds the first Precompiled normalizer, by itself or in a Sequence: the only one that a class keeps. */
static mega_status find_precompiled(mega_cursor *c, size_t normalizer, size_t *begin, size_t *size)
{
    static const char *const keys[] = {"type", "normalizers"};
    size_t type = 0, list = 0;
    *size = 0;
    c->at = normalizer;
    if (normalizer == 0 || mega_cursor_null(c)) return MEGA_OK;
    MEGA_TRY(mega_json_members(c, keys, (size_t *const[]){&type, &list}, 2));
    const size_t end = c->at;
    c->at = type;
    if (type != 0) MEGA_TRY(mega_cursor_string(c));
    if (type != 0 && mega_cursor_string_is(c, "Precompiled")) {
        *begin = normalizer;
        *size = end - normalizer;
        return MEGA_OK;
    }
    if (list == 0 || !mega_cursor_string_is(c, "Sequence")) return MEGA_OK;
    c->at = list;
    MEGA_TRY(mega_cursor_open(c, '['));
    for (bool first = true, more; *size == 0;) {
        MEGA_TRY(mega_cursor_more(c, '[', &first, &more));
        if (!more) return MEGA_OK;
        mega_cursor_peek(c);
        const size_t at = c->at;
        size_t member = 0;
        MEGA_TRY(mega_json_members(c, keys, (size_t *const[]){&member, &list}, 1));
        const size_t member_end = c->at;
        c->at = member;
        if (member != 0) MEGA_TRY(mega_cursor_string(c));
        if (member != 0 && mega_cursor_string_is(c, "Precompiled")) {
            *begin = at;
            *size = member_end - at;
        }
        c->at = member_end;
    }
    return MEGA_OK;
}

/* Whether the file says all that a class says, whatever else it says (trim_offsets, …). */
static bool agrees(const json_t *class, const json_t *file)
{
    const char *key;
    json_t *v;
    bool same = json_typeof(class) == json_typeof(file);
    if (json_is_object(class)) json_object_foreach((json_t *)(uintptr_t) class, key, v)
        {
            const json_t *other = json_object_get(file, key);
            same = same && other != NULL && agrees(v, other);
        }
    else if (json_is_array(class)) {
        same = same && json_array_size(class) == json_array_size(file);
        for (size_t i = 0; same && i < json_array_size(class); i++)
            same = agrees(json_array_get(class, i), json_array_get(file, i));
    } else {
        same = same && json_equal(class, file);
    }
    return same;
}

/* Keeps the file's own step where it is the class's: the tokenizer is then the one that it was before classes
 * counted. */
static mega_status put_part(json_reader *r, size_t own, const mega_buffer *part, size_t *out)
{
    mega_buffer *whole = &r->whole;
    const size_t at = whole->size;
    json_error_t error;
    size_t end = own;
    *out = 0;
    if (own != 0) {
        r->c->at = own;
        MEGA_TRY(mega_cursor_skip(r->c));
        end = r->c->at;
    }
    if (own != 0 && part->size > 0) {
        json_t *class = mega_json_load(part->data, part->size, JSON_DECODE_ANY, &error);
        json_t *file = mega_json_load(r->c->text + own, end - own, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (class != NULL && file != NULL && agrees(class, file)) *out = own;
        json_decref(class);
        json_decref(file);
        const bool no_memory = class == NULL || (file == NULL && mega_json_status(&error) == MEGA_ERR_MEMORY);
        if (no_memory) return MEGA_NO_MEMORY(r->c->name, "its steps");
    }
    if (part->size == 0 || *out != 0) return MEGA_OK;
    mega_buffer_append(whole, part->data, part->size);
    mega_buffer_puts(whole, "\n");
    *out = at;
    return MEGA_OK;
}

/* The parts are written after the text, so that positions in the text stay valid. */
static mega_status append_parts(json_reader *r, json_layout *l, const mega_class_steps *s)
{
    mega_buffer_append(&r->whole, r->c->text, r->c->size);
    mega_buffer_puts(&r->whole, "\n");
    MEGA_TRY(put_part(r, l->normalizer, &s->normalizer, &l->normalizer));
    MEGA_TRY(put_part(r, l->pre_tokenizer, &s->pre_tokenizer, &l->pre_tokenizer));
    MEGA_TRY(put_part(r, l->decoder, &s->decoder, &l->decoder));
    MEGA_TRY(put_part(r, 0, &s->settings, &l->settings));
    MEGA_TRY(mega_buffer_check(&r->whole, r->c->name));
    r->c->text = r->whole.data;
    r->c->size = r->whole.size;
    return MEGA_OK;
}

mega_status mega_json_replace_steps(json_reader *r, json_layout *l)
{
    const mega_folder_rules *rules = r->rules;
    mega_class_steps steps = {{0}, {0}, {0}, {0}};
    size_t begin = 0, size;
    if (rules->class == MEGA_CLASS_FILE) return MEGA_OK;
    if (strcmp(l->model_type, mega_class_model(rules->class)) != 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "%s: its model is of type %s; %s: %s is for one of type %s: name PreTrainedTokenizerFast as "
                         "tokenizer_class to have the file read as it is",
                         r->c->name, l->model_type, rules->class_source, rules->class_name,
                         mega_class_model(rules->class));
    MEGA_TRY(find_precompiled(r->c, l->normalizer, &begin, &size));
    mega_status st = mega_class_write_steps(rules, size > 0 ? r->c->text + begin : NULL, size, &steps);
    if (st == MEGA_OK) st = append_parts(r, l, &steps);
    mega_class_steps_fini(&steps);
    return st;
}
