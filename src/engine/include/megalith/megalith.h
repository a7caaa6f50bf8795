/* Everything that a C program needs to train a model of its own (the list of layers, the data, the engine), and to
 * generate text or fill masks with a model folder (generator.h, fill_mask.h). */
#ifndef MEGALITH_MEGALITH_H
#define MEGALITH_MEGALITH_H

#include "megalith/builder.h"
#include "megalith/dataset.h"
#include "megalith/engine.h"
#include "megalith/experts.h"
#include "megalith/file.h"
#include "megalith/fill_mask.h"
#include "megalith/generator.h"
#include "megalith/gpt_data.h"
#include "megalith/layers.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include "megalith/model.h"
#include "megalith/router.h"
#include "megalith/status.h"
#include "megalith/t5_blocks.h"

#endif
