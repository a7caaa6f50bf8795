/* WikiText's rules, in the order in which the original applies them: each pass reads the whole output of the one
 * before. */
#include "megalith/detokenize.h"

#include <ctype.h>
#include <string.h>

typedef struct replacement {
    const char *from, *to;
} replacement;

static void replace_all(mega_buffer *out, const mega_buffer *in, const replacement *r)
{
    const size_t length = strlen(r->from);
    const char *at = in->data, *end = in->data + in->size;
    while (at < end) {
        const char *hit = memmem(at, (size_t)(end - at), r->from, length);
        if (hit == NULL) hit = end;
        mega_buffer_append(out, at, (size_t)(hit - at));
        if (hit < end) mega_buffer_puts(out, r->to);
        at = hit < end ? hit + length : end;
    }
}

/* Removes white space just inside a pair of delimiters. Pairs do not nest: the content contains no closing
 * character. */
static void wikitext_tighten(mega_buffer *out, const mega_buffer *in, char open, char close)
{
    const char *at = in->data, *end = in->data + in->size;
    while (at < end) {
        const char *left = memchr(at, open, (size_t)(end - at));
        const char *right = left == NULL ? NULL : memchr(left + 1, close, (size_t)(end - left - 1));
        if (right == NULL) break;
        const char *from = left + 1, *to = right;
        while (from < to && isspace((unsigned char)*from)) from++;
        while (to > from && isspace((unsigned char)to[-1])) to--;
        mega_buffer_append(out, at, (size_t)(left + 1 - at));
        mega_buffer_append(out, from, (size_t)(to - from));
        mega_buffer_append(out, right, 1);
        at = right + 1;
    }
    mega_buffer_append(out, at, (size_t)(end - at));
}

static void wikitext_swap(mega_buffer *a, mega_buffer *b)
{
    const mega_buffer t = *a;
    *a = *b;
    *b = t;
    b->size = 0;
}

mega_status mega_detokenize_wikitext(const char *text, size_t bytes, mega_buffer *out)
{
    static const replacement before[] = {{"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "},
                                         {" ; ", "; "}, {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
    static const char pairs[][2] = {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}};
    static const replacement after[] = {
        {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \xc2\xb0 ", "\xc2\xb0"},
        {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};
    mega_buffer now = {0}, next = {0};
    mega_buffer_append(&now, text, bytes);
    for (size_t i = 0; i < sizeof before / sizeof *before && now.size > 0; i++) {
        replace_all(&next, &now, &before[i]);
        wikitext_swap(&now, &next);
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && now.size > 0; i++) {
        wikitext_tighten(&next, &now, pairs[i][0], pairs[i][1]);
        wikitext_swap(&now, &next);
    }
    for (size_t i = 0; i < sizeof after / sizeof *after && now.size > 0; i++) {
        replace_all(&next, &now, &after[i]);
        wikitext_swap(&now, &next);
    }
    mega_buffer_append(out, now.data, now.size);
    const bool failed = now.failed || next.failed;
    mega_buffer_fini(&now);
    mega_buffer_fini(&next);
    if (failed) return MEGA_FAIL(MEGA_ERR_MEMORY, "detokenize: no memory for a text of %zu bytes", bytes);
    return mega_buffer_check(out, "the detokenized text");
}
