/* Questions on the terminal, answered from standard input: for megalith config. */
#ifndef MEGA_CLI_DIALOG_H
#define MEGA_CLI_DIALOG_H

#include "megalith/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct dialog {
    FILE *in;
    bool has_menus;   /* choices are listed one a line and chosen by number */
    bool is_terminal; /* `in` is one; otherwise answers are printed too, so that the output reads like a session */
    mega_status st;   /* not MEGA_OK: the input has ended, and every question returns its default at once */
} dialog;

/* Each of these prints the question as it is, reads a line, and asks again until the answer is valid. An empty line is
 * the default, if there is one. */
bool dialog_yes(dialog *d, const char *question, bool fallback);
int64_t dialog_int(dialog *d, const char *question, const int64_t *fallback, int64_t least);
double dialog_float(dialog *d, const char *question, double fallback);
/* Any text; fallback NULL: an empty line is an empty text. The caller frees the result with mega_free; NULL after a
 * failure. */
char *dialog_text(dialog *d, const char *question, const char *fallback);
/* One of some names, as "a|b|c": its index. With menus by number; else `question` says what is asked for. A choice is
 * given by its number, or, if is_by_name, by its name. "refused" is a list of choices with the reason why each is not
 * available: "AWS (Amazon SageMaker)=there is no such service here|…"; NULL: none. */
typedef struct dialog_choice {
    const char *question, *names, *refused;
    int fallback, first; /* index of the default, -1: none; number of the first choice */
    bool is_by_name;
} dialog_choice;
int dialog_choose(dialog *d, const dialog_choice *c);

/* Prints why an answer cannot be taken; the caller asks again. */
void dialog_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
