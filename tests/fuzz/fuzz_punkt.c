/* Sentences: the first byte picks a language, a file of parameters and what is done with them; then the content of that
 * file up to a NUL, and a text. Sentences must be in order, and with keep_newlines all of the text. */
#include "fuzz.h"
#include "megalith/punkt.h"

static const char *const file[] = {"abbrev_types.txt", "collocations.tab", "sent_starters.txt", "ortho_context.tab",
                                   "numeric_abbrev_types.txt"};

static void cut(const mega_punkt *p, const char *text, size_t n, bool keep)
{
    mega_sentence_spans s = {0};
    size_t at = 0;
    fuzz_require(mega_punkt_cut(p, text, n, keep, &s) == MEGA_OK, "every text can be cut");
    for (int64_t i = 0; i < s.count; i++) {
        fuzz_require(s.span[i].begin >= at && s.span[i].begin < s.span[i].end, "sentences are in order");
        fuzz_require(!keep || s.span[i].begin == at, "no text lies between sentences");
        at = s.span[i].end;
    }
    fuzz_require(at <= n && (!keep || s.count == 0 || at == n), "sentences lie in the text");
    mega_sentence_spans_fini(&s);
}

static void learn(mega_punkt *p, const char *text, size_t n)
{
    mega_punkt_trainer *t;
    fuzz_require(mega_punkt_trainer_create(p, &t) == MEGA_OK, "a trainer");
    fuzz_require(mega_punkt_learn(t, text, n / 2) == MEGA_OK && mega_punkt_learn(t, text + n / 2, n - n / 2) == MEGA_OK,
                 "every text can be learnt");
    fuzz_require(mega_punkt_finish(t) == MEGA_OK, "an end");
    mega_punkt_trainer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const language[] = {"english", "chinese", "greek", "urdu", "thai"};
    if (size == 0) return 0;
    const char *folder = fuzz_path("punkt"), *content = (const char *)data + 1;
    const char *end = memchr(content, 0, size - 1);
    const size_t n = end != NULL ? (size_t)(end - content) : size - 1;
    const char *text = content + (end != NULL ? n + 1 : n);
    const size_t bytes = size - 1 - (size_t)(text - content);
    mega_punkt *p;
    char path[300];
    fuzz_require(mega_folder_create(folder) == MEGA_OK, "a folder");
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, file[i]);
        fuzz_write(path, content, i == data[0] % 5 ? n : 0);
    }
    fuzz_watch(size);
    fuzz_require(mega_punkt_create(language[data[0] / 5 % 5], &p) == MEGA_OK, "rules");
    fuzz_answer(mega_punkt_read(p, folder));
    fuzz_answer(mega_punkt_read_abbreviations(p, path));
    cut(p, text, bytes, false);
    cut(p, text, bytes, true);
    if (data[0] & 128) {
        learn(p, text, bytes);
        cut(p, text, bytes, false);
    }
    mega_punkt_destroy(p);
    return 0;
}
