/* The nearest name to a mistyped one: optimal string alignment distance, - and _ being equal, letters without case. */
#include "config_impl.h"
#include <ctype.h>
#include <string.h>

#define LONGEST 64

static char folded(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

typedef struct folded_word {
    size_t size;
    char letter[LONGEST];
} folded_word;

static bool fold(folded_word *out, const char *text)
{
    out->size = strlen(text);
    if (out->size > LONGEST) return false;
    for (size_t i = 0; i < out->size; i++) out->letter[i] = folded(text[i]);
    return true;
}

/* Edits (insert, remove, replace, swap neighbours) that lead from a to b; `limit` or more when they are not fewer. */
static int distance(const folded_word *a, const folded_word *b, int limit)
{
    const size_t n = a->size, m = b->size;
    int row[3][LONGEST + 1], least_before = 0;
    if ((n > m ? n - m : m - n) >= (size_t)limit) return limit;
    for (size_t j = 0; j <= m; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], least_now = (int)i;
        const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const char x = a->letter[i - 1], y = b->letter[j - 1];
            now[j] = least(least(now[j - 1], last[j]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == b->letter[j - 2] && y == a->letter[i - 2])
                now[j] = least(now[j], before[j - 2] + 1);
            least_now = least(least_now, now[j]);
        }
        if (least_now >= limit && least_before >= limit) return limit; /* a swap reaches two rows back */
        least_before = least_now;
    }
    return row[n % 3][m];
}

const char *mega_config_nearest(const char *typed, const char *const *names, size_t n)
{
    const char *best = NULL;
    folded_word word, name;
    if (!fold(&word, typed)) return NULL;
    int best_edits = (int)(word.size / 3) + 1; /* a third of the letters wrong is no longer the same name */
    for (size_t i = 0; i < n; i++) {
        if (!fold(&name, names[i])) continue;
        const int edits = distance(&word, &name, best_edits);
        if (edits < best_edits) {
            best_edits = edits;
            best = names[i];
        }
    }
    return best;
}
