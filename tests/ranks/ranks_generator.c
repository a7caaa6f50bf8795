/* Generates a greedy text with mega_generator_open on ranks that share a folder, and prints it from the first.
 *
 *   ranks_generator FOLDER tp|pp|ep|none PROMPT   none: as many copies as ranks, which is refused */
#include "megalith/comm.h"
#include "megalith/generator.h"
#include "rank.h"

#include <string.h>

enum { MOST = 64, FRESH = 12 };

int main(int argc, char **argv)
{
    int32_t prompt[MOST], tokens[FRESH];
    if (argc < 4) return 2;
    mega_generation text = {.prompt = prompt, .max_new = FRESH, .tokens = tokens};
    const mega_generation_rules rules = {.sampling.greedy = true};
    mega_generator_setup setup = {.folder = argv[1], .threads = 1};
    mega_generator *g = NULL;
    mega_buffer out = {0};
    need(mega_world_create(NULL, &setup.world));
    const int ranks = mega_world_size(setup.world);
    setup.tp = strcmp(argv[2], "tp") == 0 ? ranks : 1;
    setup.pp = strcmp(argv[2], "pp") == 0 ? ranks : 1;
    setup.ep = strcmp(argv[2], "ep") == 0 ? ranks : 1;
    need(mega_generator_open(&setup, &g));
    need(mega_generator_encode(g, argv[3], prompt, MOST, &text.prompt_count));
    need(mega_generator_run(g, &text, 1, &rules));
    need(mega_generator_decode(g, tokens, text.count, &out));
    if (mega_world_rank(setup.world) == 0) printf("%s%.*s\n", argv[3], (int)out.size, out.data);
    mega_buffer_fini(&out);
    mega_generator_destroy(g);
    mega_world_destroy(setup.world);
    return 0;
}
