/* Shared by the files of generate_samples_gpt: a session, which generates texts in rounds. */
#ifndef MEGA_CLI_GENERATE_H
#define MEGA_CLI_GENERATE_H

#include "loaded.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/generate.h"
#include "megalith/lock.h"
#include <stdio.h>

/* One sequence of a round: its prompt and its output. */
typedef struct sequence {
    mega_ids ids;   /* prompt */
    char *prompt;   /* the prompt's text; "" for an unconditional sample */
    mega_ids fresh; /* the new tokens */
    bool finished;
    bool passed_over; /* the prompt is too long: nothing is generated, and the text is the prompt alone */
    double score;     /* of the best text of a beam search */
    float *logprobs;  /* of each token after the first, with --logprobs; else NULL */
} sequence;

/* An output file of generated texts. Zero-initialised is valid and closed. */
typedef struct generate_output {
    mega_writer *writer; /* NULL: closed */
    mega_lock *lock;     /* NULL for pipes and devices; held until the command ends */
    const char *path;    /* borrowed */
    bool is_new;         /* the file did not exist before */
    bool begun;          /* the file now contains only texts of this run */
    int64_t count;       /* number of texts written */
} generate_output;

/* generate_rules.c: what ends a text and how its tokens are drawn, from the options. */
typedef struct generate_ends {
    int32_t id[6 + MEGA_SHAPE_EOS];
    mega_id_sequence end[4 + MEGA_SHAPE_EOS];
    int32_t stop[1 + MEGA_SHAPE_EOS]; /* the ids that end a text and are not shown; the first may be -1: none */
    int num_stops;
} generate_ends;
/* Fills *ends and the members `end` and num_ends of *rules: the id `stop`, or where it is -1 the tokenizer's end of
 * document and those that the folder names; and line ends. */
void generate_ends_make(const mega_loaded *l, int32_t stop, bool on_eol, bool on_double_eol, generate_ends *ends,
                        mega_generation_rules *rules);
/* Whether an id ends a text and is not shown. */
bool generate_is_stop(const generate_ends *ends, int32_t id);
/* Fills *ends and *out, which borrows from it and from the options. */
mega_status generate_rules_make(const mega_command_options *cfg, const mega_loaded *l, generate_ends *ends,
                                mega_generation_rules *out);

void generate_beams_make(const mega_command_options *cfg, const mega_generation_rules *rules, const generate_ends *ends,
                         mega_beam_options *out);

/* generate_logits.c: the file of --return-logits. */
typedef struct generate_logits generate_logits;

typedef struct session {
    mega_command_options *cfg;
    /* ranks that share a model generate the same texts, other ranks another part of the round; the first rank prints
     * and writes all of them */
    mega_world *world;
    mega_loaded loaded;
    mega_generator *generator;
    mega_generation_rules rules;
    generate_ends ends;
    mega_beam_options beams; /* width 1: no beam search */
    mega_beam_text *beam;    /* [width] */
    generate_logits *logits; /* NULL: none are written here */
    generate_output genfile, sample_file;
    sequence *round;        /* [room] the sequences of the current round */
    mega_generation *asked; /* [batch] the generator's view of this rank's part of the round */
    int32_t *told;          /* [room, told_width] generated tokens, exchanged between ranks */
    int64_t room, told_width;
    uint64_t next_index; /* index of the next sequence: selects its random numbers */
    int64_t new_tokens;
    bool has_lines; /* prompts come from lines of a file or of standard input */
    int64_t line;   /* number of the last line read, counted by the first rank */
    double started;
} session;

/* A source of prompts: each call returns the next one in *prompt (borrowed until the next call), or NULL at the end.
 * All ranks get the same prompt. */
typedef mega_status generate_next(void *user, const char **prompt);

/* generate_rounds.c: a round has one batch per copy of the model, in the order of the prompts, so that each batch
 * holds the same prompts as with one rank. */
mega_status generate_open_rounds(session *s);
/* Whether an encoder reads the prompt, so that the text of the model is the new one alone. */
bool generate_has_source(const session *s);
/* Positions for which programs and caches are made: those of the model or, of an encoder, as many as the prompts of the
 * command line and the new tokens need. */
int64_t generate_positions(const session *s);
/* Tokens of a text of the model before the new ones. */
int64_t generate_begun(const session *s, const sequence *q);
/* Checks the prompts of the command line: reports all that are too long, before generating. */
mega_status generate_check_prompts(session *s);
void generate_close_rounds(session *s);
mega_status generate_all(session *s, generate_next *next, void *user);

/* generate_prompts.c */
mega_status generate_from_list(session *s, const mega_list *prompts);
mega_status generate_unconditional(session *s, int64_t count);
/* The first rank reads the lines and sends them to all ranks */
mega_status generate_from_lines(session *s, FILE *file, bool ask);

/* generate_files.c. Each text is written at once and completely. close: at the end of a run, prints "WHAT are in
 * PATH"; does nothing if the output is not open. keep: after an error, keeps what was written and the error; deletes a
 * new file that is still empty. */
mega_status generate_output_open(generate_output *o, const char *option, const char *path);
/* Checks that no other process is writing to it */
mega_status generate_output_check(const char *option, const char *path);
mega_status generate_output_write(generate_output *o, const char *text);
mega_status generate_output_close(generate_output *o, const char *what);
void generate_output_keep(generate_output *o);

mega_status generate_logits_open(generate_logits **out, const char *path, int64_t vocab);
/* A row of logits, and then the token drawn from it. generate_logits_finish returns the errors of writing. */
void generate_logits_row(generate_logits *l, const float *logits);
void generate_logits_token(generate_logits *l, uint64_t text, int32_t token);
/* Writes the file: rows by text, and those of a text in their order. */
mega_status generate_logits_finish(generate_logits *l);
void generate_logits_close(generate_logits *l); /* removes what is not finished; NULL is allowed */

/* generate_write.c: prints text on the terminal while it is generated; passed as `user` to the token callback. */
typedef struct generate_stream {
    const mega_tokenizer *tokenizer;
    mega_decoder *decoder; /* NULL before the first token */
    mega_buffer pending;   /* bytes of an incomplete UTF-8 character */
    session *session;
    bool on;
    mega_status status;
} generate_stream;
/* Appends text as valid UTF-8, which JSON requires: each invalid byte becomes U+FFFD. A text may end inside a
 * character, and an untrained model produces arbitrary bytes. */
mega_status generate_append_utf8(mega_buffer *out, const char *text, size_t bytes);
bool generate_stream_token(void *user, int row, int32_t token);
void generate_stream_logits(void *user, int row, const float *logits, int64_t vocab);
/* Prints and writes a finished text; if it was streamed, prints only the end of the line. */
mega_status generate_report(session *s, const sequence *q, bool streamed);

#endif
