/* config.json of a Hugging Face folder. If it is accepted, writing and reading it again must give the same. */
#include "ckpt_impl.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("config.json");
    fuzz_write(path, data, size);
    fuzz_watch(size);
    mega_model_shape shape = {0}, again = {0};
    mega_status st = mega_hf_config_read(path, &shape);
    fuzz_answer(st);
    if (st != MEGA_OK || shape.num_layers == 0) return 0; /* a model that is no Hugging Face family */
    mega_buffer text = {0};
    fuzz_require(mega_hf_config_text(&text, &shape, MEGA_F32) == MEGA_OK, "what was read can be written");
    fuzz_write(path, text.data, text.size);
    fuzz_require(mega_hf_config_read(path, &again) == MEGA_OK, "what was written can be read");
    fuzz_require(shape.hidden == again.hidden && shape.vocab == again.vocab, "it is the same");
    mega_buffer_fini(&text);
    return 0;
}
