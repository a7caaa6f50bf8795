/* Converts mega_setup to the options of an engine: from argv and a JSON by the option tables, or from numbers. Creates
 * the world and the team unless the caller has given them. */
#include "engine_build.h"
#include "engine_calls.h"
#include "megalith/compare.h"
#include "setup_options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Default for the rows of each sample that PREFILL reads at a time. More rows need more memory for the tensors of the
 * program; with fewer rows, the weights are read more often. */
enum { PREFILL_ROWS = 64 };

static mega_status setup_check(const mega_setup *s)
{
    if (s->mode != MEGA_TRAIN && s->mode != MEGA_EVAL && s->mode != MEGA_GENERATE)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "mega_engine_create: setup.mode %d; expected MEGA_TRAIN, MEGA_EVAL or MEGA_GENERATE",
                         (int)s->mode);
    if (s->argc < 0 || (s->argc > 0 && s->argv == NULL))
        return MEGA_MISTAKE("mega_engine_create: setup.argc is %d and setup.argv %s; give both or neither", s->argc,
                            s->argv == NULL ? "NULL" : "not NULL");
    if (s->lr_scheduler != NULL && s->lr_scheduler->lr == NULL)
        return MEGA_MISTAKE("mega_engine_create: setup.lr_scheduler->lr is NULL; give the function");
    if (s->training_data == NULL) return MEGA_OK;
    if (s->mode == MEGA_GENERATE || (s->options != NULL && s->options->generate))
        return MEGA_MISTAKE("mega_engine_create: setup.training_data is given to an engine that generates, "
                            "which reads none; leave it NULL");
    if (s->training_data->read == NULL)
        return MEGA_MISTAKE("mega_engine_create: setup.training_data->read is NULL; give the function");
    if (s->training_data->first >= 0 && s->training_data->count > 0) return MEGA_OK;
    return MEGA_MISTAKE(
        "mega_engine_create: setup.training_data has %lld samples from %lld on; expected at least 1, from "
        "0 or later",
        (long long)s->training_data->count, (long long)s->training_data->first);
}

/* If the length of the training is not given, no decay curve can be computed: the learning rate is constant after the
 * warm-up. */
static mega_status read_length(mega_engine_settings *s)
{
    mega_optim_options *o = &s->optim;
    const bool is_curve = mega_options_was_set(s->options, "lr_decay_style") && o->lr_decay_style != MEGA_LR_CONSTANT;
    if (o->train_iters > 0 || o->train_samples > 0) return MEGA_OK;
    if (o->lr_decay_iters > 0) o->train_iters = o->lr_decay_iters;
    else if (o->lr_decay_samples > 0)
        o->train_samples = o->lr_decay_samples;
    else if (is_curve || !isnan(o->lr_warmup_fraction))
        return MEGA_MISTAKE("%s: missing: %s or %s, where the curve ends",
                            mega_options_origin(s->options, is_curve ? "lr_decay_style" : "lr_warmup_fraction"),
                            mega_options_spelling(s->options, "lr_decay_iters"),
                            mega_options_spelling(s->options, "train_iters"));
    else { /* the longest training that the options allow, in the unit of the warm-up */
        o->lr_decay_style = MEGA_LR_CONSTANT;
        if (o->lr_warmup_samples > 0) o->train_samples = (int64_t)1 << 50;
        else
            o->train_iters = (int64_t)1 << 32;
    }
    return MEGA_OK;
}

static mega_status set_size(mega_options *o, const char *dest, int size)
{
    return size != 0 ? mega_options_set_int(o, dest, size, MEGA_SET_BY_DERIVATION) : MEGA_OK;
}

