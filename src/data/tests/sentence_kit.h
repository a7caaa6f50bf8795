/* Shared by the tests of BERT's and T5's samples: a vocabulary, documents of random sentences, opening. */
#ifndef SENTENCE_KIT_H
#define SENTENCE_KIT_H

#include "data_impl.h"
#include "kit.h"

/* The numbers of tools/make_sentence_golden.py. */
enum { VOCABULARY = 400, SENTINELS = 100, FIRST_WORD = 10 };

static bool continues[VOCABULARY];
static int32_t sentinel[SENTINELS];
static mega_sentence_vocabulary vocabulary = {.cls = 2,
                                              .sep = 3,
                                              .mask = 4,
                                              .bos = 5,
                                              .eos = 6,
                                              .sentinel = sentinel,
                                              .sentinels = SENTINELS,
                                              .size = VOCABULARY,
                                              .continues = continues};

static inline void vocabulary_fill(void)
{
    for (int i = 0; i < VOCABULARY; i++) continues[i] = i >= FIRST_WORD && i % 5 == 0;
    for (int i = 0; i < SENTINELS; i++) sentinel[i] = VOCABULARY - SENTINELS + i;
}

static uint32_t draw_state;
static inline int32_t below(uint32_t n)
{
    draw_state = (draw_state * 1103515245u + 12345u) & 0x7fffffffu;
    return (int32_t)((draw_state >> 8) % n);
}

/* Writes a data set by a rule: a seed, the number of documents, the most sentences of one, and the most tokens of a
 * sentence, of which one in 60 has more than 512. Returns its prefix. */
static inline const char *write_documents(const char *name, const int64_t rule[4])
{
    const char *prefix = mega_kit_path(mega_kit_temp_folder(), name);
    mega_indexed_writer *w;
    need(mega_indexed_writer_create(prefix, MEGA_I32, &w));
    draw_state = (uint32_t)rule[0];
    for (int64_t d = 0; d < rule[1]; d++) {
        static int32_t tokens[20000];
        int32_t sizes[32];
        int64_t at = 0;
        const int32_t count = below((uint32_t)rule[2] + 1);
        for (int32_t s = 0; s < count; s++) {
            const bool is_long = below(60) == 0;
            sizes[s] = is_long ? 513 + below(40) : 1 + below((uint32_t)rule[3]);
            for (int32_t i = 0; i < sizes[s]; i++)
                tokens[at++] = FIRST_WORD + below(VOCABULARY - SENTINELS - FIRST_WORD);
        }
        if (count == 0) need(mega_indexed_writer_add(w, NULL, 0));
        else
            need(mega_indexed_writer_add_document(w, tokens, sizes, count));
    }
    need(mega_indexed_writer_finish(w));
    return prefix;
}

static inline mega_gpt_data *open_data(const char *prefix, const mega_sentence_options *o, int64_t seq, uint32_t seed,
                                       int64_t wanted)
{
    mega_gpt_data *d[MEGA_SPLIT_COUNT] = {NULL};
    const mega_gpt_data_options g = {.separate = {&prefix},
                                     .num_separate = {1},
                                     .seq_length = seq,
                                     .seed = seed,
                                     .num_samples = {wanted},
                                     .sentences = o,
                                     .in_memory = true};
    need(mega_gpt_data_build(&g, d));
    return d[MEGA_SPLIT_TRAIN];
}

/* The documents of most tests, and the lengths of a sample of BERT or of T5's encoder, and of T5's decoder. */
static const int64_t rule[4] = {7, 60, 14, 30};

enum { S = 64, D = 40 };

#endif
