/* Encodes any bytes. The ids must be those of the slow method (each word alone, searching all pairs for the one of
 * lowest rank), and decoding must return the bytes. */
#include "fuzz.h"
#include "megalith/tokenizer_train.h"
#include "models/pretokenize.h"
#include "tokenizer/tokenizer_impl.h"

static mega_tokenizer *tokenizer;

static void make_tokenizer(void)
{
    static const char text[] =
        "the quick brown fox's den isn't there; they'll see   the foxes in 1234 dens, 12 of them\n\n"
        "\xc3\xbc"
        "ber den D\xc3\xa4"
        "chern \xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87 ..... !!!! ???? the the\tthe";
    mega_trainer *trainer = NULL;
    fuzz_require(mega_trainer_create(&(mega_trainer_options){.type = "GPT2BPETokenizer", .vocab_size = 340},
                                     &trainer) == MEGA_OK,
                 "a trainer");
    for (int i = 0; i < 3; i++) fuzz_require(mega_trainer_add(trainer, text, sizeof text - 1) == MEGA_OK, "a document");
    fuzz_require(mega_trainer_finish(trainer, &tokenizer) == MEGA_OK, "a tokenizer");
    mega_trainer_destroy(trainer);
}

static size_t merge_slowly(int32_t *symbol, size_t n)
{
    for (;;) {
        uint64_t best = UINT64_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const uint64_t found = mega_merges_find(&tokenizer->merges, symbol[i], symbol[i + 1]);
            if (found < best) at = i, best = found;
        }
        if (best == UINT64_MAX) return n;
        symbol[at] = (int32_t)(uint32_t)best;
        memmove(symbol + at + 1, symbol + at + 2, (n - at - 2) * sizeof *symbol);
        n--;
    }
}

static size_t encode_slowly(int32_t *out, const uint8_t *text, size_t size)
{
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        const size_t end = mega_word_end(text, at, size);
        fuzz_require(end > at && end <= size, "a word has bytes");
        for (size_t i = at; i < end; i++) out[n + i - at] = tokenizer->byte_id[text[i]];
        n += merge_slowly(out + n, end - at);
        at = end;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tokenizer == NULL) make_tokenizer();
    int32_t *slow = malloc((size + 1) * sizeof *slow);
    const size_t n = encode_slowly(slow, data, size);
    fuzz_watch(size);
    mega_encoder *e = NULL;
    mega_ids ids = {0};
    mega_buffer back = {0};
    fuzz_require(mega_encoder_create(tokenizer, &e) == MEGA_OK, "an encoder");
    for (int i = 0; i < 2; i++) { /* once without, once with the words in its cache */
        ids.count = 0;
        fuzz_require(mega_encoder_encode(e, (const char *)data, size, &ids) == MEGA_OK, "any bytes are encoded");
        fuzz_require((size_t)ids.count == n && (n == 0 || memcmp(ids.id, slow, n * sizeof *slow) == 0),
                     "the ids are those of the slow way");
    }
    fuzz_require(mega_tokenizer_decode(tokenizer, ids.id, ids.count, &back) == MEGA_OK, "the ids are decoded");
    fuzz_require(back.size == size && (size == 0 || memcmp(back.data, data, size) == 0), "the bytes come back");
    mega_buffer_fini(&back);
    mega_ids_fini(&ids);
    mega_encoder_destroy(e);
    free(slow);
    return 0;
}
