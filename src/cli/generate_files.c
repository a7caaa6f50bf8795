/* The output files for generated texts. The previous contents of a file are kept until the first text is ready, and
 * finished texts are kept if the run fails later. */
#include "generate.h"
#include "megalith/log.h"

#include <stdlib.h>
#include <string.h>

/* Locks a file under its real path, so that links to it conflict too. A pipe or device (/dev/null) needs no lock. out
 * NULL: only checks that the lock is free. */
static mega_status take_lock(const char *option, const char *path, mega_lock **out)
{
    const bool is_there = mega_file_exists(path);
    if (is_there && !mega_file_is_regular(path)) return MEGA_OK;
    char *real = is_there ? realpath(path, NULL) : NULL;
    char *subject = mega_format("%s %s", option, path), *lock = mega_format("%s.lock", real != NULL ? real : path);
    char *remedy = mega_format("choose another %s", option);
    const mega_lock_request r = {.path = lock, .subject = subject, .remedy = remedy};
    mega_status st = MEGA_OK;
    if (subject == NULL || lock == NULL || remedy == NULL)
        st = MEGA_FAIL(MEGA_ERR_MEMORY, "%s %s: no memory for its lock", option, path);
    else
        st = out != NULL ? mega_lock_acquire(&r, out) : mega_lock_probe(&r);
    MEGA_FREE(remedy, lock, subject);
    free(real);
    return st;
}

mega_status generate_output_check(const char *option, const char *path)
{
    return path != NULL ? take_lock(option, path, NULL) : MEGA_OK;
}

/* Opens the file without truncating it: a run that ends before its first text must not destroy the texts of an earlier
 * run. */
mega_status generate_output_open(generate_output *o, const char *option, const char *path)
{
    MEGA_TRY(take_lock(option, path, &o->lock));
    o->path = path;
    o->is_new = !mega_file_exists(path);
    return mega_writer_append_to(path, &o->writer);
}

/* Truncates the file before the first text. Pipes and devices have position 0 and stay open, because closing one would
 * look like the end of the data to its reader. */
static mega_status begin(generate_output *o)
{
    mega_writer *w = o->writer;
    if (o->begun) return MEGA_OK;
    o->begun = true;
    if (mega_writer_position(w) == 0) return MEGA_OK;
    o->writer = NULL;
    mega_info("%s: the output of an earlier run there is replaced", o->path);
    MEGA_TRY(mega_writer_close(w, false));
    return mega_writer_create(o->path, &o->writer);
}

mega_status generate_output_write(generate_output *o, const char *text)
{
    MEGA_TRY(begin(o));
    MEGA_TRY(mega_writer_write(o->writer, text, strlen(text)));
    /* so that the file contains only complete texts, even if a signal ends the run */
    MEGA_TRY(mega_writer_flush(o->writer));
    o->count++;
    return MEGA_OK;
}

mega_status generate_output_close(generate_output *o, const char *what)
{
    if (o->writer == NULL) return MEGA_OK;
    MEGA_TRY(begin(o));
    mega_writer *w = o->writer;
    o->writer = NULL;
    MEGA_TRY(mega_writer_close(w, false));
    mega_info("%s are in %s", what, o->path);
    return MEGA_OK;
}

static void generate_files_keep(generate_output *o)
{
    mega_error_record why;
    if (o->writer == NULL) return;
    if (o->is_new && !o->begun) {
        mega_writer_abandon(o->writer);
    } else {
        mega_error_get(&why); /* keep the first error as the one to report */
        MEGA_IGNORE(mega_writer_close(o->writer, false));
        mega_error_restore(&why);
        if (o->count > 0)
            mega_info("%lld finished sample%s %s in %s", (long long)o->count, o->count == 1 ? "" : "s",
                      o->count == 1 ? "is" : "are", o->path);
    }
    o->writer = NULL;
}

void generate_output_keep(generate_output *o)
{
    generate_files_keep(o);
    mega_lock_release(o->lock);
    o->lock = NULL;
}
