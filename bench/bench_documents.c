/* Encodes documents to GPT-2 ids, each on its own, for bench/run.py:
 *   bench_documents serve FILE VOCAB
 * FILE has the length (u32) and bytes of each document; VOCAB is a folder with vocab.json and merges.txt. On the input
 * line "encode" it creates an encoder with an empty word cache, encodes everything on one thread, and answers "seconds
 * S ids-hash H", where H is the first 16 digits of the SHA-256 of all ids as i32. */
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "megalith/tokenizer.h"

#include <stdio.h>
#include <string.h>

static mega_status encode_all(const mega_tokenizer *t, const char *data, size_t size)
{
    mega_encoder *e;
    mega_ids ids = {0};
    char hash[65];
    const double begin = mega_time_now();
    MEGA_TRY(mega_encoder_create(t, &e));
    for (size_t at = 0; at + 4 <= size;) {
        uint32_t length;
        memcpy(&length, data + at, sizeof length);
        MEGA_TRY(mega_encoder_encode(e, data + at + 4, length, &ids));
        at += 4 + (size_t)length;
    }
    const double seconds = mega_time_now() - begin;
    mega_encoder_destroy(e);
    mega_sha256_hex(ids.id, (size_t)ids.count * sizeof *ids.id, hash);
    printf("seconds %.9g ids %.16s\n", seconds, hash);
    fflush(stdout);
    mega_ids_fini(&ids);
    return MEGA_OK;
}

static mega_status serve(const char *documents, const char *folder)
{
    mega_tokenizer *t;
    char *data, line[64];
    size_t size;
    char *vocab = mega_path_join(folder, "vocab.json"), *merges = mega_path_join(folder, "merges.txt");
    MEGA_TRY(mega_file_read(documents, &data, &size));
    MEGA_TRY(mega_tokenizer_create(
        &(mega_tokenizer_options){.type = "GPT2BPETokenizer", .vocab_file = vocab, .merge_file = merges}, &t));
    puts("ready");
    fflush(stdout);
    mega_status st = MEGA_OK;
    while (st == MEGA_OK && fgets(line, sizeof line, stdin) != NULL && strcmp(line, "encode\n") == 0)
        st = encode_all(t, data, size);
    mega_tokenizer_destroy(t);
    mega_free(data);
    mega_free(vocab);
    mega_free(merges);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[1], "serve") != 0) {
        fprintf(stderr, "usage: bench_documents serve FILE VOCAB\n");
        return 2;
    }
    if (serve(argv[2], argv[3]) == MEGA_OK) return 0;
    fprintf(stderr, "%s\n", mega_error_message());
    return 1;
}
