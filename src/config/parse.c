/* Parses the command line: words to options and values. Does not stop at the first mistake, but collects them all. */
#include "config_impl.h"
#include "megalith/log.h"
#include <ctype.h>
#include <string.h>

typedef struct parser {
    mega_options *o;
    const option_table *table;
    uint32_t command;
    int argc;
    char **argv;
    int at;
    /* "--n_layer -> --num-layers, …": names of other programs that were given, reported in one line */
    const char *read_as;
} parser;

/* Returns whether a word is "--name" or "-n", but not a negative number and not "-". */
static bool parse_is_option(const char *word)
{
    if (word[0] != '-') return false;
    if (word[1] == '-') return word[2] != '\0';
    return isalpha((unsigned char)word[1]) != 0;
}

static option_entry *entry_of(parser *p, size_t index)
{
    return &p->o->entry[index];
}

static char *joined(mega_options *o, const char *const *values, size_t count)
{
    mega_buffer b = {0};
    for (size_t i = 0; i < count; i++) {
        if (i > 0) mega_buffer_puts(&b, " ");
        mega_buffer_puts(&b, values[i]);
    }
    char *text = b.failed ? NULL : mega_arena_strdup(&o->arena, b.data != NULL ? b.data : "");
    if (text == NULL) o->out_of_memory = true;
    mega_buffer_fini(&b);
    return text;
}

/* Notes that the same option was given before, unless it may be repeated. */
static void note_repetition(parser *p, size_t index, const char *typed, const char *text, int position)
{
    const mega_option_row *row = row_at(p->o, index);
    const option_entry *entry = entry_of(p, index);
    if (entry->source != MEGA_SET_BY_COMMAND_LINE || row->kind == MEGA_OPTION_APPEND) return;
    const bool same = entry->text != NULL && text != NULL && strcmp(entry->text, text) == 0;
    if (same || text == NULL || entry->text == NULL || row->kind == MEGA_OPTION_ANY) return;
    mega_warn("%s was given more than once: the last one, %s (argument %d), counts; %s (argument %d) does not", typed,
              text, position, entry->text, entry->position);
}

static void apply(parser *p, size_t index, const char *typed, const char *const *values, size_t count, int position);

/* Applies "recompute-granularity=full;recompute-method": sets the parts that contain =, and passes the values to the
 * others. */
static void apply_parts(parser *p, const char *parts, const char *typed, const char *const *values, size_t count,
                        int position)
{
    for (const char *part = parts; part != NULL && *part != '\0' && *part != '|';) {
        const size_t length = strcspn(part, ";|");
        const char *equals = memchr(part, '=', length);
        const size_t name = equals != NULL ? (size_t)(equals - part) : length;
        const size_t index = mega_option_find(p->table, part, name, p->command);
        if (index != SIZE_MAX && equals != NULL) {
            const char *value = mega_options_text(p->o, "%.*s", (int)(length - name - 1), equals + 1);
            const char *const one[1] = {value};
            apply(p, index, typed, one, 1, position);
        } else if (index != SIZE_MAX) {
            const mega_option_kind kind = row_at(p->o, index)->kind;
            apply(p, index, typed, values, kind == MEGA_OPTION_FLAG || kind == MEGA_OPTION_OFF ? 0 : count, position);
        }
        part += length + (part[length] == ';');
    }
}

/* Returns what follows "value:" in the row's cases; NULL if there is no such case. */
static const char *parts_of_case(const mega_option_row *row, const char *value)
{
    const size_t n = strlen(value);
    for (const char *at = row->cases; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        if (strncmp(at, value, n) == 0 && at[n] == ':') return at + n + 1;
    }
    return NULL;
}

/* Returns the values in the row's cases: "bf16, no, fp16". */
static const char *case_names(parser *p, const mega_option_row *row)
{
    const char *names = "";
    for (const char *at = row->cases; at != NULL; at = strchr(at, '|')) {
        if (*at == '|') at++;
        names = mega_options_text(p->o, "%s%s%.*s", names, names[0] != '\0' ? ", " : "", (int)strcspn(at, ":"), at);
    }
    return names;
}

static void add_read_as(parser *p, const char *typed, const char *meaning)
{
    p->read_as = mega_options_text(p->o, "%s%s%s -> %s", p->read_as, p->read_as[0] != '\0' ? ", " : "", typed, meaning);
}

/* Notes that a name was replaced. If only the name differs, adds it to the common line `read_as`; otherwise logs a
 * line of its own. */
