/* What a plain word of a YAML means: the rules of YAML 1.1, which PyYAML follows. */
#include "yaml_impl.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* "yes", "Yes" and "YES", but not "yEs". */
static bool is_word_in_case(const char *word, const char *lower)
{
    const size_t n = strlen(lower);
    if (strlen(word) != n || strcasecmp(word, lower) != 0) return false;
    bool is_lower = true, is_upper = true;
    for (size_t i = 1; i < n; i++) {
        is_lower = is_lower && !isupper((unsigned char)word[i]);
        is_upper = is_upper && !islower((unsigned char)word[i]);
    }
    return is_lower || (is_upper && isupper((unsigned char)word[0]));
}

static bool is_yaml_word(const char *word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_word_in_case(word, names[i])) return true;
    return false;
}

static size_t digits(const char *at)
{
    return strspn(at, "0123456789_");
}

/* Returns the length of "e+5", which may lack the sign; 0 if there is none. */
static size_t exponent(const char *at)
{
    if (*at != 'e' && *at != 'E') return 0;
    const size_t sign = at[1] == '+' || at[1] == '-', n = strspn(at + 1 + sign, "0123456789");
    return n > 0 ? 1 + sign + n : 0;
}

static yaml_kind number_kind(const char *word)
{
    const char *at = word + (*word == '-' || *word == '+');
    if (strcasecmp(at, ".inf") == 0 || strcasecmp(word, ".nan") == 0) return YAML_OTHER;
    if (!isdigit((unsigned char)at[at[0] == '.'])) return YAML_TEXT;
    if (at[0] == '0' && at[1] != '\0' && strchr("xb", at[1]) != NULL && at[2] != '\0' &&
        strspn(at + 2, at[1] == 'x' ? "0123456789abcdefABCDEF_" : "01_") == strlen(at + 2))
        return YAML_OTHER;
    const size_t whole = digits(at);
    if (at[whole] == ':' && strspn(at, "0123456789_:.") == strlen(at)) return YAML_OTHER; /* base 60 */
    if (at[whole] == '\0') return whole > 1 && at[0] == '0' ? YAML_OTHER : YAML_INT;
    const size_t fraction = at[whole] == '.' ? 1 + digits(at + whole + 1) : 0;
    const char *end = at + whole + fraction + exponent(at + whole + fraction);
    if (*end == '\0') return whole > 1 && at[0] == '0' ? YAML_OTHER : YAML_FLOAT;
    /* 2026-11-27, and times after it */
    if (word == at && whole == 4 && strspn(at, "0123456789-:.TtZ +") == strlen(at) && at[4] == '-' &&
        isdigit((unsigned char)at[5]))
        return YAML_OTHER;
    return YAML_TEXT;
}

yaml_kind yaml_kind_of(const char *word)
{
    static const char *const yes[] = {"yes", "true", "on"}, *const no[] = {"no", "false", "off"};
    if (*word == '\0' || strcmp(word, "~") == 0 || is_word_in_case(word, "null")) return YAML_NULL;
    if (is_yaml_word(word, yes, 3)) return YAML_TRUE;
    if (is_yaml_word(word, no, 3)) return YAML_FALSE;
    if (strcmp(word, "<<") == 0 || strcmp(word, "=") == 0) return YAML_OTHER;
    return number_kind(word);
}
