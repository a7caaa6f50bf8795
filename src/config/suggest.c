/* Finds the nearest name to a mistyped one: optimal string alignment distance, with - and _ equal, ignoring case. */
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

static int least(int a, int b)
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

/* Returns the number of edits (insert, remove, replace, swap neighbours) from a to b. If there are `limit` edits or
 * more, it may return any number >= `limit`. */
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
        /* stop early; a swap reaches two rows back, so both rows count */
        if (least_now >= limit && least_before >= limit) return limit;
        least_before = least_now;
    }
    return row[n % 3][m];
}

const char *mega_options_nearest(const char *typed, const char *const *names, size_t n)
{
    const char *best = NULL;
    folded_word word, name;
    if (!fold(typed, &word)) return NULL;
    /* with more than a third of the letters wrong, it is not the same name */
    int best_edits = (int)(word.size / 3) + 1;
    for (size_t i = 0; i < n; i++) {
        if (!fold(names[i], &name)) continue;
        const int edits = distance(&word, &name, best_edits);
        if (edits < best_edits) {
            best_edits = edits;
            best = names[i];
        }
    }
    return best;
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
