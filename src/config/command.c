/* The commands that own options: their names, what old scripts call them, and what arguments without dashes they take.
 */
#include "config_impl.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const command_row commands[] = {
    {"pretrain_gpt", FOR_PRETRAIN, "pretrain_gpt2|pretrain_gpt_core", "trains a GPT", NULL},
    {"plan", FOR_PLAN, "", "parameters, memory and cost of a run, without running it", "[COMMAND]"},
    {"generate_samples_gpt", FOR_GENERATE, "generate_samples_gpt2|generate_samples|generate_text",
     "text from a trained GPT", NULL},
    {"tasks", FOR_TASKS, "tasks/main|tasks_main|run_tasks", "evaluates a trained GPT on a text file", NULL},
    {"preprocess_data", FOR_PREPROCESS, "preprocess", "text files to an indexed data set", NULL},
    {"train_tokenizer", FOR_TRAIN_TOKENIZER, "", "makes a vocabulary from text files", NULL},
    {"tokenize", FOR_TOKENIZE, "", "shows the ids and pieces of a text, both ways", "[TEXT]"},
    {"data", FOR_DATA, "", "shows, checks and merges indexed data sets", "show|info|verify|merge PREFIX…"},
    {"plot", FOR_PLOT, "", "draws or compares metrics files", "FILE…"},
    {"doctor", 0, "", "what this machine has and what will be used", NULL},
    /* without options of their own */
    {"help", 0, "", "the commands; help COMMAND shows one", NULL},
    {"version", 0, "", "the version", NULL},
    {"merge_datasets", 0, "", "joins indexed data sets: data merge", NULL},
    {"merge_mp_partitions", 0, "", "joins the parts of a checkpoint", NULL},
    {"checkpoint", 0, "checkpoint_util|checkpoint_reshaping_and_interoperability|checkpoint/util|convert",
     "reshapes and converts checkpoints", NULL},
    {"launch", 0,
     "run|torchrun|deepspeed|accelerate|accelerate_launch|torch.distributed.launch|torch.distributed.run|"
     "accelerate.commands.launch|deepspeed.launcher.runner",
     "starts several ranks; also as torchrun, deepspeed, accelerate launch", NULL},
    {"config", 0, "", "writes a configuration by questions", NULL},
    {"pretrain_bert", 0, "", "trains a BERT", NULL},
    {"pretrain_t5", 0, "", "trains a T5", NULL},
    {"run_text_generation_server", 0, "run_text_generation_server_345M|text_generation_server",
     "answers prompts over HTTP", NULL},
};

/* "tools/Preprocess-Data.py" → "preprocess_data"; with_folder keeps "tasks/". */
static void reduce(const char *typed, bool with_folder, char out[80])
{
    const char *from = typed;
    const char *slash = strrchr(typed, '/');
    if (slash != NULL) from = slash + 1;
    if (with_folder && slash != NULL) {
        const char *folder = slash;
        while (folder > typed && folder[-1] != '/') folder--;
        from = folder;
    }
    size_t n = strlen(from);
    if (n > 3 && strcmp(from + n - 3, ".py") == 0) n -= 3;
    if (n > 79) n = 79;
    for (size_t i = 0; i < n; i++) out[i] = from[i] == '-' ? '_' : (char)tolower((unsigned char)from[i]);
    out[n] = '\0';
}

const command_row *mega_command_find(const char *typed)
{
    char plain[80], with_folder[80];
    reduce(typed, false, plain);
    reduce(typed, true, with_folder);
    for (size_t i = 0; i < ROW_COUNT(commands); i++) {
        if (strcmp(commands[i].name, plain) == 0) return &commands[i];
        if (mega_option_word_in(commands[i].aliases, plain, NULL)) return &commands[i];
        if (mega_option_word_in(commands[i].aliases, with_folder, NULL)) return &commands[i];
    }
    return NULL;
}

const char *mega_config_command(const char *typed)
{
    const command_row *row = mega_command_find(typed);
    return row != NULL ? row->name : NULL;
}

const char *mega_config_command_of_script(const char *typed)
{
    char plain[80];
    reduce(typed, false, plain);
    if (mega_option_word_in("run_clm|run_clm_no_trainer|train|train_gpt|train_gpt2", plain, NULL))
        return "pretrain_gpt";
    if (mega_option_word_in("sample|run_generation|generate", plain, NULL)) return "generate_samples_gpt";
    return mega_option_word_in("prepare|prepare_data", plain, NULL) ? "preprocess_data" : NULL;
}

const char *mega_config_command_at(size_t i, const char **out_summary)
{
    if (i >= ROW_COUNT(commands)) return NULL;
    *out_summary = commands[i].summary;
    return commands[i].name;
}

void mega_command_names(uint32_t set, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ROW_COUNT(commands) && used < size; i++) {
        if ((commands[i].bit & set) == 0) continue;
        const int n = snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", commands[i].name);
        if (n < 0) return;
        used += (size_t)n;
    }
}

/* The names of launch/options.c, which is out of reach here, without those that the option table has as well;
 * cli_test_launch compares them. */
bool mega_command_is_of_launch(const char *name, size_t length)
{
    // clang-format off
    static const char *const names[] = {
        "nproc-per-node", "num-gpus", "num-accelerators", "nnodes", "num-nodes", "num-machines", "num-processes",
        "node-rank", "machine-rank", "hostfile", "mpirun-hostfile", "deepspeed-hostfile", "include",
        "deepspeed-inclusion-filter", "exclude", "deepspeed-exclusion-filter", "log-dir", "enable-each-rank-log",
        "max-restarts", "launcher", "help", "master-addr", "main-process-ip", "num-cpu-threads-per-process",
        "megatron-lm-*", "master-port", "main-process-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id",
        "rdzv-conf", "standalone", "local-addr", "same-network", "monitor-interval", "start-method", "role",
        "use-env", "no-local-rank", "no-python", "module", "no-ssh-check", "force-multi", "quiet", "redirects",
        "tee", "local-ranks-filter", "run-path", "duplicate-stdout-filters", "duplicate-stderr-filters",
        "config-file", "deepspeed-config-file", "deepspeed-multinode-launcher", "deepspeed-moe-layer-cls-names",
        "fsdp-*", "tpu", "tpu-*", "logs-specs", "no-ssh", "ssh-port", "launcher-args", "elastic-training",
        "min-elastic-nodes", "max-elastic-nodes", "bind-cores-to-rank", "enable-cpu-affinity", "numa-binding",
        "cpu", "multi-gpu", "gpu-ids", "use-deepspeed", "use-parallelism-config", "zero3-init-flag",
        "zero3-save-16bit-model", "dynamo-*", "event-log-handler", "signals-to-handle", "shutdown-timeout",
        "virtual-local-rank", "bind-core-list", "venv-script", "save-pid",
    };
    // clang-format on
    for (size_t i = 0; i < ROW_COUNT(names); i++) {
        if (mega_option_name_equal(names[i], name, length)) return true;
        if (mega_option_is_of_family(names[i], name, length)) return true;
    }
    return false;
}
