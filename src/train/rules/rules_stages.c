/* Rules for pipeline stages: their number, the layers of each, and options that cannot be combined with them yet. */
#include "train_rules.h"
#include <stdio.h>

static const char *divisors(int64_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t d = 1; d <= n && used + 24 < size; d++)
        if (n % d == 0) used += (size_t)snprintf(out + used, size - used, "%s%lld", used > 0 ? ", " : "", (long long)d);
    return out;
}

/* Returns the number of stages that share the remaining layers equally: all except a first or last stage whose number
 * of layers is given by an option. */
int64_t train_even_stages(const mega_train_options *cfg)
{
    return cfg->engine.comm.pipeline_model_parallel_size - (cfg->model.decoder_first_pipeline_num_layers > 0) -
           (cfg->model.decoder_last_pipeline_num_layers > 0);
}

/* Returns whether the remaining layers can be divided equally. *each receives the number of layers of a stage without
 * an explicit number. */
static bool are_layers_even(const mega_train_options *cfg, int64_t *each)
{
    const int64_t stages = train_even_stages(cfg);
    const int64_t left = cfg->model.num_layers - cfg->model.decoder_first_pipeline_num_layers -
                         cfg->model.decoder_last_pipeline_num_layers;
    *each = stages > 0 ? left / stages : 0;
    return stages == 0 ? left == 0 : left > 0 && left % stages == 0;
}

static void check_layers(mega_train_options *cfg)
{
    const int64_t pp = cfg->engine.comm.pipeline_model_parallel_size, layers = cfg->model.num_layers,
                  stages = train_even_stages(cfg);
    const int64_t first = cfg->model.decoder_first_pipeline_num_layers,
                  last = cfg->model.decoder_last_pipeline_num_layers;
    const int64_t left = layers - first - last;
    int64_t each;
    char valid[160];
    if (are_layers_even(cfg, &each)) return;
    if (first == 0 && last == 0) {
        mega_options_mistake(cfg->engine.options,
                             "%s cannot be cut into %lld equal pipeline stages; stages that divide it: %s; or say how "
                             "many the ends hold: --decoder-first-pipeline-num-layers N, "
                             "--decoder-last-pipeline-num-layers N",
                             mega_options_origin(cfg->engine.options, "num_layers"), (long long)pp,
                             divisors(layers, valid, sizeof valid));
        return;
    }
    mega_options_mistake(cfg->engine.options,
                         "%s: with %lld layers in the first pipeline stage and %lld in the last (0: as many as the "
                         "others) %lld layers are left for %lld stage%s; expected %s",
                         mega_options_origin(cfg->engine.options, "num_layers"), (long long)first, (long long)last,
                         (long long)left, (long long)stages, stages == 1 ? "" : "s",
                         stages == 0 ? "that none are left" : "a multiple of the stages, above 0");
}

static void check_end(mega_train_options *cfg, const char *end, int64_t layers)
{
    const int64_t parts = cfg->model.num_virtual_stages_per_pipeline_rank;
    char valid[160];
    if (layers == 0 || parts < 1 || layers % parts == 0) return;
    mega_options_mistake(
        cfg->engine.options,
        "%s: %lld layers cannot be cut into the %lld parts of a pipeline stage; expected a multiple of "
        "%lld, or --num-virtual-stages-per-pipeline-rank one of %s",
        mega_options_origin(cfg->engine.options, end), (long long)layers, (long long)parts, (long long)parts,
        divisors(layers, valid, sizeof valid));
}

/* Checks the virtual stages of each rank, which are given either by their number of layers or by their number. */
static void check_cut(mega_train_options *cfg)
{
    const int64_t layers = cfg->model.num_layers_per_virtual_pipeline_stage,
                  parts = cfg->model.num_virtual_stages_per_pipeline_rank;
    const char *by_layers = mega_options_origin(cfg->engine.options, "num_layers_per_virtual_pipeline_stage");
    const char *by_number = mega_options_origin(cfg->engine.options, "num_virtual_stages_per_pipeline_rank");
    int64_t each;
    char valid[160];
    if (!are_layers_even(cfg, &each)) return; /* already reported */
    if (layers > 0 && each == 0 && parts == 0)
        mega_options_mistake(
            cfg->engine.options,
            "%s: both pipeline stages say how many layers they hold, so that none is left to be cut by "
            "this; give --num-virtual-stages-per-pipeline-rank V instead",
            by_layers);
    else if (layers > 0 && each % layers != 0)
        mega_options_mistake(cfg->engine.options,
                             "%s does not divide the %lld layers of a pipeline stage; numbers that do: %s", by_layers,
                             (long long)each, divisors(each, valid, sizeof valid));
    else if (parts > 0 && each % parts != 0)
        mega_options_mistake(cfg->engine.options,
                             "%s does not divide the %lld layers of a pipeline stage; numbers that do: %s", by_number,
                             (long long)each, divisors(each, valid, sizeof valid));
    else {
        check_end(cfg, "decoder_first_pipeline_num_layers", cfg->model.decoder_first_pipeline_num_layers);
        check_end(cfg, "decoder_last_pipeline_num_layers", cfg->model.decoder_last_pipeline_num_layers);
    }
}

