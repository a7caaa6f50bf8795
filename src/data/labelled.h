/* Shared by the readers of labelled samples. */
#ifndef MEGA_DATA_LABELLED_H
#define MEGA_DATA_LABELLED_H

#include "megalith/labelled.h"
#include "megalith/memory.h"

typedef struct labelled_sequence {
    int64_t begin;         /* in ids */
    int32_t length, first; /* first: tokens of type 0 */
} labelled_sequence;

struct mega_labelled {
    const mega_labelled_task *task;
    int64_t seq_length, choices; /* choices: sequences of a sample, at least 1 */
    int32_t cls, sep, pad;
    mega_ids ids;
    labelled_sequence *sequence;
    int64_t sequences, sequence_room;
    int32_t *label;
    int64_t samples, label_room;
    mega_labelled_set *set;
    size_t sets;
    uint64_t hash;
};

/* What reading needs. */
typedef struct labelled_reader {
    mega_labelled *out;
    mega_labelled_set *set;
    mega_encoder *encoder;
    const mega_labelled_options *options;
    mega_buffer clean;
    mega_ids first, second;
} labelled_reader;

static inline bool labelled_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Appends the ids of a text to *ids, after white space has become single blanks and blanks before a full stop are
 * gone. */
mega_status labelled_encode(labelled_reader *r, const char *text, size_t bytes, mega_ids *ids);
/* Adds a sequence of one text, or of two unless second is NULL; and the label of the sample that its last sequences
 * are. */
mega_status labelled_add(labelled_reader *r, const mega_ids *first, const mega_ids *second);
mega_status labelled_add_label(labelled_reader *r, int32_t label);
/* Calls take for each line of a file, without white space at its ends, until one fails or the reading is stopped. */
mega_status labelled_lines(labelled_reader *r, const char *path,
                           mega_status (*take)(void *user, int64_t line, const char *text, size_t bytes), void *user);

/* labelled_tsv.c, labelled_race.c: read one path into out. */
mega_status labelled_read_tsv(labelled_reader *r, const char *path);
mega_status labelled_read_race(labelled_reader *r, const char *path);

#endif
