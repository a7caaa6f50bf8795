/* The two simple kinds of tokenizers: one id per character, and ids written as numbers. */
#include "encoder.h"
#include "megalith/utf8.h"

mega_status mega_encoder_chars(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    MEGA_TRY(mega_ids_reserve(out, (int64_t)n));
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        if (length == 0)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "byte 0x%02X at byte %zu of the text is not UTF-8, but a character tokenizer accepts characters "
                "only; convert the text, or use --tokenizer-type ByteTokenizer",
                text[at], begin + at);
        const int32_t id = length == 1
                               ? t->byte_id[text[at]]
                               : mega_vocabulary_find(&t->vocabulary, (const char *)text + at, (size_t)length, false);
        if (id < 0)
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "character U+%04X '%.*s' at byte %zu of the text (character %lld of it) is not in the vocabulary "
                "of %s, which has %lld characters; make one from all of the text with train_tokenizer "
                "--tokenizer-type CharTokenizer",
                cp, cp < 32 || cp == 127 ? 0 : length, (const char *)text + at, begin + at,
                (long long)mega_utf8_count((const char *)text, at) + 1, t->name,
                (long long)t->vocabulary.present - (t->eod >= 0));
        out->id[out->count++] = id;
        at += (size_t)length;
    }
    return MEGA_OK;
}

static int byte_is_blank(uint8_t b)
{
    return b == ' ' || (b >= '\t' && b <= '\r');
}

mega_status mega_encoder_numbers(const mega_tokenizer *t, const uint8_t *text, size_t n, size_t begin, mega_ids *out)
{
    for (size_t at = 0; at < n;) {
        if (byte_is_blank(text[at])) {
            at++;
            continue;
        }
        const size_t start = at;
        int64_t id = 0;
        while (at < n && text[at] >= '0' && text[at] <= '9' && id < t->size) id = id * 10 + (text[at++] - '0');
        if (at == start || id >= t->size || (at < n && !byte_is_blank(text[at]))) {
            while (at < n && !byte_is_blank(text[at])) at++;
            return MEGA_FAIL(
                MEGA_ERR_FORMAT,
                "'%.*s' at byte %zu of the text is not an id; NullTokenizer takes integers from 0 to %lld with "
                "blanks between them",
                at - start > 40 ? 40 : (int)(at - start), (const char *)text + start, begin + start,
                (long long)t->size - 1);
        }
        MEGA_TRY(mega_ids_reserve(out, 1));
        out->id[out->count++] = (int32_t)id;
    }
    return MEGA_OK;
}
