/* Rules of pipeline stages: how many, which layers each holds, what does not go with them yet. */
#include "megalith/config.h"
#include "program_impl.h"

#include <stdio.h>

#define USAGE MEGA_ERR_USAGE

static const char *divisors(int64_t n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t d = 1; d <= n && used + 24 < size; d++)
        if (n % d == 0) used += (size_t)snprintf(out + used, size - used, "%s%lld", used > 0 ? ", " : "", (long long)d);
    return out;
}

/* Stages that hold as many layers as each other: all but a first or last one whose number is said. */
int64_t mega_config_even_stages(const mega_config *cfg)
{
    return cfg->pipeline_model_parallel_size - (cfg->decoder_first_pipeline_num_layers > 0) -
           (cfg->decoder_last_pipeline_num_layers > 0);
}

/* *each: layers of a stage that does not say its own. */
static bool are_layers_even(const mega_config *cfg, int64_t *each)
{
    const int64_t stages = mega_config_even_stages(cfg);
    const int64_t left =
        cfg->num_layers - cfg->decoder_first_pipeline_num_layers - cfg->decoder_last_pipeline_num_layers;
    *each = stages > 0 ? left / stages : 0;
    return stages == 0 ? left == 0 : left > 0 && left % stages == 0;
}

static void check_layers(mega_config *cfg)
{
    const int64_t pp = cfg->pipeline_model_parallel_size, layers = cfg->num_layers,
                  stages = mega_config_even_stages(cfg);
    const int64_t first = cfg->decoder_first_pipeline_num_layers, last = cfg->decoder_last_pipeline_num_layers;
    const int64_t left = layers - first - last;
    int64_t each;
    char valid[160];
    if (are_layers_even(cfg, &each)) return;
    if (first == 0 && last == 0) {
        mega_config_problem(cfg, USAGE,
                            "%s cannot be cut into %lld equal pipeline stages; stages that divide it: %s; or say how "
                            "many the ends hold: --decoder-first-pipeline-num-layers N, "
                            "--decoder-last-pipeline-num-layers N",
                            mega_config_origin(cfg, "num_layers"), (long long)pp,
                            divisors(layers, valid, sizeof valid));
        return;
    }
    mega_config_problem(cfg, USAGE,
                        "%s: with %lld layers in the first pipeline stage and %lld in the last (0: as many as the "
                        "others) %lld layers are left for %lld stage%s; expected %s",
                        mega_config_origin(cfg, "num_layers"), (long long)first, (long long)last, (long long)left,
                        (long long)stages, stages == 1 ? "" : "s",
                        stages == 0 ? "that none are left" : "a multiple of the stages, above 0");
}

static void check_end(mega_config *cfg, const char *end, int64_t layers)
{
    const int64_t parts = cfg->num_virtual_stages_per_pipeline_rank;
    char valid[160];
    if (layers == 0 || parts < 1 || layers % parts == 0) return;
    mega_config_problem(cfg, USAGE,
                        "%s: %lld layers cannot be cut into the %lld parts of a pipeline stage; expected a multiple of "
                        "%lld, or --num-virtual-stages-per-pipeline-rank one of %s",
                        mega_config_origin(cfg, end), (long long)layers, (long long)parts, (long long)parts,
                        divisors(layers, valid, sizeof valid));
}

/* The parts of each stage: said by their layers or by their number. */
static void check_cut(mega_config *cfg)
{
    const int64_t layers = cfg->num_layers_per_virtual_pipeline_stage,
                  parts = cfg->num_virtual_stages_per_pipeline_rank;
    const char *by_layers = mega_config_origin(cfg, "num_layers_per_virtual_pipeline_stage");
    const char *by_number = mega_config_origin(cfg, "num_virtual_stages_per_pipeline_rank");
    int64_t each;
    char valid[160];
    if (!are_layers_even(cfg, &each)) return; /* said before */
    if (layers > 0 && each == 0 && parts == 0)
        mega_config_problem(cfg, USAGE,
                            "%s: both pipeline stages say how many layers they hold, so that none is left to be cut by "
                            "this; give --num-virtual-stages-per-pipeline-rank V instead",
                            by_layers);
    else if (layers > 0 && each % layers != 0)
        mega_config_problem(cfg, USAGE, "%s does not divide the %lld layers of a pipeline stage; numbers that do: %s",
                            by_layers, (long long)each, divisors(each, valid, sizeof valid));
    else if (parts > 0 && each % parts != 0)
        mega_config_problem(cfg, USAGE, "%s does not divide the %lld layers of a pipeline stage; numbers that do: %s",
                            by_number, (long long)each, divisors(each, valid, sizeof valid));
    else {
        check_end(cfg, "decoder_first_pipeline_num_layers", cfg->decoder_first_pipeline_num_layers);
        check_end(cfg, "decoder_last_pipeline_num_layers", cfg->decoder_last_pipeline_num_layers);
    }
}

