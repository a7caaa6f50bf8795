/* The inputs of a classifier from labelled samples. In a file of its own: the fuzzer of the readers links no graph,
 * which batches need. */
#include "labelled.h"
#include "megalith/batch.h"

/* A pipeline stage reads some of the inputs. */
void mega_labelled_fill(const mega_labelled *l, int64_t index, bool is_left_out, mega_sample *sample)
{
    const int64_t S = l->seq_length, all = l->choices * S;
    int32_t *tokens = mega_sample_i32(sample, "tokens", all), *types = mega_sample_i32(sample, "token_types", all);
    int32_t *positions = mega_sample_i32(sample, "position_ids", all), *ends = mega_sample_i32(sample, "key_end", all);
    int32_t *label = mega_sample_i32(sample, "label", 1);
    for (int64_t c = 0; c < l->choices; c++) {
        int64_t length, first;
        const int32_t *ids = mega_labelled_sequence(l, index, c, &length, &first);
        for (int64_t i = 0; i < S; i++) {
            const int64_t at = c * S + i;
            if (tokens != NULL) tokens[at] = i < length ? ids[i] : l->pad;
            if (types != NULL) types[at] = i >= first && i < length;
            if (positions != NULL) positions[at] = (int32_t)i;
            if (ends != NULL) ends[at] = (int32_t)length;
        }
    }
    if (label != NULL) *label = is_left_out ? MEGA_IGNORED_LABEL : l->label[index];
}
