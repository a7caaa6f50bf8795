/* The data sets of BERT and T5: samples of consecutive sentences with masked tokens, the same arrays as in Megatron-LM
 * for the same data, split, seed and number of samples. The data come from preprocess_data --split-sentences: each
 * sequence of the .idx is a sentence.
 *
 * They are mega_gpt_data (gpt_data.h) built with `sentences`: parts of --split (of documents here), blends, cache
 * files, shared memory and hashes work as they do there. A sample is a function of the seed and its number alone. */
#ifndef MEGALITH_SENTENCE_DATA_H
#define MEGALITH_SENTENCE_DATA_H

#include "megalith/gpt_data.h"

typedef enum mega_sentence_kind { MEGA_SENTENCES_BERT = 0, MEGA_SENTENCES_T5 } mega_sentence_kind;

/* What a data set has to know about the vocabulary. */
typedef struct mega_sentence_vocabulary {
    int32_t cls, sep, mask, pad;
    int32_t bos, eos;        /* T5 alone */
    const int32_t *sentinel; /* T5 alone: the ids that replace masked spans, in the order of their use; borrowed */
    int64_t sentinels;
    int64_t size;          /* a token that is replaced at random becomes one of the ids 0 to size - 1 */
    const bool *continues; /* [size] whether the token goes on with a word ("##ing"); borrowed. NULL: none does */
} mega_sentence_vocabulary;

typedef struct mega_sentence_options {
    mega_sentence_kind kind;
    /* Borrowed by the data set. NULL only with check_only. */
    const mega_sentence_vocabulary *vocabulary;
    double mask_prob;      /* --mask-prob: part of the tokens to predict */
    double short_seq_prob; /* --short-seq-prob: part of the samples that are made shorter at random */
    /* BERT: samples are pairs of segments A and B, and the model predicts is_random. False: --bert-no-binary-head. */
    bool binary_head;
    /* BERT with binary_head: false: is_random says that A and B were exchanged (sentence order, as in Megatron). True
     * (--bert-nsp): it says that B comes from another document. The draw: where sentence order would draw whether to
     * exchange, random() < 0.5 makes B random; then up to ten samples of the map are drawn with interval(samples - 1),
     * and B becomes the sentences of the first one of another document. If all ten are of the same document, B stays
     * and is_random is false. */
    bool nsp;
    int64_t decoder_seq_length; /* T5: --decoder-seq-length; seq_length of the data set is the encoder's */
} mega_sentence_options;

/* One sample, and the memory to make it in. */
typedef struct mega_sentence_row {
    int64_t seq_length;      /* of BERT, or of T5's encoder */
    int64_t label_length;    /* of the labels: seq_length, or decoder_seq_length of T5 */
    int64_t length;          /* tokens before the padding: keys at and after this one are hidden */
    int64_t label_positions; /* of the decoder before the padding; for BERT the same as length */
    int32_t *tokens;         /* [seq_length], padded with the pad id */
    int32_t *types;          /* [seq_length] BERT: 0 for A, 1 for B, the pad id for padding */
    int32_t *padding_mask;   /* [seq_length] 1 for tokens, 0 for padding */
    int32_t *decoder_tokens; /* [label_length] T5: BOS, then sentinels and masked spans */
    int32_t *labels;         /* [label_length] -1 where nothing is predicted */
    /* [label_length] 1 where the label counts. All 0 in a BERT sample that is too short to mask a token. */
    float *loss_mask;
    bool is_random; /* the label of BERT's binary head */
    bool truncated; /* tokens were removed to reach the length of the sample */
    void *memory;   /* of all arrays and of the work */
} mega_sentence_row;
/* Returns MEGA_ERR_MEMORY. */
MEGA_CHECK_RESULT mega_status mega_sentence_row_create(const mega_sentence_options *o, int64_t seq_length,
                                                       mega_sentence_row *out);
void mega_sentence_row_destroy(mega_sentence_row *row); /* a zero-initialised one is valid */

/* Returns MEGA_ERR_USAGE, naming the option, for values that no data set can be built with. */
MEGA_CHECK_RESULT mega_status mega_sentence_check(const mega_sentence_options *o, int64_t seq_length);

/* Tokens of a sample besides those of its text. */
int64_t mega_sentence_added(const mega_sentence_options *o);

/* Makes sample `index` of data built with `sentences`; row: created with the same options. Any thread may call it, each
 * with a row of its own. Returns MEGA_ERR_USAGE unless 0 <= index < samples, or if a T5 sample needs more sentinels or
 * decoder positions than there are; otherwise as mega_gpt_data_sample. */
MEGA_CHECK_RESULT mega_status mega_sentence_sample(const mega_gpt_data *d, int64_t index, mega_sentence_row *row);

/* mega_dataset_gpt of such data fills these inputs, if the model has them with this count of numbers (S: seq_length, D:
 * decoder_seq_length):
 *
 *   BERT  tokens, token_types, position_ids, labels [S] i32, loss_mask [S] f32, is_random [1] i32,
 *         key_end [S] i32 (`length` for each query)
 *   T5    tokens, position_ids [S], decoder_tokens, decoder_position_ids, labels [D] i32, loss_mask [D] f32,
 *         key_end [S] i32 (of the encoder), cross_key_end [D] i32 (`length` for each query of the decoder)
 *
 * Labels that do not count are 0 there, and token types of padding are 0. The decoder needs no key_end: its padding
 * follows its tokens, and it is causal. padding_mask is an input of either: [S] i32. */

#endif
