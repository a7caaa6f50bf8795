/* The heads of an encoder (Devlin et al. 2019): masked tokens, and whether two sentences belong together; or a
 * classifier of samples. */
#include "block.h"

/* The pooler and the two classes. */
static void sentence_head(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_family_names *n = block_names(m);
    const mega_linear_options o = block_from_residual(m, false);
    mega_tensor logits = mega_none();
    const mega_tensor pooled = mega_activation(b, mega_pooler(b, n->pooler, x, m->hidden, &o), MEGA_ACT_TANH);
    const mega_tensor labels = mega_input(b, "is_random", MEGA_I32, 1, 0);
    const mega_loss loss = mega_class_loss(b, n->sentence_head, pooled, labels, 2, &o, &logits);
    mega_graph_output(b->graph, logits, "class_logits");
    mega_loss_add(b, "sop loss", loss, 1.0);
}

static mega_tensor transform(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_family_names *n = block_names(m);
    mega_linear_options o = block_from_residual(m, false);
    o.no_bias = m->net.transform_no_bias;
    x = mega_activation(b, mega_linear(b, n->transform, x, m->hidden, &o), m->net.transform_activation);
    return block_norm(b, m, n->transform_norm, x);
}

/* The loss of masked tokens over all rows, or with `masks` the logits of the rows that the caller asks for. */
static void mask_head(const mega_builder *b, const mega_transformer *m, mega_tensor x)
{
    const mega_vocab_loss_options options = block_head_options(m);
    if (m->masks > 0) {
        x = mega_op_take_rows(b->graph, x, mega_input(b, "mask_rows", MEGA_I32, m->masks, 0));
        if (m->net.transform) x = transform(b, m, x);
        mega_output(b, "logits", mega_vocab_logits_with(b, block_head_name(m), x, &options));
        return;
    }
    const mega_tensor labels = mega_input(b, "labels", MEGA_I32, b->positions, 0);
    const mega_tensor loss_mask = mega_input(b, "loss_mask", MEGA_F32, b->positions, 0);
    if (m->net.transform) x = transform(b, m, x);
    const mega_head_result r = mega_vocab_loss(b, block_head_name(m), x, labels, loss_mask, &options);
    mega_graph_output(b->graph, r.token_loss, "token_loss");
    mega_loss_add(b, "lm loss", r.loss, 1.0);
}

void encoder_head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    block_request_rows(b, m);
    if (b->mode == MEGA_GENERATE) {
        mega_builder_fail(b, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                                       "layer \"%s\": an encoder sees the tokens on both sides and continues no text; "
                                       "generate with a decoder",
                                       b->path));
        return;
    }
    const mega_tensor x = block_last_norm(b, m, flow->x);
    if (m->shows_hidden) mega_output(b, "hidden", x);
    if (m->net.no_head) return;
    mask_head(b, m, x);
    if (m->net.sentence_head) sentence_head(b, m, x);
}

/* A pooler and a linear layer. "accuracy" is the part of the samples whose largest logit is at their label. */
void encoder_class_head(const mega_builder *b, const void *self, mega_flow *flow)
{
    const mega_transformer *m = self;
    const mega_family_names *n = block_names(m);
    const mega_builder sequences = block_sequences(b, m);
    const mega_linear_options o = block_from_residual(m, false);
    const bool chooses = m->net.choices > 0;
    mega_tensor logits = mega_none();
    block_request_rows(&sequences, m);
    if (b->mode == MEGA_GENERATE || n->classifier == NULL || n->pooler == NULL) {
        mega_builder_fail(
            b, MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "layer \"%s\": a classifier of samples in a %s%s; expected training or evaluation of "
                         "a bert or megatron-bert",
                         b->path, mega_family_of(&m->net)->model_type,
                         b->mode == MEGA_GENERATE ? ", which generates" : ""));
        return;
    }
    const mega_tensor x = block_last_norm(&sequences, m, flow->x);
    if (m->shows_hidden) mega_output(b, "hidden", x);
    const mega_tensor pooled = mega_activation(b, mega_pooler(&sequences, n->pooler, x, m->hidden, &o), MEGA_ACT_TANH);
    const mega_tensor labels = mega_input(b, "label", MEGA_I32, 1, 0);
    const mega_loss loss = chooses ? mega_choice_loss(b, n->classifier, pooled, labels, m->net.choices, &o, &logits)
                                   : mega_class_loss(b, n->classifier, pooled, labels, m->net.classes, &o, &logits);
    mega_graph_output(b->graph, logits, "class_logits");
    mega_loss_add(b, "lm loss", loss, 1.0);
    if (b->mode != MEGA_EVAL) return;
    const mega_tensor rows = chooses ? mega_op_reshape(b->graph, logits, m->net.choices) : logits;
    mega_loss_add(b, "accuracy", mega_op_accuracy(b->graph, rows, labels), 0.0);
}
