/* The questions of `accelerate config`, in its order and with its defaults: the short form is that of the transcript in
 * Accelerate's guide to Megatron-LM, the full form that of its version 1.15. */
#include "config_questions.h"
#include "megalith/memory.h"
#include <string.h>

/* ---- answers ---- */

void config_put(config_answers *a, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0 && a->d->st == MEGA_OK)
        a->d->st = MEGA_NO_MEMORY("config", "an answer");
}

void config_put_text(config_answers *a, json_t *object, const char *key, char *text)
{
    json_t *value = text != NULL ? json_string(text) : NULL;
    if (value == NULL && text != NULL && a->d->st == MEGA_OK)
        a->d->st = MEGA_FAIL(MEGA_ERR_FORMAT, "an answer is no UTF-8, or too long; nothing was written");
    if (value != NULL) config_put(a, object, key, value);
    mega_free(text);
}

bool config_put_yes(config_answers *a, json_t *object, const char *key, const char *question, bool fallback)
{
    const bool is_yes = dialog_yes(a->d, question, fallback);
    config_put(a, object, key, json_boolean(is_yes));
    return is_yes;
}

int64_t config_put_int(config_answers *a, json_t *object, const char *key, const char *question, int64_t fallback)
{
    const int64_t n = dialog_int(a->d, question, &fallback, 1);
    config_put(a, object, key, json_integer(n));
    return n;
}

void config_put_needed(config_answers *a, json_t *object, const char *key, const char *question)
{
    char *text;
    while ((text = dialog_text(a->d, question, NULL)) != NULL && text[0] == '\0') {
        mega_free(text);
        dialog_say("Please enter a text.");
    }
    config_put_text(a, object, key, text);
}

int config_put_choice(config_answers *a, json_t *object, const char *key, const dialog_choice *c)
{
    const int choice = dialog_choose(a->d, c);
    const char *name = c->names;
    for (int i = 0; i < choice; i++) name = strchr(name, '|') + 1;
    config_put(a, object, key, json_stringn(name, strcspn(name, "|")));
    return choice;
}

/* ---- the machine ---- */

#define NO_TPU "TPU=ranks run on CPU cores"

static void ask_place(config_answers *a)
{
    static const char refused[] =
        "AWS (Amazon SageMaker)=ranks are started on this machine, or by a hostfile and Slurm";
    dialog_choose(a->d, &(dialog_choice){.question = a->is_full ? "In which compute environment are you running?"
                                                                : "In which compute environment are you running? ([0] "
                                                                  "This machine, [1] AWS (Amazon SageMaker)): ",
                                         .names = "This machine|AWS (Amazon SageMaker)",
                                         .refused = refused,
                                         .fallback = a->is_full ? 0 : -1});
}

static void ask_machine(config_answers *a)
{
    static const config_machine brief[] = {CONFIG_ONE, CONFIG_CPU, CONFIG_GPU, CONFIG_TPU};
    static const char *const type[] = {"NO",         "MULTI_CPU",    "MULTI_XPU", "MULTI_HPU",
                                       "MULTI_GPU",  "MULTI_NPU",    "MULTI_MLU", "MULTI_SDAA",
                                       "MULTI_MUSA", "MULTI_NEURON", "XLA"};
    const dialog_choice c = {
        .question = a->is_full
                        ? "Which type of machine are you using?"
                        : "Which type of machine are you using? ([0] No distributed training, [1] multi-CPU, [2] "
                          "multi-GPU, [3] TPU): ",
        .names = a->is_full ? "No distributed training|multi-CPU|multi-XPU|multi-HPU|multi-GPU|multi-NPU|multi-MLU|"
                              "multi-SDAA|multi-MUSA|multi-NEURON|TPU"
                            : "No distributed training|multi-CPU|multi-GPU|TPU",
        .refused = NO_TPU,
        .fallback = a->is_full ? 0 : -1};
    const int choice = dialog_choose(a->d, &c);
    a->machine = a->is_full ? (config_machine)choice : brief[choice];
    a->type = type[a->machine];
}

static void ask_rank_of_machine(config_answers *a)
{
    const int64_t zero = 0;
    int64_t rank;
    while ((rank = dialog_int(a->d,
                              a->is_full
                                  ? "What is the rank of this machine? [0]: "
                                  : "What is the rank of this machine (from 0 to the number of machines - 1 )? [0]: ",
                              &zero, 0)) >= a->machines)
        dialog_say("Please enter an integer from 0 to %lld.", (long long)a->machines - 1);
    config_put(a, a->top, "machine_rank", json_integer(rank));
}

