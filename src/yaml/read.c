/* Reads a YAML as JSON, with the same lines. Only what a configuration needs: mappings, sequences, words, numbers. */
#include "yaml_impl.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 24, MOST_KEYS = 1000, MOST_MISTAKES = 50 };

typedef struct yaml_reader {
    yaml_parser_t parser;
    const char *name;
    mega_buffer *out;
    int line; /* of the JSON so far */
    int mistakes;
    bool is_over; /* the rest cannot be read */
    mega_yaml_mistake *mistake;
    void *user;
} yaml_reader;

__attribute__((format(printf, 3, 4))) static void mistaken(yaml_reader *r, size_t line, const char *fmt, ...)
{
    char text[1024];
    const int n = snprintf(text, sizeof text, "%.300s, line %zu: ", r->name, line + 1);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    if (r->mistakes++ < MOST_MISTAKES) r->mistake(r->user, text);
    else
        r->is_over = true;
}

/* libyaml's own words, and what they mean here. */
static void syntax_mistake(yaml_reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem != NULL ? p->problem : "it cannot be read";
    const size_t line = p->error == YAML_READER_ERROR ? 0 : p->problem_mark.line;
    const bool is_tab = strstr(problem, "cannot start any token") != NULL || strstr(problem, "tab") != NULL;
    mistaken(r, line, "%s%s%s", problem, p->error == YAML_READER_ERROR ? " (UTF-8 is expected)" : "",
             is_tab ? " (a tab? YAML is indented by spaces alone)" : "");
    r->is_over = true;
}

/* Reads the next event; false at a mistake in the text. The caller deletes the event. */
static bool next(yaml_reader *r, yaml_event_t *event)
{
    if (r->is_over) return false;
    if (yaml_parser_parse(&r->parser, event)) return true;
    if (r->parser.error == YAML_MEMORY_ERROR) r->out->failed = r->is_over = true;
    else
        syntax_mistake(r);
    return false;
}

static void to_line(yaml_reader *r, size_t line)
{
    for (; r->line < (int)line; r->line++) mega_buffer_puts(r->out, "\n");
}

static bool has_anchor(yaml_reader *r, const yaml_event_t *e)
{
    const bool is_scalar = e->type == YAML_SCALAR_EVENT, is_list = e->type == YAML_SEQUENCE_START_EVENT;
    const yaml_char_t *anchor = is_scalar ? e->data.scalar.anchor
                                : is_list ? e->data.sequence_start.anchor
                                          : e->data.mapping_start.anchor;
    const yaml_char_t *tag = is_scalar ? e->data.scalar.tag
                             : is_list ? e->data.sequence_start.tag
                                       : e->data.mapping_start.tag;
    if (anchor != NULL)
        mistaken(r, e->start_mark.line, "&%.60s: anchors are not read here; write the value where it belongs",
                 (const char *)anchor);
    if (tag != NULL)
        mistaken(r, e->start_mark.line, "%.60s: tags are not read here; write the value alone", (const char *)tag);
    return anchor != NULL || tag != NULL;
}

/* Writes a word as JSON: a string, or without quotation marks what YAML understands by it. */
static void put_scalar(yaml_reader *r, const yaml_event_t *e)
{
    const char *word = (const char *)e->data.scalar.value;
    const bool is_plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const yaml_kind kind = is_plain ? yaml_kind_of(word) : YAML_TEXT;
    if (strlen(word) != e->data.scalar.length) mistaken(r, e->start_mark.line, "a text contains the character NUL");
    switch (kind) {
    case YAML_TEXT: mega_buffer_json_string(r->out, word); break;
    case YAML_NULL: mega_buffer_puts(r->out, "null"); break;
    case YAML_TRUE: mega_buffer_puts(r->out, "true"); break;
    case YAML_FALSE: mega_buffer_puts(r->out, "false"); break;
    case YAML_INT:
    case YAML_FLOAT: {
        /* JSON has no +1, 1_000, .5 and 5. */
        const char *at = word + (*word == '+' || *word == '-');
        if (*word == '-') mega_buffer_puts(r->out, "-");
        if (*at == '.') mega_buffer_puts(r->out, "0");
        for (; *at != '\0'; at++) {
            if (*at != '_') mega_buffer_append(r->out, at, 1);
            if (*at == '.' && (at[1] < '0' || at[1] > '9')) mega_buffer_puts(r->out, "0");
        }
        break;
    }
    case YAML_OTHER:
        mistaken(r, e->start_mark.line,
                 "%.60s: a number is written in decimal here, and a text that looks like this in quotation marks",
                 word);
        mega_buffer_puts(r->out, "null");
        break;
    }
}

static void read_node(yaml_reader *r, const yaml_event_t *e, int depth);

static void read_sequence(yaml_reader *r, int depth)
{
    yaml_event_t e;
    int count = 0;
    mega_buffer_puts(r->out, "[");
    while (next(r, &e)) {
        const bool is_end = e.type == YAML_SEQUENCE_END_EVENT;
        if (!is_end) {
            if (count++ > 0) mega_buffer_puts(r->out, ", ");
            read_node(r, &e, depth + 1);
        }
        yaml_event_delete(&e);
        if (is_end) break;
    }
    mega_buffer_puts(r->out, "]");
}