static void note_renamed(parser *p, const mega_option_row *row, const char *typed)
{
    static const char alias[] = MEGA_ALIAS_REMARK;
    if (strncmp(row->remark, alias, sizeof alias - 1) != 0 || strpbrk(row->remark + sizeof alias - 1, " ,;") != NULL)
        mega_info("%s: %s", typed, row->remark);
    else
        add_read_as(p, typed, mega_options_text(p->o, "--%s", row->remark + sizeof alias - 1));
}

/* Notes how a value was understood: "--dtype bfloat16 -> --bf16". */
static void note_case(parser *p, const char *typed, const char *parts)
{
    const char *meaning = "";
    for (const char *part = parts; *part != '\0' && *part != '|';) {
        const size_t length = strcspn(part, ";|"), name = strcspn(part, "=;|");
        const size_t index = mega_option_find(p->table, part, name, p->command);
        const mega_option_kind kind = index != SIZE_MAX ? row_at(p->o, index)->kind : MEGA_OPTION_ANY;
        const bool has_value = name < length && kind != MEGA_OPTION_FLAG && kind != MEGA_OPTION_OFF;
        meaning = mega_options_text(p->o, "%s%s--%.*s%s%.*s", meaning, meaning[0] != '\0' ? " " : "", (int)name, part,
                                    has_value ? " " : "", has_value ? (int)(length - name - 1) : 0,
                                    name < length ? part + name + 1 : "");
        part += length + (part[length] == ';');
    }
    add_read_as(p, typed, meaning[0] != '\0' ? meaning : "the default");
}

static void apply_renamed(parser *p, const mega_option_row *row, const char *typed, const char *const *values,
                          size_t count, int position)
{
    if (row->cases != NULL) {
        const char *parts = parts_of_case(row, values[0]);
        if (parts != NULL) {
            const char *given = mega_options_text(p->o, "%s %s", typed, values[0]);
            options_note_not_on_gpu(p->o, row, given, values[0]);
            note_case(p, given, parts);
            apply_parts(p, parts, given, values, 0, position);
        } else {
            mega_options_problem(p->o, MEGA_ERR_UNSUPPORTED, "%s %s is not implemented yet; known are %s (%s)", typed,
                                 values[0], case_names(p, row), row->remark);
        }
        return;
    }
    if (row->kind == MEGA_OPTION_BOOL && count == 1) {
        const char *reason = mega_value_check(p->o, row, values[0]);
        if (reason != NULL) mega_options_mistake(p->o, "%s: %s", typed, reason);
        if (reason != NULL || strchr("fF0", values[0][0]) != NULL) return;
    }
    apply_parts(p, row->successor, typed, values, count, position);
}

static void apply_not_implemented(parser *p, const mega_option_row *row, const char *typed, const char *text)
{
    const bool flag = text == NULL;
    /* the neutral value depends on another option, so a rule decides later */
    if (row->neutral != NULL && row->neutral[0] == '=') return;
    const char *reason = row->kind == MEGA_OPTION_BOOL ? mega_value_check(p->o, row, text) : NULL;
    if (reason != NULL) mega_options_mistake(p->o, "%s: %s", typed, reason);
    if (reason != NULL || mega_value_is_neutral(row, text)) return;
    mega_options_problem(p->o, MEGA_ERR_UNSUPPORTED, "%s%s%s is %s%s%s%s: %s", typed, flag ? "" : " ", flag ? "" : text,
                         row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet",
                         row->neutral != NULL ? " (only " : "", row->neutral != NULL ? row->neutral : "",
                         row->neutral != NULL ? " is accepted)" : "", row->remark);
}

static void apply_value(parser *p, size_t index, const char *typed, const char *const *values, size_t count)
{
    const mega_option_row *row = row_at(p->o, index);
    const char *const none[1] = {NULL};
    for (size_t i = 0; i < count; i++) {
        const char *reason = mega_value_check(p->o, row, values[i]);
        if (reason == NULL) continue;
        mega_options_mistake(p->o, "%s: %s", typed, reason);
        entry_of(p, index)->is_wrong = true;
        return;
    }
    if (count == 0) values = none;
    const mega_status st = mega_value_set_list(p->o, index, values, count > 0 ? count : 1);
    if (st != MEGA_OK) options_problem_from_error(p->o);
}

