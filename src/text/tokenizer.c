/* Creates and queries tokenizers, and decodes ids. Reading files: tokenizer_files.c, tokenizer_json.c; text to ids:
 * encoder.c. */
#include "megalith/tokenizer.h"
#include "megalith/file.h"
#include "megalith/hash.h"
#include "megalith/log.h"
#include "tokenizer_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [MEGA_KIND_BPE] = "GPT2BPETokenizer",
    [MEGA_KIND_BYTE] = "ByteTokenizer",
    [MEGA_KIND_CHAR] = "CharTokenizer",
    [MEGA_KIND_NULL] = "NullTokenizer",
};

mega_status mega_tokenizer_begin(mega_tokenizer_kind kind, const char *name, mega_tokenizer **out)
{
    mega_tokenizer *t = mega_calloc(1, sizeof *t);
    char *copy = mega_strdup(name);
    if (t == NULL || copy == NULL) {
        mega_free(t);
        mega_free(copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", name);
    }
    t->kind = kind;
    t->name = copy;
    t->eod = -1;
    *out = t;
    return MEGA_OK;
}

void mega_tokenizer_destroy(mega_tokenizer *t)
{
    if (t == NULL) return;
    mega_vocabulary_fini(&t->vocabulary);
    mega_merges_fini(&t->merges);
    mega_pair_table_fini(&t->pairs);
    for (int i = 0; i < t->num_added; i++) mega_free(t->added[i].content);
    mega_free(t->added);
    mega_free(t->name);
    mega_free(t);
}

size_t mega_tokenizer_bytes(const mega_tokenizer *t)
{
    if (t == NULL) return 0;
    size_t bytes = sizeof *t + mega_vocabulary_bytes(&t->vocabulary) + mega_merges_bytes(&t->merges) +
                   mega_pair_table_bytes(&t->pairs) + (size_t)t->num_added * sizeof *t->added;
    for (int i = 0; i < t->num_added; i++) bytes += t->added[i].size + 1;
    return bytes;
}

mega_status mega_tokenizer_add_token(mega_tokenizer *t, const char *content, size_t n, int32_t id, bool special,
                                     bool normalized)
{
    char *copy = mega_strndup(content, n);
    if (copy == NULL || !mega_array_add(&t->added, t->num_added, sizeof *t->added)) {
        mega_free(copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory for added tokens", t->name);
    }
    t->added[t->num_added++] =
        (mega_added_token){.content = copy, .size = n, .id = id, .special = special, .normalized = normalized};
    if (special) t->vocabulary.token[id].flags |= MEGA_TOKEN_SPECIAL;
    t->has_plain_added = t->has_plain_added || !special;
    return MEGA_OK;
}

mega_status mega_tokenizer_add_end_of_text(mega_tokenizer *t)
{
    const int32_t id = mega_vocabulary_find(&t->vocabulary, MEGA_END_OF_TEXT, strlen(MEGA_END_OF_TEXT), false);
    if (id < 0) return MEGA_OK;
    t->eod = id;
    return mega_tokenizer_add_token(t, MEGA_END_OF_TEXT, strlen(MEGA_END_OF_TEXT), id, true, false);
}

static uint64_t hash_number(uint64_t hash, int64_t number)
{
    return mega_hash64(hash, &number, sizeof number);
}

uint64_t mega_tokenizer_fingerprint(const mega_tokenizer *t)
{
    uint64_t hash = mega_hash64(MEGA_HASH_START, kind_names[t->kind], strlen(kind_names[t->kind]));
    hash = hash_number(hash, t->size);
    hash = hash_number(hash, t->eod);
    for (int64_t id = 0; id < t->vocabulary.size; id++) {
        const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
        if (token == NULL) continue;
        hash = hash_number(hash, id);
        hash = hash_number(hash, token->flags & MEGA_TOKEN_RAW);
        hash = hash_number(hash, token->size);
        hash = mega_hash64(hash, mega_token_bytes(&t->vocabulary, token), token->size);
    }
    for (int64_t i = 0; i < t->merges.count; i++) {
        hash = hash_number(hash, t->merges.list[i].left);
        hash = hash_number(hash, t->merges.list[i].right);
    }
    for (int i = 0; i < t->num_added; i++) {
        hash = hash_number(hash, t->added[i].id);
        hash = hash_number(hash, t->added[i].special);
    }
    return hash;
}

mega_status mega_tokenizer_finish(mega_tokenizer *t)
{
    MEGA_TRY(mega_merges_seal(&t->merges));
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        t->byte_id[b] = mega_vocabulary_find(&t->vocabulary, &byte, 1, false);
    }
    MEGA_TRY(mega_pair_table_init(&t->pairs, &t->merges, t->byte_id));
    if (t->kind != MEGA_KIND_NULL) t->size = t->vocabulary.size;
    return MEGA_OK;
}

/* Ids 0..255 are the bytes themselves and not GPT-2's order, so that the text is visible in a hex dump of the data. */
mega_status mega_tokenizer_make_bytes(mega_tokenizer **out)
{
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_tokenizer_begin(MEGA_KIND_BYTE, "ByteTokenizer", &t));
    mega_status st = MEGA_OK;
    for (int b = 0; b < 256 && st == MEGA_OK; b++) {
        const char byte = (char)b;
        st = mega_vocabulary_add(&t->vocabulary, &byte, 1, b, 0);
    }
    if (st == MEGA_OK) st = mega_vocabulary_add(&t->vocabulary, MEGA_END_OF_TEXT, strlen(MEGA_END_OF_TEXT), 256, 0);
    if (st == MEGA_OK) st = mega_tokenizer_add_end_of_text(t);
    if (st == MEGA_OK) st = mega_tokenizer_finish(t);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

static mega_status make_null(int64_t vocab_size, mega_tokenizer **out)
{
    if (vocab_size < 1 || vocab_size >= MEGA_MAX_VOCABULARY)
        return MEGA_FAIL(MEGA_ERR_USAGE, "NullTokenizer: --vocab-size %lld; expected 1 to %d", (long long)vocab_size,
                         MEGA_MAX_VOCABULARY - 1);
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_tokenizer_begin(MEGA_KIND_NULL, "NullTokenizer", &t));
    t->eod = (int32_t)vocab_size;
    t->size = vocab_size + 1;
    const mega_status st = mega_tokenizer_finish(t);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    return st;
}

