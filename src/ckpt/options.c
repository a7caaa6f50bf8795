/* The options of this room: how checkpoints are written. */
#include "megalith/ckpt_options.h"

#define ROW(name, field, kind) MEGA_OPTION(mega_ckpt_options, name, field, kind)

// clang-format off
static const mega_option_row checkpoint_rows[] = {
    {ROW("keep-checkpoints", keep_checkpoints, MEGA_OPTION_INT), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .most = 1 << 30, .help = "how many of the newest checkpoints stay; 0 keeps all"},
    {ROW("save-dtype", save_dtype, MEGA_OPTION_CHOICE), .fallback = "fp32", .choices = "fp32|bf16|fp16|fp64", .help = "number type of the weights in model.safetensors; below the type of training state/ keeps the exact ones for resuming"},
    {ROW("max-shard-size", max_shard_size, MEGA_OPTION_BYTES), .fallback = "0", .range = MEGA_RANGE_NOT_NEGATIVE, .help = "bytes of the tensors in one file of weights, such as 5GB; more go to model-00001-of-0000N.safetensors and so on, with model.safetensors.index.json; 0: one file"},
};
const mega_option_section mega_ckpt_checkpoint_section = MEGA_SECTION("checkpointing", checkpoint_rows);
// clang-format on

mega_dtype mega_save_dtype_of(mega_save_dtype choice)
{
    static const mega_dtype type[] = {[MEGA_SAVE_F32] = MEGA_F32,
                                      [MEGA_SAVE_BF16] = MEGA_BF16,
                                      [MEGA_SAVE_F16] = MEGA_F16,
                                      [MEGA_SAVE_F64] = MEGA_F64};
    return type[choice];
}