static void apply(parser *p, size_t index, const char *typed, const char *const *values, size_t count, int position)
{
    const mega_option_row *row = row_at(p->o, index);
    const char *text = count > 0 ? joined(p->o, values, count) : NULL;
    if (count > 0 && text == NULL) return;
    if (row->answer == MEGA_ANSWER_RENAMED) {
        if (row->cases == NULL) note_renamed(p, row, typed);
        apply_renamed(p, row, typed, values, count, position);
        return;
    }
    note_repetition(p, index, typed, text, position);
    option_entry *entry = entry_of(p, index);
    if (row->kind == MEGA_OPTION_ANY && entry->typed != NULL) /* several options of one family share this row */
        typed = mega_options_text(p->o, "%s, %s", entry->typed, typed);
    *entry = (option_entry){MEGA_SET_BY_COMMAND_LINE, position, typed, text, false, entry->called, entry->is_wrong, 0};
    if (row->answer == MEGA_ANSWER_NOT_IMPLEMENTED || row->answer == MEGA_ANSWER_REFUSED) {
        apply_not_implemented(p, row, typed, text);
        return;
    }
    if (row->answer == MEGA_ANSWER_NO_EFFECT) {
        const char *reason = NULL;
        for (size_t i = 0; i < count && reason == NULL; i++) reason = mega_value_check(p->o, row, values[i]);
        if (reason != NULL) mega_options_mistake(p->o, "%s: %s", typed, reason);
        options_note_not_on_gpu(p->o, row, typed, text);
        return;
    }
    apply_value(p, index, typed, values, count);
}

/* Returns whether a row does something: what would be refused next, or have no effect, is no help. Names of this
 * program without effect count, since scripts of Megatron have them. */
static bool is_useful(const option_walk *w)
{
    const mega_option_answer answer = w->row->answer;
    if (answer == MEGA_ANSWER_NOT_IMPLEMENTED || answer == MEGA_ANSWER_REFUSED) return false;
    return !w->is_foreign || answer == MEGA_ANSWER_RENAMED;
}

static bool is_proposed(const option_walk *w, uint32_t command)
{
    return (w->commands & command) != 0 && is_useful(w);
}

/* Returns the set of commands for which an option does something; else *out_remark is what another command would say of
 * it, or NULL. */
static uint32_t owners_of(const parser *p, const char *name, size_t length, const char **out_remark)
{
    uint32_t set = 0;
    *out_remark = NULL;
    for (option_walk w = {.table = p->table}; mega_option_next(&w);) {
        if (!mega_option_name_equal(w.row->name, name, length)) continue;
        if (is_useful(&w)) set |= w.commands;
        else
            *out_remark = w.row->remark;
    }
    return set;
}

/* Returns the names that may be suggested. */
static const char *const *proposed_names(parser *p, size_t *count)
{
    const char **names = mega_arena_alloc(&p->o->arena, p->o->table.count * sizeof *names);
    *count = 0;
    if (names == NULL) p->o->out_of_memory = true;
    if (names == NULL) return NULL;
    for (option_walk w = {.table = p->table}; mega_option_next(&w);) {
        if (is_proposed(&w, p->command)) names[(*count)++] = w.row->name;
    }
    return names;
}

/* Handles -num-layers, and a long dash copied from a web page. Returns whether that was the mistake. */
static bool is_with_one_dash(parser *p, const char *typed, const char *name, size_t length)
{
    if (typed[1] == '-') return false;
    const size_t index = mega_option_find(p->table, name, length, p->command);
    if (index != SIZE_MAX)
        mega_options_mistake(p->o, "%s: options begin with two dashes: write --%.*s", typed, (int)length, name);
    return index != SIZE_MAX;
}

/* Returns who reads these options, for messages. */
static const char *reader_of(const parser *p)
{
    return p->o->command != NULL ? p->o->command->name : p->table->composition->reader;
}

static const char *listed(parser *p, const char *const *names, size_t n)
{
    mega_buffer list = {0};
    mega_options_list_names(&list, names, n, "--");
    const char *text = mega_options_text(p->o, "%s", list.data != NULL ? list.data : "");
    mega_buffer_fini(&list);
    return text;
}

