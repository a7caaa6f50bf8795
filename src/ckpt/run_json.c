/* Reads what a checkpoint stores about its run, and the settings of the network that its config.json may not hold. */
#include "megalith/run_json.h"
#include "ckpt_impl.h"
#include "megalith/family.h"
#include "megalith/json.h"
#include "megalith/option.h"
#include <string.h>

mega_status mega_run_json(json_t **out, const mega_checkpoint *c)
{
    json_error_t error;
    const char *text = c != NULL ? mega_checkpoint_run_json(c) : NULL;
    *out = text != NULL ? mega_json_load(text, strlen(text), 0, &error) : NULL;
    if (text == NULL || *out != NULL) return MEGA_OK;
    return MEGA_FAIL(mega_json_status(&error),
                     "checkpoint %s: state/run.json line %d column %d: %s; it was written by another program or "
                     "edited; --finetune loads only the weights",
                     mega_checkpoint_folder(c), error.line, error.column, error.text);
}

/* ---- the network ---- */

/* The settings that a network of every family has, and for which some families have no key, under the names of their
 * options. */
static const struct {
    const char *key;
    size_t at;
} numbers[] = {{"layernorm_epsilon", offsetof(mega_model_shape, norm_epsilon)},
               {"attention_dropout", offsetof(mega_model_shape, attention_dropout)},
               {"hidden_dropout", offsetof(mega_model_shape, hidden_dropout)},
               {"init_method_std", offsetof(mega_model_shape, init_std)}};
static const char gate_second[] = "gate_second", own_section[] = "network";

mega_status mega_run_json_put_network(json_t *root, const mega_model_shape *shape)
{
    json_t *network = json_pack("{s:b}", gate_second, (int)shape->net.gate_second);
    bool whole = network != NULL;
    for (size_t i = 0; i < MEGA_COUNT(numbers) && whole; i++) {
        const double *value = (const void *)((const char *)shape + numbers[i].at);
        whole = json_object_set_new(network, numbers[i].key, json_real(*value)) == 0;
    }
    whole = json_object_set_new(root, own_section, network) == 0 && whole;
    return whole ? MEGA_OK : MEGA_NO_MEMORY("checkpoint", "run.json");
}

/* Earlier versions stored the options alone. Of these the kind of the gate follows where files have gate and up in
 * tensors of their own; elsewhere the folder says it. */
static bool gate_of_options(const json_t *options, const mega_network_shape *net)
{
    const bool by_option =
        json_is_string(json_object_get(options, "glu_activation")) && !json_is_true(json_object_get(options, "swiglu"));
    return net->gate_second || (by_option && net->gated && mega_family_of(net)->names->gate_file != NULL);
}

void mega_run_json_take_network(const char *text, mega_model_shape *shape)
{
    json_error_t error;
    json_t *root = mega_json_load(text, strlen(text), 0, &error);
    const json_t *network = json_object_get(root, own_section), *options = json_object_get(root, "arguments");
    const json_t *from = network != NULL ? network : options;
    for (size_t i = 0; i < MEGA_COUNT(numbers); i++) {
        const json_t *value = json_object_get(from, numbers[i].key);
        double *to = (void *)((char *)shape + numbers[i].at);
        if (json_is_number(value)) *to = json_number_value(value);
    }
    shape->net.gate_second =
        network != NULL ? json_is_true(json_object_get(network, gate_second)) : gate_of_options(options, &shape->net);
    json_decref(root);
}
