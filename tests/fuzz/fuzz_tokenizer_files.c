/* Files of a tokenizer. The first byte chooses the kind: a tokenizer.json; vocab.json, a zero byte, merges.txt; the
 * characters of a CharTokenizer; the vocab.txt of BERT. A tokenizer that is accepted must encode and decode. */
#include "fuzz.h"
#include "megalith/tokenizer.h"

static mega_status load(mega_tokenizer **out, int kind, const uint8_t *data, size_t size)
{
    if (kind == 1) {
        const uint8_t *zero = memchr(data, 0, size);
        const size_t vocabulary = zero != NULL ? (size_t)(zero - data) : size;
        fuzz_write(fuzz_path("vocab.json"), data, vocabulary);
        fuzz_write(fuzz_path("merges.txt"), data + vocabulary + (zero != NULL), size - vocabulary - (zero != NULL));
        return mega_tokenizer_create(&(mega_tokenizer_options){.type = "GPT2BPETokenizer",
                                                               .vocab_file = fuzz_path("vocab.json"),
                                                               .merge_file = fuzz_path("merges.txt")},
                                     out);
    }
    if (kind == 3) {
        fuzz_write(fuzz_path("vocab.txt"), data, size);
        return mega_tokenizer_create(&(mega_tokenizer_options){.type = "BertWordPieceLowerCase",
                                                               .vocab_file = fuzz_path("vocab.txt"),
                                                               .extra_ids = 2},
                                     out);
    }
    fuzz_write(fuzz_path("tokenizer.json"), data, size);
    if (kind == 0) return mega_tokenizer_load(fuzz_path("tokenizer.json"), out);
    return mega_tokenizer_create(
        &(mega_tokenizer_options){.type = "CharTokenizer", .vocab_file = fuzz_path("tokenizer.json")}, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello, w\xc3\xb6rld 123\n <|endoftext|> the end\xff";
    if (size == 0) return 0;
    fuzz_watch(size);
    mega_tokenizer *t = NULL;
    mega_status st = load(&t, data[0] == 'B' ? 3 : data[0] % 3, data + 1, size - 1);
    fuzz_answer(st);
    if (st != MEGA_OK) return 0;
    mega_encoder *e = NULL;
    mega_ids ids = {0};
    mega_buffer back = {0};
    st = mega_encoder_create(t, &e);
    if (st == MEGA_OK) st = mega_encoder_encode(e, text, sizeof text - 1, &ids);
    if (st == MEGA_OK) {
        fuzz_require(mega_tokenizer_decode(t, ids.id, ids.count, &back) == MEGA_OK, "ids that were made can be read");
    }
    fuzz_answer(st);
    fuzz_answer(mega_encoder_encode_special(e, text, sizeof text - 1, &ids));
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
    return 0;
}
