/* Checks the files and folders that a run reads and writes, before anything large is allocated. */
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/metrics.h"
#include "train_impl.h"
#include "train_rules.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 4 };

/* Lists the first names in a folder, except the lock that this run has just created. Returns how many
 * names there are. */
static size_t list_names(mega_buffer *out, const mega_names *names)
{
    size_t count = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], MEGA_RUN_LOCK) == 0) continue;
        if (count < MOST_NAMED) mega_buffer_printf(out, "%s%s", count > 0 ? ", " : "found ", names->name[i]);
        count++;
    }
    if (count > MOST_NAMED) mega_buffer_printf(out, " and %zu more", count - MOST_NAMED);
    return count;
}

/* If an option makes no sense with random weights, returns it and what it does (*purpose). Returns NULL if the run may
 * start with random weights: for example the first of several runs that each resume from their own --save, even with
 * --use-checkpoint-args. */
static const char *needs_checkpoint(const mega_train_options *cfg, const char **purpose)
{
    *purpose = "begins with its weights";
    if (cfg->begins_mixture) return "--moe-init-from";
    if (cfg->finetune) return "--finetune";
    *purpose = "evaluates it";
    if (cfg->skip_train) return "--skip-train";
    *purpose = "takes the network's shape from it";
    if (cfg->use_checkpoint_args && !train_loads_what_it_saves(cfg)) return "--use-checkpoint-args";
    *purpose = "forbids to start from random weights";
    return cfg->exit_on_missing_checkpoint ? "--exit-on-missing-checkpoint" : NULL;
}

static mega_status put_found(mega_buffer *out, const char *folder)
{
    mega_names names = {0};
    if (!mega_folder_exists(folder)) {
        mega_buffer_puts(out, "there is no such folder");
        mega_options_put_near(out, folder);
        return MEGA_OK;
    }
    MEGA_TRY(mega_folder_list(folder, &names));
    mega_buffer_puts(out, list_names(out, &names) > 0 ? " and no checkpoint" : "found an empty folder");
    mega_names_fini(&names);
    return MEGA_OK;
}

static void put_expected(mega_buffer *out, const mega_train_options *cfg)
{
    const char *purpose, *option = needs_checkpoint(cfg, &purpose);
    if (option != NULL) mega_buffer_printf(out, ", and %s %s", option, purpose);
    mega_buffer_puts(out, "; expected a --save folder of pretrain_gpt (latest_checkpointed_iteration.txt), one of its "
                          "iter_… folders, or a Hugging Face folder (config.json); ");
    if (option != NULL)
        mega_buffer_printf(out, "name one, or leave %s out where random weights are meant",
                           cfg->skip_train ? "--load" : option);
    else
        mega_buffer_puts(out, "name one that is there; a first run starts from random weights without --load, or "
                              "where --load is the folder of --save");
}

/* If --save and --load name the same folder, it may contain no checkpoint yet: only logs and metrics of the script, or
 * nothing. If they differ, a checkpoint is expected in --load: starting with random weights because of a typo would
 * train a different model, and could overwrite the good one. */
mega_status train_check_nothing_loaded(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    const char *purpose;
    mega_buffer b = {0};
    if (train_loads_what_it_saves(cfg) && needs_checkpoint(cfg, &purpose) == NULL) return MEGA_OK;
    mega_status st = put_found(&b, cfg->load);
    if (st == MEGA_OK && cfg->clm.model_name_or_path != NULL && cfg->finetune) {
        const char *name = cfg->clm.model_name_or_path;
        st = MEGA_FAIL(
            MEGA_ERR_NOT_FOUND,
            "--model_name_or_path %s: nothing is downloaded, and %s; expected the folder of a trained GPT-2 "
            "(config.json, model.safetensors, tokenizer.json), as \"hf download %s --local-dir FOLDER\" makes "
            "it of a name of the hub; --config_name %s begins with new weights",
            name, b.data, name, name);
        mega_buffer_fini(&b);
        return st;
    }
    if (st == MEGA_OK) {
        put_expected(&b, cfg);
        st = mega_buffer_check(&b, "what --load led to");
        if (st == MEGA_OK) st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "%s %s: %s", train_load_option(cfg), cfg->load, b.data);
    }
    mega_buffer_fini(&b);
    return st;
}

mega_status train_check_output_files(const trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (!train_is_first(t) || cfg->metrics_file == NULL) return MEGA_OK;
    return mega_metrics_check(cfg->metrics_file);
}

/* Collective: the world. --metrics-file is not compared between ranks, because its path may differ between hosts; but
 * only the first rank writes it, so warn if only other ranks have one. */
mega_status train_warn_of_unwritten(const trainer *t)
{
    const struct {
        const char *option, *path;
    } file[] = {{"--metrics-file", t->cfg->metrics_file}, {"--tensorboard-dir", t->cfg->tensorboard_dir}};
    enum { FILES = sizeof file / sizeof *file };
    const int ranks = mega_world_size(t->world);
    int32_t named[FILES];
    if (ranks == 1) return MEGA_OK;
    for (int i = 0; i < FILES; i++) named[i] = file[i].path != NULL ? ranks - mega_world_rank(t->world) : 0;
    MEGA_TRY(mega_comm_all_reduce(mega_world_comm(t->world), "files that the first rank writes", named, FILES, MEGA_I32,
                                  MEGA_REDUCE_MAX));
    for (int i = 0; i < FILES; i++)
        if (named[i] > 0 && file[i].path == NULL && train_is_first(t))
            mega_warn("%s is given to rank %d and not to rank 0, which alone writes it: nothing is written; give it to "
                      "all ranks, or to rank 0",
                      file[i].option, ranks - named[i]);
    return MEGA_OK;
}

mega_status train_make_output_folders(trainer *t)
{
    const mega_train_options *cfg = t->cfg;
    if (cfg->save == NULL || cfg->skip_train) return MEGA_OK;
    MEGA_TRY(train_agree(t, train_is_first(t) ? mega_checkpoint_prepare(cfg->save) : MEGA_OK));
    MEGA_TRY(train_agree(t, train_lock_new_save(t)));
    return mega_world_size(t->world) > 1 ? mega_checkpoint_prepare_shared(cfg->save, mega_world_comm(t->world))
                                         : MEGA_OK;
}
