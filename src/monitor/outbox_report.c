/* What is logged about files that cannot be written. */
#include "megalith/log.h"
#include "megalith/outbox.h"

static const char *outbox_count_text(const mega_outbox_report *f)
{
    return f->counted != NULL ? f->counted : "iterations";
}

void mega_outbox_hear(mega_outbox_report *f, mega_status st, mega_missing missing)
{
    if (st != MEGA_OK && !f->is_failing)
        mega_warn("%s: %s; the training continues; what cannot be written is kept in memory (1 MiB at most) and tried "
                  "again",
                  f->option, mega_error_message());
    if (st == MEGA_OK && f->is_failing) mega_info("%s %s: can be written again", f->option, f->path);
    f->is_failing = st != MEGA_OK;
    if (st != MEGA_OK || missing.pieces <= f->lost) return;
    f->lost = missing.pieces;
    mega_warn("%s %s: it was removed, or could not be written for long: %s of %s %lld to %lld are lost", f->option,
              f->path, f->what, outbox_count_text(f), (long long)missing.first, (long long)missing.last);
}

void mega_outbox_hear_end(const mega_outbox_report *f, mega_status st, mega_missing missing)
{
    if (missing.pieces > 0)
        mega_warn("%s %s: %s of %s %lld to %lld are missing%s%s", f->option, f->path, f->what, outbox_count_text(f),
                  (long long)missing.first, (long long)missing.last, st != MEGA_OK ? ": " : "",
                  st != MEGA_OK ? mega_error_message() : "");
    else if (st != MEGA_OK)
        mega_warn("%s %s: its last %s may be missing: %s", f->option, f->path, f->what, mega_error_message());
}
