/* Caches the index arrays on disk: three .npy files and a description, named by a hash of everything that the arrays
 * depend on:
 *
 *   HASH-GPTDataset-document_index.npy    HASH-GPTDataset-sample_index.npy
 *   HASH-GPTDataset-shuffle_index.npy     HASH-GPTDataset-description.txt
 *
 * The map of BERT's and T5's samples is one array, HASH-SentenceDataset-sample_map.npy, with a description of its own.
 *
 * The description is written last and holds the checksums of the others, so files without a description do not
 * count. If anything is wrong with the cache (truncated or damaged files, a folder that is not writable), the arrays
 * are built again and a log line says so; the run never fails. */
#include "data_impl.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <stdio.h>

enum { ARRAYS = 3, NAME_BYTES = 32, WORTH_A_LINE = 1000000 };

/* The names of the files after HASH. */
typedef struct cache_names {
    const char *kind, *description, *array[ARRAYS];
    int arrays;
} cache_names;
static const cache_names gpt_names = {"-GPTDataset-",
                                      "-GPTDataset-description.txt",
                                      {"document_index.npy", "sample_index.npy", "shuffle_index.npy"},
                                      ARRAYS};
static const cache_names sentence_names = {
    "-SentenceDataset-", "-SentenceDataset-description.txt", {"sample_map.npy"}, 1};

typedef struct cache_array {
    mega_npy_type type;
    int64_t rows, columns;
    char *path;
    uint32_t crc;
} cache_array;

typedef struct cache_files {
    const char *folder;
    const cache_names *names;
    char *description_path;
    mega_buffer facts; /* first part of the description: what the arrays depend on */
    cache_array array[ARRAYS];
} cache_files;

static void cache_files_fini(cache_files *c)
{
    for (int i = 0; i < ARRAYS; i++) mega_free(c->array[i].path);
    mega_free(c->description_path);
    mega_buffer_fini(&c->facts);
}

/* Lists everything that the arrays depend on and nothing else: not the prefix, so that data may be moved. */
static void cache_describe(mega_buffer *out, const mega_gpt_index_spec *s)
{
    const mega_sentence_options *o = s->sentences;
    mega_buffer_printf(out, "%s, format 1\n", o == NULL ? "GPT data set index" : "sentence data set map");
    mega_buffer_printf(out, "data index file: %lld bytes, crc32c %08x, %lld sequences, %lld tokens\n",
                       (long long)mega_indexed_index_bytes(s->data), mega_indexed_crc32c(s->data),
                       (long long)mega_indexed_sequences(s->data), (long long)mega_indexed_tokens(s->data));
    mega_buffer_printf(out, "%s: %lld to %lld\n", o == NULL ? "sequences" : "documents", (long long)s->begin,
                       (long long)s->end);
    mega_buffer_printf(out, "samples requested: %lld\n", (long long)s->num_samples);
    mega_buffer_printf(out, "sequence length: %lld\n",
                       (long long)(s->seq_length - (o == NULL ? 0 : mega_sentence_added(o))));
    if (o != NULL)
        mega_buffer_printf(out, "sentences in a sample: %lld or more\nshort sequences: %.17g\n",
                           (long long)mega_sentence_least(o), o->short_seq_prob);
    mega_buffer_printf(out, "seed: %u\n", s->seed);
}

/* The same arrays have the same key in every rank. */
static uint64_t key_of(const mega_buffer *facts)
{
    return mega_hash64(MEGA_HASH_START, facts->data, facts->size);
}

