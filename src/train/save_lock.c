/* Ensures that only one run at a time uses --save: its lock, and the run's id. */
#include "megalith/file.h"
#include "megalith/memory.h"
#include "rules/train_rules.h"
#include "train_impl.h"

static bool saves(const trainer *t)
{
    return train_is_first(t) && t->cfg->save != NULL && !t->cfg->skip_train;
}

static bool has_mistakes(const mega_train_options *cfg)
{
    static const unsigned all[] = {MEGA_TOPIC_OPTIONS, MEGA_TOPIC_DATA, MEGA_TOPIC_TOKENIZER, MEGA_TOPIC_READ,
                                   MEGA_TOPIC_WRITTEN};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (mega_options_is_faulty(cfg->engine.options, all[i])) return true;
    return false;
}

/* If the folder exists, called before --load is read, so as not to miss what an ending run still writes there. */
mega_status train_lock_save(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (!saves(t) || t->saves.lock != NULL || !mega_folder_exists(cfg->save)) return MEGA_OK;
    /* with a mistake in the command line, this run must not take over --save from another run */
    if (cfg->dry_run || has_mistakes(cfg)) return mega_checkpoint_lock_probe(cfg->save, cfg->save_takeover);
    MEGA_TRY(mega_checkpoint_prepare(cfg->save)); /* reports missing permissions more clearly than the lock does */
    return mega_checkpoint_lock(cfg->save, cfg->save_takeover, &t->saves.lock);
}

mega_status train_lock_new_save(trainer *t)
{
    const char *save = t->cfg->save;
    if (t->saves.lock != NULL) return MEGA_OK;
    MEGA_TRY(train_lock_save(t));
    if (t->saves.lock == NULL || mega_checkpoint_latest(save) < 0) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_BUSY,
                     "--save %s: another run made this folder and saved checkpoints there while this one was starting; "
                     "choose another --save, or start again with --load %s to resume from them",
                     save, save);
}

/* A restart that takes weights of its own folder begins anew all the same; one that goes on from there does not. */
static mega_status check_restart(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const train_course *c = t->task->course;
    if (cfg->save == NULL || cfg->skip_train)
        return MEGA_MISTAKE("%s begins anew in the folder of %s, and %s; leave it out", c->restart_option,
                            c->save_option,
                            cfg->save == NULL ? "none is given" : "nothing is saved where nothing is trained");
    if (!train_continues_save(cfg)) return MEGA_OK;
    return MEGA_MISTAKE("%s begins anew in %s %s, and %s %s goes on from a checkpoint there; give one of the two",
                        c->restart_option, c->save_option, cfg->save, c->load_option, cfg->load);
}

/* What is saved within a checkpoint would be loaded in its place. */
static mega_status check_is_no_checkpoint(const trainer *t)
{
    char *mark = mega_path_join(t->cfg->save, "state/checksums.json");
    const bool is_one = mark != NULL && mega_file_exists(mark);
    mega_free(mark);
    if (!is_one) return MEGA_OK;
    return MEGA_MISTAKE("%s %s: it is a checkpoint itself; give the folder that holds it, or another one",
                        t->task->course->save_option, t->cfg->save);
}

/* run_clm may have kept its model alone, which no run goes on from. */
static bool can_go_on(const trainer *t)
{
    const char *save = t->cfg->save;
    if (t->task->course->is_as_megatron || !train_is_ended_clm(save)) return true;
    char *state = train_find_state(save, -1);
    mega_free(state);
    return state != NULL;
}

static mega_status refuse_used(const trainer *t, const char *found)
{
    const mega_train_options *cfg = t->cfg;
    const train_course *c = t->task->course;
    mega_buffer all = {0};
    if (mega_checkpoint_count_used(cfg->save, &all) != MEGA_OK) mega_error_clear();
    const char *removed = all.data != NULL ? all.data : "them";
    const mega_status st =
        !can_go_on(t)
            ? MEGA_MISTAKE(
                  "%s %s: it holds the model of a run that has ended (%s), without the state of its training: "
                  "two runs would be mixed, and checkpoints replaced; give another folder, to which %s %s trains "
                  "these weights further, or %s to begin anew, which removes %s after this run's first save",
                  c->save_option, cfg->save, found, c->weights_option, cfg->save, c->restart_option, removed)
            : MEGA_MISTAKE(
                  "%s %s: it holds checkpoints (%s), and this run does not go on from them: two runs would be "
                  "mixed, and checkpoints replaced; give %s %s%s to go on, another folder, or %s to begin anew, "
                  "which removes %s after this run's first save",
                  c->save_option, cfg->save, found, c->load_option, cfg->save,
                  cfg->finetune && c->is_as_megatron ? " without --finetune" : "", c->restart_option, removed);
    mega_buffer_fini(&all);
    return st;
}

mega_status train_check_save_is_unused(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    char *found = NULL;
    if (!train_is_first(t)) return MEGA_OK;
    if (saves(t)) MEGA_TRY(check_is_no_checkpoint(t));
    if (cfg->restart) return check_restart(t);
    if (!saves(t) || train_continues_save(cfg)) return MEGA_OK;
    MEGA_TRY(mega_checkpoint_used(cfg->save, &found));
    if (found == NULL) return MEGA_OK;
    const mega_status st = refuse_used(t, mega_path_base(found));
    mega_free(found);
    return st;
}

mega_status train_check_other_programs(const trainer *t)
{
    const bool resumes = t->checkpoint != NULL && !t->cfg->finetune;
    if (!saves(t) || !mega_folder_exists(t->cfg->save)) return MEGA_OK;
    return mega_checkpoint_check_foreign(t->cfg->save, resumes ? mega_checkpoint_iteration(t->checkpoint) : 0,
                                         t->train_iters);
}

mega_status train_identify(trainer *t)
{
    if (!train_is_first(t)) return MEGA_OK;
    if (saves(t)) MEGA_TRY(mega_checkpoint_check_foreign(t->cfg->save, t->first_iteration, t->train_iters));
    if (t->run_id[0] == '\0') mega_token_make(t->run_id);
    t->saves.has_begun = true;
    if (!saves(t)) return MEGA_OK;
    MEGA_TRY(mega_checkpoint_write_run_id(t->cfg->save, t->run_id));
    mega_lock_mark(t->saves.lock);
    return MEGA_OK;
}
