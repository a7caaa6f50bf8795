/* Reads a model folder for generation and evaluation. */
#include "megalith/pretrained.h"
#include "budget.h"
#include "megalith/generate.h"
#include "megalith/hf_config.h"
#include "megalith/memory.h"

static mega_status load_tokenizer(mega_pretrained *m)
{
    return mega_tokenizer_is_in(m->folder) ? mega_tokenizer_load(m->folder, &m->tokenizer) : MEGA_OK;
}

/* Describes the model without its weights. */
static mega_status pretrained_describe(mega_pretrained *m)
{
    const mega_pretrained_options *o = &m->options;
    m->folder = mega_strdup(mega_checkpoint_folder(m->checkpoint));
    if (m->folder == NULL) return MEGA_NO_MEMORY("model", "the name of its folder");
    m->iteration = mega_checkpoint_iteration(m->checkpoint);
    m->shape = *mega_checkpoint_shape(m->checkpoint);
    MEGA_TRY(mega_hf_ends_read(m->folder, &m->shape, m->end, &m->num_ends));
    const mega_language_options cut = {.tp = o->layout.tp,
                                       .stages = o->layout.pp,
                                       .vocab_multiple = o->vocab_multiple,
                                       .first_stage_layers = o->first_stage_layers,
                                       .last_stage_layers = o->last_stage_layers,
                                       .stage_programs = o->stage_programs,
                                       .program_layers = o->program_layers,
                                       .expert_buffer = o->expert_buffer,
                                       .encodes = o->encodes};
    MEGA_TRY(mega_language_model_create(&m->shape, &cut, &m->language));
    return load_tokenizer(m);
}

static mega_status check_found(const mega_checkpoint *c, const char *path)
{
    if (c != NULL) return mega_checkpoint_check_shape(c);
    return MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                     "model %s: there is no checkpoint in it; expected a --save folder of pretrain_gpt, one of its "
                     "iter_… folders, or a Hugging Face folder",
                     path);
}

mega_status mega_pretrained_check(const char *path)
{
    mega_checkpoint *c = NULL;
    MEGA_TRY(mega_checkpoint_open(path, false, &c));
    const mega_status st = check_found(c, path);
    mega_checkpoint_close(c);
    return st;
}

mega_status mega_pretrained_open(const char *path, const mega_pretrained_options *options, mega_pretrained *out)
{
    mega_pretrained m = {.options = *options};
    MEGA_TRY(mega_checkpoint_open_ranks(
        path, false, options->team, options->world != NULL ? mega_world_comm(options->world) : NULL, &m.checkpoint));
    mega_status st = check_found(m.checkpoint, path);
    if (st == MEGA_OK) st = pretrained_describe(&m);
    if (st != MEGA_OK) mega_pretrained_fini(&m);
    else
        *out = m;
    return st;
}

/* mega_engine_create refuses a number of ranks that does not fit the layout. */
static int64_t data_ranks(const mega_pretrained_options *o)
{
    const int64_t tp = o->layout.tp > 1 ? o->layout.tp : 1, pp = o->layout.pp > 1 ? o->layout.pp : 1;
    const int64_t ranks = mega_world_size(o->world) / (tp * pp);
    return ranks > 1 ? ranks : 1;
}

mega_pretrained_sizes mega_pretrained_generation(int64_t samples, int64_t positions, int64_t micro_batches,
                                                 int64_t prompt_tokens)
{
    const int64_t wanted = micro_batches > 1 ? micro_batches : 1, parts = wanted < samples ? wanted : samples;
    return (mega_pretrained_sizes){.mode = MEGA_GENERATE,
                                   .samples = samples,
                                   .positions = positions,
                                   .prefill =
                                       mega_generator_prefill((samples + parts - 1) / parts, positions, prompt_tokens),
                                   .micro_batches = parts};
}

/* An encoder reads each prompt at once, so that the program of prompts has as many rows as a prompt may have tokens. */
static mega_status check_prompt_rows(const mega_pretrained *m, const mega_pretrained_sizes *sizes)
{
    if (!m->language.has_source) return MEGA_OK;
    if (sizes->mode != MEGA_GENERATE)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "model %s: an encoder with a decoder predicts one text from another; the loss of a text alone "
                         "is that of a decoder, give the folder of one",
                         m->folder);
    return sizes->positions >= 2
               ? MEGA_OK
               : MEGA_MISTAKE("generation: %lld positions; expected 2 or more", (long long)sizes->positions);
}

static mega_status create_engine(mega_pretrained *m, const mega_pretrained_sizes *sizes)
{
    const mega_pretrained_options *o = &m->options;
    MEGA_TRY(check_prompt_rows(m, sizes));
    const int64_t parts = sizes->micro_batches > 1 ? sizes->micro_batches : 1;
    const int64_t samples = (sizes->samples + parts - 1) / parts, each = samples * data_ranks(o);
    const mega_engine_options options = {.compute = o->compute,
                                         .backend = o->backend,
                                         .gpu = o->gpu,
                                         .matmul_library = o->matmul_library,
                                         .team = o->team,
                                         .world = o->world,
                                         .layout = o->layout,
                                         .stage_programs = m->language.stage_programs,
                                         .micro_batch = samples,
                                         .micro_batches = parts,
                                         .seq = sizes->positions,
                                         .prefill = m->language.has_source ? sizes->positions : sizes->prefill,
                                         .batch = {.global_batch = each, .micro_step = each},
                                         .bucket_elements = INT64_MAX};
    return mega_engine_create(&(mega_setup){.model = &m->language.model, .mode = sizes->mode, .options = &options},
                              &m->engine);
}

static mega_status check_memory(const mega_pretrained *m, mega_mode mode)
{
    if (mode == MEGA_GENERATE)
        return budget_check(m->options.memory_limit, m->engine, "generation",
                            "a smaller --batch or --inference-batch-times-seqlen-threshold, or --bf16");
    return budget_check(m->options.memory_limit, m->engine, "the evaluation",
                        "a smaller --micro-batch-size or --seq-length, or --bf16");
}

mega_status mega_pretrained_load(mega_pretrained *m, const mega_pretrained_sizes *sizes)
{
    mega_engine_loaded loaded;
    m->masks = sizes->masks;
    if (sizes->masks > 0) MEGA_TRY(mega_language_model_show_masks(&m->language, sizes->masks));
    MEGA_TRY(create_engine(m, sizes));
    /* the stages of a pipeline need different amounts of memory */
    MEGA_TRY(mega_comm_agree(mega_engine_layout(m->engine)->world.comm, check_memory(m, sizes->mode)));
    MEGA_TRY(mega_engine_allocate(m->engine));
    MEGA_TRY(mega_engine_compare_ranks(m->engine));
    MEGA_TRY(mega_engine_load(m->engine, m->checkpoint, &(mega_engine_load_options){.finetune = true}, &loaded));
    mega_checkpoint_close(m->checkpoint);
    m->checkpoint = NULL;
    return MEGA_OK;
}

int64_t mega_pretrained_known(const mega_pretrained *m, const mega_tokenizer *tokenizer)
{
    const int64_t vocab = m->shape.vocab, known = tokenizer != NULL ? mega_tokenizer_size(tokenizer) : vocab;
    return known < vocab ? known : vocab;
}

void mega_pretrained_fini(mega_pretrained *m)
{
    mega_tokenizer_destroy(m->tokenizer);
    mega_engine_destroy(m->engine);
    mega_checkpoint_close(m->checkpoint);
    mega_language_model_fini(&m->language);
    mega_free(m->folder);
    *m = (mega_pretrained){0};
}
