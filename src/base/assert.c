/* Reports failed assertions and reads the level of the costly checks. */
#include "megalith/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void mega_assert_failed(const char *expression, const char *file, int line, const char *fmt, ...)
{
    fprintf(stderr, "%s:%d: assertion failed: %s: ", file, line, expression);
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputs("\nThis is a bug in megalith; please report it with the command that led here.\n", stderr);
    fflush(stderr);
    abort();
}

int mega_check_level(void)
{
    const char *text = getenv("MEGA_CHECK");
    if (text == NULL || text[0] < '0' || text[0] > '9') return 0;
    const long level = strtol(text, NULL, 10);
    return level > 2 ? 2 : (int)level;
}
