/* Errors from lower modules name options as --name. If the user wrote an option in another form, the message is
 * changed to that form. */
#include "config_impl.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* Returns the row of the option name that starts at `at`: "--lr", but not in the middle of a word; SIZE_MAX: there is
 * none. */
static size_t option_at(const mega_options *o, const char *text, const char *at, size_t *out_length)
{
    size_t n = 2;
    if (strncmp(at, "--", 2) != 0 || (at > text && is_of_name(at[-1]))) return SIZE_MAX;
    while (is_of_name(at[n])) n++;
    while (n > 2 && at[n - 1] == '-') n--; /* without the end of "--lr-warmup-*" */
    *out_length = n;
    const size_t i = n > 2 ? mega_option_find(&o->table, at + 2, n - 2, mega_options_command_bit(o)) : SIZE_MAX;
    return i != SIZE_MAX && row_at(o, i)->answer == MEGA_ANSWER_WORKS ? i : SIZE_MAX;
}

mega_status mega_options_name_as_given(mega_options *o, mega_status st)
{
    mega_error_record error;
    mega_buffer text = {0};
    if (st == MEGA_OK || o == NULL) return st;
    mega_error_get(&error);
    for (const char *at = error.text; *at != '\0';) {
        size_t length = 1;
        char dest[80];
        const size_t i = option_at(o, error.text, at, &length);
        if (i != SIZE_MAX) mega_buffer_puts(&text, mega_options_spelling(o, mega_option_dest(row_at(o, i), dest)));
        else
            mega_buffer_append(&text, at, length);
        at += length;
    }
    if (text.data != NULL && !text.failed) snprintf(error.text, sizeof error.text, "%s", text.data);
    mega_buffer_fini(&text);
    return mega_error_restore(&error);
}
