/* megalith merge_mp_partitions: Megatron's tool that makes one file of the parts that its ranks save. A checkpoint of
 * this program has no parts, so it is copied; the options say what it must be. */
#include "cli.h"
#include "commands.h"
#include "loaded.h"
#include "megalith/checkpoint_copy.h"
#include "megalith/file.h"
#include "megalith/memory.h"
#include <string.h>

static const char command[] = "merge_mp_partitions";

typedef enum merge_kind { MERGE_DECODER, MERGE_ENCODER, MERGE_T5 } merge_kind;

/* Every other type is BERT, or a task that is learnt by one. */
static mega_status check_type(const mega_command_options *cfg, const mega_model_shape *shape, const char *folder)
{
    static const char *const found[] = {"a decoder", "an encoder", "an encoder with a decoder"};
    static const char *const expected[] = {"a decoder such as GPT-2", "an encoder such as BERT",
                                           "an encoder with a decoder, a T5"};
    const char *type = cfg->merge.model_type;
    const merge_kind wanted = strcmp(type, "GPT") == 0  ? MERGE_DECODER
                              : strcmp(type, "T5") == 0 ? MERGE_T5
                                                        : MERGE_ENCODER;
    const merge_kind is = shape == NULL                   ? MERGE_DECODER
                          : shape->net.t5 != MEGA_T5_NONE ? MERGE_T5
                          : shape->net.is_encoder         ? MERGE_ENCODER
                                                          : MERGE_DECODER;
    if (shape != NULL && is == wanted) return MEGA_OK;
    return MEGA_MISTAKE("--model-type %s: found %s in %s, expected %s", type,
                        shape == NULL ? "a model that is none of transformers" : found[is], folder, expected[wanted]);
}

static mega_status check_stages(const mega_command_options *cfg, const mega_model_shape *shape)
{
    const int64_t stages = cfg->merge.target_pipeline_model_parallel_size;
    if (shape == NULL) return MEGA_OK;
    const int64_t layers = shape->num_layers + (shape->net.t5 != MEGA_T5_NONE ? shape->net.decoder_layers : 0);
    if (stages <= layers) return MEGA_OK;
    return MEGA_MISTAKE("--target-pipeline-model-parallel-size %lld: the model has %lld layers; give at most "
                        "that",
                        (long long)stages, (long long)layers);
}

/* Compares the options with the folder. */
static mega_status merge_check_model(mega_command_options *cfg, mega_checkpoint *c)
{
    const mega_model_shape *shape = mega_checkpoint_shape(c);
    const char *folder = mega_checkpoint_folder(c);
    mega_loaded l = {0};
    mega_options_add_mistake(cfg->train.engine.options, check_type(cfg, shape, folder));
    mega_options_add_mistake(cfg->train.engine.options, check_stages(cfg, shape));
    if (shape == NULL) return MEGA_OK;
    l.model.shape = *shape;
    l.model.folder = mega_strdup(folder);
    mega_status st = l.model.folder != NULL ? MEGA_OK : MEGA_NO_MEMORY(folder, "a path");
    if (st == MEGA_OK && mega_tokenizer_is_in(folder)) st = mega_tokenizer_load(folder, &l.model.tokenizer);
    if (st == MEGA_OK) st = mega_loaded_check(&l, cfg);
    mega_loaded_close(&l);
    return st;
}

/* Returns whether there is something to write. */
static bool is_copied(const mega_command_options *cfg, const mega_checkpoint *c)
{
    char *above = mega_path_folder(mega_checkpoint_folder(c));
    const bool is_own = cfg->train.save == NULL || mega_folder_same(cfg->train.save, cfg->train.load) ||
                        (above != NULL && mega_folder_same(cfg->train.save, above));
    mega_free(above);
    return !is_own;
}

static void merge_check(mega_command_options *cfg, mega_team *team, mega_checkpoint **c)
{
    mega_options *o = cfg->train.engine.options;
    if (mega_options_is_faulty(o, MEGA_TOPIC_OPTIONS | MEGA_TOPIC_READ) || cfg->train.load == NULL) return;
    mega_status st = mega_checkpoint_open_team(cfg->train.load, false, team, c);
    if (st == MEGA_OK && *c == NULL)
        st = MEGA_FAIL(MEGA_ERR_NOT_FOUND,
                       "--load %s: it holds no checkpoint; expected a --save folder of a training, one of its iter_… "
                       "folders, or a folder of transformers",
                       cfg->train.load);
    if (st == MEGA_OK) st = merge_check_model(cfg, *c);
    mega_options_add_mistake(o, st);
    if (st == MEGA_OK && is_copied(cfg, *c))
        mega_options_add_mistake(o, mega_checkpoint_check_copy(*c, cfg->train.save, cfg->train.save_takeover));
}

static mega_status merge_run(const mega_command_options *cfg, const mega_checkpoint *c)
{
    mega_checkpoint_copied copied;
    const char *folder = mega_checkpoint_folder(c);
    printf("nothing to merge: %s holds whole tensors, which load in every layout\n", folder);
    if (!is_copied(cfg, c)) {
        printf("nothing to copy: %s; use %s as it is\n",
               cfg->train.save == NULL ? "--save is not given" : "it is in --save already", cfg->train.load);
        return MEGA_OK;
    }
    if (cfg->train.dry_run) {
        mega_cli_dry_run("%s would be copied to %s", folder, cfg->train.save);
        return MEGA_OK;
    }
    MEGA_TRY(mega_checkpoint_copy(c, cfg->train.save, cfg->train.save_takeover, &copied));
    if (copied.was_there) printf("%s is a copy of it already\n", copied.folder);
    else
        printf("copied %lld files of %.1f MB to %s\n", (long long)copied.files, (double)copied.bytes * 1e-6,
               copied.folder);
    mega_free(copied.folder);
    return MEGA_OK;
}

int mega_command_merge_mp_partitions(int argc, char **argv)
{
    mega_command_options cfg;
    mega_team *team = NULL;
    mega_checkpoint *c = NULL;
    int exit_status;
    if (!mega_cli_read_on(NULL, &cfg, command, argc, argv, &exit_status)) return exit_status;
    mega_status st = mega_cli_team(&cfg, &team);
    if (st == MEGA_OK) merge_check(&cfg, team, &c);
    if (st == MEGA_OK) st = mega_options_report(cfg.train.engine.options);
    if (st == MEGA_OK) st = merge_run(&cfg, c);
    mega_checkpoint_close(c);
    mega_team_destroy(team);
    mega_command_options_fini(&cfg);
    return st == MEGA_OK ? 0 : mega_cli_fail(command, st);
}
