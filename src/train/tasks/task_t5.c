/* pretrain_t5: the task row of encoder-decoders, and their samples of sentences
 * (data/include/megalith/sentence_data.h). */
#include "megalith/family.h"
#include "rules/train_rules.h"
#include "task_gpt.h"

#include <stdio.h>

/* ---- the tokenizer ---- */

typedef struct t5_words {
    mega_sentence_vocabulary vocabulary;
    int32_t *sentinel; /* after `continues`, in the same memory */
    bool continues[];  /* by id */
} t5_words;

static int32_t find_sentinel(const mega_tokenizer *t, int64_t number)
{
    char name[40];
    const int size = snprintf(name, sizeof name, "<extra_id_%lld>", (long long)number);
    return mega_tokenizer_find(t, name, (size_t)size);
}

static mega_status check_words(const mega_tokenizer *t, const mega_sentence_vocabulary *v)
{
    if (v->pad >= 0 && v->eos >= 0 && v->sentinels > 0) return MEGA_OK;
    return MEGA_MISTAKE(
        "the tokenizer (%s) lacks %s; a T5 needs a token of padding, [EOS] or </s>, and <extra_id_0>, "
        "<extra_id_1>, … for the texts that it predicts: give --vocab-extra-ids 100, which adds the last "
        "to a BertWordPieceLowerCase or SentencePieceTokenizer, or the folder of a T5 in transformers",
        mega_tokenizer_type(t),
        v->pad < 0   ? "a token of padding ([PAD] or <pad>)"
        : v->eos < 0 ? "[EOS] and </s>"
                     : "<extra_id_0>");
}

/* The decoder of Megatron begins with [BOS], that of a tokenizer without one (T5 in transformers) with padding. */
static mega_status t5_read_tokenizer(const mega_tokenizer *t, void **out)
{
    const int64_t size = mega_tokenizer_size(t);
    const int64_t sentinels = mega_tokenizer_extra_ids(t);
    const size_t words = ((size_t)size + sizeof(int32_t) - 1) / sizeof(int32_t) * sizeof(int32_t);
    const size_t head = (sizeof(t5_words) + sizeof(int32_t) - 1) / sizeof(int32_t) * sizeof(int32_t);
    t5_words *w = mega_calloc(1, head + words + (size_t)sentinels * sizeof(int32_t));
    *out = w;
    if (w == NULL) return MEGA_NO_MEMORY("tokenizer", "the list of its pieces");
    w->sentinel = (int32_t *)(void *)((char *)w + head + words);
    for (int64_t i = 0; i < sentinels; i++) w->sentinel[i] = find_sentinel(t, i);
    for (int32_t id = 0; id < size; id++) w->continues[id] = mega_tokenizer_continues_word(t, id);
    w->vocabulary = (mega_sentence_vocabulary){.cls = mega_tokenizer_role(t, MEGA_ROLE_CLS, "[CLS] <CLS>"),
                                               .sep = mega_tokenizer_role(t, MEGA_ROLE_SEP, "[SEP] <SEP>"),
                                               .mask = mega_tokenizer_role(t, MEGA_ROLE_MASK, "[MASK] <MASK>"),
                                               .pad = mega_tokenizer_role(t, MEGA_ROLE_PAD, "[PAD] <pad> <PAD>"),
                                               .bos = mega_tokenizer_role(t, MEGA_ROLE_BOS, "[BOS] <BOS> <s>"),
                                               .eos = mega_tokenizer_role(t, MEGA_ROLE_EOS, "[EOS] </s> <EOS>"),
                                               .sentinel = w->sentinel,
                                               .sentinels = sentinels,
                                               .size = size,
                                               .continues = w->continues};
    if (w->vocabulary.bos < 0) w->vocabulary.bos = w->vocabulary.pad;
    const mega_status st = check_words(t, &w->vocabulary);
    if (st == MEGA_OK) return st;
    mega_free(w); /* samples are not made with it, which would report its lack again */
    *out = NULL;
    return st;
}

/* ---- the model ---- */

static mega_status t5_check_folder(const mega_model_shape *stored)
{
    if (stored->net.t5 != MEGA_T5_NONE) return MEGA_OK;
    return MEGA_MISTAKE("--load: the folder holds %s (%s), which %s trains",
                        stored->net.is_encoder ? "an encoder" : "a decoder", mega_family_of(&stored->net)->model_type,
                        stored->net.is_encoder ? "pretrain_bert" : "pretrain_gpt");
}

