/* Reads options from a DeepSpeed JSON, or from Accelerate's YAML after it has been converted to JSON. The tree that
 * jansson builds has no line numbers, so a cursor walks over the text in parallel: members of an object are in the tree
 * in the order of the text, which is known to be valid, so that what the cursor returns is ignored. */
#include "config_impl.h"
#include "json_values.h"
#include "megalith/json.h"
#include "megalith/json_cursor.h"
#include "megalith/log.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_PATH = 200, MOST_MISTAKES = 64 };

/* A key that was given but changes nothing, and the reason. */
typedef struct idle_key {
    const char *path, *reason;
} idle_key;

typedef struct json_reader {
    mega_options *o;
    const char *name; /* of the file, for messages */
    mega_option_source source;
    json_key_walk keys; /* before the first known key */
    mega_cursor cursor;
    size_t counted; /* line ends of the text before it are counted in `line` */
    int line;
    size_t mistakes;
    idle_key idle[128];
    size_t num_idle;
    bool passes_unknown; /* keys at the top that are not known are no mistakes */
} json_reader;

/* A key and its value, as they are in the text. */
typedef struct json_item {
    char path[LONGEST_PATH];
    int line;
    json_t *value;
} json_item;

/* ---- mistakes ---- */

/* Returns the location of a key for messages: "\"zero_optimization.stage\" (ds.json, line 7)". */
static const char *place(json_reader *r, const json_item *item)
{
    return mega_options_text(r->o, "\"%s\" (%s, line %d)", item->path, r->name, item->line);
}

static void problem(json_reader *r, mega_status status, const char *text)
{
    if (r->mistakes++ < MOST_MISTAKES) mega_options_problem(r->o, status, "%s", text);
}

static void wrong_kind(json_reader *r, const json_item *item, const char *expected)
{
    problem(
        r, USAGE,
        mega_options_text(r->o, "%s: found %s, expected %s", place(r, item), json_shown(r->o, item->value), expected));
}

/* ---- what a key sets ---- */

static const char *printed(mega_options *o, size_t index)
{
    mega_buffer b = {0};
    const char *text = "";
    if (mega_value_print(o, index, &b)) text = mega_options_text(o, "%s", b.data);
    else
        o->out_of_memory = true;
    mega_buffer_fini(&b);
    return text;
}

/* Keeps the value that another source has already set for the option. If the value given here differs, that is a
 * warning, or a mistake if both values are in this JSON. */
static void keep_other(json_reader *r, const json_item *item, size_t index, const char *value)
{
    mega_options *o = r->o;
    option_entry *entry = &o->entry[index];
    char dest[80];
    if (strcmp(printed(o, index), value) == 0) {
        entry->agreeing |= 1U << r->source;
        return;
    }
    const char *here =
        mega_options_text(o, "\"%s\" %s (%s, line %d)", item->path, json_shown(o, item->value), r->name, item->line);
    const char *there = mega_options_origin(o, mega_option_dest(row_at(o, index), dest));
    if (entry->source == r->source)
        problem(r, USAGE, mega_options_text(o, "%s and %s contradict each other; give one", there, here));
    else if (entry->source == MEGA_SET_BY_DERIVATION)
        mega_warn("%s counts, which says %s; %s does not", o->table.composition->derived_by, printed(o, index), here);
    else
        mega_warn("%s counts; %s does not", there, here);
}

/* Checks texts against the row's kind and range; reports the first that does not fit. */
static bool checks_values(json_reader *r, const json_item *item, const mega_option_row *row, const char *const *texts,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *reason = mega_value_check(r->o, row, texts[i]);
        if (reason == NULL) continue;
        problem(r, USAGE, mega_options_text(r->o, "%s: %s", place(r, item), reason));
        return false;
    }
    return true;
}

/* A value of the JSON replaces one of the YAML, `kept`, with a warning if they differ. Returns whether they agree. */
static bool agrees_with_yaml(json_reader *r, const json_item *item, size_t index, const void *kept, size_t size)
{
    mega_options *o = r->o;
    char dest[80];
    unsigned char now[sizeof(int64_t[3])];
    const char *value = printed(o, index);
    memcpy(now, mega_value_at(o, index), size);
    memcpy(mega_value_at(o, index), kept, size);
    const bool agrees = strcmp(printed(o, index), value) == 0;
    if (!agrees)
        mega_warn("\"%s\" %s (%s, line %d) counts; %s does not", item->path, json_shown(o, item->value), r->name,
                  item->line, mega_options_origin(o, mega_option_dest(row_at(o, index), dest)));
    memcpy(mega_value_at(o, index), now, size);
    return agrees;
}

