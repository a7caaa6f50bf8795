/* The log sink. */
#include "megalith/log.h"
#include "base_impl.h"
#include "megalith/memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

/* Protects the sink and its user argument, which change together; it is not held while the sink runs, so a sink may
 * log. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mega_log_sink *current_sink;
static void *current_user;

static mega_log_sink *get_sink(void **user)
{
    pthread_mutex_lock(&lock);
    mega_log_sink *sink = current_sink;
    *user = current_user;
    pthread_mutex_unlock(&lock);
    return sink;
}

void mega_log_set_sink(mega_log_sink *sink, void *user)
{
    pthread_mutex_lock(&lock);
    current_sink = sink;
    current_user = user;
    pthread_mutex_unlock(&lock);
}

bool mega_log_is_heard(void)
{
    void *user;
    return get_sink(&user) != NULL;
}

void mega_log(mega_log_level level, const char *fmt, ...)
{
    void *user;
    mega_log_sink *sink = get_sink(&user);
    if (sink == NULL) return;
    char line[2048], *text = line;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n >= (int)sizeof line) { /* rare: without memory a long line is cut */
        char *full = mega_malloc((size_t)n + 1);
        if (full != NULL) {
            vsnprintf(full, (size_t)n + 1, fmt, again);
            text = full;
        }
    }
    va_end(again);
    if (n >= 0) sink(user, level, text);
    if (text != line) mega_free(text);
}
