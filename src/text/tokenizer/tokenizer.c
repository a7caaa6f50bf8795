/* Makes and queries tokenizers. What options and folders name: tokenizer_create.c; text to ids: encoder.c; ids to text:
 * decoder.c. */
#include "megalith/tokenizer.h"
#include "megalith/hash.h"
#include "tokenizer_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool needs_model; /* --tokenizer-model */
} kinds[MEGA_KINDS] = {
    [MEGA_KIND_BPE] = {"GPT2BPETokenizer", false},
    [MEGA_KIND_BYTE] = {"ByteTokenizer", false},
    [MEGA_KIND_CHAR] = {"CharTokenizer", false},
    [MEGA_KIND_NULL] = {"NullTokenizer", false},
    [MEGA_KIND_HUGGINGFACE] = {"HuggingFaceTokenizer", true},
    [MEGA_KIND_SENTENCEPIECE] = {"SentencePieceTokenizer", true},
    [MEGA_KIND_GPT_SENTENCEPIECE] = {"GPTSentencePieceTokenizer", true},
    [MEGA_KIND_LLAMA2] = {"Llama2Tokenizer", true},
    [MEGA_KIND_TIKTOKEN] = {"TikTokenizer", true},
    [MEGA_KIND_BERT_LOWER] = {"BertWordPieceLowerCase", false},
    [MEGA_KIND_BERT_CASED] = {"BertWordPieceCase", false},
};

const char *mega_tokenizer_kind_name(mega_tokenizer_kind kind)
{
    return kinds[kind].name;
}

bool mega_tokenizer_kind_needs_model(mega_tokenizer_kind kind)
{
    return kinds[kind].needs_model;
}

