/* pretrain_gpt and run_clm: the task rows of decoders (model/transformer.c), with the command-line names of their
 * options. */
#include "task_gpt.h"
#include "megalith/family.h"
#include "megalith/log.h"
#include "rules/train_rules.h"

#include <math.h>

typedef struct network {
    mega_transformer transformer;
    mega_transformer_list list; /* the layers in it point to transformer */
} network;

const mega_transformer *task_gpt_of(const mega_task_model *m)
{
    const network *n = m->self;
    return &n->transformer;
}

mega_model_shape task_gpt_shape_of_encoder(const mega_task_model *m, int64_t eos)
{
    mega_model_shape s;
    (void)eos; /* texts end with [SEP] */
    mega_transformer_to_shape(task_gpt_of(m), -1, &s);
    return s;
}

/* ---- taken from a checkpoint ---- */

/* Megatron's list, as far as the options exist here. The tokenizer is read from the checkpoint folder itself, even if
 * its original files have moved. */
const char *const task_gpt_stored_args[] = {"num_layers",
                                            "hidden_size",
                                            "ffn_hidden_size",
                                            "seq_length",
                                            "num_attention_heads",
                                            "kv_channels",
                                            "max_position_embeddings",
                                            "layernorm_epsilon",
                                            NULL};

bool task_gpt_leaves_shape_open(const mega_train_options *cfg)
{
    return cfg->model.num_layers == 0 && cfg->model.hidden_size == 0 && cfg->model.num_attention_heads == 0;
}

static mega_status gpt_take_default(mega_train_options *cfg, const char *dest, int64_t value)
{
    if (mega_options_is_given(cfg->engine.options, dest)) return MEGA_OK;
    return mega_options_set_int(cfg->engine.options, dest, value, MEGA_SET_BY_CHECKPOINT);
}

/* What every folder says, be it by config.json or by its state: it counts unless the command says otherwise. */
static void take_numbers(mega_train_options *cfg, const mega_model_shape *stored)
{
    const struct {
        const char *dest;
        double *to, value;
    } of[] = {{"layernorm_epsilon", &cfg->model.layernorm_epsilon, stored->norm_epsilon},
              {"attention_dropout", &cfg->model.attention_dropout, stored->attention_dropout},
              {"hidden_dropout", &cfg->model.hidden_dropout, stored->hidden_dropout},
              {"init_method_std", &cfg->model.init_method_std,
               stored->init_std > 0.0 ? stored->init_std : cfg->model.init_method_std}};
    for (size_t i = 0; i < MEGA_COUNT(of); i++)
        if (!mega_options_was_set(cfg->engine.options, of[i].dest)) *of[i].to = of[i].value;
}

/* Whether more positions than a folder says are the same model: it has no table of them, and its frequencies do not
 * follow from their number, as those of other kinds of scaling do in transformers. */
static bool reaches_further(const mega_network_shape *n)
{
    const mega_rope_scaling scaling = n->rope.scaling;
    return n->positions == MEGA_POSITIONS_ALIBI || n->t5 == MEGA_T5_ORIGINAL ||
           (n->positions == MEGA_POSITIONS_ROPE &&
            (scaling == MEGA_ROPE_NONE || scaling == MEGA_ROPE_LINEAR || scaling == MEGA_ROPE_LLAMA3));
}

/* Sets options from what every checkpoint contains. */
mega_status task_gpt_take_shape(mega_train_options *cfg, const mega_model_shape *stored, bool is_open)
{
    take_numbers(cfg, stored);
    cfg->positions_are_fixed = !reaches_further(&stored->net);
    if (!is_open) return MEGA_OK;
    MEGA_TRY(gpt_take_default(cfg, "num_layers", stored->num_layers));
    MEGA_TRY(gpt_take_default(cfg, "hidden_size", stored->hidden));
    MEGA_TRY(gpt_take_default(cfg, "ffn_hidden_size", stored->ffn_hidden));
    MEGA_TRY(gpt_take_default(cfg, "num_attention_heads", stored->heads));
    if (stored->net.head_dim > 0) MEGA_TRY(gpt_take_default(cfg, "kv_channels", stored->net.head_dim));
    MEGA_TRY(gpt_take_default(cfg, "max_position_embeddings", stored->positions));
    if (cfg->seq_length == 0) MEGA_TRY(gpt_take_default(cfg, "seq_length", stored->positions));
    return MEGA_OK;
}