static mega_status setup_parse(setup_values *v, const mega_setup *s, const mega_world *world)
{
    char *none[] = {(char[]){"engine"}, NULL};
    mega_engine_settings *e = &v->engine;
    e->rank = mega_world_rank(world);
    e->world_size = mega_world_size(world);
    e->local_world_size = world != NULL ? mega_world_local_size(world) : 1;
    e->local_rank = mega_world_local_rank(world);
    e->needs_lr = s->mode == MEGA_TRAIN && s->lr_scheduler == NULL;
    e->micro_follows = true;
    if (!e->needs_lr) e->optim.lr = 0;
    v->config = s->config;
    v->defaults = s->defaults;
    MEGA_TRY(set_size(e->options, "tensor_model_parallel_size", s->layout.tp));
    MEGA_TRY(set_size(e->options, "pipeline_model_parallel_size", s->layout.pp));
    MEGA_TRY(mega_options_parse(e->options, NULL, s->argc > 0 ? s->argc : 1, s->argc > 0 ? s->argv : none));
    return read_length(e);
}

static mega_status take_settings(mega_engine *e, const mega_setup *s, const mega_engine_settings *of)
{
    MEGA_TRY(mega_engine_options_from_settings(of, &e->options));
    e->options.no_train = s->mode != MEGA_TRAIN;
    e->saving.dtype = mega_save_dtype_of(of->ckpt.save_dtype);
    e->saving.keep = (int)of->ckpt.keep_checkpoints;
    e->saving.max_shard_size = of->ckpt.max_shard_size;
    if (e->owned.world != NULL) mega_world_set_timeout(e->owned.world, 60.0 * of->comm.distributed_timeout_minutes);
    if (s->team == NULL) MEGA_TRY(mega_team_create((int)of->backend.num_threads, &e->owned.team));
    return MEGA_OK;
}

mega_status engine_name_options_as_given(const mega_engine *e, mega_status st)
{
    return e->owned.as_given != NULL ? mega_options_name_as_given(e->owned.as_given->engine.options, st) : st;
}

void engine_forget_setup(mega_engine *e)
{
    if (e->owned.as_given != NULL) mega_options_destroy(e->owned.as_given->engine.options);
    mega_free(e->owned.as_given);
}

static mega_status setup_read_options(mega_engine *e, const mega_setup *s, mega_world *world)
{
    mega_options *o = NULL;
    setup_values *v = e->owned.as_given = mega_calloc(1, sizeof *v);
    if (v == NULL) return MEGA_NO_MEMORY("engine", "its options");
    mega_status st = mega_options_create(&mega_engine_composition, v, &o);
    mega_engine_settings_init(&v->engine, o);
    if (st == MEGA_OK) st = setup_parse(v, s, world);
    if (st == MEGA_OK) st = engine_name_options_as_given(e, take_settings(e, s, &v->engine));
    v->config = NULL; /* the caller owns both */
    v->defaults = NULL;
    if (st != MEGA_OK)
        MEGA_CONTEXT("mega_engine_create: %s", s->config == NULL ? "setup.argv"
                                               : s->argc > 1     ? "setup.argv and setup.config"
                                                                 : "setup.config");
    return st;
}

/* Copies settings that are given as numbers, including their world and team. */
static mega_status setup_copy_options(mega_engine *e, const mega_setup *s)
{
    e->options = *s->options;
    e->saving.dtype = MEGA_F32;
    if (s->mode != MEGA_TRAIN) e->options.no_train = true;
    const mega_layout_sizes *l = &s->layout;
    const bool has_layout = l->tp != 0 || l->pp != 0 || l->cp != 0 || l->ep != 0 || l->planned_ranks != 0;
    if (s->config == NULL && s->argc == 0 && !has_layout && s->world == NULL && s->team == NULL) return MEGA_OK;
    return MEGA_MISTAKE(
        "mega_engine_create: setup.options holds every setting, and setup.%s is given as well; give one",
        s->config != NULL  ? "config"
        : s->argc != 0     ? "argv"
        : has_layout       ? "layout"
        : s->world != NULL ? "world"
                           : "team");
}