static mega_status cache_files_init(cache_files *c, const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan,
                                    const char *folder)
{
    *c = (cache_files){.folder = folder, .names = plan->is_sentence_map ? &sentence_names : &gpt_names};
    if (plan->is_sentence_map) {
        c->array[0] = (cache_array){.type = MEGA_NPY_U4, .rows = plan->samples, .columns = MEGA_SENTENCE_MAP};
    } else {
        c->array[0] = (cache_array){.type = MEGA_NPY_I4, .rows = plan->documents};
        c->array[1] = (cache_array){.type = plan->sample_type, .rows = plan->samples + 1, .columns = 2};
        c->array[2] = (cache_array){.type = plan->shuffle_type, .rows = plan->samples};
    }
    cache_describe(&c->facts, spec);
    bool ok = !c->facts.failed;
    if (ok && folder != NULL) {
        char hash[65];
        mega_sha256_hex(c->facts.data, c->facts.size, hash);
        for (int i = 0; i < c->names->arrays; i++) {
            c->array[i].path = mega_format("%s/%.*s%s%s", folder, NAME_BYTES, hash, c->names->kind, c->names->array[i]);
            ok = ok && c->array[i].path != NULL;
        }
        c->description_path = mega_format("%s/%.*s%s", folder, NAME_BYTES, hash, c->names->description);
        ok = ok && c->description_path != NULL;
    }
    if (ok) return MEGA_OK;
    cache_files_fini(c);
    return MEGA_FAIL(MEGA_ERR_MEMORY, "index cache %s: no memory for its file names",
                     folder != NULL ? folder : "in memory");
}

static mega_status description_text(const cache_files *c, mega_buffer *out)
{
    mega_buffer_append(out, c->facts.data, c->facts.size);
    for (int i = 0; i < c->names->arrays; i++)
        mega_buffer_printf(out, "%s: crc32c %08x\n", c->names->array[i], c->array[i].crc);
    return mega_buffer_check(out, "the description of an index cache");
}

/* Maps one array and checks header, size and checksum. On failure *reason says what is wrong. */
static bool map_array(const cache_array *a, char *reason, size_t reason_bytes, mega_map *out)
{
    char header[MEGA_NPY_HEADER_MAX];
    const size_t header_bytes = mega_npy_header(header, a->type, a->rows, a->columns);
    const size_t bytes =
        header_bytes + (size_t)a->rows * (size_t)(a->columns > 0 ? a->columns : 1) * mega_npy_element(a->type);
    if (mega_map_open(a->path, out) != MEGA_OK) {
        snprintf(reason, reason_bytes, "%s", mega_error_message());
        mega_error_clear();
        return false;
    }
    if (out->size != bytes) {
        snprintf(reason, reason_bytes, "%s: found %zu bytes, expected %zu", a->path, out->size, bytes);
        return false;
    }
    if (memcmp(out->data, header, header_bytes) != 0) {
        snprintf(reason, reason_bytes, "%s: the header does not have %lld rows", a->path, (long long)a->rows);
        return false;
    }
    const uint32_t crc = mega_crc32c(0, out->data, out->size);
    if (crc != a->crc) {
        snprintf(reason, reason_bytes, "%s: found crc32c %08x, expected %08x", a->path, crc, a->crc);
        return false;
    }
    return true;
}

/* Reads the checksums from the description; returns false if it is not exactly as we would write it. */
static bool read_description(cache_files *c)
{
    char *text;
    size_t size;
    if (mega_file_read(c->description_path, &text, &size) != MEGA_OK) {
        mega_error_clear();
        return false;
    }
    bool ok = size > c->facts.size && memcmp(text, c->facts.data, c->facts.size) == 0;
    const char *line = text + (ok ? c->facts.size : 0);
    for (int i = 0; ok && i < c->names->arrays; i++) {
        const size_t n = strlen(c->names->array[i]);
        ok = strncmp(line, c->names->array[i], n) == 0 && sscanf(line + n, ": crc32c %8x", &c->array[i].crc) == 1;
        line = ok ? strchr(line, '\n') : NULL;
        ok = line != NULL;
        if (ok) line++;
    }
    mega_free(text);
    return ok;
}