/* transformers' script cuts blocks of 1,024 tokens at most, unless --block_size says otherwise. */
static mega_status take_shape_for_blocks(mega_train_options *cfg, const mega_model_shape *stored, bool is_open)
{
    enum { MOST = 1024 };
    const int64_t length = stored->positions < MOST ? stored->positions : MOST;
    if (is_open && cfg->seq_length == 0) MEGA_TRY(gpt_take_default(cfg, "seq_length", length));
    return task_gpt_take_shape(cfg, stored, is_open);
}

static void task_gpt_differs(mega_buffer *b, const char *option, int64_t here, int64_t there)
{
    if (here != there)
        mega_buffer_printf(b, "\n  %s is %lld here, %lld in the checkpoint", option, (long long)here, (long long)there);
}

void task_gpt_compare(const mega_task_model *m, const mega_model_shape *stored, mega_buffer *out)
{
    const mega_transformer *g = task_gpt_of(m);
    task_gpt_differs(out, "--num-layers", g->num_layers, stored->num_layers);
    task_gpt_differs(out, "--hidden-size", g->hidden, stored->hidden);
    if (!mega_network_has_experts_alone(&stored->net, stored->num_layers)) /* no layer has an MLP */
        task_gpt_differs(out, "--ffn-hidden-size", g->ffn_hidden, stored->ffn_hidden);
    task_gpt_differs(out, "--num-attention-heads", g->heads, stored->heads);
    if (g->positions < stored->positions || !reaches_further(&stored->net))
        task_gpt_differs(out, "--max-position-embeddings", g->positions, stored->positions);
    /* a larger table was accepted when the tokenizer was opened; a tokenizer with more ids than the table has rows
     * belongs to another model */
    task_gpt_differs(out, "the vocabulary of the tokenizer", g->vocab, stored->vocab);
}

static void warn_of_no_experts(const mega_train_options *cfg, const char *folder)
{
    static const char *const of_routers[] = {"moe_aux_loss_coeff", "moe_z_loss_coeff", "moe_input_jitter_eps",
                                             "moe_router_bias_update_rate", "moe_expert_capacity_factor"};
    for (size_t i = 0; i < MEGA_COUNT(of_routers); i++)
        if (mega_options_is_given(cfg->engine.options, of_routers[i]))
            mega_warn("--load %s: it has no experts, so that %s has no effect", folder,
                      mega_options_origin(cfg->engine.options, of_routers[i]));
}

/* A new router chooses almost evenly, so that the weights of the chosen experts sum to about the number that is
 * computed here; a mixture whose experts are all alike multiplies the dense MLP's result by it. */
static void warn_of_weights(const mega_train_options *cfg, const mega_experts_shape *e)
{
    const double k = (double)e->choices, count = (double)e->count, scale = e->scale > 0.0 ? e->scale : 1.0;
    const double sum = scale * (e->normalized ? 1.0 : e->score == MEGA_ROUTE_SIGMOID ? 0.5 * k : k / count);
    if (fabs(sum - 1.0) < 1e-6) return;
    mega_warn("--moe-init-from %s: the weights of a token's experts sum to %s%.4g at first, not to 1, so that the "
              "mixture does not begin with the loss of the dense model; %s--moe-router-topk-scaling-factor %.4g makes "
              "up for it",
              cfg->load, e->normalized ? "" : "about ", sum,
              e->normalized || e->score == MEGA_ROUTE_SIGMOID ? "" : "leave --moe-router-pre-softmax out, or ",
              scale / sum);
}

/* Only warns: Megatron's load does not compare the epsilon, and the change may be intended. */
void task_gpt_warn(const mega_task_model *m, mega_train_options *cfg, const mega_model_shape *stored,
                   const char *folder)
{
    if (cfg->begins_mixture) warn_of_weights(cfg, &task_gpt_of(m)->net.experts);
    else if (stored->net.experts.count == 0)
        warn_of_no_experts(cfg, folder);
    if (task_gpt_of(m)->norm_epsilon == stored->norm_epsilon) return;
    mega_warn("%s %s: its layer norms have epsilon %g, this run computes with %s; without that option it is taken "
              "from the folder",
              train_load_option(cfg), folder, stored->norm_epsilon,
              mega_options_origin(cfg->engine.options, "layernorm_epsilon"));
}

static bool is_same_scaling(const mega_rope_settings *a, const mega_rope_settings *b)
{
    return a->scaling == b->scaling && a->factor == b->factor && a->original_positions == b->original_positions &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->no_truncate == b->no_truncate &&
           a->attention_factor == b->attention_factor;
}

