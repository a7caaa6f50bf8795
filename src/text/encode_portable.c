/* The fast encoder for any processor. */
#define encode_words mega_encode_words_portable
#define merge_word16 mega_merge_word16_portable
#define word_ends    mega_word_ends_portable
#include "encode_body.c"