/* Reports an option that no command knows: a misspelling, or an incomplete name. */
static void misspelt_option(parser *p, const char *typed, const char *name, size_t length)
{
    const char *command = reader_of(p), *word = mega_options_text(p->o, "%.*s", (int)length, name);
    const char *longer[MEGA_OPTIONS_LISTED] = {NULL};
    size_t count;
    const char *const *names = proposed_names(p, &count);
    const size_t matches = mega_options_longer(word, names, count, longer, MEGA_OPTIONS_LISTED);
    const char *near = mega_options_nearest(word, names, count);
    const bool is_short =
        matches > 0 && mega_option_name_equal(mega_options_text(p->o, "%.*s", (int)length, longer[0]), name, length);
    if (is_short && (matches == 1 || near == NULL)) {
        mega_options_mistake(p->o, "%s is not an option of %s; names are not abbreviated: write %s", typed, command,
                             listed(p, longer, matches));
    } else if (near != NULL) {
        mega_options_mistake(p->o, "%s is not an option of %s; did you mean --%s?", typed, command, near);
    } else if (matches > 0) {
        mega_options_mistake(p->o, "%s is not an option of %s; did you mean %s?", typed, command,
                             listed(p, longer, matches));
    } else if (p->o->command == NULL) {
        mega_options_mistake(p->o, "%s is not an option of %s; %s lists them", typed, command,
                             p->table->composition->instead);
    } else {
        mega_options_mistake(p->o, "%s is not an option of %s; its options: megalith %s --help", typed, command,
                             command);
    }
}

static void unknown_option(parser *p, const char *typed, const char *name, size_t length)
{
    const char *command = reader_of(p);
    if (is_with_one_dash(p, typed, name, length)) return;
    const char *remark;
    const uint32_t owners_set = owners_of(p, name, length, &remark);
    if (owners_set != 0) {
        char owners[256];
        mega_command_names(p->table->composition, owners_set, owners, sizeof owners);
        mega_options_mistake(p->o, "%s is an option of %s, not of %s", typed, owners, command);
    } else {
        const mega_composition *composition = p->table->composition;
        const char *elsewhere =
            remark == NULL && composition->elsewhere != NULL ? composition->elsewhere(p->o, name, length) : remark;
        if (elsewhere != NULL) mega_options_mistake(p->o, "%s is not an option of %s: %s", typed, command, elsewhere);
        else
            misspelt_option(p, typed, name, length);
    }
}

/* Returns how many words after the option at `from` are values of it. */
static size_t values_after(const parser *p, int from, mega_option_kind kind)
{
    size_t n = 0;
    while (from + (int)n < p->argc && !parse_is_option(p->argv[from + (int)n])) {
        n++;
        if (kind != MEGA_OPTION_LIST && kind != MEGA_OPTION_INT3 && kind != MEGA_OPTION_ANY) break;
    }
    return n;
}

static void take_positional(parser *p, const char *word)
{
    mega_options *o = p->o;
    if (strncmp(word, "\u2013", 3) == 0 || strncmp(word, "\u2014", 3) == 0) {
        mega_options_mistake(o, "\"%s\" (argument %d) begins with a long dash, as web pages print it; write --%s", word,
                             p->at, word + 3);
        p->at += (int)values_after(p, p->at + 1, MEGA_OPTION_LIST);
        return;
    }
    if (o->command == NULL || o->command->positional == NULL) {
        mega_options_mistake(
            o, "\"%s\" (argument %d) belongs to no option; %s takes options alone, each beginning with --", word, p->at,
            reader_of(p));
        return;
    }
    const char **items = mega_arena_alloc(&o->arena, (o->positional.count + 1) * sizeof *items);
    if (items == NULL) {
        o->out_of_memory = true;
        return;
    }
    for (size_t i = 0; i < o->positional.count; i++) items[i] = o->positional.item[i];
    items[o->positional.count] = mega_options_text(o, "%s", word);
    o->positional = (mega_list){items, o->positional.count + 1};
}

/* Returns the word after a switch that belongs to it: a truth value, as programs of transformers take one, or a value
 * of the option that the row names; NULL: there is none. */
static const char *word_of_switch(const parser *p, const mega_option_row *row, const char *equals)
{
    const char *word = equals != NULL ? equals + 1 : p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
    const bool takes_words = p->o->command != NULL && p->o->command->positional != NULL;
    const bool has_effect = row->answer == MEGA_ANSWER_WORKS;
    if (word == NULL || (!has_effect && row->answer != MEGA_ANSWER_NO_EFFECT)) return NULL;
    if (mega_option_word_in("true|false|True|False", word, NULL)) return word;
    return has_effect && row->successor != NULL && equals == NULL && !takes_words && !parse_is_option(word) ? word
                                                                                                            : NULL;
}

