/* pretrain_bert: the task row of encoders with BERT's heads, and their samples of sentences
 * (data/include/megalith/sentence_data.h). */
#include "megalith/family.h"
#include "rules/train_rules.h"
#include "task_gpt.h"

/* A folder without a head for pairs is trained without them, unless the command line asks for the head. */
static mega_status take_shape(mega_train_options *cfg, const mega_model_shape *stored, bool is_open)
{
    if (stored->net.is_encoder && !stored->net.sentence_head) cfg->bert.bert_binary_head = false;
    return task_gpt_take_shape(cfg, stored, is_open);
}

/* ---- the tokenizer ---- */

typedef struct bert_words {
    mega_sentence_vocabulary vocabulary;
    bool continues[]; /* by id */
} bert_words;

static mega_status read_tokenizer(const mega_tokenizer *t, void **out)
{
    const int64_t size = mega_tokenizer_size(t);
    bert_words *w = mega_calloc(1, sizeof *w + (size_t)size * sizeof *w->continues);
    *out = w;
    if (w == NULL) return MEGA_NO_MEMORY("tokenizer", "the list of its pieces");
    w->vocabulary = (mega_sentence_vocabulary){.cls = mega_tokenizer_role(t, MEGA_ROLE_CLS, "[CLS] <s>"),
                                               .sep = mega_tokenizer_role(t, MEGA_ROLE_SEP, "[SEP] </s>"),
                                               .mask = mega_tokenizer_role(t, MEGA_ROLE_MASK, "[MASK] <mask>"),
                                               .pad = mega_tokenizer_role(t, MEGA_ROLE_PAD, "[PAD] <pad>"),
                                               .size = size,
                                               .continues = w->continues};
    const mega_sentence_vocabulary *v = &w->vocabulary;
    if (v->cls < 0 || v->sep < 0 || v->mask < 0 || v->pad < 0)
        return MEGA_MISTAKE(
            "the tokenizer (%s) lacks %s; BERT needs [CLS], [SEP], [MASK] and [PAD], or <s>, </s>, <mask> "
            "and <pad>: give a vocabulary of BERT (--tokenizer-type BertWordPieceLowerCase, --vocab-file)",
            mega_tokenizer_type(t),
            v->cls < 0    ? "[CLS]"
            : v->sep < 0  ? "[SEP]"
            : v->mask < 0 ? "[MASK]"
                          : "[PAD]");
    for (int32_t id = 0; id < size; id++) w->continues[id] = mega_tokenizer_continues_word(t, id);
    return MEGA_OK;
}

/* ---- the model ---- */

static mega_status check_folder(const mega_model_shape *stored)
{
    const mega_network_shape *n = &stored->net;
    const char *type = mega_family_of(n)->model_type;
    if (!n->is_encoder)
        return MEGA_MISTAKE("--load: the folder holds %s (%s), which %s trains",
                            n->t5 != MEGA_T5_NONE ? "an encoder with a decoder" : "a decoder", type,
                            n->t5 != MEGA_T5_NONE ? "pretrain_t5" : "pretrain_gpt");
    if (n->classes > 0 || n->choices > 0)
        return MEGA_MISTAKE("--load: the folder holds a classifier (%s), which megalith tasks trains and evaluates",
                            type);
    return MEGA_OK;
}

static mega_status network_of_folder(const mega_task_options *o, mega_network_shape *net)
{
    MEGA_TRY(check_folder(o->stored));
    MEGA_TRY(task_gpt_check_kind(o->cfg, "load", o->stored->heads, &o->stored->net));
    *net = o->stored->net;
    if (!o->cfg->bert.bert_binary_head) net->sentence_head = false;
    if (net->sentence_head && net->token_types < 2)
        return MEGA_MISTAKE("--load: the model has one type of tokens, pairs of sentences need two; give "
                            "--bert-no-binary-head");
    return MEGA_OK;
}

/* Names the options that no folder of a BERT can say. */
static void bert_name_options(const mega_train_options *cfg, const mega_network_shape *net)
{
    mega_network_shape said, plain = {.norm_place = net->norm_place};
    mega_buffer names = {0};
    if (mega_network_from_options(&cfg->model, &said) != MEGA_OK) return;
    if (net->norm_place == MEGA_NORM_AFTER_SUM) plain.embedding_norm = plain.no_final_norm = true;
    if (cfg->bert.openai_gelu) plain.activation = MEGA_ACT_GELU_TANH;
    task_gpt_name_others(cfg, &said, cfg->model.num_attention_heads, &plain, &names);
    if (names.size > 0 && names.data != NULL) mega_error_prepend("%s", names.data);
    mega_buffer_fini(&names);
}

static mega_status make_model(const mega_task_options *o, mega_task_model *out)
{
    const mega_bert_options *b = &o->cfg->bert;
    const bert_words *w = o->words;
    mega_network_shape net;
    *out = (mega_task_model){.self = NULL};
    if (o->stored != NULL) {
        MEGA_TRY(network_of_folder(o, &net));
        return task_gpt_make(o, &net, false, out);
    }
    MEGA_TRY(mega_network_from_options(&o->cfg->model, &net));
    if (!net.gated && net.activation == MEGA_ACT_GELU_TANH && !b->openai_gelu) net.activation = MEGA_ACT_GELU;
    mega_network_make_encoder(&net, b->bert_form == MEGA_BERT_ORIGINAL, b->bert_binary_head,
                              w != NULL ? w->vocabulary.pad : 0);
    const mega_status st = task_gpt_make(o, &net, true, out);
    if (st == MEGA_ERR_UNSUPPORTED) bert_name_options(o->cfg, &net);
    return st;
}

static void bert_card(const mega_task_model *m, const mega_train_options *cfg, mega_buffer *out)
{
    task_gpt_put_card(m, cfg, "BERT", "fill-mask", out);
}

/* ---- the data ---- */

static mega_status make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT])
{
    const bert_words *w = o->words;
    const mega_sentence_options s = train_sentences(o->cfg, w != NULL ? &w->vocabulary : NULL);
    return task_gpt_make_data_of(o, &s, out);
}

const mega_task train_task_bert = {.command = "pretrain_bert",
                                   .model_name = "BERT",
                                   .use = "pretrain_bert",
                                   .use_effect = "goes on with it",
                                   .shows_parts_alone = true,
                                   .course = &train_by_iterations,
                                   .stored_args = task_gpt_stored_args,
                                   .take_shape = take_shape,
                                   .check_folder = check_folder,
                                   TASK_GPT_MODEL,
                                   .make_model = make_model,
                                   .compare = task_gpt_compare,
                                   .shape = task_gpt_shape_of_encoder,
                                   .describe = task_gpt_describe,
                                   .card = bert_card,
                                   .read_tokenizer = read_tokenizer,
                                   .make_data = make_data,
                                   TASK_GPT_DATA};
