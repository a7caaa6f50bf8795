/* Reads a PREFIX.bin/.idx pair. The arrays of the .idx begin at byte 34 and are not aligned, so every load is a copy.
 *
 * The file is checked completely when it is opened: later code may rely on pointers being the running sum of the sizes,
 * and on documents covering the sequences in order. */
#include "data_impl.h"
#include "megalith/file_kind.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "megalith/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { HEADER_BYTES = 34, LEGACY_MAGIC_BYTES = 8, SAMPLED_BYTES = 4096 };
static const uint8_t index_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
static const uint8_t legacy_magic[LEGACY_MAGIC_BYTES] = {'T', 'N', 'T', 'I', 'D', 'X', 0, 0};

struct mega_indexed {
    char *prefix;
    mega_map index, bin;
    const uint8_t *sizes, *pointers, *documents; /* inside `index` */
    int64_t num_sequences, num_documents, num_tokens;
    mega_dtype dtype;
    size_t element; /* bytes per token */
    uint32_t crc;
    int owners;
};

static int32_t load_i32(const uint8_t *array, int64_t i)
{
    int32_t v;
    memcpy(&v, array + 4 * i, sizeof v);
    return v;
}

static int64_t load_i64(const uint8_t *array, int64_t i)
{
    int64_t v;
    memcpy(&v, array + 8 * i, sizeof v);
    return v;
}

/* Decodes the byte at offset 17. Floating-point codes (6, 7) are not valid for tokens. */
static bool dtype_from_code(uint8_t code, mega_dtype *out)
{
    switch (code) {
    case 1: *out = MEGA_U8; return true;
    case 2: *out = MEGA_I8; return true;
    case 3: *out = MEGA_I16; return true;
    case 4: *out = MEGA_I32; return true;
    case 5: *out = MEGA_I64; return true;
    case 8: *out = MEGA_U16; return true;
    default: return false;
    }
}

static mega_status check_magic(const mega_indexed *ix)
{
    const mega_map *m = &ix->index;
    if (m->size >= LEGACY_MAGIC_BYTES && memcmp(m->data, legacy_magic, LEGACY_MAGIC_BYTES) == 0)
        return MEGA_FAIL(
            MEGA_ERR_UNSUPPORTED,
            "%s.idx: found a data set in the old format (magic TNTIDX: --dataset-impl lazy or cached), which cannot be "
            "divided into samples without reading it all; expected the mmap format (magic MMIDIDX): create it again "
            "from its text with `megalith preprocess_data`",
            ix->prefix);
    if (m->size > 0 && memcmp(m->data, index_magic, m->size < 7 ? m->size : 7) != 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s.idx", ix->prefix);
        MEGA_TRY(mega_file_kind_check(path, m->data, m->size, "an index of preprocess_data", MEGA_KIND_BINARY));
    }
    if (m->size < HEADER_BYTES)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s.idx: found %zu bytes, expected a header of at least %d bytes; the file is incomplete: create it "
            "again with `megalith preprocess_data`",
            ix->prefix, m->size, HEADER_BYTES);
    if (memcmp(m->data, index_magic, sizeof index_magic) != 0)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s.idx: byte 0: found %02x %02x %02x %02x, expected 4d 4d 49 44 (\"MMIDIDX\"); this is not the index of "
            "a token data set",
            ix->prefix, m->data[0], m->data[1], m->data[2], m->data[3]);
    const int64_t version = load_i64(m->data + 9, 0);
    if (version != 1)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s.idx: byte 9: found version %lld, expected 1", ix->prefix,
                         (long long)version);
    return MEGA_OK;
}