/* Whether --t5-form asks for the kind of T5 that a folder holds. */
static bool is_t5_of_form(const mega_train_options *cfg, const mega_network_shape *said, const mega_network_shape *is)
{
    mega_network_shape made = *said;
    if (!train_is(cfg, "pretrain_t5")) return true;
    task_t5_make_form(cfg->t5.t5_form, 1, 1, &made);
    return made.family == mega_family_of(is) && made.gated == is->gated && made.untied == is->untied;
}

/* Whether --bert-form asks for norms where a folder has them. */
static bool is_bert_of_form(const mega_train_options *cfg, const mega_network_shape *said, const mega_network_shape *is)
{
    mega_network_shape made = *said;
    if (!train_is(cfg, "pretrain_bert")) return true;
    mega_network_make_encoder(&made, cfg->bert.bert_form == MEGA_BERT_ORIGINAL, false, 0);
    return made.norm_place == is->norm_place && made.embedding_norm == is->embedding_norm &&
           made.no_final_norm == is->no_final_norm;
}

void task_gpt_name_others(const mega_train_options *cfg, const mega_network_shape *said, int64_t heads,
                          const mega_network_shape *is, mega_buffer *out)
{
    const int64_t kv_heads = is->kv_heads > 0 ? is->kv_heads : heads;
    const bool rope = said->positions == is->positions;
    const bool scaled = rope && is_same_scaling(&said->rope, &is->rope);
    const bool same_kv = (said->kv_heads > 0 ? said->kv_heads : heads) == kv_heads;
    const bool act = said->gated == is->gated && said->activation == is->activation;
    const bool bias = said->no_qkv_bias == is->no_qkv_bias && said->no_mlp_bias == is->no_mlp_bias;
    const mega_experts_shape *e = &said->experts, *f = &is->experts;
    const double scale = e->scale > 0.0 ? e->scale : 1.0;
    const bool tanh =
        !train_is(cfg, "pretrain_bert") || cfg->bert.openai_gelu == (is->activation == MEGA_ACT_GELU_TANH);
    const struct {
        const char *dest;
        bool agrees;
    } options[] = {{"t5_form", is_t5_of_form(cfg, said, is)},
                   {"bert_form", is_bert_of_form(cfg, said, is)},
                   {"openai_gelu", tanh},
                   {"position_embedding_type", rope},
                   {"use_rotary_position_embeddings", rope},
                   {"rotary_percent", rope && said->rope.fraction == is->rope.fraction},
                   {"rotary_base", rope && said->rope.theta == is->rope.theta},
                   {"rotary_seq_len_interpolation_factor", scaled},
                   {"use_rope_scaling", scaled},
                   {"rope_scaling_factor", scaled},
                   {"rope_type", scaled},
                   {"rotary_scaling_factor", scaled},
                   {"yarn_original_max_position_embeddings", scaled},
                   {"yarn_beta_fast", scaled},
                   {"yarn_beta_slow", scaled},
                   {"yarn_correction_range_round_to_int", scaled},
                   {"mscale", scaled},
                   {"mscale_all_dim", scaled},
                   {"rotary_interleaved", rope && said->rope.interleaved == is->rope.interleaved},
                   {"no_rope_freq", memcmp(said->no_rope, is->no_rope, sizeof said->no_rope) == 0},
                   {"group_query_attention", same_kv},
                   {"num_query_groups", same_kv},
                   {"num_key_value_heads", same_kv},
                   {"attention_head_type", same_kv},
                   {"normalization", said->rms == is->rms},
                   {"apply_layernorm_1p", said->norm_plus_one == is->norm_plus_one},
                   {"swiglu", act},
                   {"glu_activation", act},
                   {"squared_relu", act},
                   {"untie_embeddings_and_output_weights", said->untied == is->untied},
                   {"add_bias_linear", bias},
                   {"add_qkv_bias", bias},
                   {"qk_layernorm", said->query_norm == is->query_norm},
                   {"window_size", said->has_window == is->has_window && said->window_left == is->window_left},
                   {"embed_layernorm", said->embedding_norm == is->embedding_norm},
                   {"num_experts", e->count == f->count && memcmp(e->fewer, f->fewer, sizeof e->fewer) == 0},
                   {"mlp_type", e->blended == f->blended},
                   {"moe_ffn_hidden_size", e->hidden == f->hidden},
                   {"expert_interval", memcmp(e->dense, f->dense, sizeof e->dense) == 0},
                   {"moe_layer_freq", memcmp(e->dense, f->dense, sizeof e->dense) == 0},
                   {"moe_router_topk", e->choices == f->choices},
                   {"moe_router_score_function", e->score == f->score},
                   {"moe_router_pre_softmax", e->normalized == f->normalized},
                   {"moe_router_topk_scaling_factor", scale == (f->scale > 0.0 ? f->scale : 1.0)},
                   {"moe_router_num_groups", e->groups == f->groups},
                   {"moe_router_group_topk", e->chosen_groups == f->chosen_groups},
                   {"moe_router_enable_expert_bias", f->choice_bias}};
    for (size_t i = 0; i < MEGA_COUNT(options); i++)
        if (!options[i].agrees && mega_options_is_given(cfg->engine.options, options[i].dest))
            mega_buffer_printf(out, "%s%s", out->size > 0 ? ", " : "",
                               mega_options_origin(cfg->engine.options, options[i].dest));
}

