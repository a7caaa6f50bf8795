/* JSON lines and plain text as documents. The texts returned must be UTF-8. */
#include "fuzz.h"
#include "megalith/documents.h"
#include "megalith/utf8.h"

static void read_all(const char *path, mega_document_format format)
{
    static const char *const keys[] = {"text", "title"};
    mega_documents *d = NULL;
    mega_document_chunk chunk = {0};
    mega_status st = mega_documents_open(
        &(mega_documents_options){.inputs = &path, .num_inputs = 1, .format = format, .split_on_blank_lines = true},
        &d);
    while (st == MEGA_OK) {
        st = mega_documents_read(d, &chunk);
        if (st != MEGA_OK || chunk.count == 0) break;
        for (int64_t i = 0; i < chunk.count; i++) {
            const int num_keys = chunk.format == MEGA_DOCUMENT_TEXT ? 1 : 2;
            mega_buffer out[2] = {0};
            mega_document_fault fault = {0};
            if (mega_document_texts(&chunk, i, keys, num_keys, out, &fault)) {
                for (int k = 0; k < num_keys; k++)
                    fuzz_require(mega_utf8_valid_bytes(out[k].data, out[k].size) == out[k].size, "a text is UTF-8");
            } else {
                fuzz_require(fault.what[0] != '\0', "a fault says what it is");
            }
            for (int k = 0; k < 2; k++) mega_buffer_fini(&out[k]);
        }
    }
    fuzz_answer(st);
    mega_document_chunk_fini(&chunk);
    mega_documents_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("documents");
    fuzz_write(path, data, size);
    fuzz_watch(size);
    read_all(path, MEGA_DOCUMENT_AUTO);
    read_all(path, MEGA_DOCUMENT_JSON_LINES);
    return 0;
}
