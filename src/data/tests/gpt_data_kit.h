#ifndef GPT_DATA_KIT_H
#define GPT_DATA_KIT_H

/* Shared by the tests of GPT data sets: small indexed files, building, comparing, and the warnings of a build. */
#include "data_impl.h"
#include "kit.h"
#include "megalith/log.h"
#include <stdio.h>
#include <string.h>

enum { L = 8, GPT_KIT_WARNING = 600 };

/* Writes `count` documents; the tokens of document d are d*100, d*100+1, …, so that a token shows where it comes
 * from. */
static inline const char *gpt_kit_write(const char *folder, const char *name, int count, int length)
{
    const char *prefix = mega_kit_path(folder, name);
    mega_indexed_writer *w;
    assert_int_equal(mega_indexed_writer_create(prefix, MEGA_I32, &w), MEGA_OK);
    for (int d = 0; d < count; d++) {
        int32_t tokens[128];
        for (int i = 0; i < length; i++) tokens[i] = d * 100 + i;
        assert_int_equal(mega_indexed_writer_add(w, tokens, length), MEGA_OK);
    }
    assert_int_equal(mega_indexed_writer_finish(w), MEGA_OK);
    return prefix;
}

static inline void gpt_kit_destroy(mega_gpt_data *d[MEGA_SPLIT_COUNT])
{
    for (int k = 0; k < MEGA_SPLIT_COUNT; k++) mega_gpt_data_destroy(d[k]);
}

static inline void gpt_kit_build(mega_gpt_data *d[MEGA_SPLIT_COUNT], const mega_gpt_data_options *o)
{
    if (mega_gpt_data_build(o, d) != MEGA_OK) fail_msg("%s", mega_error_message());
}

static inline int gpt_kit_files_in(const char *folder, const char *name)
{
    mega_names names;
    if (mega_folder_list(mega_kit_path(folder, name), &names) != MEGA_OK) return -1;
    const int n = (int)names.count;
    mega_names_fini(&names);
    return n;
}

static inline void gpt_kit_compare(const mega_gpt_data *a, const mega_gpt_data *b)
{
    assert_int_equal(mega_gpt_data_samples(a), mega_gpt_data_samples(b));
    for (int64_t i = 0; i < mega_gpt_data_samples(a); i++) {
        int32_t x[L + 1], y[L + 1];
        MEGA_IGNORE(mega_gpt_data_sample(a, i, x));
        MEGA_IGNORE(mega_gpt_data_sample(b, i, y));
        assert_memory_equal(x, y, sizeof x);
    }
}

/* A log sink: keeps the last warning in the GPT_KIT_WARNING characters at `user`. */
static inline void gpt_kit_note_warning(void *user, mega_log_level level, const char *line)
{
    if (level == MEGA_LOG_WARN) snprintf(user, GPT_KIT_WARNING, "%s", line);
}

#endif