static mega_status t5_network_of_folder(const mega_task_options *o, mega_network_shape *net)
{
    const int64_t said = o->cfg->t5.decoder_num_layers;
    MEGA_TRY(t5_check_folder(o->stored));
    MEGA_TRY(task_gpt_check_kind(o->cfg, "load", o->stored->heads, &o->stored->net));
    if (said > 0 && said != o->stored->net.decoder_layers)
        return MEGA_MISTAKE("--decoder-num-layers is %lld here, %lld in the checkpoint; leave it out", (long long)said,
                            (long long)o->stored->net.decoder_layers);
    *net = o->stored->net;
    return MEGA_OK;
}

void task_t5_make_form(mega_t5_form form, int64_t decoder_layers, int64_t hidden, mega_network_shape *net)
{
    static const struct {
        const char *family;
        bool gated_untied;
    } forms[] = {[MEGA_T5_FORM_MEGATRON] = {"megatron-t5", false},
                 [MEGA_T5_FORM_T5] = {"t5", false},
                 [MEGA_T5_FORM_V1_1] = {"t5", true},
                 [MEGA_T5_FORM_MT5] = {"mt5", true},
                 [MEGA_T5_FORM_UMT5] = {"umt5", true}};
    net->family = mega_family_find(forms[form].family);
    net->biases_by_layer = net->family->net.biases_by_layer;
    mega_network_make_t5(net, net->family->net.t5 == MEGA_T5_ORIGINAL, forms[form].gated_untied, decoder_layers,
                         hidden);
}

static void make_form(const mega_train_options *cfg, mega_network_shape *net)
{
    const int64_t said = cfg->t5.decoder_num_layers;
    task_t5_make_form(cfg->t5.t5_form, said > 0 ? said : cfg->model.num_layers, cfg->model.hidden_size, net);
}

/* Names the options that ask for more than the form of a new T5 has. */
static mega_status t5_name_options(const mega_train_options *cfg, const mega_network_shape *net, bool is_own)
{
    mega_network_shape said, plain = {.family = net->family};
    mega_buffer names = {0};
    MEGA_TRY(mega_network_from_options(&cfg->model, &said));
    if (is_own ? cfg->model.squared_relu : cfg->model.swiglu) {
        plain.gated = said.gated;
        plain.activation = said.activation;
    }
    if (!is_own) plain.untied = said.untied;
    make_form(cfg, &plain);
    task_gpt_name_others(cfg, &said, cfg->model.num_attention_heads, &plain, &names);
    mega_status st = mega_buffer_check(&names, "options of a T5");
    if (st == MEGA_OK)
        st = MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                       "%s: config.json of a %s cannot say this combination of options of the network: a T5 takes its "
                       "sizes, --t5-form, %s; leave the other options of the network out",
                       names.size > 0 ? names.data : "pretrain_t5", mega_family_of(net)->model_type,
                       is_own ? "and --squared-relu" : "--swiglu, and --untie-embeddings-and-output-weights");
    mega_buffer_fini(&names);
    return st;
}

/* The folder that a new model is saved as must be able to say its network. */
static mega_status t5_check_family(const mega_train_options *cfg, const mega_task_model *m)
{
    mega_model_shape shape;
    mega_transformer_to_shape(task_gpt_of(m), -1, &shape);
    const mega_family *f = mega_family_of(&shape.net);
    return mega_family_can_hold(f, &shape) ? MEGA_OK : t5_name_options(cfg, &shape.net, f->is_own);
}

/* mega_train_rule_t5 checks the options where nothing is loaded; this is also about a run that finds nothing to
 * load. */
static mega_status check_made(const mega_transformer *g)
{
    if (g->net.t5 == MEGA_T5_ORIGINAL && g->attention_dropout != g->hidden_dropout)
        return MEGA_MISTAKE("--attention-dropout %g and --hidden-dropout %g: the model (%s) has one dropout; "
                            "give both the same value, or leave both out",
                            g->attention_dropout, g->hidden_dropout, mega_family_of(&g->net)->model_type);
    if (g->net.positions != MEGA_POSITIONS_TABLE || g->decoder_positions <= g->positions) return MEGA_OK;
    return MEGA_MISTAKE("--decoder-seq-length %lld: the model has a table of %lld positions, which encoder and "
                        "decoder share; give a shorter length",
                        (long long)g->decoder_positions, (long long)g->positions);
}