static mega_status create_bpe(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    if (o->vocab_file == NULL)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "GPT2BPETokenizer: --vocab-file is missing; give --vocab-file vocab.json --merge-file merges.txt, "
            "or --vocab-file tokenizer.json");
    bool is_json;
    MEGA_TRY(mega_tokenizer_is_json(&is_json, o->vocab_file));
    if (!is_json && o->merge_file == NULL)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "GPT2BPETokenizer: --merge-file is missing, and %s contains no merges; give the merges.txt that "
            "belongs to it",
            o->vocab_file);
    if (is_json && o->merge_file != NULL)
        return MEGA_FAIL(
            MEGA_ERR_USAGE,
            "GPT2BPETokenizer: --vocab-file %s is a tokenizer.json with merges of its own, but --merge-file %s "
            "is given too; drop --merge-file or give a vocab.json",
            o->vocab_file, o->merge_file);
    return is_json ? mega_tokenizer_read_json(o->vocab_file, out)
                   : mega_tokenizer_read_bpe(o->vocab_file, o->merge_file, out);
}

static mega_status create_char(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    if (o->vocab_file == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "CharTokenizer: --vocab-file is missing; create one with: megalith train_tokenizer "
                         "--tokenizer-type CharTokenizer --input FILES --output FOLDER");
    bool is_json;
    MEGA_TRY(mega_tokenizer_is_json(&is_json, o->vocab_file));
    return is_json ? mega_tokenizer_read_json(o->vocab_file, out) : mega_tokenizer_read_char(o->vocab_file, out);
}

void mega_tokenizer_check_vocab_size(const mega_tokenizer *t, int64_t vocab_size)
{
    const int64_t used = t->kind == MEGA_KIND_NULL ? t->size - 1 : t->size;
    if (vocab_size == 0 || vocab_size == used) return;
    mega_warn("--vocab-size %lld has no effect: the %s has %lld ids; leave the option out", (long long)vocab_size,
              kind_names[t->kind], (long long)used);
}

mega_status mega_tokenizer_create(const mega_tokenizer_options *o, mega_tokenizer **out)
{
    static const char *const later[] = {"BertWordPieceLowerCase",    "BertWordPieceCase", "SentencePieceTokenizer",
                                        "GPTSentencePieceTokenizer", "Llama2Tokenizer",   "HFTokenizer",
                                        "HuggingFaceTokenizer",      "TikTokenizer",      "PretrainedFromHF"};
    const char *known = "expected GPT2BPETokenizer, ByteTokenizer, CharTokenizer or NullTokenizer";
    if (o->type == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "--tokenizer-type is missing; %s", known);
    mega_tokenizer *t = NULL;
    if (strcmp(o->type, kind_names[MEGA_KIND_BPE]) == 0) {
        const mega_status st = create_bpe(o, &t);
        if (st == MEGA_ERR_FORMAT)
            MEGA_CONTEXT("GPT2BPETokenizer takes --vocab-file vocab.json with --merge-file merges.txt, or --vocab-file "
                         "tokenizer.json");
        MEGA_TRY(st);
    } else if (strcmp(o->type, kind_names[MEGA_KIND_BYTE]) == 0) {
        MEGA_TRY(mega_tokenizer_make_bytes(&t));
    } else if (strcmp(o->type, kind_names[MEGA_KIND_CHAR]) == 0) {
        const mega_status st = create_char(o, &t);
        if (st == MEGA_ERR_FORMAT)
            MEGA_CONTEXT(
                "CharTokenizer takes --vocab-file with a JSON list of characters, as train_tokenizer writes it");
        MEGA_TRY(st);
    } else if (strcmp(o->type, kind_names[MEGA_KIND_NULL]) == 0) {
        MEGA_TRY(make_null(o->vocab_size, &t));
    } else {
        for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
            if (strcmp(o->type, later[i]) == 0)
                return MEGA_FAIL(MEGA_ERR_UNSUPPORTED, "--tokenizer-type %s is not implemented yet; %s", o->type,
                                 known);
        return MEGA_FAIL(MEGA_ERR_USAGE, "--tokenizer-type %s is not known; %s", o->type, known);
    }
    if (strcmp(o->type, kind_names[t->kind]) != 0) {
        const mega_status st = MEGA_FAIL(MEGA_ERR_USAGE, "--vocab-file %s holds a %s, but --tokenizer-type is %s",
                                         o->vocab_file, kind_names[t->kind], o->type);
        mega_tokenizer_destroy(t);
        return st;
    }
    mega_tokenizer_check_vocab_size(t, o->vocab_size);
    *out = t;
    return MEGA_OK;
}

