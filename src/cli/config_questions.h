/* The questionnaire of megalith config: shared by its files. */
#ifndef MEGA_CONFIG_QUESTIONS_H
#define MEGA_CONFIG_QUESTIONS_H

#include "dialog.h"

/* The kinds of machines, in the order of the long questionnaire. */
typedef enum config_machine {
    CONFIG_ONE,
    CONFIG_CPU,
    CONFIG_XPU,
    CONFIG_HPU,
    CONFIG_GPU,
    CONFIG_NPU,
    CONFIG_MLU,
    CONFIG_SDAA,
    CONFIG_MUSA,
    CONFIG_NEURON,
    CONFIG_TPU
} config_machine;

typedef struct config_answers {
    dialog *d;
    bool is_full; /* the questions of today's accelerate; otherwise those of the transcript in its documentation */
    json_t *top;  /* the configuration so far */
    config_machine machine;
    const char *type; /* distributed_type; follows from the machine until a plugin is chosen */
    int64_t machines;
    bool is_on_cpu, has_deepspeed_json;
} config_answers;

/* Asks everything. Returns the whole configuration, a new reference; NULL: d->st says why. */
json_t *config_ask(dialog *d, bool is_full);
/* The configuration of --default: one process on this machine. */
json_t *config_default(const char *mixed_precision);

/* config_plugins.c: DeepSpeed, FSDP, Megatron-LM; each asks whether it is wanted, and sets a->type. */
void config_ask_deepspeed(config_answers *a);
void config_ask_fsdp(config_answers *a);
void config_ask_megatron(config_answers *a);

/* Put a value in an object; a failed allocation ends the dialog. `text` is freed. */
void config_put(config_answers *a, json_t *object, const char *key, json_t *value);
void config_put_text(config_answers *a, json_t *object, const char *key, char *text);
/* Asks yes or no, and puts the answer. */
bool config_put_yes(config_answers *a, json_t *object, const char *key, const char *question, bool fallback);
int64_t config_put_int(config_answers *a, json_t *object, const char *key, const char *question, int64_t fallback);
/* Asks for a text until one is given. */
void config_put_needed(config_answers *a, json_t *object, const char *key, const char *question);
/* Asks for one of the names and puts it; returns its index. */
int config_put_choice(config_answers *a, json_t *object, const char *key, const dialog_choice *c);

#endif
