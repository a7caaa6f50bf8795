/* The fast encoder for any processor. */
#define encode_words mega_encode_words_portable
#define word_ends    mega_word_ends_portable
#include "encode_body.c"
