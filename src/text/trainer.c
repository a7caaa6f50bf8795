/* Trainers of the three kinds. BPE keeps the words of the text and their counts; characters keep which characters
 * occur; bytes keep nothing. */
#include "trainer.h"
#include "bpe_train.h"
#include "megalith/tokenizer_train.h"
#include "megalith/utf8.h"
#include "symbols.h"
#include "tokenizer_impl.h"
#include "word_counts.h"
#include <string.h>

enum { CODE_POINTS = 0x110000 };

struct mega_trainer {
    mega_tokenizer_kind kind;
    int64_t vocab_size, min_frequency;
    mega_word_counts words; /* for BPE */
    uint8_t *seen;          /* for characters: one bit per code point */
    size_t bytes;           /* total of all documents so far, for messages */
    mega_trainer_report *report;
    void *user;
};

static mega_status trainer_check_options(const mega_trainer_options *o, mega_tokenizer_kind *kind)
{
    if (o->type == NULL) return MEGA_FAIL(MEGA_ERR_USAGE, "--tokenizer-type is missing");
    if (strcmp(o->type, "CharTokenizer") == 0) {
        *kind = MEGA_KIND_CHAR;
    } else if (strcmp(o->type, "ByteTokenizer") == 0) {
        *kind = MEGA_KIND_BYTE;
    } else if (strcmp(o->type, "GPT2BPETokenizer") == 0) {
        *kind = MEGA_KIND_BPE;
    } else {
        return MEGA_FAIL(MEGA_ERR_USAGE,
                         "--tokenizer-type %s cannot be trained; expected GPT2BPETokenizer, CharTokenizer "
                         "or ByteTokenizer",
                         o->type);
    }
    if (*kind == MEGA_KIND_BPE && (o->vocab_size < 257 || o->vocab_size > MEGA_MAX_VOCABULARY))
        return MEGA_FAIL(MEGA_ERR_USAGE, "--vocab-size %lld; expected 257 (256 bytes and " MEGA_END_OF_TEXT ") to %d",
                         (long long)o->vocab_size, MEGA_MAX_VOCABULARY);
    if (o->min_frequency < 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "--min-frequency %lld; expected 1 or more", (long long)o->min_frequency);
    return MEGA_OK;
}

static mega_status trainer_create(mega_tokenizer_kind kind, int64_t vocab_size, int64_t min_frequency,
                                  mega_trainer **out)
{
    mega_trainer *t = mega_calloc(1, sizeof *t);
    uint8_t *seen = kind == MEGA_KIND_CHAR ? mega_calloc(CODE_POINTS / 8, 1) : NULL;
    if (t == NULL || (kind == MEGA_KIND_CHAR && seen == NULL)) {
        mega_free(t);
        mega_free(seen);
        return MEGA_FAIL(MEGA_ERR_MEMORY, "tokenizer training: no memory");
    }
    t->kind = kind;
    t->vocab_size = vocab_size;
    t->min_frequency = min_frequency;
    t->seen = seen;
    *out = t;
    return MEGA_OK;
}

mega_status mega_trainer_create(const mega_trainer_options *o, mega_trainer **out)
{
    mega_tokenizer_kind kind = MEGA_KIND_BPE;
    MEGA_TRY(trainer_check_options(o, &kind));
    return trainer_create(kind, o->vocab_size, o->min_frequency == 0 ? 2 : o->min_frequency, out);
}

mega_status mega_trainer_create_like(const mega_trainer *t, mega_trainer **out)
{
    return trainer_create(t->kind, t->vocab_size, t->min_frequency, out);
}

void mega_trainer_destroy(mega_trainer *t)
{
    if (t == NULL) return;
    mega_word_counts_fini(&t->words);
    mega_free(t->seen);
    mega_free(t);
}

void mega_trainer_on_report(mega_trainer *t, mega_trainer_report *report, void *user)
{
    t->report = report;
    t->user = user;
}

