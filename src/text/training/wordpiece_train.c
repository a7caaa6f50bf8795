#include "wordpiece_train.h"
#include "bpe_train.h"
#include "megalith/utf8.h"
#include <stdlib.h>
#include <string.h>

#define INNER "##"
enum { MOST_CHARACTERS = 1000 };

mega_status mega_wordpiece_words_init(mega_wordpiece_words *w, bool lower)
{
    const mega_bert_rules rules = {.clean = true, .chinese = true, .strip = lower, .lower = lower};
    mega_pipeline *p = w->steps = mega_calloc(1, sizeof *p);
    if (p == NULL || !mega_array_add(&p->pre, 0, sizeof *p->pre)) return TRAIN_NO_MEMORY("the tokenizer");
    p->pre[p->num_pre++] = (mega_pre_step){.kind = MEGA_PRE_BERT};
    return mega_bert_create(&rules, &p->bert);
}

void mega_wordpiece_words_fini(mega_wordpiece_words *w)
{
    mega_pipeline_destroy(w->steps);
    mega_buffer_fini(&w->normal);
    for (int i = 0; i < 2; i++) {
        mega_buffer_fini(&w->splitted[i]);
        mega_free(w->pieces[i].piece);
    }
    *w = (mega_wordpiece_words){0};
}

mega_status mega_wordpiece_words_count(mega_wordpiece_words *w, const char *text, size_t n, mega_word_counts *out)
{
    mega_span made;
    w->normal.size = 0;
    MEGA_TRY(mega_bert_normalize(w->steps->bert, (const uint8_t *)text, n, &w->normal));
    MEGA_TRY(mega_buffer_check(&w->normal, "a normalized text"));
    if (w->normal.size == 0) return MEGA_OK;
    const mega_span normal = {(const uint8_t *)w->normal.data, w->normal.size};
    MEGA_TRY(mega_pipeline_split(w->steps, NULL, normal, true, w->splitted, w->pieces, &made));
    for (int64_t i = 0; i < w->pieces[0].count; i++) {
        const mega_piece *p = &w->pieces[0].piece[i];
        MEGA_TRY(mega_word_counts_add(out, (const char *)made.text + p->begin, p->end - p->begin));
    }
    return MEGA_OK;
}

/* How often a character occurs, and whether it occurs inside a word. */
typedef struct wordpiece_character {
    int64_t count;
    uint32_t cp;
    bool inside;
} wordpiece_character;

/* The most frequent ones first, of equal ones the lower code point. */
static int compare_counts(const void *a, const void *b)
{
    const wordpiece_character *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->cp > y->cp) - (x->cp < y->cp);
}

static int compare_code_points(const void *a, const void *b)
{
    const wordpiece_character *x = a, *y = b;
    return (x->cp > y->cp) - (x->cp < y->cp);
}

/* Takes the next character of a word, and counts it if `of` is not NULL. Returns it; 0 for a byte that is not UTF-8. */
static uint32_t take_character(const mega_word_counts *words, int64_t i, size_t *at, wordpiece_character *of)
{
    const mega_word_count *word = &words->word[i];
    uint32_t cp = 0;
    const int length = mega_utf8_decode((const uint8_t *)words->bytes.data + word->begin + *at, word->size - *at, &cp);
    if (length > 0 && of != NULL) {
        of[cp].count += word->count;
        of[cp].inside = of[cp].inside || *at > 0;
    }
    *at += length > 0 ? (size_t)length : 1;
    return length > 0 ? cp : 0;
}

static uint32_t highest_character(const mega_word_counts *words)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < words->size; i++)
        for (size_t at = 0; at < words->word[i].size;) {
            const uint32_t cp = take_character(words, i, &at, NULL);
            most = cp > most ? cp : most;
        }
    return most;
}

static void wordpiece_count_characters(const mega_word_counts *words, wordpiece_character *of)
{
    for (int64_t i = 0; i < words->size; i++)
        for (size_t at = 0; at < words->word[i].size;) (void)take_character(words, i, &at, of);
}

/* Moves the characters that are kept to the begin, in order of code point; returns how many. */
static int64_t choose_characters(wordpiece_character *of, uint32_t highest)
{
    int64_t count = 0;
    for (uint32_t cp = 0; cp <= highest; cp++) {
        if (of[cp].count == 0) continue;
        const wordpiece_character one = {of[cp].count, cp, of[cp].inside};
        of[count++] = one;
    }
    if (count > MOST_CHARACTERS) {
        qsort(of, (size_t)count, sizeof *of, compare_counts);
        count = MOST_CHARACTERS;
        qsort(of, (size_t)count, sizeof *of, compare_code_points);
    }
    return count;
}

static mega_status wordpiece_add_characters(mega_vocabulary *v, const wordpiece_character *character, int64_t count)
{
    char text[sizeof INNER + 4];
    for (int inside = 0; inside < 2; inside++) {
        const size_t before = inside ? sizeof INNER - 1 : 0;
        memcpy(text, INNER, before);
        for (int64_t i = 0; i < count; i++) {
            if (inside && !character[i].inside) continue;
            const size_t n = before + (size_t)mega_utf8_encode(character[i].cp, text + before);
            MEGA_TRY(mega_vocabulary_add(v, text, n, v->size, 0));
        }
    }
    return MEGA_OK;
}

static mega_status begin_vocabulary(mega_vocabulary *v, const mega_word_counts *words, int64_t vocab_size)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (int i = 0; i < 5; i++) MEGA_TRY(mega_vocabulary_add(v, special[i], strlen(special[i]), i, 0));
    const uint32_t highest = highest_character(words);
    wordpiece_character *of = mega_calloc((size_t)highest + 1, sizeof *of);
    if (of == NULL) return MEGA_NO_MEMORY("tokenizer training", "the characters of the text");
    wordpiece_count_characters(words, of);
    const mega_status st = wordpiece_add_characters(v, of, choose_characters(of, highest));
    mega_free(of);
    MEGA_TRY(st);
    if (v->size <= vocab_size) return MEGA_OK;
    return MEGA_MISTAKE(
        "--vocab-size %lld: the special tokens and the characters of the text alone are %lld tokens; give "
        "more",
        (long long)vocab_size, (long long)v->size);
}

mega_status mega_wordpiece_train(const mega_word_counts *words, int64_t vocab_size, int64_t min_frequency,
                                 mega_trainer_report *report, void *user, mega_buffer *vocab_txt)
{
    mega_vocabulary v = {0};
    mega_status st = begin_vocabulary(&v, words, vocab_size);
    if (st == MEGA_OK) st = mega_bpe_train_characters(&v, INNER, words, vocab_size, min_frequency, report, user);
    for (int64_t id = 0; id < v.size && st == MEGA_OK; id++) {
        const mega_token *token = mega_vocabulary_get(&v, id);
        mega_buffer_append(vocab_txt, mega_token_bytes(&v, token), token->size);
        mega_buffer_puts(vocab_txt, "\n");
    }
    mega_vocabulary_fini(&v);
    return st == MEGA_OK ? mega_buffer_check(vocab_txt, "vocab.txt") : st;
}
