/* Trainers of all kinds. BPE, WordPiece and Unigram keep the words of the text and their counts; characters keep which
 * characters occur; bytes keep nothing. */
#include "trainer.h"
#include "bpe_train.h"
#include "megalith/tokenizer_train.h"
#include "megalith/utf8.h"
#include "tokenizer/symbols.h"
#include "tokenizer/tokenizer_impl.h"
#include "unigram_train.h"
#include "word_counts.h"
#include "wordpiece_train.h"
#include <string.h>

enum { CODE_POINTS = 0x110000 };

struct mega_trainer {
    mega_tokenizer_kind kind;
    int64_t vocab_size, min_frequency;
    double coverage; /* for Unigram, as workers */
    int workers;
    mega_word_counts words;         /* for BPE, WordPiece and Unigram */
    mega_wordpiece_words wordpiece; /* for WordPiece: what splits the text */
    mega_buffer scratch;            /* for Unigram: a word */
    uint8_t *seen;                  /* for characters: one bit per code point */
    size_t bytes;                   /* total of all documents so far, for messages */
    mega_trainer_report *report;
    void *user;
};

static bool learns_wordpiece(mega_tokenizer_kind kind)
{
    return kind == MEGA_KIND_BERT_LOWER || kind == MEGA_KIND_BERT_CASED;
}

static bool learns_unigram(mega_tokenizer_kind kind)
{
    return kind == MEGA_KIND_SENTENCEPIECE || kind == MEGA_KIND_GPT_SENTENCEPIECE;
}

static const mega_tokenizer_kind learnt[] = {MEGA_KIND_BPE,
                                             MEGA_KIND_CHAR,
                                             MEGA_KIND_BYTE,
                                             MEGA_KIND_BERT_LOWER,
                                             MEGA_KIND_BERT_CASED,
                                             MEGA_KIND_SENTENCEPIECE,
                                             MEGA_KIND_GPT_SENTENCEPIECE};
enum { LEARNT = sizeof learnt / sizeof learnt[0] };

int64_t mega_trainer_least(const char *type)
{
    if (strcmp(type, "GPT2BPETokenizer") == 0) return 257;
    if (strncmp(type, "BertWordPiece", 13) == 0) return 6;
    return strstr(type, "SentencePieceTokenizer") != NULL ? 4 : 0;
}

static mega_status trainer_check_options(const mega_trainer_options *o, mega_tokenizer_kind *kind)
{
    if (o->type == NULL) return MEGA_MISTAKE("--tokenizer-type is missing");
    int k = 0;
    while (k < LEARNT && strcmp(o->type, mega_tokenizer_kind_name(learnt[k])) != 0) k++;
    if (k == LEARNT)
        return MEGA_MISTAKE("--tokenizer-type %s cannot be trained; expected GPT2BPETokenizer, BertWordPieceLowerCase, "
                            "BertWordPieceCase, SentencePieceTokenizer, GPTSentencePieceTokenizer, CharTokenizer or "
                            "ByteTokenizer",
                            o->type);
    *kind = learnt[k];
    const int64_t least = mega_trainer_least(o->type);
    if (least > 0 && (o->vocab_size < least || o->vocab_size > MEGA_MAX_VOCABULARY))
        return MEGA_MISTAKE("--vocab-size %lld; expected %lld%s to %d", (long long)o->vocab_size, (long long)least,
                            *kind == MEGA_KIND_BPE ? " (256 bytes and " MEGA_END_OF_TEXT ")" : "", MEGA_MAX_VOCABULARY);
    if (o->min_frequency < 0)
        return MEGA_MISTAKE("--min-frequency %lld; expected 1 or more", (long long)o->min_frequency);
    if (!(o->character_coverage >= 0 && o->character_coverage <= 1))
        return MEGA_MISTAKE("--character-coverage %g; expected a number above 0, up to 1", o->character_coverage);
    return MEGA_OK;
}

static mega_status trainer_create(const mega_trainer *like, mega_trainer **out)
{
    const mega_tokenizer_kind kind = like->kind;
    mega_trainer *t = mega_calloc(1, sizeof *t);
    uint8_t *seen = kind == MEGA_KIND_CHAR ? mega_calloc(CODE_POINTS / 8, 1) : NULL;
    if (t == NULL || (kind == MEGA_KIND_CHAR && seen == NULL)) {
        MEGA_FREE(t, seen);
        return TRAIN_NO_MEMORY("the tokenizer");
    }
    t->kind = kind;
    t->vocab_size = like->vocab_size;
    t->min_frequency = like->min_frequency;
    t->coverage = like->coverage;
    t->workers = like->workers;
    t->seen = seen;
    const mega_status st =
        learns_wordpiece(kind) ? mega_wordpiece_words_init(&t->wordpiece, kind == MEGA_KIND_BERT_LOWER) : MEGA_OK;
    if (st == MEGA_OK) *out = t;
    else
        mega_trainer_destroy(t);
    return st;
}

mega_status mega_trainer_create(const mega_trainer_options *o, mega_trainer **out)
{
    mega_tokenizer_kind kind = MEGA_KIND_BPE;
    MEGA_TRY(trainer_check_options(o, &kind));
    const mega_trainer like = {.kind = kind,
                               .vocab_size = o->vocab_size,
                               .min_frequency = o->min_frequency == 0 ? 2 : o->min_frequency,
                               .coverage = o->character_coverage == 0 ? 0.9995 : o->character_coverage,
                               .workers = o->workers};
    return trainer_create(&like, out);
}

mega_status mega_trainer_create_like(const mega_trainer *t, mega_trainer **out)
{
    return trainer_create(t, out);
}

