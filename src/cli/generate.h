/* What the files of generate_samples_gpt share: a session of texts that are made in rounds. */
#ifndef MEGA_CLI_GENERATE_H
#define MEGA_CLI_GENERATE_H

#include "loaded.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/generate.h"
#include "megalith/lock.h"
#include <stdio.h>

/* One sequence of a round: its prompt and what is shown of it. */
typedef struct sequence {
    mega_ids ids;   /* prompt */
    char *prompt;   /* "" for unconditional */
    mega_ids fresh; /* the new tokens */
    bool finished;
    bool passed_over; /* too long: its text is the prompt, nothing is made */
} sequence;

/* A file of answers. Zero-initialised is valid and closed. */
typedef struct generate_output {
    mega_writer *writer; /* NULL: closed */
    mega_lock *lock;     /* NULL of pipes and devices; held until the end of the command */
    const char *path;    /* borrowed */
    bool is_new;         /* was not there before */
    bool begun;          /* holds this run's answers and no others */
    int64_t count;       /* answers */
} generate_output;

typedef struct session {
    mega_command_options *cfg;
    mega_world *world; /* ranks that share a model make the same texts, others another part of a round; the first rank
                          prints and writes all of them */
    mega_loaded loaded;
    mega_generator *generator;
    mega_sampling sampling;
    generate_output genfile, sample_file;
    sequence *round;        /* [room] */
    mega_generation *asked; /* [batch] of this rank's part of it */
    int32_t *told;          /* [room, told_width] generated texts, exchanged between ranks */
    int64_t room, told_width;
    uint64_t next_index; /* of the next sequence: addresses its random numbers */
    int64_t new_tokens;
    bool has_lines; /* prompts are lines of a file or of standard input */
    int64_t line;   /* last read one, counted by the first rank */
    double started;
} session;

/* Where prompts come from: each call gives the next one (borrowed until the next call), or NULL at the end, on every
 * rank the same. */
typedef mega_status generate_next(void *user, const char **prompt);

/* generate_rounds.c: a round is a batch for each data-parallel rank, in the order of the prompts, so that batches hold
 * what one rank would put in them. */
mega_status generate_open_rounds(session *s);
/* Those of the command line: all that are too long, before the first is answered. */
mega_status generate_check_prompts(session *s);
void generate_close_rounds(session *s);
mega_status generate_all(session *s, generate_next *next, void *user);

/* generate_prompts.c */
mega_status generate_from_list(session *s, const mega_list *prompts);
mega_status generate_unconditional(session *s, int64_t count);
mega_status generate_from_lines(session *s, FILE *file, bool ask); /* the first rank reads for all */

/* generate_files.c. Each answer is written at once and whole. close: at the end of a run, "WHAT are in PATH"; an output
 * that is not open is passed over. keep: after an error, what was written stays and the error too; a file that was made
 * for nothing goes. */
mega_status generate_output_open(generate_output *o, const char *option, const char *path);
mega_status generate_output_check(const char *option, const char *path); /* would another process be in its way? */
mega_status generate_output_write(generate_output *o, const char *text);
mega_status generate_output_close(generate_output *o, const char *what);
void generate_output_keep(generate_output *o);

/* generate_write.c: text on its way to the terminal while it is made; `user` of the sink. */
typedef struct generate_stream {
    const mega_tokenizer *tokenizer;
    mega_buffer pending; /* bytes of an unfinished UTF-8 sequence */
    int32_t eod;
    bool on;
    mega_status status;
} generate_stream;
bool generate_stream_token(void *user, int row, int32_t token);
/* Prints and writes a text that is ready; of a streamed one the end of the line. */
mega_status generate_report(session *s, const sequence *q, bool streamed);

#endif