static void take_switch(parser *p, size_t index, const char *typed, const char *word, int position)
{
    const mega_option_row *row = row_at(p->o, index);
    const bool is_no = mega_option_word_in("false|False", word, NULL);
    const char *const one[1] = {!is_no ? word : row->kind == MEGA_OPTION_OFF ? "true" : "false"};
    if (is_no && row->answer == MEGA_ANSWER_NO_EFFECT) return;
    apply(p, index, typed, is_no ? one : NULL, is_no ? 1 : 0, position);
    if (!is_no && !mega_option_word_in("true|True", word, NULL))
        apply_parts(p, row->successor, typed, one, 1, position);
}

static void take_option(parser *p, char *word)
{
    const int position = p->at;
    const bool short_form = word[1] != '-';
    const char *name = word + (short_form ? 1 : 2);
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const char *typed = mega_options_text(p->o, "%s%.*s", short_form ? "-" : "--", (int)length, name);
    const size_t index = short_form ? SIZE_MAX : mega_option_find(p->table, name, length, p->command);
    if (index == SIZE_MAX) {
        unknown_option(p, typed, name, length);
        if (equals == NULL) /* skip its values, so that they are not reported too */
            p->at += (int)values_after(p, p->at + 1, MEGA_OPTION_LIST);
        return;
    }
    const mega_option_row *row = row_at(p->o, index);
    const bool flag = row->kind == MEGA_OPTION_FLAG || row->kind == MEGA_OPTION_OFF;
    const char *one[1] = {equals != NULL ? equals + 1 : "true"};
    const char *behind = flag ? word_of_switch(p, row, equals) : NULL;
    if (behind != NULL) {
        p->at += equals == NULL;
        take_switch(p, index, typed, behind, position);
        return;
    }
    size_t count = equals != NULL || flag ? 0 : values_after(p, p->at + 1, row->kind);
    if (flag && equals != NULL) {
        mega_options_mistake(p->o, "%s takes no value, found \"%s\"", typed, one[0]);
    } else if (equals != NULL || (row->kind == MEGA_OPTION_BOOL && count == 0)) {
        apply(p, index, typed, one, 1, position);
    } else if (count == 0 && !flag && row->kind != MEGA_OPTION_ANY) {
        mega_options_mistake(p->o, "%s needs a value%s%s", typed, row->choices != NULL ? ", one of " : "",
                             row->choices != NULL ? row->choices : "");
    } else {
        const char *const *values = (const char *const *)(p->argv + p->at + 1);
        if (flag &&
            row->answer == MEGA_ANSWER_NOT_IMPLEMENTED) /* skip the value that other programs give it: no mistake */
            p->at += (int)values_after(p, p->at + 1, MEGA_OPTION_LIST);
        p->at += (int)count;
        apply(p, index, typed, values, count, position);
    }
}

mega_status mega_options_read(mega_options *o, const char *command, int argc, char **argv)
{
    const mega_composition *composition = o->table.composition;
    o->command = command != NULL ? mega_command_find(composition, command) : NULL;
    if (command != NULL && (o->command == NULL || o->command->bit == 0)) {
        return MEGA_MISTAKE("\"%s\" is not a command that takes options; megalith help lists them", command);
    }
    parser p = {o, &o->table, mega_options_command_bit(o), argc, argv, 1, ""};
    for (; p.at < argc; p.at++) {
        if (parse_is_option(argv[p.at])) take_option(&p, argv[p.at]);
        else
            take_positional(&p, argv[p.at]);
    }
    const char *yaml_name = NULL, *yaml = composition->yaml != NULL ? composition->yaml(o, &yaml_name) : NULL;
    if (yaml != NULL) options_read_yaml(o, yaml_name, yaml);
    const char *json = composition->json != NULL ? composition->json(o) : NULL;
    if (json != NULL) options_read_json(o, json);
    if (p.read_as[0] != '\0') mega_info("read as: %s", p.read_as);
    if (composition->complete != NULL) composition->complete(o, argc, argv);
    if (o->problems > 0) o->faulty = MEGA_TOPIC_OPTIONS;
    composition->derive(o);
    options_note_without_effect(o);
    options_note_environment_typos();
    composition->check(o, composition->knows_shape != NULL && composition->knows_shape(o));
    return MEGA_OK;
}

mega_status mega_options_parse(mega_options *o, const char *command, int argc, char **argv)
{
    MEGA_TRY(mega_options_read(o, command, argc, argv));
    return mega_options_report(o);
}

mega_status mega_options_check(mega_options *o)
{
    o->table.composition->derive(o);
    o->table.composition->check(o, true);
    return mega_options_report(o);
}
