/* What an engine reads of options: those of the rooms below and its own, which are everything that mega_setup.argv and a
 * DeepSpeed JSON can say. The rows of its own are in engine/settings.c. */
#ifndef MEGALITH_ENGINE_SETTINGS_H
#define MEGALITH_ENGINE_SETTINGS_H

#include "megalith/backend_options.h"
#include "megalith/ckpt_options.h"
#include "megalith/comm_options.h"
#include "megalith/config.h"
#include "megalith/graph_options.h"
#include "megalith/optim_options.h"
#include "megalith/option.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_engine_settings {
    mega_comm_options comm;
    mega_backend_options backend;
    mega_graph_options graph;
    mega_optim_options optim;
    mega_ckpt_options ckpt;
    int64_t seed;
    bool calculate_per_token_loss; /* divide by the step's unmasked tokens instead of a mean per micro-batch */

    /* Set between mega_engine_settings_init and reading: where this process stands. One rank where they are not. */
    int64_t rank, world_size, local_world_size, local_rank; /* local: of this host */
    bool needs_lr;                                          /* a rule asks for it */
    bool micro_follows;                                     /* micro_batch_size from the others of the batch */
    int64_t data_parallel_size;                             /* derived */
    mega_options *options;                                  /* who set each of these, and mistakes; not released here */
} mega_engine_settings;

/* The rows of its own, by the titles of --help. */
extern const mega_option_section mega_engine_loss_section, mega_engine_seed_section;
/* The options of a C program (engine/setup_options.c). */
extern const mega_composition mega_engine_composition;

void mega_engine_settings_init(mega_engine_settings *s, mega_options *o); /* one rank */
void mega_engine_settings_derive(mega_engine_settings *s);                /* what follows from other options */

/* Rules. Each adds the mistakes that it finds to s->options. */
void mega_engine_rule_batch_divides(mega_engine_settings *s);
void mega_engine_rule_accumulation(mega_engine_settings *s);
void mega_engine_rule_rampup(mega_engine_settings *s);
void mega_engine_rule_precision(mega_engine_settings *s);
void mega_engine_rule_zero(mega_engine_settings *s);
void mega_engine_rule_units_agree(mega_engine_settings *s);
void mega_engine_rule_learning_rate(mega_engine_settings *s);
void mega_engine_rule_warmup(mega_engine_settings *s);
void mega_engine_rule_wsd(mega_engine_settings *s);
void mega_engine_rule_weight_decay(mega_engine_settings *s);

#ifdef __cplusplus
}
#endif

#endif
