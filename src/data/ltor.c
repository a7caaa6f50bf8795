/* Prepares a sample for a left-to-right model. Looks for end-of-document ids in the *inputs*, as Megatron does. */
#include "data_impl.h"
#include "megalith/batch.h"
#include "megalith/memory.h"

/* Lists the given options that need ends of documents, "--a, --b"; empty: none. */
static mega_status ltor_asking(const mega_ltor_options *o, mega_buffer *names)
{
    const char *const name[] = {o->eod_mask_loss ? "--eod-mask-loss" : NULL,
                                o->reset_position_ids ? "--reset-position-ids" : NULL,
                                o->reset_attention_mask ? "--reset-attention-mask" : NULL};
    for (int i = 0; i < 3; i++)
        if (name[i] != NULL) mega_buffer_printf(names, "%s%s", names->size > 0 ? ", " : "", name[i]);
    return mega_buffer_check(names, "the names of options");
}

mega_status mega_ltor_check(const mega_ltor_options *o, const char *tokenizer)
{
    mega_buffer names = {0};
    mega_status st = ltor_asking(o, &names);
    if (st == MEGA_OK && names.size > 0 && o->eod < 0)
        st = tokenizer == NULL
                 ? MEGA_MISTAKE(
                       "%s: no tokenizer is given, so the id that ends a document is unknown; give the tokenizer "
                       "of the data (--tokenizer-type, --vocab-file, --merge-file) or leave out these options",
                       names.data)
                 : MEGA_MISTAKE(
                       "%s: the tokenizer (%s) has no id that ends a document, but these options look for it in "
                       "the data; leave them out, or use a vocabulary with <|endoftext|> and "
                       "preprocess_data --append-eod",
                       names.data, tokenizer);
    mega_buffer_fini(&names);
    return st;
}

mega_status mega_ltor_check_ends(const mega_ltor_options *o, const char *data, int64_t tokens, int64_t ends)
{
    mega_buffer names = {0};
    mega_status st = ltor_asking(o, &names);
    if (st == MEGA_OK && names.size > 0 && ends == 0)
        st = MEGA_MISTAKE(
            "%s: none of %lld tokens of %s is the end of a document (id %d), so documents cannot be "
            "separated; create the data with preprocess_data --append-eod and the tokenizer of this command, "
            "or leave out these options",
            names.data, (long long)tokens, data, o->eod);
    mega_buffer_fini(&names);
    return st;
}

void mega_ltor_row(const int32_t *tokens, int64_t L, const mega_ltor_options *o, int32_t *input, int32_t *label,
                   float *loss_mask, int32_t *position, int32_t *key_begin)
{
    int64_t document = 0; /* first token of the document that token i belongs to */
    for (int64_t i = 0; i < L; i++) {
        const bool eod = tokens[i] == o->eod;
        if (input != NULL) input[i] = tokens[i];
        if (label != NULL) label[i] = tokens[i + 1];
        if (loss_mask != NULL) loss_mask[i] = o->eod_mask_loss && eod ? 0.0f : 1.0f;
        if (position != NULL) position[i] = (int32_t)(o->reset_position_ids ? i - document : i);
        if (key_begin != NULL) key_begin[i] = (int32_t)(o->reset_attention_mask ? document : 0);
        if (eod) document = i + 1; /* the end id itself still belongs to the document it ends */
    }
}

void mega_ltor_sample(mega_sample *sample, const int32_t *tokens, int64_t L, const mega_ltor_options *o)
{
    mega_ltor_row(tokens, L, o, mega_sample_i32(sample, "tokens", L), mega_sample_i32(sample, "labels", L),
                  mega_sample_f32(sample, "loss_mask", L), mega_sample_i32(sample, "position_ids", L),
                  mega_sample_i32(sample, "key_begin", L));
}
