/* Reads the vocabulary of Megatron-core's TikTokenizer: a JSON list of {"rank", "token_bytes", "token_str"}, the bytes
 * in base64. Ids are ranks after a number of special ids. Two tokens are merged if what they spell is a token, the one
 * of the lowest rank first; a word that is a token is that token. */
#include "base64.h"
#include "megalith/file.h"
#include "megalith/file_kind.h"
#include "megalith/hash.h"
#include "megalith/json_cursor.h"
#include "tokenizer_impl.h"
#include <stdio.h>
#include <string.h>

enum { DEFAULT_SPECIAL = 1000, DEFAULT_SIZE = 1 << 17, BYTES = 256 };

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
static const char pattern_v2[] = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
                                 "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *const first_special[] = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
enum { FIRST_SPECIAL = sizeof first_special / sizeof first_special[0], EOS_AT = 2 };

/* Reads one entry; its bytes are left in `bytes`. */
static mega_status read_entry(mega_cursor *c, int64_t expected, mega_buffer *bytes)
{
    int64_t rank = -1;
    bool known = false;
    mega_cursor_peek(c);
    const size_t at = c->at;
    MEGA_TRY(mega_cursor_open(c, '{'));
    for (bool first = true, more;;) {
        MEGA_TRY(mega_cursor_more(c, '{', &first, &more));
        if (!more) break;
        MEGA_TRY(mega_cursor_key(c));
        if (mega_cursor_string_is(c, "rank")) {
            MEGA_TRY(mega_cursor_int(c, &rank));
        } else if (mega_cursor_string_is(c, "token_bytes")) {
            MEGA_TRY(mega_cursor_string(c));
            known = mega_base64_read(c->string.data, c->string.size, bytes) && bytes->size > 0;
        } else {
            MEGA_TRY(mega_cursor_skip(c));
        }
    }
    if (rank != expected)
        return mega_cursor_fail(c, at, "found rank %lld, expected %lld: the tokens must be in order", (long long)rank,
                                (long long)expected);
    if (!known) return mega_cursor_fail(c, at, "\"token_bytes\" is missing, empty, or not base64");
    if (rank < BYTES && (bytes->size != 1 || (uint8_t)bytes->data[0] != rank))
        return mega_cursor_fail(c, at, "the first 256 tokens must be the bytes in order");
    return mega_buffer_check(bytes, c->name);
}

static mega_status read_tokens(mega_tokenizer *t, mega_cursor *c, int64_t special, int64_t most)
{
    mega_buffer bytes = {0};
    int64_t rank = 0;
    bool first = true, more = true;
    mega_status st = mega_cursor_open(c, '[');
    while (st == MEGA_OK && rank < most) {
        st = mega_cursor_more(c, '[', &first, &more);
        if (st != MEGA_OK || !more) break;
        mega_cursor_peek(c);
        const size_t at = c->at;
        st = read_entry(c, rank, &bytes);
        if (st == MEGA_OK) st = mega_vocabulary_add(&t->vocabulary, bytes.data, bytes.size, special + rank, 0);
        if (st == MEGA_ERR_FORMAT && strstr(mega_error_message(), c->name) == NULL)
            st = mega_cursor_fail(c, at, "%s", mega_error_message());
        rank++;
    }
    mega_buffer_fini(&bytes);
    if (st == MEGA_OK && rank < most)
        return MEGA_FAIL(
            MEGA_ERR_FORMAT,
            "%s: found %lld tokens, expected %lld (the size of the vocabulary less %lld special tokens); give "
            "--vocab-size %lld",
            c->name, (long long)rank, (long long)most, (long long)special, (long long)(rank + special));
    return st;
}

static mega_status add_specials(mega_tokenizer *t, int64_t count)
{
    char name[40];
    for (int64_t i = 0; i < count; i++) {
        if (i < FIRST_SPECIAL) snprintf(name, sizeof name, "%s", first_special[i]);
        else
            snprintf(name, sizeof name, "<SPECIAL_%lld>", (long long)i);
        MEGA_TRY(mega_vocabulary_add(&t->vocabulary, name, strlen(name), i, MEGA_TOKEN_RAW));
        MEGA_TRY(mega_tokenizer_add_token(t, name, strlen(name), (int32_t)i, true, false));
    }
    t->eod = EOS_AT;
    return MEGA_OK;
}

