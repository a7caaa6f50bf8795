/* Writes a PREFIX.bin/.idx pair. Token ids go to the .bin file as they come; sizes and document entries stay in memory
 * (12 bytes per document) and become the .idx at the end. The writer holds the lock of the prefix until both files are
 * renamed. */
#include "data_impl.h"
#include "megalith/memory.h"

struct mega_indexed_writer {
    char *prefix;
    mega_pair pair;
    mega_lock *lock;
    char *part[2]; /* the temporary files of .bin and .idx */
    mega_writer *bin;
    mega_dtype dtype;
    mega_buffer sizes;     /* i32 */
    mega_buffer documents; /* i64 */
    int64_t num_sequences, num_documents, num_tokens;
};

static void indexed_writer_free(mega_indexed_writer *w)
{
    mega_buffer_fini(&w->sizes);
    mega_buffer_fini(&w->documents);
    mega_lock_release(w->lock);
    for (int i = 0; i < 2; i++) mega_free(w->part[i]);
    mega_pair_fini(&w->pair);
    MEGA_FREE(w->prefix, w);
}

static mega_status index_writer_no_memory(const mega_indexed_writer *w)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for the sizes of %lld sequences", w->prefix,
                     (long long)w->num_sequences);
}

static mega_status append_i64(mega_indexed_writer *w, mega_buffer *to, int64_t value)
{
    return mega_buffer_append(to, &value, sizeof value) ? MEGA_OK : index_writer_no_memory(w);
}

/* Names the temporary files, after removing those that dead processes left. */
static mega_status prepare_parts(mega_indexed_writer *w)
{
    for (int i = 0; i < 2; i++) {
        const char *final = w->pair.path[PAIR_BIN + i], *name = mega_path_base(final);
        w->part[i] = mega_temporary_path(final);
        if (w->part[i] == NULL) return index_writer_no_memory(w);
        mega_temporaries_remove(w->pair.folder, name, name, true);
    }
    return MEGA_OK;
}

static mega_status writer_begin(mega_indexed_writer *w, const char *prefix)
{
    w->prefix = mega_strdup(prefix);
    if (w->prefix == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its writer", prefix);
    MEGA_TRY(mega_pair_init(&w->pair, w->prefix));
    MEGA_TRY(append_i64(w, &w->documents, 0));
    MEGA_TRY(mega_pair_lock(&w->pair, &w->lock));
    MEGA_TRY(mega_pair_complete(&w->pair));
    mega_lock_mark(w->lock);
    MEGA_TRY(prepare_parts(w));
    return mega_writer_create(w->part[PAIR_BIN], &w->bin);
}

mega_status mega_indexed_writer_create(const char *prefix, mega_dtype dtype, mega_indexed_writer **out)
{
    mega_indexed_writer *w = mega_calloc(1, sizeof *w);
    if (w == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its writer", prefix);
    w->dtype = dtype;
    const mega_status st = writer_begin(w, prefix);
    if (st != MEGA_OK) {
        indexed_writer_free(w);
        return st;
    }
    *out = w;
    return MEGA_OK;
}

/* Returns the code for the byte at offset 17; 0 for types that cannot hold tokens. */
static uint8_t dtype_code(mega_dtype t)
{
    switch (t) {
    case MEGA_U8: return 1;
    case MEGA_I8: return 2;
    case MEGA_I16: return 3;
    case MEGA_I32: return 4;
    case MEGA_I64: return 5;
    case MEGA_U16: return 8;
    default: return 0;
    }
}

static mega_status write_tokens(mega_indexed_writer *w, const int32_t *tokens, int64_t n)
{
    enum { BLOCK = 8192 };
    if (w->dtype == MEGA_I32) return mega_writer_write(w->bin, tokens, (size_t)n * 4);
    union {
        uint8_t u8[BLOCK];
        uint16_t u16[BLOCK];
        int64_t i64[BLOCK];
    } out;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        const int32_t *from = tokens + at;
        switch (w->dtype) {
        case MEGA_U16:
        case MEGA_I16:
            for (int64_t i = 0; i < m; i++) out.u16[i] = (uint16_t)from[i];
            break;
        case MEGA_U8:
        case MEGA_I8:
            for (int64_t i = 0; i < m; i++) out.u8[i] = (uint8_t)from[i];
            break;
        default:
            for (int64_t i = 0; i < m; i++) out.i64[i] = from[i];
            break;
        }
        MEGA_TRY(mega_writer_write(w->bin, &out, (size_t)m * mega_dtype_size(w->dtype)));
    }
    return MEGA_OK;
}

mega_status mega_indexed_writer_add_document(mega_indexed_writer *w, const int32_t *tokens, const int32_t *sizes,
                                             int64_t count)
{
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) total += sizes[i];
    if (count > 0 && !mega_buffer_append(&w->sizes, sizes, (size_t)count * 4)) return index_writer_no_memory(w);
    w->num_sequences += count;
    MEGA_TRY(append_i64(w, &w->documents, w->num_sequences));
    w->num_documents++;
    w->num_tokens += total;
    return total > 0 ? write_tokens(w, tokens, total) : MEGA_OK;
}

