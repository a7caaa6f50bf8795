/* Compiles and runs regular expressions with PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex.h"
#include <pcre2.h>

struct mega_regex {
    pcre2_code *code;
};

struct mega_regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static void *regex_malloc(size_t bytes, void *user)
{
    (void)user;
    return mega_malloc(bytes);
}

static void regex_free(void *block, void *user)
{
    (void)user;
    mega_free(block);
}

static mega_status regex_no_memory(void)
{
    return MEGA_FAIL(MEGA_ERR_MEMORY, "regular expression: no memory");
}

/* In Oniguruma ^ and $ match at line ends too. */
static mega_status compile_translated(const char *pattern, size_t n, mega_regex *r)
{
    pcre2_general_context *general = pcre2_general_context_create(regex_malloc, regex_free, NULL);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    int error = 0;
    PCRE2_SIZE at = 0;
    if (context != NULL) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        r->code = pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_MULTILINE, &error, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (context == NULL || (r->code == NULL && error == PCRE2_ERROR_NOMEMORY) || error == PCRE2_ERROR_HEAP_FAILED)
        return regex_no_memory();
    if (r->code == NULL) {
        PCRE2_UCHAR why[160] = "";
        pcre2_get_error_message(error, why, sizeof why);
        return MEGA_FAIL(MEGA_ERR_FORMAT, "regular expression: %s", (const char *)why);
    }
    /* without machine code the expression is interpreted: slower, with the same matches */
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    return MEGA_OK;
}

mega_status mega_regex_compile(const char *pattern, size_t n, mega_regex **out)
{
    mega_buffer translated = {0};
    mega_regex *r = mega_calloc(1, sizeof *r);
    mega_status st = r != NULL ? mega_regex_translate(pattern, n, &translated) : regex_no_memory();
    if (st == MEGA_OK) st = compile_translated(translated.data != NULL ? translated.data : "", translated.size, r);
    mega_buffer_fini(&translated);
    if (st == MEGA_OK) *out = r;
    else
        mega_regex_destroy(r);
    return st;
}

void mega_regex_destroy(mega_regex *r)
{
    if (r == NULL) return;
    pcre2_code_free(r->code);
    mega_free(r);
}

mega_status mega_regex_match_create(mega_regex_match **out)
{
    pcre2_general_context *general = pcre2_general_context_create(regex_malloc, regex_free, NULL);
    mega_regex_match *m = mega_calloc(1, sizeof *m);
    if (general != NULL && m != NULL) {
        m->data = pcre2_match_data_create(1, general);
        m->context = pcre2_match_context_create(general);
    }
    pcre2_general_context_free(general);
    if (m != NULL && m->data != NULL && m->context != NULL) {
        *out = m;
        return MEGA_OK;
    }
    mega_regex_match_destroy(m);
    return regex_no_memory();
}

void mega_regex_match_destroy(mega_regex_match *m)
{
    if (m == NULL) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    mega_free(m);
}

mega_status mega_regex_find(const mega_regex *r, mega_regex_match *m, const uint8_t *text, size_t n, size_t from,
                            bool *found, size_t *begin, size_t *end)
{
    int rc = pcre2_match(r->code, text, n, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has no such limit */
        rc = pcre2_match(r->code, text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data, m->context);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH || rc == PCRE2_ERROR_PARTIAL) return MEGA_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return regex_no_memory();
    if (rc < 0)
        return MEGA_FAIL(MEGA_ERR_UNSUPPORTED,
                         "regular expression: the search from byte %zu of a text takes too many steps (error %d of "
                         "PCRE2); use a simpler pattern",
                         from, rc);
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(m->data);
    *begin = place[0];
    *end = place[1];
    return MEGA_OK;
}
