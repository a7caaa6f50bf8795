/* Adds to an error about a checkpoint what the user can do. */
#include "ckpt_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool remedy_is_whole(const char *save, int64_t iteration)
{
    mega_checksums sums = {0};
    char *folder = mega_iteration_path(save, iteration);
    const bool whole = folder != NULL && mega_checksums_read(folder, &sums) == MEGA_OK &&
                       mega_checksums_verify(&sums, folder, MEGA_SUMS_ALL, NULL) == MEGA_OK;
    mega_checksums_fini(&sums);
    mega_free(folder);
    return whole;
}

/* Returns the iteration that --load-previous would use: the newest before `damaged`, otherwise the newest after it; -1:
 * none. */
static int64_t whole_iteration(const char *save, int64_t damaged)
{
    mega_iterations list = {0};
    int64_t found = -1;
    if (mega_iterations_list(save, &list) != MEGA_OK) return -1;
    for (int later = 0; later < 2 && found < 0; later++) {
        for (size_t i = list.count; i > 0 && found < 0; i--) {
            const int64_t iteration = list.iteration[i - 1];
            if (iteration == damaged || (iteration > damaged) != (later == 1)) continue;
            if (remedy_is_whole(save, iteration)) found = iteration;
        }
    }
    mega_iterations_fini(&list);
    return found;
}

static void remedy_append(mega_error_record *record, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void remedy_append(mega_error_record *record, const char *fmt, ...)
{
    const size_t n = strlen(record->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(record->text + n, sizeof record->text - n, fmt, args);
    va_end(args);
}

/* Text is appended to a message of one line, but starts a new line after a longer one. */
static const char *remedy_joint(const mega_error_record *record)
{
    return strchr(record->text, '\n') != NULL ? "\n  " : "; ";
}

void mega_remedy_add(const char *save, int64_t damaged, bool tried)
{
    mega_error_record record;
    mega_error_get(&record);
    const int64_t whole = tried ? -1 : whole_iteration(save, damaged);
    if (whole >= 0)
        remedy_append(&record,
                      "%s--load-previous resumes from iter_%07" PRId64 ", which is complete (--load %s/iter_%07" PRId64
                      " does the same)",
                      remedy_joint(&record), whole, save, whole);
    else
        remedy_append(&record,
                      "%s%s contains no other complete checkpoint; a run without --load starts from random weights",
                      remedy_joint(&record), save);
    mega_error_restore(&record);
}

void mega_remedy_add_beside(const char *folder)
{
    mega_error_record record;
    int64_t damaged = -1;
    if (!mega_iteration_parse(mega_path_base(folder), &damaged)) return;
    mega_error_get(&record);
    char *save = mega_path_folder(folder);
    const int64_t whole = save != NULL ? whole_iteration(save, damaged) : -1;
    if (whole >= 0)
        remedy_append(&record, "%s--load %s/iter_%07" PRId64 " is whole", remedy_joint(&record), save, whole);
    mega_free(save);
    mega_error_restore(&record);
}

/* Returns whether the file holds weights of any program, except those that refuse_torch recognises. A .bin beside an
 * .idx is a data set. */
static bool is_weights(const char *folder, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (strstr(name, ".safetensors") != NULL || strncmp(name, "pytorch_model", 13) == 0) return true;
    if (dot != NULL && strcmp(dot, ".gguf") == 0) return true;
    if (dot == NULL || strcmp(dot, ".bin") != 0) return false;
    char *index = mega_format("%s/%.*s.idx", folder, (int)(dot - name), name);
    const bool alone = index == NULL || !mega_file_exists(index);
    mega_free(index);
    return alone;
}

mega_status mega_remedy_refuse_parts(const char *folder, const mega_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->name[i];
        int64_t iteration;
        if (mega_iteration_parse(name, &iteration))
            return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                             "%s: found %s without state/checksums.json and no " MEGA_TRACKER
                             ", expected a --save folder of pretrain_gpt; if %s is a Hugging Face folder, give --load "
                             "%s/%s",
                             folder, name, name, folder, name);
        if (is_weights(folder, name))
            return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                             "%s: found weights (%s) without config.json; expected a folder saved by transformers "
                             "(config.json and model.safetensors) or a --save folder of pretrain_gpt",
                             folder, name);
    }
    return MEGA_OK;
}