/* The folder of a mixture, or of the dense model that one begins with, says where linear layers have biases. */
static mega_status network_of_options(const mega_train_options *cfg, mega_network_shape *out)
{
    mega_model_options o = cfg->model;
    if (cfg->model.moe_init_from != NULL) o.add_bias_linear = false;
    return mega_network_from_options(&o, out);
}

/* Options of the kind of network that were given although the folder of an option `of` says it: they must agree with
 * it. */
mega_status task_gpt_check_kind(const mega_train_options *cfg, const char *of, int64_t heads,
                                const mega_network_shape *is)
{
    mega_network_shape said;
    mega_buffer wrong = {0};
    MEGA_TRY(network_of_options(cfg, &said));
    task_gpt_name_others(cfg, &said, heads, is, &wrong);
    mega_status st = mega_buffer_check(&wrong, "options of the kind of network");
    if (st == MEGA_OK && wrong.size > 0)
        st = MEGA_MISTAKE(
            "%s: the folder of --%s, a %s, has another kind of network; leave out what is not the folder's, "
            "or name another folder",
            wrong.data, of, mega_family_of(is)->model_type);
    mega_buffer_fini(&wrong);
    return st;
}

/* ---- the model ---- */

void task_gpt_free_model(mega_task_model *m)
{
    network *n = m->self;
    if (n != NULL) mega_transformer_list_destroy(&n->list);
    mega_free(n);
    *m = (mega_task_model){.self = NULL};
}

/* A new model of the kind of a config.json, with other sizes where options give them: its family must be able to say
 * them. */
static mega_status check_config(const mega_transformer *g, const char *name)
{
    mega_model_shape shape;
    mega_transformer_to_shape(g, -1, &shape);
    const int64_t kv_heads = shape.net.kv_heads > 0 ? shape.net.kv_heads : shape.heads;
    if (shape.heads % kv_heads == 0 && mega_family_can_hold(mega_family_of(&shape.net), &shape)) return MEGA_OK;
    return MEGA_MISTAKE(
        "--config_name %s: its config.json cannot be changed to %lld layers, hidden size %lld, %lld heads "
        "(%lld of keys and values) of %lld and an FFN of %lld by options; change the file",
        name, (long long)shape.num_layers, (long long)shape.hidden, (long long)shape.heads, (long long)kv_heads,
        (long long)g->head_dim, (long long)shape.ffn_hidden);
}

/* The kind of network is that of the folder that is loaded, or of --config_name; NULL: the options say it. */
static mega_status gpt_find_kind(const mega_task_options *o, const mega_network_shape **out)
{
    const mega_clm_options *clm = &o->cfg->clm;
    const char *option = o->stored != NULL ? "load" : "config_name";
    *out = o->stored != NULL ? &o->stored->net : clm->has_network ? &clm->network : NULL;
    if (*out != NULL && (*out)->is_encoder)
        return MEGA_MISTAKE("--%s: the folder holds an encoder (%s), which pretrain_bert trains", option,
                            mega_family_of(*out)->model_type);
    if (*out != NULL && (*out)->t5 != MEGA_T5_NONE)
        return MEGA_MISTAKE("--%s: the folder holds an encoder with a decoder (%s), which pretrain_t5 trains", option,
                            mega_family_of(*out)->model_type);
    if (o->stored != NULL) return task_gpt_check_kind(o->cfg, "load", o->stored->heads, *out);
    return clm->has_network ? task_gpt_check_kind(o->cfg, "config_name", o->cfg->model.num_attention_heads, *out)
                            : MEGA_OK;
}

