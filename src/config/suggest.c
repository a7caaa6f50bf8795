/* Finds the names that a mistyped or shortened one may have meant, with - and _ equal, ignoring case. Rather none than
 * a wrong one: who reads "did you mean --fp4?" after --fp8 takes it for true. */
#include "config_impl.h"
#include "megalith/file.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 64

static char suggest_folded(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static int cheaper_of(int a, int b)
{
    return a < b ? a : b;
}

typedef struct folded_word {
    size_t size;
    char letter[LONGEST];
} folded_word;

static bool fold(const char *text, folded_word *out)
{
    out->size = strlen(text);
    if (out->size > LONGEST) return false;
    for (size_t i = 0; i < out->size; i++) out->letter[i] = suggest_folded(text[i]);
    return true;
}

/* What an edit costs: two keys in the wrong order, one too many or too few are slips of the hand; another letter is
 * often another word (--gpu, --tpu). */
enum { SLIP = 2, OTHER_LETTER = 3 };

/* Returns what the edits (insert, remove, replace, swap neighbours) from a to b cost. If they cost more than `limit`,
 * it may return any number > `limit`. */
static int word_distance(const folded_word *a, const folded_word *b, int limit)
{
    const size_t n = a->size, m = b->size;
    int row[3][LONGEST + 1], least_before = 0;
    if ((int)(n > m ? n - m : m - n) * SLIP > limit) return limit + 1;
    for (size_t j = 0; j <= m; j++) row[0][j] = SLIP * (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], least_now = SLIP * (int)i;
        const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = SLIP * (int)i;
        for (size_t j = 1; j <= m; j++) {
            const char x = a->letter[i - 1], y = b->letter[j - 1];
            now[j] = cheaper_of(cheaper_of(now[j - 1], last[j]) + SLIP, last[j - 1] + (x != y ? OTHER_LETTER : 0));
            if (i > 1 && j > 1 && x == b->letter[j - 2] && y == a->letter[i - 2])
                now[j] = cheaper_of(now[j], before[j - 2] + SLIP);
            least_now = cheaper_of(least_now, now[j]);
        }
        /* stop early; a swap reaches two rows back, so both rows count */
        if (least_now > limit && least_before > limit) return limit + 1;
        least_before = least_now;
    }
    return row[n % 3][m];
}

static size_t digits_of(const folded_word *word, char out[LONGEST])
{
    size_t n = 0;
    for (size_t i = 0; i < word->size; i++)
        if (isdigit((unsigned char)word->letter[i])) out[n++] = word->letter[i];
    return n;
}

/* Returns whether both have a number, and not the same: fp8 is no misspelling of fp4, nor beta3 of beta1. */
static bool differ_in_number(const folded_word *a, const folded_word *b)
{
    char of_a[LONGEST], of_b[LONGEST];
    const size_t n = digits_of(a, of_a), m = digits_of(b, of_b);
    return n > 0 && m > 0 && (n != m || memcmp(of_a, of_b, n) != 0);
}

/* Returns what edits may cost: two letters are no word, three allow a slip, four any one edit, and from eight on every
 * four one slip. export is two slips from report. */
static int limit_of(size_t letters)
{
    return letters < 3 ? 0 : letters < 4 ? SLIP : letters < 8 ? OTHER_LETTER : (int)letters / 4 * SLIP;
}

/* Returns the name that the fewest edits lead to, if they are few for the length of the word. */
static const char *misspelt(const folded_word *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    folded_word name;
    int limit = limit_of(word->size);
    for (size_t i = 0; i < n; i++) {
        if (!fold(names[i], &name) || differ_in_number(word, &name)) continue;
        const int cost = word_distance(word, &name, limit);
        if (cost > limit) continue;
        limit = cost - 1;
        best = names[i];
    }
    return best;
}

/* Returns whether the letters of `word` are in the name at this place, and end with no part of a number: fp6 is no
 * short form of fp64. */
static bool is_word_at(const folded_word *word, const folded_word *name, size_t at)
{
    const size_t end = at + word->size;
    if (end > name->size || memcmp(name->letter + at, word->letter, word->size) != 0) return false;
    return end == name->size || !isdigit((unsigned char)name->letter[end - 1]) ||
           !isdigit((unsigned char)name->letter[end]);
}

