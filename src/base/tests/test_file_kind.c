/* Tests which texts are taken for a table. tests/cli/test_file_kinds.sh gives the other kinds to the commands. */
#include "kit.h"
#include "megalith/file_kind.h"
#include <string.h>

static void tables_without_their_name(void **state)
{
    (void)state;
    static const struct {
        int columns;
        char separator;
        const char *text;
    } row[] = {
        {2, ',', "label,text\n1,The fox runs.\n0,A dog sleeps.\n"},
        {3, ',', "\xef\xbb\xbfid,text,label\r\n1,\"The fox, who \"\"runs\"\".\nAgain.\",0\r\n2,A dog,1\r\n3,An o"},
        {2, '\t', "label\ttext\n1\tThe fox, who runs.\n0\tA dog sleeps.\n"},
        {2, ';', "\"label\";\"text\"\n1;The fox\n0;A dog\n"},
        {0, 0, "label,text\n1,The fox runs.\n"},                       /* one record shows no form */
        {0, 0, "label,text\n1,The fox runs.\n0,A dog, a cat.\n1,x\n"}, /* another number of fields */
        {0, 0, "First, the fox\nSecond, a dog\nThird, the owl\n"},     /* prose */
        {0, 0, "So,\nall,\nthat,\n"},
        {0, 0, "one word a line\nanother\nthird\n"},
        {0, 0, "1,2\n3,4\n5,6\n"}, /* no names */
        {0, 0, "name,\"text\n"},
        {0, 0, ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char separator = 0;
        const int columns = mega_file_table_columns(row[i].text, strlen(row[i].text), &separator);
        if (columns != row[i].columns || separator != row[i].separator)
            fail_msg("%s: %d columns by %d, expected %d by %d", row[i].text, columns, separator, row[i].columns,
                     row[i].separator);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_without_their_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