static void ask_other_machines(config_answers *a)
{
    ask_rank_of_machine(a);
    config_put_needed(a, a->top, "main_process_ip",
                      "What is the IP address of the machine that will host the main process? ");
    config_put(a, a->top, "main_process_port",
               json_integer(
                   dialog_int(a->d, "What is the port you will use to communicate with the main process? ", NULL, 0)));
    const bool is_near = config_put_yes(
        a, a->top, "same_network",
        "Are all the machines on the same local network? Answer `no` if nodes are on the cloud and/or on "
        "different network hosts [YES/no]: ",
        true);
    if (!is_near)
        config_put_text(a, a->top, "rdzv_backend",
                        dialog_text(a->d, "What rendezvous backend will you use? ('static', 'c10d', ...): ", "static"));
}

static void ask_machines(config_answers *a)
{
    if (a->machine == CONFIG_ONE) return;
    a->machines =
        config_put_int(a, a->top, "num_machines",
                       "How many different machines will you use (use more than 1 for multi-node training)? [1]: ", 1);
    if (a->machines > 1) ask_other_machines(a);
    if (a->is_full)
        config_put_yes(a, a->top, "debug",
                       "Should distributed operations be checked while running for errors? This can avoid timeout "
                       "issues but will be slower. [yes/NO]: ",
                       false);
}

static void ask_mpirun(config_answers *a)
{
    json_t *block = json_object();
    if (dialog_yes(a->d, "Do you want accelerate to launch mpirun? [yes/NO]: ", false)) {
        config_put_text(
            a, block, "mpirun_hostfile",
            dialog_text(a->d, "Please enter the path to the hostfile to use with mpirun [~/hostfile]: ", "~/hostfile"));
        config_put(a, a->top, "mpirun_config", json_incref(block));
    }
    json_decref(block);
}

static void ask_cpu(config_answers *a)
{
    if (a->machine == CONFIG_ONE)
        a->is_on_cpu =
            dialog_yes(a->d,
                       a->is_full ? "Do you want to run your training on CPU only (even if a GPU / Apple Silicon / "
                                    "Ascend NPU device is available)? [yes/NO]:"
                                  : "Do you want to run your training on CPU only (even if a GPU is available)? "
                                    "[yes/NO]:",
                       false);
    else
        a->is_on_cpu = a->machine == CONFIG_CPU;
    config_put(a, a->top, "use_cpu", json_boolean(a->is_on_cpu));
    if (a->is_full && a->machine == CONFIG_CPU) ask_mpirun(a);
}

static void ask_dynamo(config_answers *a)
{
    json_t *block = json_object();
    if (!dialog_yes(a->d, "Do you wish to optimize your script with torch dynamo?[yes/NO]:", false)) {
        json_decref(block);
        return;
    }
    config_put_choice(a, block, "dynamo_backend",
                      &(dialog_choice){.question = "Which dynamo backend would you like to use?",
                                       .names = "EAGER|AOT_EAGER|INDUCTOR|AOT_TS_NVFUSER|NVPRIMS_NVFUSER|CUDAGRAPHS|"
                                                "OFI|FX2TRT|ONNXRT|TENSORRT|AOT_TORCHXLA_TRACE_ONCE|"
                                                "TORHCHXLA_TRACE_ONCE|TVM",
                                       .fallback = 2});
    if (dialog_yes(a->d, "Do you want to customize the defaults sent to torch.compile? [yes/NO]: ", false)) {
        config_put_choice(a, block, "dynamo_mode",
                          &(dialog_choice){.question = "Which mode do you want to use?",
                                           .names = "default|reduce-overhead|max-autotune"});
        config_put_yes(
            a, block, "dynamo_use_fullgraph",
            "Do you want the fullgraph mode or it is ok to break model into several subgraphs? [yes/NO]: ", false);
        config_put_yes(a, block, "dynamo_use_dynamic",
                       "Do you want to enable dynamic shape tracing? [yes/NO]: ", false);
        config_put_yes(a, block, "dynamo_use_regional_compilation",
                       "Do you want to enable regional compilation? [yes/NO]: ", false);
    }
    config_put(a, a->top, "dynamo_config", block);
}

/* ---- processes and precision ---- */

static void ask_processes(config_answers *a)
{
    static const char *const unit[] = {"",       "processes", "XPU(s)",  "HPU(s)",       "GPU(s)",   "NPU(s)",
                                       "MLU(s)", "SDAA(s)",   "MUSA(s)", "NEURON cores", "TPU cores"};
    char question[96];
    const bool is_plugin = strncmp(a->type, "MULTI_", 6) != 0;
    if (strcmp(a->type, "NO") == 0) return;
    snprintf(question, sizeof question, "How many %s should be used for distributed training? [1]:",
             is_plugin                                 ? "GPU(s)"
             : !a->is_full && a->machine == CONFIG_CPU ? "CPU(s)"
                                                       : unit[a->machine]);
    while (config_put_int(a, a->top, "num_processes", question, 1) == 1 && a->is_full && a->d->st == MEGA_OK &&
           a->machines == 1 && strcmp(a->type, "MULTI_GPU") == 0)
        dialog_say(
            "Multi-GPU training takes more than one GPU; for one, begin again with \"No distributed training\".");
}

