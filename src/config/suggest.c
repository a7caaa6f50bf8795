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

/* Edits (insert, remove, replace, swap neighbours) that lead from a to b. */
static int distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    int row[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3];
        const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const char x = folded(a[i - 1]), y = folded(b[j - 1]);
            now[j] = least(least(now[j - 1], last[j]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && y == folded(a[i - 2]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *mega_config_nearest(const char *typed, const char *const *names, size_t n)
{
    const char *best = NULL;
    int best_edits = (int)(strlen(typed) / 3) + 1; /* a third of the letters wrong is no longer the same name */
    for (size_t i = 0; i < n; i++) {
        const int edits = distance(typed, names[i]);
        if (edits < best_edits) {
            best_edits = edits;
            best = names[i];
        }
    }
    return best;
}
