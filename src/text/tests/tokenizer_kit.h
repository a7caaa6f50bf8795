/* What tests of tokenizers expect of one: ids, text, and that it is the same after it was saved. */
#ifndef MEGALITH_TOKENIZER_KIT_H
#define MEGALITH_TOKENIZER_KIT_H

#include "kit.h"
#include "megalith/file.h"
#include "megalith/tokenizer.h"
#include <string.h>

static void expect_encoded(const mega_tokenizer *t, const char *text, const int32_t *wanted, int64_t count)
{
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    for (int repeat = 0; repeat < 2; repeat++) { /* the second time the words come from the cache */
        ids.count = 0;
        if (mega_encoder_encode(e, text, strlen(text), &ids) != MEGA_OK) fail_msg("%s", mega_error_message());
        for (int64_t i = 0; i < count && i < ids.count; i++)
            if (ids.id[i] != wanted[i]) fail_msg("'%s': id %d at %d, expected %d", text, ids.id[i], (int)i, wanted[i]);
        assert_int_equal(ids.count, count);
    }
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
}

#define ENCODES(t, text, ...)                               \
    expect_encoded(t, text, (const int32_t[]){__VA_ARGS__}, \
                   (int64_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

/* Decodes at once and one by one. */
static void expect_decoded(const mega_tokenizer *t, const int32_t *ids, int64_t count, const char *wanted)
{
    mega_buffer whole = {0}, streamed = {0};
    mega_decoder *d;
    assert_int_equal(mega_tokenizer_decode(t, ids, count, &whole), MEGA_OK);
    assert_int_equal(mega_decoder_create(t, false, &d), MEGA_OK);
    for (int repeat = 0; repeat < 2; repeat++) {
        streamed.size = 0;
        for (int64_t i = 0; i < count; i++) assert_int_equal(mega_decoder_add(d, ids[i], &streamed), MEGA_OK);
        assert_int_equal(mega_decoder_finish(d, &streamed), MEGA_OK);
        assert_string_equal(streamed.data, wanted);
    }
    assert_string_equal(whole.data, wanted);
    mega_decoder_destroy(d);
    mega_buffer_fini(&whole);
    mega_buffer_fini(&streamed);
}

#define DECODES(t, text, ...)                         \
    expect_decoded(t, (const int32_t[]){__VA_ARGS__}, \
                   (int64_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), text)

/* Saves a tokenizer, and loads it again without options: it must be the same. */
static void expect_saved(const mega_tokenizer *t)
{
    const char *folder = mega_kit_path(mega_kit_temp_folder(), "saved");
    mega_tokenizer *again;
    assert_int_equal(mega_tree_remove(folder), MEGA_OK);
    assert_int_equal(mega_folder_create(folder), MEGA_OK);
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    assert_true(mega_tokenizer_is_in(folder));
    if (mega_tokenizer_load(folder, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(again), mega_tokenizer_type(t));
    assert_true(mega_tokenizer_fingerprint(again) == mega_tokenizer_fingerprint(t));
    assert_int_equal(mega_tokenizer_size(again), mega_tokenizer_size(t));
    assert_int_equal(mega_tokenizer_eod(again), mega_tokenizer_eod(t));
    mega_tokenizer_destroy(again);
}

/* The tokenizer.json that is saved for `transformers` has the same tokens, and makes the same ids of a text. */
static void expect_made(const mega_tokenizer *t, const char *text, int32_t pad)
{
    const char *folder = mega_kit_temp_folder();
    mega_tokenizer *made;
    mega_encoder *e[2];
    mega_ids ids[2] = {{0}, {0}};
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    if (mega_tokenizer_load(mega_kit_path(folder, "tokenizer.json"), &made) != MEGA_OK)
        fail_msg("%s", mega_error_message());
    assert_string_equal(mega_tokenizer_type(made), "HuggingFaceTokenizer");
    assert_int_equal(mega_tokenizer_size(made), mega_tokenizer_size(t));
    assert_int_equal(mega_tokenizer_named(made, MEGA_ROLE_PAD), pad);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mega_encoder_create(i == 0 ? t : made, &e[i]), MEGA_OK);
        assert_int_equal(mega_encoder_encode_special(e[i], text, strlen(text), &ids[i]), MEGA_OK);
    }
    assert_int_equal(ids[0].count, ids[1].count);
    assert_memory_equal(ids[0].id, ids[1].id, (size_t)ids[0].count * sizeof *ids[0].id);
    for (int i = 0; i < 2; i++) {
        mega_encoder_destroy(e[i]);
        mega_ids_fini(&ids[i]);
    }
    mega_tokenizer_destroy(made);
}

#endif
