/* Recognises what kind of file an input is, by its first bytes, so that a Parquet file, the pointer that Git LFS leaves
 * in place of a file, or the error page of a web server is refused by its name and never read as text. */
#ifndef MEGALITH_FILE_KIND_H
#define MEGALITH_FILE_KIND_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>

/* What a reader takes although it is in the table of kinds. */
enum {
    MEGA_KIND_TABLE = 1,   /* CSV and TSV, which are recognised by the ending of the path */
    MEGA_KIND_MARKUP = 2,  /* HTML, XML and other text with marks */
    MEGA_KIND_TENSORS = 8, /* a safetensors file */
    MEGA_KIND_BINARY = 4   /* a format with zero bytes: only what the table names is refused */
};

/* Returns MEGA_ERR_FORMAT if the file, of which these are the first bytes (512 or more, or all), is of a kind that
 * `taken` does not allow: "PATH: found a Parquet file, expected EXPECTED; …", with what to do. */
mega_status mega_file_kind_check(const char *path, const void *bytes, size_t size, const char *expected, int taken);
/* Returns what Git LFS or git-annex left in place of a file, "the pointer of …"; NULL: the file itself is there. */
const char *mega_file_pointer(const void *bytes, size_t size);
/* Returns whether a path that cannot be opened is a link of git-annex, whose file was not fetched. */
bool mega_file_is_annexed(const char *path);
/* Returns how many columns a text has that looks like a CSV or TSV file whatever its name: a line of names without
 * spaces, then at least two records with as many fields. *separator: comma, semicolon or tab. 0: it looks like none. */
int mega_file_table_columns(const void *bytes, size_t size, char *separator);
/* Reads a whole file as mega_file_read does, and checks its kind. */
mega_status mega_file_read_kind(const char *path, const char *expected, int taken, char **out, size_t *out_size);

#endif
