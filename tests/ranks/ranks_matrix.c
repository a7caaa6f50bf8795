/* Prints the rows of the parity matrix, one line "RANKS SETTING…" each. Usage: ranks_matrix full|sparse */
#include "parity_matrix.h"

int main(int argc, char **argv)
{
    static cover c;
    const bool full = argc == 2 && strcmp(argv[1], "full") == 0;
    if (argc != 2 || (!full && strcmp(argv[1], "sparse") != 0)) {
        fprintf(stderr, "usage: ranks_matrix full|sparse\n");
        return 2;
    }
    if (!matrix_make(&c, full)) return 1;
    for (int i = 0; i < c.rows; i++) matrix_print(&c.row[i], stdout);
    return 0;
}
