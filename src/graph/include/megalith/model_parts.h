/* The parts of a model: ranges of layers, each of which becomes a program, and data from one walk over the whole list
 * of layers.
 *
 * A part is one program of one pipeline stage. Part p runs on stage p % stages, after part p - 1. The walk describes
 * the whole list once, without a plan, so that every rank knows the parameters of all stages, the weights that balance
 * the parts, the values that pass from part to part, and the parameters that stages share. */
#ifndef MEGALITH_MODEL_PARTS_H
#define MEGALITH_MODEL_PARTS_H

#include "megalith/graph.h"
#include "megalith/model.h"
#include "megalith/parameter.h"
#include "megalith/parameter_group.h"

typedef struct mega_model_parts mega_model_parts;

/* The mode and the micro-batch that a walk describes. */
typedef struct mega_model_sizes {
    mega_mode mode;
    int64_t samples, positions;
    int64_t cache;             /* MEGA_GENERATE: positions of the key-value cache */
    int64_t length;            /* MEGA_GENERATE: positions of a prompt and its continuation; 0: those of the cache */
    mega_param_groups *groups; /* borrowed; NULL: none */
} mega_model_sizes;

/* Describes all layers of m, with the tp of `layout`, and cuts the list into `parts`. compute is F32, BF16, F16 or F64.
 * The layout and the rows of m are borrowed until destroy. Returns MEGA_ERR_USAGE for a mistake in the model or a part
 * without layers. */
mega_status mega_model_parts_create(const mega_model *m, const mega_layout *layout, mega_dtype compute,
                                    mega_model_sizes sizes, int parts, mega_model_parts **out);
/* The same model with other positions per sample: the same cut, the same recomputed layers. The rows of the model of
 * `like` are borrowed on; `like` itself is not. */
mega_status mega_model_parts_create_like(const mega_model_parts *like, mega_dtype compute, int64_t positions,
                                         mega_model_parts **out);
void mega_model_parts_destroy(mega_model_parts *p);

size_t mega_model_parts_bytes(const mega_model_parts *p); /* memory that p holds */
int mega_model_parts_count(const mega_model_parts *p);
int mega_model_parts_own(const mega_model_parts *p, int program); /* the part that this rank runs as that program */
int mega_model_parts_layers(const mega_model_parts *p);           /* layers of the whole list, copies included */
int mega_model_parts_first(const mega_model_parts *p, int part);  /* its first layer; for part ==
                                                                     mega_model_parts_count, the number of layers */
int mega_model_parts_values(const mega_model_parts *p);           /* the largest number of values that pass a border
                                                                     between parts */
const mega_params *mega_model_parts_params(const mega_model_parts *p);         /* records of the parameters of all
                                                                                  layers */
double mega_model_parts_flops(const mega_model_parts *p, int layer);           /* FLOPs of the forward */
double mega_model_parts_masked_flops(const mega_model_parts *p, int layer);    /* the FLOPs among them that masks
                                                                                  skip */
const char *mega_model_parts_path(const mega_model_parts *p, int layer);       /* path of the layer, for messages */
uint64_t mega_model_parts_hash(const mega_model_parts *p, int begin, int end); /* hash of layers begin … end - 1 */
void mega_model_parts_print(const mega_model_parts *p, int layer, char *out, size_t size); /* prints the contribution of
                                                                                              a layer to the hash */

/* Declares the parameters that the layers of the part request, in the order of the requests. A parameter that several
 * stages request is tied: the first of these stages owns it. */
mega_status mega_model_parts_declare(const mega_model_parts *p, int part, mega_params *params);
/* Returns whether a layer of this stage requests parameter `param` of mega_model_parts_params. */
bool mega_model_parts_holds(const mega_model_parts *p, int param, int stage);

/* Describes the layers of the part, which mega_model_parts_declare has declared in the graph's list of parameters.
 * Values that enter and leave the part become inputs and outputs under the names below; in MEGA_TRAIN, so do their
 * gradients. The sizes are those of create; the mode may be MEGA_TRAIN if create was given MEGA_EVAL. */
mega_status mega_model_parts_describe(const mega_model_parts *p, int part, mega_mode mode, mega_graph *g);

/* Recomputation of the layers of this rank's stage, in levels that keep ever less. Level 0 recomputes nothing; with n
 * layers that may be recomputed, level k of 1 … n recomputes the k of them that cost the fewest FLOPs per byte that
 * they compute, each for itself; each further level joins one layer more to each region, up to all. Call set_level
 * before describe: it replaces what the model says. Returns MEGA_ERR_USAGE for a level that does not exist. */
int mega_model_parts_levels(const mega_model_parts *p);
mega_status mega_model_parts_set_level(mega_model_parts *p, int level);
/* How many layers of this rank's stage are recomputed, and in how many regions. */
void mega_model_parts_regions(const mega_model_parts *p, int *out_layers, int *out_regions);

/* The same without an engine, for programs that only run forward and for plans. Declares the parameters of all programs
 * of this rank's stage; with the layout of one rank, those of the whole model. `programs` is the number of programs per
 * pipeline stage (1 without a pipeline). */
mega_status mega_model_declare(const mega_model *m, int programs, mega_params *params);
/* Describes program `program` of this rank's stage, in the mode of `what`. Its parameters may already be declared in
 * the graph's list. */
mega_status mega_model_describe(const mega_model *m, int programs, int program, mega_model_sizes what, mega_graph *g);

/* The values that pass a border between parts, and their names in a program, such as "stage_input" for the main value
 * and "stage_input.1" for the first further value. */
enum { MEGA_FLOW_VALUES = 1 + MEGA_FLOW_MORE };
typedef enum mega_border {
    MEGA_BORDER_INPUT,
    MEGA_BORDER_INPUT_GRADIENT,
    MEGA_BORDER_OUTPUT,
    MEGA_BORDER_OUTPUT_GRADIENT
} mega_border;
const char *mega_border_name(mega_border kind, int value);
#endif
