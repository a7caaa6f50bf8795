/* How the graph declares the parameters of a model, and asks whether they have their places. Not installed. */
#ifndef MEGALITH_PARAMETER_REQUEST_H
#define MEGALITH_PARAMETER_REQUEST_H

#include "megalith/parameter.h"

/* *out_index receives the number of the parameter with this name. The first request declares it. A later one must have
 * the same shape and, if `has_options`, the same sharding, options and position in the file. */
mega_status mega_params_request(mega_params *p, const mega_param *record, bool has_options, int *out_index);
/* Returns MEGA_ERR_USAGE, naming `call`, unless the parameters are placed or there are none. */
mega_status mega_params_check_placed(const mega_params *p, const char *call);

#endif
