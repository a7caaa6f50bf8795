/* Writes --help of a command, docs/options.md and docs/options-of-other-systems.md, all from the option table. */
#include "config_impl.h"
#include <stdio.h>
#include <string.h>

#define NAME_COLUMNS 34

/* Writes "--lr-decay-style constant|linear" as shown in a list of options. */
static void write_usage(const mega_option_row *row, mega_buffer *out)
{
    mega_buffer_printf(out, "--%s", row->name);
    switch (row->kind) {
    case MEGA_OPTION_FLAG:
    case MEGA_OPTION_OFF: return;
    case MEGA_OPTION_BOOL: mega_buffer_puts(out, " [true|false]"); return;
    case MEGA_OPTION_ANY: mega_buffer_puts(out, " [VALUE…]"); return;
    case MEGA_OPTION_INT: mega_buffer_puts(out, " N"); return;
    case MEGA_OPTION_FLOAT: mega_buffer_puts(out, " X"); return;
    case MEGA_OPTION_BYTES: mega_buffer_puts(out, " BYTES"); return;
    case MEGA_OPTION_INT3: mega_buffer_puts(out, " N N N"); return;
    case MEGA_OPTION_LIST: mega_buffer_puts(out, " VALUE…"); return;
    case MEGA_OPTION_STRING:
    case MEGA_OPTION_CHOICE:
    case MEGA_OPTION_APPEND: mega_buffer_printf(out, " %s", row->value != NULL ? row->value : "VALUE"); return;
    }
}

/* Returns the number of characters (columns) in the first `bytes` bytes of UTF-8 text. */
static size_t help_columns(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Writes text wrapped to `columns`; all lines but the first are indented. */
static void write_wrapped(const char *text, size_t indent, size_t columns, mega_buffer *out)
{
    size_t at = indent;
    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        const size_t wide = help_columns(text, word);
        if (at > indent && at + wide + 1 > columns) {
            mega_buffer_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            mega_buffer_puts(out, " ");
            at++;
        }
        mega_buffer_append(out, text, word);
        at += wide;
        text += word;
        text += strspn(text, " ");
    }
    mega_buffer_puts(out, "\n");
}

static void write_option(const mega_option_row *row, mega_buffer *out)
{
    mega_buffer usage = {0}, text = {0};
    write_usage(row, &usage);
    mega_buffer_puts(&text, row->help != NULL ? row->help : "");
    if (row->choices != NULL) {
        mega_buffer_puts(&text, "; one of ");
        for (const char *c = row->choices; *c != '\0'; c++)
            mega_buffer_append(&text, *c == '|' ? ", " : c, *c == '|' ? 2 : 1);
    }
    if (row->fallback != NULL && row->fallback[0] != '\0') mega_buffer_printf(&text, " (default %s)", row->fallback);
    const char *shown = usage.data != NULL ? usage.data : "";
    const size_t wide = help_columns(shown, strlen(shown));
    if (wide + 4 > NAME_COLUMNS) mega_buffer_printf(out, "  %s\n%*s", shown, NAME_COLUMNS, "");
    else
        mega_buffer_printf(out, "  %s%*s", shown, (int)(NAME_COLUMNS - 2 - wide), "");
    write_wrapped(text.data != NULL ? text.data : "", NAME_COLUMNS, 120, out);
    mega_buffer_fini(&usage);
    mega_buffer_fini(&text);
}

/* Counts the names that are known but have no row of their own in the help: those of older scripts, those without
 * effect, and those that are not built. */
static int count_other_names(const option_table *t, uint32_t command)
{
    int n = 0;
    for (option_walk w = {.table = t}; mega_option_next(&w) && !w.is_foreign;)
        n += (w.commands & command) != 0 && w.row->answer != MEGA_ANSWER_WORKS;
    return n;
}

