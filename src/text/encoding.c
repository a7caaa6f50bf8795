/* Recognises text encodings from the first bytes: refuses UTF-16 and UTF-32, and warns of Windows line ends. */
#include "megalith/encoding.h"
#include "megalith/log.h"
#include "megalith/utf8.h"
#include <stdint.h>
#include <string.h>

enum { PROBED_BYTES = 512, LEAST_BYTES = 8 };

/* Recognises a byte order mark. FF FE also begins UTF-32, followed by two zeros. */
static const char *encoding_by_mark(const uint8_t *b, size_t n)
{
    static const uint8_t little[4] = {0xff, 0xfe, 0, 0}, big[4] = {0, 0, 0xfe, 0xff};
    if (n >= 4 && memcmp(b, little, 4) == 0) return "UTF-32LE";
    if (n >= 4 && memcmp(b, big, 4) == 0) return "UTF-32BE";
    if (n >= 2 && b[0] == 0xff && b[1] == 0xfe) return "UTF-16LE";
    if (n >= 2 && b[0] == 0xfe && b[1] == 0xff) return "UTF-16BE";
    return NULL;
}

/* Without a mark: of Latin letters in UTF-16, every first or every second byte is zero. */
static const char *encoding_by_zeros(const uint8_t *b, size_t n)
{
    size_t zeros[2] = {0, 0};
    if (n > PROBED_BYTES) n = PROBED_BYTES;
    if (n < LEAST_BYTES) return NULL;
    for (size_t i = 0; i < n; i++) zeros[i % 2] += b[i] == 0;
    if (zeros[0] == 0 && zeros[1] > n / 4) return "UTF-16LE";
    if (zeros[1] == 0 && zeros[0] > n / 4) return "UTF-16BE";
    return NULL;
}

mega_status mega_encoding_check(const char *path, const char *text, size_t bytes)
{
    const uint8_t *b = (const uint8_t *)text;
    const char *mark = encoding_by_mark(b, bytes), *found = mark != NULL ? mark : encoding_by_zeros(b, bytes);
    if (found == NULL) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s: found %s%s, expected UTF-8; convert it: iconv -f %s -t UTF-8 %s > utf8.txt",
                     path, found, mark != NULL ? " (its byte order mark)" : " (every second byte is zero)",
                     mark != NULL ? strncmp(mark, "UTF-16", 6) == 0 ? "UTF-16" : "UTF-32" : found, path);
}

size_t mega_encoding_mark_bytes(const char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

mega_status mega_encoding_check_line(const char *path, int64_t line, const char *text, size_t bytes)
{
    const size_t valid = bytes > 0 ? mega_utf8_valid_bytes(text, bytes) : 0;
    const char *zero = valid > 0 ? memchr(text, '\0', valid) : NULL;
    if (zero == NULL && valid == bytes) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_FORMAT, "%s:%lld:%lld: %s; expected text in UTF-8", path, (long long)line,
                     (long long)mega_utf8_count(text, zero != NULL ? (size_t)(zero - text) : valid) + 1,
                     zero != NULL ? "a zero byte" : "bytes that are not UTF-8");
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
