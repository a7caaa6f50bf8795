/* What file.c, folder.c and writer.c share. */
#ifndef MEGALITH_FILE_IMPL_H
#define MEGALITH_FILE_IMPL_H

#include "megalith/file.h"
#include <sys/stat.h>

/* A message for a refused operation: "PATH: cannot VERB: reason; remedy". errno says why. */
mega_status mega_file_refused(const char *path, const char *verb);

/* Likewise for a folder in which no file can be created; it is named by its full path. */
mega_status mega_folder_refused(const char *path);
/* Opens a file, with its size and the like in *info. Folders, named pipes, sockets and devices are refused; the pipe of
 * a shell's `<(command)`, /dev/null and a terminal are not. Every reader of whole files opens them here. */
mega_status mega_file_open_to_read(int *out, struct stat *info, const char *path);
/* The same while a file is written: a full disk, or a limit on the size of files, is told with what the file needs in
 * all (or more, where that is not known yet), what of it is written, and what a full file system has left. */
mega_status mega_file_too_large(const char *path, const char *verb, int64_t written, int64_t needed, bool or_more);
/* Tells the observer of this thread, when there is one. */
void mega_file_report(const char *op, const char *a, const char *b, const void *bytes, size_t size);

#endif
