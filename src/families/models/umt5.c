/* umT5 (Chung et al. 2023): mT5 whose layers have a table of biases of relative positions each. */
#include "hf_impl.h"

#include <math.h>

static const char *const architecture[] = {"UMT5ForConditionalGeneration", NULL};

static void umt5_finish(hf_reader *r, mega_model_shape *s)
{
    hf_take(r, "scalable_attention"); /* of the program that trained them; transformers does not read it */
    s->net.untied = !hf_take_bool(r, "tie_word_embeddings", true);
    hf_t5_finish(r, s);
    if (!s->net.untied && s->hidden > 0) s->net.logit_scale = 1.0 / sqrt((double)s->hidden);
}

MEGA_FAMILY(260, umt5) = {.model_type = "umt5",
                          .architecture = architecture,
                          .keys = hf_mt5_keys,
                          .net = {.t5 = MEGA_T5_ORIGINAL,
                                  .positions = MEGA_POSITIONS_NONE,
                                  .activation = MEGA_ACT_GELU_TANH,
                                  .gated = true,
                                  .biases_by_layer = true},
                          .names = &hf_t5_names,
                          .rope_keys = " ",
                          .ignored = hf_t5_ignored,
                          .finish = umt5_finish,
                          .write = hf_t5_write};