static void set_option(json_reader *r, const json_item *item, size_t index, const char *const *texts, size_t count)
{
    mega_options *o = r->o;
    const mega_option_row *row = row_at(o, index);
    option_entry *entry = &o->entry[index];
    unsigned char kept[sizeof(int64_t[3])] = {0};
    unsigned agreeing = 0;
    const size_t size = row->kind == MEGA_OPTION_INT3                                   ? sizeof kept
                        : json_takes_list(row->kind)                                    ? sizeof(mega_list)
                        : row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF ? sizeof(bool)
                        : row->kind == MEGA_OPTION_CHOICE                               ? sizeof(int)
                                                                                        : sizeof(int64_t);
    entry->is_wrong = entry->is_wrong || !checks_values(r, item, row, texts, count);
    if (entry->is_wrong) return;
    memcpy(kept, mega_value_at(o, index), size);
    if (mega_value_set_list(o, index, texts, count) != MEGA_OK) {
        options_problem_from_error(o);
        return;
    }
    if (entry->source == MEGA_SET_BY_YAML && r->source == MEGA_SET_BY_JSON) {
        if (agrees_with_yaml(r, item, index, kept, size)) agreeing = 1U << MEGA_SET_BY_YAML;
    } else if (entry->source != MEGA_SET_BY_DEFAULT) {
        const char *value = printed(o, index);
        memcpy(mega_value_at(o, index), kept, size);
        keep_other(r, item, index, value);
        return;
    }
    const char *key = mega_options_text(o, "\"%s\"", item->path);
    *entry =
        (option_entry){r->source, item->line, key, json_shown(o, item->value), false, entry->called, false, agreeing};
}

/* Notes a key that changes nothing; not if it only switches something off. */
static void add_idle(json_reader *r, const json_item *item, const char *text, const mega_option_row *row)
{
    options_note_not_on_gpu(r->o, row, place(r, item), text);
    if (mega_option_word_in("false|none|no", text, NULL) || r->num_idle == ROW_COUNT(r->idle)) return;
    r->idle[r->num_idle++] = (idle_key){mega_options_text(r->o, "\"%s\"", item->path), row->remark};
}

/* Sets the option whose name is the first `length` bytes of `name`. */
static void set_named(json_reader *r, const json_item *item, const char *name, size_t length, const char *const *texts,
                      size_t count)
{
    set_option(r, item, mega_option_find(&r->o->table, name, length, mega_options_command_bit(r->o)), texts, count);
}

/* For a word that the row's cases do not have. */
static void refuse_word(json_reader *r, const json_item *item, const mega_option_row *row, const char *word,
                        const char *names)
{
    const char *said = place(r, item), *ignored, *same = json_case_of(r->o, row, word, true, &ignored);
    if (json_is_boolean(item->value))
        problem(r, MEGA_ERR_USAGE,
                mega_options_text(r->o, "%s: found %s, expected one of these words: %s (%s)", said,
                                  json_shown(r->o, item->value), names, row->remark));
    else if (same != NULL)
        problem(r, MEGA_ERR_USAGE,
                mega_options_text(r->o, "%s: found \"%.60s\", expected \"%.*s\" in these letters (%s)", said, word,
                                  (int)strlen(word), same - strlen(word) - 1, row->remark));
    else
        problem(r, MEGA_ERR_UNSUPPORTED,
                mega_options_text(r->o, "%s: \"%.60s\" is not implemented yet; known are %s (%s)", said, word, names,
                                  row->remark));
}

/* Sets an option according to the value, given cases such as "Adam:optimizer=adam|=SGD:optimizer=sgd|none:". */
static void set_by_case(json_reader *r, const json_item *item, const mega_option_row *row, const char *value)
{
    const char *names = "", *at = json_case_of(r->o, row, value, false, &names);
    if (at == NULL) {
        refuse_word(r, item, row, value, names);
        return;
    }
    const size_t all = strcspn(at, "|"), option = strcspn(at, "=|");
    const char *const one[1] = {
        mega_options_text(r->o, "%.*s", option < all ? (int)(all - option - 1) : 0, at + option + 1)};
    if (option < all) set_named(r, item, at, option, one, 1);
    else
        add_idle(r, item, value, row);
}

/* Keeps the text of a value for rules that ask for it (mega_options_json_value). */
static void note_given(json_reader *r, const json_item *item, const char *text)
{
    mega_options *o = r->o;
    if (!mega_array_reserve(&o->given, &o->given_capacity, (int64_t)o->num_given + 1, sizeof *o->given)) {
        o->out_of_memory = true;
        return;
    }
    o->given[o->num_given++] = (json_given){mega_options_text(o, "%s", item->path), text};
}