mega_status mega_tokenizer_begin(mega_tokenizer_kind kind, const char *name, mega_tokenizer **out)
{
    mega_tokenizer *t = mega_calloc(1, sizeof *t);
    char *copy = mega_strdup(name);
    if (t == NULL || copy == NULL) {
        MEGA_FREE(t, copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory", name);
    }
    t->kind = kind;
    t->name = copy;
    t->eod = -1;
    for (int i = 0; i < MEGA_ROLES; i++) t->role[i] = -1;
    *out = t;
    return MEGA_OK;
}

void mega_tokenizer_destroy(mega_tokenizer *t)
{
    if (t == NULL) return;
    mega_vocabulary_fini(&t->vocabulary);
    mega_merges_fini(&t->merges);
    mega_pair_table_fini(&t->pairs);
    for (int i = 0; i < t->num_added; i++) {
        MEGA_FREE(t->added[i].content, t->added[i].pattern.data);
    }
    mega_free(t->added);
    mega_pipeline_destroy(t->pipe);
    for (int i = 0; i < t->num_files; i++) mega_free(t->files[i].bytes);
    MEGA_FREE(t->name, t);
}

size_t mega_tokenizer_bytes(const mega_tokenizer *t)
{
    if (t == NULL) return 0;
    size_t bytes = sizeof *t + mega_vocabulary_bytes(&t->vocabulary) + mega_merges_bytes(&t->merges) +
                   mega_pair_table_bytes(&t->pairs) + (size_t)t->num_added * sizeof *t->added +
                   mega_pipeline_bytes(t->pipe);
    for (int i = 0; i < t->num_added; i++) bytes += t->added[i].size + 1;
    for (int i = 0; i < t->num_files; i++) bytes += t->files[i].size;
    return bytes;
}

mega_status mega_tokenizer_add_token(mega_tokenizer *t, const char *content, size_t n, int32_t id, bool special,
                                     bool normalized)
{
    char *copy = mega_calloc(n + 1, 1); /* a token may have zero bytes inside */
    if (copy != NULL && n > 0) memcpy(copy, content, n);
    if (copy == NULL || !mega_array_add(&t->added, t->num_added, sizeof *t->added)) {
        mega_free(copy);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer %s: no memory for added tokens", t->name);
    }
    t->added[t->num_added++] =
        (mega_added_token){.content = copy, .size = n, .id = id, .special = special, .normalized = normalized};
    if (special) t->vocabulary.token[id].flags |= MEGA_TOKEN_SPECIAL;
    t->has_plain_added = t->has_plain_added || !special;
    if (n > 0) t->added_begins[normalized][(uint8_t)content[0]] = true;
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
    uint64_t hash = mega_hash64(MEGA_HASH_START, kinds[t->kind].name, strlen(kinds[t->kind].name));
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
    return t->pipe == NULL ? hash : hash_number(hash, (int64_t)t->pipe->fingerprint);
}

int64_t mega_tokenizer_known_ids(const mega_tokenizer *t)
{
    return t->vocabulary.size;
}

uint64_t mega_tokenizer_hash_ids(const mega_tokenizer *t, int64_t count)
{
    uint64_t hash = MEGA_HASH_START;
    for (int64_t id = 0; id < count && id < t->vocabulary.size; id++) {
        const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
        if (token == NULL) continue;
        hash = hash_number(hash, id);
        hash = hash_number(hash, token->size);
        hash = mega_hash64(hash, mega_token_bytes(&t->vocabulary, token), token->size);
    }
    return hash;
}

static int only_byte(const bool begins[256])
{
    int only = -1;
    for (int b = 0; b < 256; b++)
        if (begins[b]) only = only == -1 ? b : -2;
    return only;
}

mega_status mega_tokenizer_finish(mega_tokenizer *t)
{
    for (int pass = 0; pass < 2; pass++) t->added_only[pass] = only_byte(t->added_begins[pass]);
    MEGA_TRY(mega_merges_seal(&t->merges));
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        t->byte_id[b] = mega_vocabulary_find(&t->vocabulary, &byte, 1, false);
    }
    MEGA_TRY(mega_pair_table_init(&t->pairs, &t->merges, t->byte_id));
    if (t->kind != MEGA_KIND_NULL) t->size = t->vocabulary.size;
    return t->pipe != NULL && t->pipe->ignore_merges ? mega_pipeline_find_whole(t, t->pipe) : MEGA_OK;
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

const char *mega_tokenizer_type(const mega_tokenizer *t)
{
    return kinds[t->kind].name;
}

int64_t mega_tokenizer_size(const mega_tokenizer *t)
{
    return t->size;
}

int32_t mega_tokenizer_eod(const mega_tokenizer *t)
{
    return t->eod;
}

int32_t mega_tokenizer_named(const mega_tokenizer *t, mega_role role)
{
    return t->role[role];
}

int32_t mega_tokenizer_role(const mega_tokenizer *t, mega_role role, const char *names)
{
    return t->role[role] >= 0 ? t->role[role] : mega_tokenizer_find_first(t, names);
}

void mega_tokenizer_set_roles(mega_tokenizer *t, const mega_folder_rules *rules)
{
    for (int i = 0; i < MEGA_ROLES; i++) {
        const mega_rule_token *token = &rules->role[i].token;
        t->role[i] = token->content == NULL ? -1 : mega_tokenizer_find(t, token->content, token->size);
    }
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

int32_t mega_tokenizer_find_first(const mega_tokenizer *t, const char *names)
{
    int32_t id = -1;
    for (size_t size; id < 0 && *(names += strspn(names, " ")) != '\0'; names += size) {
        size = strcspn(names, " ");
        id = mega_tokenizer_find(t, names, size);
    }
    return id;
}

bool mega_tokenizer_continues_word(const mega_tokenizer *t, int32_t id)
{
    const mega_text *inner = t->pipe != NULL ? &t->pipe->inner : NULL;
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    return inner != NULL && inner->size > 0 && token != NULL && token->size >= inner->size &&
           memcmp(mega_token_bytes(&t->vocabulary, token), inner->data, inner->size) == 0;
}

bool mega_tokenizer_is_special(const mega_tokenizer *t, int32_t id)
{
    if (t->kind == MEGA_KIND_NULL) return id == t->eod;
    const mega_token *token = mega_vocabulary_get(&t->vocabulary, id);
    return token != NULL && (token->flags & MEGA_TOKEN_SPECIAL) != 0;
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