static void ask_devices(config_answers *a)
{
    const bool is_asked =
        !a->is_on_cpu && (strcmp(a->type, "NO") == 0 ||
                          (a->is_full ? strncmp(a->type, "MULTI_", 6) == 0 : strcmp(a->type, "MULTI_GPU") == 0));
    if (is_asked)
        config_put_text(a, a->top, "gpu_ids",
                        dialog_text(a->d,
                                    "What GPU(s) (by id) should be used for training on this machine as a "
                                    "comma-separated list? [all]:",
                                    "all"));
    if (a->is_full && !a->is_on_cpu && (strcmp(a->type, "NO") == 0 || strcmp(a->type, "MULTI_GPU") == 0))
        config_put_yes(a, a->top, "enable_cpu_affinity",
                       "Would you like to enable numa efficiency? (Currently only supported on NVIDIA hardware). "
                       "[yes/NO]: ",
                       false);
}

static void ask_precision(config_answers *a)
{
    const dialog_choice full = {.question = "Do you wish to use mixed precision?",
                                .names = "no|fp16|bf16|fp8",
                                .refused = "fp8=no processor computes with it"};
    const dialog_choice brief = {.question = "Do you wish to use FP16 or BF16 (mixed precision)? [NO/fp16/bf16]: ",
                                 .names = "no|fp16|bf16",
                                 .is_by_name = true};
    if (!a->has_deepspeed_json) config_put_choice(a, a->top, "mixed_precision", a->is_full ? &full : &brief);
    else if (!a->is_full)
        config_put(a, a->top, "mixed_precision", json_string("no"));
}

/* ---- the whole ---- */

/* Keys that both forms have, with their defaults. */
static json_t *common_keys(void)
{
    return json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:s, s:b}", "compute_environment", "LOCAL_MACHINE",
                     "downcast_bf16", "no", "machine_rank", 0, "main_training_function", "main", "num_machines", 1,
                     "num_processes", 1, "rdzv_backend", "static", "same_network", 1);
}

static void add_keys(config_answers *a)
{
    static const char *const off[] = {"debug", "enable_cpu_affinity", "tpu_use_cluster", "tpu_use_sudo"};
    static const char *const blocks[] = {"deepspeed_config", "fsdp_config", "megatron_lm_config"};
    static const char *const open[] = {"main_process_ip", "main_process_port"};
    for (size_t i = 0; a->is_full && i < sizeof off / sizeof off[0]; i++) config_put(a, a->top, off[i], json_false());
    if (a->is_full) config_put(a, a->top, "tpu_env", json_array());
    for (size_t i = 0; !a->is_full && i < sizeof blocks / sizeof blocks[0]; i++)
        config_put(a, a->top, blocks[i], json_object());
    for (size_t i = 0; !a->is_full && i < sizeof open / sizeof open[0]; i++)
        config_put(a, a->top, open[i], json_null());
}

json_t *config_ask(dialog *d, bool is_full)
{
    config_answers a = {.d = d, .is_full = is_full, .top = common_keys(), .machines = 1};
    if (a.top == NULL) {
        d->st = MEGA_NO_MEMORY("config", "the answers");
        return NULL;
    }
    add_keys(&a);
    ask_place(&a);
    ask_machine(&a);
    ask_machines(&a);
    ask_cpu(&a);
    if (is_full) ask_dynamo(&a);
    const bool has_devices = a.machine != CONFIG_CPU;
    if (has_devices) config_ask_deepspeed(&a);
    if (has_devices && a.machine != CONFIG_ONE && strcmp(a.type, "DEEPSPEED") != 0) config_ask_fsdp(&a);
    if (strcmp(a.type, "MULTI_GPU") == 0) config_ask_megatron(&a);
    ask_processes(&a);
    ask_devices(&a);
    ask_precision(&a);
    config_put(&a, a.top, "distributed_type", json_string(a.type));
    if (d->st == MEGA_OK) return a.top;
    json_decref(a.top);
    return NULL;
}

json_t *config_default(const char *mixed_precision)
{
    return json_pack("{s:s, s:b, s:s, s:b, s:b, s:i, s:s, s:s, s:i, s:i, s:s, s:b, s:b, s:b, s:b}",
                     "compute_environment", "LOCAL_MACHINE", "debug", 0, "distributed_type", "NO", "downcast_bf16", 0,
                     "enable_cpu_affinity", 0, "machine_rank", 0, "main_training_function", "main", "mixed_precision",
                     mixed_precision, "num_machines", 1, "num_processes", 1, "rdzv_backend", "static", "same_network",
                     0, "tpu_use_cluster", 0, "tpu_use_sudo", 0, "use_cpu", 1);
}