static mega_status index_read_header(mega_indexed *ix)
{
    MEGA_TRY(check_magic(ix));
    const uint8_t *data = ix->index.data;
    if (!dtype_from_code(data[17], &ix->dtype))
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s.idx: byte 17: found dtype code %d, expected an integer type (1 uint8, 2 int8, 3 int16, 4 int32, "
            "5 int64, 8 uint16)",
            ix->prefix, data[17]);
    ix->element = mega_dtype_size(ix->dtype);
    const int64_t n = load_i64(data + 18, 0), d = load_i64(data + 26, 0);
    const int64_t room = (int64_t)ix->index.size - HEADER_BYTES;
    if (n < 0 || n > room / 12 || d < 1 || d > (room - 12 * n) / 8)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s.idx: bytes 18 and 26 announce %lld sequences and %lld document entries, which require more than the "
            "%zu bytes found; the file is incomplete or damaged: create it again with `megalith "
            "preprocess_data`",
            ix->prefix, (long long)n, (long long)d, ix->index.size);
    const int64_t rest = room - 12 * n - 8 * d;
    if (rest != 0 && rest != n) /* one byte per sequence after the arrays: modes of multimodal data, not needed here */
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s.idx: found %zu bytes, expected %lld for %lld sequences and %lld document entries; the file is "
            "damaged: create it again with `megalith preprocess_data`",
            ix->prefix, ix->index.size, (long long)(HEADER_BYTES + 12 * n + 8 * d), (long long)n, (long long)d);
    ix->num_sequences = n;
    ix->num_documents = d - 1;
    ix->sizes = data + HEADER_BYTES;
    ix->pointers = ix->sizes + 4 * n;
    ix->documents = ix->pointers + 8 * n;
    return MEGA_OK;
}

static mega_status index_check_sequences(mega_indexed *ix)
{
    const int64_t element = (int64_t)ix->element, limit = INT64_MAX / 16;
    int64_t tokens = 0;
    for (int64_t i = 0; i < ix->num_sequences; i++) {
        const int32_t size = load_i32(ix->sizes, i);
        const int64_t pointer = load_i64(ix->pointers, i);
        if (size < 0 || tokens > limit)
            return MEGA_FAIL(MEGA_ERR_FORMAT, "%s.idx: byte %lld: sequence %lld has %d tokens; the file is damaged",
                             ix->prefix, (long long)(HEADER_BYTES + 4 * i), (long long)i, size);
        if (pointer != tokens * element)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "%s.idx: byte %lld: sequence %lld begins at byte %lld of the .bin file, expected %lld, the end of "
                "the one before; the file is damaged",
                ix->prefix, (long long)(HEADER_BYTES + 4 * ix->num_sequences + 8 * i), (long long)i, (long long)pointer,
                (long long)(tokens * element));
        tokens += size;
    }
    ix->num_tokens = tokens;
    return MEGA_OK;
}

static mega_status check_documents(const mega_indexed *ix)
{
    int64_t before = 0;
    for (int64_t i = 0; i <= ix->num_documents; i++) {
        const int64_t begin = load_i64(ix->documents, i);
        const bool wrong_end = i == ix->num_documents && begin != ix->num_sequences;
        if (begin < before || begin > ix->num_sequences || (i == 0 && begin != 0) || wrong_end)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "%s.idx: byte %lld: document entry %lld is %lld, expected 0 for the first, %lld for the last, and "
                "none less than the previous one (%lld); the file is damaged",
                ix->prefix, (long long)(HEADER_BYTES + 12 * ix->num_sequences + 8 * i), (long long)i, (long long)begin,
                (long long)ix->num_sequences, (long long)before);
        before = begin;
    }
    return MEGA_OK;
}

static mega_status check_bin(const mega_indexed *ix)
{
    const int64_t expected = ix->num_tokens * (int64_t)ix->element, found = (int64_t)ix->bin.size;
    if (found < expected)
        return MEGA_FAIL(MEGA_ERR_FORMAT,
                         "%s.bin: found %lld bytes, expected %lld (%lld tokens of %zu bytes, according to %s.idx); one "
                         "of the two is incomplete or damaged: "
                         "copy both again, or create them again with `megalith preprocess_data`",
                         ix->prefix, (long long)found, (long long)expected, (long long)ix->num_tokens, ix->element,
                         ix->prefix);
    if (found > expected)
        mega_warn(
            "%s.bin: found %lld bytes, expected %lld according to %s.idx. A preprocessor of mid-2023 wrote the end-of-"
            "document id without counting it, so that every document shifts the following ones by a token; if this "
            "pair is such a "
            "one, create it again with `megalith preprocess_data`",
            ix->prefix, (long long)found, (long long)expected, ix->prefix);
    return MEGA_OK;
}

static mega_status open_checked(mega_indexed *ix)
{
    MEGA_TRY(mega_pair_map(ix->prefix, &ix->index, &ix->bin));
    MEGA_TRY(index_read_header(ix));
    MEGA_TRY(index_check_sequences(ix));
    MEGA_TRY(check_documents(ix));
    MEGA_TRY(check_bin(ix));
    ix->crc = mega_crc32c(0, ix->index.data, ix->index.size);
    return MEGA_OK;
}