mega_status mega_indexed_writer_add(mega_indexed_writer *w, const int32_t *tokens, int64_t length)
{
    if (length > INT32_MAX)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "data set %s: document %lld has %lld tokens, but the format allows at most %d; split the text into smaller "
            "documents",
            w->prefix, (long long)w->num_documents, (long long)length, INT32_MAX);
    const int32_t size = (int32_t)length;
    return mega_indexed_writer_add_document(w, tokens, &size, length > 0 ? 1 : 0);
}

mega_status mega_indexed_writer_merge(mega_indexed_writer *w, const mega_indexed *other)
{
    if (mega_indexed_dtype(other) != w->dtype)
        return MEGA_MISTAKE(
            "data set %s: its tokens are %s, those merged before it are %s; data sets can be merged only if "
            "they were made with the same tokenizer",
            mega_indexed_prefix(other), mega_dtype_name(mega_indexed_dtype(other)), mega_dtype_name(w->dtype));
    const int64_t n = mega_indexed_sequences(other), d = mega_indexed_documents(other);
    for (int64_t i = 0; i < n; i++) {
        const int32_t size = mega_indexed_size(other, i);
        if (!mega_buffer_append(&w->sizes, &size, sizeof size)) return index_writer_no_memory(w);
    }
    for (int64_t i = 1; i <= d; i++)
        MEGA_TRY(append_i64(w, &w->documents, w->num_sequences + mega_indexed_document(other, i)));
    w->num_sequences += n;
    w->num_documents += d;
    w->num_tokens += mega_indexed_tokens(other);
    size_t bytes;
    const void *raw = mega_indexed_raw(other, &bytes);
    return bytes > 0 ? mega_writer_write(w->bin, raw, bytes) : MEGA_OK;
}

int64_t mega_indexed_writer_tokens(const mega_indexed_writer *w)
{
    return w->num_tokens;
}

int64_t mega_indexed_writer_documents(const mega_indexed_writer *w)
{
    return w->num_documents;
}

static mega_status write_index(const mega_indexed_writer *w, mega_writer *f)
{
    const uint8_t magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
    const int64_t version = 1, counts[2] = {w->num_sequences, w->num_documents + 1};
    const uint8_t code = dtype_code(w->dtype);
    MEGA_TRY(mega_writer_write(f, magic, sizeof magic));
    MEGA_TRY(mega_writer_write(f, &version, sizeof version));
    MEGA_TRY(mega_writer_write(f, &code, 1));
    MEGA_TRY(mega_writer_write(f, counts, sizeof counts));
    if (w->num_sequences > 0) MEGA_TRY(mega_writer_write(f, w->sizes.data, w->sizes.size));
    const int64_t element = (int64_t)mega_dtype_size(w->dtype);
    int64_t pointer = 0;
    for (int64_t i = 0; i < w->num_sequences; i++) {
        MEGA_TRY(mega_writer_write(f, &pointer, sizeof pointer));
        int32_t size;
        memcpy(&size, w->sizes.data + 4 * i, sizeof size);
        pointer += size * element;
    }
    return mega_writer_write(f, w->documents.data, w->documents.size);
}

static mega_status finish_parts(mega_indexed_writer *w)
{
    mega_writer *f;
    mega_status st = mega_writer_close(w->bin, true);
    w->bin = NULL;
    if (st != MEGA_OK) return st;
    MEGA_TRY(mega_writer_create(w->part[PAIR_IDX], &f));
    st = write_index(w, f);
    if (st == MEGA_OK) return mega_writer_close(f, true);
    mega_writer_abandon(f);
    return st;
}

static void remove_parts(mega_indexed_writer *w)
{
    if (w->bin != NULL) mega_writer_abandon(w->bin);
    for (int i = 0; i < 2; i++) mega_file_discard(w->part[i]);
}

mega_status mega_indexed_writer_finish(mega_indexed_writer *w)
{
    mega_status st = finish_parts(w);
    if (st == MEGA_OK) st = mega_map_check(); /* bytes copied from a truncated file would be zeros */
    if (st == MEGA_OK) st = mega_lock_hold(w->lock);
    if (st == MEGA_OK) st = mega_pair_commit(&w->pair, w->part[PAIR_BIN], w->part[PAIR_IDX]);
    if (st != MEGA_OK) remove_parts(w);
    indexed_writer_free(w);
    return st;
}

void mega_indexed_writer_abandon(mega_indexed_writer *w)
{
    if (w == NULL) return;
    remove_parts(w);
    indexed_writer_free(w);
}