/* Returns false if the arrays are not in the cache, or not usable (with a log line). */
static bool cache_load(cache_files *c, const mega_gpt_index_plan *plan, const char *name, mega_gpt_index *out)
{
    if (!mega_file_exists(c->description_path)) return false;
    *out = (mega_gpt_index){.plan = *plan};
    char reason[512];
    snprintf(reason, sizeof reason, "%s: the description does not match the file name", c->description_path);
    bool ok = read_description(c);
    for (int i = 0; ok && i < c->names->arrays; i++) ok = map_array(&c->array[i], reason, sizeof reason, &out->map[i]);
    if (!ok) {
        mega_warn(" > %s: the cached index is damaged and is built again: %s", name, reason);
        mega_gpt_index_fini(out);
        return false;
    }
    const void *data[ARRAYS] = {NULL};
    for (int i = 0; i < c->names->arrays; i++) {
        char header[MEGA_NPY_HEADER_MAX];
        data[i] = out->map[i].data + mega_npy_header(header, c->array[i].type, c->array[i].rows, c->array[i].columns);
    }
    out->doc = plan->is_sentence_map ? NULL : data[0];
    out->sample = data[plan->is_sentence_map ? 0 : 1];
    out->shuffle = data[2];
    return true;
}

/* Removes temporary files of any data set and run, so that a run that keeps being killed does not fill the folder. */
static void remove_leftovers(const cache_files *c)
{
    for (int i = 0; i < c->names->arrays; i++) mega_temporaries_remove(c->folder, "", c->names->array[i], false);
    mega_temporaries_remove(c->folder, "", c->names->description, false);
}

static mega_status cache_store(cache_files *c, const mega_gpt_index *index)
{
    const void *data[ARRAYS] = {index->doc, index->sample, index->shuffle};
    if (index->plan.is_sentence_map) data[0] = index->sample;
    MEGA_TRY(mega_folder_create(c->folder));
    remove_leftovers(c);
    for (int i = 0; i < c->names->arrays; i++) {
        cache_array *a = &c->array[i];
        MEGA_TRY(mega_npy_write(a->path, a->type, a->rows, a->columns, data[i], &a->crc));
    }
    mega_buffer text = {0};
    mega_status st = description_text(c, &text);
    if (st == MEGA_OK) st = mega_file_write_atomic(c->description_path, text.data, text.size);
    mega_buffer_fini(&text);
    return st;
}

/* Frees the arrays just built before mapping the files instead, so that there is only one copy at any time. The system
 * can reclaim mapped files. */
static mega_status get_through_cache(const mega_gpt_index_spec *spec, const mega_gpt_index_plan *plan, cache_files *c,
                                     mega_gpt_share *share, const char *name, mega_gpt_index *out)
{
    const uint64_t key = key_of(&c->facts);
    if (cache_load(c, plan, name, out)) return MEGA_OK;
    if (plan->samples > WORTH_A_LINE)
        mega_info(" > %s: building the index of %lld samples", name, (long long)plan->samples);
    MEGA_TRY(mega_gpt_index_build(spec, plan, share, key, out));
    const mega_status kept = cache_store(c, out);
    if (mega_data_is_stopped(spec->stop, 0)) { /* the cached arrays serve the next run */
        mega_gpt_index_fini(out);
        return mega_data_stopped("building the sample index");
    }
    if (kept == MEGA_OK) {
        mega_debug(" > %s: index built and cached in %s", name, c->folder);
        mega_gpt_index_fini(out);
        mega_gpt_share_drop(share, key);
        return cache_load(c, plan, name, out) ? MEGA_OK : mega_gpt_index_build(spec, plan, share, key, out);
    }
    mega_warn(" > %s: index built, but not cached for the next start: %s; choose another folder with --data-cache-path "
              "FOLDER",
              name, mega_error_message());
    mega_error_clear();
    return MEGA_OK;
}

mega_status mega_gpt_index_get(const mega_gpt_index_spec *spec, const char *folder, mega_gpt_share *share,
                               const char *name, mega_gpt_index *out)
{
    mega_gpt_index_plan plan;
    cache_files c;
    MEGA_TRY(mega_gpt_index_plan_make(spec, &plan));
    MEGA_TRY(cache_files_init(&c, spec, &plan, folder));
    mega_status st = MEGA_OK;
    if (!mega_gpt_index_find(&plan, share, key_of(&c.facts), out))
        st = folder != NULL ? get_through_cache(spec, &plan, &c, share, name, out)
                            : mega_gpt_index_build(spec, &plan, share, key_of(&c.facts), out);
    cache_files_fini(&c);
    return st;
}