mega_status task_gpt_make(const mega_task_options *o, const mega_network_shape *net, bool is_new, mega_task_model *out)
{
    const int64_t stages = o->cfg->engine.comm.pipeline_model_parallel_size;
    network *n = mega_calloc(1, sizeof *n);
    *out = (mega_task_model){.self = n};
    if (n == NULL) return MEGA_NO_MEMORY("training", "the record of a network");
    MEGA_TRY(mega_transformer_from_options(&o->cfg->model, o->vocab_rows, net, &n->transformer));
    if (is_new) MEGA_TRY(mega_network_find_family(&n->transformer, &n->transformer.net));
    /* full recomputation is the engine's (mega_recompute_options) */
    if (o->cfg->engine.graph.recompute_granularity == MEGA_RECOMPUTE_SELECTIVE)
        n->transformer.recompute = MEGA_TRANSFORMER_RECOMPUTE_SELECTIVE;
    if (n->transformer.net.t5 != MEGA_T5_NONE) {
        const mega_t5_settings *t5 = &o->cfg->t5;
        n->transformer.decoder_positions = t5->decoder_seq_length > 0 ? t5->decoder_seq_length : o->cfg->seq_length;
        n->transformer.split_stage = t5->pipeline_model_parallel_split_rank;
    }
    MEGA_TRY(mega_transformer_list_create(&n->transformer, stages > 1 ? (int)stages : 1, &n->list));
    out->model = mega_transformer_model(&n->list);
    out->stage_programs = (int)n->transformer.stage_chunks;
    return MEGA_OK;
}

/* What cannot become a mixture. */
static mega_status check_dense(const mega_task_options *o, const mega_network_shape *mixture)
{
    const char *folder = o->cfg->load;
    const mega_network_shape *net = &o->stored->net;
    if (net->is_encoder || net->t5 != MEGA_T5_NONE)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "--moe-init-from %s: the folder holds %s (%s); expected a decoder, such as a llama", folder,
                         net->is_encoder ? "an encoder" : "an encoder with a decoder", mega_family_of(net)->model_type);
    if (net->experts.count > 0)
        return MEGA_MISTAKE("--moe-init-from %s: the folder holds a mixture of %lld experts already (%s); expected a "
                            "dense model; --load trains a mixture further",
                            folder, (long long)net->experts.count, mega_family_of(net)->model_type);
    /* a width of --ffn-hidden-size is compared with the folder's as for any model */
    if (o->cfg->model.moe_ffn_hidden_size == 0 || mixture->experts.hidden == o->stored->ffn_hidden) return MEGA_OK;
    return MEGA_FAIL(
        MEGA_ERR_UNSUPPORTED,
        "%s: experts begin as the MLP of --moe-init-from %s, which is %lld wide; leave the option out: "
        "experts that are parts of an MLP (Megatron's --moe-upcycling-granularity) are not implemented yet",
        mega_options_origin(o->cfg->engine.options, "moe_ffn_hidden_size"), folder, (long long)o->stored->ffn_hidden);
}

/* The network of the dense model in the folder, with the experts that the options say. */
static mega_status make_mixture(const mega_task_options *o, mega_task_model *out)
{
    mega_network_shape net = o->stored->net, said;
    MEGA_TRY(network_of_options(o->cfg, &said));
    net.experts = said.experts;
    net.experts.has_biases = !net.no_mlp_bias;
    MEGA_TRY(check_dense(o, &net));
    MEGA_TRY(task_gpt_check_kind(o->cfg, "moe-init-from", o->stored->heads, &net));
    const mega_status st = task_gpt_make(o, &net, true, out);
    out->begins_mixture = st == MEGA_OK;
    if (st == MEGA_ERR_UNSUPPORTED)
        mega_error_prepend("--moe-init-from %s: a %s with experts", o->cfg->load,
                           mega_family_of(&o->stored->net)->model_type);
    return st;
}

static mega_status gpt_begin_mixture(const mega_task_model *m, const mega_train_options *cfg, mega_checkpoint *c)
{
    return mega_transformer_begin_mixture(c, task_gpt_of(m), (int)cfg->engine.comm.tensor_model_parallel_size);
}

static mega_status gpt_make_model(const mega_task_options *o, mega_task_model *out)
{
    const mega_network_shape *net;
    *out = (mega_task_model){.self = NULL};
    if (o->cfg->begins_mixture && o->stored != NULL) return make_mixture(o, out);
    MEGA_TRY(gpt_find_kind(o, &net));
    MEGA_TRY(task_gpt_make(o, net, false, out));
    return o->stored == NULL && net != NULL ? check_config(task_gpt_of(out), o->cfg->clm.config_name) : MEGA_OK;
}

