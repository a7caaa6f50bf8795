/* Weights in several files with an index. */
#include "ckpt_impl.h"
#include "megalith/file.h"
#include "tiny.h"

/* Weights in several files: none is larger than the limit unless it holds one tensor, and all are read back. */
static void shards_are_read_back(void **state)
{
    (void)state;
    enum { LIMIT = 200 };
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "save");
    tiny m, got;
    tiny_init(&m, MEGA_F32, 1);
    tiny_init(&got, MEGA_F32, 2);
    tiny_spoil(&got);
    mega_checkpoint_save save = tiny_save(&m, folder, 100, "{}");
    save.max_shard_bytes = LIMIT;
    tiny_ok(mega_checkpoint_write(&save));
    const char *inside = mega_kit_path(folder, "iter_0000100");
    assert_false(mega_file_exists(mega_kit_path(inside, "model.safetensors")));
    assert_true(mega_file_exists(mega_kit_path(inside, "model.safetensors.index.json")));
    mega_hf_weights w = {0};
    tiny_ok(mega_hf_weights_open(inside, &w));
    assert_true(w.count > 2);
    for (size_t i = 0; i < w.count; i++) {
        uint64_t bytes = 0;
        for (size_t k = 0; k < mega_safetensors_count(w.file[i]); k++) {
            const mega_safetensor *t = mega_safetensors_get(w.file[i], k);
            bytes += (uint64_t)(t->end - t->begin);
        }
        assert_true(bytes <= LIMIT || mega_safetensors_count(w.file[i]) == 1);
    }
    mega_hf_weights_close(&w);
    mega_checkpoint *c = NULL;
    tiny_ok(mega_checkpoint_open(folder, false, &c));
    tiny_ok(mega_checkpoint_read_weights(c, got.weight, TINY_TENSORS, MEGA_F32));
    assert_true(tiny_equal(m.weight, got.weight, TINY_TENSORS, MEGA_F32));
    mega_checkpoint_close(c);
    tiny_fini(&m);
    tiny_fini(&got);
}

int main(void)
{
    mega_log_set_sink(tiny_keep_warning, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
