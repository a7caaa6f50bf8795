/* The rules of a generation, from the options of the command. */
#include "generate.h"

/* Adds a sequence of ids, unless the tokenizer lacks one of them. */
static void add_end(generate_ends *e, mega_generation_rules *r, int *used, const int32_t *id, int count)
{
    for (int i = 0; i < count; i++)
        if (id[i] < 0) return;
    for (int i = 0; i < count; i++) e->id[*used + i] = id[i];
    e->end[r->num_ends++] = (mega_id_sequence){.id = e->id + *used, .count = count};
    *used += count;
}

/* Megatron's rules for line ends: a token of two of them, two tokens of one, or one token of one. */
bool generate_is_stop(const generate_ends *e, int32_t id)
{
    for (int i = 0; i < e->num_stops; i++)
        if (e->stop[i] == id) return true;
    return false;
}

static void find_stops(const mega_loaded *l, int32_t stop, generate_ends *e)
{
    e->num_stops = 1;
    e->stop[0] = stop >= 0 ? stop : mega_tokenizer_eod(l->tokenizer);
    for (int i = 0; i < l->model.num_ends && stop < 0; i++)
        if (e->stop[0] < 0) e->stop[0] = l->model.end[i];
        else if (!generate_is_stop(e, l->model.end[i]))
            e->stop[e->num_stops++] = l->model.end[i];
}

void generate_ends_make(const mega_loaded *l, int32_t stop, bool on_eol, bool on_double_eol, generate_ends *e,
                        mega_generation_rules *r)
{
    const mega_tokenizer *t = l->tokenizer;
    const int32_t one = mega_tokenizer_find(t, "\n", 1), two = mega_tokenizer_find(t, "\n\n", 2);
    int used = 0;
    find_stops(l, stop, e);
    r->end = e->end;
    r->num_ends = 0;
    for (int i = 0; i < e->num_stops; i++) add_end(e, r, &used, &e->stop[i], 1);
    if (on_eol || on_double_eol) add_end(e, r, &used, &two, 1);
    if (on_double_eol) add_end(e, r, &used, (const int32_t[]){one, one}, 2);
    if (on_eol) add_end(e, r, &used, &one, 1);
}

static mega_status check_stop_token(const mega_command_options *cfg, const mega_loaded *l)
{
    const int64_t id = cfg->generate.stop_token;
    if (id >= -1 && id < l->model.shape.vocab) return MEGA_OK;
    return MEGA_MISTAKE("%s: the model has ids 0 to %lld (-1: the end of document)",
                        mega_options_origin(cfg->train.engine.options, "stop_token"),
                        (long long)l->model.shape.vocab - 1);
}

mega_status generate_rules_make(const mega_command_options *cfg, const mega_loaded *l, generate_ends *ends,
                                mega_generation_rules *out)
{
    const mega_generate_options *o = &cfg->generate;
    const mega_tokenizer *t = l->tokenizer;
    MEGA_TRY(check_stop_token(cfg, l));
    *out = (mega_generation_rules){.sampling = {.greedy = o->greedy,
                                                .temperature = o->temperature,
                                                .top_k = o->top_k,
                                                .top_p = o->top_p,
                                                .seed = (uint32_t)cfg->train.engine.seed,
                                                .top_p_decay = o->top_p_decay,
                                                .top_p_bound = o->top_p_bound,
                                                .min_p = o->min_p,
                                                .repetition_penalty = o->repetition_penalty,
                                                .forbids = o->prevent_newline_after_colon,
                                                .forbidden = mega_tokenizer_find(t, "\n", 1),
                                                .forbidden_after = mega_tokenizer_find(t, ":", 1)},
                                   .stop = (const char *const *)o->stop.item,
                                   .num_stops = (int)o->stop.count};
    generate_ends_make(l, (int32_t)o->stop_token, o->stop_on_eol, o->stop_on_double_eol, ends, out);
    return MEGA_OK;
}

void generate_beams_make(const mega_command_options *cfg, const mega_generation_rules *rules, const generate_ends *ends,
                         mega_beam_options *out)
{
    const mega_generate_options *o = &cfg->generate;
    *out = (mega_beam_options){.width = (int)o->num_beams,
                               .length_penalty = o->length_penalty,
                               .stop = ends->stop[0],
                               .more_stops = ends->stop + 1,
                               .num_more_stops = ends->num_stops - 1,
                               .rules = (mega_beam_rules)o->beam_rules,
                               .early_stopping = (mega_early_stopping)o->early_stopping,
                               .forbids = rules->sampling.forbids,
                               .forbidden = rules->sampling.forbidden,
                               .forbidden_after = rules->sampling.forbidden_after};
}
