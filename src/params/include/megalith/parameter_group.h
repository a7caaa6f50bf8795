/* Groups of parameters by the pattern of their names: "PATTERN:SETTING,SETTING…" gives the parameters whose names match
 * their own learning rate or weight decay, or freezes them.
 *
 * PATTERN is a pattern of the shell for the whole name (* stands for any characters, also for points), or "re:" and a
 * POSIX extended regular expression, which may match anywhere in the name. SETTING is one of
 *   lr=X            the learning rate at the peak of the schedule: X / (peak of the training) times the training's
 *   lr_scale=X      X times the learning rate of the training
 *   weight_decay=X  constant, instead of that of the training, also for vectors
 *   frozen          not trained
 *   trained         trained, although an earlier group or the model freezes it
 * Groups apply in their order, so a later one replaces what an earlier one sets. Buffers are in no group. */
#ifndef MEGALITH_PARAMETER_GROUP_H
#define MEGALITH_PARAMETER_GROUP_H

#include "megalith/parameter.h"

typedef struct mega_param_groups mega_param_groups;

/* Returns MEGA_ERR_USAGE, with what is wrong, unless the text is a group. */
mega_status mega_param_group_check(const char *text);
/* lr: the peak of the training. The texts are read during the call. count 0: *out is NULL. */
mega_status mega_param_groups_create(const char *const *text, size_t count, double lr, mega_param_groups **out);
void mega_param_groups_destroy(mega_param_groups *g); /* may be NULL */
/* Sets the members of a record that the groups set. g may be NULL. */
void mega_param_groups_apply(mega_param_groups *g, mega_param *record);
/* Returns MEGA_ERR_USAGE for a group that matches no parameter of the model, or if none is left to train. */
mega_status mega_param_groups_check(const mega_param_groups *g, const mega_params *whole);

/* Applies the groups (borrowed) to all records that are declared from now on. */
void mega_params_set_groups(mega_params *p, mega_param_groups *g);

#endif
