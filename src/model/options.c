/* Options of the network. */
#include "megalith/builder.h"
#include "megalith/model_options.h"

#include <stdlib.h>

#define ROW(name, field, kind) MEGA_OPTION(mega_model_options, name, field, kind)

// clang-format off
static const mega_option_row distributed_rows[] = {
    {ROW("decoder-first-pipeline-num-layers", decoder_first_pipeline_num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of the first stage, which also holds the embeddings; the rest is cut evenly"},
    {ROW("decoder-last-pipeline-num-layers", decoder_last_pipeline_num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of the last stage, which also holds the head; the rest is cut evenly"},
    {ROW("num-layers-per-virtual-pipeline-stage", num_layers_per_virtual_pipeline_stage, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "layers of each of the parts that a stage holds, which are interleaved: stages wait less, and exchange more"},
    {ROW("num-virtual-stages-per-pipeline-rank", num_virtual_stages_per_pipeline_rank, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "the same said by the number of parts of each stage; stages that hold other numbers of layers than the rest (--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers) have as many parts"},
};
const mega_option_section mega_model_distributed_section = MEGA_SECTION("distributed", distributed_rows);

static const mega_option_row network_rows[] = {
    {ROW("preset", preset, MEGA_OPTION_STRING), .choices = "gpt2|gpt2-medium|gpt2-large|gpt2-xl|tiny|llama-2-7b|tinyllama-1.1b|llama-3.1-8b|llama-3.2-1b|llama-3.2-3b|smollm2-135m|smollm2-360m|mistral-7b|qwen2.5-0.5b|qwen3-0.6b|qwen3-1.7b|bloom-560m|starcoderbase-1b", .help = "shape of a known model: layers, width, heads, sequence length; options given with it win"},
    {ROW("num-layers", num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 14, .help = "transformer layers"},
    {ROW("hidden-size", hidden_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "width of the model"},
    {ROW("ffn-hidden-size", ffn_hidden_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 23, .help = "width inside the MLP; 4 times the hidden size when not given"},
    {ROW("num-attention-heads", num_attention_heads, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 16, .help = "attention heads"},
    {ROW("kv-channels", kv_channels, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "width of a head; hidden size / heads when not given"},
    {ROW("max-position-embeddings", max_position_embeddings, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "rows of the position table; the sequence length when not given"},
    {ROW("layernorm-epsilon", layernorm_epsilon, MEGA_OPTION_FLOAT), .fallback = "1e-05", .range = MEGA_RANGE_POSITIVE, .help = "epsilon of the layer norms"},
};
const mega_option_section mega_model_network_section = MEGA_SECTION("network size", network_rows);

static const mega_option_row kind_rows[] = {
    {ROW("position-embedding-type", position_embedding_type, MEGA_OPTION_STRING), .choices = "learned_absolute|absolute|rope|rotary|alibi|none", .fallback = "learned_absolute", .help = "how attention knows positions: a learned table, a rotation of queries and keys, slopes by distance, or not at all"},
    {ROW("use-rotary-position-embeddings", use_rotary_position_embeddings, MEGA_OPTION_FLAG), .help = "the same as --position-embedding-type rope"},
    {ROW("no-position-embedding", add_position_embedding, MEGA_OPTION_OFF), .help = "no learned table of positions"},
    {ROW("rotary-percent", rotary_percent, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .help = "share of the channels of a head that is rotated"},
    {ROW("rotary-base", rotary_base, MEGA_OPTION_FLOAT), .fallback = "10000", .range = MEGA_RANGE_POSITIVE, .help = "base of the wavelengths of the rotation (theta)"},
    {ROW("rotary-seq-len-interpolation-factor", rotary_seq_len_interpolation_factor, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_POSITIVE, .help = "divide positions by this before the rotation, for sequences longer than those of an earlier training"},
    {ROW("use-rope-scaling", use_rope_scaling, MEGA_OPTION_FLAG), .help = "lengthen the long wavelengths of the rotation as Llama 3.1 does, for sequences beyond 8,192 positions"},
    {ROW("rope-scaling-factor", rope_scaling_factor, MEGA_OPTION_FLOAT), .fallback = "8.0", .range = MEGA_RANGE_POSITIVE, .help = "with --use-rope-scaling: how many times longer"},
    {ROW("rotary-interleaved", rotary_interleaved, MEGA_OPTION_FLAG), .help = "rotate pairs of neighbouring channels instead of a channel and the one half a head further"},
    {ROW("rope-type", rope_type, MEGA_OPTION_STRING), .choices = "rope|yarn", .help = "yarn: the rotation of YaRN, for sequences longer than those of an earlier training"},
    {ROW("rotary-scaling-factor", rotary_scaling_factor, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .help = "with --rope-type yarn: how many times longer"},
    {ROW("yarn-original-max-position-embeddings", yarn_original_max_position_embeddings, MEGA_OPTION_INT), .fallback = "4096", .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "with --rope-type yarn: positions of the earlier training"},
    {ROW("yarn-beta-fast", yarn_beta_fast, MEGA_OPTION_FLOAT), .fallback = "32.0", .range = MEGA_RANGE_POSITIVE, .help = "with --rope-type yarn: channels that turn more often over those positions keep their wavelength"},
    {ROW("yarn-beta-slow", yarn_beta_slow, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .help = "with --rope-type yarn: channels that turn less often have wavelengths longer by the whole factor"},
    {ROW("no-yarn-correction-range-round-to-int", yarn_correction_range_round_to_int, MEGA_OPTION_OFF), .help = "with --rope-type yarn: the channels where the two begin need not be whole numbers"},
    {ROW("mscale", mscale, MEGA_OPTION_FLOAT), .fallback = "1.0", .range = MEGA_RANGE_POSITIVE, .help = "with --rope-type yarn: queries and keys are multiplied by (0.1 * this * ln(factor) + 1) / (0.1 * M * ln(factor) + 1), M of --mscale-all-dim"},
    {ROW("mscale-all-dim", mscale_all_dim, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "with --rope-type yarn: see --mscale"},
    {ROW("no-rope-freq", no_rope_freq, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 14, .help = "every N-th layer is not rotated"},
    {ROW("group-query-attention", group_query_attention, MEGA_OPTION_FLAG), .help = "groups of --num-query-groups heads share keys and values"},
    {ROW("num-query-groups", num_query_groups, MEGA_OPTION_INT), .fallback = "1", .range = MEGA_RANGE_POSITIVE, .most = 1 << 16, .help = "with --group-query-attention: heads of keys and values, a divisor of --num-attention-heads"},
    {ROW("num-key-value-heads", num_key_value_heads, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 16, .help = "heads of keys and values, a divisor of --num-attention-heads; as many as those when not given"},
    {ROW("attention-head-type", attention_head_type, MEGA_OPTION_STRING), .choices = "multihead|multiquery", .fallback = "multihead", .help = "multiquery: all heads share one head of keys and values"},
    {ROW("normalization", normalization, MEGA_OPTION_STRING), .choices = "LayerNorm|layernorm|RMSNorm|rmsnorm", .fallback = "LayerNorm", .help = "kind of the norms"},
    {ROW("apply-layernorm-1p", apply_layernorm_1p, MEGA_OPTION_FLAG), .help = "norms multiply by 1 + weight, and weights begin at 0"},
    {ROW("swiglu", swiglu, MEGA_OPTION_FLAG), .help = "gated MLP with SiLU; the FFN is then two thirds as wide unless --ffn-hidden-size says otherwise"},
    {ROW("glu-activation", glu_activation, MEGA_OPTION_STRING), .choices = "geglu|liglu|reglu|swiglu", .help = "gated MLP with this activation of the second half of the first product"},
    {ROW("squared-relu", squared_relu, MEGA_OPTION_FLAG), .help = "the square of ReLU instead of GELU"},
    {ROW("untie-embeddings-and-output-weights", untie_embeddings_and_output_weights, MEGA_OPTION_FLAG), .help = "the head has a table of its own instead of that of the embedding"},
    {ROW("disable-bias-linear", add_bias_linear, MEGA_OPTION_OFF), .help = "no biases in the linear layers"},
    {ROW("add-qkv-bias", add_qkv_bias, MEGA_OPTION_FLAG), .help = "biases of queries, keys and values, also with --disable-bias-linear"},
    {ROW("qk-layernorm", qk_layernorm, MEGA_OPTION_FLAG), .help = "normalize the queries and keys of each head"},
    {ROW("window-size", window_size, MEGA_OPTION_STRING), .help = "L,R: a position sees L positions before it and R after it (-1: all); attention is causal, so that R changes nothing"},
    {ROW("embed-layernorm", embed_layernorm, MEGA_OPTION_FLAG), .help = "normalize the embedding"},
};
const mega_option_section mega_model_kind_section = MEGA_SECTION("network kind", kind_rows);

static const mega_option_row experts_rows[] = {
    {ROW("num-experts", num_experts, MEGA_OPTION_LIST), .help = "number of experts that replace the MLP of a layer, or one number for each layer with experts; each token uses --moe-router-topk of them; 1: an MLP"},
    {ROW("mlp-type", mlp_type, MEGA_OPTION_STRING), .choices = "standard|residual", .fallback = "standard", .help = "residual: layers of experts have an MLP beside them, of --ffn-hidden-size, and a token adds both by weights of its own (PR-MoE)"},
    {ROW("expert-interval", expert_interval, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "the last of each so many layers has experts, as in Megatron-DeepSpeed, instead of --moe-layer-freq"},
    {ROW("moe-init-from", moe_init_from, MEGA_OPTION_STRING), .help = "begin a mixture of --num-experts with the weights of a dense model, in a folder or checkpoint: every expert with the MLP of its layer, routers at random; without effect where --load has a checkpoint to go on from"},
    {ROW("moe-ffn-hidden-size", moe_ffn_hidden_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 23, .help = "width inside an expert; --ffn-hidden-size when not given"},
    {ROW("moe-layer-freq", moe_layer_freq, MEGA_OPTION_STRING), .fallback = "1", .help = "which layers have experts: N: the first and every N-th after it; or a list of a 0 or 1 for each layer, which + and * may lengthen: \"([0]*3+[1])*2\""},
    {ROW("moe-router-topk", moe_router_topk, MEGA_OPTION_INT), .fallback = "2", .range = MEGA_RANGE_POSITIVE, .most = MEGA_ROUTE_EXPERTS, .help = "experts that a token chooses"},
    {ROW("moe-router-score-function", moe_router_score_function, MEGA_OPTION_STRING), .choices = "softmax|sigmoid", .fallback = "softmax", .help = "how the router scores the experts"},
    {ROW("moe-router-pre-softmax", moe_router_pre_softmax, MEGA_OPTION_FLAG), .help = "the weights of the chosen experts are their shares of a softmax over all experts, and do not sum to 1"},
    {ROW("moe-router-topk-scaling-factor", moe_router_topk_scaling_factor, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_POSITIVE, .help = "factor of the weights of the chosen experts"},
    {ROW("moe-router-num-groups", moe_router_num_groups, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = MEGA_ROUTE_EXPERTS, .help = "groups of experts, of which a token chooses --moe-router-group-topk before it chooses experts in them"},
    {ROW("moe-router-group-topk", moe_router_group_topk, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = MEGA_ROUTE_EXPERTS, .help = "with --moe-router-num-groups: groups that a token chooses"},
    {ROW("moe-router-load-balancing-type", moe_router_load_balancing_type, MEGA_OPTION_STRING), .choices = "aux_loss|seq_aux_loss|sinkhorn|none", .not_implemented = "global_aux_loss", .fallback = "aux_loss", .resume = MEGA_RESUME_REPORTED, .help = "what makes a router use all experts alike: a loss, which counts by --moe-aux-loss-coeff, over a micro-batch (aux_loss) or over each of its samples (seq_aux_loss); a choice that balances the tokens of a micro-batch, without a loss (sinkhorn); or none"},
    {ROW("moe-aux-loss-coeff", moe_aux_loss_coeff, MEGA_OPTION_FLOAT), .fallback = "0.0", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "coefficient of that loss of each layer; 0.01 is usual"},
    {ROW("moe-z-loss-coeff", moe_z_loss_coeff, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "coefficient of a loss that keeps the logits of the router of each layer small; 0.001 is usual"},
    {ROW("moe-input-jitter-eps", moe_input_jitter_eps, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "in training the router reads its input times 1 + this * u, u uniform from -1 to 1"},
    {ROW("moe-router-enable-expert-bias", moe_router_enable_expert_bias, MEGA_OPTION_FLAG), .resume = MEGA_RESUME_REPORTED, .help = "sigmoids as scores: a bias of each expert is added for the choice alone, and after each step grows for experts that fewer tokens than the mean have chosen, and falls for the others"},
    {ROW("moe-router-bias-update-rate", moe_router_bias_update_rate, MEGA_OPTION_FLOAT), .fallback = "0.001", .range = MEGA_RANGE_NOT_NEGATIVE, .resume = MEGA_RESUME_REPORTED, .help = "with --moe-router-enable-expert-bias: by how much; 0: the biases stay as they are"},
    {ROW("moe-expert-capacity-factor", moe_expert_capacity_factor, MEGA_OPTION_FLOAT), .range = MEGA_RANGE_POSITIVE, .resume = MEGA_RESUME_REPORTED, .help = "in training an expert computes at most this times the choices of a micro-batch over --num-experts, rounded up, and the others that choose it are dropped; without it none is"},
    {ROW("moe-token-drop-policy", moe_token_drop_policy, MEGA_OPTION_STRING), .choices = "probs|position", .fallback = "probs", .resume = MEGA_RESUME_REPORTED, .help = "with --moe-expert-capacity-factor: the choices that stay: those with the largest weights, or the first"},
    {ROW("moe-min-capacity", moe_min_capacity, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = INT32_MAX, .resume = MEGA_RESUME_REPORTED, .help = "with --moe-expert-capacity-factor: an expert computes at least so many choices of a micro-batch before one is dropped"},
    {ROW("moe-buffer-factor", moe_buffer_factor, MEGA_OPTION_FLOAT), .fallback = "1.5", .range = MEGA_RANGE_POSITIVE, .help = "with --expert-model-parallel-size: the rows that a rank can send to another at once, as a multiple of those that it sends where experts are chosen evenly; what is more follows in further rounds"},
};
const mega_option_section mega_model_experts_section = MEGA_SECTION("mixture of experts", experts_rows);

static const mega_option_row regularization_rows[] = {
    {ROW("attention-dropout", attention_dropout, MEGA_OPTION_FLOAT), .fallback = "0.1", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "dropout of attention probabilities"},
    {ROW("hidden-dropout", hidden_dropout, MEGA_OPTION_FLOAT), .fallback = "0.1", .range = MEGA_RANGE_BELOW_ONE, .resume = MEGA_RESUME_REPORTED, .help = "dropout of the residual branches and of the embedding"},
};
const mega_option_section mega_model_regularization_section = MEGA_SECTION("regularization", regularization_rows);

static const mega_option_row initialization_rows[] = {
    {ROW("init-method-std", init_method_std, MEGA_OPTION_FLOAT), .fallback = "0.02", .range = MEGA_RANGE_POSITIVE, .help = "standard deviation of initial weights"},
    {ROW("init-method-xavier-uniform", init_method_xavier_uniform, MEGA_OPTION_FLAG), .help = "Xavier's uniform initial weights"},
};
const mega_option_section mega_model_initialization_section = MEGA_SECTION("initialization", initialization_rows);

static const mega_option_row training_rows[] = {
    {ROW("sequence-parallel", sequence_parallel, MEGA_OPTION_FLAG), .yaml = "megatron_lm_config.megatron_lm_sequence_parallelism", .help = "norms, dropout and residuals work on a share of the tokens on each rank of --tensor-model-parallel-size; nothing changes where that is 1"},
};
const mega_option_section mega_model_training_section = MEGA_SECTION("training", training_rows);
// clang-format on

/* ---- numbers of experts ---- */

int64_t mega_model_experts_at(const mega_model_options *o, size_t i)
{
    char *end;
    const long long n = strtoll(o->num_experts.item[i], &end, 10);
    return end != o->num_experts.item[i] && *end == '\0' && n >= 1 && n <= MEGA_ROUTE_EXPERTS ? n : 0;
}

int64_t mega_model_num_experts(const mega_model_options *o)
{
    int64_t most = 0;
    for (size_t i = 0; i < o->num_experts.count; i++) {
        const int64_t n = mega_model_experts_at(o, i);
        if (n == 0) return -1;
        if (n > most) most = n;
    }
    return most > 1 ? most : 0;
}
