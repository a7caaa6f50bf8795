/* Checks of text: byte order marks, bytes that are not UTF-8, Windows line ends. */
#include "megalith/encoding.h"
#include "megalith/log.h"
#include "megalith/utf8.h"
#include <stdint.h>
#include <string.h>

size_t mega_encoding_mark_bytes(const char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

mega_status mega_encoding_check_line(const char *path, int64_t line, const char *text, size_t bytes)
{
    const size_t valid = bytes > 0 ? mega_utf8_valid_bytes(text, bytes) : 0;
    const char *zero = valid > 0 ? memchr(text, '\0', valid) : NULL;
    if (zero == NULL && valid == bytes) return MEGA_OK;
    const int64_t column = mega_utf8_count(text, zero != NULL ? (size_t)(zero - text) : valid) + 1;
    if (zero != NULL)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld:%lld: a zero byte; expected text in UTF-8", path, (long long)line,
                         (long long)column);
    return MEGA_FAIL(MEGA_ERR_FORMAT,
                     "%s:%lld:%lld: bytes that are not UTF-8; expected text in UTF-8; " MEGA_ENCODING_REMEDY, path,
                     (long long)line, (long long)column, path);
}

mega_status mega_encoding_check_text(const char *path, int64_t line, const char *text, size_t bytes)
{
    for (size_t begin = 0; begin < bytes; line++) {
        const char *newline = memchr(text + begin, '\n', bytes - begin);
        const size_t n = newline != NULL ? (size_t)(newline - text) - begin : bytes - begin;
        MEGA_TRY(mega_encoding_check_line(path, line, text + begin, n));
        begin += n + 1;
    }
    return MEGA_OK;
}

mega_status mega_encoding_refuse_mark(const char *path, const char *text, size_t bytes)
{
    if (mega_encoding_mark_bytes(text, bytes) == 0) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_FORMAT,
        "%s: it begins with a byte order mark; expected UTF-8 without one: tail -c +4 FILE > NEW removes it", path);
}

bool mega_encoding_note_line_ends(const char *path, const char *text, size_t bytes)
{
    const char *newline = bytes > 0 ? memchr(text, '\n', bytes) : NULL;
    if (newline == NULL || newline == text || newline[-1] != '\r') return false;
    mega_warn("%s: lines end in CR LF, as Windows writes them; each CR stays in the text and becomes part of its "
              "tokens. tr -d '\\r' < FILE > NEW removes them",
              path);
    return true;
}
