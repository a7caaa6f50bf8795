/* Recognises the marks by which MPI launchers label a piece of output with its rank. */
#include "launch_impl.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_MOST = 128 };

/* Open MPI: "[job,rank]<stdout>:". Returns the length of the mark; 0: none here; -1: more text is needed. */
static int openmpi_mark(const char *text, size_t size, int *rank)
{
    const char *close = memchr(text, ']', size < MARK_MOST ? size : MARK_MOST);
    if (text[0] != '[' || memchr(text, '\n', close != NULL ? (size_t)(close - text) : size) != NULL) return 0;
    if (close == NULL) return size < MARK_MOST ? -1 : 0;
    const char *comma = close;
    while (comma > text && isdigit((unsigned char)comma[-1])) comma--;
    if (comma == close || comma[-1] != ',') return 0;
    static const char *const ends[] = {"]<stdout>:", "]<stderr>:"};
    const size_t length = strlen(ends[0]), left = size - (size_t)(close - text);
    for (int i = 0; i < 2; i++) {
        if (strncmp(close, ends[i], left < length ? left : length) != 0) continue;
        if (left < length) return -1;
        *rank = atoi(comma);
        return (int)(close - text) + (int)length;
    }
    return 0;
}

/* Hydra: the text that -prepend-pattern specified. */
static int mpich_mark(const char *text, size_t size, int *rank)
{
    if (text[0] != '\036') return 0;
    const char *end = memchr(text, '\037', size < 16 ? size : 16);
    if (end == NULL) return size < 16 ? -1 : 0;
    *rank = atoi(text + 1);
    return (int)(end - text) + 1;
}

/* srun --label: whole lines, "  3: text". */
static int slurm_mark(const char *text, size_t size, int *rank)
{
    size_t i = 0;
    while (i < size && text[i] == ' ') i++;
    const size_t first = i;
    while (i < size && isdigit((unsigned char)text[i])) i++;
    if (i == size && i < 16) return -1;
    if (i == first || i >= 16 || text[i] != ':') return 0;
    if (i + 1 == size) return -1;
    if (text[i + 1] != ' ' && text[i + 1] != '\n') return 0;
    *rank = atoi(text);
    return (int)i + 1 + (text[i + 1] == ' ');
}

int launch_mark(const launch_plan *p, bool in_line, const char *text, size_t size, int *out_rank)
{
    int used = 0;
    switch (p->kind) {
    case LAUNCH_NONE: return 0;
    case LAUNCH_OPENMPI:
        used = openmpi_mark(text, size, out_rank);
        /* since version 5 a blank follows */
        if (used > 0 && p->major >= 5) used = (size_t)used == size ? -1 : used + (text[used] == ' ');
        break;
    case LAUNCH_MPICH: used = mpich_mark(text, size, out_rank); break;
    case LAUNCH_SLURM: used = in_line ? 0 : slurm_mark(text, size, out_rank); break;
    }
    return used > 0 && (*out_rank < 0 || *out_rank >= p->world) ? 0 : used;
}
