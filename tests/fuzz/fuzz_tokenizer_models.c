/* SentencePiece models and the JSON of TikTokenizer. The first byte chooses the kind. A tokenizer that is accepted must
 * encode and decode. */
#include "fuzz.h"
#include "megalith/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello, w\xc3\xb6rld 123\n <sep><EOD> \xe2\x96\x81 the end\xff";
    static const char *const types[] = {"GPTSentencePieceTokenizer", "Llama2Tokenizer", "SentencePieceTokenizer",
                                        "TikTokenizer"};
    if (size == 0) return 0;
    fuzz_watch(size);
    mega_tokenizer *t = NULL;
    const char *path = fuzz_path("tokenizer.model");
    fuzz_write(path, data + 1, size - 1);
    mega_status st = mega_tokenizer_create(&(mega_tokenizer_options){.type = types[data[0] % 4],
                                                                     .model = path,
                                                                     .extra_ids = data[0] % 5,
                                                                     .tiktoken_special = 7,
                                                                     .tiktoken_pattern = data[0] % 8 < 4 ? "v1" : "v2",
                                                                     .vocab_size = data[0] % 4 == 3 ? 265 : 0},
                                           &t);
    fuzz_answer(st);
    if (st != MEGA_OK) return 0;
    mega_encoder *e = NULL;
    mega_ids ids = {0};
    mega_buffer back = {0};
    st = mega_encoder_create(t, &e);
    if (st == MEGA_OK) st = mega_encoder_encode(e, text, sizeof text - 1, &ids);
    if (st == MEGA_OK)
        fuzz_require(mega_tokenizer_decode(t, ids.id, ids.count, &back) == MEGA_OK, "ids that were made can be read");
    fuzz_answer(st);
    fuzz_answer(mega_encoder_encode_special(e, text, sizeof text - 1, &ids));
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    mega_tokenizer_destroy(t);
    return 0;
}