void mega_trainer_destroy(mega_trainer *t)
{
    if (t == NULL) return;
    mega_word_counts_fini(&t->words);
    mega_wordpiece_words_fini(&t->wordpiece);
    mega_buffer_fini(&t->scratch);
    MEGA_FREE(t->seen, t);
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
    if (learns_wordpiece(t->kind)) return mega_wordpiece_words_count(&t->wordpiece, text, bytes, &t->words);
    if (learns_unigram(t->kind)) return mega_unigram_count(text, bytes, &t->scratch, &t->words);
    return mega_word_counts_add_text(&t->words, text, bytes);
}

mega_status mega_trainer_join(mega_trainer *t, const mega_trainer *other)
{
    if (t->kind != other->kind) return MEGA_MISTAKE("tokenizer training: trainers of two types cannot be joined");
    t->bytes += other->bytes;
    if (t->kind == MEGA_KIND_CHAR)
        for (size_t i = 0; i < CODE_POINTS / 8; i++) t->seen[i] |= other->seen[i];
    return mega_word_counts_join(&t->words, &other->words);
}

bool mega_trainer_takes_pieces(const mega_trainer *t)
{
    return t->kind != MEGA_KIND_CHAR && !learns_unigram(t->kind);
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

static const char trained[] = "the trained tokenizer";
#define TRAINED "{\n  \"megalith_trained\": true,\n" /* base/output.c looks for it */

/* Keeps a file of the folder, whose bytes are taken over. */
static mega_status keep_buffer(mega_tokenizer *k, const char *name, mega_buffer *bytes)
{
    MEGA_TRY(mega_buffer_check(bytes, name));
    mega_tokenizer_keep(k, name, bytes->data, bytes->size);
    *bytes = (mega_buffer){0};
    return MEGA_OK;
}

static mega_status keep_both(mega_tokenizer *k, mega_buffer *json, const char *config)
{
    mega_buffer text = {0};
    MEGA_TRY(keep_buffer(k, "tokenizer.json", json));
    mega_buffer_puts(&text, config);
    return keep_buffer(k, "tokenizer_config.json", &text);
}

/* vocab.txt, and the files of `transformers` that belong to it. */
static mega_status finish_wordpiece(mega_trainer *t, mega_tokenizer **k)
{
    const bool lower = t->kind == MEGA_KIND_BERT_LOWER;
    mega_buffer lines = {0}, json = {0};
    mega_word_counts_finish(&t->words);
    mega_status st = mega_wordpiece_train(&t->words, t->vocab_size, t->min_frequency, t->report, t->user, &lines);
    if (st == MEGA_OK) st = mega_bert_json(trained, lower, lines.data, lines.size, &json);
    if (st == MEGA_OK) st = mega_tokenizer_read_bert_text(trained, t->kind, 0, &lines.data, lines.size, k);
    if (st == MEGA_OK)
        st = keep_both(*k, &json,
                       lower ? TRAINED "  \"do_lower_case\": true,\n  \"tokenizer_class\": \"BertTokenizer\"\n}\n"
                             : TRAINED "  \"do_lower_case\": false,\n  \"tokenizer_class\": \"BertTokenizer\"\n}\n");
    mega_buffer_fini(&lines);
    mega_buffer_fini(&json);
    return st;
}

/* tokenizer.model, and the files of T5 that belong to it, with its 100 sentinels. */
static mega_status finish_unigram(mega_trainer *t, mega_tokenizer **k)
{
    enum { ROLES = 3, SENTINELS = 100 };
    mega_unigram u = {0};
    mega_buffer model = {0}, json = {0};
    mega_word_counts_finish(&t->words);
    mega_status st =
        mega_unigram_train(&t->words, t->vocab_size - ROLES, t->coverage, t->workers, t->report, t->user, &u);
    if (st == MEGA_OK) st = mega_unigram_model(&u, &model);
    if (st == MEGA_OK) st = mega_sentencepiece_json(trained, model.data, model.size, SENTINELS, &json);
    if (st == MEGA_OK) st = mega_tokenizer_read_sentencepiece_text(trained, t->kind, 0, &model.data, model.size, k);
    if (st == MEGA_OK)
        st = keep_both(*k, &json,
                       TRAINED "  \"eos_token\": \"</s>\",\n  \"pad_token\": \"<pad>\",\n  \"unk_token\": \"<unk>\",\n"
                               "  \"extra_ids\": 100,\n  \"tokenizer_class\": \"T5Tokenizer\"\n}\n");
    mega_unigram_fini(&u);
    mega_buffer_fini(&model);
    mega_buffer_fini(&json);
    return st;
}

static mega_status finish_words(mega_trainer *t, mega_tokenizer **out)
{
    mega_tokenizer *k = NULL;
    if (t->words.size == 0) return MEGA_MISTAKE("the text has no word; check --input and --json-keys");
    const mega_status st = learns_unigram(t->kind) ? finish_unigram(t, &k) : finish_wordpiece(t, &k);
    if (st == MEGA_OK) *out = k;
    else
        mega_tokenizer_destroy(k);
    return st;
}

mega_status mega_trainer_finish(mega_trainer *t, mega_tokenizer **out)
{
    if (t->kind == MEGA_KIND_BYTE) return mega_tokenizer_make_bytes(out);
    if (t->bytes == 0)
        return MEGA_MISTAKE("the text is empty: no document contains a character; check --input "
                            "and --json-keys");
    if (learns_unigram(t->kind) || learns_wordpiece(t->kind)) return finish_words(t, out);
    mega_tokenizer *k = NULL;
    MEGA_TRY(mega_tokenizer_begin(t->kind, trained, &k));
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