static bool ends_word(const folded_word *name, size_t at)
{
    return at == name->size || name->letter[at] == '-' || name->letter[at] == '.';
}

/* Returns whether the name has `word` inside, from the beginning of one of its words on; one word as a whole, the last
 * of several also shortened. */
static bool is_inside(const folded_word *word, const folded_word *name)
{
    const bool are_several = memchr(word->letter, '-', word->size) != NULL;
    for (size_t at = 1; at + word->size <= name->size; at++) {
        if (ends_word(name, at - 1) && is_word_at(word, name, at) && (are_several || ends_word(name, at + word->size)))
            return true;
    }
    return false;
}

size_t mega_options_longer(const char *typed, const char *const *names, size_t n, const char **out, size_t most)
{
    size_t begin = 0, hold = 0;
    folded_word word, name;
    if (!fold(typed, &word) || word.size < 3) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!fold(names[i], &name)) continue;
        if (is_word_at(&word, &name, 0)) {
            if (begin < most) out[begin] = names[i]; /* they take the place of those that hold it */
            begin++;
        } else if (begin == 0 && is_inside(&word, &name)) {
            if (hold < most) out[hold] = names[i];
            hold++;
        }
    }
    return begin > 0 ? begin : hold;
}

const char *mega_options_nearest(const char *typed, const char *const *names, size_t n)
{
    folded_word word;
    const char *longer = NULL;
    if (!fold(typed, &word)) return NULL;
    const char *best = misspelt(&word, names, n);
    return best == NULL && mega_options_longer(typed, names, n, &longer, 1) == 1 ? longer : best;
}

void mega_options_list_names(mega_buffer *out, const char *const *names, size_t n, const char *dashes)
{
    const size_t shown = n < MEGA_OPTIONS_LISTED ? n : MEGA_OPTIONS_LISTED;
    for (size_t i = 0; i < shown; i++) {
        const char *before = i == 0 ? "" : i + 1 == shown && n == shown ? " or " : ", ";
        mega_buffer_printf(out, "%s%s%s", before, dashes, names[i]);
    }
    if (n > shown) mega_buffer_printf(out, " or another of %zu", n);
}

#define ITERATION "iter_"
enum { MOST_ITERATIONS = 8 };

static bool is_iteration(const char *name)
{
    const char *digits = name + sizeof ITERATION - 1;
    return strncmp(name, ITERATION, sizeof ITERATION - 1) == 0 && *digits != '\0' &&
           digits[strspn(digits, "0123456789")] == '\0';
}

/* Appends the newest iterations. */
static bool put_iterations(mega_buffer *out, const char *above, const mega_names *names)
{
    size_t count = 0, passed = 0;
    for (size_t i = 0; i < names->count; i++) count += is_iteration(names->name[i]);
    if (count == 0) return false;
    mega_buffer_printf(out, " (%s holds iteration%s ", above, count == 1 ? "" : "s");
    for (size_t i = 0; i < names->count; i++) {
        if (!is_iteration(names->name[i]) || passed++ + MOST_ITERATIONS < count) continue;
        if (passed > 1) mega_buffer_puts(out, passed + MOST_ITERATIONS == count + 1 ? "…, " : ", ");
        mega_buffer_printf(out, "%lld", strtoll(names->name[i] + sizeof ITERATION - 1, NULL, 10));
    }
    return mega_buffer_puts(out, ")");
}

void mega_options_put_near(mega_buffer *out, const char *folder)
{
    mega_names names = {0};
    const char *slash = strchr(folder, '/'), *base = mega_path_base(folder);
    char *above = mega_path_folder(folder);
    if (above != NULL && mega_folder_exists(above) && mega_folder_list(above, &names) == MEGA_OK) {
        const char *near = mega_options_nearest(base, (const char *const *)names.name, names.count);
        const bool is_listed =
            strncmp(base, ITERATION, sizeof ITERATION - 1) == 0 && put_iterations(out, above, &names);
        if (!is_listed && near != NULL) mega_buffer_printf(out, " (did you mean %s?)", near);
        mega_names_fini(&names);
    } else if (slash != NULL && slash != folder && strchr(slash + 1, '/') == NULL && folder[0] != '.') {
        mega_buffer_puts(out, " (nothing is downloaded from the Hugging Face hub: download the model first)");
    }
    mega_error_clear();
    mega_free(above);
}
