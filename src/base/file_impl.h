/* Shared by file.c, folder.c and writer.c. */
#ifndef MEGALITH_FILE_IMPL_H
#define MEGALITH_FILE_IMPL_H

#include "megalith/file.h"
#include <sys/stat.h>

/* Writes the message "PATH: cannot VERB: reason; remedy" for a system call that failed; errno gives the reason. Returns
 * the status that fits errno. */
mega_status mega_file_refused(const char *path, const char *verb);

/* The same for a folder in which no file can be created; the message gives its full path. */
mega_status mega_folder_refused(const char *path);
/* Opens a file for reading and returns its size and type in *info. Refuses folders, named pipes, sockets and devices,
 * but accepts the pipe of a shell's `<(command)`, /dev/null and a terminal. Every reader of whole files opens them
 * here. */
mega_status mega_file_open_to_read(int *out, struct stat *info, const char *path);
/* Like mega_file_refused, for a write. If the disk is full or a limit on file size is met, the message gives the bytes
 * that the file needs (with `or_more`: at least), the bytes written so far, and the free space. */
mega_status mega_file_too_large(const char *path, const char *verb, int64_t written, int64_t needed, bool or_more);
/* Calls the observer of this thread, if one is set. */
void mega_file_report(const char *op, const char *a, const char *b, const void *bytes, size_t size);

#endif