/* Writes the implemented options, by title. */
static void write_working(const option_table *t, uint32_t command, mega_buffer *out)
{
    const char *title = "";
    for (size_t i = 0; i < t->count; i++) {
        const option_line *line = &t->line[i];
        if (line->row->answer != MEGA_ANSWER_WORKS || (line->commands & command) == 0) continue;
        if (strcmp(line->title, title) != 0) mega_buffer_printf(out, "%s%s\n", out->size > 0 ? "\n" : "", line->title);
        title = line->title;
        write_option(line->row, out);
    }
}

static void write_other_names(const mega_command *row, mega_buffer *out)
{
    if (row->aliases[0] != '\0') mega_buffer_puts(out, "\nother names of the command: ");
    for (const char *at = row->aliases; *at != '\0';) {
        const size_t length = strcspn(at, "|");
        mega_buffer_append(out, at, length);
        at += length + (at[length] == '|');
        mega_buffer_puts(out, *at != '\0' ? ", " : "\n");
    }
}

mega_status mega_options_help(const mega_composition *composition, const char *command, mega_buffer *out)
{
    const mega_command *row = mega_command_find(composition, command);
    mega_arena arena = {0};
    option_table t;
    if (row == NULL) return MEGA_MISTAKE("\"%s\" is not a command; megalith help lists them", command);
    if (row->bit == 0) {
        mega_buffer_printf(out, "usage: megalith %s\n\n%s\n", row->name, row->summary);
        return mega_buffer_check(out, "the help text");
    }
    MEGA_TRY(mega_option_table_make(&t, composition, &arena));
    mega_buffer_printf(out, "usage: megalith %s [OPTIONS]%s%s\n\n%s\n", row->name, row->positional != NULL ? " " : "",
                       row->positional != NULL ? row->positional : "", row->summary);
    write_other_names(row, out);
    write_working(&t, row->bit, out);
    mega_buffer_printf(
        out,
        "\nNot shown: %d names that scripts for Megatron may give, and names of transformers, Accelerate "
        "and nanoGPT,\nwhich are renamed, have no effect or are not built: megalith help --foreign-page "
        "(docs/options-of-other-systems.md)\n",
        count_other_names(&t, row->bit));
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the help text");
}

mega_status mega_options_list(const mega_composition *composition, mega_buffer *out)
{
    mega_arena arena = {0};
    option_table t;
    MEGA_TRY(mega_option_table_make(&t, composition, &arena));
    write_working(&t, ALL_COMMANDS, out);
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the list of options");
}

/* Writes a cell of a Markdown table, escaping bars, which would end the cell. */
static void help_write_cell(const char *text, mega_buffer *out)
{
    for (; *text != '\0'; text++) mega_buffer_append(out, *text == '|' ? "\\|" : text, *text == '|' ? 2 : 1);
}

static void help_write_answer(const mega_option_row *row, mega_buffer *out)
{
    switch (row->answer) {
    case MEGA_ANSWER_WORKS: break; /* their page has no column of answers */
    case MEGA_ANSWER_NO_EFFECT:
        mega_buffer_puts(out, "no effect here");
        if (row->alone != NULL) mega_buffer_printf(out, " with `--%s 1`, else refused", row->alone);
        break;
    case MEGA_ANSWER_RENAMED: mega_buffer_puts(out, "renamed"); break;
    case MEGA_ANSWER_NOT_IMPLEMENTED:
    case MEGA_ANSWER_REFUSED:
        mega_buffer_puts(out, row->answer == MEGA_ANSWER_REFUSED ? "refused" : "not implemented yet");
        if (row->neutral == NULL) break;
        mega_buffer_puts(out, "; only ");
        if (row->neutral[0] == '=') mega_buffer_printf(out, "the value of `--%s`", row->neutral + 1);
        else
            help_write_cell(row->neutral, out);
        mega_buffer_puts(out, " is accepted");
        break;
    }
}