/* Checks the interleaved schedule, which is used with several virtual stages per rank. */
static void stages_check_parts(mega_train_options *cfg)
{
    const bool by_layers = mega_options_was_set(cfg->engine.options, "num_layers_per_virtual_pipeline_stage");
    const char *origin = mega_options_origin(cfg->engine.options, by_layers ? "num_layers_per_virtual_pipeline_stage"
                                                                            : "num_virtual_stages_per_pipeline_rank");
    const int64_t pp = cfg->engine.comm.pipeline_model_parallel_size,
                  samples = cfg->engine.optim.micro_batch_size * cfg->engine.data_parallel_size;
    if (!by_layers && cfg->model.num_virtual_stages_per_pipeline_rank <= 1) return;
    if (by_layers && mega_options_was_set(cfg->engine.options, "num_virtual_stages_per_pipeline_rank"))
        mega_options_mistake(cfg->engine.options, "%s and %s say the same in two ways; give one of them", origin,
                             mega_options_origin(cfg->engine.options, "num_virtual_stages_per_pipeline_rank"));
    else if (!train_is(cfg, "pretrain_t5")) /* whose two stacks model/t5.c cuts */
        check_cut(cfg);
    if (samples <= 0 || cfg->model.num_virtual_stages_per_pipeline_rank <= 1) return;
    if (cfg->engine.optim.global_batch_size % (samples * pp) != 0)
        mega_options_mistake(cfg->engine.options,
                             "%s: %lld samples a step in micro-batches of %lld x %lld data-parallel ranks are not a "
                             "multiple of %lld stages; expected --global-batch-size a multiple of %lld",
                             origin, (long long)cfg->engine.optim.global_batch_size,
                             (long long)cfg->engine.optim.micro_batch_size, (long long)cfg->engine.data_parallel_size,
                             (long long)pp, (long long)(samples * pp));
    const int64_t *ramp = cfg->engine.optim.rampup_batch_size;
    if (mega_options_was_set(cfg->engine.options, "rampup_batch_size") &&
        (ramp[0] % (samples * pp) != 0 || ramp[1] % (samples * pp) != 0))
        mega_options_mistake(cfg->engine.options, "%s: %s must begin at and grow by multiples of %lld", origin,
                             mega_options_origin(cfg->engine.options, "rampup_batch_size"), (long long)(samples * pp));
}

void mega_train_rule_stages(mega_train_options *cfg)
{
    static const char *const end[] = {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
                                      "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"};
    const int64_t tp = cfg->engine.comm.tensor_model_parallel_size, pp = cfg->engine.comm.pipeline_model_parallel_size;
    char valid[160];
    for (size_t i = 0; i < MEGA_COUNT(end) && pp == 1; i++)
        if (mega_options_was_set(cfg->engine.options, end[i]))
            mega_options_mistake(cfg->engine.options,
                                 "%s: there is one pipeline stage; leave it out, or give "
                                 "--pipeline-model-parallel-size P",
                                 mega_options_origin(cfg->engine.options, end[i]));
    if (pp <= 1 || tp <= 0 || cfg->engine.world_size % tp != 0) return; /* only one stage, or reported elsewhere */
    const int64_t left = cfg->engine.world_size / tp;
    if (left % pp != 0)
        mega_options_mistake(
            cfg->engine.options,
            "%s does not divide %lld (%lld rank%s / tensor parallel size %lld); sizes that do: %s (%s)",
            mega_options_origin(cfg->engine.options, "pipeline_model_parallel_size"), (long long)left,
            (long long)cfg->engine.world_size, cfg->engine.world_size == 1 ? "" : "s", (long long)tp,
            divisors(left, valid, sizeof valid), train_advise_ranks(cfg));
    if (cfg->model.num_layers > 0 && !train_is(cfg, "pretrain_t5")) check_layers(cfg);
    if (cfg->model.num_layers > 0 && left % pp == 0) stages_check_parts(cfg);
}
