/* Asks questions on the terminal, or reads the answers from a pipe or a file. */
#include "dialog.h"
#include "megalith/config.h"
#include "megalith/memory.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void dialog_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* Returns the next answer without white space around it, in a new block; NULL at the end of the input. */
static char *answer(dialog *d, const char *question)
{
    char *line = NULL, *text = NULL;
    size_t capacity = 0;
    if (d->st != MEGA_OK) return NULL;
    fputs(question, stdout);
    fflush(stdout);
    if (getline(&line, &capacity, d->in) >= 0) {
        const char *begin = line + strspn(line, " \t\r\n");
        size_t n = strlen(begin);
        while (n > 0 && isspace((unsigned char)begin[n - 1])) n--;
        text = mega_strndup(begin, n);
        if (text == NULL) d->st = MEGA_NO_MEMORY("config", "an answer");
        else if (!d->is_terminal)
            puts(text);
    } else {
        const size_t n = strcspn(question, "\n");
        putchar('\n');
        d->st = MEGA_MISTAKE(
            "the input ends at the question \"%.*s\"; answer every question, each on a line of its own (an "
            "empty line is the default). Nothing was written",
            (int)(n < 160 ? n : 160), question);
    }
    free(line);
    return text;
}

bool dialog_yes(dialog *d, const char *question, bool fallback)
{
    for (;;) {
        char *text = answer(d, question);
        const bool is_yes = text != NULL && strcasecmp(text, "yes") == 0;
        const bool is_default = text == NULL || text[0] == '\0';
        const bool is_valid = is_yes || is_default || strcasecmp(text, "no") == 0;
        mega_free(text);
        if (is_valid) return is_default ? fallback : is_yes;
        dialog_say("Please enter yes or no.");
    }
}

int64_t dialog_int(dialog *d, const char *question, const int64_t *fallback, int64_t least)
{
    for (;;) {
        int64_t n = 0;
        char *text = answer(d, question);
        const bool is_default = text == NULL || (text[0] == '\0' && fallback != NULL);
        const bool is_number = text != NULL && mega_value_int(text, &n);
        mega_free(text);
        if (is_default) return fallback != NULL ? *fallback : least;
        if (is_number && n >= least && n <= 1 << 30) return n;
        if (is_number) dialog_say("Please enter an integer from %lld to %d.", (long long)least, 1 << 30);
        else
            dialog_say("Please enter an integer.");
    }
}

double dialog_float(dialog *d, const char *question, double fallback)
{
    for (;;) {
        double x = 0;
        char *text = answer(d, question);
        const bool is_default = text == NULL || text[0] == '\0';
        const bool is_number = text != NULL && mega_value_float(text, &x);
        mega_free(text);
        if (is_default) return fallback;
        if (is_number && x >= 0) return x;
        dialog_say("Please enter a number that is not negative.");
    }
}

char *dialog_text(dialog *d, const char *question, const char *fallback)
{
    char *text = answer(d, question);
    if (text == NULL || text[0] != '\0' || fallback == NULL) return text;
    mega_free(text);
    text = mega_strdup(fallback);
    if (text == NULL) d->st = MEGA_NO_MEMORY("config", "an answer");
    return text;
}

/* ---- choices ---- */

/* Returns the i-th word of "a|b|c" and its length; NULL past the last. */
static const char *word_at(const char *words, int i, size_t *out_length)
{
    for (; i > 0 && words != NULL; i--) {
        words = strchr(words, '|');
        if (words != NULL) words++;
    }
    *out_length = words != NULL ? strcspn(words, "|") : 0;
    return words;
}

static int count_words(const char *words)
{
    int n = 1;
    for (; *words != '\0'; words++) n += *words == '|';
    return n;
}

static int choice_of(const dialog_choice *c, bool has_menus, const char *text)
{
    int64_t n;
    size_t length;
    const int count = count_words(c->names);
    if ((has_menus || !c->is_by_name) && mega_value_int(text, &n))
        return n >= c->first && n < c->first + count ? (int)n - c->first : -1;
    for (int i = 0; i < count && (has_menus || c->is_by_name); i++) {
        const char *name = word_at(c->names, i, &length);
        if (strlen(text) == length && strncasecmp(text, name, length) == 0) return i;
    }
    return -1;
}

static void say_choices(const dialog_choice *c, bool has_menus)
{
    const int count = count_words(c->names);
    printf("Please enter ");
    for (int i = 0; i < count; i++) {
        size_t length;
        const char *name = word_at(c->names, i, &length);
        fputs(i == 0 ? "" : i == count - 1 ? " or " : ", ", stdout);
        if (c->is_by_name && !has_menus) printf("%.*s", (int)length, name);
        else
            printf("%d", i + c->first);
    }
    dialog_say(".");
}

static void show_menu(const dialog_choice *c)
{
    puts(c->question);
    for (int i = 0; i < count_words(c->names); i++) {
        size_t length;
        const char *name = word_at(c->names, i, &length);
        printf("  [%d] %.*s\n", i + c->first, (int)length, name);
    }
}

/* Returns why the choice is not available; NULL: it is. */
static const char *refusal(const dialog_choice *c, int choice)
{
    size_t n, length;
    const char *name = word_at(c->names, choice, &n);
    const int count = c->refused != NULL ? count_words(c->refused) : 0;
    for (int i = 0; i < count; i++) {
        const char *one = word_at(c->refused, i, &length);
        if (length > n && strncmp(one, name, n) == 0 && one[n] == '=') return one + n + 1;
    }
    return NULL;
}

int dialog_choose(dialog *d, const dialog_choice *c)
{
    char prompt[64];
    if (c->fallback >= 0) snprintf(prompt, sizeof prompt, "Number [%d]: ", c->fallback + c->first);
    else
        snprintf(prompt, sizeof prompt, "Number: ");
    for (;;) {
        if (d->has_menus && d->st == MEGA_OK) show_menu(c);
        char *text = answer(d, d->has_menus ? prompt : c->question);
        const bool is_default = text == NULL || (text[0] == '\0' && c->fallback >= 0);
        const int choice = is_default ? c->fallback : choice_of(c, d->has_menus, text);
        mega_free(text);
        if (d->st != MEGA_OK) return c->fallback >= 0 ? c->fallback : 0;
        const char *why = choice >= 0 ? refusal(c, choice) : NULL;
        if (choice >= 0 && why == NULL) return choice;
        if (why != NULL) dialog_say("Not available here: %.*s.", (int)strcspn(why, "|"), why);
        else
            say_choices(c, d->has_menus);
    }
}
