/* Keys of a DeepSpeed JSON whose answer in a command is another than in a C program (engine/json_keys.c): the commands
 * have the model's layers in hand. */
#include "options_impl.h"

#define KEY_TO(json_, kind_, successor_) \
    .json = (json_), .field = MEGA_NO_FIELD, .kind = (kind_), .answer = MEGA_ANSWER_RENAMED, .successor = (successor_)

// clang-format off
static const mega_option_row key_rows[] = {
    {KEY_TO("tensor_parallel.autotp_size|tensor_parallel.tp.tp_size|tensor_parallel.tensor_parallel.tp_size", MEGA_OPTION_INT, "tensor-model-parallel-size")},
};
// clang-format on
const mega_option_section cli_json_keys = MEGA_SECTION("DeepSpeed JSON", key_rows);