/* Several parts of a stage: the interleaved schedule. */
static void check_parts(mega_config *cfg)
{
    const bool by_layers = mega_config_was_set(cfg, "num_layers_per_virtual_pipeline_stage");
    const char *origin = mega_config_origin(cfg, by_layers ? "num_layers_per_virtual_pipeline_stage"
                                                           : "num_virtual_stages_per_pipeline_rank");
    const int64_t pp = cfg->pipeline_model_parallel_size, samples = cfg->micro_batch_size * cfg->data_parallel_size;
    if (!by_layers && cfg->num_virtual_stages_per_pipeline_rank <= 1) return;
    if (by_layers && mega_config_was_set(cfg, "num_virtual_stages_per_pipeline_rank"))
        mega_config_problem(cfg, USAGE, "%s and %s say the same in two ways; give one of them", origin,
                            mega_config_origin(cfg, "num_virtual_stages_per_pipeline_rank"));
    else
        check_cut(cfg);
    if (samples <= 0 || cfg->num_virtual_stages_per_pipeline_rank <= 1) return;
    if (cfg->global_batch_size % (samples * pp) != 0)
        mega_config_problem(cfg, USAGE,
                            "%s: %lld samples a step in micro-batches of %lld x %lld data-parallel ranks are not a "
                            "multiple of %lld stages; expected --global-batch-size a multiple of %lld",
                            origin, (long long)cfg->global_batch_size, (long long)cfg->micro_batch_size,
                            (long long)cfg->data_parallel_size, (long long)pp, (long long)(samples * pp));
    const int64_t *ramp = cfg->rampup_batch_size;
    if (mega_config_was_set(cfg, "rampup_batch_size") &&
        (ramp[0] % (samples * pp) != 0 || ramp[1] % (samples * pp) != 0))
        mega_config_problem(cfg, USAGE, "%s: %s must begin at and grow by multiples of %lld", origin,
                            mega_config_origin(cfg, "rampup_batch_size"), (long long)(samples * pp));
}

void mega_rule_stages(mega_config *cfg)
{
    static const char *const end[] = {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
                                      "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"};
    const int64_t tp = cfg->tensor_model_parallel_size, pp = cfg->pipeline_model_parallel_size;
    char valid[160];
    for (size_t i = 0; i < ROW_COUNT(end) && pp == 1; i++)
        if (mega_config_was_set(cfg, end[i]))
            mega_config_problem(cfg, USAGE,
                                "%s: there is one pipeline stage; leave it out, or give "
                                "--pipeline-model-parallel-size P",
                                mega_config_origin(cfg, end[i]));
    if (pp <= 1 || tp <= 0 || cfg->world_size % tp != 0) return; /* one stage, or said elsewhere */
    const int64_t left = cfg->world_size / tp;
    if (left % pp != 0)
        mega_config_problem(cfg, USAGE,
                            "%s does not divide %lld (%lld rank%s / tensor parallel size %lld); sizes that do: %s (%s)",
                            mega_config_origin(cfg, "pipeline_model_parallel_size"), (long long)left,
                            (long long)cfg->world_size, cfg->world_size == 1 ? "" : "s", (long long)tp,
                            divisors(left, valid, sizeof valid), mega_rule_more_ranks(cfg));
    if (cfg->num_layers > 0) check_layers(cfg);
    if (cfg->num_layers > 0 && left % pp == 0) check_parts(cfg);
}
