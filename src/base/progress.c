/* Progress of long commands. */
#include "megalith/progress.h"
#include "base_impl.h"
#include "megalith/log.h"
#include "megalith/threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define FIRST_AFTER_S 2.0
#define REDRAW_S      0.1
#define PLAIN_S       60.0

void mega_format_bytes(char *out, int size, double bytes)
{
    if (bytes < 1e3) snprintf(out, (size_t)size, "%.0f byte%s", bytes, bytes == 1 ? "" : "s");
    else if (bytes < 1e6)
        snprintf(out, (size_t)size, "%.1f kB", bytes * 1e-3);
    else
        snprintf(out, (size_t)size, "%.2f MB", bytes * 1e-6);
}

void mega_format_duration(char *out, int size, double seconds)
{
    const size_t n = size > 0 ? (size_t)size : 0;
    if (!(seconds > 0)) seconds = 0;
    if (seconds > 1e12) seconds = 1e12;
    if (seconds < 0.9995) {
        snprintf(out, n, "%.0f ms", seconds * 1e3);
        return;
    }
    if (seconds < 59.95) {
        snprintf(out, n, "%.1f s", seconds);
        return;
    }
    const uint64_t whole = (uint64_t)(seconds + 0.5), minutes = (whole + 30) / 60, hours = (minutes + 30) / 60;
    if (whole < 3600) {
        snprintf(out, n, "%d min %02d s", (int)(whole / 60), (int)(whole % 60));
    } else if (minutes < 2880) {
        snprintf(out, n, "%d h %02d min", (int)(minutes / 60), (int)(minutes % 60));
    } else {
        snprintf(out, n, "%llu d %02d h", (unsigned long long)(hours / 24), (int)(hours % 24));
    }
}

/* A line that is built piece by piece; an overlong one is cut. */
typedef struct text_line {
    char text[512];
    size_t used;
} text_line;

static void line_add(text_line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line_add(text_line *line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const size_t room = sizeof line->text - line->used;
    const int n = vsnprintf(line->text + line->used, room, fmt, args);
    va_end(args);
    if (n > 0) line->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* "tokenizing: 42 %, 1234 of 2937 documents, 12.3 of 29.1 MB, 617 documents/s, 6.2 MB/s, 3.1 s left" */
static void progress_describe(text_line *line, const mega_progress *p, uint64_t bytes, uint64_t items, double elapsed,
                              bool last)
{
    const bool by_bytes = p->total_bytes != 0;
    const uint64_t total = by_bytes ? p->total_bytes : p->total_items, done = by_bytes ? bytes : items;
    char duration[32];
    line_add(line, "%s: ", p->what);
    if (!last && total != 0) line_add(line, "%d %%, ", (int)(100.0 * (double)done / (double)total));
    line_add(line, "%llu", (unsigned long long)items);
    if (!last && p->total_items != 0) line_add(line, " of %llu", (unsigned long long)p->total_items);
    line_add(line, " %s", p->unit);
    if (bytes != 0) {
        line_add(line, ", %.1f", (double)bytes * 1e-6);
        if (!last && by_bytes) line_add(line, " of %.1f", (double)p->total_bytes * 1e-6);
        line_add(line, " MB");
    }
    if (elapsed > 0) {
        const double rate = (double)items / elapsed;
        line_add(line, rate < 10 ? ", %.2f %s/s" : ", %.0f %s/s", rate, p->unit);
        if (bytes != 0) line_add(line, ", %.2f MB/s", (double)bytes * 1e-6 / elapsed);
    }
    if (last) {
        mega_format_duration(duration, sizeof duration, elapsed);
        line_add(line, ", %s", duration);
    } else if (done != 0 && total > done) {
        mega_format_duration(duration, sizeof duration, elapsed * (double)(total - done) / (double)done);
        line_add(line, ", %s left", duration);
    }
}

void mega_progress_begin(mega_progress *p, const char *what, const char *unit, uint64_t total_bytes,
                         uint64_t total_items)
{
    *p = (mega_progress){.what = what, .unit = unit, .total_bytes = total_bytes, .total_items = total_items};
    p->started = mega_time_now();
    p->terminal = isatty(STDERR_FILENO) == 1;
}

void mega_progress_update(mega_progress *p, uint64_t bytes, uint64_t items)
{
    const double now = mega_time_now(), elapsed = now - p->started;
    if (elapsed < FIRST_AFTER_S) return;
    if (p->shown && now - p->last_shown < (p->terminal ? REDRAW_S : PLAIN_S)) return;
    if (!mega_log_is_heard()) return;
    text_line line = {.used = 0};
    progress_describe(&line, p, bytes, items, elapsed, false);
    if (p->terminal) {
        fprintf(stderr, "\r\033[K%s", line.text);
        fflush(stderr);
    } else {
        mega_info("%s", line.text);
    }
    p->shown = true;
    p->last_shown = now;
}

void mega_progress_end(mega_progress *p, uint64_t bytes, uint64_t items)
{
    const double elapsed = mega_time_now() - p->started;
    if (elapsed < FIRST_AFTER_S) return;
    if (p->shown && p->terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    text_line line = {.used = 0};
    progress_describe(&line, p, bytes, items, elapsed, true);
    mega_info("%s", line.text);
}
