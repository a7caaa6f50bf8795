/* Normal forms of Unicode and lower case, with utf8proc. Bytes that are not UTF-8 are kept. */
#ifndef MEGALITH_TEXT_UNICODE_FORMS_H
#define MEGALITH_TEXT_UNICODE_FORMS_H

#include "megalith/memory.h"
#include "megalith/status.h"

typedef enum mega_form { MEGA_FORM_NFC, MEGA_FORM_NFD, MEGA_FORM_NFKC, MEGA_FORM_NFKD } mega_form;

/* Appends the normal form of a text. */
mega_status mega_unicode_form(mega_form form, const uint8_t *text, size_t n, mega_buffer *out);
/* The same for NFC, of which a table says where to look: appends the text in NFC and returns true, or appends nothing
 * and returns false if the text is in NFC. */
typedef struct mega_nfc mega_nfc;
mega_status mega_nfc_create(mega_nfc **out);
void mega_nfc_destroy(mega_nfc *nfc);
bool mega_unicode_nfc(const mega_nfc *nfc, const uint8_t *text, size_t n, mega_buffer *out);
/* Appends the text in lower case, character by character. */
void mega_unicode_lower(const uint8_t *text, size_t n, mega_buffer *out);

#endif
