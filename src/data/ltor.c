/* A sample as a left-to-right model sees it. End-of-document ids are looked for among the *inputs*, as Megatron does.
 */
#include "data_impl.h"
#include "megalith/memory.h"

mega_status mega_ltor_check(const mega_ltor_options *o, const char *tokenizer)
{
    const bool asked = o->reset_position_ids || o->reset_attention_mask || o->eod_mask_loss;
    if (!asked || o->eod >= 0) return MEGA_OK;
    mega_buffer names = {0};
    if (o->eod_mask_loss) mega_buffer_puts(&names, ", --eod-mask-loss");
    if (o->reset_position_ids) mega_buffer_puts(&names, ", --reset-position-ids");
    if (o->reset_attention_mask) mega_buffer_puts(&names, ", --reset-attention-mask");
    mega_status st = mega_buffer_check(&names, "the names of options");
    if (st == MEGA_OK && tokenizer == NULL)
        st = MEGA_FAIL(MEGA_ERR_USAGE,
                       "%s: no tokenizer is named, and without one no id is known to end a document; give that of the "
                       "data (--tokenizer-type, --vocab-file, --merge-file) or leave out what needs it",
                       names.data + 2);
    else if (st == MEGA_OK)
        st =
            MEGA_FAIL(MEGA_ERR_USAGE,
                      "%s: the tokenizer (%s) has no id that ends a document, which is what is looked for in the data; "
                      "leave out what needs it, or take a vocabulary with <|endoftext|> and preprocess_data "
                      "--append-eod",
                      names.data + 2, tokenizer);
    mega_buffer_fini(&names);
    return st;
}

void mega_ltor_row(const int32_t *tokens, int64_t L, const mega_ltor_options *o, int32_t *input, int32_t *label,
                   float *loss_mask, int32_t *position, int32_t *segment_start)
{
    int64_t document = 0; /* first token of the document that token i belongs to */
    for (int64_t i = 0; i < L; i++) {
        const bool eod = tokens[i] == o->eod;
        if (input != NULL) input[i] = tokens[i];
        if (label != NULL) label[i] = tokens[i + 1];
        if (loss_mask != NULL) loss_mask[i] = o->eod_mask_loss && eod ? 0.0f : 1.0f;
        if (position != NULL) position[i] = (int32_t)(o->reset_position_ids ? i - document : i);
        if (segment_start != NULL) segment_start[i] = (int32_t)(o->reset_attention_mask ? document : 0);
        if (eod) document = i + 1; /* the end id itself still belongs to the document it ends */
    }
}
