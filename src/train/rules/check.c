/* Checks everything that can be known about a run before it writes or builds anything, and collects one list of
 * mistakes, the same for the run itself and for --dry-run. A failed check does not stop later checks, except those
 * that need its result. */
#include "train_impl.h"

/* Collective: the world. Adds a failure that all ranks have agreed on to each rank's list; all then continue with the
 * next check. Any other failure comes from communication itself and ends the run, as a signal does. */
static mega_status check_collect(trainer *t, mega_status st, bool *passed)
{
    const mega_status agreed = train_agree(t, st);
    *passed = agreed == MEGA_OK;
    if (*passed) return MEGA_OK;
    const bool is_of_world = mega_world_size(t->world) > 1 && !mega_world_failed(t->world);
    if (is_of_world || agreed == MEGA_ERR_INTERRUPTED) return agreed;
    mega_options_add_mistake(t->cfg->engine.options, agreed);
    mega_world_forget_failure(t->world);
    return MEGA_OK;
}

static mega_status check_checkpoint(trainer *t)
{
    if (t->cfg->load == NULL) return MEGA_OK;
    train_record_phase(t, "checking the checkpoint");
    return train_open_checkpoint(t);
}

/* Checks the tokenizer. If the checkpoint could not be read, a missing tokenizer is not reported: the checkpoint may
 * contain one. */
static mega_status check_loaded_tokenizer(trainer *t, bool loaded)
{
    const bool is_unknown = !loaded && !train_names_tokenizer(t);
    if (is_unknown || mega_options_is_faulty(t->cfg->engine.options, MEGA_TOPIC_TOKENIZER)) return MEGA_OK;
    return train_open_tokenizer(t);
}

/* Collective: the world. Returns in *out whether all ranks know the network's shape; a rank that does not has a
 * mistake that explains it. */
static mega_status know_network(const trainer *t, bool loaded, bool *out)
{
    int32_t known = (loaded || !train_takes_shape(t)) && t->text.vocab > 0 &&
                    !mega_options_is_faulty(t->cfg->engine.options, MEGA_TOPIC_OPTIONS);
    if (t->world != NULL)
        MEGA_TRY(mega_comm_all_reduce(mega_world_comm(t->world), "mistakes", &known, 1, MEGA_I32, MEGA_REDUCE_MIN));
    *out = known != 0;
    return MEGA_OK;
}

/* Collective: the world. Checks the programs of the network and the memory it needs; allocates nothing. */
static mega_status check_network(trainer *t)
{
    bool passed, fits;
    MEGA_TRY(check_collect(t, train_build_network(t), &passed));
    if (!passed) return MEGA_OK;
    MEGA_TRY(check_collect(t, train_check_shape(t), &fits));
    MEGA_TRY(check_collect(t, train_check_state(t), &passed));
    MEGA_TRY(check_collect(t, train_epochs_check_batch(t), &passed));
    train_record_phase(t, "building the model");
    MEGA_TRY(check_collect(t, train_build_engine(t), &passed));
    if (!passed) return MEGA_OK;
    MEGA_TRY(train_find_most_planned(t));
    /* if the shape does not fit as a whole, do not also list each tensor */
    const bool loads = fits && t->checkpoint != NULL && !t->plan.is_shape_alone;
    MEGA_TRY(check_collect(t, loads ? mega_engine_check_tensors(t->engine, t->checkpoint) : MEGA_OK, &passed));
    /* a plan shows a run that does not fit */
    if (!t->plan.is_plan) MEGA_TRY(check_collect(t, train_check_memory(t, false), &passed));
    if (!t->plan.is_plan) MEGA_TRY(check_collect(t, train_check_space(t), &passed));
    return check_collect(t, train_profile_check(t), &passed);
}

static mega_status check_data(trainer *t)
{
    bool passed;
    MEGA_TRY(check_collect(t, train_read_texts(t), &passed));
    mega_status st = check_collect(t, passed ? train_check_data(t) : MEGA_OK, &passed);
    if (st == MEGA_OK && passed) st = check_collect(t, train_compare_data(t), &passed);
    train_close_checked_data(t);
    return st;
}

mega_status train_check(trainer *t)
{
    bool loaded, passed, known, is_ours = true;
    MEGA_TRY(train_compare_ranks(t)); /* ranks with different options would make different checks */
    MEGA_TRY(check_collect(t, train_compare_processors(t), &passed));
    if (!t->plan.is_plan) MEGA_TRY(check_collect(t, train_lock_save(t), &is_ours));
    /* While another run writes to --save, it removes old checkpoints, perhaps one that is being read. */
    const char *load = t->cfg->load, *save = t->cfg->save;
    loaded = is_ours || load == NULL || save == NULL || strcmp(load, save) != 0;
    if (loaded) MEGA_TRY(check_collect(t, check_checkpoint(t), &loaded));
    MEGA_TRY(check_collect(t, check_loaded_tokenizer(t, loaded), &passed));
    if (passed) MEGA_TRY(check_collect(t, train_compare_tokenizers(t), &passed));
    MEGA_TRY(check_data(t));
    MEGA_TRY(train_warn_of_unwritten(t));
    MEGA_TRY(check_collect(t, train_check_output_files(t), &passed));
    MEGA_TRY(know_network(t, loaded, &known));
    if (known) MEGA_TRY(check_network(t));
    if (!t->plan.is_plan && is_ours) MEGA_TRY(check_collect(t, train_check_save_is_unused(t), &passed));
    /* Last, because the number of iterations is known only once the engine is built. */
    if (!t->plan.is_plan && is_ours) MEGA_TRY(check_collect(t, train_check_other_programs(t), &passed));
    return train_agree(t, mega_options_report(t->cfg->engine.options));
}
