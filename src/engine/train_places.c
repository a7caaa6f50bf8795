/* Places that a run reads from and writes to, looked at before anything large is built. */
#include "megalith/file.h"
#include "megalith/indexed.h"
#include "megalith/log.h"
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

static void list_names(mega_buffer *out, const mega_names *names)
{
    for (size_t i = 0; i < names->count && i < MOST_NAMED; i++)
        mega_buffer_printf(out, "%s%s", i > 0 ? ", " : "", names->name[i]);
    if (names->count > MOST_NAMED) mega_buffer_printf(out, " and %zu more", names->count - MOST_NAMED);
}

/* A script with --save X --load X finds its logs and metrics there before the first checkpoint. Any other folder was
 * named because a checkpoint was expected in it. */
mega_status train_check_nothing_loaded(const trainer *t)
{
    const mega_config *cfg = t->cfg;
    mega_names names = {0};
    mega_buffer found = {0};
    if (!mega_folder_exists(cfg->load) || (cfg->save != NULL && is_same_folder(cfg->load, cfg->save))) return MEGA_OK;
    MEGA_TRY(mega_folder_list(&names, cfg->load));
    list_names(&found, &names);
    mega_status st = mega_buffer_check(&found, "a list of files");
    if (st == MEGA_OK && names.count > 0)
        st = MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                       "--load %s: found %s and no checkpoint; expected a --save folder of pretrain_gpt "
                       "(latest_checkpointed_iteration.txt), one of its iter_… folders, or a Hugging Face GPT-2 folder "
                       "(config.json); a missing or an empty folder, or the one of --save, starts from random weights",
                       cfg->load, found.data);
    mega_buffer_fini(&found);
    mega_names_fini(&names);
    return st;
}

/* One prefix, or pairs of a weight and a prefix. */
static mega_status probe(const mega_list *list)
{
    const size_t step = list->count > 1 ? 2 : 1;
    for (size_t i = step - 1; i < list->count; i += step) MEGA_TRY(mega_indexed_probe(list->item[i]));
    return MEGA_OK;
}

mega_status train_check_places(const trainer *t)
{
    const mega_config *cfg = t->cfg;
    MEGA_TRY(probe(&cfg->data_path));
    MEGA_TRY(probe(&cfg->train_data_path));
    MEGA_TRY(probe(&cfg->valid_data_path));
    MEGA_TRY(probe(&cfg->test_data_path));
    return cfg->save != NULL && !cfg->skip_train && train_is_first(t) ? mega_checkpoint_prepare(cfg->save) : MEGA_OK;
}

mega_status train_check_shared(const trainer *t)
{
    const mega_config *cfg = t->cfg;
    if (mega_world_size(t->world) == 1) return MEGA_OK;
    mega_comm *ranks = mega_world_comm(t->world);
    if (cfg->load != NULL) MEGA_TRY(mega_checkpoint_check_shared(t->checkpoint, cfg->load, ranks));
    return cfg->save != NULL && !cfg->skip_train ? mega_checkpoint_prepare_shared(cfg->save, ranks) : MEGA_OK;
}
