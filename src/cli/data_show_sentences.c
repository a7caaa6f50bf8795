/* Samples of data show that pretrain_bert and pretrain_t5 make of sentences: tokens, and what is predicted of them. */
#include "data_show.h"
#include "megalith/memory.h"
#include "megalith/sentence_data.h"
#include "megalith/train.h"
#include <inttypes.h>
#include <stdio.h>

/* Token, and the label where one counts. */
static mega_status print_token(const mega_tokenizer *t, int64_t i, const int32_t *token, const int32_t *type,
                               const mega_sentence_row *labels)
{
    printf("%7" PRId64 " ", i);
    if (type != NULL) printf("%4d ", type[i]);
    MEGA_TRY(mega_data_print_piece(t, token[i]));
    if (labels != NULL && labels->loss_mask[i] > 0) MEGA_TRY(mega_data_print_piece(t, labels->labels[i]));
    printf("\n");
    return MEGA_OK;
}

static mega_status print_bert(const mega_tokenizer *t, const mega_sentence_options *o, const mega_sentence_row *row)
{
    if (o->binary_head)
        printf("%s\n", o->nsp ? row->is_random ? "the second text is of another document" : "the second text follows"
                       : row->is_random ? "the second text comes first"
                                        : "the texts are in order");
    printf("      i type   input%*s   label\n", MEGA_DATA_PIECE_WIDTH, "");
    for (int64_t i = 0; i < row->length; i++) MEGA_TRY(print_token(t, i, row->tokens, row->types, row));
    return MEGA_OK;
}

static mega_status print_t5(const mega_tokenizer *t, const mega_sentence_row *row)
{
    printf("      i   input of the encoder\n");
    for (int64_t i = 0; i < row->length; i++) MEGA_TRY(print_token(t, i, row->tokens, NULL, NULL));
    printf("      i   input of the decoder%*s label\n", MEGA_DATA_PIECE_WIDTH - 13, "");
    for (int64_t i = 0; i < row->label_positions; i++) MEGA_TRY(print_token(t, i, row->decoder_tokens, NULL, row));
    return MEGA_OK;
}

static mega_status print_samples(const mega_command_options *cfg, const mega_tokenizer *t, const mega_gpt_data *d,
                                 const mega_sentence_options *o, int64_t count)
{
    const int64_t first = cfg->data.first, all = mega_gpt_data_samples(d), length = cfg->train.seq_length;
    mega_sentence_row row = {0};
    mega_status st = mega_sentence_row_create(o, length, &row);
    for (int64_t i = first; st == MEGA_OK && i < all && i - first < count; i++) {
        st = mega_sentence_sample(d, i, &row);
        if (st != MEGA_OK) break;
        printf("--- sample %" PRId64 " of %" PRId64 ", %" PRId64 " tokens of %" PRId64 "%s\n", i, all, row.length,
               length, row.truncated ? ", cut" : "");
        st = o->kind == MEGA_SENTENCES_T5 ? print_t5(t, &row) : print_bert(t, o, &row);
    }
    mega_sentence_row_destroy(&row);
    return st;
}

static mega_status build_shown_sentences(const mega_command_options *cfg, const char *prefix,
                                         const mega_sentence_options *o, int64_t count, mega_gpt_data **out)
{
    const mega_gpt_data_options g = {.data_path = &prefix,
                                     .num_data_path = 1,
                                     .split = cfg->train.data.split,
                                     .in_memory = true,
                                     .seq_length = cfg->train.seq_length,
                                     .seed = (uint32_t)cfg->train.engine.seed,
                                     .sentences = o,
                                     .vocab = o->vocabulary->size,
                                     .num_samples = {cfg->data.first + count, 0, 0}};
    mega_gpt_data *built[MEGA_SPLIT_COUNT];
    MEGA_TRY(mega_gpt_data_build(&g, built));
    *out = built[MEGA_SPLIT_TRAIN];
    return *out != NULL ? MEGA_OK : MEGA_MISTAKE("--split %s: leaves no document for training", g.split);
}

mega_status mega_data_show_sentences(const mega_command_options *cfg, const char *prefix, const mega_tokenizer *t,
                                     int64_t count)
{
    static const char *const of_gpt[] = {"reset_position_ids", "reset_attention_mask", "eod_mask_loss", NULL},
                             *const of_bert[] = {"bert_binary_head", "bert_nsp", NULL};
    const bool is_t5 = mega_options_is_given(cfg->train.engine.options, "decoder_seq_length");
    mega_train_options train = cfg->train;
    mega_sentence_options o;
    mega_gpt_data *d = NULL;
    void *words = NULL;
    if (t == NULL)
        return MEGA_MISTAKE(
            "--num-samples: %s has sentences (--split-sentences), whose samples have special tokens; give "
            "the tokenizer of the training (--tokenizer-type, --vocab-file)",
            prefix);
    mega_data_note_unread(cfg, of_gpt, "the samples are of one document each");
    if (is_t5) mega_data_note_unread(cfg, of_bert, "the samples are a T5's, for --decoder-seq-length is given");
    train.t5.mask_prob = train.bert.mask_prob;
    train.t5.short_seq_prob = train.bert.short_seq_prob;
    mega_status st = mega_train_sentences(&train, is_t5, t, &words, &o);
    if (st == MEGA_OK) st = mega_sentence_check(&o, train.seq_length);
    if (st == MEGA_OK) st = build_shown_sentences(cfg, prefix, &o, count, &d);
    if (st == MEGA_OK) st = print_samples(cfg, t, d, &o, count);
    mega_gpt_data_destroy(d);
    mega_free(words);
    return st;
}