static void take_yaml(json_reader *r, const json_item *item, const json_key_walk *key, const char *const *texts,
                      size_t count);

static void take_leaf(json_reader *r, const json_item *item, const json_key_walk *key)
{
    const mega_option_row *row = key->row;
    const char **texts = mega_arena_alloc(&r->o->arena, (json_array_size(item->value) + 1) * sizeof *texts);
    const size_t count = texts != NULL ? json_value_texts(r->o, r->keys.is_yaml, row, item->value, texts) : 0;
    if (texts == NULL) {
        r->o->out_of_memory = true;
        return;
    }
    if (count == 0) {
        wrong_kind(r, item, json_expected(row->kind));
        return;
    }
    if (r->keys.is_yaml) {
        take_yaml(r, item, key, texts, count);
        return;
    }
    note_given(r, item, texts[0]);
    switch (row->answer) {
    case MEGA_ANSWER_WORKS: set_option(r, item, key->index, texts, count); break;
    case MEGA_ANSWER_RENAMED:
        if (row->cases != NULL) set_by_case(r, item, row, texts[0]);
        else
            set_named(r, item, row->successor, strlen(row->successor), texts, count);
        break;
    case MEGA_ANSWER_NO_EFFECT:
        if (checks_values(r, item, row, texts, count)) add_idle(r, item, texts[0], row);
        break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
    case MEGA_ANSWER_REFUSED:
        if (!checks_values(r, item, row, texts, count) || mega_value_is_neutral(row, texts[0])) break;
        problem(r, MEGA_ERR_UNSUPPORTED,
                mega_options_text(r->o, "%s: %s is %s: %s", place(r, item), json_shown(r->o, item->value),
                                  row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet", row->remark));
        break;
    }
}

/* ---- the YAML: its keys are also names of options that have another name here ---- */

static void take_as(json_reader *r, const json_item *item, size_t index, const mega_option_row *row,
                    const char *const *texts, size_t count, int depth);

/* Sets "a=1;b": a to 1, b to the value; `texts` for a part without '='. */
static void take_parts(json_reader *r, const json_item *item, const char *parts, const char *const *texts, size_t count,
                       int depth)
{
    const uint32_t command = mega_options_command_bit(r->o);
    for (const char *part = parts; *part != '\0' && *part != '|';) {
        const size_t length = strcspn(part, ";|"), name = strcspn(part, "=;|");
        const char *one[1] = {name < length ? mega_options_text(r->o, "%.*s", (int)(length - name - 1), part + name + 1)
                                            : "true"};
        const size_t index = mega_option_find(&r->o->table, part, name, command);
        const bool is_fixed = name < length || texts == NULL;
        if (index != SIZE_MAX)
            take_as(r, item, index, row_at(r->o, index), is_fixed ? one : texts, is_fixed ? 1 : count, depth + 1);
        part += length + (part[length] == ';');
    }
}

static void take_renamed(json_reader *r, const json_item *item, const mega_option_row *row, const char *const *texts,
                         size_t count, int depth)
{
    const bool is_switch = row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_BOOL;
    const char *names = "", *parts = row->cases != NULL
                                         ? json_case_of(r->o, row, texts[0], json_is_boolean(item->value), &names)
                                         : NULL;
    if (row->cases != NULL && parts != NULL) options_note_not_on_gpu(r->o, row, place(r, item), texts[0]);
    if (row->cases != NULL && parts == NULL) refuse_word(r, item, row, texts[0], names);
    else if (parts != NULL)
        take_parts(r, item, parts, NULL, 0, depth);
    else if (!is_switch || strcmp(texts[0], "false") != 0)
        take_parts(r, item, row->successor, is_switch ? NULL : texts, count, depth);
}

/* Applies a value under the name of an option, which may be another name for one, or an option without effect. */
static void take_as(json_reader *r, const json_item *item, size_t index, const mega_option_row *row,
                    const char *const *texts, size_t count, int depth)
{
    mega_options *o = r->o;
    const bool is_switch = row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF;
    if (depth > 4) return;
    switch (row->answer) {
    case MEGA_ANSWER_WORKS: set_option(r, item, index, texts, count); break;
    case MEGA_ANSWER_RENAMED: take_renamed(r, item, row, texts, count, depth); break;
    case MEGA_ANSWER_NO_EFFECT:
        if (!checks_values(r, item, row, texts, count)) break;
        options_note_not_on_gpu(o, row, place(r, item), texts[0]);
        if (row->remark == NULL || strcmp(texts[0], "false") == 0 || r->num_idle == ROW_COUNT(r->idle)) break;
        if (row->neutral != NULL && mega_value_is_neutral(row, texts[0])) break;
        r->idle[r->num_idle++] = (idle_key){mega_options_text(o, "\"%s\"", item->path), row->remark};
        break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
    case MEGA_ANSWER_REFUSED:
        if (is_switch && strcmp(texts[0], "false") == 0) break;
        if (mega_value_is_neutral(row, texts[0]) || (row->neutral != NULL && row->neutral[0] == '=')) break;
        problem(r, MEGA_ERR_UNSUPPORTED,
                mega_options_text(o, "%s: %s is %s: %s", place(r, item), json_shown(o, item->value),
                                  row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet", row->remark));
        break;
    }
}

/* A switch --no-x that is given by its own name in the YAML: true means x is off. */
static void take_yaml(json_reader *r, const json_item *item, const json_key_walk *key, const char *const *texts,
                      size_t count)
{
    const bool is_off = key->row->kind == MEGA_OPTION_OFF && key->row->answer == MEGA_ANSWER_WORKS && !key->is_setting;
    const char *const opposite[1] = {strcmp(texts[0], "true") == 0 ? "false" : "true"};
    take_as(r, item, key->index, key->row, is_off ? opposite : texts, count, 0);
}

/* ---- the tree ---- */

static void visit_object(json_reader *r, json_t *object, const char *path);

/* Returns the number of the line in which the next key or value is. */
static int line_here(json_reader *r)
{
    (void)mega_cursor_peek(&r->cursor);
    for (; r->counted < r->cursor.at; r->counted++) r->line += r->cursor.text[r->counted] == '\n';
    return r->line;
}

/* Visits the elements of an array as keys of their own: "optimizer.params.betas[0]". */
static void visit_array(json_reader *r, const json_item *array)
{
    const size_t count = json_array_size(array->value);
    json_key_walk key;
    char path[LONGEST_PATH];
    snprintf(path, sizeof path, "%.*s[%zu]", LONGEST_PATH - 24, array->path, count);
    if (mega_key_find(&r->keys, path, &key)) wrong_kind(r, array, "more values");
    bool is_first = true, is_more;
    MEGA_IGNORE(mega_cursor_open(&r->cursor, '['));
    for (size_t i = 0; i < count; i++) {
        json_item item = {.value = json_array_get(array->value, i)};
        MEGA_IGNORE(mega_cursor_more(&r->cursor, '[', &is_first, &is_more));
        item.line = line_here(r);
        snprintf(item.path, sizeof item.path, "%.*s[%zu]", LONGEST_PATH - 24, array->path, i);
        if (!mega_key_find(&r->keys, item.path, &key)) {
            wrong_kind(r, array, "fewer values");
            i = count;
        } else if (!json_is_null(item.value)) {
            take_leaf(r, &item, &key);
        }
        MEGA_IGNORE(mega_cursor_skip(&r->cursor));
    }
}

/* An empty list lists nothing. In a YAML "none" is the name of no file. */
static bool is_not_given(const json_t *value, const mega_option_row *row, bool is_yaml)
{
    const char *text = json_string_value(value);
    if (json_is_array(value) && json_array_size(value) == 0 && row != NULL && row->kind != MEGA_OPTION_INT3)
        return json_takes_list(row->kind) || row->kind == MEGA_OPTION_ANY;
    if (text != NULL && is_yaml && row != NULL && row->kind == MEGA_OPTION_STRING && row->choices == NULL &&
        row->answer == MEGA_ANSWER_WORKS && strcmp(text, "none") == 0)
        return true;
    return json_is_null(value) || (text != NULL && strcmp(text, "auto") == 0);
}

/* Visits one value, before which the cursor is; it is moved past it. */
static void visit(json_reader *r, const json_item *item, bool is_plain)
{
    json_key_walk key, first;
    char element[LONGEST_PATH + 4];
    const size_t at = r->cursor.at;
    const bool is_known = is_plain && mega_key_find(&r->keys, item->path, &key);
    const bool has_below = is_plain && mega_key_has_below(&r->keys, item->path);
    snprintf(element, sizeof element, "%s[0]", item->path);
    const bool takes_array = is_plain && !is_known && mega_key_find(&r->keys, element, &first);
    if (!is_known && !has_below && is_plain && strchr(item->path, '.') == NULL && r->passes_unknown) {
        mega_warn("%s is not a key of a configuration%s: passed over", place(r, item),
                  mega_key_near(r->o, &r->keys, item->path));
    } else if (!is_known && !has_below) {
        problem(r, USAGE,
                mega_options_text(r->o, "%s is not a key of a configuration%s", place(r, item),
                                  is_plain ? mega_key_near(r->o, &r->keys, item->path) : ""));
    } else if (is_not_given(item->value, is_known ? key.row : NULL, r->keys.is_yaml)) {
        if (is_known && key.row->answer == MEGA_ANSWER_WORKS)
            r->o->entry[key.index].is_auto = json_is_string(item->value);
    } else if (has_below && json_is_object(item->value)) {
        visit_object(r, item->value, item->path);
    } else if (takes_array && json_is_array(item->value)) {
        visit_array(r, item);
    } else if (is_known && (!has_below || json_is_boolean(item->value))) {
        take_leaf(r, item, &key);
    } else {
        wrong_kind(r, item, takes_array ? "an array" : "an object in braces");
    }
    r->cursor.at = at;
    MEGA_IGNORE(mega_cursor_skip(&r->cursor));
}

static void visit_object(json_reader *r, json_t *object, const char *path)
{
    const char *name;
    json_t *value;
    bool is_first = true, is_more;
    MEGA_IGNORE(mega_cursor_open(&r->cursor, '{'));
    json_object_foreach(object, name, value)
    {
        MEGA_IGNORE(mega_cursor_more(&r->cursor, '{', &is_first, &is_more));
        json_item item = {.line = line_here(r), .value = value};
        /* a name that contains a dot would be confused with a path */
        const bool is_plain = strpbrk(name, ".[|") == NULL && strlen(path) + strlen(name) + 2 < sizeof item.path;
        snprintf(item.path, sizeof item.path, "%.120s%s%.70s", path, path[0] != '\0' ? "." : "", name);
        MEGA_IGNORE(mega_cursor_key(&r->cursor));
        if (r->mistakes < MOST_MISTAKES) visit(r, &item, is_plain);
        else
            MEGA_IGNORE(mega_cursor_skip(&r->cursor));
    }
}

static void note_idle(json_reader *r)
{
    for (size_t i = 0; i < r->num_idle; i++) {
        const char *reason = r->idle[i].reason, *names = "";
        bool told = false;
        for (size_t j = 0; j < r->num_idle; j++) {
            if (strcmp(r->idle[j].reason, reason) != 0) continue;
            told = told || j < i;
            names = mega_options_text(r->o, "%s%s%s", names, names[0] != '\0' ? ", " : "", r->idle[j].path);
        }
        if (!told) mega_warn("no effect here: %s: %s", names, reason);
    }
}

/* Returns what to say of a token that Python prints and JSON does not have. */
static const char *hint_of(const json_error_t *error)
{
    static const struct {
        const char *found, *hint;
    } row[] = {
        {"'}' expected", "; or a comma is missing before it"},
        {"'Infinity'",
         "; JSON has no Infinity, which Python's json module writes: leave the key out, or give a number"},
        {"'NaN'", "; JSON has no NaN, which Python's json module writes: leave the key out, or give a number"},
        {"near '-'", "; JSON has neither -Infinity nor a minus without digits: leave the key out, or give a number"},
        {"'True'", "; JSON writes true"},
        {"'False'", "; JSON writes false"},
        {"'None'", "; JSON writes null"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strstr(error->text, row[i].found) != NULL) return row[i].hint;
    return "";
}

void options_read_text(mega_options *o, const char *name, bool is_yaml, const char *text, size_t size)
{
    json_error_t error;
    char *copy = NULL;
    json_t *tree = options_load_tree(o, name, &text, &size, &copy, &error);
    if (tree == NULL || !json_is_object(tree)) {
        const mega_status st = tree == NULL ? mega_json_status(&error) : MEGA_ERR_FORMAT;
        o->json_is_unread = true;
        mega_options_problem(
            o, st, "%s: line %d, column %d: %s%s", name, tree != NULL ? 1 : error.line, tree != NULL ? 1 : error.column,
            tree != NULL ? "expected an object in braces" : error.text, tree != NULL ? "" : hint_of(&error));
    } else {
        const mega_composition *composition = o->table.composition;
        json_reader r = {
            .o = o,
            .name = name,
            .source = is_yaml ? MEGA_SET_BY_YAML : MEGA_SET_BY_JSON,
            .keys = {.is_yaml = is_yaml, .options = {.table = &o->table}, .command = mega_options_command_bit(o)},
            .line = 1};
        mega_cursor_init(&r.cursor, name, text, size);
        r.passes_unknown = !is_yaml && composition->passes_unknown != NULL && composition->passes_unknown(o);
        visit_object(&r, tree, "");
        note_idle(&r);
        mega_cursor_fini(&r.cursor);
    }
    json_decref(tree);
    mega_free(copy);
}
