/* Compares the ids of real text with Hugging Face `tokenizers` and `tiktoken` (tokenizer.txt, made by
 * tools/make_tokenizer_golden.py), and with a data set that Megatron made. */
#include "kit.h"
#include "megalith/documents.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/indexed.h"
#include "megalith/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mega_tokenizer *open_tokenizer(const char *vocab, const char *merges)
{
    mega_tokenizer *t;
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer",
                                      .vocab_file = mega_kit_need_data(vocab),
                                      .merge_file = merges == NULL ? NULL : mega_kit_need_data(merges)};
    if (mega_tokenizer_create(&o, &t) != MEGA_OK) fail_msg("%s", mega_error_message());
    return t;
}

static void check_text(const mega_tokenizer *t, mega_encoder *e, const char *name, int64_t count, uint64_t hash)
{
    char *text;
    size_t size;
    mega_ids ids = {0};
    mega_buffer back = {0};
    assert_int_equal(mega_file_read(mega_kit_need_data(name), &text, &size), MEGA_OK);
    if (mega_encoder_encode(e, text, size, &ids) != MEGA_OK) fail_msg("%s", mega_error_message());
    if (ids.count != count) fail_msg("%s: %" PRId64 " ids, expected %" PRId64, name, ids.count, count);
    if (mega_hash64(MEGA_HASH_START, ids.id, (size_t)ids.count * sizeof *ids.id) != hash)
        fail_msg("%s: as many ids as expected, but others", name);
    assert_int_equal(mega_tokenizer_decode(t, ids.id, ids.count, &back), MEGA_OK);
    assert_int_equal(back.size, size);
    assert_memory_equal(back.data, text, size);
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_free(text);
}

static void ids_of_real_text(void **state)
{
    (void)state;
    char *golden, *save = NULL, opened[128] = "";
    mega_tokenizer *t = NULL;
    mega_encoder *e = NULL;
    int rows = 0;
    mega_kit_need_data("gpt2/vocab.json");
    assert_int_equal(mega_file_read(mega_kit_source("tests/golden/tokenizer.txt"), &golden, NULL), MEGA_OK);
    for (char *line = strtok_r(golden, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char vocab[128], merges[128], name[128];
        int64_t count;
        uint64_t hash;
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127s %127s %127s %" SCNd64 " %" SCNx64, vocab, merges, name, &count, &hash), 5);
        if (strcmp(vocab, opened) != 0) {
            mega_encoder_destroy(e);
            mega_tokenizer_destroy(t);
            t = open_tokenizer(vocab, merges);
            assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
            strcpy(opened, vocab);
        }
        check_text(t, e, name, count, hash);
        rows++;
    }
    assert_int_equal(rows, 40);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
    mega_free(golden);
}

/* The published ids of GPT-2. */
static void known_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t id[8];
        int64_t count;
    } rows[] = {{"Hello world", {15496, 995}, 2},
                {" Hello world", {18435, 995}, 2},
                {"Hello, my dog is cute", {15496, 11, 616, 3290, 318, 13779}, 6},
                {"The dog", {464, 3290}, 2},
                {"\n", {198}, 1},
                {"\n\n", {628}, 1},
                {" ", {220}, 1},
                {"", {0}, 0}};
    mega_tokenizer *t = open_tokenizer("gpt2/vocab.json", "gpt2/merges.txt");
    mega_encoder *e;
    mega_ids ids = {0};
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ids.count = 0;
        assert_int_equal(mega_encoder_encode(e, rows[i].text, strlen(rows[i].text), &ids), MEGA_OK);
        assert_int_equal(ids.count, rows[i].count);
        for (int64_t k = 0; k < ids.count; k++) assert_int_equal(ids.id[k], rows[i].id[k]);
    }
    ids.count = 0;
    assert_int_equal(mega_encoder_encode_special(e, "a<|endoftext|>", 14, &ids), MEGA_OK);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.id[1], 50256);
    assert_int_equal(mega_tokenizer_eod(t), 50256);
    assert_int_equal(mega_tokenizer_size(t), 50257);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);

    mega_tokenizer *json = open_tokenizer("gpt2/tokenizer.json", NULL);
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(json));
    mega_tokenizer_destroy(json);
    mega_tokenizer_destroy(t);
}

