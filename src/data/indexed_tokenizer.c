/* Which tokenizer made the ids of a data set: writes, joins and reads PREFIX.tokenizer. */
#include "megalith/indexed_tokenizer.h"
#include "megalith/file.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_COUNT = 256, COUNT_GROWS = 4 };

static char *tokenizer_path(const char *prefix)
{
    return mega_format("%s.tokenizer", prefix);
}

static void hash_counts(const mega_tokenizer *t, mega_buffer *out)
{
    const int64_t all = t != NULL ? mega_tokenizer_known_ids(t) : 0;
    for (int64_t n = FIRST_COUNT; n < all; n *= COUNT_GROWS)
        mega_buffer_printf(out, "%" PRId64 " %016" PRIx64 "\n", n, mega_tokenizer_hash_ids(t, n));
    if (all > 0) mega_buffer_printf(out, "%" PRId64 " %016" PRIx64 "\n", all, mega_tokenizer_hash_ids(t, all));
}

/* Writes these bytes; none: removes the file, which would speak of earlier data. */
static mega_status replace_tokenizer_file(const char *prefix, const char *bytes, size_t size)
{
    char *path = tokenizer_path(prefix);
    mega_status st = path != NULL ? MEGA_OK : MEGA_NO_MEMORY("data set", "the name of a file");
    if (st == MEGA_OK && size > 0) st = mega_file_write_atomic(path, bytes, size);
    else if (st == MEGA_OK && mega_file_exists(path))
        st = mega_file_remove(path);
    mega_free(path);
    return st;
}

mega_status mega_indexed_put_tokenizer(const char *prefix, const mega_tokenizer *t)
{
    mega_buffer text = {0};
    hash_counts(t, &text);
    const mega_status st = text.failed ? MEGA_NO_MEMORY("data set", "hashes of its tokenizer")
                                       : replace_tokenizer_file(prefix, text.data, text.size);
    mega_buffer_fini(&text);
    return st;
}

/* Returns false if there is no such file, or it cannot be read: nothing is known then. */
static bool read_tokenizer_file(const char *prefix, char **text, size_t *size)
{
    char *path = tokenizer_path(prefix);
    const bool is_read = path != NULL && mega_file_exists(path) && mega_file_read(path, text, size) == MEGA_OK;
    mega_free(path);
    return is_read;
}

mega_status mega_indexed_join_tokenizers(const char *const *prefix, int64_t count, const char *to)
{
    char *first = NULL;
    size_t first_size = 0;
    bool are_same = count > 0 && read_tokenizer_file(prefix[0], &first, &first_size);
    for (int64_t i = 1; i < count && are_same; i++) {
        char *text = NULL;
        size_t size = 0;
        are_same = read_tokenizer_file(prefix[i], &text, &size) && size == first_size && memcmp(text, first, size) == 0;
        mega_free(text);
    }
    const mega_status st = replace_tokenizer_file(to, first, are_same ? first_size : 0);
    mega_free(first);
    return st;
}

bool mega_indexed_may_be_of(const char *prefix, const mega_tokenizer *t)
{
    char *text = NULL;
    size_t size = 0;
    int64_t ids;
    uint64_t hash;
    bool is_same = true;
    if (t == NULL || mega_tokenizer_known_ids(t) == 0 || !read_tokenizer_file(prefix, &text, &size)) return true;
    for (const char *at = text; at != NULL && is_same; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (sscanf(at, "%" SCNd64 " %" SCNx64, &ids, &hash) != 2 || ids < 1) break;
        is_same = ids > mega_tokenizer_known_ids(t) || mega_tokenizer_hash_ids(t, ids) == hash;
    }
    mega_free(text);
    return is_same;
}

void mega_indexed_compare_tokenizer(const char *prefix, const mega_tokenizer *t)
{
    if (!mega_indexed_may_be_of(prefix, t))
        mega_warn(
            "%s.tokenizer: these data were tokenized by another tokenizer than the one of this command (%s), for "
            "which their ids are other texts; give the tokenizer of the data, or remove this file if the ids mean "
            "the same",
            prefix, mega_tokenizer_type(t));
}
