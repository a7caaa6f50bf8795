/* A sample as a left-to-right model sees it. End-of-document ids are looked for among the *inputs*, as Megatron does.
 */
#include "data_impl.h"

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