static mega_status add_tik_merges(mega_tokenizer *t, int64_t special)
{
    const mega_vocabulary *v = &t->vocabulary;
    for (int64_t id = special + BYTES; id < v->size; id++) {
        const mega_token *token = mega_vocabulary_get(v, id);
        const char *bytes = mega_token_bytes(v, token);
        for (size_t cut = 1; cut < token->size; cut++) {
            const int32_t left = mega_vocabulary_find(v, bytes, cut, false);
            const int32_t right = left < 0 ? -1 : mega_vocabulary_find(v, bytes + cut, token->size - cut, false);
            if (right >= 0)
                MEGA_TRY(mega_merges_add_ranked(&t->merges, left, right, (int32_t)id, (int32_t)(id - special)));
        }
    }
    return MEGA_OK;
}

static mega_status make_pipeline(mega_tokenizer *t, bool v1)
{
    mega_pipeline *p = t->pipe;
    p->unknown = -1;
    p->byte_level = p->ignore_merges = p->decoder.none = true;
    if (v1) {
        p->fast = MEGA_SPLIT_PLAIN1;
        return MEGA_OK;
    }
    if (!mega_array_add(&p->pre, 0, sizeof *p->pre)) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", t->name);
    p->pre[p->num_pre++] = (mega_pre_step){.kind = MEGA_PRE_REGEX, .behavior = MEGA_SPLIT_ISOLATED};
    return mega_regex_compile(pattern_v2, strlen(pattern_v2), &p->pre[0].regex);
}

/* Kept for a folder that is loaded without options: the file, and a configuration that names the options. */
static mega_status tik_keep(mega_tokenizer *t, bool v1, int64_t special, char **text, size_t size)
{
    mega_pipeline *p = t->pipe;
    mega_buffer config = {0};
    mega_buffer_printf(&config,
                       "{\n  \"megalith_tokenizer_type\": \"TikTokenizer\",\n  \"tiktoken_pattern\": \"%s\",\n"
                       "  \"tiktoken_num_special_tokens\": %lld,\n  \"vocab_size\": %lld\n}\n",
                       v1 ? "v1" : "v2", (long long)special, (long long)t->vocabulary.size);
    MEGA_TRY(mega_buffer_check(&config, t->name));
    p->fingerprint = mega_hash64(MEGA_HASH_START, &v1, sizeof v1);
    mega_tokenizer_keep(t, MEGA_TIKTOKEN_FILE, *text, size);
    mega_tokenizer_keep(t, "tokenizer_config.json", config.data, config.size);
    *text = NULL;
    return MEGA_OK;
}

static mega_status tik_read(mega_tokenizer *t, const mega_tokenizer_options *o, char **text, size_t size)
{
    const int64_t special = o->tiktoken_special > 0 ? o->tiktoken_special : DEFAULT_SPECIAL;
    const int64_t total = o->vocab_size > 0 ? o->vocab_size : DEFAULT_SIZE;
    const bool v1 = o->tiktoken_pattern != NULL && strcmp(o->tiktoken_pattern, "v1") == 0;
    if (o->tiktoken_pattern != NULL && !v1 && strcmp(o->tiktoken_pattern, "v2") != 0)
        return MEGA_MISTAKE("--tiktoken-pattern %s; expected v1 or v2", o->tiktoken_pattern);
    if (special < FIRST_SPECIAL || special + BYTES > total || total > MEGA_MAX_VOCABULARY)
        return MEGA_MISTAKE(
            "TikTokenizer: %lld special tokens in a vocabulary of %lld; expected at least %d, and 256 more "
            "tokens for the bytes (--tiktoken-num-special-tokens, --vocab-size)",
            (long long)special, (long long)total, FIRST_SPECIAL);
    t->pipe = mega_calloc(1, sizeof *t->pipe);
    if (t->pipe == NULL) return MEGA_FAIL(MEGA_ERR_MEMORY, "%s: no memory", t->name);
    MEGA_TRY(make_pipeline(t, v1));
    MEGA_TRY(add_specials(t, special));
    mega_cursor c;
    mega_cursor_init(&c, t->name, *text, size);
    const mega_status st = read_tokens(t, &c, special, total - special);
    mega_cursor_fini(&c);
    MEGA_TRY(st);
    MEGA_TRY(add_tik_merges(t, special));
    t->special_in_data = true;
    MEGA_TRY(tik_keep(t, v1, special, text, size));
    return mega_tokenizer_finish(t);
}

mega_status mega_tokenizer_read_tiktoken(const mega_tokenizer_options *options, mega_tokenizer **out)
{
    char *text;
    size_t size;
    mega_tokenizer *t = NULL;
    MEGA_TRY(mega_file_read_kind(options->model, "a vocabulary of tiktoken", 0, &text, &size));
    mega_status st = mega_tokenizer_begin(MEGA_KIND_TIKTOKEN, options->model, &t);
    if (st == MEGA_OK) st = tik_read(t, options, &text, size);
    if (st == MEGA_OK) *out = t;
    else
        mega_tokenizer_destroy(t);
    mega_free(text);
    return st;
}