/* ---- descriptions of the model ---- */

static mega_model_shape gpt_shape(const mega_task_model *m, int64_t eos)
{
    mega_model_shape s;
    mega_transformer_to_shape(task_gpt_of(m), eos, &s);
    return s;
}

void task_gpt_describe(const mega_task_model *m, mega_buffer *out)
{
    const mega_transformer *g = task_gpt_of(m);
    mega_buffer_printf(out, "network      %lld layers, hidden %lld, %lld heads of %lld, ffn %lld, positions %lld",
                       (long long)g->num_layers, (long long)g->hidden, (long long)g->heads, (long long)g->head_dim,
                       (long long)g->ffn_hidden, (long long)g->positions);
    if (g->net.kv_heads > 0 && g->net.kv_heads != g->heads)
        mega_buffer_printf(out, ", %lld key/value heads", (long long)g->net.kv_heads);
    if (g->net.family != NULL) mega_buffer_printf(out, ", %s", g->net.family->model_type);
    mega_buffer_puts(out, "\n             ");
    train_network_words(&g->net, out);
    mega_buffer_puts(out, "\n");
}

void task_gpt_put_card(const mega_task_model *m, const mega_train_options *cfg, const char *name, const char *pipeline,
                       mega_buffer *out)
{
    const mega_transformer *g = task_gpt_of(m);
    const mega_family *f = mega_family_of(&g->net);
    mega_buffer_printf(out, "---\nlibrary_name: %s\npipeline_tag: %s\ntags:\n- %s\n- megalith\n---\n\n",
                       f->is_own ? "megalith" : "transformers", pipeline, f->model_type);
    mega_buffer_printf(out, "# %s trained by megalith\n\n| | |\n|---|---|\n", name);
    mega_buffer_printf(out, "| layers, hidden, heads | %lld, %lld, %lld |\n", (long long)g->num_layers,
                       (long long)g->hidden, (long long)g->heads);
    mega_buffer_puts(out, "| kind | ");
    train_network_words(&g->net, out);
    mega_buffer_puts(out, " |\n");
    mega_buffer_printf(out, "| positions, sequence length | %lld, %lld |\n", (long long)g->positions,
                       (long long)cfg->seq_length);
}

static void gpt_card(const mega_task_model *m, const mega_train_options *cfg, mega_buffer *out)
{
    task_gpt_put_card(m, cfg, "GPT", "text-generation", out);
}

const mega_task train_task_gpt = {.command = "pretrain_gpt",
                                  .model_name = "GPT",
                                  .use = "generate_samples_gpt",
                                  .use_effect = "writes text with it",
                                  .course = &train_by_iterations,
                                  .stored_args = task_gpt_stored_args,
                                  .take_shape = task_gpt_take_shape,
                                  TASK_GPT_MODEL,
                                  .make_model = gpt_make_model,
                                  .begin_mixture = gpt_begin_mixture,
                                  .compare = task_gpt_compare,
                                  .shape = gpt_shape,
                                  .describe = task_gpt_describe,
                                  .card = gpt_card,
                                  .check_data_options = task_gpt_check_data_options,
                                  .make_data = task_gpt_make_data,
                                  TASK_GPT_DATA};

/* run_clm trains the same model on blocks of text. */
const mega_task train_task_clm = {.command = "run_clm",
                                  .model_name = "GPT",
                                  .use = "generate_samples_gpt",
                                  .use_effect = "writes text with it",
                                  .course = &train_by_epochs,
                                  .stored_args = task_gpt_stored_args,
                                  .take_shape = take_shape_for_blocks,
                                  TASK_GPT_MODEL,
                                  .make_model = gpt_make_model,
                                  .begin_mixture = gpt_begin_mixture,
                                  .compare = task_gpt_compare,
                                  .shape = gpt_shape,
                                  .describe = task_gpt_describe,
                                  .card = gpt_card,
                                  .make_texts = task_clm_make_texts,
                                  .free_texts = task_clm_free_texts,
                                  .check_data_options = task_clm_check_data_options,
                                  .make_data = task_clm_make_data,
                                  .join_data = task_clm_join_data,
                                  .free_data = task_clm_free_data,
                                  .data_hash = task_clm_data_hash,
                                  .look_at_data = task_clm_look_at_data,
                                  .dataset = task_clm_dataset,
                                  .order_hash = task_clm_order_hash};
