/* Recognises outputs of this program by their content. */
#include "megalith/output.h"
#include "megalith/file.h"

#include <stdio.h>
#include <string.h>

enum { HEAD = 4096, TAIL = 64 };

/* The first and the last bytes of a file, as texts. */
typedef struct ends {
    char head[HEAD + 1], tail[TAIL + 1];
} ends;

static bool read_ends(const char *path, ends *out)
{
    FILE *f = mega_file_is_regular(path) ? fopen(path, "rb") : NULL;
    if (f == NULL) return false;
    out->head[fread(out->head, 1, HEAD, f)] = '\0';
    if (fseek(f, -TAIL, SEEK_END) != 0) rewind(f);
    out->tail[fread(out->tail, 1, TAIL, f)] = '\0';
    fclose(f);
    return true;
}

static bool output_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A corpus in JSON lines has "text" too, but no field for whether the text was finished. */
static bool is_texts(const ends *e)
{
    return output_begins(e->head, "{\"text\":\"") && (mega_path_ends_with(e->tail, ",\"finished\":true}\n") ||
                                                      mega_path_ends_with(e->tail, ",\"finished\":false}\n"));
}

/* Keys are in order, so that these come first. A comment is the work of a person. */
static bool is_config(const ends *e)
{
    static const char *const first[] = {
        "compute_environment: ", "{\n  \"compute_environment\": ", "command_file: ", "{\n  \"command_file\": "};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (output_begins(e->head, first[i])) return strchr(e->head, '#') == NULL;
    return false;
}

/* A safetensors file begins with 8 bytes that are no text. */
static bool has_logits(const char *path)
{
    static const char begin[] = "{\"__metadata__\":{\"" MEGA_OUTPUT_LOGITS_KEY "\"";
    char head[8 + sizeof begin] = {0};
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    const size_t n = fread(head, 1, 8 + sizeof begin - 1, f);
    fclose(f);
    return n == 8 + sizeof begin - 1 && memcmp(head + 8, begin, sizeof begin - 1) == 0;
}

/* The header of an array of two dimensions, which fits in 128 bytes, is longer than that. */
static bool has_embeddings(const ends *e)
{
    static const char begin[] = "\x93NUMPY\x01";
    const unsigned char length = (unsigned char)e->head[8];
    return memcmp(e->head, begin, sizeof begin) == 0 && length == 128 - 10 + MEGA_OUTPUT_EMBEDDINGS_PADDING &&
           e->head[9] == '\0' && output_begins(e->head + 10, "{'descr': '<f4', 'fortran_order': False, ");
}

static bool is_output(const char *path, mega_output_kind kind)
{
    ends e;
    if (!read_ends(path, &e)) return false;
    switch (kind) {
    case MEGA_OUTPUT_PLOT: return output_begins(e.head, "<svg ") && strstr(e.head, MEGA_OUTPUT_PLOT_MARK) != NULL;
    case MEGA_OUTPUT_SCHEDULE:
        return output_begins(e.head, "<svg ") && strstr(e.head, MEGA_OUTPUT_SCHEDULE_MARK) != NULL;
    case MEGA_OUTPUT_TRACE: return output_begins(e.head, "{") && strstr(e.head, MEGA_OUTPUT_TRACE_MARK) != NULL;
    case MEGA_OUTPUT_TEXTS: return is_texts(&e);
    case MEGA_OUTPUT_SAMPLES: return output_begins(e.head, "\nContext:");
    case MEGA_OUTPUT_LOGITS: return has_logits(path);
    case MEGA_OUTPUT_INDEX: return output_begins(e.head, "MMIDIDX");
    case MEGA_OUTPUT_ABOUT: return output_begins(e.head, MEGA_OUTPUT_ABOUT_MARK);
    case MEGA_OUTPUT_REPORT:
        return output_begins(e.head, "<!DOCTYPE html>") && strstr(e.head, MEGA_OUTPUT_REPORT_MARK) != NULL;
    case MEGA_OUTPUT_CONFIG: return is_config(&e);
    case MEGA_OUTPUT_FLOPS: return strstr(e.head, MEGA_OUTPUT_FLOPS_MARK) != NULL;
    case MEGA_OUTPUT_EMBEDDINGS: return has_embeddings(&e);
    case MEGA_OUTPUT_TOKENIZER: break;
    }
    return false;
}

static bool folder_holds(const char *folder, const char *name, char path[])
{
    snprintf(path, HEAD, "%s/%s", folder, name);
    return mega_file_exists(path);
}

/* In a folder with a model (config.json) the vocabulary belongs to the model. Our tokenizer.json has the pre-tokenizer
 * on one line; the Hugging Face tokenizers library spreads it over several. WordPiece and Unigram say in their
 * configuration that they were trained here. */
static bool is_free_for_tokenizer(const char *folder)
{
    static const char *const replaced[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                                           "vocab.txt",      "tokenizer.model"};
    char path[HEAD];
    ends e;
    bool is_there = false;
    if (!mega_folder_exists(folder)) return !mega_file_exists(folder);
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) is_there |= folder_holds(folder, replaced[i], path);
    if (!is_there) return true;
    if (folder_holds(folder, "config.json", path)) return false;
    if (folder_holds(folder, "tokenizer_config.json", path) && read_ends(path, &e) &&
        output_begins(e.head, "{\n  \"megalith_trained\": true,"))
        return true;
    return folder_holds(folder, "tokenizer.json", path) && read_ends(path, &e) &&
           output_begins(e.head, "{\n  \"version\": \"1.0\",") &&
           strstr(e.head, "\n  \"pre_tokenizer\": {\"type\": ") != NULL;
}

bool mega_output_is_free(const char *path, mega_output_kind kind)
{
    int64_t size = 0;
    if (kind == MEGA_OUTPUT_TOKENIZER) return is_free_for_tokenizer(path);
    if (!mega_file_is_regular(path)) return true;
    if (mega_file_size(path, &size) == MEGA_OK && size == 0) return true;
    return is_output(path, kind);
}

const char *mega_output_name(mega_output_kind kind)
{
    static const char *const name[] = {"a plot of megalith",
                                       "a schedule drawn by megalith",
                                       "a trace of megalith",
                                       "JSON lines of generate_samples_gpt",
                                       "samples of generate_samples_gpt",
                                       "logits of generate_samples_gpt",
                                       "an index of a data set",
                                       "a description of a run of megalith",
                                       "a report of megalith",
                                       "a configuration without comments",
                                       "a report of the flops profiler",
                                       "a tokenizer of train_tokenizer",
                                       "an array of embed"};
    return name[kind];
}
