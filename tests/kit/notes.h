/* For tests that read what was logged: `notes` holds the lines since notes_begin(). */
#ifndef MEGALITH_TESTS_NOTES_H
#define MEGALITH_TESTS_NOTES_H

#include "megalith/log.h"

#include <stdio.h>
#include <string.h>

static char notes[32768];

static inline void notes_add(void *user, mega_log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t used = strlen(notes);
    snprintf(notes + used, sizeof notes - used, "%s\n", line);
}

static inline void notes_begin(void)
{
    notes[0] = '\0';
    mega_log_set_sink(notes_add, NULL);
}

#endif
