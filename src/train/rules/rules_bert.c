/* Rules of the options of pretrain_bert. */
#include "train_rules.h"

#include <math.h>

mega_sentence_options train_sentences(const mega_train_options *cfg, const mega_sentence_vocabulary *words)
{
    return (mega_sentence_options){.kind = MEGA_SENTENCES_BERT,
                                   .vocabulary = words,
                                   .mask_prob = cfg->bert.mask_prob,
                                   .short_seq_prob = cfg->bert.short_seq_prob,
                                   .binary_head = cfg->bert.bert_binary_head,
                                   .nsp = cfg->bert.bert_nsp};
}

/* Tokens of text of which one is predicted: mega_sentence_mask_draw masks no group of more than its share. */
static double least_text(double mask_prob)
{
    double n = fmax(2, ceil(1 / mask_prob));
    while (mask_prob * n < 1 && n < INT32_MAX) n++;
    return n;
}

void train_check_sentences(mega_train_options *cfg, const mega_sentence_options *s)
{
    enum { MOST = 1 << 24 };
    mega_options *o = cfg->engine.options;
    const int64_t seq = cfg->seq_length, added = mega_sentence_added(s);
    if (seq <= 0 || !mega_options_was_set(o, "seq_length")) return;
    const double least = s->mask_prob > 0 && s->mask_prob <= 1 ? (double)added + least_text(s->mask_prob) : 0;
    if ((double)seq >= least) {
        if (mega_sentence_check(s, seq) != MEGA_OK) mega_options_add_mistake(o, MEGA_ERR_USAGE);
    } else if (least > MOST) {
        mega_options_mistake(o, "%s: no sample is so long that a token of it would be predicted",
                             mega_options_origin(o, "mask_prob"));
    } else {
        mega_options_mistake(
            o,
            "%s: expected %.0f or more: a sample has %lld tokens besides its text, and "
            "--mask-prob %g of a shorter text is less than one token, so that nothing would be predicted",
            mega_options_origin(o, "seq_length"), least, (long long)added, s->mask_prob);
    }
}

void mega_train_rule_bert(mega_train_options *cfg)
{
    static const char *const of_gpt[] = {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"};
    mega_options *o = cfg->engine.options;
    const mega_sentence_options s = train_sentences(cfg, NULL);
    for (size_t i = 0; i < MEGA_COUNT(of_gpt); i++)
        if (mega_options_is_given(o, of_gpt[i]))
            mega_options_mistake(
                o,
                "%s is about several documents in one sample of a GPT; the samples of a BERT are of one "
                "document each, leave it out",
                mega_options_origin(o, of_gpt[i]));
    if (s.nsp && !s.binary_head && mega_sentence_check(&s, 1 << 10) != MEGA_OK) /* also without --seq-length */
        mega_options_add_mistake(o, MEGA_ERR_USAGE);
    train_check_sentences(cfg, &s);
}
