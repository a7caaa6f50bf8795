/* The sources of prompts for generate_samples_gpt. */
#include "generate.h"
#include "megalith/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct list_source {
    const mega_list *list;
    size_t at;
} list_source;
static mega_status next_of_list(void *user, const char **prompt)
{
    list_source *l = user;
    *prompt = l->at < l->list->count ? l->list->item[l->at++] : NULL;
    return MEGA_OK;
}

static mega_status next_unconditional(void *user, const char **prompt)
{
    int64_t *left = user;
    *prompt = (*left)-- > 0 ? "" : NULL;
    return MEGA_OK;
}

/* Reads prompts from lines of a stream; skips empty lines and ends at a line "stop", as in Megatron. */
typedef struct line_source {
    session *session;
    FILE *file;
    char *line;
    size_t capacity;
    bool ask;
} line_source;
static const char *next_line(line_source *l)
{
    for (;;) {
        if (l->ask) {
            printf("\nContext prompt (stop to exit) >>> ");
            fflush(stdout);
        }
        mega_signals_break(true);
        ssize_t n = *mega_signals_stop() == 0 ? getline(&l->line, &l->capacity, l->file) : -1;
        mega_signals_break(false);
        if (n < 0) return NULL;
        l->session->line++;
        while (n > 0 && (l->line[n - 1] == '\n' || l->line[n - 1] == '\r')) l->line[--n] = '\0';
        if (strcmp(l->line, "stop") == 0) return NULL;
        if (n > 0) return l->line;
    }
}

/* Sends the line to all ranks: a launcher connects standard input only to the first rank, which therefore reads for
 * all. */
static mega_status share_line(line_source *l, const char **line)
{
    mega_comm *all = mega_world_comm(l->session->world);
    int64_t bytes = *line == NULL ? 0 : (int64_t)strlen(*line) + 1;
    MEGA_TRY(mega_comm_broadcast(all, "length of a prompt", &bytes, (int64_t)sizeof bytes, 0));
    if (bytes == 0) return MEGA_OK;
    if ((size_t)bytes > l->capacity) {
        char *grown = realloc(l->line, (size_t)bytes);
        if (grown == NULL) return MEGA_NO_MEMORY("generation", "a prompt");
        l->line = grown;
        l->capacity = (size_t)bytes;
    }
    MEGA_TRY(mega_comm_broadcast(all, "prompt", l->line, bytes, 0));
    *line = l->line;
    return MEGA_OK;
}

static mega_status next_shared_line(void *user, const char **prompt)
{
    line_source *l = user;
    const mega_world *world = l->session->world;
    *prompt = mega_world_rank(world) == 0 ? next_line(l) : NULL;
    return mega_world_size(world) > 1 ? share_line(l, prompt) : MEGA_OK;
}

mega_status generate_from_list(session *s, const mega_list *prompts)
{
    return generate_all(s, next_of_list, &(list_source){prompts, 0});
}

mega_status generate_unconditional(session *s, int64_t count)
{
    return generate_all(s, next_unconditional, &count);
}

mega_status generate_from_lines(session *s, FILE *file, bool ask)
{
    line_source lines = {.session = s, .file = file, .ask = ask};
    s->has_lines = true;
    const mega_status st = generate_all(s, next_shared_line, &lines);
    free(lines.line);
    return st;
}
