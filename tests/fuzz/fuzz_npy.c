/* The index cache: the first byte picks one of its four files (.npy and the description), the rest is its content.
 * With any content, the resulting index must be the right one. */
#include "data_impl.h"
#include "fuzz.h"

enum { DOCUMENTS = 7, LENGTH = 11, SAMPLES = 20 };

static mega_indexed *set;
static mega_gpt_index right;
static mega_gpt_index_spec spec;

static void make_set(void)
{
    mega_indexed_writer *w = NULL;
    fuzz_require(mega_indexed_writer_create(fuzz_path("set"), MEGA_U16, &w) == MEGA_OK, "a writer");
    for (int32_t i = 0; i < DOCUMENTS; i++) {
        int32_t tokens[LENGTH];
        for (int32_t j = 0; j < LENGTH; j++) tokens[j] = i * LENGTH + j;
        fuzz_require(mega_indexed_writer_add(w, tokens, LENGTH) == MEGA_OK, "a document");
    }
    fuzz_require(mega_indexed_writer_finish(w) == MEGA_OK, "a set");
    fuzz_require(mega_indexed_open(fuzz_path("set"), &set) == MEGA_OK, "an open set");
    spec = (mega_gpt_index_spec){.data = set, .end = DOCUMENTS, .seq_length = 8, .num_samples = SAMPLES, .seed = 1};
    fuzz_require(mega_gpt_index_get(&spec, NULL, NULL, "right", &right) == MEGA_OK, "an index");
}

static void compare(const mega_gpt_index *index)
{
    const mega_gpt_index_plan *p = &right.plan;
    const size_t sample = (size_t)(p->samples + 1) * 2 * mega_npy_element(p->sample_type);
    fuzz_require(memcmp(index->doc, right.doc, (size_t)p->documents * 4) == 0, "the documents are right");
    fuzz_require(memcmp(index->sample, right.sample, sample) == 0, "the samples are right");
    fuzz_require(memcmp(index->shuffle, right.shuffle, (size_t)p->samples * mega_npy_element(p->shuffle_type)) == 0,
                 "the order is right");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (set == NULL) make_set();
    if (size == 0) return 0;
    const char *cache = fuzz_path("cache");
    mega_gpt_index index = {0};
    fuzz_require(mega_gpt_index_get(&spec, cache, NULL, "fill", &index) == MEGA_OK, "the cache is filled");
    mega_gpt_index_fini(&index);
    mega_names names = {0};
    fuzz_require(mega_folder_list(cache, &names) == MEGA_OK && names.count == 4, "the cache has four files");
    char path[300];
    snprintf(path, sizeof path, "%s/%s", cache, names.name[data[0] % 4]);
    mega_names_fini(&names);
    fuzz_write(path, data + 1, size - 1);
    fuzz_watch(size);
    fuzz_require(mega_gpt_index_get(&spec, cache, NULL, "read", &index) == MEGA_OK, "damage costs no run");
    compare(&index);
    mega_gpt_index_fini(&index);
    return 0;
}