static mega_status load_folder(const char *folder, const char *json, const char *vocab, const char *merges,
                               mega_tokenizer **out)
{
    if (json == NULL || vocab == NULL || merges == NULL)
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer folder %s: no memory", folder);
    if (mega_file_exists(json)) return mega_tokenizer_read_json(json, out);
    if (mega_file_exists(vocab) && mega_file_exists(merges)) return mega_tokenizer_read_bpe(vocab, merges, out);
    return MEGA_FAIL(
        MEGA_ERR_NOT_FOUND,
        "tokenizer folder %s: it contains neither tokenizer.json nor vocab.json with merges.txt; copy them there "
        "or name the folder that has them",
        folder);
}

mega_status mega_tokenizer_load(const char *path, mega_tokenizer **out)
{
    if (!mega_folder_exists(path)) return mega_tokenizer_read_json(path, out);
    char *json = mega_path_join(path, "tokenizer.json"), *vocab = mega_path_join(path, "vocab.json");
    char *merges = mega_path_join(path, "merges.txt");
    const mega_status st = load_folder(path, json, vocab, merges, out);
    mega_free(json);
    mega_free(vocab);
    mega_free(merges);
    return st;
}

const char *mega_tokenizer_type(const mega_tokenizer *t)
{
    return kind_names[t->kind];
}

int64_t mega_tokenizer_size(const mega_tokenizer *t)
{
    return t->size;
}

int32_t mega_tokenizer_eod(const mega_tokenizer *t)
{
    return t->eod;
}

int32_t mega_tokenizer_find(const mega_tokenizer *t, const char *bytes, size_t n)
{
    for (int i = 0; i < t->num_added; i++)
        if (t->added[i].size == n && memcmp(t->added[i].content, bytes, n) == 0) return t->added[i].id;
    if (t->kind == MEGA_KIND_NULL) {
        char text[16] = "", again[16];
        if (n == 0 || n >= sizeof text) return -1;
        memcpy(text, bytes, n);
        const long id = strtol(text, NULL, 10);
        snprintf(again, sizeof again, "%ld", id);
        return strcmp(text, again) == 0 && id >= 0 && id < t->size ? (int32_t)id : -1;
    }
    return mega_vocabulary_find(&t->vocabulary, bytes, n, false);
}

bool mega_tokenizer_is_special(const mega_tokenizer *t, int32_t id)
{
    if (t->kind == MEGA_KIND_NULL) return id == t->eod;
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    return token != NULL && (token->flags & MEGA_TOKEN_SPECIAL) != 0;
}

static mega_status append_piece(const mega_tokenizer *t, int32_t id, int64_t index, mega_buffer *out)
{
    if (id < 0 || id >= t->size)
        return MEGA_FAIL(MEGA_ERR_USAGE, "id %d at index %lld is not in the vocabulary of %s; its ids are 0 to %lld",
                         id, (long long)index, t->name, (long long)t->size - 1);
    if (t->kind == MEGA_KIND_NULL) {
        mega_buffer_printf(out, index == 0 ? "%d" : " %d", id);
        return MEGA_OK;
    }
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    if (token == NULL)
        return MEGA_FAIL(MEGA_ERR_USAGE, "id %d at index %lld is a gap in the vocabulary of %s: no token has this id",
                         id, (long long)index, t->name);
    mega_buffer_append(out, mega_token_bytes(&t->vocabulary, token), token->size);
    return MEGA_OK;
}

mega_status mega_tokenizer_decode(const mega_tokenizer *t, const int32_t *ids, int64_t count, mega_buffer *out)
{
    for (int64_t i = 0; i < count; i++) MEGA_TRY(append_piece(t, ids[i], i, out));
    return mega_buffer_check(out, "decoded text");
}

mega_status mega_tokenizer_piece(const mega_tokenizer *t, int32_t id, mega_buffer *out)
{
    MEGA_TRY(append_piece(t, id, 0, out));
    return mega_buffer_check(out, "decoded token");
}

mega_status mega_ids_reserve(mega_ids *ids, int64_t more)
{
    if (mega_array_reserve(&ids->id, &ids->capacity, ids->count + more, sizeof *ids->id)) return MEGA_OK;
    return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory for %lld ids", (long long)(ids->count + more));
}

void mega_ids_fini(mega_ids *ids)
{
    mega_free(ids->id);
    *ids = (mega_ids){0};
}
