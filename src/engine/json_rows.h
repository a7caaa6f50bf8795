/* For the tables of keys of a DeepSpeed JSON that are not options of megalith. */
#ifndef MEGALITH_JSON_ROWS_H
#define MEGALITH_JSON_ROWS_H

#include "megalith/engine_settings.h"

#define KEY(json_, kind_, answer_, remark_) \
    .json = (json_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = (answer_), .remark = (remark_)
/* A key without effect; one that is not implemented yet, except with the values `neutral_`; one that is refused,
 * except with them; one whose value says which option it sets. */
#define KEY_IDLE(json_, kind_, remark_) KEY(json_, kind_, MEGA_ANSWER_NO_EFFECT, remark_)
#define KEY_LATER(json_, kind_, neutral_, remark_) \
    KEY(json_, kind_, MEGA_ANSWER_NOT_IMPLEMENTED, remark_), .neutral = (neutral_)
#define KEY_REFUSED(json_, kind_, neutral_, remark_) \
    KEY(json_, kind_, MEGA_ANSWER_REFUSED, remark_), .neutral = (neutral_)
#define KEY_BY_VALUE(json_, cases_, remark_) \
    KEY(json_, MEGA_OPTION_STRING, MEGA_ANSWER_RENAMED, remark_), .cases = (cases_)

#define ZERO    "zero_optimization."
#define HOST    "everything is in the host's memory already"
#define REMOVED " (DeepSpeed " MEGA_DEEPSPEED_VERSION " no longer has it)"

#endif
