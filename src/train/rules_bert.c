/* Rules of the options of pretrain_bert. */
#include "train_rules.h"

mega_sentence_options train_sentences(const mega_train_options *cfg, const mega_sentence_vocabulary *words)
{
    return (mega_sentence_options){.kind = MEGA_SENTENCES_BERT,
                                   .vocabulary = words,
                                   .mask_prob = cfg->bert.mask_prob,
                                   .short_seq_prob = cfg->bert.short_seq_prob,
                                   .binary_head = cfg->bert.bert_binary_head,
                                   .nsp = cfg->bert.bert_nsp};
}

void mega_train_rule_bert(mega_train_options *cfg)
{
    static const char *const of_gpt[] = {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"};
    mega_options *o = cfg->engine.options;
    const mega_sentence_options s = train_sentences(cfg, NULL);
    for (size_t i = 0; i < MEGA_COUNT(of_gpt); i++)
        if (mega_options_is_given(o, of_gpt[i]))
            mega_options_problem(
                o, MEGA_ERR_USAGE,
                "%s is about several documents in one sample of a GPT; the samples of a BERT are of one "
                "document each, leave it out",
                mega_options_origin(o, of_gpt[i]));
    if (cfg->bert.bert_nsp && !cfg->bert.bert_binary_head)
        mega_options_problem(o, MEGA_ERR_USAGE,
                             "--bert-nsp with --bert-no-binary-head: the second leaves out the head that the first is "
                             "about; give one of them");
    if (cfg->seq_length > 0 && mega_sentence_check(&s, cfg->seq_length) != MEGA_OK)
        mega_options_add_mistake(o, MEGA_ERR_USAGE);
}
