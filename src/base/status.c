/* The per-thread record of what went wrong. */
#include "megalith/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static _Thread_local mega_error_record record;

const char *mega_status_name(mega_status st)
{
    switch (st) {
    case MEGA_OK: return "ok";
    case MEGA_ERR_USAGE: return "usage";
    case MEGA_ERR_NOT_FOUND: return "not found";
    case MEGA_ERR_IO: return "input/output";
    case MEGA_ERR_FORMAT: return "format";
    case MEGA_ERR_MEMORY: return "memory";
    case MEGA_ERR_NUMERIC: return "numeric";
    case MEGA_ERR_UNSUPPORTED: return "unsupported";
    case MEGA_ERR_INTERRUPTED: return "interrupted";
    case MEGA_ERR_BUSY: return "busy";
    case MEGA_ERR_COMM: return "communication";
    }
    return "unknown";
}

/* Drops an incomplete UTF-8 sequence at the end of a message that was cut. */
static void trim_partial_character(char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 4) {
        const unsigned char c = (unsigned char)text[--start];
        if ((c & 0xC0u) == 0x80u) continue;
        const size_t need = c < 0x80u ? 1 : c < 0xE0u ? 2 : c < 0xF0u ? 3 : 4;
        if (need > length - start) text[start] = '\0';
        return;
    }
}

mega_status mega_error_set(mega_status code, const char *file, int line, const char *fmt, ...)
{
    /* formatted outside the record, because an argument may point into the record */
    char text[MEGA_ERROR_BYTES];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0) text[0] = '\0';
    if (n >= (int)sizeof text) trim_partial_character(text, sizeof text - 1);
    record.code = code;
    memcpy(record.text, text, strlen(text) + 1);
    const char *base = strrchr(file, '/');
    snprintf(record.where, sizeof record.where, "%s:%d", base != NULL ? base + 1 : file, line);
    return code;
}

void mega_error_prepend(const char *fmt, ...)
{
    char text[MEGA_ERROR_BYTES];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0) return;
    size_t front = strlen(text);
    if (front + 2 >= sizeof text) return; /* keep the cause rather than the context */
    memcpy(text + front, ": ", 2);
    front += 2;
    const size_t old = strlen(record.text), room = sizeof text - 1 - front;
    const size_t kept = old < room ? old : room;
    memcpy(text + front, record.text, kept);
    text[front + kept] = '\0';
    if (kept < old) trim_partial_character(text, front + kept);
    memcpy(record.text, text, strlen(text) + 1);
}

const char *mega_error_message(void)
{
    return record.text;
}

const char *mega_error_where(void)
{
    return record.where;
}

void mega_error_clear(void)
{
    record.code = MEGA_OK;
    record.text[0] = '\0';
    record.where[0] = '\0';
}

void mega_error_get(mega_error_record *out)
{
    *out = record;
}

void mega_error_get_of(mega_status st, mega_error_record *out)
{
    *out = record;
    if (record.code == st) return;
    const bool is_other = record.code != MEGA_OK && record.text[0] != '\0';
    out->code = st;
    out->where[0] = '\0';
    const int n = snprintf(out->text, sizeof out->text,
                           "a function returned the status \"%s\" (%d) without a message; record one with "
                           "MEGA_FAIL where the mistake is found%s%s",
                           mega_status_name(st), (int)st, is_other ? "; the last message of this thread is: " : "",
                           is_other ? record.text : "");
    if (n >= (int)sizeof out->text) trim_partial_character(out->text, sizeof out->text - 1);
}

mega_status mega_error_restore(const mega_error_record *saved)
{
    if (saved != &record) record = *saved;
    return record.code;
}
