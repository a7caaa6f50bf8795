#include "unicode_forms.h"
#include "megalith/utf8.h"
#include <utf8proc.h>

/* Appends the normal form of valid UTF-8. The library's own function would allocate with malloc. */
static mega_status put_form(mega_form form, const uint8_t *text, size_t n, mega_buffer *out)
{
    static const utf8proc_option_t options[] = {
        [MEGA_FORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [MEGA_FORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [MEGA_FORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [MEGA_FORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    const utf8proc_ssize_t points = utf8proc_decompose(text, (utf8proc_ssize_t)n, NULL, 0, options[form]);
    utf8proc_int32_t *buffer = points < 0 ? NULL : mega_malloc(((size_t)points + 1) * sizeof *buffer);
    if (buffer == NULL) {
        out->failed = true;
        return MEGA_FAIL(MEGA_ERR_MEMORY, "no memory to normalize a text of %zu bytes", n);
    }
    const utf8proc_ssize_t made = utf8proc_decompose(text, (utf8proc_ssize_t)n, buffer, points, options[form]);
    /* the code points are replaced by their UTF-8, in place */
    const utf8proc_ssize_t bytes = made < 0 ? made : utf8proc_reencode(buffer, made, options[form]);
    if (bytes > 0) mega_buffer_append(out, buffer, (size_t)bytes);
    mega_free(buffer);
    return MEGA_OK;
}

mega_status mega_unicode_form(mega_form form, const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0; at < n;) {
        const size_t valid = mega_utf8_valid_bytes((const char *)text + at, n - at);
        if (valid > 0) MEGA_TRY(put_form(form, text + at, valid, out));
        at += valid;
        if (at < n) mega_buffer_append(out, text + at++, 1);
    }
    return MEGA_OK;
}

void mega_unicode_lower(const uint8_t *text, size_t n, mega_buffer *out)
{
    for (size_t at = 0; at < n;) {
        uint32_t cp = 0;
        char lower[4];
        const int length = mega_utf8_decode(text + at, n - at, &cp);
        if (length == 0) {
            mega_buffer_append(out, text + at++, 1);
            continue;
        }
        at += (size_t)length;
        if (cp == 0x130) mega_buffer_append(out, "i\xCC\x87", 3); /* the only one that becomes two */
        else
            mega_buffer_append(out, lower, (size_t)mega_utf8_encode((uint32_t)utf8proc_tolower((int32_t)cp), lower));
    }
}
