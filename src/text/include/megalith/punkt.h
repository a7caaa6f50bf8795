/* Punkt (Kiss and Strunk 2006): cuts a text into sentences. It tells ends of sentences from abbreviations, initials and
 * ordinal numbers by parameters that it learns from texts without any labels: abbreviations, pairs of words around a
 * period, words that begin sentences, and where words are written with a capital. */
#ifndef MEGALITH_PUNKT_H
#define MEGALITH_PUNKT_H

#include "megalith/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mega_punkt mega_punkt; /* rules of a language and parameters; any thread may cut with it */

/* Creates one without parameters. language: an English name ("german"), NULL or one that has no rules of its own: the
 * rules of European languages. Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_punkt_create(const char *language, mega_punkt **out);
void mega_punkt_destroy(mega_punkt *p);
/* Whether it has rules for a language of this English name or two-letter code. */
bool mega_punkt_knows(const char *language);
/* Returns true for a language whose ends of sentences are marks of their own, so that it needs no parameters. */
bool mega_punkt_needs_none(const char *language);

/* Reads or writes parameters as NLTK's punkt_tab keeps them: a folder of abbrev_types.txt, collocations.tab,
 * sent_starters.txt and ortho_context.tab, and numeric_abbrev_types.txt if there are any (abbreviations in front of a
 * number alone). Reading adds to what is there. Returns MEGA_ERR_NOT_FOUND, MEGA_ERR_IO, MEGA_ERR_FORMAT or
 * MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_punkt_read(mega_punkt *p, const char *folder);
MEGA_CHECK_RESULT mega_status mega_punkt_write(const mega_punkt *p, const char *folder);
/* Adds abbreviations, one a line, with or without their last period; lines that begin with # are comments. */
MEGA_CHECK_RESULT mega_status mega_punkt_read_abbreviations(mega_punkt *p, const char *path);

/* Learning: pass every text, in the order of the corpus, then finish. Texts must not be cut meanwhile. Learns on top of
 * what `p` holds, which it keeps. */
typedef struct mega_punkt_trainer mega_punkt_trainer;
MEGA_CHECK_RESULT mega_status mega_punkt_trainer_create(mega_punkt *p, mega_punkt_trainer **out);
MEGA_CHECK_RESULT mega_status mega_punkt_learn(mega_punkt_trainer *t, const char *text, size_t bytes);
MEGA_CHECK_RESULT mega_status mega_punkt_finish(mega_punkt_trainer *t);
void mega_punkt_trainer_destroy(mega_punkt_trainer *t);

/* The sentences of a text, as bytes [begin, end). Zero-initialised is valid and empty; reused for the next text. */
typedef struct mega_sentence_span {
    size_t begin, end;
} mega_sentence_span;
typedef struct mega_sentence_spans {
    mega_sentence_span *span;
    int64_t count, capacity;
    void *work; /* of the thread that cuts with it */
} mega_sentence_spans;
void mega_sentence_spans_fini(mega_sentence_spans *s);
/* White space between sentences belongs to none. keep_newlines: it belongs to the sentence before it, and a sentence
 * may begin without any (Megatron's --keep-newlines). Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_punkt_cut(const mega_punkt *p, const char *text, size_t bytes, bool keep_newlines,
                                             mega_sentence_spans *out);

#endif
