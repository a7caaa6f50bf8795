/* Values of a JSON or YAML as texts: json_values.c. */
#ifndef MEGALITH_CONFIG_JSON_VALUES_H
#define MEGALITH_CONFIG_JSON_VALUES_H

#include "config_impl.h"
#include <jansson.h>

const char *json_number_text(mega_options *o, const json_t *value);
const char *json_shown(mega_options *o, const json_t *value); /* as messages quote it */
const char *json_expected(mega_option_kind kind);             /* "a whole number" */
bool json_takes_list(mega_option_kind kind);
/* Converts a value to texts for the row's kind and returns their number; 0: the value has another type. `out` has room
 * for the elements of an array, and for at least one text. */
size_t json_value_texts(mega_options *o, bool is_yaml, const mega_option_row *row, const json_t *value,
                        const char **out);
/* Returns what follows "value:" in the row's cases; NULL if there is no such case. *out_names lists them. folds: in
 * upper or lower case, whatever the row says. */
const char *json_case_of(mega_options *o, const mega_option_row *row, const char *value, bool folds,
                         const char **out_names);

#endif
