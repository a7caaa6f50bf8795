/* The data of tasks with labels: the first byte picks the task, the rest is a file. Every sample that is read fits. */
#include "fuzz.h"
#include "megalith/labelled.h"

enum { CLS = 300, SEP, PAD, LENGTH = 16 };

static void check_sample(const mega_labelled *l, int64_t sample, int64_t choices, int64_t classes)
{
    fuzz_require(mega_labelled_label(l, sample) >= 0 && mega_labelled_label(l, sample) < classes, "a label is a class");
    for (int64_t c = 0; c < choices; c++) {
        int64_t length, first;
        const int32_t *id = mega_labelled_sequence(l, sample, c, &length, &first);
        fuzz_require(length >= 3 && length <= LENGTH && first >= 1 && first <= length, "a sequence fits");
        fuzz_require(id[0] == CLS && id[length - 1] == SEP, "a sequence has its ends");
        for (int64_t i = 0; i < length; i++) fuzz_require(id[i] >= 0 && id[i] < PAD, "a token has an id");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mega_tokenizer *bytes;
    const mega_tokenizer_options tokenizer = {.type = "ByteTokenizer"};
    if (bytes == NULL) fuzz_require(mega_tokenizer_create(&tokenizer, &bytes) == MEGA_OK, "a tokenizer");
    if (size == 0) return 0;
    size_t tasks = 0;
    while (mega_labelled_task_get(tasks) != NULL) tasks++;
    const mega_labelled_task *task = mega_labelled_task_get(data[0] % tasks);
    const char *path = fuzz_path("samples.txt");
    const mega_labelled_options o = {.task = task,
                                     .path = &path,
                                     .num_paths = 1,
                                     .tokenizer = bytes,
                                     .cls = CLS,
                                     .sep = SEP,
                                     .pad = PAD,
                                     .seq_length = LENGTH};
    const int64_t choices = task->choices;
    mega_labelled *l = NULL;
    fuzz_write(path, data + 1, size - 1);
    fuzz_watch(16 * size);
    const mega_status st = mega_labelled_open(&o, &l);
    fuzz_answer(st);
    if (st != MEGA_OK) return 0;
    for (int64_t i = 0; i < mega_labelled_count(l); i++)
        check_sample(l, i, choices > 0 ? choices : 1, choices > 0 ? choices : task->classes);
    mega_labelled_close(l);
    return 0;
}
