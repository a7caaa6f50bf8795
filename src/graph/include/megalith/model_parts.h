/* The parts of a model: what one walk over the whole list of layers finds, and the ranges of layers that are programs.
 *
 * A part is one program of one pipeline stage. Part p runs on stage p % stages, after part p - 1. The walk describes
 * the whole list once, without a plan, so that every rank knows the parameters of all stages, the weights that balance
 * the parts, the values that pass from part to part, and the parameters that stages share. */
#ifndef MEGALITH_MODEL_PARTS_H
#define MEGALITH_MODEL_PARTS_H

#include "megalith/graph.h"
#include "megalith/model.h"
#include "megalith/parameter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mega_model_parts mega_model_parts;

/* What is described, and for which micro-batch. */
typedef struct mega_model_sizes {
    mega_mode mode;
    int64_t samples, positions;
    int64_t cache; /* MEGA_GENERATE: positions of the key-value cache */
} mega_model_sizes;

/* Describes all layers of m, with the tp of `layout`, and cuts the list into `parts`. compute is F32, BF16 or F64. The
 * layout and the rows of m are borrowed until destroy. MEGA_ERR_USAGE for a mistake in the model, or for a part without
 * layers. */
mega_status mega_model_parts_create(const mega_model *m, const mega_layout *layout, mega_dtype compute,
                                    mega_model_sizes sizes, int parts, mega_model_parts **out);
void mega_model_parts_destroy(mega_model_parts *p);

size_t mega_model_parts_bytes(const mega_model_parts *p); /* that it holds */
int mega_model_parts_count(const mega_model_parts *p);
int mega_model_parts_own(const mega_model_parts *p, int program); /* the part that this rank runs as that program */
int mega_model_parts_layers(const mega_model_parts *p);           /* of the whole list, copies counted */
int mega_model_parts_first(const mega_model_parts *p, int part);  /* its first layer; of `count`: how many there are */
int mega_model_parts_values(const mega_model_parts *p);           /* the most that pass a border between parts */
const mega_params *mega_model_parts_params(const mega_model_parts *p);         /* the records of all layers */
double mega_model_parts_flops(const mega_model_parts *p, int layer);           /* of its forward */
double mega_model_parts_masked_flops(const mega_model_parts *p, int layer);    /* that its masks leave out of those */
const char *mega_model_parts_path(const mega_model_parts *p, int layer);       /* of its row, for messages */
uint64_t mega_model_parts_hash(const mega_model_parts *p, int begin, int end); /* of layers begin … end - 1 */
void mega_model_parts_print(const mega_model_parts *p, int layer, char *out, size_t size); /* what the hash is of */

/* Declares what the layers of the part request, in their order. A parameter that several stages request is tied: the
 * first of them owns it. */
mega_status mega_model_parts_declare(const mega_model_parts *p, int part, mega_params *params);
/* Whether parameter `param` of all is requested by a layer of this stage. */
bool mega_model_parts_holds(const mega_model_parts *p, int param, int stage);

/* Describes the layers of the part, which mega_model_parts_declare has declared in the graph's list of parameters. What
 * enters and leaves are inputs and outputs by the names below; in MEGA_TRAIN, so are their gradients. The sizes are
 * those of create; the mode may be MEGA_TRAIN where that was MEGA_EVAL. */
mega_status mega_model_parts_describe(const mega_model_parts *p, int part, mega_mode mode, mega_graph *g);

/* The same without an engine, for programs that only run forward, and for plans: `programs` of each pipeline stage (1
 * where there is no pipeline). Declares the parameters of this rank's stage, of all its programs: with the layout of
 * one rank, of the whole model. */
mega_status mega_model_declare(const mega_model *m, int programs, mega_params *params);
/* Describes program `program` of this rank's stage, in the mode of `what`; the graph's list of parameters may hold them
 * already. */
mega_status mega_model_describe(const mega_model *m, int programs, int program, mega_model_sizes what, mega_graph *g);

/* The values that pass a border between parts, and their names in a program: "stage_input" of the main value,
 * "stage_input.1" of the first further one. */
enum { MEGA_FLOW_VALUES = 1 + MEGA_FLOW_MORE };
typedef enum mega_border {
    MEGA_BORDER_INPUT,
    MEGA_BORDER_INPUT_GRADIENT,
    MEGA_BORDER_OUTPUT,
    MEGA_BORDER_OUTPUT_GRADIENT
} mega_border;
const char *mega_border_name(mega_border kind, int value);

#ifdef __cplusplus
}
#endif
#endif
