/* Encoding, decoding and training on one thread, MB of text a second. Run by `make bench only=tokenizer`; the texts and
 * GPT-2's vocabulary are those of the shared data (MEGA_TEST_DATA, else ../shared/data). */
#include "megalith/file.h"
#include "megalith/memory.h"
#include "megalith/threads.h"
#include "megalith/tokenizer_train.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 5 };

static const char *const texts[] = {"corpus/openwebtext-1000.jsonl", "corpus/multilingual.jsonl",
                                    "shakespeare/tinyshakespeare.txt"};

static char *data_path(const char *name)
{
    const char *folder = getenv("MEGA_TEST_DATA");
    return mega_path_join(folder != NULL ? folder : "../shared/data", name);
}

/* Least of some tries: everything that disturbs makes it longer. */
static double least(double best, double seconds)
{
    return best == 0 || seconds < best ? seconds : best;
}

static mega_status measure_text(const mega_tokenizer *t, const char *name, const char *text, size_t size)
{
    double cold = 0, warm = 0, decode = 0, train = 0;
    mega_ids ids = {0};
    mega_buffer back = {0};
    for (int i = 0; i < TRIES; i++) {
        mega_encoder *e;
        MEGA_TRY(mega_encoder_create(&e, t));
        for (int repeat = 0; repeat < 2; repeat++) {
            const double begin = mega_time_now();
            ids.count = 0;
            MEGA_TRY(mega_encoder_encode(e, text, size, &ids));
            double *which = repeat == 0 ? &cold : &warm;
            *which = least(*which, mega_time_now() - begin);
        }
        mega_encoder_destroy(e);
        double begin = mega_time_now();
        back.size = 0;
        MEGA_TRY(mega_tokenizer_decode(t, ids.id, ids.count, &back));
        decode = least(decode, mega_time_now() - begin);
        begin = mega_time_now();
        mega_trainer *trainer;
        mega_tokenizer *trained;
        MEGA_TRY(
            mega_trainer_create(&trainer, &(mega_trainer_options){.type = "GPT2BPETokenizer", .vocab_size = 8000}));
        MEGA_TRY(mega_trainer_add(trainer, text, size));
        MEGA_TRY(mega_trainer_finish(trainer, &trained));
        train = least(train, mega_time_now() - begin);
        mega_tokenizer_destroy(trained);
        mega_trainer_destroy(trainer);
    }
    const double mb = (double)size * 1e-6;
    printf("%-32s %5.2f MB  %8lld ids  encode %6.1f MB/s, again %6.1f MB/s  decode %6.1f MB/s  8000 ids trained in "
           "%.2f s\n",
           name, mb, (long long)ids.count, mb / cold, mb / warm, mb / decode, train);
    mega_ids_fini(&ids);
    mega_buffer_fini(&back);
    return MEGA_OK;
}

static mega_status run(void)
{
    mega_tokenizer *t;
    char *json = data_path("gpt2/tokenizer.json"), *vocab = data_path("gpt2/vocab.json");
    char *merges = data_path("gpt2/merges.txt");
    const mega_tokenizer_options o = {.type = "GPT2BPETokenizer", .vocab_file = vocab, .merge_file = merges};
    double begin = mega_time_now();
    MEGA_TRY(mega_tokenizer_create(&t, &o));
    printf("vocab.json + merges.txt read in %.3f s", mega_time_now() - begin);
    mega_tokenizer_destroy(t);
    begin = mega_time_now();
    MEGA_TRY(mega_tokenizer_load(&t, json));
    printf(", tokenizer.json in %.3f s\n", mega_time_now() - begin);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *path = data_path(texts[i]), *text;
        size_t size;
        MEGA_TRY(mega_file_read(&text, &size, path));
        MEGA_TRY(measure_text(t, texts[i], text, size));
        mega_free(text);
        mega_free(path);
    }
    mega_tokenizer_destroy(t);
    mega_free(json);
    mega_free(vocab);
    mega_free(merges);
    return MEGA_OK;
}

int main(void)
{
    if (run() == MEGA_OK) return 0;
    fprintf(stderr, "%s\n", mega_error_message());
    return 1;
}