typedef struct yaml_key {
    char *name;
    size_t line;
} yaml_key;

static bool is_key(yaml_reader *r, const yaml_event_t *e)
{
    if (e->type == YAML_SCALAR_EVENT) {
        const yaml_kind kind = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
                                   ? yaml_kind_of((const char *)e->data.scalar.value)
                                   : YAML_TEXT;
        if (kind == YAML_TEXT && e->data.scalar.length > 0) return !has_anchor(r, e);
        mistaken(r, e->start_mark.line, "\"%.60s\" is no name of a key", (const char *)e->data.scalar.value);
    } else {
        mistaken(r, e->start_mark.line, "the name of a key is one word");
    }
    return false;
}

static void note_key(yaml_reader *r, yaml_key *keys, int *count, const yaml_event_t *e)
{
    const char *name = (const char *)e->data.scalar.value;
    for (int i = 0; i < *count; i++)
        if (strcmp(keys[i].name, name) == 0) {
            mistaken(r, e->start_mark.line, "\"%.60s\" stands twice, first on line %zu; leave one of them out", name,
                     keys[i].line + 1);
            return;
        }
    keys[*count] = (yaml_key){mega_strdup(name), e->start_mark.line};
    if (keys[*count].name == NULL) r->out->failed = r->is_over = true;
    else
        (*count)++;
}

static void read_mapping(yaml_reader *r, int depth)
{
    yaml_event_t e, value;
    yaml_key *keys = mega_calloc(MOST_KEYS, sizeof *keys);
    int count = 0;
    if (keys == NULL) r->out->failed = r->is_over = true;
    mega_buffer_puts(r->out, "{");
    for (bool is_first = true; next(r, &e); is_first = false) {
        const bool is_end = e.type == YAML_MAPPING_END_EVENT;
        if (!is_end && count == MOST_KEYS) {
            mistaken(r, e.start_mark.line, "more than %d keys", (int)MOST_KEYS);
            r->is_over = true;
        }
        if (!is_end && !r->is_over) {
            if (!is_first) mega_buffer_puts(r->out, ", ");
            to_line(r, e.start_mark.line);
            if (is_key(r, &e)) note_key(r, keys, &count, &e);
            else if (e.type != YAML_SCALAR_EVENT)
                r->is_over = true;
            mega_buffer_json_string(r->out, e.type == YAML_SCALAR_EVENT ? (const char *)e.data.scalar.value : "");
            mega_buffer_puts(r->out, ": ");
            if (next(r, &value)) {
                read_node(r, &value, depth + 1);
                yaml_event_delete(&value);
            }
        }
        yaml_event_delete(&e);
        if (is_end) break;
    }
    mega_buffer_puts(r->out, "}");
    for (int i = 0; i < count; i++) mega_free(keys[i].name);
    mega_free(keys);
}

static void read_node(yaml_reader *r, const yaml_event_t *e, int depth)
{
    if (depth > DEEPEST) {
        mistaken(r, e->start_mark.line, "more than %d levels", (int)DEEPEST);
        r->is_over = true;
    } else if (e->type == YAML_ALIAS_EVENT) {
        mistaken(r, e->start_mark.line, "*%.60s: anchors are not read here; write the value where it belongs",
                 (const char *)e->data.alias.anchor);
        mega_buffer_puts(r->out, "null");
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        has_anchor(r, e);
        read_mapping(r, depth);
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        has_anchor(r, e);
        read_sequence(r, depth);
    } else if (has_anchor(r, e)) {
        mega_buffer_puts(r->out, "null");
    } else {
        put_scalar(r, e);
    }
}

/* A stream holds documents; here one, which is a mapping. */
static void read_yaml_stream(yaml_reader *r)
{
    yaml_event_t e;
    int documents = 0;
    for (bool is_end = false; !is_end && next(r, &e); yaml_event_delete(&e)) {
        is_end = e.type == YAML_STREAM_END_EVENT;
        if (e.type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
            mistaken(r, e.start_mark.line, "a second document begins here; one is expected");
            r->is_over = true;
        } else if (e.type == YAML_MAPPING_START_EVENT) {
            read_node(r, &e, 0);
        } else if (e.type == YAML_SCALAR_EVENT || e.type == YAML_SEQUENCE_START_EVENT || e.type == YAML_ALIAS_EVENT) {
            mistaken(r, e.start_mark.line, "expected keys and values, such as \"num_processes: 4\"");
            r->is_over = true;
        }
    }
    if (documents == 0 && r->mistakes == 0 && !r->is_over) mega_buffer_puts(r->out, "{}");
}

mega_status mega_yaml_to_json(const char *text, size_t size, const char *name, mega_buffer *out,
                              mega_yaml_mistake *mistake, void *user)
{
    yaml_reader r = {.name = name, .out = out, .mistake = mistake, .user = user};
    if (!yaml_parser_initialize(&r.parser)) return MEGA_NO_MEMORY(name, "reading it");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    read_yaml_stream(&r);
    yaml_parser_delete(&r.parser);
    MEGA_TRY(mega_buffer_check(out, name));
    return r.mistakes > 0 ? MEGA_ERR_FORMAT : MEGA_OK;
}
