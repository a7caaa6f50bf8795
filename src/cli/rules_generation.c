/* Rules of generate_samples_gpt: where prompts come from and texts go, how tokens are drawn, what beams do not
 * follow. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "options_impl.h"

/* Copies of the model: ranks of ep divide the experts of one. */
static long long rules_copies(const mega_command_options *cfg)
{
    const int64_t ep = cfg->train.engine.comm.expert_model_parallel_size, dp = cfg->train.engine.data_parallel_size;
    return ep > 1 && dp % ep == 0 ? dp / ep : dp;
}

void cli_rule_generation(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    const mega_generate_options *g = &cfg->generate;
    if (cfg->train.load == NULL) mega_options_mistake(o, "missing: --load FOLDER, the trained model");
    const struct {
        const char *dest;
        bool on;
    } sources[] = {{"prompt", g->prompt.count > 0},
                   {"num_samples", g->num_samples > 0},
                   {"sample_input_file", g->sample_input_file != NULL},
                   {"interactive", g->interactive}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (!sources[i].on) continue;
        if (first != NULL)
            mega_options_mistake(o, "%s and %s both say where the prompts come from; give one",
                                 mega_options_origin(o, first), mega_options_origin(o, sources[i].dest));
        first = sources[i].dest;
    }
    if (g->sample_output_file != NULL && g->sample_input_file == NULL)
        mega_options_mistake(o, "%s goes with --sample-input-file FILE; in every other mode --genfile FILE is written",
                             mega_options_origin(o, "sample_output_file"));
    if (g->sample_input_file != NULL && g->sample_output_file == NULL)
        mega_options_mistake(o,
                             "missing: --sample-output-file FILE, where the texts are written: %s is no regular file, "
                             "beside which a file could be",
                             mega_options_origin(o, "sample_input_file"));
    if (g->interactive && rules_copies(cfg) > 1)
        mega_options_mistake(
            o,
            "%s: %lld copies of the model were started, and they generate only when every copy has a prompt; start "
            "only the %lld ranks of one, or give the prompts by --prompt TEXT or --sample-input-file FILE",
            mega_options_origin(o, "interactive"), rules_copies(cfg),
            (long long)cfg->train.engine.world_size / rules_copies(cfg));
    if (g->temperature == 0)
        mega_options_mistake(o, "%s must be greater than 0; --greedy takes the most probable token every time",
                             mega_options_origin(o, "temperature"));
}

/* Options that say how tokens are drawn, or what is written about them. */
void cli_rule_drawing(mega_command_options *cfg)
{
    const mega_generate_options *g = &cfg->generate;
    mega_options *o = cfg->train.engine.options;
    const char *file = g->return_logits;
    if (g->top_p_decay > 0 && g->top_p == 0)
        mega_options_mistake(o, "%s goes with --top_p P, the probability that decays",
                             mega_options_origin(o, "top_p_decay"));
    if (g->top_p_bound > g->top_p)
        mega_options_mistake(o, "%s: --top_p does not decay below it, so it is at most --top_p (%g)",
                             mega_options_origin(o, "top_p_bound"), g->top_p);
    if (g->logprobs && g->genfile == NULL)
        mega_options_mistake(o, "%s goes with --genfile FILE, where they are written",
                             mega_options_origin(o, "logprobs"));
    if (file != NULL && !mega_path_ends_with(file, ".npy") && !mega_path_ends_with(file, ".safetensors"))
        mega_options_mistake(o, "%s: expected a file whose name ends with .npy or .safetensors",
                             mega_options_origin(o, "return_logits"));
    if (file != NULL && rules_copies(cfg) > 1)
        mega_options_mistake(o,
                             "%s: %lld copies of the model were started, and the logits of one are written; start "
                             "only its %lld ranks",
                             mega_options_origin(o, "return_logits"), rules_copies(cfg),
                             (long long)cfg->train.engine.world_size / rules_copies(cfg));
}

/* Options that a beam search does not follow. */
void cli_rule_beams(mega_command_options *cfg)
{
    const mega_generate_options *g = &cfg->generate;
    mega_options *o = cfg->train.engine.options;
    static const char one_id[] = "as in Megatron, --stop_token alone ends a beam";
    const struct {
        const char *dest, *why;
        bool on;
    } rows[] = {{"batch", "as in Megatron, it has one prompt; those of a file are searched one after the other",
                 g->batch > 1},
                {"repetition_penalty", "beams are ranked by the model's own probabilities", g->repetition_penalty != 1},
                {"stop", one_id, g->stop.count > 0},
                {"stop_on_eol", one_id, g->stop_on_eol},
                {"stop_on_double_eol", one_id, g->stop_on_double_eol}},
      idle[] = {{"temperature", NULL, g->temperature != 1},
                {"top_k", NULL, g->top_k > 1},
                {"top_p", NULL, g->top_p != 0},
                {"min_p", NULL, g->min_p != 0}};
    if (g->num_beams == 1) {
        if (g->beam_rules == 0 && g->early_stopping != 0)
            mega_options_mistake(o, "%s goes with --num-beams N --beam-rules transformers",
                                 mega_options_origin(o, "early_stopping"));
        return;
    }
    for (size_t i = 0; i < MEGA_COUNT(rows); i++)
        if (rows[i].on)
            mega_options_problem(
                o, MEGA_ERR_UNSUPPORTED, "%s: a beam search (%s) does not follow it: %s; leave one of them out",
                mega_options_origin(o, rows[i].dest), mega_options_origin(o, "num_beams"), rows[i].why);
    if (g->beam_rules == 0 && g->early_stopping != 0)
        mega_options_mistake(o, "%s goes with --beam-rules transformers", mega_options_origin(o, "early_stopping"));
    for (size_t i = 0; i < MEGA_COUNT(idle); i++)
        if (idle[i].on)
            mega_warn("%s has no effect beside --num-beams: nothing is drawn", mega_options_origin(o, idle[i].dest));
}

void cli_rule_greedy(mega_command_options *cfg)
{
    mega_options *o = cfg->train.engine.options;
    const mega_generate_options *g = &cfg->generate;
    const struct {
        const char *dest;
        bool draws; /* differs from the value that has no effect */
    } idle[] = {{"temperature", g->temperature != 1},
                {"top_k", g->top_k != 0},
                {"top_p", g->top_p != 0},
                {"min_p", g->min_p != 0}};
    for (size_t i = 0; g->greedy && i < MEGA_COUNT(idle); i++)
        if (idle[i].draws && mega_options_is_given(o, idle[i].dest))
            mega_options_warn(o, "%s has no effect beside --greedy", mega_options_origin(o, idle[i].dest));
}
