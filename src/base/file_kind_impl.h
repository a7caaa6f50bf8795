/* Kinds of files that more than their first bytes show. */
#ifndef MEGA_FILE_KIND_IMPL_H
#define MEGA_FILE_KIND_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Skips white space and the byte order mark. */
const char *file_kind_text(const uint8_t *bytes, size_t *size);

/* file_kind_text.c */
bool file_kind_is_html(const uint8_t *bytes, size_t size);
bool file_kind_is_xml(const uint8_t *bytes, size_t size);
bool file_kind_is_pickle(const uint8_t *bytes, size_t size);

#endif
