/* Checks of text, for which all readers here expect UTF-8. Which kind of file it is: file_kind.h. */
#ifndef MEGALITH_ENCODING_H
#define MEGALITH_ENCODING_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What to do with a text that is not UTF-8; printf takes its path. Which encoding it has is not known here. */
#define MEGA_ENCODING_REMEDY                                                                            \
    "convert it: iconv -f ENCODING -t UTF-8 %s > utf8.txt, with its ENCODING, such as LATIN1, CP1252, " \
    "SHIFT-JIS or GB18030 (file -i guesses it)"

/* Refuses UTF-8 that begins with a byte order mark, where its format has none: JSON, a vocabulary. */
mega_status mega_encoding_refuse_mark(const char *path, const char *text, size_t bytes);
/* Returns the bytes of the byte order mark of UTF-8 that the text begins with: 3 or 0. */
size_t mega_encoding_mark_bytes(const char *text, size_t bytes);
/* Refuses a line that holds a zero byte or bytes that are not UTF-8, with file and line. */
mega_status mega_encoding_check_line(const char *path, int64_t line, const char *text, size_t bytes);
/* The same for each line of a text that begins in this line. */
mega_status mega_encoding_check_text(const char *path, int64_t line, const char *text, size_t bytes);
/* Warns when the first line ends in CR LF, which plain text keeps. Returns whether it did. */
bool mega_encoding_note_line_ends(const char *path, const char *text, size_t bytes);

#endif
