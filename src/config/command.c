/* Searches a table of commands: by name, by the names of old scripts, and by scripts of other programs that do the
 * same. */
#include "config_impl.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Normalizes a name: "tools/Preprocess-Data.py" → "preprocess_data"; with_folder keeps "tasks/". */
static void reduce(const char *typed, bool with_folder, char out[80])
{
    const char *from = typed;
    const char *slash = strrchr(typed, '/');
    if (slash != NULL) from = slash + 1;
    if (with_folder && slash != NULL) {
        const char *folder = slash;
        while (folder > typed && folder[-1] != '/') folder--;
        from = folder;
    }
    size_t n = strlen(from);
    if (n > 3 && strcmp(from + n - 3, ".py") == 0) n -= 3;
    if (n > 79) n = 79;
    for (size_t i = 0; i < n; i++) out[i] = from[i] == '-' ? '_' : (char)tolower((unsigned char)from[i]);
    out[n] = '\0';
}

const mega_command *mega_command_find(const mega_composition *composition, const char *typed)
{
    char plain[80], with_folder[80];
    reduce(typed, false, plain);
    reduce(typed, true, with_folder);
    for (size_t i = 0; i < composition->commands; i++) {
        if (strcmp(composition->command[i].name, plain) == 0) return &composition->command[i];
        if (mega_option_word_in(composition->command[i].aliases, plain, NULL)) return &composition->command[i];
        if (mega_option_word_in(composition->command[i].aliases, with_folder, NULL)) return &composition->command[i];
    }
    return NULL;
}

const char *mega_command_name(const mega_composition *composition, const char *typed)
{
    const mega_command *row = mega_command_find(composition, typed);
    return row != NULL ? row->name : NULL;
}

bool mega_command_is_in(const mega_composition *composition, const char *typed, uint32_t set)
{
    const mega_command *row = mega_command_find(composition, typed);
    return row != NULL && (row->bit & set) != 0;
}

const char *mega_command_option(const mega_composition *composition, const char *typed, const char *name, size_t length)
{
    const mega_command *command = mega_command_find(composition, typed);
    option_table table;
    mega_arena arena = {0};
    const char *found = NULL;
    if (command != NULL && mega_option_table_make(&table, composition, &arena) == MEGA_OK) {
        const size_t at = mega_option_find(&table, name, length, command->bit);
        const mega_option_row *row = at != SIZE_MAX ? table.line[at].row : NULL;
        const char *last = row != NULL && row->successor != NULL ? strrchr(row->successor, ';') : NULL;
        if (row != NULL) found = last != NULL ? last + 1 : row->successor != NULL ? row->successor : row->name;
    }
    mega_arena_fini(&arena);
    return found;
}

const char *mega_command_of_script(const mega_composition *composition, const char *typed)
{
    char plain[80];
    reduce(typed, false, plain);
    for (size_t i = 0; i < composition->commands; i++)
        if (mega_option_word_in(composition->command[i].scripts, plain, NULL)) return composition->command[i].name;
    return NULL;
}

bool mega_command_replaces(const mega_composition *composition, const char *typed)
{
    char plain[80], with_folder[80];
    reduce(typed, false, plain);
    reduce(typed, true, with_folder);
    for (size_t i = 0; i < composition->commands; i++)
        if (mega_option_word_in(composition->command[i].replaces, plain, NULL) ||
            mega_option_word_in(composition->command[i].replaces, with_folder, NULL))
            return true;
    return false;
}

uint32_t mega_commands_all(const mega_composition *composition)
{
    uint32_t all = 0;
    for (size_t i = 0; i < composition->commands; i++) all |= composition->command[i].bit;
    return all;
}

void mega_command_names(const mega_composition *composition, uint32_t set, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < composition->commands && used < size; i++) {
        if ((composition->command[i].bit & set) == 0) continue;
        const int n = snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", composition->command[i].name);
        if (n < 0) return;
        used += (size_t)n;
    }
}