static mega_status add_characters(mega_trainer *t, const uint8_t *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        if (length == 0)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "byte 0x%02X at byte %zu of a document is not UTF-8, and a character "
                "vocabulary holds characters only; convert the text, or use --tokenizer-type ByteTokenizer",
                text[at], at);
        t->seen[cp / 8] |= (uint8_t)(1u << cp % 8);
        at += (size_t)length;
    }
    return MEGA_OK;
}

mega_status mega_trainer_add(mega_trainer *t, const char *text, size_t bytes)
{
    t->bytes += bytes;
    if (t->kind == MEGA_KIND_BYTE) return MEGA_OK;
    if (t->kind == MEGA_KIND_CHAR) return add_characters(t, (const uint8_t *)text, bytes);
    return mega_word_counts_add_text(&t->words, text, bytes);
}

mega_status mega_trainer_join(mega_trainer *t, const mega_trainer *other)
{
    if (t->kind != other->kind)
        return MEGA_FAIL(MEGA_ERR_USAGE, "tokenizer training: trainers of two types cannot be joined");
    t->bytes += other->bytes;
    if (t->kind == MEGA_KIND_CHAR)
        for (size_t i = 0; i < CODE_POINTS / 8; i++) t->seen[i] |= other->seen[i];
    return mega_word_counts_join(&t->words, &other->words);
}

bool mega_trainer_takes_pieces(const mega_trainer *t)
{
    return t->kind != MEGA_KIND_CHAR;
}

static mega_status finish_chars(const mega_trainer *t, mega_tokenizer *k)
{
    for (uint32_t cp = 0; cp < CODE_POINTS; cp++) {
        if ((t->seen[cp / 8] >> cp % 8 & 1) == 0) continue;
        char utf8[4];
        const int length = mega_utf8_encode(cp, utf8);
        MEGA_TRY(mega_vocabulary_add(&k->vocabulary, utf8, (size_t)length, k->vocabulary.size, 0));
    }
    return MEGA_OK;
}

/* One id is reserved for <|endoftext|>, which comes last, as in GPT-2. */
static mega_status finish_bpe(mega_trainer *t, mega_tokenizer *k)
{
    for (int i = 0; i < 256; i++) {
        const char byte = (char)mega_symbol_byte_at(i);
        MEGA_TRY(mega_vocabulary_add(&k->vocabulary, &byte, 1, i, 0));
    }
    mega_word_counts_finish(&t->words);
    return mega_bpe_train(&k->vocabulary, &k->merges, &t->words, t->vocab_size - 1, t->min_frequency, t->report,
                          t->user);
}

mega_status mega_trainer_finish(mega_trainer *t, mega_tokenizer **out)
{
    if (t->kind == MEGA_KIND_BYTE) return mega_tokenizer_make_bytes(out);
    if (t->bytes == 0)
        return MEGA_FAIL(MEGA_ERR_USAGE, "the text is empty: no document contains a character; check --input "
                                         "and --json-keys");
    mega_tokenizer *k = NULL;
    MEGA_TRY(mega_tokenizer_begin(t->kind, "the trained tokenizer", &k));
    mega_status st = t->kind == MEGA_KIND_CHAR ? finish_chars(t, k) : finish_bpe(t, k);
    if (st == MEGA_OK) {
        const size_t n = strlen(MEGA_END_OF_TEXT);
        if (mega_vocabulary_find(&k->vocabulary, MEGA_END_OF_TEXT, n, false) < 0)
            st = mega_vocabulary_add(&k->vocabulary, MEGA_END_OF_TEXT, n, k->vocabulary.size, 0);
    }
    if (st == MEGA_OK) st = mega_tokenizer_add_end_of_text(k);
    if (st == MEGA_OK) st = mega_tokenizer_finish(k);
    if (st == MEGA_OK) *out = k;
    else
        mega_tokenizer_destroy(k);
    return st;
}
