/* Options of the network. */
#include "megalith/model_options.h"

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
    {ROW("preset", preset, MEGA_OPTION_STRING), .choices = "gpt2|gpt2-medium|gpt2-large|gpt2-xl|tiny", .help = "shape of a known model: layers, width, heads, sequence length; options given with it win"},
    {ROW("num-layers", num_layers, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 14, .help = "transformer layers"},
    {ROW("hidden-size", hidden_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 20, .help = "width of the model"},
    {ROW("ffn-hidden-size", ffn_hidden_size, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 23, .help = "width inside the MLP; 4 times the hidden size when not given"},
    {ROW("num-attention-heads", num_attention_heads, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 16, .help = "attention heads"},
    {ROW("kv-channels", kv_channels, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .help = "width of a head; hidden size / heads when not given"},
    {ROW("max-position-embeddings", max_position_embeddings, MEGA_OPTION_INT), .range = MEGA_RANGE_POSITIVE, .most = 1 << 24, .help = "rows of the position table; the sequence length when not given"},
    {ROW("layernorm-epsilon", layernorm_epsilon, MEGA_OPTION_FLOAT), .fallback = "1e-05", .range = MEGA_RANGE_POSITIVE, .help = "epsilon of the layer norms"},
};
const mega_option_section mega_model_network_section = MEGA_SECTION("network size", network_rows);

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
