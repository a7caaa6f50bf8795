/* RACE: each line of a .txt file is a JSON object with an article, questions, four answers to each, and which of them
 * is right. A sample is a question, a sequence each of its answers. */
#include "labelled.h"
#include "megalith/file.h"
#include "megalith/json.h"

#include <jansson.h>
#include <string.h>

typedef struct race {
    labelled_reader *r;
    const char *path;
    int64_t line;
    mega_buffer text;
} race;

static mega_status race_refuse(const race *f, const char *what)
{
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s:%lld: %s; expected RACE's objects: {\"article\": …, \"questions\": [\"…\"], \"options\": "
                     "[[four texts]], \"answers\": [\"A\" to \"D\"]}",
                     f->path, (long long)f->line, what);
}

/* The answer replaces each underscore of the question. Without one, it follows the question. */
static mega_status put_answer(race *f, const char *question, const char *answer)
{
    const bool has_gap = strchr(question, '_') != NULL;
    f->text.size = 0;
    for (const char *c = question; *c != '\0'; c++) {
        if (*c == '_') mega_buffer_puts(&f->text, answer);
        else
            mega_buffer_append(&f->text, c, 1);
    }
    if (!has_gap) {
        mega_buffer_puts(&f->text, " ");
        mega_buffer_puts(&f->text, answer);
    }
    return mega_buffer_check(&f->text, "a question of RACE");
}

static mega_status add_question(race *f, const char *question, const json_t *answers, const char *right)
{
    labelled_reader *r = f->r;
    if (question == NULL || right == NULL || json_array_size(answers) != MEGA_LABELLED_CHOICES)
        return race_refuse(f, "a question without its text, its four answers or the right one");
    if (right[0] < 'A' || right[0] >= 'A' + MEGA_LABELLED_CHOICES || right[1] != '\0')
        return race_refuse(f, "a right answer that is none of A, B, C and D");
    for (size_t i = 0; i < MEGA_LABELLED_CHOICES; i++) {
        const char *answer = json_string_value(json_array_get(answers, i));
        if (answer == NULL) return race_refuse(f, "an answer that is no text");
        MEGA_TRY(put_answer(f, question, answer));
        r->first.count = 0;
        MEGA_TRY(labelled_encode(r, f->text.data, f->text.size, &r->first));
        if (r->first.count > MEGA_LABELLED_LARGEST_ANSWER) r->first.count = MEGA_LABELLED_LARGEST_ANSWER;
        MEGA_TRY(labelled_add(r, &r->first, &r->second));
    }
    return labelled_add_label(r, right[0] - 'A');
}

static mega_status add_object(race *f, const json_t *json)
{
    const char *article = json_string_value(json_object_get(json, "article"));
    const json_t *questions = json_object_get(json, "questions"), *options = json_object_get(json, "options"),
                 *answers = json_object_get(json, "answers");
    const size_t count = json_array_size(questions);
    if (article == NULL || !json_is_array(questions) || json_array_size(options) != count ||
        json_array_size(answers) != count)
        return race_refuse(f, "an article or questions without options and answers");
    f->r->second.count = 0;
    MEGA_TRY(labelled_encode(f->r, article, strlen(article), &f->r->second));
    for (size_t i = 0; i < count; i++)
        MEGA_TRY(add_question(f, json_string_value(json_array_get(questions, i)), json_array_get(options, i),
                              json_string_value(json_array_get(answers, i))));
    return MEGA_OK;
}

static mega_status add_line(void *user, int64_t line, const char *text, size_t bytes)
{
    race *f = user;
    json_error_t error;
    if (bytes == 0) return MEGA_OK;
    f->line = line;
    json_t *json = mega_json_load(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL && json_error_code(&error) == json_error_null_character)
        return race_refuse(f, "a zero character (\\u0000) in a text");
    if (json == NULL && json_error_code(&error) == json_error_duplicate_key)
        return race_refuse(f, "a key that the object has twice");
    if (json == NULL)
        return MEGA_FAIL(mega_json_status(&error), "%s:%lld: %s; expected a JSON object", f->path, (long long)f->line,
                         error.text);
    const mega_status st = add_object(f, json);
    json_decref(json);
    return st;
}

static mega_status read_file(labelled_reader *r, const char *path)
{
    race f = {.r = r, .path = path};
    const mega_status st = labelled_lines(r, path, add_line, &f);
    mega_buffer_fini(&f.text);
    return st;
}

static bool is_of_race(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".txt") == 0;
}

mega_status labelled_read_race(labelled_reader *r, const char *path)
{
    mega_names names = {0};
    if (!mega_folder_exists(path)) return read_file(r, path);
    MEGA_TRY(mega_folder_list(path, &names));
    mega_status st = MEGA_OK;
    for (size_t i = 0; i < names.count && st == MEGA_OK; i++) {
        if (!is_of_race(names.name[i])) continue;
        char *file = mega_path_join(path, names.name[i]);
        st = file != NULL ? read_file(r, file) : MEGA_NO_MEMORY(path, "a path");
        mega_free(file);
    }
    mega_names_fini(&names);
    return st;
}
