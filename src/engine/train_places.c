/* Places that a run reads from and writes to, looked at before anything large is built. */
#include "megalith/file.h"
#include "megalith/indexed.h"
#include "megalith/log.h"
#include "megalith/metrics.h"
#include "train_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_NAMED = 4 };

static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Without the lock that this run has just made. Returns how many there are. */
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

static bool loads_what_it_saves(const mega_config *cfg)
{
    return cfg->save != NULL && (strcmp(cfg->load, cfg->save) == 0 || is_same_folder(cfg->load, cfg->save));
}

/* The option that random weights would make void, with what it does; NULL: the run may begin with them, as the first of
 * those that go on from each other's --save, also where they take the shape that stands there. */
static const char *needs_checkpoint(const mega_config *cfg, const char **purpose)
{
    *purpose = "begins with its weights";
    if (cfg->finetune) return "--finetune";
    *purpose = "evaluates it";
    if (cfg->skip_train) return "--skip-train";
    *purpose = "takes the network's shape from it";
    if (cfg->use_checkpoint_args && !loads_what_it_saves(cfg)) return "--use-checkpoint-args";
    *purpose = "forbids to start from random weights";
    return cfg->exit_on_missing_checkpoint ? "--exit-on-missing-checkpoint" : NULL;
}

/* FOLDER/iter_0000100, which nobody names before it is there. */
static bool is_iteration(const char *path)
{
    size_t end = strlen(path), at;
    while (end > 0 && path[end - 1] == '/') end--;
    for (at = end; at > 0 && path[at - 1] >= '0' && path[at - 1] <= '9';) at--;
    return at < end && at >= 5 && strncmp(path + at - 5, "iter_", 5) == 0 && (at == 5 || path[at - 6] == '/');
}

static mega_status put_found(mega_buffer *out, const char *folder, bool *anything)
{
    mega_names names = {0};
    *anything = false;
    if (!mega_folder_exists(folder)) {
        mega_buffer_puts(out, "found no such folder");
        return MEGA_OK;
    }
    MEGA_TRY(mega_folder_list(&names, folder));
    *anything = list_names(out, &names) > 0;
    mega_buffer_puts(out, *anything ? " and no checkpoint" : "found an empty folder");
    mega_names_fini(&names);
    return MEGA_OK;
}

static void put_expected(mega_buffer *out, const mega_config *cfg)
{
    const char *purpose, *option = needs_checkpoint(cfg, &purpose);
    if (option != NULL) mega_buffer_printf(out, ", and %s %s", option, purpose);
    mega_buffer_puts(out, "; expected a --save folder of pretrain_gpt (latest_checkpointed_iteration.txt), one of its "
                          "iter_… folders, or a Hugging Face GPT-2 folder (config.json); ");
    if (option != NULL)
        mega_buffer_printf(out, "name one, or leave %s out where random weights are meant",
                           cfg->skip_train ? "--load" : option);
    else if (is_iteration(cfg->load))
        mega_buffer_puts(out, "name one that is there");
    else
        mega_buffer_puts(out, "a missing or an empty folder, or the one of --save, starts from random weights");
}

/* A script with --save X --load X finds its logs and metrics there before the first checkpoint, or nothing. Any other
 * folder that holds something was named because a checkpoint was expected in it. */
mega_status train_check_nothing_loaded(const trainer *t)
{
    const mega_config *cfg = t->cfg;
    const char *purpose;
    mega_buffer b = {0};
    bool anything;
    const bool is_needed = needs_checkpoint(cfg, &purpose) != NULL;
    if (loads_what_it_saves(cfg) && !is_needed) return MEGA_OK;
    mega_status st = put_found(&b, cfg->load, &anything);
    if (st == MEGA_OK && (is_needed || anything || is_iteration(cfg->load))) {
        put_expected(&b, cfg);
        st = mega_buffer_check(&b, "what --load led to");
        if (st == MEGA_OK) st = MEGA_FAIL(MEGA_ERR_NOT_FOUND, "--load %s: %s", cfg->load, b.data);
    }
    mega_buffer_fini(&b);
    return st;
}

/* One prefix, or pairs of a weight and a prefix. */
static mega_status probe(const mega_list *list)
{
    const size_t step = list->count > 1 ? 2 : 1;
    for (size_t i = step - 1; i < list->count; i += step) MEGA_TRY(mega_indexed_probe(list->item[i]));
    return MEGA_OK;
}

mega_status train_check_places(trainer *t)
{
    const mega_config *cfg = t->cfg;
    MEGA_TRY(probe(&cfg->data_path));
    MEGA_TRY(probe(&cfg->train_data_path));
    MEGA_TRY(probe(&cfg->valid_data_path));
    MEGA_TRY(probe(&cfg->test_data_path));
    if (!train_is_first(t)) return MEGA_OK;
    if (cfg->metrics_file != NULL) MEGA_TRY(mega_metrics_check(cfg->metrics_file));
    if (cfg->save == NULL || cfg->skip_train) return MEGA_OK;
    MEGA_TRY(mega_checkpoint_prepare(cfg->save));
    return train_lock_save(t);
}

mega_status train_check_shared(const trainer *t)
{
    const mega_config *cfg = t->cfg;
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    mega_comm *ranks = mega_world_comm(t->world);
    if (cfg->load != NULL) MEGA_TRY(mega_checkpoint_check_shared(t->checkpoint, cfg->load, ranks));
    return cfg->save != NULL && !cfg->skip_train ? mega_checkpoint_prepare_shared(cfg->save, ranks) : MEGA_OK;
}