static void write_commands(const mega_composition *composition, uint32_t set, char out[256])
{
    if (set == mega_commands_all(composition)) snprintf(out, 256, "every command");
    else
        mega_command_names(composition, set, out, 256);
}

static void write_page_row(const option_table *t, size_t index, mega_buffer *out)
{
    const option_line *line = &t->line[index];
    const mega_option_row *row = line->row;
    const bool works = row->answer == MEGA_ANSWER_WORKS;
    mega_buffer usage = {0};
    write_usage(row, &usage);
    mega_buffer_puts(out, "| `");
    help_write_cell(usage.data != NULL ? usage.data : "", out);
    mega_buffer_puts(out, "` | ");
    out->failed = out->failed || usage.failed;
    mega_buffer_fini(&usage);
    help_write_cell(row->fallback != NULL && row->fallback[0] != '\0' ? row->fallback : "", out);
    mega_buffer_puts(out, " | ");
    help_write_answer(row, out);
    if (!works) mega_buffer_puts(out, " | ");
    if (row->help != NULL) help_write_cell(row->help, out);
    if (row->choices != NULL && works) {
        mega_buffer_puts(out, "; one of ");
        for (const char *c = row->choices; *c != '\0'; c++)
            mega_buffer_append(out, *c == '|' ? ", " : c, *c == '|' ? 2 : 1);
    }
    if (row->remark != NULL) {
        if (row->help != NULL) mega_buffer_puts(out, "; ");
        help_write_cell(row->remark, out);
    }
    if (line->commands != line->of_title) {
        char names[256];
        write_commands(t->composition, line->commands, names);
        mega_buffer_printf(out, " (%s)", names);
    }
    mega_buffer_puts(out, " |\n");
}

static const char working_page[] =
    "# Options\n\n"
    "Written by `megalith help --options-page` from the rows of all rooms; do not edit by hand.\n\n"
    "These options do what they say; their names, defaults and meanings are Megatron's. What other programs call "
    "them,\n"
    "and what is accepted without effect or refused, is on the page of\n"
    "[options of other systems](options-of-other-systems.md).\n\n"
    "`--x=v` is `--x v`; `-` and `_` are equal in names; `.01` and `5e8` are numbers; of a repeated option the last\n"
    "counts, and a note says so. Names are not abbreviated.\n";
static const char foreign_page[] =
    "# Options of other systems\n\n"
    "Written by `megalith help --foreign-page` from the rows of all rooms; do not edit by hand.\n\n"
    "Options of Megatron and names of other programs that are known, but are not among the [options](options.md) that\n"
    "work. Each has one of four answers:\n\n"
    "| answer | what happens |\n|---|---|\n"
    "| renamed | its successor takes its place |\n"
    "| no effect here | it is accepted, and the reason why nothing changes is printed once |\n"
    "| not implemented yet | an error that says what to use instead, unless the value is one that changes nothing |\n"
    "| refused | the same, for what will not be implemented |\n";

mega_status mega_options_options_page(const mega_composition *composition, bool works, mega_buffer *out)
{
    mega_arena arena = {0};
    option_table t;
    const char *title = "";
    MEGA_TRY(mega_option_table_make(&t, composition, &arena));
    mega_buffer_puts(out, works ? working_page : foreign_page);
    for (size_t i = 0; i < t.count; i++) {
        char names[256];
        if ((t.line[i].row->answer == MEGA_ANSWER_WORKS) != works) continue;
        if (strcmp(t.line[i].title, title) != 0) {
            write_commands(composition, t.line[i].of_title, names);
            mega_buffer_printf(out, "\n## %s\n\nOf %s.\n\n%s\n", t.line[i].title, names,
                               works ? "| option | default | meaning |\n|---|---|---|"
                                     : "| option | default | answer | meaning |\n|---|---|---|---|");
        }
        title = t.line[i].title;
        write_page_row(&t, i, out);
    }
    mega_arena_fini(&arena);
    return mega_buffer_check(out, "the page of options");
}