static mega_status t5_make_model(const mega_task_options *o, mega_task_model *out)
{
    const mega_train_options *cfg = o->cfg;
    const t5_words *w = o->words;
    mega_network_shape net;
    *out = (mega_task_model){.self = NULL};
    if (o->stored != NULL) {
        MEGA_TRY(t5_network_of_folder(o, &net));
        MEGA_TRY(task_gpt_make(o, &net, false, out));
        return check_made(task_gpt_of(out));
    }
    MEGA_TRY(mega_network_from_options(&cfg->model, &net));
    make_form(cfg, &net);
    net.pad = -1;
    if (w != NULL) {
        net.pad = w->vocabulary.pad;
        net.eos[0] = w->vocabulary.eos;
        net.num_eos = 1;
        net.decoder_start = w->vocabulary.bos;
    }
    MEGA_TRY(task_gpt_make(o, &net, false, out));
    if (cfg->load != NULL) MEGA_TRY(check_made(task_gpt_of(out)));
    return t5_check_family(cfg, out);
}

/* Those of a GPT and the length of the decoder's samples; its number of layers is in the folder. */
static const char *const stored_args[] = {
    "num_layers",          "hidden_size", "ffn_hidden_size",         "seq_length",        "decoder_seq_length",
    "num_attention_heads", "kv_channels", "max_position_embeddings", "layernorm_epsilon", NULL};

static mega_model_shape t5_shape(const mega_task_model *m, int64_t eos)
{
    const mega_network_shape *n = &task_gpt_of(m)->net;
    mega_model_shape s;
    mega_transformer_to_shape(task_gpt_of(m), n->num_eos > 0 ? n->eos[0] : eos, &s);
    return s;
}

static void compare(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out)
{
    const mega_transformer *g = task_gpt_of(m);
    task_gpt_compare(m, stored, out);
    if (g->net.decoder_layers != stored->net.decoder_layers)
        mega_buffer_printf(out, "\n  --decoder-num-layers is %lld here, %lld in the checkpoint",
                           (long long)g->net.decoder_layers, (long long)stored->net.decoder_layers);
}

static void t5_describe(const mega_task_model *m, mega_buffer *out)
{
    const mega_transformer *g = task_gpt_of(m);
    task_gpt_describe(m, out);
    mega_buffer_printf(out, "decoder      %lld layers, %lld positions\n", (long long)g->net.decoder_layers,
                       (long long)g->decoder_positions);
}

static void t5_card(const mega_task_model *m, const mega_train_options *cfg, mega_buffer *out)
{
    task_gpt_put_card(m, cfg, "T5", "text2text-generation", out);
    if (mega_family_of(&task_gpt_of(m)->net)->is_own)
        mega_buffer_puts(out,
                         "| form | Megatron-LM's T5: transformers has no such model and cannot load this folder |\n");
}

/* ---- the data ---- */

static mega_status t5_make_data(const mega_task_data_options *o, mega_task_data out[MEGA_SPLIT_COUNT])
{
    const t5_words *w = o->words;
    const mega_sentence_options s = train_sentences_t5(o->cfg, w != NULL ? &w->vocabulary : NULL);
    return task_gpt_make_data_of(o, &s, out);
}

const mega_task train_task_t5 = {.command = "pretrain_t5",
                                 .model_name = "T5",
                                 .use = "generate_samples_gpt",
                                 .use_effect = "writes text with it",
                                 .course = &train_by_iterations,
                                 .stored_args = stored_args,
                                 .take_shape = task_gpt_take_shape,
                                 .check_folder = t5_check_folder,
                                 TASK_GPT_MODEL,
                                 .make_model = t5_make_model,
                                 .compare = compare,
                                 .shape = t5_shape,
                                 .describe = t5_describe,
                                 .card = t5_card,
                                 .read_tokenizer = t5_read_tokenizer,
                                 .make_data = t5_make_data,
                                 TASK_GPT_DATA};
