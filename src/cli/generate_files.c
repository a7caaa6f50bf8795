/* The files of answers: what they held before stays until the first answer is there, and answers stay whatever comes
 * after them. */
#include "generate.h"
#include "megalith/log.h"

#include <string.h>

/* Opened without emptying it: a run that ends before its first answer must not cost those of an earlier one. */
mega_status generate_output_open(generate_output *o, const char *path)
{
    o->path = path;
    o->is_new = !mega_file_exists(path);
    return mega_writer_append_to(&o->writer, path);
}

/* Pipes and devices stand at 0 and stay open: their reader would take a closing for the end. */
static mega_status begin(generate_output *o)
{
    mega_writer *w = o->writer;
    if (o->begun) return MEGA_OK;
    o->begun = true;
    if (mega_writer_position(w) == 0) return MEGA_OK;
    o->writer = NULL;
    mega_info("%s: the output of an earlier run there is replaced", o->path);
    MEGA_TRY(mega_writer_close(w, false));
    return mega_writer_create(&o->writer, o->path);
}

mega_status generate_output_write(generate_output *o, const char *text)
{
    MEGA_TRY(begin(o));
    MEGA_TRY(mega_writer_write(o->writer, text, strlen(text)));
    MEGA_TRY(mega_writer_flush(o->writer)); /* whoever ends the run, also by a signal, leaves whole answers */
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

void generate_output_keep(generate_output *o)
{
    mega_error_record why;
    if (o->writer == NULL) return;
    if (o->is_new && !o->begun) {
        mega_writer_abandon(o->writer);
    } else {
        mega_error_get(&why); /* the first error stays the one to tell */
        mega_writer_close(o->writer, false);
        mega_error_restore(&why);
        if (o->count > 0)
            mega_info("%lld finished sample%s %s in %s", (long long)o->count, o->count == 1 ? "" : "s",
                      o->count == 1 ? "is" : "are", o->path);
    }
    o->writer = NULL;
}
