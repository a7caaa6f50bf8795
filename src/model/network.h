/* The kind of network that options describe, for the files that read them. */
#ifndef MEGALITH_NETWORK_H
#define MEGALITH_NETWORK_H

#include "megalith/family.h"
#include "megalith/transformer.h"

/* network_experts.c: sets net->experts. Its count stays 0 where --num-experts is not above 1; the other members are set
 * in any case, to be compared with a folder. */
mega_status network_set_experts(const mega_model_options *o, mega_network_shape *net);

#endif
