/* Tests the rules of train_tokenizer: which kinds learn, from how many tokens on. */
#include "options_kit.h"

static void accept(const char *line)
{
    mega_command_options c;
    kit_accept(&c, "train_tokenizer", line);
    mega_command_options_fini(&c);
}

static void refuse(const char *line, const char *part)
{
    kit_refuse("train_tokenizer", line, part);
}

static void vocabularies(void **state)
{
    (void)state;
    accept("--input a --output b --vocab-size 300");
    accept("--input a --output b --tokenizer-type CharTokenizer");
    refuse("--input a --output b --vocab-size 256", "give 257 or more");
    accept("--input a --output b --vocab-size 256 --tokenizer-type BertWordPieceCase");
    accept("--input a --output b --vocab-size 256 --tokenizer-type SentencePieceTokenizer");
    refuse("--input a --output b --tokenizer-type SentencePieceTokenizer", "missing: --vocab-size N; 32000 is usual");
    refuse("--input a --output b --vocab-size 5 --tokenizer-type BertWordPieceCase", "give 6 or more");
    refuse("--input a --output b --vocab-size 300 --tokenizer-type Llama2Tokenizer",
           "is read from the files of others");
    refuse("--input a --output b --tokenizer-type ByteTokenizer", "has nothing to learn");
    refuse("--num-threads 2", "3 mistakes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vocabularies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