/* Sets the options of an engine that generates, which has no other programs. */
static void set_generation(mega_engine_options *o, mega_mode mode)
{
    if (mode == MEGA_GENERATE) o->generate = true;
    if (o->micro_batches == 0) o->micro_batches = 1;
    if (!o->generate) return;
    o->no_train = o->no_evaluate = true;
    if (o->prefill == 0) o->prefill = o->seq < PREFILL_ROWS ? o->seq : PREFILL_ROWS;
}

/* Collective over the world. Compares the options of argv and JSON on all ranks, except those that may differ between
 * hosts (column `alike` of the option tables). Options given as numbers are compared by engine/option_rows.h. */
static mega_status compare_as_given(mega_engine *e, mega_world *world)
{
    mega_list lines = {0};
    mega_comm *all = mega_world_comm(world);
    const mega_status st =
        e->owned.as_given != NULL ? mega_options_alike(e->owned.as_given->engine.options, NULL, &lines) : MEGA_OK;
    MEGA_TRY(mega_comm_agree(all, st));
    return engine_name_options_as_given(e, mega_comm_compare_lines(all, "options", NULL, &lines));
}

/* Collective over the world. The device of --device auto is decided by all ranks. */
static mega_status agree_device(mega_engine *e, mega_world *world)
{
    if (e->owned.as_given == NULL) return MEGA_OK;
    mega_engine_settings *s = &e->owned.as_given->engine;
    MEGA_TRY(mega_engine_agree_device(s, world));
    e->options.backend = s->backend.backend;
    return MEGA_OK;
}

mega_status engine_read_setup(mega_engine *e, const mega_setup *s)
{
    mega_world *world = s->options != NULL ? s->options->world : s->world;
    if (s->options == NULL && world == NULL) {
        MEGA_TRY(mega_world_create(NULL, &e->owned.world));
        world = e->owned.world;
    }
    mega_status st = setup_check(s);
    if (st == MEGA_OK) st = s->options != NULL ? setup_copy_options(e, s) : setup_read_options(e, s, world);
    mega_world_forget_failure(world); /* the failure of an earlier call, which has returned it */
    MEGA_TRY(world != NULL ? mega_comm_agree(mega_world_comm(world), st) : st);
    e->options.world = world;
    if (mega_world_size(world) > 1) MEGA_TRY(compare_as_given(e, world));
    MEGA_TRY(agree_device(e, world));
    if (s->options == NULL) {
        e->options.team = s->team != NULL ? s->team : e->owned.team;
        e->options.seq = s->model != NULL && s->model->positions > 0 ? s->model->positions : 1;
        e->memory.initializes = true;
    }
    set_generation(&e->options, s->mode);
    if (s->optimizer != NULL) e->options.optimizer.row = s->optimizer;
    e->data.has_set = s->training_data != NULL;
    if (e->data.has_set) e->data.set = *s->training_data;
    engine_use_borrowed(e);
    if (e->data.set.hash != NULL) e->data.hash = e->data.set.hash(e->data.set.user);
    if (s->lr_scheduler != NULL) {
        e->step.scheduler = *s->lr_scheduler;
        e->options.step_schedule.kind = MEGA_SCHEDULER_NONE; /* of the JSON; that of the program counts */
    }
    return MEGA_OK;
}

mega_status mega_engine_options_help(mega_buffer *out)
{
    if (out == NULL) return MEGA_MISTAKE("mega_engine_options_help: out is NULL; give it");
    return mega_options_list(&mega_engine_composition, out);
}

bool mega_show_help(int argc, char **argv, const char *usage)
{
    bool is_asked = false;
    for (int i = 1; i < argc; i++) is_asked = is_asked || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (!is_asked) return false;
    mega_buffer text = {0};
    const bool is_there = mega_engine_options_help(&text) == MEGA_OK;
    printf("usage: %s\n\n%s", usage, is_there ? text.data : "");
    mega_buffer_fini(&text);
    return true;
}
