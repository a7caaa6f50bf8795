/* Shared by the readers of a folder's rules. */
#ifndef MEGALITH_TEXT_FOLDER_KEYS_H
#define MEGALITH_TEXT_FOLDER_KEYS_H

#include "folder_rules.h"

struct json_t;

/* Read the tokens and roles of tokenizer_config.json; of special_tokens_map.json and added_tokens.json (NULL: there is
 * none); the roles of the model's own of both; and those that the class has. In this order. */
mega_status mega_rules_read_config(mega_folder_rules *r, struct json_t *root);
mega_status mega_rules_read_older(mega_folder_rules *r, struct json_t *map, struct json_t *added);
mega_status mega_rules_read_named(mega_folder_rules *r, struct json_t *config, struct json_t *map);
mega_status mega_rules_fill(mega_folder_rules *r);
/* Whether it is a whole number from 0 on. */
bool mega_json_id(const struct json_t *v);
const char *mega_role_key(mega_role role);

#endif