mega_status mega_indexed_open(const char *prefix, mega_indexed **out)
{
    mega_indexed *ix = mega_calloc(1, sizeof *ix);
    if (ix == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its reader", prefix);
    ix->owners = 1;
    ix->prefix = mega_strdup(prefix);
    const mega_status st = ix->prefix == NULL
                               ? MEGA_FAIL(MEGA_ERR_MEMORY, "data set %s: no memory for its reader", prefix)
                               : open_checked(ix);
    if (st != MEGA_OK) {
        mega_indexed_close(ix);
        return st;
    }
    *out = ix;
    return MEGA_OK;
}

void mega_indexed_retain(mega_indexed *ix)
{
    ix->owners++;
}

void mega_indexed_close(mega_indexed *ix)
{
    if (ix == NULL || --ix->owners > 0) return;
    mega_map_close(&ix->index);
    mega_map_close(&ix->bin);
    MEGA_FREE(ix->prefix, ix);
}

const char *mega_indexed_prefix(const mega_indexed *ix)
{
    return ix->prefix;
}

int64_t mega_indexed_sequences(const mega_indexed *ix)
{
    return ix->num_sequences;
}

int64_t mega_indexed_documents(const mega_indexed *ix)
{
    return ix->num_documents;
}

int64_t mega_indexed_tokens(const mega_indexed *ix)
{
    return ix->num_tokens;
}

mega_dtype mega_indexed_dtype(const mega_indexed *ix)
{
    return ix->dtype;
}

uint32_t mega_indexed_crc32c(const mega_indexed *ix)
{
    return ix->crc;
}

int64_t mega_indexed_index_bytes(const mega_indexed *ix)
{
    return (int64_t)ix->index.size;
}

const void *mega_indexed_raw(const mega_indexed *ix, size_t *out_bytes)
{
    *out_bytes = (size_t)ix->num_tokens * ix->element;
    return ix->bin.data;
}

uint64_t mega_indexed_hash(const mega_indexed *ix)
{
    const int64_t facts[4] = {ix->crc, (int64_t)ix->index.size, ix->num_sequences, ix->num_tokens};
    return mega_hash64(MEGA_HASH_START, facts, sizeof facts);
}

static mega_status hash_block(const mega_indexed *ix, int file, int64_t at, int64_t bytes, uint64_t *hash)
{
    char block[SAMPLED_BYTES];
    const ssize_t got = pread(file, block, (size_t)bytes, at);
    if (got != bytes)
        return MEGA_FAIL(MEGA_ERR_IO, "%s.bin: byte %lld: expected %lld bytes, %s; was the file changed meanwhile?",
                         ix->prefix, (long long)at, (long long)bytes,
                         got < 0 ? strerror(errno) : "found the end of the file");
    const uint32_t crc = mega_crc32c(0, block, (size_t)bytes);
    *hash = mega_hash64(*hash, &crc, sizeof crc);
    return MEGA_OK;
}

static mega_status hash_blocks(const mega_indexed *ix, int file, int blocks, uint64_t *hash)
{
    const int64_t size = (int64_t)ix->bin.size, all = (size + SAMPLED_BYTES - 1) / SAMPLED_BYTES;
    const int64_t count = all < blocks ? all : blocks;
    for (int64_t i = 0; i < count; i++) {
        const int64_t block =
            count < all && count > 1 ? i * (all - 1) / (count - 1) : i; /* includes the first and the last block */
        const int64_t at = block * SAMPLED_BYTES, left = size - at;
        MEGA_TRY(hash_block(ix, file, at, left < SAMPLED_BYTES ? left : SAMPLED_BYTES, hash));
    }
    return MEGA_OK;
}

mega_status mega_indexed_sample_hash(const mega_indexed *ix, int blocks, uint64_t *out)
{
    const int64_t size = (int64_t)ix->bin.size;
    uint64_t hash = mega_hash64(MEGA_HASH_START, &size, sizeof size);
    char *path = mega_format("%s.bin", ix->prefix);
    if (path == NULL) return MEGA_NO_MEMORY(ix->prefix, "a file name");
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it was mapped as a file before */
    mega_status st = file < 0 ? MEGA_FAIL(MEGA_ERR_IO, "%s: cannot be opened (%s)", path, strerror(errno)) : MEGA_OK;
    mega_free(path);
    if (st != MEGA_OK) return st;
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead of blocks that are not needed */
    st = hash_blocks(ix, file, blocks, &hash);
    close(file);
    if (st == MEGA_OK) *out = hash;
    return st;
}

int32_t mega_indexed_size(const mega_indexed *ix, int64_t sequence)
{
    return load_i32(ix->sizes, sequence);
}

int64_t mega_indexed_document(const mega_indexed *ix, int64_t document)
{
    return load_i64(ix->documents, document);
}

int64_t mega_indexed_tokens_between(const mega_indexed *ix, int64_t begin, int64_t end)
{
    const int64_t element = (int64_t)ix->element, all = ix->num_tokens;
    const int64_t from = begin < ix->num_sequences ? load_i64(ix->pointers, begin) / element : all;
    const int64_t to = end < ix->num_sequences ? load_i64(ix->pointers, end) / element : all;
    return to - from;
}

static int32_t index_saturate(int64_t v)
{
    if (v > INT32_MAX) return INT32_MAX;
    return v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

bool mega_indexed_has(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length)
{
    if (sequence < 0 || sequence >= ix->num_sequences || offset < 0 || length < 0) return false;
    if (offset > mega_indexed_size(ix, sequence) || length > mega_indexed_size(ix, sequence) - offset) return false;
    const int64_t begin = load_i64(ix->pointers, sequence) / (int64_t)ix->element;
    return begin >= 0 && begin <= ix->num_tokens - offset - length;
}

void mega_indexed_get(const mega_indexed *ix, int64_t sequence, int64_t offset, int64_t length, int32_t *out)
{
    if (length <= 0) return;
    const uint8_t *from = ix->bin.data + load_i64(ix->pointers, sequence) + offset * (int64_t)ix->element;
    switch (ix->dtype) {
    case MEGA_I32: memcpy(out, from, (size_t)length * 4); break;
    case MEGA_U16:
        for (int64_t i = 0; i < length; i++) {
            uint16_t v;
            memcpy(&v, from + 2 * i, sizeof v);
            out[i] = v;
        }
        break;
    case MEGA_I16:
        for (int64_t i = 0; i < length; i++) {
            int16_t v;
            memcpy(&v, from + 2 * i, sizeof v);
            out[i] = v;
        }
        break;
    case MEGA_U8:
        for (int64_t i = 0; i < length; i++) out[i] = from[i];
        break;
    case MEGA_I8:
        for (int64_t i = 0; i < length; i++) out[i] = (int8_t)from[i];
        break;
    default:
        for (int64_t i = 0; i < length; i++) out[i] = index_saturate(load_i64(from, i));
        break;
    }
}

mega_status mega_indexed_verify(const mega_indexed *ix, int64_t vocab_size)
{
    enum { BLOCK = 4096 };
    int32_t tokens[BLOCK];
    const int64_t top = vocab_size > 0 ? vocab_size : (int64_t)INT32_MAX;
    if ((int64_t)ix->bin.size != ix->num_tokens * (int64_t)ix->element)
        return MEGA_FAIL(MEGA_ERR_FORMAT, "%s.bin: found %zu bytes, expected %lld according to %s.idx", ix->prefix,
                         ix->bin.size, (long long)(ix->num_tokens * (int64_t)ix->element), ix->prefix);
    for (int64_t s = 0; s < ix->num_sequences; s++) {
        const int64_t size = mega_indexed_size(ix, s);
        for (int64_t at = 0; at < size; at += BLOCK) {
            const int64_t n = size - at < BLOCK ? size - at : BLOCK;
            mega_indexed_get(ix, s, at, n, tokens);
            for (int64_t i = 0; i < n; i++) {
                if (tokens[i] >= 0 && tokens[i] < top) continue;
                return MEGA_FAIL(
                    MEGA_ERR_FORMAT,
                    "%s.bin: byte %lld: token %lld of sequence %lld is %d, expected 0 to %lld; was the data "
                    "made with this tokenizer?",
                    ix->prefix, (long long)(load_i64(ix->pointers, s) + (at + i) * (int64_t)ix->element),
                    (long long)(at + i), (long long)s, tokens[i], (long long)(top - 1));
            }
        }
    }
    return MEGA_OK;
}

mega_dtype mega_indexed_dtype_for(int64_t vocab_size)
{
    return vocab_size < 65500 ? MEGA_U16 : MEGA_I32;
}
