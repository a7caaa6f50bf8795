/* An indexed data set: two bytes with the size of the .idx, the .idx, the .bin. */
#include "fuzz.h"
#include "megalith/indexed.h"

static void read_tokens(const mega_indexed *ix)
{
    for (int64_t i = 0; i < mega_indexed_sequences(ix) && i < 1000; i++) {
        const int32_t n = mega_indexed_size(ix, i);
        int32_t *tokens = malloc((size_t)n * sizeof *tokens + 1);
        fuzz_require(tokens != NULL, "a sequence lies in the file, so it has room in memory");
        mega_indexed_get(ix, i, 0, n, tokens);
        free(tokens);
    }
    for (int64_t i = 0; i <= mega_indexed_documents(ix) && i < 1000; i++) {
        const int64_t at = mega_indexed_document(ix, i);
        fuzz_require(at >= 0 && at <= mega_indexed_sequences(ix), "a document begins at a sequence");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const size_t wanted = (size_t)data[0] | (size_t)data[1] << 8;
    const size_t index = wanted < size - 2 ? wanted : size - 2;
    fuzz_write(fuzz_path("d.idx"), data + 2, index);
    fuzz_write(fuzz_path("d.bin"), data + 2 + index, size - 2 - index);
    fuzz_watch(size);
    mega_indexed *ix = NULL;
    const mega_status st = mega_indexed_open(fuzz_path("d"), &ix);
    fuzz_answer(st);
    if (st != MEGA_OK) return 0;
    const mega_status verified = mega_indexed_verify(ix, 1000);
    fuzz_answer(verified);
    if (verified == MEGA_OK) read_tokens(ix);
    mega_indexed_close(ix);
    return 0;
}
