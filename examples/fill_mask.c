/* Fills the masks of texts with a folder of BERT or its kin: the most probable tokens of each, and the text that they
 * give.
 *
 *     ./fill_mask FOLDER "the [MASK] jumps over the lazy [MASK]" "a second text with a [MASK]" …
 *
 * Also on several ranks that share the model: megalith launch --nproc_per_node 2 ./fill_mask FOLDER … (each rank then
 * holds a part of the heads and of the vocabulary). */
#include <megalith/megalith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 3, MOST = 256, MASKS = 8 };

static void need(mega_status st)
{
    if (st == MEGA_OK) return;
    fprintf(stderr, "fill_mask: %s\n", mega_error_message());
    exit(1);
}

/* Prints the text of some ids, after a title. */
static void print_ids(const mega_filler *f, const char *title, const int32_t *ids, int64_t count)
{
    mega_buffer text = {0};
    need(mega_filler_decode(f, ids, count, &text));
    printf("%s%.*s\n", title, (int)text.size, text.data);
    mega_buffer_fini(&text);
}

static void fill(mega_filler *f, const char *text, bool prints)
{
    static int32_t tokens[MOST];
    static mega_filling best[MASKS * TOP];
    int64_t begin[2] = {0, 0}, mask = 0;
    char title[64];
    need(mega_filler_encode(f, text, tokens, MOST, &begin[1]));
    const mega_masked_texts texts = {.tokens = tokens, .begin = begin, .count = 1, .top = TOP};
    need(mega_filler_run(f, &texts, best, MASKS * TOP));
    if (!prints) return;
    printf("%s\n", text);
    for (int64_t i = 0; i < begin[1]; i++) {
        if (tokens[i] != mega_filler_mask(f)) continue;
        for (int k = 0; k < TOP; k++) {
            snprintf(title, sizeof title, "  mask %d: %.4f ", (int)mask + 1, (double)best[mask * TOP + k].score);
            print_ids(f, title, &best[mask * TOP + k].token, 1);
        }
        mask++;
    }
    /* the best token of each mask in its place */
    for (int64_t i = 0, n = 0; i < begin[1]; i++)
        if (tokens[i] == mega_filler_mask(f)) tokens[i] = best[TOP * n++].token;
    print_ids(f, "  ", tokens, begin[1]);
}

int main(int argc, char **argv)
{
    mega_world *world = NULL;
    mega_filler *f = NULL;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("usage: fill_mask FOLDER TEXT...\n");
        return 0;
    }
    mega_filler_setup setup = {.folder = argc > 1 ? argv[1] : ".", .masks = MASKS};
    need(mega_world_create(NULL, &world));
    setup.world = world;
    setup.tp = mega_world_size(world);
    need(mega_filler_open(&setup, &f));
    for (int i = 2; i < argc; i++) fill(f, argv[i], mega_world_rank(world) == 0);
    mega_filler_destroy(f);
    mega_world_destroy(world);
    return 0;
}