/* Saving and loading the real vocabulary changes nothing; neither does a round trip of random bytes. */
static void saving_and_random_bytes(void **state)
{
    (void)state;
    mega_tokenizer *t = open_tokenizer("gpt2/vocab.json", "gpt2/merges.txt"), *again;
    const char *folder = mega_kit_temp_folder();
    assert_int_equal(mega_tokenizer_save(t, folder), MEGA_OK);
    if (mega_tokenizer_load(folder, &again) != MEGA_OK) fail_msg("%s", mega_error_message());
    assert_true(mega_tokenizer_fingerprint(t) == mega_tokenizer_fingerprint(again));
    mega_encoder *e;
    mega_ids ids = {0};
    mega_buffer back = {0};
    char text[1000];
    uint64_t x = 88172645463325252ull;
    assert_int_equal(mega_encoder_create(again, &e), MEGA_OK);
    for (int round = 0; round < 500; round++) {
        const size_t n = (size_t)round * 2;
        for (size_t i = 0; i < n; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            text[i] = (char)(round % 2 == 0 ? x >> 8 : (x >> 8) & 3 ? 'a' + (x >> 16) % 3 : x >> 16);
        }
        ids.count = 0;
        back.size = 0;
        assert_int_equal(mega_encoder_encode(e, text, n, &ids), MEGA_OK);
        assert_int_equal(mega_tokenizer_decode(again, ids.id, ids.count, &back), MEGA_OK);
        assert_int_equal(back.size, n);
        if (n > 0) assert_memory_equal(back.data, text, n);
    }
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(again);
    mega_tokenizer_destroy(t);
}

/* The oracle that needs no Python: the tokens that the original wrote for openwebtext-1000.jsonl. */
static void tokens_that_megatron_wrote(void **state)
{
    (void)state;
    char prefix[512];
    const char *bin = mega_kit_need_data("megatron-indexed/meg-gpt2-openwebtext_text_document.bin");
    snprintf(prefix, sizeof prefix, "%.*s", (int)strlen(bin) - 4, bin);
    mega_tokenizer *t =
        open_tokenizer("megatron-indexed/gpt2-tiny-vocab.json", "megatron-indexed/gpt2-tiny-merges.txt");
    const char *input = mega_kit_need_data("corpus/openwebtext-1000.jsonl"), *key = "text";
    mega_indexed *ix;
    mega_documents *documents;
    mega_encoder *e;
    assert_int_equal(mega_indexed_open(prefix, &ix), MEGA_OK);
    assert_int_equal(mega_documents_open(&(mega_documents_options){.inputs = &input, .num_inputs = 1}, &documents),
                     MEGA_OK);
    assert_int_equal(mega_encoder_create(t, &e), MEGA_OK);
    mega_document_chunk chunk = {0};
    mega_buffer text = {0};
    mega_ids ids = {0}, wanted = {0};
    int64_t document = 0;
    while (mega_documents_read(documents, &chunk) == MEGA_OK && chunk.count > 0)
        for (int64_t r = 0; r < chunk.count; r++, document++) {
            mega_document_fault fault;
            ids.count = 0;
            assert_true(mega_document_texts(&chunk, r, &key, 1, &text, &fault));
            assert_int_equal(mega_encoder_encode(e, text.data, text.size, &ids), MEGA_OK);
            const int32_t size = mega_indexed_size(ix, document);
            assert_int_equal(ids.count + 1, size);
            assert_int_equal(mega_ids_reserve(&wanted, size), MEGA_OK);
            mega_indexed_get(ix, document, 0, size, wanted.id);
            assert_memory_equal(wanted.id, ids.id, (size_t)ids.count * sizeof *ids.id);
            assert_int_equal(wanted.id[size - 1], mega_tokenizer_eod(t));
        }
    assert_int_equal(document, 1000);
    mega_ids_fini(&ids);
    mega_ids_fini(&wanted);
    mega_buffer_fini(&text);
    mega_document_chunk_fini(&chunk);
    mega_encoder_destroy(e);
    mega_documents_close(documents);
    mega_indexed_close(ix);
    mega_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_ids),
        cmocka_unit_test(ids_of_real_text),
        cmocka_unit_test(saving_and_random_bytes),
        cmocka_unit_test(tokens_that_megatron_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
